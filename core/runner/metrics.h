/* Private to core/runner: what it counts (metrics.c). */
#ifndef RUNNER_METRICS_H
#define RUNNER_METRICS_H

#include <runner/parts.h>

struct slot_queue;
struct warm_metrics;

/* Go Fn's states of containers. */
enum ctr_shown {
    CTR_SHOWN_WAIT,
    CTR_SHOWN_START,
    CTR_SHOWN_IDLE,
    CTR_SHOWN_PAUSED,
    CTR_SHOWN_BUSY,
    CTR_SHOWN_N /* none: it is being removed, or gone */
};

struct runner_metrics {
    struct metric *calls, *queued, *running, *completed, *canceled, *timeouts, *errors,
        *server_busy;
    struct metric *cpu_used, *cpu_avail, *mem_used, *mem_avail;
    struct metric *outcome[OUTCOMES_N];
    struct metric *in_flight, *received;
    struct metric *engine_up, *replays, *retried_inside, *close_failures;
    struct metric *status_ms;
    struct metric *log_streams, *log_lines_lost;
    struct metric *phases[PHASES_N];
    struct metric *refusals[ENGAGE_REASONS_N];
    /* Each queue has series of these: */
    struct {
        struct metric_family *now, *ms, *seconds;
    } shown[CTR_SHOWN_N];
    struct metric_family *init_ms, *evictions;
};

struct queue_metrics {
    struct {
        struct metric *now, *ms, *seconds;
    } shown[CTR_SHOWN_N];
    struct metric *init_ms[3]; /* initialized, canceled, timedout */
};

void metrics_init(struct runner_metrics *m, bool go_names);
void metrics_warm(struct warm_metrics *m);
void metrics_queue(struct slot_queue *q);
void metrics_queue_gone(struct slot_queue *q);
void metrics_account(struct runner *r);
void metrics_ended(const struct fn_exit *what); /* of a container; NULL: the runner removes it */
void metrics_instance(const char *instance);
/* Somebody asked for the status; st NULL: and left before there was one. */
void metrics_status(const struct engage_status *st);

#endif
