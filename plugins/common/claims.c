/* Takes and keeps the locks. A file that somebody removed is made again, since a lock on what
 * has no name binds nobody. */
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
#define TRIES_MAX 8

int claims_init(struct claims *c, const char *path)
{
    *c = (struct claims){ .fd = -1, .path = strdup(path) };
    if (!c->path) {
        return FN_E_EXHAUSTED;
    }
    pthread_mutex_init(&c->lock, NULL);
    return 0;
}

/* Who cleans up a directory may take the file away; a lock on what has no name binds nobody. */
static bool is_named(const struct claims *c)
{
    struct stat named, open_one;

    return c->fd >= 0 && stat(c->path, &named) == 0 && fstat(c->fd, &open_one) == 0 &&
           named.st_dev == open_one.st_dev && named.st_ino == open_one.st_ino;
}

static void make_parents(struct claims *c)
{
    for (char *slash = strchr(c->path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        c->made_dir = mkdir(c->path, DIR_MODE) == 0; /* what is missing, open() tells */
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
        make_parents(c);
        c->fd = open(c->path, flags, FILE_MODE);
    }
    return c->fd >= 0 ? 0
                      : fail_platform(reterr, FN_E_UNAVAILABLE, "%.120s: %s", c->path,
                                      strerror(errno));
}

/* l_pid: 0 when the holder is in another namespace of processes, or gone by now. */
static int refused(struct claims *c, struct flock *at, const char *group, struct fn_error *reterr)
{
    char who[64] = "";

    if (fcntl(c->fd, F_GETLK, at) == 0 && at->l_type != F_UNLCK && at->l_pid > 0) {
        snprintf(who, sizeof(who), " (pid %d)", (int)at->l_pid);
    }
    return fail_platform(reterr, FN_E_PRECONDITION,
                         "another manager%s has group %.64s: this one adds and removes no runners "
                         "of it",
                         who, group);
}

/* 1: the file was taken away meanwhile. */
static int try_take(struct claims *c, const char *group, struct fn_error *reterr)
{
    struct flock at = { .l_type = F_WRLCK,
                        .l_whence = SEEK_SET,
                        .l_start = (off_t)(text_hash(group) >> 2), /* its end is an off_t, too */
                        .l_len = 1 };
    int r = open_file(c, reterr);

    if (r < 0) {
        return r;
    }
    if (fcntl(c->fd, F_SETLK, &at) == 0) {
        return is_named(c) ? 0 : 1;
    }
    if (errno != EACCES && errno != EAGAIN) {
        return fail_platform(reterr, FN_E_UNAVAILABLE, "%.120s cannot be locked: %s", c->path,
                             strerror(errno));
    }
    return refused(c, &at, group, reterr);
}

static int take(struct claims *c, const char *group, struct fn_error *reterr)
{
    int r = 1;

    for (int i = 0; i < TRIES_MAX && r == 1; i++) {
        r = try_take(c, group, reterr);
    }
    return r < 1 ? r
                 : fail_platform(reterr, FN_E_UNAVAILABLE, "%.120s is taken away again and again",
                                 c->path);
}

int claims_take(struct claims *c, const char *group, struct fn_error *reterr)
{
    int r;

    if (!c->path) {
        return 0;
    }
    pthread_mutex_lock(&c->lock);
    r = take(c, group, reterr);
    pthread_mutex_unlock(&c->lock);
    return r;
}

int claims_answer(struct claims *c, const char *group, struct fn_error *reterr)
{
    int r = claims_take(c, group, reterr);

    return r == FN_E_PRECONDITION ? 1 : r;
}

/* Whoever locks it from now on finds that it has no name, and makes another one. */
static void take_away(struct claims *c)
{
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char *slash = strrchr(c->path, '/');

    if (!is_named(c) || fcntl(c->fd, F_SETLK, &all) < 0) {
        return;
    }
    unlink(c->path);
    if (c->made_dir) {
        *slash = '\0';
        rmdir(c->path);
    }
}

void claims_finish(struct claims *c)
{
    if (!c->path) {
        return;
    }
    if (c->fd >= 0) {
        take_away(c);
        close(c->fd);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->path);
}
