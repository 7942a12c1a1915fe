/* What the files of test_api share. */
#ifndef TEST_DRIVER_API_SUITES_H
#define TEST_DRIVER_API_SUITES_H

#include <check.h>
#include <fn/driver.h>

extern struct fn_error err;
void clear(void); /* err */

/* A task that every rule lets pass. */
struct fn_task base_task(void);

TCase *answers_case(void); /* api_answers.c */
TCase *process_case(void); /* api_process.c */

#endif
