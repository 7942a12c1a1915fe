/* A listener that counts how calls end, and reads of them what the view allows. Each M(n) makes
 * one mistake of mutants.txt. */
#include <fn/listener.h>
#include <fn/view.h>

#include "mutant.h"

struct count {
    const struct fn_host *host;
    const struct fn_view_if *view;
    const struct fn_op_if *op;
    const struct fn_call *kept;
    const char *kept_text;
    struct fn_op *kept_op;
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
    c->view = host->get(host, "fn.view", FN_VIEW_MAJOR);
    c->op = host->get(host, "fn.op", 1);
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

static int after_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    struct count *c = inst;
    const char *zone = c->view->annotation(call, M(8) ? NULL : "zone");

    (void)op;
    if (M(7)) {
        if (c->kept_text && c->kept_text[0] == '!') {
            abort();
        }
        c->kept_text = zone;
    }
    if (M(9) && end->code < 0) {
        reterr->code = -1;
        return -77;
    }
    return 0;
}

static int before_change(void *inst, struct fn_op *op, const struct fn_change *change,
                         struct fn_error *reterr)
{
    struct count *c = inst;

    if (M(13)) {
        if (c->kept_op && c->op->cancelled(c->kept_op)) {
            return FN_E_CANCELLED;
        }
        c->kept_op = op;
    }
    if (M(10) && change->verb == FN_CHANGE_DELETE) {
        reterr->code = FN_E_PERMISSION;
        reterr->http_status = 302;
        return FN_E_PERMISSION;
    }
    return M(11) && strlen(change->json) == 0 ? FN_E_INTERNAL : 0; /* of a delete there is none */
}

static void after_change(void *inst, struct fn_op *op, const struct fn_change *change)
{
    struct count *c = inst;

    (void)op;
    if (M(12)) {
        if (c->kept_text && c->kept_text[0] == '!') {
            abort();
        }
        c->kept_text = change->name[0] ? change->request_id : change->json;
    }
}

static const struct fn_need needs[] = {
    { "fn.view", 1, 0, 0 },
    { "fn.op", 1, 0, 0 },
    { NULL, 0, 0, 0 },
};

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
    .after_worker = after_worker,
    .before_change = before_change,
    .after_change = after_change,
};

MUTANT_PLUGIN(mutant, FN_KIND_LISTENER, LISTENER, 0, NULL, needs, ops)
