/* Declares the metrics of a group and copies its numbers into them. */
#include <npm/figures.h>

#include <string.h>

static const char *const by_group[] = { "group", NULL };
static const char *const by_state[] = { "group", "state", NULL };

/* Those that are one number of struct npm_figures. */
static const struct {
    const char *name, *help;
    size_t at, size;
} gauges[FIGURES_GAUGES_N] = {
#define OF(field) offsetof(struct npm_figures, field), sizeof(((struct npm_figures *)NULL)->field)
    { "fn_npm_wanted_mb", "Memory that calls need, in MB.", OF(wanted_mb) },
    { "fn_npm_desired_mb", "Capacity that should exist, in MB.", OF(desired_mb) },
    { "fn_npm_waiting", "Calls that wait for a runner.", OF(waiting) },
    { "fn_npm_asked", "Runners asked for that have not arrived.", OF(asked_n) },
    { "fn_npm_lbs", "Load balancers that told their demand.", OF(lbs_n) },
    { "fn_npm_lbs_twice", "Load balancers whose id another one uses at the same time.",
      OF(lbs_twice) },
    { "fn_npm_at_max", "1 while more is wanted than the maximum of runners allows.", OF(at_max) },
    { "fn_npm_standby", "1 while another manager acts for the group.", OF(standby) },
    { "fn_npm_cplane_failures", "Calls to the control plane that failed, in a row.",
      OF(cplane_failures) },
    { "fn_npm_stillborn", "Pauses in a row, because new runners did not live.", OF(stillborn) },
    { "fn_npm_runners_failing", "Active runners whose status fails: they start no containers.",
      OF(failing_n) },
#undef OF
};

static struct metric *figures_series(enum metric_kind kind, const char *name, const char *help,
                                     const char *const *labels, const char *const *values)
{
    const struct metric_def def = { .name = name, .help = help, .kind = kind, .labels = labels };

    return metric_series(metric_declare(&def), values);
}

static struct metric *counter(const char *name, const char *help, const char *group)
{
    return figures_series(METRIC_COUNTER, name, help, by_group, &group);
}

static struct metric *provision_histogram(const char *group)
{
    static const double bounds_ms[] = { 500,   1000,  2000,   5000,   10000, 20000,
                                        30000, 60000, 120000, 300000, 600000 };
    static const struct metric_def def = {
        .name = "fn_npm_provision_latency",
        .help = "Milliseconds from the request for a runner to its first answer.",
        .kind = METRIC_HISTOGRAM,
        .labels = by_group,
        .bounds = bounds_ms,
        .n_bounds = sizeof(bounds_ms) / sizeof(bounds_ms[0]) };

    return metric_series(metric_declare(&def), &group);
}

static void declare_counters(struct figures *f, const char *group)
{
    f->accepted = counter("fn_npm_accepted", "Runners that the control plane promised.", group);
    f->removals =
        counter("fn_npm_removals", "Orders to remove a runner, repeated ones too.", group);
    f->claim_failures = counter("fn_npm_claim_failures",
                                "Times that the control plane could not tell which manager acts.",
                                group);
    f->notes[NPM_NOTE_ARRIVED] =
        counter("fn_npm_arrived", "Runners that came as asked for.", group);
    f->notes[NPM_NOTE_STILLBORN] =
        counter("fn_npm_stillborns", "Pauses made because new runners did not live.", group);
    f->notes[NPM_NOTE_REQUEST_EXPIRED] =
        counter("fn_npm_expired", "Requests whose runners did not arrive in time.", group);
    f->notes[NPM_NOTE_LOST] =
        counter("fn_npm_lost", "Runners that vanished from the list without calls.", group);
    f->notes[NPM_NOTE_PULLED] =
        counter("fn_npm_pulled", "Runners that vanished from the list with calls.", group);
}

void figures_declare(struct figures *f, const char *group)
{
    declare_counters(f, group);
    f->provision_latency = provision_histogram(group);
    for (int i = 0; i < FIGURES_GAUGES_N; i++) {
        f->gauges[i] =
            figures_series(METRIC_GAUGE, gauges[i].name, gauges[i].help, by_group, &group);
    }
    f->drain_losses = counter("fn_npm_drain_losses",
                              "Calls that ran on a runner when its drain was cut.", group);
    for (int i = 0; i < NPM_STATES_N; i++) {
        const char *values[] = { group, npm_state_names[i] };

        f->runners[i] =
            figures_series(METRIC_GAUGE, "fn_npm_runners", "Runners by state.", by_state, values);
        f->capacity_mb[i] =
            figures_series(METRIC_GAUGE, "fn_npm_capacity_mb",
                           "Capacity of runners by state, in MB.", by_state, values);
    }
}

void figures_show(const struct figures *x, const struct npm_group *group)
{
    struct npm_figures f;

    npm_figures(group, &f);
    for (int i = 0; i < FIGURES_GAUGES_N; i++) {
        int64_t n = 0; /* the low bytes come first */

        memcpy(&n, (const char *)&f + gauges[i].at, gauges[i].size);
        metric_set(x->gauges[i], n);
    }
    for (int i = 0; i < NPM_STATES_N; i++) {
        metric_set(x->runners[i], f.state_n[i]);
        metric_set(x->capacity_mb[i], (int64_t)f.state_mb[i]);
    }
}
