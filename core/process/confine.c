/* Only writing is watched: what a node reads is what its user may read, and plugins bring libraries
 * and data from where their vendors put them. A descriptor that was open before stays as it is. */
#include <process/confine.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Younger than the headers of Debian 12. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#define WRITES_OF_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define MAKES                                                                                      \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                              \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |    \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
     LANDLOCK_ACCESS_FS_MAKE_SYM)

/* What this version of the kernel's interface can watch. */
static uint64_t writes_of(long version)
{
    return LANDLOCK_ACCESS_FS_WRITE_FILE | MAKES |
           (version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) |
           (version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0);
}

static int allow(int rules, const char *path, uint64_t writes)
{
    struct landlock_path_beneath_attr beneath = { .parent_fd = open(path, O_PATH | O_CLOEXEC) };
    struct stat st = { .st_mode = 0 };
    int r = 0;

    if (beneath.parent_fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
    }
    (void)fstat(beneath.parent_fd, &st);
    beneath.allowed_access = S_ISDIR(st.st_mode) ? writes : writes & WRITES_OF_FILE;
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0) {
        r = -errno;
    }
    close(beneath.parent_fd);
    return r;
}

int confine_apply(const char *const *writable)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct landlock_ruleset_attr watched = { .handled_access_fs = writes_of(version) };
    int rules;
    int r = 0;

    if (version < 0) {
        return -errno;
    }
    rules = (int)syscall(SYS_landlock_create_ruleset, &watched, sizeof(watched), 0);
    if (rules < 0) {
        return -errno;
    }
    for (const char *const *path = writable; *path && r == 0; path++) {
        r = allow(rules, *path, watched.handled_access_fs);
    }
    if (r == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0) {
        r = -errno;
    }
    close(rules);
    return r;
}
