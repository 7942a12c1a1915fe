/* The admin socket: path, routes, answers.
 *
 * The folder of a default path is ours alone; for a path of fn.yaml it must not be writable by
 * others, unless it is sticky, because who can rename the socket can put another in its place. */
#include <admin/admin.h>

#include <assert.h>
#include <base/addr.h>
#include <base/arena.h>
#include <base/log.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_DIR "/run/fnd"

struct admin_entry {
    const char *method;
    const char *prefix;
    admin_handler handler;
    void *ud;
};

/* One unanswered request, in its arena. */
struct admin_exchange {
    struct admin_request rq;
    struct admin_stream *stream; /* NULL: the answer comes in one piece */
    LIST_ENTRY(admin_exchange) link;
};

struct admin {
    struct http_server *server;
    struct budget bodies;
    struct admin_entry routes[ADMIN_ROUTES_MAX];
    uint32_t n_routes;
    LIST_HEAD(, admin_exchange) open;
};

static const struct http_limits limits = {
    .header_bytes_max = 8192,
    .headers_max = 32,
    .request_line_max = 1024,
    .body_bytes_max = 65536,
    .header_timeout_ns = 5 * ENV_S,
    .body_timeout_ns = 5 * ENV_S,
    .write_stall_ns = 5 * ENV_S,
    .idle_timeout_ns = 5 * ENV_S,
    .connections_max = 16,
    .requests_per_connection_max = 1000,
    .out_bytes_high = 65536,
};

/* ---- where ----------------------------------------------------------------------------------- */

static bool is_own_dir(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static void default_dir(char *ret, size_t size)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0 || is_own_dir(RUN_DIR)) {
        snprintf(ret, size, "%s", RUN_DIR);
    } else if (xdg && xdg[0] == '/') {
        snprintf(ret, size, "%s/fnd", xdg);
    } else {
        snprintf(ret, size, "/tmp/fnd-%u", (unsigned)geteuid());
    }
}

/* "127.0.0.1:8080" becomes "127.0.0.1-8080": nodes that can listen side by side get other names. */
static void name_of(const char *listen, uint16_t port, char *ret, size_t size)
{
    struct addr a;
    size_t n;

    if (addr_parse(listen, &a) < 0 || a.path) {
        snprintf(ret, size, "%s", listen);
    } else {
        char host[ADDR_HOST_MAX + 3];

        addr_print_host(&a, host);
        snprintf(ret, size, "%s%s%u", host, *host ? ":" : "", port > 0 ? port : addr_port(&a));
    }
    while (
        ret[n = strspn(ret, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")]) {
        ret[n] = '-';
    }
}

int admin_socket_path(const struct admin_options *o, const char *listen, uint16_t port,
                      char ret[ADMIN_PATH_MAX + 1], struct fn_error *reterr)
{
    const char *set = o->socket;
    char path[4096 + 512], dir[4096], name[300];

    if (set && strcmp(set, "off") == 0) {
        return err_set(reterr, FN_E_NOT_FOUND, "admin.socket is off");
    }
    if (set) {
        snprintf(path, sizeof(path), "%s", set);
    } else {
        default_dir(dir, sizeof(dir));
        name_of(listen, port, name, sizeof(name));
        snprintf(path, sizeof(path), "%s/%s.sock", dir, name);
    }
    if (strlen(path) > ADMIN_PATH_MAX) {
        return err_set(reterr, FN_E_RANGE,
                       "admin.socket: %.80s... is longer than %u characters; set a shorter path",
                       path, ADMIN_PATH_MAX);
    }
    memcpy(ret, path, strlen(path) + 1);
    return 0;
}

static int check_dir(const char *path, struct fn_error *reterr)
{
    char dir[ADMIN_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    struct stat st;

    snprintf(dir, sizeof(dir), "%.*s", slash > path ? (int)(slash - path) : 1, path);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
        return err_set(reterr, err_from_errno(errno), "CFG713 admin.socket %s: %s: %s", path, dir,
                       strerror(errno));
    }
    if (lstat(dir, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0) {
        return err_set(reterr, FN_E_PERMISSION,
                       "CFG713 admin.socket %s: %s is a link of user %u; expected a folder", path,
                       dir, (unsigned)st.st_uid);
    }
    if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(reterr, FN_E_PRECONDITION, "CFG713 admin.socket %s: %s is no folder", path,
                       dir);
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX)) {
        return err_set(
            reterr, FN_E_PERMISSION,
            "CFG713 admin.socket %s: folder %s has mode %04o; expected one that only its "
            "owner can write to",
            path, dir, (unsigned)(st.st_mode & 07777));
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        return err_set(reterr, FN_E_PERMISSION,
                       "CFG713 admin.socket %s: folder %s belongs to user %u; expected user %u or "
                       "root",
                       path, dir, (unsigned)st.st_uid, (unsigned)geteuid());
    }
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void json_headers(struct headers *h, struct arena *arena)
{
    headers_init(h, arena);
    headers_add(h, "Content-Type", "application/json; charset=utf-8");
    headers_add(h, "Cache-Control", "no-store");
}

/* Each act of an operator leaves a line, of which none may be missing: no gate. Looking is none. */
static void admin_audit(const struct admin_request *rq, int status)
{
    if (strcmp(rq->method, "GET") != 0) {
        log_info(rq->by ? "asked on the operator's page" : "asked on the admin socket", "method",
                 rq->method, "path", rq->path, "query", rq->query, "by", rq->by, "status",
                 log_num(status));
    }
}

void admin_answer_json(struct admin_request *rq, int status, const char *json)
{
    struct admin_exchange *x = container_of(rq, struct admin_exchange, rq);
    const char *text = json ? arena_printf(rq->arena, "%s\n", json) : NULL;
    struct headers h;

    if (!text) {
        admin_refuse(rq, 500, "no memory for the answer; what was asked may have been done");
        return;
    }
    LIST_REMOVE(x, link);
    admin_audit(rq, status);
    json_headers(&h, rq->arena);
    http_answer(rq->http, status, &h, text, strlen(text));
}

void admin_answer(struct admin_request *rq, int status, json_t *given)
{
    char *text = given ? json_dumps(given, JSON_COMPACT) : NULL;

    admin_answer_json(rq, status, text);
    free(text);
    json_decref(given);
}

void admin_refuse(struct admin_request *rq, int status, const char *fmt, ...)
{
    struct admin_exchange *x = container_of(rq, struct admin_exchange, rq);
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    LIST_REMOVE(x, link);
    admin_audit(rq, status);
    http_answer_error(rq->http, status, NULL, text);
}

static void stream_gone(struct admin_exchange *x)
{
    LIST_REMOVE(x, link);
    x->stream->gone(x->stream);
    http_answer_abort(x->rq.http);
}

static void admin_on_gone(struct http_request *http)
{
    stream_gone(http->ud);
}

static void admin_on_writable(struct http_request *http)
{
    struct admin_exchange *x = http->ud;

    x->stream->more(x->stream);
}

void admin_stream_begin(struct admin_request *rq, struct admin_stream *s)
{
    struct admin_exchange *x = container_of(rq, struct admin_exchange, rq);
    struct headers h;

    x->stream = s;
    rq->http->ud = x;
    rq->http->on_gone = admin_on_gone;
    rq->http->on_writable = admin_on_writable;
    json_headers(&h, rq->arena);
    http_answer_head(rq->http, 200, &h, -1);
}

int admin_stream_part(struct admin_request *rq, const void *data, size_t len)
{
    return http_answer_data(rq->http, data, len);
}

void admin_stream_end(struct admin_request *rq)
{
    LIST_REMOVE(container_of(rq, struct admin_exchange, rq), link);
    http_answer_end(rq->http);
}

void admin_stream_cut(struct admin_request *rq)
{
    LIST_REMOVE(container_of(rq, struct admin_exchange, rq), link);
    http_answer_abort(rq->http);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static bool matches(const struct admin_entry *e, const char *path)
{
    size_t n = strlen(e->prefix);

    return e->prefix[n - 1] == '/' ? strncmp(path, e->prefix, n) == 0
                                   : strcmp(path, e->prefix) == 0;
}

static void dispatch(struct admin *a, struct admin_request *rq)
{
    const struct admin_entry *best = NULL;
    bool path_known = false;

    for (uint32_t i = 0; i < a->n_routes; i++) {
        const struct admin_entry *e = &a->routes[i];

        if (!matches(e, rq->path)) {
            continue;
        }
        path_known = true;
        if (strcmp(e->method, rq->method) == 0 &&
            (!best || strlen(e->prefix) > strlen(best->prefix))) {
            best = e;
        }
    }
    if (best) {
        rq->rest = rq->path + strlen(best->prefix);
        best->handler(best->ud, rq);
    } else {
        admin_refuse(rq, path_known ? 405 : 404, "%s: %s %.200s",
                     path_known ? "Method not allowed" : "This node has no such page", rq->method,
                     rq->path);
    }
}

/* A client that leaves is not told to the handler: its answer goes nowhere and frees the
 * request. */
void admin_take(struct admin *a, struct http_request *http, const char *path, const char *by)
{
    struct admin_exchange *x = arena_alloc(http->arena, sizeof(*x));

    if (!x) {
        http_answer_error(http, 503, NULL, "out of memory");
        return;
    }
    *x = (struct admin_exchange){ .rq = { .method = http->method,
                                          .path = path,
                                          .query = http->query,
                                          .by = by,
                                          .body = http->body,
                                          .arena = http->arena,
                                          .http = http } };
    LIST_INSERT_HEAD(&a->open, x, link);
    dispatch(a, &x->rq);
}

static void admin_on_request(void *ud, struct http_request *http)
{
    admin_take(ud, http, http->path, NULL);
}

void admin_route(struct admin *a, const char *method, const char *prefix, admin_handler handler,
                 void *ud)
{
    assert(a->n_routes < ADMIN_ROUTES_MAX);
    a->routes[a->n_routes++] = (struct admin_entry){ method, prefix, handler, ud };
}

/* ---- life ------------------------------------------------------------------------------------ */

static int admin_listen(struct admin *a, struct loop *loop, const char *path,
                        struct fn_error *reterr)
{
    char listen[ADMIN_PATH_MAX + 8];
    struct http_server_config server = { .name = "admin",
                                         .listen = listen,
                                         .limits = limits,
                                         .owner_only = true,
                                         .bodies = &a->bodies,
                                         .on_request = admin_on_request,
                                         .ud = a };

    snprintf(listen, sizeof(listen), "unix:%s", path);
    return http_server_create(loop, &server, &a->server, reterr);
}

int admin_create(struct loop *loop, const char *path, struct admin **ret, struct fn_error *reterr)
{
    struct admin *a;
    int r = path ? check_dir(path, reterr) : 0;

    if (r < 0) {
        return r;
    }
    a = calloc(1, sizeof(*a));
    if (!a) {
        return err_set(reterr, FN_E_EXHAUSTED, "admin: out of memory");
    }
    LIST_INIT(&a->open);
    a->bodies.limit_bytes = (uint64_t)(limits.body_bytes_max * limits.connections_max);
    r = path ? admin_listen(a, loop, path, reterr) : 0;
    if (r < 0) {
        free(a);
        return r;
    }
    *ret = a;
    return 0;
}

void admin_destroy(struct admin *a)
{
    struct admin_exchange *x;

    if (!a) {
        return;
    }
    while ((x = LIST_FIRST(&a->open))) {
        if (x->stream) {
            stream_gone(x);
        } else {
            admin_refuse(&x->rq, 503, "this node is stopping");
        }
    }
    http_server_destroy(a->server);
    free(a);
}
