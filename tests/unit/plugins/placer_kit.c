/* The tables that a placer asks for, lists and loads that the test changes, and each decision
 * checked against what every placer must keep. */
#include "placer_kit.h"

#include "tries.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ck_assert() tells Check about each success, which takes longer than a decision. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ck_abort_msg("expected: %s", #condition);                                              \
        }                                                                                          \
    } while (0)

/* ---- host ------------------------------------------------------------------------------------ */

static struct kit *of(const struct fn_host *host)
{
    return host->priv;
}

uint64_t kit_random(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rng_u64(const struct fn_host *host)
{
    return kit_random(&of(host)->seed);
}

static int64_t clock_now(const struct fn_host *host)
{
    return of(host)->now_ns;
}

static int find_inner(const struct fn_host *host, const char *name,
                      const struct fn_placer_ops **ret_ops, void **ret_inst,
                      struct fn_error *reterr)
{
    if (!of(host)->inner_ops || strcmp(name, "inner") != 0) {
        if (reterr) {
            snprintf(reterr->msg, sizeof(reterr->msg), "no placer \"%s\"", name);
        }
        return FN_E_NOT_FOUND;
    }
    *ret_ops = of(host)->inner_ops;
    *ret_inst = of(host)->inner;
    return 0;
}

static const struct fn_rng_if rng_if = { FN_HDR(struct fn_rng_if, FN_MAGIC_RNG), rng_u64 };
static const struct fn_clock_if clock_if = { FN_HDR(struct fn_clock_if, FN_MAGIC_CLOCK), clock_now,
                                             clock_now };
static const struct fn_placer_if placer_if = { FN_HDR(struct fn_placer_if, FN_MAGIC_PLACERS),
                                               find_inner };

static struct kit *kit_of_call;

static const char *view_annotation(const struct fn_call *call, const char *key)
{
    ck_assert_ptr_nonnull(call);
    ck_assert_str_eq(key, "fnd/runner-labels");
    return kit_of_call->annotation;
}

static const struct fn_view_if view_table = { .hdr = FN_HDR(struct fn_view_if, FN_MAGIC_VIEW),
                                              .annotation = view_annotation };

static int timer_arm(const struct fn_host *host, int64_t at_ns, void (*cb)(void *ud), void *ud,
                     uint64_t *ret_id)
{
    must(!of(host)->timer && at_ns > of(host)->now_ns);
    of(host)->timer = cb;
    of(host)->timer_ud = ud;
    *ret_id = 7;
    return 0;
}

static int timer_cancel(const struct fn_host *host, uint64_t id)
{
    must(id == 7);
    of(host)->timer = NULL;
    return 0;
}

static const struct fn_timer_if timer_if = { FN_HDR(struct fn_timer_if, FN_MAGIC_TIMER), timer_arm,
                                             timer_cancel };

int kit_tick(struct kit *k)
{
    void (*cb)(void *ud) = k->timer;

    k->timer = NULL;
    if (cb) {
        cb(k->timer_ud);
    }
    return cb != NULL;
}

static const void *get(const struct fn_host *host, const char *iface, uint32_t major)
{
    (void)host;
    return major != 1                        ? NULL
           : strcmp(iface, "fn.placer") == 0 ? (const void *)&placer_if
           : strcmp(iface, "fn.view") == 0   ? (const void *)&view_table
                                             : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void bind(struct kit *k, const char *const *options)
{
    struct conf_problems problems;
    char key[64];
    const char *value;

    conf_problems_init(&problems);
    conf_bind(NULL, NULL, k->factory->name, k->factory->opts, k->factory->conf_size, NULL, NULL,
              &k->conf, &problems);
    ck_assert_ptr_nonnull(k->conf);
    for (; *options; options++) {
        value = strchr(*options, '=');
        snprintf(key, sizeof(key), "%.*s", (int)(value - *options), *options);
        ck_assert_msg(conf_override(k->conf, key, "test", value + 1, &problems) == 0, "%s",
                      buf_text(&problems.text));
    }
    conf_problems_finish(&problems);
}

int kit_open(struct kit *k, const struct fn_placer_ops *inner_ops, void *inner,
             const char *const *options, struct fn_error *reterr)
{
    return kit_open_plugin(k, fn_plugin_v1(), inner_ops, inner, options, reterr);
}

int kit_open_plugin(struct kit *k, const struct fn_manifest *plugin,
                    const struct fn_placer_ops *inner_ops, void *inner, const char *const *options,
                    struct fn_error *reterr)
{
    int r;

    *k = (struct kit){ .seed = 42,
                       .now_ns = 1000000000000,
                       .factory = plugin->factories[0],
                       .inner_ops = inner_ops,
                       .inner = inner };
    k->host = (struct fn_host){ .hdr = FN_HDR(struct fn_host, FN_MAGIC_HOST),
                                .priv = k,
                                .clock = &clock_if,
                                .timer = &timer_if,
                                .rng = &rng_if,
                                .get = get };
    k->ops = k->factory->ops;
    bind(k, options);
    r = k->factory->create(&k->host, k->conf->data, &k->inst, reterr);
    if (r < 0) {
        conf_values_destroy(k->conf);
        return r;
    }
    k->runners = calloc(KIT_RUNNERS_MAX, sizeof(*k->runners));
    k->inflight = calloc(KIT_RUNNERS_MAX, sizeof(*k->inflight));
    k->call = (struct fn_call){ .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL), .mem_mb = 128 };
    kit_list(k, 0);
    return 0;
}

static void drop_index(struct kit *k)
{
    if (k->snap.index) {
        k->ops->index_free(k->inst, (void *)(uintptr_t)k->snap.index);
        k->snap.index = NULL;
    }
}

void kit_close(struct kit *k)
{
    drop_index(k);
    k->factory->destroy(k->inst);
    conf_values_destroy(k->conf);
    free(k->runners);
    free(k->inflight);
}

/* ---- lists ----------------------------------------------------------------------------------- */

void kit_publish(struct kit *k)
{
    uint64_t epoch = k->snap.epoch + 1;
    uint32_t n = k->snap.n;
    void *index = NULL;

    drop_index(k);
    k->snap = (struct fn_snapshot){ .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                    .epoch = epoch,
                                    .n = n,
                                    .stride = sizeof(struct fn_runner),
                                    .group = "default",
                                    .runners = k->runners };
    if (k->ops->index_build) {
        must(k->ops->index_build(k->inst, &k->snap, &index) == 0);
        k->snap.index = index;
    }
}

void kit_list(struct kit *k, uint32_t n)
{
    uint64_t seed = 7;

    for (uint32_t i = 0; i < n; i++) {
        k->runners[i] =
            (struct fn_runner){ .id = kit_random(&seed), .address = "a:1", .weight = 1 };
        k->inflight[i] = 0;
    }
    k->snap.n = n;
    kit_publish(k);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void kit_call(struct kit *k, const char *fn_id)
{
    memset(k->session, 0, k->ops->session_size);
    /* The host promises nothing about what is behind it. */
    memset(k->session + k->ops->session_size, 0xee, sizeof(k->session) - k->ops->session_size);
    k->call.fn_id = fn_id;
    k->ask = (struct fn_ask){ .size = sizeof(k->ask) };
}

static void observe(struct kit *k, const char *fn_id, uint32_t index, uint32_t outcome)
{
    struct fn_call call = k->call;
    struct fn_placed placed = { .size = sizeof(placed),
                                .outcome = outcome,
                                .runner_id = k->runners[index].id,
                                .latency_ns = 1000000,
                                .call = &call,
                                .snap = &k->snap,
                                .index = index };

    call.fn_id = fn_id;
    kit_of_call = k;
    /* An attempt over an older list is told with that list, which the kit does not keep. */
    if (k->ops->observe && index < k->snap.n) {
        k->ops->observe(k->inst, &placed);
    }
}

uint32_t kit_ask(struct kit *k, uint32_t why)
{
    struct fn_ask *a = &k->ask;
    uint64_t total = 0;

    for (uint32_t i = 0; i < k->snap.n; i++) {
        total += k->inflight[i];
    }
    if (why == FN_WHY_BUSY || why == FN_WHY_UNREACHABLE) {
        if (k->refuser == KIT_RUNNER) {
            observe(k, k->call.fn_id, k->answer.index,
                    why == FN_WHY_BUSY ? FN_DONE_BUSY : FN_DONE_UNREACHABLE);
        }
        a->attempts++;
        a->last_index = k->answer.index;
        a->last_code = k->refuser == KIT_WRAPPER ? PASSED_OVER : FN_E_UNAVAILABLE;
    } else if (why != FN_WHY_START) {
        a->round++;
    }
    kit_of_call = k;
    a->why = why;
    a->now_ns = k->now_ns;
    a->deadline_ns = k->now_ns + 30000000000;
    a->call = &k->call;
    a->snap = &k->snap;
    a->inflight = k->inflight;
    a->inflight_total = total;
    a->session = k->session;
    k->answer = (struct fn_answer){ .size = sizeof(k->answer) };
    must(k->ops->decide(k->inst, a, &k->answer) == 0);
    must(memchr(k->answer.note, '\0', FN_NOTE_MAX) && k->answer.note[0]);
    for (size_t i = k->ops->session_size; i < sizeof(k->session); i++) {
        must(k->session[i] == 0xee);
    }
    if (k->answer.verdict == FN_TRY) {
        must(k->answer.index < k->snap.n);
        must(!(k->runners[k->answer.index].flags & FN_RUNNER_DRAINING));
    } else if (k->answer.verdict == FN_WAIT) {
        must(k->answer.wait_ns > 0);
        must(k->answer.wake_mask & FN_WAKE_POOL);
    } else {
        must(k->annotation && k->answer.verdict == FN_GIVE_UP);
    }
    return k->answer.verdict;
}

uint32_t kit_place(struct kit *k, const char *fn_id)
{
    kit_call(k, fn_id);
    must(kit_ask(k, FN_WHY_START) == FN_TRY);
    k->inflight[k->answer.index]++;
    return k->answer.index;
}

void kit_end(struct kit *k, const char *fn_id, uint32_t index, uint32_t outcome)
{
    observe(k, fn_id, index, outcome);
    k->inflight[index]--;
}

uint32_t kit_rounds(struct kit *k, const char *fn_id, uint32_t willing, uint32_t rounds_max)
{
    static unsigned char named[KIT_RUNNERS_MAX];
    uint32_t why = FN_WHY_START;

    kit_call(k, fn_id);
    for (uint32_t round = 1; round <= rounds_max; round++) {
        memset(named, 0, k->snap.n);
        while (kit_ask(k, why) == FN_TRY) {
            if (k->answer.index == willing) {
                return round;
            }
            must(!named[k->answer.index]);
            named[k->answer.index] = 1;
            why = k->answer.index % 2 ? FN_WHY_BUSY : FN_WHY_UNREACHABLE;
        }
        why = round % 2 ? FN_WHY_TIMER : FN_WHY_WAKE;
    }
    return 0;
}

/* ---- contract -------------------------------------------------------------------------------- */

static void check_empty(struct kit *k)
{
    kit_list(k, 0);
    kit_call(k, "f");
    ck_assert_uint_eq(kit_ask(k, FN_WHY_START), FN_WAIT);
    ck_assert_uint_eq(kit_ask(k, FN_WHY_TIMER), FN_WAIT);
}

/* Whoever takes calls is found, whatever the others do. */
static void check_progress(struct kit *k, int all)
{
    char id[32];

    for (uint32_t n = 1; n <= 16; n++) {
        kit_list(k, n);
        for (uint32_t willing = 0; willing < n; willing++) {
            snprintf(id, sizeof(id), "fn-%u-%u", n, willing);
            ck_assert_uint_ne(kit_rounds(k, id, willing, all ? 1 : 200), 0);
        }
        ck_assert_uint_eq(kit_rounds(k, "f", UINT32_MAX, 3), 0);
    }
}

static void check_draining(struct kit *k, int all)
{
    for (uint32_t round = 0; round < 40; round++) {
        uint32_t left = 0;

        kit_list(k, 12);
        for (uint32_t i = 0; i < 12; i++) {
            k->runners[i].flags = kit_random(&k->seed) % 3 ? FN_RUNNER_DRAINING : 0;
            left = k->runners[i].flags ? left : i + 1;
        }
        kit_publish(k);
        ck_assert_uint_eq(kit_rounds(k, "f", UINT32_MAX, 3), 0); /* kit_ask() looks at the flag */
        ck_assert(left == 0 || kit_rounds(k, "g", left - 1, all ? 1 : 200) != 0);
    }
}

/* Rounds until a call is placed when the first `down` of the list, where no calls are, are refused
 * by the host; 0: it was not within `rounds_max`. */
static uint32_t rounds_past(struct kit *k, const char *fn_id, uint32_t down, uint32_t rounds_max)
{
    uint32_t why = FN_WHY_START;

    kit_call(k, fn_id);
    for (uint32_t round = 1; round <= rounds_max; round++) {
        while (kit_ask(k, why) == FN_TRY) {
            if (k->answer.index >= down) {
                return round;
            }
            why = k->answer.index % 2 ? FN_WHY_BUSY : FN_WHY_UNREACHABLE;
        }
        why = FN_WHY_TIMER;
        k->now_ns += 2000000000; /* the host waits 100 ms for each attempt */
    }
    return 0;
}

/* A placer that looks only at what observe() tells names those that are down for ever. */
static void check_down(struct kit *k, int all)
{
    static const struct {
        uint32_t n, down;
    } rows[] = { { 100, 20 }, { 1000, 40 } };
    char id[32];

    k->refuser = KIT_HOST;
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        for (uint32_t i = 0; i < 20; i++) {
            kit_list(k, rows[row].n);
            for (uint32_t at = rows[row].down; at < rows[row].n; at++) {
                k->inflight[at] = 1;
            }
            snprintf(id, sizeof(id), "fn-%u", i);
            ck_assert_uint_ne(rounds_past(k, id, rows[row].down, all ? 4 : 200), 0);
        }
    }
    k->refuser = KIT_RUNNER;
}

/* The list changes under a call, with any load: every answer fits the list that was shown. */
static void check_changes(struct kit *k)
{
    uint64_t seed = 3;
    char id[32];

    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t n = (uint32_t)(kit_random(&seed) % 40);
        uint64_t shape = kit_random(&seed);

        if (i % 3 == 0) {
            kit_list(k, n);
            for (uint32_t j = 0; j < n; j++) {
                k->runners[j].id = kit_random(&seed) % 64 + 1; /* the same id twice, too */
                k->runners[j].weight = (uint32_t)(kit_random(&seed) % 4);
                k->runners[j].flags = kit_random(&seed) % 8 ? 0 : FN_RUNNER_DRAINING;
                k->inflight[j] = (uint32_t)(kit_random(&seed) % (shape % 2 ? 3 : 100));
            }
            kit_publish(k);
        }
        if (i % 7 == 0) {
            snprintf(id, sizeof(id), "fn-%u", (unsigned)(shape % 50));
            kit_call(k, id);
            kit_ask(k, FN_WHY_START);
        }
        kit_ask(k, k->answer.verdict == FN_TRY ? FN_WHY_BUSY + (uint32_t)(shape % 2)
                                               : FN_WHY_TIMER + (uint32_t)(shape % 2));
    }
}

void kit_check_contract(const struct fn_placer_ops *inner_ops, void *inner,
                        const char *const *options, int all)
{
    static struct kit k;

    ck_assert_int_eq(kit_open(&k, inner_ops, inner, options, NULL), 0);
    check_empty(&k);
    check_progress(&k, all);
    check_draining(&k, all);
    check_down(&k, all);
    check_changes(&k);
    kit_close(&k);
}

void kit_check_no_index(void)
{
    static struct kit k;

    ck_assert_int_eq(KIT_OPEN(&k, NULL), 0);
    kit_list(&k, 9);
    ck_assert_ptr_nonnull(k.snap.index);
    drop_index(&k);
    for (uint32_t i = 0; i < 9; i++) {
        ck_assert_uint_eq(kit_rounds(&k, "f", i, 1), 1);
    }
    kit_close(&k);
}
