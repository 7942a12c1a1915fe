/* The files of core/web/ui, which are part of the program. */
#include <web/author.h>

#include <base/err.h>
#include <string.h>

#define FILES(each)                                                                                \
    each("/", "text/html; charset=utf-8", ui_index_html)                                           \
    each("/ui/style.css", "text/css; charset=utf-8", ui_style_css)                                 \
    each("/ui/app.js", "text/javascript; charset=utf-8", ui_app_js)

#define DECLARE(path, type, name)                                                                  \
    extern const unsigned char name[];                                                             \
    extern const size_t name##_len;
FILES(DECLARE)

static const struct author_file files[] = {
#define ROW(path, type, name) { path, type, name, &name##_len },
    FILES(ROW)
};

const struct author_file *author_find(const struct http_request *req)
{
    const char *accept = headers_get(&req->headers, "Accept");

    if (strcmp(req->path, "/") == 0 && (!accept || !strstr(accept, "text/html"))) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strcmp(req->path, files[i].path) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

/* Scripts and styles come from this node alone, and no other page can have this one in a frame. It
 * may call functions wherever they are. */
int author_headers(const struct author_file *f, struct headers *to)
{
    static const char *const pairs[][2] = {
        { "Content-Security-Policy",
          "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' http: "
          "https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Cache-Control", "no-cache" }, /* the next version of the program has another one */
        { "Vary", "Accept" },
    };
    int r = headers_add(to, "Content-Type", f->type);

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && r == 0; i++) {
        r = headers_add(to, pairs[i][0], pairs[i][1]);
    }
    return r;
}
