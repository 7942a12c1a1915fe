/* The base room: memory, texts, headers, bodies, errors, log lines, metrics. */
#include <base/addr.h>
#include <base/arena.h>
#include <base/body.h>
#include <base/buf.h>
#include <base/err.h>
#include <base/headers.h>
#include <base/log.h>
#include <base/metric.h>
#include <base/share.h>
#include <base/url.h>
#include <base/utf8.h>
#include <base/view.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct {
    const char *text;
    const char *host; /* as it is printed */
    int port;
    const char *path;
    bool everywhere, local;
} good[] = {
    { ":8080", "", 8080, NULL, true, false },
    { "0.0.0.0:80", "0.0.0.0", 80, NULL, true, false },
    { "[::]:0", "[::]", 0, NULL, true, false },
    { "[::1]:65535", "[::1]", 65535, NULL, false, true },
    { "[fe80::1%eth0]:9190", "[fe80::1%eth0]", 9190, NULL, false, false },
    { "127.0.0.2:1", "127.0.0.2", 1, NULL, false, true },
    { "127.evil.example:1", "127.evil.example", 1, NULL, false, false },
    { "localhost:08", "localhost", 8, NULL, false, true },
    { "runner-1.example:9190", "runner-1.example", 9190, NULL, false, false },
    { "unix:/run/fnd/a:b.sock", "", 0, "/run/fnd/a:b.sock", false, true },
};

START_TEST(test_addr_has_four_forms)
{
    char host[ADDR_HOST_MAX + 3];
    struct addr a;

    ck_assert_int_eq(addr_parse(good[_i].text, &a), 0);
    addr_print_host(&a, host);
    ck_assert_str_eq(host, good[_i].host);
    ck_assert_uint_eq(addr_port(&a), good[_i].port);
    ck_assert_pstr_eq(a.path, good[_i].path);
    ck_assert_int_eq(addr_is_everywhere(&a), good[_i].everywhere);
    ck_assert_int_eq(addr_is_local(&a), good[_i].local);
}
END_TEST

#define LABEL "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *const bad[] = {
    "",
    "80",
    "host",
    "host:",
    "host:x",
    "host:1x",
    "host:-1",
    "host:65536",
    "host:999999",
    "a:b:80",
    "::1:80",
    "[::1]",
    "[]:80",
    "[host]:80",
    "[unix]:80",
    "[::1:80",
    "::1]:80",
    "a b:80",
    "a/b:80",
    "host: 80",
    "unix:",
    "unix:/",
    "unix:here",
    "tcp://a:80",
    LABEL LABEL LABEL LABEL ":80",
};

START_TEST(test_addr_is_refused)
{
    struct addr a;

    ck_assert_int_eq(addr_parse(bad[_i], &a), FN_E_INVALID);
}
END_TEST

START_TEST(test_arena_allocations_are_zeroed_aligned_and_stay)
{
    struct arena a;
    char *texts[200];

    arena_init(&a, 0);
    for (int i = 0; i < 200; i++) {
        char *p = arena_alloc(&a, 37);

        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        for (int k = 0; k < 37; k++) {
            ck_assert_int_eq(p[k], 0);
        }
        memset(p, 0xff, 37);
        texts[i] = arena_printf(&a, "text %d", i);
    }
    for (int i = 0; i < 200; i++) {
        char expected[32];

        snprintf(expected, sizeof(expected), "text %d", i);
        ck_assert_str_eq(texts[i], expected);
    }
    ck_assert_str_eq(arena_strndup(&a, "abcdef", 3), "abc");
    ck_assert_str_eq(arena_strdup(&a, ""), "");
    arena_finish(&a);
    ck_assert_uint_eq(a.used_bytes, 0);
}
END_TEST

START_TEST(test_arena_limit_refuses)
{
    struct arena a;

    arena_init(&a, 4096);
    ck_assert_ptr_nonnull(arena_alloc(&a, 3000));
    ck_assert_ptr_null(arena_alloc(&a, 2000));
    ck_assert_ptr_null(arena_printf(&a, "%3000s", "x"));
    arena_finish(&a);
}
END_TEST

START_TEST(test_buf_grows_up_to_its_limit)
{
    struct buf b = BUF_INIT(1000);

    ck_assert_str_eq(buf_text(&b), "");
    ck_assert_int_eq(buf_add_str(&b, "hello "), 0);
    ck_assert_int_eq(buf_printf(&b, "%d", 42), 0);
    ck_assert_str_eq(buf_text(&b), "hello 42");
    while (buf_add(&b, "xxxxxxxx", 8) == 0) {
        ck_assert_uint_le(b.len, 1000);
    }
    ck_assert_uint_eq(b.len, 1000);
    ck_assert_int_eq(buf_add(&b, "y", 1), FN_E_EXHAUSTED);
    ck_assert_uint_eq(strlen(buf_text(&b)), 1000);
    buf_consume(&b, 6);
    ck_assert_int_eq(strncmp(buf_text(&b), "42xx", 4), 0);
    buf_consume(&b, 5000);
    ck_assert_uint_eq(b.len, 0);
    ck_assert_ptr_null(buf_reserve(&b, SIZE_MAX));
    buf_finish(&b);
}
END_TEST

START_TEST(test_buf_takes_the_rest_of_pieces)
{
    const struct iovec pieces[] = { { (char *)"abc", 3 }, { NULL, 0 }, { (char *)"def", 3 } };
    struct buf b = BUF_INIT(4);

    for (size_t done = 6; done >= 2; done--) {
        buf_clear(&b);
        ck_assert_int_eq(buf_add_rest(&b, pieces, 3, done), 0);
        ck_assert(strcmp(buf_text(&b), &"abcdef"[done]) == 0); /* gcc 12 crashes over it in a format */
    }
    buf_clear(&b);
    ck_assert_int_eq(buf_add_rest(&b, pieces, 3, 1), FN_E_EXHAUSTED);
    buf_finish(&b);
}
END_TEST

START_TEST(test_headers_compare_without_case)
{
    struct arena a;
    struct headers h;

    arena_init(&a, 0);
    headers_init(&h, &a);
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(headers_add(&h, "X-Many", "v"), 0);
    }
    headers_add(&h, "Content-Type", "text/plain");
    headers_add_n(&h, "Acceptable", 6, "anything", 3);
    ck_assert_str_eq(headers_get(&h, "content-type"), "text/plain");
    ck_assert_str_eq(headers_get(&h, "ACCEPT"), "any");
    ck_assert_int_eq(headers_set(&h, "x-many", "one"), 0);
    ck_assert_uint_eq(h.n, 3);
    ck_assert_str_eq(headers_get(&h, "X-Many"), "one");
    ck_assert(headers_remove(&h, "X-MANY"));
    ck_assert(!headers_remove(&h, "X-MANY"));
    ck_assert_ptr_null(headers_get(&h, "X-Many"));
    arena_finish(&a);
}
END_TEST

START_TEST(test_headers_report_exhaustion)
{
    struct arena a;
    struct headers h;
    int r = 0;

    arena_init(&a, 4096);
    headers_init(&h, &a);
    for (int i = 0; i < 1000 && r == 0; i++) {
        r = headers_add(&h, "Name", "a value of some length");
    }
    ck_assert_int_eq(r, FN_E_EXHAUSTED);
    arena_finish(&a);
}
END_TEST

START_TEST(test_body_is_charged_to_its_budget)
{
    struct budget budget = { .limit_bytes = 100 };
    struct body *one = body_create(&budget, 60);
    struct body *two = body_create(&budget, 60);
    char data[64] = { 0 };

    ck_assert_int_eq(body_append(one, data, 50), 0);
    ck_assert_int_eq(body_append(one, data, 11), FN_E_RANGE);
    ck_assert_int_eq(body_append(two, data, 51), FN_E_EXHAUSTED);
    ck_assert_int_eq(body_append(two, data, 50), 0);
    ck_assert_uint_eq(budget.used_bytes, 100);
    body_ref(one);
    body_unref(one);
    ck_assert_uint_eq(budget.used_bytes, 100);
    body_unref(one);
    ck_assert_uint_eq(budget.used_bytes, 50);
    body_unref(two);
    ck_assert_uint_eq(budget.used_bytes, 0);
    body_unref(NULL);
}
END_TEST

START_TEST(test_errors_carry_code_text_and_status)
{
    struct fn_error e;
    char text[600];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ck_assert_int_eq(err_set(&e, FN_E_UNAVAILABLE, "runner %s is down", "r1"), FN_E_UNAVAILABLE);
    ck_assert_str_eq(e.msg, "runner r1 is down");
    ck_assert_uint_eq(e.size, sizeof(e));
    ck_assert_int_eq(err_http_status(&e), 503);
    ck_assert_int_eq(err_set(NULL, FN_E_INVALID, "nobody listens"), FN_E_INVALID);
    err_set(&e, FN_E_INTERNAL, "%s", text);
    ck_assert_uint_lt(strlen(e.msg), FN_ERROR_TEXT_MAX);
    err_set_http(&e, FN_E_UNKNOWN, 502, FN_BLAME_USER, "bad");
    ck_assert_int_eq(err_http_status(&e), 502);
    ck_assert_uint_eq(e.blame, FN_BLAME_USER);
    ck_assert_str_eq(err_name(FN_E_DEADLINE), "DEADLINE_EXCEEDED");
    ck_assert_str_eq(err_name(-99), "UNKNOWN");
    ck_assert_int_eq(err_from_errno(ENOENT), FN_E_NOT_FOUND);
    ck_assert_int_eq(err_from_errno(EADDRINUSE), FN_E_UNAVAILABLE);
}
END_TEST

START_TEST(test_error_texts_end_with_a_whole_character)
{
    static const char *const characters[] = { "x", "\xc3\xa4", "\xe2\x82\xac",
                                              "\xf0\x9f\x98\x80" };
    struct fn_error e;
    char text[2 * FN_ERROR_TEXT_MAX];

    for (size_t shift = 0; shift < 4; shift++) {
        for (size_t k = 0; k < 4; k++) {
            size_t len = strlen(characters[k]);
            size_t n = shift;

            memset(text, 'a', shift);
            while (n + len < sizeof(text)) {
                memcpy(text + n, characters[k], len);
                n += len;
            }
            text[n] = '\0';
            err_set(&e, FN_E_INTERNAL, "%s", text);
            ck_assert_uint_eq((strlen(e.msg) - shift) % len, 0);
            ck_assert_uint_gt(strlen(e.msg), sizeof(e.msg) - 1 - len);
            ck_assert_int_eq(memcmp(e.msg, text, strlen(e.msg)), 0);
        }
    }
    memset(text, 0xbf, sizeof(text) - 1); /* no UTF-8: cut anywhere, but cut */
    text[sizeof(text) - 1] = '\0';
    err_set(&e, FN_E_INTERNAL, "%s", text);
    ck_assert_uint_eq(strlen(e.msg), sizeof(e.msg) - 1);
}
END_TEST

START_TEST(test_no_error_is_a_success)
{
    for (int code = -40; code <= 40; code++) {
        for (int status = -1; status < 700; status += 100) {
            struct fn_error e = { .code = code, .http_status = status };

            ck_assert_int_ge(err_http_status(&e), 300);
            ck_assert_int_le(err_http_status(&e), 599);
        }
    }
}
END_TEST

/* ---- log ------------------------------------------------------------------------------------ */

static int log_fd;

static int64_t fixed_wall_ns(void)
{
    return 1795234335LL * 1000000000 + 123456789; /* 2026-11-21T04:12:15Z */
}

static void log_start(enum log_format format, uint32_t level)
{
    struct log_config config = { .level = level, .format = format, .wall_ns = fixed_wall_ns };

    log_fd = memfd_create("log", MFD_CLOEXEC);
    config.fd = log_fd;
    log_setup(&config);
}

/* What was logged since log_start(). */
static const char *log_take(void)
{
    static char text[4 * LOG_LINE_MAX];
    ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    close(log_fd);
    return text;
}

START_TEST(test_log_text_line)
{
    log_start(LOG_TEXT, FN_LOG_INFO);
    log_info("call finished", "call_id", "01H8", "missing", NULL, "empty", "", "n", log_num(-7));
    log_debug("not written", "a", "b");
    ck_assert_str_eq(log_take(), "time=\"2026-11-21T04:12:15Z\" level=info msg=\"call finished\" "
                                 "call_id=01H8 empty=\"\" n=-7\n");
}
END_TEST

START_TEST(test_log_json_line)
{
    log_start(LOG_JSON, FN_LOG_WARN);
    log_info("not written");
    log_warn("slow", "call_id", "01H8");
    ck_assert_str_eq(log_take(),
                     "{\"time\":\"2026-11-21T04:12:15.123456789Z\",\"level\":\"warning\","
                     "\"msg\":\"slow\",\"call_id\":\"01H8\"}\n");
}
END_TEST

static const struct {
    const char *value;
    const char *text;
    const char *json;
} escapes[] = {
    { "a\r\nlevel=error", "\"a\\r\\nlevel=error\"", "\"a\\r\\nlevel=error\"" },
    { "\x1b[31mred", "\"\\x1b[31mred\"", "\"\\u001b[31mred\"" },
    { "say \"hi\" \\o/", "\"say \\\"hi\\\" \\\\o/\"", "\"say \\\"hi\\\" \\\\o/\"" },
    { "\t\x7f", "\"\\t\\x7f\"", "\"\\t\\u007f\"" },
    { "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"",
      "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"" },
    { "\xc2\x85"
      "next",
      "\"\\u0085next\"", "\"\\u0085next\"" },
    { "rtl\xe2\x80\xae", "\"rtl\\u202e\"", "\"rtl\\u202e\"" },
    { "bad \xff\xc0\x80 \xed\xa0\x80", "\"bad \\xff\\xc0\\x80 \\xed\\xa0\\x80\"",
      "\"bad \\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\\ufffd\"" },
    { "cut \xe2\x82", "\"cut \\xe2\\x82\"", "\"cut \\ufffd\\ufffd\"" },
    { "a/b.c@d^e+f_g-h", "a/b.c@d^e+f_g-h", "\"a/b.c@d^e+f_g-h\"" },
    { "k=v", "\"k=v\"", "\"k=v\"" },
};

START_TEST(test_log_escapes_foreign_text)
{
    char expected[300];
    const char *line;

    for (int json = 0; json <= 1; json++) {
        log_start(json ? LOG_JSON : LOG_TEXT, FN_LOG_INFO);
        log_info(escapes[_i].value, "v", escapes[_i].value);
        line = log_take();
        if (json) {
            snprintf(expected, sizeof(expected), "\"v\":%s}\n", escapes[_i].json);
        } else {
            snprintf(expected, sizeof(expected), " v=%s\n", escapes[_i].text);
        }
        ck_assert_msg(strlen(line) > strlen(expected) &&
                          strcmp(line + strlen(line) - strlen(expected), expected) == 0,
                      "got %s, expected it to end with %s", line, expected);
        ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
    }
}
END_TEST

START_TEST(test_log_cuts_long_lines)
{
    static char value[2 * LOG_LINE_MAX];

    /* Every length near the limit, in both formats: the line stays whole and within bounds. */
    for (size_t n = LOG_LINE_MAX - 200; n < LOG_LINE_MAX + 10; n++) {
        for (int json = 0; json <= 1; json++) {
            const char *line;
            size_t len;

            memset(value, n % 2 ? 'x' : '"', n);
            value[n] = '\0';
            log_start(json ? LOG_JSON : LOG_TEXT, FN_LOG_INFO);
            log_info("long", "v", value, "last", "two words", "and", "more");
            line = log_take();
            len = strlen(line);
            ck_assert_uint_le(len, LOG_LINE_MAX);
            ck_assert_int_eq(line[len - 1], '\n');
            if (json) {
                ck_assert_str_eq(line + len - 3, "\"}\n");
            }
            if (n >= LOG_LINE_MAX) {
                ck_assert_str_eq(line + len - (json ? 6 : 5), json ? "...\"}\n" : "...\"\n");
            }
        }
    }
}
END_TEST

START_TEST(test_log_numbers_rotate)
{
    const char *first = log_num(0);
    const char *text[15];

    for (int i = 0; i < 15; i++) {
        text[i] = log_num(INT64_MIN + i);
    }
    ck_assert_str_eq(first, "0");
    ck_assert_str_eq(text[0], "-9223372036854775808");
    ck_assert_str_eq(text[14], "-9223372036854775794");
}
END_TEST

START_TEST(test_log_levels_have_the_words_of_go_fn)
{
    static const struct {
        const char *word;
        uint32_t level;
    } rows[] = {
        { "panic", FN_LOG_ERROR },
        { "FATAL", FN_LOG_ERROR },
        { "error", FN_LOG_ERROR },
        { "warn", FN_LOG_WARN },
        { "info", FN_LOG_INFO },
        { "debug", FN_LOG_DEBUG },
        { "trace", FN_LOG_DEBUG },
        { "loud", 0 },
        { "", 0 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t level = 0;

        ck_assert_int_eq(log_level_parse(rows[i].word, &level), rows[i].level ? 0 : FN_E_INVALID);
        ck_assert_uint_eq(level, rows[i].level);
    }
}
END_TEST

START_TEST(test_log_gate_counts_what_it_swallows)
{
    struct log_gate gate = { 0 };
    uint32_t suppressed = 99;

    ck_assert(log_gate_open(&gate, 1000, 100, 2, &suppressed));
    ck_assert_uint_eq(suppressed, 0);
    ck_assert(log_gate_open(&gate, 1010, 100, 2, &suppressed));
    ck_assert(!log_gate_open(&gate, 1020, 100, 2, &suppressed));
    ck_assert(!log_gate_open(&gate, 1099, 100, 2, &suppressed));
    ck_assert(log_gate_open(&gate, 1100, 100, 2, &suppressed));
    ck_assert_uint_eq(suppressed, 2);
    ck_assert(log_gate_open(&gate, 1101, 100, 2, &suppressed));
    ck_assert_uint_eq(suppressed, 0);
}
END_TEST

static void tell_stranger(const char *name)
{
    log_stranger(FN_LOG_INFO, "no such function", "name", name);
}

/* A minute later, when the window is another one. */
static int64_t later_wall_ns(void)
{
    return fixed_wall_ns() + 60LL * 1000000000;
}

START_TEST(test_log_of_strangers_is_limited_and_told)
{
    int64_t before = metric_value(metric_simple("fn_log_suppressed_lines", METRIC_COUNTER, ""));
    struct log_config later = { .level = FN_LOG_INFO, .wall_ns = later_wall_ns };
    const char *text;
    size_t lines = 0;

    log_start(LOG_TEXT, FN_LOG_INFO);
    for (int i = 0; i < LOG_GATE_LINES + 41; i++) {
        tell_stranger(i == 0 ? "first" : "x");
    }
    log_stranger(FN_LOG_INFO, "another kind");
    later.fd = log_fd;
    log_setup(&later);
    tell_stranger("last");
    text = log_take();
    for (const char *at = text; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    ck_assert_uint_eq(lines, LOG_GATE_LINES + 2);
    ck_assert_ptr_nonnull(strstr(text, "msg=\"another kind\"\n"));
    ck_assert_ptr_nonnull(strstr(text, "msg=\"no such function\" suppressed=41 name=last\n"));
    ck_assert_int_eq(metric_value(metric_simple("fn_log_suppressed_lines", METRIC_COUNTER, "")),
                     before + 41);
}
END_TEST

START_TEST(test_debug_lines_are_not_limited)
{
    size_t lines = 0;
    const char *text;

    log_start(LOG_TEXT, FN_LOG_DEBUG);
    for (int i = 0; i < LOG_GATE_LINES * 2; i++) {
        log_stranger(FN_LOG_DEBUG, "x");
    }
    text = log_take();
    for (const char *at = text; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    ck_assert_uint_eq(lines, LOG_GATE_LINES * 2);
}
END_TEST

/* ---- metric --------------------------------------------------------------------------------- */

/* The page, but for what it says of itself at its end. */
static char *metrics_text(void)
{
    static struct buf out;
    char *text, *own;

    buf_finish(&out);
    ck_assert_int_eq(metric_print(&out), 0);
    text = (char *)(uintptr_t)buf_text(&out);
    own = strstr(text, "# HELP fn_metrics_refused_series_total ");
    ck_assert_ptr_nonnull(own);
    *own = '\0';
    return text;
}

START_TEST(test_metric_counter_and_gauge)
{
    struct metric *calls = metric_simple("fn_calls", METRIC_COUNTER, "Calls received.");
    struct metric *used = metric_simple("fn_mem_used", METRIC_GAUGE, "Memory in use, bytes.");

    ck_assert_ptr_eq(calls, metric_simple("fn_calls", METRIC_COUNTER, "again"));
    metric_add(calls, 3);
    metric_add(calls, 39);
    metric_set(used, 5000000000);
    metric_add(used, -1);
    ck_assert_int_eq(metric_value(calls), 42);
    ck_assert_str_eq(metrics_text(), "# HELP fn_calls Calls received.\n# TYPE fn_calls counter\n"
                                     "fn_calls 42\n# HELP fn_mem_used Memory in use, bytes.\n"
                                     "# TYPE fn_mem_used gauge\nfn_mem_used 4999999999\n");
}
END_TEST

START_TEST(test_metric_histogram_text_and_scale)
{
    static const char *const labels[] = { "path", NULL };
    static const double bounds[] = { 1, 10, 0.5e3 };
    struct metric_def def = { .name = "fn_latency",
                              .help = "Latency in ms.",
                              .kind = METRIC_HISTOGRAM,
                              .labels = labels,
                              .bounds = bounds,
                              .n_bounds = 3,
                              .scale = 1e-6 };
    struct metric_family *f = metric_declare(&def);
    const char *values[] = { "/a\"\\\n\x1b" };
    struct metric *m = metric_series(f, values);

    metric_observe(m, 10000000); /* equal to a bound: belongs to that bucket */
    metric_observe(m, 10000001);
    metric_observe(m, 500000);
    metric_observe(m, 900000000);
    ck_assert_int_eq(metric_value(m), 4);
    ck_assert_str_eq(metrics_text(),
                     "# HELP fn_latency Latency in ms.\n# TYPE fn_latency histogram\n"
                     "fn_latency_bucket{path=\"/a\\\"\\\\\\n?\",le=\"1\"} 1\n"
                     "fn_latency_bucket{path=\"/a\\\"\\\\\\n?\",le=\"10\"} 2\n"
                     "fn_latency_bucket{path=\"/a\\\"\\\\\\n?\",le=\"500\"} 3\n"
                     "fn_latency_bucket{path=\"/a\\\"\\\\\\n?\",le=\"+Inf\"} 4\n"
                     "fn_latency_sum{path=\"/a\\\"\\\\\\n?\"} 920.500001\n"
                     "fn_latency_count{path=\"/a\\\"\\\\\\n?\"} 4\n");
}
END_TEST

START_TEST(test_metric_series_are_bounded)
{
    static const char *const labels[] = { "app", "fn", NULL };
    struct metric_def def = {
        .name = "fn_many", .help = "Many.", .kind = METRIC_COUNTER, .labels = labels
    };
    struct metric_family *f = metric_declare(&def);
    struct metric *first = NULL;
    struct metric *over = NULL;

    for (int i = 0; i < METRIC_SERIES_MAX + 50; i++) {
        char name[32];
        const char *values[] = { name, NULL };
        struct metric *m;

        snprintf(name, sizeof(name), "app%d", i);
        m = metric_series(f, values);
        metric_add(m, 1);
        first = i == 0 ? m : first;
        over = i == METRIC_SERIES_MAX ? m : over;
    }
    ck_assert_int_eq(metric_value(over), 50);
    ck_assert_int_eq(metric_value(first), 1);
    ck_assert_ptr_eq(metric_series(f, (const char *const[]){ "app0", "" }), first);
    ck_assert_ptr_eq(metric_series(f, (const char *const[]){ "new", "new" }), over);
    ck_assert_ptr_nonnull(strstr(metrics_text(), "fn_many{app=\"other\",fn=\"other\"} 50\n"));
}
END_TEST

START_TEST(test_metric_values_do_not_run_together)
{
    static const char *const labels[] = { "a", "b", NULL };
    struct metric_def def = {
        .name = "fn_pair", .help = "Pairs.", .kind = METRIC_COUNTER, .labels = labels
    };
    struct metric_family *f = metric_declare(&def);

    ck_assert_ptr_ne(metric_series(f, (const char *const[]){ "xy", "z" }),
                     metric_series(f, (const char *const[]){ "x", "yz" }));
}
END_TEST

START_TEST(test_metric_without_events_prints_nothing)
{
    static const char *const labels[] = { "a", NULL };
    struct metric_def def = {
        .name = "fn_quiet", .help = "Quiet.", .kind = METRIC_COUNTER, .labels = labels
    };

    metric_declare(&def);
    ck_assert_str_eq(metrics_text(), "");
}
END_TEST

/* ---- view: structs of plugins that know less or more than the host ------------------------------ */

struct view_1_0 {
    uint32_t size, a;
};
struct view_1_1 {
    uint32_t size, a;
    uint64_t b;
};

START_TEST(test_view_takes_what_both_sides_know)
{
    const struct view_1_0 old = { sizeof(old), 7 };
    const struct view_1_1 quiet = { sizeof(quiet), 7, 0 };
    const struct view_1_1 loud = { sizeof(loud), 7, 1u << 31 };
    const struct view_1_0 small = { 7, 7 };
    const struct view_1_0 garbage = { 0x80000000u, 7 };
    struct view_1_1 host = { 0, 0, 99 };
    struct view_1_0 old_host;

    ck_assert_int_eq(view_take(&host, sizeof(host), &old, sizeof(old)), 0);
    ck_assert_uint_eq(host.size, sizeof(host));
    ck_assert_uint_eq(host.a, 7);
    ck_assert_uint_eq(host.b, 0);
    ck_assert_int_eq(view_take(&old_host, sizeof(old_host), &quiet, sizeof(old)), 0);
    ck_assert_uint_eq(old_host.size, sizeof(old_host));
    ck_assert_int_eq(view_take(&old_host, sizeof(old_host), &loud, sizeof(old)),
                     FN_E_UNIMPLEMENTED);
    ck_assert_int_eq(view_take(&host, sizeof(host), &small, sizeof(old)), FN_E_INVALID);
    ck_assert_int_eq(view_take(&host, sizeof(host), &garbage, sizeof(old)), FN_E_INVALID);
    ck_assert_int_eq(view_take(&host, sizeof(host), NULL, sizeof(old)), FN_E_INVALID);
}
END_TEST

START_TEST(test_view_gives_no_byte_beyond_the_size)
{
    const struct view_1_1 got = { sizeof(got), 7, 8 };
    struct view_1_1 mine = { sizeof(struct view_1_0), 0, 99 };

    ck_assert_int_eq(view_can_give(NULL, 8), FN_E_INVALID);
    ck_assert_int_eq(view_can_give(&(struct view_1_0){ 0, 0 }, 8), FN_E_INVALID);
    ck_assert_int_eq(view_can_give(&mine, 8), 0);
    view_give(&mine, &got, sizeof(got));
    ck_assert_uint_eq(mine.size, sizeof(struct view_1_0));
    ck_assert_uint_eq(mine.a, 7);
    ck_assert_uint_eq(mine.b, 99);
    mine.size = sizeof(mine);
    view_give(&mine, &got, sizeof(got));
    ck_assert_uint_eq(mine.b, 8);
}
END_TEST

static const struct {
    const char *text;
    uint32_t len; /* 0: no UTF-8 */
    uint32_t code;
} sequences[] = {
    { "a", 1, 'a' },
    { "\x7f", 1, 0x7f },
    { "\x80", 0, 0 },                 /* a tail without its head */
    { "\xc1\xbf", 0, 0 },             /* U+007F, overlong */
    { "\xc2\x80", 2, 0x80 },
    { "\xdf\xbf", 2, 0x7ff },
    { "\xc3(", 0, 0 },
    { "\xe0\x9f\xbf", 0, 0 },         /* U+07FF, overlong */
    { "\xe0\xa0\x80", 3, 0x800 },
    { "\xed\x9f\xbf", 3, 0xd7ff },
    { "\xed\xa0\x80", 0, 0 },         /* the first surrogate */
    { "\xed\xbf\xbf", 0, 0 },         /* and the last one */
    { "\xee\x80\x80", 3, 0xe000 },
    { "\xef\xbf\xbf", 3, 0xffff },
    { "\xe2\x82", 0, 0 },             /* cut */
    { "\xe2\x82(", 0, 0 },
    { "\xf0\x8f\xbf\xbf", 0, 0 },     /* U+FFFF, overlong */
    { "\xf0\x90\x80\x80", 4, 0x10000 },
    { "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
    { "\xf4\x90\x80\x80", 0, 0 },     /* U+110000 */
    { "\xf5\x80\x80\x80", 0, 0 },
    { "\xf8\x88\x80\x80\x80", 0, 0 }, /* five bytes */
    { "\xff", 0, 0 },
};

START_TEST(test_share_holders_live_while_they_are_used)
{
    struct share_holder *list = NULL;
    struct share_holder *a = share_join(&list, "a");
    struct share_holder *none = share_join(&list, "");

    ck_assert_ptr_eq(share_join(&list, "a"), a);
    ck_assert_ptr_ne(none, a);
    a->bytes = 7;
    share_leave(&list, a);
    ck_assert_uint_eq(share_join(&list, "a")->bytes, 7);
    share_leave(&list, a);
    share_leave(&list, a);
    a = share_join(&list, "a");
    ck_assert_uint_eq(a->bytes, 0);
    share_leave(&list, a);
    share_leave(&list, none);
    ck_assert_ptr_null(list);
}
END_TEST

START_TEST(test_utf8_copy)
{
    static const char whole[] = "0123456789ab\xc3\xa9 and as much again";
    char to[8], text[sizeof(whole)];

    utf8_copy(to, sizeof(to), "caf\xc3\xa9");
    ck_assert_str_eq(to, "caf\xc3\xa9");
    utf8_copy(to, sizeof(to), "123456\xc3\xa9"); /* would be cut in its middle */
    ck_assert_str_eq(to, "123456");
    utf8_copy(to, sizeof(to), "a\xffz\xc3");
    ck_assert_str_eq(to, "a?z?");
    utf8_copy(to, 1, "a");
    ck_assert_str_eq(to, "");
    for (size_t cut = 1; cut <= sizeof(whole); cut++) { /* eight at a time, and the rest */
        size_t len = utf8_copy(text, cut, whole);

        ck_assert_uint_eq(len, cut - 1 == 13 ? 12 : cut - 1);
        ck_assert_uint_eq(strlen(text), len);
        ck_assert_int_eq(memcmp(text, whole, len), 0);
    }
}
END_TEST

START_TEST(test_utf8_what_a_terminal_may_be_given)
{
    static const char text[] = "a\x1b\xc2\x9b\xc2\x9d\xc3\xa9\x9b\x7f\xe2\x80\xae\xe2\x82\xac";
    char seen[16] = "", *at = seen;
    bool plain;

    for (const char *p = text; *p; *at++ = plain ? '+' : '-') {
        p += utf8_next(p, text + sizeof(text) - 1, &plain);
    }
    ck_assert_str_eq(seen, "+---+---+");
}
END_TEST

START_TEST(test_utf8_is_the_rfc_s)
{
    const char *text = sequences[_i].text;
    uint32_t len = utf8_sequence(text, text + strlen(text));

    ck_assert_uint_eq(len, sequences[_i].len);
    if (len > 0) {
        ck_assert_uint_eq(utf8_code(text, len), sequences[_i].code);
    }
    if (len > 1) {
        ck_assert_uint_eq(utf8_sequence(text, text + len - 1), 0); /* nothing is read behind it */
    }
}
END_TEST

static const struct {
    const char *text, *host, *rest; /* host NULL: it is none */
    bool user, http;
} urls[] = {
    { "http://a:80/x?y#z", "a:80", "/x?y#z", false, true },
    { "https://[::1]:443", "[::1]:443", "", false, true },
    { "tcp://u:p@h:514", "h:514", "", true, false },
    { "http://u@x:y@h/p@q", "h", "/p@q", true, true }, /* the last one before the path */
    { "http://h?@other", "h", "?@other", false, true },
    { "http://h#@other", "h", "#@other", false, true },
    { "http://", "", "", false, true },
    { "httpx://h", "h", "", false, false },
    { "://h", "h", "", false, false },
    { "h:80", NULL, NULL, false, false },
};

START_TEST(test_url_is_cut_at_its_parts)
{
    struct url u;

    ck_assert_int_eq(url_split(urls[_i].text, &u), urls[_i].host != NULL);
    if (urls[_i].host) {
        ck_assert_uint_eq(u.host_len, strlen(urls[_i].host));
        ck_assert_int_eq(strncmp(u.host, urls[_i].host, u.host_len), 0);
        ck_assert_str_eq(u.rest, urls[_i].rest);
        ck_assert_int_eq(u.host != u.begin, urls[_i].user);
        ck_assert_int_eq(url_is_http(&u), urls[_i].http);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("memory");
    SRunner *runner;
    int failed;

    tcase_add_test(t, test_arena_allocations_are_zeroed_aligned_and_stay);
    tcase_add_test(t, test_arena_limit_refuses);
    tcase_add_test(t, test_buf_grows_up_to_its_limit);
    tcase_add_test(t, test_buf_takes_the_rest_of_pieces);
    tcase_add_test(t, test_headers_compare_without_case);
    tcase_add_test(t, test_headers_report_exhaustion);
    tcase_add_test(t, test_body_is_charged_to_its_budget);
    tcase_add_test(t, test_errors_carry_code_text_and_status);
    tcase_add_test(t, test_error_texts_end_with_a_whole_character);
    tcase_add_test(t, test_no_error_is_a_success);
    tcase_add_test(t, test_view_takes_what_both_sides_know);
    tcase_add_test(t, test_view_gives_no_byte_beyond_the_size);
    tcase_add_test(t, test_utf8_copy);
    tcase_add_test(t, test_utf8_what_a_terminal_may_be_given);
    tcase_add_loop_test(t, test_utf8_is_the_rfc_s, 0,
                        (int)(sizeof(sequences) / sizeof(sequences[0])));
    suite_add_tcase(s, t);
    t = tcase_create("addr");
    tcase_add_loop_test(t, test_addr_has_four_forms, 0, (int)(sizeof(good) / sizeof(good[0])));
    tcase_add_loop_test(t, test_addr_is_refused, 0, (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_loop_test(t, test_url_is_cut_at_its_parts, 0, (int)(sizeof(urls) / sizeof(urls[0])));
    suite_add_tcase(s, t);
    t = tcase_create("log");
    tcase_add_test(t, test_log_text_line);
    tcase_add_test(t, test_log_json_line);
    tcase_add_loop_test(t, test_log_escapes_foreign_text, 0,
                        (int)(sizeof(escapes) / sizeof(escapes[0])));
    tcase_add_test(t, test_log_cuts_long_lines);
    tcase_add_test(t, test_log_numbers_rotate);
    tcase_add_test(t, test_log_levels_have_the_words_of_go_fn);
    tcase_add_test(t, test_log_gate_counts_what_it_swallows);
    tcase_add_test(t, test_log_of_strangers_is_limited_and_told);
    tcase_add_test(t, test_debug_lines_are_not_limited);
    suite_add_tcase(s, t);
    t = tcase_create("metric");
    tcase_add_test(t, test_metric_counter_and_gauge);
    tcase_add_test(t, test_metric_histogram_text_and_scale);
    tcase_add_test(t, test_metric_series_are_bounded);
    tcase_add_test(t, test_metric_values_do_not_run_together);
    tcase_add_test(t, test_share_holders_live_while_they_are_used);
    tcase_add_test(t, test_metric_without_events_prints_nothing);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
