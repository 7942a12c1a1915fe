/*
 * misbehave: a function that breaks the contract, one way per mode, to test a platform with.
 *
 * The mode, "<name> [argument]", comes from FN_MODE, or with FN_MODE unset from the body of each
 * call. An empty body, or "ok", is answered properly. Modes that concern the start or the time
 * before a request is read exist in FN_MODE only. `misbehave --modes` prints them all.
 */
#include "sample.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
#define OK_CLOSE_ANSWER "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nfirst"
#define STALE_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale"
#define CHUNKED_HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNKED_CLOSE_HEAD \
    "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"

#define DRIP_MS 1000
#define OOM_MAX_MIB 1024 /* without a memory limit the machine itself must survive */
#define STEP_BYTES (1024u * 1024)
#define FRAGMENT_STEP_BYTES 16384u
#define LOG_LINES 1000000u
#define LOG_LINE_BYTES (1024u * 1024 * 1024)
#define HEAD_FLOOD_BYTES (11u * 1024 * 1024)

static uint64_t number_or(const char *text, uint64_t otherwise)
{
    uint64_t number = otherwise;

    (void)sample_number(text, UINT64_MAX, &number);
    return number;
}

static _Noreturn void wait_for_ever(void)
{
    for (;;) {
        (void)pause();
    }
}

/* Until the other side closes or, wrongly, sends a next request. */
static void hold(int fd)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    (void)poll(&poll_fd, 1, -1);
}

/* In a call: fixed answers. */

struct raw_answer {
    const char *name, *bytes;
    size_t len;
    int held; /* the connection stays open behind it */
};

#define RAW(name, bytes) {name, bytes, sizeof(bytes) - 1, 0}
#define RAW_HELD(name, bytes) {name, bytes, sizeof(bytes) - 1, 1}

static const struct raw_answer raw_answers[] = {
    RAW("close", ""),
    RAW("garbage", "\x16\x03\x01\xffneither HTTP nor anything else\r\n\r\n"),
    RAW("half-line", "HTTP/1.1 20"),
    RAW("no-head-end", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"),
    RAW("version", "HTTP/9.9 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    RAW("header-name", "HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 5\r\n\r\nhello"),
    RAW("header-nul", "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 5\r\n\r\nhello"),
    RAW("short-body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
    RAW("short-chunk", CHUNKED_HEAD "a\r\nhello"),
    RAW("no-last-chunk", CHUNKED_HEAD "5\r\nhello\r\n"),
    RAW("negative-chunk", CHUNKED_HEAD "-5\r\nhello\r\n0\r\n\r\n"),
    RAW("bad-chunk", CHUNKED_HEAD "zz\r\nhello\r\n0\r\n\r\n"),
    RAW("long-chunk", CHUNKED_HEAD "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    RAW("negative-cl", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"),
    RAW("bad-cl", "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello"),
    RAW("huge-cl", "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\nhello"),
    RAW("two-cl", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    RAW("cl-te", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "5\r\nhello\r\n0\r\n\r\n"),
    RAW_HELD("two-answers", OK_ANSWER STALE_ANSWER),
    RAW_HELD("extra-bytes", OK_ANSWER "and more"),
    RAW_HELD("no-answer", ""),
    /* Unusual, yet proper. */
    RAW("until-close", "HTTP/1.1 200 OK\r\n\r\nhello"),
    RAW("http-1.0", "HTTP/1.0 200 OK\r\n\r\nhello"),
    RAW("chunked", CHUNKED_CLOSE_HEAD "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: t\r\n\r\n"),
    RAW("continue", "HTTP/1.1 100 Continue\r\n\r\n" OK_CLOSE_ANSWER),
};

static const struct raw_answer *raw_answer_find(const char *name)
{
    for (size_t i = 0; i < sizeof(raw_answers) / sizeof(raw_answers[0]); i++) {
        if (strcmp(raw_answers[i].name, name) == 0)
            return &raw_answers[i];
    }
    return NULL;
}

static int raw_answer_send(int fd, const struct raw_answer *answer)
{
    int rc = sample_send(fd, answer->bytes, answer->len);

    if (rc == 0 && answer->held)
        hold(fd);
    return rc;
}

/* In a call: everything else. */

static int answer_ok(struct fdk_call *call, const char *arg)
{
    (void)arg;
    return fdk_answer_printf(call, "ok\n");
}

static int answer_fail(struct fdk_call *call, const char *arg)
{
    (void)fdk_answer_printf(call, "%s\n", arg);
    return -1;
}

static int answer_status(struct fdk_call *call, const char *arg)
{
    return dprintf(fdk_connection(call),
                   "HTTP/1.1 %s Odd\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", arg);
}

static int answer_header(struct fdk_call *call, const char *arg)
{
    return dprintf(fdk_connection(call),
                   "HTTP/1.1 200 OK\r\n%s\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
                   arg);
}

static int head_flood(struct fdk_call *call, const char *arg)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n";
    static const char line[] = "X-Flood: 0123456789012345678901234567890123456789\r\n";
    uint64_t left = number_or(arg, HEAD_FLOOD_BYTES);
    int fd = fdk_connection(call);
    int rc = sample_send(fd, head, strlen(head));

    for (; rc == 0 && left >= sizeof(line) - 1; left -= sizeof(line) - 1) {
        rc = sample_send(fd, line, sizeof(line) - 1);
    }
    return rc ? rc : sample_send(fd, "\r\nhello", 7);
}

/* One byte each DRIP_MS, from byte number `from` on. */
static int drip(struct fdk_call *call, const char *arg, size_t from)
{
    char answer[256];
    uint64_t body_len = number_or(arg, 120);
    int fd = fdk_connection(call), rc;
    size_t head_len, len;

    if (body_len > sizeof(answer) / 2)
        return -1;
    head_len = (size_t)snprintf(answer, sizeof(answer),
                                "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n",
                                (unsigned)body_len);
    len = head_len + (size_t)body_len;
    (void)memset(answer + head_len, '.', (size_t)body_len);
    from = from < head_len ? from : head_len;
    rc = sample_send(fd, answer, from);
    for (; rc == 0 && from < len; from++) {
        rc = sample_send(fd, answer + from, 1);
        sample_wait_ms(DRIP_MS);
    }
    return rc;
}

static int slow_drip(struct fdk_call *call, const char *arg)
{
    return drip(call, arg, SIZE_MAX);
}

static int slow_head(struct fdk_call *call, const char *arg)
{
    return drip(call, arg, 0);
}

static int crash(struct fdk_call *call, const char *arg)
{
    (void)call;
    (void)arg;
    abort();
}

static int leave(struct fdk_call *call, const char *arg)
{
    (void)call;
    exit((int)number_or(arg, 1));
}

static int oom(struct fdk_call *call, const char *arg)
{
    uint64_t mib = number_or(arg, OOM_MAX_MIB);

    for (uint64_t i = 0; i < mib; i++) {
        volatile char *step = malloc(STEP_BYTES);

        for (size_t at = 0; step && at < STEP_BYTES; at += 4096) {
            step[at] = 1;
        }
    }
    return fdk_answer_printf(call, "survived %llu MiB\n", (unsigned long long)mib);
}

static int log_flood(struct fdk_call *call, const char *arg)
{
    uint64_t lines = number_or(arg, LOG_LINES);

    for (uint64_t i = 0; i < lines; i++) {
        (void)fprintf(i % 2 ? stdout : stderr, "line %llu \x01\xfe\xc2\x9b of a flood\n",
                      (unsigned long long)i);
    }
    (void)fflush(stdout);
    return fdk_answer_printf(call, "%llu lines\n", (unsigned long long)lines);
}

static int log_line(struct fdk_call *call, const char *arg)
{
    static char piece[64 * 1024];
    uint64_t left = number_or(arg, LOG_LINE_BYTES);

    (void)memset(piece, 'x', sizeof(piece));
    for (; left; left -= left < sizeof(piece) ? left : sizeof(piece)) {
        (void)fwrite(piece, 1, left < sizeof(piece) ? left : sizeof(piece), stdout);
    }
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    return answer_ok(call, arg);
}

/* Path of the published socket; "" when FN_LISTENER is malformed. */
static const char *listener_path(void)
{
    const char *listener = getenv("FN_LISTENER");

    return listener && strncmp(listener, "unix:/", 6) == 0 ? listener + 5 : "";
}

/* Points the published name somewhere else, answers and closes, so that a connect must follow. */
static int symlink_swap(struct fdk_call *call, const char *arg)
{
    char fresh[PATH_MAX];
    const char *target = *arg ? arg : "/run/docker.sock";

    (void)snprintf(fresh, sizeof(fresh), "%s.new", listener_path());
    if (symlink(target, fresh) < 0 || rename(fresh, listener_path()) < 0)
        return -errno;
    return sample_send(fdk_connection(call), OK_CLOSE_ANSWER, sizeof(OK_CLOSE_ANSWER) - 1);
}

/* A file beside the socket whose every extent costs the kernel a step when it is removed. */
static int fragments(struct fdk_call *call, const char *arg)
{
    uint64_t wanted = number_or(arg, 1000000);
    uint64_t written = 0;
    char path[PATH_MAX];
    int fd;

    (void)snprintf(path, sizeof(path), "%s.fragments", listener_path());
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    while (fd >= 0 && written < wanted &&
           pwrite(fd, "x", 1, (off_t)(written * FRAGMENT_STEP_BYTES)) == 1) {
        written++;
    }
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
    return fdk_answer_printf(call, "%llu fragments\n", (unsigned long long)written);
}

static _Noreturn void become(const char *path)
{
    char *argv[] = {(char *)path, NULL};

    (void)execve(path, argv, environ);
    _exit(errno);
}

/* A program beside the socket, a place that only sockets are for. */
static int run_beside(struct fdk_call *call, const char *arg)
{
    static const char script[] = "#!/bin/sh\nexit 0\n";
    char path[PATH_MAX];
    int status = 0;
    pid_t pid = -1;
    int fd;

    (void)arg;
    (void)snprintf(path, sizeof(path), "%s.program", listener_path());
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
    if (fd < 0 || write(fd, script, sizeof(script) - 1) < 0 || close(fd) < 0)
        return fdk_answer_printf(call, "cannot write: %s\n", strerror(errno));
    pid = fork();
    if (pid == 0)
        become(path);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return fdk_answer_printf(call, "cannot start: %s\n", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return fdk_answer_printf(call, "ran\n");
    return fdk_answer_printf(call, "refused: %s\n", strerror(WEXITSTATUS(status)));
}

static const struct {
    const char *name;
    int (*act)(struct fdk_call *call, const char *arg);
    const char *help;
} call_modes[] = {
    {"ok", answer_ok, "a proper answer"},
    {"fail", answer_fail, "[text]: a function error"},
    {"status", answer_status, "<text>: an answer with that status and a body"},
    {"header", answer_header, "<line>: an answer with that header line"},
    {"head-flood", head_flood, "[bytes]: a head of that size"},
    {"slow-drip", slow_drip, "[bytes]: the body, one byte per second"},
    {"slow-head", slow_head, "[bytes]: the same, from the first byte of the head"},
    {"crash", crash, "abort in the call"},
    {"exit", leave, "[code]: leave in the call"},
    {"oom", oom, "[MiB]: allocate that much, or until killed"},
    {"log-flood", log_flood, "[lines]: write that many lines, then answer"},
    {"log-line", log_line, "[bytes]: write one line of that size, then answer"},
    {"fragments", fragments, "[n]: write that many far bytes of a file beside the socket"},
    {"run-beside", run_beside, "write a program beside the socket and run it"},
    {"symlink-swap", symlink_swap, "[target]: re-point the socket, answer, close"},
};

/* Splits "<name> [argument]". Returns the argument. */
static const char *mode_split(const char *mode, char *name, size_t size)
{
    const char *arg = strchrnul(mode, ' ');

    (void)snprintf(name, size, "%.*s", (int)(arg - mode), mode);
    return arg + strspn(arg, " ");
}

static int misbehave(struct fdk_call *call, void *ud)
{
    const char *mode = ud ? ud : fdk_body(call, NULL);
    char name[32];
    const char *arg = mode_split(*mode ? mode : "ok", name, sizeof(name));
    const struct raw_answer *raw = raw_answer_find(name);

    if (raw)
        return raw_answer_send(fdk_connection(call), raw);
    for (size_t i = 0; i < sizeof(call_modes) / sizeof(call_modes[0]); i++) {
        if (strcmp(call_modes[i].name, name) == 0)
            return call_modes[i].act(call, arg);
    }
    (void)fdk_answer_printf(call, "mode, got \"%s\"; see misbehave --modes\n", name);
    return -EINVAL;
}

/* At the start, and before a request is read. These return the exit code of the process. */

static int never_listens(const char *arg)
{
    (void)arg;
    wait_for_ever();
}

static int exits_early(const char *arg)
{
    (void)fprintf(stderr, "exits-early: this was meant to happen\n");
    return (int)number_or(arg, 3);
}

/* Accepts for ever and treats each connection the same way. */
static int accept_each(void (*treat)(int fd, uint64_t bytes), uint64_t bytes)
{
    int listen_fd = fdk_listen(getenv("FN_LISTENER")), fd;

    if (listen_fd < 0)
        return 1;
    for (;;) {
        fd = accept(listen_fd, NULL, NULL);
        if (fd < 0)
            return 1;
        treat(fd, bytes);
        (void)close(fd);
    }
}

static void read_some(int fd, uint64_t bytes)
{
    char data[4096];
    ssize_t len = 1;

    while (bytes && len > 0) {
        len = read(fd, data, bytes < sizeof(data) ? (size_t)bytes : sizeof(data));
        bytes -= len > 0 ? (uint64_t)len : 0;
    }
}

static void answer_then_read(int fd, uint64_t bytes)
{
    read_some(fd, bytes);
    if (sample_send(fd, OK_ANSWER, sizeof(OK_ANSWER) - 1) == 0)
        read_some(fd, UINT64_MAX);
}

static void keep(int fd, uint64_t bytes)
{
    (void)fd;
    (void)bytes;
    wait_for_ever();
}

static int early_answer(const char *arg)
{
    return accept_each(answer_then_read, number_or(arg, 2));
}

static int close_early(const char *arg)
{
    return accept_each(read_some, number_or(arg, 0));
}

static int not_reading(const char *arg)
{
    (void)arg;
    return accept_each(keep, 0);
}

/* A good socket appears as "other"; the published name is what the argument says. */
static int odd_socket(const char *arg)
{
    const char *path = listener_path();
    char other[PATH_MAX];
    int listen_fd, rc;

    (void)snprintf(other, sizeof(other), "unix:%.*s/other", (int)(strrchr(path, '/') - path), path);
    listen_fd = fdk_listen(other);
    if (listen_fd < 0)
        return 1;
    if (strcmp(arg, "file") == 0)
        rc = open(path, O_CREAT | O_RDWR, 0666);
    else if (strcmp(arg, "fifo") == 0)
        rc = mkfifo(path, 0666);
    else if (strcmp(arg, "dir") == 0)
        rc = mkdir(path, 0777);
    else
        rc = symlink(arg, path);
    return rc < 0 ? 1 : fdk_serve(listen_fd, misbehave, NULL) < 0;
}

/* The name is there, but nobody listens yet. */
static int late_listen(const char *arg)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%.100s", listener_path());
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        chmod(addr.sun_path, 0666) < 0)
        return 1;
    sample_wait_ms(number_or(arg, 500));
    return listen(fd, 16) < 0 || fdk_serve(fd, misbehave, NULL) < 0;
}

static const struct {
    const char *name;
    int (*run)(const char *arg);
    const char *help;
} start_modes[] = {
    {"never-listens", never_listens, "no socket, ever"},
    {"exits-early", exits_early, "[code]: leave before the socket is there"},
    {"early-answer", early_answer, "[bytes]: answer after that much of the request, read the rest"},
    {"close-early", close_early, "[bytes]: close after that much of the request"},
    {"not-reading", not_reading, "accept one connection and never read it"},
    {"socket", odd_socket, "file|fifo|dir|<link text>: what stands where the socket should"},
    {"late-listen", late_listen, "[ms]: bind, and listen only that much later"},
};

static int modes_print(void)
{
    for (size_t i = 0; i < sizeof(start_modes) / sizeof(start_modes[0]); i++) {
        (void)printf("%-16s (FN_MODE only) %s\n", start_modes[i].name, start_modes[i].help);
    }
    for (size_t i = 0; i < sizeof(call_modes) / sizeof(call_modes[0]); i++) {
        (void)printf("%-16s %s\n", call_modes[i].name, call_modes[i].help);
    }
    for (size_t i = 0; i < sizeof(raw_answers) / sizeof(raw_answers[0]); i++) {
        (void)printf("%-16s an answer from the table\n", raw_answers[i].name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    char *mode = getenv("FN_MODE");
    char name[32];
    const char *arg = mode_split(mode ? mode : "", name, sizeof(name));

    if (argc > 1)
        return strcmp(argv[1], "--modes") == 0 ? modes_print() : 64;
    for (size_t i = 0; i < sizeof(start_modes) / sizeof(start_modes[0]); i++) {
        if (strcmp(start_modes[i].name, name) == 0)
            return start_modes[i].run(arg);
    }
    return fdk_handle(misbehave, mode) < 0;
}
