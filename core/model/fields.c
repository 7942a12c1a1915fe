/* Texts and numbers of a call, by tables of where they lie in it. */
#include <model/fields.h>

#include <stdio.h>
#include <string.h>

#define HEADER_NAME_MAX 256
#define MEGABYTES_MAX   (1u << 20)

#define TEXT(id, member) [id] = offsetof(struct call, member)
static const size_t texts[] = {
    TEXT(FN_TEXT_CALL_ID, id),
    TEXT(FN_TEXT_FN_ID, fn_id),
    TEXT(FN_TEXT_APP_ID, app_id),
    TEXT(FN_TEXT_APP_NAME, app_name),
    TEXT(FN_TEXT_IMAGE, image),
    TEXT(FN_TEXT_METHOD, method),
    TEXT(FN_TEXT_URL, url),
    TEXT(FN_TEXT_SYSLOG_URL, syslog_url),
    TEXT(FN_TEXT_TRIGGER_ID, trigger_id),
};
#undef TEXT

const char *call_text(const struct call *c, uint32_t text_id)
{
    const char *text;

    if (text_id == FN_TEXT_TYPE) {
        return c->detached ? CALL_TYPE_DETACHED : CALL_TYPE_SYNC;
    }
    if (text_id >= sizeof(texts) / sizeof(texts[0]) || !texts[text_id]) {
        return "";
    }
    memcpy(&text, (const char *)c + texts[text_id], sizeof(text));
    return text ? text : "";
}

#define FIELD(id, member, min, max) \
    { id, offsetof(struct call, member), sizeof(((struct call *)NULL)->member), min, max }
static const struct field {
    uint32_t id;
    size_t offset, size; /* 4 or 8 bytes of struct call */
    uint64_t min, max;
} numbers[] = {
    FIELD(FN_FIELD_MEM_MB, mem_mb, 1, MEGABYTES_MAX),
    FIELD(FN_FIELD_CPU_MILLI, cpu_milli, 0, MODEL_CPU_MILLI_MAX),
    FIELD(FN_FIELD_TMPFS_MB, tmpfs_mb, 0, MEGABYTES_MAX),
    FIELD(FN_FIELD_TIMEOUT_S, timeout_s, 1, MODEL_TIMEOUT_S_MAX),
    FIELD(FN_FIELD_IDLE_TIMEOUT_S, idle_timeout_s, 1, MODEL_IDLE_S_MAX),
};
#undef FIELD

static const struct field *find_number(uint32_t id)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].id == id) {
            return &numbers[i];
        }
    }
    return NULL;
}

uint64_t call_u64(const struct call *c, uint32_t field)
{
    const struct field *f = find_number(field);
    uint64_t v = 0; /* the low bytes come first */

    if (f) {
        memcpy(&v, (const char *)c + f->offset, f->size);
    }
    return v;
}

int call_set_u64(struct call *c, uint32_t field, uint64_t v)
{
    const struct field *f = find_number(field);

    if (!f) {
        return FN_E_INVALID;
    }
    if (v < f->min || v > f->max) {
        return FN_E_RANGE;
    }
    memcpy((char *)c + f->offset, &v, f->size);
    return 0;
}

const char *call_header(const struct call *c, const char *name)
{
    char prefixed[HEADER_NAME_MAX];
    const char *value = headers_get(&c->headers, name);
    int n;

    if (value) {
        return value;
    }
    n = snprintf(prefixed, sizeof(prefixed), "Fn-Http-H-%s", name);
    return n < (int)sizeof(prefixed) ? headers_get(&c->headers, prefixed) : NULL;
}

static int pair_of(const struct kvs *k, uint32_t i, struct fn_kv *ret)
{
    if (!k || i >= k->n) {
        return FN_E_RANGE;
    }
    *ret = k->items[i];
    return 0;
}

int call_pair(const struct call *c, const struct kvs *extensions, uint32_t pairs, uint32_t i,
              struct fn_kv *ret)
{
    switch (pairs) {
    case FN_PAIRS_CONFIG:
        return pair_of(&c->config, i, ret);
    case FN_PAIRS_ANNOTATIONS:
        return pair_of(&c->annotations, i, ret);
    case FN_PAIRS_EXTENSIONS:
        return pair_of(extensions, i, ret);
    case FN_PAIRS_HEADERS:
        if (i >= c->headers.n) {
            return FN_E_RANGE;
        }
        *ret = (struct fn_kv){ c->headers.items[i].name, c->headers.items[i].value };
        return 0;
    default:
        return FN_E_RANGE;
    }
}
