/* The basic tables of a host, as strict as the headers: who calls from the wrong place, with a
 * stale id or with a wild value is noted. */
#include "contract.h"
#include "outside.h"

#include <base/log.h>
#include <stdlib.h>
#include <string.h>

struct timer_entry {
    struct env_timer timer;
    uint64_t id;
    struct instance *in;
    void (*cb)(void *ud);
    void *ud;
    TAILQ_ENTRY(timer_entry) link;
};

static bool withheld;

static int64_t table_now(const struct fn_host *host)
{
    HOST_CALL();
    (void)host;
    return clock_now();
}

static int64_t table_wall(const struct fn_host *host)
{
    HOST_CALL();
    (void)host;
    return clock_env.wall_ns(&clock_env);
}

static const struct fn_clock_if clock_if = {FN_HDR(struct fn_clock_if, FN_MAGIC_CLOCK), table_now,
                                            table_wall};

static void forget(struct timer_entry *t)
{
    TAILQ_REMOVE(&t->in->timers, t, link);
    t->in->n_timers--;
    free(t);
}

static void fired(struct env_timer *timer)
{
    struct timer_entry *t = container_of(timer, struct timer_entry, timer);
    struct instance *in = t->in;
    void (*cb)(void *ud) = t->cb;
    void *ud = t->ud;

    forget(t);
    enter(in, LOOP, "timer");
    cb(ud);
    leave();
}

static int table_arm(const struct fn_host *host, int64_t at_ns, void (*cb)(void *ud), void *ud,
                     uint64_t *ret_id)
{
    struct instance *in = instance_of(host);
    struct timer_entry *t;

    HOST_CALL();
    must_be_in(IN_INIT | IN_LOOP, "timer.arm");
    if (!cb || !ret_id) {
        violation("timer.arm was called without %s", cb ? "ret_id" : "a callback");
        return FN_E_INVALID;
    }
    if (in->n_timers >= INSTANCE_TIMERS_MAX || outside_refuses("timer.arm")) {
        return FN_E_EXHAUSTED;
    }
    t = calloc(1, sizeof(*t));
    if (!t) {
        return FN_E_EXHAUSTED;
    }
    *t = (struct timer_entry){
        .timer.cb = fired, .id = ++in->timer_last, .in = in, .cb = cb, .ud = ud};
    TAILQ_INSERT_TAIL(&in->timers, t, link);
    in->n_timers++;
    env_timer_set(&clock_env, &t->timer, at_ns);
    *ret_id = t->id;
    return 0;
}

static int table_cancel(const struct fn_host *host, uint64_t id)
{
    struct instance *in = instance_of(host);
    struct timer_entry *t;

    HOST_CALL();
    must_be_in(IN_INIT | IN_LOOP, "timer.cancel");
    TAILQ_FOREACH(t, &in->timers, link)
    {
        if (t->id == id) {
            env_timer_clear(&clock_env, &t->timer);
            forget(t);
            break;
        }
    }
    return 0;
}

static const struct fn_timer_if timer_if = {FN_HDR(struct fn_timer_if, FN_MAGIC_TIMER), table_arm,
                                            table_cancel};

static const uint32_t level = FN_LOG_DEBUG;

/* Lines of one call of a method. */
static void count_line(void)
{
    static uint64_t beats;
    static uint32_t lines;

    lines = beats == shared->beats ? lines + 1 : 1;
    beats = shared->beats;
    if (lines == LOG_GATE_LINES + 1) {
        violation("%s() floods the log: more than %d lines in one call; expected few: a node drops "
                  "what comes beyond",
                  shared->method, LOG_GATE_LINES);
    }
}

static void table_write(const struct fn_host *host, uint32_t at, const char *msg, size_t len)
{
    HOST_CALL();
    (void)host;
    count_line();
    if (at < FN_LOG_ERROR || at > FN_LOG_DEBUG) {
        violation("log.write was called with level %u; expected 1 to 4", at);
    } else if (!msg || len > 1024 * 1024) {
        violation("log.write was called with %zu bytes %s", len, msg ? "" : "of NULL");
    } else {
        trace_add(msg, len);
    }
}

static const struct fn_log_if log_if = {FN_HDR(struct fn_log_if, FN_MAGIC_LOG), &level,
                                        table_write};

static int table_declare(const struct fn_host *host, const char *name, uint32_t kind,
                         uint32_t *ret_id)
{
    struct instance *in = instance_of(host);
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    HOST_CALL();
    must_be_in(IN_INIT, "metric.declare");
    if (n == 0 || n > 48 || name[n] || !ret_id ||
        (kind != FN_METRIC_COUNTER && kind != FN_METRIC_GAUGE)) {
        violation("metric.declare was called with name \"%.60s\" and kind %u; expected 1 to 48 of "
                  "a-z, 0-9, _ and a known kind",
                  name ? name : "NULL", kind);
        return FN_E_INVALID;
    }
    if (in->n_metrics == INSTANCE_METRICS_MAX || outside_refuses("metric.declare")) {
        return FN_E_EXHAUSTED;
    }
    *ret_id = in->n_metrics++;
    return 0;
}

static void table_add(const struct fn_host *host, uint32_t id, int64_t delta)
{
    struct instance *in = instance_of(host);

    HOST_CALL();
    if (id >= in->n_metrics) {
        violation("metric.add was called with id %u; %u metrics were declared", id, in->n_metrics);
    }
    trace_u64(id);
    trace_u64((uint64_t)delta);
}

static const struct fn_metric_if metric_if = {FN_HDR(struct fn_metric_if, FN_MAGIC_METRIC),
                                              table_declare, table_add};

static uint64_t table_u64(const struct fn_host *host)
{
    struct instance *in = instance_of(host);
    uint64_t z;

    HOST_CALL();
    must_be_in(IN_INIT | IN_LOOP, "rng.u64");
    z = (in->rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static const struct fn_rng_if rng_if = {FN_HDR(struct fn_rng_if, FN_MAGIC_RNG), table_u64};

void tables_withhold(bool optional)
{
    withheld = optional;
}

static const void *table_get(const struct fn_host *host, const char *iface, uint32_t major)
{
    const struct fn_need *need = subject.factory->needs;

    HOST_CALL();
    (void)host;
    must_be_in(IN_INIT, "host.get");
    while (need && need->iface && iface && strcmp(need->iface, iface) != 0) {
        need++;
    }
    if (!iface || !need || !need->iface) {
        violation("host.get was asked for \"%.40s\", which needs[] does not list",
                  iface ? iface : "NULL");
        return NULL;
    }
    if (major != need->major || (withheld && (need->flags & FN_NEED_OPTIONAL))) {
        return NULL;
    }
    return tables_find(iface);
}

void tables_attach(struct instance *in)
{
    in->host = (struct fn_host){
        .hdr = FN_HDR(struct fn_host, FN_MAGIC_HOST),
        .priv = in,
        .clock = &clock_if,
        .timer = &timer_if,
        .log = &log_if,
        .metric = &metric_if,
        .rng = &rng_if,
        .get = table_get,
    };
}

void tables_release(struct instance *in)
{
    struct timer_entry *t;

    while ((t = TAILQ_FIRST(&in->timers))) {
        env_timer_clear(&clock_env, &t->timer);
        forget(t);
    }
}

const void *tables_find(const char *iface)
{
    static const struct {
        const char *name;
        const void *table;
    } all[] = {
        {"fn.op", &op_table},     {"fn.wake", &wake_table},     {"fn.snap", &snap_table},
        {"fn.edit", &edit_table}, {"fn.http", &http_table},     {"fn.exec", &exec_table},
        {"fn.proc", &proc_table}, {"fn.driver", &driver_table}, {"fn.placer", &placers_table},
        {"fn.rpc", &rpc_table},   {"fn.view", &view_table},
    };
    size_t i;

    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].name, iface) == 0) {
            return all[i].table;
        }
    }
    return NULL;
}
