/* The loop notes, another thread writes: `lock` guards the note. What is told is the longest turn
 * since the last line; a line a minute at most. */
#include <process/turns.h>

#include <base/log.h>
#include <base/metric.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_INTERVAL_NS (60 * ENV_S)

struct turns {
    struct metric_source source;
    struct loop *loop;
    struct plugin_host *host;
    struct metric *seconds, *longest;
    pthread_mutex_t lock;
    struct loop_long_turn turn;
    struct plugin_busy plugin; /* its longest call in that turn; name NULL = none took long */
    uint32_t n;                /* since the last line; 0 = nothing to tell */
    int64_t told_ns;           /* the last line; 0 = never */
};

static void turns_refresh(struct metric_source *s)
{
    struct turns *t = container_of(s, struct turns, source);
    struct loop_turns turns;
    int64_t counts[LOOP_TURN_BOUNDS + 1];

    loop_count_turns(t->loop, &turns);
    for (uint32_t i = 0; i <= LOOP_TURN_BOUNDS; i++) {
        counts[i] = (int64_t)turns.counts[i];
    }
    metric_histogram_set(t->seconds, counts, turns.sum_ns);
    metric_set(t->longest, turns.longest_ns);
}

static int64_t held_ns(const struct loop_long_turn *turn)
{
    return turn->took_ns - turn->waited_ns;
}

static void on_long(void *ud, const struct loop_long_turn *turn)
{
    struct turns *t = ud;

    pthread_mutex_lock(&t->lock);
    if (t->n++ == 0 || held_ns(turn) > held_ns(&t->turn)) {
        t->turn = *turn;
        if (!plugin_host_longest(t->host, turn->began_ns, &t->plugin)) {
            t->plugin.name = NULL;
        }
    }
    pthread_mutex_unlock(&t->lock);
}

extern const char __ehdr_start[]; /* of this executable, by the linker */

/* "fnd+0x1f3c0", as addr2line wants the number. Callbacks of the loop are the node's own code. */
static const char *place_of(const void *code, char *ret, size_t cap)
{
    snprintf(ret, cap, "fnd+0x%zx", (size_t)((const char *)code - __ehdr_start));
    return code ? ret : NULL;
}

static void turns_tell_one(const struct loop_long_turn *turn, const struct plugin_busy *plugin,
                           uint32_t n)
{
    const char *name = plugin->name;
    char place[32];

    log_warn(name ? "a turn of the loop was long; the longest part that is known was a plugin"
                  : "a turn of the loop was long, by the node's own work",
             "took_us", log_num(held_ns(turn) / 1000), "steps", log_num((int64_t)turn->steps),
             "plugin", name, "kind", name ? plugin->kind : NULL, "method",
             name ? plugin->method : NULL, "plugin_us",
             name ? log_num(plugin->for_ns / 1000) : NULL, "slowest_step",
             place_of(turn->slowest, place, sizeof(place)), "step_us",
             turn->slowest ? log_num(turn->slowest_ns / 1000) : NULL, "turns", log_num(n));
}

void turns_tell(struct turns *t)
{
    struct loop_long_turn turn;
    struct plugin_busy plugin;
    int64_t now_ns = env_now_ns(loop_env(t->loop));
    uint32_t n = 0;

    pthread_mutex_lock(&t->lock);
    if (t->n > 0 && (t->told_ns == 0 || now_ns - t->told_ns >= LINE_INTERVAL_NS)) {
        n = t->n;
        turn = t->turn;
        plugin = t->plugin;
        t->n = 0;
        t->told_ns = now_ns;
    }
    pthread_mutex_unlock(&t->lock);
    if (n > 0) {
        turns_tell_one(&turn, &plugin, n);
    }
}

struct turns *turns_create(struct loop *l, struct plugin_host *h)
{
    static const struct metric_def def = {
        .name = "fn_loop_turn_seconds",
        .help = "Turns of the loop by the time that they held it, without their wait for a "
                "processor.",
        .kind = METRIC_HISTOGRAM,
        .bounds = loop_turn_bounds_s,
        .n_bounds = LOOP_TURN_BOUNDS,
        .scale = 1e-9,
    };
    static const struct metric_def longest = {
        .name = "fn_loop_longest_turn_seconds",
        .help = "The longest turn of the loop in the last 30 to 60 s.",
        .kind = METRIC_GAUGE,
        .scale = 1e-9,
    };
    struct turns *t = calloc(1, sizeof(*t));

    if (!t) {
        return NULL;
    }
    t->loop = l;
    t->host = h;
    t->seconds = metric_series(metric_declare(&def), NULL);
    t->longest = metric_series(metric_declare(&longest), NULL);
    pthread_mutex_init(&t->lock, NULL);
    loop_on_long_turn(l, TURN_LONG_NS, on_long, t);
    t->source.refresh = turns_refresh;
    metric_source_add(&t->source);
    return t;
}

void turns_destroy(struct turns *t)
{
    if (t) {
        metric_source_remove(&t->source);
        loop_on_long_turn(t->loop, 0, NULL, NULL);
        pthread_mutex_destroy(&t->lock);
        free(t);
    }
}
