/* What placers, pools and listeners may read of a call, at every time of its life. */
#include "fixture.h"
#include "suites.h"

#include <fn/view.h>
#include <stdlib.h>
#include <string.h>

#define PLACER   (&other[0])
#define SHADOW   (&other[1])
#define LISTENER (&other[2])
#define REFUSER  (&other[3])

static struct plugin *listeners[2] = { LISTENER, REFUSER };
static struct plugin *overriders[1] = { PLACER }; /* one plugin that is both, for the tests' sake */
static struct chain chain;
static const char *type, *trigger, *method;
static bool extended; /* an overrider ran */
static bool refuses;
static uint32_t wait_first; /* that many questions are answered with WAIT */
static int before_n, decide_n, shadow_n, observe_n, route_n, after_n;
static char slot_hash[65]; /* as the view told it */

static uint32_t count_pairs(const struct fn_view_if *v, const struct fn_call *call, uint32_t pairs)
{
    struct fn_kv kv = { NULL, NULL };
    uint32_t n = 0;

    while (v->pair(call, pairs, n, &kv) == 0) {
        ck_assert_msg(kv.key[0] && kv.value, "%u of %u", n, pairs);
        n++;
    }
    ck_assert_int_eq(v->pair(call, pairs, n + 1000, &kv), FN_E_RANGE);
    return n;
}

static void look_at_texts(const struct fn_view_if *v, const struct fn_call *call)
{
    ck_assert_str_eq(v->text(call, FN_TEXT_CALL_ID), call->id);
    ck_assert_str_eq(v->text(call, FN_TEXT_FN_ID), FN_HELLO);
    ck_assert_str_eq(v->text(call, FN_TEXT_APP_ID), "APP");
    ck_assert_str_eq(v->text(call, FN_TEXT_APP_NAME), "demo");
    ck_assert_str_eq(v->text(call, FN_TEXT_IMAGE), "fnd/hello:1");
    ck_assert_str_eq(v->text(call, FN_TEXT_METHOD), method);
    ck_assert_ptr_eq(strstr(v->text(call, FN_TEXT_URL), "http://lb:8080/"),
                     v->text(call, FN_TEXT_URL));
    ck_assert_str_eq(v->text(call, FN_TEXT_SYSLOG_URL), "");
    ck_assert_str_eq(v->text(call, FN_TEXT_TYPE), type);
    ck_assert_str_eq(v->text(call, FN_TEXT_TRIGGER_ID), trigger);
    ck_assert_str_eq(v->text(call, 0), "");
    ck_assert_str_eq(v->text(call, 99), "");
    ck_assert_uint_eq(strlen(v->text(call, FN_TEXT_SLOT_HASH)), 64);
    if (slot_hash[0]) {
        ck_assert_str_eq(v->text(call, FN_TEXT_SLOT_HASH), slot_hash);
    }
    memcpy(slot_hash, v->text(call, FN_TEXT_SLOT_HASH), sizeof(slot_hash));
}

static void look(const struct fn_call *call)
{
    const struct fn_view_if *v = fake_plugin_table("fn.view");
    struct fn_call old = *call;

    look_at_texts(v, call);
    ck_assert_uint_eq(v->u64(call, FN_FIELD_MEM_MB), extended ? 256 : 64);
    ck_assert_uint_eq(v->u64(call, FN_FIELD_CPU_MILLI), extended ? 250 : 0);
    ck_assert_uint_eq(v->u64(call, FN_FIELD_TIMEOUT_S), 10);
    ck_assert_uint_eq(v->u64(call, FN_FIELD_IDLE_TIMEOUT_S), 30);
    ck_assert_uint_eq(v->u64(call, 99), 0);
    ck_assert_str_eq(v->header(call, "x-tenant"), "blue");
    ck_assert_ptr_null(v->header(call, "X-Other"));
    ck_assert_str_eq(v->config(call, "B"), "fn");
    ck_assert_ptr_null(v->config(call, "C"));
    ck_assert_str_eq(v->annotation(call, "k"), "{\"a\":1}");
    ck_assert_ptr_null(v->annotation(call, "l"));
    ck_assert(extended ? strcmp(v->extension(call, "zone"), "a") == 0
                       : v->extension(call, "zone") == NULL);
    ck_assert_uint_eq(count_pairs(v, call, FN_PAIRS_ANNOTATIONS), 1);
    ck_assert_uint_eq(count_pairs(v, call, FN_PAIRS_EXTENSIONS), extended);
    ck_assert_uint_ge(count_pairs(v, call, FN_PAIRS_CONFIG), 3);
    ck_assert_uint_ge(count_pairs(v, call, FN_PAIRS_HEADERS), 1);
    ck_assert_uint_eq(count_pairs(v, call, 99), 0);
    /* A copy by a plugin of 1.0 has no more than that. */
    old.hdr.size = offsetof(struct fn_call, more);
    ck_assert_str_eq(v->text(&old, FN_TEXT_IMAGE), "");
    ck_assert_str_eq(v->text(&old, FN_TEXT_SLOT_HASH), "");
    ck_assert_uint_eq(v->u64(&old, FN_FIELD_MEM_MB), 0);
    ck_assert_ptr_null(v->annotation(&old, "k"));
    ck_assert_ptr_null(v->extension(&old, "zone"));
    ck_assert_uint_eq(count_pairs(v, &old, FN_PAIRS_CONFIG), 0);
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    bool waits = decide_n < (int)wait_first;

    (void)inst;
    look(ask->call);
    decide_n++;
    ret->verdict = waits ? FN_WAIT : FN_TRY;
    ret->wait_ns = ENV_S;
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    (void)inst;
    look(what->call);
    observe_n++;
}

static const struct fn_placer_ops placer_ops = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER), 0, 0,
                                                 decide, observe, NULL, NULL };

static int shadow_decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    (void)inst;
    look(ask->call);
    shadow_n++;
    ret->verdict = FN_TRY;
    return 0;
}

static const struct fn_placer_ops shadow_ops = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER), 0, 0,
                                                 shadow_decide, NULL, NULL, NULL };

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    (void)inst;
    look(call);
    before_n++;
    return refuses && before_n == 2 ? err_set(reterr, FN_E_PERMISSION, "no") : 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    (void)inst;
    (void)end;
    look(call);
    after_n++;
}

static const struct fn_listener_ops listener_ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
};

static int pool_start(void *inst, struct fn_error *reterr)
{
    (void)inst;
    (void)reterr;
    return 0;
}

static int route(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    (void)inst;
    look(call);
    route_n++;
    ck_assert_uint_gt(cap, sizeof(FN_GROUP_DEFAULT));
    memcpy(ret_group, FN_GROUP_DEFAULT, sizeof(FN_GROUP_DEFAULT));
    return 0;
}

static void pool_stop(void *inst, void (*done)(void *ud), void *ud)
{
    (void)inst;
    done(ud);
}

static const struct fn_pool_ops routing_ops = { FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL),
                                                pool_start, route, NULL, pool_stop };

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    const struct fn_edit_if *e = fake_plugin_table("fn.edit");
    char plain[65];
    struct fn_kv kv;

    (void)inst;
    (void)reterr;
    memcpy(plain, e->text(edit, FN_TEXT_SLOT_HASH), sizeof(plain));
    ck_assert_int_eq(e->set_u64(edit, FN_FIELD_MEM_MB, 256), 0);
    ck_assert_int_eq(e->set_u64(edit, FN_FIELD_CPU_MILLI, 250), 0);
    ck_assert_int_eq(e->set_extension(edit, "zone", "a"), 0);
    ck_assert_str_ne(e->text(edit, FN_TEXT_SLOT_HASH), plain); /* of the call as it is now */
    ck_assert_str_eq(e->text(edit, FN_TEXT_TRIGGER_ID), "");
    ck_assert_int_eq(e->pair(edit, FN_PAIRS_EXTENSIONS, 0, &kv), 0);
    ck_assert_str_eq(kv.key, "zone");
    ck_assert_str_eq(kv.value, "a");
    ck_assert_int_eq(e->pair(edit, FN_PAIRS_EXTENSIONS, 1, &kv), FN_E_RANGE);
    ck_assert_int_eq(e->pair(edit, FN_PAIRS_ANNOTATIONS, 0, &kv), 0);
    ck_assert_str_eq(kv.key, "k");
    return FN_CHANGED;
}

static const struct fn_override_ops override_ops = { FN_HDR(struct fn_override_ops,
                                                            FN_MAGIC_OVERRIDE),
                                                     apply };

static void setup(void)
{
    lb_opts = (struct lb_options){ .placement_timeout_ns = 10 * ENV_S,
                                   .detached_placement_timeout_ns = 10 * ENV_S,
                                   .response_buffer_bytes = 65536,
                                   .detached = 1 };
    fixture_api = false;
    lb_setup();
    PUBLISH("r1:1");
    fake_plugin_init(PLACER, "placer", &placer_ops, NULL);
    fake_plugin_init(SHADOW, "shadow", &shadow_ops, NULL);
    fake_plugin_init(LISTENER, "listener", &listener_ops, NULL);
    fake_plugin_init(REFUSER, "listener", &listener_ops, NULL);
    ck_assert_int_eq(place_set_placer(place, PLACER, NULL, NULL), 0);
    ck_assert_int_eq(place_set_shadow(place, SHADOW, 1000, NULL, NULL), 0);
    chain = (struct chain){ .listeners = listeners, .n_listeners = 1 };
    lb_set_plugins(lb, &chain);
    type = "sync";
    trigger = "";
    method = "POST";
    extended = refuses = false;
    wait_first = 0;
    before_n = decide_n = shadow_n = observe_n = route_n = after_n = 0;
    slot_hash[0] = '\0';
}

static struct client *invoke(void)
{
    return send_request("POST", "/invoke/" FN_HELLO, "x", "X-Tenant", "blue", "Fn-Invoke-Type",
                        type, NULL);
}

static void end_well(struct client *c)
{
    struct engage_attempt *a = fake_engage_last(&fe);

    fake_attempt_start(a, 200, NULL);
    fake_attempt_data(a, "y", 1);
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    if (!strcmp(type, "sync")) {
        ck_assert_int_eq(c->status, 200);
    }
}

/* The client's memory is gone when its answer is out: the last ones read what travelled. */
START_TEST(everybody_sees_the_call)
{
    struct client *c = invoke();

    ck_assert_str_eq(fake_engage_last(&fe)->slot_hash_id, slot_hash);
    end_well(c);
    ck_assert_int_eq(before_n, 1);
    ck_assert_int_eq(decide_n, 1);
    ck_assert_int_eq(shadow_n, 1);
    ck_assert_int_eq(observe_n, 1);
    ck_assert_int_eq(after_n, 1);
    client_free(c);
}
END_TEST

START_TEST(a_trigger_has_its_client)
{
    struct client *c;

    trigger = "T1";
    method = "GET";
    c = TRIGGER("X-Tenant", "blue");
    end_well(c);
    ck_assert_int_eq(after_n, 1);
    client_free(c);
}
END_TEST

START_TEST(with_what_overriders_made_of_it)
{
    struct client *c;

    fake_plugin_init(REFUSER, "overrider", &override_ops, NULL);
    overriders[0] = REFUSER;
    chain.overriders = overriders;
    chain.n_overriders = 1;
    extended = true;
    c = invoke();
    ck_assert_str_eq(fake_engage_last(&fe)->slot_hash_id, "");
    end_well(c);
    ck_assert_int_eq(shadow_n, 1);
    ck_assert_int_eq(after_n, 1);
    client_free(c);
}
END_TEST

/* Also while it waits for a runner, and when the one that waits was replaced meanwhile. */
START_TEST(without_a_client)
{
    struct client *c;

    type = "detached";
    wait_first = 1;
    c = invoke();
    ck_assert_int_eq(decide_n, 1);
    client_gone(c);
    if (_i) {
        ck_assert_int_eq(place_set_placer(place, PLACER, NULL, NULL), 0);
    }
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_int_eq(decide_n, 2);
    end_well(c);
    ck_assert_int_eq(after_n, 1);
    client_free(c);
}
END_TEST

START_TEST(a_refused_call)
{
    struct client *c;

    chain.n_listeners = 2;
    refuses = true;
    c = invoke();
    ck_assert_int_ge(c->status, 400);
    ck_assert_int_eq(before_n, 2);
    ck_assert_int_eq(after_n, 1);
    ck_assert_uint_eq(fe.attempts_made, 0);
    client_free(c);
}
END_TEST

START_TEST(an_aborted_call)
{
    struct client *c = invoke();

    client_gone(c);
    ck_assert_int_eq(after_n, 1);
    client_free(c);
}
END_TEST

START_TEST(a_pool_routes_by_it)
{
    struct fn_error e = ERR_INIT;
    struct client *c;

    fake_plugin_init(REFUSER, "pool", &routing_ops, NULL);
    ck_assert_int_eq(place_switch_pool(place, REFUSER, NULL, NULL, &e), 0);
    wait_first = UINT32_MAX >> 1; /* it has published nothing */
    c = invoke();
    ck_assert_int_eq(route_n, 1);
    client_gone(c);
    client_free(c);
}
END_TEST

Suite *view_suite(void)
{
    Suite *s = suite_create("lb view");
    TCase *tc = tcase_create("view");

    tcase_add_checked_fixture(tc, setup, lb_teardown);
    tcase_add_test(tc, everybody_sees_the_call);
    tcase_add_test(tc, a_trigger_has_its_client);
    tcase_add_test(tc, with_what_overriders_made_of_it);
    tcase_add_loop_test(tc, without_a_client, 0, 2);
    tcase_add_test(tc, a_refused_call);
    tcase_add_test(tc, an_aborted_call);
    tcase_add_test(tc, a_pool_routes_by_it);
    suite_add_tcase(s, tc);
    return s;
}
