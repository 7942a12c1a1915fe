/* Plugins: which ones a node has by fn.yaml and variables, and their options. Defaults are those of
 * the sides (side_lb.c and its like). */
#include <config/config_int.h>
#include <plugin/sandbox.h>

#include <conf/opts.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 64 /* plugins of one kind that a wrong name is compared with */
#define NAME_MAX_BYTES 33
#define SECTION_NAME_BYTES 640 /* a place, a kind and a name */

static const char *const plugin_keys[] = { "use", "file", "name", "sha256", NULL };
#define AT(field) .offset = offsetof(struct config, field)
#define LB     (1u << SIDE_LB)
#define RUNNER (1u << SIDE_RUNNER)
#define NPM    (1u << SIDE_NPM)
#define API    (1u << SIDE_API)
const struct config_plugin_key config_plugin_keys[] = {
    { "placer", FN_KIND_PLACER, SHAPE_STACK, AT(placers), .sides = LB },
    { "fallback", FN_KIND_PLACER, SHAPE_ONE, AT(fallback), .sides = LB },
    { "shadow", FN_KIND_PLACER, SHAPE_STACK, AT(shadow), .sides = LB },
    { "pool", FN_KIND_POOL, SHAPE_ONE, AT(pool), .sides = LB },
    { "driver", FN_KIND_DRIVER, SHAPE_STACK, AT(drivers), .sides = RUNNER },
    { "control_plane", FN_KIND_CONTROL_PLANE, SHAPE_ONE, AT(cplane), .sides = NPM },
    { "predictor", FN_KIND_PREDICTOR, SHAPE_ONE, AT(predictor), .sides = NPM },
    { "operator", FN_KIND_OPERATOR, SHAPE_ONE, AT(operator_), .sides = RUNNER },
    { "warm", FN_KIND_PREDICTOR, SHAPE_ONE, AT(warm), .sides = RUNNER },
    { "overriders", FN_KIND_OVERRIDER, SHAPE_LIST, AT(overriders), .sides = LB | RUNNER },
    { "listeners", FN_KIND_LISTENER, SHAPE_LIST, AT(listeners), .sides = LB | RUNNER | API },
    { NULL, NULL, SHAPE_ONE, 0, 0 },
};
#undef AT
#undef LB
#undef RUNNER
#undef NPM
#undef API

struct plugin_words {
    const char *use;
    const char *file;
    const char *name;
    const char *sha256;
};

#define AT(field) offsetof(struct plugin_words, field)
static const struct fn_opt plugin_opts[] = {
    OPT("use", STR, AT(use), NULL, 1, 32, "Name of the plugin."),
    OPT_ABSENT("file", STR, AT(file), 1, 1024,
               "Its file; when absent <kind>-<use>.so in plugin_dir."),
    OPT_ABSENT("name", STR, AT(name), 1, 32, "Name of this instance; when absent the same as use."),
    OPT_ABSENT("sha256", STR, AT(sha256), 1, 128, "SHA-256 that its file must have."),
    { .key = NULL },
};

/* All keys of a map: those that plugin_opts does not name are the plugin's own. */
static const char *const *own_keys(struct config *c, const struct conf_node *map)
{
    const char **keys;
    uint32_t n = 0;

    for (const struct conf_node *i = map->first; i; i = i->next) {
        n++;
    }
    keys = config_alloc(c, (n + 1) * sizeof(*keys));
    n = 0;
    for (const struct conf_node *i = map->first; i && keys; i = i->next) {
        keys[n++] = i->key;
    }
    return keys;
}

static void read_plugin(struct config *c, struct conf_node *n, const char *kind,
                        struct config_plugin *ret, struct conf_problems *p)
{
    struct plugin_words words = { NULL, NULL, NULL, NULL };

    *ret = (struct config_plugin){ .kind = kind, .where = config_where(c, n) };
    if (n->type == CONF_SCALAR && n->text[0]) {
        words.use = n->text;
    } else if (n->type == CONF_MAP) {
        config_bind_into(c, n, kind, plugin_opts, &words, sizeof(words), own_keys(c, n), p);
        ret->node = n;
    } else {
        conf_problem(p, "CFG704", ret->where, "%s, got %s; expected {use: <name>, its options}",
                     kind, n->type == CONF_LIST ? "a list" : "nothing");
        return;
    }
    if (words.file && words.file[0] != '/') {
        conf_problem(p, "CFG704", conf_where(c->priv->file, conf_get(n, "file")),
                     "file, got %s; expected an absolute path, or use: alone for a file in "
                     "plugin_dir",
                     conf_quote(words.file));
        ret->incomplete = true;
        words.file = NULL;
    }
    if (words.sha256 && (strlen(words.sha256) != 64 ||
                         strspn(words.sha256, "0123456789abcdefABCDEF") != 64)) {
        conf_problem(p, "CFG704", conf_where(c->priv->file, conf_get(n, "sha256")),
                     "sha256, got %s; expected 64 hex digits", conf_quote(words.sha256));
        words.sha256 = NULL;
    }
    ret->use = words.use;
    ret->file = words.file;
    ret->sha256 = words.sha256;
    ret->name = words.name ? words.name : words.use;
}

void config_plugin_twice(const struct config_plugin *plugin, const struct config_plugin *first,
                         struct conf_problems *p)
{
    conf_problem(p, "CFG703", plugin->where,
                 "%s %s is defined twice, first at %s; expected a name: of its own", plugin->kind,
                 conf_quote(plugin->name), first->where);
}

/* A list of plugins, or one alone. */
static void read_list(struct config *c, struct conf_node *n, const char *kind,
                      struct config_list_plugin *ret, struct conf_problems *p)
{
    bool list = n->type == CONF_LIST;
    uint32_t count = 0;

    for (struct conf_node *i = list ? n->first : n; i; i = list ? i->next : NULL) {
        count++;
    }
    ret->items = config_alloc(c, (count + 1) * sizeof(*ret->items));
    for (struct conf_node *i = list ? n->first : n; i && ret->items; i = list ? i->next : NULL) {
        struct config_plugin *plugin = &ret->items[ret->n];

        read_plugin(c, i, kind, plugin, p);
        for (uint32_t k = 0; k < ret->n && plugin->name; k++) {
            if (strcmp(ret->items[k].name, plugin->name) == 0) {
                config_plugin_twice(plugin, &ret->items[k], p);
            }
        }
        ret->n += plugin->use != NULL;
    }
}

/* The same where one at least is needed. */
static void read_stack(struct config *c, struct conf_node *n, const char *kind,
                       struct config_list_plugin *ret, struct conf_problems *p)
{
    read_list(c, n, kind, ret, p);
    if (n->type == CONF_LIST && !n->first) {
        conf_problem(p, "CFG704", conf_where(c->priv->file, n),
                     "%s, got an empty list; expected {use: <name>, its options} or a list of them",
                     n->key);
    }
}

struct config_plugin config_plugin_default(const char *kind, const char *use, const char *where)
{
    return (struct config_plugin){ .kind = kind, .use = use, .name = use, .where = where };
}

void config_plugin_only(struct config *c, struct config_list_plugin *list,
                        struct config_plugin plugin)
{
    list->items = config_alloc(c, sizeof(*list->items));
    if (list->items) {
        list->items[0] = plugin;
        list->n = 1;
    }
}

void config_plugin_override(struct config_plugin *plugin, const struct conf_override *from)
{
    uint32_t n = 0;

    for (; from->key && n < CONFIG_OVERRIDES_MAX - 1; from++) {
        plugin->overrides[n++] = *from;
    }
}

static void *at_key(const struct config *c, const struct config_plugin_key *k)
{
    return (char *)(uintptr_t)c + k->offset;
}

struct config_plugin *config_plugin_one(const struct config *c, const struct config_plugin_key *k)
{
    return k->shape == SHAPE_ONE ? at_key(c, k) : NULL;
}

struct config_list_plugin *config_plugin_list(const struct config *c,
                                              const struct config_plugin_key *k)
{
    return k->shape == SHAPE_ONE ? NULL : at_key(c, k);
}

const char *const *config_plugin_names(const struct config *c)
{
    const size_t n = sizeof(config_plugin_keys) / sizeof(config_plugin_keys[0]);
    const char **names = config_alloc(c, n * sizeof(*names));

    for (size_t i = 0; i < n && names; i++) {
        names[i] = config_plugin_keys[i].key;
    }
    return names;
}

static void read_key(struct config *c, struct conf_node *n, const struct config_plugin_key *k,
                     struct conf_problems *p)
{
    switch (k->shape) {
    case SHAPE_ONE:
        read_plugin(c, n, k->kind, config_plugin_one(c, k), p);
        break;
    case SHAPE_STACK:
        read_stack(c, n, k->kind, config_plugin_list(c, k), p);
        break;
    case SHAPE_LIST:
        read_list(c, n, k->kind, config_plugin_list(c, k), p);
        break;
    }
}

static void read_section(struct config *c, struct conf_node *map, struct conf_problems *p)
{
    for (struct conf_node *n = map->first; n; n = n->next) {
        const struct config_plugin_key *k = config_plugin_keys;

        while (k->key && strcmp(n->key, k->key) != 0) {
            k++;
        }
        if (k->key) {
            read_key(c, n, k, p);
        }
    }
}

/* Of sides that this node has not. */
static void forget_others(struct config *c)
{
    for (const struct config_plugin_key *k = config_plugin_keys; k->key; k++) {
        if (k->sides & c->type->sides) {
            continue;
        }
        if (k->shape == SHAPE_ONE) {
            config_plugin_one(c, k)->use = NULL;
        } else {
            config_plugin_list(c, k)->n = 0;
        }
    }
}

void config_plugins_read(struct config *c, struct conf_problems *p)
{
    struct conf_node *map = conf_get(conf_root(c->priv->file), "plugins");

    if (map && map->type == CONF_MAP) {
        read_section(c, map, p);
    }
    forget_others(c);
}

/* ---- files and options ----------------------------------------------------------------------- */

/* Lines of the loader, whole: a struct fn_error has no room for two hashes. */
static void tell_lines(const struct config_plugin *plugin, struct conf_problems *p,
                       struct buf *lines)
{
    char *text = (char *)(uintptr_t)buf_text(lines);
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        config_tell(p, plugin->where, line);
    }
}

/* The value that the sentence of a create() is about: options come first in it, "runners[3]: got
 * ...". */
static const char *where_of_option(const struct config *c, const struct config_plugin *plugin,
                                   const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const struct conf_node *n = plugin->node ? plugin->node->first : NULL;
    uint64_t index = text[len] == '[' ? strtoull(text + len + 1, NULL, 10) + 1 : 0;

    for (const struct conf_override *o = plugin->overrides; o->key; o++) {
        if (strlen(o->key) == len && strncmp(o->key, text, len) == 0 &&
            strcmp(o->where, "default") != 0) {
            return o->where;
        }
    }
    while (n && (strlen(n->key) != len || strncmp(n->key, text, len) != 0)) {
        n = n->next;
    }
    if (!n) {
        return plugin->where;
    }
    if (index > 0 && n->type == CONF_LIST) {
        for (n = n->first; n->next && --index > 0;) {
            n = n->next;
        }
    }
    return conf_where(c->priv->file, n);
}

/* Sentences of plugin_create() begin with their own code: "PLG915 name: kind/use: text". */
static void plugins_tell(const struct config *c, struct conf_problems *p,
                         const struct config_plugin *plugin, const struct fn_error *e)
{
    char head[128];
    int len = snprintf(head, sizeof(head), "PLG915 %s: %s/%s: ", plugin->name, plugin->kind,
                       plugin->use);
    const char *where = plugin->where;

    if (len < (int)sizeof(head) && strncmp(e->msg, head, (size_t)len) == 0) {
        where = where_of_option(c, plugin, e->msg + len);
    }
    config_tell(p, where, e->msg);
}

/* `wanted`: what it was not given in the sandbox of a check; then it may be right. */
static void tell_unjudged(const struct config *c, struct conf_problems *p,
                          const struct config_plugin *plugin, const struct fn_error *e,
                          const char *wanted)
{
    if (wanted) {
        conf_note(p, "CFG710", plugin->where,
                  "%s %s: create() wants %s, which a check does not give: its options are judged at "
                  "the start",
                  plugin->kind, plugin->use, wanted);
    } else {
        plugins_tell(c, p, plugin, e);
    }
}

static void list_factory(void *ud, const struct fn_factory *f)
{
    struct buf *out = ud;

    buf_printf(out, "%s%s %s", out->len ? ", " : "", f->kind, f->name);
}

static int find_factory(struct plugin_file *file, const struct config_plugin *plugin,
                        const struct fn_factory **ret, struct conf_problems *p)
{
    struct buf offers = BUF_INIT(1024);

    *ret = plugin_file_factory(file, plugin->kind, plugin->use);
    if (*ret) {
        return 0;
    }
    plugin_file_each(file, list_factory, &offers);
    conf_problem(p, "CFG712", plugin->where, "%s, got %s; expected what %s offers: %s",
                 plugin->kind, conf_quote(plugin->use), plugin_file_path(file), buf_text(&offers));
    buf_finish(&offers);
    return FN_E_NOT_FOUND;
}

int config_plugin_policy(const struct config *c, struct plugin_host *h, struct conf_problems *p)
{
    struct fn_error e = ERR_INIT;
    int r = plugin_host_policy(h, c->plugins, &e);

    if (r < 0) {
        conf_problem(p, NULL, NULL, "%s", e.msg);
    }
    return r;
}

/* Where fn.yaml names a plugin that has no file, and what may have been meant: files of `path`'s
 * folder with the same beginning, "driver-" for a driver. */
static void tell_missing(const struct config *c, const struct config_plugin *plugin,
                         const char *path, struct conf_problems *p)
{
    const struct conf_node *use = conf_get(plugin->node, "use");
    const char *where = use ? conf_where(c->priv->file, use) : plugin->where;
    const char *file = strrchr(path, '/') + 1;
    size_t head = strlen(file) - strlen(plugin->use) - strlen(".so");
    char names[NAMES_MAX][NAME_MAX_BYTES], dir[PATH_MAX];
    const char *known[NAMES_MAX + 1] = { NULL };
    const struct dirent *e;
    const char *nearest;
    uint32_t n = 0;
    DIR *d;

    snprintf(dir, sizeof(dir), "%.*s", (int)(file - path), path);
    d = opendir(dir);
    while (d && n < NAMES_MAX && (e = readdir(d))) {
        size_t len = strlen(e->d_name);

        if (len > head + 3 && len - head - 3 < NAME_MAX_BYTES &&
            strncmp(e->d_name, file, head) == 0 && strcmp(e->d_name + len - 3, ".so") == 0) {
            snprintf(names[n], sizeof(names[n]), "%.*s", (int)(len - head - 3), e->d_name + head);
            known[n] = names[n];
            n++;
        }
    }
    if (d) {
        closedir(d);
    }
    nearest = conf_nearest(plugin->use, known);
    if (!d && !config_is_default(c, SECTION_TOP, "plugin_dir")) {
        return; /* told of plugin_dir: paths.c */
    }
    if (nearest) {
        conf_problem(p, "CFG712", where, "%s, got %s; did you mean \"%s\"?", plugin->kind,
                     conf_quote(plugin->use), nearest);
    } else {
        conf_problem(p, "CFG712", where, "%s, got %s; expected the name of a file %s",
                     plugin->kind, conf_quote(plugin->use), path);
    }
}

/* The file of an instance, opened and checked. */
static int open_file(const struct config *c, struct plugin_host *h,
                     const struct config_plugin *plugin, struct plugin_file **ret,
                     struct conf_problems *p)
{
    struct buf lines = BUF_INIT(0);
    char path[PATH_MAX];
    int r = 0;

    if (plugin->file) {
        snprintf(path, sizeof(path), "%s", plugin->file);
    } else {
        r = plugin_path_for(c->top->plugin_dir, plugin->kind, plugin->use, path, sizeof(path));
        if (r < 0) {
            conf_problem(p, "CFG712", plugin->where,
                         "%s %s: its name, got %s; expected 1 to 32 of a-z, 0-9 and -",
                         plugin->kind, plugin->use, conf_quote(plugin->use));
            return r;
        }
    }
    r = plugin_file_check(h, path, plugin->sha256, ret, &lines, NULL);
    if (r == FN_E_NOT_FOUND && !plugin->file) {
        tell_missing(c, plugin, path, p);
    } else {
        tell_lines(plugin, p, &lines);
    }
    buf_finish(&lines);
    return r;
}

/* *ret NULL: it has no options. */
static void bind_options(const struct config *c, const struct config_plugin *plugin,
                         const struct fn_factory *f, struct conf_values **ret,
                         struct conf_problems *p)
{
    /* With the place where no map of options has one. */
    bool placed = !plugin->node && plugin->where && strchr(plugin->where, ':');
    char what[SECTION_NAME_BYTES];

    *ret = NULL;
    if (f->opts || f->conf_size > 0 || plugin->node) {
        snprintf(what, sizeof(what), "%s%s%s %s", placed ? plugin->where : "", placed ? ": " : "",
                 plugin->kind, plugin->use);
        conf_bind(c->priv->file, plugin->node, what, f->opts, f->conf_size, plugin_keys,
                  plugin->overrides, ret, p);
    }
}

int config_plugin_bind(const struct config *c, struct plugin_host *h,
                       const struct config_plugin *plugin, struct plugin_file **ret_file,
                       const struct fn_factory **ret_factory, struct conf_values **ret_values,
                       struct conf_problems *p)
{
    uint32_t before = p->n;
    int r;

    *ret_values = NULL;
    r = open_file(c, h, plugin, ret_file, p);
    if (r < 0) {
        return r;
    }
    r = find_factory(*ret_file, plugin, ret_factory, p);
    if (r < 0 || plugin->incomplete) {
        return r < 0 ? r : FN_E_INVALID;
    }
    bind_options(c, plugin, *ret_factory, ret_values, p);
    return p->n > before ? FN_E_INVALID : 0;
}

int config_plugin_load(const struct config *c, struct plugin_host *h,
                       const struct config_plugin *plugin, struct plugin **ret,
                       struct conf_problems *p)
{
    const struct fn_factory *factory = NULL;
    struct plugin_file *file = NULL;
    struct conf_values *values = NULL;
    struct fn_error e = ERR_INIT;
    int r = config_plugin_bind(c, h, plugin, &file, &factory, &values, p);

    if (r < 0) {
        conf_values_destroy(values);
        return r;
    }
    sandbox_wanted(); /* what others asked for */
    r = plugin_create(h, file, factory, plugin->name, values, ret, &e);
    if (r < 0) {
        tell_unjudged(c, p, plugin, &e, sandbox_wanted());
    }
    return r;
}

/* False when it is refused, or stands on one that is. */
static bool check_one(const struct config *c, struct plugin_host *h, struct config_plugin *plugin,
                      struct conf_problems *p)
{
    const struct fn_factory *factory = NULL;
    struct plugin_file *file = NULL;
    struct conf_values *values = NULL;

    if (plugin->use && config_plugin_bind(c, h, plugin, &file, &factory, &values, p) < 0) {
        plugin->use = NULL;
    }
    conf_values_destroy(values);
    return plugin->use != NULL;
}

static void check_all(const struct config *c, struct plugin_host *h,
                      struct config_list_plugin *list, bool stack, struct conf_problems *p)
{
    bool good = true;

    for (uint32_t i = 0; i < list->n; i++) {
        if (!check_one(c, h, &list->items[i], p) || (stack && !good)) {
            list->items[i].use = NULL;
            good = false;
        }
    }
}

void config_plugins_check(struct config *c, struct plugin_host *h, struct conf_problems *p)
{
    for (const struct config_plugin_key *k = config_plugin_keys; k->key; k++) {
        struct config_plugin *one = config_plugin_one(c, k);

        if (one) {
            check_one(c, h, one, p);
        } else {
            check_all(c, h, config_plugin_list(c, k), k->shape == SHAPE_STACK, p);
        }
    }
}

void config_plugin_judge(const struct config_plugin *plugin, const struct plugin *running,
                         struct conf_problems *p)
{
    struct buf lines = BUF_INIT(0);

    plugin_judge(running, &lines);
    tell_lines(plugin, p, &lines);
    buf_finish(&lines);
}

bool config_plugin_same(const struct config *c, struct plugin_host *h,
                        const struct config_plugin *plugin, const struct plugin *running,
                        struct conf_problems *p)
{
    const struct fn_factory *factory = NULL;
    struct plugin_file *file = NULL;
    struct conf_values *values = NULL;
    bool same = config_plugin_bind(c, h, plugin, &file, &factory, &values, p) == 0 &&
                plugin_is_same(running, file, factory, plugin->name, values);

    conf_values_destroy(values);
    return same;
}

bool config_plugin_same_options(const struct config *c, const struct config_plugin *plugin,
                                const struct plugin *running, struct conf_problems *p)
{
    const struct fn_factory *factory = plugin_factory(running);
    struct conf_values *values;
    bool same;

    bind_options(c, plugin, factory, &values, p);
    same = plugin_is_same(running, NULL, factory, plugin->name, values);
    conf_values_destroy(values);
    return same;
}
