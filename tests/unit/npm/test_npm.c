/* One group with a scripted control plane: each test tells a story in virtual seconds. */
#include "../lib/machine.h"

#include <npm/npm.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S NPM_S
#define MACHINES_N 64
#define RUNNER_MB 4096

static struct npm_options options;
static struct npm_budget budget;
static struct npm_group *group;
static struct npm_actions out;
static int64_t now_ns, next_ns;

/* The cloud: what it lists, what it was asked, how it answers. */
static struct {
    struct fn_machine list[MACHINES_N];
    char ids[MACHINES_N][16], addresses[MACHINES_N][32];
    const char *labels[MACHINES_N]; /* of the machines to come; sorted by key */
    uint32_t n, named;
    uint32_t lists, provisions, removes, publishes;
    uint32_t asked;
    uint64_t last_request;
    uint32_t last_n, made_all_the_same;
    bool list_fails, provision_fails, unknown, silent_runners, deaf_remove, lost, deaf_status,
        deaf_provision, deaf_list;
    uint32_t active;
    uint32_t deliver_max;
} cloud;

static uint32_t notes[64];

static void cloud_add(void)
{
    uint32_t i = cloud.named++;
    struct fn_machine *m = &cloud.list[cloud.n++];

    snprintf(cloud.ids[i], sizeof(cloud.ids[i]), "m%u", i);
    snprintf(cloud.addresses[i], sizeof(cloud.addresses[i]), "10.0.0.%u:9190", i);
    *m = (struct fn_machine){ sizeof(*m), FN_MACHINE_READY, cloud.ids[i], cloud.addresses[i],
                              RUNNER_MB, cloud.labels[i] };
}

static void cloud_take(const char *id)
{
    for (uint32_t i = 0; i < cloud.n; i++) {
        if (strcmp(cloud.list[i].id, id) == 0) {
            memmove(&cloud.list[i], &cloud.list[i + 1], (cloud.n - i - 1) * sizeof(cloud.list[0]));
            cloud.n--;
            return;
        }
    }
}

static void step(struct npm_event e);

static void answer_provision(const struct npm_action *a)
{
    struct npm_event e = { .kind = NPM_PROVISIONED, .n = a->n, .unknown = cloud.unknown };

    cloud.provisions++;
    cloud.asked += a->n;
    cloud.last_request = a->request_id;
    cloud.last_n = a->n;
    if (cloud.deaf_provision) {
        return;
    }
    if (cloud.provision_fails) {
        e.kind = NPM_PROVISION_FAILED;
        if (cloud.unknown && cloud.n < cloud.made_all_the_same) {
            cloud_add();
        }
    } else if (!cloud.lost) {
        e.n = a->n < cloud.deliver_max ? a->n : cloud.deliver_max;
        for (uint32_t i = 0; i < e.n; i++) {
            cloud_add();
        }
    }
    step(e);
}

static void answer(const struct npm_action *a)
{
    switch (a->kind) {
    case NPM_DO_LIST:
        cloud.lists++;
        if (cloud.deaf_list) {
            break;
        }
        step((struct npm_event){ .kind = cloud.list_fails ? NPM_LIST_FAILED : NPM_LISTED,
                                 .n = cloud.n,
                                 .machines = cloud.list });
        break;
    case NPM_DO_PROVISION:
        answer_provision(a);
        break;
    case NPM_DO_REMOVE:
        cloud.removes++;
        if (!cloud.deaf_remove) {
            cloud_take(a->id);
        }
        step((struct npm_event){ .kind = NPM_REMOVED });
        break;
    case NPM_DO_STATUS:
        if (cloud.deaf_status) {
            break;
        }
        step((struct npm_event){ .kind = cloud.silent_runners ? NPM_SILENT : NPM_REPORTED,
                                 .id = a->id,
                                 .active = cloud.active });
        break;
    case NPM_DO_PUBLISH:
        cloud.publishes++;
        break;
    case NPM_DO_NOTE:
        notes[a->note]++;
        break;
    }
}

static void check_sums(void)
{
    struct npm_figures f;
    uint64_t mb[NPM_STATES_N] = { 0 };
    uint32_t n[NPM_STATES_N] = { 0 };

    npm_figures(group, &f);
    for (uint32_t i = 0; i < npm_host_count(group); i++) {
        const struct npm_host *h = npm_host_at(group, i);

        mb[h->state] += h->capacity_mb;
        n[h->state]++;
    }
    ck_assert_int_eq(memcmp(mb, f.state_mb, sizeof(mb)), 0);
    ck_assert_int_eq(memcmp(n, f.state_n, sizeof(n)), 0);
    ck_assert_uint_eq(budget.runners, npm_host_count(group) - n[NPM_FOREIGN] + f.asked_n);
    ck_assert_uint_le(budget.runners, budget.runners_max + n[NPM_BOOTING]);
}

static void step(struct npm_event e)
{
    struct npm_actions mine;

    next_ns = npm_step(group, &e, now_ns, &out);
    check_sums();
    ck_assert_int_ge(next_ns, now_ns);
    mine = out;
    for (uint32_t i = 0; i < mine.n; i++) {
        answer(&mine.list[i]);
    }
}

/* Ticks as asked for, at most a second apart, with the demand told each second. */
static void pass(int64_t seconds, uint64_t demand_mb)
{
    static uint64_t seq;

    for (int64_t s = 0; s < seconds; s++) {
        step((struct npm_event){ .kind = NPM_DEMAND, .id = "lb1", .seq = ++seq, .mb = demand_mb });
        for (int i = 0; i < 4; i++) {
            now_ns += S / 4;
            step((struct npm_event){ .kind = NPM_TICK });
        }
    }
}

static struct npm_figures figures(void)
{
    struct npm_figures f;

    npm_figures(group, &f);
    return f;
}

static void begin(void)
{
    group = npm_group_create(&options, &budget, now_ns);
    ck_assert_ptr_nonnull(group);
}

static void setup(void)
{
    struct npm_options o = NPM_OPTIONS_INIT;

    options = o;
    options.runners_max = 10;
    budget = (struct npm_budget){ .runners_max = 20, .request_last = 1000 };
    memset(&cloud, 0, sizeof(cloud));
    memset(notes, 0, sizeof(notes));
    cloud.deliver_max = MACHINES_N;
    now_ns = 1000 * S;
    begin();
}

static void teardown(void)
{
    npm_group_destroy(group);
    ck_assert_uint_eq(budget.runners, 0);
}

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

/* M4: asked capacity that never comes is asked again, at most expired_max times at full speed. */
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
    cloud.provision_fails = false;
    pass(70, RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
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

START_TEST(an_operator_drains_and_takes_back)
{
    pass(20, 2 * RUNNER_MB);
    step((struct npm_event){ .kind = NPM_DRAIN, .id = "m0" });
    ck_assert_int_eq(npm_host_find(group, "m0")->state, NPM_DRAINING);
    pass(20, 2 * RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2); /* replaced */
    pass(400, 2 * RUNNER_MB);
    ck_assert_int_eq(npm_host_find(group, "m0")->state, NPM_DRAINING); /* never removed */
    ck_assert_uint_eq(cloud.removes, 0);
    step((struct npm_event){ .kind = NPM_UNDRAIN, .id = "m0" });
    ck_assert_int_eq(npm_host_find(group, "m0")->state, NPM_ACTIVE);
    step((struct npm_event){ .kind = NPM_DRAIN, .id = "nobody" });
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
    begin();
    pass(30, 2 * RUNNER_MB);
    ck_assert_uint_eq(cloud.asked, 4);
    pass(100, RUNNER_MB);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 2);
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
    begin();
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

/* Found by npm_sim (L1): one dead stranger after the other was waited for. */
START_TEST(strangers_that_do_not_answer_are_no_supply)
{
    npm_group_destroy(group);
    options.runners_max = 2;
    begin();
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
    begin();
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

/* A provision call that outlasts its request: what expired is no supply, and its entry is not used
 * again before the answer. */
START_TEST(a_request_that_expires_under_way)
{
    struct npm_event answer = { .kind = NPM_PROVISIONED, .n = 3 };

    options.request_life_ns = 2 * S;
    npm_group_destroy(group);
    begin();
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
    begin();
    cloud.lost = true;
    pass(120, 40 * RUNNER_MB);
    ck_assert_uint_eq(figures().requests_n, NPM_REQUESTS_MAX);
    ck_assert_uint_eq(figures().asked_n, NPM_REQUESTS_MAX);
    ck_assert_uint_eq(cloud.asked, NPM_REQUESTS_MAX);
}
END_TEST

/* Nothing is taken away so soon after a start, however short the cool-down is. */
START_TEST(the_first_drain_waits_for_the_brake)
{
    options.cooldown_ns = 2 * S;
    npm_group_destroy(group);
    cloud_add();
    begin();
    pass(29, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 1);
    pass(5, 0);
    ck_assert_uint_eq(figures().state_n[NPM_ACTIVE], 0);
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

START_TEST(states_have_names_and_nothing_is_destroyed)
{
    static const char *const names[] = { "booting", "active", "draining", "removing", "foreign" };

    for (uint32_t i = 0; i < NPM_STATES_N; i++) {
        ck_assert_str_eq(npm_state_name((enum npm_host_state)i), names[i]);
    }
    for (uint32_t i = 0; i < NPM_NOTES_N; i++) {
        ck_assert_uint_gt(strlen(npm_note_text((enum npm_note)i)), 10);
    }
    npm_group_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("npm");
    TCase *t = tcase_create("group");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, nothing_is_bought_before_it_settled);
    tcase_add_test(t, a_restart_buys_no_second_fleet);
    tcase_add_test(t, it_shrinks_after_the_cooldown_when_the_runners_are_empty);
    tcase_add_test(t, a_drain_with_calls_ends_at_its_deadline);
    tcase_add_test(t, draining_runners_come_back_before_new_ones_are_bought);
    tcase_add_test(t, a_request_that_brings_nothing_expires);
    tcase_add_test(t, a_failing_control_plane_is_asked_ever_more_slowly);
    tcase_add_test(t, a_repeated_request_is_the_same_to_the_letter);
    tcase_add_test(t, a_refused_request_may_change);
    tcase_add_test(t, partial_deliveries_are_completed);
    tcase_add_test(t, a_lost_runner_is_replaced_after_three_lists);
    tcase_add_test(t, a_mass_loss_is_not_believed_at_once);
    tcase_add_test(t, a_removal_is_repeated_until_the_runner_is_gone);
    tcase_add_test(t, the_maximum_holds_and_the_rest_is_foreign);
    tcase_add_test(t, the_budget_of_all_groups_holds);
    tcase_add_test(t, garbage_demand_is_clamped_and_hurts_nobody);
    tcase_add_test(t, an_overtaken_word_is_dropped);
    tcase_add_test(t, bad_machines_are_refused);
    tcase_add_test(t, machines_have_labels);
    tcase_add_test(t, labels_may_change_for_ever);
    tcase_add_test(t, an_operator_drains_and_takes_back);
    tcase_add_test(t, a_long_stop_is_a_new_start);
    tcase_add_test(t, a_silent_runner_is_replaced_but_not_all_of_them);
    tcase_add_test(t, a_runner_that_never_boots_is_removed);
    tcase_add_test(t, a_lost_question_is_asked_again);
    tcase_add_test(t, the_predictor_rules);
    tcase_add_test(t, swinging_demand_does_not_flap);
    tcase_add_test(t, a_drain_keeps_what_the_cooldown_needed);
    tcase_add_test(t, one_odd_capacity_does_not_decide);
    tcase_add_test(t, a_long_silence_of_most_is_believed_when_calls_wait);
    tcase_add_test(t, orders_find_room_among_many_notes);
    tcase_add_test(t, strangers_that_do_not_answer_are_no_supply);
    tcase_add_test(t, the_brake_stays_on_its_hosts);
    tcase_add_test(t, an_old_answer_does_not_end_a_drain);
    tcase_add_test(t, a_large_runner_protects_no_small_one);
    tcase_add_test(t, runners_that_never_answer_are_asked_for_ever_more_slowly);
    tcase_add_test(t, runners_that_die_at_once_are_asked_for_ever_more_slowly);
    tcase_add_test(t, a_runner_knows_when_it_was_asked_for);
    tcase_add_test(t, a_call_before_the_order_keeps_its_runner);
    tcase_add_test(t, a_request_that_expires_under_way);
    tcase_add_test(t, open_requests_are_bounded);
    tcase_add_test(t, the_first_drain_waits_for_the_brake);
    tcase_add_test(t, options_change_while_it_runs);
    tcase_add_test(t, names_may_collide);
    tcase_add_test(t, states_have_names_and_nothing_is_destroyed);
    suite_add_tcase(s, t);
    suite_add_tcase(s, machine_tests(&npm_host_states, STATE(NPM_BOOTING) | STATE(NPM_FOREIGN), 0));
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
