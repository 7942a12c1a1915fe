/* Reads apps, functions and triggers from JSON by one table of fields each, and checks them by
 * Go Fn's rules, with its sentences. */
#include <model/app.h>
#include <model/json.h>

#include <string.h>
#include <strings.h>

void app_init(struct app *a, struct arena *arena)
{
    *a = (struct app){ .id = "", .name = "", .syslog_url = "" };
    kvs_init(&a->config, arena);
    kvs_init(&a->annotations, arena);
}

void fn_def_init(struct fn_def *f, struct arena *arena)
{
    *f = (struct fn_def){ .id = "", .name = "", .app_id = "", .image = "" };
    f->mem_mb = MODEL_MEM_MB_DEFAULT;
    f->timeout_s = MODEL_TIMEOUT_S_DEFAULT;
    f->idle_timeout_s = MODEL_IDLE_S_DEFAULT;
    kvs_init(&f->config, arena);
    kvs_init(&f->annotations, arena);
}

void trigger_init(struct trigger *t)
{
    *t = (struct trigger){ .id = "", .name = "", .app_id = "", .fn_id = "", .source = "" };
}

/* ---- decoding -------------------------------------------------------------------------------- */

enum type { T_TEXT, T_I32, T_U64, T_CONFIG, T_ANNOTATIONS };

struct field {
    const char *key;
    enum type type;
    size_t at;
};

static const struct field app_fields[] = {
    { "id", T_TEXT, offsetof(struct app, id) },
    { "name", T_TEXT, offsetof(struct app, name) },
    { "config", T_CONFIG, offsetof(struct app, config) },
    { "annotations", T_ANNOTATIONS, offsetof(struct app, annotations) },
    { "syslog_url", T_TEXT, offsetof(struct app, syslog_url) },
    { NULL, T_TEXT, 0 },
};

static const struct field fn_fields[] = {
    { "id", T_TEXT, offsetof(struct fn_def, id) },
    { "name", T_TEXT, offsetof(struct fn_def, name) },
    { "app_id", T_TEXT, offsetof(struct fn_def, app_id) },
    { "image", T_TEXT, offsetof(struct fn_def, image) },
    { "memory", T_U64, offsetof(struct fn_def, mem_mb) },
    { "timeout", T_I32, offsetof(struct fn_def, timeout_s) },
    { "idle_timeout", T_I32, offsetof(struct fn_def, idle_timeout_s) },
    { "config", T_CONFIG, offsetof(struct fn_def, config) },
    { "annotations", T_ANNOTATIONS, offsetof(struct fn_def, annotations) },
    { NULL, T_TEXT, 0 },
};

static const struct field trigger_fields[] = {
    { "id", T_TEXT, offsetof(struct trigger, id) },
    { "name", T_TEXT, offsetof(struct trigger, name) },
    { "app_id", T_TEXT, offsetof(struct trigger, app_id) },
    { "fn_id", T_TEXT, offsetof(struct trigger, fn_id) },
    { "source", T_TEXT, offsetof(struct trigger, source) },
    { NULL, T_TEXT, 0 },
};

/* A null value stands for nothing and must not reach a Go runner. */
static int read_map(struct jr *r, struct kvs *to, bool raw)
{
    const char *key;
    const char *value;
    int more = jr_open(r, JR_OBJECT);

    while (more >= 0 && (more = jr_member(r, &key)) == 1) {
        if (jr_peek(r) == JR_NULL) {
            more = jr_null(r);
            continue;
        }
        more = raw ? jr_raw(r, &value) : jr_string(r, &value);
        if (more == 0 && kvs_set(to, key, value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return more;
}

static int read_field(struct jr *r, const struct field *f, char *at)
{
    int64_t v;
    int e;

    if (jr_peek(r) == JR_NULL) {
        return jr_null(r);
    }
    switch (f->type) {
    case T_TEXT: return jr_string(r, (const char **)(void *)at);
    case T_CONFIG: return read_map(r, (struct kvs *)(void *)at, false);
    case T_ANNOTATIONS: return read_map(r, (struct kvs *)(void *)at, true);
    default: break;
    }
    e = jr_integer(r, &v);
    if (e == FN_E_RANGE || (e == 0 && (v < 0 || v > INT32_MAX))) {
        return jr_fail(r, "number out of range");
    }
    if (e == 0 && f->type == T_I32) {
        *(int32_t *)(void *)at = (int32_t)v;
    } else if (e == 0) {
        *(uint64_t *)(void *)at = (uint64_t)v;
    }
    return e;
}

static int read_object(struct jr *r, const struct field *fields, void *to)
{
    const struct field *f;
    const char *key;
    int more = jr_open(r, JR_OBJECT);

    while (more >= 0 && (more = jr_member(r, &key)) == 1) {
        for (f = fields; f->key && strcasecmp(f->key, key) != 0; f++) {
        }
        more = f->key ? read_field(r, f, (char *)to + f->at) : jr_skip(r);
    }
    return more;
}

static int app_finish(struct jr *r, int code, const char *what, struct fn_error *reterr)
{
    uint32_t line;
    uint32_t column;

    if (code >= 0) {
        return code;
    }
    jr_where(r, &line, &column);
    return err_set(reterr, code, "%s: %u:%u %s", what, line, column,
                   r->problem ? r->problem : "too large");
}

int app_from_json(struct app *a, struct arena *arena, const char *json, size_t len,
                  struct fn_error *reterr)
{
    struct jr r;

    app_init(a, arena);
    jr_init(&r, json, len, arena);
    return app_finish(&r, read_object(&r, app_fields, a), "app", reterr);
}

int fn_def_from_json(struct fn_def *f, struct arena *arena, const char *json, size_t len,
                     struct fn_error *reterr)
{
    struct jr r;

    fn_def_init(f, arena);
    jr_init(&r, json, len, arena);
    return app_finish(&r, read_object(&r, fn_fields, f), "function", reterr);
}

int trigger_from_json(struct trigger *t, struct arena *arena, const char *json, size_t len,
                      struct fn_error *reterr)
{
    struct jr r;

    trigger_init(t);
    jr_init(&r, json, len, arena);
    return app_finish(&r, read_object(&r, trigger_fields, t), "trigger", reterr);
}

int app_list_first(struct app *a, struct arena *arena, const char *json, size_t len,
                   struct fn_error *reterr)
{
    struct jr r;
    const char *key;
    bool found = false;
    int more;

    app_init(a, arena);
    jr_init(&r, json, len, arena);
    more = jr_open(&r, JR_OBJECT);
    while (more >= 0 && (more = jr_member(&r, &key)) == 1) {
        if (found || strcasecmp(key, "items") != 0 || jr_peek(&r) != JR_ARRAY) {
            more = jr_skip(&r);
            continue;
        }
        more = jr_open(&r, JR_ARRAY);
        while (more >= 0 && (more = jr_element(&r)) == 1) {
            more = found ? jr_skip(&r) : read_object(&r, app_fields, a);
            found = true;
        }
    }
    return more < 0 ? app_finish(&r, more, "apps", reterr) : !found;
}

const char *api_message(struct arena *arena, const char *json, size_t len)
{
    struct jr r;
    const char *key;
    const char *text = NULL;
    int more;

    jr_init(&r, json, len, arena);
    more = jr_open(&r, JR_OBJECT);
    while (more >= 0 && (more = jr_member(&r, &key)) == 1) {
        if (strcmp(key, "message") == 0 && jr_peek(&r) == JR_STRING) {
            more = jr_string(&r, &text);
        } else {
            more = jr_skip(&r);
        }
    }
    return more == 0 ? text : NULL;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Letters, digits, _ and -; bytes of other scripts stand for letters. */
static bool is_plain_name(const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c < 0x80 && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '-') {
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
    if (!*url || app_syslog_is_known(url)) {
        return 0;
    }
    return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER,
                        "invalid syslog url: \"%.64s\" invalid scheme, only [tcp, udp, unix, "
                        "unixgram, tcp+tls] are supported", url);
}

/* Keys 1..128 of '!'..'~', values not empty and at most 512 bytes, at most 100. */
static int check_annotations(const struct kvs *k, struct fn_error *reterr)
{
    if (k->n > 100) {
        return bad(reterr, "Invalid annotation change, new key(s) exceed maximum permitted number "
                           "of annotations keys (100)");
    }
    for (uint32_t i = 0; i < k->n; i++) {
        const char *p = k->items[i].key;
        const char *v = k->items[i].value;

        if (strlen(p) > 128) {
            return bad(reterr, "Invalid annotation key length, annotation keys may not be larger "
                               "than 128 bytes");
        }
        for (; *p > ' ' && *p <= '~'; p++) {
        }
        if (*p || p == k->items[i].key) {
            return bad(reterr, "Invalid annotation key, annotation keys must be non-empty ascii "
                               "strings excluding whitespace");
        }
        if (!*v || strcmp(v, "\"\"") == 0 || strcmp(v, "null") == 0) {
            return bad(reterr, "Invalid annotation value, annotation values may only be non-empty "
                               "strings, numbers, objects, or arrays");
        }
        if (strlen(v) > 512) {
            return bad(reterr, "Invalid annotation value length, annotation values may not be "
                               "larger than 512 bytes when serialized as JSON");
        }
    }
    return 0;
}

int app_check(const struct app *a, struct fn_error *reterr)
{
    if (!*a->name) {
        return bad(reterr, "Missing Name");
    }
    if (strlen(a->name) > MODEL_NAME_MAX) {
        return bad(reterr, "App name must be 255 characters or less");
    }
    if (!is_plain_name(a->name)) {
        return bad(reterr, "Invalid app name");
    }
    if (check_syslog(a->syslog_url, reterr) < 0) {
        return FN_E_INVALID;
    }
    return check_annotations(&a->annotations, reterr);
}

int fn_def_check(const struct fn_def *f, struct fn_error *reterr)
{
    if (!*f->name) {
        return bad(reterr, "Missing Fn name");
    }
    if (strlen(f->name) > MODEL_NAME_MAX) {
        return bad(reterr, "Fn name must be 255 characters or less");
    }
    for (const char *p = f->name; *p; p++) {
        if (!((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z') && !(*p >= '0' && *p <= '9') &&
            !strchr("-_.~$&+:=@", *p)) {
            return bad(reterr, "name must be a valid string");
        }
    }
    if (!*f->app_id) {
        return bad(reterr, "Missing AppID on Fn");
    }
    if (!*f->image) {
        return bad(reterr, "Missing image on Fn");
    }
    if (f->mem_mb < 1 || f->mem_mb > MODEL_MEM_MB_MAX) {
        return bad(reterr, "memory value is out of range. It should be between 0 and 8192");
    }
    if (f->timeout_s < 1 || f->timeout_s > MODEL_TIMEOUT_S_MAX) {
        return bad(reterr, "timeout value is out of range, must be between 0 and 300");
    }
    if (f->idle_timeout_s < 1 || f->idle_timeout_s > MODEL_IDLE_S_MAX) {
        return bad(reterr, "idle_timeout value is out of range, must be between 0 and 3600");
    }
    return check_annotations(&f->annotations, reterr);
}

int trigger_check(const struct trigger *t, struct fn_error *reterr)
{
    if (!*t->name) {
        return bad(reterr, "Missing name on Trigger");
    }
    if (strlen(t->name) > MODEL_NAME_MAX) {
        return bad(reterr, "Trigger name must be 255 characters or less");
    }
    if (!is_plain_name(t->name)) {
        return bad(reterr, "Invalid name for Trigger");
    }
    if (!*t->app_id || !*t->fn_id) {
        return bad(reterr, *t->app_id ? "Missing Fn ID on Trigger" : "Missing App ID on Trigger");
    }
    if (!*t->source) {
        return bad(reterr, "Missing Trigger Source");
    }
    return *t->source == '/' ? 0 : bad(reterr, "Missing Trigger Source Prefix '/'");
}
