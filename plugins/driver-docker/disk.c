/* The engine's disk, when it is full.
 *
 * Whoever fails for lack of space says so; for DISK_FULL_NS it is believed. Nothing is pulled
 * meanwhile: a pull moves all of an image's bytes to find out that they have no place. Containers
 * of images that are there are still made, as far as they fit. Where images_max allows to remove
 * images, the next sweep removes some that nobody uses. */
#include "docker.h"
#include "fail.h"

static bool is_full(const struct docker *d, int64_t now_ns)
{
    return d->disk.full && now_ns < d->disk.until_ns;
}

int disk_declare(struct docker *d)
{
    return d->host->metric->declare(d->host, "disk_full", FN_METRIC_GAUGE, &d->disk.metric);
}

static void become_full(struct docker *d, const char *why)
{
    d->host->metric->add(d->host, d->disk.metric, 1);
    engine_log(d, FN_LOG_WARN,
               "the container engine's disk is full; no image is pulled for %d s: %s",
               (int)(DISK_FULL_NS / SECOND_NS), why);
    cleaner_disk_full(d);
}

int disk_judge(struct docker *d, int r, const struct fn_error *err)
{
    bool news;

    if (r != FN_E_EXHAUSTED) {
        return r;
    }
    pthread_mutex_lock(&d->lock);
    news = !d->disk.full;
    d->disk.full = true;
    d->disk.until_ns = engine_now_ns(d) + DISK_FULL_NS;
    pthread_mutex_unlock(&d->lock);
    if (news) {
        become_full(d, err ? err->msg : "no reason given");
    }
    return r;
}

int disk_check(struct docker *d, const char *image, struct fn_error *reterr)
{
    int64_t now_ns = engine_now_ns(d), left_ns = 0;

    pthread_mutex_lock(&d->lock);
    if (is_full(d, now_ns)) {
        left_ns = d->disk.until_ns - now_ns;
    }
    pthread_mutex_unlock(&d->lock);
    if (left_ns == 0) {
        return 0;
    }
    fail_platform(reterr, FN_E_EXHAUSTED,
                  "image '%.80s' is not pulled: the engine's disk is full; tried again in %d s",
                  image, (int)((left_ns + SECOND_NS - 1) / SECOND_NS));
    return fail_retry(reterr, FN_E_EXHAUSTED);
}

void disk_tick(struct docker *d)
{
    bool over;

    pthread_mutex_lock(&d->lock);
    over = d->disk.full && !is_full(d, engine_now_ns(d));
    d->disk.full = d->disk.full && !over;
    pthread_mutex_unlock(&d->lock);
    if (over) {
        d->host->metric->add(d->host, d->disk.metric, -1);
        engine_log(d, FN_LOG_INFO,
                   "images are pulled again: it is %d s since the container engine's disk was full",
                   (int)(DISK_FULL_NS / SECOND_NS));
    }
}
