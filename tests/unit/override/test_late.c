/* Ends of calls for listeners that may be slow: order, bounds, drain. */
#include "../lib/fake_env.h"
#include "../lib/fake_plugin.h"

#include <base/metric.h>
#include <check.h>
#include <model/call.h>
#include <model/view.h>
#include <override/chain.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEARD_MAX 4096

static struct fake_env *env;
static struct plugin slow, quick, loop_only;
static struct plugin *listeners[3] = { &slow, &loop_only, &quick };
static struct chain chain;
static int gone;
static uint32_t heard[HEARD_MAX];
static uint32_t n_heard, n_quick, n_loop;
static int64_t takes_ns; /* one after_worker() of `slow` */
static int answer;

/* Texts of a call that ended are gone: what is seen here is a copy. */
static int after_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    const struct fn_view_if *v = view_if();

    (void)op;
    ck_assert_ptr_null(inst);
    ck_assert_uint_lt(n_heard, HEARD_MAX);
    heard[n_heard++] = (uint32_t)strtoul(call->id, NULL, 10);
    ck_assert_str_eq(call->lb_group, "gold");
    ck_assert_str_eq(v->text(call, FN_TEXT_CALL_ID), call->id);
    ck_assert_str_eq(v->text(call, FN_TEXT_IMAGE), "img:1");
    ck_assert_str_eq(v->annotation(call, "zone"), "\"a\"");
    ck_assert_str_eq(v->extension(call, "plan"), "gold");
    ck_assert_str_eq(v->header(call, "X-A"), "b");
    ck_assert_uint_eq(strlen(v->text(call, FN_TEXT_SLOT_HASH)), 64);
    ck_assert_str_eq(end->outcome, "ok");
    ck_assert_uint_eq(end->http_status, 200);
    env->now += takes_ns;
    return answer < 0 ? err_set(reterr, answer, "disk full") : answer;
}

static int quick_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)call;
    (void)end;
    (void)reterr;
    n_quick++;
    return 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    (void)inst;
    (void)call;
    (void)end;
    n_loop++;
}

static const struct fn_listener_ops slow_ops = { .hdr = FN_HDR(struct fn_listener_ops,
                                                               FN_MAGIC_LISTENER),
                                                 .after_worker = after_worker };
static const struct fn_listener_ops quick_ops = { .hdr = FN_HDR(struct fn_listener_ops,
                                                                FN_MAGIC_LISTENER),
                                                  .after_worker = quick_worker };
static const struct fn_listener_ops loop_ops = { .hdr = FN_HDR(struct fn_listener_ops,
                                                               FN_MAGIC_LISTENER),
                                                 .after = after };

static void on_gone(struct chain *c)
{
    ck_assert_uint_eq(c->refs, 0);
    gone++;
}

static void setup(void)
{
    env = fake_env_create();
    fake_plugin_reset();
    fake_plugin_init(&slow, "slow", &slow_ops, NULL);
    fake_plugin_init(&quick, "quick", &quick_ops, NULL);
    fake_plugin_init(&loop_only, "loop", &loop_ops, NULL);
    chain = (struct chain){ .listeners = listeners, .n_listeners = 3, .refs = 1, .gone = on_gone };
    ck_assert_int_eq(chain_open(&chain, &env->env, NULL), 0);
    gone = answer = 0;
    n_heard = n_quick = n_loop = 0;
    takes_ns = 0;
}

static void teardown(void)
{
    chain_close(&chain);
    ck_assert_uint_eq(env->timers.n, 0);
    fake_env_destroy(env);
}

static int64_t ends(const char *listener, const char *result)
{
    static const char *const labels[] = { "listener", "result", NULL };
    const struct metric_def def = { .name = "fn_listener_ends", .kind = METRIC_COUNTER,
                                    .labels = labels };

    return metric_value(metric_series(metric_declare(&def),
                                      (const char *const[]){ listener, result }));
}

static int64_t waits(void)
{
    static const char *const labels[] = { "listener", NULL };
    const struct metric_def def = { .name = "fn_listener_waiting", .kind = METRIC_GAUGE,
                                    .labels = labels };

    return metric_value(metric_series(metric_declare(&def), (const char *const[]){ "slow" }));
}

/* A call with `pad` bytes of configuration ends, and nothing of it is left. */
static void one_ends_at(struct chain *at, uint32_t i, size_t pad)
{
    struct fn_call_end end = { .http_status = 200 };
    struct fn_call_more more;
    struct arena arena;
    struct kvs extensions;
    struct fn_call view;
    struct call c;
    char *long_text = calloc(1, pad + 1);

    arena_init(&arena, 0);
    call_init(&c, &arena);
    kvs_init(&extensions, &arena);
    memset(long_text, 'x', pad);
    c.id = arena_printf(&arena, "%u", i);
    c.image = arena_strdup(&arena, "img:1");
    kvs_set(&c.config, "FN_LB_GROUP_ID", "gold");
    kvs_set(&c.config, "PAD", long_text);
    kvs_set(&c.annotations, "zone", "\"a\"");
    kvs_set(&extensions, "plan", "gold");
    headers_add(&c.headers, "X-A", "b");
    more = (struct fn_call_more){ .call = &c, .extensions = &extensions, .arena = &arena };
    view = call_view(&c, INT64_MAX, &more);
    chain_after(at, 3, &view, OUTCOME_OK, &end);
    free(long_text);
    memset((char *)(uintptr_t)c.image, '!', 5);
    arena_finish(&arena);
}

static void one_ends(uint32_t i, size_t pad)
{
    one_ends_at(&chain, i, pad);
}

static void expect_order(uint32_t n)
{
    ck_assert_uint_eq(n_heard, n);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(heard[i], i);
    }
}

START_TEST(in_order_with_copies)
{
    ck_assert(chain_is_told(&chain));
    for (uint32_t i = 0; i < 300; i++) {
        one_ends(i, 0);
        if (i % 7 == 0) {
            fake_env_work_one(env);
        }
    }
    ck_assert_uint_eq(n_loop, 300);
    ck_assert(!chain_is_told(&chain));
    ck_assert_uint_eq(chain.refs, 3); /* its own, and one for each line that holds ends */
    ck_assert_uint_le(env->n_work, 2); /* one at a time per listener */
    fake_env_work_all(env);
    expect_order(300);
    ck_assert_uint_eq(n_quick, 300);
    ck_assert_uint_eq(chain.refs, 1);
    ck_assert(chain_is_told(&chain));
    ck_assert_int_eq(waits(), 0);
    ck_assert_int_eq(ends("slow", "told"), 300);
}
END_TEST

/* What it has no time for comes in the next portion, in order. */
START_TEST(a_slow_one_gives_back)
{
    takes_ns = ENV_S;
    for (uint32_t i = 0; i < 10; i++) {
        one_ends(i, 0);
    }
    for (uint32_t i = 1; i <= 10; i++) {
        while (n_heard < i) {
            ck_assert_int_eq(fake_env_work_one(env), 1);
        }
        ck_assert_uint_eq(n_heard, i);
    }
    fake_env_work_all(env);
    expect_order(10);
    ck_assert_uint_eq(n_quick, 10);
}
END_TEST

START_TEST(results_are_counted)
{
    answer = FN_E_EXHAUSTED;
    one_ends(0, 0);
    fake_env_work_all(env);
    ck_assert_int_eq(ends("slow", "failed"), 1);
    answer = 1; /* no such answer */
    one_ends(1, 0);
    fake_env_work_all(env);
    ck_assert_int_eq(ends("slow", "failed"), 2);
    ck_assert_uint_eq(slow.bad_answers, 1);
    answer = 0;
    takes_ns = FN_LISTENER_TIME_S * ENV_S + 1;
    one_ends(2, 0);
    fake_env_work_all(env);
    ck_assert_int_eq(ends("slow", "late"), 1);
    ck_assert_int_eq(ends("slow", "told"), 0);
    ck_assert_int_eq(ends("quick", "told"), 3);
}
END_TEST

/* Nobody runs the work of the lanes: it hangs. */
START_TEST(full_is_left_out)
{
    for (uint32_t i = 0; i < FN_LISTENER_WAITING_MAX + 10; i++) {
        one_ends(i, 0);
    }
    ck_assert_int_eq(ends("slow", "dropped"), 10);
    ck_assert_int_eq(waits(), FN_LISTENER_WAITING_MAX);
    ck_assert_uint_eq(n_loop, FN_LISTENER_WAITING_MAX + 10);
    fake_env_work_all(env);
    expect_order(FN_LISTENER_WAITING_MAX);
    one_ends(FN_LISTENER_WAITING_MAX, 0);
    fake_env_work_all(env);
    expect_order(FN_LISTENER_WAITING_MAX + 1);
}
END_TEST

/* After a reload that keeps the listeners, calls of both chains end in one line; the old chain goes
 * with its last call, and nothing that waits has an end of patience. */
START_TEST(two_chains_share_a_line)
{
    struct chain next = { .listeners = listeners, .n_listeners = 3, .refs = 1, .gone = on_gone };

    ck_assert_int_eq(chain_open(&next, &env->env, &chain), 0);
    one_ends(0, 0);
    ck_assert_uint_eq(chain.refs, 3);
    chain_follow(&next, &chain);
    chain_retire(&chain, &next);
    ck_assert_uint_eq(chain.refs, 1);
    ck_assert_uint_eq(next.refs, 3);
    ck_assert_uint_eq(env->timers.n, 0);
    one_ends_at(&next, 1, 0);
    one_ends(2, 0);
    one_ends_at(&next, 3, 0);
    chain_unref(&chain);
    ck_assert_int_eq(gone, 1);
    chain_close(&chain);
    ck_assert_uint_le(env->n_work, 2);
    fake_env_work_all(env);
    expect_order(4);
    ck_assert_uint_eq(n_quick, 4);
    ck_assert_uint_eq(next.refs, 1);
    chain_close(&next);
}
END_TEST

START_TEST(so_are_many_bytes)
{
    for (uint32_t i = 0; i < 40; i++) {
        one_ends(i, 1u << 20);
    }
    ck_assert_int_ge(ends("slow", "dropped"), 24);
    ck_assert_int_le(ends("slow", "dropped"), 32);
    fake_env_work_all(env);
    ck_assert_int_eq(waits(), 0);
    expect_order(40 - (uint32_t)ends("slow", "dropped"));
}
END_TEST

START_TEST(no_worker_for_a_while)
{
    env->submit_fails = 4;
    one_ends(0, 0); /* both lines in vain */
    one_ends(1, 0);
    ck_assert_uint_eq(env->n_work, 0);
    fake_env_advance(env, 100 * ENV_MS); /* again in vain */
    fake_env_advance(env, 100 * ENV_MS);
    fake_env_work_all(env);
    expect_order(2);
    ck_assert_uint_eq(n_quick, 2);
}
END_TEST

/* The chain is replaced; it ends when everything was told. */
START_TEST(a_reload_waits_for_them)
{
    one_ends(0, 0);
    one_ends(1, 0);
    chain_retire(&chain, NULL);
    chain_unref(&chain);
    ck_assert_int_eq(gone, 0);
    fake_env_work_all(env);
    expect_order(2);
    ck_assert_int_eq(gone, 1);
}
END_TEST

/* Ends that nobody takes are left out in time, and what runs is cancelled. */
START_TEST(but_not_for_ever)
{
    struct env_work *running;

    one_ends(0, 0);
    running = TAILQ_FIRST(&env->work);
    one_ends(1, 0);
    fake_env_advance(env, 60 * ENV_S); /* it may take its time */
    ck_assert_int_eq(running->cancelled, 0);
    chain_retire(&chain, NULL);
    fake_env_advance(env, 5 * ENV_S);
    one_ends(2, 0); /* of a call that went on */
    fake_env_advance(env, 5 * ENV_S - 1);
    ck_assert_int_eq(running->cancelled, 0);
    ck_assert_int_eq(ends("slow", "dropped"), 0);
    fake_env_advance(env, 1);
    ck_assert_int_eq(running->cancelled, 1);
    ck_assert_int_eq(ends("slow", "dropped"), 1);
    fake_env_advance(env, 5 * ENV_S);
    ck_assert_int_eq(ends("slow", "dropped"), 2);
    ck_assert(chain_is_told(&chain)); /* it will not come back */
    chain_unref(&chain);
    ck_assert_int_eq(gone, 0);
    fake_env_work_all(env); /* it does, after all */
    ck_assert_uint_eq(n_heard, 1);
    ck_assert_int_eq(gone, 1);
    ck_assert_int_eq(waits(), 0);
}
END_TEST

/* When nothing waits any more there is nothing to try again: the timer for it came at once, for
 * ever. */
START_TEST(no_worker_ever)
{
    env->submit_fails = 1000;
    one_ends(0, 0);
    chain_retire(&chain, NULL);
    fake_env_advance(env, 11 * ENV_S);
    ck_assert_int_eq(ends("slow", "dropped"), 1);
    ck_assert_uint_eq(env->timers.n, 0);
    ck_assert(chain_is_told(&chain));
    env->submit_fails = 0;
}
END_TEST

/* The process ends with ends that nobody heard of. */
START_TEST(closed_with_ends)
{
    one_ends(0, 0);
    one_ends(1, 0);
    ck_assert_uint_eq(env->n_work, 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("late");
    TCase *tc = tcase_create("late");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, in_order_with_copies);
    tcase_add_test(tc, a_slow_one_gives_back);
    tcase_add_test(tc, results_are_counted);
    tcase_add_test(tc, full_is_left_out);
    tcase_add_test(tc, so_are_many_bytes);
    tcase_add_test(tc, two_chains_share_a_line);
    tcase_add_test(tc, no_worker_for_a_while);
    tcase_add_test(tc, no_worker_ever);
    tcase_add_test(tc, a_reload_waits_for_them);
    tcase_add_test(tc, but_not_for_ever);
    tcase_add_test(tc, closed_with_ends);
    suite_add_tcase(s, tc);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
