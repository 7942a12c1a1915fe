/* The control plane and its machines: slow, forgetful, lying, as the faults of the seed say. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER_NS INT64_MAX
#define REST_NS (40 * MIN) /* before a place gets another machine */

static void *grab(size_t n, size_t size)
{
    void *mem = calloc(n, size);

    if (!mem) {
        fputs("npm_sim: out of memory\n", stderr);
        exit(70);
    }
    return mem;
}

void cloud_open(struct world *w, struct pool *p)
{
    p->machines_max = 4 * w->o.runners_max + 512;
    p->machines = grab(p->machines_max, sizeof(*p->machines));
    p->alive = grab(p->machines_max, sizeof(*p->alive));
    p->owners = grab(2 * p->machines_max, sizeof(*p->owners));
    p->list_cap = p->machines_max + 8;
    p->list = grab(p->list_cap, sizeof(*p->list));
    p->known = grab(p->machines_max, sizeof(*p->known));
    p->seen = grab(p->machines_max, sizeof(*p->seen));
    p->known_before = grab(p->machines_max, sizeof(*p->known_before));
    p->address_walks = grab(2 * p->machines_max, sizeof(*p->address_walks));
}

void cloud_close(struct pool *p)
{
    free(p->machines);
    free(p->alive);
    free(p->owners);
    free(p->list);
    free(p->known);
    free(p->known_before);
    free(p->seen);
    free(p->address_walks);
}

/* ---- machines -------------------------------------------------------------------------------- */

static bool rests(const struct world *w, const struct pool *p, const struct machine *m)
{
    return !m->used && (m->generation == 0 || (w->now_ns - m->gone_ns > REST_NS &&
                                               !(p->g && npm_host_find(p->g, m->id))));
}

static struct machine *free_place(struct world *w, struct pool *p)
{
    for (uint32_t i = 0; i < p->machines_max; i++) {
        struct machine *m = &p->machines[p->next_place];

        p->next_place = (p->next_place + 1) % p->machines_max;
        if (rests(w, p, m)) {
            return m;
        }
    }
    return NULL; /* the cloud is sold out */
}

static void set_address(struct pool *p, struct machine *m, uint32_t no)
{
    m->address_no = no;
    memcpy(m->address, "a00000:9190", 12);
    put_place(m->address + 1, no);
    p->owners[no] = (uint32_t)(m - p->machines) + 1;
}

static void boot(struct world *w, struct pool *p, struct machine *m, int64_t from_ns)
{
    struct rng *r = &p->rng;
    int64_t boot_ns = rng_between(r, S, 20 * S);

    if (happens(w, F_HOST_SLOW_BOOT, r)) {
        boot_ns = rng_between(r, 20 * S, 700 * S);
    }
    m->visible_ns = from_ns;
    m->named_ns = from_ns + boot_ns / 2;
    m->ready_ns = from_ns + boot_ns;
    m->dead_ns = m->gone_ns = NEVER_NS;
    m->unborn = false;
    if (w->now_ns < p->spoilt_ns) {
        m->dead_ns = m->ready_ns + (int64_t)rng_below(r, 2) * rng_between(r, 0, 40 * S);
        m->gone_ns = rng_below(r, 2) ? m->dead_ns + rng_between(r, 0, 10 * S) : NEVER_NS;
    } else if (happens(w, F_HOST_DEAD_BOOT, r)) {
        m->dead_ns = m->ready_ns;
    } else if (happens(w, F_HOST_DIES, r)) {
        m->dead_ns = m->ready_ns + rng_between(r, 0, 60 * MIN);
        if (rng_below(r, 2)) {
            m->gone_ns = m->dead_ns + rng_between(r, 0, MIN);
        }
    }
    memset(m->calls, 0, sizeof(m->calls));
}

static uint64_t capacity(struct world *w, struct pool *p)
{
    static const uint64_t odd[] = { 0, 1024, 2048, 8192, 16384, 1, 1ull << 63, UINT64_MAX, 3000 };

    return happens(w, F_CAPACITY, &p->rng) ? odd[rng_below(&p->rng, 9)] : w->o.runner_mb;
}

static void add_machine(struct world *w, struct pool *p, int64_t visible_ns)
{
    struct machine *m = free_place(w, p);
    uint32_t place;

    if (!m) {
        return;
    }
    place = (uint32_t)(m - p->machines);
    p->n_wishes -= m->wish != NPM_WISH_NONE;
    *m = (struct machine){ .used = true, .generation = m->generation + 1 };
    snprintf(m->id, sizeof(m->id), "m%05u.%u", place, m->generation);
    set_address(p, m, place);
    if (p->n_alive > 0 && happens(w, F_ADDRESS_REUSE, &p->rng)) {
        set_address(p, m, p->machines[p->alive[rng_below(&p->rng, p->n_alive)]].address_no);
    }
    boot(w, p, m, visible_ns);
    m->capacity_mb = capacity(w, p);
    m->stuck = happens(w, F_HOST_STUCK, &p->rng);
    if (happens(w, F_HOST_UNBORN, &p->rng) || p->unborn_n > 0) {
        p->unborn_n -= p->unborn_n > 0;
        m->unborn = true;
        m->dead_ns = visible_ns;
        m->gone_ns = visible_ns + 10 * MIN;
    }
    p->alive[p->n_alive++] = place;
}

static void bury(struct world *w, struct pool *p)
{
    for (uint32_t i = 0; i < p->n_alive;) {
        struct machine *m = &p->machines[p->alive[i]];

        if (m->gone_ns <= w->now_ns) {
            m->used = false;
            p->alive[i] = p->alive[--p->n_alive];
        } else {
            i++;
        }
    }
}

uint32_t machine_calls(const struct machine *m, int64_t now_ns, int64_t begun_ns)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < CALLS_OF_MACHINE; i++) {
        n += m->calls[i].end_ns > now_ns && m->calls[i].start_ns <= begun_ns;
    }
    return n;
}

static bool answers(const struct world *w, const struct machine *m)
{
    return m->used && w->now_ns >= m->ready_ns && w->now_ns < m->dead_ns && w->now_ns < m->gone_ns;
}

static struct machine *owner(const struct pool *p, uint32_t address_no)
{
    bool known = address_no < 2 * p->machines_max && p->owners[address_no];

    return known ? &p->machines[p->owners[address_no] - 1] : NULL;
}

bool cloud_answers_for(const struct pool *p, const struct machine *m)
{
    return owner(p, m->address_no) == m;
}

uint64_t cloud_true_mb(const struct world *w, const struct pool *p)
{
    uint64_t mb = 0;

    for (uint32_t i = 0; i < npm_host_count(p->g); i++) {
        const struct npm_host *h = npm_host_at(p->g, i);
        const struct machine *m = h->address[0] ? owner(p, place_of(h->address)) : NULL;

        mb += h->state == NPM_ACTIVE && m && answers(w, m) ? h->capacity_mb : 0;
    }
    return mb;
}

void cloud_place_call(struct world *w, struct pool *p, uint32_t address_no, struct rng *rng)
{
    struct machine *m = owner(p, address_no);
    uint32_t kind = rng_below(rng, 20);
    int64_t most_ns = kind < 16 ? 5 * S : kind < 19 ? MIN : CALL_MAX_NS;
    int64_t end_ns = w->now_ns + rng_between(rng, MS, most_ns);

    if (!m || !answers(w, m)) {
        return;
    }
    for (uint32_t i = 0; i < CALLS_OF_MACHINE; i++) {
        if (m->calls[i].end_ns <= w->now_ns) {
            m->calls[i] = (struct call){ w->now_ns, end_ns };
            w->result->calls++;
            return;
        }
    }
}

/* ---- questions to runners -------------------------------------------------------------------- */

static int64_t leg_ns(struct world *w, struct pool *p)
{
    if (happens(w, F_NET_DELAY, &p->rng)) {
        return rng_between(&p->rng, 10 * MS, 3 * S);
    }
    return rng_between(&p->rng, MS / 2, 5 * MS);
}

static void report(struct world *w, struct pool *p, int64_t delay_ns, uint32_t place,
                   uint32_t active_1)
{
    later(w, delay_ns, IT_REPORT, p->no, place, active_1, w->start_no, NULL);
}

void cloud_ask(struct world *w, struct pool *p, uint32_t place, uint32_t address_no)
{
    struct machine *m = owner(p, address_no);
    int64_t there_ns = leg_ns(w, p);

    if (m && happens(w, F_HOST_MUTE, &p->rng)) {
        m->mute_ns = w->now_ns + rng_between(&p->rng, S, 5 * MIN);
    }
    if (!m || m->mute_ns > w->now_ns || there_ns >= ASK_TIMEOUT_NS) {
        report(w, p, ASK_TIMEOUT_NS, place, 0);
    } else {
        later(w, there_ns, IT_SAMPLE, p->no, place, address_no, w->start_no, NULL);
    }
}

void cloud_sample(struct world *w, struct pool *p, uint32_t place, uint32_t address_no)
{
    struct machine *m = owner(p, address_no);
    int64_t back_ns = leg_ns(w, p);
    uint32_t active;

    if (!m || !answers(w, m)) { /* refused at once, or never */
        report(w, p, rng_below(&p->rng, 2) ? back_ns : ASK_TIMEOUT_NS, place, 0);
        return;
    }
    active = machine_calls(m, w->now_ns, w->now_ns) + m->stuck;
    report(w, p, back_ns < ASK_TIMEOUT_NS ? back_ns : ASK_TIMEOUT_NS, place,
           back_ns < ASK_TIMEOUT_NS ? active + 1 : 0);
}

/* ---- lists ----------------------------------------------------------------------------------- */

#define RELABEL_NS (600 * NPM_S) /* machines change their labels that often */

/* Every third machine has none. */
static const char *cloud_labels(const struct machine *m, int64_t now_ns)
{
    static const char *const labels[] = { NULL, "zone=a", "class=gpu,zone=b" };

    return labels[((uint64_t)(now_ns / RELABEL_NS) + (uint64_t)m->id[5]) % 3];
}

static void list_add(struct pool *p, const struct machine *m, int64_t now_ns)
{
    bool named = now_ns >= m->named_ns;

    if (p->n_list < p->list_cap) {
        p->list[p->n_list++] = (struct fn_machine){ sizeof(struct fn_machine),
                                                    m->unborn ? FN_MACHINE_GONE
                                                    : named   ? FN_MACHINE_READY
                                                              : FN_MACHINE_STARTING,
                                                    m->id, named ? m->address : NULL,
                                                    m->capacity_mb, cloud_labels(m, now_ns) };
    }
}

static void shuffle(struct pool *p)
{
    for (uint32_t i = p->n_list; i > 1; i--) {
        uint32_t j = rng_below(&p->rng, i);
        struct fn_machine t = p->list[i - 1];

        p->list[i - 1] = p->list[j];
        p->list[j] = t;
    }
}

static void spoil(struct world *w, struct pool *p)
{
    static const char *const texts[] = { "", NULL, "two words", "m\x01" };
    struct fn_machine bad;

    if (p->n_list == 0) {
        return;
    }
    bad = p->list[rng_below(&p->rng, p->n_list)];
    if (p->n_list < p->list_cap && happens(w, F_LIST_TWICE, &p->rng)) {
        bad.address = rng_below(&p->rng, 2) ? bad.address : "a99998:9190";
        p->list[p->n_list++] = bad;
    }
    if (p->n_list < p->list_cap && happens(w, F_LIST_BAD, &p->rng)) {
        switch (rng_below(&p->rng, 3)) {
        case 0:
            bad.id = texts[rng_below(&p->rng, 4)];
            break;
        case 1:
            bad.state = rng_below(&p->rng, 2) ? 77 : FN_MACHINE_GONE;
            break;
        default:
            bad.capacity_mb = UINT64_MAX - rng_below(&p->rng, 3);
        }
        p->list[rng_below(&p->rng, p->n_list)] = bad;
    }
}

static void take_list(struct world *w, struct pool *p)
{
    struct rng *r = &p->rng;

    bury(w, p);
    p->n_list = 0;
    p->list_taken = true;
    if (happens(w, F_LIST_EMPTY, r)) {
        p->empty_lists = 1 + rng_below(r, 5);
    }
    if (happens(w, F_LIST_HALF, r)) {
        p->half_lists = 1 + rng_below(r, 5);
    }
    if (p->empty_lists > 0) {
        p->empty_lists--;
        return;
    }
    for (uint32_t i = 0; i < p->n_alive; i++) {
        const struct machine *m = &p->machines[p->alive[i]];

        if (w->now_ns >= m->visible_ns && !(p->half_lists > 0 && (p->alive[i] & 1))) {
            list_add(p, m, w->now_ns);
        }
    }
    p->half_lists -= p->half_lists > 0;
    if (happens(w, F_LIST_SHUFFLE, r)) {
        shuffle(p);
    }
    spoil(w, p);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static int64_t visible_ns(struct world *w, struct pool *p)
{
    int64_t delay_ns = rng_between(&p->rng, 0, 2 * S);

    if (happens(w, F_CP_LATE, &p->rng)) {
        delay_ns = rng_between(&p->rng, 10 * S, 600 * S);
    }
    return w->now_ns + delay_ns;
}

static void deliver(struct world *w, struct pool *p)
{
    uint32_t n = p->call_n;
    uint32_t kept = p->n_requests < REQUESTS_KEPT ? p->n_requests : REQUESTS_KEPT;

    for (uint32_t i = 0; i < kept; i++) {
        if (p->requests[i].id == p->call_request) {
            p->call_accepted = p->requests[i].accepted;
            return; /* bought already */
        }
    }
    n = happens(w, F_CP_PARTIAL, &p->rng) ? rng_below(&p->rng, n + 1) : n;
    p->call_accepted = n;
    p->requests[p->n_requests++ % REQUESTS_KEPT].id = p->call_request;
    p->requests[(p->n_requests - 1) % REQUESTS_KEPT].accepted = n;
    n = happens(w, F_CP_LOST, &p->rng) ? rng_below(&p->rng, n + 1) : n;
    if (happens(w, F_CP_SURPLUS, &p->rng)) {
        n += 1 + (rng_below(&p->rng, 10) ? rng_below(&p->rng, 5) : rng_below(&p->rng, 150));
    }
    for (uint32_t i = 0; i < n; i++) {
        add_machine(w, p, visible_ns(w, p));
    }
}

static void destroy(struct world *w, struct pool *p, struct machine *m)
{
    if (!m->used) {
        return;
    }
    if (m->deaf == 0 && happens(w, F_CP_ZOMBIE, &p->rng)) {
        m->deaf = 1 + rng_below(&p->rng, 4);
        m->deaf = rng_below(&p->rng, 2) ? m->deaf : 0;
        m->gone_ns = m->deaf ? m->gone_ns : w->now_ns + rng_between(&p->rng, S, 10 * MIN);
        m->dead_ns = m->deaf ? m->dead_ns : w->now_ns;
        return;
    }
    if (m->deaf > 0) {
        m->deaf--;
        return;
    }
    m->dead_ns = m->dead_ns < w->now_ns ? m->dead_ns : w->now_ns;
    m->gone_ns = m->gone_ns < w->now_ns ? m->gone_ns : w->now_ns;
}

void cloud_effect(struct world *w, struct pool *p)
{
    if (!p->calling || p->call_done || !p->call_does) {
        return;
    }
    p->call_done = true;
    if (p->call == NPM_DO_LIST) {
        take_list(w, p);
    } else if (p->call == NPM_DO_PROVISION) {
        deliver(w, p);
    } else {
        destroy(w, p, &p->machines[p->call_place]);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

void cloud_call(struct world *w, struct pool *p, const struct npm_action *a)
{
    struct rng *r = &p->rng;
    int64_t effect_ns = rng_between(r, 5 * MS, 200 * MS);
    int64_t answer_ns = effect_ns + rng_between(r, MS, 100 * MS);

    cloud_effect(w, p); /* that of a manager which is dead by now */
    p->calling = true;
    p->call_done = p->list_taken = p->call_fails = p->call_unknown = false;
    p->call_does = true;
    p->call = a->kind;
    p->call_n = a->n;
    p->call_accepted = 0;
    p->call_request = a->request_id;
    p->call_place = a->kind == NPM_DO_REMOVE ? place_of(a->id) : 0;
    if (happens(w, F_CP_DELAY, r)) {
        effect_ns = rng_between(r, S, 60 * S);
        answer_ns = effect_ns + MS;
    }
    if (a->kind == NPM_DO_LIST && happens(w, F_LIST_STALE, r)) {
        answer_ns = effect_ns + rng_between(r, S, 28 * S);
    }
    if (happens(w, F_CP_HANG, r)) {
        p->call_does = rng_below(r, 2);
        answer_ns = 2 * CPLANE_TIMEOUT_NS;
    }
    if (happens(w, F_CP_ERROR, r)) {
        p->call_fails = true;
        p->call_unknown = rng_below(r, 2);
        p->call_does = p->call_unknown && rng_below(r, 2);
    }
    if (answer_ns >= CPLANE_TIMEOUT_NS) {
        answer_ns = CPLANE_TIMEOUT_NS;
        p->call_fails = p->call_unknown = true;
    }
    later(w, effect_ns, IT_EFFECT, p->no, 0, 0, w->start_no, NULL);
    later(w, answer_ns, IT_ANSWER, p->no, 0, 0, w->start_no, NULL);
}

void cloud_answer(struct world *w, struct pool *p)
{
    struct npm_event e = { .n = p->call_accepted, .unknown = p->call_unknown };
    bool ok = !p->call_fails && p->call_done;

    switch (p->call) {
    case NPM_DO_LIST:
        e.kind = ok ? NPM_LISTED : NPM_LIST_FAILED;
        e.n = ok ? p->n_list : 0;
        e.machines = p->list;
        break;
    case NPM_DO_PROVISION:
        e.kind = ok ? NPM_PROVISIONED : NPM_PROVISION_FAILED;
        break;
    default:
        e.kind = ok ? NPM_REMOVED : NPM_REMOVE_FAILED;
    }
    /* An effect later than the deadline stays to come. */
    if (p->call_done || !p->call_does) {
        p->calling = false;
    }
    node_step(w, p, &e);
    if (e.kind == NPM_LISTED && !w->result->broken) {
        node_renew(w, p);
    }
}

/* ---- fate ------------------------------------------------------------------------------------ */

/* Most machines stop at once and stay listed. */
static void blackout(struct world *w, struct pool *p)
{
    for (uint32_t i = 0; i < p->n_alive; i++) {
        struct machine *m = &p->machines[p->alive[i]];

        m->dead_ns = rng_below(&p->rng, 10) && m->dead_ns > w->now_ns ? w->now_ns : m->dead_ns;
    }
}

void cloud_fate(struct world *w, struct pool *p)
{
    struct rng *r = &p->rng;
    struct machine *m;

    if (happens(w, F_LIST_STRANGER, r)) {
        for (uint32_t i = rng_below(r, 5) ? rng_below(r, 3) : rng_below(r, 120); i > 0; i--) {
            add_machine(w, p, w->now_ns);
        }
    }
    if (happens(w, F_HOST_STILLBORN, r)) { /* a spoilt image */
        p->spoilt_ns = w->now_ns + rng_between(r, MIN, 60 * MIN);
    }
    if (p->n_alive == 0) {
        return;
    }
    m = &p->machines[p->alive[rng_below(r, p->n_alive)]];
    if (happens(w, F_CP_PULL, r)) {
        m->dead_ns = m->gone_ns = w->now_ns;
    }
    if (happens(w, F_HOST_BLACKOUT, r)) {
        blackout(w, p);
    }
    if (happens(w, F_ID_REUSE, r)) {
        uint32_t place = (uint32_t)(m - p->machines);

        set_address(p, m, m->address_no == place ? place + p->machines_max : place);
        boot(w, p, m, w->now_ns);
    }
}

/* The quiet end: what is broken stays so, but nothing breaks any more. */
void cloud_calm(struct world *w, struct pool *p)
{
    p->empty_lists = p->half_lists = 0;
    p->spoilt_ns = 0;
    for (uint32_t i = 0; i < p->n_alive; i++) {
        struct machine *m = &p->machines[p->alive[i]];

        m->deaf = 0;
        m->mute_ns = 0;
        m->stuck = false;
        if (m->dead_ns > w->now_ns) {
            m->dead_ns = NEVER_NS;
            m->gone_ns = NEVER_NS;
        } else if (m->gone_ns != NEVER_NS && m->gone_ns > w->now_ns) {
            m->gone_ns = w->now_ns;
        }
    }
}
