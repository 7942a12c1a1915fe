/* Breadcrumbs: which plugin runs on this thread, since when.
 *
 * Time is taken with the processor's tick counter: two clock reads cost 43 ns here, two tick reads
 * 19, and a placer's decision is not much longer than that. Ticks become nanoseconds only for
 * calls that were long enough to be suspect, with the rate since the host was made; a processor
 * whose counter is not steady can only make a budget miss wrong, nothing else. */
#include <plugin/plugin_int.h>

#include <string.h>

#define TICKS_SURELY_SHORT 100000u /* 20 us even at 5 GHz */
#define RATE_MIN_NS        (20 * ENV_MS)
#define LOG_INTERVAL_NS    (60 * ENV_S)

static _Thread_local struct plugin_crumb *current;

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t << 6; /* counts at 10 to 100 MHz; keeps the threshold above meaningful */
#else
    return 0;
#endif
}

void plugin_ticks_sample(struct plugin_host *h)
{
    h->ticks0 = ticks();
    h->ticks0_ns = h->env ? env_now_ns(h->env) : 0;
}

static void missed(struct plugin *p, const char *method, int64_t took_ns)
{
    static const char *const labels[] = { "plugin", "method", NULL };
    static const struct metric_def def = {
        .name = "fn_plugin_budget_misses",
        .help = "Calls into a plugin on the loop that took longer than 1 ms.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    const char *values[] = { p->name, method };
    uint32_t suppressed = 0;

    __atomic_fetch_add(&p->misses, 1, __ATOMIC_RELAXED);
    metric_add(metric_series(metric_declare(&def), values), 1);
    if (log_gate_open(&p->miss_gate, env_now_ns(p->owner->env), LOG_INTERVAL_NS, 1,
                      &suppressed)) {
        log_warn("plugin is slow on the loop", "plugin", p->name, "kind", p->factory->kind,
                 "method", method, "took_us", log_num(took_ns / 1000), "budget_us",
                 log_num(p->owner->budget_loop_ns / 1000), "suppressed", log_num(suppressed));
    }
}

static void __attribute__((noinline)) judge(const struct plugin_crumb *c, uint64_t now)
{
    struct plugin_host *h = c->plugin->owner;
    uint64_t took = now - c->entered_ticks;
    int64_t since_ns;
    int64_t took_ns;

    if (!h->env || h->budget_loop_ns == 0) {
        return;
    }
    since_ns = env_now_ns(h->env) - h->ticks0_ns;
    if (since_ns < RATE_MIN_NS || now <= h->ticks0) {
        return;
    }
    took_ns = (int64_t)((double)took * ((double)since_ns / (double)(now - h->ticks0)));
    if (took_ns > h->budget_loop_ns) {
        missed(c->plugin, c->method, took_ns);
    }
}

void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method)
{
    c->plugin = p;
    c->context = context;
    c->method = method;
    c->outer = current;
    c->entered_ticks = 0;
    if (context == PLUGIN_LOOP) {
        /* Only the loop writes it, others may read it: no locked add. */
        __atomic_store_n(&p->loop_calls, p->loop_calls + 1, __ATOMIC_RELAXED);
        c->entered_ticks = ticks();
    } else {
        __atomic_fetch_add(&p->other_calls, 1, __ATOMIC_RELAXED);
    }
    current = c;
}

void plugin_leave(struct plugin_crumb *c)
{
    uint64_t now;

    current = c->outer;
    if (c->context == PLUGIN_LOOP) {
        now = ticks();
        if (now - c->entered_ticks > TICKS_SURELY_SHORT) {
            judge(c, now);
        }
    }
}

const struct plugin_crumb *plugin_current(void)
{
    return current;
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

void plugin_bad_answer(struct plugin *p, const char *what)
{
    static const char *const labels[] = { "plugin", NULL };
    static const struct metric_def def = {
        .name = "fn_plugin_bad_answers",
        .help = "Answers of a plugin that broke the contract of its kind.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    const char *values[] = { p->name };
    uint32_t suppressed = 0;

    metric_add(metric_series(metric_declare(&def), values), 1);
    if (!p->owner->env || log_gate_open(&p->bad_gate, env_now_ns(p->owner->env), LOG_INTERVAL_NS,
                                        1, &suppressed)) {
        log_warn("plugin gave a bad answer", "plugin", p->name, "kind", p->factory->kind, "what",
                 what, "suppressed", log_num(suppressed));
    }
}
