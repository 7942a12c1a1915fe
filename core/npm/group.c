/* Groups: memory, hosts and their sums, actions. */
#include <npm/npm_int.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const npm_state_names[NPM_STATES_N] = { "booting", "active", "draining", "removing",
                                                    "foreign" };

const char *const npm_wish_names[NPM_WISHES_N] = { "none", "drain", "replace", "remove" };

const char *const npm_reason_texts[NPM_REASONS_N] = {
    "", "not needed", "silent", "the operator's wish", "replaced",
    "it got a call before its removal",
};

const struct npm_note_about npm_notes[NPM_NOTES_N] = {
    [NPM_NOTE_ADOPTED] = { "runner found, which nobody here asked for", NULL, false },
    [NPM_NOTE_ARRIVED] = { "runner arrived", "after_ms", false },
    [NPM_NOTE_ACTIVE] = { "runner active", "capacity_mb", false },
    [NPM_NOTE_DRAINING] = { "runner draining", "calls", false },
    [NPM_NOTE_REACTIVATED] = { "runner active again", "calls", false },
    [NPM_NOTE_REMOVING] = { "runner empty, removing it", "calls", false },
    [NPM_NOTE_GONE] = { "runner gone", "calls", false },
    [NPM_NOTE_LOST] = { "runner lost: the control plane does not list it any more", "calls", true },
    [NPM_NOTE_PULLED] = { "runner with running calls was taken away by the control plane", "calls",
                          true },
    [NPM_NOTE_BRAKE] = { "most runners left the list at once: not believed yet", "runners", true },
    [NPM_NOTE_FOREIGN] = { "runner beyond the group's maximum is left alone", NULL, false },
    [NPM_NOTE_BAD_MACHINE] = { "the control plane listed a machine that cannot be used", "place",
                               true },
    [NPM_NOTE_MOVED] = { "runner has a new address", NULL, false },
    [NPM_NOTE_DRAIN_CUT] = { "runner removed with running calls", "calls", true },
    [NPM_NOTE_BOOT_FAILED] = { "runner never answered after its start, removing it", NULL, true },
    [NPM_NOTE_SILENT] = { "runner does not answer, replacing it", NULL, true },
    [NPM_NOTE_REQUEST_EXPIRED] = { "runners that were asked for did not arrive", "runners", true },
    [NPM_NOTE_REQUEST_ALARM] = { "the control plane takes requests and delivers nothing",
                                 "in_a_row", true },
    [NPM_NOTE_AT_MAX] = { "more capacity is wanted than the maximum of runners allows", "wanted_mb",
                          true },
    [NPM_NOTE_DEMAND_CLAMPED] = { "demand above the group's maximum is clamped", "max_mb", true },
    [NPM_NOTE_LB_GONE] = { "load balancer is silent, its demand is forgotten", "wanted_mb", false },
    [NPM_NOTE_LBS_FULL] = { "too many load balancers, demand refused", "lbs", true },
    [NPM_NOTE_STALL] = { "the node stood still: lists and loads are learnt anew", "for_ms", true },
    [NPM_NOTE_STILLBORN] = { "new runner did not live: a pause before more are asked for",
                             "in_a_row", true },
    [NPM_NOTE_ENDED] = { "runner ended before it answered", NULL, true },
    [NPM_NOTE_NONE_ACCEPTED] = { "the control plane accepts none of the runners asked for",
                                 "runners", true },
    [NPM_NOTE_LB_TWICE] = { "load balancers with the same lb_id: each must have its own", "lbs",
                            true },
    [NPM_NOTE_REPLACING] = { "runner is to be replaced: it serves until others can", "calls",
                             false },
    [NPM_NOTE_FAILING] = { "the status of a runner fails", "calls", true },
    [NPM_NOTE_WELL] = { "the status of a runner is good again", "calls", false },
};

static const uint32_t follows[NPM_STATES_N] = {
    [NPM_BOOTING] = STATE(NPM_ACTIVE) | STATE(NPM_DRAINING) | STATE(NPM_REMOVING),
    [NPM_ACTIVE] = STATE(NPM_DRAINING) | STATE(NPM_REMOVING),
    [NPM_DRAINING] = STATE(NPM_ACTIVE) | STATE(NPM_BOOTING) | STATE(NPM_REMOVING),
    [NPM_REMOVING] = STATE(NPM_DRAINING),
    [NPM_FOREIGN] = STATE(NPM_BOOTING),
};
const struct states npm_host_states = { "host", npm_state_names, follows, NPM_STATES_N };

/* ---- actions --------------------------------------------------------------------------------- */

struct npm_action *act(struct npm_group *g, enum npm_action_kind kind)
{
    struct npm_action *a = &g->out->list[g->out->n++];
    *a = (struct npm_action){ .kind = kind };
    return a;
}

void note(struct npm_group *g, enum npm_note what, const char *id, uint64_t value)
{
    struct npm_action *a;

    if (!has_room(g)) {
        g->out->dropped++;
        return;
    }
    a = act(g, NPM_DO_NOTE);
    a->note = what;
    a->id = id;
    a->value = value;
}

int64_t backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures)
{
    int64_t ns = min_ns;

    while (failures > 1 && ns < max_ns) {
        ns *= 2;
        failures--;
    }
    return ns < max_ns ? ns : max_ns;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

struct npm_host *host_find(const struct npm_group *g, const char *id)
{
    uint32_t slot = index_find(&g->host_index, id);

    return slot == INDEX_NONE ? NULL : &g->hosts[slot];
}

static bool owned(enum npm_host_state state)
{
    return state != NPM_FOREIGN;
}

/* What a runner that is asked for will bring: the mean of those that told, so that no single odd
 * one decides for the group. */
static void learn_typical(struct npm_group *g)
{
    uint32_t n = g->state_n[NPM_ACTIVE] + g->state_n[NPM_DRAINING];

    g->typical_mb = n > 0 ? (g->state_mb[NPM_ACTIVE] + g->state_mb[NPM_DRAINING]) / n
                          : g->o.runner_mb;
}

/* Supply that is to be replaced. */
static bool leaves(const struct npm_host *h)
{
    return h->wish == NPM_WISH_REPLACE && (h->state == NPM_ACTIVE || h->state == NPM_BOOTING);
}

static bool fails(const struct npm_host *h)
{
    return h->fault[0] && h->state == NPM_ACTIVE && !leaves(h);
}

/* When most hosts fail, what they are asked is more likely the cause than they are: a group that
 * counts none of them would grow to its maximum. */
uint64_t failing_mb(const struct npm_group *g)
{
    return g->failing_n <= 1 || g->failing_n * 2 <= g->state_n[NPM_ACTIVE] ? g->failing_mb : 0;
}

/* sign: 1 or -1; sums are unsigned, and what is taken from them comes round. */
static void group_count(struct npm_group *g, const struct npm_host *h, int sign)
{
    uint32_t one = (uint32_t)sign;
    uint64_t mb = h->capacity_mb * (uint64_t)sign;

    g->state_n[h->state] += one;
    g->state_mb[h->state] += mb;
    g->budget->runners += owned(h->state) ? one : 0;
    if (leaves(h)) {
        g->leaving_n += one;
        g->leaving_mb += mb;
    }
    if (fails(h)) {
        g->failing_n += one;
        g->failing_mb += mb;
    }
    learn_typical(g);
}

struct npm_host *host_add(struct npm_group *g, const char *id, enum npm_host_state state,
                          int64_t now_ns)
{
    struct npm_host *h;

    if (g->n_hosts == g->hosts_max) {
        return NULL;
    }
    h = host_at(g, g->n_hosts);
    *h = (struct npm_host){ .state = state,
                            .order = ++g->order_last,
                            .capacity_mb = g->typical_mb,
                            .since_ns = now_ns,
                            .status_ns = now_ns };
    host_look(g, h);
    strncpy(h->id, id, NPM_ID_MAX);
    index_add(&g->host_index, g->slots[g->n_hosts++]);
    group_count(g, h, 1);
    return h;
}

struct npm_host *host_at_address(const struct npm_group *g, const char *address)
{
    uint32_t slot = address[0] ? index_find(&g->address_index, address) : INDEX_NONE;

    return slot == INDEX_NONE ? NULL : &g->hosts[slot];
}

bool host_set_address(struct npm_group *g, struct npm_host *h, const char *address)
{
    if (host_at_address(g, address)) {
        return false;
    }
    if (h->address[0]) {
        index_remove(&g->address_index, (uint32_t)(h - g->hosts));
    }
    host_look(g, h);
    g->published |= npm_is_listed(h);
    strncpy(h->address, address, NPM_ADDRESS_MAX);
    g->published |= npm_is_listed(h);
    if (address[0]) {
        index_add(&g->address_index, (uint32_t)(h - g->hosts));
    }
    return true;
}

void host_drop(struct npm_group *g, struct npm_host *h)
{
    uint32_t slot = (uint32_t)(h - g->hosts);
    uint32_t i = 0;

    g->published |= npm_is_listed(h);
    group_count(g, h, -1);
    host_set_address(g, h, "");
    host_set_labels(g, h, NULL);
    index_remove(&g->host_index, slot);
    while (g->slots[i] != slot) {
        i++;
    }
    memmove(&g->slots[i], &g->slots[i + 1], (g->n_hosts - i - 1) * sizeof(*g->slots));
    g->slots[--g->n_hosts] = slot;
}

void host_set_state(struct npm_group *g, struct npm_host *h, enum npm_host_state state,
                    int64_t now_ns)
{
    host_look(g, h);
    g->published |= npm_is_listed(h);
    group_count(g, h, -1);
    assert(states_may(&npm_host_states, h->state, state)); /* a pure step has no log */
    h->state = state;
    g->published |= npm_is_listed(h);
    h->since_ns = now_ns;
    h->status_ns = now_ns;
    group_count(g, h, 1);
}

void host_set_capacity(struct npm_group *g, struct npm_host *h, uint64_t mb)
{
    g->published |= npm_is_listed(h);
    group_count(g, h, -1);
    h->capacity_mb = mb;
    group_count(g, h, 1);
}

void host_set_fault(struct npm_group *g, struct npm_host *h, const char *fault)
{
    group_count(g, h, -1);
    snprintf(h->fault, sizeof(h->fault), "%s", fault);
    group_count(g, h, 1);
}

void host_set_wish(struct npm_group *g, struct npm_host *h, enum npm_wish wish)
{
    host_look(g, h);
    group_count(g, h, -1);
    h->wish = wish;
    group_count(g, h, 1);
}

void asked_add(struct npm_group *g, struct npm_request *r, uint32_t n)
{
    r->n += n;
    g->asked_n += n;
    g->budget->runners += n;
}

void asked_take(struct npm_group *g, struct npm_request *r, uint32_t n)
{
    n = n < r->n ? n : r->n;
    r->n -= n;
    g->asked_n -= n;
    g->budget->runners -= n;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int allocate(struct npm_group *g)
{
    g->hosts_max = g->o.runners_max + NPM_HOSTS_SPARE;
    g->hosts = calloc(g->hosts_max, sizeof(*g->hosts));
    g->slots = calloc(g->hosts_max, sizeof(*g->slots));
    g->calm_ns = calloc(g->hosts_max, sizeof(*g->calm_ns));
    g->lbs = calloc(g->o.lbs_max, sizeof(*g->lbs));
    g->lb_slots = calloc(g->o.lbs_max, sizeof(*g->lb_slots));
    g->spares_max = NPM_SPARES_MIN + g->o.lbs_max / NPM_LBS_PER_SPARE;
    g->spares = calloc(g->spares_max, sizeof(*g->spares));
    g->free_spares = calloc(g->spares_max, sizeof(*g->free_spares));
    if (!g->hosts || !g->slots || !g->calm_ns || !g->lbs || !g->lb_slots || !g->spares ||
        !g->free_spares ||
        index_create(&g->host_index, g->hosts_max, g->hosts[0].id, sizeof(*g->hosts)) < 0 ||
        index_create(&g->address_index, g->hosts_max, g->hosts[0].address, sizeof(*g->hosts)) < 0 ||
        labels_create(g) < 0 ||
        index_create(&g->lb_index, g->o.lbs_max, g->lbs[0].id, sizeof(*g->lbs)) < 0) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < g->hosts_max; i++) {
        g->slots[i] = i;
    }
    for (uint32_t i = 0; i < g->o.lbs_max; i++) {
        g->lb_slots[i] = i;
    }
    while (g->n_free_spares < g->spares_max) {
        g->free_spares[g->n_free_spares] = g->n_free_spares;
        g->n_free_spares++;
    }
    return 0;
}

struct npm_group *npm_group_create(const struct npm_options *options, struct npm_budget *budget,
                                   int64_t now_ns)
{
    struct npm_group *g = calloc(1, sizeof(*g));

    if (!g) {
        return NULL;
    }
    g->o = *options;
    g->budget = budget;
    g->typical_mb = options->runner_mb;
    g->stepped_ns = now_ns;
    g->settled_ns = now_ns + options->settle_ns;
    g->published = true; /* the first list, even an empty one, is news */
    g->act_down_ns = now_ns + options->loss_brake_ns;
    if (allocate(g) < 0) {
        npm_group_destroy(g);
        return NULL;
    }
    return g;
}

void npm_group_destroy(struct npm_group *g)
{
    if (!g) {
        return;
    }
    for (uint32_t i = 0; i < g->n_hosts; i++) {
        group_count(g, host_at(g, i), -1);
    }
    g->budget->runners -= g->asked_n;
    index_finish(&g->host_index);
    index_finish(&g->address_index);
    index_finish(&g->lb_index);
    labels_finish(g);
    free(g->hosts);
    free(g->slots);
    free(g->calm_ns);
    free(g->lbs);
    free(g->lb_slots);
    free(g->spares);
    free(g->free_spares);
    free(g);
}

void npm_group_set_options(struct npm_group *g, const struct npm_options *options)
{
    struct npm_options o = *options;

    o.runners_max = g->o.runners_max; /* there is memory for so many */
    o.lbs_max = g->o.lbs_max;
    o.predict = g->o.predict;
    o.predict_ud = g->o.predict_ud;
    g->o = o;
    g->lbs_expire_ns = 0;
    memset(g->calm_ns, 0, g->hosts_max * sizeof(*g->calm_ns));
    learn_typical(g);
}

uint32_t npm_host_count(const struct npm_group *g)
{
    return g->n_hosts;
}

const struct npm_host *npm_host_at(const struct npm_group *g, uint32_t i)
{
    return host_at(g, i);
}

const struct npm_host *npm_host_find(const struct npm_group *g, const char *id)
{
    return host_find(g, id);
}

void npm_figures(const struct npm_group *g, struct npm_figures *ret)
{
    *ret = (struct npm_figures){ .version = g->version,
                                 .wanted_mb = g->wanted_mb,
                                 .waiting = g->waiting,
                                 .desired_mb = g->desired_mb,
                                 .asked_n = g->asked_n,
                                 .lbs_n = g->n_lbs,
                                 .cplane_failures = g->list_failures + g->provision_failures,
                                 .cplane_away = g->list_failures + g->provisions_open,
                                 .stillborn = g->stillborn,
                                 .lbs_twice = g->lbs_twice,
                                 .leaving_n = g->leaving_n,
                                 .failing_n = g->failing_n,
                                 .listed_ns = g->listed_ns,
                                 .stillborn_until_ns = g->stillborn_next_ns,
                                 .provision_until_ns = g->provision_next_ns,
                                 .list_until_ns = g->list_next_ns,
                                 .at_max = g->capped,
                                 .standby = g->standby,
                                 .settled = g->listed && g->stepped_ns >= g->settled_ns,
                                 .cplane_busy = g->call != NPM_CALL_NONE };
    memcpy(ret->state_mb, g->state_mb, sizeof(ret->state_mb));
    memcpy(ret->state_n, g->state_n, sizeof(ret->state_n));
    for (uint32_t i = 0; g->asked_n > 0 && i < NPM_REQUESTS_MAX; i++) {
        const struct npm_request *r = &g->requests[i];

        ret->requests_n += r->n > 0;
        if (r->n > 0 && (ret->asked_since_ns == 0 || r->made_ns < ret->asked_since_ns)) {
            ret->asked_since_ns = r->made_ns;
        }
    }
}
