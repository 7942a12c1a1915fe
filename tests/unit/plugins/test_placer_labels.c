/* The wrapper beside its inner placer alone on the list that it should see: the same decisions.
 * And annotations, long lists, and calls that no runner fits. */
#include "placer_kit.h"

#include "decide.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct fn_manifest *fn_plugin_v1_placer_chbl(void);
extern const struct fn_manifest *fn_plugin_v1_placer_first(void);
extern const struct fn_manifest *fn_plugin_v1_placer_hybrid(void);
extern const struct fn_manifest *fn_plugin_v1_placer_naive(void);
extern const struct fn_manifest *fn_plugin_v1_placer_p2c(void);

static const struct fn_manifest *(*const placers[])(void) = {
    fn_plugin_v1_placer_chbl,  fn_plugin_v1_placer_first, fn_plugin_v1_placer_hybrid,
    fn_plugin_v1_placer_naive, fn_plugin_v1_placer_p2c,
};

static const char *const none[] = { NULL };

/* The wrapper, the placer in it, and the same placer by itself. */
static struct kit k, inner, alone;

static void open_kits(int placer, const char *option)
{
    const char *const options[] = { "inner=inner", option, NULL };

    ck_assert_int_eq(kit_open_plugin(&inner, placers[placer](), NULL, NULL, none, NULL), 0);
    ck_assert_int_eq(kit_open_plugin(&alone, placers[placer](), NULL, NULL, none, NULL), 0);
    ck_assert_int_eq(kit_open(&k, inner.ops, inner.inst, options, NULL), 0);
}

static void close_kits(void)
{
    kit_close(&k);
    kit_close(&inner);
    kit_close(&alone);
}

static const char *const sets[] = { NULL, "class=cpu,zone=a", "class=gpu,zone=a",
                                    "class=gpu,zone=b" };

/* ---- what is asked for ----------------------------------------------------------------------- */

static const struct {
    const char *json;
    const char *labels; /* NULL: it cannot be read */
} asked[] = {
    { "{}", "" },
    { "\"\"", "" },
    { "{\"zone\":\"a\"}", "zone=a" },
    { " { \"zone\" : \"a\" ,\n\"class\":\"gpu\" } ", "zone=a,class=gpu" },
    { "\"zone=a\"", "zone=a" },
    { "\" zone=a  class=gpu,x/y=1 \"", "zone=a,class=gpu,x/y=1" },
    { "", NULL },
    { "7", NULL },
    { "null", NULL },
    { "[\"zone=a\"]", NULL },
    { "{\"zone\":1}", NULL },
    { "{\"zone\":\"a\",}", NULL },
    { "{\"zone\":\"a\"", NULL },
    { "{\"zone\"}", NULL },
    { "{\"zone\":\"\"}", NULL },
    { "{\"zone\":\"a\"} x", NULL },
    { "{\"zone\":\"a,class=gpu\"}", NULL }, /* a value that would be two labels */
    { "{\"z\\u006fne\":\"a\"}", NULL },
    { "{\"zone\":\"a\",\"zone\":\"b\"}", NULL },
    { "\"zone=a zone=b\"", NULL },
    { "\"zone\"", NULL },
    { "\"zone=a", NULL },
};

START_TEST(annotations_are_read)
{
    char labels[DEMAND_TEXT_BYTES];
    int r = demand_read(asked[_i].json, labels);

    ck_assert_int_eq(r, asked[_i].labels ? 0 : FN_E_INVALID);
    if (r == 0) {
        ck_assert_str_eq(labels, asked[_i].labels);
    }
}
END_TEST

START_TEST(long_annotations_are_refused)
{
    char labels[DEMAND_TEXT_BYTES], json[1024] = "{";

    for (int i = 0; i < 40; i++) {
        snprintf(json + strlen(json), sizeof(json) - strlen(json), "%s\"key%d\":\"value\"",
                 i ? "," : "", i);
        ck_assert_int_eq(demand_read(json, labels), FN_E_INVALID); /* without its end */
    }
    strcat(json, "}");
    ck_assert_int_eq(demand_read(json, labels), FN_E_INVALID);
    memset(json, 'x', sizeof(json) - 2);
    json[0] = json[sizeof(json) - 2] = '"';
    json[sizeof(json) - 1] = '\0';
    ck_assert_int_eq(demand_read(json, labels), FN_E_INVALID);
}
END_TEST

START_TEST(the_demand_of_long_ago_makes_room)
{
    static struct demands d;
    uint32_t generation;
    char text[16];

    memset(&d, 0, sizeof(d));
    for (uint32_t i = 0; i < DEMANDS_MAX; i++) {
        snprintf(text, sizeof(text), "n=%u", i);
        ck_assert_uint_eq(demands_take(&d, text, 1), i);
    }
    generation = d.list[1].generation;
    ck_assert_uint_eq(demands_take(&d, "n=0", 2), 0);
    ck_assert_uint_eq(demands_take(&d, "n=new", 3), 1);
    ck_assert_uint_ne(d.list[1].generation, generation);
    ck_assert_uint_eq(demands_take(&d, "n=0", 4), 0);
}
END_TEST

/* ---- the placer in it ------------------------------------------------------------------------ */

/* n runners with labels and loads by chance; those of `wanted` alone are the list of `alone`, and
 * `place` says where they stand in the whole one. */
static uint32_t place[KIT_RUNNERS_MAX];

static void fill(uint32_t n, const char *wanted, uint64_t *seed)
{
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        k.runners[i] = (struct fn_runner){ .id = kit_random(seed),
                                           .address = "a:1",
                                           .weight = 1,
                                           .flags = kit_random(seed) % 8 ? 0 : FN_RUNNER_DRAINING,
                                           .labels = sets[kit_random(seed) % 4] };
        k.inflight[i] = (uint32_t)(kit_random(seed) % 9);
        if (!wanted || fn_labels_match(k.runners[i].labels, wanted)) {
            alone.runners[m] = k.runners[i];
            alone.inflight[m] = k.inflight[i];
            place[m++] = i;
        }
    }
    k.snap.n = n;
    kit_publish(&k);
    alone.snap.n = m;
    kit_publish(&alone);
    /* Equal epochs and chance, so that nothing else differs. */
    alone.snap.epoch = k.snap.epoch;
    inner.seed = alone.seed = kit_random(seed);
}

static void ask_both(uint32_t why)
{
    uint32_t verdict = kit_ask(&alone, why);

    ck_assert_uint_eq(kit_ask(&k, why), verdict);
    if (verdict == FN_TRY) {
        ck_assert_uint_eq(k.answer.index, place[alone.answer.index]);
    }
    ck_assert_str_eq(k.answer.note, alone.answer.note);
    ck_assert_int_eq(k.answer.wait_ns, alone.answer.wait_ns);
}

static void same_decisions(const char *annotation, const char *wanted, uint64_t seed)
{
    char id[32];

    k.annotation = annotation;
    for (uint32_t round = 0; round < 50; round++) {
        fill(1 + (uint32_t)(kit_random(&seed) % 60), wanted, &seed);
        for (uint32_t call = 0; alone.snap.n > 0 && call < 5; call++) {
            snprintf(id, sizeof(id), "fn-%u", (unsigned)(kit_random(&seed) % 20));
            kit_call(&k, id);
            kit_call(&alone, id);
            ask_both(FN_WHY_START);
            for (uint32_t i = 0; i < 20; i++) {
                ask_both(k.answer.verdict == FN_TRY ? FN_WHY_BUSY + i % 2 : FN_WHY_TIMER + i % 2);
            }
        }
    }
}

/* Differential: all match, none asks, and some match. */
START_TEST(the_inner_one_decides)
{
    static const struct {
        const char *annotation, *wanted;
    } rows[] = { { NULL, NULL },
                 { "{}", NULL },
                 { "{\"zone\":\"a\"}", "zone=a" },
                 { "\"class=gpu zone=b\"", "class=gpu,zone=b" } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        open_kits(_i, NULL);
        same_decisions(rows[i].annotation, rows[i].wanted, 5 + i);
        close_kits();
    }
}
END_TEST

START_TEST(a_list_where_all_match_is_not_copied)
{
    open_kits(0, NULL);
    kit_list(&k, 5);
    for (uint32_t i = 0; i < 5; i++) {
        k.runners[i].labels = sets[1 + i % 2];
    }
    kit_publish(&k);
    k.annotation = "\"zone=a\"";
    kit_place(&k, "f");
    ck_assert_int_eq(((const struct parts *)k.snap.index)->part[0]->whole, 1);
    ck_assert_ptr_null(((const struct parts *)k.snap.index)->part[0]->runners);
    close_kits();
}
END_TEST

START_TEST(contract)
{
    ck_assert_int_eq(kit_open_plugin(&inner, placers[_i](), NULL, NULL, none, NULL), 0);
    kit_check_contract(inner.ops, inner.inst, (const char *const[]){ "inner=inner", NULL }, 0);
    kit_close(&inner);
}
END_TEST

/* ---- nobody has them ------------------------------------------------------------------------- */

START_TEST(without_a_runner_it_waits_or_gives_up)
{
    for (int give_up = 0; give_up < 2; give_up++) {
        open_kits(0, give_up ? "none=give-up" : NULL);
        kit_list(&k, 3);
        k.annotation = "{\"zone\":\"moon\"}";
        kit_call(&k, "f");
        ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), give_up ? FN_GIVE_UP : FN_WAIT);
        ck_assert_str_eq(k.answer.note, "no runner has its labels");
        ck_assert_int_eq(k.answer.code, give_up ? FN_E_UNAVAILABLE : 0);
        ck_assert_uint_eq(k.answer.wake_mask, give_up ? 0 : FN_WAKE_POOL);
        k.runners[1].labels = "zone=moon";
        kit_publish(&k);
        kit_call(&k, "f");
        ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_TRY);
        ck_assert_uint_eq(k.answer.index, 1);
        close_kits();
    }
}
END_TEST

START_TEST(what_cannot_be_read_is_given_up)
{
    open_kits(0, NULL);
    kit_list(&k, 3);
    k.annotation = "[]";
    kit_call(&k, "f");
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_GIVE_UP);
    ck_assert_int_eq(k.answer.code, FN_E_INVALID);
    ck_assert_str_eq(k.answer.note, "its labels are not readable");
    close_kits();
}
END_TEST

/* ---- long lists ------------------------------------------------------------------------------ */

static void long_list(uint32_t n)
{
    kit_list(&k, n);
    for (uint32_t i = 0; i < n; i++) {
        k.runners[i].labels = sets[i % 4];
    }
    kit_publish(&k);
}

/* The first call for a part of a long list waits until it is made; the next list has it at once. */
START_TEST(parts_of_long_lists_are_made_aside)
{
    open_kits(0, NULL);
    long_list(10000);
    k.annotation = "\"zone=b\"";
    kit_call(&k, "f");
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_WAIT);
    ck_assert_str_eq(k.answer.note, "its runners are looked for");
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_TIMER), FN_WAIT);
    ck_assert_int_eq(kit_tick(&k), 1);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_TIMER), FN_TRY);
    ck_assert_uint_eq(k.answer.index % 4, 3);
    while (kit_tick(&k)) {
    }
    long_list(10000);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_WAKE), FN_TRY);
    ck_assert_int_eq(kit_tick(&k), 0);
    k.now_ns += DEMAND_KEPT_NS + 1;
    long_list(10000);
    ck_assert_ptr_null(((const struct parts *)k.snap.index)->part[0]);
    close_kits();
}
END_TEST

/* A placer that notes its first question and answers so that the host asks on. */
static struct fn_ask asked_first;
static uint32_t asked_next; /* the round of the second one */
static int asked_n;

static int note_asked(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    (void)inst;
    if (asked_n++ == 0) {
        asked_first = *ask;
    } else if (asked_n == 2) {
        asked_next = ask->round;
    }
    ret->verdict = ask->snap->n > 0 ? FN_TRY : FN_WAIT;
    ret->wait_ns = 1;
    ret->wake_mask = FN_WAKE_POOL;
    memcpy(ret->note, "noted", sizeof("noted"));
    return 0;
}

static const struct fn_placer_ops noting = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
                                             .session_size = 8,
                                             .decide = note_asked };

static void open_noting(const char *option)
{
    asked_n = 0;
    ck_assert_int_eq(kit_open(&k, &noting, NULL,
                              (const char *const[]){ "inner=inner", option, NULL }, NULL), 0);
}

/* The host had asked twice by then; the inner one never heard of that. */
START_TEST(the_first_question_to_the_inner_one_is_a_start)
{
    open_noting(NULL);
    long_list(10000);
    k.annotation = "\"zone=b\"";
    kit_call(&k, "f");
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_WAIT);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_TIMER), FN_WAIT);
    ck_assert_int_eq(asked_n, 0);
    ck_assert_int_eq(kit_tick(&k), 1);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_TIMER), FN_TRY);
    ck_assert_uint_eq(asked_first.why, FN_WHY_START);
    ck_assert_uint_eq(asked_first.round, 0);
    ck_assert_uint_eq(asked_first.attempts, 0);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_TIMER), FN_TRY);
    ck_assert_uint_eq(asked_next, 1); /* WAITs that it answered, or the host for it */
    kit_close(&k);
}
END_TEST

/* A group without runners grows when calls wait in it: what to do there is no matter of labels. */
START_TEST(an_empty_list_is_the_inner_one_s)
{
    open_noting("none=give-up");
    kit_list(&k, 0);
    k.annotation = "\"zone=b\"";
    kit_call(&k, "f");
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_WAIT);
    ck_assert_str_eq(k.answer.note, "noted");
    ck_assert_uint_eq(asked_first.why, FN_WHY_START);
    kit_list(&k, 4);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_WAKE), FN_GIVE_UP);
    ck_assert_int_eq(asked_n, 1);
    kit_close(&k);
}
END_TEST

/* However many ask for however much, a new list costs PARTS_TIMES more and not more than that. */
START_TEST(a_new_list_makes_some_parts_only)
{
    static const char *const annotations[] = {
        "\"zone=a\"",           "\"class=gpu\"",        "\"zone=b\"",
        "\"class=cpu\"",        "\"zone=a,class=gpu\"", "\"zone=a,class=cpu\"",
        "\"class=gpu,zone=a\"", "\"class=cpu,zone=a\"",
    };
    uint64_t all = 0;

    open_kits(0, NULL);
    long_list(1000);
    for (size_t i = 0; i < sizeof(annotations) / sizeof(annotations[0]); i++) {
        k.annotation = annotations[i];
        kit_call(&k, "f");
        ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_WAIT);
        while (kit_tick(&k)) {
        }
    }
    long_list(1000);
    for (uint32_t i = 0; i < DEMANDS_MAX; i++) {
        const struct part *p = ((const struct parts *)k.snap.index)->part[i];

        all += p ? p->n : 0;
    }
    ck_assert_uint_ge(all, 1000);
    ck_assert_uint_le(all, 2 * 1000 + 500);
    close_kits();
}
END_TEST

/* More demands than there is room for: each is served, after it waited. */
START_TEST(many_demands_share_the_places)
{
    static char texts[100][16], labels[100][16];

    open_kits(3, NULL);
    kit_list(&k, 100);
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(labels[i], sizeof(labels[i]), "n=%u", i);
        snprintf(texts[i], sizeof(texts[i]), "\"n=%u\"", i);
        k.runners[i].labels = labels[i];
    }
    kit_publish(&k);
    for (uint32_t i = 0; i < 1000; i++) {
        k.annotation = texts[i * 37 % 100];
        ck_assert_uint_eq(kit_place(&k, "f"), i * 37 % 100);
        kit_end(&k, "f", i * 37 % 100, FN_DONE_OK);
    }
    close_kits();
}
END_TEST

START_TEST(a_call_keeps_its_demand_when_its_place_is_taken)
{
    static char text[16];

    open_kits(3, NULL);
    kit_list(&k, 2);
    k.runners[1].labels = "zone=a";
    kit_publish(&k);
    k.annotation = "\"zone=a\"";
    kit_call(&k, "f");
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_TRY);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_BUSY), FN_WAIT);
    for (uint32_t i = 0; i < 2 * DEMANDS_MAX; i++) {
        struct labels_session other = { 0 };
        struct fn_answer answer = { .size = sizeof(answer) };
        struct fn_ask ask = k.ask;

        snprintf(text, sizeof(text), "\"n=%u\"", i);
        k.annotation = text;
        ask.session = &other;
        ck_assert_int_eq(k.ops->decide(k.inst, &ask, &answer), 0);
        ck_assert_uint_eq(answer.verdict, FN_WAIT);
    }
    k.annotation = "\"zone=a\"";
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_TIMER), FN_TRY);
    ck_assert_uint_eq(k.answer.index, 1);
    close_kits();
}
END_TEST

START_TEST(refused)
{
    struct fn_placer_ops large;
    struct fn_error e = { .size = sizeof(e) };

    ck_assert_int_eq(kit_open(&k, NULL, NULL, (const char *const[]){ "inner=naive", NULL }, &e),
                     FN_E_NOT_FOUND);
    ck_assert_int_eq(kit_open_plugin(&inner, placers[0](), NULL, NULL, none, NULL), 0);
    large = *inner.ops;
    large.session_size = LABELS_INNER_MAX + 8;
    ck_assert_int_eq(
        kit_open(&k, &large, inner.inst, (const char *const[]){ "inner=inner", NULL }, &e),
        FN_E_RANGE);
    ck_assert_str_eq(e.msg, "inner placer \"inner\" keeps 176 bytes per call; expected at most 168");
    kit_close(&inner);
}
END_TEST

int main(void)
{
    const int n = sizeof(placers) / sizeof(placers[0]);
    Suite *s = suite_create("placer-labels");
    TCase *tc = tcase_create("labels");
    SRunner *r;
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, annotations_are_read, 0, sizeof(asked) / sizeof(asked[0]));
    tcase_add_test(tc, long_annotations_are_refused);
    tcase_add_test(tc, the_demand_of_long_ago_makes_room);
    tcase_add_loop_test(tc, the_inner_one_decides, 0, n);
    tcase_add_test(tc, a_list_where_all_match_is_not_copied);
    tcase_add_loop_test(tc, contract, 0, n);
    tcase_add_test(tc, without_a_runner_it_waits_or_gives_up);
    tcase_add_test(tc, what_cannot_be_read_is_given_up);
    tcase_add_test(tc, parts_of_long_lists_are_made_aside);
    tcase_add_test(tc, the_first_question_to_the_inner_one_is_a_start);
    tcase_add_test(tc, an_empty_list_is_the_inner_one_s);
    tcase_add_test(tc, a_new_list_makes_some_parts_only);
    tcase_add_test(tc, many_demands_share_the_places);
    tcase_add_test(tc, a_call_keeps_its_demand_when_its_place_is_taken);
    tcase_add_test(tc, refused);
    suite_add_tcase(s, tc);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
