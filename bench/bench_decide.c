/* Nanoseconds per placement decision through a loaded plugin, and of what the host adds to it.
 *
 * usage: bench_decide [folder with plugins] [runners] [decisions]
 * prints one line per case: name, nanoseconds (median of 5 rounds). */
#include <base/log.h>
#include <fn/view.h>
#include <plugin/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS     5
#define KEYS       1024 /* functions */
#define FIRST_ASKS 200

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

/* ---- the host that the plugins get: a clock, so that the time budget counts as in a node ----- */

static int64_t env_clock(struct env *e)
{
    (void)e;
    return now_ns();
}

static uint64_t env_seed(struct env *e)
{
    (void)e;
    return 42;
}

static struct env env = { .now_ns = env_clock, .wall_ns = env_clock, .random_u64 = env_seed };
static struct plugin *inner; /* of a wrapper */

static int find_inner(const struct fn_host *host, const char *name,
                      const struct fn_placer_ops **ret_ops, void **ret_inst,
                      struct fn_error *reterr)
{
    (void)host;
    (void)name;
    (void)reterr;
    *ret_ops = plugin_ops(inner);
    *ret_inst = plugin_inst(inner);
    return 0;
}

static const struct fn_placer_if placers = { FN_HDR(struct fn_placer_if, FN_MAGIC_PLACERS),
                                             find_inner };

/* All functions ask for the same. */
static const char *annotation(const struct fn_call *call, const char *key)
{
    (void)call;
    (void)key;
    return "{\"zone\":\"b\"}";
}

static const struct fn_view_if views = { .hdr = FN_HDR(struct fn_view_if, FN_MAGIC_VIEW),
                                         .annotation = annotation };

static struct plugin *load(struct plugin_host *h, const char *dir, const char *name,
                           const char *option, const char *value)
{
    struct conf_problems problems;
    struct conf_values *values = NULL;
    struct plugin_file *f = NULL;
    struct plugin *p = NULL;
    struct fn_error e = ERR_INIT;
    const struct conf_override set[] = { { option, "bench", value }, { NULL, NULL, NULL } };
    const struct fn_factory *factory;
    char path[4096];

    if (plugin_path_for(dir, FN_KIND_PLACER, name, path, sizeof(path)) < 0 ||
        plugin_file_open(h, path, &f, &e) < 0) {
        die(&e);
    }
    factory = plugin_file_factory(f, FN_KIND_PLACER, name);
    conf_problems_init(&problems);
    if (factory->opts) {
        conf_bind(NULL, NULL, name, factory->opts, factory->conf_size, NULL,
                  option ? set : NULL, &values, &problems);
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

/* ---- a list under load ----------------------------------------------------------------------- */

struct load {
    struct fn_snapshot snap;
    uint32_t *inflight;
    uint64_t total;
};

/* A list as a pool would publish it. */
static struct load make_load(uint32_t n)
{
    struct fn_runner *runners = calloc(n, sizeof(*runners));
    char *text = malloc((size_t)n * 32);
    struct load l = { .inflight = calloc(n, sizeof(uint32_t)) };
    uint32_t i;

    if (!runners || !text || !l.inflight) {
        exit(1);
    }
    for (i = 0; i < n; i++) {
        snprintf(text + (size_t)i * 32, 32, "10.%u.%u.%u:9190", i >> 16, (i >> 8) & 255, i & 255);
        runners[i] = (struct fn_runner){ .id = (i + 1) * 0x9e3779b97f4a7c15u,
                                         .address = text + (size_t)i * 32,
                                         .weight = 1,
                                         .labels = i % 2 ? "zone=b" : "zone=a" };
    }
    l.snap = (struct fn_snapshot){ .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                   .epoch = 1,
                                   .n = n,
                                   .stride = sizeof(*runners),
                                   .group = "default",
                                   .runners = runners };
    return l;
}

static void free_load(struct load *l)
{
    const struct fn_runner *runners = l->snap.runners;

    free((void *)(uintptr_t)runners[0].address);
    free((void *)(uintptr_t)l->snap.runners);
    free(l->inflight);
}

/* Even: 4 calls everywhere, more or less. Uneven: 8 at the first half of the list, 0 to 3
 * behind. */
static void set_load(struct load *l, int even)
{
    l->total = 0;
    for (uint32_t i = 0; i < l->snap.n; i++) {
        uint32_t spread = i * 2654435761u >> 30;

        l->inflight[i] = even ? 3 + spread / 2 : i < l->snap.n / 2 ? 8 : spread;
        l->total += l->inflight[i];
    }
}

static double build_index(struct plugin *p, struct load *l)
{
    const struct fn_placer_ops *ops = plugin_ops(p);
    int64_t start = now_ns();
    void *index = NULL;

    if (ops->index_build && ops->index_build(plugin_inst(p), &l->snap, &index) < 0) {
        exit(1);
    }
    l->snap.index = index;
    return (double)(now_ns() - start);
}

static void free_index(struct plugin *p, struct load *l)
{
    const struct fn_placer_ops *ops = plugin_ops(p);

    if (l->snap.index) {
        ops->index_free(plugin_inst(p), (void *)(uintptr_t)l->snap.index);
        l->snap.index = NULL;
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Decisions for functions number `from` to `from + keys - 1`, over and over. */
static double round_of(struct plugin *p, const struct load *l, uint64_t decisions, uint32_t from,
                       uint32_t keys)
{
    static char ids[KEYS][32];
    const struct fn_placer_ops *ops = plugin_ops(p);
    struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL) };
    struct fn_ask ask = { .size = sizeof(ask),
                          .why = FN_WHY_START,
                          .now_ns = now_ns(),
                          .deadline_ns = INT64_MAX,
                          .call = &call,
                          .snap = &l->snap,
                          .inflight = l->inflight,
                          .inflight_total = l->total };
    uint64_t session[FN_PLACER_SESSION_MAX / 8];
    struct plugin_crumb crumb;
    struct fn_answer answer;
    uint64_t sum = 0;
    int64_t start;
    uint64_t i;

    for (i = 0; i < keys; i++) {
        snprintf(ids[i], sizeof(ids[i]), "01M7Y437YSR00040GZYG%06u", (unsigned)(from + i));
    }
    ask.session = session;
    start = now_ns();
    for (i = 0; i < decisions; i++) {
        call.fn_id = ids[i % keys];
        memset(session, 0, ops->session_size);
        answer = (struct fn_answer){ .size = sizeof(answer) };
        plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
        ops->decide(plugin_inst(p), &ask, &answer);
        plugin_leave(&crumb);
        if (answer.verdict != FN_TRY || answer.index >= l->snap.n) {
            fprintf(stderr, "bench_decide: %s gave no runner\n", plugin_name(p));
            exit(1);
        }
        sum += answer.index;
    }
    start = now_ns() - start;
    return sum == 1 ? 0 : (double)start / (double)decisions;
}

/* The call alone: session and answer stay as they are. */
static double call_of(struct plugin *p, const struct load *l, uint64_t decisions)
{
    const struct fn_placer_ops *ops = plugin_ops(p);
    struct fn_ask ask = { .size = sizeof(ask), .why = FN_WHY_START, .snap = &l->snap };
    struct fn_answer answer = { .size = sizeof(answer) };
    struct plugin_crumb crumb;
    int64_t start = now_ns();
    uint64_t i;

    for (i = 0; i < decisions; i++) {
        plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
        ops->decide(plugin_inst(p), &ask, &answer);
        plugin_leave(&crumb);
    }
    return (double)(now_ns() - start) / (double)decisions;
}

static void print_median(const char *name, double *rounds)
{
    qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
    printf("%-22s %10.1f ns\n", name, rounds[ROUNDS / 2]);
}

/* ---- cases ----------------------------------------------------------------------------------- */

struct bench_case {
    const char *name;
    const char *use;
    const char *option;
    const char *value;
    int even;
};

/* What a placer learns of calls before it is measured: a demand that it knows is served from the
 * beginning of the next list. */
static void meet_calls(struct plugin *p)
{
    struct load l = make_load(64);

    set_load(&l, 1);
    build_index(p, &l);
    round_of(p, &l, 1, 0, 1);
    free_index(p, &l);
    free_load(&l);
}

static void run_case(struct plugin_host *h, const char *dir, const struct bench_case *c,
                     struct load *l, uint64_t decisions)
{
    struct plugin *p = load(h, dir, c->use, c->option, c->value);
    double rounds[ROUNDS];

    meet_calls(p);
    set_load(l, c->even);
    build_index(p, l);
    for (int i = 0; i < ROUNDS; i++) {
        rounds[i] = round_of(p, l, decisions, 0, KEYS);
    }
    print_median(c->name, rounds);
    free_index(p, l);
    plugin_destroy(p);
}

/* What a change of the list costs chbl: a new index, and the first ask of each function. */
static void run_change(struct plugin_host *h, const char *dir, struct load *l)
{
    struct plugin *p = load(h, dir, "chbl", NULL, NULL);
    double build[ROUNDS], first[ROUNDS];

    set_load(l, 1);
    for (int i = 0; i < ROUNDS; i++) {
        build[i] = build_index(p, l);
        first[i] = round_of(p, l, FIRST_ASKS, (uint32_t)i * FIRST_ASKS, FIRST_ASKS);
        free_index(p, l);
    }
    print_median("index-chbl", build);
    print_median("first-ask-chbl", first);
    plugin_destroy(p);
}

static void run_call(struct plugin_host *h, const char *dir, const struct load *l, uint64_t n)
{
    struct plugin *p = load(h, dir, "null", NULL, NULL);
    double rounds[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        rounds[i] = call_of(p, l, n);
    }
    print_median("call", rounds);
    plugin_destroy(p);
}

/* The folder of this program, and build/plugins beside it. */
static void find_dirs(char *own, char *plugins, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", own, cap - 1);
    char *slash;

    own[n > 0 ? n : 0] = '\0';
    slash = strrchr(own, '/');
    if (slash) {
        *slash = '\0';
    }
    snprintf(plugins, cap, "%.4000s/../plugins", own);
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        { "decide-naive", "naive", NULL, NULL, 1 },
        { "decide-ch", "ch", NULL, NULL, 1 },
        { "decide-ch-go", "ch", "go_variant", "true", 1 },
        { "decide-p2c", "p2c", NULL, NULL, 1 },
        { "decide-first", "first", NULL, NULL, 0 },
        { "decide-chbl", "chbl", NULL, NULL, 1 },
        { "decide-chbl-over", "chbl", NULL, NULL, 0 },
        { "decide-hybrid", "hybrid", NULL, NULL, 0 },
        { "decide-hybrid-high", "hybrid", "high", "0", 0 },
        { "decide-slow-chbl", "slowstart", "inner", "chbl", 1 },
        { "decide-labels-chbl", "labels", "inner", "chbl", 1 },
    };
    uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10000;
    uint64_t decisions = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000000;
    struct plugin_host *h = plugin_host_create(&env);
    char own[4096], beside[4096];
    const char *dir = argc > 1 ? argv[1] : beside;
    struct load l;

    find_dirs(own, beside, sizeof(own));
    log_set_level(FN_LOG_ERROR); /* rounds on a busy machine would tell of a slow plugin */
    if (n == 0 || decisions == 0) {
        fprintf(stderr, "usage: bench_decide [folder with plugins] [runners] [decisions]\n");
        return 64;
    }
    plugin_host_budget(h, PLUGIN_BUDGET_LOOP_NS);
    plugin_host_offer(h, "fn.placer", FN_PLACER_MAJOR, FN_PLACER_MINOR, &placers, NULL);
    plugin_host_offer(h, "fn.view", FN_VIEW_MAJOR, FN_VIEW_MINOR, &views, NULL);
    inner = load(h, dir, "chbl", NULL, NULL);
    l = make_load(n);
    run_call(h, own, &l, decisions);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_case(h, dir, &cases[i], &l, decisions);
    }
    run_change(h, dir, &l);
    plugin_destroy(inner);
    plugin_host_destroy(h);
    return 0;
}
