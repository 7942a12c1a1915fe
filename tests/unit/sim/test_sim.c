/* The simulated host. Plugins of the tests are in FND_SAMPLES, shipped ones in FND_PLUGINS. */
#include "suites.h"

#include <base/log.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t wall_ns(void)
{
    return 0;
}

int main(void)
{
    Suite *s = suite_create("sim");
    SRunner *r;
    int failed;

    umask(022);
    log_setup(&(struct log_config){ .level = FN_LOG_ERROR, .fd = STDERR_FILENO,
                                    .wall_ns = wall_ns });
    suite_add_tcase(s, env_tests());
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
