/* Inner plugins for those that wrap one: a placer and a driver that check how they are called. */
#include "outside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool called_from(const char *method)
{
    return strcmp(shared->method, method) == 0;
}

/* ---- the inner placer ------------------------------------------------------------------------ */

#define INNER_MAGIC 0x1a1a2b2b3c3c4d4dull

struct inner_session {
    uint64_t magic;
    uint32_t next;
    uint32_t looked;
};

struct inner_index {
    uint64_t magic;
    uint64_t epoch;
};

static char inner_placer;

static int inner_decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct inner_session *s;

    HOST_CALL();
    if (inst != &inner_placer || !ask || !ret || ask->size < 64 || ret->size < 40) {
        violation("the inner placer's decide() was called with another instance or without sizes");
        return FN_E_INTERNAL;
    }
    if (!called_from("decide")) {
        violation("the inner placer's decide() was called from %s(); expected decide()",
                  shared->method);
    }
    s = ask->session;
    if (!s) {
        violation("the inner placer got no session; it asks for %zu bytes", sizeof(*s));
        return FN_E_INTERNAL;
    }
    if (ask->why == FN_WHY_START && (s->magic || s->next || s->looked)) {
        violation("the inner placer's session was not zero at FN_WHY_START");
    }
    if (ask->why != FN_WHY_START && s->magic != INNER_MAGIC) {
        violation("the inner placer's session was lost between two questions");
    }
    if (ask->snap->index) {
        const struct inner_index *index = ask->snap->index;

        if (index->magic != INNER_MAGIC) {
            violation("the inner placer got an index that it did not build");
        }
    }
    if (ask->why != FN_WHY_BUSY && ask->why != FN_WHY_UNREACHABLE) {
        s->looked = 0;
    }
    s->magic = INNER_MAGIC;
    while (s->looked < ask->snap->n) {
        s->next = s->looked++;
        if (!(fn_snapshot_at(ask->snap, s->next)->flags & FN_RUNNER_DRAINING)) {
            ret->verdict = FN_TRY;
            ret->index = s->next;
            return 0;
        }
    }
    ret->verdict = FN_WAIT;
    ret->wait_ns = 10 * ENV_MS;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    return 0;
}

static void inner_observe(void *inst, const struct fn_placed *what)
{
    HOST_CALL();
    if (inst != &inner_placer || !what || what->size < 16) {
        violation("the inner placer's observe() was called without what it needs");
    }
}

static int inner_index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    struct inner_index *x;

    HOST_CALL();
    (void)inst;
    must_be_in(IN_LOOP, "the inner placer's index_build()");
    x = outside_refuses("index_build") ? NULL : malloc(sizeof(*x));
    if (!x) {
        return FN_E_EXHAUSTED;
    }
    *x = (struct inner_index){INNER_MAGIC, snap->epoch};
    *ret_index = x;
    return 0;
}

static void inner_index_free(void *inst, void *index)
{
    HOST_CALL();
    (void)inst;
    if (index && ((struct inner_index *)index)->magic != INNER_MAGIC) {
        violation("the inner placer's index_free() got an index that it did not build");
        return;
    }
    free(index);
}

static const struct fn_placer_ops inner_placer_ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct inner_session),
    .decide = inner_decide,
    .observe = inner_observe,
    .index_build = inner_index_build,
    .index_free = inner_index_free,
};

static int placers_inner(const struct fn_host *host, const char *name,
                         const struct fn_placer_ops **ret_ops, void **ret_inst, struct fn_error *e)
{
    HOST_CALL();
    (void)host;
    must_be_in(IN_INIT, "fn.placer inner");
    if (!name || outside_refuses("fn.placer inner")) {
        return err_set(e, FN_E_NOT_FOUND, "no placer of this name");
    }
    *ret_ops = &inner_placer_ops;
    *ret_inst = &inner_placer;
    return 0;
}

const struct fn_placer_if placers_table = {FN_HDR(struct fn_placer_if, FN_MAGIC_PLACERS),
                                           placers_inner};

/* ---- the inner driver ------------------------------------------------------------------------ */

struct reported reported;

struct inner_container {
    uint64_t magic;
    const struct fn_task *task;
};

static char inner_driver;

void reported_reset(void)
{
    reported = (struct reported){0};
}

static int inner_work(const char *what, const struct fn_op *op, struct fn_error *e)
{
    must_be_in(IN_WORKER, what);
    must_be_op(op, what);
    outside_count();
    return outside_refuses(what) ? err_set(e, FN_E_UNAVAILABLE, "the engine is busy") : 0;
}

static int inner_slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret, size_t cap)
{
    HOST_CALL();
    (void)inst;
    (void)ext;
    (void)n;
    if (cap < 3) {
        return FN_E_RANGE;
    }
    memcpy(ret, "in", 3);
    return 0;
}

static int inner_prepare(void *inst, struct fn_op *op, const struct fn_task *t, struct fn_error *e)
{
    HOST_CALL();
    (void)inst;
    (void)t;
    return inner_work("the inner driver's prepare_image()", op, e);
}

static int inner_create(void *inst, struct fn_op *op, const struct fn_task *t, void **ret,
                        struct fn_error *e)
{
    struct inner_container *c;
    int r;

    HOST_CALL();
    (void)inst;
    r = inner_work("the inner driver's create()", op, e);
    if (r < 0) {
        return r;
    }
    c = malloc(sizeof(*c));
    must(c, "the machine has no memory for the test");
    *c = (struct inner_container){INNER_MAGIC, t};
    reported.inner_open++;
    *ret = c;
    return 0;
}

static int inner_method(struct inner_container *c, const char *what, const struct fn_op *op,
                        struct fn_error *e)
{
    int r = inner_work(what, op, e);

    if (!c || c->magic != INNER_MAGIC) {
        violation("%s got a container that it did not make", what);
        return FN_E_INTERNAL;
    }
    trace_u64(c->task->n_env); /* the task must live until close() */
    return r;
}

static int inner_start(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    HOST_CALL();
    (void)inst;
    return inner_method(ctr, "the inner driver's start()", op, e);
}

static int inner_freeze(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    HOST_CALL();
    (void)inst;
    return inner_method(ctr, "the inner driver's freeze()", op, e);
}

static int inner_close(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    int r;

    HOST_CALL();
    (void)inst;
    r = inner_method(ctr, "the inner driver's close()", op, e);
    if (r == 0) {
        ((struct inner_container *)ctr)->magic = 0;
        free(ctr);
        reported.inner_open--;
    }
    return r;
}

static int inner_sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                       uint32_t *ret_removed, struct fn_error *e)
{
    int r;

    HOST_CALL();
    (void)inst;
    (void)owner;
    (void)instance;
    r = inner_work("the inner driver's sweep()", op, e);
    if (r == 0) {
        *ret_removed = 0;
    }
    return r;
}

static int inner_probe(void *inst, struct fn_op *op, char *ret, size_t cap, struct fn_error *e)
{
    int r;

    HOST_CALL();
    (void)inst;
    r = inner_work("the inner driver's probe()", op, e);
    if (r == 0) {
        snprintf(ret, cap, "1.0");
    }
    return r;
}

static uint32_t inner_uid(void *inst, void *ctr)
{
    HOST_CALL();
    (void)inst;
    if (!ctr || ((struct inner_container *)ctr)->magic != INNER_MAGIC) {
        violation("the inner driver's uid() got a container that it did not make");
    }
    return UINT32_MAX;
}

static const struct fn_driver_ops inner_driver_ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = inner_slot_key,
    .prepare_image = inner_prepare,
    .create = inner_create,
    .start = inner_start,
    .freeze = inner_freeze,
    .thaw = inner_freeze,
    .close = inner_close,
    .sweep = inner_sweep,
    .probe = inner_probe,
    .uid = inner_uid,
};

/* ---- fn.driver ------------------------------------------------------------------------------- */

static void driver_exited(const struct fn_host *host, uint64_t handle, const struct fn_exit *what)
{
    HOST_CALL();
    (void)host;
    if (!what || what->size < 12 || what->reason < FN_EXIT_CODE || what->reason > FN_EXIT_REMOVED) {
        violation("fn.driver exited was called with reason %u; expected 1 to 4",
                  what ? what->reason : 0);
    }
    if (!reported.started_handle) {
        violation("fn.driver exited was called before start(); expected after it");
    }
    if (handle == reported.last_handle) {
        violation("fn.driver exited was called twice for one container; expected at most once");
    }
    reported.last_handle = handle;
    reported.exits++;
}

static void driver_output(const struct fn_host *host, uint64_t handle, uint32_t fd,
                          const void *data, size_t len)
{
    HOST_CALL();
    (void)host;
    (void)handle;
    if (fd < 1 || fd > 2 || (!data && len > 0)) {
        violation("fn.driver output was called with fd %u; expected 1 or 2", fd);
    }
    reported.outputs++;
}

static void driver_engine(const struct fn_host *host, uint32_t up, const struct fn_error *why)
{
    HOST_CALL();
    (void)host;
    (void)why;
    if (up > 1) {
        violation("fn.driver engine was called with %u; expected 0 or 1", up);
    }
    reported.engine++;
}

static int driver_inner(const struct fn_host *host, const char *name,
                        const struct fn_driver_ops **ret_ops, void **ret_inst, struct fn_error *e)
{
    HOST_CALL();
    (void)host;
    must_be_in(IN_INIT, "fn.driver inner");
    if (!name || outside_refuses("fn.driver inner")) {
        return err_set(e, FN_E_NOT_FOUND, "no driver of this name");
    }
    *ret_ops = &inner_driver_ops;
    *ret_inst = &inner_driver;
    return 0;
}

static const struct fn_task *driver_task(const struct fn_host *host, uint64_t handle)
{
    HOST_CALL();
    (void)host;
    must_be_in(IN_WORKER, "fn.driver task");
    return contract_task(handle);
}

const struct fn_driver_if driver_table = {FN_HDR(struct fn_driver_if, FN_MAGIC_DRIVER_IF),
                                          driver_exited, driver_output, driver_engine,
                                          driver_inner, driver_task};
