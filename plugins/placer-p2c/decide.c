/* One call: pairs are drawn until one of them has two runners to compare; where few are left,
 * the list is walked. */
#include "decide.h"

#include "note.h"

#define DRAWS_MAX 8 /* pairs drawn before the list is walked */
#define NONE      UINT32_MAX

static uint32_t scale(uint32_t chance, uint32_t n)
{
    return (uint32_t)(((uint64_t)chance * n) >> 32);
}

/* The first one that may be tried, from a random place on: for lists with few left. */
static uint32_t walk(const struct p2c_session *s, const struct fn_ask *ask, uint32_t from)
{
    uint32_t n = ask->snap->n;
    uint32_t index = from;
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (tries_may(&s->tries, ask->snap, index)) {
            return index;
        }
        index = index + 1 < n ? index + 1 : 0;
    }
    return NONE;
}

static uint32_t choose(const struct p2c_session *s, const struct fn_ask *ask,
                       const struct p2c_chance *chance, struct fn_answer *ret)
{
    uint32_t n = ask->snap->n;
    uint32_t first = NONE;
    uint64_t r = 0;
    uint32_t half;
    uint32_t index;
    int i;

    for (i = 0; i < 2 * DRAWS_MAX; i++) {
        r = i % 2 ? r : chance->u64(chance->ud);
        half = i % 2 ? (uint32_t)(r >> 32) : (uint32_t)r;
        index = scale(half, n);
        if (index == first || !tries_may(&s->tries, ask->snap, index)) {
            continue;
        }
        if (first == NONE) {
            first = index;
            continue;
        }
        if (runner_is_idler(ask, index, first)) {
            note(ret, "second of two");
            return index;
        }
        note(ret, "first of two");
        return first;
    }
    note(ret, "only one left");
    return first != NONE ? first : walk(s, ask, scale((uint32_t)r, n));
}

void p2c_decide(struct p2c_session *s, const struct fn_ask *ask, const struct p2c_options *o,
                const struct p2c_chance *chance, struct fn_answer *ret)
{
    uint32_t index = NONE;

    if (tries_starts_round(&s->tries, ask)) {
        tries_start(&s->tries, ask);
    }
    if (ask->snap->n > 0 && s->tries.n < (uint64_t)o->tries) {
        index = choose(s, ask, chance, ret);
    }
    if (index == NONE) {
        note(ret, "all refused");
        tries_wait(&s->tries, o->retry_delay_ns, ret);
        return;
    }
    tries_try(&s->tries, index, ret);
}
