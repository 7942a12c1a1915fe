/* Each entry of the option becomes an address with its labels; what is wrong, or stands there
 * twice, is told with its number. */
#include "list.h"

#include "address.h"
#include "labelled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(struct fn_error *e, uint64_t index, const char *address, const char *expected)
{
    char shown[64];
    size_t i;

    snprintf(shown, sizeof(shown), "%s", address);
    for (i = 0; shown[i]; i++) {
        if ((unsigned char)shown[i] < 0x20 || shown[i] == 0x7f) {
            shown[i] = '?';
        }
    }
    if (e) {
        e->code = FN_E_INVALID;
        snprintf(e->msg, sizeof(e->msg), "runners[%llu]: got \"%s\"; expected %s",
                 (unsigned long long)index, shown, expected);
    }
    return FN_E_INVALID;
}

static int by_address(const void *a, const void *b)
{
    return strcmp((*(const struct list_entry *const *)a)->address,
                  (*(const struct list_entry *const *)b)->address);
}

static int check_twice(const struct list *l, struct fn_error *reterr)
{
    const struct list_entry **sorted = calloc(l->n, sizeof(*sorted));
    int r = 0;

    if (!sorted) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        sorted[i] = &l->entries[i];
    }
    qsort(sorted, l->n, sizeof(*sorted), by_address);
    for (uint32_t i = 1; r == 0 && i < l->n; i++) {
        if (strcmp(sorted[i]->address, sorted[i - 1]->address) == 0) {
            r = fail(reterr, (uint64_t)(sorted[i] - l->entries), sorted[i]->address,
                     "each runner once");
        }
    }
    free(sorted);
    return r;
}

/* Where the next item may be stored, or NULL. */
static char *take_item(struct list *l, const char *item, char *store, struct fn_error *reterr)
{
    struct labelled said;
    const char *fault;

    store = labelled_split(&said, item, store);
    /* "local:" is the runner inside a full node. */
    fault = strcmp(said.text, "local:") ? address_fault(said.text) : NULL;
    fault = fault ? fault : said.fault;
    if (fault) {
        fail(reterr, l->n, item, fault);
        return NULL;
    }
    l->entries[l->n++] = (struct list_entry){ said.text, said.labels };
    return store;
}

int list_init(struct list *l, const struct fn_strlist *runners, struct fn_error *reterr)
{
    char *at;
    int r;

    *l = (struct list){ 0 };
    if (runners->n == 0 || runners->n > LIST_RUNNERS_MAX) {
        if (reterr) {
            reterr->code = FN_E_INVALID;
            snprintf(reterr->msg, sizeof(reterr->msg),
                     "runners: got a list of %llu; expected 1 to %u addresses",
                     (unsigned long long)runners->n, LIST_RUNNERS_MAX);
        }
        return FN_E_INVALID;
    }
    l->entries = calloc(runners->n, sizeof(*l->entries));
    l->text = malloc(labelled_bytes(runners));
    r = l->entries && l->text ? 0 : FN_E_EXHAUSTED;
    at = l->text;
    for (uint64_t i = 0; r == 0 && i < runners->n; i++) {
        at = take_item(l, runners->items[i], at, reterr);
        r = at ? 0 : FN_E_INVALID;
    }
    r = r < 0 ? r : check_twice(l, reterr);
    if (r < 0) {
        list_finish(l);
    }
    return r;
}

void list_finish(struct list *l)
{
    free(l->entries);
    free(l->text);
    *l = (struct list){ 0 };
}
