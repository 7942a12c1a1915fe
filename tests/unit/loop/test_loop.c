/* The loop: order of timers and tasks, turns of descriptors, other threads that wake it, lanes
 * and their deadlines, and its end. */
#include <check.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <loop/loop.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct loop *loop;
static struct env *env;
static char trace[64];
static size_t trace_n;

static void setup(void)
{
    ck_assert_int_eq(loop_create(NULL, &loop, NULL), 0);
    env = loop_env(loop);
    trace_n = 0;
}

static void teardown(void)
{
    loop_destroy(loop);
}

static void note(char c)
{
    trace[trace_n++] = c;
    trace[trace_n] = '\0';
}

struct named_timer {
    struct env_timer t;
    char name;
};

static void on_named(struct env_timer *t)
{
    char name = container_of(t, struct named_timer, t)->name;

    note(name);
    if (name == 'z') {
        loop_stop(loop);
    }
}

START_TEST(timers_fire_in_order_of_time_then_of_setting)
{
    struct named_timer a = { { .cb = on_named }, 'a' }, b = { { .cb = on_named }, 'b' },
                       c = { { .cb = on_named }, 'c' }, d = { { .cb = on_named }, 'd' },
                       z = { { .cb = on_named }, 'z' };
    int64_t now = env_now_ns(env);

    env_timer_set(env, &z.t, now + 5 * ENV_MS);
    env_timer_set(env, &c.t, now + 3 * ENV_MS);
    env_timer_set(env, &a.t, now + 1 * ENV_MS);
    env_timer_set(env, &b.t, now + 1 * ENV_MS);
    env_timer_set(env, &d.t, now + 2 * ENV_MS);
    env_timer_clear(env, &c.t);
    env_timer_clear(env, &c.t);
    env_timer_set(env, &a.t, now + 4 * ENV_MS);
    loop_run(loop);
    ck_assert_str_eq(trace, "bdaz");
    ck_assert(!env_timer_is_set(&a.t));
}
END_TEST

struct again {
    struct env_timer t;
    uint32_t n;
};

static void on_again(struct env_timer *t)
{
    container_of(t, struct again, t)->n++;
    env_timer_set(env, t, env_now_ns(env));
}

static void on_written(struct loop_fd *w, uint32_t events)
{
    (void)events;
    loop_fd_remove(loop, w);
    loop_stop(loop);
}

/* Before, the loop ran it for ever. */
START_TEST(a_timer_that_sets_itself_for_now_does_not_keep_the_loop)
{
    struct again a = { .t.cb = on_again };
    struct loop_fd w = { .cb = on_written };
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    w.fd = fds[0];
    loop_enter(loop);
    ck_assert_int_eq(loop_fd_add(loop, &w, LOOP_READ, NULL), 0);
    env_timer_set(env, &a.t, 0);
    loop_leave(loop);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    loop_run(loop);
    ck_assert_uint_eq(a.n, 1);
    env_timer_clear(env, &a.t);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

#define MANY 2000

static void on_one_of_many(struct env_timer *t)
{
    (void)t;
    trace_n++;
}

static void on_between(struct loop_fd *w, uint32_t events)
{
    ck_assert_uint_gt(trace_n, 0);
    ck_assert_uint_lt(trace_n, MANY);
    on_written(w, events);
}

START_TEST(descriptors_have_their_turn_between_many_timers)
{
    struct env_timer *many = calloc(MANY, sizeof(*many));
    struct loop_fd w = { .cb = on_between };
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    w.fd = fds[0];
    loop_enter(loop);
    ck_assert_int_eq(loop_fd_add(loop, &w, LOOP_READ, NULL), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        many[i].cb = on_one_of_many;
        env_timer_set(env, &many[i], 0);
    }
    loop_leave(loop);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    loop_run(loop);
    for (uint32_t i = 0; i < MANY; i++) {
        env_timer_clear(env, &many[i]);
    }
    free(many);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

/* ---- turns ----------------------------------------------------------------------------------- */

#define SLOW_NS (20 * ENV_MS)

static struct loop_long_turn long_turns[4];
static uint32_t long_turns_n;

static void on_long_turn(void *ud, const struct loop_long_turn *t)
{
    (void)ud;
    if (long_turns_n < 4) {
        long_turns[long_turns_n++] = *t;
    }
}

static void on_slow(struct env_timer *t)
{
    struct timespec ts = { 0, SLOW_NS };

    nanosleep(&ts, NULL);
    if (long_turns_n < 1) {
        env_timer_set(env, t, env_now_ns(env) + 1);
    } else {
        loop_stop(loop);
    }
}

START_TEST(a_long_turn_is_counted_and_told_and_the_next_one_is_looked_at)
{
    struct env_timer slow = { .cb = on_slow };
    struct loop_turns turns;
    uint64_t short_ones = 0;

    long_turns_n = 0;
    loop_on_long_turn(loop, 5 * ENV_MS, on_long_turn, NULL);
    loop_enter(loop);
    env_timer_set(env, &slow, 0);
    loop_leave(loop);
    loop_run(loop);
    ck_assert_uint_ge(long_turns_n, 2);
    ck_assert_int_ge(long_turns[0].took_ns - long_turns[0].waited_ns, 5 * ENV_MS);
    ck_assert_uint_ge(long_turns[0].steps, 1);
    ck_assert_ptr_null(long_turns[0].slowest);
    ck_assert_ptr_eq(long_turns[1].slowest, (const void *)(uintptr_t)on_slow);
    ck_assert_int_ge(long_turns[1].slowest_ns, SLOW_NS);

    loop_count_turns(loop, &turns);
    ck_assert_int_ge(turns.longest_ns, 5 * ENV_MS);
    ck_assert_int_ge(turns.sum_ns, 10 * ENV_MS);
    for (uint32_t i = 0; i < LOOP_TURN_BOUNDS && loop_turn_bounds_s[i] < 5e-3; i++) {
        short_ones += turns.counts[i];
    }
    ck_assert_uint_ge(short_ones, 1);
}
END_TEST

struct task {
    struct env_task t;
    struct env_task *then;
    char name;
};

static void on_task(struct env_task *t)
{
    struct task *k = container_of(t, struct task, t);

    note(k->name);
    if (k->then) {
        env_defer(env, k->then);
    }
    if (k->name == 'z') {
        loop_stop(loop);
    }
}

START_TEST(deferred_tasks_run_once_in_order)
{
    struct task z = { { .cb = on_task }, NULL, 'z' };
    struct task a = { { .cb = on_task }, &z.t, 'a' };
    struct task b = { { .cb = on_task }, NULL, 'b' };

    env_defer(env, &a.t);
    env_defer(env, &b.t);
    env_defer(env, &a.t);
    env_undefer(env, &b.t);
    loop_run(loop);
    ck_assert_str_eq(trace, "az");
}
END_TEST

static void *foreign_sets_timer(void *arg)
{
    loop_enter(loop);
    env_timer_set(env, arg, env_now_ns(env));
    loop_leave(loop);
    return NULL;
}

START_TEST(a_timer_of_a_foreign_thread_wakes_the_sleeping_loop)
{
    struct named_timer z = { { .cb = on_named }, 'z' };
    pthread_t t;

    pthread_create(&t, NULL, foreign_sets_timer, &z.t);
    loop_run(loop);
    pthread_join(t, NULL);
    ck_assert_str_eq(trace, "z");
}
END_TEST

struct pipe_watch {
    struct loop_fd w;
    struct pipe_watch *removes;
    char name;
};

static void on_pipe(struct loop_fd *w, uint32_t events)
{
    struct pipe_watch *p = container_of(w, struct pipe_watch, w);

    ck_assert(events & LOOP_READ);
    note(p->name);
    if (p->removes) {
        loop_fd_remove(loop, &p->removes->w);
    }
    loop_fd_remove(loop, w);
    loop_stop(loop);
}

START_TEST(a_removed_descriptor_gets_no_event_of_the_running_batch)
{
    struct pipe_watch a = { .w.cb = on_pipe, .name = 'a' }, b = { .w.cb = on_pipe, .name = 'b' };
    int p[2][2];

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pipe(p[i]), 0);
        ck_assert_int_eq(write(p[i][1], "x", 1), 1);
    }
    a.w.fd = p[0][0];
    b.w.fd = p[1][0];
    a.removes = &b;
    b.removes = &a;
    ck_assert_int_eq(loop_fd_add(loop, &a.w, LOOP_READ, NULL), 0);
    ck_assert_int_eq(loop_fd_add(loop, &b.w, LOOP_READ, NULL), 0);
    loop_run(loop);
    ck_assert_uint_eq(trace_n, 1);
    for (int i = 0; i < 4; i++) {
        close(p[i / 2][i % 2]);
    }
}
END_TEST

/* The state of a process, as the kernel names it: S sleeps, T is stopped. */
static char state_of(pid_t pid)
{
    char path[64], line[256], *at;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    at = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
    if (f) {
        fclose(f);
    }
    return at ? at[2] : '?';
}

/* Its parent stands still from when it sleeps until the time is over, and meanwhile something arrives. */
static void stop_parent(int fd, int64_t until_ns)
{
    pid_t parent = getppid();
    struct timespec ts = { until_ns / ENV_S, until_ns % ENV_S };

    while (state_of(parent) != 'S') {
        sched_yield();
    }
    kill(parent, SIGSTOP);
    while (state_of(parent) != 'T') {
        sched_yield();
    }
    (void)!write(fd, "x", 1);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
    kill(parent, SIGCONT);
    _exit(0);
}

/* Before, SIGCONT ended the wait without a look, and the timer came first: a load balancer that had
 * stood still reset connections that had a request. */
START_TEST(what_arrived_while_the_process_stood_still_is_seen_before_what_ran_out)
{
    struct pipe_watch a = { .w.cb = on_pipe, .name = 'a' };
    struct named_timer z = { { .cb = on_named }, 'z' };
    int64_t at_ns = env_now_ns(env) + 2 * ENV_S;
    int fds[2], status;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    a.w.fd = fds[0];
    ck_assert_int_eq(loop_fd_add(loop, &a.w, LOOP_READ, NULL), 0);
    env_timer_set(env, &z.t, at_ns);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        stop_parent(fds[1], at_ns + 1);
    }
    loop_run(loop);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(trace[0], 'a');
    env_timer_clear(env, &z.t);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

struct job {
    struct env_work w;
    int result;
    char name;
};

static int jobs_left;
static int jobs_begun; /* of those that wait; atomic */

static void job_done(struct env_work *w)
{
    struct job *j = container_of(w, struct job, w);

    note(j->name);
    if (--jobs_left == 0) {
        loop_stop(loop);
    }
}

static void job_sleeps(struct env_work *w, struct fn_op *op)
{
    struct job *j = container_of(w, struct job, w);

    __atomic_fetch_add(&jobs_begun, 1, __ATOMIC_RELAXED);
    j->result = loop_op_if()->sleep_until(op, env_now_ns(env) + 3600 * ENV_S);
}

static void job_returns(struct env_work *w, struct fn_op *op)
{
    (void)op;
    container_of(w, struct job, w)->result = 42;
}

START_TEST(lanes_run_work_and_end_sleep_on_cancel_and_deadline)
{
    struct job a = { { .run = job_returns, .done = job_done, .lane = ENV_LANE_FAST }, 0, 'a' };
    struct job b = { { .run = job_sleeps, .done = job_done, .lane = ENV_LANE_SLOW }, 0, 'b' };
    struct job c = { { .run = job_sleeps, .done = job_done, .lane = ENV_LANE_SLOW }, 0, 'c' };

    jobs_left = 3;
    b.w.deadline_ns = env_now_ns(env) + 1 * ENV_MS;
    ck_assert_int_eq(env_submit(env, &a.w), 0);
    ck_assert_int_eq(env_submit(env, &b.w), 0);
    ck_assert_int_eq(env_submit(env, &c.w), 0);
    env_cancel(env, &c.w);
    loop_run(loop);
    ck_assert_int_eq(a.result, 42);
    ck_assert_int_eq(b.result, FN_E_DEADLINE);
    ck_assert_int_eq(c.result, FN_E_CANCELLED);
}
END_TEST

static sem_t hang;

static void job_hangs(struct env_work *w, struct fn_op *op)
{
    (void)w;
    (void)op;
    __atomic_fetch_add(&jobs_begun, 1, __ATOMIC_RELAXED);
    sem_wait(&hang);
}

static void on_lost(void *ud, const char *owner, int64_t for_ns)
{
    ck_assert_str_eq(owner, "bad");
    ck_assert_int_ge(for_ns, 0);
    ++*(int *)ud;
}

/* A lane of one thread: what never returns does not take the lane with it, and its owner gets no third
 * chance. */
START_TEST(threads_that_are_lost_are_replaced)
{
    struct job hangs[3];
    struct job good = { .w = { .run = job_returns, .done = job_done, .owner = "good" },
                        .name = 'g' };
    struct loop_lanes lanes = { { 1, 1, 1 }, { 8, 8, 8 } };
    struct fn_error e = ERR_INIT;
    int lost = 0;

    loop_destroy(loop);
    ck_assert_int_eq(loop_create(&lanes, &loop, &e), 0);
    env = loop_env(loop);
    sem_init(&hang, 0, 0);
    jobs_left = 3;
    for (int i = 0; i < 3; i++) {
        hangs[i] = (struct job){ .w = { .run = job_hangs, .done = job_done, .owner = "bad",
                                        .deadline_ns = 1 },
                                 .name = 'x' };
    }
    ck_assert_int_eq(env_submit(env, &hangs[0].w), 0);
    ck_assert_int_eq(env_submit(env, &hangs[1].w), 0);
    while (lost < 2) {
        loop_look_for_lost(loop, 0, on_lost, &lost);
    }
    ck_assert_uint_eq(loop_lost(loop), 2);
    ck_assert_int_eq(env_submit(env, &hangs[2].w), FN_E_EXHAUSTED);
    ck_assert_int_eq(env_submit(env, &good.w), 0);
    for (int left = 3; left == 3;) {
        sched_yield();
        loop_enter(loop);
        left = jobs_left;
        loop_leave(loop);
    }
    sem_post(&hang);
    sem_post(&hang);
    loop_run(loop);
    ck_assert_uint_eq(loop_lost(loop), 0);
    ck_assert_int_eq(lost, 2);
}
END_TEST

static void job_tells_time_left(struct env_work *w, struct fn_op *op)
{
    container_of(w, struct job, w)->result =
        (int)((loop_op_if()->deadline_ns(op) - env_now_ns(env)) / ENV_S);
}

/* The time that work waits for a thread is not taken from it. */
START_TEST(a_timeout_counts_from_the_beginning)
{
    struct job first = { { .run = job_sleeps, .done = job_done, .timeout_ns = 50 * ENV_MS },
                         0, 'f' };
    struct job behind = { { .run = job_sleeps, .done = job_done, .timeout_ns = 50 * ENV_MS },
                          0, 'b' };
    struct job last = { { .run = job_tells_time_left, .done = job_done, .timeout_ns = 100 * ENV_S },
                        0, 'l' };
    struct loop_lanes lanes = { { 1, 1, 1 }, { 8, 8, 8 } };
    struct fn_error e = ERR_INIT;
    int64_t begun_ns;

    loop_destroy(loop);
    ck_assert_int_eq(loop_create(&lanes, &loop, &e), 0);
    env = loop_env(loop);
    begun_ns = env_now_ns(env);
    jobs_left = 3;
    ck_assert_int_eq(env_submit(env, &first.w), 0);
    ck_assert_int_eq(env_submit(env, &behind.w), 0);
    ck_assert_int_eq(env_submit(env, &last.w), 0);
    loop_run(loop);
    ck_assert_int_eq(first.result, FN_E_DEADLINE);
    ck_assert_int_eq(behind.result, FN_E_DEADLINE);
    ck_assert_int_ge(env_now_ns(env) - begun_ns, 100 * ENV_MS);
    ck_assert_int_ge(last.result, 90);
}
END_TEST

/* A lane that grows starts what waits in it at once; a smaller one keeps its threads. */
START_TEST(a_lane_grows)
{
    struct job slow[2] = {
        { { .run = job_hangs, .done = job_done, .lane = ENV_LANE_SLOW }, 0, 's' },
        { { .run = job_hangs, .done = job_done, .lane = ENV_LANE_SLOW }, 0, 's' },
    };
    struct job behind = { { .run = job_returns, .done = job_done, .lane = ENV_LANE_SLOW }, 0, 'b' };

    jobs_left = 3;
    sem_init(&hang, 0, 0);
    ck_assert_int_eq(loop_set_threads(loop, ENV_LANE_SLOW, 2), 0);
    ck_assert_int_eq(env_submit(env, &slow[0].w), 0);
    ck_assert_int_eq(env_submit(env, &slow[1].w), 0);
    ck_assert_int_eq(env_submit(env, &behind.w), 0);
    ck_assert_int_eq(loop_set_threads(loop, ENV_LANE_SLOW, 20), 0);
    ck_assert_uint_ge(loop_threads(loop), 3); /* two hang, and at least one came for the last */
    for (int left = 3; left == 3;) { /* the hanging ones are let go only after it */
        sched_yield();
        loop_enter(loop);
        left = jobs_left;
        loop_leave(loop);
    }
    ck_assert_int_eq(loop_set_threads(loop, ENV_LANE_SLOW, 1), 0);
    sem_post(&hang);
    sem_post(&hang);
    loop_run(loop);
    ck_assert_int_eq(behind.result, 42);
}
END_TEST

START_TEST(a_full_lane_refuses)
{
    struct loop_lanes small = { { 1, 1, 1 }, { 1, 1, 1 } };
    struct job j[3] = { 0 };
    int refused = 0;

    loop_destroy(loop);
    ck_assert_int_eq(loop_create(&small, &loop, NULL), 0);
    env = loop_env(loop);
    jobs_left = 0;
    for (int i = 0; i < 3; i++) {
        j[i].w = (struct env_work){ .run = job_sleeps, .done = job_done };
        j[i].name = 'x';
        if (env_submit(env, &j[i].w) == FN_E_EXHAUSTED) {
            refused++;
        } else {
            jobs_left++;
        }
    }
    ck_assert_int_ge(refused, 1);
    for (int i = 0; i < 3; i++) {
        env_cancel(env, &j[i].w);
    }
    loop_run(loop);
}
END_TEST

/* What looks at its operation comes back, and its end is told; what does not is not waited for. */
START_TEST(lanes_settle_or_say_that_they_do_not)
{
    struct job looks = { { .run = job_sleeps, .done = job_done, .lane = ENV_LANE_SLOW }, 0, 'l' };
    struct job hangs = { { .run = job_hangs, .done = job_done, .lane = ENV_LANE_FAST }, 0, 'h' };
    struct job late = { { .run = job_returns, .done = job_done, .lane = ENV_LANE_SLOW }, 0, 'x' };

    jobs_left = 2;
    jobs_begun = 0;
    sem_init(&hang, 0, 0);
    ck_assert_int_eq(env_submit(env, &looks.w), 0);
    ck_assert_int_eq(env_submit(env, &hangs.w), 0);
    for (int begun = 0; begun < 2;) { /* queued ones would not begin any more */
        sched_yield();
        begun = __atomic_load_n(&jobs_begun, __ATOMIC_RELAXED);
    }
    ck_assert(!loop_settle(loop, env_now_ns(env) + 20 * ENV_MS));
    ck_assert_int_eq(env_submit(env, &late.w), FN_E_EXHAUSTED);
    sem_post(&hang);
    ck_assert(loop_settle(loop, env_now_ns(env) + 60 * ENV_S));
    ck_assert_int_eq(jobs_left, 0);
    ck_assert_int_eq(looks.result, FN_E_CANCELLED);
}
END_TEST

/* ---- calls that may never return ------------------------------------------------------------- */

static int gate[2]; /* a socket pair: holds a thread back until it is closed */

static void note_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
}

static void wait_at_gate(void *arg)
{
    char c;

    (void)!read(gate[0], &c, 1);
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
    (void)!write(gate[0], "x", 1);
}

START_TEST(a_call_aside_is_waited_for_or_left_alone)
{
    static int came_back;
    pthread_t thread = pthread_self();

    ck_assert_int_eq(loop_aside(note_thread, &thread, ENV_S), 0);
    ck_assert(!pthread_equal(thread, pthread_self()));
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, gate), 0);
    ck_assert_int_eq(loop_aside(wait_at_gate, &came_back, 20 * ENV_MS), FN_E_DEADLINE);
    ck_assert_int_eq(__atomic_load_n(&came_back, __ATOMIC_ACQUIRE), 0);
    /* It goes on and ends by itself. */
    ck_assert_int_eq(write(gate[1], "g", 1), 1);
    ck_assert_int_eq(read(gate[1], &(char){ 0 }, 1), 1);
    ck_assert_int_eq(__atomic_load_n(&came_back, __ATOMIC_ACQUIRE), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loop");
    TCase *t = tcase_create("loop");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, timers_fire_in_order_of_time_then_of_setting);
    tcase_add_test(t, deferred_tasks_run_once_in_order);
    tcase_add_test(t, a_timer_that_sets_itself_for_now_does_not_keep_the_loop);
    tcase_add_test(t, descriptors_have_their_turn_between_many_timers);
    tcase_add_test(t, a_long_turn_is_counted_and_told_and_the_next_one_is_looked_at);
    tcase_add_test(t, a_timer_of_a_foreign_thread_wakes_the_sleeping_loop);
    tcase_add_test(t, a_removed_descriptor_gets_no_event_of_the_running_batch);
    tcase_add_test(t, what_arrived_while_the_process_stood_still_is_seen_before_what_ran_out);
    tcase_add_test(t, lanes_run_work_and_end_sleep_on_cancel_and_deadline);
    tcase_add_test(t, threads_that_are_lost_are_replaced);
    tcase_add_test(t, a_lane_grows);
    tcase_add_test(t, a_timeout_counts_from_the_beginning);
    tcase_add_test(t, a_full_lane_refuses);
    tcase_add_test(t, lanes_settle_or_say_that_they_do_not);
    tcase_add_test(t, a_call_aside_is_waited_for_or_left_alone);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
