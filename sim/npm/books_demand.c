/* The books about demand (S8): what the load balancers' words come to, reckoned from the words and
 * from who lives, and the largest demand of the last cool-down. */
#include "books.h"

#include <npm/npm_int.h>

#include <string.h>

/* A load balancer that lives counts from the first word of its life on, and again from the third
 * after another began to use its id, or after a late word of a dead one; a dead one counts no more
 * once the next life was heard, until two more words of it came. In between either is right. */
#define WORDS_HEARD 3u
#define LIVES_OF_NAME 3u /* whose words a manager keeps apart, as npm_int.h */

void books_demand_open(struct pool *p)
{
    p->n_ref = 0;
    p->ref_expire_ns = 0;
    p->n_names = 0;
    p->ref_due = true;
    p->peak_n = 0;
}

static bool lives(const struct world *w, uint32_t key)
{
    return key >> 31 || w->lbs[(key >> 20) - 1].life == (key & 0xfffffu);
}

static uint32_t lives_of(const struct pool *p, uint32_t name)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_ref; i++) {
        n += p->ref[i].name == name;
    }
    return n;
}

static struct ref_lb *ref_find(struct pool *p, uint32_t key, uint32_t name)
{
    for (uint32_t i = 0; i < p->n_ref; i++) {
        if (p->ref[i].key == key && p->ref[i].name == name) {
            return &p->ref[i];
        }
    }
    return NULL;
}

/* The first word of a life, or a word of a dead one: the others may have to wait for their turn. */
static void ref_disturb(struct pool *p, const struct ref_lb *by, bool first)
{
    for (uint32_t i = 0; i < p->n_ref; i++) {
        struct ref_lb *r = &p->ref[i];

        if (r != by && r->name == by->name) {
            r->words = 0;
            r->replaced |= first;
            r->late = first ? 0 : r->late;
        }
    }
}

/* Only the lives heard last are kept apart: the word of another is a first one again. */
static void ref_forget(struct pool *p, uint32_t name)
{
    struct ref_lb *oldest = NULL;

    for (uint32_t i = 0; i < p->n_ref; i++) {
        struct ref_lb *r = &p->ref[i];

        oldest = r->name == name && (!oldest || r->heard_no < oldest->heard_no) ? r : oldest;
    }
    *oldest = p->ref[--p->n_ref];
}

void books_demand(struct world *w, struct pool *p, const struct npm_event *e,
                       const struct message *m)
{
    uint64_t max = npm_group_max_mb(p->g);
    struct ref_lb *r = ref_find(p, m->key, m->name);
    uint32_t lives_n = lives_of(p, m->name);
    bool first = !r, alive = m->key != 0 && lives(w, m->key);

    if (m->key == 0 || (r && e->seq != 0 && e->seq <= r->seq) ||
        (lives_n == 0 && p->n_names == w->o.lbs_max)) {
        return;
    }
    if (!r) {
        if (lives_n == LIVES_OF_NAME) {
            ref_forget(p, m->name);
        }
        p->n_names += lives_n == 0;
        r = &p->ref[p->n_ref++];
        *r = (struct ref_lb){ .key = m->key, .name = m->name };
    }
    if (first || !alive) {
        ref_disturb(p, r, first);
    }
    r->words = first && alive ? WORDS_HEARD : r->words + 1;
    r->replaced &= r->late++ == 0; /* one late word changes nothing */
    r->seq = e->seq;
    r->mb = e->mb < max ? e->mb : max;
    r->heard_ns = w->now_ns;
    r->heard_no = ++p->ref_words;
    p->ref_due = true;
}

void books_demand_expire(struct world *w, struct pool *p)
{
    int64_t oldest_ns = w->now_ns;

    if (w->now_ns <= p->ref_expire_ns) {
        return;
    }
    for (uint32_t i = 0; i < p->n_ref;) {
        uint32_t name = p->ref[i].name;

        if (w->now_ns - p->ref[i].heard_ns > w->o.demand_life_ns) {
            p->ref[i] = p->ref[--p->n_ref];
            p->n_names -= lives_of(p, name) == 0;
            p->ref_due = true;
        } else {
            oldest_ns = p->ref[i].heard_ns < oldest_ns ? p->ref[i].heard_ns : oldest_ns;
            i++;
        }
    }
    p->ref_expire_ns = oldest_ns + w->o.demand_life_ns;
}

static void ref_sum(const struct world *w, struct pool *p)
{
    p->ref_least_mb = p->ref_most_mb = 0;
    for (uint32_t i = 0; i < p->n_ref; i++) {
        const struct ref_lb *r = &p->ref[i];
        bool alive = lives(w, r->key);

        p->ref_least_mb += alive && r->words >= WORDS_HEARD ? r->mb : 0;
        p->ref_most_mb += alive || !r->replaced ? r->mb : 0;
    }
    p->ref_born = w->born;
    p->ref_due = false;
}

void books_check_wanted(struct world *w, struct pool *p, const struct npm_figures *f)
{
    if (p->ref_due || p->ref_born != w->born) {
        ref_sum(w, p);
    }
    if (f->wanted_mb < p->ref_least_mb || f->wanted_mb > p->ref_most_mb) {
        broken(w, f->cplane_busy ? SAFETY(10) : SAFETY(8),
               "g%u wants %llu MB; LBs told %llu to %llu MB", p->no,
               (unsigned long long)f->wanted_mb, (unsigned long long)p->ref_least_mb,
               (unsigned long long)p->ref_most_mb);
    }
}

/* wanted_mb is what the group says, which S8 looked at. */
uint64_t books_desired_of(const struct world *w, const struct pool *p, uint64_t wanted_mb)
{
    const struct fn_load load = { .size = sizeof(load), .wanted_mb = wanted_mb };
    uint64_t most = npm_group_max_mb(p->g);
    uint64_t mb = wanted_mb;

    if (w->o.predict && w->o.predict(w->o.predict_ud, &load, &mb) < 0) {
        mb = wanted_mb;
    }
    return mb < most ? mb : most;
}

uint64_t books_desired_mb(const struct world *w, const struct pool *p)
{
    struct npm_figures f;

    npm_figures(p->g, &f);
    return books_desired_of(w, p, f.wanted_mb);
}

/* Largest desired capacity of the last cool-down: values fall from first to last, each with the end
 * of its time; the last one is that of the step before. */
uint64_t books_peak_mb(struct world *w, struct pool *p, uint64_t now_mb)
{
    if (p->peak_n > 0) {
        p->peaks[(p->peak_first + p->peak_n - 1) % PEAKS_MAX].until_ns = w->now_ns;
    }
    while (p->peak_n > 0 && p->peaks[(p->peak_first + p->peak_n - 1) % PEAKS_MAX].mb <= now_mb) {
        p->peak_n--;
    }
    p->peaks[(p->peak_first + p->peak_n) % PEAKS_MAX] = (struct peak){ w->now_ns, now_mb };
    p->peak_n += p->peak_n < PEAKS_MAX - 1;
    while (p->peak_n > 1 && p->peaks[p->peak_first].until_ns <= w->now_ns - w->o.cooldown_ns) {
        p->peak_first = (p->peak_first + 1) % PEAKS_MAX;
        p->peak_n--;
    }
    return p->peaks[p->peak_first].mb;
}
