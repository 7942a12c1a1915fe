/* Readers of function output: what each implementation of engage_client's readers and
 * engage_server's logs owes its users. */
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture *f;

struct read {
    struct engage_reader *reader;
    char text[512]; /* "app/fn/container/call/o:line|" of each line; "." ends a message */
    uint32_t lines, messages, ends;
    int status;
    char why[128];
};

static void on_lines(void *ud, const struct engage_line *lines, uint32_t n)
{
    struct read *rd = ud;
    size_t at = strlen(rd->text);

    for (uint32_t i = 0; i < n; i++) {
        const struct engage_line *l = &lines[i];

        at += (size_t)snprintf(rd->text + at, sizeof(rd->text) - at, "%s/%s/%s/%s/%s:%.*s@%lld-%llu|",
                               l->app_id, l->fn_id, l->container_id, l->call_id,
                               l->of_stderr ? "e" : "o", (int)l->len, l->data,
                               (long long)l->wall_ms, (unsigned long long)l->lost);
    }
    snprintf(rd->text + at, sizeof(rd->text) - at, ".");
    rd->lines += n;
    rd->messages++;
    fixture_notify(f);
}

static void on_end(void *ud, int grpc_status, const char *text)
{
    struct read *rd = ud;

    rd->ends++;
    rd->status = grpc_status;
    snprintf(rd->why, sizeof(rd->why), "%s", text);
    fixture_notify(f);
}

static const struct engage_reader_cb reader_cb = { on_lines, on_end };

static bool has_ended(void *ud)
{
    return ((struct read *)ud)->ends > 0;
}

static bool has_message(void *ud)
{
    return ((struct read *)ud)->messages > 0;
}

static bool has_two(void *ud)
{
    return ((struct read *)ud)->messages == 2;
}

static bool is_read(void *ud)
{
    (void)ud;
    return f->logs != NULL;
}

static bool is_wanted(void *ud)
{
    (void)ud;
    return f->logs && f->logs->wanted;
}

static bool is_gone(void *ud)
{
    (void)ud;
    return f->logs_gone == 1;
}

static void read_open(struct read *rd, const char *key, const char *value)
{
    struct fn_kv keys[] = { { key, value }, { "z", "last" } };

    WAIT(f, is_up, f);
    loop_enter(f->loop);
    rd->reader = f->client->reader_open(f->link, keys, 2, &reader_cb, rd);
    ck_assert_ptr_nonnull(rd->reader);
    loop_leave(f->loop);
}

static void read_more(struct read *rd)
{
    loop_enter(f->loop);
    f->client->reader_more(rd->reader);
    ck_assert_uint_eq(rd->messages + rd->ends, 0); /* never from inside */
    loop_leave(f->loop);
}

static void read_close(struct read *rd)
{
    loop_enter(f->loop);
    f->client->reader_close(rd->reader);
    loop_leave(f->loop);
}

static void send_lines(const struct engage_line *lines, uint32_t n)
{
    WAIT(f, is_wanted, NULL);
    loop_enter(f->loop);
    ck_assert_int_eq(f->logs->send(f->logs, lines, n), 0);
    ck_assert(!f->logs->wanted);
    loop_leave(f->loop);
}

static void end_logs(int status, const char *text)
{
    loop_enter(f->loop);
    f->logs->end(f->logs, status, text);
    f->logs = NULL;
    loop_leave(f->loop);
}

static const struct engage_line some[] = {
    { "a1", "f1", "c1", "k1", "one", 3, 11, 0, false },
    { "a1", "f1", "c1", "k2", "two", 3, 12, 0, true },
    { "a1", "f1", "c2", "k2", "", 0, 13, 0, false },
    { "", "", "", "", "missing", 7, 14, 5, true },
};

/* Nothing comes that was not asked for; the end comes behind all lines. */
START_TEST(test_lines)
{
    struct read rd = { 0 };

    f = fixture_create(_i);
    read_open(&rd, "fn_id", "f1");
    WAIT(f, is_read, NULL);
    ck_assert_str_eq(f->logs_keys, "fn_id=f1;z=last;");
    ck_assert_uint_eq(f->logs_wanted, 0);
    read_more(&rd);
    send_lines(some, 4);
    WAIT(f, has_message, &rd);
    ck_assert_str_eq(rd.text, "a1/f1/c1/k1/o:one@11-0|a1/f1/c1/k2/e:two@12-0|a1/f1/c2/k2/o:@13-0|"
                              "////e:missing@14-5|.");
    ck_assert_uint_eq(f->logs_wanted, 1);
    loop_enter(f->loop);
    f->client->reader_more(rd.reader);
    loop_leave(f->loop);
    send_lines(NULL, 0);
    end_logs(0, NULL);
    WAIT(f, has_ended, &rd);
    ck_assert(has_two(&rd));
    ck_assert_int_eq(rd.status, 0);
    ck_assert_uint_eq(f->logs_gone, 0);
    read_close(&rd);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_refused)
{
    struct read rd = { 0 };

    f = fixture_create(_i);
    read_open(&rd, "refuse", "nobody prints here");
    WAIT(f, has_ended, &rd);
    ck_assert_int_eq(rd.status, 5);
    ck_assert_str_eq(rd.why, "nobody prints here");
    read_close(&rd);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_reader_leaves)
{
    struct read rd = { 0 };

    f = fixture_create(_i % TRANSPORTS_N);
    read_open(&rd, "fn_id", "f1");
    WAIT(f, is_read, NULL);
    if (_i >= TRANSPORTS_N) {
        read_more(&rd);
        WAIT(f, is_wanted, NULL);
    }
    read_close(&rd);
    WAIT(f, is_gone, NULL);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_link_closed)
{
    struct read rd = { 0 };

    f = fixture_create(_i);
    read_open(&rd, "fn_id", "f1");
    read_more(&rd);
    WAIT(f, is_wanted, NULL);
    loop_enter(f->loop);
    f->client->link_close(f->link);
    f->link = NULL;
    ck_assert_uint_eq(rd.ends, 0);
    loop_leave(f->loop);
    WAIT(f, has_ended, &rd);
    ck_assert_int_eq(rd.status, 14);
    WAIT(f, is_gone, NULL);
    read_close(&rd);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_server_stops)
{
    struct read rd = { 0 };

    f = fixture_create(OVER_TCP);
    read_open(&rd, "fn_id", "f1");
    WAIT(f, is_read, NULL);
    loop_enter(f->loop);
    rpc_server_close(f->server);
    loop_leave(f->loop);
    WAIT(f, has_ended, &rd);
    ck_assert_int_eq(rd.status, 14);
    read_close(&rd);
    fixture_destroy(f);
}
END_TEST

/* One that takes a message and asks for no other. */
START_TEST(test_no_ack)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    struct read rd = { 0 };

    config.ack_ns = 200 * ENV_MS;
    f = fixture_create_with(OVER_UNIX, &config);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    read_open(&rd, "fn_id", "f1");
    WAIT(f, has_ended, &rd);
    ck_assert_int_eq(rd.status, 4);
    ck_assert_str_eq(rd.why, "RUN415 no Ack came within 200 ms");
    ck_assert_uint_eq(f->logs_gone, 1);
    read_close(&rd);
    fixture_destroy(f);
}
END_TEST

/* Its link is closed, then its node goes. */
START_TEST(test_left_open)
{
    struct read rd = { 0 };

    f = fixture_create(_i);
    read_open(&rd, "fn_id", "f1");
    read_more(&rd);
    WAIT(f, is_wanted, NULL);
    fixture_destroy(f);
    ck_assert_uint_eq(rd.ends, 1);
}
END_TEST

TCase *logs_case(void)
{
    TCase *tc = tcase_create("logs");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_lines, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_refused, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_reader_leaves, 0, 2 * TRANSPORTS_N);
    tcase_add_loop_test(tc, test_link_closed, 0, TRANSPORTS_N);
    tcase_add_test(tc, test_server_stops);
    tcase_add_test(tc, test_no_ack);
    tcase_add_loop_test(tc, test_left_open, 0, TRANSPORTS_N);
    return tc;
}
