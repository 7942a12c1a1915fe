/* The program of the tests of core/http over HTTP/1.1 and the function socket, and of the tables
 * of its machines. */
#include "suites.h"

#include "../lib/machine.h"

#include <http/fnsock_int.h>
#include <http/conn.h>

#include <stdlib.h>

int main(void)
{
    Suite *s = suite_create("http");
    SRunner *r;
    int failed;

    add_cors(s);
    add_parse(s);
    add_refusals(s);
    add_server(s);
    add_fair(s);
    add_tls(s);
    add_fnsock(s);
    add_fnsock_dir(s);
    suite_add_tcase(s, machine_tests(&conn_states, STATE(CONN_SHAKE), STATE(CONN_DEAD)));
    suite_add_tcase(s, machine_tests(&exchange_states, STATE(EXCHANGE_NONE), 0));
    suite_add_tcase(s, machine_tests(&fnsock_states, STATE(FNSOCK_WAITING),
                                     STATE(FNSOCK_READY) | STATE(FNSOCK_FAILED)));
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
