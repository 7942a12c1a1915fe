/* Catalog: which function a request means.
 *
 * Two sources: functions and triggers of fn.yaml, replaced by a reload, and an API node behind a
 * handed table. Values of the API node are kept for ttl_ns and asked for once however many calls
 * wait (single flight), a little before their time so that nobody waits for a function in use;
 * while the API node is slow or down the last good value is used up to stale_ns. What is not known
 * waits for a place among the lookups (lookups.h), where strangers' ids hold up nobody else. A
 * function is counted: calls pin it. [loop] Go Fn: api/agent/hybrid/client.go. */
#ifndef LB_CATALOG_H
#define LB_CATALOG_H

#include <base/env.h>
#include <base/err.h>
#include <fn/driver.h>
#include <model/app.h>
#include <model/call.h>
#include <override/chain.h>
#include <stdbool.h>
#include <stdint.h>

struct catalog;
struct catalog_query;

/* A function with what its app adds, ready to be called. Counted, immutable but for its metrics. */
struct catalog_fn {
    uint32_t refs;
    struct call model; /* of its calls, as far as they are alike: maps are the app's overlaid by the
                          function's, FN_ keys forced; trigger_id "" for an invoke */
    const char *label; /* for people: app/function */
    const char *slot_hash_id; /* of its calls, where no overrider changes them */
    void *memory;         /* everything above in one arena */
    struct metric *ends[OUTCOMES_N], *took; /* of its calls (functions.c); NULL = not yet */
};

/* In an arena of its own. NULL when out of memory. */
struct catalog_fn *catalog_fn_create(const struct app *app, const struct fn_def *fn,
                                     const char *trigger_id);
/* Model of a call of f, to be completed. It shares f's texts, config and annotations. */
void catalog_fn_fill(const struct catalog_fn *f, struct arena *arena, struct call *ret);
struct catalog_fn *catalog_fn_ref(struct catalog_fn *f);
void catalog_fn_unref(struct catalog_fn *f); /* NULL ok */

/* ---- the API node ---------------------------------------------------------------------------- */

struct catalog_source {
    /* GET base + path; cb exactly once, not from inside. status 0: no answer, error says why. Body
     * is borrowed, NUL-terminated. FN_E_EXHAUSTED when it cannot be queued. */
    int (*get)(void *impl, const char *path_and_query,
               void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                          const struct fn_error *err),
               void *ud);
    void *impl;
};

#define CATALOG_ENTRIES_MAX 100000u

/* Part of `lb:`, but for the last one; see catalog_options.c for defaults and limits. */
struct catalog_options {
    int64_t ttl_ns;
    int64_t stale_ns; /* how long after its ttl a value is used while the API node fails */
    const char *api_url; /* "http://host:port", no path; NULL = functions of fn.yaml only. It and
                            its timeout are for whoever makes the source */
    int64_t api_timeout_ns;
    uint32_t entries_max; /* 0 = CATALOG_ENTRIES_MAX */
};
extern const struct opt_table catalog_opt_table;

/* [init] source NULL = only fn.yaml. */
int catalog_create(struct env *env, const struct catalog_options *options,
                   const struct catalog_source *source, struct catalog **ret,
                   struct fn_error *reterr);
/* [init] Copies a function of fn.yaml: t NULL = as its id finds it, else as that trigger does.
 * FN_E_EXISTS when the id or the source stands twice. */
int catalog_add(struct catalog *c, const struct app *app, const struct fn_def *fn,
                const struct trigger *t, struct fn_error *reterr);
/* [loop] Room for the functions of `given`, without which catalog_replace() cannot be; when that is
 * not used after all, catalog_dismiss(), in the same turn. FN_E_EXHAUSTED: nothing changed. */
int catalog_admit(struct catalog *c, const struct catalog *given, struct fn_error *reterr);
void catalog_dismiss(struct catalog *c, const struct catalog *given);
/* [loop] Other functions of fn.yaml: those of `given` (made without a source, admitted, destroyed
 * here) instead of the present ones. Calls that have a function keep it; what the API node told
 * stays. */
void catalog_replace(struct catalog *c, struct catalog *given);
/* [loop] source NULL = only fn.yaml from now on; borrowed. */
void catalog_set_options(struct catalog *c, const struct catalog_options *options,
                         const struct catalog_source *source);
/* [loop] The source has changed this app, function or trigger, or has it now: what it told of it
 * before is asked for again by the next call that needs it. */
void catalog_changed(struct catalog *c, const char *id);
/* [loop] The same of everything. */
void catalog_expire(struct catalog *c);
int64_t catalog_ttl_ns(const struct catalog *c); /* [loop] */
void catalog_destroy(struct catalog *c); /* queries must have ended or been cancelled; NULL ok */

/* The function of an id, or, where fn_id is NULL, of a trigger of an app of that name. cb gets a
 * pinned function (given: catalog_fn_unref()) or an error: FN_E_NOT_FOUND with 404 and
 * Go Fn's text, FN_E_UNAVAILABLE with 503 when the API node cannot tell, FN_E_EXHAUSTED with 503
 * when too much is asked, by this address or by all, or without memory. address: LOOKUPS_ADDRESS
 * bytes. It runs from inside the call when the answer is known (then NULL is returned), else
 * later. */
typedef void catalog_cb(void *ud, struct catalog_fn *given, const struct fn_error *err);
struct catalog_query *catalog_find(struct catalog *c, const unsigned char *address,
                                   const char *fn_id, const char *app, const char *source,
                                   catalog_cb *cb, void *ud);
void catalog_cancel(struct catalog_query *q); /* cb is not called any more */

#endif
