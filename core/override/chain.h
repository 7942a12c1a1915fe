/* Chain: the overriders and listeners of one generation of the configuration, in the order of
 * fn.yaml.
 *
 * A call pins the chain that it began with until it is over, so that it meets exactly one
 * generation: before() and after() of a listener belong to the same instance. Owned by who made it;
 * counted by the room that uses it now and by calls. [loop] */
#ifndef OVERRIDE_CHAIN_H
#define OVERRIDE_CHAIN_H

#include <base/env.h>
#include <fn/listener.h>
#include <plugin/plugin.h>

/* How a call ended; outcome_names are those of fn_call_end, of metrics and of Fn-Outcome. */
enum outcome { OUTCOME_OK, OUTCOME_FAILED, OUTCOME_NOT_EXECUTED, OUTCOME_UNKNOWN, OUTCOME_ABORTED,
               OUTCOMES_N };
extern const char *const outcome_names[OUTCOMES_N];

#define STATUS_CLIENT_GONE 444 /* of OUTCOME_ABORTED, as with Go Fn; nobody is left to get it */

struct chain {
    struct plugin *const *overriders; /* borrowed until gone() */
    uint32_t n_overriders;
    struct plugin *const *listeners; /* the same */
    uint32_t n_listeners;
    uint32_t refs;
    void (*gone)(
        struct chain *c); /* the last pin went; from inside the end of a call; may be NULL */
    struct late **late;   /* lines of listeners with after_worker(), by their index; chain_open() */
};

/* Lines for listeners that may be slow; without them after_worker() is not called. Those that
 * `before` (NULL: none) has, too, get theirs by chain_follow(). 0 or FN_E_EXHAUSTED. [init] */
int chain_open(struct chain *c, struct env *env, const struct chain *before);
/* It serves in the place of `before`, and shares the lines of listeners that both have. */
void chain_follow(struct chain *c, const struct chain *before);
/* `next` serves, or the node ends (NULL): what waits for slow listeners that have gone has
 * FN_LISTENER_DRAIN_S. */
void chain_retire(struct chain *c, const struct chain *next);
/* No slow listener has anything to do, or will come back from it. */
bool chain_is_told(const struct chain *c);
void chain_close(struct chain *c); /* nobody counts it, or the loop has ended. [init] */

static inline struct chain *chain_ref(struct chain *c)
{
    c->refs++;
    return c;
}

static inline void chain_unref(struct chain *c)
{
    if (c && --c->refs == 0 && c->gone) {
        c->gone(c);
    }
}

/* Makes `next` (may be NULL) the one in use at *at. */
static inline void chain_set(struct chain **at, struct chain *next)
{
    struct chain *old = *at;

    *at = next ? chain_ref(next) : NULL;
    chain_unref(old);
}

/* before() of the listeners in their order. 0, or the first refusal with its error; *ret_passed
 * counts those that let the call through. `c` may be NULL. */
int chain_before(const struct chain *c, const struct fn_call *call, uint32_t *ret_passed,
                 struct fn_error *reterr);
/* after() of the first `passed` listeners, and later after_worker(); fills size and outcome of
 * *end, and all that is said of an aborted call but its times. */
void chain_after(struct chain *c, uint32_t passed, const struct fn_call *call,
                 enum outcome outcome, struct fn_call_end *end);

#endif
