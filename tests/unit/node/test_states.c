/* The tables of states of the room. */
#include "../lib/machine.h"

#include <node/generation.h>

#include <stdlib.h>

int main(void)
{
    Suite *s = suite_create("node_states");
    SRunner *r;
    int failed;

    suite_add_tcase(s, machine_tests(&generation_states, STATE(GENERATION_MADE),
                                     STATE(GENERATION_ENDING)));
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
