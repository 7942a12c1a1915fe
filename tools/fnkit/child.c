/* fork() with a pipe: how the child ended is told in a sentence, and after the time that it has
 * it is killed. */
#include "fnkit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A result that did not arrive is none, whatever it was. */
int fnkit_written(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    fprintf(stderr, "fnkit: the output, got %s; expected room for it\n", strerror(errno));
    return FNKIT_UNAVAILABLE;
}

/* The child: its last byte on the pipe proves that work() came back. */
static void run_child(int (*work)(void *ud), void *ud, int fd)
{
    const struct rlimit none = { 0, 0 };
    unsigned char result;

    setrlimit(RLIMIT_CORE, &none);
    result = (unsigned char)fnkit_written(work(ud));
    fflush(NULL);
    if (write(fd, &result, 1) != 1) {
        _exit(FNKIT_UNAVAILABLE);
    }
    _exit(0);
}

/* 1 = a byte came, 0 = the pipe closed without one, -1 = time is up. */
static int wait_byte(int fd, int timeout_ms, unsigned char *ret)
{
    int64_t until = now_ms() + timeout_ms;
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int64_t left;
    int n;

    for (;;) {
        left = until - now_ms();
        n = poll(&p, 1, left > 0 ? (int)left : 0);
        if (n > 0) {
            return read(fd, ret, 1) == 1;
        }
        if (n == 0) {
            return -1;
        }
        if (errno != EINTR) {
            return 0;
        }
    }
}

void child_tell(int got, int status, const char *path, int timeout_ms, char *why, size_t cap)
{
    if (got < 0) {
        snprintf(why, cap, "PLG912 %s: did not come back within %d ms; expected to load at once",
                 path, timeout_ms);
    } else if (WIFSIGNALED(status)) {
        snprintf(why, cap, "PLG911 %s: crashed while it was loaded: %s", path,
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(why, cap, "PLG913 %s: ended the process with exit code %d while it was loaded",
                 path, WEXITSTATUS(status));
    }
}

int child_run(int (*work)(void *ud), void *ud, const char *path, int timeout_ms, char *why,
              size_t cap)
{
    unsigned char result = 0;
    int status = 0;
    int fds[2];
    int got;
    pid_t pid;

    fflush(NULL);
    if (pipe(fds) < 0) {
        snprintf(why, cap, "no pipe: %s", strerror(errno));
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        run_child(work, ud, fds[1]);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        snprintf(why, cap, "no child process: %s", strerror(errno));
        return -1;
    }
    got = wait_byte(fds[0], timeout_ms, &result);
    close(fds[0]);
    if (got < 0) {
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (got == 1) {
        return result;
    }
    child_tell(got, status, path, timeout_ms, why, cap);
    return -1;
}
