/* Contract: what include/fn/ promises about plugins, as cases that run against any plugin file.
 *
 * Each case runs in a process of its own (Check forks it), over host tables whose clock, timers and
 * outside belong to the case. A case calls the plugin between enter() and leave() only; both watch
 * what no single case could: contexts of host calls, the session's neighbours, time per call. What
 * is wrong is told with must(): one sentence, what the plugin did and what was expected. */
#ifndef CONTRACT_CONTRACT_H
#define CONTRACT_CONTRACT_H

#include <check.h>
#include <conf/conf.h>
#include <plugin/plugin.h>
#include <signal.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONTRACT_SANITIZED 1
#else
#define CONTRACT_SANITIZED 0
#endif

struct contract_case {
    const char *suite; /* "life", or the kind */
    const char *name;
    const char *rule; /* what a plugin must do, one sentence for the report */
    void (*run)(void);
    unsigned also; /* ALSO_* */
};
#define ALSO_REAL  1u /* over the real clock */
#define ALSO_WORLD 2u /* over all tables of a node, with what is really there behind them */
#define ONLY_WORLD 6u
#define BROAD 8u /* fails for many reasons: another case that says the same says it better */

/* The cases of a kind, those that every kind shares first; NULL and 0 for an unknown kind. */
struct contract_list {
    const struct contract_case *cases;
    size_t n;
};
#define CONTRACT_LISTS 2
#define CONTRACT_FIRST_CASE "create" /* when it fails, the others have nothing to work on */
void contract_cases(const char *kind, struct contract_list ret[CONTRACT_LISTS]);

/* What is under test; set before a case is forked. */
struct contract_subject {
    const char *path;
    const struct fn_factory *factory;
    const struct conf_override *sets; /* options of the command line, ended by a NULL key */
    uint64_t seed;
    bool real;
    bool world;        /* real, too */
    const char *image; /* what containers of the world run; NULL = none was named */
};
extern struct contract_subject subject;

/* ---- written by a case, read by the process that forked it ----------------------------------- */

#define CONTRACT_METHODS_MAX 24

struct contract_time {
    char method[24];
    uint64_t calls;
    int64_t total_ns;
    int64_t longest_ns;
    int64_t shortest_ns;
    int64_t cpu_ns; /* of this thread: who else runs does not matter */
    bool loop;      /* [loop] */
};

struct contract_shared {
    char step[192];       /* what the case is about to do */
    char method[24];      /* of the plugin, while it runs, else "" */
    char last[24];        /* the method that ran last */
    char rule_of[80];     /* "placer/legal-answers": whose rule it would break; "" = the case's own */
    char note[192];       /* a case that cannot run says why: it is skipped */
    char unscripted[160]; /* the first request to the outside that no script answers */
    char dir[32];         /* see case_dir(); "" = there is none */
    char place[96];       /* of the instruction that a signal came in, "file+0x12", or "" */
    char touched[160];    /* what of the host's it read or wrote, or "" */
    bool finished;
    pid_t pid;      /* of the case, from its first step on */
    uint64_t beats; /* calls of methods that began or ended */
    struct contract_time times[CONTRACT_METHODS_MAX];
};
extern struct contract_shared *shared; /* NULL until contract_open() */

int contract_open(void); /* maps `shared` */
/* A folder of the case's own below /tmp, made when it is first asked for. What the case leaves in
 * it, however it ended, goes with case_dir_remove() in the process that started it. */
const char *case_dir(void);
void case_dir_remove(void);
/* Signals of this process write down where they came from, then do what they do. */
#define CONTRACT_WHERE_SIG SIGQUIT /* asks a case that hangs, before it is killed */
void crash_open(void);
/* Runs the case in this process. Called in the child. */
void contract_run(const struct contract_case *c);

/* Answers of programs and HTTP servers, from a YAML file; once, before cases run. */
int script_load(const char *path, struct conf_problems *p);
void script_finish(void);

/* ---- saying what is wrong -------------------------------------------------------------------- */

#define must(cond, ...)                                                                            \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            broken(__VA_ARGS__);                                                                   \
        }                                                                                          \
    } while (0)
void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* From now on it is the rule of that case which must() looks after, wherever it is broken; "": of
 * the case that runs. */
void rule_of(const char *suite_and_name);
/* What comes next, for the sentence about a crash. */
void step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the case as skipped. */
void skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A host table notes what it was asked against the rules; leave() tells. First one wins. */
void violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* r is 0 or FN_E_*, and a failure has a terminated text. */
void must_be_result(const char *method, int r, const struct fn_error *e);
/* While it is absent, every method that may be told of a failure is given NULL as its reterr. */
void reterr_absent(bool absent);
struct fn_error *reterr_of(struct fn_error *e); /* e, or NULL while it is absent */
bool is_told(const struct fn_error *e);         /* with a text, or nobody could be told */

/* ---- instances ------------------------------------------------------------------------------- */

#define INSTANCE_TIMERS_MAX 10000u
#define INSTANCE_METRICS_MAX 32u

struct timer_entry;

struct instance {
    struct fn_host host; /* what the plugin sees; .priv = this */
    struct plugin *real; /* made by core/plugin instead, over the real clock */
    void *inst;
    struct conf_values *conf;
    bool alive;
    TAILQ_HEAD(, timer_entry) timers;
    uint32_t n_timers;
    uint64_t timer_last;
    uint32_t n_metrics;
    uint64_t rng;
};

enum context { NOWHERE, INIT, LOOP, WORKER };

/* Options: those of the command line, then `sets` (may be NULL), then made-up values for required
 * ones. 0 and an instance, or the plugin's error. `reterr` is passed on as it is. */
int instance_make(const struct conf_override *sets, struct instance **ret, struct fn_error *reterr);
/* With values that are given. */
int instance_make_with(struct conf_values *given, struct instance **ret, struct fn_error *reterr);
/* The same, and the case fails when the plugin refuses. */
struct instance *instance_new(void);
void instance_destroy(struct instance *in);
const void *instance_ops(const struct instance *in);
/* Every required option has a value, else a sentence. */
int instance_options(const struct conf_override *sets, struct conf_values **ret,
                     struct conf_problems *p);

/* Around each call of a method. `method` is a literal. */
void enter(struct instance *in, enum context context, const char *method);
void leave(void);
/* A method that runs on workers: here, or in the world on a lane of the loop with an operation of
 * the loop's. `run` makes the one call. */
struct fn_op;
void on_worker(struct instance *in, const char *method, struct fn_op *op,
               void (*run)(void *ud, struct fn_op *op), void *ud);
/* For tables: where the plugin that calls is; NOWHERE on a thread that no method runs on. */
enum context context_now(void);
const char *context_name(enum context c);
struct instance *instance_of(const struct fn_host *host);
/* Plugin code runs on this thread right now. Tables suspend it. */
bool running(void);
bool running_suspend(void);
void running_resume(const bool *was);
#define HOST_CALL() bool was_ __attribute__((cleanup(running_resume), unused)) = running_suspend()
/* From now on calls of [loop] methods are numbered, `round` by round: what is done again in the
 * same way is slow only if it is so each time; a processor that was busy elsewhere is not. */
void times_round(uint32_t round);
void times_must_be_short(void);
void times_must_not_block(uint32_t calls_min); /* of methods that were called so often */
const char *contract_usual(const char *method); /* "up to 50 us, and " of decide(), or "" */
/* A method may be called from `allowed` (bits 1 << INIT ...), else a violation is noted. */
void must_be_in(unsigned allowed, const char *what);
#define IN_INIT (1u << INIT)
#define IN_LOOP (1u << LOOP)
#define IN_WORKER (1u << WORKER)

/* ---- determinism ----------------------------------------------------------------------------- */

/* Memory and stack of plugins are filled with this byte from now on; 0 = left alone. */
void contract_dirty(unsigned char byte);
/* Everything that a plugin answers goes into one number. */
void trace_reset(void);
void trace_add(const void *data, size_t len);
void trace_u64(uint64_t v);
void trace_text(const char *s);
uint64_t trace_value(void);

/* The case's own chance: the same for the same seed. */
uint64_t chance(void);
void chance_reset(uint64_t salt);

/* A short life of an instance that uses every method; `tolerant` when memory may be missing. All
 * answers go into the trace. One per kind. */
typedef void (*exercise_fn)(struct instance *in, bool tolerant);
exercise_fn exercise_of(const char *kind);
void placer_exercise(struct instance *in, bool tolerant);
void pool_exercise(struct instance *in, bool tolerant);
void cplane_exercise(struct instance *in, bool tolerant);
void overrider_exercise(struct instance *in, bool tolerant);
void listener_exercise(struct instance *in, bool tolerant);
void driver_exercise(struct instance *in, bool tolerant);
void predictor_exercise(struct instance *in, bool tolerant);
void operator_exercise(struct instance *in, bool tolerant);

/* ---- clock.c: virtual time ------------------------------------------------------------------- */

extern struct env clock_env;
void clock_reset(void);
int64_t clock_now(void);
/* Moves time; timers that are due fire in order, or late and in any order. */
void clock_advance(int64_t ns);
void clock_late(bool late);
size_t clock_timers(void);
/* Moves time without firing anything. */
void clock_jump(int64_t ns);

/* ---- memory.c
 * ------------------------------------------------------------------------------------ */

/* False where a sanitizer owns malloc. */
bool memory_watched(void);
int64_t memory_live_bytes(void);
int64_t memory_live_blocks(void);
/* From now on allocations made inside plugin code are counted, and the n-th fails (1..; 0 = none);
 * with `and_all_after`, each one after it too. */
void memory_fail_at(uint64_t n, bool and_all_after);
uint64_t memory_seen(void); /* allocations since memory_fail_at() */
bool memory_failed(void);   /* one was refused */
/* New and freed memory of plugins is filled with this byte; 0 = left alone. */
void memory_fill(unsigned char byte);

/* A region whose last byte is followed by a page that cannot be touched. For the sentence about one
 * that touches it all the same: `what` it is, and when it is `gone` ("a list", "its last pin"). */
void *fence_alloc(size_t len, size_t align, const char *what, const char *gone);
void fence_read_only(void *at);
void fence_free(void *at);
/* [async-signal-safe] "read a list after its last pin", or "" for other addresses. */
void fence_tell(const void *addr, bool wrote, char *ret, size_t cap);
/* The case has worked long enough: loops over "the n-th fails, for each n" end. */
bool enough(void);

/* ---- state.c: what belongs to the process
 * --------------------------------------------------------- */

struct process_state;
struct process_state *state_take(void);
/* NULL, or a sentence about the first difference (static buffer). Frees both. */
const char *state_compare(struct process_state *before, struct process_state *after);
uint32_t state_count_fds(void);
uint32_t state_count_threads(void);

/* ---- tables.c, outside.c: what hosts offer
 * --------------------------------------------------------- */

void tables_attach(struct instance *in);
void tables_release(struct instance *in); /* its timers off */
/* A table by name, or NULL. */
const void *tables_find(const char *iface);
/* Needs of the factory that may be absent are absent from now on. */
void tables_withhold(bool optional);

/* Suite "driver": the task of a container that is being made or was, NULL = none. */
const struct fn_task *contract_task(uint64_t handle);

#endif
