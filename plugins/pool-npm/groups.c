/* Members of a group in their order, with their texts in blocks that go as a whole, and a table
 * by which a new list finds the old ones. */
#include "groups.h"

#include "hash.h"

#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

#define WORDS_BYTES (32u * 1024)

struct words {
    struct words *next;
    size_t used;
    char text[WORDS_BYTES];
};

static void words_free(struct words **list)
{
    struct words *w;

    while ((w = *list)) {
        *list = w->next;
        free(w);
    }
}

/* A copy; NULL: no memory. */
static const char *words_add(struct words **list, const char *word)
{
    size_t size = strlen(word) + 1;
    struct words *w = *list;
    char *at;

    if (!w || sizeof(w->text) - w->used < size) {
        w = malloc(sizeof(*w));
        if (!w) {
            return NULL;
        }
        w->next = *list;
        w->used = 0;
        *list = w;
    }
    at = w->text + w->used;
    w->used += size;
    return memcpy(at, word, size);
}

/* The words of `from` behind those of `to`. */
static void words_join(struct words **to, struct words **from)
{
    while (*to) {
        to = &(*to)->next;
    }
    *to = *from;
    *from = NULL;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void group_clear(struct group *g)
{
    words_free(&g->words);
    words_free(&g->new_words);
    free(g->members);
    free(g->label_sets);
    free(g->cells);
    *g = (struct group){ .name = "" };
}

void groups_finish(struct groups *gs)
{
    for (uint32_t i = 0; i < gs->n; i++) {
        group_clear(gs->list[i]);
        free(gs->list[i]);
    }
    gs->n = 0;
}

struct group *groups_find(struct groups *gs, const char *name)
{
    for (uint32_t i = 0; i < gs->n; i++) {
        if (strcmp(gs->list[i]->name, name) == 0) {
            return gs->list[i];
        }
    }
    return NULL;
}

static int is_idle(const struct group *g, int64_t now_ns)
{
    const struct fn_demand *d = &g->demand;

    return g->n == 0 && g->held == 0 && d->mem_mb == 0 && d->waiting == 0 && d->running == 0 &&
           now_ns - g->wanted_ns >= GROUPS_IDLE_NS;
}

/* A new one, or in the place of the one that was wanted longest ago. */
static struct group *group_new(struct groups *gs, int64_t now_ns)
{
    struct group *g = NULL;

    if (gs->n < GROUPS_MAX) {
        g = calloc(1, sizeof(*g));
        gs->list[gs->n] = g;
        gs->n += g != NULL;
        return g;
    }
    for (uint32_t i = 0; i < gs->n; i++) {
        struct group *other = gs->list[i];

        if (is_idle(other, now_ns) && (!g || other->wanted_ns < g->wanted_ns)) {
            g = other;
        }
    }
    if (g) {
        group_clear(g);
    }
    return g;
}

struct group *groups_get(struct groups *gs, const char *name, int64_t now_ns)
{
    struct group *g = groups_find(gs, name);
    size_t len = strlen(name);

    if (g || len > WIRE_GROUP_MAX) {
        return g;
    }
    g = group_new(gs, now_ns);
    if (g) {
        memcpy(g->name, name, len);
        g->wanted_ns = now_ns;
    }
    return g;
}

int group_is_news(const struct group *g, uint64_t epoch, uint64_t version)
{
    if (!g->known || epoch == g->epoch) {
        return !g->known || version > g->version;
    }
    return g->fresh || epoch > g->epoch;
}

/* ---- lists ----------------------------------------------------------------------------------- */

void group_list_begin(struct group *g)
{
    g->unusable = g->listed = g->n_label_sets = 0;
    g->list_no++;
    words_join(&g->words, &g->new_words); /* of a list that was given up half way */
}

static int is_listed(const struct group *g, const struct member *m)
{
    return m->list_no == g->list_no;
}

static uint32_t *cell_of(const struct group *g, uint64_t key, const char *id)
{
    uint32_t mask = 2 * g->cap - 1;
    uint32_t i = (uint32_t)key & mask;

    while (g->cells[i] && (g->members[g->cells[i] - 1].key != key ||
                           strcmp(g->members[g->cells[i] - 1].id, id) != 0)) {
        i = (i + 1) & mask;
    }
    return &g->cells[i];
}

static void cells_fill(struct group *g)
{
    memset(g->cells, 0, 2 * g->cap * sizeof(*g->cells));
    for (uint32_t i = 0; i < g->n; i++) {
        *cell_of(g, g->members[i].key, g->members[i].id) = i + 1;
    }
}

static int grow(struct group *g)
{
    uint32_t cap = g->cap ? g->cap * 2 : 16;
    struct member *members;
    uint32_t *cells;

    if (cap > 2 * GROUPS_MEMBERS_MAX) { /* those of the list before are still there */
        return FN_E_EXHAUSTED;
    }
    members = realloc(g->members, cap * sizeof(*members));
    g->members = members ? members : g->members;
    cells = members ? realloc(g->cells, 2 * cap * sizeof(*cells)) : NULL;
    if (!cells) {
        return FN_E_EXHAUSTED;
    }
    g->cells = cells;
    g->cap = cap;
    cells_fill(g);
    return 0;
}

/* Printable, without spaces: what the host takes for an address. */
static int is_word(const char *s)
{
    size_t n = 0;

    while (s[n] > ' ' && s[n] < 0x7f) {
        n++;
    }
    return n > 0 && s[n] == '\0';
}

int group_labels(struct group *g, const char *labels)
{
    if (g->n_label_sets == GROUPS_MEMBERS_MAX) {
        return FN_E_RANGE;
    }
    if (g->n_label_sets == g->cap_label_sets) {
        uint32_t cap = g->cap_label_sets ? g->cap_label_sets * 2 : 16;
        const char **sets = realloc(g->label_sets, cap * sizeof(*sets));

        if (!sets) {
            return FN_E_EXHAUSTED;
        }
        g->label_sets = sets;
        g->cap_label_sets = cap;
    }
    labels = words_add(&g->new_words, labels);
    if (!labels) {
        return FN_E_EXHAUSTED;
    }
    g->label_sets[g->n_label_sets++] = labels;
    return 0;
}

static const char *labels_of(const struct group *g, const struct wire_member *m)
{
    const char *labels = m->labels > 0 && m->labels <= g->n_label_sets
                             ? g->label_sets[m->labels - 1]
                             : "";

    return labels[0] ? labels : NULL;
}

int group_member(struct group *g, const struct wire_member *m)
{
    struct member set = { .key = text_hash(m->id),
                          .capacity_mb = m->capacity_mb,
                          .labels = labels_of(g, m),
                          .draining = m->draining,
                          .list_no = g->list_no };
    uint32_t *cell;

    if (!m->id[0] || !is_word(m->address)) {
        g->unusable++;
        return 0;
    }
    if (g->listed++ == GROUPS_MEMBERS_MAX) {
        return FN_E_RANGE;
    }
    set.id = words_add(&g->new_words, m->id);
    set.address = words_add(&g->new_words, m->address);
    if (!set.id || !set.address || (g->n == g->cap && grow(g) < 0)) {
        return FN_E_EXHAUSTED;
    }
    cell = cell_of(g, set.key, m->id);
    *cell = *cell ? *cell : ++g->n;
    g->members[*cell - 1] = set;
    return 0;
}

/* Drained ones may go at any time. */
static int is_sudden(const struct group *g)
{
    uint32_t gone = 0, all = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        all += !g->members[i].draining;
        gone += !g->members[i].draining && !is_listed(g, &g->members[i]);
    }
    return all >= GROUPS_GRACE_MIN && gone * 2 > all;
}

/* Those that stay close ranks. 1 = some went. */
static int drop_if(struct group *g,
                   int (*goes)(const struct group *, const struct member *, int64_t),
                   int64_t now_ns)
{
    uint32_t n = 0, before = g->n;

    for (uint32_t i = 0; i < before; i++) {
        if (!goes(g, &g->members[i], now_ns)) {
            g->members[n++] = g->members[i];
        }
    }
    g->n = n;
    if (n < before) {
        cells_fill(g);
    }
    return n < before;
}

static int has_left(const struct group *g, const struct member *m, int64_t now_ns)
{
    (void)now_ns;
    return !is_listed(g, m) && m->vanished_ns == 0;
}

static int grace_is_over(const struct group *g, const struct member *m, int64_t now_ns)
{
    (void)g;
    return m->vanished_ns != 0 && now_ns - m->vanished_ns >= GROUPS_GRACE_NS;
}

/* Old words go; those of a member in its grace are copied. When there is no memory for that, all
 * stay. */
static void renew_words(struct group *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        struct member *m = &g->members[i];
        const char *id, *address, *labels;

        if (is_listed(g, m)) {
            continue;
        }
        id = words_add(&g->new_words, m->id);
        address = words_add(&g->new_words, m->address);
        labels = m->labels ? words_add(&g->new_words, m->labels) : NULL;
        if (!id || !address || (m->labels && !labels)) {
            words_join(&g->words, &g->new_words);
            return;
        }
        m->id = id;
        m->address = address;
        m->labels = labels;
    }
    words_free(&g->words);
    words_join(&g->words, &g->new_words);
}

void group_list_end(struct group *g, int64_t now_ns)
{
    int sudden = g->known && is_sudden(g);

    g->n_vanished = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        struct member *m = &g->members[i];
        int in_grace = sudden && !is_listed(g, m) && !m->draining;

        m->vanished_ns = !in_grace ? 0 : m->vanished_ns ? m->vanished_ns : now_ns;
        g->n_vanished += in_grace;
    }
    drop_if(g, has_left, now_ns);
    renew_words(g);
    g->known = 1;
}

int group_expire(struct group *g, int64_t now_ns)
{
    uint32_t before = g->n;

    if (g->n_vanished > 0 && drop_if(g, grace_is_over, now_ns)) {
        g->n_vanished -= before - g->n;
        return 1;
    }
    return 0;
}
