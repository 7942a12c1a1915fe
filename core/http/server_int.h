/* Private to the server and its protocols: its objects, and what its files call in each other.
 *
 *   server.c       life of the server, accepting, connection limits
 *   server_peers.c what connections of one address hold together
 *   server_turns.c whose requests are served when many came at once
 *   server_body.c  requests, and what a body may take while it comes
 *   answer.c       the http_answer_* calls, and what is in each answer whatever the protocol
 *   forwarded.c    whom a proxy brought a request from
 *   introduction.c what a proxy says in front of its connection
 *
 * HTTP/1.1 (conn.h):
 *
 *   server_conn.c  one connection: reading, time limits, the way from request to request
 *   server_shake.c the handshake before its first request
 *   conn_answer.c  its answers
 *
 * HTTP/2 is a room of its own, core/http/h2, which is reached by struct http_protocol and struct
 * answer_ops alone.
 *
 * Everything is [loop]. Handlers are called from events and tasks, never from inside answer calls:
 * a write error there only marks the connection as broken and queues a task. */
#ifndef HTTP_SERVER_INT_H
#define HTTP_SERVER_INT_H

#include <base/table.h>
#include <http/parse.h>
#include <http/server.h>
#include <net/io.h>
#include <net/network.h>
#include <net/port_counts.h>
#include <net/visitors.h>
#include <sys/uio.h>

#define SCRATCH_BYTES  65536
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

struct conn;
struct mux_stream;
struct request;

/* How a protocol carries an answer; see http_answer() and its kin, which call these as long as the
 * client is there, end() when all of the answer came, and data() with no more than that. */
struct answer_ops {
    void (*whole)(struct request *q, int status, const struct headers *h, const void *body,
                  size_t len);
    void (*head)(struct request *q, int status, const struct headers *h, int64_t content_length);
    int (*data)(struct request *q, const void *data, size_t len);
    void (*end)(struct request *q);
    void (*abort)(struct request *q);
};

/* A protocol that clients choose in the handshake (ALPN); HTTP/1.1 is what they get else. */
struct http_protocol {
    const char *alpn;
    /* What it has of a server, or NULL: no memory. */
    void *(*open)(struct http_server *s);
    void (*close)(void *part); /* ends its connections and tells handlers */
    /* Takes io and peer_count of a connection whose handshake chose it. */
    void (*adopt)(void *part, struct net_io *io, struct visitor *peer_count, bool stranger);
    void (*drain)(void *part);            /* s->draining is set */
    bool (*is_calm)(const void *part);    /* nothing that is to be served can come any more */
};

/* A request from its head to the end of its answer. The handler may keep it after the connection
 * went away (c or stream is NULL); the call that ends the answer frees it. */
struct request {
    struct http_request pub; /* first: the handler's view */
    struct arena arena; /* in which it lives */
    const struct answer_ops *ops;
    union {
        struct conn *c;            /* HTTP/1.1 */
        struct mux_stream *stream; /* HTTP/2 */
    };
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

/* A place in the ring of those who have read more than they were served. */
struct turn {
    TAILQ_ENTRY(turn) link;
    bool waits;
    void (*have)(struct turn *t); /* serves up to TURN_REQUESTS_MAX */
};

/* A body while it comes, and what it takes. */
struct intake {
    struct visitor *peer_count; /* NULL for unix sockets */
    uint64_t counted;    /* bytes of it that peer_count has */
    int64_t deadline_ns; /* INT64_MAX = none */
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
    struct conn_list conns; /* of HTTP/1.1, and those that shake hands */
    uint32_t conns_n; /* of each protocol */
    struct port_counts counts;
    uint32_t beside_n; /* requests that run beside another one of their connection */
    void *h2; /* config.h2's part; NULL: HTTP/1.1 alone */
    struct visitors peers; /* each holds bytes of bodies that are not complete */
    struct net_network *proxies; /* of config.limits.proxies */
    uint32_t proxies_n;
    const char *client_header; /* in which they name their client, or NULL */
    bool introduced;           /* they do so before everything else: introduction.c */
    TAILQ_HEAD(, introduction) introductions;
    uint32_t introductions_n;
    TAILQ_HEAD(, turn) ring; /* who waits for a turn */
    uint32_t ring_n;
    struct env_timer turn;
    struct log_gate full_gate, half_gate, starved_gate, tls_gate, foreign_gate, stranger_gate;
    struct log_gate introduction_gate, calm_gate;
    int64_t date_until_ns;
    char date[DATE_BYTES];
    struct buf head; /* scratch of answer heads */
    char scratch[SCRATCH_BYTES];
};

/* server.c */
/* Takes fd, a connection of the client at addr, if that may have one more. */
void server_admit_client(struct http_server *s, int fd, const struct sockaddr_storage *addr);
/* One more request beside those that run on its connection already: it counts as a connection of
 * its own would. false: refused. */
bool server_admit_beside(struct http_server *s, struct visitor *p, const char *peer,
                         struct refusal *r);
void server_leave_beside(struct http_server *s, struct visitor *p);
/* A connection is gone, and its descriptor is free. */
void server_conn_closed(struct http_server *s, struct visitor *p);
/* An answer in plain text to a connection that gets no struct request; what the client sent is read
 * and thrown away: closing over unread input would turn the answer into a reset. */
void server_send_last(struct http_server *s, int fd, const struct buf *answer);
/* At most one line in 10 s. peer, key and value may be NULL. */
void log_gated(struct http_server *s, struct log_gate *g, const char *text, const char *peer,
               const char *key, const char *value);

/* server_peers.c */
int peers_set_proxies(struct http_server *s); /* those of its limits */
bool peers_is_proxy(const struct http_server *s, const struct net_address *a);
/* One more connection of this address; NULL: no memory. */
struct visitor *peer_count_take(struct http_server *s, const struct sockaddr *addr);
/* Whether connections of this address may bring so many more bytes of bodies. */
bool peer_may_bring(const struct http_server *s, const struct visitor *p, uint64_t bytes);

/* server_body.c */
/* NULL: no memory. */
struct request *request_create(struct http_server *s, const struct answer_ops *ops);
void request_free(struct request *q);
/* What the head says. */
void request_fill(struct http_server *s, struct request *q, const struct parsed_request *parsed);
void refuse_for_memory(struct refusal *r);
void refuse_stranger(struct refusal *r); /* its certificate names no peer */
/* A body of `length` bytes, 0 where that is not known, begins to come; ret_look_ns: when to look at
 * its time first. false: refused. */
bool intake_begin(struct http_server *s, struct intake *in, struct visitor *p, uint64_t length,
                  int64_t *ret_look_ns, struct refusal *r);
/* The next bytes of b. false: refused. */
bool intake_add(struct http_server *s, struct intake *in, struct body *b, const char *data,
                size_t len, struct refusal *r);
/* The body is late when its absolute deadline is over or, after a grace time, its mean rate is
 * below the limit. When to look again; 0: refused. */
int64_t intake_look(struct http_server *s, const struct intake *in, const struct http_request *req,
                    struct refusal *r);
/* Its bytes no longer count as its address's: it is complete, or thrown away. */
void intake_end(struct intake *in);
void refuse_late(struct refusal *r, const char *what, int64_t limit_ns);

/* forwarded.c */
void client_header_set(struct http_server *s, const char *word); /* http.client_from */
/* Whom a request came from, that one of our proxies brought; false: it does not say. */
bool client_behind(const struct http_server *s, const struct headers *h, struct net_address *ret);
/* Sets who is told in logs, and whom limits per address hold. */
void client_name(const struct http_server *s, const struct net_io *io, const struct visitor *p,
                 struct request *q);

/* introduction.c */
/* Takes fd, a connection of a proxy; goes on with server_admit_client(), or closes it. */
int introduction_await(struct http_server *s, int fd, const struct sockaddr_storage *proxy);
void introductions_close(struct http_server *s);

/* server_turns.c */
void turns_init(struct http_server *s);
void turn_await(struct http_server *s, struct turn *t); /* nothing happens when it waits already */
void turn_leave(struct http_server *s, struct turn *t); /* the same when it does not wait */

/* answer.c */
#define ANSWER_JSON_TYPE   "application/json; charset=utf-8"
#define ANSWER_RETRY_AFTER "1" /* of refusals for want of room */

enum field_kind { FIELD_PASS, FIELD_DROP, FIELD_DATE, FIELD_CONNECTION };
/* What becomes of a field that a handler wants to send: framing is the server's. */
enum field_kind answer_field_kind(const struct header *f, size_t name_len, size_t value_len);
const char *answer_date_line(struct http_server *s); /* "Date: ...\r\n" */
int answer_error_body(struct buf *b, const char *text);
/* Sets no_body and left; the status, or another one that can be sent as a final one. */
int answer_begin(struct request *q, int status, int64_t content_length);
bool answer_has_no_body(int status);
bool answer_asks_to_retry(int status); /* a refusal gets Retry-After */

/* conn_answer.c */
/* Head and JSON body of an error into b, which is empty; the connection closes after it. Without
 * memory for all of it b stays empty. */
void answer_refusal(struct http_server *s, struct buf *b, const struct refusal *r);

#endif
