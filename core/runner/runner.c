/* The runner: wiring of its parts, start, drain, end. */
#include <runner/runner_int.h>

#include <assert.h>
#include <stdlib.h>

#define SWEEPS_MAX  1u /* engine_sweep() lets one run */
#define SAMPLES_MAX 1u /* usage.c too */
#define SEEN_NS     (600 * ENV_S) /* call ids are remembered for */

uint32_t runner_slow_operations_max(const struct runner_options *o)
{
    return 2 * o->parallel_starts_max + o->pulls_max + 2 * LOOKS_MAX + SWEEPS_MAX + SAMPLES_MAX +
           (o->warm_max > 0 ? WARM_STARTS_MAX : 0);
}

static void drain_over(struct env_timer *t);
static void drain_tell(struct env_task *t);

static void on_room(struct env_task *t)
{
    slots_room(container_of(t, struct runner, room_task));
}

int runner_create(const struct runner_deps *deps, struct runner **ret, struct fn_error *reterr)
{
    struct runner *r = calloc(1, sizeof(*r));

    if (!r) {
        return err_set(reterr, FN_E_EXHAUSTED, "runner: out of memory");
    }
    r->env = deps->env;
    r->deps = *deps;
    r->opt = deps->options;
    r->ops = plugin_ops(deps->driver);
    r->inst = plugin_inst(deps->driver);
    r->account.totals = deps->totals;
    TAILQ_INIT(&r->reserving_list);
    TAILQ_INIT(&r->starving);
    TAILQ_INIT(&r->lru);
    TAILQ_INIT(&r->awaiting);
    TAILQ_INIT(&r->calls);
    LIST_INIT(&r->call_walks);
    LIST_INIT(&r->container_walks);
    r->awaiting_timer.cb = calls_awaiting_tick;
    r->drain_timer.cb = drain_over;
    r->drain_task.cb = drain_tell;
    r->room_task.cb = on_room;
    r->tally = tally_create(TALLY_MAX);
    if (!r->tally ||
        seen_init(&r->seen, r->opt.seen_max, SEEN_NS, env_random_u64(r->env)) < 0) {
        tally_destroy(r->tally);
        free(r);
        return err_set(reterr, FN_E_EXHAUSTED, "runner: out of memory");
    }
    engine_init(r);
    images_init(r);
    status_init(r);
    operator_init(r);
    history_init(r);
    rings_init(r, &taps_watch);
    usage_init(r);
    warm_init(r);
    fair_init(r);
    metrics_init(&r->metrics, r->opt.count_calls);
    metrics_instance(r->opt.instance);
    metric_set(r->metrics.engine_up, 1);
    metrics_account(r);
    driver_hub_set_runner(deps->hub, r);
    *ret = r;
    return 0;
}

void runner_set_plugins(struct runner *r, struct chain *chain)
{
    chain_set(&r->chain, chain);
}

void runner_set_options(struct runner *r, const struct runner_options *options)
{
    struct runner_options o = *options;

    o.owner = r->opt.owner;
    o.instance = r->opt.instance;
    o.hostname = r->opt.hostname;
    o.count_calls = r->opt.count_calls;
    o.seen_max = r->opt.seen_max;
    r->opt = o;
    engine_set_options(r);
    images_set_options(r);
    rings_set_options(r);
    status_forget(r);
    warm_set_options(r);
}

void runner_start(struct runner *r)
{
    engine_sweep(r);
    operator_start(r);
}

void runner_count(const struct runner *r, struct runner_counts *ret)
{
    *ret = r->counts;
    ret->containers = HASH_COUNT(r->containers);
    ret->queues = HASH_COUNT(r->queues);
    ret->used = r->account.used;
    ret->engine_up = r->engine.state != ENGINE_DOWN;
    ret->warm = r->warm.counts;
}

/* ---- drain --------------------------------------------------------------------------------- */

static bool is_quiet(const struct runner *r)
{
    return engine_is_quiet(r) && !operator_is_asked(r) && !usage_is_asked(r);
}

static bool is_clean(const struct runner *r)
{
    return TAILQ_EMPTY(&r->calls) && !r->containers && is_quiet(r) &&
           !operator_has_lines(r);
}

static void drain_tell(struct env_task *t)
{
    struct runner *r = container_of(t, struct runner, drain_task);
    void (*done)(void *, bool) = r->drain_done;
    bool clean = is_clean(r);

    if (!done || !(clean || r->drain_given_up)) {
        return;
    }
    r->drain_done = NULL;
    env_timer_clear(r->env, &r->drain_timer);
    logs_end_all(r);
    if (clean) {
        engine_finish(r); /* asks an engine that is down no more: a lane would need this */
    }
    done(r->drain_ud, clean);
}

static void close_unused(struct runner *r)
{
    struct container *c, *next;

    HASH_ITER(hh, r->containers, c, next) {
        if (!c->call) {
            container_close(c);
        }
    }
}

void runner_cut(struct runner *r)
{
    struct container *c, *next_c;
    struct rcall *rc, *next;

    assert(r->draining);
    r->drain_forced = true;
    for (rc = TAILQ_FIRST(&r->calls); rc; rc = next) {
        next = TAILQ_NEXT(rc, all);
        rcall_force(rc);
    }
    close_unused(r);
    HASH_ITER(hh, r->containers, c, next_c) {
        container_hurry(c);
    }
    env_timer_set(r->env, &r->drain_timer, env_now_ns(r->env) + RUNNER_CUT_NS);
    runner_drain_check(r);
}

static void drain_over(struct env_timer *t)
{
    struct runner *r = container_of(t, struct runner, drain_timer);

    if (!r->drain_forced) {
        runner_cut(r);
        return;
    }
    r->drain_given_up = true;
    runner_drain_check(r);
}

void runner_drain(struct runner *r, int64_t deadline_ns, void (*done)(void *ud, bool clean),
                  void *ud)
{
    struct rcall *rc, *next;

    r->draining = true;
    r->drain_deadline_ns = deadline_ns;
    r->drain_done = done;
    r->drain_ud = ud;
    engine_stop_sweeps(r);
    warm_stop(r);
    fair_stop(r);
    for (rc = TAILQ_FIRST(&r->calls); rc; rc = next) {
        next = TAILQ_NEXT(rc, all);
        if (rc->state < RC_RUN) {
            rcall_force(rc);
        } else if (rc->state == RC_RUN && !rc->session && !rc->call.detached) {
            rcall_drop(rc);
        }
    }
    close_unused(r);
    images_cancel_unwanted(r);
    slots_kick_all(r); /* those without anything end */
    env_timer_set(r->env, &r->drain_timer, deadline_ns);
    runner_drain_check(r);
}

/* ---- end ----------------------------------------------------------------------------------- */

static void drop_calls(struct runner *r)
{
    struct rcall *rc, *next;

    for (rc = TAILQ_FIRST(&r->calls); rc; rc = next) {
        next = TAILQ_NEXT(rc, all);
        rc->session = NULL;
        if (rc->ex) {
            r->deps.fnsock->finish(rc->ex);
            rc->ex = NULL;
        }
        if (rc->c) {
            rc->c->call = NULL;
            rc->c = NULL;
        }
        rcall_free(rc);
    }
}

/* Nothing of it may run any more. */
static void forget_timers(struct runner *r)
{
    struct container *c, *next;
    struct slot_queue *q, *q_next;

    HASH_ITER(hh, r->containers, c, next) {
        env_timer_clear(r->env, &c->timer);
        env_undefer(r->env, &c->task_fail);
        env_undefer(r->env, &c->task_gone);
        env_undefer(r->env, &c->op.task);
        r->deps.fnsock->close(c->sock);
        c->sock = NULL;
    }
    HASH_ITER(hh, r->queues, q, q_next) {
        env_timer_clear(r->env, &q->timer);
        env_undefer(r->env, &q->kick);
    }
    status_forget_tasks(r);
    images_forget_timers(r);
    logs_forget_timers(r);
    operator_forget_timers(r);
    engine_finish(r);
    usage_finish(r);
    warm_stop(r);
    fair_stop(r);
    env_timer_clear(r->env, &r->awaiting_timer);
    env_timer_clear(r->env, &r->drain_timer);
    env_undefer(r->env, &r->drain_task);
    env_undefer(r->env, &r->room_task);
}

void runner_destroy(struct runner *r)
{
    struct container *c, *next;

    if (!r) {
        return;
    }
    driver_hub_set_runner(r->deps.hub, NULL);
    r->drain_done = NULL;
    drop_calls(r);
    forget_timers(r);
    if (!is_quiet(r)) { /* lane threads still use it: stays, as the process ends */
        log_warn("container engine still busy at the end; the next start removes what is left");
        r->abandoned = true;
        return;
    }
    HASH_ITER(hh, r->containers, c, next) {
        log_warn("container left behind; the next start removes it", "container_id", c->id,
                 "app_id", c->task.app_id, "fn_id", c->task.fn_id);
        container_free(c);
    }
    slots_finish(r);
    images_finish(r);
    status_finish(r);
    operator_finish(r);
    logs_finish(r);
    rings_finish(r);
    tally_destroy(r->tally);
    seen_finish(&r->seen);
    keys_finish(&r->keys);
    chain_unref(r->chain);
    free(r);
}
