/* One run of a world: its size and its faults are drawn from the seed, its items are handled in
 * order of time, and what they broke is told. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fault_def fault_defs[FAULTS_N] = {
#define X(name, text, rare, heavy) { text, rare, heavy },
    FAULTS(X)
#undef X
};

void later(struct world *w, int64_t delay_ns, enum item_kind kind, uint32_t group, uint32_t a,
           uint32_t b, uint32_t c, void *ptr)
{
    const struct item it = { w->now_ns + delay_ns, (uint16_t)kind, (uint16_t)group, a, b, c, ptr };

    heap_push(&w->heap, &it);
}

void trace(struct world *w, const char *format, ...)
{
    va_list args;

    if (w->conf.trace) {
        printf("%12.3f ", (double)w->now_ns / (double)S);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        putchar('\n');
    }
}

void broken(struct world *w, int which, const char *format, ...)
{
    va_list args;

    if (w->result->broken) {
        return; /* the first one tells */
    }
    w->result->broken = which;
    w->result->broken_ns = w->now_ns;
    va_start(args, format);
    vsnprintf(w->result->why, sizeof(w->result->why), format, args);
    va_end(args);
    trace(w, "BROKEN: %s", w->result->why);
}

/* ---- items ----------------------------------------------------------------------------------- */

static void drop_item(struct world *w, const struct item *it)
{
    if (it->kind == IT_DEMAND) {
        message_unref(w, it->ptr);
    } else if (it->kind == IT_MEMBERS) {
        snap_unref(it->ptr);
    }
}

static bool is_for_node(const struct item *it)
{
    return it->kind == IT_DEMAND || it->kind == IT_ANSWER || it->kind == IT_REPORT;
}

static void fate(struct world *w)
{
    struct rng *r = &w->rng_fate;

    later(w, S, IT_FATE, 0, 0, 0, 0, NULL);
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        lb_fate(w, &w->lbs[i]);
    }
    for (uint32_t i = 0; i < w->n_pools; i++) {
        cloud_fate(w, &w->pools[i]);
    }
    if (happens(w, F_WALL_JUMP, r)) {
        w->wall_ns += rng_between(r, -60 * MIN, 60 * MIN);
    }
    if (!w->up) {
        return;
    }
    if (happens(w, F_NPM_CRASH, r)) {
        node_crash(w);
        later(w, rng_below(r, 2) ? rng_between(r, 0, S) : rng_between(r, 0, 300 * S), IT_START, 0,
              0, 0, 0, NULL);
    } else if (happens(w, F_NPM_STOP, r)) {
        w->stopped_ns = w->now_ns + rng_between(r, S, 120 * S);
        trace(w, "npm stands still");
    }
}

static void operator(struct world *w)
{
    struct rng *r = &w->rng_fate;
    struct pool *p = &w->pools[rng_below(r, w->n_pools)];

    if (w->up && w->now_ns >= w->stopped_ns && npm_host_count(p->g) > 0 &&
        happens(w, F_OPERATOR, r)) {
        static const enum npm_event_kind orders[] = { NPM_DRAIN,   NPM_DRAIN,   NPM_UNDRAIN,
                                                      NPM_UNDRAIN, NPM_REPLACE, NPM_REPLACE,
                                                      NPM_RETIRE,  NPM_END };
        uint32_t i = rng_below(r, npm_host_count(p->g));
        char id[24];

        memcpy(id, npm_host_at(p->g, i)->id, sizeof(id));
        id[0] = rng_below(r, 50) ? id[0] : 'z'; /* a name that nobody has */
        node_order(w, p, id, orders[rng_below(r, 8)]);
    }
}

static void report(struct world *w, const struct item *it)
{
    struct pool *p = &w->pools[it->group];
    char id[24];
    const struct npm_event e = {
        .kind = it->b ? NPM_REPORTED : NPM_SILENT, .id = id, .active = it->b ? it->b - 1 : 0 };

    memcpy(id, p->machines[it->a].id, sizeof(id));
    node_step(w, p, &e);
}

static void for_node(struct world *w, const struct item *it)
{
    if (w->now_ns < w->stopped_ns) {
        later(w, w->stopped_ns - w->now_ns, it->kind, it->group, it->a, it->b, it->c, it->ptr);
        return;
    }
    if (w->up && it->c == w->start_no) {
        if (it->kind == IT_DEMAND) {
            node_demand(w, it->ptr);
        } else if (it->kind == IT_ANSWER) {
            cloud_answer(w, &w->pools[it->group]);
        } else {
            report(w, it);
        }
    }
    drop_item(w, it);
}

static void handle(struct world *w, const struct item *it)
{
    struct pool *p = &w->pools[it->group];

    w->result->events++;
    hash_add(w, (uint64_t)it->at_ns ^ ((uint64_t)it->kind << 58) ^ ((uint64_t)it->a << 8) ^ it->b);
    if (is_for_node(it)) {
        for_node(w, it);
        return;
    }
    switch ((enum item_kind)it->kind) {
    case IT_LB:
        lb_tick(w, &w->lbs[it->a]);
        break;
    case IT_MEMBERS:
        lb_members(w, &w->lbs[it->a], it);
        break;
    case IT_RECONNECT:
        if (it->b == w->lbs[it->a].life) {
            lb_reconnect(w, &w->lbs[it->a]);
        }
        break;
    case IT_EFFECT:
        cloud_effect(w, p);
        break;
    case IT_SAMPLE:
        cloud_sample(w, p, it->a, it->b);
        break;
    case IT_START:
        if (!w->up) {
            node_start(w);
        }
        break;
    case IT_FATE:
        fate(w);
        operator(w);
        break;
    default:
        break;
    }
}

static struct pool *next_tick(struct world *w)
{
    struct pool *first = NULL;

    for (uint32_t i = 0; w->up && i < w->n_pools; i++) {
        first = !first || w->pools[i].tick_ns < first->tick_ns ? &w->pools[i] : first;
    }
    if (first && first->tick_ns < w->stopped_ns) {
        first->tick_ns = w->stopped_ns;
        return next_tick(w);
    }
    return first;
}

void world_until(struct world *w, int64_t until_ns)
{
    static const struct npm_event tick = { .kind = NPM_TICK };
    struct item it;

    while (!w->result->broken) {
        struct pool *p = next_tick(w);
        int64_t heap_ns = heap_next_ns(&w->heap);
        int64_t tick_ns = p ? p->tick_ns : INT64_MAX;

        if ((heap_ns < tick_ns ? heap_ns : tick_ns) > until_ns) {
            break;
        }
        if (heap_ns <= tick_ns) {
            heap_pop(&w->heap, &it);
            w->now_ns = it.at_ns;
            handle(w, &it);
        } else {
            w->now_ns = tick_ns > w->now_ns ? tick_ns : w->now_ns;
            w->result->events++;
            node_step(w, p, &tick);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void draw_faults(struct world *w, struct rng *r)
{
    uint32_t only = rng_below(r, 8) == 0 ? rng_below(r, FAULTS_N) : FAULTS_N;

    for (uint32_t i = 0; i < FAULTS_N; i++) {
        uint32_t level = rng_below(r, 10);
        uint32_t ppm = level < 5 ? 0 : level < 8 ? fault_defs[i].rare : fault_defs[i].heavy;

        if (only < FAULTS_N) {
            ppm = i == only ? fault_defs[i].heavy : 0;
        }
        if (w->conf.calm || (w->conf.without >> i & 1)) {
            ppm = 0;
        }
        w->chance[i] = (uint32_t)((uint64_t)ppm * 4294967296u / 1000000u);
    }
}

static void draw(struct world *w)
{
    const struct npm_options defaults = NPM_OPTIONS_INIT;
    struct rng r;

    rng_init(&r, w->conf.seed, 1);
    w->n_lbs = w->conf.lbs ? w->conf.lbs : 1 + rng_below(&r, LBS_MAX);
    w->n_pools = w->conf.groups ? w->conf.groups : 1 + rng_below(&r, 2);
    w->o = defaults;
    w->o.runners_max = w->conf.runners ? w->conf.runners : 3 + rng_below(&r, 28);
    w->o.runners_min = rng_below(&r, 3);
    w->o.lbs_max = LBS_MAX + rng_below(&r, REF_LBS_MAX - LBS_MAX);
    w->predictor = (int)rng_below(&r, 4);
    w->budget.runners_max = w->o.runners_max * w->n_pools;
    if (rng_below(&r, 2)) {
        w->budget.runners_max -= rng_below(&r, w->budget.runners_max / 4 + 1);
    }
    draw_faults(w, &r);
    rng_init(&w->rng_net, w->conf.seed, 2);
    rng_init(&w->rng_node, w->conf.seed, 3);
    rng_init(&w->rng_fate, w->conf.seed, 4);
}

static void open_world(struct world *w)
{
    draw(w);
    w->now_ns = 1000000 * S;
    w->result->hash = w->conf.seed;
    for (uint32_t i = 0; i < w->n_pools; i++) {
        w->pools[i].no = i;
        rng_init(&w->pools[i].rng, w->conf.seed, 10 + i);
        cloud_open(w, &w->pools[i]);
    }
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        struct lb *lb = &w->lbs[i];

        lb->no = i;
        lb->real = i == 0 || w->o.runners_max <= 30;
        rng_init(&lb->rng, w->conf.seed, 20 + i);
        lb_open(w, lb);
    }
    node_start(w);
    later(w, S, IT_FATE, 0, 0, 0, 0, NULL);
}

static void close_world(struct world *w)
{
    struct message *m;
    struct item it;

    while (heap_pop(&w->heap, &it)) {
        drop_item(w, &it);
    }
    while ((m = w->free_messages)) {
        w->free_messages = m->next_free;
        free(m);
    }
    heap_finish(&w->heap);
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        lb_close(w, &w->lbs[i]);
    }
    for (uint32_t i = 0; i < w->n_pools; i++) {
        npm_group_destroy(w->pools[i].g);
        snap_unref(w->pools[i].published);
        cloud_close(&w->pools[i]);
    }
}

int world_run(const struct conf *conf, struct result *ret)
{
    struct world *w = calloc(1, sizeof(*w));
    int64_t begin_ns;

    if (!w) {
        fputs("npm_sim: out of memory\n", stderr);
        exit(70);
    }
    *ret = (struct result){ 0 };
    w->conf = *conf;
    w->result = ret;
    open_world(w);
    begin_ns = w->now_ns;
    world_until(w, begin_ns + conf->fault_ns);
    if (!ret->broken) {
        w->now_ns = begin_ns + conf->fault_ns;
        quiet_run(w);
    }
    ret->time_ns = w->now_ns - begin_ns;
    close_world(w);
    free(w);
    return ret->broken;
}
