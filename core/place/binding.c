/* Binding: how a pool's list becomes its group's snapshot.
 *
 * A list of at most LISTING_PORTION entries is the snapshot when listing_publish() returns,
 * whatever is on its way then. Of longer ones one is bound at a time, a portion a turn of the loop,
 * and one waits, the newest; so a pool that publishes faster than that does not keep its own lists
 * from being used. Calls go on with the snapshot that is. */
#include <place/place_int.h>

#include <base/log.h>

static uint32_t entries(const struct listing *l)
{
    return l->given ? l->given->n : 0;
}

/* Pools keep the order of runners that stay. */
static struct place_runner *next_runner(struct listing *l, const struct fn_runner *e)
{
    const struct listing *now = l->group->snap->listing;
    struct place_runner *guess = l->guess < now->n ? now->runners[l->guess] : NULL;
    struct place_runner *r = runner_get(l->group, guess, e);

    if (r && seat_is_in(r, now)) {
        l->guess = seat_index(r, now) + 1;
    }
    return r;
}

/* An entry that stands twice is left out the second time: a runner has one place in a list. */
static int bind_portion(struct listing *l)
{
    for (uint32_t i = 0; i < LISTING_PORTION && l->looked_at < entries(l); i++) {
        struct fn_runner *e = &l->list[l->looked_at++];
        struct place_runner *r = next_runner(l, e);

        if (!r) {
            return FN_E_EXHAUSTED;
        }
        if (seat_is_in(r, l)) {
            runner_unref(r);
            continue;
        }
        l->list[l->n] = *e;
        l->list[l->n].since_ns = r->since_ns;
        seat_take(r, l);
    }
    return 0;
}

static void binding_end(struct place_group *g)
{
    struct listing *l = g->binding;

    g->binding = NULL;
    TAILQ_REMOVE(&g->place->binding, l, link);
    listing_unref(l);
}

static void report_twice(const struct listing *l)
{
    const struct source *s = l->group->place->source;

    if (l->n < entries(l)) {
        log_stranger(FN_LOG_WARN, "the pool listed runners twice; each counts once", "group",
                     l->group->name, "listed", log_num(entries(l)), "runners", log_num(l->n));
        if (s && l->group->published_by == s->seq) {
            plugin_bad_answer(s->pool, "fn.snap.publish: a runner is listed twice");
        }
    }
}

/* All its entries have their runner. */
static int become_current(struct place_group *g)
{
    int r;

    report_twice(g->binding);
    r = snapshot_swap(g, g->binding);
    if (r == 0) {
        group_wake(g, 64, FN_WAKE_POOL);
        log_stranger(FN_LOG_INFO, "runners published", "group", g->name, "runners",
                     log_num(g->snap->view.n), "epoch", log_num((int64_t)g->snap->view.epoch));
    }
    return r;
}

/* One portion; with the last one the listing is the snapshot. < 0: it ended, the old one stays. */
static int bind(struct place_group *g)
{
    struct listing *l = g->binding;
    int r = bind_portion(l);

    if (r == 0 && l->looked_at < entries(l)) {
        return 0;
    }
    r = r < 0 ? r : become_current(g);
    binding_end(g);
    return r;
}

static int listing_begin(struct place_group *g, struct fn_snap_builder *given)
{
    g->binding = listing_create(g, given);
    if (!g->binding) {
        builder_free(given);
        return FN_E_EXHAUSTED;
    }
    TAILQ_INSERT_TAIL(&g->place->binding, g->binding, link);
    return 0;
}

static void go_on_binding(struct place_group *g)
{
    struct fn_snap_builder *next = g->next;
    int r = bind(g);

    if (!g->binding && next) {
        int begun = listing_begin(g, next);

        g->next = NULL;
        r = r < 0 ? r : begun;
    }
    if (r < 0) {
        log_stranger(FN_LOG_WARN, "a list of runners was not taken, the last one stays", "group",
                     g->name, "error", err_name(r));
    }
}

static void listing_on_turn(struct env_timer *t)
{
    struct place *p = container_of(t, struct place, listing_timer);
    int64_t pause_ns = 1;

    if (!TAILQ_EMPTY(&p->binding)) {
        go_on_binding(TAILQ_FIRST(&p->binding)->group);
        links_open(p);
    } else if (!TAILQ_EMPTY(&p->ended)) {
        pause_ns = listing_let_go(TAILQ_FIRST(&p->ended));
    }
    listings_go_on(p, pause_ns);
}

/* ---- publishing ------------------------------------------------------------------------------ */

void listing_forget(struct place_group *g)
{
    builder_free(g->next);
    g->next = NULL;
    if (g->binding) {
        binding_end(g);
    }
}

int listing_publish(struct place_group *g, struct fn_snap_builder *given)
{
    struct place *p = g->place;
    int r;

    g->published_by = p->source ? p->source->seq : 0;
    if (g->binding && given->n > LISTING_PORTION) {
        builder_free(g->next);
        g->next = given;
        return 0;
    }
    listing_forget(g);
    r = listing_begin(g, given);
    r = r < 0 ? r : bind(g);
    links_open(p);
    listings_go_on(p, 1);
    return r;
}

int listing_clear(struct place_group *g)
{
    struct listing *l = listing_create(g, NULL);
    int r;

    if (!l) {
        return FN_E_EXHAUSTED;
    }
    listing_forget(g);
    r = snapshot_swap(g, l);
    listing_unref(l);
    return r;
}

void listings_init(struct place *p)
{
    TAILQ_INIT(&p->binding);
    TAILQ_INIT(&p->ended);
    p->listing_timer.cb = listing_on_turn;
}
