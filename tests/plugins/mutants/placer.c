/* A placer that walks once around the list from a place that chance names. Each M(n) makes one
 * mistake of mutants.txt. */
#include <fn/placer.h>

#include "mutant.h"

#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

struct conf {
    int64_t limit;
    const char *label; /* may be NULL */
};

struct session {
    uint64_t epoch;
    uint32_t looked;
    uint32_t first;
};

struct placer {
    const struct fn_host *host;
    const struct fn_wake_if *wake; /* may be NULL */
    const struct conf *conf;
    const struct fn_call *kept;
    const struct fn_snapshot *list;
    uint64_t timer;
    uint64_t start;
    uint32_t outcomes[5];
    uint32_t metric;
};

#if MUTANT == 14 || MUTANT == 20
static uint32_t turns;
#endif

static inline void *idle(void *ud)
{
    (void)ud;
    pause();
    return NULL;
}

static inline void join_idle(void)
{
    pthread_t t;

    if (pthread_create(&t, NULL, idle, NULL) == 0) {
        pthread_join(t, NULL);
    }
}

static inline void at_exit(void)
{
    idle(NULL);
}

static inline void again(void *ud)
{
    const struct fn_host *host = ud;
    uint64_t id;

    host->timer->arm(host, host->clock->now_ns(host), again, ud, &id);
}

static inline void look(void *ud)
{
    struct placer *p = ud;

    p->start += p->list->n;
    p->host->timer->arm(p->host, p->host->clock->now_ns(p->host) + 1000000000, look, p,
                        &p->timer);
}

/* What a plugin must not do to its process. */
static void misbehave(void)
{
    pthread_t t;

    (void)t;

    if (M(18)) {
        umask(077);
    }
    if (M(25)) {
        if (open("/dev/null", O_RDONLY) < 0) {
            abort();
        }
    }
    if (M(26)) {
        pthread_create(&t, NULL, idle, NULL);
    }
    if (M(48)) {
        atexit(at_exit);
    }
    if (M(38)) {
        fesetround(FE_UPWARD);
    }
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    struct placer *p = M(22) ? malloc(sizeof(*p)) : calloc(1, sizeof(*p));

    if (!p && M(37)) {
        *ret_inst = (void *)(uintptr_t)conf;
    }
    if (!p && !M(17)) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    p->host = host;
    p->conf = c;
    p->kept = NULL;
    p->list = NULL;
    p->wake = host->get(host, "fn.wake", 1);
    if (M(39)) {
        p->wake->wake(host, NULL);
    }
    if (host->metric->declare(host, "asked", FN_METRIC_COUNTER, &p->metric) < 0) {
        if (M(40)) {
            abort();
        }
        free(p);
        return fail(reterr, FN_E_EXHAUSTED, "no metric");
    }
    if (M(23) && c->limit == 1000) {
        abort();
    }
    if (M(24) && strlen(c->label) > 100) {
        abort();
    }
    if (M(34) && c->limit == 1000) {
        free(p);
        return FN_E_INVALID;
    }
    if (M(21)) {
        p->start = (uintptr_t)p >> 4;
    } else if (!M(22)) {
        p->start = 3;
    }
    misbehave();
    if (M(49)) {
        again((void *)(uintptr_t)host);
    }
    *ret_inst = p;
    return M(33) ? 1 : 0;
}

static void destroy(void *inst)
{
    if (M(15)) {
        ((volatile struct placer *)inst)->start = 0;
    }
    while (M(28) && !inst) {
        usleep(1000);
    }
    if (M(47)) {
        join_idle();
    }
    if (!M(16)) {
        free(inst);
    }
}

static uint32_t first_of(struct placer *p, const struct fn_ask *ask)
{
    uint64_t at = p->start + (M(19) ? (uint64_t)rand() : p->host->rng->u64(p->host));

#if MUTANT == 14 || MUTANT == 20
    at += turns++;
#endif
    return ask->snap->n ? (uint32_t)(at % ask->snap->n) : 0;
}

static int drains(const struct fn_snapshot *s, uint32_t i)
{
    const struct fn_runner *r =
        M(8) ? (const struct fn_runner *)s->runners + i : fn_snapshot_at(s, i);

    return (r->flags & FN_RUNNER_DRAINING) != 0;
}

static void spoil(struct placer *p, const struct fn_ask *ask, struct fn_answer *ret)
{
    uint32_t id;

    if (M(6)) {
        memset(ret->note, 'n', sizeof(ret->note));
    }
    if (M(7)) {
        ((char *)ask->session)[sizeof(struct session)] = 1;
    }
    if (M(9) && *(const char *)ask->snap->index == 1) {
        abort();
    }
    if (M(11)) {
        for (volatile uint32_t i = 0; i < ask->snap->n * 30; i++) {
        }
    }
    if (M(27)) {
        exit(0);
    }
    if (M(29)) {
        p->host->metric->declare(p->host, "late", FN_METRIC_COUNTER, &id);
    }
    if (M(30)) {
        if (p->kept && p->kept->id == NULL) {
            abort();
        }
        p->kept = ask->call;
    }
    if (M(31)) {
        ((struct fn_ask *)(uintptr_t)ask)->attempts = 0;
    }
    if (M(51) && !p->list) {
        p->host->timer->arm(p->host, p->host->clock->now_ns(p->host) + 1000000000, look, p,
                            &p->timer);
    }
    p->list = ask->snap;
    if (M(32)) {
        ret->size = 1;
    }
    if (M(42) && ask->call->kind > FN_CALL_DETACHED) {
        abort();
    }
    if (M(43) && ask->snap->flags > FN_SNAP_STALE) {
        ret->note[0] = 'x';
    }
    for (volatile uint32_t i = 0; M(44) && i < 12000000; i++) {
    }
    for (volatile uint32_t i = 0; M(46) && p->outcomes[FN_DONE_BUSY] % 64 == 63 && i < 12000000;
         i++) {
    }
    if (M(45)) {
        usleep(1500);
    }
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct placer *p = inst;
    struct session *s = ask->session;
    const struct fn_snapshot *snap = ask->snap;

    p->host->metric->add(p->host, p->metric, 1);
    if ((ask->why != FN_WHY_BUSY && ask->why != FN_WHY_UNREACHABLE) || s->epoch != snap->epoch) {
        s->epoch = snap->epoch;
        s->looked = 0;
        s->first = M(12) ? 0 : first_of(p, ask);
    }
    spoil(p, ask, ret);
    if (M(35) && snap->n == 0) {
        return -99;
    }
    while (s->looked < snap->n || (M(2) && snap->n == 0)) {
        uint32_t i = snap->n ? (s->first + s->looked) % snap->n : 0;

        s->looked += M(3) ? 0 : M(12) ? snap->n : 1;
        if (snap->n == 0 || !drains(snap, i)) {
            ret->verdict = FN_TRY;
            ret->index = M(1) ? i + 1 : i;
            return 0;
        }
    }
    ret->verdict = M(5) && ask->why == FN_WHY_WAKE ? 9 : M(36) ? FN_GIVE_UP : FN_WAIT;
    ret->code = M(36) ? 5 : 0;
    ret->wait_ns = M(4) ? -1 : p->conf->limit * 1000000;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY | (M(41) ? 64u : 0);
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    struct placer *p = inst;

    if (what->outcome > FN_DONE_UNREACHABLE && M(13)) {
        abort();
    }
    p->outcomes[what->outcome <= FN_DONE_UNREACHABLE ? what->outcome : FN_DONE_FAILED]++;
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    char *index = malloc(snap->n + 1);

    (void)inst;
    if (!index) {
        return FN_E_EXHAUSTED;
    }
    index[0] = 0;
    while (M(50) && index[0] == 0) {
        *(volatile char *)index = 0;
    }
    *ret_index = index;
    return 0;
}

static void index_free(void *inst, void *index)
{
    (void)inst;
    if (!M(10)) {
        free(index);
    }
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct session),
    .decide = decide,
    .observe = observe,
    .index_build = index_build,
    .index_free = index_free,
};

static const struct fn_opt opts[] = {
    {.key = "limit",
     .doc = "Milliseconds between two rounds.",
     .dflt = "10",
     .min = 1,
     .max = 1000,
     .type = FN_OPT_INT,
     .offset = offsetof(struct conf, limit)},
    {.key = "label",
     .doc = "A word for nobody.",
     .min = 1,
     .max = 50,
     .type = FN_OPT_STR,
     .offset = offsetof(struct conf, label),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = NULL},
};

static const struct fn_need needs[] = {
    {"fn.wake", 1, 0, FN_NEED_OPTIONAL},
    {NULL, 0, 0, 0},
};

MUTANT_PLUGIN(mutant, FN_KIND_PLACER, PLACER, sizeof(struct conf), opts, needs, ops)
