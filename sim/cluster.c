/* One run: load balancers, the life of a call, the result.
 *
 * A call is asked about (core/place), sent (network.delay), offered to its runner (fleet.c), runs,
 * and ends; a refusal travels back and the placer is asked again. What the load balancer hears of
 * the end of a call it hears at once: the way back is counted in the times, not played. */
#include <sim/cluster_int.h>

#include <model/view.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls ----------------------------------------------------------------------------------- */

static void slab_add(struct cluster *c)
{
    struct call *slab = calloc(SLAB_CALLS, sizeof(*slab));
    struct call **slabs = realloc(c->slabs, (c->n_slabs + 1) * sizeof(struct call *));

    if (!slab || !slabs) {
        abort();
    }
    c->slabs = slabs;
    c->slabs[c->n_slabs++] = slab;
    for (uint32_t i = SLAB_CALLS; i-- > 0;) {
        TAILQ_INSERT_HEAD(&c->free_calls, &slab[i], link);
    }
}

static void call_free(struct call *call)
{
    struct cluster *c = call->cluster;

    call->state = CALL_FREE;
    c->active--;
    TAILQ_INSERT_HEAD(&c->free_calls, call, link);
}

static bool counted(const struct call *call)
{
    return call->arrived_ns >= call->cluster->counted_ns;
}

static void on_reach(struct env_timer *t);
static void call_step(struct call *call);

static void on_wake(struct place_call *pc)
{
    call_step(container_of(pc, struct call, pc));
}

static void give_up(struct call *call)
{
    struct cluster *c = call->cluster;

    c->r->refused += counted(call);
    c->r->bad_answers += call->pc.error.blame == FN_BLAME_PLUGIN;
    sim_record(c->sim, CLUSTER_ENDED, call->function, (uint64_t)(int64_t)call->pc.error.code);
    place_leave(&call->pc);
    call_free(call);
}

/* Decisions are free for the plugin's own clock; what they cost delays the call that they are for
 * and those behind it. */
static int64_t charge(struct lb *lb, uint32_t decisions)
{
    int64_t now_ns = lb->cluster->sim->now_ns;
    int64_t cost_ns = lb->cluster->sc->placement->decision_cost_ns;

    if (lb->busy_until_ns < now_ns) {
        lb->busy_until_ns = now_ns;
    }
    lb->busy_until_ns += cost_ns * decisions;
    return lb->busy_until_ns - now_ns;
}

static void call_step(struct call *call)
{
    struct cluster *c = call->cluster;
    uint32_t before = call->pc.attempts;
    enum place_verdict v = place_next(&call->pc);
    uint32_t tries = call->pc.attempts - before;
    int64_t late_ns = charge(call->lb, tries + (v != PLACE_TRY));

    c->r->decisions += tries + (v != PLACE_TRY);
    if (counted(call)) {
        c->r->attempts += tries;
        c->r->unreachable += tries - (v == PLACE_TRY);
    }
    switch (v) {
    case PLACE_TRY:
        call->runner = call->pc.link->runner;
        call->state = CALL_REACHING;
        call->timer.cb = on_reach;
        sim_record(c->sim, CLUSTER_TRY, call->function, call->runner);
        sim_at(c->sim, &call->timer, c->sim->now_ns + late_ns + c->sc->network->delay_ns);
        return;
    case PLACE_PARKED:
        call->state = CALL_PLACING;
        return;
    case PLACE_GIVE_UP:
        give_up(call);
        return;
    }
}

static void on_refused(struct env_timer *t)
{
    struct call *call = container_of(t, struct call, timer);
    struct cluster *c = call->cluster;
    bool busy = call->why == FN_WHY_BUSY;

    if (counted(call)) {
        c->r->busy += busy;
        c->r->unreachable += !busy;
    }
    call->state = CALL_PLACING;
    place_refused(&call->pc, call->why, busy ? FN_E_EXHAUSTED : FN_E_UNAVAILABLE);
    call_step(call);
}

static void refuse(struct call *call, uint32_t why)
{
    struct cluster *c = call->cluster;

    call->why = why;
    call->state = CALL_REFUSED;
    call->timer.cb = on_refused;
    sim_at(c->sim, &call->timer, c->sim->now_ns + c->sc->network->delay_ns);
}

static void on_reach(struct env_timer *t)
{
    struct call *call = container_of(t, struct call, timer);
    struct cluster *c = call->cluster;
    struct runner *r = &c->runners[call->runner];

    if (!r->alive && r->silent) {
        /* Bytes went into the void: no proof that nothing ran. */
        call_lose(call, r->dead_ns + c->sc->network->detect_ns);
    } else if (!r->alive) {
        refuse(call, FN_WHY_UNREACHABLE);
    } else if (!fleet_offer(c, call)) {
        refuse(call, FN_WHY_BUSY);
    }
}

static void on_lost(struct env_timer *t)
{
    struct call *call = container_of(t, struct call, timer);
    struct cluster *c = call->cluster;

    c->r->lost += counted(call);
    sim_record(c->sim, CLUSTER_ENDED, call->function, 2);
    place_ended(&call->pc, FN_DONE_FAILED);
    call_free(call);
}

void call_lose(struct call *call, int64_t at_ns)
{
    call->state = CALL_LOST;
    call->timer.cb = on_lost;
    sim_at(call->cluster->sim, &call->timer, at_ns);
}

void call_finished(struct env_timer *t)
{
    struct call *call = container_of(t, struct call, timer);
    struct cluster *c = call->cluster;
    int64_t wait_ns = call->started_ns - call->arrived_ns;
    int64_t all_ns = c->sim->now_ns + c->sc->network->delay_ns - call->arrived_ns;

    c->r->placed_all++;
    if (counted(call)) {
        c->r->placed++;
        c->r->cold += call->cold;
        stats_add(c->wait, (uint64_t)wait_ns);
        stats_add(c->slowdown, fixed_mul_div((uint64_t)all_ns, 1000, (uint64_t)call->service_ns));
    }
    sim_record(c->sim, CLUSTER_ENDED, call->function, (uint64_t)wait_ns << 1);
    fleet_release(c, call);
    place_ended(&call->pc, FN_DONE_OK);
    call_free(call);
}

void call_arrive(struct cluster *c, uint32_t function)
{
    const struct function *f = &c->functions[function];
    uint64_t lb = c->n_lbs > 1 ? sim_rng_below(&c->rng_arrive, c->n_lbs) : 0;
    struct call *call;

    if (TAILQ_EMPTY(&c->free_calls)) {
        slab_add(c);
    }
    call = TAILQ_FIRST(&c->free_calls);
    TAILQ_REMOVE(&c->free_calls, call, link);
    memset(call, 0, offsetof(struct call, pc) + offsetof(struct place_call, session));
    call->cluster = c;
    call->lb = &c->lbs[lb];
    call->function = function;
    call->state = CALL_PLACING;
    call->arrived_ns = c->sim->now_ns;
    call->service_ns = (int64_t)traffic_service_ns(c, f);
    call->pc.view = f->view;
    call->pc.deadline_ns = c->sim->now_ns + c->sc->placement->timeout_ns;
    call->pc.on_wake = on_wake;
    c->active++;
    c->r->calls += counted(call);
    sim_record(c->sim, CLUSTER_ARRIVED, function, lb);
    place_begin(call->lb->place, &call->pc);
    call_step(call);
}

/* ---- plugins of a load balancer -------------------------------------------------------------- */

int sim_plugin_open(struct plugin_host *h, const char *path, struct plugin_file **ret,
                    struct buf *lines, struct fn_error *reterr)
{
    struct plugin_file *file = NULL;
    int r = plugin_file_check(h, path, NULL, &file, lines, reterr);

    if (r == 0 && (plugin_file_manifest(file)->flags & FN_PLUGIN_HAS_THREADS)) {
        r = err_set(reterr, FN_E_PRECONDITION,
                    "SIM101 %s: starts threads (FN_PLUGIN_HAS_THREADS); expected a plugin that "
                    "leaves threads to its host, since the simulated host has one",
                    path);
        if (lines) {
            buf_printf(lines, "%s\n", reterr ? reterr->msg : path);
        }
    }
    if (r == 0) {
        *ret = file;
    }
    return r;
}

struct choice {
    const char *use;
    const struct fn_factory *factory;
    uint32_t n;
};

static void choose(void *ud, const struct fn_factory *f)
{
    struct choice *x = ud;

    if (strcmp(f->kind, FN_KIND_PLACER) == 0 && (!x->use || strcmp(f->name, x->use) == 0)) {
        x->factory = x->factory ? x->factory : f;
        x->n++;
    }
}

static int find_placer(const struct plugin_file *file, const char *use,
                       const struct fn_factory **ret, struct fn_error *reterr)
{
    struct choice x = { .use = use };

    plugin_file_each(file, choose, &x);
    if (x.n != 1) {
        return err_set(reterr, x.n ? FN_E_INVALID : FN_E_NOT_FOUND,
                       "SIM102 %s: has %u placers%s%s; expected one%s", plugin_file_path(file), x.n,
                       use ? " named " : "", use ? use : "", x.n ? ", named by --use" : "");
    }
    *ret = x.factory;
    return 0;
}

/* conf_bind() leaves overrides of unknown keys to others. */
static void check_sets(const struct scenario *sc, const struct fn_factory *f,
                       struct conf_problems *p)
{
    for (const struct conf_override *set = sc->placer_overrides; set->key; set++) {
        const struct fn_opt *o = f->opts;

        while (o && o->key && strcmp(o->key, set->key) != 0) {
            o++;
        }
        if (!o || !o->key) {
            conf_problem(p, "CFG702", NULL, "%s: no such key; expected an option of placer %s",
                         set->where, f->name);
        }
    }
}

/* The innermost placers have their defaults; section `placer` is about the one that decides. */
static int open_plugin(struct lb *lb, const char *path, const char *use, bool outermost,
                       struct fn_error *reterr)
{
    const struct scenario *sc = lb->cluster->sc;
    const struct fn_factory *f = NULL;
    struct conf_values *values = NULL;
    struct plugin_file *file = NULL;
    struct buf lines = BUF_INIT(0);
    char name[64];
    int r = sim_plugin_open(lb->host, path, &file, &lines, reterr);

    if (r < 0) {
        conf_problem(lb->cluster->problems, NULL, NULL, "%s", reterr->msg);
    }
    buf_finish(&lines);
    r = r < 0 ? r : find_placer(file, use, &f, reterr);
    if (r < 0) {
        return r;
    }
    if (outermost) {
        check_sets(sc, f, lb->cluster->problems);
    }
    if (f->opts || f->conf_size > 0 || (outermost && sc->placer)) {
        snprintf(name, sizeof(name), "placer %s", f->name);
        r = conf_bind(sc->file, outermost ? sc->placer : NULL, name, f->opts, f->conf_size,
                      NULL, outermost ? sc->placer_overrides : NULL, &values,
                      lb->cluster->problems);
    }
    if (r < 0 || lb->cluster->problems->n > 0) {
        conf_values_destroy(values);
        return err_set(reterr, FN_E_INVALID, "the options of placer %s have problems", f->name);
    }
    r = plugin_create(lb->host, file, f, f->name, values, &lb->stack[lb->n_stack], reterr);
    if (r < 0) {
        return r;
    }
    snprintf(lb->cluster->r->name, sizeof(lb->cluster->r->name), "%s %s", f->name,
             plugin_file_manifest(file)->version);
    return place_stack_add(lb->place, lb->stack[lb->n_stack++], reterr);
}

int lb_open_plugins(struct lb *lb, struct fn_error *reterr)
{
    const struct cluster_options *o = lb->cluster->o;
    const struct scenario_placement *p = lb->cluster->sc->placement;
    struct place_deps deps = { .env = sim_env(lb->cluster->sim),
                               .client = &lb->client,
                               .options = { .retry_min_ns = p->retry_min_ns,
                                            .retry_max_ns = p->retry_max_ns,
                                            .waiting_max = (uint32_t)p->waiting_max,
                                            .pool_grace_ns = 10 * ENV_S } };
    int r = 0;

    lb->host = plugin_host_create(deps.env);
    if (!lb->host) {
        return err_set(reterr, FN_E_EXHAUSTED, "simulator: out of memory");
    }
    plugin_host_budget(lb->host, 0);
    plugin_host_offer(lb->host, "fn.view", FN_VIEW_MAJOR, FN_VIEW_MINOR, view_if(), NULL);
    deps.host = lb->host;
    r = place_create(&deps, &lb->place, reterr);
    if (r < 0) {
        return r;
    }
    place_stack_begin(lb->place);
    for (uint32_t i = 0; r == 0 && i < o->n_inner; i++) {
        r = open_plugin(lb, o->inner[i], NULL, false, reterr);
    }
    return r < 0 ? r : open_plugin(lb, o->path, o->use, true, reterr);
}

void lb_close_plugins(struct lb *lb)
{
    place_destroy(lb->place);
    while (lb->n_stack > 0) {
        plugin_destroy(lb->stack[--lb->n_stack]);
    }
    plugin_host_destroy(lb->host);
}

/* ---- one run --------------------------------------------------------------------------------- */

static int lbs_create(struct cluster *c, struct fn_error *reterr)
{
    uint32_t n = (uint32_t)c->sc->top->lbs;
    int r = 0;

    c->lbs = calloc(n, sizeof(*c->lbs));
    for (; c->lbs && r == 0 && c->n_lbs < n; c->n_lbs++) {
        struct lb *lb = &c->lbs[c->n_lbs];

        lb->cluster = c;
        lb->links = calloc(c->n_runners, sizeof(struct engage_link *));
        member_client(lb);
        r = lb->links ? lb_open_plugins(lb, reterr) : FN_E_EXHAUSTED;
        if (r == 0) {
            r = place_set_placer(lb->place, lb->stack[lb->n_stack - 1], NULL, NULL);
        }
    }
    return c->lbs ? r : FN_E_EXHAUSTED;
}

static void on_still(void *ud)
{
    const struct cluster *c = ud;

    if (c->o->still) {
        c->o->still(c->sim->now_ns - c->start_ns);
    }
}

static int create(struct cluster *c, struct fn_error *reterr)
{
    struct sim_options o = { .seed = c->o->seed, .still = on_still, .still_ud = c };
    int r;

    if (c->o->nasty) {
        o.nasty = sim_nasty_from_seed(c->o->seed);
    }
    c->sim = sim_create(&o);
    c->wait = calloc(1, sizeof(*c->wait));
    c->slowdown = calloc(1, sizeof(*c->slowdown));
    if (!c->sim || !c->wait || !c->slowdown) {
        return FN_E_EXHAUSTED;
    }
    TAILQ_INIT(&c->free_calls);
    c->start_ns = c->sim->now_ns;
    c->counted_ns = c->start_ns + c->sc->top->warm_up_ns;
    c->rng_fleet = sim_rng_make(c->o->seed, 13);
    c->rng_member = sim_rng_make(c->o->seed, 14);
    r = traffic_create(c);
    r = r < 0 ? r : fleet_create(c);
    r = r < 0 ? r : lbs_create(c, reterr);
    r = r < 0 ? r : homes_create(c, reterr);
    return r < 0 ? r : member_create(c);
}

static void destroy(struct cluster *c)
{
    homes_destroy(c);
    for (uint32_t i = 0; i < c->n_lbs; i++) {
        struct lb *lb = &c->lbs[i];

        env_timer_clear(sim_env(c->sim), &lb->publish_timer);
        lb_close_plugins(lb);
        free(lb->links);
        free(lb->list);
    }
    member_destroy(c);
    fleet_destroy(c);
    traffic_destroy(c);
    for (uint32_t i = 0; i < c->n_slabs; i++) {
        free(c->slabs[i]);
    }
    free(c->slabs);
    free(c->lbs);
    free(c->wait);
    free(c->slowdown);
    sim_destroy(c->sim);
}

static int64_t real_ns(const struct cluster *c)
{
    return c->o->real_ns ? c->o->real_ns() : 0;
}

static void run(struct cluster *c)
{
    int64_t middle_ns = c->start_ns + c->sc->top->duration_ns / 2;
    int64_t begun_ns;

    member_start(c);
    traffic_start(c);
    begun_ns = real_ns(c);
    c->homes_ns = 0;
    sim_run_until(c->sim, middle_ns);
    c->r->real_ns = real_ns(c) - begun_ns;
    homes_time(c);
    begun_ns = real_ns(c);
    while (!c->over || c->active > 0) {
        sim_step(c->sim);
    }
    c->r->real_ns += real_ns(c) - begun_ns - c->homes_ns;
}

static void conclude(struct cluster *c)
{
    struct cluster_result *r = c->r;

    r->wait_p50_ns = (int64_t)stats_quantile(c->wait, 500);
    r->wait_p99_ns = (int64_t)stats_quantile(c->wait, 990);
    r->slowdown_p50 = stats_quantile(c->slowdown, 500);
    r->slowdown_p99 = stats_quantile(c->slowdown, 990);
    for (uint32_t i = 0; i < c->n_runners; i++) {
        r->used += c->runners[i].used;
    }
    for (uint32_t i = 0; i < c->n_lbs && !r->first_bad[0]; i++) {
        const struct lb *lb = &c->lbs[i];

        snprintf(r->first_bad, sizeof(r->first_bad), "%s",
                 plugin_first_bad_answer(lb->stack[lb->n_stack - 1]));
    }
    r->events = sim_events(c->sim);
    r->hash = sim_hash(c->sim);
    r->ended_ns = c->sim->now_ns - c->start_ns;
}

int cluster_run(const struct scenario *sc, const struct cluster_options *o,
                struct cluster_result *ret, struct conf_problems *p, struct fn_error *reterr)
{
    struct cluster c = { .sc = sc, .o = o, .r = ret, .problems = p };
    struct fn_error e = ERR_INIT;
    int r;

    *ret = (struct cluster_result){ 0 };
    reterr = reterr ? reterr : &e;
    r = create(&c, reterr);
    if (r == 0) {
        run(&c);
        conclude(&c);
    } else if (!reterr->code) {
        err_set(reterr, r, "simulator: %s", r == FN_E_EXHAUSTED ? "out of memory" : err_name(r));
    }
    destroy(&c);
    return r;
}
