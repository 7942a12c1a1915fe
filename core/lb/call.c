/* The life of one call.
 *
 *   RECEIVED ──found──▶ PLACING ──TRY──▶ OFFERED ──ResultStart──▶ STARTED ──byte out──▶ STREAMING
 *      │                  ▲   │             │                        │                       │
 *      │                  └───┼──with proof─┘                        │                       │
 *      └──────────────────────┴──────────────────▶ DONE ◀────────────┴───────────────────────┘
 *
 *   RECEIVED to PLACING  on_found(): c->fn is there and stays, and its body counts with its app
 *   PLACING to OFFERED   call_offer(): c->attempt is there; c->place has the runner
 *   OFFERED to PLACING   try_again(): it is proved that nothing ran
 *   OFFERED to STARTED   on_start(), or call_on_data() without it: output ends every proof
 *   STARTED to STREAMING start_streaming(): the client has the head of the answer
 *   to DONE              call_finish(): nobody is told anything more; call_release() comes next
 *
 * The answer is held back until it is complete or outgrows response_buffer_bytes, so that a failure
 * can still become a proper error; from STREAMING on a failure cuts the answer. Memory of the
 * client's request is used only until the client is answered or gone; a detached call lives on
 * without it. */
#include <lb/lb_int.h>

#include <base/log.h>
#include <model/call.h>
#include <override/override.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_KEPT_BYTES     (64u << 10)
#define TEXT_BODY_TOO_LARGE "function response body too large"
#define OWN_HEADERS         3u /* of a refusal: Fn-Call-Id, Fn-Outcome, Retry-After */
#define SECONDS_BYTES       24u

/* What a message has around the model and around an extension, at most. */
#define MESSAGE_BYTES_AROUND   256u
#define EXTENSION_BYTES_AROUND 32u

/* Which state may follow which. */
static const uint32_t follows[LB_STATES_N] = {
    [LB_RECEIVED] = STATE(LB_PLACING) | STATE(LB_DONE),
    [LB_PLACING] = STATE(LB_OFFERED) | STATE(LB_DONE),
    [LB_OFFERED] = STATE(LB_PLACING) | STATE(LB_STARTED) | STATE(LB_DONE),
    [LB_STARTED] = STATE(LB_STREAMING) | STATE(LB_DONE),
    [LB_STREAMING] = STATE(LB_DONE),
    [LB_DONE] = 0,
};
static const char *const names[LB_STATES_N] = { "received", "placing",   "offered",
                                                "started",  "streaming", "done" };
const struct states lb_states = { "lb-call", names, follows, LB_STATES_N };

static void call_enter(struct lb_call *c, enum lb_state state)
{
    c->state = (enum lb_state)states_next(&lb_states, c->state, state);
}

static bool is_acked(const struct lb_call *c)
{
    return c->client_gone || c->answered;
}

/* Its memory is the client's from now on: plugins that ask for more of the call get it from the
 * text that travels. */
static void forget_request(struct lb_call *c)
{
    if (c->more.call == &c->model) {
        c->more.call = NULL;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void tell_listeners(struct lb_call *c, enum outcome outcome, int status,
                           const struct fn_error *e)
{
    struct fn_call_end end = {
        .code = e ? e->code : 0,
        .http_status = (uint32_t)status,
        .blame = e ? e->blame : 0,
        .started_ns = c->created_ns,
        .ended_ns = env_now_ns(c->lb->deps.env),
    };

    chain_after(c->chain, c->listeners_passed, &c->place.view, outcome, &end);
}

static void count_end(struct lb_call *c, enum outcome outcome, int status)
{
    struct lb_metrics *m = &c->lb->metrics;
    uint64_t *counts[OUTCOMES_N] = { &c->lb->counts.ok, &c->lb->counts.failed,
                                     &c->lb->counts.not_executed, &c->lb->counts.unknown,
                                     &c->lb->counts.aborted };
    enum lb_end end = outcome == OUTCOME_OK        ? LB_COMPLETED
                      : outcome == OUTCOME_ABORTED ? LB_CANCELED
                      : status == 504              ? LB_TIMEOUTS
                      : status == 503              ? LB_SERVER_BUSY
                                                   : LB_ERRORS;
    int64_t ms = (env_now_ns(c->lb->deps.env) - c->created_ns - c->finished.execution_ns) / ENV_MS;
    struct metric_exemplar exemplar;
    const struct metric_exemplar *of = traced_exemplar(c, &exemplar);

    ++*counts[outcome];
    metric_add(m->outcomes[outcome], 1);
    metric_add(m->in_flight, -1);
    metric_add(m->ended[end], 1);
    metric_add(c->state == LB_RECEIVED || c->state == LB_PLACING ? m->queued : m->running, -1);
    metric_observe_of(m->call_latency[end], ms > 0 ? ms : 0, of);
    if (c->finished.scheduler_ns) {
        metric_observe_of(m->sched_latency, c->finished.scheduler_ns / ENV_MS, of);
    }
    if (c->finished.execution_ns) {
        metric_observe_of(m->exec_latency, c->finished.execution_ns / ENV_MS, of);
    }
    functions_count(c, outcome, of);
}

/* Its client has its 202, and is told of nothing else. */
static bool is_broken(const struct lb_call *c, enum outcome outcome)
{
    return c->answered && c->route.detached && outcome != OUTCOME_OK;
}

/* Each detached call that is lost has its line, however many others end with a runner: nobody else
 * is told. Those that their functions failed are a stranger's to cause: they pass with others. */
static void log_end(struct lb_call *c, enum outcome outcome, int status, const struct fn_error *e)
{
    static struct log_gate kinds[OUTCOMES_N][FN_LOG_DEBUG + 1], lost_kind;
    uint32_t level = outcome == OUTCOME_OK || outcome == OUTCOME_ABORTED ? FN_LOG_DEBUG
                     : e && e->blame == FN_BLAME_USER                   ? FN_LOG_INFO
                                                                        : FN_LOG_WARN;
    bool lost = is_broken(c, outcome) && level == FN_LOG_WARN;

    if (log_level() < level) {
        return;
    }
    log_write_gated(lost ? &lost_kind : &kinds[outcome][level],
                    lost ? LOG_LOST_LINES : LOG_GATE_LINES, level, "call ended", "call_id", c->id,
                    "outcome", outcome_names[outcome], "status", log_num(status), "fn_id",
                    c->fn ? c->fn->model.fn_id : c->route.fn_id, "app_id",
                    c->fn ? c->fn->model.app_id : NULL, "runner_addr", c->place.address,
                    "attempts", log_num(c->place.attempts), "error", e ? e->msg : NULL,
                    "fn_request_id", c->request_id, "trace_id",
                    spans_trace_id(c->traced.spans), "peer", c->rq.peer, (char *)NULL);
}

void call_release(struct lb_call *c)
{
    struct lb *lb = c->lb;
    struct arena arena = c->arena;

    walks_skip(&lb->walks, c, TAILQ_NEXT(c, link));
    TAILQ_REMOVE(&lb->calls, c, link);
    lb->counts.in_flight--;
    bodies_give(c);
    catalog_fn_unref(c->fn);
    chain_unref(c->chain);
    body_unref(c->body);
    buf_finish(&c->held);
    arena_finish(&arena);
    if (lb->drained && lb->counts.in_flight == 0) {
        env_defer(lb->deps.env, &lb->drained_task);
    }
}

/* Every call comes through here exactly once. */
static void call_finish(struct lb_call *c, enum outcome outcome, int status,
                        const struct fn_error *e)
{
    if (c->attempt) {
        c->lb->deps.client->attempt_close(c->attempt);
        c->attempt = NULL;
    }
    forget_request(c);
    log_end(c, outcome, status, e); /* while the runner's address lives */
    note_end(c, outcome, status, e);
    c->place.execution_ns = c->has_finished ? c->finished.execution_ns : 0;
    place_end(&c->place, outcome == OUTCOME_OK        ? PLACE_END_OK
                         : outcome == OUTCOME_ABORTED ? PLACE_END_GONE
                                                      : PLACE_END_FAILED);
    if (is_broken(c, outcome)) {
        metric_add(c->lb->metrics.detached_broken, 1);
    }
    tell_listeners(c, outcome, status, e);
    count_end(c, outcome, status);
    call_enter(c, LB_DONE);
    if (!c->submitting) {
        call_release(c);
    }
}

/* ---- answers to the client ------------------------------------------------------------------- */

static void add_own_headers(struct lb_call *c, struct headers *h, enum outcome outcome)
{
    headers_add_borrowed(h, "Fn-Call-Id", c->id);
    if (c->state != LB_STREAMING) {
        headers_add_borrowed(h, "Fn-Outcome", outcome_names[outcome]);
    }
}

/* A plugin may refuse with another status and say when to come again. */
static void add_retry_after(struct headers *h, char text[SECONDS_BYTES], int status,
                            const struct fn_error *e)
{
    int64_t s = e->retry_after_ns / ENV_S + (e->retry_after_ns % ENV_S > 0);

    if (status == 503 || s > 0) {
        snprintf(text, SECONDS_BYTES, "%lld", (long long)(s > 0 ? s : 1));
        headers_add_borrowed(h, "Retry-After", text);
    }
}

/* Its own fields need no memory: a refusal for want of it says what became of the call. */
static void call_fail(struct lb_call *c, enum outcome outcome, int status, const struct fn_error *e)
{
    struct header room[OWN_HEADERS];
    struct headers h;
    char seconds[SECONDS_BYTES];

    if (is_acked(c)) {
        call_finish(c, outcome, status, e);
        return;
    }
    if (c->state == LB_STREAMING) {
        c->reply->cut(c->reply_ud);
    } else {
        headers_init_room(&h, &c->arena, room, OWN_HEADERS);
        add_own_headers(c, &h, outcome);
        if (outcome == OUTCOME_NOT_EXECUTED) {
            add_retry_after(&h, seconds, status, e);
        }
        note_first_byte(c);
        c->reply->error(c->reply_ud, status, &h, e->msg);
    }
    call_finish(c, outcome, status, e);
}

static void call_refuse(struct lb_call *c, const struct fn_error *e)
{
    call_fail(c, OUTCOME_NOT_EXECUTED, err_http_status(e), e);
}

static void refuse_no_memory(struct lb_call *c)
{
    struct fn_error e;

    err_set_http(&e, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "out of memory");
    call_refuse(c, &e);
}

/* The function answers, and there is no memory for that: it has run, so nobody is told to come
 * again. */
static void lose_answer(struct lb_call *c)
{
    struct fn_error e;

    err_set_http(&e, FN_E_DATA_LOSS, 502, FN_BLAME_PLATFORM,
                 "LB314 no memory for the function's answer; the call may have run once");
    call_fail(c, OUTCOME_UNKNOWN, 502, &e);
}

/* Head and status of the answer, once ResultStart is there. false: the call has ended. */
static bool prepare_answer(struct lb_call *c)
{
    struct fn_error e;
    int r;

    headers_init(&c->answer, &c->arena);
    if (c->status <= 0) {
        c->status = c->route.detached ? 202 : 200;
    }
    r = route_answer_headers(c->route.is_trigger, &c->headers, &c->answer, &c->status, &e);
    if (r == FN_E_EXHAUSTED) {
        lose_answer(c);
    } else if (r < 0) {
        call_fail(c, OUTCOME_FAILED, err_http_status(&e), &e);
    }
    return r >= 0;
}

static void answer_whole(struct lb_call *c, enum outcome outcome)
{
    if (is_acked(c)) {
        call_finish(c, outcome, c->status, NULL);
        return;
    }
    if (!prepare_answer(c)) {
        return;
    }
    add_own_headers(c, &c->answer, outcome);
    note_first_byte(c);
    c->reply->whole(c->reply_ud, c->status, &c->answer, c->held.data, c->held.len);
    c->answered = true;
    call_finish(c, outcome, c->status, NULL);
}

static void send_held(struct lb_call *c)
{
    if (c->held.len > 0 && c->reply->data(c->reply_ud, c->held.data, c->held.len)) {
        c->paused = true;
        c->lb->deps.client->attempt_pause(c->attempt, true);
    }
    buf_finish(&c->held);
}

/* The answer outgrew the buffer: its head and what is held go out. */
static bool start_streaming(struct lb_call *c)
{
    if (!prepare_answer(c)) {
        return false;
    }
    headers_add_borrowed(&c->answer, "Fn-Call-Id", c->id);
    call_enter(c, LB_STREAMING);
    note_first_byte(c);
    c->reply->head(c->reply_ud, c->status, &c->answer, c->declared);
    send_held(c);
    return true;
}

/* ---- the attempt ----------------------------------------------------------------------------- */

static void call_step(struct lb_call *c);
static void end_as(struct lb_call *c, enum seen seen, const char *transport_text);

static void refuse_answer(struct lb_call *c, const char *text)
{
    struct fn_error e;

    err_set_http(&e, FN_E_RANGE, 502, FN_BLAME_USER, "%s", text);
    call_fail(c, OUTCOME_FAILED, 502, &e);
}

/* The function's own fault, as an answer that is too short is. */
static void refuse_length(struct lb_call *c)
{
    char text[96];

    snprintf(text, sizeof(text), "FN603 answer went on after %lld of %lld bytes",
             (long long)c->received, (long long)c->declared);
    refuse_answer(c, text);
}

static bool is_too_large(const struct lb_call *c, int64_t bytes)
{
    uint64_t max = (uint64_t)c->options.response_bytes_max;

    return max && bytes > 0 && (uint64_t)bytes > max;
}

/* FN_E_RANGE over the limits of an answer. */
static int take_headers(struct lb_call *c, const struct engage_start *start)
{
    size_t bytes = 0;

    headers_init(&c->headers, &c->arena);
    for (uint32_t i = 0; i < start->n_headers; i++) {
        const struct header *h = &start->headers[i];
        size_t name_len = strlen(h->name);
        size_t value_len = strlen(h->value);

        bytes += name_len + value_len + 4;
        if (i >= ANSWER_HEADERS_MAX || bytes > ANSWER_HEADER_BYTES_MAX) {
            return FN_E_RANGE;
        }
        if (headers_add_n(&c->headers, h->name, name_len, h->value, value_len) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

/* -1: nothing that can be used. */
static int64_t declared_length(const struct headers *h)
{
    const char *text = headers_get(h, "Content-Length");
    char *end;
    int64_t n = text ? strtoll(text, &end, 10) : -1;

    return n < 0 || *end ? -1 : n;
}

/* Its one field needs no memory. */
static void answer_detached(struct lb_call *c, int status)
{
    struct header room[1];
    struct headers h;

    headers_init_room(&h, &c->arena, room, 1);
    headers_add_borrowed(&h, "Fn-Call-Id", c->id);
    note_first_byte(c);
    c->reply->whole(c->reply_ud, status, &h, NULL, 0);
    c->answered = true;
    forget_request(c);
}

/* false: the call has ended. */
static bool take_start(struct lb_call *c, const struct engage_start *start)
{
    int r;

    c->status = start->status;
    if (c->status > 0 && (c->status < 200 || c->status > 599)) {
        end_as(c, SEEN_MALFORMED, "CallResultStart with a status outside of 200 to 599");
        return false;
    }
    r = take_headers(c, start);
    if (r == FN_E_EXHAUSTED) {
        lose_answer(c);
    } else if (r < 0) {
        refuse_answer(c, "function response header too large");
    } else {
        c->declared = declared_length(&c->headers);
    }
    return r == 0;
}

static void on_start(void *ud, const struct engage_start *start)
{
    struct lb_call *c = ud;

    if (c->state != LB_OFFERED) {
        c->out_of_order = true;
        return;
    }
    call_enter(c, LB_STARTED);
    if (!take_start(c, start) || is_acked(c)) {
        return;
    }
    if (c->route.detached) {
        answer_detached(c, c->status > 0 ? c->status : 202);
    } else if (is_too_large(c, c->declared)) {
        refuse_answer(c, TEXT_BODY_TOO_LARGE); /* while it can still be an error */
    }
}

static void call_on_data(void *ud, const void *data, size_t len)
{
    struct lb_call *c = ud;
    const struct lb_options *o = &c->options;

    c->received += len;
    if (c->state == LB_OFFERED) { /* also when nobody waits: output ends every proof */
        call_enter(c, LB_STARTED);
        c->declared = -1;
        headers_init(&c->headers, &c->arena);
    }
    if (is_acked(c)) {
        return;
    }
    if (is_too_large(c, (int64_t)c->received)) {
        refuse_answer(c, TEXT_BODY_TOO_LARGE);
        return;
    }
    if (c->declared >= 0 && c->received > (uint64_t)c->declared) {
        refuse_length(c);
        return;
    }
    if (c->state != LB_STREAMING && c->held.len + len > (uint64_t)o->response_buffer_bytes &&
        !start_streaming(c)) {
        return;
    }
    if (buf_add(&c->held, data, len) < 0) {
        lose_answer(c);
        return;
    }
    if (c->state == LB_STREAMING && c->received != (uint64_t)c->declared) {
        send_held(c); /* the last piece waits for the end: more may come than was announced */
    }
}

static void on_finished(void *ud, const struct engage_finished *f)
{
    struct lb_call *c = ud;

    c->has_finished = true;
    c->began = outcome_began(f);
    outcome_believe(f, env_now_ns(c->lb->deps.env) - c->created_ns, &c->finished);
    c->finished.error_text = outcome_text(&c->arena, &c->said_error, f->error_text);
    c->finished.details = outcome_text(&c->arena, &c->said_details, outcome_reason(f, c->id));
}

static enum seen classify_finished(const struct lb_call *c)
{
    const struct engage_finished *f = &c->finished;
    bool silent = c->state == LB_OFFERED;

    if (f->success) {
        return SEEN_OK;
    }
    if (f->error_code == 503 && !f->error_user) {
        return silent && !c->began ? SEEN_NACK : SEEN_NACK_LATE;
    }
    if (f->error_user) {
        return SEEN_FUNCTION_ERROR;
    }
    if (silent && f->error_code == 409 && c->offers > 1) {
        return SEEN_ID_KNOWN; /* what refused it before may not have told the truth */
    }
    if (silent && ((f->error_code >= 400 && f->error_code < 500) || f->error_code == 501)) {
        return SEEN_RUNNER_REFUSAL;
    }
    return SEEN_RUNNER_ERROR;
}

static enum seen classify(const struct lb_call *c, int grpc_status, enum engage_proof proof,
                          bool legal)
{
    if (!legal || c->out_of_order) {
        return SEEN_MALFORMED;
    }
    if (proof == ENGAGE_PROOF_NOT_SENT && c->state == LB_OFFERED) {
        return SEEN_NOT_SENT;
    }
    if (proof == ENGAGE_PROOF_FULL && c->state == LB_OFFERED) {
        return SEEN_FULL;
    }
    if (proof == ENGAGE_PROOF_REFUSED && c->state == LB_OFFERED) {
        return SEEN_REFUSED;
    }
    if (c->has_finished && !c->finished.success) {
        return classify_finished(c);
    }
    if (c->has_finished) {
        return SEEN_OK; /* the runner confirmed it; how the stream ends after that is idle (F10) */
    }
    return grpc_status == GRPC_DEADLINE      ? SEEN_DEADLINE
           : grpc_status == GRPC_UNAVAILABLE ? SEEN_BROKEN
                                             : SEEN_ABORTED;
}

static void try_again(struct lb_call *c, enum seen seen)
{
    uint32_t why = outcome_rules[seen].retry_why;

    c->lb->deps.client->attempt_close(c->attempt);
    c->attempt = NULL;
    if (c->has_finished) {
        c->place.refusal = c->finished.details;
        c->place.told = seen == SEEN_NACK ? &c->finished.refusal : NULL;
    }
    c->has_finished = c->began = false;
    metric_add(c->lb->metrics.running, -1);
    metric_add(c->lb->metrics.queued, 1);
    call_enter(c, LB_PLACING);
    traced_again(c);
    place_refused(&c->place, why, FN_E_UNAVAILABLE);
    c->finished = (struct engage_finished){ 0 }; /* of that attempt, which ran nothing */
    call_step(c);
}

static void end_as(struct lb_call *c, enum seen seen, const char *transport_text)
{
    const struct rule *rule = &outcome_rules[seen];
    int status = rule->http_status ? rule->http_status : c->finished.error_code;
    const char *text = rule->text ? rule->text : c->finished.error_text;
    bool known = status >= 400 && status <= 599;
    struct fn_error e;

    if (seen == SEEN_MALFORMED || seen == SEEN_NACK_LATE) {
        metric_add(c->lb->metrics.strikes, 1);
    }
    c->place.overdue = seen == SEEN_DEADLINE;
    if (seen == SEEN_BROKEN || seen == SEEN_ABORTED || !known) {
        log_stranger(FN_LOG_WARN, "the runner's stream ended without a proof", "call_id", c->id,
                     "runner_addr", c->place.address, "trace_id", spans_trace_id(c->traced.spans),
                     "error", known ? transport_text : text);
    }
    err_set_http(&e, FN_E_UNKNOWN, known ? status : 500,
                 seen == SEEN_FUNCTION_ERROR ? FN_BLAME_USER : FN_BLAME_PLATFORM, "%s",
                 known && text && text[0] ? text : "internal server error");
    call_fail(c, rule->outcome, err_http_status(&e), &e);
}

/* F09: everything that was declared has come, only the runner's confirmation is missing. */
static bool is_whole(const struct lb_call *c)
{
    return (c->state == LB_STARTED || c->state == LB_STREAMING) && c->declared >= 0 &&
           c->received == (uint64_t)c->declared;
}

static void end_well(struct lb_call *c, enum outcome outcome)
{
    struct fn_error e;

    if (c->declared >= 0 && !is_acked(c) && c->received != (uint64_t)c->declared &&
        c->state >= LB_STARTED) {
        err_set_http(&e, FN_E_DATA_LOSS, 502, FN_BLAME_USER,
                     "FN603 answer ended after %llu of %lld bytes",
                     (unsigned long long)c->received, (long long)c->declared);
        call_fail(c, OUTCOME_FAILED, 502, &e);
    } else if (c->state == LB_STREAMING && !is_acked(c)) {
        send_held(c);
        c->reply->end(c->reply_ud);
        c->answered = true;
        call_finish(c, outcome, c->status, NULL);
    } else {
        answer_whole(c, outcome);
    }
}

static void call_on_end(void *ud, int grpc_status, const char *text, enum engage_proof proof,
                        bool legal)
{
    struct lb_call *c = ud;
    enum seen seen = classify(c, grpc_status, proof, legal);

    note_attempt(c, seen, grpc_status, text);
    if (outcome_rules[seen].retry_why) {
        try_again(c, seen);
    } else if (seen == SEEN_OK) {
        end_well(c, OUTCOME_OK);
    } else if ((seen == SEEN_BROKEN || seen == SEEN_ABORTED) && is_whole(c)) {
        end_well(c, OUTCOME_UNKNOWN);
    } else {
        end_as(c, seen, text);
    }
}

static const struct engage_client_cb attempt_cb = { on_start, call_on_data, on_finished,
                                                    call_on_end };

int64_t call_overdue_ns(const struct lb_call *c)
{
    const struct lb_options *o = &c->options;

    return c->created_ns + o->execution_headroom_ns + c->timeout_s * ENV_S +
           (c->route.detached ? o->detached_placement_timeout_ns : o->placement_timeout_ns);
}

/* Sync calls have no deadline of their own on the wire (as with Go Fn): the runner keeps the
 * function's, a dead runner is found by its link, and one that never ends them in lb.c. */
static int64_t attempt_deadline_ns(const struct lb_call *c)
{
    return c->route.detached ? call_overdue_ns(c) : 0;
}

void call_end_overdue(struct lb_call *c)
{
    struct fn_error e;

    err_set_http(&e, FN_E_DEADLINE, 504, FN_BLAME_PLATFORM,
                 "LB315 the runner did not end the call in time; the call may have run once");
    c->place.overdue = true;
    call_fail(c, OUTCOME_UNKNOWN, 504, &e);
}

static void call_offer(struct lb_call *c)
{
    const struct engage_try t = {
        .call_json = c->json,
        .call_json_len = c->json_len,
        .slot_hash_id = c->slot_hash_id,
        .extensions = c->extensions.items,
        .n_extensions = c->extensions.n,
        .request_id = c->request_id,
    };

    call_enter(c, LB_OFFERED);
    c->offers++;
    traced_offer(c);
    metric_add(c->lb->metrics.queued, -1);
    metric_add(c->lb->metrics.running, 1);
    c->attempt = c->lb->deps.client->attempt(c->place.link, &t, c->body, attempt_deadline_ns(c),
                                             &attempt_cb, c);
    if (!c->attempt) {
        refuse_no_memory(c);
    }
}

static void call_step(struct lb_call *c)
{
    switch (place_next(&c->place)) {
    case PLACE_TRY:
        call_offer(c);
        break;
    case PLACE_PARKED:
        break;
    case PLACE_GIVE_UP:
        call_refuse(c, &c->place.error);
        break;
    }
}

static void on_wake(struct place_call *pc)
{
    call_step(container_of(pc, struct lb_call, place));
}

/* ---- before placement ------------------------------------------------------------------------ */

/* A client that takes this node for a proxy has sent all of it. */
static const char *url_of(struct lb_call *c)
{
    if (c->rq.target[0] != '/') {
        return c->rq.target;
    }
    return arena_join(c->rq.arena, c->rq.scheme, "://", c->rq.host ? c->rq.host : "",
                      c->rq.target, (char *)NULL);
}

static int build_model(struct lb_call *c, struct call *m)
{
    const char *url = url_of(c);
    uint32_t dropped = 0;
    int r;

    catalog_fn_fill(c->fn, &c->arena, m);
    m->id = c->id;
    m->detached = c->route.detached;
    m->url = url;
    m->method = c->rq.method;
    m->created_wall_ns = m->started_wall_ns = c->started_wall_ns;
    r = url ? route_request_headers(&c->rq, &c->route, url, &m->headers, &dropped)
            : FN_E_EXHAUSTED;
    if (dropped) {
        metric_add(c->lb->metrics.reserved_dropped, dropped);
    }
    return r < 0 ? r : traced_headers(c, &m->headers);
}

static void set_view(struct lb_call *c, const struct call *m)
{
    const struct lb_options *o = &c->options;

    c->mem_mb = m->mem_mb;
    c->timeout_s = m->timeout_s;
    c->more = (struct fn_call_more){ .call = m,
                                     .extensions = &c->extensions,
                                     .json = c->json,
                                     .json_len = c->json_len,
                                     .slot_hash = c->slot_hash_id,
                                     .arena = &c->arena };
    c->place.view = call_view(m, INT64_MAX, &c->more);
    c->place.deadline_ns = c->created_ns + (c->route.detached ? o->detached_placement_timeout_ns
                                                              : o->placement_timeout_ns);
    c->place.on_wake = on_wake;
}

static int write_model(struct lb_call *c, const struct call *m)
{
    struct buf *json = &c->lb->json;
    char *text = NULL;

    buf_clear(json);
    if (call_to_json(m, json) == 0) {
        text = arena_strndup(&c->arena, json->data, json->len);
        c->json = text;
        c->json_len = json->len;
    }
    if (text) {
        traced_written(c, text);
    }
    if (json->cap > JSON_KEPT_BYTES) {
        buf_finish(json);
    }
    return c->json ? 0 : FN_E_EXHAUSTED;
}

/* What no runner would take is refused here, where it is known that nothing ran. */
static int check_size(const struct lb_call *c, struct fn_error *reterr)
{
    uint64_t max = (uint64_t)c->options.message_bytes_max;
    uint64_t bytes = c->json_len + MESSAGE_BYTES_AROUND;

    for (uint32_t i = 0; i < c->extensions.n; i++) {
        bytes += strlen(c->extensions.items[i].key) + strlen(c->extensions.items[i].value) +
                 EXTENSION_BYTES_AROUND;
    }
    if (max == 0 || bytes <= max) {
        return 0;
    }
    return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER,
                        "LB316 call of %llu bytes with configuration, annotations and headers; "
                        "expected at most %llu",
                        (unsigned long long)bytes, (unsigned long long)max);
}

static int check_type(const struct lb_call *c, struct fn_error *reterr)
{
    if (c->route.detached && !c->options.detached) {
        return err_set_http(reterr, FN_E_UNIMPLEMENTED, 501, FN_BLAME_PLATFORM,
                            "Detach call functions are not supported on this server");
    }
    return 0;
}

static int run_overriders(struct lb_call *c, struct call *m, struct fn_error *reterr)
{
    int64_t begun_wall_ns;
    int r;

    if (!c->chain || c->chain->n_overriders == 0) {
        return 0;
    }
    begun_wall_ns = c->traced.spans ? env_wall_ns(c->lb->deps.env) : 0;
    c->slot_hash_id = ""; /* the call may be another one now: the runner makes its key */
    r = override_apply(c->chain->overriders, c->chain->n_overriders, OVERRIDE_AT_LB, m,
                       &c->extensions, reterr);
    spans_overridden(c->traced.spans, begun_wall_ns, c->chain->n_overriders, r < 0 ? reterr : NULL);
    c->route.detached = m->detached;
    return r;
}

static int prepare(struct lb_call *c, struct fn_error *reterr)
{
    struct call *m = &c->model;
    int r = build_model(c, m);

    if (r < 0) {
        return err_set(reterr, r, "out of memory");
    }
    kvs_init(&c->extensions, &c->arena);
    c->slot_hash_id = c->fn->slot_hash_id;
    r = run_overriders(c, m, reterr);
    r = r < 0 ? r : check_type(c, reterr);
    if (r < 0) {
        return r;
    }
    r = write_model(c, m);
    if (r < 0) {
        return err_set(reterr, r, "out of memory");
    }
    set_view(c, m);
    r = chain_before(c->chain, &c->place.view, &c->listeners_passed, reterr);
    return r < 0 ? r : check_size(c, reterr);
}

static void on_found(void *ud, struct catalog_fn *given, const struct fn_error *err)
{
    struct lb_call *c = ud;
    struct fn_error e = ERR_INIT;

    c->query = NULL;
    if (!given) {
        call_refuse(c, err);
        return;
    }
    c->fn = given;
    if (bodies_take(c, &e) < 0 || prepare(c, &e) < 0) {
        call_refuse(c, &e);
        return;
    }
    call_enter(c, LB_PLACING);
    note_placing(c);
    place_begin(c->lb->deps.place, &c->place);
    call_step(c);
}

void call_run(struct lb_call *c)
{
    c->query = catalog_find(c->lb->deps.catalog, c->rq.client, c->route.fn_id, c->route.app,
                            c->route.source, on_found, c);
}

/* ---- the client ------------------------------------------------------------------------------ */

static void forget_query(struct lb_call *c)
{
    if (c->query) {
        catalog_cancel(c->query);
        c->query = NULL;
    }
}

const char lb_stopping_text[] = "LB304 this load balancer is stopping";

void call_cut(struct lb_call *c)
{
    struct fn_error e;

    forget_query(c);
    if (c->state == LB_RECEIVED || c->state == LB_PLACING) {
        err_set_http(&e, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM, "%s", lb_stopping_text);
        call_refuse(c, &e);
    } else {
        err_set_http(&e, FN_E_UNKNOWN, 502, FN_BLAME_PLATFORM,
                     "LB313 this load balancer stopped before the call ended");
        call_fail(c, OUTCOME_UNKNOWN, 502, &e);
    }
}

void lb_call_gone(struct lb_call *c)
{
    c->client_gone = true;
    forget_request(c);
    if (c->route.detached && c->state > LB_RECEIVED) {
        return; /* accepted work goes on */
    }
    forget_query(c);
    call_finish(c, OUTCOME_ABORTED, STATUS_CLIENT_GONE, NULL);
}

void lb_call_writable(struct lb_call *c)
{
    if (c->paused && c->attempt) {
        c->paused = false;
        c->lb->deps.client->attempt_pause(c->attempt, false);
    }
}
