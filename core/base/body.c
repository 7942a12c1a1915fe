/* A counted buffer whose bytes are charged to a budget as it grows. */
#include <base/body.h>

#include <base/alloc.h>
#include <fn/abi.h>
#include <stdlib.h>

struct body *body_create(struct budget *budget, uint64_t limit_bytes)
{
    struct body *b = alloc_zeroed(sizeof(*b));

    if (b) {
        buf_init(&b->bytes, limit_bytes);
        b->budget = budget;
        b->refs = 1;
    }
    return b;
}

struct body *body_ref(struct body *b)
{
    b->refs++;
    return b;
}

void body_unref(struct body *b)
{
    if (!b || --b->refs > 0) {
        return;
    }
    if (b->budget) {
        b->budget->used_bytes -= b->charged_bytes;
    }
    buf_finish(&b->bytes);
    free(b);
}

int body_append(struct body *b, const void *data, size_t len)
{
    struct budget *budget = b->budget;
    int r;

    if (b->bytes.limit && (len > b->bytes.limit || b->bytes.len > b->bytes.limit - len)) {
        return FN_E_RANGE;
    }
    if (budget && budget->limit_bytes && budget->used_bytes + len > budget->limit_bytes) {
        return FN_E_EXHAUSTED;
    }
    r = buf_add(&b->bytes, data, len);
    if (r == 0 && budget) {
        budget->used_bytes += len;
        if (budget->used_bytes > budget->peak_bytes) {
            budget->peak_bytes = budget->used_bytes;
        }
        b->charged_bytes += len;
    }
    return r;
}
