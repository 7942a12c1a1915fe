/* Rules: which calls they are for, and what becomes of those.
 *
 *     app=shop-* header:X-Plan!=gold -> memory<=256 timeout=30s extension:plan=basic
 *     app=old -> refuse=410 This app has moved
 *
 * A rule is read once, when the instance is made, and every mistake in it is found then; over a
 * call it can fail only for want of memory. docs/overriders.md has all words. */
#ifndef OVERRIDE_RULES_H
#define OVERRIDE_RULES_H

#include <fn/override.h>

#define RULES_MAX      128u
#define RULE_BYTES_MAX 1024u
#define RULE_TESTS_MAX 8u /* of one rule, on each side of the arrow */
#define RULE_SETS_MAX  8u

#define GROUP_VARIABLE "FN_LB_GROUP_ID" /* what names the group of a call, in its config */
#define MEMORY_VARIABLE "FN_MEMORY"

enum test_kind { TEST_TEXT, TEST_HEADER, TEST_CONFIG, TEST_EXTENSION };

struct test {
    enum test_kind kind;
    uint32_t text_id; /* TEST_TEXT */
    const char *name; /* the others */
    const char *pattern; /* `*` stands for any text, also for none */
    int differs;         /* != */
};

enum set_kind { SET_NUMBER, SET_CONFIG, SET_EXTENSION, SET_REFUSED, SET_STOP };
enum bound { BOUND_EXACT, BOUND_MOST, BOUND_LEAST };

struct set {
    enum set_kind kind;
    enum bound bound;
    uint32_t field;   /* SET_NUMBER */
    uint64_t number;  /* the same; SET_REFUSED: the status */
    const char *name; /* SET_CONFIG, SET_EXTENSION */
    const char *text; /* the same; SET_REFUSED: the sentence */
};

struct rule {
    struct test tests[RULE_TESTS_MAX];
    struct set sets[RULE_SETS_MAX];
    uint32_t n_tests;
    uint32_t n_sets;
};

struct rules {
    struct rule *rule;
    uint32_t n;
    char *text; /* holds what rules point at */
};

/* [init] 0, FN_E_INVALID: "rules[2]: got "cpu=x"; expected ...", FN_E_EXHAUSTED. */
int rules_read(struct rules *r, const struct fn_strlist *list, struct fn_error *reterr);
void rules_finish(struct rules *r);

/* [loop] All rules that match, in their order; each sees what those before it have set. FN_PASS,
 * FN_CHANGED, the refusal of one that refuses, or FN_E_EXHAUSTED. */
int rules_apply(const struct rules *r, const struct fn_edit_if *edit, struct fn_edit *e,
                struct fn_error *reterr);

/* In a time that grows with both texts, not with their product. */
int pattern_matches(const char *pattern, const char *text);

#endif
