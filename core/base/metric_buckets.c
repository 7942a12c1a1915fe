/* Buckets: the bounds of the histograms of latencies, which operators choose. They are set before
 * the first of these histograms is declared, and stay. */
#include <base/metric_int.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_CHARS_MAX 32
#define LIST_BREAKS      ", \t"

struct buckets {
    double ms[METRIC_BOUNDS_MAX];
    uint32_t n;
};

/* Who may have bounds of its own. */
static const char *const names[] = {
    "fn_api_latency",
    "fn_lb_call_latency",
    "fn_lb_runner_sched_latency",
    "fn_lb_runner_exec_latency",
    "fn_lb_function_seconds",
    "fn_lb_placer_latency",
    "fn_container_wait_duration_seconds",
    "fn_container_start_duration_seconds",
    "fn_container_idle_duration_seconds",
    "fn_container_paused_duration_seconds",
    "fn_container_busy_duration_seconds",
    "fn_runner_container_wait_seconds",
    "fn_runner_container_start_seconds",
    "fn_runner_container_idle_seconds",
    "fn_runner_container_paused_seconds",
    "fn_runner_container_busy_seconds",
    "fn_container_uds_init_latency",
    "fn_runner_start_phase_seconds",
    "fn_runner_status_seconds",
    "fn_docker_api_latency",
};

#define NAMES_N (sizeof(names) / sizeof(names[0]))

static struct buckets common;       /* n 0: METRIC_LATENCY_BUCKETS */
static struct buckets own[NAMES_N]; /* n 0: common */

static const char *name_at(const char *text, size_t len, size_t *ret_i)
{
    for (size_t i = 0; i < NAMES_N; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
            *ret_i = i;
            return names[i];
        }
    }
    return NULL;
}

/* Adds one number; false: it is none, or does not ascend, or is one too many. */
static bool add_number(struct buckets *b, const char *text, size_t len)
{
    char copy[NUMBER_CHARS_MAX + 1];
    char *end;
    double v;

    if (len == 0 || len > NUMBER_CHARS_MAX || b->n == METRIC_BOUNDS_MAX ||
        strspn(text, "0123456789.") < len) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    v = strtod(copy, &end);
    if (*end || !isfinite(v) || v > METRIC_BUCKET_MS_MAX || (b->n > 0 && v <= b->ms[b->n - 1])) {
        return false;
    }
    b->ms[b->n++] = v;
    return true;
}

static bool add_numbers(struct buckets *b, const char *text)
{
    for (const char *at = text + strspn(text, LIST_BREAKS); *at; at += strspn(at, LIST_BREAKS)) {
        size_t len = strcspn(at, LIST_BREAKS);

        if (!add_number(b, at, len)) {
            return false;
        }
        at += len;
    }
    return true;
}

static bool read_common(const char *const *items, uint64_t n, struct buckets *ret)
{
    *ret = (struct buckets){ .n = 0 };
    for (uint64_t i = 0; i < n; i++) {
        if (!add_numbers(ret, items[i])) {
            return false;
        }
    }
    return ret->n > 0;
}

static bool read_own(const char *item, size_t *ret_i, struct buckets *ret)
{
    size_t len = strcspn(item, "=");

    *ret = (struct buckets){ .n = 0 };
    return name_at(item, len, ret_i) && item[len] == '=' && add_numbers(ret, item + len + 1) &&
           ret->n > 0;
}

bool metric_buckets_good(const char *const *items, uint64_t n)
{
    struct buckets b;

    return read_common(items, n, &b);
}

bool metric_buckets_of_good(const char *item)
{
    struct buckets b;
    size_t i;

    return read_own(item, &i, &b);
}

void metric_buckets_set(const char *const *items, uint64_t n, const char *const *own_items,
                        uint64_t n_own)
{
    struct buckets b;
    size_t at;

    if (read_common(items, n, &b)) {
        common = b;
    }
    for (uint64_t i = 0; i < n_own; i++) {
        if (read_own(own_items[i], &at, &b)) {
            own[at] = b;
        }
    }
}

uint32_t metric_buckets_get(const char *name, double scale, double ret[METRIC_BOUNDS_MAX])
{
    static const char *const dflt[] = { METRIC_LATENCY_BUCKETS };
    const struct buckets *b;
    struct buckets standard;
    size_t i = 0;

    if (!name_at(name, strlen(name), &i)) {
        abort(); /* it could not be set */
    }
    read_common(dflt, 1, &standard);
    b = own[i].n > 0 ? &own[i] : common.n > 0 ? &common : &standard;
    for (uint32_t k = 0; k < b->n; k++) {
        ret[k] = b->ms[k] * scale;
    }
    return b->n;
}
