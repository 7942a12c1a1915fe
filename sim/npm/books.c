/* Books: what the manager must know, reckoned a second time from the events alone, and the safety
 * invariants S1 to S18 after every step (docs/npm-model.md says what each means here). */
#include "books.h"

#include <npm/npm_int.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void books_open(struct world *w, struct pool *p)
{
    for (uint32_t i = 0; i < p->n_known; i++) {
        p->machines[p->known[i]].known = false;
    }
    p->n_known = 0;
    p->walk_due = true;
    p->n_missing = 0;
    books_demand_open(p);
    snap_unref(p->published);
    p->published = NULL;
    p->version = 0;
    p->lists = 0;
    p->stepped_ns = w->now_ns;
    p->settled_ns = w->now_ns + w->o.settle_ns;
    p->called_ns = w->now_ns - MIN;
    p->node_waits = false;
    p->stillborn = 0;
    p->stillborn_next_ns = 0;
    p->list_failures = p->provision_failures = p->expired = 0;
    p->list_next_ns = p->provision_next_ns = 0;
    p->short_ns = p->asked_ns = 0;
    p->last = (struct npm_figures){ 0 };
}

/* ---- lists (S7, S11, S12) -------------------------------------------------------------------- */

/* The cloud lists a machine's own text, unless it spoils it. */
static struct machine *machine_of(const struct pool *p, const struct fn_machine *m)
{
    uintptr_t at = (uintptr_t)m->id - (uintptr_t)p->machines;

    return at < p->machines_max * sizeof(*p->machines) ? &p->machines[at / sizeof(*p->machines)]
                                                       : NULL;
}

static bool usable(const struct fn_machine *m)
{
    return (m->state == FN_MACHINE_READY || m->state == FN_MACHINE_STARTING) &&
           (m->address || m->state == FN_MACHINE_STARTING) && m->capacity_mb <= NPM_RUNNER_MB_MAX;
}

static void ref_list(struct world *w, struct pool *p, const struct npm_event *e)
{
    p->lists++;
    p->list_no++;
    for (uint32_t i = 0; i < e->n; i++) {
        struct machine *m = machine_of(p, &e->machines[i]);

        if (m && usable(&e->machines[i])) {
            m->listed_no = p->list_no;
        }
    }
    p->n_missing = 0;
    for (uint32_t i = 0; i < p->n_known; i++) {
        struct machine *m = &p->machines[p->known[i]];

        if (m->listed_no == p->list_no) {
            m->missing = 0;
            m->braked = false;
        } else if (m->missing++ == 0) {
            m->missing_ns = w->now_ns;
        }
        p->n_missing += m->missing > 0;
    }
}

static bool may_be_lost(enum npm_host_state s)
{
    return s == NPM_BOOTING || s == NPM_ACTIVE || s == NPM_DRAINING;
}

/* S6: pauses after hosts that did not live; all that fail within one are one failure. */
static void ref_pause(struct world *w, struct pool *p)
{
    int64_t pause_ns = w->o.stillborn_backoff_min_ns;

    if (w->now_ns < p->stillborn_next_ns) {
        return;
    }
    for (uint32_t i = 0; i < p->stillborn && pause_ns < w->o.stillborn_backoff_max_ns; i++) {
        pause_ns *= 2;
    }
    pause_ns = pause_ns < w->o.stillborn_backoff_max_ns ? pause_ns : w->o.stillborn_backoff_max_ns;
    p->stillborn++;
    p->stillborn_next_ns = w->now_ns + pause_ns;
}

static void ref_stillborn(struct world *w, struct pool *p, const struct machine *m, int64_t well_ns)
{
    if (!m->lived && (!m->heard_ns || well_ns - m->heard_ns < w->o.stillborn_max_ns)) {
        ref_pause(w, p);
    }
}

static void ref_heard(struct world *w, struct pool *p, struct machine *m, const struct npm_event *e)
{
    if (e->kind == NPM_SILENT) {
        m->silent_ns = m->silent_ns ? m->silent_ns : w->now_ns;
        return;
    }
    m->silent_ns = 0;
    m->last_active = e->active;
    m->last_report_ns = w->now_ns;
    if (m->heard_ns == 0) {
        m->heard_ns = w->now_ns;
    } else if (!m->lived && w->now_ns - m->heard_ns >= w->o.stillborn_max_ns) {
        m->lived = true;
        p->stillborn = 0;
        p->stillborn_next_ns = 0;
    }
}

static void check_dropped(struct world *w, const struct pool *p, const struct machine *m,
                          const struct npm_event *e)
{
    int which = m->state == NPM_REMOVING ? SAFETY(11) : SAFETY(7);

    if (e->kind != NPM_LISTED) {
        broken(w, m->state == NPM_REMOVING ? SAFETY(11) : SAFETY(12),
               "g%u forgot %s without a list", p->no, m->id);
    } else if (m->missing < 3) {
        broken(w, which, "g%u forgot %s after %u lists without it", p->no, m->id, m->missing);
    } else if (m->braked && may_be_lost(m->state) && w->now_ns - m->missing_ns < 30 * S) {
        broken(w, SAFETY(7), "g%u believed a mass loss after %lld ms: %s", p->no,
               (long long)((w->now_ns - m->missing_ns) / MS), m->id);
    }
}

/* Hosts that the group knew and knows no more. */
static void check_losses(struct world *w, struct pool *p, const struct npm_event *e)
{
    uint32_t total = p->adopted_n, missing = 0;

    for (uint32_t i = 0; i < p->n_known_before; i++) {
        struct machine *m = &p->machines[p->known_before[i]];

        m->was = m->walk_no == p->walk_no ? m->was : m->state;
        total += may_be_lost(m->was);
        missing += may_be_lost(m->was) && m->missing > 0;
    }
    for (uint32_t i = 0; i < p->n_known_before; i++) {
        struct machine *m = &p->machines[p->known_before[i]];

        m->braked |= e->kind == NPM_LISTED && m->missing > 0 && total >= 3 && missing * 2 > total;
        if (m->walk_no != p->walk_no) {
            check_dropped(w, p, m, e);
            if (m->state == NPM_BOOTING || m->state == NPM_ACTIVE) {
                ref_stillborn(w, p, m, m->missing_ns);
            }
            m->known = false;
        }
    }
}

/* ---- orders (S1, S2, S5, S6, S9, S17, S18) --------------------------------------------------- */

/* S17: 1, 2, 4 s ... a minute after failures in a row. */
static int64_t ref_backoff_ns(const struct world *w, uint32_t failures)
{
    int64_t ns = failures > 6 ? w->o.backoff_max_ns : NPM_BACKOFF_MIN_NS << (failures - 1);

    return ns < w->o.backoff_max_ns ? ns : w->o.backoff_max_ns;
}

static void ref_answer(struct world *w, struct pool *p, const struct npm_event *e)
{
    if (e->kind == NPM_LISTED) {
        p->list_failures = 0;
    } else if (e->kind == NPM_LIST_FAILED) {
        p->list_next_ns = w->now_ns + ref_backoff_ns(w, ++p->list_failures);
    } else if (e->kind == NPM_PROVISION_FAILED || (e->kind == NPM_PROVISIONED && e->n == 0)) {
        p->provision_next_ns = w->now_ns + ref_backoff_ns(w, ++p->provision_failures);
    } else if (e->kind == NPM_PROVISIONED) {
        p->provision_failures = 0;
    }
}

static void check_backoff(struct world *w, const struct pool *p, const struct npm_action *a)
{
    int64_t next_ns = a->kind == NPM_DO_LIST        ? p->list_next_ns
                      : a->kind == NPM_DO_PROVISION ? p->provision_next_ns
                                                    : 0;

    if (w->now_ns < next_ns) {
        broken(w, SAFETY(17), "g%u %s %lld ms before the end of the pause after %u failures", p->no,
               a->kind == NPM_DO_LIST ? "lists" : "provisions",
               (long long)((next_ns - w->now_ns) / MS),
               a->kind == NPM_DO_LIST ? p->list_failures : p->provision_failures);
    }
}

/* S18: the id of a request is of one group. */
static void check_request(struct world *w, const struct pool *p, const struct npm_action *a)
{
    uint32_t kept = w->n_told < TOLD_IDS_MAX ? w->n_told : TOLD_IDS_MAX;

    for (uint32_t i = 0; i < kept; i++) {
        if (w->told[i].id == a->request_id && w->told[i].pool != p->no) {
            broken(w, SAFETY(18), "g%u has request %llu, as g%u has", p->no,
                   (unsigned long long)a->request_id, w->told[i].pool);
        }
    }
    w->told[w->n_told % TOLD_IDS_MAX].id = a->request_id;
    w->told[w->n_told++ % TOLD_IDS_MAX].pool = p->no;
}

/* S5: what ended is missing once, however long the cloud lists it. */
static void check_ended(struct world *w, const struct pool *p, struct machine *m, const char *id)
{
    if (m->unborn && strcmp(m->id, id) == 0) {
        if (m->ended_told == w->start_no) {
            broken(w, SAFETY(5), "g%u counts the end of %s twice", p->no, id);
        }
        m->ended_told = w->start_no;
    }
}

/* S6, S17: what the step notes changes what it may do from now on. */
static void take_note(struct world *w, struct pool *p, const struct npm_action *a)
{
    if (a->note == NPM_NOTE_ENDED) {
        check_ended(w, p, &p->machines[place_of(a->id)], a->id);
        ref_pause(w, p);
        p->expired = 0;
    } else if (a->note == NPM_NOTE_ARRIVED || a->note == NPM_NOTE_ADOPTED) {
        p->expired = 0;
        p->asked_ns = w->now_ns; /* another may be asked for in the same step */
    } else if (a->note == NPM_NOTE_REQUEST_EXPIRED) {
        p->expired++;
    } else if (a->note == NPM_NOTE_REQUEST_ALARM) {
        p->alarmed = true;
        p->provision_next_ns = w->now_ns + w->o.backoff_max_ns;
    }
}

static void check_call(struct world *w, struct pool *p, const struct npm_action *a)
{
    if (p->node_waits) {
        broken(w, SAFETY(6), "g%u calls the control plane while a call is under way", p->no);
    }
    if (w->now_ns - p->called_ns < S) {
        broken(w, SAFETY(6), "g%u calls the control plane again after %lld ms", p->no,
               (long long)((w->now_ns - p->called_ns) / MS));
    }
    if (a->kind == NPM_DO_PROVISION &&
        (p->lists == 0 || w->now_ns - w->started_ns < 10 * S || w->now_ns < p->settled_ns)) {
        broken(w, SAFETY(5), "g%u provisions %lld ms after the start, %llu lists", p->no,
               (long long)((w->now_ns - w->started_ns) / MS), (unsigned long long)p->lists);
    }
    check_backoff(w, p, a);
    if (a->kind == NPM_DO_PROVISION) {
        check_request(w, p, a);
    }
    p->called_ns = w->now_ns;
    p->node_waits = true;
}

/* S2. What the runner said after every load balancer had the time to hear of the drain counts; a
 * call that began before that moment must have been seen. */
static void check_removal(struct world *w, struct pool *p, const struct npm_action *a)
{
    struct machine *m = &p->machines[place_of(a->id)];
    const struct npm_host *h = npm_host_find(p->g, a->id);
    int64_t heard_ns = m->drain_ns + w->o.drain_min_ns;
    uint32_t calls = machine_calls(m, w->now_ns, INT64_MAX);

    if (!h || h->state != NPM_REMOVING) {
        broken(w, SAFETY(3), "g%u removes %s, which is %s", p->no, a->id,
               h ? npm_state_names[h->state] : "unknown");
        return;
    }
    if (m->ordered_ns != 0) {
        return; /* S11: said again, whatever came in between */
    }
    w->result->calls_cut += calls;
    m->ordered_ns = w->now_ns;
    if (m->wish == NPM_WISH_DRAIN) {
        broken(w, SAFETY(15), "g%u removes %s, which the operator drained", p->no, m->id);
    }
    if (m->forced || !m->from_drain || w->now_ns - m->drain_ns >= CALL_MAX_NS) {
        return;
    }
    if (!cloud_answers_for(p, m)) {
        return; /* another machine has its address: nobody can ask it */
    }
    if (m->last_active > 0 || m->last_report_ns < heard_ns) {
        broken(w, SAFETY(2), "g%u removes %s after %lld ms of drain, last word: %u calls", p->no,
               m->id, (long long)((w->now_ns - m->drain_ns) / MS), m->last_active);
    } else if (machine_calls(m, w->now_ns, heard_ns) > 0) {
        broken(w, SAFETY(2), "g%u removes %s with %u calls that began before the drain was known",
               p->no, m->id, machine_calls(m, w->now_ns, heard_ns));
    }
    w->result->calls_excused += calls;
}

static void take_snap(struct world *w, struct pool *p)
{
    uint32_t n = npm_host_count(p->g);
    struct snap *s = calloc(1, sizeof(*s) + n * sizeof(s->members[0]));
    struct npm_figures f;

    if (!s) {
        fputs("npm_sim: out of memory\n", stderr);
        exit(70);
    }
    npm_figures(p->g, &f);
    s->refs = 1;
    s->epoch = w->epoch;
    s->version = f.version;
    for (uint32_t i = 0; i < n; i++) {
        const struct npm_host *h = npm_host_at(p->g, i);

        if (npm_is_listed(h)) {
            s->members[s->n++] =
                (struct snap_member){ place_of(h->id), h->address[0] ? place_of(h->address) : 0,
                                      h->capacity_mb, h->state == NPM_DRAINING };
        }
    }
    if (s->version <= p->version) {
        broken(w, SAFETY(9), "g%u published version %llu after %llu", p->no,
               (unsigned long long)s->version, (unsigned long long)p->version);
    }
    p->version = s->version;
    snap_unref(p->published);
    p->published = s;
    p->published_ns = w->now_ns;
    p->walk_due = true;
}

void books_action(struct world *w, struct pool *p, const struct npm_action *a)
{
    switch (a->kind) {
    case NPM_DO_REMOVE:
        check_call(w, p, a);
        check_removal(w, p, a);
        break;
    case NPM_DO_LIST:
    case NPM_DO_PROVISION:
        check_call(w, p, a);
        break;
    case NPM_DO_PUBLISH:
        take_snap(w, p);
        break;
    case NPM_DO_NOTE:
        take_note(w, p, a);
        break;
    default:
        break;
    }
}

/* ---- the walk over the hosts ----------------------------------------------------------------- */

static void check_move(struct world *w, const struct pool *p, const struct machine *m,
                       enum npm_host_state to, const struct npm_event *e)
{
    /* With a call before the order; and needed again, perhaps in the same step. */
    bool stays = (to == NPM_DRAINING || to == NPM_ACTIVE) && m->from_drain && m->ordered_ns == 0 &&
                 e->kind == NPM_REPORTED && e->active > 0;

    /* Taken back by the operator before it ever answered. */
    bool boots = m->state == NPM_DRAINING && e->kind == NPM_UNDRAIN && m->heard_ns == 0;

    if ((m->state == NPM_REMOVING && !stays) || to == NPM_FOREIGN ||
        (to == NPM_BOOTING && m->state != NPM_FOREIGN && !boots)) {
        broken(w, SAFETY(3), "g%u moves %s from %s to %s", p->no, m->id, npm_state_names[m->state],
               npm_state_names[to]);
    }
}

/* The operator took back a runner that is silent, or not needed: it was active and is drained
 * again, all in one step. */
static bool drained_again(const struct machine *m, const struct npm_event *e)
{
    return e->kind == NPM_UNDRAIN && m->state == NPM_DRAINING && strcmp(e->id, m->id) == 0;
}

static bool is_ended_by(const struct machine *m, const struct npm_event *e)
{
    return e->kind == NPM_END && strcmp(e->id, m->id) == 0;
}

/* Returns whether the host was drained for want of demand. */
static bool note_state(struct world *w, struct pool *p, struct machine *m, const struct npm_host *h,
                       const struct npm_event *e)
{
    enum npm_host_state was = m->state;

    m->was = was;
    if (!m->known) {
        m->known = true;
        m->missing = m->last_active = 0;
        m->braked = m->from_drain = m->lived = false;
        m->ordered_ns = m->drain_ns = m->last_report_ns = m->heard_ns = m->silent_ns = 0;
        m->state = m->was = h->state;
        p->adopted_n += may_be_lost(h->state);
        return false;
    }
    if (was == h->state) {
        if (!drained_again(m, e)) {
            return false;
        }
        if (m->silent_ns != 0) {
            ref_stillborn(w, p, m, m->silent_ns);
        }
        m->drain_ns = w->now_ns;
        m->last_report_ns = 0;
        return m->wish == NPM_WISH_NONE && h->silent_ns == 0;
    }
    check_move(w, p, m, h->state, e);
    m->from_drain = was == NPM_DRAINING;
    if (was == NPM_BOOTING && h->state == NPM_REMOVING && !is_ended_by(m, e)) {
        ref_stillborn(w, p, m, w->now_ns);
    } else if (was == NPM_ACTIVE && h->state == NPM_DRAINING && m->silent_ns != 0) {
        ref_stillborn(w, p, m, m->silent_ns);
    }
    if (h->state == NPM_DRAINING) {
        m->drain_ns = w->now_ns;
        m->last_report_ns = 0;
    }
    if (h->state == NPM_ACTIVE && (was == NPM_DRAINING || was == NPM_REMOVING) &&
        e->kind != NPM_UNDRAIN) {
        p->turns += p->direction < 0;
        p->direction = 1;
    }
    m->state = h->state;
    return h->state == NPM_DRAINING && was != NPM_REMOVING && m->wish == NPM_WISH_NONE &&
           h->silent_ns == 0;
}

/* S15: what the operator wants of it. */
static void check_wish(struct world *w, const struct pool *p, const struct machine *m,
                       const struct npm_host *h, const struct npm_event *e, struct walk *ret)
{
    bool came = m->was == NPM_DRAINING || m->was == NPM_REMOVING;

    if (m->wish == NPM_WISH_NONE || h->wish == NPM_WISH_NONE) {
        if (m->wish != NPM_WISH_NONE && (h->state == NPM_ACTIVE || h->state == NPM_DRAINING)) {
            broken(w, SAFETY(15), "g%u forgot that the operator wants to %s %s", p->no,
                   npm_wish_names[m->wish], m->id);
        }
        return;
    }
    if (m->wish == NPM_WISH_DRAIN && h->state != NPM_DRAINING && h->state != NPM_FOREIGN &&
        e->kind != NPM_LISTED) {
        broken(w, SAFETY(15), "g%u has %s %s, which the operator drained", p->no,
               npm_state_names[h->state], m->id);
    }
    if (h->state == NPM_ACTIVE && (m->wish == NPM_WISH_REMOVE || (came && m->state != m->was))) {
        broken(w, SAFETY(15), "g%u takes %s back, which the operator wants to %s", p->no, m->id,
               npm_wish_names[m->wish]);
    }
    ret->replaced |= m->wish == NPM_WISH_REPLACE && m->was == NPM_ACTIVE &&
                     h->state == NPM_DRAINING && h->silent_ns == 0 && m->drain_ns == w->now_ns;
    ret->leaving_mb +=
        m->wish == NPM_WISH_REPLACE && (h->state == NPM_ACTIVE || h->state == NPM_BOOTING)
            ? h->capacity_mb
            : 0;
}

static bool could_return(const struct machine *m)
{
    return m->wish == NPM_WISH_NONE && m->silent_ns == 0 && m->missing == 0;
}

/* S16: the newest goes first that is not too large to go; the one that was drained last is the
 * first that comes back. `before`: it was known. */
static void check_order(struct world *w, const struct pool *p, const struct machine *m,
                        const struct npm_host *h, const struct npm_event *e, bool drained,
                        bool moved, struct walk *ret)
{
    if (drained) {
        ret->drained_mb = h->capacity_mb > ret->drained_mb ? h->capacity_mb : ret->drained_mb;
    } else if (h->state == NPM_ACTIVE && m->wish == NPM_WISH_NONE &&
               h->capacity_mb <= ret->drained_mb) {
        broken(w, SAFETY(16), "g%u drains an older runner than %s", p->no, m->id);
    }
    if (moved && m->was == NPM_DRAINING && h->state == NPM_ACTIVE && e->kind != NPM_UNDRAIN) {
        ret->returned_ns = ret->returned_ns == 0 || m->drain_ns < ret->returned_ns
                               ? m->drain_ns
                               : ret->returned_ns;
    } else if (h->state == NPM_DRAINING && could_return(m) && m->drain_ns < w->now_ns) {
        ret->left_ns = m->drain_ns > ret->left_ns ? m->drain_ns : ret->left_ns;
    }
}

static void see(const struct npm_host *h, struct seen *ret)
{
    memcpy(ret->id, h->id, TEXT_SEEN);
    memcpy(ret->address, h->address, TEXT_SEEN);
    ret->capacity_mb = h->capacity_mb;
    ret->state = h->state;
}

/* Whether every host is what it was at the last walk: another walk would find the same. */
static bool is_as_seen(const struct pool *p)
{
    uint32_t n = npm_host_count(p->g);

    if (p->walk_due || n != p->n_known) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct npm_host *h = host_at(p->g, i);
        const struct seen *s = &p->seen[i];

        if (memcmp(h->id, s->id, TEXT_SEEN) != 0 ||
            memcmp(h->address, s->address, TEXT_SEEN) != 0 || h->capacity_mb != s->capacity_mb ||
            h->state != s->state) {
            return false;
        }
    }
    return true;
}

static void walk_one(struct world *w, struct pool *p, const struct npm_host *h,
                     const struct npm_event *e, struct walk *ret)
{
    uint32_t place = place_of(h->id);
    struct machine *m = &p->machines[place];
    uint32_t address_no = h->address[0] ? place_of(h->address) : 0;
    bool known, drained;

    if (m->walk_no == p->walk_no) {
        broken(w, SAFETY(3), "g%u has %s twice", p->no, h->id);
    }
    if (h->address[0] && address_no < 2 * p->machines_max) {
        if (p->address_walks[address_no] == p->walk_no) {
            broken(w, SAFETY(3), "g%u has address %s twice", p->no, h->address);
        }
        p->address_walks[address_no] = p->walk_no;
    }
    m->walk_no = p->walk_no;
    see(h, &p->seen[p->n_known]);
    ret->mb[h->state] += h->capacity_mb;
    ret->n[h->state]++;
    known = m->known;
    drained = note_state(w, p, m, h, e);
    ret->drained += drained;
    check_wish(w, p, m, h, e, ret);
    check_order(w, p, m, h, e, drained, known && m->was != m->state, ret);
    p->known[p->n_known++] = place;
    if (npm_is_listed(h)) {
        const struct snap *s = p->published;
        const struct snap_member *x = s && ret->listed < s->n ? &s->members[ret->listed] : NULL;

        ret->listed++;
        ret->as_published &= x && x->place == place && x->address_no == address_no &&
                             x->capacity_mb == h->capacity_mb &&
                             x->draining == (h->state == NPM_DRAINING);
    }
}

static void walk(struct world *w, struct pool *p, const struct npm_event *e)
{
    struct walk *ret = &p->walked;
    uint32_t *before = p->known;
    uint32_t n = npm_host_count(p->g);

    p->n_known_before = p->n_known;
    p->known = p->known_before;
    p->known_before = before;
    p->n_known = 0;
    p->walk_no++;
    p->adopted_n = 0;
    *ret = (struct walk){ .as_published = true };
    for (uint32_t i = 0; i < n && !w->result->broken; i++) {
        walk_one(w, p, npm_host_at(p->g, i), e, ret);
    }
    ret->as_published &= p->published && p->published->n == ret->listed;
    if (ret->returned_ns != 0 && ret->left_ns > ret->returned_ns) {
        broken(w, SAFETY(16), "g%u takes a runner back that was drained %lld ms before another",
               p->no, (long long)((ret->left_ns - ret->returned_ns) / MS));
    }
    p->walk_due = false;
    if (!w->result->broken) {
        check_losses(w, p, e);
    }
}

/* ---- after a step ---------------------------------------------------------------------------- */

static void check_walk(struct world *w, struct pool *p, const struct npm_figures *f,
                       const struct walk *x)
{
    if (memcmp(x->mb, f->state_mb, sizeof(x->mb)) != 0 ||
        memcmp(x->n, f->state_n, sizeof(x->n)) != 0) {
        broken(w, SAFETY(4), "g%u: sums of capacity or hosts differ from the hosts", p->no);
    }
    if (p->lists > 0 && w->now_ns >= p->settled_ns && !x->as_published) {
        broken(w, f->cplane_busy ? SAFETY(10) : SAFETY(14),
               "g%u: the published list is not the members%s", p->no,
               f->cplane_busy ? " while the control plane is asked" : "");
    }
}

static void check_sizes(struct world *w, const struct pool *p, const struct npm_figures *f)
{
    uint32_t hosts = npm_host_count(p->g);

    if (hosts > w->o.runners_max + NPM_HOSTS_SPARE || f->lbs_n > w->o.lbs_max ||
        f->requests_n > NPM_REQUESTS_MAX || w->out.n > NPM_ACTIONS_MAX) {
        broken(w, SAFETY(13), "g%u: %u hosts, %u load balancers, %u requests, %u actions", p->no,
               hosts, f->lbs_n, f->requests_n, w->out.n);
    }
}

static void check_bounds(struct world *w, const struct pool *p, const struct npm_figures *f)
{
    uint32_t hosts = npm_host_count(p->g), owned = hosts - f->state_n[NPM_FOREIGN], sum = 0;

    if (owned + f->asked_n > w->o.runners_max) {
        broken(w, SAFETY(1), "g%u: %u runners and %u asked; expected at most %u", p->no, owned,
               f->asked_n, w->o.runners_max);
    }
    if (f->asked_n > p->last.asked_n && w->budget.runners > w->budget.runners_max) {
        broken(w, SAFETY(1), "g%u asks for runner %u of all groups; expected at most %u", p->no,
               w->budget.runners, w->budget.runners_max);
    }
    for (uint32_t i = 0; i < w->n_pools; i++) {
        const struct npm_figures *x = i == p->no ? f : &w->pools[i].last;

        sum += npm_host_count(w->pools[i].g) - x->state_n[NPM_FOREIGN] + x->asked_n;
    }
    if (sum != w->budget.runners) {
        broken(w, SAFETY(4), "budget counts %u runners; the groups have %u", w->budget.runners,
               sum);
    }
}

static uint64_t ref_typical_mb(const struct world *w, const struct npm_figures *f)
{
    uint32_t n = f->state_n[NPM_ACTIVE] + f->state_n[NPM_DRAINING];

    return n ? (f->state_mb[NPM_ACTIVE] + f->state_mb[NPM_DRAINING]) / n : w->o.runner_mb;
}

/* S16: a draining runner that can come back comes before a new one. */
static void check_first_supply(struct world *w, const struct pool *p)
{
    for (uint32_t i = 0; i < p->n_known; i++) {
        const struct machine *m = &p->machines[p->known[i]];

        if (m->state == NPM_DRAINING && could_return(m)) {
            broken(w, SAFETY(16), "g%u asks for a runner; %s drains", p->no, m->id);
        }
    }
}

#define REACTION_NS (3 * S)
#define ARRIVAL_NS (30 * S) /* in the quiet end, of what was asked for or tells that it ended */
#define STALE_NS (12 * MIN) /* of the quiet end, until nothing of before is under way */

/* L5: whatever is wanted and may be asked for is asked for; what was asked for and will not come is
 * not waited for. */
static void check_reaction(struct world *w, struct pool *p, const struct npm_figures *f,
                           uint64_t desired_mb, uint64_t supply_mb)
{
    uint32_t owned = npm_host_count(p->g) - f->state_n[NPM_FOREIGN];
    bool room = owned + f->asked_n < w->o.runners_max &&
                w->budget.runners < w->budget.runners_max && f->requests_n < NPM_REQUESTS_MAX;
    bool free = room && p->lists > 0 && w->now_ns >= p->settled_ns && w->now_ns >= p->blind_ns &&
                w->now_ns >= p->stillborn_next_ns && w->now_ns >= p->provision_next_ns;

    if (desired_mb <= supply_mb || !free) {
        p->short_ns = 0;
    } else if (p->short_ns == 0) {
        p->short_ns = w->now_ns;
    } else if (w->now_ns - p->short_ns > REACTION_NS) {
        broken(w, LIVENESS(5), "g%u lacks %llu MB for %lld ms and asks for nothing", p->no,
               (unsigned long long)(desired_mb - supply_mb),
               (long long)((w->now_ns - p->short_ns) / MS));
    }
    if (w->quiet && w->now_ns - w->quiet_ns > STALE_NS && f->asked_n > 0 && p->asked_ns != 0 &&
        w->now_ns - p->asked_ns > ARRIVAL_NS) {
        broken(w, LIVENESS(5),
               "g%u waits for %u runners, asked for %lld ms ago; the cloud tells that "
               "none comes",
               p->no, f->asked_n, (long long)((w->now_ns - p->asked_ns) / MS));
    }
}

static void check_demand(struct world *w, struct pool *p, const struct npm_figures *f,
                         uint32_t drained)
{
    uint64_t desired = books_desired_of(w, p, f->wanted_mb);
    uint64_t typical = ref_typical_mb(w, f);
    uint64_t least = w->o.runners_min * typical;
    uint64_t supply = f->state_mb[NPM_ACTIVE] + f->state_mb[NPM_BOOTING] - p->walked.leaving_mb;
    uint64_t peak;

    desired = desired > least ? desired : least;
    peak = books_peak_mb(w, p, desired);
    books_check_wanted(w, p, f);
    if (f->desired_mb != desired) {
        broken(w, SAFETY(8), "g%u desires %llu MB; expected %llu MB", p->no,
               (unsigned long long)f->desired_mb, (unsigned long long)desired);
    }
    p->asked_ns = f->asked_n > p->last.asked_n ? w->now_ns : p->asked_ns;
    check_reaction(w, p, f, desired, supply + f->asked_n * typical);
    if (f->asked_n > p->last.asked_n) {
        check_first_supply(w, p);
        if (w->now_ns < p->stillborn_next_ns) {
            broken(w, SAFETY(6), "g%u asks for runners %lld ms before the end of pause %u", p->no,
                   (long long)((p->stillborn_next_ns - w->now_ns) / MS), p->stillborn);
        }
        p->turns += p->direction < 0;
        p->direction = 1;
        if (supply + (f->asked_n - 1) * typical >= desired) {
            broken(w, SAFETY(5), "g%u asks for %u runners with %llu MB at hand; desired %llu MB",
                   p->no, f->asked_n, (unsigned long long)supply, (unsigned long long)desired);
        }
    }
    if (drained == 0 && p->walk_fresh && p->walked.replaced && f->state_mb[NPM_ACTIVE] < desired &&
        p->room > 0) {
        broken(w, SAFETY(15),
               "g%u drains a runner to replace it, with %llu MB left; desired %llu MB", p->no,
               (unsigned long long)f->state_mb[NPM_ACTIVE], (unsigned long long)desired);
    }
    if (drained > 0) {
        p->turns += p->direction > 0;
        p->direction = -1;
        if (f->state_mb[NPM_ACTIVE] < peak) {
            broken(w, LIVENESS(2),
                   "g%u drains to %llu MB; %llu MB were needed within the cool-down", p->no,
                   (unsigned long long)f->state_mb[NPM_ACTIVE], (unsigned long long)peak);
        }
    }
}

void books_before(struct world *w, struct pool *p, const struct npm_event *e,
                  const struct message *m)
{
    p->alarmed = false;
    p->room = books_room(w, p, &p->last); /* other groups take of it, too */
    if (w->now_ns - p->stepped_ns > NPM_STALL_NS) {
        p->lists = 0;
        p->settled_ns = w->now_ns + w->o.settle_ns;
    }
    p->stepped_ns = w->now_ns;
    if (e->kind == NPM_DEMAND) {
        books_demand(w, p, e, m);
        return;
    }
    if (e->kind >= NPM_LISTED && e->kind <= NPM_REMOVE_FAILED) {
        p->node_waits = false;
        ref_answer(w, p, e);
    }
    p->walk_due |= e->kind >= NPM_DRAIN;
    if (e->kind == NPM_LISTED) {
        ref_list(w, p, e);
    } else if ((e->kind == NPM_REPORTED || e->kind == NPM_SILENT) &&
               place_of(e->id) < p->machines_max && p->machines[place_of(e->id)].known) {
        ref_heard(w, p, &p->machines[place_of(e->id)], e);
    }
    books_demand_expire(w, p);
}

uint32_t books_room(const struct world *w, const struct pool *p, const struct npm_figures *f)
{
    uint32_t used = npm_host_count(p->g) - f->state_n[NPM_FOREIGN] + f->asked_n;
    uint32_t here = used < w->o.runners_max ? w->o.runners_max - used : 0;
    uint32_t all =
        w->budget.runners < w->budget.runners_max ? w->budget.runners_max - w->budget.runners : 0;

    return here < all ? here : all;
}

static bool only_asks(const struct npm_actions *out)
{
    uint32_t asks = 0;

    while (asks < out->n && out->list[asks].kind == NPM_DO_STATUS) {
        asks++;
    }
    return asks == out->n && out->dropped == 0;
}

#define LOOK_ALL_THE_SAME 16u /* of so many steps that should change no host, at one */

/* Time, and words of load balancers and hosts, change a host only when something is ordered or
 * noted. */
static bool hosts_may_differ(const struct world *w, struct pool *p, const struct npm_event *e,
                             const struct npm_figures *f)
{
    bool calm = e->kind == NPM_TICK || e->kind == NPM_REPORTED || e->kind == NPM_SILENT;

    return (e->kind != NPM_DEMAND && !calm) || !only_asks(&w->out) ||
           memcmp(f->state_n, p->last.state_n, sizeof(f->state_n)) != 0 ||
           (calm && ++p->calm_steps % LOOK_ALL_THE_SAME == 0);
}

void books_after(struct world *w, struct pool *p, const struct npm_event *e)
{
    struct npm_figures f;
    uint32_t drained = 0;

    npm_figures(p->g, &f);
    check_sizes(w, p, &f);
    p->walk_fresh = false;
    if (w->out.dropped > 0) { /* with what these books go by */
        p->expired = 0;
        p->blind_ns = w->now_ns + w->o.stillborn_backoff_max_ns;
    }
    if (p->expired >= NPM_EXPIRED_MAX && p->expired > p->expired_before && !p->alarmed) {
        broken(w, SAFETY(17), "g%u: %u requests in a row brought nothing, without an alarm", p->no,
               p->expired);
    }
    p->expired_before = p->expired;
    if (p->tick_ns > w->now_ns + w->o.poll_ns + 5 * S) {
        broken(w, SAFETY(10), "g%u wants to sleep for %lld ms", p->no,
               (long long)((p->tick_ns - w->now_ns) / MS));
    }
    if (hosts_may_differ(w, p, e, &f)) {
        if ((e->kind == NPM_LISTED && p->n_missing > 0) || !is_as_seen(p)) {
            walk(w, p, e);
            p->walk_fresh = true;
            drained = p->walked.drained;
        }
        check_walk(w, p, &f, &p->walked);
        check_bounds(w, p, &f);
    }
    check_demand(w, p, &f, drained);
    p->last = f;
}
