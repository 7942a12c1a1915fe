/* Container: one state machine per container, from image to removal.
 *
 *   IMAGE ──▶ RESERVE ──▶ CREATE ──▶ START ──▶ INIT ──▶ IDLE ──▶ FREEZE ──▶ FROZEN ──▶ THAW
 *     ▲                     │                            ▲ │         │                    │ │
 *     └──the image is lost──┘                            │ └──▶ BUSY ◀────────────────────┘ │
 *                                                        └────────┴─────────────────────────┘
 *   each of them ──container_close()──▶ CLOSE ──container_gone()──▶ GONE
 *
 *   IMAGE to RESERVE      container_image_done(); to CREATE: container_reserved(), it is charged
 *   CREATE to IMAGE       create_failed(): the engine had lost the image; once, uncharged
 *   CREATE to START       begin_start(): the engine has made it
 *   START to INIT         start_done()
 *   INIT, BUSY to IDLE    enter_idle(): its socket is there, or its call is over; into q->idle
 *   IDLE to FREEZE        idle_tick(): not wanted for a while
 *   IDLE, FREEZE to BUSY  run_call(): it was taken; from FREEZE when the engine had not begun
 *   FREEZE to FROZEN      freeze_done(), stay_frozen(): in q->idle, unless a call has it
 *   FROZEN to THAW        thaw(): it was taken
 *   THAW to BUSY, IDLE    run_call(); enter_idle() when its call went away
 *   THAW to FROZEN        stay_frozen(): the engine is away
 *
 * One whose room is promised is made while it waits in RESERVE (make_early()): what is made and not
 * started has no process and no charge. CREATE waits for the end of that, or makes it if that
 * failed.
 *
 * At most one engine operation runs at a time; a container that is closed while one runs is removed
 * when it returns. Its charge is given back before it counts as gone. One lazy timer per
 * container: moving its due time later costs nothing, so that a busy container touches the timer
 * heap once per freeze_idle_ns at most. */
#include <runner/runner_int.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_BACKOFF_MIN_NS (100 * ENV_MS)
#define CLOSE_BACKOFF_MAX_NS (30 * ENV_S)
#define REMOVAL_USUAL_NS     (3 * ENV_S) /* nobody is promised the room of one that takes longer */
#define RESERVE_WAIT_NS      (10 * ENV_S)
#define EARLY_MAX            32u /* made without a charge, those included that are removed again */
#define THAW_TURNS           2 /* freeze_timeouts that a thaw waits for its place */
#define TAIL_BYTES           2048
#define HINT "please ensure you are using the latest fdk and check the logs"

static void close_next(struct container *c);
static void container_tick(struct env_timer *t);

/* How long it was in that state. The trace of a call that leaves it is one of the time that it was
 * busy with that call. */
static void count_time(struct container *c, enum ctr_shown shown, int64_t ms)
{
    struct queue_metrics *m = &c->q->metrics;
    struct metric_exemplar exemplar = { .trace_id = c->ran_trace };
    const struct metric_exemplar *of = NULL;

    if (c->ran_trace[0] && shown == CTR_SHOWN_BUSY) {
        exemplar.wall_ns = env_wall_ns(c->r->env);
        of = &exemplar;
    }
    metric_observe_of(m->shown[shown].ms, ms, of);
    metric_observe_of(m->shown[shown].seconds, ms, of);
    c->ran_trace[0] = '\0';
}

/* Several states are one for Go Fn's metrics. */
static void count_state(struct container *c, enum ctr_state was, enum ctr_state s, int64_t now)
{
    struct queue_metrics *m = &c->q->metrics;
    enum ctr_shown from = metrics_shown(was), to = metrics_shown(s);

    if (from == to) {
        return;
    }
    if (from != CTR_SHOWN_N) {
        metric_add(m->shown[from].now, -1);
        count_time(c, from, (now - c->state_ns) / ENV_MS);
    }
    if (to != CTR_SHOWN_N) {
        metric_add(m->shown[to].now, 1);
    }
    c->state_ns = now;
}

static const uint32_t follows[CTR_STATES_N] = {
    [CTR_IMAGE] = STATE(CTR_RESERVE) | STATE(CTR_CLOSE),
    [CTR_RESERVE] = STATE(CTR_CREATE) | STATE(CTR_CLOSE),
    [CTR_CREATE] = STATE(CTR_START) | STATE(CTR_IMAGE) | STATE(CTR_CLOSE),
    [CTR_START] = STATE(CTR_INIT) | STATE(CTR_CLOSE),
    [CTR_INIT] = STATE(CTR_IDLE) | STATE(CTR_CLOSE),
    [CTR_IDLE] = STATE(CTR_BUSY) | STATE(CTR_FREEZE) | STATE(CTR_CLOSE),
    [CTR_FREEZE] = STATE(CTR_FROZEN) | STATE(CTR_BUSY) | STATE(CTR_CLOSE),
    [CTR_FROZEN] = STATE(CTR_THAW) | STATE(CTR_CLOSE),
    [CTR_THAW] = STATE(CTR_BUSY) | STATE(CTR_IDLE) | STATE(CTR_FROZEN) | STATE(CTR_CLOSE),
    [CTR_BUSY] = STATE(CTR_IDLE) | STATE(CTR_CLOSE),
    [CTR_CLOSE] = STATE(CTR_GONE),
    [CTR_GONE] = 0,
};
static const char *const names[CTR_STATES_N] = { "image",  "reserve", "create", "start",
                                                 "init",   "idle",    "freeze", "frozen",
                                                 "thaw",   "busy",    "close",  "gone" };
const struct states ctr_states = { "container", names, follows, CTR_STATES_N };

static void ctr_enter(struct container *c, enum ctr_state s)
{
    count_state(c, c->state, s, env_now_ns(c->r->env));
    c->q->n_starting += (uint32_t)((s <= CTR_INIT) - (c->state <= CTR_INIT));
    c->q->n_init += (uint32_t)((s == CTR_INIT) - (c->state == CTR_INIT));
    c->state = (enum ctr_state)states_next(&ctr_states, c->state, s);
}

void container_arm(struct container *c, int64_t due_ns)
{
    c->due_ns = due_ns;
    if (due_ns != DUE_NEVER) {
        env_timer_hasten(c->r->env, &c->timer, due_ns);
    }
}

/* ---- making -------------------------------------------------------------------------------- */

static void fail_now(struct env_task *t)
{
    struct container *c = container_of(t, struct container, task_fail);

    container_fail(c, &c->fail_err);
}

static void fail_soon(struct container *c, const struct fn_error *why)
{
    c->fail_err = *why;
    env_defer(c->r->env, &c->task_fail);
}

static void container_gone(struct env_task *t);

/* One that never was: there was no memory for it. */
static void container_forget(struct container *c)
{
    if (table_has(c)) {
        HASH_DELETE(hh, c->r->containers, c);
    }
    arena_finish(&c->arena);
    free(c);
}

static struct container *container_create(struct slot_queue *q, const struct mould *mould)
{
    struct runner *r = q->r;
    struct container *c = calloc(1, sizeof(*c));

    if (!c) {
        return NULL;
    }
    c->r = r;
    c->q = q;
    c->handle = ++r->next_handle;
    c->need = q->need;
    c->due_ns = DUE_NEVER;
    c->timer.cb = container_tick;
    c->task_fail.cb = fail_now;
    c->task_gone.cb = container_gone;
    arena_init(&c->arena, 0);
    id_make(r->deps.ids, env_wall_ns(r->env), c->id);
    HASH_ADD(hh, r->containers, handle, sizeof(c->handle), c);
    if (!table_has(c) || task_fill(c, mould) < 0 || output_init(c) < 0) {
        container_forget(c);
        return NULL;
    }
    c->launched_ns = c->state_ns = env_now_ns(r->env);
    TAILQ_INSERT_TAIL(&q->containers, c, link);
    fair_more(q);
    q->n_all++;
    q->n_starting++;
    count_state(c, CTR_GONE, CTR_IMAGE, c->launched_ns);
    return c;
}

static void container_begin(struct container *c)
{
    slots_plan(c, true);
    image_want(c);
}

struct container *container_launch(struct slot_queue *q, struct rcall *rc)
{
    const struct mould mould = mould_of_call(rc);
    struct container *c = container_create(q, &mould);

    if (c) {
        c->for_call = rc;
        rc->own_launch = true;
        if (q->warm && !rc->own) {
            warm_remember(q, rc);
        }
        container_begin(c);
    }
    return c;
}

bool container_launch_warm(struct slot_queue *q, const struct mould *mould)
{
    struct container *c = container_create(q, mould);

    if (c) {
        warm_begins(c);
        container_begin(c);
    }
    return c && c->warm;
}

void container_unhold(struct container *c)
{
    c->image_held = false;
    if (c->state == CTR_CLOSE) {
        close_next(c);
    }
}

static void initialized(struct container *c);

/* It runs, and fills the directory of its socket: ended like one that somebody removed. */
static void outgrown(struct container *c, const struct fn_error *why)
{
    const struct fn_exit removed = { .size = sizeof(removed), .reason = FN_EXIT_REMOVED };

    log_stranger(FN_LOG_WARN, "container is ended", "error", why->msg, OF_CONTAINER(c));
    c->outgrown = true;
    container_exited(c, &removed);
}

static void on_ready(void *ud, const struct fn_error *err)
{
    struct container *c = ud;
    struct fn_error why = ERR_INIT;

    if (c->state > CTR_INIT) {
        if (err) {
            outgrown(c, err);
        }
        return;
    }
    if (err && err->code == FN_E_EXHAUSTED) {
        fail_soon(c, err); /* this node's want, not the function's fault */
        return;
    }
    if (err) {
        err_set_http(&why, err->code ? err->code : FN_E_PRECONDITION, 502, FN_BLAME_USER,
                     "Container failed to initialize, " HINT ": %s", err->msg);
        log_stranger(FN_LOG_WARN, "function socket refused", "error", err->msg, OF_CONTAINER(c));
        fail_soon(c, &why);
        return;
    }
    c->ready = true;
    if (c->state == CTR_INIT) {
        initialized(c);
    }
}

static int make_at_engine(struct container *c, struct fn_error *reterr)
{
    const struct fnsock_if *fs = c->r->deps.fnsock;
    int result = c->sock ? 0 : fs->open(fs->impl, c->id, on_ready, c, &c->sock, reterr);

    if (result < 0) {
        c->sock = NULL;
        reterr->code = reterr->code ? reterr->code : result;
        return result;
    }
    c->task.iofs_dir = fs->dir(c->sock);
    c->task.iofs_engine_dir = fs->engine_dir(c->sock);
    engine_call(c, OP_CREATE);
    return 0;
}

static void begin_start(struct container *c)
{
    ctr_enter(c, CTR_START);
    engine_call(c, OP_START);
}

void container_reserved(struct container *c)
{
    struct runner *r = c->r;
    struct fn_error err = ERR_INIT;

    c->charged = true;
    slots_early(c, false);
    ctr_enter(c, CTR_CREATE);
    slots_spare(c, c->warm);
    container_arm(c, DUE_NEVER);
    metrics_account(r);
    c->create_ns = env_now_ns(r->env);
    if (c->ctr_made) {
        begin_start(c);
    } else if (c->op.kind == OP_NONE && make_at_engine(c, &err) < 0) {
        fail_soon(c, &err);
    }
}

/* Its room comes with the end of others, which the engine removes meanwhile. What fails here is
 * made, and told, when the room is there. */
static void make_early(struct container *c)
{
    struct fn_error err = ERR_INIT;

    if (c->r->n_early < EARLY_MAX && make_at_engine(c, &err) == 0) {
        slots_early(c, true);
    }
}

void container_image_done(struct container *c, int result, const struct fn_error *err)
{
    if (c->state != CTR_IMAGE) {
        return;
    }
    if (result < 0) {
        fail_soon(c, err);
        return;
    }
    c->image_ns = env_now_ns(c->r->env);
    slots_plan(c, false);
    ctr_enter(c, CTR_RESERVE);
    container_arm(c, c->image_ns + RESERVE_WAIT_NS);
    if (!slots_reserve(c)) {
        container_give_up(c);
    } else if (c->state == CTR_RESERVE) {
        make_early(c);
    }
}

/* The engine did not have the image after all: look it up again, once. */
static void create_failed(struct container *c)
{
    if (c->op.result != FN_E_NOT_FOUND || c->image_retried) {
        container_fail(c, &c->op.err);
        return;
    }
    c->image_retried = true;
    slots_spare(c, false);
    account_give(&c->r->account, &c->need);
    c->charged = false;
    metrics_account(c->r);
    env_defer(c->r->env, &c->r->room_task);
    ctr_enter(c, CTR_IMAGE);
    slots_plan(c, true);
    image_want(c);
}

static void fail_to_initialize(struct container *c)
{
    struct fn_error err = ERR_INIT;
    char text[FN_ERROR_TEXT_MAX];

    err_set_http(&err, FN_E_PRECONDITION, 502, FN_BLAME_USER,
                 "Container failed to initialize, " HINT ": %s",
                 container_exit_text(c, text, sizeof(text)));
    container_fail(c, &err);
}

/* Without a limit of its own it lasts as long as somebody waits for it, and no longer than an idle
 * container. */
static void arm_init(struct container *c)
{
    int64_t limit_ns = c->start_limit_ns;

    container_arm(c, env_now_ns(c->r->env) + (limit_ns < 0 ? c->idle_timeout_ns : limit_ns));
}

static void start_done(struct container *c)
{
    struct runner *r = c->r;

    c->started = true;
    slots_hung(c->q, false);
    c->started_ns = env_now_ns(r->env);
    ctr_enter(c, CTR_INIT);
    r->deps.fnsock->expect_uid(c->sock, engine_uid(c));
    if (c->exited) {
        fail_to_initialize(c);
    } else if (c->ready) {
        initialized(c);
    } else {
        arm_init(c);
    }
}

static int64_t whichever_first(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void enter_idle(struct container *c)
{
    int64_t now = env_now_ns(c->r->env);
    int64_t freeze_ns;

    ctr_enter(c, CTR_IDLE);
    c->idle_since_ns = now;
    slots_idle_add(c);
    freeze_ns = freeze_due_ns(c);
    container_arm(c, whichever_first(freeze_ns, now + c->idle_timeout_ns));
}

static void to_idle(struct container *c)
{
    struct runner *r = c->r;

    if (r->draining || c->exited) {
        container_close(c);
        return;
    }
    if (r->fair.n_open > 0 && fair_takes(c)) {
        return;
    }
    enter_idle(c);
    if (c->q->n_waiters) {
        slots_kick(c->q);
    } else if (!TAILQ_EMPTY(&r->starving)) {
        slots_room(r);
    }
}

static void initialized(struct container *c)
{
    c->ready_ns = env_now_ns(c->r->env);
    metric_observe(c->q->metrics.init_ms[0], (c->ready_ns - c->started_ns) / ENV_MS);
    phases_count(c);
    warm_started(c);
    to_idle(c);
}

/* ---- idle, frozen, taken ------------------------------------------------------------------- */

static void run_call(struct container *c)
{
    ctr_enter(c, CTR_BUSY);
    rcall_dispatch(c->call);
}

static void thaw(struct container *c)
{
    container_arm(c, env_now_ns(c->r->env) + THAW_TURNS * c->r->opt.freeze_timeout_ns);
    ctr_enter(c, CTR_THAW);
    engine_call(c, OP_THAW);
}

void container_take(struct container *c, struct rcall *rc)
{
    assert(c->in_idle && !c->call);
    slots_idle_remove(c);
    freeze_taken(c);
    if (c->warm) {
        warm_hit(c);
    }
    c->call = rc;
    rc->c = c;
    phases_note(c, rc);
    rcall_enter(rc, RC_TAKEN);
    container_arm(c, DUE_NEVER);
    if (c->state == CTR_IDLE || (c->state == CTR_FREEZE && engine_uncall(c))) {
        run_call(c);
    } else if (c->state == CTR_FROZEN) {
        thaw(c);
    }
}

void container_release(struct container *c, bool keep, bool ran)
{
    c->call = NULL;
    container_arm(c, DUE_NEVER);
    if (keep && ran) {
        c->served = true;
        c->q->stillborn = 0;
    }
    if (keep && !c->exited) {
        to_idle(c);
    } else {
        container_close(c);
    }
}

/* Nobody called it for its idle timeout. */
static void idle_over(struct container *c)
{
    if (!warm_keep(c)) {
        container_close(c);
    }
}

static void idle_tick(struct container *c, int64_t now)
{
    int64_t idle_end = c->idle_since_ns + c->idle_timeout_ns;
    int64_t freeze_ns;

    if (now >= idle_end) {
        idle_over(c);
        return;
    }
    freeze_ns = freeze_look_ns(c, warm_wants(c->q), now);
    if (freeze_ns > now) {
        container_arm(c, whichever_first(freeze_ns, idle_end));
    } else {
        ctr_enter(c, CTR_FREEZE);
        engine_call(c, OP_FREEZE);
    }
}

static void stay_frozen(struct container *c)
{
    ctr_enter(c, CTR_FROZEN);
    if (!c->in_idle) {
        slots_idle_add(c);
    }
    container_arm(c, c->idle_since_ns + c->idle_timeout_ns);
}

static void freeze_done(struct container *c)
{
    struct rcall *rc = c->call;
    bool ok = c->op.result >= 0 && !c->exited;

    if (!ok) {
        c->call = NULL;
        if (c->op.result < 0) {
            log_stranger(FN_LOG_WARN, "freezing failed; container is removed", "error",
                         c->op.err.msg, OF_CONTAINER(c));
        }
        container_close(c); /* before the call looks for another one */
        if (rc) {
            rcall_again(rc, "container could not be frozen and thawed");
        }
        return;
    }
    freeze_measured(c);
    if (rc) {
        ctr_enter(c, CTR_FROZEN);
        thaw(c);
        return;
    }
    stay_frozen(c);
    if (c->q->n_waiters) { /* its own caller has left */
        slots_kick(c->q);
    }
}

/* What the engine was not there for may work when it is. */
static void thaw_failed(struct container *c)
{
    struct rcall *rc = c->call;
    bool stays = !c->exited && !c->r->draining && !engine_accepts(c->r);

    c->r->engine.thaws_need_it |= stays;

    log_stranger(FN_LOG_WARN,
                 stays ? "container not thawed; it stays frozen"
                       : "container not thawed; it is removed",
                 "error", c->exited ? "it exited" : c->op.err.msg, OF_CONTAINER(c));
    c->call = NULL;
    if (stays) {
        stay_frozen(c);
    } else {
        container_close(c);
    }
    if (rc) {
        rcall_again(rc, "container could not be thawed");
    }
}

/* The engine watches one that has begun. */
static void thaw_tick(struct container *c)
{
    if (engine_uncall(c)) {
        err_set(&c->op.err, FN_E_UNAVAILABLE, "freezes and thaws before it do not return");
        thaw_failed(c);
    }
}

static void thaw_done(struct container *c)
{
    struct rcall *rc = c->call;

    if (c->op.result < 0 || c->exited) {
        thaw_failed(c);
        return;
    }
    freeze_measured(c);
    if (rc) {
        run_call(c);
    } else {
        to_idle(c);
    }
}

/* ---- the end ------------------------------------------------------------------------------- */

void container_close(struct container *c)
{
    struct runner *r = c->r;

    if (c->state >= CTR_CLOSE) {
        return;
    }
    assert(!c->call);
    if (c->state == CTR_IMAGE) {
        slots_plan(c, false);
    }
    image_unwant(c);
    if (c->reserving) {
        slots_unreserve(c);
        env_defer(r->env, &r->room_task);
    }
    if (c->in_idle) {
        slots_idle_remove(c);
    }
    if (c->warm) {
        warm_lost(c);
    }
    env_undefer(r->env, &c->task_fail);
    c->for_call = NULL;
    if (c->started && !c->exited) {
        metrics_ended(NULL);
    }
    ctr_enter(c, CTR_CLOSE);
    container_arm(c, DUE_NEVER);
    if (r->fair.n_open > 0 && c->charged && !c->evicted) {
        fair_offer(c);
    }
    fair_less(c->q);
    if (c->charged) {
        slots_coming(c, true);
        container_arm(c, env_now_ns(r->env) + REMOVAL_USUAL_NS);
    }
    if (c->op.kind != OP_NONE && !engine_uncall(c)) {
        if (!r->draining) {
            container_hurry(c);
        }
        return;
    }
    close_next(c);
}

void container_give_up(struct container *c)
{
    container_close(c);
    slots_kick(c->q);
}

void container_hurry(struct container *c)
{
    if (c->state == CTR_CLOSE && c->op.kind != OP_NONE && c->op.kind != OP_CLOSE) {
        env_cancel(c->r->env, &c->op.work);
    }
}

static void close_next(struct container *c)
{
    if (c->op.kind != OP_NONE || c->image_held) {
        return;
    }
    if (c->ctr_made) {
        engine_call(c, OP_CLOSE);
    } else {
        env_defer(c->r->env, &c->task_gone);
    }
}

static void close_done(struct container *c)
{
    struct runner *r = c->r;

    if (c->op.result >= 0) {
        c->ctr_made = false;
        env_defer(r->env, &c->task_gone);
        return;
    }
    c->close_backoff_ns = c->close_backoff_ns ? c->close_backoff_ns * 2 : CLOSE_BACKOFF_MIN_NS;
    if (c->close_backoff_ns > CLOSE_BACKOFF_MAX_NS) {
        c->close_backoff_ns = CLOSE_BACKOFF_MAX_NS;
    }
    slots_coming(c, false);
    metric_add(r->metrics.close_failures, 1);
    log_stranger(FN_LOG_WARN, "container not removed; trying again", "error", c->op.err.msg,
                 OF_CONTAINER(c));
    container_arm(c, env_now_ns(r->env) + c->close_backoff_ns);
}

void container_free(struct container *c)
{
    struct runner *r = c->r;

    env_timer_clear(r->env, &c->timer);
    env_undefer(r->env, &c->task_fail);
    env_undefer(r->env, &c->task_gone);
    env_undefer(r->env, &c->task_exited);
    env_undefer(r->env, &c->op.task);
    r->deps.fnsock->close(c->sock);
    walks_skip(&r->container_walks, c, c->hh.next);
    HASH_DELETE(hh, r->containers, c);
    TAILQ_REMOVE(&c->q->containers, c, link);
    c->q->n_all--;
    image_unuse(c);
    output_finish(c);
    arena_finish(&c->arena);
    free(c);
}

static void container_gone(struct env_task *t)
{
    struct container *c = container_of(t, struct container, task_gone);
    struct runner *r = c->r;
    struct slot_queue *q = c->q;
    bool charged = c->charged;

    ctr_enter(c, CTR_GONE);
    slots_early(c, false);
    if (charged) {
        account_give(&r->account, &c->need);
        slots_coming(c, false);
        metrics_account(r);
    }
    container_free(c);
    slots_maybe_destroy(q);
    if (charged) {
        slots_room(r);
    }
    runner_drain_check(r);
}

void container_fail(struct container *c, const struct fn_error *why)
{
    struct slot_queue *q = c->q;
    struct fn_error err = *why;

    if (c->state >= CTR_CLOSE) {
        return;
    }
    log_stranger(FN_LOG_WARN, "container not started", "error", err.msg, "state",
                 metrics_state_name(c->state), "app_id", c->task.app_id, "fn_id", c->task.fn_id,
                 "image", c->task.image, "container_id", c->id, "call_id",
                 c->for_call ? c->for_call->call.id : NULL, "output",
                 output_tail(&c->output, TAIL_BYTES));
    if (c->warm) {
        warm_failed(c);
    } else {
        slots_launch_failed(q, c, &err);
    }
}

void container_op_done(struct container *c)
{
    enum engine_op_kind kind = c->op.kind;

    c->op.kind = OP_NONE;
    if (kind == OP_CREATE && c->op.result >= 0) {
        c->ctr_made = true;
    }
    if (c->state == CTR_CLOSE) {
        if (kind == OP_CLOSE) {
            close_done(c);
        } else {
            close_next(c);
        }
        return;
    }
    if ((kind == OP_CREATE || kind == OP_START) && c->op.result == FN_E_DEADLINE) {
        slots_hung(c->q, true);
    }
    switch (kind) {
    case OP_CREATE:
        if (c->state == CTR_RESERVE) {
            break; /* its room decides */
        } else if (c->op.result < 0) {
            create_failed(c);
        } else {
            begin_start(c);
        }
        break;
    case OP_START:
        if (c->op.result < 0) {
            container_fail(c, &c->op.err);
        } else {
            start_done(c);
        }
        break;
    case OP_FREEZE:
        freeze_done(c);
        break;
    case OP_THAW:
        thaw_done(c);
        break;
    case OP_CLOSE:
    case OP_NONE:
        break;
    }
}

void container_op_overdue(struct container *c)
{
    struct rcall *rc = c->call;
    struct fn_error err = ERR_INIT;

    if (c->state <= CTR_START) {
        slots_hung(c->q, true);
        err_set(&err, FN_E_UNAVAILABLE, "the driver does not return from its method");
        container_fail(c, &err);
        return;
    }
    c->call = NULL;
    container_close(c); /* before the call looks for another one; it may be closed already */
    if (rc) {
        rcall_again(rc, "the driver does not return from its method");
    }
}

void container_exited(struct container *c, const struct fn_exit *what)
{
    if (c->exited) {
        return;
    }
    c->exited = true;
    c->exit = *what;
    output_flush(c);
    if (c->state < CTR_CLOSE) {
        char text[FN_ERROR_TEXT_MAX];

        metrics_ended(what);
        log_stranger(FN_LOG_INFO, "hot function terminated", "reason",
                     container_exit_text(c, text, sizeof(text)), OF_CONTAINER(c), "call_id",
                     c->call ? c->call->call.id : NULL);
    }
    if (c->state == CTR_INIT) {
        fail_to_initialize(c);
    } else if (c->state == CTR_BUSY) {
        rcall_container_exited(c->call);
    } else if (c->in_idle && container_stillborn(c) && container_ended_by_itself(c)) {
        fail_to_initialize(c);
    } else if (c->in_idle) {
        container_close(c);
    } /* an operation runs: its end looks at `exited` */
}

static void init_timeout(struct container *c)
{
    struct fn_error err = ERR_INIT;

    if (c->start_limit_ns < 0 && !c->warm) {
        if (c->q->n_waiters) {
            arm_init(c);
        } else {
            container_give_up(c);
        }
        return;
    }
    metric_observe(c->q->metrics.init_ms[2], (env_now_ns(c->r->env) - c->started_ns) / ENV_MS);
    err_set_http(&err, FN_E_DEADLINE, 504, FN_BLAME_USER,
                 "Container initialization timed out, " HINT ": no socket within %lld ms",
                 (long long)(c->start_limit_ns / ENV_MS));
    container_fail(c, &err);
}

static void container_tick(struct env_timer *t)
{
    struct container *c = container_of(t, struct container, timer);
    int64_t now = env_now_ns(c->r->env);

    if (now < c->due_ns) {
        if (c->due_ns != DUE_NEVER) {
            env_timer_set(c->r->env, t, c->due_ns);
        }
        return;
    }
    c->due_ns = DUE_NEVER;
    switch (c->state) {
    case CTR_RESERVE:
        container_give_up(c);
        break;
    case CTR_INIT:
        init_timeout(c);
        break;
    case CTR_IDLE:
        idle_tick(c, now);
        break;
    case CTR_FROZEN:
        idle_over(c);
        break;
    case CTR_THAW:
        thaw_tick(c);
        break;
    case CTR_BUSY:
        rcall_deadline(c->call);
        break;
    case CTR_CLOSE:
        slots_coming(c, false);
        close_next(c);
        break;
    default:
        break;
    }
}
