/* The simulated host. Plugins of the tests are in FND_SAMPLES, shipped ones in FND_PLUGINS. */
#include "suites.h"

#include <base/log.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static const char *join(const char *folder, const char *name, const char *suffix)
{
    static char texts[4][512];
    static unsigned next;
    char *t = texts[next++ % 4];

    snprintf(t, sizeof(texts[0]), "%s/%s%s", folder, name, suffix);
    return t;
}

const char *sample(const char *name)
{
    return join(getenv("FND_SAMPLES"), name, ".so");
}

const char *shipped(const char *name)
{
    return join(getenv("FND_PLUGINS"), name, ".so");
}

const char *scenario_file(const char *name)
{
    return join(getenv("FND_SCENARIOS"), name, ".yaml");
}

const char *scenario_text(const char *text)
{
    const char *path = join(dir, "s", ".yaml");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static int64_t wall_ns(void)
{
    return 0;
}

int main(void)
{
    Suite *s = suite_create("sim");
    SRunner *r;
    int failed;

    if (!getenv("FND_SAMPLES") || !getenv("FND_PLUGINS") || !getenv("FND_SCENARIOS")) {
        fprintf(stderr, "FND_SAMPLES, FND_PLUGINS, FND_SCENARIOS: expected folders; run ctest\n");
        return EXIT_FAILURE;
    }
    umask(022);
    log_setup(&(struct log_config){ .level = FN_LOG_ERROR, .fd = STDERR_FILENO,
                                    .wall_ns = wall_ns });
    snprintf(dir, sizeof(dir), "/tmp/fnd-sim-XXXXXX");
    if (!mkdtemp(dir)) {
        perror("mkdtemp");
        return EXIT_FAILURE;
    }
    suite_add_tcase(s, env_tests());
    suite_add_tcase(s, script_tests());
    suite_add_tcase(s, model_tests());
    suite_add_tcase(s, scenario_tests());
    suite_add_tcase(s, cluster_tests());
    suite_add_tcase(s, tripwire_tests());
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    unlink(join(dir, "s", ".yaml"));
    rmdir(dir);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
