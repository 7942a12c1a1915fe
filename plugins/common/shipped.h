/* The end of every plugin file that comes with fnd: one factory, this release. */
#ifndef PLUGINS_SHIPPED_H
#define PLUGINS_SHIPPED_H

#include <fn/abi.h>

/* symbol: the plugin's name where C wants an identifier; factory_ptr: a struct fn_factory of static
 * storage. */
#define SHIPPED_PLUGIN(symbol, plugin_name, factory_ptr)                                           \
    static const struct fn_factory *const factories[] = { (factory_ptr), NULL };                   \
    static const struct fn_manifest manifest = {                                                   \
        .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),                                      \
        .abi_major = FN_ABI_MAJOR,                                                                 \
        .abi_minor = FN_ABI_MINOR,                                                                 \
        .host_minor_min = FN_HOST_MINOR_MIN,                                                       \
        .name = (plugin_name),                                                                     \
        .version = FND_VERSION,                                                                    \
        .license = "Apache-2.0",                                                                   \
        .build_tag = FN_BUILD_TAG,                                                                 \
        .factories = factories,                                                                    \
    };                                                                                             \
    FN_PLUGIN_DEFINE(symbol, manifest)

#endif
