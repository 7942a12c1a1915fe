/* A scripted engine on a unix socket, with the driver on a small node before it. */
#ifndef TEST_DRIVER_SCRIPTED_H
#define TEST_DRIVER_SCRIPTED_H

#include "node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define ROUTES_MAX 16

/* The first route whose text is in the request line answers. NULL answer: hold for ever. */
struct route {
    const char *match;
    const char *answer;
    bool close;       /* after the answer */
    atomic_int *hits; /* may be NULL */
};

extern pthread_mutex_t lock; /* routes, last_post */
extern struct route routes[ROUTES_MAX];
/* The descriptor of each route's last client, once it has its answer. */
extern atomic_int clients[ROUTES_MAX];
extern char socket_folder[48]; /* of the socket; /tmp */
extern char socket_path[96];
extern struct node *node;
extern char last_post[8192];
extern struct fn_error err;

#define OK(body_len, body) "HTTP/1.1 200 OK\r\nContent-Length: " #body_len "\r\n\r\n" body
#define STREAM             "HTTP/1.1 200 OK\r\n\r\n"
#define CREATED                                                                                    \
    "HTTP/1.1 201 Created\r\nContent-Length: "                                                     \
    "39\r\n\r\n{\"Id\":\"0123456789abcdef\",\"Warnings\":[]}"
#define NO_CONTENT "HTTP/1.1 204 No Content\r\n\r\n"

void engine_start(void);
/* options: pairs of key and text beside docker_host, NULL ends. `node` is NULL when it refuses. */
void driver_start_with(const char *host, const char *const *options);
void driver_start(const char *host, const char *key, const char *value);
/* An engine, and a driver with no options. */
void both(void);
void teardown(void);

/* The next answers of a route. */
void route_answers(int i, const char *answer);
/* Waits until a counter or a client is there, NODE_WAIT_MS at most. */
bool reaches(atomic_int *value, int at_least);

#endif
