/* What the operator wants of plugin files, and what of it must be known to the whole process. */
#include <plugin/plugin_int.h>

#include <base/hash.h>
#include <conf/opts.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct plugin_policy, field)
static const struct fn_opt policy_rows[] = {
    LIVE_ABSENT("keys", STRLIST, AT(keys), 0, 0,
                "PEM files with Ed25519 public keys. If there are any, each plugin file, also "
                "one that comes with fnd, needs a signature by one of them, in a file of the "
                "same name with `.sig` appended (plugin-security.md). When absent: no signature "
                "is needed."),
    LIVE_CHOICE("unsigned", AT(unsigned_files), "refuse", "refuse|allow",
                "What happens to a plugin file without signature if there are keys: refuse = the "
                "node does not start, allow = the file is loaded and the node is marked as "
                "tainted."),
    LIVE_ABSENT("libraries", STRLIST, AT(libraries), 0, 0,
                "Shared libraries that plugin files may need besides the C and C++ run-time "
                "libraries, libcrypto and libjansson, such as libcurl.so.4. A file that needs "
                "another one is refused."),
    LIVE("trial", BOOL, AT(trial), "true", 0, 0,
         "Load each plugin file in a child process first, so that one that crashes, hangs or "
         "exits while it is loaded does not take the node with it. It takes about 1 ms for each "
         "file."),
    LIVE("trial_timeout", DURATION, AT(trial_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for a plugin file to be loaded in that child process; then it is refused (PLG912)."),
    LIVE("start_timeout", DURATION, AT(start_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for a plugin instance to be created; then the node does not start, or the reload "
         "is refused (PLG914)."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct plugin_audit_options, field)
static const struct fn_opt audit_rows[] = {
    OPT("audit", DURATION, AT(interval_ns), "10s", 0, H,
        "Interval at which the node looks for changes to its process that only plugins can have "
        "made: open files, threads, signal handlers, working directory and others. They are "
        "alarms in the log, and some are undone. 0 = never."),
    { .key = NULL },
};
#undef AT

const struct opt_table plugin_policy_table = { policy_rows, sizeof(struct plugin_policy) };
const struct opt_table plugin_audit_table = { audit_rows, sizeof(struct plugin_audit_options) };

void plugin_policy_free(struct plugin_host *h)
{
    plugin_keys_free(h->keys, h->policy.keys.n);
    arena_finish(&h->policy_texts);
}

/* Keys by what they are: a file may hold another one than before. */
static uint64_t hash_rules(const struct plugin_policy *policy, EVP_PKEY *const *keys)
{
    bool refuse = conf_same_text(policy->unsigned_files, "refuse");
    uint64_t h = hash_byte(HASH_INIT, refuse);

    for (uint64_t i = 0; i < policy->keys.n; i++) {
        unsigned char raw[32] = { 0 };
        size_t len = sizeof(raw);

        EVP_PKEY_get_raw_public_key(keys[i], raw, &len);
        for (size_t k = 0; k < sizeof(raw); k++) {
            h = hash_byte(h, raw[k]);
        }
    }
    for (uint64_t i = 0; i < policy->libraries.n; i++) {
        h = hash_byte(hash_text(h, policy->libraries.items[i]), '\n');
    }
    return h;
}

int plugin_host_policy(struct plugin_host *h, const struct plugin_policy *policy,
                       struct fn_error *reterr)
{
    struct plugin_policy copy = *policy;
    struct arena texts;
    EVP_PKEY **keys;
    int r = plugin_keys_load(&policy->keys, &keys, reterr);

    if (r < 0) {
        return r;
    }
    arena_init(&texts, 0);
    copy.probe = policy->probe ? arena_strdup(&texts, policy->probe) : NULL;
    if ((policy->probe && !copy.probe) || !opt_copy(policy_rows, &copy, &texts)) {
        arena_finish(&texts);
        plugin_keys_free(keys, policy->keys.n);
        return err_set(reterr, FN_E_EXHAUSTED, "no memory for the rules of plugins");
    }
    copy.trial_timeout_ns = policy->trial_timeout_ns > 0 ? policy->trial_timeout_ns
                                                         : PLUGIN_TRIAL_NS;
    plugin_policy_free(h);
    h->policy = copy;
    h->policy_texts = texts;
    h->keys = keys;
    h->n_policies++;
    h->rules = hash_rules(&copy, keys);
    return 0;
}

void plugin_host_deadline(struct plugin_host *h,
                          int (*aside)(void (*fn)(void *arg), void *arg, int64_t timeout_ns),
                          int64_t timeout_ns)
{
    h->aside = aside;
    h->start_timeout_ns = timeout_ns > 0 ? timeout_ns : PLUGIN_START_NS;
}

/* ---- taint ----------------------------------------------------------------------------------- */

static uint32_t tainted; /* atomic */

uint32_t plugin_tainted(void)
{
    return __atomic_load_n(&tainted, __ATOMIC_RELAXED);
}

void plugin_taint(struct plugin_file *f)
{
    uint32_t n;

    if (!f->tainted || f->taint_told) {
        return;
    }
    f->taint_told = true;
    n = __atomic_add_fetch(&tainted, 1, __ATOMIC_RELAXED);

    metric_set(metric_simple("fn_plugin_tainted", METRIC_GAUGE,
                             "Loaded plugin files that nobody signed although plugins.keys names "
                             "keys."),
               n);
    log_warn("plugin is not signed: this node is tainted", "plugin", f->path, "sha256", f->sha256);
}

/* ---- where plugins lie ----------------------------------------------------------------------- */

/* Entries are written once, before their count is published, by the one thread that loads. */
static struct plugin_mapping mappings[PLUGIN_FILES_MAX];
static uint32_t n_mappings;

static const struct plugin_mapping *mapping_get(uint32_t index)
{
    return index < __atomic_load_n(&n_mappings, __ATOMIC_ACQUIRE) ? &mappings[index] : NULL;
}

const struct plugin_mapping *plugin_mapping_at(const void *addr)
{
    const struct plugin_mapping *m;
    uint32_t i;

    for (i = 0; (m = mapping_get(i)); i++) {
        if ((uintptr_t)addr >= m->from && (uintptr_t)addr < m->to) {
            return m;
        }
    }
    return NULL;
}

struct plugin_mapping *plugin_mapping_add(void *handle, const struct plugin_mem *mem,
                                          const char *path, bool *ret_twin)
{
    const struct plugin_mapping *known;
    struct plugin_mapping *m;
    uint32_t n;

    *ret_twin = false;
    for (n = 0; (known = mapping_get(n)); n++) {
        if (known->handle == handle) {
            *ret_twin = true;
            return NULL;
        }
    }
    if (n == PLUGIN_FILES_MAX) {
        return NULL;
    }
    m = &mappings[n];
    *m = (struct plugin_mapping){ .path = strdup(path), .version = "", .handle = handle };
    if (!m->path) {
        return NULL;
    }
    plugin_mem_range(mem, &m->from, &m->to);
    __atomic_store_n(&n_mappings, n + 1, __ATOMIC_RELEASE);
    return m;
}
