/* A set is found by the hash of the function; within it the entry that was not used for longest
 * makes room. */
#include "warm.h"

#include "hash.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_MAX 255u

struct warm *warm_create(int64_t keep_ns)
{
    struct warm *w = calloc(1, sizeof(*w));

    if (w) {
        w->keep_ns = keep_ns;
    }
    return w;
}

/* Two functions that share a number are warm together, which costs a cold start. */
uint64_t warm_hash(const char *fn_id)
{
    uint64_t h = text_hash(fn_id);

    return h ^ h >> 32;
}

static struct warm_fn *find(struct warm *w, uint64_t fn)
{
    struct warm_fn *set = w->fn[fn % WARM_SETS];

    for (uint32_t i = 0; i < WARM_WAYS; i++) {
        if (set[i].fn == fn && set[i].at_ns != 0) {
            return &set[i];
        }
    }
    return NULL;
}

static uint16_t *count_of(struct warm *w, uint64_t runner)
{
    return &w->idle[(runner ^ runner >> 32) * 0x9e3779b97f4a7c15u >> 48];
}

/* `n` may be negative. */
static void change(struct warm *w, struct warm_pair *p, int n)
{
    uint16_t *count = count_of(w, p->runner);

    p->idle = (uint32_t)((int)p->idle + n);
    *count = (uint16_t)(*count + n);
}

static void expire(struct warm *w, struct warm_fn *f, int64_t now_ns)
{
    for (uint32_t i = 0; i < WARM_PAIRS; i++) {
        if (f->pair[i].idle > 0 && now_ns - f->pair[i].at_ns > w->keep_ns) {
            change(w, &f->pair[i], -(int)f->pair[i].idle);
        }
    }
}

struct warm_fn *warm_of(struct warm *w, uint64_t fn, int64_t now_ns)
{
    struct warm_fn *f = find(w, fn);

    if (f) {
        expire(w, f, now_ns);
    }
    return f;
}

void warm_sweep(struct warm *w, int64_t now_ns)
{
    for (uint32_t i = 0; i < WARM_SWEEP; i++) {
        w->sweep = (w->sweep + 1) % (WARM_SETS * WARM_WAYS);
        expire(w, &w->fn[w->sweep / WARM_WAYS][w->sweep % WARM_WAYS], now_ns);
    }
}

uint32_t warm_idle(const struct warm *w, uint64_t runner)
{
    return *count_of((struct warm *)(uintptr_t)w, runner);
}

static struct warm_fn *replace_oldest(struct warm *w, uint64_t fn)
{
    struct warm_fn *set = w->fn[fn % WARM_SETS];
    struct warm_fn *oldest = &set[0];

    for (uint32_t i = 1; i < WARM_WAYS; i++) {
        oldest = set[i].at_ns < oldest->at_ns ? &set[i] : oldest;
    }
    for (uint32_t i = 0; i < WARM_PAIRS; i++) {
        change(w, &oldest->pair[i], -(int)oldest->pair[i].idle);
    }
    memset(oldest, 0, sizeof(*oldest));
    oldest->fn = fn;
    return oldest;
}

void warm_add(struct warm *w, uint64_t fn, uint64_t runner, int64_t now_ns)
{
    struct warm_fn *f = warm_of(w, fn, now_ns);
    struct warm_pair *to = NULL;

    f = f ? f : replace_oldest(w, fn);
    f->at_ns = now_ns > 0 ? now_ns : 1;
    for (uint32_t i = 0; i < WARM_PAIRS; i++) {
        struct warm_pair *p = &f->pair[i];

        if (p->idle > 0 && p->runner == runner) {
            change(w, p, p->idle < IDLE_MAX);
            p->at_ns = now_ns;
            return;
        }
        /* A free one, else the one that was idle longest. */
        if (!to || (to->idle > 0 && (p->idle == 0 || p->at_ns < to->at_ns))) {
            to = p;
        }
    }
    change(w, to, -(int)to->idle);
    *to = (struct warm_pair){ .runner = runner, .at_ns = now_ns };
    change(w, to, 1);
}

static struct warm_pair *pair_of(struct warm_fn *f, uint64_t runner)
{
    for (uint32_t i = 0; f && i < WARM_PAIRS; i++) {
        if (f->pair[i].idle > 0 && f->pair[i].runner == runner) {
            return &f->pair[i];
        }
    }
    return NULL;
}

void warm_take(struct warm *w, struct warm_fn *f, uint64_t runner)
{
    struct warm_pair *p = pair_of(f, runner);

    if (p) {
        change(w, p, -1);
    }
}

void warm_forget(struct warm *w, struct warm_fn *f, uint64_t runner)
{
    struct warm_pair *p = pair_of(f, runner);

    if (p) {
        change(w, p, -(int)p->idle);
    }
}
