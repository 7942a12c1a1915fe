/* What a plugin asks of others: libraries that come into the process with it, and symbols that mean
 * something to the whole process. Code of a library runs with the plugin's, so each one is named by
 * the host or by the operator. */
#include <plugin/elf_int.h>

#include <string.h>

#define SHOWN_BYTES 256

#if defined(__x86_64__)
#define OWN_LINKER "ld-linux-x86-64.so.2"
#else
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
    for (uint64_t i = 0; h && i < h->policy.libraries.n; i++) {
        if (strcmp(h->policy.libraries.items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* All of them are told, so that the operator need not come back for each. */
static int check_libraries(struct elf *e)
{
    char shown[SHOWN_BYTES];
    int r = 0;

    for (uint32_t i = 0; i < e->n_dyn; i++) {
        const char *name = e->strings + e->dyn[i].d_un.d_val;

        if (e->dyn[i].d_tag == DT_NEEDED && !is_allowed(e->c->host, name)) {
            r = plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                               "needs library %s; expected the C library, libstdc++, libcrypto, "
                               "libjansson, or a name in plugins.libraries",
                               plugin_quote(name, strlen(name), shown, sizeof(shown)));
        }
    }
    return r;
}

static int check_symbol(struct elf *e, const Elf64_Sym *sym)
{
    bool unique = ELF64_ST_BIND(sym->st_info) == STB_GNU_UNIQUE;
    bool ifunc = ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC && sym->st_shndx != SHN_UNDEF;
    const char *name = sym->st_name < e->strings_len ? e->strings + sym->st_name : "";
    char shown[SHOWN_BYTES];

    if (!unique && !ifunc) {
        return 0;
    }
    plugin_quote(name, strlen(name), shown, sizeof(shown));
    return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                          unique
                              ? "shares symbol %s with the whole process (GNU unique); expected "
                                "none, link with a version script that exports fn_plugin_v1 alone"
                              : "chooses symbol %s by code that runs while it is linked (IFUNC); "
                                "expected none",
                          shown);
}

int plugin_elf_check_names(struct elf *e)
{
    int r = check_libraries(e);

    /* The first one is told: a C++ file has hundreds of the kind, or none. */
    for (uint64_t i = 0; i < e->n_syms && r == 0; i++) {
        r = check_symbol(e, &e->syms[i]);
    }
    return r < 0 || !e->chooses
               ? r
               : plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                                "chooses a function by code that runs while it is linked (IFUNC); "
                                "expected none");
}
