/* Forks one child for a range of worlds and reads their results from a pipe: how many have come
 * says which world ended it. */
#include "apart.h"

#include "api_node.h"
#include "repeat.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORLD_REAL_S 60 /* of real time, for each day; a world needs some hundredths of a second */

static struct plan running;
static char running_line[REPEAT_BYTES];

/* A node's assertion, or an endless loop: the seed is all that can still be said. */
static void on_crash(int sig)
{
    char text[REPEAT_BYTES + 64];
    int n = snprintf(text, sizeof(text), "seed %llu: crash (signal %d)\n%s\n",
                     (unsigned long long)running.seed, sig, running_line);

    if (write(STDOUT_FILENO, text, (size_t)n) < 0) {
        _exit(3);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

static void run_in_child(const struct apart *a, int to)
{
    struct run_result r;

    if (a->output == APART_SILENT &&
        (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))) {
        _exit(1);
    }
    signal(SIGABRT, on_crash);
    signal(SIGSEGV, on_crash);
    signal(SIGALRM, on_crash);
    for (uint64_t i = 0; i < a->n; i++) {
        plan_draw(&running, a->first + i, a->mode);
        repeat_line(&running, a->left_out, running_line);
        alarm(WORLD_REAL_S * running.days);
        run_world(&running, a->left_out, a->output == APART_STORY, &r);
        plan_free(&running);
        if (write(to, &r, sizeof(r)) != (ssize_t)sizeof(r)) {
            exit(1);
        }
    }
    exit(0);
}

static uint64_t read_results(const struct apart *a, int from,
                             bool (*ended)(void *ud, uint64_t seed, const struct run_result *r),
                             void *ud)
{
    struct run_result r;
    uint64_t n = 0;

    while (n < a->n && read(from, &r, sizeof(r)) == (ssize_t)sizeof(r)) {
        if (!ended(ud, a->first + n++, &r)) {
            break;
        }
    }
    return n;
}

uint64_t apart_run(const struct apart *a,
                   bool (*ended)(void *ud, uint64_t seed, const struct run_result *r), void *ud,
                   bool *ret_clean)
{
    int ends[2], status = 0;
    uint64_t n;
    pid_t child;

    fflush(NULL);
    if (pipe(ends) < 0 || (child = fork()) < 0) {
        abort();
    }
    if (child == 0) {
        close(ends[0]); /* a parent that has seen enough ends it with SIGPIPE */
        run_in_child(a, ends[1]);
    }
    close(ends[1]);
    n = read_results(a, ends[0], ended, ud);
    close(ends[0]);
    waitpid(child, &status, 0);
    api_node_sweep(child);
    *ret_clean = status == 0;
    return n;
}
