/* Signals to a running loop: which are told, which mean nothing, and how a second one or a
 * deadline ends a process that is stuck. */
#include <check.h>
#include <loop/signals.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ABOVE_PID 4711

/* Each test is a process of its own: there is one thread of signals. */
static struct loop *loop;
static atomic_int told_signo, told_pid; /* a signal is no order of memory */
static sem_t told;

static void on_told(void *ud, int signo, int pid)
{
    (void)ud;
    told_signo = signo;
    told_pid = pid;
    sem_post(&told);
}

static void on_overdue(void *ud, int signo)
{
    (void)ud;
    _exit(signo ? 3 : 4);
}

static void setup(void)
{
    const struct signals_config c = { .told = on_told,
                                      .overdue = on_overdue,
                                      .above_pid = ABOVE_PID };

    sem_init(&told, 0, 0);
    ck_assert_int_eq(signals_begin(&c, NULL), 0);
    ck_assert_int_eq(loop_create(NULL, &loop, NULL), 0);
}

static void teardown(void)
{
    loop_destroy(loop);
}

static void note_and_stop(void *ud, int signo)
{
    *(int *)ud = signo;
    loop_stop(loop);
}

START_TEST(the_loop_hears_of_signals_also_of_earlier_ones)
{
    int seen = 0;

    kill(getpid(), SIGHUP);
    ck_assert_int_eq(signals_watch(loop, note_and_stop, &seen, NULL), 0);
    loop_run(loop);
    ck_assert_int_eq(seen, SIGHUP);
    kill(getpid(), SIGTERM);
    loop_run(loop);
    ck_assert_int_eq(seen, SIGTERM);
}
END_TEST

static void count_and_stop(void *ud, int signo)
{
    *(int *)ud += signo != SIGHUP;
    loop_stop(loop);
}

static void stop_from(int pid, int signo)
{
    siginfo_t info = { .si_signo = signo, .si_code = SI_USER };

    info.si_pid = pid;
    ck_assert_int_eq(syscall(SYS_rt_sigqueueinfo, getpid(), signo, &info), 0);
    kill(getpid(), SIGRTMIN + 1); /* told behind it */
    sem_wait(&told);
}

/* The second one cut the calls of a drain. */
START_TEST(what_a_group_got_and_the_process_above_passes_on_is_one)
{
    int stops = 0, signo = _i < 2 ? SIGTERM : SIGUSR2;
    bool above_first = _i % 2 == 0;

    ck_assert_int_eq(signals_watch(loop, count_and_stop, &stops, NULL), 0);
    stop_from(above_first ? ABOVE_PID : 1, signo);
    loop_run(loop);
    ck_assert_int_eq(stops, 1);
    stop_from(above_first ? 1 : ABOVE_PID, signo);
    kill(getpid(), SIGHUP);
    loop_run(loop);
    ck_assert_int_eq(stops, 1);
    stop_from(ABOVE_PID, signo);
    loop_run(loop);
    ck_assert_int_eq(stops, 2);
}
END_TEST

/* Each of them ended the process. */
START_TEST(signals_without_meaning_are_told_and_do_nothing)
{
    const int all[] = { SIGUSR1, SIGALRM, SIGVTALRM, SIGPROF, SIGPOLL,
                        SIGXCPU, SIGXFSZ, SIGSTKFLT, SIGPWR,  SIGRTMIN + 1 };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        kill(getpid(), all[i]);
        sem_wait(&told);
        ck_assert_int_eq(told_signo, all[i]);
        ck_assert_int_eq(told_pid, getpid());
        raise(all[i]); /* to this thread: stays where it is */
    }
    alarm(1);
    sem_wait(&told);
    ck_assert_int_eq(told_signo, SIGALRM);
    ck_assert_int_eq(told_pid, 0);
}
END_TEST

static int second;

static void hang(struct env_task *t)
{
    (void)t;
    kill(getpid(), SIGTERM);
    usleep(1000); /* else both may be one */
    kill(getpid(), second);
    for (;;) {
        pause();
    }
}

static void ignore(void *ud, int signo)
{
    (void)ud;
    (void)signo;
}

START_TEST(a_second_one_ends_a_stuck_loop)
{
    struct env_task t = { .cb = hang };

    second = _i == 0 ? SIGINT : SIGUSR2;
    ck_assert_int_eq(signals_watch(loop, ignore, NULL, NULL), 0);
    loop_enter(loop);
    env_defer(loop_env(loop), &t);
    loop_leave(loop);
}
END_TEST

START_TEST(the_end_has_a_deadline)
{
    signals_end_within(1);
    for (;;) {
        pause();
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("signals");
    TCase *t = tcase_create("signals");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_loop_hears_of_signals_also_of_earlier_ones);
    tcase_add_loop_test(t, what_a_group_got_and_the_process_above_passes_on_is_one, 0, 4);
    tcase_add_test(t, signals_without_meaning_are_told_and_do_nothing);
    tcase_add_loop_exit_test(t, a_second_one_ends_a_stuck_loop, 3, 0, 2);
    tcase_add_exit_test(t, the_end_has_a_deadline, 4);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
