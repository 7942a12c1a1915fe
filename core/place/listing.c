/* Listings: a pool's list with the group's runners, until the last of them is let go.
 *
 *   binding ──each entry has its runner──▶ a snapshot's ──the last one over it is gone──▶ ended
 *      └──a newer list, no memory──▶ ended ──each runner is let go──▶ freed
 *
 * Ten thousand runners take milliseconds to bind (binding.c) and to let go, and calls would wait
 * that long. So a turn of the loop does a portion of it, whose price is bounded: LISTING_PORTION
 * entries, of which one that closes its runner's link counts for CLOSE_PRICE; closing is in no
 * hurry and pauses after each portion. */
#include <place/place_int.h>

#include <stdlib.h>

#define CLOSE_PRICE    32u
#define CLOSE_PAUSE_NS ENV_MS

static uint64_t next_number(struct place_group *g)
{
    uint64_t replaced = g->snap ? g->snap->listing->no : 0;

    g->listings++;
    g->listings += (g->listings & 1) == (replaced & 1);
    return g->listings;
}

struct listing *listing_create(struct place_group *g, struct fn_snap_builder *given)
{
    struct listing *l = calloc(1, sizeof(*l));
    uint32_t n = given ? given->n : 0;

    if (!l) {
        return NULL;
    }
    l->runners = malloc((n + 1) * sizeof(struct place_runner *));
    l->inflight = malloc((n + 1) * sizeof(*l->inflight));
    if (!l->runners || !l->inflight) {
        free(l->runners);
        free(l->inflight);
        free(l);
        return NULL;
    }
    l->group = g;
    g->listings_n++;
    l->no = next_number(g);
    l->refs = 1;
    l->given = given;
    l->list = n > 0 ? given->block->runners : NULL;
    return l;
}

static void listing_free(struct listing *l)
{
    TAILQ_REMOVE(&l->group->place->ended, l, link);
    l->group->listings_n--;
    builder_free(l->given);
    free(l->runners);
    free(l->inflight);
    free(l);
}

int64_t listing_let_go(struct listing *l)
{
    int64_t pause_ns = 1;
    uint32_t portion = LISTING_PORTION;

    while (l->n > 0 && portion > 0) {
        bool closed = runner_unref(l->runners[--l->n]);
        uint32_t price = closed ? CLOSE_PRICE : 1;

        portion -= price < portion ? price : portion;
        pause_ns = closed ? CLOSE_PAUSE_NS : pause_ns;
    }
    if (l->n == 0) {
        listing_free(l);
    }
    return pause_ns;
}

void listings_go_on(struct place *p, int64_t ns)
{
    bool idle = TAILQ_EMPTY(&p->binding) && TAILQ_EMPTY(&p->ended);

    if (!idle && !env_timer_is_set(&p->listing_timer)) {
        env_timer_set(p->deps.env, &p->listing_timer, env_now_ns(p->deps.env) + ns);
    }
}

struct listing *listing_ref(struct listing *l)
{
    l->refs++;
    return l;
}

void listing_unref(struct listing *l)
{
    struct place *p = l->group->place;

    if (--l->refs > 0) {
        return;
    }
    TAILQ_INSERT_TAIL(&p->ended, l, link);
    listings_go_on(p, l->n <= LISTING_PORTION ? listing_let_go(l) : 1);
}

void listings_finish(struct place *p)
{
    env_timer_clear(p->deps.env, &p->listing_timer);
    while (!TAILQ_EMPTY(&p->ended)) {
        listing_let_go(TAILQ_FIRST(&p->ended));
    }
}
