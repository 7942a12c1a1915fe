/* Labels as operators write them: "zone=a class=gpu", by themselves or behind an address. Pure. */
#ifndef PLUGINS_LABELLED_H
#define PLUGINS_LABELLED_H

#include <fn/labels.h>
#include <string.h>

/* Makes a set of labels of words between spaces, commas or both. `ret` has strlen(words) + 1 bytes.
 * What is expected of them, or NULL. */
static inline const char *labels_of_words(const char *words, char *ret)
{
    char *to = ret;

    for (words += strspn(words, " ,"); *words; words += strspn(words, " ,")) {
        size_t n = strcspn(words, " ,");

        if (to > ret) {
            *to++ = ',';
        }
        memcpy(to, words, n);
        to += n;
        words += n;
    }
    *to = '\0';
    return fn_labels_fault(ret);
}

/* The same of an option (NULL: no labels) that may be too long. */
static inline const char *labels_of_option(const char *words, char ret[FN_LABELS_TEXT_MAX + 1])
{
    words = words ? words : "";
    if (strlen(words) > FN_LABELS_TEXT_MAX) {
        return "labels of at most 255 bytes";
    }
    return labels_of_words(words, ret);
}

struct labelled {
    const char *text;
    const char *labels; /* NULL: none */
    const char *fault;  /* what is expected of the labels, or NULL */
};

/* "10.0.0.1:9190 zone=a class=gpu": splits the item into `store`, of which it takes at most
 * strlen(item) + 1 bytes. Where the next one may be stored. */
static inline char *labelled_split(struct labelled *ret, const char *item, char *store)
{
    size_t len = item[0] ? 1 + strcspn(item + 1, " ") : 0;

    *ret = (struct labelled){ .text = store };
    memcpy(store, item, len);
    store[len] = '\0';
    store += len + 1;
    if (item[len]) {
        ret->fault = labels_of_words(item + len, store);
        ret->labels = *store ? store : NULL;
        store += strlen(store) + 1;
    }
    return store;
}

/* Bytes that a list of items needs. */
static inline size_t labelled_bytes(const struct fn_strlist *items)
{
    size_t bytes = 1;

    for (uint64_t i = 0; i < items->n; i++) {
        bytes += strlen(items->items[i]) + 1;
    }
    return bytes;
}

#endif
