/* Takes the tables of a mapped file over into copies of the host. Nothing is followed before its
 * pointer was found inside the file's own segments; after this room nobody looks at sizes again. */
#include <plugin/plugin_int.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_MIN 56
#define FACTORY_MIN  96

int plugin_table_copy(struct plugin_check *c, const char *who, const void *table, uint32_t magic,
                      uint32_t known, uint32_t min, void *ret)
{
    struct fn_hdr hdr;
    size_t used;

    if (!table) {
        return plugin_problem(c, FN_E_INVALID, "PLG910", "%s: table is NULL; expected a table",
                              who);
    }
    if (!plugin_mem_table(c->mem, table, sizeof(hdr), 8)) {
        return plugin_problem(c, FN_E_INVALID, "PLG910",
                              "%s: table lies outside of the plugin's own data", who);
    }
    plugin_mem_copy(&hdr, table, sizeof(hdr));
    if (hdr.magic != magic) {
        return plugin_problem(c, FN_E_INVALID, "PLG910", "%s: magic, got 0x%08x; expected 0x%08x",
                              who, hdr.magic, magic);
    }
    if (hdr.size < min) {
        return plugin_problem(c, FN_E_INVALID, "PLG910",
                              "%s: table too small, got %u bytes; expected at least %u", who,
                              hdr.size, min);
    }
    if (hdr.size > PLUGIN_TABLE_MAX || !plugin_mem_table(c->mem, table, hdr.size, 8)) {
        return plugin_problem(c, FN_E_INVALID, "PLG910",
                              "%s: table size, got %u bytes; expected at most %u inside the "
                              "plugin's own data",
                              who, hdr.size, PLUGIN_TABLE_MAX);
    }
    if (hdr.size > known) {
        used = plugin_mem_nonzero(table, known, hdr.size);
        if (used < hdr.size) {
            return plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                                  "%s: built for %s and uses byte %zu of its table of %u; this "
                                  "host offers %s and knows %u bytes",
                                  who, c->built_for, used, hdr.size, c->offered, known);
        }
    }
    memset(ret, 0, known);
    plugin_mem_copy(ret, table, hdr.size < known ? hdr.size : known);
    /* Who is given the copy (wrappers) sees what this host knows, no more and no less. */
    ((struct fn_hdr *)ret)->size = known;
    return 0;
}

static int check_text(struct plugin_check *c, const char *who, const char *field, const char *s)
{
    char shown[96];

    if (!s) {
        return plugin_problem(c, FN_E_INVALID, "PLG909", "%s: %s is NULL; expected a text", who,
                              field);
    }
    if (!plugin_mem_ends(c->mem, s)) {
        return plugin_problem(c, FN_E_INVALID, "PLG909",
                              "%s: %s is not a terminated text of at most %d bytes", who, field,
                              PLUGIN_TEXT_MAX);
    }
    if (!plugin_mem_text(c->mem, s)) {
        return plugin_problem(c, FN_E_INVALID, "PLG909",
                              "%s: %s, got %s; expected UTF-8 without control characters", who,
                              field, plugin_quote(s, strlen(s), shown, sizeof(shown)));
    }
    return 0;
}

bool plugin_name_ok(const char *s, size_t max)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && n <= max && s[n] == '\0';
}

/* "lp64-le" must be equal; a sanitizer tag behind it only changes what a report looks like. */
static void check_build_tag(struct plugin_check *c, const char *tag)
{
    static const char own[] = FN_BUILD_WORD "-" FN_BUILD_ENDIAN;
    size_t n = sizeof(own) - 1;
    char shown[64];

    if (strncmp(tag, own, n) != 0 || (tag[n] != '\0' && tag[n] != '-')) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG905", "manifest: build tag, got %s; expected %s",
                       plugin_quote(tag, strlen(tag), shown, sizeof(shown)), own);
    } else if (strcmp(tag, FN_BUILD_TAG) != 0) {
        log_warn("plugin and host were built with different sanitizers", "plugin", c->path,
                 "plugin_build", tag, "host_build", FN_BUILD_TAG);
    }
}

int plugin_check_abi(struct plugin_check *c, const char *what, uint32_t major, uint32_t minor_min)
{
    if (major == FN_ABI_MAJOR && minor_min <= FN_ABI_MINOR) {
        return 0;
    }
    return plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                          "%sneeds plugin ABI %u.%u; host offers %d.0 to %d.%d", what, major,
                          minor_min, FN_ABI_MAJOR, FN_ABI_MAJOR, FN_ABI_MINOR);
}

int plugin_manifest_check(struct plugin_check *c, const void *manifest, struct fn_manifest *ret)
{
    uint32_t before = c->n;
    int r;

    if (!manifest) {
        return plugin_problem(c, FN_E_INVALID, "PLG909",
                              "fn_plugin_v1() returned NULL; expected a manifest");
    }
    snprintf(c->built_for, sizeof(c->built_for), "plugin ABI %u.%u", c->note.abi_major,
             c->note.abi_minor);
    snprintf(c->offered, sizeof(c->offered), "%d.%d", FN_ABI_MAJOR, FN_ABI_MINOR);
    r = plugin_table_copy(c, "manifest", manifest, FN_MAGIC_MANIFEST, sizeof(*ret), MANIFEST_MIN,
                          ret);
    if (r < 0) {
        return r;
    }
    plugin_check_abi(c, "manifest: ", ret->abi_major, ret->host_minor_min);
    if (ret->flags & ~FN_PLUGIN_HAS_THREADS) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                       "manifest: flags, got 0x%x; expected 0 or FN_PLUGIN_HAS_THREADS, built for "
                       "plugin ABI %u.%u; host offers %d.%d",
                       ret->flags, ret->abi_major, ret->abi_minor, FN_ABI_MAJOR, FN_ABI_MINOR);
    }
    if (c->n == before && ret->host_minor_min != c->note.host_minor_min) {
        plugin_problem(c, FN_E_INVALID, "PLG909",
                       "manifest: host_minor_min, got %u; expected %u as in its ELF note "
                       "(FN_HOST_MINOR_MIN)",
                       ret->host_minor_min, c->note.host_minor_min);
    }
    check_text(c, "manifest", "name", ret->name);
    check_text(c, "manifest", "version", ret->version);
    check_text(c, "manifest", "license", ret->license);
    if (check_text(c, "manifest", "build_tag", ret->build_tag) == 0) {
        check_build_tag(c, ret->build_tag);
    }
    if (!plugin_mem_table(c->mem, ret->factories, sizeof(void *), sizeof(void *))) {
        plugin_problem(c, FN_E_INVALID, "PLG909",
                       "manifest: factories, got %s; expected a list that ends with NULL",
                       ret->factories ? "a pointer outside of the plugin's own data" : "NULL");
    }
    return c->n == before ? 0 : c->first_code;
}

/* ---- one factory ----------------------------------------------------------------------------- */

static const void *slot_value(const union plugin_ops_copy *ops, uint32_t offset)
{
    const void *p;

    memcpy(&p, (const char *)ops + offset, sizeof(p));
    return p;
}

static const void *slot_named(const struct plugin_kind *k, const union plugin_ops_copy *ops,
                              const char *name)
{
    uint32_t i;

    for (i = 0; i < k->n_slots; i++) {
        if (strcmp(k->slots[i].name, name) == 0) {
            return slot_value(ops, k->slots[i].offset);
        }
    }
    return NULL;
}

static void check_slots(struct plugin_check *c, const char *who, const struct plugin_kind *k,
                        const union plugin_ops_copy *ops)
{
    const struct plugin_slot *s;
    const void *value;
    uint32_t i;

    for (i = 0; i < k->n_slots; i++) {
        s = &k->slots[i];
        value = slot_value(ops, s->offset);
        if (!value && s->required) {
            plugin_problem(c, FN_E_INVALID, "PLG910",
                           "%s: required slot %s is NULL; expected a function", who, s->name);
        } else if (!value && s->pair && slot_named(k, ops, s->pair)) {
            plugin_problem(c, FN_E_INVALID, "PLG910",
                           "%s: slot %s is NULL, but %s is set; expected both or neither", who,
                           s->name, s->pair);
        } else if (value && !plugin_mem_code(c->mem, value)) {
            plugin_problem(c, FN_E_INVALID, "PLG910",
                           "%s: slot %s does not point at a function", who, s->name);
        }
    }
}

static void check_ops(struct plugin_check *c, const char *who, struct plugin_factory *f)
{
    const struct plugin_kind *k = plugin_kind_find(f->pub.kind);

    if (!k) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG907", "%s: unknown kind; expected one of %s",
                       who, plugin_kind_names());
        return;
    }
    if (f->pub.kind_major != k->major) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                       "%s: kind_major, got %u; expected %u: it needs interface %s %u.%u; host "
                       "offers %u.0 to %u.%u", who, f->pub.kind_major, k->major, k->name,
                       f->pub.kind_major, f->pub.kind_minor, k->major, k->major, k->minor);
        return;
    }
    snprintf(c->built_for, sizeof(c->built_for), "%s %u.%u", k->name, f->pub.kind_major,
             f->pub.kind_minor);
    snprintf(c->offered, sizeof(c->offered), "%u.%u", k->major, k->minor);
    if (plugin_table_copy(c, who, f->pub.ops, k->magic, k->size, k->size_min, &f->ops) < 0) {
        return;
    }
    check_slots(c, who, k, &f->ops);
    if (k->limits) {
        k->limits(c, who, &f->ops);
    }
    f->pub.ops = &f->ops;
}

static void check_need(struct plugin_check *c, const char *who, const struct fn_need *need)
{
    const struct plugin_offer *offer = plugin_offer_find(c->host, need->iface);
    const struct plugin_iface *known = plugin_iface_find(need->iface);
    char shown[64];

    if (need->flags & ~FN_NEED_OPTIONAL) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG910",
                       "%s: flags of need %s, got 0x%x; expected 0 or FN_NEED_OPTIONAL", who,
                       need->iface, need->flags);
    }
    if (need->flags & FN_NEED_OPTIONAL) {
        return;
    }
    if (!offer && !known) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                       "%s: needs host interface %s %u.%u; this host has none of that name", who,
                       plugin_quote(need->iface, strlen(need->iface), shown, sizeof(shown)),
                       need->major, need->minor_min);
        return;
    }
    if (need->major != (offer ? offer->major : known->major) ||
        need->minor_min > (offer ? offer->minor : known->minor)) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                       "%s: needs host interface %s %u.%u; host offers %u.0 to %u.%u", who,
                       need->iface, need->major, need->minor_min,
                       offer ? offer->major : known->major, offer ? offer->major : known->major,
                       offer ? offer->minor : known->minor);
    }
}

static void check_needs(struct plugin_check *c, const char *who, const struct fn_need *needs)
{
    uint32_t i;

    if (!needs) {
        return;
    }
    for (i = 0;; i++) {
        if (i == PLUGIN_NEEDS_MAX ||
            !plugin_mem_table(c->mem, &needs[i], sizeof(needs->iface), 8)) {
            plugin_problem(c, FN_E_INVALID, "PLG910",
                           "%s: needs, got %u entries without an end in the plugin's data; "
                           "expected an entry without iface as the end, behind at most %d",
                           who, i, PLUGIN_NEEDS_MAX - 1);
            return;
        }
        if (!needs[i].iface) {
            return;
        }
        if (!plugin_mem_table(c->mem, &needs[i], sizeof(needs[i]), 8) ||
            !plugin_mem_text(c->mem, needs[i].iface)) {
            plugin_problem(c, FN_E_INVALID, "PLG910",
                           "%s: need %u: iface, got no terminated text; expected a name, or NULL "
                           "as the end of the list", who, i);
            return;
        }
        check_need(c, who, &needs[i]);
    }
}

static void check_life(struct plugin_check *c, const char *who, const struct fn_factory *f)
{
    const void *create;
    const void *destroy;

    memcpy(&create, &f->create, sizeof(create));
    memcpy(&destroy, &f->destroy, sizeof(destroy));
    if (!create || !plugin_mem_code(c->mem, create)) {
        plugin_problem(c, FN_E_INVALID, "PLG910", "%s: create %s; expected a function", who,
                       create ? "does not point at a function" : "is NULL");
    }
    if (!destroy || !plugin_mem_code(c->mem, destroy)) {
        plugin_problem(c, FN_E_INVALID, "PLG910", "%s: destroy %s; expected a function", who,
                       destroy ? "does not point at a function" : "is NULL");
    }
    if (f->caps_required != 0) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG904",
                       "%s: requires capabilities 0x%llx; this host knows none", who,
                       (unsigned long long)f->caps_required);
    }
}

const struct fn_factory *plugin_file_factory(const struct plugin_file *f, const char *kind,
                                             const char *name)
{
    for (uint32_t i = 0; i < f->n_factories; i++) {
        if (strcmp(f->factories[i].pub.kind, kind) == 0 &&
            strcmp(f->factories[i].pub.name, name) == 0) {
            return &f->factories[i].pub;
        }
    }
    return NULL;
}

static void check_duplicate(struct plugin_check *c, const char *who, const struct fn_factory *f)
{
    const struct plugin_file *other;

    LIST_FOREACH(other, &c->host->files, link) {
        if (other->round == c->host->round && plugin_file_factory(other, f->kind, f->name)) {
            plugin_problem(c, FN_E_EXISTS, "PLG916",
                           "%s: already offered by %s; expected another name", who, other->path);
        }
    }
}

static void check_factory(struct plugin_check *c, uint32_t index, const void *table,
                          struct plugin_factory *f)
{
    char who[128];
    char shown[48];

    /* Behind a list without its end stands what is no table of a factory. */
    snprintf(who, sizeof(who), "factory %u%s", index, index > 0 ? " (NULL ends the list)" : "");
    snprintf(c->built_for, sizeof(c->built_for), "plugin ABI %u.%u", c->note.abi_major,
             c->note.abi_minor);
    snprintf(c->offered, sizeof(c->offered), "%d.%d", FN_ABI_MAJOR, FN_ABI_MINOR);
    if (plugin_table_copy(c, who, table, FN_MAGIC_FACTORY, sizeof(f->pub), FACTORY_MIN,
                          &f->pub) < 0) {
        return;
    }
    snprintf(who, sizeof(who), "factory %u", index);
    if (check_text(c, who, "kind", f->pub.kind) < 0 ||
        check_text(c, who, "name", f->pub.name) < 0 ||
        check_text(c, who, "summary", f->pub.summary) < 0) {
        return;
    }
    if (!plugin_name_ok(f->pub.name, 32)) {
        plugin_problem(c, FN_E_INVALID, "PLG909",
                       "%s: name, got %s; expected 1 to 32 of a-z, 0-9 and -", who,
                       plugin_quote(f->pub.name, strlen(f->pub.name), shown, sizeof(shown)));
        return;
    }
    snprintf(who, sizeof(who), "%.40s/%s",
             plugin_name_ok(f->pub.kind, 32) ? f->pub.kind : "unknown", f->pub.name);
    check_duplicate(c, who, &f->pub);
    check_life(c, who, &f->pub);
    check_needs(c, who, f->pub.needs);
    plugin_opts_check(c, who, &f->pub);
    check_ops(c, who, f);
}

static void check_twins(struct plugin_check *c, const struct plugin_factory *list, uint32_t n)
{
    uint32_t i;
    uint32_t j;

    for (i = 0; i < n; i++) {
        for (j = 0; j < i; j++) {
            if (strcmp(list[i].pub.kind, list[j].pub.kind) == 0 &&
                strcmp(list[i].pub.name, list[j].pub.name) == 0) {
                plugin_problem(c, FN_E_EXISTS, "PLG916", "%s/%s: listed twice in this file",
                               list[i].pub.kind, list[i].pub.name);
            }
        }
    }
}

static int count_factories(struct plugin_check *c, const struct fn_manifest *m, uint32_t *ret_n)
{
    const struct fn_factory *entry;
    uint32_t n = 0;

    for (;;) {
        if (n > PLUGIN_FACTORIES_MAX ||
            !plugin_mem_table(c->mem, &m->factories[n], sizeof(void *), sizeof(void *))) {
            return plugin_problem(c, FN_E_INVALID, "PLG909",
                                  "manifest: factories, got %u entries without an end in the "
                                  "plugin's data; expected NULL as the end, behind at most %d",
                                  n, PLUGIN_FACTORIES_MAX);
        }
        plugin_mem_copy(&entry, &m->factories[n], sizeof(const struct fn_factory *));
        if (!entry) {
            break;
        }
        n++;
    }
    if (n == 0) {
        return plugin_problem(c, FN_E_INVALID, "PLG909",
                              "manifest: no factories; expected at least one");
    }
    *ret_n = n;
    return 0;
}

int plugin_factories_check(struct plugin_check *c, const struct fn_manifest *m,
                           struct plugin_factory **ret_factories, uint32_t *ret_n)
{
    struct plugin_factory *list;
    uint32_t before = c->n;
    uint32_t n = 0;
    uint32_t i;
    int r;

    r = count_factories(c, m, &n);
    if (r < 0) {
        return r;
    }
    list = calloc(n, sizeof(*list));
    if (!list) {
        return plugin_problem(c, FN_E_EXHAUSTED, "PLG901", "no memory for its factories");
    }
    for (i = 0; i < n; i++) {
        check_factory(c, i, m->factories[i], &list[i]);
    }
    if (c->n == before) {
        check_twins(c, list, n);
    }
    if (c->n != before) {
        free(list);
        return c->first_code;
    }
    *ret_factories = list;
    *ret_n = n;
    return 0;
}
