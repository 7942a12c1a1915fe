/* Logs: GET /logs/<function> on the admin socket, which streams what a function prints from all
 * runners that this node reaches. [loop] */
#ifndef NODE_LOGS_H
#define NODE_LOGS_H

#include <admin/admin.h>
#include <base/err.h>

struct node;

/* ---- who is meant (log_names.c) -------------------------------------------------------------- */

#define LOG_NAME_MAX 255u /* bytes of an app's or a function's name, or an id */

struct log_name; /* a question that is not answered yet */

/* what: "app/function", or a function's id. done() gets the id, borrowed, or NULL and why not: from
 * inside (then NULL is returned) or later. */
struct log_name *log_name_find(struct node *n, const char *what,
                               void (*done)(void *ud, const char *fn_id,
                                            const struct fn_error *err),
                               void *ud);
void log_name_cancel(struct log_name *q); /* done() is not called any more; NULL ok */

/* ---- pages (log_pages.c) --------------------------------------------------------------------- */

void node_logs(void *ud, struct admin_request *rq); /* the handler; ud: the struct node */
/* Before the admin socket closes: whoever waits for a name is answered. */
void node_logs_close(struct node *n);

#endif
