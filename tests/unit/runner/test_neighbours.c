/* What one app does to others on its runner: nothing. "evil" is the app that misbehaves, "quiet"
 * the one whose cold start must not notice. A cold start takes 65 ms here: look, create and start
 * of 20, and 5 until the function listens. */
#include "suites.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLD_MS 75

static void hang(struct world *w, const char *method)
{
    w->hang_app = "evil";
    w->hang_method = method;
}

static struct engage_session *evil(struct world *w, int i)
{
    char fn[24], image[48];

    snprintf(fn, sizeof(fn), "evil%d", i);
    snprintf(image, sizeof(image), "evil.example:5000/i%d", i);
    return world_call(w, (struct call_spec){ .app = "evil", .fn = fn, .image = image });
}

static void quiet_is_served(struct world *w)
{
    static int n;
    char fn[24];
    struct engage_session *s;

    snprintf(fn, sizeof(fn), "quiet%d", ++n);
    s = world_call(w, (struct call_spec){ .app = "quiet", .fn = fn });
    world_run_ms(w, COLD_MS);
    ck_assert_msg(s->success, "%d %s, %s", s->code, s->text, s->details);
}

static void roomy(struct world *w)
{
    w->totals.mem_bytes = 100 * 128 * ACCOUNT_MIB;
}

/* ---- images -------------------------------------------------------------------------------- */

START_TEST(memory_that_waits_for_an_image_is_nobody_elses_limit)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    hang(w, "prepare_image");
    s = world_call(w, (struct call_spec){ .app = "evil", .image = "big", .mem_mb = 1024 });
    world_run_ms(w, 1000);
    quiet_is_served(w);
    world_gone(w, s);
    quiet_is_served(w);
    world_destroy(w);
}
END_TEST

static void little_memory(struct world *w)
{
    roomy(w);
    w->opt.calls_bytes_max = 1000000;
}

START_TEST(bodies_of_calls_that_wait_are_nobody_elses_limit)
{
    static const char body[100000];
    struct world *w = world_create(little_memory);
    struct engage_session *s;

    hang(w, "prepare_image");
    for (int i = 0; i < 10; i++) {
        s = world_call(w, (struct call_spec){ .app = "evil", .image = "big", .no_body = true });
        world_body(w, s, body, sizeof(body), true);
        world_run_ms(w, 1);
    }
    ck_assert_int_eq(s->code, 503);
    ck_assert_str_eq(s->details, "memory of waiting calls is used up");
    s = world_call(w, (struct call_spec){ .app = "quiet", .no_body = true });
    world_body(w, s, body, sizeof(body), true);
    world_run_ms(w, COLD_MS);
    ck_assert_msg(s->success, "%d %s, %s", s->code, s->text, s->details);
    world_destroy(w);
}
END_TEST

/* Small ones of many functions: they had no share, however many they were. */
START_TEST(small_calls_that_wait_are_nobody_elses_limit)
{
    static const char body[12000];
    struct world *w = world_create(little_memory);
    struct engage_session *s = NULL;
    char fn[16];

    hang(w, "prepare_image");
    for (int i = 0; i < 100; i++) {
        snprintf(fn, sizeof(fn), "f%d", i);
        s = world_call(w, (struct call_spec){ .app = "evil", .fn = fn, .image = "big", .no_body = true });
        world_body(w, s, body, sizeof(body), true);
        world_run_ms(w, 1);
    }
    ck_assert_str_eq(s->details, "memory of waiting calls is used up");
    s = world_call(w, (struct call_spec){ .app = "quiet", .no_body = true });
    world_body(w, s, body, sizeof(body), true);
    world_run_ms(w, COLD_MS);
    ck_assert_msg(s->success, "%d %s, %s", s->code, s->text, s->details);
    world_destroy(w);
}
END_TEST

START_TEST(an_image_that_is_there_waits_behind_no_pull)
{
    struct world *w = world_create(roomy);

    hang(w, "prepare_image");
    for (int i = 0; i < 20; i++) {
        evil(w, i);
    }
    quiet_is_served(w); /* while they are looked at */
    world_run_ms(w, 5000);
    ck_assert_uint_eq(w->r->images.pulls.held, w->opt.pulls_max / 2); /* one app, one registry */
    quiet_is_served(w);
    world_run_ms(w, 60000);
    quiet_is_served(w);
    world_destroy(w);
}
END_TEST

/* Looks of as many apps as there are places begin, and each is a pull. */
START_TEST(an_image_that_was_there_waits_behind_no_look)
{
    struct world *w = world_create(roomy);
    char app[24];

    quiet_is_served(w);
    w->hang_app = "evil*";
    w->hang_method = "prepare_image";
    for (uint32_t i = 0; i < 2 * LOOKS_MAX; i++) {
        snprintf(app, sizeof(app), "evil%u", i);
        world_call(w, (struct call_spec){ .app = app, .fn = app, .image = app });
    }
    world_run_ms(w, 1);
    ck_assert_uint_eq(w->r->images.looks.held, LOOKS_MAX);
    quiet_is_served(w);
    world_destroy(w);
}
END_TEST

static void wants(struct world *w, const char *app, const char *image)
{
    world_call(w, (struct call_spec){ .app = app, .fn = image, .image = image });
}

/* An app has used up its share of pulls, and wants more images that are not there: another app that
 * wants them too does not wait for that share. */
START_TEST(an_image_that_another_app_waits_for_is_not_its_share)
{
    struct world *w = world_create(roomy);
    const uint32_t share = w->opt.pulls_max / 2;

    hang(w, "prepare_image");
    for (uint32_t i = 0; i < share; i++) {
        evil(w, (int)i);
    }
    world_run_ms(w, 4500); /* two are looked at at a time */
    wants(w, "evil", "popular");
    world_run_ms(w, 2500);
    ck_assert_uint_eq(w->r->images.pulls.waiting, 1); /* it was looked at */
    w->hang_app = "*";
    wants(w, "quiet", "popular");
    world_run_ms(w, 1);
    ck_assert_uint_eq(w->r->images.pulls.waiting, 0);
    ck_assert_uint_eq(w->r->images.pulls.held, share + 1);
    wants(w, "evil", "another");
    world_run_ms(w, 100);
    wants(w, "calm", "another"); /* while it is looked at */
    world_run_ms(w, 2500);
    ck_assert_uint_eq(w->r->images.pulls.waiting, 0);
    ck_assert_uint_eq(w->r->images.pulls.held, share + 2);
    world_destroy(w);
}
END_TEST

/* The same of places for looks. */
START_TEST(an_image_that_another_app_waits_to_look_at_is_not_its_share)
{
    struct world *w = world_create(roomy);
    struct engage_session *s;

    hang(w, "prepare_image");
    for (uint32_t i = 0; i < LOOKS_MAX / 2; i++) {
        evil(w, (int)i);
    }
    wants(w, "evil", "popular");
    world_run_ms(w, 1);
    ck_assert_uint_eq(w->r->images.looks.waiting, 1);
    s = world_call(w, (struct call_spec){ .app = "quiet", .fn = "f", .image = "popular" });
    world_run_ms(w, COLD_MS);
    ck_assert_msg(s->success, "%d %s, %s", s->code, s->text, s->details);
    world_destroy(w);
}
END_TEST

/* One that is next of its app stays that, however many wait behind it, for an app with fewer. */
START_TEST(an_image_that_is_next_is_not_moved_back)
{
    struct world *w = world_create(roomy);
    const struct image *im;
    uint32_t half = LOOKS_MAX / 2;

    hang(w, "prepare_image");
    w->hang_app = "*";
    for (uint32_t i = 0; i < half; i++) {
        evil(w, (int)i);
    }
    for (uint32_t i = 0; i < LOOKS_MAX - half; i++) {
        char name[16];

        snprintf(name, sizeof(name), "other%u", i);
        wants(w, name, name);
    }
    wants(w, "first", "popular");
    wants(w, "first", "behind0");
    wants(w, "first", "behind1");
    wants(w, "second", "own");
    wants(w, "second", "popular");
    world_run_ms(w, 1);
    HASH_FIND_STR(w->r->images.by_key, "popular\n", im);
    ck_assert_ptr_nonnull(im);
    ck_assert(im->look.waits);
    ck_assert_str_eq(im->look.party[0]->name, "first");
    world_destroy(w);
}
END_TEST

#define HOUR_MS  (3600 * 1000)
#define SWEEP_MS (600 * 1000) /* after it, at most */

/* With the credentials of each; no other image comes. */
START_TEST(a_name_is_forgotten_an_hour_after_its_last_container)
{
    struct world *w = world_create(roomy);

    quiet_is_served(w);
    world_run_ms(w, HOUR_MS);
    ck_assert_uint_eq(world_counts(w).containers, 0);
    ck_assert_uint_eq(HASH_COUNT(w->r->images.by_key), 1);
    world_run_ms(w, 2 * SWEEP_MS);
    ck_assert_uint_eq(HASH_COUNT(w->r->images.by_key), 0);
    world_destroy(w);
}
END_TEST

/* However long ago it was prepared, and whatever others bring: its next start is no look among
 * strangers'. */
START_TEST(a_name_is_kept_while_a_container_of_it_lives)
{
    struct world *w = world_create(roomy);

    for (int i = 0; i < 2 * HOUR_MS / 20000; i++) {
        world_call(w, (struct call_spec){ .app = "quiet", .fn = "hot" });
        world_run_ms(w, 20000);
    }
    ck_assert_uint_eq(w->prepares, 1);
    evil(w, 1);
    ck_assert_uint_eq(HASH_COUNT(w->r->images.by_key), 2);
    ck_assert(w->r->images.by_key->was_there);
    world_destroy(w);
}
END_TEST

static void one_pull(struct world *w)
{
    roomy(w);
    w->opt.pulls_max = 1;
}

START_TEST(a_pull_that_nobody_waits_for_makes_room)
{
    struct world *w = world_create(one_pull);
    struct engage_session *s = evil(w, 1);

    hang(w, "prepare_image");
    world_run_ms(w, 3000);
    ck_assert_uint_eq(w->r->images.pulls.held, 1);
    world_gone(w, s);
    world_run_ms(w, 1000);
    ck_assert_uint_eq(w->r->images.pulls.held, 1); /* its caller may come again */
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 0);
    s = evil(w, 2);
    world_run_ms(w, 2500);
    ck_assert_uint_eq(w->r->images.pulls.held, 1);
    ck_assert_uint_eq(w->r->images.pulls.waiting, 0);
    ck_assert_uint_eq(world_counts(w).containers, 1); /* the first one's is gone with its pull */
    world_gone(w, s);
    world_run_ms(w, 61000);
    ck_assert_uint_eq(world_counts(w).containers, 0); /* given up, nobody came */
    ck_assert_uint_eq(w->r->images.preparing, 0);
    world_destroy(w);
}
END_TEST

START_TEST(a_caller_that_comes_again_finds_its_pull)
{
    struct world *w = world_create(one_pull);
    struct engage_session *s = evil(w, 1);

    hang(w, "prepare_image");
    world_run_ms(w, 10100);
    ck_assert_int_eq(s->code, 503); /* to be placed again */
    s = evil(w, 1);
    world_run_ms(w, 5000);
    ck_assert_uint_eq(w->prepares, 0); /* none has ended: it is the first one */
    w->hang_app = NULL;
    world_run_ms(w, COLD_MS);
    ck_assert(s->success);
    ck_assert_uint_eq(w->prepares, 1);
    world_destroy(w);
}
END_TEST

START_TEST(starts_end_with_those_who_wait_for_them)
{
    struct world *w = world_create(roomy);
    struct engage_session *s[20];

    hang(w, "create");
    for (int i = 0; i < 20; i++) { /* 4 begin, 16 wait for a place with their memory taken */
        s[i] = world_call(w, (struct call_spec){ .app = "evil", .fn = "f" });
    }
    world_run_ms(w, 100);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 20 * 128 * ACCOUNT_MIB);
    for (int i = 0; i < 20; i++) {
        world_gone(w, s[i]);
    }
    world_run_ms(w, 100);
    ck_assert_uint_le(world_counts(w).used.mem_bytes, 4 * 128 * ACCOUNT_MIB);
    world_destroy(w);
}
END_TEST

/* ---- starts and removals -------------------------------------------------------------------- */

START_TEST(starts_that_hang_leave_half_of_the_places)
{
    struct world *w = world_create(roomy);

    hang(w, "start");
    for (int i = 0; i < 8; i++) {
        evil(w, i);
        evil(w, i);
    }
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->r->engine.starts.held, w->opt.parallel_starts_max / 2);
    for (int i = 0; i < 30; i++) { /* also when they end at their deadline */
        quiet_is_served(w);
        world_run_ms(w, 1000);
        ck_assert(world_counts(w).engine_up);
    }
    world_destroy(w);
}
END_TEST

START_TEST(removals_that_hang_keep_nobody_from_starting)
{
    struct world *w = world_create(roomy);

    for (int i = 0; i < 8; i++) {
        evil(w, i);
    }
    world_run_ms(w, 500);
    hang(w, "close");
    world_run_ms(w, 31000); /* idle for too long */
    ck_assert_uint_eq(w->r->engine.removals.held, w->opt.parallel_starts_max / 2);
    for (int i = 0; i < 20; i++) {
        quiet_is_served(w);
        world_run_ms(w, 1000);
    }
    world_run_ms(w, 31000);
    ck_assert_uint_ge(w->n_closed, 20); /* the quiet one's */
    world_destroy(w);
}
END_TEST

static void two_fit(struct world *w)
{
    w->totals.mem_bytes = 256 * ACCOUNT_MIB;
}

START_TEST(room_that_does_not_come_is_promised_to_nobody)
{
    struct world *w = world_create(two_fit);
    struct engage_session *large, *small;

    evil(w, 1);
    world_run_ms(w, 500);
    hang(w, "close");
    world_run_ms(w, 35000);
    large = world_call(w, (struct call_spec){ .app = "quiet", .fn = "large", .mem_mb = 256 });
    small = world_call(w, (struct call_spec){ .app = "quiet", .fn = "small" });
    world_run_ms(w, COLD_MS);
    ck_assert(small->success); /* not behind the large one */
    world_run_ms(w, 1000);
    ck_assert_int_eq(large->code, 503);
    world_destroy(w);
}
END_TEST

static void three_fit(struct world *w)
{
    w->totals.mem_bytes = 384 * ACCOUNT_MIB;
}

/* What a large one leaves that is ahead is free at once: the small one waited for its own limit. */
START_TEST(room_that_is_given_up_is_for_the_next_one)
{
    struct world *w = world_create(three_fit);
    struct engage_session *large, *small;

    world_call(w, (struct call_spec){ .app = "evil", .fn = "y", .mem_mb = 256 });
    world_call(w, (struct call_spec){ .app = "calm", .fn = "z" });
    world_run_ms(w, 500);
    hang(w, "close");
    large = world_call(w, (struct call_spec){ .app = "quiet", .fn = "large", .mem_mb = 256 });
    world_run_ms(w, 50);
    small = world_call(w, (struct call_spec){ .app = "other", .fn = "small" });
    world_run_ms(w, 300);
    ck_assert(!small->success);
    world_gone(w, large);
    world_run_ms(w, COLD_MS);
    ck_assert_msg(small->success, "%d %s", small->code, small->details);
    world_destroy(w);
}
END_TEST

START_TEST(a_function_whose_start_hung_starts_one_at_a_time)
{
    struct world *w = world_create(roomy);

    hang(w, "start");
    for (int i = 0; i < 4; i++) {
        world_call(w, (struct call_spec){ .app = "evil", .fn = "f" });
    }
    world_run_ms(w, 21000);
    for (int i = 0; i < 4; i++) {
        world_call(w, (struct call_spec){ .app = "evil", .fn = "f" });
    }
    world_run_ms(w, 1000);
    ck_assert_uint_eq(w->r->engine.starts.held, 1);
    w->hang_app = NULL;
    world_run_ms(w, 1000);
    world_call(w, (struct call_spec){ .app = "evil", .fn = "f" });
    world_run_ms(w, 1000);
    ck_assert_ptr_nonnull(world_container(w, CTR_FROZEN)); /* it has recovered */
    world_destroy(w);
}
END_TEST

/* ---- every waiting call gets an answer -------------------------------------------------------- */

START_TEST(nobody_waits_longer_than_start_wait)
{
    static const char *const methods[] = { "prepare_image", "create", "start" };

    for (int i = 0; i < 3; i++) {
        struct world *w = world_create(roomy);
        struct engage_session *s;

        w->hang_for_ever = true;
        hang(w, methods[i]);
        s = evil(w, 1);
        world_run_ms(w, 9900);
        ck_assert_int_eq(s->finishes, 0);
        world_run_ms(w, 200);
        ck_assert_int_eq(s->code, 503);
        ck_assert_str_eq(s->details, "no container within runner.start_wait");
        world_destroy(w);
    }
}
END_TEST

static void short_pull(struct world *w)
{
    roomy(w);
    w->opt.pull_timeout_ns = 5 * ENV_S;
}

START_TEST(what_a_driver_never_gives_back_is_given_up)
{
    static const char *const methods[] = { "prepare_image", "create", "start" };

    for (int i = 0; i < 3; i++) {
        struct world *w = world_create(short_pull);
        struct engage_session *s;

        w->hang_for_ever = true;
        hang(w, methods[i]);
        evil(w, 1);
        world_run_ms(w, 24000); /* engine_timeout 20 s, and some grace */
        s = evil(w, 1);
        world_run_ms(w, 3000);
        quiet_is_served(w);
        world_run_ms(w, 8000);
        ck_assert_int_eq(s->code, 503);
        world_destroy(w);
    }
}
END_TEST

START_TEST(a_thaw_that_never_returns_costs_its_container)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    evil(w, 1);
    world_run_ms(w, 500);
    ck_assert_ptr_nonnull(world_container(w, CTR_FROZEN));
    w->hang_for_ever = true;
    hang(w, "thaw");
    s = evil(w, 1);
    world_run_ms(w, 6000);
    ck_assert(s->success); /* another container */
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

/* Three thaws that do not return hold every place of freezes and thaws. */
START_TEST(thaws_that_never_return_keep_nobody_waiting)
{
    struct world *w = world_create(roomy);
    const struct call_spec quiet = { .app = "quiet", .fn = "f" };
    struct engage_session *s = world_call(w, quiet);

    for (int i = 1; i <= 3; i++) {
        evil(w, i);
    }
    world_run_ms(w, 1000);
    ck_assert(s->success);
    ck_assert_uint_eq(w->freezes, 4);
    w->hang_for_ever = true;
    hang(w, "thaw");
    for (int i = 1; i <= 3; i++) {
        evil(w, i);
    }
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->r->engine.freezes.held, 3);
    s = world_call(w, quiet);
    world_run_ms(w, 5000);
    ck_assert_msg(s->success, "%d %s, %s", s->code, s->text, s->details);
    world_destroy(w);
}
END_TEST

/* ---- never ----------------------------------------------------------------------------------- */

static void never(struct world *w)
{
    w->opt.start_timeout_ns = -1;
    w->opt.pull_timeout_ns = -1;
    w->boot_ns = 60 * ENV_S;
}

START_TEST(never_means_never)
{
    struct world *w = world_create(never);
    struct engage_session *s;

    hang(w, "prepare_image");
    for (int i = 0; i < 10; i++) { /* a pull of 100 s, for which a caller comes again */
        s = evil(w, 1);
        world_run_ms(w, 10100);
        ck_assert_int_eq(s->code, 503);
    }
    ck_assert_uint_eq(w->prepares, 0);
    w->hang_app = NULL;
    for (int i = 0; i < 6; i++) {
        s = evil(w, 1);
        world_run_ms(w, 10100);
    }
    s = evil(w, 1);
    world_run_ms(w, 1000);
    ck_assert(s->success);
    ck_assert_uint_eq(w->prepares, 1);
    ck_assert_uint_eq(w->creates, 1);
    world_destroy(w);
}
END_TEST

START_TEST(a_start_without_limit_ends_when_nobody_comes)
{
    struct world *w = world_create(never);

    world_call(w, (struct call_spec){ .image = "never-listens" });
    world_run_ms(w, 25000);
    ck_assert_uint_eq(world_counts(w).containers, 1);
    world_run_ms(w, 10000); /* idle_timeout is 30 s */
    ck_assert_uint_eq(world_counts(w).containers, 0);
    world_destroy(w);
}
END_TEST

TCase *neighbours_tests(void)
{
    TCase *t = tcase_create("neighbours");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, memory_that_waits_for_an_image_is_nobody_elses_limit);
    tcase_add_test(t, bodies_of_calls_that_wait_are_nobody_elses_limit);
    tcase_add_test(t, small_calls_that_wait_are_nobody_elses_limit);
    tcase_add_test(t, an_image_that_is_there_waits_behind_no_pull);
    tcase_add_test(t, an_image_that_was_there_waits_behind_no_look);
    tcase_add_test(t, an_image_that_another_app_waits_for_is_not_its_share);
    tcase_add_test(t, an_image_that_another_app_waits_to_look_at_is_not_its_share);
    tcase_add_test(t, an_image_that_is_next_is_not_moved_back);
    tcase_add_test(t, a_name_is_forgotten_an_hour_after_its_last_container);
    tcase_add_test(t, a_name_is_kept_while_a_container_of_it_lives);
    tcase_add_test(t, a_pull_that_nobody_waits_for_makes_room);
    tcase_add_test(t, a_caller_that_comes_again_finds_its_pull);
    tcase_add_test(t, starts_end_with_those_who_wait_for_them);
    tcase_add_test(t, starts_that_hang_leave_half_of_the_places);
    tcase_add_test(t, removals_that_hang_keep_nobody_from_starting);
    tcase_add_test(t, room_that_does_not_come_is_promised_to_nobody);
    tcase_add_test(t, room_that_is_given_up_is_for_the_next_one);
    tcase_add_test(t, a_function_whose_start_hung_starts_one_at_a_time);
    tcase_add_test(t, nobody_waits_longer_than_start_wait);
    tcase_add_test(t, what_a_driver_never_gives_back_is_given_up);
    tcase_add_test(t, a_thaw_that_never_returns_costs_its_container);
    tcase_add_test(t, thaws_that_never_return_keep_nobody_waiting);
    tcase_add_test(t, never_means_never);
    tcase_add_test(t, a_start_without_limit_ends_when_nobody_comes);
    return t;
}
