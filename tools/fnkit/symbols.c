/* Reads the symbol tables of a plugin file. The loader has checked the file before, yet every
 * offset is checked against the image again: symbol contents are not among what the loader looks
 * at. */
#include "fnkit.h"

#include <elf.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE_MAX (64u * 1024u * 1024u)

struct image {
    const char *at;
    size_t len;
    const Elf64_Ehdr *eh;
    const Elf64_Shdr *sh;
    const Elf64_Phdr *ph;
};

static int read_image(const char *path, char **ret, size_t *ret_len, struct fn_error *reterr)
{
    FILE *f = fopen(path, "rbe");
    char *image;
    long len;

    if (!f || fseek(f, 0, SEEK_END) != 0 || (len = ftell(f)) < 0 || len > (long)IMAGE_MAX ||
        fseek(f, 0, SEEK_SET) != 0) {
        if (f) {
            fclose(f);
        }
        return err_set(reterr, FN_E_UNAVAILABLE, "PLG901 %s: cannot be read", path);
    }
    image = malloc((size_t)len + 1);
    if (!image || fread(image, 1, (size_t)len, f) != (size_t)len) {
        free(image);
        fclose(f);
        return err_set(reterr, FN_E_UNAVAILABLE, "PLG901 %s: cannot be read", path);
    }
    fclose(f);
    image[len] = '\0'; /* ends any text that the file does not end */
    *ret = image;
    *ret_len = (size_t)len;
    return 0;
}

static bool inside(const struct image *m, uint64_t at, uint64_t len)
{
    return at <= m->len && len <= m->len - at;
}

static bool take_headers(struct image *m)
{
    m->eh = (const Elf64_Ehdr *)(const void *)m->at;
    if (!inside(m, 0, sizeof(*m->eh)) || m->eh->e_shoff % 8 != 0 ||
        m->eh->e_shentsize != sizeof(*m->sh) ||
        !inside(m, m->eh->e_shoff, (uint64_t)m->eh->e_shnum * sizeof(*m->sh)) ||
        m->eh->e_phoff % 8 != 0 || m->eh->e_phentsize != sizeof(*m->ph) ||
        !inside(m, m->eh->e_phoff, (uint64_t)m->eh->e_phnum * sizeof(*m->ph))) {
        return false;
    }
    m->sh = (const Elf64_Shdr *)(const void *)(m->at + m->eh->e_shoff);
    m->ph = (const Elf64_Phdr *)(const void *)(m->at + m->eh->e_phoff);
    return true;
}

static const char *text_at(const struct image *m, uint32_t strtab, uint64_t at)
{
    if (strtab >= m->eh->e_shnum || at >= m->sh[strtab].sh_size ||
        !inside(m, m->sh[strtab].sh_offset, m->sh[strtab].sh_size)) {
        return "";
    }
    return m->at + m->sh[strtab].sh_offset + at;
}

static const char *section_name(const struct image *m, uint32_t index)
{
    return index < m->eh->e_shnum ? text_at(m, m->eh->e_shstrndx, m->sh[index].sh_name) : "";
}

static const Elf64_Shdr *section_of_type(const struct image *m, uint32_t type)
{
    uint32_t i;

    for (i = 0; i < m->eh->e_shnum; i++) {
        if (m->sh[i].sh_type == type && inside(m, m->sh[i].sh_offset, m->sh[i].sh_size) &&
            m->sh[i].sh_offset % 8 == 0) {
            return &m->sh[i];
        }
    }
    return NULL;
}

/* Sections that an instance of one node would share with those of another. Relocated constants
 * (.data.rel.ro) are read-only once the file is loaded. */
static bool is_state(const char *section)
{
    static const char *const names[] = { ".data",           ".bss",  ".tdata", ".tbss", ".data.rel",
                                         ".data.rel.local", ".lbss", ".ldata" };
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(section, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_compilers(const char *name)
{
    return strncmp(name, "completed.", 10) == 0 || strcmp(name, "__dso_handle") == 0 ||
           strcmp(name, "__TMC_END__") == 0 || strcmp(name, "__EH_FRAME_BEGIN__") == 0;
}

/* Relocated constants are read-only once the file is loaded. */
static bool stays_writable(const struct image *m, const Elf64_Shdr *sh)
{
    if (!(sh->sh_flags & SHF_WRITE) || !(sh->sh_flags & SHF_ALLOC) ||
        (sh->sh_type != SHT_PROGBITS && sh->sh_type != SHT_NOBITS)) {
        return false;
    }
    for (uint32_t i = 0; i < m->eh->e_phnum; i++) {
        const Elf64_Phdr *ph = &m->ph[i];

        if (ph->p_type == PT_GNU_RELRO && sh->sh_addr >= ph->p_vaddr &&
            sh->sh_addr + sh->sh_size <= ph->p_vaddr + ph->p_memsz) {
            return false;
        }
    }
    return true;
}

static bool is_static(const struct image *m, const Elf64_Sym *sym, const char *name)
{
    return sym->st_shndx != SHN_UNDEF && sym->st_shndx < m->eh->e_shnum && sym->st_size > 0 &&
           stays_writable(m, &m->sh[sym->st_shndx]) && !is_compilers(name) &&
           strncmp(name, "DW.ref.", 7) != 0; /* C++: where an exception's handler is found */
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct symbol *)a)->name, ((const struct symbol *)b)->name);
}

static void add(struct symbol *list, size_t *n, const struct symbol *s)
{
    list[(*n)++] = *s;
}

static void sort_into(const struct image *m, const Elf64_Shdr *table, struct symbols *s,
                      bool dynamic)
{
    const Elf64_Sym *sym = (const Elf64_Sym *)(const void *)(m->at + table->sh_offset);
    size_t n = table->sh_size / sizeof(*sym);
    size_t i;

    for (i = 1; i < n; i++) {
        struct symbol one = {
            .name = text_at(m, table->sh_link, sym[i].st_name),
            .size = sym[i].st_size,
            .section = section_name(m, sym[i].st_shndx),
            .weak = ELF64_ST_BIND(sym[i].st_info) == STB_WEAK,
        };
        unsigned type = ELF64_ST_TYPE(sym[i].st_info);

        if (!one.name[0] || type == STT_SECTION || type == STT_FILE) {
            continue;
        }
        if (dynamic) {
            s->sanitized = s->sanitized || strncmp(one.name, "__asan", 6) == 0 ||
                           strncmp(one.name, "__tsan", 6) == 0 ||
                           strncmp(one.name, "__ubsan", 7) == 0;
            if (sym[i].st_shndx == SHN_UNDEF) {
                add(s->imports, &s->n_imports, &one);
            } else {
                add(s->exports, &s->n_exports, &one);
            }
        } else if (type == STT_OBJECT || type == STT_TLS) {
            if (is_state(one.section) && !is_compilers(one.name)) {
                add(s->variables, &s->n_variables, &one);
            }
            if (is_static(m, &sym[i], one.name)) {
                add(s->statics, &s->n_statics, &one);
            }
        }
    }
}

/* Without names only sizes are to be had. The start files take up to 16 bytes of both; `got` is the
 * linker's. */
static void take_sections(const struct image *m, uint64_t got, struct symbols *s)
{
    for (uint32_t i = 0; i < m->eh->e_shnum; i++) {
        const Elf64_Shdr *sh = &m->sh[i];

        if (stays_writable(m, sh) && sh->sh_size > 16 &&
            (got < sh->sh_addr || got >= sh->sh_addr + sh->sh_size)) {
            add(s->statics, &s->n_statics,
                &(struct symbol){
                    .name = sh->sh_type == SHT_NOBITS ? "(zeroed data)" : "(data)",
                    .size = sh->sh_size,
                });
        }
    }
}

static int take_symbols(const struct image *m, struct symbols *s)
{
    const Elf64_Shdr *dyn = section_of_type(m, SHT_DYNSYM);
    const Elf64_Shdr *sym = section_of_type(m, SHT_SYMTAB);
    size_t n_dyn = dyn ? dyn->sh_size / sizeof(Elf64_Sym) : 0;
    size_t n_sym = sym ? sym->sh_size / sizeof(Elf64_Sym) : 0;

    s->imports = calloc(n_dyn + 1, sizeof(*s->imports));
    s->exports = calloc(n_dyn + 1, sizeof(*s->exports));
    s->variables = calloc(n_sym + 1, sizeof(*s->variables));
    s->statics = calloc((sym ? n_sym : m->eh->e_shnum) + 1, sizeof(*s->statics));
    if (!s->imports || !s->exports || !s->variables || !s->statics) {
        return FN_E_EXHAUSTED;
    }
    if (dyn) {
        sort_into(m, dyn, s, true);
    }
    if (sym) {
        sort_into(m, sym, s, false);
    }
    s->stripped = !sym;
    qsort(s->imports, s->n_imports, sizeof(*s->imports), by_name);
    qsort(s->exports, s->n_exports, sizeof(*s->exports), by_name);
    qsort(s->variables, s->n_variables, sizeof(*s->variables), by_name);
    return 0;
}

static int take_needed(const struct image *m, struct symbols *s)
{
    const Elf64_Shdr *table = section_of_type(m, SHT_DYNAMIC);
    const Elf64_Dyn *dyn =
        table ? (const Elf64_Dyn *)(const void *)(m->at + table->sh_offset) : NULL;
    size_t n = table ? table->sh_size / sizeof(*dyn) : 0;
    uint64_t got = 0;
    size_t i;

    s->needed = calloc(n + 1, sizeof(*s->needed));
    if (!s->needed) {
        return FN_E_EXHAUSTED;
    }
    for (i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
        if (dyn[i].d_tag == DT_NEEDED) {
            s->needed[s->n_needed++] = text_at(m, table->sh_link, dyn[i].d_un.d_val);
        }
        got = dyn[i].d_tag == DT_PLTGOT ? dyn[i].d_un.d_ptr : got;
    }
    if (s->stripped) {
        take_sections(m, got, s);
    }
    for (i = 0; i < m->eh->e_shnum; i++) {
        if (is_state(section_name(m, (uint32_t)i))) {
            s->writable_bytes += m->sh[i].sh_size;
        }
    }
    return 0;
}

int symbols_read(const char *path, struct symbols *ret, struct fn_error *reterr)
{
    struct symbols s = { 0 };
    struct image m;
    int r = read_image(path, &s.image, &s.image_len, reterr);

    if (r < 0) {
        return r;
    }
    m = (struct image){ .at = s.image, .len = s.image_len };
    if (!take_headers(&m)) {
        symbols_finish(&s);
        return err_set(reterr, FN_E_INVALID, "PLG906 %s: its sections cannot be read", path);
    }
    if (take_symbols(&m, &s) < 0 || take_needed(&m, &s) < 0) {
        symbols_finish(&s);
        return err_set(reterr, FN_E_EXHAUSTED, "PLG901 %s: no memory for its symbols", path);
    }
    *ret = s;
    return 0;
}

void symbols_finish(struct symbols *s)
{
    free(s->image);
    free(s->imports);
    free(s->exports);
    free(s->variables);
    free(s->statics);
    free(s->needed);
    *s = (struct symbols){ 0 };
}

int file_sha256(const char *path, char ret_hex[65], struct fn_error *reterr)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    char *image = NULL;
    size_t image_len = 0;
    unsigned int i;
    int r = read_image(path, &image, &image_len, reterr);

    if (r < 0) {
        return r;
    }
    r = EVP_Digest(image, image_len, digest, &len, EVP_sha256(), NULL) == 1 && len == 32
            ? 0
            : err_set(reterr, FN_E_INTERNAL, "%s: its hash cannot be made", path);
    for (i = 0; r == 0 && i < len; i++) {
        snprintf(ret_hex + (size_t)2 * i, 3, "%02x", digest[i]);
    }
    free(image);
    return r;
}
