/* A plugin file from its path to a loaded, checked manifest: the steps of
 * docs/plugin-security.md in their order. Files with the same bytes are loaded once. */
#include <plugin/plugin_int.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

static int check_symbol(struct plugin_check *c, void *handle,
                        const struct fn_manifest *(**ret_entry)(void))
{
    char name[32];
    void *entry = dlsym(handle, "fn_plugin_v1");
    int v;

    if (!entry) {
        for (v = 2; v < 10; v++) {
            snprintf(name, sizeof(name), "fn_plugin_v%d", v);
            if (dlsym(handle, name)) {
                return plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                                      "exports %s; host offers plugin ABI 1 (fn_plugin_v1)", name);
            }
        }
        return plugin_problem(c, FN_E_INVALID, "PLG907",
                              "exports no fn_plugin_v1; expected FN_PLUGIN_DEFINE in one of its "
                              "source files");
    }
    /* dlsym also finds symbols of libraries that the file links. */
    if (!plugin_mem_code(c->mem, entry) || !plugin_mem_table(c->mem, entry, 1, 1)) {
        return plugin_problem(c, FN_E_INVALID, "PLG907",
                              "fn_plugin_v1 is not a function of this file");
    }
    memcpy(ret_entry, &entry, sizeof(entry));
    return 0;
}

static int take_tables(struct plugin_check *c, struct plugin_file *f)
{
    const struct fn_manifest *(*entry)(void) = NULL;
    const struct fn_manifest *manifest;
    int r;

    r = check_symbol(c, f->handle, &entry);
    if (r < 0) {
        return r;
    }
    plugin_opening_set(f->path, "fn_plugin_v1()");
    manifest = entry();
    plugin_opening_set(NULL, NULL);
    r = plugin_manifest_check(c, manifest, &f->manifest);
    if (r < 0) {
        return r;
    }
    return plugin_factories_check(c, &f->manifest, &f->factories, &f->n_factories);
}

/* Where the linker says "/proc/7/fd/9: undefined symbol", the path is told already. */
static const char *without_name(const char *why, const char *name)
{
    size_t n = strlen(name);

    if (!why) {
        return "dlopen failed";
    }
    return strncmp(why, name, n) == 0 && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;
}

/* A file that was mapped and is refused afterwards stays mapped: its constructors ran, and nobody
 * knows what they left behind. */
static int file_load(struct plugin_check *c, struct plugin_file *f)
{
    const char *why;
    char name[64];
    bool twin;
    int r;

    plugin_seal_name(f->fd, name);
    plugin_opening_set(f->path, "its constructors");
    f->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    plugin_opening_set(NULL, NULL);
    if (!f->handle) {
        why = without_name(dlerror(), name);
        return plugin_problem(c, FN_E_INVALID, "PLG908", "%s; %s", why, plugin_linker_advice(why));
    }
    r = plugin_mem_create(f->handle, &c->mem);
    if (r < 0) {
        return plugin_problem(c, r, "PLG908", "its segments are not known to the linker");
    }
    f->mapping = plugin_mapping_add(f->handle, c->mem, f->path, &twin);
    r = twin ? plugin_problem(c, FN_E_INTERNAL, "PLG908",
                              "the linker gave the handle of another plugin; expected one of its "
                              "own")
             : take_tables(c, f);
    plugin_mem_destroy(c->mem);
    c->mem = NULL;
    return r;
}

/* The file that was loaded from exactly this one. */
static struct plugin_file *find_same(struct plugin_host *h, const struct plugin_stat *st)
{
    struct plugin_file *f;

    LIST_FOREACH(f, &h->files, link) {
        if (f->dev == st->dev && f->ino == st->ino && f->size == st->size &&
            f->mtime_ns == st->mtime_ns && f->ctime_ns == st->ctime_ns) {
            return f;
        }
    }
    return NULL;
}

/* The newest that was loaded under this name. */
static struct plugin_file *find_path(struct plugin_host *h, const char *path)
{
    struct plugin_file *f;

    LIST_FOREACH(f, &h->files, link) {
        if (strcmp(f->path, path) == 0) {
            return f;
        }
    }
    return NULL;
}

void plugin_host_again(struct plugin_host *h)
{
    h->round++;
}

/* ---- the steps before any of its code runs --------------------------------------------------- */

static int check_pin(struct plugin_check *c, const char *sha256)
{
    if (!c->pin || strcasecmp(c->pin, sha256) == 0) {
        return 0;
    }
    return plugin_problem(c, FN_E_PERMISSION, "PLG903", "sha256 %s; expected %s", sha256, c->pin);
}

static int check_signature(struct plugin_check *c, struct plugin_file *f)
{
    enum plugin_signed verdict;
    uint64_t key = 0;
    const char *path;
    const char *name;
    int r = plugin_signature_check(c, f, &verdict, &key);

    if (r < 0) {
        return r;
    }
    if (verdict == PLUGIN_SIGNED) {
        path = c->host->policy.keys.items[key];
        name = strrchr(path, '/');
        snprintf(f->signature, sizeof(f->signature), "signed by %.60s", name ? name + 1 : path);
    } else {
        snprintf(f->signature, sizeof(f->signature), "%s",
                 verdict == PLUGIN_UNSIGNED ? "not signed" : "signature not looked at");
    }
    f->tainted = verdict == PLUGIN_UNSIGNED;
    return 0;
}

/* A file that is open already is judged by the rules of now: a reload may bring new keys and other
 * libraries. */
static int judge_again(struct plugin_check *c, struct plugin_file *f)
{
    int r = check_pin(c, f->sha256);

    if (r < 0 || f->policy == c->host->n_policies) {
        return r;
    }
    r = check_signature(c, f);
    r = r < 0 ? r : plugin_elf_check(c, f->bytes, f->size);
    if (r == 0) {
        f->policy = c->host->n_policies;
        f->rules = c->host->rules;
        plugin_taint(f);
    }
    return r;
}

int plugin_judge(const struct plugin *p, struct buf *lines)
{
    struct plugin_file *f = p->file;
    struct plugin_check c = { .host = p->owner, .path = f->path, .lines = lines };

    return f->rules == p->owner->rules ? 0 : judge_again(&c, f);
}

/* What passed once passes again: reloads do not pay a second time. */
static int try_out(struct plugin_check *c, const struct plugin_file *f)
{
    struct plugin_host *h = c->host;
    int r;

    if (!h->policy.trial) {
        return 0;
    }
    for (uint32_t i = 0; i < PLUGIN_TRIALS_KEPT; i++) {
        if (strcmp(h->trials[i], f->sha256) == 0) {
            return 0;
        }
    }
    r = plugin_trial(c, f->fd);
    if (r == 0) {
        memcpy(h->trials[h->n_trials++ % PLUGIN_TRIALS_KEPT], f->sha256, sizeof(f->sha256));
    }
    return r;
}

static int check_bytes(struct plugin_check *c, struct plugin_file *f)
{
    int r = plugin_seal_hash(c, f->bytes, f->size, f->sha256);

    r = r < 0 ? r : check_pin(c, f->sha256);
    r = r < 0 ? r : check_signature(c, f);
    r = r < 0 ? r : plugin_elf_check(c, f->bytes, f->size);
    r = r < 0 ? r : plugin_check_abi(c, "", c->note.abi_major, c->note.host_minor_min);
    return r < 0 ? r : try_out(c, f);
}

/* The descriptor of what was mapped stays open, see seal.c. */
void plugin_file_free(struct plugin_file *f)
{
    if (f->bytes) {
        munmap(f->bytes, f->size);
    }
    if (f->fd >= 0 && !f->handle) {
        close(f->fd);
    }
    free(f->factories);
    free(f->path);
    free(f);
}

static void list_file(struct plugin_file *f)
{
    struct plugin_host *h = f->host;

    if (f->mapping) {
        f->mapping->version = f->manifest.version;
    }
    plugin_taint(f);
    pthread_mutex_lock(&h->lock);
    LIST_INSERT_HEAD(&h->files, f, link);
    h->n_files++;
    pthread_mutex_unlock(&h->lock);
}

static void take_stat(struct plugin_file *f, const struct plugin_stat *st)
{
    f->dev = st->dev;
    f->ino = st->ino;
    f->mtime_ns = st->mtime_ns;
    f->ctime_ns = st->ctime_ns;
    f->size = st->size;
}

/* Written again with the same bytes, as package managers do: what is mapped serves on. */
static struct plugin_file *find_bytes(struct plugin_check *c, struct plugin_file *fresh)
{
    struct plugin_file *old = find_path(c->host, fresh->path);

    return old && plugin_seal_hash(c, fresh->bytes, fresh->size, fresh->sha256) == 0 &&
                   strcmp(old->sha256, fresh->sha256) == 0
               ? old
               : NULL;
}

static int open_new(struct plugin_check *c, int fd, const struct plugin_stat *st,
                    struct plugin_file **ret)
{
    struct plugin_file *f = calloc(1, sizeof(*f));
    struct plugin_file *old;
    int r;

    if (!f || !(f->path = strdup(st->path))) {
        free(f);
        return plugin_problem(c, FN_E_EXHAUSTED, "PLG901", "no memory to open it");
    }
    f->host = c->host;
    f->round = c->host->round;
    f->policy = c->host->n_policies;
    f->rules = c->host->rules;
    take_stat(f, st);
    f->fd = plugin_seal_copy(c, fd, st, &f->bytes);
    old = f->fd < 0 ? NULL : find_bytes(c, f);
    if (old) {
        take_stat(old, st);
        plugin_file_free(f);
        *ret = old;
        return judge_again(c, old);
    }
    r = f->fd < 0 ? f->fd : check_bytes(c, f);
    r = r < 0 ? r : file_load(c, f);
    if (r < 0) {
        plugin_file_free(f);
        return r;
    }
    list_file(f);
    if (c->host->opened) {
        c->host->opened(c->host);
    }
    *ret = f;
    return 0;
}

static int open_changed(struct plugin_check *c, int fd, const struct plugin_stat *st,
                        struct plugin_file **ret)
{
    struct plugin_file *f = find_path(c->host, st->path);

    if (f && f->round == c->host->round) {
        log_warn("plugin file changed on disk while it was being loaded; it is loaded anew by the "
                 "next reload",
                 "plugin", f->path);
        *ret = f;
        return check_pin(c, f->sha256);
    }
    if (c->host->n_files >= PLUGIN_FILES_MAX) {
        return plugin_problem(c, FN_E_EXHAUSTED, "PLG922",
                              "%u plugin files are mapped already and none is ever unmapped; "
                              "expected a new process",
                              c->host->n_files);
    }
    return open_new(c, fd, st, ret);
}

static int open_checked(struct plugin_check *c, struct plugin_file **ret)
{
    struct plugin_stat st;
    struct plugin_file *f;
    int fd;
    int r;

    fd = plugin_path_open(c, &st);
    if (fd < 0) {
        return fd;
    }
    f = find_same(c->host, &st);
    if (f) {
        r = judge_again(c, f);
    } else {
        r = open_changed(c, fd, &st, &f);
    }
    close(fd);
    if (r == 0) {
        f->round = c->host->round;
        *ret = f;
    }
    return r;
}

int plugin_file_check(struct plugin_host *h, const char *path, const char *sha256,
                      struct plugin_file **ret, struct buf *lines, struct fn_error *reterr)
{
    struct plugin_check c = {
        .host = h, .path = path, .lines = lines, .first = reterr, .pin = sha256
    };

    return open_checked(&c, ret);
}

int plugin_file_open(struct plugin_host *h, const char *path, struct plugin_file **ret,
                     struct fn_error *reterr)
{
    return plugin_file_check(h, path, NULL, ret, NULL, reterr);
}

const char *plugin_file_sha256(const struct plugin_file *f)
{
    return f->sha256;
}

const char *plugin_file_signature(const struct plugin_file *f)
{
    return f->signature;
}

const char *plugin_file_path(const struct plugin_file *f)
{
    return f->path;
}

const struct fn_manifest *plugin_file_manifest(const struct plugin_file *f)
{
    return &f->manifest;
}

void plugin_file_each(const struct plugin_file *f,
                      void (*cb)(void *ud, const struct fn_factory *factory), void *ud)
{
    uint32_t i;

    for (i = 0; i < f->n_factories; i++) {
        cb(ud, &f->factories[i].pub);
    }
}

int plugin_path_for(const char *dir, const char *kind, const char *name, char *ret, size_t cap)
{
    const struct plugin_kind *k = plugin_kind_find(kind);
    int n;

    if (!k || !plugin_name_ok(name, 32)) {
        return FN_E_INVALID;
    }
    n = snprintf(ret, cap, "%s/%s%s.so", dir, k->prefix, name);
    return n < 0 || (size_t)n >= cap ? FN_E_RANGE : 0;
}
