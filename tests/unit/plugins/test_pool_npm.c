/* The pure parts of pool/npm: the wire and what a group makes of lists. */
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
    g = groups_get(&groups, "default");
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
        struct wire_member m = {.address = "h:1", .draining = strchr(id, '*') != NULL};

        snprintf(m.id, sizeof(m.id), "%.*s", (int)strcspn(id, "*"), id);
        ck_assert_int_eq(group_member(g, &m), 0);
    }
    ck_assert_int_eq(group_list_end(g, now_ns), 1);
}

static const char *now_listed(void)
{
    static char text[256];

    text[0] = '\0';
    for (uint32_t i = 0; i < g->n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, g->members[i].wire.id);
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
    struct wire_member m = {.address = "h:1"};

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

START_TEST(groups_are_bounded)
{
    char name[WIRE_GROUP_MAX + 3];

    memset(name, 'x', sizeof(name));
    name[WIRE_GROUP_MAX + 1] = '\0';
    ck_assert_ptr_null(groups_get(&groups, name));
    for (uint32_t i = 1; i < GROUPS_MAX; i++) {
        snprintf(name, sizeof(name), "g%u", i);
        ck_assert_ptr_nonnull(groups_get(&groups, name));
    }
    ck_assert_ptr_null(groups_get(&groups, "one more"));
    ck_assert_ptr_eq(groups_get(&groups, "default"), g);
}
END_TEST

/* ---- wire ------------------------------------------------------------------------------------ */

/* Field by field as protobuf writes it; npm_service decodes the same with protobuf-c. */
START_TEST(demand_is_encoded_as_protobuf)
{
    static const unsigned char expected[] = "\x0a\x04lb-7\x10\xac\x02\x1a\x10\x0a\x07"
                                            "default\x10\x80\x01\x18\x03\x20\x01";
    struct wire_out o = {NULL, 0, 0, 0};
    const struct wire_demand d = {"default", 128, 3, 1};

    wire_demand_begin(&o, "lb-7", 300);
    wire_demand_add(&o, &d);
    ck_assert_uint_eq(o.len, sizeof(expected) - 1);
    ck_assert_int_eq(memcmp(o.data, expected, o.len), 0);
    wire_finish(&o);
}
END_TEST

static const unsigned char membership[] = "\x08\x07\x10\x09\x1a\x07"
                                          "default\x22\x0e\x0a\x02m1\x12\x03h:1\x18\x80\x20\x20\x01"
                                          "\x22\x09\x0a\x02m2\x12\x03h:2";
static struct wire_member got[4];
static int got_n;

static int on_member(void *ud, const struct wire_member *m)
{
    (void)ud;
    got[got_n++] = *m;
    return 0;
}

START_TEST(a_membership_is_read)
{
    struct wire_membership m = {.member = on_member};

    got_n = 0;
    ck_assert_int_eq(wire_read_membership(membership, sizeof(membership) - 1, &m), 0);
    ck_assert_uint_eq(m.epoch, 7);
    ck_assert_uint_eq(m.version, 9);
    ck_assert_str_eq(m.group, "default");
    ck_assert_int_eq(got_n, 2);
    ck_assert_str_eq(got[0].id, "m1");
    ck_assert_str_eq(got[0].address, "h:1");
    ck_assert_uint_eq(got[0].capacity_mb, 4096);
    ck_assert_int_eq(got[0].draining, 1);
    ck_assert_int_eq(got[1].draining, 0);
}
END_TEST

/* Every cut and every changed byte: read or refused, nothing else. */
START_TEST(broken_memberships_are_refused)
{
    size_t len = sizeof(membership) - 1;

    for (size_t cut = 0; cut < len; cut++) {
        struct wire_membership m = {.member = on_member};
        unsigned char *copy = malloc(cut + 1);

        memcpy(copy, membership, cut);
        got_n = 0;
        wire_read_membership(copy, cut, &m);
        free(copy);
    }
    for (size_t i = 0; i < len * 256; i++) {
        struct wire_membership m = {.member = on_member};
        unsigned char *copy = malloc(len);

        memcpy(copy, membership, len);
        copy[i / 256] = (unsigned char)i;
        got_n = 0;
        wire_read_membership(copy, len, &m);
        ck_assert_int_le(got_n, 4);
        free(copy);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool npm");
    TCase *t = tcase_create("pool npm");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, members_keep_their_places);
    tcase_add_test(t, a_sudden_loss_is_not_believed_at_once);
    tcase_add_test(t, drained_members_go_at_once);
    tcase_add_test(t, older_lists_are_no_news);
    tcase_add_test(t, another_epoch_begins_a_stream);
    tcase_add_test(t, ten_thousand_members);
    tcase_add_test(t, groups_are_bounded);
    tcase_add_test(t, demand_is_encoded_as_protobuf);
    tcase_add_test(t, a_membership_is_read);
    tcase_add_test(t, broken_memberships_are_refused);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
