/* Wraps the tables of client and server: each call is written down, then passed on unchanged. */
#include "witness.h"

#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first frame of the body, a container, the function, and what these take on top. */
#define RUNNER_LIMIT_NS (21 * ENV_S) /* beside the time of the function */

struct witness {
    struct engage_client client; /* first */
    struct engage_client *real;
    struct lb_node *lb;
};

struct seen_link {
    struct witness *of;
    struct engage_link *real;
    char address[32];
};

struct seen_attempt {
    struct lb_node *lb;
    struct engage_client *client;
    struct engage_attempt *real;
    const struct engage_client_cb *cb;
    void *ud;
    uint32_t seq;
    bool heard, nacked, ended;
};

struct seen_session {
    LIST_ENTRY(seen_session) entry;
    struct runner_node *runner;
    struct engage_session *real;
    void *ud;
    uint32_t seq;
    bool started;
    int64_t begun_ns, frozen_ns;
};

/* ---- the load balancer's side ---------------------------------------------------------------- */

static void see_start(void *ud, const struct engage_start *start)
{
    struct seen_attempt *a = ud;

    a->heard = true;
    a->cb->on_start(a->ud, start);
}

static void see_data(void *ud, const void *data, size_t len)
{
    struct seen_attempt *a = ud;

    a->cb->on_data(a->ud, data, len);
}

static void see_finished(void *ud, const struct engage_finished *f)
{
    struct seen_attempt *a = ud;

    a->nacked = !a->heard && !f->success && !f->error_user && f->error_code == 503;
    a->heard = true;
    a->cb->on_finished(a->ud, f);
}

static void see_end(void *ud, int status, const char *text, enum engage_proof proof, bool legal)
{
    struct seen_attempt *a = ud;

    a->ended = true;
    books_offer_end(a->lb->n.w->books, a->seq,
                    proof != ENGAGE_PROOF_NONE ? BOOKS_UNREACHED
                    : a->nacked                ? BOOKS_REFUSED
                                               : BOOKS_NO_PROOF);
    tell(&a->lb->n, "request %u: its offer ends: %d %s%s", a->seq, status, text,
         proof != ENGAGE_PROOF_NONE ? " (nothing ran)" : "");
    a->cb->on_end(a->ud, status, text, proof, legal);
}

static const struct engage_client_cb attempt_cb = { see_start, see_data, see_finished, see_end };

static struct engage_link *link_open(struct engage_client *client, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud)
{
    struct witness *w = (struct witness *)(void *)client;
    struct engage_link *real = w->real->link_open(w->real, address, tls_name, cb, ud);
    struct seen_link *l;

    if (!real) {
        return NULL;
    }
    l = sim_alloc(sizeof(*l));
    l->of = w;
    l->real = real;
    snprintf(l->address, sizeof(l->address), "%s", address);
    return (struct engage_link *)(void *)l;
}

static struct seen_link *of_link(const struct engage_link *l)
{
    return (struct seen_link *)(uintptr_t)l;
}

static void link_close(struct engage_link *link)
{
    struct seen_link *l = of_link(link);

    l->of->real->link_close(l->real);
    free(l);
}

static bool link_is_up(const struct engage_link *link)
{
    return of_link(link)->of->real->link_is_up(of_link(link)->real);
}

static uint32_t request_of(const struct body *body)
{
    return body && body->bytes.len > 0 ? (uint32_t)strtoul(body->bytes.data, NULL, 10) : 0;
}

static struct engage_attempt *attempt_open(struct engage_link *link, const struct engage_try *t,
                                           struct body *body, int64_t deadline_ns,
                                           const struct engage_client_cb *cb, void *ud)
{
    struct seen_link *l = of_link(link);
    struct seen_attempt *a = sim_alloc(sizeof(*a));

    *a = (struct seen_attempt){ .lb = l->of->lb,
                                .client = l->of->real,
                                .cb = cb,
                                .ud = ud,
                                .seq = request_of(body) };
    a->real = a->client->attempt(l->real, t, body, deadline_ns, &attempt_cb, a);
    if (!a->real) {
        free(a);
        return NULL;
    }
    books_offer(a->lb->n.w->books, a->seq);
    tell(&a->lb->n, "request %u is offered to %s", a->seq, l->address);
    return (struct engage_attempt *)(void *)a;
}

static void attempt_pause(struct engage_attempt *attempt, bool paused)
{
    struct seen_attempt *a = (struct seen_attempt *)(void *)attempt;

    a->client->attempt_pause(a->real, paused);
}

static void attempt_close(struct engage_attempt *attempt)
{
    struct seen_attempt *a = (struct seen_attempt *)(void *)attempt;

    if (!a->ended) {
        books_offer_end(a->lb->n.w->books, a->seq, BOOKS_NO_PROOF);
    }
    a->client->attempt_close(a->real);
    free(a);
}

struct witness *witness_create(struct lb_node *l, struct engage_client *real)
{
    struct witness *w = sim_alloc(sizeof(*w));

    w->real = real;
    w->lb = l;
    w->client = (struct engage_client){ .link_open = link_open,
                                        .link_close = link_close,
                                        .link_is_up = link_is_up,
                                        .attempt = attempt_open,
                                        .attempt_pause = attempt_pause,
                                        .attempt_close = attempt_close };
    return w;
}

struct engage_client *witness_client(struct witness *w)
{
    return &w->client;
}

void witness_destroy(struct witness *w)
{
    free(w);
}

/* ---- the runner's side ----------------------------------------------------------------------- */

/* As its X-Do header says: {"X-Do":["17 ok 0 2"]}. */
static uint32_t request_of_call(const struct engage_try *t)
{
    const char *at = strstr(t->call_json, "X-Do\"");

    while (at && *at && (*at < '0' || *at > '9')) {
        at++;
    }
    return at ? (uint32_t)strtoul(at, NULL, 10) : 0;
}

static void check_time(const struct seen_session *s)
{
    const struct node *n = &s->runner->n;
    int64_t for_ns = n->w->now_ns - s->begun_ns - (n->frozen_ns - s->frozen_ns);

    if (for_ns > RUNNER_LIMIT_NS + n->w->plan->timeout_max_s * ENV_S) {
        books_break(n->w->books, BOOKS_RUNNER_TIME, s->seq, "%s has request %u for %lld ms",
                    n->name, s->seq, (long long)(for_ns / ENV_MS));
    }
}

void witness_check_times(struct runner_node *r)
{
    struct seen_session *s;

    LIST_FOREACH(s, &r->seen, entry) {
        check_time(s);
    }
}

static void session_forget(struct seen_session *s)
{
    check_time(s);
    LIST_REMOVE(s, entry);
    s->runner->sessions--;
    free(s);
}

static int see_try(void *server_ud, struct engage_session *real, const struct engage_try *t,
                   int64_t deadline_ns, void **ret_ud)
{
    struct runner_node *r = server_ud;
    struct seen_session *s = sim_alloc(sizeof(*s));
    int status;

    *s = (struct seen_session){ .runner = r,
                                .real = real,
                                .seq = request_of_call(t),
                                .begun_ns = r->n.w->now_ns,
                                .frozen_ns = r->n.frozen_ns };
    LIST_INSERT_HEAD(&r->seen, s, entry);
    *ret_ud = s;
    r->sessions++;
    r->tried++;
    books_reach(r->n.w->books, s->seq);
    tell(&r->n, "gets request %u", s->seq);
    status = r->cb.on_try(r->cb_ud, (struct engage_session *)(void *)s, t, deadline_ns, &s->ud);
    if (status < 0) {
        session_forget(s);
    }
    return status;
}

static void see_body(void *ud, const void *data, size_t len, bool eof)
{
    struct seen_session *s = ud;

    s->runner->cb.on_body(s->ud, data, len, eof);
}

static void see_writable(void *ud)
{
    struct seen_session *s = ud;

    s->runner->cb.on_writable(s->ud);
}

static void see_gone(void *ud)
{
    struct seen_session *s = ud;
    const struct engage_server_cb *cb = &s->runner->cb;
    void *runner_ud = s->ud;

    tell(&s->runner->n, "loses request %u", s->seq);
    session_forget(s);
    cb->on_gone(runner_ud);
}

/* It is answered at once. */
static void see_status(void *server_ud, struct engage_ask *ask)
{
    struct runner_node *r = server_ud;

    r->n.w->said_ns[r->index] = r->n.w->now_ns;
    r->cb.on_status(r->cb_ud, ask);
}

static void see_status_gone(void *server_ud, struct engage_ask *ask)
{
    struct runner_node *r = server_ud;

    r->cb.on_status_gone(r->cb_ud, ask);
}

const struct engage_server_cb witness_server_cb = {
    .on_try = see_try,
    .on_body = see_body,
    .on_writable = see_writable,
    .on_gone = see_gone,
    .on_status = see_status,
    .on_status_gone = see_status_gone,
};

static struct seen_session *of_session(struct engage_session *s)
{
    return (struct seen_session *)(void *)s;
}

static void session_more(struct engage_session *session)
{
    rpc_server_table()->session_more(of_session(session)->real);
}

static void send_start(struct engage_session *session, const struct engage_start *start)
{
    struct seen_session *s = of_session(session);

    if (s->started) {
        books_break(s->runner->n.w->books, BOOKS_ORDER, s->seq, "request %u starts twice", s->seq);
    }
    s->started = true;
    rpc_server_table()->send_start(s->real, start);
}

static int send_data(struct engage_session *session, const void *data, size_t len)
{
    struct seen_session *s = of_session(session);

    if (!s->started) {
        books_break(s->runner->n.w->books, BOOKS_ORDER, s->seq,
                    "request %u: data before its start", s->seq);
    }
    return rpc_server_table()->send_data(s->real, data, len);
}

static void session_finish(struct engage_session *session, const struct engage_finished *f)
{
    struct seen_session *s = of_session(session);
    struct engage_session *real = s->real;
    struct runner_node *r = s->runner;

    r->told_ok += f->success;
    if (!f->success && f->error_code == 503 && !f->error_user) {
        r->told_refused++;
        books_nack(r->n.w->books, s->seq);
    }
    tell(&r->n, "request %u: finished, %s %d %s%s%s", s->seq, f->success ? "ok" : "failed",
         f->error_code, f->error_user ? "(user) " : "", f->error_text ? f->error_text : "",
         !f->success && f->error_code == 503 && f->details ? f->details : "");
    session_forget(s);
    rpc_server_table()->finish(real, f);
}

static void session_abort(struct engage_session *session, int status, const char *text)
{
    struct engage_session *real = of_session(session)->real;

    session_forget(of_session(session));
    rpc_server_table()->abort(real, status, text);
}

struct engage_server witness_server = {
    .session_more = session_more,
    .send_start = send_start,
    .send_data = send_data,
    .finish = session_finish,
    .abort = session_abort,
};
