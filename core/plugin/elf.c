/* Reads just enough of an ELF file to know that the dynamic linker can map it safely and that it
 * was built for this host. Every offset is checked against the size of the file before it is used;
 * nothing of the file is run. What is not covered: damage inside code, data or symbol contents. */
#include <plugin/plugin_int.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#define OWN_RELATIVE R_X86_64_RELATIVE
#define OWN_IRELATIVE R_X86_64_IRELATIVE
#define OWN_LINKER "ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#define OWN_RELATIVE R_AARCH64_RELATIVE
#define OWN_IRELATIVE R_AARCH64_IRELATIVE
#define OWN_LINKER "ld-linux-aarch64.so.1"
#else
#error "expected x86-64 or arm64"
#endif

#define SEGMENT_MAX (1ULL << 32) /* in memory */
#define ADDRESS_MAX (1ULL << 40) /* of a segment, before it is moved: no sum of two overflows */
#define GAP_MAX (1ULL << 33)     /* from one segment to the next: the linker reserves it all */
#define ALIGN_MAX (1ULL << 30)   /* the largest page of x86-64 */
#define PAGE_LEAST 4096u         /* of both machines */
#define PAGE_MOST 65536u         /* relro may end on such a page behind its segment */
#define TLS_MAX (1u << 20)       /* each thread of the node gets it */
#define GOT_PLT_HEAD (3u * sizeof(Elf64_Addr))
#define SHOWN_BYTES 256
#define PHDRS_MAX 64
#define SHDRS_MAX 256
#define DYNS_MAX 512
#define NOTES_MAX 65536u
#define STRTAB_MAX (16u * 1024u * 1024u)
#define RELA_MAX (1u << 20)
#define SYMBOLS_MAX (1u << 20)

struct elf {
    struct plugin_check *c;
    const char *bytes; /* of the file, which does not change; aligned for any type */
    uint64_t size;
    /* what lies in it: */
    const Elf64_Ehdr *eh;
    const Elf64_Phdr *ph;
    const Elf64_Shdr *sh;
    const Elf64_Dyn *dyn;
    uint32_t n_dyn;
    const char *strings; /* DT_STRTAB; ends with NUL */
    uint64_t strings_len;
    const Elf64_Shdr *symbols; /* the one .dynsym */
    const Elf64_Sym *syms;
    uint64_t n_syms;
    bool chooses; /* a relocation is computed by code of the file */
};

static bool inside(uint64_t at, uint64_t len, uint64_t limit)
{
    return at <= limit && len <= limit - at;
}

/* [at, at + len) of the file; NULL: it lies outside, or where no such thing may begin. */
static const void *elf_at(const struct elf *e, uint64_t at, uint64_t len, size_t align)
{
    return at % align == 0 && inside(at, len, e->size) ? e->bytes + at : NULL;
}

/* Got a number; expected at most. */
static int elf_beyond(struct elf *e, const char *what, uint64_t got, uint64_t expected)
{
    return plugin_problem(e->c, FN_E_INVALID, "PLG906",
                          "damaged or truncated ELF file: %s, got %llu; expected at most %llu",
                          what, (unsigned long long)got, (unsigned long long)expected);
}

static int elf_damaged(struct elf *e, const char *what)
{
    return plugin_problem(e->c, FN_E_INVALID, "PLG906", "damaged or truncated ELF file: %s", what);
}

static const char *machine_name(unsigned machine, char *ret, size_t cap)
{
    switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_386: return "i386";
    case EM_ARM: return "arm";
    case EM_RISCV: return "riscv";
    case EM_PPC64: return "ppc64";
    case EM_S390: return "s390";
    default:
        snprintf(ret, cap, "machine %u", machine);
        return ret;
    }
}

static int check_header(struct elf *e)
{
    const Elf64_Ehdr *h = (const void *)e->bytes;
    char shown[80];
    char own[32];
    size_t n = e->size < EI_NIDENT ? (size_t)e->size : EI_NIDENT;

    if (n == 0) {
        return plugin_problem(e->c, FN_E_INVALID, "PLG906",
                              "not ELF, got an empty file; expected a shared object");
    }
    if (n < SELFMAG || memcmp(e->bytes, ELFMAG, SELFMAG) != 0) {
        return plugin_problem(e->c, FN_E_INVALID, "PLG906",
                              "not ELF, starts with %s; expected a shared object",
                              plugin_quote(e->bytes, n, shown, sizeof(shown)));
    }
    if (n == EI_NIDENT && e->bytes[EI_CLASS] == ELFCLASS32) {
        return plugin_problem(e->c, FN_E_UNIMPLEMENTED, "PLG905",
                              "wrong machine, got 32 bits; expected %s with 64 bits",
                              machine_name(OWN_MACHINE, own, sizeof(own)));
    }
    if (e->size < sizeof(*h)) {
        return elf_beyond(e, "its header needs 64 bytes and ends early", sizeof(*h), e->size);
    }
    if (h->e_ident[EI_DATA] == ELFDATA2MSB) {
        return plugin_problem(e->c, FN_E_UNIMPLEMENTED, "PLG905",
                              "wrong machine, got big-endian; expected little-endian");
    }
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_ident[EI_VERSION] != EV_CURRENT || h->e_version != EV_CURRENT) {
        return elf_damaged(e, "unknown class, byte order or version in its header");
    }
    if (h->e_ident[EI_OSABI] != ELFOSABI_SYSV && h->e_ident[EI_OSABI] != ELFOSABI_GNU) {
        return plugin_problem(e->c, FN_E_UNIMPLEMENTED, "PLG905",
                              "wrong system, got OS ABI %u; expected 0 or 3",
                              h->e_ident[EI_OSABI]);
    }
    if (h->e_machine != OWN_MACHINE) {
        return plugin_problem(e->c, FN_E_UNIMPLEMENTED, "PLG905",
                              "wrong machine, got %s; expected %s",
                              machine_name(h->e_machine, shown, sizeof(shown)),
                              machine_name(OWN_MACHINE, own, sizeof(own)));
    }
    if (h->e_type != ET_DYN) {
        return plugin_problem(e->c, FN_E_INVALID, "PLG906",
                              "not a shared object, got ELF type %u; expected %d", h->e_type,
                              ET_DYN);
    }
    e->eh = h;
    return 0;
}

/* Section headers are the last thing in a file: they show most truncations. */
static int check_tables(struct elf *e)
{
    const Elf64_Ehdr *h = e->eh;
    uint64_t len = (uint64_t)h->e_phnum * sizeof(Elf64_Phdr);
    uint64_t sections_len = (uint64_t)h->e_shnum * sizeof(Elf64_Shdr);

    e->ph = elf_at(e, h->e_phoff, len, sizeof(uint64_t));
    e->sh = elf_at(e, h->e_shoff, sections_len, sizeof(uint64_t));
    if (h->e_ehsize != sizeof(Elf64_Ehdr) || h->e_phentsize != sizeof(Elf64_Phdr)) {
        return elf_damaged(e, "its header gives wrong entry sizes");
    }
    if (h->e_phnum == 0 || h->e_phnum > PHDRS_MAX) {
        return elf_beyond(e, "number of program headers", h->e_phnum, PHDRS_MAX);
    }
    if (h->e_phoff < sizeof(Elf64_Ehdr) || !e->ph) {
        return elf_beyond(e, "end of the program headers", h->e_phoff + len, e->size);
    }
    if (h->e_shoff != 0 && h->e_shentsize != sizeof(Elf64_Shdr)) {
        return elf_damaged(e, "its header gives wrong entry sizes");
    }
    if (!e->sh && inside(h->e_shoff, sections_len, e->size)) {
        return elf_damaged(e, "its section headers lie at an odd address");
    }
    if (!e->sh) {
        return elf_beyond(e, "end of the section headers", h->e_shoff + sections_len, e->size);
    }
    return 0;
}

static int check_load(struct elf *e, const Elf64_Phdr *p, const Elf64_Phdr *before)
{
    if (!inside(p->p_offset, p->p_filesz, e->size)) {
        return elf_beyond(e, "end of a segment", p->p_offset + p->p_filesz, e->size);
    }
    if (p->p_filesz <= p->p_memsz && p->p_memsz > SEGMENT_MAX) {
        return plugin_problem(e->c, FN_E_INVALID, "PLG906",
                              "memory of a segment, got %llu bytes; expected at most %llu",
                              (unsigned long long)p->p_memsz, SEGMENT_MAX);
    }
    if (p->p_filesz > p->p_memsz || p->p_vaddr > ADDRESS_MAX) {
        return elf_damaged(e, "a segment has impossible sizes");
    }
    if (p->p_align > ALIGN_MAX || (p->p_align & (p->p_align - 1)) != 0 ||
        p->p_align < PAGE_LEAST || p->p_vaddr % p->p_align != p->p_offset % p->p_align) {
        return elf_damaged(e, "a segment is not aligned");
    }
    if (before && p->p_vaddr < before->p_vaddr + before->p_memsz) {
        return elf_damaged(e, "segments overlap or are not in order");
    }
    if (before && p->p_vaddr - before->p_vaddr > GAP_MAX) {
        return elf_damaged(e, "segments are too far apart");
    }
    if ((p->p_flags & ~(uint32_t)(PF_R | PF_W | PF_X)) != 0 || !(p->p_flags & PF_R)) {
        return elf_damaged(e, "a segment has unknown rights");
    }
    if ((p->p_flags & PF_W) && (p->p_flags & PF_X)) {
        return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                              "a segment is writable and executable; expected one of both");
    }
    return 0;
}

/* The loaded segment that holds [vaddr, vaddr + len), in the file (or in memory when mem), or
 * NULL. */
static const Elf64_Phdr *segment_at(const struct elf *e, uint64_t vaddr, uint64_t len, bool mem)
{
    const Elf64_Phdr *p;
    uint32_t i;

    for (i = 0; i < e->eh->e_phnum; i++) {
        p = &e->ph[i];
        if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr &&
            inside(vaddr - p->p_vaddr, len, mem ? p->p_memsz : p->p_filesz)) {
            return p;
        }
    }
    return NULL;
}

/* The bytes of the file that lie there once it is loaded, or NULL. */
static const void *loaded_at(const struct elf *e, uint64_t vaddr, uint64_t len, size_t align)
{
    const Elf64_Phdr *l = segment_at(e, vaddr, len, false);

    return l ? elf_at(e, l->p_offset + (vaddr - l->p_vaddr), len, align) : NULL;
}

/* Segments that the dynamic linker looks into must lie where a loaded one puts them. */
static int check_inner(struct elf *e, const Elf64_Phdr *p, const char *what)
{
    bool mem = p->p_type == PT_TLS || p->p_type == PT_GNU_RELRO;
    const Elf64_Phdr *l = segment_at(e, p->p_vaddr, mem ? p->p_filesz : p->p_memsz, mem);

    if (!inside(p->p_offset, p->p_filesz, e->size)) {
        return elf_beyond(e, what, p->p_offset + p->p_filesz, e->size);
    }
    if (!l || p->p_offset - l->p_offset != p->p_vaddr - l->p_vaddr) {
        return elf_damaged(e, what);
    }
    if (p->p_type == PT_GNU_RELRO &&
        (p->p_memsz > l->p_memsz + PAGE_MOST || !(l->p_flags & PF_W))) {
        return elf_damaged(e, what);
    }
    if (p->p_type == PT_TLS && (p->p_memsz > TLS_MAX || p->p_filesz > p->p_memsz ||
                                p->p_align > PAGE_LEAST || (p->p_align & (p->p_align - 1)) != 0)) {
        return elf_damaged(e, what);
    }
    return 0;
}

/* Segments and sections describe the same bytes twice. Where they disagree, one of them is
 * damaged, and the linker would map something else than what was built. */
static int check_section(struct elf *e, const Elf64_Shdr *sh)
{
    const Elf64_Phdr *l;

    if (!(sh->sh_flags & SHF_ALLOC) || (sh->sh_flags & SHF_TLS) || sh->sh_size == 0) {
        return 0;
    }
    l = segment_at(e, sh->sh_addr, sh->sh_size, sh->sh_type == SHT_NOBITS);
    if (!l || (sh->sh_type != SHT_NOBITS &&
               sh->sh_offset - l->p_offset != sh->sh_addr - l->p_vaddr)) {
        return elf_damaged(e, "its sections and segments disagree about addresses");
    }
    if (((sh->sh_flags & SHF_EXECINSTR) && !(l->p_flags & PF_X)) ||
        ((sh->sh_flags & SHF_WRITE) && !(l->p_flags & PF_W))) {
        return elf_damaged(e, "its sections and segments disagree about rights");
    }
    return 0;
}

static int check_sections(struct elf *e)
{
    uint32_t i;
    int r;

    if (e->eh->e_shoff == 0 || e->eh->e_shnum == 0 || e->eh->e_shnum > SHDRS_MAX) {
        return elf_beyond(e, "number of section headers", e->eh->e_shnum, SHDRS_MAX);
    }
    for (i = 0; i < e->eh->e_shnum; i++) {
        r = check_section(e, &e->sh[i]);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int check_segment(struct elf *e, const Elf64_Phdr *p)
{
    switch (p->p_type) {
    case PT_DYNAMIC:
        return check_inner(e, p, "the dynamic segment is not inside a loaded one");
    case PT_NOTE:
        return check_inner(e, p, "a note segment is not inside a loaded one");
    case PT_GNU_RELRO:
        return check_inner(e, p, "the relro segment is not inside a loaded one");
    case PT_TLS:
        return check_inner(e, p, "the thread segment is not inside a loaded one");
    case PT_GNU_PROPERTY:
        return check_inner(e, p, "the property segment is not inside a loaded one");
    case PT_GNU_EH_FRAME:
        return check_inner(e, p, "the unwind segment is not inside a loaded one");
    case PT_GNU_STACK:
        if (p->p_flags & PF_X) {
            return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                                  "asks for an executable stack; expected none");
        }
        return 0;
    case PT_PHDR:
        if (p->p_offset != e->eh->e_phoff || p->p_filesz != e->eh->e_phnum * sizeof(e->ph[0])) {
            return elf_damaged(e, "its program headers disagree");
        }
        return check_inner(e, p, "its program headers are not inside a loaded segment");
    default:
        return 0;
    }
}

static int check_segments(struct elf *e, const Elf64_Phdr **ret_dynamic)
{
    const Elf64_Phdr *last = NULL;
    bool stack = false;
    uint32_t i;
    int r;

    for (i = 0; i < e->eh->e_phnum; i++) {
        if (e->ph[i].p_type == PT_LOAD) {
            r = check_load(e, &e->ph[i], last);
            if (r < 0) {
                return r;
            }
            last = &e->ph[i];
        }
    }
    if (!last) {
        return elf_damaged(e, "nothing in it is loaded");
    }
    for (i = 0; i < e->eh->e_phnum; i++) {
        r = check_segment(e, &e->ph[i]);
        if (r < 0) {
            return r;
        }
        stack = stack || e->ph[i].p_type == PT_GNU_STACK;
        if (e->ph[i].p_type == PT_DYNAMIC) {
            if (*ret_dynamic) {
                return elf_damaged(e, "two dynamic segments");
            }
            *ret_dynamic = &e->ph[i];
        }
    }
    if (!stack) {
        return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                              "does not refuse an executable stack; expected a GNU_STACK header");
    }
    return *ret_dynamic ? check_sections(e) : elf_damaged(e, "no dynamic segment");
}

static uint32_t elf_count(const struct elf *e, int64_t tag)
{
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; i < e->n_dyn; i++) {
        n += e->dyn[i].d_tag == tag;
    }
    return n;
}

static uint64_t elf_value(const struct elf *e, int64_t tag)
{
    uint32_t i;

    for (i = 0; i < e->n_dyn; i++) {
        if (e->dyn[i].d_tag == tag) {
            return e->dyn[i].d_un.d_val;
        }
    }
    return 0;
}

struct dyn_rule {
    int64_t tag;
    int64_t size_tag; /* 0 = only the address itself */
    uint64_t least;   /* bytes that are there at least */
    bool mem;         /* may lie in zero-filled memory */
    uint32_t flags;   /* the segment must have */
    bool section;     /* must be the start of a section and, with size_tag, all of it */
};

static const struct dyn_rule dyn_rules[] = {
    { DT_STRTAB, DT_STRSZ, 1, false, 0, true },
    { DT_SYMTAB, 0, 24, false, 0, true },
    { DT_GNU_HASH, 0, 16, false, 0, true },
    { DT_HASH, 0, 8, false, 0, true },
    { DT_RELA, DT_RELASZ, 0, false, 0, false },
    { DT_RELR, DT_RELRSZ, 0, false, 0, false },
    { DT_JMPREL, DT_PLTRELSZ, 0, false, 0, false },
    { DT_INIT_ARRAY, DT_INIT_ARRAYSZ, 0, true, 0, true },
    { DT_FINI_ARRAY, DT_FINI_ARRAYSZ, 0, true, 0, true },
    { DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, 0, true, 0, true },
    { DT_INIT, 0, 1, false, PF_X, true },
    { DT_FINI, 0, 1, false, PF_X, true },
    { DT_PLTGOT, 0, 8, true, PF_W, false },
    { DT_VERSYM, 0, 2, false, 0, true },
    { DT_VERNEED, 0, 16, false, 0, true },
    { DT_VERDEF, 0, 20, false, 0, true },
};

static bool is_section(const struct elf *e, uint64_t at, uint64_t len, bool whole)
{
    uint32_t i;

    for (i = 0; i < e->eh->e_shnum; i++) {
        if ((e->sh[i].sh_flags & SHF_ALLOC) && e->sh[i].sh_addr == at &&
            (!whole || e->sh[i].sh_size == len)) {
            return true;
        }
    }
    return false;
}

static int check_dyn_addresses(struct elf *e)
{
    const struct dyn_rule *rule;
    const Elf64_Phdr *l;
    uint64_t at;
    uint64_t len;
    size_t i;

    for (i = 0; i < sizeof(dyn_rules) / sizeof(dyn_rules[0]); i++) {
        rule = &dyn_rules[i];
        at = elf_value(e, rule->tag);
        if (rule->size_tag && elf_count(e, rule->tag) != elf_count(e, rule->size_tag)) {
            return elf_damaged(e, "its dynamic section has an address without a size");
        }
        if (!elf_count(e, rule->tag)) {
            continue;
        }
        len = rule->size_tag ? elf_value(e, rule->size_tag) : 0;
        len = len < rule->least ? rule->least : len;
        l = segment_at(e, at, len, rule->mem);
        if (!l || (l->p_flags & rule->flags) != rule->flags) {
            return elf_damaged(e, "an address in its dynamic section lies outside");
        }
        if (rule->section && !is_section(e, at, len, rule->size_tag != 0)) {
            return elf_damaged(e, "its dynamic section and its sections disagree");
        }
    }
    return 0;
}

/* What is made read-only after relocation must end where a section ends, or data behind it could
 * not be written: also behind the three words that begin .got.plt, or with the last page of its
 * segment. */
static bool relro_fits(const struct elf *e, const Elf64_Phdr *relro)
{
    uint64_t end = relro->p_vaddr + relro->p_memsz;
    const Elf64_Phdr *l = segment_at(e, relro->p_vaddr, 0, true);
    uint32_t i;

    for (i = 0; i < e->eh->e_shnum; i++) {
        if ((e->sh[i].sh_flags & SHF_ALLOC) &&
            (e->sh[i].sh_addr == end || e->sh[i].sh_addr + e->sh[i].sh_size == end)) {
            return true;
        }
    }
    return end == elf_value(e, DT_PLTGOT) + GOT_PLT_HEAD ||
           (l && end == ((l->p_vaddr + l->p_memsz + PAGE_LEAST - 1) & ~(uint64_t)(PAGE_LEAST - 1)));
}

static int check_relro(struct elf *e)
{
    uint32_t i;

    for (i = 0; i < e->eh->e_phnum; i++) {
        if (e->ph[i].p_type == PT_GNU_RELRO &&
            !relro_fits(e, &e->ph[i])) {
            return elf_damaged(e, "the relro segment ends inside of a section");
        }
    }
    return 0;
}

/* Tags that the dynamic linker interprets in a way that a plugin has no use for. */
static int check_dyn_tag(struct elf *e, const Elf64_Dyn *d)
{
    if (d->d_tag < 0 || (d->d_tag >= DT_NUM && d->d_tag < DT_LOOS)) {
        return elf_damaged(e, "an unknown tag in its dynamic section");
    }
    if (d->d_tag != DT_NEEDED && elf_count(e, d->d_tag) > 1) {
        return elf_damaged(e, "a tag comes twice in its dynamic section");
    }
    switch (d->d_tag) {
    case DT_TEXTREL:
        return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                              "needs relocations of its code; expected position independent code "
                              "(-fPIC)");
    case DT_FLAGS:
        return (d->d_un.d_val & DF_TEXTREL) || d->d_un.d_val > 0x1f
                   ? elf_damaged(e, "unknown flags in its dynamic section")
                   : 0;
    case DT_AUDIT:
    case DT_DEPAUDIT:
    case DT_FILTER:
    case DT_AUXILIARY:
    case DT_REL:
    case DT_DEBUG:
        return elf_damaged(e, "a tag in its dynamic section has no use in a plugin");
    case DT_RELAENT:
        return d->d_un.d_val == sizeof(Elf64_Rela) ? 0 : elf_damaged(e, "relocation size");
    case DT_SYMENT:
        return d->d_un.d_val == sizeof(Elf64_Sym) ? 0 : elf_damaged(e, "symbol size");
    case DT_PLTREL:
        return d->d_un.d_val == DT_RELA ? 0 : elf_damaged(e, "relocation type");
    case DT_RPATH:
    case DT_RUNPATH:
        return plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                              "brings a search path for libraries (%s); expected none",
                              d->d_tag == DT_RPATH ? "DT_RPATH" : "DT_RUNPATH");
    case DT_FLAGS_1:
        return d->d_un.d_val & ~(uint64_t)(DF_1_NOW | DF_1_NODELETE | DF_1_ORIGIN)
                   ? plugin_problem(e->c, FN_E_PERMISSION, "PLG906",
                                    "asks the linker for special treatment (flags 0x%llx); "
                                    "expected none but NOW and NODELETE",
                                    (unsigned long long)d->d_un.d_val)
                   : 0;
    case DT_NEEDED:
    case DT_SONAME:
        return d->d_un.d_val < elf_value(e, DT_STRSZ) ? 0 : elf_damaged(e, "a library name");
    default:
        return 0;
    }
}

/* The sections' word for where the symbols are must be the linker's, and the only one. */
static int find_symbols(struct elf *e)
{
    for (uint32_t i = 0; i < e->eh->e_shnum; i++) {
        if (e->sh[i].sh_type == SHT_DYNSYM && e->symbols) {
            return elf_damaged(e, "two symbol tables");
        }
        if (e->sh[i].sh_type == SHT_DYNSYM) {
            e->symbols = &e->sh[i];
        }
    }
    e->n_syms = e->symbols ? e->symbols->sh_size / sizeof(Elf64_Sym) : 0;
    e->syms = e->symbols ? elf_at(e, e->symbols->sh_offset, e->symbols->sh_size, sizeof(uint64_t))
                         : NULL;
    if (!e->syms || e->n_syms == 0 || e->n_syms > SYMBOLS_MAX ||
        !(e->symbols->sh_flags & SHF_ALLOC) || e->symbols->sh_addr != elf_value(e, DT_SYMTAB)) {
        return elf_damaged(e, "its symbol table is not where it should be");
    }
    return 0;
}

/* Relocations are written by the dynamic linker without a look at where they point. */
static bool relocation_is_good(struct elf *e, const Elf64_Rela *r)
{
    const Elf64_Phdr *target = segment_at(e, r->r_offset, sizeof(uint64_t), true);
    uint64_t type = ELF64_R_TYPE(r->r_info);

    e->chooses |= type == OWN_IRELATIVE;
    return target && (target->p_flags & PF_W) && ELF64_R_SYM(r->r_info) < e->n_syms &&
           (type != OWN_RELATIVE || segment_at(e, (uint64_t)r->r_addend, 0, true));
}

/* The first `relative` ones are taken as relative without a look. */
static int check_relocations(struct elf *e, int64_t tag, int64_t size_tag, uint64_t relative)
{
    static const char wrong_count[] = "its count of relative relocations is wrong";
    uint64_t len = elf_value(e, size_tag);
    uint64_t n = len / sizeof(Elf64_Rela);
    const Elf64_Rela *rela = loaded_at(e, elf_value(e, tag), len, sizeof(uint64_t));

    if (len > 0 && (!rela || len % sizeof(*rela) != 0 || n > RELA_MAX)) {
        return elf_damaged(e, "relocations");
    }
    for (uint64_t i = 0; i < n; i++) {
        if (i < relative && ELF64_R_TYPE(rela[i].r_info) != OWN_RELATIVE) {
            return elf_damaged(e, wrong_count);
        }
        if (!relocation_is_good(e, &rela[i])) {
            return elf_damaged(e, "a relocation points outside of its data");
        }
    }
    return relative <= n ? 0 : elf_damaged(e, wrong_count);
}

/* What the dynamic linker follows without a look whether it is there. */
static bool is_complete(const struct elf *e)
{
    static const int64_t needed[] = { DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT };
    static const int64_t pairs[][2] = { { DT_RELA, DT_RELAENT },
                                        { DT_JMPREL, DT_PLTREL },
                                        { DT_VERNEED, DT_VERNEEDNUM },
                                        { DT_VERDEF, DT_VERDEFNUM } };

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (!elf_value(e, needed[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (elf_count(e, pairs[i][0]) != elf_count(e, pairs[i][1])) {
            return false;
        }
    }
    return (elf_value(e, DT_GNU_HASH) || elf_value(e, DT_HASH)) &&
           (!elf_count(e, DT_VERNEED) || elf_count(e, DT_VERSYM));
}

static int find_strings(struct elf *e)
{
    e->strings_len = elf_value(e, DT_STRSZ);
    e->strings = loaded_at(e, elf_value(e, DT_STRTAB), e->strings_len, 1);
    if (!e->strings || e->strings_len > STRTAB_MAX || e->strings[e->strings_len - 1] != '\0') {
        return elf_damaged(e, "its string table has no end");
    }
    return 0;
}

static int check_dynamic(struct elf *e, const Elf64_Phdr *dynamic)
{
    uint64_t n = dynamic->p_filesz / sizeof(Elf64_Dyn);
    uint32_t i;
    int r;

    e->dyn = elf_at(e, dynamic->p_offset, n * sizeof(Elf64_Dyn), sizeof(uint64_t));
    if (n == 0 || n > DYNS_MAX || !e->dyn) {
        return elf_beyond(e, "entries of its dynamic section", n, DYNS_MAX);
    }
    while (e->n_dyn < n && e->dyn[e->n_dyn].d_tag != DT_NULL) {
        e->n_dyn++;
    }
    if (e->n_dyn == n) {
        return elf_damaged(e, "its dynamic section has no end");
    }
    for (i = 0; i < e->n_dyn; i++) {
        r = check_dyn_tag(e, &e->dyn[i]);
        if (r < 0) {
            return r;
        }
    }
    if (!is_complete(e)) {
        return elf_damaged(e, "its dynamic section is not complete");
    }
    r = check_dyn_addresses(e);
    r = r < 0 ? r : find_strings(e);
    r = r < 0 ? r : check_relro(e);
    r = r < 0 ? r : find_symbols(e);
    r = r < 0 ? r : check_relocations(e, DT_RELA, DT_RELASZ, elf_value(e, DT_RELACOUNT));
    return r < 0 ? r : check_relocations(e, DT_JMPREL, DT_PLTRELSZ, 0);
}

/* ---- what the file asks of others ------------------------------------------------------------ */

/* Code of a library runs with the plugin's, so each one is named by the host or by the operator.
 * These are the C and C++ run time, and what the host links itself and shipped plugins use. */
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
        const Elf64_Dyn *d = &e->dyn[i];
        const char *name = d->d_tag == DT_NEEDED ? e->strings + d->d_un.d_val : NULL;

        if (name && !is_allowed(e->c->host, name)) {
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

static int check_names(struct elf *e)
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

/* ---- our note -------------------------------------------------------------------------------- */

/* 1 = found, 0 = not here, < 0 = damaged. */
static int scan_notes(struct elf *e, const Elf64_Phdr *p, struct fn_note *ret)
{
    uint64_t align = p->p_align == 8 ? 8 : 4;
    uint64_t at = 0;
    uint64_t name_len;
    uint64_t desc_len;
    const char *notes = e->bytes + p->p_offset;
    Elf64_Nhdr nh;

    if (p->p_filesz > NOTES_MAX) {
        return elf_beyond(e, "size of a note segment", p->p_filesz, NOTES_MAX);
    }
    while (p->p_filesz - at >= sizeof(nh)) {
        memcpy(&nh, notes + at, sizeof(nh));
        name_len = ((uint64_t)nh.n_namesz + align - 1) & ~(align - 1);
        desc_len = ((uint64_t)nh.n_descsz + align - 1) & ~(align - 1);
        if (sizeof(nh) + name_len + nh.n_descsz > p->p_filesz - at) {
            return elf_beyond(e, "end of a note", at + sizeof(nh) + name_len + nh.n_descsz,
                           p->p_filesz);
        }
        if (nh.n_namesz == 4 && nh.n_type == FN_NOTE_TYPE && nh.n_descsz >= 8 && align == 4 &&
            memcmp(notes + at + sizeof(nh), FN_NOTE_OWNER, 4) == 0) {
            memcpy(ret, notes + at, sizeof(*ret));
            return 1;
        }
        at += sizeof(nh) + name_len + desc_len;
        if (at > p->p_filesz) {
            return 0;
        }
    }
    return 0;
}

static int find_note(struct elf *e, struct fn_note *ret)
{
    uint32_t i;
    int r;

    for (i = 0; i < e->eh->e_phnum; i++) {
        if (e->ph[i].p_type == PT_NOTE) {
            r = scan_notes(e, &e->ph[i], ret);
            if (r != 0) {
                return r < 0 ? r : 0;
            }
        }
    }
    return plugin_problem(e->c, FN_E_INVALID, "PLG907",
                          "has no note of owner \"" FN_NOTE_OWNER "\"; expected a plugin built "
                          "with FN_PLUGIN_DEFINE");
}

int plugin_elf_check(struct plugin_check *c, const void *bytes, uint64_t size)
{
    struct elf e = { .c = c, .bytes = bytes, .size = size };
    const Elf64_Phdr *dynamic = NULL;
    int r = check_header(&e);

    r = r < 0 ? r : check_tables(&e);
    r = r < 0 ? r : check_segments(&e, &dynamic);
    r = r < 0 ? r : check_dynamic(&e, dynamic);
    r = r < 0 ? r : check_names(&e);
    return r < 0 ? r : find_note(&e, &c->note);
}
