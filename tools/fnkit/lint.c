/* What can be told from the file alone: imports and variables. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/* Beyond what core/plugin tells of every plugin: kinds that run on the loop have no files
 * either. */
static const char on_the_loop[] =
    " fopen fopen64 fdopen fread fwrite fgets fputs fprintf __fprintf_chk printf __printf_chk "
    "vprintf "
    "puts putchar perror open open64 openat read write pread pwrite close unlink rename mkdir stat "
    "opendir readdir syslog __vfprintf_chk vfprintf getenv secure_getenv syscall ";

struct finding {
    bool threads; /* the manifest says that it has some */
    struct buf text;
    uint32_t n;
};

static void add_import(void *ud, const char *symbol, const char *why)
{
    struct finding *f = ud;

    if (f->threads && strncmp(why, "threads", 7) == 0) {
        return;
    }
    buf_printf(&f->text, "%s%s (%s)", f->n ? ", " : "", symbol, why);
    f->n++;
}

static void add_static(void *ud, const char *symbol, uint64_t bytes)
{
    struct finding *f = ud;

    buf_printf(&f->text, "%s%s (%llu bytes)", f->n ? ", " : "", symbol, (unsigned long long)bytes);
    f->n++;
}

static void only_loop(void *ud, const struct fn_factory *f)
{
    bool *only = ud;

    if (strcmp(f->kind, FN_KIND_DRIVER) == 0 || strcmp(f->kind, FN_KIND_CONTROL_PLANE) == 0 ||
        strcmp(f->kind, FN_KIND_POOL) == 0) {
        *only = false;
    }
}

static void add_loop_imports(const struct symbols *s, struct finding *f)
{
    char word[128];
    size_t i;

    for (i = 0; i < s->n_imports; i++) {
        snprintf(word, sizeof(word), " %.120s ", s->imports[i].name);
        if (strstr(on_the_loop, word)) {
            add_import(f, s->imports[i].name, "what runs on the loop has no files and streams");
        }
    }
}

/* Why the file cannot be judged by what it imports and keeps, or NULL. A C++ library in the file
 * (-static-libstdc++) shows by what its unwinder asks the dynamic linker. */
static const char *not_its_own(const struct symbols *s)
{
    size_t i;

    for (i = 0; i < s->n_imports; i++) {
        if (strcmp(s->imports[i].name, "_dl_find_object") == 0 ||
            strcmp(s->imports[i].name, "dl_iterate_phdr") == 0) {
            return "the file carries a C++ library; a build without -static-libstdc++ can be "
                   "judged";
        }
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
    }
    add(ud, &one);
    buf_finish(&f->text);
}

void check_lint(const char *path, const struct plugin_file *file,
                void (*add)(void *ud, const struct report_result *one), void *ud)
{
    struct finding imports = { .text = BUF_INIT(900) };
    struct finding statics = { .text = BUF_INIT(900) };
    struct symbols s = { 0 };
    struct fn_error e = ERR_INIT;
    bool loop = true;

    imports.threads = (plugin_file_manifest(file)->flags & FN_PLUGIN_HAS_THREADS) != 0;
    plugin_file_each(file, only_loop, &loop);
    if (symbols_read(path, &s, &e) < 0 || plugin_lint_imports(path, add_import, &imports, &e) < 0 ||
        plugin_lint_statics(path, add_static, &statics, &e) < 0) {
        add_import(&imports, path, e.msg);
    }
    if (loop) {
        add_loop_imports(&s, &imports);
    }
    conclude("imports", "nothing is imported that the host does for its plugins",
             "the host's tables instead", &imports, not_its_own(&s), add, ud);
    conclude("statics", "no variable outlives an instance", "everything to hang off the instance",
             &statics, not_its_own(&s), add, ud);
    symbols_finish(&s);
}
