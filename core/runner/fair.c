/* Fair share: who gets the room of a runner on which every container has a call.
 *
 * Idle containers are evicted for whoever needs room. When there are none, a function whose calls
 * follow each other without a pause would keep all its containers for ever, and one that has none
 * would be refused for ever. So a function that found no room and asks again has a claim. When a
 * container of somebody else ends a call, it is closed and its room promised to the poorest
 * claimant, if that makes their shares more equal: those of their apps, or within one app those of
 * the functions. A share is what the containers hold of memory or of processors, whichever is
 * more; idle ones are anybody's and count for nobody.
 *
 * What keeps it calm: calls that run are never ended; a container is taken after FAIR_TURN_NS at
 * the earliest; who has containers already gets one more only if the other one still has as much
 * afterwards. Only who has none also gets what nobody has too much of, after the same time: then
 * they take turns. Claims are a bounded number, and end FAIR_CLAIM_NS after the last call that
 * asked. What frees room otherwise, such as a crash, is promised in the same way. */
#include <runner/runner_int.h>

#include <stdlib.h>
#include <string.h>

/* ---- shares -------------------------------------------------------------------------------- */

static double part(uint64_t held, uint64_t total)
{
    return total > 0 ? (double)held / (double)total : 0;
}

static double fair_share(const struct runner *r, const struct account_need *held)
{
    double mem = part(held->mem_bytes, r->account.totals.mem_bytes);
    double cpu = part(held->cpu_milli, r->account.totals.cpu_milli);

    return mem > cpu ? mem : cpu;
}

static struct account_need held_by(const struct slot_queue *q)
{
    uint32_t n = q->n_containers - q->n_evictable;

    return (struct account_need){ .mem_bytes = q->need.mem_bytes * n,
                                  .cpu_milli = q->need.cpu_milli * n };
}

bool fair_join(struct slot_queue *q)
{
    TABLE_GET(q->r->fair.apps, id, q->app_id, q->app);
    if (q->app) {
        q->app->queues++;
    }
    return q->app != NULL;
}

void fair_more(struct slot_queue *q)
{
    q->n_containers++;
    account_add(&q->app->held, &q->need);
}

void fair_less(struct slot_queue *q)
{
    q->n_containers--;
    account_sub(&q->app->held, &q->need);
}

void fair_rests(struct slot_queue *q, bool on)
{
    q->n_evictable += on ? 1 : -1u;
    account_move(&q->app->held, &q->need, !on);
}

/* ---- claims -------------------------------------------------------------------------------- */

static void promise(struct slot_queue *q, const struct account_need *n)
{
    account_sub(&q->r->reserving, &q->claim.promised);
    account_add(&q->r->reserving, n);
    q->claim.promised = *n;
}

static void end_claim(struct slot_queue *q)
{
    const struct account_need none = { 0, 0 };
    struct fair *f = &q->r->fair;

    if (!q->claim.noted) {
        return;
    }
    promise(q, &none);
    f->n_open -= q->claim.open;
    f->n_claims--;
    q->app->claims--;
    TAILQ_REMOVE(&f->claims, q, claim.link);
    q->claim = (struct claim){ .barred_ns = q->claim.barred_ns };
}

void fair_leave(struct slot_queue *q)
{
    end_claim(q);
    if (--q->app->queues == 0) {
        HASH_DELETE(hh, q->r->fair.apps, q->app);
        free(q->app);
    }
    q->app = NULL;
}

/* One of a function that has containers makes place for one of a function that has none. */
static bool make_place(struct slot_queue *q)
{
    struct fair *f = &q->r->fair;
    bool app_is_full = q->app->claims >= FAIR_CLAIMS_OF_APP_MAX;
    struct slot_queue *other;

    if (!app_is_full && f->n_claims < FAIR_CLAIMS_MAX) {
        return true;
    }
    TAILQ_FOREACH_REVERSE(other, &f->claims, claim_list, claim.link) {
        if (q->n_containers == 0 && other->n_containers > 0 &&
            (!app_is_full || other->app == q->app)) {
            end_claim(other);
            return true;
        }
    }
    return false;
}

static bool note(struct slot_queue *q, int64_t now)
{
    struct fair *f = &q->r->fair;

    if (q->r->draining || !make_place(q)) {
        return false;
    }
    q->claim.noted = true;
    q->claim.since_ns = q->claim.asked_ns = now;
    TAILQ_INSERT_TAIL(&f->claims, q, claim.link);
    f->n_claims++;
    q->app->claims++;
    env_timer_hasten(q->r->env, &f->timer, now + FAIR_CLAIM_NS);
    return true;
}

void fair_ask(struct slot_queue *q)
{
    int64_t now = env_now_ns(q->r->env);

    if (!q->claim.noted && !note(q, now)) {
        return;
    }
    q->claim.asked_ns = now;
    if (!q->claim.open && now - q->claim.since_ns >= FAIR_RETURN_NS && now >= q->claim.barred_ns) {
        q->claim.open = true;
        q->r->fair.n_open++;
    }
}

struct account_need fair_ahead(const struct slot_queue *q)
{
    struct account_need ahead = q->r->reserving;

    account_sub(&ahead, &q->claim.promised);
    return ahead;
}

bool fair_served(struct slot_queue *q)
{
    bool promised = !account_is_zero(&q->claim.promised);

    end_claim(q);
    return promised;
}

void fair_failed(struct slot_queue *q)
{
    int64_t now = env_now_ns(q->r->env);

    q->claim.barred_ns = now + FAIR_BAR_NS;
    if (!q->claim.noted) {
        note(q, now); /* its queue is kept, and what it may not do */
    }
}

/* When it is forgotten, if nobody asks any more. */
static int64_t claim_end_ns(const struct slot_queue *q, int64_t now)
{
    int64_t asked_ns = q->n_waiters > 0 && q->starved ? now : q->claim.asked_ns;
    int64_t end_ns = asked_ns + FAIR_CLAIM_NS;

    return end_ns > q->claim.barred_ns ? end_ns : q->claim.barred_ns;
}

static void on_claims(struct env_timer *t)
{
    struct runner *r = container_of(t, struct runner, fair.timer);
    int64_t now = env_now_ns(r->env);
    struct slot_queue *q, *next;
    bool room = false;

    for (q = TAILQ_FIRST(&r->fair.claims); q; q = next) {
        int64_t end_ns = claim_end_ns(q, now);

        next = TAILQ_NEXT(q, claim.link);
        if (now < end_ns) {
            env_timer_hasten(r->env, t, end_ns);
            continue;
        }
        room |= !account_is_zero(&q->claim.promised);
        end_claim(q);
        slots_maybe_destroy(q);
    }
    if (room) {
        slots_room(r);
    }
}

/* ---- containers that change hands ---------------------------------------------------------- */

/* Whether the room of `c`, which another function has, should be q's. */
static bool is_heir(const struct slot_queue *q, const struct container *c)
{
    const struct runner *r = q->r;
    bool same_app = q->app == c->q->app;
    struct account_need missing = slots_missing(q, &r->closing);
    struct account_need mine = same_app ? held_by(q) : q->app->held;
    struct account_need theirs = same_app ? held_by(c->q) : c->q->app->held;
    struct account_need still = account_minus(&missing, &c->need);
    bool first = account_is_zero(&mine);

    if (!slots_helps(c, &missing)) {
        return false;
    }
    account_add(&mine, &q->need);
    theirs = account_minus(&theirs, &c->need);
    if (fair_share(r, &theirs) >= fair_share(r, &mine)) {
        return first || account_is_zero(&still);
    }
    return first && env_now_ns(r->env) - q->claim.since_ns >= FAIR_TURN_NS;
}

static bool is_poorer(const struct slot_queue *a, const struct slot_queue *b)
{
    struct account_need of_a = held_by(a), of_b = held_by(b);
    double apps = fair_share(a->r, &a->app->held) - fair_share(b->r, &b->app->held);
    double functions = fair_share(a->r, &of_a) - fair_share(b->r, &of_b);

    return apps != 0 ? apps < 0 : functions < 0; /* else the older claim */
}

static struct slot_queue *heir_of(const struct container *c)
{
    struct slot_queue *q, *heir = NULL;

    TAILQ_FOREACH(q, &c->r->fair.claims, claim.link) {
        if (q->claim.open && q != c->q && is_heir(q, c) && (!heir || is_poorer(q, heir))) {
            heir = q;
        }
    }
    return heir;
}

void fair_offer(const struct container *c)
{
    struct slot_queue *q = heir_of(c);
    struct account_need missing, all;

    if (!q) {
        return;
    }
    missing = slots_missing(q, &q->r->closing);
    missing = account_minus(&missing, &c->need);
    all = account_minus(&q->need, &missing);
    promise(q, &all);
    if (q->n_waiters > 0) {
        slots_kick(q);
    }
}

bool fair_takes(struct container *c)
{
    struct slot_queue *heir;

    if (env_now_ns(c->r->env) - c->ready_ns < FAIR_TURN_NS || !(heir = heir_of(c))) {
        return false;
    }
    metric_add(c->r->fair.closed, 1);
    log_debug("container closed for another function", OF_CONTAINER(c), "for_fn_id", heir->fn_id);
    container_close(c);
    slots_kick(c->q);
    return true;
}

bool fair_spares(const struct container *c, uint32_t others)
{
    return c->claimed && others > 0 &&
           env_now_ns(c->r->env) - c->idle_since_ns < FAIR_TURN_NS;
}

/* ---- life ---------------------------------------------------------------------------------- */

void fair_init(struct runner *r)
{
    TAILQ_INIT(&r->fair.claims);
    r->fair.timer.cb = on_claims;
    r->fair.closed = metric_simple("fn_runner_fair_closed_total", METRIC_COUNTER,
                                   "Containers closed after a call because a function that had "
                                   "less asked for their room.");
}

void fair_stop(struct runner *r)
{
    struct slot_queue *q;

    while ((q = TAILQ_FIRST(&r->fair.claims))) {
        end_claim(q);
    }
    env_timer_clear(r->env, &r->fair.timer);
}
