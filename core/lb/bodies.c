/* Bodies: what the calls of an app hold of the memory for request bodies.
 *
 * A body belongs to its client's address until it is complete (core/http), then to the app that it
 * was sent to, until its call is over: also while that waits for a runner, and after the client of
 * a detached call left. */
#include <lb/lb_int.h>

#include <base/share.h>
#include <stdlib.h>
#include <string.h>

#define COUNTED_BYTES (16u << 10) /* smaller ones are held by the limits of calls */

struct lb_bodies {
    struct lb *lb;
    uint64_t bytes;
    uint32_t calls;
    UT_hash_handle hh;
    char app_id[];
};

static struct lb_bodies *bodies_of(struct lb *lb, const char *app_id)
{
    size_t len = strlen(app_id);
    struct lb_bodies *b;

    HASH_FIND(hh, lb->bodies, app_id, len, b);
    if (!b) {
        b = calloc(1, sizeof(*b) + len + 1);
        if (b) {
            b->lb = lb;
            memcpy(b->app_id, app_id, len);
            HASH_ADD(hh, lb->bodies, app_id, len, b);
        }
    }
    return b;
}

static void bodies_release(struct lb_bodies *b)
{
    if (b->calls == 0) {
        HASH_DEL(b->lb->bodies, b);
        free(b);
    }
}

int bodies_take(struct lb_call *c, struct fn_error *reterr)
{
    const struct budget *budget = c->body->budget;
    uint64_t bytes = c->body->charged_bytes;
    struct lb_bodies *b;

    if (!budget || bytes < COUNTED_BYTES) {
        return 0;
    }
    b = bodies_of(c->lb, c->fn->app_id);
    if (!b) {
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "out of memory");
    }
    if (!share_allows(budget->limit_bytes, budget->used_bytes - bytes, b->bytes, bytes)) {
        bodies_release(b);
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM,
                            "LB317 request bodies of this app use its share of the memory");
    }
    b->bytes += bytes;
    b->calls++;
    c->bodies = b;
    return 0;
}

void bodies_give(struct lb_call *c)
{
    struct lb_bodies *b = c->bodies;

    if (b) {
        c->bodies = NULL;
        b->bytes -= c->body->charged_bytes;
        b->calls--;
        bodies_release(b);
    }
}
