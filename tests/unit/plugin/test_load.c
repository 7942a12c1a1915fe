/* Every refusal of the loader with its sentence. Each test runs in a process of its own. */
#include "../lib/skip.h"
#include "testing.h"

#include <dlfcn.h>
#include <plugin/plugin_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct plugin_host *host_with_offers(void)
{
    struct plugin_host *h = plugin_host_create(NULL);

    plugin_host_offer(h, "fn.wake", 1, 0, "table", NULL);
    return h;
}

/* Opens and expects "<id> <path>: <text>". */
static void expect(const char *path, int code, const char *id, const char *text)
{
    struct plugin_host *h = host_with_offers();
    struct plugin_file *f = NULL;
    struct buf lines = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    char wanted[1024];
    int r;

    unsetenv("FND_TEST_CONSTRUCTOR");
    r = plugin_file_check(h, path, NULL, &f, &lines, &e);
    snprintf(wanted, sizeof(wanted), "%s %s: %s\n", id, path, text);
    ck_assert_str_eq(buf_text(&lines), wanted);
    ck_assert_int_eq(r, code);
    ck_assert_int_eq(e.code, code);
    ck_assert_ptr_null(f);
    wanted[strlen(wanted) - 1] = '\0';
    ck_assert_int_eq(strncmp(e.msg, wanted, sizeof(e.msg) - 8), 0);
    buf_finish(&lines);
    plugin_host_destroy(h);
}

/* No code of the file may have run. */
static void expect_unrun(const char *path, int code, const char *id, const char *text)
{
    expect(path, code, id, text);
    ck_assert_ptr_null(getenv("FND_TEST_CONSTRUCTOR"));
}

/* ---- the file itself ------------------------------------------------------------------------- */

static const char *temp_path(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", temp_dir(), name);
    return path;
}

START_TEST(missing_file)
{
    expect(temp_path("nothing.so"), FN_E_NOT_FOUND, "PLG901", "No such file or directory");
    expect("/nowhere/at/all/x.so", FN_E_NOT_FOUND, "PLG901", "No such file or directory");
}
END_TEST

START_TEST(directory)
{
    ck_assert_int_eq(mkdir(temp_path("dir.so"), 0755), 0);
    expect(temp_path("dir.so"), FN_E_INVALID, "PLG901", "is a directory; expected a regular file");
}
END_TEST

START_TEST(symbolic_link)
{
    const char *path = temp_path("link.so");

    ck_assert_int_eq(symlink(sample_path("good"), path), 0);
    expect_unrun(path, FN_E_INVALID, "PLG901", "is a symbolic link; expected a regular file");
}
END_TEST

START_TEST(fifo)
{
    const char *path = temp_path("fifo.so");

    ck_assert_int_eq(mkfifo(path, 0644), 0);
    expect(path, FN_E_INVALID, "PLG901", "is not a regular file; expected a regular file");
}
END_TEST

START_TEST(writable_file)
{
    const char *path = sample_copy("good");

    chmod(path, 0777);
    expect_unrun(path, FN_E_PERMISSION, "PLG902",
                 "the file is writable by everybody, got mode 0777; expected no write right for "
                 "group and others");
    chmod(path, 0775);
    expect_unrun(path, FN_E_PERMISSION, "PLG902",
                 "the file is writable by group, got mode 0775; expected no write right for group "
                 "and others");
}
END_TEST

START_TEST(writable_directory)
{
    char dir[512];
    char path[600];
    char text[700];
    size_t len;
    char *data = read_file(sample_path("good"), &len);

    snprintf(dir, sizeof(dir), "%s/open", temp_dir());
    snprintf(path, sizeof(path), "%s/good.so", dir);
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    write_file(path, data, len, 0755);
    free(data);
    chmod(dir, 0777);
    snprintf(text, sizeof(text),
             "its directory %s is writable by everybody, got mode 0777; expected no write right "
             "for group and others",
             dir);
    expect_unrun(path, FN_E_PERMISSION, "PLG902", text);
}
END_TEST

/* Whoever may rename a directory further up can put another file in our path. */
START_TEST(writable_directory_above)
{
    char top[512];
    char dir[600];
    char path[700];
    char text[900];
    size_t len;
    char *data = read_file(sample_path("good"), &len);

    snprintf(top, sizeof(top), "%s/top", temp_dir());
    snprintf(dir, sizeof(dir), "%s/below", top);
    snprintf(path, sizeof(path), "%s/good.so", dir);
    ck_assert_int_eq(mkdir(top, 0755), 0);
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    write_file(path, data, len, 0755);
    free(data);
    chmod(top, 0775);
    snprintf(text, sizeof(text),
             "the directory %s is writable by group, got mode 0775; expected no write right for group "
             "and others",
             top);
    expect_unrun(path, FN_E_PERMISSION, "PLG902", text);
    if (geteuid() == 0) {
        chmod(top, 0755);
        ck_assert_int_eq(chown(top, 12345, 12345), 0);
        snprintf(text, sizeof(text),
                 "the directory %s belongs to uid 12345; expected root, uid 0 of this process or the "
                 "owner of its executable",
                 top);
        expect_unrun(path, FN_E_PERMISSION, "PLG902", text);
    }
    chmod(top, 01777); /* sticky: entries of others are safe */
    ck_assert_int_eq(chown(top, geteuid(), getegid()), 0);
    chmod(dir, 0755);
    ck_assert_int_eq(
        plugin_file_open(host_with_offers(), path, &(struct plugin_file *){ NULL }, NULL), 0);
}
END_TEST

START_TEST(foreign_owner)
{
    const char *path = sample_copy("good");
    char text[256];

    if (geteuid() != 0) {
        SKIP(NOT_ROOT);
    }
    ck_assert_int_eq(chown(path, 12345, 12345), 0);
    snprintf(text, sizeof(text), "the file belongs to uid 12345; expected root, uid 0 of this "
                                 "process or the owner of its executable");
    expect_unrun(path, FN_E_PERMISSION, "PLG902", text);
    ck_assert_int_eq(chown(path, 0, 0), 0);
}
END_TEST

START_TEST(not_elf)
{
    const char *path = temp_path("text.so");

    write_file(path, "#!/bin/sh\necho hello\n", 21, 0755);
    expect(path, FN_E_INVALID, "PLG906",
           "not ELF, starts with \"#!/bin/sh\\x0aecho h\"; expected a shared object");
    write_file(path, "", 0, 0755);
    expect(path, FN_E_INVALID, "PLG906",
           "not ELF, got an empty file; expected a shared object");
    write_file(path, "\x7f""ELF", 4, 0755);
    expect(path, FN_E_INVALID, "PLG906",
           "damaged or truncated ELF file: its header needs 64 bytes and ends early, got 64; "
           "expected at most 4");
}
END_TEST

static const char *patched(const char *name, size_t at, const void *bytes, size_t n)
{
    const char *path = sample_copy(name);
    size_t len;
    char *data = read_file(path, &len);

    memcpy(data + at, bytes, n);
    write_file(path, data, len, 0755);
    free(data);
    return path;
}

#if defined(__x86_64__)
#define OTHER_MACHINE 183
#define OTHER_NAME    "aarch64"
#define OWN_NAME      "x86-64"
#else
#define OTHER_MACHINE 62
#define OTHER_NAME    "x86-64"
#define OWN_NAME      "aarch64"
#endif

START_TEST(wrong_machine)
{
    uint16_t machine = OTHER_MACHINE;
    uint16_t executable = 2;
    unsigned char word = 1;
    unsigned char big = 2;

    expect_unrun(patched("good", 18, &machine, 2), FN_E_UNIMPLEMENTED, "PLG905",
                 "wrong machine, got " OTHER_NAME "; expected " OWN_NAME);
    machine = 0x7777;
    expect_unrun(patched("good", 18, &machine, 2), FN_E_UNIMPLEMENTED, "PLG905",
                 "wrong machine, got machine 30583; expected " OWN_NAME);
    expect_unrun(patched("good", 4, &word, 1), FN_E_UNIMPLEMENTED, "PLG905",
                 "wrong machine, got 32 bits; expected " OWN_NAME " with 64 bits");
    expect_unrun(patched("good", 5, &big, 1), FN_E_UNIMPLEMENTED, "PLG905",
                 "wrong machine, got big-endian; expected little-endian");
    expect_unrun(patched("good", 16, &executable, 2), FN_E_INVALID, "PLG906",
                 "not a shared object, got ELF type 2; expected 3");
}
END_TEST

START_TEST(truncated)
{
    const char *path = sample_copy("good");
    size_t len;
    char *data = read_file(path, &len);
    char text[256];

    write_file(path, data, len - 1, 0755);
    free(data);
    snprintf(text, sizeof(text),
             "damaged or truncated ELF file: end of the section headers, got %zu; expected at most "
             "%zu",
             len, len - 1);
    expect_unrun(path, FN_E_INVALID, "PLG906", text);
}
END_TEST

/* ---- tables ---------------------------------------------------------------------------------- */

struct refusal {
    const char *sample;
    int code;
    const char *id;
    const char *text;
};

/* Refused by the note, before any code ran. */
static const struct refusal unrun[] = {
    { "note-major", FN_E_UNIMPLEMENTED, "PLG904", "needs plugin ABI 2.0; host offers 1.0 to 1.1" },
    { "note-newer", FN_E_UNIMPLEMENTED, "PLG904", "needs plugin ABI 1.7; host offers 1.0 to 1.1" },
    { "note-missing", FN_E_INVALID, "PLG907",
      "has no note of owner \"fnd\"; expected a plugin built with FN_PLUGIN_DEFINE" },
};

#define P "placer/sample: "
#define PLAIN "expected UTF-8 without control characters"

static const struct refusal tables[] = {
    { "no-entry", FN_E_INVALID, "PLG907",
      "exports no fn_plugin_v1; expected FN_PLUGIN_DEFINE in one of its source files" },
    { "entry-v2", FN_E_UNIMPLEMENTED, "PLG904",
      "exports fn_plugin_v2; host offers plugin ABI 1 (fn_plugin_v1)" },
    { "manifest-null", FN_E_INVALID, "PLG909",
      "fn_plugin_v1() returned NULL; expected a manifest" },
    { "manifest-foreign", FN_E_INVALID, "PLG910",
      "manifest: table lies outside of the plugin's own data" },
    { "manifest-wild", FN_E_INVALID, "PLG910",
      "manifest: table lies outside of the plugin's own data" },
    { "manifest-magic", FN_E_INVALID, "PLG910",
      "manifest: magic, got 0x12345678; expected 0x464e4d46" },
    { "manifest-small", FN_E_INVALID, "PLG910",
      "manifest: table too small, got 24 bytes; expected at least 56" },
    { "manifest-huge", FN_E_INVALID, "PLG910",
      "manifest: table size, got 2147483648 bytes; expected at most 4096 inside the plugin's own "
      "data" },
    { "manifest-zero", FN_E_INVALID, "PLG910",
      "manifest: table too small, got 0 bytes; expected at least 56" },
    { "manifest-seven", FN_E_INVALID, "PLG910",
      "manifest: table too small, got 7 bytes; expected at least 56" },
    { "manifest-short", FN_E_INVALID, "PLG910",
      "manifest: table too small, got 55 bytes; expected at least 56" },
    { "manifest-heap", FN_E_INVALID, "PLG910",
      "manifest: table lies outside of the plugin's own data" },
    { "manifest-name-heap", FN_E_INVALID, "PLG909",
      "manifest: name is not a terminated text of at most 1024 bytes" },
    { "factories-heap", FN_E_INVALID, "PLG909",
      "manifest: factories, got a pointer outside of the plugin's own data; expected a list that "
      "ends with NULL" },
    { "factory-heap", FN_E_INVALID, "PLG910",
      "factory 0: table lies outside of the plugin's own data" },
    { "factory-text-heap", FN_E_INVALID, "PLG909",
      "factory 0: summary is not a terminated text of at most 1024 bytes" },
    { "factory-zero", FN_E_INVALID, "PLG910",
      "factory 0: table too small, got 0 bytes; expected at least 96" },
    { "factory-huge", FN_E_INVALID, "PLG910",
      "factory 0: table size, got 2147483648 bytes; expected at most 4096 inside the plugin's own "
      "data" },
    { "factory-magic-zero", FN_E_INVALID, "PLG910",
      "factory 0: magic, got 0x00000000; expected 0x464e4643" },
    { "ops-heap", FN_E_INVALID, "PLG910", P "table lies outside of the plugin's own data" },
    { "ops-zero", FN_E_INVALID, "PLG910", P "table too small, got 0 bytes; expected at least 48" },
    { "ops-seven", FN_E_INVALID, "PLG910", P "table too small, got 7 bytes; expected at least 48" },
    { "ops-short", FN_E_INVALID, "PLG910",
      P "table too small, got 47 bytes; expected at least 48" },
    { "ops-huge", FN_E_INVALID, "PLG910",
      P "table size, got 2147483648 bytes; expected at most 4096 inside the plugin's own data" },
    { "manifest-major", FN_E_UNIMPLEMENTED, "PLG904",
      "manifest: needs plugin ABI 2.0; host offers 1.0 to 1.1" },
    { "manifest-newer", FN_E_UNIMPLEMENTED, "PLG904",
      "manifest: needs plugin ABI 1.3; host offers 1.0 to 1.1" },
    { "manifest-flags", FN_E_UNIMPLEMENTED, "PLG904",
      "manifest: flags, got 0x8; expected 0 or FN_PLUGIN_HAS_THREADS, built for plugin ABI 1.1; host "
      "offers 1.1" },
    { "manifest-name-null", FN_E_INVALID, "PLG909", "manifest: name is NULL; expected a text" },
    { "manifest-name-wild", FN_E_INVALID, "PLG909",
      "manifest: name is not a terminated text of at most 1024 bytes" },
    { "manifest-name-escapes", FN_E_INVALID, "PLG909",
      "manifest: name, got \"\\x1b[31mred\"; " PLAIN },
    { "manifest-version-bytes", FN_E_INVALID, "PLG909", "manifest: version, got \"1\\xff\"; " PLAIN },
    { "manifest-license-lines", FN_E_INVALID, "PLG909",
      "manifest: license, got \"one\\x0atwo\"; " PLAIN },
    { "manifest-tag-escapes", FN_E_INVALID, "PLG909",
      "manifest: build_tag, got \"\\x1b[31mred\"; " PLAIN },
    { "factory-kind-escapes", FN_E_INVALID, "PLG909",
      "factory 0: kind, got \"\\x1b[31mred\"; " PLAIN },
    { "factory-name-bytes", FN_E_INVALID, "PLG909", "factory 0: name, got \"1\\xff\"; " PLAIN },
    { "factory-summary-escapes", FN_E_INVALID, "PLG909",
      "factory 0: summary, got \"\\x1b[31mred\"; " PLAIN },
    { "opt-key-escapes", FN_E_INVALID, "PLG910",
      P "option 0: key, got no text; expected 1 to 64 of a-z, 0-9, _ and -, or NULL as the end of the "
        "list" },
    { "opt-doc-escapes", FN_E_INVALID, "PLG910", P "option limit: doc; expected one sentence" },
    { "opt-doc-bytes", FN_E_INVALID, "PLG910", P "option limit: doc; expected one sentence" },
    { "opt-default-bytes", FN_E_INVALID, "PLG910",
      P "option limit: default or choices is not a terminated text" },
    { "need-escapes", FN_E_INVALID, "PLG910",
      P "need 0: iface, got no terminated text; expected a name, or NULL as the end of the list" },
    { "manifest-tag", FN_E_UNIMPLEMENTED, "PLG905",
      "manifest: build tag, got \"ilp32-be\"; expected lp64-le" },
    { "factories-null", FN_E_INVALID, "PLG909",
      "manifest: factories, got NULL; expected a list that ends with NULL" },
    { "factories-none", FN_E_INVALID, "PLG909", "manifest: no factories; expected at least one" },
    { "factories-endless", FN_E_INVALID, "PLG909",
      "manifest: factories, got 65 entries without an end in the plugin's data; expected NULL as the "
      "end, behind at most 64" },
    { "factories-no-end", FN_E_INVALID, "PLG910",
      "factory 1 (NULL ends the list): magic, got 0x00000008; expected 0x464e4643" },
    { "factories-twice", FN_E_EXISTS, "PLG916", P "listed twice in this file" },
    { "factory-magic", FN_E_INVALID, "PLG910",
      "factory 0: magic, got 0x464e4d46; expected 0x464e4643" },
    { "factory-small", FN_E_INVALID, "PLG910",
      "factory 0: table too small, got 95 bytes; expected at least 96" },
    { "factory-kind", FN_E_UNIMPLEMENTED, "PLG907",
      "gizmo/sample: unknown kind; expected one of placer, pool, control-plane, overrider, driver, "
      "predictor, listener, operator" },
    { "factory-kind-null", FN_E_INVALID, "PLG909", "factory 0: kind is NULL; expected a text" },
    { "factory-kind-major", FN_E_UNIMPLEMENTED, "PLG904",
      P "kind_major, got 2; expected 1: it needs interface placer 2.0; host offers 1.0 to 1.0" },
    { "factory-name", FN_E_INVALID, "PLG909",
      "factory 0: name, got \"Not/Good\"; expected 1 to 32 of a-z, 0-9 and -" },
    { "factory-name-null", FN_E_INVALID, "PLG909", "factory 0: name is NULL; expected a text" },
    { "factory-conf-huge", FN_E_INVALID, "PLG910",
      P "conf_size, got 65537; expected at most 65536" },
    { "factory-caps", FN_E_UNIMPLEMENTED, "PLG904",
      P "requires capabilities 0x8; this host knows none" },
    { "create-null", FN_E_INVALID, "PLG910", P "create is NULL; expected a function" },
    { "create-data", FN_E_INVALID, "PLG910",
      P "create does not point at a function; expected a function" },
    { "ops-null", FN_E_INVALID, "PLG910", P "table is NULL; expected a table" },
    { "ops-magic", FN_E_INVALID, "PLG910", P "magic, got 0x464e1002; expected 0x464e1001" },
    { "ops-small", FN_E_INVALID, "PLG910",
      P "table too small, got 40 bytes; expected at least 48" },
    { "ops-tail", FN_E_UNIMPLEMENTED, "PLG904",
      P "built for placer 1.0 and uses byte 48 of its table of 56; this host offers 1.0 and knows 48 "
        "bytes" },
    { "ops-session", FN_E_INVALID, "PLG910", P "session_size, got 257; expected at most 256" },
    { "slot-missing", FN_E_INVALID, "PLG910",
      P "required slot decide is NULL; expected a function" },
    { "slot-data", FN_E_INVALID, "PLG910", P "slot decide does not point at a function" },
    { "slot-claim", FN_E_INVALID, "PLG910",
      "control-plane/sample: slot claim does not point at a function" },
    { "slot-pair", FN_E_INVALID, "PLG910",
      P "slot index_free is NULL, but index_build is set; expected both or neither" },
    { "opt-offset", FN_E_INVALID, "PLG910",
      P "option limit: 8 bytes at offset 16; expected an end within conf_size 16" },
    { "opt-outside", FN_E_INVALID, "PLG910",
      P "option limit: 8 bytes at offset 4294967288; expected an end within conf_size 16" },
    { "opt-reserved", FN_E_UNIMPLEMENTED, "PLG910",
      P "option limit: reserved0, got 0x1; expected 0" },
    { "opt-overlap", FN_E_INVALID, "PLG910",
      P "option other: shares bytes of its conf struct with option limit" },
    { "opt-type", FN_E_UNIMPLEMENTED, "PLG910",
      P "option limit: type, got 99; expected 1 to 7" },
    { "opt-default", FN_E_INVALID, "PLG910",
      P "option limit: default, got \"many\"; expected a whole number" },
    { "opt-default-range", FN_E_INVALID, "PLG910",
      P "option limit: default, got \"10\"; expected a value within its bounds" },
    { "opt-default-never", FN_E_INVALID, "PLG910",
      P "option limit: default, got \"never\"; expected a value within its bounds" },
    { "opt-key", FN_E_INVALID, "PLG910",
      P "option 0: key, got \"Big_Key\"; expected 1 to 64 of a-z, 0-9, _ and -" },
    { "opt-key-taken", FN_E_INVALID, "PLG910",
      P "option 0: key, got sha256; expected another one: use, file, name and sha256 are fn.yaml's "
      "own" },
    { "opt-key-twice", FN_E_INVALID, "PLG910", P "option other: listed twice" },
    { "opts-no-end", FN_E_INVALID, "PLG910",
      P "option 2: key, got no text; expected 1 to 64 of a-z, 0-9, _ and -, or NULL as the end of the "
        "list" },
    { "opt-doc", FN_E_INVALID, "PLG910", P "option limit: doc; expected one sentence" },
    { "opt-bounds", FN_E_INVALID, "PLG910", P "option limit: min 10 is above max 9" },
    { "needs-no-end", FN_E_INVALID, "PLG910",
      P "need 1: iface, got no terminated text; expected a name, or NULL as the end of the list" },
    { "needs-endless", FN_E_INVALID, "PLG910",
      P "needs, got 32 entries without an end in the plugin's data; expected an entry without iface as "
        "the end, behind at most 31" },
    { "need-unknown", FN_E_UNIMPLEMENTED, "PLG904",
      P "needs host interface \"fn.magic\" 1.0; this host has none of that name" },
    { "need-newer", FN_E_UNIMPLEMENTED, "PLG904",
      P "needs host interface fn.wake 1.4; host offers 1.0 to 1.0" },
    { "need-major", FN_E_UNIMPLEMENTED, "PLG904",
      P "needs host interface fn.wake 2.0; host offers 1.0 to 1.0" },
};

START_TEST(refused_before_code_ran)
{
    const struct refusal *r = &unrun[_i];

    expect_unrun(sample_copy(r->sample), r->code, r->id, r->text);
}
END_TEST

START_TEST(refused_tables)
{
    const struct refusal *r = &tables[_i];

    expect(sample_copy(r->sample), r->code, r->id, r->text);
}
END_TEST

/* What is not listed is called without a look. Ops are a header, two numbers where something looks
 * at their limits, and functions. */
START_TEST(each_function_of_the_ops_is_a_slot)
{
    char *names = strdup(plugin_kind_names());
    uint32_t n = 0;

    for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "), n++) {
        const struct plugin_kind *k = plugin_kind_find(name);
        uint32_t numbers = k->limits ? 2 * sizeof(uint32_t) : 0;

        ck_assert_msg(k->size == sizeof(struct fn_hdr) + numbers + k->n_slots * sizeof(void *),
                      "%s: %u slots in ops of %u bytes", name, k->n_slots, k->size);
    }
    ck_assert_uint_eq(n, 8);
    free(names);
}
END_TEST

START_TEST(all_problems_are_told)
{
    struct plugin_host *h = host_with_offers();
    const char *path = sample_copy("many-problems");
    struct buf lines = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    struct plugin_file *f = NULL;
    char wanted[2048];

    ck_assert_int_eq(plugin_file_check(h, path, NULL, &f, &lines, &e), FN_E_INVALID);
    snprintf(wanted, sizeof(wanted),
             "PLG910 %s: " P "create is NULL; expected a function\n"
             "PLG910 %s: " P "option limit: type, got 0; expected 1 to 7\n"
             "PLG910 %s: " P "required slot decide is NULL; expected a function\n"
             "PLG910 %s: " P "session_size, got 300; expected at most 256\n",
             path, path, path, path);
    ck_assert_str_eq(buf_text(&lines), wanted);
    buf_finish(&lines);
    plugin_host_destroy(h);
}
END_TEST

/* ---- good files ------------------------------------------------------------------------------ */

static void count(void *ud, const struct fn_factory *f)
{
    ck_assert_str_eq(f->kind, "placer");
    ck_assert_str_eq(f->name, "sample");
    ++*(int *)ud;
}

START_TEST(good_file)
{
    struct plugin_host *h = host_with_offers();
    const struct fn_placer_ops *ops;
    struct plugin_file *f = NULL;
    struct plugin_file *again = NULL;
    struct fn_error e = ERR_INIT;
    int n = 0;

    ck_assert_msg(plugin_file_open(h, sample_path("good"), &f, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(plugin_file_open(h, sample_path("good"), &again, &e), 0);
    ck_assert_ptr_eq(f, again);
    ck_assert_str_eq(plugin_file_manifest(f)->version, "1.2.3");
    ck_assert_ptr_null(plugin_file_factory(f, "placer", "other"));
    ck_assert_ptr_null(plugin_file_factory(f, "pool", "sample"));
    ops = plugin_file_factory(f, "placer", "sample")->ops;
    ck_assert_uint_eq(ops->session_size, 16);
    ck_assert_ptr_nonnull(ops->decide);
    ck_assert_ptr_null(ops->observe);
    plugin_file_each(f, count, &n);
    ck_assert_int_eq(n, 1);
    ck_assert_ptr_nonnull(strstr(plugin_host_summary(h), "good.so 1.2.3 placer/sample"));
    plugin_host_destroy(h);
}
END_TEST

START_TEST(newer_table_with_a_zero_tail)
{
    struct plugin_host *h = host_with_offers();
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;

    ck_assert_msg(plugin_file_open(h, sample_path("good-tail"), &f, &e) == 0, "%s", e.msg);
    ck_assert_ptr_nonnull(plugin_file_factory(f, "placer", "sample"));
    plugin_host_destroy(h);
}
END_TEST

/* A later host, whose manifest has two words more. */
START_TEST(older_table_on_a_newer_host)
{
    void *handle = dlopen(sample_path("good"), RTLD_NOW | RTLD_LOCAL);
    const struct fn_manifest *(*entry)(void);
    struct plugin_check c = { .path = "x" };
    struct {
        struct fn_manifest known;
        uint64_t added[2];
    } copy;

    ck_assert_ptr_nonnull(handle);
    *(void **)&entry = dlsym(handle, "fn_plugin_v1");
    ck_assert_int_eq(plugin_mem_create(handle, &c.mem), 0);
    memset(&copy, 0xff, sizeof(copy));
    ck_assert_int_eq(plugin_table_copy(&c, "manifest", entry(), FN_MAGIC_MANIFEST, sizeof(copy),
                                       sizeof(copy.known), &copy), 0);
    ck_assert_str_eq(copy.known.name, "sample");
    ck_assert_uint_eq(copy.added[0], 0);
    ck_assert_uint_eq(copy.added[1], 0);
    ck_assert_int_lt(plugin_table_copy(&c, "manifest", entry(), FN_MAGIC_MANIFEST, sizeof(copy),
                                       sizeof(copy), &copy), 0);
    plugin_mem_destroy(c.mem);
}
END_TEST

START_TEST(same_factory_in_two_files)
{
    struct plugin_host *h = host_with_offers();
    struct plugin_file *f = NULL;
    struct plugin_file *twin = NULL;
    struct buf lines = BUF_INIT(0);
    const char *path = sample_copy("good-tail");
    char real[512];
    char wanted[2048];

    ck_assert_int_eq(plugin_file_open(h, sample_path("good"), &f, NULL), 0);
    ck_assert_int_eq(plugin_file_check(h, path, NULL, &twin, &lines, NULL), FN_E_EXISTS);
    snprintf(real, sizeof(real), "%s", plugin_file_path(f));
    snprintf(wanted, sizeof(wanted), "PLG916 %s: " P "already offered by %s; expected another name\n", path, real);
    ck_assert_str_eq(buf_text(&lines), wanted);
    buf_finish(&lines);
    plugin_host_destroy(h);
}
END_TEST

START_TEST(file_names)
{
    char path[64];

    ck_assert_int_eq(plugin_path_for("/p", "placer", "naive", path, sizeof(path)), 0);
    ck_assert_str_eq(path, "/p/placer-naive.so");
    ck_assert_int_eq(plugin_path_for("/p", "control-plane", "vbox", path, sizeof(path)), 0);
    ck_assert_str_eq(path, "/p/cp-vbox.so");
    ck_assert_int_eq(plugin_path_for("/p", "overrider", "tag", path, sizeof(path)), 0);
    ck_assert_str_eq(path, "/p/override-tag.so");
    ck_assert_int_eq(plugin_path_for("/p", "gizmo", "x", path, sizeof(path)), FN_E_INVALID);
    ck_assert_int_eq(plugin_path_for("/p", "placer", "../x", path, sizeof(path)), FN_E_INVALID);
    ck_assert_int_eq(plugin_path_for("/p", "placer", "", path, sizeof(path)), FN_E_INVALID);
    ck_assert_int_eq(plugin_path_for("/p", "placer", "naive", path, 10), FN_E_RANGE);
}
END_TEST

START_TEST(shipped_plugins)
{
    static const char *const names[][2] = { { "placer", "naive" }, { "placer", "ch" },
                                            { "pool", "static" } };
    struct plugin_host *h = plugin_host_create(NULL);
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;
    char path[512];
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ck_assert_int_eq(plugin_path_for(getenv("FND_PLUGINS"), names[i][0], names[i][1], path,
                                         sizeof(path)), 0);
        ck_assert_msg(plugin_file_open(h, path, &f, &e) == 0, "%s", e.msg);
        ck_assert_ptr_nonnull(plugin_file_factory(f, names[i][0], names[i][1]));
    }
    plugin_host_destroy(h);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

TCase *load_tests(void)
{
    TCase *t = tcase_create("load");

    tcase_add_test(t, missing_file);
    tcase_add_test(t, directory);
    tcase_add_test(t, symbolic_link);
    tcase_add_test(t, fifo);
    tcase_add_test(t, writable_file);
    tcase_add_test(t, writable_directory);
    tcase_add_test(t, writable_directory_above);
    tcase_add_test(t, foreign_owner);
    tcase_add_test(t, not_elf);
    tcase_add_test(t, wrong_machine);
    tcase_add_test(t, truncated);
    tcase_add_loop_test(t, refused_before_code_ran, 0, COUNT(unrun));
    tcase_add_loop_test(t, refused_tables, 0, COUNT(tables));
    tcase_add_test(t, each_function_of_the_ops_is_a_slot);
    tcase_add_test(t, all_problems_are_told);
    tcase_add_test(t, good_file);
    tcase_add_test(t, newer_table_with_a_zero_tail);
    tcase_add_test(t, older_table_on_a_newer_host);
    tcase_add_test(t, same_factory_in_two_files);
    tcase_add_test(t, file_names);
    tcase_add_test(t, shipped_plugins);
    return t;
}
