/* What the server makes of clients that break the protocol, with plain gRPC as the client. */
#include "suites.h"

#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct fixture *f;

struct raw {
    grpc_completion_queue *cq;
    grpc_channel *channel;
    grpc_call *call;
    grpc_metadata_array md, trailing;
    grpc_status_code status;
    grpc_slice details;
    grpc_byte_buffer *got;
    char text[512];
    char answer[512];
    size_t answer_len;
};

static int next(struct raw *r)
{
    gpr_timespec until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                      gpr_time_from_seconds(20, GPR_TIMESPAN));
    grpc_event ev = grpc_completion_queue_next(r->cq, until, NULL);

    ck_assert_int_eq(ev.type, GRPC_OP_COMPLETE);
    return ev.success;
}

static void batch(struct raw *r, const grpc_op *ops, size_t n)
{
    ck_assert_int_eq(grpc_call_start_batch(r->call, ops, n, (void *)1, NULL), GRPC_CALL_OK);
    next(r);
}

static void raw_open(struct raw *r, const char *method)
{
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_op op = { .op = GRPC_OP_SEND_INITIAL_METADATA };
    grpc_slice path = grpc_slice_from_copied_string(method);

    memset(r, 0, sizeof(*r));
    grpc_init();
    r->cq = grpc_completion_queue_create_for_next(NULL);
    r->channel = grpc_channel_create(f->address, creds, NULL);
    grpc_channel_credentials_release(creds);
    r->call = grpc_channel_create_call(r->channel, NULL, GRPC_PROPAGATE_DEFAULTS, r->cq,
                                       path, NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_slice_unref(path);
    r->details = grpc_empty_slice();
    batch(r, &op, 1);
}

static void raw_send(struct raw *r, const void *data, size_t len)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(data, len);
    grpc_byte_buffer *bb = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_op op = { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = bb };

    batch(r, &op, 1);
    grpc_byte_buffer_destroy(bb);
    grpc_slice_unref(slice);
}

static void raw_half_close(struct raw *r)
{
    grpc_op op = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };

    batch(r, &op, 1);
}

/* First message into answer, the others away, then the status. */
static int raw_end(struct raw *r)
{
    grpc_op ops[2] = { { .op = GRPC_OP_RECV_INITIAL_METADATA,
                         .data.recv_initial_metadata.recv_initial_metadata = &r->md },
                       { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &r->got } };
    grpc_op end = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                    .data.recv_status_on_client = { .trailing_metadata = &r->trailing,
                                                    .status = &r->status,
                                                    .status_details = &r->details } };
    grpc_byte_buffer_reader reader;
    grpc_byte_buffer *more = NULL;
    grpc_slice all;

    batch(r, ops, 2);
    if (r->got) {
        ck_assert(grpc_byte_buffer_reader_init(&reader, r->got));
        all = grpc_byte_buffer_reader_readall(&reader);
        r->answer_len = GRPC_SLICE_LENGTH(all);
        ck_assert_uint_lt(r->answer_len, sizeof(r->answer));
        memcpy(r->answer, GRPC_SLICE_START_PTR(all), r->answer_len);
        grpc_slice_unref(all);
        grpc_byte_buffer_reader_destroy(&reader);
    }
    while (r->got && (ops[1].data.recv_message.recv_message = &more)) {
        batch(r, &ops[1], 1);
        if (!more) {
            break;
        }
        grpc_byte_buffer_destroy(more);
    }
    batch(r, &end, 1);
    snprintf(r->text, sizeof(r->text), "%.*s", (int)GRPC_SLICE_LENGTH(r->details),
             (const char *)GRPC_SLICE_START_PTR(r->details));
    return (int)r->status;
}

static void raw_close(struct raw *r)
{
    grpc_metadata_array_destroy(&r->md);
    grpc_metadata_array_destroy(&r->trailing);
    grpc_slice_unref(r->details);
    grpc_byte_buffer_destroy(r->got);
    grpc_call_unref(r->call);
    grpc_channel_destroy(r->channel);
    grpc_completion_queue_shutdown(r->cq);
    while (grpc_completion_queue_next(r->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(r->cq);
    grpc_shutdown();
}

/* Try{json "echo"}, Data{"x"}, Data{eof}. */
static const char try_echo[] = "\x0a\x06\x0a\x04" "echo";
static const char data_x[] = "\x12\x03\x0a\x01x";
static const char data_eof[] = "\x12\x02\x10\x01";
static const char unknown[] = "\x1a\x02\x08\x01";
static const char try_nul[] = "\x0a\x06\x0a\x04" "ec\0o";
static const char broken[] = "\x0a\x7f\x08";

struct script {
    const char *what;
    const char *message[3];
    size_t len[3];
    bool half_close;
    int status;
    const char *text;
};

static const struct script scripts[] = {
    { "data first", { data_x }, { sizeof(data_x) - 1 }, false, 3, "RUN401 expected TryCall first" },
    { "half-close first", { NULL }, { 0 }, true, 3, "RUN401 expected TryCall first" },
    { "unknown first", { unknown }, { sizeof(unknown) - 1 }, false, 3,
      "RUN401 expected TryCall first" },
    { "empty first", { "" }, { 0 }, false, 3, "RUN401 expected TryCall first" },
    { "not protobuf", { broken }, { sizeof(broken) - 1 }, false, 13, "RUN403" },
    { "try twice", { try_echo, try_echo }, { sizeof(try_echo) - 1, sizeof(try_echo) - 1 }, false,
      3, "Protocol failure: expected ClientMsg_Data" },
    { "unknown before data", { try_echo, unknown, data_eof },
      { sizeof(try_echo) - 1, sizeof(unknown) - 1, sizeof(data_eof) - 1 }, false, 0, "" },
    { "NUL in a text", { try_nul }, { sizeof(try_nul) - 1 }, false, 13, "RUN403" },
    { "broken data", { try_echo, broken }, { sizeof(try_echo) - 1, sizeof(broken) - 1 }, false, 13,
      "RUN403" },
    { "half-close before eof", { try_echo, data_x }, { sizeof(try_echo) - 1, sizeof(data_x) - 1 },
      true, 3, "Protocol failure: expected ClientMsg_Data" },
    { "more after eof", { try_echo, data_eof, data_x },
      { sizeof(try_echo) - 1, sizeof(data_eof) - 1, sizeof(data_x) - 1 }, false, 0, "" },
    { "no half-close", { try_echo, data_eof }, { sizeof(try_echo) - 1, sizeof(data_eof) - 1 },
      false, 0, "" },
};

static bool nothing_held(void *ud)
{
    (void)ud;
    return f->gone + f->finished == f->tries;
}

/* settled: what holds once the runner has let go of the stream. */
static void run_script(const char *path, const struct script *s, bool (*settled)(void *ud))
{
    struct raw r;

    f = fixture_create(OVER_UNIX);
    raw_open(&r, path);
    for (int i = 0; i < 3 && s->message[i]; i++) {
        raw_send(&r, s->message[i], s->len[i]);
    }
    if (s->half_close) {
        raw_half_close(&r);
    }
    raw_end(&r);
    ck_assert_msg((int)r.status == s->status, "%s: status %d %s", s->what, r.status, r.text);
    ck_assert_msg(strncmp(r.text, s->text, strlen(s->text)) == 0, "%s: %s", s->what, r.text);
    WAIT(f, settled, NULL);
    raw_close(&r);
    fixture_destroy(f);
}

START_TEST(test_protocol)
{
    run_script("/RunnerProtocol/Engage", &scripts[_i], nothing_held);
}
END_TEST

START_TEST(test_big_messages)
{
    static const size_t sizes[] = { 70000, 4u << 20, (4u << 20) + 100 };
    static const int codes[] = { 8, 8, 8 };
    struct raw r;

    f = fixture_create(OVER_UNIX);
    for (int i = 0; i < 3; i++) {
        char *m = calloc(1, sizes[i]);
        size_t inner = sizes[i] - 10;
        size_t n = 0;

        /* Data{data of `inner` bytes}, both lengths in four-byte varints */
        m[n++] = 0x12;
        for (int k = 0; k < 4; k++) {
            m[n++] = (char)(0x80 | ((inner + 5) >> (7 * k) & 0x7f));
        }
        m[n - 1] &= 0x7f;
        m[n++] = 0x0a;
        for (int k = 0; k < 3; k++) {
            m[n++] = (char)(0x80 | (inner >> (7 * k) & 0x7f));
        }
        m[n++] = (char)(inner >> 21 & 0x7f);
        raw_open(&r, "/RunnerProtocol/Engage");
        raw_send(&r, try_echo, sizeof(try_echo) - 1);
        raw_send(&r, m, n + inner);
        raw_end(&r);
        ck_assert_msg((int)r.status == codes[i], "%zu: status %d %s", sizes[i], r.status, r.text);
        raw_close(&r);
        free(m);
    }
    WAIT(f, nothing_held, NULL);
    fixture_destroy(f);
}
END_TEST

/* A first message that is larger than the limit never becomes a session. */
START_TEST(test_big_try)
{
    size_t len = (4u << 20) + 1;
    char *m = calloc(1, len);
    struct raw r;

    f = fixture_create(OVER_TCP);
    raw_open(&r, "/RunnerProtocol/Engage");
    raw_send(&r, m, len);
    ck_assert_int_eq(raw_end(&r), 8);
    ck_assert_uint_eq(f->tries, 0);
    raw_close(&r);
    free(m);
    fixture_destroy(f);
}
END_TEST

/* gRPC looks at the length of a message only when all of it is there; the quota ends it before. */
START_TEST(test_huge_message)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    size_t len = 256u << 20;
    char *m = calloc(1, len);
    struct told t = { 0 };
    struct raw r;

    config.memory_max_bytes = 16u << 20;
    f = fixture_create_with(OVER_TCP, &config);
    fixture_server_open(f);
    raw_open(&r, "/RunnerProtocol/Engage");
    raw_send(&r, try_echo, sizeof(try_echo) - 1);
    raw_send(&r, m, len);
    ck_assert_int_eq(raw_end(&r), 8);
    raw_close(&r);
    WAIT(f, nothing_held, NULL);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    told_run(&t, f, "echo", "x", 1);
    ck_assert_int_eq(t.grpc_status, 0);
    free(m);
    fixture_destroy(f);
}
END_TEST

struct unary_case {
    const char *method;
    int status;
    const char *text;
    const char *answer;
    size_t answer_len;
};

/* fixture_answer()'s, in the order of their numbers: active, failed, id, details, errorCode, errorStr,
 * createdAt, cached, schedulerDuration, executionDuration, isNetworkDisabled, customStatus,
 * imagePullWaitDuration, ctrPrepDuration, ctrCreateDuration, initStartTime. */
#define STATUS                                                                                     \
    "\x10\x03\x18\x01\x22\x02" "01\x2a\x02{}\x30\xf7\x03\x3a\x0c" "no engine \xc3\xa4\x42\x18"       \
    "2026-11-21T04:17:24.501Z\x58\x01\x78\x01\x80\x01\x02\x88\x01\x01\x92\x01\x0f\x0a\x06"        \
    "custom\x12\x05" "works\x98\x01\x03\xa0\x01\x04"                                               \
    "\xa8\x01\x05\xb0\x01\x06"

static const struct unary_case unaries[] = {
    { "/RunnerProtocol/Status", 0, "", STATUS, sizeof(STATUS) - 1 },
    { "/RunnerProtocol/Status2", 0, "", STATUS, sizeof(STATUS) - 1 },
    { "/RunnerProtocol/ConfigureRunner", 0, "", "", 0 },
    { "/RunnerProtocol/StreamLogs", 3, "RUN401 expected Start first (expected start session)", NULL,
      0 },
    { "/RunnerProtocol/Nope", 12, "unknown method Nope for service RunnerProtocol", NULL, 0 },
    { "/Other/Engage", 12, "unknown service Other", NULL, 0 },
    { "/NoSlash", 12, "malformed method name: /NoSlash", NULL, 0 },
};

START_TEST(test_unary)
{
    const struct unary_case *u = &unaries[_i];
    struct raw r;

    f = fixture_create(OVER_UNIX);
    raw_open(&r, u->method);
    raw_send(&r, "", 0);
    raw_half_close(&r);
    raw_end(&r);
    ck_assert_msg((int)r.status == u->status, "%s: %d %s", u->method, r.status, r.text);
    ck_assert_str_eq(r.text, u->text);
    ck_assert(!u->answer == !r.got);
    if (u->answer) {
        ck_assert_uint_eq(r.answer_len, u->answer_len);
        ck_assert_int_eq(memcmp(r.answer, u->answer, u->answer_len), 0);
    }
    raw_close(&r);
    fixture_destroy(f);
}
END_TEST

/* Start{}, Ack{}, Ready{}. */
static const char logs_start[] = "\x0a\0", logs_ack[] = "\x12\0", logs_ready[] = "\x1a\0";

static const struct script log_scripts[] = {
    { "ack first", { logs_ack }, { 2 }, false, 3, "RUN401 expected Start first" },
    { "half-close first", { NULL }, { 0 }, true, 3, "RUN401 expected Start first" },
    { "not protobuf", { broken }, { sizeof(broken) - 1 }, false, 3, "RUN403" },
    { "start twice", { logs_start, logs_start }, { 2, 2 }, false, 3, "RUN401 a second Start" },
    { "half-close after start", { logs_start }, { 2 }, true, 0, "" },
    { "broken ack", { logs_start, broken }, { 2, sizeof(broken) - 1 }, false, 3, "RUN403" },
};

static bool no_logs(void *ud)
{
    (void)ud;
    return !f->logs;
}

START_TEST(test_logs_protocol)
{
    run_script("/RunnerProtocol/StreamLogs", &log_scripts[_i], no_logs);
}
END_TEST

static bool logs_are_wanted(void *ud)
{
    (void)ud;
    return f->logs && f->logs->wanted;
}

/* Bytes of the message that anybody's collector gets. */
START_TEST(test_logs_message)
{
    static const char expected[] =
        "\x0a\x36\x0a\x03" "app\x12\x02" "fn\x1a\x01" "c\x22\x1a\x0a\x01" "1\x12\x08\x08\x05"
        "\x1a\x04line\x12\x0b\x08\x06\x10\x01\x1a\x05\xff oth\x22\x0c\x0a\x01" "2\x12\x07\x08"
        "\x07\x10\x01\xa0\x06\x03";
    const struct engage_line lines[] = {
        { "app", "fn", "c", "1", "line", 4, 5, 0, false },
        { "app", "fn", "c", "1", "\xff oth", 5, 6, 0, true },
        { "app", "fn", "c", "2", "", 0, 7, 3, true },
    };
    struct raw r;

    f = fixture_create(OVER_UNIX);
    raw_open(&r, "/RunnerProtocol/StreamLogs");
    raw_send(&r, logs_start, 2);
    raw_send(&r, _i ? logs_ready : logs_ack, 2);
    WAIT(f, logs_are_wanted, NULL);
    loop_enter(f->loop);
    ck_assert_int_eq(f->logs->send(f->logs, lines, 3), 0);
    f->logs->end(f->logs, 0, NULL);
    f->logs = NULL;
    loop_leave(f->loop);
    raw_end(&r);
    ck_assert_int_eq((int)r.status, 0);
    ck_assert_uint_eq(r.answer_len, sizeof(expected) - 1);
    ck_assert_int_eq(memcmp(r.answer, expected, r.answer_len), 0);
    raw_close(&r);
    fixture_destroy(f);
}
END_TEST

/* Of Status2: a Struct, and the JSON that the status image gets of it. */
static const struct request {
    const char *bytes;
    size_t len;
    const char *json; /* NULL: refused */
} requests[] = {
#define REQUEST(bytes_, json_) { bytes_, sizeof(bytes_) - 1, json_ }
    REQUEST("", "{}"),
    REQUEST("\x0a\x0e\x0a\x01" "a\x12\x09\x11\0\0\0\0\0\0\xf8\x3f", "{\"a\":1.5}"),
    REQUEST("\x0a\x0e\x0a\x01" "a\x12\x09\x11\x9a\x99\x99\x99\x99\x99\xb9\x3f", "{\"a\":0.1}"),
    REQUEST("\x0a\x03\x0a\x01" "a\x0a\x07\x0a\x01" "b\x12\x02\x1a\0", "{\"a\":null,\"b\":\"\"}"),
    REQUEST("\x0a\x1e\x0a\x01l\x12\x19\x32\x17\x0a\x02\x20\x01\x0a\x02\x08\0\x0a\x0d\x2a\x0b\x0a\x09"
            "\x0a\x01k\x12\x04\x1a\x02v<", "{\"l\":[true,null,{\"k\":\"v\\u003c\"}]}"),
    REQUEST("\x12\x01x\x0a\x07\x0a\x01" "b\x12\x02\x20\0", "{\"b\":false}"), /* 2: unknown */
    REQUEST("\x0a\x05\x0a", NULL),
    REQUEST("\x0a\x0e\x0a\x01" "a\x12\x09\x11\0\0\0\0\0\0\xf8\x7f", NULL), /* not a number */
    REQUEST("\x0a\x0e\x0a\x01" "a\x12\x09\x11\0\0\0\0", NULL),
};

/* What the loop's thread wrote down. */
static void expect_asked(const char *json, uint32_t asks, uint32_t gone)
{
    loop_enter(f->loop);
    ck_assert_str_eq(f->last_ask, json);
    ck_assert_uint_eq(f->asks, asks);
    ck_assert_uint_eq(f->asks_gone, gone);
    loop_leave(f->loop);
}

static void ask_status2(struct raw *r, const void *data, size_t len)
{
    raw_open(r, "/RunnerProtocol/Status2");
    raw_send(r, data, len);
    raw_half_close(r);
    raw_end(r);
}

START_TEST(test_status2)
{
    const struct request *q = &requests[_i];
    struct raw r;

    f = fixture_create(OVER_UNIX);
    ask_status2(&r, q->bytes, q->len);
    ck_assert_int_eq((int)r.status, q->json ? 0 : 3);
    ck_assert_str_eq(r.text, q->json ? "" : "RUN403 the request is not a Struct");
    expect_asked(q->json ? q->json : "", q->json != NULL, 0);
    raw_close(&r);
    fixture_destroy(f);
}
END_TEST

/* m is a field's content: puts the tag and the length before it. */
static size_t wrap(unsigned char *m, size_t len, unsigned char tag)
{
    memmove(m + 4, m, len);
    m[0] = tag;
    m[1] = (unsigned char)(0x80 | (len & 0x7f));
    m[2] = (unsigned char)(0x80 | (len >> 7 & 0x7f));
    m[3] = (unsigned char)(len >> 14);
    return len + 4;
}

/* Lists in lists, beneath the Struct. */
START_TEST(test_status2_depth)
{
    static unsigned char m[40000];
    const int levels[] = { 31, 32, 4000 };
    struct raw r;
    size_t len = 0;

    f = fixture_create(OVER_UNIX);
    for (int i = 0; i < levels[_i]; i++) {
        len = wrap(m, wrap(m, len, 0x0a), 0x32); /* a Value of a ListValue of it */
    }
    len = wrap(m, wrap(m, len, 0x12), 0x0a);
    ask_status2(&r, m, len);
    ck_assert_int_eq((int)r.status, _i == 0 ? 0 : 3);
    loop_enter(f->loop);
    ck_assert_uint_eq(f->asks, _i == 0);
    loop_leave(f->loop);
    raw_close(&r);
    fixture_destroy(f);
}
END_TEST

static bool is_asked(void *ud)
{
    (void)ud;
    return f->asked != NULL;
}

static bool has_left(void *ud)
{
    (void)ud;
    return f->asks_gone > 0;
}

/* Kept: the answer comes later, or who asked leaves, or the server ends. */
START_TEST(test_status_later)
{
    struct raw r;

    f = fixture_create(OVER_UNIX);
    loop_enter(f->loop);
    f->holds_asks = true;
    loop_leave(f->loop);
    raw_open(&r, "/RunnerProtocol/Status");
    raw_send(&r, "", 0);
    raw_half_close(&r);
    WAIT(f, is_asked, NULL);
    expect_asked("{}", 1, 0);
    if (_i == 0) {
        loop_enter(f->loop);
        fixture_answer(f, f->asked);
        loop_leave(f->loop);
        raw_end(&r);
        ck_assert_int_eq((int)r.status, 0);
        ck_assert_uint_eq(r.answer_len, sizeof(STATUS) - 1);
        expect_asked("{}", 1, 0);
    } else if (_i == 1) {
        grpc_call_cancel(r.call, NULL);
        WAIT(f, has_left, NULL);
        raw_end(&r);
    } else {
        fixture_server_close(f);
        raw_end(&r);
        ck_assert_int_ne((int)r.status, 0);
    }
    raw_close(&r);
    fixture_destroy(f);
}
END_TEST

static bool is_configuring(void *ud)
{
    (void)ud;
    return f->configuring != NULL;
}

/* Refused with the reason, answered later, left, and not even a ConfigMsg. */
START_TEST(test_configure)
{
    static const char *const messages[] = {
        "\x0a\x08\x0a\x01" "a\x12\x03" "why",
        "\x0a\x09\x0a\x04" "hold\x12\x01" "x",
        "\x0a\x09\x0a\x04" "hold\x12\x01" "x",
        "\x0a\x09\x0a\x04" "hold",
    };
    struct raw r;

    f = fixture_create(OVER_UNIX);
    raw_open(&r, "/RunnerProtocol/ConfigureRunner");
    raw_send(&r, messages[_i], strlen(messages[_i]));
    raw_half_close(&r);
    if (_i == 1 || _i == 2) {
        WAIT(f, is_configuring, NULL);
    }
    if (_i == 1) {
        loop_enter(f->loop);
        f->configuring->answer(f->configuring, GRPC_OK, NULL);
        loop_leave(f->loop);
    } else if (_i == 2) {
        grpc_call_cancel(r.call, NULL);
        WAIT(f, has_left, NULL);
    }
    raw_end(&r);
    ck_assert_int_eq((int)r.status, _i == 1 ? GRPC_OK : _i == 2 ? GRPC_CANCELLED : GRPC_INVALID);
    if (_i != 2) {
        ck_assert_str_eq(r.text, _i == 0 ? "why" : _i == 1 ? "" : "RUN403 not a ConfigMsg");
    }
    raw_close(&r);
    fixture_destroy(f);
}
END_TEST

/* Exact bytes, as Go reads them: ResultStart, Data, Finished. */
START_TEST(test_wire_bytes)
{
    struct raw r;

    f = fixture_create(OVER_UNIX);
    raw_open(&r, "/RunnerProtocol/Engage");
    raw_send(&r, "\x0a\x06\x0a\x04nack", 8);
    raw_end(&r);
    ck_assert_int_eq((int)r.status, 0);
    /* Finished{details, errorCode 503, errorStr, createdAt, 8: 1111, 9: 2222, image, 100: Refusal},
     * no success. Go passes over 100: {1: ROOM, 2: 250 ms, 3: 64 MiB, 4: 500, 5: 3}. */
    static const char want[] = "\x1a\x4c\x12\x08the-call\x18\xf7\x03\x22\x04" "busy"
                               "\x2a\x18" "2026-11-21T04:17:24.501Z\x40\xd7\x08\x48\xae\x11"
                               "\x5a\x03img"
                               "\xa2\x06\x11\x08\x01\x10\x80\xe5\x9a\x77"
                               "\x18\x80\x80\x80\x20\x20\xf4\x03\x28\x03";
    ck_assert_uint_eq(r.answer_len, sizeof(want) - 1);
    ck_assert_int_eq(memcmp(r.answer, want, sizeof(want) - 1), 0);
    raw_close(&r);
    fixture_destroy(f);
}
END_TEST

/* Bytes that are no HTTP/2 end their own connection and nothing else. */
START_TEST(test_garbage_at_the_port)
{
    static const char *const junk[] = { "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00",
                                        "\r\n\r\n\r\n" };
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct told t = { 0 };
    char buf[256];

    f = fixture_create(OVER_UNIX);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", f->address + 5);
    for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        ck_assert_int_eq(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
        ck_assert_int_gt(send(fd, junk[i], strlen(junk[i]), MSG_NOSIGNAL), 0);
        shutdown(fd, SHUT_WR);
        while (read(fd, buf, sizeof(buf)) > 0) {
        }
        close(fd);
    }
    told_run(&t, f, "echo", "x", 1);
    ck_assert_int_eq(t.grpc_status, 0);
    ck_assert_uint_eq(f->tries, 1);
    fixture_destroy(f);
}
END_TEST

TCase *protocol_case(void)
{
    TCase *tc = tcase_create("protocol");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_protocol, 0, (int)(sizeof(scripts) / sizeof(scripts[0])));
    tcase_add_test(tc, test_big_messages);
    tcase_add_test(tc, test_big_try);
    tcase_add_test(tc, test_huge_message);
    tcase_add_loop_test(tc, test_configure, 0, 4);
    tcase_add_loop_test(tc, test_logs_protocol, 0,
                        (int)(sizeof(log_scripts) / sizeof(log_scripts[0])));
    tcase_add_loop_test(tc, test_logs_message, 0, 2);
    tcase_add_loop_test(tc, test_unary, 0, (int)(sizeof(unaries) / sizeof(unaries[0])));
    tcase_add_loop_test(tc, test_status2, 0, (int)(sizeof(requests) / sizeof(requests[0])));
    tcase_add_loop_test(tc, test_status2_depth, 0, 3);
    tcase_add_loop_test(tc, test_status_later, 0, 3);
    tcase_add_test(tc, test_wire_bytes);
    tcase_add_test(tc, test_garbage_at_the_port);
    return tc;
}
