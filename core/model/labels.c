/* Sorting sets of labels, of which there are at most FN_LABELS_MAX. */
#include <model/labels.h>

#include <string.h>

/* Behind those with a smaller key. */
static void insert(struct fn_label *list, uint32_t n, struct fn_label l)
{
    while (n > 0 && fn_label_order(&list[n - 1], &l) > 0) {
        list[n] = list[n - 1];
        n--;
    }
    list[n] = l;
}

void labels_sort(const char *labels, char ret[LABELS_BYTES])
{
    struct fn_label list[FN_LABELS_MAX], l;
    char sorted[LABELS_BYTES];
    uint32_t n = 0;
    size_t len = 0;

    while (n < FN_LABELS_MAX && fn_label_next(&labels, &l) > 0) {
        insert(list, n++, l);
    }
    for (uint32_t i = 0; i < n; i++) {
        size_t size = list[i].key_len + 1 + list[i].value_len;

        if (i > 0) {
            sorted[len++] = ',';
        }
        memcpy(sorted + len, list[i].key, size); /* with the = between them */
        len += size;
    }
    memcpy(ret, sorted, len);
    ret[len] = '\0';
}
