/* Which network driver-docker puts functions on, against a scripted engine. */
#include "engine_suites.h"
#include "scripted.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool last_create_has(const char *text)
{
    bool has;

    pthread_mutex_lock(&lock);
    has = strstr(last_post, "/containers/create") && strstr(last_post, text);
    pthread_mutex_unlock(&lock);
    return has;
}

static void create_ctr(uint64_t handle, void **ret)
{
    struct fn_task t;
    char dir[64];

    node_task(&t, "fnd/hello", handle, dir);
    t.flags &= ~FN_TASK_NO_NETWORK;
    ck_assert_msg(node_create(node, &t, ret, &err) == 0, "%s", err.msg);
    rmdir(dir);
}

/* There, as an option or a label says; made, with containers kept apart or, with a warning, not; not to
 * be made: the engine's own. Asked for once. */
START_TEST(functions_have_a_network_of_their_own)
{
    static const char there[] =
        OK(53, "{\"Options\":{\"com.docker.network.bridge.name\":\"fnd0\"}}");
    static const char labelled[] = OK(35, "{\"Labels\":{\"io.fnd.bridge\":\"fnd0\"}}");
    static const char warned[] =
        "HTTP/1.1 201 Created\r\nContent-Length: 88\r\n\r\n"
        "{\"Warning\":\"\\\"com.docker.network.bridge.enable_icc: false\\\" is not a recognized option\"}";
    static const char unsupported[] =
        "HTTP/1.1 500 X\r\nContent-Length: 89\r\n\r\n"
        "{\"message\":\"unsupported bridge network option com.docker.network.bridge.enable_icc ... \"}";
    static const char *const looks[] = { there, labelled, NULL, NULL, NULL, NULL };
    static const char *const makes[] = { NULL, NULL, CREATED, warned,
                                         "HTTP/1.1 403 X\r\nContent-Length: 2\r\n\r\n{}",
                                         unsupported };
    static const int made[] = { 0, 0, 1, 1, 2, 2 };
    static atomic_int looked, posted;
    int n = 0;
    void *ctr;

    if (looks[_i]) {
        routes[n++] = (struct route){ "GET /networks/fnd", looks[_i], false, &looked };
    }
    if (makes[_i]) {
        routes[n++] = (struct route){ "POST /networks/create", makes[_i], false, &posted };
    }
    routes[n++] = (struct route){ "/containers/create", CREATED, false, NULL };
    both();
    create_ctr(1, &ctr);
    ck_assert_int_eq(last_create_has("\"NetworkMode\":\"fnd\""), _i < 4);
    ck_assert_int_eq(last_create_has("NetworkMode"), _i < 4);
    create_ctr(2, &ctr);
    ck_assert_int_eq(atomic_load(&looked), _i < 2);
    ck_assert_int_eq(atomic_load(&posted), made[_i]);
}
END_TEST

/* An engine in trouble has refused nothing: the default network, where functions reach each other, is
 * for one that cannot have ours. */
START_TEST(trouble_with_the_network_puts_no_function_on_another)
{
    static const char *const troubles[] = {
        "HTTP/1.1 500 X\r\nContent-Length: 18\r\n\r\n{\"message\":\"busy\"}",
        "HTTP/1.1 429 X\r\nContent-Length: 2\r\n\r\n{}",
        "nonsense\r\n\r\n",
        NULL, /* the engine was not there at all */
    };
    static atomic_int posted;
    char aside[128];
    struct fn_task t;
    char dir[64];
    void *ctr;

    routes[0] = (struct route){ "POST /networks/create", troubles[_i], !troubles[_i], &posted };
    routes[1] = (struct route){ "/containers/create", CREATED, false, NULL };
    node_note_log();
    both();
    if (!troubles[_i]) {
        route_answers(0, CREATED);
        snprintf(aside, sizeof(aside), "%s.aside", socket_path);
        ck_assert_int_eq(rename(socket_path, aside), 0);
        node_task(&t, "fnd/hello", 9, dir);
        t.flags &= ~FN_TASK_NO_NETWORK;
        ck_assert_int_lt(node_create(node, &t, &ctr, &err), 0);
        ck_assert_int_eq(rename(aside, socket_path), 0);
        rmdir(dir);
    }
    for (int i = 1; i <= 2; i++) {
        create_ctr((uint64_t)i, &ctr);
        ck_assert(last_create_has("\"NetworkMode\":\"fnd\""));
        ck_assert_int_eq(atomic_load(&posted), troubles[_i] ? i : 1);
    }
    ck_assert_uint_eq(node_logged("network fnd could not be made"), troubles[_i] != NULL);
    route_answers(0, CREATED);
    create_ctr(3, &ctr);
    create_ctr(4, &ctr);
    ck_assert_int_eq(atomic_load(&posted), troubles[_i] ? 3 : 1);
}
END_TEST

#define ASKER_MS 3000
#define OTHER_MS 100

static void *create_and_fail(void *arg)
{
    struct fn_error e = { .size = sizeof(e) };
    struct fn_task t;
    char dir[64];
    void *ctr;
    int r;

    (void)arg;
    node_task(&t, "fnd/hello", 1, dir);
    t.flags &= ~FN_TASK_NO_NETWORK;
    r = node_create(node, &t, &ctr, &e);
    rmdir(dir);
    return (void *)(intptr_t)r;
}

/* Those that come meanwhile wait as long as their own calls may take, and those that come then are
 * not held up at all. */
START_TEST(a_network_that_hangs_in_the_making_holds_up_one_container)
{
    static atomic_int posted;
    pthread_t asker;
    void *ctr, *r;

    routes[0] = (struct route){ "POST /networks/create", NULL, false, &posted };
    routes[1] = (struct route){ "/containers/create", CREATED, false, NULL };
    both();
    node_deadline_ms(node, ASKER_MS);
    pthread_create(&asker, NULL, create_and_fail, NULL);
    ck_assert(reaches(&posted, 1));
    node_deadline_ms(node, OTHER_MS);
    r = create_and_fail(NULL);
    ck_assert_int_eq((intptr_t)r, FN_E_DEADLINE);
    ck_assert_int_lt(node_took_ns(node), ASKER_MS * 1000000LL / 2);
    pthread_join(asker, &r);
    ck_assert_int_lt((intptr_t)r, 0); /* the breaker is open by then */
    node_pass_ns(3000000000); /* the breaker */
    node_deadline_ms(node, ASKER_MS);
    for (uint64_t i = 2; i < 4; i++) {
        create_ctr(i, &ctr);
        ck_assert(last_create_has("\"NetworkMode\":\"fnd\""));
        ck_assert_int_eq(atomic_load(&posted), 1);
    }
    node_pass_ns(10000000000);
    route_answers(0, CREATED);
    create_ctr(4, &ctr);
    create_ctr(5, &ctr);
    ck_assert_int_eq(atomic_load(&posted), 2);
}
END_TEST

/* "docker network prune" between two functions. */
START_TEST(a_network_that_went_away_is_made_again)
{
    static atomic_int posted;
    void *ctr;

    routes[0] = (struct route){ "POST /networks/create", CREATED, false, &posted };
    routes[1] = (struct route){ "/containers/create", CREATED, false, NULL };
    both();
    create_ctr(1, &ctr);
    ck_assert_int_eq(node_start_ctr(node, ctr, &err), FN_E_NOT_FOUND);
    ck_assert_uint_eq(err.flags & FN_ERR_RETRY, FN_ERR_RETRY);
    create_ctr(2, &ctr);
    ck_assert_int_eq(atomic_load(&posted), 2);
}
END_TEST

TCase *network_case(void)
{
    TCase *t = tcase_create("network");

    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_loop_test(t, functions_have_a_network_of_their_own, 0, 6);
    tcase_add_loop_test(t, trouble_with_the_network_puts_no_function_on_another, 0, 4);
    tcase_add_test(t, a_network_that_hangs_in_the_making_holds_up_one_container);
    tcase_add_test(t, a_network_that_went_away_is_made_again);
    return t;
}
