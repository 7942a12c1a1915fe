/* fnkit check: loads a plugin in a child process, judges its file, runs the contract suites. */
#include "check.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_TIMEOUT_MS (180 * 1000) /* Check ends a case earlier */
#define CHECK_WORDS_MAX 200          /* names of suites and cases */

static const char usage_text[] =
    "usage: fnkit check [--kind KIND] [--name NAME] [--set OPTION=VALUE]... [--suite SUITE]\n"
    "                   [--skip CASE]... [--script FILE] [--sim | --real] [--seed N] [--tap]\n"
    "                   [--junit FILE] [--verbose] PLUGIN.so\n"
    "       fnkit check --world [--image NAME] [--kind KIND] [--name NAME] [--set OPTION=VALUE]...\n"
    "                   [--suite SUITE] [--skip CASE]... [--tap] [--junit FILE] [--verbose]\n"
    "                   PLUGIN.so\n"
    "       fnkit check --list\n"
    "\n"
    "Loads a plugin in a child process and checks what a host relies on.\n"
    "  --kind, --name  only factories of this kind, of this name\n"
    "  --set           gives an option to the instances, as fn.yaml would; more than once\n"
    "  --suite         only this suite (life) or case (life/destroy-null)\n"
    "  --skip          leaves a case out, and reports it as skipped; more than once\n"
    "  --script        what programs and HTTP servers answer; without it they say nothing\n"
    "  --sim, --real   only over virtual time, only over the real clock; both when absent\n"
    "  --world         drivers and control planes, over the tables of a node and what is really\n"
    "                  behind them: containers run, machines are rented and given back\n"
    "  --image         what containers of the world run, a function that their engine has\n"
    "  --seed          of everything that is left to chance; 1 when absent\n"
    "  --tap           writes TAP to standard output\n"
    "  --junit         writes JUnit XML to a file\n"
    "  --verbose       tells every case, not only what failed\n"
    "  --list          tells suites, cases and their rules\n"
    "\n"
    "exit codes: 0 all rules are kept, 1 one is broken, 64 usage, 69 no process or file could be\n"
    "made, 78 the file is refused\n";

static int usage(const char *fmt, const char *got)
{
    if (fmt) {
        fputs("fnkit check: ", stderr);
        fprintf(stderr, "%s", fmt);
        fprintf(stderr, got ? ", got \"%s\"\n" : "%s\n", got ? got : "");
    }
    fputs(usage_text, stderr);
    return FNKIT_USAGE;
}

/* ---- the child that loads -------------------------------------------------------------------- */

/* 1 = a result, 0 = the child has ended, -1 = time is up. */
static int next_result(int fd, int timeout_ms, struct report_result *ret)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    size_t got = 0;
    ssize_t n;
    int r;

    while (got < sizeof(*ret)) {
        r = poll(&p, 1, timeout_ms);
        if (r == 0) {
            return -1;
        }
        if (r < 0 && errno == EINTR) {
            continue;
        }
        n = read(fd, (char *)ret + got, sizeof(*ret) - got);
        if (n <= 0) {
            return 0;
        }
        got += (size_t)n;
    }
    return 1;
}

static void take(struct report *r, const struct report_result *one, const struct check_options *o)
{
    if (strcmp(one->name, CHECK_HEADER) == 0) {
        snprintf(r->plugin, sizeof(r->plugin), "%.*s", (int)strcspn(one->text, "\n"), one->text);
        snprintf(r->sha256, sizeof(r->sha256), "%s",
                 one->text + strcspn(one->text, "\n") + (strchr(one->text, '\n') != NULL));
        return;
    }
    if (strcmp(one->name, CHECK_USAGE) == 0) {
        fprintf(stderr, "fnkit check: %s\n", one->text);
        r->usage = true;
        return;
    }
    report_add(r, one);
    if (!o->tap && o->verbose) {
        report_text_one(one);
    }
}

static void load_failed(struct report *r, const struct check_options *o, int got, int status)
{
    struct report_result one = { .verdict = REPORT_FAILED,
                                 .factory = "file",
                                 .suite = "file",
                                 .name = "load",
                                 .rule = "loading a plugin has no effect but that it "
                                         "is there" };

    child_tell(got < 0 ? -1 : 0, status, o->path,
               r->n == 0 ? FNKIT_LOAD_TIMEOUT_MS : CASE_TIMEOUT_MS, one.text, sizeof(one.text));
    take(r, &one, o);
}

/* 0 = the child told all it had to tell. */
static int collect(int fd, pid_t pid, const struct check_options *o, struct report *r)
{
    struct report_result one;
    int status = 0;
    bool ended = false;
    int got;

    while ((got = next_result(fd, r->n == 0 ? FNKIT_LOAD_TIMEOUT_MS : CASE_TIMEOUT_MS, &one)) > 0) {
        ended = strcmp(one.name, CHECK_END) == 0;
        if (ended) {
            break;
        }
        take(r, &one, o);
    }
    if (!ended && got < 0) {
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!ended) {
        load_failed(r, o, got, status);
        return -1;
    }
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_folder(const char *dir)
{
    if (dir[0]) {
        nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
}

static int run(const struct check_options *o, struct report *r)
{
    char dir[] = "/tmp/fnkit-XXXXXX"; /* what odd options make files of goes there */
    int fds[2];
    pid_t pid;

    fflush(NULL);
    if (o->world) {
        dir[0] = '\0'; /* what is really there may be named from here */
    } else if (!mkdtemp(dir)) {
        return FN_E_UNAVAILABLE;
    }
    if (pipe(fds) < 0) {
        remove_folder(dir);
        return FN_E_UNAVAILABLE;
    }
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        if (dir[0] && chdir(dir) < 0) {
            _exit(FNKIT_UNAVAILABLE);
        }
        check_worker(o, fds[1]);
        _exit(0);
    }
    close(fds[1]);
    if (pid > 0) {
        collect(fds[0], pid, o, r);
    }
    close(fds[0]);
    remove_folder(dir);
    return pid > 0 ? 0 : FN_E_UNAVAILABLE;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int exit_code(const struct report *r)
{
    size_t i;

    for (i = 0; i < r->n; i++) {
        if (r->results[i].verdict == REPORT_FAILED && strcmp(r->results[i].name, "load") == 0) {
            return FNKIT_REFUSED;
        }
    }
    return r->failed > 0 ? FNKIT_BROKEN : r->n > 0 ? FNKIT_OK : FNKIT_UNAVAILABLE;
}

static int check_file(const struct check_options *o)
{
    struct report r = { 0 };
    int code;

    snprintf(r.file, sizeof(r.file), "%s", o->given);
    if (run(o, &r) < 0) {
        fprintf(stderr, "fnkit check: no child process: %s\n", strerror(errno));
        return FNKIT_UNAVAILABLE;
    }
    if (r.usage) {
        report_finish(&r);
        return FNKIT_USAGE;
    }
    if (o->tap) {
        report_tap(&r);
    } else {
        report_text_end(&r, o->verbose);
    }
    code = exit_code(&r);
    if (o->junit && report_junit(&r, o->junit) < 0) {
        code = FNKIT_UNAVAILABLE;
    }
    report_finish(&r);
    return code;
}

static const char *const kinds[] = { FN_KIND_PLACER,    FN_KIND_POOL,     FN_KIND_CONTROL_PLANE,
                                     FN_KIND_OVERRIDER, FN_KIND_LISTENER, FN_KIND_DRIVER,
                                     FN_KIND_PREDICTOR, FN_KIND_OPERATOR, NULL };

static const struct contract_case of_file[] = {
    { "file", "load", "the file can be loaded, and its tables keep the rules of fn/abi.h", NULL,
      0 },
    { "file", "imports",
      "the file imports no function for which plugins must use the host (time, random numbers, "
      "programs, sockets)",
      NULL, 0 },
    { "file", "statics", "no variable outlives an instance", NULL, 0 },
    { "file", "exports", "the file exports fn_plugin_v1() and nothing else", NULL, 0 },
    { "file", "undefined", "the file names the libraries that it uses", NULL, 0 },
};

/* All cases, those of every kind once. */
static void each_case(void (*visit)(void *ud, const struct contract_case *c), void *ud)
{
    struct contract_list lists[CONTRACT_LISTS];

    for (size_t c = 0; c < sizeof(of_file) / sizeof(of_file[0]); c++) {
        visit(ud, &of_file[c]);
    }
    for (size_t k = 0; kinds[k]; k++) {
        contract_cases(kinds[k], lists);
        for (size_t i = k == 0 ? 0 : 1; i < CONTRACT_LISTS; i++) {
            for (size_t c = 0; c < lists[i].n; c++) {
                visit(ud, &lists[i].cases[c]);
            }
        }
    }
}

static void list_rule(void *ud, const struct contract_case *c)
{
    (void)ud;
    printf("%s/%s: %s\n", c->suite, c->name, c->rule);
}

/* ---- words of the command line --------------------------------------------------------------- */

/* The names of suites and of cases, to look a word up in. */
struct words {
    char text[CHECK_WORDS_MAX][64];
    const char *list[CHECK_WORDS_MAX + 1];
    size_t n;
};

static void add_word(struct words *w, const char *suite, const char *name)
{
    if (w->n < CHECK_WORDS_MAX) {
        snprintf(w->text[w->n], sizeof(w->text[0]), "%s%s%s", suite, name ? "/" : "",
                 name ? name : "");
        w->list[w->n] = w->text[w->n];
        w->n++;
    }
}

static void add_case(void *ud, const struct contract_case *c)
{
    struct words *w = ud;

    if (w->n == 0 || strncmp(w->text[w->n - 1], c->suite, strlen(c->suite)) != 0) {
        add_word(w, c->suite, NULL);
    }
    add_word(w, c->suite, c->name);
}

/* Says what is wrong with a word that is none of `known`. */
static int unknown_word(const char *option, const char *word, const char *expected,
                        const char *const *known)
{
    const char *near;

    for (size_t i = 0; known[i]; i++) {
        if (strcmp(known[i], word) == 0) {
            return FNKIT_OK;
        }
    }
    near = conf_nearest(word, known);
    fprintf(stderr, "fnkit check: %s, got \"%s\"; expected %s%s%s%s\n", option, word, expected,
            near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return FNKIT_USAGE;
}

static int check_words(const struct check_options *o)
{
    static struct words w;
    int r = FNKIT_OK;

    each_case(add_case, &w);
    if (o->kind) {
        r = unknown_word("--kind", o->kind,
                         "placer, pool, control-plane, overrider, listener, driver, predictor or "
                         "operator",
                         kinds);
    }
    for (uint32_t i = 0; r == FNKIT_OK && i < o->n_skips; i++) {
        r = unknown_word("--skip", o->skips[i], "a case of fnkit check --list", w.list);
    }
    if (r == FNKIT_OK && o->suite) {
        r = unknown_word("--suite", o->suite, "a suite or a case of fnkit check --list", w.list);
    }
    return r;
}

static bool add_set(struct check_options *o, char *text)
{
    char *equals = strchr(text, '=');

    if (!equals || equals == text || o->n_sets == CHECK_SETS_MAX) {
        return false;
    }
    *equals = '\0';
    snprintf(o->set_names[o->n_sets], sizeof(o->set_names[0]), "--set %s", text);
    o->sets[o->n_sets] = (struct conf_override){ text, o->set_names[o->n_sets], equals + 1 };
    o->n_sets++;
    return true;
}

static int take_script(const char *path)
{
    struct conf_problems p;
    int r;

    conf_problems_init(&p);
    r = script_load(path, &p);
    fputs(buf_text(&p.text), stderr);
    conf_problems_finish(&p);
    return r < 0 ? FNKIT_REFUSED : FNKIT_OK;
}

static int take_option(struct check_options *o, int c)
{
    char *end;

    switch (c) {
    case 'k':
        o->kind = optarg;
        break;
    case 'n':
        o->name = optarg;
        break;
    case 's':
        o->suite = optarg;
        break;
    case 'x':
        if (o->n_skips == CHECK_SKIPS_MAX) {
            return usage("--skip; expected at most 16", optarg);
        }
        o->skips[o->n_skips++] = optarg;
        break;
    case 'j':
        o->junit = optarg;
        break;
    case 'c':
        return take_script(optarg);
    case 'S':
        o->sim = true;
        break;
    case 'R':
        o->real = true;
        break;
    case 'W':
        o->world = true;
        break;
    case 'i':
        o->image = optarg;
        break;
    case 't':
        o->tap = true;
        break;
    case 'v':
        o->verbose = true;
        break;
    case 'o':
        if (!add_set(o, optarg)) {
            return usage("--set; expected OPTION=VALUE", optarg);
        }
        break;
    case 'r':
        errno = 0;
        o->seed = strtoull(optarg, &end, 10);
        if (errno || end == optarg || *end) {
            return usage("--seed; expected a whole number", optarg);
        }
        break;
    default:
        return usage(NULL, NULL);
    }
    return FNKIT_OK;
}

int fnkit_check(int argc, char **argv)
{
    static const struct option options[] = {
        { "kind", required_argument, NULL, 'k' },  { "name", required_argument, NULL, 'n' },
        { "set", required_argument, NULL, 'o' },   { "suite", required_argument, NULL, 's' },
        { "seed", required_argument, NULL, 'r' },  { "script", required_argument, NULL, 'c' },
        { "junit", required_argument, NULL, 'j' }, { "tap", no_argument, NULL, 't' },
        { "sim", no_argument, NULL, 'S' },         { "real", no_argument, NULL, 'R' },
        { "world", no_argument, NULL, 'W' },       { "image", required_argument, NULL, 'i' },
        { "verbose", no_argument, NULL, 'v' },     { "list", no_argument, NULL, 'l' },
        { "skip", required_argument, NULL, 'x' },  { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    static char self[] = "fnkit check"; /* what getopt_long() calls us */
    struct check_options o = { .seed = 1 };
    char *path;
    int c;
    int r = FNKIT_OK;

    argv[0] = self;
    while (r == FNKIT_OK && (c = getopt_long(argc, argv, "hv", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage_text, stdout);
            return FNKIT_OK;
        }
        if (c == 'l') {
            each_case(list_rule, NULL);
            return FNKIT_OK;
        }
        r = take_option(&o, c);
    }
    if (r != FNKIT_OK) {
        return r;
    }
    if (o.world && (o.sim || o.real)) {
        return usage("--world goes with neither --sim nor --real", NULL);
    }
    if (check_words(&o) != FNKIT_OK) {
        return FNKIT_USAGE;
    }
    if (argc - optind != 1) {
        return usage(optind == argc ? "a file is missing" : "more than one file", NULL);
    }
    o.given = argv[optind];
    path = realpath(o.given, NULL);
    o.path = path ? path : o.given;
    r = check_file(&o);
    free(path);
    script_finish();
    return r;
}
