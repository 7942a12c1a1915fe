/* Opens a plugin file directory by directory without following links, and checks owner and mode
 * of each: whoever may write one of them can run code in the node. */
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

/* The directory lies above our own executable too: whoever may write there can replace that. */
static bool is_above_us(const char *dir)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    size_t len = strlen(dir);

    if (n <= 0) {
        return false;
    }
    exe[n] = '\0';
    return len == 0 || (strncmp(exe, dir, len) == 0 && exe[len] == '/');
}

/* Whoever can rename a directory of the path can put another file there. Sticky directories keep
 * the entries of others. What also holds our executable is told only: build machines commonly have
 * such a directory near the root, and it gives nobody more than he has. */
static int check_directory(struct plugin_check *c, const char *dir, const struct stat *found,
                           bool last)
{
    char what[PATH_MAX + 32];
    struct stat st = *found;

    if (st.st_mode & S_ISVTX) {
        st.st_mode &= (mode_t)~(S_IWGRP | S_IWOTH);
    }
    if (!last && is_above_us(dir)) {
        if (st.st_mode & (S_IWGRP | S_IWOTH)) {
            log_warn("a directory above a plugin lets others write", "plugin", c->path, "directory",
                     dir[0] ? dir : "/", "by", writable_by(st.st_mode));
        }
        return 0;
    }
    snprintf(what, sizeof(what), "%s %s", last ? "its directory" : "the directory",
             dir[0] ? dir : "/");
    return check_owner_and_mode(c, what, &st);
}

/* Opens the directory step by step from the root, no step through a link, and looks at each. The
 * path is resolved already: a link means that somebody changes it right now. */
static int walk(struct plugin_check *c, const char *dir)
{
    char up[PATH_MAX];
    struct stat st;
    int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t done = 0;
    int r = 0;

    snprintf(up, sizeof(up), "%s", dir);
    for (;;) {
        char *name = up + done + 1;
        size_t len = dir[done] ? strcspn(dir + done + 1, "/") : 0;
        int next;

        up[done] = '\0';
        if (at < 0 || fstat(at, &st) < 0) {
            r = plugin_problem(c, err_from_errno(errno), "PLG901", "directory %s: %s",
                               done ? up : "/", strerror(errno));
            break;
        }
        r = check_directory(c, up, &st, len == 0);
        if (r < 0 || len == 0) {
            break;
        }
        name[len] = '\0';
        next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
        up[done] = '/';
        done += len + 1;
    }
    if (r < 0 && at >= 0) {
        close(at);
    }
    return r < 0 ? r : at;
}

/* Resolves the directory; the last component is kept, so that a link there is seen. */
static int path_resolve(struct plugin_check *c, char *ret, size_t cap, char *ret_dir)
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
    ret->ctime_ns = st.st_ctim.tv_sec * ENV_S + st.st_ctim.tv_nsec;
    return 0;
}

int plugin_path_open(struct plugin_check *c, struct plugin_stat *ret)
{
    char dir[PATH_MAX];
    int at;
    int fd;
    int r;

    r = path_resolve(c, ret->path, sizeof(ret->path), dir);
    if (r < 0) {
        return r;
    }
    at = walk(c, dir);
    if (at < 0) {
        return at;
    }
    /* Not blocking: a fifo must not stop the node. */
    fd = openat(at, strrchr(ret->path, '/') + 1,
                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    r = fd < 0 ? errno : 0;
    close(at);
    if (fd < 0) {
        if (r == ELOOP) {
            return plugin_problem(c, FN_E_INVALID, "PLG901",
                                  "is a symbolic link; expected a regular file");
        }
        return plugin_problem(c, err_from_errno(r), "PLG901", "%s", strerror(r));
    }
    r = check_file(c, fd, ret);
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}

int plugin_path_trusted(const char *path, struct fn_error *reterr)
{
    struct plugin_check c = { .path = path, .first = reterr };
    struct plugin_stat st;
    int fd = plugin_path_open(&c, &st);

    if (fd >= 0) {
        close(fd);
    }
    return fd < 0 ? fd : 0;
}
