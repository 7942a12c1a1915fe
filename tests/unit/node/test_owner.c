/* Owners of runners that name none: the same after a restart, and of no other runner. */
#include <node/owner.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POD "a-deployment-of-functions-with-a-long-name-7d9c5b6f8-"
#define ONE "0123456789abcdef0123456789abcdef"
#define TWO "fedcba9876543210fedcba9876543210"

/* Checked against the rules of runner.owner. */
static const char *owner_of(const char *hostname, const char *listen, const char *instance)
{
    static char owners[2][OWNER_MAX];
    static int at;
    char *owner = owners[at ^= 1];

    owner_derive(hostname, listen, instance, owner);
    ck_assert_uint_ge(strlen(owner), 1);
    ck_assert_uint_lt(strlen(owner), OWNER_MAX);
    ck_assert_uint_eq(strspn(owner, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(owner));
    ck_assert_ptr_null(strstr(owner, "--"));
    ck_assert_int_ne(owner[strlen(owner) - 1], '-');
    return owner;
}

START_TEST(an_owner_is_the_same_after_a_restart)
{
    ck_assert_str_eq(owner_of("Node.One", ":9190", ONE), "node-one-9190");
    ck_assert_str_eq(owner_of("Node.One", "0.0.0.0:9190", TWO), "node-one-9190");
    ck_assert_str_eq(owner_of("node", "[::1]:9190", ONE), owner_of("node", "[::1]:9190", TWO));
    ck_assert_str_eq(owner_of("node", "unix:/run/a", ONE), owner_of("node", "unix:/run/a", TWO));
    ck_assert_str_eq(owner_of(POD "x", ":9190", ONE), owner_of(POD "x", ":9190", TWO));
}
END_TEST

START_TEST(two_runners_have_two_owners)
{
    static const char *const rows[][4] = {
        { POD "abcde", ":9190", POD "fghij", ":9190" }, /* pods of one machine */
        { "node", ":0", "node", ":0" },
        { "node", "127.0.0.1:0", "node", "127.0.0.1:0" },
        { "xn--a", ":9190", "xn-a", ":9190" },
        { "a-", ":9190", "a", ":9190" },
        { "", ":9190", "-", ":9190" },
        { "node", ":9190", "node", ":9191" },
        { "node", "127.0.0.1:9190", "node", "127.0.0.2:9190" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_str_ne(owner_of(rows[i][0], rows[i][1], ONE),
                         owner_of(rows[i][2], rows[i][3], TWO));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("owner");
    TCase *t = tcase_create("owner");
    SRunner *runner;
    int failed;

    tcase_add_test(t, an_owner_is_the_same_after_a_restart);
    tcase_add_test(t, two_runners_have_two_owners);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
