#include "suites.h"

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
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
