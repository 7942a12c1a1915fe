/* Keeps the images of the engine within images_max: those that were not used for longest go first.
 *
 * What counts is what all layers take on the disk, each of them once, however many images share it.
 * Layers leave with the last image that has them, so that after each round the engine is asked
 * again what is left, instead of adding up sizes that overlap.
 *
 * An image is used from its preparation until its last container is removed. None goes that has a
 * container, that images_exempt names, or that was used a moment ago: between its preparation and
 * its first container it has none. The engine has the last word: it keeps what a container needs.
 *
 * The engine is asked beside the sweep, and only when something was pulled since it was last below
 * the limit. An engine that answers with an error is asked at the next sweep: one that counts for
 * somebody else at that moment refuses (500, "a disk usage operation is already running").
 *
 * Go Fn: api/agent/drivers/docker/image_cacher.go, which adds up the images' sizes. */
#include "docker.h"
#include "engine_json.h"
#include "fail.h"

#include <stdlib.h>

#define IN_USE_NS   (120 * SECOND_NS)
#define AGAIN_NS    (60 * SECOND_NS) /* while nothing can be removed */
#define ROUNDS_MAX  8                /* of one sweep */
#define FULL_DISK_PERCENT 75         /* of what they take, for images on a full disk */

void cleaner_pulled(struct docker *d)
{
    pthread_mutex_lock(&d->lock);
    d->clean_next_ns = 0;
    d->clean_wanted = true;
    pthread_mutex_unlock(&d->lock);
}

void cleaner_disk_full(struct docker *d)
{
    pthread_mutex_lock(&d->lock);
    d->clean_next_ns = 0;
    d->clean_wanted = d->clean_more = true;
    pthread_mutex_unlock(&d->lock);
}

/* ---- which may go ---------------------------------------------------------------------------- */

static bool is_exempt(const struct docker *d, const struct api_stored *image)
{
    const struct fn_strlist *exempt = &d->conf->images_exempt;

    for (uint64_t i = 0; i < exempt->n; i++) {
        if (api_stored_has_name(image, exempt->items[i])) {
            return true;
        }
    }
    return false;
}

static int by_use(const void *a, const void *b)
{
    const struct api_stored *x = a, *y = b;

    if (x->used_ns != y->used_ns) {
        return x->used_ns < y->used_ns ? -1 : 1;
    }
    return x->created_s < y->created_s ? -1 : x->created_s > y->created_s;
}

/* Those that may go come to the front, longest unused first. Returns how many they are. */
static size_t choose(struct docker *d, struct api_usage *usage)
{
    int64_t since_ns = engine_now_ns(d) - IN_USE_NS;
    size_t n = 0;

    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < usage->n; i++) {
        struct api_stored *image = &usage->images[i];

        image->used_ns = presence_last_use_ns(d, image->id);
        if (image->containers == 0 && (image->used_ns == 0 || image->used_ns < since_ns) &&
            !is_exempt(d, image)) {
            usage->images[n++] = *image;
        }
    }
    pthread_mutex_unlock(&d->lock);
    qsort(usage->images, n, sizeof(*usage->images), by_use);
    return n;
}

/* ---- removing -------------------------------------------------------------------------------- */

static int ask_usage(struct docker *d, struct fn_op *op, struct api_usage *ret,
                     struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct engine_call c = { .method = "GET", .path = "/system/df?type=image",
                             .timeout_ms = CHANGE_TIMEOUT_MS, .answer_max = IMAGE_ANSWER_MAX };
    int r = engine_call(d, op, &c, &a, reterr);

    if (r == 0) {
        r = a.status == 200 ? api_parse_usage(a.body, a.body_len, ret, reterr)
                            : api_failure("disk usage", a.status, a.body, a.body_len, reterr);
    }
    d->http->free_answer(&a);
    return r;
}

/* One name of an image, or the image by its id. 1: it is gone; 0: the engine keeps it. */
static int remove_name(struct docker *d, struct fn_op *op, const char *name,
                       struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    char escaped[3 * IMAGE_NAME_MAX + 1], path[sizeof(escaped) + 16];
    struct engine_call c = { .method = "DELETE", .path = path, .timeout_ms = CHANGE_TIMEOUT_MS,
                             .answer_max = IMAGE_ANSWER_MAX };
    int r;

    if (engine_escape(name, escaped, sizeof(escaped)) < 0) {
        return 0;
    }
    snprintf(path, sizeof(path), "/images/%s", escaped);
    r = engine_call(d, op, &c, &a, reterr);
    if (r == 0 && a.status == 200) {
        r = 1;
    } else if (r == 0 && a.status != 404 && a.status != 409) {
        r = api_failure("remove image", a.status, a.body, a.body_len, reterr);
    }
    d->http->free_answer(&a);
    return r;
}

/* An image leaves with the last of its names. > 0: some of them are gone. */
static int remove_image(struct docker *d, struct fn_op *op, const struct api_stored *image,
                        struct fn_error *reterr)
{
    size_t n = api_stored_names(image);
    int gone = 0;
    int r = n == 0 ? remove_name(d, op, image->id, reterr) : 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        r = remove_name(d, op, api_stored_name(image, i), reterr);
        gone += r > 0;
    }
    return r < 0 ? r : r + gone;
}

/* As many as seem to be needed; > 0: some are gone. */
static int remove_some(struct docker *d, struct fn_op *op, const struct api_usage *usage, size_t n,
                       int64_t limit, struct fn_error *reterr)
{
    int64_t over = usage->layers_bytes - limit;
    int gone = 0;
    int r = 0;

    for (size_t i = 0; i < n && over > 0 && r >= 0 && !d->op->cancelled(op); i++) {
        const struct api_stored *image = &usage->images[i];

        r = remove_image(d, op, image, reterr);
        if (r > 0) {
            engine_log(d, FN_LOG_INFO, "removed image %s: images exceed %s by %lld bytes",
                       api_stored_names(image) ? api_stored_name(image, 0) : image->id,
                       limit < d->conf->images_max ? "what a full disk leaves them" : "images_max",
                       (long long)over);
            over -= image->own_bytes;
            gone++;
        }
    }
    return r < 0 ? r : gone;
}

enum cleaned { CLEAN_ENOUGH, CLEAN_MORE };

/* *limit, below 0: to be set to what a full disk leaves them. FN_E_EXHAUSTED: there are too many,
 * and none of them may go. */
static int clean_round(struct docker *d, struct fn_op *op, int64_t *limit, struct fn_error *reterr)
{
    struct api_usage usage;
    int r = ask_usage(d, op, &usage, reterr);

    if (r < 0) {
        return r;
    }
    if (*limit < 0) {
        *limit = usage.layers_bytes / 100 * FULL_DISK_PERCENT;
        *limit = *limit < d->conf->images_max ? *limit : d->conf->images_max;
    }
    if (usage.layers_bytes > *limit) {
        r = remove_some(d, op, &usage, choose(d, &usage), *limit, reterr);
        if (r == 0) {
            r = fail_platform(reterr, FN_E_EXHAUSTED, "images take %lld bytes, more than %s, and "
                              "none may go", (long long)usage.layers_bytes,
                              *limit < d->conf->images_max ? "a full disk leaves them"
                                                           : "images_max");
        }
    }
    api_usage_finish(&usage);
    return r < 0 ? r : r == 0 ? CLEAN_ENOUGH : CLEAN_MORE;
}

/* *ret_more: also of what images_max allows. */
static bool clean_is_due(struct docker *d, bool *ret_more)
{
    bool due;

    pthread_mutex_lock(&d->lock);
    due = d->conf->images_max > 0 && d->clean_wanted && engine_now_ns(d) >= d->clean_next_ns;
    d->clean_wanted = d->clean_wanted && !due;
    *ret_more = due && d->clean_more;
    d->clean_more = d->clean_more && !due;
    pthread_mutex_unlock(&d->lock);
    return due;
}

void cleaner_run(struct docker *d, struct fn_op *op)
{
    struct fn_error err = { .size = sizeof(err) };
    int64_t limit = d->conf->images_max;
    int r = CLEAN_MORE;
    bool more;

    if (!clean_is_due(d, &more)) {
        return;
    }
    limit = more ? -1 : limit;
    for (int i = 0; i < ROUNDS_MAX && r == CLEAN_MORE && !d->op->cancelled(op); i++) {
        r = clean_round(d, op, &limit, &err);
    }
    if (r < 0) {
        engine_log(d, FN_LOG_WARN, "image cleaner: %s", err.msg);
    }
    if (r != CLEAN_ENOUGH) {
        pthread_mutex_lock(&d->lock);
        d->clean_wanted = true;
        d->clean_next_ns = r < 0 && r != FN_E_EXHAUSTED ? 0 : engine_now_ns(d) + AGAIN_NS;
        pthread_mutex_unlock(&d->lock);
    }
}
