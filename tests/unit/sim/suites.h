#ifndef TESTS_SIM_SUITES_H
#define TESTS_SIM_SUITES_H

#include <check.h>

TCase *env_tests(void);

#endif
