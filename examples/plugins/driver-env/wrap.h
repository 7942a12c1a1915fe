/* What both files of driver/env share. */
#ifndef DRIVER_ENV_WRAP_H
#define DRIVER_ENV_WRAP_H

#include <fn/driver.h>

struct conf {
    const char *inner;
    const char *extension;
    const char *variable;
};

struct env {
    const struct conf *conf;         /* lives as long as the instance */
    const struct fn_driver_ops *ops; /* of the inner driver */
    void *inner;
};

extern const struct fn_driver_ops env_ops;

#endif
