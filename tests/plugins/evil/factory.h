/* A factory of the plugin EVIL_NAME: variable, kind, prefix of its version, needs, ops, life. */
#ifndef EVIL_FACTORY_H
#define EVIL_FACTORY_H

#include <fn/host.h>

#define EVIL_FACTORY(var, kind_, prefix, needs_, ops_, create_, destroy_)                          \
    static const struct fn_factory var = {                                                         \
        .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),                                        \
        .kind = kind_,                                                                             \
        .name = EVIL_NAME,                                                                         \
        .summary = "Does one thing that no plugin may do.",                                        \
        .kind_major = prefix##_MAJOR,                                                              \
        .kind_minor = prefix##_MINOR,                                                              \
        .needs = needs_,                                                                           \
        .ops = ops_,                                                                               \
        .create = create_,                                                                         \
        .destroy = destroy_,                                                                       \
    }

#endif
