/* The admin socket: where it is, who may speak, how requests find their handler, what a client is
 * told when nobody answers. The loop runs in a thread, the client in the test. */
#include "../lib/skip.h"

#include <admin/admin.h>
#include <check.h>
#include <fcntl.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define TIMEOUT_MS 10000

static char dir[64], path[ADMIN_PATH_MAX + 1];
static struct loop *loop;
static struct admin *admin;
static struct admin_request *parked;
static pthread_t thread;
static bool running;

static void *run(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void start(void)
{
    ck_assert_int_eq(pthread_create(&thread, NULL, run, loop), 0);
    running = true;
}

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/fnd-admin-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a.sock", dir);
    ck_assert_int_eq(loop_create(NULL, &loop, NULL), 0);
    parked = NULL;
    running = false;
}

static void close_admin(void)
{
    loop_enter(loop);
    admin_destroy(admin);
    admin = NULL;
    loop_leave(loop);
}

static void teardown(void)
{
    char command[96];

    close_admin();
    if (running) {
        loop_stop(loop);
        pthread_join(thread, NULL);
    }
    loop_destroy(loop);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* ---- handlers -------------------------------------------------------------------------------- */

static void on_echo(void *ud, struct admin_request *rq)
{
    char json[256];

    snprintf(json, sizeof(json), "{\"who\":\"%s\",\"rest\":\"%.64s\",\"query\":\"%.64s\"}",
             (const char *)ud, rq->rest, rq->query ? rq->query : "");
    admin_answer_json(rq, 200, json);
}

static void on_park(void *ud, struct admin_request *rq)
{
    (void)ud;
    parked = rq;
}

static void on_free(void *ud, struct admin_request *rq)
{
    (void)ud;
    admin_answer_json(parked, 202, "{\"late\":true}");
    parked = NULL;
    admin_answer_json(rq, 200, "{}");
}

static void open_admin(void)
{
    struct fn_error e = ERR_INIT;

    loop_enter(loop);
    ck_assert_msg(admin_create(loop, path, &admin, &e) == 0, "%s", e.msg);
    admin_route(admin, "GET", "/status", on_echo, "status");
    admin_route(admin, "GET", "/why/", on_echo, "why");
    admin_route(admin, "GET", "/why/all/", on_echo, "all");
    admin_route(admin, "POST", "/why/", on_echo, "post");
    admin_route(admin, "GET", "/park", on_park, NULL);
    admin_route(admin, "GET", "/free", on_free, NULL);
    loop_leave(loop);
}

static void expect(const char *method, const char *target, int status, const char *part)
{
    struct buf body = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    int got = 0;

    ck_assert_msg(admin_call(path, method, target, TIMEOUT_MS, &got, &body, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(got, status);
    ck_assert_msg(strstr(buf_text(&body), part) != NULL, "%s", buf_text(&body));
    buf_finish(&body);
}

static void expect_nobody(const char *socket, int code, const char *part)
{
    struct buf body = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    int got = 0;

    ck_assert_int_eq(admin_call(socket, "GET", "/status", 200, &got, &body, &e), code);
    ck_assert_msg(strstr(e.msg, part) != NULL, "%s", e.msg);
    buf_finish(&body);
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(requests_find_their_handler)
{
    open_admin();
    start();
    expect("GET", "/status", 200, "\"who\":\"status\"");
    expect("GET", "/why/01ABC?x=1", 200, "\"who\":\"why\",\"rest\":\"01ABC\",\"query\":\"x=1\"");
    expect("GET", "/why/all/7", 200, "\"who\":\"all\",\"rest\":\"7\"");
    expect("POST", "/why/all/7", 200, "\"who\":\"post\",\"rest\":\"all/7\"");
    expect("GET", "/status/more", 404, "no such page: GET /status/more");
    expect("GET", "/why", 404, "no such page");
    expect("DELETE", "/status", 405, "Method not allowed");
}
END_TEST

static void *free_soon(void *arg)
{
    struct buf body = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    bool *seen = arg;
    int got = 0;

    for (bool there = false; !there;) {
        loop_enter(loop);
        there = parked != NULL;
        loop_leave(loop);
        usleep(1000);
    }
    *seen = admin_call(path, "GET", "/free", TIMEOUT_MS, &got, &body, &e) == 0 && got == 200;
    buf_finish(&body);
    return NULL;
}

START_TEST(an_answer_may_come_later)
{
    bool seen = false;
    pthread_t other;

    open_admin();
    start();
    ck_assert_int_eq(pthread_create(&other, NULL, free_soon, &seen), 0);
    expect("GET", "/park", 202, "late");
    pthread_join(other, NULL);
    ck_assert(seen);
}
END_TEST

START_TEST(a_client_that_waits_has_a_deadline_and_may_leave)
{
    struct buf body = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    int got = 0;

    open_admin();
    start();
    ck_assert_int_eq(admin_call(path, "GET", "/park", 100, &got, &body, &e), FN_E_DEADLINE);
    ck_assert(strstr(e.msg, "no answer within 100 ms") != NULL);
    expect("GET", "/free", 200, "{}"); /* the answer to one who left is harmless */
    buf_finish(&body);
}
END_TEST

START_TEST(requests_that_wait_end_with_the_socket)
{
    struct buf body = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    int got = 0;

    open_admin();
    start();
    ck_assert_int_eq(admin_call(path, "GET", "/park", 100, &got, &body, &e), FN_E_DEADLINE);
    close_admin(); /* a leak is the sanitizer's to tell */
    ck_assert_int_ne(access(path, F_OK), 0);
    buf_finish(&body);
}
END_TEST

START_TEST(a_dead_nodes_socket_is_taken_over_a_living_ones_not)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct fn_error e = ERR_INIT;
    struct admin *second = NULL;

    memcpy(addr.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    close(fd);
    open_admin();
    start();
    expect("GET", "/status", 200, "status");
    loop_enter(loop);
    ck_assert_int_eq(admin_create(loop, path, &second, &e), FN_E_UNAVAILABLE);
    loop_leave(loop);
    ck_assert(strstr(e.msg, "is in use") != NULL);
    expect("GET", "/status", 200, "status");
}
END_TEST

START_TEST(a_folder_that_others_write_to_is_refused)
{
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(chmod(dir, 0777), 0);
    loop_enter(loop);
    ck_assert_int_eq(admin_create(loop, path, &admin, &e), FN_E_PERMISSION);
    ck_assert_msg(strstr(e.msg, "has mode 0777") != NULL, "%s", e.msg);
    snprintf(path, sizeof(path), "%s/no/a.sock", dir);
    ck_assert_int_ne(admin_create(loop, "/nowhere/at/all/a.sock", &admin, &e), 0);
    ck_assert_msg(strstr(e.msg, "No such file") != NULL, "%s", e.msg);
    loop_leave(loop);
}
END_TEST

/* In a child, system calls only. */
static int speak_as(uid_t uid)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    char text[512];
    size_t n = 0;
    ssize_t r;
    int fd;

    if (setresuid(uid, uid, uid) < 0) {
        return 1;
    }
    memcpy(addr.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        return 2;
    }
    while (n < sizeof(text) - 1 && (r = read(fd, text + n, sizeof(text) - 1 - n)) > 0) {
        n += (size_t)r;
    }
    text[n] = '\0';
    return strstr(text, "HTTP/1.1 403") && strstr(text, "HTTP117") ? 3 : 4;
}

static int status_of_child(uid_t uid)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        _exit(speak_as(uid));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

START_TEST(only_the_nodes_user_and_root_may_speak)
{
    struct stat st;

    open_admin();
    start();
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    if (geteuid() != 0) {
        SKIP("only root can become somebody else");
    }
    ck_assert_int_eq(chmod(dir, 0711), 0);
    ck_assert_int_eq(status_of_child(NOBODY), 2); /* the mode */
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(status_of_child(NOBODY), 3); /* the credentials */
    expect("GET", "/status", 200, "status");
}
END_TEST

/* Until it is killed. Whoever waits at `ready` is told when others may connect: between bind() and
 * chmod() they are refused by the file's mode, which is another sentence. */
static void listen_as(uid_t uid, int ready)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(addr.sun_path, path, strlen(path));
    if (setresuid(uid, uid, uid) < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        chmod(path, 0666) < 0 || listen(fd, 1) < 0 || write(ready, "r", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

static int ask_as(uid_t uid)
{
    struct buf body = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    int status, r;

    if (setresuid(uid, uid, uid) < 0) {
        return 1;
    }
    r = admin_call(path, "GET", "/status", 100, &status, &body, &e);
    return r == FN_E_PERMISSION && strstr(e.msg, "a process of user 65534 listens there") ? 2 : 3;
}

START_TEST(a_client_does_not_speak_to_a_stranger)
{
    int status, ready[2];
    pid_t server, client;
    char byte;

    if (geteuid() != 0) {
        SKIP("only root can become somebody else");
    }
    ck_assert_int_eq(chmod(dir, 0777), 0);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    server = fork();
    if (server == 0) {
        listen_as(NOBODY, ready[1]);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    client = fork();
    if (client == 0) {
        _exit(ask_as(NOBODY - 1));
    }
    ck_assert_int_eq(waitpid(client, &status, 0), client);
    ck_assert_int_eq(WEXITSTATUS(status), 2);
    kill(server, SIGKILL);
    ck_assert_int_eq(waitpid(server, &status, 0), server);
}
END_TEST

START_TEST(a_client_is_told_why_nobody_answers)
{
    char other[ADMIN_PATH_MAX + 1];

    open_admin();
    start();
    snprintf(other, sizeof(other), "%s/c.sock", dir);
    ck_assert_int_eq(symlink("/nowhere", other), 0); /* of a dead node: not named */
    snprintf(other, sizeof(other), "%s/b.sock", dir);
    expect_nobody(other, FN_E_UNAVAILABLE, "b.sock: No such file or directory; there is a.sock");
    expect_nobody("/tmp", FN_E_UNAVAILABLE, "no node answers at /tmp");
}
END_TEST

static void expect_path(const char *socket, const char *listen, const char *xdg, uint16_t port,
                        const char *want)
{
    const struct admin_options o = { .socket = socket };
    char got[ADMIN_PATH_MAX + 1] = "";

    setenv("XDG_RUNTIME_DIR", xdg, 1);
    if (want) {
        ck_assert_int_eq(admin_socket_path(&o, listen, port, got, NULL), 0);
        ck_assert_msg(strstr(got, want) != NULL, "%s", got);
    } else {
        ck_assert_int_lt(admin_socket_path(&o, listen, port, got, NULL), 0);
    }
}

START_TEST(the_path_follows_from_the_options)
{
    char deep[160];

    memset(deep, 'x', sizeof(deep) - 1);
    deep[0] = '/';
    deep[sizeof(deep) - 1] = '\0';
    expect_path("/x/y.sock", ":8080", "/xdg", 0, "/x/y.sock");
    expect_path("off", ":8080", "/xdg", 0, NULL);
    expect_path(NULL, ":8123", "/xdg", 8123, "/fnd/8123.sock");
    expect_path(NULL, "127.0.0.1:8123", "/xdg", 0, "/fnd/127.0.0.1-8123.sock");
    expect_path(NULL, "127.0.0.1:0", "/xdg", 777, "/fnd/127.0.0.1-777.sock");
    expect_path(NULL, ":0", "/xdg", 777, "/fnd/777.sock");
    expect_path(NULL, "unix:/a/b", "/xdg", 0, "/fnd/unix--a-b.sock");
    if (geteuid() != 0) {
        expect_path(NULL, ":8080", deep, 0, NULL);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("admin");
    TCase *t = tcase_create("admin");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, requests_find_their_handler);
    tcase_add_test(t, an_answer_may_come_later);
    tcase_add_test(t, a_client_that_waits_has_a_deadline_and_may_leave);
    tcase_add_test(t, requests_that_wait_end_with_the_socket);
    tcase_add_test(t, a_dead_nodes_socket_is_taken_over_a_living_ones_not);
    tcase_add_test(t, a_folder_that_others_write_to_is_refused);
    tcase_add_test(t, only_the_nodes_user_and_root_may_speak);
    tcase_add_test(t, a_client_does_not_speak_to_a_stranger);
    tcase_add_test(t, a_client_is_told_why_nobody_answers);
    tcase_add_test(t, the_path_follows_from_the_options);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
