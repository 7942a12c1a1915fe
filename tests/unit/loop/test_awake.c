/* When processors are kept awake, with a file in the place of the device. */
#include <base/env.h>
#include <base/log.h>
#include <check.h>
#include <loop/awake.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/fnd-awake-XXXXXX";
static char driver[] = "/tmp/fnd-driver-XXXXXX";
static struct awake a;
static uint64_t waits;
static int64_t now_ns;

static void setup(void)
{
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    close(fd);
    fd = mkstemp(driver);
    ck_assert_int_ge(fd, 0);
    close(fd);
    a = awake_make("true", path, "/nonexistent/current_driver");
    waits = 0;
    now_ns = ENV_S;
    ck_assert(!awake_look(&a, waits, now_ns));
}

static void teardown(void)
{
    awake_finish(&a);
    unlink(path);
    unlink(driver);
}

/* A second with so many waits. */
static bool second(uint64_t n)
{
    waits += n;
    now_ns += ENV_S;
    return awake_look(&a, waits, now_ns);
}

START_TEST(while_the_loop_is_woken_often)
{
    unsigned char written[8];
    FILE *f;

    ck_assert(!second(10));
    ck_assert(!second(AWAKE_WAITS - 1));
    ck_assert(second(AWAKE_WAITS));
    f = fopen(path, "r");
    ck_assert_uint_eq(fread(written, 1, sizeof(written), f), 4);
    ck_assert_uint_eq(written[0] | written[1] | written[2] | written[3], 0);
    fclose(f);
    for (int i = 1; i < AWAKE_LINGER_NS / ENV_S; i++) { /* not on and off all the time */
        ck_assert(second(0));
    }
    ck_assert(second(AWAKE_WAITS));
    for (int i = 1; i < AWAKE_LINGER_NS / ENV_S; i++) {
        ck_assert(second(AWAKE_WAITS - 1));
    }
    ck_assert(!second(AWAKE_WAITS - 1));
    ck_assert(second(100 * AWAKE_WAITS));
}
END_TEST

START_TEST(without_the_device)
{
    a.device = "/nonexistent/cpu_dma_latency";
    ck_assert(!second(AWAKE_WAITS));
    ck_assert(a.refused);
    a.device = path;
    ck_assert(!second(AWAKE_WAITS));
}
END_TEST

static void idle_driver(const char *name)
{
    FILE *f = fopen(driver, "w");

    fputs(name, f);
    fclose(f);
}

START_TEST(by_itself_on_virtual_machines)
{
    uint64_t processors = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);

    idle_driver("haltpoll\n");
    a = awake_make("auto", path, driver);
    ck_assert_str_eq(a.device, path);
    ck_assert(!awake_look(&a, waits, now_ns));
    ck_assert(!second(AWAKE_WAITS * processors - 1));
    ck_assert(second(AWAKE_WAITS * processors));
    awake_finish(&a);
    ck_assert_ptr_null(awake_make("false", path, driver).device);
    ck_assert_ptr_null(awake_make("auto", "/nonexistent/cpu_dma_latency", driver).device);
    idle_driver("intel_idle\n");
    ck_assert_ptr_null(awake_make("auto", path, driver).device);
    ck_assert_ptr_null(awake_make("auto", path, "/nonexistent/current_driver").device);
}
END_TEST

START_TEST(a_late_look)
{
    waits += 3 * AWAKE_WAITS;
    now_ns += 4 * ENV_S;
    ck_assert(!awake_look(&a, waits, now_ns));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("awake");
    TCase *t = tcase_create("awake");
    SRunner *runner;
    int failed;

    log_set_level(FN_LOG_ERROR);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, while_the_loop_is_woken_often);
    tcase_add_test(t, without_the_device);
    tcase_add_test(t, by_itself_on_virtual_machines);
    tcase_add_test(t, a_late_look);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
