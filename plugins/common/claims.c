#include "claims.h"

#include "fail.h"
#include "hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0600
#define DIR_MODE  0755

int claims_init(struct claims *c, const struct fn_host *host, const char *path)
{
    *c = (struct claims){ .host = host, .fd = -1, .path = strdup(path) };
    if (!c->path) {
        return FN_E_EXHAUSTED;
    }
    pthread_mutex_init(&c->lock, NULL);
    return 0;
}

void claims_finish(struct claims *c)
{
    if (!c->path) {
        return;
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->others);
    free(c->path);
}

/* ---- what the log says ----------------------------------------------------------------------- */

static void say(const struct claims *c, uint32_t level, const char *text)
{
    if (*c->host->log->level >= level) {
        c->host->log->write(c->host, level, text, strlen(text));
    }
}

static bool is_others(const struct claims *c, uint64_t key, uint32_t *ret)
{
    for (*ret = 0; *ret < c->n_others; (*ret)++) {
        if (c->others[*ret] == key) {
            return true;
        }
    }
    return false;
}

/* Without memory it is said again. */
static void tell_others(struct claims *c, uint64_t key, const char *text)
{
    uint64_t *more;
    uint32_t i;

    if (is_others(c, key, &i)) {
        return;
    }
    say(c, FN_LOG_WARN, text);
    more = realloc(c->others, (c->n_others + 1) * sizeof(*more));
    if (more) {
        more[c->n_others++] = key;
        c->others = more;
    }
}

static void tell_ours(struct claims *c, uint64_t key, const char *group)
{
    char text[256];
    uint32_t i;

    if (!is_others(c, key, &i)) {
        return;
    }
    c->others[i] = c->others[--c->n_others];
    snprintf(text, sizeof(text),
             "no other manager has group %.64s any more: this one adds and removes its runners",
             group);
    say(c, FN_LOG_WARN, text);
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* Who cleans up a directory may take the file away; a lock on what has no name binds nobody. */
static bool is_named(const struct claims *c)
{
    struct stat named, open_one;

    return c->fd >= 0 && stat(c->path, &named) == 0 && fstat(c->fd, &open_one) == 0 &&
           named.st_dev == open_one.st_dev && named.st_ino == open_one.st_ino;
}

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, DIR_MODE); /* what is missing, open() tells */
        *slash = '/';
    }
}

static int open_file(struct claims *c, struct fn_error *reterr)
{
    static const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

    if (is_named(c)) {
        return 0;
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    c->fd = open(c->path, flags, FILE_MODE);
    if (c->fd < 0 && errno == ENOENT) {
        make_parents(c->path);
        c->fd = open(c->path, flags, FILE_MODE);
    }
    return c->fd >= 0 ? 0
                      : fail_platform(reterr, FN_E_UNAVAILABLE, "%.120s: %s", c->path,
                                      strerror(errno));
}

/* l_pid: 0 when the holder is in another namespace of processes, or gone by now. */
static int refused(struct claims *c, uint64_t key, struct flock *at, const char *group,
                   struct fn_error *reterr)
{
    char who[64] = "";
    char text[256];

    if (fcntl(c->fd, F_GETLK, at) == 0 && at->l_type != F_UNLCK && at->l_pid > 0) {
        snprintf(who, sizeof(who), " (pid %d)", (int)at->l_pid);
    }
    snprintf(text, sizeof(text),
             "another manager%s has group %.64s: this one adds and removes no runners of it", who,
             group);
    tell_others(c, key, text);
    return fail_platform(reterr, FN_E_PRECONDITION, "%s", text);
}

static int take(struct claims *c, const char *group, struct fn_error *reterr)
{
    uint64_t key = text_hash(group);
    struct flock at = { .l_type = F_WRLCK,
                        .l_whence = SEEK_SET,
                        .l_start = (off_t)(key >> 2), /* its end must be an off_t, too */
                        .l_len = 1 };
    int r = open_file(c, reterr);

    if (r < 0) {
        return r;
    }
    if (fcntl(c->fd, F_SETLK, &at) == 0) {
        tell_ours(c, key, group);
        return 0;
    }
    if (errno != EACCES && errno != EAGAIN) {
        return fail_platform(reterr, FN_E_UNAVAILABLE, "%.120s cannot be locked: %s", c->path,
                             strerror(errno));
    }
    return refused(c, key, &at, group, reterr);
}

int claims_take(struct claims *c, const char *group, struct fn_error *reterr)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = take(c, group, reterr);
    pthread_mutex_unlock(&c->lock);
    return r;
}
