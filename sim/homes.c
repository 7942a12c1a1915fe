/* Homes: the runner that an idle cluster gives to a function, before and after a change of
 * membership.
 *
 * A placer that keeps functions at their warm containers has homes; when one runner goes, only its
 * own functions should move. The others that move are collateral: each of them starts cold for
 * nothing. Asked of instances of their own, so that looking changes neither the chance nor the
 * memory of the placer that decides. */
#include <sim/cluster_int.h>

#include <stdlib.h>
#include <string.h>

#define ASKS        4u /* a function whose answers differ has no home */
#define TIMED       20000u
#define TIMED_BATCH 500u

/* A list as a placer sees it. */
struct view {
    struct fn_snapshot snap;
    uint32_t *inflight;
    uint64_t inflight_total;
};

static struct plugin *placer(const struct cluster *c)
{
    return c->probe.stack[c->probe.n_stack - 1];
}

static void view_open(struct cluster *c, struct view *v, const struct fn_runner *list, uint32_t n)
{
    const struct fn_placer_ops *ops = plugin_ops(placer(c));
    struct plugin_crumb crumb;
    void *index = NULL;

    *v = (struct view){ .snap = { .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                  .epoch = ++c->views,
                                  .made_ns = c->sim->now_ns,
                                  .n = n,
                                  .stride = sizeof(*list),
                                  .group = FN_GROUP_DEFAULT,
                                  .runners = list } };
    v->inflight = calloc(n + 1, sizeof(*v->inflight));
    if (!v->inflight) {
        abort();
    }
    if (ops->index_build) {
        plugin_enter(&crumb, placer(c), PLUGIN_LOOP, "index_build");
        if (ops->index_build(plugin_inst(placer(c)), &v->snap, &index) == 0) {
            v->snap.index = index;
        }
        plugin_leave(&crumb);
    }
}

static void view_close(struct cluster *c, struct view *v)
{
    const struct fn_placer_ops *ops = plugin_ops(placer(c));
    struct plugin_crumb crumb;

    if (v->snap.index) {
        plugin_enter(&crumb, placer(c), PLUGIN_LOOP, "index_free");
        ops->index_free(plugin_inst(placer(c)), (void *)(uintptr_t)v->snap.index);
        plugin_leave(&crumb);
    }
    free(v->inflight);
}

/* Index of the runner that it names first, or UINT32_MAX. */
static uint32_t ask(struct cluster *c, const struct view *v, const struct fn_call *call)
{
    const struct fn_placer_ops *ops = plugin_ops(placer(c));
    _Alignas(16) unsigned char session[FN_PLACER_SESSION_MAX];
    struct fn_answer answer = { .size = sizeof(answer) };
    struct fn_ask a = { .size = sizeof(a),
                        .why = FN_WHY_START,
                        .now_ns = c->sim->now_ns,
                        .deadline_ns = c->sim->now_ns + c->sc->placement->timeout_ns,
                        .call = call,
                        .snap = &v->snap,
                        .inflight = v->inflight,
                        .session = session,
                        .inflight_total = v->inflight_total };
    struct plugin_crumb crumb;
    int r;

    memset(session, 0, ops->session_size);
    plugin_enter(&crumb, placer(c), PLUGIN_LOOP, "decide");
    r = ops->decide(plugin_inst(placer(c)), &a, &answer);
    plugin_leave(&crumb);
    return r == 0 && answer.verdict == FN_TRY && answer.index < v->snap.n ? answer.index
                                                                           : UINT32_MAX;
}

static uint64_t home_of(struct cluster *c, const struct view *v, uint32_t function)
{
    const struct fn_call *call = &c->functions[function].view;
    uint32_t first = ask(c, v, call);

    for (uint32_t i = 1; i < ASKS && first != UINT32_MAX; i++) {
        if (ask(c, v, call) != first) {
            return 0;
        }
    }
    return first == UINT32_MAX ? 0 : fn_snapshot_at(&v->snap, first)->id;
}

/* In use: listed and not draining. */
static bool in_use(const struct fn_runner *list, uint32_t n, uint64_t id)
{
    uint32_t low = 0, high = n;

    while (low < high) { /* lists are in order of ids */
        uint32_t middle = (low + high) / 2;

        if (list[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && list[low].id == id && !(list[low].flags & FN_RUNNER_DRAINING);
}

static void compare(struct cluster *c, const struct fn_runner *old, uint32_t n_old,
                    const struct fn_runner *list, uint32_t n, uint64_t was, uint64_t is)
{
    bool stayed = in_use(list, n, was);
    bool newcomer = !in_use(old, n_old, is);

    c->r->homes++;
    c->r->moved += was != is;
    if (stayed && !newcomer) {
        c->r->unaffected++;
        c->r->collateral += was != is;
    }
}

void homes_changed(struct cluster *c, const struct fn_runner *old, uint32_t n_old,
                   const struct fn_runner *list, uint32_t n)
{
    uint64_t sum = 0;
    uint32_t known = 0;
    int64_t begun_ns = c->o->real_ns ? c->o->real_ns() : 0;
    struct view v;

    view_open(c, &v, list, n);
    for (uint32_t i = 0; i < c->n_functions; i++) {
        uint64_t is = home_of(c, &v, i);

        if (old && is && c->homes[i]) {
            compare(c, old, n_old, list, n, c->homes[i], is);
        }
        c->homes[i] = is;
        known += is != 0;
        sum = sum * 1099511628211u + is;
    }
    view_close(c, &v);
    if (!old) {
        /* Two runners agree by chance every now and then. */
        c->r->has_homes = known > c->n_functions - c->n_functions / 10;
    } else {
        c->r->changes++;
    }
    sim_record(c->sim, CLUSTER_HOMES, known, sum);
    c->homes_ns += c->o->real_ns ? c->o->real_ns() - begun_ns : 0;
}

/* ---- the time of a decision
 * ------------------------------------------------------------------- */

static void load(struct cluster *c, struct view *v, const struct fn_runner *list)
{
    for (uint32_t i = 0; i < c->n_slabs * SLAB_CALLS; i++) {
        const struct call *call = &c->slabs[i / SLAB_CALLS][i % SLAB_CALLS];

        if (call->state < CALL_REACHING || call->lb != c->lbs) {
            continue;
        }
        for (uint32_t k = 0; k < v->snap.n; k++) {
            if (list[k].id == call->runner + 1u) {
                v->inflight[k]++;
                v->inflight_total++;
            }
        }
    }
}

void homes_time(struct cluster *c)
{
    const struct lb *lb = c->lbs;
    struct view v;
    int64_t spent_ns = 0, start_ns;

    view_open(c, &v, lb->list, lb->n_list);
    load(c, &v, lb->list);
    for (uint32_t i = 0; i < TIMED; i += TIMED_BATCH) {
        start_ns = c->o->real_ns ? c->o->real_ns() : 0;
        for (uint32_t k = i; k < i + TIMED_BATCH; k++) {
            ask(c, &v, &c->functions[k % c->n_functions].view);
        }
        spent_ns += c->o->real_ns ? c->o->real_ns() - start_ns : 0;
    }
    view_close(c, &v);
    c->r->decide_ns = spent_ns / TIMED;
}

/* ---- life ------------------------------------------------------------------------------------ */

int homes_create(struct cluster *c, struct fn_error *reterr)
{
    c->homes = calloc(c->n_functions, sizeof(*c->homes));
    c->probe.cluster = c;
    c->probe.links = calloc(c->n_runners, sizeof(struct engage_link *));
    member_client(&c->probe);
    return c->homes && c->probe.links ? lb_open_plugins(&c->probe, reterr) : FN_E_EXHAUSTED;
}

void homes_destroy(struct cluster *c)
{
    if (c->probe.host) {
        lb_close_plugins(&c->probe);
    }
    free(c->probe.links);
    free(c->homes);
}
