/* The load balancer as a whole: taking requests, draining. */
#include <lb/lb_int.h>

#include <assert.h>
#include <base/log.h>
#include <stdlib.h>
#include <string.h>

#define CALL_BYTES_USUAL 2048 /* of model, headers and texts */
#define OVERDUE_LOOK_NS  (1 * ENV_S)

static void on_drained(struct env_task *t)
{
    struct lb *lb = container_of(t, struct lb, drained_task);

    lb->drained(lb->drained_ud);
}

/* Calls stand in the order of their creation, and no limit is shorter than the shortest one: the
 * walk ends at the first call that is younger than that, which usually is the first of all. */
static void on_overdue(struct env_timer *t)
{
    struct lb *lb = container_of(t, struct lb, overdue);
    int64_t now_ns = env_now_ns(lb->deps.env);
    struct lb_call *c, *next;

    for (c = TAILQ_FIRST(&lb->calls); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (now_ns < c->created_ns + lb->headroom_min_ns) {
            break; /* they stand by their age */
        }
        if (c->state >= LB_OFFERED && !c->route.detached && now_ns >= call_overdue_ns(c)) {
            call_end_overdue(c);
        }
    }
    if (!TAILQ_EMPTY(&lb->calls)) {
        env_timer_set(lb->deps.env, t, now_ns + OVERDUE_LOOK_NS);
    }
}

int lb_create(const struct lb_deps *deps, struct lb **ret, struct fn_error *reterr)
{
    struct lb *lb = calloc(1, sizeof(*lb));

    if (!lb) {
        return err_set(reterr, FN_E_EXHAUSTED, "lb: out of memory");
    }
    lb->deps = *deps;
    lb->tally = tally_create(TALLY_MAX);
    if (!lb->tally || why_create(deps->options.why_calls, &lb->why) < 0) {
        tally_destroy(lb->tally);
        free(lb);
        return err_set(reterr, FN_E_EXHAUSTED, "lb: out of memory");
    }
    TAILQ_INIT(&lb->calls);
    LIST_INIT(&lb->walks);
    lb->drained_task.cb = on_drained;
    lb->overdue.cb = on_overdue;
    metrics_declare(&lb->metrics);
    metric_set_subjects(METRIC_OF_LB, deps->options.functions_max);
    lb->headroom_min_ns = deps->options.execution_headroom_ns;
    *ret = lb;
    return 0;
}

void lb_set_options(struct lb *lb, const struct lb_options *options)
{
    if (options->why_calls != lb->deps.options.why_calls &&
        why_resize(lb->why, options->why_calls) < 0) {
        log_warn("no memory for lb.why_calls; the old number stays");
    }
    metric_set_subjects(METRIC_OF_LB, options->functions_max);
    if (options->execution_headroom_ns < lb->headroom_min_ns) {
        lb->headroom_min_ns = options->execution_headroom_ns;
    }
    lb->deps.options = *options;
}

void lb_set_plugins(struct lb *lb, struct chain *chain)
{
    chain_set(&lb->chain, chain);
}

void lb_destroy(struct lb *lb)
{
    if (lb) {
        assert(TAILQ_EMPTY(&lb->calls));
        env_undefer(lb->deps.env, &lb->drained_task);
        env_timer_clear(lb->deps.env, &lb->overdue);
        chain_unref(lb->chain);
        why_destroy(lb->why);
        tally_destroy(lb->tally);
        buf_finish(&lb->json);
        free(lb);
    }
}

void lb_drain(struct lb *lb, void (*done)(void *ud), void *ud)
{
    lb->drained = done;
    lb->drained_ud = ud;
    if (lb->counts.in_flight == 0) {
        env_defer(lb->deps.env, &lb->drained_task);
    }
}

void lb_cut(struct lb *lb)
{
    struct lb_call *c;

    assert(lb->drained);
    while ((c = TAILQ_FIRST(&lb->calls))) {
        call_cut(c);
    }
}

/* 503 while draining or full. */
static int lb_admit(const struct lb *lb, struct fn_error *reterr)
{
    const char *why = lb->drained ? lb_stopping_text : NULL;

    if (lb->deps.options.calls_max && lb->counts.in_flight >= lb->deps.options.calls_max) {
        why = "LB305 too many calls at this load balancer";
    }
    return why ? err_set_http(reterr, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM, "%s", why) : 0;
}

static void note_begin(struct lb_call *c)
{
    struct why_entry *w = why_begin(c->lb->why);

    if (w) {
        memcpy(w->id, c->id, sizeof(w->id));
        w->detached = c->route.detached;
        w->generation = c->options.generation;
        w->wall_ns = c->started_wall_ns;
        w->received_ns = c->rq.received_ns;
        w->created_ns = c->created_ns;
        c->why = w;
        c->place.trace = &w->trace;
    }
}

static struct lb_call *call_create(struct lb *lb, const struct lb_request *rq,
                                   const struct route *route, const struct lb_reply *reply,
                                   void *ud)
{
    const char *rid = lb->deps.options.rid_header
                          ? headers_get(rq->headers, lb->deps.options.rid_header)
                          : NULL;
    struct lb_call *c;
    struct arena arena;

    arena_init(&arena, 0);
    c = arena_alloc_owner(&arena, sizeof(*c), CALL_BYTES_USUAL);
    if (!c) {
        return NULL;
    }
    c->arena = arena;
    c->lb = lb;
    c->options = lb->deps.options;
    c->options.rid_header = NULL;
    c->chain = lb->chain ? chain_ref(lb->chain) : NULL;
    c->rq = *rq;
    c->rq.peer = rq->peer ? arena_strdup(&c->arena, rq->peer) : NULL;
    c->route = *route;
    c->route.fn_id = route->fn_id ? arena_strdup(&c->arena, route->fn_id) : NULL;
    c->reply = reply;
    c->reply_ud = ud;
    c->body = body_ref(rq->body);
    c->declared = -1;
    c->created_ns = env_now_ns(lb->deps.env);
    c->started_wall_ns = env_wall_ns(lb->deps.env);
    c->request_id = rid ? arena_strdup(&c->arena, rid) : NULL;
    id_make(lb->deps.ids, c->started_wall_ns, c->id);
    note_begin(c);
    traced_begin(c);
    TAILQ_INSERT_TAIL(&lb->calls, c, link);
    if (!env_timer_is_set(&lb->overdue)) {
        env_timer_set(lb->deps.env, &lb->overdue, c->created_ns + OVERDUE_LOOK_NS);
    }
    lb->counts.received++;
    lb->counts.in_flight++;
    metric_add(lb->metrics.calls, 1);
    metric_add(lb->metrics.in_flight, 1);
    metric_add(lb->metrics.queued, 1);
    return c;
}

static void refuse_request(const struct lb_request *rq, const struct lb_reply *reply, void *ud,
                           const struct fn_error *e)
{
    struct header room[2];
    struct headers h;

    headers_init_room(&h, rq->arena, room, 2);
    headers_add_borrowed(&h, "Fn-Outcome", outcome_names[OUTCOME_NOT_EXECUTED]);
    if (err_http_status(e) == 503) {
        headers_add_borrowed(&h, "Retry-After", "1");
    }
    reply->error(ud, err_http_status(e), &h, e->msg);
}

static void redirect(const struct lb_request *rq, const struct lb_reply *reply, void *ud,
                     const char *location)
{
    struct header room[2];
    struct headers h;

    headers_init_room(&h, rq->arena, room, 2);
    headers_add_borrowed(&h, "Location", location);
    headers_add_borrowed(&h, "Fn-Outcome", outcome_names[OUTCOME_NOT_EXECUTED]);
    reply->whole(ud, 307, &h, NULL, 0);
}

/* A call for which there was no memory at all. */
static void count_unmade(struct lb *lb)
{
    lb->counts.received++;
    lb->counts.not_executed++;
    metric_add(lb->metrics.calls, 1);
    metric_add(lb->metrics.outcomes[OUTCOME_NOT_EXECUTED], 1);
    metric_add(lb->metrics.ended[LB_SERVER_BUSY], 1);
}

struct lb_call *lb_submit(struct lb *lb, const struct lb_request *rq, const struct lb_reply *reply,
                          void *ud)
{
    struct fn_error e = ERR_INIT;
    struct route route;
    struct lb_call *c;
    int r = lb_admit(lb, &e);

    r = r < 0 ? r : route_match(rq, &route, &e);
    if (r == 0 && route.location) {
        redirect(rq, reply, ud, route.location);
        return NULL;
    }
    c = r < 0 ? NULL : call_create(lb, rq, &route, reply, ud);
    if (!c) {
        if (r == 0) {
            count_unmade(lb);
            err_set_http(&e, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "out of memory");
        }
        refuse_request(rq, reply, ud, &e);
        return NULL;
    }
    c->submitting = true;
    call_run(c);
    c->submitting = false;
    if (c->state == LB_DONE) {
        call_release(c);
        return NULL;
    }
    return c;
}

int lb_why(const struct lb *lb, const char *call_id, struct buf *out, struct fn_error *reterr)
{
    int64_t now_ns = env_now_ns(lb->deps.env);
    const struct why_entry *w = why_find(lb->why, call_id);
    const struct lb_call *c;

    if (!w) {
        TAILQ_FOREACH(c, &lb->calls, link) {
            if (c->why && strcmp(c->id, call_id) == 0) {
                w = c->why;
                break;
            }
        }
    }
    if (!w) {
        return why_unknown(lb->why, call_id, now_ns, reterr);
    }
    return why_print(w, now_ns, out) < 0 ? err_set(reterr, FN_E_EXHAUSTED, "out of memory") : 0;
}

void lb_count(const struct lb *lb, struct lb_counts *ret)
{
    *ret = lb->counts;
}
