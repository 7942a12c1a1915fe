/* Metrics of the runner: Go Fn's names, and twins with the right type or unit where Go Fn's
 * name promises what its value is not. */
#include <runner/runner_int.h>

#include <base/hash.h>
#include <stdio.h>
#include <string.h>

#define SUBJECT_LABELS 3 /* app_id, fn_id, image_name */

static const char *const container_labels[] = { "app_id", "fn_id", "image_name", NULL };
static const char *const evict_labels[] = { "container_state", "app_id", "fn_id", "image_name",
                                            NULL };
static const char *const init_labels[] = { "container_uds_state", "app_id", "fn_id", "image_name",
                                           NULL };
static const char *const outcome_labels[] = { "outcome", NULL };
static const char *const status_labels[] = { "cached", "success", "network", NULL };

static struct metric *counter(const char *name, const char *help)
{
    return metric_simple(name, METRIC_COUNTER, help);
}

static struct metric *gauge(const char *name, const char *help)
{
    return metric_simple(name, METRIC_GAUGE, help);
}

static void init_labelled(struct runner_metrics *m)
{
    static const char *const reason_labels[] = { "reason", NULL };
    static const char *const phase_labels[] = { "phase", NULL };
    static const struct metric_def outcomes = {
        .name = "fn_runner_calls_total",
        .help = "Calls that ended on this runner, by outcome.",
        .kind = METRIC_COUNTER,
        .labels = outcome_labels,
    };
    static const struct metric_def refusals = {
        .name = "fn_runner_refusals_total",
        .help = "Calls handed back to their load balancers, by the reason that they were told.",
        .kind = METRIC_COUNTER,
        .labels = reason_labels,
    };
    static const struct metric_def phases = {
        .name = "fn_runner_start_phase_seconds",
        .help = "Time of each phase of a container's start, seconds: pull, until its image is "
                "there; prepare, until memory and CPU are; create, until the engine has started "
                "it; init, until the function has published its socket.",
        .kind = METRIC_HISTOGRAM,
        .labels = phase_labels,
        .latency = true,
        .scale = 0.001,
    };

    metric_each(&outcomes, outcome_names, OUTCOMES_N, m->outcome);
    metric_each(&phases, phase_names, PHASES_N, m->phases);
    metric_each(&refusals, engage_reason_names(), ENGAGE_REASONS_N, m->refusals);
}

/* Go Fn's agent counters; under names of our own where somebody else in the process has them. */
static void init_agent(struct runner_metrics *m, bool own)
{
    const struct {
        struct metric **at;
        const char *name, *other;
        enum metric_kind kind;
        const char *help;
    } all[] = {
        { &m->calls, "fn_calls", "fn_runner_calls", METRIC_COUNTER, "Calls submitted." },
        { &m->queued, "fn_queued", "fn_runner_queued", METRIC_GAUGE,
          "Calls that wait for a container." },
        { &m->running, "fn_running", "fn_runner_running", METRIC_GAUGE, "Calls that run." },
        { &m->completed, "fn_completed", "fn_runner_completed", METRIC_COUNTER,
          "Calls that ran and succeeded." },
        { &m->canceled, "fn_canceled", "fn_runner_canceled", METRIC_COUNTER,
          "Calls whose caller went away." },
        { &m->timeouts, "fn_timeouts", "fn_runner_timeouts", METRIC_COUNTER,
          "Calls that ran out of time." },
        { &m->errors, "fn_errors", "fn_runner_errors", METRIC_COUNTER,
          "Calls that failed otherwise." },
        { &m->server_busy, "fn_server_busy", "fn_runner_server_busy", METRIC_COUNTER,
          "Calls refused for lack of room." },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        *all[i].at = metric_simple(own ? all[i].name : all[i].other, all[i].kind, all[i].help);
    }
}

static struct metric_family *declare_subject(const char *name, const char *help,
                                             enum metric_kind kind, const char *const *labels,
                                             double scale)
{
    const struct metric_def def = { .name = name,
                                    .help = help,
                                    .kind = kind,
                                    .labels = labels,
                                    .n_subject_labels = SUBJECT_LABELS,
                                    .latency = kind == METRIC_HISTOGRAM,
                                    .scale = scale };

    return metric_declare(&def);
}

static void init_families(struct runner_metrics *m)
{
    static const struct {
        const char *now, *ms, *seconds;
    } names[CTR_SHOWN_N] = {
        { "fn_container_wait_total", "fn_container_wait_duration_seconds",
          "fn_runner_container_wait_seconds" },
        { "fn_container_start_total", "fn_container_start_duration_seconds",
          "fn_runner_container_start_seconds" },
        { "fn_container_idle_total", "fn_container_idle_duration_seconds",
          "fn_runner_container_idle_seconds" },
        { "fn_container_paused_total", "fn_container_paused_duration_seconds",
          "fn_runner_container_paused_seconds" },
        { "fn_container_busy_total", "fn_container_busy_duration_seconds",
          "fn_runner_container_busy_seconds" },
    };

    for (int i = 0; i < CTR_SHOWN_N; i++) {
        m->shown[i].now =
            declare_subject(names[i].now, "Containers in the state that the name says.",
                            METRIC_GAUGE, container_labels, 0);
        m->shown[i].ms =
            declare_subject(names[i].ms,
                            "Time in the state that the name says, milliseconds (Go Fn's name).",
                            METRIC_HISTOGRAM, container_labels, 0);
        m->shown[i].seconds =
            declare_subject(names[i].seconds, "Time in the state that the name says, seconds.",
                            METRIC_HISTOGRAM, container_labels, 0.001);
    }
    m->init_ms = declare_subject("fn_container_uds_init_latency",
                                 "From start to the function's socket, milliseconds.",
                                 METRIC_HISTOGRAM, init_labels, 0);
    m->evictions = declare_subject("fn_container_evictions", "Containers removed to make room.",
                                   METRIC_COUNTER, evict_labels, 0);
}

static const struct metric_def status_def = {
    .name = "fn_runner_status_seconds",
    .help = "Time from the question to the end of a run of runner.status_image, seconds.",
    .kind = METRIC_HISTOGRAM,
    .latency = true,
    .scale = 0.001,
};

void metrics_init(struct runner_metrics *m, bool go_names)
{
    init_agent(m, go_names);
    m->cpu_used = gauge("fn_util_cpu_used", "CPU charged to containers, milli CPU.");
    m->cpu_avail = gauge("fn_util_cpu_avail", "CPU left for containers, milli CPU.");
    m->mem_used = gauge("fn_util_mem_used", "Memory charged to containers, bytes.");
    m->mem_avail = gauge("fn_util_mem_avail", "Memory left for containers, bytes.");
    m->in_flight = gauge("fn_runner_calls_in_flight", "Calls that have not ended.");
    m->received = counter("fn_runner_calls_received_total", "Calls that came to this runner.");
    m->engine_up = gauge("fn_runner_engine_up", "1 while the container engine answers.");
    m->replays = counter("fn_runner_replays_total", "Calls refused because their id came before.");
    m->retried_inside = counter("fn_runner_retried_inside_total",
                                "Calls given to another container because nothing was sent.");
    m->close_failures = counter("fn_runner_remove_failures_total",
                                "Attempts to remove a container that failed.");
    m->log_streams = gauge("fn_runner_log_streams", "Streams of function output that are read.");
    m->log_lines_lost = counter("fn_runner_log_lines_lost_total",
                                "Lines of functions that readers of log streams have missed.");
    init_labelled(m);
    init_families(m);
    m->status_ms = metric_series(metric_declare(&status_def), NULL);
}

void metrics_status(const struct engage_status *st)
{
    static const struct metric_def def = {
        .name = "fn_status_call",
        .help = "Answers to Status of a runner with a runner.status_image.",
        .kind = METRIC_COUNTER,
        .labels = status_labels,
    };
    static const char *const words[] = { "false", "true" };
    const char *values[] = { "error", "error", "error" };

    if (st) {
        values[0] = words[st->cached];
        values[1] = words[!st->failed];
        values[2] = words[!st->network_disabled];
    }
    metric_add(metric_series(metric_declare(&def), values), 1);
}

void metrics_queue(struct slot_queue *q)
{
    static const char *const init_names[] = { "initialized", "canceled", "timedout" };
    const char *const values[] = { q->app_id, q->fn_id, q->image };
    const struct runner_metrics *all = &q->r->metrics;
    struct queue_metrics *m = &q->metrics;

    for (int i = 0; i < CTR_SHOWN_N; i++) {
        m->shown[i].now = metric_series(all->shown[i].now, values);
        m->shown[i].ms = metric_series(all->shown[i].ms, values);
        m->shown[i].seconds = metric_series(all->shown[i].seconds, values);
    }
    for (int i = 0; i < 3; i++) {
        const char *const init_values[] = { init_names[i], q->app_id, q->fn_id, q->image };

        m->init_ms[i] = metric_series(all->init_ms, init_values);
    }
}

void metrics_queue_gone(struct slot_queue *q)
{
    struct queue_metrics *m = &q->metrics;

    for (int i = 0; i < CTR_SHOWN_N; i++) {
        metric_release(m->shown[i].now);
        metric_release(m->shown[i].ms);
        metric_release(m->shown[i].seconds);
    }
    for (int i = 0; i < 3; i++) {
        metric_release(m->init_ms[i]);
    }
}

enum ctr_shown metrics_shown(enum ctr_state s)
{
    static const enum ctr_shown of[CTR_STATES_N] = {
        [CTR_IMAGE] = CTR_SHOWN_WAIT,    [CTR_RESERVE] = CTR_SHOWN_WAIT,
        [CTR_CREATE] = CTR_SHOWN_START,  [CTR_START] = CTR_SHOWN_START,
        [CTR_INIT] = CTR_SHOWN_START,    [CTR_IDLE] = CTR_SHOWN_IDLE,
        [CTR_FREEZE] = CTR_SHOWN_IDLE,   [CTR_FROZEN] = CTR_SHOWN_PAUSED,
        [CTR_THAW] = CTR_SHOWN_PAUSED,   [CTR_BUSY] = CTR_SHOWN_BUSY,
        [CTR_CLOSE] = CTR_SHOWN_N,       [CTR_GONE] = CTR_SHOWN_N,
    };

    return of[s];
}

const char *metrics_state_name(enum ctr_state s)
{
    static const char *const names[] = { "wait", "start", "idle", "paused", "busy", "done" };

    return names[metrics_shown(s)];
}

void metrics_evicted(const struct slot_queue *q, enum ctr_state state)
{
    const char *const values[] = { metrics_state_name(state), q->app_id, q->fn_id, q->image };
    struct metric *m = metric_series(q->r->metrics.evictions, values);

    metric_add(m, 1);
    metric_release(m);
}

void metrics_warm(struct warm_metrics *m)
{
    m->now = gauge("fn_runner_warm_containers",
                   "Containers that are only there to be ready (runner.warm_max), starting ones "
                   "included.");
    m->hits = counter("fn_runner_warm_hits_total",
                      "Calls that got a container which was only there to be ready.");
    m->misses = counter("fn_runner_warm_misses_total",
                        "Calls that waited for the start of a container, with runner.warm_max.");
    m->started = counter("fn_runner_warm_started_total", "Containers started to be ready.");
    m->failed = counter("fn_runner_warm_failed_total", "Starts of such containers that failed.");
    m->expired = counter("fn_runner_warm_expired_total",
                         "Containers that were kept ready and are not wanted any more.");
    m->evicted = counter("fn_runner_warm_evicted_total",
                         "Containers that were kept ready, removed to make room.");
}

/* Codes as a shell has them. */
static int exit_code(const struct fn_exit *what)
{
    return what->reason == FN_EXIT_CODE     ? what->status & 0xff
           : what->reason == FN_EXIT_SIGNAL ? 128 + (what->status & 0x7f)
                                            : 128 + 9;
}

void metrics_ended(const struct fn_exit *what)
{
    static const char *const labels[] = { "api_name", "exit_status", NULL };
    static const struct metric_def def = {
        .name = "fn_docker_exits",
        .help = "Containers that ended, by their exit status; ctx_canceled: the runner removed it.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    char status[24] = "ctx_canceled";
    const char *values[] = { "docker_wait_container", status };

    if (what && what->reason != FN_EXIT_REMOVED) {
        snprintf(status, sizeof(status), "exit_%d", exit_code(what));
    }
    metric_add(metric_series(metric_declare(&def), values), 1);
}

void metrics_instance(const char *instance)
{
    uint64_t hash = hash_text(HASH_INIT, instance);
    int64_t value;

    memcpy(&value, &hash, sizeof(value));
    metric_set(gauge("fn_docker_instance_id",
                     "Hash of this process's identity, which its containers carry as a label."),
               value);
}

void metrics_account(struct runner *r)
{
    const struct account *a = &r->account;

    metric_set(r->metrics.cpu_used, (int64_t)a->used.cpu_milli);
    metric_set(r->metrics.cpu_avail, (int64_t)(a->totals.cpu_milli - a->used.cpu_milli));
    metric_set(r->metrics.mem_used, (int64_t)a->used.mem_bytes);
    metric_set(r->metrics.mem_avail, (int64_t)(a->totals.mem_bytes - a->used.mem_bytes));
}
