/* Answers of requests, and their memory. */
#include <api/api_int.h>

#include <model/json.h>
#include <string.h>

#define JSON_TYPE "application/json; charset=utf-8"
#define TEXT_TYPE "text/plain; charset=utf-8"

/* With the request's id; without memory for it the answer is still right. */
void api_call_headers(struct api_call *c, struct headers *h)
{
    headers_init(h, &c->arena);
    if (c->request_id) {
        headers_add_borrowed(h, API_REQUEST_ID, c->request_id);
    }
}

void api_call_reply_with(struct api_call *c, int status, const char *type, const void *body,
                         size_t len)
{
    struct headers h;

    api_call_headers(c, &h);
    if (type && headers_add_borrowed(&h, "Content-Type", type) < 0) {
        c->reply.error(c->ud, 503, NULL, "API1101 out of memory");
        return;
    }
    c->reply.whole(c->ud, status, &h, body, len);
}

/* {"message":"Invalid JSON","fields":"1:5 expected an object"} and a line end */
static void reply_not_json(struct api_call *c, const struct fn_error *e)
{
    static const char what[] = "body: ";
    const char *detail = strncmp(e->msg, what, strlen(what)) == 0 ? e->msg + strlen(what) : e->msg;
    struct buf out = BUF_INIT(0);
    int r = buf_add_str(&out, "{\"message\":\"Invalid JSON\",\"fields\":");

    r = r < 0 ? r : jw_string(&out, detail);
    r = r < 0 ? r : buf_add_str(&out, "}\n");
    if (r < 0) {
        c->reply.error(c->ud, 400, NULL, "Invalid JSON");
    } else {
        api_call_reply_with(c, 400, JSON_TYPE, out.data, out.len);
    }
    buf_finish(&out);
}

/* What is no client's mistake and has no status of its own is for the log alone. */
void api_call_fail(struct api_call *c, int code, const struct fn_error *e)
{
    struct headers h;

    if (c->not_json) {
        reply_not_json(c, e);
        return;
    }
    api_call_headers(c, &h);
    if (e->http_status == 503 || e->http_status == 429) { /* right without these, too */
        headers_add_borrowed(&h, "Retry-After", "1");
    } else if (e->http_status == 401) {
        headers_add_borrowed(&h, "WWW-Authenticate", "Bearer");
    }
    if (e->http_status) {
        c->reply.error(c->ud, e->http_status, &h, e->msg);
    } else if (code == FN_E_EXHAUSTED) {
        c->reply.error(c->ud, 503, NULL, "API1101 out of memory");
    } else {
        c->reply.error(c->ud, 500, NULL, "internal server error");
    }
}

void api_call_reply(struct api_call *c)
{
    struct buf out = BUF_INIT(0);

    if (!c->route->tell) {
        api_call_reply_with(c, 204, TEXT_TYPE, NULL, 0);
        return;
    }
    if (c->route->tell(c, &out) < 0) {
        c->reply.error(c->ud, 503, NULL, "API1101 out of memory");
    } else {
        api_call_reply_with(c, 200, JSON_TYPE, out.data, out.len);
    }
    buf_finish(&out);
}

void api_call_free(struct api_call *c)
{
    struct arena arena = c->arena;

    arena_finish(&arena);
}

void api_call_end(struct api_call *c)
{
    if (!c->gone) {
        api_call_reply(c);
    }
    api_call_free(c);
}
