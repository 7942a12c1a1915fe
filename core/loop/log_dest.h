/* Log dest: where the lines of this process go, as `log:` of fn.yaml says. */
#ifndef LOOP_LOG_DEST_H
#define LOOP_LOG_DEST_H

#include <loop/log_writer.h>

struct log_options {
    const char *level;  /* Go Fn's words; see log_level_parse() */
    const char *format; /* "text", "json" */
    const char *dest;   /* "stderr", "stdout", "file:///path", or what remote_log_open() takes */
    const char *prefix;
};
extern const struct opt_table log_opt_table; /* options.c */

/* [any] What was expected, for messages; NULL: the value is good. */
const char *log_dest_refused(const char *dest);
const char *log_prefix_refused(const char *prefix);
/* [init] Opens the destination. A descriptor is `least` or higher. FN_E_UNAVAILABLE. */
int log_dest_open(const struct log_options *o, int least, struct log_writer_config *ret,
                  struct fn_error *reterr);

#endif
