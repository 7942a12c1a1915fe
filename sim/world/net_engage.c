/* Engage over the simulated network: the client table of load balancers and the server table of
 * runners.
 *
 * A stream is an attempt and its session. What an attempt's end proves is decided as core/rpc does:
 * "not sent" while no socket has taken all of TryCall, "refused" by the runner's transport, nothing
 * else. Callbacks come from timers and tasks of the node that they belong to. */
#include "net_int.h"

#include <assert.h>
#include <model/grpc.h>
#include <model/kvs.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 10240u /* of bodies and answers in a frame */
/* The first frame of the body, a container, the function, and what these take on top. */
#define RUNNER_LIMIT_NS (21 * ENV_S) /* beside the time of the function */

struct engage_attempt {
    const struct engage_client_cb *cb;
    void *ud;
    struct env_task task;      /* the end of one that never began; what a pause held back */
    struct env_timer deadline;
    struct frames held;
    bool paused;
    bool given;  /* TryCall was taken by a socket */
    bool heard;  /* something came back */
    bool nacked;
    bool full;   /* no place on the connection */
    bool ended, closed;
};

struct engage_session {
    void *ud;
    struct env_task task;
    struct frames body; /* arrived, not asked for */
    bool owned;         /* by the runner, until it is finished or gone */
    bool over;          /* nothing is told to it any more, or it never began */
    bool wanted;
    bool full;     /* the runner was told to wait */
    bool writable; /* on_writable() is due */
    bool started, refused;
    int64_t begun_ns, frozen_ns; /* when it began, and how long its node had stood still by then */
};

struct stream {
    LIST_ENTRY(stream) entry; /* of its connection, or of the client's unsent ones */
    struct net *net;
    struct net_client *client;
    struct conn *conn; /* NULL: never sent */
    struct arena arena;
    uint32_t seq; /* of the request, as its body says */
    uint32_t frames_n; /* on their way */
    uint32_t entered;  /* depth of our own frames that still use it */
    struct engage_try try_call;
    int64_t deadline_ns;
    uint64_t sent_bytes, taken_bytes; /* of the answer */
    struct engage_attempt a;
    struct engage_session s;
};

static struct stream *of_attempt(struct engage_attempt *a)
{
    return container_of(a, struct stream, a);
}

static struct stream *of_session(struct engage_session *s)
{
    return container_of(s, struct stream, s);
}

static struct env *env_of_lb(const struct stream *st)
{
    return st->client->lb->n.env;
}

static struct env *env_of_runner(const struct stream *st)
{
    return st->conn->runner->n.env;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void frames_drop(struct frames *q)
{
    struct frame *f;

    while ((f = TAILQ_FIRST(q))) {
        TAILQ_REMOVE(q, f, link);
        free(f);
    }
}

static void stream_free(struct stream *st)
{
    struct conn *c = st->conn;

    env_undefer(env_of_lb(st), &st->a.task);
    env_timer_clear(env_of_lb(st), &st->a.deadline);
    if (c) {
        env_undefer(env_of_runner(st), &st->s.task);
    }
    frames_drop(&st->a.held);
    frames_drop(&st->s.body);
    LIST_REMOVE(st, entry);
    arena_finish(&st->arena);
    free(st);
    if (c) {
        conn_maybe_end(c);
    }
}

static void stream_maybe_free(struct stream *st)
{
    if (st->a.closed && st->entered == 0 && st->s.over && st->frames_n == 0) {
        stream_free(st);
    }
}

void frame_free(struct frame *f)
{
    struct stream *st = f->stream;

    free(f);
    if (st) {
        st->frames_n--;
        stream_maybe_free(st);
    }
}

static void stream_send(struct stream *st, bool to_runner, struct frame *f)
{
    st->frames_n++;
    pipe_send(to_runner ? &st->conn->to_runner : &st->conn->to_lb, f);
}

static void stream_send_plain(struct stream *st, bool to_runner, enum frame_kind kind)
{
    stream_send(st, to_runner, frame_new(st, kind, NULL, 0));
}

void stream_given(struct stream *st, const struct frame *f)
{
    st->a.given |= f->kind == FRAME_TRY;
}

static const char *kept(struct stream *st, const char *text)
{
    const char *copy;

    sim_outside_begin();
    copy = text ? arena_strdup(&st->arena, text) : NULL;
    sim_outside_end();
    if (text && !copy) {
        abort();
    }
    return copy;
}

static const struct fn_kv *kept_pairs(struct stream *st, const struct fn_kv *pairs, uint32_t n)
{
    const struct fn_kv *copy;

    sim_outside_begin();
    copy = kvs_copy_pairs(&st->arena, pairs, n);
    sim_outside_end();
    if (!copy) {
        abort();
    }
    return copy;
}

/* ---- the load balancer's side -------------------------------------------------------------- */

static void attempt_leave_conn(struct stream *st)
{
    if (st->conn) {
        st->conn->streams_n--;
        conn_maybe_end(st->conn);
    }
}

static void attempt_end(struct stream *st, int status, const char *text, enum engage_proof proof)
{
    struct engage_attempt *a = &st->a;

    a->ended = true;
    st->entered++;
    env_timer_clear(env_of_lb(st), &a->deadline);
    frames_drop(&a->held);
    books_offer_end(st->net->w->books, st->seq,
                    proof != ENGAGE_PROOF_NONE ? BOOKS_UNREACHED
                    : a->nacked                ? BOOKS_REFUSED
                                               : BOOKS_NO_PROOF);
    tell(&st->client->lb->n, "request %u: its offer ends: %d %s%s", st->seq, status, text,
         proof != ENGAGE_PROOF_NONE ? " (nothing ran)" : "");
    attempt_leave_conn(st);
    a->cb->on_end(a->ud, status, text, proof, true);
    st->entered--;
}

static enum engage_proof proof_of(const struct stream *st)
{
    if (st->a.heard || st->a.given) {
        return ENGAGE_PROOF_NONE;
    }
    return st->a.full ? ENGAGE_PROOF_FULL : ENGAGE_PROOF_NOT_SENT;
}

static void attempt_take(struct stream *st, size_t len)
{
    st->taken_bytes += len;
    if (st->s.full && st->conn->runner_open &&
        st->sent_bytes - st->taken_bytes <= st->net->w->plan->window_bytes / 2) {
        st->s.full = false;
        stream_send_plain(st, true, FRAME_WINDOW);
    }
}

static void attempt_tell(struct stream *st, struct frame *f)
{
    struct engage_attempt *a = &st->a;

    switch (f->kind) {
    case FRAME_START:
        a->heard = true;
        a->cb->on_start(a->ud, &f->start);
        break;
    case FRAME_DATA:
        attempt_take(st, f->len);
        a->cb->on_data(a->ud, f->data, f->len);
        break;
    case FRAME_FINISHED:
        a->nacked = !a->heard && !f->finished.success && !f->finished.error_user &&
                    f->finished.error_code == 503;
        a->heard = true;
        a->cb->on_finished(a->ud, &f->finished);
        break;
    case FRAME_REFUSED:
        attempt_end(st, GRPC_UNAVAILABLE, "the stream was refused", ENGAGE_PROOF_REFUSED);
        break;
    default:
        attempt_end(st, f->status, f->text ? f->text : "",
                    f->status ? proof_of(st) : ENGAGE_PROOF_NONE);
    }
}

static void attempt_tell_held(struct stream *st)
{
    struct engage_attempt *a = &st->a;
    struct frame *f;

    st->entered++;
    while (!a->ended && !a->closed && !a->paused && (f = TAILQ_FIRST(&a->held))) {
        TAILQ_REMOVE(&a->held, f, link);
        attempt_tell(st, f);
        free(f);
    }
    st->entered--;
    stream_maybe_free(st);
}

static void on_attempt_task(struct env_task *t)
{
    struct stream *st = of_attempt(container_of(t, struct engage_attempt, task));

    if (!st->conn) {
        st->entered++;
        attempt_end(st, st->a.full ? GRPC_EXHAUSTED : GRPC_UNAVAILABLE,
                    st->a.full ? "as many calls run as the runner lets in" : "not connected",
                    proof_of(st));
        st->entered--;
        stream_maybe_free(st);
    } else {
        attempt_tell_held(st);
    }
}

static void cancel(struct stream *st)
{
    pipe_forget(&st->conn->to_runner, st);
    if (st->a.given) {
        stream_send_plain(st, true, FRAME_CANCEL);
    }
}

static void on_deadline(struct env_timer *t)
{
    struct stream *st = of_attempt(container_of(t, struct engage_attempt, deadline));

    st->entered++;
    cancel(st);
    attempt_end(st, GRPC_DEADLINE, "Deadline Exceeded", proof_of(st));
    st->entered--;
    stream_maybe_free(st);
}

static uint32_t request_of(const struct body *body)
{
    return body && body->bytes.len > 0 ? (uint32_t)strtoul(body->bytes.data, NULL, 10) : 0;
}

static void keep_try(struct stream *st, const struct engage_try *t)
{
    st->try_call = *t;
    st->try_call.call_json = kept(st, t->call_json);
    st->try_call.slot_hash_id = kept(st, t->slot_hash_id);
    st->try_call.request_id = kept(st, t->request_id);
    st->try_call.extensions = kept_pairs(st, t->extensions, t->n_extensions);
}

static void send_body(struct stream *st, const struct body *body)
{
    size_t left = body ? body->bytes.len : 0;
    const char *p = left ? body->bytes.data : NULL;
    bool last = false;

    while (!last) {
        size_t len = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        struct frame *f = frame_new(st, FRAME_BODY, p, len);

        last = f->eof = len == left;
        p = p ? p + len : NULL;
        left -= len;
        stream_send(st, true, f);
    }
}

static void stream_begin(struct stream *st, struct conn *c, const struct body *body)
{
    st->conn = c;
    LIST_INSERT_HEAD(&c->streams, st, entry);
    c->streams_n++;
    if (st->deadline_ns) {
        env_timer_set(env_of_lb(st), &st->a.deadline, st->deadline_ns);
    }
    stream_send(st, true, frame_new(st, FRAME_TRY, st->try_call.call_json,
                                    st->try_call.call_json_len));
    send_body(st, body);
}

static struct engage_attempt *attempt_open(struct engage_link *l, const struct engage_try *t,
                                           struct body *body, int64_t deadline_ns,
                                           const struct engage_client_cb *cb, void *ud)
{
    struct net *net = l->of->net;
    struct stream *st;

    if (scarce_hits((const void *)(uintptr_t)attempt_open)) {
        return NULL;
    }
    st = sim_alloc(sizeof(*st));
    st->net = net;
    st->client = l->of;
    st->seq = request_of(body);
    st->deadline_ns = deadline_ns;
    arena_init(&st->arena, 0);
    TAILQ_INIT(&st->a.held);
    TAILQ_INIT(&st->s.body);
    st->a.cb = cb;
    st->a.ud = ud;
    st->a.task.cb = on_attempt_task;
    st->a.deadline.cb = on_deadline;
    st->s.over = true; /* until TryCall has arrived */
    books_offer(net->w->books, st->seq);
    version_offered(l->of->lb, st->seq, t->call_json);
    tell(&l->of->lb->n, "request %u is offered to runner%u", st->seq, l->runner);
    st->a.full = l->conn && l->conn->streams_n >= net->w->plan->streams_max;
    if (!l->conn || st->a.full) {
        LIST_INSERT_HEAD(&l->of->unsent, st, entry);
        env_defer(env_of_lb(st), &st->a.task);
        return &st->a;
    }
    keep_try(st, t);
    stream_begin(st, l->conn, body);
    return &st->a;
}

static void attempt_pause(struct engage_attempt *a, bool paused)
{
    a->paused = paused;
    if (!paused && !TAILQ_EMPTY(&a->held)) {
        env_defer(env_of_lb(of_attempt(a)), &a->task);
    }
}

static void attempt_close(struct engage_attempt *a)
{
    struct stream *st = of_attempt(a);

    assert(!a->closed);
    a->closed = true;
    st->entered++;
    env_undefer(env_of_lb(st), &a->task);
    env_timer_clear(env_of_lb(st), &a->deadline);
    frames_drop(&a->held);
    if (!a->ended) {
        books_offer_end(st->net->w->books, st->seq, BOOKS_NO_PROOF);
        if (st->conn) {
            cancel(st);
        }
        attempt_leave_conn(st);
    }
    st->entered--;
    stream_maybe_free(st);
}

void net_client_fill(struct engage_client *client)
{
    client->attempt = attempt_open;
    client->attempt_pause = attempt_pause;
    client->attempt_close = attempt_close;
}

/* ---- the runner's side --------------------------------------------------------------------- */

static void check_time(struct stream *st)
{
    const struct node *n = &st->conn->runner->n;
    int64_t for_ns = st->net->w->now_ns - st->s.begun_ns - (n->frozen_ns - st->s.frozen_ns);

    if (for_ns > RUNNER_LIMIT_NS + st->net->w->plan->timeout_max_s * ENV_S) {
        books_break(st->net->w->books, BOOKS_RUNNER_TIME, st->seq,
                    "%s has request %u for %lld ms", n->name, st->seq,
                    (long long)(for_ns / ENV_MS));
    }
}

void streams_check_times(struct conn *c)
{
    struct stream *st;

    LIST_FOREACH(st, &c->streams, entry) {
        if (st->s.owned) {
            check_time(st);
        }
    }
}

static void session_leave(struct stream *st)
{
    check_time(st);
    st->s.owned = false;
    st->s.over = true;
    st->conn->runner->sessions--;
    frames_drop(&st->s.body);
}

static void session_lose(struct stream *st)
{
    if (st->s.owned) {
        session_leave(st);
        st->conn->runner->cb.on_gone(st->s.ud);
    }
}

static void session_begin(struct stream *st)
{
    struct runner_node *r = st->conn->runner;
    int status;

    if (st->net->refuse[r->index] > 0) {
        st->net->refuse[r->index]--;
        st->s.refused = true;
        stream_send_plain(st, false, FRAME_REFUSED);
        return;
    }
    st->s.owned = true;
    st->s.over = false;
    st->s.begun_ns = st->net->w->now_ns;
    st->s.frozen_ns = r->n.frozen_ns;
    r->sessions++;
    r->tried++;
    books_reach(st->net->w->books, st->seq);
    tell(&r->n, "gets request %u", st->seq);
    status = r->cb.on_try(r->cb_ud, &st->s, &st->try_call, st->deadline_ns, &st->s.ud);
    if (status < 0) {
        struct frame *f = frame_new(st, FRAME_END, NULL, 0);

        session_leave(st);
        f->status = -status;
        stream_send(st, false, f);
    }
}

static void session_give_body(struct stream *st)
{
    struct frame *f = TAILQ_FIRST(&st->s.body);

    if (f && st->s.owned && st->s.wanted) {
        st->s.wanted = false;
        TAILQ_REMOVE(&st->s.body, f, link);
        st->conn->runner->cb.on_body(st->s.ud, f->data, f->len, f->eof);
        free(f);
    }
}

static void on_session_task(struct env_task *t)
{
    struct stream *st = of_session(container_of(t, struct engage_session, task));

    st->entered++;
    session_give_body(st);
    if (st->s.owned && st->s.writable) {
        st->s.writable = false;
        st->conn->runner->cb.on_writable(st->s.ud);
    }
    st->entered--;
    stream_maybe_free(st);
}

static void session_soon(struct stream *st)
{
    st->s.task.cb = on_session_task;
    env_defer(env_of_runner(st), &st->s.task);
}

static void session_more(struct engage_session *s)
{
    s->wanted = true;
    session_soon(of_session(s));
}

static void must_be_owned(struct engage_session *s, const char *what)
{
    struct stream *st = of_session(s);

    if (!s->owned) {
        books_break(st->net->w->books, BOOKS_ORDER, st->seq,
                    "request %u: %s behind the end of its session", st->seq, what);
    }
}

static void send_start(struct engage_session *s, const struct engage_start *start)
{
    struct stream *st = of_session(s);
    struct frame *f = frame_new(st, FRAME_START, NULL, 0);
    struct header *h;

    sim_outside_begin();
    h = arena_alloc(&st->arena, (start->n_headers + 1) * sizeof(*h));
    sim_outside_end();
    must_be_owned(s, "CallResultStart");
    if (s->started) {
        books_break(st->net->w->books, BOOKS_ORDER, st->seq, "request %u starts twice", st->seq);
    }
    s->started = true;
    for (uint32_t i = 0; i < start->n_headers; i++) {
        h[i] = (struct header){ kept(st, start->headers[i].name),
                                kept(st, start->headers[i].value) };
    }
    f->start = (struct engage_start){ start->status, h, start->n_headers };
    stream_send(st, false, f);
}

static int send_data(struct engage_session *s, const void *data, size_t len)
{
    struct stream *st = of_session(s);
    const char *p = data;

    must_be_owned(s, "data");
    if (!s->started) {
        books_break(st->net->w->books, BOOKS_ORDER, st->seq, "request %u: data before its start",
                    st->seq);
    }
    st->sent_bytes += len;
    while (len > 0) {
        size_t n = len < CHUNK_BYTES ? len : CHUNK_BYTES;

        stream_send(st, false, frame_new(st, FRAME_DATA, p, n));
        p += n;
        len -= n;
    }
    s->full = st->sent_bytes - st->taken_bytes > st->net->w->plan->window_bytes;
    return s->full;
}

static void count_finish(struct stream *st, const struct engage_finished *f)
{
    struct runner_node *r = st->conn->runner;

    r->told_ok += f->success;
    if (!f->success && f->error_code == 503 && !f->error_user) {
        r->told_refused++;
        books_nack(st->net->w->books, st->seq);
    }
    tell(&r->n, "request %u: finished, %s %d %s%s%s", st->seq, f->success ? "ok" : "failed",
         f->error_code, f->error_user ? "(user) " : "", f->error_text ? f->error_text : "",
         !f->success && f->error_code == 503 && f->details ? f->details : "");
}

static void session_finish(struct engage_session *s, const struct engage_finished *given)
{
    struct stream *st = of_session(s);
    struct frame *f = frame_new(st, FRAME_FINISHED, NULL, 0);

    must_be_owned(s, "CallFinished");
    count_finish(st, given);
    f->finished = *given;
    f->finished.error_text = kept(st, given->error_text);
    f->finished.details = kept(st, given->details);
    f->finished.image = kept(st, given->image);
    f->finished.created_at = kept(st, given->created_at);
    f->finished.started_at = kept(st, given->started_at);
    f->finished.completed_at = kept(st, given->completed_at);
    st->entered++;
    stream_send(st, false, f);
    stream_send_plain(st, false, FRAME_END);
    session_leave(st);
    st->entered--;
    stream_maybe_free(st);
}

static void session_abort(struct engage_session *s, int grpc_status, const char *text)
{
    struct stream *st = of_session(s);
    struct frame *f = frame_new(st, FRAME_END, NULL, 0);

    must_be_owned(s, "an abort");
    f->status = grpc_status;
    f->text = kept(st, text);
    st->entered++;
    stream_send(st, false, f);
    session_leave(st);
    st->entered--;
    stream_maybe_free(st);
}

struct engage_server *net_server_table(void)
{
    static struct engage_server table = {
        .session_more = session_more,
        .send_start = send_start,
        .send_data = send_data,
        .finish = session_finish,
        .abort = session_abort,
    };

    return &table;
}

/* ---- frames that arrive -------------------------------------------------------------------- */

/* True: the frame is kept. */
static bool runner_takes(struct stream *st, struct frame *f)
{
    switch (f->kind) {
    case FRAME_TRY:
        session_begin(st);
        return false;
    case FRAME_BODY:
        if (!st->s.owned) {
            return false;
        }
        TAILQ_INSERT_TAIL(&st->s.body, f, link);
        session_soon(st);
        return true;
    case FRAME_CANCEL:
        session_lose(st);
        return false;
    default: /* FRAME_WINDOW */
        if (st->s.owned) {
            st->s.writable = true;
            session_soon(st);
        }
        return false;
    }
}

static bool lb_takes(struct stream *st, struct frame *f)
{
    if (st->a.ended || st->a.closed) {
        return false;
    }
    TAILQ_INSERT_TAIL(&st->a.held, f, link);
    attempt_tell_held(st);
    return true;
}

void stream_arrived(struct conn *c, struct frame *f)
{
    struct stream *st = f->stream;
    bool to_runner = f->kind < FRAME_START;

    st->entered++;
    st->frames_n--;
    if ((to_runner && !c->runner_open) || (!to_runner && !c->lb_open) ||
        !(to_runner ? runner_takes(st, f) : lb_takes(st, f))) {
        free(f);
    }
    st->entered--;
    stream_maybe_free(st);
}

/* ---- connections that are lost ------------------------------------------------------------- */

static struct stream *running_attempt(struct conn *c)
{
    struct stream *st;

    LIST_FOREACH(st, &c->streams, entry) {
        if (!st->a.ended && !st->a.closed) {
            return st;
        }
    }
    return NULL;
}

void streams_lose_lb(struct conn *c, const char *why)
{
    struct stream *st;

    while ((st = running_attempt(c))) {
        st->entered++;
        attempt_end(st, GRPC_UNAVAILABLE, why, proof_of(st));
        st->entered--;
        stream_maybe_free(st);
    }
}

static struct stream *owned_session(struct conn *c)
{
    struct stream *st;

    LIST_FOREACH(st, &c->streams, entry) {
        if (st->s.owned) {
            return st;
        }
    }
    return NULL;
}

void streams_lose_runner(struct conn *c)
{
    struct stream *st;

    while ((st = owned_session(c))) {
        st->entered++;
        session_lose(st);
        st->entered--;
        stream_maybe_free(st);
    }
}
