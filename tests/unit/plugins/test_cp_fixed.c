/* Addresses that are given out: once each, after their delay, again only when the manager has
 * forgotten them; and what the list refuses. */
#include <fixed.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW 1000

static struct fn_error e;

static struct fixed *make(int adopted, const char *const *items, uint64_t n)
{
    struct fn_strlist l = { items, n };
    struct fixed *f = NULL;

    memset(&e, 0, sizeof(e));
    ck_assert_msg(fixed_create(&l, adopted, &f, &e) == 0, "%s", e.msg);
    return f;
}

#define MAKE(adopted, ...)                                                                         \
    make(adopted, (const char *const[]){ __VA_ARGS__ },                                            \
         sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

struct seen {
    char text[512]; /* "id state address mb;" each */
    uint32_t n;
    uint32_t refuse_at;
};

static int add(void *ud, const struct fn_machine *m)
{
    struct seen *s = ud;
    size_t len = strlen(s->text);

    snprintf(s->text + len, sizeof(s->text) - len, "%s %u %s%s%s;", m->id, m->state,
             m->address ? m->address : "-", m->labels ? " " : "", m->labels ? m->labels : "");
    return ++s->n == s->refuse_at ? FN_E_EXHAUSTED : 0;
}

static int list_at(struct fixed *f, const char *group, int64_t now_ns, struct seen *s)
{
    const struct fn_machine_sink out = { FN_HDR(struct fn_machine_sink, FN_MAGIC_MACHINE_SINK), add,
                                         s };

    return fixed_list(f, group, now_ns, 512, &out, &e);
}

static void assert_list(struct fixed *f, const char *group, int64_t now_ns, const char *expected)
{
    struct seen s = { 0 };

    ck_assert_int_eq(list_at(f, group, now_ns, &s), 0);
    ck_assert_str_eq(s.text, expected);
}

/* What was given back may be given out again. */
static void rest(struct fixed *f, const char *group)
{
    for (uint32_t i = 0; i < FIXED_REST_LISTS; i++) {
        struct seen s = { 0 };

        ck_assert_int_eq(list_at(f, group, NOW, &s), 0);
    }
}

static uint32_t buy(struct fixed *f, const char *group, uint32_t n, uint64_t id)
{
    uint32_t accepted = 99;

    ck_assert_msg(fixed_provision(f, group, n, id, NOW + 5, &accepted, &e) == 0, "%s", e.msg);
    return accepted;
}

static const struct {
    const char *item;
    const char *expected;
} bad[] = {
    { "", "addresses[1]: got \"\"; expected host:port" },
    { "=a:1", "expected a group of 1 to 63" },
    { "bl ue=a:1", "expected a group of 1 to 63" },
    { "blue=", "expected host:port" },
    { "blue=a", "expected host:port" },
    { "blue=a:0", "expected a port" },
    { "http://a:1", "without a scheme" },
    { "local:", "expected a port" },
    { "blue=a:1 zone", "addresses[1]: got \"blue=a:1 zone\"; expected labels such as zone=a" },
    { "a:1 zone=a zone=b", "expected each label once" },
    { "ok:1 zone=a", "got \"ok:1\" twice; expected each address once" },
    { "ok:1", "got \"ok:1\" twice; expected each address once" },
    { "blue=ok:1", "got \"ok:1\" twice; expected each address once" },
};

START_TEST(bad_addresses_are_refused)
{
    const char *const items[] = { "ok:1", bad[_i].item };
    struct fn_strlist l = { items, 2 };
    struct fixed *f = NULL;

    memset(&e, 0, sizeof(e));
    ck_assert_int_eq(fixed_create(&l, 0, &f, &e), FN_E_INVALID);
    ck_assert_ptr_null(f);
    ck_assert_msg(strstr(e.msg, bad[_i].expected) != NULL, "%s", e.msg);
}
END_TEST

START_TEST(labels_stand_behind_addresses)
{
    struct fixed *f = MAKE(1, "a:1 zone=a class=gpu", "blue=b:1 zone=b", "unix:/s k=v", "c:1");

    assert_list(f, "default", NOW, "a:1 2 a:1 zone=a,class=gpu;unix:/s 2 unix:/s k=v;c:1 2 c:1;");
    assert_list(f, "blue", NOW, "b:1 2 b:1 zone=b;");
    fixed_destroy(f);
}
END_TEST

START_TEST(an_empty_list_is_refused)
{
    struct fn_strlist l = { NULL, 0 };
    struct fixed *f = NULL;

    ck_assert_int_eq(fixed_create(&l, 0, &f, &e), FN_E_INVALID);
    ck_assert_str_eq(e.msg, "addresses: got a list of 0; expected 1 to 10000 addresses");
}
END_TEST

/* The seed's noop added n times all addresses. */
START_TEST(one_address_per_runner_after_the_delay)
{
    struct fixed *f = MAKE(0, "a:1", "b:1", "c:1");

    assert_list(f, "default", NOW, "");
    ck_assert_uint_eq(buy(f, "default", 2, 7), 2);
    assert_list(f, "default", NOW + 4, "a:1 1 -;b:1 1 -;");
    assert_list(f, "default", NOW + 5, "a:1 2 a:1;b:1 2 b:1;");
    fixed_destroy(f);
}
END_TEST

START_TEST(no_more_than_there_are)
{
    struct fixed *f = MAKE(0, "a:1", "b:1", "c:1");
    uint32_t accepted = 99;

    ck_assert_uint_eq(buy(f, "default", 2, 1), 2);
    ck_assert_uint_eq(buy(f, "default", 2, 2), 1);
    ck_assert_int_eq(fixed_provision(f, "default", 1, 3, NOW, &accepted, &e), FN_E_EXHAUSTED);
    ck_assert_uint_eq(accepted, 99);
    ck_assert_msg(strstr(e.msg, "all 3 addresses are given out") != NULL, "%s", e.msg);
    ck_assert_uint_eq(buy(f, "default", 0, 4), 0);
    fixed_remove(f, "default", "b:1");
    rest(f, "default");
    ck_assert_uint_eq(buy(f, "default", 1, 3), 1); /* what was refused may be asked again */
    fixed_destroy(f);
}
END_TEST

START_TEST(a_repeated_request_gives_nothing_twice)
{
    struct fixed *f = MAKE(0, "a:1", "b:1", "c:1");

    ck_assert_uint_eq(buy(f, "default", 1, 7), 1);
    ck_assert_uint_eq(buy(f, "default", 1, 7), 1);
    assert_list(f, "default", NOW + 9, "a:1 2 a:1;");
    fixed_remove(f, "default", "a:1"); /* ... nor after it was given back */
    ck_assert_uint_eq(buy(f, "default", 1, 7), 1);
    assert_list(f, "default", NOW + 9, "");
    fixed_destroy(f);
}
END_TEST

START_TEST(many_requests_are_remembered)
{
    struct fixed *f = MAKE(0, "a:1", "b:1");
    uint64_t id;

    for (id = 1; id <= 1000; id++) {
        ck_assert_uint_eq(buy(f, "default", 1, id), 1);
        fixed_remove(f, "default", "a:1");
        fixed_remove(f, "default", "b:1");
        rest(f, "default");
    }
    ck_assert_uint_eq(buy(f, "default", 1, 1001 - FIXED_REQUESTS_MAX), 1);
    assert_list(f, "default", NOW + 9, "");
    fixed_destroy(f);
}
END_TEST

START_TEST(removal_is_idempotent_and_by_identity)
{
    struct fixed *f = MAKE(0, "a:1", "b:1", "blue=c:1");

    buy(f, "default", 2, 1);
    fixed_remove(f, "default", "nobody:1");
    fixed_remove(f, "blue", "a:1");
    fixed_remove(f, "no-such-group", "a:1");
    assert_list(f, "default", NOW + 9, "a:1 2 a:1;b:1 2 b:1;");
    fixed_remove(f, "default", "a:1");
    fixed_remove(f, "default", "a:1");
    assert_list(f, "default", NOW + 9, "b:1 2 b:1;");
    fixed_destroy(f);
}
END_TEST

/* A machine that does not come up is given back by the manager: it must not be the next again. */
START_TEST(what_was_given_back_goes_to_the_end)
{
    struct fixed *f = MAKE(0, "a:1", "b:1", "c:1");

    buy(f, "default", 1, 1);
    fixed_remove(f, "default", "a:1");
    buy(f, "default", 1, 2);
    assert_list(f, "default", NOW + 9, "b:1 2 b:1;");
    rest(f, "default");
    buy(f, "default", 2, 3);
    assert_list(f, "default", NOW + 9, "a:1 2 a:1;b:1 2 b:1;c:1 2 c:1;");
    fixed_destroy(f);
}
END_TEST

/* While it is listed, the manager takes it for the machine that it removed. */
START_TEST(what_was_given_back_rests_until_the_manager_forgot_it)
{
    struct fixed *f = MAKE(0, "a:1");
    struct seen refused = { .refuse_at = 1 };
    uint32_t accepted = 99;

    buy(f, "default", 1, 1);
    list_at(f, "default", NOW, &refused); /* a list that was not taken does not count */
    fixed_remove(f, "default", "a:1");
    for (uint32_t i = 0; i < FIXED_REST_LISTS; i++) {
        ck_assert_int_eq(fixed_provision(f, "default", 1, 2, NOW, &accepted, &e), FN_E_EXHAUSTED);
        assert_list(f, "default", NOW, "");
    }
    ck_assert_uint_eq(buy(f, "default", 1, 2), 1);
    fixed_destroy(f);
}
END_TEST

START_TEST(groups_share_nothing)
{
    struct fixed *f = MAKE(0, "a:1", "blue=b:1", "unix:/run/x=y.sock");
    uint32_t accepted = 99;

    ck_assert_uint_eq(buy(f, "default", 5, 1), 2);
    ck_assert_uint_eq(buy(f, "blue", 5, 1), 1); /* ids of requests are the group's own */
    assert_list(f, "blue", NOW + 9, "b:1 2 b:1;");
    assert_list(f, "default", NOW + 9, "a:1 2 a:1;unix:/run/x=y.sock 2 unix:/run/x=y.sock;");
    assert_list(f, "red", NOW + 9, "");
    ck_assert_int_eq(fixed_provision(f, "red", 1, 1, NOW, &accepted, &e), FN_E_NOT_FOUND);
    ck_assert_msg(strstr(e.msg, "group, got \"red\"; expected a group that") != NULL, "%s", e.msg);
    fixed_destroy(f);
}
END_TEST

START_TEST(after_a_restart_all_are_given_out)
{
    struct fixed *f = MAKE(1, "a:1", "blue=b:1");

    assert_list(f, "default", NOW, "a:1 2 a:1;");
    assert_list(f, "blue", NOW, "b:1 2 b:1;");
    fixed_remove(f, "blue", "b:1");
    rest(f, "blue");
    assert_list(f, "blue", NOW, "");
    ck_assert_uint_eq(buy(f, "blue", 1, 1), 1);
    fixed_destroy(f);
}
END_TEST

START_TEST(a_list_ends_with_the_sink)
{
    struct fixed *f = MAKE(1, "a:1", "b:1", "c:1");
    struct seen s = { .refuse_at = 2 };

    ck_assert_int_eq(list_at(f, "default", NOW, &s), FN_E_EXHAUSTED);
    ck_assert_uint_eq(s.n, 2);
    ck_assert_str_eq(e.msg, "the list of group \"default\" was not taken");
    fixed_destroy(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cp_fixed");
    TCase *tc = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tc, bad_addresses_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tc, labels_stand_behind_addresses);
    tcase_add_test(tc, an_empty_list_is_refused);
    tcase_add_test(tc, one_address_per_runner_after_the_delay);
    tcase_add_test(tc, no_more_than_there_are);
    tcase_add_test(tc, a_repeated_request_gives_nothing_twice);
    tcase_add_test(tc, many_requests_are_remembered);
    tcase_add_test(tc, removal_is_idempotent_and_by_identity);
    tcase_add_test(tc, what_was_given_back_goes_to_the_end);
    tcase_add_test(tc, what_was_given_back_rests_until_the_manager_forgot_it);
    tcase_add_test(tc, groups_share_nothing);
    tcase_add_test(tc, after_a_restart_all_are_given_out);
    tcase_add_test(tc, a_list_ends_with_the_sink);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
