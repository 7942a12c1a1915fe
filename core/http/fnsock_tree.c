/* Trees that functions left behind, or fill: removing and measuring them.
 *
 * Functions may leave anything: a file of a million fragments, a directory deeper than any path.
 * Trees are removed without recursion: what is found in a subdirectory is moved up first, so that
 * depth costs neither stack nor descriptors. */
#include <http/fnsock_dirs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fn/abi.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOVED_NAME       ".gone%" PRIu64
#define MEASURED_DEPTH   4 /* nothing that a function needs lies deeper than 0 */
#define STAT_BLOCK_BYTES 512

static DIR *open_dir(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (!d && fd >= 0) {
        close(fd);
    }
    return d;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- removing ------------------------------------------------------------------------------- */

/* One removal of a tree: what may still be done, and how to name what is moved up. */
struct removal {
    uint64_t left; /* entries that may still be looked at */
    uint64_t names;
    bool any; /* something was removed or moved */
    const atomic_bool *stop;
};

static bool may_go_on(struct removal *r)
{
    if (r->left == 0 || (r->stop && atomic_load(r->stop))) {
        return false;
    }
    r->left--;
    return true;
}

/* Removes `name` in `top`, a directory's content being moved into `top` first. true: something was
 * moved, so that another round is needed. */
static bool remove_entry(int top_fd, const char *name, struct removal *r)
{
    char moved[32];
    struct dirent *e;
    bool any = false;
    DIR *d;

    if (unlinkat(top_fd, name, 0) == 0 || unlinkat(top_fd, name, AT_REMOVEDIR) == 0) {
        r->any = true;
        return false;
    }
    d = open_dir(top_fd, name);
    while (d && (e = readdir(d)) && may_go_on(r)) {
        if (is_dots(e->d_name)) {
            continue;
        }
        if (unlinkat(dirfd(d), e->d_name, 0) == 0) {
            r->any = true;
            continue;
        }
        snprintf(moved, sizeof(moved), MOVED_NAME, r->names++);
        any |= renameat(dirfd(d), e->d_name, top_fd, moved) == 0;
    }
    if (d) {
        closedir(d);
    }
    r->any |= unlinkat(top_fd, name, AT_REMOVEDIR) == 0 || any;
    return any;
}

int tree_remove(int parent_fd, const char *name, uint64_t entries, const atomic_bool *stop)
{
    struct removal r = { .left = entries, .stop = stop };
    struct dirent *e;
    bool lock_too = false;
    bool moved, again;
    DIR *top;

    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    top = open_dir(parent_fd, name);
    if (!top) {
        return FN_E_ABORTED;
    }
    do {
        moved = false;
        rewinddir(top);
        while ((e = readdir(top)) && may_go_on(&r)) {
            if (!is_dots(e->d_name) && (lock_too || strcmp(e->d_name, IOFS_LOCK_NAME) != 0)) {
                moved |= remove_entry(dirfd(top), e->d_name, &r);
            }
        }
        again = moved || !lock_too;
        lock_too = !moved; /* last: whoever finds the rest must know it for ours */
    } while (again && may_go_on(&r));
    closedir(top);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0) {
        return 0;
    }
    /* Those that come first may all belong to somebody else: then more tries would never end. */
    return (r.left == 0 && r.any) || (stop && atomic_load(stop)) ? FN_E_EXHAUSTED : FN_E_ABORTED;
}

void tree_unmount(const char *path)
{
    DIR *d = open_dir(AT_FDCWD, path);
    struct dirent *e;
    char below[PATH_BYTES];

    while (d && (e = readdir(d))) {
        if (!is_dots(e->d_name) &&
            snprintf(below, sizeof(below), "%s/%s", path, e->d_name) < (int)sizeof(below)) {
            umount2(below, MNT_DETACH | UMOUNT_NOFOLLOW); /* no mount there: fails, no matter */
        }
    }
    if (d) {
        closedir(d);
    }
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct measure {
    uint64_t bytes_left, inodes_left;
};

static bool measure_dir(DIR *d, struct measure *m, int depth)
{
    struct dirent *e;
    struct stat st;
    bool fits = true;
    DIR *below;

    while (fits && (e = readdir(d))) {
        if (is_dots(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        uint64_t bytes = (uint64_t)st.st_blocks * STAT_BLOCK_BYTES;

        fits = m->inodes_left > 0 && bytes <= m->bytes_left;
        m->inodes_left -= fits;
        m->bytes_left -= fits ? bytes : 0;
        below = fits && S_ISDIR(st.st_mode) ? open_dir(dirfd(d), e->d_name) : NULL;
        if (below) {
            fits = depth < MEASURED_DEPTH && measure_dir(below, m, depth + 1);
            closedir(below);
        }
    }
    return fits;
}

bool tree_fits(int dir_fd, uint64_t bytes_max, uint64_t inodes_max)
{
    struct measure m = { bytes_max, inodes_max };
    struct stat st;
    bool fits;
    DIR *d;

    /* a directory that was large stays so on most file systems */
    if (fstat(dir_fd, &st) == 0 && (uint64_t)st.st_size > bytes_max) {
        return false;
    }
    d = open_dir(dir_fd, ".");
    fits = !d || measure_dir(d, &m, 0);
    if (d) {
        closedir(d);
    }
    return fits;
}
