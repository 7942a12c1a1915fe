/* E20: forks, runs a shell, changes the environment. */
#define EVIL_NAME "e20"
#include "when.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void do_it(void)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
    (void)!system("true");
    (void)setenv("EVIL", "yes", 1);
}

EVIL_WHEN(do_it())

#include "evil.h"
