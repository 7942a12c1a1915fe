/* A table of members with a rule for each, and an interpreter that walks the request by it;
 * below, what the options of the operator may say. */
#include "create_rules.h"

#include "create_body.h"
#include "fail.h"
#include "rule_words.h"

#include <inttypes.h>
#include <stdlib.h>

#define HOST "HostConfig."

struct judge {
    const struct fn_task *t;
    const struct fn_task *own; /* the host's; t where the host keeps it to itself */
    const struct api_settings *s;
    const struct create_rules *r;
    const json_t *bad; /* what exactly is refused; NULL = the whole member */
};

struct rule {
    const char *name;
    bool (*allows)(struct judge *j, const json_t *value); /* NULL = not there */
    const char *field;                                    /* of struct fn_task */
    const char *expected;
};

/* ---- words ----------------------------------------------------------------------------------- */

static bool lists(const struct fn_strlist *list, const char *word)
{
    for (uint64_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_number(const json_t *v, uint64_t n)
{
    return n == 0 ? !v : json_is_integer(v) && (uint64_t)json_integer_value(v) == n;
}

/* Each element of an array, or none of them if it is not there. */
static bool all(struct judge *j, const json_t *list, bool (*allows)(struct judge *, const json_t *))
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        if (!allows(j, item)) {
            j->bad = item;
            return false;
        }
    }
    return !list || json_is_array(list);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static bool overlap(const char *a, const char *b)
{
    return is_within(a, b) || is_within(b, a);
}

/* What leads to the engine or to the kernel, whoever allows it. */
static bool leads_to_host(const char *path, const char *engine_socket)
{
    static const char *const engines[] = {
        "/run/docker.sock", "/var/run/docker.sock", "/run/docker",
        "/var/run/docker",  "/run/containerd",      "/var/run/containerd",
        "/var/lib/docker",  "/var/lib/containerd",  NULL
    };
    static const char *const kernel[] = { "/proc", "/sys", "/dev", NULL };

    for (const char *const *e = engines; *e; e++) {
        if (overlap(path, *e)) {
            return true;
        }
    }
    for (const char *const *k = kernel; *k; k++) {
        if (is_within(path, *k)) {
            return true;
        }
    }
    return engine_socket && *engine_socket && overlap(path, engine_socket);
}

/* One entry of allow_mounts. */
struct allowed {
    char text[1024]; /* without what follows here */
    bool volume, tmpfs, one_below, read_only;
};

static bool parse_allowed(const char *entry, struct allowed *ret)
{
    static const char volume[] = "volume:";
    size_t n = strlen(entry);

    *ret = (struct allowed){ .tmpfs = strcmp(entry, "tmpfs") == 0,
                             .volume = strncmp(entry, volume, sizeof(volume) - 1) == 0 };
    if (ret->volume) {
        entry += sizeof(volume) - 1;
        n -= sizeof(volume) - 1;
    }
    if (n >= sizeof(ret->text)) {
        return false;
    }
    memcpy(ret->text, entry, n + 1);
    if (n > 3 && strcmp(ret->text + n - 3, ":ro") == 0) {
        ret->read_only = true;
        ret->text[n -= 3] = '\0';
    }
    if (n > 2 && !ret->volume && strcmp(ret->text + n - 2, "/*") == 0) {
        ret->one_below = true;
        ret->text[n - 2] = '\0';
    }
    return ret->tmpfs || (ret->volume ? n > 0 && !strpbrk(ret->text, "/:")
                                      : is_plain_path(ret->text) && !strchr(ret->text, '*'));
}

static bool admits(const struct allowed *a, const char *type, const char *source, bool read_only)
{
    size_t n = strlen(a->text);

    if (a->tmpfs) {
        return strcmp(type, "tmpfs") == 0;
    }
    if (strcmp(type, a->volume ? "volume" : "bind") != 0 || (a->read_only && !read_only)) {
        return false;
    }
    if (a->one_below) {
        return is_within(source, a->text) && source[n] == '/' && !strchr(source + n + 1, '/');
    }
    return strcmp(source, a->text) == 0;
}

/* ---- mounts and devices ---------------------------------------------------------------------- */

static bool source_ok(struct judge *j, const char *type, const char *source, bool read_only)
{
    char own_dirs[1024];
    char *slash;
    struct allowed a;

    if (strcmp(type, "bind") == 0) {
        snprintf(own_dirs, sizeof(own_dirs), "%s", j->own->iofs_engine_dir);
        slash = strrchr(own_dirs, '/');
        if (slash && slash > own_dirs) {
            *slash = '\0'; /* where the sockets of all functions are */
        }
        if (!is_plain_path(source) || leads_to_host(source, j->s->engine_socket) ||
            overlap(source, own_dirs)) {
            return false;
        }
    }
    for (uint64_t i = 0; i < j->r->mounts.n; i++) {
        if (parse_allowed(j->r->mounts.items[i], &a) && admits(&a, type, source, read_only)) {
            return true;
        }
    }
    return false;
}

static bool allows_other_mount(struct judge *j, const json_t *m)
{
    static const char *const names[] = { "Type",     "Source",       "Target",
                                         "ReadOnly", "TmpfsOptions", NULL };
    static const char *const sizes[] = { "SizeBytes", NULL };
    static const char *const taken[] = { "/proc", "/sys", "/dev", NULL };
    const char *target = text_of(json_object_get(m, "Target"));
    const json_t *source = json_object_get(m, "Source"),
                 *options = json_object_get(m, "TmpfsOptions");
    const json_t *read_only = json_object_get(m, "ReadOnly");

    if (!has_only(m, names) || !is_plain_path(target) || overlap(target, j->own->iofs_inside) ||
        (source && !json_is_string(source)) || (read_only && !json_is_boolean(read_only)) ||
        (options && (!has_only(options, sizes) ||
                     json_integer_value(json_object_get(options, "SizeBytes")) <= 0))) {
        return false;
    }
    for (const char *const *k = taken; *k; k++) {
        if (is_within(target, *k)) {
            return false;
        }
    }
    return source_ok(j, text_of(json_object_get(m, "Type")), text_of(source),
                     json_is_true(read_only));
}

static bool is_socket_mount(struct judge *j, const json_t *m)
{
    json_t *own = create_socket_mount(j->own);
    bool is = own && json_equal(m, own);

    json_decref(own);
    return is;
}

static bool allows_mount(struct judge *j, const json_t *m)
{
    return is_socket_mount(j, m) || allows_other_mount(j, m);
}

/* The socket's is the last: an engine does not take it twice. */
static bool rule_mounts(struct judge *j, const json_t *v)
{
    return all(j, v, allows_mount) &&
           is_socket_mount(j, json_array_get(v, json_array_size(v) - 1));
}

static bool allows_device(struct judge *j, const json_t *d)
{
    static const char *const names[] = { "PathOnHost", "PathInContainer", "CgroupPermissions",
                                         NULL };
    const char *access = text_of(json_object_get(d, "CgroupPermissions"));

    return has_only(d, names) && *access && access[strspn(access, "rwm")] == '\0' &&
           is_plain_path(text_of(json_object_get(d, "PathInContainer"))) &&
           lists(&j->r->devices, text_of(json_object_get(d, "PathOnHost")));
}

static bool rule_devices(struct judge *j, const json_t *v)
{
    return all(j, v, allows_device);
}

/* ---- rights ---------------------------------------------------------------------------------- */

static bool may(const struct judge *j, uint32_t flag, const char *right)
{
    return j->own->flags & flag || lists(&j->r->rights, right);
}

static bool may_be_privileged(const struct judge *j)
{
    return may(j, FN_TASK_PRIVILEGED_USER, "privileged-user");
}

static bool rule_user(struct judge *j, const json_t *v)
{
    return (!v && may_be_privileged(j)) || is_text(v, CREATE_USER);
}

static bool rule_security(struct judge *j, const json_t *v)
{
    return (!v && may_be_privileged(j)) || is_only_text(v, CREATE_SECURITY);
}

static bool rule_root(struct judge *j, const json_t *v)
{
    return json_is_true(v) || (json_is_false(v) && may(j, FN_TASK_WRITABLE_ROOT, "writable-root"));
}

static const char *bare_capability(const char *name)
{
    return strncasecmp(name, "CAP_", 4) == 0 ? name + 4 : name;
}

static bool allows_capability(struct judge *j, const json_t *v)
{
    const char *name = bare_capability(text_of(v));

    for (uint64_t i = 0; i < j->r->capabilities.n; i++) {
        if (strcasecmp(bare_capability(j->r->capabilities.items[i]), name) == 0) {
            return strcasecmp(name, "ALL") != 0;
        }
    }
    return false;
}

static bool rule_cap_add(struct judge *j, const json_t *v)
{
    return all(j, v, allows_capability);
}

static bool allows_text(struct judge *j, const json_t *v)
{
    (void)j;
    return json_is_string(v);
}

static bool rule_cap_drop(struct judge *j, const json_t *v)
{
    return all(j, v, allows_text) &&
           (may_be_privileged(j) || is_text(json_array_get(v, 0), CREATE_CAP_DROP));
}

static bool rule_runtime(struct judge *j, const json_t *v)
{
    return !v || (json_is_string(v) && lists(&j->r->runtimes, text_of(v)));
}

static bool rule_network(struct judge *j, const json_t *v)
{
    const char *name = text_of(v);

    if (is_text(v, "none")) {
        return true;
    }
    if (j->own->flags & FN_TASK_NO_NETWORK && !lists(&j->r->rights, "network")) {
        return false;
    }
    if (!v) {
        return !j->s->network;
    }
    return json_is_string(v) && strcmp(name, "host") != 0 && !strchr(name, ':') &&
           ((j->s->network && strcmp(j->s->network, name) == 0) || lists(&j->r->networks, name));
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool rule_memory(struct judge *j, const json_t *v)
{
    return is_number(v, j->t->mem_bytes);
}

static bool rule_swappiness(struct judge *j, const json_t *v)
{
    (void)j;
    return !v || (json_is_integer(v) && json_integer_value(v) == 0);
}

static bool rule_cpu_period(struct judge *j, const json_t *v)
{
    return is_number(v, j->t->cpu_milli > 0 ? CREATE_CPU_PERIOD_US : 0);
}

static bool rule_cpu_quota(struct judge *j, const json_t *v)
{
    return is_number(v, j->t->cpu_milli * (CREATE_CPU_PERIOD_US / 1000));
}

static bool rule_cpu_shares(struct judge *j, const json_t *v)
{
    (void)j;
    return !v || (json_is_integer(v) && json_integer_value(v) >= API_SHARES_MIN &&
                  json_integer_value(v) <= API_SHARES_MAX);
}

static bool rule_pids(struct judge *j, const json_t *v)
{
    return is_number(v, j->t->pids_max);
}

static bool rule_storage(struct judge *j, const json_t *v)
{
    char size[32];

    create_storage_size(j->t, size, sizeof(size));
    return *size ? json_object_size(v) == 1 && is_text(json_object_get(v, "size"), size) : !v;
}

static bool rule_tmpfs(struct judge *j, const json_t *v)
{
    char options[CREATE_TMPFS_MAX];

    create_tmpfs_options(j->t, options, sizeof(options));
    return (!v && j->t->tmpfs_bytes == 0 && j->t->flags & FN_TASK_WRITABLE_ROOT) ||
           (json_object_size(v) == 1 && is_text(json_object_get(v, "/tmp"), options));
}

static bool allows_ulimit(struct judge *j, const json_t *v)
{
    static const char *const names[] = { "Name", "Soft", "Hard", NULL };
    const json_t *soft = json_object_get(v, "Soft"), *hard = json_object_get(v, "Hard");
    const char *name = text_of(json_object_get(v, "Name"));
    uint64_t own = create_ulimit(j->t, name);

    if (!has_only(v, names) || !*name || !json_is_integer(soft) || !json_is_integer(hard)) {
        return false;
    }
    return lists(&j->r->ulimits, name) ||
           (json_integer_value(soft) >= 0 && json_integer_value(soft) <= json_integer_value(hard) &&
            own > 0 && (uint64_t)json_integer_value(hard) <= own);
}

static size_t times_set(const json_t *list, const char *name)
{
    size_t i, n = 0;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        n += is_text(json_object_get(item, "Name"), name);
    }
    return n;
}

static bool rule_ulimits(struct judge *j, const json_t *v)
{
    size_t i;
    json_t *item;

    for (const char *const *n = create_ulimit_names; *n; n++) {
        if (create_ulimit(j->t, *n) > 0 && times_set(v, *n) == 0) {
            return false;
        }
    }
    json_array_foreach(v, i, item)
    {
        if (times_set(v, text_of(json_object_get(item, "Name"))) != 1) {
            j->bad = item;
            return false;
        }
    }
    return all(j, v, allows_ulimit);
}

/* ---- what the node says, and says alone ------------------------------------------------------ */

static bool rule_image(struct judge *j, const json_t *v)
{
    return is_text(v, j->t->image);
}

static bool rule_text(struct judge *j, const json_t *v)
{
    return !v || allows_text(j, v);
}

static bool rule_health(struct judge *j, const json_t *v)
{
    json_t *own = j->s->no_health ? create_no_health() : NULL;
    bool same = own ? json_equal(own, v) : !v;

    json_decref(own);
    return same;
}

static bool rule_bool(struct judge *j, const json_t *v)
{
    (void)j;
    return json_is_boolean(v);
}

static bool rule_env(struct judge *j, const json_t *v)
{
    return v && all(j, v, allows_text);
}

static bool own_label_ok(const struct judge *j, const char *key, const json_t *value)
{
    const struct {
        const char *key, *value;
    } own[] = { { API_OWNER_LABEL, j->own->owner },
                { API_INSTANCE_LABEL, j->own->instance },
                { API_LOCK_LABEL, j->s->lock },
                { API_FN_LABEL, j->own->fn_id },
                { API_APP_LABEL, j->own->app_id } };

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (strcmp(own[i].key, key) == 0) {
            return own[i].value && is_text(value, own[i].value);
        }
    }
    return false;
}

static bool rule_labels(struct judge *j, const json_t *v)
{
    const char *key;
    json_t *value;

    if (!own_label_ok(j, API_OWNER_LABEL, json_object_get(v, API_OWNER_LABEL)) ||
        !own_label_ok(j, API_INSTANCE_LABEL, json_object_get(v, API_INSTANCE_LABEL))) {
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        if (!json_is_string(value) || (strncmp(key, API_OWN_LABELS, strlen(API_OWN_LABELS)) == 0 &&
                                       !own_label_ok(j, key, value))) {
            j->bad = value;
            return false;
        }
    }
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* What the app asks for, and the host has looked at. */
static bool is_apps_log(const struct judge *j, const json_t *v)
{
    json_t *own = create_log_config(j->t);
    bool same = json_equal(own, v) && same_text(j->t->syslog_url, j->own->syslog_url);

    json_decref(own);
    return same;
}

static bool rule_log(struct judge *j, const json_t *v)
{
    static const char *const names[] = { "Type", "Config", NULL };
    const char *type = text_of(json_object_get(v, "Type"));
    const json_t *config = json_object_get(v, "Config");
    const char *key;
    json_t *value;

    if (is_apps_log(j, v)) {
        return true;
    }
    if (!has_only(v, names) || (config && !json_is_object(config)) ||
        (strcmp(type, "none") != 0 && !lists(&j->r->log_drivers, type))) {
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        /* A socket of the engine's machine may be the engine's. */
        if (!json_is_string(value) || strncasecmp(text_of(value), "unix", 4) == 0) {
            j->bad = value;
            return false;
        }
    }
    return true;
}

/* ---- the tables ------------------------------------------------------------------------------ */

#define THE_NODES "what the node sets"

static const struct rule host_rules[] = {
    { "Mounts", rule_mounts, "mounts",
      "what allow_mounts names, outside of the node's directories, and the socket's" },
    { "Devices", rule_devices, "devices", "devices of allow_devices" },
    { "CapAdd", rule_cap_add, "cap_add", "capabilities of allow_capabilities" },
    { "CapDrop", rule_cap_drop, "cap_drop", "ALL first (allow_rights: privileged-user)" },
    { "SecurityOpt", rule_security, "flags",
      "no-new-privileges alone (allow_rights: privileged-user)" },
    { "ReadonlyRootfs", rule_root, "flags", "true (allow_rights: writable-root)" },
    { "NetworkMode", rule_network, "network",
      "the node's, one of allow_networks, or none (allow_rights: network)" },
    { "Runtime", rule_runtime, "runtime", "runtimes of allow_runtimes" },
    { "LogConfig", rule_log, "log_driver", "drivers of allow_log_drivers, without unix sockets" },
    { "Ulimits", rule_ulimits, "ulimits", "at most the node's, or names of allow_ulimits" },
    { "Init", rule_bool, "extra_json", "true or false" },
    { "Tmpfs", rule_tmpfs, "tmpfs_bytes", THE_NODES },
    { "Memory", rule_memory, "mem_bytes", THE_NODES },
    { "MemorySwap", rule_memory, "mem_bytes", THE_NODES },
    { "MemorySwappiness", rule_swappiness, "mem_bytes", THE_NODES },
    { "CpuPeriod", rule_cpu_period, "cpu_milli", THE_NODES },
    { "CpuQuota", rule_cpu_quota, "cpu_milli", THE_NODES },
    { "CpuShares", rule_cpu_shares, "cpu_shares", "2 to 262144" },
    { "PidsLimit", rule_pids, "pids_max", THE_NODES },
    { "StorageOpt", rule_storage, "fs_bytes", THE_NODES },
};

static bool rule_host(struct judge *j, const json_t *v)
{
    (void)j;
    return json_is_object(v);
}

static const struct rule body_rules[] = {
    { "Image", rule_image, "image", THE_NODES },
    { "Hostname", rule_text, "hostname", "a text" },
    { "User", rule_user, "flags", CREATE_USER " (allow_rights: privileged-user)" },
    { "AttachStdout", rule_bool, "extra_json", "true or false" },
    { "AttachStderr", rule_bool, "extra_json", "true or false" },
    { "Env", rule_env, "env", "texts" },
    { "Healthcheck", rule_health, "extra_json", THE_NODES },
    { "Labels", rule_labels, "labels", "texts, and the node's own under " API_OWN_LABELS },
    { "HostConfig", rule_host, "extra_json", "an object" },
};

/* For members that have no rule; all but extra_json are fields that allow_extra opens. */
static const char *field_of(const char *member)
{
    static const struct {
        const char *member, *field;
    } rows[] = { { "Dns", "dns" },
                 { "DnsSearch", "dns_search" },
                 { "DnsOptions", "dns_options" },
                 { "ExtraHosts", "extra_hosts" } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].member, member) == 0) {
            return rows[i].field;
        }
    }
    return "extra_json";
}

/* No option opens them: they undo what separates containers from the host and from each other, or
 * what the node does itself. */
static const char *const never[] = {
    HOST "Binds",
    HOST "Privileged",
    HOST "PidMode",
    HOST "IpcMode",
    HOST "UTSMode",
    HOST "UsernsMode",
    HOST "CgroupnsMode",
    HOST "VolumesFrom",
    HOST "VolumeDriver",
    HOST "CgroupParent",
    HOST "Cgroup",
    HOST "MaskedPaths",
    HOST "ReadonlyPaths",
    HOST "DeviceCgroupRules",
    HOST "RestartPolicy",
    HOST "AutoRemove",
    HOST "ContainerIDFile",
    HOST "Links",
    HOST "Isolation",
    "NetworkingConfig",
    NULL,
};

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* ---- the judgement --------------------------------------------------------------------------- */

static int refuse(const char *field, const char *where, const char *member, const json_t *got,
                  const char *expected, struct fn_error *reterr)
{
    char *text = got ? json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    fail_platform(reterr, FN_E_PERMISSION, "DOC1003 fn_task.%s, got %s%s %.60s; expected %s", field,
                  where, member, text ? text : "that is missing", expected);
    free(text);
    return FN_E_PERMISSION;
}

static int judge_unknown(struct judge *j, const char *where, const char *member,
                         const json_t *value, struct fn_error *reterr)
{
    char path[160], expected[220];

    snprintf(path, sizeof(path), "%s%s", where, member);
    if (lists(&j->r->extra, path)) {
        return 0;
    }
    for (const char *const *n = never; *n; n++) {
        if (strcasecmp(*n, path) == 0) {
            return refuse("extra_json", where, member, value, "a member that an option may open",
                          reterr);
        }
    }
    snprintf(expected, sizeof(expected), "allow_extra to name %s", path);
    return refuse(field_of(member), where, member, value, expected, reterr);
}

static int judge_object(struct judge *j, const char *where, const json_t *object,
                        const struct rule *rules, size_t n, struct fn_error *reterr)
{
    const char *key;
    json_t *value;
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        value = json_object_get(object, rules[i].name);
        j->bad = value;
        if (!rules[i].allows(j, value)) {
            r = refuse(rules[i].field, where, rules[i].name, j->bad, rules[i].expected, reterr);
        }
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;

        while (i < n && strcmp(rules[i].name, key) != 0) {
            i++;
        }
        if (r == 0 && i == n) {
            r = judge_unknown(j, where, key, value, reterr);
        }
    }
    return r;
}

int rules_judge(const char *text, const struct fn_task *task, const struct api_settings *settings,
                struct fn_error *reterr)
{
    static const struct create_rules none;
    struct judge j = { .t = task,
                       .own = settings->own ? settings->own : task,
                       .s = settings,
                       .r = settings->rules ? settings->rules : &none };
    json_t *body = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    int r;

    if (!body) {
        return fail_platform(reterr, FN_E_INTERNAL, "create: the request is no JSON");
    }
    r = judge_object(&j, "", body, body_rules, ROWS(body_rules), reterr);
    if (r == 0) {
        r = judge_object(&j, HOST, json_object_get(body, "HostConfig"), host_rules,
                         ROWS(host_rules), reterr);
    }
    json_decref(body);
    return r;
}

/* ---- the options ----------------------------------------------------------------------------- */

static bool mount_entry_ok(const char *entry, const char *engine_socket)
{
    struct allowed a;

    return parse_allowed(entry, &a) &&
           (a.tmpfs || a.volume || !leads_to_host(a.text, engine_socket));
}

static bool is_name_of(const struct rule *rules, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(rules[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool extra_entry_ok(const char *path, const char *engine_socket)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    bool of_host = strncmp(path, HOST, strlen(HOST)) == 0;
    const char *name = of_host ? path + strlen(HOST) : path;

    (void)engine_socket;
    for (const char *const *n = never; *n; n++) {
        if (strcasecmp(*n, path) == 0) {
            return false;
        }
    }
    return *name && strlen(name) < 64 && name[strspn(name, letters)] == '\0' &&
           !(of_host ? is_name_of(host_rules, ROWS(host_rules), name)
                     : is_name_of(body_rules, ROWS(body_rules), name));
}

static bool device_entry_ok(const char *path, const char *engine_socket)
{
    (void)engine_socket;
    return is_plain_path(path) && is_within(path, "/dev") && strcmp(path, "/dev") != 0;
}

static bool capability_entry_ok(const char *name, const char *engine_socket)
{
    (void)engine_socket;
    name = bare_capability(name);
    return *name && strcasecmp(name, "ALL") != 0;
}

static bool network_entry_ok(const char *name, const char *engine_socket)
{
    (void)engine_socket;
    return *name && strcmp(name, "host") != 0 && !strpbrk(name, ": \t/");
}

static bool right_entry_ok(const char *name, const char *engine_socket)
{
    (void)engine_socket;
    return strcmp(name, "network") == 0 || strcmp(name, "privileged-user") == 0 ||
           strcmp(name, "writable-root") == 0;
}

int rules_check(const struct create_rules *r, const char *engine_socket, struct fn_error *reterr)
{
    const struct {
        const char *option;
        const struct fn_strlist *list;
        bool (*ok)(const char *entry, const char *engine_socket);
        const char *expected;
    } rows[] = {
        { "allow_mounts", &r->mounts, mount_entry_ok,
          "/dir, /dir/* or volume:name, each with :ro if so, or tmpfs; not what leads to the "
          "engine" },
        { "allow_devices", &r->devices, device_entry_ok, "a path below /dev" },
        { "allow_capabilities", &r->capabilities, capability_entry_ok, "names, and not ALL" },
        { "allow_networks", &r->networks, network_entry_ok, "an engine network other than host" },
        { "allow_rights", &r->rights, right_entry_ok, "network, privileged-user or writable-root" },
        { "allow_extra", &r->extra, extra_entry_ok,
          "Name or HostConfig.Name of a member that has no rule of its own" },
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        for (uint64_t k = 0; k < rows[i].list->n; k++) {
            if (!rows[i].ok(rows[i].list->items[k], engine_socket)) {
                return fail_platform(reterr, FN_E_INVALID, "%s, got \"%.60s\"; expected %s",
                                     rows[i].option, rows[i].list->items[k], rows[i].expected);
            }
        }
    }
    return 0;
}
