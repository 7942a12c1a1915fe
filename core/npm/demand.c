/* Demand: what each LB last told, and when it is forgotten.
 *
 * Totals are recomputed from the LBs' absolute figures, so that nothing drifts; each figure is
 * clamped to what the whole group may have, so that no LB's garbage can overflow the sum or lower
 * another's share.
 *
 * An LB has a voice for each of its starts, told apart by their incarnation; seq orders the words
 * of one voice only. A new voice counts at once and takes the place of the others: the LB
 * restarted. One of these that goes on talking is no late word but another LB with the same id:
 * from its second word on both count, so that neither starves, and that is told. */
#include <npm/npm_int.h>

#include <string.h>

uint64_t npm_group_max_mb(const struct npm_group *g)
{
    uint64_t largest = g->o.runner_mb > g->typical_mb ? g->o.runner_mb : g->typical_mb;

    return g->o.runners_max * largest;
}

/* ---- voices ---------------------------------------------------------------------------------- */

static uint32_t voices_n(const struct npm_lb *lb)
{
    return lb->spare_1 ? NPM_VOICES : 1;
}

static struct npm_voice *voice_at(const struct npm_group *g, struct npm_lb *lb, uint32_t i)
{
    return i == 0 ? &lb->voice : &g->spares[lb->spare_1 - 1].voices[i - 1];
}

static void spare_take(struct npm_group *g, struct npm_lb *lb)
{
    if (!lb->spare_1 && g->n_free_spares > 0) {
        uint32_t i = g->free_spares[--g->n_free_spares];

        g->spares[i] = (struct npm_spare){ .voices = { { .known = false } } };
        lb->spare_1 = i + 1;
    }
}

static void spare_give_back(struct npm_group *g, struct npm_lb *lb)
{
    if (lb->spare_1) {
        g->free_spares[g->n_free_spares++] = lb->spare_1 - 1;
        lb->spare_1 = 0;
    }
}

static uint32_t speaking(const struct npm_group *g, struct npm_lb *lb)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < voices_n(lb); i++) {
        n += voice_at(g, lb, i)->counts;
    }
    return n;
}

bool npm_lb_is_twice(const struct npm_group *g, const char *lb_id)
{
    uint32_t slot = index_find(&g->lb_index, lb_id);

    return slot != INDEX_NONE && speaking(g, &g->lbs[slot]) > 1;
}

/* Another voice that counts, or one less; v's figures stay what they are. */
static void voice_count(struct npm_group *g, struct npm_lb *lb, struct npm_voice *v, bool counts)
{
    if (v->counts == counts) {
        return;
    }
    g->lbs_twice -= speaking(g, lb) > 1;
    v->counts = counts;
    g->lbs_twice += speaking(g, lb) > 1;
    g->wanted_mb += counts ? v->mb : -v->mb;
    g->waiting += counts ? v->waiting : -(uint64_t)v->waiting;
}

static struct npm_voice *voice_find(const struct npm_group *g, struct npm_lb *lb,
                                    uint64_t incarnation)
{
    for (uint32_t i = 0; i < voices_n(lb); i++) {
        struct npm_voice *v = voice_at(g, lb, i);

        if (v->known && v->incarnation == incarnation) {
            return v;
        }
    }
    return NULL;
}

/* In the place of the one that was silent for longest. */
static struct npm_voice *voice_new(struct npm_group *g, struct npm_lb *lb, uint64_t incarnation)
{
    struct npm_voice *v = &lb->voice;

    if (v->known) {
        spare_take(g, lb);
    }
    for (uint32_t i = 1; i < voices_n(lb); i++) {
        struct npm_voice *other = voice_at(g, lb, i);

        v = !other->known || (v->known && other->heard_no < v->heard_no) ? other : v;
    }
    for (uint32_t i = 0; i < voices_n(lb); i++) {
        voice_count(g, lb, voice_at(g, lb, i), false);
        voice_at(g, lb, i)->late = 0;
    }
    *v = (struct npm_voice){ .incarnation = incarnation, .known = true };
    voice_count(g, lb, v, true);
    return v;
}

#define LATE_WORDS 1u /* of a start that is over may come after the first one of the next */

/* The voice that e is of, or NULL when its word changes nothing. */
static struct npm_voice *voice_of(struct npm_group *g, struct npm_lb *lb, const struct npm_event *e,
                                  int64_t now_ns)
{
    struct npm_voice *v = voice_find(g, lb, e->incarnation);

    if (!v) {
        v = voice_new(g, lb, e->incarnation);
    } else if (e->seq != 0 && e->seq <= v->seq) {
        return NULL; /* an older word that was overtaken */
    }
    v->seq = e->seq;
    v->heard_ns = now_ns;
    v->heard_no = ++lb->words;
    if (!v->counts && v->late++ < LATE_WORDS) {
        return NULL;
    }
    if (!v->counts) {
        voice_count(g, lb, v, true);
        note(g, NPM_NOTE_LB_TWICE, lb->id, speaking(g, lb));
    }
    return v;
}

/* ---- load balancers -------------------------------------------------------------------------- */

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
    *lb = (struct npm_lb){ .id = "" };
    strncpy(lb->id, id, NPM_LB_ID_MAX);
    index_add(&g->lb_index, slot);
    return lb;
}

static void lb_drop(struct npm_group *g, uint32_t i)
{
    uint32_t slot = g->lb_slots[i];

    spare_give_back(g, &g->lbs[slot]);
    index_remove(&g->lb_index, slot);
    g->lb_slots[i] = g->lb_slots[--g->n_lbs];
    g->lb_slots[g->n_lbs] = slot;
}

void demand_heard(struct npm_group *g, const struct npm_event *e, int64_t now_ns)
{
    struct npm_lb *lb = lb_of(g, e->id);
    struct npm_voice *v = lb ? voice_of(g, lb, e, now_ns) : NULL;
    uint64_t max = npm_group_max_mb(g);
    uint64_t mb = e->mb < max ? e->mb : max;

    if (!v) {
        return;
    }
    if (e->mb > max && v->mb != max) {
        note(g, NPM_NOTE_DEMAND_CLAMPED, lb->id, max);
    }
    g->wanted_mb += mb - v->mb;
    g->waiting -= v->waiting;
    v->mb = mb;
    v->waiting = e->waiting < NPM_LB_WAITING_MAX ? (uint32_t)e->waiting : NPM_LB_WAITING_MAX;
    g->waiting += v->waiting;
}

/* When but one voice is left, it stays in the LB's own place. */
static void join_voices(struct npm_group *g, struct npm_lb *lb)
{
    struct npm_voice *last = NULL;

    for (uint32_t i = 0; i < voices_n(lb); i++) {
        struct npm_voice *v = voice_at(g, lb, i);

        if (v->known && last) {
            return;
        }
        last = v->known ? v : last;
    }
    if (last) {
        lb->voice = *last;
    }
    spare_give_back(g, lb);
}

/* Forgets what is silent for too long. Returns when the one that was silent for longest was heard;
 * 0 = none is left. */
static int64_t expire_voices(struct npm_group *g, struct npm_lb *lb, int64_t now_ns)
{
    int64_t oldest_ns = 0;

    for (uint32_t i = 0; i < voices_n(lb); i++) {
        struct npm_voice *v = voice_at(g, lb, i);

        if (v->known && now_ns - v->heard_ns > g->o.demand_life_ns) {
            voice_count(g, lb, v, false);
            *v = (struct npm_voice){ .known = false };
        } else if (v->known && (oldest_ns == 0 || v->heard_ns < oldest_ns)) {
            oldest_ns = v->heard_ns;
        }
    }
    join_voices(g, lb);
    return oldest_ns;
}

void demand_expire(struct npm_group *g, int64_t now_ns)
{
    int64_t oldest_ns = now_ns;

    if (now_ns <= g->lbs_expire_ns) {
        return;
    }
    for (uint32_t i = 0; i < g->n_lbs;) {
        struct npm_lb *lb = &g->lbs[g->lb_slots[i]];
        uint64_t wanted_mb = g->wanted_mb;
        int64_t heard_ns = expire_voices(g, lb, now_ns);

        if (heard_ns == 0) {
            note(g, NPM_NOTE_LB_GONE, lb->id, wanted_mb - g->wanted_mb);
            lb_drop(g, i);
        } else {
            oldest_ns = heard_ns < oldest_ns ? heard_ns : oldest_ns;
            i++;
        }
    }
    g->lbs_expire_ns = oldest_ns + g->o.demand_life_ns;
}
