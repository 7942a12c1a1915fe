/* Reload: reads fn.yaml again and puts a new generation in the place of the running one.
 *
 * Everything that can be wrong is found before anything changes: on a worker the file is read and
 * checked as `fnd check` does it, compared with what a running node can take over, and all plugin
 * instances are made. Only a complete generation is switched in, in one step of the loop. One
 * reload at a time; a second one is answered "busy". [loop] unless marked. */
#ifndef NODE_RELOAD_H
#define NODE_RELOAD_H

#include <admin/admin.h>

struct node;
struct reload;

/* [init] strict: warnings are problems. NULL: out of memory. */
struct reload *reload_create(struct node *n, bool strict);
void reload_destroy(struct reload *r); /* [init] quiet; NULL ok */
/* SIGHUP: one that comes during a reload is done after it, as nobody can be told to come again. */
void reload_signal(struct reload *r);
/* The node drains: no reload from now on; what is being made is thrown away. */
void reload_stop(struct reload *r);
bool reload_is_quiet(const struct reload *r); /* no worker is busy for it */
/* For GET /status: the generation in use, and why the last reload was refused if it was. Given. */
struct json_t *reload_json(struct reload *r);
/* POST /reload and GET /generations. */
void reload_routes(struct reload *r, struct admin *a);

#endif
