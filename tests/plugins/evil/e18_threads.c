/* E18: starts threads that never end. */
#define EVIL_NAME "e18"
#include "when.h"

#include <pthread.h>
#include <unistd.h>

#define THREADS 200

static void *sleep_on(void *arg)
{
    for (;;) {
        pause();
    }
    return arg;
}

static void start(void)
{
    pthread_attr_t attr;
    pthread_t t;
    int i;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (i = 0; i < THREADS; i++) {
        (void)pthread_create(&t, &attr, sleep_on, NULL);
    }
    pthread_attr_destroy(&attr);
}

EVIL_WHEN(start())

#include "evil.h"
