/* Placement: rounds, parking, wakes, deadlines, bad answers, snapshots; with scripted plugins. */
#include "../lib/fake_engage.h"
#include "../lib/fake_env.h"
#include "../lib/fake_plugin.h"

#include <base/metric.h>
#include <place/place.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a placer and a pool of the test --------------------------------------------------------- */

static struct {
    struct fn_answer fixed; /* verdict 0 = walk once around, then wait */
    int result;
    uint32_t decisions;
    uint32_t last_why;
    int32_t last_code;
    uint32_t inflight[8];
    uint32_t observed[8];
    int indexes;
    uint32_t wants;
    struct fn_demand demand;
    int stops;
    const char *group;
} t;

struct walk {
    uint64_t epoch;
    uint32_t next;
};

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct walk *w = ask->session;

    (void)inst;
    t.decisions++;
    t.last_why = ask->why;
    t.last_code = ask->last_code;
    for (uint32_t i = 0; i < ask->snap->n && i < 8; i++) {
        t.inflight[i] = ask->inflight[i];
    }
    if (t.fixed.verdict || t.result) {
        uint32_t size = ret->size;

        *ret = t.fixed;
        ret->size = size;
        return t.result;
    }
    if (ask->why == FN_WHY_START || ask->why == FN_WHY_TIMER || ask->why == FN_WHY_WAKE) {
        w->next = 0;
    }
    if (w->next < ask->snap->n) {
        ret->verdict = FN_TRY;
        ret->index = w->next++;
        return 0;
    }
    ret->verdict = FN_WAIT;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY | FN_WAKE_PLUGIN;
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    (void)inst;
    t.observed[what->outcome]++;
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    (void)inst;
    (void)snap;
    t.indexes++;
    *ret_index = &t;
    return 0;
}

static void index_free(void *inst, void *index)
{
    (void)inst;
    ck_assert_ptr_eq(index, &t);
    t.indexes--;
}

static const struct fn_placer_ops placer_ops = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
                                                 sizeof(struct walk), 0, decide, observe,
                                                 index_build, index_free };

static int pool_start(void *inst, struct fn_error *reterr)
{
    (void)inst;
    (void)reterr;
    return 0;
}

static int pool_route(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    (void)inst;
    snprintf(ret_group, cap, "%s", t.group ? t.group : call->lb_group);
    return 0;
}

static int pool_want(void *inst, const char *group, const struct fn_demand *demand)
{
    (void)inst;
    if (strcmp(group, "default") == 0) {
        t.wants++;
        t.demand = *demand;
    }
    return 0;
}

static void pool_stop(void *inst, void (*done)(void *ud), void *ud)
{
    (void)inst;
    t.stops++;
    done(ud);
}

static const struct fn_pool_ops pool_ops = { FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL), pool_start,
                                             pool_route, pool_want, pool_stop };

/* ---- fixture --------------------------------------------------------------------------------- */

static struct fake_env *env;
static struct fake_engage fe;
static struct plugin placer;
static struct plugin pool;
static struct place *place;

static void setup(void)
{
    struct place_deps deps = { .client = &fe.client,
                               .options = { 10 * ENV_MS, ENV_S, 20000 } };
    struct fn_error e = ERR_INIT;

    memset(&t, 0, sizeof(t));
    env = fake_env_create();
    fake_engage_init(&fe);
    fake_plugin_reset();
    fake_plugin_init(&placer, "placer", &placer_ops, NULL);
    fake_plugin_init(&pool, "pool", &pool_ops, NULL);
    deps.env = &env->env;
    ck_assert_int_eq(place_create(&deps, &place, &e), 0);
    ck_assert_int_eq(place_set_placer(place, &placer, NULL, NULL), 0);
    ck_assert_int_eq(place_start(place, &pool, &e), 0);
    fake_env_settle(env);
}

static void teardown(void)
{
    place_destroy(place);
    ck_assert_int_eq(t.indexes, 0);
    fake_engage_finish(&fe);
    fake_env_destroy(env);
}

static int publish(const char *group, const char *const *addresses)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_snap_builder *b;

    ck_assert_int_eq(snap->begin(&pool.host, group, &b), 0);
    for (uint64_t id = 1; *addresses; addresses++, id++) {
        struct fn_runner r = { .id = id, .address = *addresses, .weight = 1 };

        ck_assert_int_eq(snap->add(b, &r, sizeof(r)), 0);
    }
    return snap->publish(b);
}

#define PUBLISH(...) publish("default", (const char *const[]){ __VA_ARGS__, NULL })

static int woken;

static void on_wake(struct place_call *pc)
{
    (void)pc;
    woken++;
}

static enum place_verdict last_verdict;

static void ask_again(struct place_call *pc)
{
    last_verdict = place_next(pc);
}

static struct place_call *begin(void)
{
    struct place_call *pc = calloc(1, sizeof(*pc));

    pc->view = (struct fn_call){ .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL), .id = "c",
                                 .fn_id = "f", .app_id = "a", .lb_group = "default",
                                 .mem_mb = 128 };
    pc->deadline_ns = env->now + 30 * ENV_S;
    pc->on_wake = on_wake;
    place_begin(place, pc);
    return pc;
}

static void end(struct place_call *pc)
{
    place_ended(pc, FN_DONE_OK);
    free(pc);
}

static void leave(struct place_call *pc)
{
    place_leave(pc);
    free(pc);
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(tries_in_order_and_counts)
{
    struct place_call *a;
    struct place_call *b;
    struct place_counts n;

    PUBLISH("r1:1", "r2:1");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_str_eq(a->address, "r1:1");
    b = begin();
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0], 1);
    place_refused(b, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_uint_eq(t.observed[FN_DONE_BUSY], 1);
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_str_eq(b->address, "r2:1");
    ck_assert_uint_eq(t.last_why, FN_WHY_BUSY);
    ck_assert_int_eq(t.last_code, FN_E_UNAVAILABLE);
    ck_assert_uint_eq(b->attempts, 2);
    place_count(place, &n);
    ck_assert_uint_eq(n.trying, 2);
    ck_assert_uint_eq(n.runners_up, 2);
    end(a);
    end(b);
    ck_assert_uint_eq(t.observed[FN_DONE_OK], 2);
    place_count(place, &n);
    ck_assert_uint_eq(n.trying, 0);
}
END_TEST

/* A runner without a link is passed over without an attempt at the client. */
START_TEST(down_links_are_not_tried)
{
    struct place_call *a;

    fe.up_at_once = false;
    PUBLISH("r1:1", "r2:1");
    fake_engage_up(&fe, "r2:1", true);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_str_eq(a->address, "r2:1");
    ck_assert_uint_eq(t.last_why, FN_WHY_UNREACHABLE);
    end(a);
    ck_assert_uint_eq(fe.attempts_made, 0);
}
END_TEST

START_TEST(draining_runners_are_refused)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_runner r = { .id = 1, .address = "r1:1", .flags = FN_RUNNER_DRAINING };
    struct fn_snap_builder *b;
    struct place_call *a;

    snap->begin(&pool.host, "default", &b);
    snap->add(b, &r, sizeof(r));
    snap->publish(b);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    leave(a);
}
END_TEST

/* Counts follow a runner over snapshots; a link is kept while anything uses it. */
START_TEST(snapshots_carry_links)
{
    struct place_call *a;
    struct place_call *b;
    struct engage_link *l;

    PUBLISH("r1:1", "r2:1");
    l = fake_engage_link(&fe, "r1:1");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    PUBLISH("r1:1");
    ck_assert_ptr_eq(fake_engage_link(&fe, "r1:1"), l);
    ck_assert_ptr_null(fake_engage_link(&fe, "r3:1"));
    b = begin();
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0], 1);
    /* r2 was only in the old list; that one is pinned by a's round. */
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r2:1"));
    end(a);
    ck_assert_ptr_null(fake_engage_link(&fe, "r2:1"));
    PUBLISH("r9:1");
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r1:1"));
    end(b);
    ck_assert_ptr_null(fake_engage_link(&fe, "r1:1"));
    ck_assert_int_eq(t.indexes, 1);
}
END_TEST

/* The same id at a new address is another runner. */
START_TEST(restarted_elsewhere)
{
    PUBLISH("r1:1");
    PUBLISH("r1:2");
    ck_assert_ptr_null(fake_engage_link(&fe, "r1:1"));
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r1:2"));
}
END_TEST

START_TEST(failing_pool_keeps_its_list)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_error why = ERR_INIT;
    struct place_call *a;

    PUBLISH("r1:1");
    err_set(&why, FN_E_UNAVAILABLE, "no list");
    ck_assert_int_eq((snap->fail)(&pool.host, "default", &why), 0);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    end(a);
}
END_TEST

/* Bad builders. */
START_TEST(builders_check)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_runner r = { .id = 1 };
    struct fn_snap_builder *b;
    char name[80];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    ck_assert_int_eq(snap->begin(&placer.host, "default", &b), FN_E_PRECONDITION);
    ck_assert_int_eq(snap->begin(&pool.host, "", &b), FN_E_INVALID);
    ck_assert_int_eq(snap->begin(&pool.host, name, &b), FN_E_INVALID);
    ck_assert_int_eq(snap->begin(&pool.host, "default", &b), 0);
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), FN_E_INVALID);
    r.address = "";
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), FN_E_INVALID);
    r.address = "r1:1";
    r.flags = 1u << 7;
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), FN_E_INVALID);
    r.flags = FN_RUNNER_DRAINING;
    ck_assert_int_eq(snap->add(b, &r, sizeof(r) - 1), FN_E_INVALID);
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), 0);
    snap->discard(b);
    snap->discard(NULL);
}
END_TEST

START_TEST(empty_group_waits_for_the_pool)
{
    struct place_call *a = begin();

    woken = 0;
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    PUBLISH("r1:1");
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 1);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    end(a);
}
END_TEST

/* Its first call makes a group, long after the placer was set: it crashed for want of a policy. */
START_TEST(a_group_that_nobody_named_before)
{
    struct place_call *a;

    t.group = "blue";
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    ck_assert_uint_eq(t.last_why, FN_WHY_START);
    leave(a);
}
END_TEST

START_TEST(link_that_comes_up_wakes)
{
    struct place_call *a;

    fe.up_at_once = false;
    PUBLISH("r1:1");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    woken = 0;
    fake_engage_up(&fe, "r1:1", true);
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 1);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_uint_eq(t.last_why, FN_WHY_WAKE);
    end(a);
}
END_TEST

static int64_t new_runners(const char *group)
{
    static const char *const labels[] = { "group", NULL };
    const struct metric_def def = {
        .name = "fn_lb_new_runner_latency", .kind = METRIC_HISTOGRAM, .labels = labels };

    return metric_value(metric_series(metric_declare(&def), &group));
}

/* Counted once for the calls that wait together, and only when a runner is new to them. */
START_TEST(new_runners_are_timed)
{
    struct place_call *a = begin(), *b = begin();
    int64_t before = new_runners("default");

    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    env->now += ENV_S;
    ck_assert_int_eq(place_next(b), PLACE_PARKED);
    env->now += ENV_S;
    PUBLISH("r1:1");
    fake_env_advance(env, 0);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_int_eq(new_runners("default"), before);
    end(a);
    ck_assert_int_eq(new_runners("default"), before + 1);
    end(b);
    ck_assert_int_eq(new_runners("default"), before + 1);
    a = begin(); /* a known runner that is busy for a while */
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    place_refused(a, FN_WHY_BUSY, 0);
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    fake_env_advance(env, 5 * ENV_S);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    end(a);
    ck_assert_int_eq(new_runners("default"), before + 1);
}
END_TEST

START_TEST(plugin_wakes)
{
    const struct fn_wake_if *w = fake_plugin_table("fn.wake");
    struct place_call *a = begin();

    place_next(a);
    woken = 0;
    w->wake(&placer.host, "other");
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 0);
    fake_plugin_on_worker = 1;
    w->wake(&placer.host, "default");
    fake_plugin_on_worker = 0;
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 1);
    leave(a);
}
END_TEST

/* Freed capacity wakes a few calls, oldest first. */
static struct place_call *order[64];
static int n_order;

static void note(struct place_call *pc)
{
    order[n_order++] = pc;
}

START_TEST(capacity_wakes_the_oldest)
{
    struct place_call *running;
    struct place_call *waiting[10];

    PUBLISH("r1:1");
    running = begin();
    ck_assert_int_eq(place_next(running), PLACE_TRY);
    for (int i = 0; i < 10; i++) {
        waiting[i] = begin();
        waiting[i]->on_wake = note;
        ck_assert_int_eq(place_next(waiting[i]), PLACE_TRY);
        place_refused(waiting[i], FN_WHY_BUSY, FN_E_UNAVAILABLE);
        ck_assert_int_eq(place_next(waiting[i]), PLACE_PARKED);
    }
    n_order = 0;
    end(running);
    fake_env_advance(env, 0);
    ck_assert_int_eq(n_order, 2);
    ck_assert_ptr_eq(order[0], waiting[0]);
    ck_assert_ptr_eq(order[1], waiting[1]);
    /* The first one fails again: it stays first. */
    ck_assert_int_eq(place_next(waiting[0]), PLACE_TRY);
    place_refused(waiting[0], FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(waiting[0]), PLACE_PARKED);
    ck_assert_int_eq(place_next(waiting[1]), PLACE_TRY);
    n_order = 0;
    place_ended(waiting[1], FN_DONE_OK);
    fake_env_advance(env, 0);
    ck_assert_int_eq(n_order, 2);
    ck_assert_ptr_eq(order[0], waiting[0]);
    ck_assert_ptr_eq(order[1], waiting[2]);
    for (int i = 0; i < 10; i++) {
        leave(waiting[i]);
    }
}
END_TEST

/* What a refused call costs: at most ten attempts a second, however many runners and wakes. */
START_TEST(no_retry_storm)
{
    static const char *const three[] = { "r1:1", "r2:1", "r3:1", NULL };
    struct place_call *a;
    uint32_t before = 0;

    publish("default", three);
    a = begin();
    a->deadline_ns = env->now + 3600 * ENV_S;
    woken = 1;
    for (int ms = 0; ms < 20000; ms += 5) {
        if (woken) {
            woken = 0;
            while (place_next(a) == PLACE_TRY) {
                place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
            }
        }
        if (ms == 1000) {
            before = a->attempts;
        }
        if (ms >= 1000) { /* somebody else's call ends all the time */
            struct place_call *other = begin();

            ck_assert_int_eq(place_next(other), PLACE_TRY);
            end(other);
        }
        fake_env_advance(env, 5 * ENV_MS);
    }
    ck_assert_uint_le(a->attempts - before, 19 * 12);
    leave(a);
}
END_TEST

/* The bound holds also when one round alone has more attempts than that. */
START_TEST(many_runners_refuse)
{
    char names[40][16];
    const char *list[41] = { NULL };
    struct place_call *a;

    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "r%d:1", i);
        list[i] = names[i];
    }
    publish("default", list);
    a = begin();
    a->deadline_ns = env->now + 3600 * ENV_S;
    woken = 1;
    for (int ms = 0; ms < 60000; ms += 10) {
        if (woken) {
            woken = 0;
            while (place_next(a) == PLACE_TRY) {
                place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
            }
        }
        fake_env_advance(env, 10 * ENV_MS);
    }
    ck_assert_uint_ge(a->attempts, 60 * 6);
    ck_assert_uint_le(a->attempts, 80 + 60 * 10);
    leave(a);
}
END_TEST

START_TEST(waits_grow_to_a_second)
{
    struct place_call *a = begin();
    uint32_t before = 0;

    a->deadline_ns = env->now + 3600 * ENV_S;
    woken = 1;
    for (int i = 0; i < 1000; i++) {
        if (woken) {
            woken = 0;
            place_next(a);
        }
        fake_env_advance(env, 10 * ENV_MS);
    }
    before = t.decisions;
    ck_assert_uint_ge(before, 5 + 7);
    ck_assert_uint_le(before, 10 + 12);
    leave(a);
}
END_TEST

START_TEST(deadline_says_why)
{
    struct place_call *a = begin();

    a->on_wake = ask_again;
    last_verdict = place_next(a);
    fake_env_advance(env, 29900 * ENV_MS);
    ck_assert_int_eq(last_verdict, PLACE_PARKED);
    fake_env_advance(env, 200 * ENV_MS);
    ck_assert_int_eq(last_verdict, PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB301 no runner: 0 known");
    ck_assert_int_eq(a->error.http_status, 503);
    ck_assert_int_gt(a->error.retry_after_ns, 0);
    leave(a);
    PUBLISH("r1:1", "r2:1");
    a = begin();
    fake_env_advance(env, 31 * ENV_S);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(place_next(a), PLACE_TRY);
        place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    }
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB302 busy: 2 of 2 refused");
    leave(a);
    fake_engage_up(&fe, "r1:1", false);
    fake_engage_up(&fe, "r2:1", false);
    a = begin();
    fake_env_advance(env, 31 * ENV_S);
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB303 down: 2 of 2 unreachable");
    leave(a);
}
END_TEST

START_TEST(bad_answers)
{
    static const struct fn_answer rows[] = {
        { .verdict = FN_TRY, .index = 1 },
        { .verdict = FN_TRY, .index = UINT32_MAX },
        { .verdict = FN_WAIT, .wait_ns = -1 },
        { .verdict = FN_WAIT, .wake_mask = 1u << 5 },
        { .verdict = 77 },
    };
    struct place_call *a;

    PUBLISH("r1:1");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        t.fixed = rows[i];
        a = begin();
        ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
        ck_assert_int_eq(a->error.http_status, 500);
        ck_assert_uint_eq(placer.bad_answers, i + 1);
        leave(a);
    }
    t.fixed.verdict = 0;
    t.result = FN_E_INTERNAL;
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    leave(a);
}
END_TEST

/* ---- the breaker: `second` decides when `placer` was put aside ------------------------------- */

static struct plugin second;
static uint32_t second_decisions;

static int second_decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    (void)inst;
    second_decisions++;
    ck_assert_int_eq(ask->why, FN_WHY_START);
    ret->verdict = FN_TRY;
    return 0;
}

static void with_fallback(void)
{
    static const struct fn_placer_ops ops = {
        .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
        .decide = second_decide,
    };

    second_decisions = 0;
    fake_plugin_init(&second, "second", &ops, NULL);
    ck_assert_int_eq(place_set_fallback(place, &second, NULL, NULL), 0);
    PUBLISH("r1:1");
}

static void one_good_call(void)
{
    struct place_call *a = begin();

    ck_assert_int_eq(place_next(a), PLACE_TRY);
    place_ended(a, FN_DONE_OK);
    leave(a);
}

/* A call that meets three bad answers is not lost: it waits a little and the fallback places it. */
START_TEST(breaker_saves_the_call)
{
    struct place_call *a;

    with_fallback();
    t.fixed = (struct fn_answer){ .verdict = 99 };
    a = begin();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(place_next(a), PLACE_PARKED);
        fake_env_advance(env, ENV_S);
    }
    ck_assert_uint_eq(placer.bad_answers, 3);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_uint_eq(second_decisions, 1);
    place_ended(a, FN_DONE_OK);
    leave(a);
}
END_TEST

START_TEST(breaker_opens_for_slow_decisions_and_closes)
{
    with_fallback();
    placer.slow = true;
    one_good_call();
    one_good_call();
    fake_env_advance(env, 11 * ENV_S); /* strikes are forgotten */
    one_good_call();
    one_good_call();
    ck_assert_uint_eq(second_decisions, 0);
    one_good_call(); /* the third: its answer is still taken */
    ck_assert_uint_eq(second_decisions, 0);
    one_good_call();
    ck_assert_uint_eq(second_decisions, 1);
    fake_env_advance(env, 30 * ENV_S); /* trial, failed: twice the pause */
    one_good_call();
    ck_assert_uint_eq(second_decisions, 1);
    one_good_call();
    ck_assert_uint_eq(second_decisions, 2);
    fake_env_advance(env, 59 * ENV_S);
    one_good_call();
    ck_assert_uint_eq(second_decisions, 3);
    placer.slow = false;
    fake_env_advance(env, 1 * ENV_S);
    for (int i = 0; i < 32; i++) {
        one_good_call();
    }
    placer.slow = true; /* trusted again: one strike is not enough */
    one_good_call();
    one_good_call();
    ck_assert_uint_eq(second_decisions, 3);
    placer.slow = false;
}
END_TEST

/* A bad fallback has nobody behind it; a new placer begins without strikes and without a fallback. */
START_TEST(breaker_ends_with_its_placer)
{
    struct place_call *a;

    with_fallback();
    placer.slow = true;
    one_good_call();
    one_good_call();
    ck_assert_int_eq(place_set_placer(place, &placer, NULL, NULL), 0);
    for (int i = 0; i < 4; i++) {
        one_good_call();
    }
    ck_assert_uint_eq(second_decisions, 0);
    placer.slow = false;
    t.fixed = (struct fn_answer){ .verdict = 99 };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    leave(a);
}
END_TEST

/* A placer that names an unreachable runner for ever does not hold the loop. */
START_TEST(stubborn_placer)
{
    struct place_call *a;

    fe.up_at_once = false;
    PUBLISH("r1:1");
    t.fixed = (struct fn_answer){ .verdict = FN_TRY };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    ck_assert_uint_le(t.decisions, 20);
    leave(a);
}
END_TEST

START_TEST(give_up_with_a_code)
{
    struct place_call *a;

    PUBLISH("r1:1");
    t.fixed = (struct fn_answer){ .verdict = FN_GIVE_UP, .code = FN_E_PERMISSION };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_int_eq(a->error.code, FN_E_PERMISSION);
    ck_assert_uint_ne(a->error.flags & FN_ERR_RETRY, 0);
    leave(a);
}
END_TEST

START_TEST(groups_are_apart)
{
    struct place_call *a;
    struct place_call *b;

    publish("other", (const char *const[]){ "o1:1", NULL });
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    t.group = "other";
    b = begin();
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_str_eq(b->address, "o1:1");
    woken = 0;
    end(b);
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 0);
    leave(a);
}
END_TEST

START_TEST(demand_each_second)
{
    struct place_call *a = begin();
    struct place_call *b;

    a->on_wake = ask_again;
    place_next(a);
    fake_env_advance(env, 10 * ENV_S);
    ck_assert_uint_ge(t.wants, 10);
    ck_assert_uint_eq(t.demand.mem_mb, 128);
    ck_assert_uint_eq(t.demand.waiting, 1);
    PUBLISH("r1:1");
    b = begin();
    place_next(b);
    leave(a);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(t.demand.waiting, 0);
    ck_assert_uint_eq(t.demand.running, 1);
    end(b);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(t.demand.mem_mb, 0);
}
END_TEST

static void on_stopped(void *ud)
{
    ++*(int *)ud;
}

START_TEST(stop_gives_up_waiting_calls)
{
    struct place_call *a = begin();
    int stopped = 0;

    place_next(a);
    woken = 0;
    place_stop(place, on_stopped, &stopped);
    fake_env_advance(env, 0);
    ck_assert_int_eq(stopped, 1);
    ck_assert_int_eq(woken, 1);
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    leave(a);
}
END_TEST

/* Ten thousand waiting calls: memory of each, and the cost of asking them again. */
START_TEST(many_waiting)
{
    enum { N = 10000 };
    static struct place_call *calls[N];
    struct place_counts n;

    PUBLISH("r1:1");
    for (int i = 0; i < N; i++) {
        calls[i] = begin();
        calls[i]->deadline_ns = env->now + 3600 * ENV_S;
        ck_assert_int_eq(place_next(calls[i]), PLACE_TRY);
        place_refused(calls[i], FN_WHY_BUSY, FN_E_UNAVAILABLE);
        ck_assert_int_eq(place_next(calls[i]), PLACE_PARKED);
    }
    ck_assert_uint_le(sizeof(struct place_call), 1024);
    place_count(place, &n);
    ck_assert_uint_eq(n.waiting, N);
    for (int i = 0; i < N; i++) {
        leave(calls[i]);
    }
}
END_TEST

START_TEST(waiting_limit)
{
    struct place_call *calls[3];
    struct place_deps deps = { .env = &env->env, .client = &fe.client,
                               .options = { 10 * ENV_MS, ENV_S, 2 } };
    struct place *small;
    struct fn_error e = ERR_INIT;

    fake_plugin_reset();
    ck_assert_int_eq(place_create(&deps, &small, &e), 0);
    ck_assert_int_eq(place_set_placer(small, &placer, NULL, NULL), 0);
    ck_assert_int_eq(place_start(small, &pool, &e), 0);
    for (int i = 0; i < 3; i++) {
        calls[i] = calloc(1, sizeof(*calls[i]));
        calls[i]->view = (struct fn_call){ .lb_group = "default" };
        calls[i]->deadline_ns = env->now + ENV_S;
        calls[i]->on_wake = on_wake;
        place_begin(small, calls[i]);
        ck_assert_int_eq(place_next(calls[i]), i < 2 ? PLACE_PARKED : PLACE_GIVE_UP);
    }
    ck_assert_int_eq(calls[2]->error.http_status, 503);
    for (int i = 0; i < 3; i++) {
        leave(calls[i]);
    }
    place_destroy(small);
}
END_TEST

/* Random walks: counts always come back to zero, and nothing is asked from inside. */
START_TEST(random_walks)
{
    enum { N = 40 };
    struct place_call *calls[N] = { NULL };
    enum { NONE, TRYING, PARKED } states[N] = { NONE };
    static const char *const lists[][4] = {
        { "a:1", "b:1", NULL }, { "a:1", NULL }, { NULL }, { "c:1", "b:1", "a:1", NULL },
    };
    struct place_counts n;

    for (int step = 0; step < 20000; step++) {
        uint64_t x = env_random_u64(&env->env);
        int i = (int)(x % N);

        x >>= 8;
        if (x % 50 == 0) {
            publish("default", lists[x / 50 % 4]);
        } else if (x % 50 == 1) {
            struct engage_link *l = TAILQ_FIRST(&fe.links);

            if (l) {
                fake_engage_up(&fe, l->address, !l->up);
            }
        } else if (states[i] == NONE) {
            calls[i] = begin();
            states[i] = place_next(calls[i]) == PLACE_TRY ? TRYING : PARKED;
        } else if (states[i] == TRYING && x % 3 == 0) {
            end(calls[i]);
            states[i] = NONE;
        } else if (states[i] == TRYING && x % 3 == 1) {
            place_refused(calls[i], x & 8 ? FN_WHY_BUSY : FN_WHY_UNREACHABLE, FN_E_UNAVAILABLE);
            states[i] = place_next(calls[i]) == PLACE_TRY ? TRYING : PARKED;
        } else if (x % 7 == 0) {
            leave(calls[i]);
            states[i] = NONE;
        }
        if (x % 11 == 0) {
            fake_env_advance(env, (int64_t)(x % 200) * ENV_MS);
            for (int k = 0; k < N; k++) {
                if (states[k] == PARKED && !calls[k]->parked) {
                    states[k] = place_next(calls[k]) == PLACE_TRY ? TRYING : PARKED;
                    if (states[k] == PARKED && !calls[k]->parked) {
                        leave(calls[k]);
                        states[k] = NONE;
                    }
                }
            }
        }
    }
    for (int i = 0; i < N; i++) {
        if (states[i] != NONE) {
            leave(calls[i]);
        }
    }
    place_count(place, &n);
    ck_assert_uint_eq(n.waiting, 0);
    ck_assert_uint_eq(n.trying, 0);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(t.demand.mem_mb, 0);
    publish("default", lists[2]);
    ck_assert_uint_eq(fe.links_open, 0);
}
END_TEST

/* A wrapper sees the placers of its own configuration, above it in the list. */
START_TEST(stack_of_placers)
{
    const struct fn_placer_if *table = fake_plugin_table("fn.placer");
    const struct fn_placer_ops *ops = NULL;
    struct fn_error e = ERR_INIT;
    struct plugin inner, wrapper, fresh;
    void *inst = NULL;

    fake_plugin_init(&inner, "p2c", &placer_ops, &inner);
    fake_plugin_init(&wrapper, "slow", &placer_ops, &wrapper);
    fake_plugin_init(&fresh, "p2c", &placer_ops, &fresh);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), FN_E_NOT_FOUND);
    ck_assert_str_eq(e.msg,
                     "inner placer, got \"p2c\"; expected the name of a placer above it");
    place_stack_begin(place);
    ck_assert_int_eq(place_stack_add(place, &inner, &e), 0);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), 0);
    ck_assert_ptr_eq(ops, &placer_ops);
    ck_assert_ptr_eq(inst, &inner);
    ck_assert_int_eq(table->inner(&wrapper.host, "slow", &ops, &inst, &e), FN_E_NOT_FOUND);

    place_stack_begin(place);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), FN_E_NOT_FOUND);
    ck_assert_int_eq(place_stack_add(place, &fresh, &e), 0);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), 0);
    ck_assert_ptr_eq(inst, &fresh);
    for (uint32_t i = 1; i < PLACE_STACK_MAX; i++) {
        ck_assert_int_eq(place_stack_add(place, &wrapper, &e), 0);
    }
    ck_assert_int_eq(place_stack_add(place, &wrapper, &e), FN_E_RANGE);
    ck_assert_str_eq(e.msg, "placers, got 9; expected at most 8");
}
END_TEST

static uint32_t links_n(void)
{
    struct engage_link *l;
    uint32_t n = 0;

    TAILQ_FOREACH(l, &fe.links, link)
    {
        n++;
    }
    return n;
}

#define MANY 1000

/* However long a list is, the loop is never held for more than a few links. */
START_TEST(links_are_opened_in_portions)
{
    static char names[MANY][16];
    static const char *list[MANY + 1];
    uint32_t before, rounds = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "r%d:1", i);
        list[i] = names[i];
    }
    publish("default", list);
    ck_assert_uint_gt(links_n(), 0); /* the first ones at once */
    ck_assert_uint_le(links_n(), 4);
    publish("default", list);
    ck_assert_uint_le(links_n(), 4); /* also when lists follow each other */
    while (links_n() < MANY) {
        before = links_n();
        fake_env_advance(env, 2 * ENV_MS);
        ck_assert_uint_gt(links_n(), before);
        ck_assert_uint_le(links_n(), before + 4);
        rounds++;
    }
    ck_assert_uint_eq(rounds, MANY / 4 - 1);
    publish("default", list + MANY - 1);
    fake_env_advance(env, 2 * ENV_MS);
    ck_assert_uint_eq(links_n(), 1);
}
END_TEST

/* A runner that goes before its link was opened, and one that nobody has memory for. */
START_TEST(links_that_are_not_open)
{
    const char *list[] = {"r0:1", "r1:1", "r2:1", "r3:1", "r4:1", "r5:1",
                          "r6:1", "r7:1", "r8:1", "r9:1", NULL};
    struct place_call *a;

    publish("default", list);
    ck_assert_ptr_null(fake_engage_link(&fe, "r9:1"));
    a = begin();
    while (place_next(a) == PLACE_TRY) {
        place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    }
    leave(a);
    list[8] = NULL;
    publish("default", list); /* without r8 and r9 */
    fake_env_advance(env, 10 * ENV_MS);
    ck_assert_uint_eq(links_n(), 8);
    fe.no_links = true;
    PUBLISH("n1:1");
    fake_env_advance(env, 10 * ENV_MS);
    ck_assert_ptr_null(fake_engage_link(&fe, "n1:1"));
    fe.no_links = false;
    fake_env_advance(env, 10 * ENV_MS);
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "n1:1"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        tries_in_order_and_counts, down_links_are_not_tried, draining_runners_are_refused,
        snapshots_carry_links, restarted_elsewhere, failing_pool_keeps_its_list, builders_check,
        empty_group_waits_for_the_pool, a_group_that_nobody_named_before, link_that_comes_up_wakes,
        new_runners_are_timed, plugin_wakes,
        capacity_wakes_the_oldest, no_retry_storm, many_runners_refuse, waits_grow_to_a_second,
        deadline_says_why,
        bad_answers, breaker_saves_the_call, breaker_opens_for_slow_decisions_and_closes,
        breaker_ends_with_its_placer, stubborn_placer, give_up_with_a_code, groups_are_apart, demand_each_second,
        stop_gives_up_waiting_calls, many_waiting, waiting_limit, random_walks,
        stack_of_placers, links_are_opened_in_portions, links_that_are_not_open,
    };
    Suite *s = suite_create("place");
    TCase *tc = tcase_create("place");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
