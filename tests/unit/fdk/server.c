/* Starts the function as a child that dies with the test, waits for its socket with inotify, and
 * speaks HTTP to it over a blocking socket. */
#include "server.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 20000
#define HEAD_MAX_BYTES (64 * 1024)

void server_prepare(struct server *server)
{
    *server = (struct server){ .dir = "/tmp/fdk-test-XXXXXX" };
    ck_assert_ptr_nonnull(mkdtemp(server->dir));
    (void)snprintf(server->socket_path, sizeof(server->socket_path), "%s/lsnr.sock", server->dir);
}

static void child_run(const struct server *server, const char *executable, fdk_handler *handler)
{
    char listener[128];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(listener, sizeof(listener), "unix:%s", server->socket_path);
    (void)setenv("FN_LISTENER", listener, 1);
    (void)setenv("FN_FORMAT", "http-stream", 1);
    if (executable)
        (void)execl(executable, executable, (char *)NULL);
    else
        (void)fdk_handle(handler, NULL);
    _exit(1);
}

static void socket_await(int inotify_fd)
{
    _Alignas(struct inotify_event) char events[4096];
    struct pollfd poll_fd = { .fd = inotify_fd, .events = POLLIN };

    for (;;) {
        ssize_t len;

        ck_assert_msg(poll(&poll_fd, 1, START_MS) == 1, "no socket within %d ms", START_MS);
        len = read(inotify_fd, events, sizeof(events));
        ck_assert_int_gt(len, 0);
        for (char *at = events; at < events + len;) {
            const struct inotify_event *event = (const struct inotify_event *)(void *)at;

            if (strcmp(event->name, "lsnr.sock") == 0)
                return;
            at += sizeof(*event) + event->len;
        }
    }
}

void server_start(struct server *server, const char *executable, fdk_handler *handler)
{
    int inotify_fd = inotify_init1(IN_CLOEXEC);

    if (!server->dir[0])
        server_prepare(server);
    ck_assert_int_ge(inotify_add_watch(inotify_fd, server->dir, IN_CREATE | IN_MOVED_TO), 0);
    server->pid = fork();
    ck_assert_int_ge(server->pid, 0);
    if (server->pid == 0)
        child_run(server, executable, handler);
    socket_await(inotify_fd);
    (void)close(inotify_fd);
}

void server_finish(struct server *server)
{
    static const char *const names[] = { "lsnr.sock", "lsnr.sock.fdk", "ledger" };
    char path[128];

    (void)kill(server->pid, SIGKILL);
    ck_assert_int_eq(waitpid(server->pid, NULL, 0), server->pid);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", server->dir, names[i]);
        (void)unlink(path);
    }
    ck_assert_int_eq(rmdir(server->dir), 0);
}

int client_connect(const struct server *server)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", server->socket_path);
    ck_assert_msg(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0, "connect: %s",
                  strerror(errno));
    return fd;
}

void client_send(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        ck_assert_msg(sent > 0, "send: %s", strerror(errno));
        at += sent;
        len -= (size_t)sent;
    }
}

void client_send_text(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

int client_receive(int fd, struct answer *ret_answer)
{
    char *head = calloc(1, HEAD_MAX_BYTES + 1);
    const char *length;
    size_t len = 0;

    while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0) {
        ssize_t got = recv(fd, head + len, 1, 0);

        if (len == 0 && got <= 0) {
            free(head);
            return 0;
        }
        ck_assert_msg(got == 1 && ++len < HEAD_MAX_BYTES, "head ends after \"%s\"", head);
    }
    *ret_answer = (struct answer){ .head = head };
    ck_assert_int_eq(sscanf(head, "HTTP/1.1 %d ", &ret_answer->status), 1);
    length = strcasestr(head, "\r\nContent-Length: ");
    ck_assert_ptr_nonnull(length);
    len = strtoul(length + 18, NULL, 10);
    ret_answer->body = calloc(1, len + 1);
    while (ret_answer->body_len < len) {
        ssize_t got = recv(fd, ret_answer->body + ret_answer->body_len,
                           len - ret_answer->body_len, 0);

        ck_assert_msg(got > 0, "body ends after %zu of %zu bytes", ret_answer->body_len, len);
        ret_answer->body_len += (size_t)got;
    }
    return 1;
}

void client_call(int fd, const char *headers, const void *body, size_t len, struct answer *ret)
{
    char *head;
    int head_len = asprintf(&head, "POST /call HTTP/1.1\r\nHost: localhost\r\n%s"
                                   "Content-Length: %zu\r\n\r\n", headers, len);

    ck_assert_int_gt(head_len, 0);
    client_send(fd, head, (size_t)head_len);
    client_send(fd, body, len);
    ck_assert_int_eq(client_receive(fd, ret), 1);
    free(head);
}

void answer_finish(struct answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (struct answer){ 0 };
}
