/* What becomes of runners and machines: lost, silent, stillborn, strange ones, and their labels. */
#include "group.h"

#include <stdio.h>
#include <string.h>

/* F33, M3. */
START_TEST(a_lost_runner_is_replaced_after_three_lists)
{
    pass(20, 2 * RUNNER_MB);
    cloud_take("m0");
    pass(2, 2 * RUNNER_MB);
    ck_assert_ptr_nonnull(npm_host_find(group, "m0"));
    pass(6, 2 * RUNNER_MB);
    ck_assert_ptr_null(npm_host_find(group, "m0"));
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_eq(notes[NPM_NOTE_LOST], 1);
}
END_TEST

/* F34, S7. */
START_TEST(a_mass_loss_is_not_believed_at_once)
{
    struct fn_machine all[4];

    pass(20, 4 * RUNNER_MB);
    ck_assert_uint_eq(cloud.n, 4);
    memcpy(all, cloud.list, sizeof(all));
    cloud.n = 1;
    pass(20, 4 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 4);
    ck_assert_uint_eq(cloud.asked, 4);
    ck_assert_uint_eq(notes[NPM_NOTE_BRAKE], 1);
    memcpy(cloud.list, all, sizeof(all));
    cloud.n = 4;
    pass(5, 4 * RUNNER_MB);
    cloud.n = 1;
    pass(45, 4 * RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_LOST], 3);
}
END_TEST

/* F38, F37, F23 of the list: what nobody can use. */
START_TEST(bad_machines_are_refused)
{
    static char long_id[300];
    const struct fn_machine bad[] = {
        { sizeof(bad[0]), FN_MACHINE_READY, "", "a:1", 1, NULL },
        { sizeof(bad[0]), FN_MACHINE_READY, NULL, "a:1", 1, NULL },
        { sizeof(bad[0]), FN_MACHINE_READY, "x y", "a:1", 1, NULL },
        { sizeof(bad[0]), FN_MACHINE_READY, long_id, "a:1", 1, NULL },
        { sizeof(bad[0]), FN_MACHINE_READY, "b", NULL, 1, NULL },
        { sizeof(bad[0]), FN_MACHINE_READY, "c", "a:1", UINT64_MAX, NULL },
        { sizeof(bad[0]), 77, "d", "a:1", 1, NULL },
        { sizeof(bad[0]), FN_MACHINE_READY, "d\x7f", "a:1", 1, NULL },
        { sizeof(bad[0]), FN_MACHINE_READY, "e", "a 1", 1, NULL },
    };

    memset(long_id, 'x', sizeof(long_id) - 1);
    memcpy(cloud.list, bad, sizeof(bad));
    cloud.n = 9;
    pass(2, 0);
    ck_assert_uint_eq(npm_host_count(group), 0);
    ck_assert_uint_ge(notes[NPM_NOTE_BAD_MACHINE], 9);
    cloud.n = 0;
    cloud_add();
    cloud.list[1] = cloud.list[0]; /* an id twice */
    cloud.list[2] = cloud.list[0]; /* an address twice */
    cloud.list[2].id = "other";
    cloud.n = 3;
    pass(2, 0);
    ck_assert_uint_eq(npm_host_count(group), 2);
    ck_assert_str_eq(npm_host_find(group, "other")->address, "");
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
}
END_TEST

static const char *labels_of(const char *id)
{
    return npm_labels(group, npm_host_find(group, id));
}

/* Equal ones once; another set is another list for load balancers. */
START_TEST(machines_have_labels)
{
    uint32_t publishes;
    uint64_t version;

    cloud.labels[0] = cloud.labels[1] = "class=gpu,zone=a";
    pass(20, 3 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
    ck_assert_str_eq(labels_of("m0"), "class=gpu,zone=a");
    ck_assert_ptr_eq(labels_of("m0"), labels_of("m1"));
    ck_assert_str_eq(labels_of("m2"), "");
    ck_assert_uint_eq(npm_labels_n(group), 1);
    publishes = cloud.publishes;
    version = figures().version;
    pass(5, 3 * RUNNER_MB);
    ck_assert_uint_eq(cloud.publishes, publishes);
    cloud.list[1].labels = "zone=b";
    pass(5, 3 * RUNNER_MB);
    ck_assert_uint_eq(cloud.publishes, publishes + 1);
    ck_assert_uint_eq(figures().version, version + 1);
    ck_assert_str_eq(labels_of("m0"), "class=gpu,zone=a");
    ck_assert_str_eq(labels_of("m1"), "zone=b");
    cloud.list[0].labels = NULL;
    cloud.list[2].labels = "zone=c";
    pass(5, 3 * RUNNER_MB);
    ck_assert_str_eq(labels_of("m0"), "");
    ck_assert_str_eq(labels_of("m1"), "zone=b");
    ck_assert_str_eq(labels_of("m2"), "zone=c");
    ck_assert_uint_le(npm_labels_n(group), 3);
}
END_TEST

/* Places of sets come back, however often labels change. */
START_TEST(labels_may_change_for_ever)
{
    static char texts[MACHINES_N][16];

    pass(20, 3 * RUNNER_MB);
    for (int round = 0; round < 1000; round++) {
        for (uint32_t i = 0; i < cloud.n; i++) {
            snprintf(texts[i], sizeof(texts[i]), "k=%u", (unsigned)(round * (i + 1)) % 17);
            cloud.list[i].labels = texts[i];
        }
        pass(2, 3 * RUNNER_MB);
        for (uint32_t i = 0; i < cloud.n; i++) {
            ck_assert_str_eq(labels_of(cloud.list[i].id), texts[i]);
        }
    }
    ck_assert_uint_le(npm_labels_n(group), npm_host_count(group) + 1);
}
END_TEST

/* F90: after a long stop nothing is removed or bought on old knowledge. */
START_TEST(a_long_stop_is_a_new_start)
{
    pass(20, 2 * RUNNER_MB);
    now_ns += 600 * S;
    pass(8, 6 * RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_STALL], 1);
    ck_assert_uint_eq(cloud.asked, 2);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    pass(10, 6 * RUNNER_MB);
    ck_assert_uint_eq(cloud.asked, 6);
}
END_TEST

START_TEST(a_silent_runner_is_replaced_but_not_all_of_them)
{
    pass(20, 4 * RUNNER_MB);
    cloud.silent_runners = true;
    pass(200, 4 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 4); /* it is we who are cut off */
}
END_TEST

START_TEST(a_runner_that_never_boots_is_removed)
{
    cloud.silent_runners = true;
    pass(20, RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_BOOTING], 1);
    pass(610, RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_BOOT_FAILED], 1);
    ck_assert_uint_ge(cloud.removes, 1);
}
END_TEST

/* Its answer never comes: out of memory where it was carried out. */
START_TEST(a_lost_question_is_asked_again)
{
    pass(20, RUNNER_MB);
    cloud.deaf_status = true;
    pass(100, RUNNER_MB);
    cloud.deaf_status = false;
    cloud.active = 7;
    pass(70, RUNNER_MB);
    ck_assert_uint_eq(npm_host_at(group, 0)->active, 7);
}
END_TEST

/* Found by npm_sim (S8): one runner that tells an odd capacity decided for the whole group. */
START_TEST(one_odd_capacity_does_not_decide)
{
    pass(20, 4 * RUNNER_MB);
    cloud.list[0].capacity_mb = 1;
    pass(70, 4 * RUNNER_MB);
    ck_assert_uint_eq(figures().desired_mb, 4 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 4);
    ck_assert_uint_eq(figures().state_mb[NPM_ACTIVE], 4 * RUNNER_MB);
    ck_assert_uint_le(cloud.asked, 6);
}
END_TEST

/* Found by npm_sim (L1): most runners died and stayed listed, and were waited for without an end. */
START_TEST(a_long_silence_of_most_is_believed_when_calls_wait)
{
    pass(20, 4 * RUNNER_MB);
    cloud.silent_runners = true;
    for (int s = 0; s < 700; s++) {
        step((struct npm_event){ .kind = NPM_DEMAND, .id = "lb2", .mb = 1, .waiting = 3 });
        pass(1, 4 * RUNNER_MB - 1);
    }
    ck_assert_uint_ge(notes[NPM_NOTE_SILENT], 4);
    ck_assert_uint_ge(cloud.asked, 8);
}
END_TEST

/* Found by npm_sim (L1): one dead stranger after the other was waited for. */
START_TEST(strangers_that_do_not_answer_are_no_supply)
{
    npm_group_destroy(group);
    options.runners_max = 2;
    group_begin();
    cloud.silent_runners = true;
    for (int i = 0; i < 3; i++) {
        cloud_add();
    }
    pass(20, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_FOREIGN], 1);
    pass(625, 2 * RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_BOOT_FAILED], 2);
    ck_assert_int_eq(npm_host_find(group, "m2")->state, NPM_FOREIGN);
    ck_assert_uint_eq(cloud.asked, 2);
}
END_TEST

/* Found by npm_sim (S7): when one of three lost hosts was removed, the other two were "not most". */
START_TEST(the_brake_stays_on_its_hosts)
{
    pass(20, 3 * RUNNER_MB);
    cloud.active = 1;
    pass(70, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 1);
    cloud.n = 0;
    pass(2, 2 * RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_BRAKE], 1);
    cloud.active = 0;
    pass(15, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_DRAINING], 0);
    ck_assert_ptr_nonnull(npm_host_find(group, "m0"));
    ck_assert_ptr_nonnull(npm_host_find(group, "m1"));
    pass(20, 2 * RUNNER_MB);
    ck_assert_ptr_null(npm_host_find(group, "m0"));
    ck_assert_ptr_null(npm_host_find(group, "m1"));
}
END_TEST

/* Runners that never answer: each round waits longer than the one before, and one that lives ends
 * that. */
START_TEST(runners_that_never_answer_are_asked_for_ever_more_slowly)
{
    static const int64_t pauses[] = { 5, 10, 20, 40, 40 };
    int64_t failed_ns;

    options.boot_max_ns = 10 * S;
    options.stillborn_backoff_min_ns = 5 * S;
    options.stillborn_backoff_max_ns = 40 * S;
    npm_group_destroy(group);
    group_begin();
    cloud.silent_runners = true;
    pass(12, 3 * RUNNER_MB);
    ck_assert_uint_eq(cloud.asked, 3);
    for (uint32_t i = 0; i < 5; i++) {
        while (notes[NPM_NOTE_STILLBORN] == i) {
            pass(1, 3 * RUNNER_MB);
        }
        failed_ns = now_ns;
        ck_assert_uint_eq(figures().stillborn, i + 1);
        ck_assert_uint_eq(cloud.asked, 3 * (i + 1));
        while (cloud.asked == 3 * (i + 1)) {
            pass(1, 3 * RUNNER_MB);
        }
        ck_assert_int_ge(now_ns - failed_ns, pauses[i] * S - S);
        ck_assert_int_le(now_ns - failed_ns, pauses[i] * S + 3 * S);
    }
    cloud.silent_runners = false;
    pass(130, 3 * RUNNER_MB);
    ck_assert_uint_eq(figures().stillborn, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
}
END_TEST

/* Runners that answer once and are gone: no new ones at full speed. One that lived is replaced. */
START_TEST(runners_that_die_at_once_are_asked_for_ever_more_slowly)
{
    pass(20, RUNNER_MB);
    for (uint32_t i = 0; i < 600; i++) {
        if (figures().state_n[NPM_ACTIVE] == 1) {
            cloud_take(cloud.list[0].id);
        }
        pass(1, RUNNER_MB);
    }
    ck_assert_uint_le(cloud.asked, 16); /* 1, 2, 4 ... 60 s; without pauses more than 100 */
    ck_assert_uint_ge(figures().stillborn, 5);
    pass(400, RUNNER_MB);
    ck_assert_uint_eq(figures().stillborn, 0);
    notes[NPM_NOTE_STILLBORN] = 0;
    cloud.n = 0;
    pass(10, RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_STILLBORN], 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
}
END_TEST

START_TEST(a_runner_knows_when_it_was_asked_for)
{
    int64_t begin_ns = now_ns;

    cloud_add();
    pass(20, 2 * RUNNER_MB);
    ck_assert_int_eq(npm_host_find(group, "m0")->asked_for_ns, 0);
    ck_assert_int_ge(npm_host_find(group, "m1")->asked_for_ns, begin_ns + 10 * S);
    ck_assert_int_le(npm_host_find(group, "m1")->asked_for_ns, npm_host_find(group, "m1")->ready_ns);
}
END_TEST

/* Their hashes are equal. */
START_TEST(names_may_collide)
{
    cloud_add();
    cloud_add();
    cloud.list[0].id = "costarring";
    cloud.list[1].id = "liquid";
    pass(3, 0);
    ck_assert_uint_eq(npm_host_count(group), 2);
    ck_assert_str_eq(npm_host_find(group, "costarring")->id, "costarring");
    ck_assert_str_eq(npm_host_find(group, "liquid")->id, "liquid");
}
END_TEST

static const char *address_of(const char *id)
{
    const struct npm_host *h = npm_host_find(group, id);

    return h ? h->address : "";
}

/* Each has what the other one had: of both the old address goes first. */
START_TEST(machines_exchange_addresses)
{
    const char *old[3];

    pass(20, 3 * RUNNER_MB);
    for (int i = 0; i < 3; i++) {
        old[i] = cloud.list[i].address;
    }
    cloud.list[0].address = old[1];
    cloud.list[1].address = old[0];
    pass(3, 3 * RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_MOVED], 2);
    ck_assert_uint_eq(notes[NPM_NOTE_BAD_MACHINE], 0);
    ck_assert_str_eq(address_of("m0"), old[1]);
    ck_assert_str_eq(address_of("m1"), old[0]);
    /* all of them in a ring, and one whose new address another one keeps */
    cloud.list[0].address = old[2];
    cloud.list[1].address = old[1];
    cloud.list[2].address = old[0];
    pass(3, 3 * RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_MOVED], 5);
    ck_assert_str_eq(address_of("m0"), old[2]);
    cloud.list[0].address = old[1];
    pass(1, 3 * RUNNER_MB);
    ck_assert_uint_eq(notes[NPM_NOTE_MOVED], 5);
    ck_assert_uint_gt(notes[NPM_NOTE_BAD_MACHINE], 0);
    ck_assert_str_eq(address_of("m0"), old[2]);
    ck_assert_str_eq(address_of("m1"), old[1]);
}
END_TEST

TCase *hosts_tests(void)
{
    TCase *t = tcase_create("hosts");

    tcase_add_checked_fixture(t, group_setup, group_teardown);
    tcase_add_test(t, a_lost_runner_is_replaced_after_three_lists);
    tcase_add_test(t, a_mass_loss_is_not_believed_at_once);
    tcase_add_test(t, bad_machines_are_refused);
    tcase_add_test(t, machines_have_labels);
    tcase_add_test(t, labels_may_change_for_ever);
    tcase_add_test(t, a_long_stop_is_a_new_start);
    tcase_add_test(t, a_silent_runner_is_replaced_but_not_all_of_them);
    tcase_add_test(t, a_runner_that_never_boots_is_removed);
    tcase_add_test(t, a_lost_question_is_asked_again);
    tcase_add_test(t, one_odd_capacity_does_not_decide);
    tcase_add_test(t, a_long_silence_of_most_is_believed_when_calls_wait);
    tcase_add_test(t, strangers_that_do_not_answer_are_no_supply);
    tcase_add_test(t, the_brake_stays_on_its_hosts);
    tcase_add_test(t, runners_that_never_answer_are_asked_for_ever_more_slowly);
    tcase_add_test(t, runners_that_die_at_once_are_asked_for_ever_more_slowly);
    tcase_add_test(t, a_runner_knows_when_it_was_asked_for);
    tcase_add_test(t, names_may_collide);
    tcase_add_test(t, machines_exchange_addresses);
    return t;
}
