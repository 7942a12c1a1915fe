/* placer/hybrid. */
#include "decide.h"
#include "placer.h"
#include "shipped.h"

#include <stdlib.h>
#include <string.h>

struct hybrid {
    const struct fn_host *host;
    struct hybrid_options options;
    struct warm *warm;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct hybrid *h = calloc(1, sizeof(*h));

    (void)reterr;
    if (!h) {
        return FN_E_EXHAUSTED;
    }
    h->host = host;
    memcpy(&h->options, conf, sizeof(h->options));
    h->warm = warm_create(h->options.warm_ns);
    if (!h->warm) {
        free(h);
        return FN_E_EXHAUSTED;
    }
    *ret_inst = h;
    return 0;
}

static void destroy(void *inst)
{
    struct hybrid *h = inst;

    if (h) {
        free(h->warm);
        free(h);
    }
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct hybrid *h = inst;
    /* The index is this plugin's own, and what it knows of room is meant to change. */
    const struct hybrid_world world = {
        &h->options,
        h->warm,
        (struct hybrid_index *)(uintptr_t)ask->snap->index,
        { placer_draw, (void *)(uintptr_t)h->host },
    };

    hybrid_decide(ask->session, ask, &world, ret);
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    const struct hybrid *h = inst;
    struct hybrid_index *ix = (struct hybrid_index *)(uintptr_t)what->snap->index;
    int64_t now_ns = h->host->clock->now_ns(h->host);
    uint64_t fn = warm_hash(what->call->fn_id ? what->call->fn_id : "");

    room_observe(ix ? &ix->room : NULL, what, now_ns);
    if (what->outcome == FN_DONE_OK) {
        warm_add(h->warm, fn, what->runner_id, now_ns);
    } else if (what->outcome != FN_DONE_FAILED) {
        warm_forget(h->warm, warm_of(h->warm, fn, now_ns), what->runner_id);
    }
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    struct hybrid_index *ix = NULL;
    int r = hybrid_index_create(snap, &ix);

    (void)inst;
    if (r == 0) {
        *ret_index = ix;
    }
    return r;
}

static void index_free(void *inst, void *index)
{
    (void)inst;
    hybrid_index_destroy(index);
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct hybrid_session),
    .decide = decide,
    .observe = observe,
    .index_build = index_build,
    .index_free = index_free,
};

static const struct fn_opt opts[] = {
    PLACER_OPT_RETRY_DELAY(struct hybrid_options, "was refused"),
    { .key = "cap",
      .doc = "Number of calls and idle containers of this load balancer up to which a runner of "
             "weight 1 is packed. Set it to the number of containers that a runner can hold, "
             "divided by the number of load balancers.",
      .dflt = "8",
      .min = 1,
      .max = 100000,
      .type = FN_OPT_INT,
      .offset = offsetof(struct hybrid_options, cap) },
    { .key = "high",
      .doc =
          "Load, in percent of all caps together, from which calls are spread instead of packed; 0 "
          "= always spread.",
      .dflt = "80",
      .choices = "percent",
      .min = 0,
      .max = 100,
      .type = FN_OPT_INT,
      .offset = offsetof(struct hybrid_options, high) },
    { .key = "warm",
      .doc = "Time after a call for which its container counts as warm. Set it to the functions' "
             "idle_timeout.",
      .dflt = "30s",
      .min = 0,
      .max = 3600000000000,
      .type = FN_OPT_DURATION,
      .offset = offsetof(struct hybrid_options, warm_ns) },
    PLACER_OPT_TRIES(struct hybrid_options, 1),
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "hybrid",
    .summary =
        "Packs calls on warm and busy runners while there is room, and spreads them when there "
        "is little.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct hybrid_options),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_hybrid, "placer-hybrid", &factory)
