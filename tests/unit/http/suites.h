#ifndef TEST_HTTP_SUITES_H
#define TEST_HTTP_SUITES_H

#include <check.h>

void add_cors(Suite *s);
void add_fair(Suite *s);
void add_parse(Suite *s);
void add_refusals(Suite *s);
void add_server(Suite *s);
void add_tls(Suite *s);
void add_fnsock(Suite *s);
void add_fnsock_dir(Suite *s);

#endif
