/* Suite "predictor": fn/predictor.h. */
#include "outside.h"
#include "suites.h"

#include <string.h>

#define GUARD 64u
#define GUARD_BYTE 0xe7

struct group {
    unsigned char *memory;
    uint32_t size;
};

static void group_start(struct instance *in, struct group *g)
{
    const struct fn_predictor_ops *ops = instance_ops(in);

    g->size = ops->state_size;
    g->memory = fence_alloc(GUARD + ((g->size + 15u) & ~15u) + GUARD, 16, "the state of a group",
                            "the group was gone");
    memset(g->memory, GUARD_BYTE, GUARD + ((g->size + 15u) & ~15u) + GUARD);
    memset(g->memory + GUARD, 0, g->size);
}

static bool whole(const unsigned char *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (at[i] != GUARD_BYTE) {
            return false;
        }
    }
    return true;
}

static uint64_t predict(struct instance *in, struct group *g, const struct fn_load *load,
                        uint32_t growth, bool tolerant)
{
    const struct fn_predictor_ops *ops = instance_ops(in);
    struct fn_load *view =
        fence_alloc(sizeof(*view) + growth, 8, "a load", "predict() had returned");
    uint64_t desired = 0xdeadbeefdeadbeefu;
    int r;

    memset(view, 0xa5, sizeof(*view) + growth);
    *view = *load;
    view->size = (uint32_t)sizeof(*view) + growth;
    fence_read_only(view);
    enter(in, LOOP, "predict");
    r = ops->predict(in->inst, g->memory + GUARD, view, &desired);
    leave();
    fence_free(view);
    must_be_result("predict", r, NULL);
    must(whole(g->memory, GUARD) &&
             whole(g->memory + GUARD + g->size, ((g->size + 15u) & ~15u) - g->size + GUARD),
         "predict() wrote outside of its state; expected writes to its %u bytes only", g->size);
    must(r == 0 || desired == 0xdeadbeefdeadbeefu,
         "predict() failed and wrote ret_desired_mb; ret_* parameters are written only on success");
    must(r == 0 || tolerant, "predict() failed: %s; expected a number", err_name(r));
    must(r != 0 || desired != 0xdeadbeefdeadbeefu,
         "predict() returned 0 without a number in ret_desired_mb");
    trace_u64((uint64_t)(int64_t)r);
    trace_u64(desired);
    return r == 0 ? desired : 0;
}

static struct fn_load any_load(void)
{
    uint64_t wanted = chance() % 100000;

    return (struct fn_load){.size = sizeof(struct fn_load),
                            .runners_ready = (uint32_t)(chance() % 50),
                            .now_ns = clock_now(),
                            .wanted_mb = wanted,
                            .waiting = chance() % 100,
                            .capacity_mb = chance() % 200000};
}

static void run(struct instance *in, struct group *g, uint32_t n, uint32_t growth, bool tolerant)
{
    while (n-- > 0) {
        struct fn_load load = any_load();

        predict(in, g, &load, growth, tolerant);
        clock_jump((int64_t)(chance() % 5000) * ENV_MS);
    }
}

void predictor_exercise(struct instance *in, bool tolerant)
{
    struct group g;

    group_start(in, &g);
    run(in, &g, 100, 0, tolerant);
    fence_free(g.memory);
}

static void test_bounds(void)
{
    static const uint64_t odd[] = {0, 1, 1000, UINT64_MAX / 2, UINT64_MAX};
    struct instance *in = instance_new();
    struct group g;
    uint32_t i;

    group_start(in, &g);
    for (i = 0; i < 625; i++) {
        struct fn_load load = {.runners_ready = i % 5 ? (uint32_t)odd[i % 5] : 0,
                               .now_ns = clock_now(),
                               .wanted_mb = odd[i % 5],
                               .waiting = odd[i / 5 % 5],
                               .capacity_mb = odd[i / 25 % 5]};

        step("wanted %llu MB, waiting %llu, capacity %llu MB", (unsigned long long)load.wanted_mb,
             (unsigned long long)load.waiting, (unsigned long long)load.capacity_mb);
        predict(in, &g, &load, 0, false);
        clock_jump(i % 9 ? ENV_S : 3600 * ENV_S);
    }
    fence_free(g.memory);
    instance_destroy(in);
}

/* Pure but for *state: two groups do not see each other. */
static void test_groups_apart(void)
{
    struct instance *in = instance_new();
    struct group a;
    struct group b;
    uint64_t alone[64];
    uint32_t i;

    group_start(in, &a);
    for (i = 0; i < 64; i++) {
        struct fn_load load = {.runners_ready = i % 4,
                               .now_ns = 1000 * ENV_S + i * ENV_S,
                               .wanted_mb = i * 100,
                               .waiting = i % 3,
                               .capacity_mb = 4096};

        alone[i] = predict(in, &a, &load, 0, false);
    }
    fence_free(a.memory);
    group_start(in, &a);
    group_start(in, &b);
    for (i = 0; i < 64; i++) {
        struct fn_load load = {.runners_ready = i % 4,
                               .now_ns = 1000 * ENV_S + i * ENV_S,
                               .wanted_mb = i * 100,
                               .waiting = i % 3,
                               .capacity_mb = 4096};
        struct fn_load other = any_load();

        predict(in, &b, &other, 0, false);
        must(
            predict(in, &a, &load, 0, false) == alone[i],
            "predict() gives another number when another group is asked in between; expected it to "
            "be pure but for its state");
    }
    fence_free(a.memory);
    fence_free(b.memory);
    instance_destroy(in);
}

static void test_growth(void)
{
    struct instance *in = instance_new();
    struct group g;

    step("views of a later host, 24 bytes larger each");
    group_start(in, &g);
    run(in, &g, 50, 24, false);
    fence_free(g.memory);
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "predictor", "bounds", "the load may be anything from 0 to 2^64", test_bounds, ALSO_REAL },
    { "predictor", "groups-apart", "predict() is pure but for its state", test_groups_apart, 0 },
    { "predictor", "growth", "views of a later host are larger", test_growth, 0 },
};

struct contract_list predictor_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
