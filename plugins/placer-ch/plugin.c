/* placer/ch. Go Fn: api/runnerpool/ch_placer.go. */
#include "decide.h"
#include "hashed.h"
#include "placer.h"
#include "shipped.h"

#include <stdlib.h>
#include <string.h>

struct conf {
    int64_t retry_delay_ns;
    uint32_t go_variant;
    uint32_t reserved0;
};

struct ch {
    struct conf conf;
    struct sip *sip;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct ch *c = calloc(1, sizeof(*c));
    int r;

    (void)host;
    if (!c) {
        return FN_E_EXHAUSTED;
    }
    memcpy(&c->conf, conf, sizeof(c->conf));
    r = hashed_open(CH_KEY_0, CH_KEY_1, &c->sip, reterr);
    if (r < 0) {
        free(c);
        return r;
    }
    *ret_inst = c;
    return 0;
}

static void destroy(void *inst)
{
    struct ch *c = inst;

    if (c) {
        sip_destroy(c->sip);
        free(c);
    }
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct ch *c = inst;
    struct ch_session *s = ask->session;
    int r = hashed_fn(c->sip, ask, &s->hashed, &s->hash);

    if (r < 0) {
        return r;
    }
    ch_decide(s, ask, c->conf.go_variant, c->conf.retry_delay_ns, ret);
    return 0;
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct ch_session),
    .decide = decide,
};

static const struct fn_opt opts[] = {
    PLACER_OPT_RETRY_DELAY(struct conf, "every runner refused"),
    { .key = "go_variant",
      .doc = "Choose runners by the hash of Go Fn, which never picks the second runner first. Set "
             "it only in clusters that also have Go Fn's load balancers.",
      .dflt = "false",
      .type = FN_OPT_BOOL,
      .offset = offsetof(struct conf, go_variant) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "ch",
    .summary = "Sends a function to the same runner as long as it has room, then to its "
               "neighbours.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct conf),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_ch, "placer-ch", &factory)
