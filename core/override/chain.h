/* Chain: the overriders and listeners of one generation of the configuration, in the order of
 * fn.yaml.
 *
 * A call pins the chain that it began with until it is over, so that it meets exactly one
 * generation: before() and after() of a listener belong to the same instance. Owned by who made it;
 * counted by the room that uses it now and by calls. [loop] */
#ifndef OVERRIDE_CHAIN_H
#define OVERRIDE_CHAIN_H

#include <plugin/plugin.h>

struct chain {
    struct plugin *const *overriders; /* borrowed until gone() */
    uint32_t n_overriders;
    struct plugin *const *listeners; /* the same */
    uint32_t n_listeners;
    uint32_t refs;
    void (*gone)(
        struct chain *c); /* the last pin went; from inside the end of a call; may be NULL */
};

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

#endif
