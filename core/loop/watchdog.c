/* Sampling: the loop counts the callbacks that it begins; two equal samples while somebody is
 * inside mean that one of them still runs. `lock` guards `stopping` only. */
#include <loop/loop_int.h>
#include <loop/watchdog.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES_PER_LIMIT 4
#define SAMPLE_MIN_NS     (5 * ENV_MS)
#define SAMPLE_MAX_NS     (250 * ENV_MS)

struct watchdog {
    struct loop *loop;
    struct watchdog_config config;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    bool stopping;
    uint64_t steps; /* of the last sample */
    int64_t since_ns; /* first sample of `steps`; 0 = nobody was inside */
    int64_t report_ns; /* stuck for that long: next report */
    int64_t chore_at_ns;
    bool told;
};

static void sample(struct watchdog *w, int64_t now_ns)
{
    uint64_t steps;
    bool busy = loop_is_busy(w->loop, &steps);
    bool same = busy && w->since_ns && steps == w->steps;

    if (!same) {
        if (w->told) {
            w->told = false;
            w->config.report(w->config.ud, now_ns - w->since_ns, true);
        }
        w->since_ns = busy ? now_ns : 0;
        w->steps = steps;
        w->report_ns = w->config.limit_ns;
    } else if (now_ns - w->since_ns >= w->report_ns) {
        w->told = true;
        w->report_ns *= 2;
        w->config.report(w->config.ud, now_ns - w->since_ns, false);
    }
}

static int64_t sample_ns(const struct watchdog *w)
{
    int64_t ns = w->config.limit_ns / SAMPLES_PER_LIMIT;

    if (!w->config.limit_ns || ns > SAMPLE_MAX_NS) {
        ns = SAMPLE_MAX_NS;
    }
    return ns < SAMPLE_MIN_NS ? SAMPLE_MIN_NS : ns;
}

static bool wait_until(struct watchdog *w, int64_t at_ns)
{
    struct timespec ts = { at_ns / ENV_S, at_ns % ENV_S };
    bool stopping;

    pthread_mutex_lock(&w->lock);
    while (!w->stopping && loop_clock_ns() < at_ns) {
        pthread_cond_timedwait(&w->stop, &w->lock, &ts);
    }
    stopping = w->stopping;
    pthread_mutex_unlock(&w->lock);
    return !stopping;
}

static void *watchdog_run(void *arg)
{
    struct watchdog *w = arg;
    int64_t now_ns = loop_clock_ns();

    w->chore_at_ns = now_ns + w->config.chore_ns;
    while (wait_until(w, now_ns + sample_ns(w))) {
        now_ns = loop_clock_ns();
        if (w->config.limit_ns) {
            sample(w, now_ns);
        }
        if (w->config.chore_ns && now_ns >= w->chore_at_ns) {
            w->config.chore(w->config.ud);
            w->chore_at_ns = now_ns + w->config.chore_ns;
        }
    }
    return NULL;
}

int watchdog_create(struct loop *l, const struct watchdog_config *config, struct watchdog **ret,
                    struct fn_error *reterr)
{
    struct watchdog *w = calloc(1, sizeof(*w));
    int r;

    if (!w) {
        return err_set(reterr, FN_E_EXHAUSTED, "watchdog: out of memory");
    }
    w->loop = l;
    w->config = *config;
    pthread_mutex_init(&w->lock, NULL);
    loop_cond_init(&w->stop);
    r = loop_thread(&w->thread, watchdog_run, w);
    if (r != 0) {
        pthread_cond_destroy(&w->stop);
        pthread_mutex_destroy(&w->lock);
        free(w);
        return err_set(reterr, FN_E_EXHAUSTED, "watchdog: no thread: %s", strerror(r));
    }
    *ret = w;
    return 0;
}

void watchdog_destroy(struct watchdog *w)
{
    if (!w) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->stop);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->stop);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
