/* Which definition of its function each call goes by, and what overriders make of it: rules B28,
 * B29 and B31. */
#include "api_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_STEP 512u

/* Of a request. */
struct version_call {
    uint32_t least;   /* its load balancer has gone by this one before it came */
    uint32_t version; /* that its load balancer gave it; 0 = none yet */
    uint32_t rules;   /* that its load balancer had when it came */
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

size_t versions_bytes(const struct world *w)
{
    return w->a.n_calls * sizeof(*w->a.calls);
}

static uint32_t number_behind(const char *text, const char *words)
{
    const char *at = strstr(text, words);

    return at ? (uint32_t)strtoul(at + strlen(words), NULL, 10) : 0;
}

static uint32_t number_of(const struct fn_kv *kvs, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(kvs[i].key, key) == 0) {
            return (uint32_t)strtoul(kvs[i].value, NULL, 10);
        }
    }
    return 0;
}

uint32_t version_rules(const struct fn_task *task)
{
    uint32_t in_env = number_of(task->env, task->n_env, "RULED");

    return in_env == number_of(task->extensions, task->n_extensions, "ruled") ? in_env : UINT32_MAX;
}

void version_opened(struct lb_node *l, uint32_t seq, uint32_t function)
{
    struct world *w = l->n.w;

    if (w->plan->api) {
        uint32_t least = w->a.known[l->index][function];
        uint32_t exact = w->a.exact ? deploy_version(w->a.deploy, function) : 0;
        struct version_call *c = call_of(w, seq);

        c->least = least > exact ? least : exact;
        c->rules = l->rules;
    }
}

static void check_rules(struct world *w, uint32_t seq, const char *what, uint32_t rules)
{
    uint32_t expected = call_of(w, seq)->rules;

    if (rules != expected) {
        books_break(w->books, BOOKS_RULED, seq, "request %u %s with number %u of an overrider; "
                    "that of its load balancer was %u when it came", seq, what, rules, expected);
    }
}

void version_offered(struct lb_node *l, uint32_t seq, const char *json)
{
    struct world *w = l->n.w;
    struct version_call *c = w->plan->api ? call_of(w, seq) : NULL;
    uint32_t f = 0, version = 0, said;

    if (!c) {
        return;
    }
    check_rules(w, seq, "is offered", number_behind(json, "\"RULED\":\""));
    said = number_behind(json, "\"FUNCTION_VERSION\":\"");
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

void version_runs(struct world *w, uint32_t seq, uint32_t version, uint32_t rules)
{
    if (!w->plan->api) {
        return;
    }
    check_rules(w, seq, "runs", rules);
    if (call_of(w, seq)->version != version) {
        books_break(w->books, BOOKS_ONE_DEFINITION, seq, "request %u, by version %u, runs in a "
                    "container of version %u", seq, call_of(w, seq)->version, version);
    }
}
