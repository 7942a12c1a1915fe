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

static int print_fn(struct api_call *c, struct fn_def *f, struct buf *out)
{
    const char *url = arena_join(&c->arena, c->base, "/invoke/", f->id, (char *)NULL);
    int r = add_url(&f->annotations, INVOKE_ENDPOINT, url);

    return r < 0 ? r : fn_def_to_json(f, out);
}

static int print_trigger(struct api_call *c, struct trigger *t, struct buf *out)
{
    const char *path = t->source + (t->source[0] == '/');
    const char *url =
        arena_join(&c->arena, c->base, "/t/", c->op.app.name, "/", path, (char *)NULL);
    int r = strcmp(t->type, TRIGGER_HTTP) == 0 ? add_url(&t->annotations, HTTP_ENDPOINT, url) : 0;

    return r < 0 ? r : trigger_to_json(t, out);
}

int tell_app(struct api_call *c, struct buf *out)
{
    return app_to_json(&c->op.app, out);
}

int tell_fn(struct api_call *c, struct buf *out)
{
    return print_fn(c, &c->op.fn, out);
}

int tell_trigger(struct api_call *c, struct buf *out)
{
    return print_trigger(c, &c->op.trigger, out);
}

int tell_plain_fn(struct api_call *c, struct buf *out)
{
    return fn_def_to_json(&c->op.fn, out);
}

int tell_plain_trigger(struct api_call *c, struct buf *out)
{
    return trigger_to_json(&c->op.trigger, out);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A full page may have another one behind it. */
static int begin_list(struct api_call *c, const char *name, const char *fn_id, struct buf *out)
{
    const char *cursor;
    int r = buf_add(out, "{", 1);

    if (r == 0 && name && c->op.n == c->op.filter.limit) {
        cursor = page_cursor(&c->arena, name, fn_id);
        r = cursor ? buf_printf(out, "\"next_cursor\":\"%s\",", cursor) : FN_E_EXHAUSTED;
    }
    return r < 0 ? r : buf_add_str(out, "\"items\":[");
}

static int between(const struct api_call *c, uint32_t i, struct buf *out)
{
    return i + 1 < c->op.n ? buf_add(out, ",", 1) : 0;
}

int tell_apps(struct api_call *c, struct buf *out)
{
    const struct store_op *op = &c->op;
    int r = begin_list(c, op->n ? op->apps[op->n - 1].name : NULL, NULL, out);

    for (uint32_t i = 0; i < op->n && r == 0; i++) {
        r = app_to_json(&op->apps[i], out);
        r = r < 0 ? r : between(c, i, out);
    }
    return r < 0 ? r : buf_add_str(out, "]}");
}

int tell_fns(struct api_call *c, struct buf *out)
{
    const struct store_op *op = &c->op;
    int r = begin_list(c, op->n ? op->fns[op->n - 1].name : NULL, NULL, out);

    for (uint32_t i = 0; i < op->n && r == 0; i++) {
        r = print_fn(c, &op->fns[i], out);
        r = r < 0 ? r : between(c, i, out);
    }
    return r < 0 ? r : buf_add_str(out, "]}");
}

int tell_triggers(struct api_call *c, struct buf *out)
{
    const struct store_op *op = &c->op;
    const struct trigger *last = op->n ? &op->triggers[op->n - 1] : NULL;
    int r = begin_list(c, last ? last->name : NULL, last ? last->fn_id : NULL, out);

    for (uint32_t i = 0; i < op->n && r == 0; i++) {
        r = print_trigger(c, &op->triggers[i], out);
        r = r < 0 ? r : between(c, i, out);
    }
    return r < 0 ? r : buf_add_str(out, "]}");
}
