/* One run: posix_spawn into a process group, then a poll over both pipes and the process's pidfd.
 *
 * The pidfd, not the end of the pipes, ends the run: a grandchild that keeps a pipe open must not
 * hold the operation. Output beyond the limit is read and dropped, so that the program does not
 * block on a full pipe. */
#include <loop/exec.h>
#include <loop/loop_int.h>

#include <base/view.h>
#include <plugin/plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_CHUNK     16384
#define READS_PER_TURN 64
#define OUTPUT_CEILING (64 * 1024 * 1024)

/* Sizes in version 1.0 of fn.exec. */
#define REQUEST_MIN 48
#define RESULT_MIN  24

/* One kept output. */
struct output {
    int fd; /* -1 once closed */
    char *data;
    size_t len, max;
};

struct run {
    pid_t pid;
    int pidfd;
    int child_fd[3]; /* what becomes 0, 1, 2 of the program */
    struct output out[2];
};

/* ---- start ----------------------------------------------------------------------------------- */

static int open_stdin(const char *text)
{
    size_t len = text ? strlen(text) : 0;
    size_t at = 0;
    int fd;

    if (!text) {
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    fd = memfd_create("stdin", MFD_CLOEXEC);
    while (fd >= 0 && at < len) {
        ssize_t n = write(fd, text + at, len - at);

        if (n < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0) {
        lseek(fd, 0, SEEK_SET);
    }
    return fd;
}

static int open_output(struct run *run, int i, uint64_t max)
{
    struct output *o = &run->out[i];
    int p[2];

    o->max = max == 0 ? EXEC_OUTPUT_MAX : max < OUTPUT_CEILING ? (size_t)max : OUTPUT_CEILING;
    o->data = malloc(o->max + 1);
    if (!o->data || pipe2(p, O_CLOEXEC) < 0) {
        return -1;
    }
    o->fd = p[0];
    run->child_fd[i + 1] = p[1];
    return fcntl(p[0], F_SETFL, O_NONBLOCK);
}

static int spawn(struct run *run, const struct fn_exec_request *rq, const char *const *env)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r = 0;

    posix_spawn_file_actions_init(&fa);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    for (int i = 0; r == 0 && i < 3; i++) {
        r = posix_spawn_file_actions_adddup2(&fa, run->child_fd[i], i);
    }
    if (r == 0) {
        r = posix_spawn_file_actions_addclosefrom_np(&fa, 3);
    }
    if (r == 0 && rq->cwd) {
        r = posix_spawn_file_actions_addchdir_np(&fa, rq->cwd);
    }
    if (r == 0) {
        r = posix_spawnp(&run->pid, rq->argv[0], &fa, &attr, (char *const *)(uintptr_t)rq->argv,
                         (char *const *)(uintptr_t)env);
    }
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&fa);
    return r;
}

static int exec_start(struct run *run, const struct fn_exec_request *rq, struct fn_error *reterr)
{
    const char *path = getenv("PATH");
    char only_path[4096];
    const char *const dflt[] = { only_path, NULL };
    int r;

    snprintf(only_path, sizeof(only_path), "PATH=%s", path ? path : "/usr/bin:/bin");
    run->child_fd[0] = open_stdin(rq->stdin_text);
    if (run->child_fd[0] < 0 || open_output(run, 0, rq->output_max) < 0 ||
        open_output(run, 1, rq->output_max) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.exec: no memory or descriptors for \"%.80s\"",
                       rq->argv[0]);
    }
    r = spawn(run, rq, rq->env ? rq->env : dflt);
    if (r != 0) {
        return err_set(reterr, err_from_errno(r), "fn.exec: cannot run \"%.100s\": %s", rq->argv[0],
                       strerror(r));
    }
    run->pidfd = pidfd_open(run->pid, 0);
    if (run->pidfd < 0) {
        r = errno;
        kill(-run->pid, SIGKILL);
        waitpid(run->pid, NULL, 0);
        return err_set(reterr, FN_E_EXHAUSTED, "fn.exec: pidfd_open: %s", strerror(r));
    }
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

/* At most READS_PER_TURN reads: a program that never stops writing must not outrun its deadline. */
static void drain(struct output *o)
{
    char chunk[READ_CHUNK];
    ssize_t n;

    for (int i = 0; i < READS_PER_TURN && o->fd >= 0; i++) {
        n = read(o->fd, chunk, sizeof(chunk));
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            close(o->fd);
            o->fd = -1;
            return;
        }
        if ((size_t)n > o->max - o->len) {
            n = (ssize_t)(o->max - o->len);
        }
        memcpy(o->data + o->len, chunk, (size_t)n);
        o->len += (size_t)n;
    }
}

/* Until the program has ended: 0, FN_E_DEADLINE or FN_E_CANCELLED. */
static int watch(struct run *run, struct fn_op *op, int64_t deadline_ns)
{
    struct pollfd p[3];
    int64_t left_ns;

    for (;;) {
        left_ns = deadline_ns - loop_clock_ns();
        if (left_ns <= 0) {
            return FN_E_DEADLINE;
        }
        if (op && loop_op_if()->cancelled(op)) {
            return FN_E_CANCELLED;
        }
        p[0] = (struct pollfd){ .fd = run->pidfd, .events = POLLIN };
        p[1] = (struct pollfd){ .fd = run->out[0].fd, .events = POLLIN };
        p[2] = (struct pollfd){ .fd = run->out[1].fd, .events = POLLIN };
        poll(p, 3, left_ns < EXEC_POLL_MS * ENV_MS ? (int)(left_ns / ENV_MS) + 1 : EXEC_POLL_MS);
        drain(&run->out[0]);
        drain(&run->out[1]);
        if (p[0].revents) {
            drain(&run->out[0]); /* written between the two reads and the end */
            drain(&run->out[1]);
            return 0;
        }
    }
}

static void close_fds(struct run *run)
{
    for (int i = 0; i < 3; i++) {
        if (run->child_fd[i] >= 0) {
            close(run->child_fd[i]);
            run->child_fd[i] = -1;
        }
    }
}

static void exec_finish(struct run *run)
{
    close_fds(run);
    for (int i = 0; i < 2; i++) {
        if (run->out[i].fd >= 0) {
            close(run->out[i].fd);
        }
        free(run->out[i].data);
    }
    if (run->pidfd >= 0) {
        close(run->pidfd);
    }
}

static char *take_output(struct output *o)
{
    char *data = o->data;

    data[o->len] = '\0';
    o->data = NULL;
    return data;
}

static int64_t deadline_of(struct fn_op *op, uint32_t timeout_ms)
{
    int64_t own_ns = timeout_ms ? loop_clock_ns() + timeout_ms * ENV_MS : INT64_MAX;
    int64_t op_ns = op ? loop_op_if()->deadline_ns(op) : INT64_MAX;

    return own_ns < op_ns ? own_ns : op_ns;
}

int exec_run(struct fn_op *op, const struct fn_exec_request *rq, struct fn_exec_result *ret,
             struct fn_error *reterr)
{
    struct run run = { .pidfd = -1, .child_fd = { -1, -1, -1 },
                       .out = { { .fd = -1 }, { .fd = -1 } } };
    int64_t deadline_ns;
    int status = 0;
    int r;

    if (!rq || rq->size < sizeof(*rq) || !rq->argv || !rq->argv[0] || !*rq->argv[0]) {
        return err_set(reterr, FN_E_INVALID, "fn.exec: request without a program");
    }
    deadline_ns = deadline_of(op, rq->timeout_ms);
    r = exec_start(&run, rq, reterr);
    if (r < 0) {
        exec_finish(&run);
        return r;
    }
    close_fds(&run);
    r = watch(&run, op, deadline_ns);
    /* The leader is not reaped yet, so that its group's number cannot belong to anybody else. */
    kill(-run.pid, SIGKILL);
    while (waitpid(run.pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (r < 0) {
        err_set(reterr, r, "fn.exec: \"%.100s\" %s", rq->argv[0],
                r == FN_E_DEADLINE ? "did not end in time and was killed" : "was cancelled");
    } else {
        ret->size = sizeof(*ret);
        ret->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        ret->out = take_output(&run.out[0]);
        ret->err = take_output(&run.out[1]);
    }
    exec_finish(&run);
    return r;
}

void exec_free_result(struct fn_exec_result *given)
{
    if (given) {
        free(given->out);
        free(given->err);
        given->out = given->err = NULL;
    }
}

static int if_run(const struct fn_host *host, struct fn_op *op, const struct fn_exec_request *rq,
                  struct fn_exec_result *ret, struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.exec.run");
    struct fn_exec_request known;
    struct fn_exec_result got = { .size = sizeof(got) };
    int r = view_take(&known, sizeof(known), rq, REQUEST_MIN);

    (void)host;
    if (r < 0 || view_can_give(ret, RESULT_MIN) < 0) {
        return err_set(reterr, r < 0 ? r : FN_E_INVALID,
                       "fn.exec: size of the %s is none that this host knows",
                       r < 0 ? "request" : "result");
    }
    r = exec_run(op, &known, &got, reterr);
    if (r == 0) {
        view_give(ret, &got, sizeof(got));
    }
    return r;
}

const struct fn_exec_if *exec_if(void)
{
    static const struct fn_exec_if table = { FN_HDR(struct fn_exec_if, FN_MAGIC_EXEC), if_run,
                                             exec_free_result };

    return &table;
}
