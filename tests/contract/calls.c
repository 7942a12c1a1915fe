/* Calls as placers, pools and listeners are shown them, and "fn.view", which knows more of them.
 *
 * What it tells is made up from the call's number and the key that is asked for: every key is there
 * for some calls and not for others, with texts that a plugin must be ready for. All texts lie in
 * memory that goes with the call. */
#include "outside.h"

#include <stdio.h>
#include <string.h>

#define GONE "it had ended"
#define TEXTS_N 8u
#define TEXT_BYTES 96u

struct fn_call_more {
    uint32_t salt;
    char ids[3][32];
    char texts[TEXTS_N][TEXT_BYTES];
    char notes[TEXTS_N][TEXT_BYTES];
};

static const char *const texts[TEXTS_N] = {
    "blue", "", "0", "A long text, with \xc3\xa9 and , in it", "-1", "18446744073709551616", "a=b",
    "/\\\"'%s%n",
};
/* Two of them ask for labels that runners of lists have. */
static const char *const notes[TEXTS_N] = {
    "\"blue\"", "null", "7", "{\"zone\":[\"a\",{}]}", "[]", "{\"zone\":\"a\"}",
    "\"zone=b class=gpu\"", "\"\\u00e9\\\"\"",
};

struct fn_call *call_make(uint32_t salt, uint32_t growth)
{
    struct fn_call *c = fence_alloc(sizeof(*c) + growth, 8, "a call", GONE);
    struct fn_call_more *m = fence_alloc(sizeof(*m), 8, "what fn.view told of a call", GONE);

    m->salt = salt;
    snprintf(m->ids[0], sizeof(m->ids[0]), "01CALL%020u", salt);
    snprintf(m->ids[1], sizeof(m->ids[1]), "01FN%022u", salt);
    snprintf(m->ids[2], sizeof(m->ids[2]), "01APP%021u", salt % 3);
    for (uint32_t i = 0; i < TEXTS_N; i++) {
        snprintf(m->texts[i], TEXT_BYTES, "%s", texts[i]);
        snprintf(m->notes[i], TEXT_BYTES, "%s", notes[i]);
    }
    fence_read_only(m);
    memset(c, 0xa5, sizeof(*c) + growth);
    *c = (struct fn_call){.hdr = {(uint32_t)sizeof(*c) + growth, FN_MAGIC_CALL},
                          .id = m->ids[0],
                          .fn_id = m->ids[1],
                          .app_id = m->ids[2],
                          .lb_group = salt % 2 ? "default" : "blue",
                          .mem_mb = 128,
                          .deadline_ns = salt % 4 ? clock_now() + 30 * ENV_S : INT64_MAX,
                          .kind = growth     ? 77
                                  : salt % 5 ? FN_CALL_SYNC
                                             : FN_CALL_DETACHED,
                          .more = salt % 16 == CALL_PLAIN ? NULL : m};
    fence_read_only(c);
    return c;
}

void call_end(struct fn_call *c)
{
    const char *ids = c->id; /* `more` may be NULL */

    fence_free((void *)(uintptr_t)(ids - offsetof(struct fn_call_more, ids)));
    fence_free(c);
}

/* ---- fn.view --------------------------------------------------------------------------------- */

static const struct fn_call_more *shown(const struct fn_call *c, const char *what)
{
    must_be_in(IN_LOOP | IN_WORKER, what);
    if (!c) {
        violation("%s was called without a call", what);
        return NULL;
    }
    return c->more;
}

static uint32_t hash_of(uint32_t salt, const char *key)
{
    uint32_t h = 2166136261u ^ salt;

    while (*key) {
        h = (h ^ (unsigned char)*key++) * 16777619u;
    }
    return h >> 7;
}

/* The same text for the same key of the same call. */
static const char *value_of(const struct fn_call_more *m, bool is_note, uint32_t h)
{
    return is_note ? m->notes[h % TEXTS_N] : m->texts[h % TEXTS_N];
}

static const char *look_up(const struct fn_call *c, const char *what, bool is_note, const char *key)
{
    const struct fn_call_more *m = shown(c, what);
    uint32_t h;

    if (!key || !key[0]) {
        violation("%s was asked for a key that is %s", what, key ? "empty" : "NULL");
        return NULL;
    }
    h = m ? hash_of(m->salt, key) : 0;
    return h % 3 == 0 ? NULL : value_of(m, is_note, h);
}

static const char *told_text(const struct fn_call *c, uint32_t id)
{
    const struct fn_call_more *m;

    HOST_CALL();
    m = shown(c, "fn.view text");
    if (!m) {
        return "";
    }
    switch (id) {
    case FN_TEXT_CALL_ID: return m->ids[0];
    case FN_TEXT_FN_ID: return m->ids[1];
    case FN_TEXT_APP_ID: return m->ids[2];
    case FN_TEXT_TYPE: return c->kind == FN_CALL_DETACHED ? "detached" : "sync";
    default: return id >= EDIT_TEXTS ? "" : value_of(m, false, m->salt + id);
    }
}

static uint64_t told_u64(const struct fn_call *c, uint32_t field)
{
    static const uint64_t odd[] = { 0, 1, 128, 1u << 20, 300 };
    const struct fn_call_more *m;

    HOST_CALL();
    m = shown(c, "fn.view u64");
    return m && field && field < EDIT_FIELDS ? odd[(m->salt + field) % 5] : 0;
}

static const char *told_header(const struct fn_call *c, const char *name)
{
    HOST_CALL();
    return look_up(c, "fn.view header", false, name);
}

static const char *told_config(const struct fn_call *c, const char *key)
{
    HOST_CALL();
    return look_up(c, "fn.view config", false, key);
}

static const char *told_annotation(const struct fn_call *c, const char *key)
{
    HOST_CALL();
    return look_up(c, "fn.view annotation", true, key);
}

static const char *told_extension(const struct fn_call *c, const char *key)
{
    HOST_CALL();
    return look_up(c, "fn.view extension", false, key);
}

static int told_pair(const struct fn_call *c, uint32_t pairs, uint32_t i, struct fn_kv *ret)
{
    static const char *const keys[] = { "zone", "X-Plan", "FN_TYPE", "acme/\xc3\xa9" };
    const struct fn_call_more *m;

    HOST_CALL();
    m = shown(c, "fn.view pair");
    if (!m || i >= m->salt % 5 || pairs < FN_PAIRS_CONFIG || pairs > FN_PAIRS_HEADERS) {
        return FN_E_RANGE;
    }
    ret->key = keys[i];
    ret->value = value_of(m, pairs == FN_PAIRS_ANNOTATIONS, m->salt + i);
    return 0;
}

const struct fn_view_if view_table = {
    FN_HDR(struct fn_view_if, FN_MAGIC_VIEW),
    told_text,
    told_u64,
    told_header,
    told_config,
    told_annotation,
    told_extension,
    told_pair,
};
