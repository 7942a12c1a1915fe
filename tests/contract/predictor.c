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

/* What both methods are asked with ends where the view says, and is read only. */
static void *view_start(const void *is, uint32_t size, uint32_t growth, const char *what)
{
    uint32_t *view = fence_alloc(size + growth, 8, what, "the method had returned");

    memset(view, 0xa5, size + growth);
    memcpy(view, is, size);
    *view = size + growth; /* the first member of every view */
    fence_read_only(view);
    return view;
}

static void must_keep_to_state(const struct group *g, const char *method)
{
    must(whole(g->memory, GUARD) &&
             whole(g->memory + GUARD + g->size, ((g->size + 15u) & ~15u) - g->size + GUARD),
         "%s() wrote outside of its state; expected writes to its %u bytes only", method, g->size);
}

static void must_answer(const char *method, const char *ret, int r, bool wrote, bool tolerant)
{
    must_be_result(method, r, NULL);
    must(r == 0 || !wrote,
         "%s() failed and wrote %s; ret_* parameters are written only on success", method, ret);
    must(r == 0 || tolerant, "%s() failed: %s; expected a number", method, err_name(r));
    must(r != 0 || wrote, "%s() returned 0 without a number in %s", method, ret);
}

static uint64_t predict(struct instance *in, struct group *g, const struct fn_load *load,
                        uint32_t growth, bool tolerant)
{
    const struct fn_predictor_ops *ops = instance_ops(in);
    struct fn_load *view = view_start(load, sizeof(*load), growth, "a load");
    uint64_t desired = 0xdeadbeefdeadbeefu;
    int r;

    enter(in, LOOP, "predict");
    r = ops->predict(in->inst, g->memory + GUARD, view, &desired);
    leave();
    fence_free(view);
    must_keep_to_state(g, "predict");
    must_answer("predict", "ret_desired_mb", r, desired != 0xdeadbeefdeadbeefu, tolerant);
    trace_u64((uint64_t)(int64_t)r);
    trace_u64(desired);
    return r == 0 ? desired : 0;
}

static uint32_t containers(struct instance *in, struct group *g, const struct fn_traffic *traffic,
                           uint32_t growth, bool tolerant)
{
    const struct fn_predictor_ops *ops = instance_ops(in);
    struct fn_traffic *view = view_start(traffic, sizeof(*traffic), growth, "traffic");
    uint32_t n = 0xdeadbeefu;
    int r;

    enter(in, LOOP, "containers");
    r = ops->containers(in->inst, g->memory + GUARD, view, &n);
    leave();
    fence_free(view);
    must_keep_to_state(g, "containers");
    must_answer("containers", "ret_n", r, n != 0xdeadbeefu, tolerant);
    trace_u64((uint64_t)(int64_t)r);
    trace_u64(n);
    return r == 0 ? n : 0;
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

static struct fn_traffic any_traffic(void)
{
    uint32_t there = (uint32_t)(chance() % 50);

    return (struct fn_traffic){.size = sizeof(struct fn_traffic),
                               .containers = there,
                               .starting = (uint32_t)(chance() % 4),
                               .kept = (uint32_t)(chance() % 20),
                               .kept_max = 20,
                               .running_max = (uint32_t)(chance() % (there + 1)),
                               .now_ns = clock_now(),
                               .interval_ns = chance() % 5 ? ENV_S : 0,
                               .idle_ns = (int64_t)(chance() % 600) * ENV_S,
                               .start_ns = (int64_t)(chance() % 5000) * ENV_MS,
                               .calls = chance() % 1000,
                               .missed = chance() % 3 ? 0 : chance() % 10,
                               .hits = chance() % 10,
                               .mem_mb = 128,
                               .app_id = "app",
                               .fn_id = chance() % 9 ? "fn" : "",
                               .image = "hello:1"};
}

static void run_functions(struct instance *in, struct group *g, uint32_t n, uint32_t growth,
                          bool tolerant)
{
    const struct fn_predictor_ops *ops = instance_ops(in);

    while (ops->containers && n-- > 0) {
        struct fn_traffic traffic = any_traffic();

        containers(in, g, &traffic, growth, tolerant);
        clock_jump((int64_t)(chance() % 5000) * ENV_MS);
    }
}

void predictor_exercise(struct instance *in, bool tolerant)
{
    struct group g;

    group_start(in, &g);
    run(in, &g, 100, 0, tolerant);
    fence_free(g.memory);
    group_start(in, &g);
    run_functions(in, &g, 100, 0, tolerant);
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

static struct instance *with_containers(void)
{
    struct instance *in = instance_new();
    const struct fn_predictor_ops *ops = instance_ops(in);

    if (!ops->containers) {
        skip("it has no containers()");
    }
    return in;
}

static void test_traffic(void)
{
    static const uint64_t odd[] = {0, 1, 1000, UINT64_MAX / 2, UINT64_MAX};
    struct instance *in = with_containers();
    struct group g;
    uint32_t i;

    group_start(in, &g);
    for (i = 0; i < 625; i++) {
        struct fn_traffic t = {.containers = (uint32_t)odd[i % 5],
                               .kept_max = (uint32_t)odd[i / 5 % 5],
                               .running_max = (uint32_t)odd[i / 25 % 5],
                               .missed = odd[i / 125 % 5],
                               .calls = odd[i / 125 % 5],
                               .now_ns = clock_now(),
                               .interval_ns = i ? ENV_S : 0,
                               .idle_ns = (int64_t)(odd[i / 5 % 5] / 2),
                               .app_id = "",
                               .fn_id = "",
                               .image = ""};

        step("%u containers, at most %u, %u at once, %llu missed", t.containers, t.kept_max,
             t.running_max, (unsigned long long)t.missed);
        containers(in, &g, &t, 0, false);
        clock_jump(i % 9 ? ENV_S : 3600 * ENV_S);
    }
    fence_free(g.memory);
    instance_destroy(in);
}

static struct fn_traffic traffic_at(uint32_t i)
{
    return (struct fn_traffic){.containers = i % 7,
                               .kept_max = 10,
                               .running_max = i % 5,
                               .now_ns = 1000 * ENV_S + i * ENV_S,
                               .interval_ns = i ? ENV_S : 0,
                               .calls = i % 11,
                               .missed = i % 3 == 0,
                               .mem_mb = 128,
                               .app_id = "app",
                               .fn_id = "fn",
                               .image = "hello:1"};
}

/* Pure but for *state: two functions do not see each other. */
static void test_functions_apart(void)
{
    struct instance *in = with_containers();
    struct group a;
    struct group b;
    uint32_t alone[64];
    uint32_t i;

    group_start(in, &a);
    for (i = 0; i < 64; i++) {
        struct fn_traffic t = traffic_at(i);

        alone[i] = containers(in, &a, &t, 0, false);
    }
    fence_free(a.memory);
    group_start(in, &a);
    group_start(in, &b);
    for (i = 0; i < 64; i++) {
        struct fn_traffic t = traffic_at(i);
        struct fn_traffic other = any_traffic();

        containers(in, &b, &other, 0, false);
        must(containers(in, &a, &t, 0, false) == alone[i],
             "containers() gives another number when another function is asked about in between; "
             "expected it to be pure but for its state");
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
    group_start(in, &g);
    run_functions(in, &g, 50, 24, false);
    fence_free(g.memory);
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "predictor", "bounds", "the load may be anything from 0 to 2^64", test_bounds, ALSO_REAL },
    { "predictor", "groups-apart", "predict() is pure but for its state", test_groups_apart, 0 },
    { "predictor", "traffic", "traffic of a function may be anything", test_traffic, ALSO_REAL },
    { "predictor", "functions-apart", "containers() is pure but for its state",
      test_functions_apart, 0 },
    { "predictor", "growth", "views of a later host are larger", test_growth, 0 },
};

struct contract_list predictor_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
