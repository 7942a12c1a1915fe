/* The gate alone: shares, turns, bounds. */
#include "suites.h"

#include <runner/gate.h>
#include <stdio.h>
#include <string.h>

#define PASSES 64

struct entry {
    struct gate_pass pass;
    int n; /* order of being let in, 0 = not yet */
};

static struct gate gate;
static struct entry entries[PASSES];
static int let_in;

static void go(struct gate_pass *p)
{
    ((struct entry *)p)->n = ++let_in;
}

static void setup(void)
{
    memset(entries, 0, sizeof(entries));
    let_in = 0;
    gate_init(&gate, 8);
    for (int i = 0; i < PASSES; i++) {
        entries[i].pass.go = go;
    }
}

static int ask(int from, int n, const char *app, const char *registry)
{
    int before = let_in;

    for (int i = from; i < from + n; i++) {
        gate_enter(&gate, &entries[i].pass, app, registry);
    }
    return let_in - before;
}

static void leave(int i)
{
    gate_leave(&gate, &entries[i].pass);
    gate_let_in(&gate);
}

/* Ends whatever is left; nothing of it may stay. */
static void teardown(void)
{
    for (int i = 0; i < PASSES; i++) {
        gate_withdraw(&gate, &entries[i].pass);
    }
    for (int i = 0; i < PASSES; i++) {
        if (entries[i].pass.inside) {
            leave(i);
        }
    }
    ck_assert_uint_eq(gate.held, 0);
    ck_assert_uint_eq(gate.waiting, 0);
    ck_assert_ptr_null(gate.parties[0]);
    ck_assert_ptr_null(gate.parties[1]);
    ck_assert(TAILQ_EMPTY(&gate.turns));
}

START_TEST(whoever_holds_leaves_as_many_to_others)
{
    ck_assert_int_eq(ask(0, 10, "a", NULL), 4);
    ck_assert_int_eq(ask(10, 10, "b", NULL), 2);
    ck_assert_int_eq(ask(20, 10, "c", NULL), 1);
    ck_assert_int_eq(ask(30, 10, "d", NULL), 1);
    ck_assert_int_eq(ask(40, 1, "e", NULL), 0);
    leave(0);
    ck_assert_int_eq(entries[40].n, 9); /* not a's next one */
}
END_TEST

START_TEST(parties_are_let_in_by_turns)
{
    gate.shut = true;
    ask(0, 4, "a", NULL);
    ask(4, 2, "b", NULL);
    ask(6, 1, "c", NULL);
    gate.shut = false;
    gate.max = 1;
    gate_let_in(&gate);
    for (int n = 1; n < 7; n++) {
        for (int i = 0; i < 7; i++) {
            if (entries[i].n == n) {
                leave(i);
            }
        }
    }
    ck_assert_int_eq(entries[0].n, 1);
    ck_assert_int_eq(entries[4].n, 2);
    ck_assert_int_eq(entries[6].n, 3);
    ck_assert_int_eq(entries[1].n, 4);
    ck_assert_int_eq(entries[5].n, 5);
    ck_assert_int_eq(entries[2].n, 6);
}
END_TEST

START_TEST(urgent_ones_go_first_in_their_party)
{
    gate.shut = true;
    entries[1].pass.urgent = true;
    ask(0, 2, "a", NULL);
    ck_assert_uint_eq(gate.waiting, 1);
    gate.shut = false;
    gate_let_in(&gate);
    ck_assert_int_eq(entries[1].n, 1);
}
END_TEST

START_TEST(a_registry_has_a_share_beside_the_apps)
{
    char app[16];

    for (int i = 0; i < 8; i++) { /* eight apps, one registry */
        snprintf(app, sizeof(app), "app%d", i);
        ask(i, 1, app, "evil:5000");
    }
    ck_assert_int_eq(let_in, 4);
    ck_assert_int_eq(ask(8, 1, "app0", "docker.io"), 1); /* not behind what waits for the other */
    ck_assert(!gate_try(&gate, &entries[9].pass, "x", "evil:5000"));
    ck_assert(gate_try(&gate, &entries[9].pass, "x", "ghcr.io"));
}
END_TEST

START_TEST(one_place_is_for_anybody)
{
    gate.max = 1;
    ck_assert_int_eq(ask(0, 2, "a", "r"), 1);
    ck_assert_int_eq(ask(2, 1, "b", "s"), 0);
    leave(0);
    ck_assert_int_eq(let_in, 2);
    gate.max = 2;
    gate_let_in(&gate);
    ck_assert_int_eq(let_in, 3);
}
END_TEST

/* b waits with a's pass: it has the turn where it is let in first. */
START_TEST(what_is_inside_counts_before_what_waits)
{
    ask(0, 4, "a", NULL);  /* all inside: its share */
    ask(4, 3, "a", NULL);
    ask(10, 2, "b", NULL); /* inside, too */
    ck_assert(gate_is_sooner(&gate, "b", &entries[4].pass));
    gate.shut = true;
    ask(12, 9, "b", NULL);
    ck_assert(gate_is_sooner(&gate, "b", &entries[4].pass)); /* a's share is used up */
    ck_assert(gate_is_sooner(&gate, "c", &entries[12].pass));
}
END_TEST

/* However many of its app stand behind it. */
START_TEST(what_stands_before_a_pass_counts_and_not_what_stands_behind)
{
    gate.shut = true;
    ask(0, 10, "a", NULL);
    ask(10, 2, "b", NULL);
    ck_assert(!gate_is_sooner(&gate, "b", &entries[0].pass));
    ck_assert(!gate_is_sooner(&gate, "b", &entries[2].pass));
    ck_assert(gate_is_sooner(&gate, "b", &entries[3].pass));
    ck_assert(!gate_is_sooner(&gate, "a", &entries[9].pass));
    ck_assert(!gate_is_sooner(&gate, "c", &entries[0].pass));
    ck_assert(gate_is_sooner(&gate, "c", &entries[1].pass));
}
END_TEST

TCase *gate_tests(void)
{
    TCase *t = tcase_create("gate");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, whoever_holds_leaves_as_many_to_others);
    tcase_add_test(t, parties_are_let_in_by_turns);
    tcase_add_test(t, urgent_ones_go_first_in_their_party);
    tcase_add_test(t, a_registry_has_a_share_beside_the_apps);
    tcase_add_test(t, one_place_is_for_anybody);
    tcase_add_test(t, what_is_inside_counts_before_what_waits);
    tcase_add_test(t, what_stands_before_a_pass_counts_and_not_what_stands_behind);
    return t;
}
