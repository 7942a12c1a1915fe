/* Plugin: loads shared objects, checks them, makes instances and calls them.
 *
 * Life: a file is opened and checked (plugin_file_open), its factories are found by kind and name,
 * an instance is made of a factory with options from fn.yaml (plugin_create), called through its
 * host-side copy of the ops table between plugin_enter() and plugin_leave(), and destroyed. Files
 * are never unmapped. Nothing that a wrong, old, new, truncated or hostile-looking file contains
 * crashes the host: each refusal is one sentence that names what was found and what was expected
 * (style-and-abi 2.3.4; rows 38 and 39 of reliability 4.5; F67 to F70). */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include <base/env.h>
#include <base/err.h>
#include <conf/conf.h>
#include <fn/cplane.h>
#include <fn/driver.h>
#include <fn/listener.h>
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

/* Calls on the loop that take longer are counted and logged; 0 = not watched (virtual time). */
#define PLUGIN_BUDGET_LOOP_NS 1000000
void plugin_host_budget(struct plugin_host *h, int64_t loop_ns);

/* [init] Opens and checks a file; a file that is already open is returned again. Interfaces must be
 * offered before, if their versions matter. *reterr gets the first problem, `lines` (may be NULL) a
 * line "PLG910 <path>: <what, got, expected>" for each. Codes: 901 the file, 902 rights and owner,
 * 904 versions, 905 machine, 906 ELF, 907 no plugin, 908 linker, 909 manifest, 910 tables,
 * 915 create failed, 916 duplicate, 917 create broke its contract. */
int plugin_file_check(struct plugin_host *h, const char *path, struct plugin_file **ret,
                      struct buf *lines, struct fn_error *reterr);
/* The same for callers that show one problem. */
int plugin_file_open(struct plugin_host *h, const char *path, struct plugin_file **ret,
                     struct fn_error *reterr);
const char *plugin_file_path(const struct plugin_file *f);
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
/* [any] For host tables: the plugin that calls does not hold the loop. So it is on a lane, beside the
 * loop, and on the host's threads that run callbacks of streams and processes, which have no
 * breadcrumb. */
bool plugin_is_beside(void);

const char *plugin_name(const struct plugin *p);
const struct fn_factory *plugin_factory(const struct plugin *p);
void *plugin_inst(const struct plugin *p);
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
};
void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method);
void plugin_leave(struct plugin_crumb *c);
/* The breadcrumb of this thread, also while the host works for the plugin, or NULL. */
const struct plugin_crumb *plugin_current(void);

/* Around the body of every function of a host table: what runs now is the host's code, not the
 * plugin's. A plugin's code runs on this thread only if plugin_running(). `what` is a literal such
 * as "fn.timer.arm". plugin_suspend() gives what plugin_resume() takes; NULL when no plugin runs. */
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

uint64_t plugin_calls(const struct plugin *p);         /* [any] */
uint64_t plugin_budget_misses(const struct plugin *p); /* [any] */

/* Counts and logs (once a minute per instance) an answer that breaks the contract. */
void plugin_bad_answer(struct plugin *p, const char *what);

/* "file version kinds" of all open files; borrowed until the next call. A crash handler keeps a copy
 * made beforehand. */
const char *plugin_host_summary(struct plugin_host *h);

#endif
