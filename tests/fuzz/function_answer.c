/* What a function answers on its socket, to the function socket as a runner has it; the first byte
 * says in which pieces it comes (fuzz_pieces()), and then the function closes the connection.
 *
 * How a call ends does not depend on the pieces, nor do status, header and body of one that ends
 * well; and http-parser reads the same answer there. */
#include "calm.h"
#include "fuzz.h"

#include <base/buf.h>
#include <errno.h>
#include <fcntl.h>
#include <http/fnsock.h>
#include <http_parser.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_BODY_MAX 1024

/* How a call ended, and what the caller got. */
struct told {
    bool ended;
    int status;
    struct buf fields, body;
    struct fnsock_result result;
};

static struct rig {
    struct calm calm;
    struct fnsock_if io;
    struct fnsock *sock;
    char base[32];
    int listen_fd;
    int fd; /* the function's end of the connection, -1 = none */
    bool ready;
    uint64_t news;
} rig = { .listen_fd = -1, .fd = -1 };

/* ---- the runner's side ----------------------------------------------------------------------- */

static void on_ready(void *ud, const struct fn_error *err)
{
    (void)ud;
    fuzz_expect(!err, "%s", err->msg);
    rig.ready = true;
    rig.news++;
}

static void on_head(void *ud, int status, const struct headers *h)
{
    struct told *t = ud;

    fuzz_expect(t->status == 0 && !t->ended, "a second head");
    t->status = status;
    for (uint32_t i = 0; i < h->n; i++) {
        buf_printf(&t->fields, "%s=%s\n", h->items[i].name, h->items[i].value);
    }
    rig.news++;
}

static void on_data(void *ud, const void *data, size_t len)
{
    struct told *t = ud;

    fuzz_expect(t->status != 0 && !t->ended, "data without a head");
    buf_add(&t->body, data, len);
    fuzz_expect(t->body.len <= ANSWER_BODY_MAX, "%zu bytes", t->body.len);
    rig.news++;
}

static void on_writable(void *ud)
{
    (void)ud;
}

static void on_end(void *ud, const struct fnsock_result *r)
{
    struct told *t = ud;

    fuzz_expect(!t->ended, "a second end");
    t->ended = true;
    t->result = *r;
    rig.news++;
}

static void rig_end(void)
{
    loop_enter(rig.calm.loop);
    rig.io.close(rig.sock);
    fnsock_destroy(&rig.io);
    loop_leave(rig.calm.loop);
    loop_destroy(rig.calm.loop);
    rmdir(rig.base);
}

/* ---- the function's side --------------------------------------------------------------------- */

static void function_listen(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char link[128];

    snprintf(un.sun_path, sizeof(un.sun_path), "%s/f.sock", rig.io.dir(rig.sock));
    snprintf(link, sizeof(link), "%s/lsnr.sock", rig.io.dir(rig.sock));
    rig.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fuzz_expect(bind(rig.listen_fd, (struct sockaddr *)&un, sizeof(un)) == 0 &&
                    listen(rig.listen_fd, 8) == 0 && symlink("f.sock", link) == 0,
                "%s", strerror(errno));
}

/* The newest connection is the one that counts: the first one may have been a probe. */
static void function_read(void)
{
    char bytes[4096];
    int fd = accept4(rig.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ssize_t n = 0;

    if (fd >= 0) {
        if (rig.fd >= 0) {
            close(rig.fd);
        }
        rig.fd = fd;
        rig.news++;
    }
    if (rig.fd >= 0 && (n = recv(rig.fd, bytes, sizeof(bytes), 0)) > 0) {
        rig.news++;
    }
    if (rig.fd >= 0 && (n == 0 || (n < 0 && errno != EAGAIN))) {
        close(rig.fd);
        rig.fd = -1;
        rig.news++;
    }
}

static uint64_t look(void)
{
    function_read();
    return rig.news;
}

static void rig_begin(void)
{
    static struct fnsock_config config = { .iofs_path = rig.base,
                                           .limits = { ANSWER_BODY_MAX, 512, 10, 600 * ENV_S } };
    struct fn_error err = { .size = sizeof(err) };
    int r;

    snprintf(rig.base, sizeof(rig.base), "/tmp/fnd-fuzz-XXXXXX");
    fuzz_expect(mkdtemp(rig.base) != NULL, "%s", strerror(errno));
    fuzz_expect(loop_create(NULL, &rig.calm.loop, &err) == 0, "%s", err.msg);
    fuzz_expect(fnsock_create(rig.calm.loop, &config, &rig.io, &err) == 0, "%s", err.msg);
    rig.calm.look = look;
    loop_enter(rig.calm.loop);
    r = rig.io.open(rig.io.impl, "c", on_ready, NULL, &rig.sock, &err);
    loop_leave(rig.calm.loop);
    fuzz_expect(r == 0, "%s", err.msg);
    function_listen();
    atexit(rig_end);
    while (!rig.ready) {
        calm_run(&rig.calm);
    }
}

/* ---- a call ---------------------------------------------------------------------------------- */

static struct fnsock_exchange *call_begin(struct told *t)
{
    static const struct fnsock_cb callbacks = { on_head, on_data, on_writable, on_end, NULL };
    struct fnsock_request q = { 0 };
    struct fnsock_exchange *x;

    loop_enter(rig.calm.loop);
    x = rig.io.request(rig.sock, &q, &callbacks, t);
    rig.io.send(x, "", 0, true);
    loop_leave(rig.calm.loop);
    return x;
}

static void call(struct fuzz_pieces pieces, struct fuzz_in in, struct told *t)
{
    struct fnsock_exchange *x = call_begin(t);
    uint32_t turns = 0;

    calm_run(&rig.calm);
    while (in.len > 0 && rig.fd >= 0) {
        ssize_t sent = send(rig.fd, in.at, fuzz_piece(&pieces, in.len), MSG_NOSIGNAL);

        if (sent > 0) {
            in.at += sent;
            in.len -= (size_t)sent;
        }
        calm_run(&rig.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "%zu bytes are never read", in.len);
    }
    if (rig.fd >= 0) {
        close(rig.fd);
        rig.fd = -1;
    }
    while (!t->ended) {
        calm_run(&rig.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "a call without an end");
    }
    loop_enter(rig.calm.loop);
    rig.io.finish(x);
    loop_leave(rig.calm.loop);
    calm_run(&rig.calm);
}

/* ---- what must hold -------------------------------------------------------------------------- */

static int add_body(http_parser *p, const char *at, size_t len)
{
    return buf_add(p->data, at, len) < 0;
}

/* An interim answer has another one behind it; behind the answer http-parser would begin the next. */
static int on_whole(http_parser *p)
{
    if (p->status_code >= 200) {
        http_parser_pause(p, 1);
    }
    return 0;
}

static void expect_oracle(struct fuzz_in in, const struct told *t)
{
    static const http_parser_settings callbacks = { .on_body = add_body,
                                                    .on_message_complete = on_whole };
    struct buf body = BUF_INIT(0);
    http_parser p;

    http_parser_init(&p, HTTP_RESPONSE);
    p.data = &body;
    http_parser_execute(&p, &callbacks, in.at, in.len);
    if (HTTP_PARSER_ERRNO(&p) == HPE_OK) {
        http_parser_execute(&p, &callbacks, "", 0);
    }
    fuzz_expect(HTTP_PARSER_ERRNO(&p) == HPE_PAUSED || HTTP_PARSER_ERRNO(&p) == HPE_OK, "%s: %.*s",
                http_errno_description(HTTP_PARSER_ERRNO(&p)), (int)in.len, in.at);
    fuzz_expect((int)p.status_code == t->status, "%d, http-parser has %u", t->status,
                p.status_code);
    fuzz_expect(body.len == t->body.len &&
                    (body.len == 0 || memcmp(body.data, t->body.data, body.len) == 0),
                "%zu bytes, http-parser has %zu: %.*s", t->body.len, body.len, (int)in.len, in.at);
    buf_finish(&body);
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    struct fuzz_pieces pieces = fuzz_pieces(&in), one = { .state = 1, .fixed = SIZE_MAX };
    struct told whole = { 0 }, cut = { 0 };

    if (!rig.calm.loop) {
        rig_begin();
    }
    call(one, in, &whole);
    call(pieces, in, &cut);
    fuzz_expect(whole.result.end == cut.result.end, "%d (%s), in pieces %d (%s): %.*s",
                (int)whole.result.end, whole.result.text, (int)cut.result.end, cut.result.text,
                (int)in.len, in.at);
    fuzz_expect(whole.result.end == FNSOCK_OK || whole.result.text[0], "an end without a reason");
    if (whole.result.end == FNSOCK_OK) {
        fuzz_expect(whole.status == cut.status && is_same(&whole.fields, &cut.fields) &&
                        is_same(&whole.body, &cut.body),
                    "%.*s", (int)in.len, in.at);
        if (!fuzz_is_beyond_oracle(in)) {
            expect_oracle(in, &whole);
        }
    }
    buf_finish(&whole.fields);
    buf_finish(&whole.body);
    buf_finish(&cut.fields);
    buf_finish(&cut.body);
    return 0;
}
