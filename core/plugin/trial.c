/* The trial: a child process loads the sealed copy before this process risks it. It catches what a
 * constructor (or the entry function) can do to a process: crash it, end it, hang it. It is no
 * sandbox for what follows: a file that passes runs with all rights of the node.
 *
 * The child is fnd-plugprobe, started anew so that it has nothing of ours: the copy on descriptor
 * 3, a pipe on 4, /dev/null for the standard streams, of the environment what `kept` names. It
 * limits itself (memory, cores, system calls) and writes a line per step: "dlopen", "entry", then
 * "done", or "error <text>". */
#include <plugin/plugin_int.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_NAME "fnd-plugprobe"
#define CHILD_FD_MIN 10 /* above those that the child gets */
#define POLL_MS 10
#define REPORT_BYTES 1024

struct trial {
    struct plugin_check *c;
    int fd;     /* of the copy */
    int report; /* our end of the pipe */
    pid_t pid;
    int64_t waited_ms; /* polls count the time: no clock is needed */
    int64_t timeout_ms;
    char text[REPORT_BYTES];
    size_t len;
};

static int not_possible(struct plugin_check *c, const char *what, int err)
{
    return plugin_problem(c, FN_E_UNAVAILABLE, "PLG920",
                          "no trial is possible: %s: %s; expected a "
                          "working " PROBE_NAME ", or plugins.trial: false",
                          what, strerror(err));
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool find_probe(const struct plugin_host *h, char *ret, size_t cap)
{
    char exe[PATH_MAX];
    ssize_t n;
    char *slash;

    if (h->policy.probe) {
        snprintf(ret, cap, "%s", h->policy.probe);
        return true;
    }
    n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0) {
        snprintf(ret, cap, PROBE_NAME);
        return false;
    }
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    *slash = '\0';
    if (snprintf(ret, cap, "%s/" PROBE_NAME, exe) < (int)cap && access(ret, X_OK) == 0) {
        return true;
    }
    return snprintf(ret, cap, "%s/../libexec/fnd/" PROBE_NAME, exe) < (int)cap &&
           access(ret, X_OK) == 0;
}

/* What the linker and sanitizers heed. Nothing else of the node's environment, which may hold
 * passwords, reaches a file that nobody trusts yet. */
static const char *const kept[] = { "LD_LIBRARY_PATH=", "LD_PRELOAD=",   "GLIBC_TUNABLES=",
                                    "ASAN_OPTIONS=",    "LSAN_OPTIONS=", "TSAN_OPTIONS=",
                                    "UBSAN_OPTIONS=" };

#define KEPT_N (sizeof(kept) / sizeof(kept[0]))

/* ret: of KEPT_N + 1 */
static void keep_environment(char **ret)
{
    size_t n = 0;

    for (size_t i = 0; i < KEPT_N; i++) {
        for (char **e = environ; e && *e; e++) {
            if (strncmp(*e, kept[i], strlen(kept[i])) == 0) {
                ret[n++] = *e;
                break;
            }
        }
    }
    ret[n] = NULL;
}

static int spawn(const char *probe, int copy, int report, pid_t *ret)
{
    char *const argv[] = { (char *)(uintptr_t)PROBE_NAME, NULL };
    char *environment[KEPT_N + 1];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    int r;

    keep_environment(environment);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, 0, 1);
    posix_spawn_file_actions_adddup2(&files, 0, 2);
    posix_spawn_file_actions_adddup2(&files, copy, 3);
    posix_spawn_file_actions_adddup2(&files, report, 4);
    posix_spawn_file_actions_addclosefrom_np(&files, 5);
    r = posix_spawn(ret, probe, &files, &attr, argv, environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return r;
}

static int trial_start(struct trial *t)
{
    char probe[PATH_MAX + 32];
    int ends[2];
    int copy;
    int report;
    int r;

    if (!find_probe(t->c->host, probe, sizeof(probe))) {
        return not_possible(t->c, probe, ENOENT);
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return not_possible(t->c, "pipe", errno);
    }
    copy = fcntl(t->fd, F_DUPFD_CLOEXEC, CHILD_FD_MIN);
    report = fcntl(ends[1], F_DUPFD_CLOEXEC, CHILD_FD_MIN);
    r = copy < 0 || report < 0 ? errno : spawn(probe, copy, report, &t->pid);
    if (copy >= 0) {
        close(copy);
    }
    if (report >= 0) {
        close(report);
    }
    close(ends[1]);
    if (r != 0) {
        close(ends[0]);
        return not_possible(t->c, probe, r);
    }
    t->report = ends[0];
    return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* The last whole line of the report. */
static const char *last_line(struct trial *t)
{
    char *end = memrchr(t->text, '\n', t->len);
    char *begin;

    if (!end) {
        return "";
    }
    *end = '\0';
    begin = strrchr(t->text, '\n');
    return begin ? begin + 1 : t->text;
}

static bool ended_well(const struct trial *t)
{
    return t->len >= 5 && memcmp(t->text + t->len - 5, "done\n", 5) == 0;
}

/* Reads until the hand-shake, the end of the pipe, or the deadline. False at the deadline. */
static bool read_report(struct trial *t)
{
    struct pollfd p = { .fd = t->report, .events = POLLIN };
    ssize_t n;

    while (t->waited_ms < t->timeout_ms) {
        if (poll(&p, 1, POLL_MS) <= 0) {
            t->waited_ms += POLL_MS;
            continue;
        }
        n = read(t->report, t->text + t->len, sizeof(t->text) - 1 - t->len);
        if (n <= 0 || t->len + (size_t)n == sizeof(t->text) - 1) {
            return true;
        }
        t->len += (size_t)n;
        if (ended_well(t)) {
            return true;
        }
    }
    return false;
}

/* False when it was still there at the deadline. It is gone afterwards, with all it started. */
static bool reap(struct trial *t, bool wait, int *ret_status)
{
    bool gone = false;

    while (wait && !gone && t->waited_ms < t->timeout_ms) {
        gone = waitpid(t->pid, ret_status, WNOHANG) != 0;
        if (!gone) {
            poll(NULL, 0, 1);
            t->waited_ms++;
        }
    }
    kill(-t->pid, SIGKILL);
    if (!gone) {
        while (waitpid(t->pid, ret_status, 0) < 0 && errno == EINTR) {
        }
    }
    return gone;
}

/* ---- verdict --------------------------------------------------------------------------------- */

static const char *step_words(const char *step)
{
    if (strcmp(step, "entry") == 0) {
        return "fn_plugin_v1() ran";
    }
    return strcmp(step, "dlopen") == 0 ? "it was loaded" : "it was prepared";
}

static int trial_refuse(struct trial *t, bool in_time, int status)
{
    const char *line = last_line(t);
    struct plugin_check *c = t->c;
    int signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    char shown[REPORT_BYTES * 4];

    if (!in_time) {
        return plugin_problem(c, FN_E_DEADLINE, "PLG912",
                              "did not load within %lld ms in the trial (while %s); expected "
                              "constructors that return",
                              (long long)t->timeout_ms, step_words(line));
    }
    if (strncmp(line, "error ", 6) == 0) {
        return plugin_problem(c, FN_E_INVALID, "PLG908", "%s; %s",
                              plugin_clean(line + 6, shown, 512), plugin_linker_advice(line));
    }
    if (signo == SIGSYS) {
        return plugin_problem(c, FN_E_PERMISSION, "PLG911",
                              "made a forbidden system call in the trial (while %s): started a "
                              "process or touched another one; expected none before create()",
                              step_words(line));
    }
    if (signo) {
        return plugin_problem(c, FN_E_INTERNAL, "PLG911",
                              "crashed in the trial (while %s): SIG%s, %s", step_words(line),
                              sigabbrev_np(signo) ? sigabbrev_np(signo) : "?",
                              sigdescr_np(signo) ? sigdescr_np(signo) : "unknown signal");
    }
    return plugin_problem(c, FN_E_INTERNAL, "PLG913",
                          "ended the trial process (while %s) with exit code %d; expected a plugin "
                          "that never ends its process",
                          step_words(line), WEXITSTATUS(status));
}

int plugin_trial(struct plugin_check *c, int fd)
{
    struct trial t = { .c = c, .fd = fd, .timeout_ms = c->host->policy.trial_timeout_ns / ENV_MS };
    bool in_time;
    int status = 0;
    int r;

    r = trial_start(&t);
    if (r < 0) {
        return r;
    }
    in_time = read_report(&t);
    close(t.report);
    if (in_time && ended_well(&t)) {
        reap(&t, false, &status);
        return 0;
    }
    in_time = reap(&t, in_time, &status) && in_time;
    return trial_refuse(&t, in_time, status);
}
