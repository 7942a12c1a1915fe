/* Suite "driver": fn/driver.h, over an engine that is scripted: what it does well, a driver's own
 * tests must show; here is what must hold when it does not. */
#include "outside.h"
#include "suites.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT (30 * ENV_S)
#define CLOSES 40 /* attempts before a container counts as stuck */

struct container {
    struct fn_task *task;
    void *ctr;
    bool made;
};

static struct fn_task *task_new(uint32_t salt)
{
    static const struct fn_kv env[] = {{"FN_FORMAT", "http-stream"}, {"KEY", "value"}};
    static const struct fn_kv ext[] = {{"tag", "blue"}, {"other", ""}};
    static uint64_t handles;
    struct fn_task *t = fence_alloc(sizeof(*t), 8);

    *t = (struct fn_task){
        .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK),
        .id = "01CONTRACT0000000000000001",
        .owner = "contract-1",
        .instance = "0123456789abcdef0123456789abcdef",
        .fn_id = "01FN",
        .app_id = "01APP",
        .image = salt % 5 ? "fnproject/hello:0.0.2" : "no/such image:??",
        .env = env,
        .extensions = ext,
        .n_env = salt % 3,
        .n_extensions = salt % 3,
        .iofs_dir = "/tmp/contract-iofs",
        .iofs_engine_dir = "/tmp/contract-iofs",
        .iofs_inside = "/tmp/iofs",
        .hostname = "contract",
        .mem_bytes = salt % 2 ? 128u << 20 : 0,
        .cpu_milli = salt % 4 ? 0 : 500,
        .flags = salt % 16,
        .handle = ++handles,
    };
    if (t->n_env == 0) {
        t->env = NULL;
        t->extensions = NULL;
    }
    fence_read_only(t);
    return t;
}

static void check_in_time(const char *method, const struct fn_op *op)
{
    int64_t end = op->cancel_at_ns < op->deadline_ns ? op->cancel_at_ns : op->deadline_ns;

    must(end == INT64_MAX || clock_now() <= end + ENV_S,
         "%s() came back %lld s after its operation had ended; expected an end at the deadline or "
         "on "
         "cancel",
         method, (long long)((clock_now() - end) / ENV_S));
}

static void check_error(const char *method, int r, const struct fn_error *e)
{
    must_be_result(method, r, e);
    must(r == 0 || e->msg[0] || r == FN_E_EXHAUSTED,
         "%s() failed without a text; expected one sentence in reterr", method);
    trace_u64((uint64_t)(int64_t)r);
}

static struct fn_op op_new(const struct fn_op *like)
{
    struct fn_op op = op_for(TIMEOUT);

    if (like && like->cancel_at_ns != INT64_MAX) {
        op.cancel_at_ns = clock_now() + 2 * ENV_S;
    }
    return op;
}

static int prepare(struct instance *in, const struct container *c, struct fn_op op)
{
    const struct fn_driver_ops *ops = instance_ops(in);
    struct fn_error e = ERR_INIT;
    int r;

    enter(in, WORKER, "prepare_image");
    r = ops->prepare_image(in->inst, &op, c->task, &e);
    leave();
    check_error("prepare_image", r, &e);
    check_in_time("prepare_image", &op);
    return r;
}

static int make(struct instance *in, struct container *c, struct fn_op op)
{
    const struct fn_driver_ops *ops = instance_ops(in);
    struct fn_error e = ERR_INIT;
    static char untouched;
    int r;

    c->ctr = &untouched;
    enter(in, WORKER, "create");
    r = ops->create(in->inst, &op, c->task, &c->ctr, &e);
    leave();
    check_error("create", r, &e);
    check_in_time("create", &op);
    must(r == 0 || c->ctr == &untouched,
         "create() of a container failed and wrote ret_ctr; ret_* parameters are written only on "
         "success");
    c->made = r == 0;
    must(r != 0 || c->ctr != &untouched, "create() returned 0 without a container in ret_ctr");
    return r;
}

typedef int (*method_fn)(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr);

static int method(struct instance *in, const char *name, method_fn run, struct container *c,
                  struct fn_op op)
{
    struct fn_error e = ERR_INIT;
    int r;

    if (!run) {
        return 0;
    }
    enter(in, WORKER, name);
    r = run(in->inst, &op, c->ctr, &e);
    leave();
    check_error(name, r, &e);
    check_in_time(name, &op);
    return r;
}

/* As the host: again with the same ctr until it answers 0; the world gets well in between. */
static void close_for_good(struct instance *in, struct container *c)
{
    const struct fn_driver_ops *ops = instance_ops(in);
    int i;

    for (i = 0; c->made && i < CLOSES; i++) {
        if (i == CLOSES / 2) {
            outside_mode(OUTSIDE_GOOD);
        }
        if (method(in, "close", ops->close, c, op_new(NULL)) == 0) {
            c->made = false;
        }
        outside_pump();
        clock_advance(ENV_S);
    }
    must(!c->made,
         "close() failed %d times, %d of them with an engine that answers; expected it to "
         "succeed at last",
         CLOSES, CLOSES / 2);
    fence_free(c->task);
}

static void others(struct instance *in, struct fn_op op)
{
    const struct fn_driver_ops *ops = instance_ops(in);
    struct fn_error e = ERR_INIT;
    uint32_t removed = 0xdeadbeef;
    char *version = fence_alloc(24, 1);
    int r;

    enter(in, WORKER, "sweep");
    r = ops->sweep(in->inst, &op, "contract-1", "0123456789abcdef0123456789abcdef", &removed, &e);
    leave();
    check_error("sweep", r, &e);
    check_in_time("sweep", &op);
    must((r == 0) == (removed != 0xdeadbeef),
         "sweep() returned %d and %s ret_removed; it is written on success and only then", r,
         removed != 0xdeadbeef ? "wrote" : "did not write");
    op = op_new(&op);
    e = ERR_INIT;
    memset(version, 'z', 24);
    enter(in, WORKER, "probe");
    r = ops->probe(in->inst, &op, version, 24, &e);
    leave();
    check_error("probe", r, &e);
    check_in_time("probe", &op);
    must(r != 0 || memchr(version, '\0', 24),
         "probe() left a version that does not end within 24 bytes");
    fence_free(version);
}

static void slot_key(struct instance *in)
{
    const struct fn_driver_ops *ops = instance_ops(in);
    const struct fn_kv ext[] = {{"tag", "blue"}, {"other", "value"}};
    static const size_t caps[] = {512, 64, 3, 1};
    char again[512];
    size_t i;

    for (i = 0; ops->slot_key && i < 8; i++) {
        size_t cap = caps[i % 4];
        uint32_t n = i < 4 ? 2 : 0;
        char *key = fence_alloc(cap, 1);
        int r;

        memset(key, 'z', cap);
        enter(in, LOOP, "slot_key");
        r = ops->slot_key(in->inst, n ? ext : NULL, n, key, cap);
        leave();
        must(r == 0 || r == FN_E_RANGE, "slot_key() returned %d; expected 0 or FN_E_RANGE", r);
        must(r != 0 || memchr(key, '\0', cap),
             "slot_key() left a text that does not end within %zu bytes", cap);
        must(r == 0 || cap < 512, "slot_key() finds 512 bytes too short for two extensions");
        if (r == 0 && cap == 512) {
            trace_text(key);
            enter(in, LOOP, "slot_key");
            ops->slot_key(in->inst, n ? ext : NULL, n, again, sizeof(again));
            leave();
            must(strcmp(key, again) == 0, "slot_key() gives another text for the same extensions; "
                                          "expected it to be pure");
        }
        fence_free(key);
    }
}

/* A container from its image to its end. `cancel`: operations are cancelled on the way. */
static void whole_life(struct instance *in, uint32_t salt, bool cancel)
{
    const struct fn_driver_ops *ops = instance_ops(in);
    struct container c = {.task = task_new(salt)};
    struct fn_op like = op_for(TIMEOUT);

    like.cancel_at_ns = cancel ? 0 : INT64_MAX;
    reported.started_handle = 0;
    prepare(in, &c, op_new(&like));
    if (make(in, &c, op_new(&like)) == 0) {
        reported.started_handle = c.task->handle;
        method(in, "start", ops->start, &c, op_new(&like));
        outside_pump();
        method(in, "freeze", ops->freeze, &c, op_new(&like));
        method(in, "thaw", ops->thaw, &c, op_new(&like));
        enter(in, NOWHERE, "uid");
        ops->uid(in->inst, c.ctr);
        leave();
        outside_pump();
    }
    others(in, op_new(&like));
    close_for_good(in, &c);
    outside_pump();
}

void driver_exercise(struct instance *in, bool tolerant)
{
    (void)tolerant;
    slot_key(in);
    for (uint32_t i = 0; i < 4; i++) {
        whole_life(in, i, false);
    }
}

/* ---- cases
 * --------------------------------------------------------------------------------------- */

static void with_world(enum outside_mode mode, bool cancel)
{
    struct instance *in = instance_new();

    for (uint32_t i = 0; i < 12; i++) {
        outside_mode(mode);
        step("its engine %s, container %u%s", outside_mode_names[mode], i,
             cancel ? ", operations are cancelled" : "");
        whole_life(in, i, cancel);
    }
    instance_destroy(in);
    must(outside_open_answers() == 0, "%u answers of fn.http or fn.exec were not released",
         outside_open_answers());
    must(outside_open_streams() == 0, "%u streams are open after destroy()",
         outside_open_streams());
    must(reported.inner_open == 0, "%u containers of the inner driver were not closed",
         reported.inner_open);
}

static void test_good(void)
{
    with_world(OUTSIDE_GOOD, false);
}

static void test_down(void)
{
    with_world(OUTSIDE_DOWN, false);
}

static void test_garbage(void)
{
    with_world(OUTSIDE_GARBAGE, false);
    with_world(OUTSIDE_HUGE, false);
    with_world(OUTSIDE_EMPTY, false);
}

static void test_refuses(void)
{
    with_world(OUTSIDE_REFUSED, false);
    with_world(OUTSIDE_MIXED, false);
}

static void test_deadline(void)
{
    with_world(OUTSIDE_SLOW, false);
}

static void test_cancel(void)
{
    with_world(OUTSIDE_SLOW, true);
    with_world(OUTSIDE_MIXED, true);
}

static void test_many(void)
{
    enum { N = 24 };
    struct container all[N];
    struct instance *in = instance_new();
    const struct fn_driver_ops *ops = instance_ops(in);
    uint32_t i;

    step("%d containers at the same time, closed in another order", N);
    reported.started_handle = 1;
    for (i = 0; i < N; i++) {
        all[i] = (struct container){.task = task_new(i)};
        if (make(in, &all[i], op_new(NULL)) == 0) {
            method(in, "start", ops->start, &all[i], op_new(NULL));
        }
    }
    outside_pump();
    for (i = 0; i < N; i++) {
        close_for_good(in, &all[i * 7 % N]);
    }
    instance_destroy(in);
}

static void test_not_started(void)
{
    struct instance *in = instance_new();
    struct container c = {.task = task_new(1)};

    step("close() of a container that was never started");
    make(in, &c, op_new(NULL));
    close_for_good(in, &c);
    must(reported.exits == 0, "an exit was reported for a container that was never started");
    instance_destroy(in);
}

static void test_forgets(void)
{
    struct instance *in = instance_new();
    int64_t blocks = 0;

    for (uint32_t i = 0; i < 60; i++) {
        blocks = i == 20 ? memory_live_blocks() : blocks;
        outside_mode(OUTSIDE_GOOD);
        whole_life(in, 1, false);
    }
    must(memory_live_blocks() - blocks < 20,
         "%lld blocks more after 40 containers that are gone; expected none",
         (long long)(memory_live_blocks() - blocks));
    instance_destroy(in);
}

static void test_slot_key(void)
{
    struct instance *in = instance_new();

    if (!((const struct fn_driver_ops *)instance_ops(in))->slot_key) {
        skip("has no slot_key()");
    }
    step("slot_key() of two extensions and none, into 512 bytes and less");
    slot_key(in);
    instance_destroy(in);
}

static void test_task_growth(void)
{
    struct instance *in = instance_new();
    struct container c = {.task = fence_alloc(sizeof(*c.task) + 24, 8)};
    struct fn_task *from = task_new(3);
    struct fn_task *t = c.task;

    step("a task of a later host, 24 bytes larger");
    memset(t, 0xa5, sizeof(*t) + 24);
    *t = *from;
    t->hdr.size = (uint32_t)sizeof(*t) + 24;
    fence_read_only(t);
    fence_free(from);
    prepare(in, &c, op_new(NULL));
    make(in, &c, op_new(NULL));
    close_for_good(in, &c);
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    {"driver", "life", "image, create, start, freeze, thaw, close with an engine that answers",
     test_good, 20, false},
    {"driver", "engine-down", "the engine is not there", test_down, 20, false},
    {"driver", "garbage", "the engine talks garbage, nothing or without end", test_garbage, 30,
     false},
    {"driver", "refuses", "the engine refuses", test_refuses, 20, false},
    {"driver", "deadline", "methods end at their deadline", test_deadline, 20, false},
    {"driver", "cancel", "methods end when they are cancelled", test_cancel, 20, false},
    {"driver", "many", "many containers at the same time, closed in any order", test_many, 20,
     false},
    {"driver", "not-started", "a container may be closed before it was started", test_not_started,
     10, false},
    {"driver", "forgets", "closed containers leave no memory behind", test_forgets, 20, false},
    {"driver", "slot-key", "slot_key() is pure, ends its text within cap or says FN_E_RANGE",
     test_slot_key, 10, false},
    {"driver", "task-growth", "a task of a later host is larger", test_task_growth, 10, false},
};

struct contract_list driver_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
