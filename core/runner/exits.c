/* Exits: what the end of a container says, in words and about its function. */
#include <runner/runner_int.h>

#include <signal.h>
#include <stdio.h>

#define STILLBORN_MAX 3 /* containers that end before a call; then its caller is told why */

const char *container_exit_text(const struct container *c, char *ret, size_t cap)
{
    unsigned long long mb = c->task.mem_bytes / ACCOUNT_MIB;

    if (c->exit.reason == FN_EXIT_OOM) {
        snprintf(ret, cap,
                 "container out of memory, you may want to raise fn.memory for this function "
                 "(default: 128MB): limit %llu MB, exit 137", mb);
    } else if (c->exit.reason == FN_EXIT_SIGNAL) {
        snprintf(ret, cap, "container killed by signal %d", c->exit.status);
    } else if (c->exit.reason == FN_EXIT_REMOVED) {
        snprintf(ret, cap, "container was removed");
    } else {
        snprintf(ret, cap, "container exit code %d", c->exit.status);
    }
    return ret;
}

bool container_stillborn(struct container *c)
{
    if (!c->served && !c->stillborn) {
        c->stillborn = true;
        c->q->stillborn++;
    }
    return !c->served && c->q->stillborn >= STILLBORN_MAX;
}

bool container_ended_by_itself(const struct container *c)
{
    return c->exited && (c->exit.reason == FN_EXIT_CODE ||
                         (c->exit.reason == FN_EXIT_SIGNAL && c->exit.status != SIGKILL &&
                          c->exit.status != SIGTERM));
}
