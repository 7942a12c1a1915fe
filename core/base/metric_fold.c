/* Which subjects have series of their own on a page, and what the others did.
 *
 * Used most = most events on the last pages, where each page makes what was before an eighth less.
 * Who is shown stays until somebody is used half as much again, so that series do not come and go
 * with every page. Series that nobody holds any more go when they are folded. */
#include <base/metric_int.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_SCORE 16

static struct metric_subject *subjects;
static uint64_t last_seq;
static _Atomic uint32_t shown_max[METRIC_GROUPS_N] = { METRIC_SUBJECTS_DEFAULT,
                                                       METRIC_SUBJECTS_DEFAULT };

static struct metric *folded_series(void)
{
    return metric_simple("fn_metrics_folded_series", METRIC_GAUGE,
                         "Series that are counted under other, because other functions are used "
                         "more.");
}

void metric_set_subjects(enum metric_group group, uint32_t max)
{
    shown_max[group] = max;
    folded_series(); /* it is there at zero */
}

struct metric_subject *metric_subject_get(enum metric_group group, const char *values, size_t len)
{
    char key[1 + KEY_BYTES_MAX] = { (char)group };
    struct metric_subject *s = NULL;

    memcpy(key + 1, values, len++);
    HASH_FIND(hh, subjects, key, len, s);
    if (!s) {
        s = calloc(1, sizeof(*s));
        if (!s || !(s->key = malloc(len))) {
            free(s);
            return NULL;
        }
        memcpy(s->key, key, len);
        s->key_len = len;
        s->group = group;
        HASH_ADD_KEYPTR(hh, subjects, s->key, s->key_len, s);
        if (!table_has(s)) {
            free(s->key);
            free(s);
            return NULL;
        }
        s->seq = ++last_seq;
    }
    s->n_series++;
    return s;
}

void metric_subject_put(struct metric_subject *s)
{
    if (--s->n_series == 0) {
        HASH_DELETE(hh, subjects, s);
        free(s->key);
        free(s);
    }
}

int64_t metric_told_value(const struct metric *m)
{
    if (m->subject && m->family->kind != METRIC_GAUGE) {
        return m->own;
    }
    return metric_settled(&m->value) + m->folded;
}

int64_t metric_told_count(const struct metric *m, uint32_t bucket)
{
    return m->subject ? m->own_counts[bucket] : metric_settled(&m->counts[bucket]);
}

/* ---- the moment ------------------------------------------------------------------------------ */

static void settle_value(struct metric_banked *v, uint32_t still)
{
    int64_t n = __atomic_load_n(&v->bank[still], __ATOMIC_RELAXED);

    if (n != 0) {
        __atomic_fetch_sub(&v->bank[still], n, __ATOMIC_RELAXED);
        __atomic_fetch_add(&v->settled, n, __ATOMIC_RELAXED);
    }
}

void metric_settle(void)
{
    uint32_t still = !__atomic_load_n(&metric_bank, __ATOMIC_RELAXED);

    for (struct metric_family *f = metric_next_family(&metric_families); f;
         f = metric_next_family(&f->next)) {
        for (struct metric *m = metric_next(&f->first); m; m = metric_next(&m->next)) {
            settle_value(&m->value, still);
            for (uint32_t i = 0; m->counts && i <= f->n_bounds; i++) {
                settle_value(&m->counts[i], still);
            }
        }
    }
}

/* ---- who is shown ---------------------------------------------------------------------------- */

/* Calls each() for all series with subjects. True: it is gone. */
static void for_all(bool (*each)(struct metric *m, struct metric *before))
{
    for (struct metric_family *f = metric_next_family(&metric_families); f;
         f = metric_next_family(&f->next)) {
        struct metric *before = NULL;
        struct metric *next;

        for (struct metric *m = f->n_subject_labels ? metric_next(&f->first) : NULL; m; m = next) {
            next = metric_next(&m->next);
            before = each(m, before) ? before : m;
        }
    }
}

static bool measure(struct metric *m, struct metric *before)
{
    int64_t events = 0;

    (void)before;
    if (!m->subject || m->family->kind == METRIC_GAUGE) {
        m->folded = 0;
        return false;
    }
    if (m->family->kind == METRIC_COUNTER) {
        events = metric_settled(&m->value) - m->told;
    }
    for (uint32_t i = 0; m->counts && i <= m->family->n_bounds; i++) {
        events += metric_settled(&m->counts[i]) - m->told_counts[i];
    }
    m->subject->fresh += (uint64_t)events;
    return false;
}

static uint64_t weight(const struct metric_subject *s)
{
    return s->shown ? s->score + s->score / 2 : s->score;
}

static int by_weight(const void *a, const void *b)
{
    const struct metric_subject *x = *(struct metric_subject *const *)a;
    const struct metric_subject *y = *(struct metric_subject *const *)b;

    if (weight(x) != weight(y)) {
        return weight(x) > weight(y) ? -1 : 1;
    }
    return x->seq < y->seq ? -1 : 1;
}

/* A copy: those who count go on adding. NULL: out of memory, or there is none. */
static struct metric_subject **all_subjects(size_t *ret_n)
{
    struct metric_subject **list;
    size_t n = 0;

    pthread_mutex_lock(&metric_lock);
    list = malloc((HASH_COUNT(subjects) + 1) * sizeof(struct metric_subject *));
    for (struct metric_subject *s = subjects; list && s; s = s->hh.next) {
        list[n++] = s;
    }
    pthread_mutex_unlock(&metric_lock);
    *ret_n = n;
    return list;
}

static void choose(void)
{
    size_t n;
    struct metric_subject **list = all_subjects(&n);
    uint32_t shown[METRIC_GROUPS_N] = { 0 };

    for (size_t i = 0; i < n; i++) {
        list[i]->score += EVENT_SCORE * list[i]->fresh - list[i]->score / 8;
        list[i]->fresh = 0;
    }
    if (n > 1) {
        qsort(list, n, sizeof(struct metric_subject *), by_weight);
    }
    for (size_t i = 0; i < n; i++) {
        list[i]->shown = shown[list[i]->group]++ < shown_max[list[i]->group];
    }
    free(list);
}

/* ---- what they did --------------------------------------------------------------------------- */

static void fold_value(const struct metric_banked *v, int64_t *told, int64_t *own,
                       struct metric_banked *others, bool shown)
{
    int64_t now = metric_settled(v);

    if (shown) {
        *own += now - *told;
    } else {
        __atomic_fetch_add(&others->settled, now - *told, __ATOMIC_RELAXED);
    }
    *told = now;
}

static int64_t n_folded;

static bool fold_series(struct metric *m, struct metric *before)
{
    bool shown = m->subject && m->subject->shown;

    if (!m->subject) {
        return false;
    }
    if (m->family->kind == METRIC_GAUGE) {
        m->other->folded += shown ? 0 : metric_settled(&m->value);
    } else {
        fold_value(&m->value, &m->told, &m->own, &m->other->value, shown);
    }
    for (uint32_t i = 0; m->counts && i <= m->family->n_bounds; i++) {
        fold_value(&m->counts[i], &m->told_counts[i], &m->own_counts[i], &m->other->counts[i],
                   shown);
    }
    if (!shown && metric_drop(m, before)) {
        return true;
    }
    n_folded += !shown;
    return false;
}

void metric_fold(void)
{
    n_folded = 0;
    for_all(measure);
    choose();
    for_all(fold_series);
    if (last_seq > 0) {
        metric_set(folded_series(), n_folded);
    }
}
