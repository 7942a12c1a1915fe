#include <override/override.h>

#include <plugin/answer.h>
#include <string.h>

struct fn_edit {
    struct call call;      /* scratch; shares what was not edited with the original */
    struct kvs extensions; /* the same */
    bool own_config;       /* config was copied and may be changed in place */
    bool own_extensions;
};

/* Ranges of the fields that may be set; what a node can really give is its own check. */
static const struct {
    uint32_t field;
    uint64_t min, max;
} fields[] = {
    { FN_FIELD_MEM_MB, 1, 1u << 20 },
    { FN_FIELD_CPU_MILLI, 0, MODEL_CPU_MILLI_MAX },
    { FN_FIELD_TMPFS_MB, 0, 1u << 20 },
    { FN_FIELD_TIMEOUT_S, 1, MODEL_TIMEOUT_S_MAX },
    { FN_FIELD_IDLE_TIMEOUT_S, 1, MODEL_IDLE_S_MAX },
};

static const char *edit_text(const struct fn_edit *e, uint32_t text_id)
{
    const struct call *c = &e->call;
    const char *text = NULL;

    switch (text_id) {
    case FN_TEXT_CALL_ID:
        text = c->id;
        break;
    case FN_TEXT_FN_ID:
        text = c->fn_id;
        break;
    case FN_TEXT_APP_ID:
        text = c->app_id;
        break;
    case FN_TEXT_APP_NAME:
        text = c->app_name;
        break;
    case FN_TEXT_IMAGE:
        text = c->image;
        break;
    case FN_TEXT_METHOD:
        text = c->method;
        break;
    case FN_TEXT_URL:
        text = c->url;
        break;
    default:
        break;
    }
    return text ? text : "";
}

static const char *edit_header(const struct fn_edit *e, const char *name)
{
    return headers_get(&e->call.headers, name);
}

static const char *edit_config(const struct fn_edit *e, const char *key)
{
    return kvs_get(&e->call.config, key);
}

static const char *edit_annotation(const struct fn_edit *e, const char *key)
{
    return kvs_get(&e->call.annotations, key);
}

static const char *edit_extension(const struct fn_edit *e, const char *key)
{
    return kvs_get(&e->extensions, key);
}

static uint64_t edit_u64(const struct fn_edit *e, uint32_t field)
{
    switch (field) {
    case FN_FIELD_MEM_MB:
        return e->call.mem_mb;
    case FN_FIELD_CPU_MILLI:
        return e->call.cpu_milli;
    case FN_FIELD_TMPFS_MB:
        return e->call.tmpfs_mb;
    case FN_FIELD_TIMEOUT_S:
        return (uint64_t)e->call.timeout_s;
    case FN_FIELD_IDLE_TIMEOUT_S:
        return (uint64_t)e->call.idle_timeout_s;
    default:
        return 0;
    }
}

static void field_store(struct call *c, uint32_t field, uint64_t v)
{
    switch (field) {
    case FN_FIELD_MEM_MB:
        c->mem_mb = v;
        break;
    case FN_FIELD_CPU_MILLI:
        c->cpu_milli = v;
        break;
    case FN_FIELD_TMPFS_MB:
        c->tmpfs_mb = (uint32_t)v;
        break;
    case FN_FIELD_TIMEOUT_S:
        c->timeout_s = (int32_t)v;
        break;
    default:
        c->idle_timeout_s = (int32_t)v;
        break;
    }
}

static int edit_set_u64(struct fn_edit *e, uint32_t field, uint64_t v)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].field == field) {
            if (v < fields[i].min || v > fields[i].max) {
                return FN_E_RANGE;
            }
            field_store(&e->call, field, v);
            return 0;
        }
    }
    return FN_E_INVALID;
}

/* Sets or deletes in `k`, which is copied before its first change. */
static int edit_kvs(struct fn_edit *e, struct kvs *k, bool *own, const char *key,
                    const char *value)
{
    struct kvs copy;

    if (!key || !key[0]) {
        return FN_E_INVALID;
    }
    if (!*own) {
        kvs_init(&copy, e->call.arena);
        if (kvs_copy(&copy, k) < 0) {
            return FN_E_EXHAUSTED;
        }
        *k = copy;
        *own = true;
    }
    if (!value) {
        kvs_remove(k, key);
        return 0;
    }
    return kvs_set(k, key, value);
}

static int edit_set_config(struct fn_edit *e, const char *key, const char *copied)
{
    PLUGIN_HOST_CALL("fn.edit.set_config");
    return edit_kvs(e, &e->call.config, &e->own_config, key, copied);
}

static int edit_set_extension(struct fn_edit *e, const char *key, const char *copied)
{
    PLUGIN_HOST_CALL("fn.edit.set_extension");
    return edit_kvs(e, &e->extensions, &e->own_extensions, key, copied);
}

static const struct fn_edit_if edit_if = {
    FN_HDR(struct fn_edit_if, FN_MAGIC_EDIT),
    edit_text,
    edit_header,
    edit_config,
    edit_annotation,
    edit_extension,
    edit_u64,
    edit_set_u64,
    edit_set_config,
    edit_set_extension,
};

void override_offer(struct plugin_host *host)
{
    plugin_host_offer(host, "fn.edit", 1, 0, &edit_if, NULL);
}

int override_apply(struct plugin *const *overriders, uint32_t n, struct call *call,
                   struct kvs *extensions, struct fn_error *reterr)
{
    struct fn_edit e = { .call = *call, .extensions = *extensions };
    struct fn_error err = ERR_INIT;
    struct plugin_crumb crumb;
    int r;

    for (uint32_t i = 0; i < n; i++) {
        const struct fn_override_ops *ops = plugin_ops(overriders[i]);

        plugin_enter(&crumb, overriders[i], PLUGIN_LOOP, "apply");
        r = ops->apply(plugin_inst(overriders[i]), &e, &err);
        plugin_leave(&crumb);
        r = plugin_answer_result(overriders[i], "apply", r, FN_CHANGED, &err);
        if (r < 0) {
            if (reterr) {
                *reterr = err;
            }
            return r;
        }
    }
    *call = e.call;
    *extensions = e.extensions;
    return 0;
}
