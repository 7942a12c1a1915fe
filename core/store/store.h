/* Store: apps, functions and triggers that outlive the node.
 *
 * An operation is data: the loop makes it, a worker carries it out, done() gets it back. What comes
 * while the database is at work waits and is then carried out as one: all changes that wait share
 * one transaction, so that a disk which takes its time for each is asked once for many, and all
 * that reads shares one view. A change is told as done when the database has it for good; one that
 * fails leaves the others alone. Reads and changes have a connection each; who reads after a change
 * was told sees it.
 *
 * The schema is Go Fn's, version 26, so that its API nodes and ours can have the same database.
 * [loop] unless marked. Go Fn: api/datastore/sql. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <base/env.h>
#include <base/err.h>
#include <model/app.h>
#include <sys/queue.h>

struct store;

#define STORE_THREADS    3u    /* that it needs of ENV_LANE_CONTROL */
#define STORE_QUEUED_MAX 8192u /* operations that wait, of each kind */
#define STORE_BATCH_MAX  256u  /* operations in one transaction */
#define STORE_PAGE_MAX   100u  /* items of a list */
#define STORE_NAME_BYTES 256u
#define STORE_PROCESS_BYTES 17u /* what tells processes apart that share a database */

/* `store:`; see options.c for defaults and limits. */
struct store_options {
    const char *url; /* "sqlite3://<path>", "postgres://..."; NULL: this node has none */
};
extern const struct opt_table store_opt_table;

/* Texts are "" where they say nothing. */
struct store_filter {
    const char *app_id, *fn_id, *name;
    const char *after, *after_fn; /* the last item of the page before: its name, of a trigger also
                                     its function */
    const char *source;           /* for store_trigger_by_source */
    uint32_t limit;               /* 1..STORE_PAGE_MAX */
};

struct sql;
struct store_op;

enum store_kind_word { STORE_APP, STORE_FN, STORE_TRIGGER, STORE_KINDS_N };
enum store_act { STORE_READ, STORE_ADD, STORE_CHANGE, STORE_REMOVE };

struct store_verb {
    int (*run)(struct sql *db, struct store_op *op, struct fn_error *reterr); /* [worker] */
    enum store_kind_word kind;
    enum store_act act;
};

/* Texts in what is asked for are borrowed until done(); those of results are in the arena. */
struct store_op {
    const struct store_verb *verb;
    struct arena *arena; /* nobody else uses it until done() */
    /* What is to be added, or changed by app_merge() and its kin; then what is there now. Where one
     * is asked for, or removed, its id alone. Triggers come with their app, as far as its name. */
    struct app app;
    struct fn_def fn;
    struct trigger trigger;
    struct store_filter filter;
    const char *const *sees; /* patterns of names of apps, then NULL: of others nothing is there.
                                NULL: all are seen */
    const char *request_id; /* of whoever asked, for the log; NULL ok */
    int64_t now_ns; /* since 1970, for updated_at */
    union { /* a list's results, n of its kind */
        void *items;
        struct app *apps;
        struct fn_def *fns;
        struct trigger *triggers;
    };
    uint32_t n;
    int result; /* 0 or FN_E_*: of clients and their http_status in `error` */
    struct fn_error error;
    void (*done)(struct store_op *op);
    /* the store's own: */
    TAILQ_ENTRY(store_op) link;
};

/* The filter of lists is app_id, fn_id (of triggers), name, after; apps need none of them. */
extern const struct store_verb store_app_add, store_app_get, store_app_change, store_app_remove,
    store_app_list;
extern const struct store_verb store_fn_add, store_fn_get, store_fn_change, store_fn_remove,
    store_fn_list;
extern const struct store_verb store_trigger_add, store_trigger_get, store_trigger_change,
    store_trigger_remove, store_trigger_list, store_trigger_by_source;

/* Sentences of errors.md about what stands in the way. [init] */
int store_open(struct env *env, const struct store_options *options, struct store **ret,
               struct fn_error *reterr);
/* [init] A URL that store_open() would take, without opening anything. */
int store_check_url(const char *url, struct fn_error *reterr);
/* [any] What may stand in a log: where it is, without user, password and settings. */
void store_print_name(const char *url, char ret[STORE_NAME_BYTES]);
/* Of the value that the operation is about, what all kinds have. [any] */
const char **store_id(struct store_op *op);
const char **store_name(struct store_op *op);
void *store_item(const struct store_op *op, uint32_t i); /* of a list's results */
/* Whether the operation sees an app of that name. [any] */
bool store_sees(const struct store_op *op, const char *app_name);
/* done() not from inside. FN_E_EXHAUSTED: too much waits already. */
int store_submit(struct store *s, struct store_op *op, struct fn_error *reterr);
/* changed() after each change by this node, before its done(), with the id of the app, function or
 * trigger, and after those by other nodes of fnd with the same database; NULL: anything may have
 * changed. Go Fn's nodes do not tell. */
void store_on_change(struct store *s, void (*changed)(void *ud, const char *id), void *ud);
/* Hears of other nodes' changes from now on, until store_drain(). */
void store_listen(struct store *s);
uint32_t store_waiting(const struct store *s); /* operations that are not done */
/* idle() when none is left, perhaps from inside; nothing may be submitted any more. */
void store_drain(struct store *s, void (*idle)(void *ud), void *ud);
void store_close(struct store *s); /* [init] no operation is left; NULL ok */

#endif
