/* Reads the file of wishes at the start; afterwards a worker writes it anew beside the old one
 * and renames it, whenever something changed. */
#include <poolserver/keep.h>

#include <base/log.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (NPM_WISHES_MAX * (NPM_ID_MAX + 80u))

struct npm_keep {
    struct env *env;
    struct npm_wishes *wishes;
    char *path, *path_new;
    struct env_work work;
    struct buf text; /* being written */
    struct fn_error failed;
    bool writing, again;
    void (*stopped)(void *ud);
    void *stopped_ud;
};

/* ---- reading --------------------------------------------------------------------------------- */

static int read_all(int fd, struct buf *ret)
{
    char piece[4096];
    ssize_t n;

    while ((n = read(fd, piece, sizeof(piece))) > 0 && ret->len < FILE_MAX) {
        if (buf_add(ret, piece, (size_t)n) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return n < 0 ? err_from_errno(errno) : n > 0 ? FN_E_RANGE : 0;
}

/* Another user's file is not believed, and his pipe not waited for: the folder may be one that
 * everybody writes to. */
static int open_own(const char *path, struct fn_error *reterr)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ENOENT) {
        return FN_E_NOT_FOUND;
    }
    if (fd < 0) {
        return err_set(reterr, err_from_errno(errno), "%s: %s", path, strerror(errno));
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        close(fd);
        return err_set(reterr, FN_E_PERMISSION, "%s: expected a file of user %u", path,
                       (unsigned)geteuid());
    }
    return fd;
}

static void keep_load(struct npm_keep *k)
{
    struct fn_error e = ERR_INIT;
    struct buf text = BUF_INIT(0);
    int fd = open_own(k->path, &e);
    uint32_t bad;
    int r;

    if (fd < 0) {
        if (fd != FN_E_NOT_FOUND) {
            log_error("the file of operators' commands about runners cannot be read", "error",
                      e.msg);
        }
        return;
    }
    r = read_all(fd, &text);
    close(fd);
    bad = r < 0 ? 0 : npm_wishes_read(k->wishes, buf_text(&text), env_now_ns(k->env));
    if (r < 0 || bad > 0) {
        log_error("the file of operators' commands about runners has lines that cannot be read",
                  "file", k->path, "bad_lines", log_num(bad), "error",
                  r < 0 ? "it cannot be read" : NULL);
    }
    buf_finish(&text);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int keep_write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno != EINTR) {
            return -1;
        }
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* [worker] */
static void write_file(struct env_work *w, struct fn_op *op)
{
    struct npm_keep *k = container_of(w, struct npm_keep, work);
    int fd = open(k->path_new,
                  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    bool good = fd >= 0 && keep_write_all(fd, k->text.data, k->text.len) == 0 && fsync(fd) == 0;

    (void)op;
    if (!good) {
        err_set(&k->failed, err_from_errno(errno), "%s: %s", k->path_new, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    if (good && rename(k->path_new, k->path) < 0) {
        err_set(&k->failed, err_from_errno(errno), "%s: %s", k->path, strerror(errno));
    }
}

static void start_write(struct npm_keep *k);

static void on_written(struct env_work *w)
{
    struct npm_keep *k = container_of(w, struct npm_keep, work);

    k->writing = false;
    buf_finish(&k->text);
    if (k->failed.code < 0) {
        log_error("operators' commands about runners cannot be written to their file: a restart "
                  "would forget them",
                  "error", k->failed.msg);
    }
    if (k->again) {
        start_write(k);
    }
    if (!k->writing && k->stopped) {
        k->stopped(k->stopped_ud);
    }
}

static void start_write(struct npm_keep *k)
{
    k->again = false;
    k->failed = ERR_INIT;
    k->text = BUF_INIT(0);
    k->work = (struct env_work){
        .run = write_file, .done = on_written, .lane = ENV_LANE_CONTROL, .timeout_ns = 0
    };
    k->writing = true;
    if (npm_wishes_write(k->wishes, &k->text) < 0 || env_submit(k->env, &k->work) < 0) {
        k->writing = false;
        buf_finish(&k->text);
        err_set(&k->failed, FN_E_EXHAUSTED, "%s: out of memory", k->path);
        log_error("operators' commands about runners cannot be written to their file: a restart "
                  "would forget them",
                  "error", k->failed.msg);
    }
}

void npm_keep_changed(struct npm_keep *k)
{
    if (!k) {
        return;
    }
    if (k->writing) {
        k->again = true;
    } else {
        start_write(k);
    }
}

const char *npm_keep_error(const struct npm_keep *k)
{
    return k ? k->failed.msg : "npm.wishes_file is not set, and admin.socket is off";
}

bool npm_keep_is_writing(const struct npm_keep *k)
{
    return k && k->writing;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct npm_keep *npm_keep_open(struct env *env, struct npm_wishes *wishes, const char *path)
{
    struct npm_keep *k = calloc(1, sizeof(*k));

    if (!k) {
        return NULL;
    }
    *k =
        (struct npm_keep){ .env = env, .wishes = wishes, .path = strdup(path), .failed = ERR_INIT };
    if (!k->path || asprintf(&k->path_new, "%s.new", path) < 0) {
        k->path_new = NULL;
        npm_keep_close(k);
        return NULL;
    }
    keep_load(k);
    return k;
}

void npm_keep_stop(struct npm_keep *k, void (*done)(void *ud), void *ud)
{
    if (!k || !k->writing) {
        done(ud);
        return;
    }
    k->stopped = done;
    k->stopped_ud = ud;
}

void npm_keep_close(struct npm_keep *k)
{
    if (k) {
        free(k->path);
        free(k->path_new);
        free(k);
    }
}
