/* Body: the buffered body of a call, counted and charged to a memory budget.
 *
 * Filled by the HTTP server, then immutable and shared by reference between the call and its
 * attempts, so that a retry resends the same bytes. [loop] only. */
#ifndef BASE_BODY_H
#define BASE_BODY_H

#include <base/buf.h>
#include <stdint.h>

/* Memory that all bodies of a node may use together. */
struct budget {
    uint64_t limit_bytes; /* 0 = none */
    uint64_t used_bytes;
    uint64_t peak_bytes; /* the most that was used */
};

struct body {
    struct buf bytes;
    struct budget *budget; /* borrowed, may be NULL; outlives the body */
    uint64_t charged_bytes;
    uint32_t refs;
};

/* NULL when out of memory. limit_bytes 0 = none. */
struct body *body_create(struct budget *budget, uint64_t limit_bytes);
struct body *body_ref(struct body *b);
void body_unref(struct body *b); /* NULL ok */
/* 0, FN_E_RANGE over the body's own limit, FN_E_EXHAUSTED over the budget or out of memory. */
int body_append(struct body *b, const void *data, size_t len);

#endif
