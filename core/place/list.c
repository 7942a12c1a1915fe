/* The runners of all groups, for people who look. */
#include <place/place_int.h>

/* The list of g or of the next group that has one is held; NULL: none is left. */
static void walk_hold(struct place_walk *w, struct place_group *g)
{
    while (g && g->snap->view.n == 0) {
        g = g->hh.next;
    }
    w->group = g;
    w->held = g ? g->snap : NULL;
    w->i = 0;
    if (w->held) {
        w->held->refs++;
    }
}

void place_walk(struct place *p, struct place_walk *w)
{
    walk_hold(w, p->groups);
}

static const char *state_of(const struct place_runner *r, const struct fn_runner *e)
{
    if (!r->link) {
        return "not dialled yet";
    }
    if (!runner_is_up(r)) {
        return "down";
    }
    return r->failing ? "failing" : e->flags & FN_RUNNER_DRAINING ? "draining" : "up";
}

bool place_walk_next(struct place_walk *w, struct place_runner_row *ret)
{
    struct snapshot *s = w->held;
    const struct place_runner *r;

    if (s && w->i == s->view.n) {
        walk_hold(w, w->group->hh.next);
        snapshot_unref(s);
        s = w->held;
    }
    if (!s) {
        return false;
    }
    r = s->runners[w->i];
    *ret = (struct place_runner_row){ .group = w->group->name,
                                      .address = runner_address(r),
                                      .labels = s->list[w->i].labels,
                                      .state = state_of(r, &s->list[w->i]),
                                      .inflight = r->inflight,
                                      .capacity_mb = s->list[w->i].capacity_mb };
    w->i++;
    return true;
}

void place_walk_end(struct place_walk *w)
{
    snapshot_unref(w->held);
    w->held = NULL;
}
