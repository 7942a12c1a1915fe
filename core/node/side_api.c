/* The API side of a node: the store, and the API over it. In a full node without `store.url` it is
 * nothing. */
#include <node/node.h>

#include <base/log.h>
#include <stdlib.h>
#include <string.h>

#define OTHER_THREADS 4 /* for reloads and the end of an old configuration */

/* ---- questions of the node's own load balancer ----------------------------------------------- */

/* The path lies behind it, and the answer when it has one. */
struct own_question {
    void (*cb)(void *ud, uint32_t status, const char *body, size_t len, const struct fn_error *err);
    void *ud;
    bool asking; /* api_submit() is not back: the answer waits for `later` */
    struct env *env;
    struct env_task later;
    uint32_t status;
    struct buf body;
};

static void question_end(struct own_question *q)
{
    q->cb(q->ud, q->status, buf_text(&q->body), q->body.len, NULL);
    buf_finish(&q->body);
    free(q);
}

static void on_question_end(struct env_task *t)
{
    question_end(container_of(t, struct own_question, later));
}

static void on_whole(void *ud, int status, const struct headers *h, const void *body, size_t len)
{
    struct own_question *q = ud;

    (void)h;
    q->status = buf_add(&q->body, body, len) < 0 ? 503 : (uint32_t)status;
    if (q->asking) {
        env_defer(q->env, &q->later);
    } else {
        question_end(q);
    }
}

static void on_error(void *ud, int status, const struct headers *h, const char *text)
{
    (void)text; /* the store has told the log; what is not there is a status */
    on_whole(ud, status, h, "{}", 2);
}

int node_ask_api(void *impl, const char *path_and_query,
                 void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                            const struct fn_error *err),
                 void *ud)
{
    static const struct api_reply reply = { on_whole, on_error };
    struct node *n = impl;
    size_t len = strcspn(path_and_query, "?");
    char *path = strndup(path_and_query, len);
    struct own_question *q = path ? calloc(1, sizeof(*q)) : NULL;
    const struct api_request rq = { .method = "GET",
                                    .path = path,
                                    .query = path_and_query[len] ? path_and_query + len + 1 : NULL,
                                    .scheme = "http",
                                    .body = "",
                                    .peer = "",
                                    .trusted = true };

    if (q) {
        *q = (struct own_question){ .cb = cb, .ud = ud, .asking = true, .env = n->env };
        q->later.cb = on_question_end;
        q->body = BUF_INIT(0);
        api_submit(n->management, &rq, &reply, q);
        q->asking = false;
    }
    free(path);
    return q ? 0 : FN_E_EXHAUSTED;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_change(void *ud, const char *id)
{
    struct node *n = ud;

    api_changed(n->management, id);
    if (n->catalog && id) {
        catalog_changed(n->catalog, id);
    } else if (n->catalog) {
        catalog_expire(n->catalog);
    }
}

static int api_open(struct node *n, struct fn_error *reterr)
{
    struct api_deps deps = { .env = n->env, .ids = &n->ids, .options = n->config->api };
    int r;

    if (!n->config->store->url) {
        return 0;
    }
    if (loop_set_threads(n->loop, ENV_LANE_CONTROL, STORE_THREADS + OTHER_THREADS) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory for the store's threads");
    }
    r = store_open(n->env, n->config->store, &n->store, reterr);
    if (r < 0) {
        return r;
    }
    store_on_change(n->store, on_change, n);
    deps.store = n->store;
    return api_create(&deps, &n->management, reterr);
}

static void api_begin(struct node *n)
{
    char name[STORE_NAME_BYTES];

    if (n->store) {
        store_listen(n->store);
        store_print_name(n->config->store->url, name);
        log_info("the API serves", "store", name, "http", n->config->http->listen);
    }
}

static void api_apply(struct node *n)
{
    if (n->management) {
        api_set_options(n->management, n->config->api);
    }
}

/* Listeners of changes hear of those that the store has made, and of nothing behind that. */
static void on_heard(void *ud)
{
    struct node *n = ud;

    store_drain(n->store, n->drained, n->drained_ud);
}

static void api_side_drain(struct node *n, void (*done)(void *ud), void *ud)
{
    if (n->store) {
        api_end_watching(n->management);
        n->drained = done;
        n->drained_ud = ud;
        api_drain(n->management, on_heard, n);
    } else {
        done(ud);
    }
}

static int api_use(struct generation *g)
{
    struct api *a = g->node->management;

    return a ? api_set_chain(a, &g->chain) : 0;
}

static void api_close(struct node *n)
{
    api_destroy(n->management);
    store_close(n->store);
}

static json_t *api_status(const struct node *n)
{
    return n->store ? json_pack("{s:i}", "waiting", (int)store_waiting(n->store)) : json_object();
}

static const char *api_keeps(const struct config *c)
{
    static const char file[] = "sqlite3://";

    return c->store->url && strncmp(c->store->url, file, strlen(file)) == 0
               ? c->store->url + strlen(file)
               : NULL;
}

const struct node_side node_side_api = {
    .name = "api",
    .open = api_open,
    .begin = api_begin,
    .apply = api_apply,
    .drain = api_side_drain,
    .close = api_close,
    .use = api_use,
    .serves_clients = true,
    .hears_changes = true,
    .status = api_status,
    .keeps = api_keeps,
};
