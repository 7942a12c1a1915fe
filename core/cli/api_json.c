/* The API's JSON with annotations as it was written: there each value is a text of JSON.
 *
 * Numbers in annotations may be larger or finer than jansson's, and a function whose annotations
 * are spelled in another way is another one to runners that share hot containers. */
#include <cli/api_tree.h>

#include <base/utf8.h>
#include <model/json.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_DEPTH 8 /* of a page around what a client may nest, to JR_DEPTH_MAX */
#define KEY_MAX 160  /* bytes; YAML looks for a colon within 1024 characters, of up to six a byte */

static const char annotations_key[] = "annotations";

/* ---- reading --------------------------------------------------------------------------------- */

/* What any member is but for those below; raw: the text of its JSON. NULL: told by r, or out of
 * memory. */
static json_t *read_plain(struct jr *r, bool raw)
{
    const char *text;

    if (jr_raw(r, &text) < 0) {
        return NULL;
    }
    return raw ? json_string(text) : json_loads(text, JSON_DECODE_ANY, NULL);
}

static json_t *read_object(struct jr *r, bool raw);

static json_t *read_items(struct jr *r)
{
    json_t *list = json_array();
    int more = jr_open(r, JR_ARRAY);

    while (more >= 0 && (more = jr_element(r)) == 1) {
        more = json_array_append_new(list, read_object(r, false));
    }
    if (more < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* raw: of annotations. */
static json_t *read_object(struct jr *r, bool raw)
{
    json_t *o = json_object();
    const char *key;
    int more = jr_open(r, JR_OBJECT);

    while (more >= 0 && (more = jr_member(r, &key)) == 1) {
        enum jr_kind kind = jr_peek(r);
        json_t *v;

        if (!raw && kind == JR_ARRAY && strcmp(key, "items") == 0) {
            v = read_items(r);
        } else if (!raw && kind == JR_OBJECT && strcmp(key, annotations_key) == 0) {
            v = read_object(r, true);
        } else {
            v = read_plain(r, raw);
        }
        more = json_object_set_new(o, key, v);
    }
    if (more < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *api_json_read(const char *text, size_t len)
{
    struct arena arena;
    struct jr r;
    json_t *o;

    arena_init(&arena, 0);
    jr_init(&r, text, len, &arena);
    r.depth_max = JR_DEPTH_MAX + PAGE_DEPTH;
    o = read_object(&r, false);
    if (jr_end(&r) < 0) {
        json_decref(o);
        o = NULL;
    }
    arena_finish(&arena);
    return o;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_member(struct buf *out, const char *key, const json_t *v, bool raw)
{
    char *text = raw ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *value = raw ? json_string_value(v) : text;
    int r = value ? 0 : FN_E_EXHAUSTED;

    r = r < 0 ? r : jw_string(out, key);
    r = r < 0 ? r : buf_add_str(out, ":");
    r = r < 0 ? r : buf_add_str(out, value);
    free(text);
    return r;
}

static int write_object(struct buf *out, const json_t *o, bool raw)
{
    const char *between = "{";
    const char *key;
    json_t *v;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        r = r < 0 ? r : buf_add_str(out, between);
        between = ",";
        if (r == 0 && !raw && strcmp(key, annotations_key) == 0) {
            r = buf_add_str(out, "\"annotations\":");
            r = r < 0 ? r : write_object(out, v, true);
        } else {
            r = r < 0 ? r : write_member(out, key, v, raw);
        }
    }
    return r < 0 ? r : buf_add_str(out, *between == '{' ? "{}" : "}");
}

int api_json_write(const json_t *item, struct buf *out)
{
    return write_object(out, item, false);
}

/* ---- annotations ----------------------------------------------------------------------------- */

bool api_json_same(const json_t *a, const json_t *b)
{
    const char *x = json_string_value(a);
    const char *y = json_string_value(b);
    json_t *u = x && y ? json_loads(x, JSON_DECODE_ANY, NULL) : NULL;
    json_t *v = u ? json_loads(y, JSON_DECODE_ANY, NULL) : NULL;
    bool same = json_equal(a, b) || (u && v && json_equal(u, v));

    json_decref(u);
    json_decref(v);
    return same;
}

int api_json_print_value(const json_t *v, struct buf *out)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    const char *end = text ? text + strlen(text) : NULL;
    int r = text ? 0 : FN_E_EXHAUSTED;
    uint32_t n, code;

    for (const char *at = text; at < end && r == 0; at += n) {
        n = utf8_sequence(at, end);
        code = utf8_code(at, n);
        r = utf8_is_dangerous(code) || code == 0xfffe || code == 0xffff
                ? buf_printf(out, "\\u%04x", code)
                : buf_add(out, at, n);
    }
    free(text);
    return r;
}

/* JSON's texts and lists are YAML's, but for what its escapes make of pairs. */
static int print_text(struct buf *out, const char *text)
{
    json_t *s = json_string(text);
    int r = api_json_print_value(s, out);

    json_decref(s);
    return r;
}

int api_json_print_key(const char *key, int indent, struct buf *out)
{
    bool alone = strlen(key) > KEY_MAX;
    int r = alone ? buf_add_str(out, "? ") : 0;

    r = r < 0 ? r : print_text(out, key);
    r = r < 0 || !alone || indent == 0 ? r : buf_printf(out, "\n%*s", indent, "");
    return r < 0 ? r : buf_add_str(out, ":");
}

static int print_any(struct jr *r, struct buf *out)
{
    enum jr_kind kind = jr_peek(r);
    const char *between = kind == JR_OBJECT ? "{" : "[";
    const char *text;
    int more;

    if (kind != JR_OBJECT && kind != JR_ARRAY) {
        more = kind == JR_STRING ? jr_string(r, &text) : jr_raw(r, &text);
        return more < 0 ? more : kind == JR_STRING ? print_text(out, text) : buf_add_str(out, text);
    }
    more = jr_open(r, kind);
    while (more >= 0 && (more = kind == JR_OBJECT ? jr_member(r, &text) : jr_element(r)) == 1) {
        more = buf_add_str(out, between);
        between = ",";
        more = more < 0 || kind == JR_ARRAY ? more : api_json_print_key(text, 0, out);
        more = more < 0 ? more : print_any(r, out);
    }
    more = more < 0 || *between == ',' ? more : buf_add_str(out, between);
    return more < 0 ? more : buf_add_str(out, kind == JR_OBJECT ? "}" : "]");
}

int api_json_print(const char *raw, struct buf *out)
{
    size_t before = out->len;
    struct arena arena;
    struct jr r;

    arena_init(&arena, 0);
    jr_init(&r, raw, strlen(raw), &arena);
    if (print_any(&r, out) < 0) { /* a NUL: as it came */
        out->len = before;
    }
    arena_finish(&arena);
    return out->len > before ? 0 : buf_add_str(out, raw);
}
