/* Demand: what each LB last told, and when it is forgotten.
 *
 * Totals are recomputed from the LBs' absolute figures, so that nothing drifts; each figure is
 * clamped to what the whole group may have, so that no LB's garbage can overflow the sum or lower
 * another's share. */
#include <npm/npm_int.h>

#include <string.h>

uint64_t npm_group_max_mb(const struct npm_group *g)
{
    uint64_t largest = g->o.runner_mb > g->typical_mb ? g->o.runner_mb : g->typical_mb;

    return g->o.runners_max * largest;
}

static struct npm_lb *lb_of(struct npm_group *g, const char *id)
{
    uint32_t slot = index_find(&g->lb_index, id);
    struct npm_lb *lb;

    if (slot != INDEX_NONE) {
        return &g->lbs[slot];
    }
    if (g->n_lbs == g->o.lbs_max || !id[0] || strlen(id) > NPM_LB_ID_MAX) {
        note(g, NPM_NOTE_LBS_FULL, NULL, g->n_lbs);
        return NULL;
    }
    slot = g->lb_slots[g->n_lbs++];
    lb = &g->lbs[slot];
    *lb = (struct npm_lb){ .seq = 0 };
    strncpy(lb->id, id, NPM_LB_ID_MAX);
    index_add(&g->lb_index, slot);
    return lb;
}

static void lb_drop(struct npm_group *g, uint32_t i)
{
    uint32_t slot = g->lb_slots[i];

    g->wanted_mb -= g->lbs[slot].mb;
    g->waiting -= g->lbs[slot].waiting;
    index_remove(&g->lb_index, slot);
    g->lb_slots[i] = g->lb_slots[--g->n_lbs];
    g->lb_slots[g->n_lbs] = slot;
}

#define WAITING_MAX (1u << 20) /* of one LB; it only feeds predictors */

void demand_heard(struct npm_group *g, const struct npm_event *e, int64_t now_ns)
{
    struct npm_lb *lb = lb_of(g, e->id);
    uint64_t max = npm_group_max_mb(g);
    uint64_t mb = e->mb < max ? e->mb : max;

    if (!lb || (e->seq != 0 && e->seq <= lb->seq)) {
        return; /* an older word that was overtaken */
    }
    if (e->mb > max && lb->mb != max) {
        note(g, NPM_NOTE_DEMAND_CLAMPED, lb->id, max);
    }
    g->wanted_mb += mb - lb->mb;
    g->waiting -= lb->waiting;
    lb->seq = e->seq;
    lb->mb = mb;
    lb->waiting = e->waiting < WAITING_MAX ? e->waiting : WAITING_MAX;
    lb->heard_ns = now_ns;
    g->waiting += lb->waiting;
}

void demand_expire(struct npm_group *g, int64_t now_ns)
{
    int64_t oldest_ns = now_ns;

    if (now_ns <= g->lbs_expire_ns) {
        return;
    }
    for (uint32_t i = 0; i < g->n_lbs;) {
        const struct npm_lb *lb = &g->lbs[g->lb_slots[i]];

        if (now_ns - lb->heard_ns > g->o.demand_life_ns) {
            note(g, NPM_NOTE_LB_GONE, lb->id, lb->mb);
            lb_drop(g, i);
        } else {
            oldest_ns = lb->heard_ns < oldest_ns ? lb->heard_ns : oldest_ns;
            i++;
        }
    }
    g->lbs_expire_ns = oldest_ns + g->o.demand_life_ns;
}
