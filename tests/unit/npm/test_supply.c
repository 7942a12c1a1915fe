/* What is bought: demand, requests and their limits, the predictor. */
#include "group.h"

#include <string.h>

START_TEST(nothing_is_bought_before_it_settled)
{
    pass(9, 5000);
    ck_assert_uint_eq(cloud.provisions, 0);
    pass(4, 5000);
    ck_assert_uint_eq(cloud.provisions, 1);
    ck_assert_uint_eq(cloud.asked, 2);
    pass(3, 5000);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_ge(cloud.publishes, 1);
    pass(60, 5000);
    ck_assert_uint_eq(cloud.asked, 2);
}
END_TEST

/* F24, M2: what is there already counts. */
START_TEST(a_restart_buys_no_second_fleet)
{
    cloud_add();
    cloud_add();
    pass(60, 2 * RUNNER_MB);
    ck_assert_uint_eq(cloud.asked, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
}
END_TEST

/* F28: another manager acts for the group. What it does is used, and nothing is added to it. */
START_TEST(a_manager_that_stands_by_adds_and_removes_nothing)
{
    cloud.others = true;
    cloud_add();
    cloud_add();
    pass(60, 5 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert(figures().standby);
    pass(200, 0); /* beyond the cool-down */
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_eq(cloud.provisions, 0);
    ck_assert_uint_eq(cloud.removes, 0);
    cloud.others = false;
    pass(200, 0);
    ck_assert(!figures().standby);
    ck_assert_uint_eq(cloud.removes, 2);
    pass(10, RUNNER_MB);
    ck_assert_uint_eq(cloud.provisions, 1);
}
END_TEST

static enum npm_host_state state_of(const char *id)
{
    return npm_host_find(group, id)->state;
}

/* One that this manager alone cannot reach serves the load balancers of the one that acts, and
 * its own: it was drained, and removed when this manager acted. */
START_TEST(a_manager_that_stands_by_gives_up_no_silent_runner)
{
    cloud.others = true;
    cloud_add();
    pass(20, RUNNER_MB);
    cloud.active = 3;
    cloud.silent_runners = true;
    pass(500, RUNNER_MB);
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE);
    cloud.others = false;
    pass(50, RUNNER_MB); /* how long it was silent before does not count */
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE);
    cloud.silent_runners = false;
    pass(400, RUNNER_MB);
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE);
    ck_assert_uint_eq(notes[NPM_NOTE_DRAINING], 0);
    ck_assert_uint_eq(cloud.removes, 0);
}
END_TEST

START_TEST(a_manager_that_stands_by_gives_up_none_that_boots)
{
    cloud.others = true;
    cloud.silent_runners = true;
    cloud_add();
    cloud_add();
    pass(700, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_BOOTING], 2);
    cloud.others = false;
    pass(40, 2 * RUNNER_MB);
    cloud.silent_runners = false;
    pass(20, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_eq(notes[NPM_NOTE_BOOT_FAILED], 0);
    ck_assert_uint_eq(cloud.removes, 0);
}
END_TEST

/* Its control plane gives groups for a while: what it began to drain is the other one's now. */
START_TEST(a_manager_that_stands_by_gives_back_what_it_drains)
{
    pass(20, 3 * RUNNER_MB);
    cloud.active = 1;
    step((struct npm_event){ .kind = NPM_DRAIN, .id = "m0" });
    pass(65, 0);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 3);
    cloud.others = true;
    pass(400, 0);
    ck_assert_int_eq(state_of("m0"), NPM_DRAINING); /* the operator's */
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    cloud.active = 0;
    pass(10, 0);
    cloud.others = false;
    pass(20, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_eq(cloud.removes, 0);
}
END_TEST

/* M4: asked capacity that never comes is asked again, at most NPM_EXPIRED_MAX times at full
 * speed. */
START_TEST(a_request_that_brings_nothing_expires)
{
    cloud.lost = true;
    pass(20, RUNNER_MB);
    ck_assert_uint_eq(cloud.provisions, 1);
    pass(280, RUNNER_MB);
    ck_assert_uint_eq(cloud.provisions, 1);
    ck_assert_uint_eq(figures().asked_n, 1);
    pass(30, RUNNER_MB);
    ck_assert_uint_eq(cloud.provisions, 2);
    pass(620, RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_REQUEST_ALARM], 1);
}
END_TEST

/* F29, F30: the same request again, ever more slowly, under the same id. */
START_TEST(a_failing_control_plane_is_asked_ever_more_slowly)
{
    uint64_t id;

    cloud.provision_fails = cloud.unknown = true;
    pass(20, RUNNER_MB);
    id = cloud.last_request;
    ck_assert_uint_ge(cloud.provisions, 2);
    pass(270, RUNNER_MB);
    ck_assert_uint_le(cloud.provisions, 11);
    ck_assert_uint_eq(cloud.last_request, id);
    ck_assert_uint_gt(figures().cplane_away, 3);
    cloud.provision_fails = false;
    pass(70, RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
    ck_assert_uint_eq(figures().cplane_away, 0);
}
END_TEST

/* It was told to make three, said nothing and made one: asked again, it is told of three again, since it
 * names its machines by their place in the request. */
START_TEST(a_repeated_request_is_the_same_to_the_letter)
{
    uint64_t id;

    cloud.provision_fails = cloud.unknown = true;
    cloud.made_all_the_same = 1;
    pass(12, 3 * RUNNER_MB);
    id = cloud.last_request;
    pass(30, 3 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
    ck_assert_uint_eq(cloud.last_request, id);
    ck_assert_uint_eq(cloud.last_n, 3);
    ck_assert_uint_eq(figures().asked_n, 2);
}
END_TEST

/* A clear no may be followed by a request of another size, under a name of its own. */
START_TEST(a_refused_request_may_change)
{
    uint64_t id;

    cloud.provision_fails = true;
    pass(12, 3 * RUNNER_MB);
    id = cloud.last_request;
    ck_assert_uint_eq(cloud.last_n, 3);
    ck_assert_uint_gt(figures().cplane_failures, 0);
    ck_assert_uint_eq(figures().cplane_away, 0);
    pass(60, RUNNER_MB);
    ck_assert_uint_ne(cloud.last_request, id);
    ck_assert_uint_eq(cloud.last_n, 1);
}
END_TEST

START_TEST(partial_deliveries_are_completed)
{
    cloud.deliver_max = 1;
    pass(30, 3 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
    ck_assert_uint_eq(cloud.n, 3);
}
END_TEST

/* S1, F32. */
START_TEST(the_maximum_holds_and_the_rest_is_foreign)
{
    pass(30, 1000 * RUNNER_MB);
    ck_assert_uint_eq(cloud.asked, 10);
    step((struct npm_event){ .kind = NPM_DEMAND, .id = "lb2", .mb = 1 });
    ck_assert_uint_eq(notes[NPM_NOTE_AT_MAX], 1);
    for (int i = 0; i < 3; i++) {
        cloud_add();
    }
    pass(5, 1000 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_FOREIGN], 3);
    pass(200, 0);
    ck_assert_uint_eq(cloud.removes, 10);
}
END_TEST

START_TEST(the_budget_of_all_groups_holds)
{
    budget.runners_max = 3;
    pass(30, 5 * RUNNER_MB);
    ck_assert_uint_eq(cloud.asked, 3);
}
END_TEST

/* S8, M10, M11. */
START_TEST(garbage_demand_is_clamped_and_hurts_nobody)
{
    static const uint64_t garbage[] = { 0, 1, 1ull << 31, (1ull << 63) - 1, 1ull << 63,
                                        UINT64_MAX };

    pass(20, 2 * RUNNER_MB);
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        step((struct npm_event){ .kind = NPM_DEMAND, .id = "mad", .mb = garbage[i] });
        ck_assert_uint_ge(figures().wanted_mb, 2 * RUNNER_MB);
        ck_assert_uint_le(figures().wanted_mb, 12 * RUNNER_MB);
    }
    ck_assert_uint_ge(notes[NPM_NOTE_DEMAND_CLAMPED], 1);
    pass(11, 2 * RUNNER_MB); /* the mad one is forgotten */
    ck_assert_uint_eq(figures().wanted_mb, 2 * RUNNER_MB);
}
END_TEST

START_TEST(an_overtaken_word_is_dropped)
{
    step((struct npm_event){ .kind = NPM_DEMAND, .id = "x", .seq = 5, .mb = 100 });
    step((struct npm_event){ .kind = NPM_DEMAND, .id = "x", .seq = 4, .mb = 900 });
    ck_assert_uint_eq(figures().wanted_mb, 100);
    step((struct npm_event){ .kind = NPM_DEMAND, .id = "x", .seq = 0, .mb = 50 });
    ck_assert_uint_eq(figures().wanted_mb, 50);
}
END_TEST

static int twice(void *ud, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    (void)ud;
    *ret_desired_mb = load->wanted_mb * 2;
    return 0;
}

/* M5: the predictor's figure decides and sizes, up and down. */
START_TEST(the_predictor_rules)
{
    npm_group_destroy(group);
    options.predict = twice;
    group_begin();
    pass(30, 2 * RUNNER_MB);
    ck_assert_uint_eq(cloud.asked, 4);
    pass(100, RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
}
END_TEST

static bool orders(enum npm_action_kind kind)
{
    for (uint32_t i = 0; i < out.n; i++) {
        if (out.list[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* Found by npm_sim (S14): questions took the room of the orders, and the group never called the
 * control plane again. */
START_TEST(orders_find_room_among_many_notes)
{
    npm_group_destroy(group);
    options.runners_max = budget.runners_max = MACHINES_N;
    group_begin();
    for (int i = 0; i < MACHINES_N; i++) {
        cloud_add();
    }
    npm_step(group, &(struct npm_event){ .kind = NPM_TICK }, now_ns, &out);
    ck_assert(orders(NPM_DO_LIST));
    now_ns += 2 * S;
    npm_step(group,
             &(struct npm_event){ .kind = NPM_LISTED, .n = cloud.n, .machines = cloud.list },
             now_ns, &out);
    ck_assert_uint_gt(out.dropped, 0);
    ck_assert(orders(NPM_DO_LIST));
}
END_TEST

/* A provision call that outlasts its request: what expired is no supply, and its entry is not used
 * again before the answer. */
START_TEST(a_request_that_expires_under_way)
{
    struct npm_event answer = { .kind = NPM_PROVISIONED, .n = 3 };

    options.request_life_ns = 2 * S;
    npm_group_destroy(group);
    group_begin();
    cloud.deaf_provision = true;
    pass(14, 3 * RUNNER_MB);
    ck_assert_uint_eq(cloud.provisions, 1);
    ck_assert_uint_ge(notes[NPM_NOTE_REQUEST_EXPIRED], 1);
    ck_assert(figures().cplane_busy);
    cloud.deaf_provision = false;
    step(answer);
    pass(20, 3 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
}
END_TEST

START_TEST(open_requests_are_bounded)
{
    npm_group_destroy(group);
    options.runners_max = 40;
    options.request_max = 1;
    budget.runners_max = 40;
    group_begin();
    cloud.lost = true;
    pass(120, 40 * RUNNER_MB);
    ck_assert_uint_eq(figures().requests_n, NPM_REQUESTS_MAX);
    ck_assert_uint_eq(figures().asked_n, NPM_REQUESTS_MAX);
    ck_assert_uint_eq(cloud.asked, NPM_REQUESTS_MAX);
}
END_TEST

START_TEST(options_change_while_it_runs)
{
    struct npm_options o;

    pass(20, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    o = options;
    o.runners_max = 1000; /* stays */
    o.lbs_max = 1;        /* stays */
    o.predict = NULL;
    o.cooldown_ns = 5 * S;
    o.runners_min = 1;
    o.runner_mb = 1024;
    o.demand_life_ns = 3 * S;
    npm_group_set_options(group, &o);
    ck_assert_uint_eq(npm_group_max_mb(group), 10 * RUNNER_MB); /* known runners tell */
    step((struct npm_event){ .kind = NPM_DEMAND, .id = "lb2", .mb = 1 });
    ck_assert_uint_eq(figures().lbs_n, 2);
    now_ns += 4 * S;
    step((struct npm_event){ .kind = NPM_TICK });
    ck_assert_uint_eq(figures().lbs_n, 0); /* sooner than it was promised */
    pass(30, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
}
END_TEST

START_TEST(states_have_names_and_nothing_is_destroyed)
{
    static const char *const names[] = { "booting", "active", "draining", "removing", "foreign" };

    for (uint32_t i = 0; i < NPM_STATES_N; i++) {
        ck_assert_str_eq(npm_state_names[i], names[i]);
    }
    for (uint32_t i = 0; i < NPM_NOTES_N; i++) {
        ck_assert_uint_gt(strlen(npm_notes[i].text), 10);
    }
    npm_group_destroy(NULL);
}
END_TEST

TCase *supply_tests(void)
{
    TCase *t = tcase_create("supply");

    tcase_add_checked_fixture(t, group_setup, group_teardown);
    tcase_add_test(t, nothing_is_bought_before_it_settled);
    tcase_add_test(t, a_restart_buys_no_second_fleet);
    tcase_add_test(t, a_manager_that_stands_by_adds_and_removes_nothing);
    tcase_add_test(t, a_manager_that_stands_by_gives_up_no_silent_runner);
    tcase_add_test(t, a_manager_that_stands_by_gives_up_none_that_boots);
    tcase_add_test(t, a_manager_that_stands_by_gives_back_what_it_drains);
    tcase_add_test(t, a_request_that_brings_nothing_expires);
    tcase_add_test(t, a_failing_control_plane_is_asked_ever_more_slowly);
    tcase_add_test(t, a_repeated_request_is_the_same_to_the_letter);
    tcase_add_test(t, a_refused_request_may_change);
    tcase_add_test(t, partial_deliveries_are_completed);
    tcase_add_test(t, the_maximum_holds_and_the_rest_is_foreign);
    tcase_add_test(t, the_budget_of_all_groups_holds);
    tcase_add_test(t, garbage_demand_is_clamped_and_hurts_nobody);
    tcase_add_test(t, an_overtaken_word_is_dropped);
    tcase_add_test(t, the_predictor_rules);
    tcase_add_test(t, orders_find_room_among_many_notes);
    tcase_add_test(t, a_request_that_expires_under_way);
    tcase_add_test(t, open_requests_are_bounded);
    tcase_add_test(t, options_change_while_it_runs);
    tcase_add_test(t, states_have_names_and_nothing_is_destroyed);
    return t;
}
