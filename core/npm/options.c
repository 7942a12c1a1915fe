/* What the node pool manager takes from `npm:`: for all groups together, and for each. */
#include <npm/manager.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct npm_settings, field)
static const struct fn_opt settings_rows[] = {
    OPT_ABSENT("groups", STRLIST, AT(groups), 0, 0,
               "Groups of load balancers that get runners, the values of FN_LB_GROUP_ID; when absent "
               "only `default`."),
    LIVE("runners_max", INT32, AT(runners_max), "1000", 1, 65536,
         "Most runners of all groups; upstream has no limit."),
    LIVE("cplane_timeout", DURATION, AT(cplane_timeout_ns), "30s", 100 * MS, H,
         "Time for one call to the control plane; upstream has no limit."),
    LIVE_ABSENT("wishes_file", STR, AT(wishes_file), 1, 4096,
                "Absolute path of the file that keeps what operators want of runners (drained, to be "
                "replaced, to be removed) for the next start; when absent that of the admin socket "
                "with .runners behind it."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct npm_options, field)
static const struct fn_opt rows[] = {
    LIVE("runners_min", INT32, AT(runners_min), "0", 0, 10000,
         "Runners that each group keeps without demand."),
    OPT("group_runners_max", INT32, AT(runners_max), "100", 1, 65536,
        "Most runners of one group; upstream has no limit."),
    OPT("lbs_max", INT32, AT(lbs_max), "1000", 1, 65536, "Load balancers of one group."),
    LIVE("request_max", INT32, AT(request_max), "20", 1, 1000,
         "Runners asked for in one call to the control plane."),
    LIVE_COUNT("runner_mb", INT, AT(runner_mb), "4096", 1, 16 << 20, "MB",
               "Memory of a runner that is not known yet."),
    LIVE("poll", DURATION, AT(poll_ns), "1s", 10 * MS, 10 * MIN,
         "Shortest time between two calls to the control plane for one group."),
    LIVE("demand_life", DURATION, AT(demand_life_ns), "10s", S, H,
         "Time that the last word of a silent load balancer counts; upstream 5 to 10 s."),
    LIVE("settle", DURATION, AT(settle_ns), "10s", 0, H,
         "Time after a start in which nothing is asked for."),
    LIVE("loss_brake", DURATION, AT(loss_brake_ns), "30s", 0, H,
         "Time that the loss of most runners at once is not believed; nothing is removed so long "
         "after a start."),
    LIVE("cooldown", DURATION, AT(cooldown_ns), "60s", 0, 24 * H,
         "Time that there must be a runner too many before one is drained; upstream 0."),
    LIVE("drain_settle", DURATION, AT(drain_min_ns), "3s", 0, H,
         "Time until every load balancer knows that a runner is draining."),
    LIVE("drain_timeout", DURATION, AT(drain_max_ns), "310s", 0, 24 * H,
         "Time that a draining runner gets for its calls; upstream always 50 s."),
    LIVE("request_life", DURATION, AT(request_life_ns), "300s", S, 24 * H,
         "Time until a runner that was asked for and did not arrive is asked for again; upstream "
         "never."),
    LIVE("boot_timeout", DURATION, AT(boot_max_ns), "600s", S, 24 * H,
         "Time that a listed runner gets to answer."),
    LIVE("backoff_max", DURATION, AT(backoff_max_ns), "60s", S, H,
         "Longest pause after failures of the control plane."),
    LIVE("silence_max", DURATION, AT(silent_max_ns), "60s", S, H,
         "Time after which a runner that does not answer is replaced."),
    LIVE("stillborn_max", DURATION, AT(stillborn_max_ns), "10s", 0, H,
         "A runner that goes so soon after its first answer never lived, like one that never "
         "answered."),
    LIVE("stillborn_backoff_min", DURATION, AT(stillborn_backoff_min_ns), "1s", 0, H,
         "Pause before more runners are asked for after one that did not live; doubled each time "
         "until one lives."),
    LIVE("stillborn_backoff_max", DURATION, AT(stillborn_backoff_max_ns), "60s", 0, H,
         "Longest such pause: so long a cause that is gone is not noticed."),
    { .key = NULL },
};

const struct opt_table npm_settings_table = { settings_rows, sizeof(struct npm_settings) };
const struct opt_table npm_opt_table = { rows, sizeof(struct npm_options) };

void npm_options_fix(struct npm_options *o)
{
    static const struct npm_options init = NPM_OPTIONS_INIT;

    o->loss_polls = init.loss_polls;
    o->expired_max = init.expired_max;
    o->runner_mb_max = init.runner_mb_max;
    o->backoff_min_ns = init.backoff_min_ns;
    o->stall_ns = init.stall_ns;
    o->status_idle_ns = init.status_idle_ns;
    o->status_busy_ns = init.status_busy_ns;
}
