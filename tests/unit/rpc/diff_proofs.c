/* What the client claims of its calls, held against what the runner has got: a call that came whole
 * is not one that was not sent, and one that the runner took is not one that it refused. */
#include "diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALLS_MAX 64u

static struct fixture *f;

/* ---- calls ----------------------------------------------------------------------------------- */

struct call {
    struct engage_attempt *attempt;
    char *json;
    bool ended;
    int status;
    enum engage_proof proof;
};

static struct call calls[CALLS_MAX];
static unsigned calls_n;

static void on_start(void *ud, const struct engage_start *start)
{
    (void)ud;
    (void)start;
}

static void on_data(void *ud, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
}

static void on_finished(void *ud, const struct engage_finished *fin)
{
    (void)ud;
    (void)fin;
}

static void on_end(void *ud, int status, const char *text, enum engage_proof proof, bool legal)
{
    struct call *c = ud;

    (void)text;
    (void)legal;
    c->ended = true;
    c->status = status;
    c->proof = proof;
    f->client->attempt_close(c->attempt);
    fixture_notify(f);
}

static const struct engage_client_cb call_cb = { on_start, on_data, on_finished, on_end };

/* In the loop. The call's TryCall has about that many bytes, and begins with its number. */
static void begin(size_t len, const char *request_id, int64_t timeout_ms)
{
    struct call *c = &calls[calls_n];
    struct engage_try t = { .slot_hash_id = "", .request_id = request_id };
    int64_t end_ns = timeout_ms ? env_now_ns(f->env) + timeout_ms * ENV_MS : 0;

    ck_assert_uint_lt(calls_n, CALLS_MAX);
    *c = (struct call){ .json = malloc(len + 16) };
    memset(c->json, 'x', len + 15);
    c->json[len + 15] = '\0';
    c->json[snprintf(c->json, 12, "<call %u>", calls_n)] = '.';
    t.call_json = c->json;
    t.call_json_len = strlen(c->json);
    c->attempt = f->client->attempt(f->link, &t, NULL, end_ns, &call_cb, c);
    ck_assert_ptr_nonnull(c->attempt);
    calls_n++;
}

static bool all_ended(void *ud)
{
    (void)ud;
    for (unsigned i = 0; i < calls_n; i++) {
        if (!calls[i].ended) {
            return false;
        }
    }
    return true;
}

/* ---- the runner ------------------------------------------------------------------------------ */

static struct raw_peer runner;
static struct buf got[2 * CALLS_MAX]; /* DATA, by half the stream's id */
static unsigned whole_n;              /* streams that the client has half-closed */

static void on_frame(void *ud, const struct raw_frame *fr)
{
    (void)ud;
    if (fr->type == RAW_DATA) {
        ck_assert_uint_lt(fr->stream / 2, 2 * CALLS_MAX);
        ck_assert_int_eq(buf_add(&got[fr->stream / 2], fr->payload, fr->len), 0);
        whole_n += fr->flags & RAW_END_STREAM;
    }
}

/* The id of the stream that brought all of the call's TryCall; 0: none. */
static uint32_t stream_of(unsigned call)
{
    char mark[32];

    snprintf(mark, sizeof(mark), "<call %u>", call);
    for (uint32_t i = 0; i < 2 * CALLS_MAX; i++) {
        if (got[i].len > strlen(calls[call].json) &&
            memmem(got[i].data, got[i].len < 64 ? got[i].len : 64, mark, strlen(mark))) {
            return 2 * i + 1;
        }
    }
    return 0;
}

static void open_with(enum diff_transport t, const void *settings, size_t len)
{
    const char *path;
    int listener;

    f = diff_fixture(t);
    path = f->address + strlen("unix:");
    listener = raw_listen(path);
    calls_n = whole_n = 0;
    fixture_link_open(f, f->address);
    raw_peer_init(&runner, raw_accept(listener), false);
    close(listener);
    unlink(path);
    runner.frame = on_frame;
    raw_put(&runner, RAW_SETTINGS, 0, 0, settings, len);
    raw_sync(&runner);
    WAIT(f, is_up, f);
}

/* The runner has taken all streams up to `last`. */
static void judge(uint32_t last)
{
    for (unsigned i = 0; i < calls_n; i++) {
        uint32_t id = stream_of(i);

        ck_assert_msg(!id || calls[i].proof != ENGAGE_PROOF_NOT_SENT,
                      "call %u came whole as stream %u and counts as not sent", i, id);
        ck_assert_msg(!id || id > last || calls[i].proof != ENGAGE_PROOF_REFUSED,
                      "call %u was taken as stream %u and counts as refused", i, id);
    }
}

static void finish(uint32_t last)
{
    raw_sync(&runner); /* what the library has under way comes in front of its answer */
    raw_close(&runner);
    WAIT(f, all_ended, NULL);
    judge(last);
    loop_enter(f->loop);
    f->client->link_close(f->link);
    f->link = NULL;
    loop_leave(f->loop);
    raw_peer_finish(&runner);
    for (unsigned i = 0; i < calls_n; i++) {
        free(calls[i].json);
    }
    for (unsigned i = 0; i < 2 * CALLS_MAX; i++) {
        buf_finish(&got[i]);
    }
    fixture_destroy(f);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static bool one_is_whole(void *ud)
{
    (void)ud;
    return whole_n > 0;
}

/* A runner that takes short headers only: the library may end the first call by itself, and the
 * stream that comes is another's. 0: then it closes; 1: it goes away and has taken that one; 2, 3:
 * the same, and its limit is the last of 40 settings, which nghttp2 does not take. */
START_TEST(test_short_headers_only)
{
    unsigned char settings[40 * 6] = { 0 };
    enum diff_transport t = (enum diff_transport)(_i / 4);
    bool many = _i / 2 % 2;
    char id[1001];

    if (many && t == DIFF_NGHTTP2) {
        return;
    }
    memset(id, 'i', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    for (int i = 0; i < 40; i++) {
        memcpy(settings + 6 * i, "\xf0\xf0\0\0\0\0", 6);
    }
    memcpy(settings + (many ? 39 * 6 : 0), "\0\6\0\0\3\xe8", 6);
    open_with(t, settings, many ? sizeof(settings) : 6);
    loop_enter(f->loop);
    begin(10, id, 0);
    begin(10, NULL, 0);
    begin(10, NULL, 0);
    loop_leave(f->loop);
    raw_run(&runner, one_is_whole, NULL);
    raw_sync(&runner);
    if (_i % 2) {
        raw_put(&runner, RAW_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
        raw_sync(&runner);
    }
    finish(_i % 2 ? 1 : UINT32_MAX);
}
END_TEST

/* One whose windows take all, and who reads late: what the library has under way when its calls end
 * still comes. */
START_TEST(test_read_late)
{
    static const char settings[] = "\0\4\177\377\377\377";

    open_with((enum diff_transport)_i, settings, 6);
    raw_put(&runner, RAW_WINDOW, 0, 0, "\177\0\0\0", 4);
    raw_sync(&runner);
    loop_enter(f->loop);
    for (int i = 0; i < 40; i++) {
        begin(60000, NULL, 20 + i % 5);
    }
    loop_leave(f->loop);
    WAIT(f, all_ended, NULL);
    finish(UINT32_MAX);
}
END_TEST

#define LARGE_BYTES 700000 /* more than sockets take, less than the library writes at once */

static bool data_came(void *ud)
{
    (void)ud;
    return got[0].len > 0;
}

/* The same with the large windows behind 39 other settings; one call is more than a stream's usual
 * window. */
START_TEST(test_windows_out_of_sight)
{
    unsigned char settings[40 * 6];

    for (int i = 0; i < 40; i++) {
        memcpy(settings + 6 * i, i < 39 ? "\xf0\xf0\0\0\0\0" : "\0\4\177\377\377\377", 6);
    }
    open_with(DIFF_CORE, settings, sizeof(settings));
    raw_put(&runner, RAW_WINDOW, 0, 0, "\177\0\0\0", 4);
    raw_sync(&runner);
    loop_enter(f->loop);
    begin(LARGE_BYTES, NULL, 100);
    loop_leave(f->loop);
    raw_run(&runner, data_came, NULL);
    WAIT(f, all_ended, NULL);
    finish(UINT32_MAX);
}
END_TEST

/* Windows that are shut again when the call is under way: what left by the open door counts. */
START_TEST(test_windows_shut_again)
{
    static const unsigned char wide[] = "\0\4\177\377\377\377", none[] = "\0\4\0\0\0\0";

    open_with((enum diff_transport)_i, wide, 6);
    raw_put(&runner, RAW_WINDOW, 0, 0, "\177\0\0\0", 4);
    raw_sync(&runner);
    loop_enter(f->loop);
    begin(LARGE_BYTES, NULL, 100);
    loop_leave(f->loop);
    raw_run(&runner, data_came, NULL);
    raw_put(&runner, RAW_SETTINGS, 0, 0, none, 6);
    ck_assert_int_gt(send(runner.fd, runner.out.data, runner.out.len, MSG_NOSIGNAL), 0);
    buf_clear(&runner.out);
    WAIT(f, all_ended, NULL);
    finish(UINT32_MAX);
}
END_TEST

TCase *diff_proofs_case(void)
{
    TCase *tc = tcase_create("proofs");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_short_headers_only, 0, 4 * DIFF_TRANSPORTS_N);
    tcase_add_loop_test(tc, test_read_late, 0, DIFF_TRANSPORTS_N);
    tcase_add_test(tc, test_windows_out_of_sight);
    tcase_add_loop_test(tc, test_windows_shut_again, 0, DIFF_TRANSPORTS_N);
    return tc;
}
