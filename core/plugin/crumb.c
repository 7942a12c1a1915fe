/* Breadcrumbs: which plugin runs on this thread, since when. */
#include <plugin/ticks.h>

#include <stdlib.h>
#include <string.h>

#define TICKS_SURELY_SHORT 100000u /* 20 us even at 5 GHz */
#define LOG_INTERVAL_NS    (60 * ENV_S)

/* A call of ticks: so long until now, or so long ago; 0: neither. Whoever asks does not do so from
 * inside of a long call on the loop, where his clock would stand still. */
static void describe(const struct plugin_host *h, const struct plugin_health *hl,
                     const char *method, uint64_t since, struct plugin_busy *ret)
{
    uint64_t now = plugin_ticks();

    *ret = (struct plugin_busy){ .name = hl->name, .kind = hl->kind, .method = method };
    if (since && now > since) {
        ret->for_ns = (int64_t)((double)(now - since) * plugin_tick_ns(h, now));
    }
}

bool plugin_host_busy(const struct plugin_host *h, struct plugin_busy *ret)
{
    const struct plugin_health *hl = __atomic_load_n(&h->now.health, __ATOMIC_RELAXED);
    uint64_t entered = __atomic_load_n(&h->now.entered_ticks, __ATOMIC_RELAXED);

    if (hl) {
        describe(h, hl, __atomic_load_n(&h->now.method, __ATOMIC_RELAXED), entered, ret);
    }
    return hl != NULL;
}

static void missed(struct plugin *p, const char *method, int64_t took_ns)
{
    static const char *const labels[] = { "plugin", "kind", "method", NULL };
    const char *values[] = { p->name, p->factory->kind, method };
    uint32_t suppressed = 0;

    __atomic_fetch_add(&p->misses, 1, __ATOMIC_RELAXED);
    metric_add(metric_of("fn_plugin_budget_misses", METRIC_COUNTER,
                         "Calls into a plugin on the loop that took longer than 1 ms.", labels,
                         values),
               1);
    if (log_gate_open(&p->miss_gate, env_now_ns(p->owner->env), LOG_INTERVAL_NS, 1,
                      &suppressed)) {
        log_warn("plugin is slow on the loop", "plugin", p->name, "kind", p->factory->kind,
                 "method", method, "took_us", log_num(took_ns / 1000), "budget_us",
                 log_num(p->owner->budget_loop_ns / 1000), "suppressed", log_num(suppressed));
    }
}

bool plugin_host_longest(const struct plugin_host *h, int64_t turn_ns, struct plugin_busy *ret)
{
    if (!h->longest.health || h->longest.turn_ns != turn_ns) {
        return false;
    }
    *ret = (struct plugin_busy){ .name = h->longest.health->name,
                                 .kind = h->longest.health->kind,
                                 .method = h->longest.method,
                                 .for_ns = h->longest.took_ns };
    return true;
}

static void keep_longest(struct plugin_host *h, const struct plugin_crumb *c, int64_t took_ns)
{
    int64_t turn_ns = h->env ? env_now_ns(h->env) : 0;

    if (h->longest.turn_ns != turn_ns || took_ns > h->longest.took_ns) {
        h->longest.turn_ns = turn_ns;
        h->longest.took_ns = took_ns;
        h->longest.health = c->plugin->health;
        h->longest.method = c->method;
    }
}

static void __attribute__((noinline)) judge(struct plugin_crumb *c, uint64_t took)
{
    struct plugin_host *h = c->plugin->owner;
    int64_t took_ns = (int64_t)((double)took * plugin_tick_ns(h, c->entered_ticks));

    keep_longest(h, c, took_ns);
    if (took_ns > h->budget_loop_ns && h->waited_ns) {
        took_ns -= h->waited_ns();
    }
    if (took_ns > h->budget_loop_ns) {
        c->missed = true;
        missed(c->plugin, c->method, took_ns);
    }
}

/* The call that this thread entered last, by value: the crumb of a call that somebody jumped out
 * of is on a stack that is used again. Its instance may be gone, its health and host are not. */
static _Thread_local struct plugin_crumb entered_last;
static _Thread_local const struct plugin_health *last_health;
static _Thread_local const struct plugin_host *last_host;
static _Thread_local uint64_t left_ticks; /* 0 = it has not returned */

void plugin_last_forget(const struct plugin_host *h)
{
    if (last_host == h) {
        last_health = NULL;
    }
}

bool plugin_last_call(struct plugin_busy *ret)
{
    if (last_health) {
        describe(last_host, last_health, entered_last.method, left_ticks, ret);
    }
    return last_health != NULL;
}

/* Somebody jumped over a plugin_leave(): whatever the frames in between held is lost. */
static void __attribute__((noinline, noreturn)) unbalanced(struct plugin_crumb *left)
{
    struct plugin_crumb *c = &entered_last;

    c->outer = left;
    c->host_call = NULL;
    plugin_crumb_now = c; /* for the crash report */
    log_error("a plugin left its call by longjmp or an exception; the node cannot go on", "plugin",
              c->plugin->name, "kind", c->plugin->factory->kind, "method", c->method);
    abort();
}

static inline struct plugin_method *method_of(struct plugin_method *list, const char *name)
{
    struct plugin_method *m = list;
    const char *at;

    while ((at = __atomic_load_n(&m->name, __ATOMIC_RELAXED)) != name) {
        if (!at || ++m == list + PLUGIN_METHODS_MAX) {
            return plugin_method_add(list, name);
        }
    }
    return m;
}

static inline uint32_t bucket_of(uint64_t took)
{
    uint32_t top = 63u - (uint32_t)__builtin_clzll(took | 4);
    uint32_t i = top << 2 | ((uint32_t)(took >> (top - 2)) & 3);

    return i < PLUGIN_BUCKETS ? i : PLUGIN_BUCKETS - 1;
}

/* ---- calls that are not the loop's ----------------------------------------------------------- */

/* Where calls are fibres, one may end without a word, with its stack. */
static bool has_threads(const struct plugin_host *h)
{
    return h->aside != NULL;
}

static void away_begin(struct plugin_host *h, struct plugin_crumb *c)
{
    pthread_mutex_lock(&h->away_lock);
    LIST_INSERT_HEAD(&h->away, c, away_link);
    pthread_mutex_unlock(&h->away_lock);
}

static void away_end(struct plugin_host *h, struct plugin_crumb *c)
{
    pthread_mutex_lock(&h->away_lock);
    LIST_REMOVE(c, away_link);
    pthread_mutex_unlock(&h->away_lock);
}

bool plugin_host_away(struct plugin_host *h, const char *name, const char *method,
                      struct plugin_busy *ret)
{
    const struct plugin_crumb *c, *found = NULL;

    pthread_mutex_lock(&h->away_lock);
    LIST_FOREACH(c, &h->away, away_link) {
        if ((!name || strcmp(c->plugin->name, name) == 0) &&
            (!method || strcmp(c->method, method) == 0) &&
            (!found || c->entered_ticks < found->entered_ticks)) {
            found = c;
        }
    }
    if (found) {
        describe(h, found->plugin->health, found->method, found->entered_ticks, ret);
    }
    pthread_mutex_unlock(&h->away_lock);
    return found != NULL;
}

void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method)
{
    struct plugin_host *h = p->owner;

    c->plugin = p;
    c->context = context;
    c->missed = false;
    c->away = false;
    c->method = method;
    c->host_call = NULL;
    c->outer = plugin_crumb_now;
    c->entered_ticks = plugin_ticks();
    if (context == PLUGIN_LOOP) {
        /* Only the loop writes these, others may read them: no locked add. */
        __atomic_store_n(&p->loop_calls, p->loop_calls + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&h->now.method, method, __ATOMIC_RELAXED);
        __atomic_store_n(&h->now.entered_ticks, c->entered_ticks, __ATOMIC_RELAXED);
        __atomic_store_n(&h->now.health, p->health, __ATOMIC_RELAXED);
    } else {
        __atomic_fetch_add(&p->other_calls, 1, __ATOMIC_RELAXED);
        c->away = has_threads(h);
        if (c->away) {
            away_begin(h, c);
        }
    }
    plugin_crumb_now = c;
    entered_last.plugin = p;
    entered_last.method = method;
    entered_last.context = context;
    last_health = p->health;
    last_host = h;
    left_ticks = 0;
    plugin_thread_of_host = true;
}

/* Back in the call of a plugin that made a host call, which called this one; or in none. */
static void __attribute__((noinline)) now_outer(struct plugin_host *h, const struct plugin_crumb *o)
{
    __atomic_store_n(&h->now.method, o->method, __ATOMIC_RELAXED);
    __atomic_store_n(&h->now.entered_ticks, o->entered_ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&h->now.health, o->plugin->health, __ATOMIC_RELAXED);
}

static void left_loop(struct plugin_crumb *c, uint64_t took)
{
    struct plugin_method *m = method_of(c->plugin->health->loop, c->method);
    uint64_t *count = &m->counts[bucket_of(took)];
    struct plugin_host *h = c->plugin->owner;

    __atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&m->ticks, m->ticks + took, __ATOMIC_RELAXED);
    if (__builtin_expect(c->outer && c->outer->context == PLUGIN_LOOP, 0)) {
        now_outer(h, c->outer);
    } else {
        __atomic_store_n(&h->now.health, NULL, __ATOMIC_RELAXED);
    }
    if (took > TICKS_SURELY_SHORT) {
        judge(c, took);
    }
}

void plugin_leave(struct plugin_crumb *c)
{
    uint64_t now = plugin_ticks();
    uint64_t took = now - c->entered_ticks;
    struct plugin_method *m;

    if (__builtin_expect(plugin_crumb_now != c, 0)) {
        unbalanced(c);
    }
    plugin_crumb_now = c->outer;
    left_ticks = now;
    if (c->context == PLUGIN_LOOP) {
        left_loop(c, took);
        return;
    }
    if (c->away) {
        away_end(c->plugin->owner, c);
    }
    m = method_of(c->plugin->health->other, c->method);
    __atomic_fetch_add(&m->counts[bucket_of(took)], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->ticks, took, __ATOMIC_RELAXED);
}

uint64_t plugin_calls(const struct plugin *p)
{
    return __atomic_load_n(&p->loop_calls, __ATOMIC_RELAXED) +
           __atomic_load_n(&p->other_calls, __ATOMIC_RELAXED);
}

uint64_t plugin_budget_misses(const struct plugin *p)
{
    return __atomic_load_n(&p->misses, __ATOMIC_RELAXED);
}
