/* The streams by which driver-docker reads what containers print, against a scripted engine. */
#include "engine_suites.h"
#include "scripted.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_AGAIN "the output of 1 containers is read again"

enum { CREATE, ATTACH, EVENTS, LIST, STATE, CHANGE };

static atomic_int attached, lists;
static const char *answer_to_attach = STREAM;
static struct fn_task task; /* until its container is closed */

/* What an engine says when its one container is in a state. */
static void list_is(const char *state)
{
    static char answers[2][512]; /* the one before may be on its way */
    static int n;
    char *list = answers[n++ % 2], body[256];

    snprintf(body, sizeof(body), "[{\"Id\":\"0123456789abcdef\",\"Names\":[\"/%s\"],\"State\":\"%s\"}]",
             task.id, state);
    snprintf(list, sizeof(answers[0]), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    pthread_mutex_lock(&lock);
    routes[LIST] = (struct route){ "/containers/json", list, false, &lists };
    pthread_mutex_unlock(&lock);
}

/* One container that runs, whose output is read, and an engine that listens. */
static void *running_ctr(void)
{
    static const char *const options[] = { "freeze_by", "engine", NULL };
    char dir[64];
    void *ctr;

    node_task(&task, "fnd/hello", 7, dir);
    list_is("running"); /* also before it is: no list opens what its create has not */
    routes[CREATE] = (struct route){ "/containers/create", CREATED, false, NULL };
    routes[ATTACH] = (struct route){ "/attach?", answer_to_attach, false, &attached };
    routes[EVENTS] = (struct route){ "container%22%5D", STREAM, false, NULL };
    routes[STATE] = (struct route){ "/json", OK(30, "{\"State\":{\"ExitCode\":3,\"x\":0}}"), false, NULL };
    routes[CHANGE] = (struct route){ "/containers/", NO_CONTENT, false, NULL };
    node_note_log();
    engine_start();
    driver_start_with(socket_path, options);
    ck_assert_msg(node != NULL, "%s", err.msg);
    ck_assert_msg(node_create(node, &task, &ctr, &err) == 0, "%s", err.msg);
    ck_assert_msg(node_start_ctr(node, ctr, &err) == 0, "%s", err.msg);
    ck_assert(reaches(&clients[ATTACH], 1));
    ck_assert(reaches(&clients[EVENTS], 1));
    ck_assert(node_wait_engine(node, true)); /* the list of the first stream has come */
    rmdir(dir);
    return ctr;
}

static void print(const char *frame, size_t len)
{
    ck_assert_int_eq(write(atomic_load(&clients[ATTACH]), frame, len), (ssize_t)len);
}

/* All streams end, that of the output within a frame; the container goes on. */
static void engine_goes(void)
{
    int old = atomic_load(&clients[ATTACH]);

    print("\1\0\0\0\0\0\0\3one\1\0\0", 14);
    ck_assert(node_wait_output(node, 1, "one"));
    atomic_store(&clients[ATTACH], 0);
    shutdown(old, SHUT_RDWR);
    shutdown(atomic_load(&clients[EVENTS]), SHUT_RDWR);
}

static void expect_output_again(void)
{
    ck_assert(reaches(&attached, 2));
    ck_assert(reaches(&clients[ATTACH], 1));
    print("\2\0\0\0\0\0\0\3two", 11);
    ck_assert(node_wait_output(node, 2, "two"));
}

/* Also when only the API of the engine, or what stands before it, was started again. */
START_TEST(output_is_read_again_when_the_engine_is_back)
{
    void *ctr = running_ctr();

    engine_goes();
    expect_output_again();
    ck_assert_uint_eq(node_logged(READ_AGAIN), 1);
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
    ck_assert_int_eq(atomic_load(&attached), 2);
}
END_TEST

/* An engine attaches to no paused container. */
START_TEST(output_of_a_paused_container_is_read_again_after_its_thaw)
{
    void *ctr = running_ctr();
    int before;

    ck_assert_msg(node_freeze(node, ctr, true, &err) == 0, "%s", err.msg);
    list_is("paused");
    before = atomic_load(&lists);
    engine_goes();
    ck_assert(reaches(&lists, before + 1));
    ck_assert(node_wait_engine(node, true));
    ck_assert_int_eq(atomic_load(&attached), 1);
    ck_assert_msg(node_freeze(node, ctr, false, &err) == 0, "%s", err.msg);
    expect_output_again();
    ck_assert_uint_eq(node_logged(READ_AGAIN), 0);
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
}
END_TEST

/* It is told once, not with each call. */
START_TEST(output_that_is_refused_is_not_asked_for_again)
{
    static const char refusal[] = "HTTP/1.1 403 X\r\nContent-Length: 2\r\n\r\n{}";
    int before;
    void *ctr;

    answer_to_attach = refusal;
    ctr = running_ctr();
    before = atomic_load(&lists);
    shutdown(atomic_load(&clients[EVENTS]), SHUT_RDWR);
    ck_assert(reaches(&lists, before + 1));
    ck_assert(node_wait_engine(node, true));
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(node_freeze(node, ctr, true, &err) == 0, "%s", err.msg);
        ck_assert_msg(node_freeze(node, ctr, false, &err) == 0, "%s", err.msg);
    }
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
    ck_assert_int_eq(atomic_load(&attached), 1);
    ck_assert_uint_eq(node_logged("its output cannot be read"), 1);
}
END_TEST

/* A container that ended is not attached to, nor one that the engine knows no more. */
START_TEST(output_of_what_has_ended_is_not_read_again)
{
    void *ctr = running_ctr();
    struct fn_exit what;

    list_is("exited");
    engine_goes();
    ck_assert(node_wait_exit(node, 7, &what));
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
    ck_assert_int_eq(atomic_load(&attached), 1);
}
END_TEST

TCase *output_case(void)
{
    TCase *t = tcase_create("output");

    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, output_is_read_again_when_the_engine_is_back);
    tcase_add_test(t, output_of_a_paused_container_is_read_again_after_its_thaw);
    tcase_add_test(t, output_that_is_refused_is_not_asked_for_again);
    tcase_add_test(t, output_of_what_has_ended_is_not_read_again);
    return t;
}
