/* A cloud behind the control plane's table: machines that boot, run a runner's process, and go when
 * they are told to or by themselves. Methods run on the fibres of the manager's lanes. What it was
 * asked for it may do although it says that it failed. */
#include "world.h"

#include <base/err.h>
#include <conf/conf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_KEPT 64u
#define GONE_NS       (4 * ENV_S) /* for which it lists what is gone */
#define GOES_NS       (500 * ENV_MS)
#define BOOT_MIN_NS   (300 * ENV_MS)
#define BOOT_MORE_NS  (3 * ENV_S)
#define ANSWER_NS     (200 * ENV_MS)
#define STILLBORN_ONE_IN 25u

enum machine_state { MACHINE_NONE, MACHINE_BOOTS, MACHINE_RUNS, MACHINE_GOES, MACHINE_GONE };

struct machine {
    struct cloud *of;
    enum machine_state state;
    char id[16], address[32];
    struct env_timer timer; /* of the world */
};

struct cloud {
    struct world *w;
    struct sim_rng rng;
    struct machine machines[RUNNERS_MAX];
    uint32_t made;
    struct {
        uint64_t id;
        uint32_t accepted;
    } requests[REQUESTS_KEPT];
    uint32_t n_requests;
    int64_t hung_until_ns;
    uint32_t fails;
};

/* The instance: one of a manager's process. */
struct cloud_cplane_inst {
    struct node *npm;
};

static struct cloud *cloud_of(void *inst)
{
    return ((struct cloud_cplane_inst *)inst)->npm->w->cloud;
}

static uint32_t cloud_index(const struct machine *m)
{
    return (uint32_t)(m - m->of->machines);
}

static bool exists(const struct machine *m)
{
    return m->state != MACHINE_NONE && m->state != MACHINE_GONE;
}

uint32_t cloud_count(const struct cloud *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < RUNNERS_MAX; i++) {
        n += exists(&c->machines[i]);
    }
    return n;
}

bool cloud_runs(const struct cloud *c, uint32_t runner)
{
    return c->machines[runner].state == MACHINE_RUNS;
}

/* ---- machines ------------------------------------------------------------------------------ */

static void machine_enter(struct machine *m, enum machine_state state, int64_t for_ns)
{
    struct world *w = m->of->w;

    m->state = state;
    if (for_ns > 0) {
        sim_at(w->outside, &m->timer, w->now_ns + for_ns);
    }
}

static void machine_end(struct machine *m)
{
    struct world *w = m->of->w;
    struct runner_node *r = w->runners[cloud_index(m)];

    if (w->told) {
        world_tell(w, NULL, "machine %s goes", m->id);
    }
    if (r) {
        r->n.frozen_until_ns = w->now_ns;
        world_at(&r->n, &r->kill, w->now_ns);
    }
    machine_enter(m, MACHINE_GOES, GOES_NS);
}

static void on_machine(struct env_timer *t)
{
    struct machine *m = container_of(t, struct machine, timer);

    switch (m->state) {
    case MACHINE_BOOTS:
        if (sim_rng_below(&m->of->rng, STILLBORN_ONE_IN) == 0 && !m->of->w->healed) {
            machine_enter(m, MACHINE_GONE, GONE_NS);
        } else {
            machine_enter(m, MACHINE_RUNS, 0);
            runner_node_create(m->of->w, cloud_index(m));
        }
        break;
    case MACHINE_GOES:
        machine_enter(m, MACHINE_GONE, GONE_NS);
        break;
    default:
        m->state = MACHINE_NONE;
    }
}

static bool machine_begin(struct cloud *c)
{
    for (uint32_t i = 0; i < RUNNERS_MAX; i++) {
        struct machine *m = &c->machines[i];

        if (m->state == MACHINE_NONE && !c->w->runners[i]) {
            snprintf(m->id, sizeof(m->id), "m%u", ++c->made);
            machine_enter(m, MACHINE_BOOTS,
                          BOOT_MIN_NS + (int64_t)sim_rng_below(&c->rng, BOOT_MORE_NS));
            return true;
        }
    }
    return false;
}

/* ---- the control plane's table --------------------------------------------------------------- */

static int broken_off(struct fn_error *err, int r)
{
    return err_set(err, r, "cloud: no answer in time");
}

static int cloud_meet(struct cloud *c, struct fn_op *op, struct fn_error *err)
{
    int r = 0;

    while (r == 0 && c->w->now_ns < c->hung_until_ns) {
        r = sim_op_pause(op, c->hung_until_ns - c->w->now_ns);
    }
    if (r == 0) {
        r = sim_op_pause(op, (int64_t)sim_rng_below(&c->rng, ANSWER_NS));
    }
    return r < 0 ? broken_off(err, r) : 0;
}

/* Before it does anything, or behind it. */
static bool fails_now(struct cloud *c)
{
    bool now = c->fails > 0 && sim_rng_below(&c->rng, 2) == 0;

    c->fails -= now;
    return now;
}

static int refuse(struct fn_error *err)
{
    return err_set(err, FN_E_UNAVAILABLE, "cloud: it fails");
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *err)
{
    struct cloud *c = cloud_of(inst);
    int r = cloud_meet(c, op, err);

    (void)group;
    if (r == 0 && fails_now(c)) {
        return refuse(err);
    }
    for (uint32_t i = 0; r == 0 && i < RUNNERS_MAX; i++) {
        struct machine *m = &c->machines[i];
        struct fn_machine told = {
            .size = sizeof(told),
            .state = m->state == MACHINE_BOOTS   ? FN_MACHINE_STARTING
                     : m->state == MACHINE_GONE ? FN_MACHINE_GONE
                                                : FN_MACHINE_READY,
            .id = m->id,
            .address = m->state == MACHINE_BOOTS ? NULL : m->address,
            .capacity_mb = c->w->plan->runner_mem_mb,
        };

        if (m->state != MACHINE_NONE) {
            r = out->add(out->ud, &told);
        }
    }
    return r;
}

static void check_size(struct cloud *c)
{
    uint32_t n = cloud_count(c);

    if (n > c->w->plan->runners) {
        books_break(c->w->books, BOOKS_SIZE, 0, "there are %u machines; expected at most %u", n,
                    c->w->plan->runners);
    }
}

/* What a request with this id brought; it is done only once. */
static uint32_t take_request(struct cloud *c, uint64_t id, uint32_t n)
{
    uint32_t accepted = 0;

    for (uint32_t i = 0; i < REQUESTS_KEPT; i++) {
        if (c->requests[i].id == id) {
            return c->requests[i].accepted;
        }
    }
    while (accepted < n && machine_begin(c)) {
        accepted++;
    }
    c->requests[c->n_requests % REQUESTS_KEPT].id = id;
    c->requests[c->n_requests++ % REQUESTS_KEPT].accepted = accepted;
    check_size(c);
    return accepted;
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *err)
{
    struct node *npm = ((struct cloud_cplane_inst *)inst)->npm;
    struct cloud *c = cloud_of(inst);
    int r = cloud_meet(c, op, err);

    (void)group;
    if (r < 0 || npm->dead) {
        return r; /* nobody hears a dead process */
    }
    if (fails_now(c)) {
        return refuse(err);
    }
    tell(npm, "asks for %u machines", n);
    *ret_accepted = take_request(c, request_id, n);
    return fails_now(c) ? refuse(err) : 0;
}

/* A manager removes what says that it is empty. Who has not heard of the drain may call it. */
static void check_removal(struct cloud *c, const struct machine *m)
{
    struct runner_node *r = c->w->runners[cloud_index(m)];
    struct runner_counts n;

    if (!r || m->state != MACHINE_RUNS || c->w->now_ns < c->w->unsure_until_ns) {
        return;
    }
    runner_count(r->r, &n);
    if (n.in_flight > 0) {
        books_break(c->w->books, BOOKS_SPARED, 0, "%s is removed with %llu calls on it", r->n.name,
                    (unsigned long long)n.in_flight);
    }
}

static int remove_(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                   struct fn_error *err)
{
    struct node *npm = ((struct cloud_cplane_inst *)inst)->npm;
    struct cloud *c = cloud_of(inst);
    int r = cloud_meet(c, op, err);

    (void)group;
    if (r < 0 || npm->dead) {
        return r;
    }
    if (fails_now(c)) {
        return refuse(err);
    }
    for (uint32_t i = 0; i < RUNNERS_MAX; i++) {
        struct machine *m = &c->machines[i];

        if (strcmp(m->id, machine_id) == 0 && exists(m) && m->state != MACHINE_GOES) {
            tell(npm, "removes machine %s, runner%u", m->id, i);
            check_removal(c, m);
            machine_end(m);
        }
    }
    return fails_now(c) ? refuse(err) : 0;
}

static const struct fn_cplane_ops ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = list,
    .provision = provision,
    .remove = remove_,
};

static int cplane_create(const struct fn_host *host, const void *conf, void **ret_inst,
                         struct fn_error *err)
{
    struct cloud_cplane_inst *i = sim_alloc(sizeof(*i));

    (void)host;
    (void)err;
    memcpy(&i->npm, conf, sizeof(i->npm));
    *ret_inst = i;
    return 0;
}

const struct fn_factory cloud_cplane = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE,
    .name = "sim",
    .kind_major = FN_CPLANE_MAJOR,
    .kind_minor = FN_CPLANE_MINOR,
    .conf_size = sizeof(struct node *),
    .ops = &ops,
    .create = cplane_create,
    .destroy = free,
};

/* ---- faults, life -------------------------------------------------------------------------- */

void cloud_fail(struct cloud *c, uint32_t times)
{
    c->fails = times;
}

void cloud_hang(struct cloud *c, int64_t until_ns)
{
    c->hung_until_ns = until_ns;
}

void cloud_lose(struct cloud *c, uint32_t runner)
{
    if (cloud_runs(c, runner)) {
        machine_end(&c->machines[runner]);
    }
}

void cloud_heal(struct cloud *c)
{
    c->fails = 0;
    c->hung_until_ns = 0;
}

struct cloud *cloud_create(struct world *w)
{
    struct cloud *c = sim_alloc(sizeof(*c));

    c->w = w;
    c->rng = sim_rng_make(w->plan->seed, 105);
    for (uint32_t i = 0; i < RUNNERS_MAX; i++) {
        c->machines[i].of = c;
        c->machines[i].timer.cb = on_machine;
        snprintf(c->machines[i].address, sizeof(c->machines[i].address), "10.0.1.%u:9190", i);
    }
    return c;
}

void cloud_destroy(struct cloud *c)
{
    free(c);
}
