/* Placement: lists of runners and their links; with scripted plugins. */
#include "world.h"

#include <base/metric.h>
#include <stdio.h>
#include <string.h>

/* A runner without a link is passed over without an attempt at the client. */
START_TEST(down_links_are_not_tried)
{
    struct place_call *a;

    fe.up_at_once = false;
    PUBLISH("r1:1", "r2:1");
    fake_engage_up(&fe, "r2:1", true);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_str_eq(a->address, "r2:1");
    ck_assert_uint_eq(t.last_why, FN_WHY_UNREACHABLE);
    end(a);
    ck_assert_uint_eq(fe.attempts_made, 0);
}
END_TEST

START_TEST(draining_runners_are_refused)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_runner r = { .id = 1, .address = "r1:1", .flags = FN_RUNNER_DRAINING };
    struct fn_snap_builder *b;
    struct place_call *a;

    snap->begin(&pool.host, "default", &b);
    snap->add(b, &r, sizeof(r));
    snap->publish(b);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    leave(a);
}
END_TEST

static void publish_labelled(const char *first, const char *second)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_runner r = { .id = 1, .address = "r1:1", .weight = 1, .labels = first };
    struct fn_snap_builder *b;

    ck_assert_int_eq(snap->begin(&pool.host, "default", &b), 0);
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), 0);
    r = (struct fn_runner){ .id = 2, .address = "r2:1", .weight = 1, .labels = second };
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), 0);
    r = (struct fn_runner){ .id = 3, .address = "r3:1", .weight = 1 };
    ck_assert_int_eq(snap->add(b, &r, offsetof(struct fn_runner, labels)), 0);
    ck_assert_int_eq(snap->publish(b), 0);
}

static const char *fe_labels(const struct engage_link *l)
{
    return l->cb->labels(l->ud);
}

/* Sorted, equal sets once; they may change while the runner stays. */
START_TEST(labels_reach_the_placer)
{
    struct engage_link *l;
    struct place_call *a;

    publish_labelled("zone=a,class=gpu", "class=gpu,zone=a");
    l = fake_engage_link(&fe, "r1:1");
    ck_assert_str_eq(fe_labels(l), "class=gpu,zone=a");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_str_eq(t.labels[0], "class=gpu,zone=a");
    ck_assert_ptr_eq(t.labels[0], t.labels[1]);
    ck_assert_ptr_null(t.labels[2]);
    end(a);
    publish_labelled("zone=b", "");
    ck_assert_ptr_eq(fake_engage_link(&fe, "r1:1"), l);
    ck_assert_str_eq(fe_labels(l), "zone=b");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_str_eq(t.labels[0], "zone=b");
    ck_assert_ptr_null(t.labels[1]);
    end(a);
}
END_TEST

/* Counts follow a runner over snapshots; a link is kept while anything uses it. */
START_TEST(snapshots_carry_links)
{
    struct place_call *a;
    struct place_call *b;
    struct engage_link *l;

    PUBLISH("r1:1", "r2:1");
    l = fake_engage_link(&fe, "r1:1");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    PUBLISH("r1:1");
    ck_assert_ptr_eq(fake_engage_link(&fe, "r1:1"), l);
    ck_assert_ptr_null(fake_engage_link(&fe, "r3:1"));
    b = begin();
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0], 1);
    /* r2 was only in the old list; that one is pinned by a's round. */
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r2:1"));
    end(a);
    ck_assert_ptr_null(fake_engage_link(&fe, "r2:1"));
    PUBLISH("r9:1");
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r1:1"));
    end(b);
    ck_assert_ptr_null(fake_engage_link(&fe, "r1:1"));
    ck_assert_int_eq(t.indexes, 1);
}
END_TEST

/* The same id at a new address is another runner. */
START_TEST(restarted_elsewhere)
{
    PUBLISH("r1:1");
    PUBLISH("r1:2");
    ck_assert_ptr_null(fake_engage_link(&fe, "r1:1"));
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "r1:2"));
}
END_TEST

START_TEST(failing_pool_keeps_its_list)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_error why = ERR_INIT;
    struct place_call *a;

    PUBLISH("r1:1");
    err_set(&why, FN_E_UNAVAILABLE, "no list");
    ck_assert_int_eq((snap->fail)(&pool.host, "default", &why), 0);
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    end(a);
}
END_TEST

/* Bad builders. */
START_TEST(builders_check)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_runner r = { .id = 1 };
    struct fn_snap_builder *b;
    char name[80];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    ck_assert_int_eq(snap->begin(&placer.host, "default", &b), FN_E_PRECONDITION);
    ck_assert_int_eq(snap->begin(&pool.host, "", &b), FN_E_INVALID);
    ck_assert_int_eq(snap->begin(&pool.host, name, &b), FN_E_INVALID);
    ck_assert_int_eq(snap->begin(&pool.host, "default", &b), 0);
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), FN_E_INVALID);
    r.address = "";
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), FN_E_INVALID);
    r.address = "r1:1";
    r.flags = 1u << 7;
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), FN_E_INVALID);
    r.flags = FN_RUNNER_DRAINING;
    ck_assert_int_eq(snap->add(b, &r, offsetof(struct fn_runner, labels) - 1), FN_E_INVALID);
    ck_assert_int_eq(snap->add(b, &r, sizeof(r)), 0);
    snap->discard(b);
    snap->discard(NULL);
}
END_TEST

START_TEST(empty_group_waits_for_the_pool)
{
    struct place_call *a = begin();

    woken = 0;
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    PUBLISH("r1:1");
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 1);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    end(a);
}
END_TEST

/* Its first call makes a group, long after the placer was set: it crashed for want of a policy. */
START_TEST(a_group_that_nobody_named_before)
{
    struct place_call *a;

    t.group = "blue";
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    ck_assert_uint_eq(t.last_why, FN_WHY_START);
    leave(a);
}
END_TEST

START_TEST(link_that_comes_up_wakes)
{
    struct place_call *a;

    fe.up_at_once = false;
    PUBLISH("r1:1");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    woken = 0;
    fake_engage_up(&fe, "r1:1", true);
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 1);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_uint_eq(t.last_why, FN_WHY_WAKE);
    end(a);
}
END_TEST

static int64_t new_runners(const char *group)
{
    static const char *const labels[] = { "group", NULL };
    static const double bounds_ms[] = { 500 };
    static const struct metric_def def = {
        .name = "fn_lb_new_runner_latency",
        .help = "of whoever declares it first",
        .kind = METRIC_HISTOGRAM,
        .labels = labels,
        .bounds = bounds_ms,
        .n_bounds = 1,
    };

    return metric_value(metric_series(metric_declare(&def), &group));
}

/* Counted once for the calls that wait together, and only when a runner is new to them. */
START_TEST(new_runners_are_timed)
{
    struct place_call *a = begin(), *b = begin();
    int64_t before = new_runners("default");

    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    env->now += ENV_S;
    ck_assert_int_eq(place_next(b), PLACE_PARKED);
    env->now += ENV_S;
    PUBLISH("r1:1");
    fake_env_advance(env, 0);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_int_eq(new_runners("default"), before);
    end(a);
    ck_assert_int_eq(new_runners("default"), before + 1);
    end(b);
    ck_assert_int_eq(new_runners("default"), before + 1);
    a = begin(); /* a known runner that is busy for a while */
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    place_refused(a, FN_WHY_BUSY, 0);
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    fake_env_advance(env, 5 * ENV_S);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    end(a);
    ck_assert_int_eq(new_runners("default"), before + 1);
}
END_TEST

static uint32_t links_n(void)
{
    struct engage_link *l;
    uint32_t n = 0;

    TAILQ_FOREACH(l, &fe.links, link)
    {
        n++;
    }
    return n;
}

#define MANY 1000

/* However long a list is, the loop is never held for more than a few links. */
START_TEST(links_are_opened_in_portions)
{
    static char names[MANY][16];
    static const char *list[MANY + 1];
    uint32_t before, rounds = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "r%d:1", i);
        list[i] = names[i];
    }
    publish("default", list);
    ck_assert_uint_gt(links_n(), 0); /* the first ones at once */
    ck_assert_uint_le(links_n(), 4);
    publish("default", list);
    ck_assert_uint_le(links_n(), 4); /* also when lists follow each other */
    while (links_n() < MANY) {
        before = links_n();
        fake_env_advance(env, 2 * ENV_MS);
        ck_assert_uint_gt(links_n(), before);
        ck_assert_uint_le(links_n(), before + 4);
        rounds++;
    }
    ck_assert_uint_eq(rounds, MANY / 4 - 1);
    publish("default", list + MANY - 1);
    fake_env_advance(env, ENV_S);
    ck_assert_uint_eq(links_n(), 1);
}
END_TEST

/* A runner that goes before its link was opened, and one that nobody has memory for. */
START_TEST(links_that_are_not_open)
{
    const char *list[] = { "r0:1", "r1:1", "r2:1", "r3:1", "r4:1", "r5:1",
                           "r6:1", "r7:1", "r8:1", "r9:1", NULL };
    struct place_call *a;

    publish("default", list);
    ck_assert_ptr_null(fake_engage_link(&fe, "r9:1"));
    a = begin();
    while (place_next(a) == PLACE_TRY) {
        place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    }
    leave(a);
    list[8] = NULL;
    publish("default", list); /* without r8 and r9 */
    fake_env_advance(env, 10 * ENV_MS);
    ck_assert_uint_eq(links_n(), 8);
    fe.no_links = true;
    PUBLISH("n1:1");
    fake_env_advance(env, 10 * ENV_MS);
    ck_assert_ptr_null(fake_engage_link(&fe, "n1:1"));
    fe.no_links = false;
    fake_env_advance(env, 10 * ENV_MS);
    ck_assert_ptr_nonnull(fake_engage_link(&fe, "n1:1"));
}
END_TEST

TCase *lists_tests(void)
{
    const TTest *const tests[] = {
        down_links_are_not_tried, draining_runners_are_refused, snapshots_carry_links, labels_reach_the_placer,
        restarted_elsewhere, failing_pool_keeps_its_list, builders_check,
        empty_group_waits_for_the_pool, a_group_that_nobody_named_before,
        link_that_comes_up_wakes, new_runners_are_timed, links_are_opened_in_portions,
        links_that_are_not_open,
    };

    return world_case("lists", tests, sizeof(tests) / sizeof(tests[0]));
}
