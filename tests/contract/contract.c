/* Around each call into a plugin: what context it runs in, how long it took, what it may not
 * touch. And the life of a case: its options, its instance, its end. */
#include "contract.h"
#include "outside.h"
#include "real.h"
#include "world.h"

#include <base/hash.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NEST_MAX 8
#define AVERAGE_CALLS 20 /* then an average means something */
#define LONGEST_TIMES 2  /* as long as the average may one call be */
#define OPS_KEPT 64      /* operations, in turns */
#define ROUND_CALLS_MAX 16384
#define ENOUGH_NS (2 * ENV_S) /* the watch of fnkit ends a case later */

struct contract_subject subject;
struct contract_shared *shared;

static _Thread_local bool plugin_runs;
static _Thread_local uint32_t depth;
static _Thread_local struct {
    enum context context;
    const char *method;
    int64_t entered_ns;
    int64_t entered_cpu_ns;
    struct plugin *real;
    struct plugin_crumb crumb;
} stack[NEST_MAX];
static struct {
    bool on;
    bool first;
    uint32_t n;
    int64_t least_ns[ROUND_CALLS_MAX];
    const char *method[ROUND_CALLS_MAX];
} rounds;
static int64_t began_ns; /* this case */
static char violated[256];
static bool no_reterr;
static uint64_t trace;
static uint64_t chance_state;
static unsigned char stack_byte;

int contract_open(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? FN_E_EXHAUSTED : 0;
}

/* ---- sentences ------------------------------------------------------------------------------- */

void broken(const char *fmt, ...)
{
    char text[700];
    va_list ap;

    plugin_runs = false;
    shared->method[0] = '\0';
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ck_abort_msg("%s", text);
    abort(); /* not reached: ck_abort_msg() ends this process */
}

void step(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(shared->step, sizeof(shared->step), fmt, ap);
    va_end(ap);
}

void rule_of(const char *suite_and_name)
{
    snprintf(shared->rule_of, sizeof(shared->rule_of), "%s", suite_and_name);
}

void skip(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(shared->note, sizeof(shared->note), fmt, ap);
    va_end(ap);
    shared->finished = true;
    _exit(0); /* what the case holds is of no interest */
}

void violation(const char *fmt, ...)
{
    va_list ap;

    if (violated[0]) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(violated, sizeof(violated), fmt, ap);
    va_end(ap);
}

void reterr_absent(bool absent)
{
    no_reterr = absent;
}

struct fn_error *reterr_of(struct fn_error *e)
{
    return no_reterr ? NULL : e;
}

bool is_told(const struct fn_error *e)
{
    return no_reterr || e->msg[0];
}

void must_be_result(const char *method, int r, const struct fn_error *e)
{
    must(r <= 0 && r >= FN_E_UNAUTHENTICATED,
         "%s() returned %d; expected 0 or an error FN_E_* (-16 to -1)", method, r);
    if (!e) {
        return;
    }
    must(memchr(e->msg, '\0', sizeof(e->msg)),
         "%s() left a text in reterr that does not end; expected at most %d bytes with the end",
         method, FN_ERROR_TEXT_MAX);
    must(r < 0 || (e->msg[0] == '\0' && e->code == 0),
         "%s() returned 0 and wrote \"%.60s\" to reterr; it is written only on failure", method,
         e->msg);
}

/* ---- around calls ---------------------------------------------------------------------------- */

static int64_t read_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * ENV_S + t.tv_nsec;
}

bool enough(void)
{
    return read_ns(CLOCK_MONOTONIC) - began_ns > ENOUGH_NS * (CONTRACT_SANITIZED ? 4 : 1);
}

/* What a method finds in its uninitialised variables. */
static void __attribute__((noinline)) dirty_stack(void)
{
    volatile unsigned char bytes[8192];
    size_t i;

    for (i = 0; i < sizeof(bytes); i++) {
        bytes[i] = stack_byte;
    }
}

void contract_dirty(unsigned char byte)
{
    stack_byte = byte;
    memory_fill(byte);
}

static enum plugin_context crumb_context(enum context c)
{
    return c == INIT ? PLUGIN_INIT : c == LOOP ? PLUGIN_LOOP : PLUGIN_WORKER;
}

static void beat(void)
{
    __atomic_fetch_add(&shared->beats, 1, __ATOMIC_RELAXED);
}

void enter(struct instance *in, enum context context, const char *method)
{
    must(depth < NEST_MAX, "%s() leads to calls of methods without end", method);
    stack[depth].context = context;
    stack[depth].method = method;
    snprintf(shared->method, sizeof(shared->method), "%s", method);
    if (stack_byte) {
        dirty_stack();
    }
    stack[depth].real = in->real;
    stack[depth].entered_ns = read_ns(CLOCK_MONOTONIC);
    stack[depth].entered_cpu_ns = read_ns(CLOCK_THREAD_CPUTIME_ID);
    if (in->real) {
        plugin_enter(&stack[depth].crumb, in->real, crumb_context(context), method);
    }
    depth++;
    beat();
    plugin_runs = true;
}

void times_round(uint32_t round)
{
    rounds.n = 0;
    rounds.on = true;
    rounds.first = round == 0;
}

static void number_call(const char *method, int64_t cpu)
{
    const uint32_t i = rounds.n;

    if (i == ROUND_CALLS_MAX) {
        return;
    }
    rounds.n++;
    if (rounds.first || cpu < rounds.least_ns[i]) {
        rounds.method[i] = method;
        rounds.least_ns[i] = cpu;
    }
}

static int64_t budget(void)
{
    return PLUGIN_BUDGET_LOOP_NS * (CONTRACT_SANITIZED ? 20 : 1);
}

void times_must_be_short(void)
{
    const int64_t limit = budget() * LONGEST_TIMES;

    for (uint32_t i = 0; i < rounds.n; i++) {
        must(rounds.least_ns[i] <= limit,
             "%s() takes %lld us of processor time now and then, in call %u of %u; expected at "
             "most %lld us of each: it must not spin",
             rounds.method[i], (long long)(rounds.least_ns[i] / 1000), i + 1, rounds.n,
             (long long)(limit / 1000));
    }
}

const char *contract_usual(const char *method)
{
    return strcmp(method, "decide") == 0 ? "up to 50 us, and " : "";
}

/* As soon as it is certain: what is slow in each call would outlast its case. */
static void must_not_spin(const struct contract_time *t)
{
    must(t->cpu_ns / (int64_t)t->calls <= budget(),
         "%s() takes %lld us of processor time on average over %llu calls; expected %sless than "
         "%lld us: it must not spin",
         t->method, (long long)(t->cpu_ns / (int64_t)t->calls / 1000), (unsigned long long)t->calls,
         contract_usual(t->method), (long long)(budget() / 1000));
}

static void must_not_block(const struct contract_time *t)
{
    must(t->shortest_ns <= budget(),
         "%s() takes %lld us of real time at least, in each of %llu calls; expected %sless than "
         "%lld us: it must not block",
         t->method, (long long)(t->shortest_ns / 1000), (unsigned long long)t->calls,
         contract_usual(t->method), (long long)(budget() / 1000));
}

void times_must_not_block(uint32_t calls_min)
{
    const struct contract_time *t;

    for (t = shared->times; t < shared->times + CONTRACT_METHODS_MAX && t->method[0]; t++) {
        if (t->loop && t->calls >= calls_min) {
            must_not_block(t);
        }
    }
}

static void add_time(const char *method, bool loop, int64_t took, int64_t cpu)
{
    struct contract_time *t = shared->times;
    struct contract_time *end = t + CONTRACT_METHODS_MAX;

    while (t < end && t->method[0] && strcmp(t->method, method) != 0) {
        t++;
    }
    if (t == end) {
        return;
    }
    snprintf(t->method, sizeof(t->method), "%s", method);
    t->calls++;
    t->total_ns += took;
    t->longest_ns = took > t->longest_ns ? took : t->longest_ns;
    t->shortest_ns = t->calls == 1 || took < t->shortest_ns ? took : t->shortest_ns;
    t->cpu_ns += cpu;
    t->loop = loop;
    if (rounds.on && loop) {
        number_call(method, cpu);
        if (t->calls >= AVERAGE_CALLS) {
            must_not_spin(t);
            must_not_block(t);
        }
    }
}

void leave(void)
{
    int64_t cpu;
    int64_t now;

    plugin_runs = false;
    depth--;
    beat();
    if (stack[depth].real) {
        plugin_leave(&stack[depth].crumb);
    }
    cpu = read_ns(CLOCK_THREAD_CPUTIME_ID);
    now = read_ns(CLOCK_MONOTONIC);
    add_time(stack[depth].method, stack[depth].context == LOOP, now - stack[depth].entered_ns,
             cpu - stack[depth].entered_cpu_ns);
    snprintf(shared->last, sizeof(shared->last), "%s", stack[depth].method);
    if (depth > 0) {
        snprintf(shared->method, sizeof(shared->method), "%s", stack[depth - 1].method);
        plugin_runs = true;
    } else {
        shared->method[0] = '\0';
        must(!violated[0], "%s", violated);
    }
}

struct worker_call {
    struct instance *in;
    const char *method;
    void (*run)(void *ud, struct fn_op *op);
    void *ud;
};

static void run_worker_call(void *ud, struct fn_op *op)
{
    const struct worker_call *c = ud;

    op_open = op;
    enter(c->in, WORKER, c->method);
    c->run(c->ud, op);
    leave();
    op_open = NULL;
}

/* The operation has an address that those before it did not have: one that was kept is another. */
static void run_here(struct worker_call *c, struct fn_op *op)
{
    static struct fn_op ops[OPS_KEPT];
    static uint32_t turn;
    struct fn_op *own = &ops[turn++ % OPS_KEPT];

    *own = *op;
    run_worker_call(c, own);
    *op = *own;
}

void on_worker(struct instance *in, const char *method, struct fn_op *op,
               void (*run)(void *ud, struct fn_op *op), void *ud)
{
    struct worker_call c = {in, method, run, ud};

    if (subject.world) {
        world_work(run_worker_call, &c, op->deadline_ns, op->cancel_at_ns);
    } else {
        run_here(&c, op);
    }
}

enum context context_now(void)
{
    const struct plugin_crumb *c = depth == 0 && subject.real ? plugin_current() : NULL;

    if (c) { /* core/plugin made the call: create(), destroy(), a timer */
        return c->context == PLUGIN_INIT ? INIT : c->context == PLUGIN_LOOP ? LOOP : WORKER;
    }
    return depth > 0 ? stack[depth - 1].context : NOWHERE;
}

const char *context_name(enum context c)
{
    static const char *const names[] = {"a thread of its own", "[init]", "[loop]", "[worker]"};

    return names[c];
}

bool running(void)
{
    return plugin_runs;
}

bool running_suspend(void)
{
    bool was = plugin_runs;

    plugin_runs = false;
    return was;
}

void running_resume(const bool *was)
{
    plugin_runs = *was;
}

void must_be_in(unsigned allowed, const char *what)
{
    enum context c = context_now();

    if (!(allowed & (1u << c))) {
        violation("%s was called from %s%s%s%s; expected%s%s%s", what, context_name(c),
                  depth ? ", in " : "", depth ? stack[depth - 1].method : "", depth ? "()" : "",
                  allowed & IN_INIT ? " [init]" : "", allowed & IN_LOOP ? " [loop]" : "",
                  allowed & IN_WORKER ? " [worker]" : "");
    }
}

/* ---- determinism ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t chance(void)
{
    return mix(&chance_state);
}

void chance_reset(uint64_t salt)
{
    chance_state = subject.seed * 0x2545f4914f6cdd1du + salt;
}

void trace_reset(void)
{
    trace = HASH_INIT;
}

void trace_add(const void *data, size_t len)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < len; i++) {
        trace = hash_byte(trace, bytes[i]);
    }
}

void trace_u64(uint64_t v)
{
    trace_add(&v, sizeof(v));
}

void trace_text(const char *s)
{
    trace_add(s ? s : "(null)", s ? strlen(s) + 1 : 6);
}

uint64_t trace_value(void)
{
    return trace;
}

/* ---- instances ------------------------------------------------------------------------------- */

struct instance *instance_of(const struct fn_host *host)
{
    return host->priv;
}

const void *instance_ops(const struct instance *in)
{
    (void)in;
    return subject.factory->ops;
}

static const char *made_up(const struct fn_opt *o, char *ret, size_t cap)
{
    if (o->type == FN_OPT_STRLIST) {
        return "runner-1.contract:9190,runner-2.contract:9190,runner-3.contract:9190";
    }
    if (o->type == FN_OPT_STR) {
        snprintf(ret, cap, "contract");
        if (o->max > 0 && o->max < 8) {
            ret[o->max] = '\0';
        }
    } else if (o->type == FN_OPT_CHOICE) {
        snprintf(ret, cap, "%.*s", (int)strcspn(o->choices, "|"), o->choices);
    } else if (o->type == FN_OPT_DURATION) {
        snprintf(ret, cap, "%lldns", o->min || o->max ? (long long)o->min : 1000000000LL);
    } else if (o->type == FN_OPT_BOOL) {
        return "false";
    } else {
        snprintf(ret, cap, "%lld", o->min || o->max ? (long long)o->min : 1LL);
    }
    return ret;
}

static bool is_set(const struct conf_override *sets, const char *key)
{
    for (; sets && sets->key; sets++) {
        if (strcmp(sets->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* A list of runners without a default is required by what it says, not by its flags. */
static bool wants_value(const struct fn_opt *o)
{
    return !o->dflt && !(o->flags & FN_OPT_MAY_BE_ABSENT);
}

int instance_options(const struct conf_override *sets, struct conf_values **ret,
                     struct conf_problems *p)
{
    const struct fn_factory *f = subject.factory;
    struct conf_override all[600];
    char texts[256][32];
    const struct fn_opt *o;
    uint32_t n = 0;
    uint32_t i = 0;

    for (o = f->opts; o && o->key; o++, i++) {
        if (wants_value(o) && !is_set(subject.sets, o->key) && !is_set(sets, o->key)) {
            all[n++] =
                (struct conf_override){o->key, "contract", made_up(o, texts[i], sizeof(texts[i]))};
        }
    }
    for (o = f->opts; o && o->key; o++) {
        const struct conf_override *list = is_set(sets, o->key) ? sets : subject.sets;

        for (; list && list->key; list++) {
            if (strcmp(list->key, o->key) == 0 && n < 599) {
                all[n++] = *list;
            }
        }
    }
    all[n] = (struct conf_override){NULL, NULL, NULL};
    return conf_bind(NULL, NULL, f->name, f->opts, f->conf_size, NULL, all, ret, p);
}

static void release(struct instance *in)
{
    tables_release(in);
    must(outside_left(in) == 0,
         "%u streams or processes are left after %s; expected the plugin to end them",
         outside_left(in), in->alive ? "destroy()" : "a failed create()");
    outside_forget(in);
    conf_values_destroy(in->conf);
    free(in);
}

static struct instance *allocate(struct conf_values *given)
{
    struct instance *in = calloc(1, sizeof(*in));

    must(in, "the machine has no memory for the test");
    in->conf = given;
    in->rng = subject.seed ^ 0x5ca1ab1e;
    TAILQ_INIT(&in->timers);
    tables_attach(in);
    return in;
}

int instance_make_with(struct conf_values *given, struct instance **ret, struct fn_error *reterr)
{
    static char untouched;
    struct instance *in = allocate(subject.real ? NULL : given);
    int r;

    if (subject.real) {
        r = real_make(given, &in->real, reterr);
        in->inst = r < 0 ? NULL : plugin_inst(in->real);
        *ret = in;
        if (r < 0) {
            release(in);
        }
        return r;
    }
    in->inst = &untouched;
    enter(in, INIT, "create");
    r = subject.factory->create(&in->host, subject.factory->conf_size ? given->data : NULL,
                                &in->inst, reterr);
    leave();
    must_be_result("create", r, reterr);
    if (r < 0) {
        must(in->inst == &untouched,
             "create() returned %d and wrote ret_inst; ret_* parameters are written only on "
             "success",
             r);
        release(in);
        return r;
    }
    must(in->inst && in->inst != &untouched,
         "create() returned 0 without an instance in ret_inst; expected one");
    in->alive = true;
    *ret = in;
    return 0;
}

int instance_make(const struct conf_override *sets, struct instance **ret, struct fn_error *reterr)
{
    struct conf_values *values = NULL;
    struct conf_problems p;

    conf_problems_init(&p);
    instance_options(sets, &values, &p);
    must(p.n == 0, "the options cannot be set: %.500s", buf_text(&p.text));
    conf_problems_finish(&p);
    return instance_make_with(values, ret, reterr);
}

struct instance *instance_new(void)
{
    struct fn_error e = ERR_INIT;
    struct instance *in = NULL;
    int r = instance_make(NULL, &in, &e);

    must(r == 0,
         "create() failed with the default options: %s %.200s; expected an instance (give "
         "options with --set)",
         err_name(r), e.msg);
    return in;
}

void instance_destroy(struct instance *in)
{
    if (!in) {
        return;
    }
    if (in->real) {
        real_destroy(in->real);
        release(in);
        return;
    }
    /* As a host does it: its timers are off and its children have ended before destroy() frees what
     * both point at. */
    tables_release(in);
    outside_end(in);
    enter(in, INIT, "destroy");
    subject.factory->destroy(in->inst);
    leave();
    release(in);
}

/* ---- running --------------------------------------------------------------------------------- */

exercise_fn exercise_of(const char *kind)
{
    static const struct {
        const char *kind;
        exercise_fn run;
    } all[] = {
        {FN_KIND_PLACER, placer_exercise},        {FN_KIND_POOL, pool_exercise},
        {FN_KIND_CONTROL_PLANE, cplane_exercise}, {FN_KIND_OVERRIDER, overrider_exercise},
        {FN_KIND_LISTENER, listener_exercise},    {FN_KIND_DRIVER, driver_exercise},
        {FN_KIND_PREDICTOR, predictor_exercise},  {FN_KIND_OPERATOR, operator_exercise},
    };
    size_t i;

    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].kind, kind) == 0) {
            return all[i].run;
        }
    }
    return NULL;
}

void contract_run(const struct contract_case *c)
{
    struct process_state *before;
    const char *said;

    __atomic_store_n(&shared->pid, getpid(), __ATOMIC_RELEASE);
    crash_open();
    began_ns = read_ns(CLOCK_MONOTONIC);
    chance_reset(0);
    trace_reset();
    clock_reset();
    published_reset();
    reported_reset();
    script_rewind();
    outside_mode(OUTSIDE_GOOD);
    violated[0] = '\0';
    if (subject.real) {
        real_open();
    }
    before = state_take();
    c->run();
    said = state_compare(before, state_take());
    said = subject.world ? NULL : said; /* threads and descriptors of lanes come when they like */
    must(!said, "%s; the process belongs to the host", said);
    if (subject.real) {
        real_close();
    }
    shared->finished = true;
}
