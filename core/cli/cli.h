/* Cli: the command line of fnd. Exit codes: 0, 64 usage, 69 something needed is not there, 70
 * crashed, 78 configuration. [init] */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <config/config.h>
#include <jansson.h>

#define CLI_OK          0
#define CLI_USAGE       64
#define CLI_UNAVAILABLE 69
#define CLI_INTERNAL    70
#define CLI_CONFIG      78

struct cli_options {
    const char *config_path; /* NULL = variables only */
    bool strict;             /* warnings are errors */
    bool supervise;          /* run: below a parent process */
    bool reference;          /* check: print the reference of fn.yaml */
    bool markdown;           /* plugins: as Markdown */
    const char *socket;      /* of a running node; NULL = the configuration's */
    bool json;               /* answers of a running node as they came */
    bool force;              /* runners remove: whatever runs on it */
    const char *group;       /* runners roll; NULL = all */
    const char *at_most;     /* runners roll: text of a number; NULL = 1 */
};

/* Parses argv and does what it says. `run` gets a configuration without problems (its plugins are
 * not loaded yet) and gives the exit code; warnings were already written to standard error. */
int cli_main(int argc, char **argv, int (*run)(struct config *cfg, const struct cli_options *o));

/* Runs `fnd check` of the same configuration, so that a start that is refused tells all that is
 * wrong, in the words of the check. False when it found nothing. */
bool cli_check_tells(const struct cli_options *o);

/* certs.c: `certs demo DIRECTORY`, `certs issue DIRECTORY NAME...`. */
int cli_certs(const struct cli_options *o, int argc, char **argv);

/* admin.c: commands that ask a running node. argv: the operands. */
int cli_shadow(const struct cli_options *o, int argc, char **argv);
int cli_runners(const struct cli_options *o, int argc, char **argv);
/* The node's JSON in *ret (given), or an exit code and a sentence on stderr. */
int cli_ask(const struct cli_options *o, const char *method, const char *path, json_t **ret);
/* roll.c: replaces all runners that there are, some at a time. */
int cli_roll(const struct cli_options *o);
int cli_why(const struct cli_options *o, int argc, char **argv);
int cli_status(const struct cli_options *o, int argc, char **argv);
int cli_reload(const struct cli_options *o, int argc, char **argv);

#endif
