/* Manage: who may use the API of a node, by where a request comes from. [loop] */
#ifndef WEB_MANAGE_H
#define WEB_MANAGE_H

#include <api/api.h>
#include <http/cors.h>
#include <http/server.h>

struct manage_rules {
    const struct api_options *options;
    const struct cors *cors;
    bool tls; /* the server's name is what its certificate proves */
};

/* 0, or FN_E_PERMISSION with 403: a client from elsewhere, or a page of another origin, whose
 * browser sends what it is told from any network it is in; so does one of a page whose name was
 * made to lead here (DNS rebinding), which is of one origin with this node then. */
int manage_check(const struct manage_rules *m, const struct http_request *req,
                 struct fn_error *reterr);

#endif
