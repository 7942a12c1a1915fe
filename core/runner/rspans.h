/* Rspans: what a call writes of itself for a collector of traces. Private to core/runner. Nothing
 * is done for a call that is not traced. [loop] */
#ifndef RUNNER_RSPANS_H
#define RUNNER_RSPANS_H

#include <trace/trace.h>

struct rcall;

struct rcall_spans {
    struct spans *spans; /* NULL: it is not traced */
    uint32_t function;   /* that is open, or SPAN_NONE */
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
