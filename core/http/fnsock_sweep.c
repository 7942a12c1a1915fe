/* What dead processes left: a directory whose lock can be taken belongs to nobody alive. */
#include <http/fnsock_dirs.h>
#include <base/log.h>
#include <http/fnsock.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* true when the directory belonged to a dead process of ours and is gone now. One without a lock
 * file may be anybody's: it goes only when it is empty. */
static bool sweep_one(const char *base, int base_fd, const char *name, const atomic_bool *stop)
{
    char path[PATH_BYTES];
    struct stat st;
    bool dead = false;
    int lock_fd = -1;
    int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid()) {
        lock_fd = openat(fd, IOFS_LOCK_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        dead = lock_fd >= 0 ? flock(lock_fd, LOCK_EX | LOCK_NB) == 0
                            : unlinkat(base_fd, name, AT_REMOVEDIR) == 0;
    }
    if (dead) {
        if (snprintf(path, sizeof(path), "%s/%s", base, name) < (int)sizeof(path)) {
            tree_unmount(path);
        }
        dead = tree_remove(base_fd, name, ALL_ENTRIES, stop) == 0;
    }
    if (lock_fd >= 0) {
        close(lock_fd);
    }
    if (fd >= 0) {
        close(fd);
    }
    return dead;
}

int sweep_dead(const char *base, const atomic_bool *stop)
{
    DIR *d = opendir(base);
    struct dirent *e;
    int removed = 0;

    while (d && !(stop && atomic_load(stop)) && (e = readdir(d))) {
        if (strncmp(e->d_name, INSTANCE_PREFIX, strlen(INSTANCE_PREFIX)) == 0 &&
            sweep_one(base, dirfd(d), e->d_name, stop)) {
            log_info("removed the socket directory of a dead process", "dir", e->d_name);
            removed++;
        }
    }
    if (d) {
        closedir(d);
    }
    return removed;
}
