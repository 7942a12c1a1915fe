/* npm_sim: runs worlds from seeds and says which invariant broke, when, and how to see it again. */
#include "conf.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOUR_NS (60 * MIN)

static const char usage[] =
    "usage: npm_sim [options]\n"
    "  --seed N       first seed (1)\n"
    "  --seeds K      number of seeds (1)\n"
    "  --jobs N       that many processes, each with its share of the seeds (1)\n"
    "  --hours H      simulated hours with faults, before about one quiet hour (2)\n"
    "  --lbs N --runners N --groups N   1..8, 1..1000, 1..4; drawn from the seed when absent\n"
    "  --calm         no faults at all\n"
    "  --without a,b  faults that never happen\n"
    "  --trace        tell each event and action\n"
    "  --shrink       on a violation, leave out fault kinds while it remains\n"
    "  --hash         one line per seed: seed and hash\n"
    "  --faults       list the kinds of faults\n";

static const char *name_of(int which)
{
    static const char *const names[] = { "",    "S1",  "S2",  "S3",  "S4",  "S5",  "S6",
                                         "S7",  "S8",  "S9",  "S10", "S11", "S12", "S13",
                                         "S14", "S15", "S16", "S17", "S18", "L1",  "L2",
                                         "L3",  "L4",  "L5" };

    return names[which];
}

#define JOBS_MAX 64u

struct job {
    struct conf conf;
    uint32_t seeds, jobs;
    bool shrink, hash_only;
};

struct total {
    struct result sum;
    uint32_t runs, failed;
};

/* The same whatever the order: seeds may be run by several processes. */
static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static void add(struct total *t, const struct result *r)
{
    t->sum.time_ns += r->time_ns;
    t->sum.events += r->events;
    t->sum.steps += r->steps;
    t->sum.calls += r->calls;
    t->sum.crowded += r->crowded;
    t->sum.calls_cut += r->calls_cut;
    t->sum.calls_excused += r->calls_excused;
    t->sum.hash += r->hash;
    for (uint32_t i = 0; i < FAULTS_N; i++) {
        t->sum.faults[i] += r->faults[i];
    }
    for (uint32_t i = 0; i <= NPM_DO_NOTE; i++) {
        t->sum.actions[i] += r->actions[i];
    }
    for (uint32_t i = 0; i < NPM_NOTES_N; i++) {
        t->sum.notes[i] += r->notes[i];
    }
}

static void print_without(uint64_t without)
{
    const char *sep = " --without ";

    for (uint32_t i = 0; i < FAULTS_N; i++) {
        if (without >> i & 1) {
            printf("%s%s", sep, fault_defs[i].name);
            sep = ",";
        }
    }
}

static void print_repeat(const struct conf *c)
{
    printf("repeat: npm_sim --seed %llu --hours %g", (unsigned long long)c->seed,
           (double)c->fault_ns / (double)HOUR_NS);
    if (c->lbs) {
        printf(" --lbs %u", c->lbs);
    }
    if (c->runners) {
        printf(" --runners %u", c->runners);
    }
    if (c->groups) {
        printf(" --groups %u", c->groups);
    }
    printf("%s", c->calm ? " --calm" : "");
    print_without(c->without);
    puts(" --trace");
}

/* Leaves out one kind after the other for as long as the same invariant breaks. */
static void shrink(const struct conf *c, int which)
{
    struct conf mine = *c;
    struct result r;

    mine.trace = false;
    for (uint32_t i = 0; i < FAULTS_N; i++) {
        struct conf less = mine;

        less.without |= 1ull << i;
        if (!(mine.without >> i & 1) && world_run(&less, &r) == which) {
            mine = less;
        }
    }
    world_run(&mine, &r);
    printf("shrunk: %s after %.3f s: %s\n", name_of(r.broken), (double)r.time_ns / (double)S,
           r.why);
    printf("needs:");
    for (uint32_t i = 0; i < FAULTS_N; i++) {
        if (r.faults[i] > 0) {
            printf(" %s", fault_defs[i].name);
        }
    }
    putchar('\n');
    print_repeat(&mine);
}

static void run_one(const struct job *j, uint32_t k, struct total *t)
{
    struct conf c = j->conf;
    struct result r;

    c.seed += k;
    world_run(&c, &r);
    if (j->hash_only) {
        printf("%llu %016llx\n", (unsigned long long)c.seed, (unsigned long long)r.hash);
    }
    r.hash = mix(r.hash);
    add(t, &r);
    t->runs++;
    t->failed += r.broken != 0;
    if (r.broken) {
        printf("seed %llu: %s broken after %.3f s: %s\n", (unsigned long long)c.seed,
               name_of(r.broken), (double)r.time_ns / (double)S, r.why);
        print_repeat(&c);
        if (j->shrink) {
            shrink(&c, r.broken);
        }
    }
}

static void print_total(const struct job *j, const struct total *t, double real_s)
{
    static const char *const actions[] = { "list", "provision", "remove",
                                           "ask",  "publish",   "note" };
    const struct result *s = &t->sum;
    double time_s = (double)s->time_ns / (double)S;
    uint64_t faults = 0;

    printf("faults:");
    for (uint32_t i = 0; i < FAULTS_N; i++) {
        printf(" %s %llu", fault_defs[i].name, (unsigned long long)s->faults[i]);
        faults += s->faults[i];
    }
    printf("\nactions:");
    for (uint32_t i = 0; i <= NPM_DO_NOTE; i++) {
        printf(" %s %llu", actions[i], (unsigned long long)s->actions[i]);
    }
    putchar('\n');
    for (uint32_t i = 0; i < NPM_NOTES_N; i++) {
        printf("note: %s: %llu\n", npm_notes[i].text,
               (unsigned long long)s->notes[i]);
    }
    printf("groups too crowded with strangers for L1 and L4: %llu\n",
           (unsigned long long)s->crowded);
    printf("calls: %llu, %llu ran on runners that were removed, of these %llu not seen in time\n",
           (unsigned long long)s->calls, (unsigned long long)s->calls_cut,
           (unsigned long long)s->calls_excused);
    printf("seeds %llu to %llu: %u runs, %u broken, hash %016llx\n",
           (unsigned long long)j->conf.seed, (unsigned long long)j->conf.seed + j->seeds - 1,
           t->runs, t->failed, (unsigned long long)s->hash);
    printf("%.4f simulated years, %llu events, %llu steps, %llu faults, one per %.1f s; %.1f s "
           "real, %.0f x real time\n",
           time_s / (365.25 * 86400), (unsigned long long)s->events, (unsigned long long)s->steps,
           (unsigned long long)faults, faults ? time_s / (double)faults : 0.0, real_s,
           real_s > 0 ? time_s / real_s : 0.0);
}

static double real_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int bad(const char *what, const char *got, const char *expected)
{
    fprintf(stderr, "npm_sim: --%s, got \"%s\"; expected %s\n", what, got, expected);
    return 64;
}

static bool number(const char *text, double low, double high, double *ret)
{
    char *end;

    *ret = strtod(text, &end);
    return end != text && *end == '\0' && *ret >= low && *ret <= high;
}

static bool without(const char *text, uint64_t *ret)
{
    for (size_t len = 0; *text; text += len + (text[len] == ',')) {
        uint32_t i = 0;

        len = strcspn(text, ",");
        while (i < FAULTS_N &&
               (strlen(fault_defs[i].name) != len || strncmp(fault_defs[i].name, text, len) != 0)) {
            i++;
        }
        if (i == FAULTS_N) {
            return false;
        }
        *ret |= 1ull << i;
    }
    return true;
}

enum {
    O_SEED,
    O_SEEDS,
    O_JOBS,
    O_HOURS,
    O_LBS,
    O_RUNNERS,
    O_GROUPS,
    O_WITHOUT,
    O_TRACE,
    O_SHRINK,
    O_HASH,
    O_CALM,
    O_FAULTS,
    O_HELP
};

static const struct option options[] = {
    { "seed", required_argument, NULL, O_SEED },
    { "seeds", required_argument, NULL, O_SEEDS },
    { "jobs", required_argument, NULL, O_JOBS },
    { "hours", required_argument, NULL, O_HOURS },
    { "lbs", required_argument, NULL, O_LBS },
    { "runners", required_argument, NULL, O_RUNNERS },
    { "groups", required_argument, NULL, O_GROUPS },
    { "without", required_argument, NULL, O_WITHOUT },
    { "trace", no_argument, NULL, O_TRACE },
    { "shrink", no_argument, NULL, O_SHRINK },
    { "hash", no_argument, NULL, O_HASH },
    { "calm", no_argument, NULL, O_CALM },
    { "faults", no_argument, NULL, O_FAULTS },
    { "help", no_argument, NULL, O_HELP },
    { NULL, 0, NULL, 0 },
};

static const struct {
    double low, high;
    const char *expected;
} ranges[] = {
    [O_SEED] = { 0, 9e15, "a whole number" }, [O_SEEDS] = { 1, 1e9, "1..1000000000" },
    [O_JOBS] = { 1, JOBS_MAX, "1..64" },
    [O_HOURS] = { 0, 1e6, "0..1000000" },     [O_LBS] = { 1, LBS_MAX, "1..8" },
    [O_RUNNERS] = { 1, 1000, "1..1000" },     [O_GROUPS] = { 1, POOLS_MAX, "1..4" },
};

static int take_number(struct job *j, int o, const char *text)
{
    double x;

    if (!number(text, ranges[o].low, ranges[o].high, &x)) {
        return bad(options[o].name, text, ranges[o].expected);
    }
    switch (o) {
    case O_SEED:
        j->conf.seed = (uint64_t)x;
        break;
    case O_SEEDS:
        j->seeds = (uint32_t)x;
        break;
    case O_JOBS:
        j->jobs = (uint32_t)x;
        break;
    case O_HOURS:
        j->conf.fault_ns = (int64_t)(x * (double)HOUR_NS);
        break;
    case O_LBS:
        j->conf.lbs = (uint32_t)x;
        break;
    case O_RUNNERS:
        j->conf.runners = (uint32_t)x;
        break;
    default:
        j->conf.groups = (uint32_t)x;
    }
    return 0;
}

/* -1: go on; else the exit status. */
static int take_option(struct job *j, int o)
{
    switch (o) {
    case O_WITHOUT:
        return without(optarg, &j->conf.without) ? -1 : bad("without", optarg, "names of --faults");
    case O_TRACE:
        j->conf.trace = true;
        return -1;
    case O_SHRINK:
        j->shrink = true;
        return -1;
    case O_HASH:
        j->hash_only = true;
        return -1;
    case O_CALM:
        j->conf.calm = true;
        return -1;
    case O_FAULTS:
        for (uint32_t i = 0; i < FAULTS_N; i++) {
            puts(fault_defs[i].name);
        }
        return 0;
    case O_HELP:
        fputs(usage, stdout);
        return 0;
    case '?':
        fputs(usage, stderr);
        return 64;
    default:
        o = take_number(j, o, optarg);
        return o ? o : -1;
    }
}

/* Every jobs-th seed from the first-th on. */
static void run_share(const struct job *j, uint32_t first, struct total *t)
{
    for (uint32_t k = first; k < j->seeds; k += j->jobs) {
        run_one(j, k, t);
        if (t->failed > 0 && !j->hash_only) {
            break;
        }
    }
    fflush(stdout);
}

/* Children write their totals where the parent reads them. */
static int run_all(const struct job *j, struct total *ret)
{
    struct total *totals = mmap(NULL, j->jobs * sizeof(*totals), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status, failed = 0;

    if (totals == MAP_FAILED) {
        return -1;
    }
    for (uint32_t i = 1; i < j->jobs; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            run_share(j, i, &totals[i]);
            _exit(0);
        }
        failed |= pid < 0;
    }
    run_share(j, 0, &totals[0]);
    while (wait(&status) > 0) {
        failed |= status != 0;
    }
    for (uint32_t i = 0; i < j->jobs; i++) {
        add(ret, &totals[i].sum);
        ret->runs += totals[i].runs;
        ret->failed += totals[i].failed;
    }
    return failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct job j = { .conf = { .seed = 1, .fault_ns = 2 * HOUR_NS }, .seeds = 1, .jobs = 1 };
    struct total t = { .runs = 0 };
    double begin_s = real_now();
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        int r = take_option(&j, o);

        if (r >= 0) {
            return r;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "npm_sim: got \"%s\"; expected options only\n%s", argv[optind], usage);
        return 64;
    }
    if (run_all(&j, &t) < 0) {
        fputs("npm_sim: a process of its own failed\n", stderr);
        return 70;
    }
    if (!j.hash_only) {
        print_total(&j, &t, real_now() - begin_s);
    }
    return t.failed > 0 ? 1 : 0;
}
