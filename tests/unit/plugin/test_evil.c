/* Files that must not reach this process: each is refused with its sentence, in the trial or before,
 * and none of its code ran here. Each test runs in a process of its own. */
#include "../lib/skip.h"
#include "../lib/sanitized.h"
#include "testing.h"

#include <elf.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <plugin/plugin_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct refusal {
    const char *file;
    int code;
    const char *id;
    const char *text;
};

#define FORBIDDEN                                                                                  \
    "made a forbidden system call in the trial (while it was loaded): started a process or "       \
    "touched another one; expected none before create()"

static const struct refusal refusals[] = {
    { "e01_ctor_crashes", FN_E_INTERNAL, "PLG911",
      "crashed in the trial (while it was loaded): SIGSEGV, Segmentation fault" },
    { "e02_ctor_loops", FN_E_DEADLINE, "PLG912",
      "did not load within 1000 ms in the trial (while it was loaded); expected constructors that "
      "return" },
    { "e03_ctor_exits", FN_E_INTERNAL, "PLG913",
      "ended the trial process (while it was loaded) with exit code 0; expected a plugin that never "
      "ends its process" },
    { "e03_ctor_exits_hard", FN_E_INTERNAL, "PLG913",
      "ended the trial process (while it was loaded) with exit code 0; expected a plugin that never "
      "ends its process" },
    { "e04_no_entry", FN_E_INVALID, "PLG907",
      "exports no fn_plugin_v1; expected FN_PLUGIN_DEFINE in one of its source files" },
    { "e04_wrong_kind", FN_E_UNIMPLEMENTED, "PLG907",
      "teapot/e04: unknown kind; expected one of placer, pool, control-plane, overrider, driver, "
      "predictor, listener, operator" },
    { "l01_needs_library", FN_E_PERMISSION, "PLG906",
      "needs library \"libevil-helper.so\"; expected the C library, libstdc++, libcrypto, "
      "libjansson, or a name in plugins.libraries" },
    { "l02_runpath", FN_E_PERMISSION, "PLG906",
      "brings a search path for libraries (DT_RUNPATH); expected none" },
    { "l03_execstack", FN_E_PERMISSION, "PLG906", "asks for an executable stack; expected none" },
    { "l04_textrel", FN_E_PERMISSION, "PLG906",
      "needs relocations of its code; expected position independent code (-fPIC)" },
    { "l05_unique", FN_E_PERMISSION, "PLG906",
      "shares symbol \"evil_shared\" with the whole process (GNU unique); expected none, link with a "
      "version script that exports fn_plugin_v1 alone" },
    { "l06_ifunc", FN_E_PERMISSION, "PLG906",
      "chooses a function by code that runs while it is linked (IFUNC); expected none" },
    { "l07_interpose", FN_E_PERMISSION, "PLG906",
      "asks the linker for special treatment (flags 0x401); expected none but NOW and NODELETE" },
    { "l08_undefined", FN_E_INVALID, "PLG908", "undefined symbol: SSL_free; try ldd on it" },
    { "l09_ctor_forks", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l13_tkill", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l13_sigqueue", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l13_tgsigqueue", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l13_prlimit", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l13_getfd", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l13_umount", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l13_move_mount", FN_E_PERMISSION, "PLG911", FORBIDDEN },
    { "l10_huge", FN_E_INVALID, "PLG908",
      "failed to map segment from shared object; it asks for more memory than a plugin may have" },
    { "l12_static_tls", FN_E_INVALID, "PLG908",
      "cannot allocate memory in static TLS block; build it without -ftls-model=initial-exec" },
    { "l11_entry_crashes", FN_E_INTERNAL, "PLG911",
      "crashed in the trial (while fn_plugin_v1() ran): SIGBUS, Bus error" },
};

#define REFUSALS_N ((int)(sizeof(refusals) / sizeof(refusals[0])))

static struct plugin_host *host_with_trial(const struct plugin_policy *more)
{
    struct plugin_host *h = plugin_host_create(NULL);
    struct plugin_policy policy = *more;
    struct fn_error e = ERR_INIT;

    policy.trial = true;
    policy.probe = policy.probe ? policy.probe : getenv("FND_PROBE");
    ck_assert_msg(plugin_host_policy(h, &policy, &e) == 0, "%s", e.msg);
    return h;
}

static const char *evil_path(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/evil/%s.so", getenv("FND_SAMPLES"), name);
    return path;
}

/* Some containers allow no system call filter: the trial is weaker there, and says nothing of it. */
static bool has_filters(void)
{
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) < 0 && errno == EFAULT;
}

START_TEST(refused)
{
    const struct refusal *r = &refusals[_i];
    struct plugin_policy policy = { .trial_timeout_ns = 30 * ENV_S };
    struct plugin_host *h;
    struct plugin_file *f = NULL;
    struct buf lines = BUF_INIT(0);
    char wanted[1024];

    if (SANITIZED && strcmp(r->file, "l10_huge") == 0) {
        SKIP("a sanitizer needs terabytes of addresses: no limit there");
    }
    if (strcmp(r->text, FORBIDDEN) == 0 && !has_filters()) {
        SKIP("no filter of system calls is allowed here");
    }
    if (strcmp(r->id, "PLG912") == 0) {
        policy.trial_timeout_ns = ENV_S;
    }
    h = host_with_trial(&policy);
    ck_assert_int_eq(plugin_file_check(h, evil_path(r->file), NULL, &f, &lines, NULL), r->code);
    snprintf(wanted, sizeof(wanted), "%s %s: %s\n", r->id, evil_path(r->file), r->text);
    ck_assert_str_eq(buf_text(&lines), wanted);
    buf_finish(&lines);
    plugin_host_destroy(h);
}
END_TEST

START_TEST(a_declared_library_is_allowed)
{
    const char *const libraries[] = { "libother.so", "libevil-helper.so" };
    struct plugin_policy policy = { .libraries = { libraries, 2 } };
    struct plugin_host *h = host_with_trial(&policy);
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;

    /* It is not where the linker looks, and the linker is what says so. */
    ck_assert_int_lt(plugin_file_open(h, evil_path("l01_needs_library"), &f, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.msg, "PLG908"));
    ck_assert_ptr_nonnull(strstr(e.msg, "libevil-helper.so: cannot open shared object file"));
    plugin_host_destroy(h);
}
END_TEST

/* Neither the node's environment nor a way around the filter; of the latter only where there is one. */
START_TEST(a_trial_has_nothing_of_the_node)
{
    struct plugin_policy policy = { .trial_timeout_ns = 30 * ENV_S };
    struct plugin_host *h;
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;

    if (!has_filters()) {
        SKIP("no filter of system calls is allowed here");
    }
    ck_assert_int_eq(setenv("FND_TEST_SECRET", "x", 1), 0);
    h = host_with_trial(&policy);
    ck_assert_msg(plugin_file_open(h, evil_path("l14_ctor_looks"), &f, &e) == 0, "%s", e.msg);
    plugin_host_destroy(h);
}
END_TEST

START_TEST(a_good_file_passes_once)
{
    struct plugin_policy policy = { 0 };
    struct plugin_host *h = host_with_trial(&policy);
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;

    /* Passes the trial, not the check of its tables. */
    ck_assert_int_lt(plugin_file_open(h, sample_path("manifest-null"), &f, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.msg, "PLG909"));
    ck_assert_msg(plugin_file_open(h, sample_path("good"), &f, &e) == 0, "%s", e.msg);
    /* Now no trial is possible any more, and none is needed for the first two. */
    policy.probe = "/nowhere/fnd-plugprobe";
    policy.trial = true;
    ck_assert_int_eq(plugin_host_policy(h, &policy, &e), 0);
    ck_assert_int_lt(plugin_file_open(h, sample_copy("manifest-null"), &f, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.msg, "PLG909"));
    ck_assert_int_eq(plugin_file_open(h, sample_path("good-tail"), &f, &e), FN_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.msg, "PLG920"));
    ck_assert_ptr_nonnull(strstr(e.msg, ": no trial is possible: /nowhere/fnd-plugprobe: No such "
                                        "file or directory; expected"));
    plugin_host_destroy(h);
}
END_TEST

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;

    for (; *name; name++) {
        h = h * 33 + (unsigned char)*name;
    }
    return h;
}

/* A table of names that is sound for fn_plugin_v1, which is not in it, and leads elsewhere for
 * another name that the host looks for then: the trial must meet it first. */
START_TEST(the_trial_looks_for_what_the_host_looks_for)
{
    struct plugin_policy policy = { 0 };
    struct plugin_host *h = host_with_trial(&policy);
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;
    size_t len;
    char *file = read_file(sample_path("good"), &len);
    const Elf64_Ehdr *eh = (const Elf64_Ehdr *)(void *)file;
    const Elf64_Shdr *sh = (const Elf64_Shdr *)(void *)(file + eh->e_shoff);
    uint32_t hash = gnu_hash("fn_plugin_v3");
    uint32_t *table; /* buckets, first symbol, words, shift; the words; the buckets */
    uint64_t *words;
    char path[512];

    while (sh->sh_type != SHT_GNU_HASH) {
        sh++;
    }
    table = (uint32_t *)(void *)(file + sh->sh_offset);
    words = (uint64_t *)(void *)(table + 4);
    memset(words, 0, table[2] * sizeof(*words));
    words[hash / 64 % table[2]] = 1ull << hash % 64 | 1ull << (hash >> table[3]) % 64;
    for (uint32_t i = 0; i < table[0]; i++) {
        ((uint32_t *)(void *)(words + table[2]))[i] = 0x7ffffff0;
    }
    snprintf(path, sizeof(path), "%s/names.so", temp_dir());
    write_file(path, file, len, 0755);
    ck_assert_int_lt(plugin_file_open(h, path, &f, &e), 0);
    /* Crashed, or, where a sanitizer takes the signal, ended. */
    ck_assert_msg(strstr(e.msg, "(while fn_plugin_v1() ran)") != NULL, "%s", e.msg);
    free(file);
    plugin_host_destroy(h);
}
END_TEST

START_TEST(the_trial_inherits_nothing)
{
    struct plugin_policy policy = { 0 };
    struct plugin_host *h;
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;
    const char *path = sample_copy("good");
    char probe[512];
    char script[1024];
    char *seen;
    size_t len;

    /* A probe of our own: a program that it starts lists its descriptors, so that those that the
     * shell keeps for itself are not in the way; then all is well. */
    snprintf(probe, sizeof(probe), "%s/probe", temp_dir());
    snprintf(script, sizeof(script),
             "#!/bin/sh\nls /proc/self/fd > %s/lines\ntr '\\n' ' ' < %s/lines > %s/fds\n"
             "printf 'done\\n' >&4\n",
             temp_dir(), temp_dir(), temp_dir());
    write_file(probe, script, strlen(script), 0755);
    policy.probe = probe;
    ck_assert_int_ge(dup(1), 0); /* without CLOEXEC */
    h = host_with_trial(&policy);
    ck_assert_msg(plugin_file_open(h, path, &f, &e) == 0, "%s", e.msg);
    snprintf(probe, sizeof(probe), "%s/fds", temp_dir());
    seen = read_file(probe, &len);
    seen[len - 1] = '\0';
    ck_assert_str_eq(seen, "0 1 2 3 4 5"); /* 5: the folder that ls reads */
    free(seen);
    plugin_host_destroy(h);
}
END_TEST

TCase *evil_tests(void)
{
    TCase *t = tcase_create("evil");

    tcase_add_loop_test(t, refused, 0, REFUSALS_N);
    tcase_add_test(t, a_declared_library_is_allowed);
    tcase_add_test(t, a_trial_has_nothing_of_the_node);
    tcase_add_test(t, a_good_file_passes_once);
    tcase_add_test(t, the_trial_inherits_nothing);
    tcase_add_test(t, the_trial_looks_for_what_the_host_looks_for);
    return t;
}
