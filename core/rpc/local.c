/* A pair is one attempt with its session. The client's half waits for events in a queue, the
 * server's half for its owner to ask for body; each half has one task that makes its callbacks.
 * Both halves live until both are released: the attempt by attempt_close(), the session when it has
 * ended and nothing is left to tell its owner.
 *
 * States of both halves: see exchange.h. Of the session:
 *
 *   OFFER to OWNED   local_offer(): on_try() is called, and its owner may answer inside
 *   OWNED to GONE    session_lose(): the client's half is closed; the task says on_gone()
 *   to OVER          session_end(): its owner finished it; on_session_task(): its owner was told
 *                    that it is gone; attempt_open(), session_lose(): it was never offered.
 *                    Nothing is called then */
#include <rpc/exchange.h>
#include <rpc/local_int.h>

#include <assert.h>
#include <base/arena.h>
#include <base/err.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES     10240u
#define QUEUE_BYTES_MAX (64u << 10)

struct event {
    STAILQ_ENTRY(event) entry;
    enum wire_kind kind; /* START, DATA, FINISHED */
    size_t len;
    union {
        struct engage_start start;
        struct engage_finished finished;
    };
    char data[];
};

struct engage_attempt {
    const struct engage_client_cb *cb;
    void *ud;
    struct env_task task;
    struct env_timer deadline;
    STAILQ_HEAD(, event) events;
    size_t queued_bytes;
    struct {
        bool is_set;
        int status;
        enum engage_proof proof;
        const char *text;
    } end; /* comes behind the events; takes no memory of its own, so that it cannot be lost */
    enum attempt_state state;
    bool paused;
    uint32_t entered;
};

struct engage_session {
    enum session_state state;
    void *ud;
    struct env_task task;
    struct engage_try try_call;
    int64_t deadline_ns;
    struct body *body;
    size_t delivered;
    bool wanted;
    bool body_end;
    bool full;
    bool writable; /* on_writable is due */
};

struct pair {
    struct local *local;
    LIST_ENTRY(pair) entry;
    struct arena arena;
    struct engage_attempt attempt;
    struct engage_session session;
};

static struct pair *of_attempt(struct engage_attempt *a)
{
    return container_of(a, struct pair, attempt);
}

static struct pair *of_session(struct engage_session *s)
{
    return container_of(s, struct pair, session);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void drop_events(struct engage_attempt *a)
{
    struct event *ev;

    while ((ev = STAILQ_FIRST(&a->events))) {
        STAILQ_REMOVE_HEAD(&a->events, entry);
        free(ev);
    }
    a->queued_bytes = 0;
    a->end.is_set = false;
}

static void maybe_release(struct pair *p)
{
    struct local *l = p->local;

    if (p->attempt.state != ATTEMPT_CLOSED || p->attempt.entered > 0 ||
        p->session.state != SESSION_OVER) {
        return;
    }
    env_undefer(l->env, &p->attempt.task);
    env_undefer(l->env, &p->session.task);
    env_timer_clear(l->env, &p->attempt.deadline);
    drop_events(&p->attempt);
    body_unref(p->session.body);
    arena_finish(&p->arena);
    LIST_REMOVE(p, entry);
    free(p);
    if (l->drained && LIST_EMPTY(&l->pairs)) {
        env_defer(l->env, &l->drain_task);
    }
}

/* ---- events to the client ------------------------------------------------------------------- */

/* Behind the end nothing is told any more. */
static void local_put(struct pair *p, struct event *ev)
{
    struct engage_attempt *a = &p->attempt;

    if (a->end.is_set) {
        free(ev);
        return;
    }
    STAILQ_INSERT_TAIL(&a->events, ev, entry);
    a->queued_bytes += ev->len;
    if (a->state != ATTEMPT_CLOSED) {
        env_defer(p->local->env, &a->task);
    }
}

/* The first one counts: what a session that was broken off still says comes too late. */
static void put_end(struct pair *p, int status, enum engage_proof proof, const char *text)
{
    struct engage_attempt *a = &p->attempt;

    if (a->end.is_set) {
        return;
    }
    a->end.is_set = true;
    a->end.status = status;
    a->end.proof = proof;
    a->end.text = text;
    if (a->state != ATTEMPT_CLOSED) {
        env_defer(p->local->env, &a->task);
    }
}

/* The server's half learns that nobody listens any more. */
static void session_lose(struct pair *p)
{
    if (p->session.state == SESSION_OFFER) {
        session_enter(&p->session.state, SESSION_OVER);
    } else if (p->session.state == SESSION_OWNED) {
        session_enter(&p->session.state, SESSION_GONE);
        env_defer(p->local->env, &p->session.task);
    }
}

static void break_off(struct pair *p, int status, enum engage_proof proof, const char *text)
{
    session_lose(p);
    drop_events(&p->attempt);
    put_end(p, status, proof, text);
}

/* A message lost in the middle of an answer would make a cut answer look whole. */
static void out_of_memory(struct pair *p)
{
    break_off(p, GRPC_EXHAUSTED, ENGAGE_PROOF_NONE, "runner local: out of memory");
}

/* NULL: the call is broken off. */
static struct event *event_new(struct pair *p, enum wire_kind kind, const void *data, size_t len)
{
    struct event *ev = calloc(1, sizeof(*ev) + len);

    if (!ev) {
        out_of_memory(p);
        return NULL;
    }
    ev->kind = kind;
    ev->len = len;
    if (len > 0) {
        memcpy(ev->data, data, len);
    }
    return ev;
}

static const char *local_tell(struct engage_attempt *a, const struct event *ev)
{
    const char *illegal = attempt_step(&a->state, ev->kind);

    if (illegal) {
        return illegal;
    }
    if (ev->kind == WIRE_START) {
        a->cb->on_start(a->ud, &ev->start);
    } else if (ev->kind == WIRE_DATA) {
        a->cb->on_data(a->ud, ev->data, ev->len);
    } else {
        a->cb->on_finished(a->ud, &ev->finished);
    }
    return NULL;
}

static void local_tell_end(struct engage_attempt *a, int status, enum engage_proof proof,
                           const char *text, bool legal)
{
    attempt_enter(&a->state, ATTEMPT_ENDED);
    env_timer_clear(of_attempt(a)->local->env, &a->deadline);
    a->cb->on_end(a->ud, status, text, proof, legal);
}

static void local_deliver(struct pair *p, struct event *ev)
{
    struct engage_attempt *a = &p->attempt;
    struct engage_session *s = &p->session;
    const char *illegal;

    illegal = local_tell(a, ev);
    if (illegal) {
        session_lose(p);
        local_tell_end(a, GRPC_INTERNAL, ENGAGE_PROOF_NONE, illegal, false);
        return;
    }
    a->queued_bytes -= ev->len;
    if (s->full && a->queued_bytes <= QUEUE_BYTES_MAX / 2 && s->state == SESSION_OWNED) {
        s->full = false;
        s->writable = true;
        env_defer(p->local->env, &s->task);
    }
}

static void on_attempt_task(struct env_task *t)
{
    struct engage_attempt *a = container_of(t, struct engage_attempt, task);
    struct pair *p = of_attempt(a);
    struct event *ev;

    a->entered++;
    while (a->state < ATTEMPT_ENDED && !a->paused && (ev = STAILQ_FIRST(&a->events))) {
        STAILQ_REMOVE_HEAD(&a->events, entry);
        local_deliver(p, ev);
        free(ev);
    }
    if (a->state < ATTEMPT_ENDED && !a->paused && a->end.is_set) {
        local_tell_end(a, a->end.status, a->end.proof, a->end.text, true);
    }
    a->entered--;
    maybe_release(p);
}

static void local_on_deadline(struct env_timer *t)
{
    struct pair *p = of_attempt(container_of(t, struct engage_attempt, deadline));

    p->attempt.paused = false; /* the rest of the answer will not come */
    break_off(p, GRPC_DEADLINE, ENGAGE_PROOF_NONE, "Deadline Exceeded");
}

/* ---- client table --------------------------------------------------------------------------- */

static void on_link_task(struct env_task *t)
{
    struct engage_link *k = container_of(t, struct engage_link, task);

    if (k->up == k->local->draining) {
        k->up = !k->up;
        if (k->cb && k->cb->on_state) {
            k->cb->on_state(k->ud, k->up);
        }
    }
}

static struct engage_link *link_open(struct engage_client *client, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud)
{
    struct local *l = container_of(client, struct local, client);
    struct engage_link *k = calloc(1, sizeof(*k));

    (void)address;
    (void)tls_name;
    if (!k) {
        return NULL;
    }
    k->local = l;
    k->cb = cb;
    k->ud = ud;
    k->task.cb = on_link_task;
    LIST_INSERT_HEAD(&l->links, k, entry);
    env_defer(l->env, &k->task);
    return k;
}

static void link_close(struct engage_link *k)
{
    env_undefer(k->local->env, &k->task);
    local_readers_leave(k);
    LIST_REMOVE(k, entry);
    free(k);
}

static bool link_is_up(const struct engage_link *k)
{
    return k->up;
}

static const char *copied(struct arena *a, const char *text)
{
    return text ? arena_strdup(a, text) : NULL;
}

static int copy_try(struct pair *p, const struct engage_try *t)
{
    struct engage_try *to = &p->session.try_call;
    struct fn_kv *kv;

    *to = *t;
    to->call_json = arena_strndup(&p->arena, t->call_json, t->call_json_len);
    to->slot_hash_id = arena_strdup(&p->arena, t->slot_hash_id ? t->slot_hash_id : "");
    to->request_id = copied(&p->arena, t->request_id);
    to->extensions = kv = arena_alloc(&p->arena, t->n_extensions * sizeof(*kv));
    for (uint32_t i = 0; kv && i < t->n_extensions; i++) {
        kv[i] = (struct fn_kv){ arena_strdup(&p->arena, t->extensions[i].key),
                                arena_strdup(&p->arena, t->extensions[i].value) };
    }
    return p->arena.failed ? FN_E_EXHAUSTED : 0;
}

static void on_session_task(struct env_task *t);

static struct engage_attempt *attempt_open(struct engage_link *k, const struct engage_try *t,
                                           struct body *body, int64_t deadline_ns,
                                           const struct engage_client_cb *cb, void *ud)
{
    struct local *l = k->local;
    struct pair *p = calloc(1, sizeof(*p));

    if (!p) {
        return NULL;
    }
    p->local = l;
    arena_init(&p->arena, 0);
    if (copy_try(p, t) < 0) {
        arena_finish(&p->arena);
        free(p);
        return NULL;
    }
    p->attempt.cb = cb;
    p->attempt.ud = ud;
    p->attempt.task.cb = on_attempt_task;
    p->attempt.deadline.cb = local_on_deadline;
    STAILQ_INIT(&p->attempt.events);
    p->session.task.cb = on_session_task;
    p->session.deadline_ns = deadline_ns;
    p->session.body = body ? body_ref(body) : NULL;
    LIST_INSERT_HEAD(&l->pairs, p, entry);
    if (!k->up || l->draining) {
        session_enter(&p->session.state, SESSION_OVER);
        put_end(p, GRPC_UNAVAILABLE, ENGAGE_PROOF_NOT_SENT, "runner local: not connected");
        return &p->attempt;
    }
    if (deadline_ns != 0) {
        env_timer_set(l->env, &p->attempt.deadline, deadline_ns);
    }
    env_defer(l->env, &p->session.task);
    return &p->attempt;
}

static void attempt_pause(struct engage_attempt *a, bool paused)
{
    a->paused = paused;
    if (!paused && (!STAILQ_EMPTY(&a->events) || a->end.is_set) && a->state != ATTEMPT_CLOSED) {
        env_defer(of_attempt(a)->local->env, &a->task);
    }
}

static void attempt_close(struct engage_attempt *a)
{
    struct pair *p = of_attempt(a);
    bool told = a->state == ATTEMPT_ENDED;

    attempt_enter(&a->state, ATTEMPT_CLOSED);
    env_undefer(p->local->env, &a->task);
    env_timer_clear(p->local->env, &a->deadline);
    if (!told) {
        session_lose(p);
    }
    maybe_release(p);
}

/* ---- the server's half ---------------------------------------------------------------------- */

static void local_offer(struct pair *p)
{
    struct engage_session *s = &p->session;
    struct local *l = p->local;
    int r;

    session_enter(&s->state, SESSION_OWNED);
    r = l->cb->on_try(l->ud, s, &s->try_call, s->deadline_ns, &s->ud);
    if (r < 0) {
        /* Broken by a runner that refuses a session and ends it too. */
        assert(s->state == SESSION_OWNED);
        session_enter(&s->state, SESSION_OVER);
        env_timer_clear(l->env, &p->attempt.deadline);
        put_end(p, -r, ENGAGE_PROOF_NONE, err_name(r));
    }
}

static void give_body(struct pair *p)
{
    struct engage_session *s = &p->session;
    size_t left = s->body ? s->body->bytes.len - s->delivered : 0;
    size_t n = left < FRAME_BYTES ? left : FRAME_BYTES;
    const char *data = n > 0 ? s->body->bytes.data + s->delivered : NULL;

    s->wanted = false;
    s->delivered += n;
    s->body_end = n == left;
    p->local->cb->on_body(s->ud, data, n, s->body_end);
}

/* One pass: each step may end the session. */
static void on_session_task(struct env_task *t)
{
    struct engage_session *s = container_of(t, struct engage_session, task);
    struct pair *p = of_session(s);

    p->attempt.entered++;
    if (s->state == SESSION_OFFER) {
        local_offer(p);
    } else {
        if (s->state == SESSION_OWNED && s->wanted) {
            give_body(p);
        }
        if (s->state == SESSION_OWNED && s->writable) {
            s->writable = false;
            p->local->cb->on_writable(s->ud);
        }
    }
    if (s->state == SESSION_GONE) {
        session_enter(&s->state, SESSION_OVER);
        p->local->cb->on_gone(s->ud);
    }
    p->attempt.entered--;
    maybe_release(p);
}

static void session_more(struct engage_session *s)
{
    /* Broken by core/runner, if it asks behind the end of the body or of the session. */
    assert(session_has_owner(s->state) && !s->body_end);
    s->wanted = true;
    env_defer(of_session(s)->local->env, &s->task);
}

static void local_send_start(struct engage_session *s, const struct engage_start *start)
{
    struct pair *p = of_session(s);
    struct event *ev = event_new(p, WIRE_START, NULL, 0);
    struct header *h;

    if (!ev) {
        return;
    }
    h = arena_alloc(&p->arena, start->n_headers * sizeof(*h));
    for (uint32_t i = 0; h && i < start->n_headers; i++) {
        h[i] = (struct header){ arena_strdup(&p->arena, start->headers[i].name),
                                arena_strdup(&p->arena, start->headers[i].value) };
    }
    if (p->arena.failed) {
        free(ev);
        out_of_memory(p);
        return;
    }
    ev->start.status = start->status;
    ev->start.headers = h;
    ev->start.n_headers = start->n_headers;
    local_put(p, ev);
}

static int send_data(struct engage_session *s, const void *data, size_t len)
{
    struct pair *p = of_session(s);
    const char *bytes = data;
    struct event *ev;

    while (len > 0) {
        size_t n = len < FRAME_BYTES ? len : FRAME_BYTES;

        if (!(ev = event_new(p, WIRE_DATA, bytes, n))) {
            break;
        }
        local_put(p, ev);
        bytes += n;
        len -= n;
    }
    s->full = p->attempt.queued_bytes > QUEUE_BYTES_MAX;
    return s->full ? 1 : 0;
}

/* What is queued may be read at any time: the deadline is one of the session. */
static void session_end(struct pair *p, int status, const char *text)
{
    /* Broken by core/runner, if it ends a session twice. */
    assert(session_has_owner(p->session.state));
    session_enter(&p->session.state, SESSION_OVER);
    env_timer_clear(p->local->env, &p->attempt.deadline);
    put_end(p, status, ENGAGE_PROOF_NONE, text);
    maybe_release(p);
}

static void local_finish(struct engage_session *s, const struct engage_finished *f)
{
    struct pair *p = of_session(s);
    struct event *ev = event_new(p, WIRE_FINISHED, NULL, 0);

    if (ev) {
        ev->finished = *f;
        ev->finished.error_text = copied(&p->arena, f->error_text);
        ev->finished.details = copied(&p->arena, f->details);
        ev->finished.image = copied(&p->arena, f->image);
        ev->finished.created_at = copied(&p->arena, f->created_at);
        ev->finished.started_at = copied(&p->arena, f->started_at);
        ev->finished.completed_at = copied(&p->arena, f->completed_at);
        local_put(p, ev);
    }
    session_end(p, GRPC_OK, "");
}

static void abort_session(struct engage_session *s, int grpc_status, const char *text)
{
    struct pair *p = of_session(s);

    drop_events(&p->attempt);
    session_end(p, grpc_status, copied(&p->arena, text));
}

struct engage_server *local_server_table(void)
{
    static struct engage_server table = {
        .session_more = session_more,
        .send_start = local_send_start,
        .send_data = send_data,
        .finish = local_finish,
        .abort = abort_session,
    };

    return &table;
}

/* ---- the object ----------------------------------------------------------------------------- */

static void on_drain_task(struct env_task *t)
{
    struct local *l = container_of(t, struct local, drain_task);
    void (*done)(void *) = l->drained;

    if (LIST_EMPTY(&l->pairs) && done) {
        l->drained = NULL;
        done(l->drained_ud);
    }
}

struct local *local_create(struct env *env, const struct engage_server_cb *cb, void *ud)
{
    struct local *l = calloc(1, sizeof(*l));

    if (!l) {
        return NULL;
    }
    l->client = (struct engage_client){
        .link_open = link_open,
        .link_close = link_close,
        .link_is_up = link_is_up,
        .attempt = attempt_open,
        .attempt_pause = attempt_pause,
        .attempt_close = attempt_close,
        .reader_open = local_reader_open,
        .reader_more = local_reader_more,
        .reader_close = local_reader_close,
    };
    l->env = env;
    l->cb = cb;
    l->ud = ud;
    l->drain_task.cb = on_drain_task;
    LIST_INIT(&l->pairs);
    LIST_INIT(&l->links);
    LIST_INIT(&l->readers);
    return l;
}

struct engage_client *local_client(struct local *l)
{
    return &l->client;
}

void local_drain(struct local *l, void (*done)(void *ud), void *ud)
{
    struct engage_link *k;

    l->draining = true;
    l->drained = done;
    l->drained_ud = ud;
    LIST_FOREACH(k, &l->links, entry) {
        env_defer(l->env, &k->task);
    }
    env_defer(l->env, &l->drain_task);
}

void local_destroy(struct local *l)
{
    if (!l) {
        return;
    }
    /* Broken by core/node, if core/lb has not closed its attempts and links before. */
    assert(LIST_EMPTY(&l->pairs) && LIST_EMPTY(&l->links));
    env_undefer(l->env, &l->drain_task);
    local_readers_forget(l);
    free(l);
}
