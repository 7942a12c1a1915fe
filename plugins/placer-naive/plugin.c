/* placer/naive. Go Fn: api/runnerpool/naive_placer.go. */
#include "decide.h"
#include "placer.h"
#include "shipped.h"
#include "tries.h"

#include <stdlib.h>

struct conf {
    int64_t retry_delay_ns;
};

struct naive {
    const struct fn_host *host;
    int64_t retry_delay_ns;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    struct naive *n = calloc(1, sizeof(*n));

    (void)reterr;
    if (!n) {
        return FN_E_EXHAUSTED;
    }
    n->host = host;
    n->retry_delay_ns = c->retry_delay_ns;
    *ret_inst = n;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct naive *n = inst;
    struct naive_session *s = ask->session;
    uint64_t chance = around_starts(&s->round, ask) ? n->host->rng->u64(n->host) : 0;

    naive_decide(s, ask, chance, n->retry_delay_ns, ret);
    return 0;
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct naive_session),
    .decide = decide,
};

static const struct fn_opt opts[] = {
    PLACER_OPT_RETRY_DELAY(struct conf, "every runner refused"),
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "naive",
    .summary = "Tries each runner once per round, from a random start.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct conf),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_naive, "placer-naive", &factory)
