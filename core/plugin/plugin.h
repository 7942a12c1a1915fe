/* Plugin: loads shared objects, checks them, makes instances and calls them.
 *
 * Life: a file is opened, copied into sealed memory and checked (plugin_file_open), its factories
 * are found by kind and name, an instance is made of a factory with options from fn.yaml
 * (plugin_create), called through its host-side copy of the ops table between plugin_enter() and
 * plugin_leave(), and destroyed. Files are never unmapped. Nothing that a wrong, old, new,
 * truncated or hostile-looking file contains crashes the host: each refusal is one sentence that
 * names what was found and what was expected (F67 to F70). */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include <base/env.h>
#include <base/err.h>
#include <conf/conf.h>
#include <fn/cplane.h>
#include <fn/driver.h>
#include <fn/listener.h>
#include <fn/operator.h>
#include <fn/override.h>
#include <fn/placer.h>
#include <fn/pool.h>
#include <fn/predictor.h>
#include <stdbool.h>

struct plugin_host; /* process-wide registry: files, interfaces that the node offers */
struct plugin_file;
struct plugin;      /* one instance */

/* [init] env is borrowed, NULL for tools that start nothing. NULL when out of memory. */
struct plugin_host *plugin_host_create(struct env *env);
void plugin_host_destroy(struct plugin_host *h); /* instances must be gone */

/* [init] Offers a host interface ("fn.http") to plugins that list it in needs[]. `impl` is what
 * plugin_impl() gives back to the implementation. Tables live for ever. The same offer again has no
 * effect, so that both halves of a full node may make it. */
void plugin_host_offer(struct plugin_host *h, const char *iface, uint16_t major, uint16_t minor,
                       const void *table, void *impl);
/* [any] For implementations of host interfaces: impl of `iface`, and the instance behind a host. */
void *plugin_impl(const struct fn_host *host, const char *iface);
struct plugin *plugin_of(const struct fn_host *host);

/* [init] Called with the host table of an instance when it is destroyed, before its destroy() and
 * again behind it, and when its create() failed, so that what an implementation holds for it
 * (streams, say) is let go. As long as there is an instance, plugin_inst(), it may be told how that
 * ended, until release() returns. `iface` must have been offered. on_loop: it is called as the
 * loop, also where an instance ends beside it; else in any context that plugin_destroy() may
 * have. */
void plugin_host_on_release(struct plugin_host *h, const char *iface, bool on_loop,
                            void (*release)(void *impl, const struct fn_host *host));

/* ---- how files are judged -------------------------------------------------------------------- */

#define PLUGIN_TRIAL_NS  (5 * ENV_S)
#define PLUGIN_START_NS  (5 * ENV_S)
#define PLUGIN_LOST_MAX  2 /* create() calls that never returned, before no further one is tried */

struct plugin_policy {
    struct fn_strlist keys; /* PEM files, Ed25519 public keys; none = signatures not looked at */
    const char *unsigned_files; /* "refuse", "allow", NULL = allow; has a meaning with keys only */
    struct fn_strlist libraries; /* that plugins may need, beside those the host always allows */
    uint32_t trial;              /* load each file in a child process first */
    int64_t trial_timeout_ns;    /* 0 = PLUGIN_TRIAL_NS */
    int64_t start_timeout_ns;    /* for plugin_host_deadline() */
    const char *probe; /* program of the trial; NULL = fnd-plugprobe beside the executable or in
                          ../libexec/fnd */
};
extern const struct opt_table plugin_policy_table; /* part of `plugins:`, policy.c */
/* [init] Copied; before the first file, and again before files are opened for a reload: those that
 * are open are then judged again. Without it files are loaded without trial and signatures are not
 * looked at. FN_E_INVALID: a key file cannot be used (PLG918). */
int plugin_host_policy(struct plugin_host *h, const struct plugin_policy *policy,
                       struct fn_error *reterr);
/* [init] A configuration is read once more: files that changed on disk since they were loaded are
 * loaded anew, beside the instances that run of the old ones, and only files of the same reading
 * must not offer the same factory. What is mapped stays mapped: PLG922 when it is too much. */
void plugin_host_again(struct plugin_host *h);
/* [init] Deadline of create(). `aside` runs fn(arg) on a thread of its own and returns 0 when it
 * returned, or FN_E_DEADLINE when it did not within timeout_ns and goes on alone. Without it
 * create() runs on the caller's thread, without deadline. */
void plugin_host_deadline(struct plugin_host *h,
                          int (*aside)(void (*fn)(void *arg), void *arg, int64_t timeout_ns),
                          int64_t timeout_ns);
/* [any] create() calls of this process that did not return and may still run. */
uint32_t plugin_lost(void);
/* [any, async-signal-safe] Files of this process that nobody signed although keys are configured:
 * not 0 = the node is tainted. */
uint32_t plugin_tainted(void);

/* Calls on the loop that take longer are counted and logged; 0 = not watched (virtual time). */
#define PLUGIN_BUDGET_LOOP_NS 1000000
void plugin_host_budget(struct plugin_host *h, int64_t loop_ns);
/* How long this thread may have waited for a processor in the turn of the loop: no plugin's time.
 * Asked about calls that seem over budget. */
void plugin_host_waits(struct plugin_host *h, int64_t (*waited_ns)(void));

/* [init] opened(h) is called after each file that was loaded: before any of its instances is
 * made. */
void plugin_host_on_open(struct plugin_host *h, void (*opened)(struct plugin_host *h));

/* [init] Opens and checks a file; a file that is already open is returned again. Interfaces must be
 * offered before, if their versions matter. sha256: 64 hex digits that also a file which is open
 * already must have, NULL = any. *reterr gets the first problem, `lines` (may be NULL) a
 * line "PLG910 <path>: <what, got, expected>" for each. Codes, in the order of the checks: 901 the
 * file, 902 rights and owner, 919 sealed copy, 903 hash, 918 signature, 906 ELF, 905 machine,
 * 907 no plugin, 904 versions, trial: 920 not possible, 911 crashed, 912 too slow, 913 ended;
 * 908 linker, 909 manifest, 910 tables, 916 duplicate, 922 too many; create: 914 deadline,
 * 915 failed, 917 broke its contract. What runs is a sealed copy in memory: changes of the file
 * have no effect. */
int plugin_file_check(struct plugin_host *h, const char *path, const char *sha256,
                      struct plugin_file **ret, struct buf *lines, struct fn_error *reterr);
/* [init] Judges what an instance runs of by rules that came after it was loaded; lines as above. By
 * rules that it passed before it passes, whatever lies at its path by now. */
int plugin_judge(const struct plugin *p, struct buf *lines);
/* The same for callers that show one problem. */
int plugin_file_open(struct plugin_host *h, const char *path, struct plugin_file **ret,
                     struct fn_error *reterr);
const char *plugin_file_path(const struct plugin_file *f);
const char *plugin_file_sha256(const struct plugin_file *f); /* 64 hex digits */
/* "signed by ops.pem", "not signed" (with keys: tainted), "signature not looked at" */
const char *plugin_file_signature(const struct plugin_file *f);
const struct fn_manifest *plugin_file_manifest(const struct plugin_file *f);
/* Checked host-side copy, or NULL when the file has no such factory. */
const struct fn_factory *plugin_file_factory(const struct plugin_file *f, const char *kind,
                                             const char *name);
/* Calls cb for each factory. */
void plugin_file_each(const struct plugin_file *f,
                      void (*cb)(void *ud, const struct fn_factory *factory), void *ud);
/* "<dir>/placer-naive.so" for (placer, naive): the file name that `use:` stands for; control planes
 * are "cp-<name>.so", overriders "override-<name>.so". */
int plugin_path_for(const char *dir, const char *kind, const char *name, char *ret, size_t cap);

/* [init] Makes an instance. `conf`: struct of conf_size bytes made by conf_bind() for the
 * factory's options (given: freed with the instance, or by a failed create), or NULL when it has
 * none. `name` is the instance's name in fn.yaml, for logs and metrics; copied. Every host
 * interface that needs[] lists without FN_NEED_OPTIONAL must have been offered. */
int plugin_create(struct plugin_host *h, struct plugin_file *f, const struct fn_factory *factory,
                  const char *name, struct conf_values *given_conf, struct plugin **ret,
                  struct fn_error *reterr);
void plugin_destroy(struct plugin *p); /* [init] NULL ok; releases timers and metrics of it */

/* Instances that are made and ended beside a running loop, on a worker: what this thread creates
 * between begin and end has its timers held back until plugin_go() [loop]; plugin_retire() [loop]
 * takes the timers away before plugin_destroy() may run on a worker. */
void plugin_beside_begin(void);
void plugin_beside_end(void);
void plugin_go(struct plugin *p);
void plugin_retire(struct plugin *p);
/* [loop] Its callbacks may still run, to be refused what would outlive it. */
bool plugin_is_retired(const struct plugin *p);
/* [any] For host tables: the plugin that calls does not hold the loop. So it is on a lane, beside
 * the loop, and on the host's threads that run callbacks of streams and processes. */
bool plugin_is_beside(void);
/* [any] Around what a host table does as the loop, which its caller may hold already. */
static inline void plugin_take_loop(struct env *env)
{
    if (plugin_is_beside()) {
        env->enter(env);
    }
}
static inline void plugin_give_loop(struct env *env)
{
    if (plugin_is_beside()) {
        env->leave(env);
    }
}

/* Whether plugin_create() would make the same again. f NULL: of whatever file. */
bool plugin_is_same(const struct plugin *p, const struct plugin_file *f,
                    const struct fn_factory *factory, const char *name,
                    const struct conf_values *conf);
const char *plugin_name(const struct plugin *p);
const char *plugin_version(const struct plugin *p); /* of its file */
const struct fn_factory *plugin_factory(const struct plugin *p);
void *plugin_inst(const struct plugin *p); /* NULL: before create(), and behind destroy() */
/* The checked copy of the ops table: every required slot is there, optional ones may be NULL. */
const void *plugin_ops(const struct plugin *p);

/* Contexts, for assertions, budgets, crash reports. */
enum plugin_context { PLUGIN_NONE, PLUGIN_INIT, PLUGIN_LOOP, PLUGIN_WORKER };

/* Around every call into a plugin: sets this thread's breadcrumb and measures the call; on the loop
 * it also tells the watchdog and counts a budget miss. Nest only through host calls. Cheap: some
 * stores and two reads of the tick counter. `method` is a literal. A plugin_leave() that was jumped
 * over (longjmp, a C++ exception) ends the process at the next one, with the name of the plugin. */
struct plugin_crumb {
    struct plugin *plugin;
    enum plugin_context context;
    bool missed; /* after plugin_leave(): the call was over its budget */
    const char *method;
    const char *host_call; /* the host works for the plugin, in this function; else NULL */
    uint64_t entered_ticks;
    struct plugin_crumb *outer;
    bool away; /* in the host's list of calls that are not the loop's */
    LIST_ENTRY(plugin_crumb) away_link;
};
void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method);
void plugin_leave(struct plugin_crumb *c);
/* The breadcrumb of this thread, also while the host works for the plugin, or NULL. */
const struct plugin_crumb *plugin_current(void);
/* A call. Texts live as long as the host. */
struct plugin_busy {
    const char *name; /* of the instance */
    const char *kind;
    const char *method;
    int64_t for_ns;
};
/* [any, async-signal-safe] The one that this thread made last, over or not; false: none yet. for_ns
 * is the time since it returned, roughly; 0 = it has not, or time is not real. */
bool plugin_last_call(struct plugin_busy *ret);
/* [any, async-signal-safe] The file whose code runs on this thread while it is loaded, and where:
 * "its constructors", "fn_plugin_v1()"; NULL = none. */
const char *plugin_opening(const char **ret_where);

/* Around the body of every function of a host table: what runs now is the host's code, not the
 * plugin's. A plugin's code runs on this thread only if plugin_running(). `what` is a literal such
 * as "fn.timer.arm". plugin_suspend() gives what plugin_resume() takes; NULL when no plugin
 * runs. */
struct plugin_crumb *plugin_suspend(const char *what);
void plugin_resume(struct plugin_crumb *c);
bool plugin_running(void);
/* For hosts whose workers are fibres: sets this thread's breadcrumb and returns the one before. */
struct plugin_crumb *plugin_crumb_swap(struct plugin_crumb *c);
static inline void plugin_resume_at(struct plugin_crumb **c) { plugin_resume(*c); }
/* The same for a whole function, whichever way it returns. */
#define PLUGIN_HOST_CALL(what)                                                                     \
    struct plugin_crumb *host_call_ __attribute__((cleanup(plugin_resume_at), unused)) =           \
        plugin_suspend(what)

/* [any] What the loop is inside of now. */
bool plugin_host_busy(const struct plugin_host *h, struct plugin_busy *ret);
/* [any] The longest running call that is not the loop's: of this instance, in this method; NULL =
 * any. Only where plugin_host_deadline() gave threads. */
bool plugin_host_away(struct plugin_host *h, const char *name, const char *method,
                      struct plugin_busy *ret);
/* [loop] Its longest call so far in the turn of the loop that stands at turn_ns; calls of some 20
 * us and less are not kept. */
bool plugin_host_longest(const struct plugin_host *h, int64_t turn_ns, struct plugin_busy *ret);

/* Why a node serves, but not as it should. */
enum degraded_reason {
    DEGRADED_LOOP_STUCK,
    DEGRADED_PLACER_FALLBACK,
    DEGRADED_PLUGIN_END,
    DEGRADED_POOL_STALE, /* a list of runners is old, since the pool failed */
    DEGRADED_WORKER_LOST,
    DEGRADED_N
};
/* Sets or clears a reason, for fn_node_degraded. [any] */
void plugin_degraded(enum degraded_reason reason, bool on);
/* The label of a reason that holds, else NULL. [any] */
const char *plugin_degraded_word(enum degraded_reason reason);

uint64_t plugin_calls(const struct plugin *p);         /* [any] */
uint64_t plugin_budget_misses(const struct plugin *p); /* [any] */

/* [loop] For plugins that nobody waits for, such as listeners that only hear of ends: after three
 * calls over their budget within 10 s one rests for 30 s, with a line in the log. */
void plugin_was_slow(struct plugin *p);
bool plugin_rests(struct plugin *p);

/* Counts and logs (once a minute per instance) an answer that breaks the contract. */
#define PLUGIN_ANSWER_WHAT_MAX 192u /* bytes of the sentence about one */
void plugin_bad_answer(struct plugin *p, const char *what);
const char *plugin_first_bad_answer(const struct plugin *p); /* "" = none; once nobody calls it */
struct metric *plugin_bad_answers(const struct plugin *p); /* how many */

/* The rules about the owners and rights of plugin files and of the directories above, for another
 * file that runs in this process. 0 or PLG901, PLG902. [init] */
int plugin_path_trusted(const char *path, struct fn_error *reterr);

/* Where a plugin's code and data lie. Entries stay for ever; the linker knows the file as
 * /proc/<pid>/fd/<n>, /proc/<pid>/maps as "/memfd:<name>". */
struct plugin_mapping {
    uintptr_t from, to;
    const char *path;
    const char *version; /* "" until its manifest was read */
    void *handle;
};
/* [any, async-signal-safe] The plugin that an address belongs to, or NULL. */
const struct plugin_mapping *plugin_mapping_at(const void *addr);

/* "file version kinds" of all open files; borrowed until the next call. A crash handler keeps a
 * copy made beforehand. */
const char *plugin_host_summary(struct plugin_host *h);

/* ---- audit: what belongs to the whole process (audit.c) -------------------------------------- */

struct plugin_audit;

struct plugin_audit_options {
    int64_t interval_ns; /* 0 = never */
};
extern const struct opt_table plugin_audit_table; /* part of `plugins:`, policy.c */

/* What the host uses itself, which no plugin is to be blamed for. */
struct plugin_own {
    uint32_t threads;      /* of its lanes, now */
    uint64_t memory_bytes; /* that its limits let it fill */
};

/* [init] What is now is right. The calling thread is the loop's. files_slack: how many open files
 * the host itself may need beyond those of now, without sockets. NULL: no memory. */
struct plugin_audit *plugin_audit_create(struct plugin_host *h, const struct plugin_own *own,
                                         uint32_t files_slack);
void plugin_audit_destroy(struct plugin_audit *a); /* NULL ok */
/* [any] Looks, tells what changed and who ran since the last look (or `only`, by name), and puts
 * back working directory, umask, signal handlers and resource limits. Milliseconds with many open
 * files: not for the loop. */
void plugin_audit_process(struct plugin_audit *a, const char *only, const struct plugin_own *own);
/* [loop] on the thread that made it: floating point mode, signal mask, locale, environment.
 * Microseconds. */
void plugin_audit_thread(struct plugin_audit *a);

/* [init] From now on a child that a plugin forks ends at once, with a line on standard error, and
 * the fork counts as an alarm of the audit. Once per process. */
void plugin_guard_forks(void);

#endif
