/* Rspans: what a call writes of itself for a collector of traces. Private to core/runner. Nothing
 * is done for a call that is not traced. [loop] */
#ifndef RUNNER_RSPANS_H
#define RUNNER_RSPANS_H

#include <model/call.h>
#include <trace/trace.h>

struct rcall;

/* Most traces are not kept: a run is noted here, and written when it fails or at the end of a call
 * whose trace is kept. */
struct rcall_spans {
    struct spans *spans; /* NULL: it is not traced */
    int64_t run_ns;      /* when the last run began; 0 = none, or it is written */
    int64_t ran_ns;      /* when it ended; 0 = not over */
    unsigned char run_id[SPAN_ID_BYTES];
    char container[CALL_ID_LEN + 1];
    int http; /* what the load balancer was told */
    bool told, failed;
};

void rspans_begin(struct rcall *rc); /* its model was read */
int rspans_run(struct rcall *rc, struct headers *h); /* on a container; FN_E_EXHAUSTED */
void rspans_ran(struct rcall *rc);                   /* and not any more */
void rspans_told(struct rcall *rc, int http, const char *text);
/* Its trace's id if that would be kept by now, else "". */
void rspans_kept_id(const struct rcall *rc, char ret[TRACE_ID_HEX]);
void rspans_end(struct rcall *rc); /* its memory goes */

#endif
