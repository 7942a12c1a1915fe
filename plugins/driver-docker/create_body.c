/* The create request of a task: its body, which create_rules.c judges before anybody gets it. */
#include "create_body.h"
#include "create_rules.h"
#include "fail.h"

#include <inttypes.h>
#include <stdlib.h>

static bool has_char(const char *s, const char *set)
{
    return s[strcspn(s, set)] != '\0';
}

static int check_mount(const struct fn_task *t, struct fn_error *e)
{
    if (!t->iofs_engine_dir || t->iofs_engine_dir[0] != '/' ||
        has_char(t->iofs_engine_dir, ":\n") || strcmp(t->iofs_engine_dir, "/") == 0 ||
        strstr(t->iofs_engine_dir, "/..")) {
        return fail_platform(
            e, FN_E_INVALID,
            "iofs directory, got \"%.80s\"; expected an absolute path without \":\"",
            t->iofs_engine_dir ? t->iofs_engine_dir : "");
    }
    if (!t->iofs_inside || t->iofs_inside[0] != '/' || has_char(t->iofs_inside, ":\n")) {
        return fail_platform(e, FN_E_INVALID, "iofs mount point is not an absolute path");
    }
    return 0;
}

/* What the engine's log driver dials. Whether an app may name a socket or network of this machine
 * has the host decided before (runner.syslog_own_networks). */
static int check_syslog(const struct fn_task *t, struct fn_error *e)
{
    static const char *const schemes[] = { "tcp://",  "udp://",      "tcp+tls://",
                                           "unix://", "unixgram://", NULL };

    if (!t->syslog_url || !*t->syslog_url) {
        return 0;
    }
    for (const char *const *s = schemes; *s; s++) {
        if (strncmp(t->syslog_url, *s, strlen(*s)) == 0) {
            return 0;
        }
    }
    return fail_user(e, FN_E_INVALID, 400,
                     "syslog URL, got \"%.60s\"; expected tcp, udp, tcp+tls, unix or unixgram://",
                     t->syslog_url);
}

static int check_limits(const struct fn_task *t, struct fn_error *e)
{
    if (t->mem_bytes > INT64_MAX || t->cpu_milli > INT64_MAX / 1000 || t->pids_max > INT64_MAX ||
        t->tmpfs_bytes > INT64_MAX || t->fs_bytes > INT64_MAX) {
        return fail_user(e, FN_E_INVALID, 400, "a limit of the function is beyond 2^63");
    }
    return 0;
}

static int check_label(const struct fn_kv *label, size_t *bytes, struct fn_error *e)
{
    if (!label->key || !*label->key || !label->value ||
        strncmp(label->key, API_OWN_LABELS, strlen(API_OWN_LABELS)) == 0) {
        return fail_platform(e, FN_E_INVALID,
                             "label of the task, got \"%.60s\"; expected a name that does not begin "
                             "with " API_OWN_LABELS, label->key ? label->key : "");
    }
    *bytes += strlen(label->key) + strlen(label->value);
    return 0;
}

/* Set by drivers that wrap this one. */
static int check_extras(const struct fn_task *t, struct fn_error *e)
{
    size_t bytes = 0;
    int r = 0;

    if (FN_HAS(t, cpu_shares) && t->cpu_shares > 0 &&
        (t->cpu_shares < API_SHARES_MIN || t->cpu_shares > API_SHARES_MAX)) {
        return fail_platform(e, FN_E_INVALID, "cpu_shares, got %" PRIu64 "; expected %d..%d",
                             t->cpu_shares, API_SHARES_MIN, API_SHARES_MAX);
    }
    for (uint32_t i = 0; FN_HAS(t, n_labels) && i < t->n_labels && r == 0; i++) {
        r = check_label(&t->labels[i], &bytes, e);
    }
    if (r == 0 && bytes > API_LABELS_MAX) {
        r = fail_platform(e, FN_E_INVALID, "labels of %zu bytes; expected at most %d", bytes,
                          API_LABELS_MAX);
    }
    return r;
}

static json_t *env_list(const struct fn_task *t)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < t->n_env; i++) {
        json_array_append_new(list, json_sprintf("%s=%s", t->env[i].key, t->env[i].value));
    }
    return list;
}

static json_t *labels(const struct fn_task *t, const struct api_settings *s)
{
    json_t *o = json_object();

    json_object_set_new(o, API_OWNER_LABEL, json_string(t->owner));
    json_object_set_new(o, API_INSTANCE_LABEL, json_string(t->instance));
    if (s->lock && *s->lock) {
        json_object_set_new(o, API_LOCK_LABEL, json_string(s->lock));
    }
    if (t->fn_id) {
        json_object_set_new(o, API_FN_LABEL, json_string(t->fn_id));
    }
    if (t->app_id) {
        json_object_set_new(o, API_APP_LABEL, json_string(t->app_id));
    }
    if (s->label_tag && *s->label_tag) {
        json_object_set_new(o, "fn-agent-classifier", json_string(s->label_tag));
        json_object_set_new(o, "fn-agent-instance", json_string(t->instance));
    }
    for (uint32_t i = 0; FN_HAS(t, n_labels) && i < t->n_labels; i++) {
        json_object_set_new(o, t->labels[i].key, json_string(t->labels[i].value));
    }
    return o;
}

const char *const create_ulimit_names[] = { "nofile", "memlock", "sigpending", "msgqueue", NULL };

uint64_t create_ulimit(const struct fn_task *t, const char *name)
{
    const uint64_t values[] = { t->nofile_max, t->memlock_max, t->sigpending_max,
                                t->msgqueue_max };

    for (size_t i = 0; create_ulimit_names[i]; i++) {
        if (strcmp(create_ulimit_names[i], name) == 0) {
            return values[i] <= INT64_MAX ? values[i] : 0;
        }
    }
    return 0;
}

static json_t *ulimits(const struct fn_task *t)
{
    json_t *list = json_array();

    for (const char *const *name = create_ulimit_names; *name; name++) {
        json_int_t value = (json_int_t)create_ulimit(t, *name);

        if (value > 0) {
            json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "Name", *name, "Soft", value,
                                                  "Hard", value));
        }
    }
    return list;
}

json_t *create_log_config(const struct fn_task *t)
{
    json_t *config;

    if (!t->syslog_url || !*t->syslog_url) {
        return json_pack("{s:s}", "Type", "none");
    }
    config = json_pack("{s:s, s:s, s:s}", "syslog-address", t->syslog_url, "syslog-facility",
                       "user", "syslog-format", "rfc5424");
    json_object_set_new(config, "tag",
                        json_sprintf("app_id=%s,fn_id=%s", t->app_id ? t->app_id : "",
                                     t->fn_id ? t->fn_id : ""));
    return json_pack("{s:s, s:o}", "Type", "syslog", "Config", config);
}

void create_tmpfs_options(const struct fn_task *t, char *ret, size_t cap)
{
    int n = 0;

    ret[0] = '\0';
    if (t->tmpfs_bytes > 0) {
        n = snprintf(ret, cap, "size=%" PRIu64 "k", (t->tmpfs_bytes + 1023) / 1024);
    }
    if (t->tmpfs_bytes > 0 && t->tmpfs_inodes > 0) {
        snprintf(ret + n, cap - (size_t)n, ",nr_inodes=%" PRIu64, t->tmpfs_inodes);
    }
}

static json_t *tmpfs(const struct fn_task *t)
{
    char options[CREATE_TMPFS_MAX];

    create_tmpfs_options(t, options, sizeof(options));
    return json_pack("{s:s}", "/tmp", options);
}

void create_storage_size(const struct fn_task *t, char *ret, size_t cap)
{
    ret[0] = '\0';
    if (t->fs_bytes > 0) {
        snprintf(ret, cap, "%" PRIu64 "M", (t->fs_bytes + 1048575) / 1048576);
    }
}

static void add_memory(json_t *host, const struct fn_task *t, const struct api_settings *s)
{
    json_int_t bytes = (json_int_t)t->mem_bytes;

    if (bytes > 0) {
        json_object_set_new(host, "Memory", json_integer(bytes));
        json_object_set_new(host, "MemorySwap", json_integer(bytes));
        if (s->swappiness) {
            json_object_set_new(host, "MemorySwappiness", json_integer(0));
        }
    }
}

static void add_limits(json_t *host, const struct fn_task *t)
{
    char size[32];

    if (t->cpu_milli > 0) {
        json_object_set_new(host, "CpuPeriod", json_integer(CREATE_CPU_PERIOD_US));
        json_object_set_new(
            host, "CpuQuota",
            json_integer((json_int_t)(t->cpu_milli * (CREATE_CPU_PERIOD_US / 1000))));
    }
    if (FN_HAS(t, cpu_shares) && t->cpu_shares > 0) {
        json_object_set_new(host, "CpuShares", json_integer((json_int_t)t->cpu_shares));
    }
    if (t->pids_max > 0) {
        json_object_set_new(host, "PidsLimit", json_integer((json_int_t)t->pids_max));
    }
    create_storage_size(t, size, sizeof(size));
    if (*size) {
        json_object_set_new(host, "StorageOpt", json_pack("{s:s}", "size", size));
    }
    json_object_set_new(host, "Ulimits", ulimits(t));
}

static json_t *host_config(const struct fn_task *t, const struct api_settings *s)
{
    json_t *host = json_object();
    bool read_only = !(t->flags & FN_TASK_WRITABLE_ROOT);

    if (!(t->flags & FN_TASK_PRIVILEGED_USER)) {
        json_object_set_new(host, "CapDrop", json_pack("[s]", CREATE_CAP_DROP));
        json_object_set_new(host, "SecurityOpt", json_pack("[s]", CREATE_SECURITY));
    }
    json_object_set_new(host, "Init", json_true());
    json_object_set_new(host, "ReadonlyRootfs", json_boolean(read_only));
    json_object_set_new(host, "LogConfig", create_log_config(t));
    if (t->flags & FN_TASK_NO_NETWORK) {
        json_object_set_new(host, "NetworkMode", json_string("none"));
    } else if (s->network) {
        json_object_set_new(host, "NetworkMode", json_string(s->network));
    }
    if (read_only || t->tmpfs_bytes > 0) {
        json_object_set_new(host, "Tmpfs", tmpfs(t));
    }
    add_memory(host, t, s);
    add_limits(host, t);
    return host;
}

json_t *create_no_health(void)
{
    return json_pack("{s:[s]}", "Test", CREATE_NO_HEALTH);
}

static json_t *container_body(const struct fn_task *t, const struct api_settings *s)
{
    json_t *body = json_object();

    json_object_set_new(body, "Image", json_string(t->image));
    if (t->hostname && s->hostname && !(t->flags & FN_TASK_NO_NETWORK)) {
        json_object_set_new(body, "Hostname", json_string(t->hostname));
    }
    if (!(t->flags & FN_TASK_PRIVILEGED_USER)) {
        json_object_set_new(body, "User", json_string(CREATE_USER));
    }
    json_object_set_new(body, "AttachStdout", json_boolean(s->attach_output));
    json_object_set_new(body, "AttachStderr", json_boolean(s->attach_output));
    json_object_set_new(body, "Env", env_list(t));
    json_object_set_new(body, "Labels", labels(t, s));
    if (s->no_health) {
        json_object_set_new(body, "Healthcheck", create_no_health());
    }
    json_object_set_new(body, "HostConfig", host_config(t, s));
    return body;
}

json_t *create_socket_mount(const struct fn_task *t)
{
    return json_pack("{s:s, s:s, s:s}", "Type", "bind", "Source", t->iofs_engine_dir, "Target",
                     t->iofs_inside);
}

/* Behind what wrappers asked for, whose extra JSON takes the place of lists. */
static void add_socket_mount(json_t *body, const struct fn_task *t)
{
    json_t *host = json_object_get(body, "HostConfig");

    if (!json_object_get(host, "Mounts")) {
        json_object_set_new(host, "Mounts", json_array());
    }
    json_array_append_new(json_object_get(host, "Mounts"), create_socket_mount(t));
}

static int check_task(const struct fn_task *task, struct fn_error *reterr)
{
    static int (*const checks[])(const struct fn_task *, struct fn_error *) = {
        check_mount, task_check_env, check_syslog, check_limits, check_extras
    };
    struct image_name image;
    int r = image_parse(task->image, &image, reterr);

    for (size_t i = 0; r == 0 && i < sizeof(checks) / sizeof(checks[0]); i++) {
        r = checks[i](task, reterr);
    }
    return r;
}

int api_create_body(const struct fn_task *task, const struct api_settings *settings, char **ret,
                    struct fn_error *reterr)
{
    json_t *body;
    char *text;
    int r = check_task(task, reterr);

    if (r < 0) {
        return r;
    }
    body = container_body(task, settings);
    /* A text that is not UTF-8 makes jansson refuse the value; then the list is shorter. */
    if (json_array_size(json_object_get(body, "Env")) != task->n_env) {
        json_decref(body);
        return fail_user(reterr, FN_E_INVALID, 400, "config: a value is not UTF-8");
    }
    r = create_add_extras(body, task, reterr);
    add_socket_mount(body, task);
    text = r == 0 ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (r == 0 && !text) {
        r = fail_platform(reterr, FN_E_EXHAUSTED, "create: out of memory");
    }
    if (r == 0) {
        r = rules_judge(text, task, settings, reterr); /* the text that is sent, and no other */
    }
    if (r < 0) {
        free(text);
        return r;
    }
    *ret = text;
    return 0;
}
