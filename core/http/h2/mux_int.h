/* Private to HTTP/2. A mux is a connection, which carries many streams, a request each.
 *
 *   mux.c        connections: reading, writing, time limits, leaving
 *   mux_recv.c   what nghttp2 tells, and the limits on what a client may do
 *   mux_head.c   a head as the text that HTTP/1.1 has for it, and what the server's reader says
 *   mux_stream.c streams: bodies, turns, the way from state to state
 *   mux_answer.c answers
 *   mux_memory.c what nghttp2 must not be without
 *
 * A connection's states:
 *
 *   OPEN -> PARTING -> PARTED -> LINGER      each of them -> gone
 *
 *   OPEN    takes requests
 *   PARTING GOAWAY is out and refuses nothing yet: requests that are on their way are served
 *   PARTED  the GOAWAY that refuses new ones is out; those that run go on
 *   LINGER  our side has ended; input is thrown away until the client closes
 *
 * A stream's states:
 *
 *   HEAD -> BODY -> READY -> CALL -> FLUSH    each of them -> gone
 *
 *   HEAD    its header block comes in
 *   BODY    the head was good, the body is being read; the handler does not know the request yet
 *   READY   complete, or refused: waits for its turn to be served
 *   CALL    the handler has the request; the answer may be streaming
 *   FLUSH   the answer is complete, its last bytes wait for the client
 *
 * A stream lives until nghttp2 has closed it. Everything is [loop]. nghttp2's functions are called
 * from events and tasks, and its callbacks free no connection: one that is over is freed by the
 * event or task that finds it so. */
#ifndef HTTP_H2_MUX_INT_H
#define HTTP_H2_MUX_INT_H

#include <base/states.h>
#include <http/h2/h2.h>
#include <http/server_int.h>
#include <nghttp2/nghttp2.h>

/* As Go Fn's server: an upload over 100 ms of distance runs at 80 Mbit/s. What has arrived is held
 * by the limits on bodies, so windows are given back at once. */
#define MUX_STREAM_WINDOW_BYTES (1 << 20)
#define MUX_CONN_WINDOW_BYTES   (1 << 20)

#define MUX_OUT_BYTES   (64u << 10)
#define MUX_FRAME_BYTES (20u << 10) /* larger than any piece that nghttp2 hands out */

/* The header list of one block. Beyond the server's limits a request is refused; a list that goes
 * on growing to this, which few bytes of HPACK can make it, ends the connection. */
#define MUX_LIST_BREAK_BYTES (256u << 10)
#define MUX_FIELD_BYTES      32u /* what RFC 9113 adds for each field */

/* Frames in one second that cost us something and bring no request: SETTINGS, PING, PRIORITY, empty
 * DATA, unknown ones, windows opened by a few bytes. Clients send a handful. */
#define MUX_CONTROLS_MAX 1000
/* Streams that are reset in one second, by the client or because of what it sent: for each that may
 * be open at a time, since a client may give up all that it has, and once more; and never fewer
 * than those of the usual 250, which a client with few at a time may give up one after another. */
#define MUX_RESETS_PER_STREAM 2
#define MUX_RESETS_MIN        500
#define MUX_SMALL_WINDOW 1024 /* an update that opens a closed window by less is a control frame */
#define MUX_ACKS_MAX     1000 /* answers to pings and settings that a client does not read */
#define MUX_QUEUE_MAX    1000 /* frames, beside four for each stream, that wait for the socket */

enum mux_state { MUX_OPEN, MUX_PARTING, MUX_PARTED, MUX_LINGER, MUX_STATES_N };
enum mux_stream_state {
    STREAM_HEAD,
    STREAM_BODY,
    STREAM_READY,
    STREAM_CALL,
    STREAM_FLUSH,
    STREAM_STATES_N
};
extern const struct states mux_states, mux_stream_states;

/* What a connection waits for, each with a deadline of its own. */
enum mux_wait {
    WAIT_REQUEST, /* there is no stream */
    WAIT_BLOCK,   /* for the rest of a header block */
    WAIT_SOCKET,  /* to take output */
    WAIT_PART,    /* for what is on its way, before new streams are refused */
    WAIT_END,     /* for the client to close */
    MUX_WAITS_N
};

/* HTTP/2's part of a server. */
struct mux_part {
    struct http_server *s;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    LIST_HEAD(, mux) all;
    struct buf text; /* scratch: a head as HTTP/1.1 has it */
    size_t out_len;
    unsigned char out[MUX_OUT_BYTES]; /* scratch: what is written at once */
};

/* What a head is put together from; the last one are "name: value" lines. */
enum mux_text { HEAD_PATH, HEAD_AUTHORITY, HEAD_HOST, HEAD_COOKIE, HEAD_FIELDS, HEAD_TEXTS_N };

/* The header block that comes in; one at a time by protocol. */
struct mux_head {
    struct mux_stream *stream; /* whose request it is; NULL: trailers */
    int32_t id;
    size_t list_bytes;
    char method[PARSE_METHOD_MAX + 2]; /* one that is too long is refused as such */
    struct buf texts[HEAD_TEXTS_N];
    bool has_authority, has_host;
    bool refused; /* a field is not legal */
    struct refusal refusal;
};

struct mux_rate {
    int64_t since_ns;
    uint32_t n;
};

TAILQ_HEAD(mux_streams, mux_stream);

struct mux {
    struct mux_part *part;
    struct http_server *s;
    LIST_ENTRY(mux) entry;
    struct net_io *io;
    struct visitor *peer_count; /* NULL for unix sockets */
    nghttp2_session *session;
    enum mux_state state;
    bool stranger;   /* its certificate names no peer */
    bool dead;       /* is being freed */
    bool blocked;    /* the socket is full; writable() comes */
    bool poor;       /* what it should send found no memory */
    bool calmed;     /* was told to be calm */
    bool terminated; /* GOAWAY with an error is out: nothing that comes counts */
    bool left;       /* the client sent GOAWAY */
    struct env_timer timer;
    int64_t waits_ns[MUX_WAITS_N]; /* 0 = none */
    struct env_task flush;
    struct turn turn;
    struct mux_streams streams, ready;
    struct mux_streams roomy; /* whose handler may send more */
    int64_t streams_max; /* as the client was told */
    uint32_t streams_n;
    uint32_t beside_n; /* streams that are counted beside the connection itself */
    int64_t requests_n;
    int32_t last_id; /* the last stream that is served, since PARTED */
    int64_t sent_ns; /* when DATA of any stream went last */
    struct mux_rate controls, resets;
    struct buf pending; /* produced and not written */
    size_t pending_off;
    uint64_t lingered_bytes;
    struct mux_head head;
    void *queue; /* mux_memory.c; since the first stream */
    bool queue_used;
};

struct mux_stream {
    struct mux *m;
    TAILQ_ENTRY(mux_stream) link;
    TAILQ_ENTRY(mux_stream) other; /* in `ready` or `roomy` */
    bool in_roomy;
    int32_t id;
    enum mux_stream_state state;
    struct request *q; /* until its answer is complete */
    bool refused;
    struct refusal refusal;
    struct intake intake;
    struct env_timer timer;
    int64_t deadline_ns; /* when to look at it; 0 = none */
    struct buf out; /* from out_off on: not yet given to nghttp2 */
    size_t out_off;
    bool asleep;    /* nghttp2 waits for more to send */
    bool ended;     /* nothing comes behind `out` */
    bool cut;       /* ... and a reset says that the answer is not whole */
    uint64_t lingered_bytes;
};

/* mux.c */
void mux_touch(struct mux *m); /* something may have to be written */
/* The result of nghttp2_submit_...(). The connection ends soon if there was no memory for it: the
 * client would wait for what was to be said. */
void mux_submitted(struct mux *m, int result);
void mux_wait(struct mux *m, enum mux_wait what, int64_t at_ns);
void mux_part_now(struct mux *m); /* refuses new streams */
void mux_part_soon(struct mux *m); /* says that it will */
/* The client does what none does: the connection ends. */
void mux_calm(struct mux *m, const char *why);
static inline int64_t mux_now_ns(const struct mux *m)
{
    return env_now_ns(m->s->env);
}
static inline int64_t mux_after(const struct mux *m, int64_t ns)
{
    return ns > 0 ? mux_now_ns(m) + ns : 0;
}

/* mux_memory.c */
nghttp2_mem mux_memory(struct mux *m); /* what its session is made with */
/* Whether there is memory for a stream to send something; before each is made. */
bool mux_has_queue(struct mux *m);

/* mux_recv.c */
nghttp2_session_callbacks *mux_callbacks(void); /* NULL: no memory */

/* mux_head.c */
void mux_head_begin(struct mux_head *h, struct mux_stream *st, int32_t id);
/* The next field; `legal`: nghttp2 has nothing against it. */
void mux_head_add(struct mux *m, const char *name, size_t name_len, const char *value, size_t len,
                  bool legal);
/* The whole head of st. 0, or < 0 with *r. */
int mux_head_read(struct mux *m, struct mux_stream *st, struct parsed_request *ret,
                  struct refusal *r);
void mux_head_finish(struct mux_head *h);

/* mux_stream.c */
struct mux_stream *mux_stream_create(struct mux *m, int32_t id); /* NULL: no memory */
void mux_stream_enter(struct mux_stream *st, enum mux_stream_state state);
void mux_stream_on_head(struct mux_stream *st, bool last);
void mux_stream_on_data(struct mux_stream *st, const char *data, size_t len);
void mux_stream_on_end(struct mux_stream *st);
/* It is closed: whoever has the request is told, unless the answer is complete. */
void mux_stream_gone(struct mux_stream *st);
void mux_stream_reset(struct mux_stream *st, uint32_t code);
/* The answer is out, and more of the request may come: it is thrown away for a while. A reset that
 * says that no more is wanted eats the answer in front of it in clients such as curl. */
void mux_stream_linger(struct mux_stream *st);
/* Output waits for the client from now on. */
void mux_stream_await_client(struct mux_stream *st);
void mux_serve(struct mux *m); /* what is ready, as far as its turn goes */
void mux_have_turn(struct turn *t);
static inline size_t mux_stream_pending(const struct mux_stream *st)
{
    return st->out.len - st->out_off;
}

/* mux_answer.c */
extern const struct answer_ops mux_answer_ops;
void mux_answer_refusal(struct mux_stream *st);

#endif
