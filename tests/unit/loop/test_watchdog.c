/* The watchdog: silent while the loop moves, loud while it does not, and once when it moves again. */
#include <loop/loop.h>
#include <loop/watchdog.h>

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static atomic_int stuck, over, chores;

static void report(void *ud, int64_t stuck_ns, bool is_over)
{
    (void)ud;
    ck_assert_int_ge(stuck_ns, 20 * ENV_MS);
    atomic_fetch_add(is_over ? &over : &stuck, 1);
}

static void chore(void *ud)
{
    (void)ud;
    atomic_fetch_add(&chores, 1);
}

/* Holds the loop until the watchdog has spoken twice. */
static void *hold(void *arg)
{
    struct loop *l = arg;

    loop_enter(l);
    while (atomic_load(&stuck) < 2) {
        nanosleep(&(struct timespec){ 0, ENV_MS }, NULL);
    }
    loop_leave(l);
    return NULL;
}

struct ticker {
    struct env_timer timer;
    struct loop *loop;
    int left;
};

static void on_tick(struct env_timer *t)
{
    struct ticker *k = container_of(t, struct ticker, timer);

    if (--k->left == 0) {
        loop_stop(k->loop);
    } else {
        env_timer_set(loop_env(k->loop), t, env_now_ns(loop_env(k->loop)) + ENV_MS);
    }
}

START_TEST(speaks_when_stuck)
{
    const struct watchdog_config c = { .limit_ns = 20 * ENV_MS, .report = report,
                                       .chore_ns = 10 * ENV_MS, .chore = chore };
    struct fn_error e = ERR_INIT;
    struct loop *l = NULL;
    struct watchdog *w = NULL;
    struct ticker k = { .timer.cb = on_tick, .left = 50 };
    pthread_t t;

    ck_assert_msg(loop_create(NULL, &l, &e) == 0, "%s", e.msg);
    ck_assert_msg(watchdog_create(l, &c, &w, &e) == 0, "%s", e.msg);
    pthread_create(&t, NULL, hold, l);
    pthread_join(t, NULL);
    while (atomic_load(&over) == 0 || atomic_load(&chores) == 0) {
        nanosleep(&(struct timespec){ 0, ENV_MS }, NULL);
    }
    ck_assert_int_eq(atomic_load(&over), 1);
    /* A loop that moves, or sleeps, is not stuck. */
    atomic_store(&stuck, 0);
    k.loop = l;
    loop_enter(l);
    env_timer_set(loop_env(l), &k.timer, env_now_ns(loop_env(l)));
    loop_leave(l);
    loop_run(l);
    watchdog_destroy(w);
    ck_assert_int_eq(atomic_load(&stuck), 0);
    loop_destroy(l);
    watchdog_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("watchdog");
    TCase *t = tcase_create("watchdog");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_test(t, speaks_when_stuck);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
