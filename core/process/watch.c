/* What the watchdog sees becomes a sentence, a count and a state.
 *
 * Everything here runs on the watchdog's thread: the loop may never come back. A node that was
 * stuck counts as degraded until a minute passed without it, because nobody can read /metrics
 * meanwhile. */
#include <process/watch.h>

#include <base/log.h>
#include <base/metric.h>
#include <loop/awake.h>
#include <loop/watchdog.h>
#include <process/turns.h>
#include <stdlib.h>

#define LOST_GRACE_NS (5 * ENV_S)
#define DEGRADED_NS (60 * ENV_S)
#define CHORE_NS    (1 * ENV_S)

struct watch {
    struct watch_config config;
    struct env *env;
    struct watchdog *dog;
    struct turns *turns;
    bool end_stuck; /* told */
    bool callback_stuck[2]; /* told; by shared_threads[] */
    uint64_t memory_allowed; /* bytes; atomic */
    struct plugin_audit *audit; /* NULL = off */
    struct env_timer audit_timer;
    int64_t audited_ns; /* the process, by the watchdog's thread */
    struct plugin_busy busy; /* of the last report; name NULL = no plugin */
    int64_t degraded_until_ns; /* 0 = not degraded */
    struct awake awake; /* of the watchdog's thread; device NULL = not wanted */
};

static struct metric *stuck_steps(const struct plugin_busy *b)
{
    static const char *const labels[] = { "plugin", "kind", "method", NULL };
    static const struct metric_def def = {
        .name = "fn_loop_stuck",
        .help = "Times that one step of the loop took longer than plugins.watchdog; without a plugin "
                "it was the node itself.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    const char *values[] = { b->name ? b->name : "", b->name ? b->kind : "",
                             b->name ? b->method : "" };

    return metric_series(metric_declare(&def), values);
}

static struct metric *lost_operations(void)
{
    return metric_simple("fn_lane_lost_total", METRIC_COUNTER,
                         "Worker operations that did not return within 5 s after their deadline.");
}

static struct metric *lost_threads(void)
{
    return metric_simple("fn_lane_lost", METRIC_GAUGE, "Worker threads that do not return.");
}

static void came_back(struct watch *w, int64_t stuck_ns)
{
    log_warn("the event loop runs again", "after_ms", log_num(stuck_ns / ENV_MS), "plugin",
             w->busy.name, "kind", w->busy.name ? w->busy.kind : NULL, "method",
             w->busy.name ? w->busy.method : NULL);
    w->busy.name = NULL;
}

static void report(void *ud, int64_t stuck_ns, bool over)
{
    struct watch *w = ud;
    struct plugin_busy b = { NULL, NULL, NULL, 0 };

    if (over) {
        came_back(w, stuck_ns);
        return;
    }
    if (plugin_host_busy(w->config.host, &b)) {
        /* Its own time is exact; a step may call several plugins. */
        stuck_ns = b.for_ns > stuck_ns ? b.for_ns : stuck_ns;
        log_error("loop stuck: a plugin has not returned; no call is served until it does",
                  "plugin", b.name, "kind", b.kind, "method", b.method, "for_ms",
                  log_num(b.for_ns / ENV_MS));
    } else {
        log_error("loop stuck, not in a plugin; no call is served until it moves", "for_ms",
                  log_num(stuck_ns / ENV_MS));
    }
    if (w->degraded_until_ns == 0 || b.name != w->busy.name) {
        metric_add(stuck_steps(&b), 1);
    }
    w->busy = b;
    w->degraded_until_ns = env_now_ns(w->env) + DEGRADED_NS;
    plugin_degraded(DEGRADED_LOOP_STUCK, true);
}

static void on_lost(void *ud, const char *owner, int64_t for_ns)
{
    struct watch *w = ud;
    struct plugin_busy b = { NULL, NULL, NULL, 0 };
    bool known = plugin_host_away(w->config.host, owner, NULL, &b);

    metric_add(lost_operations(), 1);
    log_error("a worker operation does not return; its thread is replaced, a plugin with two of them "
              "gets no more work",
              "plugin", known ? b.name : owner, "kind", known ? b.kind : NULL, "method",
              known ? b.method : NULL, "for_ms", log_num(for_ns / ENV_MS));
}

/* By the methods that run on them. One that does not return holds up those of all plugins. */
static const char *const shared_threads[] = { "process callback", "stream callback" };

static bool look_at_callbacks(struct watch *w)
{
    bool any = false;

    for (uint32_t i = 0; i < sizeof(shared_threads) / sizeof(shared_threads[0]); i++) {
        struct plugin_busy b;
        bool stuck = plugin_host_away(w->config.host, NULL, shared_threads[i], &b) &&
                     b.for_ns >= LOST_GRACE_NS;

        if (stuck && !w->callback_stuck[i]) {
            log_error("a callback of a plugin has not returned; those of other plugins wait for "
                      "it, and the ends of their processes or streams with them",
                      "plugin", b.name, "kind", b.kind, "method", b.method, "for_ms",
                      log_num(b.for_ns / ENV_MS));
        }
        w->callback_stuck[i] = stuck;
        any = any || stuck;
    }
    return any;
}

static void look_at_lanes(struct watch *w)
{
    bool stuck = look_at_callbacks(w);
    uint32_t lost;

    loop_look_for_lost(w->config.loop, LOST_GRACE_NS, on_lost, w);
    lost = loop_lost(w->config.loop);
    metric_set(lost_threads(), lost);
    plugin_degraded(DEGRADED_WORKER_LOST, lost > 0 || stuck);
}

/* An instance that a reload took away, and that does not go. */
static void look_at_ends(struct watch *w)
{
    struct plugin_busy b;
    bool stuck = plugin_host_away(w->config.host, NULL, "destroy", &b) && b.for_ns >= LOST_GRACE_NS;

    if (stuck && !w->end_stuck) {
        log_error("a plugin does not go: its destroy() has not returned; the instances that wait "
                  "for it stay",
                  "plugin", b.name, "kind", b.kind, "method", b.method, "for_ms",
                  log_num(b.for_ns / ENV_MS));
    }
    w->end_stuck = stuck;
    metric_set(metric_simple("fn_plugin_end_stuck", METRIC_GAUGE,
                             "1 while destroy() of a plugin has not returned for 5 s."),
               stuck);
    plugin_degraded(DEGRADED_PLUGIN_END, stuck);
}

static void look_at_processors(struct watch *w)
{
    bool awake = w->awake.device &&
                 awake_look(&w->awake, loop_waits(w->config.loop), env_now_ns(w->env));

    metric_set(metric_simple("fn_node_awake", METRIC_GAUGE,
                             "1 while this node keeps processors from sleeping."),
               awake);
}

static struct plugin_own own_of(struct watch *w)
{
    return (struct plugin_own){ .threads = loop_threads(w->config.loop),
                                .memory_bytes =
                                    __atomic_load_n(&w->memory_allowed, __ATOMIC_RELAXED) };
}

static void chore(void *ud)
{
    struct watch *w = ud;

    look_at_lanes(w);
    look_at_ends(w);
    look_at_processors(w);
    turns_tell(w->turns);
    if (w->degraded_until_ns && env_now_ns(w->env) >= w->degraded_until_ns) {
        w->degraded_until_ns = 0;
        plugin_degraded(DEGRADED_LOOP_STUCK, false);
    }
    if (w->audit && env_now_ns(w->env) - w->audited_ns >= w->config.audit_ns) {
        struct plugin_own own = own_of(w);

        w->audited_ns = env_now_ns(w->env);
        plugin_audit_process(w->audit, NULL, &own);
    }
}

static void look_at_limits(struct watch *w)
{
    __atomic_store_n(&w->memory_allowed, w->config.memory_allowed(w->config.ud), __ATOMIC_RELAXED);
}

static void on_audit(struct env_timer *t)
{
    struct watch *w = container_of(t, struct watch, audit_timer);

    plugin_audit_thread(w->audit);
    look_at_limits(w);
    env_timer_set(w->env, t, env_now_ns(w->env) + w->config.audit_ns);
}

static void audit_begin(struct watch *w)
{
    struct plugin_own own;

    if (w->config.audit_ns == 0) {
        return;
    }
    look_at_limits(w);
    own = own_of(w);
    w->audit = plugin_audit_create(w->config.host, &own, w->config.files_slack);
    w->audit_timer.cb = on_audit;
    w->audited_ns = env_now_ns(w->env);
    if (w->audit) {
        env_timer_set(w->env, &w->audit_timer, w->audited_ns + w->config.audit_ns);
    }
}

static int64_t chore_ns(const struct watch *w)
{
    int64_t audit_ns = w->config.audit_ns;

    return audit_ns && audit_ns < CHORE_NS ? audit_ns : CHORE_NS;
}

int watch_create(const struct watch_config *config, struct watch **ret, struct fn_error *reterr)
{
    struct watch *w = calloc(1, sizeof(*w));
    struct watchdog_config c = { .limit_ns = config->watchdog_ns,
                                 .report = report,
                                 .chore = chore,
                                 .ud = w };
    int r;

    if (!w) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    w->config = *config;
    w->env = loop_env(config->loop);
    w->turns = turns_create(config->loop, config->host);
    if (!w->turns) {
        free(w);
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    w->awake = awake_make(config->processors_awake, AWAKE_DEVICE, AWAKE_DRIVER);
    plugin_degraded(DEGRADED_LOOP_STUCK, false);
    plugin_degraded(DEGRADED_WORKER_LOST, false);
    stuck_steps(&(struct plugin_busy){ NULL, NULL, NULL, 0 }); /* both are there at zero */
    lost_operations();
    lost_threads();
    audit_begin(w);
    c.chore_ns = chore_ns(w);
    r = watchdog_create(config->loop, &c, &w->dog, reterr);
    if (r < 0) {
        watch_destroy(w);
        return r;
    }
    *ret = w;
    return 0;
}

void watch_destroy(struct watch *w)
{
    if (w) {
        watchdog_destroy(w->dog);
        turns_destroy(w->turns);
        awake_finish(&w->awake);
        env_timer_clear(w->env, &w->audit_timer);
        plugin_audit_destroy(w->audit);
        free(w);
    }
}
