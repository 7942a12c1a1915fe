/* Docker Swarm through the Engine API: requests as text, answers as values. Pure: no I/O, no clock.
 *
 * A runner is a service of one replica, so that the one to be removed is ours to choose: whoever
 * scales a service down lets the Swarm pick. Its name is made of the request that asked for it, and
 * names are unique in a Swarm, so that a repeated request makes nothing twice. What the plugin must
 * know of a runner later is in labels of its service, so that a changed configuration changes
 * nothing about runners that are there.
 *
 * A service that has ended is not started again: a machine lives once, and the host of control
 * planes replaces what is lost. Answers are untrusted; a list that cannot be read in full is an
 * error. */
#ifndef CP_SWARM_API_H
#define CP_SWARM_API_H

#include <fn/cplane.h>
#include <stdbool.h>

#define SWARM_NAME_MAX 63 /* of a service; the Swarm's own limit */
#define SWARM_ID_MAX 64
#define SWARM_ADDRESS_MAX 128
#define SWARM_PATH_MAX 2048
#define SWARM_BASE_MAX 256
#define SWARM_STILLBORN_S 5

struct swarm_conf {
    const char *docker_host;
    const char *image;
    const char *owner;
    const char *network; /* NULL = a port of the node */
    struct fn_strlist constraints;
    struct fn_strlist env;
    struct fn_strlist mounts;
    struct fn_strlist capabilities;
    struct fn_strlist node_labels; /* keys of Swarm nodes' labels that runners there have, too */
    const char *labels;            /* of each runner; NULL: none */
    int64_t grpc_port;
    int64_t capacity_mb;
    int64_t overhead_mb;
    int64_t stop_grace_ns;
};

/* 0, or FN_E_INVALID with `key, got ...; expected ...`. */
int swarm_check(const struct swarm_conf *conf, struct fn_error *reterr);

/* Where the engine is: *ret_unix_path is a part of docker_host, or NULL for TCP; ret_base begins
 * the urls. FN_E_INVALID. */
int swarm_address(const char *docker_host, const char **ret_unix_path,
                  char ret_base[SWARM_BASE_MAX], struct fn_error *reterr);

/* fnd-<owner>-<group>-r<request>-<index>; a group that is long or has other characters than a name
 * may have is replaced by its hash. index < 1000. */
void swarm_name(const struct swarm_conf *conf, const char *group, uint64_t request_id,
                uint32_t index, char ret[SWARM_NAME_MAX + 1]);

/* Body of POST /services/create; given: free(). */
int swarm_create_body(const struct swarm_conf *conf, const char *name, const char *group,
                      uint64_t request_id, char **ret, struct fn_error *reterr);

/* "/services?filters=..." or "/tasks?filters=...": those of the group. */
int swarm_list_path(const struct swarm_conf *conf, const char *what, const char *group,
                    char ret[SWARM_PATH_MAX], struct fn_error *reterr);

struct swarm_runner {
    const char *name;
    uint32_t state;       /* FN_MACHINE_* */
    const char *address;  /* NULL unless READY */
    uint64_t capacity_mb; /* 0 = the label is gone */
    const char *labels;   /* NULL: none */
    const char *why;      /* what the Swarm says of a runner that waits or ended; may be "" */
    bool stillborn;       /* it never ran, or ended within SWARM_STILLBORN_S */
    bool ended;           /* nothing of it runs: the service may be taken away */
};

struct swarm_text {
    const char *body;
    uint64_t len;
};

/* The three lists joined: GET /services and /tasks as above, GET /nodes. Calls cb for each service;
 * stops when it returns < 0 and returns that. Nothing was told of a malformed list's end: the
 * caller uses what cb got only when 0 was returned. */
int swarm_join(const struct swarm_conf *conf, struct swarm_text services, struct swarm_text tasks,
               struct swarm_text nodes,
               int (*cb)(void *ud, const struct swarm_runner *r), void *ud,
               struct fn_error *reterr);

/* Of GET /services/<name>: 1 and the service's id when it is this group's runner of that name,
 * 0 when it is another's. */
int swarm_is_ours(struct swarm_text service, const struct swarm_conf *conf, const char *group,
                  const char *name, char ret_id[SWARM_ID_MAX + 1], struct fn_error *reterr);

/* May be the name of a runner of ours. */
bool swarm_is_name(const char *name);

/* An answer with an error status becomes *reterr; returns its code. FN_E_PRECONDITION when the
 * engine is not a manager of a Swarm. */
int swarm_failure(const struct swarm_conf *conf, const char *what, uint32_t status,
                  struct swarm_text body, struct fn_error *reterr);

#endif
