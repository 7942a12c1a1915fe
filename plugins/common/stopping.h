/* The stop of a plugin that has nothing to wait for. */
#ifndef PLUGINS_STOPPING_H
#define PLUGINS_STOPPING_H

#include <fn/host.h>

/* Part of an instance; set by stopping_begin(). */
struct stopping {
    void (*done)(void *ud);
    void *ud;
};

static inline void report_stopped(void *ud)
{
    struct stopping *s = ud;

    s->done(s->ud);
}

/* [loop] The completion comes from the loop, never from inside the call that asked, unless there is
 * no memory for that. */
static inline void stopping_begin(struct stopping *s, const struct fn_host *host,
                                  void (*done)(void *ud), void *ud)
{
    uint64_t id;

    *s = (struct stopping){ .done = done, .ud = ud };
    if (host->timer->arm(host, host->clock->now_ns(host), report_stopped, s, &id) < 0) {
        done(ud);
    }
}

#endif
