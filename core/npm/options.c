/* What the node pool manager takes from `npm:`: for all groups together, and for each. */
#include <npm/manager.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct npm_settings, field)
static const struct fn_opt settings_rows[] = {
    OPT_ABSENT("groups", STRLIST, AT(groups), 0, 0,
               "LB groups for which runners are provisioned: the values of FN_LB_GROUP_ID that "
               "apps and functions have. Demand for another group is refused (NPM502). When "
               "absent: only `default`."),
    LIVE("runners_max", INT32, AT(runners_max), "1000", 1, 65536,
         "Maximum number of runners of all groups together; beyond it nothing is requested, and "
         "calls wait. Go Fn has no limit."),
    LIVE("cplane_timeout", DURATION, AT(cplane_timeout_ns), "30s", 100 * MS, H,
         "Time for one call to the control plane; then it is cut and repeated with the same "
         "request id. Raise it for clouds that answer only when a machine runs. Go Fn has no "
         "limit."),
    OPT_ABSENT("wishes_file", STR, AT(wishes_file), 1, 4096,
               "Absolute path of the file in which the operator's commands about runners "
               "(drain, replace, remove) are kept over a restart of the manager. When absent: "
               "the path of the admin socket with `.runners` appended, which a reboot may "
               "delete; without a socket they are forgotten."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct npm_options, field)
static const struct fn_opt rows[] = {
    LIVE("runners_min", INT32, AT(runners_min), "0", 0, 10000,
         "Minimum number of runners of each group, which are kept even without demand. Set it if "
         "calls must not wait for the first runner."),
    OPT("group_runners_max", INT32, AT(runners_max), "100", 1, 65536,
        "Maximum number of runners of one group; beyond it nothing is requested, calls wait, and "
        "fn_npm_at_max is 1. Go Fn has no limit."),
    OPT("lbs_max", INT32, AT(lbs_max), "1000", 1, 65536,
        "Maximum number of load balancers of one group; the demand of a further one is not "
        "counted (NPM506)."),
    LIVE("request_max", INT32, AT(request_max), "20", 1, 1000,
         "Maximum number of runners that are requested in one call to the control plane; the "
         "rest is requested in the next call."),
    LIVE_COUNT("runner_mb", INT, AT(runner_mb), "4096", 1, 16 << 20, "MB",
               "Memory of a runner, in MB, that is assumed until runners of the group have "
               "reported theirs. It decides how many runners are requested first."),
    LIVE("poll", DURATION, AT(poll_ns), "1s", 10 * MS, 10 * MIN,
         "Shortest time between two calls to the control plane for one group. Raise it for "
         "clouds that limit the rate of requests; the group then grows more slowly."),
    LIVE("demand_life", DURATION, AT(demand_life_ns), "10s", S, H,
         "Time after its last report when the demand of a load balancer is dropped. The runners "
         "that it alone needed are then drained. Go Fn: 5 to 10 s."),
    LIVE("settle", DURATION, AT(settle_ns), "10s", 0, H,
         "Time after a start of the manager in which it requests no runners, but learns which "
         "runners there are. Set it longer than runners and load balancers need to connect again."),
    LIVE("loss_brake", DURATION, AT(loss_brake_ns), "30s", 0, H,
         "If the control plane suddenly lists less than half of the runners, the missing ones "
         "are kept for this time before they count as lost. For the same time after a start of "
         "the manager, no runner is removed."),
    LIVE("cooldown", DURATION, AT(cooldown_ns), "60s", 0, 24 * H,
         "Time for which a runner must have been superfluous before it is drained. A longer time "
         "keeps more runners between peaks; a shorter one saves money. Go Fn: 0."),
    LIVE("drain_settle", DURATION, AT(drain_min_ns), "3s", 0, H,
         "Time after the start of a drain until every load balancer knows of it. Before that, a "
         "runner that reports no calls is not believed to be empty."),
    LIVE("drain_timeout", DURATION, AT(drain_max_ns), "310s", 0, 24 * H,
         "Time for a draining runner to end its calls; then it is removed, and its calls are "
         "cut. Set it above the longest call. Go Fn: always 50 s."),
    LIVE("request_life", DURATION, AT(request_life_ns), "300s", S, 24 * H,
         "Time after which a requested runner that has not arrived is requested again. Set it "
         "longer than your cloud needs to list a new machine. Go Fn: never."),
    LIVE("boot_timeout", DURATION, AT(boot_max_ns), "600s", S, 24 * H,
         "Time for a runner that the control plane lists to answer for the first time; then it "
         "is removed. Set it longer than your machines need to boot."),
    LIVE("backoff_max", DURATION, AT(backoff_max_ns), "60s", S, H,
         "Longest pause after failures of the control plane. The pause begins at 1 s and doubles "
         "with each failure."),
    LIVE("silence_max", DURATION, AT(silent_max_ns), "60s", S, H,
         "Time after which a runner that stopped answering is drained and replaced. If most "
         "runners are silent at once, it is ten times as long."),
    LIVE("stillborn_max", DURATION, AT(stillborn_max_ns), "10s", 0, H,
         "A runner that is gone within this time after its first answer counts as a failed "
         "start, like one that never answered."),
    LIVE("stillborn_backoff_min", DURATION, AT(stillborn_backoff_min_ns), "1s", 0, H,
         "Pause after a failed start, before further runners are requested. It doubles with each "
         "failed start until a runner stays up."),
    LIVE("stillborn_backoff_max", DURATION, AT(stillborn_backoff_max_ns), "60s", 0, H,
         "Longest pause after a failed start, and so the time in which the manager notices that "
         "the cause is gone."),
    { .key = NULL },
};

const struct opt_table npm_settings_table = { settings_rows, sizeof(struct npm_settings) };
const struct opt_table npm_opt_table = { rows, sizeof(struct npm_options) };
