/* Why: what recent calls met, kept in a bounded ring for `fnd why`.
 *
 * A call takes an entry when it begins and gives it back when it ends; the ring keeps the last
 * `calls_max` that ended. An entry moves, it is never copied: what falls out of the ring serves the
 * next call, so that in steady state nothing is allocated. Memory: WHY_ENTRY_BYTES for each of
 * calls_max and for each call that runs. No bodies, no headers, no output of functions. [loop] */
#ifndef LB_WHY_H
#define LB_WHY_H

#include <base/buf.h>
#include <base/err.h>
#include <model/ids.h>
#include <place/trace.h>
#include <stdbool.h>
#include <trace/trace.h>

#define WHY_ID_MAX 64u
#define WHY_ERROR_MAX 96u

/* What a runner's wait was made of, as far as a container was started meanwhile. */
enum why_start { WHY_PULL, WHY_PREPARE, WHY_CREATE, WHY_INIT, WHY_START_N };

struct why;

/* Times are monotonic ns; 0 = did not come to that. */
struct why_entry {
    char id[CALL_ID_LEN + 1];
    bool detached;
    bool ended;
    uint8_t outcome; /* enum outcome, once ended */
    int32_t status;
    uint32_t generation;
    int64_t wall_ns;       /* when it came */
    int64_t received_ns;   /* its head was complete */
    int64_t created_ns;    /* its body was complete */
    int64_t placing_ns;    /* the function was found */
    int64_t first_byte_ns; /* the client got the first byte of the answer */
    int64_t ended_ns;
    int64_t scheduler_ns; /* reported by the runner: its own queue and start */
    int64_t execution_ns; /* reported by the runner */
    int64_t start_ns[WHY_START_N]; /* reported by the runner, part of scheduler_ns */
    char trace_id[TRACE_ID_HEX];   /* "" = it is not traced */
    char fn_id[WHY_ID_MAX];
    char error[WHY_ERROR_MAX]; /* "" = none, or the function's */
    struct trace trace;
    struct why_entry *next_free;
};

#define WHY_ENTRY_BYTES sizeof(struct why_entry)

/* calls_max 0: nothing is kept, why_begin() gives NULL. FN_E_EXHAUSTED */
int why_create(uint32_t calls_max, struct why **ret);
void why_destroy(struct why *w); /* entries of running calls must be back; NULL ok */
/* The ring gets another size; what fits of the newest stays. FN_E_EXHAUSTED: as before. */
int why_resize(struct why *w, uint32_t calls_max);
/* NULL when nothing is kept or memory is out. Its texts are empty and its times 0. */
struct why_entry *why_begin(struct why *w);
/* Into the ring; NULL ok. */
void why_end(struct why *w, struct why_entry *e);

/* Among those that ended; NULL when it is not there. */
const struct why_entry *why_find(const struct why *w, const char *id);
/* The i-th newest of them; NULL: there are not so many. */
const struct why_entry *why_at(const struct why *w, uint32_t i);
/* "none of the last 4096 calls ...": for an id that is not there. */
int why_unknown(const struct why *w, const char *id, int64_t now_ns, struct fn_error *reterr);

/* A word for trace_try.how. */
const char *why_how_name(uint32_t how);
/* The entry as one JSON object. FN_E_EXHAUSTED */
int why_print(const struct why_entry *e, int64_t now_ns, struct buf *out);

#endif
