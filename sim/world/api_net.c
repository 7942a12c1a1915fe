/* The way to an API node: what core/http is to load balancers that look functions up and follow
 * changes (core/lb's source), and to who deploys.
 *
 * Each request has a connection of its own. It is cut, slow or lost by whose it is; who has waited
 * long enough gives it up, and what has not arrived by then never does. */
#include "api_node.h"
#include "way.h"

#include <api/api.h>
#include <base/err.h>
#include <stdlib.h>
#include <string.h>

struct api_ask {
    LIST_ENTRY(api_ask) link; /* of the world */
    struct world *w;
    struct node *from;
    uint32_t who;         /* its load balancer, or API_NET_DEPLOYER */
    struct api_node *api; /* NULL: nobody takes it */
    api_net_cb *cb;
    void *ud;
    bool open;     /* somebody waits for the answer */
    bool called;   /* the API node has it */
    bool begins;   /* it is being handed over: an answer may come from inside */
    bool answered;
    bool lost;     /* the API node is dead: nothing of it is heard any more */
    struct api_call *call;
    struct way up, down;
    struct env_timer deadline;
    const char *method;
    char path[];
};

static void ask_maybe_free(struct api_ask *a)
{
    if (!a->open && (!a->called || a->answered) && a->up.n == 0 && a->down.n == 0) {
        LIST_REMOVE(a, link);
        free(a);
    }
}

static int64_t api_latency_ns(const struct api_ask *a)
{
    struct world *w = a->w;
    const struct api_faults *f = &w->a.faults[a->who];
    int64_t ns = w->plan->latency_ns +
                 (int64_t)sim_rng_below(&w->a.rng, (uint64_t)w->plan->jitter_ns);

    return w->now_ns < f->slow_until_ns ? ns + f->slow_ns : ns;
}

static struct packet *api_take(struct api_ask *a, struct way *y)
{
    return way_take(y, a->w->a.faults[a->who].cut_until_ns);
}

/* ---- who asks ------------------------------------------------------------------------------ */

/* The last touch may be inside. */
static void ask_end(struct api_ask *a, uint32_t status, const char *body, size_t len)
{
    struct fn_error e = ERR_INIT;

    a->open = false;
    env_timer_clear(a->from->env, &a->deadline);
    tell(a->from, "%s %s: %u %.100s", a->method, a->path, status, body ? body : "");
    if (status == 0) {
        err_set(&e, FN_E_UNAVAILABLE, "no answer of the API node");
    }
    a->cb(a->ud, status, body, len, status == 0 ? &e : NULL);
}

/* Its connection is closed, and what lies on it is gone. */
static void ask_give_up(struct api_ask *a)
{
    way_clear(&a->down);
    if (!a->called) {
        way_clear(&a->up);
    } else if (!a->answered && !a->lost) {
        way_send(&a->up, api_latency_ns(a), PACKET_GONE, 0, NULL, 0);
    }
    ask_end(a, 0, NULL, 0);
    ask_maybe_free(a);
}

static void on_deadline(struct env_timer *t)
{
    ask_give_up(container_of(t, struct api_ask, deadline));
}

static void on_down(struct env_timer *t)
{
    struct api_ask *a = container_of(t, struct api_ask, down.timer);
    struct packet *p = api_take(a, &a->down);

    if (!p) {
        return;
    }
    if (a->open) {
        ask_end(a, (uint32_t)p->status, p->len ? p->data : NULL, p->len ? p->len - 1 : 0);
    }
    free(p);
    ask_maybe_free(a);
}

/* ---- the API node -------------------------------------------------------------------------- */

static void on_whole(void *ud, int status, const struct headers *h, const void *body, size_t len)
{
    struct api_ask *a = ud;
    struct api_faults *f = &a->w->a.faults[a->who];

    (void)h;
    a->answered = true;
    a->call = NULL;
    if (a->open && !a->lost && f->loses > 0) {
        f->loses--; /* who asked waits until he gives up */
    } else if (a->open && !a->lost) {
        struct packet *p =
            way_send(&a->down, api_latency_ns(a), PACKET_DATA, status, NULL, len + 1);

        memcpy(p->data, len ? body : "", len);
        p->data[len] = '\0';
    }
    if (!a->begins) {
        ask_maybe_free(a);
    }
}

static void on_error(void *ud, int status, const struct headers *h, const char *text)
{
    on_whole(ud, status, h, text, strlen(text));
}

static void api_begin(struct api_ask *a, const struct packet *p)
{
    static const struct api_reply reply = { on_whole, on_error };
    char *query = strchr(a->path, '?');
    struct api_call *call;
    struct api_request rq = { .method = a->method,
                              .path = a->path,
                              .query = query ? query + 1 : NULL,
                              .scheme = "http",
                              .host = "api:8080",
                              .body = p->data,
                              .body_len = p->len - 1,
                              .peer = a->from->name };

    if (query) {
        *query = '\0';
    }
    a->called = a->begins = true;
    call = api_submit(api_node_api(a->api), &rq, &reply, a);
    a->begins = false;
    a->call = a->answered ? NULL : call;
}

static void on_up(struct env_timer *t)
{
    struct api_ask *a = container_of(t, struct api_ask, up.timer);
    struct packet *p = api_take(a, &a->up);

    if (!p) {
        return;
    }
    if (p->kind == PACKET_DATA) {
        api_begin(a, p);
    } else if (!a->answered) {
        a->answered = true; /* nobody hears the answer, if there is one */
        api_node_gone(a->api, a->call);
    }
    free(p);
    ask_maybe_free(a);
}

void api_net_ask(struct node *from, uint32_t who, const struct api_net_request *rq, api_net_cb *cb,
                 void *ud)
{
    struct world *w = from->w;
    size_t len = strlen(rq->path) + 1;
    struct api_ask *a = sim_alloc(sizeof(*a) + len);

    a->w = w;
    a->from = from;
    a->who = who;
    a->api = from->dead ? NULL : w->a.node;
    a->cb = cb;
    a->ud = ud;
    a->open = true;
    a->method = rq->method;
    memcpy(a->path, rq->path, len);
    a->deadline.cb = on_deadline;
    way_open(&a->up, a->api ? api_node_base(a->api) : NULL, on_up);
    way_open(&a->down, from, on_down);
    LIST_INSERT_HEAD(&w->a.asks, a, link);
    world_at(from, &a->deadline, w->now_ns + rq->timeout_ns);
    if (a->api) {
        way_send(&a->up, api_latency_ns(a), PACKET_DATA, 0, rq->body, strlen(rq->body) + 1);
    } else {
        way_send(&a->down, api_latency_ns(a), PACKET_END, 0, NULL, 0); /* refused */
    }
}

/* ---- processes that come and go ------------------------------------------------------------ */

void api_net_close(struct node *from)
{
    struct world *w = from->w;
    struct api_ask *a = LIST_FIRST(&w->a.asks);

    while (a) {
        bool mine = a->from == from && a->open;

        if (mine) {
            ask_give_up(a);
        }
        a = mine ? LIST_FIRST(&w->a.asks) : LIST_NEXT(a, link);
    }
}

void api_net_lose(struct api_node *api)
{
    struct world *w = api_node_base(api)->w;
    struct api_ask *a, *next;

    for (a = LIST_FIRST(&w->a.asks); a; a = next) {
        next = LIST_NEXT(a, link);
        if (a->api == api && !a->lost) {
            a->lost = true;
            way_clear(&a->up);
            a->up.to = NULL;
            if (a->open && !a->answered) {
                way_send(&a->down, api_latency_ns(a), PACKET_END, 0, NULL, 0);
            }
            ask_maybe_free(a);
        }
    }
}

void api_net_heal(struct world *w)
{
    memset(w->a.faults, 0, sizeof(w->a.faults));
}
