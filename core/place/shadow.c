/* Shadow: a second placer is asked what the serving one is asked, and nothing comes of it.
 *
 * It gets the first question of a sampled share of calls, over the same list with an index of its
 * own and a session that is thrown away, after the serving placer answered and before anything
 * changed; and it hears how attempts end, as a serving one would, so that it is warm when it takes
 * over. Swapping exchanges the two policies: calls in the middle of a round end it with the one
 * that began it. A shadow that is over its budget, or answers nonsense, STRIKES_MAX times within
 * STRIKES_NS is asked nothing more until it is set again.
 *
 * A home is the runner that a placer names first for a function. Homes are kept per policy in a
 * table of HOMES slots by hash; functions that share a slot push each other out and then count as
 * new. */
#include <place/place_int.h>

#include <base/hash.h>
#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOMES        4096u /* a power of two */
#define STRIKES_MAX  3u
#define STRIKES_NS   (10 * ENV_S)
#define REFUSED_NS   (1 * ENV_S)
#define PERMILLE_ALL 1000u

struct home {
    uint64_t fn; /* hash of its id, 0 = empty */
    uint64_t runner;
};

static const char *const role_names[PLACE_ROLES_N] = { "serving", "shadow" };
static const char *const verdict_names[PLACE_VERDICTS_N] = { "try", "wait", "give-up" };
static const char *const runner_names[PLACE_PICKS_N] = { "free", "refused", "down" };
static const char *const home_names[PLACE_HOMES_N] = { "new", "same", "moved" };

/* ---- metrics --------------------------------------------------------------------------------- */

static struct metric *shadow_series(const char *name, const char *help, const char *const *labels,
                                    const char *const *values)
{
    const struct metric_def def = { .name = name,
                                    .help = help,
                                    .kind = METRIC_COUNTER,
                                    .labels = labels };

    return metric_series(metric_declare(&def), values);
}

static void declare_answers(struct place_shadow *s)
{
    static const char *const labels[] = { "serving", "shadow", "runner", NULL };

    for (uint32_t a = 0; a < PLACE_VERDICTS_N; a++) {
        for (uint32_t b = 0; b < PLACE_VERDICTS_N; b++) {
            const char *values[] = { verdict_names[a], verdict_names[b],
                                     a == 0 && b == 0 ? "other" : "" };

            s->m.answers[a][b] =
                shadow_series("fn_lb_shadow_answers",
                              "First questions by what the serving and the shadow placer "
                              "answered, and whether they named the same runner.",
                              labels, values);
        }
    }
    s->m.same = shadow_series("fn_lb_shadow_answers", "", labels,
                              (const char *const[]){ verdict_names[0], verdict_names[0], "same" });
}

static const double wait_bounds_ms[] = { 0.25, 0.5, 1,   2,   4,    8,    16,   32,
                                         64,   128, 256, 512, 1000, 4000, 16000 };

static struct metric *waits_series(const char *name, const char *help, const char *const *labels,
                                   const char *const *values)
{
    const struct metric_def def = { .name = name,
                                    .help = help,
                                    .kind = METRIC_HISTOGRAM,
                                    .labels = labels,
                                    .bounds = wait_bounds_ms,
                                    .n_bounds = sizeof(wait_bounds_ms) / sizeof(wait_bounds_ms[0]),
                                    .scale = 1e-6 };

    return metric_series(metric_declare(&def), values);
}

static void declare_waits(struct place_shadow *s)
{
    static const char *const labels[] = { "role", NULL };

    for (uint32_t r = 0; r < PLACE_ROLES_N; r++) {
        s->m.predicted[r] =
            waits_series("fn_lb_shadow_predicted_wait_milliseconds",
                         "First questions by the wait predicted for the runner that the placer "
                         "named, milliseconds; where both named one that something is known of.",
                         labels, &role_names[r]);
    }
    s->m.measured = waits_series("fn_lb_shadow_measured_wait_milliseconds",
                                 "Calls that ended well by their time at the runner without the "
                                 "execution, milliseconds; what predictions are made of.",
                                 NULL, NULL);
    s->m.unpredicted = metric_simple("fn_lb_shadow_unpredicted", METRIC_COUNTER,
                                     "First questions at which both placers named a runner, and "
                                     "nothing is known yet of the wait at one of them.");
}

static void declare(struct place_shadow *s)
{
    static const char *const pick_labels[] = { "role", "runner", NULL };
    static const char *const home_labels[] = { "role", "home", NULL };
    static const char *const role_labels[] = { "role", NULL };

    if (s->m.asked) {
        return;
    }
    declare_answers(s);
    declare_waits(s);
    for (uint32_t r = 0; r < PLACE_ROLES_N; r++) {
        s->m.inflight[r] =
            shadow_series("fn_lb_shadow_pick_inflight",
                          "Sum over the runners named at first questions of the calls that "
                          "this load balancer had there.",
                          role_labels, &role_names[r]);
        for (uint32_t i = 0; i < PLACE_PICKS_N; i++) {
            const char *values[] = { role_names[r], runner_names[i] };

            s->m.picks[r][i] =
                shadow_series("fn_lb_shadow_picks",
                              "Runners that were named at the first question: free, or "
                              "refused another call within the last second, or down.",
                              pick_labels, values);
        }
        for (uint32_t i = 0; i < PLACE_HOMES_N; i++) {
            const char *values[] = { role_names[r], home_names[i] };

            s->m.homes[r][i] =
                shadow_series("fn_lb_shadow_homes",
                              "First questions by whether the placer named the runner that "
                              "it named the last time for the function.",
                              home_labels, values);
        }
    }
    s->m.strikes = metric_simple("fn_lb_shadow_strikes", METRIC_COUNTER,
                                 "Answers of the shadow placer over its budget or not usable.");
    s->m.on = metric_simple("fn_lb_shadow_on", METRIC_GAUGE, "1 while a shadow placer is asked.");
    s->m.swapped =
        metric_simple("fn_lb_shadow_swapped", METRIC_GAUGE,
                      "1 while the shadow of fn.yaml serves and the placer of fn.yaml is asked.");
    s->m.asked = metric_simple("fn_lb_shadow_asked", METRIC_COUNTER,
                               "First questions that the shadow placer was asked.");
}

/* ---- strikes --------------------------------------------------------------------------------- */

static void turn_off(struct place *p, const char *why)
{
    struct place_shadow *s = &p->shadow;

    snprintf(s->off_why, sizeof(s->off_why), "%s", why);
    metric_set(s->m.on, 0);
    log_warn("the shadow placer is off until it is set again", "plugin",
             plugin_name(s->policy->placer), "strikes", log_num(STRIKES_MAX), "within_s",
             log_num(STRIKES_NS / ENV_S), "last", why);
}

static void strike(struct place *p, const char *why)
{
    struct place_shadow *s = &p->shadow;
    int64_t now_ns = env_now_ns(p->deps.env);

    if (now_ns - s->strikes_ns > STRIKES_NS) {
        s->strikes_ns = now_ns;
        s->strikes = 0;
    }
    metric_add(s->m.strikes, 1);
    if (++s->strikes == STRIKES_MAX) {
        turn_off(p, why);
    }
}

static bool is_on(const struct place *p)
{
    return p->shadow.policy && !p->shadow.off_why[0];
}

bool shadow_is(const struct place *p, const struct plugin *plugin)
{
    return p->shadow.policy && p->shadow.policy->placer == plugin;
}

/* ---- judging answers ------------------------------------------------------------------------- */

/* Never 0, which is an empty slot. */
static uint64_t fn_of(const struct place_call *pc)
{
    uint64_t h = hash_text(HASH_INIT, pc->view.fn_id ? pc->view.fn_id : "");

    return h ? h : 1;
}

static void note_home(struct place_shadow *s, enum place_role role, struct home *homes, uint64_t fn,
                      uint64_t runner)
{
    struct home *h = &homes[(fn ^ fn >> 32) & (HOMES - 1)];
    enum place_home was = h->fn != fn           ? PLACE_HOME_NEW
                          : h->runner == runner ? PLACE_HOME_SAME
                                                : PLACE_HOME_MOVED;

    *h = (struct home){ fn, runner };
    s->n.homes[role][was]++;
    metric_add(s->m.homes[role][was], 1);
}

static void note_pick(struct place_call *pc, enum place_role role, uint32_t index)
{
    struct place *p = pc->place;
    const struct place_runner *r = pc->snap->runners[index];
    int64_t now_ns = env_now_ns(p->deps.env);
    enum place_pick pick = PLACE_PICK_FREE;

    if ((pc->snap->list[index].flags & FN_RUNNER_DRAINING) || !runner_is_up(r) ||
        runner_is_failing(r)) {
        pick = PLACE_PICK_DOWN;
    } else if (r->refused_ns && now_ns - r->refused_ns < REFUSED_NS) {
        pick = PLACE_PICK_REFUSED;
    }
    p->shadow.n.inflight[role] += pc->snap->inflight[index];
    metric_add(p->shadow.m.inflight[role], pc->snap->inflight[index]);
    p->shadow.n.picks[role][pick]++;
    metric_add(p->shadow.m.picks[role][pick], 1);
}

static void note_try(struct place_call *pc, enum place_role role, struct policy *y, uint64_t fn,
                     uint32_t index)
{
    note_pick(pc, role, index);
    note_home(&pc->place->shadow, role, y->homes, fn, pc->snap->list[index].id);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static struct waits_class class_of(const struct place_call *pc, uint32_t index)
{
    return waits_class_of(pc->place->shadow.waits, fn_of(pc), pc->snap->list[index].id,
                          pc->snap->inflight[index], env_now_ns(pc->place->deps.env));
}

void shadow_attempt(struct place_call *pc, uint32_t index)
{
    pc->class_known = pc->snap->shadow && pc->place->shadow.waits;
    if (pc->class_known) {
        pc->class = class_of(pc, index);
    }
}

void shadow_attempt_ended(struct place_call *pc)
{
    struct place_shadow *s = &pc->place->shadow;
    int64_t now_ns = env_now_ns(pc->place->deps.env);
    int64_t wait_ns = now_ns - pc->attempt_ns - pc->execution_ns;

    if (!pc->class_known || pc->execution_ns <= 0) {
        return;
    }
    wait_ns = wait_ns > 0 ? wait_ns : 0; /* two clocks */
    waits_learn(s->waits, &pc->group->means, pc->class, fn_of(pc),
                pc->snap->list[pc->last_index].id, wait_ns, now_ns);
    s->n.measured++;
    s->n.measured_ns += wait_ns;
    metric_observe(s->m.measured, wait_ns);
}

/* Both or none: a mean over other questions than the other's says nothing about the two. */
static void note_waits(struct place_call *pc, uint32_t serving, uint32_t shadow)
{
    struct place_shadow *s = &pc->place->shadow;
    const struct waits_means *m = &pc->group->means;
    int64_t wait_ns[PLACE_ROLES_N];

    if (!s->waits) {
        return;
    }
    wait_ns[PLACE_SERVING] = waits_predict(m, class_of(pc, serving));
    wait_ns[PLACE_SHADOW] = waits_predict(m, class_of(pc, shadow));
    if (wait_ns[PLACE_SERVING] < 0 || wait_ns[PLACE_SHADOW] < 0) {
        metric_add(s->m.unpredicted, 1);
        return;
    }
    s->n.predicted++;
    for (uint32_t r = 0; r < PLACE_ROLES_N; r++) {
        s->n.wait_ns[r] += wait_ns[r];
        metric_observe(s->m.predicted[r], wait_ns[r]);
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* 0.. of FN_TRY, FN_WAIT, FN_GIVE_UP; PLACE_VERDICTS_N: an answer that cannot be used. */
static uint32_t verdict_of(const struct place_call *pc, int result, const struct fn_answer *a)
{
    if (!plugin_answer_decision("decide", result, a, pc->snap->view.n, NULL, 0)) {
        return PLACE_VERDICTS_N;
    }
    return (result < 0 ? FN_GIVE_UP : a->verdict) - 1;
}

static void compare(struct place_call *pc, uint32_t serving, uint32_t shadow,
                    const struct fn_answer *a, const struct fn_answer *b)
{
    struct place_shadow *s = &pc->place->shadow;
    uint64_t fn = fn_of(pc);
    bool both_try = serving == 0 && shadow == 0;
    bool same = serving == shadow && (!both_try || a->index == b->index);

    s->n.answers[serving][shadow]++;
    s->n.agree += same;
    s->n.disagree += !same;
    metric_add(both_try && same ? s->m.same : s->m.answers[serving][shadow], 1);
    if (both_try) {
        note_waits(pc, a->index, b->index);
    }
    if (serving == 0) {
        note_try(pc, PLACE_SERVING, pc->snap->policy, fn, a->index);
    }
    if (shadow == 0) {
        note_try(pc, PLACE_SHADOW, pc->snap->shadow, fn, b->index);
    }
}

static void refuse_shadow(struct place_call *pc, struct policy *y, int result,
                          const struct fn_answer *b)
{
    char what[PLUGIN_ANSWER_WHAT_MAX] = "";

    plugin_answer_decision("decide as shadow", result, b, pc->snap->view.n, what, sizeof(what));
    plugin_bad_answer(y->placer, what);
    strike(pc->place, "an answer that cannot be used");
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool is_sampled(struct place *p)
{
    return p->shadow.permille >= PERMILLE_ALL ||
           env_random_u64(p->deps.env) % PERMILLE_ALL < p->shadow.permille;
}

/* What a pool tells of its list changes after the list was made. */
static const struct fn_snapshot *view_of(struct snapshot *s)
{
    s->shadow_view.flags = s->view.flags;
    s->shadow_view.err_code = s->view.err_code;
    return &s->shadow_view;
}

void shadow_ask(struct place_call *pc, const struct fn_ask *asked, int result,
                const struct fn_answer *answer)
{
    struct place *p = pc->place;
    struct policy *y = pc->snap->shadow;
    _Alignas(16) unsigned char session[FN_PLACER_SESSION_MAX];
    struct fn_answer b = { .size = sizeof(b) };
    struct fn_ask ask = *asked;
    struct plugin_crumb crumb;
    uint32_t serving, shadow;
    int r;

    if (y != p->shadow.policy || pc->snap->policy != p->policy || !is_on(p) || !is_sampled(p)) {
        return;
    }
    memset(session, 0, y->ops->session_size);
    ask.session = session;
    ask.snap = view_of(pc->snap);
    plugin_enter(&crumb, y->placer, PLUGIN_LOOP, "shadow");
    r = y->ops->decide(plugin_inst(y->placer), &ask, &b);
    plugin_leave(&crumb);
    p->shadow.n.asked++;
    metric_add(p->shadow.m.asked, 1);
    if (crumb.missed) {
        strike(p, "over its budget");
    }
    serving = verdict_of(pc, result, answer);
    shadow = verdict_of(pc, r, &b);
    if (shadow == PLACE_VERDICTS_N) {
        refuse_shadow(pc, y, r, &b);
    } else if (serving != PLACE_VERDICTS_N) {
        compare(pc, serving, shadow, answer, &b);
    }
}

void shadow_observe(struct place_call *pc, const struct fn_placed *placed)
{
    struct place *p = pc->place;
    struct policy *y = pc->snap->shadow;
    struct fn_placed what = *placed;
    struct plugin_crumb crumb;

    if (y != p->shadow.policy || !is_on(p) || !y->ops->observe) {
        return;
    }
    what.snap = view_of(pc->snap);
    plugin_enter(&crumb, y->placer, PLUGIN_LOOP, "shadow observe");
    y->ops->observe(plugin_inst(y->placer), &what);
    plugin_leave(&crumb);
    if (crumb.missed) {
        strike(p, "over its budget");
    }
}

/* ---- indexes --------------------------------------------------------------------------------- */

void shadow_index_build(struct snapshot *s)
{
    struct place *p = s->place;

    if (!is_on(p)) {
        return;
    }
    s->shadow = policy_ref(p->shadow.policy);
    s->shadow_view = s->view;
    s->shadow_view.index = NULL;
    s->shadow_view.index = policy_index_build(s->shadow, &s->shadow_view);
}

void shadow_index_free(struct snapshot *s)
{
    policy_index_free(s->shadow, s->shadow_view.index);
    policy_unref(s->shadow);
}

/* ---- roles ----------------------------------------------------------------------------------- */

/* Counts belong to a pair of roles: with other roles they begin anew. */
static void begin_counts(struct place *p)
{
    p->shadow.since_ns = env_now_ns(p->deps.env);
    memset(&p->shadow.n, 0, sizeof(p->shadow.n));
}

static bool homes_make(struct policy *y)
{
    y->homes = y->homes ? y->homes : calloc(HOMES, sizeof(*y->homes));
    return y->homes != NULL;
}

void shadow_policy_used(struct place *p)
{
    if (p->shadow.policy && !homes_make(p->policy)) {
        turn_off(p, "out of memory");
    }
}

void shadow_placer_set(struct place *p)
{
    p->shadow.swapped = false;
    if (p->shadow.policy) {
        begin_counts(p);
        metric_set(p->shadow.m.swapped, 0);
    }
}

static void begin_anew(struct place_shadow *s)
{
    s->strikes = 0;
    s->off_why[0] = '\0';
}

int shadow_set(struct place *p, struct policy *y, uint32_t permille)
{
    struct place_shadow *s = &p->shadow;
    struct policy *old = s->policy;

    if (y && (!homes_make(y) || !homes_make(p->policy))) {
        return FN_E_EXHAUSTED;
    }
    declare(s);
    s->waits = s->waits || !y ? s->waits : waits_create();
    s->policy = y;
    s->permille = permille;
    s->swapped = false;
    begin_anew(s);
    begin_counts(p);
    metric_set(s->m.on, y != NULL);
    metric_set(s->m.swapped, 0);
    policy_unref(old);
    return 0;
}

void shadow_exchange(struct place *p)
{
    struct place_shadow *s = &p->shadow;
    struct policy *serves = s->policy;

    s->policy = p->policy;
    p->policy = serves;
    s->swapped = !s->swapped;
    begin_anew(s);
    begin_counts(p);
    metric_set(s->m.on, 1);
    metric_set(s->m.swapped, s->swapped);
}

void place_shadow_status(const struct place *p, struct place_shadow_status *ret)
{
    const struct place_shadow *s = &p->shadow;

    *ret = (struct place_shadow_status){
        .serving = p->policy ? plugin_name(p->policy->placer) : NULL,
        .shadow = s->policy ? plugin_name(s->policy->placer) : NULL,
        .permille = s->permille,
        .swapped = s->swapped,
        .off_why = s->off_why[0] ? s->off_why : NULL,
        .for_ns = s->policy ? env_now_ns(p->deps.env) - s->since_ns : 0,
        .n = s->n,
    };
}
