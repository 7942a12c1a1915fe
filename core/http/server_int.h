/* Private to the server: its objects and what its files call in each other.
 *
 *   server.c       life of the server, accepting, connection limits
 *   server_peers.c what connections of one address hold together
 *   server_turns.c whose requests are served when many came at once
 *   server_conn.c  one connection: reading, time limits, the way from request to request
 *   server_shake.c the handshake before its first request
 *   forwarded.c    whom a proxy brought a request from
 *   answer.c       the http_answer_* calls and the answers that the server gives itself
 *
 * A connection's states:
 *
 *   SHAKE -> HEAD -> BODY -> CALL -> FLUSH -> HEAD | LINGER | gone
 *
 *   SHAKE   under TLS: the handshake runs
 *   HEAD    waits for, or has part of, a request head; idle when `in` is empty
 *   BODY    the head was good, the body is being read; req exists, the handler does not know it yet
 *   CALL    the handler has the request; the answer may be streaming
 *   FLUSH   the answer is complete, its last bytes wait for the socket
 *   LINGER  nothing more will be read as a request; input is thrown away until the client closes,
 *           so that unread input does not turn our close into a reset that eats the answer
 *   DEAD    closed while one of our functions is still using it; freed when that one returns
 *
 * Everything is [loop]. Handlers are called from events and tasks, never from inside answer calls:
 * a write error there only marks the connection as broken and queues `later`. */
#ifndef HTTP_SERVER_INT_H
#define HTTP_SERVER_INT_H

#include <base/states.h>
#include <http/parse.h>
#include <http/server.h>
#include <net/io.h>
#include <net/network.h>
#include <sys/uio.h>
#include <uthash.h>

#define SCRATCH_BYTES  65536
#define PIPELINE_MAX   65536 /* bytes read ahead while a call runs */
#define CORK_BYTES     16384 /* smaller pieces of an answer wait for the end of the turn */
#define LINGER_NS      (2 * ENV_S)
#define LINGER_BYTES   (16 << 20)
#define DATE_BYTES     40
#define SMALL_BUF_KEPT 4096

/* A connection's requests in a turn of the loop, be they calls or refusals; what was read behind
 * them waits in the server's ring, of which so many connections have their turn at a time. */
#define TURN_REQUESTS_MAX    4
#define TURN_CONNECTIONS_MAX 4

/* Reads of SCRATCH_BYTES from a connection that is turned away, all in one go. */
#define LAST_READS_MAX 4

enum conn_state {
    CONN_SHAKE,
    CONN_HEAD,
    CONN_BODY,
    CONN_CALL,
    CONN_FLUSH,
    CONN_LINGER,
    CONN_DEAD,
    CONN_STATES_N
};
extern const struct states conn_states;

struct conn;

/* A request from its head to the end of its answer. The handler may keep it after the connection
 * went away (c == NULL); the call that ends the answer frees it. */
struct request {
    struct http_request pub; /* first: the handler's view */
    struct arena arena; /* in which it lives */
    struct conn *c;
    bool http10;
    bool head_only; /* HEAD */
    bool keep_alive;
    /* answer: */
    bool head_sent;
    bool chunked;
    bool no_body;
    bool wants_writable;
    int64_t left; /* bytes that Content-Length still promises; < 0 = no promise */
};

/* The connections of one address; of IPv6 it is the first half, which is what one customer has. */
struct peer_count {
    struct net_address address;
    uint32_t n;
    bool is_proxy; /* of http.proxies: many clients, who are not told apart */
    uint64_t body_bytes; /* of bodies that are not complete */
    UT_hash_handle hh;
};

struct conn {
    struct net_io *io;
    struct http_server *s;
    TAILQ_ENTRY(conn) link;
    TAILQ_ENTRY(conn) turn_link; /* while it waits for its turn */
    struct peer_count *peer_count; /* NULL for unix sockets */
    struct env_timer timer;
    struct env_task later;
    enum conn_state state;
    uint32_t busy;     /* our functions on the stack that use it after calling out */
    bool reading;      /* wants to read */
    bool stranger;     /* its certificate names no peer */
    bool broken;       /* a write failed */
    bool full;         /* the socket took less than it was given */
    bool eof;          /* the client sends nothing more */
    bool close;        /* after the running answer */
    bool linger;       /* ... and there may be unread input */
    bool fresh;        /* no request yet */
    bool waits_turn;   /* in the ring; there is something in `in` */
    uint32_t requests_n;
    int64_t deadline_ns; /* of the state; 0 = none */
    int64_t stall_ns;    /* of pending output; 0 = none pending */
    struct parse_seek seek;
    struct buf in;  /* read and not yet consumed */
    struct buf out; /* from out_off on: not yet written */
    size_t out_off;
    struct request *req;
    struct parse_framing framing;
    struct chunked chunked;
    uint64_t body_left;
    uint64_t body_counted; /* bytes of it that peer_count has */
    int64_t body_deadline_ns;
    uint64_t lingered_bytes;
};

TAILQ_HEAD(conn_list, conn);

struct http_server {
    struct loop *loop;
    struct env *env;
    struct http_server_config config;
    struct parse_limits parse_limits;
    struct loop_fd listen; /* fd -1 when not listening */
    bool listening;        /* is watched */
    bool draining;
    int64_t drain_until_ns; /* requests that come before are served */
    int reserve_fd; /* given up for a moment when descriptors run out */
    struct env_timer resume;
    char *unix_path; /* to be removed, or NULL */
    uint16_t port;
    struct conn_list conns;
    uint32_t conns_n;
    struct peer_count *peers;
    struct net_network *proxies; /* of config.limits.proxies */
    uint32_t proxies_n;
    const char *client_header; /* in which they name their client, or NULL */
    bool introduced;           /* they do so before everything else: introduction.c */
    TAILQ_HEAD(, introduction) introductions;
    uint32_t introductions_n;
    struct conn_list ring; /* connections that wait for their turn */
    uint32_t ring_n;
    struct env_timer turn;
    struct log_gate full_gate, half_gate, starved_gate, tls_gate, foreign_gate, stranger_gate;
    struct log_gate introduction_gate;
    int64_t date_until_ns;
    char date[DATE_BYTES];
    struct buf head; /* scratch of answer heads */
    char scratch[SCRATCH_BYTES];
};

/* server.c */
/* Takes fd, a connection of the client at addr, if that may have one more. */
void server_admit_client(struct http_server *s, int fd, const struct sockaddr_storage *addr);
void server_conn_closed(struct http_server *s); /* a descriptor became free */
/* An answer in plain text to a connection that gets no struct request; what the client sent is read
 * and thrown away: closing over unread input would turn the answer into a reset. */
void server_send_last(struct http_server *s, int fd, const struct buf *answer);
/* At most one line in 10 s. peer, key and value may be NULL. */
void log_gated(struct http_server *s, struct log_gate *g, const char *text, const char *peer,
               const char *key, const char *value);

/* server_conn.c */
/* Takes the descriptor; closes it when out of memory. */
void conn_create(struct http_server *s, int fd, const char *peer, struct peer_count *peer_count);
void conn_begin(struct conn *c); /* waits for its first request */
void conn_drain(struct conn *c);   /* nothing runs on it: closes now, or when no request comes */
void conn_destroy(struct conn *c); /* closes; a running request is not told */
void conn_gone(struct conn *c);    /* closes and tells the handler */
void conn_reset(struct conn *c);   /* the same, with RST */
void conn_answered(struct conn *c);       /* the answer is complete and in `out` */
void conn_put(struct conn *c, const void *data, size_t len);  /* into `out` */
void conn_push(struct conn *c, const void *a, size_t a_len, const void *b, size_t b_len);
void conn_flush(struct conn *c);
void conn_refuse(struct conn *c, const struct refusal *r);
static inline size_t conn_pending(const struct conn *c)
{
    return c->out.len - c->out_off;
}
/* Everything is the kernel's. */
static inline bool conn_is_flushed(const struct conn *c)
{
    return conn_pending(c) == 0 && !c->full;
}
/* Serves up to TURN_REQUESTS_MAX of the requests that were read ahead. */
void conn_have_turn(struct conn *c);

/* server_peers.c */
int peers_set_proxies(struct http_server *s); /* those of its limits */
bool peers_is_proxy(const struct http_server *s, const struct net_address *a);
/* One more connection of this address; NULL: no memory. */
struct peer_count *peer_count_take(struct http_server *s, const struct sockaddr *addr);
void peer_count_release(struct http_server *s, struct peer_count *p); /* NULL ok */
/* Whether connections of this address may bring so many more bytes of bodies. */
bool peer_may_bring(const struct http_server *s, const struct peer_count *p, uint64_t bytes);

/* forwarded.c */
void client_header_set(struct http_server *s, const char *word); /* http.client_from */
/* Whom a request came from, that one of our proxies brought; false: it does not say. */
bool client_behind(const struct http_server *s, const struct headers *h, struct net_address *ret);
/* Sets who is told in logs, and whom limits per address hold. */
void client_name(const struct conn *c, struct request *q);

/* introduction.c */
/* Takes fd, a connection of a proxy; goes on with server_admit_client(), or closes it. */
int introduction_await(struct http_server *s, int fd, const struct sockaddr_storage *proxy);
void introductions_close(struct http_server *s);

/* server_shake.c */
int conn_shake(struct conn *c); /* goes on with conn_begin(), or destroys it */

/* server_turns.c */
void turns_init(struct http_server *s);
void turn_await(struct conn *c); /* nothing happens when it waits already */
void turn_leave(struct conn *c); /* the same when it does not wait */

/* answer.c */
void request_free(struct request *q);
/* Appends head and JSON body of an error to b; the connection closes after it. */
void answer_refusal(struct http_server *s, struct buf *b, const struct refusal *r);

#endif
