/* Clients that write what they want, seen by the server, and what it answers.
 *
 * Words of a script:
 *
 *   nH nHg nHt nHe nHn       headers of Engage: as they should be, with GET, text/plain,
 *   nHx nHs nHs.             grpc-encoding gzip, without te; of an unknown method, of one that
 *   nHb nHc nHf nHp nHo nHd  takes any message; of 40 KiB, with eight CONTINUATION frames, with
 *                            nine, padded, open, with a deadline of 1 us
 *   nH.                      headers with END_STREAM
 *   nT nTn nTh nTp nTs       TryCall whose session echoes; refuses; holds; padded; its first half
 *   nd nd+ ndL ne n0         Data "x", of 4000 and 30 000 bytes, with eof; empty DATA
 *   nU nB nZ nC n. ne.       unknown, no protobuf, 4 GiB, compressed; END_STREAM alone, with eof
 *   nR<c>                    RST_STREAM
 *   P A W E nM nK G X        as in diff_client.c; GOAWAY of the client */
#include "diff.h"

#include <rpc/raw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CALLS_MAX 9u

/* ---- the server ------------------------------------------------------------------------------ */

struct session {
    struct served_by *by;
    struct engage_session *s;
    unsigned call;
    char does; /* 'e', 'n', 'h' */
};

/* What the sessions of one script were told, by the number of the call. */
struct served_by {
    struct fixture *f;
    struct rpc_service service;
    uint32_t live;
    char told[CALLS_MAX + 1][64];
};

static void note(struct session *s, char c)
{
    char *told = s->by->told[s->call];
    size_t n = strlen(told);

    if (n + 1 < sizeof(s->by->told[0])) {
        told[n] = c;
    }
}

static void session_free(struct session *s)
{
    s->by->live--;
    fixture_notify(s->by->f);
    free(s);
}

static void answer(struct session *s, bool well)
{
    struct engage_start start = { .status = 200 };
    struct engage_finished fin = { .success = well, .error_code = well ? 0 : 503 };

    if (well) {
        s->by->f->table->send_start(s->s, &start);
        s->by->f->table->send_data(s->s, "answer", 6);
    }
    s->by->f->table->finish(s->s, &fin);
    session_free(s);
}

static int on_try(void *ud, struct engage_session *session, const struct engage_try *t,
                  int64_t deadline_ns, void **ret_ud)
{
    struct served_by *by = ud;
    struct session *s = calloc(1, sizeof(*s));

    (void)deadline_ns;
    ck_assert_uint_eq(t->call_json_len, 2);
    *s = (struct session){ .by = by, .s = session, .does = t->call_json[0],
                           .call = (unsigned)(t->call_json[1] - '0') };
    by->live++;
    note(s, 't');
    *ret_ud = s;
    if (s->does == 'n') {
        answer(s, false);
    } else {
        by->f->table->session_more(session);
    }
    return 0;
}

static void on_body(void *ud, const void *data, size_t len, bool eof)
{
    struct session *s = ud;

    (void)data;
    note(s, eof ? 'e' : len > 1 ? '+' : 'd');
    if (!eof) {
        s->by->f->table->session_more(s->s);
    } else if (s->does == 'e') {
        answer(s, true);
    }
}

static void on_writable(void *ud)
{
    (void)ud;
}

static void on_gone(void *ud)
{
    note(ud, 'g');
    session_free(ud);
}

static void on_status(void *ud, struct engage_ask *ask)
{
    (void)ud;
    ask->answer(ask, &(struct engage_status){ 0 });
}

static const struct engage_server_cb server_cb = { on_try, on_body, on_writable, on_gone,
                                                   on_status, NULL, NULL, NULL, NULL, NULL, NULL };

/* A method beside Engage: its calls are all the first one's. */
static void on_call(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    struct session s = { .by = ud, .call = 1 };

    (void)len;
    note(&s, data ? 'm' : 'c');
    rpc_incoming_end(in, 0, NULL);
}

static const struct rpc_method methods[] = { { "/diff.Service/Call", on_call }, { NULL, NULL } };

static bool all_gone(void *ud)
{
    return ((struct served_by *)ud)->live == 0;
}

/* ---- the client ------------------------------------------------------------------------------ */

struct client {
    struct raw_peer raw;
    bool slams;
    bool late;       /* it answers a ping, and begins another call */
    uint32_t goaway; /* the last stream that the server takes, as it says */
    char end[CALLS_MAX + 1][32]; /* grpc-status, or what came instead */
    char http[CALLS_MAX + 1][8];
    unsigned bytes[CALLS_MAX + 1];
};

static unsigned call_at(uint32_t stream)
{
    ck_assert(stream % 2 == 1 && stream < 2 * CALLS_MAX + 1);
    return stream / 2 + 1;
}

static void on_field(void *ud, uint32_t stream, const char *name, const char *value)
{
    struct client *k = ud;

    if (strcmp(name, "grpc-status") == 0) {
        snprintf(k->end[call_at(stream)], sizeof(k->end[0]), "%s", value);
    } else if (strcmp(name, ":status") == 0) {
        snprintf(k->http[call_at(stream)], sizeof(k->http[0]), "%.7s", value);
    }
}

static void begin_late(struct client *k);

static void on_frame(void *ud, const struct raw_frame *f)
{
    struct client *k = ud;
    char *end = f->stream > 0 ? k->end[call_at(f->stream)] : NULL;

    if (f->type == RAW_GOAWAY) {
        k->goaway = (uint32_t)f->payload[0] << 24 | (uint32_t)f->payload[1] << 16 |
                    (uint32_t)f->payload[2] << 8 | f->payload[3];
    } else if (f->type == RAW_PING && !(f->flags & RAW_ACK) && k->late) {
        k->late = false;
        begin_late(k);
    } else if (f->type == RAW_DATA) {
        k->bytes[call_at(f->stream)] += (unsigned)f->len;
    } else if (f->type == RAW_RST && !end[0]) {
        snprintf(end, sizeof(k->end[0]), "reset %u", f->payload[3]);
    } else if (f->type == RAW_HEADERS && f->flags & RAW_END_STREAM && !end[0]) {
        snprintf(end, sizeof(k->end[0]), "http %s", k->http[call_at(f->stream)]);
    }
}

static size_t request(unsigned char *b, char kind)
{
    size_t n = raw_field(b, ":method", kind == 'g' ? "GET" : "POST");

    n += raw_field(b + n, ":scheme", "http");
    n += raw_field(b + n, ":path", kind == 's' ? "/diff.Service/Call"
                                   : kind == 'x' ? "/Some/Other" : "/RunnerProtocol/Engage");
    n += raw_field(b + n, ":authority", "x");
    n += kind == 'n' ? 0 : raw_field(b + n, "te", "trailers");
    n += kind == 'e' ? raw_field(b + n, "grpc-encoding", "gzip") : 0;
    n += kind == 'd' ? raw_field(b + n, "grpc-timeout", "1u") : 0;
    return n + raw_field(b + n, "content-type", kind == 't' ? "text/plain" : "application/grpc");
}

static void act_headers(struct client *k, uint32_t id, const char *what)
{
    char kind = what[1];
    int more = kind == 'b' ? 5 : kind == 'c' ? 8 : kind == 'f' ? 9 : 0;
    unsigned flags = (strchr(what, '.') ? RAW_END_STREAM : 0) | (kind == 'p' ? RAW_PADDED : 0);
    unsigned char b[16384];
    size_t n = kind == 'p' ? 1 : 0;

    n += request(b + n, kind);
    if (kind == 'p') {
        b[0] = 7;
        memset(b + n, 0, 7);
        n += 7;
    }
    flags |= more > 0 || kind == 'o' ? 0 : RAW_END_HEADERS;
    raw_put(&k->raw, RAW_HEADERS, flags, id, b, n);
    for (int i = 1; i <= more; i++) {
        n = raw_big_field(b, "big", kind == 'b' ? 8000 : 1);
        raw_put(&k->raw, RAW_CONTINUATION, i == more ? RAW_END_HEADERS : 0, id, b, n);
    }
}

static bool act_try(struct client *k, uint32_t id, unsigned call, const char *what)
{
    char b[16] = { 0, 0, 0, 0, 6, 0x0a, 4, 0x0a, 2, 'e', (char)('0' + call) };
    size_t len = 11;

    if (what[0] != 'T') {
        return false;
    }
    b[9] = what[1] == 'n' || what[1] == 'h' ? what[1] : 'e';
    if (what[1] == 'p') {
        memmove(b + 1, b, len);
        b[0] = 2;
        len += 3;
    }
    len = what[1] == 's' ? 7 : len;
    raw_put(&k->raw, RAW_DATA, what[1] == 'p' ? RAW_PADDED : 0, id, b, len);
    return true;
}

#define WORD(w, bytes) { (w), (bytes), sizeof(bytes) - 1 }

static const struct diff_message messages[] = {
    WORD("d", "\0\0\0\0\5\x12\x03\x0a\x01x"),
    WORD("e", "\0\0\0\0\7\x12\x05\x0a\x01x\x10\x01"),
    WORD("e.", "\0\0\0\0\7\x12\x05\x0a\x01x\x10\x01"),
    WORD("U", "\0\0\0\0\4\x1a\x02\x08\x01"),
    WORD("B", "\0\0\0\0\3\x0a\x7f\x08"),
    WORD("Z", "\0\377\377\377\377"),
    WORD("C", "\1\0\0\0\1x"),
    WORD("0", ""),
    WORD(".", ""),
};

static void act_message(struct client *k, uint32_t id, const char *what)
{
    static const char big[4011] = "\0\0\0\x0f\xa6\x12\xa3\x1f\x0a\xa0\x1f";
    static const char large[30013] = "\0\0\0\x75\x38\x12\xb4\xea\x01\x0a\xb0\xea\x01";

    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        if (strcmp(what, messages[i].word) == 0) {
            raw_put(&k->raw, RAW_DATA, strchr(what, '.') ? RAW_END_STREAM : 0, id,
                    messages[i].bytes, messages[i].len);
            return;
        }
    }
    if (strcmp(what, "dL") == 0) {
        raw_put(&k->raw, RAW_DATA, 0, id, large, 16384);
        raw_put(&k->raw, RAW_DATA, 0, id, large + 16384, sizeof(large) - 16384);
    } else {
        ck_assert_msg(strcmp(what, "d+") == 0, "word %s", what);
        raw_put(&k->raw, RAW_DATA, 0, id, big, 1000);
        raw_put(&k->raw, RAW_DATA, 0, id, big + 1000, sizeof(big) - 1000);
    }
}

static void act_about_none(struct client *k, char what)
{
    if (what == 'P') {
        raw_put(&k->raw, RAW_PING, 0, 0, "whatever", 8);
    } else if (what == 'A') {
        raw_put(&k->raw, RAW_SETTINGS, 0, 0, NULL, 0);
    } else if (what == 'W') {
        raw_put(&k->raw, RAW_WINDOW, 0, 0, "\0\0\0\1", 4);
    } else if (what == 'E') {
        raw_put(&k->raw, 0xfb, 0, 0, "what", 4);
    } else if (what == 'G') {
        raw_put(&k->raw, RAW_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
    } else {
        ck_assert_msg(what == 'X', "word %c", what);
        k->slams = true;
    }
}

static void act(void *ud, unsigned call, const char *what)
{
    struct client *k = ud;
    uint32_t id = 2 * call - 1;

    if (call == 0) {
        act_about_none(k, what[0]);
    } else if (what[0] == 'H') {
        act_headers(k, id, what);
    } else if (what[0] == 'R') {
        raw_put(&k->raw, RAW_RST, 0, id, (char[]){ 0, 0, 0, (char)atoi(what + 1) }, 4);
    } else if (what[0] == 'M') {
        raw_put(&k->raw, RAW_PRIORITY, 0, id, "\0\0\0\0\20", 5);
    } else if (what[0] == 'K') {
        raw_put(&k->raw, RAW_CONTINUATION, RAW_END_HEADERS, id, "\x88", 1);
    } else if (!act_try(k, id, call, what)) {
        act_message(k, id, what);
    }
}

static void begin_late(struct client *k)
{
    diff_play("2H 2Tn", act, k);
}

/* ---- one script ------------------------------------------------------------------------------ */

static bool always(void *ud)
{
    (void)ud;
    return true;
}

static bool first_has_ended(void *ud)
{
    return ((struct client *)ud)->end[1][0] != '\0';
}

struct outcome {
    char end[32], told[64];
    unsigned bytes;
};

/* "0 57 te": how the call ended at the client, bytes of its answer, what its session was told. */
static void describe(const struct outcome *all, unsigned n, char *ret)
{
    size_t len = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        len += (size_t)snprintf(ret + len, DIFF_TEXT_MAX - len, "%s%s %u%s%s", i ? " | " : "",
                                all[i].end, all[i].bytes, all[i].told[0] ? " " : "", all[i].told);
    }
}

static void outcomes(const struct client *k, const struct served_by *by,
                     struct outcome ret[CALLS_MAX])
{
    for (unsigned i = 1; i <= CALLS_MAX; i++) {
        struct outcome *o = &ret[i - 1];

        snprintf(o->end, sizeof(o->end), "%s", k->end[i][0] ? k->end[i] : "none");
        snprintf(o->told, sizeof(o->told), "%s", by->told[i]);
        o->bytes = k->bytes[i];
    }
}

static void client_open(struct client *k, struct fixture *f, struct served_by *by)
{
    *k = (struct client){ 0 };
    memset(by->told, 0, sizeof(by->told));
    raw_peer_init(&k->raw, raw_dial(f->address + strlen("unix:")), true);
    k->raw.ud = k;
    k->raw.frame = on_frame;
    k->raw.field = on_field;
    raw_put(&k->raw, RAW_SETTINGS, 0, 0, NULL, 0);
    raw_sync(&k->raw);
    raw_run(&k->raw, always, NULL);
}

static void play(struct fixture *f, struct served_by *by, const char *script,
                 struct outcome ret[CALLS_MAX])
{
    struct client k;

    client_open(&k, f, by);
    loop_enter(f->loop); /* so that what fits into the socket is one read */
    diff_play(script, act, &k);
    if (k.raw.out.len < 100000) {
        ck_assert_int_eq(send(k.raw.fd, k.raw.out.data, k.raw.out.len, MSG_NOSIGNAL),
                         (ssize_t)k.raw.out.len);
        buf_clear(&k.raw.out);
    }
    loop_leave(f->loop);
    for (int i = 0; i < 3 && !k.slams && !k.raw.closed; i++) { /* answers go out in later turns */
        raw_sync(&k.raw);
    }
    if (strstr(script, "Hd")) {
        raw_run(&k.raw, first_has_ended, &k);
    }
    raw_close(&k.raw);
    WAIT(f, all_gone, by);
    outcomes(&k, by, ret);
    raw_peer_finish(&k.raw);
}

static struct fixture *server_fixture(enum diff_transport t, struct served_by *by)
{
    struct fixture *f = diff_fixture(t);
    struct fn_error err = ERR_INIT;

    *by = (struct served_by){ .f = f, .service = { .methods = methods, .ud = by } };
    loop_enter(f->loop);
    ck_assert_msg(rpc_server_open(f->rpc, f->address, &server_cb, by, &f->server, &err) == 0, "%s",
                  err.msg);
    rpc_server_serve(f->server, &by->service);
    loop_leave(f->loop);
    return f;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct diff_row rows[] = {
    { "a call", "1H 1T 1d 1e", "0 37 tde", NULL, NULL },
    { "a call that is closed", "1H 1T 1d 1e.", "0 37 tde", NULL, NULL },
    { "a call that is refused", "1H 1Tn", "0 10 t", NULL, NULL },
    { "a call that is held", "1H 1Th 1d 1e.", "none 0 tdeg", NULL, NULL },
    { "two calls, mixed", "1H 2H 2T 1T 1d 2e. 1e", "0 37 tde | 0 37 te", NULL, NULL },
    { "no message", "1H.", "3 0", NULL, NULL },
    { "half-close first", "1H 1.", "3 0", NULL, NULL },
    { "half-close in the body", "1H 1T 1d 1.", "3 0 tdg", NULL, NULL },
    { "half a message, then closed", "1H 1Ts X", "none 0", NULL, NULL },
    { "half a message, then half-closed", "1H 1Ts 1.", "13 0", "3 0",
      "C core takes no notice of the half, the session of the rest" },
    { "Data first", "1H 1d", "3 0", NULL, NULL },
    { "TryCall twice", "1H 1T 1T", "3 0 tg", NULL, NULL },
    { "no protobuf", "1H 1B", "13 0", NULL, NULL },
    { "no protobuf as body", "1H 1T 1B", "13 0 tg", NULL, NULL },
    { "unknown messages", "1H 1T 1U 1U 1e", "0 37 te", NULL, NULL },
    { "too many unknown messages", "1H 1T 1U*40", "3 0 tg", NULL, NULL },
    { "too large", "1H 1Z", "8 0", NULL, NULL },
    { "too large a body", "1H 1T 1d 1Z", "8 0 tdg", NULL, NULL },
    { "too large, and the end", "1H 1T 1Z 1.", "8 0 tg", NULL, NULL },
    { "compressed", "1H 1C", "13 0", NULL, NULL },
    { "a compressed body", "1H 1T 1C", "13 0 tg", NULL, NULL },
    { "large data", "1H 1T 1d+ 1d+ 1e", "0 37 t++e", NULL, NULL },
    { "padded DATA", "1H 1Tp 1e", "0 37 te", "1 0", "C core does not know padding" },
    { "padded headers", "1Hp 1T 1e", "0 37 te", "2 0", "C core does not know padding" },
    { "empty DATA in between", "1H 10 1T 10 1e", "0 37 te", NULL, NULL },
    { "more behind eof", "1H 1T 1e 1d 1d", "0 37 te", NULL, NULL },
    { "more behind the end", "1H 1Th 1e. 1d", "none 0 teg", NULL, NULL },
    { "the end twice", "1H 1T 1e. 1.", "none 0 te", "0 37 te",
      "C core takes no notice of the second; it is an error of the connection" },
    { "GET", "1Hg 1T 1e", "http 405 0", "2 0", "C core answers in gRPC" },
    { "bad content-type", "1Ht", "http 415 0", "none 0",
      "C core's server does not look at it, and waits" },
    { "bad content-type and a call", "1Ht 1T 1e", "http 415 0", "0 37 te",
      "C core's server does not look at it" },
    { "grpc-encoding", "1He 1T 1e", "12 0", "0 37 te",
      "C core's server does not look at it; a compressed message is refused" },
    { "no te", "1Hn 1T 1e", "0 37 te", "2 0", "C core insists on it, as gRPC says" },
    { "unknown method", "1Hx 1T 1e", "12 0", NULL, NULL },
    { "any method", "1Hs 1T", "0 0 m", NULL, NULL },
    { "any method, no message", "1Hs.", "0 0 c", NULL, NULL },
    { "any method, half-closed", "1Hs 1.", "0 0 c", NULL, NULL },
    { "any method, cancelled", "1Hs 1R8", "none 0", NULL, NULL },
    { "any method, closed", "1Hs X", "none 0", NULL, NULL },
    { "any method, half a message, closed", "1Hs 1Ts X", "none 0", NULL, NULL },
    { "any method, half a message, reset", "1Hs 1Ts 1R8", "none 0", NULL, NULL },
    { "any method and an illegal frame", "1Hs 1K", "none 0", "14 0",
      "C core ends its calls before the connection" },
    { "any method and a window overrun", "1Hs 2H 2Th 2dL*4", "none 0 | none 0 t++++g",
      "none 0 | 1 0 t++g or none 0 | none 0 t++++g",
      "C core ends a connection whose window one read overruns" },
    { "a window overrun", "1H 1Th 1dL*4", "none 0 t++++g", "1 0 t++g or none 0 t++++g",
      "C core ends a connection whose window one read overruns" },
    { "a deadline that is over", "1Hd", "reset 8 0", "4 0",
      "the same verdict, told with trailers" },
    { "headers above 32 KiB", "1Hb 1T 1e 2H 2Tn", "8 0 | 0 10 t", "0 37 te | 0 10 t",
      "C core counts each frame for itself" },
    { "headers in eight CONTINUATIONs", "1Hc 1T 1e", "0 37 te", NULL, NULL },
    { "headers in nine CONTINUATIONs", "1Hf 1T 1e", "none 0", "0 37 te",
      "the connection ends behind what came in the same read" },
    { "headers in open headers", "1Ho 2H", "none 0 | none 0", "14 0 | none 0",
      "C core ends its calls before the connection" },
    { "CONTINUATION alone", "1K", "none 0", NULL, NULL },
    { "DATA without headers", "1d", "none 0", NULL, NULL },
    { "headers twice", "1H 1Th 1H", "reset 1 0 tg", "14 0",
      "C core ends its calls before the connection" },
    { "ids backwards", "2H 2Th 1H 1T", "none 0 | none 0 tg", NULL, NULL },
    { "cancelled at once", "1H 1R8", "none 0", NULL, NULL },
    { "cancelled behind TryCall", "1H 1Th 1R8", "none 0 tg", "none 0",
      "C core drops a call that is cancelled in the same read, or what it has not answered" },
    { "cancelled behind its body", "1H 1Th 1d 1e 1R8", "none 0 tdeg", "none 0",
      "C core drops a call that is cancelled in the same read, or what it has not answered" },
    { "cancelled when it is over", "1H 1T 1e 1R8", "none 0 te", "none 0",
      "C core drops a call that is cancelled in the same read, or what it has not answered" },
    { "cancelled twice", "1H 1Th 1R8 1R8 2H 2Tn", "none 0 tg | 0 10 t", "none 0 | 0 10 t",
      "C core drops a call that is cancelled in the same read, or what it has not answered" },
    { "one of two cancelled", "1H 2H 1Th 2T 1R8 2e", "none 0 tg | 0 37 te", "none 0 | 0 37 te",
      "C core drops a call that is cancelled in the same read, or what it has not answered" },
    { "a reset of nothing", "1R8 2H 2Tn", "none 0 | none 0", "none 0 | 0 10 t",
      "C core takes no notice; it is an error of the connection" },
    { "closed behind TryCall", "1H 1Th X", "none 0 tg", NULL, NULL },
    { "closed behind its body", "1H 1Th 1d 1d 1e X", "none 0 tddeg", NULL, NULL },
    { "closed behind a call", "1H 1T 1e X", "0 37 te", NULL, NULL },
    { "GOAWAY of a client", "1H 1T G 1e", "0 37 te", NULL, NULL },
    { "a call behind its GOAWAY", "G 1H 1T 1e", "0 37 te", NULL, NULL },
    { "control frames in between", "1H P 1T A 1d W E 1M 1e", "0 37 tde", NULL, NULL },
    { "a flood of pings", "1H 1T P*6000 1e", "none 0 tg", "0 37 te",
      "the connection ends behind what came in the same read" },
    { "a flood of settings", "1H 1T A*6000 1e", "none 0 tg", "0 37 te",
      "the connection ends behind what came in the same read" },
    { "a flood of empty DATA", "1H 1T 10*6000 1e", "none 0 tg", "0 37 te",
      "the connection ends behind what came in the same read" },
    { "a flood of resets", "1H 1Th 1R8*21000", "none 0 tg", "none 0",
      "C core drops a call that is cancelled in the same read, or what it has not answered" },
    { "a flood of PRIORITY", "1H 1T 1M*6000 1e", "none 0 tg", "0 37 te",
      "the connection ends behind what came in the same read" },
};

static unsigned calls_of(const char *script)
{
    return strchr(script, '2') && strstr(script, "2H") ? 2 : 1;
}

START_TEST(test_rows)
{
    struct served_by by;
    struct fixture *f = server_fixture((enum diff_transport)_i, &by);
    struct outcome all[CALLS_MAX];
    char got[DIFF_TEXT_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        play(f, &by, rows[i].script, all);
        describe(all, calls_of(rows[i].script), got);
        diff_compare(&rows[i], (enum diff_transport)_i, got);
    }
    fixture_server_close(f);
    fixture_destroy(f);
}
END_TEST

/* ---- a drain --------------------------------------------------------------------------------- */

static void on_drained(void *ud)
{
    struct fixture *f = ud;

    f->drained = true;
    fixture_notify(f);
}

static bool is_drained(void *ud)
{
    return ((struct fixture *)ud)->drained;
}

static bool says_its_last(void *ud)
{
    const struct client *k = ud;

    return k->goaway > 0 && k->goaway < INT32_MAX;
}

/* A call that comes in one piece with what ends a drain's first part: the server has said by then,
 * or says, which is its last stream, and for the client that is a proof. Once the server took such
 * a call all the same. */
START_TEST(test_drained_behind_its_last)
{
    struct served_by by;
    struct fixture *f = server_fixture((enum diff_transport)_i, &by);
    struct client k;

    client_open(&k, f, &by);
    diff_play("1H 1Th", act, &k);
    raw_sync(&k.raw);
    k.late = true;
    f->drained = false;
    loop_enter(f->loop);
    rpc_server_drain(f->server, on_drained, f);
    loop_leave(f->loop);
    raw_run(&k.raw, says_its_last, &k);
    raw_sync(&k.raw);
    ck_assert_uint_eq(k.goaway, 1);
    ck_assert_str_eq(by.told[2], "");
    raw_close(&k.raw);
    WAIT(f, all_gone, &by);
    WAIT(f, is_drained, f);
    raw_peer_finish(&k.raw);
    fixture_server_close(f);
    fixture_destroy(f);
}
END_TEST

/* ---- by chance ------------------------------------------------------------------------------- */

#define SEEDS        300
#define CHANCE_CALLS 3u
#define WORDS_MAX    12u

static size_t chance_call(uint64_t *seed, const char *ret[WORDS_MAX])
{
    static const char *const heads[] = { "H", "H", "H", "H", "H", "Hc", "Hx", "H." };
    static const char *const tries[] = { "T", "T", "T", "T", "Tn", "Th", "d", "B", "U", "Z", "C" };
    static const char *const bodies[] = { "d", "d", "d", "d+", "U", "0", "B", "T", "C", "Z" };
    static const char *const ends[] = { "e", "e", "e.", "e.", ".", "R8" };
    size_t n = 0;

    ret[n++] = heads[diff_random(seed, 8)];
    if (strcmp(ret[0], "H.") == 0) {
        return n;
    }
    ret[n++] = tries[diff_random(seed, 11)];
    for (uint32_t k = diff_random(seed, 5); k > 0; k--) {
        ret[n++] = bodies[diff_random(seed, diff_random(seed, 3) ? 4 : 10)];
    }
    if (diff_random(seed, 6)) {
        ret[n++] = ends[diff_random(seed, 6)];
    }
    return n;
}

/* The calls' words in a mixed order, their headers first, with others in between. */
static void chance(uint64_t seed, char *ret, size_t cap)
{
    static const char *const others[] = { "P", "A", "W", "E", "1M", "G" };
    const char *words[CHANCE_CALLS][WORDS_MAX];
    size_t n[CHANCE_CALLS], at[CHANCE_CALLS], len = 0, left = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < CHANCE_CALLS; i++) {
        n[i] = chance_call(&seed, words[i]);
        at[i] = 1;
        left += n[i] - 1;
        len += (size_t)snprintf(ret + len, cap - len, "%u%s ", i + 1, words[i][0]);
    }
    while (left > 0) {
        unsigned i = diff_random(&seed, CHANCE_CALLS);

        if (at[i] == n[i]) {
            continue;
        }
        left--;
        len += (size_t)snprintf(ret + len, cap - len, "%u%s ", i + 1, words[i][at[i]++]);
        if (diff_random(&seed, 12) == 0) {
            len += (size_t)snprintf(ret + len, cap - len, "%s ", others[diff_random(&seed, 6)]);
        }
    }
    snprintf(ret + len, cap - len, "%s", diff_random(&seed, 3) ? "P" : "X");
}

/* What differs by right: a call that is cancelled, and one of which a message cannot be taken and
 * the end comes as well. */
static void look_for_reason(void *ud, unsigned call, const char *what)
{
    unsigned *wanted = ud;

    if (call == *wanted && (what[0] == 'R' || what[0] == 'Z' || what[0] == 'C')) {
        *wanted = 0;
    }
}

static void compare(uint64_t seed, const char *script, const struct outcome *h2,
                    const struct outcome *core)
{
    for (unsigned i = 0; i < CHANCE_CALLS; i++) {
        unsigned call = i + 1;
        bool same = strcmp(h2[i].end, core[i].end) == 0 && h2[i].bytes == core[i].bytes &&
                    strcmp(h2[i].told, core[i].told) == 0;

        diff_play(script, look_for_reason, &call);
        ck_assert_msg(same || call == 0, "seed %llu, call %u: %s: %s %u %s, over core %s %u %s",
                      (unsigned long long)seed, i + 1, script, h2[i].end, h2[i].bytes, h2[i].told,
                      core[i].end, core[i].bytes, core[i].told);
        ck_assert_msg(strncmp(h2[i].told, core[i].told, strcspn(core[i].told, "g")) == 0,
                      "seed %llu, call %u: %s: its session was told %s, over core %s",
                      (unsigned long long)seed, i + 1, script, h2[i].told, core[i].told);
    }
}

START_TEST(test_chance)
{
    struct served_by by[DIFF_TRANSPORTS_N];
    struct fixture *f[DIFF_TRANSPORTS_N];
    struct outcome all[DIFF_TRANSPORTS_N][CALLS_MAX];
    char script[512];

    for (int t = 0; t < DIFF_TRANSPORTS_N; t++) {
        f[t] = server_fixture((enum diff_transport)t, &by[t]);
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        chance(seed, script, sizeof(script));
        for (int t = 0; t < DIFF_TRANSPORTS_N; t++) {
            play(f[t], &by[t], script, all[t]);
        }
        compare(seed, script, all[DIFF_NGHTTP2], all[DIFF_CORE]);
    }
    for (int t = 0; t < DIFF_TRANSPORTS_N; t++) {
        fixture_server_close(f[t]);
        fixture_destroy(f[t]);
    }
}
END_TEST

TCase *diff_server_case(void)
{
    TCase *tc = tcase_create("server");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_rows, 0, DIFF_TRANSPORTS_N);
    tcase_add_loop_test(tc, test_drained_behind_its_last, 0, DIFF_TRANSPORTS_N);
    tcase_add_test(tc, test_chance);
    return tc;
}
