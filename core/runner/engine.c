/* Engine: the calls to the container driver, through gates, under one circuit breaker (F39, F40).
 *
 *   UP       operations begin as the gates let them
 *   SUSPECT  an operation failed to reach the engine or is old; a probe runs, nothing begins
 *   DOWN     the probe failed, or the driver said so: waiting operations fail at once, except
 *            removals, which wait; probed every ENGINE_PROBE_NS
 *
 * Freezes and thaws go on in all of them, since a driver may do without its engine there; new
 * freezes are wanted in UP alone (freeze.c).
 *
 *   UP to SUSPECT        go_suspect()
 *   UP, SUSPECT to DOWN  go_down(): the status of the runner says so
 *   SUSPECT, DOWN to UP  go_up(): what waited begins
 *
 * A gate bounds how many lane threads a hung engine can hold, and how many of them one app: a
 * start may hang for what only its app is to blame for, such as a log server that does not answer.
 * Such a start says nothing about the engine while that answers the probe. Starts go before
 * creates, thaws before freezes.
 *
 * An operation that a driver does not give back after its deadline is told once, by its method; the
 * container is given up, and its place stays taken. */
#include <runner/runner_int.h>

#include <assert.h>
#include <stdio.h>

#define STALL_NS              ENV_S /* a call this old makes us probe */
#define PROBE_TIMEOUT_NS      ENV_S
#define PROBE_OVERDUE_NS      (PROBE_TIMEOUT_NS + ENV_S / 2)
#define FREEZES_MAX           3u /* one thread of the fast lane is left for the probe */
#define OVERDUE_NS            (2 * ENV_S) /* after the deadline of an operation */
#define SWEEP_TIMEOUT_NS      (660 * ENV_S) /* some load images in their first one */
#define SWEEP_BACKOFF_MAX_NS  (60 * ENV_S)
#define SWEEP_AGAIN_NS        (10 * ENV_S) /* other runners may die any time */

static const uint32_t follows[ENGINE_STATES_N] = {
    [ENGINE_UP] = STATE(ENGINE_SUSPECT) | STATE(ENGINE_DOWN),
    [ENGINE_SUSPECT] = STATE(ENGINE_UP) | STATE(ENGINE_DOWN),
    [ENGINE_DOWN] = STATE(ENGINE_UP),
};
static const char *const state_names[ENGINE_STATES_N] = { "up", "suspect", "down" };
const struct states engine_states = { "engine", state_names, follows, ENGINE_STATES_N };

static void engine_enter(struct engine *e, enum engine_state state)
{
    e->state = (enum engine_state)states_next(&engine_states, e->state, state);
}

static void engine_send_probe(struct runner *r);

static struct gate *gate_for(struct container *c, enum engine_op_kind k)
{
    struct engine *e = &c->r->engine;

    return k == OP_CLOSE                    ? &e->removals
           : k == OP_FREEZE || k == OP_THAW ? &e->freezes
           : c->warm                        ? &e->warm_starts
                                            : &e->starts;
}

static const char *method_of(enum engine_op_kind k)
{
    static const char *const names[] = { "", "create", "start", "freeze", "thaw", "close" };

    return names[k];
}

/* Whether the log server of its app is one that a tenant may name. */
static int check_log(const struct container *c, struct fn_error *reterr)
{
    int (*leads_home)(const char *) = c->r->deps.leads_home;
    int r;

    if (!c->task.syslog_url || c->op.log_home || !leads_home) {
        return 0;
    }
    r = leads_home(c->task.syslog_url);
    return r < 0 ? err_set(reterr, r, "the networks of this machine cannot be told now")
         : r > 0 ? err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER,
                                "RUN410 syslog_url, got \"%.80s\"; expected a host outside of "
                                "this node's own networks", c->task.syslog_url)
                 : 0;
}

static void run_op(struct env_work *w, struct fn_op *op)
{
    struct container *c = container_of(w, struct container, op.work);
    struct runner *r = c->r;
    int (*const methods[])(void *, struct fn_op *, void *, struct fn_error *) = {
        [OP_START] = r->ops->start,
        [OP_FREEZE] = r->ops->freeze,
        [OP_THAW] = r->ops->thaw,
        [OP_CLOSE] = r->ops->close,
    };
    struct fn_error *e = &c->op.err;

    c->op.result = c->op.kind == OP_CREATE ? check_log(c, e) : 0;
    if (c->op.result < 0) {
        return;
    }
    PLUGIN_ASK(c->op.result, r->deps.driver, PLUGIN_WORKER, method_of(c->op.kind), 0, e,
               c->op.kind == OP_CREATE ? r->ops->create(r->inst, op, &c->task, &c->ctr, e)
                                       : methods[c->op.kind](r->inst, op, c->ctr, e));
}

static void arm(struct runner *r, int64_t at_ns)
{
    env_timer_hasten(r->env, &r->engine.timer, at_ns);
}

void engine_tell_overdue(struct runner *r, const char *method, const struct container *c,
                         int64_t for_ns)
{
    log_error("driver does not return from a method; its calls are handed back", "plugin",
              plugin_name(r->deps.driver), "method", method, "for_ms", log_num(for_ns / ENV_MS),
              OF_CONTAINER(c));
}

void engine_watch(struct runner *r, int64_t begun_ns)
{
    arm(r, begun_ns + STALL_NS);
}

static void done_op(struct env_work *w)
{
    struct container *c = container_of(w, struct container, op.work);
    struct runner *r = c->r;
    struct gate *g = c->op.gate;

    if (r->abandoned) {
        return;
    }
    TAILQ_REMOVE(&r->engine.flight, c, op.flight_link);
    c->op.submitted = false;
    r->engine.last_done_ns = env_now_ns(r->env);
    engine_judge(r, c->op.result, &c->op.err);
    gate_leave(g, &c->op.pass);
    container_op_done(c); /* a start goes before the creates of others of its app */
    gate_let_in(g);
}

static void fail_task(struct env_task *t)
{
    container_op_done(container_of(t, struct container, op.task));
}

static void fail_soon(struct container *c, const struct fn_error *why)
{
    c->op.err = *why;
    c->op.result = FN_E_UNAVAILABLE;
    env_defer(c->r->env, &c->op.task);
}

static void engine_begin(struct gate_pass *p)
{
    struct container *c = container_of(p, struct container, op.pass);
    struct runner *r = c->r;
    struct gate *g = c->op.gate;
    bool fast = g == &r->engine.freezes;
    struct fn_error err = ERR_INIT;

    c->op.begun_ns = env_now_ns(r->env);
    c->op.err = ERR_INIT;
    c->op.result = 0;
    c->op.overdue = false;
    c->op.log_home = r->opt.syslog_own_networks;
    c->op.work.run = run_op;
    c->op.work.done = done_op;
    c->op.work.lane = fast ? ENV_LANE_FAST : ENV_LANE_SLOW;
    c->op.work.owner = plugin_name(c->r->deps.driver);
    c->op.work.deadline_ns =
        c->op.begun_ns + (fast ? r->opt.freeze_timeout_ns : r->opt.engine_timeout_ns);
    if (env_submit(r->env, &c->op.work) < 0) {
        err_set(&err, FN_E_UNAVAILABLE, "engine lane is full");
        gate_leave(g, p);
        fail_soon(c, &err);
        return;
    }
    c->op.submitted = true;
    TAILQ_INSERT_TAIL(&r->engine.flight, c, op.flight_link);
    arm(r, c->op.begun_ns + STALL_NS);
}

void engine_call(struct container *c, enum engine_op_kind kind)
{
    struct runner *r = c->r;

    assert(c->op.kind == OP_NONE);
    c->op.kind = kind;
    c->op.task.cb = fail_task;
    if (r->engine.state == ENGINE_DOWN && (kind == OP_CREATE || kind == OP_START)) {
        fail_soon(c, &r->engine.why);
        return;
    }
    c->op.gate = gate_for(c, kind);
    c->op.pass.go = engine_begin;
    c->op.pass.urgent = kind == OP_START || kind == OP_THAW;
    gate_enter(c->op.gate, &c->op.pass, c->q->app_id, NULL);
}

uint32_t engine_uid(struct container *c)
{
    struct plugin_crumb crumb;
    uint32_t uid;

    plugin_enter(&crumb, c->r->deps.driver, PLUGIN_LOOP, "uid");
    uid = c->r->ops->uid(c->r->inst, c->ctr);
    plugin_leave(&crumb);
    return uid;
}

bool engine_uncall(struct container *c)
{
    if (c->op.submitted) {
        return false;
    }
    gate_withdraw(c->op.gate, &c->op.pass);
    env_undefer(c->r->env, &c->op.task);
    c->op.kind = OP_NONE;
    return true;
}

void engine_hasten(struct container *c)
{
    enum engine_op_kind kind = c->op.kind;

    if (c->op.pass.waits && (kind == OP_CREATE || kind == OP_START)) {
        engine_uncall(c);
        engine_call(c, kind);
    }
}

bool engine_accepts(const struct runner *r)
{
    return r->engine.state != ENGINE_DOWN;
}

bool engine_thaws(const struct runner *r)
{
    return engine_accepts(r) || !r->engine.thaws_need_it;
}

/* ---- the circuit --------------------------------------------------------------------------- */

static void set_shut(struct engine *e, bool shut)
{
    e->starts.shut = e->warm_starts.shut = e->removals.shut = shut;
    if (!shut) {
        gate_let_in(&e->removals);
        gate_let_in(&e->starts);
        gate_let_in(&e->warm_starts);
    }
}

/* Removals wait until it is back. */
static void fail_waiting(struct runner *r, const struct fn_error *why)
{
    struct container *c, *next;

    HASH_ITER(hh, r->containers, c, next) {
        if (c->op.pass.waits && (c->op.kind == OP_CREATE || c->op.kind == OP_START)) {
            gate_withdraw(c->op.gate, &c->op.pass);
            fail_soon(c, why);
        }
    }
}

static void go_down(struct runner *r, const struct fn_error *why)
{
    struct engine *e = &r->engine;

    e->why = *why;
    e->why.code = FN_E_UNAVAILABLE;
    e->why.http_status = 503;
    e->why.blame = FN_BLAME_PLATFORM;
    if (e->state != ENGINE_DOWN) {
        engine_enter(e, ENGINE_DOWN);
        e->down_since_ns = env_now_ns(r->env);
        e->thaws_need_it = false;
        metric_set(r->metrics.engine_up, 0);
        log_error("container engine does not answer; new containers are refused until it does",
                  "error", why->msg);
        set_shut(e, true);
        fail_waiting(r, &e->why);
        images_fail(r, &e->why);
        slots_engine_down(r);
    }
    arm(r, env_now_ns(r->env) + ENGINE_PROBE_NS);
}

static void go_up(struct runner *r)
{
    struct engine *e = &r->engine;
    bool was_down = e->state == ENGINE_DOWN;

    if (e->state != ENGINE_UP) {
        engine_enter(e, ENGINE_UP);
    }
    metric_set(r->metrics.engine_up, 1);
    if (was_down) {
        log_warn("container engine answers again", "version", e->version);
        slots_kick_all(r);
    }
    set_shut(e, false);
}

void engine_status(const struct runner *r, struct engage_status *ret, char text[FN_ERROR_TEXT_MAX])
{
    const struct engine *e = &r->engine;

    if (e->state == ENGINE_DOWN) {
        ret->failed = true;
        ret->error_code = 503;
        ret->error_text = text;
        snprintf(text, FN_ERROR_TEXT_MAX, "container engine does not answer for %lld s: %.160s",
                 (long long)((env_now_ns(r->env) - e->down_since_ns) / ENV_S), e->why.msg);
    }
}

static void go_suspect(struct runner *r)
{
    if (r->engine.state == ENGINE_UP) {
        engine_enter(&r->engine, ENGINE_SUSPECT);
        set_shut(&r->engine, true);
        engine_send_probe(r);
    }
}

void engine_set(struct runner *r, bool up, const struct fn_error *why)
{
    if (up) {
        go_up(r);
    } else {
        go_down(r, why);
    }
}

void engine_judge(struct runner *r, int result, const struct fn_error *err)
{
    bool lost = result == FN_E_UNAVAILABLE || result == FN_E_DEADLINE;

    if (lost && err->blame != FN_BLAME_USER) {
        go_suspect(r);
    }
}

static void run_probe(struct env_work *w, struct fn_op *op)
{
    struct engine *e = container_of(w, struct engine, probe);
    struct runner *r = container_of(e, struct runner, engine);

    PLUGIN_ASK(e->probe_result, r->deps.driver, PLUGIN_WORKER, "probe", 0, &e->probe_err,
               r->ops->probe(r->inst, op, e->version, sizeof(e->version), &e->probe_err));
    (void)plugin_answer_text(r->deps.driver, "probe", e->version, sizeof(e->version));
}

static void done_probe(struct env_work *w)
{
    struct engine *e = container_of(w, struct engine, probe);
    struct runner *r = container_of(e, struct runner, engine);

    if (r->abandoned) {
        return;
    }
    e->probing = false;
    if (e->probe_result < 0) {
        go_down(r, &e->probe_err);
    } else if (e->state != ENGINE_UP) {
        go_up(r);
    }
    runner_drain_check(r);
}

static void engine_send_probe(struct runner *r)
{
    struct engine *e = &r->engine;

    if (e->probing) {
        return;
    }
    e->probe.run = run_probe;
    e->probe.done = done_probe;
    e->probe.lane = ENV_LANE_FAST;
    e->probe_err = ERR_INIT;
    e->probe_begun_ns = env_now_ns(r->env);
    e->probe.deadline_ns = e->probe_begun_ns + PROBE_TIMEOUT_NS;
    if (env_submit(r->env, &e->probe) == 0) {
        e->probing = true;
        arm(r, e->probe_begun_ns + PROBE_OVERDUE_NS);
    } else {
        err_set(&e->probe_err, FN_E_UNAVAILABLE, "engine lane is full");
        go_down(r, &e->probe_err);
    }
}

static void tell_overdue(struct runner *r, int64_t now)
{
    struct container *c, *next;

    images_tell_overdue(r, now);
    for (c = TAILQ_FIRST(&r->engine.flight); c; c = next) {
        next = TAILQ_NEXT(c, op.flight_link);
        if (!c->op.overdue && now >= c->op.work.deadline_ns + OVERDUE_NS) {
            c->op.overdue = true;
            engine_tell_overdue(r, method_of(c->op.kind), c, now - c->op.begun_ns);
            container_op_overdue(c);
        }
    }
}

static void check_stall(struct runner *r, int64_t now)
{
    const struct container *c = TAILQ_FIRST(&r->engine.flight);
    int64_t oldest_ns = images_oldest_ns(r);

    if (c && c->op.begun_ns < oldest_ns) {
        oldest_ns = c->op.begun_ns;
    }
    if (oldest_ns == INT64_MAX) {
        return;
    }
    if (now - oldest_ns >= STALL_NS &&
        now - r->engine.last_done_ns >= STALL_NS) {
        go_suspect(r);
    }
    arm(r, now + STALL_NS);
}

static void engine_tick(struct env_timer *t)
{
    struct engine *e = container_of(t, struct engine, timer);
    struct runner *r = container_of(e, struct runner, engine);
    int64_t now = env_now_ns(r->env);
    struct fn_error err = ERR_INIT;

    if (e->probing) {
        if (now - e->probe_begun_ns >= PROBE_OVERDUE_NS) {
            err_set(&err, FN_E_DEADLINE, "probe of the engine is overdue");
            go_down(r, &err);
        } else {
            arm(r, e->probe_begun_ns + PROBE_OVERDUE_NS);
        }
    } else if (e->state != ENGINE_UP) {
        engine_send_probe(r);
    }
    tell_overdue(r, now);
    if (e->state == ENGINE_UP) {
        check_stall(r, now);
    }
}

/* ---- leftovers of a dead process ----------------------------------------------------------- */

static void run_sweep(struct env_work *w, struct fn_op *op)
{
    struct engine *e = container_of(w, struct engine, sweep);
    struct runner *r = container_of(e, struct runner, engine);

    PLUGIN_ASK(e->sweep_result, r->deps.driver, PLUGIN_WORKER, "sweep", 0, &e->sweep_err,
               r->ops->sweep(r->inst, op, r->deps.options.owner, r->deps.options.instance,
                             &e->sweep_removed, &e->sweep_err));
}

static void sweep_later(struct runner *r)
{
    struct engine *e = &r->engine;

    log_warn("leftover containers not removed; trying again", "error", e->sweep_err.msg);
    e->sweep_backoff_ns = e->sweep_backoff_ns ? e->sweep_backoff_ns * 2 : ENV_S;
    if (e->sweep_backoff_ns > SWEEP_BACKOFF_MAX_NS) {
        e->sweep_backoff_ns = SWEEP_BACKOFF_MAX_NS;
    }
    env_timer_set(r->env, &e->sweep_timer, env_now_ns(r->env) + e->sweep_backoff_ns);
}

static void sweep_done(struct runner *r)
{
    struct engine *e = &r->engine;

    e->sweep_backoff_ns = 0;
    if (e->sweep_removed) {
        log_info("leftover containers removed", "count", log_num(e->sweep_removed));
    }
    if (!r->draining) {
        env_timer_set(r->env, &e->sweep_timer, env_now_ns(r->env) + SWEEP_AGAIN_NS);
    }
}

static void done_sweep(struct env_work *w)
{
    struct engine *e = container_of(w, struct engine, sweep);
    struct runner *r = container_of(e, struct runner, engine);

    if (r->abandoned) {
        return;
    }
    e->sweeping = false;
    if (e->sweep_result >= 0) {
        sweep_done(r);
    } else if (!r->draining) {
        sweep_later(r);
    }
    runner_drain_check(r);
}

static void sweep_again(struct env_timer *t)
{
    struct engine *e = container_of(t, struct engine, sweep_timer);

    engine_sweep(container_of(e, struct runner, engine));
}

void engine_sweep(struct runner *r)
{
    struct engine *e = &r->engine;

    if (e->sweeping || r->draining) {
        return;
    }
    e->sweep.run = run_sweep;
    e->sweep.done = done_sweep;
    e->sweep.lane = ENV_LANE_SLOW;
    e->sweep.deadline_ns = env_now_ns(r->env) + SWEEP_TIMEOUT_NS;
    e->sweep_err = ERR_INIT;
    e->sweep_removed = 0;
    e->sweeping = env_submit(r->env, &e->sweep) == 0;
    if (!e->sweeping) {
        err_set(&e->sweep_err, FN_E_EXHAUSTED, "engine lane is full");
        sweep_later(r);
    }
}

void engine_stop_sweeps(struct runner *r)
{
    struct engine *e = &r->engine;

    env_timer_clear(r->env, &e->sweep_timer);
    if (e->sweeping) {
        env_cancel(r->env, &e->sweep);
    }
}

void engine_init(struct runner *r)
{
    struct engine *e = &r->engine;

    e->state = ENGINE_UP;
    e->timer.cb = engine_tick;
    e->sweep_timer.cb = sweep_again;
    TAILQ_INIT(&e->flight);
    gate_init(&e->starts, r->opt.parallel_starts_max);
    gate_init(&e->warm_starts, WARM_STARTS_MAX);
    gate_init(&e->removals, r->opt.parallel_starts_max);
    gate_init(&e->freezes, FREEZES_MAX);
    e->freezes.no_shares = true; /* nothing that an app can slow down */
}

void engine_set_options(struct runner *r)
{
    struct engine *e = &r->engine;

    e->starts.max = e->removals.max = r->opt.parallel_starts_max;
    gate_let_in(&e->removals);
    gate_let_in(&e->starts);
}

bool engine_is_quiet(const struct runner *r)
{
    return TAILQ_EMPTY(&r->engine.flight) && !r->engine.probing && !r->engine.sweeping &&
           r->images.preparing == 0;
}

void engine_finish(struct runner *r)
{
    env_timer_clear(r->env, &r->engine.timer);
    env_timer_clear(r->env, &r->engine.sweep_timer);
}
