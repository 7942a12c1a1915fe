/* The operator's page of a node: what its sides show, put together. */
#include <node/node.h>

#include <base/addr.h>
#include <base/log.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool node_has_page(const struct node *n)
{
    return strcmp(n->config->admin->page, "off") != 0;
}

static void page_sample(void *ud, int64_t *ret)
{
    const struct node *n = ud;

    for (uint32_t i = 0; i < n->n_sides; i++) {
        const struct node_side *s = n->sides[i];

        if (s->sample) {
            s->sample(n, ret);
        }
        for (const char *const *name = s->series; name && *name; name++) {
            ret++;
        }
    }
}

static int page_about(void *ud, struct buf *out)
{
    const struct node *n = ud;
    json_t *root = node_status(n);
    json_t *shadow = node_shadow_json(n);
    char *text;
    int r;

    if (root && shadow) {
        json_object_set(root, "shadow", shadow);
    }
    text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    r = text ? buf_add_str(out, text) : FN_E_EXHAUSTED;
    free(text);
    json_decref(shadow);
    json_decref(root);
    return r;
}

/* ---- where it is ----------------------------------------------------------------------------- */

/* Who may read the admin socket may have the token. */
static void on_page(void *ud, struct admin_request *rq)
{
    const struct node *n = ud;
    const char *scheme = n->tls.page.identity ? "https" : "http";
    char host[ADDR_HOST_MAX + 3] = "localhost";
    struct addr at;

    if (!n->page) {
        admin_refuse(rq, 404, "this node has no operator's page: admin.page is off, or its log "
                              "says why it could not be opened");
        return;
    }
    if (addr_parse(n->config->admin->page, &at) == 0 && !addr_is_everywhere(&at)) {
        addr_print_host(&at, host);
    } else {
        (void)gethostname(host, sizeof(host) - 1);
    }
    admin_answer_json(rq, 200,
                      arena_printf(rq->arena, "{\"url\":\"%s://%s:%u/\",\"token\":\"%s\"}", scheme,
                                   host, (unsigned)page_port(n->page), page_token(n->page)));
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool has_table(const struct page_deps *d, const char *name)
{
    for (uint32_t i = 0; i < d->n_tables; i++) {
        if (strcmp(d->tables[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Where two sides have a table of one name, that of the side where work comes in is shown. */
static void page_collect(struct node *n, struct page_deps *d)
{
    uint32_t series = 0;

    for (uint32_t i = 0; i < n->n_sides; i++) {
        const struct node_side *s = n->sides[i];

        for (const struct page_table *t = s->tables; t && t->name; t++) {
            if (!has_table(d, t->name) && d->n_tables < PAGE_TABLES_MAX) {
                d->tables[d->n_tables++] = t;
            }
        }
        for (const char *const *name = s->series; name && *name; name++) {
            n->page_series[series++] = *name;
        }
    }
    d->series = n->page_series;
}

int node_page_open(struct node *n, struct fn_error *reterr)
{
    bool by_default = strcmp(n->config->admin->page, ADMIN_PAGE_DEFAULT) == 0;
    struct page_deps deps = { .loop = n->loop,
                              .listen = n->config->admin->page,
                              .identity = n->tls.page.identity,
                              .refuse_interfaces = n->config->rpc->refuse_interfaces,
                              .admin = n->admin,
                              .sample = page_sample,
                              .about = page_about,
                              .ud = n };
    struct fn_error e = ERR_INIT;
    int r;

    admin_route(n->admin, "GET", "/page", on_page, n);
    if (!node_has_page(n)) {
        return 0;
    }
    page_collect(n, &deps);
    r = page_create(&deps, &n->page, &e);
    if (r < 0 && !by_default) {
        return err_set(reterr, r, "admin.page: %s", e.msg);
    }
    if (r < 0) {
        log_warn("no operator's page: set admin.page to another address, or to off", "error",
                 e.msg);
    }
    return 0;
}
