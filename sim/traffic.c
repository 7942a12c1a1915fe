/* Traffic: which functions exist and when their calls arrive.
 *
 * The shapes constant, poisson, burst and diurnal are one stream of calls whose function is drawn
 * by popularity. Shape azure gives each function a process of its own. Its numbers follow
 * "Serverless in the Wild" (Shahrad et al., USENIX ATC'20): rates over eight orders of magnitude,
 * where 18.6 % of the applications have 99.6 % of the calls; mean run times log-normal with mu
 * -0.38 and sigma
 * 2.36 (seconds); triggers by timer, steady and in bursts. How these three share the functions is
 * our choice. It is a shape, not their data. */
#include <sim/cluster_int.h>

#include <sim/call_more.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP_MAX_NS     (1000ULL * 3600 * ENV_S)
#define BURST_CALLS    10u
#define SIGMA_AZURE    ((236 * Q24_ONE) / 100)
#define SIGMA_CALLS    (Q24_ONE / 2)
#define SIGMA_POPULAR  ((36 * Q24_ONE) / 10)
#define SIGMA_MEMORY   ((6 * Q24_ONE) / 10)
#define SERVICE_MIN_NS 1000
#define SERVICE_MAX_NS (300 * ENV_S)
#define MIB            (1024ULL * 1024)

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static uint64_t clamp(uint64_t v, uint64_t low, uint64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* ---- functions ------------------------------------------------------------------------------- */

static uint64_t weight_of(const struct scenario_functions *o, struct sim_rng *r, uint32_t i)
{
    if (is(o->popularity, "zipf")) {
        /* (i + 1)^-s = 2^(-s log2(i + 1)) */
        return fixed_exp2(1ULL << 40, -(fixed_log2(i + 1) * o->skew) / 100) + 1;
    }
    if (is(o->popularity, "azure")) {
        return clamp(fixed_lognormal(r, 1ULL << 24, SIGMA_POPULAR), 1, 1ULL << 48);
    }
    return 1ULL << 24;
}

static void describe(struct cluster *c, struct function *f, uint32_t i, struct sim_rng *r)
{
    const struct scenario_functions *o = c->sc->functions;
    uint64_t runner_memory = (uint64_t)c->sc->runners->memory;

    /* As ids look: 26 characters of base 32, no two alike. */
    snprintf(f->id, sizeof(f->id), "01J%07u%016llX", i % 10000000,
             (unsigned long long)sim_rng_u64(r));
    f->cluster = c;
    f->weight = weight_of(o, r, i);
    f->memory = (uint64_t)o->memory;
    if (is(o->memory_shape, "azure")) {
        f->memory = clamp(fixed_lognormal(r, f->memory, SIGMA_MEMORY), 32 * MIB, 4096 * MIB);
        f->memory = f->memory < runner_memory ? f->memory : runner_memory;
    }
    f->median_ns = (uint64_t)o->duration_ns;
    if (is(o->duration_shape, "azure")) {
        f->median_ns = clamp(fixed_lognormal(r, f->median_ns, SIGMA_AZURE), ENV_MS,
                             (uint64_t)SERVICE_MAX_NS / 4);
    }
    f->view = (struct fn_call){ .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL),
                                .id = "01J00000000000000000000000",
                                .fn_id = f->id,
                                .app_id = "01J0000000000000000000000A",
                                .lb_group = FN_GROUP_DEFAULT,
                                .mem_mb = f->memory / MIB,
                                .deadline_ns = INT64_MAX };
}

static const char *in_turn(const struct fn_strlist *list, uint32_t i)
{
    return list->n ? list->items[i % list->n] : "";
}

uint64_t traffic_service_ns(struct cluster *c, const struct function *f)
{
    const struct scenario_functions *o = c->sc->functions;
    struct sim_rng *r = &c->rng_serve;
    uint64_t ns = f->median_ns;

    switch (o->duration_shape[0]) {
    case 'e':
        ns = fixed_exponential(r, ns);
        break;
    case 'l':
        ns = fixed_lognormal(r, ns, o->spread * Q24_ONE / 100);
        break;
    case 'a':
        ns = fixed_lognormal(r, ns, SIGMA_CALLS);
        break;
    default:
        break;
    }
    return clamp(ns, SERVICE_MIN_NS, SERVICE_MAX_NS);
}

/* Vose's alias method in integers: each column of 2^32 keeps its own function or gives another. */
static int alias_build(struct cluster *c)
{
    uint32_t n = c->n_functions;
    uint64_t total = 0;
    uint64_t *share = calloc(n, sizeof(*share));
    uint32_t *small = calloc(n, sizeof(*small));
    uint32_t *large = calloc(n, sizeof(*large));
    uint32_t n_small = 0, n_large = 0;

    for (uint32_t i = 0; i < n; i++) {
        total += c->functions[i].weight;
    }
    for (uint32_t i = 0; share && small && large && i < n; i++) {
        share[i] = fixed_mul_div(c->functions[i].weight, (uint64_t)n << 32, total);
        c->functions[i].keep = 1ULL << 32;
        c->functions[i].other = i;
        *(share[i] < 1ULL << 32 ? &small[n_small++] : &large[n_large++]) = i;
    }
    while (n_small > 0 && n_large > 0) {
        uint32_t s = small[--n_small];
        uint32_t l = large[n_large - 1];

        c->functions[s].keep = share[s];
        c->functions[s].other = l;
        share[l] -= (1ULL << 32) - share[s];
        if (share[l] < 1ULL << 32) {
            n_large--;
            small[n_small++] = l;
        }
    }
    n = share && small && large ? 1 : 0;
    free(share);
    free(small);
    free(large);
    return n ? 0 : FN_E_EXHAUSTED;
}

static uint32_t draw_function(struct cluster *c)
{
    uint64_t u = sim_rng_u64(&c->rng_arrive);
    uint32_t i = (uint32_t)(((u >> 32) * c->n_functions) >> 32);

    return (u & 0xffffffffu) < c->functions[i].keep ? i : c->functions[i].other;
}

/* ---- one stream ------------------------------------------------------------------------------ */

static bool ended(struct cluster *c)
{
    int64_t max = c->sc->top->calls_max;

    if (c->over) {
        return true;
    }
    c->over = c->sim->now_ns >= c->start_ns + c->sc->top->duration_ns ||
              (max > 0 && c->arrived >= (uint64_t)max);
    return c->over;
}

/* Permille of the mean rate at this time. */
static uint64_t intensity(const struct cluster *c)
{
    const struct scenario_arrivals *o = c->sc->arrivals;
    int64_t t = c->sim->now_ns - c->start_ns;
    int64_t half, up;

    if (o->shape[0] == 'b') {
        if (t % o->burst_every_ns >= o->burst_every_ns - o->burst_length_ns) {
            return (uint64_t)o->burst_factor * 1000;
        }
        half = (o->burst_every_ns - o->burst_length_ns * o->burst_factor) * 1000 /
               (o->burst_every_ns - o->burst_length_ns + 1);
        return half > 1 ? (uint64_t)half : 1;
    }
    if (o->shape[0] == 'd') { /* a triangle from low to twice the mean minus low */
        half = o->period_ns / 2;
        t %= o->period_ns;
        up = t < half ? t : o->period_ns - t;
        up = o->low * 10 + (2000 - 20 * o->low) * up / half;
        return up > 1 ? (uint64_t)up : 1;
    }
    return 1000;
}

static void stream_next(struct cluster *c)
{
    uint64_t mean = c->gap_q10;

    if (c->sc->arrivals->shape[0] == 'b' || c->sc->arrivals->shape[0] == 'd') {
        mean = mean * 1000 / intensity(c);
    }
    if (c->sc->arrivals->shape[0] != 'c') {
        mean = fixed_exponential(&c->rng_arrive, mean);
    }
    c->next_q10 += mean;
    sim_at(c->sim, &c->arrival, c->start_ns + (int64_t)(c->next_q10 >> 10));
}

static void on_arrival(struct env_timer *t)
{
    struct cluster *c = container_of(t, struct cluster, arrival);

    if (!ended(c)) {
        c->arrived++;
        stream_next(c);
        call_arrive(c, draw_function(c));
    }
}

/* ---- shape azure: a process per function
 * ------------------------------------------------------ */

static void process_next(struct function *f, uint64_t gap_ns)
{
    struct cluster *c = f->cluster;

    sim_at(c->sim, &f->timer, c->sim->now_ns + (int64_t)clamp(gap_ns, 1, GAP_MAX_NS));
}

static void on_process(struct env_timer *t)
{
    struct function *f = container_of(t, struct function, timer);
    struct cluster *c = f->cluster;
    struct sim_rng *r = &c->rng_arrive;

    if (ended(c)) {
        return;
    }
    c->arrived++;
    if (f->kind == ARRIVE_TIMER) {
        process_next(f, f->gap_ns);
    } else if (f->kind == ARRIVE_POISSON) {
        process_next(f, fixed_exponential(r, f->gap_ns));
    } else if (f->left > 0) {
        f->left--;
        process_next(f, fixed_exponential(r, f->gap_ns / 20));
    } else {
        f->left = fixed_exponential(r, BURST_CALLS - 1);
        process_next(f, fixed_exponential(r, f->gap_ns * (BURST_CALLS - 1)));
    }
    call_arrive(c, (uint32_t)(f - c->functions));
}

static void processes_start(struct cluster *c)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < c->n_functions; i++) {
        total += c->functions[i].weight;
    }
    for (uint32_t i = 0; i < c->n_functions; i++) {
        struct function *f = &c->functions[i];
        uint64_t per_call = fixed_mul_div(ENV_S, total, f->weight); /* at one call a second */

        f->gap_ns = clamp(per_call / (uint64_t)c->sc->arrivals->rate, 1, GAP_MAX_NS);
        f->kind = (enum arrival_kind)sim_rng_below(&c->rng_arrive, 3);
        f->timer.cb = on_process;
        process_next(f, sim_rng_below(&c->rng_arrive, f->gap_ns * 2));
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_end(struct env_timer *t)
{
    container_of(t, struct cluster, end)->over = true;
}

int traffic_create(struct cluster *c)
{
    const struct scenario_functions *o = c->sc->functions;
    struct sim_rng r = sim_rng_make(c->o->seed, 10);

    fixed_init();
    arena_init(&c->mores, 0);
    c->rng_arrive = sim_rng_make(c->o->seed, 11);
    c->rng_serve = sim_rng_make(c->o->seed, 12);
    c->n_functions = (uint32_t)c->sc->functions->count;
    c->functions = calloc(c->n_functions, sizeof(*c->functions));
    if (!c->functions) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < c->n_functions; i++) {
        describe(c, &c->functions[i], i, &r);
        if (call_more_make(&c->mores, &c->functions[i].view, in_turn(&o->config, i),
                           in_turn(&o->annotations, i)) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    c->gap_q10 = ((uint64_t)ENV_S << 10) / (uint64_t)c->sc->arrivals->rate;
    return alias_build(c);
}

void traffic_start(struct cluster *c)
{
    c->end.cb = on_end;
    sim_at(c->sim, &c->end, c->start_ns + c->sc->top->duration_ns);
    if (is(c->sc->arrivals->shape, "azure")) {
        processes_start(c);
    } else {
        c->arrival.cb = on_arrival;
        stream_next(c);
    }
}

void traffic_destroy(struct cluster *c)
{
    arena_finish(&c->mores);
    free(c->functions);
}
