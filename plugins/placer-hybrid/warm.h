/* Warm: at which runners a function probably has an idle container, learned from calls that ended.
 *
 * A bounded table: WARM_SETS * WARM_WAYS functions with up to WARM_PAIRS runners each. A call that
 * ends well leaves one idle container, a call that is sent takes one, and what was not used for a
 * while is cold. It is a guess: other load balancers send calls too, runners evict. Idle containers
 * of known functions are also counted per runner, because a call that is sent where memory is full
 * of them evicts one. */
#ifndef PLACER_HYBRID_WARM_H
#define PLACER_HYBRID_WARM_H

#include <stdint.h>

#define WARM_SETS    512u
#define WARM_WAYS    4u
#define WARM_PAIRS   8u
#define WARM_RUNNERS 65536u /* two runners that share a number look fuller than they are */
#define WARM_SWEEP   2u     /* functions looked at per call for containers that are cold by now */

struct warm_pair {
    uint64_t runner; /* id */
    int64_t at_ns;   /* when the last call ended */
    uint32_t idle;   /* containers; 0 = entry is free */
    uint32_t reserved0;
};

struct warm_fn {
    uint64_t fn; /* hash of its id */
    int64_t at_ns;
    struct warm_pair pair[WARM_PAIRS];
};

struct warm {
    int64_t keep_ns;
    uint32_t sweep; /* the next function to look at */
    uint32_t reserved0;
    uint16_t idle[WARM_RUNNERS]; /* containers per runner, by hash of id */
    struct warm_fn fn[WARM_SETS][WARM_WAYS];
};

/* NULL when out of memory; free(). */
struct warm *warm_create(int64_t keep_ns);
uint64_t warm_hash(const char *fn_id);
/* What is known of the function, or NULL; pairs that are too old are freed. */
struct warm_fn *warm_of(struct warm *w, uint64_t fn, int64_t now_ns);
/* A call of it ended well there. */
void warm_add(struct warm *w, uint64_t fn, uint64_t runner, int64_t now_ns);
/* A call was sent there, or the runner refused one. */
void warm_take(struct warm *w, struct warm_fn *f, uint64_t runner);
void warm_forget(struct warm *w, struct warm_fn *f, uint64_t runner);
/* Idle containers at a runner. */
uint32_t warm_idle(const struct warm *w, uint64_t runner);
/* Once per call: frees what is too old. */
void warm_sweep(struct warm *w, int64_t now_ns);

#endif
