/* Families live in one list that only grows; the lock guards the list and the series tables. Values
 * are atomics, so that printing never stops a call. */
#include <base/metric_int.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t metric_lock = PTHREAD_MUTEX_INITIALIZER;
struct metric_family *metric_families;
uint32_t metric_bank;
int64_t metric_refused;
static uint32_t n_plain; /* series without subjects */
static struct metric_family **families_end = &metric_families;

/* What a family counts that found no memory, by kind; on no page. */
static struct metric_banked nowhere_counts[1];
static struct metric_family nowhere[] = {
    [METRIC_COUNTER] = { .kind = METRIC_COUNTER, .lost.family = &nowhere[METRIC_COUNTER] },
    [METRIC_GAUGE] = { .kind = METRIC_GAUGE, .lost.family = &nowhere[METRIC_GAUGE] },
    [METRIC_HISTOGRAM] = { .kind = METRIC_HISTOGRAM,
                           .lost.family = &nowhere[METRIC_HISTOGRAM],
                           .lost.counts = nowhere_counts },
};

static struct metric_family *family_find(const char *name)
{
    for (struct metric_family *f = metric_families; f; f = f->next) {
        if (strcmp(f->name, name) == 0) {
            return f;
        }
    }
    return NULL;
}

static void set_bounds(struct metric_family *f, const struct metric_def *def)
{
    if (def->latency) {
        f->n_bounds = metric_buckets_get(def->name, f->scale, f->bounds);
    }
    for (uint32_t i = 0; i < def->n_bounds; i++) {
        f->bounds[f->n_bounds++] = def->bounds[i];
    }
    for (uint32_t i = 0; i < f->n_bounds; i++) {
        f->limits[i] = llround(f->bounds[i] / f->scale);
    }
}

static void family_free(struct metric_family *f)
{
    for (uint32_t i = 0; i < f->n_labels; i++) {
        free(f->labels[i]);
    }
    free(f->lost.counts);
    free(f->help);
    free(f->name);
    free(f);
}

static bool family_fill(struct metric_family *f, const struct metric_def *def)
{
    for (const char *const *l = def->labels; l && *l; l++) {
        if (f->n_labels == METRIC_LABELS_MAX) {
            abort();
        }
        if (!(f->labels[f->n_labels] = strdup(*l))) {
            return false;
        }
        f->n_labels++;
    }
    if (def->n_bounds > METRIC_BOUNDS_MAX || def->n_subject_labels > f->n_labels ||
        (def->latency && def->n_bounds > 0)) {
        abort();
    }
    set_bounds(f, def);
    if (f->kind == METRIC_HISTOGRAM) {
        f->lost.counts = calloc(f->n_bounds + 1, sizeof(*f->lost.counts));
    }
    f->name = strdup(def->name);
    f->help = strdup(def->help);
    return f->name && f->help && (f->kind != METRIC_HISTOGRAM || f->lost.counts);
}

/* NULL when out of memory. */
static struct metric_family *family_create(const struct metric_def *def)
{
    struct metric_family *f = calloc(1, sizeof(*f));

    if (!f) {
        return NULL;
    }
    f->kind = def->kind;
    f->scale = def->scale != 0 ? def->scale : 1;
    f->n_subject_labels = def->n_subject_labels;
    f->group = def->group;
    f->latency = def->latency;
    f->lost.family = f;
    if (!family_fill(f, def)) {
        family_free(f);
        return NULL;
    }
    return f;
}

struct metric_family *metric_declare(const struct metric_def *def)
{
    struct metric_family *f;

    pthread_mutex_lock(&metric_lock);
    f = family_find(def->name);
    if (!f) {
        f = family_create(def);
        if (f) {
            __atomic_store_n(families_end, f, __ATOMIC_RELEASE);
            families_end = &f->next;
        }
    }
    pthread_mutex_unlock(&metric_lock);
    return f ? f : &nowhere[def->kind];
}

/* Writes the label values as one key, the last `n_other` of them as "other". */
static size_t key_write(const struct metric_family *f, const char *const *values, uint32_t n_other,
                        char *ret)
{
    size_t len = 0;

    for (uint32_t i = 0; i < f->n_labels; i++) {
        const char *text = i + n_other >= f->n_labels ? "other" : values[i] ? values[i] : "";
        size_t n = strlen(text);

        n = n < VALUE_BYTES_MAX ? n : VALUE_BYTES_MAX;
        memcpy(ret + len, text, n);
        ret[len + n] = '\0';
        len += n + 1;
    }
    return len;
}

/* Where the values of its subject begin in a key. */
static const char *subject_key(const struct metric_family *f, const char *key)
{
    for (uint32_t i = f->n_subject_labels; i < f->n_labels; i++) {
        key += strlen(key) + 1;
    }
    return key;
}

static struct metric *series_find(struct metric_family *f, const char *key, size_t len)
{
    struct metric *m = NULL;

    HASH_FIND(hh, f->by_key, key, len, m);
    return m;
}

static void series_free(struct metric *m)
{
    free(m->counts);
    free(m->kept);
    free(m->told_counts);
    free(m->key);
    free(m);
}

/* `other` NULL: it has no subject. NULL when out of memory. */
static struct metric *series_new(struct metric_family *f, const char *key, size_t len,
                                 struct metric *other)
{
    struct metric *m = calloc(1, sizeof(*m));
    size_t buckets = f->kind == METRIC_HISTOGRAM ? f->n_bounds + 1 : 0;

    if (!m) {
        return NULL;
    }
    m->family = f;
    m->other = other;
    m->key = malloc(len + 1);
    m->counts = buckets ? calloc(buckets, sizeof(*m->counts)) : NULL;
    m->told_counts =
        buckets && f->n_subject_labels ? calloc(2 * buckets, sizeof(*m->told_counts)) : NULL;
    if (!m->key || (buckets && !m->counts) ||
        (buckets && f->n_subject_labels && !m->told_counts)) {
        series_free(m);
        return NULL;
    }
    m->own_counts = m->told_counts ? m->told_counts + buckets : NULL;
    memcpy(m->key, key, len);
    m->key_len = len;
    return m;
}

/* Into the table and, if it has one, to its subject. */
static bool series_join(struct metric_family *f, struct metric *m)
{
    const char *subject = m->other ? subject_key(f, m->key) : NULL;

    if (subject) {
        m->subject = metric_subject_get(f->group, subject, m->key_len - (size_t)(subject - m->key));
        if (!m->subject) {
            return false;
        }
    }
    HASH_ADD_KEYPTR(hh, f->by_key, m->key, m->key_len, m);
    if (!table_has(m) && m->subject) {
        metric_subject_put(m->subject);
    }
    return table_has(m);
}

/* It is complete before the maker of pages can see it. NULL when out of memory. */
static struct metric *series_add(struct metric_family *f, const char *key, size_t len,
                                 struct metric *other)
{
    struct metric *m = series_new(f, key, len, other);

    if (!m || !series_join(f, m)) {
        __atomic_fetch_add(&metric_refused, 1, __ATOMIC_RELAXED);
        if (m) {
            series_free(m);
        }
        return NULL;
    }
    __atomic_store_n(f->last ? &f->last->next : &f->first, m, __ATOMIC_RELEASE);
    f->last = m;
    f->n_series++;
    n_plain += f->n_subject_labels == 0;
    return m;
}

static void hand_over(struct metric *m)
{
    struct metric *other = m->other;

    if (m->family->kind == METRIC_GAUGE) {
        return; /* nothing has the state that it counted */
    }
    metric_banked_add(&other->value, m->value.bank[0] + m->value.bank[1]);
    for (uint32_t i = 0; m->counts && i <= m->family->n_bounds; i++) {
        metric_banked_add(&other->counts[i], m->counts[i].bank[0] + m->counts[i].bank[1]);
    }
}

bool metric_drop(struct metric *m, struct metric *before)
{
    struct metric_family *f = m->family;
    bool held;

    pthread_mutex_lock(&metric_lock);
    held = m->refs > 0;
    if (!held) {
        HASH_DELETE(hh, f->by_key, m);
        *(before ? &before->next : &f->first) = m->next;
        f->last = f->last == m ? before : f->last;
        f->n_series--;
        metric_subject_put(m->subject);
    }
    pthread_mutex_unlock(&metric_lock);
    if (held) {
        return false;
    }
    hand_over(m);
    series_free(m);
    return true;
}

/* The series that stands for those which have none of their own; NULL when out of memory. */
static struct metric *other_of(struct metric_family *f, const char *const *values)
{
    char key[KEY_BYTES_MAX];
    size_t len =
        key_write(f, values, f->n_subject_labels ? f->n_subject_labels : f->n_labels, key);
    struct metric *m = series_find(f, key, len);

    return m ? m : series_add(f, key, len, NULL);
}

static bool metric_has_room(const struct metric_family *f)
{
    if (f->n_subject_labels) {
        return f->n_series < SUBJECT_SERIES_MAX;
    }
    /* One without labels is all that its family has. */
    return f->n_labels == 0 ||
           (f->n_series < METRIC_SERIES_MAX && n_plain < METRIC_PAGE_SERIES_MAX);
}

/* NULL when out of memory. */
static struct metric *series_get(struct metric_family *f, const char *const *values)
{
    char key[KEY_BYTES_MAX];
    size_t len = key_write(f, values, 0, key);
    struct metric *m = series_find(f, key, len);
    struct metric *other;

    if (m) {
        return m;
    }
    if (!metric_has_room(f)) {
        __atomic_fetch_add(&metric_refused, 1, __ATOMIC_RELAXED);
        return other_of(f, values);
    }
    if (!f->n_subject_labels) {
        return series_add(f, key, len, NULL);
    }
    other = other_of(f, values);
    if (!other) {
        return NULL;
    }
    m = series_find(f, key, len); /* somebody is called like that */
    return m ? m : series_add(f, key, len, other);
}

struct metric *metric_series(struct metric_family *f, const char *const *values)
{
    struct metric *m;

    pthread_mutex_lock(&metric_lock);
    m = f->name ? series_get(f, values) : NULL;
    m = m ? m : &f->lost;
    __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&metric_lock);
    return m;
}

void metric_release(struct metric *m)
{
    pthread_mutex_lock(&metric_lock);
    __atomic_fetch_sub(&m->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&metric_lock);
}

struct metric *metric_of(const char *name, enum metric_kind kind, const char *help,
                         const char *const *labels, const char *const *values)
{
    const struct metric_def def = { .name = name,
                                    .help = help,
                                    .kind = kind,
                                    .labels = labels,
                                    .latency = kind == METRIC_HISTOGRAM };

    return metric_series(metric_declare(&def), values);
}

struct metric *metric_simple(const char *name, enum metric_kind kind, const char *help)
{
    return metric_of(name, kind, help, NULL, NULL);
}

void metric_each(const struct metric_def *def, const char *const *values, uint32_t n,
                 struct metric **ret)
{
    struct metric_family *family = metric_declare(def);

    for (uint32_t i = 0; i < n; i++) {
        ret[i] = metric_series(family, &values[i]);
    }
}

void metric_add(struct metric *m, int64_t n)
{
    metric_banked_add(&m->value, n);
}

static void banked_set(struct metric_banked *v, int64_t n)
{
    __atomic_store_n(&v->bank[0], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&v->bank[1], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&v->settled, n, __ATOMIC_RELAXED);
}

void metric_set(struct metric *m, int64_t n)
{
    banked_set(&m->value, n);
}

uint32_t metric_bucket(const struct metric *m, int64_t v)
{
    const struct metric_family *f = m->family;
    uint32_t i = 0;

    while (i < f->n_bounds && v > f->limits[i]) {
        i++;
    }
    return i;
}

void metric_observe(struct metric *m, int64_t v)
{
    uint32_t i = metric_bucket(m, v);

    metric_banked_add(&m->counts[i], 1);
    metric_banked_add(&m->value, v);
}

int64_t metric_value(const struct metric *m)
{
    int64_t count = 0;

    if (m->family->kind != METRIC_HISTOGRAM) {
        return metric_banked_now(&m->value);
    }
    for (uint32_t i = 0; i <= m->family->n_bounds; i++) {
        count += metric_banked_now(&m->counts[i]);
    }
    return count;
}

void metric_histogram_set(struct metric *m, const int64_t *counts, int64_t sum)
{
    for (uint32_t i = 0; i <= m->family->n_bounds; i++) {
        banked_set(&m->counts[i], counts[i]);
    }
    banked_set(&m->value, sum);
}
