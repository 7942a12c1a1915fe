/* What a task carries beyond the plain one, of which a driver that cannot give it must refuse,
 * and whether its environment can be passed on. */
#include "task.h"
#include "fail.h"

#include <inttypes.h>

static bool is_set(const char *const *list)
{
    return list && *list;
}

const char *task_wants(const struct fn_task *t)
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

bool task_no_network(const struct fn_task *t)
{
    return t->flags & FN_TASK_NO_NETWORK ||
           (FN_HAS(t, network) && t->network && strcmp(t->network, "none") == 0);
}

int task_check_env(const struct fn_task *t, struct fn_error *e)
{
    size_t bytes = 0;

    if (t->n_env > TASK_ENV_MAX) {
        return fail_user(e, FN_E_INVALID, 400,
                         "config, got %" PRIu32 " entries; expected at most %d", t->n_env,
                         TASK_ENV_MAX);
    }
    for (uint32_t i = 0; i < t->n_env; i++) {
        const struct fn_kv *kv = &t->env[i];

        if (!kv->key || !*kv->key || strchr(kv->key, '=') || !kv->value) {
            return fail_user(e, FN_E_INVALID, 400,
                             "config key, got \"%.60s\"; expected a name without \"=\"",
                             kv->key ? kv->key : "");
        }
        bytes += strlen(kv->key) + strlen(kv->value) + 2;
    }
    if (bytes > TASK_ENV_BYTES_MAX) {
        return fail_user(e, FN_E_INVALID, 400, "config of %zu bytes; expected at most %d", bytes,
                         TASK_ENV_BYTES_MAX);
    }
    return 0;
}
