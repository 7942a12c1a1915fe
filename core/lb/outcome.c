/* The retry table: what was seen of an attempt, whether it may be sent again, and what it means
 * when it is not. Only rows with a proof that no function code received a byte have a retry_why.
 * And what a runner's report says (outcome_began(), outcome_reason()), what of it is believed
 * (outcome_believe()) and kept (outcome_text()). */
#include <lb/lb_int.h>

#include <base/utf8.h>
#include <string.h>

#define CLOCK_FASTER 1000 /* a runner's clock may be, by one part of so many; NTP: 1 of 2000 */

const struct rule outcome_rules[SEEN_N] = {
    [SEEN_OK] = { 0, OUTCOME_OK, 0, NULL, "ok" },
    [SEEN_NOT_SENT] = { FN_WHY_UNREACHABLE, OUTCOME_NOT_EXECUTED, 503,
                        "the runner is not reachable", "not-sent" },
    [SEEN_FULL] = { FN_WHY_BUSY, OUTCOME_NOT_EXECUTED, 503,
                    "the runner lets in no more calls at a time", "full" },
    [SEEN_REFUSED] = { FN_WHY_BUSY, OUTCOME_NOT_EXECUTED, 503,
                       "the runner refused the stream", "stream-refused" },
    [SEEN_NACK] = { FN_WHY_BUSY, OUTCOME_NOT_EXECUTED, 503, "Timed out - server too busy", "busy" },
    [SEEN_NACK_LATE] = { 0, OUTCOME_UNKNOWN, 502,
                         "the runner refused the call after it had begun it", "busy-after-start" },
    [SEEN_FUNCTION_ERROR] = { 0, OUTCOME_FAILED, 0, NULL, "function-error" },
    [SEEN_RUNNER_REFUSAL] = { 0, OUTCOME_NOT_EXECUTED, 0, NULL, "runner-refusal" },
    [SEEN_ID_KNOWN] = { 0, OUTCOME_UNKNOWN, 502,
                        "a runner had the call before; it may have run once", "id-known" },
    [SEEN_RUNNER_ERROR] = { 0, OUTCOME_UNKNOWN, 0, NULL, "runner-error" },
    [SEEN_DEADLINE] = { 0, OUTCOME_UNKNOWN, 504,
                        "Unable to service the request for the reservation period", "deadline" },
    [SEEN_MALFORMED] = { 0, OUTCOME_UNKNOWN, 502, "the runner's answer was not understood",
                         "malformed" },
    [SEEN_ABORTED] = { 0, OUTCOME_UNKNOWN, 502,
                       "the runner broke off the call; it may have run once", "aborted" },
    [SEEN_BROKEN] = { 0, OUTCOME_UNKNOWN, 502,
                      "the connection to the runner was lost; the call may have run once", "lost" },
};

/* Go's zero date stands for none. */
static bool is_date(const char *text)
{
    return text && text[0] && strncmp(text, "0001-", 5) != 0;
}

bool outcome_began(const struct engage_finished *f)
{
    return f->execution_ns != 0 || is_date(f->started_at);
}

const char *outcome_reason(const struct engage_finished *f, const char *call_id)
{
    bool refused = !f->success && f->error_code == 503;

    return refused && f->details && strcmp(f->details, call_id) != 0 ? f->details : NULL;
}

/* Go Fn subtracts dates, so that a step of its clock is a duration below 0 or of years. */
static int64_t believable_ns(int64_t said_ns, int64_t call_ns)
{
    if (said_ns < 0 || said_ns > call_ns + call_ns / CLOCK_FASTER) {
        return 0;
    }
    return said_ns < call_ns ? said_ns : call_ns;
}

const char *outcome_text(struct arena *a, char **room, const char *text)
{
    if (!text || !text[0]) {
        return text ? "" : NULL;
    }
    if (!*room) {
        *room = arena_alloc(a, FN_ERROR_TEXT_MAX);
    }
    if (*room) {
        utf8_copy(*room, FN_ERROR_TEXT_MAX, text);
    }
    return *room;
}

void outcome_believe(const struct engage_finished *said, int64_t call_ns,
                     struct engage_finished *ret)
{
    int64_t *const durations[] = { &ret->scheduler_ns,       &ret->execution_ns,
                                   &ret->image_pull_wait_ns, &ret->ctr_prep_ns,
                                   &ret->ctr_create_ns,      &ret->init_start_ns };

    *ret = *said;
    ret->error_text = ret->details = ret->image = NULL;
    ret->created_at = ret->started_at = ret->completed_at = NULL;
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        *durations[i] = believable_ns(*durations[i], call_ns);
    }
}

const char *const lb_end_names[LB_ENDS_N] = { "completed", "canceled", "timeouts", "errors",
                                              "server_busy" };

void metrics_declare(struct lb_metrics *m)
{
    static const char *const outcome_label[] = { "outcome", NULL };
    static const char *const end_label[] = { "call_status", NULL };
    static const struct metric_def call_latency = {
        .name = "fn_lb_call_latency",
        .help = "Milliseconds of a call without the execution that the runner reported.",
        .kind = METRIC_HISTOGRAM,
        .labels = end_label,
        .latency = true,
    };
    static const struct metric_def outcomes = {
        .name = "fn_call_outcomes",
        .help = "Ended calls by outcome; their sum and fn_calls_in_flight is fn_calls.",
        .kind = METRIC_COUNTER,
        .labels = outcome_label,
    };

    metric_each(&outcomes, outcome_names, OUTCOMES_N, m->outcomes);
    m->calls = metric_simple("fn_calls", METRIC_COUNTER, "Calls received.");
    m->in_flight = metric_simple("fn_calls_in_flight", METRIC_GAUGE, "Calls without an outcome.");
    m->queued = metric_simple("fn_queued", METRIC_GAUGE, "Calls that are not placed yet.");
    m->running = metric_simple("fn_running", METRIC_GAUGE, "Calls at a runner.");
    m->ended[LB_COMPLETED] =
        metric_simple("fn_completed", METRIC_COUNTER, "Calls that ended well.");
    m->ended[LB_CANCELED] =
        metric_simple("fn_canceled", METRIC_COUNTER, "Calls whose client went away.");
    m->ended[LB_TIMEOUTS] =
        metric_simple("fn_timeouts", METRIC_COUNTER, "Calls that ended by a time limit.");
    m->ended[LB_ERRORS] =
        metric_simple("fn_errors", METRIC_COUNTER, "Calls that failed.");
    m->ended[LB_SERVER_BUSY] =
        metric_simple("fn_server_busy", METRIC_COUNTER, "Calls that no runner took.");
    m->reserved_dropped = metric_simple("fn_reserved_header_dropped", METRIC_COUNTER,
                                        "Reserved request headers of clients that were dropped.");
    m->detached_broken = metric_simple("fn_detached_broken", METRIC_COUNTER,
                                       "Detached calls that failed after their 202.");
    m->strikes = metric_simple("fn_lb_runner_strikes", METRIC_COUNTER,
                               "Answers of runners that broke the protocol.");
    metric_each(&call_latency, lb_end_names, LB_ENDS_N, m->call_latency);
    functions_declare(m);
    m->sched_latency =
        metric_simple("fn_lb_runner_sched_latency", METRIC_HISTOGRAM,
                      "Milliseconds from arrival to start at the runner, as it reported.");
    m->exec_latency = metric_simple("fn_lb_runner_exec_latency", METRIC_HISTOGRAM,
                                    "Milliseconds of execution, as the runner reported.");
}
