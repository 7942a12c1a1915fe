/* Hosts: what they report, when they are given up, and when they are asked. */
#include <npm/npm_int.h>

#include <string.h>

/* Empty, but its removal is still to be ordered: an LB that is cut off may bring a call. */
static bool may_stay(const struct npm_host *h)
{
    return h->state == NPM_REMOVING && h->emptied && !h->ordered;
}

#define FAULT_QUESTIONS 5 /* times NPM_STATUS_BUSY_NS, between questions to one that fails */

/* What happens next to it depends on its answer. */
static bool is_busy(const struct npm_host *h)
{
    return h->state == NPM_BOOTING || h->state == NPM_DRAINING || may_stay(h);
}

static int64_t idle_question_ns(const struct npm_group *g)
{
    return g->o.status_idle_ns ? g->o.status_idle_ns : NPM_STATUS_IDLE_NS;
}

/* Not so often that a fleet that fails is asked all the time. */
static int64_t next_question_ns(const struct npm_group *g, const struct npm_host *h)
{
    return is_busy(h)    ? NPM_STATUS_BUSY_NS
           : h->fault[0] ? NPM_STATUS_BUSY_NS * FAULT_QUESTIONS
                         : idle_question_ns(g);
}

static void note_fault(struct npm_group *g, struct npm_host *h, const char *fault)
{
    bool failed = h->fault[0];

    if (!failed && !fault) {
        return;
    }
    host_set_fault(g, h, fault ? fault : "");
    if (failed != (fault != NULL)) {
        note(g, fault ? NPM_NOTE_FAILING : NPM_NOTE_WELL, h->id, h->active);
    }
}

void hosts_heard(struct npm_group *g, const struct npm_event *e, int64_t now_ns)
{
    struct npm_host *h = host_find(g, e->id);

    if (!h) {
        return;
    }
    host_look(g, h);
    h->status_under_way = false;
    if (e->kind == NPM_SILENT) {
        h->silent_ns = h->silent_ns ? h->silent_ns : now_ns;
        h->status_ns = now_ns + (is_busy(h) || h->state == NPM_ACTIVE ? NPM_STATUS_BUSY_NS
                                                                     : idle_question_ns(g));
        return;
    }
    h->silent_ns = 0;
    note_fault(g, h, e->fault);
    if (e->mute) {
        h->status_ns = now_ns + next_question_ns(g, h);
        return;
    }
    h->active = e->active;
    h->reported_ns = now_ns;
    h->told_ns = h->asked_ns;
    if (h->ready_ns == 0) {
        h->ready_ns = now_ns;
    } else if (!h->lived && now_ns - h->ready_ns >= g->o.stillborn_max_ns) {
        h->lived = true;
        g->stillborn = 0;
        g->stillborn_next_ns = 0;
    }
    if (h->state == NPM_BOOTING) {
        host_set_state(g, h, NPM_ACTIVE, now_ns);
        note(g, NPM_NOTE_ACTIVE, h->id, h->capacity_mb);
    } else if (may_stay(h) && h->active > 0) {
        h->reason = NPM_REASON_BUSY_AGAIN;
        host_set_state(g, h, NPM_DRAINING, now_ns);
        note(g, NPM_NOTE_DRAINING, h->id, h->active);
    }
    h->status_ns = now_ns + next_question_ns(g, h);
}

/* Hosts that fail within one pause came together and fail together: they are one failure. */
void hosts_stillborn(struct npm_group *g, const char *id, int64_t now_ns)
{
    if (now_ns < g->stillborn_next_ns) {
        return;
    }
    g->stillborn++;
    g->stillborn_next_ns = now_ns + backoff_ns(g->o.stillborn_backoff_min_ns,
                                               g->o.stillborn_backoff_max_ns, g->stillborn);
    note(g, NPM_NOTE_STILLBORN, id, g->stillborn);
}

void hosts_lost(struct npm_group *g, const struct npm_host *h, int64_t well_ns, int64_t now_ns)
{
    bool lived = h->lived || (h->ready_ns != 0 && well_ns - h->ready_ns >= g->o.stillborn_max_ns);

    if (!lived) {
        hosts_stillborn(g, h->id, now_ns);
    }
}

void hosts_drain(struct npm_group *g, struct npm_host *h, enum npm_reason why, int64_t now_ns)
{
    if (h->silent_ns != 0 && h->state == NPM_ACTIVE) {
        hosts_lost(g, h, h->silent_ns, now_ns);
    }
    h->reason = why;
    host_set_state(g, h, NPM_DRAINING, now_ns);
    note(g, NPM_NOTE_DRAINING, h->id, h->active);
}

static void remove_host(struct npm_group *g, struct npm_host *h, enum npm_note why, int64_t now_ns)
{
    host_set_state(g, h, NPM_REMOVING, now_ns);
    h->remove_ns = now_ns;
    h->emptied = false;
    note(g, why, h->id, h->active);
}

/* ---- the operator ---------------------------------------------------------------------------- */

static bool serves(const struct npm_host *h)
{
    return h->state == NPM_ACTIVE || h->state == NPM_BOOTING;
}

static void take_back(struct npm_group *g, struct npm_host *h, int64_t now_ns)
{
    host_set_wish(g, h, NPM_WISH_NONE);
    if (h->state == NPM_DRAINING) {
        host_set_state(g, h, h->ready_ns != 0 ? NPM_ACTIVE : NPM_BOOTING, now_ns);
        note(g, NPM_NOTE_REACTIVATED, h->id, h->active);
    }
}

/* Of one that is being removed nothing can be wished any more; one that is not ours waits for the
 * day that it is. */
void hosts_operator(struct npm_group *g, const struct npm_event *e, int64_t now_ns)
{
    struct npm_host *h = host_find(g, e->id);

    if (!h || h->state == NPM_REMOVING) {
        return;
    }
    switch (e->kind) {
    case NPM_UNDRAIN:
        take_back(g, h, now_ns);
        return;
    case NPM_REPLACE:
        host_set_wish(g, h, NPM_WISH_REPLACE);
        note(g, NPM_NOTE_REPLACING, h->id, h->active);
        return; /* scale() drains it */
    case NPM_END:
        if (h->state != NPM_FOREIGN) {
            host_set_wish(g, h, NPM_WISH_REMOVE);
            remove_host(g, h, h->active > 0 ? NPM_NOTE_DRAIN_CUT : NPM_NOTE_REMOVING, now_ns);
        }
        return;
    default:
        host_set_wish(g, h, e->kind == NPM_DRAIN ? NPM_WISH_DRAIN : NPM_WISH_REMOVE);
        if (serves(h)) {
            hosts_drain(g, h, NPM_REASON_OPERATOR, now_ns);
        }
    }
}

/* ---- time-outs ------------------------------------------------------------------------------- */

/* An answer may be older than it arrives. */
bool npm_is_empty(const struct npm_group *g, const struct npm_host *h)
{
    return h->state == NPM_DRAINING && h->active == 0 && h->silent_ns == 0 &&
           h->told_ns >= h->since_ns + g->o.drain_min_ns;
}

static void watch_draining(struct npm_group *g, struct npm_host *h, int64_t now_ns)
{
    if (h->wish == NPM_WISH_DRAIN) {
        return;
    }
    if (npm_is_empty(g, h)) {
        remove_host(g, h, NPM_NOTE_REMOVING, now_ns);
        h->emptied = true;
    } else if (now_ns - h->since_ns >= g->o.drain_max_ns) {
        remove_host(g, h, h->active > 0 ? NPM_NOTE_DRAIN_CUT : NPM_NOTE_REMOVING, now_ns);
    }
}

#define SILENT_LONG 10 /* times silent_max */

/* When most hosts are silent it is more likely we who are cut off, unless that lasts and others do
 * answer, or calls find no runner. */
static bool silence_is_believed(const struct npm_group *g, const struct npm_host *who,
                                uint32_t silent, int64_t now_ns)
{
    if (silent == 1 || silent * 2 <= g->state_n[NPM_ACTIVE]) {
        return true;
    }
    return now_ns - who->silent_ns >= SILENT_LONG * g->o.silent_max_ns &&
           (silent < g->state_n[NPM_ACTIVE] || g->waiting > 0);
}

static uint32_t count_silent(const struct npm_group *g)
{
    uint32_t silent = 0;

    for (uint32_t i = 0; i < g->n_hosts; i++) {
        const struct npm_host *h = npm_host_at(g, i);

        silent += h->state == NPM_ACTIVE && h->silent_ns != 0;
    }
    return silent;
}

/* *silent: reckoned at the first host that needs it; 0 = not yet. */
static void watch_silent(struct npm_group *g, struct npm_host *h, uint32_t *silent, int64_t now_ns)
{
    if (*silent == 0) {
        *silent = count_silent(g);
    }
    if (silence_is_believed(g, h, *silent, now_ns)) {
        note(g, NPM_NOTE_SILENT, h->id, 0);
        hosts_drain(g, h, NPM_REASON_SILENT, now_ns);
        --*silent;
    }
}

static void watch_one(struct npm_group *g, struct npm_host *h, uint32_t *silent, int64_t now_ns)
{
    if (now_ns < g->act_down_ns || !g->listed || g->standby) {
        return;
    }
    if (h->state == NPM_DRAINING) {
        watch_draining(g, h, now_ns);
    } else if (h->state == NPM_BOOTING && now_ns - h->since_ns >= g->o.boot_max_ns) {
        hosts_lost(g, h, now_ns, now_ns);
        remove_host(g, h, NPM_NOTE_BOOT_FAILED, now_ns);
    } else if (h->state == NPM_ACTIVE && h->silent_ns != 0 &&
               now_ns - h->silent_ns >= g->o.silent_max_ns) {
        watch_silent(g, h, silent, now_ns);
    }
}

/* Before, watch_one() does nothing, unless something is told of the host. */
static int64_t time_out_ns(const struct npm_group *g, const struct npm_host *h)
{
    if (h->state == NPM_DRAINING && h->wish != NPM_WISH_DRAIN) {
        return npm_is_empty(g, h) ? 0 : h->since_ns + g->o.drain_max_ns;
    }
    if (h->state == NPM_BOOTING) {
        return h->since_ns + g->o.boot_max_ns;
    }
    if (h->state == NPM_ACTIVE && h->silent_ns != 0) {
        return h->silent_ns + g->o.silent_max_ns;
    }
    return INT64_MAX;
}

/* ---- who acts -------------------------------------------------------------------------------- */

/* What began to drain is left to the manager that acts, but for the operator's wishes. */
static void leave_to_other(struct npm_group *g, struct npm_host *h, int64_t now_ns)
{
    if (h->state == NPM_DRAINING && h->wish == NPM_WISH_NONE) {
        take_back(g, h, now_ns);
    }
}

/* Nobody here acted on what was too long before. */
static void begin_anew(struct npm_host *h, int64_t now_ns)
{
    if (h->state == NPM_BOOTING || h->state == NPM_DRAINING) {
        h->since_ns = now_ns;
    }
    h->silent_ns = h->silent_ns ? now_ns : 0;
}

void hosts_turn(struct npm_group *g, bool standby, int64_t now_ns)
{
    if (standby == g->standby) {
        return;
    }
    g->standby = standby;
    g->act_down_ns = now_ns + g->o.loss_brake_ns; /* as after a start */
    for (uint32_t i = 0; i < g->n_hosts; i++) {
        struct npm_host *h = host_at(g, i);

        if (standby) {
            leave_to_other(g, h, now_ns);
        } else {
            begin_anew(h, now_ns);
        }
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

#define STATUS_OF_STEP_MAX 16u
#define OVERDUE_NS         (60 * NPM_S) /* a question that nobody answers for so long got lost */

static int64_t question_ns(const struct npm_host *h)
{
    if (!h->address[0] || (h->state == NPM_REMOVING && !may_stay(h))) {
        return INT64_MAX;
    }
    if (h->status_under_way && h->status_ns < h->asked_ns + OVERDUE_NS) {
        return h->asked_ns + OVERDUE_NS;
    }
    return h->status_ns;
}

void npm_unasked(struct npm_group *g, const char *id, int64_t now_ns)
{
    struct npm_host *h = host_find(g, id);

    if (h && h->status_under_way) {
        host_look(g, h);
        h->status_under_way = false;
        h->status_ns = now_ns + next_question_ns(g, h);
    }
}

static void hosts_ask(struct npm_group *g, struct npm_host *h, int64_t now_ns, uint32_t *asked)
{
    struct npm_action *a;

    if (*asked == STATUS_OF_STEP_MAX || question_ns(h) > now_ns || !has_room(g)) {
        return;
    }
    (*asked)++;
    a = act(g, NPM_DO_STATUS);
    a->id = h->id;
    a->address = h->address;
    h->status_under_way = true;
    h->asked_ns = now_ns;
}

#define TOGETHER_NS (NPM_S / 20) /* what is due within it shares one step */

/* Most steps come with news of one host, and nothing is due for the others: these are not looked
 * at, since a large group takes thousands of steps a second. */
int64_t hosts_watch(struct npm_group *g, int64_t now_ns)
{
    int64_t next_ns = now_ns + g->o.poll_ns;
    uint32_t asked = 0, silent = 0;

    for (uint32_t i = 0; i < g->n_hosts; i++) {
        int64_t *calm_ns = &g->calm_ns[g->slots[i]];

        if (*calm_ns <= now_ns) {
            struct npm_host *h = host_at(g, i);
            int64_t out_ns;

            watch_one(g, h, &silent, now_ns);
            hosts_ask(g, h, now_ns, &asked);
            out_ns = time_out_ns(g, h);
            *calm_ns = question_ns(h) < out_ns ? question_ns(h) : out_ns;
        }
        if (*calm_ns > now_ns && *calm_ns < next_ns - TOGETHER_NS) {
            next_ns = *calm_ns + TOGETHER_NS;
        }
    }
    return asked == STATUS_OF_STEP_MAX ? now_ns : next_ns;
}
