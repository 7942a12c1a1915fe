/* One exchange: POST /call over the socket, and its answer.
 *
 *   NONE ──▶ HEAD ──▶ BODY ──▶ ENDED ──▶ NONE       each of them ──▶ ENDED, NONE
 *             ▲│
 *             │▼
 *           CONNECT
 *
 *   NONE to HEAD       fnsock_request_start(): the request is composed
 *   HEAD to CONNECT    take_connection(): none is kept, or the kept one was closed before a byte of
 *                      this request was accepted; back when there is one
 *   HEAD to BODY       start_body(): the answer's head was given to on_head()
 *   to ENDED           fix_end(): the result stands; on_end() was or will be called
 *   to NONE            fnsock_exchange_finish(): x is free for the next one
 *
 * The body goes out chunked, always: its length is not known in general, and one FDK refuses what
 * it can see to be long. The answer may come while the request is still being sent; a 200 that
 * comes before the whole request was handed over is an error of the function (F63).
 *
 * A function that closes its side may have answered first, so a write error alone ends nothing: the
 * rest of the request is dropped and reading goes on to the end. A kept connection that turns out
 * to be closed before a single byte was accepted is replaced once, unseen. */
#include <http/fnsock_int.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <model/header_rules.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define INTERIM_MAX     8 /* 1xx answers per request */
#define SMALL_BUF_KEPT  4096
#define HTTP_OK         200
#define HTTP_BAD        502
#define HTTP_TIMEOUT    504

static const char request_line[] = "POST /call HTTP/1.1\r\nHost: localhost\r\n";
static const char last_chunk[] = "0\r\n\r\n";

static const uint32_t follows[EXCHANGE_STATES_N] = {
    [EXCHANGE_NONE] = STATE(EXCHANGE_HEAD),
    [EXCHANGE_CONNECT] = STATE(EXCHANGE_CONNECT) | STATE(EXCHANGE_HEAD) | STATE(EXCHANGE_ENDED) |
                         STATE(EXCHANGE_NONE),
    [EXCHANGE_HEAD] = STATE(EXCHANGE_CONNECT) | STATE(EXCHANGE_BODY) | STATE(EXCHANGE_ENDED) |
                      STATE(EXCHANGE_NONE),
    [EXCHANGE_BODY] = STATE(EXCHANGE_ENDED) | STATE(EXCHANGE_NONE),
    [EXCHANGE_ENDED] = STATE(EXCHANGE_NONE),
};
static const char *const names[EXCHANGE_STATES_N] = { "none", "connect", "head", "body", "ended" };
const struct states exchange_states = { "exchange", names, follows, EXCHANGE_STATES_N };

static void exchange_enter(struct fnsock_exchange *x, enum exchange_state state)
{
    x->state = (enum exchange_state)states_next(&exchange_states, x->state, state);
}

static struct env *env_of(const struct fnsock_exchange *x)
{
    return x->f->all->env;
}

static size_t pending(const struct fnsock_exchange *x)
{
    return x->out.len - x->out_off;
}

/* The function has everything of the request that there will be. */
static bool handed_over(const struct fnsock_exchange *x)
{
    return x->eof_given && !x->write_closed && pending(x) == 0;
}

/* ---- end ------------------------------------------------------------------------------------ */

static void exchange_tell_end(struct fnsock_exchange *x)
{
    if (x->state == EXCHANGE_ENDED && !x->told) {
        x->told = true;
        env_undefer(env_of(x), &x->end_task);
        x->cb.on_end(x->ud, &x->result);
    }
}

static void on_end_task(struct env_task *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, end_task);
    struct fnsock *f = x->f;

    fnsock_enter(f);
    exchange_tell_end(x);
    fnsock_leave(f);
}

/* Fixes the result. on_end follows from the event that is being handled, or from a task. */
static void fix_end(struct fnsock_exchange *x, enum fnsock_end how)
{
    struct fnsock *f = x->f;

    x->result.end = how;
    exchange_enter(x, EXCHANGE_ENDED);
    env_timer_clear(env_of(x), &f->retry);
    env_undefer(env_of(x), &x->flush_task);
    env_undefer(env_of(x), &x->sent_task);
    env_defer(env_of(x), &x->end_task);
    if (how != FNSOCK_OK || !x->result.reusable || !x->keep_alive) {
        fnsock_disconnect(f);
    }
}

static void exchange_end(struct fnsock_exchange *x, enum fnsock_end how, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void exchange_end(struct fnsock_exchange *x, enum fnsock_end how, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(x->result.text, sizeof(x->result.text), fmt, ap);
    va_end(ap);
    fix_end(x, how);
}

static void end_ok(struct fnsock_exchange *x, size_t extra)
{
    x->result.reusable = handed_over(x) && extra == 0;
    if (extra > 0) {
        exchange_end(x, FNSOCK_OK, "%zu extra bytes after the answer", extra);
    } else if (!handed_over(x)) {
        exchange_end(x, FNSOCK_OK, "answered before receiving the entire request");
    } else {
        fix_end(x, FNSOCK_OK);
    }
}

/* The connection ended or broke before the answer was complete. */
static void end_cut(struct fnsock_exchange *x)
{
    uint64_t got = x->result.answer_bytes;

    if (x->state == EXCHANGE_HEAD && x->result.request_bytes == 0) {
        exchange_end(x, FNSOCK_CONNECT, "function closed the connection at once");
    } else if (x->state == EXCHANGE_HEAD && !handed_over(x) && x->in.len == 0) {
        exchange_end(x, FNSOCK_WRITE_CLOSED, "function closed pipe while receiving request");
    } else if (x->state == EXCHANGE_HEAD) {
        exchange_end(x, FNSOCK_CLOSED_EARLY, "FN601 function closed before the end of its headers");
    } else if (x->body_to_end) {
        exchange_end(x, FNSOCK_CUT, "FN603 answer was reset after %" PRIu64 " bytes", got);
    } else if (x->framing.chunked) {
        exchange_end(x, FNSOCK_CUT,
                     "FN603 answer ended after %" PRIu64 " bytes, without its last chunk", got);
    } else {
        exchange_end(x, FNSOCK_CUT, "FN603 answer ended after %" PRIu64 " of %" PRIu64 " bytes",
                     got, x->framing.length);
    }
}

/* ---- connecting and writing ----------------------------------------------------------------- */

static void flush(struct fnsock_exchange *x);

static void connect_later(struct fnsock_exchange *x, enum fnsock_end why, const char *text)
{
    int64_t now_ns = env_now_ns(env_of(x));

    if (now_ns - x->begun_ns >= CONNECT_WAIT_NS) {
        exchange_end(x, why, "%s", text);
    } else {
        env_timer_set(env_of(x), &x->f->retry, now_ns + x->f->all->config.retry_ns);
    }
}

/* Gets a connection, or ends the exchange, or waits for the next retry. */
static void take_connection(struct fnsock_exchange *x)
{
    struct fnsock *f = x->f;
    char text[128];
    int fd;

    exchange_enter(x, EXCHANGE_CONNECT);
    switch (fnsock_link_connect(f, &fd, text, sizeof(text))) {
    case LINK_OK:
        if (fnsock_adopt(f, fd) < 0) {
            exchange_end(x, FNSOCK_NO_ROOM, "out of memory");
        } else {
            exchange_enter(x, EXCHANGE_HEAD);
        }
        break;
    case LINK_LATER:
        connect_later(x, FNSOCK_CONNECT, text);
        break;
    case LINK_NO_ROOM:
        connect_later(x, FNSOCK_NO_ROOM, text);
        break;
    case LINK_ESCAPE:
        log_stranger(FN_LOG_WARN, "container's socket is refused", "dir", f->d->name, "reason",
                     text, "security", "yes");
        exchange_end(x, FNSOCK_ESCAPE, "%s", text);
        break;
    default:
        exchange_end(x, FNSOCK_CONNECT, "%s", text);
        break;
    }
}

/* true: a kept connection was stale and is replaced, or that failed and ended the exchange. One
 * over which an answer began was not stale. */
static bool replace_stale(struct fnsock_exchange *x)
{
    bool began = x->state == EXCHANGE_BODY || x->in.len > 0 || x->interim_n > 0;

    if (!x->f->used || x->result.request_bytes > 0 || x->reconnected || began) {
        return false;
    }
    x->reconnected = true;
    fnsock_disconnect(x->f);
    take_connection(x);
    if (x->state == EXCHANGE_HEAD) {
        flush(x);
    }
    return true;
}

static void on_write_error(struct fnsock_exchange *x)
{
    if (replace_stale(x)) {
        return;
    }
    x->write_closed = true;
    x->out_off = 0;
    buf_clear(&x->out);
    x->f->full = false;
    fnsock_interest(x->f);
}

/* `n` bytes went out, `of_out` of them from the front of `out`. */
static void note_written(struct fnsock_exchange *x, size_t n, size_t of_out)
{
    if (n > 0 && x->result.request_bytes == 0 && x->cb.on_sent) {
        env_defer(env_of(x), &x->sent_task);
    }
    x->result.request_bytes += n;
    x->out_off += of_out;
    if (pending(x) == 0) {
        x->out_off = 0;
        buf_clear(&x->out);
        if (x->out.cap > SMALL_BUF_KEPT) {
            buf_finish(&x->out);
        }
    }
}

/* Writes what is pending, for which the first piece is left free, and then the other pieces; keeps
 * what the socket does not take. */
static void push(struct fnsock_exchange *x, struct iovec *iov, size_t n_iov)
{
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n_iov };
    bool may_write = x->state != EXCHANGE_CONNECT && !x->f->full;
    bool failed = false, poor = false;
    size_t of_out, n = 0;
    ssize_t r;

    if (x->state == EXCHANGE_ENDED || x->write_closed) {
        return;
    }
    iov[0] = (struct iovec){ x->out.data ? x->out.data + x->out_off : NULL, pending(x) };
    if (may_write && (iov[0].iov_len > 0 || n_iov > 1)) {
        r = sendmsg(x->f->w.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        failed = r < 0 && errno != EAGAIN && errno != EINTR;
        poor = r < 0 && (errno == ENOBUFS || errno == ENOMEM);
        n = r > 0 ? (size_t)r : 0;
    }
    of_out = n < iov[0].iov_len ? n : iov[0].iov_len;
    if (poor || buf_add_rest(&x->out, iov + 1, n_iov - 1, n - of_out) < 0) {
        x->result.request_bytes += n;
        exchange_end(x, x->result.request_bytes ? FNSOCK_LOST : FNSOCK_NO_ROOM,
                     "out of memory for the request");
        return;
    }
    note_written(x, n, of_out);
    if (failed) {
        on_write_error(x);
    } else if (may_write && x->f->full != (pending(x) > 0)) {
        x->f->full = !x->f->full;
        fnsock_interest(x->f);
    }
}

static void flush(struct fnsock_exchange *x)
{
    struct iovec iov;

    push(x, &iov, 1);
}

static void on_sent_task(struct env_task *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, sent_task);
    struct fnsock *f = x->f;

    fnsock_enter(f);
    x->cb.on_sent(x->ud);
    fnsock_leave(f);
}

static void on_flush_task(struct env_task *t)
{
    flush(container_of(t, struct fnsock_exchange, flush_task));
}

static void tell_writable(struct fnsock_exchange *x)
{
    if (x->wants_writable && fnsock_exchange_active(x) && pending(x) == 0) {
        x->wants_writable = false;
        if (x->cb.on_writable) {
            x->cb.on_writable(x->ud);
        }
    }
}

void fnsock_exchange_writable(struct fnsock_exchange *x)
{
    uint32_t serial = x->serial;

    x->f->full = false;
    if (fnsock_exchange_active(x)) {
        flush(x);
    }
    fnsock_interest(x->f);
    tell_writable(x);
    if (x->serial == serial) {
        exchange_tell_end(x);
    }
}

void fnsock_exchange_retry(struct fnsock_exchange *x)
{
    uint32_t serial = x->serial;

    if (x->state != EXCHANGE_CONNECT) {
        return;
    }
    take_connection(x);
    if (x->state == EXCHANGE_HEAD) {
        flush(x);
        tell_writable(x);
    }
    if (x->serial == serial) {
        exchange_tell_end(x);
    }
}

/* ---- the request ---------------------------------------------------------------------------- */

/* Fields that speak of the framing are ours; what is no proper field never reaches a function. */
static bool passes(const struct header *h, size_t name_len, size_t value_len)
{
    return !(header_kinds(h->name, name_len) & (HEADER_FRAMING | HEADER_HOST)) &&
           parse_is_token(h->name, name_len) && parse_is_value(h->value, value_len);
}

static int compose(struct buf *b, const struct headers *h)
{
    int r = buf_add(b, request_line, sizeof(request_line) - 1);

    for (uint32_t i = 0; h && i < h->n; i++) {
        size_t name_len = strlen(h->items[i].name);
        size_t value_len = strlen(h->items[i].value);

        if (passes(&h->items[i], name_len, value_len)) {
            r |= buf_add(b, h->items[i].name, name_len);
            r |= buf_add(b, ": ", 2);
            r |= buf_add(b, h->items[i].value, value_len);
            r |= buf_add(b, "\r\n", 2);
        }
    }
    return r | buf_add_str(b, "Transfer-Encoding: chunked\r\n\r\n");
}

/* A kept connection may have been closed, or written to, since the loop last looked. */
static void distrust_kept(struct fnsock *f)
{
    char byte;
    ssize_t n;

    if (f->w.fd < 0) {
        return;
    }
    n = recv(f->w.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n > 0) {
        f->tainted = true;
    }
    if (n >= 0 || errno != EAGAIN) {
        fnsock_disconnect(f);
    }
}

struct fnsock_exchange *fnsock_request_start(struct fnsock *f, const struct fnsock_request *r,
                                             const struct fnsock_cb *cb, void *ud)
{
    struct fnsock_exchange *x = &f->x;
    struct buf out = x->out;
    struct buf in = x->in;
    uint32_t serial = x->serial;

    /* Broken by core/runner: a container has one call at a time. */
    assert(x->state == EXCHANGE_NONE && !f->closed);
    buf_clear(&out);
    buf_clear(&in);
    if (compose(&out, r->headers) < 0) {
        buf_clear(&out);
        x->out = out;
        return NULL;
    }
    *x = (struct fnsock_exchange){ .f = f, .cb = *cb, .ud = ud, .serial = serial + 1 };
    x->out = out;
    x->in = in;
    exchange_enter(x, EXCHANGE_HEAD);
    x->end_task.cb = on_end_task;
    x->flush_task.cb = on_flush_task;
    x->sent_task.cb = on_sent_task;
    x->begun_ns = env_now_ns(env_of(x));
    distrust_kept(f);
    if (f->tainted && f->answered) {
        exchange_end(x, FNSOCK_CONNECT,
                     "extra bytes after an earlier answer"); /* not this call's fault */
    } else if (f->tainted) {
        exchange_end(x, FNSOCK_EARLY_ANSWER, "function wrote before receiving a request");
    } else if (f->w.fd < 0) {
        take_connection(x);
    }
    if (x->state != EXCHANGE_ENDED) {
        env_defer(env_of(x), &x->flush_task); /* unless the body comes along in this turn */
    }
    return x;
}

int fnsock_exchange_send(struct fnsock_exchange *x, const void *data, size_t len, bool eof)
{
    char line[CHUNK_LINE_BYTES];
    const char *tail = len > 0 ? (eof ? "\r\n0\r\n\r\n" : "\r\n") : last_chunk;
    struct iovec iov[4] = { [1] = { line, len > 0 ? chunked_line(line, len) : 0 },
                            [2] = { (void *)(uintptr_t)data, len },
                            [3] = { (void *)(uintptr_t)tail, strlen(tail) } };

    if (x->state == EXCHANGE_ENDED || x->write_closed || x->eof_given || (len == 0 && !eof)) {
        x->eof_given |= eof;
        return 0;
    }
    x->eof_given = eof;
    env_undefer(env_of(x), &x->flush_task);
    push(x, iov, 4);
    if (pending(x) >= FNSOCK_HIGH_BYTES) {
        x->wants_writable = true;
        return 1;
    }
    return 0;
}

uint64_t fnsock_exchange_sent(const struct fnsock_exchange *x)
{
    return x->result.request_bytes;
}

void fnsock_exchange_pause(struct fnsock_exchange *x, bool paused)
{
    if (x->paused != paused && x->state != EXCHANGE_ENDED) {
        x->paused = paused;
        fnsock_interest(x->f);
    }
}

void fnsock_exchange_finish(struct fnsock_exchange *x)
{
    struct fnsock *f = x->f;

    /* Broken by core/runner, if it lets go of an exchange twice. */
    assert(x->state != EXCHANGE_NONE);
    if (x->state != EXCHANGE_ENDED) {
        fnsock_disconnect(f);
        env_timer_clear(env_of(x), &f->retry);
    }
    env_undefer(env_of(x), &x->end_task);
    env_undefer(env_of(x), &x->flush_task);
    env_undefer(env_of(x), &x->sent_task);
    exchange_enter(x, EXCHANGE_NONE);
    x->serial++;
    x->paused = false;
    f->answered = true;
    if (x->in.cap > SMALL_BUF_KEPT) {
        buf_finish(&x->in);
    }
    if (f->w.fd >= 0) {
        f->used = true;
        fnsock_interest(f);
        fnsock_idle(f);
    }
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void on_refusal(struct fnsock_exchange *x, const struct refusal *r)
{
    if (r->status == 414 || r->status == 431) {
        exchange_end(x, FNSOCK_HEADERS_TOO_LARGE, "%s", r->text);
    } else {
        exchange_end(x, FNSOCK_INVALID, "invalid answer: %s", r->text);
    }
}

/* A head that is not an interim one. */
static void start_body(struct fnsock_exchange *x, const struct parsed_answer *a)
{
    uint64_t max = x->f->all->config.limits.answer_bytes_max;

    if (a->status != HTTP_OK && a->status != HTTP_BAD && a->status != HTTP_TIMEOUT) {
        exchange_end(x, FNSOCK_INVALID,
                     "FN602 function answered %d; the contract allows 200, 502, 504", a->status);
    } else if (a->status == HTTP_OK && !handed_over(x)) {
        exchange_end(x, FNSOCK_EARLY_ANSWER,
                     "function invoked write before receiving entire request");
    } else if (max && a->framing.has_length && a->framing.length > max) {
        exchange_end(x, FNSOCK_BODY_TOO_LARGE, "answer body of %" PRIu64 " bytes > %" PRIu64,
                     a->framing.length, max);
    } else {
        x->framing = a->framing;
        x->body_to_end = !a->framing.chunked && !a->framing.has_length;
        x->keep_alive = a->framing.keep_alive && !x->body_to_end;
        x->left = a->framing.length;
        x->bytes_max = max;
        exchange_enter(x, EXCHANGE_BODY);
        x->cb.on_head(x->ud, a->status, &a->headers);
    }
}

/* Consumes a whole head or nothing; < 0: the exchange ended. */
static int64_t feed_head(struct fnsock_exchange *x, const char *data, size_t len)
{
    const struct parse_limits *limits = &x->f->all->parse_limits;
    struct parsed_answer a;
    struct refusal r;
    struct arena arena;
    int64_t used = parse_seek_end(&x->seek, data, len, limits, &r);
    int e;

    if (used == 0) {
        return 0;
    }
    if (used < 0) {
        on_refusal(x, &r);
        return used;
    }
    x->seek = (struct parse_seek){ 0 };
    arena_init(&arena, 0);
    e = parse_answer(&arena, data, (size_t)used, limits, &a, &r);
    if (e == FN_E_EXHAUSTED) {
        exchange_end(x, FNSOCK_LOST, "out of memory for the answer");
    } else if (e < 0) {
        on_refusal(x, &r);
    } else if (a.status >= HTTP_OK) {
        start_body(x, &a);
    } else if (++x->interim_n > INTERIM_MAX || a.status == 101) {
        exchange_end(x, FNSOCK_INVALID, "invalid answer: status %d, %u times", a.status,
                     x->interim_n);
    }
    arena_finish(&arena);
    return used;
}

/* Passes body bytes on, within the limit. false: stop, the exchange ended or is gone. */
static bool pass(struct fnsock_exchange *x, const char *data, size_t len)
{
    uint64_t max = x->bytes_max;
    uint64_t room = max ? max - x->result.answer_bytes : UINT64_MAX;
    uint32_t serial = x->serial;
    bool over = len > room;

    /* Broken by this function alone, which counts no more than there is room for. */
    assert(!max || x->result.answer_bytes <= max);
    len = over ? (size_t)room : len;
    x->result.answer_bytes += len;
    if (len > 0) {
        x->cb.on_data(x->ud, data, len);
    }
    if (x->serial != serial) {
        return false;
    }
    if (over) {
        exchange_end(x, FNSOCK_BODY_TOO_LARGE, "answer body > %" PRIu64 " bytes", max);
    }
    return !over;
}

static void feed_chunked(struct fnsock_exchange *x, const char *data, size_t len)
{
    const char *p = data;
    const char *piece;
    size_t piece_len;

    for (;;) {
        switch (chunked_step(&x->chunked, &p, data + len, &piece, &piece_len)) {
        case CHUNKED_DATA:
            if (!pass(x, piece, piece_len)) {
                return;
            }
            break;
        case CHUNKED_END:
            end_ok(x, (size_t)(data + len - p));
            return;
        case CHUNKED_MORE:
            return;
        default:
            exchange_end(x, FNSOCK_INVALID,
                         "invalid answer: HTTP104 invalid chunk at byte %" PRIu64, x->chunked.at);
            return;
        }
    }
}

static void feed_body(struct fnsock_exchange *x, const char *data, size_t len)
{
    size_t n;

    if (x->framing.chunked) {
        feed_chunked(x, data, len);
    } else if (x->body_to_end) {
        pass(x, data, len);
    } else {
        n = len < x->left ? len : (size_t)x->left;
        x->left -= n;
        if ((n == 0 || pass(x, data, n)) && x->left == 0) {
            end_ok(x, len - n);
        }
    }
}

/* data, or what was kept of earlier input with data behind it. */
static void feed(struct fnsock_exchange *x, const char *data, size_t len)
{
    uint32_t serial = x->serial;
    int64_t used;

    if (x->state == EXCHANGE_BODY) {
        feed_body(x, data, len);
        return;
    }
    if (x->in.len > 0) {
        if (buf_add(&x->in, data, len) < 0) {
            exchange_end(x, FNSOCK_LOST, "out of memory for the answer");
            return;
        }
        data = x->in.data;
        len = x->in.len;
    }
    do {
        used = feed_head(x, data, len);
        if (used < 0 || x->serial != serial || x->state == EXCHANGE_ENDED) {
            return;
        }
        data += used;
        len -= (size_t)used;
    } while (x->state == EXCHANGE_HEAD && used > 0 && len > 0);
    if (x->state == EXCHANGE_BODY) {
        feed_body(x, data, len); /* also without a byte: the body may be empty */
        return;
    }
    if (data == x->in.data || x->in.len == 0) {
        if (x->in.len == 0 && buf_add(&x->in, data, len) < 0) {
            exchange_end(x, FNSOCK_LOST, "out of memory for the answer");
        }
    } else {
        buf_consume(&x->in, x->in.len - len);
    }
}

void fnsock_exchange_readable(struct fnsock_exchange *x)
{
    struct fnsocks *all = x->f->all;
    uint32_t serial = x->serial;
    ssize_t n = recv(x->f->w.fd, all->scratch, sizeof(all->scratch), MSG_DONTWAIT);

    if (n > 0) {
        feed(x, all->scratch, (size_t)n);
    } else if (n == 0 && x->state == EXCHANGE_BODY && x->body_to_end) {
        end_ok(x, 0);
    } else if ((n == 0 || (errno != EAGAIN && errno != EINTR)) && !replace_stale(x)) {
        end_cut(x);
    }
    if (x->serial == serial) {
        tell_writable(x); /* a connection that replaced a stale one took what was kept */
    }
    if (x->serial == serial) {
        exchange_tell_end(x);
    }
}
