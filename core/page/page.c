/* The port: who may ask, and which part answers. */
#include <page/page_int.h>

#include <base/log.h>
#include <http/h2/h2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <web/files.h>

#define FILES(each)                                                                                \
    each("/", WEB_TYPE_HTML, ui_page_html)                                                         \
    each("/ui/page.css", WEB_TYPE_CSS, ui_page_css)                                                \
    each("/ui/page.js", WEB_TYPE_JS, ui_page_js)                                                   \
    each("/ui/plot.js", WEB_TYPE_JS, ui_plot_js)
FILES(WEB_FILE_DECLARE)

static const struct web_file files[] = { FILES(WEB_FILE_ROW) };

/* A stream each, some for files and acts, and what browsers keep open. */
static const struct http_limits page_limits = {
    .header_bytes_max = 16384,
    .headers_max = 64,
    .request_line_max = 2048,
    .body_bytes_max = 4096,
    .header_timeout_ns = 5 * ENV_S,
    .body_timeout_ns = 5 * ENV_S,
    .write_stall_ns = 10 * ENV_S,
    .idle_timeout_ns = 30 * ENV_S,
    .connections_max = PAGE_STREAMS_MAX + 64,
    .connections_per_ip_max = PAGE_STREAMS_MAX + 64,
    .requests_per_connection_max = 1000,
    .out_bytes_high = 262144,
    .h2 = true,
    .h2_streams_max = 32,
};

/* ---- answers --------------------------------------------------------------------------------- */

static void page_refuse_stranger(struct http_request *req, const struct fn_error *e)
{
    log_stranger(FN_LOG_WARN, "a request to the operator's page was refused", "peer", req->peer,
                 "error", e->msg);
    page_refuse(req, err_http_status(e), e->msg);
}

static void page_file(struct http_request *req, const struct web_file *f)
{
    struct headers h;

    headers_init(&h, req->arena);
    if (web_file_headers(f, "'self'", &h) < 0) {
        page_refuse(req, 503, "out of memory");
    } else {
        http_answer(req, 200, &h, f->data, *f->len);
    }
}

/* Pages of others can ask for it and not read it: no header lets them. */
static void page_session(struct page *p, struct http_request *req)
{
    char text[GUARD_TOKEN_HEX + 32];
    struct headers h;
    int len = snprintf(text, sizeof(text), "{\"token\":\"%s\"}\n", p->guard.token);

    if (!p->guard.tls) {
        page_refuse(req, 401, "ADM1303 this page needs its token; expected the address that "
                              "`fnd page` prints on this machine");
        return;
    }
    headers_init(&h, req->arena);
    headers_add(&h, "Content-Type", "application/json; charset=utf-8");
    headers_add(&h, "Cache-Control", "no-store");
    http_answer(req, 200, &h, text, (size_t)len);
}

/* ---- which part ------------------------------------------------------------------------------ */

static const struct web_file *file_of(const char *path)
{
    const struct web_file *f = web_file_find(files, sizeof(files) / sizeof(files[0]), path);

    return f ? f : web_file_shared(path);
}

static bool begins(const char *path, const char *with)
{
    return strncmp(path, with, strlen(with)) == 0;
}

static void route(struct page *p, struct http_request *req)
{
    struct fn_error e = ERR_INIT;

    if (guard_token(&p->guard, &req->headers, &e) < 0) {
        page_refuse_stranger(req, &e);
    } else if (begins(req->path, "/admin/")) {
        admin_take(p->deps.admin, req, req->path + strlen("/admin"), req->peer);
    } else if (strcmp(req->method, "GET") != 0) {
        page_refuse(req, 405, "Method not allowed");
    } else if (strcmp(req->path, "/feed") == 0) {
        feed_open(p, req);
    } else if (begins(req->path, "/tables/")) {
        search_begin(p, req, req->path + strlen("/tables/"));
    } else {
        page_refuse(req, 404, "This node has no such page");
    }
}

static void page_on_request(void *ud, struct http_request *req)
{
    bool reads = strcmp(req->method, "GET") == 0 || strcmp(req->method, "HEAD") == 0;
    const struct web_file *f = reads ? file_of(req->path) : NULL;
    struct page *p = ud;
    struct fn_error e = ERR_INIT;

    if (guard_page(&p->guard, req->host, &req->headers, &e) < 0) {
        page_refuse_stranger(req, &e);
    } else if (f) {
        page_file(req, f);
    } else if (reads && strcmp(req->path, "/session") == 0) {
        page_session(p, req);
    } else {
        route(p, req);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Of the kernel's chance: ids of calls are made of the loop's, and strangers see those. */
static int make_token(struct page *p, struct fn_error *reterr)
{
    unsigned char raw[GUARD_TOKEN_HEX / 2];

    if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw)) {
        return err_set(reterr, FN_E_UNAVAILABLE, "the operator's page: no chance for its token");
    }
    for (size_t i = 0; i < sizeof(raw); i++) {
        snprintf(p->guard.token + 2 * i, 3, "%02x", raw[i]);
    }
    return 0;
}

int page_create(const struct page_deps *deps, struct page **ret, struct fn_error *reterr)
{
    struct page *p = calloc(1, sizeof(*p));
    struct http_server_config server = { .name = "page",
                                         .listen = deps->listen,
                                         .limits = page_limits,
                                         .identity = deps->identity,
                                         .h2 = &http_h2,
                                         .refuse_interfaces = deps->refuse_interfaces,
                                         .on_request = page_on_request };
    int r;

    if (!p) {
        return err_set(reterr, FN_E_EXHAUSTED, "the operator's page: out of memory");
    }
    p->deps = *deps;
    p->env = loop_env(deps->loop);
    p->bodies.limit_bytes = (uint64_t)(page_limits.body_bytes_max * page_limits.connections_max);
    p->guard.tls = deps->identity != NULL;
    LIST_INIT(&p->searches);
    server.bodies = &p->bodies;
    server.ud = p;
    r = make_token(p, reterr);
    r = r < 0 ? r : http_server_create(deps->loop, &server, &p->server, reterr);
    if (r < 0) {
        free(p);
        return r;
    }
    feed_init(p);
    *ret = p;
    return 0;
}

uint16_t page_port(const struct page *p)
{
    return http_server_port(p->server);
}

const char *page_token(const struct page *p)
{
    return p->guard.token;
}

void page_destroy(struct page *p)
{
    if (p) {
        searches_finish(p);
        feed_finish(p);
        http_server_destroy(p->server);
        free(p);
    }
}
