/* The log's lines about calls that ended badly: which ones are bounded by what. */
#include "fixture.h"
#include "suites.h"

#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETACHED (3 * LOG_GATE_LINES)
#define SYNC     (2 * LOG_GATE_LINES)

static char *lines; /* about ends of calls */
static size_t lines_len;
static uint32_t n_lines;

static void keep_line(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    (void)wall_ns;
    if (memmem(line, len, "call ended", 10)) {
        ck_assert_uint_eq(level, FN_LOG_WARN);
        lines = realloc(lines, lines_len + len + 1);
        memcpy(lines + lines_len, line, len);
        lines[lines_len += len] = '\0';
        n_lines++;
    }
}

static int64_t no_time(void)
{
    return 0;
}

static void setup(void)
{
    const struct log_config kept = { .level = FN_LOG_INFO, .wall_ns = no_time, .sink = keep_line };

    lb_opts = (struct lb_options){ .placement_timeout_ns = 30 * ENV_S,
                                   .detached_placement_timeout_ns = 30 * ENV_S,
                                   .response_buffer_bytes = 1000,
                                   .detached = true };
    fixture_api = false;
    lb_setup();
    log_setup(&kept);
}

static void teardown(void)
{
    const struct log_config plain = { .level = FN_LOG_ERROR, .fd = 2, .wall_ns = no_time };

    log_setup(&plain);
    lb_teardown();
    free(lines);
    lines = NULL;
    lines_len = n_lines = 0;
}

/* The runner dies with all of them; those that wait for an answer come first. */
static void die_with(uint32_t sync, uint32_t detached, char ids[][CALL_ID_LEN + 1])
{
    struct engage_attempt *a[SYNC + LOG_LOST_LINES + 1];
    struct client *c[SYNC];
    uint32_t n = 0;

    for (uint32_t i = 0; i < sync; i++) {
        c[i] = INVOKE("x");
        a[n++] = fake_engage_last(&fe);
    }
    for (uint32_t i = 0; i < detached; i++) {
        struct client *d =
            send_request("POST", "/invoke/" FN_HELLO, "x", "Fn-Invoke-Type", "detached", NULL);

        a[n] = fake_engage_last(&fe);
        fake_attempt_start(a[n++], 202, NULL);
        snprintf(ids[i], CALL_ID_LEN + 1, "%s", answer_header(d, "Fn-Call-Id"));
        client_free(d);
    }
    for (uint32_t i = 0; i < n; i++) {
        fake_attempt_end(a[i], 14, ENGAGE_PROOF_NONE, true);
    }
    for (uint32_t i = 0; i < sync; i++) {
        ck_assert_int_eq(c[i]->status, 502);
        client_free(c[i]);
    }
}

/* Nobody but the log names a detached call that is lost. */
START_TEST(each_detached_call_that_is_lost_is_named)
{
    static char ids[DETACHED][CALL_ID_LEN + 1];
    char text[128];

    PUBLISH("r1:1");
    die_with(SYNC, DETACHED, ids);
    for (uint32_t i = 0; i < DETACHED; i++) {
        const char *line;

        snprintf(text, sizeof(text), "call_id=%.*s outcome=unknown", CALL_ID_LEN, ids[i]);
        line = strstr(lines, text);
        ck_assert_msg(line != NULL, "call %u of %d has no line", i, DETACHED);
        snprintf(text, sizeof(text), " fn_id=%s app_id=APP ", FN_HELLO);
        ck_assert_ptr_nonnull(memmem(line, strcspn(line, "\n"), text, strlen(text)));
    }
    ck_assert_uint_eq(n_lines, LOG_GATE_LINES + DETACHED);
}
END_TEST

START_TEST(their_lines_have_a_limit_too)
{
    static char ids[LOG_LOST_LINES + 1][CALL_ID_LEN + 1];

    PUBLISH("r1:1");
    die_with(0, LOG_LOST_LINES + 1, ids);
    ck_assert_uint_eq(n_lines, LOG_LOST_LINES);
}
END_TEST

Suite *lost_suite(void)
{
    Suite *s = suite_create("lost");
    TCase *t = tcase_create("lost");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, each_detached_call_that_is_lost_is_named);
    tcase_add_test(t, their_lines_have_a_limit_too);
    suite_add_tcase(s, t);
    return s;
}
