/* StreamLogs inside of one process: a reader and its logs are one object, whose task makes the
 * callbacks of both ends. One message is under way at a time.
 *
 * Freed by its task, when it is closed and who answers has been told. */
#include <rpc/local_int.h>

#include <base/arena.h>
#include <base/err.h>
#include <model/kvs.h>
#include <stdlib.h>

struct engage_reader {
    struct local *local;
    struct engage_link *link; /* NULL: closed */
    LIST_ENTRY(engage_reader) entry;
    const struct engage_reader_cb *cb;
    void *ud;
    struct env_task task;
    struct engage_logs logs; /* the other end */
    struct arena keys;
    bool offered; /* on_logs() was called */
    bool owned;
    bool asked;
    bool closed;
    struct arena message;
    struct engage_line *lines; /* NULL: no message waits */
    uint32_t n;
    struct {
        bool is_set, told;
        int status;
        const char *text; /* in `keys` */
    } end;
};

static struct engage_reader *reader_of(struct engage_logs *l)
{
    return container_of(l, struct engage_reader, logs);
}

static void reader_soon(struct engage_reader *rd)
{
    env_defer(rd->local->env, &rd->task);
}

static void reader_free(struct engage_reader *rd)
{
    env_undefer(rd->local->env, &rd->task);
    LIST_REMOVE(rd, entry);
    arena_finish(&rd->keys);
    arena_finish(&rd->message);
    free(rd);
}

static void reader_end(struct engage_reader *rd, int status, const char *text)
{
    if (!rd->end.is_set) {
        rd->end.is_set = true;
        rd->end.status = status;
        rd->end.text = text ? arena_strdup(&rd->keys, text) : "";
        rd->end.text = rd->end.text ? rd->end.text : "out of memory";
        reader_soon(rd);
    }
}

/* ---- who answers ----------------------------------------------------------------------------- */

/* Lines of one container follow each other, so that their texts are copied once. */
static const char *copy_text(struct arena *a, const char *text, const char *was,
                             const char *was_copy)
{
    return was == text ? was_copy : arena_strdup(a, text);
}

static void copy_line(struct arena *a, const struct engage_line *from, struct engage_line *to,
                      bool has_last)
{
    static const struct engage_line none = { 0 };
    const struct engage_line *last = has_last ? from - 1 : &none;
    const struct engage_line *copy = has_last ? to - 1 : &none;

    *to = *from;
    to->app_id = copy_text(a, from->app_id, last->app_id, copy->app_id);
    to->fn_id = copy_text(a, from->fn_id, last->fn_id, copy->fn_id);
    to->container_id = copy_text(a, from->container_id, last->container_id, copy->container_id);
    to->call_id = arena_strdup(a, from->call_id);
    to->data = arena_strndup(a, from->data, from->len);
}

static int local_logs_send(struct engage_logs *l, const struct engage_line *lines, uint32_t n)
{
    struct engage_reader *rd = reader_of(l);
    struct engage_line *copy;

    arena_finish(&rd->message);
    arena_init(&rd->message, 0);
    copy = arena_alloc(&rd->message, (n + 1) * sizeof(*copy));
    for (uint32_t i = 0; i < n && copy; i++) {
        copy_line(&rd->message, &lines[i], &copy[i], i > 0);
    }
    if (rd->message.failed) {
        return FN_E_EXHAUSTED;
    }
    l->wanted = rd->asked = false;
    rd->lines = copy;
    rd->n = n;
    reader_soon(rd);
    return 0;
}

static void local_logs_end(struct engage_logs *l, int grpc_status, const char *text)
{
    struct engage_reader *rd = reader_of(l);

    rd->owned = false;
    reader_end(rd, grpc_status, text);
}

/* ---- both ends are told ---------------------------------------------------------------------- */

static void tell_server(struct engage_reader *rd)
{
    struct local *l = rd->local;

    if (!rd->offered && !rd->closed && !rd->end.is_set) {
        rd->offered = rd->owned = true;
        l->cb->on_logs(l->ud, &rd->logs);
    }
    if (rd->owned && (rd->closed || rd->end.is_set)) {
        rd->owned = false;
        l->cb->on_logs_gone(l->ud, &rd->logs);
    } else if (rd->owned && rd->asked && !rd->logs.wanted) {
        rd->logs.wanted = true;
        l->cb->on_logs_wanted(l->ud, &rd->logs);
    }
}

/* One callback, in which it may be closed: then its task comes again. */
static void reader_tell(struct engage_reader *rd)
{
    struct engage_line *lines = rd->lines;

    if (rd->closed) {
        return;
    }
    if (lines) {
        rd->lines = NULL;
        reader_soon(rd);
        rd->cb->on_lines(rd->ud, lines, rd->n);
    } else if (rd->end.is_set && !rd->end.told) {
        rd->end.told = true;
        rd->cb->on_end(rd->ud, rd->end.status, rd->end.text);
    }
}

static void reader_on_task(struct env_task *t)
{
    struct engage_reader *rd = container_of(t, struct engage_reader, task);

    tell_server(rd);
    if (rd->closed) {
        reader_free(rd);
    } else {
        reader_tell(rd);
    }
}

/* ---- who reads ------------------------------------------------------------------------------- */

struct engage_reader *local_reader_open(struct engage_link *k, const struct fn_kv *keys, uint32_t n,
                                        const struct engage_reader_cb *cb, void *ud)
{
    struct engage_reader *rd = calloc(1, sizeof(*rd));
    struct fn_error err = ERR_INIT;
    struct kvs copy;

    if (!rd) {
        return NULL;
    }
    *rd = (struct engage_reader){ .local = k->local, .link = k, .cb = cb, .ud = ud,
                                  .task.cb = reader_on_task,
                                  .logs = { .send = local_logs_send, .end = local_logs_end } };
    arena_init(&rd->keys, 0);
    arena_init(&rd->message, 0);
    kvs_init(&copy, &rd->keys);
    LIST_INSERT_HEAD(&k->local->readers, rd, entry);
    if (kvs_fill(&copy, keys, n, "keys", &err) < 0) {
        reader_free(rd);
        return NULL;
    }
    rd->logs.keys = copy.items;
    rd->logs.n = copy.n;
    reader_soon(rd);
    if (!k->up) {
        reader_end(rd, GRPC_UNAVAILABLE, "runner local: not connected");
    }
    return rd;
}

void local_reader_more(struct engage_reader *rd)
{
    rd->asked = true;
    reader_soon(rd);
}

void local_reader_close(struct engage_reader *rd)
{
    rd->closed = true;
    rd->link = NULL;
    reader_soon(rd);
}

void local_readers_leave(struct engage_link *k)
{
    struct engage_reader *rd;

    LIST_FOREACH(rd, &k->local->readers, entry) {
        if (rd->link == k) {
            rd->link = NULL;
            reader_end(rd, GRPC_UNAVAILABLE, "the runner is not used any more");
        }
    }
}

void local_readers_forget(struct local *l)
{
    struct engage_reader *rd;

    while ((rd = LIST_FIRST(&l->readers))) {
        reader_free(rd);
    }
}
