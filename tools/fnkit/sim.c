/* fnkit sim: placers of plugin files in a simulated cluster, side by side.
 *
 * Each file runs in a child process, so that one which crashes, hangs or reaches for the real world
 * costs a sentence. The child runs the seed twice, the second time over a heap filled with other
 * bytes, and the traces must be equal: a placer that looks at addresses, uninitialised memory,
 * statics or the real clock is found by that. */
#include "fnkit.h"
#include "sim_tripwire.h"

#include <base/log.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <sim/cluster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SETS_MAX  64
#define STUCK_S   5 /* in one call into a plugin */
#define MEMORY_MAX (2048LL * 1024 * 1024)
#define HEAP_FILL 0x5a
#define HEAP_SHIFT (1024 * 1024)

struct run {
    struct cluster_result first;
    uint64_t second_hash;
    int code; /* exit code of the child's work */
};

struct sim_args {
    const char *scenario;
    const char *sets[SETS_MAX];
    uint32_t n_sets;
    struct cluster_options options;
    bool json;
    bool once;
    int64_t budget_ns;
};

static int64_t real_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * ENV_S + t.tv_nsec;
}

static int64_t no_wall_ns(void)
{
    return 0;
}

/* ---- the child ------------------------------------------------------------------------------- */

static void on_trip(const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
    _exit(FNKIT_BROKEN);
}

/* From now on blocks are filled with another byte and lie elsewhere: what the first run gave back
 * is taken by blocks that stay, until the child ends. */
static void other_heap(void)
{
    size_t left;

    mallopt(M_PERTURB, HEAP_FILL);
    malloc_trim(0);
    left = mallinfo2().fordblks + HEAP_SHIFT;
    for (size_t size = 16; left > size; left -= size) {
        void *volatile block = malloc(size);

        (void)block;
        size = size < 1040 ? size + 16 : 16;
    }
}

static void stuck(const struct plugin_crumb *c)
{
    char text[256];
    int n = snprintf(text, sizeof(text),
                     "SIM109 %s %s: %s() did not come back within %d s; expected microseconds\n",
                     plugin_factory(c->plugin)->kind, plugin_name(c->plugin), c->method, STUCK_S);

    if (write(STDERR_FILENO, text, (size_t)n) < n) {
        _exit(FNKIT_UNAVAILABLE);
    }
    _exit(FNKIT_BROKEN);
}

/* Each second: is it still the same call into a plugin? */
static void on_tick(int signo)
{
    static const struct plugin *plugin;
    static uint64_t calls;
    static int same;
    const struct plugin_crumb *c = plugin_current();

    (void)signo;
    if (!c || c->plugin != plugin || plugin_calls(c->plugin) != calls) {
        same = 0;
    } else if (++same == STUCK_S) {
        stuck(c);
    }
    plugin = c ? c->plugin : NULL;
    calls = c ? plugin_calls(c->plugin) : 0;
}

static void watch_calls(void)
{
    const struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
    const struct itimerval second = { { 1, 0 }, { 1, 0 } };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &second, NULL);
}

static void on_still(int64_t at_ns)
{
    struct plugin_busy last = { "?", "plugin", "?", 0 };

    plugin_last_call(&last);
    fprintf(stderr,
            "SIM110 %s %s: time stands still at %.3f s of the run, the last call was %s(): %u events "
            "within 100 ms; expected timers and waits that let time pass\n",
            last.kind, last.name, (double)at_ns / 1e9, last.method, SIM_STILL_EVENTS);
    _exit(FNKIT_BROKEN);
}

static int simulate(const struct scenario *sc, const struct sim_args *a, struct run *ret)
{
    struct cluster_result second;
    struct conf_problems p;
    struct fn_error e = ERR_INIT;
    int r;

    conf_problems_init(&p);
    tripwire_handler(on_trip);
    watch_calls();
    r = cluster_run(sc, &a->options, &ret->first, &p, &e);
    if (r == 0 && !a->once) {
        struct cluster_options again = a->options;

        again.real_ns = NULL;
        other_heap();
        r = cluster_run(sc, &again, &second, &p, &e);
        ret->second_hash = second.hash;
    }
    if (r < 0) {
        fputs(p.n ? buf_text(&p.text) : e.msg, stderr);
        fputs(p.n ? "" : "\n", stderr);
    }
    conf_problems_finish(&p);
    return r == 0 ? FNKIT_OK : FNKIT_REFUSED;
}

/* A plugin that leaks must not take the machine with it. */
static void limit_memory(void)
{
    const struct rlimit data = { MEMORY_MAX, MEMORY_MAX };
    const struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    if (tripwire_set()) { /* no sanitizer, whose shadow memory would count */
        setrlimit(RLIMIT_DATA, &data);
    }
}

static void run_child(const struct scenario *sc, const struct sim_args *a, int fd)
{
    struct run run = { .code = FNKIT_OK };

    limit_memory();
    run.code = simulate(sc, a, &run);
    fflush(NULL);
    if (write(fd, &run, sizeof(run)) != sizeof(run)) {
        _exit(FNKIT_UNAVAILABLE);
    }
    _exit(0);
}

static int tell_death(const char *path, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == FNKIT_BROKEN) {
        return FNKIT_BROKEN; /* the tripwire told */
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "SIM104 %s: crashed while it was simulated: %s\n", path,
                strsignal(WTERMSIG(status)));
    } else {
        fprintf(stderr, "SIM104 %s: ended the process with exit code %d while it was simulated\n",
                path, WEXITSTATUS(status));
    }
    return FNKIT_BROKEN;
}

/* Constructors run while a file is loaded: that must end, before anything waits for it. */
static int load_in_child(void *ud)
{
    const char *path = ud;
    struct plugin_host *h = plugin_host_create(NULL);
    struct plugin_file *file;
    struct buf lines = BUF_INIT(0);
    struct fn_error e = ERR_INIT;

    if (!h) {
        return FNKIT_UNAVAILABLE;
    }
    if (sim_plugin_open(h, path, &file, &lines, &e) < 0) {
        fputs(lines.len ? buf_text(&lines) : e.msg, stderr);
        return FNKIT_REFUSED;
    }
    return FNKIT_OK;
}

static int loads(const char *path)
{
    char why[512];
    int r = child_run(load_in_child, (void *)(uintptr_t)path, path, FNKIT_LOAD_TIMEOUT_MS, why,
                      sizeof(why));

    if (r < 0) {
        fprintf(stderr, "%s\n", why);
        r = FNKIT_REFUSED;
    }
    return r;
}

static int run_one(const struct scenario *sc, const struct sim_args *a, struct run *ret)
{
    size_t have = 0;
    int status = 0;
    int fds[2];
    ssize_t n;
    pid_t pid;

    fflush(NULL);
    if (pipe(fds) < 0 || (pid = fork()) < 0) {
        fprintf(stderr, "fnkit sim: no child process: %s\n", strerror(errno));
        return FNKIT_UNAVAILABLE;
    }
    if (pid == 0) {
        close(fds[0]);
        run_child(sc, a, fds[1]);
    }
    close(fds[1]);
    while (have < sizeof(*ret) &&
           ((n = read(fds[0], (char *)ret + have, sizeof(*ret) - have)) > 0 ||
            (n < 0 && errno == EINTR))) {
        have += n > 0 ? (size_t)n : 0;
    }
    close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return have == sizeof(*ret) ? ret->code : tell_death(a->options.path, status);
}

/* What a run must hold besides having come to its end. */
static int judge(const struct sim_args *a, const struct scenario *sc, const struct run *run)
{
    struct buf lines = BUF_INIT(0);
    int code = FNKIT_OK;

    if (cluster_expect(sc, &run->first, &lines) > 0) {
        fprintf(stderr, "SIM108 %s: seed %" PRIu64 " did not bring what the scenario expects:\n%s",
                a->options.path, a->options.seed, buf_text(&lines));
        code = FNKIT_BROKEN;
    }
    buf_finish(&lines);

    if (!a->once && run->second_hash != run->first.hash) {
        fprintf(stderr,
                "SIM105 %s: the same seed gave two traces, got %016" PRIx64 " and %016" PRIx64
                "; expected decisions that depend on nothing but the host's tables\n",
                a->options.path, run->first.hash, run->second_hash);
        code = FNKIT_BROKEN;
    }
    if (a->budget_ns > 0 && run->first.decide_ns > a->budget_ns) {
        fprintf(stderr, "SIM106 %s: a decision took %" PRId64 " ns; expected at most %" PRId64 "\n",
                a->options.path, run->first.decide_ns, a->budget_ns);
        code = FNKIT_BROKEN;
    }
    if (run->first.bad_answers > 0) {
        fprintf(stderr, "SIM107 %s: gave %" PRIu64 " answers that the host cannot use; expected "
                "none. The first: %s\n", a->options.path, run->first.bad_answers,
                run->first.first_bad);
        code = FNKIT_BROKEN;
    }
    return code;
}

/* ---- the report ------------------------------------------------------------------------------ */

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static double per_second(const struct cluster_result *r, uint64_t n)
{
    return r->real_ns > 0 ? (double)n * 1e9 / (double)r->real_ns : 0;
}

static json_t *row_number(const char *name, double v, const char *unit)
{
    return json_pack("{s:s, s:f, s:s}", "name", name, "value", v, "unit", unit);
}

static void add(json_t *rows, const char *name, double v, const char *unit)
{
    json_array_append_new(rows, row_number(name, v, unit));
}

/* One source for the table and for JSON. A number that makes no sense is absent from `rows` of its
 * run, and shows as "-". */
static json_t *rows_of(const struct sim_args *a, const struct run *run)
{
    const struct cluster_result *r = &run->first;
    json_t *rows = json_array();

    add(rows, "calls", (double)r->calls, "");
    add(rows, "placed", (double)r->placed, "");
    add(rows, "refused", share(r->refused, r->calls), "%");
    add(rows, "lost with a runner", (double)r->lost, "");
    add(rows, "wait p50", (double)r->wait_p50_ns / 1e6, "ms");
    add(rows, "wait p99", (double)r->wait_p99_ns / 1e6, "ms");
    add(rows, "slowdown p50", (double)r->slowdown_p50 / 1e3, "x");
    add(rows, "slowdown p99", (double)r->slowdown_p99 / 1e3, "x");
    add(rows, "cold starts", share(r->cold, r->placed), "%");
    add(rows, "attempts per call", r->calls ? (double)r->attempts / (double)r->calls : 0, "");
    add(rows, "runners used", r->used, "");
    if (r->has_homes && r->homes > 0) {
        add(rows, "moved per change", share(r->moved, r->homes), "%");
        add(rows, "collateral moves", share(r->collateral, r->unaffected), "%");
    }
    if (a->options.real_ns) {
        add(rows, "time of a decision", (double)r->decide_ns, "ns");
        add(rows, "decisions per real second", per_second(r, r->decisions), "/s");
        add(rows, "placed per real second", per_second(r, r->placed_all), "/s");
    }
    return rows;
}

static json_t *report(const struct sim_args *a, const struct run *run)
{
    char hash[17];

    snprintf(hash, sizeof(hash), "%016" PRIx64, run->first.hash);
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "file", a->options.path, "placer",
                     run->first.name, "trace", hash, "same_twice",
                     a->once ? 0 : run->second_hash == run->first.hash, "rows", rows_of(a, run));
}

static const json_t *row_find(const json_t *runs, size_t i, const char *name)
{
    const json_t *row;
    size_t k;

    json_array_foreach(json_object_get(json_array_get(runs, i), "rows"), k, row) {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0) {
            return row;
        }
    }
    return NULL;
}

static void print_value(const json_t *row)
{
    double v = row ? json_real_value(json_object_get(row, "value")) : 0;
    const char *unit = row ? json_string_value(json_object_get(row, "unit")) : "";

    if (!row) {
        printf(" %18s", "-");
    } else if (v == (double)(int64_t)v && unit[0] != '%') {
        printf(" %14.0f %-3s", v, unit);
    } else if (v >= 1000) {
        printf(" %14.0f %-3s", v, unit);
    } else {
        printf(" %14.2f %-3s", v, unit);
    }
}

static void print_table(const struct sim_args *a, const struct scenario *sc, const json_t *runs)
{
    static const char *const names[] = {
        "calls", "placed", "refused", "lost with a runner", "wait p50", "wait p99", "slowdown p50",
        "slowdown p99", "cold starts", "attempts per call", "runners used", "moved per change",
        "collateral moves", "time of a decision", "decisions per real second",
        "placed per real second",
    };
    size_t n = json_array_size(runs);

    printf("%s: %s\nseed %" PRIu64 ": %lld LB, %u runners, %lld functions, %lld s\n\n%-26s",
           a->scenario, sc->top->summary, a->options.seed, (long long)sc->top->lbs, sc->n_runners,
           (long long)sc->functions->count, (long long)(sc->top->duration_ns / ENV_S), "");
    for (size_t i = 0; i < n; i++) {
        printf(" %18s", json_string_value(json_object_get(json_array_get(runs, i), "placer")));
    }
    puts("");
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        printf("%-26s", names[k]);
        for (size_t i = 0; i < n; i++) {
            print_value(row_find(runs, i, names[k]));
        }
        puts("");
    }
    printf("%-26s", "trace");
    for (size_t i = 0; i < n; i++) {
        printf(" %18s", json_string_value(json_object_get(json_array_get(runs, i), "trace")));
    }
    puts("");
}

static void print_json(const struct sim_args *a, json_t *runs)
{
    json_t *o = json_pack("{s:s, s:I, s:O}", "scenario", a->scenario, "seed",
                          (json_int_t)a->options.seed, "runs", runs);

    json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    puts("");
    json_decref(o);
}

/* ---- the command line ------------------------------------------------------------------------ */

static int usage(int code)
{
    fputs("usage: fnkit sim --scenario FILE [OPTION]... PLUGIN...\n"
          "\n"
          "Runs the placers of plugin files in a simulated cluster and compares them.\n"
          "\n"
          "  --seed N          what chance there is; the same seed gives the same run (1)\n"
          "  --set KEY=VALUE   changes the scenario: runners.count=20, placer.retry_delay=5ms\n"
          "  --use NAME        which placer, when a file has several\n"
          "  --inner FILE      a placer that the plugins wrap; innermost first\n"
          "  --nasty           late, batched and shuffled timers, jumps of the clock\n"
          "  --budget-ns N     fails when a decision takes longer on average\n"
          "  --once            runs the seed once; otherwise twice, and the traces must be equal\n"
          "  --json            the numbers as JSON\n"
          "  --reference       lists the keys of a scenario\n"
          "\n"
          "exit codes: 1 a plugin broke a rule, 64 usage, 78 scenario or plugin refused\n",
          code == FNKIT_OK ? stdout : stderr);
    return code;
}

static int bad_number(const char *option, const char *got)
{
    fprintf(stderr, "fnkit sim: %s, got %s; expected a whole number from 0\n", option,
            conf_quote(got));
    return FNKIT_USAGE;
}

static int reference(void)
{
    struct buf out = BUF_INIT(0);

    fputs("# Keys of a scenario\n\nWritten by `fnkit sim --reference`; see [simulator.md](simulator.md). "
          "`--set` names a key as\n`section.key`, one of the top level as `key`. Section `placer` "
          "holds the options of the placer that decides.\n",
          stdout);
    scenario_reference(&out);
    fputs(buf_text(&out), stdout);
    buf_finish(&out);
    return FNKIT_OK;
}

enum {
    O_SEED = 1, O_SET, O_USE, O_INNER, O_NASTY, O_BUDGET, O_ONCE, O_JSON, O_SCENARIO, O_REFERENCE
};

static const struct option options[] = {
    { "scenario", required_argument, NULL, O_SCENARIO },
    { "seed", required_argument, NULL, O_SEED },
    { "set", required_argument, NULL, O_SET },
    { "use", required_argument, NULL, O_USE },
    { "inner", required_argument, NULL, O_INNER },
    { "nasty", no_argument, NULL, O_NASTY },
    { "budget-ns", required_argument, NULL, O_BUDGET },
    { "once", no_argument, NULL, O_ONCE },
    { "twice", no_argument, NULL, 'h' + 256 },
    { "json", no_argument, NULL, O_JSON },
    { "reference", no_argument, NULL, O_REFERENCE },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* 0, or an exit code + 1. */
static int take(struct sim_args *a, int c)
{
    int64_t n;

    switch (c) {
    case O_SCENARIO:
        a->scenario = optarg;
        return 0;
    case O_SEED:
        if (conf_parse_int(optarg, &n) < 0 || n < 0) {
            return bad_number("--seed", optarg) + 1;
        }
        a->options.seed = (uint64_t)n;
        return 0;
    case O_BUDGET:
        if (conf_parse_int(optarg, &a->budget_ns) < 0 || a->budget_ns < 0) {
            return bad_number("--budget-ns", optarg) + 1;
        }
        return 0;
    case O_SET:
        if (a->n_sets == SETS_MAX) {
            fprintf(stderr, "fnkit sim: --set, got more than %d\n", SETS_MAX);
            return FNKIT_USAGE + 1;
        }
        a->sets[a->n_sets++] = optarg;
        return 0;
    case O_INNER:
        if (a->options.n_inner == CLUSTER_INNER_MAX) {
            fprintf(stderr, "fnkit sim: --inner, got more than %u\n", CLUSTER_INNER_MAX);
            return FNKIT_USAGE + 1;
        }
        a->options.inner[a->options.n_inner++] = optarg;
        return 0;
    case O_USE:
        a->options.use = optarg;
        return 0;
    case O_NASTY:
        a->options.nasty = true;
        return 0;
    case O_ONCE:
        a->once = true;
        return 0;
    case O_JSON:
        a->json = true;
        return 0;
    case 'h' + 256:
        return 0;
    case O_REFERENCE:
        return reference() + 1;
    default:
        return usage(c == 'h' ? FNKIT_OK : FNKIT_USAGE) + 1;
    }
}

static int run_all(struct sim_args *a, const struct scenario *sc, char **files, int n)
{
    json_t *runs = json_array();
    int worst = FNKIT_OK;

    for (int i = 0; i < n; i++) {
        struct run run;
        int code;

        a->options.path = files[i];
        code = loads(files[i]);
        code = code == FNKIT_OK ? run_one(sc, a, &run) : code;
        if (code == FNKIT_OK) {
            json_array_append_new(runs, report(a, &run));
            code = judge(a, sc, &run);
        }
        worst = code > worst ? code : worst;
    }
    if (json_array_size(runs) > 0) {
        if (a->json) {
            print_json(a, runs);
        } else {
            print_table(a, sc, runs);
        }
    }
    json_decref(runs);
    return worst;
}

int fnkit_sim(int argc, char **argv)
{
    struct sim_args a = { .options = { .seed = 1, .real_ns = real_ns, .still = on_still } };
    struct scenario *sc = NULL;
    struct conf_problems p;
    int c, r;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        r = take(&a, c);
        if (r > 0) {
            return r - 1;
        }
    }
    if (!a.scenario || optind == argc) {
        fprintf(stderr, "fnkit sim: %s is missing\n", a.scenario ? "a plugin file" : "--scenario");
        return usage(FNKIT_USAGE);
    }
    log_setup(&(struct log_config){ .level = FN_LOG_ERROR, .fd = STDERR_FILENO,
                                    .wall_ns = no_wall_ns });
    conf_problems_init(&p);
    r = scenario_load(a.scenario, a.sets, a.n_sets, &sc, &p);
    if (r < 0) {
        fputs(buf_text(&p.text), stderr);
        r = FNKIT_REFUSED;
    } else {
        r = run_all(&a, sc, argv + optind, argc - optind);
    }
    scenario_destroy(sc);
    conf_problems_finish(&p);
    return r;
}
