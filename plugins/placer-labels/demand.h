/* Demands: the sets of labels that calls ask for. Pure.
 *
 * Each different one that is in use has one of DEMANDS_MAX places, so that what was derived of a
 * list for it is found by its place. The one that was not asked for the longest time makes room for
 * a new one; a place with another generation is another demand. */
#ifndef PLACER_LABELS_DEMAND_H
#define PLACER_LABELS_DEMAND_H

#include <fn/labels.h>

#define DEMANDS_MAX       32u
#define DEMAND_TEXT_BYTES (FN_LABELS_TEXT_MAX + 1)

struct demand {
    char text[DEMAND_TEXT_BYTES]; /* a set of labels, not "" */
    uint32_t generation;          /* 0 = free */
    uint32_t hash;
    uint64_t used; /* turn of the last call */
    int64_t used_ns;
};

struct demands {
    struct demand list[DEMANDS_MAX];
    uint64_t turns;
    uint32_t generations;
};

/* What an annotation asks for: a JSON object of texts, {"zone": "a"}, or a JSON text,
 * "zone=a class=gpu". 0 with a set of labels, "" when nothing is asked for; FN_E_INVALID: something
 * else. */
int demand_read(const char *json, char ret[DEMAND_TEXT_BYTES]);
/* The place of that set of labels, which is used now. */
uint32_t demands_take(struct demands *d, const char *text, int64_t now_ns);
void demands_use(struct demands *d, uint32_t place, int64_t now_ns);

#endif
