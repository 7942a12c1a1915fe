/* History: the last minutes of a node's figures, so that a page which is opened shows more than
 * now. One array for all figures, filled for ever. [loop] */
#ifndef PAGE_HISTORY_H
#define PAGE_HISTORY_H

#include <base/buf.h>

#define HISTORY_SERIES_MAX 24u
#define HISTORY_N          180u /* of each: a quarter of an hour */
#define HISTORY_STEP_S     5

struct history {
    const char *const *names; /* NULL ends; at most HISTORY_SERIES_MAX */
    int64_t values[HISTORY_N][HISTORY_SERIES_MAX];
    int64_t wall_ns; /* of the last one */
    uint64_t n;      /* that were ever added */
};

void history_add(struct history *h, const int64_t *values, int64_t wall_ns);
/* {"step_s":5,"at_ms":t,"values":{"name":[oldest, ..., newest], ...}}. FN_E_EXHAUSTED */
int history_print(const struct history *h, struct buf *out);

#endif
