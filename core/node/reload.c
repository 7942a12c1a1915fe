/* The three steps of a reload: a worker reads the file and makes the new generation; the loop
 * switches; whoever asked (the admin socket or a signal) is told. */
#include <node/node.h>

#include <base/log.h>
#include <base/metric.h>
#include <jansson.h>
#include <loop/log_writer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that somebody is writing is read when it was left alone for a moment. */
#define SETTLE_NS (200 * ENV_MS)
#define SETTLE_MAX_NS (2 * ENV_S)

#define DRAINING "busy, the node is draining"

struct reload {
    struct node *node;
    bool strict;
    bool again;   /* a signal came meanwhile */
    bool stopped; /* the node drains */
    int64_t begun_ns;
    struct admin_request *rq; /* of whoever asked; NULL: a signal */
    struct env_work work;
    /* the worker's until done: */
    const struct config *running;
    struct plugin *running_pool;
    struct generation *next; /* NULL: the file is refused */
    struct conf_problems problems;

    struct buf refusal;  /* problems of the last one, "" when it was taken */
    char refused_at[16]; /* "10:02:11" */
    struct metric *failed; /* gauge: the last one was refused */
    struct metric_family *reloads;
};

/* ---- on the worker --------------------------------------------------------------------------- */

static void reload_settle(struct reload *r, const char *path, struct fn_op *op)
{
    struct env *env = r->node->env;
    int64_t end_ns = env_now_ns(env) + SETTLE_MAX_NS;
    struct stat st;

    while (stat(path, &st) == 0 && env_now_ns(env) < end_ns) {
        int64_t changed_ns = (int64_t)st.st_mtim.tv_sec * ENV_S + st.st_mtim.tv_nsec;
        int64_t age_ns = env_wall_ns(env) - changed_ns;

        if (age_ns < 0 || age_ns >= SETTLE_NS) {
            return;
        }
        if (loop_op_if()->sleep_until(op, env_now_ns(env) + SETTLE_NS - age_ns) < 0) {
            return;
        }
    }
}

/* What `fnd check` would also tell about the plugins of a file with other mistakes. */
static void check_plugins(struct reload *r, const struct config *c)
{
    struct buf out = BUF_INIT(0);

    if (config_is_complete(c)) {
        config_print(c, r->node->host, &out, &r->problems);
    }
    buf_finish(&out);
}

static void check_live(struct reload *r, const struct config *c)
{
    struct node *n = r->node;

    config_check_live(r->running, c, &r->problems);
    n->env->enter(n->env);
    node_tls_check_live(&n->tls, c, &r->problems);
    n->env->leave(n->env);
}

/* Plugins that are created or started may name entries of tls: that are new, until done_make(). */
static void load_next(struct reload *r, const struct config *c)
{
    struct node *n = r->node;

    n->env->enter(n->env);
    node_tls_try(&n->tls, c);
    n->env->leave(n->env);
    generation_load(r->next, r->running_pool, &r->problems);
}

static void reload_make(struct reload *r, struct config *c)
{
    struct node *n = r->node;
    struct conf_problems *p = &r->problems;

    if (config_is_complete(c)) {
        config_plugin_policy(c, n->host, p);
        plugin_host_deadline(n->host, loop_aside, c->plugins->start_timeout_ns);
    }
    if (p->n > 0) {
        check_plugins(r, c);
        config_destroy(c);
        return;
    }
    check_live(r, c);
    config_check_kept(r->running, c, n->plugins, n->n_plugins, p);
    if (p->n > 0) {
        config_destroy(c);
        return;
    }
    r->next = generation_create(n, c, true);
    if (!r->next) {
        conf_problem(p, "CFG712", NULL, "out of memory");
        return;
    }
    load_next(r, c);
}

static void run_make(struct env_work *w, struct fn_op *op)
{
    struct reload *r = container_of(w, struct reload, work);
    const char *path = r->running->path;
    struct config *c = NULL;

    plugin_beside_begin();
    plugin_host_again(r->node->host);
    if (path) {
        reload_settle(r, path, op);
    }
    config_load(path, environ, &c, &r->problems);
    reload_make(r, c);
    plugin_beside_end();
}

/* ---- results --------------------------------------------------------------------------------- */

static json_t *lines_json(const char *text)
{
    json_t *list = json_array();

    while (*text) {
        size_t len = strcspn(text, "\n");

        json_array_append_new(list, json_stringn(text, len));
        text += len + (text[len] == '\n');
    }
    return list;
}

/* Counts it and answers rq, unless that is NULL; lines: problems or warnings. */
static void reload_tell(struct reload *r, struct admin_request *rq, const char *result, int status,
                        const char *message, const char *lines)
{
    const struct node *n = r->node;

    metric_add(metric_series(r->reloads, &result), 1);
    if (rq) {
        admin_answer(rq, status,
                     json_pack("{s:s, s:I, s:s, s:o}", "message", message, "generation",
                               (json_int_t)(n->gen->number + n->reloading), "from",
                               n->gen->loaded_at, "problems", lines_json(lines)));
    }
}

static void refused(struct reload *r)
{
    const struct generation *g = r->node->gen;
    struct buf others = BUF_INIT(0);
    char keeping[80];

    snprintf(keeping, sizeof(keeping), "keeping generation %llu from %s",
             (unsigned long long)g->number, g->loaded_at);
    buf_clear(&r->refusal);
    conf_problems_copy(&r->problems, true, &r->refusal);
    conf_problems_copy(&r->problems, false, &others);
    log_lines(FN_LOG_ERROR, buf_text(&r->refusal));
    conf_log_warnings(buf_text(&others));
    buf_finish(&others);
    log_error("the configuration was not taken", "problems", log_num(r->problems.n), "effect",
              keeping);
    generation_clock(r->node, r->refused_at);
    metric_set(r->failed, 1);
    reload_tell(r, r->rq, "refused", 422, "the configuration was not taken",
                buf_text(&r->problems.text));
}

static void taken(struct reload *r)
{
    struct node *n = r->node;

    conf_log_warnings(buf_text(&r->problems.text));
    log_info("the configuration was taken", "generation", log_num((int64_t)n->gen->number), "pool",
             n->gen->keeps_pool ? "kept" : NULL, "alive", log_num(generations_alive(n)), "took_ms",
             log_num((env_now_ns(n->env) - r->begun_ns) / ENV_MS));
    buf_clear(&r->refusal);
    metric_set(r->failed, 0);
    reload_tell(r, r->rq, "taken", 200, "taken", buf_text(&r->problems.text));
}

/* rq: NULL for a signal. */
static void reload_ask(struct reload *r, struct admin_request *rq);

static void done_make(struct env_work *w)
{
    struct reload *r = container_of(w, struct reload, work);
    struct generation *g = r->next;
    struct fn_error e = ERR_INIT;

    if (r->problems.n == 0 && !r->stopped && generation_switch(g, &e) < 0) {
        conf_problem(&r->problems, "CFG712", g->config->pool.where, "pool %s: %s",
                     g->config->pool.use, e.msg);
    }
    node_tls_try(&r->node->tls, NULL);
    r->node->reloading = false;
    r->next = NULL;
    if (g && (r->problems.n > 0 || r->stopped)) {
        generation_discard(g);
    }
    if (r->problems.n > 0) {
        refused(r);
    } else if (r->stopped) {
        reload_tell(r, r->rq, "busy", 409, DRAINING, "");
    } else {
        taken(r);
    }
    conf_problems_finish(&r->problems);
    if (r->again && !r->stopped) {
        r->again = false;
        reload_ask(r, NULL);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Why not now, or NULL. */
static const char *obstacle(const struct reload *r, char *text, size_t cap)
{
    const struct node *n = r->node;

    if (r->node->reloading) {
        snprintf(text, cap, "busy, generation %llu is being made",
                 (unsigned long long)n->gen->number + 1);
        return text;
    }
    if (r->stopped || !n->serving) {
        return r->stopped ? DRAINING : "busy, the node is starting";
    }
    if (generations_alive(n) >= GENERATIONS_MAX) {
        snprintf(text, cap,
                 "busy, %u generations are still in use by calls that began with them, or their "
                 "plugins do not end; at most %u",
                 generations_alive(n), GENERATIONS_MAX);
        return text;
    }
    return NULL;
}

static bool reload_begin(struct reload *r, struct admin_request *rq)
{
    struct node *n = r->node;

    r->rq = rq;
    node_settings_undo(n);
    r->node->reloading = true;
    r->begun_ns = env_now_ns(n->env);
    r->running = n->config;
    r->running_pool = n->gen->pool;
    conf_problems_init(&r->problems);
    r->problems.strict = r->strict;
    r->work = (struct env_work){ .run = run_make, .done = done_make, .lane = ENV_LANE_CONTROL };
    if (env_submit(n->env, &r->work) < 0) {
        r->node->reloading = false;
        conf_problems_finish(&r->problems);
        return false;
    }
    return true;
}

static void reload_ask(struct reload *r, struct admin_request *rq)
{
    char text[160];
    const char *why = obstacle(r, text, sizeof(text));

    if (!why && reload_begin(r, rq)) {
        return;
    }
    why = why ? why : "busy, no worker is free";
    log_warn("reload refused", "why", why);
    reload_tell(r, rq, "busy", 409, why, "");
}

void reload_signal(struct reload *r)
{
    if (r->node->reloading) {
        log_info("SIGHUP during a reload: another reload follows", "generation",
                 log_num((int64_t)r->node->gen->number + 1));
        r->again = true;
        return;
    }
    reload_ask(r, NULL);
}

/* ---- admin socket ---------------------------------------------------------------------------- */

static void on_reload(void *ud, struct admin_request *rq)
{
    log_writer_reopen();
    reload_ask(ud, rq);
}

json_t *reload_json(struct reload *r)
{
    const struct node *n = r->node;
    bool refused_last = r->refusal.len > 0;

    return json_pack("{s:I, s:s, s:i, s:s*, s:o*}", "generation", (json_int_t)n->gen->number,
                     "from", n->gen->loaded_at, "alive", (int)generations_alive(n), "refused_at",
                     refused_last ? r->refused_at : NULL, "problems",
                     refused_last ? lines_json(buf_text(&r->refusal)) : NULL);
}

static void on_generations(void *ud, struct admin_request *rq)
{
    const struct node *n = ((struct reload *)ud)->node;
    const struct generation *g;
    json_t *list = json_array();

    LIST_FOREACH(g, &n->generations, link)
    {
        json_array_append_new(
            list, json_pack("{s:I, s:s, s:s, s:i, s:i}", "generation", (json_int_t)g->number,
                            "from", g->loaded_at, "state",
                            g->stuck ? "stuck" : generation_states.names[g->state],
                            "calls", (int)(g->chain.refs - (g == n->gen ? g->lent : 0)),
                            "plugins", (int)(g->n_plugins + (g->pool != NULL))));
    }
    admin_answer(rq, 200, json_pack("{s:o}", "generations", list));
}

void reload_routes(struct reload *r, struct admin *a)
{
    admin_route(a, "POST", "/reload", on_reload, r);
    admin_route(a, "GET", "/generations", on_generations, r);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct reload *reload_create(struct node *n, bool strict)
{
    static const char *const labels[] = { "result", NULL };
    static const char *const results[] = { "taken", "refused", "busy" };
    static const struct metric_def reloads = {
        .name = "fn_config_reloads",
        .help = "Reloads of the configuration by result: taken, refused, busy.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    struct reload *r = calloc(1, sizeof(*r));

    if (r) {
        r->node = n;
        r->strict = strict;
        buf_init(&r->refusal, 0);
        r->failed = metric_simple("fn_config_reload_failed", METRIC_GAUGE,
                                  "1 when the last reload was refused, else 0.");
        r->reloads = metric_declare(&reloads);
        for (uint32_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
            metric_series(r->reloads, &results[i]); /* there at zero */
        }
    }
    return r;
}

void reload_destroy(struct reload *r)
{
    if (r) {
        buf_finish(&r->refusal);
        free(r);
    }
}

void reload_stop(struct reload *r)
{
    r->stopped = true;
}

bool reload_is_quiet(const struct reload *r)
{
    return !r->node->reloading && r->node->generations_ending == 0;
}
