/* Accept: which format a scraper gets. */
#include <web/accept.h>

#include <check.h>
#include <stdlib.h>

#define PROMETHEUS_2_42                                                                            \
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"       \
    "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
#define PROMETHEUS_3                                                                               \
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"                       \
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;"                   \
    "escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
#define PROMETHEUS_TEXT_FIRST                                                                      \
    "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"

static const struct {
    const char *accept, *second; /* NULL = no header */
    enum metric_format format;
} rows[] = {
    { NULL, NULL, METRIC_TEXT },
    { "*/*", NULL, METRIC_TEXT },
    { "text/html, application/*;q=0.9, */*;q=0.8", NULL, METRIC_TEXT },
    { PROMETHEUS_2_42, NULL, METRIC_OPENMETRICS },
    { PROMETHEUS_3, NULL, METRIC_OPENMETRICS },
    { PROMETHEUS_TEXT_FIRST, NULL, METRIC_TEXT },
    { "application/openmetrics-text", NULL, METRIC_OPENMETRICS },
    { "Application/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=1.0", NULL, METRIC_OPENMETRICS },
    { "application/openmetrics-text;version=0.0.1,text/plain;q=0.1", NULL, METRIC_TEXT },
    { "application/openmetrics-text;version=2.0.0", NULL, METRIC_TEXT },
    { "application/openmetrics-text;q=0", NULL, METRIC_TEXT },
    { "application/openmetrics-text;q=0.000", NULL, METRIC_TEXT },
    { "application/openmetrics-text;q=0.001", NULL, METRIC_OPENMETRICS },
    { "application/openmetrics-text;q=2", NULL, METRIC_TEXT },
    { "application/openmetrics-text;q=nan", NULL, METRIC_TEXT },
    { "application/openmetrics-text;q=0.5, text/*;q=0.6", NULL, METRIC_TEXT },
    { "application/openmetrics-text;q=0.5, text/*;q=0.6, text/plain;q=0.1", NULL,
      METRIC_OPENMETRICS },
    { "application/openmetrics-text;q=0.5, text/plain;version=1.0.0", NULL, METRIC_OPENMETRICS },
    { "text/plain, application/openmetrics-text", NULL, METRIC_OPENMETRICS },
    { "text/plain;q=0.1", "application/openmetrics-text;q=0.2", METRIC_OPENMETRICS },
    { "application/openmetrics-textual, xapplication/openmetrics-text", NULL, METRIC_TEXT },
    { ",;,=,;q=,;q=1;,/,*", "", METRIC_TEXT },
    { ", ,\tapplication/openmetrics-text\t;;=;q= 0.5 ,", NULL, METRIC_OPENMETRICS },
};

START_TEST(accept_table)
{
    struct arena a;
    struct headers h;

    arena_init(&a, 0);
    headers_init(&h, &a);
    ck_assert_int_eq(headers_add(&h, "X", "application/openmetrics-text"), 0);
    if (rows[_i].accept) {
        ck_assert_int_eq(headers_add(&h, "Accept", rows[_i].accept), 0);
    }
    if (rows[_i].second) {
        ck_assert_int_eq(headers_add(&h, "accept", rows[_i].second), 0);
    }
    ck_assert_int_eq(accept_metrics(&h), rows[_i].format);
    arena_finish(&a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("accept");
    TCase *t = tcase_create("accept");
    SRunner *r;
    int failed;

    tcase_add_loop_test(t, accept_table, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
