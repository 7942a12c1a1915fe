/* Two counts of places, one queue of refreshes, and a ring of addresses with a queue each. One
 * timer ends what has waited too long. */
#include <lb/lookups.h>

#include <base/share.h>
#include <fn/abi.h>
#include <stdlib.h>
#include <string.h>

/* One address with new lookups that wait. */
struct lookup_asker {
    unsigned char address[LOOKUPS_ADDRESS];
    uint32_t n;
    struct lookup_list lookups;
    TAILQ_ENTRY(lookup_asker) link;
    UT_hash_handle hh;
};

static struct lookup_asker *asker_of(struct lookups *s, const unsigned char *address)
{
    struct lookup_asker *a;

    HASH_FIND(hh, s->askers, address, LOOKUPS_ADDRESS, a);
    if (a) {
        return a;
    }
    a = calloc(1, sizeof(*a));
    if (a) {
        memcpy(a->address, address, LOOKUPS_ADDRESS);
        TAILQ_INIT(&a->lookups);
        HASH_ADD(hh, s->askers, address, LOOKUPS_ADDRESS, a);
        if (!table_has(a)) {
            free(a);
            return NULL;
        }
        TAILQ_INSERT_TAIL(&s->ring, a, link);
    }
    return a;
}

static void asker_release(struct lookups *s, struct lookup_asker *a)
{
    if (a->n == 0) {
        TAILQ_REMOVE(&s->ring, a, link);
        HASH_DEL(s->askers, a);
        free(a);
    }
}

static void asker_add(struct lookup_asker *a, struct lookup *l)
{
    l->asker = a;
    TAILQ_INSERT_TAIL(&a->lookups, l, link);
    a->n++;
}

static void asker_remove(struct lookups *s, struct lookup *l)
{
    struct lookup_asker *a = l->asker;

    TAILQ_REMOVE(&a->lookups, l, link);
    l->asker = NULL;
    a->n--;
    asker_release(s, a);
}

static bool has_share(const struct lookups *s, const struct lookup_asker *a)
{
    static const unsigned char nobody[LOOKUPS_ADDRESS];
    uint64_t own = memcmp(a->address, nobody, LOOKUPS_ADDRESS) == 0 ? 0 : a->n;

    return share_allows(LOOKUPS_WAITING_MAX, s->waiting_n, own, 1);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void set_timer(struct lookups *s)
{
    const struct lookup *oldest = TAILQ_FIRST(&s->by_age);

    if (oldest && !env_timer_is_set(&s->timer)) {
        env_timer_set(s->env, &s->timer, oldest->until_ns);
    }
}

static int wait_new(struct lookups *s, struct lookup *l, const unsigned char *address)
{
    struct lookup_asker *a = asker_of(s, address);

    if (!a || !has_share(s, a)) {
        if (a) {
            asker_release(s, a);
        }
        return FN_E_EXHAUSTED;
    }
    l->waits = true;
    l->until_ns = env_now_ns(s->env) + LOOKUPS_WAIT_NS;
    asker_add(a, l);
    TAILQ_INSERT_TAIL(&s->by_age, l, age_link);
    s->waiting_n++;
    set_timer(s);
    return 0;
}

static void leave_queue(struct lookups *s, struct lookup *l)
{
    l->waits = false;
    if (l->kind == LOOKUP_REFRESH) {
        TAILQ_REMOVE(&s->refreshes, l, link);
        return;
    }
    TAILQ_REMOVE(&s->by_age, l, age_link);
    s->waiting_n--;
    asker_remove(s, l);
}

static void on_late(struct env_timer *t)
{
    struct lookups *s = container_of(t, struct lookups, timer);
    int64_t now_ns = env_now_ns(s->env);
    struct lookup *l;

    while ((l = TAILQ_FIRST(&s->by_age)) && l->until_ns <= now_ns) {
        leave_queue(s, l);
        l->late(l);
    }
    set_timer(s);
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool has_place(const struct lookups *s, enum lookup_kind kind)
{
    return s->places[kind] < LOOKUPS_PLACES;
}

static void lookups_begin(struct lookups *s, struct lookup *l)
{
    l->has_place = true;
    s->places[l->kind]++;
    l->begin(l);
}

/* The next one of this kind: new ones one address after the other. */
static struct lookup *next_of(struct lookups *s, enum lookup_kind kind)
{
    struct lookup_asker *a = TAILQ_FIRST(&s->ring);

    if (kind == LOOKUP_REFRESH) {
        return TAILQ_FIRST(&s->refreshes);
    }
    if (!a) {
        return NULL;
    }
    TAILQ_REMOVE(&s->ring, a, link);
    TAILQ_INSERT_TAIL(&s->ring, a, link);
    return TAILQ_FIRST(&a->lookups);
}

static void lookups_on_task(struct env_task *t)
{
    struct lookups *s = container_of(t, struct lookups, task);

    for (int kind = 0; kind < LOOKUP_KINDS_N; kind++) {
        struct lookup *l;

        while (has_place(s, (enum lookup_kind)kind) && (l = next_of(s, (enum lookup_kind)kind))) {
            leave_queue(s, l);
            lookups_begin(s, l);
        }
    }
}

/* ---- one lookup ------------------------------------------------------------------------------ */

int lookups_start(struct lookups *s, struct lookup *l, const unsigned char *address)
{
    bool others_wait = l->kind == LOOKUP_REFRESH ? !TAILQ_EMPTY(&s->refreshes) : s->waiting_n > 0;

    if (has_place(s, l->kind) && !others_wait) {
        lookups_begin(s, l);
        return 0;
    }
    if (l->kind == LOOKUP_REFRESH) {
        l->waits = true;
        TAILQ_INSERT_TAIL(&s->refreshes, l, link);
        return 0;
    }
    return wait_new(s, l, address);
}

/* At most `n` of its address are asked about before it. */
static bool is_among_first(const struct lookup *l, uint32_t n)
{
    const struct lookup *before = TAILQ_FIRST(&l->asker->lookups);

    while (before != l && n > 0) {
        before = TAILQ_NEXT(before, link);
        n--;
    }
    return before == l;
}

void lookups_join(struct lookups *s, struct lookup *l, const unsigned char *address)
{
    struct lookup_asker *a = l->asker ? asker_of(s, address) : NULL;

    if (a && !is_among_first(l, a->n)) {
        asker_remove(s, l);
        asker_add(a, l);
    } else if (a) {
        asker_release(s, a);
    }
}

/* The next ones begin in a task: lookups_begin() may end at once, and again, and again. */
void lookups_end(struct lookups *s, struct lookup *l)
{
    if (l->waits) {
        leave_queue(s, l);
    }
    s->places[l->kind] -= l->has_place;
    l->has_place = false;
    if (s->waiting_n > 0 || !TAILQ_EMPTY(&s->refreshes)) {
        env_defer(s->env, &s->task);
    }
}

void lookups_init(struct lookups *s, struct env *env)
{
    *s = (struct lookups){ .env = env, .task.cb = lookups_on_task, .timer.cb = on_late };
    TAILQ_INIT(&s->refreshes);
    TAILQ_INIT(&s->ring);
    TAILQ_INIT(&s->by_age);
}

void lookups_finish(struct lookups *s)
{
    env_undefer(s->env, &s->task);
    if (env_timer_is_set(&s->timer)) {
        env_timer_clear(s->env, &s->timer);
    }
}
