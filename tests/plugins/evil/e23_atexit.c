/* E23: registers handlers that run when a thread or the process ends. */
#define EVIL_NAME "e23"
#include "when.h"

#include <pthread.h>
#include <stdlib.h>

static int registered;
static pthread_key_t key;

static void at_end(void)
{
    registered = 0;
}

static void at_thread_end(void *value)
{
    (void)value;
}

static void do_it(void)
{
    if (!registered) {
        registered = 1;
        (void)atexit(at_end);
        (void)pthread_key_create(&key, at_thread_end);
    }
    (void)pthread_setspecific(key, &registered);
}

EVIL_WHEN(do_it())

#include "evil.h"
