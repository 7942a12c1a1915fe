/* Images: one preparation at a time per image and credentials, shared by all containers that wait
 * for it. Memory is reserved only afterwards: a pull may take minutes.
 *
 * A preparation holds the container whose task it uses: that container cannot be freed before
 * done(), even when nobody waits any more. */
#include <runner/internal.h>

#include <stdlib.h>
#include <string.h>

#define IMAGES_MAX 4096 /* names remembered; beyond it, those that nobody waits for are dropped */

static void begin_next(struct runner *r);
static void begin(struct image *im);

static void run_prepare(struct env_work *w, struct fn_op *op)
{
    struct image *im = container_of(w, struct image, work);
    struct plugin_crumb crumb;

    plugin_enter(&crumb, im->r->deps.driver, PLUGIN_WORKER, "prepare_image");
    im->result = im->r->ops->prepare_image(im->r->inst, op, im->task, &im->err);
    plugin_leave(&crumb);
    im->result =
        plugin_answer_result(im->r->deps.driver, "prepare_image", im->result, 0, &im->err);
}

/* A container that is told may begin the next preparation, which clears the image's own error. */
static void deliver(struct image *im, int result, const struct fn_error *why)
{
    struct fn_error err = *why;
    struct container *c;

    while ((c = TAILQ_FIRST(&im->waiters))) {
        TAILQ_REMOVE(&im->waiters, c, image_link);
        c->image = NULL;
        container_image_done(c, result, &err);
    }
}

/* The container whose task was used may have been given up meanwhile. */
static void drop_held(struct image *im)
{
    struct container *c = im->held;

    im->held = NULL;
    if (c && c->image_held) {
        container_unhold(c);
    }
}

static void done_prepare(struct env_work *w)
{
    struct image *im = container_of(w, struct image, work);
    struct runner *r = im->r;

    if (r->abandoned) {
        return;
    }
    r->pulls--;
    drop_held(im);
    if (im->result == FN_E_CANCELLED && !TAILQ_EMPTY(&im->waiters)) {
        begin(im); /* given up by those who waited then */
        return;
    }
    im->err.code = im->err.code ? im->err.code : im->result;
    im->state = im->result < 0 ? IMAGE_UNKNOWN : IMAGE_READY;
    im->ready_ns = env_now_ns(r->env);
    engine_judge(r, im->result, &im->err);
    if (im->result == FN_E_DEADLINE) {
        err_set_http(&im->err, FN_E_DEADLINE, 504, FN_BLAME_USER, "Image pull timed out");
    }
    deliver(im, im->result, &im->err);
    begin_next(r);
    runner_drain_check(r);
}

static void begin(struct image *im)
{
    struct runner *r = im->r;
    struct container *c = TAILQ_FIRST(&im->waiters);

    im->state = IMAGE_PREPARING;
    im->held = c;
    c->image_held = true;
    im->task = &c->task;
    im->err = ERR_INIT;
    im->work.run = run_prepare;
    im->work.done = done_prepare;
    im->work.lane = ENV_LANE_SLOW;
    im->work.owner = plugin_name(im->r->deps.driver);
    im->begun_ns = env_now_ns(r->env);
    im->work.deadline_ns = im->begun_ns + r->opt.pull_timeout_ns;
    r->pulls++;
    engine_watch(r, im->begun_ns);
    if (env_submit(r->env, &im->work) < 0) {
        im->result = err_set(&im->err, FN_E_UNAVAILABLE, "engine lane is full");
        done_prepare(&im->work);
    }
}

static void begin_next(struct runner *r)
{
    struct image *im;

    while (r->pulls < r->opt.pulls_max && (im = TAILQ_FIRST(&r->images_waiting))) {
        TAILQ_REMOVE(&r->images_waiting, im, link);
        im->state = IMAGE_UNKNOWN;
        if (!TAILQ_EMPTY(&im->waiters)) {
            begin(im);
        }
    }
}

static void image_free(struct image *im)
{
    HASH_DELETE(hh, im->r->images, im);
    free(im->key);
    free(im);
}

static void drop_unused(struct runner *r)
{
    struct image *im, *next;

    HASH_ITER(hh, r->images, im, next) {
        if (TAILQ_EMPTY(&im->waiters) &&
            (im->state == IMAGE_UNKNOWN || im->state == IMAGE_READY)) {
            image_free(im);
        }
    }
}

static char *image_key(struct container *c)
{
    return arena_printf(&c->arena, "%s\n%s", c->task.image,
                        c->task.registry_token ? c->task.registry_token : "");
}

static struct image *image_get(struct container *c, bool make)
{
    struct runner *r = c->r;
    char *key = image_key(c);
    struct image *im = NULL;

    if (!key) {
        return NULL;
    }
    HASH_FIND_STR(r->images, key, im);
    if (im || !make) {
        return im;
    }
    if (HASH_COUNT(r->images) >= IMAGES_MAX) {
        drop_unused(r);
    }
    im = calloc(1, sizeof(*im));
    if (!im || !(im->key = strdup(key))) {
        free(im);
        return NULL;
    }
    im->r = r;
    TAILQ_INIT(&im->waiters);
    HASH_ADD_KEYPTR(hh, r->images, im->key, strlen(im->key), im);
    return im;
}

void image_want(struct container *c)
{
    struct runner *r = c->r;
    struct image *im = image_get(c, true);
    struct fn_error err = ERR_INIT;

    if (!im) {
        container_image_done(c, err_set(&err, FN_E_EXHAUSTED, "image: out of memory"), &err);
        return;
    }
    if (im->state == IMAGE_READY &&
        env_now_ns(r->env) - im->ready_ns < r->opt.image_fresh_ns) {
        container_image_done(c, 0, &err);
        return;
    }
    c->image = im;
    TAILQ_INSERT_TAIL(&im->waiters, c, image_link);
    if (im->state == IMAGE_UNKNOWN || im->state == IMAGE_READY) {
        if (r->pulls < r->opt.pulls_max) {
            begin(im);
        } else {
            im->state = IMAGE_WAITING;
            TAILQ_INSERT_TAIL(&r->images_waiting, im, link);
        }
    }
}

void image_unwant(struct container *c)
{
    struct image *im = c->image;

    if (!im) {
        return;
    }
    TAILQ_REMOVE(&im->waiters, c, image_link);
    c->image = NULL;
    if (im->state == IMAGE_PREPARING && TAILQ_EMPTY(&im->waiters)) {
        env_cancel(c->r->env, &im->work);
    }
}

void image_stale(struct container *c)
{
    struct image *im = image_get(c, false);

    if (im && im->state == IMAGE_READY) {
        im->state = IMAGE_UNKNOWN;
    }
}

int64_t images_oldest_ns(const struct runner *r)
{
    int64_t oldest_ns = INT64_MAX;

    for (const struct image *im = r->pulls ? r->images : NULL; im; im = im->hh.next) {
        if (im->state == IMAGE_PREPARING && im->begun_ns < oldest_ns) {
            oldest_ns = im->begun_ns;
        }
    }
    return oldest_ns;
}

void images_fail(struct runner *r, const struct fn_error *why)
{
    struct image *im, *next;

    HASH_ITER(hh, r->images, im, next) {
        if (im->state == IMAGE_WAITING) {
            TAILQ_REMOVE(&r->images_waiting, im, link);
            im->state = IMAGE_UNKNOWN;
        }
        if (im->state == IMAGE_PREPARING) {
            env_cancel(r->env, &im->work);
        }
        deliver(im, FN_E_UNAVAILABLE, why); /* im->err is the lane's while it prepares */
    }
}

void images_finish(struct runner *r)
{
    struct image *im, *next;

    HASH_ITER(hh, r->images, im, next) {
        image_free(im);
    }
}
