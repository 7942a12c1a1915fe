/* The plugin ABI of fnd: the part that every kind of plugin shares.
 *
 * A plugin is one shared object with one exported symbol, fn_plugin_v1(). It returns a constant
 * manifest that lists factories ("placer named naive"). fn.yaml makes instances of factories; each
 * instance is given a host table (host.h) and is called through the ops table of its kind
 * (placer.h, pool.h, override.h, listener.h, driver.h, cplane.h, predictor.h, operator.h).
 *
 * Change log, newest first. tests/abi of the source tree keeps the headers of each released minor.
 *   1.1  operator.h: the kind "operator". override.h: fn.edit 1.1 sets image, syslog URL, type,
 *        headers and annotations, and lists them. driver.h: tasks have CPU shares, labels, mounts,
 *        devices, limits, capabilities, DNS, runtime, network, log driver and extra JSON; fn.driver
 *        1.1 has task(). labels.h: runners of snapshots and machines of control planes have labels.
 *        view.h: whoever is shown a call can ask for all of it. listener.h: after_worker(), for
 *        listeners that may be slow; before_change() and after_change(). host.h: requests of fn.http 1.1 name TLS files, children of
 *        fn.proc 1.1 have CPU shares.
 *        usage() of drivers tells what containers use. read() of operators is a source of lines.
 *        predictor.h: containers(), how many of them a runner keeps ready.
 *   1.0  first version.
 *
 * Growth rule. Every table and view that crosses the border starts with its size as the filling
 * side knew it. Fields are only ever appended and 0 always means the old behaviour. The host
 * copies min(host size, plugin size) bytes once at load; bytes of a plugin's table that the host
 * does not know must be zero, else the plugin is refused with a sentence. A view that the host
 * passes may be larger than the plugin knows; the plugin never reads past `size`. A struct that one
 * side fills for the other (ret_*, *ret) has its size set by the owner before the call, and nothing
 * is written past it. Fixed for the whole major, because they stand in plain arrays, inside other
 * structs or on stacks: fn_hdr, fn_error, fn_need, fn_opt, fn_strlist, fn_note, fn_label (labels.h),
 * and of driver.h fn_kv, fn_mount, fn_device, fn_ulimit, fn_usage.
 *
 * New values. Fields named reserved must be 0. A flag, type or verdict of a plugin that the host
 * does not know is refused. A flag, reason or `why` of the host that a plugin does not know is
 * ignored or treated as the entry that its comment names; the host never relies on a plugin to
 * obey a value that came later than the kind_minor of its factory.
 *
 * Ownership words:
 *   borrowed  valid until the callback returns; copy what is needed longer
 *   pinned    valid until unpinned
 *   given     the receiver owns it now and releases it with the function that is named
 *   copied    the other side took a copy
 *
 * Contexts, written on every method:
 *   [init]    before the node serves, or a worker during reload; may block up to start_timeout
 *   [loop]    the node's single serialised context (not always the same thread); never blocks
 *   [worker]  a lane thread; may block until its deadline; one call at a time per object
 *   [any]     any thread, several at once; never blocks
 *
 * Re-entrancy. A host function never calls back into the instance that called it before it
 * returns, unless its comment says so: what it sets off comes later, from the loop or from a host
 * thread. So decide() may wake, log and arm timers, and a timer's callback may arm and cancel
 * timers, its own id included (it is stale by then). A plugin that holds a lock of its own while it
 * calls a host function from outside of the loop (fn.wake, fn.snap, fn.driver) and takes the same
 * lock on the loop can deadlock: release first, then call.
 *
 * Several instances of one factory may live at the same time, made and destroyed while others are
 * in use; they share constants only. No exception and no longjmp leaves a plugin's function.
 *
 * Errors: int results; 0 ok, > 0 a documented outcome, < 0 FN_E_* (negated gRPC status codes).
 * Details go to a caller-owned struct fn_error, last parameter, may be NULL, written only on
 * failure. ret_* parameters are written only on success. A code outside of FN_E_* breaks the
 * contract. */
#ifndef FN_ABI_H
#define FN_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_ABI_MAJOR 1
#define FN_ABI_MINOR 1

/* First member of every table. `magic` differs per table type, so that a wrong cast is caught at
 * load. */
struct fn_hdr {
    uint32_t size;
    uint32_t magic;
};

#define FN_MAGIC_MANIFEST 0x464e4d46u
#define FN_MAGIC_FACTORY  0x464e4643u
#define FN_MAGIC_HOST     0x464e4853u

#define FN_HDR(type, magic_) { (uint32_t)sizeof(type), (magic_) }

/* Whether a view or a table that the other side filled reaches to `member`, for members that came
 * after minor 0: an older host's is shorter. All of them begin with their size, as a header or as
 * `size` alone. A method may still be NULL. */
#define FN_HAS(table, member)                                                                      \
    ((size_t)((const char *)&(table)->member - (const char *)(table)) + sizeof((table)->member) <= \
     *(const uint32_t *)(const void *)(table))

/* Error codes: gRPC status codes, negated. */
#define FN_E_CANCELLED     (-1)
#define FN_E_UNKNOWN       (-2)
#define FN_E_INVALID       (-3)
#define FN_E_DEADLINE      (-4)
#define FN_E_NOT_FOUND     (-5)
#define FN_E_EXISTS        (-6)
#define FN_E_PERMISSION    (-7)
#define FN_E_EXHAUSTED     (-8)
#define FN_E_PRECONDITION  (-9)
#define FN_E_ABORTED       (-10)
#define FN_E_RANGE         (-11)
#define FN_E_UNIMPLEMENTED (-12)
#define FN_E_INTERNAL      (-13)
#define FN_E_UNAVAILABLE   (-14)
#define FN_E_DATA_LOSS     (-15)
#define FN_E_UNAUTHENTICATED (-16)

/* Whose fault a failure is: decides what the caller sees and which counter moves. */
#define FN_BLAME_PLATFORM 0u
#define FN_BLAME_USER     1u
#define FN_BLAME_PLUGIN   2u

/* fn_error.flags: a promise that nothing was executed, so that trying elsewhere is safe. */
#define FN_ERR_RETRY (1u << 0)

#define FN_ERROR_TEXT_MAX 216

/* Caller-owned. Whoever reports a failure fills what it knows and leaves the rest 0; the result of
 * the function counts, not `code`. */
struct fn_error {
    uint32_t size;          /* set by the caller: FN_ERROR_INIT */
    int32_t code;           /* FN_E_* */
    int32_t http_status;    /* 0 = derived from code */
    uint32_t blame;         /* FN_BLAME_* */
    uint64_t flags;         /* FN_ERR_* */
    int64_t retry_after_ns; /* 0 = unknown */
    char msg[FN_ERROR_TEXT_MAX]; /* NUL-terminated, one sentence for humans */
};

#define FN_ERROR_INIT { (uint32_t)sizeof(struct fn_error), 0, 0, 0, 0, 0, { 0 } }

struct fn_host; /* host.h */
struct fn_op;   /* one blocking operation, host.h */

/* A host interface that a factory wants; fn_host.get() returns only what is listed here. */
struct fn_need {
    const char *iface; /* "fn.http"; NULL ends the list */
    uint16_t major;
    uint16_t minor_min;
    uint32_t flags; /* FN_NEED_* */
};

/* Without it the instance is made only on a node that offers the interface; with it get() answers
 * NULL where it is missing or too old. */
#define FN_NEED_OPTIONAL (1u << 0)

/* Option types and what the host stores at conf + offset. */
#define FN_OPT_STR      1u /* const char *, NULL if not set; min/max bound its length */
#define FN_OPT_INT      2u /* int64_t */
#define FN_OPT_DURATION 3u /* int64_t nanoseconds; text "10ms", "2s", "5m", "1h"; min/max in ns */
#define FN_OPT_BYTES    4u /* int64_t; text "64KiB", "6MiB", "1GiB" or plain bytes */
#define FN_OPT_BOOL     5u /* uint32_t, 0 or 1; text true or false */
#define FN_OPT_STRLIST  6u /* struct fn_strlist */
#define FN_OPT_CHOICE   7u /* const char *, one of the words in `choices` */

struct fn_strlist {
    const char *const *items; /* borrowed, live as long as the instance */
    uint64_t n;
};

/* One key of fn.yaml. The host parses, checks and stores it; no plugin sees YAML. The same table
 * prints the documentation. */
struct fn_opt {
    const char *key;     /* NULL ends the list */
    const char *doc;     /* one sentence */
    const char *dflt;    /* as text; NULL = required unless FN_OPT_MAY_BE_ABSENT */
    const char *choices; /* FN_OPT_CHOICE: words separated by '|' */
    int64_t min;         /* both 0: no bounds */
    int64_t max;
    uint32_t type;       /* FN_OPT_* */
    uint32_t offset;     /* offsetof() in the plugin's own conf struct */
    uint32_t flags;      /* FN_OPT_MAY_* */
    uint32_t reserved0;
};

#define FN_OPT_MAY_BE_ABSENT (1u << 0) /* no default and not required: left zero */
#define FN_OPT_MAY_BE_SECRET (1u << 1) /* never printed by `fnd check` or logged */

/* Interface names of the kinds. */
#define FN_KIND_PLACER        "placer"
#define FN_KIND_POOL          "pool"
#define FN_KIND_CONTROL_PLANE "control-plane"
#define FN_KIND_OVERRIDER     "overrider"
#define FN_KIND_DRIVER        "driver"
#define FN_KIND_PREDICTOR     "predictor"
#define FN_KIND_LISTENER      "listener"
#define FN_KIND_OPERATOR      "operator" /* since 1.1 */

struct fn_factory {
    struct fn_hdr hdr; /* FN_MAGIC_FACTORY */
    const char *kind;  /* FN_KIND_* */
    const char *name;  /* what fn.yaml says after `use:`; [a-z0-9-]{1,32} */
    const char *summary;
    uint16_t kind_major; /* must equal the host's major for this kind */
    uint16_t kind_minor; /* compiled against */
    uint32_t conf_size;  /* host allocates, zeroes and fills from opts; <= 64 KiB */
    uint64_t caps_offered;  /* what it can do beyond its slots; unknown bits are ignored; 0 in 1.0 */
    uint64_t caps_required; /* what the host must do; an unknown bit is refused; 0 in 1.0 */
    const struct fn_need *needs; /* may be NULL */
    const struct fn_opt *opts;   /* may be NULL */
    const void *ops;             /* struct fn_placer_ops etc.; begins with fn_hdr */
    /* [init] conf and the texts in it, and host, live as long as the instance; conf is NULL when
     * conf_size is 0. On failure destroy() is not called: create() frees what it made and closes
     * the streams that it opened, the host takes back timers and metrics. */
    int (*create)(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr);
    /* [init] NULL is accepted. No other method runs or comes after, timers are off; streams that
     * are left are closed here. Children of fn.proc are killed before it, and exited() of each of
     * them has returned. */
    void (*destroy)(void *inst);
};

/* fn_manifest.flags */
#define FN_PLUGIN_HAS_THREADS (1u << 0) /* starts threads: refused by the simulated host */

struct fn_manifest {
    struct fn_hdr hdr;       /* FN_MAGIC_MANIFEST */
    uint16_t abi_major;      /* compiled against */
    uint16_t abi_minor;
    uint16_t host_minor_min; /* FN_HOST_MINOR_MIN; equal to the ELF note's */
    uint16_t flags;          /* FN_PLUGIN_*; an unknown one is refused */
    const char *name;
    const char *version;
    const char *license;
    const char *build_tag; /* FN_BUILD_TAG */
    const struct fn_factory *const *factories; /* array of pointers; NULL ends */
};

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define FN_BUILD_SAN "-asan"
#elif __has_feature(thread_sanitizer)
#define FN_BUILD_SAN "-tsan"
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FN_BUILD_SAN "-asan"
#elif defined(__SANITIZE_THREAD__)
#define FN_BUILD_SAN "-tsan"
#endif
#ifndef FN_BUILD_SAN
#define FN_BUILD_SAN ""
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FN_BUILD_ENDIAN "be"
#else
#define FN_BUILD_ENDIAN "le"
#endif
#if defined(__LP64__)
#define FN_BUILD_WORD "lp64"
#else
#define FN_BUILD_WORD "ilp32"
#endif
#define FN_BUILD_TAG FN_BUILD_WORD "-" FN_BUILD_ENDIAN FN_BUILD_SAN

/* Oldest host minor that a plugin still works on. A plugin that cannot do without something of a
 * later minor defines it before the first <fn/...> header. */
#ifndef FN_HOST_MINOR_MIN
#define FN_HOST_MINOR_MIN 0
#endif

/* The one exported symbol. No side effects: tools call it in a child process. */
const struct fn_manifest *fn_plugin_v1(void);

/* An ELF note with the ABI version, read by the host before any code of the file runs
 * (constructors run at dlopen). Owner "fnd", type 1, three 16-bit numbers: major, minor,
 * host_minor_min. FN_PLUGIN_DEFINE writes it and the entry symbol. */
#define FN_NOTE_OWNER "fnd"
#define FN_NOTE_TYPE  1u

struct fn_note {
    uint32_t namesz;
    uint32_t descsz;
    uint32_t type;
    char name[4];
    uint16_t abi_major;
    uint16_t abi_minor;
    uint16_t host_minor_min;
    uint16_t reserved0;
};

#ifdef FN_PLUGIN_STATIC /* several plugins in one program, for sanitizers and fuzzers */
#define FN_ENTRY_JOIN(a, b) a##b
#define FN_ENTRY_NAME(id)   FN_ENTRY_JOIN(fn_plugin_v1_, id)
#ifdef __cplusplus
#define FN_ENTRY_C extern "C"
#else
#define FN_ENTRY_C
#endif
#define FN_PLUGIN_DEFINE(id, manifest)                                                             \
    FN_ENTRY_C const struct fn_manifest *FN_ENTRY_NAME(id)(void);                                  \
    FN_ENTRY_C const struct fn_manifest *FN_ENTRY_NAME(id)(void) { return &(manifest); }
#else
#define FN_PLUGIN_DEFINE(id, manifest)                                                             \
    __attribute__((section(".note.fnd"), used, aligned(4))) static const struct fn_note            \
        fn_note_##id = { 4, 8, FN_NOTE_TYPE, FN_NOTE_OWNER,                                        \
                         FN_ABI_MAJOR, FN_ABI_MINOR, FN_HOST_MINOR_MIN, 0 };                       \
    __attribute__((visibility("default"))) const struct fn_manifest *fn_plugin_v1(void)            \
    {                                                                                              \
        return &(manifest);                                                                        \
    }
#endif

#ifdef __cplusplus
}
#endif
#endif /* FN_ABI_H */
