/* Raw calls: a service of our own beside RunnerProtocol. */
#include "certs.h"
#include "suites.h"

#include <rpc/raw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture *f;
static struct rpc_channel *channel;

/* ---- the service ----------------------------------------------------------------------------- */

static uint32_t gone_n, rooms_n;
static struct rpc_incoming *held;
static char identity[128];

static void on_echo(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)ud;
    if (!rpc_incoming_identity(in, identity, sizeof(identity))) {
        strcpy(identity, "nobody");
    }
    ck_assert_int_eq(rpc_incoming_send(in, data, len), 0);
    rpc_incoming_end(in, 0, NULL);
}

static void on_refuse(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
    rpc_incoming_end(in, 7, "not for you");
}

static void on_watch(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
    held = in;
    rpc_incoming_set(in, &held);
    rpc_incoming_send(in, "one", 3);
    rpc_incoming_send(in, "two", 3);
    fixture_notify(f);
}

static void on_gone(void *ud, struct rpc_incoming *in)
{
    (void)ud;
    ck_assert_ptr_eq(rpc_incoming_get(in), &held);
    gone_n++;
    held = NULL;
    fixture_notify(f);
}

/* As many as there is room for. */
static uint32_t left_n;

static void send_left(struct rpc_incoming *in)
{
    while (left_n > 0 && rpc_incoming_has_room(in)) {
        ck_assert_int_eq(rpc_incoming_send(in, "x", 1), 0);
        left_n--;
    }
    if (left_n == 0) {
        rpc_incoming_end(in, 0, NULL);
    }
}

static void on_many(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
    send_left(in);
}

static void on_room(void *ud, struct rpc_incoming *in)
{
    (void)ud;
    rooms_n++;
    send_left(in);
}

static const struct rpc_method methods[] = {
    { "/test.Service/Many", on_many },
    { "/test.Service/Echo", on_echo },
    { "/test.Service/Refuse", on_refuse },
    { "/test.Service/Watch", on_watch },
    { NULL, NULL },
};

static const struct rpc_service service = { methods, on_gone, NULL, on_room };

/* ---- the caller ------------------------------------------------------------------------------ */

struct heard {
    struct rpc_raw *call;
    char text[256]; /* messages, joined with '|' */
    uint32_t messages, ends;
    int status;
    char why[128];
};

static void on_message(void *ud, const void *data, size_t len)
{
    struct heard *h = ud;
    size_t used = strlen(h->text);

    snprintf(h->text + used, sizeof(h->text) - used, "%.*s|", (int)len, (const char *)data);
    h->messages++;
    fixture_notify(f);
}

static void on_end(void *ud, int grpc_status, const char *text)
{
    struct heard *h = ud;

    h->ends++;
    h->status = grpc_status;
    snprintf(h->why, sizeof(h->why), "%s", text);
    fixture_notify(f);
}

static const struct rpc_raw_cb heard_cb = { on_message, on_end };

static bool has_ended(void *ud)
{
    return ((struct heard *)ud)->ends > 0;
}

static bool has_two(void *ud)
{
    return ((struct heard *)ud)->messages == 2;
}

static bool is_gone(void *ud)
{
    (void)ud;
    return gone_n == 1;
}

static void call(struct heard *h, const char *method, const char *text, int64_t timeout_ms)
{
    int64_t deadline_ns = timeout_ms ? env_now_ns(f->env) + timeout_ms * ENV_MS : 0;

    ck_assert_int_eq(rpc_raw_start(channel, method, text, strlen(text), deadline_ns, &heard_cb, h,
                                   &h->call, NULL),
                     0);
}

static void open_with(const struct rpc_config *c)
{
    gone_n = 0;
    held = NULL;
    f = fixture_create_with(OVER_TCP, c);
    fixture_server_open(f);
    loop_enter(f->loop);
    rpc_server_serve(f->server, &service);
    ck_assert_int_eq(rpc_channel_open(f->rpc, f->address, NULL, NULL, &channel, NULL), 0);
    loop_leave(f->loop);
}

static void open_plain(void)
{
    struct rpc_config c = RPC_CONFIG_INIT;

    open_with(&c);
}

static void finish(void)
{
    loop_enter(f->loop);
    rpc_channel_close(channel);
    loop_leave(f->loop);
    fixture_destroy(f);
}

static void run(struct heard *h, const char *method, const char *text, int64_t timeout_ms)
{
    *h = (struct heard){ 0 };
    loop_enter(f->loop);
    call(h, method, text, timeout_ms);
    ck_assert_uint_eq(h->ends, 0); /* never from inside */
    loop_leave(f->loop);
    WAIT(f, has_ended, h);
}

START_TEST(test_unary)
{
    struct heard h;

    open_plain();
    run(&h, "/test.Service/Echo", "hello", 5000);
    ck_assert_int_eq(h.status, 0);
    ck_assert_str_eq(h.text, "hello|");
    ck_assert_str_eq(identity, "nobody");
    run(&h, "/test.Service/Echo", "", 5000);
    ck_assert_uint_eq(h.messages, 1);
    run(&h, "/test.Service/Refuse", "x", 5000);
    ck_assert_int_eq(h.status, 7);
    ck_assert_str_eq(h.why, "not for you");
    ck_assert_uint_eq(h.messages, 0);
    run(&h, "/test.Service/Nothing", "x", 5000);
    ck_assert_int_eq(h.status, 12);
    finish();
}
END_TEST

/* Messages that end where the connection's output does, with trailers behind them. */
START_TEST(test_every_size_around_a_write)
{
    enum { FROM = 130800, TO = 131200 };
    char *text = malloc(TO + 1);
    struct heard h;

    open_plain();
    for (size_t len = FROM; len < TO; len++) {
        memset(text, 'a', len);
        text[len] = '\0';
        run(&h, "/test.Service/Echo", text, 5000);
        ck_assert_msg(h.status == 0 && h.messages == 1, "%zu bytes: %d %s", len, h.status, h.why);
    }
    free(text);
    finish();
}
END_TEST

START_TEST(test_stream)
{
    struct heard h = { 0 };

    open_plain();
    loop_enter(f->loop);
    call(&h, "/test.Service/Watch", "", 0);
    loop_leave(f->loop);
    WAIT(f, has_two, &h);
    ck_assert_str_eq(h.text, "one|two|");
    loop_enter(f->loop);
    ck_assert_int_eq(rpc_incoming_send(held, "three", 5), 0);
    rpc_incoming_end(held, 0, NULL);
    loop_leave(f->loop);
    WAIT(f, has_ended, &h);
    ck_assert_str_eq(h.text, "one|two|three|");
    ck_assert_int_eq(h.status, 0);
    ck_assert_uint_eq(gone_n, 0);
    finish();
}
END_TEST

START_TEST(test_closed_by_the_caller)
{
    struct heard h = { 0 };

    open_plain();
    loop_enter(f->loop);
    call(&h, "/test.Service/Watch", "", 0);
    loop_leave(f->loop);
    WAIT(f, has_two, &h);
    loop_enter(f->loop);
    rpc_raw_close(h.call);
    loop_leave(f->loop);
    WAIT(f, is_gone, NULL);
    ck_assert(!has_ended(&h));
    finish();
}
END_TEST

START_TEST(test_closed_channel_is_silent)
{
    struct heard h = { 0 };

    open_plain();
    loop_enter(f->loop);
    call(&h, "/test.Service/Watch", "", 0);
    loop_leave(f->loop);
    WAIT(f, has_two, &h);
    loop_enter(f->loop);
    rpc_channel_close(channel);
    channel = NULL;
    loop_leave(f->loop);
    WAIT(f, is_gone, NULL);
    ck_assert_uint_eq(h.ends, 0);
    finish();
}
END_TEST

/* A peer that does not read: the queue is bounded, the owner is told. */
START_TEST(test_queue_is_bounded)
{
    struct heard h = { 0 };
    char *big = calloc(1, 1 << 20);
    int r = 0;
    int n;

    open_plain();
    loop_enter(f->loop);
    call(&h, "/test.Service/Watch", "", 0);
    loop_leave(f->loop);
    WAIT(f, has_two, &h);
    loop_enter(f->loop); /* nobody reads while we hold the loop */
    for (n = 0; n < 100 && r == 0; n++) {
        r = rpc_incoming_send(held, big, 1 << 20);
    }
    ck_assert_int_eq(r, FN_E_EXHAUSTED);
    ck_assert_int_le(n, RPC_QUEUE_MAX + 2);
    rpc_incoming_end(held, 0, NULL);
    loop_leave(f->loop);
    WAIT(f, has_ended, &h);
    free(big);
    finish();
}
END_TEST

/* More small messages at once than may wait: the rest goes when there is room, without a poll. */
START_TEST(test_room_comes)
{
    enum { MANY = 10 * RPC_QUEUE_MAX + 3 };
    struct heard h;

    open_plain();
    left_n = MANY;
    rooms_n = 0;
    run(&h, "/test.Service/Many", "", 5000);
    ck_assert_msg(h.status == 0, "%d %s", h.status, h.why);
    ck_assert_uint_eq(h.messages, MANY);
    ck_assert_uint_gt(rooms_n, 0);
    ck_assert_uint_eq(left_n, 0);
    finish();
}
END_TEST

START_TEST(test_nobody_there)
{
    struct heard h;

    open_plain();
    fixture_server_close(f);
    run(&h, "/test.Service/Echo", "x", 3000);
    ck_assert(h.status == 14 || h.status == 4);
    finish();
}
END_TEST

/* Left open on purpose: destroying the rpc ends calls on both sides without callbacks. */
START_TEST(test_destroy_with_calls)
{
    struct heard h = { 0 };

    open_plain();
    loop_enter(f->loop);
    call(&h, "/test.Service/Watch", "", 0);
    loop_leave(f->loop);
    WAIT(f, has_two, &h);
    fixture_destroy(f);
    ck_assert_uint_eq(h.ends, 0);
}
END_TEST

START_TEST(test_identity)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct heard h;

    c.tls = c.tls_server =
        (struct net_tls){ .cert_pem = node_pem, .key_pem = node_key, .ca_pem = ca_pem };
    gone_n = 0;
    f = fixture_create_with(OVER_TCP, &c);
    fixture_server_open(f);
    loop_enter(f->loop);
    rpc_server_serve(f->server, &service);
    ck_assert_int_eq(rpc_channel_open(f->rpc, f->address, NULL, "runner-1.test", &channel, NULL),
                     0);
    loop_leave(f->loop);
    run(&h, "/test.Service/Echo", "x", 5000);
    ck_assert_msg(h.status == 0, "%s", h.why);
    ck_assert_str_ne(identity, "nobody");
    finish();
}
END_TEST

/* Only peers with the right name may call, and be called; renewed lists count for the next call. */
START_TEST(test_peers)
{
    static const char *const us[] = { "nobody-*", "runner-*" };
    static const char *const others[] = { "lb-*" };
    const struct net_tls any = { .cert_pem = node_pem, .key_pem = node_key, .ca_pem = ca_pem,
                                 .server_name = "runner-1.test" };
    struct net_tls ours = any, theirs = any;
    struct rpc_config c = RPC_CONFIG_INIT;
    struct heard h;

    ours.peers = us;
    ours.n_peers = 2;
    theirs.peers = others;
    theirs.n_peers = 1;
    c.tls = c.tls_server = ours;
    open_with(&c);
    run(&h, "/test.Service/Echo", "x", 5000);
    ck_assert_msg(h.status == 0, "%s", h.why);
    loop_enter(f->loop);
    ck_assert_int_eq(rpc_renew_client(f->rpc, &any, NULL), 0);
    ck_assert_int_eq(rpc_renew_server(f->rpc, &theirs, NULL), 0);
    loop_leave(f->loop);
    run(&h, "/test.Service/Echo", "x", 5000);
    ck_assert_int_eq(h.status, 7);
    ck_assert_ptr_nonnull(strstr(h.why, "may not use this port"));
    loop_enter(f->loop);
    ck_assert_int_eq(rpc_renew_client(f->rpc, &theirs, NULL), 0);
    ck_assert_int_eq(rpc_renew_server(f->rpc, &any, NULL), 0);
    rpc_channel_close(channel);
    ck_assert_int_eq(rpc_channel_open(f->rpc, f->address, NULL, NULL, &channel, NULL), 0);
    loop_leave(f->loop);
    run(&h, "/test.Service/Echo", "x", 3000);
    ck_assert_int_ne(h.status, 0); /* the server is none of ours */
    finish();
}
END_TEST

/* ---- a runner that answers more than it was asked ---------------------------------------------- */

#define PIECE_BYTES (64u << 10)

static bool ends_well; /* behind its messages; else it would send on */

static void on_chatty(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    static char piece[PIECE_BYTES];

    (void)ud;
    (void)data;
    (void)len;
    held = in;
    rpc_incoming_set(in, &held);
    for (int i = 0; i < (ends_well ? 3 : RPC_QUEUE_MAX); i++) {
        ck_assert_int_eq(rpc_incoming_send(in, ends_well ? "\10\1" : piece,
                                           ends_well ? 2 : sizeof(piece)), 0);
    }
    if (ends_well) {
        rpc_incoming_end(in, 0, NULL);
    }
}

static void on_chatty_status(void *ud, const struct rpc_status_result *r)
{
    struct heard *h = ud;

    on_end(h, r->grpc_status, r->text ? r->text : "");
}

START_TEST(test_more_than_one_answer)
{
    static const struct rpc_method chatty[] = { { "/RunnerProtocol/Status", on_chatty },
                                                { NULL, NULL } };
    static const struct rpc_service runner = { chatty, on_gone, NULL, NULL };
    struct rpc_config config = RPC_CONFIG_INIT;
    struct heard h = { 0 };

    ends_well = _i == 0;
    gone_n = 0;
    f = fixture_create_with(OVER_UNIX, &config);
    loop_enter(f->loop);
    ck_assert_int_eq(rpc_server_open(f->rpc, f->address, NULL, NULL, &f->server, NULL), 0);
    rpc_server_serve(f->server, &runner);
    loop_leave(f->loop);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    loop_enter(f->loop);
    ck_assert_int_eq(rpc_status(f->link, env_now_ns(f->env) + 5 * ENV_S, on_chatty_status, &h), 0);
    loop_leave(f->loop);
    WAIT(f, has_ended, &h);
    ck_assert_int_eq(h.status, GRPC_INTERNAL);
    ck_assert_str_eq(h.why, "expected one message in answer, got more");
    if (!ends_well) {
        WAIT(f, is_gone, NULL); /* the runner sees it cancelled */
    }
    fixture_destroy(f);
}
END_TEST

TCase *raw_case(void)
{
    TCase *tc = tcase_create("raw");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_unary);
    tcase_add_test(tc, test_every_size_around_a_write);
    tcase_add_test(tc, test_stream);
    tcase_add_test(tc, test_closed_by_the_caller);
    tcase_add_test(tc, test_closed_channel_is_silent);
    tcase_add_test(tc, test_queue_is_bounded);
    tcase_add_test(tc, test_room_comes);
    tcase_add_test(tc, test_nobody_there);
    tcase_add_test(tc, test_destroy_with_calls);
    tcase_add_test(tc, test_identity);
    tcase_add_test(tc, test_peers);
    tcase_add_loop_test(tc, test_more_than_one_answer, 0, 2);
    return tc;
}
