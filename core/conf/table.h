/* Table: what a room of the node can be told in fn.yaml, beside what struct fn_opt says of options
 * of plugins. Rows are written with the words of opts.h. */
#ifndef CONF_TABLE_H
#define CONF_TABLE_H

#include <fn/abi.h>
#include <stdbool.h>

struct arena;

/* Flags of rows, of the node's own tables only.
 * Live: a reload takes the value over. What is not marked needs a restart, so that a new option is
 * refused until somebody made it live. */
#define OPT_IS_LIVE (1u << 31)
/* The field of an FN_OPT_INT or FN_OPT_BYTES is a uint32_t; the row's bounds fit. */
#define OPT_IS_32 (1u << 30)

struct opt_table {
    const struct fn_opt *rows; /* key NULL ends; they bind into the room's own struct */
    uint32_t size;             /* of that */
};

/* NULL: there is no row of that key. [any] */
const struct fn_opt *opt_find(const struct fn_opt *rows, const char *key);
/* Whether two structs have the same in the row's field. [any] */
bool opt_same(const struct fn_opt *o, const void *a, const void *b);
/* Copies the texts and lists that the rows' fields in `to` borrow. False: there was no memory.
 * [any] */
bool opt_copy(const struct fn_opt *rows, void *to, struct arena *a);
/* The number of a text for a row: of an INT, DURATION, BYTES or BOOL its value, of a STR its
 * length. 0, FN_E_INVALID, or FN_E_RANGE for what is not within the bounds. [any] */
int opt_number(const struct fn_opt *o, const char *text, int64_t *ret);
bool opt_is_choice(const struct fn_opt *o, const char *word); /* [any] */

/* Sets the fields of the rows in `ret` to their defaults and leaves the others alone; texts are
 * those of the rows, and lists stay empty. [any] */
void opt_defaults(const struct opt_table *table, void *ret);

#endif
