/* "fn.rpc" over raw calls of the test: what a plugin is told of their ends. */
#include <rpc/plugin_rpc.h>

#include <base/err.h>
#include <check.h>
#include <fake_env.h>
#include <fake_plugin.h>
#include <rpc/rpc_int.h>
#include <stdlib.h>

/* ---- one raw call ---------------------------------------------------------------------------- */

static const struct rpc_raw_cb *started;
static void *started_ud;

int rpc_channel_open(struct rpc *r, const char *address, struct net_identity *identity,
                     const char *tls_name, struct rpc_channel **ret, struct fn_error *reterr)
{
    (void)r;
    (void)address;
    (void)identity;
    (void)tls_name;
    (void)reterr;
    *ret = NULL;
    return 0;
}

void rpc_channel_close(struct rpc_channel *ch)
{
    (void)ch;
}

int rpc_raw_start(struct rpc_channel *ch, const char *method, const void *message, size_t len,
                  int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
                  struct fn_error *reterr)
{
    (void)ch;
    (void)method;
    (void)message;
    (void)len;
    (void)deadline_ns;
    (void)reterr;
    started = cb;
    started_ud = ud;
    *ret = NULL;
    return 0;
}

void rpc_raw_close(struct rpc_raw *c)
{
    (void)c;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static uint32_t ends;
static int32_t code;

static void on_message(void *ud, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
}

static void on_end(void *ud, int32_t end_code, const char *text)
{
    (void)ud;
    (void)text;
    ends++;
    code = end_code;
}

/* A server may answer with any number; a plugin compares with FN_E_*. */
START_TEST(a_status_that_is_none_is_unknown)
{
    static const struct fn_rpc_cb cb = { FN_HDR(struct fn_rpc_cb, 0), on_message, on_end };
    static const struct {
        int status;
        int32_t code;
    } rows[] = {
        { 0, 0 },
        { 1, FN_E_CANCELLED },
        { 16, FN_E_UNAUTHENTICATED },
        { 17, FN_E_UNKNOWN },
        { 999999, FN_E_UNKNOWN },
    };
    struct fake_env *f = fake_env_create();
    struct rpc rpc = { .env = &f->env };
    struct plugin_rpc *p = NULL;
    struct plugin plugin;
    struct fn_error e = ERR_INIT;
    const struct fn_rpc_if *table;
    struct fn_rpc_call call = { .size = sizeof(call), .method = "/a.B/C" };
    uint64_t id;

    fake_plugin_init(&plugin, "pool", NULL, NULL);
    ck_assert_int_eq(plugin_rpc_create(&rpc, NULL, NULL, NULL, &p, &e), 0);
    table = fake_plugin_table("fn.rpc");
    ck_assert_int_eq(table->open(&plugin.host, "unix:/x", NULL, &call.channel, &e), 0);
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(table->call(&plugin.host, &call, &cb, NULL, &id, &e), 0);
        started->end(started_ud, rows[i].status, "");
        ck_assert_uint_eq(ends, i + 1);
        ck_assert_int_eq(code, rows[i].code);
    }
    table->close(&plugin.host, call.channel);
    plugin_rpc_destroy(p);
    fake_env_destroy(f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rpc_plugin");
    TCase *t = tcase_create("ends");
    SRunner *sr;
    int failed;

    tcase_add_test(t, a_status_that_is_none_is_unknown);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
