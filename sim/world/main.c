/* fnd_sim: worlds from seeds. Says which rule broke, when, and how to see it again. */
#include "plugins.h"
#include "shrink.h"

#include <base/log.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: fnd_sim [options]\n"
    "  --seeds A..B     seeds to run, or one (1)\n"
    "  --story          tell what happens, by request and fault\n"
    "  --only a,b-c     of the plan, these events alone\n"
    "  --shrink         find the fewest events of one seed's plan with which it still fails\n"
    "  --plan           the plan's events, and nothing else\n"
    "  --stop           at the first broken one\n"
    "  --hash           one line per seed: seed and hash\n"
    "  --plugins DIR    of placers and pools (plugins beside this program)\n"
    "  --log            what the nodes log, to standard error\n";

struct options {
    uint64_t first, last;
    bool story, hash, plan, log, stop, shrink;
    const char *only;
    char plugins[4096];
};

struct total {
    uint64_t worlds, broken, requests, ok, steps;
    int64_t simulated_ns;
    uint64_t hash;
};

#define SEED_REAL_S 60 /* of real time; a world needs some hundredths of a second */

static volatile uint64_t running; /* seed, for whoever aborts */

/* A node's assertion: the seed is all that can still be said. */
static void on_crash(int sig)
{
    char text[160];
    int n = snprintf(text, sizeof(text), "seed %llu: crash (signal %d)\n"
                     "repeat: fnd_sim --seeds %llu --story\n", (unsigned long long)running, sig,
                     (unsigned long long)running);

    if (write(STDOUT_FILENO, text, (size_t)n) < 0) {
        _exit(3);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

/* "3,17,40-52": the events that stay. */
static bool read_only(const char *text, bool *left_out, uint32_t n)
{
    memset(left_out, 1, n * sizeof(*left_out));
    while (*text) {
        char *end;
        unsigned long from = strtoul(text, &end, 10), to = from;

        if (end == text || from >= n) {
            return false;
        }
        if (*end == '-') {
            text = end + 1;
            to = strtoul(text, &end, 10);
        }
        for (unsigned long i = from; i <= to && i < n; i++) {
            left_out[i] = false;
        }
        text = end + (*end == ',');
        if (*end && *end != ',') {
            return false;
        }
    }
    return true;
}

static void print_plan(const struct plan *p)
{
    char text[120];

    for (uint32_t i = 0; i < p->n_events; i++) {
        plan_tell_event(p, i, text, sizeof(text));
        printf("%8.3f s %s\n", (double)p->events[i].at_ns / 1e9, text);
    }
}

static void print_broken(const struct options *o, uint64_t seed, const struct run_result *r)
{
    printf("seed %llu: %s broken after %.6f s: %s\n  %s: %s\n", (unsigned long long)seed,
           books_rule_id(r->broken), (double)r->at_ns / 1e9, r->why, books_rule_id(r->broken),
           books_rule_text(r->broken));
    printf("repeat: fnd_sim --seeds %llu%s%s --story\n", (unsigned long long)seed,
           o->only ? " --only " : "", o->only ? o->only : "");
}

/* "3,9-12" of what stays. */
static void print_only(const struct plan *p, const bool *left_out)
{
    const char *sep = "";

    for (uint32_t i = 0; i < p->n_events; i++) {
        uint32_t from = i;

        if (left_out[i]) {
            continue;
        }
        while (i + 1 < p->n_events && !left_out[i + 1]) {
            i++;
        }
        printf(i > from ? "%s%u-%u" : "%s%u", sep, from, i);
        sep = ",";
    }
}

static int shrink_seed(const struct plan *p, bool *left_out)
{
    uint32_t broken = shrink_try(p, left_out), left;

    if (broken == BOOKS_SOUND) {
        printf("seed %llu breaks no rule\n", (unsigned long long)p->seed);
        return 0;
    }
    left = shrink(p, left_out, broken);
    printf("seed %llu: %s with %u of %u events\nrepeat: fnd_sim --seeds %llu --only ",
           (unsigned long long)p->seed,
           broken == SHRINK_CRASH ? "a crash" : books_rule_id((enum books_rule)broken), left,
           p->n_events, (unsigned long long)p->seed);
    print_only(p, left_out);
    puts(" --story");
    return 1;
}

static void count(struct total *t, const struct run_result *r)
{
    t->worlds++;
    t->broken += r->broken != BOOKS_SOUND;
    t->requests += r->requests;
    t->ok += r->ok;
    t->steps += r->steps;
    t->simulated_ns += r->simulated_ns;
    t->hash = t->hash * 31 + r->hash;
}

static void run_and_tell(const struct options *o, const struct plan *p, const bool *left_out,
                         struct total *t)
{
    struct run_result r;

    alarm(SEED_REAL_S);
    run_world(p, left_out, o->story, &r);
    count(t, &r);
    if (o->hash) {
        printf("%llu %016llx\n", (unsigned long long)p->seed, (unsigned long long)r.hash);
    }
    if (r.broken) {
        print_broken(o, p->seed, &r);
    }
}

static int run_seed(const struct options *o, uint64_t seed, struct total *t)
{
    struct plan p;
    bool *left_out;
    int bad = 0;

    plan_draw(&p, seed);
    running = seed;
    left_out = must_alloc(p.n_events * sizeof(*left_out));
    if (o->only && !read_only(o->only, left_out, p.n_events)) {
        fprintf(stderr, "fnd_sim: --only, got \"%s\"; expected events of --plan\n", o->only);
        bad = 64;
    } else if (o->plan) {
        print_plan(&p);
    } else if (o->shrink) {
        bad = shrink_seed(&p, left_out);
    } else {
        run_and_tell(o, &p, left_out, t);
    }
    free(left_out);
    plan_free(&p);
    return bad;
}

static double processor_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_total(const struct total *t, double cpu_s)
{
    printf("%llu worlds, %llu broken, %.1f simulated hours, %llu requests, %llu answered ok, %llu "
           "steps, hash %016llx\n",
           (unsigned long long)t->worlds, (unsigned long long)t->broken,
           (double)t->simulated_ns / 3.6e12, (unsigned long long)t->requests,
           (unsigned long long)t->ok, (unsigned long long)t->steps, (unsigned long long)t->hash);
    printf("%.1f s of a processor, %.0f requests per second\n", cpu_s,
           cpu_s > 0 ? (double)t->requests / cpu_s : 0.0);
}

static bool read_seeds(const char *text, struct options *o)
{
    char *end;

    o->first = o->last = strtoull(text, &end, 10);
    if (end == text) {
        return false;
    }
    if (strncmp(end, "..", 2) == 0) {
        text = end + 2;
        o->last = strtoull(text, &end, 10);
    }
    return *end == '\0' && end != text && o->last >= o->first;
}

static void beside_program(char *ret, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", ret, cap - sizeof("/plugins"));
    char *slash;

    ret[n > 0 ? n : 0] = '\0';
    slash = strrchr(ret, '/');
    memcpy(slash ? slash : ret, "/plugins", sizeof("/plugins"));
}

static const struct option long_options[] = {
    { "seeds", required_argument, NULL, 's' }, { "story", no_argument, NULL, 't' },
    { "only", required_argument, NULL, 'o' },  { "plan", no_argument, NULL, 'p' },
    { "hash", no_argument, NULL, 'h' },        { "plugins", required_argument, NULL, 'd' },
    { "log", no_argument, NULL, 'l' },         { "stop", no_argument, NULL, 'x' },
    { "shrink", no_argument, NULL, 'k' },      { NULL, 0, NULL, 0 },
};

static bool read_options(int argc, char **argv, struct options *o)
{
    int c;

    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (c) {
        case 's':
            if (!read_seeds(optarg, o)) {
                return false;
            }
            break;
        case 'd':
            snprintf(o->plugins, sizeof(o->plugins), "%s", optarg);
            break;
        case 'o':
            o->only = optarg;
            break;
        case '?':
            return false;
        default:
            *(c == 't'   ? &o->story
              : c == 'p' ? &o->plan
              : c == 'h' ? &o->hash
              : c == 'x' ? &o->stop
              : c == 'k' ? &o->shrink
                         : &o->log) = true;
        }
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    struct options o = { .first = 1, .last = 1 };
    struct fn_error e = ERR_INIT;
    struct total t = { 0 };
    double begun_s;
    int bad = 0;

    beside_program(o.plugins, sizeof(o.plugins));
    if (!read_options(argc, argv, &o)) {
        fputs(usage, stderr);
        return 64;
    }
    log_set_level(o.log ? FN_LOG_DEBUG : 0);
    signal(SIGABRT, on_crash);
    signal(SIGSEGV, on_crash);
    signal(SIGALRM, on_crash); /* an endless loop */
    if (plugins_open(o.plugins, &e) < 0) {
        fprintf(stderr, "fnd_sim: %s\n", e.msg);
        return 69;
    }
    begun_s = processor_s();
    for (uint64_t seed = o.first; seed <= o.last && !bad && !(o.stop && t.broken); seed++) {
        bad = run_seed(&o, seed, &t);
    }
    if (!bad && !o.plan && !o.shrink) {
        print_total(&t, processor_s() - begun_s);
    }
    plugins_close();
    return bad ? bad : t.broken > 0;
}
