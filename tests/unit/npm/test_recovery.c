/* Starts, ends and the operator: what a group makes of load balancers that start anew, of machines
 * that end before anybody saw them, and of what the operator wants of a runner. */
#include <npm/wishes.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S NPM_S
#define RUNNER_MB 4096
#define MACHINES_N 128

static struct npm_options options;
static struct npm_budget budget;
static struct npm_group *group;
static int64_t now_ns;
static uint32_t notes[NPM_NOTES_N];
static uint64_t seq, demand_mb;
static uint32_t active; /* calls that each runner tells */

static struct {
    struct fn_machine list[MACHINES_N];
    char ids[MACHINES_N][16], addresses[MACHINES_N][24];
    uint32_t n, named, removes;
    uint32_t asked;
    bool unborn, refuses; /* new machines; requests */
    bool fails[MACHINES_N], mute; /* runners: start nothing; do not say how many calls run */
    uint64_t last_request;
} cloud;

static void step(struct npm_event e);

static void cloud_add(bool gone)
{
    uint32_t i = cloud.named++;

    snprintf(cloud.ids[i], sizeof(cloud.ids[i]), "m%u", i);
    snprintf(cloud.addresses[i], sizeof(cloud.addresses[i]), "10.0.0.%u:9190", i);
    cloud.list[cloud.n++] =
        (struct fn_machine){ sizeof(struct fn_machine), gone ? FN_MACHINE_GONE : FN_MACHINE_READY,
                             cloud.ids[i], gone ? NULL : cloud.addresses[i], RUNNER_MB, NULL };
}

static void cloud_take(const char *id)
{
    for (uint32_t i = 0; i < cloud.n; i++) {
        if (strcmp(cloud.list[i].id, id) == 0) {
            cloud.list[i] = cloud.list[--cloud.n];
            return;
        }
    }
}

static void answer(const struct npm_action *a)
{
    switch (a->kind) {
    case NPM_DO_LIST:
        step((struct npm_event){ .kind = NPM_LISTED, .n = cloud.n, .machines = cloud.list });
        break;
    case NPM_DO_PROVISION:
        cloud.asked += a->n;
        cloud.last_request = a->request_id;
        for (uint32_t i = 0; i < a->n && !cloud.refuses; i++) {
            cloud_add(cloud.unborn);
        }
        step((struct npm_event){ .kind = NPM_PROVISIONED, .n = cloud.refuses ? 0 : a->n });
        break;
    case NPM_DO_REMOVE:
        cloud.removes++;
        cloud_take(a->id);
        step((struct npm_event){ .kind = NPM_REMOVED });
        break;
    case NPM_DO_STATUS:
        step((struct npm_event){ .kind = NPM_REPORTED,
                                 .id = a->id,
                                 .active = active,
                                 .mute = cloud.mute,
                                 .fault = cloud.fails[atoi(a->id + 1)] ? "disk full" : NULL });
        break;
    case NPM_DO_NOTE:
        notes[a->note]++;
        break;
    default:
        break;
    }
}

static void step(struct npm_event e)
{
    struct npm_actions out;

    npm_step(group, &e, now_ns, &out);
    for (uint32_t i = 0; i < out.n; i++) {
        answer(&out.list[i]);
    }
}

static void word(uint64_t incarnation, uint64_t number, uint64_t mb)
{
    step((struct npm_event){
        .kind = NPM_DEMAND, .id = "lb", .incarnation = incarnation, .seq = number, .mb = mb });
}

static void tick(int64_t seconds)
{
    for (int64_t i = 0; i < 4 * seconds; i++) {
        now_ns += S / 4;
        step((struct npm_event){ .kind = NPM_TICK });
    }
}

static void pass(int64_t seconds)
{
    for (int64_t s = 0; s < seconds; s++) {
        word(1, ++seq, demand_mb);
        tick(1);
    }
}

static struct npm_figures figures(void)
{
    struct npm_figures f;

    npm_figures(group, &f);
    return f;
}

static enum npm_host_state state_of(const char *id)
{
    ck_assert_ptr_nonnull(npm_host_find(group, id));
    return npm_host_find(group, id)->state;
}

static void order(enum npm_event_kind kind, const char *id)
{
    step((struct npm_event){ .kind = kind, .id = id });
}

static void setup(void)
{
    struct npm_options o = NPM_OPTIONS_INIT;

    options = o;
    options.runners_max = 5;
    budget = (struct npm_budget){ .runners_max = 20, .request_last = 1000 };
    memset(&cloud, 0, sizeof(cloud));
    memset(notes, 0, sizeof(notes));
    now_ns = 1000 * S;
    active = 0;
    seq = demand_mb = 0;
    group = npm_group_create(&options, &budget, now_ns);
    ck_assert_ptr_nonnull(group);
}

static void teardown(void)
{
    npm_group_destroy(group);
}

/* ---- load balancers -------------------------------------------------------------------------- */

START_TEST(a_load_balancer_that_starts_anew_is_heard_at_once)
{
    word(7, 900, 300);
    word(8, 1, 500); /* its seq begins anew, and the old figure goes */
    ck_assert_uint_eq(figures().wanted_mb, 500);
    word(7, 901, 300); /* sent before the end, and late */
    ck_assert_uint_eq(figures().wanted_mb, 500);
    ck_assert_uint_eq(notes[NPM_NOTE_LB_TWICE], 0);
    word(8, 2, 100);
    word(8, 1, 500);
    ck_assert_uint_eq(figures().wanted_mb, 100);
}
END_TEST

START_TEST(two_with_one_id_both_count_and_are_told)
{
    for (uint64_t i = 1; i < 5; i++) {
        word(7, i, 300);
        word(8, i, 500);
    }
    ck_assert_uint_eq(figures().wanted_mb, 800);
    ck_assert_uint_eq(figures().lbs_n, 1);
    ck_assert_uint_eq(figures().lbs_twice, 1);
    ck_assert(npm_lb_is_twice(group, "lb"));
    ck_assert_uint_eq(notes[NPM_NOTE_LB_TWICE], 1);
    for (uint64_t i = 5; i < 20; i++) {
        word(8, i, 500);
        tick(1);
    }
    ck_assert_uint_eq(figures().wanted_mb, 500); /* the other one is gone */
    ck_assert_uint_eq(figures().lbs_twice, 0);
    ck_assert(!npm_lb_is_twice(group, "lb"));
    ck_assert_uint_eq(notes[NPM_NOTE_LB_GONE], 0);
    tick(12);
    ck_assert_uint_eq(figures().wanted_mb, 0);
    ck_assert_uint_eq(figures().lbs_n, 0);
}
END_TEST

/* After a standstill the words of many starts come at one time. */
START_TEST(the_start_heard_longest_ago_gives_its_place)
{
    word(7, 1, 100);
    word(8, 1, 200);
    word(9, 1, 400);
    word(10, 1, 800); /* in the place of 7 */
    word(8, 2, 200);
    word(9, 2, 400); /* late ones, of no new starts */
    ck_assert_uint_eq(figures().wanted_mb, 800);
    word(11, 1, 1600); /* in the place of 10 */
    word(8, 3, 200);
    word(9, 3, 400);
    ck_assert_uint_eq(figures().wanted_mb, 1600);
    word(9, 4, 400);
    ck_assert_uint_eq(figures().wanted_mb, 2000);
}
END_TEST

START_TEST(many_with_one_id_grow_nothing)
{
    for (uint64_t i = 1; i < 2000; i++) {
        word(i % 50 + 1, i, 300);
        ck_assert_uint_eq(figures().lbs_n, 1);
        ck_assert_uint_ge(figures().wanted_mb, 300);
        ck_assert_uint_le(figures().wanted_mb, 900);
    }
}
END_TEST

static void word_of(const char *id, uint64_t incarnation, uint64_t of_seq, uint64_t mb)
{
    step((struct npm_event){
        .kind = NPM_DEMAND, .id = id, .incarnation = incarnation, .seq = of_seq, .mb = mb });
}

/* All restart at one time, more than there are spare voices for: who finds none keeps its last
 * start, and what is given back serves the next ones. */
START_TEST(an_id_without_a_spare_voice_keeps_the_start_heard_last)
{
    enum { N = 32 };
    char ids[N][8];
    uint32_t n = N;

    npm_group_destroy(group);
    options.lbs_max = N;
    group = npm_group_create(&options, &budget, now_ns);
    ck_assert_ptr_nonnull(group);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < n; i++) {
            snprintf(ids[i], sizeof(ids[i]), "lb%u", i);
            word_of(ids[i], 2 * round + 1, 1, 300);
        }
        ck_assert_uint_eq(figures().wanted_mb, n * 300);
        for (uint32_t i = 0; i < n; i++) {
            word_of(ids[i], 2 * round + 2, 1, 500);
        }
        ck_assert_uint_eq(figures().wanted_mb, n * 500);
        word_of(ids[n - 1], 2 * round + 1, 2, 300); /* has none: the last one that spoke counts */
        ck_assert_uint_eq(figures().wanted_mb, (n - 1) * 500 + 300);
        for (uint32_t s = 0; s < 11; s++) { /* the old starts are forgotten */
            for (uint32_t i = 0; i < n; i++) {
                word_of(ids[i], 2 * round + 2, 2 + s, 500);
            }
            tick(1);
        }
        ck_assert_uint_eq(figures().wanted_mb, n * 500);
        ck_assert_uint_eq(figures().lbs_n, n);
        ck_assert_uint_eq(figures().lbs_twice, 0);
    }
    tick(12);
    ck_assert_uint_eq(figures().lbs_n, 0);
    ck_assert_uint_eq(figures().wanted_mb, 0);
}
END_TEST

/* ---- machines that end ----------------------------------------------------------------------- */

START_TEST(what_ended_before_it_was_listed_is_not_waited_for)
{
    demand_mb = 2 * RUNNER_MB;
    cloud.unborn = true;
    pass(13);
    ck_assert_uint_ge(cloud.asked, 2);
    ck_assert_uint_eq(figures().asked_n, 0);
    ck_assert_uint_ge(notes[NPM_NOTE_ENDED], 2);
    ck_assert_uint_eq(figures().stillborn, cloud.asked / 2); /* of one request: one failure */
    pass(200);
    ck_assert_uint_le(cloud.asked, 2 * 9); /* 1, 2, 4 ... s apart */
    cloud.unborn = false;                  /* the cause is gone */
    pass(75);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
}
END_TEST

/* Clouds list for an hour what they ended. */
START_TEST(old_ends_are_no_news)
{
    cloud_add(true);
    demand_mb = RUNNER_MB;
    pass(12);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
    cloud.list[1].state = FN_MACHINE_GONE; /* one that is known */
    demand_mb = 3 * RUNNER_MB;
    pass(30);
    ck_assert_uint_eq(notes[NPM_NOTE_ENDED], 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
}
END_TEST

START_TEST(a_request_of_which_nothing_is_accepted_is_told)
{
    demand_mb = RUNNER_MB;
    cloud.refuses = true;
    pass(12);
    ck_assert_uint_ge(notes[NPM_NOTE_NONE_ACCEPTED], 1);
}
END_TEST

START_TEST(requests_of_two_groups_have_ids_of_their_own)
{
    struct npm_group *first = group;
    uint64_t id;

    demand_mb = RUNNER_MB;
    pass(12);
    id = cloud.last_request;
    group = npm_group_create(&options, &budget, now_ns);
    seq = 0;
    memset(&cloud, 0, sizeof(cloud));
    pass(12);
    ck_assert_uint_ne(cloud.last_request, 0);
    ck_assert_uint_ne(cloud.last_request, id);
    npm_group_destroy(first);
}
END_TEST

/* ---- the operator ---------------------------------------------------------------------------- */

START_TEST(one_that_boots_is_drained_too)
{
    cloud_add(false);
    cloud.list[0].state = FN_MACHINE_STARTING;
    cloud.list[0].address = NULL;
    demand_mb = RUNNER_MB;
    pass(5);
    ck_assert_int_eq(state_of("m0"), NPM_BOOTING);
    order(NPM_DRAIN, "m0");
    ck_assert_int_eq(state_of("m0"), NPM_DRAINING);
    cloud.list[0].state = FN_MACHINE_READY;
    cloud.list[0].address = cloud.addresses[0];
    pass(700);
    ck_assert_int_eq(state_of("m0"), NPM_DRAINING);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1); /* in its place */
    ck_assert_uint_eq(notes[NPM_NOTE_STILLBORN], 0);
    order(NPM_UNDRAIN, "m0");
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE);
}
END_TEST

START_TEST(one_that_never_answered_is_taken_back_as_it_was)
{
    cloud_add(false);
    cloud.list[0].state = FN_MACHINE_STARTING;
    cloud.list[0].address = NULL;
    pass(2);
    order(NPM_DRAIN, "m0");
    order(NPM_UNDRAIN, "m0");
    ck_assert_int_eq(state_of("m0"), NPM_BOOTING);
}
END_TEST

START_TEST(a_new_one_comes_before_the_old_one_goes)
{
    demand_mb = 2 * RUNNER_MB;
    pass(40);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    order(NPM_REPLACE, "m0");
    for (int i = 0; i < 60 && npm_host_find(group, "m0"); i++) {
        ck_assert_uint_ge(figures().state_n[NPM_ACTIVE], 2);
        pass(1);
    }
    ck_assert_ptr_null(npm_host_find(group, "m0"));
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_eq(cloud.asked, 3);
    ck_assert_uint_eq(figures().leaving_n, 0);
}
END_TEST

START_TEST(without_a_new_one_the_old_one_serves)
{
    demand_mb = 2 * RUNNER_MB;
    pass(40);
    cloud.unborn = true; /* the new version does not start */
    order(NPM_REPLACE, "m0");
    order(NPM_REPLACE, "m1");
    pass(600);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE);
    ck_assert_uint_eq(cloud.removes, 0);
    order(NPM_UNDRAIN, "m0"); /* not to be replaced after all */
    cloud.unborn = false;
    pass(80);
    ck_assert_ptr_null(npm_host_find(group, "m1"));
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE);
}
END_TEST

START_TEST(at_the_maximum_they_go_one_after_the_other)
{
    demand_mb = 5 * RUNNER_MB;
    pass(40);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 5);
    for (int i = 0; i < 5; i++) {
        order(NPM_REPLACE, cloud.ids[i]);
    }
    for (int i = 0; i < 200 && figures().leaving_n > 0; i++) {
        ck_assert_uint_ge(figures().state_n[NPM_ACTIVE], 4);
        pass(1);
    }
    ck_assert_uint_eq(figures().leaving_n, 0);
    pass(20);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 5);
    ck_assert_uint_eq(cloud.asked, 10);
}
END_TEST

START_TEST(one_to_be_removed_goes_when_it_is_empty_and_does_not_come_back)
{
    demand_mb = RUNNER_MB;
    pass(40);
    active = 2;
    order(NPM_RETIRE, "m0");
    pass(100);
    ck_assert_int_eq(state_of("m0"), NPM_DRAINING);
    demand_mb = 3 * RUNNER_MB; /* it would be the first supply */
    pass(30);
    ck_assert_int_eq(state_of("m0"), NPM_DRAINING);
    active = 0;
    pass(10);
    ck_assert_ptr_null(npm_host_find(group, "m0"));
    order(NPM_END, "m1");
    ck_assert_int_eq(state_of("m1"), NPM_REMOVING);
}
END_TEST

/* ---- runners that start nothing ---------------------------------------------------------------- */

/* It gets no calls: another one comes, and it goes when that has been enough for the cool-down. */
START_TEST(one_that_fails_is_no_supply)
{
    demand_mb = 3 * RUNNER_MB;
    pass(20);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
    cloud.fails[0] = true;
    pass(62);
    ck_assert_uint_eq(notes[NPM_NOTE_FAILING], 1);
    ck_assert_str_eq(npm_host_find(group, "m0")->fault, "disk full");
    ck_assert_uint_eq(cloud.asked, 4);
    ck_assert_uint_eq(figures().failing_n, 1);
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE); /* what runs there goes on */
    pass(80);
    ck_assert_uint_eq(cloud.removes, 1);
    ck_assert_ptr_null(npm_host_find(group, "m0"));
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3);
    ck_assert_uint_eq(figures().failing_n, 0);
    ck_assert_uint_eq(cloud.asked, 4);
}
END_TEST

START_TEST(one_that_is_well_again_is_supply)
{
    demand_mb = 3 * RUNNER_MB;
    pass(20);
    cloud.fails[0] = true;
    pass(62);
    cloud.fails[0] = false;
    pass(6);
    ck_assert_uint_eq(notes[NPM_NOTE_WELL], 1);
    ck_assert_str_eq(npm_host_find(group, "m0")->fault, "");
    pass(80);
    ck_assert_int_eq(state_of("m0"), NPM_ACTIVE);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 3); /* the newest one went */
    ck_assert_ptr_null(npm_host_find(group, "m3"));
}
END_TEST

/* Most fail, new ones too: a group does not grow to its maximum by that. */
START_TEST(most_that_fail_are_not_believed)
{
    uint32_t asked;

    demand_mb = 2 * RUNNER_MB;
    pass(20);
    for (int i = 0; i < MACHINES_N; i++) {
        cloud.fails[i] = true;
    }
    pass(200);
    ck_assert_uint_le(cloud.asked, 4); /* before the second one said so */
    asked = cloud.asked;
    pass(600);
    ck_assert_uint_eq(cloud.asked, asked);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
    ck_assert_uint_eq(figures().failing_n, 2);
}
END_TEST

/* One whose status does not end is alive, and nobody knows whether it is empty. */
START_TEST(one_that_is_mute_is_neither_silent_nor_empty)
{
    demand_mb = RUNNER_MB;
    pass(20);
    active = 1;
    order(NPM_RETIRE, "m0");
    tick(2);
    cloud.mute = cloud.fails[0] = true;
    active = 0;
    pass(30);
    ck_assert_int_eq(state_of("m0"), NPM_DRAINING);
    ck_assert_uint_eq(npm_host_find(group, "m0")->silent_ns, 0);
    ck_assert_uint_eq(npm_host_find(group, "m0")->active, 1);
    cloud.mute = false;
    pass(6);
    ck_assert_uint_eq(cloud.removes, 1);
}
END_TEST

/* ---- wishes over a restart ------------------------------------------------------------------- */

static enum npm_wish_host count_drains(void *ud, const char *id, enum npm_wish wish)
{
    *(uint32_t *)ud += wish == NPM_WISH_DRAIN && id[0] == 'm';
    return id[1] == '1' ? NPM_HOST_THERE : NPM_HOST_MISSING;
}

START_TEST(wishes_are_written_and_read)
{
    struct npm_wishes *a = npm_wishes_create(), *b = npm_wishes_create();
    struct buf text = BUF_INIT(0);
    uint32_t n = 0;

    ck_assert_int_eq(npm_wishes_set(a, "default", "m1", NPM_WISH_DRAIN, 0), 0);
    ck_assert_int_eq(npm_wishes_set(a, "default", "m2", NPM_WISH_DRAIN, 0), 0);
    ck_assert_int_eq(npm_wishes_set(a, "a group", "m1", NPM_WISH_REMOVE, 0), 0);
    ck_assert_int_eq(npm_wishes_set(a, "default", "m3", NPM_WISH_DRAIN, 0), 0);
    ck_assert_int_eq(npm_wishes_set(a, "default", "m3", NPM_WISH_NONE, 0), 0);
    ck_assert_int_ge(npm_wishes_write(a, &text), 0);
    ck_assert_uint_eq(npm_wishes_read(b, buf_text(&text), 0), 0);
    ck_assert_uint_eq(npm_wishes_visit(b, "default", S, count_drains, &n), 0);
    ck_assert_uint_eq(n, 2);
    n = 0; /* that of m2 was missing for too long */
    ck_assert_uint_eq(npm_wishes_visit(b, "default", NPM_WISH_LIFE_NS, count_drains, &n), 1);
    ck_assert_uint_eq(npm_wishes_visit(b, "default", NPM_WISH_LIFE_NS, count_drains, &n), 0);
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(npm_wishes_read(b, "drain\nfly m1 default\ndrain  \ndrain m9 g", 0), 3);
    buf_finish(&text);
    npm_wishes_destroy(a);
    npm_wishes_destroy(b);
}
END_TEST

START_TEST(wishes_are_bounded)
{
    struct npm_wishes *w = npm_wishes_create();
    char id[32];

    for (uint32_t i = 0; i < NPM_WISHES_MAX; i++) {
        snprintf(id, sizeof(id), "m%u", i);
        ck_assert_int_eq(npm_wishes_set(w, "default", id, NPM_WISH_DRAIN, 0), 0);
    }
    ck_assert_int_eq(npm_wishes_set(w, "default", "more", NPM_WISH_DRAIN, 0), FN_E_EXHAUSTED);
    ck_assert_int_eq(npm_wishes_set(w, "default", id, NPM_WISH_REMOVE, 0), 0);
    npm_wishes_destroy(w);
}
END_TEST

START_TEST(a_group_says_what_it_waits_for)
{
    char says[NPM_EXPLAIN_MAX], little[8];

    demand_mb = 7 * RUNNER_MB;
    cloud.unborn = true;
    pass(14);
    npm_explain(group, now_ns, says, sizeof(says));
    ck_assert_msg(strstr(says, "20480 MB wanted by 1 load balancer, 0 MB active") != NULL, "%s",
                  says);
    ck_assert_msg(strstr(says, "because new runners did not live") != NULL, "%s", says);
    npm_explain(group, now_ns, little, sizeof(little));
    ck_assert_str_eq(little, "20480 M");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("npm_recovery");
    TCase *t = tcase_create("recovery");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_load_balancer_that_starts_anew_is_heard_at_once);
    tcase_add_test(t, two_with_one_id_both_count_and_are_told);
    tcase_add_test(t, the_start_heard_longest_ago_gives_its_place);
    tcase_add_test(t, many_with_one_id_grow_nothing);
    tcase_add_test(t, an_id_without_a_spare_voice_keeps_the_start_heard_last);
    tcase_add_test(t, what_ended_before_it_was_listed_is_not_waited_for);
    tcase_add_test(t, old_ends_are_no_news);
    tcase_add_test(t, a_request_of_which_nothing_is_accepted_is_told);
    tcase_add_test(t, requests_of_two_groups_have_ids_of_their_own);
    tcase_add_test(t, one_that_boots_is_drained_too);
    tcase_add_test(t, one_that_never_answered_is_taken_back_as_it_was);
    tcase_add_test(t, a_new_one_comes_before_the_old_one_goes);
    tcase_add_test(t, without_a_new_one_the_old_one_serves);
    tcase_add_test(t, at_the_maximum_they_go_one_after_the_other);
    tcase_add_test(t, one_to_be_removed_goes_when_it_is_empty_and_does_not_come_back);
    tcase_add_test(t, one_that_fails_is_no_supply);
    tcase_add_test(t, one_that_is_well_again_is_supply);
    tcase_add_test(t, most_that_fail_are_not_believed);
    tcase_add_test(t, one_that_is_mute_is_neither_silent_nor_empty);
    tcase_add_test(t, wishes_are_written_and_read);
    tcase_add_test(t, wishes_are_bounded);
    tcase_add_test(t, a_group_says_what_it_waits_for);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
