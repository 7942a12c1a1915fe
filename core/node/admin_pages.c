/* What a node shows on its admin socket. */
#include <node/logs.h>
#include <node/node.h>

#include <base/log.h>

static void page_on_status(void *ud, struct admin_request *rq)
{
    admin_answer(rq, 200, node_status(ud));
}

static void on_elsewhere(void *ud, struct admin_request *rq)
{
    const struct node_elsewhere *e = ud;

    admin_refuse(rq, 404, "%s%s%s", e->side->elsewhere[0], e->node->config->type->word,
                 e->side->elsewhere[1]);
}

/* What sides of other nodes show is answered too: somebody asks the wrong node. */
static void open_routes(struct node *n)
{
    for (int i = 0; i < SIDES_N; i++) {
        const struct node_side *side = node_sides[i];
        bool here = config_has(n->config, (enum config_side)i);

        n->elsewhere[i] = (struct node_elsewhere){ n, side };
        for (const struct node_route *r = side->routes; r && r->method; r++) {
            admin_route(n->admin, r->method, r->prefix, here ? r->handler : on_elsewhere,
                        here ? (void *)n : &n->elsewhere[i]);
        }
        if (here && side->with_admin && n->admin_path[0]) {
            side->with_admin(n);
        }
    }
}

/* n->admin_path is "" when there is no socket. */
static int open_socket(struct node *n, struct fn_error *reterr)
{
    struct fn_error e = ERR_INIT;
    int r = admin_socket_path(n->config->admin, n->config->http->listen,
                              http_server_port(web_server(n->web)), n->admin_path, &e);

    if (r == FN_E_NOT_FOUND) {
        return 0;
    }
    r = r < 0 ? r : admin_create(n->loop, n->admin_path, &n->admin, &e);
    if (r < 0 && (n->config->admin->socket || r == FN_E_UNAVAILABLE)) {
        return err_set(reterr, FN_E_UNAVAILABLE, "%s", e.msg);
    }
    if (r < 0) {
        log_warn("no admin socket: set admin.socket to a path in a folder of this user, or to off",
                 "error", e.msg);
        n->admin_path[0] = '\0';
    }
    return 0;
}

/* The page asks the same handlers, also where there is no socket. */
int node_admin_open(struct node *n, struct fn_error *reterr)
{
    int r = open_socket(n, reterr);

    if (r == 0 && node_has_page(n) && !n->admin) {
        r = admin_create(n->loop, NULL, &n->admin, reterr);
    }
    if (r < 0 || !n->admin) {
        return r;
    }
    admin_route(n->admin, "GET", "/status", page_on_status, n);
    reload_routes(n->reload, n->admin);
    node_lists_open(n);
    admin_route(n->admin, "GET", "/logs/", node_logs, n);
    open_routes(n);
    return node_page_open(n, reterr);
}
