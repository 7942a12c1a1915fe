/* A good plugin per kind, and what is wrong with number MUTANT of it. Each wrong line stands where
 * a right one would; mutants.txt says which case of fnkit check must see it. 0 is the good one. */
#ifndef MUTANT_H
#define MUTANT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MUTANT
#define MUTANT 0
#endif
#define M(n) (MUTANT == (n))

#define MUTANT_PLUGIN(id, kind_, KIND, conf_, opts_, needs_, ops_)                                 \
    static const struct fn_factory factory = {                                                     \
        .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),                                        \
        .kind = kind_,                                                                             \
        .name = "mutant",                                                                          \
        .summary = "Shows that a contract suite can fail.",                                        \
        .kind_major = FN_##KIND##_MAJOR,                                                           \
        .kind_minor = FN_##KIND##_MINOR,                                                           \
        .conf_size = conf_,                                                                        \
        .needs = needs_,                                                                           \
        .opts = opts_,                                                                             \
        .ops = &ops_,                                                                              \
        .create = create,                                                                          \
        .destroy = destroy,                                                                        \
    };                                                                                             \
    static const struct fn_factory *const factories[] = {&factory, NULL};                          \
    static const struct fn_manifest manifest = {                                                   \
        .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),                                      \
        .abi_major = FN_ABI_MAJOR,                                                                 \
        .abi_minor = FN_ABI_MINOR,                                                                 \
        .name = "mutant",                                                                          \
        .version = "1.0",                                                                          \
        .license = "Apache-2.0",                                                                   \
        .build_tag = FN_BUILD_TAG,                                                                 \
        .factories = factories,                                                                    \
    };                                                                                             \
    FN_PLUGIN_DEFINE(id, manifest)

static inline int fail(struct fn_error *e, int code, const char *text)
{
    if (e) {
        e->code = code;
        snprintf(e->msg, sizeof(e->msg), "%s", text);
    }
    return code;
}

#endif
