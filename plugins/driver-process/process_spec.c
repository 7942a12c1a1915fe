#include "process_spec.h"
#include "fail.h"
#include "image.h"
#include "task.h"

#include <ctype.h>
#include <stdlib.h>

#define INSTANCE_SHOWN 12

int spec_program(const char *root, const char *image, char *ret, size_t cap,
                 struct fn_error *reterr)
{
    struct image_name name;
    const char *last;
    int r = image_parse(image, &name, reterr);

    if (r < 0) {
        return r;
    }
    last = strrchr(name.path, '/');
    last = last ? last + 1 : name.path;
    if (snprintf(ret, cap, "%s/%s", root, last) >= (int)cap) {
        return fail_user(reterr, FN_E_INVALID, 400,
                         "RUN406 image name is too long for a file name");
    }
    return 0;
}

static void append_lower(char *ret, size_t cap, const char *text, size_t max)
{
    size_t n = strlen(ret);

    for (size_t i = 0; text[i] && i < max && n + 1 < cap; i++) {
        char c = (char)tolower((unsigned char)text[i]);

        ret[n++] = isalnum((unsigned char)c) ? c : '-';
    }
    ret[n] = '\0';
}

int spec_cgroup(const char *owner, const char *instance, const char *id, char *ret, size_t cap)
{
    if (strlen(owner) + INSTANCE_SHOWN + strlen(id) + 4 > cap) {
        return FN_E_RANGE;
    }
    ret[0] = '\0';
    append_lower(ret, cap, owner, cap);
    append_lower(ret, cap, "--", 2); /* two: no owner is the start of another's names */
    append_lower(ret, cap, instance, INSTANCE_SHOWN);
    append_lower(ret, cap, "-", 1);
    append_lower(ret, cap, id, cap);
    return 0;
}

bool spec_lacks(uint32_t isolation, bool own_user, char ret[SPEC_LACKS_MAX])
{
    const char *ns = isolation & FN_PROC_HAS_NAMESPACES
                         ? ""
                         : ", namespaces (no_network has no effect)";
    const char *cgroup = isolation & FN_PROC_HAS_CGROUP
                             ? ""
                             : ", a cgroup (CPU and processes have no limit)";
    const char *user = own_user ? "" : ", a user of their own";
    char what[SPEC_LACKS_MAX / 2];

    snprintf(what, sizeof(what), "%s%s%s", ns, cgroup, user);
    if (!*what) {
        return false;
    }
    snprintf(ret, SPEC_LACKS_MAX,
             "functions lack on this machine:%s; see docs/security.md, The process driver",
             what + 1); /* without the first comma */
    return true;
}

/* ---- environment ----------------------------------------------------------------------------- */

static bool is_ours(const char *key)
{
    return strcmp(key, "FN_LISTENER") == 0 || strcmp(key, "FN_FORMAT") == 0;
}

static bool has_key(const struct fn_task *t, const char *key)
{
    for (uint32_t i = 0; i < t->n_env; i++) {
        if (strcmp(t->env[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what wrappers set ----------------------------------------------------------------------- */

bool spec_no_network(const struct fn_task *t)
{
    return t->flags & FN_TASK_NO_NETWORK ||
           (TASK_HAS(t, network) && t->network && strcmp(t->network, "none") == 0);
}

static bool is_set(const char *const *list)
{
    return list && *list;
}

/* cap_drop is not among them: a process has no capabilities to drop. */
static const char *impossible(const struct fn_task *t)
{
    const struct {
        bool set;
        const char *field;
    } rows[] = {
        { t->n_mounts > 0, "mounts" },
        { t->n_devices > 0, "devices" },
        { t->n_ulimits > 0, "ulimits" },
        { is_set(t->cap_add), "cap_add" },
        { is_set(t->dns), "dns" },
        { is_set(t->dns_search), "dns_search" },
        { is_set(t->dns_options), "dns_options" },
        { is_set(t->extra_hosts), "extra_hosts" },
        { t->runtime, "runtime" },
        { t->network && strcmp(t->network, "none") != 0, "network" },
        { t->log_driver || t->n_log_options > 0, "log_driver" },
        { t->extra_json, "extra_json" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].set) {
            return rows[i].field;
        }
    }
    return NULL;
}

int spec_check(const struct fn_task *t, struct fn_error *reterr)
{
    const char *field = TASK_HAS(t, extra_json) ? impossible(t) : NULL;

    return !field ? 0
                  : fail_platform(reterr, FN_E_UNIMPLEMENTED,
                                  "fn_task.%s is set, and processes cannot have it; expected a "
                                  "driver of containers", field);
}

/* ---- the environment ------------------------------------------------------------------------- */

static int add(char **env, uint32_t *n, const char *key, const char *value)
{
    if (asprintf(&env[*n], "%s=%s", key, value) < 0) {
        env[*n] = NULL;
        return FN_E_EXHAUSTED;
    }
    (*n)++;
    return 0;
}

static int check(const struct fn_task *t, struct fn_error *e)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < t->n_env && i < SPEC_ENV_MAX; i++) {
        if (!t->env[i].key || !*t->env[i].key || strchr(t->env[i].key, '=') || !t->env[i].value) {
            return fail_user(e, FN_E_INVALID, 400,
                             "config key, got \"%.60s\"; expected a name without \"=\"",
                             t->env[i].key ? t->env[i].key : "");
        }
        bytes += strlen(t->env[i].key) + strlen(t->env[i].value) + 2;
    }
    if (t->n_env > SPEC_ENV_MAX || bytes > SPEC_ENV_BYTES_MAX) {
        return fail_user(e, FN_E_INVALID, 400,
                         "config, got %u entries of %zu bytes; expected at most %d and %d",
                         t->n_env, bytes, SPEC_ENV_MAX, SPEC_ENV_BYTES_MAX);
    }
    return 0;
}

int spec_env(const struct fn_task *t, const char *path, bool private_mount, char ***ret,
             struct fn_error *reterr)
{
    char listener[256];
    char **env;
    uint32_t n = 0;
    int r = check(t, reterr);

    if (r < 0) {
        return r;
    }
    if (snprintf(listener, sizeof(listener), "unix:%s/lsnr.sock",
                 private_mount ? t->iofs_inside : t->iofs_dir) >= (int)sizeof(listener)) {
        return fail_platform(reterr, FN_E_INVALID, "iofs directory: path is too long");
    }
    env = calloc(t->n_env + 6u, sizeof(*env));
    if (!env) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "driver process: out of memory");
    }
    for (uint32_t i = 0; r == 0 && i < t->n_env; i++) {
        if (!is_ours(t->env[i].key)) {
            r = add(env, &n, t->env[i].key, t->env[i].value);
        }
    }
    if (r == 0 && !has_key(t, "PATH")) {
        r = add(env, &n, "PATH", path);
    }
    if (r == 0 && !has_key(t, "HOME")) {
        r = add(env, &n, "HOME", "/");
    }
    if (r == 0 && t->hostname && !has_key(t, "HOSTNAME")) {
        r = add(env, &n, "HOSTNAME", t->hostname);
    }
    if (r == 0) {
        r = add(env, &n, "FN_LISTENER", listener);
    }
    if (r == 0) {
        r = add(env, &n, "FN_FORMAT", "http-stream");
    }
    if (r < 0) {
        spec_env_free(env);
        return fail_platform(reterr, FN_E_EXHAUSTED, "driver process: out of memory");
    }
    *ret = env;
    return 0;
}

void spec_env_free(char **env)
{
    for (char **e = env; e && *e; e++) {
        free(*e);
    }
    free(env);
}
