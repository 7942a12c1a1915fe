/* Declares the metrics of a group and copies its numbers into them. */
#include <npm/figures.h>

static const char *const by_group[] = { "group", NULL };
static const char *const by_state[] = { "group", "state", NULL };

static struct metric *figures_series(enum metric_kind kind, const char *name, const char *help,
                                     const char *const *labels, const char *const *values)
{
    const struct metric_def def = { .name = name, .help = help, .kind = kind, .labels = labels };

    return metric_series(metric_declare(&def), values);
}

static struct metric *gauge(const char *name, const char *help, const char *group)
{
    return figures_series(METRIC_GAUGE, name, help, by_group, &group);
}

static struct metric *state_gauge(const char *name, const char *help, const char *group,
                                  enum npm_host_state state)
{
    const char *values[] = { group, npm_state_name(state) };

    return figures_series(METRIC_GAUGE, name, help, by_state, values);
}

static struct metric *counter(const char *name, const char *help, const char *group)
{
    return figures_series(METRIC_COUNTER, name, help, by_group, &group);
}

static struct metric *provision_histogram(const char *group)
{
    static const char *const labels[] = { "group", NULL };
    static const double bounds_ms[] = { 500,   1000,  2000,   5000,   10000, 20000,
                                        30000, 60000, 120000, 300000, 600000 };
    static const struct metric_def def = {
        .name = "fn_npm_provision_latency",
        .help = "Milliseconds from the request for a runner to its first answer.",
        .kind = METRIC_HISTOGRAM,
        .labels = labels,
        .bounds = bounds_ms,
        .n_bounds = sizeof(bounds_ms) / sizeof(bounds_ms[0]) };

    return metric_series(metric_declare(&def), &group);
}

static void declare_counters(struct figures *f, const char *group)
{
    f->accepted = counter("fn_npm_accepted", "Runners that the control plane promised.", group);
    f->removals =
        counter("fn_npm_removals", "Orders to remove a runner, repeated ones too.", group);
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
    f->wanted_mb = gauge("fn_npm_wanted_mb", "Memory that calls need, in MB.", group);
    f->desired_mb = gauge("fn_npm_desired_mb", "Capacity that should exist, in MB.", group);
    f->waiting = gauge("fn_npm_waiting", "Calls that wait for a runner.", group);
    f->asked = gauge("fn_npm_asked", "Runners asked for that have not arrived.", group);
    f->lbs = gauge("fn_npm_lbs", "Load balancers that told their demand.", group);
    f->lbs_twice = gauge("fn_npm_lbs_twice",
                         "Load balancers whose id another one uses at the same time.", group);
    f->at_max = gauge("fn_npm_at_max", "1 while more is wanted than the maximum of runners allows.",
                      group);
    f->standby = gauge("fn_npm_standby", "1 while another manager acts for the group.", group);
    f->cplane_failures = gauge("fn_npm_cplane_failures",
                               "Calls to the control plane that failed, in a row.", group);
    f->stillborn = gauge("fn_npm_stillborn",
                         "Pauses in a row, because new runners did not live.", group);
    f->failing = gauge("fn_npm_runners_failing",
                       "Active runners whose status fails: they start no containers.", group);
    f->drain_losses = counter("fn_npm_drain_losses",
                              "Calls that ran on a runner when its drain was cut.", group);
    for (int i = 0; i < NPM_STATES_N; i++) {
        f->runners[i] = state_gauge("fn_npm_runners", "Runners by state.", group, i);
        f->capacity_mb[i] = state_gauge("fn_npm_capacity_mb",
                                        "Capacity of runners by state, in MB.", group, i);
    }
}

void figures_show(const struct figures *x, const struct npm_group *group)
{
    struct npm_figures f;

    npm_figures(group, &f);
    metric_set(x->wanted_mb, (int64_t)f.wanted_mb);
    metric_set(x->desired_mb, (int64_t)f.desired_mb);
    metric_set(x->waiting, (int64_t)f.waiting);
    metric_set(x->asked, f.asked_n);
    metric_set(x->lbs, f.lbs_n);
    metric_set(x->lbs_twice, f.lbs_twice);
    metric_set(x->at_max, f.at_max);
    metric_set(x->standby, f.standby);
    metric_set(x->cplane_failures, f.cplane_failures);
    metric_set(x->stillborn, f.stillborn);
    metric_set(x->failing, f.failing_n);
    for (int i = 0; i < NPM_STATES_N; i++) {
        metric_set(x->runners[i], f.state_n[i]);
        metric_set(x->capacity_mb[i], (int64_t)f.state_mb[i]);
    }
}
