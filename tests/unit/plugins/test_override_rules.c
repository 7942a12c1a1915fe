/* The words of rules, what is said of wrong ones, and rules over a call that is made up. */
#include <rules.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT_MAX 8

/* A call as "fn.edit" shows it, as far as rules look. */
struct fn_edit {
    const char *texts[FN_TEXT_TRIGGER_ID + 1];
    uint64_t numbers[FN_FIELD_IDLE_TIMEOUT_S + 1];
    const char *header; /* X-Plan */
    struct fn_kv pairs[CONTEXT_MAX]; /* extensions, and config with a $ before its names */
    uint32_t n_pairs;
    int memory_told; /* the variable has what the field has */
    uint32_t sets_left; /* behind that there is no memory */
};

static const char *text(const struct fn_edit *e, uint32_t id)
{
    return e->texts[id] ? e->texts[id] : "";
}

static const char *header(const struct fn_edit *e, const char *name)
{
    return strcmp(name, "X-Plan") == 0 ? e->header : NULL;
}

static const char *extension(const struct fn_edit *e, const char *key)
{
    for (uint32_t i = 0; i < e->n_pairs; i++) {
        if (strcmp(e->pairs[i].key, key) == 0) {
            return e->pairs[i].value;
        }
    }
    return NULL;
}

static const char *config(const struct fn_edit *e, const char *key)
{
    return strcmp(key, GROUP_VARIABLE) == 0 ? extension(e, "$group") : NULL;
}

static uint64_t number(const struct fn_edit *e, uint32_t field)
{
    return e->numbers[field];
}

static int set_number(struct fn_edit *e, uint32_t field, uint64_t v)
{
    if (e->sets_left == 0) {
        return FN_E_EXHAUSTED;
    }
    e->sets_left--;
    e->numbers[field] = v;
    return 0;
}

static int set_extension(struct fn_edit *e, const char *key, const char *value)
{
    if (e->sets_left == 0) {
        return FN_E_EXHAUSTED;
    }
    e->sets_left--;
    ck_assert_uint_lt(e->n_pairs, CONTEXT_MAX);
    e->pairs[e->n_pairs++] = (struct fn_kv){ key, value };
    return 0;
}

static int set_config(struct fn_edit *e, const char *key, const char *value)
{
    if (strcmp(key, MEMORY_VARIABLE) == 0) {
        ck_assert_uint_eq(strtoull(value, NULL, 10), e->numbers[FN_FIELD_MEM_MB]);
        e->memory_told = 1;
        return 0;
    }
    return set_extension(e, strcmp(key, GROUP_VARIABLE) == 0 ? "$group" : "$other", value);
}

static const struct fn_edit_if edit_if = {
    .hdr = FN_HDR(struct fn_edit_if, FN_MAGIC_EDIT),
    .text = text,
    .header = header,
    .config = config,
    .extension = extension,
    .u64 = number,
    .set_u64 = set_number,
    .set_config = set_config,
    .set_extension = set_extension,
};

static struct fn_edit call(void)
{
    return (struct fn_edit){
        .texts = { [FN_TEXT_APP_NAME] = "shop-eu",
                   [FN_TEXT_FN_ID] = "01FN",
                   [FN_TEXT_IMAGE] = "fnd/hello:1.0",
                   [FN_TEXT_METHOD] = "POST",
                   [FN_TEXT_TYPE] = "sync" },
        .numbers = { [FN_FIELD_MEM_MB] = 512, [FN_FIELD_TIMEOUT_S] = 60 },
        .header = "basic",
        .sets_left = 100,
    };
}

static struct rules rules_of(const char *const *items, uint32_t n)
{
    const struct fn_strlist list = { items, n };
    struct fn_error e = FN_ERROR_INIT;
    struct rules r;

    ck_assert_msg(rules_read(&r, &list, &e) == 0, "%s", e.msg);
    return r;
}

/* One rule over `e`. */
static int apply(const char *rule, struct fn_edit *e, struct fn_error *reterr)
{
    struct rules r = rules_of(&rule, 1);
    int result = rules_apply(&r, &edit_if, e, reterr);

    rules_finish(&r);
    return result;
}

/* ---- which calls ----------------------------------------------------------------------------- */

static const struct {
    const char *pattern;
    const char *text;
    int matches;
} patterns[] = {
    { "", "", 1 },          { "", "a", 0 },          { "*", "", 1 },
    { "*", "abc", 1 },      { "a", "a", 1 },         { "a", "ab", 0 },
    { "a*", "a", 1 },       { "a*", "ba", 0 },       { "*a", "ba", 1 },
    { "*a", "ab", 0 },      { "a*c", "abc", 1 },     { "a*c", "ac", 1 },
    { "ab*bc", "abc", 0 },  { "*b*", "abc", 1 },     { "*x*", "abc", 0 },
    { "a*b*c", "a-b-c", 1 }, { "a*b*c", "a-c-b", 0 }, { "**", "abc", 1 },
    { "*ab*ab", "ab-ab", 1 }, { "*ab*ab", "ab", 0 },  { "A", "a", 0 },
};

START_TEST(pattern)
{
    ck_assert_int_eq(pattern_matches(patterns[_i].pattern, patterns[_i].text),
                     patterns[_i].matches);
}
END_TEST

static const struct {
    const char *tests;
    int matches;
} tests[] = {
    { "", 1 },
    { "app=shop-eu", 1 },
    { "app=shop-*", 1 },
    { "app!=shop-*", 0 },
    { "app=shop", 0 },
    { "function=01FN", 1 },
    { "image=*/hello:*", 1 },
    { "method=GET", 0 },
    { "method!=GET", 1 },
    { "type=sync", 1 },
    { "trigger=*", 1 }, /* a call has one, if only an empty one */
    { "trigger=", 1 },
    { "header:X-Plan=basic", 1 },
    { "header:X-Plan!=basic", 0 },
    { "header:X-Other=*", 0 },
    { "header:X-Other!=*", 1 },
    { "extension:zone=*", 0 },
    { "config:FN_LB_GROUP_ID!=blue", 1 },
    { "app=shop-* header:X-Plan=basic method=POST", 1 },
    { "app=shop-* header:X-Plan=gold method=POST", 0 },
    { "app='shop-eu'", 1 },
    { "header:X-Plan='gold plus'", 0 },
};

START_TEST(tests_of_calls)
{
    struct fn_edit e = call();
    char rule[128];

    snprintf(rule, sizeof(rule), "%s->memory=1", tests[_i].tests);
    ck_assert_int_eq(apply(rule, &e, NULL), tests[_i].matches ? FN_CHANGED : FN_PASS);
    ck_assert_uint_eq(e.numbers[FN_FIELD_MEM_MB], tests[_i].matches ? 1 : 512);
}
END_TEST

/* ---- what becomes of them -------------------------------------------------------------------- */

static const struct {
    const char *set;
    uint32_t field;
    uint64_t before;
    uint64_t after;
} numbers[] = {
    { "memory=64", FN_FIELD_MEM_MB, 512, 64 },
    { "memory<=256", FN_FIELD_MEM_MB, 512, 256 },
    { "memory<=256", FN_FIELD_MEM_MB, 128, 128 },
    { "memory>=256", FN_FIELD_MEM_MB, 128, 256 },
    { "memory>=256", FN_FIELD_MEM_MB, 512, 512 },
    { "cpu=0.25", FN_FIELD_CPU_MILLI, 0, 250 },
    { "cpu=2", FN_FIELD_CPU_MILLI, 0, 2000 },
    { "cpu=1500m", FN_FIELD_CPU_MILLI, 0, 1500 },
    { "cpu<=500m", FN_FIELD_CPU_MILLI, 0, 500 }, /* 0 has no limit */
    { "cpu>=500m", FN_FIELD_CPU_MILLI, 0, 0 },
    { "cpu=1024", FN_FIELD_CPU_MILLI, 0, 1024000 },
    { "tmpfs=0", FN_FIELD_TMPFS_MB, 5, 0 },
    { "timeout=30s", FN_FIELD_TIMEOUT_S, 60, 30 },
    { "timeout<=30", FN_FIELD_TIMEOUT_S, 60, 30 },
    { "idle_timeout=3600s", FN_FIELD_IDLE_TIMEOUT_S, 30, 3600 },
};

START_TEST(numbers_of_calls)
{
    struct fn_edit e = call();
    char rule[64];
    int r;

    e.numbers[numbers[_i].field] = numbers[_i].before;
    snprintf(rule, sizeof(rule), "-> %s", numbers[_i].set);
    r = apply(rule, &e, NULL);
    ck_assert_uint_eq(e.numbers[numbers[_i].field], numbers[_i].after);
    ck_assert_int_eq(e.memory_told, r == FN_CHANGED && numbers[_i].field == FN_FIELD_MEM_MB);
    ck_assert_int_eq(r, numbers[_i].before == numbers[_i].after ? FN_PASS : FN_CHANGED);
}
END_TEST

START_TEST(texts_of_calls)
{
    struct fn_edit e = call();

    ck_assert_int_eq(apply("-> group=gold extension:plan='very good' config:A= extension:e='a->b'",
                           &e, NULL), FN_CHANGED);
    ck_assert_uint_eq(e.n_pairs, 4);
    ck_assert_str_eq(e.pairs[0].key, "$group");
    /* the values went with the rules; a host copies them */
}
END_TEST

START_TEST(rules_come_in_their_order)
{
    static const char *const items[] = {
        "-> memory=100 extension:seen=yes",
        "app=nobody -> memory=1",
        "extension:seen=yes -> memory>=200 group=blue",
        "config:FN_LB_GROUP_ID=blue -> timeout=5s stop",
        "-> refuse=403 no",
    };
    struct rules r = rules_of(items, 5);
    struct fn_edit e = call();

    ck_assert_int_eq(rules_apply(&r, &edit_if, &e, NULL), FN_CHANGED);
    ck_assert_uint_eq(e.numbers[FN_FIELD_MEM_MB], 200);
    ck_assert_uint_eq(e.numbers[FN_FIELD_TIMEOUT_S], 5);
    ck_assert_str_eq(config(&e, GROUP_VARIABLE), "blue");
    rules_finish(&r);
}
END_TEST

static const struct {
    const char *rule;
    int code;
    int status;
    uint32_t blame;
    const char *sentence;
} refusals[] = {
    { "-> refuse=410 It's gone -> ask 'us'. ", FN_E_PERMISSION, 410, FN_BLAME_USER,
      "It's gone -> ask 'us'." },
    { "-> memory=5 refuse=429 later", FN_E_EXHAUSTED, 429, FN_BLAME_USER, "later" },
    { "-> refuse=503 closed", FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM, "closed" },
};

START_TEST(refused_calls)
{
    struct fn_error err = FN_ERROR_INIT;
    struct fn_edit e = call();

    ck_assert_int_eq(apply(refusals[_i].rule, &e, &err), refusals[_i].code);
    ck_assert_int_eq(err.http_status, refusals[_i].status);
    ck_assert_uint_eq(err.blame, refusals[_i].blame);
    ck_assert_str_eq(err.msg, refusals[_i].sentence);
    ck_assert_int_eq(apply(refusals[_i].rule, &e, NULL), refusals[_i].code);
}
END_TEST

START_TEST(no_memory_refuses)
{
    struct fn_error err = FN_ERROR_INIT;
    struct fn_edit e = call();

    e.sets_left = 1;
    ck_assert_int_eq(apply("-> memory=5 extension:a=b", &e, &err), FN_E_EXHAUSTED);
    ck_assert_str_eq(err.msg, "rules[0] could not be applied");
}
END_TEST

/* ---- wrong rules ----------------------------------------------------------------------------- */

#define TEN(text) text text text text text text text text text text

static const struct {
    const char *rule;
    const char *said;
} wrongs[] = {
    { "", "got \"\"; expected -> between the calls" },
    { "app=shop memory=5", "got \"memory=5\"; expected app, app_id, function" },
    { "app=shop", "got \"app=shop\"; expected -> between" },
    { "app -> stop", "got \"app\"; expected a word such as key=value" },
    { "=x -> stop", "got \"=x\"; expected a word such as" },
    { "ap=shop -> stop", "got \"ap=shop\"; expected app, app_id" },
    { "app:x=shop -> stop", "got \"app:x=shop\"; expected app, app_id" },
    { "header=x -> stop", "got \"header=x\"; expected app, app_id" },
    { "header:X Plan=x -> stop", "got \"header:X\"; expected a word such as" },
    { "header:'X Plan'=x -> stop", "got \"header:'X Plan'=x\"; expected a name" },
    { "app='a b -> stop", "got \"app='a b -> stop\"; expected a second ' behind" },
    { "->", "got \"\"; expected memory, cpu" },
    { "-> stop -> stop", "got \"\"; expected memory" },
    { "-> stop memory=5", "got \"memory=5\"; expected nothing behind stop" },
    { "-> memroy=5", "got \"memroy=5\"; expected memory, cpu" },
    { "-> memory=0", "got \"memory=0\"; expected megabytes from 1 to 1048576" },
    { "-> memory=1048577", "expected megabytes from 1" },
    { "-> memory=64MiB", "expected megabytes from 1" },
    { "-> memory=", "expected megabytes from 1" },
    { "-> memory!=5", "expected memory, cpu" },
    { "-> memory=99999999999999999999999", "expected megabytes from 1" },
    { "-> cpu=1.2345", "expected processors such as 0.5 or 500m" },
    { "-> cpu=1.5m", "expected processors" },
    { "-> cpu=1025", "expected processors" },
    { "-> timeout=0", "expected seconds from 1 to 300" },
    { "-> timeout=301s", "expected seconds from 1 to 300" },
    { "-> timeout=5m", "expected seconds from 1 to 300" },
    { "-> group=", "expected the name of a group" },
    { "-> group<=a", "expected = alone" },
    { "-> extension:=a", "expected a name of 1 to 64" },
    { "-> config:A=B=C config:A/B=c", "expected a name" },
    { "-> refuse=399 no", "expected a status from 400 to 599" },
    { "-> refuse=4040 no", "expected a status from 400 to 599" },
    { "-> refuse=404", "expected a sentence of 1 to 200 bytes" },
    { "-> refuse=404->x", "expected a status from 400 to 599, a blank" },
    { "a=b a=b a=b a=b a=b a=b a=b a=b a=b -> stop", "expected app, app_id" },
    { "app=b app=b app=b app=b app=b app=b app=b app=b app=b -> stop",
      "expected at most 8 words before the arrow" },
    { "-> cpu=1 cpu=1 cpu=1 cpu=1 cpu=1 cpu=1 cpu=1 cpu=1 cpu=1",
      "expected at most 8 words behind the arrow" },
    { "-> refuse=404 " TEN(TEN("abc")), "expected a sentence of 1 to 200 bytes" },
    { "-> refuse=404 " TEN(TEN("abcdefghijk")), "expected a rule of at most 1024 bytes" },
};

START_TEST(wrong_rules)
{
    const char *items[] = { "-> stop", wrongs[_i].rule };
    const struct fn_strlist list = { items, 2 };
    struct fn_error e = FN_ERROR_INIT;
    struct rules r;

    ck_assert_int_eq(rules_read(&r, &list, &e), FN_E_INVALID);
    ck_assert_msg(strncmp(e.msg, "rules[1]: got \"", 15) == 0, "%s", e.msg);
    ck_assert_msg(strstr(e.msg, wrongs[_i].said) != NULL, "%s", e.msg);
    ck_assert_msg(strlen(e.msg) < FN_ERROR_TEXT_MAX - 40, "no room for the host: %s", e.msg);
    ck_assert_int_eq(rules_read(&r, &list, NULL), FN_E_INVALID);
}
END_TEST

START_TEST(how_many_rules)
{
    const char *items[RULES_MAX + 1];
    struct fn_strlist list = { items, 0 };
    struct fn_error e = FN_ERROR_INIT;
    struct rules r;

    for (uint32_t i = 0; i <= RULES_MAX; i++) {
        items[i] = "->stop";
    }
    ck_assert_int_eq(rules_read(&r, &list, &e), FN_E_INVALID);
    ck_assert_str_eq(e.msg, "rules: got a list of 0; expected 1 to 128");
    list.n = RULES_MAX + 1;
    ck_assert_int_eq(rules_read(&r, &list, &e), FN_E_INVALID);
    list.n = RULES_MAX;
    ck_assert_int_eq(rules_read(&r, &list, &e), 0);
    rules_finish(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("override-rules");
    TCase *t = tcase_create("rules");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_loop_test(t, pattern, 0, sizeof(patterns) / sizeof(patterns[0]));
    tcase_add_loop_test(t, tests_of_calls, 0, sizeof(tests) / sizeof(tests[0]));
    tcase_add_loop_test(t, numbers_of_calls, 0, sizeof(numbers) / sizeof(numbers[0]));
    tcase_add_test(t, texts_of_calls);
    tcase_add_test(t, rules_come_in_their_order);
    tcase_add_loop_test(t, refused_calls, 0, sizeof(refusals) / sizeof(refusals[0]));
    tcase_add_test(t, no_memory_refuses);
    tcase_add_loop_test(t, wrong_rules, 0, sizeof(wrongs) / sizeof(wrongs[0]));
    tcase_add_test(t, how_many_rules);
    suite_add_tcase(s, t);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
