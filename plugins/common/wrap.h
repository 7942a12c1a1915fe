/* What placers share that wrap another one: how it is found, and how it is shown its own index. */
#ifndef PLUGINS_WRAP_H
#define PLUGINS_WRAP_H

#include "fail.h"
#include "view.h"

#include <fn/placer.h>

#define WRAP_OPT_INNER(options)                                                                    \
    { .key = "inner",                                                                              \
      .doc = "Name of the placer that this one wraps. It must be above this one in the list.",  \
      .min = 1,                                                                                    \
      .max = 64,                                                                                   \
      .type = FN_OPT_STR,                                                                          \
      .offset = offsetof(options, inner) }

/* The inner placer. */
struct wrapped {
    const struct fn_placer_ops *ops;
    void *inst;
};

/* [init] By its name in fn.yaml; its session must fit into `session_max` bytes of the wrapper's. */
static inline int wrap_find(const struct fn_host *host, const char *name, uint32_t session_max,
                            struct wrapped *ret, struct fn_error *reterr)
{
    const struct fn_placer_if *placers = host->get(host, "fn.placer", FN_PLACER_MAJOR);
    int r;

    if (!placers) {
        return fail_platform(reterr, FN_E_PRECONDITION, "this node offers no fn.placer");
    }
    r = placers->inner(host, name, &ret->ops, &ret->inst, reterr);
    if (r == 0 && ret->ops->session_size > session_max) {
        r = fail_platform(reterr, FN_E_RANGE,
                          "inner placer \"%.64s\" keeps %u bytes per call; expected at most %u",
                          name, ret->ops->session_size, session_max);
    }
    return r;
}

/* NULL: it has none. An inner placer without its index is slower, not wrong. */
static inline void *wrap_index_build(const struct wrapped *w, const struct fn_snapshot *snap)
{
    void *index = NULL;

    return w->ops->index_build && w->ops->index_build(w->inst, snap, &index) == 0 ? index : NULL;
}

static inline void wrap_index_free(const struct wrapped *w, void *index)
{
    if (index) {
        w->ops->index_free(w->inst, index);
    }
}

/* The list with the inner placer's index of it. */
static inline struct fn_snapshot wrap_view(const struct fn_snapshot *snap, const void *index)
{
    struct fn_snapshot view;

    view_copy(&view, sizeof(view), snap);
    view.index = index;
    return view;
}

/* view: the list as the inner placer knows it, in which the runner has that index. */
static inline void wrap_observe(const struct wrapped *w, const struct fn_placed *what,
                                const struct fn_snapshot *view, uint32_t index)
{
    struct fn_placed placed;

    if (w->ops->observe) {
        view_copy(&placed, sizeof(placed), what);
        placed.snap = view;
        placed.index = index;
        w->ops->observe(w->inst, &placed);
    }
}

#endif
