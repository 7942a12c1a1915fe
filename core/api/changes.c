/* What changed: load balancers ask for it and wait, so that what they have cached of a function is
 * used no longer than it is true.
 *
 * A watcher says how far it knows (process and number, "<id>-17"), and is answered when there is
 * more: with the ids of what changed, or with "all" when it is of another process, or missed more
 * than is kept. Without anything new it gets its own place back after `wait_ms`. Changes of one
 * turn of the loop are told together. Ours alone: Go Fn's load balancers look every 5 s. */
#include <api/api_int.h>

#include <ctype.h>
#include <model/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS_MAX 25000 /* below what proxies wait for an answer */

static void on_tell(struct env_task *t)
{
    struct changes *s = container_of(t, struct changes, tell);
    struct api_call *c;

    while ((c = TAILQ_FIRST(&s->waiting))) {
        changes_leave(c);
        api_call_end(c);
    }
}

void changes_init(struct changes *s, struct env *env, const struct id_maker *ids)
{
    struct id_maker own = *ids; /* the ids of what is made here begin where they would without us */

    *s = (struct changes){ .env = env };
    s->tell.cb = on_tell;
    TAILQ_INIT(&s->waiting);
    id_make(&own, env_wall_ns(env), s->process);
}

void api_changed(struct api *a, const char *id)
{
    struct changes *s = &a->changes;

    if (id) {
        snprintf(s->ids[s->n++ % CHANGES_KEPT], sizeof(s->ids[0]), "%s", id);
    } else {
        s->n += CHANGES_KEPT + 1; /* everybody has missed more than is kept */
    }
    if (s->waiting_n > 0) {
        env_defer(s->env, &s->tell);
    }
}

void api_end_watching(struct api *a)
{
    a->changes.draining = true;
    env_defer(a->deps.env, &a->changes.tell);
}

/* ---- one that asks --------------------------------------------------------------------------- */

static void on_patience(struct env_timer *t)
{
    struct api_call *c = container_of(t, struct api_call, patience);

    changes_leave(c);
    api_call_end(c);
}

bool changes_has(const struct api_call *c)
{
    return c->patience.cb != NULL;
}

void changes_leave(struct api_call *c)
{
    struct changes *s = &c->api->changes;

    TAILQ_REMOVE(&s->waiting, c, link);
    s->waiting_n--;
    env_timer_clear(s->env, &c->patience);
    c->patience.cb = NULL;
}

/* What the watcher knows of this process; UINT64_MAX: nothing. */
static uint64_t seen_of(const struct changes *s, const char *after)
{
    size_t len = strlen(s->process);
    unsigned long long n;
    char *end;

    if (strncmp(after, s->process, len) != 0 || after[len] != '-' ||
        !isdigit((unsigned char)after[len + 1])) {
        return UINT64_MAX;
    }
    n = strtoull(after + len + 1, &end, 10);
    return *end || n > s->n ? UINT64_MAX : n;
}

int ask_changes(struct api_call *c, struct fn_error *reterr)
{
    struct changes *s = &c->api->changes;
    const char *wait = query_get(&c->arena, c->rq->query, "wait_ms");
    long wait_ms = strtol(wait, NULL, 10);

    if (token_check_all(c, reterr) < 0) {
        return FN_E_PERMISSION;
    }
    c->seen = seen_of(s, query_get(&c->arena, c->rq->query, "after"));
    if (c->seen != s->n || wait_ms <= 0 || s->draining) {
        api_call_reply(c);
        return 1;
    }
    if (s->waiting_n == WATCHERS_MAX) {
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM,
                            "API1106 too many wait for changes");
    }
    TAILQ_INSERT_TAIL(&s->waiting, c, link);
    s->waiting_n++;
    c->patience.cb = on_patience;
    env_timer_set(s->env, &c->patience,
                  env_now_ns(s->env) + (wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX) * ENV_MS);
    return 0;
}

/* {"cursor":"<id>-17","ids":["...","..."]} or {"cursor":"<id>-17","all":true} */
int tell_changes(struct api_call *c, struct buf *out)
{
    const struct changes *s = &c->api->changes;
    bool all = c->seen == UINT64_MAX || s->n - c->seen > CHANGES_KEPT;
    int r = buf_printf(out, "{\"cursor\":\"%s-%llu\",", s->process, (unsigned long long)s->n);

    if (r < 0 || all) {
        return r < 0 ? r : buf_add_str(out, "\"all\":true}\n");
    }
    r = buf_add_str(out, "\"ids\":[");
    for (uint64_t i = c->seen; i < s->n && r == 0; i++) {
        r = i > c->seen ? buf_add_str(out, ",") : 0;
        r = r < 0 ? r : jw_string(out, s->ids[i % CHANGES_KEPT]);
    }
    return r < 0 ? r : buf_add_str(out, "]}\n");
}
