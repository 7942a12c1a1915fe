/* Labels of runners: which kind of machine one is (its zone, its class, any key), for placers that
 * keep calls to some of them.
 *
 * A set of labels is one text: "class=gpu,zone=a". Keys and values are 1 to FN_LABEL_MAX of the
 * characters a-z A-Z 0-9 . _ - / each, a key stands in it once, at most FN_LABELS_MAX labels and
 * FN_LABELS_TEXT_MAX bytes; "" and NULL are no labels. What the host hands out is sorted by key, so
 * that equal sets are equal texts, and equal sets of one snapshot are one text; what plugins hand
 * in may have any order. */
#ifndef FN_LABELS_H
#define FN_LABELS_H

#include <fn/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_LABELS_MAX      16u
#define FN_LABELS_TEXT_MAX 255u
#define FN_LABEL_MAX       63u

/* One label of a set, neither text with an end of its own. */
struct fn_label {
    const char *key;
    const char *value;
    uint32_t key_len;
    uint32_t value_len;
};

static inline int fn_label_has(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '-' && c <= '9') || c == '_';
}

static inline uint32_t fn_label_word(const char *s)
{
    uint32_t n = 0;

    while (n <= FN_LABEL_MAX && fn_label_has(s[n])) {
        n++;
    }
    return n;
}

/* The label at *at, which moves behind it. 1, 0 at the end, FN_E_INVALID: no set of labels. */
static inline int fn_label_next(const char **at, struct fn_label *ret)
{
    const char *s = *at;

    if (!s || *s == '\0') {
        return 0;
    }
    ret->key = s;
    ret->key_len = fn_label_word(s);
    s += ret->key_len;
    if (ret->key_len == 0 || ret->key_len > FN_LABEL_MAX || *s != '=') {
        return FN_E_INVALID;
    }
    ret->value = ++s;
    ret->value_len = fn_label_word(s);
    s += ret->value_len;
    if (ret->value_len == 0 || ret->value_len > FN_LABEL_MAX || (*s != '\0' && *s != ',') ||
        (*s == ',' && s[1] == '\0')) {
        return FN_E_INVALID;
    }
    *at = s + (*s == ',');
    return 1;
}

/* < 0, 0 or > 0, as strcmp() of the keys. */
static inline int fn_label_order(const struct fn_label *a, const struct fn_label *b)
{
    uint32_t i = 0;

    while (i < a->key_len && i < b->key_len && a->key[i] == b->key[i]) {
        i++;
    }
    return (i < a->key_len ? (unsigned char)a->key[i] : 0) -
           (i < b->key_len ? (unsigned char)b->key[i] : 0);
}

/* What is wrong with a text that is to be a set of labels, as what is expected; NULL: nothing. Reads
 * at most FN_LABELS_TEXT_MAX + 1 bytes. */
static inline const char *fn_labels_fault(const char *labels)
{
    struct fn_label l[FN_LABELS_MAX];
    uint32_t bytes = 0;
    uint32_t n = 0;
    uint32_t i;
    int r = 0;

    while (labels && labels[bytes] != '\0') {
        if (++bytes > FN_LABELS_TEXT_MAX) {
            return "labels of at most 255 bytes";
        }
    }
    while (n < FN_LABELS_MAX && (r = fn_label_next(&labels, &l[n])) > 0) {
        for (i = 0; i < n; i++) {
            if (fn_label_order(&l[i], &l[n]) == 0) {
                return "each label once";
            }
        }
        n++;
    }
    if (r > 0 && *labels != '\0') {
        return "at most 16 labels";
    }
    return r >= 0 ? NULL
                  : "labels such as zone=a: a key and a value of 1 to 63 letters, digits, . _ - /";
}

/* 1 when `labels` has every label of `wanted`; both are sets of labels. */
static inline int fn_labels_match(const char *labels, const char *wanted)
{
    struct fn_label has;
    struct fn_label want;

    while (fn_label_next(&wanted, &want) > 0) {
        const char *at = labels;
        uint32_t i = 0;

        do {
            if (fn_label_next(&at, &has) <= 0) {
                return 0;
            }
        } while (fn_label_order(&has, &want) != 0);
        while (i < want.value_len && i < has.value_len && has.value[i] == want.value[i]) {
            i++;
        }
        if (i < want.value_len || i < has.value_len) {
            return 0;
        }
    }
    return 1;
}

#ifdef __cplusplus
}
#endif
#endif /* FN_LABELS_H */
