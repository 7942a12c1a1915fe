/* Author: the page for function authors, at the root of a node that has the API. */
#ifndef WEB_AUTHOR_H
#define WEB_AUTHOR_H

#include <http/server.h>
#include <web/files.h>

#define AUTHOR_ROUTE "/ui/*file"
/* It may call functions wherever they are. */
#define AUTHOR_CONNECT "'self' http: https:"

/* [any] The file that a request is for, or NULL. At the root only for a browser, which asks for
 * text/html: everybody else gets what Go Fn answers. */
const struct web_file *author_find(const struct http_request *req);

#endif
