/* The functions of "fn.edit" work on a scratch copy of a call; override_apply() takes the copy
 * over when every overrider has agreed. */
#include <override/override.h>

#include <plugin/answer.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define HEADER_NAME_MAX 256

struct fn_edit {
    struct call call;      /* scratch; shares what was not edited with the original */
    struct kvs extensions; /* the same */
    bool own_config;       /* config was copied and may be changed in place */
    bool own_extensions;
};

/* The fields that may be set, with ranges; what a node can really give is its own check. */
#define FIELD(id, member, min, max) \
    { id, offsetof(struct call, member), sizeof(((struct call *)NULL)->member), min, max }
static const struct field {
    uint32_t id;
    size_t offset, size; /* 4 or 8 bytes of struct call */
    uint64_t min, max;
} fields[] = {
    FIELD(FN_FIELD_MEM_MB, mem_mb, 1, 1u << 20),
    FIELD(FN_FIELD_CPU_MILLI, cpu_milli, 0, MODEL_CPU_MILLI_MAX),
    FIELD(FN_FIELD_TMPFS_MB, tmpfs_mb, 0, 1u << 20),
    FIELD(FN_FIELD_TIMEOUT_S, timeout_s, 1, MODEL_TIMEOUT_S_MAX),
    FIELD(FN_FIELD_IDLE_TIMEOUT_S, idle_timeout_s, 1, MODEL_IDLE_S_MAX),
};
#undef FIELD

static const struct field *find_field(uint32_t id)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].id == id) {
            return &fields[i];
        }
    }
    return NULL;
}

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

/* A trigger's call has the client's headers under longer names, which overriders need not know. */
static const char *edit_header(const struct fn_edit *e, const char *name)
{
    char prefixed[HEADER_NAME_MAX];
    const char *value = headers_get(&e->call.headers, name);
    int n;

    if (value) {
        return value;
    }
    n = snprintf(prefixed, sizeof(prefixed), "Fn-Http-H-%s", name);
    return n < (int)sizeof(prefixed) ? headers_get(&e->call.headers, prefixed) : NULL;
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
    const struct field *f = find_field(field);
    uint64_t wide;
    uint32_t narrow;

    if (!f) {
        return 0;
    }
    if (f->size == sizeof(narrow)) {
        memcpy(&narrow, (const char *)&e->call + f->offset, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, (const char *)&e->call + f->offset, sizeof(wide));
    return wide;
}

static int edit_set_u64(struct fn_edit *e, uint32_t field, uint64_t v)
{
    const struct field *f = find_field(field);
    uint32_t narrow = (uint32_t)v;

    if (!f) {
        return FN_E_INVALID;
    }
    if (v < f->min || v > f->max) {
        return FN_E_RANGE;
    }
    if (f->size == sizeof(narrow)) {
        memcpy((char *)&e->call + f->offset, &narrow, sizeof(narrow));
    } else {
        memcpy((char *)&e->call + f->offset, &v, sizeof(v));
    }
    return 0;
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
