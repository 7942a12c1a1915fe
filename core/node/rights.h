/* Rights: which node needs what of its machine, and what it therefore gives up. [init] */
#ifndef NODE_RIGHTS_H
#define NODE_RIGHTS_H

#include <config/config.h>
#include <jansson.h>
#include <process/harden.h>

/* What a node of this configuration keeps; `writable` is left out. */
struct harden_plan rights_plan(const struct config *c);
/* Before the first thread; see harden_apply(). *ret borrows from the configuration. */
int rights_give_up(const struct config *c, struct harden_report *ret, struct fn_error *reterr);

/* What those plugins, and the sides that have them, need; for node_side.rights. */
void rights_add_drivers(struct harden_plan *p, const struct config_list_plugin *list);
/* Whether functions of those drivers may have to reach their sockets by the node's own path, as
 * another user than the node. `apart`: its child processes get mounts, or are of its own user. */
bool rights_sockets_by_path(const struct config_list_plugin *drivers, bool apart);
void rights_add_cplane(struct harden_plan *p, const struct config_plugin *cplane);

/* "hardening" of GET /status; given, NULL: no memory. */
json_t *rights_json(const struct harden_report *report);
/* One line in the log. */
void rights_tell(const struct harden_report *report);

#endif
