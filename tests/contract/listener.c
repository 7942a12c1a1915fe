/* Suite "listener": fn/listener.h. */
#include "outside.h"
#include "suites.h"

#include <string.h>

#define TIMEOUT (FN_LISTENER_TIME_S * ENV_S)

static int before(struct instance *in, uint32_t i, uint32_t growth, bool with_reterr)
{
    const struct fn_listener_ops *ops = instance_ops(in);
    struct fn_error e = ERR_INIT;
    struct fn_call *c = call_make(i, growth);
    int r = 0;

    if (ops->before) {
        enter(in, LOOP, "before");
        r = ops->before(in->inst, c, with_reterr ? reterr_of(&e) : NULL);
        leave();
        must_be_result("before", r, with_reterr ? &e : NULL);
    }
    call_end(c);
    trace_u64((uint64_t)(int64_t)r);
    return r;
}

static struct fn_call_end *end_new(uint32_t i, uint32_t growth, const char *gone)
{
    static const char *const outcomes[] = {"ok", "failed", "not-executed", "unknown", "aborted"};
    struct fn_call_end *end = fence_alloc(sizeof(*end) + growth, 8, "the end of a call", gone);

    memset(end, 0xa5, sizeof(*end) + growth);
    *end = (struct fn_call_end){.size = (uint32_t)sizeof(*end) + growth,
                                .code = i % 5 ? -(int32_t)(i % 17) : 0,
                                .http_status = i % 5 ? 500 : 200,
                                .blame = i % 3,
                                .started_ns = clock_now() - ENV_MS,
                                .ended_ns = clock_now(),
                                .outcome = outcomes[i % 5]};
    fence_read_only(end);
    return end;
}

struct late {
    struct instance *in;
    const struct fn_call *call;
    const struct fn_call_end *end;
    int result;
    struct fn_error error;
};

static void call_after_worker(void *ud, struct fn_op *op)
{
    const struct fn_listener_ops *ops = subject.factory->ops;
    struct late *l = ud;

    l->result = ops->after_worker(l->in->inst, op, l->call, l->end, reterr_of(&l->error));
}

/* The host's copies are gone when it returns. */
static int after_worker(struct instance *in, struct fn_op op, uint32_t i, uint32_t growth)
{
    const struct fn_listener_ops *ops = instance_ops(in);
    struct fn_call *c;
    struct fn_call_end *end;
    struct late l = {.in = in, .error = ERR_INIT};

    if (!ops->after_worker) {
        return 0;
    }
    l.call = c = call_make(i, growth);
    l.end = end = end_new(i, growth, "after_worker() had returned");
    on_worker(in, "after_worker", &op, call_after_worker, &l);
    must_be_result("after_worker", l.result, &l.error);
    must_be_in_time("after_worker", &op);
    fence_free(end);
    call_end(c);
    trace_u64((uint64_t)(int64_t)l.result);
    return l.result;
}

static void after(struct instance *in, uint32_t i, uint32_t growth)
{
    const struct fn_listener_ops *ops = instance_ops(in);
    struct fn_call *c = call_make(i, growth);
    struct fn_call_end *end = end_new(i, growth, "after() had returned");

    if (ops->after) {
        enter(in, LOOP, "after");
        ops->after(in->inst, c, end);
        leave();
    }
    fence_free(end);
    call_end(c);
    after_worker(in, op_for(TIMEOUT), i, growth);
}

/* ---- changes --------------------------------------------------------------------------------- */

#define CHANGE_TIME (FN_CHANGE_TIME_S * ENV_S)

struct change {
    struct instance *in;
    struct fn_change *shown;
    char *json; /* NULL of a delete */
    int result;
    struct fn_error error;
};

/* Every kind and verb, with names that somebody may have sent, all gone when the call returns. */
static struct fn_change *change_new(uint32_t i, uint32_t growth, const char *gone, char **ret_json)
{
    static const char *const names[] = { "team-a", "", "a", "%s%n", "caf\xc3\xa9", "*", "\"\\" };
    static const char *const jsons[] = { "{}", "{\"name\":\"team-a\",\"config\":{\"A\":\"1\"}}",
                                         "{\"name\":null}" };
    struct fn_change *ch = fence_alloc(sizeof(*ch) + growth, 8, "a change", gone);
    const char *json = jsons[i % 3];
    const char *name = names[i % 7];

    *ret_json = NULL;
    if (i / 3 % 3 != 2) {
        *ret_json = fence_alloc(strlen(json) + 1, 1, "the JSON of a change", gone);
        memcpy(*ret_json, json, strlen(json) + 1);
        fence_read_only(*ret_json);
    }
    memset(ch, 0xa5, sizeof(*ch) + growth);
    *ch = (struct fn_change){ .size = (uint32_t)sizeof(*ch) + growth,
                              .kind = growth ? 77 : i % 3 + FN_CHANGE_APP,
                              .verb = i / 3 % 3 + FN_CHANGE_CREATE,
                              .json = *ret_json,
                              .json_len = *ret_json ? (uint32_t)strlen(json) : 0,
                              .id = "01APP000000000000000000000",
                              .name = name,
                              .app_id = i % 2 ? "01APP000000000000000000000" : "",
                              .app_name = i % 3 == 0 ? name : "",
                              .who = i % 2 ? "ops" : "",
                              .request_id = "r1" };
    fence_read_only(ch);
    return ch;
}

static void call_before_change(void *ud, struct fn_op *op)
{
    const struct fn_listener_ops *ops = subject.factory->ops;
    struct change *c = ud;

    c->result = ops->before_change(c->in->inst, op, c->shown, reterr_of(&c->error));
}

static void call_after_change(void *ud, struct fn_op *op)
{
    const struct fn_listener_ops *ops = subject.factory->ops;
    struct change *c = ud;

    ops->after_change(c->in->inst, op, c->shown);
}

static void change_free(struct change *c)
{
    fence_free(c->shown);
    if (c->json) {
        fence_free(c->json);
    }
}

/* The client gets what it says: a status, if it gives one, is one of a failure. */
static void must_be_refusal(const struct change *c)
{
    int32_t status = c->error.http_status;

    must_be_result("before_change", c->result, &c->error);
    must(c->result == 0 || status == 0 || (status >= 400 && status <= 599),
         "before_change() refused with HTTP status %d; expected 400 to 599, or 0 for 403", status);
}

/* One change, and what follows it if nothing is against it. */
static void run_change(struct instance *in, struct fn_op op, uint32_t i, uint32_t growth)
{
    const struct fn_listener_ops *ops = instance_ops(in);
    struct change c = { .in = in, .error = ERR_INIT };

    if (ops->before_change) {
        c.shown = change_new(i, growth, "before_change() had returned", &c.json);
        on_worker(in, "before_change", &op, call_before_change, &c);
        must_be_refusal(&c);
        must_be_in_time("before_change", &op);
        change_free(&c);
        trace_u64((uint64_t)(int64_t)c.result);
    }
    if (ops->after_change && c.result == 0) {
        c.shown = change_new(i, growth, "after_change() had returned", &c.json);
        on_worker(in, "after_change", &op, call_after_change, &c);
        must_be_in_time("after_change", &op);
        change_free(&c);
    }
}

static bool hears_changes(const struct instance *in)
{
    const struct fn_listener_ops *ops = instance_ops(in);

    return ops->before_change || ops->after_change;
}

static void run_changes(struct instance *in, uint32_t n, uint32_t growth)
{
    for (uint32_t i = 0; i < n; i++) {
        run_change(in, op_for(CHANGE_TIME), i, growth);
        clock_advance(ENV_MS);
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

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
    run_changes(in, 20, 0);
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
    run_changes(in, 200, 0);
    blocks = memory_live_blocks();
    run_calls(in, 2000, 0);
    run_changes(in, 200, 0);
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
    run_changes(in, 63, 24);
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

/* Its time is over before it begins, or somebody wants it to end: it may leave the end out. */
static void test_hurried(void)
{
    struct instance *in = instance_new();
    struct fn_op op;

    if (!((const struct fn_listener_ops *)instance_ops(in))->after_worker) {
        skip("it has no after_worker()");
    }
    for (uint32_t i = 0; i < 60; i++) {
        op = op_for(TIMEOUT);
        op.deadline_ns = i % 3 == 0 ? clock_now() : op.deadline_ns;
        op.cancel_at_ns = i % 3 == 1 ? clock_now() : op.cancel_at_ns;
        step("after_worker() of call %u, %s", i,
             i % 3 == 0 ? "at its deadline" : i % 3 == 1 ? "cancelled" : "with all its time");
        before(in, i, 0, true);
        after_worker(in, op, i, 0);
    }
    instance_destroy(in);
}

static void test_changes(void)
{
    struct instance *in = instance_new();
    struct fn_op op;

    if (!hears_changes(in)) {
        skip("it has neither before_change() nor after_change()");
    }
    for (uint32_t i = 0; i < 252; i++) {
        op = op_for(CHANGE_TIME);
        op.deadline_ns = i / 63 == 1 ? clock_now() : op.deadline_ns;
        op.cancel_at_ns = i / 63 == 2 ? clock_now() : op.cancel_at_ns;
        step("change %u, %s", i,
             i / 63 == 1 ? "at its deadline" : i / 63 == 2 ? "cancelled" : "with all its time");
        run_change(in, op, i, 0);
    }
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "listener", "calls", "before() and after() of many calls, views gone after each", test_calls,
      ALSO_REAL },
    { "listener", "changes", "changes of any object and name are let pass, or refused with a status",
      test_changes, ALSO_WORLD },
    { "listener", "forgets", "ended calls leave no memory behind", test_forgets, 0 },
    { "listener", "growth", "views of a later host are larger", test_growth, 0 },
    { "listener", "hurried", "after_worker() comes back at its deadline and when it is cancelled",
      test_hurried, ALSO_WORLD },
    { "listener", "odd-ends", "calls end in every way, at any time", test_odd_ends, 0 },
};

struct contract_list listener_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
