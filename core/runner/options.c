/* What a runner takes from `runner:`, and what nobody can set. */
#include <runner/runner.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct runner_options, field)
static const struct fn_opt rows[] = {
    OPT_ABSENT("owner", STR, AT(owner), 1, 63,
               "Identity of this runner across restarts, [a-z0-9-]; when absent host name and gRPC "
               "port. Leftover containers of the same owner are removed at the start."),
    LIVE_COUNT("memory_min", INT, AT(mem_mb_min), "16", 1, 8192, "MB",
               "Smallest memory of a function; upstream: 1."),
    LIVE("freeze_idle", DURATION, AT(freeze_idle_ns), "50ms", -1, 24 * H,
         "Idle time after which a container is frozen."),
    LIVE("pull_timeout", DURATION, AT(pull_timeout_ns), "10m", -1, 24 * H,
         "Time to make an image ready; a pull that nobody has waited for since a minute ends sooner."),
    LIVE("start_timeout", DURATION, AT(start_timeout_ns), "5s", -1, H,
         "Time from the start of a container until its function listens."),
    LIVE("engine_timeout", DURATION, AT(engine_timeout_ns), "20s", 100 * MS, H,
         "Time for the engine to create, start or remove a container; upstream has no limit."),
    LIVE("freeze_timeout", DURATION, AT(freeze_timeout_ns), "2s", 10 * MS, MIN,
         "Time for the engine to freeze or thaw a container; upstream has no limit."),
    LIVE("parallel_starts_max", INT32, AT(parallel_starts_max), "8", 1, 1000,
         "Containers created or started at a time, and as many removed; an app may hold as many "
         "places as are free, so that half are left to others."),
    LIVE("pulls_max", INT32, AT(pulls_max), "8", 1, 100,
         "Images pulled at a time; the same rule for each app and each registry. An image that is "
         "there waits for none of them."),
    LIVE("start_wait", DURATION, AT(start_wait_ns), "10s", 100 * MS, H,
         "Time that a call waits here at most, also while a container is started or an image is "
         "pulled for it; then it is handed back to the load balancer, and what was begun goes on."),
    LIVE("queue_wait", DURATION, AT(queue_wait_ns), "500ms", 0, MIN,
         "Time that a call waits here for a container before it is handed back to the load "
         "balancer."),
    LIVE("queue_factor", INT32, AT(queue_factor), "2", 1, 1000,
         "Calls that may wait, per container of their function."),
    LIVE("body_wait", DURATION, AT(body_wait_ns), "10s", 10 * MS, H,
         "Time until the first part of a call's body."),
    LIVE("call_memory", BYTES, AT(calls_bytes_max), "256MiB", 16 * MIB, INT64_MAX,
         "Memory of calls that wait for their body or for a container, of which an app has a share; "
         "more are handed back to the load balancer. Upstream has no limit."),
    LIVE("max_response_size", BYTES, AT(answer_bytes_max), "6MiB", 0, 64 * GIB,
         "Size of a function's answer, 0 = no limit as upstream."),
    LIVE("log_ring", BYTES, AT(log_ring_bytes), "64KiB", 1 * KIB, 64 * MIB,
         "Output of a container that is kept for its error texts; upstream keeps 1 MiB per call."),
    LIVE("user_logs", BOOL, AT(user_logs), "true", 0, 0,
         "Write lines that functions print to the node's log."),
    LIVE("detached", BOOL, AT(detached), "true", 0, 0, "Take detached calls."),
    LIVE_ABSENT("images_allowed", STRLIST, AT(images_allowed), 0, 0,
                "Patterns with * of images that may run here; when absent all."),
    LIVE("fs_size_max", BYTES, AT(fs_bytes), "0", 0, INT64_MAX,
         "Size of a container's root file system, 0 = no limit (docker)."),
    LIVE("tmpfs_inodes_max", INT, AT(tmpfs_inodes), "0", 0, INT64_MAX,
         "Files in a container's /tmp, 0 = the engine's default (docker)."),
    LIVE("pids_max", INT, AT(pids_max), "50", 0, 4194304,
         "Processes of a container, 0 = no limit."),
    LIVE("nofile_max", INT, AT(nofile_max), "350", 16, 1048576, "Open files of a process."),
    LIVE("memlock_max", BYTES, AT(memlock_max), "64KiB", 0, INT64_MAX,
         "Locked memory of a process (docker)."),
    LIVE("sigpending_max", INT, AT(sigpending_max), "5000", 0, 1000000,
         "Pending signals of a user (docker)."),
    LIVE("msgqueue_max", BYTES, AT(msgqueue_max), "819200", 0, INT64_MAX,
         "Bytes in POSIX message queues of a user (docker)."),
    LIVE("writable_root", BOOL, AT(writable_root), "false", 0, 0,
         "Let functions write to their root file system."),
    OPT("privileged_user", BOOL, AT(privileged), "false", 0, 0,
        "Run functions as their image's user with the engine's default capabilities (docker)."),
    LIVE("volumes", BOOL, AT(volumes), "false", 0, 0,
         "Allow images that declare volumes (docker)."),
    LIVE("syslog_own_networks", BOOL, AT(syslog_own_networks), "false", 0, 0,
         "Let apps name log servers in this machine's own networks: itself, link-local addresses, "
         "those beside its interfaces; upstream lets them."),
    LIVE("no_network", BOOL, AT(no_network), "false", 0, 0, "Give functions no network."),
    { .key = NULL },
};

const struct opt_table runner_opt_table = { rows, sizeof(struct runner_options) };

void runner_options_fix(struct runner_options *o)
{
    o->probe_interval_ns = 2 * S;
    o->stall_ns = S;
    o->start_target_ns = 5 * MS;
    o->start_patience_ns = 50 * MS;
    o->exit_wait_ns = 300 * MS;
    o->image_fresh_ns = MIN;
    o->attempts_max = 3;
    o->call_json_arena_max = 4 * MIB;
    o->user_log_lines_per_s = 200;
    o->seen_max = 100000;
    o->seen_ns = 10 * MIN;
    o->count_calls = true;
}

void runner_options_default(struct runner_options *o)
{
    *o = (struct runner_options){ .instance = "00000000000000000000000000000000" };
    opt_defaults(&runner_opt_table, o);
    o->owner = "fnd";
    runner_options_fix(o);
}
