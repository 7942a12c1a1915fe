/* Virtual time: timers, a queue of tasks, one clock that moves between callbacks.
 *
 * A timer's place among them is (when it fires, tie). `when` is the asked time, made later by what
 * the seed says; `tie` is a counter, or chance where equal deadlines are shuffled. Both are decided
 * when the timer is set, so that order depends on nothing but the order of calls. */
#include <sim/sim_int.h>

#include <assert.h>
#include <stdlib.h>

#define START_NOW_NS  (1000 * ENV_S)
#define START_WALL_NS 1795234644501000000LL

static struct sim *of(struct env *e)
{
    return (struct sim *)(void *)e;
}

/* ---- chance and trace ------------------------------------------------------------------------ */

uint64_t sim_rng_u64(struct sim_rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct sim_rng sim_rng_make(uint64_t seed, uint64_t stream)
{
    struct sim_rng r = { seed ^ (stream * 0xd1342543de82ef95u) };

    r.state = sim_rng_u64(&r);
    return r;
}

uint64_t sim_rng_below(struct sim_rng *r, uint64_t n)
{
    /* The high half of a 64 x 64 product: no division, bias below 2^-40 for the n in use. */
    return (uint64_t)(((unsigned __int128)sim_rng_u64(r) * n) >> 64);
}

static inline void mix(struct sim *s, uint64_t word)
{
    uint64_t h = (s->hash ^ word) * 0x9fb21c651e98df25u;

    s->hash = h ^ (h >> 32);
}

void sim_record(struct sim *s, uint32_t what, uint64_t a, uint64_t b)
{
    mix(s, (uint64_t)s->now_ns);
    mix(s, ((uint64_t)what << 56) ^ a);
    mix(s, b);
}

uint64_t sim_hash(const struct sim *s)
{
    return s->hash;
}

uint64_t sim_events(const struct sim *s)
{
    return s->events;
}

struct sim_nasty sim_nasty_from_seed(uint64_t seed)
{
    struct sim_rng r = sim_rng_make(seed, 1);
    static const int64_t late_ns[] = { 0, ENV_MS, 200 * ENV_MS };
    static const int64_t batch_ns[] = { 0, ENV_MS, 50 * ENV_MS };
    static const uint32_t jump_one_in[] = { 0, 1000, 20 };
    static const uint32_t refuse_one_in[] = { 0, 100, 5 };
    static const int64_t start_ns[] = { 0, 10 * ENV_MS, 3 * ENV_S };

    return (struct sim_nasty){ .late_max_ns = late_ns[sim_rng_below(&r, 3)],
                               .batch_ns = batch_ns[sim_rng_below(&r, 3)],
                               .jump_one_in = jump_one_in[sim_rng_below(&r, 3)],
                               .jump_max_ns = 10 * ENV_S,
                               .refuse_one_in = refuse_one_in[sim_rng_below(&r, 3)],
                               .start_max_ns = start_ns[sim_rng_below(&r, 3)],
                               .shuffle = sim_rng_below(&r, 2) };
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void timer_clear(struct env *e, struct env_timer *t)
{
    timers_clear(&of(e)->timers, t);
}

static void insert(struct sim *s, struct env_timer *t, int64_t fire_ns, uint64_t tie)
{
    bool room;

    assert(t->cb);
    sim_outside_begin();
    room = timers_make_room(&s->timers);
    sim_outside_end();
    if (!room) {
        abort();
    }
    timers_set(&s->timers, t, fire_ns, tie);
}

void sim_at(struct sim *s, struct env_timer *t, int64_t at_ns)
{
    t->at_ns = at_ns;
    insert(s, t, at_ns > s->now_ns ? at_ns : s->now_ns, ++s->tie);
}

static void timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    struct sim *s = of(e);
    const struct sim_nasty *n = &s->nasty;
    int64_t fire_ns = at_ns > s->now_ns ? at_ns : s->now_ns;
    uint64_t tie = ++s->tie;

    if (n->late_max_ns > 0 && fire_ns < INT64_MAX - n->late_max_ns) {
        fire_ns += (int64_t)sim_rng_below(&s->sched_rng, (uint64_t)n->late_max_ns + 1);
    }
    if (n->batch_ns > 0 && fire_ns < INT64_MAX - n->batch_ns) {
        fire_ns = (fire_ns + n->batch_ns - 1) / n->batch_ns * n->batch_ns;
    }
    if (n->shuffle) {
        tie = sim_rng_u64(&s->sched_rng);
    }
    t->at_ns = at_ns;
    insert(s, t, fire_ns, tie);
}

/* ---- the rest of the table ------------------------------------------------------------------- */

static int64_t now_ns(struct env *e)
{
    return of(e)->now_ns;
}

static int64_t wall_ns(struct env *e)
{
    return of(e)->wall_ns;
}

static uint64_t random_u64(struct env *e)
{
    return sim_rng_u64(&of(e)->core_rng);
}

static void defer(struct env *e, struct env_task *t)
{
    assert(t->cb);
    if (!t->queued) {
        t->queued = true;
        TAILQ_INSERT_TAIL(&of(e)->tasks, t, link);
    }
}

static void undefer(struct env *e, struct env_task *t)
{
    if (t->queued) {
        t->queued = false;
        TAILQ_REMOVE(&of(e)->tasks, t, link);
    }
}

static void enter(struct env *e)
{
    (void)e;
}

/* Called by a fibre: the tasks that its visit left run before it goes on, as the host's doing. */
static void leave(struct env *e)
{
    struct plugin_crumb *c = plugin_crumb_swap(NULL);

    sim_settle(of(e));
    plugin_crumb_swap(c);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void count_event(struct sim *s)
{
    s->events++;
    if (s->now_ns - s->still_ns >= SIM_STILL_NS) {
        s->still_ns = s->now_ns;
        s->still_events = s->events;
    } else if (s->events - s->still_events > SIM_STILL_EVENTS) {
        if (s->still) {
            s->still(s->still_ud);
        }
        abort();
    }
}

void sim_settle(struct sim *s)
{
    struct env_task *t;

    while ((t = TAILQ_FIRST(&s->tasks))) {
        TAILQ_REMOVE(&s->tasks, t, link);
        t->queued = false;
        count_event(s);
        t->cb(t);
    }
}

static void move_clock(struct sim *s, int64_t to_ns)
{
    if (to_ns > s->now_ns) {
        s->wall_ns += to_ns - s->now_ns;
        s->now_ns = to_ns;
    }
}

void sim_jump(struct sim *s, int64_t ns)
{
    assert(ns >= 0);
    move_clock(s, s->now_ns + ns);
}

void sim_set_wall(struct sim *s, int64_t by_ns)
{
    s->wall_ns += by_ns;
}

static void fire(struct sim *s)
{
    const struct sim_nasty *n = &s->nasty;
    struct timer_due d = *timers_first(&s->timers);

    timer_clear(&s->env, d.timer);
    move_clock(s, d.at_ns);
    if (n->jump_one_in > 0 && sim_rng_below(&s->sched_rng, n->jump_one_in) == 0) {
        sim_jump(s, (int64_t)sim_rng_below(&s->sched_rng, (uint64_t)n->jump_max_ns + 1));
    }
    count_event(s);
    mix(s, (uint64_t)s->now_ns);
    mix(s, ((uint64_t)SIM_TIMER << 56) ^ d.tie);
    d.timer->cb(d.timer);
    sim_settle(s);
}

bool sim_step(struct sim *s)
{
    bool tasks = !TAILQ_EMPTY(&s->tasks);

    assert(!s->running);
    sim_settle(s);
    if (!timers_first(&s->timers)) {
        return tasks;
    }
    fire(s);
    return true;
}

void sim_run_until(struct sim *s, int64_t at_ns)
{
    const struct timer_due *first;

    sim_settle(s);
    while ((first = timers_first(&s->timers)) && first->at_ns <= at_ns) {
        fire(s);
    }
    move_clock(s, at_ns);
}

bool sim_run(struct sim *s, uint64_t events)
{
    uint64_t end = s->events + events;

    while (events == 0 || s->events < end) {
        if (!sim_step(s)) {
            return true;
        }
    }
    return false;
}

int64_t sim_due_ns(const struct sim *s)
{
    const struct timer_due *first = timers_first(&s->timers);

    return !TAILQ_EMPTY(&s->tasks) ? s->now_ns : first ? first->at_ns : INT64_MAX;
}

int64_t sim_now_ns(const struct sim *s)
{
    return s->now_ns;
}

struct env *sim_env(struct sim *s)
{
    return &s->env;
}

struct sim *sim_create(const struct sim_options *o)
{
    struct sim *s = calloc(1, sizeof(*s));

    if (!s) {
        return NULL;
    }
    s->env = (struct env){ now_ns, wall_ns, random_u64, timer_set, timer_clear, defer, undefer,
                           sim_lanes_submit, sim_lanes_cancel, enter, leave };
    s->now_ns = START_NOW_NS;
    s->wall_ns = START_WALL_NS;
    s->nasty = o->nasty;
    s->still = o->still;
    s->still_ud = o->still_ud;
    s->core_rng = sim_rng_make(o->seed, 2);
    s->sched_rng = sim_rng_make(o->seed, 3);
    s->hash = o->seed;
    TAILQ_INIT(&s->tasks);
    LIST_INIT(&s->fibres);
    LIST_INIT(&s->spare);
    sim_lanes_init(s);
    if (sim_script_init(s) < 0) {
        free(s);
        return NULL;
    }
    return s;
}

void sim_destroy(struct sim *s)
{
    if (!s) {
        return;
    }
    sim_script_finish(s);
    fibres_destroy(s);
    sim_lanes_finish(s);
    timers_finish(&s->timers);
    free(s);
}
