/* Worker lanes: an operation is a fibre; a lane runs as many at a time as a node's does.
 *
 * submit() never runs anything from inside the call: the lane's timer starts what may start. While
 * an operation sleeps its own timer is set; cancelling moves that timer to now. */
#include <sim/sim_int.h>

#include <assert.h>
#include <stdlib.h>

/* As core/node makes them for a runner with default options. */
static const uint32_t lane_width[ENV_LANES_N] = { 4, 10, 4, 2, 4 };
#define LANE_QUEUE_MAX 1024u

/* Lives on the heap from start to end of the operation. */
struct fn_op {
    LIST_ENTRY(fn_op) link;
    struct sim *sim;
    struct env_work *work;
    struct fibre *fibre; /* set at the first suspension */
    struct env_timer timer;
};

static bool cancelled(const struct fn_op *op)
{
    return __atomic_load_n(&op->work->cancelled, __ATOMIC_RELAXED) != 0;
}

static int64_t deadline_of(const struct fn_op *op)
{
    return op->work->deadline_ns ? op->work->deadline_ns : INT64_MAX;
}

static void lane_kick(struct sim_lane *lane)
{
    struct sim *s = lane->sim;
    int64_t late_ns = 0;

    if (s->nasty.start_max_ns > 0) {
        late_ns = (int64_t)sim_rng_below(&s->sched_rng, (uint64_t)s->nasty.start_max_ns + 1);
    }
    if (!env_timer_is_set(&lane->start)) {
        sim_at(s, &lane->start, s->now_ns + late_ns);
    }
}

static void run_work(void *ud)
{
    struct fn_op *op = ud;

    op->work->run(op->work, op);
    op->work->op = NULL;
}

/* The scheduler's side of an operation: after each visit to its fibre. */
static void visited(struct fn_op *op)
{
    struct sim *s = op->sim;
    struct env_work *w = op->work;
    struct sim_lane *lane = &s->lanes[w->lane];

    if (w->op == op) {
        return;
    }
    env_timer_clear(&s->env, &op->timer);
    LIST_REMOVE(op, link);
    free(op);
    sim_record(s, SIM_OP_END, w->lane, 0);
    lane->running--;
    if (!TAILQ_EMPTY(&lane->queue)) {
        lane_kick(lane);
    }
    w->done(w);
}

static void on_timer(struct env_timer *t)
{
    struct fn_op *op = container_of(t, struct fn_op, timer);

    fibre_resume(op->sim, op->fibre);
    visited(op);
}

static void start_one(struct sim *s, struct env_work *w)
{
    struct fn_op *op = sim_alloc(sizeof(*op));

    op->sim = s;
    op->work = w;
    op->timer.cb = on_timer;
    w->op = op;
    LIST_INSERT_HEAD(&s->ops, op, link);
    s->lanes[w->lane].running++;
    sim_record(s, SIM_OP_START, w->lane, (uint64_t)w->deadline_ns);
    if (!fibre_start(s, run_work, op)) {
        abort();
    }
    visited(op);
}

static void on_start(struct env_timer *t)
{
    struct sim_lane *lane = container_of(t, struct sim_lane, start);
    struct env_work *w;

    while (lane->running < lane->width && (w = TAILQ_FIRST(&lane->queue))) {
        TAILQ_REMOVE(&lane->queue, w, link);
        lane->queued--;
        start_one(lane->sim, w);
    }
}

int sim_lanes_submit(struct env *e, struct env_work *w)
{
    struct sim *s = (struct sim *)(void *)e;
    struct sim_lane *lane = &s->lanes[w->lane];
    uint32_t one_in = s->nasty.refuse_one_in;

    if (lane->queued == LANE_QUEUE_MAX ||
        (one_in > 0 && sim_rng_below(&s->sched_rng, one_in) == 0)) {
        sim_record(s, SIM_REFUSE, w->lane, 0);
        return FN_E_EXHAUSTED;
    }
    w->cancelled = 0;
    w->op = NULL;
    TAILQ_INSERT_TAIL(&lane->queue, w, link);
    lane->queued++;
    sim_record(s, SIM_SUBMIT, w->lane, (uint64_t)w->deadline_ns);
    lane_kick(lane);
    return 0;
}

void sim_lanes_cancel(struct env *e, struct env_work *w)
{
    struct sim *s = (struct sim *)(void *)e;

    __atomic_store_n(&w->cancelled, 1, __ATOMIC_RELAXED);
    if (w->op && env_timer_is_set(&w->op->timer)) {
        sim_at(s, &w->op->timer, s->now_ns);
    }
}

void sim_lanes_init(struct sim *s)
{
    LIST_INIT(&s->ops);
    for (int i = 0; i < ENV_LANES_N; i++) {
        s->lanes[i].sim = s;
        s->lanes[i].width = lane_width[i];
        s->lanes[i].start.cb = on_start;
        TAILQ_INIT(&s->lanes[i].queue);
    }
}

void sim_lane_width(struct sim *s, enum env_lane lane, uint32_t width)
{
    s->lanes[lane].width = width;
}

void sim_lanes_finish(struct sim *s)
{
    struct fn_op *op;

    while ((op = LIST_FIRST(&s->ops))) {
        LIST_REMOVE(op, link);
        free(op);
    }
}

/* ---- fn.op ----------------------------------------------------------------------------------- */

static int64_t op_deadline_ns(const struct fn_op *op)
{
    return deadline_of(op);
}

static int op_cancelled(const struct fn_op *op)
{
    return cancelled(op);
}

static int op_sleep_until(struct fn_op *op, int64_t at_ns)
{
    PLUGIN_HOST_CALL("fn.op.sleep_until");
    struct sim *s = op->sim;
    int64_t deadline_ns = deadline_of(op);
    int64_t until_ns = at_ns < deadline_ns ? at_ns : deadline_ns;

    assert(s->running);
    if (!cancelled(op)) {
        op->fibre = s->running;
        sim_at(s, &op->timer, until_ns);
        fibre_suspend(s);
    }
    if (cancelled(op)) {
        return FN_E_CANCELLED;
    }
    return until_ns < at_ns ? FN_E_DEADLINE : 0;
}

const struct fn_op_if sim_op_if = { FN_HDR(struct fn_op_if, FN_MAGIC_OP), op_deadline_ns,
                                    op_cancelled, op_sleep_until };

const struct fn_op_if *sim_op_table(void)
{
    return &sim_op_if;
}

int sim_op_pause(struct fn_op *op, int64_t ns)
{
    return op_sleep_until(op, ns > INT64_MAX - op->sim->now_ns ? INT64_MAX : op->sim->now_ns + ns);
}

/* ---- one operation, driven to its end -------------------------------------------------------- */

struct driven {
    struct env_work work;
    struct env_timer cancel;
    struct sim *sim;
    const struct sim_op *op;
    bool done;
};

static void driven_run(struct env_work *w, struct fn_op *op)
{
    struct driven *d = container_of(w, struct driven, work);

    d->op->fn(d->op->ud, op);
}

static void driven_done(struct env_work *w)
{
    container_of(w, struct driven, work)->done = true;
}

static void driven_cancel(struct env_timer *t)
{
    struct driven *d = container_of(t, struct driven, cancel);

    sim_lanes_cancel(&d->sim->env, &d->work);
}

int sim_run_op(struct sim *s, const struct sim_op *op)
{
    struct driven *d = calloc(1, sizeof(*d));

    if (!d) {
        return FN_E_EXHAUSTED;
    }
    d->sim = s;
    d->op = op;
    d->work = (struct env_work){ .run = driven_run,
                                 .done = driven_done,
                                 .lane = ENV_LANE_CONTROL,
                                 .deadline_ns = op->deadline_ns };
    d->cancel.cb = driven_cancel;
    /* The caller wants it run, whatever the seed says about full lanes. */
    while (sim_lanes_submit(&s->env, &d->work) < 0) {
        sim_step(s);
    }
    if (op->cancel_at_ns) {
        sim_at(s, &d->cancel, op->cancel_at_ns);
    }
    while (!d->done) {
        if (!sim_step(s)) {
            return FN_E_ABORTED; /* d stays: its fibre still points at it */
        }
    }
    env_timer_clear(&s->env, &d->cancel);
    free(d);
    return 0;
}

uint32_t sim_ops_running(const struct sim *s)
{
    return s->n_fibres;
}
