/* The table, the life of one container's object, and the watch for its socket.
 *
 *   WAITING ──▶ PROBING ──▶ READY           each of the first two ──▶ FAILED
 *
 *   WAITING to PROBING   fnsock_check(): the socket may be connected to
 *   PROBING to READY     fnsock_probe(): somebody listens; on_ready(0), and exchanges may begin
 *   to FAILED            fnsock_fail_call(), try_again(), outgrown(): on_ready(err), and nothing
 * else comes
 */
#include <http/fnsock_int.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_NS          (10 * ENV_MS)
#define MEASURE_NS        ENV_S
#define DIR_BYTES         (1 << 20)
#define DIR_INODES        64
#define IDLE_CLOSE_NS     ENV_S
#define HEAD_BYTES_MAX    (64 << 10)
#define STATUS_LINE_MAX   8192
#define FIELDS_MAX        100
/* IN_ATTRIB tells of a removed directory: its inode lives on while we hold a descriptor */
#define WATCH_MASK        (IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_MOVE_SELF | IN_ONLYDIR)
#define EVENTS_BYTES      8192

static const uint32_t follows[FNSOCK_STATES_N] = {
    [FNSOCK_WAITING] = STATE(FNSOCK_PROBING) | STATE(FNSOCK_FAILED),
    [FNSOCK_PROBING] = STATE(FNSOCK_READY) | STATE(FNSOCK_FAILED),
    [FNSOCK_READY] = 0,
    [FNSOCK_FAILED] = 0,
};
static const char *const names[FNSOCK_STATES_N] = { "waiting", "probing", "ready", "failed" };
const struct states fnsock_states = { "function-socket", names, follows, FNSOCK_STATES_N };

static void socket_enter(struct fnsock *f, enum fnsock_state state)
{
    f->state = (enum fnsock_state)states_next(&fnsock_states, f->state, state);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void free_fnsock(struct fnsock *f)
{
    buf_finish(&f->x.out);
    buf_finish(&f->x.in);
    free(f);
}

void fnsock_enter(struct fnsock *f)
{
    f->busy++;
}

void fnsock_leave(struct fnsock *f)
{
    if (--f->busy == 0 && f->closed) {
        free_fnsock(f);
    }
}

/* ---- the connection ------------------------------------------------------------------------- */

void fnsock_disconnect(struct fnsock *f)
{
    if (f->w.fd < 0) {
        return;
    }
    loop_fd_remove(f->all->loop, &f->w);
    close(f->w.fd);
    f->w.fd = -1;
    f->used = false;
    f->full = false;
}

/* It stays watched while nothing is to be read: to watch it again could fail, and the call would
 * wait for its timeout. */
void fnsock_interest(struct fnsock *f)
{
    uint32_t events = (f->x.paused ? 0 : LOOP_READ) | (f->full ? LOOP_WRITE : 0);

    if (f->w.fd >= 0) {
        loop_fd_set(f->all->loop, &f->w, events ? events : LOOP_QUIET);
    }
}

/* Input between two requests: the end, or bytes that nobody asked for, which the next call would
 * take for its answer. */
static void idle_readable(struct fnsock *f)
{
    char byte;
    ssize_t n = recv(f->w.fd, &byte, 1, MSG_DONTWAIT);

    if (n > 0) {
        f->tainted = true;
    }
    if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
        fnsock_disconnect(f);
    }
}

static void fnsock_on_event(struct loop_fd *w, uint32_t events)
{
    struct fnsock *f = container_of(w, struct fnsock, w);

    fnsock_enter(f);
    if (events & LOOP_WRITE && f->full) {
        fnsock_exchange_writable(&f->x);
    }
    if (events & LOOP_READ && f->w.fd >= 0 && !f->closed && !f->x.paused) {
        if (fnsock_exchange_active(&f->x)) {
            fnsock_exchange_readable(&f->x);
        } else {
            idle_readable(f);
        }
    }
    fnsock_leave(f);
}

int fnsock_adopt(struct fnsock *f, int fd)
{
    /* Broken by this room: a socket is adopted by one that has none. */
    assert(f->w.fd < 0);
    f->w = (struct loop_fd){ .fd = fd, .cb = fnsock_on_event };
    if (loop_fd_add(f->all->loop, &f->w, LOOP_READ, NULL) < 0) {
        close(fd);
        f->w.fd = -1;
        return FN_E_EXHAUSTED;
    }
    f->used = false;
    f->full = false;
    return 0;
}

/* The timer stays where it is when a request comes in between: it looks at the clock itself. */
void fnsock_idle(struct fnsock *f)
{
    int64_t now = env_now_ns(f->all->env);

    f->idle_since_ns = now;
    if (!env_timer_is_set(&f->idle)) {
        env_timer_set(f->all->env, &f->idle, now + f->all->config.limits.idle_close_ns);
    }
}

static void on_idle(struct env_timer *t)
{
    struct fnsock *f = container_of(t, struct fnsock, idle);
    int64_t close_at = f->idle_since_ns + f->all->config.limits.idle_close_ns;

    if (f->w.fd < 0 || f->x.state != EXCHANGE_NONE) {
        return;
    }
    if (env_now_ns(f->all->env) >= close_at) {
        fnsock_disconnect(f);
    } else {
        env_timer_set(f->all->env, &f->idle, close_at);
    }
}

/* ---- waiting for the socket ----------------------------------------------------------------- */

static void unwatch(struct fnsock *f)
{
    if (f->watch >= 0) {
        HASH_DEL(f->all->by_watch, f);
        inotify_rm_watch(f->all->inotify.fd, f->watch);
        f->watch = -1;
    }
}

static void fnsock_fail_call(struct fnsock *f, enum link_outcome outcome, const char *text)
{
    struct fn_error err = ERR_INIT;

    unwatch(f);
    socket_enter(f, FNSOCK_FAILED);
    err_set_http(&err, outcome == LINK_ESCAPE ? FN_E_PERMISSION : FN_E_PRECONDITION, 502,
                 FN_BLAME_USER, "%s", text);
    log_stranger(FN_LOG_WARN, "container's socket is refused", "dir", f->d->name, "reason", text,
                 "security", outcome == LINK_ESCAPE ? "yes" : NULL);
    f->on_ready(f->ud, &err);
}

/* NO_ROOM is no fault of the function's, and not for its start limit to say. */
static void try_again(struct fnsock *f, enum link_outcome outcome, const char *text)
{
    int64_t now_ns = env_now_ns(f->all->env);
    struct fn_error err = ERR_INIT;

    if (outcome != LINK_NO_ROOM) {
        f->no_room_ns = 0;
    } else if (f->no_room_ns == 0) {
        f->no_room_ns = now_ns;
    } else if (now_ns - f->no_room_ns >= CONNECT_WAIT_NS) {
        unwatch(f);
        socket_enter(f, FNSOCK_FAILED);
        err_set(&err, FN_E_EXHAUSTED, "iofs: no room for a connection: %s", text);
        f->on_ready(f->ud, &err);
        return;
    }
    env_timer_set(f->all->env, &f->retry, now_ns + f->all->config.retry_ns);
}

static void fnsock_probe(struct fnsock *f)
{
    enum link_outcome outcome;
    char text[128];
    int fd;

    outcome = fnsock_link_connect(f, &fd, text, sizeof(text));
    if (outcome == LINK_OK && fnsock_adopt(f, fd) == 0) {
        unwatch(f);
        fnsock_dir_seen(f);
        socket_enter(f, FNSOCK_READY);
        f->used = true;
        fnsock_idle(f);
        f->on_ready(f->ud, NULL);
    } else if (outcome == LINK_ESCAPE || outcome == LINK_BAD) {
        fnsock_fail_call(f, outcome, text);
    } else { /* nobody accepts yet, or the name is being replaced */
        try_again(f, outcome == LINK_OK ? LINK_NO_ROOM : outcome,
                  outcome == LINK_OK ? "out of memory" : text);
    }
}

/* Something may have been published. */
static void fnsock_check(struct fnsock *f)
{
    enum link_outcome outcome;
    char text[128];

    if (f->state != FNSOCK_WAITING) {
        return;
    }
    outcome = fnsock_link_check(f, text, sizeof(text));
    if (outcome == LINK_ABSENT && fnsock_dir_uncover(f)) {
        unwatch(f);
        outcome = fnsock_link_check(f, text, sizeof(text));
    }
    if (outcome == LINK_ABSENT) {
        if (f->watch < 0 || f->d->covered_fd >= 0) { /* no event tells of it */
            try_again(f, LINK_ABSENT, text);
        }
        return;
    }
    fnsock_enter(f);
    if (outcome == LINK_LATER || outcome == LINK_NO_ROOM) {
        try_again(f, outcome, text);
    } else if (outcome == LINK_OK) {
        socket_enter(f, FNSOCK_PROBING);
        fnsock_probe(f);
    } else {
        fnsock_fail_call(f, outcome, text);
    }
    fnsock_leave(f);
}

static void on_check(struct env_task *t)
{
    fnsock_check(container_of(t, struct fnsock, check_task));
}

static void on_retry(struct env_timer *t)
{
    struct fnsock *f = container_of(t, struct fnsock, retry);

    fnsock_enter(f);
    if (f->state == FNSOCK_WAITING) {
        fnsock_check(f);
    } else if (f->state == FNSOCK_PROBING) {
        fnsock_probe(f);
    } else {
        fnsock_exchange_retry(&f->x);
    }
    fnsock_leave(f);
}

/* Events were lost, perhaps because one function floods its directory: look at every directory. */
static void check_all(struct fnsocks *all)
{
    struct fnsock *f;
    struct fnsock *next;

    HASH_ITER(hh, all->by_watch, f, next) {
        env_defer(all->env, &f->check_task);
    }
}

static bool is_removed(const struct fnsock *f)
{
    struct stat st;

    return fstat(f->d->fd, &st) < 0 || st.st_nlink == 0;
}

static void on_notice(struct fnsocks *all, const struct inotify_event *e)
{
    struct fnsock *f;

    if (e->mask & IN_Q_OVERFLOW) {
        log_stranger(FN_LOG_WARN,
                     "notices of socket directories were lost, looking at all of them");
        check_all(all);
        return;
    }
    HASH_FIND_INT(all->by_watch, &e->wd, f);
    if (!f) {
        return;
    }
    if (e->mask & (IN_MOVE_SELF | IN_IGNORED) ||
        (e->mask & IN_ATTRIB && e->len == 0 && is_removed(f))) {
        fnsock_enter(f);
        fnsock_fail_call(f, LINK_BAD, "the socket directory was removed");
        fnsock_leave(f);
    } else if (e->mask & (IN_CREATE | IN_MOVED_TO) && strcmp(e->name, FNSOCK_NAME) == 0) {
        fnsock_check(f);
    }
}

static void on_inotify(struct loop_fd *w, uint32_t events)
{
    struct fnsocks *all = container_of(w, struct fnsocks, inotify);
    _Alignas(struct inotify_event) char buf[EVENTS_BYTES];
    ssize_t n = read(w->fd, buf, sizeof(buf));

    (void)events;
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *e = (const void *)(buf + at);

        at += (ssize_t)(sizeof(*e) + e->len);
        on_notice(all, e);
    }
}

/* ---- directories that nothing bounds -------------------------------------------------------- */

static void outgrown(struct fnsock *f)
{
    const struct fnsock_config *config = &f->all->config;
    struct fn_error err = ERR_INIT;

    if (f->state < FNSOCK_READY) {
        unwatch(f);
        env_timer_clear(f->all->env, &f->retry);
        socket_enter(f, FNSOCK_FAILED);
    }
    err_set_http(&err, FN_E_EXHAUSTED, 502, FN_BLAME_USER,
                 "socket directory is full: more than %llu bytes or %llu files in %s",
                 (unsigned long long)config->dir_bytes_max,
                 (unsigned long long)config->dir_inodes_max, f->d->name);
    f->on_ready(f->ud, &err);
}

static void on_measured(struct env_timer *t)
{
    struct fnsocks *all = container_of(t, struct fnsocks, measure);
    struct fnsock *f = bin_take_overfull(all->bin);

    if (f) {
        fnsock_enter(f);
        outgrown(f);
        fnsock_leave(f);
    }
    env_timer_set(all->env, t, env_now_ns(all->env) + (f ? 0 : MEASURE_NS));
}

void fnsock_measure(struct fnsocks *all, struct iofs_dir *d)
{
    bin_watch(all->bin, d);
    if (!env_timer_is_set(&all->measure)) {
        env_timer_set(all->env, &all->measure, env_now_ns(all->env) + MEASURE_NS);
    }
}

/* ---- struct fnsock_if ----------------------------------------------------------------------- */

static void close_fnsock(struct fnsock *f)
{
    struct fnsocks *all;

    if (!f) {
        return;
    }
    /* Broken by core/runner, if it closes one with a call, or twice. */
    assert(f->x.state == EXCHANGE_NONE && !f->closed);
    all = f->all;
    all->open_n--;
    fnsock_disconnect(f);
    unwatch(f);
    env_undefer(all->env, &f->check_task);
    env_timer_clear(all->env, &f->retry);
    env_timer_clear(all->env, &f->idle);
    fnsock_dir_remove(f);
    f->closed = true;
    if (f->busy == 0) {
        free_fnsock(f);
    }
}

/* close_fnsock() undoes what it did, however far it came. */
static int make_and_watch(struct fnsock *f, const char *container_id, struct fn_error *reterr)
{
    struct fnsocks *all = f->all;
    int r = fnsock_dir_make(f, container_id, reterr);

    if (r < 0) {
        return r;
    }
    f->watch = inotify_add_watch(all->inotify.fd, f->d->path, WATCH_MASK);
    if (f->watch < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: cannot watch %s: %s", f->d->path,
                       strerror(errno));
    }
    HASH_ADD_INT(all->by_watch, watch, f);
    if (!table_has(f)) {
        inotify_rm_watch(all->inotify.fd, f->watch);
        f->watch = -1;
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    return fnsock_dir_open(f, reterr);
}

static int open_fnsock(void *impl, const char *container_id,
                       void (*on_ready)(void *ud, const struct fn_error *err), void *ud,
                       struct fnsock **ret, struct fn_error *reterr)
{
    struct fnsocks *all = impl;
    struct fnsock *f = calloc(1, sizeof(*f));
    int r;

    if (!f) {
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    f->all = all;
    f->x.f = f;
    f->on_ready = on_ready;
    f->ud = ud;
    f->uid = UINT32_MAX;
    f->w.fd = -1;
    f->watch = -1;
    f->check_task.cb = on_check;
    f->retry.cb = on_retry;
    f->idle.cb = on_idle;
    all->open_n++;
    r = make_and_watch(f, container_id, reterr);
    if (r < 0) {
        close_fnsock(f);
        return r;
    }
    env_defer(all->env, &f->check_task);
    *ret = f;
    return 0;
}

static const char *get_dir(const struct fnsock *f)
{
    return f->d->path;
}

static const char *get_engine_dir(const struct fnsock *f)
{
    return f->engine_dir;
}

/* A connection made before the uid was known is checked now. */
static void expect_uid(struct fnsock *f, uint32_t uid)
{
    char text[128];

    f->uid = uid;
    if (f->w.fd >= 0 && !fnsock_link_peer_ok(f, f->w.fd, text, sizeof(text))) {
        fnsock_disconnect(f);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

/* What is not set, and what follows from it. */
static void set_defaults(struct fnsocks *all)
{
    struct fnsock_config *c = &all->config;
    struct fnsock_limits *l = &c->limits;

    l->answer_header_bytes_max =
        l->answer_header_bytes_max ? l->answer_header_bytes_max : HEAD_BYTES_MAX;
    l->answer_headers_max = l->answer_headers_max ? l->answer_headers_max : FIELDS_MAX;
    l->idle_close_ns = l->idle_close_ns ? l->idle_close_ns : IDLE_CLOSE_NS;
    c->retry_ns = c->retry_ns ? c->retry_ns : RETRY_NS;
    c->dir_bytes_max = c->dir_bytes_max ? c->dir_bytes_max : DIR_BYTES;
    c->dir_inodes_max = c->dir_inodes_max ? c->dir_inodes_max : DIR_INODES;
    if (c->tmpfs_word) {
        c->tmpfs = strcmp(c->tmpfs_word, "auto") == 0   ? FNSOCK_TMPFS_AUTO
                   : strcmp(c->tmpfs_word, "true") == 0 ? FNSOCK_TMPFS_ON
                                                        : FNSOCK_TMPFS_OFF;
        c->tmpfs_word = NULL;
    }
    all->parse_limits = (struct parse_limits){ .head_bytes_max = l->answer_header_bytes_max,
                                               .line_bytes_max = STATUS_LINE_MAX,
                                               .fields_max = l->answer_headers_max };
}

void fnsock_set_limits(struct fnsock_if *f, const struct fnsock_limits *limits)
{
    struct fnsocks *all = f->impl;

    all->config.limits = *limits;
    set_defaults(all);
}

static void destroy(struct fnsocks *all)
{
    if (all->inotify.fd >= 0) {
        close(all->inotify.fd);
    }
    fnsock_dir_stop(all);
    free(all);
}

/* destroy() undoes what it did, however far it came. */
static int make_and_watch_root(struct fnsocks *all, struct fn_error *reterr)
{
    int r = fnsock_dir_start(all, reterr);

    if (r < 0) {
        return r;
    }
    all->inotify.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (all->inotify.fd < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: inotify: %s", strerror(errno));
    }
    return loop_fd_add(all->loop, &all->inotify, LOOP_READ, reterr);
}

int fnsock_create(struct loop *loop, const struct fnsock_config *config, struct fnsock_if *ret,
                  struct fn_error *reterr)
{
    struct fnsocks *all = calloc(1, sizeof(*all));
    int r;

    if (!all) {
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    all->loop = loop;
    all->env = loop_env(loop);
    all->config = *config;
    all->instance_fd = all->lock_fd = -1;
    all->inotify = (struct loop_fd){ .fd = -1, .cb = on_inotify };
    all->measure.cb = on_measured;
    set_defaults(all);
    r = make_and_watch_root(all, reterr);
    if (r < 0) {
        destroy(all);
        return r;
    }
    *ret = (struct fnsock_if){ .impl = all,
                               .open = open_fnsock,
                               .dir = get_dir,
                               .engine_dir = get_engine_dir,
                               .expect_uid = expect_uid,
                               .close = close_fnsock,
                               .request = fnsock_request_start,
                               .send = fnsock_exchange_send,
                               .sent = fnsock_exchange_sent,
                               .pause = fnsock_exchange_pause,
                               .finish = fnsock_exchange_finish };
    return 0;
}

void fnsock_destroy(struct fnsock_if *f)
{
    struct fnsocks *all = f->impl;

    if (!all) {
        return;
    }
    /* Broken by core/runner, if a container still had its socket. */
    assert(all->open_n == 0);
    loop_fd_remove(all->loop, &all->inotify);
    env_timer_clear(all->env, &all->measure);
    destroy(all);
    f->impl = NULL;
}
