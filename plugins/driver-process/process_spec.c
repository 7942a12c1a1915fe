/* The program below the root, its environment with the keys that the node sets, and what of a
 * task a process without a container cannot have. */
#include "process_spec.h"
#include "fail.h"
#include "image.h"
#include "task.h"

#include <stdlib.h>

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

int spec_check(const struct fn_task *t, struct fn_error *reterr)
{
    const char *field = FN_HAS(t, extra_json) ? task_wants(t) : NULL;

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

int spec_env(const struct fn_task *t, const char *path, bool private_mount, char ***ret,
             struct fn_error *reterr)
{
    char listener[256];
    char **env;
    uint32_t n = 0;
    int r = task_check_env(t, reterr);

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
