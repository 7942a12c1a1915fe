/* How calls end: what the caller is told, what is counted, what becomes of the container. */
#include <runner/runner_int.h>

#include <assert.h>
#include <model/time_text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL_BYTES 2048
#define ATTEMPTS_MAX 3 /* containers tried for one call with nothing sent */
#define TEXT_LOST  "RUN424 no memory for the call at its runner; it may have run once"

/* ---- listeners ----------------------------------------------------------------------------- */

static struct fn_call listener_view(struct rcall *rc)
{
    if (!rc->more.call) {
        rc->more = (struct fn_call_more){ .call = &rc->call,
                                          .extensions = &rc->extensions,
                                          .slot_key = rc->key,
                                          .arena = &rc->arena };
    }
    return call_view(&rc->call, rc->stream_deadline_ns ? rc->stream_deadline_ns : INT64_MAX,
                     &rc->more);
}

int listeners_before(struct rcall *rc, struct fn_error *reterr)
{
    struct fn_call view;

    if (!rc->chain || rc->chain->n_listeners == 0) {
        return 0;
    }
    view = listener_view(rc);
    return chain_before(rc->chain, &view, &rc->listeners_passed, reterr);
}

/* http 0 = success, or aborted. */
static void listeners_after(struct rcall *rc, int http)
{
    struct fn_call_end end;
    struct fn_call view;

    if (rc->listeners_passed == 0) {
        return;
    }
    view = listener_view(rc);
    end = (struct fn_call_end){
        .code = http ? FN_E_UNKNOWN : 0,
        .http_status = (uint32_t)(http ? http : 200),
        .blame = rc->end_user ? FN_BLAME_USER : FN_BLAME_PLATFORM,
        .started_ns = rc->started_ns,
        .ended_ns = env_now_ns(rc->r->env),
    };
    chain_after(rc->chain, rc->listeners_passed, &view, rc->outcome, &end);
    rc->listeners_passed = 0;
}

/* ---- counting ------------------------------------------------------------------------------ */

static void tally_call(const struct rcall *rc)
{
    int64_t now_ns = env_now_ns(rc->r->env);
    const struct tally_end end = { .id = rc->call.fn_id,
                                   .name = rc->call.app_name,
                                   .took_ns = now_ns - rc->created_ns,
                                   .good = rc->outcome == OUTCOME_OK,
                                   .cold = rc->phase_ns[PHASE_CREATE] > 0 };

    tally_count(rc->r->tally, &end, now_ns);
}

static void count_outcome(struct rcall *rc, int http)
{
    struct runner *r = rc->r;
    struct runner_metrics *m = &r->metrics;

    if (rc->own) {
        return;
    }
    r->counts.in_flight--;
    metric_add(m->in_flight, -1);
    metric_add(m->outcome[rc->outcome], 1);
    r->counts.ok += rc->outcome == OUTCOME_OK;
    r->counts.failed += rc->outcome == OUTCOME_FAILED;
    r->counts.not_executed += rc->outcome == OUTCOME_NOT_EXECUTED;
    r->counts.unknown += rc->outcome == OUTCOME_UNKNOWN;
    r->counts.aborted += rc->outcome == OUTCOME_ABORTED;
    r->counts.handled += http != 503;
    if (http != 503) { /* else another runner has it */
        tally_call(rc);
    }
    if (rc->outcome == OUTCOME_ABORTED) {
        metric_add(m->canceled, 1);
    } else if (http == 0) {
        metric_add(m->completed, 1);
    } else if (http == 503) {
        metric_add(m->server_busy, 1);
    } else if (http == 504 && rc->started_ns) {
        metric_add(m->timeouts, 1);
    } else {
        metric_add(m->errors, 1);
    }
}

/* Also of an exchange that still runs. */
static uint64_t bytes_to_function(const struct rcall *rc)
{
    return rc->bytes_to_function +
           (rc->ex && !rc->ended ? rc->r->deps.fnsock->sent(rc->ex) : 0);
}

/* Each detached call that is lost has its line, however many others end with it: its client has had
 * its 202, and its load balancer may be gone. */
static void log_failure(struct rcall *rc, int http, const char *text)
{
    struct container *c = rc->c;
    static struct log_gate kinds[OUTCOMES_N][FN_LOG_DEBUG + 1], lost_kind;
    uint32_t level = http == 503 ? FN_LOG_DEBUG : rc->end_user ? FN_LOG_INFO : FN_LOG_WARN;
    bool lost = rc->call.detached && rc->start_sent && level == FN_LOG_WARN;

    if (level > log_level()) {
        return;
    }
    log_write_gated(
        lost ? &lost_kind : &kinds[rc->outcome][level], lost ? LOG_LOST_LINES : LOG_GATE_LINES,
        level, "call failed", "call_id", rc->call.id,
        "trace_id", spans_trace_id(rc->traced.spans), "app_id", rc->call.app_id, "fn_id",
        rc->call.fn_id, "container_id", c ? c->id : NULL, "code", log_num(http), "error", text,
        "reason", rc->why, "user", rc->end_user ? "true" : "false", "outcome",
        outcome_names[rc->outcome], "bytes_to_function", log_num((int64_t)bytes_to_function(rc)),
        "fn_request_id", rc->request_id, "output", c ? output_tail(&c->output, TAIL_BYTES) : NULL,
        (char *)NULL);
}

/* ---- the finish message -------------------------------------------------------------------- */

static int64_t wall_of(const struct rcall *rc, int64_t ns)
{
    return rc->call.created_wall_ns + (ns - rc->created_ns);
}

/* What became of it. */
static void fill_verdict(const struct rcall *rc, int http, const char *text,
                         struct engage_finished *f)
{
    f->success = http == 0;
    if (http) {
        f->error_code = http;
        f->error_text = text;
        f->error_user = rc->end_user && rc->outcome != OUTCOME_NOT_EXECUTED; /* who blames the
                                                    function says that it ran */
    }
    if (http == 503) {
        f->details = rc->why; /* the reason of a refusal; peers log it */
        f->refusal = rc->refusal;
    }
    if (rc->call.created_wall_ns) {
        f->details = f->details ? f->details : rc->call.id;
        f->image = rc->call.image;
    }
}

struct times_text {
    char created[TIME_TEXT_MAX], started[TIME_TEXT_MAX], completed[TIME_TEXT_MAX];
};

/* Load balancers take 0 for "did not start"; a turn of the loop is one moment to its clock. */
static int64_t span_ns(int64_t from_ns, int64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 1;
}

/* f borrows texts. */
static void fill_times(const struct rcall *rc, int http, struct times_text *texts,
                       struct engage_finished *f)
{
    f->image_pull_wait_ns = rc->phase_ns[PHASE_PULL];
    f->ctr_prep_ns = rc->phase_ns[PHASE_PREPARE];
    f->ctr_create_ns = rc->phase_ns[PHASE_CREATE];
    f->init_start_ns = rc->phase_ns[PHASE_INIT];
    if (!rc->call.created_wall_ns) {
        return;
    }
    time_print_ms(rc->call.created_wall_ns, texts->created);
    f->created_at = texts->created;
    if (rc->started_ns && http != 503) {
        time_print_ms(wall_of(rc, rc->started_ns), texts->started);
        time_print_ms(wall_of(rc, rc->ended_ns), texts->completed);
        f->started_at = texts->started;
        f->completed_at = texts->completed;
        f->scheduler_ns = span_ns(rc->created_ns, rc->started_ns);
        f->execution_ns = span_ns(rc->started_ns, rc->ended_ns);
    }
}

/* Tells the caller, if there is one, and counts: exactly once per call. http 0 = success. */
static void rcall_tell(struct rcall *rc, int http, const char *text)
{
    struct engage_finished f = { 0 };
    struct times_text texts;
    struct engage_session *s = rc->session;

    assert(!(http == 503 && (rc->bytes_to_function > 0 || rc->start_sent)));
    rc->ended_ns = env_now_ns(rc->r->env);
    if (s) {
        count_outcome(rc, http);
    }
    fill_verdict(rc, http, text, &f);
    fill_times(rc, http, &texts, &f);
    rspans_told(rc, http, text);
    if (http && !rc->own) {
        log_failure(rc, http, text);
    }
    listeners_after(rc, http);
    rc->session = NULL;
    if (s) {
        rc->server->finish(s, &f);
    }
    if (rc->bytes_to_function == 0 && !rc->ex) {
        seen_forget(&rc->r->seen, &rc->seen_mark); /* may come again: nothing happened */
    }
}

void rcall_free(struct rcall *rc)
{
    struct runner *r = rc->r;
    struct arena arena = rc->arena;

    assert(!rc->session && !rc->ex && !rc->c);
    rspans_end(rc);
    env_undefer(r->env, &rc->task);
    r->counts.active -= !rc->own;
    walks_skip(&r->call_walks, rc, TAILQ_NEXT(rc, all));
    TAILQ_REMOVE(&r->calls, rc, all);
    chain_unref(rc->chain);
    rcall_drop_body(rc);
    rcall_leave_memory(rc);
    arena_finish(&arena);
    runner_drain_check(r);
}

/* The function has had something of it, or answered. */
static bool has_run(const struct rcall *rc)
{
    return rc->head_seen || bytes_to_function(rc) > 0;
}

void rcall_unrun(struct rcall *rc, bool keep)
{
    struct container *c = rc->c;
    bool ran = has_run(rc);

    rspans_ran(rc);
    if (rc->ex) {
        rc->r->deps.fnsock->finish(rc->ex);
        rc->ex = NULL;
    }
    if (c) {
        rc->c = NULL;
        rspans_kept_id(rc, c->ran_trace);
        if (ran) {
            slots_ran(c->q, env_now_ns(rc->r->env) - rc->run_ns);
        }
        rc->r->counts.running--;
        metric_add(rc->r->metrics.running, -1);
        container_release(c, keep, ran);
    }
}

/* The last act of a call. */
static void conclude(struct rcall *rc, int http, const char *text, bool keep)
{
    rcall_enter(rc, RC_DONE);
    rcall_tell(rc, http, text);
    rcall_unrun(rc, keep);
    rcall_free(rc);
}

void rcall_end_task(struct env_task *t)
{
    struct rcall *rc = container_of(t, struct rcall, task);

    conclude(rc, rc->end_http, rc->end_text ? rc->end_text : "out of memory", false);
}

static void end_soon(struct rcall *rc, enum outcome outcome, int http, bool user)
{
    rcall_enter(rc, RC_ENDING);
    rc->outcome = outcome;
    rc->end_http = http;
    rc->end_user = user;
    env_defer(rc->r->env, &rc->task);
}

void rcall_nack(struct rcall *rc, enum engage_reason reason, const char *why)
{
    refusal_fill(rc, reason);
    rc->why = why;
    rc->end_text = TEXT_BUSY;
    assert(rc->bytes_to_function == 0);
    end_soon(rc, OUTCOME_NOT_EXECUTED, 503, false);
}

void rcall_refuse(struct rcall *rc, const struct fn_error *err)
{
    int http = err_http_status(err);

    rc->end_text = arena_strdup(&rc->arena, err->msg);
    if (http == 503 && err->code != FN_E_UNAVAILABLE && err->code != FN_E_EXHAUSTED) {
        http = 500;
    }
    end_soon(rc, OUTCOME_NOT_EXECUTED, http, err->blame == FN_BLAME_USER);
}

void rcall_lost(struct rcall *rc)
{
    rc->end_text = TEXT_LOST;
    end_soon(rc, OUTCOME_UNKNOWN, 502, false);
}

/* ---- before the run ------------------------------------------------------------------------ */

static bool is_transient(const struct fn_error *e)
{
    return e->blame != FN_BLAME_USER &&
           (e->flags & FN_ERR_RETRY || e->http_status == 503 || e->code == FN_E_UNAVAILABLE ||
            e->code == FN_E_EXHAUSTED || e->code == FN_E_DEADLINE || e->code == FN_E_CANCELLED ||
            e->code == FN_E_ABORTED || (e->code == FN_E_NOT_FOUND && e->http_status == 0));
}

void rcall_launch_failed(struct rcall *rc, enum engage_reason reason, const struct fn_error *why)
{
    bool user = why->blame == FN_BLAME_USER;
    int http = err_http_status(why);

    if (rc->own) {
        rcall_refuse(rc, why); /* to be told what it is */
        return;
    }
    rc->why = "container not started";
    if (is_transient(why)) {
        rcall_nack(rc, reason, "container not started");
        return;
    }
    if (http == 503) {
        http = 500;
    }
    if (user || why->http_status) {
        rc->end_text = arena_strdup(&rc->arena, why->msg);
    } else {
        http = 500;
        rc->end_text = "internal server error: container could not be started";
    }
    end_soon(rc, user && http >= 500 ? OUTCOME_FAILED : OUTCOME_NOT_EXECUTED, http, user);
}

void rcall_again(struct rcall *rc, const char *why)
{
    struct slot_queue *q = rc->q;

    rc->c = NULL;
    rc->why = why;
    if (!rc->session) {
        listeners_after(rc, 0);
        rcall_enter(rc, RC_DONE);
        rcall_free(rc);
        return;
    }
    assert(rc->bytes_to_function == 0 && !rc->start_sent);
    if (++rc->attempts >= ATTEMPTS_MAX || (!rc->body_complete && rc->began) ||
        rc->r->draining) {
        rcall_nack(rc, rc->r->draining ? ENGAGE_REASON_DRAINING : ENGAGE_REASON_START, why);
        return;
    }
    metric_add(rc->r->metrics.retried_inside, 1);
    slots_wait(q, rc, true);
    slots_kick(q);
}

/* ---- the end of a run ---------------------------------------------------------------------- */

static void __attribute__((format(printf, 4, 5)))
conclude_failed(struct rcall *rc, int http, bool user, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    rc->outcome = OUTCOME_FAILED;
    rc->end_user = user;
    conclude(rc, http, text, false);
}

/* The function is not to blame, and may have done its work. */
static void conclude_lost(struct rcall *rc)
{
    rc->outcome = OUTCOME_UNKNOWN;
    rc->end_user = false;
    conclude(rc, 502, TEXT_LOST, false);
}

/* Complete answer: what the function said decides; a healthy container is kept. */
static void conclude_answered(struct rcall *rc)
{
    bool keep = rc->end.reusable && !rc->tainted && !rc->c->exited;

    rc->outcome = OUTCOME_FAILED;
    rc->end_user = true;
    if (rc->fn_status == 502) {
        conclude(rc, 502, "function failed", keep);
    } else if (rc->fn_status == 504) {
        conclude(rc, 504, "Timed out", keep);
    } else {
        rc->outcome = OUTCOME_OK;
        rc->end_user = false;
        conclude(rc, 0, NULL, keep);
    }
}

static const char *detail(const struct rcall *rc)
{
    return rc->end.text[0] ? rc->end.text : "connection ended";
}

static void conclude_broken(struct rcall *rc)
{
    static const struct {
        const char *text;
        bool has_detail;
    } told[] = { [FNSOCK_INVALID] = { "invalid function response: ", true },
                 [FNSOCK_HEADERS_TOO_LARGE] = { "function response header too large", false },
                 [FNSOCK_BODY_TOO_LARGE] = { "function response body too large", false },
                 [FNSOCK_EARLY_ANSWER] = { "", true },
                 [FNSOCK_WRITE_CLOSED] = { NULL, false } };
    enum fnsock_end end = rc->end.end;
    char text[FN_ERROR_TEXT_MAX];

    if (end == FNSOCK_LOST) {
        conclude_lost(rc);
    } else if (end == FNSOCK_ESCAPE) {
        conclude_failed(rc, 502, true, "error receiving function response: %s%s",
                        strncmp(rc->end.text, "FN604", 5) == 0 ? "" : "FN604 socket leaves its "
                        "directory: ", detail(rc));
    } else if (told[end].text) {
        conclude_failed(rc, 502, true, "%s%s", told[end].text,
                        told[end].has_detail ? detail(rc) : "");
    } else if (rc->c->exited) {
        container_exit_text(rc->c, text, sizeof(text));
        conclude_failed(rc, 502, true, "%s%s",
                        rc->c->exit.reason == FN_EXIT_OOM ? ""
                                                          : "error receiving function response: ",
                        text);
    } else if (end == FNSOCK_WRITE_CLOSED) {
        conclude_failed(rc, 502, true, "function closed pipe while receiving request");
    } else {
        conclude_failed(rc, 502, true, "error receiving function response: %s", detail(rc));
    }
}

static bool may_be_exit(enum fnsock_end end)
{
    return end == FNSOCK_CLOSED_EARLY || end == FNSOCK_WRITE_CLOSED || end == FNSOCK_CUT;
}

static void await_exit(struct rcall *rc)
{
    rc->awaits = RUN_AWAITS_EXIT;
    container_arm(rc->c, env_now_ns(rc->r->env) + rc->r->opt.exit_wait_ns);
}

/* Not a byte was accepted and nothing came back: another container may have it. */
static bool is_untouched(const struct rcall *rc)
{
    return rc->bytes_to_function == 0 && !rc->head_seen && rc->end.answer_bytes == 0 &&
           (rc->end.end == FNSOCK_CONNECT || rc->end.end == FNSOCK_CLOSED_EARLY ||
            rc->end.end == FNSOCK_WRITE_CLOSED);
}

/* Another container may have it, unless this function's end like that one after the other: then the
 * caller is told how, as where a start fails. */
static void run_again(struct rcall *rc)
{
    struct container *c = rc->c;
    char text[FN_ERROR_TEXT_MAX];
    bool vain = container_stillborn(c);

    if (vain && container_ended_by_itself(c)) {
        conclude_failed(rc, 502, true, "error receiving function response: %s",
                        container_exit_text(c, text, sizeof(text)));
    } else if (vain && !c->exited && rc->awaits == RUN_AWAITS_NOTHING) {
        await_exit(rc);
    } else {
        rcall_unrun(rc, false);
        rcall_again(rc, "no connection to the function");
    }
}

/* Not a byte was accepted, and the container is not to blame. */
static void hand_back(struct rcall *rc, enum engage_reason reason, const char *why)
{
    rcall_unrun(rc, true);
    rcall_nack(rc, reason, why);
}

/* Its exchange still runs, and the function has nothing of it. One that answers all the same was
 * told to the caller, and is not asked again. */
static bool is_unsent(const struct rcall *rc)
{
    return rc->ex && !rc->ended && !rc->head_seen && rc->r->deps.fnsock->sent(rc->ex) == 0;
}

void rcall_ended(struct rcall *rc)
{
    if (rc->end.end == FNSOCK_OK) {
        conclude_answered(rc);
    } else if (rc->end.end == FNSOCK_NO_ROOM) {
        hand_back(rc, ENGAGE_REASON_MEMORY,
                  "no descriptor or memory for a connection to the function");
    } else if (is_untouched(rc)) {
        run_again(rc);
    } else if (may_be_exit(rc->end.end) && !rc->c->exited) {
        await_exit(rc);
    } else {
        conclude_broken(rc);
    }
}

/* An answer may still be in the socket of a container that exited. */
static void await_answer(struct rcall *rc)
{
    int64_t by = env_now_ns(rc->r->env) + rc->r->opt.exit_wait_ns;

    rc->awaits = RUN_AWAITS_ANSWER;
    rc->moved = false;
    container_arm(rc->c, by < rc->deadline_ns ? by : rc->deadline_ns);
}

/* It does not say that there is no more of it: its caller reads slowly. One that is ended for what
 * it does to the node's disk goes on with that meanwhile. */
static bool is_answer_on_its_way(const struct rcall *rc)
{
    return !rc->c->outgrown && (rc->paused || rc->moved);
}

/* Its connection ended, and what there is to know about its container is known. */
static void end_without_answer(struct rcall *rc)
{
    if (is_untouched(rc)) {
        run_again(rc);
    } else {
        conclude_broken(rc);
    }
}

void rcall_container_exited(struct rcall *rc)
{
    if (rc->state == RC_ENDING) {
        return;
    }
    if (rc->awaits == RUN_AWAITS_EXIT) {
        end_without_answer(rc);
    } else {
        await_answer(rc);
    }
}

static void time_out(struct rcall *rc)
{
    rc->tainted = true;
    conclude_failed(rc, 504, true, "Timed out");
}

/* Its container exited a while ago, or its time is over. */
static void answer_overdue(struct rcall *rc)
{
    if (is_unsent(rc)) {
        run_again(rc);
    } else if (!is_answer_on_its_way(rc)) {
        rc->end.end = FNSOCK_CLOSED_EARLY;
        conclude_broken(rc);
    } else if (env_now_ns(rc->r->env) < rc->deadline_ns) {
        await_answer(rc);
    } else {
        time_out(rc);
    }
}

void rcall_deadline(struct rcall *rc)
{
    if (rc->state == RC_ENDING) {
        return;
    }
    switch (rc->awaits) {
    case RUN_AWAITS_NOTHING:
        if (is_unsent(rc)) {
            hand_back(rc, ENGAGE_REASON_START, "no connection to the function in time");
        } else {
            time_out(rc);
        }
        break;
    case RUN_AWAITS_EXIT:
        end_without_answer(rc);
        break;
    case RUN_AWAITS_ANSWER:
        answer_overdue(rc);
        break;
    }
}

/* Out of where it is before a run. */
static void withdraw(struct rcall *rc)
{
    switch (rc->state) {
    case RC_BODY:
        TAILQ_REMOVE(&rc->r->awaiting, rc, link);
        break;
    case RC_WAIT:
        slots_unwait(rc);
        slots_kick(rc->q); /* a start for it may be given up */
        break;
    default:
        assert(rc->state == RC_TAKEN);
        rc->c->call = NULL;
        rc->c = NULL;
        break;
    }
}

void rcall_take_back(struct rcall *rc, enum engage_reason reason, const char *why)
{
    withdraw(rc);
    rcall_nack(rc, reason, why);
}

void rcall_force(struct rcall *rc)
{
    if (rc->state < RC_RUN) {
        rcall_take_back(rc, ENGAGE_REASON_DRAINING, "shutting down");
    } else if (rc->state == RC_RUN) {
        rc->outcome = OUTCOME_UNKNOWN;
        conclude(rc, 502, "runner stopped before the function had answered", false);
    }
}

/* ---- the caller went away ------------------------------------------------------------------ */

void rcall_drop(struct rcall *rc)
{
    listeners_after(rc, 0);
    rcall_unrun(rc, false);
    rcall_enter(rc, RC_DONE);
    rcall_free(rc);
}

/* It will never be dispatched. */
static void rcall_forget(struct rcall *rc)
{
    seen_forget(&rc->r->seen, &rc->seen_mark);
    listeners_after(rc, 0);
    rcall_enter(rc, RC_DONE);
    rcall_free(rc);
}

void rcall_on_gone(void *ud)
{
    struct rcall *rc = ud;

    rc->session = NULL;
    rc->outcome = OUTCOME_ABORTED;
    count_outcome(rc, 0);
    if (rc->state < RC_RUN) {
        withdraw(rc);
        rcall_forget(rc);
    } else if (rc->state == RC_RUN) {
        rc->discard = true;
        if (rc->ended || (rc->eof_sent && (!rc->r->draining || rc->call.detached))) {
            rcall_pause(rc, false); /* runs to its end, unheard */
        } else {
            if (rc->call.detached && rc->start_sent) {
                log_failure(rc, 502, "its load balancer went away in the middle of its body");
            }
            rcall_drop(rc);
        }
    } /* the deferred end frees the others */
}
