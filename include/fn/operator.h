/* Operator: what the operator of a runner adds to it: words in its status, or its failure,
 * configuration keys of his own, and a destination and a source of what functions print. Go Fn:
 * PureRunnerWithCustomHealthCheckerFunc, PureRunnerWithConfigFunc, PureRunnerWithLogStreamer. Since
 * ABI 1.1. */
#ifndef FN_OPERATOR_H
#define FN_OPERATOR_H

#include <fn/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_OPERATOR_MAJOR 1
#define FN_OPERATOR_MINOR 0
#define FN_MAGIC_OPERATOR 0x464e1701u

#define FN_OPERATOR_PAIRS_MAX 64u  /* that status() may add */
#define FN_OPERATOR_TEXT_MAX 4096u /* bytes of a key or value of them */

#define FN_OPERATOR_LINES_MAX 128u  /* that log() is given and read() gives at once */
#define FN_OPERATOR_LINE_MAX  4095u /* bytes of a line; of an id: 255 */

/* A line that a function printed; texts that nobody knows are "". */
struct fn_log_line {
    uint32_t size;
    uint32_t fd; /* 1 or 2 */
    int64_t wall_ms; /* since 1970 */
    const char *app_id;
    const char *fn_id;
    const char *container_id;
    const char *call_id;
    const char *data; /* without its newline; any bytes; NUL-terminated after len bytes */
    uint64_t len;
    uint64_t lost; /* > 0: no function's line: so many are missing here, as data says in words */
};

/* What somebody who reads lines asked for; an id that is NULL: all. */
struct fn_log_query {
    uint32_t size;
    uint32_t reserved0;
    int64_t since_ms; /* no older lines; since 1970 */
    uint64_t tail;    /* of the lines that are there already, only so many of the last */
    const char *app_id;
    const char *fn_id;
    const char *container_id;
    const char *call_id;
};

/* One call at a time per instance; each may block until the deadline of its operation. */
struct fn_operator_ops {
    struct fn_hdr hdr; /* FN_MAGIC_OPERATOR */
    /* [worker] optional: 0 with pairs for the status (n 0: none), which stay as they are until the
     * next call of this instance; keys are not empty. < 0: the runner has failed, load balancers
     * leave it, with the status, code and text of *reterr. The answer is kept for a while, as that
     * of the status image. */
    int (*status)(void *inst, struct fn_op *, const struct fn_kv **ret_pairs, uint32_t *ret_n,
                  struct fn_error *reterr);
    /* [worker] optional: the keys of a ConfigureRunner, in the order of their bytes. < 0 refuses all
     * of them with *reterr; nothing of them is in use then. */
    int (*configure)(void *inst, struct fn_op *, const struct fn_kv *borrowed, uint32_t n,
                     struct fn_error *reterr);
    /* [worker] optional: takes the next lines of all functions, 1 to FN_OPERATOR_LINES_MAX, those of
     * a container in their order. While it runs, further ones wait where they were printed; those
     * that find no room there are lost, and a line says so. < 0: these lines are lost; it is given
     * the next ones after a pause. */
    int (*log)(void *inst, struct fn_op *, const struct fn_log_line *const *borrowed, uint32_t n,
               struct fn_error *reterr);
    /* [worker] optional: the next lines for somebody who reads them (StreamLogs, `fnd logs`), who
     * gets these instead of what the runner keeps. *inout_cursor is 0 at a reader's first call, then
     * what the call before left there. 0 with 0 to FN_OPERATOR_LINES_MAX lines, which stay as they
     * are until the next call of this instance. None: it is asked again after the next log(), or
     * some 250 ms later. The host leaves out lines that the query does not want; `tail` is up to the
     * plugin. < 0: ends this reader's stream with the text of *reterr. */
    int (*read)(void *inst, struct fn_op *, const struct fn_log_query *borrowed,
                uint64_t *inout_cursor, const struct fn_log_line *const **ret_lines,
                uint32_t *ret_n, struct fn_error *reterr);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_OPERATOR_H */
