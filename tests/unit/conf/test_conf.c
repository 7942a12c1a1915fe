/* The conf room: files and texts that are wrong, values, binding, printing. */
#include <base/log.h>
#include <check.h>
#include <conf/conf.h>
#include <conf/opts.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEEP "[[[[[[[[[["

struct sample {
    const char *name;
    int64_t count;
    int64_t wait_ns;
    int64_t idle_ns;
    int64_t size_bytes;
    uint32_t on;
    const char *mode;
    struct fn_strlist hosts;
    const char *token;
    const char *needed;
};

#define AT(field) .offset = offsetof(struct sample, field)

static const struct fn_opt sample_opts[] = {
    { .key = "name",
      .doc = "A name.",
      .type = FN_OPT_STR,
      .min = 1,
      .max = 5,
      .flags = FN_OPT_MAY_BE_ABSENT,
      AT(name) },
    { .key = "count",
      .doc = "How many.",
      .dflt = "3",
      .type = FN_OPT_INT,
      .min = 1,
      .max = 300,
      .choices = "seconds",
      AT(count) },
    { .key = "wait",
      .doc = "How long.",
      .dflt = "50ms",
      .type = FN_OPT_DURATION,
      .min = 1000000,
      .max = 60000000000,
      AT(wait_ns) },
    { .key = "idle",
      .doc = "Idle.",
      .dflt = "never",
      .type = FN_OPT_DURATION,
      .min = -1,
      .max = INT64_MAX,
      AT(idle_ns) },
    { .key = "size",
      .doc = "How large.",
      .dflt = "64KiB",
      .type = FN_OPT_BYTES,
      .min = 1024,
      .max = 1 << 20,
      AT(size_bytes) },
    { .key = "on", .doc = "Whether.", .dflt = "false", .type = FN_OPT_BOOL, AT(on) },
    { .key = "mode",
      .doc = "Which | how.",
      .dflt = "fast",
      .choices = "fast|slow",
      .type = FN_OPT_CHOICE,
      AT(mode) },
    { .key = "hosts", .doc = "Where.", .dflt = "a b", .type = FN_OPT_STRLIST, AT(hosts) },
    { .key = "token",
      .doc = "A secret.",
      .type = FN_OPT_STR,
      .flags = FN_OPT_MAY_BE_ABSENT | FN_OPT_MAY_BE_SECRET,
      AT(token) },
    { .key = "needed", .doc = "what must be there", .type = FN_OPT_STR, AT(needed) },
    { .key = NULL },
};

/* A parsed and bound text with everything that was said about it. */
struct loaded {
    struct conf *conf;
    struct conf_values *values;
    struct conf_problems problems;
    const struct sample *sample;
};

static struct loaded load_n(const char *text, size_t len, const struct conf_override *overrides)
{
    static const char *const skip[] = { "other", NULL };
    struct loaded l = { 0 };

    conf_problems_init(&l.problems);
    conf_parse("fn.yaml", text, len, &l.conf, &l.problems);
    if (l.conf) {
        conf_bind(l.conf, conf_root(l.conf), "sample", sample_opts, sizeof(struct sample),
                  skip, overrides, &l.values, &l.problems);
        l.sample = l.values->data;
    }
    return l;
}

static struct loaded load(const char *text)
{
    return load_n(text, strlen(text), NULL);
}

static void unload(struct loaded *l)
{
    conf_values_destroy(l->values);
    conf_destroy(l->conf);
    conf_problems_finish(&l->problems);
}

/* ---- bad texts ------------------------------------------------------------------------------- */

#define REST "\nneeded: x\n"

static const struct {
    const char *text;
    size_t len; /* 0 = strlen */
    const char *sentence;
} bad_texts[] = {
    { "other:\n\ta: 1\n", 0, "CFG701 fn.yaml:2:1: tab in indentation; expected blanks\n" },
    { "other:\n  \ta: 1\n", 0, "CFG701 fn.yaml:2:3: tab in indentation; expected blanks\n" },
    { "name: \"abc\nmode: fast\n", 0, "CFG701 fn.yaml:1:7: quote is not closed; expected one more behind the text\n" },
    { "name: 'abc\nmode: fast\n", 0, "CFG701 fn.yaml:1:7: quote is not closed; expected one more behind the text\n" },
    { "other: [1, 2\nmode: fast\n", 0, "CFG701 fn.yaml:" },
    { "other: {a: 1\n", 0, "CFG701 fn.yaml:" },
    { "name: a: b\n", 0,
      "CFG701 fn.yaml:1:8: a second colon in one line, got \"name: a: b\"; expected one, or quotes "
      "around the value\n" },
    { "other: { mode: a: b }\n", 0, "CFG701 fn.yaml:1:17: a second colon in one line, got" },
    /* A line for libyaml, none for us: nothing behind the text is looked at. */
    { "name\r a: b: c\n", 0, "CFG701 fn.yaml:2:" },
    { "other\r {x: 0, x:e ", 0, "CFG701 fn.yaml:2:" },
    { "\xc3\xa4: a: b\n", 0, "CFG701 fn.yaml:1:5: a second colon in one line, got" },
    { "name abc\n", 0, "CFG701 fn.yaml:1:1: got \"name abc\"; expected key: value\n" },
    { "- name\n", 0, "CFG701 fn.yaml:1:1: got a list; expected key: value\n" },
    { "name: @x\n", 0,
      "CFG701 fn.yaml:1:7: a value cannot begin so, got \"@x\"; expected it in quotes\n" },
    { "name: \xc3\xbc\nwait: `x` # y\n", 0,
      "CFG701 fn.yaml:2:7: a value cannot begin so, got \"`x`\"; expected it in quotes\n" },
    { "name abc\nmode: fast\n", 0,
      "CFG701 fn.yaml:1:1: no colon, got \"name abc\"; expected key: value\n" },
    { "mode: fast\n\nother # these\n# that\n  x: 1\n", 0,
      "CFG701 fn.yaml:3:1: no colon, got \"other\"; expected key: value\n" },
    { "mode: fast\r\nother\r\nname: a\r\n", 0,
      "CFG701 fn.yaml:2:1: no colon, got \"other\"; expected key: value\n" },
    { "name:abc\nmode: fast\n", 0,
      "CFG701 fn.yaml:1:1: no blank behind the colon, got \"name:abc\"; expected key: value\n" },
    { "name: abc\n  mode: fast\n", 0,
      "CFG701 fn.yaml:2:3: deeper than line 1, which has a value; expected the same "
      "indentation\n" },
    { "other:\n  x: 1\n y: 2\n", 0,
      "CFG701 fn.yaml:3:2: no key, or wrong indentation; expected a key in column 1, as in line "
      "1\n" },
    { "hosts:\n  - a\n  b: 2\n", 0,
      "CFG701 fn.yaml:3:3: no item of the list of line 2, or wrong indentation; expected - in "
      "column 3\n" },
    { "name:\xc2\xa0" "abc\nmode: fast\n", 0,
      "CFG701 fn.yaml:1:6: no-break space, got U+00A0; expected a plain blank\n" },
    { "other:\n\xc2\xa0 x: 1\n", 0,
      "CFG701 fn.yaml:2:1: no-break space, got U+00A0; expected a plain blank\n" },
    { "name: abc\xe2\x80\x8b" REST, 0,
      "CFG701 fn.yaml:1:10: a character that looks like a blank, got U+200B; expected a plain "
      "blank\n" },
    { "name: a\x01\n", 0,
      "CFG701 fn.yaml:1:8: a control character, got 0x01; expected text\n" },
    { "neede: x\n", 0, "CFG702 fn.yaml:1:1: unknown key \"neede\"; did you mean \"needed\"?\n" },
    { "a: 1\n---\nb: 2\n", 0, "CFG701 fn.yaml:2:1: a second document; expected one\n" },
    { "? [a, b]\n: c\n", 0, "CFG701 fn.yaml:1:3: a map or list as a key; expected a word\n" },
    { "other: !!python/object x\n" REST, 0, "CFG701 fn.yaml:1:8: tags are not supported" },
    { "other: &a [x, x]" REST, 0, "CFG701 fn.yaml:1:8: anchors and aliases are not supported" },
    { "other: *a" REST, 0,
      "CFG701 fn.yaml:1:8: anchors and aliases are not supported, got alias *a" },
    { "", 0, "CFG705 fn.yaml: empty; expected keys with values\n" },
    { "# only a comment\n\n", 0, "CFG705 fn.yaml: empty" },
    { "---\n", 0, "CFG705 fn.yaml: empty" },
    { "na\0me: x\n", 9,
      "CFG705 fn.yaml:1:3: not UTF-8 text, got a NUL byte; expected UTF-8 text\n" },
    { "name: \"a\\0b\"" REST, 0, "CFG705 fn.yaml:1:7: a NUL character in a text; expected none\n" },
    { "\xff\xfen\0o\0", 6, "CFG705 fn.yaml: not UTF-8, got UTF-16; expected UTF-8 text\n" },
    { "\xfe\xff\0n\0o", 6, "CFG705 fn.yaml: not UTF-8, got UTF-16; expected UTF-8 text\n" },
    { "a: b\nb: gr\xfc\x73\n", 0,
      "CFG705 fn.yaml:2:6: not UTF-8, got byte 0xfc; expected UTF-8 text\n" },
    { "a: \xc0\x80\n", 0, "CFG705 fn.yaml:1:4: not UTF-8, got byte 0xc0" },
    { "other: " DEEP DEEP DEEP DEEP DEEP "\n", 0,
      "CFG701 fn.yaml:1:55: nested too deeply; expected at most 48 levels\n" },
    { "memmory: 1\nmod: slow" REST, 0,
      "CFG702 fn.yaml:2:1: unknown key \"mod\"; did you mean \"mode\"?\n" },
    { "cuont: 1" REST, 0, "CFG702 fn.yaml:1:1: unknown key \"cuont\"; did you mean \"count\"?\n" },
    { "zzzzzz: 1" REST, 0,
      "CFG702 fn.yaml:1:1: unknown key \"zzzzzz\"; expected name, count, wait, idle, "
      "size, on, mode, hosts, token, needed, other\n" },
    { "\"\\e[31m\\nlog: forged\": 1" REST, 0,
      "CFG702 fn.yaml:1:1: unknown key \"\\x1b[31m\\x0alog: forged\"" },
    { "count: 1\n\ncount: 2" REST, 0, "CFG703 fn.yaml:3:1: key \"count\" is defined twice, first at line 1; expected it once\n" },
    { "other:\n  x: 1\n  x: 2" REST, 0, "CFG703 fn.yaml:3:3: key \"x\" is defined twice, first at line 2; expected it once\n" },
    { "count: -5" REST, 0,
      "CFG704 fn.yaml:1:8: count, got \"-5\"; expected whole seconds 1..300\n" },
    { "count: 1e3" REST, 0,
      "CFG704 fn.yaml:1:8: count, got \"1e3\"; expected whole seconds 1..300\n" },
    { "count: 301" REST, 0,
      "CFG704 fn.yaml:1:8: count, got \"301\"; expected whole seconds 1..300\n" },
    { "count: 0x10" REST, 0, "CFG704 fn.yaml:1:8: count, got \"0x10\"; expected" },
    { "count: 99999999999999999999" REST, 0,
      "CFG704 fn.yaml:1:8: count, got \"99999999999999999999\"" },
    { "count: [1]" REST, 0,
      "CFG704 fn.yaml:1:8: count, got a list; expected whole seconds 1..300\n" },
    { "count: {a: 1}" REST, 0, "CFG704 fn.yaml:1:8: count, got a map; expected" },
    { "wait: 10" REST, 0,
      "CFG704 fn.yaml:1:7: wait, got \"10\"; expected a duration such as 10ms, 2s or 5m, "
      "from 1ms to 1m; did you mean \"10s\"?\n" },
    { "wait: 2m" REST, 0, "CFG704 fn.yaml:1:7: wait, got \"2m\"; expected a duration" },
    { "wait: never" REST, 0, "CFG704 fn.yaml:1:7: wait, got \"never\"; expected a duration" },
    { "wait: 10 ms" REST, 0, "CFG704 fn.yaml:1:7: wait, got \"10 ms\"; expected a duration" },
    { "idle: -2" REST, 0,
      "CFG704 fn.yaml:1:7: idle, got \"-2\"; expected a duration such as 10ms, 2s or 5m, "
      "at least 0s, or never\n" },
    { "size: 12GB" REST, 0,
      "CFG704 fn.yaml:1:7: size, got \"12GB\"; expected a size such as 64KiB, 6MiB or "
      "1GiB, from 1KiB to 1MiB\n" },
    { "size: 1023" REST, 0, "CFG704 fn.yaml:1:7: size, got \"1023\"; expected a size" },
    { "on: maybe" REST, 0, "CFG704 fn.yaml:1:5: on, got \"maybe\"; expected true or false\n" },
    { "on: yes" REST, 0, "CFG704 fn.yaml:1:5: on, got \"yes\"; expected true or false\n" },
    { "mode: medium" REST, 0, "CFG704 fn.yaml:1:7: mode, got \"medium\"; expected fast or slow\n" },
    { "mode: fsat" REST, 0, "expected fast or slow; did you mean \"fast\"?\n" },
    { "mode: slowly" REST, 0, "expected fast or slow; did you mean \"slow\"?\n" },
    { "mode: fas" REST, 0, "expected fast or slow; did you mean \"fast\"?\n" },
    { "mode: s" REST, 0, "mode, got \"s\"; expected fast or slow\n" },
    { "name: toolong" REST, 0,
      "CFG704 fn.yaml:1:7: name, got \"toolong\"; expected a text of 1 to 5 bytes\n" },
    { "name: \"\"" REST, 0,
      "CFG704 fn.yaml:1:7: name, got \"\"; expected a text of 1 to 5 bytes\n" },
    { "hosts: a" REST, 0, "CFG704 fn.yaml:1:8: hosts, got \"a\"; expected a list of texts such as [a, b]\n" },
    { "hosts: [a, {b: c}]" REST, 0, "CFG704 fn.yaml:1:8: hosts, got a map in the list; expected" },
    { "count: 4\n", 0,
      "CFG709 fn.yaml:1:1: sample: key \"needed\" is missing; expected a text (what must be there)\n" },
};

START_TEST(test_bad_text_gets_its_sentence)
{
    size_t len = bad_texts[_i].len ? bad_texts[_i].len : strlen(bad_texts[_i].text);
    struct loaded l = load_n(bad_texts[_i].text, len, NULL);
    const char *said = buf_text(&l.problems.text);

    ck_assert_msg(strstr(said, bad_texts[_i].sentence), "got %s, expected %s", said,
                  bad_texts[_i].sentence);
    ck_assert_uint_ge(l.problems.n, 1);
    unload(&l);
}
END_TEST

START_TEST(test_all_problems_of_a_file_are_told)
{
    struct loaded l = load("counnt: 4\nwait: soon\nname: x\nname: y\nsize: 1TB\nmode: slow\n");

    ck_assert_str_eq(
        buf_text(&l.problems.text),
        "CFG702 fn.yaml:1:1: unknown key \"counnt\"; did you mean \"count\"?\n"
        "CFG709 fn.yaml:1:1: sample: key \"needed\" is missing; expected a text (what must be "
        "there)\n"
        "CFG704 fn.yaml:2:7: wait, got \"soon\"; expected a duration such as 10ms, 2s or "
        "5m, from 1ms to 1m\n"
        "CFG703 fn.yaml:4:1: key \"name\" is defined twice, first at line 3; expected it once\n"
        "CFG704 fn.yaml:5:7: size, got \"1TB\"; expected a size such as 64KiB, 6MiB or "
        "1GiB, from 1KiB to 1MiB\n");
    ck_assert_uint_eq(l.problems.n, 5);
    ck_assert_str_eq(l.sample->mode, "slow");
    ck_assert_str_eq(l.sample->name, "x");
    unload(&l);
}
END_TEST

START_TEST(test_problems_are_bounded)
{
    struct conf_problems p;

    conf_problems_init(&p);
    for (int i = 0; i < 5 * CONF_PROBLEMS_MAX; i++) {
        conf_problem(&p, "CFG700", "here", "%d", i);
    }
    ck_assert_uint_eq(p.n, 5 * CONF_PROBLEMS_MAX);
    ck_assert_ptr_nonnull(strstr(buf_text(&p.text), "CFG700 here: 99\n"));
    ck_assert_ptr_null(strstr(buf_text(&p.text), "CFG700 here: 100\n"));
    conf_problems_finish(&p);
}
END_TEST

START_TEST(test_warnings_count_only_when_strict)
{
    struct conf_problems p;

    conf_problems_init(&p);
    conf_warning(&p, "CFG708", NULL, "unknown variable");
    ck_assert_uint_eq(p.n, 0);
    p.strict = true;
    conf_warning(&p, "CFG708", NULL, "another one");
    ck_assert_uint_eq(p.n, 1);
    conf_warning(&p, "CFG708", NULL, "another one"); /* told already */
    ck_assert_uint_eq(p.n, 1);
    ck_assert_uint_eq(p.warnings, 2);
    conf_problems_finish(&p);
}
END_TEST

START_TEST(test_a_line_says_how_much_it_weighs)
{
    struct buf problems = BUF_INIT(0);
    struct buf others = BUF_INIT(0);
    struct conf_problems p;

    conf_problems_init(&p);
    conf_problem(&p, "CFG704", "fn.yaml:12:1", "last");
    conf_warning(&p, "CFG710", "fn.yaml:2:10", "second");
    conf_note(&p, "CFG710", "fn.yaml:2:9", "first");
    conf_warning(&p, "CFG708", NULL, "of no place");
    conf_problem(&p, "CFG702", "fn.yaml:1:1", "behind what has no place");
    ck_assert_str_eq(buf_text(&p.text), "CFG710 fn.yaml:2:9: note: first\n"
                                        "CFG710 fn.yaml:2:10: warning: second\n"
                                        "CFG704 fn.yaml:12:1: last\n"
                                        "CFG708 warning: of no place\n"
                                        "CFG702 fn.yaml:1:1: behind what has no place\n");
    conf_problems_copy(&p, true, &problems);
    ck_assert_str_eq(buf_text(&problems), "CFG704 fn.yaml:12:1: last\n"
                                          "CFG702 fn.yaml:1:1: behind what has no place\n");
    conf_problems_copy(&p, false, &others);
    ck_assert_str_eq(buf_text(&others), "CFG710 fn.yaml:2:9: note: first\n"
                                        "CFG710 fn.yaml:2:10: warning: second\n"
                                        "CFG708 warning: of no place\n");
    buf_finish(&problems);
    buf_finish(&others);
    conf_problems_finish(&p);
}
END_TEST

static uint32_t logged[FN_LOG_DEBUG + 1];

static void count_logged(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    (void)wall_ns;
    (void)line;
    (void)len;
    logged[level]++;
}

static int64_t no_time(void)
{
    return 0;
}

/* A note is nothing that anybody must look at: alerts on warnings do not fire for it. */
START_TEST(test_a_note_is_logged_for_information)
{
    struct conf_problems p;

    conf_problems_init(&p);
    conf_note(&p, "CFG710", NULL, "every call is answered 404");
    conf_note(&p, "CFG710", "fn.yaml:2:9", "a warning: is none");
    conf_warning(&p, "CFG710", "fn.yaml:2:10", "got \"note: x\"");
    log_setup(&(struct log_config){
        .level = FN_LOG_DEBUG, .fd = -1, .wall_ns = no_time, .sink = count_logged });
    conf_log_warnings(buf_text(&p.text));
    ck_assert_uint_eq(logged[FN_LOG_INFO], 2);
    ck_assert_uint_eq(logged[FN_LOG_WARN], 1);
    conf_problems_finish(&p);
}
END_TEST

/* Ten levels that each name the one before ten times would be ten thousand million values. */
START_TEST(test_alias_bomb_stays_small)
{
    struct buf text = BUF_INIT(0);
    struct loaded l;

    buf_add_str(&text, "a0: &a0 x\n");
    for (int i = 1; i <= 10; i++) {
        buf_printf(&text, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++) {
            buf_printf(&text, "%s*a%d", k ? "," : "", i - 1);
        }
        buf_add_str(&text, "]\n");
    }
    l = load_n(buf_text(&text), text.len, NULL);
    ck_assert_uint_ge(l.problems.n, 100);
    ck_assert_ptr_nonnull(strstr(buf_text(&l.problems.text), "got alias *a0"));
    unload(&l);
    buf_finish(&text);
}
END_TEST

START_TEST(test_too_many_values_are_refused)
{
    struct buf text = BUF_INIT(0);
    struct loaded l;

    buf_add_str(&text, "other: [1");
    for (int i = 0; i < CONF_NODES_MAX; i++) {
        buf_add_str(&text, ",1");
    }
    buf_add_str(&text, "]\n");
    l = load_n(buf_text(&text), text.len, NULL);
    ck_assert_ptr_nonnull(
        strstr(buf_text(&l.problems.text), "too many values; expected at most 200000"));
    unload(&l);
    buf_finish(&text);
}
END_TEST

/* Every prefix of a good file either loads or is refused with a position; none crashes. */
START_TEST(test_half_a_file)
{
    static const char text[] = "name: \"abc\"\ncount: 12\nother:\n  - {a: 'b', c: [d, e]}\n"
                               "  - |\n    text\nhosts: [x, y]\nneeded: yes\n";

    for (size_t len = 0; len < sizeof(text); len++) {
        struct loaded l = load_n(text, len, NULL);

        ck_assert(l.problems.n == 0 || strncmp(buf_text(&l.problems.text), "CFG70", 5) == 0);
        ck_assert(l.problems.n > 0 || (l.conf && l.sample->needed));
        unload(&l);
    }
}
END_TEST

/* ---- files
 * --------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/fnd-conf-XXXXXX";

static const char *file_path(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void write_file(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_ge(fputs(text, f), 0);
    }
    ck_assert_int_eq(fclose(f), 0);
}

static void expect_refusal(const char *path, const char *sentence)
{
    struct conf_problems p;
    struct conf *c = NULL;
    char expected[256];

    conf_problems_init(&p);
    snprintf(expected, sizeof(expected), "CFG705 %s: %s", path, sentence);
    ck_assert_int_eq(conf_load(path, &c, &p), FN_E_INVALID);
    ck_assert_ptr_null(c);
    ck_assert_msg(strstr(buf_text(&p.text), expected), "got %s, expected %s", buf_text(&p.text),
                  expected);
    conf_problems_finish(&p);
}

static void dir_create(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void dir_remove(void)
{
    static const char *const names[] = { "fifo", "large", "empty", "good" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unlink(file_path(names[i]));
    }
    rmdir(dir);
}

START_TEST(test_files_that_are_none)
{
    expect_refusal(file_path("missing.yaml"), "No such file or directory; expected a file that can be read\n");
    expect_refusal(dir, "is a directory; expected a regular file\n");
    ck_assert_int_eq(mkfifo(file_path("fifo"), 0600), 0);
    expect_refusal(file_path("fifo"), "is a FIFO; expected a regular file\n");
    expect_refusal("/dev/zero", "is no regular file; expected a regular file\n");
    write_file(file_path("large"), "# sixteen bytes\n", 32 * 1024 * 1024 / 16);
    expect_refusal(file_path("large"), "too large, got 33554432 bytes; expected at most 16777216\n");
    write_file(file_path("empty"), "", 1);
    expect_refusal(file_path("empty"), "empty;");
}
END_TEST

START_TEST(test_good_file_loads)
{
    struct conf_problems p;
    struct conf *c = NULL;

    write_file(file_path("good"),
               "\xef\xbb\xbf"
               "node: full\nlist: [a]\n",
               1);
    conf_problems_init(&p);
    ck_assert_int_eq(conf_load(file_path("good"), &c, &p), 0);
    ck_assert_str_eq(conf_get(conf_root(c), "node")->text, "full");
    ck_assert_int_eq(conf_get(conf_root(c), "list")->first->line, 2);
    ck_assert_int_eq(conf_get(conf_root(c), "list")->first->column, 8);
    ck_assert_ptr_null(conf_get(conf_root(c), "nothing"));
    ck_assert_ptr_null(conf_get(NULL, "node"));
    conf_destroy(c);
    conf_problems_finish(&p);
}
END_TEST

/* ---- values
 * ---------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int64_t ns;
    int result;
} durations[] = {
    { "10ms", 10000000, 0 },
    { "2s", 2000000000, 0 },
    { "5m", 300000000000, 0 },
    { "1h30m", 5400000000000, 0 },
    { "1.5s", 1500000000, 0 },
    { "250us", 250000, 0 },
    { "7ns", 7, 0 },
    { "0", 0, 0 },
    { "0s", 0, 0 },
    { "never", -1, 0 },
    { "-1", -1, 0 },
    { "", 0, FN_E_INVALID },
    { "10", 0, FN_E_INVALID },
    { "ms", 0, FN_E_INVALID },
    { "-5s", 0, FN_E_INVALID },
    { "1e3s", 0, FN_E_INVALID },
    { "1.s", 0, FN_E_INVALID },
    { ".5s", 0, FN_E_INVALID },
    { "10ms ", 0, FN_E_INVALID },
    { "5d", 0, FN_E_INVALID },
    { "9223372036854775807s", 0, FN_E_INVALID },
    { "2562048h", 0, FN_E_INVALID },
    { "1.1234567891s", 0, FN_E_INVALID },
};

START_TEST(test_durations)
{
    int64_t ns = 0;

    ck_assert_int_eq(conf_parse_duration(durations[_i].text, &ns), durations[_i].result);
    ck_assert_int_eq(ns, durations[_i].ns);
}
END_TEST

static const struct {
    const char *text;
    int64_t n;
    int result;
} sizes[] = {
    { "0", 0, 0 },
    { "123", 123, 0 },
    { "5B", 5, 0 },
    { "64KiB", 65536, 0 },
    { "6MiB", 6 << 20, 0 },
    { "3GiB", 3LL << 30, 0 },
    { "1TiB", 1LL << 40, 0 },
    { "12GB", 0, FN_E_INVALID },
    { "64kib", 0, FN_E_INVALID },
    { "-1", 0, FN_E_INVALID },
    { "1.5MiB", 0, FN_E_INVALID },
    { "", 0, FN_E_INVALID },
    { "MiB", 0, FN_E_INVALID },
    { "9223372036854775807KiB", 0, FN_E_INVALID },
    { "9223372036854775808", 0, FN_E_INVALID },
};

START_TEST(test_sizes)
{
    int64_t n = 0;

    ck_assert_int_eq(conf_parse_bytes(sizes[_i].text, &n), sizes[_i].result);
    ck_assert_int_eq(n, sizes[_i].n);
}
END_TEST

START_TEST(test_whole_numbers_and_flags)
{
    int64_t n = 0;
    bool flag = false;

    ck_assert_int_eq(conf_parse_int("-42", &n), 0);
    ck_assert_int_eq(n, -42);
    ck_assert_int_eq(conf_parse_int("+1", &n), FN_E_INVALID);
    ck_assert_int_eq(conf_parse_int("", &n), FN_E_INVALID);
    ck_assert_int_eq(conf_parse_int("-", &n), FN_E_INVALID);
    ck_assert_int_eq(conf_parse_int(" 1", &n), FN_E_INVALID);
    ck_assert_int_eq(conf_parse_bool("true", &flag), 0);
    ck_assert(flag);
    ck_assert_int_eq(conf_parse_bool("True", &flag), FN_E_INVALID);
}
END_TEST

START_TEST(test_nearest_word)
{
    static const char *const known[] = { "memory", "timeout",           "idle_timeout",
                                         "to",     "placement_timeout", NULL };

    ck_assert_str_eq(conf_nearest("memmory", known), "memory");
    ck_assert_str_eq(conf_nearest("tiemout", known), "timeout");
    ck_assert_str_eq(conf_nearest("idletimeout", known), "idle_timeout");
    ck_assert_str_eq(conf_nearest("placment_tiemout", known), "placement_timeout");
    ck_assert_ptr_null(conf_nearest("network", known));
    ck_assert_ptr_null(conf_nearest("x", known));
    ck_assert_ptr_null(conf_nearest("", known));
}
END_TEST

/* ---- binding
 * --------------------------------------------------------------------------------------- */

START_TEST(test_defaults_and_values)
{
    struct loaded l = load("needed: x\nsize: 2KiB\nhosts: [\"10.0.0.1:9190\", b]\nidle: -1\nname:\n"
                           "on: true\nother: {left: alone}\n");
    const struct sample *s = l.sample;

    ck_assert_str_eq(buf_text(&l.problems.text), "");
    ck_assert_ptr_null(s->name);
    ck_assert_int_eq(s->count, 3);
    ck_assert_int_eq(s->wait_ns, 50000000);
    ck_assert_int_eq(s->idle_ns, -1);
    ck_assert_int_eq(s->size_bytes, 2048);
    ck_assert_uint_eq(s->on, 1);
    ck_assert_str_eq(s->mode, "fast");
    ck_assert_uint_eq(s->hosts.n, 2);
    ck_assert_str_eq(s->hosts.items[0], "10.0.0.1:9190");
    ck_assert_str_eq(s->needed, "x");
    unload(&l);
}
END_TEST

START_TEST(test_without_a_map_there_are_defaults)
{
    struct conf_problems p;
    struct conf_values *v = NULL;
    const struct sample *s;

    conf_problems_init(&p);
    ck_assert_int_eq(conf_bind(NULL, NULL, "sample", sample_opts, sizeof(*s), NULL, NULL, &v, &p),
                               0);
    s = v->data;
    ck_assert_uint_eq(s->hosts.n, 2);
    ck_assert_str_eq(s->hosts.items[1], "b");
    ck_assert_str_eq(buf_text(&p.text),
                     "CFG709 sample: key \"needed\" is missing; expected a text (what must be there)\n");
    conf_values_destroy(v);
    ck_assert_int_eq(conf_bind(NULL, NULL, "none", NULL, 0, NULL, NULL, &v, &p), 0);
    conf_values_destroy(v);
    conf_problems_finish(&p);
}
END_TEST

START_TEST(test_overrides_win_and_satisfy)
{
    const struct conf_override overrides[] = {
        { "needed", "FN_NEEDED", "from outside" },
        { "hosts", "FN_HOSTS", "a:1,b:2  c:3," },
        { "unheard", "FN_UNHEARD", "of" },
        { "count", "FN_COUNT", "70000" },
        { NULL, NULL, NULL },
    };
    static const char text[] = "count: 4\nhosts: [z]\n";
    struct loaded l = load_n(text, strlen(text), overrides);

    ck_assert_str_eq(buf_text(&l.problems.text),
                     "CFG706 FN_COUNT, got \"70000\"; expected whole seconds 1..300\n");
    ck_assert_str_eq(l.sample->needed, "from outside");
    ck_assert_uint_eq(l.sample->hosts.n, 3);
    ck_assert_str_eq(l.sample->hosts.items[2], "c:3");
    ck_assert_int_eq(l.sample->count, 4);
    ck_assert_int_eq(conf_override(l.values, "nothing", "FN_X", "1", &l.problems), FN_E_NOT_FOUND);
    unload(&l);
}
END_TEST

START_TEST(test_printed_values_load_again)
{
    struct loaded l = load("needed: \"two words: # and \\\"more\\\" \\x01\"\ncount: 7\nwait: 90s\n"
                           "hosts: [\"a:1\", \"\"]\nsize: 1MiB\ntoken: hush\n");
    struct buf out = BUF_INIT(0);
    struct loaded again;

    ck_assert_str_eq(
        buf_text(&l.problems.text),
        "CFG704 fn.yaml:3:7: wait, got \"90s\"; expected a duration such as 10ms, 2s or "
        "5m, from 1ms to 1m\n");
    ck_assert_int_eq(conf_print(l.values, 0, &out), 0);
    ck_assert_str_eq(buf_text(&out),
                     "# name is not set\ncount: 7  # fn.yaml:2:8\nwait: 50ms  # fn.yaml:3:7\n"
                     "idle: never  # default\nsize: 1MiB  # fn.yaml:5:7\non: false  # default\n"
                     "mode: fast  # default\nhosts: [\"a:1\", \"\"]  # fn.yaml:4:8\n"
                     "token: \"***\"  # fn.yaml:6:8\n"
                     "needed: \"two words: # and \\\"more\\\" \\x01\"  # fn.yaml:1:9\n");
    again = load(buf_text(&out));
    ck_assert_str_eq(buf_text(&again.problems.text), "");
    ck_assert_str_eq(again.sample->needed, "two words: # and \"more\" \x01");
    unload(&again);
    unload(&l);
    buf_finish(&out);
}
END_TEST

static const char *sample_variable(void *ud, const char *key)
{
    (void)ud;
    return strcmp(key, "count") == 0 ? "FN_COUNT" : NULL;
}

START_TEST(test_reference)
{
    struct buf out = BUF_INIT(0);
    const char *text;

    ck_assert_int_eq(conf_print_reference(sample_opts, sample_variable, NULL, &out), 0);
    text = buf_text(&out);
    ck_assert_ptr_nonnull(strstr(text, "| key | default | value | variable | meaning |\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "| `count` | `3` | whole seconds 1..300 | `FN_COUNT` | How many. |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| `mode` | `fast` | fast or slow |  | Which \\| how. |\n"));
    ck_assert_ptr_nonnull(strstr(text, "| `token` | – | a text |  | A secret. Never printed. |\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "| `needed` | required | a text |  | what must be there |\n"));
    buf_finish(&out);
}
END_TEST

#define ROWS(table) ((int)(sizeof(table) / sizeof((table)[0])))

/* ---- the node's own tables ------------------------------------------------------------------- */

struct room {
    uint32_t calls, bytes;
    int64_t wait_ns;
    uint32_t on, untouched;
    const char *mode;
};

#undef AT
#define AT(field) offsetof(struct room, field)
static const struct fn_opt room_rows[] = {
    OPT("calls", INT32, AT(calls), "7", 0, UINT32_MAX, "Calls."),
    LIVE("bytes", BYTES32, AT(bytes), "64KiB", 0, UINT32_MAX, "Bytes."),
    LIVE("wait", DURATION, AT(wait_ns), "3s", 0, H, "Wait."),
    OPT("on", BOOL, AT(on), "true", 0, 0, "On."),
    OPT_CHOICE("mode", AT(mode), "auto", "auto|off", "Mode."),
    { .key = NULL },
};

START_TEST(test_fields_of_32_bits)
{
    static const char text[] = "calls: 4294967295\nbytes: 1KiB\n";
    struct conf_values *values = NULL, *others = NULL;
    struct conf_problems p;
    struct conf *c = NULL;
    struct buf out = BUF_INIT(0);
    const struct room *r;

    conf_problems_init(&p);
    ck_assert_int_eq(conf_parse("fn.yaml", text, strlen(text), &c, &p), 0);
    conf_bind(c, conf_root(c), "room", room_rows, sizeof(*r), NULL, NULL, &values, &p);
    conf_bind(c, NULL, "room", room_rows, sizeof(*r), NULL, NULL, &others, &p);
    ck_assert_str_eq(buf_text(&p.text), "");
    r = values->data;
    ck_assert_uint_eq(r->calls, UINT32_MAX);
    ck_assert_uint_eq(r->bytes, 1024);
    ck_assert_int_eq(r->wait_ns, 3 * S);
    ck_assert(!opt_same(&values->opts[0], values->data, others->data));
    ck_assert(opt_same(&values->opts[2], values->data, others->data));
    conf_print(values, 0, &out);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "calls: 4294967295  #"));
    buf_finish(&out);
    conf_values_destroy(values);
    conf_values_destroy(others);
    conf_problems_finish(&p);
    conf_destroy(c);
}
END_TEST

START_TEST(test_defaults_of_a_room)
{
    static const struct opt_table table = { room_rows, sizeof(struct room) };
    struct room r = { .untouched = 5 };

    opt_defaults(&table, &r);
    ck_assert_uint_eq(r.calls, 7);
    ck_assert_uint_eq(r.bytes, 65536);
    ck_assert_int_eq(r.wait_ns, 3 * S);
    ck_assert_uint_eq(r.on, 1);
    ck_assert_uint_eq(r.untouched, 5);
    ck_assert_str_eq(r.mode, "auto");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conf");
    TCase *t = tcase_create("texts");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(t, test_bad_text_gets_its_sentence, 0, ROWS(bad_texts));
    tcase_add_test(t, test_all_problems_of_a_file_are_told);
    tcase_add_test(t, test_problems_are_bounded);
    tcase_add_test(t, test_warnings_count_only_when_strict);
    tcase_add_test(t, test_a_line_says_how_much_it_weighs);
    tcase_add_test(t, test_a_note_is_logged_for_information);
    tcase_add_test(t, test_alias_bomb_stays_small);
    tcase_add_test(t, test_too_many_values_are_refused);
    tcase_add_test(t, test_half_a_file);
    suite_add_tcase(s, t);
    t = tcase_create("files");
    tcase_add_checked_fixture(t, dir_create, dir_remove);
    tcase_add_test(t, test_files_that_are_none);
    tcase_add_test(t, test_good_file_loads);
    suite_add_tcase(s, t);
    t = tcase_create("values");
    tcase_add_loop_test(t, test_durations, 0, ROWS(durations));
    tcase_add_loop_test(t, test_sizes, 0, ROWS(sizes));
    tcase_add_test(t, test_whole_numbers_and_flags);
    tcase_add_test(t, test_nearest_word);
    suite_add_tcase(s, t);
    t = tcase_create("binding");
    tcase_add_test(t, test_defaults_and_values);
    tcase_add_test(t, test_without_a_map_there_are_defaults);
    tcase_add_test(t, test_overrides_win_and_satisfy);
    tcase_add_test(t, test_printed_values_load_again);
    tcase_add_test(t, test_reference);
    tcase_add_test(t, test_fields_of_32_bits);
    tcase_add_test(t, test_defaults_of_a_room);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
