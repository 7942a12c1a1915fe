/* Slow start: what another placer decides, but runners that are new get their share of calls by and
 * by. Pure: chance comes from outside, the inner placer is a table.
 *
 * A runner that has just come has cold caches and no containers, and looks idle to every placer
 * that looks at load. When the inner placer names one that is younger than the window, it is taken
 * with chance age / window; else the inner one is asked again, as if that runner had refused.
 * HAProxy's slowstart and Envoy's slow start mode do the same with weights. Age counts against the
 * oldest runner: where all are new, as after the start of a load balancer, none is held back. */
#ifndef PLACER_SLOWSTART_SLOW_H
#define PLACER_SLOWSTART_SLOW_H

#include "wrap.h"

#define SLOW_SKIPS_MAX 8u /* runners passed over in one round */

struct slow_options {
    const char *inner;
    int64_t window_ns;
    int64_t floor; /* least chance, per mille */
};

/* Per call, host memory; the last part is the inner placer's. */
struct slow_session {
    uint64_t epoch;
    int64_t wait_ns;  /* the inner placer's last word on this round, when spent */
    uint32_t verdict; /* and so on */
    uint32_t wake_mask;
    int32_t code;
    uint32_t spent;   /* 1 once the inner placer has ended the round */
    uint32_t refused; /* refusals that only the inner placer saw */
    uint32_t skipped_n;
    uint32_t skipped[SLOW_SKIPS_MAX]; /* passed over and not tried */
    _Alignas(8) unsigned char inner[];
};

#define SLOW_INNER_MAX (FN_PLACER_SESSION_MAX - (uint32_t)offsetof(struct slow_session, inner))

/* Of a list. */
struct slow_index {
    int64_t oldest_ns; /* since when the oldest runner is listed that takes calls */
    void *inner;       /* the inner placer's own, or NULL */
};

struct slow {
    const struct slow_options *options;
    struct wrapped inner;
    uint64_t (*u64)(void *ud);
    void *ud;
};

/* Chance per mille of a runner of that age; `oldest_ns` is the age of the oldest one. */
uint32_t slow_chance(const struct slow_options *o, int64_t age_ns, int64_t oldest_ns);
int slow_decide(const struct slow *w, const struct fn_ask *ask, struct fn_answer *ret);
/* The list with the inner placer's index. */
struct fn_snapshot slow_view(const struct fn_snapshot *snap);

#endif
