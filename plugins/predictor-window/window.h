/* Two windows over demand, as Knative's autoscaler has them: the stable one follows slowly, the
 * panic one, a small part of it, takes over when demand outruns capacity, and then only grows.
 * Source: Knative Serving, "autoscaling concepts" (stable window 60 s, panic window 10 %, panic
 * threshold 200 %). Pure. */
#ifndef PREDICTOR_WINDOW_H
#define PREDICTOR_WINDOW_H

#include <fn/predictor.h>

#define WINDOW_SECONDS_MAX 300

struct window_conf {
    int64_t stable_ns;
    int64_t panic_percent;     /* of the stable window */
    int64_t threshold_percent; /* of ready capacity */
    int64_t utilisation_percent;
};

/* Zeroed at first; the largest value of each second. */
struct window_state {
    int64_t first_s, last_s; /* seconds since the clock's start; first 0 = nothing yet */
    int64_t panic_until_ns;
    uint64_t panic_mb; /* most that was asked for in this panic */
    uint64_t mb[WINDOW_SECONDS_MAX];
};

_Static_assert(sizeof(struct window_state) <= FN_PREDICTOR_STATE_MAX, "state of a group");

uint64_t window_predict(const struct window_conf *c, struct window_state *s,
                        const struct fn_load *load);

#endif
