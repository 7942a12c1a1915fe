/* The event stream: how containers ended, for all of them at once.
 *
 * One GET /events, filtered by our label. When it breaks it is opened again at most every
 * EVENTS_RETRY_NS, with the last EVENTS_OVERLAP_S seconds replayed (ids are never used twice, so a
 * replay is harmless), and all containers are listed: what ended meanwhile is reported from the
 * list. Exit 137 without an "oom" event is asked for, because the engine may send the two in
 * either order. Everything here runs on the host's stream thread but for events_tick() and
 * events_ask_removal(). */
#include "docker.h"
#include "fail.h"

#include <stdlib.h>

#define KILLED_EXIT 137

/* A request whose whole answer is collected on the stream thread. */
struct question {
    struct docker *d;
    LIST_ENTRY(question) link; /* under the lock */
    uint64_t stream;           /* under the lock; 0 until known */
    char name[API_NAME_MAX + 1]; /* "" = the list */
    int64_t asked_ns;
    int exit_code;
    char *data;
    size_t len, cap;
    bool broken;
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

/* ---- questions ------------------------------------------------------------------------------- */

static void question_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct question *q = ud;
    size_t cap = q->cap ? q->cap : 4096;
    char *more;

    (void)status;
    if (q->broken || len > LIST_ANSWER_MAX - q->len) {
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
    free(q->data);
    free(q);
}

static struct question *question_new(struct docker *d)
{
    struct question *q = calloc(1, sizeof(*q));

    if (q) {
        q->d = d;
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
    int r = engine_stream(d, method, path, INSPECT_TIMEOUT_MS, cb, q, &id, NULL);

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

static void state_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct question *q = ud;
    struct api_state state = { .exit_code = q->exit_code };

    if (!err && status == 404) {
        report_removed(q->d, q->name);
    } else if (!err && status == 200 && !q->broken &&
               api_parse_state(q->data, q->len, &state, NULL) == 0) {
        if (state.running) {
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

struct listed {
    UT_hash_handle hh;
    bool running;
    char name[API_NAME_MAX + 1];
};

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

static void list_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct question *q = ud;
    struct docker *d = q->d;
    struct listed *map = NULL;
    struct listed *l, *next;
    bool ok = !err && status == 200 && !q->broken &&
              api_parse_list(q->data, q->len, keep_listed, &map, NULL) == 0;
    bool came_up;

    pthread_mutex_lock(&d->lock);
    d->events.list_wanted = !ok; /* or again, when a question that follows cannot be asked */
    pthread_mutex_unlock(&d->lock);
    if (ok) {
        reconcile(q, map);
    }
    HASH_ITER(hh, map, l, next) {
        HASH_DEL(map, l);
        free(l);
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

static void ask_list(struct docker *d)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), question_data,
                                                 list_end };
    static const char path[] = "/containers/json?all=1&filters="
                               "%7B%22label%22%3A%5B%22" API_OWNER_LABEL "%22%5D%7D";
    struct question *q = question_new(d);

    if (q) {
        q->asked_ns = engine_now_ns(d);
    }
    if (!q || question_send(q, "GET", path, &cb) < 0) {
        pthread_mutex_lock(&d->lock);
        d->events.list_running = false;
        pthread_mutex_unlock(&d->lock);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_die(struct docker *d, const struct api_event *ev)
{
    struct ctr *c;
    bool mine = false, oom = false;

    pthread_mutex_lock(&d->lock);
    HASH_FIND_STR(d->ctrs, ev->name, c);
    if (c && !c->reported && !c->asking) {
        mine = true;
        oom = c->oom;
        c->asking = ev->exit_code == KILLED_EXIT && !oom;
    }
    pthread_mutex_unlock(&d->lock);
    if (!mine) {
        return;
    }
    if (ev->exit_code == KILLED_EXIT && !oom) {
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

static void on_line(void *ud, const char *line, size_t len)
{
    struct docker *d = ud;
    struct api_event ev;

    if (api_parse_event(line, len, &ev) < 0) {
        engine_log(d, FN_LOG_WARN, "an event of the container engine is malformed: %zu bytes", len);
        return;
    }
    switch (ev.type) {
    case API_EVENT_DIE:
        on_die(d, &ev);
        break;
    case API_EVENT_OOM:
        on_oom(d, ev.name);
        break;
    case API_EVENT_DESTROY:
        report_removed(d, ev.name);
        break;
    case API_EVENT_OTHER:
        break;
    }
}

static void events_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct docker *d = ud;

    if (status == 200 && api_lines_feed(&d->events.lines, data, len, on_line, d) < 0) {
        engine_log(d, FN_LOG_ERROR, "events of the container engine are lost: out of memory");
    }
}

static void events_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct docker *d = ud;
    struct fn_error why = { .size = sizeof(why) };
    bool was_up;

    api_lines_finish(&d->events.lines);
    if (err) {
        why = *err;
    } else {
        fail_platform(&why, FN_E_UNAVAILABLE, "the engine closed its event stream (status %u)",
                      status);
    }
    pthread_mutex_lock(&d->lock);
    was_up = d->events.engine_up;
    d->events.engine_up = false;
    pthread_mutex_unlock(&d->lock);
    if (was_up) {
        engine_log(d, FN_LOG_WARN, "container engine: %s", why.msg);
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
    char path[512];
    uint64_t id = 0;
    int r;

    /* {"type":["container"],"event":["die","oom","destroy"],"label":["..."]} */
    snprintf(path, sizeof(path),
             "/events?since=%lld&filters=%%7B%%22type%%22%%3A%%5B%%22container%%22%%5D%%2C"
             "%%22event%%22%%3A%%5B%%22die%%22%%2C%%22oom%%22%%2C%%22destroy%%22%%5D%%2C"
             "%%22label%%22%%3A%%5B%%22" API_OWNER_LABEL "%%22%%5D%%7D",
             (long long)since_s);
    pthread_mutex_lock(&d->lock);
    d->events.open = true;
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
    if (!d->stopping && !d->events.open && now_ns - d->events.tried_ns >= EVENTS_RETRY_NS) {
        d->events.tried_ns = now_ns;
        open = true;
    } else if (!d->stopping && d->events.list_wanted && d->events.open && !d->events.list_running) {
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

/* A question whose stream was closed has no end: it is freed here, unless its end ran meanwhile. */
static void drop_question(struct docker *d, uint64_t stream)
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
    if (q) {
        question_free(q);
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
        drop_question(d, id);
    }
    api_lines_finish(&d->events.lines);
}
