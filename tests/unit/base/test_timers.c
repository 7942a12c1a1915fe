/* Timers against a list that is searched for its first one, with times that are often equal. */
#include <base/timers.h>

#include <check.h>
#include <stdlib.h>

#define TIMERS 700
#define STEPS  20000
#define TIMES  40 /* different ones */

static struct timers ts;
static struct env_timer all[TIMERS];
static uint64_t tie_of[TIMERS];
static uint64_t n_set;
static uint64_t chance = 7;

static uint64_t below(uint64_t n)
{
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (chance >> 33) % n;
}

static struct env_timer *first_of_list(void)
{
    struct env_timer *best = NULL;

    for (size_t i = 0; i < TIMERS; i++) {
        struct env_timer *t = &all[i];

        if (env_timer_is_set(t) &&
            (!best || t->at_ns < best->at_ns ||
             (t->at_ns == best->at_ns && tie_of[i] < tie_of[best - all]))) {
            best = t;
        }
    }
    return best;
}

static void check(void)
{
    const struct timer_due *first = timers_first(&ts);
    struct env_timer *t = first_of_list();

    ck_assert_ptr_eq(first ? first->timer : NULL, t);
    if (t) {
        ck_assert_int_eq(first->at_ns, t->at_ns);
    }
}

START_TEST(the_first_one_is_first_whatever_is_set_moved_and_cleared)
{
    size_t n = 0;

    for (int step = 0; step < STEPS; step++) {
        size_t i = below(TIMERS);
        struct env_timer *t = &all[i];

        /* More are set than cleared, then fewer: it fills and empties. */
        if (below(10) < (step < STEPS / 2 ? 7u : 3u)) {
            n += !env_timer_is_set(t);
            ck_assert(timers_make_room(&ts));
            t->at_ns = (int64_t)below(TIMES);
            tie_of[i] = ++n_set;
            timers_set(&ts, t, t->at_ns, tie_of[i]);
        } else {
            n -= env_timer_is_set(t);
            timers_clear(&ts, t);
            ck_assert(!env_timer_is_set(t));
        }
        ck_assert_uint_eq(ts.n, n);
        check();
    }
    while (timers_first(&ts)) {
        timers_clear(&ts, timers_first(&ts)->timer);
        check();
    }
    timers_finish(&ts);
}
END_TEST

START_TEST(equal_ones_fire_in_the_order_in_which_they_were_set)
{
    for (size_t i = 0; i < TIMERS; i++) {
        ck_assert(timers_make_room(&ts));
        timers_set(&ts, &all[i], 5, ++n_set);
    }
    timers_set(&ts, &all[0], 5, ++n_set); /* moved to where it was: the last one now */
    for (size_t i = 1; i <= TIMERS; i++) {
        ck_assert_ptr_eq(timers_first(&ts)->timer, &all[i % TIMERS]);
        timers_clear(&ts, &all[i % TIMERS]);
    }
    timers_finish(&ts);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("timers");
    TCase *c = tcase_create("timers");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_test(c, the_first_one_is_first_whatever_is_set_moved_and_cleared);
    tcase_add_test(c, equal_ones_fire_in_the_order_in_which_they_were_set);
    suite_add_tcase(s, c);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed > 0;
}
