/* What is given back: the cooldown, drains and removals. */
#include "group.h"

START_TEST(it_shrinks_after_the_cooldown_when_the_runners_are_empty)
{
    pass(20, 3 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
    cloud.active = 1;
    pass(59, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
    pass(20, 0);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 3);
    ck_assert_uint_eq(cloud.removes, 0);
    cloud.active = 0;
    pass(10, 0);
    ck_assert_uint_eq(cloud.removes, 3);
    ck_assert_uint_eq(npm_host_count(group), 0);
    ck_assert_uint_eq(cloud.n, 0);
}
END_TEST

/* M14: calls are waited for, up to the longest function timeout. */
START_TEST(a_drain_with_calls_ends_at_its_deadline)
{
    pass(20, RUNNER_MB);
    cloud.active = 2;
    pass(61 + 300, 0);
    ck_assert_uint_eq(cloud.removes, 0);
    pass(20, 0);
    ck_assert_uint_eq(cloud.removes, 1);
    ck_assert_uint_eq(notes[NPM_NOTE_DRAIN_CUT], 1);
}
END_TEST

START_TEST(draining_runners_come_back_before_new_ones_are_bought)
{
    pass(20, 2 * RUNNER_MB);
    cloud.active = 1;
    pass(65, 0);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 2);
    pass(2, RUNNER_MB + 1);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_eq(cloud.asked, 2);
    ck_assert_str_eq(npm_host_at(group, 0)->id, "m0");
}
END_TEST

/* F35, M6. */
START_TEST(a_removal_is_repeated_until_the_runner_is_gone)
{
    pass(20, RUNNER_MB);
    cloud.deaf_remove = true;
    pass(200, 0);
    ck_assert_uint_ge(cloud.removes, 4);
    ck_assert_uint_eq(figures().state_n[NPM_REMOVING], 1);
    cloud.deaf_remove = false;
    pass(80, 0);
    ck_assert_uint_eq(npm_host_count(group), 0);
}
END_TEST

START_TEST(an_operator_drains_and_takes_back)
{
    pass(20, 2 * RUNNER_MB);
    step((struct npm_event){ .kind = NPM_DRAIN, .id = "m0" });
    ck_assert_int_eq(npm_host_find(group, "m0")->state, NPM_DRAINING);
    ck_assert(!npm_is_empty(group, npm_host_find(group, "m0"))); /* a call may be on its way */
    pass(20, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2); /* replaced */
    ck_assert(npm_is_empty(group, npm_host_find(group, "m0")));
    pass(400, 2 * RUNNER_MB);
    ck_assert_int_eq(npm_host_find(group, "m0")->state, NPM_DRAINING); /* never removed */
    ck_assert_uint_eq(cloud.removes, 0);
    step((struct npm_event){ .kind = NPM_UNDRAIN, .id = "m0" });
    ck_assert_int_eq(npm_host_find(group, "m0")->state, NPM_ACTIVE);
    ck_assert(!npm_is_empty(group, npm_host_find(group, "m0")));
    step((struct npm_event){ .kind = NPM_DRAIN, .id = "nobody" });
}
END_TEST

/* L2: demand around a border, or an LB that comes and goes, moves nothing to and fro. */
START_TEST(swinging_demand_does_not_flap)
{
    pass(20, 2 * RUNNER_MB);
    for (int i = 0; i < 60; i++) {
        pass(5, 2 * RUNNER_MB);
        pass(5, RUNNER_MB - 1);
    }
    ck_assert_uint_eq(cloud.asked, 2);
    ck_assert_uint_eq(cloud.removes, 0);
    ck_assert_uint_eq(notes[NPM_NOTE_DRAINING], 0);
}
END_TEST

/* Found by npm_sim (L2): a dip at the end of the cool-down took all that was needed a second ago. */
START_TEST(a_drain_keeps_what_the_cooldown_needed)
{
    pass(20, 4 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 4);
    pass(58, 3 * RUNNER_MB);
    pass(5, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
    pass(62, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 0);
}
END_TEST

/* S2: an answer that was on its way while load balancers did not know of the drain yet. */
START_TEST(an_old_answer_does_not_end_a_drain)
{
    pass(20, RUNNER_MB);
    cloud.active = 1;
    cloud.deaf_status = true;
    pass(64, 0);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 1);
    now_ns = npm_host_at(group, 0)->since_ns + 3 * S + S / 10;
    step((struct npm_event){ .kind = NPM_REPORTED, .id = "m0", .active = 0 });
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 1);
    cloud.deaf_status = false;
    cloud.active = 0;
    pass(10, 0);
    ck_assert_uint_eq(npm_host_count(group), 0);
}
END_TEST

/* Found by npm_sim (L4): a newest runner that is too large to go protected all others. */
START_TEST(a_large_runner_protects_no_small_one)
{
    pass(20, 3 * RUNNER_MB);
    cloud.list[2].capacity_mb = 3 * RUNNER_MB;
    pass(70, 3 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
    ck_assert_int_eq(npm_host_find(group, "m2")->state, NPM_ACTIVE);
}
END_TEST

/* Found by npm_sim (S2): a runner that was found empty got a call of a load balancer that was cut
 * off, said so, and was removed all the same. */
START_TEST(a_call_before_the_order_keeps_its_runner)
{
    pass(20, RUNNER_MB);
    cloud.active = 1;
    pass(70, 0);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 1);
    cloud.deaf_list = true;
    pass(5, 0);
    cloud.active = 0;
    pass(5, 0); /* it says that it is empty while the control plane is busy */
    cloud.active = 1;
    pass(2, 0);
    cloud.deaf_list = false;
    step((struct npm_event){ .kind = NPM_LISTED, .n = cloud.n, .machines = cloud.list });
    pass(20, 0);
    ck_assert_uint_eq(cloud.removes, 0);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 1);
    cloud.active = 0;
    pass(5, 0);
    ck_assert_uint_eq(cloud.removes, 1);
}
END_TEST

/* Nothing is taken away so soon after a start, however short the cool-down is. */
START_TEST(the_first_drain_waits_for_the_brake)
{
    options.cooldown_ns = 2 * S;
    npm_group_destroy(group);
    cloud_add();
    group_begin();
    pass(29, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
    pass(5, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 0);
}
END_TEST

/* Between two polls the process does not stand still, however far apart they are. */
START_TEST(it_shrinks_with_polls_that_are_far_apart)
{
    int64_t end_ns;

    npm_group_destroy(group);
    options.poll_ns = 30 * S;
    group_begin();
    cloud_add();
    cloud_add();
    end_ns = now_ns + 600 * S;
    for (next_ns = now_ns; next_ns < end_ns;) {
        now_ns = next_ns > now_ns ? next_ns : now_ns;
        step((struct npm_event){ .kind = NPM_TICK });
    }
    ck_assert_uint_eq(cloud.removes, 2);
    ck_assert_uint_eq(cloud.n, 0);
    ck_assert_uint_eq(notes[NPM_NOTE_ACTIVE], 2);
    ck_assert_uint_eq(notes[NPM_NOTE_STALL], 0);
}
END_TEST

TCase *drain_tests(void)
{
    TCase *t = tcase_create("drain");

    tcase_add_checked_fixture(t, group_setup, group_teardown);
    tcase_add_test(t, it_shrinks_after_the_cooldown_when_the_runners_are_empty);
    tcase_add_test(t, a_drain_with_calls_ends_at_its_deadline);
    tcase_add_test(t, draining_runners_come_back_before_new_ones_are_bought);
    tcase_add_test(t, a_removal_is_repeated_until_the_runner_is_gone);
    tcase_add_test(t, an_operator_drains_and_takes_back);
    tcase_add_test(t, swinging_demand_does_not_flap);
    tcase_add_test(t, a_drain_keeps_what_the_cooldown_needed);
    tcase_add_test(t, an_old_answer_does_not_end_a_drain);
    tcase_add_test(t, a_large_runner_protects_no_small_one);
    tcase_add_test(t, a_call_before_the_order_keeps_its_runner);
    tcase_add_test(t, the_first_drain_waits_for_the_brake);
    tcase_add_test(t, it_shrinks_with_polls_that_are_far_apart);
    return t;
}
