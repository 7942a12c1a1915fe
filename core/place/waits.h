/* What is learnt of how long calls wait at runners. */
#ifndef PLACE_WAITS_H
#define PLACE_WAITS_H

#include <place/place.h>

struct waits;

#define WAITS_LOADS 8u

struct waits_mean {
    int64_t ns;
    int64_t n; /* calls in it, at most those that count */
};

struct waits_means {
    struct waits_mean of[2][WAITS_LOADS]; /* [warm][load] */
};

struct waits *waits_create(void); /* NULL: no memory */
void waits_destroy(struct waits *w);
struct waits_class waits_class_of(const struct waits *w, uint64_t fn, uint64_t runner,
                                  uint32_t inflight, int64_t now_ns);
void waits_learn(struct waits *w, struct waits_means *m, struct waits_class class, uint64_t fn,
                 uint64_t runner, int64_t wait_ns, int64_t now_ns);
/* -1: nothing is known. */
int64_t waits_predict(const struct waits_means *m, struct waits_class class);

#endif
