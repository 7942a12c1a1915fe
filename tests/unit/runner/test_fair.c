/* Functions that would all use the whole runner: what each of them gets, and when. A cold start
 * takes 65 ms here, a removal 20. */
#include "../lib/sanitized.h"
#include "suites.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_MS  20
#define RETRY_MS 100 /* what a refusal tells */
#define MS_OF(ns) ((int)((ns) / ENV_MS))
#define TURN_MS  MS_OF(FAIR_TURN_NS)
#define START_MS 320 /* removal, return and start, with some room */
#define CLIENTS_MAX 40
#define LOADS_MAX 8

struct client {
    struct engage_session *s;
    int64_t next_ns;
};

/* A function with so many callers, each of whom calls again when his call ended, and a while later
 * when it was refused. */
struct load {
    const char *app, *fn;
    int mem_mb;
    int callers;
    int run_ms, run_more_ms; /* up to so much more, at random */
    const char *what;        /* NULL: they take run_ms */
    struct client clients[CLIENTS_MAX];
    int64_t asked_ns; /* since when it asks without a run */
    int64_t longest_ns; /* without a run */
    unsigned ok, failed, refused;
};

static uint64_t random_state;

static uint32_t draw(uint32_t n)
{
    random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)((random_state >> 33) % n);
}

static void ended(struct world *w, struct load *l, struct client *c)
{
    const struct engage_session *s = c->s;

    ck_assert(s->success || s->code == 503 || l->what);
    l->ok += s->success;
    l->refused += s->code == 503;
    l->failed += !s->success && s->code != 503;
    c->next_ns = s->success ? w->f->now : w->f->now + RETRY_MS * ENV_MS;
    c->s = NULL;
}

static void note_wait(struct world *w, struct load *l)
{
    int64_t now = w->f->now;
    bool runs = l->callers == 0;

    for (int i = 0; i < l->callers; i++) {
        runs |= l->clients[i].s && l->clients[i].s->executions > 0;
    }
    if (runs) {
        l->asked_ns = now;
    }
    l->asked_ns = l->asked_ns ? l->asked_ns : now;
    if (now - l->asked_ns > l->longest_ns) {
        l->longest_ns = now - l->asked_ns;
    }
}

static void load_step(struct world *w, struct load *l)
{
    char what[24];

    for (int i = 0; i < l->callers; i++) {
        struct client *c = &l->clients[i];

        if (c->s && c->s->finishes) {
            ended(w, l, c);
        }
        if (!c->s && w->f->now >= c->next_ns) {
            snprintf(what, sizeof(what), "ms-%d",
                     l->run_ms + (l->run_more_ms ? (int)draw((uint32_t)l->run_more_ms) : 0));
            c->s = world_call(w, (struct call_spec){ .app = l->app, .fn = l->fn,
                                                     .mem_mb = l->mem_mb,
                                                     .what = l->what ? l->what : what });
        }
    }
    note_wait(w, l);
}

static void loads_run(struct world *w, struct load *loads, int n, int ms)
{
    for (int at = 0; at < ms; at += STEP_MS) {
        for (int i = 0; i < n; i++) {
            load_step(w, &loads[i]);
        }
        world_run_ms(w, STEP_MS);
    }
}

static unsigned containers(struct world *w, const struct load *l)
{
    struct container *c, *next;
    unsigned n = 0;

    HASH_ITER(hh, w->r->containers, c, next) {
        n += c->state < CTR_CLOSE && strcmp(c->task.fn_id, l->fn) == 0 &&
             strcmp(c->task.app_id, l->app) == 0;
    }
    return n;
}

static unsigned closed(void)
{
    return (unsigned)metric_value(metric_simple("fn_runner_fair_closed_total", METRIC_COUNTER, ""));
}

static int functions_of(const char *app, const struct load loads[LOADS_MAX])
{
    int n = 0;

    for (int i = 0; i < LOADS_MAX; i++) {
        n += loads[i].callers > 0 && strcmp(loads[i].app, app) == 0;
    }
    return n;
}

static void eight_places(struct world *w)
{
    w->totals.mem_bytes = 8 * 128 * ACCOUNT_MIB;
    w->opt.freeze_idle_ns = -1;
}

static void one_place(struct world *w)
{
    eight_places(w);
    w->totals.mem_bytes = 128 * ACCOUNT_MIB;
}

/* The bound of docs/runner.md, so many times. */
static void ck_in_time(const struct load *l, int longest_run_ms, int times)
{
    int most = times * (TURN_MS + longest_run_ms + START_MS);

    ck_assert_msg(MS_OF(l->longest_ns) <= most, "%s of %s waited %d ms; expected %d at most", l->fn,
                  l->app, MS_OF(l->longest_ns), most);
}

/* ---- who has none -------------------------------------------------------------------------- */

START_TEST(a_small_function_beside_one_with_a_backlog)
{
    struct load big = { .app = "a", .fn = "big", .callers = 24, .run_ms = 300 };
    struct load small = { .app = _i ? "a" : "b", .fn = "small", .callers = 1, .run_ms = 20 };
    struct world *w = world_create(eight_places);
    unsigned before = closed();

    loads_run(w, &big, 1, 3000);
    ck_assert_uint_eq(containers(w, &big), 8);
    ck_assert_uint_eq(closed(), before);
    for (int i = 0; i < 250; i++) {
        load_step(w, &big);
        load_step(w, &small);
        world_run_ms(w, STEP_MS);
    }
    ck_assert_uint_gt(small.ok, 100);
    ck_in_time(&small, 300, 1);
    ck_assert_uint_eq(containers(w, &big), 7); /* and no more than that */
    ck_assert_uint_eq(closed(), before + 1);
    world_destroy(w);
}
END_TEST

START_TEST(nobody_gives_for_a_call_that_does_not_come_back)
{
    struct load big = { .app = "a", .fn = "big", .callers = 24, .run_ms = 300 };
    struct world *w = world_create(eight_places);
    struct engage_session *s;
    unsigned before = closed();

    loads_run(w, &big, 1, 3000);
    for (int i = 0; i < 3; i++) { /* three at once, long after each other */
        s = world_call(w, (struct call_spec){ .app = "b", .fn = "small" });
        world_call(w, (struct call_spec){ .app = "b", .fn = "small" });
        ck_assert_int_eq(s->code, 503);
        ck_assert_int_eq(s->refusal.reason, ENGAGE_REASON_ROOM);
        ck_assert_uint_eq(world_counts(w).queues, 2); /* what it asked is kept in mind */
        loads_run(w, &big, 1, 6000);
        ck_assert_uint_eq(world_counts(w).queues, 1);
    }
    ck_assert_uint_eq(closed(), before);
    world_destroy(w);
}
END_TEST

/* Room that was made for somebody who has gone. */
START_TEST(what_is_promised_comes_back)
{
    struct load big = { .app = "a", .fn = "big", .callers = 24, .run_ms = 300 };
    struct load small = { .app = "b", .fn = "small", .callers = 1, .run_ms = 20 };
    struct world *w = world_create(eight_places);
    unsigned before = closed();

    loads_run(w, &big, 1, 3000);
    world_call(w, (struct call_spec){ .app = "b", .fn = "small" });
    loads_run(w, &big, 1, 200);
    world_call(w, (struct call_spec){ .app = "b", .fn = "small" });
    loads_run(w, &big, 1, 2000);
    ck_assert_uint_eq(closed(), before + 1);
    ck_assert_uint_eq(containers(w, &big), 7);
    ck_assert_uint_eq(w->r->reserving.mem_bytes, 128 * ACCOUNT_MIB);
    loads_run(w, &big, 1, MS_OF(FAIR_CLAIM_NS));
    ck_assert_uint_eq(containers(w, &big), 8);
    ck_assert_uint_eq(w->r->reserving.mem_bytes, 0);
    loads_run(w, &small, 1, 100);
    world_destroy(w);
}
END_TEST

START_TEST(one_place_goes_round)
{
    struct load loads[] = { { .app = "a", .fn = "f", .callers = 4, .run_ms = 100 },
                            { .app = "b", .fn = "f", .callers = 4, .run_ms = 100 },
                            { .app = "b", .fn = "g", .callers = 4, .run_ms = 100 } };
    struct world *w = world_create(one_place);
    unsigned before = closed();

    loads_run(w, loads, 3, 24000);
    ck_assert_uint_le(closed() - before, 24000 / TURN_MS); /* nobody has less than a turn */
    ck_assert_uint_ge(closed() - before, 24000 / (TURN_MS + 100 + START_MS) - 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_gt(loads[i].ok, 40);
        ck_assert_int_lt(MS_OF(loads[i].longest_ns), 2 * (TURN_MS + 100 + START_MS) + TURN_MS);
    }
    world_destroy(w);
}
END_TEST

/* It needs four containers of others, who have no more than two each. */
START_TEST(one_that_needs_much_collects)
{
    struct load loads[] = { { .app = "a", .fn = "f", .callers = 8, .run_ms = 700 },
                            { .app = "b", .fn = "f", .callers = 8, .run_ms = 700 },
                            { .app = "c", .fn = "f", .callers = 8, .run_ms = 700 },
                            { .app = "d", .fn = "f", .callers = 8, .run_ms = 700 },
                            { .app = "e", .fn = "large", .callers = 1, .run_ms = 50,
                              .mem_mb = 512 } };
    struct world *w = world_create(eight_places);

    loads_run(w, loads, 4, 12000);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(containers(w, &loads[i]), 2);
    }
    loads_run(w, loads, 5, 5000);
    ck_assert_uint_gt(loads[4].ok, 0);
    ck_in_time(&loads[4], 2 * 700, 1);
    world_destroy(w);
}
END_TEST

/* What another function of its app has left behind is idle, and not enough. */
START_TEST(what_is_idle_is_no_share)
{
    struct load left = { .app = "a", .fn = "left", .callers = 1, .run_ms = 20 };
    struct load big = { .app = "b", .fn = "big", .callers = 8, .run_ms = 300, .mem_mb = 896 };
    struct load small = { .app = "a", .fn = "small", .callers = 1, .run_ms = 20, .mem_mb = 256 };
    struct world *w = world_create(eight_places);

    loads_run(w, &left, 1, 100);
    loads_run(w, &big, 1, 3000);
    ck_assert_uint_eq(containers(w, &left), 1);
    ck_assert_uint_eq(containers(w, &big), 1);
    for (int i = 0; i < 250; i++) {
        load_step(w, &big);
        load_step(w, &small);
        world_run_ms(w, STEP_MS);
    }
    ck_assert_uint_gt(small.ok, 0);
    ck_in_time(&small, 300, 1);
    world_destroy(w);
}
END_TEST

/* ---- who has less -------------------------------------------------------------------------- */

/* Memory for many, processors for eight: that is what is short. */
static void eight_by_default(struct world *w)
{
    eight_places(w);
    w->totals = (struct account_totals){ 64 * 128 * ACCOUNT_MIB, 2000, 250 };
}

static void ck_split(void (*tune)(struct world *w), struct load *loads, int n,
                     const unsigned *expected)
{
    struct world *w = world_create(tune);
    unsigned before;

    loads_run(w, loads, 1, 3000);
    ck_assert_uint_eq(containers(w, &loads[0]), 8);
    loads_run(w, loads, n, 8000);
    before = closed();
    loads_run(w, loads, n, 8000);
    for (int i = 0; i < n; i++) {
        ck_assert_msg(containers(w, &loads[i]) == expected[i], "%d: %u containers; expected %u", i,
                      containers(w, &loads[i]), expected[i]);
    }
    ck_assert_uint_eq(closed(), before); /* it is calm */
    world_destroy(w);
}

START_TEST(functions_of_an_app_end_with_as_much)
{
    struct load loads[] = { { .app = "a", .fn = "f", .callers = 24, .run_ms = 300 },
                            { .app = "a", .fn = "g", .callers = 24, .run_ms = 200 } };

    ck_split(eight_places, loads, 2, (const unsigned[]){ 4, 4 });
}
END_TEST

/* An app does not get more by having more functions. */
START_TEST(apps_share_before_functions_do)
{
    struct load loads[] = { { .app = "a", .fn = "f", .callers = 24, .run_ms = 300 },
                            { .app = "b", .fn = "f", .callers = 24, .run_ms = 200 },
                            { .app = "b", .fn = "g", .callers = 24, .run_ms = 200 } };

    ck_split(eight_places, loads, 3, (const unsigned[]){ 4, 2, 2 });
}
END_TEST

START_TEST(shares_are_of_memory)
{
    struct load loads[] = { { .app = "a", .fn = "f", .callers = 24, .run_ms = 300 },
                            { .app = "b", .fn = "f", .callers = 24, .run_ms = 200,
                              .mem_mb = 64 } };

    ck_split(eight_places, loads, 2, (const unsigned[]){ 4, 8 });
}
END_TEST

START_TEST(shares_are_of_processors)
{
    struct load loads[] = { { .app = "a", .fn = "f", .callers = 24, .run_ms = 300 },
                            { .app = "b", .fn = "f", .callers = 24, .run_ms = 200,
                              .mem_mb = 1024 } };

    ck_split(eight_by_default, loads, 2, (const unsigned[]){ 4, 4 });
}
END_TEST

/* Seven and one are not equal, but who wants one has it. */
START_TEST(who_is_content_is_left_alone)
{
    struct load loads[] = { { .app = "a", .fn = "f", .callers = 24, .run_ms = 300 },
                            { .app = "b", .fn = "f", .callers = 1, .run_ms = 20 } };

    ck_split(eight_places, loads, 2, (const unsigned[]){ 7, 1 });
}
END_TEST

/* ---- who misbehaves ------------------------------------------------------------------------ */

/* Its container ends with each call, so that none is ever idle. */
START_TEST(what_a_crash_leaves_is_shared_too)
{
    struct load big = { .app = "a", .fn = "big", .callers = 24, .what = "crash" };
    struct load small = { .app = "b", .fn = "small", .callers = 1, .run_ms = 20 };
    struct world *w = world_create(eight_places);

    loads_run(w, &big, 1, 3000);
    for (int i = 0; i < 250; i++) {
        load_step(w, &big);
        load_step(w, &small);
        world_run_ms(w, STEP_MS);
    }
    ck_assert_uint_gt(small.ok, 100);
    ck_in_time(&small, 100, 1);
    world_destroy(w);
}
END_TEST

START_TEST(who_does_not_start_may_not_go_on)
{
    struct load big = { .app = "a", .fn = "big", .callers = 24, .run_ms = 300 };
    struct world *w = world_create(eight_places);
    unsigned before = closed();

    loads_run(w, &big, 1, 3000);
    for (int i = 0; i < 220; i++) {
        world_call(w, (struct call_spec){ .app = "b", .fn = "bad", .image = "exits" });
        loads_run(w, &big, 1, 100);
    }
    ck_assert_uint_le(closed() - before, 1 + 22000 * ENV_MS / FAIR_BAR_NS);
    ck_assert_uint_gt(closed() - before, 1);
    world_destroy(w);
}
END_TEST

START_TEST(claims_are_a_bounded_number)
{
    struct load big = { .app = "a", .fn = "big", .callers = 24, .run_ms = 5000 };
    struct world *w = world_create(eight_places);
    char app[24], fn[24];

    loads_run(w, &big, 1, 3000);
    for (int i = 0; i < 2 * (int)FAIR_CLAIMS_MAX; i++) {
        snprintf(app, sizeof(app), "app%d", i / 32);
        snprintf(fn, sizeof(fn), "fn%d", i);
        world_call(w, (struct call_spec){ .app = app, .fn = fn });
        ck_assert_uint_le(w->r->fair.n_claims, 1 + FAIR_CLAIMS_OF_APP_MAX * (1 + (unsigned)i / 32));
    }
    ck_assert_uint_le(w->r->fair.n_claims, FAIR_CLAIMS_MAX);
    ck_assert_uint_ge(w->r->fair.n_claims, FAIR_CLAIMS_MAX - 1);
    loads_run(w, &big, 1, 6000);
    ck_assert_uint_le(w->r->fair.n_claims, 1);
    ck_assert_uint_eq(world_counts(w).queues, 1);
    world_destroy(w);
}
END_TEST

/* ---- anything ------------------------------------------------------------------------------ */

/* Functions of random sizes with random numbers of callers; one container of each fits. Those of an
 * app may take turns in what its share has room for. world_run_ms() checks the account, the
 * sessions that nothing is interrupted. */
START_TEST(whoever_asks_is_served_in_time)
{
    static const char *const apps[] = { "a", "a", "a", "b", "b", "c", "d", "e" };
    static const char *const fns[] = { "f", "g", "h", "f", "g", "f", "f", "f" };
    struct load loads[LOADS_MAX] = { { 0 } };
    struct world *w = world_create(eight_places);
    int longest_ms = 0, mem_mb = 0;

    random_state = (uint64_t)_i * 7919 + 17;
    for (int i = 0; i < LOADS_MAX; i++) {
        int left_mb = 1024 - mem_mb - 64 * (LOADS_MAX - 1 - i);
        int own_mb = 64 << draw(3);

        loads[i] = (struct load){ .app = apps[i], .fn = fns[i],
                                  .mem_mb = own_mb < left_mb ? own_mb : 64,
                                  .run_ms = 10 + (int)draw(400), .run_more_ms = (int)draw(400) };
        mem_mb += loads[i].mem_mb;
        if (loads[i].run_ms + loads[i].run_more_ms > longest_ms) {
            longest_ms = loads[i].run_ms + loads[i].run_more_ms;
        }
    }
    for (int round = 0; round < 12; round++) {
        struct load *l = &loads[draw(LOADS_MAX)];

        if (l->callers == 0) {
            l->callers = 1 + (int)draw(draw(2) ? 4 : CLIENTS_MAX - 1);
        }
        loads_run(w, loads, LOADS_MAX, 500 + (int)draw(2500));
    }
    loads_run(w, loads, LOADS_MAX, 6000);
    for (int i = 0; i < LOADS_MAX; i++) {
        ck_assert(loads[i].callers == 0 || loads[i].ok > 0);
        ck_in_time(&loads[i], longest_ms, 1 + functions_of(loads[i].app, loads));
    }
    world_destroy(w);
}
END_TEST

TCase *fair_tests(void)
{
    TCase *t = tcase_create("fair");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_small_function_beside_one_with_a_backlog, 0, 2);
    tcase_add_test(t, nobody_gives_for_a_call_that_does_not_come_back);
    tcase_add_test(t, what_is_promised_comes_back);
    tcase_add_test(t, one_place_goes_round);
    tcase_add_test(t, one_that_needs_much_collects);
    tcase_add_test(t, what_is_idle_is_no_share);
    tcase_add_test(t, functions_of_an_app_end_with_as_much);
    tcase_add_test(t, apps_share_before_functions_do);
    tcase_add_test(t, shares_are_of_memory);
    tcase_add_test(t, shares_are_of_processors);
    tcase_add_test(t, who_is_content_is_left_alone);
    tcase_add_test(t, what_a_crash_leaves_is_shared_too);
    tcase_add_test(t, who_does_not_start_may_not_go_on);
    tcase_add_test(t, claims_are_a_bounded_number);
    tcase_add_loop_test(t, whoever_asks_is_served_in_time, 0, RANDOM_ROUNDS(5));
    return t;
}
