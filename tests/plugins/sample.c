/* One plugin in many states of disrepair: every definition below can be replaced on the command
 * line (tests/plugins/CMakeLists.txt), so that each refusal of the loader has a file that earns
 * it. As it stands it is a good placer. */
#include <fn/cplane.h>
#include <fn/placer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef NOTE_MAJOR
#define NOTE_MAJOR FN_ABI_MAJOR
#endif
#ifndef NOTE_HOST_MIN
#define NOTE_HOST_MIN 0
#endif
#ifndef MANIFEST_SIZE
#define MANIFEST_SIZE sizeof(struct fn_manifest)
#endif
#ifndef MANIFEST_MAGIC
#define MANIFEST_MAGIC FN_MAGIC_MANIFEST
#endif
#ifndef MANIFEST_MAJOR
#define MANIFEST_MAJOR FN_ABI_MAJOR
#endif
#ifndef MANIFEST_HOST_MIN
#define MANIFEST_HOST_MIN 0
#endif
#ifndef MANIFEST_FLAGS
#define MANIFEST_FLAGS 0
#endif
#ifndef MANIFEST_NAME
#define MANIFEST_NAME "sample"
#endif
#define NOT_UTF8 "1\xff"
#define ESCAPES  "\x1b[31mred"
#define TWO_LINES "one\ntwo"
#ifndef MANIFEST_VERSION
#define MANIFEST_VERSION "1.2.3"
#endif
#ifndef MANIFEST_LICENSE
#define MANIFEST_LICENSE "Apache-2.0"
#endif
#ifndef FACTORY_SUMMARY
#define FACTORY_SUMMARY "A sample."
#endif
#ifndef MANIFEST_TAG
#define MANIFEST_TAG FN_BUILD_TAG
#endif
#ifndef MANIFEST_FACTORIES
#define MANIFEST_FACTORIES factories
#endif
#ifndef MANIFEST_RETURNED
#define MANIFEST_RETURNED (&manifest.table)
#endif
#ifndef ENTRY
#define ENTRY fn_plugin_v1
#endif
#ifndef FACTORY_SIZE
#define FACTORY_SIZE sizeof(struct fn_factory)
#endif
#ifndef FACTORY_MAGIC
#define FACTORY_MAGIC FN_MAGIC_FACTORY
#endif
#ifndef FACTORY_KIND
#define FACTORY_KIND FN_KIND_PLACER
#endif
#ifndef FACTORY_KIND_MAJOR
#define FACTORY_KIND_MAJOR FN_PLACER_MAJOR
#endif
#ifndef FACTORY_NAME
#define FACTORY_NAME "sample"
#endif
#ifndef FACTORY_CONF_SIZE
#define FACTORY_CONF_SIZE sizeof(struct conf)
#endif
#ifndef FACTORY_CAPS
#define FACTORY_CAPS 0
#endif
#ifndef FACTORY_CREATE
#define FACTORY_CREATE create
#endif
#ifndef FACTORY_OPS
#define FACTORY_OPS (&ops.table)
#endif
#ifndef OPS_SIZE
#define OPS_SIZE sizeof(struct fn_placer_ops)
#endif
#ifndef OPS_MAGIC
#define OPS_MAGIC FN_MAGIC_PLACER
#endif
#ifndef OPS_SESSION
#define OPS_SESSION 16
#endif
#ifndef OPS_DECIDE
#define OPS_DECIDE decide
#endif
#ifndef OPS_TAIL
#define OPS_TAIL 0
#endif
#ifndef OPS_INDEX_BUILD
#define OPS_INDEX_BUILD NULL
#endif
#ifndef OPT_KEY
#define OPT_KEY "limit"
#endif
#ifndef OPT_TYPE
#define OPT_TYPE FN_OPT_INT
#endif
#ifndef OPT_OFFSET
#define OPT_OFFSET offsetof(struct conf, limit)
#endif
#ifndef OPT_RESERVED
#define OPT_RESERVED 0
#endif
#ifndef OPT_DEFAULT
#define OPT_DEFAULT "5"
#endif
#ifndef OPT_DOC
#define OPT_DOC "A number that nothing uses."
#endif
#ifndef OPT_MIN
#define OPT_MIN 1
#endif
#ifndef OPT_MAX
#define OPT_MAX 9
#endif
#ifndef NEED_IFACE
#define NEED_IFACE "fn.wake"
#endif
#ifndef NEED_END
#define NEED_END NULL
#endif
#ifndef OPT_END
#define OPT_END NULL
#endif
#ifndef NEED_MAJOR
#define NEED_MAJOR 1
#endif
#ifndef NEED_MINOR
#define NEED_MINOR 0
#endif
#ifndef NEED_FLAGS
#define NEED_FLAGS FN_NEED_OPTIONAL
#endif

struct conf {
    int64_t limit;
    int64_t other;
};

static char instance_memory[16];

__attribute__((constructor)) static void mark_that_code_ran(void)
{
    setenv("FND_TEST_CONSTRUCTOR", "ran", 1);
}

#ifdef CREATE_FAILS
static int create_fails(const struct fn_host *host, const void *conf, void **ret_inst,
                        struct fn_error *reterr)
{
    uint64_t id;

    (void)conf;
    (void)ret_inst;
    host->timer->arm(host, host->clock->now_ns(host) + 1, (void (*)(void *))free, NULL, &id);
    snprintf(reterr->msg, sizeof(reterr->msg), "%s", CREATE_FAILS);
    return FN_E_UNAVAILABLE;
}
#endif

#ifdef CREATE_FLOODS
static int create_floods(const struct fn_host *host, const void *conf, void **ret_inst,
                         struct fn_error *reterr)
{
    (void)host;
    (void)conf;
    (void)ret_inst;
    memset(reterr->msg, '\x1b', sizeof(reterr->msg));
    return FN_E_INTERNAL;
}
#endif

#ifdef CREATE_EMPTY
static int create_empty(const struct fn_host *host, const void *conf, void **ret_inst,
                        struct fn_error *reterr)
{
    (void)host;
    (void)conf;
    (void)reterr;
    *ret_inst = NULL;
    return CREATE_EMPTY;
}
#endif

static void tick(void *ud)
{
    ++*(int *)ud;
}

__attribute__((unused)) static int create(const struct fn_host *host, const void *conf,
                                          void **ret_inst, struct fn_error *reterr)
{
    uint32_t metric;

    (void)conf;
    (void)reterr;
    host->metric->declare(host, "things", FN_METRIC_GAUGE, &metric);
    host->log->write(host, FN_LOG_DEBUG, "created", 7);
    *ret_inst = instance_memory;
    return 0;
}

static void destroy(void *inst)
{
    (void)inst;
}

/* Session: the first word says what to do; used by the tests of host tables. */
__attribute__((unused)) static int decide(void *inst, const struct fn_ask *ask,
                                          struct fn_answer *ret)
{
    (void)inst;
    (void)ask;
    (void)tick;
    ret->verdict = FN_WAIT;
    return 0;
}

#ifdef OPS_INDEX_HALF
static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    (void)inst;
    (void)snap;
    *ret_index = NULL;
    return 0;
}
#endif

static const struct {
    struct fn_placer_ops table;
    uint64_t tail;
} ops = {
    {
        .hdr = { OPS_SIZE, OPS_MAGIC },
        .session_size = OPS_SESSION,
        .decide = OPS_DECIDE,
        .index_build = OPS_INDEX_BUILD,
    },
    OPS_TAIL,
};

#ifdef OPS_CLAIM
/* Nobody calls it: it is refused. */
static const struct fn_cplane_ops cplane_ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = (void *)decide,
    .provision = (void *)decide,
    .remove = (void *)decide,
    .claim = OPS_CLAIM,
};
#endif

#ifdef NEEDS_ENDLESS
static const struct fn_need needs[40] = {
    [0 ... 39] = { NEED_IFACE, NEED_MAJOR, NEED_MINOR, NEED_FLAGS }
};
#else
static const struct fn_need needs[] = {
    { NEED_IFACE, NEED_MAJOR, NEED_MINOR, NEED_FLAGS },
    { NEED_END, 0, 0, 0 },
};
#endif

static const struct fn_opt opts[] = {
    { .key = OPT_KEY, .doc = OPT_DOC, .dflt = OPT_DEFAULT, .min = OPT_MIN, .max = OPT_MAX,
      .type = OPT_TYPE, .offset = OPT_OFFSET, .reserved0 = OPT_RESERVED },
    { .key = "other", .doc = "Another one.", .dflt = "7", .type = FN_OPT_INT,
      .offset = offsetof(struct conf, other) },
    { .key = OPT_END },
};

static const struct fn_factory factory = {
    .hdr = { FACTORY_SIZE, FACTORY_MAGIC },
    .kind = FACTORY_KIND,
    .name = FACTORY_NAME,
    .summary = FACTORY_SUMMARY,
    .kind_major = FACTORY_KIND_MAJOR,
    .conf_size = FACTORY_CONF_SIZE,
    .caps_required = FACTORY_CAPS,
    .needs = needs,
    .opts = opts,
    .ops = FACTORY_OPS,
    .create = FACTORY_CREATE,
    .destroy = destroy,
};

#ifdef NO_END
static const struct fn_hdr next_data[] = { { 64, 8 }, { 0, 0 } };
static const struct fn_factory *const factories[] = { &factory, (const void *)next_data };
#elif defined(TWICE)
static const struct fn_factory *const factories[] = { &factory, &factory, NULL };
#elif defined(ENDLESS)
static const struct fn_factory *const factories[80] = { [0 ... 79] = &factory };
#elif defined(NONE)
static const struct fn_factory *const factories[] = { NULL };
#else
__attribute__((unused)) static const struct fn_factory *const factories[] = { &factory, NULL };
#endif

static const struct {
    struct fn_manifest table;
    uint64_t tail;
} manifest = {
    {
        .hdr = { MANIFEST_SIZE, MANIFEST_MAGIC },
        .abi_major = MANIFEST_MAJOR,
        .abi_minor = FN_ABI_MINOR,
        .host_minor_min = MANIFEST_HOST_MIN,
        .flags = MANIFEST_FLAGS,
        .name = MANIFEST_NAME,
        .version = MANIFEST_VERSION,
        .license = MANIFEST_LICENSE,
        .build_tag = MANIFEST_TAG,
        .factories = MANIFEST_FACTORIES,
    },
    0,
};

#ifndef NO_NOTE
__attribute__((section(".note.fnd"), used, aligned(4))) static const struct fn_note note = {
    4, 8, FN_NOTE_TYPE, FN_NOTE_OWNER, NOTE_MAJOR, FN_ABI_MINOR, NOTE_HOST_MIN, 0
};
#endif

#ifdef HEAP
/* Tables that are built while the plugin runs, where nobody can tell how long they live. */
enum { HEAP_MANIFEST = 1, HEAP_NAME, HEAP_LIST, HEAP_FACTORY, HEAP_OPS, HEAP_SUMMARY };

static void *heap_copy(const void *from, size_t n)
{
    static void *volatile kept; /* nobody frees it: a refused file stays mapped */

    kept = malloc(n);
    if (!kept) {
        abort();
    }
    return memcpy(kept, from, n);
}

static const struct fn_manifest *heap_manifest(void)
{
    static struct fn_manifest m;
    static struct fn_factory f;
    static const struct fn_factory *list[2] = { &f, NULL };

    m = manifest.table;
    f = factory;
    m.factories = list;
    switch (HEAP) {
    case HEAP_MANIFEST:
        return heap_copy(&m, sizeof(m));
    case HEAP_NAME:
        m.name = heap_copy("sample", 7);
        break;
    case HEAP_LIST:
        m.factories = heap_copy(list, sizeof(list));
        break;
    case HEAP_FACTORY:
        list[0] = heap_copy(&f, sizeof(f));
        break;
    case HEAP_OPS:
        f.ops = heap_copy(&ops, sizeof(ops));
        break;
    default:
        f.summary = heap_copy("Words.", 7);
        break;
    }
    return &m;
}
#endif

const struct fn_manifest *ENTRY(void);
__attribute__((visibility("default"))) const struct fn_manifest *ENTRY(void)
{
    (void)&manifest;
    (void)&factory;
    (void)&ops;
    return MANIFEST_RETURNED;
}
