/* The files that pages share, and the headers of all. */
#include <web/files.h>

#include <base/err.h>
#include <stdio.h>
#include <string.h>

#define SHARED(each)                                                                               \
    each("/ui/style.css", WEB_TYPE_CSS, ui_style_css)                                              \
    each("/ui/dom.js", WEB_TYPE_JS, ui_dom_js)
SHARED(WEB_FILE_DECLARE)

static const struct web_file shared[] = { SHARED(WEB_FILE_ROW) };

const struct web_file *web_file_find(const struct web_file *files, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(path, files[i].path) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

const struct web_file *web_file_shared(const char *path)
{
    return web_file_find(shared, sizeof(shared) / sizeof(shared[0]), path);
}

int web_file_headers(const struct web_file *f, const char *connect, struct headers *to)
{
    static const char *const pairs[][2] = {
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Cross-Origin-Opener-Policy", "same-origin" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
        { "Cache-Control", "no-cache" }, /* the next version of the program has another one */
        { "Vary", "Accept" },
    };
    char policy[256];
    int r = headers_add(to, "Content-Type", f->type);

    snprintf(policy, sizeof(policy),
             "default-src 'none'; script-src 'self'; style-src 'self'; connect-src %s; base-uri "
             "'none'; form-action 'none'; frame-ancestors 'none'",
             connect);
    r = r < 0 ? r : headers_add(to, "Content-Security-Policy", policy);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && r == 0; i++) {
        r = headers_add(to, pairs[i][0], pairs[i][1]);
    }
    return r;
}
