/* Waits: how long calls wait at a runner, and what a runner that was only named would have cost.
 *
 * The wait of a call that ended well is the time of its attempt without the execution that the
 * runner reported: the way, the runner's queue, the start of a container. It is learnt under two
 * things that are known when a placer names a runner: the load (calls that this load balancer has
 * there, in classes) and whether the runner is warm for the function (a call of it ended there
 * within WARM_NS). Each pair has a mean in which old calls fade; it is the prediction for the next
 * runner of that class. A class that nothing was learnt of borrows from the nearest one with the
 * same warmth; where there is none, nothing is predicted. Not in it: that a busy runner refuses. */
#include <place/place_int.h>

#include <stdlib.h>

#define WARM_SLOTS 8192u /* a power of two; pairs that share one push each other out */
#define WARM_NS    (30 * ENV_S) /* Go Fn's idle timeout of a container */
#define FADE       16 /* calls after which the mean has mostly changed */

struct warm {
    uint64_t key; /* of function and runner; 0 = empty */
    int64_t at_ns;
};

struct waits {
    struct warm warm[WARM_SLOTS];
};

struct waits *waits_create(void)
{
    return calloc(1, sizeof(struct waits));
}

void waits_destroy(struct waits *w)
{
    free(w);
}

/* 0, 1, 2, 3-4, 5-8, 9-16, 17-32, more */
static uint32_t load_class(uint32_t inflight)
{
    uint32_t class = 0;

    while (class < WAITS_LOADS - 1 && inflight > (class == 0 ? 0u : 1u << (class - 1))) {
        class++;
    }
    return class;
}

static uint64_t waits_key_of(uint64_t fn, uint64_t runner)
{
    uint64_t key = (fn ^ runner * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;

    key ^= key >> 32;
    return key ? key : 1;
}

struct waits_class waits_class_of(const struct waits *w, uint64_t fn, uint64_t runner,
                                  uint32_t inflight, int64_t now_ns)
{
    uint64_t key = waits_key_of(fn, runner);
    const struct warm *s = &w->warm[key & (WARM_SLOTS - 1)];

    return (struct waits_class){ .load = (uint8_t)load_class(inflight),
                                 .warm = s->key == key && now_ns - s->at_ns <= WARM_NS };
}

void waits_learn(struct waits *w, struct waits_means *m, struct waits_class class, uint64_t fn,
                 uint64_t runner, int64_t wait_ns, int64_t now_ns)
{
    struct waits_mean *mean = &m->of[class.warm][class.load];
    uint64_t key = waits_key_of(fn, runner);

    w->warm[key & (WARM_SLOTS - 1)] = (struct warm){ key, now_ns };
    mean->n += mean->n < FADE;
    mean->ns += (wait_ns - mean->ns) / mean->n;
}

int64_t waits_predict(const struct waits_means *m, struct waits_class class)
{
    const struct waits_mean *of = m->of[class.warm];

    for (uint32_t far = 0; far < WAITS_LOADS; far++) {
        if (class.load >= far && of[class.load - far].n) {
            return of[class.load - far].ns;
        }
        if (class.load + far < WAITS_LOADS && of[class.load + far].n) {
            return of[class.load + far].ns;
        }
    }
    return -1;
}
