/* The functions of "fn.edit" work on a scratch copy of a call; override_apply() takes the copy
 * over when every overrider has agreed. */
#include <override/override.h>

#include <model/app.h>
#include <model/fields.h>
#include <model/header_rules.h>
#include <model/json.h>
#include <model/view.h>
#include <plugin/answer.h>
#include <string.h>

struct fn_edit {
    struct call call;      /* scratch; shares what was not edited with the original */
    struct kvs extensions; /* the same */
    bool own_config;       /* config was copied and may be changed in place */
    bool own_extensions;
    bool own_annotations;
    bool own_headers;
    enum override_side side;
};

static const char *edit_text(const struct fn_edit *e, uint32_t text_id)
{
    char *made;

    if (text_id != FN_TEXT_SLOT_HASH) {
        return call_text(&e->call, text_id);
    }
    PLUGIN_HOST_CALL("fn.edit.text");
    made = arena_alloc(e->call.arena, SLOT_HEX_BYTES);
    return made && call_slot_hex(&e->call, made) == 0 ? made : "";
}

static const char *edit_header(const struct fn_edit *e, const char *name)
{
    return call_header(&e->call, name);
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
    return call_u64(&e->call, field);
}

static int edit_set_u64(struct fn_edit *e, uint32_t field, uint64_t v)
{
    return call_set_u64(&e->call, field, v);
}

static int edit_pair(const struct fn_edit *e, uint32_t pairs, uint32_t i, struct fn_kv *ret)
{
    return call_pair(&e->call, &e->extensions, pairs, i, ret);
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

/* ---- texts, headers, annotations: since 1.1 -------------------------------------------------- */

static int set_type(struct fn_edit *e, const char *type)
{
    if (e->side != OVERRIDE_AT_LB) {
        return FN_E_PRECONDITION;
    }
    if (strcmp(type, CALL_TYPE_SYNC) != 0 && strcmp(type, CALL_TYPE_DETACHED) != 0) {
        return FN_E_RANGE;
    }
    e->call.detached = strcmp(type, CALL_TYPE_DETACHED) == 0;
    return 0;
}

static int set_copy(struct fn_edit *e, const char **text, const char *value, bool good)
{
    const char *copy = good ? arena_strdup(e->call.arena, value) : NULL;

    if (!copy) {
        return good ? FN_E_EXHAUSTED : FN_E_RANGE;
    }
    *text = copy;
    return 0;
}

static int edit_set_text(struct fn_edit *e, uint32_t text_id, const char *copied)
{
    PLUGIN_HOST_CALL("fn.edit.set_text");
    if (!copied) {
        return FN_E_INVALID;
    }
    switch (text_id) {
    case FN_TEXT_IMAGE:
        return set_copy(e, &e->call.image, copied, call_image_is_name(copied));
    case FN_TEXT_SYSLOG_URL:
        return set_copy(e, &e->call.syslog_url, copied, !*copied || app_syslog_is_known(copied));
    case FN_TEXT_TYPE:
        return set_type(e, copied);
    default:
        return FN_E_INVALID;
    }
}

static int own_headers(struct fn_edit *e)
{
    struct headers copy;

    if (e->own_headers) {
        return 0;
    }
    headers_init(&copy, e->call.arena);
    for (uint32_t i = 0; i < e->call.headers.n; i++) {
        const struct header *h = &e->call.headers.items[i];

        if (headers_add_borrowed(&copy, h->name, h->value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    e->call.headers = copy;
    e->own_headers = true;
    return 0;
}

static int edit_set_header(struct fn_edit *e, const char *name, const char *copied)
{
    PLUGIN_HOST_CALL("fn.edit.set_header");
    if (!name || !header_name_is_token(name)) {
        return FN_E_INVALID;
    }
    if (header_is_reserved(name) ||
        !header_passes(name, copied, HEADER_FRAMING | HEADER_HOP_BY_HOP) ||
        (copied && !header_value_is_clean(copied))) {
        return FN_E_RANGE;
    }
    if (own_headers(e) < 0) {
        return FN_E_EXHAUSTED;
    }
    if (!copied) {
        headers_remove(&e->call.headers, name);
        return 0;
    }
    return headers_set(&e->call.headers, name, copied);
}

static int edit_set_annotation(struct fn_edit *e, const char *key, const char *json)
{
    const char *value = NULL;
    struct jr reader;

    PLUGIN_HOST_CALL("fn.edit.set_annotation");
    if (json) {
        jr_init(&reader, json, strlen(json), e->call.arena);
        if (jr_raw(&reader, &value) < 0 || jr_peek(&reader) != JR_NOTHING ||
            reader.p != reader.end) {
            return FN_E_RANGE;
        }
    }
    return edit_kvs(e, &e->call.annotations, &e->own_annotations, key, value);
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
    edit_set_text,
    edit_set_header,
    edit_set_annotation,
    edit_pair,
};

void override_offer(struct plugin_host *host)
{
    plugin_host_offer(host, "fn.edit", 1, 1, &edit_if, NULL);
    plugin_host_offer(host, "fn.view", FN_VIEW_MAJOR, FN_VIEW_MINOR, view_if(), NULL);
}

int override_apply(struct plugin *const *overriders, uint32_t n, enum override_side side,
                   struct call *call, struct kvs *extensions, struct fn_error *reterr)
{
    struct fn_edit e = { .call = *call, .extensions = *extensions, .side = side };
    struct plugin_crumb crumb;
    int r;

    for (uint32_t i = 0; i < n; i++) {
        const struct fn_override_ops *ops = plugin_ops(overriders[i]);
        struct fn_error err = ERR_INIT; /* the words of one that lets pass are nobody else's */

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
