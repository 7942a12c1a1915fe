/* What can be told from the file alone: imports and variables. */
#include "check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Beyond the rules for every plugin: kinds that run on the loop have no files either. */
static const char on_the_loop[] =
    " fopen fopen64 fdopen fread fwrite fgets fputs fprintf __fprintf_chk printf __printf_chk "
    "vprintf "
    "puts putchar perror open open64 openat read write pread pwrite close unlink rename mkdir stat "
    "opendir readdir syslog __vfprintf_chk vfprintf getenv secure_getenv syscall ";

/* ---- a C++ library in the file (-static-libstdc++), or Rust's -------------------------------- */

/* What libstdc++, libgcc and Rust's std ask the C library for themselves: whether the plugin
 * does so too cannot be seen. Everything else is the plugin's own. */
static const char of_a_runtime[] =
    " abort arc4random clock_gettime close fopen fopen64 fdopen fread fwrite fputs getentropy "
    "getenv getrandom ioctl mprotect nanosleep open open64 poll pthread_create pthread_detach read "
    "secure_getenv setlocale sigaction sigaltstack stat syscall uselocale write dlsym ";

/* Its unwinder asks the dynamic linker where things are. */
static bool has_runtime(const struct symbols *s)
{
    for (size_t i = 0; i < s->n_imports; i++) {
        if (strcmp(s->imports[i].name, "_dl_find_object") == 0 ||
            strcmp(s->imports[i].name, "dl_iterate_phdr") == 0) {
            return true;
        }
    }
    return false;
}

#define NAMES_MAX 8 /* in one sentence */

struct finding {
    bool threads; /* the manifest says that it has some */
    bool runtime; /* the file carries one, see of_a_runtime */
    struct buf text;
    uint32_t n;
    struct buf unsure; /* what the runtime asks for, too */
};

static bool is_one_of(const char *words, const char *name)
{
    char word[128];

    snprintf(word, sizeof(word), " %.120s ", name);
    return strstr(words, word) != NULL;
}

/* ---- what the host does for its plugins ------------------------------------------------------ */

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
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (is_one_of(rules[i].names, name)) {
            return rules[i].why;
        }
    }
    return NULL;
}

static void add_import(struct finding *f, const char *symbol, const char *why)
{
    if (f->threads && strncmp(why, "threads", 7) == 0) {
        return;
    }
    if (f->runtime && is_one_of(of_a_runtime, symbol)) {
        buf_printf(&f->unsure, "%s%s", f->unsure.len ? ", " : "", symbol);
        return;
    }
    buf_printf(&f->text, "%s%s (%s)", f->n ? ", " : "", symbol, why);
    f->n++;
}

static void add_imports(const struct symbols *s, struct finding *f)
{
    for (size_t i = 0; i < s->n_imports; i++) {
        const char *why = why_not(s->imports[i].name);

        if (why) {
            add_import(f, s->imports[i].name, why);
        }
    }
}

static void add_statics(const struct symbols *s, struct finding *f)
{
    for (size_t i = 0; i < s->n_statics; i++) {
        buf_printf(&f->text, "%s%s (%llu bytes)", f->n ? ", " : "", s->statics[i].name,
                   (unsigned long long)s->statics[i].size);
        f->n++;
    }
}

/* The host's copy of a table is as large as the host knows it. */
static bool hears_on_workers(const struct fn_factory *f)
{
    const struct fn_listener_ops *ops = f->ops;

    return strcmp(f->kind, FN_KIND_LISTENER) == 0 &&
           (ops->after_worker || ops->before_change || ops->after_change);
}

static void only_loop(void *ud, const struct fn_factory *f)
{
    bool *only = ud;

    if (hears_on_workers(f) || strcmp(f->kind, FN_KIND_DRIVER) == 0 ||
        strcmp(f->kind, FN_KIND_CONTROL_PLANE) == 0 || strcmp(f->kind, FN_KIND_POOL) == 0 ||
        strcmp(f->kind, FN_KIND_OPERATOR) == 0) {
        *only = false;
    }
}

static void add_loop_imports(const struct symbols *s, struct finding *f)
{
    for (size_t i = 0; i < s->n_imports; i++) {
        if (is_one_of(on_the_loop, s->imports[i].name)) {
            add_import(f, s->imports[i].name, "what runs on the loop has no files and streams");
        }
    }
}

/* atexit() of C; C++ registers what destroys its static objects, which are told as variables. */
static void add_exit_handlers(const struct symbols *s, struct finding *f)
{
    for (size_t i = 0; i < s->n_imports && !f->runtime; i++) {
        if (strcmp(s->imports[i].name, "__cxa_atexit") == 0) {
            add_import(f, "atexit", "a plugin ends with destroy(), not with its process");
        }
    }
}

/* ---- what the file shows, and what it leaves to whoever loads it ----------------------------- */

static void list_names(struct finding *f, const char *name)
{
    if (f->n < NAMES_MAX) {
        buf_printf(&f->text, "%s%s", f->n ? ", " : "", name);
    }
    f->n++;
}

static void judge_exports(const struct symbols *s, struct finding *f)
{
    for (size_t i = 0; i < s->n_exports; i++) {
        if (!is_one_of(" fn_plugin_v1 _init _fini __bss_start _edata _end ", s->exports[i].name)) {
            list_names(f, s->exports[i].name);
        }
    }
    if (f->n > NAMES_MAX) {
        buf_printf(&f->text, " and %u more", f->n - NAMES_MAX);
    }
}

static bool library_has(const char *library, const char *symbol)
{
    void *h = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    bool found = h && dlsym(h, symbol);

    if (h) {
        dlclose(h);
    }
    return found;
}

/* A library that the file does not name is there by luck: the host had loaded it for itself. */
static void judge_undefined(const struct symbols *s, struct finding *f)
{
    for (size_t i = 0; i < s->n_imports; i++) {
        bool found = s->imports[i].weak;

        for (size_t k = 0; k < s->n_needed && !found; k++) {
            found = library_has(s->needed[k], s->imports[i].name);
        }
        if (!found) {
            list_names(f, s->imports[i].name);
        }
    }
    if (f->n > NAMES_MAX) {
        buf_printf(&f->text, " and %u more", f->n - NAMES_MAX);
    }
}

/* Why variables cannot be judged, or NULL: those of a runtime are among them. */
static const char *not_its_own(const struct symbols *s)
{
    if (has_runtime(s)) {
        return "the file carries a C++ library, whose variables are among its own; a build without "
               "-static-libstdc++ can be judged";
    }
    return s->sanitized ? "the file was built with a sanitizer" : NULL;
}

static void conclude(const char *name, const char *rule, const char *expected, struct finding *f,
                     const char *skip, void (*add)(void *ud, const struct report_result *one),
                     void *ud)
{
    struct report_result one = { .verdict = REPORT_PASSED, .factory = "file", .suite = "file" };

    snprintf(one.name, sizeof(one.name), "%s", name);
    snprintf(one.rule, sizeof(one.rule), "%s", rule);
    if (skip) {
        one.verdict = REPORT_SKIPPED;
        snprintf(one.text, sizeof(one.text), "%s", skip);
    } else if (f->n > 0) {
        one.verdict = REPORT_FAILED;
        snprintf(one.text, sizeof(one.text), "%s; expected %s", buf_text(&f->text), expected);
    } else if (f->unsure.len > 0) {
        snprintf(one.text, sizeof(one.text),
                 "not judged, because the runtime in the file asks for them, too: %s",
                 buf_text(&f->unsure));
    }
    add(ud, &one);
    buf_finish(&f->text);
    buf_finish(&f->unsure);
}

void check_lint(const char *path, const struct plugin_file *file,
                void (*add)(void *ud, const struct report_result *one), void *ud)
{
    struct finding imports = { .text = BUF_INIT(900), .unsure = BUF_INIT(900) };
    struct finding statics = { .text = BUF_INIT(900) };
    struct finding exports = { .text = BUF_INIT(900) };
    struct finding missing = { .text = BUF_INIT(900) };
    struct symbols s = { 0 };
    struct fn_error e = ERR_INIT;
    bool loop = true;
    const char *sanitized;

    imports.threads = (plugin_file_manifest(file)->flags & FN_PLUGIN_HAS_THREADS) != 0;
    plugin_file_each(file, only_loop, &loop);
    if (symbols_read(path, &s, &e) < 0) {
        add_import(&imports, path, e.msg);
    }
    imports.runtime = has_runtime(&s);
    add_imports(&s, &imports);
    add_statics(&s, &statics);
    if (loop) {
        add_loop_imports(&s, &imports);
    }
    add_exit_handlers(&s, &imports);
    judge_exports(&s, &exports);
    judge_undefined(&s, &missing);
    sanitized = s.sanitized ? "the file was built with a sanitizer" : NULL;
    conclude("imports",
             "the file imports no function for which plugins must use the host (time, random "
             "numbers, programs, sockets)",
             "the host's tables instead", &imports, sanitized, add, ud);
    conclude("statics", "no variable outlives an instance", "everything to hang off the instance",
             &statics, not_its_own(&s), add, ud);
    conclude("exports", "the file exports fn_plugin_v1() and nothing else",
             "-fvisibility=hidden: two plugins may use the same names", &exports, sanitized, add,
             ud);
    conclude("undefined", "the file names the libraries that it uses",
             "them in a library that the file was linked with", &missing, sanitized, add, ud);
    symbols_finish(&s);
}
