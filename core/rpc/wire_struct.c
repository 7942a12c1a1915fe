/* Struct: google.protobuf.Struct, the request of Status2, as JSON text.
 *
 *   Struct { map<string, Value> fields = 1 }   ListValue { repeated Value values = 1 }
 *   Value  { null 1, number 2, string 3, bool 4, struct 5, list 6 }
 *
 * Read by hand, since values are nested as deep as a peer likes: the depth is counted here. Of
 * fields that came twice the last one counts, as in Go; so do readers of the JSON with keys. */
#include <rpc/wire.h>

#include <math.h>
#include <model/json.h>
#include <stdio.h>
#include <stdlib.h>

enum { VALUE_NULL = 1, VALUE_NUMBER, VALUE_STRING, VALUE_BOOL, VALUE_STRUCT, VALUE_LIST };

static int put_value(struct wire_cursor c, uint32_t depth, struct buf *out);

static size_t len_of(const struct wire_cursor *c)
{
    return (size_t)(c->end - c->at);
}

/* The shortest text that is read as the same number. */
static int put_number(const struct wire_cursor *bytes, struct buf *out)
{
    char text[32];
    double v;

    memcpy(&v, bytes->at, sizeof(v)); /* both are little-endian */
    if (!isfinite(v)) {
        return FN_E_INVALID;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v) { /* NOLINT: exactly */
            break;
        }
    }
    return buf_add_str(out, text);
}

/* One entry of the map: 1 is its key, 2 its value. */
static int put_entry(struct wire_cursor c, uint32_t depth, struct buf *out)
{
    struct wire_cursor key = { 0 }, value = { 0 };
    struct wire_field f;
    int r;

    while (c.at < c.end) {
        if (!wire_next(&c, &f)) {
            return FN_E_INVALID;
        }
        if (f.type == WIRE_BYTES && f.number == 1) {
            key = f.content;
        } else if (f.type == WIRE_BYTES && f.number == 2) {
            value = f.content;
        }
    }
    r = jw_string_n(out, key.at ? (const char *)key.at : "", len_of(&key));
    r = r < 0 ? r : buf_add(out, ":", 1);
    return r < 0 ? r : put_value(value, depth, out);
}

/* The repeated field 1 of a Struct or a ListValue. */
static int put_all(struct wire_cursor c, uint32_t depth, bool entries, struct buf *out)
{
    struct wire_field f;
    bool first = true;
    int r = depth > WIRE_STRUCT_DEPTH_MAX ? FN_E_INVALID : buf_add(out, entries ? "{" : "[", 1);

    while (r == 0 && c.at < c.end) {
        if (!wire_next(&c, &f)) {
            return FN_E_INVALID;
        }
        if (f.type != WIRE_BYTES || f.number != 1) {
            continue;
        }
        r = first ? 0 : buf_add(out, ",", 1);
        if (r == 0) {
            r = entries ? put_entry(f.content, depth, out) : put_value(f.content, depth, out);
        }
        first = false;
    }
    return r < 0 ? r : buf_add(out, entries ? "}" : "]", 1);
}

static unsigned type_of_value(uint32_t number)
{
    return number == VALUE_NULL || number == VALUE_BOOL ? WIRE_VARINT
           : number == VALUE_NUMBER                     ? WIRE_64
                                                        : WIRE_BYTES;
}

/* A value without a kind is null. */
static int put_value(struct wire_cursor c, uint32_t depth, struct buf *out)
{
    struct wire_field f, last = { .number = VALUE_NULL };

    while (c.at < c.end) {
        if (!wire_next(&c, &f)) {
            return FN_E_INVALID;
        }
        if (f.number >= VALUE_NULL && f.number <= VALUE_LIST && f.type == type_of_value(f.number)) {
            last = f;
        }
    }
    switch (last.number) {
    case VALUE_NUMBER: return put_number(&last.content, out);
    case VALUE_STRING:
        return jw_string_n(out, (const char *)last.content.at, len_of(&last.content));
    case VALUE_BOOL: return buf_add_str(out, last.value ? "true" : "false");
    case VALUE_STRUCT: return put_all(last.content, depth + 1, true, out);
    case VALUE_LIST: return put_all(last.content, depth + 1, false, out);
    default: return buf_add_str(out, "null");
    }
}

int wire_struct_to_json(const void *data, size_t len, struct buf *out)
{
    static const uint8_t none[1];
    const uint8_t *at = data ? data : none;

    return put_all((struct wire_cursor){ at, at + len }, 1, true, out);
}
