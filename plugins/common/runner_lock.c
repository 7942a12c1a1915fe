/* Does the runner live that made a container? It holds a lock in its directory of sockets
 * (fn/driver.h, fn_task.iofs_dir) as long as it lives, so a label of its containers says where: the
 * machine (by its boot), the file system and directory (by their numbers), and the path. Whoever
 * finds the same directory at that path on the same machine can judge; nobody else does, since a
 * path means something else in another container or on another machine. */
#include "runner_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_FILE  "/proc/sys/kernel/random/boot_id"
#define BOOT_MAX   40
#define LOCK_NAME  "/.lock"

/* "" when it cannot be read: then nobody judges. */
static void boot_id(char ret[BOOT_MAX])
{
    int fd = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret, BOOT_MAX - 1) : 0;

    if (fd >= 0) {
        close(fd);
    }
    ret[n > 0 ? n : 0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

/* Cuts the last part of a path off; false when there is none. */
static bool up(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash || slash == path) {
        return false;
    }
    *slash = '\0';
    return true;
}

void lock_label(const char *iofs_dir, char *ret, size_t cap)
{
    char path[LOCK_LABEL_MAX], base[LOCK_LABEL_MAX], boot[BOOT_MAX];
    char file[LOCK_LABEL_MAX + sizeof(LOCK_NAME)];
    struct stat st;

    *ret = '\0';
    boot_id(boot);
    if (!*boot || !iofs_dir || snprintf(path, sizeof(path), "%s", iofs_dir) >= (int)sizeof(path) ||
        !up(path)) {
        return;
    }
    memcpy(base, path, sizeof(base));
    snprintf(file, sizeof(file), "%s" LOCK_NAME, path);
    if (access(file, F_OK) < 0 || !up(base) || stat(base, &st) < 0 || /* a host without locks */
        snprintf(ret, cap, "%s %llx:%llx %s", boot, (unsigned long long)st.st_dev,
                 (unsigned long long)st.st_ino, path) >= (int)cap) {
        *ret = '\0';
    }
}

/* true when nobody holds the lock in the directory `path`. */
static bool is_free(const char *path)
{
    char file[LOCK_LABEL_MAX + sizeof(LOCK_NAME)];
    bool free_now;
    int fd;

    snprintf(file, sizeof(file), "%s" LOCK_NAME, path);
    fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        /* swept already; a cleaner of old files takes the lock of a living one, and no sockets */
        return errno == ENOENT && access(path, F_OK) < 0;
    }
    free_now = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return free_now;
}

static bool is_held(const char *path)
{
    char file[LOCK_LABEL_MAX + sizeof(LOCK_NAME)];
    bool held;
    int fd;

    snprintf(file, sizeof(file), "%s" LOCK_NAME, path);
    fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    held = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

/* The directory that the label names, if it is the same here; false: nobody here can judge. */
static bool find(const char *label, char path[LOCK_LABEL_MAX])
{
    char boot[BOOT_MAX], theirs[BOOT_MAX], base[LOCK_LABEL_MAX];
    unsigned long long dev, ino;
    struct stat st;
    int at = 0;

    boot_id(boot);
    if (!*boot || sscanf(label, "%39s %llx:%llx %n", theirs, &dev, &ino, &at) < 3 || at == 0 ||
        strcmp(boot, theirs) != 0 || label[at] != '/' ||
        snprintf(path, LOCK_LABEL_MAX, "%s", label + at) >= LOCK_LABEL_MAX) {
        return false;
    }
    memcpy(base, path, sizeof(base));
    return up(base) && stat(base, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

bool lock_is_held(const char *label)
{
    char path[LOCK_LABEL_MAX];

    return find(label, path) && is_held(path);
}

bool lock_is_dead(const char *label)
{
    char path[LOCK_LABEL_MAX];

    return find(label, path) && is_free(path);
}
