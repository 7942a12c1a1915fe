/* The program of the tests of core/rpc. */
#include "suites.h"

#include <stdlib.h>

int main(void)
{
    Suite *suite = suite_create("rpc");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, contract_case());
    suite_add_tcase(suite, faults_case());
    suite_add_tcase(suite, protocol_case());
    suite_add_tcase(suite, logs_case());
    suite_add_tcase(suite, raw_case());
    suite_add_tcase(suite, hostile_case());
    add_machines(suite);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
