/* E21: arms a timer of the loop from a thread of its own. */
#define EVIL_NAME "e21"
#include "when.h"

#include <fn/host.h>
#include <pthread.h>

static void on_timer(void *ud)
{
    (void)ud;
}

static void *arm(void *arg)
{
    const struct fn_host *host = arg;
    uint64_t id;

    if (host->timer->arm(host, 1, on_timer, NULL, &id) != FN_E_PRECONDITION ||
        host->timer->cancel(host, 1) != FN_E_PRECONDITION) {
        __builtin_trap();
    }
    return NULL;
}

static void do_it(void *host)
{
    pthread_t t;

    if (pthread_create(&t, NULL, arm, host) == 0) {
        pthread_join(t, NULL);
    }
}

EVIL_WHEN(do_it(inst))

#include "evil.h"
