/*
 * ledger: writes down which container executed which call, so that a test can tell whether each
 * call was executed at most once. One line per event, each one write:
 *
 *     <call id> <container id> start
 *     <call id> <container id> end
 *
 * "end" is written before the answer leaves. The container id is drawn when the process starts.
 * The lines are appended to the file LEDGER_FILE, or sent over TCP to LEDGER_ADDR (a.b.c.d:port)
 * where no directory outlives the container, else appended to "ledger" beside the socket.
 * A call that cannot be written down fails before it does anything.
 *
 * The body may begin with milliseconds to spend between the two lines. The answer is
 * "<call id> <body>", so that the caller can tell whether it is its own.
 */
#include "sample.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define WAIT_MAX_MS (300u * 1000)

struct ledger {
    int fd;
    uint64_t container_id;
};

static int ledger_dial(const char *address)
{
    struct sockaddr_in addr = { .sin_family = AF_INET };
    char host[INET_ADDRSTRLEN];
    unsigned port;
    int fd;

    if (sscanf(address, "%15[0-9.]:%u", host, &port) != 2 || port == 0 || port > UINT16_MAX ||
        inet_pton(AF_INET, host, &addr.sin_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    addr.sin_port = htons((uint16_t)port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -1;
    return fd;
}

static int ledger_open(void)
{
    const char *path = getenv("LEDGER_FILE"), *address = getenv("LEDGER_ADDR");
    const char *listener = getenv("FN_LISTENER");
    const char *name = listener ? strrchr(listener, '/') : NULL;
    char beside[256];

    if (!path && address)
        return ledger_dial(address);
    if (!path && name && strncmp(listener, "unix:", 5) == 0) {
        (void)snprintf(beside, sizeof(beside), "%.*s/ledger", (int)(name - listener - 5),
                       listener + 5);
        path = beside;
    }
    return open(path ? path : "", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static int ledger_add(const struct ledger *ledger, const struct fdk_call *call, const char *event)
{
    const char *call_id = fdk_header(call, "Fn-Call-Id");
    char line[256];
    int len = snprintf(line, sizeof(line), "%s %016llx %s\n", call_id ? call_id : "-",
                       (unsigned long long)ledger->container_id, event);

    if (len >= (int)sizeof(line))
        return -ENAMETOOLONG;
    return write(ledger->fd, line, (size_t)len) == len ? 0 : -EIO;
}

static int ledger_call(struct fdk_call *call, void *ud)
{
    const char *call_id = fdk_header(call, "Fn-Call-Id");
    uint64_t ms = 0;
    size_t len;
    const char *body = fdk_body(call, &len);

    if (ledger_add(ud, call, "start") < 0)
        return -EIO;
    if (sample_number(body, WAIT_MAX_MS, &ms))
        sample_wait_ms(ms);
    if (ledger_add(ud, call, "end") < 0 ||
        fdk_answer_printf(call, "%s ", call_id ? call_id : "-") < 0)
        return -EIO;
    return fdk_answer_write(call, body, len);
}

int main(void)
{
    struct ledger ledger = { .fd = ledger_open() };

    if (ledger.fd < 0) {
        perror("ledger: cannot open");
        return 1;
    }
    if (getrandom(&ledger.container_id, sizeof(ledger.container_id), 0) < 0) {
        perror("ledger: getrandom");
        return 1;
    }
    return fdk_handle(ledger_call, &ledger) < 0;
}
