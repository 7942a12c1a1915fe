/* A container engine behind the driver's table: containers, how long operations take, and what
 * goes wrong with them. Methods run on the fibres of their node's lanes. */
#include "engine_int.h"

#include <base/err.h>
#include <conf/conf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum method { PREPARE, CREATE, START, FREEZE, THAW, CLOSE, PROBE, SWEEP, METHODS_N };
#define DEAD_NS     (2 * ENV_MS) /* until a refused connection is told */
#define SLOW_FACTOR 20
#define IDLE_SLACK_NS (20 * ENV_S) /* until an idle container is gone */

static struct engine_driver *of(void *inst)
{
    return inst;
}

static uint64_t draw(struct engine *e, uint64_t n)
{
    return sim_rng_below(&e->rng, n);
}

/* ---- what operations meet ------------------------------------------------------------------ */

static int64_t length_of(struct engine *e, enum method m)
{
    const struct plan *p = e->w->plan;
    bool fast = m == FREEZE || m == THAW || m == PROBE;
    int64_t ns = fast ? p->fast_ns : p->slow_ns;

    ns = ns / 2 + (int64_t)draw(e, (uint64_t)ns + 1);
    return e->w->now_ns < e->slow_until_ns ? ns * SLOW_FACTOR : ns;
}

static int broken_off(struct fn_error *err, int r)
{
    return err_set(err, r, "engine: %s", r == FN_E_CANCELLED ? "cancelled" : "no answer in time");
}

static int meet(struct engine_driver *d, struct fn_op *op, enum method m, struct fn_error *err)
{
    struct engine *e = d->engine;
    int r;

    if (e->w->now_ns < e->dead_until_ns) {
        sim_op_pause(op, DEAD_NS);
        return err_set(err, FN_E_UNAVAILABLE, "engine: connection refused");
    }
    while (e->w->now_ns < e->hung_until_ns) {
        r = sim_op_pause(op, e->hung_until_ns - e->w->now_ns);
        if (r < 0) {
            return broken_off(err, r);
        }
    }
    r = sim_op_pause(op, length_of(e, m));
    if (r < 0) {
        return broken_off(err, r);
    }
    if (e->fails > 0 && e->fail_method == (uint32_t)m) {
        e->fails--;
        return err_set(err, e->fail_code, "engine: it fails");
    }
    return 0;
}

/* Lets the time of an operation pass. 0, or why it failed; then nothing was done. */
static int work(struct engine_driver *d, struct fn_op *op, enum method m, struct fn_error *err)
{
    static const char *const names[METHODS_N] = { "prepare", "create", "start", "freeze",
                                                  "thaw",    "close",  "probe", "sweep" };
    int r = meet(d, op, m, err);

    tell(&d->runner->n, "engine: %s%s%s", names[m], r < 0 ? " fails: " : "", r < 0 ? err->msg : "");
    return r;
}

/* ---- containers ---------------------------------------------------------------------------- */

struct box *box_find(struct engine *e, const struct runner_node *by, const char *id)
{
    struct box *b;

    LIST_FOREACH(b, &e->boxes, link) {
        if (b->by == by && strcmp(b->id, id) == 0) {
            return b;
        }
    }
    return NULL;
}

/* What is made and was never started uses none; what was started does until it is removed. */
static void check_memory(struct engine *e, const struct runner_node *by)
{
    uint64_t bytes = 0, all = e->w->plan->runner_mem_mb * ACCOUNT_MIB;
    struct box *b;

    LIST_FOREACH(b, &e->boxes, link) {
        bytes += b->by == by && b->started ? b->mem_bytes : 0;
    }
    if (bytes > all) {
        books_break(e->w->books, BOOKS_MEMORY, 0, "%s has containers of %llu bytes; expected %llu",
                    by->n.name, (unsigned long long)bytes, (unsigned long long)all);
    }
}

static void on_exit_due(struct env_timer *t)
{
    struct box *b = container_of(t, struct box, exit_timer);
    struct runner_node *r = b->by;
    struct engine_driver *d = plugin_inst(r->driver);
    struct fn_exit exit = b->exit;
    uint64_t handle = b->handle;

    tell(&r->n, "container %s ends, reason %u", b->id + 20, b->exit.reason);
    b->state = b->state == BOX_GONE ? BOX_GONE : BOX_ENDED;
    function_end(b);
    d->reports->exited(d->host, handle, &exit);
}

void box_exit(struct box *b, uint32_t reason, int32_t status, int64_t ns)
{
    if (b->exiting || (b->state != BOX_RUNS && b->state != BOX_FROZEN)) {
        return;
    }
    b->exiting = true;
    b->exit = (struct fn_exit){ sizeof(b->exit), reason, status, 0 };
    b->exit_timer.cb = on_exit_due;
    world_at(&b->by->n, &b->exit_timer, b->engine->w->now_ns + ns);
}

static struct box *box_create(struct engine_driver *d, const struct fn_task *task)
{
    struct box *b = sim_alloc(sizeof(*b));

    b->engine = d->engine;
    b->by = d->runner;
    snprintf(b->id, sizeof(b->id), "%s", task->id);
    b->handle = task->handle;
    if (!version_read(task->image, &b->function, &b->version) || b->function >= FUNCTIONS_MAX) {
        abort();
    }
    b->rules = version_rules(task);
    b->mem_bytes = task->mem_bytes;
    LIST_INSERT_HEAD(&d->engine->boxes, b, link);
    return b;
}

static void box_free(struct box *b)
{
    function_end(b);
    env_timer_clear(b->by->n.env, &b->exit_timer);
    LIST_REMOVE(b, link);
    free(b);
}

/* ---- the driver's table -------------------------------------------------------------------- */

static int prepare(void *inst, struct fn_op *op, const struct fn_task *task, struct fn_error *err)
{
    (void)task;
    return work(of(inst), op, PREPARE, err);
}

static int create(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                  struct fn_error *err)
{
    struct engine_driver *d = of(inst);
    int r = work(d, op, CREATE, err);

    if (r < 0) {
        if ((r == FN_E_DEADLINE || r == FN_E_CANCELLED) && draw(d->engine, 4) == 0) {
            box_create(d, task)->lost = true; /* the engine did it all the same */
        }
        return r;
    }
    *ret_ctr = box_create(d, task);
    return 0;
}

static int start(void *inst, struct fn_op *op, void *ctr, struct fn_error *err)
{
    struct engine_driver *d = of(inst);
    struct box *b = ctr;
    int r;

    b->started = true;
    check_memory(d->engine, d->runner);
    r = work(d, op, START, err);
    if (r == 0 && b->state == BOX_GONE) {
        r = err_set(err, FN_E_NOT_FOUND, "engine: no such container");
    }
    if (r == 0) {
        b->state = BOX_RUNS;
        function_begin(b);
    }
    return r;
}

static int change(void *inst, struct fn_op *op, struct box *b, enum method m, struct fn_error *err)
{
    int r = work(of(inst), op, m, err);

    if (r < 0) {
        return r;
    }
    if (b->state != BOX_RUNS && b->state != BOX_FROZEN) {
        return err_set(err, FN_E_NOT_FOUND, "engine: the container does not run");
    }
    b->state = m == FREEZE ? BOX_FROZEN : BOX_RUNS;
    if (m == THAW) {
        b->idle_ns = 0; /* for a call, even if that leaves before the function has a byte of it */
    }
    return 0;
}

static int freeze(void *inst, struct fn_op *op, void *ctr, struct fn_error *err)
{
    return change(inst, op, ctr, FREEZE, err);
}

static int thaw(void *inst, struct fn_op *op, void *ctr, struct fn_error *err)
{
    return change(inst, op, ctr, THAW, err);
}

static int close_(void *inst, struct fn_op *op, void *ctr, struct fn_error *err)
{
    int r = work(of(inst), op, CLOSE, err);

    if (r == 0) {
        box_free(ctr);
    }
    return r;
}

/* Those of a process that is gone: it may not know yet, so its boxes stay until it closes them. */
static int sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *err)
{
    struct engine_driver *d = of(inst);
    int r = work(d, op, SWEEP, err);
    struct box *b, *next;

    (void)owner;
    if (d->runner->n.dead) {
        return 0; /* it was killed: it does nothing any more that others see */
    }
    for (b = r < 0 ? NULL : LIST_FIRST(&d->engine->boxes); b; b = next) {
        next = LIST_NEXT(b, link);
        if (b->lost && (b->by->n.dead || b->by == d->runner)) {
            *ret_removed += 1;
            box_free(b);
        } else if (strcmp(b->by->instance, instance) != 0 && b->state != BOX_GONE) {
            *ret_removed += 1;
            box_exit(b, FN_EXIT_REMOVED, 0, 0);
            b->state = BOX_GONE;
        }
    }
    return r;
}

static int probe(void *inst, struct fn_op *op, char *ret_version, size_t cap, struct fn_error *err)
{
    snprintf(ret_version, cap, "sim 1");
    return work(of(inst), op, PROBE, err);
}

static uint32_t uid(void *inst, void *ctr)
{
    (void)inst;
    (void)ctr;
    return 1000;
}

static const struct fn_driver_ops ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .prepare_image = prepare,
    .create = create,
    .start = start,
    .freeze = freeze,
    .thaw = thaw,
    .close = close_,
    .sweep = sweep,
    .probe = probe,
    .uid = uid,
};

/* ---- the instance -------------------------------------------------------------------------- */

static int driver_create(const struct fn_host *host, const void *conf, void **ret_inst,
                         struct fn_error *err)
{
    struct engine_driver *d = sim_alloc(sizeof(*d));

    (void)err;
    memcpy(&d->runner, conf, sizeof(d->runner));
    d->engine = d->runner->n.w->engines[d->runner->index];
    d->host = host;
    d->reports = host->get(host, "fn.driver", 1);
    *ret_inst = d;
    return 0;
}

static const struct fn_need needs[] = { { .iface = "fn.driver", .major = 1 }, { .iface = NULL } };

const struct fn_factory engine_driver = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_DRIVER,
    .name = "sim",
    .kind_major = FN_DRIVER_MAJOR,
    .kind_minor = FN_DRIVER_MINOR,
    .conf_size = sizeof(struct runner_node *),
    .needs = needs,
    .ops = &ops,
    .create = driver_create,
    .destroy = free,
};

/* ---- faults -------------------------------------------------------------------------------- */

void engine_mode(struct engine *e, enum plan_kind kind, int64_t until_ns)
{
    *(kind == PLAN_ENGINE_DEAD    ? &e->dead_until_ns
      : kind == PLAN_ENGINE_HANGS ? &e->hung_until_ns
                                  : &e->slow_until_ns) = until_ns;
}

void engine_fail(struct engine *e, uint32_t method, uint32_t times, uint64_t chance)
{
    static const int32_t codes[] = { FN_E_INTERNAL, FN_E_UNAVAILABLE, FN_E_DEADLINE,
                                     FN_E_NOT_FOUND, FN_E_EXHAUSTED };

    e->fail_method = method % METHODS_N;
    e->fails = times;
    e->fail_code = codes[chance % (sizeof(codes) / sizeof(codes[0]))];
}

void engine_exit_one(struct engine *e, uint64_t chance)
{
    uint64_t n = 0;
    struct box *b;

    LIST_FOREACH(b, &e->boxes, link) {
        n += b->state == BOX_RUNS && !b->exiting;
    }
    n = n ? chance % n : 0;
    LIST_FOREACH(b, &e->boxes, link) {
        if (b->state == BOX_RUNS && !b->exiting && n-- == 0) {
            box_exit(b, 1 + (uint32_t)(chance >> 32) % 4, (int32_t)(chance >> 40) % 130, 0);
            return;
        }
    }
}

void engine_refuse_sockets(struct engine *e, uint32_t n)
{
    e->refuse_sockets = n;
}

void engine_heal(struct engine *e)
{
    e->dead_until_ns = e->hung_until_ns = e->slow_until_ns = 0;
    e->fails = e->refuse_sockets = 0;
}

/* Looked at now and then. */
void engine_check_idle(struct engine *e)
{
    const struct world *w = e->w;
    bool upset = w->now_ns < w->upset_until_ns || e->fails > 0;
    struct box *b;

    LIST_FOREACH(b, &e->boxes, link) {
        int64_t limit_ns = w->plan->function[b->function].idle_timeout_s * ENV_S + IDLE_SLACK_NS;

        if (upset || b->idle_ns == 0 || b->lost || b->by->n.dead || function_is_used(b)) {
            b->idle_ns = w->now_ns;
        } else if (w->now_ns - b->idle_ns > limit_ns) {
            books_break(w->books, BOOKS_IDLE, 0, "%s has container %s that nobody uses for %d s",
                        b->by->n.name, b->id + 20, (int)((w->now_ns - b->idle_ns) / ENV_S));
        }
    }
}

void engine_check_empty(struct engine *e, const struct runner_node *r)
{
    uint64_t n = 0;
    struct box *b;

    LIST_FOREACH(b, &e->boxes, link) {
        n += b->by == r && !b->lost;
    }
    books_equal(e->w->books, BOOKS_NOTHING_LEFT, "containers of a drained runner", n, 0);
    books_equal(e->w->books, BOOKS_NOTHING_LEFT, "sockets of a drained runner", r->open_sockets, 0);
    books_equal(e->w->books, BOOKS_NOTHING_LEFT, "requests to its functions", r->exchanges, 0);
}

struct engine *engine_create(struct world *w, uint32_t runner)
{
    struct engine *e = sim_alloc(sizeof(*e));

    e->w = w;
    e->runner = runner;
    e->rng = sim_rng_make(w->plan->seed, 300 + runner);
    LIST_INIT(&e->boxes);
    return e;
}

/* Behind its runners. */
void engine_destroy(struct engine *e)
{
    struct box *b;

    while ((b = LIST_FIRST(&e->boxes))) {
        LIST_REMOVE(b, link);
        free(b);
    }
    free(e);
}
