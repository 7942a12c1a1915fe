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

int loop_aside(void (*fn)(void *arg), void *arg, int64_t timeout_ns)
{
    struct aside *a = calloc(1, sizeof(*a));
    int64_t end_ns = loop_clock_ns() + timeout_ns;
    const struct timespec end = { end_ns / ENV_S, end_ns % ENV_S };
    pthread_t thread;
    int r = 0;

    if (!a) {
        return FN_E_EXHAUSTED;
    }
    a->fn = fn;
    a->arg = arg;
    pthread_mutex_init(&a->lock, NULL);
    loop_cond_init(&a->changed);
    if (loop_thread(&thread, aside_run, a) != 0) {
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
    /* not detached before: a sanitizer wants to see it end */
    pthread_join(thread, NULL);
    aside_free(a);
    return 0;
}
