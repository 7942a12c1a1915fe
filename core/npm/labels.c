/* Labels of hosts. Most have those of many others: each set is kept once, at a place that does not
 * change while a host has it. */
#include <npm/npm_int.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int labels_create(struct npm_group *g)
{
    uint32_t n = g->hosts_max + 1;

    g->label_sets = calloc(n, sizeof(*g->label_sets));
    g->free_label_sets = calloc(n, sizeof(*g->free_label_sets));
    if (!g->label_sets || !g->free_label_sets ||
        index_create(&g->label_index, n, g->label_sets[0].text, sizeof(*g->label_sets)) < 0) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < n; i++) {
        g->free_label_sets[i] = n - 1 - i; /* the first places go first */
    }
    g->n_free_label_sets = n;
    return 0;
}

void labels_finish(struct npm_group *g)
{
    index_finish(&g->label_index);
    free(g->label_sets);
    free(g->free_label_sets);
}

static uint32_t set_take(struct npm_group *g, const char *labels)
{
    uint32_t i = index_find(&g->label_index, labels);

    if (i == INDEX_NONE) {
        i = g->free_label_sets[--g->n_free_label_sets];
        snprintf(g->label_sets[i].text, sizeof(g->label_sets[i].text), "%s", labels);
        index_add(&g->label_index, i);
        g->label_sets_n = i < g->label_sets_n ? g->label_sets_n : i + 1;
    }
    g->label_sets[i].hosts++;
    return i;
}

static void set_drop(struct npm_group *g, uint32_t i)
{
    if (--g->label_sets[i].hosts == 0) {
        index_remove(&g->label_index, i);
        g->label_sets[i].text[0] = '\0';
        g->free_label_sets[g->n_free_label_sets++] = i;
    }
}

void host_set_labels(struct npm_group *g, struct npm_host *h, const char *labels)
{
    uint32_t had_1 = h->labels_1;

    if (strcmp(npm_labels(g, h), labels ? labels : "") == 0) {
        return;
    }
    h->labels_1 = labels && labels[0] ? set_take(g, labels) + 1 : 0;
    if (had_1) {
        set_drop(g, had_1 - 1);
    }
    g->published |= npm_is_listed(h);
}

uint32_t npm_labels_n(const struct npm_group *g)
{
    return g->label_sets_n;
}

const char *npm_labels_at(const struct npm_group *g, uint32_t i)
{
    return g->label_sets[i].text;
}
