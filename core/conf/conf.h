/* Conf: fn.yaml as a tree with line numbers, bound to option tables.
 *
 * All problems of a file are collected and shown together: `fn.yaml:7:5: unknown key "memmory"; did
 * you mean "memory"?`. The core's own settings and plugins' options use the same struct fn_opt, so
 * one table parses, checks, documents and prints. The only room that knows libyaml. [init] */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <base/arena.h>
#include <base/buf.h>
#include <base/err.h>
#include <stdbool.h>

/* Bounds of memory, wide enough for what an API node may keep: `fnd api export` prints it as such a
 * file, about ten values for a function with a trigger, and annotations with JSON of 32 levels. */
#define CONF_FILE_BYTES_MAX (16 * 1024 * 1024)
#define CONF_DEPTH_MAX      48
#define CONF_NODES_MAX      200000
#define CONF_PROBLEMS_MAX   100

struct conf_problems {
    struct buf text; /* a line each; those that follow one another with a place are in its order */
    struct conf_line *lines;
    uint32_t n_lines;
    uint32_t n;
    uint32_t warnings; /* lines that are only warnings (unknown FN_ variables) */
    bool strict;       /* warnings count as problems */
};

void conf_problems_init(struct conf_problems *p);
void conf_problems_finish(struct conf_problems *p);
/* What keeps a node from starting; what does not, unless p->strict: "CFG710 <where>: warning:
 * <text>"; and what is worth a line and never a mistake: "note:". */
enum conf_weight { CONF_PROBLEM, CONF_WARNING, CONF_NOTE };
/* Adds a line "CFG702 <where>: <text>"; without "<where>: " when where is NULL, without the code
 * when code is NULL; not one that was told already. Beyond CONF_PROBLEMS_MAX they are only
 * counted. */
void conf_say(struct conf_problems *p, enum conf_weight weight, const char *code,
              const char *where, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define conf_problem(p, code, ...) conf_say((p), CONF_PROBLEM, (code), __VA_ARGS__)
#define conf_warning(p, code, ...) conf_say((p), CONF_WARNING, (code), __VA_ARGS__)
#define conf_note(p, code, ...)    conf_say((p), CONF_NOTE, (code), __VA_ARGS__)
/* The lines that count as problems, or the others. */
void conf_problems_copy(struct conf_problems *p, bool counts, struct buf *out);
/* What stayed below a problem, lines of p->text, goes to the log: a note for information. */
void conf_log_warnings(const char *text);
/* "text" with quotes, escaped, cut at 64 bytes, NULL as ""; one of 4 rotating buffers. */
const char *conf_quote(const char *text);

enum conf_type { CONF_SCALAR, CONF_MAP, CONF_LIST };

struct conf_node {
    enum conf_type type;
    const char *key;         /* in its map, or NULL */
    const char *text;        /* CONF_SCALAR */
    bool quoted;             /* CONF_SCALAR: written in quotes */
    bool refused;            /* CONF_SCALAR: an alias, which was told; it has no value */
    struct conf_node *first; /* children in order */
    struct conf_node *next;
    struct conf_node *parent;
    int line;   /* 1.. */
    int column; /* 1.. */
    int key_line;
    int key_column;
};

struct conf; /* owns the tree and all texts */

/* Reads and parses a file: regular file only, size limit, UTF-8, no duplicate keys, no aliases. 0,
 * or FN_E_INVALID with lines in *p. *ret is set also when the problems leave a tree, so that the
 * rest can be checked; NULL it before. */
int conf_load(const char *path, struct conf **ret, struct conf_problems *p);
int conf_parse(const char *name, const char *text, size_t len, struct conf **ret,
               struct conf_problems *p);
void conf_destroy(struct conf *c);           /* NULL ok */
/* belongs() says which section of the file, "" = the top level, has a key that is unknown where it
 * stands, or NULL. c: NULL ok. */
void conf_set_owner(struct conf *c, const char *(*belongs)(const char *key));
struct conf_node *conf_root(struct conf *c); /* a map; NULL when the file has no content */
/* NULL when absent, or when map is NULL or no map. */
struct conf_node *conf_get(const struct conf_node *map, const char *key);
/* "fn.yaml:7:5" of a node; one of 4 rotating buffers. */
const char *conf_where(const struct conf *c, const struct conf_node *n);
/* The same of its key. */
const char *conf_where_key(const struct conf *c, const struct conf_node *n);

/* A filled option struct. */
struct conf_values {
    void *data;          /* conf_size bytes */
    const char **source; /* per option: "fn.yaml:7:5", "FN_PORT", "default"; NULL = not set */
    const struct fn_opt *opts;
    uint32_t n_opts;
    struct arena texts; /* owns texts and lists */
};

/* The value of one option from elsewhere than the file. */
struct conf_override {
    const char *key;   /* NULL ends an array */
    const char *where; /* variable that messages name, or "default" */
    const char *text;
};

/* Binds the children of `map` (NULL = absent, only defaults) to opts. Unknown keys, wrong types,
 * ranges, missing required keys go to *p; `what` ("placer naive") names the section. Keys in `skip`
 * (NULL-terminated, may be NULL) are left to others. `overrides` (may be NULL) win over the file
 * and satisfy required keys; those whose key is not in opts are ignored. *ret_values is written
 * also when there were problems (0 is returned then too), so that all can be collected; NULL when
 * out of memory. opts and c outlive the values; an FN_OPT_INT may name its unit for messages in
 * `choices`. */
int conf_bind(struct conf *c, struct conf_node *map, const char *what, const struct fn_opt *opts,
              uint32_t conf_size, const char *const *skip, const struct conf_override *overrides,
              struct conf_values **ret_values, struct conf_problems *p);
void conf_values_destroy(struct conf_values *v); /* NULL ok */
/* False: there was no memory for a text or a list in it. */
bool conf_values_whole(const struct conf_values *v);
/* Tells that nobody knows the key of `n`, with the nearest of `known` (NULL ends). */
void conf_unknown_key(const struct conf *c, const struct conf_node *n, const char *const *known,
                      struct conf_problems *p);

/* Whether a key of the map that is none of `known` was probably meant to be `key`, one of them. */
bool conf_is_misspelt(const struct conf_node *map, const char *const *known, const char *key);

/* Overrides one option from text (an FN_ variable). `where` names it in messages. Lists are split
 * at commas and blanks. FN_E_NOT_FOUND: no such key; FN_E_INVALID: told in *p. */
int conf_override(struct conf_values *v, const char *key, const char *where, const char *text,
                  struct conf_problems *p);

/* Parsers of single values. Durations are sums of numbers with units (ns us ms s m h), "0", or
 * "never" and "-1" = -1; sizes are whole numbers with B, KiB, MiB, GiB, TiB or nothing. */
int conf_parse_int(const char *text, int64_t *ret);
int conf_parse_duration(const char *text, int64_t *ret_ns);
int conf_parse_bytes(const char *text, int64_t *ret);
int conf_parse_bool(const char *text, bool *ret);

/* Nearest known word (edit distance <= 2 or a third of the length), or NULL. */
const char *conf_nearest(const char *word, const char *const *known);

/* Both NULL, or the same text. */
bool conf_same_text(const char *a, const char *b);
/* Whether both have the same values, by one table; NULL is equal to NULL only. */
bool conf_same(const struct conf_values *a, const struct conf_values *b);
/* The value alone, as YAML; secrets as "***". */
int conf_print_option(const struct conf_values *v, uint32_t i, struct buf *out);
/* Effective values as YAML ("key: value  # source"), secrets as "***". */
int conf_print(const struct conf_values *v, int indent, struct buf *out);
/* The table as a Markdown table. variable(ud, key) names the FN_ variable of a key or gives NULL;
 * may be NULL itself. */
int conf_print_reference(const struct fn_opt *opts,
                         const char *(*variable)(void *ud, const char *key), void *ud,
                         struct buf *out);
/* "a size such as 64KiB, 6MiB or 1GiB, from 16KiB to 1MiB": what may be written for an option. */
int conf_print_rule(const struct fn_opt *o, struct buf *out);

#endif
