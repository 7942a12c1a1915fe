/* Logs: who reads what functions print, one message for each that was asked for.
 *
 * A reader gets the lines that the runner keeps (taps.c), or, where the operator's plugin has
 * read(), those of the plugin (history.c). What they share is here: what was asked for, the life of
 * a reader, and its history's end.
 *
 *   BEGINS ──▶ LIVE ──▶ over        BEGINS: gets what was there when it began
 *      └────── not follow ──▶ over
 *
 * Keys of a reader: docs/logs.md. */
#include <runner/runner_int.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------------ */

enum key_type { KEY_TEXT, KEY_NUMBER, KEY_BOOL };

static const struct {
    const char *name;
    enum key_type type;
    size_t at;
} keys[] = {
#define AT(field) offsetof(struct log_query, field)
    { "app_id", KEY_TEXT, AT(app_id) },
    { "fn_id", KEY_TEXT, AT(fn_id) },
    { "container_id", KEY_TEXT, AT(container_id) },
    { "call_id", KEY_TEXT, AT(call_id) },
    { "since", KEY_NUMBER, AT(since_ms) },
    { "tail", KEY_NUMBER, AT(tail) },
    { "follow", KEY_BOOL, AT(follow) },
    { "mark", KEY_BOOL, AT(mark) },
#undef AT
};

/* 0, FN_E_INVALID or FN_E_EXHAUSTED. */
static int take_value(struct log_reader *rd, enum key_type type, const char *value, void *to)
{
    const char *text;
    int64_t n;
    bool yes = strcmp(value, "true") == 0;
    char *end;

    switch (type) {
    case KEY_TEXT:
        text = arena_strdup(&rd->arena, value);
        memcpy(to, &text, sizeof(text));
        return text ? 0 : FN_E_EXHAUSTED;
    case KEY_NUMBER:
        errno = 0;
        n = strtoll(value, &end, 10);
        memcpy(to, &n, sizeof(n));
        return errno || end == value || *end || n < 0 ? FN_E_INVALID : 0;
    case KEY_BOOL:
        memcpy(to, &yes, sizeof(yes));
        return yes || strcmp(value, "false") == 0 ? 0 : FN_E_INVALID;
    }
    return FN_E_INTERNAL;
}

static int take_key(struct log_reader *rd, const struct fn_kv *kv, struct fn_error *reterr)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strcmp(kv->key, keys[i].name) == 0) {
            int r = take_value(rd, keys[i].type, kv->value, (char *)&rd->query + keys[i].at);

            return r == FN_E_EXHAUSTED ? err_set(reterr, r, "out of memory")
                   : r < 0 ? err_set(reterr, r,
                                     "RUN414 key %s of a log stream, got \"%.40s\"; expected %s",
                                     kv->key, kv->value,
                                     keys[i].type == KEY_BOOL ? "true or false" : "a whole number")
                           : 0;
        }
    }
    return err_set(reterr, FN_E_INVALID,
                   "RUN414 unknown key \"%.80s\" of a log stream; expected app_id, fn_id, "
                   "container_id, call_id, since, tail, follow or mark",
                   kv->key);
}

static bool wants(const char *wanted, const char *is)
{
    return !wanted || strcmp(wanted, is) == 0;
}

bool log_query_wants_of(const struct log_query *q, const char *app_id, const char *fn_id,
                        const char *container_id)
{
    return wants(q->app_id, app_id) && wants(q->fn_id, fn_id) &&
           wants(q->container_id, container_id);
}

bool log_query_wants(const struct log_query *q, const struct engage_line *l)
{
    return l->wall_ms >= q->since_ms && wants(q->call_id, l->call_id) &&
           log_query_wants_of(q, l->app_id, l->fn_id, l->container_id);
}

/* ---- life of a reader ------------------------------------------------------------------------ */

/* The operator's plugin is nobody's stream. */
static void count_stream(const struct log_reader *rd, uint32_t more)
{
    struct runner *r = rd->r;

    if (rd->logs != &r->feed.logs) {
        r->logs.streams_n += more;
        metric_set(r->metrics.log_streams, r->logs.streams_n);
    }
}

static void reader_free(struct log_reader *rd)
{
    rd->ops->finish(rd);
    LIST_REMOVE(rd, link);
    count_stream(rd, -1u);
    arena_finish(&rd->arena);
    free(rd);
}

void log_reader_end(struct log_reader *rd, int grpc_status, const char *text)
{
    struct engage_logs *logs = rd->logs;

    reader_free(rd);
    logs->end(logs, grpc_status, text);
}

void log_reader_send(struct log_reader *rd, const struct engage_line *lines, uint32_t n)
{
    if (rd->logs->send(rd->logs, lines, n) < 0) {
        log_reader_end(rd, GRPC_EXHAUSTED, "out of memory");
    }
}

void log_reader_goes_live(struct log_reader *rd)
{
    rd->live = true;
    if (!rd->query.follow) {
        log_reader_end(rd, GRPC_OK, NULL);
    } else if (rd->query.mark) {
        log_reader_send(rd, NULL, 0);
    }
}

static int reader_fill(struct log_reader *rd, struct fn_error *reterr)
{
    int r = 0;

    for (uint32_t i = 0; i < rd->logs->n && r == 0; i++) {
        r = take_key(rd, &rd->logs->keys[i], reterr);
    }
    if (r == 0 && rd->ops->begin(rd) < 0) {
        r = err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    return r;
}

int log_reader_open(struct runner *r, const struct log_reader_ops *ops, struct engage_logs *logs,
                    struct fn_error *reterr)
{
    struct log_reader *rd = calloc(1, ops->size);
    int result;

    if (!rd) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    rd->ops = ops;
    rd->r = r;
    rd->logs = logs;
    rd->query = (struct log_query){ .tail = UINT64_MAX, .follow = true };
    arena_init(&rd->arena, 64u << 10);
    LIST_INSERT_HEAD(&r->logs.readers, rd, link);
    count_stream(rd, 1);
    logs->owner = rd;
    result = reader_fill(rd, reterr);
    if (result < 0) {
        reader_free(rd);
    }
    return result;
}

void logs_on_wanted(void *endpoint, struct engage_logs *logs)
{
    struct log_reader *rd = logs->owner;

    (void)endpoint;
    rd->ops->wanted(rd);
}

void logs_on_gone(void *endpoint, struct engage_logs *logs)
{
    (void)endpoint;
    reader_free(logs->owner);
}

/* ---- the end of the runner ------------------------------------------------------------------- */

void logs_end_all(struct runner *r)
{
    r->logs.closed = true;
    while (!LIST_EMPTY(&r->logs.readers)) {
        log_reader_end(LIST_FIRST(&r->logs.readers), GRPC_UNAVAILABLE, "this runner is stopping");
    }
}

void logs_finish(struct runner *r)
{
    while (!LIST_EMPTY(&r->logs.readers)) {
        reader_free(LIST_FIRST(&r->logs.readers));
    }
}

void logs_forget_timers(struct runner *r)
{
    struct log_reader *rd;

    LIST_FOREACH(rd, &r->logs.readers, link) {
        rd->ops->forget_timers(rd);
    }
}
