/* Nanoseconds per placement decision through a loaded plugin, and per breadcrumb.
 *
 * usage: bench_decide [folder with plugins] [runners] [decisions]
 * prints one line per case: name, ns per decision (median of 5 rounds). */
#include <plugin/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 5
#define KEYS   1024

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * ENV_S + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void die(const struct fn_error *e)
{
    fprintf(stderr, "bench_decide: %s\n", e->msg);
    exit(1);
}

static struct plugin *load(struct plugin_host *h, const char *dir, const char *name,
                           const char *option)
{
    struct conf_problems problems;
    struct conf_values *values = NULL;
    struct plugin_file *f = NULL;
    struct plugin *p = NULL;
    struct fn_error e = ERR_INIT;
    const struct fn_factory *factory;
    char path[4096];

    if (plugin_path_for(dir, FN_KIND_PLACER, name, path, sizeof(path)) < 0 ||
        plugin_file_open(h, path, &f, &e) < 0) {
        die(&e);
    }
    factory = plugin_file_factory(f, FN_KIND_PLACER, name);
    conf_problems_init(&problems);
    conf_bind(NULL, NULL, name, factory->opts, factory->conf_size, NULL, &values, &problems);
    if (option) {
        conf_override(values, option, "bench", "true", &problems);
    }
    if (problems.n) {
        err_set(&e, FN_E_INVALID, "%s", buf_text(&problems.text));
        die(&e);
    }
    conf_problems_finish(&problems);
    if (plugin_create(h, f, factory, name, values, &p, &e) < 0) {
        die(&e);
    }
    return p;
}

/* A list as a pool would publish it. */
static struct fn_snapshot make_snapshot(uint32_t n)
{
    struct fn_runner *runners = calloc(n, sizeof(*runners));
    char *text = malloc((size_t)n * 32);
    uint32_t i;

    if (!runners || !text) {
        exit(1);
    }
    for (i = 0; i < n; i++) {
        snprintf(text + (size_t)i * 32, 32, "10.%u.%u.%u:9190", i >> 16, (i >> 8) & 255, i & 255);
        runners[i] = (struct fn_runner){ .id = i + 1, .address = text + (size_t)i * 32,
                                         .weight = 1 };
    }
    return (struct fn_snapshot){ .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                 .epoch = 1,
                                 .n = n,
                                 .stride = sizeof(*runners),
                                 .group = "default",
                                 .runners = runners };
}

static double round_of(struct plugin *p, const struct fn_snapshot *snap, uint64_t decisions)
{
    static char ids[KEYS][32];
    const struct fn_placer_ops *ops = plugin_ops(p);
    struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL) };
    struct fn_ask ask = { .size = sizeof(ask), .why = FN_WHY_START, .call = &call, .snap = snap };
    uint64_t session[FN_PLACER_SESSION_MAX / 8];
    struct plugin_crumb crumb;
    struct fn_answer answer;
    uint64_t sum = 0;
    int64_t start;
    uint64_t i;

    for (i = 0; i < KEYS; i++) {
        snprintf(ids[i], sizeof(ids[i]), "01M7Y437YSR00040GZYG%06u", (unsigned)i);
    }
    ask.session = session;
    start = now_ns();
    for (i = 0; i < decisions; i++) {
        call.fn_id = ids[i % KEYS];
        memset(session, 0, ops->session_size);
        answer = (struct fn_answer){ .size = sizeof(answer) };
        plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
        ops->decide(plugin_inst(p), &ask, &answer);
        plugin_leave(&crumb);
        if (answer.verdict != FN_TRY || answer.index >= snap->n) {
            fprintf(stderr, "bench_decide: %s gave no runner\n", plugin_name(p));
            exit(1);
        }
        sum += answer.index;
    }
    start = now_ns() - start;
    return sum == 1 ? 0 : (double)start / (double)decisions;
}

static double crumbs_only(struct plugin *p, uint64_t n)
{
    struct plugin_crumb crumb;
    int64_t start = now_ns();
    uint64_t i;

    for (i = 0; i < n; i++) {
        plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
        plugin_leave(&crumb);
    }
    return (double)(now_ns() - start) / (double)n;
}

static void print_median(const char *name, double *rounds)
{
    qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
    printf("%-18s %8.1f ns\n", name, rounds[ROUNDS / 2]);
}

/* build/plugins beside build/bench. */
static const char *default_dir(void)
{
    static char dir[4096];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 16);
    char *slash;
    int i;

    dir[n > 0 ? n : 0] = '\0';
    for (i = 0; i < 2 && (slash = strrchr(dir, '/')); i++) {
        *slash = '\0';
    }
    memcpy(dir + strlen(dir), "/plugins", sizeof("/plugins"));
    return dir;
}

int main(int argc, char **argv)
{
    static const char *const cases[][3] = { { "decide-naive", "naive", NULL },
                                            { "decide-ch", "ch", NULL },
                                            { "decide-ch-go", "ch", "go_variant" } };
    uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10000;
    uint64_t decisions = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000000;
    const char *dir = argc > 1 ? argv[1] : default_dir();
    struct plugin_host *h = plugin_host_create(NULL);
    struct fn_snapshot snap;
    double rounds[ROUNDS];
    struct plugin *p;
    size_t c;
    int i;

    if (n == 0 || decisions == 0) {
        fprintf(stderr, "usage: bench_decide [folder with plugins] [runners] [decisions]\n");
        return 64;
    }
    snap = make_snapshot(n);
    for (c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        p = load(h, dir, cases[c][1], cases[c][2]);
        for (i = 0; i < ROUNDS; i++) {
            rounds[i] = round_of(p, &snap, decisions);
        }
        print_median(cases[c][0], rounds);
        if (c + 1 == sizeof(cases) / sizeof(cases[0])) {
            for (i = 0; i < ROUNDS; i++) {
                rounds[i] = crumbs_only(p, decisions);
            }
            print_median("breadcrumb", rounds);
        }
        plugin_destroy(p);
    }
    plugin_host_destroy(h);
    return 0;
}
