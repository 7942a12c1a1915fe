#ifndef TESTS_LB_SUITES_H
#define TESTS_LB_SUITES_H

#include <check.h>

Suite *call_suite(void);
Suite *header_suite(void);
Suite *catalog_suite(void);
Suite *follow_suite(void);
Suite *lookups_suite(void);
Suite *plugin_suite(void);
Suite *random_suite(void);
Suite *why_suite(void);
Suite *list_suite(void);
Suite *view_suite(void);
Suite *traced_suite(void);
Suite *lost_suite(void);

#endif
