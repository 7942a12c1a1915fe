/* Who is believed to be whom: certificates, names, lists, protocols. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

Suite *peers_suite(void);

static struct authority ca, other;
static struct pair node, client;
static struct net_identity *port; /* of the server, unless a test has another */
static struct net_identity *caller;

static void setup(void)
{
    rig_start();
    authority_make(&ca, "test-ca");
    authority_make(&other, "test-ca"); /* the same name */
    node = pair_make(&ca, "node-1", "IP:127.0.0.1,DNS:runner-1.test,URI:spiffe://fnd/runner-1", -1,
                     10);
    client = pair_make(&ca, "lb-1", "DNS:lb-1.test,URI:spiffe://fnd/lb-1", -1, 10);
    port = identity_of(&node, ca.pem, NULL, NULL);
    caller = identity_of(&client, ca.pem, NULL, NULL);
}

static void teardown(void)
{
    rig_stop();
    net_identity_unref(port);
    net_identity_unref(caller);
    pair_free(&node);
    pair_free(&client);
    authority_free(&ca);
    authority_free(&other);
}

/* The server end is gone or never came to be. */
static void expect_no_server(void)
{
    ck_assert(!rig.server.io);
}

START_TEST(both_know_whom_they_talk_to)
{
    char name[64];

    rig_listen(NULL, port, NULL);
    rig_connect(caller);
    ck_assert(net_io_peer_identity(rig.server.io, name, sizeof(name)));
    ck_assert_str_eq(name, "spiffe://fnd/lb-1");
    ck_assert(net_io_peer_identity(rig.client.io, name, sizeof(name)));
    ck_assert_str_eq(name, "spiffe://fnd/runner-1");
    ck_assert(net_io_peer_identity(rig.client.io, name, 5));
    ck_assert_str_eq(name, ""); /* half a name is none */
}
END_TEST

START_TEST(a_server_has_the_name_that_was_dialled)
{
    struct net_tls named = { .cert_pem = client.cert,
                             .key_pem = client.key,
                             .ca_pem = ca.pem,
                             .server_name = "runner-1.test" };
    struct net_identity *i;

    ck_assert_int_eq(net_identity_create(&named, &i, NULL), 0);
    rig_listen(NULL, port, NULL);
    rig_refused(caller, "runner-2.test", "hostname mismatch");
    rig_refused(caller, "node-1", "hostname mismatch"); /* a common name is none */
    rig_refused(caller, "127.0.0.2", "IP address mismatch");
    expect_no_server();
    rig_dial(rig.address, caller, "runner-1.test", NULL, 20000);
    UNTIL(rig.dialled);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    end_close(&rig.client);
    rig_connect(i);
    rig_refused(i, "127.0.0.2", "IP address mismatch"); /* what the dial says counts */
    net_identity_unref(i);
}
END_TEST

START_TEST(a_client_shows_a_certificate_where_one_is_demanded)
{
    struct net_identity *bare = identity_of(NULL, ca.pem, NULL, NULL);
    struct net_identity *open = identity_of(&node, NULL, NULL, NULL);
    char name[64];

    rig_listen(NULL, port, NULL);
    rig_refused(bare, NULL, "certificate required");
    expect_no_server();
    net_listener_close(rig.listener);
    rig_listen(NULL, open, NULL);
    rig_connect(bare);
    ck_assert(!net_io_peer_identity(rig.server.io, name, sizeof(name)));
    net_identity_unref(bare);
    net_identity_unref(open);
}
END_TEST

START_TEST(strangers_and_expired_ones_are_refused)
{
    struct pair old = pair_make(&ca, "lb-1", "IP:127.0.0.1", -5, -1);
    struct pair early = pair_make(&ca, "lb-1", "IP:127.0.0.1", 1, 5);
    struct pair strange = pair_make(&other, "lb-1", "IP:127.0.0.1", -1, 10);
    const struct pair *bad[] = { &old, &early, &strange };
    static const char *const by_server[] = { "expired", "certificate", "unknown ca" };
    static const char *const by_client[] = { "certificate has expired",
                                             "certificate is not yet valid", "certificate" };

    for (int i = 0; i < 3; i++) {
        struct net_identity *mine = identity_of(bad[i], ca.pem, NULL, NULL);

        rig_listen(NULL, port, NULL);
        rig_refused(mine, NULL, i == 2 ? "" : by_server[i]);
        net_listener_close(rig.listener);
        rig_listen(NULL, mine, NULL);
        rig_refused(caller, NULL, by_client[i]);
        net_listener_close(rig.listener);
        rig.listener = NULL;
        expect_no_server();
        net_identity_unref(mine);
    }
    pair_free(&old);
    pair_free(&early);
    pair_free(&strange);
}
END_TEST

START_TEST(the_revoked_are_refused)
{
    char *of_client = list_make(&ca, client.serial, 5);
    char *of_node = list_make(&ca, node.serial, 5);
    char *of_nobody = list_make(&ca, -1, 5);
    char *stale = list_make(&ca, -1, -1);
    char *foreign = list_make(&other, -1, 5);
    struct net_identity *strict = identity_of(&node, ca.pem, of_client, NULL);
    struct net_identity *stale_port = identity_of(&node, ca.pem, stale, NULL);
    struct net_identity *careful = identity_of(&client, ca.pem, of_node, NULL);
    struct net_identity *fine = identity_of(&client, ca.pem, of_nobody, NULL);
    struct net_identity *unsure = identity_of(&client, ca.pem, foreign, NULL);

    rig_listen(NULL, port, NULL);
    rig_refused(careful, NULL, "certificate revoked");
    rig_refused(unsure, NULL, "certificate was refused");
    rig_connect(fine);
    net_listener_close(rig.listener);
    end_close(&rig.server);
    rig_listen(NULL, strict, NULL);
    rig_refused(caller, NULL, "certificate revoked");
    net_listener_close(rig.listener);
    rig_listen(NULL, stale_port, NULL);
    rig_refused(caller, NULL, ""); /* a list that has ended tells nothing */
    expect_no_server();
    net_identity_unref(strict);
    net_identity_unref(stale_port);
    net_identity_unref(careful);
    net_identity_unref(fine);
    net_identity_unref(unsure);
    free(of_client);
    free(of_node);
    free(of_nobody);
    free(stale);
    free(foreign);
}
END_TEST

START_TEST(only_peers_are_talked_to)
{
    struct net_identity *lbs = identity_of(&node, ca.pem, NULL, "spiffe://fnd/lb-*");
    struct net_identity *runners = identity_of(&client, ca.pem, NULL, "spiffe://fnd/runner-*");
    struct net_identity *npms = identity_of(&client, ca.pem, NULL, "spiffe://fnd/npm-*");
    char name[64];

    rig_listen(NULL, lbs, NULL);
    rig_refused(npms, NULL, "TLS805");
    expect_no_server();
    rig_connect(runners);
    ck_assert(net_io_peer_allowed(rig.server.io, name, sizeof(name)));
    ck_assert_str_eq(name, "spiffe://fnd/lb-1");
    net_listener_close(rig.listener);
    end_close(&rig.server);
    end_close(&rig.client);
    rig_listen(NULL, npms, NULL); /* as a port: the owner asks, the handshake does not */
    rig_dial(rig.address, caller, "lb-1.test", NULL, 20000);
    UNTIL(rig.server.io);
    ck_assert(!net_io_peer_allowed(rig.server.io, name, sizeof(name)));
    ck_assert_str_eq(name, "spiffe://fnd/lb-1");
    UNTIL(rig.dialled);
    ck_assert(net_identity_has_peer(npms, "spiffe://fnd/npm-1"));
    ck_assert(!net_identity_has_peer(npms, "spiffe://fnd/npm-1/x"));
    ck_assert(net_identity_has_peer(port, "anybody"));
    net_identity_unref(lbs);
    net_identity_unref(runners);
    net_identity_unref(npms);
}
END_TEST

START_TEST(the_protocol_is_demanded_by_both)
{
    rig_listen(NULL, port, "h2");
    rig_dial(rig.address, caller, NULL, "h2", 20000);
    UNTIL(rig.dialled && rig.server.io);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    end_close(&rig.server);
    rig_refused(caller, NULL, "");
    end_close(&rig.client);
    rig_dial(rig.address, caller, NULL, "h3", 20000);
    UNTIL(rig.dialled);
    ck_assert_msg(strstr(rig.error, "no application protocol"), "%s", rig.error);
    expect_no_server();
    net_listener_close(rig.listener);
    rig_listen(NULL, port, NULL);
    rig_dial(rig.address, caller, NULL, "h2", 20000);
    UNTIL(rig.dialled);
    ck_assert_msg(strstr(rig.error, "does not speak \"h2\""), "%s", rig.error);
}
END_TEST

START_TEST(a_renewed_identity_is_for_the_next_handshake)
{
    struct pair later = pair_make(&ca, "node-2", "IP:127.0.0.1,URI:spiffe://fnd/runner-2", -1, 10);
    struct net_tls fresh = { .cert_pem = later.cert, .key_pem = later.key, .ca_pem = ca.pem };
    struct net_tls bad = { .cert_pem = later.cert, .key_pem = node.key, .ca_pem = ca.pem };
    struct net_tls plain = { 0 };
    struct end old_client, old_server;
    char name[64];

    rig_listen(NULL, port, NULL);
    rig_connect(caller);
    old_client = rig.client;
    old_server = rig.server;
    rig.client = rig.server = (struct end){ 0 };
    end_take(&old_client, old_client.io);
    end_take(&old_server, old_server.io);
    ck_assert_int_eq(net_identity_renew(port, &bad, NULL), FN_E_INVALID);
    ck_assert_int_eq(net_identity_renew(port, &plain, NULL), FN_E_INVALID);
    rig_connect(caller);
    net_io_peer_identity(rig.client.io, name, sizeof(name));
    ck_assert_str_eq(name, "spiffe://fnd/runner-1");
    ck_assert_int_eq(net_identity_renew(port, &fresh, NULL), 0);
    rig_connect(caller);
    net_io_peer_identity(rig.client.io, name, sizeof(name));
    ck_assert_str_eq(name, "spiffe://fnd/runner-2");
    net_io_peer_identity(old_client.io, name, sizeof(name));
    ck_assert_str_eq(name, "spiffe://fnd/runner-1");
    end_send(&old_client, "alive", 5);
    UNTIL(old_server.in.len == 5);
    end_close(&old_client);
    end_close(&old_server);
    pair_free(&later);
}
END_TEST

START_TEST(texts_that_are_nothing_are_refused)
{
    static const char junk[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    const struct net_tls bad[] = {
        { .cert_pem = junk, .key_pem = node.key },
        { .cert_pem = node.cert, .key_pem = junk },
        { .cert_pem = node.cert },
        { .cert_pem = node.cert, .key_pem = client.key },
        { .ca_pem = junk },
        { .ca_pem = "" },
        { .ca_pem = ca.pem, .crl_pem = ca.pem },
    };
    struct net_identity *i;

    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        struct fn_error e = ERR_INIT;

        ck_assert_int_eq(net_identity_create(&bad[k], &i, &e), FN_E_INVALID);
        ck_assert_msg(strncmp(e.msg, "TLS: ", 5) == 0, "%s", e.msg);
    }
    ck_assert_int_eq(net_identity_create(&(struct net_tls){ 0 }, &i, NULL), 0);
    ck_assert(net_identity_is_plain(i));
    net_identity_unref(i);
}
END_TEST

/* An authority alone is enough to call others, not to be called. */
START_TEST(a_port_needs_a_certificate)
{
    struct net_identity *bare = identity_of(NULL, ca.pem, NULL, NULL);
    struct net_listen_config config = { .name = "test", .address = "127.0.0.1:0", .identity = bare };
    struct net_listener *l;

    ck_assert_int_eq(net_listen(rig.loop, &config, NULL, NULL, &l, NULL), FN_E_INVALID);
    net_identity_unref(bare);
}
END_TEST

Suite *peers_suite(void)
{
    Suite *s = suite_create("peers");
    TCase *c = tcase_create("peers");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, both_know_whom_they_talk_to);
    tcase_add_test(c, a_server_has_the_name_that_was_dialled);
    tcase_add_test(c, a_client_shows_a_certificate_where_one_is_demanded);
    tcase_add_test(c, strangers_and_expired_ones_are_refused);
    tcase_add_test(c, the_revoked_are_refused);
    tcase_add_test(c, only_peers_are_talked_to);
    tcase_add_test(c, the_protocol_is_demanded_by_both);
    tcase_add_test(c, a_renewed_identity_is_for_the_next_handshake);
    tcase_add_test(c, texts_that_are_nothing_are_refused);
    tcase_add_test(c, a_port_needs_a_certificate);
    suite_add_tcase(s, c);
    return s;
}
