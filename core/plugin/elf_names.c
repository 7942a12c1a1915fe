/* What a plugin asks of others: libraries that come into the process with it, and symbols that mean
 * something to the whole process. Code of a library runs with the plugin's, so each one is named by
 * the host or by the operator. */
#include <plugin/elf_int.h>

#include <string.h>

#define NAME_BYTES 256

#if defined(__x86_64__)
#define OWN_IRELATIVE R_X86_64_IRELATIVE
#define OWN_LINKER "ld-linux-x86-64.so.2"
#else
#define OWN_IRELATIVE R_AARCH64_IRELATIVE
#define OWN_LINKER "ld-linux-aarch64.so.1"
#endif

/* The C and C++ run time, and what the host links itself and shipped plugins use. */
static const char *const always_allowed[] = {
    "libc.so.6",      "libm.so.6",      "libpthread.so.0", "libdl.so.2",
    "librt.so.1",     OWN_LINKER,       "libgcc_s.so.1",   "libstdc++.so.6",
    "libatomic.so.1", "libcrypto.so.3", "libjansson.so.4",
#if defined(__SANITIZE_ADDRESS__)
    "libasan.so.8",   "libubsan.so.1",
#elif defined(__SANITIZE_THREAD__)
    "libtsan.so.2",
#endif
};

static bool is_allowed(const struct plugin_host *h, const char *name)
{
    for (size_t i = 0; i < sizeof(always_allowed) / sizeof(always_allowed[0]); i++) {
        if (strcmp(always_allowed[i], name) == 0) {
            return true;
        }
    }
    for (uint32_t i = 0; h && i < h->n_libraries; i++) {
        if (strcmp(h->libraries[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* All of them are told, so that the operator need not come back for each. */
static int check_libraries(struct elf *e)
{
    uint64_t table = elf_value(e, DT_STRTAB);
    uint64_t size = elf_value(e, DT_STRSZ);
    const Elf64_Phdr *l = elf_segment_at(e, table, size, false);
    uint64_t base = l->p_offset + (table - l->p_vaddr);
    char name[NAME_BYTES];
    char shown[NAME_BYTES];
    int r = 0;

    for (uint32_t i = 0; i < e->n_dyn; i++) {
        if (e->dyn[i].d_tag != DT_NEEDED) {
            continue;
        }
        elf_text_at(e, base + e->dyn[i].d_un.d_val, base + size, name, sizeof(name));
        if (!is_allowed(e->c->host, name)) {
            r = plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                               "needs library %s; expected the C library, libstdc++, libcrypto, "
                               "libjansson, or a name in plugins.libraries",
                               plugin_quote(name, strlen(name), shown, sizeof(shown)));
        }
    }
    return r;
}

static int check_symbol(struct elf *e, const Elf64_Sym *sym, uint64_t strings, uint64_t end)
{
    bool unique = ELF64_ST_BIND(sym->st_info) == STB_GNU_UNIQUE;
    bool ifunc = ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC && sym->st_shndx != SHN_UNDEF;
    char name[NAME_BYTES];
    char shown[NAME_BYTES];

    if (!unique && !ifunc) {
        return 0;
    }
    elf_text_at(e, strings + sym->st_name, end, name, sizeof(name));
    plugin_quote(name, strlen(name), shown, sizeof(shown));
    return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                          unique
                              ? "shares symbol %s with the whole process (GNU unique); expected "
                                "none, link with a version script that exports fn_plugin_v1 alone"
                              : "chooses symbol %s by code that runs while it is linked (IFUNC); "
                                "expected none",
                          shown);
}

/* The first one is told: a C++ file has hundreds of the kind, or none. */
static int check_symbols(struct elf *e)
{
    const Elf64_Shdr *table = e->symbols;
    const Elf64_Shdr *strings;
    Elf64_Sym syms[64];
    uint64_t n;
    int r = 0;

    strings = &e->sh[table->sh_link];
    for (uint64_t at = 0; at < e->n_symbols && r == 0; at += n) {
        n = e->n_symbols - at;
        n = n < 64 ? n : 64;
        if (!elf_read_at(e, table->sh_offset + at * sizeof(syms[0]), syms, n * sizeof(syms[0]))) {
            return elf_damaged(e, "its symbol table");
        }
        for (uint64_t i = 0; i < n && r == 0; i++) {
            r = check_symbol(e, &syms[i], strings->sh_offset,
                             strings->sh_offset + strings->sh_size);
        }
    }
    return r;
}

static int check_ifunc_relocations(struct elf *e, int64_t tag, int64_t size_tag)
{
    uint64_t at = elf_value(e, tag);
    uint64_t n = elf_value(e, size_tag) / sizeof(Elf64_Rela);
    const Elf64_Phdr *l = elf_segment_at(e, at, n * sizeof(Elf64_Rela), false);
    Elf64_Rela rela[64];
    uint64_t part;

    for (uint64_t i = 0; l && i < n; i += part) {
        part = n - i < 64 ? n - i : 64;
        if (!elf_read_at(e, l->p_offset + (at - l->p_vaddr) + i * sizeof(rela[0]), rela,
                         part * sizeof(rela[0]))) {
            return elf_damaged(e, "relocations");
        }
        for (uint64_t k = 0; k < part; k++) {
            if (ELF64_R_TYPE(rela[k].r_info) == OWN_IRELATIVE) {
                return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                                      "chooses a function by code that runs while it is linked "
                                      "(IFUNC); expected none");
            }
        }
    }
    return 0;
}

int plugin_elf_check_names(struct elf *e)
{
    int r = check_libraries(e);

    r = r < 0 ? r : check_symbols(e);
    r = r < 0 ? r : check_ifunc_relocations(e, DT_RELA, DT_RELASZ);
    return r < 0 ? r : check_ifunc_relocations(e, DT_JMPREL, DT_PLTRELSZ);
}
