/* Manage: who may use the API of a node, by where a request comes from. [loop] */
#ifndef WEB_MANAGE_H
#define WEB_MANAGE_H

#include <http/cors.h>
#include <http/server.h>

/* clients: texts of networks, n 0 = all. 0, or FN_E_PERMISSION with 403: a client from elsewhere,
 * or a page of another origin, whose browser sends what it is told from any network it is in. */
int manage_check(const struct fn_strlist *clients, const struct cors *cors,
                 const struct http_request *req, struct fn_error *reterr);

#endif
