/* The machines of a group, through VBoxManage and vagrant. The tools' own state is the only one, so
 * that a restarted manager finds its machines again, and a request that is repeated finds what it
 * made. Methods as in fn/cplane.h: [worker]. */
#ifndef CP_VBOX_MACHINES_H
#define CP_VBOX_MACHINES_H

#include "claims.h"

#include <fn/cplane.h>

struct vbox_conf {
    const char *mode; /* "clone" or "vagrant" */
    const char *template_;
    const char *snapshot;
    const char *work;
    const char *home;
    const char *prefix;
    const char *vboxmanage;
    const char *vagrant;
    const char *labels;
    int64_t adapter;
    int64_t port;
    int64_t capacity_mb;
    int64_t stop_timeout_ns;
};

struct vbox {
    const struct fn_host *host;
    const struct fn_exec_if *exec;
    const struct fn_op_if *op;
    const struct vbox_conf *conf; /* lives as long as the instance */
    int vagrant;                  /* mode */
    struct claims claims;         /* in the home directory, which decides what machines there are */
    const char *env[4];
    char home[1024 + 8];
    char labels[FN_LABELS_TEXT_MAX + 1]; /* of each machine */
};

int machines_list(struct vbox *v, struct fn_op *op, const char *group,
                  const struct fn_machine_sink *out, struct fn_error *reterr);
int machines_provision(struct vbox *v, struct fn_op *op, const char *group, uint32_t n,
                       uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr);
int machines_remove(struct vbox *v, struct fn_op *op, const char *group, const char *id,
                    struct fn_error *reterr);

#endif
