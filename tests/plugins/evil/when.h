/* The plugins that misbehave while they serve do so for the function "evil" only. */
#ifndef EVIL_WHEN_H
#define EVIL_WHEN_H

#include <fn/placer.h>
#include <string.h>

static int evil_decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret);

static __attribute__((unused)) int evil_is_asked(const struct fn_ask *ask)
{
    return strncmp(ask->call->fn_id, "01FNEVIL", 8) == 0;
}

/* decide() that does `action` for the function "evil", and then answers as a good one. */
#define EVIL_WHEN(action)                                                                          \
    static int evil_when(void *inst, const struct fn_ask *ask, struct fn_answer *ret)              \
    {                                                                                              \
        if (evil_is_asked(ask)) {                                                                  \
            action;                                                                                \
        }                                                                                          \
        return evil_decide(inst, ask, ret);                                                        \
    }
#define EVIL_DECIDE evil_when

#endif
