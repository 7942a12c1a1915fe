/* The placer and the pool that the test scripts, and a call that is woken into a counter. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a placer and a pool of the test --------------------------------------------------------- */

struct seen t;

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
        t.labels[i] = fn_snapshot_labels(ask->snap, i);
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

const struct fn_placer_ops placer_ops = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
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

struct fake_env *env;
struct fake_engage fe;
struct plugin placer;
struct plugin pool;
struct place *place;

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

int publish(const char *group, const char *const *addresses)
{
    return fake_plugin_publish(&pool, group, addresses);
}

int woken;

void on_wake(struct place_call *pc)
{
    (void)pc;
    woken++;
}

enum place_verdict last_verdict;

void ask_again(struct place_call *pc)
{
    last_verdict = place_next(pc);
}

struct place_call *begin(void)
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

void end(struct place_call *pc)
{
    place_ended(pc, FN_DONE_OK);
    free(pc);
}

void leave(struct place_call *pc)
{
    place_leave(pc);
    free(pc);
}

TCase *world_case(const char *name, const TTest *const *tests, size_t n)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < n; i++) {
        tcase_add_test(tc, tests[i]);
    }
    return tc;
}
