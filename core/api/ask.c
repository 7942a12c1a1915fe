/* From a request to an operation of the store: what it names, what it says, and what is refused
 * before anybody looks into the store. */
#include <api/api_int.h>

#include <string.h>

static int bad_request(struct fn_error *reterr, const char *text)
{
    return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER, "%s", text);
}

/* ---- one ------------------------------------------------------------------------------------- */

int ask_app(struct api_call *c, struct fn_error *reterr)
{
    (void)reterr;
    c->op.app.id = c->params[0];
    return 0;
}

int ask_fn(struct api_call *c, struct fn_error *reterr)
{
    (void)reterr;
    c->op.fn.id = c->params[0];
    return 0;
}

int ask_trigger(struct api_call *c, struct fn_error *reterr)
{
    (void)reterr;
    c->op.trigger.id = c->params[0];
    return 0;
}

/* The source begins with a slash of its own; one type is all there is. */
int ask_source(struct api_call *c, struct fn_error *reterr)
{
    if (strcmp(c->params[1], TRIGGER_HTTP) != 0) {
        return err_set_http(reterr, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "Trigger not found");
    }
    c->op.filter.app_id = c->params[0];
    c->op.filter.source = c->params[2];
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

int ask_apps(struct api_call *c, struct fn_error *reterr)
{
    return page_read(c, reterr);
}

static int ask_of_app(struct api_call *c, const char *missing, struct fn_error *reterr)
{
    int r = page_read(c, reterr);

    c->op.filter.app_id = query_get(&c->arena, c->rq->query, "app_id");
    return *c->op.filter.app_id ? r : bad_request(reterr, missing);
}

int ask_fns(struct api_call *c, struct fn_error *reterr)
{
    return ask_of_app(c, "Missing AppID on Fn", reterr);
}

int ask_triggers(struct api_call *c, struct fn_error *reterr)
{
    int r = ask_of_app(c, "Missing App ID on Trigger", reterr);

    c->op.filter.fn_id = query_get(&c->arena, c->rq->query, "fn_id");
    return r;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* What the JSON reader says is the detail of one sentence that clients know. */
static int body_read(struct api_call *c, int r, struct fn_error *reterr)
{
    c->not_json = r == FN_E_INVALID;
    return r == FN_E_EXHAUSTED ? err_set(reterr, r, "API1101 out of memory") : r;
}

static int read_app(struct api_call *c, struct fn_error *reterr)
{
    const struct api_request *rq = c->rq;

    return body_read(c, app_from_json(&c->op.app, BY_CLIENT, &c->arena, rq->body, rq->body_len,
                                      reterr),
                     reterr);
}

static int read_fn(struct api_call *c, struct fn_error *reterr)
{
    const struct api_request *rq = c->rq;

    return body_read(c, fn_def_from_json(&c->op.fn, BY_CLIENT, &c->arena, rq->body, rq->body_len,
                                         reterr),
                     reterr);
}

static int read_trigger(struct api_call *c, struct fn_error *reterr)
{
    const struct api_request *rq = c->rq;

    return body_read(c, trigger_from_json(&c->op.trigger, BY_CLIENT, &c->arena, rq->body,
                                          rq->body_len, reterr),
                     reterr);
}

/* An id and the time, behind all rules. */
static int name_new(struct api_call *c, const char **ret_id, int64_t *ret_created_ns,
                    int64_t *ret_updated_ns, struct fn_error *reterr)
{
    char *id = arena_alloc(&c->arena, CALL_ID_LEN + 1);

    if (!id) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory");
    }
    id_make(c->api->deps.ids, c->op.now_ns, id);
    *ret_id = id;
    *ret_created_ns = *ret_updated_ns = c->op.now_ns;
    return 0;
}

int ask_new_app(struct api_call *c, struct fn_error *reterr)
{
    struct app *a = &c->op.app;
    int r = read_app(c, reterr);

    r = r < 0 ? r : app_check_new(a, reterr);
    r = r < 0 ? r : token_check_app(c, a->name, reterr);
    return r < 0 ? r : name_new(c, &a->id, &a->created_ns, &a->updated_ns, reterr);
}

int ask_new_fn(struct api_call *c, struct fn_error *reterr)
{
    struct fn_def *f = &c->op.fn;
    int r = read_fn(c, reterr);

    fn_def_defaults(f);
    r = r < 0 ? r : fn_def_check_new(f, reterr);
    return r < 0 ? r : name_new(c, &f->id, &f->created_ns, &f->updated_ns, reterr);
}

int ask_new_trigger(struct api_call *c, struct fn_error *reterr)
{
    struct trigger *t = &c->op.trigger;
    int r = read_trigger(c, reterr);

    r = r < 0 ? r : trigger_check_new(t, reterr);
    return r < 0 ? r : name_new(c, &t->id, &t->created_ns, &t->updated_ns, reterr);
}

/* The path has the id; the body may repeat it, and then means no other one. */
static int take_id(struct api_call *c, const char **id, const char *other, struct fn_error *reterr)
{
    if (**id && strcmp(*id, c->params[0]) != 0) {
        return bad_request(reterr, other);
    }
    *id = c->params[0];
    return 0;
}

int ask_app_change(struct api_call *c, struct fn_error *reterr)
{
    int r = read_app(c, reterr);

    return r < 0 ? r
                 : take_id(c, &c->op.app.id, "App ID in path does not match ID in body", reterr);
}

int ask_fn_change(struct api_call *c, struct fn_error *reterr)
{
    int r = read_fn(c, reterr);

    return r < 0 ? r
                 : take_id(c, &c->op.fn.id, "Fn ID in path does not match that in body", reterr);
}

int ask_trigger_change(struct api_call *c, struct fn_error *reterr)
{
    int r = read_trigger(c, reterr);

    return r < 0
               ? r
               : take_id(c, &c->op.trigger.id, "ID in path does not match ID in body", reterr);
}
