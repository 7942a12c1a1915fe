#include "groups.h"

#include <stdlib.h>
#include <string.h>

void groups_finish(struct groups *gs)
{
    for (uint32_t i = 0; i < gs->n; i++) {
        free(gs->list[i]->members);
        free(gs->list[i]->cells);
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

struct group *groups_get(struct groups *gs, const char *name)
{
    struct group *g = groups_find(gs, name);
    size_t len = strlen(name);

    if (g || gs->n == GROUPS_MAX || len > WIRE_GROUP_MAX) {
        return g;
    }
    g = calloc(1, sizeof(*g));
    if (g) {
        memcpy(g->name, name, len);
        gs->list[gs->n++] = g;
    }
    return g;
}

uint64_t group_runner_id(const char *id)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (; *id; id++) {
        h = (h ^ (unsigned char)*id) * 1099511628211u;
    }
    return h;
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
    g->unusable = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        g->members[i].listed = 0;
    }
}

static uint32_t *cell_of(const struct group *g, uint64_t key, const char *id)
{
    uint32_t mask = 2 * g->cap - 1;
    uint32_t i = (uint32_t)key & mask;

    while (g->cells[i] && (g->members[g->cells[i] - 1].key != key ||
                           strcmp(g->members[g->cells[i] - 1].wire.id, id) != 0)) {
        i = (i + 1) & mask;
    }
    return &g->cells[i];
}

static void cells_fill(struct group *g)
{
    memset(g->cells, 0, 2 * g->cap * sizeof(*g->cells));
    for (uint32_t i = 0; i < g->n; i++) {
        *cell_of(g, g->members[i].key, g->members[i].wire.id) = i + 1;
    }
}

static int grow(struct group *g)
{
    uint32_t cap = g->cap ? g->cap * 2 : 16;
    struct member *members;
    uint32_t *cells;

    if (cap > GROUPS_MEMBERS_MAX) {
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

int group_member(struct group *g, const struct wire_member *m)
{
    uint64_t key = group_runner_id(m->id);
    uint32_t *cell;

    if (!m->id[0] || !is_word(m->address)) {
        g->unusable++;
        return 0;
    }
    if (g->n == g->cap && grow(g) < 0) {
        return FN_E_EXHAUSTED;
    }
    cell = cell_of(g, key, m->id);
    *cell = *cell ? *cell : ++g->n;
    g->members[*cell - 1] = (struct member){.wire = *m, .key = key, .listed = 1};
    return 0;
}

/* Drained ones may go at any time. */
static int is_sudden(const struct group *g)
{
    uint32_t gone = 0, all = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        all += !g->members[i].wire.draining;
        gone += !g->members[i].wire.draining && !g->members[i].listed;
    }
    return all >= GROUPS_GRACE_MIN && gone * 2 > all;
}

static int drop_at(struct group *g, uint32_t i)
{
    memmove(&g->members[i], &g->members[i + 1], (g->n - i - 1) * sizeof(g->members[0]));
    g->n--;
    return 1;
}

int group_list_end(struct group *g, int64_t now_ns)
{
    int sudden = g->known && is_sudden(g);

    g->n_vanished = 0;
    for (uint32_t i = 0; i < g->n;) {
        struct member *m = &g->members[i];

        if (m->listed) {
            m->vanished_ns = 0;
            i++;
        } else if (sudden && !m->wire.draining) {
            m->vanished_ns = m->vanished_ns ? m->vanished_ns : now_ns;
            g->n_vanished++;
            i++;
        } else {
            drop_at(g, i);
        }
    }
    if (g->cap > 0) {
        cells_fill(g);
    }
    g->known = 1;
    return 1;
}

int group_expire(struct group *g, int64_t now_ns)
{
    int changed = 0;

    for (uint32_t i = 0; g->n_vanished > 0 && i < g->n;) {
        const struct member *m = &g->members[i];

        if (m->vanished_ns != 0 && now_ns - m->vanished_ns >= GROUPS_GRACE_NS) {
            changed |= drop_at(g, i);
            g->n_vanished--;
        } else {
            i++;
        }
    }
    if (changed) {
        cells_fill(g);
    }
    return changed;
}
