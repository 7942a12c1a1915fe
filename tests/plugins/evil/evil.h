/* A placer that is good unless told otherwise: an evil plugin defines what it does wrong and
 * includes this file last.
 *
 *   #define EVIL_NAME "e07"        name of its factory, required
 *   #define EVIL_CREATE f          int f(host, conf, ret_inst, reterr)
 *   #define EVIL_DECIDE f          int f(inst, ask, answer)
 *   #define EVIL_OBSERVE f         void f(inst, result)
 *   #define EVIL_DESTROY f         void f(inst)
 *   #define EVIL_SESSION_SIZE n
 *   #define EVIL_KIND "placer"
 *   #define EVIL_NO_ENTRY          only the note, no symbol
 *   #define EVIL_OWN_ENTRY         the same, the file has its own
 */
#ifndef EVIL_H
#define EVIL_H

#include <fn/placer.h>

#ifndef EVIL_CREATE
#define EVIL_CREATE evil_create
#endif
#ifndef EVIL_DECIDE
#define EVIL_DECIDE evil_decide
#endif
#ifndef EVIL_DESTROY
#define EVIL_DESTROY evil_destroy
#endif
#ifndef EVIL_OBSERVE
#define EVIL_OBSERVE NULL
#endif
#ifndef EVIL_KIND
#define EVIL_KIND FN_KIND_PLACER
#endif
#ifndef EVIL_SESSION_SIZE
#define EVIL_SESSION_SIZE 0
#endif

static __attribute__((unused)) int evil_create(const struct fn_host *host, const void *conf,
                                               void **ret_inst, struct fn_error *reterr)
{
    (void)conf;
    (void)reterr;
    *ret_inst = (void *)(uintptr_t)host; /* not NULL, and useful to those who keep it */
    return 0;
}

static __attribute__((unused)) void evil_destroy(void *inst)
{
    (void)inst;
}

/* The first runner, once in a round; then it waits. */
static __attribute__((unused)) int evil_decide(void *inst, const struct fn_ask *ask,
                                               struct fn_answer *ret)
{
    (void)inst;
    if (ask->why != FN_WHY_BUSY && ask->why != FN_WHY_UNREACHABLE && ask->snap->n > 0) {
        ret->verdict = FN_TRY;
        ret->index = 0;
        return 0;
    }
    ret->verdict = FN_WAIT;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    ret->wait_ns = 100000000;
    return 0;
}

static const struct fn_placer_ops evil_ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = EVIL_SESSION_SIZE,
    .decide = EVIL_DECIDE,
    .observe = EVIL_OBSERVE,
};

static const struct fn_factory evil_factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = EVIL_KIND,
    .name = EVIL_NAME,
    .summary = "Does one thing that no plugin may do.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .ops = &evil_ops,
    .create = EVIL_CREATE,
    .destroy = EVIL_DESTROY,
};

static const struct fn_factory *const evil_factories[] = { &evil_factory, NULL };

__attribute__((unused)) static const struct fn_manifest evil_manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = EVIL_NAME,
    .version = "6.6.6",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = evil_factories,
};

#if defined(EVIL_NO_ENTRY) || defined(EVIL_OWN_ENTRY)
__attribute__((section(".note.fnd"), used, aligned(4))) static const struct fn_note evil_note = {
    4, 8, FN_NOTE_TYPE, FN_NOTE_OWNER, FN_ABI_MAJOR, FN_ABI_MINOR, 0, 0
};
#else
FN_PLUGIN_DEFINE(evil, evil_manifest)
#endif

#endif
