/* Runners: memory, containers, a bounded queue, refusal.
 *
 * A call gets an idle container of its function (warm), or a new one where memory allows or an idle
 * container of any function can be removed, the longest idle first (cold), or waits in the runner's
 * queue, or is refused. Idle containers end after idle_timeout; that is looked at when the runner
 * is asked. */
#include <sim/cluster_int.h>

#include <stdio.h>
#include <stdlib.h>

static struct cell *cell_of(struct cluster *c, const struct runner *r, uint32_t function)
{
    return &c->cells[(size_t)(r - c->runners) * c->n_functions + function];
}

int fleet_create(struct cluster *c)
{
    c->n_runners = c->sc->n_runners;
    c->runners = calloc(c->n_runners, sizeof(*c->runners));
    c->cells = calloc((size_t)c->n_runners * c->n_functions, sizeof(*c->cells));
    c->cap_idle = 1024;
    c->n_idle = 1;
    c->idle = calloc(c->cap_idle, sizeof(*c->idle));
    if (!c->runners || !c->cells || !c->idle) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < c->n_runners; i++) {
        struct runner *r = &c->runners[i];

        r->cluster = c;
        r->alive = r->link_up = i < (uint32_t)c->sc->runners->count;
        r->listing = r->alive ? LIST_ACTIVE : LIST_ABSENT;
        r->memory_free = (uint64_t)c->sc->runners->memory;
        snprintf(r->address, sizeof(r->address), "10.%u.%u.%u:9190", i >> 16, i >> 8 & 255,
                 i & 255);
        TAILQ_INIT(&r->calls);
        TAILQ_INIT(&r->queue);
    }
    return 0;
}

void fleet_destroy(struct cluster *c)
{
    free(c->runners);
    free(c->cells);
    free(c->idle);
}

/* ---- idle containers ------------------------------------------------------------------------- */

static uint32_t idle_get(struct cluster *c)
{
    uint32_t i = c->free_idle;

    if (i) {
        c->free_idle = c->idle[i].older;
        return i;
    }
    if (c->n_idle == c->cap_idle) {
        c->cap_idle *= 2;
        c->idle = realloc(c->idle, c->cap_idle * sizeof(*c->idle));
        if (!c->idle) {
            abort();
        }
    }
    return c->n_idle++;
}

static void idle_add(struct cluster *c, struct runner *r, uint32_t function)
{
    struct cell *cell = cell_of(c, r, function);
    uint32_t i = idle_get(c);

    c->idle[i] = (struct idle){ .function = function,
                                .older = r->newest,
                                .same_older = cell->idle,
                                .since_ns = c->sim->now_ns };
    if (r->newest) {
        c->idle[r->newest].newer = i;
    } else {
        r->oldest = i;
    }
    if (cell->idle) {
        c->idle[cell->idle].same_newer = i;
    }
    r->newest = i;
    cell->idle = i;
}

static void idle_remove(struct cluster *c, struct runner *r, uint32_t i)
{
    struct idle *d = &c->idle[i];
    struct cell *cell = cell_of(c, r, d->function);

    *(d->newer ? &c->idle[d->newer].older : &r->newest) = d->older;
    *(d->older ? &c->idle[d->older].newer : &r->oldest) = d->newer;
    *(d->same_newer ? &c->idle[d->same_newer].same_older : &cell->idle) = d->same_older;
    if (d->same_older) {
        c->idle[d->same_older].same_newer = d->same_newer;
    }
    d->older = c->free_idle;
    c->free_idle = i;
}

static void evict(struct cluster *c, struct runner *r, uint32_t i)
{
    uint32_t function = c->idle[i].function;

    idle_remove(c, r, i);
    cell_of(c, r, function)->total--;
    r->memory_free += c->functions[function].memory;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void start(struct cluster *c, struct runner *r, struct call *call, bool cold)
{
    const struct scenario_runners *o = c->sc->runners;
    int64_t cold_ns = 0;

    if (cold) {
        uint64_t range = (uint64_t)(o->cold_start_ns / 100 * o->cold_spread);

        cold_ns = o->cold_start_ns - (int64_t)range +
                  (int64_t)sim_rng_below(&c->rng_fleet, 2 * range + 1);
    }
    r->busy++;
    r->used = true;
    if (o->cpus > 0 && r->busy > o->cpus) {
        call->service_ns = (int64_t)fixed_mul_div((uint64_t)call->service_ns, r->busy,
                                                  (uint64_t)o->cpus);
    }
    call->cold = cold;
    call->state = CALL_RUNNING;
    call->started_ns = c->sim->now_ns + cold_ns;
    call->timer.cb = call_finished;
    sim_record(c->sim, CLUSTER_STARTED, call->runner, (uint64_t)call->started_ns);
    sim_at(c->sim, &call->timer, call->started_ns + call->service_ns);
}

static bool begin(struct cluster *c, struct runner *r, struct call *call)
{
    const struct scenario_runners *o = c->sc->runners;
    struct cell *cell = cell_of(c, r, call->function);
    uint64_t memory = c->functions[call->function].memory;
    int64_t expired_ns = c->sim->now_ns - o->idle_timeout_ns;

    while (r->oldest && c->idle[r->oldest].since_ns <= expired_ns) {
        evict(c, r, r->oldest);
    }
    if (cell->idle) {
        idle_remove(c, r, cell->idle);
        start(c, r, call, false);
        return true;
    }
    if (o->containers_per_function > 0 && cell->total >= o->containers_per_function) {
        return false;
    }
    while (r->memory_free < memory && r->oldest) {
        evict(c, r, r->oldest);
    }
    if (r->memory_free < memory) {
        return false;
    }
    r->memory_free -= memory;
    cell->total++;
    start(c, r, call, true);
    return true;
}

bool fleet_offer(struct cluster *c, struct call *call)
{
    struct runner *r = &c->runners[call->runner];

    if (r->queued == 0 && begin(c, r, call)) {
        TAILQ_INSERT_TAIL(&r->calls, call, link);
        return true;
    }
    if (r->queued < c->sc->runners->queue) {
        call->state = CALL_QUEUED;
        r->queued++;
        TAILQ_INSERT_TAIL(&r->queue, call, link_queue);
        TAILQ_INSERT_TAIL(&r->calls, call, link);
        return true;
    }
    return false;
}

void fleet_release(struct cluster *c, struct call *call)
{
    struct runner *r = &c->runners[call->runner];
    struct call *next;

    TAILQ_REMOVE(&r->calls, call, link);
    r->busy--;
    idle_add(c, r, call->function);
    while ((next = TAILQ_FIRST(&r->queue)) && begin(c, r, next)) {
        TAILQ_REMOVE(&r->queue, next, link_queue);
        r->queued--;
    }
}

void fleet_kill(struct cluster *c, struct runner *r, int64_t told_ns)
{
    struct call *call;

    r->alive = false;
    r->dead_ns = c->sim->now_ns;
    while (r->oldest) {
        evict(c, r, r->oldest);
    }
    while ((call = TAILQ_FIRST(&r->calls))) {
        TAILQ_REMOVE(&r->calls, call, link);
        call_lose(call, told_ns);
    }
    TAILQ_INIT(&r->queue);
    r->queued = r->busy = 0;
    r->memory_free = (uint64_t)c->sc->runners->memory;
    for (uint32_t f = 0; f < c->n_functions; f++) {
        *cell_of(c, r, f) = (struct cell){ 0 };
    }
}
