/* The program of the tests of core/lb, and of its machine's table. */
#include "suites.h"

#include "../lib/machine.h"

#include <lb/lb_int.h>

static Suite *states_suite(void)
{
    Suite *s = suite_create("states");

    suite_add_tcase(s, machine_tests(&lb_states, STATE(LB_RECEIVED), STATE(LB_DONE)));
    return s;
}

int main(void)
{
    SRunner *sr = srunner_create(call_suite());
    int failed;

    srunner_add_suite(sr, header_suite());
    srunner_add_suite(sr, catalog_suite());
    srunner_add_suite(sr, follow_suite());
    srunner_add_suite(sr, lookups_suite());
    srunner_add_suite(sr, plugin_suite());
    srunner_add_suite(sr, random_suite());
    srunner_add_suite(sr, why_suite());
    srunner_add_suite(sr, list_suite());
    srunner_add_suite(sr, view_suite());
    srunner_add_suite(sr, traced_suite());
    srunner_add_suite(sr, lost_suite());
    srunner_add_suite(sr, states_suite());
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
