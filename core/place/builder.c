/* Builders: a list of runners while it is collected, and then the memory of its listing.
 *
 * What it holds are copies, in an arena of its own; so a worker may fill it. */
#include <place/place_int.h>

#include <model/labels.h>
#include <stdlib.h>
#include <string.h>

struct fn_snap_builder *builder_create(struct place *p, const char *group)
{
    bool fits = strlen(group) <= FN_GROUP_NAME_MAX;
    struct fn_snap_builder *b = fits ? calloc(1, sizeof(*b)) : NULL;

    if (b) {
        b->place = p;
        memcpy(b->group, group, strlen(group));
        arena_init(&b->arena, 0);
    }
    return b;
}

void builder_free(struct fn_snap_builder *b)
{
    if (b) {
        HASH_CLEAR(hh, b->label_sets);
        arena_finish(&b->arena);
        free(b->block);
        free(b);
    }
}

static int builder_grow(struct fn_snap_builder *b)
{
    uint32_t cap = b->cap ? b->cap * 2 : 64;
    struct runner_block *block;

    if (b->n < b->cap) {
        return 0;
    }
    block = realloc(b->block, sizeof(*block) + cap * sizeof(block->runners[0]));
    if (!block) {
        return FN_E_EXHAUSTED;
    }
    memset(block->head, 0, sizeof(block->head));
    b->block = block;
    b->cap = cap;
    return 0;
}

/* The one text of this list for these labels; NULL: no memory. */
static const char *builder_labels(struct fn_snap_builder *b, const char *labels)
{
    char text[LABELS_BYTES];
    struct label_set *set;
    size_t len;

    labels_sort(labels, text);
    len = strlen(text);
    HASH_FIND(hh, b->label_sets, text, len, set);
    if (set) {
        return set->text;
    }
    set = arena_alloc(&b->arena, sizeof(*set) + len + 1);
    if (!set) {
        return NULL;
    }
    memcpy(set->text, text, len + 1);
    HASH_ADD_KEYPTR(hh, b->label_sets, set->text, len, set); /* else it is not shared */
    return set->text;
}

int builder_add(struct fn_snap_builder *b, const struct fn_runner *copied)
{
    struct fn_runner r = *copied;

    if (builder_grow(b) < 0) {
        return FN_E_EXHAUSTED;
    }
    r.since_ns = 0;
    if (r.labels && !(r.labels = builder_labels(b, r.labels))) {
        return FN_E_EXHAUSTED;
    }
    r.address = arena_strdup(&b->arena, copied->address);
    r.tls_name = copied->tls_name ? arena_strdup(&b->arena, copied->tls_name) : NULL;
    if (!r.address || (copied->tls_name && !r.tls_name)) {
        return FN_E_EXHAUSTED;
    }
    b->block->runners[b->n++] = r;
    return 0;
}
