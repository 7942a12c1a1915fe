/* The calls and containers of a runner, for people who look. */
#include <runner/runner_int.h>

void runner_walk_calls(struct runner *r, struct walk *w)
{
    walk_begin(&r->call_walks, w, TAILQ_FIRST(&r->calls));
}

void runner_walk_containers(struct runner *r, struct walk *w)
{
    walk_begin(&r->container_walks, w, r->containers);
}

static const char *wait_of_call(const struct rcall *rc)
{
    static const char *const waits[RC_STATES_N] = {
        [RC_BODY] = "the first part of its body",
        [RC_WAIT] = "a container",
        [RC_TAKEN] = "its container to thaw",
        [RC_RUN] = "the function",
        [RC_ENDING] = "its end to be told",
        [RC_DONE] = "nothing",
    };

    return rc->state == RC_RUN && !rc->session ? "the function; its caller has gone"
                                               : waits[rc->state];
}

bool runner_walk_next_call(struct runner *r, struct walk *w, struct runner_call_row *ret)
{
    const struct rcall *rc = w->next;

    if (!rc) {
        return false;
    }
    w->next = TAILQ_NEXT(rc, all);
    *ret = (struct runner_call_row){
        .call_id = rc->call.id,
        .app_id = rc->call.app_id,
        .fn_id = rc->call.fn_id,
        .state = rcall_states.names[rc->state],
        .waits_for = wait_of_call(rc),
        .container_id = rc->c ? rc->c->id : NULL,
        .age_ns = env_now_ns(r->env) - rc->created_ns,
        .body_bytes = rc->body.len,
    };
    return true;
}

static const char *wait_of_container(const struct container *c)
{
    static const char *const waits[CTR_STATES_N] = {
        [CTR_IMAGE] = "its image",
        [CTR_RESERVE] = "memory and CPU",
        [CTR_CREATE] = "the engine to make it",
        [CTR_START] = "the engine to start it",
        [CTR_INIT] = "the function's socket",
        [CTR_IDLE] = "a call",
        [CTR_FREEZE] = "the engine to freeze it",
        [CTR_FROZEN] = "a call",
        [CTR_THAW] = "the engine to thaw it",
        [CTR_BUSY] = "the function",
        [CTR_CLOSE] = "the engine to remove it",
        [CTR_GONE] = "nothing",
    };

    return c->warm && c->in_idle ? "a call; it is kept ready" : waits[c->state];
}

bool runner_walk_next_container(struct runner *r, struct walk *w, struct runner_container_row *ret)
{
    const struct container *c = w->next;
    int64_t now_ns = env_now_ns(r->env);

    if (!c) {
        return false;
    }
    w->next = c->hh.next;
    *ret = (struct runner_container_row){
        .container_id = c->id,
        .app_id = c->task.app_id,
        .fn_id = c->task.fn_id,
        .image = c->task.image,
        .state = ctr_states.names[c->state],
        .waits_for = wait_of_container(c),
        .call_id = c->call ? c->call->call.id : NULL,
        .age_ns = now_ns - c->launched_ns,
        .mem_bytes = c->charged ? c->need.mem_bytes : 0,
        .warm = c->warm,
    };
    return true;
}

const struct tally *runner_tally(const struct runner *r)
{
    return r->tally;
}
