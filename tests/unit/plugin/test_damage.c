/* A real plugin, cut and bent in every place that the loader reads before code may run. Each
 * damaged file is opened in a child: it may be refused or load, but must not end the process by a
 * signal. */
#include "../lib/sanitized.h"
#include "testing.h"

#include <elf.h>
#include <fcntl.h>
#include <plugin/plugin_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED 21
#define LOADED  22

/* A sanitizer's own constructors read tables of the file, which no check of ours covers. There
 * only the reader of the file is tried, which is what the sanitizer should look at. */
#define READ_ONLY SANITIZED

static char *good;
static size_t good_len;

static void setup(void)
{
    good = read_file(sample_path("good"), &good_len);
}

static void teardown(void)
{
    free(good);
}

static int read_here(const char *path)
{
    struct fn_error e = ERR_INIT;
    struct plugin_check c = { .path = path, .first = &e };
    size_t len;
    char *bytes = read_file(path, &len);
    int r = plugin_elf_check(&c, bytes, len);

    free(bytes);
    return r < 0 && e.msg[0] ? REFUSED : LOADED;
}

static int open_in_child(const char *path)
{
    struct plugin_host *h;
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;
    int status = 0;
    pid_t pid;

    if (READ_ONLY) {
        return read_here(path);
    }
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        h = plugin_host_create(NULL);
        _exit(plugin_file_open(h, path, &f, &e) < 0 && e.msg[0] ? REFUSED : LOADED);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static const char *damaged_path(void)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/damaged-%d.so", temp_dir(), (int)getpid());
    return path;
}

START_TEST(every_truncation_is_refused)
{
    const char *path = damaged_path();
    struct plugin_host *h = plugin_host_create(NULL);
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;
    size_t len;

    unsetenv("FND_TEST_CONSTRUCTOR");
    /* Every length in the headers, then in steps that do not align with anything. */
    for (len = 0; len < good_len; len += len < 2048 ? 1 : 37) {
        write_file(path, good, len, 0755);
        e.msg[0] = '\0';
        ck_assert_int_lt(plugin_file_open(h, path, &f, &e), 0);
        ck_assert_msg(strstr(e.msg, "PLG906") == e.msg, "length %zu: %s", len, e.msg);
    }
    ck_assert_ptr_null(getenv("FND_TEST_CONSTRUCTOR"));
    plugin_host_destroy(h);
}
END_TEST

static void bend(size_t from, size_t to, const char *what)
{
    static const unsigned char masks[] = { 0x01, 0x10, 0x80, 0xff };
    const char *path = damaged_path();
    unsigned refused = 0;
    size_t at;
    size_t i;
    int r;

    for (at = from; at < to; at++) {
        for (i = 0; i < sizeof(masks); i++) {
            good[at] = (char)(good[at] ^ masks[i]);
            write_file(path, good, good_len, 0755);
            r = open_in_child(path);
            ck_assert_msg(r == REFUSED || r == LOADED,
                          "%s: byte %zu ^ 0x%02x ended the process: %d", what, at, masks[i], r);
            refused += r == REFUSED;
            good[at] = (char)(good[at] ^ masks[i]);
        }
    }
    /* Bytes that mean nothing here are free to change; most are not. */
    ck_assert_msg(refused * 4 > (to - from) * sizeof(masks), "%s: only %u refused", what, refused);
}

START_TEST(bent_elf_header)
{
    bend(0, sizeof(Elf64_Ehdr), "ELF header");
}
END_TEST

START_TEST(bent_program_headers)
{
    Elf64_Ehdr eh;

    memcpy(&eh, good, sizeof(eh));
    bend(eh.e_phoff, eh.e_phoff + eh.e_phnum * sizeof(Elf64_Phdr), "program headers");
}
END_TEST

static Elf64_Phdr segment(uint32_t type)
{
    Elf64_Ehdr eh;
    Elf64_Phdr ph;
    unsigned i;

    memcpy(&eh, good, sizeof(eh));
    for (i = 0; i < eh.e_phnum; i++) {
        memcpy(&ph, good + eh.e_phoff + i * sizeof(ph), sizeof(ph));
        if (ph.p_type == type) {
            return ph;
        }
    }
    ck_abort_msg("no segment of type %u", type);
    return (Elf64_Phdr){ 0 };
}

START_TEST(bent_notes)
{
    Elf64_Phdr ph = segment(PT_NOTE);
    const char *path = damaged_path();
    size_t at;
    int r;

    for (at = ph.p_offset; at < ph.p_offset + ph.p_filesz; at++) {
        good[at] = (char)(good[at] ^ 0xff);
        write_file(path, good, good_len, 0755);
        r = open_in_child(path);
        ck_assert_msg(r == REFUSED || r == LOADED, "byte %zu ended the process: %d", at, r);
        good[at] = (char)(good[at] ^ 0xff);
    }
}
END_TEST

START_TEST(bent_dynamic_section)
{
    Elf64_Phdr ph = segment(PT_DYNAMIC);

    bend(ph.p_offset, ph.p_offset + ph.p_filesz, "dynamic section");
}
END_TEST

static Elf64_Shdr *section(uint32_t type, uint64_t flags)
{
    const Elf64_Ehdr *eh = (const Elf64_Ehdr *)(void *)good;
    Elf64_Shdr *sh = (Elf64_Shdr *)(void *)(good + eh->e_shoff);

    for (unsigned i = 1; i < eh->e_shnum; i++) {
        if (sh[i].sh_type == type && sh[i].sh_flags == flags) {
            return &sh[i];
        }
    }
    ck_abort_msg("no section of type %u", type);
    return NULL;
}

/* A second table without symbols would hide those of the first from every rule about symbols. */
static void add_symbol_table(void)
{
    Elf64_Shdr *sh = section(SHT_STRTAB, 0);

    *sh = *section(SHT_DYNSYM, SHF_ALLOC);
    sh->sh_flags = 0;
    sh->sh_size = 0;
}

static void move_symbol_table(void)
{
    section(SHT_DYNSYM, SHF_ALLOC)->sh_flags = 0;
}

static void name_no_symbol(void)
{
    const Elf64_Shdr *sh = section(SHT_RELA, SHF_ALLOC);
    Elf64_Rela *rela = (Elf64_Rela *)(void *)(good + sh->sh_offset);

    while (ELF64_R_SYM(rela->r_info) == 0) {
        rela++;
    }
    rela->r_info = ELF64_R_INFO(0x7fffff0, ELF64_R_TYPE(rela->r_info));
}

static void move_program_headers(void)
{
    const Elf64_Ehdr *eh = (const Elf64_Ehdr *)(void *)good;
    Elf64_Phdr *ph = (Elf64_Phdr *)(void *)(good + eh->e_phoff);
    uint64_t len = eh->e_phnum * sizeof(*ph);

    while (ph->p_type != PT_GNU_EH_FRAME) {
        ph++;
    }
    *ph = (Elf64_Phdr){ .p_type = PT_PHDR, .p_flags = PF_R, .p_offset = eh->e_phoff,
                        .p_vaddr = 0x500000000000, .p_paddr = 0x500000000000, .p_filesz = len,
                        .p_memsz = len, .p_align = 8 };
}

/* As a plugin with an array of 8 GB is built. */
static void ask_for_memory(void)
{
    const Elf64_Ehdr *eh = (const Elf64_Ehdr *)(void *)good;
    Elf64_Phdr *ph = (Elf64_Phdr *)(void *)(good + eh->e_phoff) + eh->e_phnum;

    do {
        ph--;
    } while (ph->p_type != PT_LOAD);
    ph->p_memsz = 8ULL << 30;
}

static const struct {
    void (*bend)(void);
    const char *what;
} lies[] = {
    { add_symbol_table, "two symbol tables" },
    { move_symbol_table, "its dynamic section and its sections disagree" },
    { name_no_symbol, "a relocation points outside of its data" },
    { move_program_headers, "its program headers are not inside a loaded segment" },
    { ask_for_memory, "memory of a segment, got 8589934592 bytes; expected at most 4294967296" },
};

/* What one byte does not bring about. */
START_TEST(headers_that_lie)
{
    const char *path = damaged_path();
    struct fn_error e = ERR_INIT;
    struct plugin_check c = { .path = path, .first = &e };

    lies[_i].bend();
    ck_assert_int_lt(plugin_elf_check(&c, good, good_len), 0);
    ck_assert_msg(strstr(e.msg, lies[_i].what) != NULL, "%s", e.msg);
}
END_TEST

TCase *damage_tests(void)
{
    TCase *t = tcase_create("damage");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 200);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, bent_elf_header);
    tcase_add_test(t, bent_program_headers);
    tcase_add_test(t, bent_notes);
    tcase_add_test(t, bent_dynamic_section);
    tcase_add_loop_test(t, headers_that_lie, 0, (int)(sizeof(lies) / sizeof(lies[0])));
    return t;
}
