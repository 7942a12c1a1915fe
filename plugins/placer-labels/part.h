/* Parts of a list: the runners that have the labels of one demand, as a list of their own that the
 * inner placer is shown, with its index of it. */
#ifndef PLACER_LABELS_PART_H
#define PLACER_LABELS_PART_H

#include "demand.h"
#include "wrap.h"

struct part {
    uint32_t generation; /* of the demand that it is for */
    uint32_t n;
    int whole;           /* all runners of the list: nothing was copied */
    uint32_t reserved0;
    uint32_t *at;        /* n: their places in the list, growing */
    uint32_t *inflight;  /* n: as last gathered */
    unsigned char *runners; /* n, with the list's stride */
    void *index;         /* the inner placer's, or NULL */
};

/* What is derived of a list. */
struct parts {
    struct fn_snapshot snap; /* the list; lives as long as this */
    void *index;             /* the inner placer's of the whole list, or NULL */
    struct part *part[DEMANDS_MAX]; /* by the demand's place; NULL = none yet */
    uint32_t wanted;         /* places whose part is to be made, as bits */
    uint32_t reserved0;
    struct parts *next;      /* of those that the instance knows */
};

/* Makes the part for a demand in the place of the one that is there. FN_E_EXHAUSTED: no memory, and
 * there is none. */
int part_make(const struct wrapped *w, struct parts *of, uint32_t place, const struct demand *d);
void part_drop(const struct wrapped *w, struct parts *of, uint32_t place);
/* The part for a demand; NULL: it is not made yet. */
struct part *part_find(const struct parts *of, uint32_t place, const struct demand *d);
/* The part as a list, with what `snap`, the list, says now. */
struct fn_snapshot part_view(const struct part *p, const struct parts *of,
                             const struct fn_snapshot *snap);
/* Gathers the counts of the part; their sum. */
uint64_t part_gather(struct part *p, const uint32_t *inflight);
/* Place in the part of a runner of the list; p->n when it is none of it. */
uint32_t part_place(const struct part *p, uint32_t index);

#endif
