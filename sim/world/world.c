/* The world's clock: the node whose next event is due first is stepped. */
#include "world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the threads of a real node, less those that only wait behind others. */
#define SLOW_LANE_WIDTH 40u

void must_be(int r, const struct fn_error *e)
{
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, e->msg);
        abort();
    }
}

static struct sim_nasty nasty_of(const struct world *w, uint32_t life)
{
    struct sim_rng r = sim_rng_make(w->plan->seed, 200 + life);
    static const int64_t late_ns[] = { 0, ENV_MS, 50 * ENV_MS };
    static const int64_t start_ns[] = { 0, 10 * ENV_MS, 500 * ENV_MS };
    static const uint32_t refuse_one_in[] = { 0, 200, 10 };

    if (!w->plan->nasty) {
        return (struct sim_nasty){ 0 };
    }
    return (struct sim_nasty){ .late_max_ns = late_ns[sim_rng_below(&r, 3)],
                               .start_max_ns = start_ns[sim_rng_below(&r, 3)],
                               .refuse_one_in = refuse_one_in[sim_rng_below(&r, 3)] };
}

void node_init(struct node *n, struct world *w, const char *kind, uint32_t index)
{
    struct sim_options o = { 0 };

    n->w = w;
    n->life = ++w->lives;
    o.seed = w->plan->seed * 1000003u + n->life;
    o.nasty = nasty_of(w, n->life);
    n->sim = sim_create(&o);
    if (!n->sim) {
        abort();
    }
    sim_lane_width(n->sim, ENV_LANE_SLOW, SLOW_LANE_WIDTH);
    sim_jump(n->sim, w->now_ns - sim_now_ns(n->sim));
    n->env = sim_env(n->sim);
    snprintf(n->name, sizeof(n->name), "%s%u", kind, index);
    n->next = w->nodes;
    w->nodes = n;
}

void node_finish(struct node *n)
{
    struct node **p = &n->w->nodes;

    while (*p != n) {
        p = &(*p)->next;
    }
    *p = n->next;
    sim_destroy(n->sim);
}

static int64_t due_of(const struct node *n)
{
    int64_t due_ns = sim_due_ns(n->sim);

    return due_ns > n->frozen_until_ns ? due_ns : n->frozen_until_ns;
}

/* NULL: the world's own clock. */
static struct node *next_of(struct world *w, int64_t *ret_due_ns)
{
    struct node *next = NULL;
    int64_t first_ns = sim_due_ns(w->outside);

    for (struct node *n = w->nodes; n; n = n->next) {
        int64_t due_ns = due_of(n);

        if (due_ns < first_ns) {
            first_ns = due_ns;
            next = n;
        }
    }
    *ret_due_ns = first_ns;
    return next;
}

static void step(struct world *w, struct node *n, int64_t due_ns)
{
    struct sim *s = n ? n->sim : w->outside;

    w->now_ns = due_ns > w->now_ns ? due_ns : w->now_ns;
    w->steps++;
    if (w->now_ns > sim_now_ns(s)) {
        sim_jump(s, w->now_ns - sim_now_ns(s)); /* what it should have done is late now */
    }
    scarce_enter(n);
    net_enter(w->net, n);
    sim_step(s);
    net_enter(w->net, NULL);
    scarce_enter(NULL);
}

bool world_run_until(struct world *w, int64_t at_ns)
{
    int64_t due_ns;
    struct node *n = next_of(w, &due_ns);

    while (due_ns <= at_ns && !books_broken(w->books)) {
        step(w, n, due_ns);
        n = next_of(w, &due_ns);
    }
    if (!books_broken(w->books)) {
        w->now_ns = at_ns;
    }
    return !books_broken(w->books);
}

void world_tell(struct world *w, const struct node *n, const char *fmt, ...)
{
    int64_t ns = w->now_ns - 1000 * ENV_S;
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    printf("%4lld.%06lld %-8s %s\n", (long long)(ns / ENV_S), (long long)(ns % ENV_S / 1000),
           n ? n->name : "-", text);
}
