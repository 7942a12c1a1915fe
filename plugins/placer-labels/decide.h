/* Labels: what another placer decides, among the runners that have the labels which the call's
 * function asks for. Pure: annotations and time come from outside, the inner placer is a table.
 *
 * The inner placer is shown a part of the list as if it were the whole one, with its index of it.
 * A part costs what publishing a list of its length costs: of a short list it is made when the
 * first call asks for it, of a long one soon after, and the call waits that long. A new list has
 * the parts for the demands of the last minute from the beginning, as far as their lengths together
 * are at most PARTS_TIMES its own. */
#ifndef PLACER_LABELS_DECIDE_H
#define PLACER_LABELS_DECIDE_H

#include "part.h"

#define PART_NOW_MAX 256u /* runners of a list of which a part is made within a decision */
#define PARTS_TIMES  2u
#define DEMAND_KEPT_NS 60000000000

struct labels_options {
    const char *inner;
    const char *annotation;
    const char *none; /* "wait" or "give-up" */
};

enum labels_state { LABELS_UNREAD, LABELS_ANY, LABELS_SOME, LABELS_WRONG };

/* Per call, host memory; the last part is the inner placer's. */
struct labels_session {
    uint32_t state; /* enum labels_state */
    uint32_t place; /* LABELS_SOME: of the demand, while it has that generation */
    uint32_t generation;
    uint32_t asked_at; /* round + 1 in which the inner one was asked first; 0 = not yet */
    _Alignas(16) unsigned char inner[];
};

/* Less than there may be, so that slowstart can wrap this one. */
#define LABELS_SESSION_SIZE 184u
#define LABELS_INNER_MAX    (LABELS_SESSION_SIZE - (uint32_t)offsetof(struct labels_session, inner))

struct labels {
    const struct labels_options *options;
    struct wrapped inner;
    struct demands demands;
    const char *(*annotation)(void *ud, const struct fn_call *call); /* JSON or NULL */
    void (*later)(void *ud); /* a part is wanted: labels_make_next() */
    void *ud;
};

int labels_decide(struct labels *l, const struct fn_ask *ask, struct fn_answer *ret);
void labels_observe(struct labels *l, const struct fn_placed *what, int64_t now_ns);
/* 0 or FN_E_EXHAUSTED. */
int labels_parts_create(struct labels *l, const struct fn_snapshot *snap, int64_t now_ns,
                        struct parts **ret);
void labels_parts_destroy(struct labels *l, struct parts *p);
/* Makes one part that is wanted; 0: none was. */
int labels_make_next(struct labels *l, struct parts *p);

#endif
