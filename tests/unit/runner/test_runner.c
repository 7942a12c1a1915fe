/* The program of the tests of core/runner, and of the tables of its machines. RUNNER_TEST_LOG=1
 * shows the log. */
#include "suites.h"

#include "../lib/machine.h"

#include <base/log.h>
#include <fcntl.h>
#include <runner/runner_int.h>
#include <stdlib.h>
#include <time.h>

static int64_t wall_ns(void)
{
    return 1795234644501000000LL;
}

int main(void)
{
    Suite *s = suite_create("runner");
    SRunner *sr;
    int failed;
    struct log_config log = { FN_LOG_ERROR, LOG_TEXT, 2, wall_ns, NULL };

    if (getenv("RUNNER_TEST_LOG")) {
        log.level = FN_LOG_DEBUG;
    } else {
        log.fd = open("/dev/null", O_WRONLY);
    }
    log_setup(&log);
    suite_add_tcase(s, account_tests());
    suite_add_tcase(s, calls_tests());
    suite_add_tcase(s, slots_tests());
    suite_add_tcase(s, early_tests());
    suite_add_tcase(s, engine_tests());
    suite_add_tcase(s, output_tests());
    suite_add_tcase(s, fair_tests());
    suite_add_tcase(s, freeze_tests());
    suite_add_tcase(s, gate_tests());
    suite_add_tcase(s, neighbours_tests());
    suite_add_tcase(s, phases_tests());
    suite_add_tcase(s, random_tests());
    suite_add_tcase(s, refusals_tests());
    suite_add_tcase(s, exits_tests());
    suite_add_tcase(s, status_tests());
    suite_add_tcase(s, listeners_tests());
    suite_add_tcase(s, logs_tests());
    suite_add_tcase(s, history_tests());
    suite_add_tcase(s, task_tests());
    suite_add_tcase(s, usage_tests());
    suite_add_tcase(s, warm_tests());
    suite_add_tcase(s, machine_tests(&rcall_states, STATE(RC_BODY), STATE(RC_DONE)));
    suite_add_tcase(s, machine_tests(&engine_states, STATE(ENGINE_UP), 0));
    suite_add_tcase(s, machine_tests(&ctr_states, STATE(CTR_IMAGE), STATE(CTR_GONE)));
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
