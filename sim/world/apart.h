/* Worlds in a process of their own: a node that stops on an assertion takes nothing else along. A
 * poor one is alone in it, since it must find what is of the whole process (series of metrics) as
 * in a fresh program, whatever ran before. */
#ifndef FND_SIM_APART_H
#define FND_SIM_APART_H

#include "world.h"

enum apart_output { APART_SILENT, APART_ERRORS, APART_STORY };

struct apart {
    uint64_t first, n; /* seeds */
    enum plan_mode mode;
    const bool *left_out; /* of a single one; NULL = nothing */
    enum apart_output output;
};

/* Calls ended() for each world that came to its end, until it says false. How many did; fewer than
 * asked for: the next one did not. The process, or the sanitizer that it is built with, has told
 * why, unless it is silent. *ret_clean false: it did not end well, whatever its worlds did. */
uint64_t apart_run(const struct apart *a,
                   bool (*ended)(void *ud, uint64_t seed, const struct run_result *r), void *ud,
                   bool *ret_clean);

#endif
