/* fn.proc: isolation, limits, ends, freezing, killing. What this machine cannot give (no root) is
 * left out by isolation(); the tests that need it say that they were skipped. */
#include "../lib/poor.h"
#include "../lib/skip.h"

#include <loop/cgroup.h>
#include <loop/loop.h>
#include <loop/proc.h>
#include <plugin/plugin.h>

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S     30
#define NO_CGROUPS "no cgroups here"

static struct proc *proc;
static const struct fn_proc_if *table;
static struct fn_host host;
static struct fn_error err;

/* The plugin host's look-up, for a table without a plugin. */
void *plugin_impl(const struct fn_host *h, const char *iface)
{
    ck_assert_str_eq(iface, "fn.proc");
    return h->priv;
}

/* The instance behind it, if there is one. */
static void *instance;

struct plugin *plugin_of(const struct fn_host *h)
{
    ck_assert_ptr_eq(h, &host);
    return NULL;
}

void *plugin_inst(const struct plugin *p)
{
    (void)p;
    return instance;
}

static _Thread_local bool attributed; /* it is known whose callback runs */

void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method)
{
    (void)c;
    (void)p;
    attributed = context == PLUGIN_WORKER && strcmp(method, "process callback") == 0;
}

void plugin_leave(struct plugin_crumb *c)
{
    (void)c;
    attributed = false;
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t exit_takes_ms;
    char out[3][65536];
    size_t len[3];
    uint64_t bytes;
    int exits;
    int32_t code;
    uint32_t oom;
} seen;

static void on_output(void *ud, uint32_t fd, const void *data, size_t len)
{
    (void)ud;
    ck_assert(attributed);
    pthread_mutex_lock(&seen.lock);
    seen.bytes += len;
    if (len > sizeof(seen.out[0]) - 1 - seen.len[fd]) {
        len = sizeof(seen.out[0]) - 1 - seen.len[fd];
    }
    memcpy(seen.out[fd] + seen.len[fd], data, len);
    seen.len[fd] += len;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void on_exited(void *ud, int32_t code, uint32_t oom)
{
    (void)ud;
    ck_assert(attributed);
    usleep((useconds_t)(1000 * seen.exit_takes_ms));
    pthread_mutex_lock(&seen.lock);
    seen.exits++;
    seen.code = code;
    seen.oom = oom;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static int exits(void)
{
    int n;

    pthread_mutex_lock(&seen.lock);
    n = seen.exits;
    pthread_mutex_unlock(&seen.lock);
    return n;
}

static const struct fn_proc_cb cb = { FN_HDR(struct fn_proc_cb, 0), on_output, on_exited };

static void setup(void)
{
    memset(&seen, 0, sizeof(seen));
    pthread_mutex_init(&seen.lock, NULL);
    pthread_cond_init(&seen.changed, NULL);
    ck_assert_int_eq(proc_create(&proc, NULL), 0);
    table = proc_if();
    host.priv = proc;
    instance = &host;
}

static void teardown(void)
{
    proc_destroy(proc);
}

static bool has(uint32_t what)
{
    return (table->isolation(&host) & what) != 0;
}

static bool wait_exit(void)
{
    struct timespec until;
    bool ok;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&seen.lock);
    while (!(ok = seen.exits > 0) &&
           pthread_cond_timedwait(&seen.changed, &seen.lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&seen.lock);
    return ok;
}

static bool wait_output(const char *part)
{
    struct timespec until;
    bool ok;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&seen.lock);
    while (!(ok = strstr(seen.out[1], part) != NULL) &&
           pthread_cond_timedwait(&seen.changed, &seen.lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&seen.lock);
    return ok;
}

/* Whether a child that writes all the time falls silent (quiet) or goes on within WAIT_S. */
static bool wait_writing(bool quiet)
{
    bool ok = false;

    pthread_mutex_lock(&seen.lock);
    for (int i = 0; !ok && i < WAIT_S * 5; i++) {
        uint64_t before = seen.bytes;
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (pthread_cond_timedwait(&seen.changed, &seen.lock, &until) != ETIMEDOUT) {
        }
        ok = (seen.bytes == before) == quiet;
    }
    pthread_mutex_unlock(&seen.lock);
    return ok;
}

static int watches; /* the how-manieth from now on is refused; 0 = none */

int __real_epoll_ctl(int fd, int op, int of, struct epoll_event *e);
int __wrap_epoll_ctl(int fd, int op, int of, struct epoll_event *e);

int __wrap_epoll_ctl(int fd, int op, int of, struct epoll_event *e)
{
    if (op == EPOLL_CTL_ADD && watches > 0 && --watches == 0) {
        errno = ENOSPC;
        return -1;
    }
    return __real_epoll_ctl(fd, op, of, e);
}

static const char *const env[] = { "PATH=/usr/bin:/bin", "A=b", NULL };

static int spawn(const char *script, struct fn_proc_spec s, uint64_t *ret_id)
{
    const char *const argv[] = { "/bin/sh", "-c", script, NULL };

    s.size = sizeof(s);
    s.argv = s.argv ? s.argv : argv;
    s.env = env;
    err = ERR_INIT;
    return table->spawn(&host, &s, &cb, NULL, ret_id, &err);
}

#define SPEC(...) ((struct fn_proc_spec){ .size = 0, ##__VA_ARGS__ })

static void run(const char *script, struct fn_proc_spec s)
{
    uint64_t id;

    ck_assert_msg(spawn(script, s, &id) == 0, "%s", err.msg);
    ck_assert(wait_exit());
}

START_TEST(output_comes_before_the_end)
{
    run("echo out$A; echo err >&2; exit 5", SPEC());
    ck_assert_int_eq(seen.code, 5);
    ck_assert_str_eq(seen.out[1], "outb\n");
    ck_assert_str_eq(seen.out[2], "err\n");
}
END_TEST

START_TEST(a_signal_is_a_negative_code)
{
    run("kill -SEGV $$", SPEC());
    ck_assert_int_eq(seen.code, -SIGSEGV);
    ck_assert_uint_eq(seen.oom, 0);
}
END_TEST

START_TEST(a_killed_group_leaves_nobody)
{
    uint64_t id;
    long pid;

    ck_assert_int_eq(spawn("sleep 100 & echo $!; wait", SPEC(), &id), 0);
    ck_assert(wait_output("\n"));
    pid = strtol(seen.out[1], NULL, 10);
    ck_assert_int_eq(table->kill(&host, id, NULL), 0);
    ck_assert(wait_exit());
    ck_assert_int_eq(seen.code, -SIGKILL);
    ck_assert_int_eq(table->kill(&host, id, NULL), 0); /* a stale id is harmless */
    ck_assert_int_eq(table->freeze(&host, id, 1, NULL), FN_E_NOT_FOUND);
    ck_assert(pid > 1);
}
END_TEST

/* Its destroy() frees what the callbacks point at. */
START_TEST(an_instance_that_goes_has_heard_of_all_its_children)
{
    uint64_t id;
    int told;

    seen.exit_takes_ms = 100;
    ck_assert_int_eq(spawn("exit 0", SPEC(), &id), 0); /* by itself, and it may have been told */
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(spawn("sleep 100 & echo x; wait", SPEC(), &id), 0);
    }
    ck_assert(wait_output("x"));
    instance = _i == 0 ? &host : NULL; /* its create() failed, or its destroy() was */
    proc_release(proc, &host);
    told = exits();
    ck_assert(_i == 0 ? told == 4 : told <= 1);
    ck_assert_int_eq(table->freeze(&host, id, 1, NULL), FN_E_NOT_FOUND);
    usleep(300000);
    ck_assert_int_eq(exits(), told);
    proc_release(proc, &host); /* there are none */
}
END_TEST

START_TEST(a_frozen_child_does_nothing_and_can_be_killed)
{
    uint64_t id;

    ck_assert_int_eq(spawn("while :; do echo x; done", SPEC(.cgroup_name = "test-freeze"), &id), 0);
    ck_assert(wait_output("x"));
    ck_assert_int_eq(table->freeze(&host, id, 1, &err), 0);
    ck_assert(wait_writing(true));
    ck_assert_int_eq(table->freeze(&host, id, 0, &err), 0);
    ck_assert(wait_writing(false));
    ck_assert_int_eq(table->freeze(&host, id, 1, &err), 0);
    ck_assert_int_eq(table->kill(&host, id, NULL), 0);
    ck_assert(wait_exit());
    ck_assert_int_eq(seen.code, -SIGKILL);
}
END_TEST

START_TEST(memory_beyond_the_limit_is_reported)
{
    if (!has(FN_PROC_HAS_CGROUP)) {
        SKIP(NO_CGROUPS);
    }
    run("exec dd if=/dev/zero of=/dev/null bs=100M count=1",
        SPEC(.mem_bytes = 16 << 20, .cgroup_name = "test-oom"));
    ck_assert_int_eq(seen.code, -SIGKILL);
    ck_assert_uint_eq(seen.oom, 1);
}
END_TEST

START_TEST(a_kill_is_not_taken_for_a_lack_of_memory)
{
    uint64_t id;

    ck_assert_int_eq(
        spawn("sleep 100", SPEC(.mem_bytes = 16 << 20, .cgroup_name = "test-kill"), &id), 0);
    table->kill(&host, id, NULL);
    ck_assert(wait_exit());
    ck_assert_uint_eq(seen.oom, 0);
}
END_TEST

START_TEST(the_child_sees_its_own_world)
{
    char dir[] = "/tmp/test-proc-XXXXXX";
    char path[64];

    if (!has(FN_PROC_HAS_NAMESPACES)) {
        SKIP("no namespaces here");
    }
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chmod(dir, 0777), 0);
    run("echo pid $$; id -u; ls /tmp; touch /tmp/iofs/made && echo bound; touch /tmp/x && echo "
        "tmp; "
        "touch /var/x 2>/dev/null || echo ro; cp /bin/true /tmp/iofs/program; "
        "/tmp/iofs/program; echo run $?; rm /tmp/iofs/program; grep NoNewPrivs /proc/self/status; "
        "ls /sys/class/net | grep -v lo; ls /proc | grep -c '^[0-9]*$'",
        SPEC(.flags = FN_PROC_NEW_PID | FN_PROC_NEW_MOUNT | FN_PROC_NEW_NET | FN_PROC_NEW_IPC |
                      FN_PROC_NO_NEW_PRIVS | FN_PROC_READONLY,
             .bind_from = dir, .bind_to = "/tmp/iofs", .uid = 1000, .gid = 1000,
             .cgroup_name = "test-world"));
    ck_assert_msg(strstr(seen.out[1], "pid 1\n1000\niofs\nbound\ntmp\nro\nrun 126\n") != NULL, "%s%s",
                  seen.out[1], seen.out[2]);
    ck_assert_ptr_nonnull(strstr(seen.out[1], "NoNewPrivs:\t1"));
    snprintf(path, sizeof(path), "%s/made", dir);
    ck_assert_int_eq(access(path, F_OK), 0);
    unlink(path);
    rmdir(dir);
}
END_TEST

START_TEST(the_number_of_processes_is_limited)
{
    if (!has(FN_PROC_HAS_CGROUP)) {
        SKIP(NO_CGROUPS);
    }
    run("for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait",
        SPEC(.pids_max = 4, .cgroup_name = "test-pids"));
    ck_assert(seen.code != 0 || strstr(seen.out[2], "fork") != NULL);
}
END_TEST

START_TEST(a_child_has_a_share_of_the_processors)
{
    struct cgroup_base base;
    char script[CGROUP_PATH_MAX + 64];
    uint64_t id;

    ck_assert_int_eq(spawn("", SPEC(.cpu_shares = 1), &id), FN_E_INVALID);
    ck_assert_int_eq(spawn("", SPEC(.cpu_shares = CGROUP_SHARES_MAX + 1), &id), FN_E_INVALID);
    ck_assert_int_eq(cgroup_detect(&base, NULL), 0);
    if (!has(FN_PROC_HAS_CGROUP) || !base.dir[base.v2 ? 0 : CGROUP_CPU][0]) {
        SKIP(NO_CGROUPS);
    }
    snprintf(script, sizeof(script), "cat %s/test-shares/%s",
             base.dir[base.v2 ? 0 : CGROUP_CPU], base.v2 ? "cpu.weight" : "cpu.shares");
    run(script, SPEC(.cpu_shares = 512, .cgroup_name = "test-shares"));
    if (base.v2 && !*seen.out[1]) {
        SKIP("the controller is not ours to give");
    }
    ck_assert_str_eq(seen.out[1], base.v2 ? "20\n" : "512\n");
}
END_TEST

START_TEST(errors_name_the_step)
{
    static const char *const missing[] = { "/no/such", NULL };
    static const char *const relative[] = { "sh", NULL };
    static const char *const no_program[] = { "/etc/passwd", NULL };
    uint64_t id;

    ck_assert_int_eq(spawn("", SPEC(.argv = missing), &id), FN_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "/no/such: cannot find the program"));
    ck_assert_int_eq(spawn("", SPEC(.cwd = "/no/such"), &id), FN_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "cannot enter its directory"));
    ck_assert_int_eq(spawn("", SPEC(.argv = no_program), &id), FN_E_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.msg, "/etc/passwd: cannot run the program"));
    ck_assert_int_eq(spawn("", SPEC(.argv = relative), &id), FN_E_INVALID);
    if (has(FN_PROC_HAS_CGROUP)) {
        ck_assert_int_eq(spawn("", SPEC(.cgroup_name = "../x"), &id), FN_E_INVALID);
    }
    ck_assert_int_eq(seen.exits, 0);
}
END_TEST

/* Of its end and its two outputs: refused at once, or ended like any other, never both. */
START_TEST(a_child_that_cannot_be_watched_is_killed)
{
    uint64_t id;
    int r;

    watches = _i;
    r = spawn("echo x; sleep 100", SPEC(), &id);
    ck_assert_int_eq(watches, 0);
    if (_i == 1) {
        ck_assert_int_eq(r, FN_E_EXHAUSTED);
        ck_assert_str_eq(err.msg, "fn.proc: No space left on device");
    } else {
        ck_assert_int_eq(r, 0);
        ck_assert(wait_exit());
        ck_assert_int_eq(seen.code, -SIGKILL);
    }
    ck_assert_int_eq(seen.exits, _i > 1);
}
END_TEST

START_TEST(nothing_is_inherited)
{
    int fd = dup2(1, 77);

    ck_assert_int_eq(fd, 77);
    run("[ -e /proc/self/fd/77 ] && echo leak; trap - PIPE; echo done", SPEC());
    ck_assert_str_eq(seen.out[1], "done\n");
    close(fd);
}
END_TEST

START_TEST(a_sweep_kills_by_prefix_but_not_what_is_kept)
{
    uint64_t a, b;
    uint32_t removed = 0;

    if (!has(FN_PROC_HAS_CGROUP)) {
        SKIP(NO_CGROUPS);
    }
    ck_assert_int_eq(spawn("sleep 100", SPEC(.cgroup_name = "test-sweep--old-1"), &a), 0);
    ck_assert_int_eq(spawn("sleep 100", SPEC(.cgroup_name = "test-sweep--new-1"), &b), 0);
    ck_assert_int_eq(table->sweep(&host, "test-sweep--", "test-sweep--new-", &removed, NULL), 0);
    ck_assert_uint_eq(removed, 1);
    ck_assert(wait_exit());
    ck_assert_int_eq(seen.exits, 1);
    ck_assert_int_eq(table->freeze(&host, b, 1, NULL), 0); /* still there */
}
END_TEST

/* Two nodes of one owner by mistake: they would kill each other's functions at every sweep. */
START_TEST(a_sweep_leaves_what_a_living_node_of_the_same_owner_has)
{
    const struct fn_host ours = host;
    struct proc *theirs;
    uint32_t removed = 0;
    uint64_t id;

    if (!has(FN_PROC_HAS_CGROUP)) {
        SKIP(NO_CGROUPS);
    }
    ck_assert_int_eq(spawn("sleep 100", SPEC(.cgroup_name = "test-twins--2-x"), &id), 0);
    ck_assert_int_eq(proc_create(&theirs, NULL), 0);
    host.priv = theirs;
    ck_assert_int_eq(table->sweep(&host, "test-twins--", "test-twins--2-", &removed, NULL), 0);
    host = ours;
    ck_assert_int_eq(table->sweep(&host, "test-twins--", "test-twins--1-", &removed, NULL), 0);
    ck_assert_uint_eq(removed, 0);
    ck_assert_int_eq(exits(), 0);
    proc_destroy(theirs); /* its mark goes with it */
    ck_assert_int_eq(table->sweep(&host, "test-twins--", "test-twins--1-", &removed, NULL), 0);
    ck_assert_uint_eq(removed, 1);
    ck_assert(wait_exit());
}
END_TEST

/* A mark that nobody remembered was taken for another's by all later sweeps. */
START_TEST(a_sweep_without_memory_is_made_up_for_by_the_next)
{
    uint32_t removed;
    int r;

    has(0); /* Check allocates for the first assertion of a line, also plugin_impl()'s */
    poor_begin(1);
    r = table->sweep(&host, "test-poor--", "test-poor--1-", &removed, &err);
    ck_assert(poor_end());
    ck_assert_int_eq(r, FN_E_EXHAUSTED);
    r = table->sweep(&host, "test-poor--", "test-poor--1-", &removed, &err);
    ck_assert_msg(r == 0, "%s", err.msg);
}
END_TEST

/* Another node: one function, frozen, and then the end that nobody can handle. */
static void die_with_a_frozen_function(const char *prefix, const char *keep, const char *name)
{
    struct proc *theirs;
    uint32_t removed;
    uint64_t id;

    if (proc_create(&theirs, NULL) < 0) {
        _exit(1);
    }
    host.priv = theirs;
    if (table->sweep(&host, prefix, keep, &removed, NULL) < 0 ||
        spawn("sleep 100", SPEC(.cgroup_name = name), &id) < 0 ||
        table->freeze(&host, id, 1, NULL) < 0) {
        _exit(2);
    }
    raise(SIGKILL);
}

START_TEST(a_sweep_removes_what_dead_nodes_of_any_owner_left)
{
    uint32_t removed = 0;
    uint64_t id;
    pid_t child;
    int status;

    if (!has(FN_PROC_HAS_CGROUP)) {
        SKIP(NO_CGROUPS);
    }
    ck_assert_int_eq(table->sweep(&host, "test-me--", "test-me--1-", &removed, NULL), 0);
    ck_assert_int_eq(spawn("sleep 100", SPEC(.cgroup_name = "test-me--1-x"), &id), 0);
    child = fork();
    if (child == 0) {
        die_with_a_frozen_function("test-dead--", "test-dead--1-", "test-dead--1-x");
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(spawn("sleep 100", SPEC(.cgroup_name = "test-unmarked--1-x"), &id), 0);
    ck_assert_int_eq(table->sweep(&host, "test-me--", "test-me--1-", &removed, NULL), 0);
    ck_assert_uint_eq(removed, 1);
    ck_assert_int_eq(table->sweep(&host, "test-me--", "test-me--1-", &removed, NULL), 0);
    ck_assert_uint_eq(removed, 0);
    ck_assert_int_eq(seen.exits, 0);
}
END_TEST

/* `name` in our cgroups of the first controller. */
static const char *cgroup_path(const char *name)
{
    static char path[CGROUP_PATH_MAX + 64];
    static struct cgroup_base base;

    ck_assert_int_eq(cgroup_detect(&base, NULL), 0);
    snprintf(path, sizeof(path), "%s/%s", base.dir[0], name);
    return path;
}

/* Nodes of other tests sweep, too. */
static bool is_swept(const char *name)
{
    uint32_t removed;

    for (int i = 0; i < 3 && access(cgroup_path(name), F_OK) == 0; i++) {
        table->sweep(&host, "test-me--", "test-me--1-", &removed, NULL);
    }
    return access(cgroup_path(name), F_OK) < 0;
}

/* A stranger's lock on a mark would keep what a dead node left. */
START_TEST(a_mark_is_closed_to_other_users)
{
    const char *mark;
    uint32_t removed;
    pid_t child;
    int status;

    if (!has(FN_PROC_HAS_CGROUP)) {
        SKIP(NO_CGROUPS);
    }
    ck_assert_int_eq(table->sweep(&host, "test-shut--", "test-shut--1-", &removed, NULL), 0);
    mark = cgroup_path("test-shut--1-alive");
    child = fork();
    if (child == 0) {
        _exit(seteuid(1) < 0 || open(mark, O_RDONLY) >= 0 || errno != EACCES);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Whichever is found first. */
START_TEST(a_dead_node_that_does_not_go_keeps_no_other)
{
    const char *stuck = _i == 0 ? "test-dead-1--alive" : "test-dead-2--alive";
    const char *other = _i == 0 ? "test-dead-2--alive" : "test-dead-1--alive";
    char in[] = "test-dead-?--x/in";
    char function[] = "test-dead-?--x";

    if (!has(FN_PROC_HAS_CGROUP)) {
        SKIP(NO_CGROUPS);
    }
    in[10] = function[10] = stuck[10];
    ck_assert_int_eq(mkdir(cgroup_path(function), 0755), 0);
    ck_assert_int_eq(mkdir(cgroup_path(in), 0755), 0); /* keeps it */
    ck_assert_int_eq(mkdir(cgroup_path(stuck), 0755), 0);
    ck_assert_int_eq(mkdir(cgroup_path(other), 0755), 0);
    ck_assert(is_swept(other));
    ck_assert_int_eq(access(cgroup_path(stuck), F_OK), 0);
    ck_assert_int_eq(rmdir(cgroup_path(in)), 0);
    ck_assert(is_swept(stuck));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proc");
    TCase *t = tcase_create("proc");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, output_comes_before_the_end);
    tcase_add_test(t, a_signal_is_a_negative_code);
    tcase_add_test(t, a_killed_group_leaves_nobody);
    tcase_add_loop_test(t, an_instance_that_goes_has_heard_of_all_its_children, 0, 2);
    tcase_add_test(t, a_frozen_child_does_nothing_and_can_be_killed);
    tcase_add_test(t, memory_beyond_the_limit_is_reported);
    tcase_add_test(t, a_kill_is_not_taken_for_a_lack_of_memory);
    tcase_add_test(t, the_child_sees_its_own_world);
    tcase_add_test(t, the_number_of_processes_is_limited);
    tcase_add_test(t, a_child_has_a_share_of_the_processors);
    tcase_add_test(t, errors_name_the_step);
    tcase_add_loop_test(t, a_child_that_cannot_be_watched_is_killed, 1, 4);
    tcase_add_test(t, nothing_is_inherited);
    tcase_add_test(t, a_sweep_kills_by_prefix_but_not_what_is_kept);
    tcase_add_test(t, a_sweep_leaves_what_a_living_node_of_the_same_owner_has);
    tcase_add_test(t, a_sweep_without_memory_is_made_up_for_by_the_next);
    tcase_add_test(t, a_sweep_removes_what_dead_nodes_of_any_owner_left);
    tcase_add_test(t, a_mark_is_closed_to_other_users);
    tcase_add_loop_test(t, a_dead_node_that_does_not_go_keeps_no_other, 0, 2);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
