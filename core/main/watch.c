/* What the watchdog sees becomes a sentence, a count and a state.
 *
 * Everything here runs on the watchdog's thread: the loop may never come back. A node that was stuck
 * counts as degraded until a minute passed without it, because nobody can read /metrics meanwhile. */
#include <main/watch.h>

#include <base/log.h>
#include <base/metric.h>
#include <loop/watchdog.h>
#include <stdlib.h>

#define DEGRADED_NS (60 * ENV_S)
#define CHORE_NS    (1 * ENV_S)

struct watch {
    struct node *node;
    struct watchdog *dog;
    struct plugin_busy busy; /* of the last report; name NULL = no plugin */
    int64_t degraded_until_ns; /* 0 = not degraded */
};

static void count(const struct plugin_busy *b)
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

    metric_add(metric_series(metric_declare(&def), values), 1);
}

static void came_back(struct watch *w, int64_t stuck_ns)
{
    log_warn("the loop moves again", "after_ms", log_num(stuck_ns / ENV_MS), "plugin", w->busy.name,
             "kind", w->busy.name ? w->busy.kind : NULL, "method",
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
    if (plugin_host_busy(w->node->host, &b)) {
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
        count(&b);
    }
    w->busy = b;
    w->degraded_until_ns = env_now_ns(w->node->env) + DEGRADED_NS;
    plugin_degraded("loop-stuck", true);
}

static void chore(void *ud)
{
    struct watch *w = ud;

    if (w->degraded_until_ns && env_now_ns(w->node->env) >= w->degraded_until_ns) {
        w->degraded_until_ns = 0;
        plugin_degraded("loop-stuck", false);
    }
}

int watch_create(struct node *n, struct watch **ret, struct fn_error *reterr)
{
    struct watch *w = calloc(1, sizeof(*w));
    const struct watchdog_config c = { .limit_ns = n->config->plugins->watchdog_ns,
                                       .report = report,
                                       .chore_ns = CHORE_NS,
                                       .chore = chore,
                                       .ud = w };
    int r;

    if (!w) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    w->node = n;
    plugin_degraded("loop-stuck", false);
    r = watchdog_create(n->loop, &c, &w->dog, reterr);
    if (r < 0) {
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void watch_destroy(struct watch *w)
{
    if (w) {
        watchdog_destroy(w->dog);
        free(w);
    }
}
