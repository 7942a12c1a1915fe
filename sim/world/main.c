/* fnd_sim: worlds from seeds. Says which rule broke, when, and how to see it again. */
#include "apart.h"
#include "plugins.h"
#include "repeat.h"
#include "shortest.h"
#include "shrink.h"

#include <base/log.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char usage[] =
    "usage: fnd_sim [options]\n"
    "  --seeds A..B     seeds to run, or one (1)\n"
    "  --poor           the nodes' memory runs out, also in worlds where it does not\n"
    "  --byte           one request, and one fault at one byte of its way (fnd_sim_wire); without\n"
    "                   seeds each byte, or with --every N each Nth\n"
    "  --long           the same day again and again, and what nodes hold in the nights between\n"
    "  --places         that asked for memory while it ran out, for addr2line\n"
    "  --story          tell what happens, by request and fault\n"
    "  --only a,b-c     of the plan, these events alone\n"
    "  --shrink         find the fewest events of one seed's plan with which it still fails; the\n"
    "                   first broken seed of a run is shrunk unasked, for up to 20 s\n"
    "  --no-shrink      not that, and not the end of its story\n"
    "  --plan           the plan's events, and nothing else\n"
    "  --stop           at the first broken one\n"
    "  --hash           one line per seed: seed and hash\n"
    "  --plugins DIR    of placers and pools (plugins beside this program)\n"
    "  --log            what the nodes log, to standard error\n";

struct options {
    uint64_t first, last;
    bool story, hash, plan, log, stop, shrink, no_shrink, poor, places, byte, is_long;
    uint64_t every;
    const char *only;
    char plugins[4096];
};

#define TOGETHER_MAX 64u /* worlds of one process */
#define SHRINK_TRIES_MAX 4000u /* that were asked for: some ten seconds */
#define SHRINK_REAL_S 600

static enum plan_mode mode_of(const struct options *o)
{
    return o->byte ? PLAN_BYTE : o->is_long ? PLAN_LONG : o->poor ? PLAN_POOR : PLAN_DRAWN;
}

struct total {
    uint64_t worlds, broken, requests, ok, steps, refused, reached;
    int64_t simulated_ns;
    uint64_t hash;
    bool has_broken;
    uint64_t first_broken; /* seed */
};

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

static void print_broken(const struct options *o, uint64_t seed, const bool *left_out,
                         const struct run_result *r)
{
    char line[REPEAT_BYTES];
    struct plan p;

    plan_draw(&p, seed, mode_of(o));
    repeat_line(&p, left_out, line);
    plan_free(&p);
    printf("seed %llu: %s broken after %.6f s: %s\n  %s: %s\n%s\n", (unsigned long long)seed,
           books_rule_id(r->broken), (double)r->at_ns / 1e9, r->why, books_rule_id(r->broken),
           books_rule_text(r->broken), line);
}

static void remember_broken(struct total *t, uint64_t seed)
{
    if (!t->has_broken) {
        t->has_broken = true;
        t->first_broken = seed;
    }
}

static void count(struct total *t, const struct run_result *r)
{
    t->worlds++;
    t->broken += r->broken != BOOKS_SOUND;
    t->requests += r->requests;
    t->ok += r->ok;
    t->steps += r->steps;
    t->refused += r->refused;
    t->reached += r->reached;
    t->simulated_ns += r->simulated_ns;
    t->hash = t->hash * 31 + r->hash;
}

struct telling {
    const struct options *o;
    const bool *left_out;
    struct total *t;
};

static bool tell_world(void *ud, uint64_t seed, const struct run_result *r)
{
    const struct telling *x = ud;

    count(x->t, r);
    if (x->o->hash) {
        printf("%llu %016llx\n", (unsigned long long)seed, (unsigned long long)r->hash);
    }
    if (r->broken) {
        remember_broken(x->t, seed);
        print_broken(x->o, seed, x->left_out, r);
    }
    return !(x->o->stop && r->broken);
}

/* How many worlds from this one on may share a process. */
static uint64_t count_together(const struct options *o, uint64_t first)
{
    uint64_t n = 1;

    if (o->is_long || (!o->byte && (o->poor || plan_is_poor(first)))) { /* a process of its own */
        return 1;
    }
    while (n < TOGETHER_MAX && first + n <= o->last && (o->byte || !plan_is_poor(first + n))) {
        n++;
    }
    return n;
}

/* How many worlds are through. */
static uint64_t run_worlds(const struct options *o, uint64_t first, uint64_t n,
                           const bool *left_out, struct total *t)
{
    struct telling x = { o, left_out, t };
    struct apart a = { .first = first,
                       .n = n,
                       .mode = mode_of(o),
                       .left_out = left_out,
                       .output = o->story ? APART_STORY : APART_ERRORS };
    uint64_t broken = t->broken;
    bool clean;
    uint64_t ended = apart_run(&a, tell_world, &x, &clean);

    if (clean || (o->stop && t->broken > broken)) {
        return ended;
    }
    t->broken++; /* it crashed in the next one, or lost memory in any */
    if (ended < n) {
        remember_broken(t, first + ended);
    }
    t->worlds += ended < n;
    return ended < n ? ended + 1 : n;
}

/* The events that were asked for; NULL: there are none such. The caller frees it. */
static bool *draw_left_out(const struct options *o, const struct plan *p)
{
    bool *left_out = sim_alloc(p->n_events * sizeof(*left_out));

    if (o->only && !read_only(o->only, left_out, p->n_events)) {
        fprintf(stderr, "fnd_sim: --only, got \"%s\"; expected events of --plan\n", o->only);
        free(left_out);
        return NULL;
    }
    return left_out;
}

static int run_seed(const struct options *o, uint64_t seed, struct total *t)
{
    const struct shrink_limits limits = { SHRINK_TRIES_MAX, SHRINK_REAL_S };
    struct plan p;
    bool *left_out;
    int bad = 0;

    plan_draw(&p, seed, mode_of(o));
    left_out = draw_left_out(o, &p);
    if (!left_out) {
        bad = 64;
    } else if (o->plan) {
        print_plan(&p);
    } else if (o->shrink) {
        bad = shrink_tell(&p, left_out, &limits) != BOOKS_SOUND;
    } else {
        run_worlds(o, seed, 1, left_out, t);
    }
    free(left_out);
    plan_free(&p);
    return bad;
}

/* The others are most likely of the same cause. */
static void tell_first_broken(const struct options *o, const struct total *t)
{
    struct plan p;
    bool *left_out;

    if (!t->has_broken || o->no_shrink || o->story || o->hash) {
        return;
    }
    plan_draw(&p, t->first_broken, mode_of(o));
    left_out = draw_left_out(o, &p);
    shortest_tell(&p, left_out);
    free(left_out);
    plan_free(&p);
}

/* Of the worlds' processes. */
static double processor_s(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* For addr2line. */
static void print_places(void)
{
    extern const char __executable_start[];
    const struct scarce_place *p = NULL;

    while ((p = scarce_next_place(p))) {
        printf("%#lx: %llu of %llu refused\n",
               (unsigned long)((uintptr_t)p->at - (uintptr_t)__executable_start),
               (unsigned long long)p->refused, (unsigned long long)p->asked);
    }
}

/* In how many of the places that allocate while memory is scarce. */
static void print_refused(const struct total *t)
{
    const struct scarce_place *p = NULL;
    uint32_t places = 0, refused = 0;

    while ((p = scarce_next_place(p))) {
        places++;
        refused += p->refused > 0;
    }
    printf("%llu allocations refused, in %u of %u places\n", (unsigned long long)t->refused,
           refused, places);
}

static void print_total(const struct total *t, double cpu_s)
{
    if (t->reached > 0) {
        printf("%llu faults at a byte\n", (unsigned long long)t->reached);
    }
    printf("%llu worlds, %llu broken, %.1f simulated hours, %llu requests, %llu answered ok, %llu "
           "steps, hash %016llx\n",
           (unsigned long long)t->worlds, (unsigned long long)t->broken,
           (double)t->simulated_ns / 3.6e12, (unsigned long long)t->requests,
           (unsigned long long)t->ok, (unsigned long long)t->steps, (unsigned long long)t->hash);
    print_refused(t);
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
    { "shrink", no_argument, NULL, 'k' },      { "poor", no_argument, NULL, 'm' },
    { "places", no_argument, NULL, 'a' },      { "byte", no_argument, NULL, 'b' },
    { "every", required_argument, NULL, 'e' }, { "no-shrink", no_argument, NULL, 'n' },
    { "long", no_argument, NULL, 'g' },        { NULL, 0, NULL, 0 },
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
            repeat_set_plugins(o->plugins);
            break;
        case 'o':
            o->only = optarg;
            break;
        case 'e':
            o->every = strtoull(optarg, NULL, 10);
            break;
        case '?':
            return false;
        default:
            *(c == 't'   ? &o->story
              : c == 'p' ? &o->plan
              : c == 'h' ? &o->hash
              : c == 'x' ? &o->stop
              : c == 'k' ? &o->shrink
              : c == 'n' ? &o->no_shrink
              : c == 'm' ? &o->poor
              : c == 'a' ? &o->places
              : c == 'b' ? &o->byte
              : c == 'g' ? &o->is_long
                         : &o->log) = true;
        }
    }
    return optind == argc && o->every > 0;
}

/* Each byte of each way, as far as there are any: behind the last one a way's fault does not
 * happen. */
static void run_bytes(const struct options *o, struct total *t)
{
    bool over[PLAN_OF_BYTE] = { false };
    uint32_t left = PLAN_OF_BYTE;

    for (uint64_t at = 0; left > 0; at += o->every) {
        for (uint32_t i = 0; i < PLAN_OF_BYTE && !(o->stop && t->broken); i++) {
            uint64_t reached = t->reached, broken = t->broken;

            if (!over[i]) {
                run_worlds(o, at * PLAN_OF_BYTE + i, 1, NULL, t);
                over[i] = t->reached == reached && t->broken == broken;
                left -= over[i];
            }
        }
        left = o->stop && t->broken ? 0 : left;
    }
}

static int run_seeds(const struct options *o, struct total *t)
{
    int bad = 0;

    for (uint64_t seed = o->first; seed <= o->last && !bad && !(o->stop && t->broken);) {
        if (o->only || o->plan || o->shrink) {
            bad = run_seed(o, seed++, t);
        } else {
            seed += run_worlds(o, seed, count_together(o, seed), NULL, t);
        }
    }
    return bad;
}

int main(int argc, char **argv)
{
    struct options o = { .every = 1 };
    struct fn_error e = ERR_INIT;
    struct total t = { 0 };
    double begun_s, took_s;
    int bad = 0;

    beside_program(o.plugins, sizeof(o.plugins));
    if (!read_options(argc, argv, &o)) {
        fputs(usage, stderr);
        return 64;
    }
    if (!o.byte && o.last == 0) {
        o.first = o.last = 1;
    }
    log_set_level(o.log ? FN_LOG_DEBUG : 0);
    if (plugins_open(o.plugins, &e) < 0) {
        fprintf(stderr, "fnd_sim: %s\n", e.msg);
        return 69;
    }
    scarce_open();
    begun_s = processor_s();
    if (o.byte && o.last == 0) {
        run_bytes(&o, &t);
    } else {
        bad = run_seeds(&o, &t);
    }
    took_s = processor_s() - begun_s;
    if (!bad && !o.plan && !o.shrink) {
        tell_first_broken(&o, &t);
        print_total(&t, took_s);
    }
    if (o.places) {
        print_places();
    }
    plugins_close();
    return bad ? bad : t.broken > 0;
}
