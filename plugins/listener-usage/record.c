/* From a call to its line. */
#include "usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000
#define TEXT_MAX  255 /* names and ids of a node are not longer */

static const char *const text_keys[TEXTS_N] = {
    [TEXT_CALL] = "call",
    [TEXT_FN] = "fn",
    [TEXT_APP] = "app",
    [TEXT_APP_NAME] = "app_name",
    [TEXT_GROUP] = "group",
    [TEXT_TYPE] = "type",
    [TEXT_OUTCOME] = "outcome",
};

struct record *record_make(const struct fn_view_if *view, const struct fn_call *call,
                           const struct fn_call_end *end)
{
    const char *texts[TEXTS_N] = {
        [TEXT_CALL] = call->id,
        [TEXT_FN] = call->fn_id,
        [TEXT_APP] = call->app_id,
        [TEXT_APP_NAME] = view->text(call, FN_TEXT_APP_NAME),
        [TEXT_GROUP] = call->lb_group,
        [TEXT_TYPE] = call->kind == FN_CALL_DETACHED ? "detached" : "sync",
        [TEXT_OUTCOME] = end->outcome,
    };
    size_t lens[TEXTS_N];
    size_t bytes = sizeof(struct record);
    struct record *r;
    char *at;

    for (int i = 0; i < TEXTS_N; i++) {
        lens[i] = texts[i] ? strnlen(texts[i], TEXT_MAX) : 0;
        bytes += lens[i] + 1;
    }
    r = malloc(bytes);
    if (!r) {
        return NULL;
    }
    *r = (struct record){ .took_ns = end->started_ns > 0 ? end->ended_ns - end->started_ns : 0,
                          .mem_mb = call->mem_mb,
                          .cpu_milli = view->u64(call, FN_FIELD_CPU_MILLI),
                          .status = end->http_status,
                          .code = end->code };
    at = (char *)(r + 1);
    for (int i = 0; i < TEXTS_N; i++) {
        r->texts[i] = at;
        memcpy(at, texts[i] ? texts[i] : "", lens[i]);
        at[lens[i]] = '\0';
        at += lens[i] + 1;
    }
    return r;
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct line {
    char *at;
    char *end; /* two bytes before the memory's: there is always room for "}\n" */
};

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *fmt, ...)
{
    size_t room = (size_t)(l->end - l->at);
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(l->at, room, fmt, ap);
    va_end(ap);
    l->at += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

static void put_text(struct line *l, const char *key, const char *text)
{
    put(l, ",\"%s\":\"", key);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c == '"' || c == '\\') {
            put(l, "\\u%04x", c);
        } else {
            put(l, "%c", c);
        }
    }
    put(l, "\"");
}

static void put_head(struct line *l, const char *stream, uint64_t seq, int64_t wall_ns)
{
    put(l, "{\"stream\":\"%s\",\"seq\":%llu,\"time_ms\":%lld", stream, (unsigned long long)seq,
        (long long)(wall_ns / NS_PER_MS));
}

static size_t finish(struct line *l, const char *begin)
{
    memcpy(l->at, "}\n", 2);
    return (size_t)(l->at + 2 - begin);
}

size_t record_print(const struct record *r, const char *stream, char *ret)
{
    struct line l = { ret, ret + LINE_BYTES_MAX - 2 };

    put_head(&l, stream, r->seq, r->ended_wall_ns);
    for (int i = 0; i < TEXTS_N; i++) {
        put_text(&l, text_keys[i], r->texts[i]);
    }
    put(&l, ",\"memory_mb\":%llu,\"cpu_milli\":%llu,\"duration_us\":%lld,\"status\":%u,\"code\":%d",
        (unsigned long long)r->mem_mb, (unsigned long long)r->cpu_milli,
        (long long)(r->took_ns / 1000), r->status, r->code);
    return finish(&l, ret);
}

size_t record_print_end(const char *stream, uint64_t seq, int64_t wall_ns, uint64_t dropped,
                        char *ret)
{
    struct line l = { ret, ret + LINE_BYTES_MAX - 2 };

    put_head(&l, stream, seq, wall_ns);
    put(&l, ",\"end\":true,\"dropped\":%llu", (unsigned long long)dropped);
    return finish(&l, ret);
}
