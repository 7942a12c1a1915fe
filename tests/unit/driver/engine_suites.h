/* The cases of test_engine that are files of their own. */
#ifndef TEST_DRIVER_ENGINE_SUITES_H
#define TEST_DRIVER_ENGINE_SUITES_H

#include <check.h>

TCase *network_case(void); /* engine_network.c */
TCase *output_case(void);  /* engine_output.c */

#endif
