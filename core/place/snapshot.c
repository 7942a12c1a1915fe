/* Snapshots: a listing and what the placers in use derived of it; each group has a current one. */
#include <place/place_int.h>

#include <stdlib.h>

static struct snapshot *snapshot_create(struct place_group *g, struct listing *l)
{
    struct snapshot *s = calloc(1, sizeof(*s));

    if (!s) {
        return NULL;
    }
    s->place = g->place;
    s->refs = 1;
    s->listing = listing_ref(l);
    s->list = l->list;
    s->runners = l->runners;
    s->inflight = l->inflight;
    s->view = (struct fn_snapshot){
        .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
        .epoch = g->snap ? g->snap->view.epoch + 1 : g->place->epochs,
        .made_ns = env_now_ns(g->place->deps.env),
        .n = l->n,
        .stride = sizeof(struct fn_runner),
        .group = g->name,
        .runners = l->list,
    };
    return s;
}

static void index_build(struct snapshot *s)
{
    struct policy *y = s->place->policy;

    if (y) {
        s->policy = policy_ref(y);
        s->view.index = policy_index_build(y, &s->view);
    }
    shadow_index_build(s);
}

void snapshot_unref(struct snapshot *s)
{
    if (!s || --s->refs > 0) {
        return;
    }
    policy_index_free(s->policy, s->view.index);
    policy_unref(s->policy);
    shadow_index_free(s);
    listing_unref(s->listing);
    free(s);
}

static int is_stale(const struct snapshot *s)
{
    return s && (s->view.flags & FN_SNAP_STALE);
}

static void count_stale(struct place *p, int more)
{
    if (more != 0) {
        p->stale_n += more;
        metric_set(p->metrics.groups_stale, p->stale_n);
        plugin_degraded(DEGRADED_POOL_STALE, p->stale_n > 0);
    }
}

void snapshot_mark(struct place_group *g, uint32_t flags, int32_t err_code)
{
    int was = is_stale(g->snap);

    g->snap->view.flags = flags;
    g->snap->view.err_code = err_code;
    count_stale(g->place, is_stale(g->snap) - was);
}

int snapshot_swap(struct place_group *g, struct listing *l)
{
    struct snapshot *old = g->snap;
    struct snapshot *s = snapshot_create(g, l);

    if (!s) {
        return FN_E_EXHAUSTED;
    }
    index_build(s); /* a group may be younger than the placer: also of an empty list */
    g->snap = s;
    metric_add(g->place->metrics.runners, (int64_t)s->view.n - (old ? old->view.n : 0));
    count_stale(g->place, -is_stale(old));
    snapshot_unref(old);
    return 0;
}

/* The same listing again. */
static int snapshot_renew(struct place_group *g)
{
    uint32_t flags = g->snap->view.flags;
    int32_t err_code = g->snap->view.err_code;
    int r = snapshot_swap(g, g->snap->listing);

    if (r == 0) {
        snapshot_mark(g, flags, err_code);
    }
    return r;
}

int snapshots_renew(struct place *p)
{
    struct place_group *g, *next;
    int result = 0;

    HASH_ITER(hh, p->groups, g, next) {
        int r = snapshot_renew(g);

        result = result < 0 ? result : r;
    }
    return result;
}

int snapshots_use(struct place *p, struct policy *y)
{
    struct policy *old = p->policy;
    int r;

    p->policy = policy_ref(y);
    shadow_policy_used(p);
    r = snapshots_renew(p);
    policy_unref(old);
    return r;
}
