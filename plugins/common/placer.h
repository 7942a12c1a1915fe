/* What the glue of placers shares: rows of their option tables, and chance. */
#ifndef PLACER_H
#define PLACER_H

#include "tries.h"

/* For a call that "was refused", or that "every runner refused". */
#define PLACER_OPT_RETRY_DELAY(options, which)                                                     \
    { .key = "retry_delay",                                                                        \
      .doc = "Pause after which a call that " which                                                \
             " is offered again, unless capacity was freed earlier.",                              \
      .dflt = "100ms",                                                                             \
      .min = 1000000,                                                                              \
      .max = 60000000000,                                                                          \
      .type = FN_OPT_DURATION,                                                                     \
      .offset = offsetof(options, retry_delay_ns) }

#define PLACER_OPT_TRIES(options, least)                                                           \
    { .key = "tries",                                                                              \
      .doc = "Number of runners that may refuse a call in one round before it waits.",             \
      .dflt = "16",                                                                                \
      .min = least,                                                                                \
      .max = TRIES_MAX,                                                                            \
      .type = FN_OPT_INT,                                                                          \
      .offset = offsetof(options, tries) }

/* ud: the host of the instance. */
static inline uint64_t placer_draw(void *ud)
{
    const struct fn_host *host = ud;

    return host->rng->u64(host);
}

#endif
