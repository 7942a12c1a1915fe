/* The tables that every instance gets. Without an env (tools that only look at plugins) they answer
 * harmlessly: time stands still, timers are refused. */
#include <plugin/plugin_int.h>

#include <base/hash.h>
#include <base/table.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct plugin *tables_of(const struct fn_host *host)
{
    return host->priv;
}

/* ---- clock ----------------------------------------------------------------------------------- */

static int64_t clock_now(const struct fn_host *host)
{
    PLUGIN_HOST_CALL("fn.clock.now");
    struct env *env = tables_of(host)->owner->env;

    return env ? env_now_ns(env) : 0;
}

static int64_t clock_wall(const struct fn_host *host)
{
    PLUGIN_HOST_CALL("fn.clock.wall");
    struct env *env = tables_of(host)->owner->env;

    return env ? env_wall_ns(env) : 0;
}

static const struct fn_clock_if clock_if = { FN_HDR(struct fn_clock_if, FN_MAGIC_CLOCK), clock_now,
                                             clock_wall };

/* ---- timers: owned by the instance, freed when they fire, are cancelled, or with it ---------- */

struct plugin_timer {
    struct env_timer timer;
    int64_t at_ns;
    uint64_t id;
    struct plugin *plugin;
    void (*cb)(void *ud);
    void *ud;
    UT_hash_handle hh;
};

static void timer_forget(struct plugin_timer *t)
{
    HASH_DEL(t->plugin->timers, t);
    t->plugin->n_timers--;
    free(t);
}

static void timer_fired(struct env_timer *timer)
{
    struct plugin_timer *t = container_of(timer, struct plugin_timer, timer);
    struct plugin *p = t->plugin;
    struct plugin_crumb crumb;
    void (*cb)(void *ud) = t->cb;
    void *ud = t->ud;

    timer_forget(t);
    plugin_enter(&crumb, p, PLUGIN_LOOP, "timer");
    cb(ud);
    plugin_leave(&crumb);
}

/* The timers belong to the loop: a thread of the plugin's own, or a worker, would tear them
 * apart. */
static bool on_loop(struct plugin *p, const char *what)
{
    const struct plugin_crumb *c = plugin_current();

    if (c ? c->context == PLUGIN_WORKER : !plugin_thread_of_host) {
        plugin_bad_answer(p, what);
        return false;
    }
    return true;
}

static int timer_arm(const struct fn_host *host, int64_t at_ns, void (*cb)(void *ud), void *ud,
                     uint64_t *ret_id)
{
    PLUGIN_HOST_CALL("fn.timer.arm");
    struct plugin *p = tables_of(host);
    struct plugin_timer *t;

    if (!cb || !ret_id) {
        return FN_E_INVALID;
    }
    if (!on_loop(p, "fn.timer.arm from a thread that is not the loop")) {
        return FN_E_PRECONDITION;
    }
    if (!p->owner->env) {
        return FN_E_UNAVAILABLE;
    }
    if (p->n_timers >= PLUGIN_TIMERS_MAX) {
        return FN_E_EXHAUSTED;
    }
    t = calloc(1, sizeof(*t));
    if (!t) {
        return FN_E_EXHAUSTED;
    }
    t->id = ++p->timer_last;
    t->plugin = p;
    t->cb = cb;
    t->ud = ud;
    t->timer.cb = timer_fired;
    HASH_ADD(hh, p->timers, id, sizeof(t->id), t);
    if (!table_has(t)) {
        free(t);
        return FN_E_EXHAUSTED;
    }
    p->n_timers++;
    t->at_ns = at_ns;
    if (!p->held) {
        env_timer_set(p->owner->env, &t->timer, at_ns);
    }
    *ret_id = t->id;
    return 0;
}

static int timer_cancel(const struct fn_host *host, uint64_t id)
{
    PLUGIN_HOST_CALL("fn.timer.cancel");
    struct plugin *p = tables_of(host);
    struct plugin_timer *t;

    if (!on_loop(p, "fn.timer.cancel from a thread that is not the loop")) {
        return FN_E_PRECONDITION;
    }
    HASH_FIND(hh, p->timers, &id, sizeof(id), t);
    if (t) {
        env_timer_clear(p->owner->env, &t->timer);
        timer_forget(t);
    }
    return 0;
}

static const struct fn_timer_if timer_if = { FN_HDR(struct fn_timer_if, FN_MAGIC_TIMER), timer_arm,
                                             timer_cancel };

/* ---- log ------------------------------------------------------------------------------------- */

static void host_log_write(const struct fn_host *host, uint32_t level, const char *msg, size_t len)
{
    PLUGIN_HOST_CALL("fn.log.write");
    struct plugin *p = tables_of(host);
    char text[PLUGIN_LOG_MAX];

    if (level < FN_LOG_ERROR || level > log_level() || !msg) {
        return;
    }
    if (len > sizeof(text) - 1) {
        len = sizeof(text) - 1;
    }
    memcpy(text, msg, len);
    text[len] = '\0';
    log_write_gated(&p->log_gate, LOG_GATE_LINES, level, text, "plugin", p->name, "kind",
                    p->factory->kind, (char *)NULL);
}

/* ---- metrics: one family per kind, factory and name, one series per instance ----------------- */

static bool metric_name_ok(const char *s)
{
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    return n > 0 && n <= 48 && s[n] == '\0';
}

static int metric_declare_for(const struct fn_host *host, const char *name, uint32_t kind,
                              uint32_t *ret_id)
{
    PLUGIN_HOST_CALL("fn.metric.declare");
    static const char *const labels[] = { "instance", NULL };
    struct plugin *p = tables_of(host);
    const char *values[] = { p->name };
    char full[160];
    const struct metric_def def = { .name = full,
                                    .help = "Declared by a plugin.",
                                    .kind = kind == FN_METRIC_COUNTER ? METRIC_COUNTER
                                                                      : METRIC_GAUGE,
                                    .labels = labels };
    char *s;

    if (!p->creating) {
        return FN_E_PRECONDITION;
    }
    if (!metric_name_ok(name) || !ret_id ||
        (kind != FN_METRIC_COUNTER && kind != FN_METRIC_GAUGE)) {
        return FN_E_INVALID;
    }
    if (p->n_metrics == PLUGIN_METRICS_MAX) {
        return FN_E_EXHAUSTED;
    }
    snprintf(full, sizeof(full), "fn_plugin_%s_%s_%s", p->factory->kind, p->factory->name, name);
    for (s = full; *s; s++) {
        *s = *s == '-' ? '_' : *s;
    }
    p->metrics[p->n_metrics] = metric_series(metric_declare(&def), values);
    p->metric_kinds[p->n_metrics] = kind;
    *ret_id = p->n_metrics++;
    return 0;
}

static void metric_add_for(const struct fn_host *host, uint32_t id, int64_t delta)
{
    struct plugin *p = tables_of(host);

    if (id < p->n_metrics && (delta >= 0 || p->metric_kinds[id] == FN_METRIC_GAUGE)) {
        metric_add(p->metrics[id], delta);
        __atomic_fetch_add(&p->metric_sums[id], delta, __ATOMIC_RELAXED);
    }
}

static const struct fn_metric_if metric_if = { FN_HDR(struct fn_metric_if, FN_MAGIC_METRIC),
                                               metric_declare_for, metric_add_for };

/* ---- chance: xoroshiro128+, seeded by the node's seed, the instance's name and its turn ------ */

static uint64_t rng_mix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static uint64_t rng_u64(const struct fn_host *host)
{
    uint64_t *s = tables_of(host)->rng;
    uint64_t a = s[0];
    uint64_t b = s[1];
    uint64_t answer = a + b;

    b ^= a;
    s[0] = rotl(a, 24) ^ b ^ (b << 16);
    s[1] = rotl(b, 37);
    return answer;
}

static const struct fn_rng_if rng_if = { FN_HDR(struct fn_rng_if, FN_MAGIC_RNG), rng_u64 };

/* The next instance of a name must not say as its own what the last one drew: pools tell a manager
 * by such a number that they begin anew. The first one has the node's seed as it is. */
static void rng_seed(struct plugin *p)
{
    uint64_t x = p->owner->seed + __atomic_fetch_add(&p->health->streams, 1, __ATOMIC_RELAXED);
    const char *texts[] = { p->factory->kind, p->factory->name, p->name };
    size_t i;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        x = hash_text(x, texts[i]);
        x = rng_mix(&x);
    }
    p->rng[0] = rng_mix(&x);
    p->rng[1] = rng_mix(&x) | 1;
}

/* ---- interfaces by name ---------------------------------------------------------------------- */

const struct plugin_offer *plugin_offer_find(const struct plugin_host *h, const char *iface)
{
    uint32_t i;

    for (i = 0; i < h->n_offers; i++) {
        if (strcmp(h->offers[i].iface, iface) == 0) {
            return &h->offers[i];
        }
    }
    return NULL;
}

static const void *host_get(const struct fn_host *host, const char *iface, uint32_t major)
{
    PLUGIN_HOST_CALL("fn.get");
    struct plugin *p = tables_of(host);
    const struct fn_need *need = p->factory->needs;
    const struct plugin_offer *offer;

    while (need && need->iface && iface && strcmp(need->iface, iface) != 0) {
        need++;
    }
    if (!need || !need->iface || !iface) {
        log_stranger(FN_LOG_WARN, "plugin asks for a host interface that its needs do not list",
                     "plugin", p->name, "kind", p->factory->kind, "interface",
                     iface ? iface : "NULL");
        return NULL;
    }
    offer = plugin_offer_find(p->owner, iface);
    if (!offer || offer->major != major || need->major != major ||
        need->minor_min > offer->minor) {
        return NULL;
    }
    return offer->table;
}

void *plugin_impl(const struct fn_host *host, const char *iface)
{
    const struct plugin_offer *offer = plugin_offer_find(tables_of(host)->owner, iface);

    return offer ? offer->impl : NULL;
}

struct plugin *plugin_of(const struct fn_host *host)
{
    return tables_of(host);
}

void plugin_tables_init(struct plugin *p)
{
    p->log_if = (struct fn_log_if){ FN_HDR(struct fn_log_if, FN_MAGIC_LOG), log_level_address(),
                                    host_log_write };
    p->host = (struct fn_host){
        .hdr = FN_HDR(struct fn_host, FN_MAGIC_HOST),
        .priv = p,
        .clock = &clock_if,
        .timer = &timer_if,
        .log = &p->log_if,
        .metric = &metric_if,
        .rng = &rng_if,
        .get = host_get,
    };
    rng_seed(p);
}

static void timers_off(struct plugin *p)
{
    struct plugin_timer *t;
    struct plugin_timer *next;

    HASH_ITER(hh, p->timers, t, next) {
        if (env_timer_is_set(&t->timer)) {
            env_timer_clear(p->owner->env, &t->timer);
        }
        timer_forget(t);
    }
}

void plugin_go(struct plugin *p)
{
    struct plugin_timer *t;
    struct plugin_timer *next;

    p->held = false;
    HASH_ITER(hh, p->timers, t, next) {
        if (!env_timer_is_set(&t->timer)) {
            env_timer_set(p->owner->env, &t->timer, t->at_ns);
        }
    }
}

void plugin_retire(struct plugin *p)
{
    p->held = true;
    p->retired = true;
    timers_off(p);
}

bool plugin_is_retired(const struct plugin *p)
{
    return p->retired;
}

void plugin_tables_release(struct plugin *p)
{
    uint32_t i;

    timers_off(p);
    for (i = 0; i < p->n_metrics; i++) {
        if (p->metric_kinds[i] == FN_METRIC_GAUGE) {
            metric_add(p->metrics[i],
                       -__atomic_exchange_n(&p->metric_sums[i], 0, __ATOMIC_RELAXED));
        }
    }
}
