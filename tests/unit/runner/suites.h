#ifndef TESTS_RUNNER_SUITES_H
#define TESTS_RUNNER_SUITES_H

#include <check.h>

TCase *account_tests(void);
TCase *calls_tests(void);
TCase *slots_tests(void);
TCase *early_tests(void);
TCase *engine_tests(void);
TCase *output_tests(void);
TCase *exits_tests(void);
TCase *fair_tests(void);
TCase *freeze_tests(void);
TCase *gate_tests(void);
TCase *neighbours_tests(void);
TCase *phases_tests(void);
TCase *random_tests(void);
TCase *refusals_tests(void);
TCase *status_tests(void);
TCase *listeners_tests(void);
TCase *logs_tests(void);
TCase *history_tests(void);
TCase *task_tests(void);
TCase *usage_tests(void);
TCase *warm_tests(void);

#endif
