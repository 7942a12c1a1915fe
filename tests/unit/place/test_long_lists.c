/* Placement: lists that are too long for one turn of the loop. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define LONG    1000u
#define PORTION 256u /* listing.c */
#define TURN_NS 1

/* "r<first>:1" and on, then NULL; one list at a time. */
static const char *const *names(uint32_t first, uint32_t n)
{
    static char texts[2 * LONG][16];
    static const char *list[2 * LONG + 1];

    ck_assert_uint_le(n, 2 * LONG);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(texts[i], sizeof(texts[i]), "r%u:1", first + i);
        list[i] = texts[i];
    }
    list[n] = NULL;
    return list;
}

static uint32_t runners(void)
{
    struct place_counts n;

    place_count(place, &n);
    return n.runners;
}

static uint32_t links(void)
{
    struct engage_link *l;
    uint32_t n = 0;

    TAILQ_FOREACH(l, &fe.links, link)
    {
        n++;
    }
    return n;
}

static void turn(void)
{
    fake_env_advance(env, TURN_NS);
}

static void turns(uint32_t n)
{
    while (n-- > 0) {
        turn();
    }
}

/* Calls go on with the list that is until the new one is whole. */
START_TEST(bound_in_portions)
{
    uint32_t n = 1; /* the first one is taken when it is published */
    struct place_call *a;

    PUBLISH("old:1");
    ck_assert_int_eq(publish("default", names(0, LONG)), 0);
    for (; runners() == 1; n++) {
        a = begin();
        ck_assert_int_eq(place_next(a), PLACE_TRY);
        ck_assert_str_eq(a->address, "old:1");
        end(a);
        turn();
    }
    ck_assert_uint_eq(n, (LONG + PORTION - 1) / PORTION);
    ck_assert_uint_eq(runners(), LONG);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_str_eq(a->address, "r0:1");
    end(a);
    turn();
    ck_assert_ptr_null(fake_engage_link(&fe, "old:1"));
}
END_TEST

START_TEST(portion_is_published_at_once)
{
    publish("default", names(0, PORTION));
    ck_assert_uint_eq(runners(), PORTION);
    publish("default", names(0, PORTION + 1));
    ck_assert_uint_eq(runners(), PORTION);
    turn();
    ck_assert_uint_eq(runners(), PORTION + 1);
}
END_TEST

/* Attempts that begin and end while the list is bound count in both. */
START_TEST(counts_follow_while_it_is_bound)
{
    struct place_call *a, *b, *c;

    publish("default", names(0, 2));
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY); /* at r0 */
    publish("default", names(0, LONG));
    turn();
    b = begin();
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0], 1);
    end(a);
    c = begin();
    t.fixed = (struct fn_answer){ .verdict = FN_TRY, .index = 1 };
    ck_assert_int_eq(place_next(c), PLACE_TRY); /* at r1 */
    t.fixed.verdict = 0;
    turns(3);
    ck_assert_uint_eq(runners(), LONG);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0], 1);
    ck_assert_uint_eq(t.inflight[1], 1);
    ck_assert_uint_eq(t.inflight[2], 0);
    end(a);
    end(b);
    end(c);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0] + t.inflight[1], 0);
    end(a);
}
END_TEST

/* Behind the one that is bound only the newest waits; none keeps the first from being used. */
START_TEST(newest_waits)
{
    publish("default", names(0, LONG));
    publish("default", names(1, LONG));
    publish("default", names(2, LONG + 7));
    turns(3);
    ck_assert_uint_eq(runners(), LONG);
    turns(5);
    ck_assert_uint_eq(runners(), LONG + 7);
    fake_env_advance(env, 10 * ENV_MS);
    ck_assert_ptr_null(fake_engage_link(&fe, "r0:1"));
    ck_assert_ptr_null(fake_engage_link(&fe, "r1:1"));
}
END_TEST

START_TEST(short_list_overtakes)
{
    publish("default", names(0, LONG));
    publish("default", names(1, LONG));
    PUBLISH("r5:1", "r6:1");
    ck_assert_uint_eq(runners(), 2);
    fake_env_advance(env, 2 * ENV_MS);
    ck_assert_uint_eq(runners(), 2);
    ck_assert_uint_eq(links(), 2);
}
END_TEST

/* Its index is of the placer that decides when it is whole. */
START_TEST(placer_is_replaced_meanwhile)
{
    static struct plugin other;
    struct place_call *a;

    fake_plugin_init(&other, "other", &placer_ops, NULL);
    PUBLISH("r0:1");
    publish("default", names(0, LONG));
    ck_assert_int_eq(place_set_placer(place, &other, NULL, NULL), 0);
    ck_assert_uint_eq(runners(), 1);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    end(a);
    turns(4);
    ck_assert_uint_eq(runners(), LONG);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0], 0);
    end(a);
    ck_assert_int_eq(t.indexes, 1);
}
END_TEST

START_TEST(listed_twice)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_snap_builder *b;

    ck_assert_int_eq(snap->begin(&pool.host, "default", &b), 0);
    for (uint32_t i = 0; i < LONG; i++) {
        struct fn_runner r = { .id = 1 + i % (LONG / 2), .address = "r:1" };

        ck_assert_int_eq(snap->add(b, &r, sizeof(r)), 0);
    }
    ck_assert_int_eq(snap->publish(b), 0);
    turns(4);
    ck_assert_uint_eq(runners(), LONG / 2);
}
END_TEST

/* A link that is closed costs more than a runner that stays. */
START_TEST(links_are_closed_in_portions)
{
    uint32_t before;

    publish("default", names(0, LONG));
    fake_env_advance(env, ENV_S);
    ck_assert_uint_eq(links(), LONG);
    PUBLISH("r0:1");
    ck_assert_uint_eq(runners(), 1);
    while ((before = links()) > 1) {
        fake_env_advance(env, ENV_MS);
        ck_assert_uint_lt(links(), before);
        ck_assert_uint_ge(links() + 8, before);
    }
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r0:1"));
}
END_TEST

/* Nothing is left of lists that are bound, wait and end: for the sanitizers. */
START_TEST(the_end_comes_meanwhile)
{
    publish("default", names(0, LONG));
    fake_env_advance(env, ENV_S);
    publish("default", names(LONG, LONG));
    turns(4);
    publish("default", names(0, LONG));
    publish("default", names(1, LONG));
    publish("other", names(0, LONG));
}
END_TEST

TCase *long_lists_tests(void)
{
    const TTest *const tests[] = {
        bound_in_portions, portion_is_published_at_once, counts_follow_while_it_is_bound,
        newest_waits, short_list_overtakes, placer_is_replaced_meanwhile, listed_twice,
        links_are_closed_in_portions, the_end_comes_meanwhile,
    };

    return world_case("long lists", tests, sizeof(tests) / sizeof(tests[0]));
}
