/* The heap of timers. While a key looks for its place, that place is a hole: what has to make way
 * moves into it, and the key is written once. */
#include <base/timers.h>

#include <assert.h>
#include <stdlib.h>

#define WAYS        4u
#define TIMERS_FIRST 256u /* room that it begins with */

static bool before(const struct timer_due *a, const struct timer_due *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->tie < b->tie);
}

static void heap_put(struct timers *ts, size_t i, struct timer_due d)
{
    ts->heap[i] = d;
    d.timer->heap_slot = i + 1;
}

static void sift_up(struct timers *ts, size_t i, struct timer_due d)
{
    while (i > 0 && before(&d, &ts->heap[(i - 1) / WAYS])) {
        heap_put(ts, i, ts->heap[(i - 1) / WAYS]);
        i = (i - 1) / WAYS;
    }
    heap_put(ts, i, d);
}

static void sift_down(struct timers *ts, size_t i, struct timer_due d)
{
    size_t child;

    while ((child = WAYS * i + 1) < ts->n) {
        size_t end = child + WAYS < ts->n ? child + WAYS : ts->n;
        size_t first = child;

        while (++child < end) {
            first = before(&ts->heap[child], &ts->heap[first]) ? child : first;
        }
        if (!before(&ts->heap[first], &d)) {
            break;
        }
        heap_put(ts, i, ts->heap[first]);
        i = first;
    }
    heap_put(ts, i, d);
}

static void sift(struct timers *ts, size_t i, struct timer_due d)
{
    if (i > 0 && before(&d, &ts->heap[(i - 1) / WAYS])) {
        sift_up(ts, i, d);
    } else {
        sift_down(ts, i, d);
    }
}

bool timers_make_room(struct timers *ts)
{
    size_t cap = ts->cap > 0 ? 2 * ts->cap : TIMERS_FIRST;
    struct timer_due *heap;

    if (ts->cap - ts->n > ts->cap / 4) {
        return true;
    }
    heap = realloc(ts->heap, cap * sizeof(*heap));
    if (heap) {
        ts->heap = heap;
        ts->cap = cap;
    }
    return ts->n < ts->cap;
}

void timers_finish(struct timers *ts)
{
    free(ts->heap);
    *ts = (struct timers){ 0 };
}

void timers_set(struct timers *ts, struct env_timer *t, int64_t at_ns, uint64_t tie)
{
    struct timer_due d = { at_ns, tie, t };

    if (t->heap_slot > 0) {
        sift(ts, t->heap_slot - 1, d);
    } else {
        assert(ts->n < ts->cap);
        sift_up(ts, ts->n++, d);
    }
}

void timers_clear(struct timers *ts, struct env_timer *t)
{
    size_t i = t->heap_slot;
    struct timer_due last;

    if (i == 0) {
        return;
    }
    assert(ts->heap[i - 1].timer == t);
    t->heap_slot = 0;
    last = ts->heap[--ts->n];
    if (last.timer != t) {
        sift(ts, i - 1, last);
    }
}
