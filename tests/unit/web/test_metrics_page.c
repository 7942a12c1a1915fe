/* Pages shared by scrapes, over an environment whose worker and clock the test moves. */
#include "../lib/fake_env.h"

#include <web/metrics_page.h>

#include <base/metric.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fake_env *fake;
static struct metrics_pages *pages;
static uint32_t n_made;

static void work(void)
{
    ck_assert_uint_eq(fake->n_work, 1);
    fake_env_work_one(fake);
    n_made++;
}

static void pause_over(void)
{
    ck_assert_ptr_nonnull(timers_first(&fake->timers));
    fake_env_advance(fake, timers_first(&fake->timers)->at_ns - fake->now);
}

struct reader {
    struct metrics_reader r;
    bool ready, failed, cut;
};

static void tell(struct metrics_reader *r, enum metrics_word word)
{
    struct reader *me = container_of(r, struct reader, r);

    me->ready |= word == METRICS_READY;
    me->failed |= word == METRICS_FAILED;
    me->cut |= word == METRICS_CUT;
}

static void ask(struct reader *me)
{
    *me = (struct reader){ .r.tell = tell };
    metrics_read(pages, &me->r);
}

static void setup(void)
{
    fake = fake_env_create();
    metric_set(metric_simple("fn_test", METRIC_GAUGE, "A test."), 1);
    pages = metrics_pages_create(&fake->env);
    ck_assert_ptr_nonnull(pages);
    n_made = 0;
}

static void teardown(void)
{
    metrics_pages_destroy(pages);
    fake_env_destroy(fake);
}

static void read_all(struct reader *me, const char *expected)
{
    size_t size = metrics_size(&me->r);
    char *text = calloc(1, size + 1);
    const void *data;
    size_t at = 0;
    size_t n;

    while ((n = metrics_piece(&me->r, &data)) > 0) {
        memcpy(text + at, data, n);
        at += n;
    }
    ck_assert_uint_eq(at, size);
    ck_assert_ptr_nonnull(strstr(text, expected));
    free(text);
    metrics_leave(&me->r);
}

START_TEST(scrapes_at_once_share_a_page)
{
    static struct reader many[1000];

    ask(&many[0]);
    for (int i = 1; i < 1000; i++) {
        ask(&many[i]); /* the page of the first has begun: they are for the next one */
    }
    work();
    ck_assert(many[0].ready && !many[1].ready);
    read_all(&many[0], "fn_test 1\n");
    metric_set(metric_simple("fn_test", METRIC_GAUGE, ""), 2);
    pause_over();
    work();
    for (int i = 1; i < 1000; i++) {
        ck_assert(many[i].ready);
        read_all(&many[i], "fn_test 2\n");
    }
    ck_assert_uint_eq(n_made, 2);
    ck_assert_uint_eq(fake->n_work, 0);
}
END_TEST

START_TEST(pages_are_made_apart)
{
    struct reader a, b;

    ask(&a);
    work();
    read_all(&a, "fn_test");
    fake_env_advance(fake, METRICS_PAUSE_NS - 1);
    ask(&b);
    ck_assert_uint_eq(fake->n_work, 0);
    pause_over();
    work();
    read_all(&b, "fn_test");
    fake_env_advance(fake, METRICS_PAUSE_NS);
    ask(&a);
    ck_assert_uint_eq(fake->n_work, 1);
    metrics_leave(&a.r); /* gone before it is made */
    work();
    ck_assert(!a.ready);
}
END_TEST

START_TEST(readers_that_stand_still_are_cut)
{
    static struct reader slow[METRICS_PAGES_MAX + 1];

    for (int i = 0; i <= METRICS_PAGES_MAX; i++) {
        fake_env_advance(fake, METRICS_PAUSE_NS);
        ask(&slow[i]);
        work();
        ck_assert(slow[i].ready);
    }
    ck_assert(slow[0].cut);
    for (int i = 1; i <= METRICS_PAGES_MAX; i++) {
        ck_assert(!slow[i].cut);
        read_all(&slow[i], "fn_test");
    }
}
END_TEST

START_TEST(no_worker_is_an_answer)
{
    struct reader a;

    fake->submit_fails = 1;
    ask(&a);
    ck_assert(a.failed);
    ask(&a);
    ck_assert(!a.failed);
    work();
    read_all(&a, "fn_test");
}
END_TEST

/* The worker begins late and the loop counts on: what changes together is together on the page. */
START_TEST(a_page_shows_the_moment_at_which_it_was_asked_for)
{
    struct metric *received = metric_simple("fn_test_received", METRIC_COUNTER, "Came.");
    struct metric *in_flight = metric_simple("fn_test_in_flight", METRIC_GAUGE, "Here.");
    struct reader a, b;

    metric_add(received, 1);
    metric_add(in_flight, 1);
    fake->submit_fails = 1;
    ask(&a); /* an attempt that fails is no moment */
    metric_add(received, 1);
    metric_add(in_flight, 1);
    ask(&a);
    metric_add(received, 1);
    metric_add(in_flight, -2);
    ask(&b);
    work();
    read_all(&a, "\nfn_test_received 2\n");
    pause_over();
    work();
    read_all(&b, "\nfn_test_received 3\n");
    fake_env_advance(fake, METRICS_PAUSE_NS);
    ask(&a);
    metric_add(in_flight, 5);
    work();
    read_all(&a, "\nfn_test_in_flight 0\n");
}
END_TEST

START_TEST(formats_share_a_moment)
{
    struct reader text, open;

    open = (struct reader){ .r.tell = tell, .r.format = METRIC_OPENMETRICS };
    ask(&text);
    metrics_read(pages, &open.r);
    work();
    read_all(&text, "# HELP fn_test A test.\n# TYPE fn_test gauge\nfn_test 1\n");
    pause_over();
    metric_set(metric_simple("fn_test", METRIC_GAUGE, ""), 2);
    work();
    read_all(&open, "# TYPE fn_test gauge\n# HELP fn_test A test.\nfn_test 2\n");
    ask(&text);
    open = (struct reader){ .r.tell = tell, .r.format = METRIC_OPENMETRICS };
    metrics_read(pages, &open.r);
    pause_over();
    work();
    ck_assert(text.ready && open.ready);
    read_all(&text, "# TYPE fn_test gauge\nfn_test 2\n");
    read_all(&open, "fn_test 2\n");
    ck_assert_uint_eq(n_made, 3);
}
END_TEST

/* Each page sweeps the series of functions that are gone. */
START_TEST(a_page_is_made_where_nobody_reads)
{
    struct reader a;

    fake_env_advance(fake, METRICS_SWEEP_NS / 2);
    ask(&a);
    work();
    read_all(&a, "fn_test");
    fake_env_advance(fake, METRICS_SWEEP_NS - 1);
    ck_assert_uint_eq(fake->n_work, 0);
    fake_env_advance(fake, 1);
    work();
    fake->submit_fails = 1;
    fake_env_advance(fake, METRICS_SWEEP_NS);
    ck_assert_uint_eq(fake->n_work, 0); /* no worker: it is tried again in an hour */
    fake_env_advance(fake, METRICS_SWEEP_NS);
    work();
    ck_assert_uint_eq(n_made, 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("metrics page");
    TCase *t = tcase_create("metrics page");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, scrapes_at_once_share_a_page);
    tcase_add_test(t, pages_are_made_apart);
    tcase_add_test(t, readers_that_stand_still_are_cut);
    tcase_add_test(t, no_worker_is_an_answer);
    tcase_add_test(t, formats_share_a_moment);
    tcase_add_test(t, a_page_is_made_where_nobody_reads);
    tcase_add_test(t, a_page_shows_the_moment_at_which_it_was_asked_for);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
