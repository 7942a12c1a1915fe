/* Clients: they send the requests of the plan, read what comes as slowly as it says, and enter in
 * the books how each one ended. */
#include "front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_SLACK_NS (20 * ENV_S) /* above all limits of a call; slow readers have some of it */
#define SLOW_READS_MAX 3
#define BYTE_BODY_BYTES    300u
#define BYTE_ANSWER_BYTES  600u
#define PROBE_BODY_BYTES   25000u /* several frames */
#define PROBE_ANSWER_BYTES 80000u /* more than any window */
#define CROWD_RUN_MS       500    /* less than any limit of a function */
#define CROWD_RETRY_NS     (100 * ENV_MS)

struct client {
    LIST_ENTRY(client) link;
    struct clients *of;
    const struct plan_event *e; /* NULL: a probe, or one of a crowd */
    bool of_crowd;
    uint32_t function;
    struct sim_rng rng;
    uint32_t seq; /* 0: not sent yet */
    struct front_call *call; /* NULL: not sent, or over */
    bool over, detached;
    enum books_seen told; /* by the head of its answer */
    uint32_t slow_reads; /* that are left */
    uint64_t answer_bytes; /* that the function will give */
    int64_t run_ms;
    struct books_answer answer;
    struct env_timer send, leave, resume;
};

struct clients {
    struct lb_node *lb;
    LIST_HEAD(, client) all;
    uint32_t waiting;
};

static struct client *client_create(struct clients *of, const struct plan_event *e,
                                    uint32_t function);

/* ---- answers ------------------------------------------------------------------------------- */

static void conclude(struct client *c, enum books_seen how)
{
    struct node *n = &c->of->lb->n;
    bool ok = how == BOOKS_TOLD_OK || how == BOOKS_STREAMED;
    static const char *const words[BOOKS_SEEN_N] = {
        "ok",  "failed", "not executed", "unknown",       "202",
        "streamed", "cut", "left",       "lost its node", "lost its connection"
    };

    c->over = true;
    c->call = NULL;
    c->of->waiting--;
    c->answer.how = how;
    env_timer_clear(n->env, &c->leave);
    env_timer_clear(n->env, &c->resume);
    n->w->answers_ok += ok;
    n->w->served[c->function] += ok;
    n->w->a.told_404 += c->answer.status == 404;
    tell(n, "request %u ends: %s %d, %llu bytes", c->seq, words[how], c->answer.status,
         (unsigned long long)c->answer.bytes);
    books_end(n->w->books, c->seq, &c->answer, n->w->now_ns);
    if (c->of_crowd && n->w->crowded) {
        struct client *next = client_create(c->of, NULL, c->function);

        next->of_crowd = true;
        world_at(n, &next->send, n->w->now_ns + (ok ? 0 : CROWD_RETRY_NS));
    }
}

static enum books_seen told(const struct client *c, int status, const char *outcome)
{
    if (c->detached && status == 202) {
        return BOOKS_TOLD_ACK;
    }
    return !outcome                               ? BOOKS_TOLD_UNKNOWN
           : strcmp(outcome, "ok") == 0           ? BOOKS_TOLD_OK
           : strcmp(outcome, "failed") == 0       ? BOOKS_TOLD_FAILED
           : strcmp(outcome, "not-executed") == 0 ? BOOKS_TOLD_NOT_EXECUTED
                                                  : BOOKS_TOLD_UNKNOWN;
}

static void read_answer(struct client *c, const char *data, size_t len)
{
    c->answer.wrong |= books_differ(c->seq, false, c->answer.bytes, data, len);
    c->answer.bytes += len;
}

static void on_head(void *ud, int status, const char *outcome, bool streams)
{
    struct client *c = ud;

    c->answer.status = status;
    c->told = streams ? BOOKS_STREAMED : told(c, status, outcome);
}

static int on_data(void *ud, const char *data, size_t len)
{
    struct client *c = ud;
    struct node *n = &c->of->lb->n;

    read_answer(c, data, len);
    if (c->slow_reads == 0) {
        return 0;
    }
    c->slow_reads--;
    world_at(n, &c->resume,
             n->w->now_ns + (int64_t)sim_rng_below(&c->rng, (uint64_t)(2 * ENV_S)));
    return 1;
}

static void on_end(void *ud, enum front_end how)
{
    struct client *c = ud;

    conclude(c, how == FRONT_WHOLE ? c->told : how == FRONT_CUT ? BOOKS_CUT : BOOKS_LOST);
}

static const struct front_cb front_cb = { on_head, on_data, on_end };

static void on_resume(struct env_timer *t)
{
    struct client *c = container_of(t, struct client, resume);

    if (c->call) {
        front_resume(c->call);
    }
}

/* ---- requests ------------------------------------------------------------------------------ */

static const char *draw_what(struct sim_rng *r)
{
    static const char *const odd[] = { "s502", "s504", "crash", "oom",   "cut",
                                       "never", "invalid", "early", "drip", "extra" };

    return sim_rng_below(r, 6) ? "ok" : odd[sim_rng_below(r, sizeof(odd) / sizeof(odd[0]))];
}

static uint64_t draw_size(struct sim_rng *r)
{
    switch (sim_rng_below(r, 16)) {
    case 0:
        return sim_rng_below(r, 100000);
    case 1:
    case 2:
        return sim_rng_below(r, 5000);
    default:
        return sim_rng_below(r, 100);
    }
}

static int64_t draw_ms(struct sim_rng *r)
{
    return (int64_t)(sim_rng_below(r, 5) ? sim_rng_below(r, 20) : sim_rng_below(r, 1500));
}

static void submit(struct client *c, const char *what, uint64_t body_bytes)
{
    char text[80];
    struct front_request rq = { .seq = c->seq,
                                .function = c->function,
                                .what = text,
                                .detached = c->detached,
                                .body_bytes = body_bytes,
                                .rng = &c->rng };
    struct front_call *call;

    snprintf(text, sizeof(text), "%u %s %lld %llu", c->seq, what, (long long)c->run_ms,
             (unsigned long long)c->answer_bytes);
    call = front_ask(c->of->lb, &rq, &front_cb, c);
    c->call = c->over ? NULL : call;
}

/* What kind of request, and of client, this is. */
static const char *draw_request(struct client *c, struct books_request *rq)
{
    const char *what = "ok";

    rq->body_bytes = PROBE_BODY_BYTES;
    c->answer_bytes = PROBE_ANSWER_BYTES;
    c->run_ms = draw_ms(&c->rng);
    if (c->of_crowd) {
        rq->body_bytes = BOOKS_NUMBER_BYTES;
        c->answer_bytes = 2;
        c->run_ms = CROWD_RUN_MS;
    }
    if (c->of->lb->n.w->plan->byte) {
        rq->body_bytes = BYTE_BODY_BYTES;
        c->answer_bytes = BYTE_ANSWER_BYTES;
    } else if (c->e) {
        what = draw_what(&c->rng);
        rq->body_bytes = BOOKS_NUMBER_BYTES + (uint32_t)draw_size(&c->rng);
        c->answer_bytes = draw_size(&c->rng) + 2; /* there is something to cut */
        c->detached = c->of->lb->n.w->plan->detached && sim_rng_below(&c->rng, 6) == 0;
        c->slow_reads = sim_rng_below(&c->rng, 6) ? 0 : SLOW_READS_MAX;
    }
    rq->answer_bytes = (uint32_t)c->answer_bytes;
    rq->detached = c->detached;
    return what;
}

static void on_send(struct env_timer *t)
{
    struct client *c = container_of(t, struct client, send);
    struct node *n = &c->of->lb->n;
    const struct plan *p = n->w->plan;
    struct books_request rq = { .lb = c->of->lb->draining ? 0 : n->life, /* it counts no more */
                                .function = c->function,
                                .ends_by_ns = n->w->now_ns + 2 * p->placement_timeout_ns +
                                              p->function[c->function].timeout_s * ENV_S +
                                              END_SLACK_NS };
    const char *what = draw_request(c, &rq);

    c->seq = books_open(n->w->books, &rq);
    version_opened(c->of->lb, c->seq, c->function);
    n->w->requests++;
    c->of->waiting++;
    tell(n, "request %u (#%d) of function %u: %s, body %u, answer %u%s", c->seq,
         c->e ? (int)(c->e - p->events) : -1, c->function, what, rq.body_bytes, rq.answer_bytes,
         c->detached ? ", detached" : "");
    if (c->e && sim_rng_below(&c->rng, 12) == 0) {
        world_at(n, &c->leave, n->w->now_ns + c->e->ns / 4);
    }
    submit(c, what, rq.body_bytes);
}

static void leave(struct client *c, enum books_seen how)
{
    struct front_call *call = c->call;

    if (call) {
        front_leave(call);
        conclude(c, how);
    }
}

static void on_leave(struct env_timer *t)
{
    leave(container_of(t, struct client, leave), BOOKS_LEFT);
}

static struct client *client_create(struct clients *of, const struct plan_event *e,
                                    uint32_t function)
{
    struct client *c = sim_alloc(sizeof(*c));

    c->of = of;
    c->e = e;
    c->function = function;
    c->rng = sim_rng_make(e ? e->chance : function, 1);
    c->send.cb = on_send;
    c->leave.cb = on_leave;
    c->resume.cb = on_resume;
    LIST_INSERT_HEAD(&of->all, c, link);
    world_at(&of->lb->n, &c->send, of->lb->n.w->now_ns);
    return c;
}

void clients_request(struct clients *c, const struct plan_event *e)
{
    client_create(c, e, e->function);
}

void clients_probe(struct clients *c, uint32_t function)
{
    client_create(c, NULL, function);
}

void clients_crowd(struct clients *c, uint32_t function)
{
    client_create(c, NULL, function)->of_crowd = true;
}

void clients_lose(struct clients *of)
{
    struct client *c;

    LIST_FOREACH(c, &of->all, link) {
        env_timer_clear(of->lb->n.env, &c->send);
        leave(c, BOOKS_NODE_LOST);
    }
}

uint32_t clients_waiting(const struct clients *c)
{
    return c->waiting;
}

struct clients *clients_create(struct lb_node *l)
{
    struct clients *c = sim_alloc(sizeof(*c));

    c->lb = l;
    LIST_INIT(&c->all);
    return c;
}

static void forget(struct clients *of, bool over)
{
    struct client *c, *next;

    for (c = LIST_FIRST(&of->all); c; c = next) {
        next = LIST_NEXT(c, link);
        if (c->over || !over) {
            LIST_REMOVE(c, link);
            free(c);
        }
    }
}

void clients_forget(struct clients *of)
{
    forget(of, true);
}

void clients_destroy(struct clients *of)
{
    forget(of, false);
    free(of);
}
