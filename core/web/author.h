/* Author: the page for function authors, at the root of a node that has the API. */
#ifndef WEB_AUTHOR_H
#define WEB_AUTHOR_H

#include <http/server.h>

#define AUTHOR_ROUTE "/ui/*file"

struct author_file {
    const char *path;
    const char *type;
    const unsigned char *data;
    const size_t *len;
};

/* [any] The file that a request is for, or NULL. At the root only for a browser, which asks for
 * text/html: everybody else gets what Go Fn answers. */
const struct author_file *author_find(const struct http_request *req);

/* [loop] The headers of its answer: what a browser is to keep it from. FN_E_EXHAUSTED. */
int author_headers(const struct author_file *f, struct headers *to);

#endif
