/* Bind: a map of the tree, defaults and overrides into a conf struct, by an option table. */
#include <conf/conf_int.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WORDS_MAX 256
#define RULE_MAX  256
#define NEAR_MAX  32

/* Who gave the value that is being set, for the message when it is refused. */
struct giver {
    const char *code;  /* CFG704, CFG706 */
    const char *where; /* position, or NULL */
    const char *key;   /* option or variable */
    struct conf_problems *problems;
};

/* near: what was probably meant, or NULL. */
static int bind_refuse(const struct giver *g, const struct fn_opt *o, const char *got,
                       const char *near)
{
    struct buf rule = BUF_INIT(RULE_MAX);

    conf_print_rule(o, &rule);
    conf_problem(g->problems, g->code, g->where, "%s, got %s; expected %s%s%s%s", g->key, got,
                 buf_text(&rule), near ? "; did you mean \"" : "", near ? near : "",
                 near ? "\"?" : "");
    buf_finish(&rule);
    return FN_E_INVALID;
}

static bool in_bounds(const struct fn_opt *o, int64_t n)
{
    return (o->min == 0 && o->max == 0) || (n >= o->min && n <= o->max);
}

bool opt_is_choice(const struct fn_opt *o, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = o->choices; *at;) {
        size_t n = strcspn(at, "|");

        if (n == len && n > 0 && memcmp(at, word, n) == 0) {
            return true;
        }
        at += n + (at[n] == '|');
    }
    return false;
}

int opt_number(const struct fn_opt *o, const char *text, int64_t *ret)
{
    bool flag = false;
    int r = 0;

    switch (o->type) {
    case FN_OPT_INT:
        r = conf_parse_int(text, ret);
        break;
    case FN_OPT_DURATION:
        r = conf_parse_duration(text, ret);
        if (r == 0 && *ret < 0 && o->min >= 0) {
            r = FN_E_RANGE; /* "never" only where the table says so */
        }
        break;
    case FN_OPT_BYTES:
        r = conf_parse_bytes(text, ret);
        break;
    case FN_OPT_STR:
        *ret = (int64_t)strlen(text);
        break;
    default:
        r = conf_parse_bool(text, &flag);
        *ret = flag;
        return r;
    }
    return r == 0 && !in_bounds(o, *ret) ? FN_E_RANGE : r;
}

/* A duration without its unit is one of seconds, as elsewhere; a size with MB was meant as MiB.
 * NULL: none of them, or it would be refused as well. */
static const char *near_number(const struct fn_opt *o, const char *text, char *ret, size_t cap)
{
    size_t digits = strspn(text, "0123456789");
    const char *unit = text + digits + strspn(text + digits, " ");
    const char *prefix = strchr("KkMmGgTt", *unit);
    int64_t n;

    if (digits == 0 || digits + sizeof("MiB") >= cap) {
        return NULL;
    }
    if (o->type == FN_OPT_DURATION && !*unit) {
        snprintf(ret, cap, "%ss", text);
    } else if (o->type == FN_OPT_BYTES && *unit && prefix &&
               (!unit[1] || strcasecmp(unit + 1, "b") == 0 || strcasecmp(unit + 1, "ib") == 0)) {
        snprintf(ret, cap, "%.*s%ciB", (int)digits, text, toupper((unsigned char)*unit));
    } else {
        return NULL;
    }
    return opt_number(o, ret, &n) == 0 ? ret : NULL;
}

static int set_scalar(struct conf_values *v, const struct fn_opt *o, const char *text,
                      const struct giver *g)
{
    void *field = conf_field(v, o);
    char near[NEAR_MAX];
    const char *copy;
    int64_t n = 0;

    if (o->type == FN_OPT_CHOICE && !opt_is_choice(o, text)) {
        return bind_refuse(g, o, conf_quote(text), conf_nearest_choice(text, o->choices));
    }
    if (o->type != FN_OPT_CHOICE && opt_number(o, text, &n) < 0) {
        return bind_refuse(g, o, conf_quote(text), near_number(o, text, near, sizeof(near)));
    }
    if (!conf_is_text(o)) {
        conf_put_number(o, field, n);
        return 0;
    }
    copy = arena_strdup(&v->texts, text);
    if (!copy) {
        return bind_refuse(g, o, conf_quote(text), NULL);
    }
    memcpy(field, &copy, sizeof(copy));
    return 0;
}

/* `items` lives in the arena already. */
static int set_list(struct conf_values *v, const struct fn_opt *o, const char *const *items,
                    uint64_t n, const struct giver *g)
{
    struct fn_strlist list = { .items = items, .n = n };
    char got[32];

    if (!in_bounds(o, (int64_t)n)) {
        snprintf(got, sizeof(got), "%llu items", (unsigned long long)n);
        return bind_refuse(g, o, got, NULL);
    }
    memcpy(conf_field(v, o), &list, sizeof(list));
    return 0;
}

static int set_list_text(struct conf_values *v, const struct fn_opt *o, const char *text,
                         const struct giver *g)
{
    size_t cap = strlen(text) / 2 + 1;
    const char **items = arena_alloc(&v->texts, cap * sizeof(*items));
    uint64_t n = 0;

    for (const char *at = text; items && *at;) {
        size_t len = strcspn(at, ", \t\n");

        if (len > 0) {
            items[n++] = arena_strndup(&v->texts, at, len);
        }
        at += len;
        at += strspn(at, ", \t\n");
    }
    return set_list(v, o, items, n, g);
}

static int set_list_node(struct conf_values *v, const struct fn_opt *o,
                         const struct conf_node *list, const struct giver *g)
{
    uint64_t n = 0;
    const char **items;

    for (const struct conf_node *i = list->first; i; i = i->next) {
        if (i->type != CONF_SCALAR) {
            return bind_refuse(
                g, o, i->type == CONF_MAP ? "a map in the list" : "a list in the list", NULL);
        }
        n++;
    }
    items = arena_alloc(&v->texts, (n + 1) * sizeof(*items));
    n = 0;
    for (const struct conf_node *i = list->first; i && items; i = i->next) {
        items[n] = arena_strdup(&v->texts, i->text);
        n += items[n] != NULL;
    }
    return set_list(v, o, items, n, g);
}

static int set_text(struct conf_values *v, const struct fn_opt *o, const char *text,
                    const struct giver *g)
{
    return o->type == FN_OPT_STRLIST ? set_list_text(v, o, text, g) : set_scalar(v, o, text, g);
}

static int set_node(struct conf_values *v, const struct fn_opt *o, const struct conf_node *n,
                    const struct giver *g)
{
    bool list = o->type == FN_OPT_STRLIST;

    if (list && n->type == CONF_LIST) {
        return set_list_node(v, o, n, g);
    }
    if (n->type == CONF_SCALAR && !list) {
        return set_scalar(v, o, n->text, g);
    }
    return bind_refuse(g, o,
                       n->type == CONF_MAP    ? "a map"
                       : n->type == CONF_LIST ? "a list"
                                              : conf_quote(n->text),
                       NULL);
}

/* `key:` with nothing behind it says nothing. */
static bool is_absent(const struct conf_node *n)
{
    return n->type == CONF_SCALAR && !n->quoted && n->text[0] == '\0';
}

const struct fn_opt *opt_find(const struct fn_opt *rows, const char *key)
{
    while (rows->key && strcmp(rows->key, key) != 0) {
        rows++;
    }
    return rows->key ? rows : NULL;
}

static bool is_word(const char *const *words, const char *word)
{
    for (; words && *words; words++) {
        if (strcmp(*words, word) == 0) {
            return true;
        }
    }
    return false;
}

void conf_unknown_key(const struct conf *c, const struct conf_node *n, const char *const *known,
                      struct conf_problems *p)
{
    const char *where = conf_where_key(c, n);
    const char *owner = conf_owner(c, n->key);
    const char *near = conf_nearest(n->key, known);

    if (owner) {
        conf_problem(p, "CFG702", where, "unknown key %s; it belongs to %s%s", conf_quote(n->key),
                     *owner ? owner : "the top level", *owner ? ":" : "");
    } else if (near) {
        conf_problem(p, "CFG702", where, "unknown key %s; did you mean \"%s\"?", conf_quote(n->key),
                     near);
    } else {
        struct buf words = BUF_INIT(1024);

        for (uint32_t i = 0; known[i]; i++) {
            buf_printf(&words, "%s%s", i ? ", " : "", known[i]);
        }
        conf_problem(p, "CFG702", where, "unknown key %s; expected %s", conf_quote(n->key),
                     words.len ? buf_text(&words) : "no keys here");
        buf_finish(&words);
    }
}

static void known_keys(const struct conf_values *v, const char *const *skip,
                       const char *ret[WORDS_MAX + 1])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < v->n_opts && count < WORDS_MAX; i++) {
        ret[count++] = v->opts[i].key;
    }
    for (; skip && *skip && count < WORDS_MAX; skip++) {
        ret[count++] = *skip;
    }
    ret[count] = NULL;
}

static void unknown_key(const struct conf *c, const struct conf_node *n,
                        const struct conf_values *v, const char *const *skip,
                        struct conf_problems *p)
{
    const char *known[WORDS_MAX + 1];

    known_keys(v, skip, known);
    conf_unknown_key(c, n, known, p);
}

static struct conf_values *values_create(const struct fn_opt *opts, uint32_t conf_size)
{
    static const struct fn_opt none[1];
    struct conf_values *v = calloc(1, sizeof(*v));

    if (!v) {
        return NULL;
    }
    v->opts = opts ? opts : none;
    while (v->opts[v->n_opts].key) {
        v->n_opts++;
    }
    v->data = calloc(1, conf_size ? conf_size : 1);
    v->source = calloc(v->n_opts + 1, sizeof(*v->source));
    if (!v->data || !v->source) {
        conf_values_destroy(v);
        return NULL;
    }
    arena_init(&v->texts, 0);
    return v;
}

void conf_values_destroy(struct conf_values *v)
{
    if (!v) {
        return;
    }
    arena_finish(&v->texts);
    free(v->source);
    free(v->data);
    free(v);
}

bool conf_values_whole(const struct conf_values *v)
{
    return !v->texts.failed;
}

static void set_defaults(struct conf_values *v, const char *what, struct conf_problems *p)
{
    for (uint32_t i = 0; i < v->n_opts; i++) {
        const struct fn_opt *o = &v->opts[i];
        struct giver g = { "CFG704", what, o->key, p };

        if (o->dflt && set_text(v, o, o->dflt, &g) == 0) {
            v->source[i] = "default";
        }
    }
}

void opt_defaults(const struct opt_table *table, void *ret)
{
    for (const struct fn_opt *o = table->rows; o->key; o++) {
        void *field = (char *)ret + o->offset;
        int64_t n = 0;

        if (conf_is_text(o)) {
            memcpy(field, &o->dflt, sizeof(o->dflt));
        } else if (o->type == FN_OPT_STRLIST) {
            memset(field, 0, sizeof(struct fn_strlist));
        } else if (!o->dflt || opt_number(o, o->dflt, &n) == 0) {
            conf_put_number(o, field, n);
        }
    }
}

static void set_from_map(struct conf_values *v, struct conf *c, const struct conf_node *map,
                         const char *const *skip, struct conf_problems *p)
{
    for (const struct conf_node *n = map->first; n; n = n->next) {
        const struct fn_opt *o = opt_find(v->opts, n->key);
        struct giver g = { "CFG704", NULL, n->key, p };

        if (!o) {
            if (!is_word(skip, n->key)) {
                unknown_key(c, n, v, skip, p);
            }
            continue;
        }
        if (is_absent(n) && !n->refused) {
            continue;
        }
        g.where = conf_where(c, n);
        if (!n->refused) {
            set_node(v, o, n, &g);
        }
        v->source[o - v->opts] = arena_strdup(&v->texts, g.where);
    }
}

int conf_override(struct conf_values *v, const char *key, const char *where, const char *text,
                  struct conf_problems *p)
{
    struct giver g = { "CFG706", NULL, where, p };
    const struct fn_opt *o = opt_find(v->opts, key);

    if (!o) {
        return FN_E_NOT_FOUND;
    }
    v->source[o - v->opts] = arena_strdup(&v->texts, where);
    return set_text(v, o, text, &g);
}

bool conf_is_misspelt(const struct conf_node *map, const char *const *known, const char *key)
{
    for (const struct conf_node *n = map && map->type == CONF_MAP ? map->first : NULL; n;
         n = n->next) {
        const char *near = is_word(known, n->key) ? NULL : conf_nearest(n->key, known);

        if (near && strcmp(near, key) == 0) {
            return true;
        }
    }
    return false;
}

/* "a text of 1 to 255 bytes (name of the app)": the rule, and what the key is for. */
static void print_need(const struct fn_opt *o, struct buf *out)
{
    const char *doc = o->doc;
    size_t len = strlen(doc);
    bool word = doc[0] >= 'A' && doc[0] <= 'Z' && doc[1] >= 'a' && doc[1] <= 'z';

    conf_print_rule(o, out);
    len -= len > 0 && doc[len - 1] == '.';
    buf_printf(out, " (%c%.*s)", word ? doc[0] + ('a' - 'A') : doc[0], (int)(len - 1), doc + 1);
}

static void check_required(const struct conf_values *v, const struct conf *c,
                           const struct conf_node *map, const char *const *skip, const char *what,
                           struct conf_problems *p)
{
    const char *known[WORDS_MAX + 1];

    known_keys(v, skip, known);
    for (uint32_t i = 0; i < v->n_opts; i++) {
        const struct fn_opt *o = &v->opts[i];
        struct buf need = BUF_INIT(1024);

        if (v->source[i] || o->dflt || (o->flags & FN_OPT_MAY_BE_ABSENT) ||
            conf_is_misspelt(map, known, o->key)) {
            continue; /* there, or told as a key that nobody knows */
        }
        print_need(o, &need);
        conf_problem(p, "CFG709", map ? conf_where(c, map) : NULL,
                     "%s: key \"%s\" is missing; expected %s", what, o->key, buf_text(&need));
        buf_finish(&need);
    }
}

static int no_memory(const char *what, struct conf_problems *p)
{
    conf_problem(p, "CFG709", NULL, "%s: out of memory", what);
    return FN_E_EXHAUSTED;
}

int conf_bind(struct conf *c, struct conf_node *map, const char *what, const struct fn_opt *opts,
              uint32_t conf_size, const char *const *skip, const struct conf_override *overrides,
              struct conf_values **ret_values, struct conf_problems *p)
{
    struct conf_values *v = values_create(opts, conf_size);

    *ret_values = v;
    if (!v) {
        return no_memory(what, p);
    }
    set_defaults(v, what, p);
    if (map && map->type == CONF_MAP) {
        set_from_map(v, c, map, skip, p);
    } else if (map && !is_absent(map)) {
        conf_problem(p, "CFG704", conf_where(c, map), "%s, got %s; expected a map of keys", what,
                     map->type == CONF_LIST ? "a list" : conf_quote(map->text));
    }
    for (; overrides && overrides->key; overrides++) {
        conf_override(v, overrides->key, overrides->where, overrides->text, p);
    }
    check_required(v, c, map, skip, what, p);
    if (!conf_values_whole(v)) {
        conf_values_destroy(v);
        *ret_values = NULL;
        return no_memory(what, p);
    }
    return 0;
}

/* ---- comparing, copying ---------------------------------------------------------------------- */

bool conf_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const char *text_in(const struct fn_opt *o, const void *s)
{
    const char *text;

    memcpy(&text, (const char *)s + o->offset, sizeof(text));
    return text;
}

static struct fn_strlist list_in(const struct fn_opt *o, const void *s)
{
    struct fn_strlist list;

    memcpy(&list, (const char *)s + o->offset, sizeof(list));
    return list;
}

static bool same_list(struct fn_strlist a, struct fn_strlist b)
{
    bool same = a.n == b.n;

    for (uint64_t i = 0; same && i < a.n; i++) {
        same = strcmp(a.items[i], b.items[i]) == 0;
    }
    return same;
}

bool opt_same(const struct fn_opt *o, const void *a, const void *b)
{
    if (o->type == FN_OPT_STRLIST) {
        return same_list(list_in(o, a), list_in(o, b));
    }
    return conf_is_text(o) ? conf_same_text(text_in(o, a), text_in(o, b))
                           : conf_number(o, (const char *)a + o->offset) ==
                                 conf_number(o, (const char *)b + o->offset);
}

bool conf_same(const struct conf_values *a, const struct conf_values *b)
{
    bool same = a == b || (a && b && a->opts == b->opts);

    for (uint32_t i = 0; same && a && i < a->n_opts; i++) {
        same = opt_same(&a->opts[i], a->data, b->data);
    }
    return same;
}

static bool copy_list(const struct fn_opt *o, void *to, struct arena *a)
{
    struct fn_strlist list = list_in(o, to);
    const char **items = arena_alloc(a, (list.n + 1) * sizeof(*items));
    bool whole = items != NULL;

    for (uint64_t i = 0; items && i < list.n; i++) {
        items[i] = arena_strdup(a, list.items[i]);
        whole &= items[i] != NULL;
    }
    list.items = items;
    memcpy((char *)to + o->offset, &list, sizeof(list));
    return whole;
}

bool opt_copy(const struct fn_opt *rows, void *to, struct arena *a)
{
    bool whole = true;

    for (const struct fn_opt *o = rows; o->key; o++) {
        const char *text = conf_is_text(o) ? text_in(o, to) : NULL;

        if (o->type == FN_OPT_STRLIST) {
            whole &= copy_list(o, to, a);
        } else if (text) {
            text = arena_strdup(a, text);
            memcpy((char *)to + o->offset, &text, sizeof(text));
            whole &= text != NULL;
        }
    }
    return whole;
}
