/* The spans of a call at the load balancer: what they borrow, and whom runners take for their
 * parent. The tree is shown end to end (tests/e2e/traces). */
#include "fixture.h"
#include "suites.h"

#include <trace/trace.h>

#include <string.h>

static struct buf posted; /* the last batch */

static void on_post(void *impl, struct fn_op *op, const struct trace_parcel *parcel,
                    struct trace_answer *ret, struct fn_error *reterr)
{
    (void)impl;
    (void)op;
    (void)reterr;
    buf_clear(&posted);
    buf_add(&posted, parcel->body, parcel->len);
    ret->status = 200;
}

static void traced_setup(void)
{
    static const struct trace_options all = { .endpoint = "http://collector", .permille = 1000,
                                              .queue_max = 10 };
    struct trace_deps deps = { .post = on_post, .node = "lb", .host = "here" };

    posted = (struct buf)BUF_INIT(0);
    lb_opts = (struct lb_options){ .placement_timeout_ns = 10 * ENV_S,
                                   .detached_placement_timeout_ns = 10 * ENV_S,
                                   .response_buffer_bytes = 65536,
                                   .detached = true };
    fixture_api = false;
    fixture_trace(&deps, &all);
    lb_setup();
}

static void traced_teardown(void)
{
    lb_teardown();
    buf_finish(&posted);
}

static bool was_posted(const void *bytes, size_t n)
{
    ck_assert_uint_gt(posted.len, 0);
    return memmem(posted.data, posted.len, bytes, n) != NULL;
}

static void expect_request(void)
{
    fake_env_advance(env, 3 * ENV_S);
    fake_env_work_all(env);
    ck_assert(was_posted("POST /invoke/{fn}", 17));
    ck_assert(was_posted("/invoke/" FN_HELLO, strlen("/invoke/" FN_HELLO)));
    ck_assert(was_posted("_OTHER", 6) == false);
}

/* The request goes with the client; the call goes on, and its trace tells of both. */
START_TEST(a_request_that_is_gone_before_its_call)
{
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1");
    c = send_request("POST", "/invoke/" FN_HELLO, "x", "Fn-Invoke-Type", "detached", NULL);
    a = fake_engage_last(&fe);
    fake_attempt_start(a, 202, NULL);
    ck_assert(!c->live);
    client_free(c);
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    expect_request();
    c = INVOKE("x");
    client_gone(c);
    client_free(c);
    expect_request();
}
END_TEST

/* Of the traceparent in the call's JSON. */
static void parent_of(const struct engage_attempt *a, unsigned char ret[SPAN_ID_BYTES])
{
    const char *at = strstr(a->json, "\"00-");
    struct trace_context context;
    char text[TRACEPARENT_BYTES];

    ck_assert_ptr_nonnull(at);
    memcpy(text, at + 1, TRACEPARENT_BYTES - 1);
    text[TRACEPARENT_BYTES - 1] = '\0';
    ck_assert(trace_context_parse(text, &context));
    memcpy(ret, context.span_id, SPAN_ID_BYTES);
}

START_TEST(each_attempt_is_the_parent_of_its_runner)
{
    unsigned char parents[3][SPAN_ID_BYTES];
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1", "r2:1", "r3:1");
    c = INVOKE("x");
    for (int i = 0; i < 3; i++) {
        a = fake_engage_last(&fe);
        parent_of(a, parents[i]);
        fake_attempt_end(a, 14, ENGAGE_PROOF_REFUSED, true);
        fake_env_advance(env, 50 * ENV_MS);
    }
    client_gone(c);
    client_free(c);
    expect_request();
    for (int i = 0; i < 3; i++) {
        ck_assert(was_posted(parents[i], SPAN_ID_BYTES));
        ck_assert(i == 0 || memcmp(parents[i], parents[i - 1], SPAN_ID_BYTES) != 0);
    }
}
END_TEST

Suite *traced_suite(void)
{
    Suite *s = suite_create("traced");
    TCase *t = tcase_create("traced");

    tcase_add_checked_fixture(t, traced_setup, traced_teardown);
    tcase_add_test(t, a_request_that_is_gone_before_its_call);
    tcase_add_test(t, each_attempt_is_the_parent_of_its_runner);
    suite_add_tcase(s, t);
    return s;
}
