/* Apps: functions and triggers that fn.yaml defines, by the rules of Go Fn's api/models. */
#include <config/config_int.h>

#include <conf/opts.h>
#include <model/app.h>
#include <model/json.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_LEN 26

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

#define AT(field) offsetof(struct config_app, field)
const struct fn_opt config_app_opts[] = {
    OPT("name", STR, AT(app.name), NULL, 1, MODEL_NAME_MAX,
        "Name of the app, unique in the file, of letters, digits, _ and -. It is part of the "
        "URLs of triggers."),
    OPT_ABSENT("id", STR, AT(app.id), 1, 64,
               "Id of the app. When absent: derived from its name, so it is the same on every "
               "node."),
    OPT_ABSENT("syslog_url", STR, AT(app.syslog_url), 1, MODEL_TEXT_MAX,
               "Log server that gets what the app's functions print, such as udp://host:port "
               "(driver docker only). When absent: none does; see runner.user_logs."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct config_fn, field)
const struct fn_opt config_fn_opts[] = {
    OPT("name", STR, AT(fn.name), NULL, 1, MODEL_NAME_MAX,
        "Name of the function, unique in its app."),
    OPT("image", STR, AT(fn.image), NULL, 1, 1024,
        "Image of the function; for driver process the name of its executable, whose registry, "
        "path and tag do not matter."),
    OPT_ABSENT("id", STR, AT(fn.id), 1, 64,
               "Id of the function, as in /invoke/<id>. When absent: derived from the names of "
               "app and function, so it is the same on every node."),
    OPT_COUNT("memory", INT, AT(fn.mem_mb), NUMBER_TEXT(MODEL_MEM_MB_DEFAULT), 1,
              MODEL_MEM_MB_MAX, "MB",
              "Memory of a container of the function; a function that uses more is killed, and "
              "its call fails with 502. It is also what the call counts as demand for runners."),
    OPT_COUNT("timeout", INT32, AT(fn.timeout_s), NUMBER_TEXT(MODEL_TIMEOUT_S_DEFAULT), 1,
              MODEL_TIMEOUT_S_MAX, "seconds",
              "Time for one call of the function; then it fails with 504, and the container is "
              "removed."),
    OPT_COUNT("idle_timeout", INT32, AT(fn.idle_timeout_s), NUMBER_TEXT(MODEL_IDLE_S_DEFAULT), 1,
              MODEL_IDLE_S_MAX, "seconds",
              "Time after its last call when a container of the function is removed. A longer "
              "time means fewer cold starts and more memory in use."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct config_trigger, field)
const struct fn_opt config_trigger_opts[] = {
    OPT("name", STR, AT(trigger.name), NULL, 1, MODEL_NAME_MAX,
        "Name of the trigger, unique in its function."),
    OPT("source", STR, AT(trigger.source), NULL, 1, MODEL_TEXT_MAX,
        "Path of the trigger, which begins with / and follows /t/<app> in its URL."),
    OPT_ABSENT("id", STR, AT(trigger.id), 1, 64,
               "Id of the trigger. When absent: derived from the names of app, function and trigger, so "
               "it is the same on every node."),
    { .key = NULL },
};
#undef AT

static const char *const app_others[] = { "config", "annotations", "functions", NULL };
static const char *const fn_others[] = { "config", "annotations", "triggers", NULL };
static const char *const trigger_others[] = { "annotations", NULL };

/* 130 bits of a hash in the alphabet of Fn's ids; the first character holds three. */
static const char *id_of(struct config *c, const char *kind, const char *a, const char *b,
                         const char *last)
{
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    const char *text = arena_printf(&c->priv->arena, "%s\n%s\n%s\n%s", kind, a ? a : "", b ? b : "",
                                    last ? last : "");
    char *id = config_alloc(c, ID_LEN + 1);
    unsigned char hash[SHA256_DIGEST_LENGTH];

    if (!text || !id) {
        return NULL;
    }
    SHA256((const unsigned char *)text, strlen(text), hash);
    for (int i = 0; i < ID_LEN; i++) {
        id[i] = alphabet[hash[i] & (i == 0 ? 7 : 31)];
    }
    return id;
}

static void apps_refuse(const struct config *c, const struct conf_node *n, const char *key,
                        const char *got, const char *rule, struct conf_problems *p)
{
    conf_problem(p, "CFG704", conf_where(c->priv->file, n), "%s, got %s; expected %s", key,
                 conf_quote(got), rule);
}

/* `text` may be NULL: its absence was told already. */
static void check_plain(const struct config *c, const struct conf_node *map, const char *text,
                        struct conf_problems *p)
{
    const struct conf_node *n = conf_get(map, "name");

    if (text && !app_name_is_plain(text)) {
        apps_refuse(c, n ? n : map, "name", text, "letters, digits, _ and -", p);
    }
}

/* The same. */
static void check_name(const struct config *c, const struct conf_node *map, const char *key,
                       const char *text, const char *others, const char *rule,
                       struct conf_problems *p)
{
    const struct conf_node *n = conf_get(map, key);

    for (const char *at = text; at && *at; at++) {
        if (!strchr(LETTERS, *at) && !strchr(others, *at)) {
            apps_refuse(c, n ? n : map, key, text, rule, p);
            return;
        }
    }
}

/* ---- config and annotations ------------------------------------------------------------------ */

/* The children of what is below `key`, a map or a list; NULL when there are none. */
static struct conf_node *children_of(const struct config *c, const struct conf_node *map,
                                     const char *key, enum conf_type type, uint32_t *ret_n,
                                     struct conf_problems *p)
{
    struct conf_node *n = conf_get(map, key);

    *ret_n = 0;
    if (!n || (n->type == CONF_SCALAR && !n->text[0])) {
        return NULL;
    }
    if (n->type != type) {
        apps_refuse(c, n, key, n->text ? n->text : type == CONF_MAP ? "a list" : "a map",
                    type == CONF_MAP ? "a map of keys" : "a list, each item beginning with -", p);
        return NULL;
    }
    for (const struct conf_node *i = n->first; i; i = i->next) {
        ++*ret_n;
    }
    return n->first;
}

static void set_pair(struct config *c, struct kvs *k, const char *key, const char *value)
{
    k->arena = &c->priv->arena;
    kvs_set_borrowed(k, key, value); /* the arena knows when it has no memory */
}

static void read_config(struct config *c, const struct conf_node *map, struct kvs *ret,
                        struct conf_problems *p)
{
    uint32_t count;
    const struct conf_node *n = children_of(c, map, "config", CONF_MAP, &count, p);

    for (; n; n = n->next) {
        set_pair(c, ret, n->key, n->text ? n->text : "");
        if (n->type != CONF_SCALAR) {
            apps_refuse(c, n, n->key, n->type == CONF_MAP ? "a map" : "a list", "a text", p);
        }
        if (!app_config_is_key(n->key)) {
            apps_refuse(c, n, "config", n->key, "the name of an environment variable", p);
        }
    }
}

/* Numbers and truths stay as they are written, and are not read: what a double cannot hold is a
 * number, too. All else is text. */
static bool is_json_word(struct config *c, const struct conf_node *n)
{
    enum jr_kind kind;
    struct jr r;

    jr_init(&r, n->text, strlen(n->text), &c->priv->arena);
    kind = jr_peek(&r);
    return !n->quoted && (kind == JR_NUMBER || kind == JR_BOOL) && jr_skip(&r) == 0 &&
           jr_end(&r) == 0;
}

static int add_scalar(struct config *c, const struct conf_node *n, struct buf *out)
{
    if (!n->quoted && !n->text[0]) {
        return buf_add_str(out, "null");
    }
    return is_json_word(c, n) ? buf_add_str(out, n->text) : jw_string(out, n->text);
}

/* Depth is bounded by the file's. 0 or FN_E_EXHAUSTED. */
static int add_json(struct config *c, const struct conf_node *n, struct buf *out)
{
    const bool map = n->type == CONF_MAP;
    int r;

    if (n->type == CONF_SCALAR) {
        return add_scalar(c, n, out);
    }
    r = buf_add(out, map ? "{" : "[", 1);
    for (const struct conf_node *i = n->first; i && r == 0; i = i->next) {
        r = i == n->first ? 0 : buf_add(out, ",", 1);
        r = r < 0 || !map ? r : jw_string(out, i->key);
        r = r < 0 || !map ? r : buf_add(out, ":", 1);
        r = r < 0 ? r : add_json(c, i, out);
    }
    return r < 0 ? r : buf_add(out, map ? "}" : "]", 1);
}

static void read_annotations(struct config *c, const struct conf_node *map, struct kvs *ret,
                             struct conf_problems *p)
{
    uint32_t count;
    const struct conf_node *n = children_of(c, map, "annotations", CONF_MAP, &count, p);

    if (count > MODEL_ANNOTATIONS_MAX) {
        apps_refuse(c, map, "annotations", "more than " NUMBER_TEXT(MODEL_ANNOTATIONS_MAX),
                    "at most " NUMBER_TEXT(MODEL_ANNOTATIONS_MAX), p);
    }
    for (; n; n = n->next) {
        struct buf out = BUF_INIT(0);
        const char *text = add_json(c, n, &out) < 0 ? NULL : buf_text(&out);

        if (!text) {
            conf_problem(p, "CFG704", conf_where(c->priv->file, n), "%s: out of memory", n->key);
            buf_finish(&out);
            return;
        }
        set_pair(c, ret, n->key, arena_strdup(&c->priv->arena, text));
        if (!app_annotation_is_key(n->key) || strlen(n->key) > MODEL_ANNOTATION_KEY_MAX) {
            apps_refuse(c, n, "annotations", n->key,
                        "a key of 1 to " NUMBER_TEXT(MODEL_ANNOTATION_KEY_MAX)
                        " printable ASCII characters", p);
        }
        if (strlen(text) > MODEL_ANNOTATION_BYTES_MAX || app_annotation_is_nothing(text)) {
            apps_refuse(c, n, n->key, text,
                        "a value of at most " NUMBER_TEXT(MODEL_ANNOTATION_BYTES_MAX)
                        " bytes as JSON, not empty", p);
        }
        buf_finish(&out);
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int line_of(const char *where)
{
    const char *column = where ? strrchr(where, ':') : NULL;
    const char *line = column;

    while (line && line > where && line[-1] != ':') {
        line--;
    }
    return line ? (int)strtol(line, NULL, 10) : 0;
}

static void told_twice(const char *where, const char *what, const char *text, const char *first,
                       const char *rule, struct conf_problems *p)
{
    conf_problem(p, "CFG703", where, "%s %s is defined twice, first at line %d; expected %s", what,
                 conf_quote(text), line_of(first), rule);
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void read_triggers(struct config *c, const struct conf_node *map,
                          const struct config_app *app, struct config_fn *fn,
                          struct conf_problems *p)
{
    struct conf_node *n = children_of(c, map, "triggers", CONF_LIST, &fn->n_triggers, p);
    struct config_trigger *t = config_alloc(c, (fn->n_triggers + 1) * sizeof(*t));

    fn->triggers = t;
    fn->n_triggers = t ? fn->n_triggers : 0;
    for (uint32_t i = 0; n && t; n = n->next, i++) {
        config_bind_into(c, n, "trigger", config_trigger_opts, &t[i], sizeof(t[i]), trigger_others,
                         p);
        t[i].where = config_where(c, n);
        read_annotations(c, n, &t[i].trigger.annotations, p);
        check_plain(c, n, t[i].trigger.name, p);
        if (t[i].trigger.source && t[i].trigger.source[0] != '/') {
            apps_refuse(c, conf_get(n, "source"), "source", t[i].trigger.source,
                        "a path that begins with /", p);
        }
        if (!t[i].trigger.id) {
            t[i].trigger.id = id_of(c, "trigger", app->app.name, fn->fn.name, t[i].trigger.name);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (same(t[k].trigger.name, t[i].trigger.name)) {
                told_twice(t[i].where, "trigger", t[i].trigger.name, t[k].where,
                           "each name once in a function", p);
            }
        }
    }
}

/* One source leads to one function of the app. */
static void check_sources(const struct config_app *app, const struct config_fn *fn,
                          struct conf_problems *p)
{
    for (uint32_t i = 0; i < fn->n_triggers; i++) {
        for (const struct config_fn *other = app->fns; other <= fn; other++) {
            uint32_t end = other == fn ? i : other->n_triggers;

            for (uint32_t k = 0; k < end; k++) {
                const struct config_trigger *first = &other->triggers[k];

                if (same(first->trigger.source, fn->triggers[i].trigger.source)) {
                    told_twice(fn->triggers[i].where, "trigger source", first->trigger.source,
                               first->where, "each source once in an app", p);
                }
            }
        }
    }
}

static const struct config_fn *fn_by_id(const struct config *c, const char *id,
                                        const struct config_fn *self)
{
    for (uint32_t a = 0; a < c->n_apps; a++) {
        for (uint32_t i = 0; i < c->apps[a].n_fns; i++) {
            const struct config_fn *f = &c->apps[a].fns[i];

            if (f == self || !f->where) {
                return NULL;
            }
            if (same(f->fn.id, id)) {
                return f;
            }
        }
    }
    return NULL;
}

static void read_fn(struct config *c, struct conf_node *map, const struct config_app *app,
                    struct config_fn *fn, struct conf_problems *p)
{
    const struct config_fn *twin;

    config_bind_into(c, map, "function", config_fn_opts, fn, sizeof(*fn), fn_others, p);
    fn->where = config_where(c, map);
    check_name(c, map, "name", fn->fn.name, "-_.~$&+:=@", "letters, digits and -_.~$&+:=@", p);
    check_name(c, map, "id", fn->fn.id, "-_.~", "letters, digits and -_.~", p);
    if (!fn->fn.id) {
        fn->fn.id = id_of(c, "fn", app->app.name, fn->fn.name, NULL);
    } else {
        twin = fn_by_id(c, fn->fn.id, fn);
        if (twin) {
            told_twice(fn->where, "function id", fn->fn.id, twin->where, "each id once", p);
        }
    }
    fn->fn.app_id = app->app.id;
    read_config(c, map, &fn->fn.config, p);
    read_annotations(c, map, &fn->fn.annotations, p);
    read_triggers(c, map, app, fn, p);
    check_sources(app, fn, p);
    for (const struct config_fn *other = app->fns; other < fn; other++) {
        if (same(other->fn.name, fn->fn.name)) {
            told_twice(fn->where, "function", fn->fn.name, other->where,
                       "each name once in an app", p);
        }
    }
}

static void check_syslog(const struct config *c, const struct conf_node *map,
                         const struct config_app *app, struct conf_problems *p)
{
    if (app->app.syslog_url && !app_syslog_is_known(app->app.syslog_url)) {
        apps_refuse(c, conf_get(map, "syslog_url"), "syslog_url", app->app.syslog_url,
                    "udp, tcp, unix, unixgram or tcp+tls://...", p);
    }
}

static void read_app(struct config *c, struct conf_node *map, struct config_app *app,
                     struct conf_problems *p)
{
    struct conf_node *n;
    struct config_fn *fns;

    config_bind_into(c, map, "app", config_app_opts, app, sizeof(*app), app_others, p);
    app->where = config_where(c, map);
    check_plain(c, map, app->app.name, p);
    check_syslog(c, map, app, p);
    if (!app->app.id) {
        app->app.id = id_of(c, "app", app->app.name, NULL, NULL);
    }
    read_config(c, map, &app->app.config, p);
    read_annotations(c, map, &app->app.annotations, p);
    n = children_of(c, map, "functions", CONF_LIST, &app->n_fns, p);
    fns = config_alloc(c, (app->n_fns + 1) * sizeof(*fns));
    app->fns = fns;
    app->n_fns = fns ? app->n_fns : 0;
    for (; n && fns; n = n->next) {
        read_fn(c, n, app, fns++, p);
    }
    for (const struct config_app *other = c->apps; other < app; other++) {
        /* Without a name the id is nobody's, and that was told. */
        if (app->app.name && same(other->app.name, app->app.name)) {
            told_twice(app->where, "app", app->app.name, other->where, "each name once", p);
        } else if (app->app.name && same(other->app.id, app->app.id)) {
            told_twice(app->where, "app id", app->app.id, other->where, "each id once", p);
        }
    }
}

void config_apps_read(struct config *c, struct conf_problems *p)
{
    const struct conf_node *root = conf_root(c->priv->file);
    uint32_t n_apps;
    struct conf_node *n = children_of(c, root, "apps", CONF_LIST, &n_apps, p);
    const struct conf_node *list = conf_get(root, "apps");
    bool given = list && list->type == CONF_LIST; /* a key without a value is an absent one */
    struct config_app *apps = given ? config_alloc(c, (n_apps + 1) * sizeof(*apps)) : NULL;

    c->apps = apps;
    c->n_apps = apps ? n_apps : 0;
    for (; n && apps; n = n->next) {
        read_app(c, n, apps++, p);
    }
}
