/* What a container may be: the predicate that every create request is held against, after driver
 * wrappers and their extra JSON had their say.
 *
 * It judges the text that goes to the engine, member by member, against what it knows: a member
 * that it does not know is refused. Names are compared byte by byte, since the engine takes
 * `privileged` for `Privileged`. The default is what a task of the node alone asks for; each thing
 * beyond it has an option of the operator. */
#ifndef DRIVER_DOCKER_CREATE_RULES_H
#define DRIVER_DOCKER_CREATE_RULES_H

#include "docker_api.h"

/* The options of that name, with "allow_" before it. */
struct create_rules {
    struct fn_strlist mounts;       /* a directory, one with a star for what is directly below,
                                     * "volume:name", each with ":ro" if read-only; "tmpfs" */
    struct fn_strlist devices;      /* "/dev/kvm" */
    struct fn_strlist capabilities; /* "NET_ADMIN" */
    struct fn_strlist runtimes;     /* "runsc" */
    struct fn_strlist networks;
    struct fn_strlist log_drivers;
    struct fn_strlist ulimits;      /* names that may exceed the node's limit */
    struct fn_strlist rights;       /* "network", "privileged-user", "writable-root" */
    struct fn_strlist extra;        /* "HostConfig.OomScoreAdj", "WorkingDir" */
};

/* Do the options make sense, and open nothing that no option may open? */
int rules_check(const struct create_rules *rules, const char *engine_socket,
                struct fn_error *reterr);

/* 0, or FN_E_PERMISSION with `DOC1003 ...`, which names the task's field. */
int rules_judge(const char *body, const struct fn_task *task, const struct api_settings *settings,
                struct fn_error *reterr);

#endif
