/* One container: create, start, freeze, thaw, close; and the sweep of what a dead node left.
 *
 * A container is in the map from before it is started until it is removed, so that no event of it
 * is missed. */
#include "docker.h"
#include "engine_json.h"
#include "fail.h"
#include "task.h"

#include <stdlib.h>

/* ---- output ---------------------------------------------------------------------------------- */

static void output_piece(void *ud, uint32_t fd, const void *data, size_t len)
{
    struct ctr *c = ud;

    c->d->driver->output(c->d->host, c->handle, fd, data, len);
}

static void output_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct ctr *c = ud;

    if (status == 200) {
        api_frames_feed(&c->frames, data, len, output_piece, c);
    }
}

/* An engine that goes ends the streams of all containers, also of those that live on; the list that
 * follows its return opens them again, but for those that it refused (409 is a paused one). Last:
 * from the mark on c may have another stream, or be dropped. */
static void output_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct ctr *c = ud;
    struct docker *d = c->d;

    if (status != 200) {
        engine_log(d, FN_LOG_WARN, "container %s: its output cannot be read: %s", c->name,
                   err ? err->msg : "the engine refuses");
    }
    pthread_mutex_lock(&d->lock);
    c->output_asked = status >= 400 && status < 500 && status != 409;
    pthread_mutex_unlock(&d->lock);
}

/* Under output_lock: c stays, and nobody else opens its stream. */
static bool output_ask(struct ctr *c)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), output_data,
                                                 output_end };
    struct fn_error err = { .size = sizeof(err) };
    char path[160];
    uint64_t id = 0;
    int r;

    c->frames = (struct api_frames){ .head_len = 0 };
    snprintf(path, sizeof(path), "/containers/%s/attach?stream=1&stdout=1&stderr=1", c->id);
    r = engine_stream(c->d, "POST", path, INSPECT_TIMEOUT_MS, &cb, c, &id, &err);
    if (r < 0) {
        engine_log(c->d, FN_LOG_WARN, "container %s: its output cannot be read: %s", c->name,
                   err.msg);
    }
    pthread_mutex_lock(&c->d->lock);
    c->output_stream = id;
    c->output_asked = c->output_asked && r == 0; /* it may have ended already */
    pthread_mutex_unlock(&c->d->lock);
    return r == 0;
}

/* Attaching before the start is what makes the first lines visible; its round trip overlaps with
 * the start. */
static void output_begin(struct ctr *c)
{
    struct docker *d = c->d;

    if (d->conf->output) {
        pthread_mutex_lock(&d->output_lock);
        output_ask(c);
        pthread_mutex_unlock(&d->output_lock);
    }
}

bool ctr_open_output(struct docker *d, const char *name)
{
    struct ctr *c;
    bool opens, opened = false;

    pthread_mutex_lock(&d->output_lock);
    pthread_mutex_lock(&d->lock);
    HASH_FIND_STR(d->ctrs, name, c);
    opens = c && !c->output_asked && !c->reported;
    if (opens) {
        c->output_asked = true;
    }
    pthread_mutex_unlock(&d->lock);
    if (opens) {
        opened = output_ask(c);
    }
    pthread_mutex_unlock(&d->output_lock);
    return opened;
}

/* ---- create ---------------------------------------------------------------------------------- */

/* Neither without a network nor with one that a wrapper names. */
static bool picks_network(const struct fn_task *task)
{
    return !(task->flags & FN_TASK_NO_NETWORK) && !(FN_HAS(task, network) && task->network);
}

static struct ctr *ctr_new(struct docker *d, const struct fn_task *task)
{
    struct ctr *c = calloc(1, sizeof(*c));

    if (c) {
        c->d = d;
        c->handle = task->handle;
        c->task = task;
        c->output_asked = true; /* by its create alone, or never */
        c->privileged_user = (task->flags & FN_TASK_PRIVILEGED_USER) != 0;
        c->network = picks_network(task) ? network_take(d) : -1;
        snprintf(c->name, sizeof(c->name), "%s", task->id);
        pthread_mutex_lock(&d->lock);
        HASH_ADD_STR(d->ctrs, name, c);
        if (!c->hh.tbl && c->network >= 0) {
            d->network_use[c->network]--;
        }
        pthread_mutex_unlock(&d->lock);
        if (!c->hh.tbl) {
            free(c);
            c = NULL;
        }
    }
    return c;
}

void ctr_drop(struct ctr *c)
{
    struct docker *d = c->d;

    pthread_mutex_lock(&d->output_lock);
    pthread_mutex_lock(&d->lock);
    HASH_DEL(d->ctrs, c);
    if (c->network >= 0) {
        d->network_use[c->network]--;
    }
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->output_lock);
    if (c->output_stream) {
        d->http->stream_close(d->host, c->output_stream);
    }
    free(c);
}

static int created(struct ctr *c, const struct fn_http_answer *a, struct fn_error *reterr)
{
    int r;

    if (a->status == 201) {
        return api_parse_created(a->body, a->body_len, c->id, reterr);
    }
    r = disk_judge(c->d, api_failure("create", a->status, a->body, a->body_len, reterr), reterr);
    if (r == FN_E_NOT_FOUND) {
        /* The image went away after it was prepared; the next attempt pulls it again. */
        presence_forget(c->d);
        fail(reterr, FN_E_NOT_FOUND, 503, FN_BLAME_PLATFORM, "create: the image is gone");
        return fail_retry(reterr, FN_E_NOT_FOUND);
    }
    if (r == FN_E_EXISTS) {
        /* Nobody else has this name. A request that went out on a connection which the engine was
         * closing is sent again on another one, and may have been read the first time. */
        fail_platform(reterr, FN_E_UNAVAILABLE, "create: the engine made %s, and did not say so",
                      c->name);
        return fail_retry(reterr, FN_E_UNAVAILABLE);
    }
    return r;
}

/* Whether there may be a container although it failed. */
static bool leaves_orphan(uint32_t status)
{
    return status == 0 || status == 201 || status == 409 || status >= 500;
}

static int send_create(struct ctr *c, struct fn_op *op, const char *body, struct fn_error *reterr)
{
    struct docker *d = c->d;
    struct fn_http_answer a = { .size = sizeof(a) };
    char path[128];
    struct engine_call call = { .method = "POST", .path = path, .body = body,
                                .body_len = strlen(body), .timeout_ms = CHANGE_TIMEOUT_MS };
    int r;

    snprintf(path, sizeof(path), "/containers/create?name=%s", c->name);
    r = engine_call(d, op, &call, &a, reterr);
    if (r == 0) {
        r = created(c, &a, reterr);
    }
    if (r < 0 && leaves_orphan(a.status)) {
        orphans_keep(d, c->name);
    }
    d->http->free_answer(&a);
    return r;
}

/* The host's name, which functions have always had, is for networks that nobody named. */
static void choose_network(struct ctr *c, struct fn_op *op, const struct fn_task *task,
                           struct api_settings *settings)
{
    if (c->network >= 0) {
        settings->network = c->d->conf->networks.items[c->network];
    } else if (picks_network(task)) {
        settings->network = network_own(c->d, op);
        settings->hostname = true;
        c->own_network = settings->network != NULL;
    }
}

static bool name_ok(const char *s)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    size_t n = s ? strlen(s) : 0;

    return n > 0 && n <= API_NAME_MAX && strspn(s, set) == n;
}

static bool is_same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* What the host asked for. Wrappers change much of their copy; what the node finds its containers
 * and their sockets by is not theirs. *ret NULL: a host that does not say. */
static int find_own(struct docker *d, const struct fn_task *t, const struct fn_task **ret,
                    struct fn_error *reterr)
{
    const struct fn_task *own;

    *ret = NULL;
    if (!FN_HAS(d->driver, task) || !d->driver->task) {
        return 0;
    }
    own = d->driver->task(d->host, t->handle);
    if (!own || !is_same(own->id, t->id) || !is_same(own->owner, t->owner) ||
        !is_same(own->instance, t->instance) || !is_same(own->iofs_dir, t->iofs_dir) ||
        !is_same(own->iofs_engine_dir, t->iofs_engine_dir) ||
        !is_same(own->iofs_inside, t->iofs_inside)) {
        return fail_platform(reterr, FN_E_PERMISSION,
                             "DOC1003 fn_task of %.40s; expected the host's own handle, id, owner, "
                             "instance and iofs directories", t->id);
    }
    *ret = own;
    return 0;
}

void ctr_know_owner(struct docker *d, const char *owner, const char *instance)
{
    pthread_mutex_lock(&d->lock);
    snprintf(d->owner, sizeof(d->owner), "%s", owner);
    snprintf(d->instance, sizeof(d->instance), "%s", instance);
    pthread_mutex_unlock(&d->lock);
}

/* Of a host that has not swept yet. */
static void know_owner_of(struct docker *d, const struct fn_task *task)
{
    bool known;

    pthread_mutex_lock(&d->lock);
    known = *d->owner != '\0';
    pthread_mutex_unlock(&d->lock);
    if (!known) {
        ctr_know_owner(d, task->owner, task->instance);
    }
}

/* What not every engine has. */
static int heed_info(struct docker *d, const struct fn_task *task, struct api_settings *settings,
                     struct fn_error *reterr)
{
    bool no_syslog;

    pthread_mutex_lock(&d->lock);
    settings->swappiness = d->info_known && d->info.cgroup_v1;
    settings->no_health = d->version_asked && !d->podman;
    no_syslog = d->info_known && d->info.no_syslog;
    pthread_mutex_unlock(&d->lock);
    if (no_syslog && task->syslog_url && *task->syslog_url) {
        return fail_user(reterr, FN_E_PRECONDITION, 400,
                         "syslog_url of the app: the container engine has no log driver syslog");
    }
    return 0;
}

int ctr_create(struct docker *d, struct fn_op *op, const struct fn_task *task, struct ctr **ret,
               struct fn_error *reterr)
{
    char lock[LOCK_LABEL_MAX];
    struct api_settings settings = { .label_tag = d->conf->label_tag,
                                     .lock = lock,
                                     .attach_output = d->conf->output != 0,
                                     .rules = &d->conf->allow,
                                     .engine_socket = d->unix_path };
    struct ctr *c;
    char *body = NULL;
    int r;

    if (!name_ok(task->id)) {
        return fail_platform(reterr, FN_E_INVALID,
                             "container id, got \"%.70s\"; expected [A-Za-z0-9-]",
                             task->id ? task->id : "");
    }
    r = find_own(d, task, &settings.own, reterr);
    if (r < 0) {
        return r;
    }
    know_owner_of(d, task);
    orphans_remove_one(d, op);
    lock_label(task->iofs_dir, lock, sizeof(lock));
    c = ctr_new(d, task);
    if (!c) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "create: out of memory");
    }
    r = heed_info(d, task, &settings, reterr);
    if (r == 0) {
        choose_network(c, op, task, &settings);
        r = api_create_body(task, &settings, &body, reterr);
    }
    if (r == 0) {
        r = send_create(c, op, body, reterr);
    }
    free(body);
    if (r < 0) {
        ctr_drop(c);
        return r;
    }
    output_begin(c);
    *ret = c;
    return 0;
}

/* ---- start, freeze, close -------------------------------------------------------------------- */

/* POST /containers/{id}/{what} that answers 204, or 304 when it was so already. */
static int post(struct ctr *c, struct fn_op *op, const char *what, uint32_t timeout_ms,
                struct fn_error *reterr)
{
    struct docker *d = c->d;
    struct fn_http_answer a = { .size = sizeof(a) };
    char path[160];
    struct engine_call call = { .method = "POST", .path = path, .timeout_ms = timeout_ms };
    int r;

    snprintf(path, sizeof(path), "/containers/%s/%s", c->id, what);
    r = engine_call(d, op, &call, &a, reterr);
    if (r == 0 && a.status != 204 && a.status != 200 && a.status != 304) {
        r = disk_judge(d, api_failure(what, a.status, a.body, a.body_len, reterr), reterr);
    }
    d->http->free_answer(&a);
    return r;
}

int ctr_start(struct ctr *c, struct fn_op *op, struct fn_error *reterr)
{
    int r;

    pthread_mutex_lock(&c->d->lock);
    c->begun = true;
    pthread_mutex_unlock(&c->d->lock);
    r = post(c, op, "start", CHANGE_TIMEOUT_MS, reterr);
    if (r == 0) {
        pthread_mutex_lock(&c->d->lock);
        c->started_ns = engine_now_ns(c->d);
        pthread_mutex_unlock(&c->d->lock);
    } else if (r == FN_E_NOT_FOUND && c->own_network) { /* somebody removed it, unused as it was */
        network_forget(c->d);
        return fail_retry(reterr, r);
    }
    return r;
}

static int set_frozen(struct ctr *c, struct fn_op *op, bool on, struct fn_error *reterr)
{
    struct docker *d = c->d;
    bool by_cgroup = strcmp(d->conf->freeze_by, "engine") != 0;
    int r;

    if (on == (c->frozen != FROZEN_NOT)) {
        return 0;
    }
    if (by_cgroup && c->frozen != FROZEN_BY_ENGINE && freezer_write(d, c->id, on)) {
        c->frozen = on ? FROZEN_BY_CGROUP : FROZEN_NOT;
        return 0;
    }
    r = post(c, op, on ? "pause" : "unpause", PAUSE_TIMEOUT_MS, reterr);
    if (r == 0) {
        c->frozen = on ? FROZEN_BY_ENGINE : FROZEN_NOT;
    }
    return r;
}

/* Its stream broke off while it was paused, when engines refuse another one. */
static bool lacks_output(struct ctr *c)
{
    bool yes;

    pthread_mutex_lock(&c->d->lock);
    yes = !c->output_asked && c->d->events.engine_up;
    pthread_mutex_unlock(&c->d->lock);
    return yes;
}

int ctr_freeze(struct ctr *c, struct fn_op *op, bool on, struct fn_error *reterr)
{
    int r = set_frozen(c, op, on, reterr);

    if (r == 0 && !on && lacks_output(c)) {
        ctr_open_output(c->d, c->name);
    }
    return r;
}

int ctr_close(struct ctr *c, struct fn_op *op, struct fn_error *reterr)
{
    struct docker *d = c->d;
    int r;

    /* The processes of a frozen v1 cgroup do not die before they are thawed. */
    if (c->frozen == FROZEN_BY_CGROUP) {
        freezer_write(d, c->id, false);
        c->frozen = FROZEN_NOT;
    }
    presence_use(d, c->task->image);
    r = engine_remove(d, op, c->id, NULL, reterr);
    if (r == 0) {
        ctr_drop(c);
        orphans_remove_one(d, op);
    }
    return r;
}

