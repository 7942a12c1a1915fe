/* A control plane that rents out places of a table, by request, so that a repeated one gets the
 * same. Each M(n) makes one mistake of mutants.txt. */
#include <fn/cplane.h>

#include "mutant.h"

#define MACHINES 64
#define REQUESTS 64

struct machine {
    char id[16]; /* "" = free */
    char group[32];
};

struct cloud {
    const struct fn_host *host;
    const struct fn_op_if *op;
    const struct fn_exec_if *exec;
    struct machine machines[MACHINES];
    struct {
        uint64_t id;
        uint32_t accepted;
    } requests[REQUESTS];
    uint32_t n_requests;
    uint32_t last;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct cloud *c = calloc(1, sizeof(*c));

    (void)conf;
    if (!c) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    c->host = host;
    c->op = host->get(host, "fn.op", 1);
    c->exec = host->get(host, "fn.exec", 1);
    *ret_inst = c;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int tool(struct cloud *c, struct fn_op *op, const char *verb, struct fn_error *reterr)
{
    const char *const argv[] = {"cloud", verb, NULL};
    const struct fn_exec_request q = {.size = sizeof(q), .argv = argv};
    struct fn_exec_result result = {.size = sizeof(result)};
    struct fn_error said = FN_ERROR_INIT;
    int r;

    do {
        r = c->exec->run(c->host, op, &q, &result, &said);
    } while (r < 0 && M(9));
    if (r < 0) {
        return fail(reterr, r, M(12) ? "" : said.msg);
    }
    r = result.exit_code == 0 ? 0 : FN_E_UNAVAILABLE;
    if (!M(11)) {
        c->exec->free_result(&result);
    }
    return r < 0 ? fail(reterr, r, "cloud said no") : 0;
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    struct cloud *c = inst;
    int r = M(20) && c->op->cancelled(NULL) ? FN_E_CANCELLED : tool(c, op, "list", reterr);

    if (r < 0 && M(19)) {
        reterr->http_status = 503;
    }
    for (uint32_t i = 0; r == 0 && i < MACHINES; i++) {
        const struct machine *m = &c->machines[i];
        struct fn_machine one = {.size = sizeof(one),
                                 .state = M(13) ? 7 : FN_MACHINE_READY,
                                 .id = m->id,
                                 .address = M(7) ? NULL : "10.0.0.1:9190"};

        if (m->id[0] && (M(8) || strcmp(m->group, group) == 0)) {
            r = out->add(out->ud, &one);
            r = M(4) ? 0 : M(18) && r < 0 ? FN_E_INTERNAL : r;
            if (M(5) && r == 0) {
                r = out->add(out->ud, &one);
            }
        }
        if (r < 0) {
            return fail(reterr, r, "the list was not taken");
        }
    }
    return r;
}

static void buy(struct cloud *c, const char *group)
{
    for (uint32_t i = 0; i < MACHINES; i++) {
        if (!c->machines[i].id[0]) {
            snprintf(c->machines[i].id, sizeof(c->machines[i].id), "m-%u", ++c->last);
            snprintf(c->machines[i].group, sizeof(c->machines[i].group), "%s", group);
            return;
        }
    }
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    struct cloud *c = inst;
    int r;

    for (uint32_t i = 0; i < c->n_requests && !M(1); i++) {
        if (c->requests[i].id == request_id) {
            *ret_accepted = M(14) ? 0 : c->requests[i].accepted;
            return 0;
        }
    }
    r = tool(c, op, "buy", reterr);
    if (r < 0) {
        if (M(15)) {
            *ret_accepted = 0;
        }
        return r;
    }
    n = n < 8 ? n : 8;
    for (uint32_t i = 0; i < n + (M(16) ? 1 : 0); i++) {
        buy(c, group);
    }
    if (c->n_requests < REQUESTS) {
        c->requests[c->n_requests].id = request_id;
        c->requests[c->n_requests++].accepted = n;
    }
    *ret_accepted = M(6) ? n + 1 : n;
    return 0;
}

static int remove_machine(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                          struct fn_error *reterr)
{
    struct cloud *c = inst;
    int r = tool(c, op, "remove", reterr);

    (void)group;
    if (r < 0) {
        return r;
    }
    for (uint32_t i = 0; i < MACHINES; i++) {
        if (c->machines[i].id[0] && strcmp(c->machines[i].id, machine_id) == 0) {
            if (!M(17)) {
                c->machines[i].id[0] = '\0';
            }
            return 0;
        }
    }
    if (M(2) && c->last == 0) {
        return fail(reterr, FN_E_NOT_FOUND, "no such machine");
    }
    return M(3) && c->last > 0 ? fail(reterr, FN_E_NOT_FOUND, "no such machine") : 0;
}

static const struct fn_cplane_ops ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = list,
    .provision = provision,
    .remove = remove_machine,
};

static const struct fn_need needs[] = {
    {"fn.op", 1, 0, 0},
    {"fn.exec", 1, 0, 0},
    {NULL, 0, 0, 0},
};

MUTANT_PLUGIN(mutant, FN_KIND_CONTROL_PLANE, CPLANE, 0, NULL, needs, ops)
