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
    int fd;
    uint64_t size;
    Elf64_Ehdr eh;
    Elf64_Phdr ph[PHDRS_MAX];
    Elf64_Shdr sh[SHDRS_MAX];
    Elf64_Dyn dyn[DYNS_MAX];
    uint32_t n_dyn;
    const Elf64_Shdr *symbols; /* the one .dynsym */
    uint64_t n_symbols;
};

/* False when it lies outside of the file. */
bool elf_read_at(const struct elf *e, uint64_t at, void *ret, size_t len);
/* PLG906 "damaged or truncated ELF file: <what>". */
int elf_damaged(struct elf *e, const char *what);
/* The same: got a number; expected at most. */
int elf_beyond(struct elf *e, const char *what, uint64_t got, uint64_t expected);
/* The loaded segment that holds [vaddr, vaddr + len), in the file (or in memory when mem), or
 * NULL. */
const Elf64_Phdr *elf_segment_at(const struct elf *e, uint64_t vaddr, uint64_t len, bool mem);
uint64_t elf_value(const struct elf *e, int64_t tag);
/* Reads headers, segments, sections and the dynamic section and judges them. */
int plugin_elf_open(struct elf *e);
/* A text of at most cap - 1 bytes in the file, `limit` its end. "" when it is none. */
const char *elf_text_at(const struct elf *e, uint64_t at, uint64_t limit, char *ret,
                            size_t cap);

/* elf_names.c: libraries, symbols and flags; after the dynamic section was judged. */
int plugin_elf_check_names(struct elf *e);

#endif
