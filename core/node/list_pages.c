/* GET /calls, /containers, /peers: what there is now, for people who look.
 *
 * A page is written a slice in each turn of the loop, so that a hundred thousand calls delay none
 * of them: {"calls": [{...}, ...], "more": false}. Rows of several sides say which one they are
 * of. */
#include <node/node.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_DEFAULT 1000u
#define ROWS_MAX     10000u
#define SLICE_ROWS   50u /* of a turn: some 0.2 ms */

struct listing {
    struct admin_stream stream;
    struct node *node;
    struct admin_request *rq; /* its arena has this */
    const char *name;             /* in its path */
    uint32_t side;                /* of node->sides: whose list is read, or is next */
    const struct node_list *list; /* that is being walked; NULL = none */
    struct walk walk;
    uint32_t left; /* rows that it may still have */
    struct buf out; /* of this turn */
    bool any;
    struct env_timer turn; /* due at once: deferred tasks run in this turn of the loop */
};

static const struct node_list *list_of(const struct node_side *side, const char *name)
{
    const struct node_list *l = side->lists;

    while (l && l->name && strcmp(l->name, name) != 0) {
        l++;
    }
    return l && l->name ? l : NULL;
}

/* The next list of this name, or false: none is left. */
static bool next_list(struct listing *g)
{
    while (!g->list && g->side < g->node->n_sides) {
        g->list = list_of(g->node->sides[g->side], g->name);
        if (g->list) {
            g->list->begin(g->node, &g->walk);
        } else {
            g->side++;
        }
    }
    return g->list != NULL;
}

static int put_row(struct listing *g, json_t *row)
{
    char *text;
    int r;

    json_object_set_new(row, "side", json_string(g->node->sides[g->side]->name));
    text = json_dumps(row, JSON_COMPACT);
    r = text ? buf_printf(&g->out, "%s%s", g->any ? "," : "", text) : FN_E_EXHAUSTED;
    g->any = true;
    free(text);
    json_decref(row);
    return r;
}

static void listing_end(struct listing *g)
{
    if (g->list) {
        walk_end(&g->walk);
        g->list = NULL;
    }
    env_timer_clear(g->node->env, &g->turn);
    buf_finish(&g->out);
}

static void list_on_gone(struct admin_stream *s)
{
    listing_end(container_of(s, struct listing, stream));
}

static void next_turn(struct listing *g)
{
    env_timer_set(g->node->env, &g->turn, env_now_ns(g->node->env));
}

static void on_more(struct admin_stream *s)
{
    next_turn(container_of(s, struct listing, stream));
}

enum slice { SLICE_MORE, SLICE_END, SLICE_LIMIT, SLICE_FAILED };

static enum slice put_slice(struct listing *g)
{
    for (uint32_t n = 0; n < SLICE_ROWS;) {
        json_t *row = next_list(g) ? g->list->next(g->node, &g->walk) : NULL;

        if (!g->list) {
            return SLICE_END;
        }
        if (!row) {
            walk_end(&g->walk);
            g->list = NULL;
            g->side++;
        } else if (g->left == 0) {
            json_decref(row);
            return SLICE_LIMIT;
        } else if (put_row(g, row) < 0) {
            return SLICE_FAILED;
        } else {
            g->left--;
            n++;
        }
    }
    return SLICE_MORE;
}

static void list_on_turn(struct env_timer *t)
{
    struct listing *g = container_of(t, struct listing, turn);
    enum slice s = put_slice(g);
    const char *tail = s == SLICE_LIMIT ? "],\"more\":true}\n" : "],\"more\":false}\n";

    if (s == SLICE_END || s == SLICE_LIMIT) {
        s = buf_add(&g->out, tail, strlen(tail)) < 0 ? SLICE_FAILED : s;
    }
    if (s == SLICE_FAILED) {
        listing_end(g);
        admin_stream_cut(g->rq);
        return;
    }
    if (admin_stream_part(g->rq, g->out.data, g->out.len) == 0 && s == SLICE_MORE) {
        next_turn(g);
    }
    buf_clear(&g->out);
    if (s != SLICE_MORE) {
        listing_end(g);
        admin_stream_end(g->rq);
    }
}

/* "limit=50"; 0: something else. */
static uint32_t limit_of(const char *query)
{
    char *end;
    unsigned long n;

    if (!query) {
        return ROWS_DEFAULT;
    }
    if (strncmp(query, "limit=", 6) != 0) {
        return 0;
    }
    n = strtoul(query + 6, &end, 10);
    return *end == '\0' && n <= ROWS_MAX ? (uint32_t)n : 0;
}

static bool is_there(const struct node *n, const char *name)
{
    for (uint32_t i = 0; i < n->n_sides; i++) {
        if (list_of(n->sides[i], name)) {
            return true;
        }
    }
    return false;
}

static void on_list(void *ud, struct admin_request *rq)
{
    struct node *n = ud;
    uint32_t limit = limit_of(rq->query);
    struct listing *g = arena_alloc(rq->arena, sizeof(*g));

    if (!is_there(n, rq->path + 1)) {
        admin_refuse(rq, 404, "this %s node has no %s", n->config->type->word, rq->path + 1);
        return;
    }
    if (limit == 0 || !g) {
        admin_refuse(rq, g ? 400 : 503, g ? "expected ?limit=1 to %u" : "out of memory", ROWS_MAX);
        return;
    }
    *g = (struct listing){ .stream = { on_more, list_on_gone },
                           .node = n,
                           .rq = rq,
                           .name = rq->path + 1,
                           .left = limit,
                           .out = BUF_INIT(0),
                           .turn.cb = list_on_turn };
    if (buf_printf(&g->out, "{\"%s\":[", g->name) < 0) {
        buf_finish(&g->out);
        admin_refuse(rq, 503, "out of memory");
        return;
    }
    admin_stream_begin(rq, &g->stream);
    next_turn(g);
}

void node_lists_open(struct node *n)
{
    static const char *const pages[] = { "/calls", "/containers", "/peers" };

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        admin_route(n->admin, "GET", pages[i], on_list, n);
    }
}

/* ---- the lists ------------------------------------------------------------------------------- */

static json_int_t ms(int64_t ns)
{
    return (json_int_t)(ns / ENV_MS);
}

static void lb_calls_begin(struct node *n, struct walk *w)
{
    lb_walk(n->lb, w);
}

static json_t *lb_calls_next(struct node *n, struct walk *w)
{
    struct lb_call_row c;

    if (!lb_walk_next(n->lb, w, &c)) {
        return NULL;
    }
    return json_pack("{s:s, s:s, s:I, s:s, s:s*, s:s*, s:s*, s:i}", "call_id", c.call_id, "state",
                     c.state, "age_ms", ms(c.age_ns), "waits_for", c.waits_for, "app_id", c.app_id,
                     "fn_id", c.fn_id, "runner", c.runner, "offers", (int)c.offers);
}

static void runner_calls_begin(struct node *n, struct walk *w)
{
    runner_walk_calls(n->runner, w);
}

static json_t *runner_calls_next(struct node *n, struct walk *w)
{
    struct runner_call_row c;

    if (!runner_walk_next_call(n->runner, w, &c)) {
        return NULL;
    }
    return json_pack("{s:s*, s:s, s:I, s:s, s:s*, s:s*, s:s*, s:I}", "call_id", c.call_id, "state",
                     c.state, "age_ms", ms(c.age_ns), "waits_for", c.waits_for, "app_id", c.app_id,
                     "fn_id", c.fn_id, "container_id", c.container_id, "body_bytes",
                     (json_int_t)c.body_bytes);
}

static void containers_begin(struct node *n, struct walk *w)
{
    runner_walk_containers(n->runner, w);
}

static json_t *containers_next(struct node *n, struct walk *w)
{
    struct runner_container_row c;

    if (!runner_walk_next_container(n->runner, w, &c)) {
        return NULL;
    }
    return json_pack("{s:s, s:s, s:I, s:s, s:s*, s:s*, s:s*, s:s*, s:I, s:b}", "container_id",
                     c.container_id, "state", c.state, "age_ms", ms(c.age_ns), "waits_for",
                     c.waits_for, "app_id", c.app_id, "fn_id", c.fn_id, "image", c.image, "call_id",
                     c.call_id, "mem_bytes", (json_int_t)c.mem_bytes, "warm", c.warm);
}

static void peers_begin(struct node *n, struct walk *w)
{
    rpc_walk_peers(n->rpc, w);
}

static json_t *peers_next(struct node *n, struct walk *w)
{
    struct rpc_peer_row p;

    if (!rpc_walk_next_peer(n->rpc, w, &p)) {
        return NULL;
    }
    return json_pack("{s:s, s:s, s:I, s:s, s:s*, s:s*}", "address", p.address, "state", p.state,
                     "age_ms", ms(p.age_ns), "waits_for", p.waits_for, "why", p.why, "labels",
                     p.labels);
}

const struct node_list node_lb_lists[] = { { "calls", lb_calls_begin, lb_calls_next },
                                           { "peers", peers_begin, peers_next },
                                           { NULL, NULL, NULL } };
const struct node_list node_runner_lists[] = {
    { "calls", runner_calls_begin, runner_calls_next },
    { "containers", containers_begin, containers_next },
    { NULL, NULL, NULL }
};
const struct node_list node_npm_lists[] = { { "peers", peers_begin, peers_next },
                                            { NULL, NULL, NULL } };
