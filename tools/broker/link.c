/* Connections. Each carries one request and one answer, and ends:
 *
 *   HEAD ──▶ BODY ──▶ ASK ──▶ RELAY ──engine ends──▶ END ──flushed──▶ closed
 *     └────────┴───────┴── refused ──────────────────▶┘
 *
 * HEAD, BODY  the request is collected, within REQUEST_MS
 * ASK         the broker asks the engine whose container it is, on a connection of its own
 * RELAY       the judged request goes to the engine, its answer to the client, byte by byte
 * END         what is left of the answer goes to the client
 *
 * The broker never looks for the end of an answer: the engine is told to close behind it. What a
 * client sends behind its request ends the connection, and so does a client that is gone. Waiting
 * bytes are bounded: while a reader does not read, its writer is not read either. */
#include "broker.h"

#include <base/log.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENTS_MAX  64
#define TICK_MS     1000 /* deadlines are looked at */
#define PIECE       (16 * 1024)
#define FILES_OTHER 16 /* descriptors that are no connection */
#define TAP_BYTES   2048 /* of an answer to a creation: its id is in them */

enum state { HEAD, BODY, ASK, RELAY, END };

struct end {
    struct conn *c;
    int fd;
    uint32_t events; /* asked for; 0 = none, also no hang-ups */
    bool is_engine;
};

struct conn {
    LIST_ENTRY(conn) entry;
    struct broker *b;
    struct end client, engine;
    enum state state;
    int64_t until_ms; /* 0 = none */
    struct arena arena;
    struct buf in;       /* from the client, then the engine's answer to a question */
    struct buf up, down; /* on their way to the engine, to the client */
    struct buf tap;
    struct parse_seek seek;
    struct request rq;
    uint64_t body_left; /* of the client's */
    uint64_t body_bytes;
    char *body; /* judged */
    bool dead;
};

LIST_HEAD(conn_list, conn);

struct broker {
    const struct broker_config *config;
    int listener, epoll;
    struct conn_list conns, dead;
    uint32_t n, max; /* connections */
    struct known *known;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void end_close(struct end *e)
{
    if (e->fd >= 0) {
        close(e->fd); /* and out of the epoll set */
        e->fd = -1;
        e->events = 0;
    }
}

/* An end that wants nothing is not in the set, which would tell its hang-up again and again. */
static void end_want(struct end *e, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data = { .ptr = e } };

    if (e->fd >= 0 && events != e->events) {
        epoll_ctl(e->c->b->epoll,
                  e->events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD,
                  e->fd, &ev);
        e->events = events;
    }
}

/* Adds what is there; 1 = there was something, 0 = nothing yet, -1 = the peer is gone. */
static int end_read(struct end *e, struct buf *to, size_t max)
{
    size_t room = max < PIECE ? max : PIECE;
    char *at = room > 0 ? buf_reserve(to, room) : NULL;
    ssize_t n;

    if (room == 0) {
        return 0;
    }
    if (!at) {
        return -1;
    }
    n = recv(e->fd, at, room, MSG_DONTWAIT);
    if (n > 0) {
        to->len += (size_t)n;
        return 1;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static int end_write(struct end *e, struct buf *from)
{
    ssize_t n = from->len > 0 ? send(e->fd, from->data, from->len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    buf_consume(from, (size_t)n);
    return 0;
}

/* Memory comes back when all who know it have been served: conns_bury(). */
static void conn_close(struct conn *c)
{
    if (!c->dead) {
        end_close(&c->client);
        end_close(&c->engine);
        c->dead = true;
        LIST_REMOVE(c, entry);
        LIST_INSERT_HEAD(&c->b->dead, c, entry);
        c->b->n--;
    }
}

static void conns_bury(struct broker *b)
{
    struct conn *c;

    while ((c = LIST_FIRST(&b->dead))) {
        LIST_REMOVE(c, entry);
        arena_finish(&c->arena);
        buf_finish(&c->in);
        buf_finish(&c->up);
        buf_finish(&c->down);
        buf_finish(&c->tap);
        free(c->body);
        free(c);
    }
}

/* ---- answers of the broker's own ------------------------------------------------------------- */

static const char *words_of(int status)
{
    return status == 403 ? "Forbidden" : status == 404 ? "Not Found" : "Refused";
}

/* As the engine tells an error. */
static void say(struct conn *c, int status, const char *text)
{
    char safe[200];
    size_t n = 0;

    for (; *text && n + 1 < sizeof(safe); text++) {
        bool plain = *text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\';

        safe[n++] = plain ? *text : '?';
    }
    safe[n] = '\0';
    end_close(&c->engine);
    buf_clear(&c->down);
    if (buf_printf(&c->down,
                   "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\n"
                   "Content-Length: %zu\r\n\r\n{\"message\":\"%s\"}",
                   status, words_of(status), n + strlen("{\"message\":\"\"}"), safe) < 0) {
        conn_close(c);
        return;
    }
    c->state = END;
}

static void turn_away(struct conn *c, const struct refusal *why)
{
    log_stranger(FN_LOG_WARN, "request refused", "status", log_num(why->status), "reason",
                 why->text);
    say(c, why->status, why->text);
}

/* ---- to the engine --------------------------------------------------------------------------- */

/* A client sees an engine that is gone as what it is: a connection that ends. */
static bool engine_open(struct conn *c)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    end_close(&c->engine);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", c->b->config->engine);
    c->engine.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->engine.fd >= 0 && connect(c->engine.fd, (struct sockaddr *)&to, sizeof(to)) == 0) {
        return true;
    }
    log_stranger(FN_LOG_WARN, "the engine cannot be reached", "socket", to.sun_path, "reason",
                 strerror(errno));
    conn_close(c);
    return false;
}

static void relay(struct conn *c, const char *name)
{
    if (!engine_open(c)) {
        return;
    }
    if (table_head(&c->up, &c->rq, name, c->body_bytes) < 0 ||
        (c->body && buf_add(&c->up, c->body, c->body_bytes) < 0)) {
        conn_close(c);
        return;
    }
    c->state = RELAY;
    free(c->body);
    c->body = NULL;
}

static void ask(struct conn *c)
{
    buf_clear(&c->in);
    c->in.limit = STATE_BYTES_MAX;
    /* 1.0: an answer without chunks, that ends with its connection */
    if (engine_open(c)) {
        if (buf_printf(&c->up, "GET /containers/%s/json HTTP/1.0\r\nHost: docker\r\n\r\n",
                       c->rq.name) < 0) {
            conn_close(c);
        }
        c->state = ASK;
        c->until_ms = now_ms() + ASK_MS;
    }
}

static void asked(struct conn *c)
{
    char id[ID_BYTES + 1];
    int status = known_inspected(buf_text(&c->in), c->in.len, c->b->config->owner, id);
    struct refusal why;

    buf_clear(&c->up);
    if (status == 200) {
        known_add(&c->b->known, id, c->rq.name);
        relay(c, id);
    } else if (status == 403) {
        refuse(&why, 403, "container %.80s is of another owner", c->rq.name);
        turn_away(c, &why);
    } else {
        say(c, status,
            status == 404 ? "No such container" : "the engine does not tell whose it is");
    }
}

/* The request is whole and may be sent, once it is clear whose container it is about. */
static void proceed(struct conn *c)
{
    const char *id = c->rq.subject == OF_CONTAINER ? known_find(c->b->known, c->rq.name)
                                                   : c->rq.name;

    if (id) {
        relay(c, id);
    } else {
        ask(c);
    }
}

/* ---- from the client ------------------------------------------------------------------------- */

static void take_body(struct conn *c)
{
    struct refusal why;

    if (c->in.len < c->body_bytes) {
        c->state = BODY;
        return;
    }
    if (c->in.len > c->body_bytes) {
        refuse(&why, 400, "bytes behind the request; expected one request on a connection");
        turn_away(c, &why);
        return;
    }
    if (c->rq.body != BODY_NONE) {
        if (judge_body(c->b->config, c->rq.body, c->in.data, c->in.len, &c->body, &why) < 0) {
            turn_away(c, &why);
            return;
        }
        c->body_bytes = strlen(c->body);
    }
    buf_clear(&c->in);
    proceed(c);
}

/* What came of the archive goes on as it is; the rest is read while the engine takes it. */
static void take_tar(struct conn *c)
{
    if (c->in.len > c->body_bytes) {
        conn_close(c);
        return;
    }
    relay(c, "");
    if (!c->dead && buf_add(&c->up, c->in.data, c->in.len) < 0) {
        conn_close(c);
    }
    c->body_left = c->body_bytes - c->in.len;
    buf_clear(&c->in);
}

static bool judge_head(struct conn *c, size_t len, const struct parse_limits *limits,
                       struct refusal *why)
{
    struct parsed_request asked;
    uint64_t max;

    if (parse_request(&c->arena, c->in.data, len, limits, &asked, why) < 0 ||
        table_judge(c->b->config, &c->arena, &asked, &c->rq, why) < 0) {
        return false;
    }
    max = c->rq.body == BODY_NONE ? 0 : c->rq.body == BODY_TAR ? TAR_BYTES_MAX : BODY_BYTES_MAX;
    if (asked.framing.chunked) {
        refuse(why, 411, "a body in chunks; expected Content-Length");
        return false;
    }
    if (asked.framing.length > max) {
        refuse(why, 413, "a body of %" PRIu64 " bytes; expected at most %" PRIu64,
               asked.framing.length, max);
        return false;
    }
    c->body_bytes = asked.framing.length;
    return !asked.expects_continue || buf_add_str(&c->down, "HTTP/1.1 100 Continue\r\n\r\n") == 0;
}

static void take_head(struct conn *c)
{
    static const struct parse_limits limits = { HEAD_BYTES_MAX, LINE_BYTES_MAX, FIELDS_MAX };
    struct refusal why = { .status = 503, .text = "out of memory" };
    int64_t len = parse_seek_end(&c->seek, c->in.data, c->in.len, &limits, &why);

    if (len == 0) {
        return;
    }
    if (len < 0 || !judge_head(c, (size_t)len, &limits, &why)) {
        turn_away(c, &why);
        return;
    }
    buf_consume(&c->in, (size_t)len);
    if (c->rq.body == BODY_TAR) {
        take_tar(c);
    } else {
        take_body(c);
    }
}

/* Of the archive, as much as may wait. */
static size_t upload_room(const struct conn *c)
{
    size_t room = c->up.len < RELAY_BYTES_MAX ? RELAY_BYTES_MAX - c->up.len : 0;

    return room < c->body_left ? room : (size_t)c->body_left;
}

static void on_client(struct conn *c)
{
    size_t before = c->up.len;
    char rest[64];

    if (c->state == HEAD || c->state == BODY) {
        if (end_read(&c->client, &c->in, PIECE) < 0) {
            conn_close(c);
        } else if (c->state == HEAD) {
            take_head(c);
        } else {
            take_body(c);
        }
    } else if (c->body_left > 0) {
        if (end_read(&c->client, &c->up, upload_room(c)) < 0) {
            conn_close(c);
        }
        c->body_left -= c->up.len - before;
    } else {
        ssize_t n = recv(c->client.fd, rest, sizeof(rest), MSG_DONTWAIT);

        if (c->state != END && n > 0) {
            log_stranger(FN_LOG_WARN, "bytes behind a request: connection closed");
        }
        if (n == 0 || (n > 0 && c->state != END) || (n < 0 && errno != EAGAIN)) {
            conn_close(c);
        }
    }
}

/* ---- from the engine ------------------------------------------------------------------------- */

static void learn_id(struct conn *c, const char *data, size_t len)
{
    char id[ID_BYTES + 1];

    if (c->rq.created && buf_add(&c->tap, data, len) == 0 &&
        known_created(buf_text(&c->tap), c->tap.len, id)) {
        known_add(&c->b->known, id, c->rq.created);
        c->rq.created = NULL;
    }
}

static void on_engine(struct conn *c)
{
    size_t before = c->down.len;
    int r;

    if (c->state == ASK) {
        r = end_read(&c->engine, &c->in, PIECE);
        if (r < 0) {
            asked(c);
        }
        return;
    }
    r = end_read(&c->engine, &c->down, RELAY_BYTES_MAX - before);
    if (r < 0) {
        end_close(&c->engine);
        c->state = END;
    } else if (r > 0) {
        learn_id(c, c->down.data + before, c->down.len - before);
    }
}

/* ---- each turn ------------------------------------------------------------------------------- */

static void set_deadline(struct conn *c)
{
    int64_t wait_ms = c->down.len > 0 || c->body_left > 0 || c->state == END ? ANSWER_MS
                                                                             : c->rq.silence_ms;

    if (c->state == RELAY || c->state == END) {
        c->until_ms = wait_ms > 0 ? now_ms() + wait_ms : 0;
    }
}

static void set_wants(struct conn *c)
{
    bool may_read = c->body_left == 0 || upload_room(c) > 0;

    end_want(&c->client, (may_read ? EPOLLIN : 0) | (c->down.len > 0 ? EPOLLOUT : 0));
    end_want(&c->engine, (c->state == ASK || c->down.len < RELAY_BYTES_MAX ? EPOLLIN : 0) |
                             (c->up.len > 0 ? EPOLLOUT : 0));
}

/* Writes what can be written, and waits for what is next. */
static void conn_turn(struct conn *c)
{
    if (c->dead) {
        return;
    }
    if (end_write(&c->client, &c->down) < 0) {
        conn_close(c);
    } else if (c->engine.fd >= 0 && end_write(&c->engine, &c->up) < 0) {
        buf_clear(&c->up); /* the engine is gone, or has answered without reading: it is read on */
    }
    if (!c->dead && c->state == END && c->down.len == 0) {
        conn_close(c);
    }
    if (!c->dead) {
        set_deadline(c);
        set_wants(c);
    }
}

static void conn_add(struct broker *b, int fd)
{
    struct conn *c = calloc(1, sizeof(*c));

    if (!c) {
        close(fd);
        return;
    }
    *c = (struct conn){ .b = b,
                        .client = { c, fd, 0, false },
                        .engine = { c, -1, 0, true },
                        .until_ms = now_ms() + REQUEST_MS,
                        .in = BUF_INIT(HEAD_BYTES_MAX + BODY_BYTES_MAX),
                        .up = BUF_INIT(LINE_BYTES_MAX + HEAD_BYTES_MAX + 2 * BODY_BYTES_MAX),
                        .down = BUF_INIT(2 * RELAY_BYTES_MAX),
                        .tap = BUF_INIT(TAP_BYTES) };
    arena_init(&c->arena, 16 * HEAD_BYTES_MAX);
    LIST_INSERT_HEAD(&b->conns, c, entry);
    b->n++;
    conn_turn(c);
}

static void on_listener(struct broker *b)
{
    struct ucred who;
    socklen_t len = sizeof(who);
    int fd = accept4(b->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.uid != b->config->user) {
        log_stranger(FN_LOG_WARN, "a user that may not connect", "uid", log_num(who.uid));
        close(fd);
    } else if (b->n >= b->max) {
        log_stranger(FN_LOG_WARN, "too many connections: one more is closed");
        close(fd);
    } else {
        conn_add(b, fd);
    }
}

static void end_late(struct broker *b)
{
    int64_t now = now_ms();
    struct conn *c, *next;

    for (c = LIST_FIRST(&b->conns); c; c = next) {
        next = LIST_NEXT(c, entry);
        if (c->until_ms > 0 && now > c->until_ms) {
            log_stranger(FN_LOG_WARN, "a connection is closed: too long without a byte", "request",
                         c->rq.row ? c->rq.before : "not whole");
            conn_close(c);
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Two descriptors each; without one the listener would never be quiet. */
static uint32_t conns_max(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur / 2 > CONNS_MAX + FILES_OTHER) {
        return CONNS_MAX;
    }
    return l.rlim_cur > 2 * FILES_OTHER ? (uint32_t)(l.rlim_cur / 2 - FILES_OTHER) : 1;
}

int broker_create(const struct broker_config *config, int listener, struct broker **ret)
{
    struct broker *b = calloc(1, sizeof(*b));
    struct epoll_event ev = { .events = EPOLLIN };

    if (!b) {
        return FN_E_EXHAUSTED;
    }
    b->config = config;
    b->listener = listener;
    b->max = conns_max();
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll < 0 || epoll_ctl(b->epoll, EPOLL_CTL_ADD, listener, &ev) < 0) {
        broker_destroy(b);
        return FN_E_EXHAUSTED;
    }
    *ret = b;
    return 0;
}

void broker_run(struct broker *b, const volatile int *stop)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t tick_ms = now_ms() + TICK_MS;

    while (!*stop) {
        int n = epoll_wait(b->epoll, events, EVENTS_MAX, TICK_MS);

        for (int i = 0; i < n; i++) {
            struct end *e = events[i].data.ptr;

            if (!e) {
                on_listener(b);
            } else if (e->fd >= 0) {
                struct conn *c = e->c;

                if (events[i].events & ~(uint32_t)EPOLLOUT) {
                    (e->is_engine ? on_engine : on_client)(c);
                }
                conn_turn(c);
            }
        }
        if (now_ms() >= tick_ms) {
            end_late(b);
            tick_ms = now_ms() + TICK_MS;
        }
        conns_bury(b);
    }
}

void broker_destroy(struct broker *b)
{
    struct conn *c;

    while ((c = LIST_FIRST(&b->conns))) {
        conn_close(c);
    }
    conns_bury(b);
    known_finish(&b->known);
    if (b->epoll >= 0) {
        close(b->epoll);
    }
    free(b);
}
