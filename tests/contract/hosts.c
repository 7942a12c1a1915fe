/* fn.snap and fn.edit: what pools publish and overriders change. */
#include "outside.h"

#include <base/hash.h>
#include <plugin/answer.h>
#include <stdlib.h>
#include <string.h>

/* ---- fn.snap: builders are never given back to malloc, so that a late use is seen ------------ */

#define BUILDERS_MAX 4096
#define RUNNERS_MAX 65536u /* as a host has it */
#define KEYS_N 131101u     /* a prime with room */
#define GROUPS_MAX 256u /* half the table of core/place: more are not certain to find room */
#define WEIGHT_MAX 65535u

struct fn_snap_builder {
    bool open;
    uint32_t n;
    uint64_t hash;
    uint64_t *keys;
};

struct published published;
static struct fn_snap_builder builders[BUILDERS_MAX];
static uint32_t n_builders;
static uint64_t groups[GROUPS_MAX]; /* hashes of their names */
static uint32_t n_groups;

void published_reset(void)
{
    for (uint32_t i = 0; i < n_builders; i++) {
        free(builders[i].keys);
    }
    memset(builders, 0, sizeof(builders));
    n_builders = 0;
    n_groups = 0;
    published = (struct published){0};
}

static bool usable(struct fn_snap_builder *b, const char *what)
{
    if (b < builders || b >= builders + n_builders || !b->open) {
        violation("%s was called with a builder that publish() or discard() had taken", what);
        return false;
    }
    return true;
}

/* Each name costs a node a place in its table, which is not given back while the pool is there. */
static void count_group(const char *group)
{
    const uint64_t hash = hash_text(HASH_INIT, group);
    uint32_t i = 0;

    while (i < n_groups && groups[i] != hash) {
        i++;
    }
    if (i < n_groups) {
        return;
    }
    if (n_groups == GROUPS_MAX) {
        violation("fn.snap begin was called for more than %u groups, at last \"%.40s\"; expected "
                  "no more: a node may have no room for them",
                  GROUPS_MAX, group);
        return;
    }
    groups[n_groups++] = hash;
}

static int snap_begin(const struct fn_host *host, const char *group, struct fn_snap_builder **ret)
{
    HOST_CALL();
    (void)host;
    if (!group || !group[0] || strlen(group) > FN_GROUP_NAME_MAX || !ret) {
        violation("fn.snap begin was called with group \"%.80s\"; expected 1 to %u bytes",
                  group ? group : "NULL", FN_GROUP_NAME_MAX);
        return FN_E_INVALID;
    }
    count_group(group);
    if (n_builders == BUILDERS_MAX || outside_refuses("fn.snap begin")) {
        return FN_E_EXHAUSTED;
    }
    *ret = &builders[n_builders++];
    **ret = (struct fn_snap_builder){.open = true, .hash = HASH_INIT};
    published.builders++;
    trace_text(group);
    return 0;
}

static void add_text(uint64_t *h, const char *s)
{
    *h = hash_byte(hash_text(*h, s ? s : ""), 0xff);
}

/* Id and address together name a runner: both are in `key`. A table with open addressing. */
static bool is_new(struct fn_snap_builder *b, uint64_t key)
{
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) % KEYS_N;

    if (!b->keys) {
        b->keys = calloc(KEYS_N, sizeof(*b->keys));
    }
    must(b->keys, "the machine has no memory for the test");
    for (; b->keys[i]; i = (i + 1) % KEYS_N) {
        if (b->keys[i] == key) {
            return false;
        }
    }
    b->keys[i] = key;
    return true;
}

static void close_builder(struct fn_snap_builder *b)
{
    b->open = false;
    free(b->keys);
    b->keys = NULL;
    published.builders--;
}

static bool numbers_ok(const struct fn_runner *said, uint32_t size)
{
    struct fn_runner r = {.weight = 1};

    memcpy(&r, said, size < sizeof(r) ? size : sizeof(r));
    if (r.flags & ~FN_RUNNER_DRAINING) {
        violation("fn.snap add was given flags 0x%x; expected FN_RUNNER_* bits only: a node "
                  "refuses the runner",
                  r.flags);
    } else if (r.weight == 0 || r.weight > WEIGHT_MAX) {
        violation("fn.snap add was given weight %u; expected 1, which is normal, to %u", r.weight,
                  WEIGHT_MAX);
    } else if (r.capacity_mb > PLUGIN_ANSWER_MB_MAX) {
        violation("fn.snap add was given capacity_mb %llu; expected at most %llu, or 0 = unknown",
                  (unsigned long long)r.capacity_mb, (unsigned long long)PLUGIN_ANSWER_MB_MAX);
    } else if (fn_labels_fault(r.labels)) {
        violation("fn.snap add was given labels %.64s; expected %s", r.labels,
                  fn_labels_fault(r.labels));
    } else {
        return true;
    }
    return false;
}

static int snap_add(struct fn_snap_builder *b, const struct fn_runner *r, uint32_t size)
{
    uint64_t key;

    HOST_CALL();
    if (!usable(b, "fn.snap add")) {
        return FN_E_INVALID;
    }
    if (!r || size < 16 || size > 4096 || !r->address || !r->address[0] ||
        strlen(r->address) > 1024) {
        violation("fn.snap add was given a runner of %u bytes without a usable address", size);
        return FN_E_INVALID;
    }
    for (const char *c = r->address; *c; c++) {
        if (*c <= 0x20 || *c > 0x7e) {
            violation("fn.snap add was given an address with byte 0x%02x; expected host:port",
                      (unsigned char)*c);
            return FN_E_INVALID;
        }
    }
    if (!numbers_ok(r, size)) {
        return FN_E_INVALID;
    }
    if (b->n >= RUNNERS_MAX || outside_refuses("fn.snap add")) {
        return FN_E_EXHAUSTED;
    }
    key = r->id;
    add_text(&key, r->address);
    if (!is_new(b, key ? key : 1)) {
        violation("fn.snap add was given id %llu with address %.60s twice in one list; id and "
                  "address together name a runner",
                  (unsigned long long)r->id, r->address);
        return FN_E_INVALID;
    }
    b->n++;
    b->hash = (b->hash ^ r->id) * 0x100000001b3u;
    add_text(&b->hash, r->address);
    add_text(&b->hash, size > 16 ? r->tls_name : NULL);
    return 0;
}

static int snap_publish(struct fn_snap_builder *b)
{
    HOST_CALL();
    if (!usable(b, "fn.snap publish")) {
        return FN_E_INVALID;
    }
    if (published.after_done) {
        violation("fn.snap publish was called after stop() had reported done");
    }
    close_builder(b);
    if (outside_refuses("fn.snap publish")) {
        return FN_E_EXHAUSTED;
    }
    published.publishes++;
    published.n = b->n;
    published.list_hash = b->hash;
    trace_u64(b->hash);
    return 0;
}

static void snap_discard(struct fn_snap_builder *b)
{
    HOST_CALL();
    if (b && usable(b, "fn.snap discard")) {
        close_builder(b);
    }
}

static int snap_fail(const struct fn_host *host, const char *group, const struct fn_error *why)
{
    HOST_CALL();
    (void)host;
    if (!group || !why || why->code >= 0 || !memchr(why->msg, '\0', sizeof(why->msg))) {
        violation(
            "fn.snap fail was called without a group or without an error with code FN_E_* and "
            "a text");
    }
    if (published.after_done) {
        violation("fn.snap fail was called after stop() had reported done");
    }
    published.fails++;
    trace_text("fail");
    return 0;
}

const struct fn_snap_if snap_table = {FN_HDR(struct fn_snap_if, FN_MAGIC_SNAP),
                                      snap_begin,
                                      snap_add,
                                      snap_publish,
                                      snap_discard,
                                      snap_fail};

#define CONFIG_VALUE_MAX (128u * 1024u) /* of one entry, as the kernel takes it */

/* ---- fn.edit --------------------------------------------------------------------------------- */

const struct fn_edit *edit_open;

static bool editable(const struct fn_edit *e, const char *what)
{
    must_be_in(IN_LOOP, what);
    if (!e || e != edit_open) {
        violation("%s was called with an edit whose apply() had answered; expected an edit to be "
                  "used within its apply() only",
                  what);
        return false;
    }
    return true;
}

static const char *edit_text(const struct fn_edit *e, uint32_t id)
{
    HOST_CALL();
    if (!editable(e, "fn.edit text") || id == 0 || id >= EDIT_TEXTS) {
        return "";
    }
    return e->texts[id] ? e->texts[id] : "";
}

static const char *look_up(const struct fn_edit *e, const char *what, const char *key,
                           const char *value)
{
    if (!editable(e, what)) {
        return NULL;
    }
    if (!key) {
        violation("%s was asked for NULL", what);
    }
    return value;
}

static const char *edit_header(const struct fn_edit *e, const char *name)
{
    HOST_CALL();
    return look_up(e, "fn.edit header", name, e->header_value);
}

static const char *edit_config(const struct fn_edit *e, const char *key)
{
    HOST_CALL();
    return look_up(e, "fn.edit config", key, e->config_value);
}

static const char *edit_annotation(const struct fn_edit *e, const char *key)
{
    HOST_CALL();
    return look_up(e, "fn.edit annotation", key, e->annotation_value);
}

static const char *edit_extension(const struct fn_edit *e, const char *key)
{
    HOST_CALL();
    return look_up(e, "fn.edit extension", key, e->extension_value);
}

static uint64_t edit_u64(const struct fn_edit *e, uint32_t field)
{
    HOST_CALL();
    return editable(e, "fn.edit u64") && field > 0 && field < EDIT_FIELDS ? e->fields[field] : 0;
}

/* One pair of each set, if there is any. */
static int edit_pair(const struct fn_edit *e, uint32_t pairs, uint32_t i, struct fn_kv *ret)
{
    const char *value = NULL;

    HOST_CALL();
    if (editable(e, "fn.edit pair")) {
        value = pairs == FN_PAIRS_CONFIG        ? e->config_value
                : pairs == FN_PAIRS_ANNOTATIONS ? e->annotation_value
                : pairs == FN_PAIRS_EXTENSIONS  ? e->extension_value
                : pairs == FN_PAIRS_HEADERS     ? e->header_value
                                                : NULL;
    }
    if (!value || i > 0) {
        return FN_E_RANGE;
    }
    *ret = (struct fn_kv){"X-Key", value};
    return 0;
}

static int may_set(struct fn_edit *e, const char *what)
{
    if (!editable(e, what)) {
        return FN_E_PRECONDITION;
    }
    if (e->refuse_sets > 0) {
        e->refuse_sets--;
        return FN_E_EXHAUSTED;
    }
    if (outside_refuses(what)) {
        return FN_E_EXHAUSTED;
    }
    return 0;
}

static int edit_set_u64(struct fn_edit *e, uint32_t field, uint64_t v)
{
    int r;

    HOST_CALL();
    r = may_set(e, "fn.edit set_u64");
    if (r == 0 && (field == 0 || field >= EDIT_FIELDS)) {
        return FN_E_INVALID;
    }
    if (r == 0) {
        e->fields[field] = v;
        e->sets++;
        trace_u64(v);
    }
    return r;
}

static int set_text(struct fn_edit *e, const char *what, const char *key, const char *value)
{
    int r = may_set(e, what);

    if (r == 0 && (!key || !key[0])) {
        violation("%s was called without a key", what);
        return FN_E_INVALID;
    }
    if (r == 0) {
        e->sets++;
        trace_text(key);
        trace_text(value);
    }
    return r;
}

/* As drivers take it: an entry of an environment. */
static bool is_config(const char *key, const char *value)
{
    for (const char *c = key ? key : ""; *c; c++) {
        if (*c == '=' || (unsigned char)*c < 0x20 || *c == 0x7f) {
            violation("fn.edit set_config was given key \"%.60s\"; expected a name without \"=\" "
                      "and control characters: a runner refuses the call",
                      key);
            return false;
        }
    }
    if (value && strlen(value) > CONFIG_VALUE_MAX) {
        violation("fn.edit set_config was given a value of %zu bytes; expected at most %u",
                  strlen(value), CONFIG_VALUE_MAX);
        return false;
    }
    return true;
}

static int edit_set_config(struct fn_edit *e, const char *key, const char *value)
{
    HOST_CALL();
    if (!is_config(key, value)) {
        return FN_E_INVALID;
    }
    return set_text(e, "fn.edit set_config", key, value);
}

static int edit_set_extension(struct fn_edit *e, const char *key, const char *value)
{
    HOST_CALL();
    return set_text(e, "fn.edit set_extension", key, value);
}

/* Texts are refused that a node may refuse, whatever they are: a plugin goes on with what is. */
static int edit_set_text(struct fn_edit *e, uint32_t id, const char *copied)
{
    int r;

    HOST_CALL();
    r = may_set(e, "fn.edit set_text");
    if (r == 0 && (!copied || (id != FN_TEXT_IMAGE && id != FN_TEXT_SYSLOG_URL &&
                               id != FN_TEXT_TYPE))) {
        violation("fn.edit set_text was called with text %u%s; expected the image, the syslog URL "
                  "or the type", id, copied ? "" : " and NULL");
        return FN_E_INVALID;
    }
    if (r == 0) {
        e->sets++;
        trace_text(copied);
    }
    return r;
}

static int edit_set_header(struct fn_edit *e, const char *name, const char *copied)
{
    HOST_CALL();
    return set_text(e, "fn.edit set_header", name, copied);
}

static int edit_set_annotation(struct fn_edit *e, const char *key, const char *json)
{
    HOST_CALL();
    return set_text(e, "fn.edit set_annotation", key, json);
}

const struct fn_edit_if edit_table = {
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
