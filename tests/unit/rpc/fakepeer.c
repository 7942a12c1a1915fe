/* Frames are written by hand as each act wants them, without a library that would refuse to. */
#include "fakepeer.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { H2_DATA, H2_HEADERS, H2_PRIORITY, H2_RST, H2_SETTINGS, H2_PUSH, H2_PING, H2_GOAWAY,
       H2_WINDOW };

#define END_STREAM  1u
#define ACK         1u
#define END_HEADERS 4u

struct fakepeer {
    int listen_fd;
    int stop[2];
    atomic_int act;
    atomic_int accepted;
    atomic_int closed;
    pthread_t thread;
    /* of the connection */
    int fd;
    uint64_t data_bytes;
    uint32_t first; /* stream of the first call */
    bool over;
    bool gathers; /* what is put goes out in one piece, with put_gathered() */
    char gathered[4096];
    size_t gathered_len;
};

static void put(struct fakepeer *p, const void *data, size_t len)
{
    if (p->gathers) {
        ck_assert_uint_le(p->gathered_len + len, sizeof(p->gathered));
        memcpy(p->gathered + p->gathered_len, data, len);
        p->gathered_len += len;
    } else if (send(p->fd, data, len, MSG_NOSIGNAL) != (ssize_t)len) {
        p->over = true;
    }
}

static void put_gathered(struct fakepeer *p)
{
    p->gathers = false;
    put(p, p->gathered, p->gathered_len);
    p->gathered_len = 0;
}

static void frame(struct fakepeer *p, uint8_t type, uint8_t flags, uint32_t stream,
                  const void *data, uint32_t len)
{
    unsigned char h[9] = { (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                           (unsigned char)len, type, flags, (unsigned char)(stream >> 24),
                           (unsigned char)(stream >> 16), (unsigned char)(stream >> 8),
                           (unsigned char)stream };

    put(p, h, sizeof(h));
    if (len > 0) {
        put(p, data, len);
    }
}

static void rst(struct fakepeer *p, uint32_t stream, unsigned char code)
{
    unsigned char b[4] = { 0, 0, 0, code };

    frame(p, H2_RST, 0, stream, b, 4);
}

static void goaway(struct fakepeer *p, uint32_t last)
{
    unsigned char b[8] = { (unsigned char)(last >> 24), (unsigned char)(last >> 16),
                           (unsigned char)(last >> 8), (unsigned char)last };

    frame(p, H2_GOAWAY, 0, 0, b, 8);
}

static size_t field(unsigned char *out, const char *name, const char *value)
{
    size_t n = 0;

    out[n++] = 0x00;
    out[n++] = (unsigned char)strlen(name);
    memcpy(out + n, name, strlen(name));
    n += strlen(name);
    out[n++] = (unsigned char)strlen(value);
    memcpy(out + n, value, strlen(value));
    return n + strlen(value);
}

static void headers(struct fakepeer *p, uint32_t stream)
{
    unsigned char b[128];
    size_t n = 0;

    b[n++] = 0x88; /* :status 200 */
    n += field(b + n, "content-type", "application/grpc");
    frame(p, H2_HEADERS, END_HEADERS, stream, b, (uint32_t)n);
}

/* An answer that is not gRPC's. */
static void web_page(struct fakepeer *p, uint32_t stream, const char *status)
{
    unsigned char b[128];
    size_t n = field(b, ":status", status);

    n += field(b + n, "content-type", "text/html");
    frame(p, H2_HEADERS, END_HEADERS, stream, b, (uint32_t)n);
    frame(p, H2_DATA, END_STREAM, stream, "<html>", 6);
}

static void trailers(struct fakepeer *p, uint32_t stream, bool only, const char *status,
                     const char *message)
{
    unsigned char b[256];
    size_t n = 0;

    if (only) {
        b[n++] = 0x88;
        n += field(b + n, "content-type", "application/grpc");
    }
    n += field(b + n, "grpc-status", status);
    n += field(b + n, "grpc-message", message);
    frame(p, H2_HEADERS, END_HEADERS | END_STREAM, stream, b, (uint32_t)n);
}

/* One gRPC message, cut into HTTP/2 frames of 16 KiB. */
static void message(struct fakepeer *p, uint32_t stream, const void *data, uint32_t len)
{
    unsigned char prefix[5] = { 0, (unsigned char)(len >> 24), (unsigned char)(len >> 16),
                                (unsigned char)(len >> 8), (unsigned char)len };
    const char *bytes = data;

    frame(p, H2_DATA, 0, stream, prefix, 5);
    while (len > 0) {
        uint32_t n = len < 16384 ? len : 16384;

        frame(p, H2_DATA, 0, stream, bytes, n);
        bytes += n;
        len -= n;
    }
}

/* ResultStart{http{200}}, Data{"hi"}, Finished{success}, Finished{503}. */
static const char msg_start[] = "\x0a\x06\xa2\x06\x03\x08\xc8\x01";
static const char msg_nul[] = "\x0a\x0e\xa2\x06\x0b\x08\xc8\x01\x12\x06\x0a\x04X-\0A";
static const char msg_data[] = "\x12\x04\x0a\x02hi";
static const char msg_finished[] = "\x1a\x02\x08\x01";
static const char msg_nack[] = "\x1a\x03\x18\xf7\x03";
static const char msg_unknown[] = "\x22\x02\x08\x01";
static const char msg_broken[] = "\x1a\x7f\x08";

#define SAY(p, s, m) message((p), (s), (m), sizeof(m) - 1)

static void big_frame(struct fakepeer *p, uint32_t stream)
{
    char *m = calloc(1, 70008);

    /* field 2, length 70004, in it field 1, length 70000 */
    memcpy(m, "\x12\xf4\xa2\x04\x0a\xf0\xa2\x04", 8);
    message(p, stream, m, 70008);
    free(m);
}

static void many_fields(struct fakepeer *p, uint32_t stream)
{
    char m[30000];

    for (size_t i = 0; i < sizeof(m); i += 3) {
        memcpy(m + i, "\x98\x06\x01", 3);
    }
    message(p, stream, m, sizeof(m));
}

static void on_headers_bad_messages(struct fakepeer *p, uint32_t s, enum fake_act act)
{
    headers(p, s);
    if (act == FAKE_AFTER_FINISHED || act == FAKE_TWO_FINISHED) {
        SAY(p, s, msg_start);
        SAY(p, s, msg_finished);
        if (act == FAKE_TWO_FINISHED) {
            SAY(p, s, msg_finished);
        } else {
            SAY(p, s, msg_data);
            SAY(p, s, msg_data);
        }
        trailers(p, s, false, "0", "");
    } else if (act == FAKE_UNKNOWN_KIND) {
        for (int i = 0; i < 100; i++) {
            SAY(p, s, msg_unknown);
        }
    } else if (act == FAKE_NEWER) {
        SAY(p, s, msg_unknown);
        SAY(p, s, msg_start);
        SAY(p, s, msg_unknown);
        SAY(p, s, msg_data);
        SAY(p, s, msg_finished);
        trailers(p, s, false, "0", "");
    } else if (act == FAKE_MANY_FIELDS) {
        many_fields(p, s);
    } else if (act == FAKE_NUL) {
        SAY(p, s, msg_nul);
    } else if (act == FAKE_NOT_PROTOBUF) {
        SAY(p, s, msg_broken);
    } else if (act == FAKE_BIG_FRAME) {
        SAY(p, s, msg_start);
        big_frame(p, s);
    } else if (act == FAKE_HUGE_LENGTH) {
        frame(p, H2_DATA, 0, s, "\0\377\377\377\377", 5);
    } else if (act == FAKE_COMPRESSED) {
        frame(p, H2_DATA, 0, s, "\1\0\0\0\1x", 6);
    } else if (act == FAKE_NO_TRAILERS) {
        SAY(p, s, msg_finished);
    } else if (act == FAKE_NO_FINISHED) {
        SAY(p, s, msg_start);
        trailers(p, s, false, "0", "");
    } else if (act == FAKE_BAD_TRAILERS) {
        SAY(p, s, msg_finished);
        trailers(p, s, false, "13", "oops");
    } else if (act == FAKE_FIRST_FINISHED) {
        SAY(p, s, msg_finished);
        trailers(p, s, false, "0", "");
    }
}

static void answer(struct fakepeer *p, uint32_t s)
{
    headers(p, s);
    SAY(p, s, msg_start);
    SAY(p, s, msg_data);
    SAY(p, s, msg_finished);
    trailers(p, s, false, "0", "");
}

static void on_headers_of_pair(struct fakepeer *p, uint32_t s)
{
    if (s == p->first) {
        headers(p, s);
        SAY(p, s, msg_start);
        SAY(p, s, msg_data);
        SAY(p, s, msg_finished);
        return;
    }
    p->gathers = true;
    answer(p, s);
    trailers(p, p->first, false, "0", "");
    put_gathered(p);
}

static void on_headers(struct fakepeer *p, uint32_t s)
{
    enum fake_act act = (enum fake_act)atomic_load(&p->act);

    p->first = p->first ? p->first : s;
    switch (act) {
    case FAKE_REFUSE_LATE:
        headers(p, s);
        rst(p, s, 7);
        break;
    case FAKE_GOAWAY_LATE:
        headers(p, s);
        goaway(p, s - 1);
        break;
    case FAKE_REFUSE:
        rst(p, s, 7);
        break;
    case FAKE_RST_INTERNAL:
        rst(p, s, 2);
        break;
    case FAKE_GOAWAY_BELOW:
        goaway(p, s - 1);
        break;
    case FAKE_GOAWAY_ABOVE:
        goaway(p, s);
        p->over = true;
        break;
    case FAKE_CLOSE:
        p->over = true;
        break;
    case FAKE_CLOSE_STARTED:
    case FAKE_CLOSE_DATA:
    case FAKE_CLOSE_FINISHED:
        headers(p, s);
        SAY(p, s, msg_start);
        if (act == FAKE_CLOSE_DATA) {
            SAY(p, s, msg_data);
        } else if (act == FAKE_CLOSE_FINISHED) {
            SAY(p, s, msg_finished);
        }
        p->over = true;
        break;
    case FAKE_NACK_SLAM:
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
        /* fall through */
    case FAKE_NACK_CLOSE:
        headers(p, s);
        SAY(p, s, msg_nack);
        trailers(p, s, false, "0", "");
        p->over = true;
        break;
    case FAKE_GARBAGE_LATE:
        put(p, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 47);
        break;
    case FAKE_EARLY:
        headers(p, s);
        SAY(p, s, msg_start);
        trailers(p, s, false, "14", "");
        break;
    case FAKE_GOAWAY_HANG:
    case FAKE_GOAWAY_PINGED:
        goaway(p, INT32_MAX);
        break;
    case FAKE_PAIR:
        on_headers_of_pair(p, s);
        break;
    case FAKE_LIAR:
        trailers(p, s, true, "14", "Received RST_STREAM with error code 7");
        break;
    case FAKE_HANG:
    case FAKE_SILENT:
        break;
    case FAKE_HTTP_503:
        web_page(p, s, "503");
        break;
    case FAKE_HTML:
        web_page(p, s, "200");
        break;
    default:
        on_headers_bad_messages(p, s, act);
    }
}

static bool take(struct fakepeer *p, void *out, size_t len)
{
    char *at = out;

    while (len > 0) {
        struct pollfd fds[2] = { { .fd = p->fd, .events = POLLIN },
                                 { .fd = p->stop[0], .events = POLLIN } };
        ssize_t n;

        poll(fds, 2, -1);
        if (fds[1].revents) {
            return false;
        }
        n = recv(p->fd, at, len, 0);
        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void hang(struct fakepeer *p)
{
    struct pollfd pfd = { .fd = p->stop[0], .events = POLLIN };

    poll(&pfd, 1, -1);
}

static void serve(struct fakepeer *p)
{
    static unsigned char body[1 << 24];
    unsigned char h[24];

    p->over = false;
    p->data_bytes = 0;
    p->first = 0;
    if (atomic_load(&p->act) == FAKE_GARBAGE) {
        put(p, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u2\r\n", 40);
    }
    if (!take(p, h, 24)) {
        return;
    }
    if (atomic_load(&p->act) != FAKE_GARBAGE) {
        static const char no_window[] = "\0\4\0\0\0\0";
        static const char no_streams[] = "\0\3\0\0\0\0";
        enum fake_act act = atomic_load(&p->act);

        frame(p, H2_SETTINGS, 0, 0, act == FAKE_FULL ? no_streams : no_window,
              act == FAKE_EARLY || act == FAKE_FULL ? 6 : 0);
    }
    while (!p->over && take(p, h, 9)) {
        uint32_t len = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2];
        uint32_t stream = (uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8];

        if (!take(p, body, len)) {
            return;
        }
        if (h[3] == H2_SETTINGS && !(h[4] & ACK)) {
            frame(p, H2_SETTINGS, ACK, 0, NULL, 0);
        } else if (h[3] == H2_PING && !(h[4] & ACK)) {
            frame(p, H2_PING, ACK, 0, body, 8);
            if (atomic_load(&p->act) == FAKE_GOAWAY_PINGED) {
                answer(p, p->first);
            }
        } else if (h[3] == H2_HEADERS) {
            on_headers(p, stream);
            if (atomic_load(&p->act) == FAKE_HANG || atomic_load(&p->act) == FAKE_GOAWAY_HANG) {
                hang(p);
                return;
            }
        } else if (h[3] == H2_DATA && atomic_load(&p->act) == FAKE_CLOSE_MID) {
            p->data_bytes += len;
            p->over = p->data_bytes > 30000;
        }
    }
}

/* Ends the connection so that what was sent still arrives: a close with bytes unread would not let
 * it. */
static void part(struct fakepeer *p)
{
    char rest[4096];

    shutdown(p->fd, SHUT_WR);
    while (take(p, rest, 1)) {
    }
}

static void *run(void *arg)
{
    struct fakepeer *p = arg;

    for (;;) {
        struct pollfd fds[2] = { { .fd = p->listen_fd, .events = POLLIN },
                                 { .fd = p->stop[0], .events = POLLIN } };

        poll(fds, 2, -1);
        if (fds[1].revents) {
            return NULL;
        }
        p->fd = accept(p->listen_fd, NULL, NULL);
        atomic_fetch_add(&p->accepted, 1);
        serve(p);
        if (atomic_load(&p->act) != FAKE_NACK_SLAM) {
            part(p);
        }
        close(p->fd);
        atomic_fetch_add(&p->closed, 1);
    }
}

struct fakepeer *fakepeer_create(const char *path, enum fake_act act)
{
    struct fakepeer *p = calloc(1, sizeof(*p));
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    atomic_init(&p->act, act);
    ck_assert_uint_lt(strlen(path), sizeof(un.sun_path));
    memcpy(un.sun_path, path, strlen(path) + 1);
    p->listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(p->listen_fd, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert_int_eq(listen(p->listen_fd, 16), 0);
    ck_assert_int_eq(pipe(p->stop), 0);
    ck_assert_int_eq(pthread_create(&p->thread, NULL, run, p), 0);
    return p;
}

void fakepeer_set(struct fakepeer *p, enum fake_act act)
{
    atomic_store(&p->act, (int)act);
}

int fakepeer_accepted(struct fakepeer *p)
{
    return atomic_load(&p->accepted);
}

int fakepeer_closed(struct fakepeer *p)
{
    return atomic_load(&p->closed);
}

void fakepeer_destroy(struct fakepeer *p)
{
    ck_assert_int_eq(write(p->stop[1], "x", 1), 1);
    pthread_join(p->thread, NULL);
    close(p->listen_fd);
    close(p->stop[0]);
    close(p->stop[1]);
    free(p);
}
