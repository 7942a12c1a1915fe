/* Rows that are kept stand the heaviest first: the last one goes when a heavier one comes. */
#include <page/look.h>

#include <model/json.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_ROWS 200u /* of a turn: some 0.1 ms */

struct page_kept {
    int64_t weight;
    int64_t numbers[PAGE_NUMBERS];
    const char *texts[PAGE_TEXTS]; /* in `room` */
    char room[PAGE_ROW_BYTES];
};

/* ---- rows that are kept ---------------------------------------------------------------------- */

/* Texts share the room; the last ones are cut when it is too small. */
static void copy_row(struct page_kept *k, const struct page_row *row)
{
    size_t at = 0;

    k->weight = row->weight;
    memcpy(k->numbers, row->numbers, sizeof(k->numbers));
    for (uint32_t i = 0; i < PAGE_TEXTS; i++) {
        size_t room = PAGE_ROW_BYTES - at;
        size_t len = row->texts[i] && room > 1 ? strnlen(row->texts[i], room - 1) : 0;

        k->texts[i] = row->texts[i] && room > 1 ? k->room + at : NULL;
        if (k->texts[i]) {
            memcpy(k->room + at, row->texts[i], len);
            k->room[at + len] = '\0';
            at += len + 1;
        }
    }
}

/* Behind its equals: they came before. */
static uint32_t place_for(const struct page_look *l, int64_t weight)
{
    uint32_t at = 0, end = l->n;

    while (at < end) {
        uint32_t middle = (at + end) / 2;

        if (l->kept[middle]->weight >= weight) {
            at = middle + 1;
        } else {
            end = middle;
        }
    }
    return at;
}

static void keep(struct page_look *l, const struct page_row *row)
{
    uint32_t at = place_for(l, row->weight);
    struct page_kept *k;

    if (at == l->max) {
        return;
    }
    k = l->n < l->max ? malloc(sizeof(*k)) : l->kept[--l->n];
    if (k) {
        copy_row(k, row);
        memmove(&l->kept[at + 1], &l->kept[at], (l->n - at) * sizeof(l->kept[0]));
        l->kept[at] = k;
        l->n++;
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool has_words(const struct page_look *l, const struct page_row *row)
{
    bool has = !l->words[0];

    for (uint32_t i = 0; i < PAGE_TEXTS && !has; i++) {
        has = row->texts[i] && strcasestr(row->texts[i], l->words);
    }
    return has;
}

static void walk_stop(struct page_look *l)
{
    if (l->walking && l->table->end) {
        l->table->end(l->ud, &l->walk);
    }
    l->walking = false;
}

static void look_on_turn(struct env_timer *t)
{
    struct page_look *l = container_of(t, struct page_look, turn);
    bool more = true;

    for (uint32_t i = 0; i < SLICE_ROWS && more; i++) {
        struct page_row row = { 0 };

        more = l->table->next(l->ud, &l->walk, &row);
        l->cut = more && l->table->sorted && l->n == l->max;
        if (more && !l->cut) {
            l->seen++;
            if (row.weight >= 0 && has_words(l, &row)) {
                l->found++;
                keep(l, &row);
            }
        }
        more = more && !l->cut;
    }
    if (more) {
        env_timer_set(l->env, t, env_now_ns(l->env));
    } else {
        walk_stop(l);
        l->done(l);
    }
}

int look_begin(struct page_look *l)
{
    l->kept = calloc(l->max, sizeof(struct page_kept *));
    if (!l->kept) {
        return FN_E_EXHAUSTED;
    }
    l->walking = true;
    l->turn.cb = look_on_turn;
    l->walk = (struct page_walk){ { 0 } };
    if (l->table->begin) {
        l->table->begin(l->ud, &l->walk);
    }
    env_timer_set(l->env, &l->turn, env_now_ns(l->env));
    return 0;
}

void look_free(struct page_look *l)
{
    if (!l->kept) {
        return;
    }
    walk_stop(l);
    env_timer_clear(l->env, &l->turn);
    while (l->n > 0) {
        free(l->kept[--l->n]);
    }
    free(l->kept);
    l->kept = NULL;
}

/* ---- what it found --------------------------------------------------------------------------- */

static int put_columns(const struct page_table *t, struct buf *out)
{
    int r = buf_add_str(out, "{\"columns\":[");

    for (uint32_t i = 0; t->texts[i]; i++) {
        r |= (i ? buf_add_str(out, ",") : 0) | jw_string(out, t->texts[i]);
    }
    for (uint32_t i = 0; t->numbers[i]; i++) {
        r |= buf_add_str(out, ",") | jw_string(out, t->numbers[i]);
    }
    return r | buf_add_str(out, "],\"rows\":[");
}

static int put_row(const struct page_table *t, const struct page_kept *k, struct buf *out)
{
    int r = buf_add_str(out, "[");

    for (uint32_t i = 0; t->texts[i]; i++) {
        r |= i ? buf_add_str(out, ",") : 0;
        r |= k->texts[i] ? jw_string(out, k->texts[i]) : buf_add_str(out, "null");
    }
    for (uint32_t i = 0; t->numbers[i]; i++) {
        r |= buf_add_str(out, ",") | jw_int(out, k->numbers[i]);
    }
    return r | buf_add_str(out, "]");
}

int look_print(struct page_look *l, struct buf *out)
{
    int r = put_columns(l->table, out);

    for (uint32_t i = 0; i < l->n; i++) {
        r |= (i ? buf_add_str(out, ",") : 0) | put_row(l->table, l->kept[i], out);
    }
    r |= buf_printf(out, "],\"found\":%llu,\"seen\":%llu,\"more\":%s}",
                    (unsigned long long)l->found, (unsigned long long)l->seen,
                    l->cut || l->found > l->n ? "true" : "false");
    return r ? FN_E_EXHAUSTED : 0;
}
