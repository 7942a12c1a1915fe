/* The plan of a world: its size, its requests and its faults, all drawn from the seed before
 * anything runs. So a world can be run again with some events left out, which is how a failing one
 * is shrunk. Swarm testing: each kind of fault is absent, rare or frequent in a world. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MIN 40
#define REQUESTS_MAX 400
#define LENGTH_MIN_NS (2 * ENV_S)
#define LENGTH_MAX_NS (20 * ENV_S)
#define FREQUENT_MAX 12u /* faults of one kind in a world */
#define RARE_MAX     2u
/* Slow worlds: nights in which hardly anybody comes, containers fall asleep and go, and what is
 * tried again is tried with long pauses. */
#define SLOW_ONE_IN 4u
#define SLOW_LENGTH_MIN_NS (600 * ENV_S)
#define SLOW_LENGTH_MAX_NS (2400 * ENV_S)
#define SLOW_IDLE_MAX_S 400
#define RUSHES_MAX 8u /* of slow worlds: times at which many come */
#define RUSH_NS (3 * ENV_S)
#define RARELY 6u /* one request in so many comes in no rush */
#define API_IN_8 7u
#define DEPLOYS_MAX 30u
#define MANAGED_IN_8 3u /* of eight worlds this one is managed */
#define MANAGED_LENGTH_MIN_NS (60 * ENV_S)
#define MANAGED_LENGTH_MAX_NS (240 * ENV_S)
#define TIMEOUT_MAX_S         4
#define MANAGED_TIMEOUT_MAX_S 20
#define POOR_IN_8 5u
#define POOR_MAX  16u /* times at which memory is scarce */
#define BYTE_LENGTH_NS (10 * ENV_S) /* all that one byte can delay is over */
#define DAYS 40u /* of long worlds */
#define LONG_MIN_NS (20 * ENV_S)
#define LONG_MAX_NS (180 * ENV_S)

static const char *const placers[] = { "naive", "ch", "p2c", "first", "chbl", "hybrid" };
static const char *const names[PLAN_KINDS_N] = {
#define X(name, whom, text) [PLAN_##name] = text,
    PLAN_KINDS(X)
#undef X
};

const char *plan_placer(uint32_t i)
{
    return i < sizeof(placers) / sizeof(placers[0]) ? placers[i] : NULL;
}

static int64_t draw_between(struct sim_rng *r, int64_t low, int64_t high)
{
    return low + (int64_t)sim_rng_below(r, (uint64_t)(high - low + 1));
}

static uint32_t draw_of(struct sim_rng *r, const uint32_t *values, uint32_t n)
{
    return values[sim_rng_below(r, n)];
}
#define DRAW_OF(r, values) draw_of((r), (values), sizeof(values) / sizeof((values)[0]))

static void draw_functions(struct plan *p, struct sim_rng *r)
{
    static const uint32_t mems[] = { 64, 64, 128, 256 };

    p->functions = (uint32_t)draw_between(r, 1, FUNCTIONS_MAX);
    for (uint32_t i = 0; i < p->functions; i++) {
        p->function[i] = (struct plan_function){
            .mem_mb = DRAW_OF(r, mems),
            .timeout_s = (int32_t)draw_between(r, 1, p->timeout_max_s),
            .idle_timeout_s = (int32_t)draw_between(r, 1, p->slow ? SLOW_IDLE_MAX_S : 20),
            .app = (uint32_t)sim_rng_below(r, 3),
        };
    }
}

static void draw_size(struct plan *p, struct sim_rng *r)
{
    static const uint32_t sockets[] = { 600, 4096, 65536, 65536 };
    static const uint32_t streams[] = { 3, 20, 100, 100 };
    static const uint32_t windows[] = { 500, 20000, 65536 };
    static const uint32_t buffers[] = { 300, 4096, 65536 };
    static const uint32_t mems[] = { 256, 384, 512, 1024 };

    p->lbs = (uint32_t)draw_between(r, 1, 3);
    p->runners = (uint32_t)draw_between(r, 1, 4);
    p->placer = placers[sim_rng_below(r, sizeof(placers) / sizeof(placers[0]))];
    p->runner_mem_mb = DRAW_OF(r, mems);
    p->latency_ns = draw_between(r, 50 * ENV_US, 4 * ENV_MS);
    p->jitter_ns = draw_between(r, 1, 4 * p->latency_ns);
    p->socket_bytes = DRAW_OF(r, sockets);
    p->streams_max = DRAW_OF(r, streams);
    p->window_bytes = DRAW_OF(r, windows);
    p->response_buffer_bytes = DRAW_OF(r, buffers);
    p->placement_timeout_ns = draw_between(r, ENV_S, 6 * ENV_S);
    p->detached = sim_rng_below(r, 2);
    p->nasty = sim_rng_below(r, 3) == 0;
    p->slow_ns = draw_between(r, 5 * ENV_MS, 300 * ENV_MS);
    p->fast_ns = draw_between(r, ENV_MS, 10 * ENV_MS);
    p->boot_ns = draw_between(r, ENV_MS, 200 * ENV_MS);
    p->length_ns = p->managed ? draw_between(r, MANAGED_LENGTH_MIN_NS, MANAGED_LENGTH_MAX_NS)
                   : p->slow  ? draw_between(r, SLOW_LENGTH_MIN_NS, SLOW_LENGTH_MAX_NS)
                              : draw_between(r, LENGTH_MIN_NS, LENGTH_MAX_NS);
}

/* How long a fault lasts: most are short, some outlast every patience. */
static int64_t draw_length(const struct plan *p, struct sim_rng *r)
{
    if (p->slow && sim_rng_below(r, 4) == 0) {
        return draw_between(r, LONG_MIN_NS, LONG_MAX_NS);
    }
    switch (sim_rng_below(r, 4)) {
    case 0:
        return draw_between(r, ENV_MS, 100 * ENV_MS);
    case 1:
        return draw_between(r, 5 * ENV_S, 15 * ENV_S);
    default:
        return draw_between(r, 100 * ENV_MS, 4 * ENV_S);
    }
}

/* Those that a manager must see through although they last longer than its patience. */
static bool may_be_long(enum plan_kind kind)
{
    return kind >= PLAN_ASK_TO && kind <= PLAN_STATUS_HANGS;
}

static struct plan_event draw_event(const struct plan *p, struct sim_rng *r, enum plan_kind kind)
{
    return (struct plan_event){
        .at_ns = draw_between(r, 0, p->length_ns),
        .kind = kind,
        .lb = (uint32_t)sim_rng_below(r, p->lbs),
        .runner = (uint32_t)sim_rng_below(r, p->runners),
        .function = (uint32_t)sim_rng_below(r, p->functions),
        .n = (uint32_t)sim_rng_below(r, 30),
        .ns = draw_length(p, r),
        .chance = sim_rng_u64(r),
    };
}

/* Most requests of a slow world come together, and between these times it rests. */
static void draw_rushes(struct plan *p, struct sim_rng *r)
{
    int64_t at_ns[RUSHES_MAX];
    uint64_t n = 1 + sim_rng_below(r, RUSHES_MAX);

    for (uint64_t i = 0; i < n; i++) {
        at_ns[i] = draw_between(r, 0, p->length_ns - RUSH_NS);
    }
    for (uint32_t i = 0; i < p->n_events; i++) {
        if (sim_rng_below(r, RARELY) > 0) {
            p->events[i].at_ns = at_ns[sim_rng_below(r, n)] + draw_between(r, 0, RUSH_NS);
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const struct plan_event *x = a, *y = b;

    if (x->at_ns != y->at_ns) {
        return x->at_ns < y->at_ns ? -1 : 1;
    }
    return x->chance < y->chance ? -1 : x->chance > y->chance;
}

/* A managed world is calm every second time: what a manager does unasked must be right. */
static uint32_t last_kind(const struct plan *p)
{
    return !p->managed ? PLAN_NPM_KILL : p->seed / 8 % 2 ? PLAN_API_KILL : PLAN_REQUEST;
}

static void draw_scarce(struct plan *p, uint64_t seed)
{
    struct sim_rng r = sim_rng_make(seed, 106);
    uint64_t kinds = PLAN_KINDS_N - PLAN_MEMORY_LB, n = 1 + sim_rng_below(&r, POOR_MAX);

    for (uint64_t i = 0; i < n; i++) {
        enum plan_kind kind = (enum plan_kind)(PLAN_MEMORY_LB + sim_rng_below(&r, kinds));

        p->events[p->n_events++] = draw_event(p, &r, kind);
    }
}

static void draw_api(struct plan *p, uint64_t seed)
{
    struct sim_rng r = sim_rng_make(seed, 109);
    uint64_t deploys = 1 + sim_rng_below(&r, DEPLOYS_MAX);

    for (uint64_t i = 0; i < deploys; i++) {
        p->events[p->n_events++] = draw_event(p, &r, PLAN_DEPLOY);
    }
    for (uint32_t kind = PLAN_API_KILL; kind < PLAN_DEPLOY; kind++) {
        uint64_t times = sim_rng_below(&r, 2) ? sim_rng_below(&r, FREQUENT_MAX) : 0;

        for (uint64_t i = 0; i < times; i++) {
            p->events[p->n_events++] = draw_event(p, &r, (enum plan_kind)kind);
        }
    }
}

static void draw_events(struct plan *p, uint64_t seed)
{
    struct sim_rng requests = sim_rng_make(seed, 101);
    struct sim_rng faults = sim_rng_make(seed, 102);
    uint32_t n = (uint32_t)draw_between(&requests, REQUESTS_MIN, REQUESTS_MAX);

    p->events = sim_alloc((n + PLAN_KINDS_N * FREQUENT_MAX + POOR_MAX + DEPLOYS_MAX) *
                          sizeof(*p->events));
    for (uint32_t i = 0; i < n; i++) {
        p->events[p->n_events++] = draw_event(p, &requests, PLAN_REQUEST);
    }
    if (p->slow || p->managed) {
        draw_rushes(p, &requests);
    }
    for (uint32_t kind = PLAN_REQUEST + 1; kind < last_kind(p); kind++) {
        uint64_t how = sim_rng_below(&faults, 4);
        uint64_t times = how < 2 ? 0 : sim_rng_below(&faults, how == 2 ? RARE_MAX : FREQUENT_MAX);

        for (uint64_t i = 0; i <= times && how >= 2; i++) {
            struct plan_event e = draw_event(p, &faults, (enum plan_kind)kind);

            if (may_be_long(e.kind) && e.n % 3 == 0) {
                e.ns = draw_between(&faults, LONG_MIN_NS, LONG_MAX_NS);
            }
            p->events[p->n_events++] = e;
        }
    }
    if (p->api) {
        draw_api(p, seed);
    }
    if (p->poor) {
        draw_scarce(p, seed);
    }
    qsort(p->events, p->n_events, sizeof(*p->events), by_time);
}

bool plan_is_poor(uint64_t seed)
{
    return seed % 8 == POOR_IN_8;
}

/* Each way as bytes are written on it; a manager's connections are plain (net.c). */
static const struct {
    enum plan_way way;
    enum plan_speech speech;
} courses[PLAN_COURSES_N] = {
    { PLAN_TO_LB, PLAN_PLAIN },        { PLAN_TO_CLIENT, PLAN_PLAIN },
    { PLAN_TO_RUNNER, PLAN_PLAIN },    { PLAN_FROM_RUNNER, PLAN_PLAIN },
    { PLAN_TO_LB, PLAN_TLS_H2 },       { PLAN_TO_CLIENT, PLAN_TLS_H2 },
    { PLAN_TO_RUNNER, PLAN_TLS_H2 },   { PLAN_FROM_RUNNER, PLAN_TLS_H2 },
    { PLAN_TO_LB, PLAN_TLS_H1 },       { PLAN_TO_CLIENT, PLAN_TLS_H1 },
    { PLAN_TO_NPM, PLAN_PLAIN },       { PLAN_FROM_NPM, PLAN_PLAIN },
};

/* The smallest world that has everything on the way of the byte. */
static void plan_byte(struct plan *p, uint64_t seed)
{
    enum plan_way way = courses[seed % PLAN_COURSES_N].way;

    *p = (struct plan){ .seed = seed,
                        .managed = way == PLAN_TO_NPM || way == PLAN_FROM_NPM,
                        .lbs = 1,
                        .runners = 1,
                        .functions = 1,
                        .function = { { .mem_mb = 64, .timeout_s = 2, .idle_timeout_s = 20 } },
                        .timeout_max_s = 2,
                        .placer = "naive",
                        .runner_mem_mb = 256,
                        .latency_ns = ENV_MS,
                        .jitter_ns = 1,
                        .socket_bytes = 65536,
                        .streams_max = 100,
                        .window_bytes = 65536,
                        .response_buffer_bytes = seed % 3 ? 65536 : 300,
                        .placement_timeout_ns = 3 * ENV_S,
                        .slow_ns = 5 * ENV_MS,
                        .fast_ns = ENV_MS,
                        .boot_ns = ENV_MS,
                        .length_ns = BYTE_LENGTH_NS,
                        .days = 1 };
    p->byte_there = (struct plan_byte){ .at = seed / PLAN_OF_BYTE,
                                        .way = way,
                                        .how = (enum plan_break)(seed / PLAN_COURSES_N %
                                                                 PLAN_BREAKS_N),
                                        .speech = courses[seed % PLAN_COURSES_N].speech };
    p->byte = &p->byte_there;
    p->events = sim_alloc(sizeof(*p->events));
    p->events[p->n_events++] = (struct plan_event){ .kind = PLAN_REQUEST, .chance = 1 };
}

void plan_draw(struct plan *p, uint64_t seed, enum plan_mode mode)
{
    struct sim_rng r = sim_rng_make(seed, 100);

    if (mode == PLAN_BYTE) {
        plan_byte(p, seed);
        return;
    }
    *p = (struct plan){ .seed = seed,
                        .slow = seed % SLOW_ONE_IN == 0,
                        .poor = mode == PLAN_POOR || plan_is_poor(seed),
                        .managed = seed % 8 == MANAGED_IN_8,
                        .api = seed % 8 == API_IN_8 && net_carries_api(),
                        .days = mode == PLAN_LONG ? DAYS : 1 };
    p->ruled = p->api && seed / 8 % 2 == 1;
    p->timeout_max_s = p->managed ? MANAGED_TIMEOUT_MAX_S : TIMEOUT_MAX_S;
    draw_size(p, &r);
    draw_functions(p, &r);
    draw_events(p, seed);
}

void plan_free(struct plan *p)
{
    free(p->events);
}

void plan_tell_event(const struct plan *p, uint32_t i, char *ret, size_t cap)
{
    const struct plan_event *e = &p->events[i];

    if (e->kind == PLAN_REQUEST) {
        snprintf(ret, cap, "#%u request of function %u to lb%u", i, e->function, e->lb);
    } else {
        snprintf(ret, cap, "#%u %s: lb%u runner%u, n %u, %lld ms", i, names[e->kind], e->lb,
                 e->runner, e->n, (long long)(e->ns / ENV_MS));
    }
}

enum plan_mode plan_mode_of(const struct plan *p)
{
    return p->byte ? PLAN_BYTE : p->days > 1 ? PLAN_LONG : p->poor ? PLAN_POOR : PLAN_DRAWN;
}
