/* Scenario files: shipped ones are accepted, mistakes get a line each. */
#include "suites.h"

#include <model/view.h>
#include <sim/call_more.h>
#include <sim/scenario.h>
#include <stdio.h>
#include <string.h>

static struct conf_problems problems;
static struct scenario *sc;

static void setup(void)
{
    conf_problems_init(&problems);
    sc = NULL;
}

static void teardown(void)
{
    scenario_destroy(sc);
    conf_problems_finish(&problems);
}

static int load(const char *text, const char *set)
{
    return scenario_load(scenario_text(text), &set, set ? 1 : 0, &sc, &problems);
}

static void expect(const char *line)
{
    ck_assert_msg(strstr(buf_text(&problems.text), line) != NULL, "%s\nis not in\n%s", line,
                  buf_text(&problems.text));
}

START_TEST(shipped_ones_load)
{
    static const char *const names[] = { "azure-like", "burst", "churn", "scale", "steady" };

    for (int i = 0; i < 5; i++) {
        ck_assert_msg(scenario_load(scenario_file(names[i]), NULL, 0, &sc, &problems) == 0, "%s",
                      buf_text(&problems.text));
        ck_assert_str_ne(sc->top->summary, "");
        scenario_destroy(sc);
        sc = NULL;
    }
}
END_TEST

START_TEST(defaults_and_values)
{
    ck_assert_int_eq(load("duration: 5s\nrunners: {count: 3, memory: 1GiB}\n"
                          "events:\n- {at: 2s, what: leave, runner: 2}\n"
                          "- {at: 1s, what: join, count: 4, back_after: 1s}\n",
                          NULL), 0);
    ck_assert_int_eq(sc->top->duration_ns, 5000000000);
    ck_assert_int_eq(sc->runners->count, 3);
    ck_assert_int_eq(sc->runners->memory, 1 << 30);
    ck_assert_int_eq(sc->functions->count, 20);
    ck_assert_uint_eq(sc->n_runners, 7);
    ck_assert_uint_eq(sc->n_events, 2);
    ck_assert_str_eq(sc->events[0].what, "join");
    ck_assert_int_eq(sc->events[0].runner, 3);
    ck_assert_int_eq(sc->events[0].back_after_ns, 1000000000);
}
END_TEST

START_TEST(all_mistakes_are_told_with_their_place)
{
    ck_assert_int_lt(load("duration: 5 parsecs\n"
                          "runners:\n"
                          "  count: 0\n"
                          "  memmory: 1GiB\n"
                          "functions:\n"
                          "  popularity: fame\n"
                          "arivals:\n"
                          "  rate: 5\n"
                          "events:\n"
                          "- {what: explode, at: 1s}\n"
                          "- {what: crash}\n"
                          "- tuesday\n",
                          NULL), 0);
    ck_assert_ptr_null(sc);
    expect("s.yaml:1:11");
    expect("5 parsecs");
    expect("s.yaml:3:10");
    expect("expected 1..10000");
    expect("s.yaml:4:3");
    expect("did you mean \"memory\"?");
    expect("s.yaml:6:15");
    expect("equal");
    expect("s.yaml:7:1");
    expect("did you mean \"arrivals\"?");
    expect("s.yaml:10:10");
    expect("s.yaml:11:3");
    expect("s.yaml:12:3");
    expect("tuesday");
    ck_assert_uint_eq(problems.n, 8);
}
END_TEST

START_TEST(what_does_not_fit_together_is_refused)
{
    ck_assert_int_lt(load("runners: {count: 10000}\nfunctions: {count: 100000, memory: 8GiB}\n"
                          "arrivals: {shape: burst, burst_length: 10s, burst_every: 20s}\n"
                          "duration: 1s\nwarm_up: 1s\n", NULL), 0);
    expect("runners x functions, got 1000000000; expected at most 20000000");
    expect("functions.memory is larger than runners.memory");
    expect("burst_length x burst_factor is longer than burst_every");
    expect("warm_up, got 1000 ms; expected less than duration, 1000 ms");
}
END_TEST

START_TEST(functions_have_pairs_in_turn)
{
    struct fn_call view = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL), .id = "1", .fn_id = "F",
                            .app_id = "A", .lb_group = "default", .mem_mb = 256 };
    const struct fn_view_if *v = view_if();
    struct arena arena;

    ck_assert_int_eq(load("functions: {config: ['A=b=c', ''], annotations: ['zone=[1, \"a\"]']}\n",
                          NULL), 0);
    ck_assert_uint_eq(sc->functions->config.n, 2);
    arena_init(&arena, 0);
    ck_assert_int_eq(call_more_make(&arena, &view, sc->functions->config.items[0],
                                    sc->functions->annotations.items[0]), 0);
    ck_assert_str_eq(v->config(&view, "A"), "b=c");
    ck_assert_str_eq(v->annotation(&view, "zone"), "[1, \"a\"]");
    ck_assert_uint_eq(v->u64(&view, FN_FIELD_MEM_MB), 256);
    ck_assert_str_eq(v->text(&view, FN_TEXT_FN_ID), "F");
    ck_assert_uint_eq(strlen(v->text(&view, FN_TEXT_SLOT_HASH)), 64);
    ck_assert_int_eq(call_more_make(&arena, &view, sc->functions->config.items[1], ""), 0);
    ck_assert_ptr_null(v->config(&view, "A"));
    ck_assert_ptr_null(v->annotation(&view, "zone"));
    arena_finish(&arena);
}
END_TEST

START_TEST(pairs_are_checked)
{
    ck_assert_int_lt(load("functions: {config: [A, '=b'], annotations: [zone=a, 'z=\"a\" b', z=]}\n",
                          NULL), 0);
    expect("functions.config, got \"A\"; expected key=value");
    expect("functions.config, got \"=b\"; expected key=value");
    expect("functions.annotations, got \"zone=a\"; expected key=JSON");
    ck_assert_uint_eq(problems.n, 5);
}
END_TEST

START_TEST(events_are_about_runners_that_exist)
{
    ck_assert_int_lt(load("runners: {count: 3}\nevents:\n- {at: 1s, what: crash, runner: 2, count: 2}\n",
                          NULL), 0);
    expect("s.yaml:3:3");
    expect("runners 2 to 3; expected some of the 3 that exist by then");
}
END_TEST

START_TEST(set_overrides_the_file)
{
    ck_assert_int_eq(load("runners: {count: 3}\n", "runners.count=5"), 0);
    ck_assert_int_eq(sc->runners->count, 5);
    teardown();
    setup();
    ck_assert_int_eq(load("runners: {count: 3}\n", "duration=2s"), 0);
    ck_assert_int_eq(sc->top->duration_ns, 2000000000);
    teardown();
    setup();
    ck_assert_int_eq(load("runners: {count: 3}\n", "placer.retry_delay=5ms"), 0);
    ck_assert_str_eq(sc->placer_overrides[0].key, "retry_delay");
    ck_assert_str_eq(sc->placer_overrides[0].text, "5ms");
}
END_TEST

START_TEST(mistakes_in_set_are_told)
{
    static const char *const lines[][2] = {
        { "runners.count=many", "--set runners.count" },
        { "runners.cuont=4", "--set runners.cuont: no such key" },
        { "walkers.count=4", "--set walkers.count: no such key" },
        { "runners.count", "expected section.key=value" },
    };

    for (int i = 0; i < 4; i++) {
        ck_assert_int_lt(load("runners: {count: 3}\n", lines[i][0]), 0);
        expect(lines[i][1]);
        teardown();
        setup();
    }
}
END_TEST

START_TEST(files_that_are_none)
{
    ck_assert_int_lt(scenario_load("/nowhere/s.yaml", NULL, 0, &sc, &problems), 0);
    expect("/nowhere/s.yaml");
    ck_assert_int_lt(load("runners: [\n", NULL), 0);
    ck_assert_int_lt(load("- a\n- b\n", NULL), 0);
    teardown();
    setup();
    ck_assert_int_eq(load("{}\n", NULL), 0);
}
END_TEST

START_TEST(every_key_is_in_the_reference)
{
    struct buf out = BUF_INIT(0);

    ck_assert_int_eq(scenario_reference(&out), 0);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "`burst_factor`"));
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "`back_after`"));
    buf_finish(&out);
}
END_TEST

TCase *scenario_tests(void)
{
    TCase *t = tcase_create("scenario");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, shipped_ones_load);
    tcase_add_test(t, defaults_and_values);
    tcase_add_test(t, all_mistakes_are_told_with_their_place);
    tcase_add_test(t, what_does_not_fit_together_is_refused);
    tcase_add_test(t, functions_have_pairs_in_turn);
    tcase_add_test(t, pairs_are_checked);
    tcase_add_test(t, events_are_about_runners_that_exist);
    tcase_add_test(t, set_overrides_the_file);
    tcase_add_test(t, mistakes_in_set_are_told);
    tcase_add_test(t, files_that_are_none);
    tcase_add_test(t, every_key_is_in_the_reference);
    return t;
}
