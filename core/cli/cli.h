/* Cli: the command line of fnd. What returns int gives an exit code of process/start.h. [init] */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <admin/admin.h>
#include <config/config.h>
#include <jansson.h>
#include <process/start.h>

struct cli_options {
    struct start start;
    bool supervise;          /* run: below a parent process */
    bool reference;          /* check: print the reference of fn.yaml */
    bool markdown;           /* plugins: as Markdown */
    const char *socket;      /* of a running node; NULL = the configuration's */
    bool json;               /* answers of a running node as they came */
    bool follow;             /* logs: what comes, too */
    bool force;              /* runners remove: whatever runs on it */
    const char *group;       /* runners roll; NULL = all */
    const char *url;         /* api: of the API node; NULL = FN_API_URL, or this machine's */
    bool dry_run;            /* api import: only tell */
    bool prune;              /* api import: what the file has not goes */
    const char *at_most;     /* text of a number; NULL: runners roll 1, lists and logs 1000 */
    const char *command;     /* its name */
    int argc;                /* operands */
    char **argv;
};

/* Parses argv and does what it says. */
int cli_main(int argc, char **argv);

/* certs.c: `certs demo DIRECTORY`, `certs issue DIRECTORY NAME...`. */
int cli_certs(const struct cli_options *o);

/* init.c: `init NODE [FILE]`. */
int cli_init(const struct cli_options *o);

/* top.c: figures and tables of a node, again each second. */
int cli_top(const struct cli_options *o);

/* bundle.c: `bundle`; prints what a report of a fault needs. */
int cli_bundle(const struct cli_options *o);

/* check.c: the configuration, in a process of its own, which prints it or its mistakes. */
int cli_check(const struct cli_options *o);
void cli_print_problems(struct conf_problems *p); /* on stderr */
int cli_print_out(struct buf *out);

/* api.c: `api export [APP...]`, `api import FILE`. */
int cli_api(const struct cli_options *o);

/* ask.c: the path of the node's admin socket: --socket, or what the configuration says. */
int cli_socket(const struct cli_options *o, char ret[ADMIN_PATH_MAX + 1]);
/* The node's JSON in *ret (given) and its status, or an exit code and a sentence on stderr. */
int cli_ask_status(const struct cli_options *o, const char *method, const char *path,
                   int64_t timeout_ms, int *ret_status, json_t **ret);
/* The same where only a good answer is of use. */
int cli_ask(const struct cli_options *o, const char *method, const char *path, json_t **ret);
int cli_print_json(const json_t *root);
/* The whole of a command that asks: the answer as it came with --json, else as print() has it. */
int cli_show(const struct cli_options *o, const char *method, const char *path,
             void (*print)(const json_t *root));
/* A member's text, or `other`; its number, or 0. */
const char *cli_text(const json_t *o, const char *key, const char *other);
long long cli_number(const json_t *o, const char *key);
/* `code`, or with a sentence EXIT_UNAVAILABLE where what was printed did not arrive. */
int cli_written(int code);

/* admin.c: commands that ask a running node. */
int cli_shadow(const struct cli_options *o);
int cli_runners(const struct cli_options *o);
/* logs.c */
int cli_logs(const struct cli_options *o);
/* lists.c */
#define CLI_CELL_MAX 128
/* "12 ms", "3.4 s", "5 min" */
const char *cli_span(long long ms, char ret[CLI_CELL_MAX]);
/* What a terminal may be given: it obeys control characters, and strangers choose names. */
const char *cli_plain(const char *text, char ret[CLI_CELL_MAX]);
int cli_list(const struct cli_options *o); /* calls, containers, peers */
/* roll.c: replaces all runners that there are, some at a time. */
int cli_roll(const struct cli_options *o);
int cli_why(const struct cli_options *o);
int cli_status(const struct cli_options *o);
int cli_page(const struct cli_options *o);
int cli_reload(const struct cli_options *o);

#endif
