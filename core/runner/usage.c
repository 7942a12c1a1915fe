/* Usage: what containers use of the machine, as Go Fn's fn_docker_stats_*: one value of each
 * container in each sample.
 *
 * Once a second a worker asks the driver for a batch of those that run; when there are more than a
 * batch, they take turns. What is frozen uses nothing: its last sample counts again, and the driver
 * is not asked. Calls never wait for it, and an engine that is down is left alone. */
#include <runner/runner_int.h>

#include <stdlib.h>

#define INTERVAL_NS ENV_S
#define TIMEOUT_NS  (5 * ENV_S)
#define MIB_D       1048576.0

static const double io_bounds[] = { 0,
                                    131072,
                                    131072 * 4.0,
                                    131072 * 8.0,
                                    131072 * 16.0,
                                    131072 * 32.0,
                                    131072 * 64.0,
                                    131072 * 128.0,
                                    131072 * 256.0,
                                    131072 * 512.0,
                                    131072 * 1024.0 };
static const double memory_bounds[] = { 0,
                                        128 * MIB_D,
                                        256 * MIB_D,
                                        512 * MIB_D,
                                        1024 * MIB_D,
                                        2048 * MIB_D,
                                        4096 * MIB_D,
                                        8192 * MIB_D };
static const double cpu_bounds[] = { 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100 };

#define N_OF(bounds) ((uint32_t)(sizeof(bounds) / sizeof((bounds)[0])))

static struct metric *usage_histogram(const char *name, const char *help, const double *bounds,
                                      uint32_t n_bounds)
{
    const struct metric_def def = { .name = name,
                                    .help = help,
                                    .kind = METRIC_HISTOGRAM,
                                    .bounds = bounds,
                                    .n_bounds = n_bounds };

    return metric_series(metric_declare(&def), NULL);
}

static void usage_declare(struct usage_metrics *m)
{
    m->cpu_total = usage_histogram("fn_docker_stats_cpu_total",
                                   "Processor time of a container since the sample before, percent "
                                   "of one processor.",
                                   cpu_bounds, N_OF(cpu_bounds));
    m->cpu_user = usage_histogram("fn_docker_stats_cpu_user",
                                  "The part of it that its processes spent, percent.", cpu_bounds,
                                  N_OF(cpu_bounds));
    m->cpu_kernel = usage_histogram("fn_docker_stats_cpu_kernel",
                                    "The part of it that the kernel spent for them, percent.",
                                    cpu_bounds, N_OF(cpu_bounds));
    m->mem_usage = usage_histogram("fn_docker_stats_mem_usage", "Bytes of memory of a container.",
                                   memory_bounds, N_OF(memory_bounds));
    m->mem_limit = usage_histogram("fn_docker_stats_mem_limit",
                                   "Bytes of memory that a container may have.", memory_bounds,
                                   N_OF(memory_bounds));
    m->net_rx = usage_histogram("fn_docker_stats_net_rx",
                                "Bytes that a container has received until the sample.", io_bounds,
                                N_OF(io_bounds));
    m->net_tx = usage_histogram("fn_docker_stats_net_tx",
                                "Bytes that a container has sent until the sample.", io_bounds,
                                N_OF(io_bounds));
    m->disk_read = usage_histogram("fn_docker_stats_disk_read",
                                   "Bytes that a container has read from disks until the sample.",
                                   io_bounds, N_OF(io_bounds));
    m->disk_write = usage_histogram("fn_docker_stats_disk_write",
                                    "Bytes that a container has written to disks until the sample.",
                                    io_bounds, N_OF(io_bounds));
}

/* ---- a sample -------------------------------------------------------------------------------- */

static void observe_bytes(struct metric *m, uint64_t bytes)
{
    metric_observe(m, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
}

static void observe_cpu(struct metric *m, uint64_t now_ns, uint64_t was_ns, int64_t elapsed_ns)
{
    uint64_t spent_ns = now_ns > was_ns ? now_ns - was_ns : 0;

    metric_observe(m, (int64_t)((double)spent_ns * 100 / (double)elapsed_ns));
}

static void take_sample(struct usage *u, struct container *c, const struct fn_usage *s,
                        int64_t at_ns)
{
    struct usage_metrics *m = &u->metrics;
    struct usage_of *of = &c->usage;
    int64_t elapsed_ns = at_ns - (of->at_ns ? of->at_ns : c->started_ns);

    if (elapsed_ns > 0) {
        of->at_ns = at_ns;
        observe_cpu(m->cpu_total, s->cpu_ns, of->last.cpu_ns, elapsed_ns);
        observe_cpu(m->cpu_user, s->cpu_user_ns, of->last.cpu_user_ns, elapsed_ns);
        observe_cpu(m->cpu_kernel, s->cpu_kernel_ns, of->last.cpu_kernel_ns, elapsed_ns);
        of->last = *s;
    }
    observe_bytes(m->mem_usage, s->mem_bytes);
    observe_bytes(m->mem_limit, s->mem_limit_bytes);
    observe_bytes(m->net_rx, s->net_rx_bytes);
    observe_bytes(m->net_tx, s->net_tx_bytes);
    observe_bytes(m->disk_read, s->disk_read_bytes);
    observe_bytes(m->disk_write, s->disk_write_bytes);
}

/* ---- asking for them ------------------------------------------------------------------------- */

static struct usage *usage_of_work(struct env_work *w)
{
    return container_of(w, struct usage, work);
}

static void run_usage(struct env_work *w, struct fn_op *op)
{
    struct usage *u = usage_of_work(w);
    struct runner *r = container_of(u, struct runner, usage);
    struct fn_error err = ERR_INIT;

    PLUGIN_ASK(u->result, r->deps.driver, PLUGIN_WORKER, "usage", 0, &err,
               r->ops->usage(r->inst, op, u->items, u->n, &err));
    u->at_ns = env_now_ns(r->env);
}

static void done_usage(struct env_work *w)
{
    struct usage *u = usage_of_work(w);
    struct runner *r = container_of(u, struct runner, usage);

    if (r->abandoned) {
        return;
    }
    u->busy = false;
    for (uint32_t i = 0; i < u->n && u->result >= 0; i++) {
        struct container *c = runner_container(r, u->items[i].handle);

        if (c && c->state < CTR_CLOSE && u->items[i].flags & FN_USAGE_KNOWN) {
            c->usage.asked_ns = u->asked_ns;
            take_sample(u, c, &u->items[i], u->at_ns);
        }
    }
    runner_drain_check(r);
}

/* Frozen since before its last sample, which is as good as another one. */
static bool is_still(const struct container *c)
{
    return c->state == CTR_FROZEN && c->usage.asked_ns > c->state_ns;
}

/* The next of them, after the one that was looked at last. */
static void choose_batch(struct runner *r, int64_t now)
{
    struct usage *u = &r->usage;
    struct container *c = runner_container(r, u->last);
    uint32_t looked = 0;

    u->n = 0;
    for (uint32_t left = HASH_COUNT(r->containers); left > 0 && looked < USAGE_BATCH; left--) {
        c = c && c->hh.next ? c->hh.next : r->containers;
        if (!c->started || c->state >= CTR_CLOSE) {
            continue;
        }
        looked++;
        u->last = c->handle;
        if (is_still(c)) {
            struct fn_usage same = c->usage.last;

            take_sample(u, c, &same, now);
        } else {
            u->items[u->n++] = (struct fn_usage){ .handle = c->handle };
        }
    }
}

static void ask_driver(struct runner *r)
{
    struct usage *u = &r->usage;

    if (u->busy || r->engine.state != ENGINE_UP) {
        return;
    }
    u->asked_ns = env_now_ns(r->env);
    choose_batch(r, u->asked_ns);
    u->work = (struct env_work){ .run = run_usage,
                                 .done = done_usage,
                                 .lane = ENV_LANE_SLOW,
                                 .owner = plugin_name(r->deps.driver),
                                 .deadline_ns = u->asked_ns + TIMEOUT_NS };
    u->busy = u->n > 0 && env_submit(r->env, &u->work) == 0;
}

static void usage_tick(struct env_timer *t)
{
    struct usage *u = container_of(t, struct usage, timer);
    struct runner *r = container_of(u, struct runner, usage);

    if (r->draining) {
        return;
    }
    if (r->opt.container_stats) {
        ask_driver(r);
    }
    env_timer_set(r->env, t, env_now_ns(r->env) + INTERVAL_NS);
}

void usage_init(struct runner *r)
{
    struct usage *u = &r->usage;

    u->timer.cb = usage_tick;
    if (r->ops->usage) {
        usage_declare(&u->metrics);
        env_timer_set(r->env, &u->timer, env_now_ns(r->env) + INTERVAL_NS);
    }
}

bool usage_is_asked(const struct runner *r)
{
    return r->usage.busy;
}

void usage_finish(struct runner *r)
{
    env_timer_clear(r->env, &r->usage.timer);
}
