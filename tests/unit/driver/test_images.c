/* What driver-docker knows of the images of an engine, against a scripted one. */
#include "scripted.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OF_IMAGES     "type%22%3A%5B%22image%22%5D%7D"
#define HELLO         "GET /images/fnd/hello:latest/json"
#define HELLO_IS_FINE OK(29, "{\"Id\":\"sha256:a\",\"Config\":{}}")
#define NOT_THERE     "HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\n{}"

static atomic_int inspections, pulls, streams;
static struct fn_task task;
static char dir[64];

/* An engine with the image, whose image events the driver asks for. */
static void setup(void)
{
    routes[0] = (struct route){ HELLO, HELLO_IS_FINE, false, &inspections };
    routes[1] = (struct route){ OF_IMAGES, STREAM, false, &streams };
    routes[2] = (struct route){ "POST /images/create", OK(2, "{}"), false, &pulls };
    both();
    node_task(&task, "fnd/hello", 1, dir);
    ck_assert(reaches(&clients[1], 1));
}

static void leave(void)
{
    rmdir(dir);
}

static void tell(const char *line)
{
    ck_assert_int_eq(write(atomic_load(&clients[1]), line, strlen(line)), (ssize_t)strlen(line));
}

/* Prepares until the engine is asked for the image again, which an event leads to a moment later. */
static bool is_asked_again(int before)
{
    for (int i = 0; i < NODE_WAIT_MS && atomic_load(&inspections) == before; i++) {
        ck_assert_msg(node_prepare(node, &task, &err) == 0, "%s", err.msg);
        usleep(1000);
    }
    return atomic_load(&inspections) > before;
}

START_TEST(an_image_is_asked_for_once)
{
    setup();
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    }
    ck_assert_int_eq(atomic_load(&inspections), 1);
    leave();
}
END_TEST

/* Whatever happened, to whatever image, as each engine says it; a line that is no event may have been
 * one. */
static const char *const events[] = {
    "{\"Type\":\"image\",\"Action\":\"delete\",\"Actor\":{\"ID\":\"sha256:a\"}}\n",
    "{\"Type\":\"image\",\"Action\":\"untag\",\"Actor\":{\"Attributes\":{\"name\":\"other\"}}}\n",
    "{\"Type\":\"image\",\"Action\":\"tag\"}\n",
    "{\"Type\":\"image\",\"Action\":\"loadfromarchive\"}\n",
    "nonsense\n",
};

START_TEST(an_image_event_ends_what_is_known)
{
    setup();
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    tell(events[_i]);
    ck_assert(is_asked_again(1));
    leave();
}
END_TEST

START_TEST(an_image_that_was_removed_is_pulled_at_once)
{
    int asked;

    setup();
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    route_answers(0, NOT_THERE);
    tell(events[0]);
    for (int i = 0; i < NODE_WAIT_MS && atomic_load(&pulls) == 0; i++) {
        node_prepare(node, &task, &err);
        usleep(1000);
    }
    ck_assert_int_eq(atomic_load(&pulls), 1);
    asked = atomic_load(&inspections);
    ck_assert_int_eq(node_prepare(node, &task, &err), FN_E_UNAVAILABLE); /* what is not there is asked */
    ck_assert_int_eq(atomic_load(&inspections), asked + 2);
    leave();
}
END_TEST

/* Events are missed then. The next stream begins with those of a moment ago. */
START_TEST(what_is_known_ends_with_the_stream)
{
    int before = 0;

    setup();
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    shutdown(atomic_load(&clients[1]), SHUT_RDWR);
    ck_assert(is_asked_again(1));
    ck_assert(reaches(&streams, 2));
    for (int i = 0; i < NODE_WAIT_MS; i++) { /* until it is known again */
        before = atomic_load(&inspections);
        ck_assert_int_eq(node_prepare(node, &task, &err), 0);
        if (atomic_load(&inspections) == before) {
            break;
        }
    }
    ck_assert_int_eq(atomic_load(&inspections), before);
    leave();
}
END_TEST

/* A filter before the engine may know no such events. */
START_TEST(without_a_stream_nothing_is_known)
{
    routes[0] = (struct route){ HELLO, HELLO_IS_FINE, false, &inspections };
    routes[1] = (struct route){ OF_IMAGES, "HTTP/1.1 403 X\r\nContent-Length: 2\r\n\r\n{}", true,
                                &streams };
    both();
    node_task(&task, "fnd/hello", 1, dir);
    ck_assert(reaches(&streams, 2)); /* the first one has ended */
    ck_assert(is_asked_again(0));
    ck_assert(is_asked_again(1));
    ck_assert(is_asked_again(2));
    leave();
}
END_TEST

static void *prepare_one(void *arg)
{
    struct fn_error e = { .size = sizeof(e) };

    (void)arg;
    ck_assert_int_eq(node_prepare(node, &task, &e), 0);
    return NULL;
}

/* The answer of an inspection that an event overtook says nothing of now. The other image shows when
 * the event was heeded. */
START_TEST(an_answer_from_before_an_event_is_not_kept)
{
    static const char answer[] = HELLO_IS_FINE;
    static atomic_int others;
    struct fn_task other;
    pthread_t thread;
    char others_dir[64];

    routes[3] = (struct route){ "GET /images/other:1/json", HELLO_IS_FINE, false, &others };
    setup();
    node_task(&other, "other:1", 2, others_dir);
    pthread_mutex_lock(&lock);
    routes[0].answer = NULL;
    atomic_store(&clients[0], 0);
    pthread_mutex_unlock(&lock);
    ck_assert_int_eq(node_prepare(node, &other, &err), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, prepare_one, NULL), 0);
    ck_assert(reaches(&clients[0], 1));
    tell(events[0]);
    for (int i = 0; i < NODE_WAIT_MS && atomic_load(&others) == 1; i++) {
        ck_assert_int_eq(node_prepare(node, &other, &err), 0);
        usleep(1000);
    }
    ck_assert_int_eq(write(atomic_load(&clients[0]), answer, strlen(answer)), (ssize_t)strlen(answer));
    pthread_join(thread, NULL);
    route_answers(0, HELLO_IS_FINE);
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    ck_assert_int_eq(atomic_load(&inspections), 2);
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    ck_assert_int_eq(atomic_load(&inspections), 2);
    rmdir(others_dir);
    leave();
}
END_TEST

/* The engine's create is the last to say so. */
START_TEST(an_image_that_a_create_misses_is_asked_for_again)
{
    void *ctr;

    routes[3] = (struct route){ "/containers/create", NOT_THERE, false, NULL };
    setup();
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    ck_assert_int_eq(node_create(node, &task, &ctr, &err), FN_E_NOT_FOUND);
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    ck_assert_int_eq(atomic_load(&inspections), 2);
    leave();
}
END_TEST

/* What an image may not be is asked of what is known, for each function. */
START_TEST(a_known_image_is_judged_for_each_task)
{
    routes[0] = (struct route){ HELLO, OK(48, "{\"Id\":\"sha256:1\",\"Config\":{\"Volumes\":{\"/d\":{}}}}"),
                                false, &inspections };
    routes[1] = (struct route){ OF_IMAGES, STREAM, false, &streams };
    both();
    node_task(&task, "fnd/hello", 1, dir);
    ck_assert(reaches(&clients[1], 1));
    for (int i = 0; i < 3; i++) {
        task.flags &= ~FN_TASK_ALLOW_VOLUMES;
        ck_assert_int_eq(node_prepare(node, &task, &err), FN_E_INVALID);
        task.flags |= FN_TASK_ALLOW_VOLUMES;
        ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    }
    ck_assert_int_eq(atomic_load(&inspections), 1);
    leave();
}
END_TEST

/* ---- a full disk (F43) ----------------------------------------------------------------------- */

#define FULL_PULL                                                                                  \
    OK(66, "{\"error\":\"write /var/lib/docker/tmp/x: no space left on device\"}\r\n")
#define FULL_CREATE                                                                                \
    "HTTP/1.1 500 X\r\nContent-Length: 47\r\n\r\n"                                                 \
    "{\"message\":\"mkdir /x: no space left on device\"}"
#define TELLS_FULL "the container engine's disk is full"

static void expect_full(const char *text)
{
    ck_assert_int_eq(node_prepare(node, &task, &err), FN_E_EXHAUSTED);
    ck_assert_msg(strstr(err.msg, text) != NULL, "%s", err.msg);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    ck_assert_uint_eq(err.blame, FN_BLAME_PLATFORM);
}

START_TEST(a_full_disk_ends_pulls_for_a_while)
{
    node_note_log();
    setup();
    route_answers(0, NOT_THERE);
    route_answers(2, FULL_PULL);
    ck_assert_int_eq(node_metric("docker", "disk_full"), 0);
    expect_full("fnd/hello: the engine's disk is full: write /var/lib/docker/tmp/x");
    for (int i = 0; i < 5; i++) {
        expect_full("image 'fnd/hello' is not pulled: the engine's disk is full; tried again in 30 s");
    }
    ck_assert_int_eq(atomic_load(&pulls), 1);
    ck_assert_int_eq(node_metric("docker", "disk_full"), 1);
    ck_assert_uint_eq(node_logged(TELLS_FULL), 1);
    node_pass_ns(29 * 1000000000LL);
    expect_full("tried again in 1 s");
    node_pass_ns(2 * 1000000000LL);
    for (int i = 0; i < NODE_WAIT_MS && node_metric("docker", "disk_full") == 1; i++) {
        usleep(1000);
    }
    ck_assert_int_eq(node_metric("docker", "disk_full"), 0);
    expect_full("write /var/lib/docker/tmp/x");
    ck_assert_int_eq(atomic_load(&pulls), 2);
    ck_assert_int_eq(node_metric("docker", "disk_full"), 1);
    ck_assert_uint_eq(node_logged(TELLS_FULL), 2);
    leave();
}
END_TEST

/* The registry of one tenant, in whatever answer. */
START_TEST(a_registry_cannot_declare_the_disk_full)
{
    static const char *const answers[] = {
        "HTTP/1.1 404 X\r\nContent-Length: 46\r\n\r\n{\"message\":\"unknown: no space left on device\"}",
        "HTTP/1.1 500 X\r\nContent-Length: 46\r\n\r\n{\"message\":\"unknown: no space left on device\"}",
        OK(44, "{\"error\":\"unknown: no space left on device\"}"),
    };
    static atomic_int others;
    struct fn_task other;
    char others_dir[64];

    routes[0] = (struct route){ "fromImage=other", OK(2, "{}"), false, &others };
    routes[1] = (struct route){ "POST /images/create", answers[_i], false, &pulls };
    both();
    node_task(&task, "fnd/hello", 1, dir);
    ck_assert_int_lt(node_prepare(node, &task, &err), 0);
    ck_assert_uint_eq(err.blame, FN_BLAME_USER);
    ck_assert_int_eq(atomic_load(&pulls), 1);
    ck_assert_int_eq(node_metric("docker", "disk_full"), 0);
    node_task(&other, "other:1", 2, others_dir);
    node_prepare(node, &other, &err);
    ck_assert_int_eq(atomic_load(&others), 1);
    rmdir(others_dir);
    leave();
}
END_TEST

/* It tells of the disk as a pull does; what is there already is still found. */
START_TEST(a_create_that_finds_no_space_ends_pulls_too)
{
    struct fn_task other;
    char others_dir[64];
    void *ctr;

    routes[3] = (struct route){ "/containers/create", FULL_CREATE, false, NULL };
    setup();
    ck_assert_int_eq(node_create(node, &task, &ctr, &err), FN_E_EXHAUSTED);
    ck_assert_str_eq(err.msg, "create: the engine's disk is full: mkdir /x: no space left on device");
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    node_task(&other, "other:1", 2, others_dir);
    ck_assert_int_eq(node_prepare(node, &other, &err), FN_E_EXHAUSTED);
    ck_assert_int_eq(atomic_load(&pulls), 0);
    ck_assert_int_eq(node_prepare(node, &task, &err), 0);
    rmdir(others_dir);
    leave();
}
END_TEST

/* images_max is far away, but the disk is full: a quarter of what they take goes. */
START_TEST(a_full_disk_makes_the_cleaner_remove_more)
{
    static const char *const options[] = { "images_max", "1000000", NULL };
    static const char usage[] =
        OK(161, "{\"LayersSize\":1000,\"Images\":["
                "{\"Id\":\"sha256:b\",\"RepoTags\":[\"b:1\"],\"Size\":300,\"Created\":1,\"Containers\":0},"
                "{\"Id\":\"sha256:e\",\"Size\":300,\"Created\":2,\"Containers\":0}]}");
    static atomic_int old, young;
    uint32_t removed;

    routes[0] = (struct route){ HELLO, NOT_THERE, false, &inspections };
    routes[1] = (struct route){ "POST /images/create", FULL_PULL, false, &pulls };
    routes[2] = (struct route){ "/system/df", usage, false, NULL };
    routes[3] = (struct route){ "/containers/json", OK(2, "[]"), true, NULL };
    routes[4] = (struct route){ "DELETE /images/b%3A1", OK(2, "[]"), false, &old };
    routes[5] = (struct route){ "DELETE /images/sha256%3Ae", OK(2, "[]"), false, &young };
    engine_start();
    driver_start_with(socket_path, options);
    ck_assert_msg(node != NULL, "%s", err.msg);
    node_task(&task, "fnd/hello", 1, dir);
    ck_assert_int_eq(node_sweep(node, "me", "this", &removed, &err), 0);
    ck_assert_int_eq(atomic_load(&old) + atomic_load(&young), 0);
    expect_full("no space left on device");
    ck_assert_int_eq(node_sweep(node, "me", "this", &removed, &err), 0);
    ck_assert_int_gt(atomic_load(&old), 0);
    ck_assert_int_eq(atomic_load(&young), 0);
    leave();
}
END_TEST

/* ---- the load file --------------------------------------------------------------------------- */

#define LOADS        2 /* its route */
#define SWEEP_MS     2000
#define LOAD_FAILED  "; tried again in 10 min, and by calls of images that are not there"

static atomic_int loads;
static char load_path[64];

/* An engine that has an image, another one that it does not, and loads for ever. */
static void setup_load(void)
{
    int fd;

    snprintf(load_path, sizeof(load_path), "/tmp/fnd-load-%d.tar", (int)getpid());
    fd = open(load_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    close(fd);
    routes[0] = (struct route){ HELLO, HELLO_IS_FINE, false, &inspections };
    routes[1] = (struct route){ OF_IMAGES, STREAM, false, &streams };
    routes[LOADS] = (struct route){ "POST /images/load", NULL, false, &loads };
    routes[3] = (struct route){ "/images/other:1/json", NOT_THERE, false, NULL };
    routes[4] = (struct route){ "POST /images/create", NOT_THERE, false, &pulls };
    routes[5] = (struct route){ "/containers/json", OK(2, "[]"), true, NULL };
    node_note_log();
    engine_start();
    driver_start(socket_path, "load_file", load_path);
    ck_assert_msg(node != NULL, "%s", err.msg);
    node_task(&task, "fnd/hello", 1, dir);
}

static void leave_load(const char *others_dir)
{
    unlink(load_path);
    rmdir(others_dir);
    leave();
}

static void *sweep(void *arg)
{
    struct fn_error e = { .size = sizeof(e) };
    uint32_t removed;

    (void)arg;
    return (void *)(intptr_t)node_sweep(node, "me", "this", &removed, &e);
}

START_TEST(nobody_waits_for_a_load_file_without_need)
{
    char others_dir[64], line[160];
    struct fn_task other;
    pthread_t sweeping;
    void *r;

    setup_load();
    node_task(&other, "other:1", 2, others_dir);
    node_deadline_ms(node, SWEEP_MS);
    pthread_create(&sweeping, NULL, sweep, NULL);
    ck_assert(reaches(&loads, 1));
    ck_assert_msg(node_prepare(node, &task, &err) == 0, "%s", err.msg);
    ck_assert_int_lt(node_took_ns(node), SWEEP_MS * 1000000LL / 2);
    node_deadline_ms(node, 100);
    ck_assert_int_eq(node_prepare(node, &other, &err), FN_E_DEADLINE);
    snprintf(line, sizeof(line), "load_file %s: it is being loaded", load_path);
    ck_assert_str_eq(err.msg, line);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    pthread_join(sweeping, &r);
    ck_assert_int_eq((intptr_t)r, 0);
    ck_assert_int_eq(atomic_load(&loads), 1);
    ck_assert_uint_eq(node_logged(LOAD_FAILED), 1);
    leave_load(others_dir);
}
END_TEST

/* Whatever the engine says of it: the file is the operator's. */
START_TEST(a_load_that_failed_is_tried_again_and_blames_nobody)
{
    char others_dir[64];
    struct fn_task other;

    setup_load();
    node_task(&other, "other:1", 2, others_dir);
    route_answers(LOADS, "HTTP/1.1 400 X\r\nContent-Length: 2\r\n\r\n{}");
    ck_assert_int_eq((intptr_t)sweep(NULL), 0);
    ck_assert_int_eq((intptr_t)sweep(NULL), 0);
    ck_assert_int_eq(atomic_load(&loads), 1);
    ck_assert_uint_eq(node_logged(LOAD_FAILED), 1);
    ck_assert_int_lt(node_prepare(node, &other, &err), 0);
    ck_assert_uint_eq(err.blame, FN_BLAME_PLATFORM);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    ck_assert_int_eq(atomic_load(&loads), 2);
    node_pass_ns(601 * 1000000000LL);
    ck_assert_int_eq((intptr_t)sweep(NULL), 0);
    ck_assert_int_eq(atomic_load(&loads), 3);
    route_answers(LOADS, OK(2, "{}"));
    ck_assert_int_eq(atomic_load(&pulls), 0);
    ck_assert_int_lt(node_prepare(node, &other, &err), 0); /* it is not in the file either */
    ck_assert_int_lt(node_prepare(node, &other, &err), 0);
    ck_assert_int_eq(atomic_load(&loads), 4);
    ck_assert_int_eq(atomic_load(&pulls), 2);
    leave_load(others_dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("docker driver, images");
    TCase *t = tcase_create("images");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN); /* clients hang up on the scripted engine */
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, an_image_is_asked_for_once);
    tcase_add_loop_test(t, an_image_event_ends_what_is_known, 0, sizeof(events) / sizeof(events[0]));
    tcase_add_test(t, an_image_that_was_removed_is_pulled_at_once);
    tcase_add_test(t, what_is_known_ends_with_the_stream);
    tcase_add_test(t, without_a_stream_nothing_is_known);
    tcase_add_test(t, an_answer_from_before_an_event_is_not_kept);
    tcase_add_test(t, an_image_that_a_create_misses_is_asked_for_again);
    tcase_add_test(t, a_known_image_is_judged_for_each_task);
    tcase_add_test(t, a_full_disk_ends_pulls_for_a_while);
    tcase_add_loop_test(t, a_registry_cannot_declare_the_disk_full, 0, 3);
    tcase_add_test(t, a_create_that_finds_no_space_ends_pulls_too);
    tcase_add_test(t, a_full_disk_makes_the_cleaner_remove_more);
    tcase_add_test(t, nobody_waits_for_a_load_file_without_need);
    tcase_add_test(t, a_load_that_failed_is_tried_again_and_blames_nobody);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
