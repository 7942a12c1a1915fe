/* What the node pool manager takes from `npm:`: for all groups together, and for each. */
#include <npm/manager.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct npm_settings, field)
static const struct fn_opt settings_rows[] = {
    OPT_ABSENT("groups", STRLIST, AT(groups), 0, 0,
               "LB groups for which runners are provisioned: the values of FN_LB_GROUP_ID of the "
               "load balancers. When absent: only `default`."),
    LIVE("runners_max", INT32, AT(runners_max), "1000", 1, 65536,
         "Maximum number of runners of all groups together. Go Fn has no limit."),
    LIVE("cplane_timeout", DURATION, AT(cplane_timeout_ns), "30s", 100 * MS, H,
         "Time for one call to the control plane. Go Fn has no limit."),
    LIVE_ABSENT("wishes_file", STR, AT(wishes_file), 1, 4096,
                "Absolute path of the file in which the operator's commands about runners (drain, "
                "replace, remove) outlive a restart of the manager. When absent: the path of the "
                "admin socket with `.runners` appended."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct npm_options, field)
static const struct fn_opt rows[] = {
    LIVE("runners_min", INT32, AT(runners_min), "0", 0, 10000,
         "Minimum number of runners of each group, kept even without demand."),
    OPT("group_runners_max", INT32, AT(runners_max), "100", 1, 65536,
        "Maximum number of runners of one group. Go Fn has no limit."),
    OPT("lbs_max", INT32, AT(lbs_max), "1000", 1, 65536, "Maximum number of load balancers of one "
                                                         "group."),
    LIVE("request_max", INT32, AT(request_max), "20", 1, 1000,
         "Maximum number of runners that are requested in one call to the control plane."),
    LIVE_COUNT("runner_mb", INT, AT(runner_mb), "4096", 1, 16 << 20, "MB",
               "Memory of a runner, in MB, that is assumed until the group's runners have reported "
               "theirs."),
    LIVE("poll", DURATION, AT(poll_ns), "1s", 10 * MS, 10 * MIN,
         "Shortest time between two calls to the control plane for one group."),
    LIVE("demand_life", DURATION, AT(demand_life_ns), "10s", S, H,
         "Time after which the demand of a load balancer that reports no more is dropped. Go Fn: 5 "
         "to 10 s."),
    LIVE("settle", DURATION, AT(settle_ns), "10s", 0, H,
         "Time after a start of the manager in which it requests no runners, but first learns "
         "which there are."),
    LIVE("loss_brake", DURATION, AT(loss_brake_ns), "30s", 0, H,
         "When the control plane suddenly lists less than half of the runners, the others are kept "
         "for this time before they count as lost. Nothing is removed for as long after a start."),
    LIVE("cooldown", DURATION, AT(cooldown_ns), "60s", 0, 24 * H,
         "Time for which a runner must have been superfluous before it is drained. Go Fn: 0."),
    LIVE("drain_settle", DURATION, AT(drain_min_ns), "3s", 0, H,
         "Time after which every load balancer is taken to know that a runner is draining. Before "
         "that no report of an idle runner is believed."),
    LIVE("drain_timeout", DURATION, AT(drain_max_ns), "310s", 0, 24 * H,
         "Time that a draining runner gets to end its calls before it is removed. Go Fn: always 50 "
         "s."),
    LIVE("request_life", DURATION, AT(request_life_ns), "300s", S, 24 * H,
         "Time after which a requested runner that has not arrived is requested again. Go Fn: "
         "never."),
    LIVE("boot_timeout", DURATION, AT(boot_max_ns), "600s", S, 24 * H,
         "Time for a runner that the control plane lists to answer for the first time."),
    LIVE("backoff_max", DURATION, AT(backoff_max_ns), "60s", S, H,
         "Longest pause after failures of the control plane. The pause begins at 1 s and doubles."),
    LIVE("silence_max", DURATION, AT(silent_max_ns), "60s", S, H,
         "Time after which a runner that stopped answering is drained and replaced."),
    LIVE("stillborn_max", DURATION, AT(stillborn_max_ns), "10s", 0, H,
         "A runner that is gone within this time after its first answer counts as a failed start, "
         "like one that never answered."),
    LIVE("stillborn_backoff_min", DURATION, AT(stillborn_backoff_min_ns), "1s", 0, H,
         "Pause before further runners are requested after a failed start. It doubles with each "
         "failure until a runner stays up."),
    LIVE("stillborn_backoff_max", DURATION, AT(stillborn_backoff_max_ns), "60s", 0, H,
         "Longest such pause; this is also how late the manager may notice that the cause is "
         "gone."),
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
