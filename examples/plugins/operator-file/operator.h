/* Private to operator-file: one instance, and what its files share. */
#ifndef OPERATOR_H
#define OPERATOR_H

#include <fn/operator.h>

#define ROW_MAX  (FN_OPERATOR_LINE_MAX + 1200) /* of log_file: a line and its ids */

struct conf {
    const char *down_file; /* NULL = none */
    int64_t down_code;
    struct fn_strlist words;
    const char *keys_file; /* NULL = none */
    const char *log_file;  /* the same */
};

struct operator {
    const struct conf *conf; /* lives as long as the instance */
    char *texts;             /* the words, cut at their '=' */
    uint32_t n;
    struct fn_kv pairs[FN_OPERATOR_PAIRS_MAX];
    char rows[FN_OPERATOR_LINES_MAX][ROW_MAX]; /* what read() answered, cut at its spaces */
    struct fn_log_line lines[FN_OPERATOR_LINES_MAX];
    const struct fn_log_line *list[FN_OPERATOR_LINES_MAX];
};

/* -> code */
__attribute__((format(printf, 4, 5))) int fail(struct fn_error *e, int code, int status,
                                               const char *fmt, ...);

/* log.c: methods of fn_operator_ops */
int put_log(void *inst, struct fn_op *, const struct fn_log_line *const *borrowed, uint32_t n,
            struct fn_error *reterr);
int read_log(void *inst, struct fn_op *, const struct fn_log_query *borrowed,
             uint64_t *inout_cursor, const struct fn_log_line *const **ret_lines, uint32_t *ret_n,
             struct fn_error *reterr);

#endif
