/* Api tree: apps with their functions and triggers as one JSON value, from an API node or from a
 * file with `apps:`, and printed as such a file.
 *
 *     [{"name", "config", "annotations", "syslog_url",
 *       "functions": [{"name", "image", "memory", "timeout", "idle_timeout", "config",
 *                      "annotations", "triggers": [{"name", "source", "annotations"}]}]}]
 *
 * An annotation is the text of its JSON. Members that say nothing are left out. What comes from a
 * node has ids too. [init] */
#ifndef CLI_API_TREE_H
#define CLI_API_TREE_H

#include <base/buf.h>
#include <config/config.h>
#include <http/fetch.h>
#include <jansson.h>

/* api_json.c: members and items as jansson has them, annotations as texts of JSON.
 * NULL: it is not JSON, or nested too deep. */
json_t *api_json_read(const char *text, size_t len);
int api_json_write(const json_t *item, struct buf *out); /* 0 or FN_E_EXHAUSTED */
bool api_json_same(const json_t *a, const json_t *b);    /* two annotations mean the same */
int api_json_print(const char *raw, struct buf *out);    /* an annotation, as YAML */
/* Any other value as YAML: what this has no raw form of, or takes for the end of a line, is
 * escaped. */
int api_json_print_value(const json_t *v, struct buf *out);
/* A key that stands behind `indent` blanks, or within braces (0), and its colon. */
int api_json_print_key(const char *key, int indent, struct buf *out);

/* A question to the API. NULL in *ret for an answer without a body; given. 0, or FN_E_* with what
 * the node said. */
int api_ask(struct fetch_client *client, const char *method, const char *path, const json_t *body,
            json_t **ret, struct fn_error *reterr);

int api_tree_of_node(struct fetch_client *client, json_t **ret, struct fn_error *reterr);
json_t *api_tree_of_file(const struct config *c); /* NULL: out of memory */
/* The names that are left when `only` has any. */
void api_tree_keep(json_t *tree, char *const *only, int n);
int api_tree_print(const json_t *tree, struct buf *out); /* as YAML */

/* The one of that name, or NULL. */
json_t *api_tree_find(const json_t *list, const char *name);

#endif
