#include "suites.h"

int main(void)
{
    SRunner *sr = srunner_create(call_suite());
    int failed;

    srunner_add_suite(sr, header_suite());
    srunner_add_suite(sr, catalog_suite());
    srunner_add_suite(sr, lookups_suite());
    srunner_add_suite(sr, plugin_suite());
    srunner_add_suite(sr, random_suite());
    srunner_add_suite(sr, why_suite());
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
