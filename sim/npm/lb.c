/* Load balancers: demand of every shape, members as they hear of them, calls on runners. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct snap *snap_ref(struct snap *s)
{
    if (s) {
        s->refs++;
    }
    return s;
}

void snap_unref(struct snap *s)
{
    if (s && --s->refs == 0) {
        free(s);
    }
}

/* ---- demand ---------------------------------------------------------------------------------- */

static void new_wish(struct world *w, struct lb *lb, struct wish *x)
{
    static const int64_t periods[] = { 10 * S, 60 * S, 310 * S, 20 * S };
    uint64_t most_mb = (uint64_t)w->o.runners_max * w->o.runner_mb / w->n_lbs;

    x->shape = (enum shape)rng_below(&lb->rng, SHAPES_N);
    x->mb = rng_u64(&lb->rng) % (most_mb + most_mb / 4 + 1);
    x->since_ns = w->now_ns;
    x->until_ns = w->now_ns + rng_between(&lb->rng, MIN, 30 * MIN);
    x->period_ns = periods[rng_below(&lb->rng, 4)];
}

static uint64_t wished_mb(const struct world *w, const struct wish *x)
{
    int64_t age_ns = w->now_ns - x->since_ns;
    int64_t whole_ns = x->until_ns - x->since_ns;

    switch (x->shape) {
    case SHAPE_CONSTANT:
        return x->mb;
    case SHAPE_RAMP:
        return x->mb / 1000 * (uint64_t)(age_ns * 1000 / whole_ns);
    case SHAPE_STEP:
        return age_ns > whole_ns / 2 ? x->mb : x->mb / 3;
    case SHAPE_SPIKE:
        return age_ns > whole_ns / 2 && age_ns < whole_ns / 2 + 15 * S ? x->mb : 0;
    case SHAPE_SAW:
        return age_ns % x->period_ns < x->period_ns / 2 ? x->mb : x->mb / 8;
    default:
        return 0;
    }
}

static uint64_t demand_mb(struct world *w, struct lb *lb, uint32_t pool)
{
    static const uint64_t garbage[] = { 0,          1,          1ull << 31,       (1ull << 63) - 1,
                                        1ull << 63, UINT64_MAX, UINT64_MAX - 4096 };
    struct wish *x = &lb->wishes[pool];

    if (w->quiet) {
        return w->pools[pool].wish_mb / w->n_lbs;
    }
    if (happens(w, F_LB_GARBAGE, &lb->rng)) {
        return garbage[rng_below(&lb->rng, 7)];
    }
    if (w->now_ns >= x->until_ns) {
        new_wish(w, lb, x);
    }
    return wished_mb(w, x);
}

static struct message *message_new(struct world *w)
{
    struct message *m = w->free_messages;

    if (m) {
        w->free_messages = m->next_free;
    } else if (!(m = malloc(sizeof(*m)))) {
        fputs("npm_sim: out of memory\n", stderr);
        exit(70);
    }
    m->refs = 1;
    m->seq = m->incarnation = 0;
    return m;
}

void message_unref(struct world *w, struct message *m)
{
    if (--m->refs == 0) {
        m->next_free = w->free_messages;
        w->free_messages = m;
    }
}

static int64_t leg_ns(struct world *w)
{
    if (happens(w, F_NET_DELAY, &w->rng_net)) {
        return rng_between(&w->rng_net, 10 * MS, 30 * S);
    }
    return rng_between(&w->rng_net, MS / 2, LEG_MAX_NS);
}

static void send(struct world *w, struct lb *lb, struct message *m)
{
    if (!w->up || w->now_ns < lb->cut_out_ns || happens(w, F_NET_DROP, &w->rng_net)) {
        message_unref(w, m);
        return;
    }
    if (happens(w, F_NET_DUPLICATE, &w->rng_net)) {
        m->refs++;
        later(w, leg_ns(w), IT_DEMAND, 0, lb->no, 0, w->start_no, m);
    }
    later(w, leg_ns(w), IT_DEMAND, 0, lb->no, 0, w->start_no, m);
}

static void invent(struct world *w, struct lb *lb)
{
    struct message *m = message_new(w);
    uint32_t kind = rng_below(&lb->rng, 8);

    m->key = m->name = 0x80000000u | ++w->invented;
    snprintf(m->id, sizeof(m->id), "x%u", w->invented);
    if (kind == 0) {
        memset(m->id, 'x', NPM_LB_ID_MAX + 1); /* too long */
        m->id[NPM_LB_ID_MAX + 1] = '\0';
        m->key = 0;
    } else if (kind == 1) {
        m->id[0] = '\0';
        m->key = 0;
    }
    for (uint32_t i = 0; i < w->n_pools; i++) {
        m->mb[i] = rng_below(&lb->rng, 2) ? rng_u64(&lb->rng) : 100;
        m->waiting[i] = rng_u64(&lb->rng);
    }
    send(w, lb, m);
}

static void advertise(struct world *w, struct lb *lb)
{
    struct message *m = message_new(w);

    m->key = (lb->no + 1) << 20 | lb->life;
    m->name = lb->name;
    m->incarnation = lb->incarnation;
    memcpy(m->id, lb->id, sizeof(lb->id));
    m->seq = ++lb->seq;
    for (uint32_t i = 0; i < w->n_pools; i++) {
        m->mb[i] = demand_mb(w, lb, i);
        m->waiting[i] = m->mb[i] > 0;
    }
    send(w, lb, m);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* By what the load balancer believes: only members that are not draining. */
static void place_calls(struct world *w, struct lb *lb)
{
    for (uint32_t i = 0; i < w->n_pools; i++) {
        const struct snap *s = lb->views[i];
        bool busy = w->quiet ? w->pools[i].wish_mb > 0 : wished_mb(w, &lb->wishes[i]) > 0;

        for (int k = 0; busy && s && s->n > 0 && k < 2; k++) {
            const struct snap_member *m = &s->members[rng_below(&lb->rng, s->n)];

            if (!m->draining) {
                cloud_place_call(w, &w->pools[i], m->address_no, &lb->rng);
            }
        }
    }
}

/* ---- members --------------------------------------------------------------------------------- */

static struct group *group_of(struct lb *lb, const struct pool *p)
{
    static const char *const names[POOLS_MAX] = { "default", "g1", "g2", "g3" };

    return lb->real ? groups_get(&lb->groups, names[p->no], 0) : &lb->light[p->no];
}

static bool in_snap(const struct snap *s, uint32_t place)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->members[i].place == place) {
            return true;
        }
    }
    return false;
}

struct kept {
    uint32_t place;
    bool draining;
};

/* S12: a sudden loss is not believed. S14: the rest is as published. */
static void check_members(struct world *w, const struct lb *lb, const struct group *g,
                          const struct snap *s, const struct kept *before, uint32_t n, bool known)
{
    uint32_t gone = 0, all = 0, kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        gone += !before[i].draining && !in_snap(s, before[i].place);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        all += !s->members[i].draining;
    }
    all += gone;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct member *m = &g->members[i];
        uint32_t place = place_of(m->id), k = 0;

        while (k < s->n && s->members[k].place != place) {
            k++;
        }
        kept += k == s->n;
        if (k < s->n && (m->draining != s->members[k].draining ||
                         m->capacity_mb != s->members[k].capacity_mb ||
                         place_of(m->address) != s->members[k].address_no)) {
            broken(w, SAFETY(14), "lb%u has %s otherwise than published", lb->no, m->id);
        }
        if (k == s->n && m->draining) {
            broken(w, SAFETY(14), "lb%u keeps %s, drained and not listed", lb->no, m->id);
        }
    }
    if (g->n != s->n + kept) {
        broken(w, SAFETY(14), "lb%u has %u members; published %u and %u in grace", lb->no, g->n,
               s->n, kept);
    }
    if (known && all >= GROUPS_GRACE_MIN && gone * 2 > all && kept < gone) {
        broken(w, SAFETY(12), "lb%u dropped %u of %u members at once", lb->no, gone - kept, all);
    }
    if (!(known && all >= GROUPS_GRACE_MIN && gone * 2 > all) && kept > 0) {
        broken(w, SAFETY(14), "lb%u keeps %u members that are not listed", lb->no, kept);
    }
}

static void take_real(struct world *w, struct lb *lb, struct pool *p, const struct snap *s,
                      struct group *g)
{
    struct kept *before = calloc(g->n + 1, sizeof(*before));
    struct wire_member x = { .address = "a00000:9190" };
    uint32_t n = g->n;
    bool known = g->known;

    for (uint32_t i = 0; before && i < n; i++) {
        before[i] = (struct kept){ place_of(g->members[i].id), g->members[i].draining };
    }
    group_list_begin(g);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct snap_member *m = &s->members[i];

        x.capacity_mb = m->capacity_mb;
        x.draining = m->draining;
        memcpy(x.id, p->machines[m->place].id, sizeof(p->machines[0].id));
        put_place(x.address + 1, m->address_no);
        if (group_member(g, &x) < 0) {
            fputs("npm_sim: out of memory\n", stderr);
            exit(70);
        }
    }
    group_list_end(g, w->now_ns);
    if (before) {
        check_members(w, lb, g, s, before, n, known);
    }
    free(before);
}

static void take(struct world *w, struct lb *lb, struct pool *p, struct snap *s)
{
    struct group *g = group_of(lb, p);
    uint64_t epoch = g->epoch, version = g->version;

    if (!group_is_news(g, s->epoch, s->version)) {
        return;
    }
    if (g->known && (s->epoch == epoch ? s->version <= version : s->epoch < epoch && !g->fresh)) {
        broken(w, SAFETY(9), "lb%u took list %llu after %llu", lb->no,
               (unsigned long long)s->version, (unsigned long long)version);
    }
    if (lb->real) {
        take_real(w, lb, p, s, g);
    }
    g->known = 1;
    g->fresh = 0;
    g->epoch = s->epoch;
    g->version = s->version;
    snap_unref(lb->views[p->no]);
    lb->views[p->no] = snap_ref(s);
}

static void reconnect_later(struct world *w, struct lb *lb)
{
    lb->connected = 0;
    later(w, rng_between(&w->rng_net, 500 * MS, 2 * S), IT_RECONNECT, 0, lb->no, lb->life, 0, NULL);
}

void lb_members(struct world *w, struct lb *lb, const struct item *it)
{
    struct snap *s = it->ptr;

    if (lb->life == it->b && lb->connected && lb->stream == it->c && w->now_ns >= lb->cut_in_ns) {
        take(w, lb, &w->pools[it->group], s);
    } else if (lb->life == it->b && lb->connected && lb->stream == it->c) {
        reconnect_later(w, lb); /* a stream that lost something is broken */
    }
    snap_unref(s);
}

static void send_members(struct world *w, struct lb *lb, struct pool *p)
{
    if (happens(w, F_NET_DROP, &w->rng_net)) {
        reconnect_later(w, lb);
        return;
    }
    if (happens(w, F_NET_DUPLICATE, &w->rng_net)) {
        later(w, leg_ns(w), IT_MEMBERS, p->no, lb->no, lb->life, lb->stream,
              snap_ref(p->published));
    }
    later(w, leg_ns(w), IT_MEMBERS, p->no, lb->no, lb->life, lb->stream, snap_ref(p->published));
}

void lb_publish(struct world *w, struct pool *p)
{
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        if (w->lbs[i].connected == w->start_no) {
            send_members(w, &w->lbs[i], p);
        }
    }
}

void lb_reconnect(struct world *w, struct lb *lb)
{
    if (lb->connected == w->start_no) {
        return;
    }
    if (!w->up || w->now_ns < w->stopped_ns || w->now_ns < lb->cut_out_ns ||
        w->now_ns < lb->cut_in_ns) {
        reconnect_later(w, lb);
        return;
    }
    lb->connected = w->start_no;
    lb->stream++;
    for (uint32_t i = 0; i < w->n_pools; i++) {
        group_of(lb, &w->pools[i])->fresh = 1;
    }
    for (uint32_t i = 0; i < w->n_pools && lb->connected; i++) {
        if (w->pools[i].version > 0) {
            send_members(w, lb, &w->pools[i]);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void forget(struct lb *lb)
{
    groups_finish(&lb->groups);
    memset(lb->light, 0, sizeof(lb->light));
    for (uint32_t i = 0; i < POOLS_MAX; i++) {
        snap_unref(lb->views[i]);
        lb->views[i] = NULL;
    }
}

static void name(struct lb *lb)
{
    uint32_t part = lb->same_id ? 0 : lb->life;

    lb->name = (lb->no + 1) << 20 | part;
    snprintf(lb->id, sizeof(lb->id), "lb%u.%u", lb->no, part);
}

void lb_restart(struct world *w, struct lb *lb)
{
    trace(w, "lb%u restarts", lb->no);
    forget(lb);
    lb->life++;
    w->born++;
    lb->seq = 0;
    lb->incarnation = rng_u64(&lb->rng) | 1;
    reconnect_later(w, lb);
}

static void restart(struct world *w, struct lb *lb)
{
    lb_restart(w, lb);
    lb->twin = false;
    lb->same_id = rng_below(&lb->rng, 2);
    name(lb);
}

/* Copy and paste: it starts with the configuration of its neighbour. */
static void become_twin(struct world *w, struct lb *lb)
{
    const struct lb *other = lb->no % 2 ? &w->lbs[lb->no - 1] : &w->lbs[lb->no + 1];

    if ((lb->no | 1u) >= w->n_lbs || other->twin) {
        return;
    }
    lb_restart(w, lb);
    lb->twin = true;
    lb->name = other->name;
    memcpy(lb->id, other->id, sizeof(lb->id));
    trace(w, "lb%u calls itself %s", lb->no, lb->id);
}

static void expire(struct world *w, struct lb *lb)
{
    for (uint32_t i = 0; i < lb->groups.n; i++) {
        struct group *g = lb->groups.list[i];
        uint32_t due = 0, n = g->n;

        for (uint32_t k = 0; k < n; k++) {
            due +=
                g->members[k].vanished_ns != 0 && w->now_ns - g->members[k].vanished_ns >= 30 * S;
        }
        group_expire(g, w->now_ns);
        if (g->n != n - due) {
            broken(w, SAFETY(12), "lb%u dropped %u members, %u were due", lb->no, n - g->n, due);
        }
    }
}

void lb_tick(struct world *w, struct lb *lb)
{
    int64_t next_ns = S;

    if (happens(w, F_LB_RESTART, &lb->rng)) {
        restart(w, lb);
    }
    if (happens(w, F_LB_TWIN, &lb->rng)) {
        become_twin(w, lb);
    }
    if (happens(w, F_LB_SILENT, &lb->rng)) {
        next_ns = rng_between(&lb->rng, S, 60 * S);
    }
    if (happens(w, F_LB_INVENTED, &lb->rng)) {
        for (uint32_t n = 1 + rng_below(&lb->rng, 80); n > 0; n--) {
            invent(w, lb);
        }
    }
    advertise(w, lb);
    place_calls(w, lb);
    expire(w, lb);
    later(w, next_ns, IT_LB, 0, lb->no, 0, 0, NULL);
}

void lb_fate(struct world *w, struct lb *lb)
{
    if (happens(w, F_NET_CUT, &w->rng_fate)) {
        uint32_t ways = 1 + rng_below(&w->rng_fate, 3);
        int64_t until_ns = w->now_ns + rng_between(&w->rng_fate, S, 120 * S);

        trace(w, "lb%u cut off, %s", lb->no, ways == 1 ? "out" : ways == 2 ? "in" : "both ways");
        lb->cut_out_ns = ways & 1 ? until_ns : lb->cut_out_ns;
        lb->cut_in_ns = ways & 2 ? until_ns : lb->cut_in_ns;
    }
}

void lb_open(struct world *w, struct lb *lb)
{
    name(lb);
    lb->incarnation = rng_u64(&lb->rng) | 1;
    later(w, rng_between(&lb->rng, 0, S), IT_LB, 0, lb->no, 0, 0, NULL);
}

void lb_close(struct world *w, struct lb *lb)
{
    (void)w;
    forget(lb);
}
