/* Lines into frames, frames that are looked at, and the connection between them. */
#include "h2.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES 9u
#define TIMES_BITS 11u         /* of a repetition: 2048 times at most */
#define LINE_BYTES (1u << 18)  /* of one line */
#define INPUT_BYTES (1u << 20) /* of all that is sent at once */
#define UNKNOWN_TYPE 0xfbu
#define REFUSED_STREAM 7u
#define ID_MASK 0x7fffffffu
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_BYTES (sizeof(PREFACE) - 1)

static const char types[] = "DHPRSUIGWC";

/* ---- bytes ----------------------------------------------------------------------------------- */

static unsigned times_of(unsigned letter)
{
    return 1u << (letter - '0' < TIMES_BITS ? letter - '0' : TIMES_BITS);
}

static void add(struct buf *b, const void *data, size_t len)
{
    if (b->len + len <= LINE_BYTES) {
        fuzz_expect(buf_add(b, data, len) == 0, "no memory for %zu bytes", len);
    }
}

static void add_byte(struct buf *b, unsigned byte)
{
    char c = (char)byte;

    add(b, &c, 1);
}

static unsigned hex_digit(unsigned c)
{
    return c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0';
}

static void add_escape(struct buf *b, struct fuzz_in *in)
{
    unsigned c = fuzz_byte(in), high;

    if (c == 'x') {
        high = hex_digit(fuzz_byte(in)) << 4;
        add_byte(b, high | hex_digit(fuzz_byte(in)));
    } else if (c == '*') {
        c = b->len > 0 ? (unsigned char)b->data[b->len - 1] : 'x';
        for (unsigned n = times_of(fuzz_byte(in)); n > 0; n--) {
            add_byte(b, c);
        }
    } else {
        add_byte(b, c == 'n' ? '\n' : c >= '0' && c <= '7' ? c - '0' : c);
    }
}

static void add_bytes(struct buf *b, struct fuzz_in *in)
{
    while (in->len > 0) {
        unsigned c = fuzz_byte(in);

        if (c == '\\') {
            add_escape(b, in);
        } else {
            add_byte(b, c);
        }
    }
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* RFC 7541, 5.1 */
static void add_integer(struct buf *b, unsigned first, unsigned bits, size_t n)
{
    size_t max = (1u << bits) - 1;

    if (n < max) {
        add_byte(b, first | (unsigned)n);
        return;
    }
    add_byte(b, first | (unsigned)max);
    for (n -= max; n >= 128; n >>= 7) {
        add_byte(b, 128 | (unsigned)(n & 127));
    }
    add_byte(b, (unsigned)n);
}

static void add_string(struct buf *b, const struct buf *s)
{
    add_integer(b, 0, 7, s->len);
    add(b, s->data, s->len);
}

static void add_literal(struct buf *b, struct fuzz_in in, bool keep)
{
    struct buf name = BUF_INIT(0), value = BUF_INIT(0);
    /* the colon of ":path" is no end */
    const char *colon = in.len > 1 ? memchr(in.at + 1, ':', in.len - 1) : NULL;
    struct fuzz_in left = { in.at, colon ? (size_t)(colon - in.at) : in.len };

    add_bytes(&name, &left);
    in = (struct fuzz_in){ colon ? colon + 1 : "",
                           colon ? in.len - (size_t)(colon + 1 - in.at) : 0 };
    add_bytes(&value, &in);
    add_byte(b, keep ? 0x40 : 0);
    add_string(b, &name);
    add_string(b, &value);
    buf_finish(&name);
    buf_finish(&value);
}

static unsigned index_of(unsigned c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : c & 0x7f;
}

static void add_field(struct buf *b, struct fuzz_in in)
{
    char first = in.len > 0 ? *in.at : '\0';
    struct fuzz_in rest = { in.at + 1, in.len - 1 };

    if (first == '#') {
        add_integer(b, 0x80, 7, index_of(fuzz_byte(&rest)));
    } else if (first == '%') {
        add_bytes(b, &rest);
    } else if (first != '\0') {
        add_literal(b, first == '+' ? rest : in, first == '+');
    }
}

static void add_fields(struct buf *b, struct fuzz_in in)
{
    while (in.len > 0) {
        const char *bar = memchr(in.at, '|', in.len);
        size_t n = bar ? (size_t)(bar - in.at) : in.len;

        add_field(b, (struct fuzz_in){ in.at, n });
        in = (struct fuzz_in){ in.at + n + (bar ? 1 : 0), in.len - n - (bar ? 1 : 0) };
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static unsigned stream_of(unsigned c)
{
    return c == 'Z' ? 0 : c >= 'a' && c <= 'z' ? 11 + 2 * (c - 'a') : c >= '0' ? c - '0' : c;
}

static unsigned flags_of(unsigned c)
{
    switch (c) {
    case '.':
        return 0;
    case 'e':
        return 1;
    case 'h':
        return 4;
    case 'b':
        return 5;
    case 'p':
        return 8;
    default:
        return c;
    }
}

static void add_message(struct buf *b, struct fuzz_in in)
{
    struct buf message = BUF_INIT(0);

    add_bytes(&message, &in);
    add_byte(b, 0);
    for (int shift = 24; shift >= 0; shift -= 8) {
        add_byte(b, (unsigned)(message.len >> shift) & 0xff);
    }
    add(b, message.data, message.len);
    buf_finish(&message);
}

static void add_payload(struct buf *b, char type, struct fuzz_in in)
{
    if (type == 'H' || type == 'C') {
        add_fields(b, in);
    } else if (type == 'D' && in.len > 0 && *in.at == '>') {
        add_message(b, (struct fuzz_in){ in.at + 1, in.len - 1 });
    } else {
        add_bytes(b, &in);
    }
}

static void add_frame(struct buf *out, struct fuzz_in in)
{
    unsigned letter = fuzz_byte(&in), stream = stream_of(fuzz_byte(&in)),
             flags = flags_of(fuzz_byte(&in));
    const char *type = letter ? strchr(types, (int)letter) : NULL;
    struct buf payload = BUF_INIT(0);
    unsigned char head[HEAD_BYTES];

    add_payload(&payload, (char)letter, in);
    head[0] = (unsigned char)(payload.len >> 16);
    head[1] = (unsigned char)(payload.len >> 8);
    head[2] = (unsigned char)payload.len;
    head[3] = (unsigned char)(type ? type - types : (int)UNKNOWN_TYPE);
    head[4] = (unsigned char)flags;
    memset(head + 5, 0, 3);
    head[8] = (unsigned char)stream;
    if (sizeof(head) + payload.len <= LINE_BYTES) {
        add(out, head, sizeof(head));
        add(out, payload.data, payload.len);
    }
    buf_finish(&payload);
}

/* The frames of the next line, behind what is in `out`. false: there is none. */
static bool add_line(struct buf *out, struct fuzz_in *in)
{
    struct fuzz_in line;
    struct buf frames = BUF_INIT(0);
    unsigned times = 1;

    if (in->len == 0) {
        return false;
    }
    line = fuzz_line(in);
    if (line.len > 0 && *line.at == '*') {
        (void)fuzz_byte(&line);
        times = times_of(fuzz_byte(&line));
    }
    if (line.len > 0 && *line.at == '=') {
        (void)fuzz_byte(&line);
        add_bytes(&frames, &line);
    } else if (line.len > 0) {
        add_frame(&frames, line);
    }
    while (times-- > 0 && frames.len > 0 && out->len + frames.len <= INPUT_BYTES) {
        fuzz_expect(buf_add(out, frames.data, frames.len) == 0, "no memory");
    }
    buf_finish(&frames);
    return true;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static uint32_t u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void see(struct h2_seen *s, const unsigned char *frame, size_t len)
{
    unsigned type = frame[3];
    uint32_t id = u32(frame + 5) & ID_MASK, word = len >= 4 ? u32(frame + HEAD_BYTES) : 0;
    struct h2_seen_stream *st = id > 0 && id < H2_STREAMS_SEEN ? &s->streams[id] : NULL;

    if (type == H2_GOAWAY && (word & ID_MASK) < s->taken_max) {
        s->taken_max = word & ID_MASK;
    } else if (st && type == H2_RESET) {
        st->reset = true;
        st->refused = st->refused || word == REFUSED_STREAM;
    } else if (st && (type == H2_DATA || type == H2_HEADERS)) {
        st->begun = true;
        st->ended = st->ended || (frame[4] & 1);
        st->data_bytes += type == H2_DATA ? len : 0;
    }
}

/* What comes of fnd has an order. */
static void expect_frame(const struct h2_seen *s, const unsigned char *frame)
{
    unsigned type = frame[3];
    uint32_t id = u32(frame + 5) & ID_MASK;
    const struct h2_seen_stream *st = &s->streams[id < H2_STREAMS_SEEN ? id : 0];

    fuzz_expect(type <= H2_CONTINUATION && type != H2_PUSH, "a frame of type %u", type);
    if (type == H2_DATA || type == H2_HEADERS) {
        fuzz_expect(!st->ended && !st->reset, "type %u behind the end of stream %u", type, id);
        fuzz_expect(type == H2_HEADERS || st->begun || id >= H2_STREAMS_SEEN,
                    "data in front of the headers of stream %u", id);
    }
}

static void seen_add(struct h2_seen *s, const void *bytes, size_t len, bool of_fnd)
{
    size_t skipped = s->preface < len ? s->preface : len;
    const unsigned char *at;
    size_t left;

    s->preface -= skipped;
    if (len == skipped) {
        return;
    }
    fuzz_expect(buf_add(&s->bytes, (const char *)bytes + skipped, len - skipped) == 0, "no memory");
    at = (const unsigned char *)s->bytes.data;
    left = s->bytes.len;
    while (left >= HEAD_BYTES && left >= HEAD_BYTES + (u32(at) >> 8)) {
        size_t n = u32(at) >> 8;

        if (of_fnd) {
            expect_frame(s, at);
        }
        see(s, at, n);
        at += HEAD_BYTES + n;
        left -= HEAD_BYTES + n;
    }
    buf_consume(&s->bytes, s->bytes.len - left);
}

/* ---- the connection -------------------------------------------------------------------------- */

struct h2_wire wire = { .fd = -1 };

static void (*target_look)(void);

static uint64_t wire_look(void)
{
    char bytes[16384];
    ssize_t n = -1;

    if (target_look) {
        target_look();
    }
    while (wire.fd >= 0 && (n = recv(wire.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        seen_add(&wire.in, bytes, (size_t)n, true);
        wire.news += (uint64_t)n;
    }
    wire.closed = wire.closed || (wire.fd >= 0 && (n == 0 || errno != EAGAIN));
    return wire.news;
}

void wire_begin(void (*look)(void))
{
    struct fn_error err = { .size = sizeof(err) };

    target_look = look;
    wire.calm.look = wire_look;
    fuzz_expect(loop_create(NULL, &wire.calm.loop, &err) == 0, "%s", err.msg);
}

void wire_open(int fd, bool to_client)
{
    wire.fd = fd;
    wire.to_client = to_client;
    wire.closed = false;
    wire.in = (struct h2_seen){ .preface = to_client ? PREFACE_BYTES : 0, .taken_max = UINT32_MAX };
    wire.out =
        (struct h2_seen){ .preface = to_client ? 0 : PREFACE_BYTES, .taken_max = UINT32_MAX };
}

static void send_all(struct buf *out)
{
    uint32_t turns = 0;
    size_t done = 0;

    while (done < out->len && !wire.closed) {
        ssize_t n = send(wire.fd, out->data + done, out->len - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            seen_add(&wire.out, out->data + done, (size_t)n, false);
            done += (size_t)n;
        }
        calm_run(&wire.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "%zu bytes are never read", out->len - done);
    }
    buf_clear(out);
}

bool wire_send_line(struct fuzz_in *in)
{
    struct buf out = BUF_INIT(0);
    bool is_line = add_line(&out, in);

    send_all(&out);
    buf_finish(&out);
    return is_line;
}

void wire_send_lines(struct fuzz_in in, char mode)
{
    struct buf out = BUF_INIT(0);

    if (!wire.to_client) {
        fuzz_expect(buf_add(&out, PREFACE, PREFACE_BYTES) == 0, "no memory");
    }
    send_all(&out);
    while (mode == 'l' && wire_send_line(&in)) {
    }
    while (add_line(&out, &in)) {
    }
    send_all(&out);
    buf_finish(&out);
}

void wire_close(void)
{
    if (wire.fd >= 0) {
        close(wire.fd);
        wire.fd = -1;
    }
    buf_finish(&wire.in.bytes);
    buf_finish(&wire.out.bytes);
}
