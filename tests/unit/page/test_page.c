/* The operator's page without its port: what functions did lately, long tables, the history, and who
 * is let in. */
#include <base/tally.h>
#include <page/guard.h>
#include <page/history.h>
#include <page/look.h>

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/fake_env.h"

#define SECOND 1000000000LL

/* ---- tally ----------------------------------------------------------------------------------- */

static struct tally_row row_of(const struct tally *t, const char *id, int64_t now_ns)
{
    struct tally_row r;

    for (uint32_t i = 0; tally_at(t, i, now_ns, &r); i++) {
        if (strcmp(r.id, id) == 0) {
            return r;
        }
    }
    return (struct tally_row){ .id = NULL };
}

static void count(struct tally *t, const char *id, int64_t took_ms, int64_t now_ns)
{
    const struct tally_end e = { .id = id,
                                 .name = "app/fn",
                                 .took_ns = took_ms * 1000000,
                                 .good = took_ms < 1000,
                                 .cold = took_ms >= 500 };

    tally_count(t, &e, now_ns);
}

START_TEST(percentiles_are_good_to_a_tenth)
{
    struct tally *t = tally_create(4);
    struct tally_row r;

    for (int64_t ms = 1; ms <= 1000; ms++) {
        count(t, "a", ms, 100 * SECOND);
    }
    r = row_of(t, "a", 100 * SECOND);
    ck_assert_int_eq(r.calls, 1000);
    ck_assert_int_eq(r.failed, 1);
    ck_assert_int_eq(r.cold, 501);
    ck_assert(r.p50_us > 440000 && r.p50_us < 560000);
    ck_assert(r.p95_us > 850000 && r.p95_us < 1050000);
    ck_assert(r.p99_us >= r.p95_us && r.p99_us < 1100000);
    tally_destroy(t);
}
END_TEST

START_TEST(what_is_long_ago_counts_no_more)
{
    struct tally *t = tally_create(4);
    struct tally_row r;

    for (int i = 0; i < 100; i++) {
        count(t, "a", 10, 100 * SECOND);
    }
    ck_assert_int_eq(row_of(t, "a", 100 * SECOND).per_hour, 36000);
    ck_assert_int_eq(row_of(t, "a", 115 * SECOND).per_hour, 18000); /* half of its slot is left */
    r = row_of(t, "a", 300 * SECOND);
    ck_assert_int_eq(r.per_hour, 0);
    ck_assert_int_eq(r.p50_us, 0);
    ck_assert_int_eq(r.calls, 100);
    ck_assert_int_eq(r.idle_ns, 200 * SECOND);
    count(t, "a", 10, 300 * SECOND);
    ck_assert_int_eq(row_of(t, "a", 300 * SECOND).per_hour, 360);
    tally_destroy(t);
}
END_TEST

START_TEST(a_function_that_idles_gives_its_place)
{
    struct tally *t = tally_create(8);
    struct tally_row r;
    char id[80];
    uint32_t n = 0;

    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "%070d", i); /* cut to 63: all but the last digits */
        count(t, id + 60, 1, i * SECOND);
        count(t, "busy", 1, i * SECOND);
    }
    while (tally_at(t, n, 1000 * SECOND, &r)) {
        n++;
    }
    ck_assert_uint_eq(n, 8);
    ck_assert_int_eq(row_of(t, "busy", 1000 * SECOND).calls, 1000);
    count(t, NULL, 1, 0);
    count(t, "", 1, 0);
    ck_assert(!tally_at(t, 8, 0, &r));
    tally_destroy(t);
}
END_TEST

/* ---- look ------------------------------------------------------------------------------------ */

/* 10 000 runners, of which those that end with 77 are in trouble. */
#define ROWS 10000u

static uint32_t ended; /* walks */

static void begin(void *ud, struct page_walk *w)
{
    (void)ud;
    *(uint32_t *)(void *)w->space = 0;
}

static bool next(void *ud, struct page_walk *w, struct page_row *ret)
{
    static char id[32]; /* gone with the next row, as those of a node */
    uint32_t *i = (void *)w->space;

    (void)ud;
    if (*i == ROWS) {
        return false;
    }
    snprintf(id, sizeof(id), "Runner-%05u", *i);
    *ret = (struct page_row){ .weight = *i % 100 == 77 ? 1000000 + *i : *i % 50,
                              .texts = { id, *i % 2 ? "up" : NULL },
                              .numbers = { *i } };
    (*i)++;
    return true;
}

static void end(void *ud, struct page_walk *w)
{
    (void)ud;
    (void)w;
    ended++;
}

static const char *const texts[] = { "id", "state", NULL };
static const char *const numbers[] = { "n", NULL };
static const struct page_table table = { .name = "runners",
                                         .texts = texts,
                                         .numbers = numbers,
                                         .shown = 60,
                                         .begin = begin,
                                         .next = next,
                                         .end = end };

static bool done;

static void on_done(struct page_look *l)
{
    (void)l;
    done = true;
}

static json_t *look_for(const char *words, uint32_t max, const struct page_table *t)
{
    struct fake_env *env = fake_env_create();
    struct page_look l = { .env = &env->env, .table = t, .max = max, .done = on_done };
    struct buf out = BUF_INIT(0);
    json_t *root;

    snprintf(l.words, sizeof(l.words), "%s", words);
    done = false;
    ended = 0;
    ck_assert_int_eq(look_begin(&l), 0);
    ck_assert(!done);
    fake_env_advance(env, 10 * SECOND);
    ck_assert(done);
    ck_assert_uint_eq(ended, 1);
    ck_assert_int_eq(look_print(&l, &out), 0);
    look_free(&l);
    root = json_loadb(out.data, out.len, 0, NULL);
    ck_assert_ptr_nonnull(root);
    buf_finish(&out);
    fake_env_destroy(env);
    return root;
}

static json_int_t at(const json_t *root, size_t row, size_t column)
{
    return json_integer_value(
        json_array_get(json_array_get(json_object_get(root, "rows"), row), column));
}

static json_int_t field(const json_t *root, const char *name)
{
    return json_integer_value(json_object_get(root, name));
}

START_TEST(the_heaviest_of_ten_thousand_come_first)
{
    json_t *root = look_for("", 60, &table);

    ck_assert_uint_eq(json_array_size(json_object_get(root, "rows")), 60);
    ck_assert_int_eq(field(root, "seen"), ROWS);
    ck_assert_int_eq(field(root, "found"), ROWS);
    ck_assert(json_is_true(json_object_get(root, "more")));
    for (json_int_t i = 0; i < 60; i++) {
        ck_assert_int_eq(at(root, (size_t)i, 2), 9977 - 100 * i);
    }
    json_decref(root);
}
END_TEST

START_TEST(words_find_the_others)
{
    json_t *root = look_for("rUNNER-0123", 200, &table);

    ck_assert_uint_eq(json_array_size(json_object_get(root, "rows")), 10);
    ck_assert_int_eq(field(root, "found"), 10);
    ck_assert_int_eq(field(root, "seen"), ROWS);
    ck_assert(json_is_false(json_object_get(root, "more")));
    ck_assert_int_eq(at(root, 0, 2), 1239); /* the heaviest of them; equals in their order */
    json_decref(root);
    root = look_for("nobody", 200, &table);
    ck_assert_int_eq(field(root, "found"), 0);
    json_decref(root);
}
END_TEST

START_TEST(a_sorted_table_is_left_when_there_is_enough)
{
    struct page_table sorted = table;
    json_t *root;

    sorted.sorted = true;
    root = look_for("", 5, &sorted);
    ck_assert_int_eq(field(root, "seen"), 5);
    ck_assert(json_is_true(json_object_get(root, "more")));
    json_decref(root);
}
END_TEST

START_TEST(a_look_ends_in_the_middle)
{
    struct fake_env *env = fake_env_create();
    struct page_look l = { .env = &env->env, .table = &table, .max = 5, .done = on_done };

    ended = 0;
    done = false;
    ck_assert_int_eq(look_begin(&l), 0);
    look_free(&l);
    fake_env_advance(env, SECOND);
    ck_assert(!done);
    ck_assert_uint_eq(ended, 1);
    look_free(&l); /* again: nothing */
    fake_env_destroy(env);
}
END_TEST

static bool next_long(void *ud, struct page_walk *w, struct page_row *ret)
{
    static char text[3 * PAGE_ROW_BYTES];
    uint32_t *i = (void *)w->space;

    (void)ud;
    memset(text, 'x', sizeof(text) - 1);
    *ret = (struct page_row){ .texts = { text, text } };
    return (*i)++ < 3;
}

START_TEST(what_is_too_long_is_cut)
{
    struct page_table longs = table;
    json_t *root, *row;

    longs.next = next_long;
    root = look_for("", 5, &longs);
    row = json_array_get(json_object_get(root, "rows"), 0);
    ck_assert_uint_eq(json_string_length(json_array_get(row, 0)), PAGE_ROW_BYTES - 1);
    ck_assert(json_is_null(json_array_get(row, 1)));
    json_decref(root);
}
END_TEST

/* 5 000 functions: the n-th has been called n % 100 times. */
#define FUNCTIONS 5000u

static struct tally *functions;

static bool next_function(void *ud, struct page_walk *w, struct page_row *ret)
{
    uint32_t *i = (void *)w->space;
    struct tally_row f;

    (void)ud;
    if (!tally_at(functions, (*i)++, 100 * SECOND, &f)) {
        return false;
    }
    *ret = (struct page_row){ .weight = f.per_hour, .texts = { f.id }, .numbers = { f.calls } };
    return true;
}

START_TEST(the_busiest_of_five_thousand_functions_come_first)
{
    struct page_table busy = table;
    json_t *root;
    char id[16];

    functions = tally_create(TALLY_MAX);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        snprintf(id, sizeof(id), "f%u", i);
        for (uint32_t k = 0; k < 1 + i % 100; k++) {
            count(functions, id, 1, 100 * SECOND);
        }
    }
    busy.next = next_function;
    root = look_for("", 60, &busy);
    ck_assert_int_eq(field(root, "seen"), FUNCTIONS);
    for (size_t i = 0; i < 60; i++) {
        ck_assert_int_eq(at(root, i, 2), i < 50 ? 100 : 99);
    }
    json_decref(root);
    tally_destroy(functions);
}
END_TEST

/* ---- history --------------------------------------------------------------------------------- */

START_TEST(the_history_has_the_last_ones)
{
    static const char *const names[] = { "a", "b", NULL };
    static struct history h = { .names = names };
    struct buf out = BUF_INIT(0);
    json_t *root, *a;

    for (int64_t i = 0; i < 1000; i++) {
        int64_t values[HISTORY_SERIES_MAX] = { i, -i };

        history_add(&h, values, i * 1000000);
    }
    ck_assert_int_eq(history_print(&h, &out), 0);
    root = json_loadb(out.data, out.len, 0, NULL);
    a = json_object_get(json_object_get(root, "values"), "a");
    ck_assert_uint_eq(json_array_size(a), HISTORY_N);
    ck_assert_int_eq(json_integer_value(json_array_get(a, 0)), 1000 - HISTORY_N);
    ck_assert_int_eq(json_integer_value(json_array_get(a, HISTORY_N - 1)), 999);
    ck_assert_int_eq(field(root, "at_ms"), 999);
    json_decref(root);
    buf_finish(&out);
}
END_TEST

/* ---- guard ----------------------------------------------------------------------------------- */

#define TOKEN "0123456789abcdef0123456789abcdef"

static const struct {
    bool tls;
    const char *host, *origin, *site;
    bool passes;
} requests[] = {
    { false, "127.0.0.1:9080", NULL, NULL, true },
    { false, "localhost:1234", NULL, "none", true }, /* a tunnel has another port */
    { false, "localhost", NULL, NULL, true },
    { false, "[::1]:9080", "http://[::1]:9080", "same-origin", true },
    { false, "127.0.0.1:9080", "http://127.0.0.1:9080", NULL, true },
    { false, NULL, NULL, NULL, false },
    { false, "evil.example", NULL, NULL, false },
    { false, "evil.example:9080", NULL, NULL, false },
    { false, "localhost.evil.example:9080", NULL, NULL, false },
    { false, "127.evil.example:9080", "http://127.evil.example:9080", NULL, false },
    { false, "10.0.0.1:9080", NULL, NULL, false },
    { false, ":9080", NULL, NULL, false },
    { false, "unix:/x", NULL, NULL, false },
    { false, "127.0.0.1:9080", "http://evil.example", NULL, false },
    { false, "127.0.0.1:9080", "null", NULL, false },
    { false, "127.0.0.1:9080", "https://127.0.0.1:9080", NULL, false },
    { false, "127.0.0.1:9080", "http://127.0.0.1:9081", NULL, false },
    { false, "127.0.0.1:9080", NULL, "cross-site", false },
    { false, "127.0.0.1:9080", NULL, "same-site", false },
    { true, "node7.example:9080", "https://node7.example:9080", "same-origin", true },
    { true, "node7.example:9080", "https://evil.example", NULL, false },
    { true, "node7.example:9080", NULL, "cross-site", false },
};

START_TEST(pages_of_others_are_refused)
{
    struct guard g = { .tls = requests[_i].tls, .token = TOKEN };
    struct fn_error e = ERR_INIT;
    struct arena arena;
    struct headers h;
    int r;

    arena_init(&arena, 0);
    headers_init(&h, &arena);
    if (requests[_i].origin) {
        headers_add(&h, "Origin", requests[_i].origin);
    }
    if (requests[_i].site) {
        headers_add(&h, "Sec-Fetch-Site", requests[_i].site);
    }
    r = guard_page(&g, requests[_i].host, &h, &e);
    ck_assert_int_eq(r == 0, requests[_i].passes);
    ck_assert(r == 0 || err_http_status(&e) == 403);
    arena_finish(&arena);
}
END_TEST

START_TEST(the_token_is_whole_or_wrong)
{
    static const char *const wrong[] = { "", "0", TOKEN "0", "0123456789abcdef0123456789abcdee",
                                         "1123456789abcdef0123456789abcdef" };
    struct guard g = { .token = TOKEN };
    struct fn_error e = ERR_INIT;
    struct arena arena;
    struct headers h;

    arena_init(&arena, 0);
    headers_init(&h, &arena);
    ck_assert_int_lt(guard_token(&g, &h, &e), 0);
    ck_assert_int_eq(err_http_status(&e), 401);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        headers_init(&h, &arena);
        headers_add(&h, GUARD_HEADER, wrong[i]);
        ck_assert_int_lt(guard_token(&g, &h, &e), 0);
    }
    headers_init(&h, &arena);
    headers_add(&h, GUARD_HEADER, TOKEN);
    ck_assert_int_eq(guard_token(&g, &h, &e), 0);
    arena_finish(&arena);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("page");
    TCase *t = tcase_create("page");
    SRunner *sr;
    int failed;

    tcase_add_test(t, percentiles_are_good_to_a_tenth);
    tcase_add_test(t, what_is_long_ago_counts_no_more);
    tcase_add_test(t, a_function_that_idles_gives_its_place);
    tcase_add_test(t, the_heaviest_of_ten_thousand_come_first);
    tcase_add_test(t, the_busiest_of_five_thousand_functions_come_first);
    tcase_add_test(t, words_find_the_others);
    tcase_add_test(t, a_sorted_table_is_left_when_there_is_enough);
    tcase_add_test(t, a_look_ends_in_the_middle);
    tcase_add_test(t, what_is_too_long_is_cut);
    tcase_add_test(t, the_history_has_the_last_ones);
    tcase_add_loop_test(t, pages_of_others_are_refused, 0,
                        (int)(sizeof(requests) / sizeof(requests[0])));
    tcase_add_test(t, the_token_is_whole_or_wrong);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
