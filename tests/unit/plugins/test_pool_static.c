/* Addresses and labels that are taken, those that are refused with their sentence, and ids that
 * stay over restarts. */
#include <hash.h>
#include <list.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static int check(const char *const *items, uint64_t n, struct fn_error *e)
{
    struct fn_strlist l = { items, n };
    struct list list;
    int r;

    memset(e, 0, sizeof(*e));
    r = list_init(&list, &l, e);
    if (r == 0) {
        list_finish(&list);
    }
    return r;
}

static const char *const good[] = {
    "127.0.0.1:9190", "runner-1.example:1", "[::1]:65535", "[fe80::1]:80", "unix:/run/r.sock",
    "a_b:9",
};

static const struct {
    const char *address;
    const char *expected; /* in the text */
} bad[] = {
    { "", "expected host:port" },
    { "host", "expected host:port" },
    { ":80", "expected a host before the port" },
    { "host:", "expected a port" },
    { "host:0", "expected a port" },
    { "host:65536", "expected a port" },
    { "host:99999999999", "expected a port" },
    { "host:80a", "expected a port" },
    { "host:-1", "expected a port" },
    { "::1:80", "expected [ and ]" },
    { "[]:80", "expected an IPv6" },
    { "[host]:80", "expected an IPv6" },
    { "[::1:80", "expected an IPv6" },
    { "[fe80::1%eth0]:80", "expected an IPv6" },
    { "http://host:80", "without a scheme" },
    { " host:80", "expected a host name" },
    { "ho\nst:80", "got \"ho?st:80\"" },
    { "unix:r.sock", "expected an absolute path" },
    { "unix:", "expected an absolute path" },
    { "host:80 zone", "expected labels such as zone=a" },
    { "host:80 zone=", "expected labels such as zone=a" },
    { "host:80 =a", "expected labels such as zone=a" },
    { "host:80 zone=a zone=b", "expected each label once" },
    { "host:80 zone=\"a\"", "expected labels such as zone=a" },
    { "host:80,zone=a", "expected a port" },
    { "h:1 a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1",
      "expected at most 16 labels" },
};

START_TEST(good_addresses)
{
    struct fn_error e;

    ck_assert_int_eq(check(good, sizeof(good) / sizeof(good[0]), &e), 0);
}
END_TEST

START_TEST(bad_addresses)
{
    const char *items[] = { "ok:1", bad[_i].address };
    struct fn_error e;

    ck_assert_int_eq(check(items, 2, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, bad[_i].expected) != NULL, "%s", e.msg);
    ck_assert_msg(strncmp(e.msg, "runners[1]: ", 12) == 0, "%s", e.msg);
}
END_TEST

START_TEST(labels_stand_behind_addresses)
{
    static const char *const items[] = { "a:1 zone=a  class=gpu", "b:1", "c:1 zone=a,class=cpu ",
                                         "unix:/r.sock x/y.z=1-2_3" };
    static const char *const expected[] = { "zone=a,class=gpu", NULL, "zone=a,class=cpu",
                                            "x/y.z=1-2_3" };
    const struct fn_strlist l = { items, 4 };
    struct fn_error e = FN_ERROR_INIT;
    struct list list;

    ck_assert_int_eq(list_init(&list, &l, &e), 0);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_pstr_eq(list.entries[i].labels, expected[i]);
    }
    ck_assert_str_eq(list.entries[2].address, "c:1");
    ck_assert_str_eq(list.entries[3].address, "unix:/r.sock");
    list_finish(&list);
}
END_TEST

START_TEST(empty_and_twice)
{
    const char *twice[] = { "b:1", "a:1", "b:1 zone=a" };
    struct fn_error e;

    ck_assert_int_eq(check(NULL, 0, &e), FN_E_INVALID);
    ck_assert_str_eq(e.msg, "runners: got a list of 0; expected 1 to 10000 addresses");
    ck_assert_int_eq(check(twice, 3, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, "got \"b:1\"; expected each runner once") != NULL, "%s", e.msg);
}
END_TEST

START_TEST(ids_are_stable)
{
    ck_assert_uint_eq(text_hash("a:1"), text_hash("a:1"));
    ck_assert_uint_ne(text_hash("a:1"), text_hash("a:2"));
    ck_assert_uint_eq(text_hash(""), 0xcbf29ce484222325u);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool-static");
    TCase *t = tcase_create("list");
    SRunner *r;
    int failed;

    tcase_add_test(t, good_addresses);
    tcase_add_loop_test(t, bad_addresses, 0, (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_test(t, labels_stand_behind_addresses);
    tcase_add_test(t, empty_and_twice);
    tcase_add_test(t, ids_are_stable);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
