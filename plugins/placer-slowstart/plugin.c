/* placer/slowstart: wraps another placer. */
#include "shipped.h"
#include "slow.h"
#include "placer.h"

#include <stdlib.h>
#include <string.h>

struct slowstart {
    const struct fn_host *host;
    struct slow_options options;
    struct slow wrapped;
};

/* ---- life ------------------------------------------------------------------------------------ */

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct slowstart *s = calloc(1, sizeof(*s));
    int r;

    if (!s) {
        return FN_E_EXHAUSTED;
    }
    s->host = host;
    memcpy(&s->options, conf, sizeof(s->options));
    s->wrapped.options = &s->options;
    s->wrapped.u64 = placer_draw;
    s->wrapped.ud = (void *)(uintptr_t)host;
    r = wrap_find(host, s->options.inner, SLOW_INNER_MAX, &s->wrapped.inner, reterr);
    if (r < 0) {
        free(s);
        return r;
    }
    *ret_inst = s;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

/* ---- methods: the inner placer sees its own session and index -------------------------------- */

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct slowstart *s = inst;
    const uint32_t size = ret->size; /* the host's answer may be larger than we know */
    int r = slow_decide(&s->wrapped, ask, ret);

    ret->size = size;
    return r;
}

static void observe(void *inst, const struct fn_placed *what)
{
    const struct slowstart *s = inst;
    const struct fn_snapshot view = slow_view(what->snap);

    wrap_observe(&s->wrapped.inner, what, &view, what->index);
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    const struct slowstart *s = inst;
    struct slow_index *ix = calloc(1, sizeof(*ix));

    if (!ix) {
        return FN_E_EXHAUSTED;
    }
    ix->oldest_ns = INT64_MAX;
    for (uint32_t i = 0; i < snap->n; i++) {
        const struct fn_runner *r = fn_snapshot_at(snap, i);

        if (!(r->flags & FN_RUNNER_DRAINING) && r->since_ns < ix->oldest_ns) {
            ix->oldest_ns = r->since_ns;
        }
    }
    ix->inner = wrap_index_build(&s->wrapped.inner, snap);
    *ret_index = ix;
    return 0;
}

static void index_free(void *inst, void *index)
{
    const struct slowstart *s = inst;
    struct slow_index *ix = index;

    wrap_index_free(&s->wrapped.inner, ix->inner);
    free(ix);
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = FN_PLACER_SESSION_MAX,
    .decide = decide,
    .observe = observe,
    .index_build = index_build,
    .index_free = index_free,
};

/* ---- manifest -------------------------------------------------------------------------------- */

static const struct fn_opt opts[] = {
    WRAP_OPT_INNER(struct slow_options),
    { .key = "window",
      .doc = "Time after which a new runner gets its full share of calls.",
      .dflt = "30s",
      .min = 1000000,
      .max = 3600000000000,
      .type = FN_OPT_DURATION,
      .offset = offsetof(struct slow_options, window_ns) },
    { .key = "floor",
      .doc = "Share of calls that a new runner gets at first, in thousandths of a full share.",
      .dflt = "100",
      .choices = "thousandths",
      .min = 0,
      .max = 1000,
      .type = FN_OPT_INT,
      .offset = offsetof(struct slow_options, floor) },
    { .key = NULL },
};

static const struct fn_need needs[] = {
    { "fn.placer", FN_PLACER_MAJOR, 0, 0 },
    { NULL, 0, 0, 0 },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "slowstart",
    .summary = "Lets another placer decide, but gives new runners their share of calls gradually.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct slow_options),
    .opts = opts,
    .needs = needs,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_slowstart, "placer-slowstart", &factory)
