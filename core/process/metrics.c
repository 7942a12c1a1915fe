/* What this process uses. There is one process, so what it is known by is static. */
#include <process/metrics.h>

#include <base/metric_names.h>
#include <config/config.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct {
    struct metric_source source;
    struct metric *cpu_us;
    struct metric *resident, *virtual;
    struct metric *max_fds;
} process;

static void read_cpu(void)
{
    struct timespec ts;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0) {
        metric_set(process.cpu_us, (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
    }
}

static void read_memory(void)
{
    long page = sysconf(_SC_PAGESIZE);
    char text[128] = "";
    long long size, resident;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return;
    }
    if (read(fd, text, sizeof(text) - 1) > 0 && sscanf(text, "%lld %lld", &size, &resident) == 2) {
        metric_set(process.virtual, size * page);
        metric_set(process.resident, resident * page);
    }
    close(fd);
}

static void read_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        metric_set(process.max_fds, (int64_t)limit.rlim_cur);
    }
}

static void metrics_refresh(struct metric_source *s)
{
    (void)s;
    read_cpu();
    read_memory();
    read_limits();
}

void process_metrics_declare(const struct config_buckets *buckets)
{
    static const struct metric_def cpu = {
        .name = "fn_process_cpu_seconds_total",
        .help = "Seconds of processor time, of user and system.",
        .kind = METRIC_COUNTER,
        .scale = 1e-6,
    };

    metric_buckets_set(buckets->latency.items, buckets->latency.n, buckets->own.items,
                       buckets->own.n);
    metric_names_set(strcmp(buckets->names, "prometheus") == 0 ? METRIC_NAMES_PROMETHEUS
                                                               : METRIC_NAMES_FN);
    process.cpu_us = metric_series(metric_declare(&cpu), NULL);
    process.resident = metric_simple("fn_process_resident_memory_bytes", METRIC_GAUGE,
                                     "Bytes of memory that are resident.");
    process.virtual = metric_simple("fn_process_virtual_memory_bytes", METRIC_GAUGE,
                                    "Bytes of address space.");
    process.max_fds = metric_simple("fn_process_max_fds", METRIC_GAUGE,
                                    "Descriptors that may be open at a time.");
    metric_set(metric_simple("fn_process_start_time_seconds", METRIC_GAUGE,
                             "Unix time when the node began, in seconds."),
               (int64_t)time(NULL));
    process.source.refresh = metrics_refresh;
    metric_source_add(&process.source);
}
