/* A call that may never return, on a thread of its own. `lock` protects the three flags; whoever
 * comes last frees the record. */
#include <loop/loop_int.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct aside {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    bool abandoned;
    void (*fn)(void *arg);
    void *arg;
};

static void aside_free(struct aside *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void *aside_run(void *arg)
{
    struct aside *a = arg;
    bool abandoned;

    loop_altstack();
    a->fn(a->arg);
    pthread_mutex_lock(&a->lock);
    a->done = true;
    abandoned = a->abandoned;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (abandoned) {
        aside_free(a);
    }
    return NULL;
}

/* Detached later, and not at all when it returns: a sanitizer wants to see it end. */
static int aside_start(struct aside *a, pthread_t *ret)
{
    return loop_thread(ret, aside_run, a);
}

static struct timespec in(int64_t timeout_ns)
{
    int64_t at = loop_clock_ns() + timeout_ns;

    return (struct timespec){ at / ENV_S, at % ENV_S };
}

int loop_aside(void (*fn)(void *arg), void *arg, int64_t timeout_ns)
{
    struct aside *a = calloc(1, sizeof(*a));
    struct timespec end = in(timeout_ns);
    pthread_condattr_t attr;
    pthread_t thread;
    int r = 0;

    if (!a) {
        return FN_E_EXHAUSTED;
    }
    a->fn = fn;
    a->arg = arg;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (aside_start(a, &thread) != 0) {
        aside_free(a);
        return FN_E_EXHAUSTED;
    }
    pthread_mutex_lock(&a->lock);
    while (!a->done && r != ETIMEDOUT) {
        r = pthread_cond_timedwait(&a->changed, &a->lock, &end);
    }
    a->abandoned = !a->done;
    r = a->abandoned ? FN_E_DEADLINE : 0;
    pthread_mutex_unlock(&a->lock);
    if (r < 0) {
        pthread_detach(thread);
        return r;
    }
    pthread_join(thread, NULL);
    aside_free(a);
    return 0;
}
