/* Suite "listener": fn/listener.h. */
#include "outside.h"
#include "suites.h"

#include <stdio.h>
#include <string.h>

/* Views that are gone after the call of a method. */
static struct fn_call *call_new(uint32_t i, uint32_t growth)
{
    struct fn_call *c =
        fence_alloc(sizeof(*c) + growth + 32, 8, "a call", "the listener had heard of it");
    char *id = (char *)(c + 1) + growth;

    memset(c, 0xa5, sizeof(*c) + growth + 32);
    snprintf(id, 32, "01CALL%020u", i);
    *c = (struct fn_call){.hdr = {(uint32_t)sizeof(*c) + growth, FN_MAGIC_CALL},
                          .id = id,
                          .fn_id = id,
                          .app_id = "01APP",
                          .lb_group = "default",
                          .mem_mb = 128,
                          .deadline_ns = INT64_MAX,
                          .kind = i % 5 ? FN_CALL_SYNC : FN_CALL_DETACHED};
    fence_read_only(c);
    return c;
}

static int before(struct instance *in, uint32_t i, uint32_t growth, bool with_reterr)
{
    const struct fn_listener_ops *ops = instance_ops(in);
    struct fn_error e = ERR_INIT;
    struct fn_call *c = call_new(i, growth);
    int r = 0;

    if (ops->before) {
        enter(in, LOOP, "before");
        r = ops->before(in->inst, c, with_reterr ? &e : NULL);
        leave();
        must_be_result("before", r, with_reterr ? &e : NULL);
    }
    fence_free(c);
    trace_u64((uint64_t)(int64_t)r);
    return r;
}

static void after(struct instance *in, uint32_t i, uint32_t growth)
{
    static const char *const outcomes[] = {"ok", "failed", "not-executed", "unknown", "aborted"};
    const struct fn_listener_ops *ops = instance_ops(in);
    struct fn_call *c = call_new(i, growth);
    struct fn_call_end *end =
        fence_alloc(sizeof(*end) + growth, 8, "the end of a call", "after() had returned");

    memset(end, 0xa5, sizeof(*end) + growth);
    *end = (struct fn_call_end){.size = (uint32_t)sizeof(*end) + growth,
                                .code = i % 5 ? -(int32_t)(i % 17) : 0,
                                .http_status = i % 5 ? 500 : 200,
                                .blame = i % 3,
                                .started_ns = clock_now() - ENV_MS,
                                .ended_ns = clock_now(),
                                .outcome = outcomes[i % 5]};
    fence_read_only(end);
    if (ops->after) {
        enter(in, LOOP, "after");
        ops->after(in->inst, c, end);
        leave();
    }
    fence_free(end);
    fence_free(c);
}

static void run_calls(struct instance *in, uint32_t n, uint32_t growth)
{
    enum { OPEN = 50 };
    bool open[OPEN] = {false};
    uint32_t i;

    for (i = 0; i < n; i++) {
        uint32_t k = (uint32_t)(chance() % OPEN);

        if (open[k]) {
            after(in, k, growth);
        }
        open[k] = !open[k] && before(in, k, growth, i % 4) == 0;
        clock_advance(ENV_MS);
    }
    for (i = 0; i < OPEN; i++) {
        if (open[i]) {
            after(in, i, growth);
        }
    }
}

void listener_exercise(struct instance *in, bool tolerant)
{
    (void)tolerant;
    run_calls(in, 200, 0);
}

static void test_calls(void)
{
    struct instance *in = instance_new();

    step("5 000 calls, up to 50 at the same time");
    run_calls(in, 5000, 0);
    instance_destroy(in);
}

static void test_forgets(void)
{
    struct instance *in = instance_new();
    int64_t blocks;

    run_calls(in, 2000, 0);
    blocks = memory_live_blocks();
    run_calls(in, 2000, 0);
    must(memory_live_blocks() - blocks < 20,
         "%lld blocks more after 2 000 calls that all ended; expected none",
         (long long)(memory_live_blocks() - blocks));
    instance_destroy(in);
}

static void test_growth(void)
{
    struct instance *in = instance_new();

    step("views of a later host, 24 bytes larger each");
    run_calls(in, 500, 24);
    instance_destroy(in);
}

static void test_odd_ends(void)
{
    struct instance *in = instance_new();
    uint32_t i;

    for (i = 0; i < 100; i++) {
        step("a call ends as number %u of all ways, without a kind of its own", i);
        before(in, i, 0, true);
        clock_jump(i % 7 ? 0 : 86400 * ENV_S);
        after(in, i, 0);
    }
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "listener", "calls", "before() and after() of many calls, views gone after each", test_calls,
      ALSO_REAL },
    { "listener", "forgets", "ended calls leave no memory behind", test_forgets, 0 },
    { "listener", "growth", "views of a later host are larger", test_growth, 0 },
    { "listener", "odd-ends", "calls end in every way, at any time", test_odd_ends, 0 },
};

struct contract_list listener_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
