/* Private to the create request: what its body (create_body.c), what wrappers add to it
 * (create_extras.c) and the predicate (create_rules.c) have in common. */
#ifndef DRIVER_DOCKER_CREATE_BODY_H
#define DRIVER_DOCKER_CREATE_BODY_H

#include "docker_api.h"
#include "task.h"

#define CREATE_USER          "1000:1000"
#define CREATE_CAP_DROP      "ALL"
#define CREATE_SECURITY      "no-new-privileges"
#define CREATE_NO_HEALTH     "NONE"
#define CREATE_CPU_PERIOD_US 100000
#define CREATE_TMPFS_MAX     96

void create_tmpfs_options(const struct fn_task *t, char *ret, size_t cap);
void create_storage_size(const struct fn_task *t, char *ret, size_t cap); /* "" = no limit */
/* The node's limit of that name, 0 = none. */
uint64_t create_ulimit(const struct fn_task *t, const char *name);
extern const char *const create_ulimit_names[]; /* NULL ends */
json_t *create_log_config(const struct fn_task *t); /* of the app's syslog URL */

/* The directory of the function's socket. In Mounts, not in Binds as Go Fn has it: of a bind an
 * engine makes the source where there is none, so that a start which it had kept waiting made
 * directories anew that the runner had taken away. */
json_t *create_socket_mount(const struct fn_task *t);

/* No health check, whatever the image says. Nobody looks at what it tells, the engine would run a
 * program in containers that wait for calls, and would go on with those whose cgroup is frozen
 * without its knowledge. Podman makes of it a check that is asked for, with a timer of its own. */
json_t *create_no_health(void);

/* Adds to the body what drivers that wrap this one asked for. FN_E_INVALID for what cannot be
 * expressed; whether it may be is not decided here. */
int create_add_extras(json_t *body, const struct fn_task *t, struct fn_error *reterr);

#endif
