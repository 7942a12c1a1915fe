/* Words of a plugin: what one of them writes and lets pass is no word of the one behind it. */
#include "../lib/fake_plugin.h"

#include <check.h>
#include <model/call.h>
#include <override/chain.h>
#include <override/override.h>
#include <string.h>

/* The first one writes a refusal and lets pass, the second one refuses without a word. */
static struct plugin wordy, silent;
static struct plugin *plugins[2] = { &wordy, &silent };

static int speak(const void *inst, struct fn_error *reterr)
{
    if (inst == &silent) {
        return FN_E_UNAVAILABLE;
    }
    reterr->http_status = 418;
    reterr->retry_after_ns = 7;
    strcpy(reterr->msg, "words of the first one");
    return 0;
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    (void)edit;
    return speak(inst, reterr);
}

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    (void)call;
    return speak(inst, reterr);
}

static const struct fn_override_ops override_ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE), .apply = apply
};
static const struct fn_listener_ops listener_ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER), .before = before
};

static void check_words(const struct fn_error *e)
{
    ck_assert_int_eq(e->code, FN_E_UNAVAILABLE);
    ck_assert_str_eq(e->msg, "");
    ck_assert_int_ne(e->http_status, 418);
    ck_assert_int_eq(e->retry_after_ns, 0);
}

START_TEST(each_overrider_has_its_own)
{
    struct call call = { 0 };
    struct kvs extensions = { 0 };
    struct fn_error e = ERR_INIT;

    fake_plugin_init(&wordy, "wordy", &override_ops, &wordy);
    fake_plugin_init(&silent, "silent", &override_ops, &silent);
    ck_assert_int_eq(override_apply(plugins, 2, OVERRIDE_AT_LB, &call, &extensions, &e),
                     FN_E_UNAVAILABLE);
    check_words(&e);
}
END_TEST

START_TEST(each_listener_has_its_own)
{
    const struct chain chain = { .listeners = plugins, .n_listeners = 2 };
    struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL) };
    struct fn_error e = ERR_INIT;
    uint32_t passed;

    fake_plugin_init(&wordy, "wordy", &listener_ops, &wordy);
    fake_plugin_init(&silent, "silent", &listener_ops, &silent);
    ck_assert_int_eq(chain_before(&chain, &call, &passed, &e), FN_E_UNAVAILABLE);
    ck_assert_uint_eq(passed, 1);
    check_words(&e);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("words");
    TCase *t = tcase_create("words");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_test(t, each_overrider_has_its_own);
    tcase_add_test(t, each_listener_has_its_own);
    suite_add_tcase(s, t);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
