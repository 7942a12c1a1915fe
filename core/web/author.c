/* The files of core/web/ui that are this page's alone. */
#include <web/author.h>

#include <string.h>

#define FILES(each)                                                                                \
    each("/", WEB_TYPE_HTML, ui_index_html)                                                        \
    each("/ui/app.js", WEB_TYPE_JS, ui_app_js)
FILES(WEB_FILE_DECLARE)

static const struct web_file files[] = { FILES(WEB_FILE_ROW) };

const struct web_file *author_find(const struct http_request *req)
{
    const char *accept = headers_get(&req->headers, "Accept");
    const struct web_file *f;

    if (strcmp(req->path, "/") == 0 && (!accept || !strstr(accept, "text/html"))) {
        return NULL;
    }
    f = web_file_find(files, sizeof(files) / sizeof(files[0]), req->path);
    return f ? f : web_file_shared(req->path);
}
