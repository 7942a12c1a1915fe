/* Table: what a room of the node can be told in fn.yaml, beside what struct fn_opt says of options
 * of plugins. Rows are written with the words of opts.h. */
#ifndef CONF_TABLE_H
#define CONF_TABLE_H

#include <fn/abi.h>

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

/* Sets the fields of the rows in `ret` to their defaults and leaves the others alone; texts are
 * those of the rows, and lists stay empty. [any] */
void opt_defaults(const struct opt_table *table, void *ret);

#endif
