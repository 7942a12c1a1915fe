/*
 * evil: a function that does to its runner what only an enemy would. It reads requests by itself, to
 * be able to end anywhere in one.
 *
 * The header "X-Evil: <mode> [argument]" of a call says what; a call without it gets its body back
 * on a connection that stays. FN_MODE says it for what happens before a request is read.
 * examples/functions/misbehave.c has what breaks the contract by its bytes alone.
 */
#include "sample.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BODY_MAX (256u * 1024)
#define HALF_BYTES 1000u /* of the body, for one that dies in it */
#define DRIP_MS 200
#define SWAP_PAUSE_NS 50000
#define REAL_NAME "lsnr.sock.fdk" /* what fdk_listen() binds beside the published name */

/* Exit codes, so that the test can tell where it ended. */
enum death {
    DEATH_UNHEARD = 41,
    DEATH_LISTENING,
    DEATH_ACCEPTED,
    DEATH_HEAD,
    DEATH_BODY,
    DEATH_REQUEST,
    DEATH_STATUS,
    DEATH_ANSWER,
    DEATH_ANSWERED,
};

struct call {
    FILE *in;
    int fd;
    char mode[512]; /* "" for an honest call */
    size_t len;
    char body[BODY_MAX];
};

static struct call call;
static unsigned long *swaps; /* shared with the process that swaps */

static _Noreturn void die(enum death code)
{
    _exit(code);
}

static _Noreturn void wait_for_ever(void)
{
    for (;;) {
        (void)pause();
    }
}

/* Returns its argument if the call's mode is `name`, else NULL. */
static const char *mode_is(const char *name)
{
    size_t len = strlen(name);

    if (strncmp(call.mode, name, len) != 0 || (call.mode[len] && call.mode[len] != ' '))
        return NULL;
    return call.mode + len + (call.mode[len] == ' ');
}

static int dies(const char *phase)
{
    const char *arg = mode_is("die");

    return arg && strcmp(arg, phase) == 0;
}

static int send_text(const char *text)
{
    return sample_send(call.fd, text, strlen(text));
}

/* ---- Requests, always chunked -------------------------------------------------------------------- */

static int read_head(void)
{
    static const char name[] = "X-Evil: ";
    char line[4096];

    call.mode[0] = '\0';
    while (fgets(line, sizeof(line), call.in)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (!*line)
            return 0;
        if (strncasecmp(line, name, sizeof(name) - 1) == 0)
            (void)snprintf(call.mode, sizeof(call.mode), "%.500s", line + sizeof(name) - 1);
    }
    return -EPIPE;
}

static int read_body(size_t max)
{
    char line[64];
    unsigned long left;

    call.len = 0;
    while (fgets(line, sizeof(line), call.in)) {
        left = strtoul(line, NULL, 16);
        if (left > sizeof(call.body) - call.len)
            return -EFBIG;
        if (left > max - call.len)
            left = max - call.len;
        if (left && fread(call.body + call.len, left, 1, call.in) != 1)
            return -EPIPE;
        call.len += left;
        if (call.len == max)
            return 0;
        if (!fgets(line, sizeof(line), call.in))
            return -EPIPE;
        if (!left)
            return 0;
    }
    return -EPIPE;
}

/* ---- Answers ------------------------------------------------------------------------------------- */

static int answer(const void *body, size_t len, const char *header)
{
    char head[128];

    (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n\r\n", header,
                   len);
    return send_text(head) | sample_send(call.fd, body, len);
}

static int answer_text(const char *text)
{
    return answer(text, strlen(text), "Connection: close\r\n");
}

static int answer_count(unsigned long number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%lu", number);
    return answer_text(text);
}

/* In one piece: a second answer that comes when the next request has left cannot be told from the
 * answer to that one. */
static int twice(void)
{
    static char text[BODY_MAX];

    return snprintf(text, sizeof(text),
                    "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%.*s"
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale",
                    call.len, (int)call.len, call.body) < (int)sizeof(text)
               ? send_text(text)
               : -EFBIG;
}

static int drip(void)
{
    int rc = send_text("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");

    while (rc == 0) {
        rc = sample_send(call.fd, ".", 1);
        sample_wait_ms(DRIP_MS);
    }
    return rc;
}

/* "<bytes>": with its length announced; "<bytes> unsaid": without. */
static int send_much(const char *arg)
{
    static const char piece[65536];
    char head[128];
    uint64_t left = 0;
    const char *more = sample_number(arg, UINT64_MAX, &left);
    int rc;

    if (more && *more)
        (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    else
        (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
                       (unsigned long long)left);
    for (rc = send_text(head); rc == 0 && left;) {
        size_t len = left < sizeof(piece) ? (size_t)left : sizeof(piece);

        rc = sample_send(call.fd, piece, len);
        left -= len;
    }
    return rc;
}

/* ---- The directory of the socket ----------------------------------------------------------------- */

static const char *published(void)
{
    const char *listener = getenv("FN_LISTENER");

    return listener && strncmp(listener, "unix:/", 6) == 0 ? listener + 5 : "";
}

/* Files, folders and links until there is room for no more of any, then bytes. */
static int flood(void)
{
    static const char piece[4096];
    unsigned long made = 0, bytes = 0;
    char name[512];
    int fd;

    for (;; made++) {
        (void)snprintf(name, sizeof(name), "%s.%lu", published(), made);
        if (made % 3 == 0 ? mkdir(name, 0777) < 0
            : made % 3 == 1 ? symlink("/", name) < 0
                            : (fd = open(name, O_CREAT | O_WRONLY, 0666)) < 0 || close(fd) < 0)
            break;
    }
    (void)snprintf(name, sizeof(name), "%s.2", published());
    fd = open(name, O_WRONLY);
    while (fd >= 0 && write(fd, piece, sizeof(piece)) == (ssize_t)sizeof(piece)) {
        bytes += sizeof(piece);
    }
    (void)snprintf(name, sizeof(name), "%lu files, %lu bytes", made, bytes);
    return answer_text(name);
}

static void link_to(const char *target)
{
    char fresh[512];

    (void)snprintf(fresh, sizeof(fresh), "%s.new", published());
    if (symlink(target, fresh) < 0 || rename(fresh, published()) < 0)
        _exit(1);
}

/* For ever: the published name leads out of the directory for as long as two system calls take. */
static _Noreturn void swap(const char *foreign)
{
    const struct timespec pause = { .tv_nsec = SWAP_PAUSE_NS };

    for (;;) {
        link_to(foreign);
        link_to(REAL_NAME);
        ++*swaps;
        (void)nanosleep(&pause, NULL);
    }
}

/* Tells how often it swapped until now; each call of it has a connection of its own. */
static int swapping(const char *foreign)
{
    if (!swaps) {
        swaps = mmap(NULL, sizeof(*swaps), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (swaps == MAP_FAILED || fork() == 0)
            swap(foreign);
    }
    return answer_count(*swaps);
}

/* ---- Processes ----------------------------------------------------------------------------------- */

static void signals_ignore(void)
{
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_IGN);
    }
}

/* As many as it may have, all of them deaf, each writing what it can. */
static int forks(void)
{
    unsigned long made = 0;
    pid_t pid;

    while ((pid = fork()) > 0) {
        made++;
    }
    if (pid == 0) {
        signals_ignore();
        for (;;) {
            (void)dprintf(STDERR_FILENO, "one of many\n");
            sample_wait_ms(100);
        }
    }
    return answer_count(made);
}

/* As many as it may have, and all turn for ever: this one too, which never answers. */
static _Noreturn void burn(void)
{
    signals_ignore();
    while (fork() > 0) {
    }
    for (;;) {
    }
}

/* ---- Output --------------------------------------------------------------------------------------- */

/* One line of so many bytes, without its end. */
static int print(const char *arg)
{
    static char piece[65536];
    uint64_t left = 0;
    ssize_t n = 0;

    (void)sample_number(arg, UINT64_MAX, &left);
    memset(piece, 'x', sizeof(piece));
    for (; left && n >= 0; left -= (uint64_t)n)
        n = write(STDOUT_FILENO, piece, left < sizeof(piece) ? (size_t)left : sizeof(piece));
    return answer_text(left ? "not all of it" : "printed");
}

/* ---- Calls --------------------------------------------------------------------------------------- */

static int act(void)
{
    const char *arg;

    if (dies("request"))
        die(DEATH_REQUEST);
    if (dies("status") && send_text("HTTP/1.1 200 OK\r\n") == 0)
        die(DEATH_STATUS);
    if (dies("answer") && send_text("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf.") == 0)
        die(DEATH_ANSWER);
    if (dies("answered") && answer(call.body, call.len, "") == 0)
        die(DEATH_ANSWERED);
    if (mode_is("twice"))
        return twice();
    if (mode_is("drip"))
        return drip();
    if (mode_is("flood"))
        return flood();
    if (mode_is("forks"))
        return forks();
    if (mode_is("burn"))
        burn();
    if ((arg = mode_is("print")))
        return print(arg);
    if ((arg = mode_is("send")))
        return send_much(arg);
    if ((arg = mode_is("swap")))
        return swapping(arg);
    if (mode_is("ignore")) {
        signals_ignore();
        wait_for_ever();
    }
    return answer(call.body, call.len, "");
}

static void serve(int fd)
{
    int rc;

    call.fd = fd;
    call.in = fdopen(fd, "r");
    do {
        rc = call.in ? read_head() : -ENOMEM;
        if (rc == 0 && dies("head"))
            die(DEATH_HEAD);
        if (rc == 0 && dies("body") && read_body(HALF_BYTES) == 0)
            die(DEATH_BODY);
        rc = rc ? rc : read_body(SIZE_MAX);
        rc = rc ? rc : act();
    } while (rc == 0 && !mode_is("swap"));
    if (call.in)
        (void)fclose(call.in);
}

int main(void)
{
    const char *start = getenv("FN_MODE");
    int listen_fd, fd;

    (void)snprintf(call.mode, sizeof(call.mode), "%s", start ? start : "");
    if (dies("unheard"))
        die(DEATH_UNHEARD);
    listen_fd = fdk_listen(getenv("FN_LISTENER"));
    if (listen_fd < 0)
        return 1;
    if (dies("listening"))
        die(DEATH_LISTENING);
    if (mode_is("deaf")) {
        signals_ignore();
        wait_for_ever();
    }
    while ((fd = accept(listen_fd, NULL, NULL)) >= 0) {
        if (start && strcmp(start, "die accepted") == 0)
            die(DEATH_ACCEPTED);
        serve(fd);
    }
    return 1;
}
