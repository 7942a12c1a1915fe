/* Sets of pairs as JSON objects, whose values are texts or, raw, any JSON. */
#include <model/json.h>
#include <model/kvs.h>

/* Null is nothing at a node and must not reach a Go runner, which would crash on a raw one; a
 * client deletes with it. */
static const char *null_of(enum json_writer by, bool raw)
{
    return by == BY_CLIENT && raw ? "null" : by == BY_NODE || raw ? NULL : "";
}

int kvs_read(struct jr *r, enum json_writer by, bool raw, struct kvs *to)
{
    const char *key, *value;
    int more = jr_open(r, JR_OBJECT);

    while (more >= 0 && (more = jr_member(r, &key)) == 1) {
        if (by != BY_NODE && kvs_get(to, key)) {
            return jr_fail(r, by == BY_PEER ? "duplicate key" : TEXT_TWICE);
        }
        if (by == BY_PEER && to->n == KVS_MAX) {
            return jr_fail(r, "more than 1024 keys");
        }
        if (jr_peek(r) == JR_NULL) {
            value = null_of(by, raw);
            more = jr_null(r);
        } else {
            more = raw ? jr_raw(r, &value) : jr_string(r, &value);
        }
        if (more == 0 && value) { /* a node's may be there already */
            more = by == BY_NODE ? kvs_set_borrowed(to, key, value)
                                 : kvs_add_borrowed(to, key, value);
        }
    }
    return more;
}

int kvs_from_json(struct kvs *k, bool raw, const char *json, size_t len, struct fn_error *reterr)
{
    struct jr r;
    int e;

    jr_init(&r, json, len, k->arena);
    e = kvs_read(&r, BY_NODE, raw, k);
    return e < 0 ? jr_error(&r, e, raw ? "annotations" : "config", reterr) : e;
}

int kvs_to_json(const struct kvs *k, bool raw, struct buf *out)
{
    int r = buf_add(out, "{", 1);

    for (uint32_t i = 0; i < k->n && r == 0; i++) {
        r = i > 0 ? buf_add(out, ",", 1) : 0;
        r = r < 0 ? r : jw_string(out, k->items[i].key);
        r = r < 0 ? r : buf_add(out, ":", 1);
        if (r == 0) {
            r = raw ? buf_add_str(out, k->items[i].value) : jw_string(out, k->items[i].value);
        }
    }
    return r < 0 ? r : buf_add(out, "}", 1);
}
