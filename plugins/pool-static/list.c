#include "list.h"

#include "address.h"

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

struct entry {
    const char *address;
    uint64_t index;
};

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->address, ((const struct entry *)b)->address);
}

static int check_twice(const struct fn_strlist *runners, struct fn_error *reterr)
{
    struct entry *sorted = calloc(runners->n, sizeof(*sorted));
    uint64_t i;
    int r = 0;

    if (!sorted) {
        return FN_E_EXHAUSTED;
    }
    for (i = 0; i < runners->n; i++) {
        sorted[i] = (struct entry){ runners->items[i], i };
    }
    qsort(sorted, runners->n, sizeof(*sorted), by_address);
    for (i = 1; r == 0 && i < runners->n; i++) {
        if (strcmp(sorted[i].address, sorted[i - 1].address) == 0) {
            r = fail(reterr, sorted[i].index, sorted[i].address, "each runner once");
        }
    }
    free(sorted);
    return r;
}

int list_check(const struct fn_strlist *runners, struct fn_error *reterr)
{
    const char *fault;
    uint64_t i;

    if (runners->n == 0 || runners->n > LIST_RUNNERS_MAX) {
        if (reterr) {
            reterr->code = FN_E_INVALID;
            snprintf(reterr->msg, sizeof(reterr->msg),
                     "runners: got a list of %llu; expected 1 to %u addresses",
                     (unsigned long long)runners->n, LIST_RUNNERS_MAX);
        }
        return FN_E_INVALID;
    }
    for (i = 0; i < runners->n; i++) {
        /* "local:" is the runner inside a full node. */
        fault = strcmp(runners->items[i], "local:") ? address_fault(runners->items[i]) : NULL;
        if (fault) {
            return fail(reterr, i, runners->items[i], fault);
        }
    }
    return check_twice(runners, reterr);
}
