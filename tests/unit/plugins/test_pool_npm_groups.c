/* pool/npm: what a group makes of lists. */
#include <groups.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S 1000000000LL

static struct groups groups;
static struct group *g;

static void setup(void)
{
    memset(&groups, 0, sizeof(groups));
    g = groups_get(&groups, "default", 0);
}

static void teardown(void)
{
    groups_finish(&groups);
}

/* "a b* c": members, '*' = draining. */
static void take(const char *list, int64_t now_ns)
{
    char copy[256];
    char *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", list);
    group_list_begin(g);
    for (char *id = strtok_r(copy, " ", &rest); id; id = strtok_r(NULL, " ", &rest)) {
        struct wire_member m = { .address = "h:1", .draining = strchr(id, '*') != NULL };

        snprintf(m.id, sizeof(m.id), "%.*s", (int)strcspn(id, "*"), id);
        ck_assert_int_eq(group_member(g, &m), 0);
    }
    group_list_end(g, now_ns);
}

static const char *now_listed(void)
{
    static char text[256];

    text[0] = '\0';
    for (uint32_t i = 0; i < g->n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, g->members[i].id);
    }
    return text;
}

START_TEST(members_keep_their_places)
{
    take("a b c d", S);
    take("d c a e", 2 * S);
    ck_assert_str_eq(now_listed(), "a c d e");
    take("", 3 * S); /* all at once: not believed */
    ck_assert_str_eq(now_listed(), "a c d e");
}
END_TEST

START_TEST(a_sudden_loss_is_not_believed_at_once)
{
    take("a b c d", S);
    take("a", 10 * S);
    ck_assert_str_eq(now_listed(), "a b c d");
    ck_assert_int_eq(group_expire(g, 39 * S), 0);
    take("a", 39 * S);
    ck_assert_int_eq(group_expire(g, 40 * S), 1);
    ck_assert_str_eq(now_listed(), "a");
}
END_TEST

START_TEST(drained_members_go_at_once)
{
    take("a b c d", S);
    take("a b* c* d*", 2 * S);
    ck_assert_str_eq(now_listed(), "a b c d");
    take("a", 3 * S);
    ck_assert_str_eq(now_listed(), "a");
}
END_TEST

START_TEST(older_lists_are_no_news)
{
    ck_assert_int_eq(group_is_news(g, 0, 0), 1);
    take("a", S);
    g->epoch = 5;
    g->version = 7;
    ck_assert_int_eq(group_is_news(g, 5, 7), 0);
    ck_assert_int_eq(group_is_news(g, 5, 6), 0);
    ck_assert_int_eq(group_is_news(g, 4, 99), 0);
    ck_assert_int_eq(group_is_news(g, 5, 8), 1);
    ck_assert_int_eq(group_is_news(g, 6, 1), 1);
}
END_TEST

/* Found by npm_sim (L1): after a restart with the wall clock set back every list was too old. */
START_TEST(another_epoch_begins_a_stream)
{
    take("a", S);
    g->epoch = 5;
    g->version = 7;
    g->fresh = 1;
    ck_assert_int_eq(group_is_news(g, 4, 1), 1);
    ck_assert_int_eq(group_is_news(g, 5, 6), 0);
    g->fresh = 0;
    ck_assert_int_eq(group_is_news(g, 4, 1), 0);
}
END_TEST

START_TEST(ten_thousand_members)
{
    struct wire_member m = { .address = "h:1" };

    for (int round = 0; round < 3; round++) {
        group_list_begin(g);
        for (int i = 0; i < 10000; i++) {
            snprintf(m.id, sizeof(m.id), "machine-%d", i);
            ck_assert_int_eq(group_member(g, &m), 0);
        }
        group_list_end(g, S);
        ck_assert_uint_eq(g->n, 10000);
    }
}
END_TEST

static int take_many(int first, int n)
{
    struct wire_member m = { .address = "h:1" };
    int r = 0;

    group_list_begin(g);
    for (int i = first; r == 0 && i < first + n; i++) {
        snprintf(m.id, sizeof(m.id), "machine-%d", i);
        r = group_member(g, &m);
    }
    if (r == 0) {
        group_list_end(g, S);
    }
    return r;
}

/* The limit is one of the list: members of the one before take nobody's place. */
START_TEST(as_many_others_as_may_be)
{
    const int max = (int)GROUPS_MEMBERS_MAX;

    ck_assert_int_eq(take_many(0, max), 0);
    ck_assert_int_eq(take_many(1, max), 0);
    ck_assert_uint_eq(g->n, GROUPS_MEMBERS_MAX);
    ck_assert_int_eq(take_many(0, max + 1), FN_E_RANGE);
    ck_assert_int_eq(take_many(2, max), 0);
    ck_assert_uint_eq(g->n, GROUPS_MEMBERS_MAX);
}
END_TEST

/* Each that goes may not cost a move of all others: it was seconds on the loop. */
START_TEST(a_tenth_goes_the_rest_keeps_its_order)
{
    struct wire_member m = { .address = "h:1" };

    for (int round = 0; round < 2; round++) {
        group_list_begin(g);
        for (int i = 0; i < 60000; i++) {
            snprintf(m.id, sizeof(m.id), "machine-%d", i);
            if (round == 0 || i % 10 != 3) {
                ck_assert_int_eq(group_member(g, &m), 0);
            }
        }
        group_list_end(g, S);
    }
    ck_assert_uint_eq(g->n, 54000);
    ck_assert_str_eq(g->members[3].id, "machine-4");
    ck_assert_str_eq(g->members[53999].id, "machine-59999");
}
END_TEST

START_TEST(groups_are_bounded)
{
    char name[WIRE_GROUP_MAX + 3];

    memset(name, 'x', sizeof(name));
    name[WIRE_GROUP_MAX + 1] = '\0';
    ck_assert_ptr_null(groups_get(&groups, name, 0));
    for (uint32_t i = 1; i < GROUPS_MAX; i++) {
        snprintf(name, sizeof(name), "g%u", i);
        ck_assert_ptr_nonnull(groups_get(&groups, name, i));
    }
    ck_assert_ptr_null(groups_get(&groups, "one more", S));
    ck_assert_ptr_eq(groups_get(&groups, "default", S), g);
}
END_TEST

/* Once a function author who renamed a group 255 times locked out those of everybody. */
START_TEST(a_group_that_nobody_uses_gives_its_place)
{
    struct group *calls, *held;
    char name[WIRE_GROUP_MAX + 1];

    take("a", S); /* default has members */
    calls = groups_get(&groups, "calls", S);
    calls->demand.running = 1;
    held = groups_get(&groups, "held", S);
    held->held = 1;
    for (uint32_t i = 0; i < 3 * GROUPS_MAX; i++) {
        struct group *one;

        snprintf(name, sizeof(name), "g%u", i);
        one = groups_get(&groups, name, (10 + i) * S);
        ck_assert_ptr_nonnull(one);
        ck_assert_str_eq(one->name, name);
        ck_assert_uint_eq(one->n, 0);
        ck_assert_uint_le(groups.n, GROUPS_MAX);
    }
    ck_assert_ptr_eq(groups_find(&groups, "default"), g);
    ck_assert_ptr_eq(groups_find(&groups, "calls"), calls);
    ck_assert_ptr_eq(groups_find(&groups, "held"), held);
    ck_assert_ptr_nonnull(groups_find(&groups, name));
    ck_assert_ptr_null(groups_find(&groups, "g0"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool npm groups");
    TCase *t = tcase_create("groups");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, members_keep_their_places);
    tcase_add_test(t, a_sudden_loss_is_not_believed_at_once);
    tcase_add_test(t, drained_members_go_at_once);
    tcase_add_test(t, older_lists_are_no_news);
    tcase_add_test(t, another_epoch_begins_a_stream);
    tcase_add_test(t, ten_thousand_members);
    tcase_add_test(t, as_many_others_as_may_be);
    tcase_add_test(t, a_tenth_goes_the_rest_keeps_its_order);
    tcase_add_test(t, groups_are_bounded);
    tcase_add_test(t, a_group_that_nobody_uses_gives_its_place);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
