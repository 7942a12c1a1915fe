/* The segments of loaded files, as the dynamic linker lists them, so that a pointer of a
 * manifest can be looked up before it is followed. */
#include <plugin/plugin_int.h>

#include <base/utf8.h>
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NO_SANITIZER __attribute__((no_sanitize("address"), no_sanitize("thread"), noinline))

struct segment {
    uintptr_t from;
    uintptr_t to;
    uint32_t flags; /* PF_* */
    bool own;
};

struct plugin_mem {
    struct segment *segments;
    size_t n;
    size_t cap;
    uintptr_t own_base;
    const void *own_dynamic;
    bool failed;
};

static void mem_add(struct plugin_mem *m, const struct segment *s)
{
    struct segment *grown;

    if (m->n == m->cap) {
        grown = realloc(m->segments, (m->cap * 2 + 64) * sizeof(*grown));
        if (!grown) {
            m->failed = true;
            return;
        }
        m->segments = grown;
        m->cap = m->cap * 2 + 64;
    }
    m->segments[m->n++] = *s;
}

static int each_object(struct dl_phdr_info *info, size_t size, void *ud)
{
    struct plugin_mem *m = ud;
    bool own = false;
    int i;

    (void)size;
    for (i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            own = info->dlpi_addr == m->own_base &&
                  (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) == m->own_dynamic;
        }
    }
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

        if (ph->p_type == PT_LOAD && (ph->p_flags & PF_R)) {
            mem_add(m, &(struct segment){ info->dlpi_addr + ph->p_vaddr,
                                          info->dlpi_addr + ph->p_vaddr + ph->p_memsz, ph->p_flags,
                                          own });
        }
    }
    return 0;
}

int plugin_mem_create(void *handle, struct plugin_mem **ret)
{
    struct link_map *map = NULL;
    struct plugin_mem *m;

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map) {
        return FN_E_INTERNAL;
    }
    m = calloc(1, sizeof(*m));
    if (!m) {
        return FN_E_EXHAUSTED;
    }
    m->own_base = map->l_addr;
    m->own_dynamic = map->l_ld;
    dl_iterate_phdr(each_object, m);
    if (m->failed) {
        plugin_mem_destroy(m);
        return FN_E_EXHAUSTED;
    }
    *ret = m;
    return 0;
}

void plugin_mem_range(const struct plugin_mem *m, uintptr_t *ret_from, uintptr_t *ret_to)
{
    *ret_from = UINTPTR_MAX;
    *ret_to = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->segments[i].own) {
            *ret_from = m->segments[i].from < *ret_from ? m->segments[i].from : *ret_from;
            *ret_to = m->segments[i].to > *ret_to ? m->segments[i].to : *ret_to;
        }
    }
}

void plugin_mem_destroy(struct plugin_mem *m)
{
    if (!m) {
        return;
    }
    free(m->segments);
    free(m);
}

static const struct segment *mem_find(const struct plugin_mem *m, const void *p)
{
    uintptr_t at = (uintptr_t)p;
    size_t i;

    for (i = 0; i < m->n; i++) {
        if (at >= m->segments[i].from && at < m->segments[i].to) {
            return &m->segments[i];
        }
    }
    return NULL;
}

bool plugin_mem_table(const struct plugin_mem *m, const void *p, size_t len, size_t align)
{
    const struct segment *s = mem_find(m, p);

    return s && s->own && len <= s->to - (uintptr_t)p && (uintptr_t)p % align == 0;
}

bool plugin_mem_code(const struct plugin_mem *m, const void *p)
{
    const struct segment *s = mem_find(m, p);

    return s && (s->flags & PF_X);
}

NO_SANITIZER bool plugin_mem_ends(const struct plugin_mem *m, const char *s)
{
    const struct segment *seg = mem_find(m, s);
    size_t room;
    size_t i;

    if (!seg) {
        return false;
    }
    room = seg->to - (uintptr_t)s;
    for (i = 0; i < room && i <= PLUGIN_TEXT_MAX; i++) {
        if (s[i] == '\0') {
            return true;
        }
    }
    return false;
}

bool plugin_mem_text(const struct plugin_mem *m, const char *s)
{
    const char *end = plugin_mem_ends(m, s) ? s + strlen(s) : NULL;
    bool plain = end != NULL;

    while (plain && s < end) {
        s += utf8_next(s, end, &plain);
    }
    return plain;
}

NO_SANITIZER void plugin_mem_copy(void *to, const void *from, size_t n)
{
    volatile const unsigned char *in = from; /* volatile: must not become a checked memcpy */
    unsigned char *out = to;
    size_t i;

    for (i = 0; i < n; i++) {
        out[i] = in[i];
    }
}

NO_SANITIZER size_t plugin_mem_nonzero(const void *p, size_t from, size_t to)
{
    volatile const unsigned char *in = p;

    while (from < to && in[from] == 0) {
        from++;
    }
    return from;
}
