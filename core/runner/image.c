/* Images: one preparation at a time per image and credentials, shared by all containers that wait
 * for it. Memory is reserved only afterwards: a pull may take minutes.
 *
 *   IDLE -> WAITING -> LOOKING -> IDLE         it was there
 *   LOOKING -> PULLING -> IDLE                 it takes longer than LOOK_NS: it is being pulled
 *   LOOKING -> WAITING -> PULLING              no place for a pull: cancelled, and again in turn
 *   each of them -> IDLE                       failed, or given up
 *
 * Each start asks the driver, which knows better than any time since the last answer whether the
 * image is still there, and answers at once when it does.
 *
 * Looks have places of their own, and those at images that were there the last time have theirs, so
 * that an image that is there never waits behind a pull, whatever the registry of another one does;
 * pulls have a share for each app and each registry. A driver is not asked which of the two a
 * preparation is: the time tells. An image that several apps want counts with the one of them that
 * has least: what another one has used up of its share is no limit of theirs.
 *
 * A pull that nobody waits for any more goes on for PULL_LINGER_NS, since callers come again for an
 * image that takes longer than they wait, but it is given up at once when another wants its place.
 *
 * A preparation holds the container whose task it uses: that container cannot be freed before
 * done(), even when nobody waits any more. */
#include <runner/runner_int.h>

#include <stdlib.h>
#include <string.h>

#define IMAGES_MAX     4096 /* names remembered; beyond it, those that nobody waits for are not */
#define IMAGE_KEPT_NS  (3600 * ENV_S) /* a name, with its credentials, after its last container */
#define NAMES_SWEEP_NS (600 * ENV_S)
#define LOOK_NS        (2 * ENV_S)
#define PULL_LINGER_NS (60 * ENV_S)
#define OVERDUE_NS     (2 * ENV_S) /* after pull_timeout */
#define TEXT_OVERDUE   "the driver does not return from prepare_image"

static void wait_for_place(struct image *im);

static void run_prepare(struct env_work *w, struct fn_op *op)
{
    struct image *im = container_of(w, struct image, work);

    PLUGIN_ASK(im->result, im->r->deps.driver, PLUGIN_WORKER, "prepare_image", 0, &im->err,
               im->r->ops->prepare_image(im->r->inst, op, im->task, &im->err));
}

/* A container that is told may begin the next preparation, which clears the image's own error. */
static void image_deliver(struct image *im, int result, const struct fn_error *why)
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

/* The lane gave it back. */
static void ended(struct image *im)
{
    struct runner *r = im->r;

    r->images.preparing--;
    env_timer_clear(r->env, &im->timer);
    if (im->look.inside) {
        gate_leave(im->look_gate, &im->look);
    } else {
        gate_leave(&r->images.pulls, &im->pull);
    }
    im->state = IMAGE_IDLE;
    im->told = false;
    drop_held(im);
}

static void let_others_in(struct runner *r)
{
    gate_let_in(&r->images.known);
    gate_let_in(&r->images.looks);
    gate_let_in(&r->images.pulls);
    runner_drain_check(r);
}

/* A shorter limit is the engine's. What is worth another runner was no pull: a file of the
 * operator's that was being loaded, or a look. */
static bool is_slow_pull(const struct image *im)
{
    return im->result == FN_E_DEADLINE && !(im->err.flags & FN_ERR_RETRY) &&
           im->work.deadline_ns && env_now_ns(im->r->env) >= im->work.deadline_ns;
}

static void conclude(struct image *im)
{
    struct runner *r = im->r;

    im->err.code = im->err.code ? im->err.code : im->result;
    im->was_there = im->result >= 0;
    engine_judge(r, im->result, &im->err);
    if (is_slow_pull(im)) {
        err_set_http(&im->err, FN_E_DEADLINE, 504, FN_BLAME_USER, "Image pull timed out");
    }
    image_deliver(im, im->result, &im->err);
}

static void done_prepare(struct env_work *w)
{
    struct image *im = container_of(w, struct image, work);
    struct runner *r = im->r;
    bool again = im->given_up && im->result < 0;

    if (r->abandoned) {
        return;
    }
    im->must_pull = again && im->look.inside && !TAILQ_EMPTY(&im->waiters);
    ended(im);
    if (!again) {
        conclude(im);
    } else if (!TAILQ_EMPTY(&im->waiters)) { /* it is wanted, or wanted again */
        wait_for_place(im);
    }
    let_others_in(r);
}

static void image_give_up(struct image *im)
{
    im->given_up = true;
    env_cancel(im->r->env, &im->work);
}

static bool is_preparing(const struct image *im)
{
    return im->state == IMAGE_LOOKING || im->state == IMAGE_PULLING;
}

void images_cancel_unwanted(struct runner *r)
{
    struct image *im, *next;

    HASH_ITER(hh, r->images.by_key, im, next) {
        if (TAILQ_EMPTY(&im->waiters) &&
            (im->state == IMAGE_PULLING || (is_preparing(im) && r->draining))) {
            image_give_up(im);
        }
    }
}

/* The host that an image comes from; NULL when out of memory. */
static const char *registry_of(struct container *c)
{
    const char *image = c->task.image;
    size_t len = strcspn(image, "/");
    bool is_host = image[len] && (memchr(image, '.', len) || memchr(image, ':', len) ||
                                  (len == 9 && memcmp(image, "localhost", 9) == 0));

    return is_host ? arena_printf(&c->arena, "%.*s", (int)len, image) : "docker.io";
}

static void linger(struct image *im)
{
    if (im->r->draining) {
        image_give_up(im);
    } else {
        env_timer_set(im->r->env, &im->timer, env_now_ns(im->r->env) + PULL_LINGER_NS);
    }
}

static void be_pulling(struct image *im)
{
    im->state = IMAGE_PULLING;
    if (TAILQ_EMPTY(&im->waiters)) {
        linger(im);
    }
}

/* One of the app that has least at the gate, of those who want it: the first from now on, whose
 * task a preparation uses. NULL: nobody does. */
static struct container *choose_first(struct image *im, const struct gate *g)
{
    struct container *c, *first = NULL;
    uint64_t least = UINT64_MAX;

    TAILQ_FOREACH(c, &im->waiters, image_link) {
        uint64_t load = gate_load(g, c->q->app_id);

        if (load < least) {
            least = load;
            first = c;
        }
    }
    if (first) {
        TAILQ_REMOVE(&im->waiters, first, image_link);
        TAILQ_INSERT_HEAD(&im->waiters, first, image_link);
    }
    return first;
}

/* It is no look any more. */
static void look_over(struct image *im)
{
    struct images *all = &im->r->images;
    struct container *c = choose_first(im, &all->pulls);

    c = c ? c : im->held;
    if (gate_try(&all->pulls, &im->pull, c->q->app_id, registry_of(c))) {
        gate_leave(im->look_gate, &im->look);
        be_pulling(im);
        gate_let_in(im->look_gate);
        return;
    }
    image_give_up(im);
    images_cancel_unwanted(im->r);
}

static void image_tick(struct env_timer *t)
{
    struct image *im = container_of(t, struct image, timer);

    if (im->state == IMAGE_LOOKING) {
        look_over(im);
    } else if (TAILQ_EMPTY(&im->waiters)) {
        image_give_up(im);
    }
}

static void image_begin(struct image *im)
{
    struct runner *r = im->r;
    struct container *c = TAILQ_FIRST(&im->waiters);
    int64_t limit_ns = r->opt.pull_timeout_ns;

    im->held = c;
    c->image_held = true;
    im->task = &c->task;
    im->err = ERR_INIT;
    im->given_up = false;
    im->work.run = run_prepare;
    im->work.done = done_prepare;
    im->work.lane = ENV_LANE_SLOW;
    im->work.owner = plugin_name(r->deps.driver);
    im->begun_ns = env_now_ns(r->env);
    im->work.deadline_ns = limit_ns < 0 ? 0 : im->begun_ns + limit_ns;
    r->images.preparing++;
    engine_watch(r, im->begun_ns);
    if (env_submit(r->env, &im->work) < 0) {
        im->result = err_set(&im->err, FN_E_UNAVAILABLE, "engine lane is full");
        done_prepare(&im->work);
    }
}

static void go_look(struct gate_pass *p)
{
    struct image *im = container_of(p, struct image, look);

    im->state = IMAGE_LOOKING;
    env_timer_set(im->r->env, &im->timer, env_now_ns(im->r->env) + LOOK_NS);
    image_begin(im);
}

static void go_pull(struct gate_pass *p)
{
    struct image *im = container_of(p, struct image, pull);

    be_pulling(im);
    image_begin(im);
}

/* Somebody waits for it. */
static void wait_for_place(struct image *im)
{
    struct images *all = &im->r->images;
    struct container *c;

    im->state = IMAGE_WAITING;
    if (!im->must_pull) {
        im->look_gate = im->was_there ? &all->known : &all->looks;
        c = choose_first(im, im->look_gate);
        gate_enter(im->look_gate, &im->look, c->q->app_id, NULL);
        return;
    }
    c = choose_first(im, &all->pulls);
    gate_enter(&all->pulls, &im->pull, c->q->app_id, registry_of(c));
    if (im->pull.waits) {
        images_cancel_unwanted(im->r);
    }
}

static void withdraw(struct image *im)
{
    gate_withdraw(im->look_gate, &im->look);
    gate_withdraw(&im->r->images.pulls, &im->pull);
}

static void leave_queue(struct image *im)
{
    withdraw(im);
    im->state = IMAGE_IDLE;
    im->must_pull = false;
}

static void image_free(struct image *im)
{
    env_timer_clear(im->r->env, &im->timer);
    HASH_DELETE(hh, im->r->images.by_key, im);
    free(im->key);
    free(im);
}

/* Those that no container has: old ones, or all. */
static void drop_unused(struct runner *r, bool all)
{
    int64_t old_ns = env_now_ns(r->env) - IMAGE_KEPT_NS;
    struct image *im, *next;

    HASH_ITER(hh, r->images.by_key, im, next) {
        if (im->users == 0 && im->state == IMAGE_IDLE && (all || im->used_ns <= old_ns)) {
            image_free(im);
        }
    }
}

static void names_keep_time(struct runner *r)
{
    if (r->images.by_key && !env_timer_is_set(&r->images.timer)) {
        env_timer_set(r->env, &r->images.timer, env_now_ns(r->env) + NAMES_SWEEP_NS);
    }
}

static void names_tick(struct env_timer *t)
{
    struct runner *r = container_of(t, struct runner, images.timer);

    drop_unused(r, false);
    names_keep_time(r);
}

static char *image_key(struct container *c)
{
    return arena_printf(&c->arena, "%s\n%s", c->task.image,
                        c->task.registry_token ? c->task.registry_token : "");
}

static struct image *image_get(struct container *c)
{
    struct runner *r = c->r;
    char *key = image_key(c);
    struct image *im = NULL;

    if (!key) {
        return NULL;
    }
    HASH_FIND_STR(r->images.by_key, key, im);
    if (im) {
        return im;
    }
    if (HASH_COUNT(r->images.by_key) >= IMAGES_MAX) {
        drop_unused(r, true);
    }
    im = calloc(1, sizeof(*im));
    if (!im || !(im->key = strdup(key))) {
        free(im);
        return NULL;
    }
    im->r = r;
    im->look_gate = &r->images.looks;
    im->look.go = go_look;
    im->pull.go = go_pull;
    im->timer.cb = image_tick;
    TAILQ_INIT(&im->waiters);
    HASH_ADD_KEYPTR(hh, r->images.by_key, im->key, strlen(im->key), im);
    if (!table_has(im)) {
        free(im->key);
        free(im);
        return NULL;
    }
    names_keep_time(r);
    return im;
}

static void image_use(struct image *im, struct container *c)
{
    if (!c->used_image) { /* else it wants it once more */
        c->used_image = im;
        im->users++;
    }
}

void image_unuse(struct container *c)
{
    struct image *im = c->used_image;

    c->used_image = NULL;
    if (im && --im->users == 0) {
        im->used_ns = env_now_ns(c->r->env);
    }
}

/* It waits, and under this one's app it would be let in before it is under the name it has. */
static bool comes_sooner(const struct image *im, const struct container *c)
{
    const struct gate *g = im->must_pull ? &im->r->images.pulls : im->look_gate;
    const struct gate_pass *p = im->must_pull ? &im->pull : &im->look;

    return p->waits && gate_is_sooner(g, c->q->app_id, p);
}

static void want(struct image *im, struct container *c)
{
    image_use(im, c);
    c->image = im;
    TAILQ_INSERT_TAIL(&im->waiters, c, image_link);
    if (im->state == IMAGE_IDLE) {
        wait_for_place(im);
    } else if (im->state == IMAGE_WAITING && comes_sooner(im, c)) {
        withdraw(im);
        wait_for_place(im);
    } else if (im->state == IMAGE_PULLING) {
        env_timer_clear(c->r->env, &im->timer);
    }
}

void image_want(struct container *c)
{
    struct image *im = image_get(c);
    struct fn_error err = ERR_INIT;

    if (!im) {
        container_image_done(c, err_set(&err, FN_E_EXHAUSTED, "image: out of memory"), &err);
    } else if (im->told) {
        container_image_done(c, err_set(&err, FN_E_UNAVAILABLE, TEXT_OVERDUE), &err);
    } else {
        want(im, c);
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
    if (!TAILQ_EMPTY(&im->waiters)) {
        return;
    }
    if (im->state == IMAGE_WAITING) {
        leave_queue(im);
    } else if (im->state == IMAGE_PULLING) {
        linger(im);
    } else if (im->state == IMAGE_LOOKING && c->r->draining) {
        image_give_up(im);
    }
}

int64_t images_oldest_ns(const struct runner *r)
{
    const struct image *im = r->images.preparing ? r->images.by_key : NULL;
    int64_t oldest_ns = INT64_MAX;

    for (; im; im = im->hh.next) {
        if (is_preparing(im) && im->begun_ns < oldest_ns) {
            oldest_ns = im->begun_ns;
        }
    }
    return oldest_ns;
}

void images_tell_overdue(struct runner *r, int64_t now)
{
    struct image *im, *next;
    struct fn_error err = ERR_INIT;

    if (r->images.preparing == 0) {
        return;
    }
    err_set(&err, FN_E_UNAVAILABLE, TEXT_OVERDUE);
    HASH_ITER(hh, r->images.by_key, im, next) {
        if (is_preparing(im) && !im->told && im->work.deadline_ns &&
            now >= im->work.deadline_ns + OVERDUE_NS) {
            im->told = true;
            engine_tell_overdue(r, "prepare_image", im->held, now - im->begun_ns);
            image_deliver(im, FN_E_UNAVAILABLE, &err);
        }
    }
}

void images_fail(struct runner *r, const struct fn_error *why)
{
    struct image *im, *next;

    HASH_ITER(hh, r->images.by_key, im, next) {
        if (im->state == IMAGE_WAITING) {
            leave_queue(im);
        } else if (is_preparing(im)) {
            image_give_up(im);
        }
        image_deliver(im, FN_E_UNAVAILABLE, why); /* im->err is the lane's while it prepares */
    }
}

void images_init(struct runner *r)
{
    gate_init(&r->images.known, LOOKS_MAX);
    gate_init(&r->images.looks, LOOKS_MAX);
    gate_init(&r->images.pulls, r->opt.pulls_max);
    r->images.timer.cb = names_tick;
}

void images_set_options(struct runner *r)
{
    r->images.pulls.max = r->opt.pulls_max;
    gate_let_in(&r->images.pulls);
}

void images_forget_timers(struct runner *r)
{
    struct image *im, *next;

    env_timer_clear(r->env, &r->images.timer);
    HASH_ITER(hh, r->images.by_key, im, next) {
        env_timer_clear(r->env, &im->timer);
    }
}

void images_finish(struct runner *r)
{
    struct image *im, *next;

    HASH_ITER(hh, r->images.by_key, im, next) {
        image_free(im);
    }
}
