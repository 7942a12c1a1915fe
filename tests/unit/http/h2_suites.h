#ifndef TEST_HTTP_H2_SUITES_H
#define TEST_HTTP_H2_SUITES_H

#include "h2_client.h"

#define FIELDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define REQUEST(method, path) \
    ":method", method, ":scheme", "https", ":authority", "a", ":path", path

extern struct http_limits h2_limits; /* before h2_begin() */
void h2_setup(void);
void h2_begin(void); /* starts the server; a test ends with server_stop() */

void add_h2_requests(Suite *s);
void add_h2_limits(Suite *s);
void add_h2_floods(Suite *s);
void add_h2_same(Suite *s);

#endif
