/* Frames into a buffer, reading and writing by poll() with a limit, and the fields of answers
 * through nghttp2's inflater. */
#include "rawpeer.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_MS   20000
#define PREFACE       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_BYTES 24u
#define HEAD_BYTES    9u

static uint32_t u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void raw_peer_init(struct raw_peer *p, int fd, bool client)
{
    *p = (struct raw_peer){ .fd = fd, .preface = client ? 0 : PREFACE_BYTES };
    ck_assert_int_eq(nghttp2_hd_inflate_new(&p->hd), 0);
    if (client) {
        ck_assert_int_eq(buf_add(&p->out, PREFACE, PREFACE_BYTES), 0);
    }
}

void raw_peer_finish(struct raw_peer *p)
{
    close(p->fd);
    nghttp2_hd_inflate_del(p->hd);
    buf_finish(&p->out);
    buf_finish(&p->in);
}

/* ---- making ---------------------------------------------------------------------------------- */

void raw_put(struct raw_peer *p, unsigned type, unsigned flags, uint32_t stream, const void *data,
             size_t len)
{
    unsigned char h[HEAD_BYTES] = { (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                                    (unsigned char)len, (unsigned char)type, (unsigned char)flags,
                                    (unsigned char)(stream >> 24), (unsigned char)(stream >> 16),
                                    (unsigned char)(stream >> 8), (unsigned char)stream };

    ck_assert_int_eq(buf_add(&p->out, h, sizeof(h)), 0);
    ck_assert_int_eq(buf_add(&p->out, data, len), 0);
}

static size_t put_length(unsigned char *out, size_t len)
{
    if (len < 127) {
        out[0] = (unsigned char)len;
        return 1;
    }
    out[0] = 127;
    out[1] = (unsigned char)(0x80 | ((len - 127) & 0x7f));
    out[2] = (unsigned char)((len - 127) >> 7);
    return 3;
}

/* Not indexed. */
size_t raw_field(unsigned char *out, const char *name, const char *value)
{
    size_t n = 0;

    out[n++] = 0x00;
    n += put_length(out + n, strlen(name));
    memcpy(out + n, name, strlen(name));
    n += strlen(name);
    n += put_length(out + n, strlen(value));
    memcpy(out + n, value, strlen(value));
    return n + strlen(value);
}

size_t raw_big_field(unsigned char *out, const char *name, size_t len)
{
    char *value = malloc(len + 1);
    size_t n;

    memset(value, 'x', len);
    value[len] = '\0';
    n = raw_field(out, name, value);
    free(value);
    return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void inflate(struct raw_peer *p, const struct raw_frame *f)
{
    const unsigned char *at = f->payload;
    size_t left = f->len;
    int flags = 0;
    nghttp2_nv nv;

    ck_assert(f->flags & RAW_END_HEADERS); /* ours are short */
    if (f->flags & 0x20) {                 /* PRIORITY */
        at += 5;
        left -= 5;
    }
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        ssize_t n = nghttp2_hd_inflate_hd2(p->hd, &nv, &flags, at, left, 1);

        ck_assert_int_ge(n, 0);
        at += n;
        left -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT && p->field) {
            p->field(p->ud, f->stream, (const char *)nv.name, (const char *)nv.value);
        }
    }
    nghttp2_hd_inflate_end_headers(p->hd);
}

static void take(struct raw_peer *p, const struct raw_frame *f)
{
    if (f->type == RAW_SETTINGS && !(f->flags & RAW_ACK)) {
        raw_put(p, RAW_SETTINGS, RAW_ACK, 0, NULL, 0);
    } else if (f->type == RAW_PING && !(f->flags & RAW_ACK)) {
        raw_put(p, RAW_PING, RAW_ACK, 0, f->payload, f->len);
    } else if (f->type == RAW_PING) {
        p->pongs++;
    } else if (f->type == RAW_HEADERS) {
        inflate(p, f);
    }
    if (p->frame) {
        p->frame(p->ud, f);
    }
}

static void parse(struct raw_peer *p)
{
    const unsigned char *at = (const unsigned char *)p->in.data;
    size_t left = p->in.len, n = p->preface < left ? p->preface : left;

    p->preface -= n;
    at += n;
    left -= n;
    while (left >= HEAD_BYTES) {
        struct raw_frame f = { .len = u32(at) >> 8, .type = at[3], .flags = at[4],
                               .stream = u32(at + 5), .payload = at + HEAD_BYTES };

        if (left < HEAD_BYTES + f.len) {
            break;
        }
        take(p, &f);
        at += HEAD_BYTES + f.len;
        left -= HEAD_BYTES + f.len;
    }
    buf_consume(&p->in, p->in.len - left);
}

static void read_some(struct raw_peer *p)
{
    char *room = buf_reserve(&p->in, 1 << 16);
    ssize_t n = recv(p->fd, room, 1 << 16, MSG_DONTWAIT);

    if (n > 0) {
        p->in.len += (size_t)n;
        parse(p);
    } else if (n == 0 || errno != EAGAIN) {
        p->closed = true;
    }
}

static void write_some(struct raw_peer *p)
{
    ssize_t n = send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n > 0) {
        buf_consume(&p->out, (size_t)n);
    } else if (errno != EAGAIN) { /* what it said before is read */
        buf_clear(&p->out);
        p->written = true;
    }
}

void raw_run(struct raw_peer *p, bool (*done)(void *ud), void *ud)
{
    while (!p->closed && (p->out.len > 0 || !done(ud))) {
        bool writes = p->out.len > 0 && !p->written;
        struct pollfd pfd = { .fd = p->fd,
                              .events = (short)((writes ? POLLOUT : 0) |
                                                (writes && p->deaf ? 0 : POLLIN)) };

        ck_assert_msg(poll(&pfd, 1, PATIENCE_MS) > 0, "the other side is silent");
        if (pfd.revents & POLLOUT) {
            write_some(p);
        } else if (pfd.revents) {
            read_some(p);
        }
        if (p->written) {
            buf_clear(&p->out);
        }
    }
}

static bool is_answered(void *ud)
{
    struct raw_peer *p = ud;

    return p->pongs >= p->pings;
}

void raw_sync(struct raw_peer *p)
{
    p->pings++;
    raw_put(p, RAW_PING, 0, 0, "question", 8);
    raw_run(p, is_answered, p);
}

static bool always(void *ud)
{
    (void)ud;
    return true;
}

static bool never(void *ud)
{
    (void)ud;
    return false;
}

void raw_close(struct raw_peer *p)
{
    raw_run(p, always, NULL);
    shutdown(p->fd, SHUT_WR);
    p->written = true;
    raw_run(p, never, NULL);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    ck_assert_uint_lt(strlen(path), sizeof(un.sun_path));
    memcpy(un.sun_path, path, strlen(path) + 1);
    return un;
}

int raw_listen(const char *path)
{
    struct sockaddr_un un = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    return fd;
}

int raw_accept(int listener)
{
    struct pollfd pfd = { .fd = listener, .events = POLLIN };

    ck_assert_int_eq(poll(&pfd, 1, PATIENCE_MS), 1);
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

int raw_dial(const char *path)
{
    struct sockaddr_un un = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    return fd;
}
