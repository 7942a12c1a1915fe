/* Files: pages for browsers, which are part of the program. [any] */
#ifndef WEB_FILES_H
#define WEB_FILES_H

#include <base/headers.h>

struct web_file {
    const char *path;
    const char *type;
    const unsigned char *data;
    const size_t *len;
};

/* For the constants of fnd_embed(): rows of (path, type, name), as WEB_FILES(rows, files). */
#define WEB_FILE_DECLARE(path, type, name)                                                         \
    extern const unsigned char name[];                                                             \
    extern const size_t name##_len;
#define WEB_FILE_ROW(path, type, name) { path, type, name, &name##_len },

#define WEB_TYPE_HTML "text/html; charset=utf-8"
#define WEB_TYPE_CSS  "text/css; charset=utf-8"
#define WEB_TYPE_JS   "text/javascript; charset=utf-8"

/* NULL: none has this path. */
const struct web_file *web_file_find(const struct web_file *files, size_t n, const char *path);
/* What the pages of a node have in common: a style sheet, a module. NULL: no such file. */
const struct web_file *web_file_shared(const char *path);
/* The headers of its answer: what a browser is to keep it from. Scripts and styles come from this
 * node alone, and no other page can have this one in a frame; connect: what it may call.
 * FN_E_EXHAUSTED. */
int web_file_headers(const struct web_file *f, const char *connect, struct headers *to);

#endif
