/* Spans of a call: who is kept, what becomes of them on the wire, and their limits. */
#include "rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TCase *context_tests(void);
TCase *export_tests(void);
TCase *export_machine_tests(void);

/* ---- the rig --------------------------------------------------------------------------------- */

static void on_post(void *impl, struct fn_op *op, const struct trace_parcel *parcel,
                    struct trace_answer *ret, struct fn_error *reterr)
{
    struct rig *r = impl;

    (void)op;
    (void)reterr;
    r->posts++;
    if (r->last) {
        fnd__otlp__export_request__free_unpacked(r->last, NULL);
    }
    r->last = fnd__otlp__export_request__unpack(NULL, parcel->len, parcel->body);
    ck_assert_ptr_nonnull(r->last);
    ret->status = r->status;
    ret->retry_after_s = r->retry_after_s;
    if (r->rejected) {
        Fnd__Otlp__PartialSuccess partial = FND__OTLP__PARTIAL_SUCCESS__INIT;
        Fnd__Otlp__ExportResponse answer = FND__OTLP__EXPORT_RESPONSE__INIT;

        partial.rejected_spans = r->rejected;
        answer.partial_success = &partial;
        ret->len = fnd__otlp__export_response__pack(&answer, (uint8_t *)ret->body);
    }
}

void rig_open(struct rig *r, const struct trace_options *o)
{
    struct trace_deps deps = { .post = on_post, .impl = r, .node = "lb", .host = "here" };

    *r = (struct rig){ .fake = fake_env_create(), .status = 200, .options = *o };
    deps.env = &r->fake->env;
    arena_init(&r->arena, 0);
    ck_assert_int_eq(tracer_create(&deps, &r->t, NULL), 0);
    ck_assert_int_eq(tracer_set_options(r->t, &r->options), 0);
}

void rig_close(struct rig *r)
{
    tracer_destroy(r->t);
    if (r->last) {
        fnd__otlp__export_request__free_unpacked(r->last, NULL);
    }
    arena_finish(&r->arena);
    fake_env_destroy(r->fake);
}

struct spans *rig_begin(struct rig *r, const char *traceparent)
{
    struct headers h;

    headers_init(&h, &r->arena);
    if (traceparent) {
        headers_add(&h, "Traceparent", traceparent);
    }
    return spans_begin(r->t, &h, "call", r->fake->now);
}

static void end_call(struct spans *s, int64_t at_ns, bool failed)
{
    if (spans_keep(s, at_ns, failed)) {
        spans_end(s, at_ns);
    }
}

void rig_call(struct rig *r, const char *traceparent, int64_t ms, bool failed)
{
    struct spans *s = rig_begin(r, traceparent);

    end_call(s, r->fake->now + ms * ENV_MS, failed);
}

void rig_settle(struct rig *r)
{
    fake_env_advance(r->fake, 2 * ENV_S);
    fake_env_work_all(r->fake);
}

/* ---- who is kept ----------------------------------------------------------------------------- */

static const struct trace_options all = { .endpoint = "http://c/v1/traces", .permille = 1000,
                                          .follow = 1, .errors = 1, .queue_max = 1000 };
static const struct trace_options none = { .endpoint = "http://c/v1/traces", .follow = 1,
                                           .errors = 1, .queue_max = 1000,
                                           .slow_ns = 50 * ENV_MS };

static const struct verdict {
    uint32_t permille;
    bool follow, errors;
    int64_t slow_ms;
    const char *parent;
    int64_t took_ms;
    bool failed;
    const char *why; /* NULL = not kept */
} verdicts[] = {
    { 1000, true, true, 0, NULL, 1, false, "ratio" },
    { 0, true, true, 0, NULL, 1, false, NULL },
    { 0, true, true, 0, RIG_SAMPLED, 1, false, "parent" },
    { 1000, true, true, 0, RIG_NOT, 1, false, NULL },
    { 1000, false, true, 0, RIG_NOT, 1, false, "ratio" },
    { 0, false, true, 0, RIG_SAMPLED, 1, false, NULL },
    { 0, true, true, 0, NULL, 1, true, "error" },
    { 0, true, true, 0, RIG_NOT, 1, true, "error" },
    { 0, true, false, 0, NULL, 1, true, NULL },
    { 0, true, true, 50, NULL, 49, false, NULL },
    { 0, true, true, 50, NULL, 50, false, "slow" },
    { 0, true, true, 50, RIG_NOT, 50, false, "slow" },
    { 1000, true, true, 50, RIG_SAMPLED, 60, true, "parent" },
};

static const Fnd__Otlp__Span *only_span(const struct rig *r, size_t i)
{
    return r->last->resource_spans[0]->scope_spans[0]->spans[i];
}

static const Fnd__Otlp__AnyValue *value_of(Fnd__Otlp__KeyValue **list, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i]->key, key) == 0) {
            return list[i]->value;
        }
    }
    return NULL;
}

static const char *text_of(const Fnd__Otlp__Span *s, const char *key)
{
    const Fnd__Otlp__AnyValue *v = value_of(s->attributes, s->n_attributes, key);

    return v ? v->string_value : NULL;
}

START_TEST(who_is_kept)
{
    const struct verdict *v = &verdicts[_i];
    struct trace_options o = all;
    struct rig r;

    o.permille = v->permille;
    o.follow = v->follow;
    o.errors = v->errors;
    o.slow_ns = v->slow_ms * ENV_MS;
    rig_open(&r, &o);
    rig_call(&r, v->parent, v->took_ms, v->failed);
    rig_settle(&r);
    ck_assert_uint_eq(r.posts, v->why ? 1 : 0);
    if (v->why) {
        ck_assert_str_eq(text_of(only_span(&r, 0), "fnd.sampled"), v->why);
    }
    rig_close(&r);
}
END_TEST

START_TEST(chance_keeps_the_share_and_nodes_agree)
{
    struct trace_options o = all;
    struct rig a, b;
    uint32_t sampled = 0;

    o.permille = 250;
    rig_open(&a, &o);
    rig_open(&b, &o);
    for (int i = 0; i < 2000; i++) {
        struct spans *s = rig_begin(&a, NULL), *other;
        char parent[TRACEPARENT_BYTES];

        spans_print_parent(s, s->spans[SPAN_ROOT].id, parent);
        other = rig_begin(&b, parent);
        ck_assert_int_eq(s->sampled, other->sampled);
        ck_assert_str_eq(spans_trace_id(s), spans_trace_id(other));
        ck_assert_int_eq(parent[TRACEPARENT_BYTES - 2], s->sampled ? '1' : '0');
        sampled += s->sampled;
        tracer_give_block(s);
        tracer_give_block(other);
    }
    ck_assert_uint_gt(sampled, 420);
    ck_assert_uint_lt(sampled, 580);
    rig_close(&a);
    rig_close(&b);
}
END_TEST

/* A stranger has its calls kept no more often, nor less, than chance has it. */
START_TEST(an_id_that_a_client_made_decides_nothing)
{
    static const char *const ids[] = { "00000000000000010000000000000001",
                                       "0000000000000001ffffffffffffffff" };
    struct trace_options o = all;
    char parent[TRACEPARENT_BYTES];
    uint32_t sampled = 0;
    struct rig r;

    o.permille = 250;
    o.follow = 0;
    snprintf(parent, sizeof(parent), "00-%s-b7ad6b7169203331-01", ids[_i]);
    rig_open(&r, &o);
    for (int i = 0; i < 2000; i++) {
        struct spans *s = rig_begin(&r, parent);

        ck_assert_str_eq(spans_trace_id(s), ids[_i]);
        sampled += s->sampled;
        tracer_give_block(s);
    }
    ck_assert_uint_gt(sampled, 420);
    ck_assert_uint_lt(sampled, 580);
    rig_close(&r);
}
END_TEST

START_TEST(off_keeps_nothing)
{
    struct trace_options o = { .queue_max = 1 };
    struct headers h = { .n = 0 };
    struct rig r;

    rig_open(&r, &o);
    ck_assert_ptr_null(rig_begin(&r, RIG_SAMPLED));
    ck_assert_ptr_null(spans_begin(NULL, &h, "call", 1));
    ck_assert_uint_eq(span_begin(NULL, SPAN_ROOT, "x", SPAN_INTERNAL, 1), SPAN_NONE);
    span_text(NULL, SPAN_ROOT, "a", "b");
    span_fail(NULL, SPAN_ROOT, "a", "b");
    span_end(NULL, SPAN_ROOT, 1);
    end_call(NULL, 1, true);
    ck_assert_ptr_null(r.t->free);
    rig_close(&r);
}
END_TEST

START_TEST(two_traceparents_are_none)
{
    struct headers h;
    struct spans *s;
    struct rig r;

    rig_open(&r, &none);
    headers_init(&h, &r.arena);
    headers_add(&h, "traceparent", RIG_SAMPLED);
    headers_add(&h, "Traceparent", RIG_SAMPLED);
    headers_add(&h, "Tracestate", "a=1");
    s = spans_begin(r.t, &h, "call", r.fake->now);
    ck_assert_str_ne(spans_trace_id(s), RIG_TRACE);
    ck_assert(!s->sampled);
    ck_assert_str_eq(s->state, "");
    ck_assert_int_eq(spans_set_headers(s, &h, RIG_NOT), 0);
    ck_assert_uint_eq(h.n, 1);
    ck_assert_str_eq(headers_get(&h, "Traceparent"), RIG_NOT);
    end_call(s, r.fake->now, false);
    rig_close(&r);
}
END_TEST

START_TEST(exemplars_are_of_traces_that_are_kept)
{
    struct trace_options o = none;
    struct spans *s, *quick;
    struct rig r;

    o.queue_max = 1;
    rig_open(&r, &o);
    ck_assert_ptr_null(spans_kept_id(NULL, 0, true));
    s = rig_begin(&r, RIG_SAMPLED);
    ck_assert_str_eq(spans_kept_id(s, r.fake->now, false), RIG_TRACE);
    quick = rig_begin(&r, RIG_NOT);
    ck_assert_ptr_null(spans_kept_id(quick, r.fake->now, false));
    ck_assert_ptr_nonnull(spans_kept_id(quick, r.fake->now, true));
    ck_assert_ptr_nonnull(spans_kept_id(quick, r.fake->now + o.slow_ns, false));
    end_call(s, r.fake->now, false);
    ck_assert_ptr_null(spans_kept_id(quick, r.fake->now, true)); /* the queue is full */
    end_call(quick, r.fake->now, false);
    rig_settle(&r);
    o.endpoint = NULL;
    s = rig_begin(&r, RIG_SAMPLED);
    ck_assert_int_eq(tracer_set_options(r.t, &o), 0);
    ck_assert_ptr_null(spans_kept_id(s, r.fake->now, true)); /* they were switched off */
    end_call(s, r.fake->now, false);
    rig_close(&r);
}
END_TEST

/* ---- on the wire ----------------------------------------------------------------------------- */

static void write_tree(struct rig *r)
{
    struct spans *s = rig_begin(r, RIG_SAMPLED);
    int64_t now = r->fake->now;
    uint32_t a = span_begin(s, SPAN_ROOT, "a", SPAN_INTERNAL, now + 1);
    uint32_t b = span_begin(s, a, "b", SPAN_CLIENT, now + 2);
    uint32_t event = span_event(s, a, "refused", now + 3);

    span_text(s, event, "who", "10.0.0.1");
    span_text(s, b, "text", "\xff\xc3\xa4");
    span_text(s, b, "nothing", NULL);
    span_text(s, b, "empty", "");
    span_num(s, b, "num", -7);
    span_bool(s, b, "yes", true);
    span_fail(s, b, "busy", "no room");
    span_rename(s, SPAN_ROOT, "%s /x", "GET");
    span_end(s, b, now + 5);
    span_end(s, b, now + 50); /* the first one counts */
    end_call(s, now + 9, false);
}

START_TEST(a_tree_on_the_wire)
{
    const Fnd__Otlp__Span *root, *a, *b;
    Fnd__Otlp__Resource *resource;
    int64_t wall;
    struct rig r;

    rig_open(&r, &none);
    wall = env_wall_ns(&r.fake->env);
    write_tree(&r);
    rig_settle(&r);
    ck_assert_uint_eq(r.posts, 1);
    ck_assert_uint_eq(r.last->resource_spans[0]->scope_spans[0]->n_spans, 3);
    root = only_span(&r, 0);
    a = only_span(&r, 1);
    b = only_span(&r, 2);
    ck_assert_str_eq(root->name, "GET /x");
    ck_assert_uint_eq(root->start_time_unix_nano, (uint64_t)wall);
    ck_assert_uint_eq(root->end_time_unix_nano, (uint64_t)wall + 9);
    ck_assert_uint_eq(root->flags, 1);
    ck_assert_int_eq(root->kind, SPAN_SERVER);
    ck_assert_uint_eq(root->trace_id.len, 16);
    ck_assert_mem_eq(root->trace_id.data, "\x0a\xf7\x65\x19", 4);
    ck_assert_mem_eq(root->parent_span_id.data, "\xb7\xad\x6b\x71\x69\x20\x33\x31", 8);
    ck_assert_mem_eq(a->parent_span_id.data, root->span_id.data, 8);
    ck_assert_mem_eq(b->parent_span_id.data, a->span_id.data, 8);
    ck_assert_uint_eq(a->end_time_unix_nano, (uint64_t)wall + 9); /* with the call */
    ck_assert_uint_eq(b->end_time_unix_nano, (uint64_t)wall + 5);
    ck_assert_str_eq(a->events[0]->name, "refused");
    ck_assert_uint_eq(a->events[0]->time_unix_nano, (uint64_t)wall + 3);
    ck_assert_str_eq(a->events[0]->attributes[0]->value->string_value, "10.0.0.1");
    ck_assert_uint_eq(b->n_attributes, 4);
    ck_assert_str_eq(text_of(b, "text"), "?\xc3\xa4");
    ck_assert_int_eq(value_of(b->attributes, 4, "num")->int_value, -7);
    ck_assert_int_eq(value_of(b->attributes, 4, "yes")->bool_value, 1);
    ck_assert_str_eq(text_of(b, "error.type"), "busy");
    ck_assert_int_eq(b->status->code, 2);
    ck_assert_str_eq(b->status->message, "no room");
    ck_assert_ptr_null(root->status);
    resource = r.last->resource_spans[0]->resource;
    ck_assert_str_eq(value_of(resource->attributes, 4, "service.name")->string_value, "fnd-lb");
    ck_assert_str_eq(value_of(resource->attributes, 4, "host.name")->string_value, "here");
    ck_assert_uint_eq(strlen(value_of(resource->attributes, 4, "service.instance.id")->string_value),
                      36);
    rig_close(&r);
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

START_TEST(what_does_not_fit_is_counted)
{
    const Fnd__Otlp__Span *root;
    char long_text[1000];
    struct spans *s;
    struct rig r;

    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    rig_open(&r, &none);
    s = rig_begin(&r, RIG_SAMPLED);
    for (uint32_t i = 0; i < SPANS_MAX + 4; i++) {
        uint32_t span = span_begin(s, SPAN_ROOT, "s", SPAN_INTERNAL, 1);

        span_text(s, span, "k", long_text);
        span_event(s, span, "e", 1);
        span_end(s, span, 2);
    }
    ck_assert(spans_keep(s, r.fake->now, false));
    span_text(s, SPAN_ROOT, "last", long_text); /* the root has room of its own */
    spans_end(s, r.fake->now);
    rig_settle(&r);
    root = only_span(&r, 0);
    ck_assert_uint_eq(strlen(text_of(root, "last")), TEXT_VALUE_MAX - 1);
    ck_assert_uint_eq(r.last->resource_spans[0]->scope_spans[0]->n_spans, SPANS_MAX);
    ck_assert_uint_lt(strlen(text_of(only_span(&r, 1), "k")), TEXT_VALUE_MAX);
    ck_assert_int_gt(value_of(root->attributes, root->n_attributes, "fnd.dropped")->int_value, 4);
    rig_close(&r);
}
END_TEST

/* More blocks than are kept for the next calls: the last ones go back to the system. */
START_TEST(calls_at_once_that_are_not_kept)
{
    struct spans *s[100];
    struct rig r;

    rig_open(&r, &none);
    for (int i = 0; i < 100; i++) {
        s[i] = rig_begin(&r, NULL);
    }
    for (int i = 0; i < 100; i++) {
        ck_assert(!spans_keep(s[i], r.fake->now, false));
    }
    rig_settle(&r);
    ck_assert_uint_eq(r.posts, 0);
    rig_close(&r);
}
END_TEST

START_TEST(going_back_forgets_what_came_later)
{
    struct spans_mark mark;
    struct spans *s;
    struct rig r;

    rig_open(&r, &none);
    s = rig_begin(&r, RIG_SAMPLED);
    mark = spans_mark(s);
    for (int i = 0; i < 1000; i++) {
        uint32_t span;

        spans_rewind(s, &mark);
        span = span_begin(s, SPAN_ROOT, "attempt", SPAN_CLIENT, i);
        ck_assert_uint_ne(span, SPAN_NONE);
        span_num(s, span, "n", i);
        span_text(s, span, "to", "10.0.0.1:9190");
    }
    end_call(s, r.fake->now, false);
    rig_settle(&r);
    ck_assert_uint_eq(r.last->resource_spans[0]->scope_spans[0]->n_spans, 2);
    ck_assert_int_eq(only_span(&r, 1)->attributes[0]->value->int_value, 999);
    rig_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *t = tcase_create("spans");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(t, who_is_kept, 0, (int)(sizeof(verdicts) / sizeof(verdicts[0])));
    tcase_add_test(t, chance_keeps_the_share_and_nodes_agree);
    tcase_add_loop_test(t, an_id_that_a_client_made_decides_nothing, 0, 2);
    tcase_add_test(t, off_keeps_nothing);
    tcase_add_test(t, two_traceparents_are_none);
    tcase_add_test(t, exemplars_are_of_traces_that_are_kept);
    tcase_add_test(t, a_tree_on_the_wire);
    tcase_add_test(t, what_does_not_fit_is_counted);
    tcase_add_test(t, calls_at_once_that_are_not_kept);
    tcase_add_test(t, going_back_forgets_what_came_later);
    suite_add_tcase(s, t);
    suite_add_tcase(s, context_tests());
    suite_add_tcase(s, export_tests());
    suite_add_tcase(s, export_machine_tests());
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
