/* See scripted.h: each client has a thread, which answers as the routes say. */
#include "scripted.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct route routes[ROUTES_MAX];
atomic_int clients[ROUTES_MAX];
static int listener = -1;
char socket_folder[48] = "/tmp";
char socket_path[96];
static pthread_t acceptor;
struct node *node;
char last_post[8192];
struct fn_error err;

/* *ret_at is its place, -1 = there is none. */
static struct route find(const char *request, int *ret_at)
{
    size_t line = strcspn(request, "\r\n");
    struct route found = { .answer = "HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\n{}" };

    *ret_at = -1;
    pthread_mutex_lock(&lock);
    for (const struct route *r = routes; r->match; r++) {
        if (memmem(request, line, r->match, strlen(r->match))) {
            found = *r;
            *ret_at = (int)(r - routes);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static bool read_request(int fd, char *buf, size_t cap)
{
    size_t len = 0, want;
    char *end, *cl;
    ssize_t n;

    while ((n = read(fd, buf + len, cap - 1 - len)) > 0) {
        len += (size_t)n;
        buf[len] = '\0';
        end = strstr(buf, "\r\n\r\n");
        if (end) {
            cl = strcasestr(buf, "content-length:");
            want = (size_t)(end - buf) + 4 + (cl ? strtoul(cl + 15, NULL, 10) : 0);
            if (len >= want) {
                return true;
            }
        }
    }
    return false;
}

static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buf[8192];
    int at;

    while (read_request(fd, buf, sizeof(buf))) {
        struct route r = find(buf, &at);

        if (strncmp(buf, "POST", 4) == 0 && !strstr(buf, "/attach?")) { /* comes by itself */
            pthread_mutex_lock(&lock);
            memcpy(last_post, buf, strlen(buf) + 1);
            pthread_mutex_unlock(&lock);
        }
        if (r.hits) {
            atomic_fetch_add(r.hits, 1);
        }
        if (r.answer && write(fd, r.answer, strlen(r.answer)) < 0) {
            break;
        }
        if (at >= 0) {
            atomic_store(&clients[at], fd);
        }
        if (r.close) {
            break;
        }
    }
    close(fd);
    return NULL;
}

static void *serve(void *arg)
{
    int fd;

    (void)arg;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        pthread_t t;

        pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd);
        pthread_detach(t);
    }
    return NULL;
}

void engine_start(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    snprintf(socket_path, sizeof(socket_path), "%s/test-engine-%d.sock", socket_folder,
             (int)getpid());
    unlink(socket_path);
    memcpy(un.sun_path, socket_path, strlen(socket_path) + 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert_int_eq(listen(listener, 64), 0);
    pthread_create(&acceptor, NULL, serve, NULL);
}

void driver_start_with(const char *host, const char *const *more)
{
    char file[512], address[128];
    const char *options[16] = { "docker_host", address };

    for (size_t i = 0; more[i]; i++) {
        options[i + 2] = more[i];
    }
    snprintf(file, sizeof(file), "%s/driver-docker.so", getenv("FND_PLUGINS"));
    snprintf(address, sizeof(address), "unix://%s", host);
    err = (struct fn_error){ .size = sizeof(err) };
    node = node_start(file, "docker", options, &err);
}

void driver_start(const char *host, const char *key, const char *value)
{
    const char *const options[] = { key, value, NULL };

    driver_start_with(host, options);
}

void both(void)
{
    engine_start();
    driver_start(socket_path, NULL, NULL);
    ck_assert_msg(node != NULL, "%s", err.msg);
}

void teardown(void)
{
    if (node) {
        node_stop(node);
    }
    if (listener >= 0) {
        shutdown(listener, SHUT_RDWR);
        pthread_join(acceptor, NULL);
        close(listener);
        unlink(socket_path);
    }
}

void route_answers(int i, const char *answer)
{
    pthread_mutex_lock(&lock);
    routes[i].answer = answer;
    pthread_mutex_unlock(&lock);
}

bool reaches(atomic_int *value, int at_least)
{
    for (int i = 0; i < NODE_WAIT_MS && atomic_load(value) < at_least; i++) {
        usleep(1000);
    }
    return atomic_load(value) >= at_least;
}
