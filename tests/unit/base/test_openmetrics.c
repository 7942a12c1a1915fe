/* OpenMetrics: types, units and bounds as the format has them, names as in Prometheus text, and
 * exemplars in the buckets that their calls are counted in. */
#include <base/metric_int.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *print(enum metric_format format)
{
    static struct buf out;
    struct buf *wanted[METRIC_FORMATS_N] = { [METRIC_TEXT] = NULL };

    wanted[format] = &out;
    buf_finish(&out);
    ck_assert_int_eq(metric_print_formats(wanted), 0);
    return buf_text(&out);
}

static const char *page(void)
{
    return print(METRIC_OPENMETRICS);
}

/* Whether a page has these lines. */
static void has(const char *text, const char *lines)
{
    const char *at = strstr(text, lines);

    ck_assert_msg(at && (at == text || at[-1] == '\n'), "no\n%sin\n%s", lines, text);
}

static void has_not(const char *text, const char *part)
{
    ck_assert_msg(!strstr(text, part), "%s in\n%s", part, text);
}

static struct metric *histogram(const char *name, const char *help, const double *bounds,
                                uint32_t n, double scale)
{
    const struct metric_def def = { .name = name,
                                    .help = help,
                                    .kind = METRIC_HISTOGRAM,
                                    .bounds = bounds,
                                    .n_bounds = n,
                                    .scale = scale };

    return metric_series(metric_declare(&def), NULL);
}

START_TEST(types_and_names)
{
    metric_add(metric_simple("fn_a_total", METRIC_COUNTER, "A counter."), 3);
    metric_add(metric_simple("fn_calls", METRIC_COUNTER, "Go Fn's."), 4);
    metric_set(metric_simple("fn_lost", METRIC_GAUGE, "Says \"now\" \\ here.\nYes."), 1);
    metric_add(metric_simple("fn_lost_total", METRIC_COUNTER, "Ever."), 2);
    metric_set(metric_simple("fn_wait_total", METRIC_GAUGE, "Now."), 5);
    has(page(), "# TYPE fn_a counter\n# HELP fn_a A counter.\nfn_a_total 3\n");
    has(page(), "# TYPE fn_calls unknown\n# HELP fn_calls Go Fn's.\nfn_calls 4\n");
    has(page(), "# TYPE fn_lost gauge\n"
                "# HELP fn_lost Says \\\"now\\\" \\\\ here.\\nYes.\nfn_lost 1\n");
    has(page(), "# TYPE fn_lost_total unknown\n# HELP fn_lost_total Ever.\nfn_lost_total 2\n");
    has(page(), "# TYPE fn_wait_total gauge\n# HELP fn_wait_total Now.\nfn_wait_total 5\n");
    ck_assert_str_eq(strstr(page(), "# EOF"), "# EOF\n");
    has(print(METRIC_TEXT), "# HELP fn_a_total A counter.\n"
                            "# TYPE fn_a_total counter\nfn_a_total 3\n");
    has_not(print(METRIC_TEXT), "EOF");
    metric_names_set(METRIC_NAMES_PROMETHEUS);
    has(page(), "# TYPE fn_calls counter\n# HELP fn_calls Go Fn's.\nfn_calls_total 4\n");
    metric_names_set(METRIC_NAMES_FN);
}
END_TEST

START_TEST(units_are_true)
{
    const struct metric_def in_ms = { .name = "fn_container_wait_duration_seconds",
                                      .help = "Of Go Fn.",
                                      .kind = METRIC_HISTOGRAM,
                                      .latency = true };
    const struct metric_def in_s = { .name = "fn_runner_status_seconds",
                                     .help = "Ours.",
                                     .kind = METRIC_HISTOGRAM,
                                     .latency = true,
                                     .scale = 0.001 };

    metric_observe(metric_series(metric_declare(&in_ms), NULL), 1);
    metric_observe(metric_series(metric_declare(&in_s), NULL), 1);
    metric_set(metric_simple("fn_x_bytes", METRIC_GAUGE, "Memory."), 7);
    metric_add(metric_simple("fn_cpu_seconds_total", METRIC_COUNTER, "Time."), 7);
    metric_set(metric_simple("seconds", METRIC_GAUGE, "No name before it."), 7);
    has(page(), "# TYPE fn_runner_status_seconds histogram\n"
                "# UNIT fn_runner_status_seconds seconds\n"
                "# HELP fn_runner_status_seconds Ours.\n");
    has(page(), "# TYPE fn_container_wait_duration_seconds histogram\n# HELP ");
    has(page(), "# UNIT fn_x_bytes bytes\n");
    has(page(), "# TYPE fn_cpu_seconds counter\n# UNIT fn_cpu_seconds seconds\n");
    has(page(), "# TYPE seconds gauge\n# HELP ");
}
END_TEST

static const struct {
    double value;
    const char *text;
} bounds[] = {
    { 0, "0.0" },          { 0.001, "0.001" },        { 1, "1.0" },
    { 2.5, "2.5" },        { 120000, "120000.0" },    { 1048576, "1.048576e+06" },
    { 1e6, "1e+06" },      { 0.00001, "1e-05" },      { 0.00025, "0.00025" },
    { 1e12, "1e+12" },     { 33554432, "3.3554432e+07" },
};

START_TEST(bounds_look_like_floats)
{
    char text[METRIC_BOUND_BYTES];

    metric_open_bound(bounds[_i].value, text);
    ck_assert_str_eq(text, bounds[_i].text);
}
END_TEST

#define ONE "0af7651916cd43dd8448eb211c80319c"
#define TWO "11111111111111111111111111111111"

START_TEST(exemplars_stand_in_their_bucket)
{
    static const double limits[] = { 0.01, 1 };
    struct metric *m = histogram("fn_took_seconds", "Took.", limits, 2, 0.001);
    const struct metric_exemplar one = { ONE, 1520879607789000000 };
    const struct metric_exemplar two = { TWO "and more", 1520879608000999999 };

    metric_observe(m, 5);
    metric_observe_of(m, 7, &one);
    metric_observe_of(m, 9, NULL);
    metric_observe_of(m, 5000, &one);
    metric_observe_of(m, 6000, &two);
    has(page(), "fn_took_seconds_bucket{le=\"0.01\"} 3 # {trace_id=\"" ONE "\"} 0.007 "
                "1520879607.789\n"
                "fn_took_seconds_bucket{le=\"1.0\"} 3\n"
                "fn_took_seconds_bucket{le=\"+Inf\"} 5 # {trace_id=\"" TWO "\"} 6 1520879608.000\n"
                "fn_took_seconds_sum 11.021\nfn_took_seconds_count 5\n");
    has(print(METRIC_TEXT), "fn_took_seconds_bucket{le=\"0.01\"} 3\n"
                            "fn_took_seconds_bucket{le=\"1\"} 3\n"
                            "fn_took_seconds_bucket{le=\"+Inf\"} 5\n");
}
END_TEST

/* What comes after the moment is on the next page, with its bucket. */
START_TEST(an_exemplar_waits_for_its_count)
{
    static const double limits[] = { 1 };
    struct metric *m = histogram("fn_took", "Took.", limits, 1, 0);
    const struct metric_exemplar one = { ONE, 1000000000 };

    metric_moment();
    metric_observe_of(m, 1, &one);
    has(page(), "fn_took_bucket{le=\"1.0\"} 0\n");
    has(page(), "fn_took_bucket{le=\"1.0\"} 1 # {trace_id=\"" ONE "\"} 1 1.000\n");
}
END_TEST

/* `other` has no exemplars: they are of the function that is folded. */
START_TEST(folded_functions_keep_their_exemplars)
{
    static const char *const labels[] = { "fn", NULL };
    static const double limits[] = { 1 };
    const struct metric_def def = { .name = "fn_of",
                                    .help = "Of functions.",
                                    .kind = METRIC_HISTOGRAM,
                                    .labels = labels,
                                    .n_subject_labels = 1,
                                    .bounds = limits,
                                    .n_bounds = 1 };
    const char *name = "f";
    struct metric *m = metric_series(metric_declare(&def), &name);
    const struct metric_exemplar one = { ONE, 1000000000 };

    metric_set_subjects(METRIC_OF_RUNNER, 0);
    metric_observe_of(m, 1, &one);
    has(page(), "fn_of_bucket{fn=\"other\",le=\"1.0\"} 1\n");
    metric_set_subjects(METRIC_OF_RUNNER, 1);
    metric_observe(m, 1);
    has(page(), "fn_of_bucket{fn=\"f\",le=\"1.0\"} 1 # {trace_id=\"" ONE "\"} 1 1.000\n");
    metric_set_subjects(METRIC_OF_RUNNER, 0);
    metric_release(m);
    has(page(), "fn_of_bucket{fn=\"other\",le=\"1.0\"} 1\n");
    has_not(page(), "fn=\"f\"");
}
END_TEST

/* One more than `max` makes up labels; pages stay bounded and say so. */
START_TEST(series_are_limited)
{
    static const char *const labels[] = { "l", NULL };
    char name[32], value[16];
    const char *values[] = { value };
    struct metric_def def = {
        .name = name, .help = "H.", .kind = METRIC_COUNTER, .labels = labels
    };

    has(page(), "fn_metrics_refused_series_total 0\n");
    for (int f = 0; f <= METRIC_PAGE_SERIES_MAX / METRIC_SERIES_MAX; f++) {
        snprintf(name, sizeof(name), "fn_f%d_total", f);
        for (int i = 0; i < METRIC_SERIES_MAX; i++) {
            snprintf(value, sizeof(value), "%d", i);
            metric_add(metric_series(metric_declare(&def), values), 1);
        }
        if (f == 0) {
            snprintf(value, sizeof(value), "more");
            metric_add(metric_series(metric_declare(&def), values), 7);
            has(page(), "fn_f0_total{l=\"other\"} 7\n");
            has(page(), "fn_metrics_refused_series_total 1\n");
        }
    }
    has_not(page(), "more");
    has(page(), "fn_f20_total{l=\"other\"} 1000\n"); /* the page is full */
    metric_add(metric_simple("fn_one", METRIC_COUNTER, "Alone."), 3);
    has(page(), "fn_one 3\n");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("openmetrics");
    TCase *t = tcase_create("openmetrics");
    SRunner *r;
    int failed;

    tcase_add_test(t, types_and_names);
    tcase_add_test(t, units_are_true);
    tcase_add_loop_test(t, bounds_look_like_floats, 0, (int)(sizeof(bounds) / sizeof(bounds[0])));
    tcase_add_test(t, exemplars_stand_in_their_bucket);
    tcase_add_test(t, an_exemplar_waits_for_its_count);
    tcase_add_test(t, folded_functions_keep_their_exemplars);
    tcase_add_test(t, series_are_limited);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
