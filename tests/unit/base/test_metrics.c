/* Subjects: which functions have series of their own on a page, and that nothing is lost or counted
 * backwards by it. Moments: that a page shows one. */
#include <base/metric_names.h>

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const labels[] = { "state", "app", "fn", NULL };
static const double bounds[] = { 1, 10, 100, 1000, 10000 };

static struct metric_family *family(const char *name, enum metric_kind kind)
{
    const struct metric_def def = { .name = name,
                                    .help = "Something of functions.",
                                    .kind = kind,
                                    .labels = labels,
                                    .n_subject_labels = 2,
                                    .bounds = bounds,
                                    .n_bounds = kind == METRIC_HISTOGRAM ? 5 : 0 };

    return metric_declare(&def);
}

static struct metric *of_app(struct metric_family *f, const char *state, const char *app)
{
    return metric_series(f, (const char *const[]){ state, app, "fn" });
}

static const char *page(void)
{
    static struct buf out;

    buf_finish(&out);
    ck_assert_int_eq(metric_print(&out), 0);
    return buf_text(&out);
}

/* The value of a line of `text` that begins with `series`, or -1. */
static int64_t value_of(const char *text, const char *series)
{
    size_t len = strlen(series);

    for (const char *at = text; (at = strstr(at, series)); at += len) {
        if ((at == text || at[-1] == '\n') && at[len] == ' ') {
            return strtoll(at + len, NULL, 10);
        }
    }
    return -1;
}

#define A     "fn_x{state=\"s\",app=\"a\",fn=\"fn\"}"
#define B     "fn_x{state=\"s\",app=\"b\",fn=\"fn\"}"
#define OTHER "fn_x{state=\"s\",app=\"other\",fn=\"other\"}"

START_TEST(those_used_most_are_shown)
{
    struct metric_family *f = family("fn_x", METRIC_COUNTER);
    struct metric *a = of_app(f, "s", "a");
    struct metric *b = of_app(f, "s", "b");

    metric_set_subjects(METRIC_OF_RUNNER, 1);
    metric_add(a, 10);
    metric_add(b, 3);
    ck_assert_int_eq(value_of(page(), A), 10);
    ck_assert_int_eq(value_of(page(), OTHER), 3);
    ck_assert_int_eq(value_of(page(), B), -1);
    ck_assert_int_eq(value_of(page(), "fn_metrics_folded_series"), 1);

    metric_add(b, 1000); /* told of b alone; the 3 stay where they were told */
    ck_assert_int_eq(value_of(page(), B), 1000);
    ck_assert_int_eq(value_of(page(), OTHER), 3);
    ck_assert_int_eq(value_of(page(), A), -1);

    metric_add(a, 7);
    ck_assert_int_eq(value_of(page(), OTHER), 10);
    metric_set_subjects(METRIC_OF_RUNNER, 2);
    metric_add(a, 1);
    ck_assert_int_eq(value_of(page(), A), 11); /* goes on where it was */
    ck_assert_int_eq(value_of(page(), B), 1000);
    ck_assert_int_eq(value_of(page(), OTHER), 10);
}
END_TEST

START_TEST(a_small_lead_changes_nothing)
{
    struct metric_family *f = family("fn_x", METRIC_COUNTER);
    struct metric *a = of_app(f, "s", "a");
    struct metric *b = of_app(f, "s", "b");

    metric_set_subjects(METRIC_OF_RUNNER, 1);
    metric_add(a, 100);
    page();
    for (int i = 0; i < 20; i++) {
        metric_add(a, 100);
        metric_add(b, 110);
        ck_assert_int_ge(value_of(page(), A), 0);
    }
}
END_TEST

START_TEST(gauges_are_summed)
{
    struct metric_family *f = family("fn_x", METRIC_GAUGE);
    struct metric *a = of_app(f, "s", "a");
    struct metric *b = of_app(f, "s", "b");

    metric_set_subjects(METRIC_OF_RUNNER, 0);
    metric_set(a, 5);
    metric_set(b, 2);
    ck_assert_int_eq(value_of(page(), OTHER), 7);
    metric_add(a, -5);
    ck_assert_int_eq(value_of(page(), OTHER), 2);
    metric_set_subjects(METRIC_OF_RUNNER, 2);
    ck_assert_int_eq(value_of(page(), A), 0);
    ck_assert_int_eq(value_of(page(), B), 2);
    ck_assert_int_eq(value_of(page(), OTHER), -1);
}
END_TEST

START_TEST(histograms_are_summed)
{
    struct metric_family *f = family("fn_x", METRIC_HISTOGRAM);
    const char *text;

    metric_set_subjects(METRIC_OF_RUNNER, 0);
    metric_observe(of_app(f, "s", "a"), 5);
    metric_observe(of_app(f, "s", "b"), 500);
    metric_observe(of_app(f, "t", "b"), 7);
    text = page();
    ck_assert_int_eq(
        value_of(text, "fn_x_bucket{state=\"s\",app=\"other\",fn=\"other\",le=\"10\"}"), 1);
    ck_assert_int_eq(value_of(text, "fn_x_count{state=\"s\",app=\"other\",fn=\"other\"}"), 2);
    ck_assert_int_eq(value_of(text, "fn_x_sum{state=\"s\",app=\"other\",fn=\"other\"}"), 505);
    ck_assert_int_eq(value_of(text, "fn_x_count{state=\"t\",app=\"other\",fn=\"other\"}"), 1);
    metric_set_subjects(METRIC_OF_RUNNER, 2);
    metric_observe(of_app(f, "s", "a"), 5);
    text = page();
    ck_assert_int_eq(value_of(text, "fn_x_sum{state=\"s\",app=\"a\",fn=\"fn\"}"), 5);
    ck_assert_int_eq(value_of(text, "fn_x_count{state=\"s\",app=\"other\",fn=\"other\"}"), 2);
}
END_TEST

/* A function that is gone leaves its count, not its series: 20 000 of them fit where 8 192 do. */
START_TEST(functions_that_are_gone_take_no_room)
{
    struct metric_family *f = family("fn_x", METRIC_COUNTER);
    struct metric *last;

    metric_set_subjects(METRIC_OF_RUNNER, 1);
    for (int i = 0; i < 20000; i++) {
        char app[32];
        struct metric *m;

        snprintf(app, sizeof(app), "app%d", i);
        m = of_app(f, "s", app);
        metric_add(m, 1);
        metric_release(m);
        if (i % 5000 == 4999) {
            page();
        }
    }
    last = of_app(f, "s", "late");
    metric_add(last, 100000);
    ck_assert_int_eq(value_of(page(), "fn_x{state=\"s\",app=\"late\",fn=\"fn\"}"), 100000);
    ck_assert_int_eq(value_of(page(), OTHER) + value_of(page(), A), 20000 - 1 - 1);
}
END_TEST

START_TEST(one_who_is_called_other)
{
    struct metric_family *f = family("fn_x", METRIC_COUNTER);
    struct metric *m = metric_series(f, (const char *const[]){ "s", "other", "other" });

    metric_add(m, 2);
    metric_add(of_app(f, "s", "a"), 1);
    metric_set_subjects(METRIC_OF_RUNNER, 0);
    ck_assert_int_eq(value_of(page(), OTHER), 3);
}
END_TEST

/* ---- the moment of a page -------------------------------------------------------------------- */

/* Figures that change together, as the loop's do. */
static struct {
    struct metric *received, *ended, *in_flight, *took;
} books;

static void books_open(void)
{
    const struct metric_def took = { .name = "fn_took",
                                     .help = "How long.",
                                     .kind = METRIC_HISTOGRAM,
                                     .bounds = bounds,
                                     .n_bounds = 5 };

    books.received = metric_simple("fn_received", METRIC_COUNTER, "Came.");
    books.ended = metric_simple("fn_ended", METRIC_COUNTER, "Went.");
    books.in_flight = metric_simple("fn_in_flight", METRIC_GAUGE, "Here.");
    books.took = metric_series(metric_declare(&took), NULL);
}

static void one_comes(void)
{
    metric_add(books.received, 1);
    metric_add(books.in_flight, 1);
}

static void one_goes(void)
{
    metric_add(books.ended, 1);
    metric_add(books.in_flight, -1);
    metric_observe(books.took, 5);
}

static void check_books(const char *text, int64_t received, int64_t ended)
{
    ck_assert_int_eq(value_of(text, "fn_received"), received);
    ck_assert_int_eq(value_of(text, "fn_ended"), ended);
    ck_assert_int_eq(value_of(text, "fn_in_flight"), received - ended);
    ck_assert_int_eq(value_of(text, "fn_took_count"), ended);
    ck_assert_int_eq(value_of(text, "fn_took_sum"), 5 * ended);
}

START_TEST(a_page_shows_its_moment)
{
    books_open();
    for (int64_t i = 0; i < 10; i++) {
        one_comes();
        metric_moment();
        one_comes(); /* the loop goes on before the worker begins */
        one_goes();
        one_goes();
        check_books(page(), 2 * i + 1, 2 * i);
        check_books(page(), 2 * i + 2, 2 * i + 2); /* without a moment: now */
        ck_assert_int_eq(metric_value(books.received), 2 * i + 2);
        ck_assert_int_eq(metric_value(books.took), 2 * i + 2);
    }
}
END_TEST

START_TEST(a_moment_without_a_page_loses_nothing)
{
    books_open();
    one_comes();
    metric_moment();
    metric_moment_undo();
    one_comes();
    metric_moment();
    one_goes();
    check_books(page(), 2, 0);
    check_books(page(), 2, 1);
}
END_TEST

/* What a function counted after the moment is told although it is gone when the page is made. */
START_TEST(one_that_goes_after_the_moment_is_counted)
{
    struct metric_family *f = family("fn_x", METRIC_COUNTER);
    struct metric_family *h = family("fn_y", METRIC_HISTOGRAM);
    struct metric *a = of_app(f, "s", "a");
    struct metric *y = of_app(h, "s", "a");

    metric_set_subjects(METRIC_OF_RUNNER, 0);
    metric_add(a, 1);
    metric_moment();
    metric_add(a, 2);
    metric_observe(y, 7);
    metric_release(a);
    metric_release(y);
    ck_assert_int_eq(value_of(page(), OTHER), 1);
    ck_assert_int_eq(value_of(page(), OTHER), 3);
    ck_assert_int_eq(value_of(page(), "fn_y_sum{state=\"s\",app=\"other\",fn=\"other\"}"), 7);
}
END_TEST

/* The loop, which takes a moment now and then, and counts without a pause while pages are made. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool asked, over;
} loop = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *run_loop(void *ud)
{
    bool over = false;

    (void)ud;
    while (!over) {
        one_comes();
        one_goes();
        one_comes();
        pthread_mutex_lock(&loop.lock);
        if (loop.asked) {
            metric_moment();
            loop.asked = false;
            pthread_cond_signal(&loop.changed);
        }
        over = loop.over;
        pthread_mutex_unlock(&loop.lock);
        one_goes();
    }
    return NULL;
}

START_TEST(pages_agree_while_the_loop_counts)
{
    pthread_t thread;

    books_open();
    ck_assert_int_eq(pthread_create(&thread, NULL, run_loop, NULL), 0);
    for (int i = 0; i < 200; i++) {
        const char *text;

        pthread_mutex_lock(&loop.lock);
        loop.asked = true;
        while (loop.asked) {
            pthread_cond_wait(&loop.changed, &loop.lock);
        }
        pthread_mutex_unlock(&loop.lock);
        text = page();
        ck_assert_int_gt(value_of(text, "fn_received"), 0);
        check_books(text, value_of(text, "fn_received"), value_of(text, "fn_received") - 1);
    }
    pthread_mutex_lock(&loop.lock);
    loop.over = true;
    pthread_mutex_unlock(&loop.lock);
    pthread_join(thread, NULL);
}
END_TEST

/* ---- buckets --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    bool good;
} lists[] = {
    { "1, 10 100", true },
    { "0.5,1", true },
    { " 7 ", true },
    { "", false },
    { " , ", false },
    { "1,1", false },
    { "10, 5", false },
    { "1,x", false },
    { "-1,2", false },
    { "1,2,0x10", false },
    { "1e3", false },
    { "1.2.3", false },
    { "9999999999999", false },
    { "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32", true },
    { "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33",
      false },
};

static const struct {
    enum metric_kind kind;
    const char *name, *shown;
    double factor;
} names[] = {
    { METRIC_COUNTER, "fn_calls", "fn_calls_total", 1 },
    { METRIC_COUNTER, "fn_lb_stale_total", "fn_lb_stale_total", 1 },
    { METRIC_COUNTER, "fn_api_request_count", "fn_api_request_total", 1 },
    { METRIC_COUNTER, "fn_runner_calls", "fn_runner_invocations_total", 1 },
    { METRIC_COUNTER, "fn_runner_calls_total", "fn_runner_calls_total", 1 },
    { METRIC_GAUGE, "fn_queued", "fn_queued", 1 },
    { METRIC_GAUGE, "fn_container_wait_total", "fn_container_wait", 1 },
    { METRIC_GAUGE, "fn_npm_wanted_mb", "fn_npm_wanted_bytes", 1048576 },
    { METRIC_HISTOGRAM, "fn_wait_milliseconds", "fn_wait_seconds", 0.001 },
    { METRIC_HISTOGRAM, "fn_lb_call_latency", "fn_lb_call_latency", 1 },
};

START_TEST(names_follow_prometheus)
{
    struct metric_shown shown;

    metric_names_show(METRIC_NAMES_PROMETHEUS, names[_i].kind, names[_i].name, &shown);
    ck_assert_str_eq(shown.name, names[_i].shown);
    ck_assert(shown.factor == names[_i].factor);
    metric_names_show(METRIC_NAMES_FN, names[_i].kind, names[_i].name, &shown);
    ck_assert_str_eq(shown.name, names[_i].name);
    ck_assert(shown.factor == 1);
}
END_TEST

/* Values and bounds are in the unit of the name. */
START_TEST(names_bring_their_unit)
{
    const struct metric_def def = { .name = "fn_odd_milliseconds", .help = "Odd waits.",
                                    .kind = METRIC_HISTOGRAM, .bounds = bounds, .n_bounds = 5 };

    metric_observe(metric_series(metric_declare(&def), NULL), 250);
    metric_set(metric_simple("fn_odd_mb", METRIC_GAUGE, "Odd memory, in MB."), 3);
    metric_names_set(METRIC_NAMES_PROMETHEUS);
    ck_assert_ptr_nonnull(strstr(page(), "# HELP fn_odd_seconds Odd waits. Shown in seconds.\n"
                                         "# TYPE fn_odd_seconds histogram\n"));
    ck_assert_ptr_nonnull(strstr(page(), "fn_odd_seconds_bucket{le=\"0.001\"} 0\n"));
    ck_assert_ptr_nonnull(strstr(page(), "fn_odd_seconds_bucket{le=\"1\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(page(), "fn_odd_seconds_sum 0.25\nfn_odd_seconds_count 1\n"));
    ck_assert_ptr_nonnull(strstr(page(), "\nfn_odd_bytes 3145728\n"));
    metric_names_set(METRIC_NAMES_FN);
    ck_assert_ptr_nonnull(strstr(page(), "\nfn_odd_mb 3\n"));
}
END_TEST

START_TEST(buckets_are_checked)
{
    char own[200];

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        ck_assert_msg(metric_buckets_good(&lists[i].text, 1) == lists[i].good, "%s",
                      lists[i].text);
        snprintf(own, sizeof(own), "fn_api_latency=%s", lists[i].text);
        ck_assert_msg(metric_buckets_of_good(own) == lists[i].good, "%s", own);
    }
    ck_assert(metric_buckets_good((const char *const[]){ "1", "2,3", "4" }, 3));
    ck_assert(!metric_buckets_good((const char *const[]){ "1", "3", "2" }, 3));
    ck_assert(!metric_buckets_of_good("fn_api_latency"));
    ck_assert(!metric_buckets_of_good("fn_api_latency 1,2"));
    ck_assert(!metric_buckets_of_good("fn_calls=1,2"));
    ck_assert(!metric_buckets_of_good("=1"));
}
END_TEST

static struct metric *latency(const char *name, double scale)
{
    const struct metric_def def = { .name = name,
                                    .help = "How long.",
                                    .kind = METRIC_HISTOGRAM,
                                    .latency = true,
                                    .scale = scale };

    return metric_series(metric_declare(&def), NULL);
}

START_TEST(between_one_and_ten_seconds_there_are_buckets)
{
    struct metric *m = latency("fn_lb_placer_latency", 0);
    const char *text;

    metric_observe(m, 1400);
    metric_observe(m, 1600);
    metric_observe(m, 9000);
    text = page();
    ck_assert_int_eq(value_of(text, "fn_lb_placer_latency_bucket{le=\"1000\"}"), 0);
    ck_assert_int_eq(value_of(text, "fn_lb_placer_latency_bucket{le=\"1500\"}"), 1);
    ck_assert_int_eq(value_of(text, "fn_lb_placer_latency_bucket{le=\"2000\"}"), 2);
    ck_assert_int_eq(value_of(text, "fn_lb_placer_latency_bucket{le=\"2500\"}"), 2);
    ck_assert_int_eq(value_of(text, "fn_lb_placer_latency_bucket{le=\"7500\"}"), 2);
    ck_assert_int_eq(value_of(text, "fn_lb_placer_latency_bucket{le=\"10000\"}"), 3);
    ck_assert_int_eq(value_of(text, "fn_lb_placer_latency_bucket{le=\"120000\"}"), 3);
}
END_TEST

START_TEST(operators_choose_buckets)
{
    static const char *const all[] = { "5", "50" };
    static const char *const own[] = { "fn_api_latency=1, 2000", "fn_calls=1" };
    const char *text;

    metric_buckets_set(all, 2, own, 2);
    metric_observe(latency("fn_lb_call_latency", 0), 50);
    metric_observe(latency("fn_api_latency", 0), 1999);
    metric_observe(latency("fn_runner_status_seconds", 0.001), 6);
    text = page();
    ck_assert_int_eq(value_of(text, "fn_lb_call_latency_bucket{le=\"5\"}"), 0);
    ck_assert_int_eq(value_of(text, "fn_lb_call_latency_bucket{le=\"50\"}"), 1);
    ck_assert_ptr_null(strstr(text, "fn_lb_call_latency_bucket{le=\"1000\"}"));
    ck_assert_int_eq(value_of(text, "fn_api_latency_bucket{le=\"1\"}"), 0);
    ck_assert_int_eq(value_of(text, "fn_api_latency_bucket{le=\"2000\"}"), 1);
    ck_assert_int_eq(value_of(text, "fn_runner_status_seconds_bucket{le=\"0.005\"}"), 0);
    ck_assert_int_eq(value_of(text, "fn_runner_status_seconds_bucket{le=\"0.05\"}"), 1);
}
END_TEST

/* What a runner has of each function: 5 gauges, 13 histograms. */
START_TEST(a_page_of_a_thousand_functions_is_short)
{
    static const char *const states[] = { "wait", "start", "idle", "paused", "busy" };

    for (int i = 0; i < 1001; i++) {
        char app[40];

        snprintf(app, sizeof(app), "01M84AYEWBR00040J11G0%05d", i);
        for (int k = 0; k < 5; k++) {
            char name[64];

            snprintf(name, sizeof(name), "fn_container_%s_total", states[k]);
            metric_add(of_app(family(name, METRIC_GAUGE), "", app), 1);
            for (int h = 0; h < 2; h++) {
                snprintf(name, sizeof(name), "fn_container_%s_duration_seconds%d", states[k], h);
                metric_observe(of_app(family(name, METRIC_HISTOGRAM), "", app), i);
            }
        }
        metric_observe(of_app(family("fn_container_uds_init_latency", METRIC_HISTOGRAM), "a", app), i);
    }
    ck_assert_uint_lt(strlen(page()), 1000 * 1000);
    metric_set_subjects(METRIC_OF_RUNNER, 2000);
    ck_assert_uint_gt(strlen(page()), 8 * 1000 * 1000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("metrics");
    TCase *t = tcase_create("subjects");
    SRunner *r;
    int failed;

    tcase_set_timeout(t, 60);
    tcase_add_test(t, those_used_most_are_shown);
    tcase_add_test(t, a_small_lead_changes_nothing);
    tcase_add_test(t, gauges_are_summed);
    tcase_add_test(t, histograms_are_summed);
    tcase_add_test(t, functions_that_are_gone_take_no_room);
    tcase_add_test(t, one_who_is_called_other);
    tcase_add_test(t, a_page_shows_its_moment);
    tcase_add_test(t, a_moment_without_a_page_loses_nothing);
    tcase_add_test(t, one_that_goes_after_the_moment_is_counted);
    tcase_add_test(t, pages_agree_while_the_loop_counts);
    tcase_add_loop_test(t, names_follow_prometheus, 0, (int)(sizeof(names) / sizeof(names[0])));
    tcase_add_test(t, names_bring_their_unit);
    tcase_add_test(t, buckets_are_checked);
    tcase_add_test(t, between_one_and_ten_seconds_there_are_buckets);
    tcase_add_test(t, operators_choose_buckets);
    tcase_add_test(t, a_page_of_a_thousand_functions_is_short);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
