/* What a peer may send in a second before its connection ends. */
#include "../lib/fake_env.h"

#include <check.h>
#include <rpc/life.h>
#include <rpc/transport.h>
#include <stdlib.h>

static struct fake_env *env;
static struct rpc_conn life;

static void setup(void)
{
    static const struct rpc_life_ops none;
    static struct transport transport;

    env = fake_env_create();
    life = (struct rpc_conn){ 0 };
    transport = (struct transport){ .env = &env->env };
    life_init(&life, &none, &transport, true);
}

static void teardown(void)
{
    life_finish(&life);
    fake_env_destroy(env);
}

START_TEST(a_flood_of_pings_is_one)
{
    for (uint32_t i = 1; i < RPC_CONTROLS_MAX; i++) {
        ck_assert(!life_too_many_pings(&life));
    }
    ck_assert(life_too_many_pings(&life));
    ck_assert(!life_too_many_pings(&life)); /* told once */
    env->now += ENV_S;
    ck_assert(!life_too_many_pings(&life));
}
END_TEST

/* As a Go node does whose answers, or requests, come without a pause. */
START_TEST(a_ping_for_what_was_said_is_free)
{
    for (uint32_t i = 0; i < 4 * RPC_CONTROLS_MAX; i++) {
        life.said = true;
        ck_assert(!life_too_many_pings(&life));
    }
    for (uint32_t i = 1; i < RPC_CONTROLS_MAX; i++) {
        ck_assert(!life_too_many_pings(&life));
    }
    ck_assert(life_too_many_pings(&life));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rpc life");
    TCase *tc = tcase_create("pings");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_flood_of_pings_is_one);
    tcase_add_test(tc, a_ping_for_what_was_said_is_free);
    suite_add_tcase(s, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
