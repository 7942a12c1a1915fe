/* Overriders and listeners around a call. */
#include "fixture.h"
#include "suites.h"

#include <string.h>

static struct plugin *overriders[2] = { &other[0], &other[1] };
static struct plugin *listeners[2] = { &other[2], &other[3] };
static struct chain chain;
static int refuse_at; /* overrider or listener that refuses; -1 = none */
static int befores, afters;
static struct fn_call_end last_end;
static char last_outcome[32];
static const char *method; /* of the calls */

/* Each field takes its range, and reads as it was set. */
static void set_all(const struct fn_edit_if *e, struct fn_edit *edit)
{
    static const struct {
        uint32_t field;
        uint64_t min, max;
    } of[] = { { FN_FIELD_MEM_MB, 1, 1u << 20 },      { FN_FIELD_CPU_MILLI, 0, 1024000 },
               { FN_FIELD_TMPFS_MB, 0, 1u << 20 },    { FN_FIELD_TIMEOUT_S, 1, 300 },
               { FN_FIELD_IDLE_TIMEOUT_S, 1, 3600 } };
    uint64_t was[5];

    for (size_t i = 0; i < 5; i++) {
        was[i] = e->u64(edit, of[i].field);
        ck_assert_int_eq(e->set_u64(edit, of[i].field, of[i].max + 1), FN_E_RANGE);
        ck_assert_int_eq(e->set_u64(edit, of[i].field, of[i].min - 1), FN_E_RANGE);
        ck_assert_int_eq(e->set_u64(edit, of[i].field, of[i].max), 0);
    }
    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(e->u64(edit, of[i].field), of[i].max);
        ck_assert_int_eq(e->set_u64(edit, of[i].field, was[i]), 0);
    }
    ck_assert_uint_eq(e->u64(edit, 99), 0);
}

static bool came_detached;
static const char *type; /* that the second overrider sets; NULL = none */

/* What a user could not have set is refused, and leaves what was. */
static void set_texts(const struct fn_edit_if *e, struct fn_edit *edit)
{
    static const struct {
        uint32_t id;
        const char *text;
        int result;
    } texts[] = {
        { FN_TEXT_IMAGE, "no image !", FN_E_RANGE },
        { FN_TEXT_IMAGE, "", FN_E_RANGE },
        { FN_TEXT_IMAGE, "fnd/other:2", 0 },
        { FN_TEXT_SYSLOG_URL, "http://log", FN_E_RANGE },
        { FN_TEXT_SYSLOG_URL, "tcp://log:514", 0 },
        { FN_TEXT_TYPE, "async", FN_E_RANGE },
        { FN_TEXT_CALL_ID, "01", FN_E_INVALID },
        { FN_TEXT_IMAGE, NULL, FN_E_INVALID },
        { 0, "x", FN_E_INVALID },
        { 99, "x", FN_E_INVALID },
    };
    static const struct {
        const char *name, *value;
        int result;
    } fields[] = {
        { "X-Plan", "gold", 0 },          { "X-Plan", NULL, 0 },
        { "X-Plan", "silver", 0 },        { "X-Tenant", "green", 0 },
        { "X Plan", "x", FN_E_INVALID },  { NULL, "x", FN_E_INVALID },
        { "X-Plan", "a\r\nb", FN_E_RANGE }, { "Content-Length", "1", FN_E_RANGE },
        { "Connection", "x", FN_E_RANGE }, { "Fn-Call-Id", "x", FN_E_RANGE },
    };
    static const struct {
        const char *key, *json;
        int result;
    } notes[] = {
        { "acme/zone", "{ \"a\": [1, 2] }", 0 }, { "acme/zone", "{", FN_E_RANGE },
        { "acme/zone", "1 2", FN_E_RANGE },        { "acme/zone", "", FN_E_RANGE },
        { "", "1", FN_E_INVALID },                 { "acme/gone", "1", 0 },
        { "acme/gone", NULL, 0 },
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_msg(e->set_text(edit, texts[i].id, texts[i].text) == texts[i].result, "%s",
                      texts[i].text);
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        ck_assert_msg(e->set_header(edit, fields[i].name, fields[i].value) == fields[i].result,
                      "%s", fields[i].name);
    }
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        ck_assert_msg(e->set_annotation(edit, notes[i].key, notes[i].json) == notes[i].result, "%s",
                      notes[i].json);
    }
    ck_assert_str_eq(e->text(edit, FN_TEXT_IMAGE), "fnd/other:2");
    ck_assert_str_eq(e->text(edit, FN_TEXT_SYSLOG_URL), "tcp://log:514");
    ck_assert_str_eq(e->text(edit, FN_TEXT_TYPE), came_detached ? "detached" : "sync");
    ck_assert_str_eq(e->header(edit, "x-plan"), "silver");
    ck_assert_str_eq(e->annotation(edit, "acme/zone"), "{\"a\":[1,2]}");
    ck_assert_ptr_null(e->annotation(edit, "acme/gone"));
    if (type) {
        ck_assert_int_eq(e->set_text(edit, FN_TEXT_TYPE, type), 0);
        ck_assert_str_eq(e->text(edit, FN_TEXT_TYPE), type);
    }
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    const struct fn_edit_if *e = fake_plugin_table("fn.edit");
    int me = *(const int *)inst;

    ck_assert_str_eq(e->text(edit, FN_TEXT_FN_ID), FN_HELLO);
    ck_assert_str_eq(e->text(edit, FN_TEXT_METHOD), method);
    ck_assert_str_eq(e->header(edit, "x-tenant"), "blue"); /* of an invoke and of a trigger */
    ck_assert_ptr_null(e->header(edit, "X-Other"));
    ck_assert_str_eq(e->config(edit, "A"), me ? "edited" : "app");
    set_all(e, edit);
    ck_assert_int_eq(e->set_u64(edit, 99, 1), FN_E_INVALID);
    ck_assert_int_eq(e->set_config(edit, "A", "edited"), 0);
    ck_assert_int_eq(e->set_config(edit, "B", NULL), 0);
    ck_assert_int_eq(e->set_extension(edit, me ? "two" : "one", "x"), 0);
    ck_assert_int_eq(e->set_u64(edit, FN_FIELD_MEM_MB, 256), 0);
    if (me) {
        set_texts(e, edit);
    }
    if (refuse_at == me) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER, "not today");
    }
    return FN_CHANGED;
}

static const struct fn_override_ops override_ops = { FN_HDR(struct fn_override_ops,
                                                            FN_MAGIC_OVERRIDE), apply };

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    int me = *(const int *)inst;

    ck_assert_str_eq(call->fn_id, FN_HELLO);
    ck_assert_uint_eq(call->mem_mb, 256);
    befores++;
    if (refuse_at == me) {
        err_set_http(reterr, FN_E_EXHAUSTED, 429, FN_BLAME_USER,
                     "Request capacity for user exceeded");
        reterr->retry_after_ns = 2500 * ENV_MS;
        return FN_E_EXHAUSTED;
    }
    return 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    (void)inst;
    (void)call;
    afters++;
    last_end = *end;
    strncpy(last_outcome, end->outcome, sizeof(last_outcome) - 1);
}

static const struct fn_listener_ops listener_ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
};

static void setup(void)
{
    static int me[4] = { 0, 1, 2, 3 };

    lb_opts = (struct lb_options){ .why_calls = 4, .placement_timeout_ns = ENV_S,
                                   .response_buffer_bytes = 65536 };
    fixture_api = false;
    lb_setup();
    PUBLISH("r1:1");
    for (int i = 0; i < 4; i++) {
        fake_plugin_init(&other[i], "other",
                         i < 2 ? (const void *)&override_ops : (const void *)&listener_ops, &me[i]);
    }
    chain = (struct chain){ .overriders = overriders, .n_overriders = 2, .listeners = listeners,
                            .n_listeners = 2 };
    lb_set_plugins(lb, &chain);
    method = "POST";
    refuse_at = -1;
    type = NULL;
    came_detached = false;
    befores = afters = 0;
}

static struct client *invoke(void)
{
    return send_request("POST", "/invoke/" FN_HELLO, "", "X-Tenant", "blue", NULL);
}

START_TEST(edits_travel)
{
    struct client *c = invoke();
    struct engage_attempt *a = fake_engage_last(&fe);

    ck_assert_str_eq(a->extensions, "one=x,two=x,");
    ck_assert_str_eq(a->slot_hash_id, ""); /* the runner makes it of what the call is now */
    ck_assert_ptr_nonnull(strstr(a->json, "\"memory\":256"));
    ck_assert_ptr_nonnull(strstr(a->json, "\"A\":\"edited\""));
    ck_assert_ptr_null(strstr(a->json, "\"B\":"));
    ck_assert_ptr_nonnull(strstr(a->json, "\"image\":\"fnd/other:2\""));
    ck_assert_ptr_nonnull(strstr(a->json, "\"syslog_url\":\"tcp://log:514\""));
    ck_assert_ptr_nonnull(strstr(a->json, "\"type\":\"sync\""));
    ck_assert_ptr_nonnull(strstr(a->json, "\"X-Plan\":[\"silver\"]"));
    ck_assert_ptr_nonnull(strstr(a->json, "\"X-Tenant\":[\"green\"]"));
    ck_assert_ptr_nonnull(strstr(a->json, "\"acme/zone\":{\"a\":[1,2]}"));
    ck_assert_int_eq(befores, 2);
    ck_assert_int_eq(afters, 0);
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_int_eq(afters, 2);
    ck_assert_int_eq(last_end.code, 0);
    ck_assert_uint_eq(last_end.http_status, 200);
    ck_assert_str_eq(last_outcome, "ok");
    client_free(c);
    /* The function itself was not changed. */
    c = invoke();
    client_gone(c);
    client_free(c);
    ck_assert_str_eq(last_outcome, "aborted");
    ck_assert_int_eq(last_end.code, FN_E_CANCELLED);
    ck_assert_uint_eq(last_end.http_status, 444);
    ck_assert_uint_eq(last_end.blame, FN_BLAME_USER);
    c = invoke();
    a = fake_engage_last(&fe);
    fake_attempt_finished(a, false, 504, true, "Timed out");
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_uint_eq(last_end.http_status, 504);
    ck_assert_int_eq(last_end.code, FN_E_DEADLINE); /* as at the runner */
    client_free(c);
}
END_TEST

static int chains_gone;

static void on_chain_gone(struct chain *c)
{
    ck_assert_uint_eq(c->refs, 0);
    chains_gone++;
}

/* What `fnd why` says of an answered call. */
static const char *why_text(const struct client *c, struct buf *out)
{
    ck_assert_int_eq(lb_why(lb, answer_header(c, "Fn-Call-Id"), out, NULL), 0);
    return buf_text(out);
}

/* A reload in the middle of a call: it ends with the listeners and limits that it began with. */
/* The client's headers have the same names for an overrider, whichever way the call came. */
/* The client of a call that became detached is answered when a runner has taken it. */
START_TEST(an_overrider_detaches)
{
    struct buf why = BUF_INIT(0);
    struct client *c;

    type = "detached";
    lb_opts.detached = _i;
    lb_set_options(lb, &lb_opts);
    c = invoke();
    if (!_i) {
        ck_assert_int_eq(c->status, 501);
        ck_assert_uint_eq(fe.attempts_made, 0);
    } else {
        ck_assert_ptr_nonnull(strstr(fake_engage_last(&fe)->json, "\"type\":\"detached\""));
        fake_attempt_finished(fake_engage_last(&fe), true, 0, false, NULL);
        fake_attempt_end(fake_engage_last(&fe), 0, ENGAGE_PROOF_NONE, true);
        ck_assert_int_eq(c->status, 202);
        ck_assert_ptr_nonnull(strstr(why_text(c, &why), "\"kind\":\"detached\""));
    }
    buf_finish(&why);
    client_free(c);
}
END_TEST

/* What counts is what the overriders made of it. */
START_TEST(an_overrider_makes_it_sync)
{
    struct buf why = BUF_INIT(0);
    struct client *c;

    came_detached = true;
    type = "sync";
    c = send_request("POST", "/invoke/" FN_HELLO, "", "X-Tenant", "blue", "Fn-Invoke-Type",
                     "detached", NULL);
    ck_assert_ptr_nonnull(strstr(fake_engage_last(&fe)->json, "\"type\":\"sync\""));
    fake_attempt_start(fake_engage_last(&fe), 200, NULL);
    fake_attempt_finished(fake_engage_last(&fe), true, 0, false, NULL);
    fake_attempt_end(fake_engage_last(&fe), 0, ENGAGE_PROOF_NONE, true);
    ck_assert_int_eq(c->status, 200);
    ck_assert_ptr_nonnull(strstr(why_text(c, &why), "\"kind\":\"sync\""));
    buf_finish(&why);
    client_free(c);
}
END_TEST

START_TEST(triggers_have_their_headers)
{
    struct client *c;

    method = "GET";
    c = TRIGGER("X-Tenant", "blue");
    ck_assert_uint_eq(fe.attempts_open, 1);
    client_gone(c);
    client_free(c);
}
END_TEST

START_TEST(a_call_keeps_its_chain)
{
    struct chain none = { .gone = on_chain_gone };
    struct lb_options small = lb_opts;
    struct client *c = invoke();
    struct engage_attempt *a = fake_engage_last(&fe);
    struct client *next;

    chains_gone = 0;
    chain.gone = on_chain_gone;
    small.response_bytes_max = 1;
    lb_set_options(lb, &small);
    lb_set_plugins(lb, &none);
    ck_assert_int_eq(chains_gone, 0);
    next = invoke();
    ck_assert_int_eq(befores, 2);
    ck_assert_str_eq(fake_engage_last(&fe)->extensions, "");
    fake_attempt_start(fake_engage_last(&fe), 200, NULL);
    fake_attempt_data(fake_engage_last(&fe), "ab", 2);
    ck_assert_int_eq(next->status, 502);
    ck_assert_int_eq(afters, 0);
    fake_attempt_start(a, 200, NULL);
    fake_attempt_data(a, "ab", 2);
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_int_eq(c->status, 200);
    ck_assert_int_eq(afters, 2);
    ck_assert_int_eq(chains_gone, 1);
    client_free(c);
    client_free(next);
    lb_set_plugins(lb, NULL);
    ck_assert_int_eq(chains_gone, 2);
}
END_TEST

START_TEST(one_refusal_refuses)
{
    struct client *c;

    for (refuse_at = 0; refuse_at < 2; refuse_at++) {
        c = invoke();
        ck_assert_int_eq(c->status, 403);
        ck_assert_str_eq(buf_text(&c->message), "not today");
        expect_outcome(c, "not-executed");
        client_free(c);
    }
    ck_assert_uint_eq(fe.attempts_made, 0);
    ck_assert_int_eq(befores, 0);
}
END_TEST

/* after() comes exactly for those whose before() let the call through. */
START_TEST(listener_refuses)
{
    struct client *c;

    refuse_at = 3;
    c = invoke();
    ck_assert_int_eq(c->status, 429);
    ck_assert_str_eq(answer_header(c, "Retry-After"), "3");
    ck_assert_int_eq(befores, 2);
    ck_assert_int_eq(afters, 1);
    ck_assert_str_eq(last_outcome, "not-executed");
    ck_assert_int_eq(last_end.code, FN_E_EXHAUSTED);
    client_free(c);
    ck_assert_uint_eq(fe.attempts_made, 0);
}
END_TEST

Suite *plugin_suite(void)
{
    Suite *s = suite_create("lb plugins");
    TCase *tc = tcase_create("plugins");

    tcase_add_checked_fixture(tc, setup, lb_teardown);
    tcase_add_test(tc, edits_travel);
    tcase_add_loop_test(tc, an_overrider_detaches, 0, 2);
    tcase_add_test(tc, an_overrider_makes_it_sync);
    tcase_add_test(tc, triggers_have_their_headers);
    tcase_add_test(tc, one_refusal_refuses);
    tcase_add_test(tc, a_call_keeps_its_chain);
    tcase_add_test(tc, listener_refuses);
    suite_add_tcase(s, tc);
    return s;
}
