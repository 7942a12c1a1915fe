/* Web: service pages, and the way between core/http and core/lb or core/api.
 *
 * One struct exchange per call, in the request's arena: it exists until the answer ended or the
 * client went away. Neither room calls back after it was told of that. */
#include <web/web.h>

#include <base/metric.h>
#include <http/h2/h2.h>
#include <model/call.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <web/accept.h>
#include <web/files.h>
#include <web/manage.h>
#include <web/metrics_page.h>

#define AUTHOR_ROUTE "/ui/*file"
/* The page may call functions wherever they are. */
#define AUTHOR_CONNECT "'self' http: https:"
#define AUTHOR_FILES(each)                                                                         \
    each("/", WEB_TYPE_HTML, ui_index_html)                                                        \
    each("/ui/app.js", WEB_TYPE_JS, ui_app_js)
AUTHOR_FILES(WEB_FILE_DECLARE)

static const struct web_file author_files[] = { AUTHOR_FILES(WEB_FILE_ROW) };

#define SERIES_KEPT 64 /* beyond that a series is looked up each time */

/* route and method point to the constants of this file. */
struct answer_series {
    const char *route;
    const char *method;
    int status;
    struct metric *count;
    struct metric *took_ms;
};

struct web {
    struct loop *loop;
    struct web_config config;
    struct http_server *server;
    struct metrics_pages *pages;
    struct metric_family *requests, *answers, *latency;
    struct metric *by_protocol[2]; /* HTTP/1.1, HTTP/2 */
    struct answer_series series[SERIES_KEPT + 1]; /* the last one is not kept */
    uint32_t n_series;
};

struct exchange {
    struct web *web;
    struct http_request *req;
    struct lb_call *call;
    struct api_call *asked;
    struct metrics_reader reader;
    const char *route;
    const char *origin; /* of a page that may read the answer, or NULL */
    int status;
    int64_t begun_ns;
};

/* ---- counting -------------------------------------------------------------------------------- */

/* The route as Go Fn names it in its label. */
static const char *route_of(const char *path)
{
    static const struct {
        const char *prefix;
        const char *route;
    } routes[] = {
        { "/invoke/", "/invoke/:fn_id" },
        { "/t/", "/t/:app_name/*trigger_source" },
        { "/metrics", "/metrics" },
        { "/version", "/version" },
        { "/ready", "/ready" },
        { "/ui/", AUTHOR_ROUTE },
    };

    if (strcmp(path, "/") == 0) {
        return "/";
    }
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strncmp(path, routes[i].prefix, strlen(routes[i].prefix)) == 0) {
            return routes[i].route;
        }
    }
    return api_owns_path(path) ? api_route_of(path) : "invalid";
}

static const char *method_label(const char *method)
{
    const char *known = call_known_method(method);

    return known ? known : "other";
}

/* The series of an answer, or with status 0 of a request, looked up once per route, method,
 * status. */
static const struct answer_series *series_of(struct web *w, const char *route,
                                             const char *method, int status)
{
    char code[16];
    const char *values[] = { route, method, code };
    struct answer_series *s;

    for (uint32_t i = 0; i < w->n_series; i++) {
        s = &w->series[i];
        if (s->status == status && s->route == route && s->method == method) {
            return s;
        }
    }
    snprintf(code, sizeof(code), "%d", status);
    s = &w->series[w->n_series < SERIES_KEPT ? w->n_series++ : SERIES_KEPT];
    *s = (struct answer_series){ route, method, status, NULL, NULL };
    s->count = metric_series(status ? w->answers : w->requests, values);
    s->took_ms = status ? metric_series(w->latency, values) : NULL;
    return s;
}

static void count_answer(struct exchange *x, int status)
{
    struct web *w = x->web;
    const struct answer_series *s =
        series_of(w, x->route, method_label(x->req->method), status);

    metric_add(s->count, 1);
    metric_observe(s->took_ms, (env_now_ns(loop_env(w->loop)) - x->begun_ns) / ENV_MS);
}

static void declare_metrics(struct web *w)
{
    static const char *const request_labels[] = { "path", "method", NULL };
    static const char *const protocol_labels[] = { "protocol", NULL };
    static const char *const answer_labels[] = { "path", "method", "status", NULL };
    static const struct metric_def requests = { .name = "fn_api_request_count",
                                                .help = "HTTP requests by route.",
                                                .kind = METRIC_COUNTER,
                                                .labels = request_labels };
    static const struct metric_def answers = { .name = "fn_api_response_count",
                                               .help = "HTTP answers by route and status.",
                                               .kind = METRIC_COUNTER,
                                               .labels = answer_labels };
    static const struct metric_def latency = {
        .name = "fn_api_latency",
        .help = "Milliseconds from the complete request to the end of its answer.",
        .kind = METRIC_HISTOGRAM,
        .labels = answer_labels,
        .latency = true,
    };
    static const struct metric_def protocols = {
        .name = "fn_http_protocol_requests",
        .help = "HTTP requests by the protocol in which they came.",
        .kind = METRIC_COUNTER,
        .labels = protocol_labels,
    };

    for (int h2 = 0; h2 < 2; h2++) {
        const char *value[] = { h2 ? "HTTP/2" : "HTTP/1.1" };

        w->by_protocol[h2] = metric_series(metric_declare(&protocols), value);
    }
    w->requests = metric_declare(&requests);
    w->answers = metric_declare(&answers);
    w->latency = metric_declare(&latency);
}

/* ---- answers of the load balancer ------------------------------------------------------------ */

/* h with what a browser must know. Without memory for it the browser hides the answer. */
static const struct headers *with_cors(const struct exchange *x, const struct headers *h)
{
    const struct cors *c = &x->web->config.cors;
    struct headers *all =
        x->origin && c->origins.n ? arena_alloc(x->req->arena, sizeof(*all)) : NULL;
    int r = 0;

    if (!all) {
        return h;
    }
    headers_init(all, x->req->arena);
    for (uint32_t i = 0; h && i < h->n && r == 0; i++) {
        r = headers_add(all, h->items[i].name, h->items[i].value);
    }
    r = r < 0 ? r : cors_add(c, CORS_ALLOWED, x->origin, all);
    if (r == 0 && x->web->config.api && api_owns_path(x->req->path)) {
        r = headers_add_borrowed(all, "Access-Control-Expose-Headers", API_EXPOSED_HEADERS);
    }
    return r == 0 ? all : h;
}

static void reply_whole(void *ud, int status, const struct headers *h, const void *data, size_t len)
{
    struct exchange *x = ud;

    count_answer(x, status);
    http_answer(x->req, status, with_cors(x, h), data, len);
}

static void reply_error(void *ud, int status, const struct headers *h, const char *text)
{
    struct exchange *x = ud;

    count_answer(x, status);
    http_answer_error(x->req, status, with_cors(x, h), text);
}

static void reply_head(void *ud, int status, const struct headers *h, int64_t content_length)
{
    struct exchange *x = ud;

    x->status = status;
    http_answer_head(x->req, status, with_cors(x, h), content_length);
}

static int reply_data(void *ud, const void *data, size_t len)
{
    return http_answer_data(((struct exchange *)ud)->req, data, len);
}

static void reply_end(void *ud)
{
    struct exchange *x = ud;

    count_answer(x, x->status);
    http_answer_end(x->req);
}

static void reply_cut(void *ud)
{
    struct exchange *x = ud;

    count_answer(x, 502);
    http_answer_abort(x->req);
}

static const struct lb_reply reply = { reply_whole, reply_error, reply_head,
                                       reply_data,  reply_end,   reply_cut };

static void web_on_gone(struct http_request *req)
{
    struct exchange *x = req->ud;

    count_answer(x, STATUS_CLIENT_GONE);
    if (x->call) {
        lb_call_gone(x->call);
    }
    if (x->asked) {
        api_call_gone(x->asked);
    }
    http_answer_abort(req); /* releases the request */
}

static void web_on_writable(struct http_request *req)
{
    struct exchange *x = req->ud;

    if (x->call) {
        lb_call_writable(x->call);
    }
}

/* ---- service pages --------------------------------------------------------------------------- */

static void answer_page(struct exchange *x, int status, const char *type, const char *body)
{
    struct headers h;

    headers_init(&h, x->req->arena);
    if (headers_add(&h, "Content-Type", type) < 0) {
        reply_error(x, 500, NULL, "internal server error");
        return;
    }
    reply_whole(x, status, &h, body, strlen(body));
}

static void page_ready(struct exchange *x)
{
    const struct web_config *c = &x->web->config;
    char text[256];
    char line[300];
    const char *why = c->unready(c->ud, text, sizeof(text));

    snprintf(line, sizeof(line), "%s\n", why ? why : "ready");
    answer_page(x, why ? 503 : 200, "text/plain; charset=utf-8", line);
}

static void metrics_gone(struct http_request *req)
{
    struct exchange *x = req->ud;

    metrics_leave(&x->reader);
    web_on_gone(req);
}

static void metrics_go_on(struct http_request *req)
{
    struct exchange *x = req->ud;
    const void *data;
    size_t n;

    while ((n = metrics_piece(&x->reader, &data)) > 0) {
        if (reply_data(x, data, n) == 1) {
            return;
        }
    }
    metrics_leave(&x->reader);
    reply_end(x);
}

static const char *const metrics_types[METRIC_FORMATS_N] = {
    [METRIC_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
    [METRIC_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

static void metrics_tell(struct metrics_reader *r, enum metrics_word word)
{
    struct exchange *x = container_of(r, struct exchange, reader);
    struct headers h;

    if (word == METRICS_CUT) {
        reply_cut(x);
        return;
    }
    headers_init(&h, x->req->arena);
    if (word == METRICS_FAILED ||
        headers_add(&h, "Content-Type", metrics_types[r->format]) < 0 ||
        headers_add(&h, "Vary", "Accept") < 0) {
        metrics_leave(r);
        reply_error(x, 503, NULL, "out of memory");
        return;
    }
    reply_head(x, 200, &h, (int64_t)metrics_size(r));
    metrics_go_on(x->req);
}

static void page_metrics(struct exchange *x)
{
    x->req->on_gone = metrics_gone;
    x->req->on_writable = metrics_go_on;
    x->reader.tell = metrics_tell;
    x->reader.format = accept_metrics(&x->req->headers);
    metrics_read(x->web->pages, &x->reader);
}

static const struct {
    const char *path;
    const char *json; /* NULL: page() answers */
    void (*page)(struct exchange *x);
} pages[] = {
    { "/", "{\"goto\":\"https://github.com/fnproject/fn\",\"hello\":\"world!\"}", NULL },
    { "/version", "{\"version\":\"" FND_VERSION "\"}", NULL },
    { "/metrics", NULL, page_metrics },
    { "/ready", NULL, page_ready },
};

/* The page for function authors, at the root of a node that has the API. At the root only for a
 * browser, which asks for text/html: everybody else gets what Go Fn answers. */
static const struct web_file *author_file(const struct http_request *req)
{
    const char *accept = headers_get(&req->headers, "Accept");
    const struct web_file *f;

    if (strcmp(req->path, "/") == 0 && (!accept || !strstr(accept, "text/html"))) {
        return NULL;
    }
    f = web_file_find(author_files, sizeof(author_files) / sizeof(author_files[0]), req->path);
    return f ? f : web_file_shared(req->path);
}

static void answer_file(struct exchange *x, const struct web_file *f)
{
    struct headers h;

    headers_init(&h, x->req->arena);
    if (web_file_headers(f, AUTHOR_CONNECT, &h) < 0) {
        reply_error(x, 503, NULL, "out of memory");
        return;
    }
    reply_whole(x, 200, &h, f->data, *f->len);
}

static bool is_read(const struct http_request *req)
{
    return strcmp(req->method, "GET") == 0 || strcmp(req->method, "HEAD") == 0;
}

static void serve_page(struct exchange *x)
{
    const struct web_file *file = x->web->config.api ? author_file(x->req) : NULL;
    const char *text = "Path not found";
    int status = 404;

    if (file && is_read(x->req)) {
        answer_file(x, file);
        return;
    }
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(x->req->path, pages[i].path) != 0) {
            continue;
        }
        if (is_read(x->req) && pages[i].json) {
            answer_page(x, 200, "application/json; charset=utf-8", pages[i].json);
            return;
        }
        if (is_read(x->req)) {
            pages[i].page(x);
            return;
        }
        status = 405;
        text = "Method not allowed";
    }
    text = arena_printf(x->req->arena, "%s: %s %s", text, x->req->method, x->req->path);
    reply_error(x, status, NULL, text ? text : "internal server error");
}

static void web_submit(struct exchange *x)
{
    struct http_request *req = x->req;
    struct lb_call *call;
    const struct lb_request rq = {
        .arena = req->arena,
        .method = req->method,
        .path = req->path,
        .target = req->target,
        .scheme = x->web->config.identity ? "https" : "http",
        .host = req->host,
        .headers = &req->headers,
        .body = req->body,
        .peer = req->peer,
        .client = req->client.bytes,
        .received_ns = req->received_ns,
    };

    req->on_gone = web_on_gone;
    req->on_writable = web_on_writable;
    call = lb_submit(x->web->config.lb, &rq, &reply, x);
    if (call) { /* else it was answered, and x went with the answer */
        x->call = call;
    }
}

static void web_ask(struct exchange *x)
{
    static const struct api_reply api_reply = { reply_whole, reply_error };
    struct http_request *req = x->req;
    struct fn_error e = ERR_INIT;
    struct api_call *asked;
    const struct web_config *config = &x->web->config;
    const struct manage_rules rules = { config->api_options, &config->cors, config->identity };
    const struct api_request rq = {
        .method = req->method,
        .path = req->path,
        .query = req->query,
        .scheme = x->web->config.identity ? "https" : "http",
        .host = req->host,
        .body = req->body->bytes.data ? req->body->bytes.data : "",
        .body_len = req->body->bytes.len,
        .peer = req->peer,
        .client = req->client.bytes,
        .authorization = headers_get(&req->headers, "Authorization"),
        .request_id = headers_get(&req->headers, API_REQUEST_ID),
    };

    if (manage_check(&rules, req, &e) < 0) {
        reply_error(x, e.http_status, NULL, e.msg);
        return;
    }
    req->on_gone = web_on_gone;
    asked = api_submit(x->web->config.api, &rq, &api_reply, x);
    if (asked) { /* else it was answered, and x went with the answer */
        x->asked = asked;
    }
}

/* True when the request ends here: a preflight, or an origin that is not allowed. */
static bool answer_cors(struct exchange *x)
{
    const struct http_request *req = x->req;
    const struct cors *c = &x->web->config.cors;
    enum cors_verdict verdict = cors_judge(c, req->method, req->host, &req->headers, &x->origin);
    struct headers h;

    switch (verdict) {
    case CORS_REFUSED:
        x->origin = NULL;
        reply_whole(x, 403, NULL, NULL, 0);
        return true;
    case CORS_PREFLIGHT:
        headers_init(&h, req->arena);
        if (cors_add(c, verdict, x->origin, &h) < 0) {
            reply_error(x, 503, NULL, "out of memory");
            return true;
        }
        x->origin = NULL; /* its headers are there */
        reply_whole(x, 200, &h, NULL, 0);
        return true;
    case CORS_NONE:
        x->origin = NULL;
        return false;
    default:
        return false;
    }
}

static void web_on_request(void *ud, struct http_request *req)
{
    struct web *w = ud;
    struct exchange *x = arena_alloc(req->arena, sizeof(*x));

    if (!x) {
        http_answer_error(req, 503, NULL, "out of memory");
        return;
    }
    *x = (struct exchange){ .web = w,
                            .req = req,
                            .route = route_of(req->path),
                            .begun_ns = env_now_ns(loop_env(w->loop)) };
    req->ud = x;
    metric_add(series_of(w, x->route, method_label(req->method), 0)->count, 1);
    metric_add(w->by_protocol[req->h2], 1);
    if (answer_cors(x)) {
        return;
    }
    if (w->config.lb && lb_owns_path(req->path)) {
        web_submit(x);
    } else if (w->config.api && api_owns_path(req->path)) {
        web_ask(x);
    } else {
        serve_page(x);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int web_create(struct loop *loop, const struct web_config *config, struct web **ret,
               struct fn_error *reterr)
{
    struct web *w = calloc(1, sizeof(*w));
    struct http_server_config server;
    int r;

    if (!w) {
        return err_set(reterr, FN_E_EXHAUSTED, "web: out of memory");
    }
    w->loop = loop;
    w->config = *config;
    declare_metrics(w);
    server = (struct http_server_config){ .name = "http",
                                          .listen = config->listen,
                                          .limits = config->limits,
                                          .bodies = config->bodies,
                                          .identity = config->identity,
                                          .h2 = &http_h2,
                                          .refuse_interfaces = config->refuse_interfaces,
                                          .on_request = web_on_request,
                                          .ud = w };
    w->pages = metrics_pages_create(loop_env(loop));
    r = w->pages ? http_server_create(loop, &server, &w->server, reterr)
                 : err_set(reterr, FN_E_EXHAUSTED, "web: out of memory");
    if (r < 0) {
        metrics_pages_destroy(w->pages);
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void web_set_options(struct web *w, const struct http_limits *limits, const struct cors *cors,
                     const struct api_options *api)
{
    http_server_set_limits(w->server, limits);
    w->config.cors = *cors;
    w->config.api_options = api;
}

struct http_server *web_server(const struct web *w)
{
    return w->server;
}

void web_destroy(struct web *w)
{
    if (w) {
        http_server_destroy(w->server);
        metrics_pages_destroy(w->pages);
        free(w);
    }
}
