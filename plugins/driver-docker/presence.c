/* Which images the engine has, as far as the driver knows, and when each was last used.
 *
 * What an inspection said holds until the engine's image events say that anything changed: one of
 * them ends what is known of all images, because an image has many names, and which of them an
 * event means differs from engine to engine. The stream of these events is one of its own: that of
 * containers is narrowed by a label, which images do not have. What is known ends with the stream,
 * too, and while there is none nothing is: each preparation then asks the engine.
 *
 * The times of last use stay, for the image cleaner. */
#include "docker.h"

#include <stdlib.h>

#define IMAGES_KNOWN_MAX 4096

struct known_image {
    UT_hash_handle hh;
    int64_t used_ns;
    uint64_t epoch; /* of its last inspection */
    struct api_image it;
    char name[]; /* as functions name it */
};

/* ---- the table, under the lock --------------------------------------------------------------- */

static void image_drop(struct docker *d, struct known_image *k)
{
    HASH_DEL(d->presence.images, k);
    free(k);
}

static void image_drop_oldest(struct docker *d)
{
    struct known_image *k, *next, *oldest = d->presence.images;

    HASH_ITER(hh, d->presence.images, k, next) {
        oldest = k->used_ns < oldest->used_ns ? k : oldest;
    }
    image_drop(d, oldest);
}

static struct known_image *image_find(struct docker *d, const char *name)
{
    struct known_image *k;

    HASH_FIND_STR(d->presence.images, name, k);
    return k;
}

static struct known_image *image_add(struct docker *d, const char *name)
{
    size_t len = strlen(name) + 1;
    struct known_image *k = calloc(1, sizeof(*k) + len);

    if (!k) {
        return NULL;
    }
    memcpy(k->name, name, len);
    if (HASH_COUNT(d->presence.images) >= IMAGES_KNOWN_MAX) {
        image_drop_oldest(d);
    }
    HASH_ADD_STR(d->presence.images, name, k);
    if (!k->hh.tbl) {
        free(k);
        return NULL;
    }
    return k;
}

/* ---- what is known --------------------------------------------------------------------------- */

bool presence_find(struct docker *d, const char *name, struct api_image *ret)
{
    struct known_image *k;
    bool found;

    pthread_mutex_lock(&d->lock);
    k = image_find(d, name);
    found = k && d->presence.watched && k->epoch == d->presence.epoch;
    if (found) {
        k->used_ns = engine_now_ns(d);
        *ret = k->it;
    }
    pthread_mutex_unlock(&d->lock);
    return found;
}

uint64_t presence_epoch(struct docker *d)
{
    uint64_t epoch;

    pthread_mutex_lock(&d->lock);
    epoch = d->presence.epoch;
    pthread_mutex_unlock(&d->lock);
    return epoch;
}

void presence_keep(struct docker *d, const char *name, const struct api_image *it, uint64_t epoch)
{
    struct known_image *k;

    pthread_mutex_lock(&d->lock);
    k = image_find(d, name);
    k = k ? k : image_add(d, name);
    if (k) {
        k->used_ns = engine_now_ns(d);
        k->epoch = epoch;
        k->it = *it;
    }
    pthread_mutex_unlock(&d->lock);
}

void presence_use(struct docker *d, const char *name)
{
    struct known_image *k;

    pthread_mutex_lock(&d->lock);
    k = image_find(d, name);
    if (k) {
        k->used_ns = engine_now_ns(d);
    }
    pthread_mutex_unlock(&d->lock);
}

int64_t presence_last_use_ns(struct docker *d, const char *id)
{
    struct known_image *k, *next;
    int64_t last_ns = 0;

    HASH_ITER(hh, d->presence.images, k, next) {
        last_ns = strcmp(k->it.id, id) == 0 && k->used_ns > last_ns ? k->used_ns : last_ns;
    }
    return last_ns;
}

void presence_forget(struct docker *d)
{
    pthread_mutex_lock(&d->lock);
    d->presence.epoch++;
    pthread_mutex_unlock(&d->lock);
}

void presence_finish(struct docker *d)
{
    struct known_image *k, *next;

    HASH_ITER(hh, d->presence.images, k, next) {
        image_drop(d, k);
    }
}

/* ---- image events, on the stream thread ------------------------------------------------------ */

/* One that is malformed may have said anything. */
static void on_image_event(void *ud, const struct api_event *ev)
{
    if (!ev || ev->type == API_EVENT_IMAGE) {
        presence_forget(ud);
    }
}

static void image_events_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct docker *d = ud;

    if (status == 200) {
        api_events_feed(&d->presence.feed, data, len);
    }
}

/* An engine that cannot be reached is told by the stream of containers. */
static void image_events_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct docker *d = ud;

    (void)status;
    (void)err;
    pthread_mutex_lock(&d->lock);
    d->presence.watched = false;
    d->presence.epoch++;
    d->presence.stream = 0;
    pthread_mutex_unlock(&d->lock);
}

/* Events of a moment ago are replayed: none falls between two streams, nor between this request and
 * an inspection that is answered before it. */
static void watch_images(struct docker *d)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0),
                                                 image_events_data, image_events_end };
    int64_t since_s = d->host->clock->wall_ns(d->host) / SECOND_NS - EVENTS_OVERLAP_S;
    char path[256];
    uint64_t id = 0;
    int r = api_image_events_path(since_s, path, sizeof(path));

    if (r < 0) {
        return;
    }
    pthread_mutex_lock(&d->lock);
    d->presence.watched = true;
    d->presence.epoch++;
    d->presence.feed = (struct api_events){ .each = on_image_event, .ud = d };
    pthread_mutex_unlock(&d->lock);
    r = engine_stream(d, "GET", path, INSPECT_TIMEOUT_MS, &cb, d, &id, NULL);
    pthread_mutex_lock(&d->lock);
    if (r < 0) {
        d->presence.watched = false;
    } else if (d->presence.watched) {
        d->presence.stream = id;
    }
    pthread_mutex_unlock(&d->lock);
}

void presence_tick(struct docker *d)
{
    int64_t now_ns = engine_now_ns(d);
    bool open;

    pthread_mutex_lock(&d->lock);
    open = !d->stopping && !d->presence.watched && now_ns >= d->presence.next_ns;
    if (open) {
        d->presence.next_ns = now_ns + IMAGE_EVENTS_RETRY_NS;
    }
    pthread_mutex_unlock(&d->lock);
    if (open) {
        watch_images(d);
    }
}

void presence_close(struct docker *d)
{
    uint64_t id;

    pthread_mutex_lock(&d->lock);
    id = d->presence.stream;
    pthread_mutex_unlock(&d->lock);
    if (id) {
        d->http->stream_close(d->host, id);
    }
}
