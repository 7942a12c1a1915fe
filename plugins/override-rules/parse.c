/* Rules from text. Each row of the two tables is one word that a rule may have. */
#include "rules.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define ARROW        "->"
#define BLANKS       " \t\n"
#define SHOWN_MAX    48 /* bytes of a wrong word that a sentence shows */
#define SENTENCE_MAX 200
#define NAME_BYTES   64

struct reader {
    const char *at;   /* what is not read yet */
    const char *word; /* the one that was read last, for sentences */
    char *out;        /* where words without their quotes go: never more than was read */
    uint32_t index;
    struct fn_error *reterr;
};

static int wrong(const struct reader *r, const char *expected)
{
    int len = (int)(r->at - r->word);

    return fail_user(r->reterr, FN_E_INVALID, 0, "rules[%u]: got \"%.*s\"; expected %s", r->index,
                     len < SHOWN_MAX ? len : SHOWN_MAX, r->word, expected);
}

/* ---- words ----------------------------------------------------------------------------------- */

static int is_arrow(const char *s)
{
    return strncmp(s, ARROW, sizeof(ARROW) - 1) == 0;
}

static int is_end(const char *s)
{
    return *s == '\0' || strchr(BLANKS, *s) || is_arrow(s);
}

/* The next word without its quotes; NULL at an arrow and at the end. */
static int read_word(struct reader *r, char **ret)
{
    int quoted = 0;

    r->word = r->at += strspn(r->at, BLANKS);
    *ret = is_end(r->at) ? NULL : r->out;
    for (; *r->at && (quoted || !is_end(r->at)); r->at++) {
        if (*r->at == '\'') {
            quoted = !quoted;
        } else {
            *r->out++ = *r->at;
        }
    }
    if (quoted) {
        return wrong(r, "a second ' behind the value");
    }
    if (*ret) {
        *r->out++ = '\0';
    }
    return 0;
}

/* "header:X-Plan!=gold" in its parts. */
struct parts {
    const char *key;
    const char *name; /* behind the colon; "": none */
    char sign;        /* before the =: one of `signs`, or 0 */
    const char *value;
};

static int split_word(struct reader *r, char *word, const char *signs, struct parts *ret)
{
    char *equals = strchr(word, '=');
    char *colon;

    if (!equals || equals == word) {
        return wrong(r, "a word such as key=value");
    }
    *ret = (struct parts){ .key = word, .name = "", .value = equals + 1 };
    if (strchr(signs, equals[-1])) {
        ret->sign = *--equals;
    }
    *equals = '\0';
    colon = strchr(word, ':');
    if (colon) {
        *colon = '\0';
        ret->name = colon + 1;
    }
    return 0;
}

/* Names of headers, variables and extensions: what all of these may have. */
static int check_name(struct reader *r, const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    return len > 0 && len <= NAME_BYTES && name[len] == '\0'
               ? 0
               : wrong(r, "a name of 1 to 64 letters, digits, _ . - behind the colon");
}

/* ---- which calls ----------------------------------------------------------------------------- */

#define TEST_WORDS                                                                                 \
    "app, app_id, function, trigger, image, method, type, header:NAME, config:NAME or "            \
    "extension:NAME"

static const struct {
    const char *key;
    enum test_kind kind;
    uint32_t text_id;
} test_rows[] = {
    { "app", TEST_TEXT, FN_TEXT_APP_NAME },
    { "app_id", TEST_TEXT, FN_TEXT_APP_ID },
    { "function", TEST_TEXT, FN_TEXT_FN_ID },
    { "trigger", TEST_TEXT, FN_TEXT_TRIGGER_ID },
    { "image", TEST_TEXT, FN_TEXT_IMAGE },
    { "method", TEST_TEXT, FN_TEXT_METHOD },
    { "type", TEST_TEXT, FN_TEXT_TYPE },
    { "header", TEST_HEADER, 0 },
    { "config", TEST_CONFIG, 0 },
    { "extension", TEST_EXTENSION, 0 },
};

static int read_test(struct reader *r, char *word, struct test *ret)
{
    struct parts p;
    size_t i = 0;

    if (split_word(r, word, "!", &p) < 0) {
        return FN_E_INVALID;
    }
    while (i < sizeof(test_rows) / sizeof(test_rows[0]) && strcmp(test_rows[i].key, p.key) != 0) {
        i++;
    }
    if (i == sizeof(test_rows) / sizeof(test_rows[0]) ||
        (test_rows[i].kind == TEST_TEXT) != (p.name[0] == '\0')) {
        return wrong(r, TEST_WORDS);
    }
    *ret = (struct test){ .kind = test_rows[i].kind,
                          .text_id = test_rows[i].text_id,
                          .name = p.name,
                          .pattern = p.value,
                          .differs = p.sign == '!' };
    return ret->kind == TEST_TEXT ? 0 : check_name(r, p.name);
}

/* ---- what becomes of them -------------------------------------------------------------------- */

#define SET_WORDS                                                                                  \
    "memory, cpu, tmpfs, timeout, idle_timeout, group, config:NAME, extension:NAME, refuse or stop"

struct number_row {
    const char *key;
    uint32_t field;
    uint32_t least;
    uint32_t most;
    char unit; /* may stand behind the number */
    const char *expected;
};

static const struct number_row number_rows[] = {
    { "memory", FN_FIELD_MEM_MB, 1, 1u << 20, 0, "megabytes from 1 to 1048576" },
    { "cpu", FN_FIELD_CPU_MILLI, 0, 1024000, 'm', "processors such as 0.5 or 500m, 0 to 1024" },
    { "tmpfs", FN_FIELD_TMPFS_MB, 0, 1u << 20, 0, "megabytes from 0 to 1048576" },
    { "timeout", FN_FIELD_TIMEOUT_S, 1, 300, 's', "seconds from 1 to 300" },
    { "idle_timeout", FN_FIELD_IDLE_TIMEOUT_S, 1, 3600, 's', "seconds from 1 to 3600" },
};

/* Digits and no more than `digits_max` of them. */
static uint64_t read_digits(const char **at, uint32_t digits_max, uint32_t *ret_n)
{
    uint64_t v = 0;
    uint32_t n = 0;

    while (n < digits_max && **at >= '0' && **at <= '9') {
        v = v * 10 + (uint64_t)(*(*at)++ - '0');
        n++;
    }
    *ret_n = n;
    return v;
}

/* 0.5 and 500m are the same for a unit of thousandths. */
static int read_number(const struct number_row *row, const char *text, uint64_t *ret)
{
    static const uint32_t scale[] = { 1000, 100, 10, 1 };
    uint32_t n;
    uint32_t behind = 0;

    *ret = read_digits(&text, 7, &n);
    if (n > 0 && row->unit == 'm' && *text != 'm') {
        *ret *= 1000;
        if (*text == '.') {
            text++;
            *ret += read_digits(&text, 3, &behind) * scale[behind];
        }
    } else if (row->unit && *text == row->unit) {
        text++;
    }
    return n > 0 && *text == '\0' && *ret >= row->least && *ret <= row->most ? 0 : FN_E_INVALID;
}

static int read_set_number(struct reader *r, const struct number_row *row, const struct parts *p,
                           struct set *ret)
{
    *ret = (struct set){ .kind = SET_NUMBER, .field = row->field };
    ret->bound = p->sign == '<' ? BOUND_MOST : p->sign == '>' ? BOUND_LEAST : BOUND_EXACT;
    return read_number(row, p->value, &ret->number) == 0 ? 0 : wrong(r, row->expected);
}

/* The rest of the rule is the sentence. */
static int read_refusal(struct reader *r, const struct parts *p, struct set *ret)
{
    const char *digits = p->value;
    uint32_t n;
    size_t len;

    *ret = (struct set){ .kind = SET_REFUSED, .text = r->out };
    ret->number = read_digits(&digits, 3, &n);
    if (ret->number < 400 || ret->number > 599 || *digits || is_arrow(r->at)) {
        return wrong(r, "a status from 400 to 599, a blank and a sentence");
    }
    r->word = r->at += strspn(r->at, BLANKS);
    len = strlen(r->at);
    while (len > 0 && strchr(BLANKS, r->at[len - 1])) {
        len--;
    }
    r->at += len;
    if (len == 0 || len > SENTENCE_MAX) {
        return wrong(r, "a sentence of 1 to 200 bytes behind the status");
    }
    memcpy(r->out, r->word, len);
    r->out[len] = '\0';
    r->out += len + 1;
    r->at += strspn(r->at, BLANKS);
    return 0;
}

static int read_set_text(struct reader *r, const struct parts *p, struct set *ret)
{
    if (strcmp(p->key, "group") == 0 && p->name[0] == '\0') {
        *ret = (struct set){ .kind = SET_CONFIG, .name = GROUP_VARIABLE, .text = p->value };
        return p->value[0] ? 0 : wrong(r, "the name of a group");
    }
    if (strcmp(p->key, "config") == 0 || strcmp(p->key, "extension") == 0) {
        *ret = (struct set){ .kind = p->key[0] == 'c' ? SET_CONFIG : SET_EXTENSION,
                             .name = p->name,
                             .text = p->value };
        return check_name(r, p->name);
    }
    return wrong(r, SET_WORDS);
}

static int read_set(struct reader *r, char *word, struct set *ret)
{
    struct parts p;

    if (strcmp(word, "stop") == 0) {
        *ret = (struct set){ .kind = SET_STOP };
        return 0;
    }
    if (split_word(r, word, "<>", &p) < 0) {
        return FN_E_INVALID;
    }
    for (size_t i = 0; i < sizeof(number_rows) / sizeof(number_rows[0]); i++) {
        if (strcmp(number_rows[i].key, p.key) == 0 && p.name[0] == '\0') {
            return read_set_number(r, &number_rows[i], &p, ret);
        }
    }
    if (p.sign) {
        return wrong(r, "= alone: most and least are for numbers");
    }
    return strcmp(p.key, "refuse") == 0 ? read_refusal(r, &p, ret) : read_set_text(r, &p, ret);
}

/* ---- one rule, and all ----------------------------------------------------------------------- */

static int read_tests(struct reader *r, struct rule *ret)
{
    char *word;

    while (read_word(r, &word) == 0) {
        if (!word) {
            return 0;
        }
        if (ret->n_tests == RULE_TESTS_MAX) {
            return wrong(r, "at most 8 words before the arrow");
        }
        if (read_test(r, word, &ret->tests[ret->n_tests++]) < 0) {
            return FN_E_INVALID;
        }
    }
    return FN_E_INVALID;
}

static int read_sets(struct reader *r, struct rule *ret)
{
    char *word;

    while (read_word(r, &word) == 0) {
        if (!word) {
            return *r->at == '\0' && ret->n_sets > 0 ? 0 : wrong(r, SET_WORDS);
        }
        if (ret->n_sets == RULE_SETS_MAX) {
            return wrong(r, "at most 8 words behind the arrow");
        }
        if (ret->n_sets > 0 && ret->sets[ret->n_sets - 1].kind == SET_STOP) {
            return wrong(r, "nothing behind stop");
        }
        if (read_set(r, word, &ret->sets[ret->n_sets++]) < 0) {
            return FN_E_INVALID;
        }
    }
    return FN_E_INVALID;
}

static int read_rule(struct reader *r, const char *text, struct rule *ret)
{
    r->at = r->word = text;
    if (strnlen(text, RULE_BYTES_MAX + 1) > RULE_BYTES_MAX) {
        r->at = text + SHOWN_MAX;
        return wrong(r, "a rule of at most 1024 bytes");
    }
    if (read_tests(r, ret) < 0) {
        return FN_E_INVALID;
    }
    if (!is_arrow(r->at)) {
        r->word = text;
        return wrong(r, "-> between the calls that are meant and what becomes of them");
    }
    r->at += sizeof(ARROW) - 1;
    return read_sets(r, ret);
}

int rules_read(struct rules *r, const struct fn_strlist *list, struct fn_error *reterr)
{
    struct reader reader = { .reterr = reterr };
    size_t bytes = 0;
    int result = 0;

    *r = (struct rules){ 0 };
    if (list->n == 0 || list->n > RULES_MAX) {
        return fail_user(reterr, FN_E_INVALID, 0, "rules: got a list of %llu; expected 1 to %u",
                         (unsigned long long)list->n, RULES_MAX);
    }
    for (uint64_t i = 0; i < list->n; i++) {
        bytes += strlen(list->items[i]) + 1;
    }
    r->rule = calloc(list->n, sizeof(*r->rule));
    reader.out = r->text = malloc(bytes);
    result = r->rule && r->text ? 0 : FN_E_EXHAUSTED;
    for (; result == 0 && r->n < list->n; r->n++) {
        reader.index = r->n;
        result = read_rule(&reader, list->items[r->n], &r->rule[r->n]);
    }
    if (result < 0) {
        rules_finish(r);
    }
    return result;
}

void rules_finish(struct rules *r)
{
    free(r->rule);
    free(r->text);
    *r = (struct rules){ 0 };
}
