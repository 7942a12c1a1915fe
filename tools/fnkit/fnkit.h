/* Fnkit: what a vendor runs against a plugin file, without a node and without our sources.
 *
 * A file that is not trusted yet is opened in a child process only: its constructors run there, and
 * a crash, an exit() or an endless loop is a sentence and an exit code. Exit codes: 0, 1 the plugin
 * breaks a rule, 64 usage, 69 something needed is not there, 78 the file is refused. */
#ifndef FNKIT_FNKIT_H
#define FNKIT_FNKIT_H

#include <base/buf.h>
#include <plugin/plugin.h>

#define FNKIT_OK 0
#define FNKIT_BROKEN 1
#define FNKIT_USAGE 64
#define FNKIT_UNAVAILABLE 69
#define FNKIT_REFUSED 78

#define FNKIT_LOAD_TIMEOUT_MS 4000

/* Commands: argv[0] is the command's own name. They return an exit code. */
int fnkit_inspect(int argc, char **argv);
int fnkit_check(int argc, char **argv);
int fnkit_sim(int argc, char **argv);

/* ---- child.c: work that may crash or hang ---------------------------------------------------- */

/* Runs work(ud) in a child and returns its result (0..255), or -1 after a crash, an exit() inside
 * of it or `timeout_ms`; then *why has a sentence "PLG911 ...". `path` is what the sentence is
 * about. Standard streams are the parent's. */
int child_run(int (*work)(void *ud), void *ud, const char *path, int timeout_ms, char *why,
              size_t cap);
/* `code`, or with a sentence FNKIT_UNAVAILABLE where what was printed did not arrive. */
int fnkit_written(int code);
/* The sentence alone: got < 0 after a timeout, else what waitpid() said. */
void child_tell(int got, int status, const char *path, int timeout_ms, char *why, size_t cap);

/* ---- symbols.c: what a file imports and which variables it keeps ----------------------------- */

struct symbol {
    const char *name; /* borrowed from the table */
    uint64_t size;
    const char *section; /* "", ".data", ".bss" ... */
    bool weak;
};

struct symbols {
    char *image; /* the file */
    size_t image_len;
    struct symbol *imports; /* undefined dynamic symbols, without versions, sorted */
    size_t n_imports;
    struct symbol *exports;
    size_t n_exports;
    struct symbol
        *variables; /* writable objects but for the compiler's own; needs a symbol table */
    size_t n_variables;
    struct symbol *statics; /* what outlives an instance; of a stripped file its sections */
    size_t n_statics;
    const char **needed; /* names of libraries */
    size_t n_needed;
    bool stripped;           /* no symbol table: variables are not known by name */
    uint64_t writable_bytes; /* .data, .bss, .tdata, .tbss */
    bool sanitized;          /* built with a sanitizer, which adds imports and variables */
};

/* Reads a file that plugin_file_check() accepted. 0 or FN_E_*. */
int symbols_read(const char *path, struct symbols *ret, struct fn_error *reterr);
void symbols_finish(struct symbols *s);

/* "ab12..." of the file's bytes, 65 characters with the end. */
int file_sha256(const char *path, char ret_hex[65], struct fn_error *reterr);

#endif
