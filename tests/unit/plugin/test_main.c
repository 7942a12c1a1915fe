/* The program of the tests of core/plugin, with a folder for files that they write, gone at its
 * end. */
#include "testing.h"

#include <base/log.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROTATE 8

static char dir[64];

const char *sample_path(const char *name)
{
    static char paths[ROTATE][512];
    static unsigned next;
    char *p = paths[next++ % ROTATE];

    snprintf(p, sizeof(paths[0]), "%s/%s.so", getenv("FND_SAMPLES"), name);
    return p;
}

const char *temp_dir(void)
{
    return dir;
}

void write_file(const char *path, const void *data, size_t len, unsigned mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

char *read_file(const char *path, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *data;

    ck_assert_msg(fd >= 0, "%s", path);
    ck_assert_int_eq(fstat(fd, &st), 0);
    data = malloc((size_t)st.st_size);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(read(fd, data, (size_t)st.st_size), st.st_size);
    close(fd);
    *ret_len = (size_t)st.st_size;
    return data;
}

const char *sample_copy(const char *name)
{
    static char paths[ROTATE][512];
    static unsigned next;
    char *p = paths[next++ % ROTATE];
    size_t len;
    char *data = read_file(sample_path(name), &len);

    snprintf(p, sizeof(paths[0]), "%s/%s.so", dir, name);
    write_file(p, data, len, 0755);
    free(data);
    return p;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int64_t wall_ns(void)
{
    return 0;
}

int main(void)
{
    Suite *s = suite_create("plugin");
    SRunner *r;
    int failed;

    if (!getenv("FND_SAMPLES") || !getenv("FND_PLUGINS") || !getenv("FND_PROBE")) {
        fprintf(stderr, "FND_SAMPLES, FND_PLUGINS, FND_PROBE: expected folders with plugins and the "
                        "trial's program; run ctest\n");
        return EXIT_FAILURE;
    }
    umask(022);
    log_setup(&(struct log_config){ .level = FN_LOG_ERROR, .fd = STDERR_FILENO,
                                    .wall_ns = wall_ns });
    snprintf(dir, sizeof(dir), "/tmp/fnd-plugin-XXXXXX");
    if (!mkdtemp(dir)) {
        perror("mkdtemp");
        return EXIT_FAILURE;
    }
    suite_add_tcase(s, load_tests());
    suite_add_tcase(s, damage_tests());
    suite_add_tcase(s, instance_tests());
    suite_add_tcase(s, shipped_tests());
    suite_add_tcase(s, evil_tests());
    suite_add_tcase(s, sandbox_tests());
    suite_add_tcase(s, sealed_tests());
    suite_add_tcase(s, start_tests());
    suite_add_tcase(s, audit_tests());
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
