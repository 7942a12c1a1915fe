/* placer/first. */
#include "decide.h"
#include "placer.h"
#include "shipped.h"

#include <stdlib.h>
#include <string.h>

struct first {
    const struct fn_host *host;
    struct first_options options;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct first *f = calloc(1, sizeof(*f));

    (void)reterr;
    if (!f) {
        return FN_E_EXHAUSTED;
    }
    f->host = host;
    memcpy(&f->options, conf, sizeof(f->options));
    *ret_inst = f;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct first *f = inst;

    /* The index is this plugin's own, and its bits are meant to change. */
    first_decide(ask->session, ask, &f->options, (struct room *)(uintptr_t)ask->snap->index, ret);
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    const struct first *f = inst;

    room_observe((struct room *)(uintptr_t)what->snap->index, what,
                 f->host->clock->now_ns(f->host));
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    struct room *room = calloc(1, sizeof(*room));

    (void)inst;
    if (!room || room_init(room, snap) < 0) {
        free(room);
        return FN_E_EXHAUSTED;
    }
    *ret_index = room;
    return 0;
}

static void index_free(void *inst, void *index)
{
    (void)inst;
    room_finish(index);
    free(index);
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct first_session),
    .decide = decide,
    .observe = observe,
    .index_build = index_build,
    .index_free = index_free,
};

static const struct fn_opt opts[] = {
    PLACER_OPT_RETRY_DELAY(struct first_options, "was refused"),
    { .key = "cap",
      .doc =
          "Number of calls of this load balancer up to which a runner of weight 1 is filled before "
          "the next one is used.",
      .dflt = "8",
      .min = 1,
      .max = 100000,
      .type = FN_OPT_INT,
      .offset = offsetof(struct first_options, cap) },
    PLACER_OPT_TRIES(struct first_options, 1),
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "first",
    .summary = "Fills runners in the order of the list, so that those at its end stay idle.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct first_options),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_first, "placer-first", &factory)
