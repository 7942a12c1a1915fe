/* Suite "placer": fn/placer.h, sentence by sentence. */
#include "outside.h"
#include "suites.h"

#include <stdio.h>
#include <string.h>

#define GUARD 64u
#define GUARD_BYTE 0xe7
#define TRIES_OVER 16u /* as a host: more refusals than runners in a row mean that it waits */
#define BIG 10000u
#define DECIDE_NS 50000
#define LIST_GONE "its last pin"

/* ---- lists
 * --------------------------------------------------------------------------------------- */

struct list {
    uint32_t n;
    struct fn_snapshot *snap; /* read-only memory that ends at a page which cannot be touched */
    char *runners;            /* the same */
    char *addresses;
    uint32_t *inflight; /* writable */
    uint64_t inflight_total;
    void *index;
    struct fn_call *call;
};

struct shape {
    uint32_t n;
    uint32_t first_id; /* ids count from here; 0 = 1 */
    uint32_t growth;   /* bytes that a later host appends to every view */
    bool reversed;
    bool all_draining;
    uint32_t draining_mod; /* each so-manieth drains; 0 = none */
    uint64_t epoch;
    bool plain; /* the call: nothing of it names a runner */
};

static uint32_t next_epoch;

static void fill_runner(struct list *l, const struct shape *s, uint32_t i, uint32_t stride)
{
    /* Equal sets are one text, as a node has them. */
    static const char *const labels[] = {NULL, "zone=a", "class=gpu,zone=b"};
    uint32_t k = s->reversed ? s->n - 1 - i : i;
    uint64_t id = (s->first_id ? s->first_id : 1) + k;
    char *address = l->addresses + (size_t)i * 32;
    struct fn_runner *r = (struct fn_runner *)(void *)(l->runners + (size_t)i * stride);

    snprintf(address, 32, "10.%u.%u.%u:9190", (unsigned)(id >> 16) & 255, (unsigned)(id >> 8) & 255,
             (unsigned)id & 255);
    memset(r, 0xa5, stride);
    *r = (struct fn_runner){.id = id * 0x9e3779b97f4a7c15u,
                            .address = address,
                            .capacity_mb = 1024 * (1 + id % 7),
                            .weight = 1,
                            .since_ns = clock_now() - (int64_t)(id % 100) * ENV_S,
                            .labels = labels[id % 3]};
    if (s->all_draining || (s->draining_mod && k % s->draining_mod == 0)) {
        r->flags = FN_RUNNER_DRAINING;
    }
    r->flags |= s->growth ? 1u << 31 : 0; /* a flag of a later host */
}

static void build_index(struct instance *in, struct list *l, bool tolerant)
{
    const struct fn_placer_ops *ops = instance_ops(in);
    static char untouched;
    int r;

    if (!ops->index_build) {
        return;
    }
    l->index = &untouched;
    enter(in, LOOP, "index_build");
    r = ops->index_build(in->inst, l->snap, &l->index);
    leave();
    must_be_result("index_build", r, NULL);
    must(r == 0 || l->index == &untouched,
         "index_build() failed and wrote ret_index; ret_* parameters are written only on success");
    must(r == 0 || tolerant, "index_build() of %u runners failed: %s; expected an index", l->n,
         err_name(r));
    must(r != 0 || l->index != &untouched, "index_build() returned 0 without an index");
    l->index = r == 0 ? l->index : NULL;
}

static struct list list_make(struct instance *in, const struct shape *s, bool index, bool tolerant)
{
    uint32_t stride = (uint32_t)sizeof(struct fn_runner) + s->growth;
    struct list l = {.n = s->n};

    l.runners = fence_alloc((size_t)s->n * stride, 8, "the runners of a list", LIST_GONE);
    l.addresses = fence_alloc((size_t)s->n * 32 + 1, 1, "the addresses of a list", LIST_GONE);
    l.inflight =
        fence_alloc((size_t)s->n * sizeof(*l.inflight), 4, "the counts of a list", LIST_GONE);
    l.snap = fence_alloc(sizeof(*l.snap) + s->growth, 8, "a list", LIST_GONE);
    for (uint32_t i = 0; i < s->n; i++) {
        fill_runner(&l, s, i, stride);
        l.inflight[i] = (uint32_t)(chance() % 8);
        l.inflight_total += l.inflight[i];
    }
    memset(l.snap, 0xa5, sizeof(*l.snap) + s->growth);
    *l.snap =
        (struct fn_snapshot){.hdr = {(uint32_t)sizeof(*l.snap) + s->growth, FN_MAGIC_SNAPSHOT},
                             .epoch = s->epoch ? s->epoch : ++next_epoch,
                             .made_ns = clock_now(),
                             .n = s->n,
                             .stride = stride,
                             .group = "default",
                             .runners = l.runners};
    fence_read_only(l.runners);
    if (index) {
        build_index(in, &l, tolerant);
    }
    l.snap->index = l.index;
    l.snap->flags = s->growth ? 1u << 31 : 0;
    fence_read_only(l.snap);
    l.call = call_make(s->plain ? CALL_PLAIN : 7, s->growth);
    return l;
}

static void list_free(struct instance *in, struct list *l)
{
    const struct fn_placer_ops *ops = instance_ops(in);

    if (l->index) {
        enter(in, LOOP, "index_free");
        ops->index_free(in->inst, l->index);
        leave();
    }
    fence_free(l->runners);
    fence_free(l->addresses);
    fence_free(l->inflight);
    fence_free(l->snap);
    call_end(l->call);
}

/* ---- questions
 * ------------------------------------------------------------------------------------- */

struct asking {
    struct instance *in;
    struct list *l;
    struct fn_ask ask;
    struct fn_answer answer;
    unsigned char *memory; /* guard, session, guard */
    uint32_t session_size;
    uint32_t growth;
    bool tolerant; /* an error of decide() is fine */
    bool failed;   /* decide() returned one: the call is over */
};

static void asking_start(struct asking *a, struct instance *in, struct list *l, uint32_t growth)
{
    const struct fn_placer_ops *ops = instance_ops(in);
    uint32_t size = ops->session_size;

    *a = (struct asking){.in = in, .l = l, .session_size = size, .growth = growth};
    a->memory =
        fence_alloc(GUARD + ((size + 15u) & ~15u) + GUARD, 16, "a session", "its call had ended");
    memset(a->memory, GUARD_BYTE, GUARD + ((size + 15u) & ~15u) + GUARD);
    memset(a->memory + GUARD, 0, size);
    a->ask = (struct fn_ask){.size = (uint32_t)sizeof(a->ask) + growth,
                             .why = FN_WHY_START,
                             .now_ns = clock_now(),
                             .deadline_ns = clock_now() + 10 * ENV_S,
                             .call = l->call,
                             .session = a->memory + GUARD};
}

static void asking_end(struct asking *a)
{
    fence_free(a->memory);
}

static bool only(const unsigned char *at, size_t n, unsigned char byte)
{
    for (size_t i = 0; i < n; i++) {
        if (at[i] != byte) {
            return false;
        }
    }
    return true;
}

static void check_session(const struct asking *a)
{
    must(only(a->memory, GUARD, GUARD_BYTE),
         "decide() wrote in front of its session; expected writes to its %u bytes only",
         a->session_size);
    must(only(a->memory + GUARD + a->session_size,
              ((a->session_size + 15u) & ~15u) - a->session_size + GUARD, GUARD_BYTE),
         "decide() wrote past its session; expected writes to its %u bytes only", a->session_size);
}

static const char *why_name(uint32_t why)
{
    static const char *const names[] = {"?", "START", "BUSY", "UNREACHABLE", "TIMER", "WAKE"};

    return names[why <= FN_WHY_WAKE ? why : 0];
}

static void check_answer(const struct asking *a, const struct fn_answer *x)
{
    must(x->size == a->answer.size,
         "decide() changed the size of the answer to %u; it is the "
         "host's",
         x->size);
    must(x->verdict >= FN_TRY && x->verdict <= FN_GIVE_UP,
         "decide() answered verdict %u; expected FN_TRY, FN_WAIT or FN_GIVE_UP", x->verdict);
    must(x->verdict != FN_TRY || x->index < a->l->n,
         "decide() answered FN_TRY with index %u of %u runners; expected an index below n",
         x->index, a->l->n);
    must(x->verdict != FN_WAIT || x->wait_ns >= 0,
         "decide() answered FN_WAIT for %lld ns; expected no negative time", (long long)x->wait_ns);
    must(!(x->wake_mask & ~(FN_WAKE_POOL | FN_WAKE_CAPACITY | FN_WAKE_PLUGIN)),
         "decide() answered wake_mask 0x%x; expected bits of FN_WAKE_* only", x->wake_mask);
    must(x->verdict != FN_GIVE_UP || (x->code <= 0 && x->code >= FN_E_UNAUTHENTICATED),
         "decide() answered FN_GIVE_UP with code %d; expected FN_E_* or 0", x->code);
    must(memchr(x->note, '\0', sizeof(x->note)),
         "decide() left a note that does not end; expected at most %u bytes with the end",
         FN_NOTE_MAX);
    for (const char *c = x->note; *c; c++) {
        must(*c >= 0x20 && *c < 0x7f, "decide() left a note with byte 0x%02x; expected plain text",
             (unsigned char)*c);
    }
    must(x->reserved0 == 0, "decide() wrote %u to reserved0 of the answer; expected 0",
         x->reserved0);
}

/* One question over views that end where they must; every rule of a single answer is checked. */
static const struct fn_answer *ask(struct asking *a, uint32_t why)
{
    const struct fn_placer_ops *ops = instance_ops(a->in);
    size_t ask_size = sizeof(struct fn_ask) + a->growth;
    struct fn_ask *view = fence_alloc(ask_size, 8, "a question", "decide() had answered it");
    struct {
        struct fn_answer answer;
        unsigned char tail[64];
    } out;
    int r;

    a->ask.why = why;
    a->ask.now_ns = clock_now();
    a->ask.snap = a->l->snap;
    a->ask.inflight = a->l->inflight;
    a->ask.inflight_total = a->l->inflight_total;
    memset(view, 0xa5, ask_size);
    *view = a->ask;
    fence_read_only(view);
    memset(&out, 0, sizeof(out));
    memset(out.tail, a->growth ? 0 : GUARD_BYTE, sizeof(out.tail));
    out.answer.size = (uint32_t)sizeof(out.answer) + (a->growth ? 32 : 0);
    a->answer = out.answer;
    enter(a->in, LOOP, "decide");
    r = ops->decide(a->in->inst, view, &out.answer);
    leave();
    fence_free(view);
    /* What a single answer breaks is told as that, whatever the case is about. */
    rule_of(out.answer.verdict == FN_TRY && a->l->n == 0 ? "placer/empty-list"
                                                         : "placer/legal-answers");
    check_session(a);
    must_be_result("decide", r, NULL);
    must(only(out.tail, sizeof(out.tail), a->growth ? 0 : GUARD_BYTE),
         "decide() wrote past the end of the answer");
    a->failed = r < 0;
    if (r < 0) {
        rule_of("");
        must(a->tolerant, "decide() failed on FN_WHY_%s with %u runners: %s; expected an answer",
             why_name(why), a->l->n, err_name(r));
        out.answer = (struct fn_answer){.size = a->answer.size, .verdict = FN_GIVE_UP, .code = r};
    }
    check_answer(a, &out.answer);
    rule_of("");
    a->answer = out.answer;
    trace_u64(out.answer.verdict);
    trace_u64(out.answer.verdict == FN_TRY ? out.answer.index : 0);
    trace_u64(out.answer.verdict == FN_WAIT ? (uint64_t)out.answer.wait_ns : 0);
    trace_u64((uint64_t)(int64_t)out.answer.code);
    trace_u64(out.answer.wake_mask);
    trace_text(out.answer.note);
    return &a->answer;
}

/* How the runners of a list take a call: FN_WHY_BUSY, FN_WHY_UNREACHABLE, or 0 = accepted. */
typedef uint32_t (*taker)(struct list *l, uint32_t index);

static uint32_t all_busy(struct list *l, uint32_t index)
{
    (void)l;
    (void)index;
    return FN_WHY_BUSY;
}

static uint32_t all_unreachable(struct list *l, uint32_t index)
{
    (void)l;
    (void)index;
    return FN_WHY_UNREACHABLE;
}

static uint32_t as_chance_wills(struct list *l, uint32_t index)
{
    (void)l;
    (void)index;
    return chance() % 4 == 0 ? 0 : chance() % 2 ? FN_WHY_BUSY : FN_WHY_UNREACHABLE;
}

static uint32_t lucky_index;

static uint32_t one_takes(struct list *l, uint32_t index)
{
    (void)l;
    return index == lucky_index ? 0 : FN_WHY_BUSY;
}

static void observe(struct asking *a, uint32_t outcome, uint32_t index)
{
    const struct fn_placer_ops *ops = instance_ops(a->in);
    struct fn_placed *what;

    if (!ops->observe) {
        return;
    }
    what = fence_alloc(sizeof(*what) + a->growth, 8, "what observe() was told", "it had returned");
    memset(what, 0xa5, sizeof(*what) + a->growth);
    *what = (struct fn_placed){.size = (uint32_t)sizeof(*what) + a->growth,
                               .outcome = outcome,
                               .runner_id = fn_snapshot_at(a->l->snap, index)->id,
                               .latency_ns = (int64_t)(chance() % 1000) * 100000,
                               .call = a->l->call,
                               .snap = a->l->snap,
                               .index = index};
    fence_read_only(what);
    enter(a->in, LOOP, "observe");
    ops->observe(a->in->inst, what);
    leave();
    fence_free(what);
}

/* One round: TRYs until the call is taken or the placer waits or gives up. Returns its verdict. */
static uint32_t round_of(struct asking *a, uint32_t why, taker take)
{
    const struct fn_answer *x = ask(a, why);
    uint32_t tries = 0;
    uint32_t taken;

    while (x->verdict == FN_TRY) {
        uint32_t index = x->index;
        bool drains = fn_snapshot_at(a->l->snap, index)->flags & FN_RUNNER_DRAINING;

        must(++tries <= a->l->n + TRIES_OVER,
             "decide() answered FN_TRY %u times in one round over %u runners that all refuse; "
             "expected FN_WAIT or FN_GIVE_UP within n + %u",
             tries, a->l->n, TRIES_OVER);
        taken = drains ? FN_WHY_UNREACHABLE : take(a->l, index);
        a->ask.attempts++;
        a->ask.last_index = index;
        a->ask.last_code = taken == FN_WHY_BUSY ? FN_E_EXHAUSTED : FN_E_UNAVAILABLE;
        if (!drains) {
            observe(a,
                    taken == 0             ? FN_DONE_OK
                    : taken == FN_WHY_BUSY ? FN_DONE_BUSY
                                           : FN_DONE_UNREACHABLE,
                    index);
        }
        if (taken == 0) {
            return FN_TRY;
        }
        x = ask(a, taken);
    }
    a->ask.round += x->verdict == FN_WAIT;
    return x->verdict;
}

/* A call from its arrival: rounds and waits. Returns the verdict that ended it. */
static uint32_t place_call(struct asking *a, uint32_t rounds, taker take)
{
    uint32_t why = FN_WHY_START;
    uint32_t verdict = FN_WAIT;

    while (rounds-- > 0 && verdict == FN_WAIT) {
        verdict = round_of(a, why, take);
        if (verdict == FN_WAIT) {
            why = chance() % 3 ? FN_WHY_TIMER : FN_WHY_WAKE;
            clock_jump(why == FN_WHY_TIMER ? a->answer.wait_ns % (60 * ENV_S) + ENV_MS : 1);
            a->ask.deadline_ns = clock_now() + 10 * ENV_S;
        }
    }
    return verdict;
}

/* ---- the exercise
 * ------------------------------------------------------------------------------------ */

void placer_exercise(struct instance *in, bool tolerant)
{
    static const struct shape shapes[] = {
        {.n = 0},
        {.n = 1},
        {.n = 2},
        {.n = 7},
        {.n = 7, .reversed = true},
        {.n = 5, .draining_mod = 2},
        {.n = 3, .all_draining = true},
        {.n = 40, .first_id = 3},
    };
    size_t i;

    next_epoch = 0;
    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct list l = list_make(in, &shapes[i], i != 3, tolerant);
        uint32_t calls;

        for (calls = 0; calls < 6; calls++) {
            struct asking a;

            asking_start(&a, in, &l, 0);
            a.tolerant = tolerant;
            call_end(l.call);
            l.call = call_make(calls, 0);
            a.ask.call = l.call;
            place_call(&a, 4, calls % 3 ? as_chance_wills : all_busy);
            asking_end(&a);
        }
        list_free(in, &l);
    }
}

/* ---- cases
 * -------------------------------------------------------------------------------------------- */

static void with_shape(const struct shape *s, uint32_t calls, taker take)
{
    struct instance *in = instance_new();
    struct list l = list_make(in, s, true, false);

    while (calls-- > 0) {
        struct asking a;

        asking_start(&a, in, &l, s->growth);
        place_call(&a, s->n < BIG ? 8 : 1, take);
        asking_end(&a);
    }
    list_free(in, &l);
    instance_destroy(in);
}

static void test_empty(void)
{
    step("a list without runners");
    with_shape(&(struct shape){.n = 0}, 20, all_busy);
}

static void test_one(void)
{
    step("a list of one runner");
    with_shape(&(struct shape){.n = 1}, 50, as_chance_wills);
    with_shape(&(struct shape){.n = 1}, 50, all_busy);
}

static void test_legal(void)
{
    for (uint32_t n = 0; n < 40; n++) {
        struct shape s = {.n = n, .draining_mod = (uint32_t)(chance() % 4)};

        step("a list of %u runners, every %u. draining", n, s.draining_mod);
        with_shape(&s, 12, as_chance_wills);
    }
}

static void test_all_busy(void)
{
    step("17 runners that are all busy");
    with_shape(&(struct shape){.n = 17}, 20, all_busy);
}

static void test_all_unreachable(void)
{
    step("17 runners that cannot be reached");
    with_shape(&(struct shape){.n = 17}, 20, all_unreachable);
}

static void test_all_draining(void)
{
    step("17 runners that all drain");
    with_shape(&(struct shape){.n = 17, .all_draining = true}, 20, all_busy);
}

/* Somebody is free: sooner or later that runner is tried. */
static void test_finds_free(void)
{
    struct instance *in = instance_new();
    uint32_t n;

    for (n = 1; n <= 12; n++) {
        struct list l =
            list_make(in, &(struct shape){.n = n, .draining_mod = n > 3 ? 3 : 0, .plain = true},
                      true, false);

        for (lucky_index = 0; lucky_index < n; lucky_index++) {
            struct asking a;

            if (fn_snapshot_at(l.snap, lucky_index)->flags & FN_RUNNER_DRAINING) {
                continue;
            }
            step("%u runners, only number %u takes the call", n, lucky_index);
            asking_start(&a, in, &l, 0);
            must(place_call(&a, 200, one_takes) != FN_WAIT,
                 "after 200 rounds runner %u of %u, the only free one, was never tried; expected "
                 "each runner to get its turn",
                 lucky_index, n);
            asking_end(&a);
        }
        list_free(in, &l);
    }
    instance_destroy(in);
}

/* The list is another one after a wait. */
static void test_lists_change(void)
{
    static const struct shape turns[] = {
        {.n = 9},
        {.n = 3},
        {.n = 0},
        {.n = 12},
        {.n = 12, .reversed = true},
        {.n = 1},
        {.n = 6, .first_id = 100},
        {.n = 6, .all_draining = true},
        {.n = 30},
    };
    struct instance *in = instance_new();
    uint32_t calls;

    for (calls = 0; calls < 30; calls++) {
        uint32_t why = FN_WHY_START;
        struct asking a;
        struct list l = {.n = 0};
        size_t i;

        for (i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
            const struct shape *s = &turns[i ? chance() % 9 : 0];
            struct list next = list_make(in, s, true, false);

            step("the list changes to %u runners between two rounds", s->n);
            if (i == 0) {
                asking_start(&a, in, &next, 0);
            } else {
                list_free(in, &l);
            }
            l = next;
            a.l = &l;
            a.ask.call = l.call;
            if (round_of(&a, why, chance() % 2 ? all_busy : all_unreachable) != FN_WAIT) {
                break;
            }
            why = chance() % 2 ? FN_WHY_TIMER : FN_WHY_WAKE;
            clock_jump(10 * ENV_MS);
        }
        asking_end(&a);
        list_free(in, &l);
    }
    instance_destroy(in);
}

static void test_clock_jumps(void)
{
    static const int64_t jumps[] = {0, 1, ENV_S, 3600 * ENV_S, 86400LL * 365 * ENV_S};
    struct instance *in = instance_new();
    struct list l = list_make(in, &(struct shape){.n = 8}, true, false);
    size_t i;

    for (i = 0; i < 40; i++) {
        struct asking a;

        step("the clock jumps %lld s forward between two questions",
             (long long)(jumps[i % 5] / ENV_S));
        asking_start(&a, in, &l, 0);
        round_of(&a, FN_WHY_START, as_chance_wills);
        clock_jump(jumps[i % 5]);
        if (a.answer.verdict == FN_WAIT) {
            round_of(&a, i % 2 ? FN_WHY_TIMER : FN_WHY_WAKE, all_busy);
        }
        clock_jump(jumps[(i + 2) % 5]);
        clock_advance(0); /* its timers, late and at once */
        asking_end(&a);
    }
    list_free(in, &l);
    instance_destroy(in);
}

/* Questions come late, early and out of turn: START again after an old call with the same memory,
 * a wake at the moment of a timeout, a deadline that has passed. */
static void test_odd_order(void)
{
    static const uint32_t whys[] = {FN_WHY_TIMER, FN_WHY_WAKE, FN_WHY_BUSY, FN_WHY_UNREACHABLE};
    struct instance *in = instance_new();
    struct list l = list_make(in, &(struct shape){.n = 5}, true, false);
    uint32_t i;

    clock_late(true);
    for (i = 0; i < 60; i++) {
        struct asking a;
        uint32_t k;

        asking_start(&a, in, &l, 0);
        ask(&a, FN_WHY_START);
        for (k = 0; k < 8; k++) {
            uint32_t why = whys[chance() % 4];

            step("FN_WHY_%s after verdict %u", why_name(why), a.answer.verdict);
            a.ask.attempts += why == FN_WHY_BUSY || why == FN_WHY_UNREACHABLE;
            a.ask.last_index = (uint32_t)(chance() % 9); /* of a list that was longer */
            a.ask.round++;
            a.ask.deadline_ns = clock_now() + (k % 3 ? ENV_S : -ENV_S);
            ask(&a, why);
            clock_advance((int64_t)(chance() % 100) * ENV_MS);
        }
        asking_end(&a);
    }
    list_free(in, &l);
    instance_destroy(in);
}

static void test_big_list(void)
{
    const int64_t limit = DECIDE_NS * (CONTRACT_SANITIZED ? 20 : 1);
    struct instance *in = instance_new();
    struct list l;
    const struct contract_time *t = shared->times;
    uint32_t i;

    step("a list of %u runners", BIG);
    l = list_make(in, &(struct shape){.n = BIG, .draining_mod = 50}, true, false);
    memset(shared->times, 0, sizeof(shared->times));
    for (i = 0; i < 400; i++) {
        struct asking a;

        asking_start(&a, in, &l, 0);
        ask(&a, FN_WHY_START);
        asking_end(&a);
    }
    while (strcmp(t->method, "decide") != 0) {
        t++;
    }
    must(t->cpu_ns / (int64_t)t->calls <= limit,
         "decide() takes %lld us of processor time on average among %u runners; expected at most "
         "%lld us",
         (long long)(t->cpu_ns / (int64_t)t->calls / 1000), BIG, (long long)(limit / 1000));
    list_free(in, &l);
    with_shape(&(struct shape){.n = BIG}, 1, all_busy);
    with_shape(&(struct shape){.n = BIG, .all_draining = true}, 1, all_busy);
    instance_destroy(in);
}

/* Without an index: none was made, or making it failed. */
static void test_index_absent(void)
{
    struct instance *in = instance_new();
    uint32_t n;

    for (n = 0; n < 12; n++) {
        struct list l = list_make(in, &(struct shape){.n = n}, false, false);
        struct asking a;

        step("a list of %u runners without an index", n);
        asking_start(&a, in, &l, 0);
        place_call(&a, 5, as_chance_wills);
        asking_end(&a);
        list_free(in, &l);
    }
    instance_destroy(in);
}

/* Nothing of a list is there after its last pin, when timers fire and other lists are in use. */
static void test_list_gone(void)
{
    struct instance *in = instance_new();

    for (uint32_t i = 0; i < 24; i++) {
        struct list l = list_make(in, &(struct shape){.n = 3 + i % 5}, i % 4 != 3, false);
        struct asking a;

        step("list %u is given back, timers fire for %u s", i, i % 3 * 30);
        asking_start(&a, in, &l, 0);
        place_call(&a, 3, as_chance_wills);
        asking_end(&a);
        list_free(in, &l);
        clock_advance((int64_t)(i % 3) * 30 * ENV_S);
    }
    instance_destroy(in);
}

/* Several lists live at once; their indexes come and go in any order. */
static void test_index_pairs(void)
{
    const struct fn_placer_ops *ops = subject.factory->ops;
    struct list lists[16];
    struct instance *in;
    int64_t blocks;
    uint32_t i;

    if (!ops->index_build) {
        skip("has no index");
    }
    in = instance_new();
    for (i = 0; i < 16; i++) {
        lists[i] = list_make(in, &(struct shape){.n = i * 5}, true, false);
    }
    for (i = 0; i < 16; i++) {
        struct list *l = &lists[i * 7 % 16];
        struct asking a;

        asking_start(&a, in, l, 0);
        place_call(&a, 3, as_chance_wills);
        asking_end(&a);
        list_free(in, l);
    }
    blocks = memory_live_blocks();
    for (i = 0; i < 50; i++) {
        struct list l = list_make(in, &(struct shape){.n = 20}, true, false);

        list_free(in, &l);
    }
    must(memory_live_blocks() - blocks < 5,
         "%lld blocks more after 50 times index_build() and index_free(); expected none",
         (long long)(memory_live_blocks() - blocks));
    instance_destroy(in);
}

static uint64_t trace_with_growth(uint32_t growth)
{
    struct instance *in;
    uint32_t i;

    chance_reset(9);
    clock_reset();
    trace_reset();
    next_epoch = 0;
    in = instance_new();
    for (i = 0; i < 20; i++) {
        struct shape s = {.n = i, .growth = growth, .draining_mod = i % 4};
        struct list l = list_make(in, &s, true, false);
        struct asking a;

        asking_start(&a, in, &l, growth);
        place_call(&a, 5, as_chance_wills);
        asking_end(&a);
        list_free(in, &l);
    }
    instance_destroy(in);
    return trace_value();
}

/* A later host: every view is larger, runners lie further apart, and the new bytes are not zero. */
static void test_growth(void)
{
    uint64_t today = trace_with_growth(0);
    uint64_t later;

    step("views of a later host, 24 bytes larger each");
    later = trace_with_growth(24);
    must(today == later,
         "answers differ when the host's views are larger and carry unknown flags; expected only "
         "the known "
         "fields to be read, runners through fn_snapshot_at(), unknown bits to be ignored");
}

/* Calls that come and go while others wait: sessions are the only memory of a call. */
static void test_many_calls(void)
{
    enum { CALLS = 200 };
    static struct asking calls[CALLS];
    struct instance *in = instance_new();
    struct list l = list_make(in, &(struct shape){.n = 10}, true, false);
    uint32_t i;

    for (i = 0; i < CALLS; i++) {
        asking_start(&calls[i], in, &l, 0);
        ask(&calls[i], FN_WHY_START);
    }
    for (i = 0; i < 3000; i++) {
        struct asking *a = &calls[chance() % CALLS];

        if (a->answer.verdict == FN_TRY) {
            a->ask.attempts++;
            a->ask.last_index = a->answer.index;
            ask(a, chance() % 2 ? FN_WHY_BUSY : FN_WHY_UNREACHABLE);
        } else if (a->answer.verdict == FN_WAIT) {
            a->ask.round++;
            ask(a, chance() % 2 ? FN_WHY_TIMER : FN_WHY_WAKE);
        } else {
            asking_end(a);
            asking_start(a, in, &l, 0);
            ask(a, FN_WHY_START);
        }
    }
    for (i = 0; i < CALLS; i++) {
        asking_end(&calls[i]);
    }
    list_free(in, &l);
    instance_destroy(in);
}

static void test_observe(void)
{
    const struct fn_placer_ops *ops = subject.factory->ops;
    struct instance *in;
    struct list l;
    struct asking a;
    uint32_t i;

    if (!ops->observe) {
        skip("has no observe()");
    }
    in = instance_new();
    l = list_make(in, &(struct shape){.n = 6}, true, false);
    asking_start(&a, in, &l, 0);
    for (i = 0; i < 300; i++) {
        step("outcome %u of a call that was never asked about", 1 + i % 5);
        observe(&a, 1 + i % 5, (uint32_t)(chance() % 6)); /* 5 = of a later host */
        clock_jump((int64_t)(chance() % 1000) * ENV_MS);
    }
    place_call(&a, 3, all_busy);
    asking_end(&a);
    list_free(in, &l);
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "placer", "empty-list", "a list may be empty: FN_WAIT or FN_GIVE_UP", test_empty, 0 },
    { "placer", "one-runner", "a list may have one runner", test_one, BROAD },
    { "placer", "legal-answers",
      "verdict, index, wait, code and note are legal; session and views "
      "keep their bounds",
      test_legal, ALSO_REAL | BROAD },
    { "placer", "all-busy", "a round ends when every runner refused", test_all_busy, 0 },
    { "placer", "all-unreachable", "a round ends when no runner can be reached",
      test_all_unreachable, 0 },
    { "placer", "all-draining", "a round ends when every runner drains", test_all_draining, 0 },
    { "placer", "finds-free", "the only free runner gets its turn", test_finds_free, 0 },
    { "placer", "lists-change", "lists shrink, grow and change order between rounds",
      test_lists_change, 0 },
    { "placer", "clock-jumps", "time may jump forward", test_clock_jumps, 0 },
    { "placer", "odd-order", "questions come late, early and after the deadline", test_odd_order,
      0 },
    { "placer", "big-list", "10 000 runners, at most 50 us per decision", test_big_list, 0 },
    { "placer", "index-absent", "snap->index may be NULL", test_index_absent, 0 },
    { "placer", "list-gone", "a list is not read after its last pin", test_list_gone, 0 },
    { "placer", "index-pairs", "each index is freed with index_free(), in any order",
      test_index_pairs, 0 },
    { "placer", "growth",
      "views of a later host are larger and carry flags and kinds that nobody knows yet",
      test_growth, 0 },
    { "placer", "many-calls", "calls wait beside each other, known by their session only",
      test_many_calls, 0 },
    { "placer", "observe", "observe() takes any outcome at any time", test_observe, 0 },
};

struct contract_list placer_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
