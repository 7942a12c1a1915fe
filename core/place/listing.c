/* Listings: a pool's list on its way to be its group's snapshot, and on its way out.
 *
 *   binding ──each entry has its runner──▶ a snapshot's ──the last one over it is gone──▶ ended
 *      └──a newer list, no memory──▶ ended ──each runner is let go──▶ freed
 *
 * Ten thousand runners take milliseconds to bind and to let go, and calls would wait that long.
 * So a turn of the loop does a portion of it, whose price is bounded: PORTION entries, of which one
 * that closes its runner's link counts for CLOSE_PRICE; closing is in no hurry and pauses after
 * each portion. Calls go on with the snapshot that is.
 *
 * A list of at most PORTION entries is the snapshot when listing_publish() returns, whatever is on
 * its way then. Of longer ones one is bound at a time and one waits, the newest; so a pool that
 * publishes faster than that does not keep its own lists from being used.
 *
 * While a listing is bound, runners stand in it and in the current one. The two have numbers of
 * different parity, hence a runner's two seats. */
#include <place/place_int.h>

#include <base/log.h>
#include <stdlib.h>

#define PORTION        256u
#define CLOSE_PRICE    32u
#define CLOSE_PAUSE_NS ENV_MS

/* ---- the way out ----------------------------------------------------------------------------- */

static void listing_free(struct listing *l)
{
    TAILQ_REMOVE(&l->group->place->ended, l, link);
    l->group->listings_n--;
    builder_free(l->given);
    free(l->runners);
    free(l->inflight);
    free(l);
}

/* One portion; frees it with its last runner. Returns when to go on. */
static int64_t listing_let_go(struct listing *l)
{
    int64_t pause_ns = 1;
    uint32_t portion = PORTION;

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

/* Not in this turn of the loop: other events come first. */
static void go_on_after(struct place *p, int64_t ns)
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
    go_on_after(p, l->n <= PORTION ? listing_let_go(l) : 1);
}

/* ---- seats ----------------------------------------------------------------------------------- */

static struct seat *seat_of(struct place_runner *r, const struct listing *l)
{
    return &r->seats[l->no & 1];
}

static bool sits_in(struct place_runner *r, const struct listing *l)
{
    return seat_of(r, l)->listing_no == l->no;
}

static void sit_down(struct place_runner *r, struct listing *l)
{
    *seat_of(r, l) = (struct seat){ .listing_no = l->no, .index = l->n };
    l->runners[l->n] = r;
    l->inflight[l->n] = r->inflight;
    l->inflight_total += r->inflight;
    l->n++;
}

static void follow(struct listing *l, struct place_runner *r, uint32_t n)
{
    if (l && sits_in(r, l)) {
        l->inflight_total += n;
        l->inflight_total -= r->inflight;
        l->inflight[seat_of(r, l)->index] = n;
    }
}

void runner_set_inflight(struct place_runner *r, uint32_t n)
{
    follow(r->group->snap->listing, r, n);
    follow(r->group->binding, r, n);
    r->inflight = n;
}

const char *runner_labels(struct place_runner *r)
{
    const struct listing *now = r->group->snap->listing;

    return sits_in(r, now) ? now->list[seat_of(r, now)->index].labels : NULL;
}

/* ---- binding --------------------------------------------------------------------------------- */

static uint64_t next_number(struct place_group *g)
{
    uint64_t replaced = g->snap ? g->snap->listing->no : 0;

    g->listings++;
    g->listings += (g->listings & 1) == (replaced & 1);
    return g->listings;
}

/* Owns the builder (NULL: an empty list) unless it fails. */
static struct listing *listing_create(struct place_group *g, struct fn_snap_builder *given)
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

    if (r && sits_in(r, now)) {
        l->guess = seat_of(r, now)->index + 1;
    }
    return r;
}

/* An entry that stands twice is left out the second time: a runner has one place in a list. */
static int bind_portion(struct listing *l)
{
    for (uint32_t i = 0; i < PORTION && l->looked_at < entries(l); i++) {
        struct fn_runner *e = &l->list[l->looked_at++];
        struct place_runner *r = next_runner(l, e);

        if (!r) {
            return FN_E_EXHAUSTED;
        }
        if (sits_in(r, l)) {
            runner_unref(r);
            continue;
        }
        l->list[l->n] = *e;
        l->list[l->n].since_ns = r->since_ns;
        sit_down(r, l);
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
    go_on_after(p, pause_ns);
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

int listing_publish(struct place *p, struct fn_snap_builder *given)
{
    struct place_group *g = group_get(p, given->group);
    int r;

    if (!g) {
        builder_free(given);
        return FN_E_EXHAUSTED;
    }
    g->published_by = p->source ? p->source->seq : 0;
    if (g->binding && given->n > PORTION) {
        builder_free(g->next);
        g->next = given;
        return 0;
    }
    listing_forget(g);
    r = listing_begin(g, given);
    r = r < 0 ? r : bind(g);
    links_open(p);
    go_on_after(p, 1);
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

void listings_finish(struct place *p)
{
    env_timer_clear(p->deps.env, &p->listing_timer);
    while (!TAILQ_EMPTY(&p->ended)) {
        listing_let_go(TAILQ_FIRST(&p->ended));
    }
}
