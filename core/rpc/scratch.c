/* Memory of one message, given back as a whole. */
#include <rpc/wire.h>

#include <stdalign.h>
#include <stdlib.h>

#define SCRATCH_BYTES (64u << 10)

struct scratch_more {
    struct scratch_more *next;
    alignas(16) char data[];
};

int scratch_init(struct scratch *s)
{
    *s = (struct scratch){ .block = malloc(SCRATCH_BYTES) };
    return s->block ? 0 : FN_E_EXHAUSTED;
}

void scratch_reset(struct scratch *s)
{
    while (s->more) {
        struct scratch_more *next = s->more->next;

        free(s->more);
        s->more = next;
    }
    s->used = 0;
}

void scratch_finish(struct scratch *s)
{
    scratch_reset(s);
    free(s->block);
    s->block = NULL;
}

void *scratch_alloc(void *ud, size_t size)
{
    struct scratch *s = ud;
    struct scratch_more *more;
    size_t rounded;
    void *p;

    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    rounded = (size + 15) & ~(size_t)15;
    if (rounded <= SCRATCH_BYTES - s->used) {
        p = s->block + s->used;
        s->used += rounded;
        return p;
    }
    more = malloc(sizeof(*more) + rounded);
    if (!more) {
        return NULL;
    }
    more->next = s->more;
    s->more = more;
    return more->data;
}
