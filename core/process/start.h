/* Start: what `fnd run` was told, and the exit codes of fnd. [init] */
#ifndef PROCESS_START_H
#define PROCESS_START_H

#include <stdbool.h>

#define EXIT_OK          0
#define EXIT_USAGE       64
#define EXIT_UNAVAILABLE 69 /* something needed is not there */
#define EXIT_INTERNAL    70 /* crashed */
#define EXIT_CONFIG      78

struct start {
    const char *config_path; /* NULL = variables only */
    bool strict;             /* warnings are errors */
    const char *warnings;    /* of the configuration, a line each, for the log; NULL = none */
};

/* Runs `fnd check` of the same configuration, so that a start that is refused tells all that is
 * wrong, in the words of the check. False when it found nothing. */
bool start_check_tells(const struct start *s);

#endif
