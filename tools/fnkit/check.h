/* What the two processes of fnkit check share. */
#ifndef FNKIT_CHECK_H
#define FNKIT_CHECK_H

#include "contract.h"
#include "report.h"

#define CHECK_SETS_MAX 64
#define CHECK_SKIPS_MAX 16

/* Names of results that are no cases. */
#define CHECK_HEADER "-header-" /* text: "<name> <version>\n<sha256>" */
#define CHECK_USAGE "-usage-"   /* text: what the command line asks for and the file has not */
#define CHECK_END "-end-"

struct check_options {
    const char *path;  /* from anywhere */
    const char *given; /* as it was written */
    const char *kind;  /* NULL = all */
    const char *name;  /* NULL = all */
    const char *suite; /* "life" or "life/time"; NULL = all */
    const char *skips[CHECK_SKIPS_MAX]; /* cases that are left out */
    uint32_t n_skips;
    const char *junit;
    uint64_t seed;
    bool tap;
    bool sim;  /* virtual tables only */
    bool real; /* a node's tables only */
    bool world; /* a node's tables and what is really behind them, nothing else */
    const char *image; /* that containers of the world run; NULL = none */
    bool verbose;
    struct conf_override sets[CHECK_SETS_MAX + 1]; /* ended by a NULL key */
    char set_names[CHECK_SETS_MAX][64];            /* "--set window", for sentences about them */
    uint32_t n_sets;
};

/* In the child: loads the file, lints it, runs the suites; writes struct report_result to fd. */
void check_worker(const struct check_options *o, int fd);
/* lint.c: results about the file itself. */
void check_lint(const char *path, const struct plugin_file *file,
                void (*add)(void *ud, const struct report_result *one), void *ud);

#endif
