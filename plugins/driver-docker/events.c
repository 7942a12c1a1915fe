/* The event stream: how containers ended, for all of them at once.
 *
 * One GET /events, filtered by our owner's label. When it breaks it is opened again at most every
 * EVENTS_RETRY_NS, with the last EVENTS_OVERLAP_S seconds replayed (ids are never used twice, so a
 * replay is harmless), and all containers are listed: what ended meanwhile is reported from the
 * list, and the output of those that run is read again. Exit 137 without an "oom" event is asked
 * for, because the engine may send the two in either order. Everything here runs on the host's
 * stream thread but for events_tick() and events_ask_removal(). */
#include "docker.h"
#include "fail.h"

#include <stdlib.h>

#define KILLED_EXIT 137

/* A request whose answer is read on the stream thread: collected, or as a list in pieces. */
struct question {
    struct docker *d;
    const struct fn_http_stream_cb *cb;
    LIST_ENTRY(question) link; /* under the lock */
    uint64_t stream;           /* under the lock; 0 until known */
    char name[API_NAME_MAX + 1]; /* "" = the list */
    int64_t asked_ns;
    int exit_code;
    char *data;
    size_t len, cap;
    bool broken;
    struct api_list *list; /* given */
    struct listed *map;    /* of what it named */
};

/* ---- reporting ------------------------------------------------------------------------------- */

/* At most once per container; `what` goes to the host outside the lock. */
static void report(struct docker *d, const char *name, const struct fn_exit *what)
{
    struct ctr *c;
    uint64_t handle = 0;
    bool found = false;

    pthread_mutex_lock(&d->lock);
    HASH_FIND_STR(d->ctrs, name, c);
    if (c && c->begun && !c->reported) {
        c->reported = true;
        handle = c->handle;
        found = true;
    }
    pthread_mutex_unlock(&d->lock);
    if (found) {
        d->driver->exited(d->host, handle, what);
    }
}

static void report_code(struct docker *d, const char *name, int exit_code, bool oom)
{
    struct fn_exit what = { .size = sizeof(what), .reason = oom ? FN_EXIT_OOM : FN_EXIT_CODE,
                            .status = exit_code };

    report(d, name, &what);
}

static void report_removed(struct docker *d, const char *name)
{
    struct fn_exit what = { .size = sizeof(what), .reason = FN_EXIT_REMOVED };

    report(d, name, &what);
}

/* ---- what a list named ----------------------------------------------------------------------- */

struct listed {
    UT_hash_handle hh;
    bool running, paused;
    char name[API_NAME_MAX + 1];
};

static void listed_free(struct listed *map)
{
    struct listed *l, *next;

    HASH_ITER(hh, map, l, next) {
        HASH_DEL(map, l);
        free(l);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

static void question_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct question *q = ud;
    size_t cap = q->cap ? q->cap : 4096;
    char *more;

    (void)status;
    if (q->broken || len > STATE_ANSWER_MAX - q->len) {
        q->broken = true;
        return;
    }
    while (cap < q->len + len) {
        cap *= 2;
    }
    if (cap != q->cap) {
        more = realloc(q->data, cap);
        if (!more) {
            q->broken = true;
            return;
        }
        q->data = more;
        q->cap = cap;
    }
    memcpy(q->data + q->len, data, len);
    q->len += len;
}

/* The last that its end does: events_close() waits for those that are in the list. */
static void question_free(struct question *q)
{
    pthread_mutex_lock(&q->d->lock);
    LIST_REMOVE(q, link);
    pthread_mutex_unlock(&q->d->lock);
    listed_free(q->map);
    free(q->list);
    free(q->data);
    free(q);
}

static struct question *question_new(struct docker *d)
{
    struct question *q = calloc(1, sizeof(*q));

    if (q) {
        q->d = d;
        q->asked_ns = engine_now_ns(d);
        pthread_mutex_lock(&d->lock);
        LIST_INSERT_HEAD(&d->questions, q, link);
        pthread_mutex_unlock(&d->lock);
    }
    return q;
}

/* Sends it. After 0 it belongs to its callbacks, which may have run already. */
static int question_send(struct question *q, const char *method, const char *path,
                         const struct fn_http_stream_cb *cb)
{
    struct docker *d = q->d;
    struct question *known;
    uint64_t id;
    int r;

    q->cb = cb;
    r = engine_stream(d, method, path, INSPECT_TIMEOUT_MS, cb, q, &id, NULL);
    if (r < 0) {
        question_free(q);
        return r;
    }
    pthread_mutex_lock(&d->lock);
    LIST_FOREACH (known, &d->questions, link) {
        if (known == q) {
            q->stream = id;
            break;
        }
    }
    pthread_mutex_unlock(&d->lock);
    return 0;
}

/* Nobody could say how it ended: the list is asked again, and then its inspection. */
static void ask_later(struct docker *d, const char *name)
{
    struct ctr *c;

    pthread_mutex_lock(&d->lock);
    HASH_FIND_STR(d->ctrs, name, c);
    if (c) {
        c->asking = false;
        d->events.list_wanted = true;
    }
    pthread_mutex_unlock(&d->lock);
}

/* Podman's containers are "stopped" before the program that reaps them has written down what they
 * ended with; 0 stands for it until then. One whose reaper died stays so. */
static bool is_unsure(struct docker *d, const char *name, const struct api_state *state)
{
    struct ctr *c;
    bool unsure = false;

    if (state->ending && state->exit_code == 0) {
        pthread_mutex_lock(&d->lock);
        HASH_FIND_STR(d->ctrs, name, c);
        unsure = c && ++c->doubts <= DOUBTS_MAX;
        pthread_mutex_unlock(&d->lock);
    }
    return unsure;
}

static void state_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct question *q = ud;
    struct api_state state = { .exit_code = q->exit_code };

    if (!err && status == 404) {
        report_removed(q->d, q->name);
    } else if (!err && status == 200 && !q->broken &&
               api_parse_state(q->data, q->len, &state, NULL) == 0) {
        if (state.running || is_unsure(q->d, q->name, &state)) {
            ask_later(q->d, q->name);
        } else {
            report_code(q->d, q->name, state.exit_code, state.oom);
        }
    } else if (q->exit_code >= 0) {
        report_code(q->d, q->name, q->exit_code, false);
    } else {
        ask_later(q->d, q->name);
    }
    question_free(q);
}

/* Asks how a container ended; exit_code is what to report when there is no answer, -1 = nothing. */
static void ask_state(struct docker *d, const char *name, int exit_code)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), question_data,
                                                 state_end };
    struct question *q = question_new(d);
    char path[160];
    int r = FN_E_EXHAUSTED;

    snprintf(path, sizeof(path), "/containers/%s/json", name);
    if (q) {
        q->exit_code = exit_code;
        snprintf(q->name, sizeof(q->name), "%s", name);
        r = question_send(q, "GET", path, &cb);
    }
    if (r < 0 && exit_code >= 0) {
        report_code(d, name, exit_code, false);
    } else if (r < 0) {
        ask_later(d, name);
    }
}

static void removal_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct question *q = ud;

    orphans_answered(q->d, q->name, err ? 0 : status);
    question_free(q);
}

int events_ask_removal(struct docker *d, const char *name)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), question_data,
                                                 removal_end };
    struct question *q = question_new(d);
    char path[160];

    if (!q) {
        return FN_E_EXHAUSTED;
    }
    snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", name);
    snprintf(q->name, sizeof(q->name), "%s", name);
    return question_send(q, "DELETE", path, &cb);
}

/* ---- the list after a reconnect -------------------------------------------------------------- */

static int keep_listed(void *ud, const struct api_listed *c)
{
    struct listed **map = ud;
    struct listed *l;

    HASH_FIND_STR(*map, c->name, l);
    if (!l && strlen(c->name) <= API_NAME_MAX) {
        l = calloc(1, sizeof(*l));
        if (!l) {
            return FN_E_EXHAUSTED;
        }
        memcpy(l->name, c->name, strlen(c->name) + 1);
        l->running = c->running;
        l->paused = c->paused;
        HASH_ADD_STR(*map, name, l);
        if (!l->hh.tbl) {
            free(l);
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

/* The next container that the list says has ended, else false. Reported ones drop out. */
static bool next_ended(struct docker *d, struct listed *map, int64_t asked_ns,
                       char name[API_NAME_MAX + 1], bool *ret_gone)
{
    struct ctr *c, *next;
    struct listed *l;
    bool found = false;

    pthread_mutex_lock(&d->lock);
    HASH_ITER(hh, d->ctrs, c, next) {
        if (!c->started_ns || c->started_ns >= asked_ns || c->reported || c->asking) {
            continue;
        }
        HASH_FIND_STR(map, c->name, l);
        if (!l || !l->running) {
            memcpy(name, c->name, sizeof(c->name));
            *ret_gone = !l;
            c->asking = true;
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&d->lock);
    return found;
}

static void reconcile(struct question *q, struct listed *map)
{
    char name[API_NAME_MAX + 1];
    bool gone;

    while (next_ended(q->d, map, q->asked_ns, name, &gone)) {
        if (gone) {
            report_removed(q->d, name);
        } else {
            ask_state(q->d, name, -1);
        }
    }
}

/* What goes on without its output being read, since its stream ended with the engine's others. Not
 * what is paused, which engines refuse: its thaw does it. */
static void open_outputs(struct docker *d, const struct listed *map)
{
    const struct listed *l;
    uint32_t n = 0;

    for (l = map; l; l = l->hh.next) {
        n += l->running && !l->paused && ctr_open_output(d, l->name);
    }
    if (n > 0) {
        engine_log(d, FN_LOG_WARN,
                   "the output of %u containers is read again; what they printed while the "
                   "container engine was away is lost",
                   n);
    }
}

static void list_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct question *q = ud;

    if (status == 200) {
        api_list_feed(q->list, data, len);
    }
}

/* Ever later while it cannot be had: a list may be long. Under the lock. */
static void list_again(struct events *e, int64_t now_ns)
{
    e->list_wanted = true;
    e->list_backoff_ns = e->list_backoff_ns ? e->list_backoff_ns * 2 : EVENTS_RETRY_NS;
    if (e->list_backoff_ns > LIST_RETRY_MAX_NS) {
        e->list_backoff_ns = LIST_RETRY_MAX_NS;
    }
    e->list_next_ns = now_ns + e->list_backoff_ns;
}

static void list_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct question *q = ud;
    struct docker *d = q->d;
    bool ok = !err && status == 200 && api_list_end(q->list, NULL) == 0;
    bool came_up;

    pthread_mutex_lock(&d->lock);
    if (ok) {
        d->events.list_wanted = false; /* or again, when a question that follows cannot be asked */
        d->events.list_backoff_ns = 0;
    } else {
        list_again(&d->events, engine_now_ns(d));
    }
    pthread_mutex_unlock(&d->lock);
    if (ok) {
        reconcile(q, q->map);
        open_outputs(d, q->map);
    }
    pthread_mutex_lock(&d->lock);
    d->events.list_running = false;
    came_up = ok && d->events.open && !d->events.engine_up;
    d->events.engine_up = d->events.engine_up || came_up;
    pthread_mutex_unlock(&d->lock);
    if (came_up) {
        d->driver->engine(d->host, 1, NULL);
    }
    question_free(q);
}

/* Of this process only: what others run, and what labels it carries, is not ours to read. */
static void list_path(struct docker *d, char *ret, size_t cap)
{
    pthread_mutex_lock(&d->lock);
    snprintf(ret, cap,
             "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" API_INSTANCE_LABEL
             "%%3D%s%%22%%5D%%7D",
             *d->instance ? d->instance : "none");
    pthread_mutex_unlock(&d->lock);
}

static int ask_list_now(struct docker *d)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), list_data,
                                                 list_end };
    struct question *q = question_new(d);
    char path[256];

    if (!q) {
        return FN_E_EXHAUSTED;
    }
    q->list = calloc(1, sizeof(*q->list));
    if (!q->list) {
        question_free(q);
        return FN_E_EXHAUSTED;
    }
    q->list->each = keep_listed;
    q->list->ud = &q->map;
    list_path(d, path, sizeof(path));
    return question_send(q, "GET", path, &cb);
}

static void ask_list(struct docker *d)
{
    if (ask_list_now(d) < 0) {
        pthread_mutex_lock(&d->lock);
        d->events.list_running = false;
        list_again(&d->events, engine_now_ns(d));
        pthread_mutex_unlock(&d->lock);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Killed, perhaps for its memory; or Podman, which says 0 when it does not know the status yet. */
static bool is_doubtful(int exit_code)
{
    return exit_code == KILLED_EXIT || exit_code == 0;
}

static void on_die(struct docker *d, const struct api_event *ev)
{
    struct ctr *c;
    bool mine = false, oom = false, asks = false;

    pthread_mutex_lock(&d->lock);
    HASH_FIND_STR(d->ctrs, ev->name, c);
    if (c && !c->reported && !c->asking) {
        mine = true;
        oom = c->oom;
        asks = c->asking = !oom && is_doubtful(ev->exit_code);
    }
    pthread_mutex_unlock(&d->lock);
    if (!mine) {
        return;
    }
    if (asks) {
        ask_state(d, ev->name, ev->exit_code);
    } else {
        report_code(d, ev->name, ev->exit_code, oom && ev->exit_code == KILLED_EXIT);
    }
}

static void on_oom(struct docker *d, const char *name)
{
    struct ctr *c;

    pthread_mutex_lock(&d->lock);
    HASH_FIND_STR(d->ctrs, name, c);
    if (c) {
        c->oom = true;
    }
    pthread_mutex_unlock(&d->lock);
}

static void on_event(void *ud, const struct api_event *ev)
{
    struct docker *d = ud;

    if (!ev) {
        engine_log(d, FN_LOG_WARN, "an event of the container engine is malformed");
        return;
    }
    switch (ev->type) {
    case API_EVENT_DIE:
        on_die(d, ev);
        break;
    case API_EVENT_OOM:
        on_oom(d, ev->name);
        break;
    case API_EVENT_DESTROY:
        report_removed(d, ev->name);
        break;
    case API_EVENT_IMAGE: /* presence.c */
    case API_EVENT_OTHER:
        break;
    }
}

static void events_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct docker *d = ud;

    if (status == 200) {
        api_events_feed(&d->events.feed, data, len);
    }
}

/* A stream that was never up may end for what says nothing of the engine, such as a filter before
 * it that knows no events; one that reached nobody tells what the next call would meet. */
static void events_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct docker *d = ud;
    struct fn_error why = { .size = sizeof(why) };
    bool unreached = err && status == 0 && err->code == FN_E_UNAVAILABLE;
    bool was_up;

    if (err) {
        why = *err;
    } else {
        fail_platform(&why, FN_E_UNAVAILABLE, "the engine closed its event stream (status %u)",
                      status);
    }
    pthread_mutex_lock(&d->lock);
    was_up = d->events.engine_up;
    d->events.engine_up = false;
    d->version_asked = false; /* the next one may be another */
    pthread_mutex_unlock(&d->lock);
    if (was_up) {
        engine_log(d, FN_LOG_WARN, "container engine: %s", why.msg);
    }
    if (was_up || unreached) {
        d->driver->engine(d->host, 0, &why);
    }
    /* Last: events_close() waits for no stream that it does not know. */
    pthread_mutex_lock(&d->lock);
    d->events.open = false;
    d->events.stream = 0;
    pthread_mutex_unlock(&d->lock);
}

static void open_events(struct docker *d)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), events_data,
                                                 events_end };
    int64_t since_s = d->host->clock->wall_ns(d->host) / SECOND_NS - EVENTS_OVERLAP_S;
    char owner[sizeof(d->owner)], path[1024];
    uint64_t id = 0;
    int r;

    pthread_mutex_lock(&d->lock);
    memcpy(owner, d->owner, sizeof(owner));
    pthread_mutex_unlock(&d->lock);
    if (api_events_path(owner, since_s, path, sizeof(path)) < 0) {
        engine_log(d, FN_LOG_ERROR, "no events of owner %s: its name is too long", owner);
        return;
    }
    pthread_mutex_lock(&d->lock);
    d->events.open = true;
    d->events.feed = (struct api_events){ .each = on_event, .ud = d };
    d->events.list_wanted = true;
    pthread_mutex_unlock(&d->lock);
    r = engine_stream(d, "GET", path, INSPECT_TIMEOUT_MS, &cb, d, &id, NULL);
    pthread_mutex_lock(&d->lock);
    if (r < 0) {
        d->events.open = false;
    } else if (d->events.open) {
        d->events.stream = id;
    }
    pthread_mutex_unlock(&d->lock);
}

void events_tick(struct docker *d)
{
    int64_t now_ns = engine_now_ns(d);
    bool open = false, list = false;

    pthread_mutex_lock(&d->lock);
    if (!d->stopping && *d->owner && !d->events.open &&
        now_ns - d->events.tried_ns >= EVENTS_RETRY_NS) {
        d->events.tried_ns = now_ns;
        open = true;
    } else if (!d->stopping && d->events.list_wanted && d->events.open && !d->events.list_running &&
               now_ns >= d->events.list_next_ns) {
        d->events.list_running = true;
        list = true;
    }
    pthread_mutex_unlock(&d->lock);
    if (open) {
        open_events(d);
        pthread_mutex_lock(&d->lock);
        list = d->events.open && !d->events.list_running;
        d->events.list_running = d->events.list_running || list;
        pthread_mutex_unlock(&d->lock);
    }
    if (list) {
        ask_list(d);
    }
}

/* The stream of a question that was asked too long ago, 0 = none. */
static uint64_t overdue_question(struct docker *d)
{
    int64_t before_ns = engine_now_ns(d) - QUESTION_MAX_NS;
    uint64_t stream = 0;
    struct question *q;

    pthread_mutex_lock(&d->lock);
    LIST_FOREACH (q, &d->questions, link) {
        if (q->stream && q->asked_ns < before_ns) {
            stream = q->stream;
            break;
        }
    }
    pthread_mutex_unlock(&d->lock);
    return stream;
}

/* A question whose stream was closed has no end: unless that ran meanwhile, it
 * ends here with an error, or is only freed when there is none. */
static void end_question(struct docker *d, uint64_t stream, const struct fn_error *why)
{
    struct question *q;

    d->http->stream_close(d->host, stream);
    pthread_mutex_lock(&d->lock);
    LIST_FOREACH (q, &d->questions, link) {
        if (q->stream == stream) {
            break;
        }
    }
    pthread_mutex_unlock(&d->lock);
    if (q && why) {
        q->cb->end(q, 0, why);
    } else if (q) {
        question_free(q);
    }
}

void events_expire(struct docker *d)
{
    struct fn_error why = { .size = sizeof(why) };
    uint64_t stream;

    fail_platform(&why, FN_E_DEADLINE, "the engine did not end its answer in %d s",
                  (int)(QUESTION_MAX_NS / SECOND_NS));
    while ((stream = overdue_question(d))) {
        end_question(d, stream, &why);
    }
}

/* One without a stream yet is being asked by the end of another, which has one. */
static uint64_t any_question(struct docker *d)
{
    struct question *q;
    uint64_t stream;

    pthread_mutex_lock(&d->lock);
    LIST_FOREACH (q, &d->questions, link) {
        if (q->stream) {
            break;
        }
    }
    stream = q ? q->stream : 0;
    pthread_mutex_unlock(&d->lock);
    return stream;
}

void events_close(struct docker *d)
{
    uint64_t id;

    pthread_mutex_lock(&d->lock);
    d->stopping = true;
    id = d->events.stream;
    pthread_mutex_unlock(&d->lock);
    if (id) {
        d->http->stream_close(d->host, id);
    }
    while ((id = any_question(d))) {
        end_question(d, id, NULL);
    }
}
