/* The calls of a load balancer, those that run and those that ended, for people who look. */
#include <lb/lb_int.h>

void lb_walk(struct lb *lb, struct walk *w)
{
    walk_begin(&lb->walks, w, TAILQ_FIRST(&lb->calls));
}

static const char *wait_of(const struct lb_call *c)
{
    static const char *const waits[LB_STATES_N] = {
        [LB_RECEIVED] = "its function in the catalogue",
        [LB_PLACING] = "a runner",
        [LB_OFFERED] = "the runner's answer",
        [LB_STARTED] = "the answer",
        [LB_STREAMING] = "the end of the answer",
        [LB_DONE] = "nothing",
    };

    return c->client_gone && !c->route.detached ? "the runner; its client has gone"
                                                : waits[c->state];
}

bool lb_walk_next(struct lb *lb, struct walk *w, struct lb_call_row *ret)
{
    const struct lb_call *c = w->next;
    bool has_fn;

    if (!c) {
        return false;
    }
    w->next = TAILQ_NEXT(c, link);
    has_fn = c->state > LB_RECEIVED && c->place.view.fn_id;
    *ret = (struct lb_call_row){
        .call_id = c->id,
        .app_id = has_fn ? c->place.view.app_id : NULL,
        .fn_id = has_fn ? c->place.view.fn_id : NULL, /* before it is a stranger's text */
        .state = lb_states.names[c->state],
        .waits_for = wait_of(c),
        .runner = c->state >= LB_OFFERED && c->attempt ? c->place.address : NULL,
        .age_ns = env_now_ns(lb->deps.env) - c->created_ns,
        .offers = c->offers,
    };
    return true;
}

const struct tally *lb_tally(const struct lb *lb)
{
    return lb->tally;
}

int lb_error_at(const struct lb *lb, uint32_t i, struct lb_error_row *ret)
{
    const struct why_entry *e = why_at(lb->why, i);

    if (!e) {
        return FN_E_NOT_FOUND;
    }
    *ret = (struct lb_error_row){ .call_id = e->id,
                                  .fn_id = e->fn_id,
                                  .error = e->error,
                                  .outcome = outcome_names[e->outcome],
                                  .status = e->status,
                                  .wall_ns = e->wall_ns,
                                  .took_ns = e->ended_ns - e->created_ns };
    return e->outcome != OUTCOME_OK;
}
