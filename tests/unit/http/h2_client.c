/* A session of nghttp2 as the client, which collects answers by stream and can send frames of
 * its own making. */
#include "h2_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <http/h2/h2.h>
#include <http/server_int.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUIET_MS 20

/* ---- what nghttp2 tells ---------------------------------------------------------------------- */

struct h2_answer *h2_answer_of(struct h2_client *c, int32_t id)
{
    ck_assert_int_lt((id - 1) / 2, H2_STREAMS_MAX);
    return &c->answers[(id - 1) / 2];
}

static int client_on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                            size_t name_len, const uint8_t *value, size_t len, uint8_t flags,
                            void *ud)
{
    struct h2_answer *a = h2_answer_of(ud, frame->hd.stream_id);

    (void)s;
    (void)flags;
    if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
        a->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + value[2] - '0';
        a->went_on |= a->status == 100;
        return 0;
    }
    buf_add(&a->head, name, name_len);
    buf_add_str(&a->head, ": ");
    buf_add(&a->head, value, len);
    buf_add_str(&a->head, "\n");
    return 0;
}

static int client_on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data,
                          size_t len, void *ud)
{
    struct h2_client *c = ud;

    (void)flags;
    buf_add(&h2_answer_of(c, id)->body, data, len);
    if (!c->slow) {
        nghttp2_session_consume(s, id, len);
    }
    return 0;
}

static int client_on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *ud)
{
    struct h2_client *c = ud;

    (void)s;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->goaway = true;
        c->goaway_code = frame->goaway.error_code;
        c->goaway_last = frame->goaway.last_stream_id;
    } else if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
               frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        h2_answer_of(c, frame->hd.stream_id)->whole = true;
    }
    return 0;
}

static int client_on_close(nghttp2_session *s, int32_t id, uint32_t code, void *ud)
{
    struct h2_answer *a = h2_answer_of(ud, id);

    (void)s;
    a->closed = true;
    a->code = code;
    return 0;
}

static ssize_t client_give(nghttp2_session *s, int32_t id, uint8_t *to, size_t room,
                           uint32_t *flags, nghttp2_data_source *source, void *ud)
{
    struct h2_answer *a = h2_answer_of(ud, id);
    size_t n = a->send_len < room ? a->send_len : room;

    (void)s;
    (void)source;
    if (n == 0 && a->send_open) {
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(to, a->send, n);
    a->send += n;
    a->send_len -= n;
    *flags |= a->send_len == 0 && !a->send_open ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)n;
}

/* ---- life ------------------------------------------------------------------------------------ */

void h2_serve(void)
{
    loop_enter(fx.loop);
    fx.server->config.h2 = &http_h2;
    fx.server->h2 = http_h2.open(fx.server);
    loop_leave(fx.loop);
}

static void session_start(struct h2_client *c, uint32_t window)
{
    const nghttp2_settings_entry entry = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window };
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;

    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_on_header_callback(cb, client_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, client_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, client_on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, client_on_close);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_peer_max_concurrent_streams(option, 100000);
    nghttp2_session_client_new2(&c->session, cb, c, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, &entry, window > 0);
}

void h2_open(struct h2_client *c, const char *address, uint32_t window)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(5555) };
    struct visitor *p = NULL;
    struct net_io *io;
    int pair[2];

    memset(c, 0, sizeof(*c));
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    c->fd = pair[0];
    loop_enter(fx.loop);
    if (address) {
        ck_assert_int_eq(inet_pton(AF_INET, address, &in.sin_addr), 1);
        p = peer_count_take(fx.server, (struct sockaddr *)&in);
    }
    fx.server->conns_n++;
    ck_assert_int_eq(net_io_create(fx.loop, pair[1], address ? address : "unix", &io, NULL), 0);
    http_h2.adopt(fx.server->h2, io, p, false);
    loop_leave(fx.loop);
    session_start(c, window);
}

void h2_close(struct h2_client *c)
{
    nghttp2_session_del(c->session);
    close(c->fd);
    buf_finish(&c->out);
    for (int i = 0; i < H2_STREAMS_MAX; i++) {
        buf_finish(&c->answers[i].head);
        buf_finish(&c->answers[i].body);
    }
}

static bool holds_nothing(void)
{
    bool nothing;

    loop_enter(fx.loop);
    nothing = fx.server->conns_n == 0 && fx.server->beside_n == 0 && !fx.server->peers.table &&
              fx.server->ring_n == 0 && fx.bodies.used_bytes == 0;
    loop_leave(fx.loop);
    return nothing;
}

void h2_stop(void)
{
    while (!holds_nothing()) {
        sched_yield();
    }
    server_stop();
}

/* ---- requests -------------------------------------------------------------------------------- */

int32_t h2_submit(struct h2_client *c, const char *const *fields, const char *body, ssize_t len)
{
    const nghttp2_data_provider provider = { .read_callback = client_give };
    nghttp2_nv nv[300];
    size_t n = 0;
    int32_t id;
    struct h2_answer *a;

    for (; fields[2 * n]; n++) {
        nv[n] = (nghttp2_nv){ (uint8_t *)(uintptr_t)fields[2 * n],
                              (uint8_t *)(uintptr_t)fields[2 * n + 1], strlen(fields[2 * n]),
                              strlen(fields[2 * n + 1]),
                              NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE };
    }
    id = nghttp2_submit_request(c->session, NULL, nv, n, body || len < 0 ? &provider : NULL, NULL);
    ck_assert_int_gt(id, 0);
    a = h2_answer_of(c, id);
    a->send = body;
    a->send_open = len < 0;
    a->send_len = body ? (len < 0 ? strlen(body) : (size_t)len) : 0;
    h2_make(c); /* the fields are borrowed */
    return id;
}

int32_t h2_get(struct h2_client *c, const char *path)
{
    const char *const fields[] = { ":method", "GET", ":scheme", "https", ":authority", "a",
                                   ":path",   path,  NULL };

    return h2_submit(c, fields, NULL, 0);
}

void h2_frame(struct h2_client *c, int type, int flags, int32_t id, const void *payload,
              size_t len)
{
    const unsigned char head[9] = { (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                                    (unsigned char)len,         (unsigned char)type,
                                    (unsigned char)flags,       (unsigned char)(id >> 24),
                                    (unsigned char)(id >> 16),  (unsigned char)(id >> 8),
                                    (unsigned char)id };

    h2_make(c);
    buf_add(&c->out, head, sizeof(head));
    buf_add(&c->out, payload, len);
}

void h2_make(struct h2_client *c)
{
    const uint8_t *data;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(c->session, &data)) > 0) {
        buf_add(&c->out, data, (size_t)n);
    }
}

void h2_send(struct h2_client *c)
{
    h2_make(c);
    send_all(c->fd, c->out.data, c->out.len);
    buf_clear(&c->out);
}

/* ---- answers --------------------------------------------------------------------------------- */

bool h2_round(struct h2_client *c)
{
    struct pollfd p = { .fd = c->fd, .events = POLLIN };
    uint8_t in[65536];
    ssize_t n;

    h2_send(c);
    if (c->hung_up || poll(&p, 1, QUIET_MS) != 1) {
        return false;
    }
    n = recv(c->fd, in, sizeof(in), 0);
    c->hung_up = n <= 0;
    if (n > 0) {
        ck_assert_int_ge(nghttp2_session_mem_recv(c->session, in, (size_t)n), 0);
    }
    return true;
}

struct h2_answer *h2_await(struct h2_client *c, int32_t id)
{
    struct h2_answer *a = h2_answer_of(c, id);

    /* of a request that we never ended ourselves we do not see the end of the stream */
    while (!a->closed && !(a->whole && a->send_open) && !c->hung_up) {
        h2_round(c);
    }
    buf_text(&a->head);
    buf_text(&a->body);
    return a;
}

void h2_await_goaway(struct h2_client *c)
{
    while (!c->goaway && !c->hung_up) {
        h2_round(c);
    }
}

void h2_await_end(struct h2_client *c)
{
    while (!c->hung_up) {
        h2_round(c);
    }
}

void h2_end_raw(struct h2_client *c)
{
    unsigned char *text;
    size_t len;

    h2_send(c);
    text = (unsigned char *)read_to_end(c->fd, &len);
    c->hung_up = true;
    for (size_t at = 0; at + 9 <= len;) {
        size_t n = (size_t)text[at] << 16 | (size_t)text[at + 1] << 8 | text[at + 2];

        if (text[at + 3] == NGHTTP2_GOAWAY && at + 17 <= len) {
            c->goaway = true;
            c->goaway_last = text[at + 12]; /* the low bytes of both */
            c->goaway_code = text[at + 16];
        }
        at += 9 + n;
    }
    free(text);
}

void h2_expect(struct h2_client *c, int32_t id, int status, const char *part)
{
    struct h2_answer *a = h2_await(c, id);

    ck_assert_msg(a->status == status && a->whole && strstr(buf_text(&a->body), part),
                  "got %d \"%s\", code %u; expected %d \"%s\"", a->status, buf_text(&a->body),
                  a->code, status, part);
}
