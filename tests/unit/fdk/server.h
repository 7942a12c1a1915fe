/* server.h - a function as a child process with a socket in its own directory, and a client. */
#ifndef TEST_FDK_SERVER_H
#define TEST_FDK_SERVER_H

#include <fdk.h>
#include <stddef.h>
#include <sys/types.h>

struct server {
    pid_t pid;
    char dir[64], socket_path[96];
};

struct answer {
    int status;
    char *head, *body; /* both NUL-terminated, owned */
    size_t body_len;
};

/*
 * Starts `executable`, or in its stead `handler`, and returns when the socket has appeared. The
 * directory exists beforehand if prepare() filled it.
 */
void server_prepare(struct server *server);
void server_start(struct server *server, const char *executable, fdk_handler *handler);
void server_finish(struct server *server);

int client_connect(const struct server *server);
void client_send(int fd, const void *data, size_t len);
void client_send_text(int fd, const char *text);

/* Reads one answer. Returns 0 when the server closed the connection before its first byte. */
int client_receive(int fd, struct answer *ret_answer);

/* A call with these header lines, each ended by CR LF, and this body, on an open connection. */
void client_call(int fd, const char *headers, const void *body, size_t len, struct answer *ret);
void answer_finish(struct answer *answer);

#endif
