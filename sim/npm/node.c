/* The node pool manager: what core/npm/manager.c does around npm_step(), in virtual time. */
#include "books.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int predict(void *ud, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    const struct world *w = ud;

    if (w->predictor == 3) {
        *ret_desired_mb = 2 * load->wanted_mb;
        return load->wanted_mb % 5 == 3 ? FN_E_INTERNAL : 0;
    }
    *ret_desired_mb = w->predictor == 1 ? load->wanted_mb + load->wanted_mb / 2
                                        : load->wanted_mb - load->wanted_mb / 3;
    return 0;
}

void node_start(struct world *w)
{
    w->up = true;
    w->start_no++;
    w->started_ns = w->now_ns;
    w->epoch = (uint64_t)(w->now_ns + w->wall_ns);
    w->budget.request_last = w->epoch;
    w->o.predict = w->predictor ? predict : NULL;
    w->o.predict_ud = w;
    trace(w, "npm starts, epoch %llu", (unsigned long long)w->epoch);
    for (uint32_t i = 0; i < w->n_pools; i++) {
        struct pool *p = &w->pools[i];

        p->g = npm_group_create(&w->o, &w->budget, w->now_ns);
        if (!p->g) {
            fputs("npm_sim: out of memory\n", stderr);
            exit(70);
        }
        p->tick_ns = w->now_ns;
        books_open(w, p);
    }
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        w->lbs[i].connected = 0;
        later(w, rng_between(&w->rng_net, 500 * MS, 2 * S), IT_RECONNECT, 0, i, w->lbs[i].life, 0,
              NULL);
    }
}

void node_crash(struct world *w)
{
    trace(w, "npm crashes");
    w->up = false;
    w->stopped_ns = 0;
    for (uint32_t i = 0; i < w->n_pools; i++) {
        npm_group_destroy(w->pools[i].g);
        w->pools[i].g = NULL;
        w->pools[i].tick_ns = INT64_MAX;
    }
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        w->lbs[i].connected = 0;
    }
    if (w->budget.runners != 0) {
        broken(w, SAFETY(4), "%u runners in the budget of a manager without groups",
               w->budget.runners);
    }
}

static const char *const event_names[] = {
    [NPM_TICK] = "tick",
    [NPM_DEMAND] = "demand",
    [NPM_LISTED] = "listed",
    [NPM_LIST_FAILED] = "list failed",
    [NPM_PROVISIONED] = "provisioned",
    [NPM_PROVISION_FAILED] = "provision failed",
    [NPM_REMOVED] = "removed",
    [NPM_REMOVE_FAILED] = "remove failed",
    [NPM_REPORTED] = "reported",
    [NPM_SILENT] = "silent",
    [NPM_DRAIN] = "drain",
    [NPM_UNDRAIN] = "undrain",
    [NPM_REPLACE] = "replace",
    [NPM_RETIRE] = "retire",
    [NPM_END] = "end",
};

static void tell_event(struct world *w, const struct pool *p, const struct npm_event *e)
{
    if (w->conf.trace && e->kind != NPM_TICK) {
        trace(w, "g%u %s %s mb=%llu n=%u active=%u%s", p->no, event_names[e->kind],
              e->id ? e->id : "", (unsigned long long)e->mb, e->n, e->active,
              e->unknown ? " unknown" : "");
    }
}

static void tell_action(struct world *w, const struct pool *p, const struct npm_action *a)
{
    static const char *const names[] = { [NPM_DO_LIST] = "list",
                                         [NPM_DO_PROVISION] = "provision",
                                         [NPM_DO_REMOVE] = "remove",
                                         [NPM_DO_STATUS] = "ask",
                                         [NPM_DO_PUBLISH] = "publish" };

    if (!w->conf.trace) {
        return;
    }
    if (a->kind == NPM_DO_NOTE) {
        trace(w, "g%u   note: %s %s %llu", p->no, npm_notes[a->note].text, a->id ? a->id : "",
              (unsigned long long)a->value);
    } else {
        trace(w, "g%u   -> %s %s n=%u request=%llu", p->no, names[a->kind], a->id ? a->id : "",
              a->n, (unsigned long long)a->request_id);
    }
}

static void carry_out(struct world *w, struct pool *p, const struct npm_action *a)
{
    switch (a->kind) {
    case NPM_DO_LIST:
    case NPM_DO_PROVISION:
    case NPM_DO_REMOVE:
        cloud_call(w, p, a);
        break;
    case NPM_DO_STATUS:
        cloud_ask(w, p, place_of(a->id), place_of(a->address));
        break;
    case NPM_DO_PUBLISH:
        lb_publish(w, p);
        break;
    case NPM_DO_NOTE:
        break;
    }
}

static void step(struct world *w, struct pool *p, const struct npm_event *e,
                 const struct message *m)
{
    int64_t late_ns = 0;

    w->result->steps++;
    tell_event(w, p, e);
    books_before(w, p, e, m);
    p->tick_ns = npm_step(p->g, e, w->now_ns, &w->out);
    if (e->kind == NPM_TICK && happens(w, F_NPM_LATE, &w->rng_node)) {
        late_ns = rng_between(&w->rng_node, 0, 5 * S);
    }
    p->tick_ns += late_ns;
    hash_add(w,
             (uint64_t)w->now_ns ^ ((uint64_t)e->kind << 56) ^ ((uint64_t)p->no << 52) ^ w->out.n);
    for (uint32_t i = 0; i < w->out.n; i++) {
        const struct npm_action *a = &w->out.list[i];

        hash_add(w, ((uint64_t)a->kind << 40) ^ ((uint64_t)a->note << 32) ^ a->n ^ a->value);
        w->result->actions[a->kind]++;
        w->result->notes[a->note] += a->kind == NPM_DO_NOTE;
        tell_action(w, p, a);
        books_action(w, p, a);
    }
    books_after(w, p, e);
    for (uint32_t i = 0; i < w->out.n && !w->result->broken; i++) {
        carry_out(w, p, &w->out.list[i]);
    }
}

void node_step(struct world *w, struct pool *p, const struct npm_event *e)
{
    step(w, p, e, NULL);
}

static const enum npm_event_kind renewals[NPM_WISHES_N] = { [NPM_WISH_DRAIN] = NPM_DRAIN,
                                                            [NPM_WISH_REPLACE] = NPM_REPLACE,
                                                            [NPM_WISH_REMOVE] = NPM_RETIRE };

static enum npm_wish wish_of(enum npm_event_kind order)
{
    switch (order) {
    case NPM_DRAIN:
        return NPM_WISH_DRAIN;
    case NPM_REPLACE:
        return NPM_WISH_REPLACE;
    case NPM_UNDRAIN:
        return NPM_WISH_NONE;
    default:
        return NPM_WISH_REMOVE;
    }
}

void node_order(struct world *w, struct pool *p, const char *id, enum npm_event_kind kind)
{
    const struct npm_host *h = npm_host_find(p->g, id);
    char copy[NPM_ID_MAX + 1];
    const struct npm_event e = { .kind = kind, .id = copy };
    struct machine *m;

    snprintf(copy, sizeof(copy), "%s", id);
    if (h && h->state != NPM_REMOVING && h->state != NPM_FOREIGN) {
        m = &p->machines[place_of(id)];
        p->n_wishes += m->wish == NPM_WISH_NONE;
        m->wish = wish_of(kind);
        m->forced = kind == NPM_END;
        p->n_wishes -= m->wish == NPM_WISH_NONE;
    }
    node_step(w, p, &e);
}

void node_renew(struct world *w, struct pool *p)
{
    for (uint32_t i = 0; p->n_wishes > 0 && i < npm_host_count(p->g) && !w->result->broken; i++) {
        const struct npm_host *h = npm_host_at(p->g, i);
        const struct machine *m = &p->machines[place_of(h->id)];
        char id[24];
        const struct npm_event e = { .kind = renewals[m->wish], .id = id };

        if (m->wish != NPM_WISH_NONE && h->wish != m->wish && h->state != NPM_REMOVING) {
            memcpy(id, m->id, sizeof(id));
            node_step(w, p, &e);
        }
    }
}

void node_demand(struct world *w, const struct message *m)
{
    for (uint32_t i = 0; i < w->n_pools && w->up && !w->result->broken; i++) {
        const struct npm_event e = { .kind = NPM_DEMAND,
                                     .id = m->id,
                                     .incarnation = m->incarnation,
                                     .seq = m->seq,
                                     .mb = m->mb[i],
                                     .waiting = m->waiting[i] };

        step(w, &w->pools[i], &e, m);
    }
}
