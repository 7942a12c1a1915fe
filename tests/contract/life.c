/* Suite "life": what holds for plugins of every kind. */
#include "suites.h"
#include "outside.h"

#include <stdio.h>
#include <string.h>

#define ALLOCATIONS_MAX 400 /* then larger steps */
#define REFUSALS_MAX 200
#define LIVES 1000
#define TIME_ROUNDS 5

static exercise_fn exercise(void)
{
    return exercise_of(subject.factory->kind);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void test_destroy_null(void)
{
    struct instance none = {.inst = NULL};

    step("destroy(NULL)");
    enter(&none, INIT, "destroy");
    subject.factory->destroy(NULL);
    leave();
}

/* First of all: what fails here fails everywhere, so that it is told once. */
static void test_create(void)
{
    step("create() with the options of the command line and defaults");
    instance_destroy(instance_new());
}

/* ---- create and destroy ---------------------------------------------------------------------- */

static void lives(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        instance_destroy(instance_new());
    }
}

static void test_thousand_lives(void)
{
    int64_t bytes;
    int64_t blocks;
    uint32_t fds;
    uint32_t threads;

    lives(20); /* what libraries keep for ever is taken now */
    bytes = memory_live_bytes();
    blocks = memory_live_blocks();
    fds = state_count_fds();
    threads = state_count_threads();
    step("%d times create and destroy", LIVES);
    lives(LIVES);
    must(state_count_fds() == fds, "%u descriptors after %d lives, %u before; expected no growth",
         state_count_fds(), LIVES, fds);
    must(state_count_threads() == threads,
         "%u threads after %d lives, %u before; expected no growth", state_count_threads(), LIVES,
         threads);
    must(memory_live_blocks() - blocks < LIVES / 10,
         "%lld blocks (%lld bytes) more after %d lives of create() and destroy(); expected no "
         "growth",
         (long long)(memory_live_blocks() - blocks), (long long)(memory_live_bytes() - bytes),
         LIVES);
}

/* The same with work in between. */
static void test_used_lives(void)
{
    int64_t blocks = 0;
    int64_t bytes = 0;
    uint32_t fds = 0;
    uint32_t i;

    for (i = 0; i < 13; i++) {
        struct instance *in;

        if (i == 3) {
            blocks = memory_live_blocks();
            bytes = memory_live_bytes();
            fds = state_count_fds();
        }
        chance_reset(i);
        in = instance_new();
        exercise()(in, false);
        instance_destroy(in);
        published_reset();
    }
    must(memory_live_blocks() - blocks < 10,
         "%lld blocks (%lld bytes) more after 10 lives with calls; expected destroy() to free them",
         (long long)(memory_live_blocks() - blocks), (long long)(memory_live_bytes() - bytes));
    must(state_count_fds() == fds, "%u descriptors after 10 lives with calls, %u before",
         state_count_fds(), fds);
    must(
        outside_open_answers() == 0,
        "%u answers of fn.http or fn.exec were not released; expected free_answer(), free_result()",
        outside_open_answers());
}

static void test_many_at_once(void)
{
    struct instance *all[64];
    size_t i;

    step("64 instances at the same time");
    for (i = 0; i < 64; i++) {
        all[i] = instance_new();
    }
    for (i = 0; i < 64; i += 2) {
        instance_destroy(all[i]);
    }
    chance_reset(1);
    exercise()(all[1], false);
    for (i = 1; i < 64; i += 2) {
        instance_destroy(all[i]);
    }
}

/* ---- options --------------------------------------------------------------------------------- */

static bool text_for(const struct fn_opt *o, int which, char *ret, size_t cap)
{
    int64_t v = which ? o->max : o->min;
    size_t n;

    switch (o->type) {
    case FN_OPT_INT:
    case FN_OPT_BYTES:
        snprintf(ret, cap, "%lld", (long long)v);
        return true;
    case FN_OPT_DURATION:
        if (v < 0) {
            snprintf(ret, cap, "never");
        } else {
            snprintf(ret, cap, "%lldns", (long long)v);
        }
        return true;
    case FN_OPT_BOOL:
        snprintf(ret, cap, "%s", which ? "true" : "false");
        return true;
    case FN_OPT_STR:
        n = (size_t)(o->min || o->max ? v : which ? 1024 : 1);
        n = n < cap - 1 ? n : cap - 1;
        memset(ret, 'x', n);
        ret[n] = '\0';
        return true;
    case FN_OPT_CHOICE:
        n = strcspn(o->choices, "|");
        snprintf(ret, cap, "%.*s", (int)n,
                 which && strrchr(o->choices, '|') ? strrchr(o->choices, '|') + 1 : o->choices);
        ret[which && strrchr(o->choices, '|') ? cap - 1 : n] = '\0';
        return true;
    default:
        return false;
    }
}

/* A value may be refused with a reason; taken, it must work. */
static void try_option(const char *key, const char *text)
{
    const struct conf_override sets[] = {{key, "contract", text}, {NULL, NULL, NULL}};
    struct fn_error e = ERR_INIT;
    struct conf_values *values = NULL;
    struct conf_problems p;
    struct instance *in = NULL;
    int r;

    step("option %s: %.40s", key, text);
    conf_problems_init(&p);
    instance_options(sets, &values, &p);
    if (p.n > 0) {
        conf_values_destroy(values);
        conf_problems_finish(&p);
        return;
    }
    conf_problems_finish(&p);
    r = instance_make_with(values, &in, reterr_of(&e));
    if (r < 0) {
        must(is_told(&e) || r == FN_E_EXHAUSTED,
             "create() refused option %s: %.40s without a text; expected one sentence in "
             "reterr",
             key, text);
        return;
    }
    chance_reset(2);
    exercise()(in, true);
    instance_destroy(in);
}

static void test_option_bounds(void)
{
    static char text[70000];
    const struct fn_opt *o;
    int which;

    for (o = subject.factory->opts; o && o->key; o++) {
        for (which = 0; which < 2 && !enough(); which++) {
            if ((o->type == FN_OPT_INT || o->type == FN_OPT_BYTES || o->type == FN_OPT_DURATION) &&
                o->min == 0 && o->max == 0) {
                struct fn_opt wide = *o;

                wide.min = 0;
                wide.max = INT64_MAX / 2;
                text_for(&wide, which, text, sizeof(text));
            } else if (!text_for(o, which, text, sizeof(text))) {
                continue;
            }
            try_option(o->key, text);
        }
    }
}

/* Only what is required is there: everything else as the plugin's own defaults say, or zero. */
static void test_options_absent(void)
{
    const struct conf_override *sets = subject.sets;
    const struct conf_override none = {NULL, NULL, NULL};
    struct fn_error e = ERR_INIT;
    struct instance *in = NULL;
    int r;

    step("no options but the required ones");
    subject.sets = &none;
    r = instance_make(NULL, &in, &e);
    subject.sets = sets;
    must(r == 0 || e.msg[0], "create() failed without a text when no option was set; expected one "
                             "sentence in reterr");
    if (r == 0) {
        exercise()(in, true);
        instance_destroy(in);
    }
}

static void test_lists_odd(void)
{
    static const char *const odd[] = {"",
                                      "x",
                                      "a,b,a",
                                      ":::",
                                      "runner:0",
                                      "[::1]:9190",
                                      "unix:/tmp/x",
                                      "\x01,\xff\xfe",
                                      "r:1,r:1,r:1,r:1"};
    const struct fn_opt *o;
    size_t i;

    for (o = subject.factory->opts; o && o->key; o++) {
        for (i = 0; i < sizeof(odd) / sizeof(odd[0]) && !enough(); i++) {
            if (o->type == FN_OPT_STRLIST || (o->type == FN_OPT_STR && odd[i][0])) {
                try_option(o->key, odd[i]);
            }
        }
    }
}

/* ---- what may be missing
 * -------------------------------------------------------------------------- */

static void one_poor_life(bool with_reterr)
{
    struct fn_error e = ERR_INIT;
    struct instance *in = NULL;

    if (instance_make(NULL, &in, with_reterr ? &e : NULL) == 0) {
        exercise()(in, true);
        memory_fail_at(0, false);
        outside_refuse_at(0);
        instance_destroy(in);
    }
    memory_fail_at(0, false);
    outside_refuse_at(0);
    published_reset();
    case_dir_remove();
    clock_reset();
}

static void fail_allocations(bool all_after)
{
    int64_t blocks;
    uint64_t n;
    bool hit = true;

    for (n = 1; hit && n < 20000 && !enough(); n += n < ALLOCATIONS_MAX ? 1 : 997) {
        chance_reset(3);
        blocks = memory_live_blocks();
        step("allocation %llu fails%s", (unsigned long long)n,
             all_after ? " and all after it" : "");
        memory_fail_at(n, all_after);
        one_poor_life(n % 2);
        hit = memory_failed();
        must(memory_live_blocks() <= blocks + 2,
             "%lld blocks were lost when allocation %llu failed; expected all to be freed",
             (long long)(memory_live_blocks() - blocks), (unsigned long long)n);
    }
}

static void test_allocation_failure(void)
{
    if (!memory_watched()) {
        skip("a sanitizer owns malloc");
    }
    lives(20);
    one_poor_life(true);
    fail_allocations(false);
    fail_allocations(true);
}

static void test_host_refuses(void)
{
    uint64_t n;
    bool hit = true;

    for (n = 1; hit && n < REFUSALS_MAX && !enough(); n++) {
        chance_reset(4);
        step("the host refuses request %llu (a timer, a metric, a list, a connection)",
             (unsigned long long)n);
        outside_refuse_at(n);
        one_poor_life(n % 2);
        hit = outside_refused();
    }
}

/* Whoever calls need not want to know why: abi.h, "Errors". */
static void test_reterr_absent(void)
{
    bool hit = true;

    reterr_absent(true);
    for (int mode = OUTSIDE_GOOD; mode < OUTSIDE_MODES_N && !enough(); mode++) {
        chance_reset(7);
        step("reterr is NULL, and what is outside of the plugin is %s", outside_mode_names[mode]);
        outside_mode((enum outside_mode)mode);
        one_poor_life(false);
        outside_mode(OUTSIDE_GOOD);
    }
    for (uint64_t n = 1; hit && n < REFUSALS_MAX && !enough(); n++) {
        chance_reset(7);
        step("reterr is NULL, and the host refuses request %llu", (unsigned long long)n);
        outside_refuse_at(n);
        one_poor_life(false);
        hit = outside_refused();
    }
    test_option_bounds();
    test_lists_odd();
    reterr_absent(false);
}

static void test_needs_absent(void)
{
    struct fn_error e = ERR_INIT;
    struct instance *in = NULL;

    tables_withhold(true);
    step("get() answers NULL for optional needs");
    if (instance_make(NULL, &in, &e) == 0) {
        exercise()(in, true);
        instance_destroy(in);
    }
    tables_withhold(false);
}

/* ---- what is not its own
 * --------------------------------------------------------------------------- */

static void test_process_state(void)
{
    struct process_state *before;
    struct instance *in;
    const char *said;

    before = state_take();
    in = instance_new();
    exercise()(in, false);
    instance_destroy(in);
    said = state_compare(before, state_take());
    must(!said, "%s; the process belongs to the host", said);
}

/* ---- determinism
 * ------------------------------------------------------------------------------------ */

static uint64_t trace_of_life(unsigned char dirt)
{
    struct instance *in;
    uint64_t said;

    chance_reset(5);
    clock_reset();
    published_reset();
    case_dir_remove();
    trace_reset();
    contract_dirty(dirt);
    in = instance_new();
    exercise()(in, false);
    said = trace_value();
    instance_destroy(in);
    contract_dirty(0);
    return said;
}

static void test_determinism(void)
{
    uint64_t first = trace_of_life(0x5a);
    void *shift[128];
    uint64_t second;
    size_t i;

    /* One block of each size: what was free before is not any more, so addresses differ. */
    for (i = 0; i < 128; i++) {
        shift[i] = malloc(16 + 16 * i);
    }
    second = trace_of_life(0xa7);
    for (i = 0; i < 128; i++) {
        free(shift[i]);
    }
    must(first == second,
         "two runs with the same seed gave different answers (trace %016llx and %016llx); expected "
         "the same: no pointers, no uninitialised memory, no state outside of the instance",
         (unsigned long long)first, (unsigned long long)second);
}

/* Another instance lives and works in between: nothing may show. */
static void test_instances_apart(void)
{
    struct instance *other;
    struct instance *in;
    uint64_t alone = trace_of_life(0);
    uint64_t beside;

    other = instance_new();
    chance_reset(77);
    exercise()(other, false);
    chance_reset(5);
    clock_reset();
    published_reset();
    case_dir_remove();
    trace_reset();
    in = instance_new();
    exercise()(in, false);
    beside = trace_value();
    instance_destroy(in);
    instance_destroy(other);
    must(
        alone == beside,
        "an instance answers differently when another one of the same factory works (trace %016llx "
        "and %016llx); expected everything to hang off the instance",
        (unsigned long long)alone, (unsigned long long)beside);
}

static void test_time(void)
{
    struct instance *in;
    uint32_t i;

    memset(shared->times, 0, sizeof(shared->times));
    for (i = 0; i < TIME_ROUNDS; i++) {
        chance_reset(6);
        clock_reset();
        case_dir_remove();
        times_round(i);
        in = instance_new();
        exercise()(in, false);
        instance_destroy(in);
        published_reset();
        times_must_not_block(TIME_ROUNDS);
    }
    times_must_be_short();
}

static const struct contract_case cases[] = {
    { "life", CONTRACT_FIRST_CASE, "create() makes an instance, destroy() ends it", test_create,
      ALSO_REAL | BROAD },
    { "life", "time",
      "methods on the loop compute less than 1 ms on average, 2 ms at most, and never wait",
      test_time, BROAD },
    { "life", "destroy-null", "destroy(NULL) does nothing", test_destroy_null, BROAD },
    { "life", "thousand-lives", "1 000 lives leave no memory, descriptor or thread behind",
      test_thousand_lives, ALSO_REAL | BROAD },
    { "life", "used-lives", "an instance that worked leaves nothing behind", test_used_lives,
      BROAD },
    { "life", "many-at-once", "many instances live at the same time", test_many_at_once,
      ALSO_REAL | BROAD },
    { "life", "option-bounds", "every option works, or is refused with a sentence, at its bounds",
      test_option_bounds, BROAD },
    { "life", "options-absent", "options that were not set are zero, and the plugin copes with that",
      test_options_absent, BROAD },
    { "life", "options-odd", "odd texts in options work, or are refused with a sentence",
      test_lists_odd, BROAD },
    { "life", "allocation-failure",
      "the n-th allocation fails, for each n: the plugin returns an error or works; no "
      "crash, no leak",
      test_allocation_failure, BROAD },
    { "life", "host-refuses",
      "the n-th request to the host fails, for each n: the plugin returns an error or works",
      test_host_refuses, BROAD },
    { "life", "reterr-absent", "reterr may be NULL in every method: nobody wants to know why",
      test_reterr_absent, BROAD },
    { "life", "needs-absent", "optional interfaces may be missing", test_needs_absent, BROAD },
    { "life", "process-state",
      "cwd, umask, locale, signals, limits, environment, descriptors, "
      "threads, rounding stay as they are",
      test_process_state, ALSO_REAL | BROAD },
    { "life", "determinism", "the same seed gives the same answers, whatever memory contained",
      test_determinism, BROAD },
    { "life", "instances-apart", "instances do not see each other", test_instances_apart, BROAD },
};

struct contract_list life_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
