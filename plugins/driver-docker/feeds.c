/* The engine's list of containers and its stream of events, read piece by piece. */
#include "docker_api.h"
#include "fail.h"
#include "engine_json.h"

#include <inttypes.h>
#include <stdlib.h>

static bool has_key(const struct json_scan *s, uint32_t level, const char *key)
{
    return !s->at[level].array && strcmp(s->at[level].key, key) == 0;
}

static void take(char *to, size_t cap, const char *text)
{
    size_t n = strlen(text);

    memcpy(to, text, n < cap ? n + 1 : 0);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* [ { "Id": .., "Names": [ .. ], "Labels": { .. }, "State": .. } ] */
static void list_value(void *ud, const struct json_scan *s, const char *text)
{
    struct api_list *l = ud;
    const char *label;

    if (s->depth == 2 && has_key(s, 1, "Id")) {
        take(l->id, sizeof(l->id), text);
    } else if (s->depth == 2 && has_key(s, 1, "State")) {
        l->paused = strcmp(text, "paused") == 0;
        l->running = l->paused || strcmp(text, "running") == 0;
    } else if (s->depth == 3 && has_key(s, 1, "Names") && s->at[2].array && s->at[2].index == 0) {
        take(l->name, sizeof(l->name), text + (*text == '/'));
    } else if (s->depth == 3 && has_key(s, 1, "Labels")) {
        label = s->at[2].key;
        if (strcmp(label, API_OWNER_LABEL) == 0) {
            take(l->owner, sizeof(l->owner), text);
        } else if (strcmp(label, API_INSTANCE_LABEL) == 0) {
            take(l->instance, sizeof(l->instance), text);
        } else if (strcmp(label, API_LOCK_LABEL) == 0) {
            take(l->lock, sizeof(l->lock), text);
        }
    } else if (s->depth < 2) {
        l->malformed = true; /* no list, or one of something else */
    }
}

static void list_closed(void *ud, const struct json_scan *s)
{
    struct api_list *l = ud;
    const struct api_listed c = { .id = l->id, .name = l->name, .owner = l->owner,
                                  .instance = l->instance, .lock = l->lock,
                                  .running = l->running, .paused = l->paused };

    if (s->depth == 0) {
        l->done = s->at[0].array;
        l->malformed |= !l->done;
    } else if (s->depth == 1) {
        if (!s->at[0].array || !api_is_id(l->id)) {
            l->malformed = true;
        } else if (l->r == 0) {
            l->r = l->each(l->ud, &c);
        }
        *l->id = *l->name = *l->owner = *l->instance = *l->lock = '\0';
        l->running = l->paused = false;
    }
}

void api_list_feed(struct api_list *l, const char *data, size_t len)
{
    static const struct json_scan_cb cb = { list_value, list_closed };

    json_scan_feed(&l->scan, data, len, &cb, l);
}

int api_list_end(const struct api_list *l, struct fn_error *reterr)
{
    if (l->malformed || !l->done || !json_scan_is_between(&l->scan)) {
        return fail_retry(reterr, engine_malformed("list", reterr));
    }
    return l->r;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* filters is given, NULL = out of memory. */
static int events_path(json_t *filters, int64_t since_s, char *ret, size_t cap)
{
    char escaped[768];
    char *text = json_dumps(filters, JSON_COMPACT);
    int r = text ? engine_escape(text, escaped, sizeof(escaped)) : FN_E_EXHAUSTED;

    json_decref(filters);
    free(text);
    if (r < 0) {
        return r;
    }
    r = snprintf(ret, cap, "/events?since=%" PRId64 "&filters=%s", since_s, escaped);
    return r < (int)cap ? 0 : FN_E_RANGE;
}

/* Engines differ in the names that a filter has for events, and in whether a label without a value
 * matches any. */
int api_events_path(const char *owner, int64_t since_s, char *ret, size_t cap)
{
    return events_path(json_pack("{s:[s], s:[s,s,s,s,s], s:[o]}", "type", "container", "event",
                                 "die", "died", "oom", "destroy", "remove", "label",
                                 json_sprintf(API_OWNER_LABEL "=%s", owner)),
                       since_s, ret, cap);
}

int api_image_events_path(int64_t since_s, char *ret, size_t cap)
{
    return events_path(json_pack("{s:[s]}", "type", "image"), since_s, ret, cap);
}

/* { "Type": .., "Action": .., "Actor": { "Attributes": { "name": .., "exitCode": .. } } } */
static void event_value(void *ud, const struct json_scan *s, const char *text)
{
    struct api_events *e = ud;

    if (s->depth == 1 && has_key(s, 0, "Type")) {
        e->is_container = strcmp(text, "container") == 0;
        e->is_image = strcmp(text, "image") == 0;
    } else if (s->depth == 1 && has_key(s, 0, "Action")) {
        e->has_action = *text != '\0';
        e->event.type = strcmp(text, "die") == 0       ? API_EVENT_DIE
                        : strcmp(text, "oom") == 0     ? API_EVENT_OOM
                        : strcmp(text, "destroy") == 0 ||
                                  strcmp(text, "remove") == 0 ? API_EVENT_DESTROY
                                                       : API_EVENT_OTHER;
    } else if (s->depth == 3 && has_key(s, 0, "Actor") && has_key(s, 1, "Attributes")) {
        if (has_key(s, 2, "name")) {
            take(e->event.name, sizeof(e->event.name), text);
        } else if (has_key(s, 2, "exitCode") ||
                   (has_key(s, 2, "containerExitCode") && e->event.exit_code == 0)) {
            e->event.exit_code = (int)strtol(text, NULL, 10);
        }
    }
}

static void event_closed(void *ud, const struct json_scan *s)
{
    struct api_events *e = ud;

    e->whole |= s->depth == 0 && !s->at[0].array;
}

static void line_end(struct api_events *e)
{
    if (e->whole && e->has_action && json_scan_is_between(&e->scan)) {
        e->event.type = e->is_container ? e->event.type
                        : e->is_image   ? API_EVENT_IMAGE
                                        : API_EVENT_OTHER;
        e->each(e->ud, &e->event);
    } else if (e->any) {
        e->each(e->ud, NULL);
    }
    e->scan = (struct json_scan){ .depth = 0 };
    e->event = (struct api_event){ .exit_code = 0 };
    e->is_container = e->is_image = e->has_action = e->whole = e->any = false;
}

/* Of a line end alone there may be a part. */
static bool is_more_than_cr(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\r') {
            return true;
        }
    }
    return false;
}

void api_events_feed(struct api_events *e, const char *data, size_t len)
{
    static const struct json_scan_cb cb = { event_value, event_closed };
    const char *nl;
    size_t n;

    while (len > 0) {
        nl = memchr(data, '\n', len);
        n = nl ? (size_t)(nl - data) : len;
        e->any = e->any || is_more_than_cr(data, n);
        json_scan_feed(&e->scan, data, n, &cb, e);
        if (!nl) {
            return;
        }
        line_end(e);
        data += n + 1;
        len -= n + 1;
    }
}
