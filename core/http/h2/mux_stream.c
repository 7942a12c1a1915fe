/* Streams: one request each, from its header block until nghttp2 has closed the stream.
 *
 *   HEAD ──▶ BODY ──▶ READY ──▶ CALL ──▶ FLUSH      each of them ──▶ gone
 *     └────────────────▲ └───────────────▲
 *
 *   HEAD to BODY      begin_body(): more of the request comes
 *   to READY          make_ready(): it is complete, or refused
 *   READY to CALL     serve(): its turn has come; to FLUSH when it was refused
 *   CALL to FLUSH     answer_over() of mux_answer.c: the answer is complete
 *   gone              mux_stream_gone()
 *
 * What a read brought is not served in the callbacks of nghttp2 but behind them, and a few requests
 * in each turn of the loop, as in HTTP/1.1. A client that sends requests and resets them at once
 * has therefore caused no call.
 *
 * Each stream but one counts as a connection of its own would, for the node and for the address. */
#include <http/h2/mux_int.h>

#include <stdlib.h>

static const uint32_t follows[STREAM_STATES_N] = {
    [STREAM_HEAD] = STATE(STREAM_BODY) | STATE(STREAM_READY),
    [STREAM_BODY] = STATE(STREAM_READY),
    [STREAM_READY] = STATE(STREAM_CALL) | STATE(STREAM_FLUSH),
    [STREAM_CALL] = STATE(STREAM_FLUSH),
    [STREAM_FLUSH] = 0,
};
static const char *const names[STREAM_STATES_N] = { "head", "body", "ready", "call", "flush" };
const struct states mux_stream_states = { "HTTP/2 stream", names, follows, STREAM_STATES_N };

void mux_stream_enter(struct mux_stream *st, enum mux_stream_state state)
{
    st->state = (enum mux_stream_state)states_next(&mux_stream_states, st->state, state);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void make_ready(struct mux_stream *st)
{
    struct mux *m = st->m;

    mux_stream_enter(st, STREAM_READY);
    st->deadline_ns = 0;
    intake_end(&st->intake);
    TAILQ_INSERT_TAIL(&m->ready, st, other);
}

static void make_refused(struct mux_stream *st, const struct refusal *r)
{
    log_debug("request refused", "peer", net_io_peer(st->m->io), "reason", r->text);
    st->refused = true;
    st->refusal = *r;
    make_ready(st);
}

static void serve(struct mux_stream *st)
{
    struct mux *m = st->m;
    int64_t max = m->s->config.limits.requests_per_connection_max;

    TAILQ_REMOVE(&m->ready, st, other);
    if (max && ++m->requests_n >= max) {
        mux_part_soon(m);
    }
    if (st->refused) {
        mux_answer_refusal(st);
    } else {
        mux_stream_enter(st, STREAM_CALL);
        m->s->config.on_request(m->s->config.ud, &st->q->pub);
    }
}

void mux_serve(struct mux *m)
{
    struct mux_stream *st;

    for (int i = 0; i < TURN_REQUESTS_MAX && (st = TAILQ_FIRST(&m->ready)); i++) {
        serve(st);
    }
    if (!TAILQ_EMPTY(&m->ready)) {
        turn_await(m->s, &m->turn);
    }
}

void mux_have_turn(struct turn *t)
{
    mux_serve(container_of(t, struct mux, turn));
}

/* ---- time limits ---------------------------------------------------------------------------- */

static void stream_look_at(struct mux_stream *st, int64_t at_ns)
{
    st->deadline_ns = at_ns;
    if (at_ns != 0 && (!env_timer_is_set(&st->timer) || st->timer.at_ns > at_ns)) {
        env_timer_set(st->m->s->env, &st->timer, at_ns);
    }
}

void mux_stream_await_client(struct mux_stream *st)
{
    stream_look_at(st, mux_after(st->m, st->m->s->config.limits.write_stall_ns));
}

static void look_at_body(struct mux_stream *st)
{
    struct refusal r;
    int64_t next = intake_look(st->m->s, &st->intake, &st->q->pub, &r);

    if (next == 0) {
        make_refused(st, &r);
        turn_await(st->m->s, &st->m->turn);
    } else {
        stream_look_at(st, next);
    }
}

/* Nothing of the stream went for a while. Its client is the reason if it keeps the stream's window
 * shut, or the connection's, behind which the others wait as well; else only its turn was long in
 * coming on a slow line. */
static void look_at_output(struct mux_stream *st)
{
    struct mux *m = st->m;
    int64_t others_ns = m->sent_ns + m->s->config.limits.write_stall_ns;

    if (nghttp2_session_get_stream_remote_window_size(m->session, st->id) > 0 &&
        (m->blocked || mux_now_ns(m) < others_ns)) {
        mux_stream_await_client(st);
        return;
    }
    log_stranger(FN_LOG_INFO, "client does not read its answer, stream reset", "peer",
                 net_io_peer(m->io));
    mux_stream_reset(st, NGHTTP2_CANCEL);
}

static void stream_on_timer(struct env_timer *t)
{
    struct mux_stream *st = container_of(t, struct mux_stream, timer);

    if (st->deadline_ns == 0) {
        return;
    }
    if (mux_now_ns(st->m) < st->deadline_ns) {
        stream_look_at(st, st->deadline_ns);
    } else if (st->state == STREAM_BODY) {
        look_at_body(st);
    } else if (mux_stream_pending(st) > 0) {
        st->deadline_ns = 0;
        look_at_output(st);
    } else if (st->state == STREAM_FLUSH) {
        mux_stream_reset(st, NGHTTP2_NO_ERROR); /* it lingered long enough */
    }
}

void mux_stream_linger(struct mux_stream *st)
{
    stream_look_at(st, mux_after(st->m, LINGER_NS));
}

/* ---- life ----------------------------------------------------------------------------------- */

struct mux_stream *mux_stream_create(struct mux *m, int32_t id)
{
    struct mux_stream *st = mux_has_queue(m) ? calloc(1, sizeof(*st)) : NULL;

    if (!st) {
        return NULL;
    }
    st->q = request_create(m->s, &mux_answer_ops);
    if (!st->q) {
        free(st);
        return NULL;
    }
    st->m = m;
    st->id = id;
    st->q->stream = st;
    st->q->pub.h2 = true;
    st->timer.cb = stream_on_timer;
    TAILQ_INSERT_TAIL(&m->streams, st, link);
    m->streams_n++;
    mux_wait(m, WAIT_REQUEST, 0);
    return st;
}

void mux_stream_reset(struct mux_stream *st, uint32_t code)
{
    mux_submitted(st->m,
                  nghttp2_submit_rst_stream(st->m->session, NGHTTP2_FLAG_NONE, st->id, code));
}

/* A connection has as many streams beside itself as it has more than one. */
static void leave_beside(struct mux *m)
{
    while (m->beside_n > 0 && m->beside_n >= m->streams_n) {
        m->beside_n--;
        server_leave_beside(m->s, m->peer_count);
    }
}

static void stream_unlink(struct mux_stream *st)
{
    struct mux *m = st->m;

    TAILQ_REMOVE(&m->streams, st, link);
    m->streams_n--;
    if (st->state == STREAM_READY) {
        TAILQ_REMOVE(&m->ready, st, other);
    } else if (st->in_roomy) {
        TAILQ_REMOVE(&m->roomy, st, other);
    }
    if (m->head.stream == st) {
        m->head.stream = NULL;
    }
    leave_beside(m);
    if (m->streams_n == 0) {
        mux_wait(m, WAIT_REQUEST, mux_after(m, m->s->config.limits.idle_timeout_ns));
        mux_touch(m); /* it may be the last one that was waited for */
    }
}

void mux_stream_gone(struct mux_stream *st)
{
    struct request *q = st->q;
    bool called = st->state == STREAM_CALL;

    stream_unlink(st);
    intake_end(&st->intake);
    env_timer_clear(st->m->s->env, &st->timer);
    buf_finish(&st->out);
    free(st);
    if (!q) {
        return;
    }
    q->stream = NULL; /* what is left for the handler to do does nothing */
    if (!called) {
        request_free(q);
    } else if (q->pub.on_gone && !(q->head_sent && (q->no_body || q->left == 0))) {
        q->pub.on_gone(&q->pub);
    }
}

/* ---- the request ---------------------------------------------------------------------------- */

static bool stream_has_place(struct mux *m, struct refusal *r)
{
    if (m->beside_n + 1 < m->streams_n) {
        if (!server_admit_beside(m->s, m->peer_count, net_io_peer(m->io), r)) {
            return false;
        }
        m->beside_n++;
    }
    return true;
}

static bool judge(struct mux_stream *st, struct parsed_request *parsed, struct refusal *r)
{
    struct mux *m = st->m;

    if (mux_head_read(m, st, parsed, r) < 0) {
        return false;
    }
    if (m->stranger) {
        refuse_stranger(r);
        return false;
    }
    return stream_has_place(m, r);
}

static void begin_body(struct mux_stream *st, const struct parsed_request *parsed)
{
    const nghttp2_nv go_on = { (uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "100", 7, 3,
                               NGHTTP2_NV_FLAG_NONE };
    struct mux *m = st->m;
    struct refusal r;
    int64_t look_ns;

    if (!intake_begin(m->s, &st->intake, m->peer_count, parsed->framing.length, &look_ns, &r)) {
        make_refused(st, &r);
        return;
    }
    mux_stream_enter(st, STREAM_BODY);
    stream_look_at(st, look_ns);
    if (parsed->expects_continue) {
        mux_submitted(m, nghttp2_submit_headers(m->session, NGHTTP2_FLAG_NONE, st->id, NULL, &go_on,
                                                1, NULL));
    }
}

void mux_stream_on_head(struct mux_stream *st, bool last)
{
    struct parsed_request parsed;
    struct refusal r;

    if (!judge(st, &parsed, &r)) {
        make_refused(st, &r);
        return;
    }
    request_fill(st->m->s, st->q, &parsed);
    client_name(st->m->s, st->m->io, st->m->peer_count, st->q);
    if (last) {
        make_ready(st);
    } else {
        begin_body(st, &parsed);
    }
}

void mux_stream_on_data(struct mux_stream *st, const char *data, size_t len)
{
    struct refusal r;

    if (st->state != STREAM_BODY) {
        st->lingered_bytes += len;
        if (st->lingered_bytes > LINGER_BYTES && st->lingered_bytes - len <= LINGER_BYTES) {
            mux_stream_reset(st, NGHTTP2_NO_ERROR);
        }
    } else if (!intake_add(st->m->s, &st->intake, st->q->pub.body, data, len, &r)) {
        make_refused(st, &r);
    }
}

void mux_stream_on_end(struct mux_stream *st)
{
    if (st->state == STREAM_BODY) {
        make_ready(st);
    }
}
