/* What a runner takes from `runner:`, and what nobody can set. */
#include <runner/runner.h>

#include <base/metric.h>
#include <conf/opts.h>

#define AT(field) offsetof(struct runner_options, field)
static const struct fn_opt rows[] = {
    OPT_ABSENT("owner", STR, AT(owner), 1, 63,
               "Name of this runner that stays the same across restarts, of a-z, 0-9 and -, "
               "without -- and not - at the end. At its start a runner removes the containers "
               "that an earlier process of the same name left behind, so two runners must not "
               "share it. When absent: made of the host name and of where gRPC listens (on a full "
               "node, HTTP); with port 0 each process has one of its own, and what it leaves when "
               "it is killed goes only where its lock shows that it is dead."),
    LIVE_COUNT("memory_min", INT, AT(mem_mb_min), "16", 1, 8192, "MB",
               "Smallest memory that a function may be configured with; a call of a function "
               "with less is answered 400 (RUN405). Go Fn: 1."),
    LIVE("freeze_idle", DURATION, AT(freeze_idle_ns), "50ms", -1, 24 * H,
         "Time after its last call when an idle container is frozen: its processes are suspended "
         "and use no CPU, but keep their memory. Where the next call usually comes so soon that "
         "freezing would not pay, this runner waits longer (tuning.md). never = containers keep "
         "running, which saves the thaw of the next call."),
    LIVE_CHOICE("freeze_when", AT(freeze_when), "always", "always|busy",
                "Whether idle containers are frozen always, or only while less than a tenth of "
                "the machine's processor time is spare."),
    LIVE("warm_max", INT32, AT(warm_max), "0", 0, 1000,
         "Maximum number of containers of one function that are kept ready though no call needs "
         "them, 0 = none. How many of them are kept is up to `plugins.warm`; without it, a "
         "call that has to wait for a start makes this runner keep as many as there are then "
         "(tuning.md)."),
    LIVE("warm_memory", INT32, AT(warm_memory_percent), "50", 1, 100,
         "Share of this runner's memory, in percent, that containers may hold which only "
         "`warm_max` keeps. They are the first ones to be removed when a call needs the memory."),
    LIVE("warm_hold", DURATION, AT(warm_hold_ns), "5m", S, 24 * H,
         "Time that containers are kept for after they were last needed all at once; then a "
         "quarter less each minute. Without effect when `plugins.warm` is set."),
    LIVE("pull_timeout", DURATION, AT(pull_timeout_ns), "10m", -1, 24 * H,
         "Time to pull and unpack an image; then the calls that wait for it fail with 504. A "
         "pull for which no call has waited during the last minute is cancelled earlier."),
    LIVE("start_timeout", DURATION, AT(start_timeout_ns), "5s", -1, H,
         "Time from the start of a container until its function listens on its socket; then the "
         "calls that wait for it fail with 504. Raise it for functions that start slowly, such "
         "as those on a JVM. A function may have its own limit, by the annotation "
         "`fnd/start-timeout` (functions.md)."),
    LIVE("start_timeout_max", DURATION, AT(start_timeout_max_ns), "2m", 100 * MS, H,
         "Longest time to start that a function may ask for with the annotation "
         "`fnd/start-timeout`; a call of a function with more is answered 400 (RUN405)."),
    LIVE("engine_timeout", DURATION, AT(engine_timeout_ns), "20s", 100 * MS, H,
         "Time for the container engine to create, start or remove a container; then the call is "
         "handed back to the load balancer. Go Fn has no limit."),
    LIVE("freeze_timeout", DURATION, AT(freeze_timeout_ns), "2s", 10 * MS, MIN,
         "Time for the container engine to freeze or thaw a container; then the container is "
         "given up, as is one whose thaw finds no turn within twice that. Go Fn has no limit."),
    LIVE("parallel_starts_max", INT32, AT(parallel_starts_max), "8", 1, 1000,
         "Maximum number of containers that are created or started at a time, and of those that "
         "are removed at a time; others wait. One app may use as many of these places as are "
         "still free, so it never holds more than half."),
    LIVE("pulls_max", INT32, AT(pulls_max), "8", 1, 100,
         "Maximum number of images that are pulled at a time; others wait. One app, or one "
         "registry, may use as many of these places as are still free. Images that are already "
         "on the machine need no place."),
    LIVE("start_wait", DURATION, AT(start_wait_ns), "10s", 100 * MS, H,
         "Longest time that a call waits at this runner while a container is started or an image "
         "is pulled for it. Then it is handed back to the load balancer, and the start or pull "
         "goes on. Raise it if there is only one runner and images are large."),
    LIVE("queue_wait", DURATION, AT(queue_wait_ns), "500ms", 0, MIN,
         "Longest time that a call waits at this runner for a busy container of its function. "
         "Then it is handed back to the load balancer, which may know a free runner."),
    LIVE("queue_factor", INT32, AT(queue_factor), "2", 1, 1000,
         "Number of calls that may wait at this runner for each container of their function; "
         "further calls are handed back to the load balancer."),
    LIVE("body_wait", DURATION, AT(body_wait_ns), "10s", 10 * MS, H,
         "Time to receive the first part of a call's body from the load balancer; then the call "
         "is refused with 408 (RUN409)."),
    LIVE("exit_wait", DURATION, AT(exit_wait_ns), "300ms", 10 * MS, MIN,
         "Time for the driver to tell why a container ended, when its function closed the "
         "connection in a call; then the caller is told only that it did. Raise it for an engine "
         "that is slow to tell, such as Podman (2s)."),
    LIVE("call_memory", BYTES, AT(calls_bytes_max), "256MiB", 16 * MIB, INT64_MAX,
         "Maximum memory of calls that wait for their body or for a container; further calls are "
         "handed back to the load balancer. One app may use four times what is still free "
         "(so one app alone gets at most 80 %). Go Fn has no limit."),
    LIVE("max_response_size", BYTES, AT(answer_bytes_max), "6MiB", 0, 64 * GIB,
         "Maximum size of a function's response, 0 = no limit (as Go Fn); a larger one becomes "
         "502. Raise lb.response_max too."),
    LIVE("log_ring", BYTES, AT(log_ring_bytes), "64KiB", 1 * KIB, 64 * MIB,
         "Last bytes of a container's output that are kept in memory, for `fnd logs`, "
         "`StreamLogs` and to explain its failure in the log. Each container takes that much, "
         "and each line about 40 bytes of it. Raise it if readers miss lines. Go Fn keeps 1 MiB "
         "per call."),
    LIVE("log_kept", BYTES, AT(log_kept_bytes), "4MiB", 0, 16 * GIB,
         "Memory for the output of containers that were removed, all together, for `fnd logs` "
         "and `StreamLogs`; the oldest is dropped first. 0 = none is kept."),
    LIVE("log_streams_max", INT32, AT(log_streams_max), "16", 0, 1000,
         "Maximum number of readers of function output (`StreamLogs`, `fnd logs`) at a time; "
         "further ones are refused (RUN416). 0 = output cannot be read this way, and "
         "`StreamLogs` is answered as by an unmodified runner of Go Fn."),
    LIVE_CHOICE("log_source", AT(log_source), "containers", "containers|operator",
                "Where readers of function output get their lines from: the containers' output "
                "in the memory of this runner, or plugins.operator, if that plugin has lines of "
                "its own, which may go back further."),
    LIVE("user_logs", BOOL, AT(user_logs), "true", 0, 0,
         "Write the lines that functions print to standard output and standard error into the "
         "node's log, with the ids of call, function and app."),
    LIVE("user_log_lines_max", INT32, AT(user_log_lines_per_s), "200", 1, 1000000,
         "Maximum number of such lines per second and container. Further lines are dropped, and "
         "the next line tells how many (`suppressed`)."),
    LIVE("detached", BOOL, AT(detached), "true", 0, 0,
         "Accept detached calls. false = they are answered 501. Turn it off while a pool also "
         "has Go Fn's runners, which refuse them."),
    LIVE_ABSENT("images_allowed", STRLIST, AT(images_allowed), 0, 0,
                "Patterns (with *) of the images that may run on this runner; calls of functions "
                "with other images are answered 403 (RUN407). When absent: all images."),
    LIVE_ABSENT("configurable", STRLIST, AT(configurable), 0, 0,
                "Patterns (with *) of the settings that a `ConfigureRunner` request may change "
                "while this runner runs, such as `runner.freeze_idle` or `log.*`; others are "
                "refused (RUN417). Whoever reaches the gRPC port may send such a request. When "
                "absent: none."),
    LIVE_ABSENT("status_image", STR, AT(status_image), 1, 511,
                "Image of a function that is run whenever this runner is asked for its status. "
                "The status fails if the run does (monitoring.md). Calls of functions with this "
                "image are answered 400 (RUN411). When absent: the status only says whether the "
                "container engine answers."),
    LIVE_ABSENT("status_network_file", STR, AT(status_network_file), 1, 4095,
                "Path of a file. While it does not exist, the status image runs without network, "
                "and the status says so. When absent: the status image has network."),
    LIVE("fs_size_max", BYTES, AT(fs_bytes), "0", 0, INT64_MAX,
         "Maximum size of a container's root file system, 0 = no limit; beyond it, the "
         "function's writes fail. Drivers docker and oci only; with docker, only for storage "
         "drivers of the engine that can limit a container's size."),
    LIVE("tmpfs_inodes_max", INT, AT(tmpfs_inodes), "0", 0, INT64_MAX,
         "Maximum number of files in a container's /tmp, 0 = the engine's default; beyond it, "
         "creating a file fails. Drivers docker and oci only."),
    LIVE("pids_max", INT, AT(pids_max), "50", 0, 4194304,
         "Maximum number of processes and threads in a container, 0 = no limit; beyond it, "
         "starting one fails. Raise it for runtimes with many threads."),
    LIVE("nofile_max", INT, AT(nofile_max), "350", 16, 1048576,
         "Maximum number of open files of a process in a container; beyond it, opening one "
         "fails. Raise it for functions with many connections."),
    LIVE("memlock_max", BYTES, AT(memlock_max), "64KiB", 0, INT64_MAX,
         "Maximum memory that a process in a container may lock into RAM (mlock); beyond it, "
         "locking fails. Drivers docker and oci only."),
    LIVE("sigpending_max", INT, AT(sigpending_max), "5000", 0, 1000000,
         "Maximum number of signals that may be pending in a container. Drivers docker and oci "
         "only."),
    LIVE("msgqueue_max", BYTES, AT(msgqueue_max), "819200", 0, INT64_MAX,
         "Maximum number of bytes in POSIX message queues of a container; beyond it, creating a "
         "queue fails. Drivers docker and oci only."),
    LIVE("writable_root", BOOL, AT(writable_root), "false", 0, 0,
         "Let functions write to the root file system of their container. What they write is "
         "gone with the container. false = only /tmp is writable."),
    OPT("privileged_user", BOOL, AT(privileged), "false", 0, 0,
        "Run functions as the user that their image names, with the engine's default "
        "capabilities. false = as an unprivileged user without capabilities. Set it only for "
        "images that do not run otherwise. Drivers docker and oci only."),
    LIVE("volumes", BOOL, AT(volumes), "false", 0, 0,
         "Run images that declare volumes (VOLUME in a Dockerfile). false = calls of such "
         "functions are refused. Drivers docker and oci only."),
    LIVE("syslog_own_networks", BOOL, AT(syslog_own_networks), "false", 0, 0,
         "Let apps send their output (`syslog_url`) to log servers in this machine's own "
         "networks: the machine itself, link-local addresses, and the networks of its "
         "interfaces. false = calls of such apps are answered 400 (RUN410). Go Fn allows it."),
    LIVE("container_stats", BOOL, AT(container_stats), "true", 0, 0,
         "Sample what containers use of processors, memory, network and disks, once a second "
         "(`fn_docker_stats_*`; 64 containers at a time, in turns). Drivers docker and oci only."),
    LIVE("no_network", BOOL, AT(no_network), "false", 0, 0,
         "Start containers without network access."),
    { .key = NULL },
};

#undef AT

#define AT(field) offsetof(struct runner_metrics_options, field)
static const struct fn_opt metrics_rows[] = {
    LIVE("metrics_functions_max", INT32, AT(functions_max),
         NUMBER_TEXT(METRIC_SUBJECTS_DEFAULT), 0, 10000,
         "Number of functions, the most used ones, that have series of their own in /metrics; "
         "all others share the label value `other`. Each function adds about 24 KB to the page."),
    { .key = NULL },
};

const struct opt_table runner_metrics_table = { metrics_rows,
                                                sizeof(struct runner_metrics_options) };
const struct opt_table runner_opt_table = { rows, sizeof(struct runner_options) };

void runner_options_fix(struct runner_options *o)
{
    o->start_target_ns = 5 * MS;
    o->call_json_arena_max = 4 * MIB;
    o->seen_max = 100000;
    o->count_calls = true;
}
