/* What a plugin should not do, read from its file: no rule of the loader, advice of the kit. */
#include <plugin/elf_int.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 256
#define SYMBOLS_MAX (1u << 20)

struct lint_rule {
    const char *why;
    const char *names; /* with a blank before and behind each */
};

static const struct lint_rule rules[] = {
    { "time comes from host->clock",
      " clock_gettime gettimeofday time times clock timespec_get clock_getres " },
    { "waiting is done with host->timer; a plugin on the loop never blocks",
      " sleep usleep nanosleep clock_nanosleep alarm setitimer timer_create timer_settime poll "
      "ppoll "
      "select pselect epoll_create epoll_create1 epoll_wait pause sigwait " },
    { "chance comes from host->rng",
      " rand rand_r srand random srandom random_r drand48 lrand48 mrand48 getrandom getentropy "
      "arc4random " },
    { "the network is reached through fn.http",
      " socket connect bind listen accept accept4 send sendto sendmsg recv recvfrom recvmsg "
      "getaddrinfo gethostbyname " },
    { "threads belong to the host", " pthread_create thrd_create pthread_detach pthread_exit " },
    { "programs are run through fn.exec or fn.proc",
      " fork vfork clone posix_spawn posix_spawnp execl execle execlp execv execve execvp execvpe "
      "system popen wait waitpid kill " },
    { "a plugin never ends its process", " exit _exit _Exit quick_exit abort atexit on_exit " },
    { "the state of the process belongs to the host",
      " chdir fchdir chroot umask setlocale uselocale setenv putenv unsetenv clearenv setrlimit "
      "prctl setuid setgid dup2 fesetround tzset " },
    { "signals belong to the host",
      " signal sigaction sigprocmask pthread_sigmask sigaltstack raise " },
    { "code of others comes through the host", " dlopen dlmopen dlsym mprotect " },
    { "a jump must not leave a call", " longjmp siglongjmp __longjmp_chk " },
};

static const char *why_not(const char *name)
{
    char word[NAME_BYTES + 2];

    snprintf(word, sizeof(word), " %s ", name);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (strstr(rules[i].names, word)) {
            return rules[i].why;
        }
    }
    return NULL;
}

/* An opened and judged file. */
static int lint_open(const char *path, struct elf **ret, struct fn_error *reterr)
{
    struct plugin_check c = { .path = path, .first = reterr };
    struct elf *e = calloc(1, sizeof(*e));
    struct stat st;
    int r = FN_E_INVALID;

    if (!e) {
        return err_set(reterr, FN_E_EXHAUSTED, "PLG901 %s: no memory to read it", path);
    }
    e->c = &c;
    e->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (e->fd < 0 || fstat(e->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        err_set(reterr, r, "PLG901 %s: cannot be read; expected a shared object", path);
    } else {
        e->size = (uint64_t)st.st_size;
        r = plugin_elf_open(e);
    }
    e->c = NULL;
    if (r < 0) {
        if (e->fd >= 0) {
            close(e->fd);
        }
        free(e);
        return r;
    }
    *ret = e;
    return 0;
}

static void lint_close(struct elf *e)
{
    close(e->fd);
    free(e);
}

static const Elf64_Shdr *find_section(const struct elf *e, uint32_t type)
{
    for (uint32_t i = 0; i < e->eh.e_shnum; i++) {
        if (e->sh[i].sh_type == type) {
            return &e->sh[i];
        }
    }
    return NULL;
}

/* Calls cb for each symbol of the table with its name. */
static void each_symbol(const struct elf *e, const Elf64_Shdr *table,
                        void (*cb)(void *ud, const Elf64_Sym *sym, const char *name), void *ud)
{
    const Elf64_Shdr *strings;
    Elf64_Sym sym;
    char name[NAME_BYTES];

    if (!table || table->sh_link >= e->eh.e_shnum || table->sh_size / sizeof(sym) > SYMBOLS_MAX) {
        return;
    }
    strings = &e->sh[table->sh_link];
    for (uint64_t i = 0; i < table->sh_size / sizeof(sym); i++) {
        if (!elf_read_at(e, table->sh_offset + i * sizeof(sym), &sym, sizeof(sym))) {
            return;
        }
        elf_text_at(e, strings->sh_offset + sym.st_name, strings->sh_offset + strings->sh_size,
                    name, sizeof(name));
        cb(ud, &sym, name);
    }
}

/* ---- imports --------------------------------------------------------------------------------- */

struct imports {
    void (*cb)(void *ud, const char *symbol, const char *why);
    void *ud;
};

static void judge_import(void *ud, const Elf64_Sym *sym, const char *name)
{
    const struct imports *i = ud;
    const char *why = sym->st_shndx == SHN_UNDEF ? why_not(name) : NULL;

    if (why) {
        i->cb(i->ud, name, why);
    }
}

int plugin_lint_imports(const char *path, void (*cb)(void *ud, const char *symbol, const char *why),
                        void *ud, struct fn_error *reterr)
{
    struct imports i = { cb, ud };
    struct elf *e;
    int r = lint_open(path, &e, reterr);

    if (r < 0) {
        return r;
    }
    each_symbol(e, find_section(e, SHT_DYNSYM), judge_import, &i);
    lint_close(e);
    return 0;
}

/* ---- statics --------------------------------------------------------------------------------- */

struct statics {
    const struct elf *e;
    void (*cb)(void *ud, const char *symbol, uint64_t bytes);
    void *ud;
};

/* Of the compiler's own start files. */
static bool is_of_crt(const char *name)
{
    return strncmp(name, "completed.", 10) == 0 || strcmp(name, "__dso_handle") == 0 ||
           strcmp(name, "__TMC_END__") == 0 ||
           strncmp(name, "DW.ref.", 7) == 0; /* C++: where an exception's handler is found */
}

static bool stays_writable(const struct elf *e, const Elf64_Shdr *sh)
{
    if (!(sh->sh_flags & SHF_WRITE) || !(sh->sh_flags & SHF_ALLOC) ||
        (sh->sh_type != SHT_PROGBITS && sh->sh_type != SHT_NOBITS)) {
        return false;
    }
    for (uint32_t i = 0; i < e->eh.e_phnum; i++) {
        const Elf64_Phdr *ph = &e->ph[i];

        if (ph->p_type == PT_GNU_RELRO && sh->sh_addr >= ph->p_vaddr &&
            sh->sh_addr + sh->sh_size <= ph->p_vaddr + ph->p_memsz) {
            return false;
        }
    }
    return true;
}

static void judge_static(void *ud, const Elf64_Sym *sym, const char *name)
{
    const struct statics *s = ud;
    unsigned type = ELF64_ST_TYPE(sym->st_info);

    if ((type == STT_OBJECT || type == STT_TLS) && sym->st_shndx != SHN_UNDEF &&
        sym->st_shndx < s->e->eh.e_shnum && sym->st_size > 0 &&
        stays_writable(s->e, &s->e->sh[sym->st_shndx]) && !is_of_crt(name)) {
        s->cb(s->ud, name, sym->st_size);
    }
}

/* Without names only sizes are to be had. The start files take up to 16 bytes of both. */
static void judge_sections(const struct elf *e, void (*cb)(void *, const char *, uint64_t),
                           void *ud)
{
    for (uint32_t i = 0; i < e->eh.e_shnum; i++) {
        const Elf64_Shdr *sh = &e->sh[i];
        bool got = sh->sh_addr <= elf_value(e, DT_PLTGOT) &&
                   elf_value(e, DT_PLTGOT) < sh->sh_addr + sh->sh_size;

        if (stays_writable(e, sh) && !got && sh->sh_size > 16) {
            cb(ud, sh->sh_type == SHT_NOBITS ? "(zeroed data)" : "(data)", sh->sh_size);
        }
    }
}

int plugin_lint_statics(const char *path, void (*cb)(void *ud, const char *symbol, uint64_t bytes),
                        void *ud, struct fn_error *reterr)
{
    struct elf *e;
    struct statics s = { NULL, cb, ud };
    const Elf64_Shdr *names;
    int r = lint_open(path, &e, reterr);

    if (r < 0) {
        return r;
    }
    s.e = e;
    names = find_section(e, SHT_SYMTAB);
    if (names) {
        each_symbol(e, names, judge_static, &s);
    } else {
        judge_sections(e, cb, ud);
    }
    lint_close(e);
    return 0;
}
