/* What the readers of ELF files share: elf.c judges what the dynamic linker looks at, elf_names.c
 * what the file asks of others, elf_note.c finds our note. */
#ifndef PLUGIN_ELF_INT_H
#define PLUGIN_ELF_INT_H

#include <elf.h>
#include <plugin/plugin_int.h>

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

/* PLG906 "damaged or truncated ELF file: <what>". */
int elf_damaged(struct elf *e, const char *what);
/* The same: got a number; expected at most. */
int elf_beyond(struct elf *e, const char *what, uint64_t got, uint64_t expected);
/* Judges headers, segments, sections and the dynamic section. */
int plugin_elf_open(struct elf *e);

/* elf_names.c: libraries, symbols and flags; after the dynamic section was judged. */
int plugin_elf_check_names(struct elf *e);

#endif
