/* Copies of the runners that match, and where each of them stands in the whole list. */
#include "part.h"

#include <stdlib.h>

#define SEEN_SETS 64u /* sets of labels whose match is remembered; equal sets are one text */

struct matcher {
    const char *wanted;
    struct {
        const char *labels;
        int matches;
    } seen[SEEN_SETS];
};

static int matches(struct matcher *m, const char *labels)
{
    uint64_t key = (uint64_t)(uintptr_t)labels;
    uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 58);

    if (!labels) {
        return 0;
    }
    if (m->seen[i].labels != labels) {
        m->seen[i].labels = labels;
        m->seen[i].matches = fn_labels_match(labels, m->wanted);
    }
    return m->seen[i].matches;
}

/* Where it is in a list of all of them, in `ret`, which has room for all. How many they are. */
static uint32_t find_all(const struct fn_snapshot *s, const char *wanted, uint32_t *ret)
{
    struct matcher m = { .wanted = wanted };
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        if (matches(&m, fn_snapshot_labels(s, i))) {
            ret[n++] = i;
        }
    }
    return n;
}

static void part_free(const struct wrapped *w, struct part *p)
{
    if (p) {
        wrap_index_free(w, p->index);
        free(p->at);
        free(p->inflight);
        free(p->runners);
        free(p);
    }
}

/* Takes the runners that stand at p->at. */
static int copy_runners(struct part *p, const struct fn_snapshot *s)
{
    p->inflight = calloc(p->n + 1u, sizeof(*p->inflight));
    p->runners = malloc((size_t)(p->n + 1u) * s->stride);
    if (!p->inflight || !p->runners) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        memcpy(p->runners + (size_t)i * s->stride, fn_snapshot_at(s, p->at[i]), s->stride);
    }
    return 0;
}

static struct part *part_create(const struct wrapped *w, struct parts *of, const struct demand *d)
{
    struct part *p = calloc(1, sizeof(*p));
    struct fn_snapshot view;

    if (!p) {
        return NULL;
    }
    p->generation = d->generation;
    p->at = malloc((of->snap.n + 1u) * sizeof(*p->at));
    if (!p->at) {
        part_free(w, p);
        return NULL;
    }
    p->n = find_all(&of->snap, d->text, p->at);
    if (p->n == of->snap.n) {
        p->whole = 1;
        return p;
    }
    if (copy_runners(p, &of->snap) < 0) {
        part_free(w, p);
        return NULL;
    }
    view = part_view(p, of, &of->snap);
    p->index = p->n > 0 ? wrap_index_build(w, &view) : NULL;
    return p;
}

void part_drop(const struct wrapped *w, struct parts *of, uint32_t place)
{
    part_free(w, of->part[place]);
    of->part[place] = NULL;
}

int part_make(const struct wrapped *w, struct parts *of, uint32_t place, const struct demand *d)
{
    part_drop(w, of, place);
    of->part[place] = part_create(w, of, d);
    return of->part[place] ? 0 : FN_E_EXHAUSTED;
}

struct part *part_find(const struct parts *of, uint32_t place, const struct demand *d)
{
    struct part *p = of->part[place];

    return p && p->generation == d->generation ? p : NULL;
}

struct fn_snapshot part_view(const struct part *p, const struct parts *of,
                             const struct fn_snapshot *snap)
{
    struct fn_snapshot view = wrap_view(snap, p->whole ? of->index : p->index);

    if (!p->whole) {
        view.n = p->n;
        view.runners = p->runners;
    }
    return view;
}

uint64_t part_gather(struct part *p, const uint32_t *inflight)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        p->inflight[i] = inflight[p->at[i]];
        sum += p->inflight[i];
    }
    return sum;
}

uint32_t part_place(const struct part *p, uint32_t index)
{
    uint32_t from = 0;
    uint32_t to = p->n;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (p->at[middle] < index) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from < p->n && p->at[from] == index ? from : p->n;
}
