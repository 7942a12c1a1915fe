/* Membership: what happens to runners, who hears of it, and when.
 *
 * Links are the load balancers' connections: they fall when a process dies (its machine answers for
 * it), or `detect` after a machine vanished. The pool is a list that is published to each load
 * balancer some time within `publish` after a change. */
#include <sim/cluster_int.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- engage_client: links only, calls go through cluster.c
 * ------------------------------------- */

static struct engage_link *link_open(struct engage_client *client, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud)
{
    struct lb *lb = container_of(client, struct lb, client);
    struct cluster *c = lb->cluster;
    struct engage_link *l = calloc(1, sizeof(*l));
    unsigned a = 0, b = 0, d = 0;
    uint32_t i;

    (void)tls_name;
    sscanf(address, "10.%u.%u.%u", &a, &b, &d);
    i = a << 16 | b << 8 | d;
    if (!l || i >= c->n_runners) {
        free(l);
        return NULL;
    }
    l->lb = lb;
    l->runner = i;
    l->cb = cb;
    l->ud = ud;
    l->up = c->runners[i].link_up;
    lb->links[i] = l;
    return l;
}

static void link_close(struct engage_link *l)
{
    if (l->lb->links[l->runner] == l) {
        l->lb->links[l->runner] = NULL;
    }
    free(l);
}

static bool link_is_up(const struct engage_link *l)
{
    return l->up;
}

void member_client(struct lb *lb)
{
    lb->client.link_open = link_open;
    lb->client.link_close = link_close;
    lb->client.link_is_up = link_is_up;
}

static void on_link(struct env_timer *t)
{
    struct runner *r = container_of(t, struct runner, link_timer);
    struct cluster *c = r->cluster;

    r->link_up = r->alive;
    for (uint32_t i = 0; i < c->n_lbs; i++) {
        struct engage_link *l = c->lbs[i].links[r - c->runners];

        if (l && l->up != r->link_up) {
            l->up = r->link_up;
            l->cb->on_state(l->ud, l->up);
        }
    }
}

static void link_follows(struct runner *r, int64_t after_ns)
{
    r->link_timer.cb = on_link;
    sim_at(r->cluster->sim, &r->link_timer, r->cluster->sim->now_ns + after_ns);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static const char *labels_of(const struct cluster *c, uint32_t runner)
{
    const struct fn_strlist *sets = &c->sc->runners->labels;
    const char *labels = sets->n > 0 ? sets->items[runner % sets->n] : "";

    return labels[0] ? labels : NULL;
}

static void publish(struct lb *lb)
{
    struct cluster *c = lb->cluster;
    struct fn_runner *list = calloc(c->n_runners + 1, sizeof(*list));
    uint32_t n = 0;

    if (!list) {
        abort();
    }
    for (uint32_t i = 0; i < c->n_runners; i++) {
        const struct runner *r = &c->runners[i];

        if (r->listing != LIST_ABSENT) {
            list[n++] = (struct fn_runner){
                .id = i + 1,
                .address = r->address,
                .capacity_mb = (uint64_t)c->sc->runners->memory >> 20,
                .weight = 1,
                .flags = r->listing == LIST_DRAINING ? FN_RUNNER_DRAINING : 0,
                .labels = labels_of(c, i),
            };
        }
    }
    if (place_publish(lb->place, FN_GROUP_DEFAULT, list, n) < 0) {
        abort();
    }
    if (lb == c->lbs) {
        homes_changed(c, lb->list, lb->n_list, list, n);
    }
    free(lb->list);
    lb->list = list;
    lb->n_list = n;
}

static void on_publish(struct env_timer *t)
{
    publish(container_of(t, struct lb, publish_timer));
}

static void changed(struct cluster *c, int64_t after_ns)
{
    uint64_t range = (uint64_t)c->sc->network->publish_ns + 1;

    for (uint32_t i = 0; i < c->n_lbs; i++) {
        struct lb *lb = &c->lbs[i];
        int64_t late_ns = (int64_t)sim_rng_below(&c->rng_member, range);

        if (!env_timer_is_set(&lb->publish_timer)) {
            lb->publish_timer.cb = on_publish;
            sim_at(c->sim, &lb->publish_timer, c->sim->now_ns + after_ns + late_ns);
        }
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void die(struct runner *r, bool silent)
{
    struct cluster *c = r->cluster;
    int64_t told_ns = silent ? c->sc->network->detect_ns : c->sc->network->delay_ns;

    if (r->alive) {
        r->silent = silent;
        fleet_kill(c, r, c->sim->now_ns + told_ns);
        link_follows(r, told_ns);
    }
}

static void rise(struct runner *r)
{
    if (!r->alive) {
        r->alive = true;
        link_follows(r, r->cluster->sc->network->delay_ns);
    }
}

static void happen(struct runner *r, const char *what, bool back)
{
    switch (what[0]) {
    case 'c': /* crash, vanish */
    case 'v':
        back ? rise(r) : die(r, what[0] == 'v');
        r->listing = back ? LIST_ACTIVE : LIST_ABSENT;
        break;
    case 'l': /* leave */
        r->listing = back ? LIST_ACTIVE : LIST_ABSENT;
        break;
    case 'd': /* drain */
        r->listing = back ? LIST_ACTIVE : LIST_DRAINING;
        break;
    default: /* join; back: leaves again */
        if (!back) {
            rise(r);
        }
        r->listing = back ? LIST_ABSENT : LIST_ACTIVE;
        break;
    }
}

static void on_plan(struct env_timer *t)
{
    struct plan *plan = container_of(t, struct plan, timer);
    const struct scenario_event *e = plan->event;
    struct cluster *c = plan->cluster;

    for (int64_t i = e->runner; i < e->runner + e->count; i++) {
        happen(&c->runners[i], e->what, plan->back);
        sim_record(c->sim, CLUSTER_MEMBER, (uint64_t)i, (uint64_t)e->what[0]);
    }
    changed(c, e->what[0] == 'v' && !plan->back ? c->sc->network->detect_ns : 0);
}

static void plan_at(struct cluster *c, const struct scenario_event *e, bool back)
{
    struct plan *plan = &c->plans[c->n_plans++];

    *plan = (struct plan){ .timer.cb = on_plan, .cluster = c, .event = e, .back = back };
    sim_at(c->sim, &plan->timer, c->start_ns + e->at_ns + (back ? e->back_after_ns : 0));
}

int member_create(struct cluster *c)
{
    c->plans = calloc(2 * c->sc->n_events + 1, sizeof(*c->plans));
    return c->plans ? 0 : FN_E_EXHAUSTED;
}

void member_start(struct cluster *c)
{
    for (uint32_t i = 0; i < c->n_lbs; i++) {
        publish(&c->lbs[i]);
    }
    for (uint32_t i = 0; i < c->sc->n_events; i++) {
        plan_at(c, &c->sc->events[i], false);
        if (c->sc->events[i].back_after_ns > 0) {
            plan_at(c, &c->sc->events[i], true);
        }
    }
}

void member_destroy(struct cluster *c)
{
    free(c->plans);
}
