/* From a request to an operation of the store: what it names, what it says, and what is refused
 * before anybody looks into the store. */
#include <api/api_int.h>

#include <string.h>

static int bad_request(struct fn_error *reterr, const char *text)
{
    return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER, "%s", text);
}

/* ---- one ------------------------------------------------------------------------------------- */

int ask_one(struct api_call *c, struct fn_error *reterr)
{
    (void)reterr;
    *store_id(&c->op) = c->params[0];
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

int ask_list(struct api_call *c, struct fn_error *reterr)
{
    const enum store_kind_word kind = c->op.verb->kind;
    struct store_filter *f = &c->op.filter;
    int r = page_read(c, reterr);

    if (kind == STORE_APP) {
        return r;
    }
    f->app_id = query_get(&c->arena, c->rq->query, "app_id");
    f->fn_id = kind == STORE_TRIGGER ? query_get(&c->arena, c->rq->query, "fn_id") : "";
    return *f->app_id ? r
                      : bad_request(reterr, kind == STORE_FN ? "Missing AppID on Fn"
                                                             : "Missing App ID on Trigger");
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* What the JSON reader says is the detail of one sentence that clients know. */
static int read_body(struct api_call *c, struct fn_error *reterr)
{
    const void *body = c->rq->body;
    size_t len = c->rq->body_len;
    struct store_op *op = &c->op;
    int r = 0;

    switch (op->verb->kind) {
    case STORE_APP: r = app_from_json(&op->app, BY_CLIENT, &c->arena, body, len, reterr); break;
    case STORE_FN: r = fn_def_from_json(&op->fn, BY_CLIENT, &c->arena, body, len, reterr); break;
    default: r = trigger_from_json(&op->trigger, BY_CLIENT, &c->arena, body, len, reterr); break;
    }
    c->not_json = r == FN_E_INVALID;
    return r == FN_E_EXHAUSTED ? err_set(reterr, r, "API1101 out of memory") : r;
}

static int check_new(struct api_call *c, struct fn_error *reterr)
{
    struct store_op *op = &c->op;
    int r;

    switch (op->verb->kind) {
    case STORE_APP:
        r = app_check_new(&op->app, reterr);
        return r < 0 ? r : token_check_app(c, op->app.name, reterr);
    case STORE_FN: fn_def_defaults(&op->fn); return fn_def_check_new(&op->fn, reterr);
    default: return trigger_check_new(&op->trigger, reterr);
    }
}

/* An id and the time, behind all rules. */
int ask_new(struct api_call *c, struct fn_error *reterr)
{
    struct store_op *op = &c->op;
    char *id = arena_alloc(&c->arena, CALL_ID_LEN + 1);
    int r = read_body(c, reterr);

    r = r < 0 ? r : check_new(c, reterr);
    if (r < 0 || !id) {
        return r < 0 ? r : err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory");
    }
    id_make(c->api->deps.ids, op->now_ns, id);
    *store_id(op) = id;
    op->app.created_ns = op->fn.created_ns = op->trigger.created_ns = op->now_ns;
    op->app.updated_ns = op->fn.updated_ns = op->trigger.updated_ns = op->now_ns;
    return 0;
}

/* The path has the id; the body may repeat it, and then means no other one. */
int ask_change(struct api_call *c, struct fn_error *reterr)
{
    static const char *const others[STORE_KINDS_N] = {
        [STORE_APP] = "App ID in path does not match ID in body",
        [STORE_FN] = "Fn ID in path does not match that in body",
        [STORE_TRIGGER] = "ID in path does not match ID in body",
    };
    const char **id = store_id(&c->op);
    int r = read_body(c, reterr);

    if (r == 0 && **id && strcmp(*id, c->params[0]) != 0) {
        return bad_request(reterr, others[c->op.verb->kind]);
    }
    *id = c->params[0];
    return r;
}
