/* One connection of the server.
 *
 *   SHAKE ──▶ HEAD ──▶ BODY ──▶ CALL ──▶ FLUSH ──▶ HEAD      each of them ──▶ DEAD
 *               └────────────────▲         └─────▶ LINGER
 *
 *   SHAKE to HEAD        conn_begin(): at once without TLS
 *   HEAD to BODY, CALL   start_body(), start_call(): c->req is there; the handler has it in CALL
 *   HEAD, BODY to FLUSH  conn_refuse(): the answer is the server's own, and the last one
 *   CALL to FLUSH        conn_answered(): c->req is gone
 *   FLUSH to HEAD        next_request(): all is out
 *   FLUSH to LINGER      start_linger(): all is out, and the request was refused unread
 *   to DEAD              conn_end(): freed when nothing of it runs any more (c->busy)
 *
 * The quick way: one net_io_read() into the server's scratch buffer brings the whole request, the
 * handler answers from inside on_request() or later, one net_io_writev() carries the answer. `in`
 * and `out` are touched only by what does not fit this.
 *
 * Time limits: the timer is moved only when it would fire too late. A deadline that went away or
 * moved out is found when it fires, so that a request costs no work in the timer heap.
 *
 * End of input while a call runs counts as "client gone", as in Go's server, also when only one
 * direction was shut down: the two look alike and an abandoned call must not hold a container.
 * Requests that were read ahead are still served first. */
#include <http/conn.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TLS_HANDSHAKE 0x16

static const uint32_t follows[CONN_STATES_N] = {
    [CONN_SHAKE] = STATE(CONN_HEAD) | STATE(CONN_DEAD),
    [CONN_HEAD] = STATE(CONN_BODY) | STATE(CONN_CALL) | STATE(CONN_FLUSH) | STATE(CONN_DEAD),
    [CONN_BODY] = STATE(CONN_CALL) | STATE(CONN_FLUSH) | STATE(CONN_DEAD),
    [CONN_CALL] = STATE(CONN_FLUSH) | STATE(CONN_DEAD),
    [CONN_FLUSH] = STATE(CONN_HEAD) | STATE(CONN_LINGER) | STATE(CONN_DEAD),
    [CONN_LINGER] = STATE(CONN_DEAD),
    [CONN_DEAD] = 0,
};
static const char *const names[CONN_STATES_N] = { "shake", "head",   "body", "call",
                                                  "flush", "linger", "dead" };
const struct states conn_states = { "connection", names, follows, CONN_STATES_N };

static void conn_enter(struct conn *c, enum conn_state state)
{
    c->state = (enum conn_state)states_next(&conn_states, c->state, state);
}

static int64_t conn_now_ns(const struct conn *c)
{
    return env_now_ns(c->s->env);
}

static int64_t after(const struct conn *c, int64_t ns)
{
    return ns > 0 ? conn_now_ns(c) + ns : 0;
}

/* ---- time limits ---------------------------------------------------------------------------- */

static int64_t next_limit(const struct conn *c)
{
    if (c->deadline_ns == 0 || (c->stall_ns != 0 && c->stall_ns < c->deadline_ns)) {
        return c->stall_ns;
    }
    return c->deadline_ns;
}

static void arm(struct conn *c)
{
    int64_t at = next_limit(c);

    if (at != 0 && (!env_timer_is_set(&c->timer) || c->timer.at_ns > at)) {
        env_timer_set(c->s->env, &c->timer, at);
    }
}

static void set_deadline(struct conn *c, int64_t at_ns)
{
    c->deadline_ns = at_ns;
    arm(c);
}

/* Draining: for a request that is on its way. */
static void wait_briefly(struct conn *c)
{
    int64_t until_ns = c->s->drain_until_ns;

    if (c->deadline_ns == 0 || c->deadline_ns > until_ns) {
        set_deadline(c, until_ns);
    }
}

static void check_body_time(struct conn *c)
{
    struct refusal r;
    int64_t next = intake_look(c->s, &c->intake, &c->req->pub, &r);

    if (next == 0) {
        conn_refuse(c, &r);
    } else {
        set_deadline(c, next);
    }
}

static void refuse_late_head(struct conn *c)
{
    struct refusal r;

    refuse_late(&r, "HTTP111 header", c->s->config.limits.header_timeout_ns);
    conn_refuse(c, &r);
}

static void conn_on_timer(struct env_timer *t)
{
    struct conn *c = container_of(t, struct conn, timer);
    int64_t now = conn_now_ns(c);

    if (c->stall_ns != 0 && now >= c->stall_ns) {
        log_stranger(FN_LOG_INFO, "client does not read its answer, connection reset", "peer",
                     net_io_peer(c->io));
        conn_reset(c);
        return;
    }
    if (c->deadline_ns == 0 || now < c->deadline_ns) {
        arm(c);
        return;
    }
    c->deadline_ns = 0;
    switch (c->state) {
    case CONN_HEAD:
        if (c->in.len > 0) {
            refuse_late_head(c);
        } else {
            conn_gone(c);
        }
        break;
    case CONN_BODY:
        check_body_time(c);
        break;
    default:
        conn_gone(c); /* LINGER; the others have no deadline of their own */
        break;
    }
}

/* ---- end of a connection -------------------------------------------------------------------- */

/* The request that a handler has. */
static struct request *conn_let_go(struct conn *c)
{
    struct request *q = c->req;

    c->req = NULL;
    if (!q) {
        return NULL;
    }
    q->c = NULL;
    if (c->state == CONN_CALL) {
        return q;
    }
    request_free(q);
    return NULL;
}

static void server_conn_free(struct conn *c)
{
    buf_finish(&c->in);
    buf_finish(&c->out);
    free(c);
}

/* cut: with a reset, so that nothing looks whole. */
static void conn_end(struct conn *c, bool cut)
{
    struct http_server *s = c->s;
    struct request *q = conn_let_go(c);

    intake_end(&c->intake);
    turn_leave(s, &c->turn);
    env_timer_clear(s->env, &c->timer);
    env_undefer(s->env, &c->later);
    if (cut) {
        net_io_reset(c->io);
    } else {
        net_io_close(c->io);
    }
    c->io = NULL;
    TAILQ_REMOVE(&s->conns, c, link);
    server_conn_closed(s, c->peer_count);
    conn_enter(c, CONN_DEAD);
    if (c->busy == 0) {
        server_conn_free(c);
    }
    if (q && q->pub.on_gone) {
        q->pub.on_gone(&q->pub);
    }
}

void conn_gone(struct conn *c)
{
    conn_end(c, false);
}

void conn_reset(struct conn *c)
{
    conn_end(c, true);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void want_events(struct conn *c)
{
    bool behind = c->state == CONN_CALL || c->state == CONN_FLUSH || c->turn.waits;

    c->reading = !c->eof && !(behind && c->in.len >= PIPELINE_MAX);
    net_io_want_read(c->io, c->reading);
}

static void mark_broken(struct conn *c)
{
    c->broken = true;
    env_defer(c->s->env, &c->later);
}

void conn_put(struct conn *c, const void *data, size_t len)
{
    if (!c->broken && buf_add(&c->out, data, len) < 0) {
        mark_broken(c);
    }
}

/* `written` bytes went out, `of_out` of them from the front of `out`. */
static void note_written(struct conn *c, size_t written, size_t of_out)
{
    c->out_off += of_out;
    if (conn_pending(c) == 0) {
        c->out_off = 0;
        buf_clear(&c->out);
        if (c->out.cap > SMALL_BUF_KEPT) {
            buf_finish(&c->out);
        }
    }
    if (conn_is_flushed(c)) {
        c->stall_ns = 0;
    } else if (written > 0 || c->stall_ns == 0) {
        c->stall_ns = after(c, c->s->config.limits.write_stall_ns);
        arm(c);
    }
}

/* Until the socket says no, which is when it begins to tell that it takes bytes again. Under TLS
 * the last record may wait for it although all bytes were taken. */
static void write_rest(struct conn *c)
{
    while (!c->full && !c->broken && conn_pending(c) > 0) {
        struct iovec iov = { c->out.data + c->out_off, conn_pending(c) };
        ssize_t n = net_io_writev(c->io, &iov, 1);

        c->full = n == NET_AGAIN;
        if (n == NET_ERROR) {
            mark_broken(c);
        } else {
            note_written(c, n > 0 ? (size_t)n : 0, n > 0 ? (size_t)n : 0);
        }
    }
    if (!c->full && !c->broken && net_io_writev(c->io, NULL, 0) == NET_AGAIN) {
        c->full = true;
        note_written(c, 0, 0);
    }
}

void conn_push(struct conn *c, const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t pending = conn_pending(c);
    struct iovec iov[3] = { { c->out.data ? c->out.data + c->out_off : NULL, pending },
                            { (void *)(uintptr_t)a, a_len },
                            { (void *)(uintptr_t)b, b_len } };
    size_t of_out, n = 0;
    ssize_t r;

    if (c->broken || pending + a_len + b_len == 0) {
        return;
    }
    if (!c->full) {
        r = net_io_writev(c->io, iov, 3);
        if (r == NET_ERROR) {
            mark_broken(c);
            return;
        }
        c->full = r == NET_AGAIN;
        n = r > 0 ? (size_t)r : 0;
    }
    of_out = n < pending ? n : pending;
    if (n < pending + a_len + b_len && buf_add_rest(&c->out, iov + 1, 2, n - of_out) < 0) {
        mark_broken(c);
    }
    note_written(c, n, of_out);
    write_rest(c);
}

/* ---- from request to request ---------------------------------------------------------------- */

static void start_linger(struct conn *c)
{
    conn_enter(c, CONN_LINGER);
    buf_finish(&c->in);
    net_io_end(c->io);
    set_deadline(c, after(c, LINGER_NS));
    want_events(c);
}

static bool is_over(const struct conn *c)
{
    const struct http_server *s = c->s;

    return c->close ||
           (c->in.len == 0 && (c->eof || (s->draining && conn_now_ns(c) >= s->drain_until_ns)));
}

/* The answer is out: on to the next request or the end. */
static void next_request(struct conn *c)
{
    if (is_over(c)) {
        if (c->linger && !c->eof) {
            start_linger(c);
        } else {
            conn_gone(c);
        }
        return;
    }
    conn_enter(c, CONN_HEAD);
    c->seek = (struct parse_seek){ 0 };
    set_deadline(c, after(c, c->s->config.limits.idle_timeout_ns));
    if (c->s->draining) {
        wait_briefly(c); /* the answer went out before, and did not say that it was the last */
    }
    if (c->busy == 0) {
        if (c->in.len > 0) {
            turn_await(c->s, &c->turn);
        }
        want_events(c);
    }
}

void conn_drain(struct conn *c)
{
    if (c->state != CONN_SHAKE && (c->state != CONN_HEAD || c->in.len > 0 || c->busy > 0)) {
        return;
    }
    if (conn_now_ns(c) < c->s->drain_until_ns) {
        wait_briefly(c);
    } else {
        conn_gone(c);
    }
}

void conn_answered(struct conn *c)
{
    c->req = NULL;
    conn_enter(c, CONN_FLUSH);
    conn_push(c, NULL, 0, NULL, 0);
    if (!c->broken && conn_is_flushed(c)) {
        next_request(c);
    }
}

/* What is due after output moved, from events and tasks only. */
static void after_flush(struct conn *c)
{
    struct request *q = c->req;

    if (c->broken) {
        conn_gone(c);
    } else if (conn_is_flushed(c) && c->state == CONN_FLUSH) {
        next_request(c);
    } else if (conn_is_flushed(c) && c->state == CONN_CALL && q->wants_writable) {
        q->wants_writable = false;
        if (q->pub.on_writable) {
            q->pub.on_writable(&q->pub);
        }
    }
}

static void on_later(struct env_task *t)
{
    struct conn *c = container_of(t, struct conn, later);

    if (c->broken || conn_pending(c) > 0) {
        conn_push(c, NULL, 0, NULL, 0);
        after_flush(c);
    }
}

void conn_refuse(struct conn *c, const struct refusal *r)
{
    struct buf b = BUF_INIT(0);

    log_debug("request refused", "peer", net_io_peer(c->io), "reason", r->text);
    if (c->req) {
        c->req->c = NULL;
        request_free(c->req);
    }
    intake_end(&c->intake);
    turn_leave(c->s, &c->turn);
    answer_refusal(c->s, &b, r);
    c->close = true;
    c->linger = true;
    c->deadline_ns = 0;
    c->req = NULL;
    conn_put(c, b.data, b.len);
    buf_finish(&b);
    conn_answered(c);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void start_call(struct conn *c)
{
    struct http_server *s = c->s;
    struct request *q = c->req;
    int64_t max = s->config.limits.requests_per_connection_max;

    conn_enter(c, CONN_CALL);
    c->deadline_ns = 0;
    intake_end(&c->intake);
    c->requests_n++;
    if ((max && c->requests_n >= max) || s->draining) {
        q->keep_alive = false;
    }
    s->config.on_request(s->config.ud, &q->pub);
}

static void start_body(struct conn *c, const struct parsed_request *parsed, size_t more)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct refusal r;

    if (!intake_begin(c->s, &c->intake, c->peer_count, parsed->framing.length, &c->deadline_ns,
                      &r)) {
        conn_refuse(c, &r);
        return;
    }
    conn_enter(c, CONN_BODY);
    c->framing = parsed->framing;
    c->chunked = (struct chunked){ 0 };
    c->body_left = parsed->framing.length;
    if (parsed->expects_continue && more == 0) {
        conn_push(c, go_on, sizeof(go_on) - 1, NULL, 0);
    }
}

/* A complete head of `len` bytes; `more` bytes are there behind it. */
static void on_head(struct conn *c, const char *data, size_t len, size_t more)
{
    struct request *q = c->req = request_create(c->s, &conn_answer_ops);
    struct parsed_request parsed;
    struct refusal r;
    int e;

    if (!q) {
        refuse_for_memory(&r);
        conn_refuse(c, &r);
        return;
    }
    q->c = c;
    e = parse_request(&q->arena, data, len, &c->s->parse_limits, &parsed, &r);
    if (e == FN_E_EXHAUSTED) {
        refuse_for_memory(&r);
    } else if (e < 0 && data[0] == TLS_HANDSHAKE) {
        log_gated(c->s, &c->s->tls_gate, "TLS on a plain port", net_io_peer(c->io), NULL, NULL);
    } else if (e == 0 && c->stranger) {
        e = FN_E_PERMISSION;
        refuse_stranger(&r);
    }
    if (e < 0) {
        conn_refuse(c, &r);
        return;
    }
    request_fill(c->s, q, &parsed);
    client_name(c->s, c->io, c->peer_count, q);
    c->fresh = false;
    if (parsed.framing.chunked || parsed.framing.length > 0) {
        start_body(c, &parsed, more);
    } else {
        start_call(c);
    }
}

/* Consumes a whole head or nothing. */
static size_t feed_head(struct conn *c, const char *data, size_t len)
{
    struct refusal r;
    int64_t end;

    if (c->seek.from == 0 && data[0] == '\r' && (len == 1 || data[1] == '\n')) {
        return len == 1 ? 0 : 2; /* an empty line before a request is to be ignored */
    }
    end = parse_seek_end(&c->seek, data, len, &c->s->parse_limits, &r);
    if (end < 0) {
        conn_refuse(c, &r);
        return len;
    }
    if (end > 0) {
        on_head(c, data, (size_t)end, len - (size_t)end);
    }
    return (size_t)end;
}

/* false: refused. */
static bool add_body(struct conn *c, const char *data, size_t len)
{
    struct refusal r;

    if (!intake_add(c->s, &c->intake, c->req->pub.body, data, len, &r)) {
        conn_refuse(c, &r);
        return false;
    }
    return true;
}

static size_t feed_chunked(struct conn *c, const char *data, size_t len)
{
    const char *p = data;
    const char *piece;
    size_t piece_len;
    struct refusal r;

    for (;;) {
        switch (chunked_step(&c->chunked, &p, data + len, &piece, &piece_len)) {
        case CHUNKED_DATA:
            if (!add_body(c, piece, piece_len)) {
                return len;
            }
            break;
        case CHUNKED_END:
            start_call(c);
            return (size_t)(p - data);
        case CHUNKED_MORE:
            return len;
        default:
            refuse(&r, 400, "HTTP104 invalid chunk at byte %" PRIu64, c->chunked.at);
            conn_refuse(c, &r);
            return len;
        }
    }
}

static size_t feed_body(struct conn *c, const char *data, size_t len)
{
    if (c->framing.chunked) {
        return feed_chunked(c, data, len);
    }
    len = len < c->body_left ? len : (size_t)c->body_left;
    if (add_body(c, data, len)) {
        c->body_left -= len;
        if (c->body_left == 0) {
            start_call(c);
        }
    }
    return len;
}

static size_t feed_once(struct conn *c, const char *data, size_t len)
{
    if (c->state == CONN_HEAD) {
        return feed_head(c, data, len);
    }
    if (c->state == CONN_BODY) {
        return feed_body(c, data, len);
    }
    return c->state == CONN_LINGER || c->close ? len : 0;
}

/* Keeps what is left over for later and sets limits and interest for the state that was reached. */
static void conn_settle(struct conn *c, bool head_was_waiting)
{
    bool part_of_head = c->state == CONN_HEAD && c->in.len > 0;

    if (c->in.len == 0 && c->in.cap > SMALL_BUF_KEPT) {
        buf_finish(&c->in);
    }
    if (part_of_head && !head_was_waiting && !c->fresh) {
        set_deadline(c, after(c, c->s->config.limits.header_timeout_ns));
    }
    arm(c);
    want_events(c);
    if (c->eof && !c->turn.waits &&
        (c->state == CONN_HEAD || c->state == CONN_BODY ||
         (c->state == CONN_CALL && c->in.len == 0))) {
        conn_gone(c);
    }
}

/* Eats requests from `data` for one turn; what is left is for later. */
static size_t eat(struct conn *c, const char *data, size_t len)
{
    uint32_t heads = 0;
    size_t used = 0;

    while (used < len) {
        bool is_head = c->state == CONN_HEAD;
        size_t n;

        if (is_head && heads == TURN_REQUESTS_MAX) {
            turn_await(c->s, &c->turn);
            break;
        }
        n = feed_once(c, data + used, len - used);
        if (n == 0 || c->state == CONN_DEAD) {
            break;
        }
        heads += is_head;
        used += n;
    }
    return used;
}

/* Lets the state machine eat `in`, then `data`. */
static void feed(struct conn *c, const char *data, size_t len)
{
    bool head_was_waiting = c->state == CONN_HEAD && c->in.len > 0 && len > 0;
    bool buffered = c->in.len > 0;
    size_t used;
    size_t total;

    if (buffered && buf_add(&c->in, data, len) < 0) {
        conn_gone(c);
        return;
    }
    if (c->turn.waits) {
        want_events(c);
        return;
    }
    c->busy++;
    data = buffered ? c->in.data : data;
    total = buffered ? c->in.len : len;
    used = eat(c, data, total);
    head_was_waiting = head_was_waiting && used == 0;
    c->busy--;
    if (c->state == CONN_DEAD) {
        server_conn_free(c);
        return;
    }
    if (c->state == CONN_LINGER) {
        used = total;
    }
    if (buffered && c->in.data) {
        buf_consume(&c->in, used);
    } else if (!buffered && used < total && buf_add(&c->in, data + used, total - used) < 0) {
        conn_gone(c);
        return;
    }
    conn_settle(c, head_was_waiting);
}

static void conn_have_turn(struct turn *t)
{
    struct conn *c = container_of(t, struct conn, turn);

    if (c->state == CONN_HEAD && c->in.len > 0) {
        feed(c, NULL, 0);
    }
}

static void linger(struct conn *c, ssize_t n)
{
    c->lingered_bytes += (uint64_t)n;
    if (c->lingered_bytes > LINGER_BYTES) {
        conn_gone(c);
    }
}

static void on_eof(struct conn *c)
{
    c->eof = true;
    if (c->state == CONN_FLUSH || c->turn.waits ||
        (c->state == CONN_CALL && c->in.len > 0)) {
        want_events(c);
    } else {
        conn_gone(c);
    }
}

/* With reading off only a hang-up is told. */
static void conn_on_readable(void *ud)
{
    struct conn *c = ud;
    struct http_server *s = c->s;
    ssize_t n = c->reading ? net_io_read(c->io, s->scratch, sizeof(s->scratch)) : NET_ERROR;

    if (n > 0 && c->state == CONN_LINGER) {
        linger(c, n);
    } else if (n > 0) {
        feed(c, s->scratch, (size_t)n);
    } else if (n == 0) {
        on_eof(c);
    } else if (n != NET_AGAIN) {
        conn_gone(c);
    }
}

/* The socket takes bytes again, which counts as progress. */
static void conn_on_writable(void *ud)
{
    struct conn *c = ud;

    c->full = false;
    c->stall_ns = 0;
    write_rest(c);
    c->busy++;
    after_flush(c);
    c->busy--;
    if (c->state == CONN_DEAD) {
        server_conn_free(c);
        return;
    }
    if (c->state == CONN_HEAD && c->in.len > 0) {
        turn_await(c->s, &c->turn);
    }
    want_events(c);
}

/* ---- start ---------------------------------------------------------------------------------- */

void conn_begin(struct conn *c)
{
    static const struct net_io_cb cb = { conn_on_readable, conn_on_writable };

    conn_enter(c, CONN_HEAD);
    c->reading = true;
    net_io_set(c->io, &cb, c);
    set_deadline(c, after(c, c->s->config.limits.header_timeout_ns));
}

void conn_hand_over(struct conn *c, struct net_io **ret_io, struct visitor **ret_peer_count)
{
    *ret_io = c->io;
    *ret_peer_count = c->peer_count;
    TAILQ_REMOVE(&c->s->conns, c, link);
    env_timer_clear(c->s->env, &c->timer);
    free(c);
}

void conn_create(struct http_server *s, int fd, const char *peer, struct visitor *peer_count)
{
    struct conn *c = calloc(1, sizeof(*c));
    struct net_io *io;

    if (net_io_create(s->loop, fd, peer, &io, NULL) < 0) {
        free(c);
        visitor_leave(peer_count);
        return;
    }
    if (!c) {
        goto fail;
    }
    net_io_count(io, s->counts.received, s->counts.sent);
    c->s = s;
    c->io = io;
    c->timer.cb = conn_on_timer;
    c->later.cb = on_later;
    c->turn.have = conn_have_turn;
    c->fresh = true;
    c->peer_count = peer_count;
    if (s->config.identity && conn_shake(c) < 0) {
        goto fail;
    }
    TAILQ_INSERT_TAIL(&s->conns, c, link);
    s->conns_n++;
    metric_add(s->counts.open, 1);
    if (!s->config.identity) {
        conn_begin(c);
    }
    return;
fail:
    net_io_close(io);
    free(c);
    visitor_leave(peer_count);
}
