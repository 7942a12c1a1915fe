/* With which configuration a node is started again: run() below is the node, and each start of it
 * does what the test's next line says. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <process/supervise.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define STARTS_MAX 6
#define LIMIT_S    20

/* One start of the node. */
struct life {
    int serves;         /* drain_timeout in seconds of what it is started with */
    const char *reload; /* what it takes before it crashes; NULL: nothing */
    bool unused;        /* it crashes before its configuration is in use */
    const char *edited; /* what the file holds then, which no reload has taken */
    int told;           /* a signal to its parent, which it waits for; then it ends with 0 */
    int exit_code;      /* how it ends if it is not the last one; 0: a crash */
};

static struct {
    const struct life *lives;
    char path[64];
    uint32_t *starts; /* shared with the node */
} rig;

static void write_file(const char *yaml)
{
    FILE *f = fopen(rig.path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(yaml, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Signals are blocked, as the parent has them. */
static void hear_of(int signo)
{
    const struct timespec limit = { LIMIT_S / 2, 0 };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signo);
    kill(getppid(), signo);
    if (sigtimedwait(&set, NULL, &limit) != signo) {
        _exit(EXIT_USAGE);
    }
}

/* Exit code 64 is a mistake of this test. */
static int run_node(struct config *c, const struct start *o)
{
    const struct life *life = &rig.lives[(*rig.starts)++];

    (void)o;
    if (c->top->drain_timeout_ns != life->serves * 1000000000LL || strcmp(c->path, rig.path) != 0) {
        fprintf(stderr, "start %u: drain_timeout %lld\n", *rig.starts,
                (long long)c->top->drain_timeout_ns);
        _exit(EXIT_USAGE);
    }
    if (!life->unused) {
        supervise_loaded(c->path);
    }
    if (life->reload) {
        write_file(life->reload);
        supervise_loaded(c->path);
    }
    if (life->edited) {
        write_file(life->edited);
    }
    if (life->told) {
        hear_of(life->told);
        _exit(EXIT_OK);
    }
    if (life[1].serves == 0) {
        supervise_ending();
        _exit(EXIT_OK);
    }
    _exit(life->exit_code ? life->exit_code : EXIT_INTERNAL);
}

#define A "node: lb\nplugins: { pool: { use: static, runners: [\"r:1\"] } }\ndrain_timeout: 1s\n"
#define B "node: lb\nplugins: { pool: { use: static, runners: [\"r:1\"] } }\ndrain_timeout: 2s\n"
#define C "node: lb\nplugins: { pool: { use: static, runners: [\"r:1\"] } }\ndrain_timeout: 3s\n"

static const struct life lives[][STARTS_MAX + 1] = {
    { { .serves = 1, .reload = B }, { .serves = 1, .reload = C }, { .serves = 1 } },
    { { .serves = 1, .reload = B }, { .serves = 1 }, { .serves = 1 }, { .serves = 1 } },
    { { .serves = 1, .reload = B }, { .serves = 1, .unused = true }, { .serves = 1, .reload = C },
      { .serves = 1 } },
    { { .serves = 1 }, { .serves = 1, .reload = B }, { .serves = 1 } },
    /* a mistake that only a start finds, before and after the configuration is in use */
    { { .serves = 1, .edited = B }, { .serves = 2, .unused = true, .exit_code = EXIT_CONFIG },
      { .serves = 1 }, { .serves = 1, .reload = C }, { .serves = 1 } },
    { { .serves = 1, .edited = B }, { .serves = 2, .exit_code = EXIT_CONFIG }, { .serves = 1 } },
    { { .serves = 1, .unused = true, .edited = B },
      { .serves = 2, .unused = true, .exit_code = EXIT_CONFIG }, { .serves = 1 } },
    /* one that the file shows at once: what served last is not that of the start */
    { { .serves = 1, .edited = B }, { .serves = 2, .edited = "node: [" }, { .serves = 2 } },
    /* one that wants what is not there, which what served before does not */
    { { .serves = 1, .edited = B }, { .serves = 2, .unused = true, .exit_code = EXIT_UNAVAILABLE },
      { .serves = 1 }, { .serves = 1 } },
    /* neither starts, and somebody mends the file */
    { { .serves = 1, .edited = B }, { .serves = 2, .unused = true, .exit_code = EXIT_UNAVAILABLE },
      { .serves = 1, .unused = true, .edited = C, .exit_code = EXIT_UNAVAILABLE },
      { .serves = 3 } },
};

/* Five starts within 60 s that do not serve, of which one crashed. */
#define EARLY { .serves = 1, .exit_code = EXIT_UNAVAILABLE }
static const struct life long_away[] = { { .serves = 1 }, EARLY, EARLY, EARLY, EARLY,
                                         { .serves = 1 }, { 0 } };

/* Supervises a node that starts as `next` says, to its wanted end. */
static void live(const struct life *next)
{
    static char *const none[] = { NULL };
    struct start start = { .config_path = rig.path };
    struct conf_problems p;
    struct config *c = NULL;
    pid_t parent = getpid();
    int code;

    snprintf(rig.path, sizeof(rig.path), "/tmp/fnd-supervise-%d.yaml", (int)getpid());
    rig.lives = next;
    rig.starts = mmap(NULL, sizeof(*rig.starts), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(rig.starts, MAP_FAILED);
    write_file(A);
    conf_problems_init(&p);
    config_load(rig.path, none, &c, &p);
    ck_assert_msg(p.n == 0, "%s", buf_text(&p.text));
    code = supervise(c, &start, run_node);
    if (getpid() != parent) {
        _exit(code); /* a start that did not come to its node */
    }
    ck_assert_int_eq(code, EXIT_OK);
    unlink(rig.path);
    config_destroy(c);
    conf_problems_finish(&p);
}

/* Whatever comes after it: another bad reload, crashes that no reload is blamed for, or a file that
 * no start takes. */
START_TEST(the_configuration_that_served_stays)
{
    live(lives[_i]);
}
END_TEST

START_TEST(what_is_not_there_yet_is_waited_for)
{
    live(long_away);
}
END_TEST

/* The parent's, which makes each start. */
static int forks, fork_fails_from, fork_fails_n;
pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
    int n = forks++;

    if (n >= fork_fails_from && n < fork_fails_from + fork_fails_n) {
        errno = EAGAIN;
        return -1;
    }
    return __real_fork();
}

START_TEST(a_process_that_cannot_be_made_is_made_later)
{
    const struct life life[] = { { .serves = 1 }, { .serves = 1 }, { 0 } };

    forks = 0;
    fork_fails_from = 1;
    fork_fails_n = 2;
    live(life);
    ck_assert_int_eq(forks, 4);
}
END_TEST

static const int ends[] = { SIGTERM, SIGINT, SIGUSR2 };

/* The next start would be a mistake: 64. */
START_TEST(whoever_asks_the_parent_for_the_end_asks_the_node)
{
    const struct life life[] = { { .serves = 1, .told = ends[_i] }, { 0 } };

    live(life);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("supervise");
    TCase *t = tcase_create("supervise");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_loop_test(t, the_configuration_that_served_stays, 0,
                        (int)(sizeof(lives) / sizeof(lives[0])));
    tcase_add_test(t, what_is_not_there_yet_is_waited_for);
    tcase_add_test(t, a_process_that_cannot_be_made_is_made_later);
    tcase_add_loop_test(t, whoever_asks_the_parent_for_the_end_asks_the_node, 0,
                        (int)(sizeof(ends) / sizeof(ends[0])));
    tcase_set_timeout(t, LIMIT_S);
    suite_add_tcase(s, t);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
