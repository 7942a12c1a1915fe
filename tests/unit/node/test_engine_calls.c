/* The name that Go Fn gives a request to a Docker engine. */
#include <node/engine_calls.h>

#include <check.h>
#include <stdlib.h>

#define URL "http://localhost"

static const struct {
    const char *method, *url, *name;
} requests[] = {
    { "POST", URL "/containers/create?name=x", "docker_create_container" },
    { "POST", URL "/v1.41/containers/create", "docker_create_container" },
    { "POST", URL "/containers/0123/start", "docker_start_container" },
    { "POST", URL "/containers/0123/pause", "docker_pause_container" },
    { "POST", URL "/containers/0123/unpause", "docker_unpause_container" },
    { "DELETE", URL "/containers/0123?force=1&v=1", "docker_remove_container" },
    { "GET", URL "/containers/json?all=1&filters=%7B%22a%22", "docker_list_containers" },
    { "GET", URL "/containers/0123/json", "docker_inspect_container" },
    { "GET", URL "/containers/0123/stats?stream=false&one-shot=1", "docker_stats" },
    { "POST", URL "/images/create?fromImage=a/b&tag=c", "docker_pull_image" },
    { "GET", URL "/images/a/b:c/json", "docker_inspect_image" },
    { "GET", URL "/images/json", "docker_list_images" },
    { "DELETE", URL "/images/sha256:0", "docker_remove_image" },
    { "POST", URL "/images/load?quiet=1", "docker_load_images" },
    { "GET", "http://10.0.0.1:2375/info", "docker_info" },
    { "GET", URL "/_ping", "docker_ping" },
    { "GET", URL "/_pinga", NULL },
    { "GET", URL "/informed", NULL },
    { "PUT", URL "/containers/create", NULL },
    { "GET", URL "/containers/create", NULL },
    { "POST", URL "/containers/0123/startle", NULL },
    { "GET", URL "/v2/library/images/json", NULL },
    { "GET", URL, NULL },
    { "GET", "no url", NULL },
};

START_TEST(each_request_has_its_name)
{
    const char *name = engine_calls_name(requests[_i].method, requests[_i].url);

    if (requests[_i].name) {
        ck_assert_ptr_nonnull(name);
        ck_assert_str_eq(name, requests[_i].name);
    } else {
        ck_assert_ptr_null(name);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine calls");
    TCase *t = tcase_create("names");
    SRunner *r;
    int failed;

    tcase_add_loop_test(t, each_request_has_its_name, 0,
                        (int)(sizeof(requests) / sizeof(requests[0])));
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
