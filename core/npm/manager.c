/* Between npm_step() and the world: turns answers into events, carries out the actions that the
 * step orders, and arms the timer for its next one. */
#include <npm/asks.h>
#include <npm/figures.h>
#include <npm/manager.h>

#include <base/arena.h>
#include <base/log.h>
#include <base/metric.h>
#include <base/table.h>
#include <base/utf8.h>
#include <model/labels.h>
#include <plugin/answer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mgroup {
    char name[NPM_GROUP_NAME_MAX + 1];
    struct npm_manager *manager;
    UT_hash_handle hh;
    struct npm_group *group;
    struct env_timer timer;
    unsigned char *predictor_state;
    struct figures figures;
    int64_t log_ns[NPM_NOTES_N]; /* next line, of those that come again and again */

    /* The control-plane call that is under way. */
    struct env_work work;
    bool working;
    enum npm_action_kind call;
    uint32_t n;
    uint64_t request_id;
    char host[NPM_ID_MAX + 1];
    int result;
    uint32_t accepted;
    int claimed; /* what the plugin said before its last list: see fn_cplane_ops.claim */
    bool standby;
    bool unclear; /* the last claim failed: who acts, standby says as before */
    struct fn_error claim_error;
    struct fn_error error;
    char failed[sizeof(ERR_INIT.msg)]; /* what_failed() after the last call */
    struct arena arena; /* of the list */
    struct buf machines; /* of struct fn_machine */
};

struct npm_manager {
    struct npm_deps deps;
    const struct fn_cplane_ops *ops;
    struct npm_budget budget;
    struct npm_wishes *wishes;
    struct mgroup *groups;
    uint32_t n_groups;
    uint64_t epoch;
    struct asks asks;
    struct mgroup *by_name;
    uint32_t working; /* groups with a call under way */
    bool stopping;
    void (*stopped)(void *ud);
    void *stopped_ud;
    struct env_task stopped_task;
};

static bool manager_step(struct mgroup *g, const struct npm_event *e);
static void renew_wishes(struct mgroup *g);

/* ---- control-plane calls --------------------------------------------------------------------- */

static const char *const call_names[] = {
    [NPM_DO_LIST] = "list", [NPM_DO_PROVISION] = "provision", [NPM_DO_REMOVE] = "remove" };

static const char *sorted_copy(struct arena *a, const char *labels)
{
    char sorted[LABELS_BYTES];

    labels_sort(labels, sorted);
    return arena_strdup(a, sorted);
}

static struct fn_machine *machines_of(const struct mgroup *g)
{
    return (struct fn_machine *)(void *)g->machines.data;
}

static uint32_t machines_n(const struct mgroup *g)
{
    return (uint32_t)(g->machines.len / sizeof(struct fn_machine));
}

static int machine_add(void *ud, const struct fn_machine *copied)
{
    struct mgroup *g = ud;
    struct plugin *p = g->manager->deps.cplane;
    struct fn_machine said, m;

    if (plugin_answer_machine(p, copied, &said) < 0) {
        return FN_E_INVALID;
    }
    if (machines_n(g) == NPM_MACHINES_MAX) {
        plugin_bad_answer(p, "list: more than 65536 machines");
        return FN_E_EXHAUSTED;
    }
    m = said;
    m.id = said.id ? arena_strdup(&g->arena, said.id) : NULL;
    m.address = said.address ? arena_strdup(&g->arena, said.address) : NULL;
    m.labels = said.labels ? sorted_copy(&g->arena, said.labels) : NULL;
    if ((said.id && !m.id) || (said.address && !m.address) || (said.labels && !m.labels)) {
        return FN_E_EXHAUSTED;
    }
    return buf_add(&g->machines, &m, sizeof(m));
}

/* [worker] Before anybody believes it. */
static void manager_judge(struct mgroup *g)
{
    struct plugin *p = g->manager->deps.cplane;
    const char **scratch;

    g->result = plugin_answer_result(p, call_names[g->call], g->result, 0, &g->error);
    if (g->result == 0 && g->call == NPM_DO_PROVISION) {
        g->result = plugin_answer_accepted(p, g->n, g->accepted, &g->error);
    }
    if (g->result == 0 && g->call == NPM_DO_LIST && machines_n(g) > 1) {
        scratch = malloc(machines_n(g) * sizeof(*scratch));
        if (scratch) {
            plugin_answer_machines(p, machines_of(g), machines_n(g), scratch);
        }
        free(scratch);
    }
}

/* [worker] */
static void run_claim(struct mgroup *g, struct fn_op *op)
{
    const struct npm_manager *m = g->manager;

    g->claimed = 0;
    g->claim_error = ERR_INIT;
    if (FN_HAS(m->ops, claim) && m->ops->claim) {
        PLUGIN_ASK(g->claimed, m->deps.cplane, PLUGIN_WORKER, "claim", 1, &g->claim_error,
                   m->ops->claim(plugin_inst(m->deps.cplane), op, g->name, &g->claim_error));
    }
}

/* [worker] */
static void cplane_run(struct env_work *w, struct fn_op *op)
{
    struct mgroup *g = container_of(w, struct mgroup, work);
    const struct npm_manager *m = g->manager;
    const struct fn_machine_sink sink = { FN_HDR(struct fn_machine_sink, FN_MAGIC_MACHINE_SINK),
                                          machine_add, g };
    void *inst = plugin_inst(m->deps.cplane);
    struct plugin_crumb crumb;

    if (g->call == NPM_DO_LIST) {
        run_claim(g, op);
        plugin_enter(&crumb, m->deps.cplane, PLUGIN_WORKER, "list");
        g->result = m->ops->list(inst, op, g->name, &sink, &g->error);
    } else if (g->call == NPM_DO_PROVISION) {
        plugin_enter(&crumb, m->deps.cplane, PLUGIN_WORKER, "provision");
        g->result =
            m->ops->provision(inst, op, g->name, g->n, g->request_id, &g->accepted, &g->error);
    } else {
        plugin_enter(&crumb, m->deps.cplane, PLUGIN_WORKER, "remove");
        g->result = m->ops->remove(inst, op, g->name, g->host, &g->error);
    }
    plugin_leave(&crumb);
    manager_judge(g);
}

/* Codes after which nobody knows whether the order was taken. */
static bool is_open(int code)
{
    return code == FN_E_DEADLINE || code == FN_E_UNAVAILABLE || code == FN_E_UNKNOWN ||
           code == FN_E_CANCELLED || code == FN_E_INTERNAL;
}

static struct npm_event answer_of(const struct mgroup *g)
{
    bool ok = g->result >= 0;

    switch (g->call) {
    case NPM_DO_LIST:
        return (struct npm_event){ .kind = ok ? NPM_LISTED : NPM_LIST_FAILED,
                                   .n = machines_n(g),
                                   .standby = g->standby,
                                   .machines = machines_of(g) };
    case NPM_DO_PROVISION:
        return (struct npm_event){ .kind = ok ? NPM_PROVISIONED : NPM_PROVISION_FAILED,
                                   .n = g->accepted,
                                   .unknown = is_open(g->result) };
    default:
        return (struct npm_event){ .kind = ok ? NPM_REMOVED : NPM_REMOVE_FAILED };
    }
}

static void maybe_stopped(struct npm_manager *m)
{
    if (m->stopping && m->working == 0 && m->stopped) {
        env_defer(m->deps.env, &m->stopped_task);
    }
}

/* Until it is known again, another manager may act as well. */
static void tell_unclear(const struct mgroup *g, bool unclear)
{
    if (unclear && !g->unclear) {
        log_warn("the control plane cannot tell which manager acts: this one goes on as before",
                 "group", g->name, "plugin", plugin_name(g->manager->deps.cplane), "code",
                 log_num(g->claimed), "error", g->claim_error.msg);
    } else if (!unclear && g->unclear) {
        log_info("the control plane can tell again which manager acts", "group", g->name);
    }
}

/* Who acts, told when it changes. */
static void take_claim(struct mgroup *g)
{
    bool unclear = g->claimed < 0;
    bool standby = unclear ? g->standby : g->claimed == 1;

    tell_unclear(g, unclear);
    g->unclear = unclear;
    metric_add(g->figures.claim_failures, unclear);
    if (standby && !g->standby) {
        log_warn("this manager stands by", "group", g->name, "reason", g->claim_error.msg);
    } else if (!standby && g->standby) {
        log_warn("this manager acts: no other one does any more", "group", g->name);
    }
    g->standby = standby;
}

static const char *what_failed(const struct mgroup *g)
{
    return g->result < 0 ? g->error.msg : g->unclear ? g->claim_error.msg : "";
}

/* Before the step, which may begin the next call. */
static void tell_answer(struct mgroup *g)
{
    if (g->call == NPM_DO_LIST) {
        take_claim(g);
    }
    utf8_copy(g->failed, sizeof(g->failed), what_failed(g)); /* it goes into JSON */
    if (g->result < 0) {
        log_warn("the control plane failed", "group", g->name, "call", call_names[g->call],
                 "plugin", plugin_name(g->manager->deps.cplane), "code", log_num(g->result),
                 "error", g->error.msg);
    } else if (g->call == NPM_DO_PROVISION) {
        metric_add(g->figures.accepted, g->accepted);
    }
}

static void cplane_done(struct env_work *w)
{
    struct mgroup *g = container_of(w, struct mgroup, work);
    struct npm_manager *m = g->manager;
    struct npm_event e;
    struct arena told = g->arena; /* the step may begin the next call, whose arena is another one */

    arena_init(&g->arena, 0);
    g->working = false;
    m->working--;
    if (!m->stopping) {
        tell_answer(g);
        e = answer_of(g);
        manager_step(g, &e);
        if (e.kind == NPM_LISTED) {
            renew_wishes(g);
        }
    }
    arena_finish(&told);
    maybe_stopped(m);
}

/* What is ordered, and what for. */
static void tell_call(const struct mgroup *g, const struct npm_action *a)
{
    struct npm_figures f;
    char request[20];

    if (a->kind == NPM_DO_PROVISION) {
        npm_figures(g->group, &f);
        snprintf(request, sizeof(request), "%llx", (unsigned long long)a->request_id);
        log_info("asking for runners", "group", g->name, "runners", log_num(a->n), "request",
                 request, "wanted_mb", log_num((int64_t)f.wanted_mb), "desired_mb",
                 log_num((int64_t)f.desired_mb), "active_mb",
                 log_num((int64_t)f.state_mb[NPM_ACTIVE]), "booting_mb",
                 log_num((int64_t)f.state_mb[NPM_BOOTING]), "waiting_calls",
                 log_num((int64_t)f.waiting));
    } else if (a->kind == NPM_DO_REMOVE) {
        metric_add(g->figures.removals, 1);
    }
}

static void cplane_call(struct mgroup *g, const struct npm_action *a)
{
    struct npm_manager *m = g->manager;

    tell_call(g, a);
    g->call = a->kind;
    g->n = a->n;
    g->request_id = a->request_id;
    g->accepted = 0;
    buf_clear(&g->machines);
    if (a->id) {
        memcpy(g->host, a->id, strlen(a->id) + 1);
    }
    g->error = ERR_INIT;
    arena_init(&g->arena, 0);
    g->work = (struct env_work){ .run = cplane_run,
                                 .done = cplane_done,
                                 .lane = ENV_LANE_CONTROL,
                                 .timeout_ns = m->deps.settings.cplane_timeout_ns };
    g->working = true;
    m->working++;
    if (env_submit(m->deps.env, &g->work) < 0) {
        struct npm_event e;

        g->working = false;
        m->working--;
        g->result = FN_E_EXHAUSTED;
        arena_finish(&g->arena);
        e = answer_of(g);
        manager_step(g, &e);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Load balancers come again each second with what was refused or clamped: said every ten. */
static bool is_old_news(struct mgroup *g, enum npm_note what)
{
    int64_t now_ns = env_now_ns(g->manager->deps.env);

    if (what != NPM_NOTE_LBS_FULL && what != NPM_NOTE_DEMAND_CLAMPED && what != NPM_NOTE_AT_MAX &&
        what != NPM_NOTE_LB_TWICE) {
        return false;
    }
    if (now_ns < g->log_ns[what]) {
        return true;
    }
    g->log_ns[what] = now_ns + 10 * ENV_S;
    return false;
}

static void time_provision(struct mgroup *g, const struct npm_action *a)
{
    const struct npm_host *h = npm_host_find(g->group, a->id);

    if (h && h->asked_for_ns != 0) {
        metric_observe(g->figures.provision_latency, (h->ready_ns - h->asked_for_ns) / ENV_MS);
    }
}

static const char *why_of(const struct npm_action *a, const struct npm_host *h)
{
    return !h                                                               ? NULL
           : a->note == NPM_NOTE_DRAINING && h->state == NPM_DRAINING ? npm_reason_texts[h->reason]
           : a->note == NPM_NOTE_FAILING                              ? h->fault
                                                                      : NULL;
}

static void manager_tell(struct mgroup *g, const struct npm_action *a)
{
    const struct npm_host *h = a->id ? npm_host_find(g->group, a->id) : NULL;
    const struct npm_note_about *about = &npm_notes[a->note];

    if (g->figures.notes[a->note]) {
        metric_add(g->figures.notes[a->note], 1);
    }
    if (is_old_news(g, a->note)) {
        return;
    }
    log_write(about->warns ? FN_LOG_WARN : FN_LOG_INFO, about->text, "group", g->name, "id", a->id,
              "why", why_of(a, h), about->key ? about->key : "",
              about->key ? log_num((int64_t)a->value) : NULL, (char *)NULL);
    if (a->note == NPM_NOTE_DRAIN_CUT) {
        metric_add(g->figures.drain_losses, (int64_t)a->value);
    } else if (a->note == NPM_NOTE_ACTIVE) {
        time_provision(g, a);
    }
}

static bool is_cplane_call(const struct npm_action *a)
{
    return a->kind == NPM_DO_LIST || a->kind == NPM_DO_PROVISION || a->kind == NPM_DO_REMOVE;
}

static bool is_refusal(const struct npm_action *a)
{
    return a->kind == NPM_DO_NOTE && a->note == NPM_NOTE_LBS_FULL;
}

static void carry_out(struct mgroup *g, const struct npm_action *a)
{
    struct npm_manager *m = g->manager;

    if (a->kind == NPM_DO_STATUS) {
        asks_add(&m->asks, g->group, g, a->id);
    } else if (a->kind == NPM_DO_PUBLISH) {
        m->deps.published(m->deps.ud, g->name);
    } else {
        manager_tell(g, a);
    }
}

/* A manager that stops does nothing any more: what it would begin, nobody would see end. true: the
 * load balancer that the event is of was refused, as the group has as many as it may. */
static bool manager_step(struct mgroup *g, const struct npm_event *e)
{
    struct env *env = g->manager->deps.env;
    const struct npm_action *call = NULL;
    struct npm_actions out;
    bool refused = false;
    int64_t next_ns;

    if (g->manager->stopping) {
        return false;
    }
    next_ns = npm_step(g->group, e, env_now_ns(env), &out);
    if (e->kind != NPM_DEMAND || next_ns < g->timer.at_ns) {
        env_timer_set(env, &g->timer, next_ns);
    }
    for (uint32_t i = 0; i < out.n; i++) {
        if (is_cplane_call(&out.list[i])) {
            call = &out.list[i];
        } else {
            carry_out(g, &out.list[i]);
            refused |= is_refusal(&out.list[i]);
        }
    }
    if (call) { /* last: when it cannot start, that is an event and a step of its own */
        cplane_call(g, call);
    }
    if (e->kind != NPM_DEMAND) {
        figures_show(&g->figures, g->group);
    }
    return refused;
}

static void manager_on_timer(struct env_timer *t)
{
    static const struct npm_event tick = { .kind = NPM_TICK };

    manager_step(container_of(t, struct mgroup, timer), &tick);
}

static int predict(void *ud, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    struct mgroup *g = ud;
    struct plugin *p = g->manager->deps.predictor;
    const struct fn_predictor_ops *ops = plugin_ops(p);
    struct plugin_crumb crumb;
    int r;

    plugin_enter(&crumb, p, PLUGIN_LOOP, "predict");
    r = ops->predict(plugin_inst(p), g->predictor_state, load, ret_desired_mb);
    plugin_leave(&crumb);
    return plugin_answer_desired(p, r, *ret_desired_mb);
}

/* ---- from outside ---------------------------------------------------------------------------- */

static struct mgroup *manager_find(const struct npm_manager *m, const char *name)
{
    struct mgroup *g;

    HASH_FIND_STR(m->by_name, name, g);
    return g;
}

/* What no group is told of. */
static int refuse_demand(const struct mgroup *g, const struct npm_demand *d,
                         struct fn_error *reterr)
{
    if (!g) {
        return err_set(reterr, FN_E_NOT_FOUND,
                       "NPM502 group, got \"%.64s\"; expected a group of npm.groups", d->group);
    }
    if (!d->lb_id[0] || strlen(d->lb_id) > NPM_LB_ID_MAX) {
        return err_set(reterr, FN_E_INVALID,
                       "NPM504 load balancer id, got \"%.64s\"; expected 1 to %u characters",
                       d->lb_id, NPM_LB_ID_MAX);
    }
    return 0;
}

/* 1: to what was taken, and *ret_note says what. */
static int object_to(const struct mgroup *g, const struct npm_demand *d, struct fn_error *ret_note)
{
    uint64_t max_mb = npm_group_max_mb(g->group);

    if (npm_lb_is_twice(g->group, d->lb_id)) {
        err_set(ret_note, FN_E_EXISTS,
                "NPM508 lb_id, got \"%.64s\", which another load balancer uses at the same time; "
                "expected one of its own",
                d->lb_id);
        return 1;
    }
    if (d->mb > max_mb) {
        err_set(ret_note, FN_E_RANGE, "NPM501 demand above group cap %llu MB, clamped",
                (unsigned long long)max_mb);
        return 1;
    }
    return 0;
}

int npm_manager_demand(struct npm_manager *m, const struct npm_demand *d,
                       struct fn_error *ret_note)
{
    const struct npm_event e = { .kind = NPM_DEMAND,
                                 .id = d->lb_id,
                                 .incarnation = d->incarnation,
                                 .seq = d->seq,
                                 .mb = d->mb,
                                 .waiting = d->waiting };
    struct mgroup *g = manager_find(m, d->group);
    int r = refuse_demand(g, d, ret_note);

    if (r < 0) {
        return r;
    }
    if (manager_step(g, &e)) {
        return err_set(ret_note, FN_E_EXHAUSTED,
                       "NPM506 load balancers of the group, got more than %u; expected at most "
                       "npm.lbs_max",
                       m->deps.options.lbs_max);
    }
    return object_to(g, d, ret_note);
}

void npm_manager_reported(struct npm_manager *m, uint64_t ticket, const struct npm_event *answer)
{
    struct asks_subject about;
    struct npm_event e = *answer;

    if (!asks_end(&m->asks, ticket, &about)) {
        return;
    }
    e.id = about.host;
    manager_step(about.ud, &e);
    asks_next(&m->asks);
}

const struct npm_group *npm_manager_group(const struct npm_manager *m, const char *name)
{
    const struct mgroup *g = manager_find(m, name);

    return g ? g->group : NULL;
}

uint64_t npm_manager_epoch(const struct npm_manager *m)
{
    return m->epoch;
}

uint32_t npm_manager_count(const struct npm_manager *m)
{
    return m->n_groups;
}

const char *npm_manager_name_at(const struct npm_manager *m, uint32_t i)
{
    return m->groups[i].name;
}

/* ---- the operator ---------------------------------------------------------------------------- */

/* "group/id", or an id that one group has. NULL: *reterr tells. */
static struct mgroup *group_of(const struct npm_manager *m, const char *runner, const char **ret_id,
                               struct fn_error *reterr)
{
    struct mgroup *found = NULL;

    for (uint32_t i = 0; i < m->n_groups; i++) {
        struct mgroup *g = &m->groups[i];
        size_t len = strlen(g->name);
        bool named = strncmp(runner, g->name, len) == 0 && runner[len] == '/';
        const char *id = named ? runner + len + 1 : runner;

        if (!npm_host_find(g->group, id)) {
            continue;
        }
        if (found) {
            err_set(reterr, FN_E_PRECONDITION,
                    "runner, got \"%.64s\", which groups %.64s and %.64s have; expected "
                    "group/id",
                    runner, found->name, g->name);
            return NULL;
        }
        found = g;
        *ret_id = id;
    }
    if (!found) {
        err_set(reterr, FN_E_NOT_FOUND, "runner, got \"%.64s\"; expected the id of a runner",
                runner);
    }
    return found;
}

static int check_order(const struct npm_host *h, enum npm_event_kind order, struct fn_error *reterr)
{
    if (h->state == NPM_FOREIGN) {
        return err_set(reterr, FN_E_PRECONDITION,
                       "runner %.64s is foreign: the group has its maximum without it, and leaves it "
                       "alone",
                       h->id);
    }
    if (h->state == NPM_REMOVING && order != NPM_RETIRE && order != NPM_END) {
        return err_set(reterr, FN_E_PRECONDITION, "runner %.64s is being removed", h->id);
    }
    if (order == NPM_RETIRE && h->active > 0) {
        return err_set(reterr, FN_E_PRECONDITION,
                       "runner %.64s runs %u calls; drain it first, or say --force to end them",
                       h->id, h->active);
    }
    if (order == NPM_UNDRAIN && h->state != NPM_DRAINING && h->wish == NPM_WISH_NONE) {
        return err_set(reterr, FN_E_PRECONDITION, "runner %.64s is not drained, it is %s", h->id,
                       npm_state_names[h->state]);
    }
    return 0;
}

int npm_manager_order(struct npm_manager *m, const char *runner, enum npm_event_kind order,
                      struct fn_error *reterr)
{
    static const enum npm_wish wishes[] = { [NPM_DRAIN] = NPM_WISH_DRAIN,
                                            [NPM_UNDRAIN] = NPM_WISH_NONE,
                                            [NPM_REPLACE] = NPM_WISH_REPLACE,
                                            [NPM_RETIRE] = NPM_WISH_REMOVE,
                                            [NPM_END] = NPM_WISH_REMOVE };
    const char *id = NULL;
    struct mgroup *g = group_of(m, runner, &id, reterr);
    const struct npm_event e = { .kind = order, .id = id };

    if (!g) {
        return reterr->code;
    }
    if (g->standby) {
        return err_set(reterr, FN_E_PRECONDITION, "group %.63s: another manager acts for it",
                       g->name);
    }
    if (check_order(npm_host_find(g->group, id), order, reterr) < 0) {
        return reterr->code;
    }
    if (npm_wishes_set(m->wishes, g->name, id, wishes[order], env_now_ns(m->deps.env)) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED,
                       "runner %.64s: more than %u runners are drained or being replaced", id,
                       NPM_WISHES_MAX);
    }
    m->deps.wishes_changed(m->deps.ud);
    manager_step(g, &e);
    return 0;
}

static enum npm_wish_host renew_wish(void *ud, const char *id, enum npm_wish wish)
{
    static const enum npm_event_kind events[NPM_WISHES_N] = { [NPM_WISH_DRAIN] = NPM_DRAIN,
                                                              [NPM_WISH_REPLACE] = NPM_REPLACE,
                                                              [NPM_WISH_REMOVE] = NPM_RETIRE };
    const struct npm_event e = { .kind = events[wish], .id = id };
    struct mgroup *g = ud;
    const struct npm_host *h = npm_host_find(g->group, id);

    if (!h) {
        return NPM_HOST_MISSING;
    }
    if (h->state == NPM_REMOVING) {
        return NPM_HOST_REMOVING;
    }
    if (h->wish != wish && !g->standby) {
        manager_step(g, &e);
    }
    return NPM_HOST_THERE;
}

/* What was wished of hosts that were adopted a moment ago, or while another manager acted. */
static void renew_wishes(struct mgroup *g)
{
    struct npm_manager *m = g->manager;

    if (npm_wishes_visit(m->wishes, g->name, env_now_ns(m->deps.env), renew_wish, g) > 0) {
        m->deps.wishes_changed(m->deps.ud);
    }
}

struct npm_wishes *npm_manager_wishes(const struct npm_manager *m)
{
    return m->wishes;
}

const char *npm_manager_cplane_error(const struct npm_manager *m, const char *group)
{
    const struct mgroup *g = manager_find(m, group);

    return g ? g->failed : "";
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_group(struct npm_manager *m, struct mgroup *g, const char *name)
{
    struct npm_options o = m->deps.options;
    const struct fn_predictor_ops *ops = m->deps.predictor ? plugin_ops(m->deps.predictor) : NULL;
    int64_t now_ns = env_now_ns(m->deps.env);

    strncpy(g->name, name, NPM_GROUP_NAME_MAX);
    g->manager = m;
    g->timer.cb = manager_on_timer;
    figures_declare(&g->figures, name);
    if (ops) {
        g->predictor_state = calloc(1, ops->state_size + 1);
        o.predict = predict;
        o.predict_ud = g;
        if (!g->predictor_state) {
            return FN_E_EXHAUSTED;
        }
    }
    g->group = npm_group_create(&o, &m->budget, now_ns);
    if (!g->group) {
        return FN_E_EXHAUSTED;
    }
    HASH_ADD_STR(m->by_name, name, g);
    if (!table_has(g)) {
        return FN_E_EXHAUSTED;
    }
    env_timer_set(m->deps.env, &g->timer, now_ns);
    return 0;
}

static void manager_on_stopped(struct env_task *t)
{
    struct npm_manager *m = container_of(t, struct npm_manager, stopped_task);
    void (*stopped)(void *ud) = m->stopped;

    m->stopped = NULL;
    stopped(m->stopped_ud);
}

int npm_manager_create(const struct npm_deps *deps, struct npm_manager **ret,
                       struct fn_error *reterr)
{
    const struct fn_strlist *names = &deps->settings.groups;
    struct npm_manager *m = calloc(1, sizeof(*m));
    int r = 0;

    if (!m) {
        return err_set(reterr, FN_E_EXHAUSTED, "npm: out of memory");
    }
    m->deps = *deps;
    m->ops = plugin_ops(deps->cplane);
    m->budget.runners_max = deps->settings.runners_max;
    m->epoch = (uint64_t)env_wall_ns(deps->env);
    m->budget.request_last = m->epoch;
    m->wishes = npm_wishes_create();
    m->stopped_task.cb = manager_on_stopped;
    asks_init(&m->asks, m->deps.env, m->deps.ask, m->deps.ud);
    m->groups = calloc(names->n, sizeof(*m->groups));
    for (uint32_t i = 0; m->groups && r == 0 && i < names->n; i++) {
        r = open_group(m, &m->groups[i], names->items[i]);
        m->n_groups++;
    }
    if (!m->groups || !m->wishes || r < 0) {
        npm_manager_destroy(m);
        return err_set(reterr, FN_E_EXHAUSTED, "npm: out of memory");
    }
    *ret = m;
    return 0;
}

void npm_manager_set_options(struct npm_manager *m, const struct npm_options *options,
                             const struct npm_settings *settings)
{
    m->budget.runners_max = settings->runners_max;
    m->deps.settings.cplane_timeout_ns = settings->cplane_timeout_ns;
    for (uint32_t i = 0; i < m->n_groups; i++) {
        struct mgroup *g = &m->groups[i];

        npm_group_set_options(g->group, options);
        if (!m->stopping) { /* what was far away may be due */
            env_timer_set(m->deps.env, &g->timer, env_now_ns(m->deps.env));
        }
    }
}

void npm_manager_stop(struct npm_manager *m, void (*done)(void *ud), void *ud)
{
    m->stopping = true;
    asks_stop(&m->asks);
    m->stopped = done;
    m->stopped_ud = ud;
    for (uint32_t i = 0; i < m->n_groups; i++) {
        env_timer_clear(m->deps.env, &m->groups[i].timer);
        if (m->groups[i].working) {
            env_cancel(m->deps.env, &m->groups[i].work);
        }
    }
    maybe_stopped(m);
}

void npm_manager_destroy(struct npm_manager *m)
{
    if (!m) {
        return;
    }
    asks_finish(&m->asks);
    HASH_CLEAR(hh, m->by_name);
    for (uint32_t i = 0; i < m->n_groups; i++) {
        struct mgroup *g = &m->groups[i];

        env_timer_clear(m->deps.env, &g->timer);
        npm_group_destroy(g->group);
        free(g->predictor_state);
        buf_finish(&g->machines);
    }
    env_undefer(m->deps.env, &m->stopped_task);
    npm_wishes_destroy(m->wishes);
    free(m->groups);
    free(m);
}
