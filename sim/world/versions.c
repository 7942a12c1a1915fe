/* Which definition of its function each call goes by: rules B28 and B29. */
#include "api_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_STEP 512u

/* Of a request. */
struct version_call {
    uint32_t least;   /* its load balancer has gone by this one before it came */
    uint32_t version; /* that its load balancer gave it; 0 = none yet */
};

bool version_read(const char *text, uint32_t *ret_function, uint32_t *ret_version)
{
    const char *at = text ? strstr(text, "sim/function") : NULL;

    return at && sscanf(at, "sim/function%u:%u", ret_function, ret_version) == 2;
}

static struct version_call *call_of(struct world *w, uint32_t seq)
{
    if (seq >= w->a.n_calls) {
        uint32_t n = seq + CALLS_STEP;

        w->a.calls = sim_resize(w->a.calls, n * sizeof(*w->a.calls));
        memset(w->a.calls + w->a.n_calls, 0,
               (n - w->a.n_calls) * sizeof(*w->a.calls));
        w->a.n_calls = n;
    }
    return &w->a.calls[seq];
}

void version_opened(struct world *w, uint32_t seq, uint32_t lb, uint32_t function)
{
    if (w->plan->api) {
        uint32_t least = w->a.known[lb][function];
        uint32_t exact = w->a.exact ? deploy_version(w->a.deploy, function) : 0;

        call_of(w, seq)->least = least > exact ? least : exact;
    }
}

void version_offered(struct lb_node *l, uint32_t seq, const char *json)
{
    struct world *w = l->n.w;
    const char *config = strstr(json, "\"FUNCTION_VERSION\":\"");
    struct version_call *c = w->plan->api ? call_of(w, seq) : NULL;
    uint32_t f = 0, version = 0, said;

    if (!c) {
        return;
    }
    said = config ? (uint32_t)strtoul(config + strlen("\"FUNCTION_VERSION\":\""), NULL, 10) : 0;
    if (!version_read(json, &f, &version) || f >= FUNCTIONS_MAX || said != version ||
        (c->version && c->version != version)) {
        books_break(w->books, BOOKS_ONE_DEFINITION, seq, "request %u goes by version %u of its "
                    "image, %u of its configuration; the offer before it by %u", seq, version, said,
                    c->version);
        return;
    }
    if (version < c->least && !l->n.dead) {
        books_break(w->books, BOOKS_NEWS, seq, "request %u goes by version %u of function %u; its "
                    "load balancer knows %u", seq, version, f, c->least);
    }
    c->version = version;
    if (version > w->a.known[l->index][f] && !l->n.dead) {
        w->a.known[l->index][f] = version;
    }
}

void version_runs(struct world *w, uint32_t seq, uint32_t version)
{
    if (w->plan->api && call_of(w, seq)->version != version) {
        books_break(w->books, BOOKS_ONE_DEFINITION, seq, "request %u, by version %u, runs in a "
                    "container of version %u", seq, call_of(w, seq)->version, version);
    }
}
