/* The catalog: one entry per question ("f:<fn id>", "t:<app> <source>") and its loading.
 *
 * An entry is fixed (fn.yaml), or loaded from the API node by a chain of requests (steps below).
 * Loaded values are fresh for ttl_ns and loaded again in the last part of it, once; whoever asks
 * meanwhile gets the value that is there. Past its time everyone waits for the load, single flight,
 * but no longer than PATIENCE_NS after it began: then the old value serves, up to stale_ns. When a
 * load failed it serves at once, until the API node tells of a change. Where no old value may serve
 * and the load has no place (lookups.h), nobody waits longer than LOOKUPS_WAIT_NS for it. "Not
 * there" is believed for MISSING_TTL_NS. Of entries without a function, which strangers make up,
 * the last STRANGERS_MAX are kept. */
#include <lb/catalog.h>
#include <lb/catalog_changes.h>
#include <lb/lookups.h>

#include <assert.h>
#include <base/arena.h>
#include <base/log.h>
#include <base/table.h>
#include <model/app.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define MISSING_TTL_NS    (1 * ENV_S)
#define RETRY_NS          (1 * ENV_S)
#define AHEAD_PART        5 /* of its time a value is loaded again before it is over */
#define PATIENCE_NS       (500 * ENV_MS)
#define STRANGERS_MAX     4096u
#define SWEEP_INTERVAL_NS (60 * ENV_S)
#define SWEEP_FULL_NS     (1 * ENV_S) /* at most so often because there are too many entries */

TAILQ_HEAD(query_list, catalog_query);

struct catalog_query {
    struct entry *entry;
    bool answering; /* in that list of the entry, else in `waiting` */
    catalog_cb *cb;
    void *ud;
    TAILQ_ENTRY(catalog_query) link;
};

/* The next thing to ask for. An invoke goes FN, APP; a trigger goes APP_BY_NAME, TRIGGER, FN. */
enum load_step { LOAD_FN, LOAD_APP, LOAD_APP_BY_NAME, LOAD_TRIGGER };

struct load {
    struct lookup lookup;
    struct entry *entry;
    uint64_t epoch;            /* of the catalog when it began */
    struct env_timer patience; /* of a refresh that somebody waits for; patience_end_ns() */
    int64_t begun_ns;
    struct arena arena;
    enum load_step step;
    bool has_app, has_fn;
    struct app app;
    struct fn_def fn;
    struct trigger trigger;
};

struct entry {
    char *key;
    struct catalog *catalog;
    const char *fn_id;  /* question of an invoke, in key; else NULL */
    char *app;          /* question of a trigger, else NULL */
    const char *source; /* the same, in key */
    bool fixed;
    bool admitted;         /* by catalog_admit(); of the catalog that comes */
    bool failing;          /* the last load failed; `fn` is older than its ttl */
    struct catalog_fn *fn; /* NULL = not loaded or not there */
    struct fn_error missing;
    bool is_stranger;      /* in the catalog's list: no function, not loading */
    TAILQ_ENTRY(entry) stranger_link;
    uint64_t epoch;        /* up to which it is known to be of no change */
    int64_t refresh_at_ns; /* the next load; <= fresh_until_ns */
    int64_t fresh_until_ns;
    int64_t stale_until_ns;
    struct load *load; /* NULL = not loading */
    /* Those whose load has ended are answered one by one; a callback may ask for the same key again
     * (it waits for the next load), cancel others, or replace the catalog. `pins` keeps the entry
     * until the last one is answered. */
    uint32_t pins;
    struct query_list waiting, answering;
    UT_hash_handle hh;
};

struct catalog {
    struct env *env;
    struct catalog_options options;
    const struct catalog_source *source;
    struct entry *entries;
    struct catalog_changes changes;
    struct lookups lookups;
    TAILQ_HEAD(, entry) strangers; /* the oldest first */
    uint32_t strangers_n;
    struct buf key; /* of the question at hand */
    struct env_timer sweep;
    int64_t swept_ns;
};

/* ---- entries --------------------------------------------------------------------------------- */

static void stranger_forget(struct entry *e)
{
    if (e->is_stranger) {
        e->is_stranger = false;
        TAILQ_REMOVE(&e->catalog->strangers, e, stranger_link);
        e->catalog->strangers_n--;
    }
}

/* In no table. */
static void entry_free(struct entry *e)
{
    catalog_fn_unref(e->fn);
    free(e->app);
    free(e->key);
    free(e);
}

static void entry_destroy(struct entry *e)
{
    assert(TAILQ_EMPTY(&e->waiting) && TAILQ_EMPTY(&e->answering) && !e->load && !e->pins);
    stranger_forget(e);
    HASH_DEL(e->catalog->entries, e);
    entry_free(e);
}

static struct entry *entry_find(struct catalog *c, const char *key)
{
    struct entry *e;

    HASH_FIND_STR(c->entries, key, e);
    return e;
}

#define KEY_HEAD 2 /* bytes before what is asked for */

/* Borrowed until the next one; NULL when out of memory. */
static const char *catalog_key_of(struct catalog *c, const char *fn_id, const char *app,
                                  const char *source)
{
    struct buf *key = &c->key;
    int r;

    buf_clear(key);
    if (fn_id) {
        r = buf_add_str(key, "f:") | buf_add_str(key, fn_id);
    } else {
        r = buf_add_str(key, "t:") | buf_add_str(key, app ? app : "") | buf_add_str(key, " ") |
            buf_add_str(key, source ? source : "");
    }
    return r == 0 ? buf_text(key) : NULL;
}

/* fn_id or app, by which the key was made. */
static struct entry *entry_create(struct catalog *c, const char *key, const char *fn_id,
                                  const char *app)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (!e || !(e->key = strdup(key)) || (app && !(e->app = strdup(app)))) {
        free(e ? e->key : NULL);
        free(e);
        return NULL;
    }
    e->fn_id = fn_id ? e->key + KEY_HEAD : NULL;
    e->source = app ? e->key + KEY_HEAD + strlen(app) + 1 : NULL;
    e->catalog = c;
    TAILQ_INIT(&e->waiting);
    TAILQ_INIT(&e->answering);
    HASH_ADD_KEYPTR(hh, c->entries, e->key, strlen(e->key), e);
    if (!table_has(e)) {
        entry_free(e);
        return NULL;
    }
    return e;
}

static void drop_old(struct catalog *c)
{
    int64_t now_ns = env_now_ns(c->env);
    struct entry *e, *next;

    c->swept_ns = now_ns;
    HASH_ITER(hh, c->entries, e, next) {
        if (!e->fixed && !e->load && !e->pins && e->stale_until_ns < now_ns) {
            entry_destroy(e);
        }
    }
}

/* An entry without a function; the oldest of them makes room. */
static void stranger_keep(struct entry *e)
{
    struct catalog *c = e->catalog;
    struct entry *oldest;

    stranger_forget(e);
    e->is_stranger = true;
    TAILQ_INSERT_TAIL(&c->strangers, e, stranger_link);
    if (++c->strangers_n > STRANGERS_MAX) {
        oldest = TAILQ_FIRST(&c->strangers);
        if (oldest->pins) {
            stranger_forget(oldest); /* the sweep takes it */
        } else {
            entry_destroy(oldest);
        }
    }
}

static void on_sweep(struct env_timer *t)
{
    struct catalog *c = container_of(t, struct catalog, sweep);

    drop_old(c);
    env_timer_set(c->env, t, env_now_ns(c->env) + SWEEP_INTERVAL_NS);
}

/* ---- loading --------------------------------------------------------------------------------- */

static void load_next(struct entry *e);

/* The entry may be gone, or hold something else, when cb returns. */
static void answer(const struct entry *e, catalog_cb *cb, void *ud)
{
    struct fn_error missing;

    if (e->fn) {
        cb(ud, catalog_fn_ref(e->fn), NULL);
    } else {
        missing = e->missing;
        cb(ud, NULL, &missing);
    }
}

/* Everyone who waits gets what is there, or a refusal. The entry stays. */
static void answer_waiting(struct entry *e, const char *refusal)
{
    struct catalog_fn *fn = e->fn && !refusal ? catalog_fn_ref(e->fn) : NULL;
    struct fn_error missing = e->missing;
    struct catalog_query *q;

    if (refusal) {
        err_set_http(&missing, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM, "%s", refusal);
    }

    e->pins++;
    TAILQ_FOREACH(q, &e->waiting, link) {
        q->answering = true;
    }
    TAILQ_CONCAT(&e->answering, &e->waiting, link);
    while ((q = TAILQ_FIRST(&e->answering))) {
        TAILQ_REMOVE(&e->answering, q, link);
        q->cb(q->ud, fn ? catalog_fn_ref(fn) : NULL, fn ? NULL : &missing);
        free(q);
    }
    catalog_fn_unref(fn);
    e->pins--;
}

static void load_free(struct entry *e)
{
    struct load *l = e->load;
    struct catalog *c = e->catalog;

    e->load = NULL;
    e->epoch = l->epoch;
    lookups_end(&c->lookups, &l->lookup);
    if (env_timer_is_set(&l->patience)) {
        env_timer_clear(c->env, &l->patience);
    }
    arena_finish(&l->arena);
    free(l);
}

static void load_end(struct entry *e)
{
    load_free(e);
    answer_waiting(e, NULL);
    if (!e->fn && !e->load && !e->fixed) {
        stranger_keep(e);
    }
}

static bool old_may_serve(const struct entry *e)
{
    return e->fn && env_now_ns(e->catalog->env) < e->stale_until_ns;
}

/* What callers read of it; `why` is for the log. */
static const char unreachable[] = "LB306 the API node cannot be reached";
static const char unusable[] = "LB306 the API node gave no usable answer";
static const char unfit[] =
    "LB306 what the API node says of this function is malformed or beyond a limit";
static const char not_asked[] = "LB306 this load balancer could not ask the API node";
static const char too_many[] = "LB312 too many unknown functions are being looked up";
static const char too_many_here[] =
    "LB312 too many unknown functions are being looked up, for this address or for all";
static const char no_place[] =
    "LB306 the API node is too slow for the functions that are in use: this one was not asked about";

static int64_t patience_end_ns(const struct load *l)
{
    return l->begun_ns + (old_may_serve(l->entry) ? PATIENCE_NS : LOOKUPS_WAIT_NS);
}

/* The load goes on. */
static void on_patience(struct env_timer *t)
{
    struct load *l = container_of(t, struct load, patience);
    struct entry *e = l->entry;

    if (old_may_serve(e)) {
        answer_waiting(e, NULL);
    } else if (env_now_ns(e->catalog->env) < patience_end_ns(l)) {
        env_timer_set(e->catalog->env, t, patience_end_ns(l)); /* it could serve when it was set */
    } else if (l->lookup.waits) {
        answer_waiting(e, no_place);
    }
}

static void load_failed(struct entry *e, const char *text, const char *why)
{
    int64_t now_ns = env_now_ns(e->catalog->env);

    if (e->fixed) {
        load_end(e);
        return;
    }
    log_stranger(FN_LOG_WARN, "the lookup of a function at the API node failed", "key", e->key,
                 "error", why, "stale", e->fn ? "true" : "false");
    if (e->fn && e->stale_until_ns <= now_ns) {
        catalog_fn_unref(e->fn);
        e->fn = NULL;
    }
    e->failing = e->fn != NULL;
    e->refresh_at_ns = e->fresh_until_ns = e->fn ? now_ns + RETRY_NS : 0;
    err_set_http(&e->missing, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM, "%s", text);
    e->missing.retry_after_ns = RETRY_NS;
    load_end(e);
}

static void load_missing(struct entry *e, const char *what)
{
    int64_t now_ns = env_now_ns(e->catalog->env);

    if (e->fixed) {
        load_end(e);
        return;
    }
    catalog_fn_unref(e->fn);
    e->fn = NULL;
    e->failing = false;
    e->refresh_at_ns = e->fresh_until_ns = e->stale_until_ns = now_ns + MISSING_TTL_NS;
    err_set_http(&e->missing, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "%s not found", what);
    load_end(e);
}

/* No function gets another app's configuration, whatever the API node says. */
static int check_owner(const struct load *l, struct fn_error *reterr)
{
    if (strcmp(l->fn.app_id, l->app.id) != 0) {
        return err_set(reterr, FN_E_INVALID, "function %s is of app %s; expected app %s", l->fn.id,
                       l->fn.app_id, l->app.id);
    }
    if (l->trigger.fn_id[0] && strcmp(l->trigger.app_id, l->app.id) != 0) {
        return err_set(reterr, FN_E_INVALID, "trigger %s is of app %s; expected app %s",
                       l->trigger.id, l->trigger.app_id, l->app.id);
    }
    return 0;
}

static void load_done(struct entry *e)
{
    struct load *l = e->load;
    int64_t now_ns = env_now_ns(e->catalog->env);
    struct fn_error err;
    struct catalog_fn *f;

    if (e->fixed) { /* fn.yaml defined it meanwhile */
        load_end(e);
        return;
    }
    if (fn_def_check(&l->fn, &err) < 0 || check_owner(l, &err) < 0) {
        e->stale_until_ns = now_ns; /* the API node is up, and what it said before is not so */
        load_failed(e, unfit, err.msg);
        return;
    }
    f = catalog_fn_create(&l->app, &l->fn, l->trigger.id ? l->trigger.id : "");
    if (!f) {
        load_failed(e, not_asked, "out of memory");
        return;
    }
    catalog_fn_unref(e->fn);
    e->fn = f;
    e->failing = false;
    e->fresh_until_ns = now_ns + e->catalog->options.ttl_ns;
    e->refresh_at_ns = e->fresh_until_ns - e->catalog->options.ttl_ns / AHEAD_PART;
    e->stale_until_ns = e->fresh_until_ns + e->catalog->options.stale_ns;
    load_end(e);
}

/* Takes the body of a 200. 0, 1 = not there, or < 0. */
static int load_take(struct load *l, const char *body, size_t len, struct fn_error *err)
{
    int r;

    switch (l->step) {
    case LOAD_FN:
        r = fn_def_from_json(&l->fn, BY_NODE, &l->arena, body, len, err);
        l->has_fn = r == 0;
        l->step = LOAD_APP;
        return r;
    case LOAD_APP:
        r = app_from_json(&l->app, BY_NODE, &l->arena, body, len, err);
        l->has_app = r == 0;
        return r;
    case LOAD_APP_BY_NAME:
        r = app_list_first(&l->app, &l->arena, body, len, err);
        l->has_app = r == 0;
        if (r == 0) {
            l->step = LOAD_TRIGGER;
        }
        return r;
    case LOAD_TRIGGER:
        r = trigger_from_json(&l->trigger, BY_NODE, &l->arena, body, len, err);
        l->step = LOAD_FN;
        return r;
    }
    return FN_E_INTERNAL;
}

static const char *step_noun(enum load_step step)
{
    static const char *const nouns[] = { "Fn", "App", "App", "Trigger" };

    return nouns[step];
}

static void on_answer(void *ud, uint32_t status, const char *body, size_t len,
                      const struct fn_error *err)
{
    struct entry *e = ud;
    struct load *l = e->load;
    enum load_step step = l->step;
    struct fn_error local = ERR_INIT;
    const char *text;
    int r;

    if (status == 404) {
        load_missing(e, step_noun(step));
        return;
    }
    if (status != 200) {
        text = status ? api_message(&l->arena, body, len) : err ? err->msg : NULL;
        load_failed(e, status ? unusable : unreachable, text ? text : "an answer that is not 200");
        return;
    }
    r = load_take(l, body, len, &local);
    if (r < 0) {
        load_failed(e, unfit, local.msg);
    } else if (r > 0) {
        load_missing(e, step_noun(step));
    } else if (l->has_fn && l->has_app) {
        load_done(e);
    } else {
        load_next(e);
    }
}

/* Appends `s` percent-encoded; '/' stays where `keep_slash`. */
static int add_encoded(struct buf *b, const char *s, bool keep_slash)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~";
    int r = 0;

    for (; *s && r == 0; s++) {
        r = strchr(plain, *s) || (keep_slash && *s == '/')
                ? buf_add(b, s, 1)
                : buf_printf(b, "%%%02X", (unsigned char)*s);
    }
    return r;
}

static int step_path(const struct entry *e, struct buf *b)
{
    const struct load *l = e->load;

    switch (l->step) {
    case LOAD_FN:
        return buf_add_str(b, "/v2/fns/") < 0
                   ? FN_E_EXHAUSTED
                   : add_encoded(b, e->fn_id ? e->fn_id : l->trigger.fn_id, false);
    case LOAD_APP:
        return buf_add_str(b, "/v2/apps/") < 0 ? FN_E_EXHAUSTED
                                               : add_encoded(b, l->fn.app_id, false);
    case LOAD_APP_BY_NAME:
        return buf_add_str(b, "/v2/apps?name=") < 0 ? FN_E_EXHAUSTED
                                                    : add_encoded(b, e->app, false);
    case LOAD_TRIGGER: /* the double slash before the source is the API's contract */
        if (buf_add_str(b, "/v2/runner/apps/") < 0 || add_encoded(b, l->app.id, false) < 0 ||
            buf_add_str(b, "/triggerBySource/http/") < 0) {
            return FN_E_EXHAUSTED;
        }
        return add_encoded(b, e->source, true);
    }
    return FN_E_INTERNAL;
}

static void load_next(struct entry *e)
{
    const struct catalog_source *s = e->catalog->source;
    struct buf path = BUF_INIT(8192);
    int r;

    if (!s) {
        load_missing(e, e->fn_id ? "Fn" : "Trigger");
        return;
    }
    r = step_path(e, &path);
    r = r < 0 ? r : s->get(s->impl, buf_text(&path), on_answer, e);
    buf_finish(&path);
    if (r < 0) {
        load_failed(e, not_asked, "the request could not be queued");
    }
}

static void on_begin(struct lookup *l)
{
    load_next(container_of(l, struct load, lookup)->entry);
}

static void on_late(struct lookup *l)
{
    load_failed(container_of(l, struct load, lookup)->entry, too_many, "no place came free");
}

/* FN_E_EXHAUSTED: too many; FN_E_INTERNAL: no memory. */
static int load_start(struct entry *e, const unsigned char *address)
{
    struct catalog *c = e->catalog;
    struct load *l = calloc(1, sizeof(*l));
    int r;

    if (!l) {
        return FN_E_INTERNAL;
    }
    l->entry = e;
    l->lookup = (struct lookup){ .kind = e->fn ? LOOKUP_REFRESH : LOOKUP_NEW,
                                 .begin = on_begin,
                                 .late = on_late };
    l->patience.cb = on_patience;
    l->begun_ns = env_now_ns(c->env);
    l->epoch = c->changes.epoch;
    arena_init(&l->arena, 4 * 1024 * 1024);
    app_init(&l->app, &l->arena);
    fn_def_init(&l->fn, &l->arena);
    trigger_init(&l->trigger, &l->arena);
    l->step = e->fn_id ? LOAD_FN : LOAD_APP_BY_NAME;
    stranger_forget(e);
    e->load = l;
    r = lookups_start(&c->lookups, &l->lookup, address);
    if (r < 0) {
        load_free(e);
    }
    return r;
}

/* ---- questions ------------------------------------------------------------------------------- */

static void catalog_refuse(catalog_cb *cb, void *ud, const char *text)
{
    struct fn_error err;

    err_set_http(&err, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "%s", text);
    cb(ud, NULL, &err);
}

static struct catalog_query *wait_for(struct entry *e, catalog_cb *cb, void *ud)
{
    struct catalog_query *q = calloc(1, sizeof(*q));

    if (!q) {
        catalog_refuse(cb, ud, "out of memory");
        return NULL;
    }
    *q = (struct catalog_query){ .entry = e, .cb = cb, .ud = ud };
    TAILQ_INSERT_TAIL(&e->waiting, q, link);
    if (e->fn && !env_timer_is_set(&e->load->patience)) {
        env_timer_set(e->catalog->env, &e->load->patience, patience_end_ns(e->load));
    }
    return q;
}

/* The value that is there, though it is past its time and a load runs. */
static bool serves_old(const struct entry *e, int64_t now_ns)
{
    return old_may_serve(e) && (e->failing || now_ns >= e->load->begun_ns + PATIENCE_NS);
}

/* Whatever changed may be what was missing. */
static bool is_outdated(const struct entry *e)
{
    const struct catalog_changes *s = &e->catalog->changes;

    return e->epoch < s->expired_epoch || !e->fn ||
           catalog_changes_after(s, e->epoch, e->fn->model.fn_id) ||
           catalog_changes_after(s, e->epoch, e->fn->model.app_id) ||
           catalog_changes_after(s, e->epoch, e->fn->model.trigger_id);
}

/* Who tells of a change is not down: a failure of before is over. */
static void look_changed(struct entry *e, int64_t now_ns)
{
    if (is_outdated(e)) {
        e->refresh_at_ns = e->fresh_until_ns = now_ns;
        e->failing = false;
    }
    e->epoch = e->catalog->changes.epoch;
}

static struct catalog_query *catalog_ask(struct entry *e, const unsigned char *address,
                                         catalog_cb *cb, void *ud)
{
    int64_t now_ns = env_now_ns(e->catalog->env);
    int r = 0;

    if (e->epoch != e->catalog->changes.epoch && !e->load) {
        look_changed(e, now_ns);
    }
    if (!e->fixed && now_ns >= e->refresh_at_ns && !e->load) {
        r = load_start(e, address);
    }
    if (r < 0 && !old_may_serve(e)) {
        if (!e->fn && !e->pins) {
            entry_destroy(e);
        }
        catalog_refuse(cb, ud, r == FN_E_EXHAUSTED ? too_many_here : "out of memory");
        return NULL;
    }
    if (e->load && !e->fixed && now_ns >= e->fresh_until_ns && !serves_old(e, now_ns)) {
        lookups_join(&e->catalog->lookups, &e->load->lookup, address);
        return wait_for(e, cb, ud);
    }
    answer(e, cb, ud);
    return NULL;
}

static bool has_room(struct catalog *c)
{
    uint32_t max = c->options.entries_max ? c->options.entries_max : CATALOG_ENTRIES_MAX;

    if (HASH_COUNT(c->entries) >= max &&
        env_now_ns(c->env) - c->swept_ns >= SWEEP_FULL_NS) {
        drop_old(c);
    }
    return HASH_COUNT(c->entries) < max;
}

struct catalog_query *catalog_find(struct catalog *c, const unsigned char *address,
                                   const char *fn_id, const char *app, const char *source,
                                   catalog_cb *cb, void *ud)
{
    const char *key = catalog_key_of(c, fn_id, app, source);
    struct entry *e;
    struct fn_error err;

    if (!key) {
        catalog_refuse(cb, ud, "out of memory"); /* it may well be known */
        return NULL;
    }
    e = entry_find(c, key);
    if (e) {
        return catalog_ask(e, address, cb, ud);
    }
    if (!c->source) {
        err_set_http(&err, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "%s not found",
                     fn_id ? "Fn" : "Trigger");
        cb(ud, NULL, &err);
        return NULL;
    }
    if (!has_room(c)) {
        catalog_refuse(cb, ud, "LB312 this load balancer knows too many functions for another one");
        return NULL;
    }
    e = entry_create(c, key, fn_id, app);
    if (!e) {
        catalog_refuse(cb, ud, "out of memory");
        return NULL;
    }
    return catalog_ask(e, address, cb, ud);
}

/* A load that waits for its place, and that nobody waits for any more, is given up. */
void catalog_cancel(struct catalog_query *q)
{
    struct entry *e = q->entry;

    TAILQ_REMOVE(q->answering ? &e->answering : &e->waiting, q, link);
    free(q);
    if (e->load && e->load->lookup.waits && !e->fn && TAILQ_EMPTY(&e->waiting)) {
        load_free(e);
        if (!e->pins && TAILQ_EMPTY(&e->answering)) {
            entry_destroy(e);
        }
    }
}

/* ---- fn.yaml --------------------------------------------------------------------------------- */

int catalog_add(struct catalog *c, const struct app *app, const struct fn_def *fn,
                const struct trigger *t, struct fn_error *reterr)
{
    const char *key =
        t ? catalog_key_of(c, NULL, app->name, t->source) : catalog_key_of(c, fn->id, NULL, NULL);
    struct entry *e;

    if (key && entry_find(c, key)) {
        return err_set(reterr, FN_E_EXISTS, "%s \"%s\" of app \"%s\" stands twice",
                       t ? "trigger source" : "function id", t ? t->source : fn->id, app->name);
    }
    e = key ? entry_create(c, key, t ? NULL : fn->id, t ? app->name : NULL) : NULL;
    if (!e) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    e->fixed = true;
    e->fn = catalog_fn_create(app, fn, t ? t->id : "");
    return e->fn ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
}

/* The entry of fn.yaml is no more; a running load goes on for those who wait for it. */
static void unfix(struct entry *e)
{
    if (!e->load && !e->pins) {
        entry_destroy(e);
        return;
    }
    catalog_fn_unref(e->fn);
    e->fn = NULL;
    e->fixed = false;
    e->failing = false;
    e->refresh_at_ns = e->fresh_until_ns = e->stale_until_ns = 0;
}

/* Removes what catalog_admit() added. */
void catalog_dismiss(struct catalog *c, const struct catalog *given)
{
    struct entry *e, *next;

    HASH_ITER(hh, given->entries, e, next) {
        struct entry *own = entry_find(c, e->key);

        if (own && own->admitted) {
            entry_destroy(own);
        }
    }
}

int catalog_admit(struct catalog *c, const struct catalog *given, struct fn_error *reterr)
{
    struct entry *e, *next;

    HASH_ITER(hh, given->entries, e, next) {
        struct entry *own = entry_find(c, e->key);

        if (own) {
            continue;
        }
        own = entry_create(c, e->key, e->fn_id, e->app);
        if (!own) {
            catalog_dismiss(c, given);
            return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
        }
        own->admitted = true;
    }
    return 0;
}

void catalog_replace(struct catalog *c, struct catalog *given)
{
    struct entry *e, *next;

    HASH_ITER(hh, c->entries, e, next) {
        if (e->fixed && !entry_find(given, e->key)) {
            unfix(e);
        }
    }
    HASH_ITER(hh, given->entries, e, next) {
        struct entry *own = entry_find(c, e->key);

        assert(own); /* who did not call catalog_admit() could break it */
        stranger_forget(own);
        catalog_fn_unref(own->fn);
        own->fn = catalog_fn_ref(e->fn);
        own->fixed = true;
        own->admitted = own->failing = false;
    }
    catalog_destroy(given);
}

/* ---- the catalog ----------------------------------------------------------------------------- */

void catalog_set_options(struct catalog *c, const struct catalog_options *options,
                         const struct catalog_source *source)
{
    c->options = *options;
    c->source = source;
    if (source && !env_timer_is_set(&c->sweep)) {
        env_timer_set(c->env, &c->sweep, env_now_ns(c->env) + SWEEP_INTERVAL_NS);
    }
}

int catalog_create(struct env *env, const struct catalog_options *options,
                   const struct catalog_source *source, struct catalog **ret,
                   struct fn_error *reterr)
{
    struct catalog *c = calloc(1, sizeof(*c));

    if (!c) {
        return err_set(reterr, FN_E_EXHAUSTED, "catalog: out of memory");
    }
    c->env = env;
    c->sweep.cb = on_sweep;
    TAILQ_INIT(&c->strangers);
    lookups_init(&c->lookups, env);
    catalog_set_options(c, options, source);
    *ret = c;
    return 0;
}

void catalog_changed(struct catalog *c, const char *id)
{
    int64_t now_ns = env_now_ns(c->env);

    catalog_changes_add(&c->changes, id, now_ns, now_ns + c->options.ttl_ns);
}

void catalog_expire(struct catalog *c)
{
    catalog_changes_expire(&c->changes);
}

int64_t catalog_ttl_ns(const struct catalog *c)
{
    return c->options.ttl_ns;
}

void catalog_destroy(struct catalog *c)
{
    struct entry *e, *next;

    if (!c) {
        return;
    }
    if (env_timer_is_set(&c->sweep)) { /* else it may never have seen the loop */
        env_timer_clear(c->env, &c->sweep);
    }
    HASH_ITER(hh, c->entries, e, next) {
        if (e->load) {
            load_free(e);
        }
        entry_destroy(e);
    }
    lookups_finish(&c->lookups);
    catalog_changes_finish(&c->changes);
    buf_finish(&c->key);
    free(c);
}
