/* Apps, functions and triggers as JSON, by one table of fields each: read from an API node's
 * answer, which is believed as far as it goes, or from a client, who is held to the letter; and
 * written. */
#include <model/app.h>

#include <base/utf8.h>
#include <model/json.h>
#include <model/time_text.h>
#include <string.h>
#include <strings.h>

/* SIZE: MB. In the order in which fields are written; how each is when it says nothing: */
enum type { T_TEXT, T_I32, T_SIZE, T_CONFIG, T_ANNOTATIONS, T_DATE };

#define ALWAYS 1u /* written also when it is empty */

struct field {
    const char *key;
    enum type type;
    size_t at;
    uint32_t flags;
};

static const struct field app_fields[] = {
    { "id", T_TEXT, offsetof(struct app, id), ALWAYS },
    { "name", T_TEXT, offsetof(struct app, name), ALWAYS },
    { "config", T_CONFIG, offsetof(struct app, config), 0 },
    { "annotations", T_ANNOTATIONS, offsetof(struct app, annotations), 0 },
    { "syslog_url", T_TEXT, offsetof(struct app, syslog_url), 0 },
    { "shape", T_TEXT, offsetof(struct app, shape), 0 },
    { "created_at", T_DATE, offsetof(struct app, created_ns), ALWAYS },
    { "updated_at", T_DATE, offsetof(struct app, updated_ns), ALWAYS },
    { NULL, T_TEXT, 0, 0 },
};

static const struct field fn_fields[] = {
    { "id", T_TEXT, offsetof(struct fn_def, id), ALWAYS },
    { "name", T_TEXT, offsetof(struct fn_def, name), ALWAYS },
    { "app_id", T_TEXT, offsetof(struct fn_def, app_id), ALWAYS },
    { "image", T_TEXT, offsetof(struct fn_def, image), ALWAYS },
    { "memory", T_SIZE, offsetof(struct fn_def, mem_mb), 0 },
    { "timeout", T_I32, offsetof(struct fn_def, timeout_s), 0 },
    { "idle_timeout", T_I32, offsetof(struct fn_def, idle_timeout_s), 0 },
    { "config", T_CONFIG, offsetof(struct fn_def, config), ALWAYS },
    { "annotations", T_ANNOTATIONS, offsetof(struct fn_def, annotations), 0 },
    { "created_at", T_DATE, offsetof(struct fn_def, created_ns), ALWAYS },
    { "shape", T_TEXT, offsetof(struct fn_def, shape), 0 },
    { "updated_at", T_DATE, offsetof(struct fn_def, updated_ns), ALWAYS },
    { NULL, T_TEXT, 0, 0 },
};

static const struct field trigger_fields[] = {
    { "id", T_TEXT, offsetof(struct trigger, id), ALWAYS },
    { "name", T_TEXT, offsetof(struct trigger, name), ALWAYS },
    { "app_id", T_TEXT, offsetof(struct trigger, app_id), ALWAYS },
    { "fn_id", T_TEXT, offsetof(struct trigger, fn_id), ALWAYS },
    { "created_at", T_DATE, offsetof(struct trigger, created_ns), ALWAYS },
    { "updated_at", T_DATE, offsetof(struct trigger, updated_ns), ALWAYS },
    { "type", T_TEXT, offsetof(struct trigger, type), ALWAYS },
    { "source", T_TEXT, offsetof(struct trigger, source), ALWAYS },
    { "annotations", T_ANNOTATIONS, offsetof(struct trigger, annotations), 0 },
    { NULL, T_TEXT, 0, 0 },
};

/* ---- reading --------------------------------------------------------------------------------- */

/* A node's odd date is nobody's trouble. */
static int read_date(struct jr *r, enum json_writer writer, int64_t *to)
{
    const char *text;

    if (writer == BY_NODE && jr_peek(r) != JR_STRING) {
        return jr_skip(r);
    }
    if (jr_string(r, &text) < 0) {
        return r->failed;
    }
    return time_parse(text, to) == 0 || writer == BY_NODE ? 0 : jr_fail(r, "expected a date");
}

/* What is too much for a rule is left to the rule, whose sentence says more. */
static int read_number(struct jr *r, enum json_writer writer, enum type type, char *at)
{
    int64_t min = type == T_SIZE || writer == BY_NODE ? 0 : INT32_MIN;
    int64_t v;
    int e = jr_integer(r, &v);

    if (e == FN_E_INVALID || e == FN_E_EXHAUSTED) {
        return e;
    }
    if (type == T_SIZE && writer == BY_CLIENT && v > INT32_MAX) {
        v = INT32_MAX;
    }
    if (v < min || v > INT32_MAX) {
        return jr_fail(r, "number out of range");
    }
    if (type == T_SIZE) {
        *(uint64_t *)(void *)at = (uint64_t)v;
    } else {
        *(int32_t *)(void *)at = (int32_t)v;
    }
    return 0;
}

static int read_field(struct jr *r, enum json_writer writer, const struct field *f, char *at)
{
    if (jr_peek(r) == JR_NULL) {
        return jr_null(r);
    }
    switch (f->type) {
    case T_TEXT: return jr_string(r, (const char **)(void *)at);
    case T_CONFIG:
    case T_ANNOTATIONS:
        return kvs_read(r, writer, f->type == T_ANNOTATIONS, (struct kvs *)(void *)at);
    case T_DATE: return read_date(r, writer, (int64_t *)(void *)at);
    case T_SIZE:
    case T_I32: return read_number(r, writer, f->type, at);
    }
    return FN_E_INTERNAL;
}

static int read_object(struct jr *r, enum json_writer writer, const struct field *fields, void *to)
{
    const struct field *f;
    const char *key;
    uint32_t seen = 0;
    int more = jr_open(r, JR_OBJECT);

    while (more >= 0 && (more = jr_member(r, &key)) == 1) {
        for (f = fields; f->key && strcasecmp(f->key, key) != 0; f++) {
        }
        if (!f->key) {
            more = jr_skip(r);
            continue;
        }
        if (writer == BY_CLIENT && seen & 1u << (f - fields)) {
            return jr_fail(r, TEXT_TWICE);
        }
        seen |= 1u << (f - fields);
        more = read_field(r, writer, f, (char *)to + f->at);
    }
    return more;
}

/* A text that is no UTF-8 would be kept as something else than what was sent. */
static int check_utf8(struct jr *r)
{
    const char *start = r->p;
    uint32_t n;

    while (!r->failed && r->p < r->end) {
        n = utf8_sequence(r->p, r->end);
        if (n == 0) {
            return jr_fail(r, "a byte that is no UTF-8");
        }
        r->p += n;
    }
    r->p = start;
    return r->failed;
}

static int read_whole(const struct field *fields, void *to, enum json_writer by,
                      struct arena *arena, const char *json, size_t len, const char *what,
                      struct fn_error *reterr)
{
    struct jr r;
    int e;

    jr_init(&r, json, len, arena);
    e = by == BY_CLIENT ? check_utf8(&r) : 0;
    e = e < 0 ? e : read_object(&r, by, fields, to);
    if (e == 0 && by == BY_CLIENT) {
        e = jr_end(&r);
    }
    return e < 0 ? jr_error(&r, e, by == BY_CLIENT ? "body" : what, reterr) : e;
}

int app_from_json(struct app *a, enum json_writer by, struct arena *arena, const char *json,
                  size_t len, struct fn_error *reterr)
{
    app_init(a, arena);
    a->syslog_url = by == BY_CLIENT ? NULL : "";
    return read_whole(app_fields, a, by, arena, json, len, "app", reterr);
}

int fn_def_from_json(struct fn_def *f, enum json_writer by, struct arena *arena, const char *json,
                     size_t len, struct fn_error *reterr)
{
    fn_def_init(f, arena);
    if (by == BY_CLIENT) {
        f->mem_mb = 0;
        f->timeout_s = f->idle_timeout_s = 0;
    }
    return read_whole(fn_fields, f, by, arena, json, len, "function", reterr);
}

int trigger_from_json(struct trigger *t, enum json_writer by, struct arena *arena,
                      const char *json, size_t len, struct fn_error *reterr)
{
    trigger_init(t, arena);
    return read_whole(trigger_fields, t, by, arena, json, len, "trigger", reterr);
}

static int read_first(struct jr *r, struct app *a, bool *found)
{
    int more = jr_open(r, JR_ARRAY);

    while (more >= 0 && (more = jr_element(r)) == 1) {
        more = *found ? jr_skip(r) : read_object(r, BY_NODE, app_fields, a);
        *found = true;
    }
    return more;
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
        } else {
            more = read_first(&r, a, &found);
        }
    }
    return more < 0 ? jr_error(&r, more, "apps", reterr) : !found;
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

/* ---- writing --------------------------------------------------------------------------------- */

static bool field_is_empty(const struct field *f, const char *at)
{
    switch (f->type) {
    case T_TEXT: return !*(const char *const *)(const void *)at ||
                        !**(const char *const *)(const void *)at;
    case T_I32: return *(const int32_t *)(const void *)at == 0;
    case T_SIZE: return *(const uint64_t *)(const void *)at == 0;
    case T_DATE: return *(const int64_t *)(const void *)at == 0;
    case T_CONFIG:
    case T_ANNOTATIONS: return ((const struct kvs *)(const void *)at)->n == 0;
    }
    return false;
}

static int write_date(struct buf *out, int64_t wall_ns)
{
    char text[TIME_TEXT_MAX];

    time_print_ms(wall_ns, text);
    return jw_string(out, text);
}

/* What a file leaves out is NULL there. */
static int write_text(struct buf *out, const char *text)
{
    return jw_string(out, text ? text : "");
}

static int write_value(const struct field *f, const char *at, struct buf *out)
{
    switch (f->type) {
    case T_TEXT: return write_text(out, *(const char *const *)(const void *)at);
    case T_I32: return jw_int(out, *(const int32_t *)(const void *)at);
    case T_SIZE: return jw_int(out, (int64_t) * (const uint64_t *)(const void *)at);
    case T_DATE: return write_date(out, *(const int64_t *)(const void *)at);
    case T_CONFIG: return kvs_to_json((const struct kvs *)(const void *)at, false, out);
    case T_ANNOTATIONS: return kvs_to_json((const struct kvs *)(const void *)at, true, out);
    }
    return FN_E_INTERNAL;
}

static int write_object(const struct field *fields, const void *from, struct buf *out)
{
    const char *between = "{\"";
    int r = 0;

    for (const struct field *f = fields; f->key && r == 0; f++) {
        const char *at = (const char *)from + f->at;

        if (field_is_empty(f, at) && !(f->flags & ALWAYS)) {
            continue;
        }
        r = buf_add(out, between, 2);
        r = r < 0 ? r : buf_add_str(out, f->key);
        r = r < 0 ? r : buf_add(out, "\":", 2);
        r = r < 0 ? r : write_value(f, at, out);
        between = ",\"";
    }
    return r < 0 ? r : buf_add(out, "}", 1);
}

int app_to_json(const struct app *a, struct buf *out)
{
    return write_object(app_fields, a, out);
}

int fn_def_to_json(const struct fn_def *f, struct buf *out)
{
    return write_object(fn_fields, f, out);
}

int trigger_to_json(const struct trigger *t, struct buf *out)
{
    return write_object(trigger_fields, t, out);
}
