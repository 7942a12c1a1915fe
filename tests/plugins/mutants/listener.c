#include <fn/listener.h>

#include "mutant.h"

struct count {
    const struct fn_host *host;
    const struct fn_call *kept;
    uint32_t ok;
    uint32_t codes[17];
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct count *c = calloc(1, sizeof(*c));

    (void)conf;
    if (!c) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    c->host = host;
    *ret_inst = c;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    struct count *c = inst;

    (void)reterr;
    if (M(1)) {
        if (c->kept && !c->kept->id) {
            abort();
        }
        c->kept = call;
    }
    if (M(2) && !malloc(100)) {
        return FN_E_EXHAUSTED;
    }
    if (M(6)) {
        ((struct fn_call *)(uintptr_t)call)->kind = 0;
    }
    return M(3) ? 1 : 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    struct count *c = inst;

    (void)call;
    if (M(4) && end->code == -16) {
        abort();
    }
    if (M(5)) {
        c->host->metric->add(c->host, 3, 1);
    }
    c->codes[end->code <= 0 && end->code >= -16 ? -end->code : 0]++;
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
};

MUTANT_PLUGIN(mutant, FN_KIND_LISTENER, LISTENER, 0, NULL, NULL, ops)
