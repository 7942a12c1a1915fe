/* One call at a time: mapping of what functions and containers do to what callers get. */
#include "suites.h"
#include "world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(cold_then_hot)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });

    world_run_ms(w, 200);
    ck_assert_int_eq(s->finishes, 1);
    ck_assert(s->success);
    ck_assert_int_eq(s->start_status, 200);
    ck_assert_uint_eq(s->data_bytes, 5);
    ck_assert_str_eq(s->start_headers, "Content-Type: text/plain\n"); /* no hop-by-hop */
    ck_assert_str_eq(s->details, s->id);
    ck_assert_str_eq(s->image, "hello");
    ck_assert_int_eq((int)strlen(s->created), 24);
    ck_assert_int_eq(s->created[23], 'Z');
    ck_assert_int_gt((int)strlen(s->started), 0);
    ck_assert_int_gt((int)strlen(s->completed), 0);
    ck_assert_int_eq(s->pull_ns, 20 * ENV_MS);
    ck_assert_int_eq(s->create_ns, 40 * ENV_MS);
    ck_assert_int_eq(s->init_ns, 5 * ENV_MS);
    ck_assert_int_eq(s->scheduler_ns, 65 * ENV_MS);
    ck_assert_int_eq(s->execution_ns, ENV_MS);
    ck_assert_ptr_nonnull(strstr(w->last_env, "FN_LISTENER=unix:/tmp/iofs/lsnr.sock;"));
    ck_assert_ptr_nonnull(strstr(w->last_env, "FN_FORMAT=http-stream;"));
    ck_assert_ptr_nonnull(strstr(w->last_env, "A=b;"));
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 20);
    ck_assert(s->success);
    ck_assert_int_eq(s->create_ns, 0);
    ck_assert_uint_eq(w->creates, 1);
    ck_assert_uint_eq(world_counts(w).ok, 2);
    world_destroy(w);
}
END_TEST

START_TEST(what_there_is_can_be_listed)
{
    struct world *w = world_create(NULL);
    struct runner_container_row container;
    struct runner_call_row call;
    struct walk calls, containers;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 1);
    runner_walk_calls(w->r, &calls);
    ck_assert(runner_walk_next_call(w->r, &calls, &call));
    ck_assert_str_eq(call.state, "wait");
    ck_assert_str_eq(call.waits_for, "a container");
    ck_assert_ptr_null(call.container_id);
    ck_assert(!runner_walk_next_call(w->r, &calls, &call));
    walk_end(&calls);
    runner_walk_containers(w->r, &containers);
    ck_assert(runner_walk_next_container(w->r, &containers, &container));
    ck_assert_str_eq(container.state, "image");
    ck_assert_str_eq(container.image, "hello");
    ck_assert_uint_eq(container.mem_bytes, 0);
    walk_end(&containers);
    world_run_ms(w, 200);
    runner_walk_calls(w->r, &calls);
    ck_assert(!runner_walk_next_call(w->r, &calls, &call));
    walk_end(&calls);
    runner_walk_containers(w->r, &containers); /* and its container goes before it is shown */
    world_exit(w, w->r->containers->id, FN_EXIT_CODE, 1);
    world_run_ms(w, 1000);
    ck_assert(!runner_walk_next_container(w->r, &containers, &container));
    walk_end(&containers);
    world_destroy(w);
}
END_TEST

START_TEST(hot_call_needs_no_lane)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;
    uint32_t before;

    w->opt.freeze_idle_ns = -1;
    w->r->opt.freeze_idle_ns = -1;
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    before = w->prepares + w->creates + w->starts + w->freezes + w->thaws;
    for (int i = 0; i < 50; i++) {
        s = world_call(w, (struct call_spec){ .what = "ok" });
        world_run_ms(w, 2);
        ck_assert(s->success);
    }
    ck_assert_uint_eq(before, w->prepares + w->creates + w->starts + w->freezes + w->thaws);
    world_destroy(w);
}
END_TEST

START_TEST(request_headers)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });

    world_run_ms(w, 200);
    ck_assert_ptr_null(strstr(w->last_headers, "Connection"));
    ck_assert_ptr_null(strstr(w->last_headers, "Host"));
    ck_assert_ptr_null(strstr(w->last_headers, "Content-Length"));
    ck_assert_ptr_null(strstr(w->last_headers, "forged"));
    ck_assert_ptr_nonnull(strstr(w->last_headers, s->id));
    /* 04:17:24.501 + 65 ms + 30 s */
    ck_assert_ptr_nonnull(strstr(w->last_headers, "Fn-Deadline: 2026-11-21T"));
    ck_assert_ptr_nonnull(strstr(w->last_headers, "Z\n"));
    world_destroy(w);
}
END_TEST

static const struct {
    const char *what;
    int code;
    const char *text;
    bool kept;
} endings[] = {
    { "status-502", 502, "function failed", true },
    { "status-504", 504, "Timed out", true },
    { "status-201", 502, "invalid function response: FN602 function answered 201; the contract "
                         "allows 200, 502, 504", false },
    { "status-99", 502, "invalid function response: FN602 function answered 99", false },
    { "status-404", 502, "invalid function response", false },
    { "crash", 502, "error receiving function response: container exit code 2", false },
    { "oom", 502, "container out of memory, you may want to raise fn.memory for this function "
                  "(default: 128MB): limit 128 MB, exit 137", false },
    { "late-exit", 502, "error receiving function response: FN601 function closed before the end "
                        "of its headers", false },
    { "invalid", 502, "invalid function response: two Content-Length fields", false },
    { "header-large", 502, "function response header too large", false },
    { "body-large", 502, "function response body too large", false },
    { "cut", 502, "error receiving function response: FN603 answer ended after 5 of 10 bytes",
      false },
    { "escape", 502, "FN604 socket leaves its directory", false },
};

START_TEST(endings_of_functions)
{
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = endings[_i].what });

    world_run_ms(w, 1000);
    ck_assert_int_eq(s->finishes, 1);
    ck_assert(!s->success);
    ck_assert_int_eq(s->code, endings[_i].code);
    ck_assert_msg(strstr(s->text, endings[_i].text), "got %s", s->text);
    ck_assert(s->user);
    ck_assert_uint_eq(w->live, endings[_i].kept);
    ck_assert_uint_eq(world_counts(w).failed, 1);
    world_destroy(w);
}
END_TEST

START_TEST(an_answer_without_memory_is_not_the_functions)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "lost" });

    world_run_ms(w, 1000);
    ck_assert_int_eq(s->finishes, 1);
    ck_assert_int_eq(s->code, 502);
    ck_assert_ptr_nonnull(strstr(s->text, "RUN424"));
    ck_assert(!s->user);
    ck_assert_uint_eq(w->live, 0);
    ck_assert_uint_eq(world_counts(w).unknown, 1);
    world_destroy(w);
}
END_TEST

START_TEST(extra_bytes)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "extra" });

    world_run_ms(w, 300);
    ck_assert(s->success);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

START_TEST(never_answers)
{
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "never", .timeout_s = 2 });

    world_run_ms(w, 1900);
    ck_assert_int_eq(s->finishes, 0);
    world_run_ms(w, 300);
    ck_assert_int_eq(s->code, 504);
    ck_assert_str_eq(s->text, "Timed out");
    ck_assert(s->user);
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

START_TEST(slow_drip)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "drip", .timeout_s = 3 });

    world_run_ms(w, 4000);
    ck_assert_int_eq(s->code, 504);
    ck_assert_int_eq(s->starts, 1);
    ck_assert_uint_gt(s->data_bytes, 5);
    world_destroy(w);
}
END_TEST

START_TEST(early_answer)
{
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "early", .no_body = true });

    world_body(w, s, "abc", 3, false);
    world_run_ms(w, 300);
    ck_assert_int_eq(s->code, 502);
    ck_assert_str_eq(s->text, "function invoked write before receiving entire request");
    ck_assert_int_eq(s->starts, 0);
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

START_TEST(body_in_frames)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok", .no_body = true });

    ck_assert_uint_eq(s->more, 1);
    world_body(w, s, "abc", 3, false);
    world_run_ms(w, 300);
    ck_assert_uint_eq(s->more, 2); /* asked for only when it runs */
    world_body(w, s, "def", 3, false);
    ck_assert_uint_eq(s->more, 3);
    world_body(w, s, NULL, 0, true);
    ck_assert_uint_eq(s->more, 3);
    world_run_ms(w, 10);
    ck_assert(s->success);
    world_destroy(w);
}
END_TEST

START_TEST(reader_stops)
{
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "full", .no_body = true, .timeout_s = 1 });

    world_body(w, s, "abc", 3, false);
    world_run_ms(w, 300);
    ck_assert_uint_eq(s->more, 1);
    world_run_ms(w, 1000);
    ck_assert_int_eq(s->code, 504);
    world_destroy(w);
}
END_TEST

START_TEST(no_body_frame)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok", .no_body = true });

    world_run_ms(w, 9000);
    ck_assert_int_eq(s->finishes, 0);
    world_run_ms(w, 1100);
    ck_assert_int_eq(s->code, 408);
    ck_assert_uint_eq(w->creates, 0);
    world_destroy(w);
}
END_TEST

#define HEAD "{\"id\": \"x\", \"fn_id\": \"f\", \"app_id\": \"a\", "
static const struct {
    const char *json;
    const char *hash_id;
    int code;
    const char *text;
} bad[] = {
    { "nonsense", NULL, 400, "RUN404 call model" },
    { "", NULL, 400, "RUN404" },
    { "{\"id\": 5}", NULL, 400, "RUN404" },
    { HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":0}",
      NULL, 400, "RUN405 memory, got 0" },
    { HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":-1}",
      NULL, 400, "RUN405 memory, got -1" },
    { HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":5}",
      NULL, 400, "RUN405 memory, got 5; expected 16..1024 MB" },
    { HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":4096}",
      NULL, 400, "Requested CPU/Memory cannot be allocated" },
    { HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":128, "
      "\"cpus\":\"5000m\"}",
      NULL, 400, "Requested CPU/Memory cannot be allocated" },
    { HEAD "\"image\":\"hello\", \"timeout\":1000000, \"idle_timeout\":30, "
      "\"memory\":128}",
      NULL, 400, "RUN405 timeout" },
    { HEAD "\"image\":\"\", \"timeout\":30, \"idle_timeout\":30, \"memory\":128}", NULL,
      400, "RUN406" },
    { HEAD "\"image\":\"-v /:/h\", \"timeout\":30, \"idle_timeout\":30, \"memory\":128}",
      NULL, 400, "RUN406" },
    { HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":128}",
      "zz", 400, "RUN404 slot_hash_id, got \"zz\"" },
    { HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":128, "
      "\"type\":\"detached\"}",
      NULL, 501, "Detach call functions are not supported" },
};

static void without_detached(struct world *w)
{
    w->opt.detached = false;
}

START_TEST(bad_calls)
{
    struct world *w = world_create(without_detached);
    struct engage_session *s = world_call_json(w, bad[_i].json, bad[_i].hash_id);

    world_body(w, s, NULL, 0, true);
    fake_env_settle(w->f);
    ck_assert_int_eq(s->finishes, 1);
    ck_assert_msg(s->code == bad[_i].code, "got %d %s", s->code, s->text);
    ck_assert_msg(strstr(s->text, bad[_i].text), "got %s", s->text);
    ck_assert_uint_eq(world_counts(w).not_executed, 1);
    world_destroy(w);
}
END_TEST

static void without_memory(struct world *w)
{
    w->totals.mem_bytes = 4096;
}

START_TEST(no_memory_for_any_function)
{
    struct world *w = world_create(without_memory);
    struct engage_session *s = world_call_json(
        w, HEAD "\"image\":\"hello\", \"timeout\":30, \"idle_timeout\":30, \"memory\":128}", NULL);

    world_body(w, s, NULL, 0, true);
    fake_env_settle(w->f);
    ck_assert_msg(strstr(s->text, "RUN405 memory, got 128; expected 16 MB or more of a runner that "
                                  "has 0 MB for functions"),
                  "got %s", s->text);
    world_destroy(w);
}
END_TEST

static void allow_two(struct world *w)
{
    static const char *const patterns[] = { "good/*", "hello" };

    w->opt.images_allowed = (struct fn_strlist){ patterns, 2 };
}

START_TEST(image_list)
{
    struct world *w = world_create(allow_two);
    struct engage_session *a = world_call(w, (struct call_spec){ .image = "evil/x" });
    struct engage_session *b = world_call(w, (struct call_spec){ .image = "good/x:1" });

    world_run_ms(w, 200);
    ck_assert_int_eq(a->code, 403);
    ck_assert_ptr_nonnull(strstr(a->text, "RUN407 image not allowed here"));
    ck_assert(b->success);
    world_destroy(w);
}
END_TEST

START_TEST(hash_id_names_the_pool)
{
    struct world *w = world_create(NULL);
    static const char json[] = "{\"id\": \"%s\", \"fn_id\": \"f\", \"app_id\": \"a\", "
                               "\"image\":\"hello\", \"timeout\":30, "
                               "\"idle_timeout\":30, \"memory\":128}";
    char text[256];

    snprintf(text, sizeof(text), json, "a1");
    world_body(w, world_call_json(w, text, "00ff"), NULL, 0, true);
    world_run_ms(w, 200);
    snprintf(text, sizeof(text), json, "a2");
    world_body(w, world_call_json(w, text, "00ff"), NULL, 0, true);
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->creates, 1);
    snprintf(text, sizeof(text), json, "a3");
    world_body(w, world_call_json(w, text, "00fe"), NULL, 0, true);
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

/* The driver keeps containers apart by an extension, of which the load balancer's key knows
 * nothing. */
START_TEST(a_hash_id_does_not_join_what_the_driver_keeps_apart)
{
    static const struct fn_kv zones[] = { { "pool", "blue" }, { "pool", "red" } };
    struct world *w = world_create(NULL);
    char text[256];

    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text),
                 "{\"id\": \"b%d\", \"fn_id\": \"f\", \"app_id\": \"a\", \"image\":\"hello\", "
                 "\"timeout\":30, \"idle_timeout\":30, \"memory\":128}", i);
        w->extensions = &zones[i];
        w->n_extensions = 1;
        world_body(w, world_call_json(w, text, "00ff"), NULL, 0, true);
        world_run_ms(w, 200);
        ck_assert_uint_eq(w->creates, i + 1);
    }
    world_destroy(w);
}
END_TEST

START_TEST(replayed_id)
{
    struct world *w = world_create(NULL);
    struct engage_session *a = world_call(w, (struct call_spec){ .id = "CALLAGAIN", .what = "ok" });
    struct engage_session *b = world_call(w, (struct call_spec){ .id = "CALLAGAIN", .what = "ok" });

    ck_assert_int_eq(b->code, 409);
    ck_assert_ptr_nonnull(strstr(b->text, "RUN408 call id came before"));
    world_run_ms(w, 200);
    ck_assert(a->success || b->executions == 1);
    b = world_call(w, (struct call_spec){ .id = "CALLAGAIN", .what = "ok" });
    ck_assert_int_eq(b->code, 409);
    ck_assert_uint_eq(w->executions, 1);
    world_run_ms(w, 601000);
    world_call(w, (struct call_spec){ .id = "CALLAGAIN2", .what = "ok" });
    world_run_ms(w, 200);
    world_destroy(w);
}
END_TEST

START_TEST(refused_id_may_come_again)
{
    struct world *w = world_create(NULL);
    struct engage_session *a, *b;

    w->engine_dead = true;
    a = world_call(w, (struct call_spec){ .id = "CALLBACK", .what = "ok" });
    world_run_ms(w, 1000);
    ck_assert_int_eq(a->code, 503);
    w->engine_dead = false;
    world_run_ms(w, 5000);
    b = world_call(w, (struct call_spec){ .id = "CALLBACK", .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(b->success);
    world_destroy(w);
}
END_TEST

START_TEST(caller_gone_while_running)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ms-500" });

    world_run_ms(w, 200);
    ck_assert_uint_eq(s->executions, 1);
    world_gone(w, s);
    ck_assert_uint_eq(world_counts(w).aborted, 1);
    ck_assert_uint_eq(world_counts(w).running, 1);
    world_run_ms(w, 600);
    ck_assert_uint_eq(world_counts(w).running, 0);
    ck_assert_uint_eq(w->live, 1); /* healthy: kept */
    world_destroy(w);
}
END_TEST

START_TEST(caller_gone_with_half_a_body)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok", .no_body = true });

    world_body(w, s, "abc", 3, false);
    world_run_ms(w, 200);
    world_gone(w, s);
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

START_TEST(caller_gone_while_waiting)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });

    world_run_ms(w, 30);
    world_gone(w, s);
    world_run_ms(w, 300);
    ck_assert_uint_eq(w->executions, 0);
    world_destroy(w);
}
END_TEST

static void detached(struct world *w)
{
    w->opt.detached = true;
}

START_TEST(detached_call)
{
    struct world *w = world_create(detached);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "ms-100", .detached = true });

    world_run_ms(w, 100);
    ck_assert_int_eq(s->start_status, 202);
    ck_assert_str_eq(s->start_headers, "");
    ck_assert_int_eq(s->finishes, 0);
    world_run_ms(w, 200);
    ck_assert(s->success);
    ck_assert_uint_eq(s->data_bytes, 0);
    world_destroy(w);
}
END_TEST

/* Until its function has a byte of it, nobody is told that it was accepted: it can still be placed
 * elsewhere. */
START_TEST(detached_calls_are_acknowledged_with_the_first_byte)
{
    struct world *w = world_create(detached);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "refuse-once", .detached = true });

    world_run_ms(w, 500);
    ck_assert_int_eq(s->start_status, 202);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, 2);
    s = world_call(w, (struct call_spec){ .what = "refuse", .detached = true });
    world_run_ms(w, 500);
    ck_assert_int_eq(s->starts, 0);
    ck_assert_int_eq(s->code, 503);
    s = world_call(w, (struct call_spec){ .what = "status-502", .detached = true });
    world_run_ms(w, 500);
    ck_assert_int_eq(s->start_status, 202);
    ck_assert_int_eq(s->code, 502);
    world_destroy(w);
}
END_TEST

/* This node's want of descriptors or memory is nobody's fault. */
START_TEST(want_of_room_is_a_refusal_and_kills_nothing)
{
    struct world *w = world_create(detached);
    struct engage_session *s;

    for (int i = 0; i < 2; i++) {
        s = world_call(w, (struct call_spec){ .what = "no-room", .detached = i == 1 });
        world_run_ms(w, 200);
        ck_assert_int_eq(s->code, 503);
        ck_assert_str_eq(s->details, "no descriptor or memory for a connection to the function");
        ck_assert_str_eq(s->started, "");
    }
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, 1);
    ck_assert_uint_eq(world_counts(w).not_executed, 2);
    world_destroy(w);
}
END_TEST

/* The deadline of a call that its function never got a byte of. */
START_TEST(a_deadline_before_the_first_byte_blames_nobody)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "unsent", .timeout_s = 1 });

    world_run_ms(w, 1500);
    ck_assert_int_eq(s->code, 503);
    ck_assert_uint_eq(w->closes, 0);
    s = world_call(w, (struct call_spec){ .what = "unsent", .timeout_s = 5 });
    world_run_ms(w, 100);
    world_exit(w, world_container(w, CTR_BUSY)->id, FN_EXIT_CODE, 1);
    world_run_ms(w, 300);
    ck_assert_int_eq(s->finishes, 0);
    ck_assert_uint_eq(w->creates, 2); /* another container has it */
    world_run_ms(w, 6000);
    ck_assert_int_eq(s->code, 503);
    world_destroy(w);
}
END_TEST

/* A function that answers what it has no byte of, over a connection that was full: its caller was
 * told, so that the call is no other container's, and its end no refusal. */
START_TEST(an_answer_to_nothing_is_the_functions_fault)
{
    struct world *w = world_create(detached);
    struct engage_session *s;

    for (int i = 0; i < 2; i++) {
        s = world_call(w,
                       (struct call_spec){ .what = "forward", .timeout_s = 1, .detached = i == 1 });
        world_run_ms(w, 1500);
        ck_assert_int_eq(s->code, 504);
        s = world_call(w,
                       (struct call_spec){ .what = "forward", .timeout_s = 1, .detached = i == 1 });
        world_run_ms(w, 100);
        world_exit(w, world_container(w, CTR_BUSY)->id, FN_EXIT_CODE, 1);
        world_run_ms(w, 1500);
        ck_assert_int_eq(s->code, 502);
        ck_assert_int_eq(s->starts, i);
    }
    ck_assert_uint_eq(world_counts(w).failed, 4);
    world_destroy(w);
}
END_TEST

/* Who blames the function on the wire says that it ran. */
START_TEST(a_refusal_before_the_run_is_no_functions_failure)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->fail_method = "prepare_image";
    w->fails = 1;
    err_set_http(&w->next_error, FN_E_INVALID, 400, FN_BLAME_USER, "RUN406 image name, got \"X\"");
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert_int_eq(s->code, 400);
    ck_assert_str_eq(s->text, "RUN406 image name, got \"X\"");
    ck_assert(!s->user);
    ck_assert_uint_eq(world_counts(w).not_executed, 1);
    world_destroy(w);
}
END_TEST

static int leads_home(const char *url)
{
    return strstr(url, "home") ? 1 : strstr(url, "untold") ? FN_E_EXHAUSTED : 0;
}

static void with_home(struct world *w)
{
    w->leads_home = leads_home;
}

START_TEST(log_servers_of_the_nodes_own_networks)
{
    const char *home = ", \"syslog_url\": \" tcp://home:514\\t \""; /* the API node takes blanks */
    struct world *w = world_create(with_home);
    struct engage_session *s = world_call(w, (struct call_spec){ .fn = "a", .extra = home });

    world_run_ms(w, 200);
    ck_assert_int_eq(s->code, 400);
    ck_assert_ptr_nonnull(strstr(s->text, "RUN410 syslog_url, got \"tcp://home:514\""));
    ck_assert(!s->user);
    ck_assert_uint_eq(w->creates, 0);
    s = world_call(w, (struct call_spec){ .fn = "b", .extra = ", \"syslog_url\": \"tcp://x:514\"" });
    world_run_ms(w, 200);
    ck_assert(s->success);
    s = world_call(w, (struct call_spec){ .fn = "d", .extra = ", \"syslog_url\": \"tcp://untold\"" });
    world_run_ms(w, 200);
    ck_assert(s->finishes == 1 && s->code == 503 && !s->user); /* handed back: not the caller's fault */
    w->r->opt.syslog_own_networks = true;
    s = world_call(w, (struct call_spec){ .fn = "c", .extra = home });
    world_run_ms(w, 200);
    ck_assert(s->success);
    world_destroy(w);
}
END_TEST

START_TEST(status)
{
    struct world *w = world_create(NULL);
    struct engage_status st;

    world_call(w, (struct call_spec){ .what = "ms-100" });
    world_run_ms(w, 50);
    st = world_status(w);
    ck_assert_int_eq(st.active, 1);
    ck_assert_uint_eq(st.received, 1);
    ck_assert_uint_eq(st.handled, 0);
    world_run_ms(w, 300);
    st = world_status(w);
    ck_assert_int_eq(st.active, 0);
    ck_assert_uint_eq(st.handled, 1);
    world_destroy(w);
}
END_TEST

/* A manager that is told 0 takes the machine away, with work on it (a detached call, say, whose load
 * balancer died). */
START_TEST(a_call_without_a_caller_is_active_while_it_runs)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;
    struct engage_status st;

    s = world_call(w, (struct call_spec){ .what = "ms-500", .detached = _i == 1 });
    world_run_ms(w, 100);
    world_gone(w, s);
    st = world_status(w);
    ck_assert_int_eq(st.active, 1);
    ck_assert_uint_eq(world_counts(w).in_flight, 0);
    world_run_ms(w, 1000);
    st = world_status(w);
    ck_assert_int_eq(st.active, 0);
    world_destroy(w);
}
END_TEST

/* Keys that a peer chose, in the order that costs an insertion most. */
START_TEST(extensions_are_bounded)
{
    enum { MANY = KVS_MAX + 1 };
    static char keys[MANY][8];
    struct fn_kv items[MANY];
    struct world *w = world_create(NULL);
    struct engage_session *s;

    for (int i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%05d", MANY - i);
        items[i] = (struct fn_kv){ keys[i], "v" };
    }
    w->extensions = items;
    w->n_extensions = MANY;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert_int_eq(s->code, 400);
    ck_assert_str_eq(s->text, "RUN404 extensions, got 1025 keys; expected at most 1024");
    w->n_extensions = KVS_MAX;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert(s->success);
    world_destroy(w);
}
END_TEST

static void little_memory(struct world *w)
{
    w->opt.calls_bytes_max = 100000;
}

/* Calls that send no body hold their models; the next one is the load balancer's to place. */
START_TEST(waiting_calls_share_a_memory)
{
    struct world *w = world_create(little_memory);
    struct engage_session *s, *first = NULL;
    int n = 0;

    do {
        s = world_call(w, (struct call_spec){ .what = "ok", .no_body = true });
        first = first ? first : s;
        world_run_ms(w, 1);
    } while (!s->finishes && ++n < 100);
    ck_assert_int_gt(n, 1);
    ck_assert_int_lt(n, 60);
    ck_assert_int_eq(s->code, 503);
    ck_assert(!s->user);
    ck_assert_str_eq(s->details, "memory of waiting calls is used up");
    world_gone(w, first);
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert_msg(s->success, "%s", s->text);
    world_destroy(w);
}
END_TEST

/* What runs is bounded by the memory of its containers, and takes nothing from those that wait. */
START_TEST(running_calls_hold_no_memory)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "never" });

    world_run_ms(w, 500);
    ck_assert_uint_eq(s->executions, 1);
    ck_assert_uint_eq(w->r->calls_bytes, 0);
    world_destroy(w);
}
END_TEST

TCase *calls_tests(void)
{
    TCase *t = tcase_create("calls");

    tcase_add_test(t, cold_then_hot);
    tcase_add_test(t, what_there_is_can_be_listed);
    tcase_add_test(t, hot_call_needs_no_lane);
    tcase_add_test(t, request_headers);
    tcase_add_loop_test(t, endings_of_functions, 0, (int)(sizeof(endings) / sizeof(endings[0])));
    tcase_add_test(t, an_answer_without_memory_is_not_the_functions);
    tcase_add_test(t, extra_bytes);
    tcase_add_test(t, never_answers);
    tcase_add_test(t, slow_drip);
    tcase_add_test(t, early_answer);
    tcase_add_test(t, body_in_frames);
    tcase_add_test(t, reader_stops);
    tcase_add_test(t, no_body_frame);
    tcase_add_loop_test(t, bad_calls, 0, (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_test(t, no_memory_for_any_function);
    tcase_add_test(t, image_list);
    tcase_add_test(t, hash_id_names_the_pool);
    tcase_add_test(t, a_hash_id_does_not_join_what_the_driver_keeps_apart);
    tcase_add_test(t, replayed_id);
    tcase_add_test(t, refused_id_may_come_again);
    tcase_add_test(t, caller_gone_while_running);
    tcase_add_test(t, caller_gone_with_half_a_body);
    tcase_add_test(t, caller_gone_while_waiting);
    tcase_add_test(t, detached_call);
    tcase_add_test(t, detached_calls_are_acknowledged_with_the_first_byte);
    tcase_add_test(t, want_of_room_is_a_refusal_and_kills_nothing);
    tcase_add_test(t, a_deadline_before_the_first_byte_blames_nobody);
    tcase_add_test(t, an_answer_to_nothing_is_the_functions_fault);
    tcase_add_test(t, a_refusal_before_the_run_is_no_functions_failure);
    tcase_add_test(t, log_servers_of_the_nodes_own_networks);
    tcase_add_test(t, status);
    tcase_add_loop_test(t, a_call_without_a_caller_is_active_while_it_runs, 0, 2);
    tcase_add_test(t, extensions_are_bounded);
    tcase_add_test(t, waiting_calls_share_a_memory);
    tcase_add_test(t, running_calls_hold_no_memory);
    return t;
}
