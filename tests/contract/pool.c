/* Suite "pool": fn/pool.h. */
#include "outside.h"
#include "suites.h"

#include <stdio.h>
#include <string.h>

#define SOON_NS (60 * ENV_S) /* virtual time in which a pool has something to say */

struct ending {
    uint32_t done;
    bool stopping;
};

static void on_done(void *ud)
{
    struct ending *e = ud;

    HOST_CALL();
    must_be_in(IN_LOOP, "done");
    if (!e->stopping) {
        violation("done() was called before stop()");
    }
    if (e->done++ > 0) {
        violation("done() was called %u times; expected exactly once", e->done);
    }
    published.after_done = true;
}

static void pass(int64_t ns)
{
    for (; ns > 0; ns -= ENV_S) {
        outside_pump();
        clock_advance(ENV_S);
    }
}

static int start(struct instance *in, bool tolerant)
{
    const struct fn_pool_ops *ops = instance_ops(in);
    struct fn_error e = ERR_INIT;
    int r;

    enter(in, LOOP, "start");
    r = ops->start(in->inst, reterr_of(&e));
    leave();
    must_be_result("start", r, &e);
    must(r == 0 || tolerant, "start() failed: %s %.200s; expected 0", err_name(r), e.msg);
    trace_u64((uint64_t)(int64_t)r);
    return r;
}

static void want(struct instance *in, const char *group, uint64_t waiting)
{
    const struct fn_pool_ops *ops = instance_ops(in);
    const struct fn_demand d = {
        .size = sizeof(d), .mem_mb = waiting * 128, .waiting = waiting, .running = waiting / 2};
    int r;

    if (!ops->want) {
        return;
    }
    enter(in, LOOP, "want");
    r = ops->want(in->inst, group, &d);
    leave();
    must_be_result("want", r, NULL);
    trace_u64((uint64_t)(int64_t)r);
}

static void stop(struct instance *in, struct ending *e)
{
    const struct fn_pool_ops *ops = instance_ops(in);

    e->stopping = true;
    enter(in, LOOP, "stop");
    ops->stop(in->inst, on_done, e);
    leave();
    for (int i = 0; i < 120 && e->done == 0; i++) {
        pass(ENV_S);
    }
    must(e->done == 1, "stop() did not lead to done() within 120 s of virtual time; expected it "
                       "exactly once");
    pass(10 * ENV_S);
    must(published.builders == 0, "%u list builders were neither published nor discarded",
         published.builders);
    published.after_done = false;
}

static void route(struct instance *in, bool tolerant)
{
    const struct fn_pool_ops *ops = instance_ops(in);
    struct fn_call *call = call_make(4, 0);
    size_t caps[] = {FN_GROUP_NAME_MAX + 1, 3, 1};
    char twice[FN_GROUP_NAME_MAX + 1];
    size_t i;

    for (i = 0; ops->route && i < 3; i++) {
        char *name = fence_alloc(caps[i], 1, "the group's text", "route() had returned");
        int r;

        memset(name, 'z', caps[i]);
        enter(in, LOOP, "route");
        r = ops->route(in->inst, call, name, caps[i]);
        leave();
        must_be_result("route", r, NULL);
        must(r < 0 || memchr(name, '\0', caps[i]),
             "route() left a group that does not end within %zu bytes", caps[i]);
        must(i > 0 || tolerant || (r == 0 && name[0]), "route() named no group (%s); expected one",
             err_name(r));
        if (i == 0 && r == 0) {
            trace_text(name);
            enter(in, LOOP, "route");
            ops->route(in->inst, call, twice, sizeof(twice));
            leave();
            must(strcmp(name, twice) == 0,
                 "route() named \"%.40s\" and then \"%.40s\" for the same call; expected it to be "
                 "pure",
                 name, twice);
        }
        fence_free(name);
    }
    call_end(call);
}

void pool_exercise(struct instance *in, bool tolerant)
{
    struct ending e = {0};

    if (start(in, tolerant) < 0) {
        return;
    }
    route(in, tolerant);
    for (int i = 0; i < 5; i++) {
        want(in, i % 2 ? "default" : "blue", (uint64_t)i * 3);
        pass(2 * ENV_S);
    }
    stop(in, &e);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void test_publishes(void)
{
    struct instance *in = instance_new();
    struct ending e = {0};

    start(in, false);
    want(in, "default", 1);
    pass(SOON_NS);
    must(published.publishes + published.fails > 0,
         "nothing was published and nothing failed within 60 s of virtual time after start(); "
         "expected a list or fail()");
    stop(in, &e);
    instance_destroy(in);
}

static void test_order(void)
{
    uint64_t first;
    uint32_t n;
    struct ending e = {0};
    struct instance *in = instance_new();

    start(in, false);
    pass(5 * ENV_S);
    first = published.list_hash;
    n = published.n;
    stop(in, &e);
    instance_destroy(in);
    published_reset();
    contract_dirty(0x77);
    in = instance_new();
    start(in, false);
    pass(5 * ENV_S);
    contract_dirty(0);
    must(published.n == n && published.list_hash == first,
         "two instances with the same options published %u and %u runners in different order or "
         "with "
         "different ids; expected the same: load balancers share the order",
         n, published.n);
    e = (struct ending){0};
    stop(in, &e);
    instance_destroy(in);
}

static void test_stop_once(void)
{
    struct instance *in = instance_new();
    struct ending e = {0};

    step("stop() right after start()");
    start(in, false);
    stop(in, &e);
    pass(30 * ENV_S);
    must(e.done == 1, "done() was called %u times; expected exactly once", e.done);
    instance_destroy(in);
}

static void test_silence(void)
{
    struct instance *in = instance_new();
    struct ending e = {0};
    uint32_t publishes;

    start(in, false);
    want(in, "default", 3);
    pass(3 * ENV_S);
    stop(in, &e);
    publishes = published.publishes;
    published.after_done = true;
    clock_late(true);
    pass(SOON_NS);
    must(published.publishes == publishes, "%u lists were published after stop() had reported done",
         published.publishes - publishes);
    published.after_done = false;
    instance_destroy(in);
}

static void test_refused(void)
{
    uint64_t n;
    bool hit = true;

    for (n = 1; hit && n < 60; n++) {
        struct instance *in = instance_new();
        struct ending e = {0};

        step("begin(), add() or publish() fails, number %llu", (unsigned long long)n);
        outside_refuse_at(n);
        if (start(in, true) == 0) {
            pass(5 * ENV_S);
            hit = outside_refused();
            outside_refuse_at(0);
            stop(in, &e);
        } else {
            hit = outside_refused();
            outside_refuse_at(0);
            must(published.builders == 0,
                 "%u list builders were neither published nor discarded "
                 "after a failed start()",
                 published.builders);
        }
        instance_destroy(in);
        published_reset();
    }
}

static void test_wants(void)
{
    static const char *const groups[] = {
        "default",
        "a",
        "blue",
        "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg",
    };
    struct instance *in = instance_new();
    struct ending e = {0};
    int i;

    if (!((const struct fn_pool_ops *)instance_ops(in))->want) {
        skip("has no want()");
    }
    start(in, false);
    for (i = 0; i < 100; i++) {
        step("want() of group %.20s", groups[i % 4]);
        want(in, groups[i % 4], chance() % 10000);
        pass(ENV_S);
    }
    stop(in, &e);
    instance_destroy(in);
}

static void test_outside(void)
{
    for (int mode = 0; mode < OUTSIDE_MODES_N; mode++) {
        struct instance *in = instance_new();
        struct ending e = {0};

        step("what it talks to %s", outside_mode_names[mode]);
        outside_mode((enum outside_mode)mode);
        clock_late(mode % 2);
        if (start(in, true) == 0) {
            want(in, "default", 5);
            pass(SOON_NS);
            stop(in, &e);
        }
        instance_destroy(in);
        published_reset();
    }
}

static void test_route(void)
{
    struct instance *in = instance_new();
    struct ending e = {0};

    if (!((const struct fn_pool_ops *)instance_ops(in))->route) {
        skip("has no route()");
    }
    start(in, false);
    for (int i = 0; i < 20; i++) {
        route(in, false);
    }
    stop(in, &e);
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "pool", "publishes", "start() leads to a list or to fail()", test_publishes, ALSO_REAL },
    { "pool", "order", "the same options give the same order and ids", test_order, 0 },
    { "pool", "stop-once", "stop() leads to done() exactly once", test_stop_once, 0 },
    { "pool", "silence", "nothing is published after done()", test_silence, 0 },
    { "pool", "refused", "begin(), add() and publish() may fail; the plugin gives its builders back",
      test_refused, 0 },
    { "pool", "want", "want() takes any group and demand", test_wants, 0 },
    { "pool", "outside", "its service may be down, slow, silent or answer garbage", test_outside, 0 },
    { "pool", "route", "route() is pure, ends its text within cap", test_route, 0 },
};

struct contract_list pool_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
