/* Explain: what is wrong with a text that libyaml refuses. Private to core/conf. [init] */
#ifndef CONF_EXPLAIN_H
#define CONF_EXPLAIN_H

#include <conf/conf.h>
#include <yaml.h>

struct conf_text {
    const char *at;
    size_t len;
};

struct conf_fault {
    int line, column; /* from 1 on */
    char text[256];
};

/* Where a byte of a text stands, both from 1 on; columns are characters. */
struct conf_place {
    int line, column;
};
struct conf_place conf_place_of(const char *text, const char *at);
size_t conf_characters(const char *from, const char *to);

/* The mistake behind the parser's error, at its own place. */
void conf_explain(const struct conf_text *t, const yaml_parser_t *p, struct conf_fault *ret);

/* The first character that looks like a blank and is none for YAML, such as a no-break space, or
 * NULL; and its sentence. */
const char *conf_odd_blank(const char *at, const char *end);
void conf_odd_blank_text(const char *at, char *ret, size_t cap);

#endif
