/* Runners that write what they want, seen by the client.
 *
 * Words of a script; the calls were begun, and the runner has read all of them unless its settings
 * let no DATA in:
 *
 *   nH nHt nH5 nH1 nHb nHp      headers: as they should be, text/html, status 503, status 103, of
 *   nHc nHf nHo                 40 KiB, padded; with eight CONTINUATION frames, with nine, open
 *   nS nD nF nN nU nB           CallResultStart, Data "hi", CallFinished, a NACK, a message of
 *                               unknown kind, bytes that are no protobuf
 *   nDp nD+ nSh nL nZ nC n0 n.  Data padded, of 30 000 bytes, Start's first half, Start in two
 *                               frames, the prefix of 4 GiB, a compressed message, empty DATA,
 *                               DATA with END_STREAM
 *   nT<s> nT                    trailers with this grpc-status; with none
 *   nO<s> nO                    the same as the only headers
 *   nOl                         the same; they say what a refused stream's end says
 *   nR<c> nR<c>+                RST_STREAM; one byte too long
 *   nGb nGa nGe nGs G           GOAWAY with the id below the call's, the call's, one of a server's,
 *                               with the call's as its stream; with 2^31-1
 *   P A W E nM                  PING, empty SETTINGS, WINDOW_UPDATE of 1, an unknown frame,
 *                               PRIORITY
 *   nK                          CONTINUATION without HEADERS
 *   X                           closes at once, not behind the answer to a ping */
#include "diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALLS_MAX 3u

/* ---- what is heard --------------------------------------------------------------------------- */

struct heard {
    struct fixture *f;
    struct engage_attempt *attempt;
    bool ended, legal;
    int status;
    enum engage_proof proof;
    char messages[64];
};

static void note(struct heard *h, char c)
{
    size_t n = strlen(h->messages);

    if (n + 1 < sizeof(h->messages)) {
        h->messages[n] = c;
    }
}

static void on_start(void *ud, const struct engage_start *start)
{
    (void)start;
    note(ud, 'S');
}

static void on_data(void *ud, const void *data, size_t len)
{
    (void)data;
    note(ud, len == 2 ? 'D' : '+');
}

static void on_finished(void *ud, const struct engage_finished *fin)
{
    note(ud, fin->success ? 'F' : 'N');
}

static void on_end(void *ud, int status, const char *text, enum engage_proof proof, bool legal)
{
    struct heard *h = ud;

    (void)text;
    h->ended = true;
    h->status = status;
    h->proof = proof;
    h->legal = legal;
    h->f->client->attempt_close(h->attempt);
    fixture_notify(h->f);
}

static const struct engage_client_cb heard_cb = { on_start, on_data, on_finished, on_end };

static bool is_ended(void *ud)
{
    return ((struct heard *)ud)->ended;
}

/* "14 refused legal S": status, proof, legality, messages. */
static void describe(const struct heard *calls, unsigned n, char *ret)
{
    static const char *const proofs[] = { [ENGAGE_PROOF_NONE] = "none",
                                          [ENGAGE_PROOF_NOT_SENT] = "not-sent",
                                          [ENGAGE_PROOF_REFUSED] = "refused",
                                          [ENGAGE_PROOF_FULL] = "full" };
    size_t len = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        len += (size_t)snprintf(ret + len, DIFF_TEXT_MAX - len, "%s%d %s %s%s%s", i ? " | " : "",
                                calls[i].status, proofs[calls[i].proof],
                                calls[i].legal ? "legal" : "illegal",
                                calls[i].messages[0] ? " " : "", calls[i].messages);
    }
}

/* ---- the runner ------------------------------------------------------------------------------ */

struct runner {
    struct raw_peer raw;
    unsigned calls;  /* whose HEADERS came */
    unsigned whole;  /* whose last byte came */
    unsigned wanted;
    bool no_window;
    bool one_stream; /* is allowed at a time */
    bool slams;
    uint32_t ids[CALLS_MAX + 1];
};

static void on_frame(void *ud, const struct raw_frame *f)
{
    struct runner *r = ud;

    if (f->type == RAW_HEADERS) {
        ck_assert_uint_lt(r->calls, CALLS_MAX);
        r->ids[++r->calls] = f->stream;
    }
    if ((f->type == RAW_HEADERS || f->type == RAW_DATA) && f->flags & RAW_END_STREAM) {
        r->whole++;
    }
}

static bool has_calls(void *ud)
{
    struct runner *r = ud;

    return r->no_window ? r->calls == r->wanted : r->whole == r->wanted;
}

#define OK_HEADERS "\x88" /* :status 200 */

static size_t grpc_headers(unsigned char *b, const char *status, const char *type)
{
    size_t n = raw_field(b, ":status", status);

    return n + raw_field(b + n, "content-type", type);
}

static void act_headers(struct runner *r, uint32_t id, const char *kind)
{
    unsigned char b[16384];
    int more = kind[0] == 'b' ? 5 : kind[0] == 'c' ? 8 : kind[0] == 'f' ? 9 : 0;
    unsigned flags = RAW_END_HEADERS;
    size_t n = kind[0] == 'p' ? 1 : 0;

    n += grpc_headers(b + n, kind[0] == '5' ? "503" : kind[0] == '1' ? "103" : "200",
                      kind[0] == 't' ? "text/html" : "application/grpc");
    if (kind[0] == 'p') {
        b[0] = 7;
        memset(b + n, 0, 7);
        n += 7;
        flags |= RAW_PADDED;
    }
    if (!kind[0] || !strchr("bcfo", kind[0])) {
        raw_put(&r->raw, RAW_HEADERS, flags, id, b, n);
        return;
    }
    raw_put(&r->raw, RAW_HEADERS, 0, id, b, n);
    for (int i = 1; i <= more; i++) {
        n = raw_big_field(b, "big", kind[0] == 'b' ? 8000 : 1);
        raw_put(&r->raw, RAW_CONTINUATION, i == more ? RAW_END_HEADERS : 0, id, b, n);
    }
}

static void act_trailers(struct runner *r, uint32_t id, bool only, const char *status)
{
    bool lies = status[0] == 'l';
    unsigned char b[512];
    size_t n = only ? grpc_headers(b, "200", "application/grpc") : 0;

    if (status[0]) {
        n += raw_field(b + n, "grpc-status", lies ? "14" : status);
    }
    n += raw_field(b + n, "grpc-message", lies ? "Received RST_STREAM with error code 7" : "text");
    raw_put(&r->raw, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, id, b, n);
}

#define WORD(w, bytes) { (w), (bytes), sizeof(bytes) - 1 }

static const struct diff_message messages[] = {
    WORD("S", "\0\0\0\0\10\x0a\x06\xa2\x06\x03\x08\xc8\x01"),
    WORD("D", "\0\0\0\0\6\x12\x04\x0a\x02hi"),
    WORD("F", "\0\0\0\0\4\x1a\x02\x08\x01"),
    WORD("N", "\0\0\0\0\5\x1a\x03\x18\xf7\x03"),
    WORD("U", "\0\0\0\0\4\x22\x02\x08\x01"),
    WORD("B", "\0\0\0\0\3\x1a\x7f\x08"),
    WORD("Sh", "\0\0\0\0\10\x0a\x06\xa2"),
    WORD("Z", "\0\377\377\377\377"),
    WORD("C", "\1\0\0\0\1x"),
    WORD("0", ""),
};

static bool act_message(struct runner *r, uint32_t id, const char *what)
{
    static const char padded[] = "\3\0\0\0\0\6\x12\x04\x0a\x02hi\0\0\0";
    static const char start[] = "\0\0\0\0\10\x0a\x06\xa2\x06\x03\x08\xc8\x01";

    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        if (strcmp(what, messages[i].word) == 0) {
            raw_put(&r->raw, RAW_DATA, 0, id, messages[i].bytes, messages[i].len);
            return true;
        }
    }
    if (strcmp(what, "Dp") == 0) {
        raw_put(&r->raw, RAW_DATA, RAW_PADDED, id, padded, sizeof(padded) - 1);
    } else if (strcmp(what, "L") == 0) {
        raw_put(&r->raw, RAW_DATA, 0, id, start, 3);
        raw_put(&r->raw, RAW_DATA, 0, id, start + 3, sizeof(start) - 4);
    } else if (strcmp(what, "D+") == 0) {
        static char bytes[30013] = "\0\0\0\x75\x38\x12\xb4\xea\x01\x0a\xb0\xea\x01";

        for (size_t at = 0; at < sizeof(bytes); at += 16384) {
            size_t n = sizeof(bytes) - at < 16384 ? sizeof(bytes) - at : 16384;

            raw_put(&r->raw, RAW_DATA, 0, id, bytes + at, n);
        }
    } else {
        return false;
    }
    return true;
}

static void act_goaway(struct runner *r, const char *what, uint32_t id)
{
    uint32_t last = what[1] == 'a' ? id : what[1] == 'e' ? id + 1 : id > 1 ? id - 2 : 0;
    unsigned char b[8] = { 0, 0, 0, (unsigned char)last };

    if (what[1] == '\0') {
        memcpy(b, "\177\377\377\377", 4);
    }
    raw_put(&r->raw, RAW_GOAWAY, 0, what[1] == 's' ? id : 0, b, sizeof(b));
}

static void act_reset(struct runner *r, const char *what, uint32_t id)
{
    unsigned char b[5] = { 0, 0, 0, (unsigned char)atoi(what + 1) };

    raw_put(&r->raw, RAW_RST, 0, id, b, strchr(what, '+') ? 5 : 4);
}

static bool act_about_none(struct runner *r, char what)
{
    switch (what) {
    case 'G':
        act_goaway(r, "G", 0);
        return true;
    case 'P':
        raw_put(&r->raw, RAW_PING, 0, 0, "whatever", 8);
        return true;
    case 'A':
        raw_put(&r->raw, RAW_SETTINGS, 0, 0, NULL, 0);
        return true;
    case 'W':
        raw_put(&r->raw, RAW_WINDOW, 0, 0, "\0\0\0\1", 4);
        return true;
    case 'E':
        raw_put(&r->raw, 0xfb, 0, 0, "what", 4);
        return true;
    case 'X':
        r->slams = true;
        return true;
    default:
        return false;
    }
}

static void act(void *ud, unsigned call, const char *what)
{
    struct runner *r = ud;
    uint32_t id = r->ids[call];

    ck_assert(call == 0 || id > 0);
    if (what[0] == 'H') {
        act_headers(r, id, what + 1);
    } else if (what[0] == 'T' || what[0] == 'O') {
        act_trailers(r, id, what[0] == 'O', what + 1);
    } else if (what[0] == 'R') {
        act_reset(r, what, id);
    } else if (what[0] == '.') {
        raw_put(&r->raw, RAW_DATA, RAW_END_STREAM, id, NULL, 0);
    } else if (what[0] == 'K') {
        raw_put(&r->raw, RAW_CONTINUATION, RAW_END_HEADERS, id, "\x88", 1);
    } else if (what[0] == 'M') {
        raw_put(&r->raw, RAW_PRIORITY, 0, id, "\0\0\0\0\20", 5);
    } else if (call > 0 && what[0] == 'G') {
        act_goaway(r, what, id);
    } else {
        ck_assert_msg(call > 0 ? act_message(r, id, what) : act_about_none(r, what[0]), "word %s",
                      what);
    }
}

/* ---- one script ------------------------------------------------------------------------------ */

static void begin(struct heard *h, struct fixture *f)
{
    struct engage_try t = { .call_json = "any", .call_json_len = 3, .slot_hash_id = "" };
    struct body *body;

    *h = (struct heard){ .f = f };
    loop_enter(f->loop);
    body = body_create(NULL, 0);
    ck_assert_int_eq(body_append(body, "body", 4), 0);
    h->attempt = f->client->attempt(f->link, &t, body, 0, &heard_cb, h);
    ck_assert_ptr_nonnull(h->attempt);
    body_unref(body);
    loop_leave(f->loop);
}

static void settle(struct runner *r, struct fixture *f, const char *path)
{
    static const char no_window[] = "\0\4\0\0\0\0", one_stream[] = "\0\3\0\0\0\1";
    const char *settings = r->no_window ? no_window : r->one_stream ? one_stream : NULL;
    int listener = raw_listen(path);

    fixture_link_open(f, f->address);
    raw_peer_init(&r->raw, raw_accept(listener), false);
    close(listener);
    unlink(path);
    r->raw.frame = on_frame;
    r->raw.ud = r;
    raw_put(&r->raw, RAW_SETTINGS, 0, 0, settings, settings ? 6 : 0);
    raw_sync(&r->raw);
    WAIT(f, is_up, f);
}

static void leave(struct runner *r, struct fixture *f)
{
    loop_enter(f->loop);
    f->client->link_close(f->link);
    f->link = NULL;
    loop_leave(f->loop);
    raw_peer_finish(&r->raw);
}

/* What the calls hear; "0:" in front of the script: no DATA is let in. */
static void play(struct fixture *f, unsigned calls_n, const char *script,
                 struct heard calls[CALLS_MAX])
{
    struct runner r = { .wanted = calls_n };

    r.no_window = strncmp(script, "0:", 2) == 0;
    settle(&r, f, f->address + strlen("unix:"));
    for (unsigned i = 0; i < calls_n; i++) {
        begin(&calls[i], f);
    }
    raw_run(&r.raw, has_calls, &r);
    loop_enter(f->loop); /* so that what fits into the socket is one read */
    diff_play(script + (r.no_window ? 2 : 0), act, &r);
    ck_assert(r.raw.out.len > 0 || r.slams);
    if (r.raw.out.len < 100000) {
        ck_assert_int_eq(send(r.raw.fd, r.raw.out.data, r.raw.out.len, MSG_NOSIGNAL),
                         (ssize_t)r.raw.out.len);
        buf_clear(&r.raw.out);
    }
    loop_leave(f->loop);
    if (!r.slams && !r.raw.closed) {
        raw_sync(&r.raw);
    }
    raw_close(&r.raw);
    for (unsigned i = 0; i < calls_n; i++) {
        WAIT(f, is_ended, &calls[i]);
    }
    leave(&r, f);
}

static unsigned calls_of(const char *script)
{
    unsigned n = 1;

    for (const char *p = script; *p; p++) {
        bool begins = p == script || p[-1] == ' ' || p[-1] == ':';

        if (begins && *p > '1' && *p <= '9') {
            n = (unsigned)(*p - '0') > n ? (unsigned)(*p - '0') : n;
        }
    }
    return n;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct diff_row rows[] = {
    { "an answer", "1H 1S 1D 1F 1T0", "0 none legal SDF", NULL, NULL },
    { "a NACK", "1H 1N 1T0", "0 none legal N", NULL, NULL },
    { "two answers, mixed", "2H 1H 1S 2S 2D 1D 1D 2F 1F 1T0 2T0",
      "0 none legal SDDF | 0 none legal SDF", NULL, NULL },
    { "trailers only", "1O14", "14 none legal", NULL, NULL },
    { "trailers only, status 0", "1O0", "13 none legal", NULL, NULL },
    { "trailers that lie about a refusal", "1Ol", "14 none legal", NULL, NULL },
    { "the same behind headers", "1H 1Tl", "14 none legal", NULL, NULL },
    { "trailers that lie, then a reset", "1Ol 1R7", "14 none legal", NULL, NULL },
    { "refused", "1R7", "14 refused legal", NULL, NULL },
    { "refused twice", "1R7 1R7", "14 refused legal", NULL, NULL },
    { "refused, then answered", "1R7 1H 1S 1T0", "14 refused legal", "14 none legal",
      "what came behind it in the same read counts as an answer" },
    { "refused behind headers", "1H 1R7", "14 none legal", NULL, NULL },
    { "refused behind padded headers", "1Hp 1R7", "14 none legal", "2 none legal",
      "C core does not know padding" },
    { "refused behind headers in pieces", "1Hc 1R7", "14 none legal", NULL, NULL },
    { "refused behind a message", "1H 1S 1R7", "14 none legal S", NULL, NULL },
    { "refused behind Finished", "1H 1S 1F 1R7", "14 none legal SF", NULL, NULL },
    { "refused behind status 103", "1H1 1R7", "14 refused legal", "2 none legal",
      "C core takes the first headers for the answer's" },
    { "status 103, then an answer", "1H1 1H 1S 1F 1T0", "0 none legal SF", "2 none legal",
      "C core takes the first headers for the answer's" },
    { "refused behind DATA without headers", "1S 1R7", "14 none legal", NULL, NULL },
    { "refused behind empty DATA", "10 1R7", "14 none legal", NULL, NULL },
    { "refused behind the end", "1. 1R7", "14 none legal", "2 none legal",
      "the same verdict, C core's number for it" },
    { "one of two refused", "2R7 1H 1S 1F 1T0", "0 none legal SF | 14 refused legal", NULL, NULL },
    { "reset: internal", "1R2", "13 none legal", NULL, NULL },
    { "reset: cancel", "1R8", "1 none legal", NULL, NULL },
    { "reset: none", "1R0", "13 none legal", NULL, NULL },
    { "reset: calm", "1R11", "8 none legal", NULL, NULL },
    { "reset: unknown code", "1R99", "13 none legal", NULL, NULL },
    { "reset behind messages", "1H 1S 1D 1R2", "13 none legal SD", NULL, NULL },
    { "GOAWAY below", "1Gb", "14 refused legal", NULL, NULL },
    { "GOAWAY below, then an answer", "1Gb 1H 1S 1F 1T0", "14 refused legal", "14 none legal",
      "what came behind it in the same read counts as an answer" },
    { "GOAWAY below, then trailers only", "1Gb 1O14", "14 refused legal", "14 none legal",
      "what came behind it in the same read counts as an answer" },
    { "GOAWAY below, then closed", "1Gb X", "14 refused legal", NULL, NULL },
    { "GOAWAY at", "1Ga X", "14 none legal", NULL, NULL },
    { "GOAWAY at, then an answer", "1Ga 1H 1S 1F 1T0", "0 none legal SF", NULL, NULL },
    { "GOAWAY behind headers", "1H 1Gb", "14 none legal", NULL, NULL },
    { "GOAWAY behind a message", "1H 1S 1Gb 1F 1T0", "14 none legal S", NULL, NULL },
    { "GOAWAY behind messages", "1H 1S 1D 1D 1Gb", "14 none legal SDD", NULL, NULL },
    { "an illegal frame behind messages", "1H 1S 1D 1D 1K", "14 none legal SDD", "2 none legal S",
      "C core drops the messages that came in the same read" },
    { "GOAWAY between two", "2Gb 1H 1S 1F 1T0", "0 none legal SF | 14 refused legal", NULL, NULL },
    { "GOAWAY of all, then less", "G 2Gb 1R7", "14 refused legal | 14 refused legal", NULL, NULL },
    { "GOAWAY less, then more", "1Gb G 1H", "14 refused legal", "14 none legal",
      "what came behind it in the same read counts as an answer" },
    { "GOAWAY with a server's id", "2Ge 1Ge", "14 none legal | 14 none legal", NULL, NULL },
    { "GOAWAY on a stream", "1Gs", "14 none legal", NULL, NULL },
    { "GOAWAY in open headers", "1Ho 2Gb", "14 none legal | 14 none legal",
      "2 none legal | 2 none legal", "the same verdict, C core's number for it" },
    { "refused in open headers", "1Ho 2R7", "14 none legal | 14 none legal",
      "2 none legal | 2 none legal", "the same verdict, C core's number for it" },
    { "refused with a byte too many", "1R7+", "14 none legal", "2 none legal",
      "the same verdict, C core's number for it" },
    { "GOAWAY of all, then an answer", "G 1H 1S 1F 1T0", "0 none legal SF", NULL, NULL },
    { "GOAWAY of all, then refused", "G 1R7", "14 refused legal", NULL, NULL },
    { "closed", "X", "14 none legal", NULL, NULL },
    { "headers, then closed", "1H X", "14 none legal", NULL, NULL },
    { "messages, then closed", "1H 1S 1D 1D X", "14 none legal SDD", NULL, NULL },
    { "Finished, then closed", "1H 1S 1D 1F X", "14 none legal SDF", NULL, NULL },
    { "half a message, then closed", "1H 1S 1Sh X", "14 none legal S", NULL, NULL },
    { "half a message, then trailers", "1H 1Sh 1T0", "13 none legal", NULL, NULL },
    { "half a message, then refused", "1H 1Sh 1R7", "14 none legal", NULL, NULL },
    { "a message in pieces", "1H 1L 1D 1F 1T0", "0 none legal SDF", NULL, NULL },
    { "padded DATA", "1H 1S 1Dp 1Dp 1F 1T0", "0 none legal SDDF", "13 none legal S",
      "C core does not know padding" },
    { "large data", "1H 1S 1D+ 1D+ 1F 1T0", "0 none legal S++F", NULL, NULL },
    { "a message that is too large", "1H 1S 1Z", "8 none legal S", NULL, NULL },
    { "the same, and the end", "1H 1S 1Z 1T0", "8 none legal S", "13 none legal S",
      "for C core the stream ended inside of a message" },
    { "a compressed message", "1H 1S 1C 1D 1F 1T0", "13 none legal S", NULL, NULL },
    { "no protobuf", "1H 1S 1B", "13 none illegal S", NULL, NULL },
    { "unknown messages", "1H 1U 1S 1U 1F 1T0", "0 none legal SF", NULL, NULL },
    { "too many unknown messages", "1H 1U*40", "13 none illegal", NULL, NULL },
    { "Data first", "1H 1D", "13 none illegal", NULL, NULL },
    { "two Starts", "1H 1S 1S", "13 none illegal S", NULL, NULL },
    { "Data behind Finished", "1H 1S 1F 1D", "13 none illegal SF", NULL, NULL },
    { "no Finished", "1H 1S 1T0", "13 none legal S", NULL, NULL },
    { "Finished, then a bad status", "1H 1S 1F 1T13", "13 none legal SF", NULL, NULL },
    { "bad content-type", "1Ht", "2 none legal", "14 none legal",
      "C core's client does not look at it, and waits" },
    { "the same and a body", "1Ht 1S 1.", "2 none legal", "2 none legal S",
      "C core's client does not look at it" },
    { "status 503", "1H5 1.", "14 none legal", NULL, NULL },
    { "status 503 and no end", "1H5", "14 none legal", NULL, NULL },
    { "no grpc-status", "1H 1S 1F 1T", "13 none legal SF", "2 none legal SF",
      "the same verdict, C core's number for it" },
    { "no grpc-status, trailers only", "1O", "13 none legal", "2 none legal",
      "the same verdict, C core's number for it" },
    { "grpc-status 17", "1H 1T17", "17 none legal", NULL, NULL },
    { "grpc-status 17, trailers only", "1O17", "17 none legal", NULL, NULL },
    { "grpc-status 4294967296", "1H 1T4294967296", "2 none legal", NULL, NULL },
    { "grpc-status -1", "1H 1T-1", "2 none legal", NULL, NULL },
    { "grpc-status 2147483647", "1H 1T2147483647", "2 none legal", NULL, NULL },
    { "grpc-status is no number", "1H 1Tx", "2 none legal", NULL, NULL },
    { "headers twice", "1H 1H 1S", "13 none legal", "2 none legal",
      "the same verdict, C core's number for it" },
    { "trailers twice", "1H 1S 1F 1T0 1T14", "0 none legal SF", NULL, NULL },
    { "headers above 32 KiB", "1Hb 1S 1F 1T0", "8 none legal", "0 none legal SF",
      "C core counts them otherwise and takes these" },
    { "the same, then refused", "1Hb 1R7", "8 none legal", "14 none legal",
      "C core counts them otherwise and takes these" },
    { "headers in eight CONTINUATIONs", "1Hc 1S 1F 1T0", "0 none legal SF", NULL, NULL },
    { "headers in nine CONTINUATIONs", "1Hf 1S 1F 1T0", "14 none legal", "0 none legal SF",
      "the connection ends behind what came in the same read" },
    { "more than the window lets in", "1H 1S 1D+*40 1F 1T0",
      "0 none legal S++++++++++++++++++++++++++++++++++++++++F", "13 none legal S",
      "C core holds peers to the connection's window, and ends it" },
    { "an answer, then a reset", "1H 1S 1F 1T0 1R0", "0 none legal SF", NULL, NULL },
    { "an answer with a bad status", "1H 1S 1D 1F 1T14", "14 none legal SDF", NULL, NULL },
    { "the end without trailers", "1H 1S 1F 1.", "13 none legal SF", "2 none legal SF",
      "the same verdict, C core's number for it" },
    { "DATA behind the end", "1H 1S 1F 1. 1D", "13 none legal SF", "2 none legal SF",
      "the same verdict, C core's number for it" },
    { "DATA behind trailers", "1H 1S 1F 1T0 1D", "0 none legal SF", NULL, NULL },
    { "DATA before headers", "1S 1H 1F 1T0", "14 none legal", "0 none legal SF",
      "C core takes them in any order" },
    { "CONTINUATION alone", "1K", "14 none legal", "2 none legal",
      "the same verdict, C core's number for it" },
    { "pings and settings in between", "1H P 1S A 1D W E 1M 1F P 1T0", "0 none legal SDF", NULL,
      NULL },
    { "window zero: closed", "0:X", "14 not-sent legal", NULL, NULL },
    { "window zero: refused", "0:1R7", "14 not-sent legal", NULL, NULL },
    { "window zero: reset", "0:1R2", "13 not-sent legal", NULL, NULL },
    { "window zero: GOAWAY", "0:1Gb", "14 not-sent legal", NULL, NULL },
    { "window zero: headers, then closed", "0:1H X", "14 none legal", NULL, NULL },
    { "window zero: trailers only", "0:1O14", "14 not-sent legal", NULL, NULL },
    { "window zero: headers, trailers", "0:1H 1T14", "14 none legal", NULL, NULL },
    { "a flood of pings", "P*6000 1H 1S", "14 none legal", "14 none legal S",
      "the connection ends behind what came in the same read" },
    { "a flood of settings", "A*6000", "14 none legal", NULL, NULL },
    { "a flood of empty DATA", "1H 1S 10*6000 1F 1T0", "14 none legal S", "0 none legal SF",
      "the connection ends behind what came in the same read" },
    { "a flood of resets", "1H 1S 2R8*21000", "14 none legal S | 1 none legal", NULL, NULL },
};

START_TEST(test_rows)
{
    struct fixture *f = diff_fixture((enum diff_transport)_i);
    struct heard calls[CALLS_MAX];
    char got[DIFF_TEXT_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        play(f, calls_of(rows[i].script), rows[i].script, calls);
        describe(calls, calls_of(rows[i].script), got);
        diff_compare(&rows[i], (enum diff_transport)_i, got);
    }
    fixture_destroy(f);
}
END_TEST

/* A runner, or a proxy in its place, that answers wrong and never ends. */
START_TEST(a_bad_answer_gives_its_place_back)
{
    static const char *const scripts[] = { "1H5", "1Ht", "1Hb" };
    struct fixture *f = diff_fixture(DIFF_NGHTTP2);

    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        struct runner r = { .wanted = 1, .one_stream = true };
        struct heard calls[2];

        settle(&r, f, f->address + strlen("unix:"));
        begin(&calls[0], f);
        raw_run(&r.raw, has_calls, &r);
        diff_play(scripts[i], act, &r);
        raw_sync(&r.raw);
        WAIT(f, is_ended, &calls[0]);
        r.wanted = 2;
        begin(&calls[1], f);
        raw_run(&r.raw, has_calls, &r);
        raw_close(&r.raw);
        WAIT(f, is_ended, &calls[1]);
        leave(&r, f);
    }
    fixture_destroy(f);
}
END_TEST

/* ---- by chance ------------------------------------------------------------------------------- */

#define SEEDS        300
#define CHANCE_CALLS 2u
#define WORDS_MAX    12u

static const char *pick(uint64_t *seed, const char *const *words, size_t n)
{
    return words[diff_random(seed, (uint32_t)n)];
}

#define PICK(seed, ...)                                                                            \
    pick((seed), (const char *const[]){ __VA_ARGS__ },                                             \
         sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

/* What HTTP/2 lets a runner say to one call; whether it is legal gRPC is another question. */
static size_t chance_call(uint64_t *seed, const char *ret[WORDS_MAX])
{
    size_t n = 0, messages_n = diff_random(seed, 7);

    if (diff_random(seed, 10) < 3) {
        ret[n++] = PICK(seed, "O14", "O0", "Ol", "R7", "R7", "R2", "R8", "O17");
        return n;
    }
    ret[n++] = PICK(seed, "H", "H", "H", "Hc", "H5");
    for (size_t i = 0; i < messages_n; i++) {
        static const char *const usual[] = { "S", "D", "D", "D", "F" };

        ret[n++] = diff_random(seed, 5) ? usual[i < 5 ? i : 4]
                                        : PICK(seed, "N", "U", "B", "L", "0", "Sh", "C", "Z", "D+");
    }
    if (diff_random(seed, 4)) {
        ret[n++] = PICK(seed, "T0", "T0", "T0", "T14", "Tl", "T13", "R7", "R2", "R0");
    }
    return n;
}

/* The calls' words in a mixed order, with others in between. */
static void chance(uint64_t seed, char *ret, size_t cap)
{
    const char *words[CHANCE_CALLS][WORDS_MAX];
    size_t n[CHANCE_CALLS], at[CHANCE_CALLS] = { 0 }, len = 0;

    for (unsigned i = 0; i < CHANCE_CALLS; i++) {
        n[i] = chance_call(&seed, words[i]);
    }
    ret[0] = '\0';
    while (at[0] < n[0] || at[1] < n[1]) {
        unsigned i = at[0] == n[0] ? 1 : at[1] == n[1] ? 0 : diff_random(&seed, 2);

        len += (size_t)snprintf(ret + len, cap - len, "%u%s ", i + 1, words[i][at[i]++]);
        if (diff_random(&seed, 12) == 0) {
            const char *other = PICK(&seed, "P", "A", "W", "E", "1M", "G", "2Gb", "1Ga", "1Gb");

            len += (size_t)snprintf(ret + len, cap - len, "%s ", other);
        }
    }
    snprintf(ret + len, cap - len, "%s", diff_random(&seed, 3) ? "P" : "X");
}

struct claim {
    unsigned call;
    bool heard, refused; /* refused: before anything else was said to it */
};

static void look_for_refusal(void *ud, unsigned call, const char *what)
{
    struct claim *c = ud;
    bool goaway = call > 0 && what[0] == 'G';
    bool below = goaway && (what[1] == 'b' ? c->call >= call : c->call > call);

    if (below || (call == c->call && strcmp(what, "R7") == 0)) {
        c->refused = c->refused || !c->heard;
    } else if (call == c->call && !goaway && what[0] != 'M') {
        c->heard = true;
    }
}

/* No transport claims what the runner has not said, nor C core what nghttp2 does not; everything
 * else is the same. A message that cannot be taken has two names when its stream ends as well, and
 * does not matter behind Finished. */
static void compare(uint64_t seed, const char *script, const struct heard *h2,
                    const struct heard *core)
{
    bool two_names = strchr(script, 'Z') || strchr(script, 'C');

    for (unsigned i = 0; i < CHANCE_CALLS; i++) {
        struct claim claim = { .call = i + 1 };
        bool same = h2[i].legal == core[i].legal &&
                    strcmp(h2[i].messages, core[i].messages) == 0 &&
                    (h2[i].status == core[i].status ||
                     (two_names && h2[i].status > 0 &&
                      (core[i].status > 0 || strpbrk(core[i].messages, "FN"))));

        diff_play(script, look_for_refusal, &claim);
        ck_assert_msg(same, "seed %llu, call %u: %s: %d %s, over core %d %s",
                      (unsigned long long)seed, i + 1, script, h2[i].status, h2[i].messages,
                      core[i].status, core[i].messages);
        ck_assert_msg(h2[i].proof == (claim.refused ? ENGAGE_PROOF_REFUSED : ENGAGE_PROOF_NONE),
                      "seed %llu, call %u: %s: proof %d", (unsigned long long)seed, i + 1, script,
                      h2[i].proof);
        ck_assert_msg(core[i].proof == ENGAGE_PROOF_NONE || core[i].proof == h2[i].proof,
                      "seed %llu, call %u: %s: proof %d over core", (unsigned long long)seed, i + 1,
                      script, core[i].proof);
    }
}

START_TEST(test_chance)
{
    struct fixture *f[DIFF_TRANSPORTS_N] = { diff_fixture(DIFF_NGHTTP2), diff_fixture(DIFF_CORE) };
    struct heard heard[DIFF_TRANSPORTS_N][CALLS_MAX];
    uint32_t claims = 0;
    char script[256];

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        chance(seed, script, sizeof(script));
        for (int t = 0; t < DIFF_TRANSPORTS_N; t++) {
            play(f[t], CHANCE_CALLS, script, heard[t]);
        }
        compare(seed, script, heard[DIFF_NGHTTP2], heard[DIFF_CORE]);
        claims += heard[DIFF_CORE][0].proof == ENGAGE_PROOF_REFUSED;
    }
    ck_assert_uint_ge(claims, SEEDS / 40); /* it is not silent about all */
    fixture_destroy(f[0]);
    fixture_destroy(f[1]);
}
END_TEST

TCase *diff_client_case(void)
{
    TCase *tc = tcase_create("client");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_rows, 0, DIFF_TRANSPORTS_N);
    tcase_add_test(tc, a_bad_answer_gives_its_place_back);
    tcase_add_test(tc, test_chance);
    return tc;
}
