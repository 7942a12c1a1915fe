/* What the files of the transport share: h2.c (connections), h2_recv.c (what nghttp2 tells),
 * h2_stream.c (streams), h2_text.c (texts of headers). */
#ifndef RPC_NGHTTP2_H2_INT_H
#define RPC_NGHTTP2_H2_INT_H

#include <nghttp2/nghttp2.h>
#include <rpc/life.h>

#define H2_IN_BYTES  (64u << 10)
#define H2_OUT_BYTES (128u << 10)
#define H2_FRAME_MAX (20u << 10) /* larger than any piece that nghttp2 hands out */
#define H2_QUEUE_MAX 1000 /* frames, beside four for each stream, that wait for the socket */

/* What came in the headers of a request or an answer. */
struct h2_head {
    size_t bytes; /* of the whole list */
    bool too_big;
    bool is_post;
    bool is_grpc; /* content-type */
    bool encoded; /* grpc-encoding is not identity */
    int http_status;
    int grpc_status; /* -1: none */
    int64_t timeout_ns; /* 0: none */
    struct rpc_head call;
    char message[512];
};

struct h2 {
    struct transport base;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    /* One turn's input and output; only one connection uses them at a time. */
    unsigned char in[H2_IN_BYTES];
    unsigned char out[H2_OUT_BYTES];
    size_t out_len;
};

struct h2_conn {
    struct rpc_conn life; /* first */
    struct h2 *h;
    nghttp2_session *session;
    char *authority; /* client */
    bool tls;
    bool blocked;  /* the socket is full; writable() comes */
    bool poor;     /* what it should send found no memory */
    bool flushing; /* second leg of a flush */
    bool out_full; /* `out` had no room for a frame */
    struct env_task flush;
    uint64_t produced; /* bytes that nghttp2 made */
    uint64_t written;  /* of these, given to the socket */
    struct buf pending; /* produced and not written */
    size_t pending_off;
    struct h2_head head; /* of the header block that comes in; one at a time by protocol */
};

struct h2_stream {
    struct rpc_stream base; /* first */
    struct h2 *h;
    int32_t id;      /* 0: no frame may be sent on it any more */
    bool headers_in; /* the peer's first headers came */
    bool asleep;     /* nghttp2 waits for more to send */
    int http_status;
    struct buf in;
    uint32_t unconsumed; /* received, not yet given back to the peer's window */
    uint64_t mark_wire;  /* in the connection's produced; 0 = not there yet */
};

/* The const of a pointer goes with it where a slot only looks. */
#define conn_of(life_)   container_of(life_, struct h2_conn, life)
#define stream_of(base_) container_of(base_, struct h2_stream, base)

/* h2.c */
void conn_touch(struct h2_conn *c); /* something may have to be written */
/* The result of nghttp2_submit_...(). The connection ends soon if there was no memory for it: the
 * peer would wait for what was to be said. */
void conn_submitted(struct h2_conn *c, int result);
void conn_ids_used(struct h2_conn *c, int32_t id); /* client: leaves it before they run out */

/* h2_recv.c */
nghttp2_session_callbacks *recv_callbacks(void);

/* h2_stream.c */
struct h2_stream *stream_create(struct h2_conn *c, int32_t id);
void stream_input(struct h2_stream *st, const unsigned char *data, size_t len);
void stream_take(struct h2_stream *st, unsigned char *to, size_t len, uint64_t produced);
struct rpc_stream *h2_stream_open(struct rpc_conn *c, const struct rpc_call *call,
                                  const struct rpc_stream_cb *cb, void *ud);
/* Ends it with an HTTP status and nothing else; only before anything was sent. */
void stream_refuse(struct h2_stream *st, const char *http_status);

/* h2_text.c */
void text_percent_encode(const char *text, char *ret, size_t cap);
void text_percent_decode(const unsigned char *text, size_t len, char *ret, size_t cap);
void text_timeout(int64_t ns, char ret[24]);
int text_status_of_http(int http_status);
int text_status_of_reset(uint32_t code);
void head_take(struct h2_head *head, const unsigned char *name, size_t name_len,
               const unsigned char *value, size_t len);

static inline nghttp2_nv text_nv(const char *name, size_t name_len, const char *value, size_t len,
                                 uint8_t flags)
{
    return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, name_len, len, flags };
}

#endif
