/* A configuration is checked, in a process of its own, and printed or its mistakes are. */
#include <cli/cli.h>
#include <node/node.h>
#include <process/crash.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_ENDED 0x80 /* with the exit code of a check that came to its end */

void cli_print_problems(struct conf_problems *p)
{
    fputs(buf_text(&p->text), stderr);
    if (p->n > CONF_PROBLEMS_MAX) {
        fprintf(stderr, "... and %u more\n", p->n - CONF_PROBLEMS_MAX);
    }
}

int cli_print_out(struct buf *out)
{
    fwrite(buf_text(out), 1, out->len, stdout);
    return cli_written(EXIT_OK);
}

static void print_reference(struct config *c, struct buf *out, struct conf_problems *p)
{
    struct plugin_host *h = plugin_host_create(NULL);

    conf_problems_finish(p);
    conf_problems_init(p);
    if (h && config_plugin_policy(c, h, p) == 0) {
        config_print_reference(h, c->top->plugin_dir, out, p);
    }
    plugin_host_destroy(h);
}

static int check_here(const struct cli_options *o)
{
    struct buf out = BUF_INIT(0);
    struct conf_problems p;
    struct config *c = NULL;
    int r = EXIT_OK;

    conf_problems_init(&p);
    p.strict = o->start.strict;
    config_load(o->reference ? NULL : o->start.config_path, environ, &c, &p);
    if (o->reference && c) {
        print_reference(c, &out, &p);
    } else if (config_is_complete(c)) {
        node_check(c, &out, &p);
    }
    cli_print_problems(&p);
    if (p.n == 0 || (o->reference && c)) {
        r = cli_print_out(&out);
    }
    return p.n > 0 ? EXIT_CONFIG : r;
}

/* What plugins do to their process is not done to the one that tells of it. */
int cli_check(const struct cli_options *o)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        crash_install();
        _exit(check_here(o) | CHECK_ENDED);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pid < 0) {
        fprintf(stderr, "fnd: check: %s; expected a process for it\n", strerror(errno));
        return EXIT_UNAVAILABLE;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) & CHECK_ENDED) {
        return WEXITSTATUS(status) & ~CHECK_ENDED;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) {
        raise(SIGPIPE); /* `fnd check | head`: whoever reads has read enough */
    }
    fprintf(stderr, "fnd: the check broke off, got %s %d; expected its end (the report above names "
            "the plugin that ran, if one did)\n", WIFSIGNALED(status) ? "signal" : "exit code",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return EXIT_INTERNAL;
}
