/* Placement: the ask/answer loop of one call, and the life of a place.
 *
 * States of a call: begun, trying (runner != NULL), parked (`parked`), left. A call that was
 * parked once keeps its place in its group's queue until it is over, so that asking again costs no
 * search for that place.
 * A round is a walk over one pinned snapshot; a WAIT ends it. Between rounds a call waits longer
 * and longer, and at least WAIT_PER_ATTEMPT_NS for each attempt of the last round, so that a call
 * that is refused everywhere costs at most ten attempts a second. */
#include <place/place_int.h>

#include <assert.h>
#include <base/log.h>
#include <base/share.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_PER_ATTEMPT_NS (100 * ENV_MS)
#define PLACE_KEPT_NS       (5 * ENV_S) /* a runner that refuses a call does so within that */
#define GROWTH_MAX          16u /* doublings of the first wait */
#define LOCAL_TRIES_SPARE   16u /* answers of a placer in one turn: runners + this */

/* ---- asking the placer ----------------------------------------------------------------------- */

static int decide(struct place_call *pc, struct fn_answer *answer)
{
    struct policy *y = pc->policy;
    struct fn_ask ask = {
        .size = sizeof(ask),
        .why = pc->why,
        .now_ns = env_now_ns(y->place->deps.env),
        .deadline_ns = pc->deadline_ns,
        .call = &pc->view,
        .snap = &pc->snap->view,
        .inflight = pc->snap->inflight,
        .session = pc->session,
        .attempts = pc->attempts,
        .last_index = pc->last_index,
        .last_code = pc->last_code,
        .round = pc->round,
        .inflight_total = pc->snap->listing->inflight_total,
    };
    struct plugin_crumb crumb;
    int r;

    *answer = (struct fn_answer){ .size = sizeof(*answer) };
    plugin_enter(&crumb, y->placer, PLUGIN_LOOP, "decide");
    r = y->ops->decide(plugin_inst(y->placer), &ask, answer);
    plugin_leave(&crumb);
    if (pc->snap->shadow && pc->why == FN_WHY_START && pc->attempts == 0) {
        shadow_ask(pc, &ask, r, answer);
    }
    if (crumb.missed) {
        breaker_strike(y, "decide took longer than 1 ms");
    }
    return r;
}

/* What this call costs until here; committed: a runner took it. */
static void count_over(struct place_call *pc, bool committed)
{
    struct place_metrics *m = &pc->place->metrics;
    int64_t end_ns = committed ? pc->attempt_ns : env_now_ns(pc->place->deps.env);

    pc->begun = false;
    metric_observe(m->attempts, pc->attempts);
    metric_observe(m->latency, (end_ns - pc->begun_ns) / ENV_MS);
}

static void count_pool_failure(struct place_call *pc)
{
    if (!pc->pool_failed) {
        pc->pool_failed = true;
        metric_add(pc->place->metrics.pool_error, 1);
    }
}

/* What the last round met, in the words of the caller's error. */
static void name_reason(struct place_call *pc, int code)
{
    struct fn_error *e = &pc->error;
    uint32_t n = pc->snap ? pc->snap->view.n : pc->group->snap->view.n;

    if (n == 0) {
        err_set_http(e, code, 503, FN_BLAME_PLATFORM, "LB301 no runner: 0 known");
        metric_add(pc->place->metrics.empty, 1);
    } else if (pc->busy > 0) {
        err_set_http(e, code, 503, FN_BLAME_PLATFORM, "LB302 busy: %u of %u refused%s%s%s",
                     pc->busy, n, pc->refusal ? " (" : "", pc->refusal ? pc->refusal : "",
                     pc->refusal ? ")" : "");
    } else if (pc->unreachable > 0) {
        err_set_http(e, code, 503, FN_BLAME_PLATFORM, "LB303 down: %u of %u unreachable",
                     pc->unreachable, n);
    } else {
        err_set_http(e, code, 503, FN_BLAME_PLATFORM, "LB302 busy: the placer tried none of %u%s%s",
                     n, pc->note[0] ? ": " : "", pc->note);
    }
}

/* A second, or when the first runner would be asked again. */
static int64_t retry_after_ns(const struct place_call *pc)
{
    int64_t ns = pc->hint_ns ? pc->hint_ns - env_now_ns(pc->place->deps.env) : 0;

    return ns > ENV_S ? ns : ENV_S;
}

/* why is the error's text; NULL = what the last round met. */
static enum place_verdict place_give_up(struct place_call *pc, int code, const char *why)
{
    pc->answered = true;
    if (why) {
        err_set_http(&pc->error, code, 503, FN_BLAME_PLATFORM, "%s", why);
    } else {
        name_reason(pc, code);
    }
    pc->error.flags |= FN_ERR_RETRY;
    pc->error.retry_after_ns = retry_after_ns(pc);
    return PLACE_GIVE_UP;
}

/* How long a call waits whose placer said WAIT. */
static int64_t wait_ns(struct place_call *pc, int64_t asked_ns)
{
    struct place *p = pc->place;
    uint32_t doublings = pc->round < GROWTH_MAX ? pc->round : GROWTH_MAX;
    int64_t ns = p->deps.options.retry_min_ns << doublings;
    int64_t per_attempt_ns = pc->round > 0 ? pc->round_attempts * WAIT_PER_ATTEMPT_NS : 0;

    ns = ns > p->deps.options.retry_max_ns ? p->deps.options.retry_max_ns : ns;
    ns = ns > per_attempt_ns ? ns : per_attempt_ns;
    asked_ns = plugin_answer_duration(asked_ns);
    ns = ns > asked_ns ? ns : asked_ns;
    return ns + (int64_t)(env_random_u64(p->deps.env) % (uint64_t)(ns / 4 + 1));
}

static void trace_answer(struct place_call *pc, const struct fn_answer *answer)
{
    struct trace *t = pc->trace;

    if (t) {
        t->verdict = answer->verdict;
        memcpy(t->note, answer->note, sizeof(t->note));
    }
}

static void give_place(struct place_call *pc)
{
    if (pc->place_of) {
        share_leave(&pc->place->placed_apps, pc->place_of);
        pc->place_of = NULL;
        pc->place->places_n--;
    }
}

/* One of those that wait, if its app's share allows it. NULL, or why not. */
static const char *take_place(struct place_call *pc)
{
    struct place *p = pc->place;
    uint32_t max = p->deps.options.waiting_max;
    struct share_holder *app;

    if (p->places_n >= max) {
        return "LB305 too many calls wait for a runner";
    }
    app = share_join(&p->placed_apps, pc->view.app_id ? pc->view.app_id : "");
    if (!app) {
        return "out of memory";
    }
    if (!share_allows(max, p->places_n, app->users - 1, 1)) {
        share_leave(&p->placed_apps, app);
        return "LB305 too many calls of this app wait for a runner";
    }
    pc->place_of = app;
    p->places_n++;
    return NULL;
}

/* Takes the call among those that wait, if there is a place and its app's share allows it. A call
 * that was woken has its place still: else others would have it by the time that a runner has
 * refused it. NULL, or why not. */
static const char *queue(struct place_call *pc)
{
    const char *why = pc->place_of ? NULL : take_place(pc);

    if (why || pc->queued) {
        return why;
    }
    if (group_queue(pc->group, pc) < 0) {
        give_place(pc);
        return "out of memory";
    }
    pc->queued = true;
    return NULL;
}

static enum place_verdict give_up_in_time(struct place_call *pc)
{
    metric_add(pc->place->metrics.timeout, 1);
    return place_give_up(pc, FN_E_DEADLINE, NULL);
}

static enum place_verdict park(struct place_call *pc, const struct fn_answer *answer)
{
    struct place *p = pc->place;
    int64_t now_ns = env_now_ns(p->deps.env);
    int64_t at_ns = now_ns + wait_ns(pc, answer->wait_ns);
    const char *why;

    if (p->stopping || now_ns >= pc->deadline_ns) {
        return give_up_in_time(pc);
    }
    why = queue(pc);
    if (why) {
        return place_give_up(pc, FN_E_EXHAUSTED, why);
    }
    snapshot_unref(pc->snap);
    pc->snap = NULL;
    pc->parked = true;
    pc->parked_ns = now_ns;
    pc->round++;
    pc->round_attempts = 0;
    pc->wake_mask = answer->wake_mask;
    pc->why = FN_WHY_TIMER;
    env_timer_set(p->deps.env, &pc->timer, at_ns < pc->deadline_ns ? at_ns : pc->deadline_ns);
    turns_park(pc);
    pc->group->waiting_n++;
    p->waiting_n++;
    metric_add(p->metrics.waiting, 1);
    return PLACE_PARKED;
}

static void unpark(struct place_call *pc)
{
    if (pc->parked) {
        pc->parked = false;
        if (pc->trace) {
            pc->trace->waits_n++;
            pc->trace->parked_ns += env_now_ns(pc->place->deps.env) - pc->parked_ns;
        }
        env_timer_clear(pc->place->deps.env, &pc->timer);
        turns_remove(pc);
        pc->group->waiting_n--;
        pc->place->waiting_n--;
        metric_add(pc->place->metrics.waiting, -1);
    }
}

static void place_on_timer(struct env_timer *t)
{
    struct place_call *pc = container_of(t, struct place_call, timer);

    if (pc->runner) {
        give_place(pc); /* it will hardly be refused any more */
        return;
    }
    unpark(pc);
    pc->on_wake(pc);
}

static void count_in_window(struct place_call *pc)
{
    int64_t now_ns = env_now_ns(pc->place->deps.env);

    if (now_ns - pc->window_ns >= ENV_S) {
        pc->window_ns = now_ns;
        pc->window_attempts = 0;
    }
    pc->window_attempts++;
}

/* TRACE_HOW_OPEN, or why the runner cannot be tried now. */
static uint8_t obstacle(const struct place_call *pc, uint32_t index)
{
    const struct place_runner *r = pc->snap->runners[index];

    return pc->snap->list[index].flags & FN_RUNNER_DRAINING ? TRACE_HOW_DRAINING
           : !runner_is_up(r)                               ? TRACE_HOW_DOWN
           : runner_is_failing(r)                           ? TRACE_HOW_FAILING
                                                            : TRACE_HOW_OPEN;
}

static void note_hint(struct place_call *pc, int64_t until_ns)
{
    pc->hint_ns = pc->hint_ns == 0 || until_ns < pc->hint_ns ? until_ns : pc->hint_ns;
}

/* It would refuse, as it said: it counts as busy, and costs nothing. */
static void place_pass_over(struct place_call *pc, uint32_t index, int64_t until_ns)
{
    if (pc->passed == 0 || until_ns < pc->next_ns) {
        pc->next_ns = until_ns;
        pc->next_index = index;
    }
    pc->passed++;
    pc->busy++;
    pc->why = FN_WHY_BUSY;
    note_hint(pc, until_ns);
    metric_add(pc->place->metrics.passed_over, 1);
}

static void count_attempt(struct place_call *pc, const struct fn_answer *answer, uint32_t index,
                          uint8_t how)
{
    int64_t now_ns = env_now_ns(pc->place->deps.env);

    pc->attempts++;
    if (how != TRACE_HOW_TOLD) {
        pc->round_attempts++;
        count_in_window(pc);
    }
    pc->last_index = index;
    pc->last_code = FN_E_UNAVAILABLE; /* unless it takes the call */
    if (pc->trace) {
        trace_begin(pc->trace, pc->snap->list[index].address, answer->note, now_ns, pc->round);
        if (how != TRACE_HOW_OPEN) {
            trace_end(pc->trace, now_ns, how, 0, NULL);
        }
    }
}

static void begin_attempt(struct place_call *pc, uint32_t index)
{
    struct place_runner *r = pc->snap->runners[index];

    r->refs++;
    pc->attempt_ns = env_now_ns(pc->place->deps.env);
    if (pc->place_of) {
        env_timer_set(pc->place->deps.env, &pc->timer, pc->attempt_ns + PLACE_KEPT_NS);
    }
    shadow_attempt(pc, index);
    runner_set_inflight(r, r->inflight + 1);
    pc->runner = r;
    pc->link = r->link;
    pc->address = pc->snap->list[index].address;
    pc->group->trying_n++;
}

/* Takes the runner that the placer named; false when it cannot be tried now. */
static bool take_runner(struct place_call *pc, const struct fn_answer *answer)
{
    uint32_t index = answer->index;
    uint8_t how = obstacle(pc, index);
    int64_t until_ns = how == TRACE_HOW_OPEN ? hints_until_ns(pc->snap->runners[index], pc) : 0;

    how = until_ns ? TRACE_HOW_TOLD : how;
    count_attempt(pc, answer, index, how);
    if (how == TRACE_HOW_OPEN) {
        begin_attempt(pc, index);
        return true;
    }
    if (how == TRACE_HOW_TOLD) {
        place_pass_over(pc, index, until_ns);
    } else {
        pc->unreachable++;
        pc->why = FN_WHY_UNREACHABLE;
        metric_add(pc->place->metrics.retry_error, 1);
    }
    return false;
}

/* The placer has nobody left, and no runner was asked but by their hints: the one whose hint ends
 * first is asked all the same, once a round. Then the placer's answer holds. */
static bool ask_one_passed(struct place_call *pc, const struct fn_answer *answer)
{
    if (pc->passed == 0 || pc->busy > pc->passed || pc->place->stopping ||
        obstacle(pc, pc->next_index) != TRACE_HOW_OPEN) {
        return false;
    }
    pc->passed = 0;
    pc->busy--; /* it answers for itself now */
    pc->last = *answer;
    pc->has_last = true;
    count_attempt(pc, answer, pc->next_index, TRACE_HOW_OPEN);
    begin_attempt(pc, pc->next_index);
    return true;
}

static enum place_verdict bad_answer(struct place_call *pc, const char *what)
{
    plugin_bad_answer(pc->policy->placer, what);
    if (breaker_strike(pc->policy, what)) {
        return park(pc, &(struct fn_answer){ .wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY });
    }
    pc->answered = true;
    err_set_http(&pc->error, FN_E_INTERNAL, 500, FN_BLAME_PLUGIN,
                 "the placer gave an answer that the host cannot use");
    return PLACE_GIVE_UP;
}

/* A call whose placer was replaced while it waited begins anew with the current one. */
static void session_begin(struct place_call *pc)
{
    struct policy *y = pc->snap->policy;

    if (pc->policy == y) {
        return;
    }
    policy_unref(pc->policy);
    pc->policy = policy_ref(y);
    pc->why = FN_WHY_START;
    memset(pc->session, 0, y->ops->session_size);
    if (pc->trace) {
        trace_copy(pc->trace->placer, sizeof(pc->trace->placer), plugin_name(y->placer));
    }
}

/* Takes the group's snapshot for a round, unless one is under way with a placer that still
 * counts. */
static void round_begin(struct place_call *pc)
{
    if (pc->snap && pc->policy->distrusted) {
        snapshot_unref(pc->snap);
        pc->snap = NULL;
    }
    if (!pc->snap) {
        pc->snap = pc->group->snap;
        pc->snap->refs++;
        pc->busy = pc->unreachable = pc->passed = 0;
        pc->hint_ns = 0;
        if (pc->snap->view.err_code < 0) {
            count_pool_failure(pc);
        }
        session_begin(pc);
        if (pc->trace) {
            pc->trace->runners = pc->snap->view.n;
        }
    }
}

/* The placer's WAIT or GIVE_UP. */
static enum place_verdict take_no(struct place_call *pc, const struct fn_answer *answer)
{
    trace_answer(pc, answer);
    trace_text(answer->note, FN_NOTE_MAX, pc->note, sizeof(pc->note));
    return answer->verdict == FN_WAIT
               ? park(pc, answer)
               : place_give_up(pc, answer->code < 0 ? answer->code : FN_E_UNAVAILABLE, NULL);
}

enum place_verdict place_next(struct place_call *pc)
{
    char what[PLUGIN_ANSWER_WHAT_MAX];
    struct fn_answer answer;
    uint32_t turns;
    int r;

    assert(!pc->runner && !pc->parked);
    if (!pc->group) {
        count_pool_failure(pc);
        return place_give_up(pc, FN_E_EXHAUSTED, pc->no_group);
    }
    if (pc->has_last) {
        pc->has_last = false;
        return take_no(pc, &pc->last);
    }
    /* A round that begins when the time is over has one attempt all the same. */
    if (pc->round_attempts > 0 && env_now_ns(pc->place->deps.env) >= pc->deadline_ns) {
        return give_up_in_time(pc);
    }
    round_begin(pc);
    for (turns = pc->snap->view.n + LOCAL_TRIES_SPARE; turns > 0; turns--) {
        r = decide(pc, &answer);
        if (!plugin_answer_decision("decide", r, &answer, pc->snap->view.n, what, sizeof(what))) {
            return bad_answer(pc, what);
        }
        breaker_good(pc->policy);
        if (r < 0) {
            answer.verdict = FN_GIVE_UP;
            trace_answer(pc, &answer);
            return place_give_up(pc, r, NULL);
        }
        if (answer.verdict == FN_TRY) {
            if (take_runner(pc, &answer)) {
                return PLACE_TRY;
            }
            round_begin(pc); /* anew, if this decision was its placer's last one */
            continue;
        }
        return ask_one_passed(pc, &answer) ? PLACE_TRY : take_no(pc, &answer);
    }
    return park(pc, &(struct fn_answer){ .wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY });
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Without a group, pc->no_group says why. */
static struct place_group *route(struct place *p, struct place_call *pc)
{
    char name[FN_GROUP_NAME_MAX + 1] = "";
    const struct source *y = p->source;
    int r;

    if (!y || !y->ops->route) {
        return group_for(p, pc->view.lb_group ? pc->view.lb_group : FN_GROUP_DEFAULT,
                         pc->view.app_id, &pc->no_group);
    }
    PLUGIN_ASK(r, y->pool, PLUGIN_LOOP, "route", 0, NULL,
               y->ops->route(plugin_inst(y->pool), &pc->view, name, sizeof(name)));
    if (r < 0 || !plugin_answer_group(y->pool, "route", name)) {
        pc->no_group = "LB301 no runner: the pool names no group for this call";
        return NULL;
    }
    return group_for(p, name, pc->view.app_id, &pc->no_group);
}

void place_begin(struct place *p, struct place_call *pc)
{
    pc->place = p;
    pc->group = route(p, pc);
    pc->timer.cb = place_on_timer;
    pc->why = FN_WHY_START;
    pc->begun_ns = env_now_ns(p->deps.env);
    pc->begun = true;
    if (pc->group) {
        pc->group->mem_mb += pc->view.mem_mb;
        pc->group->calls++;
        pc->counted = true;
    }
    if (pc->trace && pc->group) {
        trace_copy(pc->trace->group, sizeof(pc->trace->group), pc->group->name);
    }
}

static void release_runner(struct place_call *pc)
{
    struct place_runner *r = pc->runner;

    env_timer_clear(pc->place->deps.env, &pc->timer);
    pc->runner = NULL;
    pc->link = NULL;
    pc->address = NULL;
    pc->group->trying_n--;
    runner_set_inflight(r, r->inflight - 1);
    runner_unref(r);
}

static void observe(struct place_call *pc, uint32_t outcome)
{
    struct policy *y = pc->policy;
    struct fn_placed placed;
    struct plugin_crumb crumb;

    if (!y->ops->observe && !pc->snap->shadow) {
        return;
    }
    placed = (struct fn_placed){ .size = sizeof(placed),
                                 .outcome = outcome,
                                 .runner_id = pc->snap->list[pc->last_index].id,
                                 .latency_ns = env_now_ns(y->place->deps.env) - pc->attempt_ns,
                                 .call = &pc->view,
                                 .snap = &pc->snap->view,
                                 .index = pc->last_index };
    if (y->ops->observe) {
        plugin_enter(&crumb, y->placer, PLUGIN_LOOP, "observe");
        y->ops->observe(plugin_inst(y->placer), &placed);
        plugin_leave(&crumb);
    }
    if (pc->snap->shadow) {
        shadow_observe(pc, &placed);
    }
}

static void take_told(struct place_call *pc)
{
    static const struct engage_refusal nothing;
    const struct engage_refusal *told = pc->told ? pc->told : &nothing;
    int64_t until_ns = hints_take(pc->runner, pc, told);

    metric_add(pc->place->metrics.refusals[told->reason], 1);
    pc->told = NULL;
    if (until_ns) {
        note_hint(pc, until_ns);
    }
}

void place_refused(struct place_call *pc, uint32_t why, int32_t code)
{
    struct place_metrics *m = &pc->place->metrics;
    bool busy = why == FN_WHY_BUSY;

    assert(pc->runner);
    observe(pc, busy ? FN_DONE_BUSY : FN_DONE_UNREACHABLE);
    if (busy) {
        pc->runner->refused_ns = env_now_ns(pc->place->deps.env);
        take_told(pc);
    }
    pc->why = why;
    pc->last_code = code;
    pc->busy += busy;
    pc->unreachable += !busy;
    metric_add(busy ? m->retry_busy : m->retry_error, 1);
    release_runner(pc);
}

/* Leaves the group; a freed place is offered to those who wait. */
static void uncount(struct place_call *pc)
{
    give_place(pc);
    if (pc->queued) {
        pc->queued = false;
        group_unqueue(pc->group, pc);
    }
    snapshot_unref(pc->snap);
    pc->snap = NULL;
    policy_unref(pc->policy);
    pc->policy = NULL;
    if (pc->counted) {
        pc->counted = false;
        pc->group->mem_mb -= pc->view.mem_mb;
        pc->group->calls--;
        pc->group->used_ns = env_now_ns(pc->place->deps.env);
        pc->group = NULL;
    }
}

void place_ended(struct place_call *pc, uint32_t outcome)
{
    struct place_metrics *m = &pc->place->metrics;

    assert(pc->runner);
    observe(pc, outcome);
    if (outcome == FN_DONE_OK) {
        shadow_attempt_ended(pc);
    }
    count_over(pc, true);
    metric_add(m->client_timeout, pc->overdue);
    metric_add(outcome == FN_DONE_OK ? m->placed_ok
               : pc->overdue         ? m->placed_abort
                                     : m->placed_error,
               1);
    group_placed(pc->group, pc);
    hints_ended(pc->runner, pc);
    release_runner(pc);
    group_wake(pc->group, 2, FN_WAKE_CAPACITY);
    uncount(pc);
}

void place_leave(struct place_call *pc)
{
    unpark(pc);
    if (pc->begun) {
        metric_add(pc->place->metrics.client_gone, !pc->answered);
        count_over(pc, pc->runner != NULL);
    }
    if (pc->runner) {
        metric_add(pc->place->metrics.placed_abort, 1);
        release_runner(pc);
        group_wake(pc->group, 2, FN_WAKE_CAPACITY);
    }
    if (pc->place) {
        uncount(pc);
    }
}

void place_end(struct place_call *pc, enum place_end how)
{
    if (pc->runner && how != PLACE_END_GONE) {
        place_ended(pc, how == PLACE_END_OK ? FN_DONE_OK : FN_DONE_FAILED);
    } else if (pc->place) {
        pc->answered = how != PLACE_END_GONE;
        place_leave(pc);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void wake(const struct fn_host *host, const char *group)
{
    PLUGIN_HOST_CALL("fn.wake");
    struct place *p = plugin_impl(host, "fn.wake");
    struct place_group *g;

    plugin_take_loop(p->deps.env);
    g = shadow_is(p, plugin_of(host)) ? NULL : p->groups; /* nobody waits for what a shadow sees */
    for (; g; g = g->hh.next) {
        if (!group || strcmp(group, g->name) == 0) {
            group_wake(g, g->waiting_n, FN_WAKE_PLUGIN);
        }
    }
    plugin_give_loop(p->deps.env);
}

static const struct fn_wake_if wake_if = { FN_HDR(struct fn_wake_if, FN_MAGIC_WAKE), wake };

static struct metric *attempts_histogram(void)
{
    static const double bounds[] = { 0, 2, 3, 4, 8, 16, 32, 64, 128, 256 };
    static const struct metric_def def = {
        .name = "fn_lb_placer_attempt_count",
        .help = "Attempts per call, placed or not.",
        .kind = METRIC_HISTOGRAM,
        .bounds = bounds,
        .n_bounds = 10,
    };

    return metric_series(metric_declare(&def), NULL);
}

static void declare_refusals(struct place_metrics *m)
{
    static const char *const labels[] = { "reason", NULL };
    static const struct metric_def def = {
        .name = "fn_lb_placer_refusals_total",
        .help = "Attempts that a runner refused because it is full, by the reason that it told.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };

    metric_each(&def, engage_reason_names(), ENGAGE_REASONS_N, m->refusals);
    m->passed_over = metric_simple("fn_lb_placer_passed_over_total", METRIC_COUNTER,
                                   "Runners that a call did not ask, because they had said that "
                                   "they would refuse it.");
}

static void declare_metrics(struct place_metrics *m)
{
    declare_refusals(m);
    m->attempts = attempts_histogram();
    m->latency = metric_simple("fn_lb_placer_latency", METRIC_HISTOGRAM,
                               "Milliseconds from the start of placement to the start of the "
                               "attempt that counted, or to the end of a call that no runner "
                               "took.");
    m->empty = metric_simple("fn_lb_placer_rp_empty_count", METRIC_COUNTER,
                             "Calls given up because their group had no runner.");
    m->pool_error = metric_simple("fn_lb_placer_rp_error_count", METRIC_COUNTER,
                                  "Calls whose pool could not tell its runners; it used the last "
                                  "list, if there was one.");
    m->refresh_failed = metric_simple("fn_lb_pool_refresh_failures_total", METRIC_COUNTER,
                                      "Failed refreshes of a runner pool.");
    m->timeout = metric_simple("fn_lb_placer_timeout_count", METRIC_COUNTER,
                               "Calls whose placement deadline passed.");
    m->client_gone = metric_simple("fn_lb_placer_client_cancelled_count", METRIC_COUNTER,
                                   "Calls whose client left while they waited or ran.");
    m->client_timeout = metric_simple("fn_lb_placer_client_timeout_count", METRIC_COUNTER,
                                      "Calls that a runner did not end within all the time that "
                                      "they had.");
    m->placed_ok = metric_simple("fn_lb_placer_placed_ok_count", METRIC_COUNTER,
                                 "Attempts that ended well.");
    m->placed_error = metric_simple("fn_lb_placer_placed_error_count", METRIC_COUNTER,
                                    "Attempts that a runner took and that failed.");
    m->placed_abort = metric_simple("fn_lb_placer_placed_abort_count", METRIC_COUNTER,
                                    "Attempts whose client went away.");
    m->retry_busy = metric_simple("fn_lb_placer_retry_busy_count", METRIC_COUNTER,
                                  "Attempts that a runner refused because it is full.");
    m->retry_error = metric_simple("fn_lb_placer_retry_error_count", METRIC_COUNTER,
                                   "Attempts that never left because the runner is unreachable.");
    m->waiting = metric_simple("fn_lb_waiting", METRIC_GAUGE, "Calls that wait for a runner.");
    m->runners = metric_simple("fn_lb_runners", METRIC_GAUGE, "Runners listed by the pool.");
    m->groups_stale =
        metric_simple("fn_lb_groups_stale", METRIC_GAUGE,
                      "Groups whose list of runners is old: the pool failed since it gave it.");
    m->runners_up = metric_simple("fn_lb_runners_up", METRIC_GAUGE, "Runners that are connected.");
}

int place_create(const struct place_deps *deps, struct place **ret, struct fn_error *reterr)
{
    struct place *p = calloc(1, sizeof(*p));

    if (!p) {
        return err_set(reterr, FN_E_EXHAUSTED, "place: out of memory");
    }
    p->deps = *deps;
    TAILQ_INIT(&p->held);
    links_init(p);
    listings_init(p);
    declare_metrics(&p->metrics);
    p->fallback = group_get(p, FN_GROUP_DEFAULT);
    if (!p->fallback) {
        free(p);
        return err_set(reterr, FN_E_EXHAUSTED, "place: out of memory");
    }
    plugin_host_offer(deps->host, "fn.snap", 1, 0, &place_snap_if, p);
    plugin_host_on_release(deps->host, "fn.snap", true, source_release);
    plugin_host_offer(deps->host, "fn.wake", 1, 0, &wake_if, p);
    plugin_host_offer(deps->host, "fn.placer", 1, 0, &place_placer_if, p);
    *ret = p;
    return 0;
}

void place_set_options(struct place *p, const struct place_options *options)
{
    p->deps.options = *options;
}

void place_destroy(struct place *p)
{
    struct place_group *g, *next;

    if (!p) {
        return;
    }
    HASH_ITER(hh, p->groups, g, next) {
        assert(g->waiting_n == 0 && g->trying_n == 0);
        group_destroy(g);
    }
    listings_finish(p);
    breaker_finish(p);
    policy_unref(p->policy);
    policy_unref(p->shadow.policy);
    waits_destroy(p->shadow.waits);
    policies_finish(p);
    sources_finish(p);
    links_finish(p);
    plugin_host_on_release(p->deps.host, "fn.snap", false, NULL);
    free(p);
}

/* Of a group that only calls named the pool said nothing. */
static bool is_told_empty(const struct place_group *g)
{
    const struct source *s = g->place->source;

    return g->snap->view.n == 0 && !(g->snap->view.flags & FN_SNAP_STALE) && s &&
           g->published_by == s->seq;
}

static void count_group(const struct place_group *g, struct place_counts *ret)
{
    for (uint32_t i = 0; i < g->snap->view.n; i++) {
        ret->runners_up += runner_is_up(g->snap->runners[i]);
    }
    ret->trying += g->trying_n;
    ret->runners += g->snap->view.n;
    ret->groups_empty += is_told_empty(g);
}

void place_count(const struct place *p, struct place_counts *ret)
{
    *ret = (struct place_counts){ .waiting = p->waiting_n,
                                   .groups = HASH_COUNT(p->groups),
                                   .groups_stale = (uint32_t)p->stale_n };
    for (const struct place_group *g = p->groups; g; g = g->hh.next) {
        count_group(g, ret);
    }
}
