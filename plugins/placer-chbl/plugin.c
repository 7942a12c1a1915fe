/* placer/chbl. */
#include "decide.h"
#include "hashed.h"
#include "placer.h"
#include "shipped.h"

#include <stdlib.h>
#include <string.h>

struct chbl {
    struct chbl_options options;
    struct sip *sip;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct chbl *c = calloc(1, sizeof(*c));
    int r;

    (void)host;
    if (!c) {
        return FN_E_EXHAUSTED;
    }
    memcpy(&c->options, conf, sizeof(c->options));
    r = hashed_open(CHBL_KEY_0, CHBL_KEY_1, &c->sip, reterr);
    if (r < 0) {
        free(c);
        return r;
    }
    *ret_inst = c;
    return 0;
}

static void destroy(void *inst)
{
    struct chbl *c = inst;

    if (c) {
        sip_destroy(c->sip);
        free(c);
    }
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct chbl *c = inst;
    struct chbl_session *s = ask->session;
    int r = hashed_fn(c->sip, ask, &s->hashed, &s->hash);

    if (r < 0) {
        return r;
    }
    /* The index is this plugin's own, and what it remembers is meant to change. */
    chbl_decide(s, ask, &c->options, (struct homes *)(uintptr_t)ask->snap->index, ret);
    return 0;
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    struct homes *h = NULL;
    int r = homes_create(snap, &h);

    (void)inst;
    if (r == 0) {
        *ret_index = h;
    }
    return r;
}

static void index_free(void *inst, void *index)
{
    (void)inst;
    homes_destroy(index);
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct chbl_session),
    .decide = decide,
    .index_build = index_build,
    .index_free = index_free,
};

static const struct fn_opt opts[] = {
    PLACER_OPT_RETRY_DELAY(struct chbl_options, "was refused"),
    { .key = "bound",
      .doc =
          "Highest load of a runner, in percent of the mean load, at which it still gets the "
          "functions that hash to it; beyond that they go elsewhere.",
      .dflt = "125",
      .choices = "percent",
      .min = 100,
      .max = 400,
      .type = FN_OPT_INT,
      .offset = offsetof(struct chbl_options, bound) },
    { .key = "least",
      .doc =
          "Number of calls that a runner of weight 1 may always have, whatever the mean: at low "
          "load there is nothing to balance.",
      .dflt = "8",
      .min = 0,
      .max = 100000,
      .type = FN_OPT_INT,
      .offset = offsetof(struct chbl_options, least) },
    /* Home first in every round: a second one must have a chance. */
    PLACER_OPT_TRIES(struct chbl_options, 2),
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "chbl",
    .summary =
        "Sends a function to the same runner as long as that has no more than its share of the "
        "load, else to random others.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct chbl_options),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_chbl, "placer-chbl", &factory)
