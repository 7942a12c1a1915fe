/* The audit of the process: what the host itself uses is no plugin's doing. */
#include "testing.h"

#include <base/buf.h>
#include <base/metric.h>
#include <pthread.h>
#include <string.h>

#define THREADS_N 80u /* more than what moves without plugins */

static pthread_t threads[THREADS_N];
static pthread_barrier_t all_there, go;

static void *wait_for_go(void *ud)
{
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&go);
    return ud;
}

static void threads_begin(void)
{
    pthread_attr_t attr;

    pthread_barrier_init(&all_there, NULL, THREADS_N + 1);
    pthread_barrier_init(&go, NULL, THREADS_N + 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    for (uint32_t i = 0; i < THREADS_N; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], &attr, wait_for_go, NULL), 0);
    }
    pthread_attr_destroy(&attr);
    pthread_barrier_wait(&all_there);
}

static void threads_end(void)
{
    pthread_barrier_wait(&go);
    for (uint32_t i = 0; i < THREADS_N; i++) {
        pthread_join(threads[i], NULL);
    }
}

static bool is_on_page(const char *line)
{
    struct buf out = BUF_INIT(0);
    bool there;

    ck_assert_int_eq(metric_print(&out), 0);
    there = strstr(buf_text(&out), line) != NULL;
    buf_finish(&out);
    return there;
}

static bool is_told(void)
{
    return is_on_page("fn_plugin_audit_alarms{what=\"threads\"} 1");
}

/* A manager of 100 groups has 68 threads for its control planes: that was told as a plugin's
 * doing. */
START_TEST(the_threads_of_the_hosts_lanes_are_no_alarm)
{
    struct fake_env *f = fake_env_create();
    struct plugin_host *h = plugin_host_create(&f->env);
    struct plugin_audit *a;

    a = plugin_audit_create(h, &(struct plugin_own){ .threads = 0 }, 16);
    ck_assert_ptr_nonnull(a);
    threads_begin();
    plugin_audit_process(a, NULL, &(struct plugin_own){ .threads = THREADS_N });
    ck_assert(!is_told());
    plugin_audit_process(a, NULL, &(struct plugin_own){ .threads = 0 });
    ck_assert(is_told());
    threads_end();
    plugin_audit_destroy(a);
    plugin_host_destroy(h);
    fake_env_destroy(f);
}
END_TEST

/* increase() of a counter that appears with 1 is 0: no alert would hear of the first alarm. */
START_TEST(alarms_are_counted_from_0_on)
{
    struct fake_env *f = fake_env_create();
    struct plugin_host *h = plugin_host_create(&f->env);
    struct plugin_audit *a = plugin_audit_create(h, &(struct plugin_own){ .threads = 0 }, 16);

    ck_assert_ptr_nonnull(a);
    ck_assert(is_on_page("fn_plugin_audit_alarms{what=\"umask\"} 0\n"));
    ck_assert(is_on_page("fn_plugin_audit_alarms{what=\"resource-limit\"} 0\n"));
    ck_assert(is_on_page("fn_plugin_audit_alarms{what=\"fork\"} 0\n"));
    plugin_audit_destroy(a);
    plugin_host_destroy(h);
    fake_env_destroy(f);
}
END_TEST

static __attribute__((noinline)) void leave_bytes_on_the_stack(void)
{
    volatile unsigned char bytes[4096];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 0xff;
    }
}

/* Of the bytes of a mask the kernel writes the first eight; the others were those of the stack. */
START_TEST(a_mask_that_nobody_changed_is_no_alarm)
{
    struct fake_env *f = fake_env_create();
    struct plugin_host *h = plugin_host_create(&f->env);
    struct plugin_audit *a = plugin_audit_create(h, &(struct plugin_own){ .threads = 0 }, 16);

    ck_assert_ptr_nonnull(a);
    leave_bytes_on_the_stack();
    plugin_audit_thread(a);
    ck_assert(is_on_page("fn_plugin_audit_alarms{what=\"signal-mask\"} 0\n"));
    plugin_audit_destroy(a);
    plugin_host_destroy(h);
    fake_env_destroy(f);
}
END_TEST

TCase *audit_tests(void)
{
    TCase *t = tcase_create("audit");

    tcase_add_test(t, the_threads_of_the_hosts_lanes_are_no_alarm);
    tcase_add_test(t, alarms_are_counted_from_0_on);
    tcase_add_test(t, a_mask_that_nobody_changed_is_no_alarm);
    return t;
}
