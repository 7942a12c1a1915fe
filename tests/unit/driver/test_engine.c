/* driver-docker against a scripted engine on a unix socket: what an engine may do wrong. */
#include "engine_suites.h"
#include "runner_lock.h"
#include "scripted.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define API_LABELS_MAX (16 * 1024) /* as in docker_api.h */

/* ---- no engine to speak with ----------------------------------------------------------------- */

START_TEST(an_engine_that_is_not_there_is_named)
{
    char version[64], file[] = "/tmp/test-engine-file-XXXXXX";
    int fd = mkstemp(file);

    driver_start("/no/such/docker.sock", NULL, NULL);
    ck_assert_int_lt(node_probe(node, version, sizeof(version), &err), 0);
    ck_assert_str_eq(err.msg, "DOC1001 unix:///no/such/docker.sock: No such file or directory");
    node_stop(node);
    driver_start(file, NULL, NULL);
    ck_assert_int_lt(node_probe(node, version, sizeof(version), &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "DOC1001"));
    ck_assert_ptr_nonnull(strstr(err.msg, "not a socket"));
    close(fd);
    unlink(file);
}
END_TEST

START_TEST(an_old_api_is_refused)
{
    char version[64];

    routes[0] = (struct route){ "/_ping", OK(2, "OK"), false, NULL };
    routes[1] = (struct route){ "/version", OK(21, "{\"ApiVersion\":\"1.30\"}"), false, NULL };
    both();
    ck_assert_int_eq(node_probe(node, version, sizeof(version), &err), FN_E_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.msg, "DOC1002 engine API 1.30; need >= 1.40"));
}
END_TEST

/* Some ask other programs for theirs: a probe does not wait for that, and no call is refused for it. */
START_TEST(a_version_that_takes_long_is_told_later)
{
    static atomic_int asked;
    char version[64];

    routes[0] = (struct route){ "/_ping", OK(2, "OK"), false, NULL };
    routes[1] = (struct route){ "/version", NULL, false, &asked };
    routes[2] = (struct route){ "/info", OK(2, "{}"), false, NULL };
    both();
    for (int i = 1; i <= 2; i++) {
        ck_assert_msg(node_probe(node, version, sizeof(version), &err) == 0, "%s", err.msg);
        ck_assert_str_eq(version, "version not told yet");
        ck_assert_int_eq(atomic_load(&asked), i);
    }
    route_answers(1, OK(39, "{\"Version\":\"4.3.1\",\"ApiVersion\":\"1.41\"}"));
    for (int i = 0; i < 2; i++) { /* and asked no more */
        ck_assert_msg(node_probe(node, version, sizeof(version), &err) == 0, "%s", err.msg);
        ck_assert_str_eq(version, "4.3.1 (API 1.41)");
        ck_assert_int_eq(atomic_load(&asked), 3);
    }
}
END_TEST

#define OPEN_TO_ALL "every user of this machine may use the container engine"

/* T16. Folders count: what nobody else reaches is not open. Told once. */
START_TEST(a_socket_that_everybody_may_use_is_told)
{
    static const struct {
        mode_t folder, socket;
        uint32_t told;
    } rows[] = { { 0755, 0666, 1 }, { 0700, 0666, 0 }, { 0755, 0660, 0 }, { 0711, 0622, 1 } };
    char version[64], folder[] = "/tmp/test-engine-folder-XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(socket_folder, sizeof(socket_folder), "%s", folder);
    routes[0] = (struct route){ "/_ping", OK(2, "OK"), false, NULL };
    routes[1] = (struct route){ "/version", OK(39, "{\"Version\":\"4.3.1\",\"ApiVersion\":\"1.41\"}"),
                                false, NULL };
    node_note_log();
    engine_start();
    ck_assert_int_eq(chmod(socket_path, rows[_i].socket), 0);
    ck_assert_int_eq(chmod(folder, rows[_i].folder), 0);
    driver_start(socket_path, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(node_probe(node, version, sizeof(version), &err) == 0, "%s", err.msg);
    }
    ck_assert_uint_eq(node_logged(OPEN_TO_ALL), rows[_i].told);
    unlink(socket_path);
    rmdir(folder);
}
END_TEST

START_TEST(an_engine_that_wants_tls_says_so)
{
    char version[64];

    routes[0] = (struct route){
        "/_ping",
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", true, NULL
    };
    both();
    ck_assert_int_eq(node_probe(node, version, sizeof(version), &err), FN_E_PRECONDITION);
    ck_assert_str_eq(err.msg, "DOC1001 http://localhost: the engine speaks TLS; set tls_verify and "
                              "cert_path");
}
END_TEST

START_TEST(bad_options_are_refused)
{
    driver_start("relative", NULL, NULL);
    ck_assert_ptr_null(node);
    ck_assert_ptr_nonnull(strstr(err.msg, "docker_host"));
    driver_start("/x", "networks", "host");
    ck_assert_ptr_null(node);
    ck_assert_ptr_nonnull(strstr(err.msg, "networks, got \"host\""));
    driver_start("/x", "auth", "not json");
    ck_assert_ptr_null(node);
    ck_assert_ptr_null(strstr(err.msg, "not json"));
}
END_TEST

/* ---- F42 ------------------------------------------------------------------------------------- */

START_TEST(bad_create_answers_can_be_tried_elsewhere)
{
    static const char *const answers[] = {
        "HTTP/1.1 500 X\r\nContent-Length: 18\r\n\r\n{\"message\":\"boom\"}",
        "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n{\"Id\"",
        "HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"Id\"",
        "nonsense\r\n\r\n",
        "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 409 X\r\nContent-Length: 20\r\n\r\n{\"message\":\"in use\"}", /* sent twice */
    };
    static atomic_int removals;
    struct fn_task t;
    char dir[64];
    void *ctr;

    routes[0] = (struct route){ "/containers/create", answers[_i], true, NULL };
    routes[1] = (struct route){ "DELETE /containers/", NO_CONTENT, false, &removals };
    both();
    node_task(&t, "fnd/hello", 1, dir);
    ck_assert_int_lt(node_create(node, &t, &ctr, &err), 0);
    ck_assert_uint_eq(err.flags & FN_ERR_RETRY, FN_ERR_RETRY);
    ck_assert_str_ne(err.msg, "");
    ck_assert_int_ne(err.http_status, 200);
    ck_assert_int_ne(err.code, FN_E_EXISTS);
    /* What it may have made all the same is removed with the next call. */
    pthread_mutex_lock(&lock);
    routes[0].answer = CREATED;
    routes[0].close = false;
    pthread_mutex_unlock(&lock);
    ck_assert_int_eq(node_create(node, &t, &ctr, &err), 0);
    ck_assert_int_eq(atomic_load(&removals), 1);
    rmdir(dir);
}
END_TEST

/* A wrapper's copy is held against what the host asked for. */
START_TEST(a_wrapper_cannot_pass_for_the_host)
{
    struct fn_task own, t;
    char dir[64];
    void *ctr;

    routes[0] = (struct route){ "/containers/create", CREATED, false, NULL };
    both();
    node_task(&own, "fnd/hello", 1, dir);
    t = own;
    t.iofs_engine_dir = "/var/run";
    ck_assert_int_eq(node_create_wrapped(node, &own, &t, &ctr, &err), FN_E_PERMISSION);
    ck_assert_ptr_nonnull(strstr(err.msg, "DOC1003 fn_task of "));
    t = own;
    t.handle = 2;
    ck_assert_int_eq(node_create_wrapped(node, &own, &t, &ctr, &err), FN_E_PERMISSION);
    t = own;
    t.flags = FN_TASK_PRIVILEGED_USER;
    ck_assert_int_eq(node_create_wrapped(node, &own, &t, &ctr, &err), FN_E_PERMISSION);
    ck_assert_ptr_nonnull(strstr(err.msg, "DOC1003 fn_task.flags"));
    t = own;
    t.mem_bytes = 32 << 20;
    ck_assert_int_eq(node_create_wrapped(node, &own, &t, &ctr, &err), 0);
    rmdir(dir);
}
END_TEST

/* The answer is lost and no call follows: it is asked for all the same, again when the engine, which may
 * not have come to the create, says that there is nothing. */
START_TEST(an_orphan_is_removed_without_a_call)
{
    static atomic_int asked;
    struct fn_task t;
    char dir[64];
    void *ctr;

    routes[0] = (struct route){ "/containers/create", "nonsense\r\n\r\n", true, NULL };
    routes[1] = (struct route){ "/events", STREAM, false, NULL };
    routes[2] = (struct route){ "/containers/json", OK(2, "[]"), false, NULL };
    routes[3] = (struct route){ "DELETE /containers/",
                                "HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\n{}", false, &asked };
    both();
    node_task(&t, "fnd/hello", 1, dir);
    ck_assert_int_lt(node_create(node, &t, &ctr, &err), 0);
    ck_assert(reaches(&asked, 2));
    ck_assert_int_eq(atomic_load(&asked), 2);
    rmdir(dir);
}
END_TEST

START_TEST(an_image_that_went_away_is_not_found)
{
    struct fn_task t;
    char dir[64];
    void *ctr;

    routes[0] = (struct route){ "/containers/create",
                                "HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\n{}", false, NULL };
    both();
    node_task(&t, "fnd/hello", 1, dir);
    ck_assert_int_eq(node_create(node, &t, &ctr, &err), FN_E_NOT_FOUND);
    ck_assert_int_eq(err.http_status, 503);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    rmdir(dir);
}
END_TEST

/* ---- F49 ------------------------------------------------------------------------------------- */

START_TEST(a_pull_sends_its_credentials_and_never_shows_them)
{
    struct fn_task t;
    char dir[64];

    routes[0] = (struct route){ "/images/create",
                                "HTTP/1.1 401 X\r\nContent-Length: 16\r\n\r\n{\"message\":\"no\"}",
                                false, NULL };
    both();
    node_task(&t, "reg.x:5/fnd/hello", 1, dir);
    t.registry_token = "s3cret";
    ck_assert_int_lt(node_prepare(node, &t, &err), 0);
    ck_assert_str_eq(err.msg, "Failed to pull image 'reg.x:5/fnd/hello': no");
    ck_assert_int_eq(err.http_status, 401);
    pthread_mutex_lock(&lock);
    ck_assert_ptr_nonnull(strstr(last_post, "fromImage=reg.x%3A5%2Ffnd%2Fhello&tag=latest"));
    ck_assert_ptr_nonnull(
        strstr(last_post, "X-Registry-Auth: eyJyZWdpc3RyeXRva2VuIjoiczNjcmV0In0="));
    pthread_mutex_unlock(&lock);
    rmdir(dir);
}
END_TEST

/* What the program prints and how it ends; the header of the pull, NULL: there is none; and the
 * failure, NULL = that of the registry. */
static const struct {
    const char *script;
    const char *header;
    const char *error;
} helpers[] = {
    { "read r; echo '{\"ServerURL\":\"'$r'\",\"Username\":\"u\",\"Secret\":\"s3cret\"}'",
      "X-Registry-Auth: eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6InMzY3JldCIsInNlcnZlcmFkZHJlc3MiOiJyZWcueDo1"
      "In0=", NULL },
    { "[ $1 = get ] && echo '{\"Username\":\"<token>\",\"Secret\":\"s3cret\"}'",
      "X-Registry-Auth: eyJpZGVudGl0eXRva2VuIjoiczNjcmV0In0=", NULL },
    { "echo credentials not found in native keychain; exit 1", NULL, NULL },
    { "echo s3cret; exit 3", NULL,
      "docker-credential-test has no answer for reg.x:5: exit code 3; expected a credential as JSON" },
    { "echo s3cret", NULL,
      "docker-credential-test has no answer for reg.x:5: exit code 0; expected a credential as JSON" },
};

START_TEST(a_credential_helper_is_asked)
{
    char dir[] = "/tmp/test-engine-helper-XXXXXX", file[64], path[512], iofs[64];
    struct fn_task t;
    FILE *f;

    routes[0] = (struct route){ "/images/create",
                                "HTTP/1.1 401 X\r\nContent-Length: 16\r\n\r\n{\"message\":\"no\"}",
                                false, NULL };
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof(file), "%s/docker-credential-test", dir);
    f = fopen(file, "w");
    fprintf(f, "#!/bin/sh\n%s\n", helpers[_i].script);
    fchmod(fileno(f), 0700);
    fclose(f);
    snprintf(path, sizeof(path), "%s:%s", dir, getenv("PATH"));
    setenv("PATH", path, 1);
    engine_start();
    driver_start(socket_path, "auth", "{\"auths\":{},\"credsStore\":\"test\"}");
    ck_assert_msg(node != NULL, "%s", err.msg);
    node_task(&t, "reg.x:5/fnd/hello", 1, iofs);
    ck_assert_int_lt(node_prepare(node, &t, &err), 0);
    ck_assert_str_eq(err.msg, helpers[_i].error ? helpers[_i].error
                                                : "Failed to pull image 'reg.x:5/fnd/hello': no");
    pthread_mutex_lock(&lock);
    ck_assert(!strstr(last_post, "X-Registry-Auth") == !helpers[_i].header);
    ck_assert(!helpers[_i].header || strstr(last_post, helpers[_i].header));
    pthread_mutex_unlock(&lock);
    unlink(file);
    rmdir(dir);
    rmdir(iofs);
}
END_TEST

START_TEST(a_pull_that_hangs_ends_at_the_deadline)
{
    struct fn_task t;
    char dir[64];
    void *ctr;

    routes[0] = (struct route){ "/images/create", NULL, false, NULL };
    both();
    node_deadline_ms(node, 300);
    node_task(&t, "fnd/hello", 1, dir);
    ck_assert_int_eq(node_prepare(node, &t, &err), FN_E_DEADLINE);
    ck_assert_str_eq(err.msg, "Image pull timed out");
    ck_assert_int_eq(err.http_status, 504);
    /* A registry that hangs is no reason to give the engine up. */
    ck_assert_int_eq(node_create(node, &t, &ctr, &err), FN_E_NOT_FOUND);
    rmdir(dir);
}
END_TEST

START_TEST(images_with_volumes_need_permission)
{
    struct fn_task t;
    char dir[64];

    routes[0] = (struct route){ "/images/fnd/hello:latest/json",
                                OK(48, "{\"Id\":\"sha256:1\",\"Config\":{\"Volumes\":{\"/d\":{}}}}"),
                                false, NULL };
    both();
    node_task(&t, "fnd/hello", 1, dir);
    ck_assert_int_eq(node_prepare(node, &t, &err), FN_E_INVALID);
    ck_assert_int_eq(err.http_status, 400);
    t.flags |= FN_TASK_ALLOW_VOLUMES;
    ck_assert_int_eq(node_prepare(node, &t, &err), 0);
    rmdir(dir);
}
END_TEST

static const char *images_usage(void)
{
    static const char usage[] =
        "{\"LayersSize\":1000,\"Images\":["
        "{\"Id\":\"sha256:a\",\"RepoTags\":[\"fnd/hello:latest\"],\"Size\":9,\"Containers\":0},"
        "{\"Id\":\"sha256:b\",\"RepoTags\":[\"b:1\",\"kept:1\"],\"Size\":9,\"Containers\":0},"
        "{\"Id\":\"sha256:c\",\"RepoTags\":[\"c:1\"],\"Size\":9,\"Containers\":1},"
        "{\"Id\":\"sha256:d\",\"RepoTags\":[\"d:1\"],\"Size\":9},"
        "{\"Id\":\"sha256:e\",\"RepoTags\":null,\"Size\":9,\"Containers\":0},"
        "7]}";
    static char answer[1024];

    snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(usage), usage);
    return answer;
}

/* A driver that keeps images below 999 bytes, of which there are 1000 in images_usage(). */
static void start_cleaning(void)
{
    static const char *const options[] = { "images_max", "999", "images_exempt", "kept:1", NULL };

    engine_start();
    driver_start_with(socket_path, options);
    ck_assert_msg(node != NULL, "%s", err.msg);
}

/* Of six images only the one may go that nobody uses, names as exempt or has a container of. In use is
 * what was only prepared (0), and what had a container a moment ago (1). */
START_TEST(images_that_nobody_uses_are_removed)
{
    static atomic_int wrong, right, asked;
    char dir[64];
    uint32_t removed;
    struct fn_task t;
    void *ctr;

    routes[0] = (struct route){ "/images/fnd/hello:latest/json",
                                OK(29, "{\"Id\":\"sha256:a\",\"Config\":{}}"), false, NULL };
    routes[1] = (struct route){ "/system/df", images_usage(), false, &asked };
    routes[2] = (struct route){ "/containers/json", OK(2, "[]"), true, NULL };
    routes[3] = (struct route){ "DELETE /images/sha256%3Ae", OK(2, "[]"), false, &right };
    routes[4] = (struct route){ "DELETE /containers/", NO_CONTENT, false, NULL };
    routes[5] = (struct route){ "DELETE", OK(2, "[]"), false, &wrong };
    routes[6] = (struct route){ "/containers/create", CREATED, false, NULL };
    start_cleaning();
    node_task(&t, "fnd/hello", 1, dir);
    ck_assert_int_eq(node_prepare(node, &t, &err), 0);
    if (_i == 1) {
        ck_assert(node_create(node, &t, &ctr, &err) == 0 && node_close(node, ctr, &err) == 0);
    }
    ck_assert_msg(node_sweep(node, "me", "this", &removed, &err) == 0, "%s", err.msg);
    ck_assert_int_gt(atomic_load(&right), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
    ck_assert_int_eq(node_sweep(node, "me", "this", &removed, &err), 0);
    ck_assert_int_eq(atomic_load(&asked), 8); /* over it after all rounds: again a minute later */
    rmdir(dir);
}
END_TEST

/* An engine counts for one client at a time, and refuses another's question meanwhile. */
START_TEST(a_busy_engine_is_asked_at_the_next_sweep)
{
    static atomic_int removals;
    uint32_t removed;

    routes[0] = (struct route){
        "/system/df",
        "HTTP/1.1 500 X\r\nContent-Length: 55\r\n\r\n"
        "{\"message\":\"a disk usage operation is already running\"}",
        false, NULL
    };
    routes[1] = (struct route){ "/containers/json", OK(2, "[]"), true, NULL };
    routes[2] = (struct route){ "DELETE /images/sha256%3Ae", OK(2, "[]"), false, &removals };
    start_cleaning();
    ck_assert_int_eq(node_sweep(node, "me", "this", &removed, &err), 0);
    ck_assert_int_eq(atomic_load(&removals), 0);
    route_answers(0, images_usage());
    ck_assert_int_eq(node_sweep(node, "me", "this", &removed, &err), 0);
    ck_assert_int_gt(atomic_load(&removals), 0);
}
END_TEST

/* Every container of an image carries its labels, in each list and event of the engine. */
START_TEST(images_with_large_labels_are_refused)
{
    /* Two images: what the driver knows of one it does not ask again. */
    static const char *const images[] = { "fnd/small", "fnd/hello" };
    static const char *const paths[] = { "/images/fnd/small:latest/json",
                                         "/images/fnd/hello:latest/json" };
    static char answers[2][API_LABELS_MAX + 512]; /* the engine may still write the first */
    char labels[API_LABELS_MAX + 2];
    struct fn_task t;
    char dir[64];

    both();
    node_task(&t, "fnd/hello", 1, dir);
    for (int over = 0; over <= 1; over++) {
        memset(labels, 'x', sizeof(labels));
        labels[API_LABELS_MAX - 1 + over] = '\0'; /* and one byte of the key */
        snprintf(answers[over], sizeof(answers[over]),
                 "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n"
                 "{\"Id\":\"sha256:1\",\"Config\":{\"Labels\":{\"k\":\"%s\"}}}",
                 strlen(labels) + 46, labels);
        pthread_mutex_lock(&lock);
        routes[0] = (struct route){ paths[over], answers[over], false, NULL };
        pthread_mutex_unlock(&lock);
        t.image = images[over];
        ck_assert_int_eq(node_prepare(node, &t, &err), over ? FN_E_INVALID : 0);
    }
    ck_assert_str_eq(err.msg, "image 'fnd/hello' has labels of 16385 bytes; expected at most 16384");
    ck_assert_int_eq(err.http_status, 400);
    rmdir(dir);
}
END_TEST

START_TEST(a_list_that_stalls_ends_at_the_deadline)
{
    uint32_t removed;

    routes[0] = (struct route){ "/containers/json",
                                "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[", false, NULL };
    both();
    node_deadline_ms(node, 300);
    ck_assert_int_eq(node_sweep(node, "owner", "instance", &removed, &err), FN_E_DEADLINE);
    ck_assert_str_eq(err.msg, "list: the engine did not end its answer in time");
    route_answers(0, OK(2, "[]"));
    node_deadline_ms(node, 10000);
    ck_assert_int_eq(node_sweep(node, "owner", "instance", &removed, &err), 0);
    ck_assert_uint_eq(removed, 0);
}
END_TEST

/* F52. Of five containers one is ours, and one of another runner; those that the list does not name
 * are of others. */
START_TEST(containers_of_others_are_counted_and_told)
{
    static const char list[] =
        "[{\"Id\":\"0123456789ab\",\"Labels\":{\"io.fnd.owner\":\"me\",\"io.fnd.instance\":\"this\"}},"
        "{\"Id\":\"ba9876543210\",\"Labels\":{\"io.fnd.owner\":\"you\",\"io.fnd.instance\":\"that\"}}]";
    static char answer[512];
    uint32_t removed;

    snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(list), list);
    routes[0] = (struct route){ "/containers/json", answer, false, NULL };
    routes[1] = (struct route){ "/info", OK(16, "{\"Containers\":5}"), false, NULL };
    node_note_log();
    both();
    for (int i = 0; i < 3; i++) { /* what the engine is comes with the first one */
        ck_assert_msg(node_sweep(node, "me", "this", &removed, &err) == 0, "%s", err.msg);
        ck_assert_uint_eq(removed, 0);
        ck_assert_int_eq(node_metric("docker", "containers_of_others"), 1);
    }
    ck_assert_uint_eq(node_logged("4 of its containers are of others, 1 of them of other runners"), 1);
    route_answers(0, OK(2, "[]"));
    ck_assert_int_eq(node_sweep(node, "me", "this", &removed, &err), 0);
    ck_assert_int_eq(node_metric("docker", "containers_of_others"), 0);
}
END_TEST

/* Two runners of one owner by mistake: they would kill each other's functions at every sweep. */
START_TEST(containers_of_a_living_runner_of_the_same_owner_are_left)
{
    static char answer[1024];
    char instance[] = "/tmp/fnd-test-XXXXXX", file[80], iofs[80], label[256], list[700];
    uint32_t removed;
    int fd;

    ck_assert_ptr_nonnull(mkdtemp(instance));
    snprintf(file, sizeof(file), "%s/.lock", instance);
    snprintf(iofs, sizeof(iofs), "%s/iofs1", instance);
    fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    lock_label(iofs, label, sizeof(label));
    snprintf(list, sizeof(list),
             "[{\"Id\":\"0123456789ab\",\"Labels\":{\"io.fnd.owner\":\"me\","
             "\"io.fnd.instance\":\"that\",\"io.fnd.lock\":\"%s\"}}]", label);
    snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(list), list);
    routes[0] = (struct route){ "/containers/json", answer, false, NULL };
    routes[1] = (struct route){ "DELETE /containers/0123456789ab", NO_CONTENT, false, NULL };
    both();
    for (uint32_t dead = 0; dead <= 1; dead++) {
        ck_assert_msg(node_sweep(node, "me", "this", &removed, &err) == 0, "%s", err.msg);
        ck_assert_uint_eq(removed, dead);
        flock(fd, LOCK_UN);
    }
    close(fd);
    unlink(file);
    rmdir(instance);
}
END_TEST

/* ---- F40 ------------------------------------------------------------------------------------- */

START_TEST(a_hung_engine_fails_fast_after_one_deadline)
{
    struct fn_task t;
    char dir[64];
    void *ctr;

    routes[0] = (struct route){ "/containers/create", NULL, false, NULL };
    both();
    node_task(&t, "fnd/hello", 1, dir);
    node_deadline_ms(node, 300);
    ck_assert_int_eq(node_create(node, &t, &ctr, &err), FN_E_DEADLINE);
    ck_assert_int_eq(node_create(node, &t, &ctr, &err), FN_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "does not answer"));
    ck_assert_int_lt(node_took_ns(node), 100000000);
    rmdir(dir);
}
END_TEST

struct hanging {
    const struct fn_task *task;
    int result;
    atomic_bool over;
};

static void *create_one(void *arg)
{
    struct hanging *h = arg;
    struct fn_error e = { .size = sizeof(e) };
    void *ctr;

    h->result = node_create(node, h->task, &ctr, &e);
    atomic_store(&h->over, true);
    return NULL;
}

START_TEST(a_container_that_hangs_says_nothing_of_an_engine_that_answers)
{
    struct hanging h = { .over = false };
    struct fn_task t;
    pthread_t thread;
    char dir[64], version[128];
    void *ctr;

    routes[0] = (struct route){ "/containers/create", NULL, false, NULL };
    routes[1] = (struct route){ "/_ping", OK(2, "OK"), false, NULL };
    routes[2] = (struct route){ "/version", OK(2, "{}"), false, NULL };
    routes[3] = (struct route){ "DELETE /containers/", NO_CONTENT, false, NULL };
    both();
    node_task(&t, "fnd/hello", 1, dir);
    h.task = &t;
    node_deadline_ms(node, 300);
    ck_assert_int_eq(pthread_create(&thread, NULL, create_one, &h), 0);
    while (!atomic_load(&h.over)) {
        node_probe(node, version, sizeof(version), &err); /* any answer will do */
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(h.result, FN_E_DEADLINE);
    route_answers(0, CREATED);
    node_deadline_ms(node, NODE_WAIT_MS);
    ck_assert_msg(node_create(node, &t, &ctr, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
    rmdir(dir);
}
END_TEST

/* ---- the event stream (F45) ------------------------------------------------------------------ */

static char ctr_dir[64]; /* of container 7 */

/* Container 7, not started; routes 0 to 3 are taken, `events` is the third. */
static void *made_container(struct route events)
{
    static struct fn_task t;
    void *ctr;

    routes[0] = (struct route){ "/containers/create", CREATED, false, NULL };
    routes[1] = (struct route){ "/start", NO_CONTENT, false, NULL };
    routes[2] = events;
    routes[3] = (struct route){ "DELETE /containers/", NO_CONTENT, false, NULL };
    both();
    node_task(&t, "fnd/hello", 7, ctr_dir);
    ck_assert_int_eq(node_create(node, &t, &ctr, &err), 0);
    return ctr;
}

/* Container 7, started, which the list has in that state; `inspection` is the answer of the sixth
 * route, `asked` its count. */
static void *listed_container(struct route events, const char *state, const char *inspection,
                              atomic_int *asked)
{
    static char list[512], path[160];
    char name[128], body[256];
    void *ctr = made_container(events);

    pthread_mutex_lock(&lock);
    ck_assert_int_eq(sscanf(strstr(last_post, "?name="), "?name=%127[^ &]", name), 1);
    snprintf(body, sizeof(body),
             "[{\"Id\":\"0123456789abcdef\",\"Names\":[\"/%s\"],\"State\":\"%s\"}]", name, state);
    snprintf(list, sizeof(list), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    snprintf(path, sizeof(path), "/%s/json", name);
    routes[4] = (struct route){ "/containers/json", list, false, NULL };
    routes[5] = (struct route){ path, inspection, false, asked };
    pthread_mutex_unlock(&lock);
    ck_assert_int_eq(node_start_ctr(node, ctr, &err), 0);
    return ctr;
}

START_TEST(a_broken_event_stream_is_opened_again_and_the_list_is_asked)
{
    static atomic_int events;
    struct fn_exit what;
    void *ctr;

    routes[4] = (struct route){ "/containers/json", OK(2, "[]"), false, NULL };
    /* ends at once, every time */
    ctr = made_container((struct route){ "/events", STREAM, true, &events });
    ck_assert_int_eq(node_start_ctr(node, ctr, &err), 0);
    /* No event says so, but the list after the reconnect does not have it. */
    ck_assert(node_wait_exit(node, 7, &what));
    ck_assert_uint_eq(what.reason, FN_EXIT_REMOVED);
    /* The list may be asked before the fake engine has counted the stream that it ended. */
    ck_assert(reaches(&events, 1));
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
    ck_assert_uint_eq(node_exits(node), 1);
    rmdir(ctr_dir);
}
END_TEST

/* The inspection that tells how a container ended may fail; it is asked for again. */
START_TEST(an_exit_is_told_though_its_inspection_failed)
{
    static atomic_int inspections;
    struct fn_exit what;
    /* the stream ends at once, every time */
    void *ctr = listed_container((struct route){ "/events", STREAM, true, NULL }, "exited",
                                 "HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n{}", &inspections);

    ck_assert(reaches(&inspections, 1));
    ck_assert_uint_eq(node_exits(node), 0);
    route_answers(5, OK(30, "{\"State\":{\"ExitCode\":3,\"x\":0}}"));
    ck_assert(node_wait_exit(node, 7, &what));
    ck_assert_uint_eq(what.reason, FN_EXIT_CODE);
    ck_assert_int_eq(what.status, 3);
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
    rmdir(ctr_dir);
}
END_TEST

static const struct {
    const char *later; /* what the inspection says in the end; NULL = the same for ever */
    int status;
} unsure[] = {
    { OK(48, "{\"State\":{\"Status\":\"exited\",\"ExitCode\":7,\"x\":0}}"), 7 },
    { NULL, 0 },
};

/* Podman says 0 until it knows better; one that never does is believed. */
START_TEST(an_exit_code_that_is_not_known_yet_is_asked_for_again)
{
    static atomic_int inspections;
    struct fn_exit what;
    void *ctr = listed_container(
        (struct route){ "container%22%5D", STREAM, false, NULL }, "stopped",
        OK(49, "{\"State\":{\"Status\":\"stopped\",\"ExitCode\":0,\"x\":0}}"), &inspections);

    ck_assert(reaches(&clients[2], 1));
    shutdown(atomic_load(&clients[2]), SHUT_RDWR); /* the next one begins with a list */
    ck_assert(reaches(&inspections, 2));
    ck_assert_uint_eq(node_exits(node), 0);
    if (unsure[_i].later) {
        route_answers(5, unsure[_i].later);
    }
    ck_assert(node_wait_exit(node, 7, &what));
    ck_assert_uint_eq(what.reason, FN_EXIT_CODE);
    ck_assert_int_eq(what.status, unsure[_i].status);
    ck_assert_int_eq(node_close(node, ctr, &err), 0);
    rmdir(ctr_dir);
}
END_TEST

START_TEST(the_engine_is_reported_up_and_down)
{
    uint32_t removed;

    routes[0] = (struct route){ "/events", STREAM, false, NULL };
    routes[1] = (struct route){ "/containers/json", OK(2, "[]"), false, NULL };
    both();
    ck_assert_int_eq(node_sweep(node, "owner", "instance", &removed, &err), 0);
    ck_assert(node_wait_engine(node, true));
}
END_TEST

/* It is told though no event stream was ever up; a host that has probed believes that it is there. */
START_TEST(an_engine_that_goes_before_its_first_event_is_reported_down)
{
    uint32_t removed;

    routes[0] = (struct route){ "instance", NULL, false, NULL }; /* the list that follows a stream */
    routes[1] = (struct route){ "/containers/json", OK(2, "[]"), false, NULL };
    routes[2] = (struct route){ "/events", NULL, true, NULL };
    both();
    ck_assert_int_eq(node_sweep(node, "owner", "instance", &removed, &err), 0);
    ck_assert(node_wait_engine(node, false));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("docker driver, scripted engine");
    TCase *t = tcase_create("engine");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN); /* clients hang up on the scripted engine */
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, an_engine_that_is_not_there_is_named);
    tcase_add_test(t, an_old_api_is_refused);
    tcase_add_test(t, a_version_that_takes_long_is_told_later);
    tcase_add_loop_test(t, a_socket_that_everybody_may_use_is_told, 0, 4);
    tcase_add_test(t, an_engine_that_wants_tls_says_so);
    tcase_add_test(t, bad_options_are_refused);
    tcase_add_loop_test(t, bad_create_answers_can_be_tried_elsewhere, 0, 6);
    tcase_add_test(t, a_wrapper_cannot_pass_for_the_host);
    tcase_add_test(t, an_orphan_is_removed_without_a_call);
    tcase_add_test(t, an_image_that_went_away_is_not_found);
    tcase_add_test(t, a_pull_sends_its_credentials_and_never_shows_them);
    tcase_add_loop_test(t, a_credential_helper_is_asked, 0, sizeof(helpers) / sizeof(helpers[0]));
    tcase_add_test(t, a_pull_that_hangs_ends_at_the_deadline);
    tcase_add_test(t, images_with_volumes_need_permission);
    tcase_add_loop_test(t, images_that_nobody_uses_are_removed, 0, 2);
    tcase_add_test(t, a_busy_engine_is_asked_at_the_next_sweep);
    tcase_add_test(t, images_with_large_labels_are_refused);
    tcase_add_test(t, a_list_that_stalls_ends_at_the_deadline);
    tcase_add_test(t, containers_of_others_are_counted_and_told);
    tcase_add_test(t, containers_of_a_living_runner_of_the_same_owner_are_left);
    tcase_add_test(t, a_hung_engine_fails_fast_after_one_deadline);
    tcase_add_test(t, a_container_that_hangs_says_nothing_of_an_engine_that_answers);
    tcase_add_test(t, a_broken_event_stream_is_opened_again_and_the_list_is_asked);
    tcase_add_test(t, an_exit_is_told_though_its_inspection_failed);
    tcase_add_loop_test(t, an_exit_code_that_is_not_known_yet_is_asked_for_again, 0, 2);
    tcase_add_test(t, the_engine_is_reported_up_and_down);
    tcase_add_test(t, an_engine_that_goes_before_its_first_event_is_reported_down);
    suite_add_tcase(s, t);
    suite_add_tcase(s, network_case());
    suite_add_tcase(s, output_case());
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
