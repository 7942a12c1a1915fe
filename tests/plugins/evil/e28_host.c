/* E28: what must not keep the node from serving, from ending, or from telling why it ended.
 * DO is what decide() does for the function "evil". */
#define EVIL_NAME "e28"
#include "when.h"

#include <fn/host.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

static const struct fn_host *the_host;

static __attribute__((unused)) void for_ever(void)
{
    for (volatile int go = 1; go;) {
    }
}

static __attribute__((unused)) void again(void *ud)
{
    uint64_t id;

    the_host->timer->arm(the_host, the_host->clock->now_ns(the_host), again, ud, &id);
}

static __attribute__((unused)) void *crash(void *arg)
{
    volatile int *nowhere = arg;

    *nowhere = 1;
    return NULL;
}

static __attribute__((unused)) void start_crash(void)
{
    pthread_t t;

    pthread_create(&t, NULL, crash, NULL);
    pthread_join(t, NULL);
}

static __attribute__((unused)) void signals(void)
{
    kill(getpid(), SIGUSR1);
    alarm(1);
}

static __attribute__((unused)) void flush_to_zero(void)
{
#ifdef __x86_64__
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

#ifdef CONSTRUCT
/* In the trial it behaves. */
static __attribute__((constructor)) void construct(void)
{
    char exe[256];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n >= 4 && memcmp(exe + n - 4, "/fnd", 4) == 0) {
        CONSTRUCT;
    }
}
#endif

static int keep_host(const struct fn_host *host, const void *conf, void **ret_inst,
                     struct fn_error *reterr)
{
    (void)conf;
    (void)reterr;
    the_host = host;
    *ret_inst = (void *)(uintptr_t)host;
    return 0;
}
#define EVIL_CREATE keep_host

#ifdef DESTROY
static void destroy(void *inst)
{
    (void)inst;
    DESTROY;
}
#define EVIL_DESTROY destroy
#endif

#ifndef DO
#define DO (void)0
#endif
#ifdef WAIT
static int wait_for_ever(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    if (!evil_is_asked(ask)) {
        return evil_decide(inst, ask, ret);
    }
    ret->verdict = FN_WAIT;
    ret->wait_ns = INT64_MAX;
    return 0;
}
#undef EVIL_DECIDE
#define EVIL_DECIDE wait_for_ever
#else
EVIL_WHEN(DO)
#endif

#include "evil.h"
