/* The shadow placer: what it is asked, that nothing comes of it, what is counted, when it is turned
 * off, and who owns what while placers, lists and calls come and go. */
#include "../lib/fake_engage.h"
#include "../lib/fake_env.h"
#include "../lib/fake_plugin.h"

#include <place/place.h>

#include <base/metric.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION   64u
#define PREDICTED "fn_lb_shadow_predicted_wait_milliseconds"

static const unsigned char zeros[SESSION];

/* A placer whose next answer the test says. */
struct brain {
    struct plugin plugin;
    struct fn_answer say; /* verdict 0 = try runner (asked % n) */
    int result;
    uint32_t asked, first, observed;
    uint32_t last_flags; /* of the list */
    int indexes;
    uint32_t gone;
};

static struct fake_env *env;
static struct fake_engage fe;
static struct brain a, b, c;
static struct plugin pool;
static struct place *place;
static int wakes;

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct brain *y = inst;
    unsigned char *session = ask->session;
    uint32_t size = ret->size;

    ck_assert_uint_eq(ask->size, sizeof(*ask));
    ck_assert_uint_eq(ret->size, sizeof(*ret));
    ck_assert_ptr_eq(ask->snap->index, y); /* its own index, never the other's */
    ck_assert(ask->why != FN_WHY_START || memcmp(session, zeros, SESSION) == 0);
    memset(session, 0xaa, SESSION);
    y->first += ask->why == FN_WHY_START;
    y->last_flags = ask->snap->flags;
    if (y->say.verdict || y->result) {
        *ret = y->say;
        ret->size = size;
        return y->result;
    }
    ret->verdict = ask->snap->n ? FN_TRY : FN_WAIT;
    ret->index = ask->snap->n ? y->asked % ask->snap->n : 0;
    y->asked++;
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    struct brain *y = inst;

    ck_assert_ptr_eq(what->snap->index, y);
    ck_assert_uint_eq(what->runner_id, fn_snapshot_at(what->snap, what->index)->id);
    y->observed++;
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    struct brain *y = inst;

    ck_assert_ptr_null(snap->index);
    y->indexes++;
    *ret_index = y;
    return 0;
}

static void index_free(void *inst, void *index)
{
    struct brain *y = inst;

    ck_assert_ptr_eq(index, y);
    y->indexes--;
    ck_assert_int_ge(y->indexes, 0);
}

static const struct fn_placer_ops ops = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
                                          SESSION,
                                          0,
                                          decide,
                                          observe,
                                          index_build,
                                          index_free };

static int pool_start(void *inst, struct fn_error *reterr)
{
    (void)inst;
    (void)reterr;
    return 0;
}

static const struct fn_pool_ops pool_ops = { FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL), pool_start,
                                             NULL, NULL, NULL };

/* ---- fixture --------------------------------------------------------------------------------- */

static void on_gone(void *ud)
{
    struct brain *y = ud;

    y->gone++;
    ck_assert_int_eq(y->indexes, 0);
}

static void brain_init(struct brain *y, const char *name)
{
    memset(y, 0, sizeof(*y));
    fake_plugin_init(&y->plugin, name, &ops, y);
}

static void setup(void)
{
    struct place_deps deps = { .client = &fe.client, .options = { 10 * ENV_MS, ENV_S, 20000, 0 } };
    struct fn_error e = ERR_INIT;

    wakes = 0;
    env = fake_env_create();
    fake_engage_init(&fe);
    fake_plugin_reset();
    brain_init(&a, "a");
    brain_init(&b, "b");
    brain_init(&c, "c");
    fake_plugin_init(&pool, "pool", &pool_ops, NULL);
    deps.env = &env->env;
    ck_assert_int_eq(place_create(&deps, &place, &e), 0);
    ck_assert_int_eq(place_set_placer(place, &a.plugin, on_gone, &a), 0);
    ck_assert_int_eq(place_start(place, &pool, &e), 0);
    fake_env_settle(env);
}

static void teardown(void)
{
    place_destroy(place);
    ck_assert_int_eq(a.indexes + b.indexes + c.indexes, 0);
    ck_assert_uint_eq(a.gone, 1);
    fake_engage_finish(&fe);
    fake_env_destroy(env);
}

static void publish(uint32_t n)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_snap_builder *builder;
    char address[16];

    ck_assert_int_eq(snap->begin(&pool.host, "default", &builder), 0);
    for (uint32_t i = 1; i <= n; i++) {
        struct fn_runner r = { .id = i, .address = address, .weight = 1 };

        snprintf(address, sizeof(address), "r%u:1", i);
        ck_assert_int_eq(snap->add(builder, &r, sizeof(r)), 0);
    }
    ck_assert_int_eq(snap->publish(builder), 0);
}

static void on_wake(struct place_call *pc)
{
    (void)pc;
    wakes++;
}

static struct place_call *begin_for(const char *fn)
{
    struct place_call *pc = calloc(1, sizeof(*pc));

    pc->view = (struct fn_call){ .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL),
                                 .id = "c",
                                 .fn_id = fn,
                                 .app_id = "a",
                                 .lb_group = "default" };
    pc->deadline_ns = env->now + 30 * ENV_S;
    pc->on_wake = on_wake;
    place_begin(place, pc);
    return pc;
}

static struct place_call *begin(void)
{
    return begin_for("f");
}

static void end(struct place_call *pc)
{
    place_ended(pc, FN_DONE_OK);
    free(pc);
}

static void call_for(const char *fn)
{
    struct place_call *pc = begin_for(fn);

    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    end(pc);
}

static void shadow(struct brain *y, uint32_t permille)
{
    struct plugin *plugin = y ? &y->plugin : NULL;

    ck_assert_int_eq(place_set_shadow(place, plugin, permille, y ? on_gone : NULL, y), 0);
}

static struct place_shadow_status status(void)
{
    struct place_shadow_status s;

    place_shadow_status(place, &s);
    return s;
}

static void say(struct brain *y, uint32_t verdict, uint32_t index)
{
    y->say = (struct fn_answer){ .verdict = verdict, .index = index };
}

/* ---- what it is asked ------------------------------------------------------------------------ */

START_TEST(it_is_asked_first_questions_only_and_decides_nothing)
{
    struct place_call *pc;

    publish(3);
    shadow(&b, 1000);
    say(&a, FN_TRY, 0);
    say(&b, FN_TRY, 2);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_str_eq(pc->address, "r1:1");
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    say(&a, FN_TRY, 1);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_str_eq(pc->address, "r2:1");
    ck_assert_uint_eq(b.first, 1);
    ck_assert_uint_eq(b.plugin.calls, 1 + 1 + 1); /* an index, a question, an observation */
    end(pc);
    ck_assert_uint_eq(b.observed, 2);
    ck_assert_uint_eq(a.observed, 2);
    ck_assert_uint_eq(status().n.asked, 1);
    ck_assert_uint_eq(status().n.disagree, 1);
}
END_TEST

START_TEST(a_share_of_calls_is_sampled)
{
    publish(3);
    shadow(&b, 250);
    for (int i = 0; i < 4000; i++) {
        call_for("f");
    }
    ck_assert_uint_ge(b.first, 850);
    ck_assert_uint_le(b.first, 1150);
    ck_assert_uint_eq(a.first, 4000);
    ck_assert_uint_eq(status().n.asked, b.first);
}
END_TEST

START_TEST(it_sees_what_the_pool_says_of_its_list)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_error why = ERR_INIT;

    publish(2);
    shadow(&b, 1000);
    call_for("f");
    ck_assert_uint_eq(b.last_flags, 0);
    ck_assert_int_eq((snap->fail)(&pool.host, "default", &why), 0);
    call_for("f");
    ck_assert_uint_eq(b.last_flags, FN_SNAP_STALE);
}
END_TEST

/* ---- what is counted ------------------------------------------------------------------------- */

START_TEST(answers_are_compared_by_verdict)
{
    struct place_call *pc;

    publish(3);
    shadow(&b, 1000);
    say(&a, FN_TRY, 1);
    say(&b, FN_TRY, 1);
    call_for("f");
    say(&b, FN_TRY, 2);
    call_for("f");
    say(&b, FN_WAIT, 0);
    call_for("f");
    say(&b, FN_GIVE_UP, 0);
    call_for("f");
    b.result = FN_E_UNAVAILABLE; /* as good as giving up */
    call_for("f");
    b.result = 0;
    say(&a, FN_WAIT, 0);
    say(&b, FN_WAIT, 0);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    place_leave(pc);
    free(pc);
    ck_assert_uint_eq(status().n.agree, 2);
    ck_assert_uint_eq(status().n.disagree, 4);
    ck_assert_uint_eq(status().n.answers[0][0], 2);
    ck_assert_uint_eq(status().n.answers[0][1], 1);
    ck_assert_uint_eq(status().n.answers[0][2], 2);
    ck_assert_uint_eq(status().n.answers[1][1], 1);
    ck_assert_uint_eq(status().n.asked, 6);
}
END_TEST

START_TEST(picks_are_judged_by_what_runners_did_lately)
{
    struct place_call *pc;

    publish(3);
    shadow(&b, 1000);
    say(&a, FN_TRY, 0);
    say(&b, FN_TRY, 0);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE); /* r1 is full */
    say(&a, FN_TRY, 1);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    end(pc);
    call_for("f"); /* a says r2, b says r1 */
    fake_env_advance(env, 2 * ENV_S);
    call_for("f"); /* that was long ago */
    fake_engage_up(&fe, "r1:1", false);
    call_for("f");
    ck_assert_uint_eq(status().n.picks[PLACE_SHADOW][PLACE_PICK_FREE], 2);
    ck_assert_uint_eq(status().n.picks[PLACE_SHADOW][PLACE_PICK_REFUSED], 1);
    ck_assert_uint_eq(status().n.picks[PLACE_SHADOW][PLACE_PICK_DOWN], 1);
    ck_assert_uint_eq(status().n.picks[PLACE_SERVING][PLACE_PICK_FREE], 4);
}
END_TEST

START_TEST(load_at_the_runners_named_is_summed)
{
    struct place_call *first, *second;

    publish(2);
    shadow(&b, 1000);
    say(&a, FN_TRY, 0);
    say(&b, FN_TRY, 1);
    first = begin();
    ck_assert_int_eq(place_next(first), PLACE_TRY);
    second = begin();
    ck_assert_int_eq(place_next(second), PLACE_TRY);
    say(&b, FN_TRY, 0);
    call_for("f");
    ck_assert_uint_eq(status().n.inflight[PLACE_SERVING], 0 + 1 + 2);
    ck_assert_uint_eq(status().n.inflight[PLACE_SHADOW], 0 + 0 + 2);
    end(first);
    end(second);
}
END_TEST

START_TEST(moves_of_homes_are_counted_for_both)
{
    char fn[16];

    publish(4);
    shadow(&b, 1000);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            snprintf(fn, sizeof(fn), "fn%u", i);
            say(&a, FN_TRY, i % 4);                      /* always the same */
            say(&b, FN_TRY, (i + (round == 2)) % 4); /* all move in the last round */
            call_for(fn);
        }
    }
    ck_assert_uint_eq(status().n.homes[PLACE_SERVING][PLACE_HOME_NEW], 8);
    ck_assert_uint_eq(status().n.homes[PLACE_SERVING][PLACE_HOME_SAME], 16);
    ck_assert_uint_eq(status().n.homes[PLACE_SERVING][PLACE_HOME_MOVED], 0);
    ck_assert_uint_eq(status().n.homes[PLACE_SHADOW][PLACE_HOME_NEW], 8);
    ck_assert_uint_eq(status().n.homes[PLACE_SHADOW][PLACE_HOME_SAME], 8);
    ck_assert_uint_eq(status().n.homes[PLACE_SHADOW][PLACE_HOME_MOVED], 8);
}
END_TEST

START_TEST(many_functions_need_no_more_memory)
{
    struct place_shadow_status s;
    char fn[16];

    publish(2);
    shadow(&b, 1000);
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(fn, sizeof(fn), "fn%u", i);
        call_for(fn);
    }
    s = status();
    ck_assert_uint_eq(s.n.homes[PLACE_SHADOW][PLACE_HOME_NEW], 20000);
    ck_assert_uint_eq(s.n.homes[PLACE_SHADOW][PLACE_HOME_MOVED], 0);
}
END_TEST

START_TEST(its_wakes_wake_nobody)
{
    const struct fn_wake_if *wake = fake_plugin_table("fn.wake");
    struct place_call *pc;

    publish(2);
    shadow(&b, 1000);
    say(&a, FN_WAIT, 0);
    a.say.wake_mask = FN_WAKE_PLUGIN;
    a.say.wait_ns = 5 * ENV_S;
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    wake->wake(&b.plugin.host, NULL);
    fake_env_advance(env, ENV_MS);
    ck_assert_int_eq(wakes, 0);
    wake->wake(&a.plugin.host, NULL);
    fake_env_advance(env, ENV_MS);
    ck_assert_int_eq(wakes, 1);
    place_leave(pc);
    free(pc);
}
END_TEST

/* ---- the breaker ----------------------------------------------------------------------------- */

START_TEST(a_slow_shadow_is_turned_off)
{
    publish(2);
    shadow(&b, 1000);
    b.plugin.slow = true;
    call_for("f"); /* asked and told: two strikes */
    ck_assert_ptr_null(status().off_why);
    call_for("f");
    ck_assert_str_eq(status().off_why, "over its budget");
    for (int i = 0; i < 10; i++) {
        call_for("f");
    }
    ck_assert_uint_eq(b.first, 2);
    publish(3); /* no index any more */
    ck_assert_int_eq(b.indexes, 0);
    call_for("f");
    shadow(NULL, 1);
    fake_env_settle(env);
    ck_assert_uint_eq(b.gone, 1);
}
END_TEST

START_TEST(a_shadow_that_answers_nonsense_is_turned_off)
{
    publish(2);
    shadow(&b, 1000);
    say(&b, FN_TRY, 2);
    call_for("f");
    say(&b, 77, 0);
    call_for("f");
    fake_env_advance(env, 11 * ENV_S); /* strikes are forgotten */
    say(&b, FN_WAIT, 0);
    b.say.wait_ns = -1;
    call_for("f");
    call_for("f");
    ck_assert_ptr_null(status().off_why);
    call_for("f");
    ck_assert_str_eq(status().off_why, "an answer that cannot be used");
    ck_assert_uint_eq(b.plugin.bad_answers, 5);
    ck_assert_uint_eq(a.plugin.bad_answers, 0);
    ck_assert_uint_eq(status().n.asked, 5);
    ck_assert_uint_eq(status().n.agree + status().n.disagree, 0);
    ck_assert_int_eq(place_shadow_swap(place, false, NULL), FN_E_PRECONDITION);
}
END_TEST

/* ---- swapping and life ----------------------------------------------------------------------- */

START_TEST(swap_and_back)
{
    struct fn_error e = ERR_INIT;
    struct place_call *pc;

    publish(3);
    ck_assert_int_eq(place_shadow_swap(place, false, &e), FN_E_NOT_FOUND);
    ck_assert_str_eq(e.msg, "LB308 no shadow placer; expected plugins.shadow in fn.yaml");
    shadow(&b, 1000);
    ck_assert_int_eq(place_shadow_swap(place, true, &e), FN_E_PRECONDITION);
    ck_assert_str_eq(e.msg, "LB309 nothing to take back: a serves, as fn.yaml says");
    say(&a, FN_TRY, 0);
    say(&b, FN_TRY, 1);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_int_eq(place_shadow_swap(place, false, &e), 0);
    ck_assert_str_eq(status().serving, "b");
    ck_assert_str_eq(status().shadow, "a");
    ck_assert_uint_eq(status().n.asked, 0); /* counts are of these roles */
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE); /* its round goes on with the one it began */
    say(&a, FN_TRY, 2);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_str_eq(pc->address, "r3:1");
    end(pc);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_str_eq(pc->address, "r2:1");
    end(pc);
    ck_assert_int_eq(place_shadow_swap(place, false, &e), FN_E_PRECONDITION);
    ck_assert_str_eq(e.msg, "LB309 swapped already: b serves; expected `back` or a reload");
    ck_assert_int_eq(place_shadow_swap(place, true, &e), 0);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_str_eq(pc->address, "r3:1");
    end(pc);
    ck_assert(!status().swapped);
    fake_env_settle(env);
    ck_assert_uint_eq(a.gone + b.gone, 0);
}
END_TEST

START_TEST(a_parked_call_begins_anew_with_the_one_swapped_in)
{
    struct place_call *pc;

    publish(1);
    shadow(&b, 1000);
    say(&a, FN_WAIT, 0);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    ck_assert_int_eq(place_shadow_swap(place, false, NULL), 0);
    say(&b, FN_TRY, 0);
    fake_env_advance(env, 2 * ENV_S); /* the timer, which ask_again() would serve */
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_uint_eq(b.first, 2); /* as shadow, then in earnest */
    end(pc);
}
END_TEST

/* Ends a call whose attempt took `took` ms, of which the runner reported `run` as execution. */
static void end_after(struct place_call *pc, int64_t took, int64_t run)
{
    fake_env_advance(env, took * ENV_MS);
    pc->execution_ns = run * ENV_MS;
    end(pc);
}

static struct place_call *try_now(void)
{
    struct place_call *pc = begin();

    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    return pc;
}

static bool exported(const char *line)
{
    struct buf out = BUF_INIT(0);
    bool found;

    ck_assert_int_eq(metric_print(&out), 0);
    found = strstr(buf_text(&out), line) != NULL;
    buf_finish(&out);
    return found;
}

START_TEST(waits_are_predicted_from_what_was_measured)
{
    publish(2);
    shadow(&b, 1000);
    say(&a, FN_TRY, 0);
    say(&b, FN_TRY, 1);
    end_after(try_now(), 30, 10); /* idle, cold: 20 ms */
    ck_assert_uint_eq(status().n.measured, 1);
    ck_assert_int_eq(status().n.measured_ns, 20 * ENV_MS);
    ck_assert_uint_eq(status().n.predicted, 0); /* nothing was known then */
    end_after(try_now(), 12, 10); /* idle, warm: 2 ms */
    ck_assert_uint_eq(status().n.predicted, 0);
    end_after(try_now(), 12, 10);
    ck_assert_uint_eq(status().n.predicted, 1);
    ck_assert_int_eq(status().n.wait_ns[PLACE_SERVING], 2 * ENV_MS);
    ck_assert_int_eq(status().n.wait_ns[PLACE_SHADOW], 20 * ENV_MS);
    ck_assert(exported("\n" PREDICTED "_bucket{role=\"serving\",le=\"2\"} 1\n"));
    ck_assert(exported("\n" PREDICTED "_bucket{role=\"shadow\",le=\"16\"} 0\n"));
    ck_assert(exported("\n" PREDICTED "_sum{role=\"shadow\"} 20\n"));
    ck_assert(exported("\nfn_lb_shadow_measured_wait_milliseconds_sum 24\n"));
    ck_assert(exported("\nfn_lb_shadow_unpredicted 2\n"));
    /* A container that was idle for longer than that is gone. */
    fake_env_advance(env, 31 * ENV_S);
    end_after(try_now(), 12, 10);
    ck_assert_int_eq(status().n.wait_ns[PLACE_SERVING], (2 + 20) * ENV_MS);
}
END_TEST

START_TEST(waits_depend_on_the_load)
{
    struct place_call *calls[6];

    publish(2);
    shadow(&b, 1000);
    say(&a, FN_TRY, 0);
    say(&b, FN_TRY, 1);
    end_after(try_now(), 11, 10); /* both runners are known: 1 ms */
    say(&a, FN_TRY, 1);
    end_after(try_now(), 11, 10);
    say(&a, FN_TRY, 0);
    end_after(try_now(), 11, 10); /* idle, warm */
    for (int i = 0; i < 6; i++) {
        calls[i] = try_now(); /* loads 0, 1, 2, 3-4, 5-8 */
    }
    fake_env_advance(env, 100 * ENV_MS);
    for (int i = 0; i < 6; i++) {
        calls[i]->execution_ns = (100 - 10 * i) * ENV_MS; /* waits 0, 10, 20 ... */
        end(calls[i]);
    }
    for (int i = 0; i < 5; i++) {
        calls[i] = try_now();
    }
    shadow(&c, 1000); /* counts begin anew, what was learnt stays */
    say(&c, FN_TRY, 1);
    calls[5] = try_now();
    ck_assert_uint_eq(status().n.predicted, 1);
    ck_assert_int_eq(status().n.wait_ns[PLACE_SERVING], 50 * ENV_MS);
    ck_assert_int_le(status().n.wait_ns[PLACE_SHADOW], 1 * ENV_MS);
    for (int i = 0; i < 6; i++) {
        end(calls[i]);
    }
}
END_TEST

/* Nothing is learnt of calls that failed, whose runner tells no execution, or without a shadow. */
START_TEST(waits_are_learnt_of_good_calls_only)
{
    struct place_call *pc;

    publish(1);
    end_after(try_now(), 30, 10);
    shadow(&b, 1000);
    end_after(try_now(), 30, 0);
    pc = try_now();
    fake_env_advance(env, 30 * ENV_MS);
    pc->execution_ns = ENV_MS;
    place_ended(pc, FN_DONE_FAILED);
    free(pc);
    ck_assert_uint_eq(status().n.measured, 0);
    end_after(try_now(), 10, 30); /* a runner whose clock is fast */
    ck_assert_uint_eq(status().n.measured, 1);
    ck_assert_int_eq(status().n.measured_ns, 0);
}
END_TEST

/* What a reload does: new ones while a call of the old ones runs, also when they were swapped. */
START_TEST(owners_hear_when_the_last_round_is_over)
{
    struct place_call *pc;

    publish(2);
    shadow(&b, 1000);
    ck_assert_int_eq(place_shadow_swap(place, false, NULL), 0);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY); /* b serves, a is the shadow */
    ck_assert_int_eq(place_set_placer(place, &c.plugin, on_gone, &c), 0);
    ck_assert(!status().swapped);
    ck_assert_str_eq(status().serving, "c");
    ck_assert_str_eq(status().shadow, "a");
    shadow(NULL, 1);
    fake_env_settle(env);
    ck_assert_uint_eq(a.gone + b.gone, 0); /* its list has indexes of both */
    ck_assert_int_eq(c.indexes, 1);
    ck_assert_ptr_null(status().shadow);
    end(pc);
    fake_env_settle(env);
    ck_assert_uint_eq(a.gone, 1);
    ck_assert_uint_eq(b.gone, 1);
    ck_assert_uint_eq(c.gone, 0);
    call_for("f");
}
END_TEST

START_TEST(random_walks)
{
    struct place_call *calls[8] = { NULL };
    struct brain *all[] = { &b, &c };
    uint64_t seed = 12345;
    uint32_t uses = 0;

    for (int step = 0; step < 20000; step++) {
        uint32_t what, i;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        what = (uint32_t)(seed >> 33) % 100;
        i = (uint32_t)(seed >> 40) % 8;
        if (what < 60 && !calls[i]) {
            calls[i] = begin();
            if (place_next(calls[i]) != PLACE_TRY) {
                place_leave(calls[i]);
                free(calls[i]);
                calls[i] = NULL;
            }
        } else if (what < 90 && calls[i]) {
            end(calls[i]);
            calls[i] = NULL;
        } else if (what < 93) {
            publish(i);
        } else if (what < 95) {
            place_shadow_swap(place, i & 1, NULL);
        } else if (what < 96) {
            shadow(NULL, 1);
        } else if (what < 97 && uses < 2) {
            shadow(all[uses++], i < 4 ? 1000 : 500);
        }
        fake_env_settle(env);
        ck_assert_uint_le(b.gone, 1);
        ck_assert_uint_le(c.gone, 1);
    }
    for (int i = 0; i < 8; i++) {
        if (calls[i]) {
            end(calls[i]);
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        it_is_asked_first_questions_only_and_decides_nothing,
        a_share_of_calls_is_sampled,
        it_sees_what_the_pool_says_of_its_list,
        answers_are_compared_by_verdict,
        picks_are_judged_by_what_runners_did_lately,
        load_at_the_runners_named_is_summed,
        moves_of_homes_are_counted_for_both,
        its_wakes_wake_nobody,
        many_functions_need_no_more_memory,
        a_slow_shadow_is_turned_off,
        a_shadow_that_answers_nonsense_is_turned_off,
        swap_and_back,
        a_parked_call_begins_anew_with_the_one_swapped_in,
        waits_are_predicted_from_what_was_measured, waits_depend_on_the_load,
        waits_are_learnt_of_good_calls_only,
        owners_hear_when_the_last_round_is_over,
        random_walks,
    };
    Suite *s = suite_create("shadow");
    TCase *tc = tcase_create("shadow");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
