/* The node pool manager's rules, see group.h. */
#include "../lib/machine.h"
#include "group.h"

#include <stdlib.h>

int main(void)
{
    Suite *s = suite_create("npm");
    SRunner *runner;
    int failed;

    suite_add_tcase(s, supply_tests());
    suite_add_tcase(s, drain_tests());
    suite_add_tcase(s, hosts_tests());
    suite_add_tcase(s, machine_tests(&npm_host_states, STATE(NPM_BOOTING) | STATE(NPM_FOREIGN), 0));
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
