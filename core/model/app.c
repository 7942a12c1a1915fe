/* Apps, functions and triggers: what they are made with, Go Fn's rules for them with its sentences,
 * and how a change is merged into one. */
#include <base/utf8.h>
#include <model/app.h>
#include <model/call.h>

#include <string.h>

void app_init(struct app *a, struct arena *arena)
{
    *a = (struct app){ .id = "", .name = "", .syslog_url = "", .shape = "" };
    kvs_init(&a->config, arena);
    kvs_init(&a->annotations, arena);
}

void fn_def_init(struct fn_def *f, struct arena *arena)
{
    *f = (struct fn_def){ .id = "", .name = "", .app_id = "", .image = "", .shape = "" };
    fn_def_defaults(f);
    kvs_init(&f->config, arena);
    kvs_init(&f->annotations, arena);
}

void fn_def_defaults(struct fn_def *f)
{
    f->mem_mb = f->mem_mb ? f->mem_mb : MODEL_MEM_MB_DEFAULT;
    f->timeout_s = f->timeout_s ? f->timeout_s : MODEL_TIMEOUT_S_DEFAULT;
    f->idle_timeout_s = f->idle_timeout_s ? f->idle_timeout_s : MODEL_IDLE_S_DEFAULT;
}

void trigger_init(struct trigger *t, struct arena *arena)
{
    *t = (struct trigger){
        .id = "", .name = "", .app_id = "", .fn_id = "", .type = "", .source = ""
    };
    kvs_init(&t->annotations, arena);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Controls, blanks, and what is not seen but turns or joins what is beside it: two names that look
 * alike are one name. */
static bool is_unseen(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } unseen[] = {
        { 0x80, 0xa0 },        { 0xad, 0xad },     { 0x34f, 0x34f },   { 0x61c, 0x61c },
        { 0x1680, 0x1680 },    { 0x180e, 0x180e }, { 0x2000, 0x200f }, { 0x2028, 0x202f },
        { 0x205f, 0x206f },    { 0x3000, 0x3000 }, { 0xfeff, 0xfeff }, { 0xfff0, 0xffff },
        { 0xe0000, 0x10ffff },
    };

    for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
        if (code >= unseen[i].first && code <= unseen[i].last) {
            return true;
        }
    }
    return false;
}

static bool is_name_ascii(char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

bool app_name_is_plain(const char *s)
{
    const char *end = s + strlen(s);
    uint32_t n;

    for (; s < end; s += n) {
        n = utf8_sequence(s, end);
        if (n == 0 || (n == 1 ? !is_name_ascii(*s) : is_unseen(utf8_code(s, n)))) {
            return false;
        }
    }
    return true;
}

static int bad(struct fn_error *reterr, const char *text)
{
    return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER, "%s", text);
}

bool app_syslog_is_known(const char *url)
{
    static const char *const schemes[] = { "udp://", "tcp://", "unix://", "unixgram://",
                                           "tcp+tls://" };

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0) {
            return true;
        }
    }
    return false;
}

static int check_syslog(const char *url, struct fn_error *reterr)
{
    if (!url || !*url || app_syslog_is_known(url)) {
        return 0;
    }
    return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER,
                        "invalid syslog url: \"%.64s\" invalid scheme, only [tcp, udp, unix, "
                        "unixgram, tcp+tls] are supported", url);
}

bool app_annotation_is_key(const char *key)
{
    const char *p = key;

    while (*p > ' ' && *p <= '~') {
        p++;
    }
    return p > key && !*p;
}

bool app_annotation_is_nothing(const char *json)
{
    return !*json || strcmp(json, "\"\"") == 0 || strcmp(json, "null") == 0;
}

/* What the API's writers escape counts as the bytes that a client may have sent for it. */
static size_t annotation_bytes(const char *json)
{
    static const struct {
        const char *escape;
        size_t bytes;
    } rows[] = { { "\\u0026", 1 }, { "\\u003c", 1 }, { "\\u003e", 1 }, { "\\u2028", 3 },
                 { "\\u2029", 3 }, { "\\\\", 2 }, { "", 1 } };
    size_t n = 0, i;

    while (*json) {
        for (i = 0; strncmp(json, rows[i].escape, strlen(rows[i].escape)) != 0; i++) {
        }
        n += rows[i].bytes;
        json += *rows[i].escape ? strlen(rows[i].escape) : 1;
    }
    return n;
}

static int check_annotation(const struct fn_kv *kv, struct fn_error *reterr)
{
    const char *wrong =
        strlen(kv->key) > MODEL_ANNOTATION_KEY_MAX
            ? "Invalid annotation key length, annotation keys may not be larger than 128 bytes"
        : !app_annotation_is_key(kv->key)
            ? "Invalid annotation key, annotation keys must be non-empty ascii strings excluding "
              "whitespace"
        : app_annotation_is_nothing(kv->value)
            ? "Invalid annotation value, annotation values may only be non-empty strings, numbers, "
              "objects, or arrays"
        : annotation_bytes(kv->value) > MODEL_ANNOTATION_BYTES_MAX
            ? "Invalid annotation value length, annotation values may not be larger than 512 bytes "
              "when serialized as JSON"
        : NULL;

    return wrong ? bad(reterr, wrong) : 0;
}

static int check_annotations(const struct kvs *k, struct fn_error *reterr)
{
    int r = k->n <= MODEL_ANNOTATIONS_MAX
                ? 0
                : bad(reterr, "Invalid annotation change, new key(s) exceed maximum permitted "
                              "number of annotations keys (100)");

    for (uint32_t i = 0; r == 0 && i < k->n; i++) {
        r = check_annotation(&k->items[i], reterr);
    }
    return r;
}

/* What a runner would refuse of a call is refused before it is kept. */
static int check_config(const struct kvs *k, struct fn_error *reterr)
{
    return k->n <= KVS_MAX ? 0
                           : err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER,
                                          "Invalid config, got %u keys; expected at most %d", k->n,
                                          KVS_MAX);
}

bool app_config_is_key(const char *key)
{
    return *key && !strchr(key, '=');
}

/* Of an API of others it is kept, and each call says it. */
static int check_config_kept(const struct kvs *k, struct fn_error *reterr)
{
    for (uint32_t i = 0; i < k->n; i++) {
        if (!app_config_is_key(k->items[i].key)) {
            return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER,
                                "config key, got \"%.60s\"; expected a name without \"=\"",
                                k->items[i].key);
        }
    }
    return 0;
}

static bool is_shape(const char *shape)
{
    static const char *const shapes[] = { "", "GENERIC_X86", "GENERIC_ARM", "GENERIC_X86_ARM" };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (strcmp(shape, shapes[i]) == 0) {
            return true;
        }
    }
    return false;
}

int app_check(const struct app *a, struct fn_error *reterr)
{
    const char *wrong =
        !*a->name ? "Missing Name"
        : strlen(a->name) > MODEL_NAME_MAX ? "App name must be 255 characters or less"
        : !app_name_is_plain(a->name) ? "Invalid app name"
        : NULL;

    if (wrong) {
        return bad(reterr, wrong);
    }
    if (check_annotations(&a->annotations, reterr) < 0 ||
        check_syslog(a->syslog_url, reterr) < 0 || check_config(&a->config, reterr) < 0) {
        return FN_E_INVALID;
    }
    return is_shape(a->shape) ? 0 : bad(reterr, "Invalid app shape");
}

int app_check_kept(const struct app *a, struct fn_error *reterr)
{
    return app_check(a, reterr) < 0 ? FN_E_INVALID : check_config_kept(&a->config, reterr);
}

int app_check_new(const struct app *a, struct fn_error *reterr)
{
    return *a->id ? bad(reterr, "App ID cannot be supplied on create") : app_check_kept(a, reterr);
}

static bool is_fn_name(const char *name)
{
    while (is_name_ascii(*name) || (*name && strchr(".~$&+:=@", *name))) {
        name++;
    }
    return !*name;
}

int fn_def_check(const struct fn_def *f, struct fn_error *reterr)
{
    const char *wrong =
        !*f->name ? "Missing Fn name"
        : strlen(f->name) > MODEL_NAME_MAX ? "Fn name must be 255 characters or less"
        : !is_fn_name(f->name) ? "name must be a valid string"
        : !*f->app_id ? "Missing AppID on Fn"
        : !*f->image ? "Missing image on Fn"
        : f->mem_mb < 1 || f->mem_mb > MODEL_MEM_MB_MAX
            ? "memory value is out of range. It should be between 0 and 8192"
        : f->timeout_s < 1 || f->timeout_s > MODEL_TIMEOUT_S_MAX
            ? "timeout value is out of range, must be between 0 and 300"
        : f->idle_timeout_s < 1 || f->idle_timeout_s > MODEL_IDLE_S_MAX
            ? "idle_timeout value is out of range, must be between 0 and 3600"
        : NULL;

    return wrong ? bad(reterr, wrong) : check_config(&f->config, reterr);
}

int fn_def_check_kept(const struct fn_def *f, struct fn_error *reterr)
{
    if (fn_def_check(f, reterr) < 0 || check_annotations(&f->annotations, reterr) < 0 ||
        check_config_kept(&f->config, reterr) < 0) {
        return FN_E_INVALID;
    }
    if (call_check_image(f->image, reterr) < 0) {
        reterr->blame = FN_BLAME_USER; /* who asks for it, not who was asked to run it */
        return FN_E_INVALID;
    }
    return 0;
}

int fn_def_check_new(const struct fn_def *f, struct fn_error *reterr)
{
    if (*f->id) {
        return bad(reterr, "ID cannot be provided for Fn creation");
    }
    return *f->app_id ? fn_def_check_kept(f, reterr) : bad(reterr, "Missing AppID on Fn");
}

int trigger_check(const struct trigger *t, struct fn_error *reterr)
{
    const char *wrong =
        !*t->app_id ? "Missing App ID on Trigger"
        : !*t->name ? "Missing name on Trigger"
        : strlen(t->name) > MODEL_NAME_MAX ? "Trigger name must be 255 characters or less"
        : !app_name_is_plain(t->name) ? "Invalid name for Trigger"
        : !*t->fn_id ? "Missing Fn ID on Trigger"
        : strcmp(t->type, TRIGGER_HTTP) != 0 ? "Trigger Type Not Supported"
        : !*t->source ? "Missing Trigger Source"
        : *t->source != '/' ? "Missing Trigger Source Prefix '/'"
        : NULL;

    return wrong ? bad(reterr, wrong) : check_annotations(&t->annotations, reterr);
}

int trigger_check_new(const struct trigger *t, struct fn_error *reterr)
{
    const char *wrong =
        *t->id ? "ID cannot be provided for Trigger creation"
        : t->created_ns ? "Trigger Created At Provided for Create"
        : t->updated_ns ? "Trigger ID Provided for Create"
        : NULL;

    return wrong ? bad(reterr, wrong) : trigger_check(t, reterr);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* One key of a change. 1: something else than before. */
static int merge_pair(struct kvs *to, const char *key, const char *value, bool remove)
{
    const char *old = kvs_get(to, key);

    if (remove) {
        kvs_remove(to, key);
        return old != NULL;
    }
    if (old && strcmp(old, value) == 0) {
        return 0;
    }
    return kvs_set(to, key, value) < 0 ? FN_E_EXHAUSTED : 1;
}

static int merge_pairs(struct kvs *to, const struct kvs *change, bool annotations)
{
    int changed = 0;
    int r = 0;

    for (uint32_t i = 0; i < change->n && r >= 0; i++) {
        const struct fn_kv *kv = &change->items[i];

        r = merge_pair(to, kv->key, kv->value,
                       annotations ? app_annotation_is_nothing(kv->value) : !*kv->value);
        changed |= r > 0;
    }
    return r < 0 ? r : changed;
}

/* Both parts, of which each is 0, 1 or < 0. */
static int both(int a, int b)
{
    return a < 0 ? a : b < 0 ? b : a | b;
}

static int merge_text(const char **to, const char *text)
{
    if (!*text || strcmp(*to, text) == 0) {
        return 0;
    }
    *to = text;
    return 1;
}

static int merge_i32(int32_t *to, int32_t n)
{
    if (n == 0 || *to == n) {
        return 0;
    }
    *to = n;
    return 1;
}

int app_merge(struct app *a, const struct app *change)
{
    int r = 0;

    if (change->syslog_url && strcmp(a->syslog_url, change->syslog_url) != 0) {
        a->syslog_url = change->syslog_url;
        r = 1;
    }
    r = both(r, merge_pairs(&a->config, &change->config, false));
    return both(r, merge_pairs(&a->annotations, &change->annotations, true));
}

int fn_def_merge(struct fn_def *f, const struct fn_def *change)
{
    int r = merge_text(&f->image, change->image);

    if (change->mem_mb && f->mem_mb != change->mem_mb) {
        f->mem_mb = change->mem_mb;
        r = 1;
    }
    r |= merge_i32(&f->timeout_s, change->timeout_s);
    r |= merge_i32(&f->idle_timeout_s, change->idle_timeout_s);
    r = both(r, merge_pairs(&f->config, &change->config, false));
    return both(r, merge_pairs(&f->annotations, &change->annotations, true));
}

int trigger_merge(struct trigger *t, const struct trigger *change)
{
    int r = merge_text(&t->name, change->name);

    r |= merge_text(&t->fn_id, change->fn_id);
    r |= merge_text(&t->source, change->source);
    return both(r, merge_pairs(&t->annotations, &change->annotations, true));
}
