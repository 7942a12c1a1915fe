/* How a generation is made on a worker, becomes current on the loop, and is destroyed on a
 * worker again once nobody counts it. Its states are in generation.h. */
#include <node/node.h>
#include <process/supervise.h>

#include <base/log.h>
#include <base/metric.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define END_AGAIN_NS (1 * ENV_S) /* when no worker takes the end of a generation */

static const uint32_t follows[GENERATION_STATES_N] = {
    [GENERATION_MADE] = STATE(GENERATION_CURRENT) | STATE(GENERATION_ENDING),
    [GENERATION_CURRENT] = STATE(GENERATION_DRAINING),
    [GENERATION_DRAINING] = STATE(GENERATION_ENDING),
    [GENERATION_ENDING] = 0,
};
static const char *const names[GENERATION_STATES_N] = { "made", "current", "draining", "ending" };
const struct states generation_states = { "generation", names, follows, GENERATION_STATES_N };

static void generation_enter(struct generation *g, enum generation_state state)
{
    g->state = (enum generation_state)states_next(&generation_states, g->state, state);
}

static struct metric *alive_metric(void)
{
    return metric_simple("fn_config_generations", METRIC_GAUGE,
                         "Generations of the configuration whose plugin instances exist.");
}

static struct metric *stuck_metric(void)
{
    return metric_simple("fn_config_generations_stuck", METRIC_GAUGE,
                         "Replaced generations that calls still use after 30 s.");
}

/* ---- making ---------------------------------------------------------------------------------- */

void generation_clock(struct node *n, char ret[16])
{
    const time_t now_s = (time_t)(env_wall_ns(n->env) / ENV_S);
    struct tm tm;

    gmtime_r(&now_s, &tm);
    strftime(ret, 16, "%H:%M:%S", &tm);
}

struct plugin *generation_plugin(struct generation *g, const struct config_plugin *section,
                                 struct conf_problems *p)
{
    struct plugin *plugin = NULL;

    if (!section->use || config_plugin_load(g->config, g->node->host, section, &plugin, p) < 0) {
        return NULL;
    }
    g->plugins[g->n_plugins++] = plugin;
    return plugin;
}

static bool has_plugin(const struct generation *g, const struct plugin *plugin)
{
    for (uint32_t i = 0; g && i < g->n_plugins; i++) {
        if (g->plugins[i] == plugin) {
            return true;
        }
    }
    return false;
}

/* Each chain has a line of changes of its own, and a listener hears of one change at a time. */
static bool may_be_shared(const struct plugin *listener)
{
    const struct fn_listener_ops *ops = plugin_ops(listener);

    return ops->after_worker && !ops->before_change && !ops->after_change;
}

/* The one of the generation that serves, if it has the same options; else a new one. */
static void load_listener(struct generation *g, const struct config_plugin *section,
                          struct conf_problems *p)
{
    const struct generation *running = g->node->gen;
    uint32_t told = p->n;

    for (uint32_t i = 0; running && section->use && i < running->chain.n_listeners; i++) {
        struct plugin *listener = running->listeners[i];

        if (may_be_shared(listener) && strcmp(plugin_name(listener), section->name) == 0 &&
            !has_plugin(g, listener) &&
            config_plugin_same(g->config, g->node->host, section, listener, p)) {
            g->plugins[g->n_plugins++] = listener;
            return;
        }
    }
    if (p->n == told) {
        generation_plugin(g, section, p);
    }
}

/* The instances of one list stand next to each other. False: one is missing, now or since the check
 * that refused its section. */
static bool load_list(struct generation *g, const struct config_list_plugin *list, bool listeners,
                      struct plugin ***ret, struct conf_problems *p)
{
    *ret = g->plugins + g->n_plugins;
    for (uint32_t i = 0; i < list->n; i++) {
        if (listeners) {
            load_listener(g, &list->items[i], p);
        } else {
            generation_plugin(g, &list->items[i], p);
        }
    }
    return g->plugins + g->n_plugins == *ret + list->n;
}

/* What a node has for listeners to hear of: calls, changes, or both. */
static void warn_deaf(const struct generation *g, struct conf_problems *p)
{
    const struct node *n = g->node;
    bool calls = n->front->set_chain != NULL;
    bool changes = false;

    for (uint32_t i = 0; i < n->n_sides; i++) {
        changes = changes || (n->sides[i]->hears_changes && g->config->store->url);
    }
    for (uint32_t i = 0; i < g->config->listeners.n; i++) {
        const struct fn_listener_ops *ops = plugin_ops(g->listeners[i]);
        bool of_calls = ops->before || ops->after || ops->after_worker;
        bool of_changes = ops->before_change || ops->after_change;

        if ((of_calls || of_changes) && !(of_calls && calls) && !(of_changes && changes)) {
            conf_warning(p, "CFG710", g->config->listeners.items[i].where,
                         "listener %s: has no effect: it hears of %s, and this node has none",
                         plugin_name(g->listeners[i]),
                         of_calls && of_changes ? "calls and changes"
                         : of_calls             ? "calls"
                                                : "changes");
        }
    }
}

static void on_chain_gone(struct chain *c)
{
    generation_unref(container_of(c, struct generation, chain));
}

static void make_chain(struct generation *g, struct conf_problems *p)
{
    const struct chain *before = g->node->gen ? &g->node->gen->chain : NULL;

    g->chain = (struct chain){ .overriders = g->overriders,
                               .n_overriders = g->config->overriders.n,
                               .listeners = g->listeners,
                               .n_listeners = g->config->listeners.n,
                               .gone = on_chain_gone };
    if (chain_open(&g->chain, g->node->env, before) < 0) {
        conf_problem(p, "CFG703", NULL, "listeners: out of memory");
    }
}

int generation_load(struct generation *g, struct plugin *running, struct conf_problems *p)
{
    const struct node *n = g->node;
    uint32_t told = p->n;
    bool whole = load_list(g, &g->config->overriders, false, &g->overriders, p);

    whole = load_list(g, &g->config->listeners, true, &g->listeners, p) && whole;
    for (uint32_t i = 0; i < n->n_sides; i++) {
        if (n->sides[i]->load) {
            n->sides[i]->load(g, running, p);
        }
    }
    if (p->n == told && whole) {
        warn_deaf(g, p);
        make_chain(g, p);
    }
    return p->n > told || !whole ? FN_E_INVALID : 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void destroy_plugins(struct generation *g)
{
    plugin_destroy(g->pool);
    g->pool = NULL;
    while (g->n_plugins > 0) {
        plugin_destroy(g->plugins[--g->n_plugins]);
    }
}

/* Those that another one has, too, are its from now on. */
static void leave_shared(struct generation *g)
{
    const struct generation *other;
    uint32_t left = 0;

    for (uint32_t i = 0; i < g->n_plugins; i++) {
        bool shared = false;

        LIST_FOREACH(other, &g->node->generations, link)
        {
            shared = shared || (other != g && other->state != GENERATION_ENDING &&
                                has_plugin(other, g->plugins[i]));
        }
        if (!shared) {
            g->plugins[left++] = g->plugins[i];
        }
    }
    g->n_plugins = left;
}

static void free_generation(struct generation *g)
{
    LIST_REMOVE(g, link);
    metric_set(alive_metric(), generations_alive(g->node));
    if (g->stuck) {
        metric_add(stuck_metric(), -1);
        log_info("a stuck generation has ended", "generation", log_num((int64_t)g->number));
    }
    chain_close(&g->chain);
    free(g->plugins);
    free(g);
}

static void end_run(struct env_work *w, struct fn_op *op)
{
    struct generation *g = container_of(w, struct generation, end_work);

    (void)op;
    plugin_beside_begin();
    destroy_plugins(g);
    plugin_beside_end();
    if (g->own_config) {
        config_destroy(g->config);
    }
}

static void end_done(struct env_work *w)
{
    struct generation *g = container_of(w, struct generation, end_work);

    g->node->generations_ending--;
    log_debug("generation ended", "generation", log_num((int64_t)g->number));
    free_generation(g);
}

static void end_begin(struct generation *g)
{
    struct env *env = g->node->env;

    g->end_work = (struct env_work){ .run = end_run, .done = end_done, .lane = ENV_LANE_CONTROL };
    if (env_submit(env, &g->end_work) < 0) {
        env_timer_set(env, &g->end_again, env_now_ns(env) + END_AGAIN_NS);
        return;
    }
    g->node->generations_ending++;
}

static void on_end_again(struct env_timer *t)
{
    end_begin(container_of(t, struct generation, end_again));
}

/* Nobody calls its plugins any more: their timers go here, the rest may block and goes to a
 * worker. */
static void on_end_task(struct env_task *t)
{
    struct generation *g = container_of(t, struct generation, end_task);

    generation_enter(g, GENERATION_ENDING);
    env_timer_clear(g->node->env, &g->stuck_timer);
    if (g->pool) {
        place_forget_pool(g->node->place, g->pool);
        plugin_retire(g->pool);
    }
    leave_shared(g);
    for (uint32_t i = 0; i < g->n_plugins; i++) {
        plugin_retire(g->plugins[i]);
    }
    catalog_destroy(g->catalog);
    g->catalog = NULL;
    end_begin(g);
}

void generation_unref(void *ud)
{
    struct generation *g = ud;

    if (--g->refs == 0) {
        env_defer(g->node->env, &g->end_task); /* its plugin may be on the stack */
    }
}

void generation_abandon(struct generation *g)
{
    LIST_INSERT_HEAD(&g->node->generations, g, link);
}

void generation_discard(struct generation *g)
{
    generation_abandon(g);
    env_defer(g->node->env, &g->end_task);
}

static void on_stuck(struct env_timer *t)
{
    struct generation *g = container_of(t, struct generation, stuck_timer);

    g->stuck = true;
    metric_add(stuck_metric(), 1);
    log_warn("a replaced generation is still in use; its plugins stay until its last call ends and "
             "its pool stops",
             "generation", log_num((int64_t)g->number), "from", g->loaded_at, "calls",
             log_num(g->chain.refs), "replaced_s",
             log_num((env_now_ns(g->node->env) - g->replaced_ns) / ENV_S));
}

/* ---- use ------------------------------------------------------------------------------------- */

static void become_current(struct generation *g)
{
    struct node *n = g->node;

    generation_enter(g, GENERATION_CURRENT);
    g->refs++;
    n->gen = g;
    n->config = g->config;
    LIST_INSERT_HEAD(&n->generations, g, link);
    supervise_loaded(g->config->path);
    metric_set(alive_metric(), generations_alive(n));
    metric_set(metric_simple("fn_config_generation", METRIC_GAUGE,
                             "Number of the generation of the configuration that new calls get."),
               (int64_t)g->number);
}

/* `old` is NULL at the start. < 0: nothing changed. */
static int generation_take(struct generation *g, struct generation *old, struct fn_error *reterr)
{
    struct node *n = g->node;
    int r = 0;

    for (uint32_t i = 0; i < n->n_sides && r == 0; i++) {
        r = n->sides[i]->take ? n->sides[i]->take(g, old, reterr) : 0;
    }
    if (r == 0) {
        become_current(g);
    }
    return r;
}

/* Parts that use the chain count it, and it counts the generation; here for the time when none has
 * it yet. */
static int use(struct generation *g)
{
    struct node *n = g->node;
    int r = 0;

    g->refs++;
    chain_ref(&g->chain);
    for (uint32_t i = 0; i < n->n_sides; i++) {
        if (n->sides[i]->use && n->sides[i]->use(g) < 0) {
            r = FN_E_EXHAUSTED;
        }
    }
    if (n->front->set_chain) {
        n->front->set_chain(n, &g->chain);
    }
    g->lent = g->chain.refs - 1;
    chain_unref(&g->chain);
    return r;
}

int generation_adopt(struct generation *g, struct fn_error *reterr)
{
    int r = generation_take(g, NULL, reterr);

    if (r < 0) {
        return r;
    }
    return use(g) < 0 ? err_set(reterr, FN_E_EXHAUSTED, "out of memory") : 0;
}

static void replace(struct generation *old, const struct generation *next)
{
    struct env *env = old->node->env;

    generation_enter(old, GENERATION_DRAINING);
    old->replaced_ns = env_now_ns(env);
    chain_retire(&old->chain, &next->chain);
    env_timer_set(env, &old->stuck_timer, old->replaced_ns + GENERATION_STUCK_NS);
    generation_unref(old);
}

int generation_switch(struct generation *g, struct fn_error *reterr)
{
    struct node *n = g->node;
    struct generation *old = n->gen;
    int r;

    for (uint32_t i = 0; i < g->n_plugins; i++) {
        if (!has_plugin(old, g->plugins[i])) {
            plugin_go(g->plugins[i]);
        }
    }
    if (g->pool) {
        plugin_go(g->pool);
    }
    r = generation_take(g, old, reterr);
    if (r < 0) {
        return r;
    }
    chain_follow(&g->chain, &old->chain);
    if (use(g) < 0) {
        log_error("out of memory: not every group of runners got the new placer");
    }
    node_apply(n);
    replace(old, g);
    return 0;
}

/* ---- one, and all of them -------------------------------------------------------------------- */

struct generation *generation_create(struct node *n, struct config *config, bool own_config)
{
    struct generation *g = calloc(1, sizeof(*g));
    uint32_t most = config->overriders.n + config->listeners.n + config->placers.n +
                    config->shadow.n + 2;

    if (!g || !(g->plugins = calloc(most, sizeof(*g->plugins)))) {
        free(g);
        if (own_config) {
            config_destroy(config);
        }
        return NULL;
    }
    g->node = n;
    g->config = config;
    g->own_config = own_config;
    g->number = n->gen ? n->gen->number + 1 : 1;
    g->end_task.cb = on_end_task;
    g->end_again.cb = on_end_again;
    g->stuck_timer.cb = on_stuck;
    generation_clock(n, g->loaded_at);
    return g;
}

uint32_t generations_alive(const struct node *n)
{
    const struct generation *g;
    uint32_t alive = 0;

    LIST_FOREACH(g, &n->generations, link)
    {
        alive++;
    }
    return alive;
}

bool generations_are_told(const struct node *n)
{
    const struct generation *g;

    LIST_FOREACH(g, &n->generations, link)
    {
        if (!chain_is_told(&g->chain)) {
            return false;
        }
    }
    return true;
}

void generations_close(struct node *n)
{
    struct generation *g;

    while ((g = LIST_FIRST(&n->generations))) {
        env_undefer(n->env, &g->end_task);
        env_timer_clear(n->env, &g->end_again);
        env_timer_clear(n->env, &g->stuck_timer);
        leave_shared(g);
        destroy_plugins(g);
        catalog_destroy(g->catalog);
        if (g->own_config) {
            config_destroy(g->config);
        }
        free_generation(g);
    }
}
