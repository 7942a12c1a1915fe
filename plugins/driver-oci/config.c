/* From top to bottom as the runtime reads it: process, mounts, limits, namespaces; what this
 * driver cannot give is refused before anything is made. */
#include "config.h"
#include "fail.h"
#include "task.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

#define CPU_PERIOD_US  100000
#define OCI_VERSION    "1.0.2"
#define DEFAULT_PATH   "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define ANNOTATIONS    "io.fnd."

/* What engines give a container that may act as its image's user. */
static const char *const capabilities[] = {
    "CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
    "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP",
    "CAP_SETUID", "CAP_SYS_CHROOT", NULL
};

static const char *const masked[] = {
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
    "/sys/devices/virtual/powercap", NULL
};

static const char *const read_only[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                         "/proc/sysrq-trigger", NULL };

static json_t *texts(const char *const *list)
{
    json_t *ret = json_array();

    for (; list && *list; list++) {
        json_array_append_new(ret, json_string(*list));
    }
    return ret;
}

/* ---- what is refused ------------------------------------------------------------------------- */

static int check_extras(const struct fn_task *t, struct fn_error *e)
{
    const char *field = FN_HAS(t, extra_json) ? task_wants(t) : NULL;

    return !field ? 0
                  : fail_platform(e, FN_E_UNIMPLEMENTED,
                                  "fn_task.%s is set, and driver oci cannot give it; expected "
                                  "driver docker", field);
}

static int check_paths(const struct fn_task *t, struct fn_error *e)
{
    return t->iofs_dir && t->iofs_dir[0] == '/' && t->iofs_inside && t->iofs_inside[0] == '/' &&
                   !strstr(t->iofs_inside, "/..")
               ? 0
               : fail_platform(e, FN_E_INVALID, "iofs directories, expected absolute paths");
}

static int check_limits(const struct fn_task *t, struct fn_error *e)
{
    return t->mem_bytes <= INT64_MAX && t->cpu_milli <= INT64_MAX / 1000 &&
                   t->pids_max <= INT64_MAX && t->tmpfs_bytes <= INT64_MAX
               ? 0
               : fail_user(e, FN_E_INVALID, 400, "a limit of the function is beyond 2^63");
}

/* ---- process --------------------------------------------------------------------------------- */

static bool names(const char *entry, const char *key)
{
    size_t n = strlen(key);

    return strncmp(entry, key, n) == 0 && entry[n] == '=';
}

static bool task_sets(const struct fn_task *t, const char *entry)
{
    for (uint32_t i = 0; i < t->n_env; i++) {
        if (names(entry, t->env[i].key)) {
            return true;
        }
    }
    return false;
}

/* The image's, then the function's, whose keys win. */
static json_t *make_env(const struct fn_task *t, json_t *image)
{
    json_t *ret = json_array();
    json_t *entry;
    bool path = false;
    size_t i;

    json_array_foreach(json_object_get(image, "Env"), i, entry) {
        const char *text = json_string_value(entry);

        if (text && strchr(text, '=') && !task_sets(t, text)) {
            json_array_append(ret, entry);
            path |= names(text, "PATH");
        }
    }
    if (!path && !task_sets(t, DEFAULT_PATH)) {
        json_array_append_new(ret, json_string(DEFAULT_PATH));
    }
    for (i = 0; i < t->n_env; i++) {
        if (json_array_append_new(ret, json_sprintf("%s=%s", t->env[i].key, t->env[i].value)) < 0) {
            json_decref(ret); /* not UTF-8 */
            return NULL;
        }
    }
    return ret;
}

/* Entry point, then command; NULL: the image has neither. */
static json_t *make_args(json_t *image)
{
    json_t *ret = json_array();
    json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(image, "Entrypoint"), i, entry) {
        json_array_append(ret, entry);
    }
    json_array_foreach(json_object_get(image, "Cmd"), i, entry) {
        json_array_append(ret, entry);
    }
    json_array_foreach(ret, i, entry) {
        if (!json_is_string(entry)) {
            json_decref(ret);
            return NULL;
        }
    }
    if (json_array_size(ret) == 0) {
        json_decref(ret);
        return NULL;
    }
    return ret;
}

/* "", "root", "10", "10:20". */
static bool parse_user(const char *user, uint32_t *ret_uid, uint32_t *ret_gid)
{
    unsigned long uid, gid = 0;
    char *end;

    *ret_uid = *ret_gid = 0;
    if (!user || !*user || strcmp(user, "root") == 0) {
        return true;
    }
    if (!isdigit((unsigned char)*user)) {
        return false;
    }
    uid = strtoul(user, &end, 10);
    if (*end == ':' && isdigit((unsigned char)end[1])) {
        gid = strtoul(end + 1, &end, 10);
    }
    *ret_uid = (uint32_t)uid;
    *ret_gid = (uint32_t)gid;
    return !*end && uid < UINT32_MAX && gid < UINT32_MAX;
}

static json_t *make_rlimits(const struct fn_task *t, const struct config_settings *s)
{
    const struct {
        const char *type;
        uint64_t value;
    } rows[] = { { "RLIMIT_NOFILE", t->nofile_max }, { "RLIMIT_MEMLOCK", t->memlock_max },
                 { "RLIMIT_SIGPENDING", t->sigpending_max },
                 { "RLIMIT_MSGQUEUE", t->msgqueue_max } };
    json_t *ret = json_array();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value = rows[i].value < s->limits[i] ? rows[i].value : s->limits[i];

        if (value > 0 && value <= INT64_MAX) {
            json_array_append_new(ret, json_pack("{s:s, s:I, s:I}", "type", rows[i].type, "soft",
                                                 (json_int_t)value, "hard", (json_int_t)value));
        }
    }
    return ret;
}

static json_t *make_capabilities(bool some)
{
    static const char *const sets[] = { "bounding", "effective", "permitted", NULL };
    json_t *ret = json_object();

    for (const char *const *set = sets; *set; set++) {
        json_object_set_new(ret, *set, texts(some ? capabilities : NULL));
    }
    return ret;
}

static int make_process(const struct fn_task *t, json_t *image, const struct config_settings *s,
                        json_t **ret, uint32_t *ret_uid, struct fn_error *e)
{
    const char *cwd = json_string_value(json_object_get(image, "WorkingDir"));
    const char *user = json_string_value(json_object_get(image, "User"));
    bool as_image = (t->flags & FN_TASK_PRIVILEGED_USER) != 0;
    uint32_t uid = CONFIG_UID, gid = CONFIG_UID;
    json_t *args, *env;

    if (as_image && !parse_user(user, &uid, &gid)) {
        return fail_user(e, FN_E_INVALID, 400, "image user, got \"%.60s\"; driver oci expects "
                         "numbers", user);
    }
    args = make_args(image);
    if (!args) {
        return fail_user(e, FN_E_INVALID, 400,
                         "image '%.80s' has neither an entry point nor a command", t->image);
    }
    env = make_env(t, image);
    if (!env) {
        json_decref(args);
        return fail_user(e, FN_E_INVALID, 400, "config: a value is not UTF-8");
    }
    *ret = json_pack("{s:b, s:{s:I, s:I}, s:o, s:o, s:s, s:o, s:o, s:b}", "terminal", 0, "user",
                     "uid", (json_int_t)uid, "gid", (json_int_t)gid, "args", args, "env", env,
                     "cwd", cwd && *cwd == '/' ? cwd : "/", "capabilities",
                     make_capabilities(as_image), "rlimits", make_rlimits(t, s), "noNewPrivileges",
                     !as_image);
    *ret_uid = uid;
    return *ret ? 0 : fail_platform(e, FN_E_EXHAUSTED, "config.json: out of memory");
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static void add_mount(json_t *list, const char *type, const char *source, const char *to,
                      const char *const *options)
{
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "destination", to, "type", type,
                                          "source", source, "options", texts(options)));
}

static void add_tmp(json_t *list, const struct fn_task *t)
{
    char size[40] = "", inodes[40] = "";
    const char *options[8] = { "nosuid", "noexec", "nodev", "mode=1777" };
    int n = 4;

    if (t->tmpfs_bytes > 0) {
        snprintf(size, sizeof(size), "size=%" PRIu64 "k", (t->tmpfs_bytes + 1023) / 1024);
        options[n++] = size;
    }
    if (t->tmpfs_bytes > 0 && t->tmpfs_inodes > 0) {
        snprintf(inodes, sizeof(inodes), "nr_inodes=%" PRIu64, t->tmpfs_inodes);
        options[n++] = inodes;
    }
    add_mount(list, "tmpfs", "tmpfs", "/tmp", options);
}

static json_t *make_mounts(const struct fn_task *t, const struct config_settings *s, bool host)
{
    static const char *const plain[] = { "nosuid", "noexec", "nodev", NULL };
    static const char *const dev[] = { "nosuid", "strictatime", "mode=755", "size=65536k", NULL };
    static const char *const pts[] = { "nosuid", "noexec", "newinstance", "ptmxmode=0666",
                                       "mode=0620", NULL };
    static const char *const shm[] = { "nosuid", "noexec", "nodev", "mode=1777", "size=65536k",
                                       NULL };
    static const char *const sys[] = { "nosuid", "noexec", "nodev", "ro", NULL };
    static const char *const file[] = { "bind", "ro", "nosuid", "nodev", "noexec", NULL };
    static const char *const iofs[] = { "bind", "rw", "nosuid", "nodev", "noexec", NULL };
    char hosts[OCI_PATH_MAX + 16];
    json_t *list = json_array();

    add_mount(list, "proc", "proc", "/proc", plain);
    add_mount(list, "tmpfs", "tmpfs", "/dev", dev);
    add_mount(list, "devpts", "devpts", "/dev/pts", pts);
    add_mount(list, "tmpfs", "shm", "/dev/shm", shm);
    add_mount(list, "mqueue", "mqueue", "/dev/mqueue", plain);
    add_mount(list, "sysfs", "sysfs", "/sys", sys);
    add_mount(list, "cgroup", "cgroup", "/sys/fs/cgroup", sys);
    if (!(t->flags & FN_TASK_WRITABLE_ROOT) || t->tmpfs_bytes > 0) {
        add_tmp(list, t);
    }
    snprintf(hosts, sizeof(hosts), "%s/hosts", s->dir);
    add_mount(list, "bind", host ? "/etc/hosts" : hosts, "/etc/hosts", file);
    if (host) {
        add_mount(list, "bind", "/etc/resolv.conf", "/etc/resolv.conf", file);
    }
    add_mount(list, "bind", t->iofs_dir, t->iofs_inside, iofs);
    return list;
}

/* ---- linux ----------------------------------------------------------------------------------- */

static json_t *make_memory(const struct fn_task *t, const struct config_settings *s)
{
    json_t *ret = json_pack("{s:I}", "limit", (json_int_t)t->mem_bytes);

    if (s->swap_limits) {
        json_object_set_new(ret, "swap", json_integer((json_int_t)t->mem_bytes));
    }
    if (!s->cgroup_v2) {
        json_object_set_new(ret, "swappiness", json_integer(0));
    }
    return ret;
}

static json_t *make_resources(const struct fn_task *t, const struct config_settings *s)
{
    json_t *ret = json_pack("{s:[{s:b, s:s}]}", "devices", "allow", 0, "access", "rwm");
    json_t *cpu = json_object();

    if (t->mem_bytes > 0) {
        json_object_set_new(ret, "memory", make_memory(t, s));
    }
    if (t->cpu_milli > 0) {
        json_object_set_new(cpu, "period", json_integer(CPU_PERIOD_US));
        json_object_set_new(cpu, "quota", json_integer((json_int_t)(t->cpu_milli *
                                                                    (CPU_PERIOD_US / 1000))));
    }
    if (FN_HAS(t, cpu_shares) && t->cpu_shares > 0 && t->cpu_shares <= INT32_MAX) {
        json_object_set_new(cpu, "shares", json_integer((json_int_t)t->cpu_shares));
    }
    json_object_set_new(ret, "cpu", cpu);
    if (t->pids_max > 0) {
        json_object_set_new(ret, "pids", json_pack("{s:I}", "limit", (json_int_t)t->pids_max));
    }
    return ret;
}

static json_t *make_namespaces(bool host)
{
    static const char *const own[] = { "pid", "ipc", "uts", "mount", "network" };
    json_t *ret = json_array();

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]) - (host ? 1 : 0); i++) {
        json_array_append_new(ret, json_pack("{s:s}", "type", own[i]));
    }
    return ret;
}

static json_t *make_linux(const struct fn_task *t, const struct config_settings *s, bool host)
{
    char cgroup[CTR_NAME_MAX + 32];

    snprintf(cgroup, sizeof(cgroup), "/" CGROUP_PARENT "/%s", s->name);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "cgroupsPath", cgroup, "resources",
                     make_resources(t, s), "namespaces", make_namespaces(host), "maskedPaths",
                     texts(masked), "readonlyPaths", texts(read_only), "seccomp", config_seccomp());
}

/* What engines call labels. */
static json_t *make_annotations(const struct fn_task *t)
{
    json_t *ret = json_object();

    for (uint32_t i = 0; FN_HAS(t, n_labels) && i < t->n_labels; i++) {
        if (t->labels[i].key && t->labels[i].value) {
            json_object_set_new(ret, t->labels[i].key, json_string(t->labels[i].value));
        }
    }
    json_object_set_new(ret, ANNOTATIONS "owner", json_string(t->owner));
    json_object_set_new(ret, ANNOTATIONS "fn", json_string(t->fn_id ? t->fn_id : ""));
    json_object_set_new(ret, ANNOTATIONS "app", json_string(t->app_id ? t->app_id : ""));
    return ret;
}

int config_make(const struct fn_task *t, const struct oci_image *image,
                const struct config_settings *s, char **ret, uint32_t *ret_uid, struct fn_error *e)
{
    static int (*const checks[])(const struct fn_task *, struct fn_error *) = {
        check_extras, task_check_env, check_paths, check_limits
    };
    bool host = s->host_network && !task_no_network(t);
    char root[OCI_PATH_MAX + 16];
    json_t *process, *all;
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(checks) / sizeof(checks[0]); i++) {
        r = checks[i](t, e);
    }
    if (r == 0) {
        r = make_process(t, image->config, s, &process, ret_uid, e);
    }
    if (r < 0) {
        return r;
    }
    snprintf(root, sizeof(root), "%s/fs/root", s->dir);
    all = json_pack("{s:s, s:o, s:{s:s, s:b}, s:o, s:o, s:o, s:s*}", "ociVersion", OCI_VERSION,
                    "process", process, "root", "path", root, "readonly",
                    !(t->flags & FN_TASK_WRITABLE_ROOT), "mounts", make_mounts(t, s, host),
                    "annotations", make_annotations(t), "linux", make_linux(t, s, host), "hostname",
                    t->hostname && *t->hostname ? t->hostname : s->name);
    *ret = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return *ret ? 0 : fail_platform(e, FN_E_EXHAUSTED, "config.json: out of memory");
}
