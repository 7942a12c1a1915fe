/* Private to driver-process: the instance (plugin.c) and what it does (containers.c). */
#ifndef DRIVER_PROCESS_H
#define DRIVER_PROCESS_H

#include <fn/driver.h>
#include <stdatomic.h>
#include <stdbool.h>

struct process_conf {
    const char *root;
    int64_t uid;
    int64_t gid;
};

struct process_driver {
    const struct fn_host *host;
    const struct process_conf *conf;
    const struct fn_proc_if *proc;
    const struct fn_op_if *op;
    const struct fn_driver_if *driver;
    char *root; /* absolute, without links */
    bool as_root;
    atomic_bool told_shares, told_labels; /* once each */
};

extern const struct fn_driver_ops process_ops;

#endif
