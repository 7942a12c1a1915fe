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
#include <runner/internal.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------------ */

static int take_number(const struct fn_kv *kv, int64_t *ret, struct fn_error *reterr)
{
    char *end;

    errno = 0;
    *ret = strtoll(kv->value, &end, 10);
    if (errno || end == kv->value || *end || *ret < 0) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN414 key %s of a log stream, got \"%.40s\"; expected a whole number",
                       kv->key, kv->value);
    }
    return 0;
}

static int take_bool(const struct fn_kv *kv, bool *ret, struct fn_error *reterr)
{
    *ret = strcmp(kv->value, "true") == 0;
    if (!*ret && strcmp(kv->value, "false") != 0) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN414 key %s of a log stream, got \"%.40s\"; expected true or false",
                       kv->key, kv->value);
    }
    return 0;
}

static int take_text(struct log_reader *rd, const struct fn_kv *kv, const char **ret,
                     struct fn_error *reterr)
{
    *ret = arena_strdup(&rd->arena, kv->value);
    return *ret ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
}

static int take_key(struct log_reader *rd, const struct fn_kv *kv, struct fn_error *reterr)
{
    struct log_query *q = &rd->query;
    const struct {
        const char *key;
        const char **at;
    } texts[] = { { "app_id", &q->app_id },
                  { "fn_id", &q->fn_id },
                  { "container_id", &q->container_id },
                  { "call_id", &q->call_id } };
    int64_t n = 0;
    int r;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(kv->key, texts[i].key) == 0) {
            return take_text(rd, kv, texts[i].at, reterr);
        }
    }
    if (strcmp(kv->key, "since") == 0) {
        return take_number(kv, &q->since_ms, reterr);
    }
    if (strcmp(kv->key, "tail") == 0) {
        r = take_number(kv, &n, reterr);
        q->tail = (uint64_t)n;
        return r;
    }
    if (strcmp(kv->key, "follow") == 0) {
        return take_bool(kv, &q->follow, reterr);
    }
    if (strcmp(kv->key, "mark") == 0) {
        return take_bool(kv, &q->mark, reterr);
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

static void reader_free(struct log_reader *rd)
{
    struct runner *r = rd->r;

    rd->ops->finish(rd);
    LIST_REMOVE(rd, link);
    metric_set(r->metrics.log_streams, --r->logs.readers_n);
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
    metric_set(r->metrics.log_streams, ++r->logs.readers_n);
    logs->owner = rd;
    ops->init(rd);
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
