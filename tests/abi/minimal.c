/* The smallest plugin of each of the seven kinds, in one file: what must go on loading for the whole
 * major. Built against the headers of each released minor, against today's and against those of a
 * minor to come (GROWN, grow.mjs), see matrix.txt.
 *
 *   USES_SLOT, USES_FACTORY, USES_MANIFEST   fills what the grown headers added
 *   OP_MINOR, OP_FLAGS                       of its need "fn.op"
 *   MANIFEST_MIN                             says another oldest host than its ELF note */
#include <fn/cplane.h>
#include <fn/driver.h>
#include <fn/listener.h>
#include <fn/override.h>
#include <fn/placer.h>
#include <fn/pool.h>
#include <fn/predictor.h>

#include <stdlib.h>
#include <string.h>

#ifndef OP_MINOR
#define OP_MINOR 0
#endif
#ifndef OP_FLAGS
#define OP_FLAGS 0
#endif
#ifndef MANIFEST_MIN
#define MANIFEST_MIN FN_HOST_MINOR_MIN
#endif

struct conf {
    int64_t number;
    const char *text;
};

struct inst {
    const struct fn_host *host;
    const struct fn_op_if *op; /* may be NULL when it is optional */
    const struct conf *conf;
    uint32_t metric;
    int ended;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct inst *i = calloc(1, sizeof(*i));
    uint64_t timer;

    (void)reterr;
    if (!i) {
        return FN_E_EXHAUSTED;
    }
    i->host = host;
    i->conf = conf;
    i->op = host->get(host, "fn.op", 1);
    if (i->conf->number != 5 || strcmp(i->conf->text, "word") != 0 ||
        (!i->op && !(OP_FLAGS & FN_NEED_OPTIONAL)) ||
        host->metric->declare(host, "calls", FN_METRIC_COUNTER, &i->metric) < 0 ||
        host->clock->now_ns(host) < 0 || host->rng->u64(host) == host->rng->u64(host)) {
        free(i);
        return FN_E_INTERNAL;
    }
    if (*host->log->level >= FN_LOG_DEBUG) {
        host->log->write(host, FN_LOG_DEBUG, "made", 4);
    }
    if (host->timer->arm(host, 0, free, NULL, &timer) == 0) {
        host->timer->cancel(host, timer);
    }
    *ret_inst = i;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

#ifdef USES_SLOT
static int grown_slot(void *inst)
{
    return ((struct inst *)inst)->op ? 42 : 43;
}
#define SLOT .test_grown_slot = grown_slot,
#else
#define SLOT
#endif

/* ---- placer -------------------------------------------------------------------------------------- */

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct inst *i = inst;

    i->host->metric->add(i->host, i->metric, 1);
    if (ask->snap->n == 0) {
        ret->verdict = FN_WAIT;
        ret->wake_mask = FN_WAKE_POOL;
        return 0;
    }
    ret->verdict = FN_TRY;
    ret->index = ask->snap->n - 1;
#ifdef GROWN
    if (ask->size >= sizeof(*ask) && ask->test_grown != 0) {
        ret->index = 0;
    }
#endif
    ret->note[0] = (char)('0' + fn_snapshot_at(ask->snap, ret->index)->weight);
    ret->note[1] = i->op ? '+' : '\0';
    return 0;
}

static const struct fn_placer_ops placer_ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER), .decide = decide, SLOT
};

/* ---- pool ---------------------------------------------------------------------------------------- */

static int start(void *inst, struct fn_error *reterr)
{
    (void)inst;
    (void)reterr;
    return 0;
}

static int route(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    (void)inst;
    if (strlen(call->lb_group) >= cap) {
        return FN_E_RANGE;
    }
    strcpy(ret_group, call->lb_group);
    return 0;
}

static int want(void *inst, const char *group, const struct fn_demand *demand)
{
    (void)inst;
    (void)group;
    return demand->waiting == 3 ? 0 : FN_E_INTERNAL;
}

static void stop(void *inst, void (*done)(void *ud), void *ud)
{
    (void)inst;
    done(ud);
}

static const struct fn_pool_ops pool_ops = {
    .hdr = FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL),
    .start = start, .route = route, .want = want, .stop = stop, SLOT
};

/* ---- overrider and listener ---------------------------------------------------------------------- */

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    (void)inst;
    (void)edit;
    (void)reterr;
    return FN_CHANGED;
}

static const struct fn_override_ops override_ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE), .apply = apply, SLOT
};

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    struct inst *i = inst;

    (void)call;
    if (i->ended) {
        reterr->http_status = 429;
        return FN_E_EXHAUSTED;
    }
    return 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    struct inst *i = inst;

    (void)call;
    i->ended = strcmp(end->outcome, "ok") == 0;
}

#ifdef FN_LISTENER_TIME_S /* since 1.1 */
static int after_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    struct inst *i = inst;

    (void)op;
    (void)call;
    (void)reterr;
    i->ended = strcmp(end->outcome, "ok") != 0;
    return i->ended ? FN_E_INTERNAL : 0;
}

static int before_change(void *inst, struct fn_op *op, const struct fn_change *change,
                         struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    reterr->http_status = 422;
    return strcmp(change->name, "good") == 0 ? 0 : FN_E_PERMISSION;
}

static void after_change(void *inst, struct fn_op *op, const struct fn_change *change)
{
    struct inst *i = inst;

    (void)op;
    i->ended = change->verb == FN_CHANGE_DELETE && !change->json;
}
#define AFTER_WORKER                                                                               \
    .after_worker = after_worker, .before_change = before_change, .after_change = after_change,
#else
#define AFTER_WORKER
#endif

static const struct fn_listener_ops listener_ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before, .after = after, AFTER_WORKER SLOT
};

/* ---- driver -------------------------------------------------------------------------------------- */

static int slot_key(void *inst, const struct fn_kv *extensions, uint32_t n, char *ret_key, size_t cap)
{
    (void)inst;
    if (n == 0 || strlen(extensions[0].value) >= cap) {
        return FN_E_RANGE;
    }
    strcpy(ret_key, extensions[0].value);
    return 0;
}

static int prepare_image(void *inst, struct fn_op *op, const struct fn_task *task,
                         struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    return strcmp(task->image, "busybox") == 0 ? 0 : FN_E_NOT_FOUND;
}

static int make(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr)
{
    (void)op;
    (void)reterr;
    if (task->handle != 9 || task->n_env != 1) {
        return FN_E_INVALID;
    }
    *ret_ctr = inst;
    return 0;
}

static int on_ctr(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)op;
    (void)reterr;
    return inst == ctr ? 0 : FN_E_NOT_FOUND;
}

static int sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    *ret_removed = (uint32_t)(strlen(owner) + strlen(instance));
    return 0;
}

static int probe(void *inst, struct fn_op *op, char *ret_version, size_t cap,
                 struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    if (cap < 4) {
        return FN_E_RANGE;
    }
    strcpy(ret_version, "1.0");
    return 0;
}

static uint32_t uid(void *inst, void *ctr)
{
    return inst == ctr ? 4711 : UINT32_MAX;
}

static const struct fn_driver_ops driver_ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = slot_key, .prepare_image = prepare_image, .create = make, .start = on_ctr,
    .freeze = on_ctr, .thaw = on_ctr, .close = on_ctr, .sweep = sweep, .probe = probe, .uid = uid,
    SLOT
};

/* ---- control plane and predictor ----------------------------------------------------------------- */

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    struct fn_machine m = { .size = sizeof(m), .state = FN_MACHINE_READY, .id = group,
                            .address = "127.0.0.1:9190", .capacity_mb = 4096 };
    int r = out->add(out->ud, &m);

    (void)inst;
    (void)op;
    (void)reterr;
    m.state = FN_MACHINE_STARTING;
    m.address = NULL;
    return r < 0 ? r : out->add(out->ud, &m);
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    (void)request_id;
    (void)reterr;
    *ret_accepted = n - 1;
    return 0;
}

static int take_away(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                     struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    return group[0] && machine_id[0] ? 0 : FN_E_INVALID;
}

static const struct fn_cplane_ops cplane_ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = list, .provision = provision, .remove = take_away, SLOT
};

static int predict(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    uint64_t *asked = state;

    (void)inst;
    *ret_desired_mb = load->wanted_mb * 2 + *asked;
    (*asked)++;
    return 0;
}

static const struct fn_predictor_ops predictor_ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR),
    .state_size = sizeof(uint64_t), .predict = predict, SLOT
};

/* ---- operator, since 1.1 ------------------------------------------------------------------------- */

#ifdef FN_KIND_OPERATOR
#include <fn/operator.h>

static int status(void *inst, struct fn_op *op, const struct fn_kv **ret_pairs, uint32_t *ret_n,
                  struct fn_error *reterr)
{
    static const struct fn_kv pair = { "custom", "works" };

    (void)inst;
    (void)op;
    (void)reterr;
    *ret_pairs = &pair;
    *ret_n = 1;
    return 0;
}

static const struct fn_operator_ops operator_ops = {
    .hdr = FN_HDR(struct fn_operator_ops, FN_MAGIC_OPERATOR), .status = status, SLOT
};
#endif

/* ---- manifest ------------------------------------------------------------------------------------ */

static const struct fn_need needs[] = { { "fn.op", 1, OP_MINOR, OP_FLAGS }, { NULL, 0, 0, 0 } };

static const struct fn_opt opts[] = {
    { .key = "number", .doc = "A number.", .dflt = "5", .min = 1, .max = 9, .type = FN_OPT_INT,
      .offset = offsetof(struct conf, number) },
    { .key = "text", .doc = "A text.", .dflt = "word", .type = FN_OPT_STR,
      .offset = offsetof(struct conf, text) },
    { .key = NULL },
};

#ifdef USES_FACTORY
#define FACTORY_EXTRA .test_grown = 1,
#else
#define FACTORY_EXTRA
#endif
#define FACTORY(id, kind_, upper)                                                                  \
    static const struct fn_factory id##_factory = {                                                \
        .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY), .kind = kind_, .name = "minimal",      \
        .summary = "Does next to nothing.", .kind_major = FN_##upper##_MAJOR,                      \
        .kind_minor = FN_##upper##_MINOR, .conf_size = sizeof(struct conf), .needs = needs,        \
        .opts = opts, .ops = &id##_ops, .create = create, .destroy = destroy, FACTORY_EXTRA        \
    };

FACTORY(placer, FN_KIND_PLACER, PLACER)
FACTORY(pool, FN_KIND_POOL, POOL)
FACTORY(override, FN_KIND_OVERRIDER, OVERRIDE)
FACTORY(listener, FN_KIND_LISTENER, LISTENER)
FACTORY(driver, FN_KIND_DRIVER, DRIVER)
FACTORY(cplane, FN_KIND_CONTROL_PLANE, CPLANE)
FACTORY(predictor, FN_KIND_PREDICTOR, PREDICTOR)
#ifdef FN_KIND_OPERATOR
FACTORY(operator, FN_KIND_OPERATOR, OPERATOR)
#endif

static const struct fn_factory *const factories[] = {
    &placer_factory, &pool_factory, &override_factory, &listener_factory, &driver_factory,
    &cplane_factory, &predictor_factory,
#ifdef FN_KIND_OPERATOR
    &operator_factory,
#endif
    NULL
};

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .host_minor_min = MANIFEST_MIN,
    .name = "minimal",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
#ifdef USES_MANIFEST
    .test_grown = 1,
#endif
};

FN_PLUGIN_DEFINE(minimal, manifest)
