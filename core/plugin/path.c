#include <plugin/plugin_int.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *writable_by(mode_t mode)
{
    return (mode & S_IWOTH) ? "everybody" : "group";
}

/* The owners that we trust anyway: root, ourselves, and whoever owns our own executable. */
static bool owner_trusted(uid_t uid)
{
    struct stat self;

    if (uid == 0 || uid == geteuid()) {
        return true;
    }
    return stat("/proc/self/exe", &self) == 0 && self.st_uid == uid;
}

static int check_owner_and_mode(struct plugin_check *c, const char *what, const struct stat *st)
{
    if (st->st_mode & (S_IWGRP | S_IWOTH)) {
        return plugin_problem(c, FN_E_PERMISSION, "PLG902",
                              "%s is writable by %s, got mode %04o; expected no write right for "
                              "group and others",
                              what, writable_by(st->st_mode), (unsigned)(st->st_mode & 07777));
    }
    if (!owner_trusted(st->st_uid)) {
        return plugin_problem(c, FN_E_PERMISSION, "PLG902",
                              "%s belongs to uid %u; expected root, uid %u of this process or the "
                              "owner of its executable",
                              what, (unsigned)st->st_uid, (unsigned)geteuid());
    }
    return 0;
}

/* Whoever can rename a directory above can put another file in our path. That is refused for the
 * directory that holds the file; above it only told, because build machines commonly have such
 * directories near the root and the operator cannot change them. Sticky directories keep the
 * entries of others. */
static int check_directories(struct plugin_check *c, const char *dir)
{
    char up[PATH_MAX];
    char what[PATH_MAX + 16];
    struct stat st;
    char *slash;
    bool first = true;
    int r;

    snprintf(up, sizeof(up), "%s", dir);
    for (;;) {
        const char *shown = up[0] ? up : "/";

        if (stat(shown, &st) < 0) {
            return plugin_problem(c, err_from_errno(errno), "PLG901", "directory %s: %s", shown,
                                  strerror(errno));
        }
        if (st.st_mode & S_ISVTX) {
            st.st_mode &= (mode_t)~(S_IWGRP | S_IWOTH);
        }
        if (first) {
            snprintf(what, sizeof(what), "its directory %s", shown);
            r = check_owner_and_mode(c, what, &st);
            if (r < 0) {
                return r;
            }
        } else if (st.st_mode & (S_IWGRP | S_IWOTH)) {
            log_warn("a directory above a plugin lets others write", "plugin", c->path,
                     "directory", shown, "by", writable_by(st.st_mode));
        }
        first = false;
        slash = strrchr(up, '/');
        if (!slash || !up[0]) {
            return 0;
        }
        *slash = '\0';
    }
}

/* Resolves the directory; the last component is kept, so that a link there is seen. */
static int resolve(struct plugin_check *c, char *ret, size_t cap, char *ret_dir)
{
    char copy[PATH_MAX];
    const char *base;
    char *slash;

    if (strlen(c->path) >= sizeof(copy)) {
        return plugin_problem(c, FN_E_INVALID, "PLG901", "path is too long, got %zu bytes; "
                              "expected less than %d", strlen(c->path), PATH_MAX);
    }
    snprintf(copy, sizeof(copy), "%s", c->path);
    slash = strrchr(copy, '/');
    base = slash ? c->path + (slash - copy) + 1 : c->path;
    if (slash) {
        slash[slash == copy] = '\0';
    }
    if (!realpath(slash ? copy : ".", ret_dir)) {
        return plugin_problem(c, err_from_errno(errno), "PLG901", "%s", strerror(errno));
    }
    if (snprintf(ret, cap, "%s/%s", strcmp(ret_dir, "/") ? ret_dir : "", base) >= (int)cap) {
        return plugin_problem(c, FN_E_INVALID, "PLG901", "path is too long; expected less than %d "
                              "bytes", PATH_MAX);
    }
    return 0;
}

static int check_file(struct plugin_check *c, int fd, struct plugin_stat *ret)
{
    struct stat st;
    int r;

    if (fstat(fd, &st) < 0) {
        return plugin_problem(c, err_from_errno(errno), "PLG901", "%s", strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return plugin_problem(c, FN_E_INVALID, "PLG901", "is %s; expected a regular file",
                              S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
    }
    r = check_owner_and_mode(c, "the file", &st);
    if (r < 0) {
        return r;
    }
    if (st.st_size > PLUGIN_FILE_BYTES_MAX) {
        return plugin_problem(c, FN_E_INVALID, "PLG901", "is too large, got %lld bytes; expected "
                              "at most %d", (long long)st.st_size, PLUGIN_FILE_BYTES_MAX);
    }
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    ret->size = (uint64_t)st.st_size;
    ret->mtime_ns = st.st_mtim.tv_sec * ENV_S + st.st_mtim.tv_nsec;
    return 0;
}

int plugin_path_open(struct plugin_check *c, struct plugin_stat *ret)
{
    char dir[PATH_MAX];
    int fd;
    int r;

    r = resolve(c, ret->path, sizeof(ret->path), dir);
    if (r < 0) {
        return r;
    }
    /* Not blocking: a fifo must not stop the node. */
    fd = open(ret->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno == ELOOP) {
            return plugin_problem(c, FN_E_INVALID, "PLG901",
                                  "is a symbolic link; expected a regular file");
        }
        return plugin_problem(c, err_from_errno(errno), "PLG901", "%s", strerror(errno));
    }
    r = check_file(c, fd, ret);
    if (r == 0) {
        r = check_directories(c, dir);
    }
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}
