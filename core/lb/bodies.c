/* Bodies: what the calls of an app hold of the memory for request bodies.
 *
 * A body belongs to its client's address until it is complete (core/http), then to the app that it
 * was sent to, until its call is over: also while that waits for a runner, and after the client of
 * a detached call left. */
#include <lb/lb_int.h>

#include <base/share.h>

#define COUNTED_BYTES (16u << 10) /* smaller ones are held by the limits of calls */

int bodies_take(struct lb_call *c, struct fn_error *reterr)
{
    const struct budget *budget = c->body->budget;
    uint64_t bytes = c->body->charged_bytes;
    struct share_holder *b;

    if (!budget || bytes < COUNTED_BYTES) {
        return 0;
    }
    b = share_join(&c->lb->bodies, c->fn->model.app_id);
    if (!b) {
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "out of memory");
    }
    if (!share_allows(budget->limit_bytes, budget->used_bytes - bytes, b->bytes, bytes)) {
        share_leave(&c->lb->bodies, b);
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM,
                            "LB317 request bodies of this app use its share of the memory");
    }
    b->bytes += bytes;
    c->bodies = b;
    return 0;
}

void bodies_give(struct lb_call *c)
{
    struct share_holder *b = c->bodies;

    if (b) {
        c->bodies = NULL;
        b->bytes -= c->body->charged_bytes;
        share_leave(&c->lb->bodies, b);
    }
}
