/* Calls to the manager: demand at each interval, and lists by a stream or, from a historic
 * manager, by one question after the other. */
#include "link.h"

#include "say.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000LL
#define S 1000000000LL
#define WATCH_RETRY_NS (500 * MS)
#define AGAIN_NS (5 * S) /* a node that takes no list is not told all of them at full speed */
#define OBJECTION_NS (60 * S)
#define STATE_NS (10 * S)
#define WATCH_RETRY_MAX 2u /* doublings */
#define NO_SUCH_GROUP "NPM502" /* how the manager's objection begins */
#define UNIMPLEMENTED FN_E_UNIMPLEMENTED

static int64_t now_ns(const struct link *l)
{
    return l->host->clock->now_ns(l->host);
}

static void fail_all(struct link *l, int32_t code, const char *text)
{
    for (uint32_t i = 0; i < l->groups.n; i++) {
        l->groups.list[i]->failed = 1;
        l->failed(l->ud, l->groups.list[i], code, text);
    }
}

/* The manager answers again. Its next stream tells of the groups that it knows, and never of the
 * others: nothing that the host holds of these is old. */
static void unmark_unknown(struct link *l)
{
    for (uint32_t i = 0; i < l->groups.n; i++) {
        struct group *g = l->groups.list[i];

        if (g->failed && !g->known) {
            g->failed = 0;
            intake_publish(&l->intake, g);
        }
    }
}

static int call(struct link *l, const char *method, struct wire_out *message, int64_t timeout_ns,
                const struct fn_rpc_cb *cb, uint64_t *ret_id)
{
    const struct fn_rpc_call what = { .size = sizeof(what),
                                      .timeout_ms = (uint32_t)(timeout_ns / MS),
                                      .channel = l->channel,
                                      .method = method,
                                      .message = message->data,
                                      .len = message->len };
    int r = message->failed ? FN_E_EXHAUSTED : l->rpc->call(l->host, &what, cb, l, ret_id, NULL);

    wire_finish(message);
    return r;
}

/* ---- demand ---------------------------------------------------------------------------------- */

/* Each word about demand may bring the same objection: it is told once, and again after a while. */
static void object(struct link *l, const char *why)
{
    int64_t now = now_ns(l);

    if (strcmp(l->objection, why) == 0 && now < l->objection_next_ns) {
        return;
    }
    snprintf(l->objection, sizeof(l->objection), "%s", why);
    l->objection_next_ns = now + OBJECTION_NS;
    say(l->host, FN_LOG_WARN, "the node pool manager objects", why);
}

/* Why calls of a group wait: what the manager asked for, and what keeps it from more. */
static void tell_state(struct link *l, const struct wire_note *state)
{
    char text[sizeof(*state) + 2];

    if (now_ns(l) >= l->state_next_ns) {
        l->state_next_ns = now_ns(l) + STATE_NS;
        snprintf(text, sizeof(text), "%s: %s", state->group, state->text);
        say(l->host, FN_LOG_INFO, "calls wait for runners; the manager says of group", text);
    }
}

/* A manager whose configuration has left it out never tells that its list is empty now. */
static void drop_list(struct link *l, struct group *g)
{
    if (g && g->known && !intake_is_busy(&l->intake, g)) {
        group_list_begin(g);
        group_list_end(g, now_ns(l));
        g->known = 0; /* whatever a manager that has it says is news */
        g->failed = 0;
        intake_publish(&l->intake, g);
    }
}

static void drop_lists_of_no_group(struct link *l, const void *data, size_t len)
{
    struct wire_members notes = wire_members(data, len, 0);
    struct wire_note note;

    while (wire_next_note(&notes, WIRE_OBJECTION, &note) > 0) {
        if (strncmp(note.text, NO_SUCH_GROUP, strlen(NO_SUCH_GROUP)) == 0) {
            drop_list(l, groups_find(&l->groups, note.group));
        }
    }
}

static void on_demand_message(void *ud, const void *data, size_t len)
{
    struct link *l = ud;
    struct wire_note note;

    if (l->historic) {
        return;
    }
    drop_lists_of_no_group(l, data, len);
    if (wire_read_note(data, len, WIRE_OBJECTION, &note) == 0 && note.text[0]) {
        object(l, note.text);
    }
    if (wire_read_note(data, len, WIRE_STATE, &note) == 0 && note.text[0]) {
        tell_state(l, &note);
    }
}

static void on_demand_end(void *ud, int32_t code, const char *text)
{
    struct link *l = ud;

    l->demand_call = 0;
    if (code == UNIMPLEMENTED && !l->historic && strcmp(l->conf->protocol, "auto") == 0) {
        say(l->host, FN_LOG_INFO, "the node pool manager is a historic one", text);
        l->historic = 1;
        l->demand_next_ns = 0;
    } else if (code == FN_E_PERMISSION && text) {
        object(l, text);
    } else if (code < 0) {
        say(l->host, FN_LOG_DEBUG, "demand was not taken", text);
    } else if (l->watch_call != 0) {
        unmark_unknown(l);
    }
}

/* Totals of what is, never differences: what gets lost costs a second. One call is under way at a
 * time, so that a hanging manager piles up nothing. */
static void send_demand(struct link *l)
{
    static const struct fn_rpc_cb cb = { FN_HDR(struct fn_rpc_cb, 0), on_demand_message,
                                         on_demand_end };
    struct wire_out o = { NULL, 0, 0, 0 };

    if (l->demand_call != 0) {
        return;
    }
    if (l->historic) {
        wire_capacity_begin(&o, l->lb_id);
    } else {
        wire_demand_begin(&o, l->lb_id, ++l->seq, l->incarnation);
    }
    for (uint32_t i = 0; i < l->groups.n; i++) {
        const struct group *g = l->groups.list[i];
        const struct wire_demand d = { g->name, g->demand.mem_mb, g->demand.waiting,
                                       g->demand.running };

        if (l->historic) {
            wire_capacity_add(&o, g->name, g->demand.mem_mb);
        } else {
            wire_demand_add(&o, &d);
        }
    }
    call(l, l->historic ? "/NodePoolScaler/AdvertiseCapacity" : "/fnd.Pool/Advertise", &o,
         l->conf->timeout_ns, &cb, &l->demand_call);
}

/* ---- membership ------------------------------------------------------------------------------ */

static void take_list(struct link *l, const void *data, size_t len)
{
    struct wire_head head;
    struct group *g;

    if (wire_read_head(data, len, &head) < 0) {
        say(l->host, FN_LOG_WARN, "membership", "not readable, it is left out");
        return;
    }
    g = groups_find(&l->groups, head.group);
    if (g) {
        intake_message(&l->intake, g, &head, data, len);
    }
}

static void on_watch_message(void *ud, const void *data, size_t len)
{
    struct link *l = ud;

    l->watch_failures = 0;
    take_list(l, data, len);
}

static void on_watch_end(void *ud, int32_t code, const char *text)
{
    struct link *l = ud;
    uint32_t doublings = l->watch_failures < WATCH_RETRY_MAX ? l->watch_failures : WATCH_RETRY_MAX;

    l->watch_call = 0;
    if (l->watch_ended) {
        l->watch_ended = 0;
        l->watch_next_ns = 0;
        return;
    }
    if (l->watch_failures++ == 0 && code != UNIMPLEMENTED) {
        fail_all(l, code ? code : FN_E_UNAVAILABLE, text); /* which the host logs */
    }
    l->watch_next_ns = now_ns(l) + (WATCH_RETRY_NS << doublings);
}

static void watch(struct link *l)
{
    static const struct fn_rpc_cb cb = { FN_HDR(struct fn_rpc_cb, 0), on_watch_message,
                                         on_watch_end };
    const char *names[GROUPS_MAX];
    struct wire_out o = { NULL, 0, 0, 0 };

    if (l->watch_call != 0 || l->historic || l->groups.n == 0 || now_ns(l) < l->watch_next_ns) {
        return;
    }
    for (uint32_t i = 0; i < l->groups.n; i++) {
        names[i] = l->groups.list[i]->name;
        l->groups.list[i]->fresh = 1;
    }
    l->again_ns = 0;
    wire_watch(&o, l->lb_id, names, l->groups.n);
    if (call(l, "/fnd.Pool/Watch", &o, 0, &cb, &l->watch_call) < 0) {
        l->watch_next_ns = now_ns(l) + WATCH_RETRY_NS;
    }
}

/* The next stream tells all lists. */
static void watch_anew(struct link *l)
{
    l->again_ns = 0;
    if (l->watch_call != 0) {
        l->watch_ended = 1;
        l->rpc->cancel(l->host, l->watch_call);
    }
}

static void on_lost(void *ud)
{
    struct link *l = ud;

    l->again_ns = l->again_ns ? l->again_ns : now_ns(l) + AGAIN_NS;
}

/* ---- historic -------------------------------------------------------------------------------- */

static void on_poll_message(void *ud, const void *data, size_t len)
{
    struct link *l = ud;

    intake_message(&l->intake, l->polled, NULL, data, len);
}

static void polled_end(struct link *l)
{
    l->polled->held--;
    l->polled = NULL;
}

static void on_poll_end(void *ud, int32_t code, const char *text)
{
    struct link *l = ud;

    if (code < 0) {
        l->failed(l->ud, l->polled, code, text);
    }
    polled_end(l);
}

/* One group after the other, so that a slow answer delays none but its own. */
static void poll_next(struct link *l)
{
    static const struct fn_rpc_cb cb = { FN_HDR(struct fn_rpc_cb, 0), on_poll_message,
                                         on_poll_end };
    struct wire_out o = { NULL, 0, 0, 0 };
    uint64_t id;

    if (!l->historic || l->polled || l->groups.n == 0 || now_ns(l) < l->poll_next_ns) {
        return;
    }
    l->polled = l->groups.list[l->poll_next++ % l->groups.n];
    l->polled->held++;
    l->poll_next_ns = now_ns(l) + l->conf->poll_ns / l->groups.n;
    wire_group_id(&o, l->polled->name);
    if (call(l, "/RunnerManager/GetLBGroup", &o, l->conf->timeout_ns, &cb, &id) < 0) {
        polled_end(l);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void on_timer(void *ud);

static void arm(struct link *l, int64_t at_ns)
{
    l->host->timer->arm(l->host, at_ns, on_timer, l, &l->timer);
}

#define TICK_NS (100 * MS)

static void on_timer(void *ud)
{
    struct link *l = ud;
    int64_t now = now_ns(l);

    if (now >= l->demand_next_ns) {
        l->demand_next_ns = now + l->conf->interval_ns;
        send_demand(l);
    }
    if (l->again_ns != 0 && now >= l->again_ns) {
        watch_anew(l);
    }
    watch(l);
    poll_next(l);
    for (uint32_t i = 0; i < l->groups.n; i++) {
        struct group *g = l->groups.list[i];

        if (!intake_is_busy(&l->intake, g) && group_expire(g, now)) {
            intake_publish(&l->intake, g);
        }
    }
    arm(l, now + TICK_NS);
}

void link_want(struct link *l, const char *group, const struct fn_demand *demand)
{
    struct group *known = groups_find(&l->groups, group);
    struct group *g = known ? known : groups_get(&l->groups, group, now_ns(l));
    int urgent;

    if (!g) {
        say(l->host, FN_LOG_WARN, "a group gets no runners, there are too many", group);
        return;
    }
    urgent = g->demand.waiting == 0 && demand->waiting > 0;
    g->demand = *demand;
    g->wanted_ns = now_ns(l);
    if (!known) {
        watch_anew(l);
    }
    if (!known || urgent) {
        l->host->timer->cancel(l->host, l->timer);
        l->demand_next_ns = 0;
        arm(l, now_ns(l));
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int link_open(struct link *l, struct fn_error *reterr)
{
    int r = l->rpc->open(l->host, l->conf->address, l->conf->tls, &l->channel, reterr);

    if (r < 0) {
        return r;
    }
    if (l->conf->lb_id) {
        snprintf(l->lb_id, sizeof(l->lb_id), "%s", l->conf->lb_id);
    } else {
        snprintf(l->lb_id, sizeof(l->lb_id), "lb-%016llx%016llx",
                 (unsigned long long)l->host->rng->u64(l->host),
                 (unsigned long long)l->host->rng->u64(l->host));
    }
    l->incarnation = l->host->rng->u64(l->host) | 1;
    l->historic = strcmp(l->conf->protocol, "historic") == 0;
    l->intake.lost = on_lost;
    l->intake.ud = l;
    groups_get(&l->groups, FN_GROUP_DEFAULT, now_ns(l));
    arm(l, now_ns(l));
    return 0;
}

void link_close(struct link *l)
{
    l->host->timer->cancel(l->host, l->timer);
    l->watch_ended = 1;
    l->rpc->close(l->host, l->channel);
    intake_finish(&l->intake);
}
