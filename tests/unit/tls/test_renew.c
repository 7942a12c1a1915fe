/* Certificates that are renewed while there is no memory, at one place after the other: the old
 * ones stay in force, and the next look takes the new ones, although their files did not change
 * since. */
#include "../lib/fake_env.h"
#include "../lib/poor.h"
#include "../net/certs.h"

#include <admin/admin.h>
#include <base/metric.h>
#include <check.h>
#include <fcntl.h>
#include <http/server.h>
#include <net/net_int.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tls/node_tls.h>
#include <unistd.h>

/* ---- memory of OpenSSL, which fails as the node's does --------------------------------------- */

static void *ssl_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return malloc(size);
}

static void *ssl_realloc(void *p, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return realloc(p, size);
}

static void ssl_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    free(p);
}

/* ---- gRPC, which takes what it is given, or not ---------------------------------------------- */

struct rpc_side {
    unsigned asked, refuses;
    char cert[4096]; /* taken last */
};

static struct rpc_side rpc_client_side, rpc_server_side;

int __wrap_rpc_renew_client(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr);
int __wrap_rpc_renew_server(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr);

static int renew(struct rpc_side *side, const struct net_tls *tls, struct fn_error *reterr)
{
    side->asked++;
    if (side->refuses > 0) {
        side->refuses--;
        return err_set(reterr, FN_E_EXHAUSTED, "TLS: out of memory");
    }
    snprintf(side->cert, sizeof(side->cert), "%s", tls->cert_pem);
    return 0;
}

int __wrap_rpc_renew_client(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr)
{
    (void)r;
    return renew(&rpc_client_side, tls, reterr);
}

int __wrap_rpc_renew_server(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr)
{
    (void)r;
    return renew(&rpc_server_side, tls, reterr);
}

/* ---- a node with one entry ------------------------------------------------------------------- */

static struct {
    char dir[32], cert[64], key[64], ca[64];
    struct authority authority;
    struct pair pairs[2];
    int64_t stamp_s;
    struct fake_env *env;
    struct node_tls tls;
} fx;

static void write_file(const char *path, const char *text)
{
    const struct timespec times[2] = { { .tv_sec = fx.stamp_s }, { .tv_sec = fx.stamp_s } };
    FILE *f = fopen(path, "w");

    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
    ck_assert(chmod(path, 0600) == 0 && utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void write_pair(const struct pair *p)
{
    fx.stamp_s++; /* the clock of a file system may stand still between two renewals */
    write_file(fx.cert, p->cert);
    write_file(fx.key, p->key);
}

static void open_node(bool of_web)
{
    static struct config_tls entry;
    static struct http_port http;
    static struct rpc_port grpc;
    static struct admin_options admin;
    static struct config c;
    struct fn_error e = ERR_INIT;

    entry = (struct config_tls){ .name = "web", .cert = fx.cert, .key = fx.key, .ca = fx.ca,
                                 .server_name = "node" };
    http = (struct http_port){ .tls = of_web ? "web" : NULL };
    grpc = (struct rpc_port){ .server_tls = of_web ? NULL : "web",
                              .client_tls = of_web ? NULL : "web" };
    admin = (struct admin_options){ 0 };
    c = (struct config){ .http = &http, .grpc = &grpc, .admin = &admin, .tls = &entry, .n_tls = 1 };
    ck_assert_msg(node_tls_open(&fx.tls, &fx.env->env, &c, &e) == 0, "%s", e.msg);
}

static void setup(void)
{
    memset(&fx, 0, sizeof(fx));
    strcpy(fx.dir, "/tmp/fnd-renew-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fx.dir));
    snprintf(fx.cert, sizeof(fx.cert), "%s/cert.pem", fx.dir);
    snprintf(fx.key, sizeof(fx.key), "%s/key.pem", fx.dir);
    snprintf(fx.ca, sizeof(fx.ca), "%s/ca.pem", fx.dir);
    fx.stamp_s = 1000000000;
    fx.env = fake_env_create();
    fx.env->wall = (int64_t)time(NULL) * ENV_S;
    authority_make(&fx.authority, "authority");
    for (int i = 0; i < 2; i++) {
        fx.pairs[i] = pair_make(&fx.authority, "node", "DNS:node", -1, 60);
    }
    write_file(fx.ca, fx.authority.pem);
    write_pair(&fx.pairs[0]);
    rpc_client_side = rpc_server_side = (struct rpc_side){ 0 };
}

static void teardown(void)
{
    node_tls_close(&fx.tls);
    fake_env_destroy(fx.env);
    pair_free(&fx.pairs[0]);
    pair_free(&fx.pairs[1]);
    authority_free(&fx.authority);
    unlink(fx.cert);
    unlink(fx.key);
    unlink(fx.ca);
    rmdir(fx.dir);
}

/* Of those that one renewal makes, some twenty thousand, most are of OpenSSL's tables of ciphers. */
#define EACH   300 /* these one by one */
#define STRIDE 97

/* Of the certificate that the next client is shown. */
static long serial_in_force(void)
{
    SSL_CTX *ctx = fx.tls.web.identity->server;

    return ASN1_INTEGER_get(X509_get0_serialNumber(SSL_CTX_get0_certificate(ctx)));
}

START_TEST(a_renewal_without_memory_is_tried_again)
{
    const struct pair *old = &fx.pairs[0];
    bool hit = true;
    unsigned n;

    open_node(true);
    ck_assert_int_eq(serial_in_force(), old->serial);
    for (n = 1; hit; n += n < EACH ? 1 : STRIDE) {
        const struct pair *next = old == &fx.pairs[0] ? &fx.pairs[1] : &fx.pairs[0];

        write_pair(next);
        poor_begin(n);
        node_tls_look(&fx.tls);
        hit = poor_end();
        ck_assert_int_eq(serial_in_force() == next->serial,
                         strcmp(fx.tls.web.files.cert_pem, next->cert) == 0);
        node_tls_look(&fx.tls);
        ck_assert_msg(serial_in_force() == next->serial, "allocation %u is never made up for", n);
        ck_assert_str_eq(fx.tls.web.files.cert_pem, next->cert);
        old = next;
    }
    ck_assert_uint_gt(n, EACH);
}
END_TEST

START_TEST(so_is_one_that_grpc_has_no_memory_for)
{
    const struct pair *next = &fx.pairs[1];

    open_node(false);
    fx.tls.rpc = (struct rpc *)&fx; /* only handed on */
    node_tls_look(&fx.tls);
    ck_assert_uint_eq(rpc_server_side.asked, 0); /* nothing changed */
    write_pair(next);
    rpc_client_side.refuses = rpc_server_side.refuses = 2;
    for (unsigned look = 1; look <= 2; look++) {
        node_tls_look(&fx.tls);
        ck_assert_uint_eq(rpc_server_side.asked, look);
        ck_assert_str_eq(fx.tls.server.files.cert_pem, fx.pairs[0].cert);
        ck_assert_str_eq(fx.tls.client.files.cert_pem, fx.pairs[0].cert);
    }
    node_tls_look(&fx.tls);
    ck_assert_uint_eq(rpc_server_side.asked, 3);
    ck_assert_str_eq(rpc_server_side.cert, next->cert);
    ck_assert_str_eq(fx.tls.server.files.cert_pem, next->cert);
    ck_assert_str_eq(fx.tls.client.files.cert_pem, next->cert);
    node_tls_look(&fx.tls);
    ck_assert_uint_eq(rpc_server_side.asked, 3); /* once is enough */
}
END_TEST

/* What one side refuses is in force at the other, and tried again at the first alone. */
START_TEST(a_side_that_refuses_holds_up_no_other)
{
    struct rpc_side *poor = _i ? &rpc_client_side : &rpc_server_side;
    struct rpc_side *well = _i ? &rpc_server_side : &rpc_client_side;
    const struct node_tls_side *old = _i ? &fx.tls.client : &fx.tls.server;
    const struct node_tls_side *fresh = _i ? &fx.tls.server : &fx.tls.client;

    open_node(false);
    fx.tls.rpc = (struct rpc *)&fx; /* only handed on */
    write_pair(&fx.pairs[1]);
    poor->refuses = 2;
    for (unsigned look = 1; look <= 2; look++) {
        node_tls_look(&fx.tls);
        ck_assert_uint_eq(poor->asked, look);
        ck_assert_uint_eq(well->asked, 1);
        ck_assert_str_eq(well->cert, fx.pairs[1].cert);
        ck_assert_str_eq(fresh->files.cert_pem, fx.pairs[1].cert);
        ck_assert_str_eq(old->files.cert_pem, fx.pairs[0].cert);
    }
    node_tls_look(&fx.tls);
    ck_assert_str_eq(poor->cert, fx.pairs[1].cert);
    ck_assert_uint_eq(well->asked, 1);
}
END_TEST

/* SIGHUP while a runner waits for its engine: gRPC is not watched yet. */
START_TEST(a_look_before_grpc_is_there_takes_nothing)
{
    open_node(false);
    write_pair(&fx.pairs[1]);
    node_tls_look(&fx.tls);
    ck_assert_str_eq(fx.tls.server.files.cert_pem, fx.pairs[0].cert);
    node_tls_watch(&fx.tls, (struct rpc *)&fx);
    fake_env_advance(fx.env, NODE_TLS_POLL_NS);
    ck_assert_str_eq(rpc_server_side.cert, fx.pairs[1].cert);
    ck_assert_str_eq(rpc_client_side.cert, fx.pairs[1].cert);
    ck_assert_str_eq(fx.tls.server.files.cert_pem, fx.pairs[1].cert);
}
END_TEST

#define NAMES 10

static struct config_tls names[NAMES];

static void make_names(void)
{
    static const char *const texts[NAMES] = { "p0", "p1", "p2", "p3", "p4",
                                              "p5", "p6", "p7", "p8", "p9" };

    for (int i = 0; i < NAMES; i++) {
        names[i] = (struct config_tls){ .name = texts[i], .cert = fx.cert, .key = fx.key };
    }
}

/* A reload to a configuration with these entries, each of which a plugin names. */
static void reload_to(struct config *c, const struct config_tls *tls, uint32_t n)
{
    c->tls = tls;
    c->n_tls = n;
    node_tls_try(&fx.tls, c);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_msg(node_tls_find(&fx.tls, tls[i].name), "%s is not found", tls[i].name);
    }
    node_tls_apply(&fx.tls, c);
    node_tls_try(&fx.tls, NULL);
    node_tls_look(&fx.tls);
}

static uint32_t entries_in_use(const char **ret_last)
{
    const struct node_tls_side *side;
    uint32_t n = 0;

    for (uint32_t i = 0; (side = node_tls_next(&fx.tls, &i)); n++) {
        *ret_last = side->config->name;
    }
    return n;
}

static bool page_has(const char *text)
{
    struct buf page = BUF_INIT(0);
    bool has;

    ck_assert_int_eq(metric_print(&page), 0);
    has = strstr(buf_text(&page), text) != NULL;
    buf_finish(&page);
    return has;
}

START_TEST(an_entry_goes_with_the_plugin_that_named_it)
{
    struct config configs[2] = { { 0 } };
    struct net_identity *of_connection = NULL;
    const char *last = NULL;

    make_names();
    open_node(true);
    reload_to(&configs[0], names, NAMES);
    ck_assert_uint_eq(entries_in_use(&last), 1 + NAMES);
    for (uint32_t i = 0; i < NAMES; i++) {
        reload_to(&configs[i % 2], &names[i], 1);
        ck_assert_uint_eq(entries_in_use(&last), 2);
        ck_assert_str_eq(last, names[i].name);
    }
    of_connection = net_identity_ref(node_tls_find(&fx.tls, "p9"));
    reload_to(&configs[0], NULL, 0);
    ck_assert_uint_eq(entries_in_use(&last), 2);
    ck_assert(page_has("tls=\"p9\"") && !page_has("tls=\"p8\""));
    net_identity_unref(of_connection);
    node_tls_look(&fx.tls);
    ck_assert_uint_eq(entries_in_use(&last), 1);
    ck_assert(page_has("tls=\"web\"") && !page_has("tls=\"p9\""));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tls_renew");
    TCase *t = tcase_create("tls_renew");
    SRunner *r;
    int failures;

    if (CRYPTO_set_mem_functions(ssl_malloc, ssl_realloc, ssl_free) != 1) {
        fprintf(stderr, "OpenSSL has memory already\n");
        return EXIT_FAILURE;
    }
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_renewal_without_memory_is_tried_again);
    tcase_add_test(t, so_is_one_that_grpc_has_no_memory_for);
    tcase_add_loop_test(t, a_side_that_refuses_holds_up_no_other, 0, 2);
    tcase_add_test(t, a_look_before_grpc_is_there_takes_nothing);
    tcase_add_test(t, an_entry_goes_with_the_plugin_that_named_it);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
