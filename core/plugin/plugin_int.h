/* What the files of this room share. */
#ifndef PLUGIN_PLUGIN_INT_H
#define PLUGIN_PLUGIN_INT_H

#include <base/arena.h>
#include <base/buf.h>
#include <base/log.h>
#include <base/metric.h>
#include <openssl/evp.h>
#include <plugin/plugin.h>
#include <pthread.h>
#include <sys/queue.h>
#include <sys/types.h>

#define PLUGIN_FILE_BYTES_MAX (64 * 1024 * 1024)
#define PLUGIN_TABLE_MAX      4096 /* hdr.size of any table */
#define PLUGIN_TEXT_MAX       1024 /* any string of a manifest */
#define PLUGIN_FILES_MAX      256  /* mapped files: nothing is ever unmapped */
#define PLUGIN_FACTORIES_MAX  64
#define PLUGIN_OPTS_MAX       256
#define PLUGIN_NEEDS_MAX      32
#define PLUGIN_CONF_MAX       65536
#define PLUGIN_OFFERS_MAX     32
#define PLUGIN_TIMERS_MAX     10000
#define PLUGIN_METRICS_MAX    32
#define PLUGIN_LOG_MAX        2048

/* ---- problem.c: every refusal is a line "PLG904 <path>: <text>" ----------------------------- */

struct plugin_check {
    struct plugin_host *host;
    const char *path;
    struct buf *lines;
    uint32_t n;
    int first_code;         /* FN_E_* of the first problem */
    struct fn_error *first; /* its text; may be NULL */
    const char *pin;        /* expected SHA-256, may be NULL */
    struct plugin_mem *mem; /* what may be read; set once the file is mapped */
    struct fn_note note;    /* what it was built for; set once its bytes are judged */
    char built_for[64]; /* versions of the table under test: "placer 1.1" */
    char offered[16];
};

/* Adds a line and returns code. */
int plugin_problem(struct plugin_check *c, int code, const char *id, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* `len` bytes as printable text in quotes, cut to cap. */
const char *plugin_quote(const void *bytes, size_t len, char *ret, size_t cap);
/* A text of the plugin with all bytes printable, without quotes. */
const char *plugin_clean(const char *text, char *ret, size_t cap);

/* What helps against a reason of the dynamic linker. */
const char *plugin_linker_advice(const char *why);

/* ---- path.c: who may have written the file --------------------------------------------------- */

struct plugin_stat {
    char path[4096]; /* resolved */
    dev_t dev;
    ino_t ino;
    uint64_t size;
    int64_t mtime_ns, ctime_ns; /* a copy may keep the first */
};

/* Opens the file of c->path and checks type, owner, mode and size. Returns a descriptor or < 0. */
int plugin_path_open(struct plugin_check *c, struct plugin_stat *ret);

/* ---- elf.c: the file before any of its code runs --------------------------------------------- */

/* 0 and the note in c->note, or < 0 with a problem. The bytes are aligned for any type. */
int plugin_elf_check(struct plugin_check *c, const void *bytes, uint64_t size);

/* ---- seal.c: what was checked is what runs --------------------------------------------------- */

/* Copies the open file into a sealed memfd, which is mapped at *ret_bytes. Returns its descriptor
 * or < 0. */
int plugin_seal_copy(struct plugin_check *c, int fd, const struct plugin_stat *st,
                     void **ret_bytes);
/* SHA-256 as 64 hex digits and NUL. */
int plugin_seal_hash(struct plugin_check *c, const void *bytes, uint64_t size, char ret[65]);
/* "/proc/<pid>/fd/<n>", which debuggers can open too. */
void plugin_seal_name(int fd, char ret[64]);

/* ---- sign.c ---------------------------------------------------------------------------------- */

enum plugin_signed { PLUGIN_UNCHECKED, PLUGIN_UNSIGNED, PLUGIN_SIGNED };

int plugin_keys_load(const struct fn_strlist *paths, EVP_PKEY ***ret, struct fn_error *reterr);
void plugin_keys_free(EVP_PKEY **keys, uint64_t n);
/* Judges "<path>.sig" over the sealed copy. *ret_key is the index of the key. */
int plugin_signature_check(struct plugin_check *c, const struct plugin_file *f,
                           enum plugin_signed *ret, uint64_t *ret_key);

/* ---- trial.c --------------------------------------------------------------------------------- */

/* Loads the sealed copy in a child process. */
int plugin_trial(struct plugin_check *c, int fd);

/* ---- mem.c: pointers that a mapped file gives us --------------------------------------------- */

struct plugin_mem;

/* The segments of all objects of this process; those of `handle` are marked as its own. */
int plugin_mem_create(void *handle, struct plugin_mem **ret);
void plugin_mem_destroy(struct plugin_mem *m);
/* [*ret_from, *ret_to) holds all segments of its own. */
void plugin_mem_range(const struct plugin_mem *m, uintptr_t *ret_from, uintptr_t *ret_to);
/* Remembers where it lies, for plugin_mapping_at(). NULL when the table is full, or when `handle`
 * is known: then *ret_twin is set. */
struct plugin_mapping *plugin_mapping_add(void *handle, const struct plugin_mem *m,
                                          const char *path, bool *ret_twin);
/* [p, p + len) lies in the plugin's own readable segments and is aligned. */
bool plugin_mem_table(const struct plugin_mem *m, const void *p, size_t len, size_t align);
bool plugin_mem_code(const struct plugin_mem *m, const void *p);
/* It ends, after at most PLUGIN_TEXT_MAX bytes. */
bool plugin_mem_ends(const struct plugin_mem *m, const char *s);
/* Such a text in UTF-8 that a terminal may be given: what is listed, logged and told as JSON. */
bool plugin_mem_text(const struct plugin_mem *m, const char *s);
/* Byte copies and tests that a sanitizer does not look into: a lying size may point at bytes
 * between two objects of the plugin, which are mapped and harmless to read. */
void plugin_mem_copy(void *to, const void *from, size_t n);
/* Offset of the first byte that is not zero in [from, to), or to. */
size_t plugin_mem_nonzero(const void *p, size_t from, size_t to);

/* ---- kinds.c: what the host knows of each kind ----------------------------------------------- */

union plugin_ops_copy {
    struct fn_hdr hdr;
    struct fn_placer_ops placer;
    struct fn_pool_ops pool;
    struct fn_override_ops override;
    struct fn_listener_ops listener;
    struct fn_driver_ops driver;
    struct fn_cplane_ops cplane;
    struct fn_predictor_ops predictor;
    struct fn_operator_ops operator_;
};

struct plugin_slot {
    const char *name;
    uint32_t offset;
    bool required;
    const char *pair; /* both or neither */
};

struct plugin_kind {
    const char *name;
    const char *prefix; /* of its file names */
    uint16_t major;
    uint16_t minor;
    uint32_t magic;
    uint32_t size;     /* as this host knows it */
    uint32_t size_min; /* of <major>.0 */
    const struct plugin_slot *slots;
    uint32_t n_slots;
    /* Limits of single fields; may be NULL. */
    void (*limits)(struct plugin_check *c, const char *who, const union plugin_ops_copy *ops);
};

const struct plugin_kind *plugin_kind_find(const char *name);
const char *plugin_kind_names(void);

/* An interface that this host knows, offered or not. */
struct plugin_iface {
    const char *name;
    uint16_t major;
    uint16_t minor;
};
const struct plugin_iface *plugin_iface_find(const char *name);

/* ---- check.c: growth rule and validators ----------------------------------------------------- */

struct plugin_factory {
    struct fn_factory pub; /* .ops points at ops */
    union plugin_ops_copy ops;
};

/* Copies a table by the growth rule into ret (`known` bytes, zeroed first). `who` names it in
 * problems. */
int plugin_table_copy(struct plugin_check *c, const char *who, const void *table, uint32_t magic,
                      uint32_t known, uint32_t min, void *ret);
/* PLG904 unless this host speaks to plugins of that major which need that minor; `what`: "" or with
 * a colon and a blank. */
int plugin_check_abi(struct plugin_check *c, const char *what, uint32_t major, uint32_t minor_min);
int plugin_manifest_check(struct plugin_check *c, const void *manifest, struct fn_manifest *ret);
/* All factories; problems are collected. *ret_factories is malloc'd. */
int plugin_factories_check(struct plugin_check *c, const struct fn_manifest *m,
                           struct plugin_factory **ret_factories, uint32_t *ret_n);
/* options.c */
void plugin_opts_check(struct plugin_check *c, const char *who, const struct fn_factory *f);
bool plugin_name_ok(const char *s, size_t max);

/* ---- objects --------------------------------------------------------------------------------- */

struct plugin_offer {
    const char *iface;
    uint16_t major;
    uint16_t minor;
    const void *table;
    void *impl;
    void (*release)(void *impl, const struct fn_host *host); /* may be NULL */
    bool release_on_loop;
};

#define PLUGIN_TRIALS_KEPT 64

struct plugin_file {
    LIST_ENTRY(plugin_file) link;
    struct plugin_host *host;
    char *path;
    dev_t dev;
    ino_t ino;
    int64_t mtime_ns, ctime_ns;
    uint64_t round; /* of the last configuration that named it */
    uint64_t size;
    int fd; /* of the sealed copy; stays open: its number is the name that the linker knows */
    void *bytes; /* of it, to be read */
    char sha256[65];
    char signature[80];
    bool tainted;      /* not signed, with keys */
    bool taint_told;   /* counted: for ever, its code ran */
    uint32_t policy;   /* n_policies when it was judged last */
    uint64_t rules;    /* of the host, by which it passed last */
    void *handle;
    struct plugin_mapping *mapping; /* may be NULL */
    struct fn_manifest manifest; /* checked copy */
    struct plugin_factory *factories;
    uint32_t n_factories;
};

struct plugin_host {
    struct env *env; /* may be NULL */
    uint64_t seed;
    struct plugin_offer offers[PLUGIN_OFFERS_MAX];
    uint32_t n_offers;
    /* Newest first, only grows. `lock` to change it, or to read it elsewhere than where files are
     * opened. */
    LIST_HEAD(, plugin_file) files;
    uint32_t n_files;
    uint64_t round; /* of reading a configuration */
    uint32_t n_instances;
    void (*opened)(struct plugin_host *h); /* may be NULL */
    LIST_HEAD(, plugin_health) healths; /* only grows; `lock` */
    struct metric_source source;
    pthread_mutex_t lock;
    /* What the loop is inside of, for the watchdog's thread: relaxed stores, read one by one. */
    struct {
        struct plugin_health *health; /* NULL = no plugin */
        const char *method;
        uint64_t entered_ticks;
    } now;
    /* [loop] The longest call of the last turn that had a long one. */
    struct {
        int64_t turn_ns; /* the loop's time of it */
        int64_t took_ns;
        const struct plugin_health *health;
        const char *method;
    } longest;
    struct buf summary;

    struct plugin_policy policy;
    struct arena policy_texts;
    EVP_PKEY **keys; /* of policy.keys */
    uint32_t n_policies;
    uint64_t rules; /* hash of those of a policy that files are judged by */
    char trials[PLUGIN_TRIALS_KEPT][65]; /* hashes that passed: a ring */
    uint32_t n_trials;
    int (*aside)(void (*fn)(void *arg), void *arg, int64_t timeout_ns);
    int64_t start_timeout_ns;

    LIST_HEAD(, plugin_crumb) away; /* calls under way that are not the loop's; `away_lock` */
    pthread_mutex_t away_lock;
    int64_t budget_loop_ns; /* 0 = not watched */
    int64_t (*waited_ns)(void); /* may be NULL */
    /* One sample of both clocks, to turn ticks into ns without asking the kernel per call. */
    uint64_t ticks0;
    int64_t ticks0_ns;
};

/* What one method of an instance took. Ticks in a histogram with four buckets per doubling, turned
 * into seconds when somebody reads it. */
#define PLUGIN_BUCKETS     192
#define PLUGIN_METHODS_MAX 14 /* driver has most; the last one takes what finds no place */

struct plugin_method {
    const char *name; /* literal; compared by address, set once */
    uint64_t ticks;
    uint64_t counts[PLUGIN_BUCKETS];
};

/* What is known of a name in fn.yaml: shared by the instances that bear it one after the other, and
 * as old as the host, so that other threads may look at it at any time. */
struct plugin_health {
    LIST_ENTRY(plugin_health) link;
    char *name;
    const char *kind; /* FN_KIND_* literal of this host */
    struct plugin_method loop[PLUGIN_METHODS_MAX];  /* written by the loop only */
    struct plugin_method other[PLUGIN_METHODS_MAX]; /* atomic adds */
    uint64_t seen_process, seen_thread; /* ticks at the last audit; `lock` of the host */
    uint64_t streams; /* of chance, one for each instance; atomic */
};

struct plugin_timer;

struct plugin {
    struct fn_host host;     /* what the plugin sees; .priv = this */
    struct fn_log_if log_if; /* of its own: others are made while it is used */
    struct plugin_host *owner;
    struct plugin_file *file;
    const struct fn_factory *factory;
    char *name;
    struct plugin_health *health;
    void *inst;
    struct conf_values *conf;
    bool creating; /* declare() and get() are [init] */
    bool held;     /* timers wait for plugin_go(), or it is retired */
    bool retired;
    struct plugin_timer *timers; /* uthash by id */
    uint64_t timer_last;
    uint32_t n_timers;
    struct metric *metrics[PLUGIN_METRICS_MAX];
    uint32_t metric_kinds[PLUGIN_METRICS_MAX];
    int64_t metric_sums[PLUGIN_METRICS_MAX]; /* of gauges: its own part of the series; atomic */
    uint32_t n_metrics;
    uint64_t rng[2];
    uint64_t loop_calls;   /* written by the loop only */
    uint64_t other_calls;  /* atomic */
    uint64_t misses;       /* atomic */
    int64_t slow_ns[3]; /* ring: its last calls over budget; loop only */
    uint32_t n_slow;
    int64_t rests_until_ns;
    struct log_gate miss_gate;
    struct log_gate bad_gate;
    char first_bad[PLUGIN_ANSWER_WHAT_MAX]; /* under the host's lock */
    struct log_gate log_gate; /* lines that it writes */
};

/* file.c: but for what is mapped */
void plugin_file_free(struct plugin_file *f);

/* policy.c */
void plugin_policy_free(struct plugin_host *h);
/* Counts, tells and shows in the metrics a file that nobody signed, once. */
void plugin_taint(struct plugin_file *f);

/* tables.c */
void plugin_tables_init(struct plugin *p);
void plugin_tables_release(struct plugin *p); /* timers off, its part of gauges taken back */
const struct plugin_offer *plugin_offer_find(const struct plugin_host *h, const char *iface);

/* current.c */
extern _Thread_local struct plugin_crumb *plugin_crumb_now;
/* This thread made the host or called a plugin; one that a plugin started never did. */
extern _Thread_local bool plugin_thread_of_host;
/* Around code of a file that is no call of an instance yet; `where` NULL = over. */
void plugin_opening_set(const char *path, const char *where);

/* crumb.c */
/* This thread's last call was one of this host, which goes. */
void plugin_last_forget(const struct plugin_host *h);

/* health.c */
void plugin_health_open(struct plugin_host *h);
void plugin_health_close(struct plugin_host *h);
struct plugin_health *plugin_health_get(struct plugin_host *h, const char *kind, const char *name);
struct plugin_method *plugin_method_add(struct plugin_method *list, const char *name);

#endif
