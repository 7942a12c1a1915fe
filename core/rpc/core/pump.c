/* Bytes between a stream of core/net and C core's pair of sockets, and what their frames tell.
 *
 * From the peer: read, looked at frame by frame, written to C core; what its pair does not take
 * waits, and nothing more is read meanwhile. To the peer: what C core wrote, with frames of our own
 * between its frames; what the socket does not take waits, and C core is not read meanwhile, so
 * that its own flow control holds streams back. */
#include <rpc/core/core_int.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REFUSED_STREAM    7u
#define ENHANCE_YOUR_CALM 11u

#define SETTING_STREAMS_MAX 3u
#define SETTING_WINDOW      4u
#define SETTING_BYTES       6u
#define WINDOW_FIRST        65535u /* HTTP/2's own */
#define BLOCK_FRAMES_MAX    8u /* CONTINUATION frames of one block of headers */
#define MUCH_BYTES          (32u << 10)

/* ---- limits ---------------------------------------------------------------------------------- */

static void calm(struct core_conn *c, const char *why)
{
    unsigned char frame[FRAMES_GOAWAY_BYTES];

    if (!c->life.dead && !c->life.calmed) {
        c->life.calmed = true;
        c->t->host->log_calm(c->t->host->io_peer(c->life.io), why);
        pump_inject(c, frame, frames_make_goaway(frame, c->last_stream, ENHANCE_YOUR_CALM));
    }
}

/* A frame's head: floods are counted before C core works for them. */
static void in_begin(void *ud, const struct frame *f)
{
    struct core_conn *c = ud;

    switch (f->type) {
    case FRAME_HEADERS:
        c->block_frames = 0;
        return;
    case FRAME_WINDOW_UPDATE:
        return;
    case FRAME_CONTINUATION:
        if (++c->block_frames > BLOCK_FRAMES_MAX) {
            calm(c, "headers");
        }
        return;
    case FRAME_RST_STREAM:
        if (life_too_many_resets(&c->life)) {
            calm(c, "resets");
        }
        return;
    case FRAME_PING:
        if (life_too_many_pings(&c->life)) {
            calm(c, "control frames");
        }
        return;
    case FRAME_DATA:
        if (f->len > 0 || f->flags & FRAME_END_STREAM) {
            return;
        }
        /* fall through */
    default:
        if (life_too_many_controls(&c->life)) {
            calm(c, "control frames");
        }
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct core_stream *stream_at(struct core_conn *c, uint32_t id)
{
    struct core_stream *st;

    HASH_FIND(hh, c->named, &id, sizeof(id), st);
    return st;
}

static void prefix_drop(struct core_conn *c, uint32_t stream)
{
    struct core_prefix *p;

    HASH_FIND(hh, c->prefixes, &stream, sizeof(stream), p);
    if (p) {
        HASH_DEL(c->prefixes, p);
        free(p);
    }
}

static struct core_arrival *arrival_at(struct core_conn *c, uint32_t id)
{
    struct core_arrival *a;

    TAILQ_FOREACH(a, &c->arrivals, link) {
        if (a->id == id) {
            return a;
        }
    }
    return NULL;
}

/* C core would take the message in, or wait for all of it, before it says no. Its word comes first,
 * pump_judge(): at a client, what is no gRPC has no messages; at a server it makes the call. The
 * message itself is not handed over. behind: bytes that came behind its prefix. */
static void refuse_message(struct core_conn *c, const struct core_prefix *p, size_t behind)
{
    struct core_stream *st = stream_at(c, p->stream);
    struct core_arrival *a = st ? NULL : arrival_at(c, p->stream);
    bool compressed = p->bytes[0] != 0;

    c->judging = c->judging || st || a;
    if (st && !st->bad_bytes && !st->bad_encoding) {
        st->bad_bytes = p->left;
        st->bad_encoding = compressed;
        st->bad_from = st->fed_bytes - behind - RPC_PREFIX_BYTES;
    } else if (a && !a->bad_bytes && !a->bad_encoding) {
        a->bad_bytes = p->left;
        a->bad_encoding = compressed;
        a->bad_from = a->fed_bytes - behind - RPC_PREFIX_BYTES;
    }
}

/* What came and waits for an owner is bounded for all streams together. */
static void count_fed(struct core_conn *c, uint32_t id, size_t len)
{
    struct core_stream *st = stream_at(c, id);
    struct core_arrival *a = st ? NULL : arrival_at(c, id);

    if (st) {
        st->fed_bytes += len;
        stream_hold(&st->base, len);
        c->judging = c->judging ||
                     c->t->base.held_bytes > c->t->base.limits.memory_max_bytes;
    } else if (a) {
        a->fed_bytes += len;
    }
}

static void judge_stream(struct core_conn *c, struct core_stream *st)
{
    char text[96];

    if (st->bad_encoding) {
        stream_fail(&st->base, GRPC_INTERNAL, "RUN403 a message is compressed; expected identity");
    } else {
        snprintf(text, sizeof(text), "RUN402 received message larger than max (%u vs. %u)",
                 st->bad_bytes, c->t->base.limits.message_max_bytes);
        stream_fail(&st->base, GRPC_EXHAUSTED, text);
    }
}

static void pump_judge(struct core_conn *c)
{
    struct rpc_stream *base, *next;

    c->judging = false;
    core_settle(c->t); /* owners take what they can */
    stream_make_room(&c->t->base, 0);
    for (base = LIST_FIRST(&c->life.streams); base && !c->life.doomed; base = next) {
        struct core_stream *st = core_stream_of(base);

        next = LIST_NEXT(base, entry);
        if (!base->over && (st->bad_encoding || st->bad_bytes)) {
            judge_stream(c, st);
            next = LIST_FIRST(&c->life.streams); /* an owner may have closed any */
        }
    }
}

/* Without memory it stays without a name: what comes for it is judged by C core alone. */
static void name_stream(struct core_conn *c, struct core_stream *st)
{
    HASH_ADD(hh, c->named, id, sizeof(st->id), st);
    if (!table_has(st)) {
        st->id = 0;
    }
}

void pump_name_arrival(struct core_conn *c, struct core_stream *st)
{
    struct core_arrival *a = TAILQ_FIRST(&c->arrivals);

    if (a && TAILQ_NEXT(a, link)) {
        pump_read_made(c); /* what C core has refused has its answer there */
        a = TAILQ_FIRST(&c->arrivals);
    }
    if (a) {
        TAILQ_REMOVE(&c->arrivals, a, link);
        st->id = a->id;
        st->fed_bytes = a->fed_bytes;
        st->bad_bytes = a->bad_bytes;
        st->bad_encoding = a->bad_encoding;
        st->bad_from = a->bad_from;
        st->closed_in = a->closed_in;
        name_stream(c, st);
        if (st->id) {
            stream_hold(&st->base, st->fed_bytes);
        }
        free(a);
    }
}

/* Reads on in the messages of a stream. */
static void prefix_read(struct core_conn *c, struct core_prefix *p, const unsigned char *bytes,
                        size_t len)
{
    while (len > 0) {
        size_t n = p->left > 0 ? p->left : RPC_PREFIX_BYTES - p->have;

        n = n < len ? n : len;
        if (p->left > 0) {
            p->left -= (uint32_t)n;
        } else {
            memcpy(p->bytes + p->have, bytes, n);
            p->have += (uint32_t)n;
        }
        if (p->have == RPC_PREFIX_BYTES) {
            p->have = 0;
            p->left = frames_u32(p->bytes + 1);
            if (p->bytes[0] != 0 || p->left > c->t->base.limits.message_max_bytes) {
                refuse_message(c, p, len - n);
            }
        }
        bytes += n;
        len -= n;
    }
}

/* Only what ends inside of a message is remembered. */
static void in_data(void *ud, const struct frame *f, const unsigned char *bytes, size_t len)
{
    struct core_conn *c = ud;
    struct core_prefix now = { .stream = f->stream }, *p;

    count_fed(c, f->stream, len);
    HASH_FIND(hh, c->prefixes, &f->stream, sizeof(f->stream), p);
    prefix_read(c, p ? p : &now, bytes, len);
    if (!p && now.have + now.left > 0 && (p = malloc(sizeof(*p)))) {
        *p = now;
        HASH_ADD(hh, c->prefixes, stream, sizeof(p->stream), p);
        if (!table_has(p)) {
            free(p);
        }
    } else if (p && p->have + p->left == 0) {
        HASH_DEL(c->prefixes, p);
        free(p);
    }
}

/* ---- frames of the peer ---------------------------------------------------------------------- */

static void in_settings(struct core_conn *c, const struct frame *f, const unsigned char *at,
                        size_t len)
{
    if (f->flags & FRAME_ACK) {
        return;
    }
    c->settings_n++;
    c->window_lost = c->window_lost || f->len > len; /* there are more than were kept */
    for (; len >= SETTING_BYTES; at += SETTING_BYTES, len -= SETTING_BYTES) {
        uint32_t value = frames_u32(at + 2);

        if (at[0] == 0 && at[1] == SETTING_STREAMS_MAX) {
            c->peer_streams_max = value;
        } else if (at[0] == 0 && at[1] == SETTING_WINDOW) {
            c->window_told = value;
            c->stream_window = value > c->stream_window ? value : c->stream_window;
        }
    }
    life_settings(&c->life);
}

/* C core drops the messages of a stream that breaks off, those that came included. */
static void messages_first(struct core_stream *st)
{
    if (st->fed_bytes > st->read_bytes) {
        core_conn_of(st->base.conn)->breaks = true;
        stream_read_on(st);
    }
}

/* Only what HTTP/2 allows proves something. */
static void in_goaway(struct core_conn *c, const struct frame *f, const unsigned char *at,
                      size_t len)
{
    uint32_t last = len >= 4 ? frames_u32(at) & 0x7fffffff : 0;
    bool legal = f->stream == 0 && !c->in.block_open && (last == 0 || last % 2 == 1);
    struct rpc_stream *base;

    if (c->server || len < 8) {
        return;
    }
    LIST_FOREACH(base, &c->life.streams, entry) {
        struct core_stream *st = core_stream_of(base);

        if (st->id > last && !st->closed_in) {
            st->refused_seen = legal && !st->base.answered;
            messages_first(st);
        }
    }
    life_going(&c->life);
}

static void in_stream_end(struct core_conn *c, const struct frame *f, const unsigned char *at,
                          size_t len)
{
    struct core_stream *st = c->server ? NULL : stream_at(c, f->stream);

    if (st && !st->closed_in) {
        st->closed_in = true;
        st->refused_seen = f->type == FRAME_RST_STREAM && len == 4 && !c->in.block_open &&
                           !st->base.answered && frames_u32(at) == REFUSED_STREAM;
        if (f->type != FRAME_HEADERS) {
            messages_first(st);
        }
    }
    prefix_drop(c, f->stream);
}

static void in_window(struct core_conn *c, uint32_t id, const unsigned char *at, size_t len)
{
    uint64_t more = len == 4 ? frames_u32(at) & 0x7fffffff : 0;
    struct core_stream *st = stream_at(c, id);

    if (id == 0) {
        c->window += more;
    } else if (st) {
        st->window += more;
    } else if (id > c->last_named) { /* guessed: it may be one that was made and not seen yet */
        c->window_lost = true;
    }
}

/* Behind it C core keeps to what the peer had told; a smaller window counts from here. */
static void out_settings_ack(struct core_conn *c)
{
    if (++c->acks_n == c->settings_n) {
        c->stream_window = c->window_told;
    }
}

bool pump_is_shut(const struct core_stream *st)
{
    const struct core_conn *c = core_conn_of(st->base.conn);

    return c->data_made >= c->window ||
           (st->id && !c->window_lost && st->out_made >= c->stream_window + st->window);
}

static void in_call(struct core_conn *c, uint32_t id)
{
    struct core_arrival *a = id > c->last_stream ? calloc(1, sizeof(*a)) : NULL;

    if (a) {
        c->last_stream = a->id = id;
        TAILQ_INSERT_TAIL(&c->arrivals, a, link);
    }
}

static void in_answer(struct core_conn *c, uint32_t id)
{
    struct core_stream *st = c->server ? NULL : stream_at(c, id);

    if (st) {
        st->base.answered = true;
    }
}

/* A server's session is told so, unless it breaks off. */
static void in_half_close(struct core_conn *c, uint32_t id)
{
    struct core_stream *st = stream_at(c, id);
    struct core_arrival *a = st ? NULL : arrival_at(c, id);

    if (st) {
        st->closed_in = true;
    } else if (a) {
        a->closed_in = true;
    }
    prefix_drop(c, id);
}

static void in_last(struct core_conn *c, const struct frame *f)
{
    if (f->flags & FRAME_END_STREAM && c->server) {
        in_half_close(c, f->stream);
    } else if (f->flags & FRAME_END_STREAM) {
        in_stream_end(c, f, NULL, 0);
    }
}

static void in_end(void *ud, const struct frame *f, const unsigned char *payload, size_t len)
{
    struct core_conn *c = ud;

    switch (f->type) {
    case FRAME_SETTINGS:
        in_settings(c, f, payload, len);
        break;
    case FRAME_GOAWAY:
        in_goaway(c, f, payload, len);
        break;
    case FRAME_PING:
        if (f->flags & FRAME_ACK) {
            life_drain_heard(&c->life);
        }
        break;
    case FRAME_RST_STREAM:
        in_stream_end(c, f, payload, len);
        break;
    case FRAME_WINDOW_UPDATE:
        in_window(c, f->stream, payload, len);
        break;
    case FRAME_HEADERS:
        if (c->server) {
            in_call(c, f->stream);
        } else if (!(f->flags & FRAME_END_STREAM)) {
            in_answer(c, f->stream);
        }
        in_last(c, f);
        break;
    case FRAME_DATA:
        in_answer(c, f->stream); /* also without headers */
        in_last(c, f);
        break;
    default:
        break;
    }
}

static const struct frames_cb in_cb = { in_begin, in_data, in_end };

/* ---- frames of C core ------------------------------------------------------------------------ */

static void out_begin(void *ud, const struct frame *f)
{
    struct core_conn *c = ud;

    c->life.said = c->life.said || f->type == FRAME_HEADERS || f->type == FRAME_DATA;
}

/* How far what was given to C core is on its way. */
static void out_data(void *ud, const struct frame *f, const unsigned char *bytes, size_t len)
{
    struct core_conn *c = ud;
    struct core_stream *st = c->server ? NULL : stream_at(c, f->stream);

    (void)bytes;
    c->data_made += len;
    if (st && st->base.out.mark > 0 && st->mark_wire == 0) {
        st->out_made += len;
        st->mark_wire = st->out_made >= st->base.out.mark ? c->made + 1 : 0;
    }
}

/* C core gives ids in the order of the calls: the first HEADERS of an id are the oldest call's that
 * has none. */
static void out_end(void *ud, const struct frame *f, const unsigned char *payload, size_t len)
{
    struct core_conn *c = ud;
    struct core_stream *st = TAILQ_FIRST(&c->unnamed);
    struct core_arrival *a;

    (void)payload;
    (void)len;
    if (f->type == FRAME_SETTINGS && f->flags & FRAME_ACK) {
        out_settings_ack(c);
    }
    if (f->type != FRAME_RST_STREAM && f->type != FRAME_HEADERS) {
        return;
    }
    if (f->type == FRAME_RST_STREAM) {
        prefix_drop(c, f->stream);
    }
    if (c->server && (a = arrival_at(c, f->stream))) {
        TAILQ_REMOVE(&c->arrivals, a, link);
        free(a);
    } else if (!c->server && st && f->type == FRAME_HEADERS) {
        TAILQ_REMOVE(&c->unnamed, st, unnamed_link);
        st->unnamed = false;
        c->last_named = f->stream;
        st->id = c->ids_lost ? 0 : f->stream;
        if (st->id) {
            name_stream(c, st);
        }
    }
}

static const struct frames_cb out_cb = { out_begin, out_data, out_end };

/* ---- carrying -------------------------------------------------------------------------------- */

static int pump_add(struct core_conn *c, struct buf *to, const void *bytes, size_t len)
{
    if (buf_add(to, bytes, len) < 0) {
        rpc_conn_break(&c->life, "out of memory");
        return -1;
    }
    return 0;
}

/* To the peer, with frames of our own at the first border. False: out of memory. */
static bool carry_out(struct core_conn *c, const unsigned char *bytes, size_t len)
{
    while (len > 0) {
        size_t n = frames_read(&c->out, bytes, len);

        if (pump_add(c, &c->to_peer, bytes, n) < 0) {
            return false;
        }
        c->made += n;
        bytes += n;
        len -= n;
        if (c->inject.len > 0 && frames_at_border(&c->out)) {
            if (pump_add(c, &c->to_peer, c->inject.data, c->inject.len) < 0) {
                return false;
            }
            c->made += c->inject.len;
            buf_clear(&c->inject);
        }
    }
    return true;
}

/* What our end of the pair is watched for. */
static void watch_near(struct core_conn *c)
{
    c->t->host->fd_set(c->t->host->loop, &c->near,
                       (c->blocked ? 0 : LOOP_READ) | (c->feeding ? LOOP_WRITE : 0));
}

static void set_feeding(struct core_conn *c, bool on)
{
    if (c->feeding != on) {
        c->feeding = on;
        watch_near(c);
        c->t->host->io_want_read(c->life.io, !on);
    }
}

static void set_blocked(struct core_conn *c, bool on)
{
    if (c->blocked != on) {
        c->blocked = on;
        watch_near(c);
    }
}

/* To C core; whether nothing is left. */
static bool write_core(struct core_conn *c)
{
    while (c->to_core.len > 0) {
        ssize_t n = send(c->near.fd, c->to_core.data, c->to_core.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) {
            set_feeding(c, true);
            return false;
        }
        if (n < 0 && errno != EINTR) {
            buf_clear(&c->to_core); /* it has closed the connection; its last words are read */
        } else if (n > 0) {
            buf_consume(&c->to_core, (size_t)n);
            c->t->events++;
        }
    }
    set_feeding(c, false);
    return true;
}

/* Everything that waits is handed to C core, and from it to the streams. */
static void feed_all(struct core_conn *c)
{
    while (!write_core(c) && !c->life.dead) {
        size_t before = c->to_core.len;

        core_settle(c->t);
        if (!write_core(c) && c->to_core.len == before) {
            break; /* C core takes no more: the peer did not mind the windows */
        }
    }
    core_settle(c->t);
}

/* To C core. False: out of memory. */
static bool carry_in(struct core_conn *c, const unsigned char *bytes, size_t len)
{
    while (len > 0 && !c->life.doomed) {
        size_t n = frames_read(&c->in, bytes, len);

        if (c->breaks) {
            c->breaks = false;
            feed_all(c);
        }
        if (pump_add(c, &c->to_core, bytes, n) < 0) {
            return false;
        }
        bytes += n;
        len -= n;
    }
    return true;
}

/* Everything that came is handed over before the end is told. A
 * server's stream that is paused is left alone: its owner hears of the end at once, and what it has
 * not read is nobody's. */
static void read_ahead(struct core_conn *c)
{
    struct rpc_stream *st;

    LIST_FOREACH(st, &c->life.streams, entry) {
        if (!st->server) {
            stream_read_on(core_stream_of(st));
        }
    }
    feed_all(c);
}

static void peer_ended(struct core_conn *c, const char *why)
{
    char text[256];

    if (!c->ended && !c->life.dead) {
        c->ended = true;
        snprintf(text, sizeof(text), "%s", why);
        read_ahead(c);
        rpc_conn_break(&c->life, text);
    }
}

/* One read; whether bytes came and the connection still stands. */
static bool take_input(struct core_conn *c)
{
    struct core *t = c->t;
    ssize_t n = t->host->io_read(c->life.io, t->in, sizeof(t->in));

    if (n == NET_AGAIN) {
        return false;
    }
    if (n <= 0) {
        peer_ended(c, n == 0 ? "the peer closed the connection" : t->host->io_error(c->life.io));
        return false;
    }
    life_heard(&c->life);
    if (!carry_in(c, t->in, (size_t)n) || c->life.doomed) {
        return false;
    }
    write_core(c);
    core_dirty_conn(c);
    if (c->judging) {
        pump_judge(c);
    }
    return !c->life.dead;
}

static void pump_on_readable(void *ud)
{
    struct core_conn *c = ud;

    if (!c->life.dead && !c->ended && !c->feeding) {
        life_enter(&c->life);
        take_input(c);
        life_leave(&c->life);
    }
}

/* The socket is broken for writing. What came before may still be read, and may be an answer. */
static void pump_write_failed(struct core_conn *c)
{
    char why[256];

    snprintf(why, sizeof(why), "%s", c->t->host->io_error(c->life.io));
    while (!c->life.dead && !c->ended && take_input(c)) {
    }
    peer_ended(c, why);
}

static void write_peer(struct core_conn *c)
{
    size_t done = 0;

    while (!c->life.dead && done < c->to_peer.len) {
        struct iovec iov = { c->to_peer.data + done, c->to_peer.len - done };
        ssize_t n = c->t->host->io_writev(c->life.io, &iov, 1);

        if (n == NET_AGAIN) {
            set_blocked(c, true);
            break;
        }
        if (n < 0) {
            pump_write_failed(c);
            break;
        }
        done += (size_t)n;
        c->written += (uint64_t)n;
    }
    buf_consume(&c->to_peer, done);
}

/* One read of what C core made; whether there was something. */
static bool take_output(struct core_conn *c)
{
    struct core *t = c->t;
    ssize_t n = recv(c->near.fd, t->out, sizeof(t->out), MSG_DONTWAIT);

    if (n <= 0) {
        c->core_ended = n == 0;
        return false;
    }
    t->events++;
    if ((size_t)n >= MUCH_BYTES) { /* it may have waited for room */
        core_wake(t);
    }
    return carry_out(c, t->out, (size_t)n);
}

void pump_read_made(struct core_conn *c)
{
    while (!c->life.dead && c->near.fd >= 0 && take_output(c)) {
    }
}

void pump_out(struct core_conn *c)
{
    bool more = true;

    if (c->life.dead || (c->blocked && !c->life.calmed)) {
        return;
    }
    life_enter(&c->life);
    while (more && !c->life.dead && !c->blocked && c->near.fd >= 0) {
        more = take_output(c);
        if (!c->life.dead) {
            write_peer(c);
        }
    }
    if (!c->life.dead && c->life.calmed) {
        rpc_conn_break(&c->life, "the connection was ended by GOAWAY");
    } else if (!c->life.dead && c->core_ended) {
        rpc_conn_break(&c->life, "C core closed the connection");
    }
    life_leave(&c->life);
}

static void pump_on_writable(void *ud)
{
    struct core_conn *c = ud;

    if (!c->life.dead) {
        set_blocked(c, false);
        life_enter(&c->life);
        write_peer(c);
        if (!c->life.dead) {
            core_dirty_conn(c);
        }
        life_leave(&c->life);
    }
}

void pump_near(struct loop_fd *w, uint32_t events)
{
    struct core_conn *c = container_of(w, struct core_conn, near);

    if (events & LOOP_WRITE && c->feeding && !c->life.dead) {
        write_core(c);
    }
    core_dirty_conn(c);
}

const struct net_io_cb pump_io_cb = { pump_on_readable, pump_on_writable };

/* ---- frames of our own ----------------------------------------------------------------------- */

void pump_inject(struct core_conn *c, const void *frame, size_t len)
{
    bool now = c->inject.len == 0 && frames_at_border(&c->out);

    if (!c->life.dead && pump_add(c, now ? &c->to_peer : &c->inject, frame, len) == 0) {
        c->made += now ? len : 0;
        core_dirty_conn(c);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void pump_init(struct core_conn *c, bool server)
{
    frames_init(&c->in, server, &in_cb, c);
    frames_init(&c->out, !server, &out_cb, c);
    c->window = c->stream_window = c->window_told = WINDOW_FIRST;
}

void pump_finish(struct core_conn *c)
{
    struct core_prefix *p, *next;
    struct core_arrival *a;

    if (c->near.fd >= 0) {
        c->t->host->fd_remove(c->t->host->loop, &c->near);
        close(c->near.fd);
        c->near.fd = -1;
        c->t->events++;
        core_wake(c->t);
    }
    buf_finish(&c->to_core);
    buf_finish(&c->to_peer);
    buf_finish(&c->inject);
    while ((a = TAILQ_FIRST(&c->arrivals))) {
        TAILQ_REMOVE(&c->arrivals, a, link);
        free(a);
    }
    HASH_ITER(hh, c->prefixes, p, next) {
        HASH_DEL(c->prefixes, p);
        free(p);
    }
}
