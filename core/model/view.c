/* The functions of "fn.view" look behind a view's `more`, and make there what was not asked for
 * before. */
#include <model/view.h>

#include <model/fields.h>
#include <string.h>

/* A copy that a plugin of 1.0 made ends before `more`. */
static struct fn_call_more *more_of(const struct fn_call *view)
{
    return view->hdr.size >= offsetof(struct fn_call, more) + sizeof(view->more) ? view->more
                                                                                  : NULL;
}

static const struct call *read_text(struct fn_call_more *m)
{
    struct call *c = m->json ? arena_alloc(m->arena, sizeof(*c)) : NULL;

    if (!c) {
        return NULL;
    }
    call_init(c, m->arena);
    if (call_from_json(c, m->json, m->json_len, NULL) == 0) {
        m->call = c;
    }
    return m->call;
}

static const struct call *call_of(const struct fn_call *view)
{
    struct fn_call_more *m = more_of(view);

    if (!m) {
        return NULL;
    }
    return m->call ? m->call : read_text(m);
}

static const char *make_slot_hash(const struct fn_call *view, struct fn_call_more *m)
{
    char *made = arena_alloc(m->arena, SLOT_HEX_BYTES);
    const struct call *c;

    if (made && m->slot_key) {
        call_key_hex(m->slot_key, made);
        return made;
    }
    c = call_of(view);
    return made && c && call_slot_hex(c, made) == 0 ? made : "";
}

static const char *slot_hash_of(const struct fn_call *view)
{
    struct fn_call_more *m = more_of(view);

    if (!m) {
        return "";
    }
    if (!m->slot_hash || !m->slot_hash[0]) {
        m->slot_hash = make_slot_hash(view, m);
    }
    return m->slot_hash;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int copy_json(const struct fn_call_more *from, struct arena *arena, struct fn_call_more *to)
{
    struct buf json = BUF_INIT(0);

    if (from->json) {
        to->json = arena_strndup(arena, from->json, from->json_len);
        to->json_len = from->json_len;
    } else if (from->call && call_to_json(from->call, &json) == 0) {
        to->json = arena_strndup(arena, json.data, json.len);
        to->json_len = json.len;
    }
    buf_finish(&json);
    return to->json ? 0 : FN_E_EXHAUSTED;
}

static int copy_more(const struct fn_call_more *from, struct arena *arena, struct fn_call_more *to)
{
    struct kvs *extensions = arena_alloc(arena, sizeof(*extensions));
    unsigned char *key = from->slot_key ? arena_alloc(arena, SLOT_KEY_BYTES) : NULL;

    if (!extensions || (from->slot_key && !key)) {
        return FN_E_EXHAUSTED;
    }
    kvs_init(extensions, arena);
    if (from->extensions && kvs_copy(extensions, from->extensions) < 0) {
        return FN_E_EXHAUSTED;
    }
    if (key) {
        memcpy(key, from->slot_key, SLOT_KEY_BYTES);
    }
    *to = (struct fn_call_more){ .extensions = extensions, .slot_key = key, .arena = arena };
    to->slot_hash = arena_strdup(arena, from->slot_hash ? from->slot_hash : "");
    return to->slot_hash ? copy_json(from, arena, to) : FN_E_EXHAUSTED;
}

int view_copy(const struct fn_call *view, struct arena *arena, struct fn_call *ret)
{
    const struct fn_call_more *more = more_of(view);

    *ret = *view;
    ret->id = arena_strdup(arena, view->id);
    ret->fn_id = arena_strdup(arena, view->fn_id);
    ret->app_id = arena_strdup(arena, view->app_id);
    ret->lb_group = arena_strdup(arena, view->lb_group);
    ret->more = more ? arena_alloc(arena, sizeof(*more)) : NULL;
    if (!ret->id || !ret->fn_id || !ret->app_id || !ret->lb_group || (more && !ret->more)) {
        return FN_E_EXHAUSTED;
    }
    return more ? copy_more(more, arena, ret->more) : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const char *view_text(const struct fn_call *view, uint32_t text_id)
{
    const struct call *c;

    if (text_id == FN_TEXT_SLOT_HASH) {
        return slot_hash_of(view);
    }
    c = call_of(view);
    return c ? call_text(c, text_id) : "";
}

static uint64_t view_u64(const struct fn_call *view, uint32_t field)
{
    const struct call *c = call_of(view);

    return c ? call_u64(c, field) : 0;
}

static const char *view_header(const struct fn_call *view, const char *name)
{
    const struct call *c = call_of(view);

    return c ? call_header(c, name) : NULL;
}

static const char *view_config(const struct fn_call *view, const char *key)
{
    const struct call *c = call_of(view);

    return c ? kvs_get(&c->config, key) : NULL;
}

static const char *view_annotation(const struct fn_call *view, const char *key)
{
    const struct call *c = call_of(view);

    return c ? kvs_get(&c->annotations, key) : NULL;
}

static const char *view_extension(const struct fn_call *view, const char *key)
{
    const struct fn_call_more *m = more_of(view);

    return m && m->extensions ? kvs_get(m->extensions, key) : NULL;
}

static int view_pair(const struct fn_call *view, uint32_t pairs, uint32_t i, struct fn_kv *ret)
{
    const struct call *c = call_of(view);

    return c ? call_pair(c, more_of(view)->extensions, pairs, i, ret) : FN_E_RANGE;
}

const struct fn_view_if *view_if(void)
{
    static const struct fn_view_if table = {
        FN_HDR(struct fn_view_if, FN_MAGIC_VIEW),
        view_text,
        view_u64,
        view_header,
        view_config,
        view_annotation,
        view_extension,
        view_pair,
    };

    return &table;
}
