/* The JSON of a call, written field by field and read by a table of fields; the checks of its
 * limits; and the slot key, by which calls of one function share containers. */
#include <model/call.h>
#include <model/json.h>
#include <model/time_text.h>

#include <fn/pool.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADERS_MAX     1024
#define IMAGE_MAX       512
#define USUAL_BYTES     1000 /* of a model without much of its own */
#define SORT_ON_STACK   64

/* ---- writing --------------------------------------------------------------------------------- */

#define LISTENER "unix:/tmp/iofs/lsnr.sock"
#define FORMAT   "http-stream"

const char *call_known_method(const char *method)
{
    static const char *const known[] = { "GET", "POST", "PUT", "DELETE", "HEAD", "PATCH",
                                         "OPTIONS" };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(method, known[i]) == 0) {
            return known[i];
        }
    }
    return NULL;
}

void call_init(struct call *c, struct arena *arena)
{
    *c = (struct call){ .arena = arena };
    c->id = c->image = c->url = c->method = c->syslog_url = "";
    c->app_id = c->app_name = c->trigger_id = c->fn_id = "";
    kvs_init(&c->config, arena);
    kvs_init(&c->annotations, arena);
    headers_init(&c->headers, arena);
}

struct fn_call call_view(const struct call *c, int64_t deadline_ns, struct fn_call_more *more)
{
    const char *group = kvs_get(&c->config, "FN_LB_GROUP_ID");

    return (struct fn_call){
        .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL),
        .id = c->id ? c->id : "",
        .fn_id = c->fn_id ? c->fn_id : "",
        .app_id = c->app_id ? c->app_id : "",
        .lb_group = group && group[0] ? group : FN_GROUP_DEFAULT,
        .mem_mb = c->mem_mb,
        .deadline_ns = deadline_ns,
        .kind = c->detached ? FN_CALL_DETACHED : FN_CALL_SYNC,
        .more = more,
    };
}

#define PUT(out, literal) buf_add(out, "" literal, sizeof(literal) - 1)

static void text_field(struct buf *out, const char *head, const char *value)
{
    if (value && *value) {
        buf_add_str(out, head);
        jw_string(out, value);
    }
}

static void int_field(struct buf *out, const char *head, uint64_t value)
{
    if (value) {
        buf_add_str(out, head);
        jw_int(out, (int64_t)value);
    }
}

/* In the order of the set, which is Go's of maps. */
static void map_field(struct buf *out, const char *head, const struct kvs *k, bool raw)
{
    if (k->n) {
        buf_add_str(out, head);
        kvs_to_json(k, raw, out);
    }
}

/* Names are in canonical form; the fields of one name become one list, names in order of bytes.
 * Insertion sort: a request has few fields. */
static int headers_field(struct buf *out, const struct headers *h)
{
    const struct header *small[SORT_ON_STACK];
    const struct header **at = small;
    uint32_t i;
    uint32_t j;

    if (!h->n) {
        return 0;
    }
    if (h->n > SORT_ON_STACK && !(at = malloc(h->n * sizeof(*at)))) {
        return FN_E_EXHAUSTED;
    }
    for (i = 0; i < h->n; i++) {
        for (j = i; j > 0 && strcmp(at[j - 1]->name, h->items[i].name) > 0; j--) {
            at[j] = at[j - 1];
        }
        at[j] = &h->items[i];
    }
    PUT(out, ",\"headers\":{");
    for (i = 0; i < h->n; i++) {
        if (i > 0 && strcmp(at[i - 1]->name, at[i]->name) == 0) {
            PUT(out, ",");
        } else {
            if (i > 0) {
                PUT(out, "],");
            }
            jw_string(out, at[i]->name);
            PUT(out, ":[");
        }
        jw_string(out, at[i]->value);
    }
    PUT(out, "]}");
    if (at != small) {
        free(at);
    }
    return 0;
}

static void date_field(struct buf *out, const char *head, int64_t wall_ns)
{
    char text[TIME_TEXT_MAX];

    time_print_ms(wall_ns, text);
    buf_add_str(out, head);
    buf_add_str(out, text);
}

int call_to_json(const struct call *c, struct buf *out)
{
    size_t before = out->len;

    /* One reservation for the usual call; buf_add() can still fail, which the end check finds. */
    if (!buf_reserve(out, USUAL_BYTES)) {
        return FN_E_EXHAUSTED;
    }
    PUT(out, "{\"id\":");
    jw_string(out, c->id);
    PUT(out, ",\"status\":\"running\"");
    text_field(out, ",\"image\":", c->image);
    buf_add_str(out, c->detached ? ",\"type\":\"detached\"" : ",\"type\":\"sync\"");
    text_field(out, ",\"url\":", c->url);
    text_field(out, ",\"method\":", c->method);
    int_field(out, ",\"timeout\":", (uint64_t)c->timeout_s);
    int_field(out, ",\"idle_timeout\":", (uint64_t)c->idle_timeout_s);
    int_field(out, ",\"tmpfs_size\":", c->tmpfs_mb);
    int_field(out, ",\"memory\":", c->mem_mb);
    if (c->cpu_milli) {
        PUT(out, ",\"cpus\":\"");
        jw_int(out, (int64_t)c->cpu_milli);
        PUT(out, "m\"");
    }
    map_field(out, ",\"config\":", &c->config, false);
    map_field(out, ",\"annotations\":", &c->annotations, true);
    if (headers_field(out, &c->headers) < 0) {
        out->len = before;
        return FN_E_EXHAUSTED;
    }
    text_field(out, ",\"syslog_url\":", c->syslog_url);
    date_field(out, ",\"completed_at\":\"", c->completed_wall_ns);
    date_field(out, "\",\"created_at\":\"", c->created_wall_ns);
    date_field(out, "\",\"started_at\":\"", c->started_wall_ns);
    PUT(out, "\",\"app_id\":");
    jw_string(out, c->app_id);
    PUT(out, ",\"app_name\":");
    jw_string(out, c->app_name);
    PUT(out, ",\"trigger_id\":");
    jw_string(out, c->trigger_id);
    PUT(out, ",\"fn_id\":");
    /* A buffer that could not grow once cannot take this either, or is cut: find out here. */
    if (jw_string(out, c->fn_id) < 0 || PUT(out, "}") < 0) {
        out->len = before;
        return FN_E_EXHAUSTED;
    }
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum field_type { F_TEXT, F_I32, F_U32, F_U64, F_CPUS, F_TYPE, F_CONFIG, F_ANNOTATIONS, F_HEADERS,
                  F_DATE };

struct field {
    const char *key;
    enum field_type type;
    size_t at;
};

#define AT(member) offsetof(struct call, member)

/* In the order in which Go writes them, so that the next key is usually the next row. */
static const struct field fields[] = {
    { "id", F_TEXT, AT(id) },
    { "image", F_TEXT, AT(image) },
    { "type", F_TYPE, 0 },
    { "url", F_TEXT, AT(url) },
    { "method", F_TEXT, AT(method) },
    { "timeout", F_I32, AT(timeout_s) },
    { "idle_timeout", F_I32, AT(idle_timeout_s) },
    { "tmpfs_size", F_U32, AT(tmpfs_mb) },
    { "memory", F_U64, AT(mem_mb) },
    { "cpus", F_CPUS, 0 },
    { "config", F_CONFIG, 0 },
    { "annotations", F_ANNOTATIONS, 0 },
    { "headers", F_HEADERS, 0 },
    { "syslog_url", F_TEXT, AT(syslog_url) },
    { "completed_at", F_DATE, AT(completed_wall_ns) },
    { "created_at", F_DATE, AT(created_wall_ns) },
    { "started_at", F_DATE, AT(started_wall_ns) },
    { "app_id", F_TEXT, AT(app_id) },
    { "app_name", F_TEXT, AT(app_name) },
    { "trigger_id", F_TEXT, AT(trigger_id) },
    { "fn_id", F_TEXT, AT(fn_id) },
};

#define FIELDS_N (sizeof(fields) / sizeof(fields[0]))

struct decode {
    struct jr r;
    struct call *c;
    struct fn_error *err;
    bool range; /* err holds a RUN405 already */
};

static int range_error(struct decode *d, const char *key, int64_t got, const char *rule)
{
    d->range = true;
    return err_set(d->err, FN_E_INVALID, "RUN405 %s, got %lld; expected %s", key, (long long)got,
                   rule);
}

static int read_number(struct decode *d, const struct field *f)
{
    char *at = (char *)d->c + f->at;
    int64_t v;
    int r = jr_integer(&d->r, &v);

    if (r == FN_E_INVALID || r == FN_E_EXHAUSTED) {
        return r;
    }
    switch (f->type) {
    case F_I32:
        if (r < 0 || v < INT32_MIN || v > INT32_MAX) {
            return range_error(d, f->key, v, "whole seconds");
        }
        *(int32_t *)(void *)at = (int32_t)v;
        return 0;
    case F_U32:
        if (r < 0 || v < 0 || v > UINT32_MAX) {
            return range_error(d, f->key, v, "0..4294967295 MB");
        }
        *(uint32_t *)(void *)at = (uint32_t)v;
        return 0;
    default:
        if (r < 0 || v < 0) {
            return range_error(d, f->key, v, "a positive number of MB");
        }
        *(uint64_t *)(void *)at = (uint64_t)v;
        return 0;
    }
}

/* "250m", "0.25", "". */
static int read_cpus(struct decode *d)
{
    const char *text;
    char *end;
    double v;

    if (jr_string(&d->r, &text) < 0) {
        return d->r.failed;
    }
    if (!*text) {
        d->c->cpu_milli = 0;
        return 0;
    }
    v = strtod(text, &end);
    if (end == text || (text[0] != '.' && (text[0] < '0' || text[0] > '9')) ||
        strpbrk(text, "xXpP")) {
        return jr_fail(&d->r, "expected cpus as \"250m\" or \"0.25\"");
    }
    if (*end == 'm') {
        end++;
    } else {
        v *= 1000;
    }
    if (*end) {
        return jr_fail(&d->r, "expected cpus as \"250m\" or \"0.25\"");
    }
    if (!(v >= 0 && v <= MODEL_CPU_MILLI_MAX)) {
        d->range = true;
        return err_set(d->err, FN_E_INVALID, "RUN405 cpus, got \"%.40s\"; expected 0m..%dm", text,
                       MODEL_CPU_MILLI_MAX);
    }
    d->c->cpu_milli = (uint64_t)(v + 0.5);
    return 0;
}

static int add_header(struct decode *d, const char *name)
{
    struct headers *h = &d->c->headers;
    const char *value;

    if (jr_peek(&d->r) == JR_NULL) {
        value = "";
        jr_null(&d->r);
    } else {
        jr_string(&d->r, &value);
    }
    if (d->r.failed) {
        return d->r.failed;
    }
    if (h->n == HEADERS_MAX) {
        return jr_fail(&d->r, "more than 1024 header fields");
    }
    return headers_add_borrowed(h, name, value);
}

static int read_headers(struct decode *d)
{
    const char *name;
    int more = jr_open(&d->r, JR_OBJECT);

    while (more >= 0 && (more = jr_member(&d->r, &name)) == 1) {
        if (jr_peek(&d->r) == JR_NULL) {
            more = jr_null(&d->r);
            continue;
        }
        more = jr_open(&d->r, JR_ARRAY);
        while (more >= 0 && (more = jr_element(&d->r)) == 1) {
            more = add_header(d, name);
        }
    }
    return more;
}

static int read_field(struct decode *d, const struct field *f)
{
    const char *text;
    int64_t ns;

    if (jr_peek(&d->r) == JR_NULL) {
        return jr_null(&d->r);
    }
    switch (f->type) {
    case F_TEXT: return jr_string(&d->r, (const char **)(void *)((char *)d->c + f->at));
    case F_CPUS: return read_cpus(d);
    case F_CONFIG: return kvs_read(&d->r, BY_PEER, false, &d->c->config);
    case F_ANNOTATIONS: return kvs_read(&d->r, BY_PEER, true, &d->c->annotations);
    case F_HEADERS: return read_headers(d);
    case F_TYPE:
        if (jr_string(&d->r, &text) < 0) {
            return d->r.failed;
        }
        d->c->detached = strcmp(text, "detached") == 0;
        return 0;
    case F_DATE:
        if (jr_string(&d->r, &text) < 0) {
            return d->r.failed;
        }
        if (time_parse(text, &ns) < 0) {
            return jr_fail(&d->r, "expected a date like 2006-01-02T15:04:05.000Z");
        }
        *(int64_t *)(void *)((char *)d->c + f->at) = ns;
        return 0;
    default: return read_number(d, f);
    }
}

static const struct field *field_of(const char *key, size_t guess)
{
    for (size_t i = 0; i < FIELDS_N; i++) {
        size_t at = guess + i;
        const struct field *f = &fields[at < FIELDS_N ? at : at - FIELDS_N];

        if ((f->key[0] ^ key[0]) % 32 == 0 &&
            (strcmp(f->key, key) == 0 || strcasecmp(f->key, key) == 0)) {
            return f;
        }
    }
    return NULL;
}

int call_from_json(struct call *c, const char *json, size_t len, struct fn_error *reterr)
{
    struct decode d = { .c = c, .err = reterr };
    const struct field *f;
    uint32_t seen = 0;
    size_t guess = 0;
    const char *key;
    int more;

    jr_init(&d.r, json, len, c->arena);
    more = jr_open(&d.r, JR_OBJECT);
    while (more >= 0 && (more = jr_member(&d.r, &key)) == 1) {
        f = field_of(key, guess);
        if (!f) {
            more = jr_skip(&d.r);
            continue;
        }
        guess = (size_t)(f - fields);
        if (seen & 1u << guess) {
            more = jr_fail(&d.r, "duplicate key");
            break;
        }
        seen |= 1u << guess;
        guess++;
        more = read_field(&d, f);
    }
    if (more == 0 || d.range) {
        return more;
    }
    return jr_error(&d.r, more, "RUN404 call model", reterr);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* What engines take as a name: parts of letters, digits and . _ - divided by /, a registry's port,
 * one tag, one digest. */
bool call_image_is_name(const char *image)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t len = strlen(image);
    const char *slash = strrchr(image, '/');
    const char *at = strchr(image, '@');
    uint32_t colons = 0;

    if (len == 0 || len > IMAGE_MAX || !strchr(first, image[0])) {
        return false;
    }
    for (const char *p = image; *p; p++) {
        if (!((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z') && !(*p >= '0' && *p <= '9') &&
            !strchr("._-/:@+", *p)) {
            return false;
        }
        if (*p == ':' && (!slash || p > slash) && (!at || p < at)) {
            colons++;
        }
    }
    return colons <= 1 && image[len - 1] != ':' && image[len - 1] != '/' && image[len - 1] != '@';
}

int call_check_image(const char *image, struct fn_error *reterr)
{
    return call_image_is_name(image)
               ? 0
               : err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                              "RUN406 image name, got \"%.64s\"; expected registry/name:tag",
                              image);
}

int call_check(const struct call *c, struct fn_error *reterr)
{
    if (call_check_image(c->image, reterr) < 0) {
        return FN_E_INVALID;
    }
    if (c->timeout_s < 1 || c->timeout_s > MODEL_TIMEOUT_S_MAX) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN405 timeout, got %d; expected whole seconds 1..%d", c->timeout_s,
                       MODEL_TIMEOUT_S_MAX);
    }
    if (c->idle_timeout_s < 1 || c->idle_timeout_s > MODEL_IDLE_S_MAX) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN405 idle_timeout, got %d; expected whole seconds 1..%d",
                       c->idle_timeout_s, MODEL_IDLE_S_MAX);
    }
    if (c->mem_mb < 1) {
        return err_set(reterr, FN_E_INVALID, "RUN405 memory, got 0; expected 1 MB or more");
    }
    if (c->cpu_milli > MODEL_CPU_MILLI_MAX) {
        return err_set(reterr, FN_E_INVALID, "RUN405 cpus, got %llum; expected 0m..%dm",
                       (unsigned long long)c->cpu_milli, MODEL_CPU_MILLI_MAX);
    }
    if (!c->fn_id[0] || !c->app_id[0]) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN404 fn_id and app_id, got \"%.32s\" and \"%.32s\"; expected both",
                       c->fn_id, c->app_id);
    }
    return 0;
}

/* ---- slot key -------------------------------------------------------------------------------- */

static int key_text(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s) + 1);
}

static int key_number(struct buf *b, uint64_t v, size_t bytes)
{
    unsigned char le[8];

    for (size_t i = 0; i < bytes; i++) {
        le[i] = (unsigned char)(v >> (8 * i));
    }
    return buf_add(b, le, bytes);
}

static int key_map(struct buf *b, const struct kvs *k)
{
    for (uint32_t i = 0; i < k->n; i++) {
        if (key_text(b, k->items[i].key) < 0 || key_text(b, k->items[i].value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

int call_identity(const struct call *c, const char *extension, struct buf *out)
{
    int r = 0;

    r |= key_text(out, c->app_id) | key_text(out, c->syslog_url) | key_text(out, c->fn_id);
    r |= key_text(out, c->image) | key_number(out, (uint32_t)c->timeout_s, 4);
    r |= key_number(out, (uint32_t)c->idle_timeout_s, 4) | key_number(out, c->tmpfs_mb, 4);
    r |= key_number(out, c->mem_mb, 8) | key_number(out, c->cpu_milli, 8) | key_number(out, 0, 1);
    r |= key_map(out, &c->config) | key_number(out, 0, 1) | key_map(out, &c->annotations);
    if (*extension) {
        r |= key_text(out, extension);
    }
    return r == 0 ? 0 : FN_E_EXHAUSTED;
}

void call_slot_key(const struct buf *identity, unsigned char ret[SLOT_KEY_BYTES])
{
    SHA256((const unsigned char *)identity->data, identity->len, ret);
}

int call_add_contract(struct call *c)
{
    return kvs_set_borrowed(&c->config, "FN_LISTENER", LISTENER) < 0 ||
                   kvs_set_borrowed(&c->config, "FN_FORMAT", FORMAT) < 0
               ? FN_E_EXHAUSTED
               : 0;
}

void call_key_hex(const unsigned char key[SLOT_KEY_BYTES], char ret[SLOT_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < SLOT_KEY_BYTES; i++) {
        ret[2 * i] = digits[key[i] >> 4];
        ret[2 * i + 1] = digits[key[i] & 15];
    }
    ret[SLOT_HEX_BYTES - 1] = '\0';
}

static int make_slot_hex(struct call *c, struct buf *identity, char ret[SLOT_HEX_BYTES])
{
    unsigned char key[SLOT_KEY_BYTES];

    if (call_add_contract(c) < 0 || call_identity(c, "", identity) < 0) {
        return FN_E_EXHAUSTED;
    }
    call_slot_key(identity, key);
    call_key_hex(key, ret);
    return 0;
}

int call_slot_hex(const struct call *c, char ret[SLOT_HEX_BYTES])
{
    struct buf identity = BUF_INIT(0);
    struct call own = *c;
    struct arena arena;
    int r;

    arena_init(&arena, 0);
    kvs_init(&own.config, &arena); /* c's may be shared */
    r = kvs_copy(&own.config, &c->config);
    if (r == 0) {
        r = make_slot_hex(&own, &identity, ret);
    }
    buf_finish(&identity);
    arena_finish(&arena);
    return r;
}
