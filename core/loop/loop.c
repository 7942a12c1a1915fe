/* The loop proper: lock, epoll, timers, deferred tasks.
 *
 * Everything in struct loop is protected by `lock` but for `stopping`, and for `busy`, `steps` and
 * `waits`, which are written under it and read without. The loop's own thread gives the lock up
 * only while it sleeps in epoll; `sleeping_until_ns` tells others whether a timer that they set is
 * earlier than its wake-up, in which case they write to `kick_fd`.
 *
 * A watched descriptor is named in epoll by slot and generation, not by pointer: an event that was
 * fetched before its descriptor was removed finds another generation and is dropped. */
#include <loop/loop_int.h>
#include <loop/turn.h>

#include <assert.h>
#include <base/log.h>
#include <base/timers.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_PER_BATCH   256
/* What sets itself anew for ever, and ten thousand that are due at once, must not keep the loop
 * from its descriptors and signals. */
#define TIMERS_PER_TURN_MAX 256
#define TASKS_PER_TURN_MAX  1024

struct slot {
    struct loop_fd *w; /* NULL = free */
    uint32_t generation;
    uint32_t next_free;
};

struct loop {
    struct env env; /* first: the env is the loop */
    pthread_mutex_t lock;
    atomic_bool stopping;
    int epoll_fd;
    int kick_fd;
    struct loop_fd kick_watch;
    int64_t now_ns; /* of the running callback */
    /* For other threads, relaxed: somebody is inside; callbacks and waits that were begun. */
    bool busy;
    uint64_t steps;
    uint64_t waits;
    struct turn_log turns;
    int64_t sleeping_until_ns;
    bool in_timers;

    struct timers timers;
    uint64_t timer_seq; /* equal deadlines fire in the order in which they were set */

    TAILQ_HEAD(, env_task) tasks;

    struct slot *slots;
    uint32_t slots_n, slots_cap; /* used at least once; there is room for */
    uint32_t free_slot; /* index + 1; 0 = none */

    uint64_t random[2];
    struct lanes *lanes;
};

/* The loop that this thread is inside of. */
static _Thread_local struct loop *inside;

/* A callback begins: whoever watches sees that the loop moves. */
static inline void loop_step(struct loop *l, const void *callback)
{
    __atomic_store_n(&l->steps, l->steps + 1, __ATOMIC_RELAXED);
    if (__builtin_expect(l->turns.close_until_ns != 0, 0)) {
        turn_step(&l->turns, callback);
    }
}

bool loop_is_busy(const struct loop *l, uint64_t *ret_steps)
{
    *ret_steps = __atomic_load_n(&l->steps, __ATOMIC_RELAXED);
    return __atomic_load_n(&l->busy, __ATOMIC_RELAXED);
}

uint64_t loop_waits(const struct loop *l)
{
    return __atomic_load_n(&l->waits, __ATOMIC_RELAXED);
}

void loop_count_turns(const struct loop *l, struct loop_turns *ret)
{
    for (uint32_t i = 0; i <= LOOP_TURN_BOUNDS; i++) {
        ret->counts[i] = __atomic_load_n(&l->turns.of.counts[i], __ATOMIC_RELAXED);
    }
    ret->sum_ns = __atomic_load_n(&l->turns.of.sum_ns, __ATOMIC_RELAXED);
    ret->longest_ns = __atomic_load_n(&l->turns.of.longest_ns, __ATOMIC_RELAXED);
}

void loop_on_long_turn(struct loop *l, int64_t limit_ns,
                       void (*tell)(void *ud, const struct loop_long_turn *t), void *ud)
{
    l->turns.told_ns = limit_ns;
    l->turns.tell = tell;
    l->turns.ud = ud;
}

static struct loop *loop_of(struct env *e)
{
    return container_of(e, struct loop, env);
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void kick(struct loop *l)
{
    uint64_t one = 1;

    while (write(l->kick_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    } /* EAGAIN: already kicked 2^64 times */
}

static void timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    struct loop *l = loop_of(e);

    if (l->in_timers && at_ns <= l->now_ns) {
        at_ns = l->now_ns + 1;
    }
    if (!env_timer_is_set(t) && !timers_make_room(&l->timers)) {
        abort(); /* a lost timer is a lost call */
    }
    t->at_ns = at_ns;
    timers_set(&l->timers, t, at_ns, ++l->timer_seq);
    if (at_ns < l->sleeping_until_ns) {
        l->sleeping_until_ns = at_ns;
        kick(l);
    }
}

static void timer_clear(struct env *e, struct env_timer *t)
{
    timers_clear(&loop_of(e)->timers, t);
}

/* Those that were due when the turn began: what they set is due in the next one. */
static void run_timers(struct loop *l)
{
    const struct timer_due *first;

    l->in_timers = true;
    for (int n = 0; n < TIMERS_PER_TURN_MAX && (first = timers_first(&l->timers)) &&
                    first->at_ns <= l->now_ns;
         n++) {
        struct env_timer *t = first->timer;

        timer_clear(&l->env, t);
        loop_step(l, (const void *)(uintptr_t)t->cb);
        t->cb(t);
    }
    l->in_timers = false;
}

/* ---- deferred tasks ------------------------------------------------------------------------- */

static void defer(struct env *e, struct env_task *t)
{
    if (!t->queued) {
        t->queued = true;
        TAILQ_INSERT_TAIL(&loop_of(e)->tasks, t, link);
    }
}

static void undefer(struct env *e, struct env_task *t)
{
    if (t->queued) {
        t->queued = false;
        TAILQ_REMOVE(&loop_of(e)->tasks, t, link);
    }
}

static void run_tasks(struct loop *l)
{
    struct env_task *t;

    for (int n = 0; n < TASKS_PER_TURN_MAX && (t = TAILQ_FIRST(&l->tasks)); n++) {
        undefer(&l->env, t);
        loop_step(l, (const void *)(uintptr_t)t->cb);
        t->cb(t);
    }
}

/* ---- entering and leaving -------------------------------------------------------------------- */

static void loop_lock_take(struct loop *l)
{
    loop_altstack();
    pthread_mutex_lock(&l->lock);
    inside = l;
    l->now_ns = loop_clock_ns();
    turn_begin(&l->turns, l->now_ns, l->steps);
    __atomic_store_n(&l->busy, true, __ATOMIC_RELAXED);
    loop_step(l, NULL);
}

static void give(struct loop *l, int64_t now_ns)
{
    turn_end(&l->turns, now_ns, l->steps);
    inside = NULL;
    __atomic_store_n(&l->busy, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&l->lock);
}

void loop_enter(struct loop *l)
{
    assert(inside != l);
    loop_lock_take(l);
}

void loop_leave(struct loop *l)
{
    run_tasks(l);
    if (!TAILQ_EMPTY(&l->tasks)) {
        kick(l);
    }
    give(l, loop_clock_ns());
}

static void env_enter(struct env *e)
{
    loop_enter(loop_of(e));
}

static void env_leave(struct env *e)
{
    loop_leave(loop_of(e));
}

/* ---- the rest of env ------------------------------------------------------------------------- */

static int64_t loop_now_ns(struct env *e)
{
    struct loop *l = loop_of(e);

    return inside == l ? l->now_ns : loop_clock_ns();
}

static int64_t wall_ns(struct env *e)
{
    struct timespec ts;

    (void)e;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * ENV_S + ts.tv_nsec;
}

/* xoroshiro128+ (Blackman and Vigna): spread of retries and start indexes, no secrets. */
static uint64_t random_u64(struct env *e)
{
    struct loop *l = loop_of(e);
    uint64_t a = l->random[0];
    uint64_t b = l->random[1];
    uint64_t sum = a + b;

    b ^= a;
    l->random[0] = ((a << 24) | (a >> 40)) ^ b ^ (b << 16);
    l->random[1] = (b << 37) | (b >> 27);
    return sum;
}

static int loop_submit(struct env *e, struct env_work *w)
{
    return lanes_submit(loop_of(e)->lanes, w);
}

static void cancel(struct env *e, struct env_work *w)
{
    lanes_cancel(loop_of(e)->lanes, w);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static uint32_t to_epoll(uint32_t events)
{
    return (events & LOOP_READ ? EPOLLIN | EPOLLRDHUP : 0) | (events & LOOP_WRITE ? EPOLLOUT : 0) |
           (events == LOOP_QUIET ? EPOLLET : 0);
}

/* Memory behind slots_n is not touched before it is needed: with ten thousand descriptors that
 * would hold the loop for longer than opening one of them. */
static int slots_grow(struct loop *l)
{
    uint32_t cap = l->slots_cap ? l->slots_cap * 2 : 64;
    struct slot *slots = realloc(l->slots, cap * sizeof(*slots));

    if (!slots) {
        return FN_E_EXHAUSTED;
    }
    l->slots = slots;
    l->slots_cap = cap;
    return 0;
}

static int slot_take(struct loop *l, struct loop_fd *w)
{
    uint32_t i;

    if (l->free_slot) {
        i = l->free_slot - 1;
        l->free_slot = l->slots[i].next_free;
    } else {
        if (l->slots_n == l->slots_cap && slots_grow(l) < 0) {
            return FN_E_EXHAUSTED;
        }
        i = l->slots_n++;
        l->slots[i] = (struct slot){ .w = NULL };
    }
    l->slots[i].w = w;
    w->slot = i;
    w->generation = l->slots[i].generation;
    return 0;
}

static void slot_free(struct loop *l, struct loop_fd *w)
{
    struct slot *s = &l->slots[w->slot];

    assert(s->w == w);
    s->w = NULL;
    s->generation++;
    s->next_free = l->free_slot;
    l->free_slot = w->slot + 1;
}

static int control(struct loop *l, int op, struct loop_fd *w)
{
    struct epoll_event ev = { .events = to_epoll(w->events),
                              .data.u64 = w->slot | w->generation << 32 };

    return epoll_ctl(l->epoll_fd, op, w->fd, &ev);
}

int loop_fd_add(struct loop *l, struct loop_fd *w, uint32_t events, struct fn_error *reterr)
{
    if (slot_take(l, w) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "loop: out of memory for a descriptor");
    }
    w->events = events;
    if (control(l, EPOLL_CTL_ADD, w) < 0) {
        int err = errno;

        slot_free(l, w);
        return err_set(reterr, err_from_errno(err), "loop: cannot watch descriptor %d: %s", w->fd,
                       strerror(err));
    }
    return 0;
}

/* Nothing else can fail where descriptors are watched or waited for. */
static _Noreturn void descriptor_gone(void)
{
    log_error("the loop cannot wait for events any more: somebody closed its descriptors", "error",
              strerror(errno));
    abort();
}

void loop_fd_set(struct loop *l, struct loop_fd *w, uint32_t events)
{
    if (w->events != events) {
        w->events = events;
        if (control(l, EPOLL_CTL_MOD, w) < 0) {
            descriptor_gone();
        }
    }
}

void loop_fd_remove(struct loop *l, struct loop_fd *w)
{
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    slot_free(l, w);
}

static void dispatch(struct loop *l, const struct epoll_event *ev)
{
    struct slot *s = &l->slots[(uint32_t)ev->data.u64];
    uint32_t events = 0;

    if (!s->w || s->generation != (uint32_t)(ev->data.u64 >> 32)) {
        return;
    }
    if (ev->events & (EPOLLIN | EPOLLRDHUP)) {
        events |= LOOP_READ;
    }
    if (ev->events & EPOLLOUT) {
        events |= LOOP_WRITE;
    }
    if (ev->events & (EPOLLERR | EPOLLHUP)) {
        events |= LOOP_READ | LOOP_WRITE;
    }
    loop_step(l, (const void *)(uintptr_t)s->w->cb);
    s->w->cb(s->w, events);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_kick(struct loop_fd *w, uint32_t events)
{
    uint64_t n;

    (void)events;
    while (read(w->fd, &n, sizeof(n)) < 0 && errno == EINTR) {
    } /* EAGAIN: another turn took it */
}

int loop_create(const struct loop_lanes *lanes, struct loop **ret, struct fn_error *reterr)
{
    struct loop *l = calloc(1, sizeof(*l));
    pthread_mutexattr_t attr;
    int r;

    if (!l) {
        return err_set(reterr, FN_E_EXHAUSTED, "loop: out of memory");
    }
    l->env = (struct env){ loop_now_ns, wall_ns,     random_u64, timer_set, timer_clear, defer,
                           undefer,     loop_submit, cancel,     env_enter, env_leave };
    l->sleeping_until_ns = INT64_MIN;
    l->now_ns = loop_clock_ns();
    TAILQ_INIT(&l->tasks);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&l->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->epoll_fd < 0 || l->kick_fd < 0 ||
        getrandom(l->random, sizeof(l->random), 0) != (ssize_t)sizeof(l->random)) {
        r = err_set(reterr, err_from_errno(errno), "loop: %s", strerror(errno));
        goto fail;
    }
    if (!timers_make_room(&l->timers)) {
        r = err_set(reterr, FN_E_EXHAUSTED, "loop: out of memory");
        goto fail;
    }
    l->kick_watch = (struct loop_fd){ .fd = l->kick_fd, .cb = on_kick };
    r = loop_fd_add(l, &l->kick_watch, LOOP_READ, reterr);
    if (r < 0) {
        goto fail;
    }
    r = lanes_create(&l->env, lanes, &l->lanes, reterr);
    if (r < 0) {
        goto fail;
    }
    *ret = l;
    return 0;
fail:
    loop_destroy(l);
    return r;
}

void loop_destroy(struct loop *l)
{
    if (!l) {
        return;
    }
    lanes_destroy(l->lanes);
    if (l->kick_fd >= 0) {
        close(l->kick_fd);
    }
    if (l->epoll_fd >= 0) {
        close(l->epoll_fd);
    }
    pthread_mutex_destroy(&l->lock);
    timers_finish(&l->timers);
    free(l->slots);
    free(l);
}

struct lanes *loop_lanes_of(struct loop *l)
{
    return l->lanes;
}

struct env *loop_env(struct loop *l)
{
    return &l->env;
}

/* How long epoll may sleep; also notes it for timer_set(). */
static struct timespec *sleep_time(struct loop *l, int64_t now_ns, struct timespec *ts)
{
    const struct timer_due *first = timers_first(&l->timers);
    int64_t wait_ns;

    if (!TAILQ_EMPTY(&l->tasks)) {
        *ts = (struct timespec){ 0, 0 };
        return ts;
    }
    if (!first) {
        l->sleeping_until_ns = INT64_MAX;
        return NULL;
    }
    l->sleeping_until_ns = first->at_ns;
    wait_ns = l->sleeping_until_ns > now_ns ? l->sleeping_until_ns - now_ns : 0;
    *ts = (struct timespec){ wait_ns / ENV_S, wait_ns % ENV_S };
    return ts;
}

static int wait_once(struct loop *l, struct epoll_event *events, const struct timespec *ts)
{
    int64_t ms;
    int n = epoll_pwait2(l->epoll_fd, events, EVENTS_PER_BATCH, ts, NULL);

    if (n >= 0 || errno != ENOSYS) {
        return n;
    }
    ms = ts ? ts->tv_sec * 1000 + (ts->tv_nsec + 999999) / 1000000 : -1;
    return epoll_wait(l->epoll_fd, events, EVENTS_PER_BATCH, ms > INT_MAX ? INT_MAX : (int)ms);
}

/* A signal ends a wait without a look at descriptors, and so does SIGCONT, when the process has
 * stood still. What arrived meanwhile comes before timers that ran out meanwhile: a connection that
 * has a request is not idle. */
static int wait_events(struct loop *l, struct epoll_event *events, const struct timespec *ts)
{
    int n = wait_once(l, events, ts);

    return n < 0 && errno == EINTR ? wait_once(l, events, &(struct timespec){ 0 }) : n;
}

void loop_run(struct loop *l)
{
    struct epoll_event events[EVENTS_PER_BATCH];
    struct timespec ts;
    struct timespec *sleep;
    int64_t now_ns;
    int n;

    loop_lock_take(l);
    while (!atomic_load(&l->stopping)) {
        run_timers(l);
        run_tasks(l);
        if (atomic_load(&l->stopping)) {
            break;
        }
        now_ns = loop_clock_ns();
        sleep = sleep_time(l, now_ns, &ts);
        __atomic_store_n(&l->waits, l->waits + 1, __ATOMIC_RELAXED);
        give(l, now_ns);
        n = wait_events(l, events, sleep);
        if (n < 0 && errno != EINTR) {
            descriptor_gone();
        }
        loop_lock_take(l);
        l->sleeping_until_ns = INT64_MIN;
        for (int i = 0; i < n; i++) {
            dispatch(l, &events[i]);
        }
    }
    atomic_store(&l->stopping, false);
    give(l, loop_clock_ns());
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->stopping, true);
    kick(l);
}
