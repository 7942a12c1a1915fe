/* Replacing the pool and the placer while calls are placed; with scripted plugins in virtual
 * time. */
#include "../lib/fake_engage.h"
#include "../lib/fake_env.h"
#include "../lib/fake_plugin.h"

#include <place/place_int.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- plugins of the test: placers and pools that know whether they may be called ------------- */

struct instance {
    struct plugin plugin;
    bool alive;
    uint32_t calls;               /* decide(), of placers */
    int start_result;             /* of pools */
    const char *const *addresses; /* published by start(); NULL = nothing */
    int early_result;
    bool fails_in_start; /* then it tells that it has no list */
    bool stops_later;
    void (*done)(void *ud);
    void *done_ud;
    int stops, goings;
};

static struct fake_env *env;
static struct fake_engage fe;
static struct place *place;

/* The session names its placer, so that a session of another one shows. */
struct session {
    struct instance *of;
    uint32_t next;
};

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct instance *me = inst;
    struct session *s = ask->session;

    ck_assert(me->alive);
    me->calls++;
    if (ask->why == FN_WHY_START) {
        ck_assert_ptr_null(s->of);
        s->of = me;
    }
    ck_assert_ptr_eq(s->of, me);
    ck_assert_ptr_eq(ask->snap->index, me);
    if (ask->why == FN_WHY_TIMER || ask->why == FN_WHY_WAKE) {
        s->next = 0;
    }
    ret->verdict = s->next < ask->snap->n ? FN_TRY : FN_WAIT;
    ret->index = s->next++;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    (void)what;
    ck_assert(((struct instance *)inst)->alive);
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    (void)snap;
    ck_assert(((struct instance *)inst)->alive);
    *ret_index = inst;
    return 0;
}

static void index_free(void *inst, void *index)
{
    ck_assert(((struct instance *)inst)->alive);
    ck_assert_ptr_eq(index, inst);
}

static const struct fn_placer_ops placer_ops = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
                                                 sizeof(struct session),
                                                 0,
                                                 decide,
                                                 observe,
                                                 index_build,
                                                 index_free };

static int publish(struct instance *pool, const char *group, const char *const *addresses)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_snap_builder *b;

    ck_assert_int_eq(snap->begin(&pool->plugin.host, group, &b), 0);
    for (; *addresses; addresses++) {
        struct fn_runner r = { .id = (uint64_t)(*addresses)[1], .address = *addresses,
                               .weight = 1 };

        ck_assert_int_eq(snap->add(b, &r, sizeof(r)), 0);
    }
    return snap->publish(b);
}

static int pool_start(void *inst, struct fn_error *reterr)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_error why = ERR_INIT;
    struct instance *me = inst;

    if (me->addresses) {
        me->early_result = publish(me, "default", me->addresses);
    }
    if (me->fails_in_start) {
        err_set(&why, FN_E_UNAVAILABLE, "no list today");
        ck_assert_int_eq((snap->fail)(&me->plugin.host, "default", &why), 0);
    }
    return me->start_result < 0 ? err_set(reterr, me->start_result, "no pool today") : 0;
}

static void pool_stop(void *inst, void (*done)(void *ud), void *ud)
{
    struct instance *me = inst;

    me->stops++;
    me->done = done;
    me->done_ud = ud;
    if (!me->stops_later) {
        done(ud);
    }
}

static int pool_want(void *inst, const char *group, const struct fn_demand *demand)
{
    (void)group;
    (void)demand;
    ck_assert(((struct instance *)inst)->alive);
    ((struct instance *)inst)->calls++;
    return 0;
}

static const struct fn_pool_ops pool_ops = { FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL), pool_start,
                                             NULL, pool_want, pool_stop };

static void init(struct instance *i, const void *ops)
{
    memset(i, 0, sizeof(*i));
    fake_plugin_init(&i->plugin, ops == &pool_ops ? "pool" : "placer", ops, i);
    i->alive = true;
}

static void gone(void *ud)
{
    struct instance *i = ud;

    ck_assert(i->alive);
    i->alive = false;
    i->goings++;
}

/* ---- fixture --------------------------------------------------------------------------------- */

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define GRACE_NS (10 * ENV_S)

static struct instance first_placer, first_pool;

static void setup(void)
{
    struct place_deps deps = { .client = &fe.client,
                               .options = { 10 * ENV_MS, ENV_S, 20000, GRACE_NS } };
    struct fn_error e = ERR_INIT;

    env = fake_env_create();
    fake_engage_init(&fe);
    fake_plugin_reset();
    init(&first_placer, &placer_ops);
    init(&first_pool, &pool_ops);
    first_pool.addresses = LIST("r1:1", "r2:1");
    deps.env = &env->env;
    ck_assert_int_eq(place_create(&deps, &place, &e), 0);
    ck_assert_int_eq(place_set_placer(place, &first_placer.plugin, gone, &first_placer), 0);
    ck_assert_int_eq(place_start(place, &first_pool.plugin, &e), 0);
    fake_env_settle(env);
}

static void teardown(void)
{
    place_destroy(place);
    fake_engage_finish(&fe);
    fake_env_destroy(env);
}

static uint32_t runners(void)
{
    struct place_counts n;

    place_count(place, &n);
    return n.runners;
}

static uint32_t groups_stale(void)
{
    struct place_counts n;

    place_count(place, &n);
    return n.groups_stale;
}

static void on_wake(struct place_call *pc)
{
    (void)pc;
}

static void begin(struct place_call *pc)
{
    memset(pc, 0, sizeof(*pc));
    pc->view = (struct fn_call){ .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL),
                                 .id = "c",
                                 .fn_id = "f",
                                 .app_id = "a",
                                 .lb_group = "default",
                                 .mem_mb = 128 };
    pc->deadline_ns = env->now + 3600 * ENV_S;
    pc->on_wake = on_wake;
    place_begin(place, pc);
}

/* ---- pools ----------------------------------------------------------------------------------- */

START_TEST(links_of_runners_that_stay_are_kept)
{
    struct engage_link *kept = fake_engage_link(&fe, "r2:1");
    struct instance next;
    struct place_call pc;
    struct fn_error e = ERR_INIT;

    begin(&pc);
    ck_assert_int_eq(place_next(&pc), PLACE_TRY);
    ck_assert_str_eq(pc.address, "r1:1");
    init(&next, &pool_ops);
    next.addresses = LIST("r2:1", "r3:1");
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, &first_pool, &e), 0);
    ck_assert_int_eq(first_pool.stops, 1);
    ck_assert_ptr_eq(fake_engage_link(&fe, "r2:1"), kept);
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r3:1"));
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r1:1")); /* the attempt holds it */
    ck_assert(first_pool.alive);
    fake_env_settle(env);
    ck_assert(!first_pool.alive);
    ck_assert_int_eq(first_pool.goings, 1);
    place_ended(&pc, FN_DONE_OK);
    ck_assert_ptr_null(fake_engage_link(&fe, "r1:1"));
    ck_assert_uint_eq(runners(), 2);
}
END_TEST

START_TEST(a_pool_that_does_not_start_changes_nothing)
{
    struct engage_link *kept = fake_engage_link(&fe, "r1:1");
    struct instance next;
    struct fn_error e = ERR_INIT;

    init(&next, &pool_ops);
    next.addresses = LIST("r9:1");
    next.start_result = FN_E_UNAVAILABLE;
    next.fails_in_start = true;
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, &first_pool, &e),
                     FN_E_UNAVAILABLE);
    ck_assert_uint_eq(groups_stale(), 0);
    ck_assert_str_eq(e.msg, "no pool today");
    ck_assert_int_eq(next.early_result, 0); /* it was held back */
    fake_env_settle(env);
    ck_assert(first_pool.alive);
    ck_assert_int_eq(first_pool.stops, 0);
    ck_assert_uint_eq(runners(), 2);
    ck_assert_ptr_eq(fake_engage_link(&fe, "r1:1"), kept);
    ck_assert_ptr_null(fake_engage_link(&fe, "r9:1"));
    ck_assert_int_eq(publish(&first_pool, "default", LIST("r5:1")), 0);
    ck_assert_uint_eq(runners(), 1);
}
END_TEST

/* What it told in start() counts as soon as it is the one in use, in that order. */
START_TEST(a_pool_that_starts_without_a_list)
{
    struct instance next;
    struct fn_error e = ERR_INIT;

    init(&next, &pool_ops);
    next.addresses = LIST("r9:1");
    next.fails_in_start = true;
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, &first_pool, &e), 0);
    ck_assert_uint_eq(runners(), 1);
    ck_assert_uint_eq(groups_stale(), 1);
    ck_assert_int_eq(publish(&next, "default", LIST("r9:1")), 0);
    ck_assert_uint_eq(groups_stale(), 0);
}
END_TEST

START_TEST(what_the_old_pool_publishes_is_refused)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct instance next;
    struct fn_error e = ERR_INIT;

    first_pool.stops_later = true;
    init(&next, &pool_ops);
    next.addresses = LIST("r3:1");
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, &first_pool, &e), 0);
    ck_assert_int_eq(publish(&first_pool, "default", LIST("r1:1", "r2:1")), FN_E_PRECONDITION);
    ck_assert_int_eq((snap->fail)(&first_pool.plugin.host, "default", NULL), FN_E_PRECONDITION);
    ck_assert_uint_eq(runners(), 1);
    fake_env_advance(env, 4 * ENV_S);
    ck_assert_uint_eq(first_pool.plugin.bad_answers, 0);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(first_pool.plugin.bad_answers, 1); /* it should be done */
    ck_assert(first_pool.alive);
    first_pool.done(first_pool.done_ud);
    first_pool.done(first_pool.done_ud); /* one time too often */
    ck_assert_uint_eq(first_pool.plugin.bad_answers, 2);
    fake_env_settle(env);
    ck_assert_int_eq(first_pool.goings, 1);
    first_pool.done(first_pool.done_ud); /* a call may still hold its instance */
    fake_env_settle(env);
    ck_assert_uint_eq(first_pool.plugin.bad_answers, 3);
    ck_assert_int_eq(first_pool.goings, 1);
    ck_assert_int_eq(publish(&first_pool, "default", LIST("r1:1")), FN_E_PRECONDITION);
    place_forget_pool(place, &first_pool.plugin);
}
END_TEST

/* The old list serves until the new pool has one, and no longer than the grace time. */
START_TEST(lists_stay_for_the_grace_time)
{
    struct instance next;
    struct place_call pc;
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(publish(&first_pool, "other", LIST("r7:1")), 0);
    init(&next, &pool_ops);
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, &first_pool, &e), 0);
    ck_assert_uint_eq(runners(), 3);
    fake_env_advance(env, GRACE_NS - ENV_S);
    begin(&pc);
    ck_assert_int_eq(place_next(&pc), PLACE_TRY);
    place_ended(&pc, FN_DONE_OK);
    ck_assert_int_eq(publish(&next, "default", LIST("r1:1")), 0);
    ck_assert_uint_eq(runners(), 2);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(runners(), 1);
    ck_assert_ptr_null(fake_engage_link(&fe, "r7:1"));
    ck_assert_uint_gt(next.calls, 5); /* want() each second */
}
END_TEST

/* What a pool publishes in create() counts when it is the current one, and never if it is not. */
START_TEST(published_before_the_start)
{
    struct instance never, next;
    struct fn_error e = ERR_INIT;

    init(&never, &pool_ops);
    init(&next, &pool_ops);
    ck_assert_int_eq(publish(&never, "default", LIST("r8:1")), 0);
    ck_assert_int_eq(publish(&next, "default", LIST("r4:1")), 0);
    ck_assert_uint_eq(runners(), 2);
    place_forget_pool(place, &never.plugin);
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, &first_pool, &e), 0);
    ck_assert_uint_eq(runners(), 1);
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r4:1"));
    fake_env_settle(env);
}
END_TEST

/* A callback of the old pool began a list before the pool was let go of; its instance is freed when
 * that callback has returned. */
START_TEST(what_a_retired_pool_publishes_is_refused)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct instance *old = calloc(1, sizeof(*old));
    struct instance next;
    struct fn_snap_builder *b;
    struct fn_error e = ERR_INIT;

    init(old, &pool_ops);
    init(&next, &pool_ops);
    ck_assert_int_eq(place_switch_pool(place, &old->plugin, gone, &first_pool, &e), 0);
    ck_assert_int_eq(snap->begin(&old->plugin.host, "default", &b), 0);
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, old, &e), 0);
    fake_env_settle(env);
    ck_assert(!old->alive);
    place_forget_pool(place, &old->plugin);
    plugin_retire(&old->plugin);
    ck_assert_int_eq(snap->publish(b), FN_E_PRECONDITION);
    ck_assert_int_eq((snap->fail)(&old->plugin.host, "default", &e), FN_E_PRECONDITION);
    ck_assert_uint_eq(place->held_n, 0);
    fake_plugin_release(&old->plugin);
    free(old);
    place_forget_pool(place, &next.plugin); /* asks whose each list is that is held */
}
END_TEST

/* Its create() published and failed: nobody told the place of it. */
START_TEST(what_is_held_goes_with_its_instance)
{
    struct instance *failed = calloc(1, sizeof(*failed));

    init(failed, &pool_ops);
    ck_assert_int_eq(publish(failed, "default", LIST("r8:1")), 0);
    ck_assert_uint_eq(place->held_n, 1);
    fake_plugin_release(&failed->plugin);
    free(failed);
    ck_assert_uint_eq(place->held_n, 0);
}
END_TEST

static void on_stopped(void *ud)
{
    ++*(int *)ud;
}

START_TEST(the_end_waits_for_every_pool)
{
    struct instance next, third;
    struct fn_error e = ERR_INIT;
    int stopped = 0;

    first_pool.stops_later = true;
    init(&next, &pool_ops);
    init(&third, &pool_ops);
    ck_assert_int_eq(place_switch_pool(place, &next.plugin, gone, &first_pool, &e), 0);
    place_stop(place, on_stopped, &stopped);
    ck_assert_int_lt(place_switch_pool(place, &third.plugin, gone, &next, &e), 0);
    fake_env_settle(env);
    ck_assert_int_eq(next.stops, 1);
    ck_assert_int_eq(stopped, 0);
    first_pool.done(first_pool.done_ud);
    ck_assert_int_eq(stopped, 0); /* not from inside */
    fake_env_settle(env);
    ck_assert_int_eq(stopped, 1);
    ck_assert(!first_pool.alive);
}
END_TEST

/* ---- placers --------------------------------------------------------------------------------- */

/* A hundred thousand changes of the placer with calls in every state: nobody meets a placer that is
 * gone or the session of another one, and each is gone when its last call is. */
START_TEST(many_changes_of_the_placer)
{
    enum { CHANGES = 100000, CALLS = 16, PLACERS = 64 };
    static struct instance placers[PLACERS];
    static struct place_call calls[CALLS];
    enum { NONE, TRYING, PARKED } states[CALLS] = { NONE };
    uint32_t alive;
    int used = 0;

    for (int i = 0; i < PLACERS; i++) {
        init(&placers[i], &placer_ops);
        placers[i].alive = false;
    }
    for (int change = 0; change < CHANGES; change++) {
        struct instance *next = &placers[used];
        uint64_t x = env_random_u64(&env->env);
        int i = (int)(x % CALLS);

        used = (used + 1) % PLACERS;
        if (!next->alive) {
            next->alive = true;
            ck_assert_int_eq(place_set_placer(place, &next->plugin, gone, next), 0);
        }
        x >>= 8;
        if (states[i] == NONE) {
            begin(&calls[i]);
            states[i] = place_next(&calls[i]) == PLACE_TRY ? TRYING : PARKED;
        } else if (states[i] == TRYING && x % 2) {
            place_ended(&calls[i], FN_DONE_OK);
            states[i] = NONE;
        } else if (states[i] == TRYING) {
            place_refused(&calls[i], FN_WHY_BUSY, FN_E_UNAVAILABLE);
            states[i] = place_next(&calls[i]) == PLACE_TRY ? TRYING : PARKED;
        } else if (x % 2) {
            place_leave(&calls[i]);
            states[i] = NONE;
        }
        if (x % 32 == 0) {
            fake_env_advance(env, 100 * ENV_MS);
        }
        fake_env_settle(env);
        for (int k = 0; k < CALLS; k++) {
            if (states[k] == PARKED && !calls[k].parked) {
                states[k] = place_next(&calls[k]) == PLACE_TRY ? TRYING : PARKED;
            }
        }
    }
    for (int i = 0; i < CALLS; i++) {
        if (states[i] != NONE) {
            place_leave(&calls[i]);
        }
    }
    fake_env_settle(env);
    alive = first_placer.alive;
    for (int i = 0; i < PLACERS; i++) {
        alive += placers[i].alive;
        ck_assert_int_gt(placers[i].goings + placers[i].alive, 0);
    }
    ck_assert_uint_eq(alive, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("switch");
    TCase *t = tcase_create("switch");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, links_of_runners_that_stay_are_kept);
    tcase_add_test(t, a_pool_that_does_not_start_changes_nothing);
    tcase_add_test(t, a_pool_that_starts_without_a_list);
    tcase_add_test(t, what_the_old_pool_publishes_is_refused);
    tcase_add_test(t, lists_stay_for_the_grace_time);
    tcase_add_test(t, published_before_the_start);
    tcase_add_test(t, what_a_retired_pool_publishes_is_refused);
    tcase_add_test(t, what_is_held_goes_with_its_instance);
    tcase_add_test(t, the_end_waits_for_every_pool);
    tcase_add_test(t, many_changes_of_the_placer);
    suite_add_tcase(s, t);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
