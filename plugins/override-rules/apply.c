/* Rules over one call. */
#include "rules.h"

#include "fail.h"

#include <string.h>

int pattern_matches(const char *pattern, const char *text)
{
    size_t first = strcspn(pattern, "*");
    const char *end = text + strlen(text);

    if (strncmp(pattern, text, first) != 0) {
        return 0;
    }
    if (pattern[first] == '\0') {
        return text[first] == '\0';
    }
    for (pattern += first, text += first;; pattern += first) { /* behind each * */
        size_t len = strcspn(++pattern, "*");

        if (pattern[len] == '\0') {
            return (size_t)(end - text) >= len && memcmp(end - len, pattern, len) == 0;
        }
        text = memmem(text, (size_t)(end - text), pattern, len);
        if (!text) {
            return 0;
        }
        text += len;
        first = len;
    }
}

static const char *tested(const struct test *t, const struct fn_edit_if *edit,
                          const struct fn_edit *e)
{
    switch (t->kind) {
    case TEST_TEXT:
        return edit->text(e, t->text_id);
    case TEST_HEADER:
        return edit->header(e, t->name);
    case TEST_CONFIG:
        return edit->config(e, t->name);
    case TEST_EXTENSION:
        return edit->extension(e, t->name);
    }
    return NULL;
}

static int rule_matches(const struct rule *rule, const struct fn_edit_if *edit,
                        const struct fn_edit *e)
{
    for (uint32_t i = 0; i < rule->n_tests; i++) {
        const struct test *t = &rule->tests[i];
        const char *text = tested(t, edit, e);

        /* What is not there equals nothing, so that it differs from everything. */
        if ((text && pattern_matches(t->pattern, text)) == t->differs) {
            return 0;
        }
    }
    return 1;
}

/* 0 for a number means that the function has no limit, or that of the engine. */
static int is_within(const struct set *s, uint64_t now)
{
    return (s->bound == BOUND_MOST && now != 0 && now <= s->number) ||
           (s->bound == BOUND_LEAST && (now == 0 || now >= s->number));
}

static int refuse(const struct set *s, struct fn_error *reterr)
{
    int status = (int)s->number;

    if (status >= 500) {
        return fail(reterr, FN_E_UNAVAILABLE, status, FN_BLAME_PLATFORM, "%s", s->text);
    }
    return fail_user(reterr, status == 429 ? FN_E_EXHAUSTED : FN_E_PERMISSION, status, "%s",
                     s->text);
}

/* The function reads its memory from a variable: both say the same. */
static int set_number(const struct set *s, const struct fn_edit_if *edit, struct fn_edit *e)
{
    char digits[24];
    int r = edit->set_u64(e, s->field, s->number);

    if (r < 0 || s->field != FN_FIELD_MEM_MB) {
        return r;
    }
    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)s->number);
    return edit->set_config(e, MEMORY_VARIABLE, digits);
}

/* FN_PASS: there was nothing to do. */
static int apply_set(const struct set *s, const struct fn_edit_if *edit, struct fn_edit *e)
{
    int r = 0;

    switch (s->kind) {
    case SET_NUMBER:
        if (is_within(s, edit->u64(e, s->field))) {
            return FN_PASS;
        }
        r = set_number(s, edit, e);
        break;
    case SET_CONFIG:
        r = edit->set_config(e, s->name, s->text);
        break;
    case SET_EXTENSION:
        r = edit->set_extension(e, s->name, s->text);
        break;
    case SET_REFUSED:
    case SET_STOP:
        return FN_PASS;
    }
    return r < 0 ? r : FN_CHANGED;
}

int rules_apply(const struct rules *r, const struct fn_edit_if *edit, struct fn_edit *e,
                struct fn_error *reterr)
{
    int result = FN_PASS;

    for (uint32_t i = 0; i < r->n; i++) {
        const struct rule *rule = &r->rule[i];

        if (!rule_matches(rule, edit, e)) {
            continue;
        }
        for (uint32_t k = 0; k < rule->n_sets; k++) {
            const struct set *s = &rule->sets[k];
            int done = s->kind == SET_REFUSED ? refuse(s, reterr) : apply_set(s, edit, e);

            if (done < 0) {
                return s->kind == SET_REFUSED
                           ? done
                           : fail_platform(reterr, done, "rules[%u] could not be applied", i);
            }
            result = done == FN_CHANGED ? FN_CHANGED : result;
            if (s->kind == SET_STOP) {
                return result;
            }
        }
    }
    return result;
}
