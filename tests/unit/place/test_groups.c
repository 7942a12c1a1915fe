/* Placement: which groups exist: made by calls and lists, given up when nobody needs them, and
 * never so many that one app's names keep the others out. */
#include "world.h"

#include <base/buf.h>
#include <base/metric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t groups(void)
{
    struct place_counts n;

    place_count(place, &n);
    return n.groups;
}

/* A call of this app to this group. */
static struct place_call *call_to(const char *app, const char *group)
{
    struct place_call *pc = calloc(1, sizeof(*pc));

    pc->view = (struct fn_call){ .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL), .id = "c",
                                 .fn_id = "f", .app_id = app, .lb_group = group, .mem_mb = 128 };
    pc->deadline_ns = env->now + 3600 * ENV_S;
    pc->on_wake = on_wake;
    place_begin(place, pc);
    return pc;
}

static const char *name(const char *what, uint32_t i)
{
    static char text[32];

    snprintf(text, sizeof(text), "%s%u", what, i);
    return text;
}

/* Before, 256 names that calls had used once were all there ever were. Series of metrics are for
 * ever: a name has none. */
START_TEST(idle_groups_make_room)
{
    struct buf page = BUF_INIT(0);

    for (uint32_t i = 0; i < 2 * PLACE_GROUPS_MAX; i++) {
        struct place_call *pc = call_to(name("app", i), name("g", i));

        ck_assert_int_eq(place_next(pc), PLACE_PARKED);
        leave(pc);
        fake_env_advance(env, ENV_S / 10);
    }
    ck_assert_uint_le(groups(), PLACE_EMPTY_MAX);
    ck_assert_int_eq(metric_print(&page), 0);
    ck_assert_ptr_null(strstr(buf_text(&page), "group=\"app7\""));
    buf_finish(&page);
}
END_TEST

/* What a node's readiness goes by. */
START_TEST(only_the_pool_says_that_a_group_is_empty)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_error why = ERR_INIT;
    struct place_counts n;

    leave(call_to("a", "made-up"));
    place_count(place, &n);
    ck_assert_uint_eq(n.groups, 2);
    ck_assert_uint_eq(n.groups_empty, 0);
    publish("default", (const char *const[]){ NULL });
    place_count(place, &n);
    ck_assert_uint_eq(n.groups_empty, 1);
    err_set(&why, FN_E_UNAVAILABLE, "no list");
    ck_assert_int_eq((snap->fail)(&pool.host, "default", &why), 0);
    place_count(place, &n);
    ck_assert_uint_eq(n.groups_empty, 0);
    ck_assert_uint_eq(n.groups_stale, 1);
    PUBLISH("r1:1");
    place_count(place, &n);
    ck_assert_uint_eq(n.groups_empty + n.groups_stale, 0);
}
END_TEST

START_TEST(groups_in_use_stay)
{
    struct place_call *waiting = call_to("a", "w");
    struct place_call *trying;

    publish("t", (const char *const[]){ "t1:1", NULL });
    trying = call_to("a", "t");
    ck_assert_int_eq(place_next(trying), PLACE_TRY);
    waiting->on_wake = ask_again;
    ck_assert_int_eq(place_next(waiting), PLACE_PARKED);
    for (uint32_t i = 0; i < 2 * PLACE_GROUPS_MAX; i++) {
        leave(call_to(name("app", i), name("g", i)));
        fake_env_advance(env, ENV_S / 10);
    }
    publish("w", (const char *const[]){ "w1:1", NULL });
    fake_env_advance(env, ENV_S);
    ck_assert_int_eq(last_verdict, PLACE_TRY);
    end(waiting);
    end(trying);
}
END_TEST

/* One app's names are no limit of others, and the sentence says what is. */
START_TEST(an_app_has_a_share_of_the_groups_without_runners)
{
    struct place_call *held[PLACE_EMPTY_APP_MAX];
    struct place_call *pc;

    for (uint32_t i = 0; i < PLACE_EMPTY_APP_MAX; i++) {
        held[i] = call_to("evil", name("e", i));
        ck_assert_int_eq(place_next(held[i]), PLACE_PARKED);
    }
    pc = call_to("evil", "one-more");
    ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
    ck_assert_str_eq(pc->error.msg, "LB301 no runner: the call's group is new, and too many groups "
                                    "without runners are in use by calls of this app");
    ck_assert_int_eq(pc->error.http_status, 503);
    leave(pc);
    pc = call_to("quiet", "one-more");
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    leave(pc);
    for (uint32_t i = 0; i < PLACE_EMPTY_APP_MAX; i++) {
        leave(held[i]);
    }
    fake_env_advance(env, 3 * ENV_S);
    pc = call_to("evil", "another");
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    leave(pc);
}
END_TEST

/* However many apps name groups, a pool's lists find room. */
START_TEST(lists_have_room_of_their_own)
{
    struct place_call *held[PLACE_EMPTY_MAX];
    struct place_call *pc;
    uint32_t n = 0;

    while (groups() < PLACE_EMPTY_MAX) {
        held[n] = call_to(name("app", n), name("g", n));
        ck_assert_int_eq(place_next(held[n]), PLACE_PARKED);
        n++;
    }
    pc = call_to("late", "late");
    ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
    ck_assert_str_eq(pc->error.msg, "LB301 no runner: the call's group is new, and too many groups "
                                    "without runners are in use");
    leave(pc);
    for (uint32_t i = 0; groups() < PLACE_GROUPS_MAX; i++) {
        ck_assert_int_eq(publish(name("listed", i), (const char *const[]){ "r:1", NULL }), 0);
    }
    ck_assert_int_eq(publish("listed-late", (const char *const[]){ "r:1", NULL }), FN_E_EXHAUSTED);
    while (n > 0) {
        leave(held[--n]);
    }
    fake_env_advance(env, 3 * ENV_S);
    ck_assert_int_eq(publish("listed-late", (const char *const[]){ "r:1", NULL }), 0);
}
END_TEST

/* Calls of an app wait in the groups that it names, and all of them have its share of the places. */
START_TEST(an_app_has_one_share_in_all_groups)
{
    struct place_options options = { 10 * ENV_MS, ENV_S, 10, 10 * ENV_S, 0 };
    struct place_call *held[9], *pc;

    place_set_options(place, &options);
    for (int round = 0; round < 2; round++) {
        uint32_t n = 0;

        while (n < 8) {
            held[n] = call_to("evil", name("e", n % 4));
            ck_assert_int_eq(place_next(held[n++]), PLACE_PARKED);
        }
        for (uint32_t i = 0; i < 5; i++) {
            pc = call_to("evil", name("e", i));
            ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
            ck_assert_str_eq(pc->error.msg, "LB305 too many calls of this app wait for a runner");
            leave(pc);
        }
        held[n] = call_to("quiet", "e0");
        ck_assert_int_eq(place_next(held[n++]), PLACE_PARKED);
        while (n > 0) {
            leave(held[--n]);
        }
    }
}
END_TEST

TCase *groups_tests(void)
{
    const TTest *const tests[] = { idle_groups_make_room,
                                   only_the_pool_says_that_a_group_is_empty,
                                   groups_in_use_stay,
                                   an_app_has_a_share_of_the_groups_without_runners,
                                   lists_have_room_of_their_own,
                                   an_app_has_one_share_in_all_groups };

    return world_case("groups", tests, sizeof(tests) / sizeof(tests[0]));
}
