/* The bin: one thread that removes what closed containers leave, measures directories that nothing
 * else bounds, and sweeps what dead processes left.
 *
 * States of a directory: with the loop -> WATCHED (in `open`, sometimes `measuring`: then in no
 * list) -> PUT (in `closed`) -> removed and freed by the thread, SLICE_ENTRIES at a time and in
 * turns, so that a full one does not hold up the others. One unlink of a file may take seconds
 * whatever we do; nobody waits for this thread but the end of the node, and that not for long. */
#include <http/fnsock_dirs.h>
#include <base/env.h>
#include <base/err.h>
#include <base/log.h>
#include <loop/loop.h>
#include <loop/thread.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#define SLICE_ENTRIES 1024
#define MEASURE_S     1
#define SWEEP_S       10
#define END_NS        (5 * ENV_S)

TAILQ_HEAD(iofs_list, iofs_dir);

struct bin {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct iofs_list open, closed;
    atomic_bool stopping;
    pthread_t thread;
    /* constant: */
    char *base, *instance;
    int instance_fd, lock_fd;
    uint64_t bytes_max, inodes_max;
};

static time_t bin_now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

static void dir_free(struct iofs_dir *d)
{
    free(d->name);
    free(d->path);
    free(d);
}

static void close_fds(struct iofs_dir *d)
{
    if (d->fd >= 0) {
        close(d->fd);
    }
    if (d->covered_fd >= 0) {
        close(d->covered_fd);
    }
    d->fd = d->covered_fd = -1;
}

/* ---- removing -------------------------------------------------------------------------------- */

/* A tmpfs is emptied before it is unmounted: namespaces of processes that were started meanwhile
 * may keep the mount. true: there is more to do. */
static bool remove_some(struct bin *b, struct iofs_dir *d)
{
    int r;

    close_fds(d);
    r = tree_remove(b->instance_fd, d->name, SLICE_ENTRIES, &b->stopping);
    if (d->mounted && r != FN_E_EXHAUSTED) {
        if (umount2(d->path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0) {
            log_stranger(FN_LOG_WARN, "tmpfs was not unmounted", "dir", d->path, "error",
                         strerror(errno));
        }
        d->mounted = false;
        return true; /* now the directory below it */
    }
    if (r == FN_E_ABORTED) {
        log_stranger(FN_LOG_WARN, "socket directory was not removed", "dir", d->path);
    }
    return r == FN_E_EXHAUSTED;
}

/* Under the lock, given up meanwhile. */
static void remove_next(struct bin *b)
{
    struct iofs_dir *d = TAILQ_FIRST(&b->closed);
    bool more;

    if (!d) {
        return;
    }
    TAILQ_REMOVE(&b->closed, d, link);
    pthread_mutex_unlock(&b->lock);
    more = remove_some(b, d);
    pthread_mutex_lock(&b->lock);
    if (more) {
        TAILQ_INSERT_TAIL(&b->closed, d, link);
    } else {
        dir_free(d);
    }
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Under the lock, given up meanwhile. */
static void measure_one(struct bin *b, struct iofs_dir *d)
{
    bool fits;

    TAILQ_REMOVE(&b->open, d, link);
    d->measuring = true;
    pthread_mutex_unlock(&b->lock);
    fits = tree_fits(d->fd, b->bytes_max, b->inodes_max);
    pthread_mutex_lock(&b->lock);
    d->measuring = false;
    d->overfull |= !fits;
    if (d->put) {
        TAILQ_INSERT_TAIL(&b->closed, d, link);
    } else {
        TAILQ_INSERT_TAIL(&b->open, d, link);
    }
}

/* Each that is there now, once; what is measured goes to the end. */
static void measure_all(struct bin *b)
{
    struct iofs_dir *d;
    uint32_t n = 0;

    TAILQ_FOREACH(d, &b->open, link) {
        n++;
    }
    for (; n > 0 && !atomic_load(&b->stopping) && (d = TAILQ_FIRST(&b->open)); n--) {
        measure_one(b, d);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *bin_thread(void *arg)
{
    struct bin *b = arg;
    struct timespec until = { 0 };
    time_t sweep_s = bin_now_s();
    time_t measure_s = sweep_s;

    pthread_mutex_lock(&b->lock);
    while (!atomic_load(&b->stopping)) {
        remove_next(b);
        if (bin_now_s() >= measure_s) {
            measure_all(b);
            measure_s = bin_now_s() + MEASURE_S;
        }
        if (bin_now_s() >= sweep_s) {
            pthread_mutex_unlock(&b->lock);
            sweep_dead(b->base, &b->stopping);
            pthread_mutex_lock(&b->lock);
            sweep_s = bin_now_s() + SWEEP_S;
        }
        until.tv_sec = TAILQ_EMPTY(&b->open) ? sweep_s : measure_s;
        if (TAILQ_EMPTY(&b->closed) && !atomic_load(&b->stopping)) {
            pthread_cond_timedwait(&b->changed, &b->lock, &until);
        }
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- the loop's side ------------------------------------------------------------------------- */

static void bin_free(struct bin *b)
{
    struct iofs_dir *d;

    while ((d = TAILQ_FIRST(&b->closed))) {
        TAILQ_REMOVE(&b->closed, d, link);
        close_fds(d);
        dir_free(d);
    }
    if (b->instance_fd >= 0) {
        close(b->instance_fd);
    }
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b->base);
    free(b->instance);
    free(b);
}

int bin_create(const struct bin_config *config, struct bin **ret)
{
    struct bin *b = calloc(1, sizeof(*b));

    if (!b) {
        return FN_E_EXHAUSTED;
    }
    pthread_mutex_init(&b->lock, NULL);
    loop_cond_init(&b->changed);
    TAILQ_INIT(&b->open);
    TAILQ_INIT(&b->closed);
    b->base = strdup(config->base);
    b->instance = strdup(config->instance);
    b->instance_fd = fcntl(config->instance_fd, F_DUPFD_CLOEXEC, 0);
    b->lock_fd = config->lock_fd;
    b->bytes_max = config->bytes_max;
    b->inodes_max = config->inodes_max;
    if (!b->base || !b->instance || b->instance_fd < 0 ||
        loop_thread(&b->thread, bin_thread, b) != 0) {
        bin_free(b);
        return FN_E_EXHAUSTED;
    }
    *ret = b;
    return 0;
}

void bin_put(struct bin *b, struct iofs_dir *d)
{
    pthread_mutex_lock(&b->lock);
    d->put = true;
    if (!d->measuring) {
        if (d->watched) {
            TAILQ_REMOVE(&b->open, d, link);
        }
        TAILQ_INSERT_TAIL(&b->closed, d, link);
        pthread_cond_signal(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
}

void bin_watch(struct bin *b, struct iofs_dir *d)
{
    pthread_mutex_lock(&b->lock);
    d->watched = true;
    TAILQ_INSERT_TAIL(&b->open, d, link);
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

void *bin_take_overfull(struct bin *b)
{
    struct iofs_dir *d;
    void *owner = NULL;

    pthread_mutex_lock(&b->lock);
    TAILQ_FOREACH(d, &b->open, link) {
        if (d->overfull && d->owner) {
            owner = d->owner;
            d->owner = NULL;
            break;
        }
    }
    pthread_mutex_unlock(&b->lock);
    return owner;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void bin_finish(void *arg)
{
    struct bin *b = arg;
    struct iofs_dir *d;
    int base_fd;

    pthread_join(b->thread, NULL);
    TAILQ_FOREACH(d, &b->closed, link) {
        close_fds(d);
        if (d->mounted) {
            umount2(d->path, MNT_DETACH | UMOUNT_NOFOLLOW);
        }
    }
    base_fd = open(b->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base_fd >= 0) {
        tree_remove(base_fd, b->instance, ALL_ENTRIES, NULL);
        close(base_fd);
    }
    close(b->lock_fd);
}

void bin_destroy(struct bin *b)
{
    int r;

    if (!b) {
        return;
    }
    pthread_mutex_lock(&b->lock);
    atomic_store(&b->stopping, true);
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    r = loop_aside(bin_finish, b, END_NS);
    if (r == FN_E_DEADLINE) { /* its thread still uses it; the process ends */
        log_warn("socket directories are full of what functions left; whoever is alive removes them",
                 "dir", b->instance);
        return;
    }
    if (r < 0) {
        bin_finish(b);
    }
    bin_free(b);
}
