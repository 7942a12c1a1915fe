/* Parties stand in a list, each with its queue. A free place is offered to the parties by turns,
 * to the first one whose share allows one more. */
#include <runner/gate.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void party_init(struct gate_party *y)
{
    TAILQ_INIT(&y->urgent);
    TAILQ_INIT(&y->normal);
}

void gate_init(struct gate *g, uint32_t max)
{
    *g = (struct gate){ .max = max };
    TAILQ_INIT(&g->turns);
    for (int i = 0; i < GATE_PARTIES; i++) {
        party_init(&g->rest[i]);
    }
}

/* ---- parties ------------------------------------------------------------------------------- */

static struct gate_party *party_of(struct gate *g, int kind, const char *name)
{
    struct gate_party *y = NULL;

    if (!name) {
        return NULL;
    }
    HASH_FIND_STR(g->parties[kind], name, y);
    if (y) {
        return y;
    }
    y = calloc(1, sizeof(*y));
    if (!y || !(y->name = strdup(name))) {
        free(y);
        return &g->rest[kind];
    }
    party_init(y);
    HASH_ADD_KEYPTR(hh, g->parties[kind], y->name, strlen(y->name), y);
    if (!table_has(y)) {
        free(y->name);
        free(y);
        return &g->rest[kind];
    }
    return y;
}

static void party_drop_unused(struct gate *g, int kind, struct gate_party *y)
{
    if (y && y->name && y->held == 0 && y->waiting == 0) {
        HASH_DELETE(hh, g->parties[kind], y);
        free(y->name);
        free(y);
    }
}

static void gate_forget(struct gate *g, struct gate_pass *p)
{
    for (int i = 0; i < GATE_PARTIES; i++) {
        party_drop_unused(g, i, p->party[i]);
        p->party[i] = NULL;
    }
}

static void count_waiting(struct gate_pass *p, uint32_t one)
{
    for (int i = 0; i < GATE_PARTIES; i++) {
        if (p->party[i]) {
            p->party[i]->waiting += one;
        }
    }
}

static void count_held(struct gate *g, struct gate_pass *p, uint32_t one)
{
    g->held += one;
    for (int i = 0; i < GATE_PARTIES; i++) {
        if (p->party[i]) {
            p->party[i]->held += one;
        }
    }
}

/* Of which nobody is here: all zero. */
static const struct gate_party *first_party(const struct gate *g, const char *name)
{
    static const struct gate_party nobody;
    const struct gate_party *y;

    HASH_FIND_STR(g->parties[0], name, y);
    return y ? y : &nobody;
}

uint64_t gate_load(const struct gate *g, const char *first)
{
    const struct gate_party *y = first_party(g, first);

    return (uint64_t)y->held << 32 | y->waiting;
}

/* At most `n` of its party are let in before it. */
static bool is_among_first(const struct gate_pass *p, uint32_t n)
{
    const struct gate_party *y = p->party[0];
    const struct gate_pass *before = TAILQ_FIRST(p->urgent ? &y->urgent : &y->normal);

    while (before != p && n > 0) {
        before = TAILQ_NEXT(before, link);
        n--;
    }
    return before == p;
}

bool gate_is_sooner(const struct gate *g, const char *first, const struct gate_pass *p)
{
    const struct gate_party *y = first_party(g, first), *own = p->party[0];

    return y->held == own->held ? !is_among_first(p, y->waiting) : y->held < own->held;
}

/* ---- who may enter ------------------------------------------------------------------------- */

static bool has_place(const struct gate *g, const struct gate_pass *p)
{
    if (g->shut || g->held >= g->max) {
        return false;
    }
    for (int i = 0; i < GATE_PARTIES && !g->no_shares; i++) {
        if (p->party[i] && p->party[i]->held >= g->max - g->held) {
            return false;
        }
    }
    return true;
}

static struct gate_pass *first_with_place(const struct gate *g, const struct gate_pass_list *list)
{
    struct gate_pass *p;

    TAILQ_FOREACH(p, list, link) {
        if (has_place(g, p)) {
            return p;
        }
        if (!p->party[1]) {
            return NULL; /* nor has one behind it */
        }
    }
    return NULL;
}

static struct gate_pass *next_in(const struct gate *g)
{
    const struct gate_party *y;

    TAILQ_FOREACH(y, &g->turns, turn) {
        struct gate_pass *p = first_with_place(g, &y->urgent);

        p = p ? p : first_with_place(g, &y->normal);
        if (p) {
            return p;
        }
    }
    return NULL;
}

static void set_in_turns(struct gate *g, struct gate_party *y)
{
    bool on = !TAILQ_EMPTY(&y->urgent) || !TAILQ_EMPTY(&y->normal);

    if (on && !y->in_turns) {
        TAILQ_INSERT_TAIL(&g->turns, y, turn);
    } else if (!on && y->in_turns) {
        TAILQ_REMOVE(&g->turns, y, turn);
    }
    y->in_turns = on;
}

static void wait(struct gate *g, struct gate_pass *p)
{
    struct gate_party *y = p->party[0];

    p->waits = true;
    count_waiting(p, 1);
    TAILQ_INSERT_TAIL(p->urgent ? &y->urgent : &y->normal, p, link);
    g->waiting += !p->urgent;
    set_in_turns(g, y);
}

static void unwait(struct gate *g, struct gate_pass *p)
{
    struct gate_party *y = p->party[0];

    p->waits = false;
    count_waiting(p, -1u);
    TAILQ_REMOVE(p->urgent ? &y->urgent : &y->normal, p, link);
    g->waiting -= !p->urgent;
    set_in_turns(g, y);
}

void gate_let_in(struct gate *g)
{
    struct gate_pass *p;

    if (g->letting_in) {
        return; /* go() ended it at once: the loop below goes on */
    }
    g->letting_in = true;
    while (!g->shut && g->held < g->max && (p = next_in(g))) {
        struct gate_party *y = p->party[0];

        p->inside = true;
        count_held(g, p, 1);
        unwait(g, p);
        if (y->in_turns) { /* the others' turn */
            TAILQ_REMOVE(&g->turns, y, turn);
            TAILQ_INSERT_TAIL(&g->turns, y, turn);
        }
        p->go(p);
    }
    g->letting_in = false;
}

/* ---- doors --------------------------------------------------------------------------------- */

static void name_parties(struct gate *g, struct gate_pass *p, const char *first, const char *second)
{
    assert(!p->waits && !p->inside && first);
    p->party[0] = party_of(g, 0, first);
    p->party[1] = party_of(g, 1, second);
}

void gate_enter(struct gate *g, struct gate_pass *p, const char *first, const char *second)
{
    name_parties(g, p, first, second);
    wait(g, p);
    gate_let_in(g);
}

bool gate_try(struct gate *g, struct gate_pass *p, const char *first, const char *second)
{
    name_parties(g, p, first, second);
    if (!has_place(g, p)) {
        gate_forget(g, p);
        return false;
    }
    p->inside = true;
    count_held(g, p, 1);
    return true;
}

void gate_leave(struct gate *g, struct gate_pass *p)
{
    assert(p->inside);
    p->inside = false;
    count_held(g, p, -1u);
    gate_forget(g, p);
}

void gate_withdraw(struct gate *g, struct gate_pass *p)
{
    if (p->waits) {
        unwait(g, p);
        gate_forget(g, p);
    }
}
