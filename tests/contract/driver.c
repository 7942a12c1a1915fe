/* Suite "driver": fn/driver.h, over an engine that is scripted: what it does well, a driver's own
 * tests must show; here is what must hold when it does not. */
#include "outside.h"
#include "suites.h"
#include "world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT (30 * ENV_S)
#define CLOSES 40 /* attempts before a container counts as stuck */
#define WORLD_CONTAINERS 3
#define WORLD_TURNS      300 /* that a function of the world has to listen, a container to end */
#define INSTANCE         "0123456789abcdef0123456789abcdef"
#define SUCCESSOR        "fedcba9876543210fedcba9876543210"

struct container {
    struct fn_task *task;
    void *ctr;
    bool made;
};

#define TASKS 256

/* Between create() and the end of close(), by handle. */
static const struct fn_task *tasks[TASKS];

const struct fn_task *contract_task(uint64_t handle)
{
    const struct fn_task *t = tasks[handle % TASKS];

    return t && t->handle == handle ? t : NULL;
}

/* Of this run of fnkit: another one beside it must not sweep its containers. */
static const char *owner(void)
{
    static char text[32];

    snprintf(text, sizeof(text), "fnkit-world-%d", (int)getppid());
    return subject.world ? text : "contract-1";
}

/* What a runner would ask for, of the image of the command line. */
static void fill_world(struct fn_task *t)
{
    static const struct fn_kv env[] = {{"FN_FORMAT", "http-stream"},
                                       {"FN_LISTENER", "unix:/tmp/iofs/lsnr.sock"},
                                       {"FN_MEMORY", "128"}};
    char *id;

    if (!subject.image) {
        skip("no image to run; name one that this engine has with --image");
    }
    must(asprintf(&id, "01FNKIT%019llu", (unsigned long long)world_unique(t->handle)) == 26,
         "no memory for an id");
    t->id = id;
    t->image = subject.image;
    t->env = env;
    t->n_env = 3;
    t->iofs_dir = t->iofs_engine_dir = world_socket_dir();
    t->mem_bytes = 128u << 20;
    t->nofile_max = 1024;
    t->flags = FN_TASK_WRITABLE_ROOT;
}

static struct fn_task *task_new(uint32_t salt)
{
    static const struct fn_kv env[] = {{"FN_FORMAT", "http-stream"}, {"KEY", "value"}};
    static const struct fn_kv ext[] = {{"tag", "blue"}, {"other", ""}};
    static uint64_t handles;
    struct fn_task *t = fence_alloc(sizeof(*t), 8, "a task", "close() had succeeded");

    *t = (struct fn_task){
        .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK),
        .id = "01CONTRACT0000000000000001",
        .owner = owner(),
        .instance = INSTANCE,
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
    if (subject.world) {
        fill_world(t);
    }
    fence_read_only(t);
    return t;
}

/* In the world every method has to do what it is for. */
static void must_succeed(const char *method, int r, const struct fn_error *e)
{
    must(!subject.world || r == 0, "%s() failed: %s %.200s; expected it to work in this world",
         method, err_name(r), e->msg);
}

static void check_error(const char *method, int r, const struct fn_error *e)
{
    must_be_result(method, r, e);
    must(r == 0 || is_told(e) || r == FN_E_EXHAUSTED,
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

/* One call of a method, with its arguments and answers. */
typedef int (*method_fn)(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr);

struct call {
    struct instance *in;
    const struct fn_task *task;
    void *ctr;
    method_fn method;
    const char *owner, *instance;
    uint32_t removed;
    char *version;
    size_t cap;
    int result;
    struct fn_error error;
};

static void call_prepare(void *ud, struct fn_op *op)
{
    const struct fn_driver_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->prepare_image(c->in->inst, op, c->task, reterr_of(&c->error));
}

static void call_create(void *ud, struct fn_op *op)
{
    const struct fn_driver_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->create(c->in->inst, op, c->task, &c->ctr, reterr_of(&c->error));
}

static void call_method(void *ud, struct fn_op *op)
{
    struct call *c = ud;

    c->result = c->method(c->in->inst, op, c->ctr, reterr_of(&c->error));
}

static void call_sweep(void *ud, struct fn_op *op)
{
    const struct fn_driver_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->sweep(c->in->inst, op, c->owner, c->instance, &c->removed,
                           reterr_of(&c->error));
}

static void call_probe(void *ud, struct fn_op *op)
{
    const struct fn_driver_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->probe(c->in->inst, op, c->version, c->cap, reterr_of(&c->error));
}

static int run(const char *name, struct call *c, struct fn_op *op,
               void (*call)(void *ud, struct fn_op *op))
{
    c->error = ERR_INIT;
    on_worker(c->in, name, op, call, c);
    check_error(name, c->result, &c->error);
    must_be_in_time(name, op);
    if (op->cancel_at_ns == INT64_MAX) {
        must_succeed(name, c->result, &c->error);
    }
    return c->result;
}

static int prepare(struct instance *in, const struct container *c, struct fn_op op)
{
    struct call call = {.in = in, .task = c->task};

    return run("prepare_image", &call, &op, call_prepare);
}

static int make(struct instance *in, struct container *c, struct fn_op op)
{
    static char untouched;
    struct call call = {.in = in, .task = c->task, .ctr = &untouched};
    int r;

    tasks[c->task->handle % TASKS] = c->task;
    r = run("create", &call, &op, call_create);
    c->ctr = call.ctr;
    must(r == 0 || c->ctr == &untouched,
         "create() of a container failed and wrote ret_ctr; ret_* parameters are written only on "
         "success");
    c->made = r == 0;
    must(r != 0 || c->ctr != &untouched, "create() returned 0 without a container in ret_ctr");
    return r;
}

static int method(struct instance *in, const char *name, method_fn fn, struct container *c,
                  struct fn_op op)
{
    struct call call = {.in = in, .ctr = c->ctr, .method = fn};

    return fn ? run(name, &call, &op, call_method) : 0;
}

/* The folder of its socket is the case's own. */
static void task_free(struct fn_task *t)
{
    tasks[t->handle % TASKS] = NULL;
    if (subject.world) {
        world_remove_dir(t->iofs_dir);
        free((void *)(uintptr_t)t->iofs_dir);
        free((void *)(uintptr_t)t->id);
    }
    fence_free(t);
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
    task_free(c->task);
}

static uint32_t sweep(struct instance *in, struct fn_op op, const char *owner,
                      const char *instance)
{
    struct call call = {.in = in, .owner = owner, .instance = instance, .removed = 0xdeadbeef};
    int r = run("sweep", &call, &op, call_sweep);

    must((r == 0) == (call.removed != 0xdeadbeef),
         "sweep() returned %d and %s ret_removed; it is written on success and only then", r,
         call.removed != 0xdeadbeef ? "wrote" : "did not write");
    return r == 0 ? call.removed : 0;
}

static int probe(struct instance *in, struct fn_op op)
{
    struct call call = { .in = in,
                         .version = fence_alloc(24, 1, "the version", "probe() had returned"),
                         .cap = 24 };
    int r;

    memset(call.version, 'z', 24);
    r = run("probe", &call, &op, call_probe);
    must(r != 0 || memchr(call.version, '\0', 24),
         "probe() left a version that does not end within 24 bytes");
    fence_free(call.version);
    return r;
}

static void others(struct instance *in, struct fn_op op)
{
    sweep(in, op, owner(), INSTANCE);
    probe(in, op_new(&op));
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
        char *key = fence_alloc(cap, 1, "the key", "slot_key() had returned");
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

/* In the world, what was started is a function, which makes its socket. */
static void must_listen(const struct container *c)
{
    for (int i = 0; subject.world && !world_listens(c->task->iofs_dir); i++) {
        must(i < WORLD_TURNS,
             "start() returned 0, and no socket of the function is in %s 30 s later; expected it "
             "to run with %s mounted at %s",
             c->task->iofs_dir, c->task->iofs_dir, c->task->iofs_inside);
        must(!world_exited(c->task->handle), "its container ended at once; is %s a function?",
             c->task->image);
        world_pause();
    }
}

/* An instance; one whose engine is not there has nothing to show in the world. */
static struct instance *begin(void)
{
    struct call call = {.version = (char[64]){0}, .cap = 64, .error = ERR_INIT};
    struct fn_op op = op_for(TIMEOUT);

    if (!subject.world) {
        return instance_new();
    }
    call.in = world_instance();
    on_worker(call.in, "probe", &op, call_probe, &call);
    if (call.result < 0) {
        skip("not in this world: probe(): %s %.150s", err_name(call.result), call.error.msg);
    }
    sweep(call.in, op_new(NULL), owner(), SUCCESSOR); /* what a failed case left */
    return call.in;
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
        if (method(in, "start", ops->start, &c, op_new(&like)) == 0 && !cancel) {
            must_listen(&c);
            must(subject.world || outside_asked() > 0,
                 "start() returned 0 and nothing was made: neither it nor prepare_image() nor "
                 "create() asked fn.http, fn.exec, fn.proc or another driver; expected a container "
                 "that runs");
        }
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
    struct instance *in = begin();

    for (uint32_t i = 0; i < (subject.world ? WORLD_CONTAINERS : 12); i++) {
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
    struct instance *in = begin();
    const struct fn_driver_ops *ops = instance_ops(in);
    const uint32_t n = subject.world ? 2 * WORLD_CONTAINERS : N;
    uint32_t i;

    step("%u containers at the same time, closed in another order", n);
    reported.started_handle = 1;
    for (i = 0; i < n; i++) {
        all[i] = (struct container){.task = task_new(i)};
        prepare(in, &all[i], op_new(NULL));
        if (make(in, &all[i], op_new(NULL)) == 0) {
            method(in, "start", ops->start, &all[i], op_new(NULL));
        }
    }
    outside_pump();
    for (i = 0; i < n; i++) {
        close_for_good(in, &all[i * 7 % n]);
    }
    instance_destroy(in);
}

static void test_not_started(void)
{
    struct instance *in = begin();
    struct container c = {.task = task_new(1)};
    const uint64_t handle = c.task->handle;

    step("close() of a container that was never started");
    prepare(in, &c, op_new(NULL));
    make(in, &c, op_new(NULL));
    close_for_good(in, &c);
    must(reported.exits == 0 && !world_exited(handle),
         "an exit was reported for a container that was never started");
    instance_destroy(in);
}

static void test_forgets(void)
{
    struct instance *in = begin();
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
    struct instance *in = begin();

    if (!((const struct fn_driver_ops *)instance_ops(in))->slot_key) {
        skip("has no slot_key()");
    }
    step("slot_key() of two extensions and none, into 512 bytes and less");
    slot_key(in);
    instance_destroy(in);
}

static void test_task_growth(void)
{
    struct instance *in = begin();
    struct container c = { .task = fence_alloc(sizeof(*c.task) + 24, 8, "a task",
                                               "close() had succeeded") };
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

/* The runner dies, its successor sweeps. */
static void test_left_behind(void)
{
    struct instance *in = begin();
    struct container c = {.task = task_new(1)};
    const struct fn_driver_ops *ops = instance_ops(in);

    step("sweep() by another process of the same owner, of a container that runs");
    prepare(in, &c, op_new(NULL));
    make(in, &c, op_new(NULL));
    method(in, "start", ops->start, &c, op_new(NULL));
    must_listen(&c);
    must(sweep(in, op_new(NULL), owner(), INSTANCE) == 0,
         "sweep() removed what belongs to the process that asks");
    must(sweep(in, op_new(NULL), "fnkit-other", "another") == 0,
         "sweep() removed what belongs to another owner");
    sweep(in, op_new(NULL), owner(), SUCCESSOR);
    close_for_good(in, &c);
    must(sweep(in, op_new(NULL), owner(), SUCCESSOR) == 0,
         "sweep() finds something after close(); expected nothing to be left");
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "driver", "life", "image, create, start, freeze, thaw and close work with an engine that answers",
      test_good, ALSO_WORLD },
    { "driver", "engine-down", "the engine may be away", test_down, 0 },
    { "driver", "garbage", "the engine may answer garbage, nothing, or without end", test_garbage, 0 },
    { "driver", "refuses", "the engine may refuse", test_refuses, 0 },
    { "driver", "deadline", "methods end at their deadline", test_deadline, 0 },
    { "driver", "cancel", "methods end when they are cancelled", test_cancel, ALSO_WORLD },
    { "driver", "many", "there may be many containers at the same time, closed in any order", test_many,
      ALSO_WORLD },
    { "driver", "not-started", "a container may be closed before it was started", test_not_started,
      ALSO_WORLD },
    { "driver", "left-behind", "sweep() removes what other processes of the owner left, and nothing else",
      test_left_behind, ONLY_WORLD },
    { "driver", "forgets", "closed containers leave no memory behind", test_forgets, 0 },
    { "driver", "slot-key", "slot_key() is pure, ends its text within cap or says FN_E_RANGE",
      test_slot_key, ALSO_WORLD },
    { "driver", "task-growth", "a task of a later host is larger", test_task_growth, 0 },
};

struct contract_list driver_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
