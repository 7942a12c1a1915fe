/* From what the store says to the JSON of an answer. */
#include <api/api_int.h>

#include <model/json.h>
#include <string.h>

#define INVOKE_ENDPOINT "fnproject.io/fn/invokeEndpoint"
#define HTTP_ENDPOINT   "fnproject.io/trigger/httpEndpoint"

/* In the place of what a client may have stored under that name: he writes back what he read. */
static int add_url(struct kvs *annotations, const char *key, const char *url)
{
    struct buf text = BUF_INIT(0);
    int r = url ? jw_string(&text, url) : FN_E_EXHAUSTED;

    r = r < 0 ? r : kvs_set(annotations, key, buf_text(&text));
    buf_finish(&text);
    return r;
}

static int add_fn_url(struct api_call *c, struct fn_def *f)
{
    return add_url(&f->annotations, INVOKE_ENDPOINT,
                   arena_join(&c->arena, c->base, "/invoke/", f->id, (char *)NULL));
}

static int add_trigger_url(struct api_call *c, struct trigger *t)
{
    const char *path = t->source + (t->source[0] == '/');

    return strcmp(t->type, TRIGGER_HTTP) == 0
               ? add_url(&t->annotations, HTTP_ENDPOINT,
                         arena_join(&c->arena, c->base, "/t/", c->op.app.name, "/", path,
                                    (char *)NULL))
               : 0;
}

/* A value of the operation's kind; urls: with the one where it is called. */
static int print(struct api_call *c, void *value, bool urls, struct buf *out)
{
    int r = 0;

    switch (c->op.verb->kind) {
    case STORE_APP: return app_to_json(value, out);
    case STORE_FN:
        r = urls ? add_fn_url(c, value) : 0;
        return r < 0 ? r : fn_def_to_json(value, out);
    default:
        r = urls ? add_trigger_url(c, value) : 0;
        return r < 0 ? r : trigger_to_json(value, out);
    }
}

int tell_one(struct api_call *c, struct buf *out)
{
    return print(c, store_id(&c->op), true, out);
}

int tell_plain(struct api_call *c, struct buf *out)
{
    return print(c, store_id(&c->op), false, out);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A full page may have another one behind it. */
static int begin_list(struct api_call *c, struct buf *out)
{
    const struct store_op *op = &c->op;
    int r = buf_add(out, "{", 1);

    if (r == 0 && op->n > 0 && op->n == op->filter.limit) {
        const struct trigger *last =
            op->verb->kind == STORE_TRIGGER ? &op->triggers[op->n - 1] : NULL;
        const char *name = ((const char **)store_item(op, op->n - 1))[1];
        const char *cursor = page_cursor(&c->arena, name, last ? last->fn_id : NULL);

        r = cursor ? buf_printf(out, "\"next_cursor\":\"%s\",", cursor) : FN_E_EXHAUSTED;
    }
    return r < 0 ? r : buf_add_str(out, "\"items\":[");
}

int tell_list(struct api_call *c, struct buf *out)
{
    int r = begin_list(c, out);

    for (uint32_t i = 0; i < c->op.n && r == 0; i++) {
        r = i > 0 ? buf_add(out, ",", 1) : 0;
        r = r < 0 ? r : print(c, store_item(&c->op, i), true, out);
    }
    return r < 0 ? r : buf_add_str(out, "]}");
}
