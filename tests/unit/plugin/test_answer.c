/* What is refused of answers, with which sentence. */
#include <plugin/answer.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plugin {
    uint32_t bad;
    uint32_t expected;
    char last[256];
};

static struct plugin p;

void plugin_bad_answer(struct plugin *plugin, const char *what)
{
    plugin->bad++;
    snprintf(plugin->last, sizeof(plugin->last), "%s", what);
}

static void setup(void)
{
    p = (struct plugin){ 0 };
}

/* One more, with that sentence. */
static void told(const char *what)
{
    ck_assert_uint_eq(p.bad, ++p.expected);
    ck_assert_str_eq(p.last, what);
}

START_TEST(results)
{
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(plugin_answer_result(&p, "start", 0, 0, &e), 0);
    ck_assert_int_eq(plugin_answer_result(&p, "apply", FN_CHANGED, FN_CHANGED, &e), FN_CHANGED);
    ck_assert_int_eq(plugin_answer_result(&p, "start", FN_E_UNAUTHENTICATED, 0, &e),
                     FN_E_UNAUTHENTICATED);
    ck_assert_int_eq(e.code, FN_E_UNAUTHENTICATED);
    ck_assert_int_eq(plugin_answer_result(&p, "start", FN_E_EXISTS, 0, NULL), FN_E_EXISTS);
    ck_assert_uint_eq(p.bad, 0);
    ck_assert_int_eq(plugin_answer_result(&p, "start", 1, 0, &e), FN_E_INTERNAL);
    told("start: result, got 1; expected 0 or FN_E_*");
    ck_assert_int_eq(e.code, FN_E_INTERNAL);
    ck_assert_int_eq(e.http_status, 500);
    ck_assert_uint_eq(e.blame, FN_BLAME_PLUGIN);
    ck_assert_int_eq(plugin_answer_result(&p, "apply", 2, FN_CHANGED, NULL), FN_E_INTERNAL);
    told("apply: result, got 2; expected 0, a documented outcome or FN_E_*");
    ck_assert_int_eq(plugin_answer_result(&p, "list", INT32_MIN, 0, &e), FN_E_INTERNAL);
    told("list: result, got -2147483648; expected 0 or FN_E_*");
    memset(e.msg, 'x', sizeof(e.msg)); /* an outcome can have a text, too */
    ck_assert_int_eq(plugin_answer_result(&p, "claim", 1, 1, &e), 1);
    told("claim: the text of its error has no end within 216 bytes");
    ck_assert_uint_eq(strlen(e.msg), sizeof(e.msg) - 1);
}
END_TEST

START_TEST(errors)
{
    struct fn_error e = { .size = 3, .http_status = 200, .blame = 7, .flags = UINT64_MAX,
                          .retry_after_ns = -1 };

    memset(e.msg, 'x', sizeof(e.msg));
    ck_assert_int_eq(plugin_answer_result(&p, "before", FN_E_ABORTED, 0, &e), FN_E_ABORTED);
    ck_assert_uint_eq(p.bad, 4);
    ck_assert_str_eq(p.last, "before: retry_after_ns of its error is negative");
    ck_assert_uint_eq(strlen(e.msg), sizeof(e.msg) - 1);
    ck_assert_int_eq(e.code, FN_E_ABORTED);
    ck_assert_int_eq(e.http_status, 0);
    ck_assert_uint_eq(e.blame, FN_BLAME_PLUGIN);
    ck_assert_uint_eq(e.flags, FN_ERR_RETRY);
    ck_assert_int_eq(e.retry_after_ns, 0);
    ck_assert_uint_eq(e.size, sizeof(e));
    plugin_answer_error(&p, "before", &e);
    for (int status = 300; status <= 599; status += 299) { /* a redirection may be a failure */
        e = (struct fn_error){ .http_status = status, .blame = FN_BLAME_USER };
        plugin_answer_error(&p, "before", &e);
        ck_assert_int_eq(e.http_status, status);
    }
    ck_assert_uint_eq(p.bad, 4);
    e = plugin_answer_error_copy(&p, "fn.snap.fail", NULL);
    ck_assert_str_eq(e.msg, "");
    memset(e.msg, 'y', sizeof(e.msg));
    e = plugin_answer_error_copy(&p, "fn.snap.fail", &e);
    ck_assert_uint_eq(p.bad, 5);
    ck_assert_uint_eq(strlen(e.msg), sizeof(e.msg) - 1);
}
END_TEST

START_TEST(texts)
{
    char text[4] = "abc";
    char group[FN_GROUP_NAME_MAX + 2];

    ck_assert(plugin_answer_text(&p, "probe", text, sizeof(text)));
    text[3] = 'd';
    ck_assert(!plugin_answer_text(&p, "probe", text, sizeof(text)));
    told("probe: its text has no end within 4 bytes");
    ck_assert_str_eq(text, "");
    memset(group, 'g', sizeof(group));
    ck_assert(!plugin_answer_group(&p, "route", group));
    told("route: no group name");
    ck_assert(!plugin_answer_group(&p, "route", NULL));
    ck_assert(!plugin_answer_group(&p, "route", ""));
    ck_assert_uint_eq(p.bad, 4);
    group[FN_GROUP_NAME_MAX] = '\0';
    ck_assert(plugin_answer_group(&p, "route", group));
}
END_TEST

START_TEST(decisions)
{
    static const struct {
        int r;
        struct fn_answer a;
        const char *what;
    } rows[] = {
        { 0, { .verdict = FN_TRY, .index = 2 }, "" },
        { 0, { .verdict = FN_TRY, .index = 3 },
          "decide: index, got 3; expected less than 3, the runners of the snapshot" },
        { 0, { .verdict = FN_TRY, .index = UINT32_MAX },
          "decide: index, got 4294967295; expected less than 3, the runners of the snapshot" },
        { 0, { .verdict = FN_WAIT, .wake_mask = 7, .wait_ns = INT64_MAX }, "" },
        { 0, { .verdict = FN_WAIT, .wake_mask = 8 },
          "decide: wake_mask, got 0x8; expected bits of FN_WAKE_*" },
        { 0, { .verdict = FN_WAIT, .wait_ns = -1 },
          "decide: wait_ns, got -1; expected no negative time" },
        { 0, { .verdict = FN_GIVE_UP }, "" },
        { 0, { .verdict = FN_GIVE_UP, .code = FN_E_EXHAUSTED }, "" },
        { 0, { .verdict = FN_GIVE_UP, .code = 1 }, "decide: code, got 1; expected 0 or FN_E_*" },
        { 0, { .verdict = FN_GIVE_UP, .code = -17 },
          "decide: code, got -17; expected 0 or FN_E_*" },
        { 0, { .verdict = 0 },
          "decide: verdict, got 0; expected FN_TRY, FN_WAIT or FN_GIVE_UP" },
        { 0, { .verdict = 4 },
          "decide: verdict, got 4; expected FN_TRY, FN_WAIT or FN_GIVE_UP" },
        { FN_E_INTERNAL, { .verdict = 4 }, "" },
        { 1, { .verdict = FN_TRY }, "decide: result, got 1; expected 0 or FN_E_*" },
        { -17, { .verdict = FN_TRY }, "decide: result, got -17; expected 0 or FN_E_*" },
    };
    char what[PLUGIN_ANSWER_WHAT_MAX] = "";
    bool good = plugin_answer_decision("decide", rows[_i].r, &rows[_i].a, 3, what, sizeof(what));

    ck_assert_str_eq(what, rows[_i].what);
    ck_assert_int_eq(good, !rows[_i].what[0]);
}
END_TEST

START_TEST(a_decision_among_nobody)
{
    const struct fn_answer a = { .verdict = FN_TRY, .index = 0 };
    char what[PLUGIN_ANSWER_WHAT_MAX];
    char cut[12];

    ck_assert(!plugin_answer_decision("decide", 0, &a, 0, what, sizeof(what)));
    ck_assert_str_eq(what, "decide: FN_TRY, got index 0 of a snapshot without runners; expected "
                           "FN_WAIT or FN_GIVE_UP");
    ck_assert(!plugin_answer_decision("decide", 0, &a, 0, cut, sizeof(cut)));
    ck_assert_str_eq(cut, "decide: FN_");
    ck_assert(!plugin_answer_decision("decide", 0, &a, 0, NULL, 0));
}
END_TEST

START_TEST(runners)
{
    struct fn_runner r = { .id = 1, .address = "10.0.0.1:9190", .weight = 1 };
    struct fn_runner copy;
    char large[1024];

    ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r), &copy), 0);
    ck_assert_ptr_eq(copy.address, r.address);
    r.tls_name = "runner";
    r.flags = FN_RUNNER_DRAINING;
    ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r) + 64, &copy), 0);
    ck_assert_uint_eq(p.bad, 0);
    ck_assert_int_eq(plugin_answer_runner(&p, NULL, sizeof(r), &copy), FN_E_INVALID);
    told("fn.snap.add: not a runner of ABI 1.0");
    ck_assert_int_eq(plugin_answer_runner(&p, &r, 8, &copy), FN_E_INVALID);
    told("fn.snap.add: not a runner of ABI 1.0");
    r.flags = 1u << 31;
    ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r), &copy), FN_E_INVALID);
    told("fn.snap.add: unknown bits in flags");
    r.flags = 0;
    for (int i = 0; i < 3; i++) { /* what a placer may divide by, or multiply */
        r.weight = (const uint32_t[]){ 0, 65536, UINT32_MAX }[i];
        ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r), &copy), 0);
        ck_assert_uint_eq(copy.weight, i == 0 ? 1 : 65535);
        told((const char *const[]){
            "fn.snap.add: weight, got 0; expected 1 to 65535",
            "fn.snap.add: weight, got 65536; expected 1 to 65535",
            "fn.snap.add: weight, got 4294967295; expected 1 to 65535" }[i]);
    }
    r.weight = 65535;
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    for (int i = 0; i < 4; i++) {
        r.address = (const char *[]){ NULL, "", "with space:1", large }[i];
        ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r), &copy), FN_E_INVALID);
        told("fn.snap.add: address or tls_name is not 1 to 255 printable characters without "
             "spaces");
    }
    r.address = "a:1";
    r.labels = "zone=a,class=gpu";
    r.tls_name = NULL;
    ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r), &copy), 0);
    ck_assert_ptr_eq(copy.labels, r.labels);
    ck_assert_int_eq(
        plugin_answer_runner(&p, &r, offsetof(struct fn_runner, labels), &copy), 0);
    ck_assert_ptr_null(copy.labels);
    r.labels = "zone";
    ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r), &copy), 0);
    ck_assert_ptr_null(copy.labels);
    told("fn.snap.add: labels, got \"zone\"; expected labels such as zone=a: a key and a value of 1 "
         "to 63 letters, digits, . _ - /");
    r.tls_name = "";
    ck_assert_int_eq(plugin_answer_runner(&p, &r, sizeof(r), &copy), FN_E_INVALID);
}
END_TEST

START_TEST(machines)
{
    struct fn_machine m = { sizeof(m), FN_MACHINE_READY, "m-1", "10.0.0.1:9190", 4096, NULL };
    struct fn_machine copy;
    char large[1024];

    ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), 0);
    ck_assert_mem_eq(&copy, &m, sizeof(m));
    ck_assert_uint_eq(p.bad, 0);
    ck_assert_int_eq(plugin_answer_machine(&p, NULL, &copy), FN_E_INVALID);
    told("list: not a machine of ABI 1.0");
    m.size = 4;
    ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), FN_E_INVALID);
    told("list: not a machine of ABI 1.0");
    m.size = UINT32_MAX; /* of a later plugin: only what is known is read */
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    for (int i = 0; i < 4; i++) {
        m.id = (const char *[]){ NULL, "", "m\n1", large }[i];
        ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), 0);
        ck_assert_ptr_null(copy.id);
        told("list: id is not 1 to 255 printable characters without spaces");
    }
    m.id = "m-1";
    m.address = large;
    ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), 0);
    ck_assert_ptr_null(copy.address);
    told("list: address is not 1 to 255 printable characters without spaces");
    m.address = NULL;
    ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), 0);
    told("list: a machine that is ready has no address");
    m.state = FN_MACHINE_STARTING;
    ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), 0);
    m.state = 9;
    ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), 0);
    told("list: state, got 9; expected FN_MACHINE_*");
    m.state = FN_MACHINE_GONE;
    m.capacity_mb = UINT64_MAX;
    ck_assert_int_eq(plugin_answer_machine(&p, &m, &copy), 0);
    told("list: capacity_mb, got 18446744073709551615; expected at most 17592186044416");
}
END_TEST

START_TEST(lists_of_machines)
{
    struct fn_machine list[] = {
        { sizeof(list[0]), FN_MACHINE_READY, "m-1", "a:1", 0, NULL },
        { sizeof(list[0]), FN_MACHINE_GONE, "m-1", "a:1", 0, NULL },
        { sizeof(list[0]), FN_MACHINE_READY, "m-2", "a:2", 0, NULL },
        { sizeof(list[0]), FN_MACHINE_STARTING, NULL, NULL, 0, NULL },
        { sizeof(list[0]), FN_MACHINE_STARTING, NULL, NULL, 0, NULL },
    };
    const char *scratch[5];

    plugin_answer_machines(&p, list, 0, scratch);
    plugin_answer_machines(&p, list, 5, scratch);
    ck_assert_uint_eq(p.bad, 0);
    list[3].id = "m-1";
    plugin_answer_machines(&p, list, 5, scratch);
    told("list: id m-1 stands in it twice");
    list[3].id = "m-3";
    list[3].address = "a:2";
    plugin_answer_machines(&p, list, 5, scratch);
    told("list: address a:2 stands in it twice");
}
END_TEST

START_TEST(accepted_machines)
{
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(plugin_answer_accepted(&p, 3, 0, &e), 0);
    ck_assert_int_eq(plugin_answer_accepted(&p, 3, 3, &e), 0);
    ck_assert_uint_eq(p.bad, 0);
    ck_assert_int_eq(plugin_answer_accepted(&p, 3, 4, &e), FN_E_INTERNAL);
    told("provision: accepted, got 4; expected at most the 3 asked for");
    ck_assert_str_eq(e.msg, "accepted 4 of 3 machines");
    ck_assert_int_eq(plugin_answer_accepted(&p, 3, (uint32_t)-1, &e), FN_E_INTERNAL);
    told("provision: accepted, got 4294967295; expected at most the 3 asked for");
}
END_TEST

START_TEST(ends_of_containers)
{
    struct fn_exit e = { sizeof(e), FN_EXIT_OOM, 137, 0 };
    struct fn_exit got = plugin_answer_exit(&p, &e);

    ck_assert_mem_eq(&got, &e, sizeof(e));
    ck_assert_uint_eq(p.bad, 0);
    for (uint32_t reason = 0; reason < 7; reason++) {
        e.reason = reason;
        got = plugin_answer_exit(&p, &e);
        ck_assert_uint_eq(got.reason, reason >= 1 && reason <= 4 ? reason : FN_EXIT_CODE);
        ck_assert_int_eq(got.status, reason >= 1 && reason <= 4 ? 137 : -1);
    }
    ck_assert_uint_eq(p.bad, 3);
    ck_assert_str_eq(p.last, "fn.driver.exited: reason, got 6; expected FN_EXIT_*");
    (void)plugin_answer_exit(&p, NULL);
    ck_assert_str_eq(p.last, "fn.driver.exited: not an exit of ABI 1.0");
    e = (struct fn_exit){ 8, FN_EXIT_CODE, 1, 0 };
    got = plugin_answer_exit(&p, &e);
    ck_assert_int_eq(got.status, -1);
    ck_assert_uint_eq(p.bad, 5);
}
END_TEST

START_TEST(output_of_containers)
{
    ck_assert(plugin_answer_output(&p, 1, "x", 1));
    ck_assert(plugin_answer_output(&p, 2, "x", 1));
    ck_assert(!plugin_answer_output(&p, 2, NULL, 0));
    ck_assert_uint_eq(p.bad, 0);
    ck_assert(!plugin_answer_output(&p, 0, "x", 1));
    told("fn.driver.output: fd, got 0; expected 1 or 2");
    ck_assert(!plugin_answer_output(&p, 1, "x", SIZE_MAX));
    told("fn.driver.output: length, got 18446744073709551615; expected at most 67108864");
    ck_assert(!plugin_answer_output(&p, 1, NULL, 5));
    told("fn.driver.output: 5 bytes at NULL");
}
END_TEST

START_TEST(predictions)
{
    ck_assert_int_eq(plugin_answer_desired(&p, 0, PLUGIN_ANSWER_MB_MAX), 0);
    ck_assert_int_eq(plugin_answer_desired(&p, FN_E_UNAVAILABLE, UINT64_MAX), FN_E_UNAVAILABLE);
    ck_assert_uint_eq(p.bad, 0);
    ck_assert_int_eq(plugin_answer_desired(&p, 0, 1ull << 63), FN_E_INTERNAL);
    told("predict: got 9223372036854775808 MB; expected at most 17592186044416");
    ck_assert_int_eq(plugin_answer_desired(&p, 5, 1), FN_E_INTERNAL);
    told("predict: result, got 5; expected 0 or FN_E_*");
}
END_TEST

START_TEST(pairs_of_operators)
{
    static char longest[FN_OPERATOR_TEXT_MAX + 2];
    struct fn_kv pair = { "k", "" };

    ck_assert_int_eq(plugin_answer_pairs(&p, "status", NULL, 0), 0);
    ck_assert_int_eq(plugin_answer_pairs(&p, "status", &pair, 1), 0);
    memset(longest, 'x', FN_OPERATOR_TEXT_MAX);
    pair.value = longest;
    ck_assert_int_eq(plugin_answer_pairs(&p, "status", &pair, 1), 0);
    ck_assert_uint_eq(p.bad, 0);
    longest[FN_OPERATOR_TEXT_MAX] = 'x';
    ck_assert_int_eq(plugin_answer_pairs(&p, "status", &pair, 1), FN_E_INTERNAL);
    told("status: pair 0; expected a key and a value of at most 4096 bytes");
    ck_assert_int_eq(plugin_answer_pairs(&p, "status", NULL, 1), FN_E_INTERNAL);
    told("status: got 1 pairs at NULL; expected at most 64");
    ck_assert_int_eq(plugin_answer_pairs(&p, "status", &pair, 65), FN_E_INTERNAL);
    told("status: got 65 pairs; expected at most 64");
    for (int i = 0; i < 3; i++) {
        pair = (struct fn_kv){ i == 0 ? NULL : i == 1 ? "" : "k", i == 2 ? NULL : "x" };
        ck_assert_int_eq(plugin_answer_pairs(&p, "status", &pair, 1), FN_E_INTERNAL);
        told("status: pair 0; expected a key and a value of at most 4096 bytes");
    }
}
END_TEST

START_TEST(lines_of_operators)
{
    static char longest[258];
    const struct fn_log_line good = { .size = sizeof(good), .fd = 2, .app_id = "", .fn_id = "",
                                      .container_id = "", .call_id = "", .data = "",
                                      .len = FN_OPERATOR_LINE_MAX };
    struct fn_log_line bad[] = { good, good, good, good, good, good };
    const struct fn_log_line *line = &good;

    ck_assert_int_eq(plugin_answer_lines(&p, "read", NULL, 0), 0);
    ck_assert_int_eq(plugin_answer_lines(&p, "read", &line, 1), 0);
    ck_assert_uint_eq(p.bad, 0);
    ck_assert_int_eq(plugin_answer_lines(&p, "read", NULL, 1), FN_E_INTERNAL);
    told("read: got 1 lines at NULL; expected at most 128");
    ck_assert_int_eq(plugin_answer_lines(&p, "read", &line, 129), FN_E_INTERNAL);
    told("read: got 129 lines; expected at most 128");
    memset(longest, 'x', sizeof(longest) - 2);
    bad[0].size = 8;
    bad[1].fd = 3;
    bad[2].app_id = NULL;
    bad[3].fn_id = longest;
    bad[4].data = NULL;
    bad[5].len++;
    for (int i = 0; i < 7; i++) {
        line = i < 6 ? &bad[i] : NULL;
        ck_assert_int_eq(plugin_answer_lines(&p, "read", &line, 1), FN_E_INTERNAL);
        told("read: line 0; expected fd 1 or 2, ids of at most 255 bytes and at most 4095 bytes");
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer");
    TCase *t = tcase_create("answer");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, results);
    tcase_add_test(t, errors);
    tcase_add_test(t, texts);
    tcase_add_loop_test(t, decisions, 0, 15);
    tcase_add_test(t, a_decision_among_nobody);
    tcase_add_test(t, runners);
    tcase_add_test(t, machines);
    tcase_add_test(t, lists_of_machines);
    tcase_add_test(t, accepted_machines);
    tcase_add_test(t, ends_of_containers);
    tcase_add_test(t, output_of_containers);
    tcase_add_test(t, predictions);
    tcase_add_test(t, pairs_of_operators);
    tcase_add_test(t, lines_of_operators);
    suite_add_tcase(s, t);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
