/* Slot queues: who gets which container, when to start more, whom to evict, whom to refuse.
 *
 * Waiting calls are served first in, first out; idle containers last in, first out. Starts are
 * driven by events: whenever the number of waiting calls exceeds the containers being started, the
 * missing ones are started together, as far as memory, CPU and evictable idle containers of others
 * reach. A waiting call that no starting container covers is refused at once when the function has
 * no container, else after queue_wait_ns; more than queue_factor such calls per container are
 * refused at once, and nobody waits longer than start_wait_ns, whatever is starting, unless its
 * function says that its starts take longer. A start that
 * has not begun with the engine ends when nobody waits for it. A function with short calls gets
 * as many containers as serve them soon, not one for each call (enough(), more_help(),
 * give_up_surplus()). */
#include <runner/runner_int.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WAITERS_MAX   10000 /* of one function, whatever its speed */
#define RUN_WINDOW_NS (5 * ENV_S)
#define START_PATIENCE_NS (50 * ENV_MS) /* calls wait for, then containers are doubled */
#define HUNG_NS       (60 * ENV_S) /* remembered of a function whose start ran out of time */

/* Calls that run for each processor: while the runner takes the answer of one and sends its
 * container the next, others keep the processor busy, and the fewer calls wait for a container, the
 * more of them one turn of the loop sends off. Measured with calls of 20 us, 8 and 64 at a time, on
 * two processors, in calls a second: one container 15 700 and 12 700, four 19 300 and 22 400, eight
 * 21 200 and 25 100. */
#define RUNS_PER_PROCESSOR 4

/* ---- idle lists ---------------------------------------------------------------------------- */

static void lru_add(struct container *c)
{
    if (c->warm) {
        TAILQ_INSERT_HEAD(&c->r->lru, c, lru_link);
    } else {
        TAILQ_INSERT_TAIL(&c->r->lru, c, lru_link);
    }
    account_add(&c->r->evictable, &c->need);
    fair_rests(c->q, true);
}

static void lru_remove(struct container *c)
{
    TAILQ_REMOVE(&c->r->lru, c, lru_link);
    account_sub(&c->r->evictable, &c->need);
    fair_rests(c->q, false);
}

void slots_idle_add(struct container *c)
{
    TAILQ_INSERT_HEAD(&c->q->idle, c, idle_link);
    c->in_idle = true;
    c->q->n_idle++;
    lru_add(c);
    c->r->n_idle++;
}

void slots_idle_remove(struct container *c)
{
    TAILQ_REMOVE(&c->q->idle, c, idle_link);
    c->in_idle = false;
    c->q->n_idle--;
    lru_remove(c);
    c->r->n_idle--;
}

void slots_evict_first(struct container *c)
{
    TAILQ_REMOVE(&c->r->lru, c, lru_link);
    TAILQ_INSERT_HEAD(&c->r->lru, c, lru_link);
}

void slots_spare(struct container *c, bool on)
{
    if (on == c->spare) {
        return;
    }
    c->spare = on;
    if (on) {
        lru_add(c);
    } else {
        lru_remove(c);
    }
}

struct container *slots_idle(struct slot_queue *q)
{
    struct container *c = TAILQ_FIRST(&q->idle);

    if (c && c->state != CTR_IDLE) {
        struct container *any;

        TAILQ_FOREACH(any, &q->idle, idle_link) { /* a frozen one was put back out of order */
            if (any->state == CTR_IDLE) {
                return any;
            }
        }
        if (!engine_thaws(q->r)) {
            return NULL;
        }
    }
    return c;
}

/* ---- room ---------------------------------------------------------------------------------- */

void slots_plan(struct container *c, bool on)
{
    account_move(&c->q->planned, &c->need, on);
}

void slots_coming(struct container *c, bool on)
{
    if (on == c->coming) {
        return;
    }
    c->coming = on;
    account_move(&c->r->closing, &c->need, on);
}

void slots_early(struct container *c, bool on)
{
    c->r->n_early += (uint32_t)(on - c->early);
    c->early = on;
}

struct account_need slots_missing(const struct slot_queue *q, const struct account_need *coming)
{
    struct account_need ahead = fair_ahead(q);

    account_add(&ahead, &q->planned);
    return account_missing(&q->r->account, &q->need, &ahead, coming);
}

/* Could one more container of q be made with what is free, and what is coming? */
static bool room_with(const struct slot_queue *q, const struct account_need *coming)
{
    struct account_need missing = slots_missing(q, coming);

    return account_is_zero(&missing);
}

bool slots_helps(const struct container *c, const struct account_need *missing)
{
    return (missing->mem_bytes && c->need.mem_bytes) || (missing->cpu_milli && c->need.cpu_milli);
}

static void evict(struct container *c)
{
    metrics_evicted(c->q, c->state);
    if (c->warm) {
        warm_evicted(c);
    }
    log_debug("container evicted", OF_CONTAINER(c));
    container_close(c);
}

static void unmark_all(struct runner *r)
{
    struct container *c;

    TAILQ_FOREACH(c, &r->lru, lru_link) {
        c->evicted = false;
    }
}

/* Which idle ones to evict for one more container of q, which has `others`: least recently used
 * first, only those that help, and none without which the rest is enough. False, and none: all
 * together would not do. */
static bool mark_for(const struct slot_queue *q, uint32_t others, struct account_need missing)
{
    struct runner *r = q->r;
    struct account_need open = missing;
    struct account_need freed = { 0, 0 };
    struct container *c;

    TAILQ_FOREACH(c, &r->lru, lru_link) {
        if (account_is_zero(&open)) {
            break;
        }
        if (c->q != q && slots_helps(c, &open) && !fair_spares(c, others)) {
            c->evicted = true;
            account_add(&freed, &c->need);
            open = account_minus(&open, &c->need);
        }
    }
    if (!account_is_zero(&open)) {
        unmark_all(r);
        return false;
    }
    TAILQ_FOREACH_REVERSE(c, &r->lru, container_list, lru_link) {
        if (c->evicted && freed.mem_bytes - c->need.mem_bytes >= missing.mem_bytes &&
            freed.cpu_milli - c->need.cpu_milli >= missing.cpu_milli) {
            c->evicted = false;
            account_sub(&freed, &c->need);
        }
    }
    return true;
}

static bool evict_for(struct slot_queue *q, struct account_need missing)
{
    struct container *c, *next;

    if (!mark_for(q, q->n_containers - 1, missing)) {
        return false;
    }
    for (c = TAILQ_FIRST(&q->r->lru); c; c = next) {
        next = TAILQ_NEXT(c, lru_link);
        if (c->evicted) {
            evict(c);
        }
    }
    return true;
}

/* Could one more container of q be made, if idle ones of others are evicted? */
static bool room_for(const struct slot_queue *q)
{
    struct runner *r = q->r;
    struct account_need coming = r->closing;
    bool can;

    account_add(&coming, &r->evictable);
    if (room_with(q, &r->closing) || !room_with(q, &coming)) {
        return room_with(q, &r->closing);
    }
    can = mark_for(q, q->n_containers, slots_missing(q, &r->closing));
    unmark_all(r);
    return can;
}

bool slots_reserve(struct container *c)
{
    const struct account_need none = { 0, 0 };
    struct runner *r = c->r;
    struct account_need ahead = c->warm ? r->reserving : fair_ahead(c->q);
    struct account_need missing = account_missing(&r->account, &c->need, &ahead, &none);

    if (account_is_zero(&missing)) { /* beside those who wait */
        c->claimed = !c->warm && fair_served(c->q);
        account_take(&r->account, &c->need);
        container_reserved(c);
        return true;
    }
    if (c->warm) {
        return false; /* it takes nothing from others */
    }
    missing = account_missing(&r->account, &c->need, &ahead, &r->closing);
    if (!account_is_zero(&missing) && !evict_for(c->q, missing)) {
        return false;
    }
    c->claimed = fair_served(c->q);
    c->reserving = true;
    TAILQ_INSERT_TAIL(&r->reserving_list, c, reserve_link);
    account_add(&r->reserving, &c->need);
    return true;
}

void slots_unreserve(struct container *c)
{
    if (c->reserving) {
        c->reserving = false;
        TAILQ_REMOVE(&c->r->reserving_list, c, reserve_link);
        account_sub(&c->r->reserving, &c->need);
    }
}

static void set_starved(struct slot_queue *q, bool on)
{
    if (on && !q->starved) {
        TAILQ_INSERT_TAIL(&q->r->starving, q, starving_link);
    } else if (!on && q->starved) {
        TAILQ_REMOVE(&q->r->starving, q, starving_link);
    }
    q->starved = on;
}

void slots_room(struct runner *r)
{
    struct container *c;
    struct slot_queue *q;

    while ((c = TAILQ_FIRST(&r->reserving_list)) && account_fits(&r->account, &c->need)) {
        slots_unreserve(c);
        account_take(&r->account, &c->need);
        container_reserved(c);
    }
    TAILQ_FOREACH(q, &r->starving, starving_link) {
        slots_kick(q);
    }
}

void slots_engine_down(struct runner *r)
{
    struct container *c;

    while ((c = TAILQ_FIRST(&r->reserving_list))) {
        container_give_up(c);
    }
    slots_kick_all(r);
}

/* ---- waiting calls ------------------------------------------------------------------------- */

void slots_wait(struct slot_queue *q, struct rcall *rc, bool first)
{
    rcall_enter(rc, RC_WAIT);
    rc->q = q;
    rc->queued_ns = rc->queued_ns ? rc->queued_ns : env_now_ns(q->r->env);
    if (first) {
        TAILQ_INSERT_HEAD(&q->waiters, rc, link);
    } else {
        TAILQ_INSERT_TAIL(&q->waiters, rc, link);
    }
    q->n_waiters++;
    q->r->counts.waiting++;
    metric_add(q->r->metrics.queued, 1);
}

void slots_unwait(struct rcall *rc)
{
    struct slot_queue *q = rc->q;
    struct container *c;

    TAILQ_REMOVE(&q->waiters, rc, link);
    q->n_waiters--;
    q->r->counts.waiting--;
    metric_add(q->r->metrics.queued, -1);
    if (rc->own_launch) {
        TAILQ_FOREACH(c, &q->containers, link) {
            if (c->for_call == rc) {
                c->for_call = NULL;
            }
        }
    }
}

static void slots_refuse(struct rcall *rc, enum engage_reason reason, const char *why)
{
    slots_unwait(rc);
    rcall_nack(rc, reason, why);
}

static uint32_t covered(const struct slot_queue *q)
{
    return engine_accepts(q->r) ? q->n_starting : q->n_init;
}

struct rcall *slots_waiter(struct slot_queue *q, uint32_t i)
{
    struct rcall *rc = TAILQ_FIRST(&q->waiters);

    while (rc && i-- > 0) {
        rc = TAILQ_NEXT(rc, link);
    }
    return rc;
}

static void arm_queue(struct slot_queue *q, int64_t at_ns)
{
    env_timer_hasten(q->r->env, &q->timer, at_ns);
}

static uint32_t live(const struct slot_queue *q)
{
    return q->n_containers - q->n_starting;
}

/* Containers with which calls that come one after the other use all processors that other
 * functions leave. It is no reason to evict a container of theirs. */
static uint64_t processors_use(const struct slot_queue *q)
{
    uint64_t most = RUNS_PER_PROCESSOR * ((q->r->account.totals.cpu_milli + 999) / 1000);
    uint64_t others = account_left(q->r->counts.running + q->n_idle, live(q));
    uint64_t there = q->n_containers + room_with(q, &q->r->closing);

    most = account_left(most, others);
    return most < there ? most : there;
}

/* Containers that serve everybody who waits within start_target_ns; short calls need fewer than
 * there are calls. */
static uint64_t enough(const struct slot_queue *q)
{
    uint64_t in_time = (uint64_t)(q->run_ns * (q->n_waiters + live(q)) /
                                  q->r->opt.start_target_ns) + 1;
    uint64_t used = q->backlog >= 1 ? processors_use(q) : 0;

    return used > in_time ? used : in_time;
}

/* Somebody waits in spite of that. */
static bool in_need(const struct slot_queue *q)
{
    const struct rcall *first = TAILQ_FIRST(&q->waiters);

    return first && env_now_ns(q->r->env) - first->queued_ns >= START_PATIENCE_NS;
}

/* Whether more containers help those in need: they do when all are held by long calls, so that
 * nothing has ended since the first one began to wait. When calls end all the time and it waits
 * nonetheless, they help only if there are processors for them; on a machine that is used up each
 * would make all of them slower, and the next wait longer. */
static bool more_help(struct slot_queue *q)
{
    const struct rcall *first = TAILQ_FIRST(&q->waiters);
    struct runner *r = q->r;

    return q->ran_ns < first->queued_ns ||
           account_cpu_spare(&r->cpu, &r->deps.reader, env_now_ns(r->env));
}

/* How many containers to start: as many as are enough, or, while somebody is in need and it helps,
 * as many again as there are. */
static uint32_t starts_wanted(struct slot_queue *q)
{
    uint32_t missing = q->n_waiters > q->n_starting ? q->n_waiters - q->n_starting : 0;
    uint64_t wanted;

    if (q->hung_until_ns) {
        return missing > 0 && q->n_starting == 0;
    }
    if (missing == 0 || live(q) == 0 || q->run_ns == 0) {
        return missing;
    }
    wanted = enough(q);
    if (wanted >= missing + q->n_containers) {
        return missing;
    }
    if (in_need(q) && q->n_starting == 0 && more_help(q)) {
        wanted = wanted > 2 * q->n_containers ? wanted : 2 * q->n_containers;
    }
    arm_queue(q, env_now_ns(q->r->env) + START_PATIENCE_NS);
    wanted = wanted > q->n_containers ? wanted - q->n_containers : 0;
    return wanted < missing ? (uint32_t)wanted : missing;
}

/* The shortest run of this window and the one before: a busy machine makes runs longer, which more
 * containers would make longer still. */
static void note_shortest(struct slot_queue *q, int64_t ns, int64_t now)
{
    if (now - q->window_ns >= RUN_WINDOW_NS) {
        bool late = q->run_ns == 0 || now - q->window_ns >= 2 * RUN_WINDOW_NS;

        q->before_ns = late ? ns : q->window_run_ns;
        q->window_run_ns = ns;
        q->window_ns = now;
    }
    q->window_run_ns = ns < q->window_run_ns ? ns : q->window_run_ns;
    q->run_ns = q->window_run_ns < q->before_ns ? q->window_run_ns : q->before_ns;
}

void slots_ran(struct slot_queue *q, int64_t ns)
{
    int64_t now = env_now_ns(q->r->env);

    ns = ns > 0 ? ns : 1;
    note_shortest(q, ns, now);
    q->backlog += q->mean_ns == 0 ? q->n_waiters : (q->n_waiters - q->backlog) / 64;
    q->mean_ns += q->mean_ns == 0 ? ns : (ns - q->mean_ns) / 64;
    q->ran_ns = now;
}

static void launch_missing(struct slot_queue *q)
{
    uint32_t n = starts_wanted(q);
    struct rcall *rc;

    if (n == 0 || !engine_accepts(q->r)) {
        return;
    }
    rc = slots_waiter(q, q->n_starting);
    while (rc && n-- > 0) {
        if (!room_for(q)) {
            set_starved(q, true);
            fair_ask(q);
            return;
        }
        if (!container_launch(q, rc)) {
            return;
        }
        rc = TAILQ_NEXT(rc, link);
    }
}

static void refuse_full(struct slot_queue *q, struct rcall *rc)
{
    if (q->r->draining) {
        slots_refuse(rc, ENGAGE_REASON_DRAINING, "shutting down");
    } else if (!engine_accepts(q->r)) {
        slots_refuse(rc, ENGAGE_REASON_ENGINE, "container engine is down");
    } else if (live(q) > 0) {
        slots_refuse(rc, ENGAGE_REASON_QUEUE, "the function's containers are busy");
    } else {
        slots_refuse(rc, ENGAGE_REASON_ROOM, "memory or CPU is used up");
    }
}

/* How many calls may wait: some per container, or as many as can be served in time. */
static uint32_t waiters_max(const struct slot_queue *q)
{
    const struct runner_options *opt = &q->r->opt;
    uint64_t most = (uint64_t)opt->queue_factor * (live(q) + covered(q));
    uint64_t in_time = q->mean_ns ? (uint64_t)(opt->queue_wait_ns / q->mean_ns) * live(q) / 2 : 0;

    most = covered(q) + (in_time > most ? in_time : most);
    return most < WAITERS_MAX ? (uint32_t)most : WAITERS_MAX;
}

static void refuse_uncovered(struct slot_queue *q)
{
    struct runner *r = q->r;
    uint32_t most = waiters_max(q);
    int64_t now = env_now_ns(r->env);
    struct rcall *rc, *next;

    if (q->n_waiters > most || r->draining) {
        while (q->n_waiters > (r->draining ? 0 : most)) {
            refuse_full(q, TAILQ_LAST(&q->waiters, rcall_list));
        }
    }
    for (rc = slots_waiter(q, covered(q)); rc; rc = next) {
        next = TAILQ_NEXT(rc, link);
        if (now - rc->queued_ns >= r->opt.queue_wait_ns) {
            refuse_full(q, rc);
        } else {
            arm_queue(q, rc->queued_ns + r->opt.queue_wait_ns);
            break;
        }
    }
}

/* A container that has not begun with the engine: its start can still be given up. */
static bool not_begun(const struct container *c)
{
    return c->state <= CTR_RESERVE || (c->state == CTR_CREATE && !c->op.submitted);
}

/* The newest first. */
static void give_up_starts(struct slot_queue *q, uint64_t most)
{
    struct container *c, *before;

    for (c = TAILQ_LAST(&q->containers, container_list); c && most > 0; c = before) {
        before = TAILQ_PREV(c, container_list, link);
        if (c->state < CTR_CLOSE && not_begun(c) && !c->warm) {
            container_close(c);
            most--;
        }
    }
}

/* A burst at a function without containers starts one for each call; when the first of them shows
 * how short the calls are, what has not begun yet is mostly not needed any more. */
static void give_up_surplus(struct slot_queue *q)
{
    uint64_t wanted;

    if (live(q) == 0 || q->run_ns == 0 || in_need(q)) {
        return;
    }
    wanted = enough(q);
    if (wanted < q->n_containers) {
        give_up_starts(q, q->n_containers - wanted);
    }
}

/* Nobody is there for whom they would be. */
static void give_up_unwanted(struct slot_queue *q)
{
    uint32_t n = q->n_starting - warm_starting(q);

    if (n > q->n_waiters) {
        give_up_starts(q, n - q->n_waiters);
    }
}

/* A function that says how long its starts take is waited for as much longer. */
static int64_t wait_limit_ns(const struct rcall *rc)
{
    return rc->own ? STATUS_RUN_MAX_NS : rc->r->opt.start_wait_ns + rc->start_limit_ns;
}

static void refuse_overdue(struct slot_queue *q)
{
    int64_t now = env_now_ns(q->r->env);
    struct rcall *rc, *next;

    for (rc = TAILQ_FIRST(&q->waiters); rc; rc = next) {
        int64_t limit_ns = wait_limit_ns(rc);

        next = TAILQ_NEXT(rc, link);
        if (now - rc->queued_ns < limit_ns) {
            arm_queue(q, rc->queued_ns + limit_ns);
            return;
        }
        slots_refuse(rc, ENGAGE_REASON_START,
                     rc->own ? "no container in time"
                             : "no container within runner.start_wait");
    }
}

static void kick(struct env_task *t)
{
    struct slot_queue *q = container_of(t, struct slot_queue, kick);
    struct rcall *rc;
    struct container *c;

    set_starved(q, false);
    while ((rc = TAILQ_FIRST(&q->waiters)) && (c = slots_idle(q))) {
        slots_unwait(rc);
        container_take(c, rc);
    }
    refuse_overdue(q);
    warm_adopt(q);
    give_up_surplus(q);
    give_up_unwanted(q);
    if (q->n_waiters) {
        if (!q->r->draining) {
            launch_missing(q);
        }
        refuse_uncovered(q);
    }
    if (!q->n_waiters) {
        set_starved(q, false);
    }
    slots_maybe_destroy(q);
}

void slots_kick(struct slot_queue *q)
{
    env_defer(q->r->env, &q->kick);
}

void slots_hung(struct slot_queue *q, bool hung)
{
    q->hung_until_ns = hung ? env_now_ns(q->r->env) + HUNG_NS : 0;
}

static void wait_over(struct env_timer *t)
{
    struct slot_queue *q = container_of(t, struct slot_queue, timer);

    if (q->hung_until_ns && env_now_ns(q->r->env) >= q->hung_until_ns) {
        q->hung_until_ns = 0;
    }
    slots_kick(q);
}

void slots_kick_all(struct runner *r)
{
    struct slot_queue *q, *next;

    HASH_ITER(hh, r->queues, q, next) {
        slots_kick(q);
    }
}

/* Gives the error to the calls that nothing else will serve. While the function has no container
 * that works, starts that have not begun are given up too, so that a function that cannot start
 * fails everyone who waits within one start limit (F53). */
void slots_launch_failed(struct slot_queue *q, struct container *c, const struct fn_error *why)
{
    enum engage_reason reason = !engine_accepts(q->r)    ? ENGAGE_REASON_ENGINE
                                : c->state == CTR_IMAGE ? ENGAGE_REASON_IMAGE
                                                        : ENGAGE_REASON_START;
    struct rcall *first = c->for_call;
    uint32_t n;

    if (c->claimed && why->blame == FN_BLAME_USER) {
        fair_failed(q);
    }
    container_close(c);
    if (q->n_containers == q->n_starting) {
        give_up_starts(q, UINT64_MAX);
        n = q->n_waiters > q->n_starting ? q->n_waiters - q->n_starting : 0;
    } else {
        n = q->n_waiters > q->n_starting;
    }
    while (n-- > 0) {
        struct rcall *rc = first ? first : TAILQ_FIRST(&q->waiters);

        first = NULL;
        phases_note(c, rc);
        slots_unwait(rc);
        rcall_launch_failed(rc, reason, why);
    }
    slots_kick(q);
}

/* ---- life ---------------------------------------------------------------------------------- */

static char *text_or_empty(const char *s)
{
    return strdup(s ? s : "");
}

static void queue_free(struct slot_queue *q)
{
    free(q->app_id);
    free(q->fn_id);
    free(q->image);
    free(q);
}

struct slot_queue *slots_queue(struct runner *r, const unsigned char key[SLOT_KEY_BYTES],
                               const struct call *call)
{
    struct slot_queue *q;

    HASH_FIND(hh, r->queues, key, SLOT_KEY_BYTES, q);
    if (q) {
        return q;
    }
    q = calloc(1, sizeof(*q));
    if (!q) {
        return NULL;
    }
    q->r = r;
    memcpy(q->key, key, SLOT_KEY_BYTES);
    TAILQ_INIT(&q->waiters);
    TAILQ_INIT(&q->idle);
    TAILQ_INIT(&q->containers);
    q->kick.cb = kick;
    q->timer.cb = wait_over;
    q->need.mem_bytes = (call->mem_mb + call->tmpfs_mb) * ACCOUNT_MIB;
    q->need.cpu_milli = call->cpu_milli;
    if (q->need.cpu_milli == 0 && q->need.mem_bytes > 0) { /* the runner's own needs nothing */
        q->need.cpu_milli = r->account.totals.cpu_milli_default;
    }
    q->app_id = text_or_empty(call->app_id);
    q->fn_id = text_or_empty(call->fn_id);
    q->image = text_or_empty(call->image);
    if (!q->app_id || !q->fn_id || !q->image || !fair_join(q)) {
        queue_free(q);
        return NULL;
    }
    HASH_ADD(hh, r->queues, key, SLOT_KEY_BYTES, q);
    if (!table_has(q)) {
        fair_leave(q);
        queue_free(q);
        return NULL;
    }
    metrics_queue(q);
    return q;
}

static void queue_destroy(struct slot_queue *q)
{
    set_starved(q, false);
    env_undefer(q->r->env, &q->kick);
    env_timer_clear(q->r->env, &q->timer);
    HASH_DELETE(hh, q->r->queues, q);
    metrics_queue_gone(q);
    warm_forget(q);
    fair_leave(q);
    queue_free(q);
}

void slots_maybe_destroy(struct slot_queue *q)
{
    if (q->n_all > 0 || q->n_waiters > 0 || warm_wants(q) || q->claim.noted) {
        return;
    }
    if (q->hung_until_ns && !q->r->draining) {
        arm_queue(q, q->hung_until_ns);
    } else {
        queue_destroy(q);
    }
}

void slots_finish(struct runner *r)
{
    struct slot_queue *q, *next;

    HASH_ITER(hh, r->queues, q, next) {
        queue_destroy(q);
    }
}
