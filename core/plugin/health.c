/* Health: what the host remembers of each plugin's conduct, by kind and name of the instance.
 *
 * The loop counts into plain per-method buckets of ticks (crumb.c); here they become histograms in
 * seconds when somebody reads /metrics. A health outlives its instances: a reload that makes a new
 * instance of the same name goes on counting where the old one stopped. */
#include <plugin/ticks.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_INTERVAL_NS (60 * ENV_S)
#define SLOW_WITHIN_NS  (10 * ENV_S)
#define REST_NS         (30 * ENV_S)

static const char *const method_labels[] = { "plugin", "kind", "method", NULL };

static const double bounds_s[] = { 250e-9, 1e-6,  4e-6,  16e-6, 64e-6, 250e-6, 1e-3, 4e-3,
                                   16e-3,  64e-3, 250e-3, 1,     4,     16,     60 };
#define BOUNDS_N (sizeof(bounds_s) / sizeof(bounds_s[0]))

static const struct metric_def calls_def = {
    .name = "fn_plugin_call_seconds",
    .help = "Calls into plugins by the time they took, accurate to a quarter.",
    .kind = METRIC_HISTOGRAM,
    .labels = method_labels,
    .bounds = bounds_s,
    .n_bounds = BOUNDS_N,
    .scale = 1e-9,
};

/* ---- methods --------------------------------------------------------------------------------- */

/* Workers may add at the same time; the loop has its list for itself. */
struct plugin_method *plugin_method_add(struct plugin_method *list, const char *name)
{
    uint32_t i;

    for (i = 0; i < PLUGIN_METHODS_MAX - 1; i++) {
        const char *empty = NULL;

        if (__atomic_compare_exchange_n(&list[i].name, &empty, name, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED) ||
            empty == name) {
            return &list[i];
        }
    }
    return &list[i];
}

/* Middle of a bucket, in ticks. */
static double bucket_ticks(uint32_t i)
{
    return (double)(4 + (i & 3)) * (double)(1ull << (i >> 2)) / 4 * 1.125;
}

static void bring(const struct plugin_method *m, double tick_ns,
                  int64_t *counts)
{
    for (uint32_t i = 0; i < PLUGIN_BUCKETS; i++) {
        uint64_t n = __atomic_load_n(&m->counts[i], __ATOMIC_RELAXED);
        double s = bucket_ticks(i) * tick_ns * 1e-9;
        uint32_t at = 0;

        while (n && at < BOUNDS_N && s > bounds_s[at]) {
            at++;
        }
        counts[at] += (int64_t)n;
    }
}

/* One literal may have several addresses, and a method may be called in two contexts: all of them
 * make one series. */
static void health_publish(const struct plugin_health *hl, const char *name, double tick_ns)
{
    const char *values[] = { hl->name, hl->kind, name };
    int64_t counts[BOUNDS_N + 1] = { 0 };
    double ticks = 0;

    for (uint32_t i = 0; i < 2 * PLUGIN_METHODS_MAX; i++) {
        const struct plugin_method *m =
            i < PLUGIN_METHODS_MAX ? &hl->loop[i] : &hl->other[i - PLUGIN_METHODS_MAX];
        const char *other = __atomic_load_n(&m->name, __ATOMIC_ACQUIRE);

        if (other && strcmp(other, name) == 0) {
            bring(m, tick_ns, counts);
            ticks += (double)__atomic_load_n(&m->ticks, __ATOMIC_RELAXED);
        }
    }
    metric_histogram_set(metric_series(metric_declare(&calls_def), values), counts,
                         (int64_t)(ticks * tick_ns));
}

static void health_refresh(struct metric_source *s)
{
    struct plugin_host *h = container_of(s, struct plugin_host, source);
    double tick_ns = plugin_tick_ns(h, plugin_ticks());
    const struct plugin_health *hl;

    if (tick_ns == 0) {
        return;
    }
    pthread_mutex_lock(&h->lock);
    LIST_FOREACH(hl, &h->healths, link) {
        for (uint32_t i = 0; i < PLUGIN_METHODS_MAX; i++) {
            const char *a = __atomic_load_n(&hl->loop[i].name, __ATOMIC_ACQUIRE);
            const char *b = __atomic_load_n(&hl->other[i].name, __ATOMIC_ACQUIRE);

            if (a) {
                health_publish(hl, a, tick_ns);
            }
            if (b) {
                health_publish(hl, b, tick_ns);
            }
        }
    }
    pthread_mutex_unlock(&h->lock);
}

/* ---- healths --------------------------------------------------------------------------------- */

struct plugin_health *plugin_health_get(struct plugin_host *h, const char *kind, const char *name)
{
    const struct plugin_kind *k = plugin_kind_find(kind);
    struct plugin_health *hl;

    pthread_mutex_lock(&h->lock);
    LIST_FOREACH(hl, &h->healths, link) {
        if (strcmp(hl->kind, kind) == 0 && strcmp(hl->name, name) == 0) {
            break;
        }
    }
    if (!hl && k && (hl = calloc(1, sizeof(*hl)))) {
        hl->kind = k->name;
        hl->loop[PLUGIN_METHODS_MAX - 1].name = "other";
        hl->other[PLUGIN_METHODS_MAX - 1].name = "other";
        hl->name = strdup(name);
        if (hl->name) {
            LIST_INSERT_HEAD(&h->healths, hl, link);
        } else {
            free(hl);
            hl = NULL;
        }
    }
    pthread_mutex_unlock(&h->lock);
    return hl;
}

void plugin_health_open(struct plugin_host *h)
{
    LIST_INIT(&h->healths);
    pthread_mutex_init(&h->lock, NULL);
    pthread_mutex_init(&h->away_lock, NULL);
    h->source.refresh = health_refresh;
    metric_source_add(&h->source);
}

void plugin_health_close(struct plugin_host *h)
{
    struct plugin_health *hl;

    metric_source_remove(&h->source);
    while ((hl = LIST_FIRST(&h->healths))) {
        LIST_REMOVE(hl, link);
        free(hl->name);
        free(hl);
    }
    pthread_mutex_destroy(&h->lock);
    pthread_mutex_destroy(&h->away_lock);
}

/* ---- answers --------------------------------------------------------------------------------- */

struct metric *plugin_bad_answers(const struct plugin *p)
{
    static const char *const labels[] = { "plugin", "kind", NULL };
    const char *values[] = { p->name, p->factory->kind };

    return metric_of("fn_plugin_bad_answers", METRIC_COUNTER,
                     "Answers of a plugin that broke the contract of its kind.", labels, values);
}

void plugin_bad_answer(struct plugin *p, const char *what)
{
    uint32_t suppressed = 0;
    bool tell = true;

    metric_add(plugin_bad_answers(p), 1);
    if (p->owner->env) {
        pthread_mutex_lock(&p->owner->lock); /* workers and foreign threads come here too */
        if (!p->first_bad[0]) {
            snprintf(p->first_bad, sizeof(p->first_bad), "%s", what);
        }
        tell = log_gate_open(&p->bad_gate, env_now_ns(p->owner->env), LOG_INTERVAL_NS, 1,
                             &suppressed);
        pthread_mutex_unlock(&p->owner->lock);
    }
    if (tell) {
        log_warn("plugin gave a bad answer", "plugin", p->name, "kind", p->factory->kind, "what",
                 what, "suppressed", log_num(suppressed));
    }
}

const char *plugin_first_bad_answer(const struct plugin *p)
{
    return p->first_bad;
}

void plugin_was_slow(struct plugin *p)
{
    const uint32_t max = sizeof(p->slow_ns) / sizeof(p->slow_ns[0]);
    int64_t now_ns = p->owner->env ? env_now_ns(p->owner->env) : 0;

    p->slow_ns[p->n_slow++ % max] = now_ns;
    if (p->n_slow >= max && now_ns - p->slow_ns[p->n_slow % max] <= SLOW_WITHIN_NS) {
        p->rests_until_ns = now_ns + REST_NS;
        p->n_slow = 0;
        log_error("plugin is not called for a while: it was slow three times in 10 s", "plugin",
                  p->name, "kind", p->factory->kind, "for_s", log_num(REST_NS / ENV_S));
    }
}

bool plugin_rests(struct plugin *p)
{
    return p->rests_until_ns != 0 && env_now_ns(p->owner->env) < p->rests_until_ns;
}

static const char *const degraded_words[DEGRADED_N] = {
    [DEGRADED_LOOP_STUCK] = "loop-stuck",
    [DEGRADED_PLACER_FALLBACK] = "placer-fallback",
    [DEGRADED_PLUGIN_END] = "plugin-end",
    [DEGRADED_POOL_STALE] = "pool-stale",
    [DEGRADED_WORKER_LOST] = "worker-lost",
};

static struct metric *degraded_by(enum degraded_reason reason)
{
    static const char *const labels[] = { "reason", NULL };

    return metric_of("fn_node_degraded", METRIC_GAUGE,
                     "1 while the node serves, but not as it should.", labels,
                     &degraded_words[reason]);
}

void plugin_degraded(enum degraded_reason reason, bool on)
{
    metric_set(degraded_by(reason), on);
}

const char *plugin_degraded_word(enum degraded_reason reason)
{
    return metric_value(degraded_by(reason)) != 0 ? degraded_words[reason] : NULL;
}
