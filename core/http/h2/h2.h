/* HTTP/2 for core/http's server, spoken by libnghttp2: the same requests and answers, many of them
 * at a time on one connection. Whoever makes a server hands it over in http_server_config. */
#ifndef HTTP_H2_H2_H
#define HTTP_H2_H2_H

#include <http/server.h>

extern const struct http_protocol http_h2;

#endif
