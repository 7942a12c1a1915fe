/* Web: the HTTP surface of a node: service pages, calls handed to the load balancer, and requests
 * handed to the API.
 *
 * Translates between core/http's requests and theirs, and counts requests. [loop] */
#ifndef WEB_WEB_H
#define WEB_WEB_H

#include <api/api.h>
#include <http/cors.h>
#include <http/server.h>
#include <lb/lb.h>

struct web;

struct web_config {
    const char *listen;
    struct http_limits limits;
    struct cors cors;       /* its texts are borrowed until the next web_set_options() */
    struct budget *bodies;
    struct net_identity *identity; /* NULL: plain HTTP; the server takes a ref */
    struct fn_strlist refuse_interfaces; /* see net_came_by(); copied */
    struct lb *lb;          /* NULL: the node takes no calls */
    struct api *api;        /* NULL: the node has no API */
    const struct api_options *api_options; /* borrowed until the next web_set_options() */
    /* Why GET /ready is 503, or NULL; `text` may hold the sentence. */
    const char *(*unready)(void *ud, char *text, size_t cap);
    void *ud;
};

int web_create(struct loop *loop, const struct web_config *config, struct web **ret,
               struct fn_error *reterr);
/* From now on; the cors also for answers under way. */
void web_set_options(struct web *w, const struct http_limits *limits, const struct cors *cors,
                     const struct api_options *api);
struct http_server *web_server(const struct web *w); /* its connections, its port, its drain */
void web_destroy(struct web *w); /* NULL ok */

#endif
