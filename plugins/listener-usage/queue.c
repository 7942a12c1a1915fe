/* A ring with one writer, the loop, and one reader, the worker: each counter has one who writes
 * it, so that no lock is needed. */
#include "usage.h"

#include <stdlib.h>

int queue_init(struct queue *q, uint64_t size)
{
    *q = (struct queue){ .size = size };
    q->places = calloc(size, sizeof(struct record *));
    return q->places ? 0 : FN_E_EXHAUSTED;
}

void queue_finish(struct queue *q)
{
    if (q->places) {
        queue_take(q, queue_waiting(q));
    }
    free(q->places);
    *q = (struct queue){ 0 };
}

uint64_t queue_waiting(const struct queue *q)
{
    uint64_t taken = __atomic_load_n(&q->taken, __ATOMIC_ACQUIRE);

    return __atomic_load_n(&q->added, __ATOMIC_ACQUIRE) - taken;
}

int queue_add(struct queue *q, struct record *given)
{
    if (queue_waiting(q) >= q->size) {
        return FN_E_EXHAUSTED;
    }
    q->places[q->added % q->size] = given;
    __atomic_store_n(&q->added, q->added + 1, __ATOMIC_RELEASE);
    return 0;
}

const struct record *queue_at(const struct queue *q, uint64_t i)
{
    return i < queue_waiting(q) ? q->places[(q->taken + i) % q->size] : NULL;
}

void queue_take(struct queue *q, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        free(q->places[(q->taken + i) % q->size]);
    }
    __atomic_store_n(&q->taken, q->taken + n, __ATOMIC_RELEASE);
}
