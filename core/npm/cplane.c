/* The control plane's side: what it lists, what was asked of it, and which call comes next.
 *
 * A list is believed in what it adds, and doubted in what it leaves out. */
#include <npm/npm_int.h>

#include <base/hash.h>
#include <string.h>

/* ---- lists ----------------------------------------------------------------------------------- */

static bool text_ok(const char *s, size_t max)
{
    size_t len = s ? strnlen(s, max + 1) : 0;

    if (len == 0 || len > max) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '!' || s[i] > '~') {
            return false;
        }
    }
    return true;
}

/* h: the host of this id, or NULL. What it is known by was looked at when it came. */
static bool machine_ok(const struct fn_machine *m, const struct npm_host *h, bool same_address)
{
    if ((m->state != FN_MACHINE_STARTING && m->state != FN_MACHINE_READY) ||
        m->capacity_mb > NPM_RUNNER_MB_MAX || (!h && !text_ok(m->id, NPM_ID_MAX))) {
        return false;
    }
    if (!m->address) {
        return m->state == FN_MACHINE_STARTING;
    }
    return same_address || text_ok(m->address, NPM_ADDRESS_MAX);
}

static uint32_t owned_n(const struct npm_group *g)
{
    return g->n_hosts - g->state_n[NPM_FOREIGN];
}

/* An arrival fulfils the newest request that the control plane was told of, else one that it is to
 * be told of: what got lost is of the oldest, which expires first, however many come after it. One
 * that is gone already fulfils none that was not told. Returns when the request was made; 0 = there
 * is none. */
static int64_t arrived(struct npm_group *g, bool gone)
{
    struct npm_request *newest = NULL;

    for (uint32_t i = 0; i < NPM_REQUESTS_MAX; i++) {
        struct npm_request *r = &g->requests[i];
        bool better = !newest || (r->told && !newest->told) ||
                      (!r->told == !newest->told && r->id > newest->id);

        if (r->n > 0 && (r->told || !gone) && better) {
            newest = r;
        }
    }
    if (!newest) {
        return 0;
    }
    asked_take(g, newest, 1);
    g->expired = 0;
    return newest->made_ns;
}

static struct npm_host *adopt(struct npm_group *g, const struct fn_machine *m, int64_t now_ns)
{
    bool room = owned_n(g) < g->o.runners_max;
    struct npm_host *h = host_add(g, m->id, room ? NPM_BOOTING : NPM_FOREIGN, now_ns);

    if (!h) {
        return NULL;
    }
    if (room) {
        h->asked_for_ns = arrived(g, false);
    }
    if (h->asked_for_ns != 0) {
        note(g, NPM_NOTE_ARRIVED, h->id, (uint64_t)(now_ns - h->asked_for_ns) / 1000000);
    } else {
        note(g, room ? NPM_NOTE_ADOPTED : NPM_NOTE_FOREIGN, h->id, 0);
    }
    return h;
}

/* Clouds list what is gone for an hour. False also when there are too many to tell. Two ids that
 * share a hash hide at worst a machine that ended at once. */
static bool gone_is_news(struct npm_group *g, const char *id)
{
    uint64_t key = hash_text(HASH_INIT, id);
    uint32_t oldest = 0;

    for (uint32_t i = 0; i < NPM_GONE_KEPT; i++) {
        if (g->gone[i].list_no != 0 && g->gone[i].key == key) {
            g->gone[i].list_no = g->list_no;
            return false;
        }
        oldest = g->gone[i].list_no < g->gone[oldest].list_no ? i : oldest;
    }
    if (g->gone[oldest].list_no == g->list_no) {
        return false;
    }
    g->gone[oldest].key = key;
    g->gone[oldest].list_no = g->list_no;
    return true;
}

/* A host that is listed as gone is doubted like one that is left out. One that nobody knows was
 * asked for and ended: it does not come any more. */
static void take_gone(struct npm_group *g, const struct fn_machine *m, const struct npm_host *h,
                      bool first_list, int64_t now_ns)
{
    if (!text_ok(m->id, NPM_ID_MAX) || !gone_is_news(g, m->id) || h || first_list ||
        arrived(g, true) == 0) {
        return;
    }
    note(g, NPM_NOTE_ENDED, m->id, 0);
    hosts_stillborn(g, m->id, now_ns);
}

static bool is_at(const struct npm_host *h, const char *address)
{
    return h && address && h->address[0] && strcmp(h->address, address) == 0;
}

/* From the end, because the first entry of an id counts. */
static void find_moving(struct npm_group *g, const struct npm_event *e)
{
    for (uint32_t i = e->n; i-- > 0;) {
        const struct fn_machine *m = &e->machines[i];
        struct npm_host *h = m->id ? host_find(g, m->id) : NULL;
        bool there = is_at(h, m->address);

        if (h && machine_ok(m, h, there)) {
            h->moves_to = h->address[0] && !there ? m->address : NULL;
        }
    }
}

#define RING_MAX 64u /* machines that are followed from one to the next */

/* Who has the address to which h moves, who has that one's, and so on, to h itself. 0: they do not
 * come back to it. */
static uint32_t find_ring(const struct npm_group *g, struct npm_host *h,
                          struct npm_host *ret[RING_MAX])
{
    struct npm_host *at = h;

    for (uint32_t n = 0; n < RING_MAX && at && at->moves_to;) {
        ret[n++] = at;
        at = host_at_address(g, at->moves_to);
        if (at == h) {
            return n;
        }
    }
    return 0;
}

/* Machines may exchange addresses: all of them move at once, as each waits for another one. */
static void turn_ring(struct npm_group *g, struct npm_host *h)
{
    struct npm_host *ring[RING_MAX];
    uint32_t n = find_ring(g, h, ring);

    for (uint32_t i = 0; i < n; i++) {
        host_set_address(g, ring[i], "");
    }
    for (uint32_t i = 0; i < n; i++) {
        host_set_address(g, ring[i], ring[i]->moves_to);
        ring[i]->moves_to = NULL;
        note(g, NPM_NOTE_MOVED, ring[i]->id, 0);
    }
}

static void take_address(struct npm_group *g, struct npm_host *h, const struct fn_machine *m,
                         uint32_t place)
{
    bool moved = h->address[0];

    turn_ring(g, h);
    if (is_at(h, m->address)) {
        return;
    }
    if (!host_set_address(g, h, m->address)) {
        note(g, NPM_NOTE_BAD_MACHINE, h->id, place);
    } else if (moved) {
        note(g, NPM_NOTE_MOVED, h->id, 0);
    }
}

static void take_machine(struct npm_group *g, const struct fn_machine *m, uint32_t place,
                         bool first_list, int64_t now_ns)
{
    struct npm_host *h = m->id ? host_find(g, m->id) : NULL;
    bool same_address = is_at(h, m->address);

    if (m->state == FN_MACHINE_GONE) {
        take_gone(g, m, h, first_list, now_ns);
        return;
    }
    if (!machine_ok(m, h, same_address)) {
        note(g, NPM_NOTE_BAD_MACHINE, text_ok(m->id, NPM_ID_MAX) ? m->id : NULL, place);
        return;
    }
    if (h && h->list_no == g->list_no) {
        note(g, NPM_NOTE_BAD_MACHINE, h->id, place);
        return;
    }
    h = h ? h : adopt(g, m, now_ns);
    if (!h) {
        return;
    }
    h->list_no = g->list_no;
    h->missing = 0;
    h->braked = false;
    if (m->address && !same_address) {
        take_address(g, h, m, place);
    }
    h->moves_to = NULL;
    host_set_labels(g, h, m->labels);
    if (m->capacity_mb != 0 && m->capacity_mb != h->capacity_mb) {
        host_set_capacity(g, h, m->capacity_mb);
    }
}

static bool may_be_lost(const struct npm_host *h)
{
    return h->state == NPM_BOOTING || h->state == NPM_ACTIVE || h->state == NPM_DRAINING;
}

#define BRAKE_HOSTS_MIN 3u /* of fewer, one is most of them */

static void set_brake(struct npm_group *g, uint32_t missing, uint32_t total)
{
    bool brake = total >= BRAKE_HOSTS_MIN && missing * 2 > total;

    if (brake && !g->brake) {
        note(g, NPM_NOTE_BRAKE, NULL, missing);
    }
    g->brake = brake;
}

/* The brake stays on a host until it is listed again, whatever becomes of the others. */
static void brake_missing(struct npm_group *g)
{
    for (uint32_t i = 0; g->brake && i < g->n_hosts; i++) {
        struct npm_host *h = host_at(g, i);

        h->braked |= h->missing > 0;
    }
}

static void count_missing(struct npm_group *g, int64_t now_ns)
{
    uint32_t missing = 0, total = 0;

    for (uint32_t i = 0; i < g->n_hosts; i++) {
        struct npm_host *h = host_at(g, i);

        if (h->list_no != g->list_no) {
            h->missing_ns = h->missing == 0 ? now_ns : h->missing_ns;
            h->missing++;
        }
        total += may_be_lost(h);
        missing += may_be_lost(h) && h->missing > 0;
    }
    set_brake(g, missing, total);
    brake_missing(g);
}

static bool is_gone(const struct npm_group *g, const struct npm_host *h, int64_t now_ns)
{
    if (h->missing < NPM_LOSS_POLLS) {
        return false;
    }
    return !h->braked || !may_be_lost(h) || now_ns - h->missing_ns >= g->o.loss_brake_ns;
}

static void drop_gone(struct npm_group *g, int64_t now_ns)
{
    for (uint32_t i = 0; i < g->n_hosts;) {
        struct npm_host *h = host_at(g, i);

        if (!is_gone(g, h, now_ns)) {
            i++;
            continue;
        }
        if (h->state == NPM_BOOTING || h->state == NPM_ACTIVE) {
            hosts_lost(g, h, h->missing_ns, now_ns);
        }
        /* The text of a dropped host stays until its slot is used again. */
        note(g,
             !may_be_lost(h) ? NPM_NOTE_GONE
             : h->active > 0 ? NPM_NOTE_PULLED
                             : NPM_NOTE_LOST,
             h->id, h->active);
        host_drop(g, h);
    }
}

void cplane_listed(struct npm_group *g, const struct npm_event *e, int64_t now_ns)
{
    bool first_list = !g->listed;

    g->list_no++;
    g->listed = true;
    g->listed_ns = now_ns;
    g->list_failures = 0;
    hosts_turn(g, e->standby, now_ns);
    find_moving(g, e);
    for (uint32_t i = 0; i < e->n; i++) {
        take_machine(g, &e->machines[i], i, first_list, now_ns);
    }
    count_missing(g, now_ns);
    drop_gone(g, now_ns);
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct npm_request *request_find(struct npm_group *g, uint64_t id)
{
    for (uint32_t i = 0; i < NPM_REQUESTS_MAX; i++) {
        if (g->requests[i].n > 0 && g->requests[i].id == id) {
            return &g->requests[i];
        }
    }
    return NULL;
}

static int64_t pause_ns(const struct npm_group *g, uint32_t failures)
{
    return backoff_ns(NPM_BACKOFF_MIN_NS, g->o.backoff_max_ns, failures);
}

static void provision_failed(struct npm_group *g, int64_t now_ns)
{
    g->provision_failures++;
    g->provision_next_ns = now_ns + pause_ns(g, g->provision_failures);
}

static void provision_answered(struct npm_group *g, const struct npm_event *e, int64_t now_ns)
{
    struct npm_request *r = request_find(g, g->call_request);
    bool open = e->kind == NPM_PROVISION_FAILED && e->unknown;

    g->provisions_open = open ? g->provisions_open + 1 : 0;
    if (e->kind == NPM_PROVISION_FAILED || e->n == 0) {
        provision_failed(g, now_ns);
        if (e->kind == NPM_PROVISIONED) {
            note(g, NPM_NOTE_NONE_ACCEPTED, NULL, r ? r->told : 0);
        }
    } else {
        g->provision_failures = 0;
    }
    if (!r) {
        return; /* it expired, or its runners were faster than the answer */
    }
    if (open) {
        r->unknown = true;
    } else if (e->kind == NPM_PROVISION_FAILED && !r->unknown) {
        r->id =
            ++g->budget
                  ->request_last; /* nothing was made of it: another try may be of another size */
        r->told = 0;
    } else if (e->kind == NPM_PROVISIONED) {
        uint32_t arrived = r->told - r->n;
        uint32_t left = e->n > arrived ? e->n - arrived : 0;

        r->taken = e->n > 0;
        asked_take(g, r, r->n > left ? r->n - left : 0);
    }
}

/* A host that was removed stays listed for a while; one that was not, for ever. */
static void remove_answered(struct npm_group *g, int64_t now_ns)
{
    struct npm_host *h = host_find(g, g->call_host);

    if (h) {
        h->tries++;
        h->remove_ns = now_ns + pause_ns(g, h->tries + 1);
    }
}

void cplane_answered(struct npm_group *g, const struct npm_event *e, int64_t now_ns)
{
    enum npm_cplane_call call = g->call;

    g->call = NPM_CALL_NONE;
    if (call == NPM_CALL_PROVISION) {
        provision_answered(g, e, now_ns);
    } else if (call == NPM_CALL_REMOVE) {
        remove_answered(g, now_ns);
    } else if (e->kind == NPM_LISTED) {
        cplane_listed(g, e, now_ns);
    } else {
        g->list_failures++;
        g->list_next_ns = now_ns + pause_ns(g, g->list_failures);
    }
}

void cplane_expire(struct npm_group *g, int64_t now_ns)
{
    for (uint32_t i = 0; g->asked_n > 0 && i < NPM_REQUESTS_MAX; i++) {
        struct npm_request *r = &g->requests[i];

        if (r->n == 0 || now_ns < r->expires_ns) {
            continue;
        }
        note(g, NPM_NOTE_REQUEST_EXPIRED, NULL, r->n);
        asked_take(g, r, r->n);
        if (++g->expired >= NPM_EXPIRED_MAX) {
            note(g, NPM_NOTE_REQUEST_ALARM, NULL, g->expired);
            g->provision_next_ns = now_ns + g->o.backoff_max_ns;
        }
    }
}

/* ---- the next call --------------------------------------------------------------------------- */

static bool start_list(struct npm_group *g, int64_t now_ns)
{
    if (now_ns < g->list_next_ns) {
        return false;
    }
    act(g, NPM_DO_LIST);
    return true;
}

static bool start_provision(struct npm_group *g, int64_t now_ns)
{
    struct npm_action *a;

    if (now_ns < g->provision_next_ns || !g->listed || g->standby || now_ns < g->settled_ns) {
        return false;
    }
    for (uint32_t i = 0; g->asked_n > 0 && i < NPM_REQUESTS_MAX; i++) {
        struct npm_request *r = &g->requests[i];

        if (r->n > 0 && !r->taken) {
            /* A repeated request is the same to the letter, also when some of it has arrived: a
             * control plane may name its machines by their place in it. */
            r->told = r->told ? r->told : r->n;
            a = act(g, NPM_DO_PROVISION);
            a->request_id = g->call_request = r->id;
            a->n = r->told;
            return true;
        }
    }
    return false;
}

static bool start_remove(struct npm_group *g, int64_t now_ns)
{
    struct npm_host *h;

    if (g->state_n[NPM_REMOVING] == 0 || !g->listed || g->standby || now_ns < g->act_down_ns) {
        return false;
    }
    for (uint32_t i = 0; i < g->n_hosts; i++) {
        h = host_at(g, i);
        if (h->state == NPM_REMOVING && h->missing == 0 && now_ns >= h->remove_ns) {
            act(g, NPM_DO_REMOVE)->id = h->id;
            h->ordered = true;
            memcpy(g->call_host, h->id, sizeof(h->id));
            return true;
        }
    }
    return false;
}

int64_t cplane_next(struct npm_group *g, int64_t now_ns)
{
    static const struct {
        enum npm_cplane_call call;
        bool (*start)(struct npm_group *g, int64_t now_ns);
    } calls[] = {
        { NPM_CALL_LIST, start_list },
        { NPM_CALL_PROVISION, start_provision },
        { NPM_CALL_REMOVE, start_remove },
    };
    uint32_t first = (uint32_t)g->call_last % 3; /* the one after the last */

    if (g->call != NPM_CALL_NONE) {
        return INT64_MAX;
    }
    if (now_ns < g->call_next_ns) {
        return g->call_next_ns;
    }
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t k = (first + i) % 3;

        if (calls[k].start(g, now_ns)) {
            g->call = g->call_last = calls[k].call;
            g->call_next_ns = now_ns + g->o.poll_ns;
            return INT64_MAX;
        }
    }
    return now_ns + g->o.poll_ns;
}
