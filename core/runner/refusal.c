/* Refusals: what the caller of a call that was not taken is told of this runner. */
#include <runner/runner_int.h>

#define SOON_NS  (100 * ENV_MS) /* room comes free with the end of any run */
#define LATER_NS (1 * ENV_S)    /* a start or a pull that failed, or goes on */
#define SHORTEST_NS (10 * ENV_MS)

/* How long until one of the function's containers is free, by what its runs take. */
static int64_t turn_ns(const struct slot_queue *q)
{
    uint32_t live = q->n_containers - q->n_starting;
    int64_t ns = q->mean_ns > 0 && live > 0 ? q->mean_ns / live : SOON_NS;

    return ns < SHORTEST_NS ? SHORTEST_NS : ns > LATER_NS ? LATER_NS : ns;
}

static int64_t retry_ns(const struct rcall *rc, enum engage_reason reason)
{
    const struct runner *r = rc->r;
    int64_t drained_ns;

    switch (reason) {
    case ENGAGE_REASON_QUEUE:
        return turn_ns(rc->q);
    case ENGAGE_REASON_ROOM:
    case ENGAGE_REASON_MEMORY:
        return SOON_NS;
    case ENGAGE_REASON_DRAINING:
        drained_ns = r->drain_deadline_ns - env_now_ns(r->env);
        return drained_ns > LATER_NS ? drained_ns : LATER_NS;
    case ENGAGE_REASON_ENGINE:
        return ENGINE_PROBE_NS;
    case ENGAGE_REASON_IMAGE:
    case ENGAGE_REASON_START:
        return LATER_NS;
    default:
        return 0;
    }
}

void refusal_fill(struct rcall *rc, enum engage_reason reason)
{
    struct runner *r = rc->r;
    const struct account *a = &r->account;
    struct account_need unused = { a->totals.mem_bytes - a->used.mem_bytes,
                                   a->totals.cpu_milli - a->used.cpu_milli };

    account_add(&unused, &r->evictable);
    unused = account_minus(&unused, &r->reserving);
    rc->refusal = (struct engage_refusal){ .reason = reason,
                                           .retry_ns = retry_ns(rc, reason),
                                           .free_mem_bytes = unused.mem_bytes,
                                           .free_cpu_milli = unused.cpu_milli,
                                           .idle = r->n_idle };
    metric_add(r->metrics.refusals[reason], !rc->own);
}
