/* Names and results of requests to a Docker engine, on the workers that wait for it. */
#include <node/engine_calls.h>

#include <base/metric.h>
#include <stdio.h>
#include <string.h>

/* `path` is what begins the path; `last`, if there is one, what the rest of it ends with. */
static const struct {
    const char *method, *path, *last, *name;
} calls[] = {
    { "POST", "/containers/create", NULL, "docker_create_container" },
    { "GET", "/containers/json", NULL, "docker_list_containers" },
    { "POST", "/containers/", "/start", "docker_start_container" },
    { "POST", "/containers/", "/pause", "docker_pause_container" },
    { "POST", "/containers/", "/unpause", "docker_unpause_container" },
    { "POST", "/containers/", "/kill", "docker_kill_container" },
    { "POST", "/containers/", "/wait", "docker_wait_container" },
    { "POST", "/containers/", "/attach", "docker_attach_container" },
    { "GET", "/containers/", "/stats", "docker_stats" },
    { "GET", "/containers/", "/json", "docker_inspect_container" },
    { "DELETE", "/containers/", NULL, "docker_remove_container" },
    { "POST", "/images/create", NULL, "docker_pull_image" },
    { "POST", "/images/load", NULL, "docker_load_images" },
    { "GET", "/images/json", NULL, "docker_list_images" },
    { "GET", "/images/", "/json", "docker_inspect_image" },
    { "DELETE", "/images/", NULL, "docker_remove_image" },
    { "GET", "/system/df", NULL, "docker_disk_usage" },
    { "GET", "/networks/", NULL, "docker_inspect_network" },
    { "POST", "/networks/create", NULL, "docker_create_network" },
    { "GET", "/info", NULL, "docker_info" },
    { "GET", "/version", NULL, "docker_version" },
    { "GET", "/_ping", NULL, "docker_ping" },
};

static bool path_is(const char *path, size_t len, const char *begin, const char *last)
{
    size_t n = strlen(begin);
    size_t n_last = last ? strlen(last) : 0;

    if (len < n + n_last || strncmp(path, begin, n) != 0) {
        return false;
    }
    return last ? strncmp(path + len - n_last, last, n_last) == 0
                : len == n || begin[n - 1] == '/';
}

/* "http://localhost/v1.41/containers/json" without what stands before "/containers". */
static const char *path_of(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;

    if (path && strncmp(path, "/v1.", 4) == 0) {
        path = strchr(path + 1, '/');
    }
    return path;
}

const char *engine_calls_name(const char *method, const char *url)
{
    const char *path = path_of(url);
    size_t len = path ? strcspn(path, "?#") : 0;

    for (size_t i = 0; path && i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(method, calls[i].method) == 0 &&
            path_is(path, len, calls[i].path, calls[i].last)) {
            return calls[i].name;
        }
    }
    return NULL;
}

static const char *status_of(int result, uint32_t status, char *number, size_t cap)
{
    if (result < 0) {
        return result == FN_E_DEADLINE    ? "timeout"
               : result == FN_E_CANCELLED ? "canceled"
                                          : "error";
    }
    if (status < 400) {
        return "ok";
    }
    snprintf(number, cap, "%u", status);
    return number;
}

static struct metric_family *latency_family(void)
{
    static const char *const labels[] = { "api_name", "api_status", NULL };
    static const struct metric_def def = {
        .name = "fn_docker_api_latency",
        .help = "Milliseconds of a request to the Docker engine, by its kind and its result.",
        .kind = METRIC_HISTOGRAM,
        .labels = labels,
        .latency = true,
    };

    return metric_declare(&def);
}

static void count_exchange(const struct fn_http_request *rq, int result, uint32_t status,
                           int64_t took_ns)
{
    const char *name = engine_calls_name(rq->method, rq->url);
    char number[16];
    const char *values[] = { name, status_of(result, status, number, sizeof(number)) };

    if (name) {
        metric_observe(metric_series(latency_family(), values), took_ns / ENV_MS);
    }
}

void engine_calls_watch(struct fetch *f)
{
    latency_family();
    fetch_watch(f, count_exchange);
}
