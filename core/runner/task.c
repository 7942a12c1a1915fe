/* Tasks: what a driver is told of a container. One part comes from the call that it is started for,
 * or from an earlier one of its function (struct mould), the other from the runner. */
#include <runner/runner_int.h>

#include <conf/conf.h>
#include <stdio.h>
#include <string.h>

#define SOCKET_INSIDE     "/tmp/iofs"
#define START_LIMIT_NAME  "fnd/start-timeout"
#define START_LIMIT_CHARS 24
#define START_LIMIT_MIN_NS (100 * ENV_MS)

/* What stands in an annotation: "30s", or 30, which is seconds. */
static int parse_start_limit(const char *json, int64_t *ret_ns)
{
    size_t len = strlen(json);
    char text[START_LIMIT_CHARS + 2];
    bool quoted = len >= 2 && json[0] == '"' && json[len - 1] == '"';

    if (len > START_LIMIT_CHARS) {
        return FN_E_INVALID;
    }
    if (quoted) {
        snprintf(text, sizeof(text), "%.*s", (int)len - 2, json + 1);
    } else {
        snprintf(text, sizeof(text), "%ss", json);
    }
    return conf_parse_duration(text, ret_ns);
}

int task_check_start_limit(struct rcall *rc, struct fn_error *err)
{
    const char *json = kvs_get(&rc->call.annotations, START_LIMIT_NAME);
    int64_t most_ns = rc->r->opt.start_timeout_max_ns;
    int64_t limit_ns;

    if (!json) {
        return 0;
    }
    if (parse_start_limit(json, &limit_ns) < 0 || limit_ns < START_LIMIT_MIN_NS ||
        limit_ns > most_ns) {
        return err_set_http(err, FN_E_INVALID, 400, FN_BLAME_USER,
                            "RUN405 annotation " START_LIMIT_NAME ", got %.32s; expected a time "
                            "such as \"30s\", from 100 ms to %lld ms (runner.start_timeout_max)",
                            json, (long long)(most_ns / ENV_MS));
    }
    rc->start_limit_ns = limit_ns;
    return 0;
}

struct mould mould_of_call(const struct rcall *rc)
{
    const struct call *call = &rc->call;
    struct mould m = {
        .task = { .fn_id = call->fn_id,
                  .app_id = call->app_id,
                  .image = call->image,
                  .env = call->config.items,
                  .n_env = call->config.n,
                  .extensions = rc->extensions.items,
                  .n_extensions = rc->extensions.n,
                  .registry_token = kvs_get(&rc->extensions, "FN_REGISTRY_TOKEN"),
                  .syslog_url = call->syslog_url,
                  .mem_bytes = call->mem_mb * ACCOUNT_MIB,
                  .cpu_milli = call->cpu_milli,
                  .tmpfs_bytes = (uint64_t)call->tmpfs_mb * ACCOUNT_MIB,
                  .flags = rc->no_network ? FN_TASK_NO_NETWORK : 0 },
        .idle_timeout_ns = (int64_t)call->idle_timeout_s * ENV_S,
        .start_limit_ns = rc->start_limit_ns,
    };

    return m;
}

static const char *dup_or_null(struct arena *a, const char *s)
{
    return s && *s ? arena_strdup(a, s) : NULL;
}

/* Without the blanks around it, which the API node lets pass. NULL when nothing is left. */
static const char *trim_or_null(struct arena *a, const char *s)
{
    static const char blanks[] = " \t\r\n\v\f";
    size_t len;

    s = s ? s + strspn(s, blanks) : "";
    for (len = strlen(s); len > 0 && strchr(blanks, s[len - 1]); len--) {
    }
    return len > 0 ? arena_strndup(a, s, len) : NULL;
}

int mould_copy(struct mould *to, const struct mould *from, struct arena *a)
{
    struct fn_task *t = &to->task;
    const struct fn_task *f = &from->task;

    *to = *from;
    t->fn_id = arena_strdup(a, f->fn_id ? f->fn_id : "");
    t->app_id = arena_strdup(a, f->app_id ? f->app_id : "");
    t->image = arena_strdup(a, f->image ? f->image : "");
    t->env = kvs_copy_pairs(a, f->env, f->n_env);
    t->extensions = kvs_copy_pairs(a, f->extensions, f->n_extensions);
    t->registry_token = dup_or_null(a, f->registry_token);
    t->syslog_url = trim_or_null(a, f->syslog_url);
    return t->fn_id && t->app_id && t->image && t->env && t->extensions ? 0 : FN_E_EXHAUSTED;
}

static void fill_limits(struct fn_task *t, const struct runner_options *o)
{
    t->owner = o->owner;
    t->instance = o->instance;
    t->hostname = o->hostname;
    t->iofs_inside = SOCKET_INSIDE;
    t->fs_bytes = o->fs_bytes;
    t->pids_max = o->pids_max;
    t->nofile_max = o->nofile_max;
    t->memlock_max = o->memlock_max;
    t->sigpending_max = o->sigpending_max;
    t->msgqueue_max = o->msgqueue_max;
    t->tmpfs_inodes = o->tmpfs_inodes;
    t->flags |= (o->writable_root ? FN_TASK_WRITABLE_ROOT : 0) |
                (o->privileged ? FN_TASK_PRIVILEGED_USER : 0) |
                (o->volumes ? FN_TASK_ALLOW_VOLUMES : 0) |
                (o->no_network ? FN_TASK_NO_NETWORK : 0);
}

int task_fill(struct container *c, const struct mould *mould)
{
    struct mould own;
    int result = mould_copy(&own, mould, &c->arena);

    c->task = own.task;
    c->task.hdr = (struct fn_hdr)FN_HDR(struct fn_task, FN_MAGIC_TASK);
    c->task.id = c->id;
    c->task.handle = c->handle;
    fill_limits(&c->task, &c->r->opt);
    c->idle_timeout_ns = own.idle_timeout_ns;
    c->start_limit_ns = own.start_limit_ns ? own.start_limit_ns : c->r->opt.start_timeout_ns;
    return result;
}
