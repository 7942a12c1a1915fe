/* Turns: the order in which a group's parked calls are offered what came free.
 *
 * Apps take turns, an app's functions take turns, and calls of a function stand in the order of
 * their arrival, also those that came back from a runner that refused them. Whatever waits of one
 * function, the first call of another one is at most as far away as there are apps and functions of
 * its app that wait. A step costs no search: rings, and a pairing heap for each function (Fredman,
 * Sedgewick, Sleator, Tarjan: adding is constant, taking the first logarithmic on the average). */
#include <place/place_int.h>

#include <stdlib.h>
#include <string.h>

/* A function's calls that were parked and are not over; `first`: the heap of those to be asked. */
struct turn_line {
    struct turn_app *app;
    struct place_call *first;
    uint32_t n;
    TAILQ_ENTRY(turn_line) link; /* while `first` is set */
    UT_hash_handle hh;
    char fn_id[];
};

struct turn_app {
    struct place_group *group;
    struct turn_line *lines;
    TAILQ_HEAD(, turn_line) ring; /* lines with calls to be asked */
    TAILQ_ENTRY(turn_app) link; /* while `ring` is not empty */
    UT_hash_handle hh;
    char id[];
};

/* ---- the heap -------------------------------------------------------------------------------- */

static struct place_call *meld(struct place_call *a, struct place_call *b)
{
    struct place_call *later;

    if (!a || !b) {
        return a ? a : b;
    }
    later = a->arrival < b->arrival ? b : a;
    a = later == a ? b : a;
    later->turn_prev = a;
    later->turn_next = a->turn_child;
    if (a->turn_child) {
        a->turn_child->turn_prev = later;
    }
    a->turn_child = later;
    return a;
}

static struct place_call *cut_off(struct place_call *pc)
{
    pc->turn_prev = pc->turn_next = NULL;
    return pc;
}

/* Two by two, then all from the last to the first. */
static struct place_call *meld_children(struct place_call *pc)
{
    struct place_call *next = pc->turn_child, *pairs = NULL, *heap = NULL;

    pc->turn_child = NULL;
    while (next) {
        struct place_call *a = next;
        struct place_call *b = a->turn_next;

        next = b ? b->turn_next : NULL;
        a = meld(cut_off(a), b ? cut_off(b) : NULL);
        a->turn_next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct place_call *a = pairs;

        pairs = a->turn_next;
        heap = meld(heap, cut_off(a));
    }
    return heap;
}

static void heap_remove(struct turn_line *l, struct place_call *pc)
{
    if (l->first == pc) {
        l->first = meld_children(pc);
        return;
    }
    if (pc->turn_prev->turn_child == pc) {
        pc->turn_prev->turn_child = pc->turn_next;
    } else {
        pc->turn_prev->turn_next = pc->turn_next;
    }
    if (pc->turn_next) {
        pc->turn_next->turn_prev = pc->turn_prev;
    }
    cut_off(pc);
    l->first = meld(l->first, meld_children(pc));
}

/* ---- apps and lines -------------------------------------------------------------------------- */

static struct turn_app *app_get(struct place_group *g, const char *app_id)
{
    struct turn_app *a;

    TABLE_GET(g->apps, id, app_id, a);
    if (a && !a->group) {
        a->group = g;
        TAILQ_INIT(&a->ring);
    }
    return a;
}

static void app_release(struct turn_app *a)
{
    if (!a->lines) {
        HASH_DEL(a->group->apps, a);
        free(a);
    }
}

int turns_join(struct place_call *pc)
{
    struct place_group *g = pc->group;
    struct turn_app *a = app_get(g, pc->view.app_id ? pc->view.app_id : "");

    if (!a) {
        return FN_E_EXHAUSTED;
    }
    TABLE_GET(a->lines, fn_id, pc->view.fn_id ? pc->view.fn_id : "", pc->line);
    if (!pc->line) {
        app_release(a);
        return FN_E_EXHAUSTED;
    }
    pc->line->app = a;
    pc->line->n++;
    pc->arrival = g->arrivals++;
    return 0;
}

void turns_leave(struct place_call *pc)
{
    struct turn_line *l = pc->line;
    struct turn_app *a = l->app;

    pc->line = NULL;
    if (--l->n == 0) {
        HASH_DEL(a->lines, l);
        free(l);
        app_release(a);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

void turns_park(struct place_call *pc)
{
    if (pc->wake_mask & FN_WAKE_CAPACITY) {
        turns_add(pc);
    }
}

void turns_add(struct place_call *pc)
{
    struct turn_line *l = pc->line;
    struct turn_app *a = l->app;

    pc->has_turn = true;
    if (!l->first) {
        if (TAILQ_EMPTY(&a->ring)) {
            TAILQ_INSERT_TAIL(&a->group->turns, a, link);
        }
        TAILQ_INSERT_TAIL(&a->ring, l, link);
    }
    l->first = meld(l->first, pc);
}

void turns_remove(struct place_call *pc)
{
    struct turn_line *l = pc->line;
    struct turn_app *a = l->app;

    if (!pc->has_turn) {
        return;
    }
    pc->has_turn = false;
    heap_remove(l, pc);
    if (!l->first) {
        TAILQ_REMOVE(&a->ring, l, link);
        if (TAILQ_EMPTY(&a->ring)) {
            TAILQ_REMOVE(&a->group->turns, a, link);
        }
    }
}

struct place_call *turns_next(struct place_group *g)
{
    struct turn_app *a = TAILQ_FIRST(&g->turns);
    struct turn_line *l = a ? TAILQ_FIRST(&a->ring) : NULL;
    struct place_call *pc = l ? l->first : NULL;

    if (pc) {
        TAILQ_REMOVE(&g->turns, a, link);
        TAILQ_INSERT_TAIL(&g->turns, a, link);
        TAILQ_REMOVE(&a->ring, l, link);
        TAILQ_INSERT_TAIL(&a->ring, l, link);
        turns_remove(pc);
    }
    return pc;
}
