/* The sealed copy, hashes, signatures, where plugins lie, and what tools are told of a file. */
#include "testing.h"

#include <base/metric.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <plugin/plugin_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tools/fnkit/check.h>
#include <unistd.h>

static const char *temp_path(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *p = paths[next++ % 4];

    snprintf(p, sizeof(paths[0]), "%s/%s", temp_dir(), name);
    return p;
}

static struct plugin_file *open_good(struct plugin_host *h, const char *path)
{
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;

    ck_assert_msg(plugin_file_open(h, path, &f, &e) == 0, "%s", e.msg);
    return f;
}

/* Opens and expects exactly these lines. */
static void expect_lines(struct plugin_host *h, const char *path, const char *pin, int code,
                         const char *wanted)
{
    struct plugin_file *f = NULL;
    struct buf lines = BUF_INIT(0);

    ck_assert_int_eq(plugin_file_check(h, path, pin, &f, &lines, NULL), code);
    ck_assert_str_eq(buf_text(&lines), wanted);
    buf_finish(&lines);
}

/* ---- the copy -------------------------------------------------------------------------------- */

START_TEST(what_runs_cannot_be_changed)
{
    struct plugin_host *h = plugin_host_create(NULL);
    const char *path = sample_copy("good");
    struct plugin_file *f = open_good(h, path);
    const struct fn_factory *factory;

    ck_assert_int_eq(fcntl(f->fd, F_GET_SEALS),
                     F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    ck_assert_int_lt(pwrite(f->fd, "x", 1, 0), 0);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_lt(ftruncate(f->fd, 0), 0);
    /* Overwriting the file, even to nothing, changes nothing that runs. */
    write_file(path, "", 0, 0755);
    factory = plugin_file_factory(f, "placer", "sample");
    factory->destroy(NULL);
    ck_assert_str_eq(plugin_file_manifest(f)->version, "1.2.3");
    ck_assert_int_eq(unlink(path), 0);
    plugin_host_destroy(h);
}
END_TEST

START_TEST(two_hosts_have_two_copies)
{
    struct plugin_host *a = plugin_host_create(NULL);
    struct plugin_host *b = plugin_host_create(NULL);
    struct plugin_file *fa = open_good(a, sample_path("good"));
    struct plugin_file *fb = open_good(b, sample_path("good"));

    ck_assert_ptr_ne(fa->handle, fb->handle);
    ck_assert_ptr_ne(plugin_file_factory(fa, "placer", "sample")->destroy,
                     plugin_file_factory(fb, "placer", "sample")->destroy);
    ck_assert_str_eq(plugin_file_sha256(fa), plugin_file_sha256(fb));
    plugin_host_destroy(a);
    plugin_host_destroy(b);
}
END_TEST

START_TEST(addresses_have_names)
{
    struct plugin_host *h = plugin_host_create(NULL);
    struct plugin_file *f = open_good(h, sample_path("good"));
    const struct plugin_mapping *m;
    char line[512];
    bool found = false;
    void *code;
    FILE *maps;

    memcpy(&code, &plugin_file_factory(f, "placer", "sample")->destroy, sizeof(code));
    m = plugin_mapping_at(code);
    ck_assert_ptr_nonnull(m);
    ck_assert_str_eq(m->path, plugin_file_path(f));
    ck_assert_str_eq(m->version, "1.2.3");
    ck_assert_ptr_null(plugin_mapping_at(&maps));
    memcpy(&code, &(void *){ (void *)plugin_host_create }, sizeof(code));
    ck_assert_ptr_null(plugin_mapping_at(code));
    maps = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof(line), maps)) {
        found = found || strstr(line, "/memfd:good.so");
    }
    fclose(maps);
    ck_assert(found);
    plugin_host_destroy(h);
}
END_TEST

/* ---- hashes ---------------------------------------------------------------------------------- */

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

START_TEST(pinned_hash)
{
    struct plugin_host *h = plugin_host_create(NULL);
    const char *path = sample_path("good");
    unsigned char hash[32];
    char upper[65];
    char own[65];
    char wanted[1024];
    size_t len;
    char *data = read_file(path, &len);

    ck_assert_int_eq(EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL), 1);
    free(data);
    for (int i = 0; i < 32; i++) {
        snprintf(own + 2 * i, 3, "%02x", hash[i]);
        snprintf(upper + 2 * i, 3, "%02X", hash[i]);
    }
    unsetenv("FND_TEST_CONSTRUCTOR");
    snprintf(wanted, sizeof(wanted), "PLG903 %s: sha256 %s; expected " ZEROS "\n", path, own);
    expect_lines(h, path, ZEROS, FN_E_PERMISSION, wanted);
    ck_assert_ptr_null(getenv("FND_TEST_CONSTRUCTOR")); /* before any code ran */
    expect_lines(h, path, upper, 0, "");
    expect_lines(h, path, own, 0, "");
    /* One that is open already must be the right one too. */
    expect_lines(h, path, ZEROS, FN_E_PERMISSION, wanted);
    ck_assert_str_eq(plugin_file_sha256(open_good(h, path)), own);
    plugin_host_destroy(h);
}
END_TEST

/* ---- signatures ------------------------------------------------------------------------------ */

static EVP_PKEY *make_key(const char *type, const char *path)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, type);
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(key);
    ck_assert_int_eq(PEM_write_PUBKEY(f, key), 1);
    fclose(f);
    ck_assert_int_eq(chmod(path, 0644), 0);
    return key;
}

static void sign(EVP_PKEY *key, const char *path, bool base64)
{
    unsigned char sig[64];
    unsigned char text[96];
    char name[600];
    size_t sig_len = sizeof(sig);
    size_t len;
    char *data = read_file(path, &len);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    ck_assert_int_eq(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key), 1);
    ck_assert_int_eq(EVP_DigestSign(ctx, sig, &sig_len, (unsigned char *)data, len), 1);
    EVP_MD_CTX_free(ctx);
    free(data);
    snprintf(name, sizeof(name), "%s.sig", path);
    if (base64) {
        EVP_EncodeBlock(text, sig, 64);
        text[88] = '\n';
        write_file(name, text, 89, 0644);
    } else {
        write_file(name, sig, 64, 0644);
    }
}

/* Without the signature that another test left. */
static const char *unsigned_copy(const char *sample)
{
    const char *path = sample_copy(sample);
    char name[600];

    snprintf(name, sizeof(name), "%s.sig", path);
    unlink(name);
    return path;
}

static void policy_of(struct plugin_host *h, const char *const *keys, uint32_t n, bool refused)
{
    struct plugin_policy policy = { .keys = { keys, n },
                                    .unsigned_files = refused ? "refuse" : "allow" };
    struct fn_error e = ERR_INIT;

    ck_assert_msg(plugin_host_policy(h, &policy, &e) == 0, "%s", e.msg);
}

START_TEST(signatures)
{
    struct plugin_host *h = plugin_host_create(NULL);
    const char *keys[] = { temp_path("other.pem"), temp_path("ops.pem") };
    EVP_PKEY *other = make_key("ED25519", keys[0]);
    EVP_PKEY *ops = make_key("ED25519", keys[1]);
    EVP_PKEY *stranger = make_key("ED25519", temp_path("stranger.pem"));
    const char *path = unsigned_copy("good");
    char sig[600];
    char wanted[1500];

    snprintf(sig, sizeof(sig), "%s.sig", path);
    policy_of(h, keys, 2, true);
    unsetenv("FND_TEST_CONSTRUCTOR");
    snprintf(wanted, sizeof(wanted),
             "PLG918 %s: is not signed, got no file %s; expected a signature by one of the 2 keys of "
             "plugins.keys, or plugins.unsigned: allow\n",
             path, sig);
    expect_lines(h, path, NULL, FN_E_PERMISSION, wanted);
    sign(stranger, path, false);
    snprintf(wanted, sizeof(wanted),
             "PLG918 %s: signature %s is not one of this file; expected one by one of the 2 keys of "
             "plugins.keys\n",
             path, sig);
    expect_lines(h, path, NULL, FN_E_PERMISSION, wanted);
    write_file(sig, "not a signature\n", 16, 0644);
    snprintf(wanted, sizeof(wanted),
             "PLG918 %s: signature %s, got 16 bytes; expected 64 bytes, or these in base64\n", path,
             sig);
    expect_lines(h, path, NULL, FN_E_PERMISSION, wanted);
    ck_assert_ptr_null(getenv("FND_TEST_CONSTRUCTOR"));

    sign(ops, path, true);
    ck_assert_str_eq(plugin_file_signature(open_good(h, path)), "signed by ops.pem");
    ck_assert_uint_eq(plugin_tainted(), 0);
    path = unsigned_copy("create-fails");
    sign(other, path, false);
    /* The same factory a second time, after the signature was good. */
    snprintf(wanted, sizeof(wanted), "PLG916 %s: placer/sample: already offered by %s/good.so; expected another name\n", path,
             temp_dir());
    expect_lines(h, path, NULL, FN_E_EXISTS, wanted);
    EVP_PKEY_free(other);
    EVP_PKEY_free(ops);
    EVP_PKEY_free(stranger);
    plugin_host_destroy(h);
}
END_TEST

START_TEST(unsigned_but_allowed)
{
    struct plugin_host *h = plugin_host_create(NULL);
    const char *key = temp_path("ops.pem");
    EVP_PKEY *ops = make_key("ED25519", key);
    EVP_PKEY *stranger = make_key("ED25519", temp_path("stranger.pem"));
    const char *path = unsigned_copy("good");
    const char *bad = unsigned_copy("good-tail");
    struct buf out = BUF_INIT(0);
    char wanted[1500];

    policy_of(h, &key, 1, false);
    sign(stranger, bad, false);
    snprintf(wanted, sizeof(wanted),
             "PLG918 %s: signature %s.sig is not one of this file; expected one by the key %s\n", bad,
             bad, key);
    expect_lines(h, bad, NULL, FN_E_PERMISSION, wanted); /* allow is no word for a wrong one */
    ck_assert_uint_eq(plugin_tainted(), 0);
    ck_assert_str_eq(plugin_file_signature(open_good(h, path)), "not signed");
    ck_assert_uint_eq(plugin_tainted(), 1);
    ck_assert_int_eq(metric_print(&out), 0);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "\nfn_plugin_tainted 1\n"));
    buf_finish(&out);
    EVP_PKEY_free(ops);
    EVP_PKEY_free(stranger);
    plugin_host_destroy(h);
}
END_TEST

/* A reload may bring other rules for what runs already. */
START_TEST(open_files_are_judged_by_new_rules)
{
    struct plugin_host *h = plugin_host_create(NULL);
    const char *key = temp_path("ops.pem");
    EVP_PKEY *ops = make_key("ED25519", key);
    const char *path = unsigned_copy("good");
    struct plugin_file *f = open_good(h, path);
    char wanted[1500];

    ck_assert_str_eq(plugin_file_signature(f), "signature not looked at");
    plugin_host_again(h);
    policy_of(h, &key, 1, true);
    snprintf(wanted, sizeof(wanted),
             "PLG918 %s: is not signed, got no file %s.sig; expected a signature by the key %s, or "
             "plugins.unsigned: allow\n",
             path, path, key);
    expect_lines(h, path, NULL, FN_E_PERMISSION, wanted);
    ck_assert_uint_eq(plugin_tainted(), 0);
    policy_of(h, &key, 1, false);
    ck_assert_ptr_eq(open_good(h, path), f);
    ck_assert_uint_eq(plugin_tainted(), 1);
    sign(ops, path, false);
    policy_of(h, &key, 1, true);
    ck_assert_ptr_eq(open_good(h, path), f);
    ck_assert_str_eq(plugin_file_signature(f), "signed by ops.pem");
    ck_assert_uint_eq(plugin_tainted(), 1); /* it was; its code ran */
    EVP_PKEY_free(ops);
    plugin_host_destroy(h);
}
END_TEST

static void expect_judged(const struct plugin *p, int code, const char *word)
{
    struct buf lines = BUF_INIT(0);

    ck_assert_int_eq(plugin_judge(p, &lines), code);
    ck_assert_msg(strstr(buf_text(&lines), word) && (*word || lines.len == 0), "%s",
                  buf_text(&lines));
    buf_finish(&lines);
}

/* What lies at its path meanwhile is another file, whose signature says nothing of what runs. */
START_TEST(instances_that_stay_are_judged_by_new_rules)
{
    struct plugin_host *h = plugin_host_create(NULL);
    const char *key = temp_path("ops.pem");
    EVP_PKEY *ops = make_key("ED25519", key);
    const char *path = unsigned_copy("good");
    struct plugin p = { .owner = h, .file = open_good(h, path) };

    policy_of(h, NULL, 0, true);
    expect_judged(&p, 0, "");
    policy_of(h, &key, 1, true);
    expect_judged(&p, FN_E_PERMISSION, "is not signed, got no file");
    policy_of(h, NULL, 0, true);
    expect_judged(&p, 0, "");
    sign(ops, path, false);
    policy_of(h, &key, 1, true);
    expect_judged(&p, 0, "");
    write_file(path, "an update", 9, 0755);
    sign(ops, path, false);
    policy_of(h, &key, 1, true);
    expect_judged(&p, 0, "");
    EVP_PKEY_free(ops);
    ops = make_key("ED25519", key); /* in the same file */
    policy_of(h, &key, 1, true);
    expect_judged(&p, FN_E_PERMISSION, "is not one of this file");
    EVP_PKEY_free(ops);
    plugin_host_destroy(h);
}
END_TEST

START_TEST(keys_that_are_none)
{
    struct plugin_host *h = plugin_host_create(NULL);
    const char *key = temp_path("key.pem");
    struct plugin_policy policy = { .keys = { &key, 1 } };
    struct fn_error e = ERR_INIT;
    char wanted[600];

    ck_assert_int_eq(plugin_host_policy(h, &policy, &e), FN_E_INVALID);
    snprintf(wanted, sizeof(wanted), "PLG918 %s: key: No such file or directory", key);
    ck_assert_str_eq(e.msg, wanted);
    write_file(key, "hello\n", 6, 0644);
    ck_assert_int_eq(plugin_host_policy(h, &policy, &e), FN_E_INVALID);
    snprintf(wanted, sizeof(wanted),
             "PLG918 %s: key, got no public key; expected a PEM file with an Ed25519 public key", key);
    ck_assert_str_eq(e.msg, wanted);
    EVP_PKEY_free(make_key("X25519", key));
    ck_assert_int_eq(plugin_host_policy(h, &policy, &e), FN_E_INVALID);
    snprintf(wanted, sizeof(wanted),
             "PLG918 %s: key, got X25519; expected a PEM file with an Ed25519 public key", key);
    ck_assert_str_eq(e.msg, wanted);
    EVP_PKEY_free(make_key("ED25519", key));
    ck_assert_int_eq(chmod(key, 0664), 0);
    ck_assert_int_eq(plugin_host_policy(h, &policy, &e), FN_E_INVALID);
    snprintf(wanted, sizeof(wanted),
             "PLG902 %s: key is writable by group, got mode 0664; expected no write right for group "
             "and others",
             key);
    ck_assert_str_eq(e.msg, wanted);
    ck_assert_int_eq(chmod(key, 0644), 0);
    ck_assert_int_eq(plugin_host_policy(h, &policy, &e), 0);
    plugin_host_destroy(h);
}
END_TEST

/* ---- advice: what fnkit reads of the file ---------------------------------------------------- */

static void collect(void *ud, const struct report_result *one)
{
    buf_printf(ud, "%s: %s\n", one->name, one->text);
}

START_TEST(advice)
{
    struct plugin_host *h = plugin_host_create(NULL);
    struct plugin_file *f = NULL;
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    struct symbols s = { 0 };

    ck_assert_int_eq(plugin_file_open(h, sample_path("good"), &f, &e), 0);
    ck_assert_int_eq(symbols_read(sample_path("good"), &s, &e), 0);
    check_lint(sample_path("good"), f, collect, &out);
    if (!s.sanitized) { /* else nothing can be said */
        ck_assert_ptr_nonnull(strstr(buf_text(&out), "setenv (the state of the process belongs to "
                                                     "the host)"));
        ck_assert_ptr_nonnull(strstr(buf_text(&out), "instance_memory"));
    }
    ck_assert_ptr_null(strstr(buf_text(&out), "malloc"));
    ck_assert_ptr_null(strstr(buf_text(&out), "factories"));
    symbols_finish(&s);
    write_file(temp_path("text.so"), "hello", 5, 0644);
    ck_assert_int_eq(symbols_read(temp_path("text.so"), &s, &e), FN_E_INVALID);
    ck_assert_ptr_nonnull(strstr(e.msg, "PLG906"));
    ck_assert_int_lt(symbols_read("/nowhere", &s, &e), 0);
    buf_clear(&out);
    check_lint(temp_path("text.so"), f, collect, &out);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "PLG906"));
    buf_finish(&out);
    plugin_host_destroy(h);
}
END_TEST

TCase *sealed_tests(void)
{
    TCase *t = tcase_create("sealed");

    tcase_add_test(t, what_runs_cannot_be_changed);
    tcase_add_test(t, two_hosts_have_two_copies);
    tcase_add_test(t, addresses_have_names);
    tcase_add_test(t, pinned_hash);
    tcase_add_test(t, signatures);
    tcase_add_test(t, unsigned_but_allowed);
    tcase_add_test(t, open_files_are_judged_by_new_rules);
    tcase_add_test(t, instances_that_stay_are_judged_by_new_rules);
    tcase_add_test(t, keys_that_are_none);
    tcase_add_test(t, advice);
    return t;
}
