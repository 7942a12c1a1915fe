/* The catalog: one entry per question ("f:<fn id>", "t:<app> <source>") and its loading.
 *
 * An entry is fixed (fn.yaml), or loaded from the API node by a chain of requests (steps below).
 * While it loads, everyone who asks waits in its queue (single flight). Loaded values are fresh for
 * ttl_ns; when a reload fails the last good value is served for stale_ns more, without waiting for
 * the next try. "Not there" is believed for MISSING_TTL_NS, which bounds what a stranger's random
 * ids cost. */
#include <lb/catalog.h>

#include <assert.h>
#include <base/arena.h>
#include <base/log.h>
#include <model/app.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

#define MISSING_TTL_NS    (1 * ENV_S)
#define RETRY_NS          (1 * ENV_S)
#define SWEEP_INTERVAL_NS (60 * ENV_S)

typedef void catalog_cb(void *ud, struct catalog_fn *given, const struct fn_error *err);

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
    char *fn_id;        /* question of an invoke, else NULL */
    char *app, *source; /* question of a trigger, else NULL */
    bool fixed;
    bool failing;          /* the last load failed; `fn` is older than its ttl */
    struct catalog_fn *fn; /* NULL = not loaded or not there */
    struct fn_error missing;
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
    struct buf key; /* of the question at hand */
    struct env_timer sweep;
};

/* ---- functions ------------------------------------------------------------------------------- */

struct catalog_fn *catalog_fn_ref(struct catalog_fn *f)
{
    f->refs++;
    return f;
}

void catalog_fn_unref(struct catalog_fn *f)
{
    struct arena *arena;

    if (f && --f->refs == 0) {
        arena = f->memory;
        arena_finish(arena);
        free(arena);
    }
}

static int force_keys(struct kvs *config, const char *app_id, const struct fn_def *fn)
{
    const char *mem = arena_printf(config->arena, "%llu", (unsigned long long)fn->mem_mb);

    if (!mem || kvs_set(config, "FN_MEMORY", mem) < 0 || kvs_set(config, "FN_TYPE", "sync") < 0 ||
        kvs_set(config, "FN_FN_ID", fn->id) < 0 || kvs_set(config, "FN_APP_ID", app_id) < 0) {
        return FN_E_EXHAUSTED;
    }
    return 0;
}

static int overlay(struct kvs *to, const struct kvs *app, const struct kvs *fn)
{
    int r = kvs_copy(to, app);

    for (uint32_t i = 0; r == 0 && i < fn->n; i++) {
        r = kvs_set(to, fn->items[i].key, fn->items[i].value);
    }
    return r;
}

static int fill(struct catalog_fn *f, struct arena *a, const struct app *app,
                const struct fn_def *fn, const char *trigger_id)
{
    struct kvs config, annotations;

    kvs_init(&config, a);
    kvs_init(&annotations, a);
    if (overlay(&config, &app->config, &fn->config) < 0 ||
        force_keys(&config, app->id, fn) < 0 ||
        overlay(&annotations, &app->annotations, &fn->annotations) < 0) {
        return FN_E_EXHAUSTED;
    }
    *f = (struct catalog_fn){
        .refs = 1,
        .fn_id = arena_strdup(a, fn->id),
        .app_id = arena_strdup(a, app->id),
        .app_name = arena_strdup(a, app->name),
        .trigger_id = arena_strdup(a, trigger_id),
        .image = arena_strdup(a, fn->image),
        .syslog_url = app->syslog_url && app->syslog_url[0] ? arena_strdup(a, app->syslog_url)
                                                            : NULL,
        .mem_mb = fn->mem_mb,
        .timeout_s = fn->timeout_s,
        .idle_timeout_s = fn->idle_timeout_s,
        .config = config.items,
        .n_config = config.n,
        .annotations = annotations.items,
        .n_annotations = annotations.n,
        .memory = a,
    };
    return f->fn_id && f->app_id && f->app_name && f->trigger_id && f->image ? 0 : FN_E_EXHAUSTED;
}

/* A function ready to be called, in an arena of its own. NULL when out of memory. */
static struct catalog_fn *fn_create(const struct app *app, const struct fn_def *fn,
                                    const char *trigger_id)
{
    struct arena *a = malloc(sizeof(*a));
    struct catalog_fn *f;

    if (!a) {
        return NULL;
    }
    arena_init(a, 0);
    f = arena_alloc(a, sizeof(*f));
    if (!f || fill(f, a, app, fn, trigger_id) < 0) {
        arena_finish(a);
        free(a);
        return NULL;
    }
    return f;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void entry_destroy(struct entry *e)
{
    assert(TAILQ_EMPTY(&e->waiting) && TAILQ_EMPTY(&e->answering) && !e->load && !e->pins);
    HASH_DEL(e->catalog->entries, e);
    catalog_fn_unref(e->fn);
    free(e->fn_id);
    free(e->app);
    free(e->source);
    free(e->key);
    free(e);
}

static struct entry *entry_find(struct catalog *c, const char *key)
{
    struct entry *e;

    HASH_FIND_STR(c->entries, key, e);
    return e;
}

/* Borrowed until the next one; NULL when out of memory. */
static const char *key_of(struct catalog *c, const char *fn_id, const char *app,
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

static struct entry *entry_create(struct catalog *c, const char *key, const char *fn_id,
                                  const char *app, const char *source)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (!e || !(e->key = strdup(key))) {
        free(e);
        return NULL;
    }
    e->catalog = c;
    TAILQ_INIT(&e->waiting);
    TAILQ_INIT(&e->answering);
    e->fn_id = fn_id ? strdup(fn_id) : NULL;
    e->app = app ? strdup(app) : NULL;
    e->source = source ? strdup(source) : NULL;
    HASH_ADD_KEYPTR(hh, c->entries, e->key, strlen(e->key), e);
    if ((fn_id && !e->fn_id) || (app && !e->app) || (source && !e->source)) {
        entry_destroy(e);
        return NULL;
    }
    return e;
}

static void drop_old(struct catalog *c)
{
    int64_t now_ns = env_now_ns(c->env);
    struct entry *e, *next;

    HASH_ITER(hh, c->entries, e, next) {
        if (!e->fixed && !e->load && !e->pins && e->stale_until_ns < now_ns) {
            entry_destroy(e);
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

/* Everyone who waited for this load gets what it brought. */
static void load_end(struct entry *e)
{
    struct catalog_fn *fn = e->fn ? catalog_fn_ref(e->fn) : NULL;
    struct fn_error missing = e->missing;
    struct catalog_query *q;

    arena_finish(&e->load->arena);
    free(e->load);
    e->load = NULL;
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

/* What callers read of it; `why` is for the log. */
static const char unreachable[] = "LB306 the API node cannot be reached";
static const char unusable[] = "LB306 the API node gave no usable answer";
static const char not_asked[] = "LB306 this load balancer could not ask the API node";

static void load_failed(struct entry *e, const char *text, const char *why)
{
    int64_t now_ns = env_now_ns(e->catalog->env);

    if (e->fixed) {
        load_end(e);
        return;
    }
    log_warn("the API node cannot tell about a function", "key", e->key, "error", why, "stale",
             e->fn ? "true" : "false");
    if (e->fn && e->stale_until_ns <= now_ns) {
        catalog_fn_unref(e->fn);
        e->fn = NULL;
    }
    e->failing = e->fn != NULL;
    e->fresh_until_ns = e->fn ? now_ns + RETRY_NS : 0;
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
    e->fresh_until_ns = e->stale_until_ns = now_ns + MISSING_TTL_NS;
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
        load_failed(e, unusable, err.msg);
        return;
    }
    f = fn_create(&l->app, &l->fn, l->trigger.id ? l->trigger.id : "");
    if (!f) {
        load_failed(e, not_asked, "out of memory");
        return;
    }
    catalog_fn_unref(e->fn);
    e->fn = f;
    e->failing = false;
    e->fresh_until_ns = now_ns + e->catalog->options.ttl_ns;
    e->stale_until_ns = e->fresh_until_ns + e->catalog->options.stale_ns;
    load_end(e);
}

/* Takes the body of a 200. 0, 1 = not there, or < 0. */
static int load_take(struct load *l, const char *body, size_t len, struct fn_error *err)
{
    int r;

    switch (l->step) {
    case LOAD_FN:
        r = fn_def_from_json(&l->fn, &l->arena, body, len, err);
        l->has_fn = r == 0;
        l->step = LOAD_APP;
        return r;
    case LOAD_APP:
        r = app_from_json(&l->app, &l->arena, body, len, err);
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
        r = trigger_from_json(&l->trigger, &l->arena, body, len, err);
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
        load_failed(e, unusable, local.msg);
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

static int load_start(struct entry *e)
{
    struct load *l = calloc(1, sizeof(*l));

    if (!l) {
        return FN_E_EXHAUSTED;
    }
    arena_init(&l->arena, 4 * 1024 * 1024);
    app_init(&l->app, &l->arena);
    fn_def_init(&l->fn, &l->arena);
    trigger_init(&l->trigger);
    l->step = e->fn_id ? LOAD_FN : LOAD_APP_BY_NAME;
    e->load = l;
    load_next(e);
    return 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

static void refuse(catalog_cb *cb, void *ud, const char *text)
{
    struct fn_error err;

    err_set_http(&err, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "%s", text);
    cb(ud, NULL, &err);
}

static struct catalog_query *wait_for(struct entry *e, catalog_cb *cb, void *ud)
{
    struct catalog_query *q = calloc(1, sizeof(*q));

    if (!q) {
        refuse(cb, ud, "out of memory");
        return NULL;
    }
    *q = (struct catalog_query){ .entry = e, .cb = cb, .ud = ud };
    TAILQ_INSERT_TAIL(&e->waiting, q, link);
    return q;
}

static struct catalog_query *ask(struct entry *e, catalog_cb *cb, void *ud)
{
    struct catalog *c = e->catalog;
    int64_t now_ns = env_now_ns(c->env);
    bool fresh = e->fixed || now_ns < e->fresh_until_ns;
    bool serve_old = e->failing && e->fn && now_ns < e->stale_until_ns;

    if (!fresh && !e->load && load_start(e) < 0) {
        refuse(cb, ud, "out of memory");
        return NULL;
    }
    if (e->load && !serve_old && !e->fixed) {
        return wait_for(e, cb, ud);
    }
    answer(e, cb, ud);
    return NULL;
}

static struct catalog_query *find(struct catalog *c, const char *fn_id, const char *app,
                                  const char *source, catalog_cb *cb, void *ud)
{
    const char *key = key_of(c, fn_id, app, source);
    struct entry *e = key ? entry_find(c, key) : NULL;
    struct fn_error err;

    if (e) {
        return ask(e, cb, ud);
    }
    if (!c->source) {
        err_set_http(&err, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "%s not found",
                     fn_id ? "Fn" : "Trigger");
        cb(ud, NULL, &err);
        return NULL;
    }
    if (HASH_COUNT(c->entries) >= c->options.entries_max) {
        drop_old(c);
    }
    if (key && HASH_COUNT(c->entries) < c->options.entries_max) {
        e = entry_create(c, key, fn_id, app, source);
    }
    if (!e) {
        refuse(cb, ud, "LB312 too many functions are being looked up");
        return NULL;
    }
    return ask(e, cb, ud);
}

struct catalog_query *catalog_find_fn(struct catalog *c, const char *fn_id, catalog_cb *cb,
                                      void *ud)
{
    return find(c, fn_id, NULL, NULL, cb, ud);
}

struct catalog_query *catalog_find_trigger(struct catalog *c, const char *app_name,
                                           const char *source, catalog_cb *cb, void *ud)
{
    return find(c, NULL, app_name, source, cb, ud);
}

void catalog_cancel(struct catalog_query *q)
{
    TAILQ_REMOVE(q->answering ? &q->entry->answering : &q->entry->waiting, q, link);
    free(q);
}

/* ---- fn.yaml --------------------------------------------------------------------------------- */

static int add_fixed(struct catalog *c, const struct app *app, const struct fn_def *fn,
                     const struct catalog_trigger_def *t, struct fn_error *reterr)
{
    const char *key = t ? key_of(c, NULL, app->name, t->source) : key_of(c, fn->id, NULL, NULL);
    struct entry *e;

    if (key && entry_find(c, key)) {
        return err_set(reterr, FN_E_EXISTS, "%s \"%s\" of app \"%s\" stands twice",
                       t ? "trigger source" : "function id", t ? t->source : fn->id, app->name);
    }
    e = key ? entry_create(c, key, t ? NULL : fn->id, t ? app->name : NULL, t ? t->source : NULL)
            : NULL;
    if (!e) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    e->fixed = true;
    e->fn = fn_create(app, fn, t ? t->id : "");
    return e->fn ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
}

/* Copies into k; the texts themselves are borrowed until the functions are made. */
static int take_kvs(struct kvs *k, const struct fn_kv *items, uint32_t n)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = kvs_set(k, items[i].key, items[i].value);
    }
    return r;
}

static int add_fn(struct catalog *c, struct arena *a, const struct app *app,
                  const struct catalog_fn_def *def, struct fn_error *reterr)
{
    struct fn_def fn;
    int r;

    fn_def_init(&fn, a);
    fn.id = def->id;
    fn.app_id = app->id;
    fn.image = def->image;
    fn.mem_mb = def->mem_mb;
    fn.timeout_s = def->timeout_s;
    fn.idle_timeout_s = def->idle_timeout_s;
    if (take_kvs(&fn.config, def->config, def->n_config) < 0 ||
        take_kvs(&fn.annotations, def->annotations, def->n_annotations) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    r = add_fixed(c, app, &fn, NULL, reterr);
    for (uint32_t i = 0; r == 0 && i < def->n_triggers; i++) {
        r = add_fixed(c, app, &fn, &def->triggers[i], reterr);
    }
    return r;
}

int catalog_add_app(struct catalog *c, const struct catalog_app_def *def, struct fn_error *reterr)
{
    struct arena a;
    struct app app;
    int r = 0;

    arena_init(&a, 0);
    app_init(&app, &a);
    app.id = def->id;
    app.name = def->name;
    app.syslog_url = def->syslog_url;
    if (take_kvs(&app.config, def->config, def->n_config) < 0 ||
        take_kvs(&app.annotations, def->annotations, def->n_annotations) < 0) {
        r = err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    for (uint32_t i = 0; r == 0 && i < def->n_fns; i++) {
        r = add_fn(c, &a, &app, &def->fns[i], reterr);
    }
    arena_finish(&a);
    return r;
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
    e->fresh_until_ns = e->stale_until_ns = 0;
}

static void move_in(struct catalog *c, struct entry *given)
{
    struct entry *e = entry_find(c, given->key);

    if (e) {
        catalog_fn_unref(e->fn);
        e->fn = catalog_fn_ref(given->fn);
        e->fixed = true;
        e->failing = false;
        return;
    }
    HASH_DEL(given->catalog->entries, given);
    given->catalog = c;
    HASH_ADD_KEYPTR(hh, c->entries, given->key, strlen(given->key), given);
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
        move_in(c, e);
    }
    catalog_destroy(given);
}

/* ---- life ------------------------------------------------------------------------------------ */

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
    catalog_set_options(c, options, source);
    *ret = c;
    return 0;
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
            arena_finish(&e->load->arena);
            free(e->load);
            e->load = NULL;
        }
        entry_destroy(e);
    }
    buf_finish(&c->key);
    free(c);
}
