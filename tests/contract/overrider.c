/* Suite "overrider": fn/override.h. */
#include "outside.h"
#include "suites.h"

#include <stdio.h>
#include <string.h>

static struct fn_edit *edit_new(uint32_t salt)
{
    static const char *const values[] = {NULL, "", "x", "true", "17", "-1", "{\"a\":[1,2]}"};
    struct fn_edit *e = fence_alloc(sizeof(*e), 8, "an edit", "apply() had answered");

    *e = (struct fn_edit){
        .fields = {0, 128, 1000, 64, 30, 30},
        .texts = {NULL, "01CALL", "01FN", "01APP", "app", "fnproject/hello:0.0.1", "GET",
                  "/invoke/01FN", "", "sync"},
        .header_value = values[salt % 7],
        .config_value = values[salt / 7 % 7],
        .annotation_value = values[salt / 49 % 7],
        .extension_value = values[(salt + 3) % 7],
    };
    return e;
}

/* Applies it; the edit can be neither read nor written afterwards. */
static int apply(struct instance *in, struct fn_edit *e, struct fn_error *ret, bool with_reterr)
{
    const struct fn_override_ops *ops = instance_ops(in);
    uint32_t sets;
    int r;

    *ret = ERR_INIT;
    enter(in, LOOP, "apply");
    edit_open = e;
    r = ops->apply(in->inst, e, with_reterr ? reterr_of(ret) : NULL);
    edit_open = NULL;
    sets = e->sets;
    leave();
    fence_free(e);
    must(r == FN_PASS || r == FN_CHANGED || (r < 0 && r >= FN_E_UNAUTHENTICATED),
         "apply() returned %d; expected FN_PASS, FN_CHANGED or FN_E_*", r);
    must(r != FN_PASS || sets == 0, "apply() returned FN_PASS after %u edits; expected FN_CHANGED",
         sets);
    must(memchr(ret->msg, '\0', sizeof(ret->msg)),
         "apply() left a text in reterr that does not end");
    must(r < 0 || ret->msg[0] == '\0',
         "apply() returned %d and wrote \"%.60s\" to reterr; it is written only on failure", r,
         ret->msg);
    trace_u64((uint64_t)(int64_t)r);
    trace_u64(sets);
    return r;
}

void overrider_exercise(struct instance *in, bool tolerant)
{
    struct fn_error e;
    uint32_t i;

    (void)tolerant;
    for (i = 0; i < 60; i++) {
        apply(in, edit_new(i * 7 + (uint32_t)(chance() % 300)), &e, i % 3);
    }
    clock_advance(10 * ENV_S);
}

static void test_any_call(void)
{
    struct instance *in = instance_new();
    struct fn_error e;
    uint32_t i;

    for (i = 0; i < 400; i++) {
        step("call %u: header %s", i, i % 7 ? "set" : "absent");
        apply(in, edit_new(i), &e, true);
    }
    instance_destroy(in);
}

static void test_bare_call(void)
{
    struct instance *in = instance_new();
    struct fn_error e;
    struct fn_edit *edit = edit_new(0);

    step("a call without header, configuration, annotation, extension, texts and numbers");
    memset(edit, 0, sizeof(*edit));
    apply(in, edit, &e, true);
    instance_destroy(in);
}

static void test_long_texts(void)
{
    static char text[65536];
    struct instance *in = instance_new();
    struct fn_error e;
    struct fn_edit *edit = edit_new(0);

    memset(text, 'x', sizeof(text) - 1);
    step("texts of 64 KiB");
    edit->header_value = edit->config_value = edit->annotation_value = edit->extension_value = text;
    apply(in, edit, &e, true);
    instance_destroy(in);
}

static void test_refused_edits(void)
{
    struct instance *in = instance_new();
    struct fn_error e;
    uint32_t i;

    for (i = 0; i < 40; i++) {
        struct fn_edit *edit = edit_new(i);

        step("the first %u edits are refused", i % 4 + 1);
        edit->refuse_sets = i % 4 + 1;
        if (apply(in, edit, &e, i % 2) < 0 && i % 2) {
            must(is_told(&e), "apply() rejected the call without a text; expected one sentence");
        }
    }
    instance_destroy(in);
}

/* Texts are borrowed until apply() returns: they are gone afterwards. */
static void test_borrowed(void)
{
    struct instance *in = instance_new();
    struct fn_error e;
    uint32_t i;

    for (i = 0; i < 50; i++) {
        char *value = fence_alloc(16, 1, "a text of a call", "apply() had answered");
        struct fn_edit *edit = edit_new(0);

        snprintf(value, 16, "v%u", i % 3);
        step("texts of the call before are gone");
        edit->header_value = edit->config_value = edit->annotation_value = value;
        edit->extension_value = value;
        apply(in, edit, &e, true);
        fence_free(value);
    }
    instance_destroy(in);
}

static void test_same_again(void)
{
    struct instance *in = instance_new();
    struct fn_error e;
    uint64_t first = 0;
    uint32_t i;

    for (i = 0; i < 30; i++) {
        trace_reset();
        apply(in, edit_new(15), &e, true);
        must(i == 0 || trace_value() == first,
             "apply() made other edits for the same call the %u. time; expected the same", i + 1);
        first = trace_value();
        clock_jump(ENV_S);
    }
    instance_destroy(in);
}

/* What an overrider arms fires after its apply(), and before the next one. */
static void test_edit_gone(void)
{
    struct instance *in = instance_new();
    struct fn_error e;

    for (uint32_t i = 0; i < 60; i++) {
        step("%u calls have been answered, %u s ago", i + 1, i % 5);
        apply(in, edit_new(i), &e, true);
        clock_advance((int64_t)(i % 5) * ENV_S);
    }
    clock_advance(60 * ENV_S);
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "overrider", "any-call", "apply() returns FN_PASS, FN_CHANGED or FN_E_*, true to what it did",
      test_any_call, ALSO_REAL },
    { "overrider", "bare-call", "a call may lack everything", test_bare_call, 0 },
    { "overrider", "long-texts", "texts may be 64 KiB long", test_long_texts, 0 },
    { "overrider", "refused-edits", "an edit may be refused", test_refused_edits, 0 },
    { "overrider", "edit-gone", "an edit is not used after its apply() has answered",
      test_edit_gone, 0 },
    { "overrider", "borrowed", "texts are borrowed until apply() returns", test_borrowed, 0 },
    { "overrider", "same-again", "the same call gets the same edits", test_same_again, 0 },
};

struct contract_list overrider_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
