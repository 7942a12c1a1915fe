/* A server under test in its own thread and a blocking client, for the tests of core/http. */
#ifndef TEST_HTTP_CLIENT_H
#define TEST_HTTP_CLIENT_H

#include <check.h>
#include <http/server.h>
#include <pthread.h>
#include <stdatomic.h>

#define CALLS_MAX 64

/* What the handler of the test server does is said by the path:
 *   /echo    answers at once with what it understood, a blank line and the body
 *   /plain   answers 200 "ok"
 *   /client  answers who the client is, and whom limits hold
 *   /later   answers the same as /plain 5 ms later
 *   /park    never answers
 *   /turn    answers the same as /plain, and counts how many come in one turn of the loop
 *   /stream  n bytes in pieces of 10000, chunked; ?n=3000000
 *   /length  the same with Content-Length
 *   /abort   begins a chunked answer and aborts it; ?none: before the head
 *   /error   http_answer_error with odd bytes
 *   /nasty   fields that a handler must not be able to send
 *   /204     an answer without body */
struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct budget bodies;
    pthread_t thread;
    char unix_path[64];
    struct net_identity *identity; /* NULL: plain HTTP */
    const struct http_protocol *h2; /* NULL: HTTP/1.1 alone */
    const char *alpn; /* what dial_tls() offers, or NULL */
    atomic_int requests;
    atomic_int gone;
    atomic_int ended; /* streams that came to their end */
    atomic_int waits; /* times that http_answer_data() said wait */
    int in_turn;      /* /turn in this turn of the loop */
    atomic_int in_turn_max;
    struct env_timer turn;
};

extern struct fixture fx;

struct http_limits default_limits(void);
/* listen NULL = a unix socket of the test's own */
void server_start(const char *listen, const struct http_limits *limits);
void server_stop(void);

int dial(void); /* a connection to the server */
/* The same under TLS; the functions below know it by its descriptor. mine NULL: no certificate. -1:
 * the handshake failed. */
struct pair;
int dial_tls(const char *ca, const struct pair *mine);
void hang_up(int fd); /* closes either kind */
void send_all(int fd, const void *data, size_t len);
void send_text(int fd, const char *text);
/* Until the server has read everything (unix sockets). */
void wait_consumed(int fd);
/* Reads to the end of the connection; malloc'ed, NUL-terminated. */
char *read_to_end(int fd, size_t *ret_len);
/* Reads one answer with Content-Length or chunked; false when the connection ends before. */
bool read_answer(int fd, char **ret_head, char **ret_body, size_t *ret_len);
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
void expect_answer(int fd, const char *status, const char *body);
/* An answer of 30 MB that its reader does not take is not made before he does, and then is whole;
 * by=0 a stream, else one with Content-Length. */
void expect_slow_reader_is_waited_for(int fd, int by);
/* Removes the Date line. */
void drop_date(char *head);
void await(atomic_int *n, int expected);

#endif
