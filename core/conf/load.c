/* Load: bytes of a file into a tree with positions.
 *
 * The parser of libyaml gives events; the tree is built without recursion, so that no input makes
 * the stack grow. Aliases are refused, which is why a small file stays a small tree. */
#include <conf/conf_int.h>
#include <conf/explain.h>
#include <conf/opts.h>

#include <base/arena.h>
#include <base/utf8.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE_BUFFERS 4

struct conf {
    struct arena arena;
    const char *name;
    struct conf_node *root;
    const char *(*belongs)(const char *key);
};

/* Where the builder stands: open maps and lists, innermost last. */
struct builder {
    struct conf *conf;
    struct conf_problems *problems;
    const char *text;
    size_t len;
    struct level {
        struct conf_node *node;
        struct conf_node *last;
        const char *key; /* of the value that comes next */
        int key_line;
        int key_column;
        bool duplicate; /* the value that comes next is dropped */
    } levels[CONF_DEPTH_MAX];
    uint32_t depth;
    uint32_t nodes;
    uint32_t documents;
    bool failed;
};

const char *conf_where_at(const struct conf *c, int line, int column)
{
    static _Thread_local char buffers[WHERE_BUFFERS][CONF_WHERE_BYTES];
    static _Thread_local unsigned next;
    char *ret = buffers[next++ % WHERE_BUFFERS];

    snprintf(ret, CONF_WHERE_BYTES, "%s:%d:%d", c->name, line, column);
    return ret;
}

const char *conf_where(const struct conf *c, const struct conf_node *n)
{
    return conf_where_at(c, n->line, n->column);
}

const char *conf_where_key(const struct conf *c, const struct conf_node *n)
{
    return conf_where_at(c, n->key_line, n->key_column);
}

void conf_set_owner(struct conf *c, const char *(*belongs)(const char *key))
{
    if (c) {
        c->belongs = belongs;
    }
}

const char *conf_owner(const struct conf *c, const char *key)
{
    return c->belongs ? c->belongs(key) : NULL;
}

struct conf_node *conf_root(struct conf *c)
{
    return c ? c->root : NULL;
}

struct conf_node *conf_get(const struct conf_node *map, const char *key)
{
    if (!map || map->type != CONF_MAP) {
        return NULL;
    }
    for (struct conf_node *n = map->first; n; n = n->next) {
        if (strcmp(n->key, key) == 0) {
            return n;
        }
    }
    return NULL;
}

void conf_destroy(struct conf *c)
{
    if (c) {
        arena_finish(&c->arena);
        free(c);
    }
}

/* ---- checks of the text before it is parsed -------------------------------------------------- */

/* The first byte that is not part of UTF-8, or the end. */
static const char *utf8_fault(const char *text, const char *end)
{
    uint32_t n;

    while (text < end && (n = utf8_sequence(text, end)) > 0) {
        text += n;
    }
    return text;
}

static int check_text(struct builder *b, const char *name)
{
    const char *end = b->text + b->len;
    const char *fault = memchr(b->text, '\0', b->len);
    struct conf_place place;
    const char *where;

    if (b->len >= 2 &&
        (memcmp(b->text, "\xff\xfe", 2) == 0 || memcmp(b->text, "\xfe\xff", 2) == 0)) {
        conf_problem(b->problems, "CFG705", name, "not UTF-8, got UTF-16; expected UTF-8 text");
        return FN_E_INVALID;
    }
    if (b->len > CONF_FILE_BYTES_MAX) {
        conf_problem(b->problems, "CFG705", name, "too large, got %zu bytes; expected at most %d",
                     b->len, CONF_FILE_BYTES_MAX);
        return FN_E_INVALID;
    }
    fault = fault ? fault : utf8_fault(b->text, end);
    if (fault == end) {
        return 0;
    }
    place = conf_place_of(b->text, fault);
    where = conf_where_at(b->conf, place.line, place.column);
    if (*fault) {
        conf_problem(b->problems, "CFG705", where,
                     "not UTF-8, got byte 0x%02x; expected UTF-8 text", (unsigned char)*fault);
    } else {
        conf_problem(b->problems, "CFG705", where,
                     "not UTF-8 text, got a NUL byte; expected UTF-8 text");
    }
    return FN_E_INVALID;
}

/* ---- events to tree -------------------------------------------------------------------------- */

static void fail_at(struct builder *b, const yaml_mark_t *mark, const char *code, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));

static void fail_at(struct builder *b, const yaml_mark_t *mark, const char *code, const char *fmt,
                    ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    conf_problem(b->problems, code,
                 conf_where_at(b->conf, (int)mark->line + 1, (int)mark->column + 1), "%s", text);
}

static void stop_at(struct builder *b, const yaml_mark_t *mark, const char *what)
{
    fail_at(b, mark, "CFG701", "%s", what);
    b->failed = true;
}

static void parser_failed(struct builder *b, const yaml_parser_t *parser)
{
    const struct conf_text text = { b->text, b->len };
    struct conf_fault f;

    b->failed = true;
    conf_explain(&text, parser, &f);
    conf_problem(b->problems, "CFG701", conf_where_at(b->conf, f.line, f.column), "%s", f.text);
}

static struct level *innermost(struct builder *b)
{
    return b->depth > 0 ? &b->levels[b->depth - 1] : NULL;
}

/* A new value at the builder's place; NULL when it has no place (dropped, or the end of it all). */
static struct conf_node *node_add(struct builder *b, enum conf_type type, const yaml_mark_t *mark)
{
    struct level *in = innermost(b);
    struct conf_node *n;

    if (++b->nodes > CONF_NODES_MAX) {
        stop_at(b, mark, "too many values; expected at most " NUMBER_TEXT(CONF_NODES_MAX));
        return NULL;
    }
    n = arena_alloc(&b->conf->arena, sizeof(*n));
    if (!n) {
        stop_at(b, mark, "out of memory");
        return NULL;
    }
    n->type = type;
    n->line = (int)mark->line + 1;
    n->column = (int)mark->column + 1;
    if (!in) {
        b->conf->root = n;
        return n;
    }
    n->parent = in->node;
    if (in->node->type == CONF_MAP) {
        n->key = in->key;
        n->key_line = in->key_line;
        n->key_column = in->key_column;
        in->key = NULL;
        if (in->duplicate) {
            in->duplicate = false;
            return n; /* parsed, so that its own problems are told, but in no list */
        }
    }
    if (in->last) {
        in->last->next = n;
    } else {
        in->node->first = n;
    }
    in->last = n;
    return n;
}

static void check_decoration(struct builder *b, const yaml_mark_t *mark, const yaml_char_t *anchor,
                             const yaml_char_t *tag)
{
    if (anchor) {
        fail_at(b, mark, "CFG701",
                "anchors and aliases are not supported, got &%s; expected values in full",
                (const char *)anchor);
    }
    if (tag) {
        fail_at(b, mark, "CFG701", "tags are not supported, got %s; expected none",
                conf_quote((const char *)tag));
    }
}

static void open_level(struct builder *b, enum conf_type type, const yaml_mark_t *mark)
{
    struct level *in = innermost(b);
    struct conf_node *n;

    if (in && in->node->type == CONF_MAP && !in->key) {
        stop_at(b, mark, "a map or list as a key; expected a word");
        return;
    }
    if (b->depth == CONF_DEPTH_MAX) {
        stop_at(b, mark,
                "nested too deeply; expected at most " NUMBER_TEXT(CONF_DEPTH_MAX) " levels");
        return;
    }
    n = node_add(b, type, mark);
    if (n) {
        b->levels[b->depth++] = (struct level){ .node = n };
    }
}

static void take_key(struct builder *b, struct level *in, const char *key, const yaml_mark_t *mark)
{
    const struct conf_node *first = conf_get(in->node, key);

    if (first) {
        fail_at(b, mark, "CFG703", "key %s is defined twice, first at line %d; expected it once",
                conf_quote(key), first->key_line);
        in->duplicate = true;
    }
    in->key = key;
    in->key_line = (int)mark->line + 1;
    in->key_column = (int)mark->column + 1;
}

/* In a key, or at an end of a value, without quotes: nobody sees it and nobody means it. */
static void check_blanks(struct builder *b, const yaml_mark_t *mark, const char *text, bool key)
{
    const char *end = text + strlen(text);
    const char *odd = conf_odd_blank(text, end);
    yaml_mark_t at = *mark;
    char said[128];

    while (odd && !key && odd != text && odd + utf8_sequence(odd, end) != end) {
        odd = conf_odd_blank(odd + 1, end);
    }
    if (odd) {
        at.column += conf_characters(text, odd);
        conf_odd_blank_text(odd, said, sizeof(said));
        fail_at(b, &at, "CFG701", "%s", said);
        b->failed = b->failed || key; /* what it was meant to be would be missed as well */
    }
}

static void take_scalar(struct builder *b, const yaml_event_t *event)
{
    const yaml_mark_t *mark = &event->start_mark;
    const char *value = (const char *)event->data.scalar.value;
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct level *in = innermost(b);
    bool key = in && in->node->type == CONF_MAP && !in->key;
    struct conf_node *n;
    const char *text;

    check_decoration(b, mark, event->data.scalar.anchor, event->data.scalar.tag);
    if (strlen(value) != event->data.scalar.length) {
        fail_at(b, mark, "CFG705", "a NUL character in a text; expected none");
    }
    if (plain) {
        check_blanks(b, mark, value, key);
    }
    if (plain && (strcmp(value, "~") == 0 || strcmp(value, "null") == 0)) {
        value = "";
    }
    text = arena_strdup(&b->conf->arena, value);
    if (!text) {
        stop_at(b, mark, "out of memory");
        return;
    }
    if (key) {
        take_key(b, in, text, mark);
        return;
    }
    n = node_add(b, CONF_SCALAR, mark);
    if (n) {
        n->text = text;
        n->quoted = !plain;
    }
}

static void take_alias(struct builder *b, const yaml_event_t *event)
{
    struct level *in = innermost(b);
    struct conf_node *n;

    fail_at(b, &event->start_mark, "CFG701",
            "anchors and aliases are not supported, got alias *%s; expected the value in full",
            (const char *)event->data.alias.anchor);
    if (in && in->node->type == CONF_MAP && !in->key) {
        b->failed = true;
        return;
    }
    n = node_add(b, CONF_SCALAR, &event->start_mark);
    if (n) {
        n->text = "";
        n->refused = true;
    }
}

static void take_event(struct builder *b, const yaml_event_t *event)
{
    const yaml_mark_t *mark = &event->start_mark;

    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents > 1) {
            stop_at(b, mark, "a second document; expected one");
        }
        return;
    case YAML_MAPPING_START_EVENT:
        check_decoration(b, mark, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        open_level(b, CONF_MAP, mark);
        return;
    case YAML_SEQUENCE_START_EVENT:
        check_decoration(b, mark, event->data.sequence_start.anchor,
                         event->data.sequence_start.tag);
        open_level(b, CONF_LIST, mark);
        return;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        b->depth--;
        return;
    case YAML_SCALAR_EVENT:
        take_scalar(b, event);
        return;
    case YAML_ALIAS_EVENT:
        take_alias(b, event);
        return;
    default:
        return;
    }
}

static void parse_events(struct builder *b)
{
    yaml_parser_t parser;
    yaml_event_t event;
    bool end = false;

    if (!yaml_parser_initialize(&parser)) {
        conf_problem(b->problems, "CFG705", b->conf->name, "out of memory");
        b->failed = true;
        return;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)b->text, b->len);
    while (!end && !b->failed) {
        if (!yaml_parser_parse(&parser, &event)) {
            parser_failed(b, &parser);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        take_event(b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
}

static void check_root(struct builder *b)
{
    struct conf_node *root = b->conf->root;

    if (!root || (root->type == CONF_SCALAR && !root->quoted && !*root->text)) {
        conf_problem(b->problems, "CFG705", b->conf->name, "empty; expected keys with values");
        b->failed = true;
    } else if (root->type != CONF_MAP) {
        conf_problem(b->problems, "CFG701", conf_where(b->conf, root),
                     "got %s; expected key: value",
                     root->type == CONF_LIST ? "a list" : conf_quote(root->text));
        b->failed = true;
    }
}

int conf_parse(const char *name, const char *text, size_t len, struct conf **ret,
               struct conf_problems *p)
{
    struct conf *c = calloc(1, sizeof(*c));
    struct builder b = { .conf = c, .problems = p, .text = text, .len = len };
    uint32_t before = p->n;

    if (!c) {
        conf_problem(p, "CFG705", name, "out of memory");
        return FN_E_EXHAUSTED;
    }
    arena_init(&c->arena, 0);
    c->name = arena_strdup(&c->arena, name);
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        b.text += 3;
        b.len -= 3;
    }
    if (!c->name) {
        conf_problem(p, "CFG705", name, "out of memory");
    }
    if (!c->name || check_text(&b, c->name) < 0) {
        conf_destroy(c);
        return FN_E_INVALID;
    }
    parse_events(&b);
    if (!b.failed) {
        check_root(&b);
    }
    if (b.failed) {
        conf_destroy(c);
        return FN_E_INVALID;
    }
    *ret = c;
    return p->n > before ? FN_E_INVALID : 0;
}

/* ---- file ------------------------------------------------------------------------------------ */

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a FIFO" : "no regular file";
}

/* Not blocking and never more than the limit, whatever the path turns out to be. */
static int load_read(const char *path, struct buf *out, struct conf_problems *p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0) {
        conf_problem(p, "CFG705", path, "%s; expected a file that can be read", strerror(errno));
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        conf_problem(p, "CFG705", path, "is %s; expected a regular file", kind_of(st.st_mode));
        goto fail;
    }
    if (st.st_size > CONF_FILE_BYTES_MAX) {
        conf_problem(p, "CFG705", path, "too large, got %lld bytes; expected at most %d",
                     (long long)st.st_size, CONF_FILE_BYTES_MAX);
        goto fail;
    }
    do {
        char *at = buf_reserve(out, 64 * 1024);

        n = at ? read(fd, at, 64 * 1024) : -1;
        out->len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && out->len <= CONF_FILE_BYTES_MAX);
    if (n < 0) {
        conf_problem(p, "CFG705", path, "%s", strerror(errno));
        goto fail;
    }
    close(fd);
    return 0;
fail:
    if (fd >= 0) {
        close(fd);
    }
    return FN_E_INVALID;
}

int conf_load(const char *path, struct conf **ret, struct conf_problems *p)
{
    struct buf text = BUF_INIT(0);
    int r = load_read(path, &text, p);

    if (r == 0) {
        r = conf_parse(path, text.data ? text.data : "", text.len, ret, p);
    }
    buf_finish(&text);
    return r;
}
