/* The child of fnkit check: the only process that ever runs the plugin's code, with one more child
 * for each case, which Check forks, watches and ends. */
#include "check.h"
#include "outside.h"
#include "real.h"
#include "watch.h"

#include <base/log.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CHECK_TIMEOUT_S 150 /* of Check, if the watch fails; below CASE_TIMEOUT_MS of check.c */
#define SANITIZED_TIMES 4   /* slower */
#define WORLD_TIMES 28      /* containers start, machines come */
#define STUCK_MAX 4         /* then the rest of a factory is skipped */
#define LEFT_OUT "left out by --skip"

struct worker {
    const struct check_options *o;
    int fd;
    uint32_t ran;
    uint32_t stuck; /* cases of this factory that did not come back */
    uint32_t factories; /* that were asked for */
    bool refused;       /* a value of --set */
    struct plugin_file *file;
};

static const struct contract_case *current;

static void send(struct worker *w, const struct report_result *one)
{
    const char *at = (const char *)one;
    size_t left = sizeof(*one);
    ssize_t n;

    while (left > 0) {
        n = write(w->fd, at, left);
        if (n <= 0) {
            _exit(FNKIT_UNAVAILABLE); /* nobody listens any more */
        }
        at += n;
        left -= (size_t)n;
    }
}

static bool is_left_out(const struct check_options *o, const char *suite, const char *name)
{
    char full[80];

    snprintf(full, sizeof(full), "%s/%s", suite, name);
    for (uint32_t i = 0; i < o->n_skips; i++) {
        if (strcmp(o->skips[i], full) == 0) {
            return true;
        }
    }
    return false;
}

static void send_from_lint(void *ud, const struct report_result *one)
{
    struct worker *w = ud;
    struct report_result left_out = *one;

    if (is_left_out(w->o, one->suite, one->name)) {
        left_out.verdict = REPORT_SKIPPED;
        snprintf(left_out.text, sizeof(left_out.text), LEFT_OUT);
    }
    send(w, &left_out);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- one case -------------------------------------------------------------------------------- */

START_TEST(run_current)
{
    (void)_i;
    contract_run(current);
}
END_TEST

static int times_longer(void)
{
    return subject.world ? WORLD_TIMES : CONTRACT_SANITIZED ? SANITIZED_TIMES : 1;
}

static int64_t method_ms(const struct worker *w)
{
    return (w->stuck ? WATCH_AGAIN_MS : WATCH_METHOD_MS) * (int64_t)times_longer();
}

/* Where the plugin was when it went wrong. */
static void place(char *ret, size_t cap)
{
    int n;

    if (shared->finished) {
        n = snprintf(ret, cap,
                     "when its process ended: in an atexit() handler or a destructor of the "
                     "file");
    } else if (shared->method[0]) {
        n = snprintf(ret, cap, "in %s()", shared->method);
    } else if (shared->last[0]) {
        n = snprintf(ret, cap, "after %s()", shared->last);
    } else {
        n = snprintf(ret, cap, "before any call");
    }
    if (shared->place[0]) {
        n += snprintf(ret + n, cap - (size_t)n, ", %s", shared->place);
    }
    if (shared->touched[0]) {
        snprintf(ret + n, cap - (size_t)n, ": %s", shared->touched);
    }
}

/* The method that most of the case's time went into, if each of its calls came back: it is slow,
 * not endless. NULL: there is none. */
static const struct contract_time *slow_method(void)
{
    const int64_t half_ns = (int64_t)WATCH_CASE_MS * times_longer() * 1000000 / 2;
    const struct contract_time *t = shared->times;

    for (; t < shared->times + CONTRACT_METHODS_MAX && t->method[0]; t++) {
        if (t->loop && t->total_ns >= half_ns) {
            return t;
        }
    }
    return NULL;
}

static void tell_hang(struct worker *w, enum watch_end end, struct report_result *one)
{
    const struct contract_time *slow = end == WATCH_METHOD_HANGS ? NULL : slow_method();
    char where[400];

    place(where, sizeof(where));
    if (end == WATCH_METHOD_HANGS) {
        snprintf(one->text, sizeof(one->text), "did not come back within %g s %s",
                 (double)method_ms(w) / 1000.0, where);
    } else if (slow) {
        snprintf(one->text, sizeof(one->text),
                 "is slow: %s() took %lld us of real time on average in %llu calls, so that the "
                 "case did not end within %d s; expected %sless than %lld us",
                 slow->method, (long long)(slow->total_ns / (int64_t)slow->calls / 1000),
                 (unsigned long long)slow->calls, WATCH_CASE_MS * times_longer() / 1000,
                 contract_usual(slow->method), (long long)(PLUGIN_BUDGET_LOOP_NS / 1000));
    } else {
        snprintf(one->text, sizeof(one->text),
                 "goes on and on: the case did not end within %d s, last %s",
                 WATCH_CASE_MS * times_longer() / 1000, where);
    }
    w->stuck++;
}

static void tell_error(struct worker *w, enum watch_end end, const char *said,
                       struct report_result *one)
{
    const char *open = strchr(said, '(');
    char where[400];

    place(where, sizeof(where));
    if (end != WATCH_ENDED || strstr(said, "timeout")) {
        tell_hang(w, end, one);
    } else if (strstr(said, "signal") && open) {
        snprintf(one->text, sizeof(one->text), "crashed (%.*s) %s", (int)strcspn(open + 1, ")"),
                 open + 1, where);
    } else {
        snprintf(one->text, sizeof(one->text), "ended the process %s (%s)", where, said);
    }
}

/* A case that met a broken rule of another one has that one's rule. */
static void name_rule(struct report_result *one)
{
    struct contract_list lists[CONTRACT_LISTS];
    char full[80];

    if (!shared->rule_of[0]) {
        return;
    }
    contract_cases(subject.factory->kind, lists);
    for (size_t i = 0; i < CONTRACT_LISTS; i++) {
        for (size_t k = 0; k < lists[i].n; k++) {
            snprintf(full, sizeof(full), "%s/%s", lists[i].cases[k].suite, lists[i].cases[k].name);
            if (strcmp(full, shared->rule_of) == 0) {
                snprintf(one->rule, sizeof(one->rule), "%s", lists[i].cases[k].rule);
                snprintf(one->rule_of, sizeof(one->rule_of), "%s", full);
            }
        }
    }
}

static void judge(struct worker *w, enum watch_end end, SRunner *sr, struct report_result *one)
{
    TestResult **results = srunner_results(sr);
    int n = srunner_ntests_run(sr);

    if (end == WATCH_ENDED && shared->finished && shared->note[0]) {
        snprintf(one->text, sizeof(one->text), "%s%s%s", shared->note,
                 shared->unscripted[0] ? "; first asked for: " : "", shared->unscripted);
        one->verdict = REPORT_SKIPPED;
    } else if (end != WATCH_ENDED || n != 1 || tr_rtype(results[0]) == CK_ERROR) {
        tell_error(w, end, n == 1 ? tr_msg(results[0]) : "no result", one);
        one->verdict = REPORT_FAILED;
    } else if (tr_rtype(results[0]) == CK_FAILURE) {
        snprintf(one->text, sizeof(one->text), "%s", tr_msg(results[0]));
        one->verdict = REPORT_FAILED;
    } else if (!shared->finished) {
        tell_error(w, end, "exit code 0", one);
        one->verdict = REPORT_FAILED;
    }
    if (one->verdict == REPORT_PASSED && shared->unscripted[0]) {
        snprintf(one->text, sizeof(one->text), "no script answers: %s", shared->unscripted);
    }
    if (one->verdict == REPORT_FAILED) {
        snprintf(one->at, sizeof(one->at), "%s", shared->step);
        name_rule(one);
    }
    free(results);
}

static void tell_times(struct report_result *one)
{
    const struct contract_time *slowest = NULL;
    const struct contract_time *t = shared->times;

    for (; t < shared->times + CONTRACT_METHODS_MAX && t->method[0]; t++) {
        if (!slowest ||
            t->total_ns / (int64_t)t->calls > slowest->total_ns / (int64_t)slowest->calls) {
            slowest = t;
        }
    }
    if (slowest) {
        snprintf(one->slowest, sizeof(one->slowest),
                 "slowest %s(), %.1f us of real time on average", slowest->method,
                 (double)slowest->total_ns / (double)slowest->calls / 1000.0);
    }
}

static void name_case(struct report_result *one, const struct contract_case *c, const char *factory)
{
    snprintf(one->factory, sizeof(one->factory), "%s", factory);
    snprintf(one->suite, sizeof(one->suite), "%s", c->suite);
    snprintf(one->name, sizeof(one->name), "%s", c->name);
    snprintf(one->rule, sizeof(one->rule), "%s", c->rule);
}

static void skip_case(struct worker *w, const struct contract_case *c, const char *factory,
                      bool left_out)
{
    struct report_result one = { .verdict = REPORT_SKIPPED };

    name_case(&one, c, factory);
    if (left_out) {
        snprintf(one.text, sizeof(one.text), LEFT_OUT);
        w->ran++;
    } else {
        snprintf(one.text, sizeof(one.text), "%d cases before did not end in time", STUCK_MAX);
    }
    send(w, &one);
}

static bool run_case(struct worker *w, const struct contract_case *c, const char *factory)
{
    struct report_result one = { .verdict = REPORT_PASSED,
                                 .real = subject.real,
                                 .world = subject.world,
                                 .broad = (c->also & BROAD) != 0 };
    Suite *s = suite_create(c->suite);
    TCase *tc = tcase_create(c->name);
    SRunner *sr;
    int64_t start = now_ms();

    name_case(&one, c, factory);
    memset(shared, 0, sizeof(*shared));
    current = c;
    tcase_set_timeout(tc, CHECK_TIMEOUT_S);
    tcase_add_test(tc, run_current);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_FORK);
    srunner_set_log(sr, NULL);
    watch_begin(method_ms(w), (int64_t)WATCH_CASE_MS * times_longer());
    srunner_run_all(sr, CK_SILENT);
    judge(w, watch_stop(), sr, &one);
    tell_times(&one);
    srunner_free(sr);
    case_dir_remove();
    one.took_ms = now_ms() - start;
    w->ran++;
    send(w, &one);
    return one.verdict != REPORT_FAILED;
}

/* Over our tables, and where it makes sense over a node's; or over the world. */
static bool run_both(struct worker *w, const struct contract_case *c, const char *factory)
{
    bool good = true;

    if (w->o->world) {
        return (c->also & ALSO_WORLD) == 0 || run_case(w, c, factory);
    }
    if ((c->also & ONLY_WORLD) == ONLY_WORLD) {
        return true;
    }
    good = w->o->real || run_case(w, c, factory);
    if (good && (c->also & ALSO_REAL) && !w->o->sim && real_possible(subject.factory)) {
        subject.real = true;
        good = run_case(w, c, factory);
        subject.real = false;
    }
    return good;
}

/* ---- one factory ----------------------------------------------------------------------------- */

static bool wanted(const struct check_options *o, const struct contract_case *c)
{
    char full[80];

    if (!o->suite) {
        return true;
    }
    snprintf(full, sizeof(full), "%s/%s", c->suite, c->name);
    return strcmp(o->suite, c->suite) == 0 || strcmp(o->suite, full) == 0;
}

static bool is_asked_for(const struct worker *w, const struct fn_factory *f)
{
    return (!w->o->kind || strcmp(w->o->kind, f->kind) == 0) &&
           (!w->o->name || strcmp(w->o->name, f->name) == 0);
}

static bool has_option(const struct fn_factory *f, const char *key)
{
    for (const struct fn_opt *o = f->opts; o && o->key; o++) {
        if (strcmp(o->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* The options of the command line; in the world the engine is the one that docker would take. */
static const struct conf_override *sets_of(const struct check_options *o,
                                           const struct fn_factory *f)
{
    static struct conf_override all[CHECK_SETS_MAX + 2];
    char *engine = getenv("DOCKER_HOST");
    uint32_t n = 0;

    if (!o->world || !engine || !engine[0] || !has_option(f, "docker_host")) {
        return o->sets;
    }
    all[n++] = (struct conf_override){ "docker_host", "DOCKER_HOST", engine };
    for (uint32_t i = 0; i < o->n_sets; i++) {
        if (strcmp(o->sets[i].key, "docker_host") == 0) {
            return o->sets;
        }
        all[n++] = o->sets[i];
    }
    all[n] = (struct conf_override){ NULL, NULL, NULL };
    return all;
}

/* False: the case that all others build on failed. */
static bool run_wanted(struct worker *w, const struct contract_case *c, const char *factory)
{
    const bool left_out = is_left_out(w->o, c->suite, c->name);

    if (!wanted(w->o, c)) {
        return true;
    }
    if (left_out || w->stuck >= STUCK_MAX) {
        skip_case(w, c, factory, left_out);
        return true;
    }
    return run_both(w, c, factory) || strcmp(c->name, CONTRACT_FIRST_CASE) != 0;
}

static void run_factory(void *ud, const struct fn_factory *f)
{
    struct worker *w = ud;
    struct contract_list lists[CONTRACT_LISTS];
    char name[80];
    size_t i;
    size_t k;

    if (!is_asked_for(w, f)) {
        return;
    }
    w->stuck = 0;
    snprintf(name, sizeof(name), "%s/%s", f->kind, f->name);
    subject = (struct contract_subject){
        .path = w->o->path,
        .factory = f,
        .sets = sets_of(w->o, f),
        .seed = w->o->seed,
        .real = w->o->world,
        .world = w->o->world,
        .image = w->o->image };
    contract_cases(f->kind, lists);
    for (i = 0; i < CONTRACT_LISTS; i++) {
        for (k = 0; k < lists[i].n; k++) {
            if (!run_wanted(w, &lists[i].cases[k], name)) {
                return;
            }
        }
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

/* What this process has loaded for itself, OpenSSL for one, is no node's: the trial of a node, in a
 * program that has the C library alone, tells what a node would miss. Without that program, where
 * fnkit was copied alone, there is none. */
static int try_as_node(const char *path, struct fn_error *reterr)
{
    const struct plugin_policy policy = { .trial = true };
    struct plugin_host *h = plugin_host_create(NULL);
    struct plugin_file *file;
    int r = h ? plugin_host_policy(h, &policy, reterr) : FN_E_UNAVAILABLE;

    r = r < 0 ? r : plugin_file_open(h, path, &file, reterr);
    plugin_host_destroy(h);
    return r == FN_E_UNAVAILABLE ? 0 : r;
}

static bool load(struct worker *w, struct plugin_host *h)
{
    struct report_result one = { .verdict = REPORT_PASSED,
                                 .factory = "file",
                                 .suite = "file",
                                 .name = "load",
                                 .rule = "the file can be loaded, and its tables keep the rules of "
                                         "fn/abi.h" };
    struct buf lines = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    const struct fn_manifest *m;
    struct report_result header = { .name = CHECK_HEADER };
    int r = plugin_file_check(h, w->o->path, NULL, &w->file, &lines, &e);

    r = r < 0 ? r : try_as_node(w->o->path, &e);

    if (r < 0) {
        snprintf(one.text, sizeof(one.text), "%s", lines.len ? buf_text(&lines) : e.msg);
        if (one.text[0] && one.text[strlen(one.text) - 1] == '\n') {
            one.text[strlen(one.text) - 1] = '\0';
        }
        one.verdict = REPORT_FAILED;
    } else {
        m = plugin_file_manifest(w->file);
        snprintf(header.text, sizeof(header.text), "%.60s %.60s\n%s", m->name, m->version,
                 plugin_file_sha256(w->file));
        send(w, &header);
    }
    buf_finish(&lines);
    send(w, &one);
    return r >= 0;
}

/* ---- what the command line asks for ---------------------------------------------------------- */

#define KEYS_MAX 1024 /* options of all factories of a file that are looked through */

static void refuse_usage(struct worker *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void refuse_usage(struct worker *w, const char *fmt, ...)
{
    struct report_result one = { .name = CHECK_USAGE };
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(one.text, sizeof(one.text), fmt, ap);
    va_end(ap);
    send(w, &one);
}

/* The keys of the options that its factories have. */
struct keys {
    const struct worker *w;
    const char *list[KEYS_MAX + 1];
    size_t n;
};

static void add_keys(void *ud, const struct fn_factory *f)
{
    struct keys *k = ud;

    for (const struct fn_opt *o = f->opts; o && o->key && k->n < KEYS_MAX; o++) {
        if (is_asked_for(k->w, f)) {
            k->list[k->n++] = o->key;
        }
    }
}

static bool is_key(const struct keys *k, const char *key)
{
    for (size_t i = 0; i < k->n; i++) {
        if (strcmp(k->list[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static bool sets_known(struct worker *w)
{
    struct keys *k = calloc(1, sizeof(*k));
    const char *bad = NULL;
    const char *near;

    if (!k) {
        return false;
    }
    k->w = w;
    plugin_file_each(w->file, add_keys, k);
    for (uint32_t i = 0; i < w->o->n_sets && !bad; i++) {
        bad = is_key(k, w->o->sets[i].key) ? NULL : w->o->sets[i].key;
    }
    if (bad) {
        near = conf_nearest(bad, k->list);
        refuse_usage(w, "--set, got \"%.60s\"; expected an option of the file, as fnkit inspect "
                     "tells them%s%.60s%s", bad, near ? "; did you mean \"" : "",
                     near ? near : "", near ? "\"?" : "");
    }
    free(k);
    return !bad;
}

/* Values that a host refuses before the plugin sees them. */
static void check_values(void *ud, const struct fn_factory *f)
{
    struct worker *w = ud;
    struct conf_values *values = NULL;
    struct conf_problems p;

    if (w->o->n_sets == 0 || !is_asked_for(w, f) || w->refused) {
        return;
    }
    subject = (struct contract_subject){ .factory = f, .sets = sets_of(w->o, f) };
    conf_problems_init(&p);
    instance_options(NULL, &values, &p);
    if (p.n > 0) {
        w->refused = true;
        refuse_usage(w, "%.*s", (int)strcspn(buf_text(&p.text), "\n"), buf_text(&p.text));
    }
    conf_values_destroy(values);
    conf_problems_finish(&p);
}

static void count_factory(void *ud, const struct fn_factory *f)
{
    struct worker *w = ud;

    w->factories += is_asked_for(w, f);
}

/* Before any case runs; false when it was told what is wrong. */
static bool check_command(struct worker *w)
{
    plugin_file_each(w->file, count_factory, w);
    if (w->factories == 0) {
        refuse_usage(w, "--kind or --name, got \"%s%s%s\"; expected a factory of the file, as "
                     "fnkit inspect tells them", w->o->kind ? w->o->kind : "",
                     w->o->kind && w->o->name ? "/" : "", w->o->name ? w->o->name : "");
        return false;
    }
    if (!sets_known(w)) {
        return false;
    }
    plugin_file_each(w->file, check_values, w);
    return !w->refused;
}

static int64_t no_wall(void)
{
    return 0;
}

void check_worker(const struct check_options *o, int fd)
{
    /* What a node would log of its plugins is in the report. */
    const struct log_config quiet = {
        .level = FN_LOG_ERROR, .fd = STDERR_FILENO, .wall_ns = no_wall };
    struct worker w = { .o = o, .fd = fd };
    const struct report_result end = { .name = CHECK_END };
    const struct rlimit none = { 0, 0 };
    struct plugin_host *h = plugin_host_create(NULL);

    log_setup(&quiet);
    setrlimit(RLIMIT_CORE, &none);
    if (!h || contract_open() < 0 || watch_open() < 0) {
        _exit(FNKIT_UNAVAILABLE);
    }
    if (load(&w, h) && check_command(&w)) {
        if (o->world) {
            ; /* the file is the same as without it */
        } else if (!o->suite || strcmp(o->suite, "file") == 0 ||
                   strncmp(o->suite, "file/", 5) == 0) {
            check_lint(o->path, w.file, send_from_lint, &w);
            w.ran++;
        }
        plugin_file_each(w.file, run_factory, &w);
        if (w.ran == 0) {
            refuse_usage(&w, o->suite ? "--suite, got \"%s\"; expected a suite that the file's "
                                        "kinds have%s"
                                      : "--world, got %.0s%.0sa file without cases for it; "
                                        "expected a driver or a control plane",
                         o->suite ? o->suite : "",
                         o->world ? " with --world" : o->real ? " with --real" : "");
        }
    }
    send(&w, &end);
}
