/* What the engine's broker lets through: the requests of driver-docker, bodies within the rules, the
 * owner's containers. */
#include "../lib/sanitized.h"
#include "broker.h"
#include "docker_api.h"
#include "draw.h"
#include "rules.h"

#define RANDOM_TASKS RANDOM_ROUNDS(5000)
#define ID           "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OF_TYPE(type) "%7B%22type%22%3A%5B%22" type "%22%5D%7D"
#define FILTERS      "%7B%22label%22%3A%5B%22io.fnd.owner%22%5D%7D"
#define NARROWED     "%7B%22label%22%3A%5B%22io.fnd.owner%22%2C%22io.fnd.owner%3Dnode-1%22%5D%7D"

static const struct broker_config closed = { .owner = "node-1", .iofs = "/run/i" };
static const struct broker_config open_all = { .owner = "node-1",
                                               .iofs = "/run/i",
                                               .load = true,
                                               .clean = true };

/* ---- requests -------------------------------------------------------------------------------- */

/* The engine's request line; "" = refused. */
static const char *line_of(const struct broker_config *c, const char *request, struct refusal *why)
{
    static const struct parse_limits limits = { HEAD_BYTES_MAX, LINE_BYTES_MAX, FIELDS_MAX };
    static char line[LINE_BYTES_MAX];
    struct parsed_request asked;
    struct request rq;
    struct arena arena;
    struct buf head = BUF_INIT(0);
    char text[4096];

    arena_init(&arena, 0);
    *line = '\0';
    snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: x\r\nX-Registry-Auth: abc\r\n\r\n", request);
    if (parse_request(&arena, text, strlen(text), &limits, &asked, why) == 0 &&
        table_judge(c, &arena, &asked, &rq, why) == 0) {
        ck_assert_int_eq(table_head(&head, &rq, rq.name, 7), 0);
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(buf_text(&head), "\r"), head.data);
        ck_assert_int_eq(rq.auth != NULL, strstr(head.data, "X-Registry-Auth: abc\r\n") != NULL);
        ck_assert_int_eq(rq.auth != NULL, strstr(line, "/images/create?") != NULL);
        ck_assert_ptr_nonnull(strstr(head.data, "\r\nConnection: close\r\n"));
        line[strlen(line) - strlen(" HTTP/1.1")] = '\0';
    }
    buf_finish(&head);
    arena_finish(&arena);
    return line;
}

START_TEST(what_the_driver_asks_for_is_made_anew)
{
    static const char *const rows[][2] = {
        { "GET /_ping", NULL },
        { "GET /version", NULL },
        { "GET /info", NULL },
        { "GET /containers/json?all=1&filters=" FILTERS,
          "GET /containers/json?all=1&filters=" NARROWED },
        { "POST /containers/create?name=fnd-01A", NULL },
        { "POST /containers/" ID "/start", NULL },
        { "POST /containers/" ID "/pause", NULL },
        { "POST /containers/" ID "/unpause", NULL },
        { "POST /containers/" ID "/attach?stream=1&stdout=1&stderr=1", NULL },
        { "GET /containers/fnd-01A/json", NULL },
        { "DELETE /containers/fnd-01A?force=1&v=1", NULL },
        { "GET /images/registry.example:5000/a/b:1/json", NULL },
        { "GET /images/a@sha256:12ef/json", NULL },
        { "POST /images/create?fromImage=fnd%2Fhello&tag=latest", NULL },
        { "POST /images/load?quiet=1", NULL },
        { "GET /system/df?type=image", NULL },
        { "DELETE /images/fnd%2Fhello%3Alatest", "DELETE /images/fnd/hello:latest" },
        { "GET /networks/fnd", NULL },
        { "POST /networks/create", NULL },
    };
    char events[768], request[800];
    struct refusal why = { .status = 0 };

    for (size_t i = 0; i < N(rows); i++) {
        ck_assert_str_eq(line_of(&open_all, rows[i][0], &why), rows[i][rows[i][1] != NULL]);
    }
    ck_assert_int_eq(api_events_path("node-1", 12, events, sizeof(events)), 0);
    snprintf(request, sizeof(request), "GET %s", events);
    ck_assert_ptr_nonnull(strstr(line_of(&closed, request, &why), "io.fnd.owner%3Dnode-1"));
    ck_assert_int_eq(api_image_events_path(12, events, sizeof(events)), 0);
    snprintf(request, sizeof(request), "GET %s", events);
    ck_assert_str_eq(line_of(&closed, request, &why), request);
}
END_TEST

START_TEST(everything_else_is_refused)
{
    static const char *const rows[] = {
        "GET /",
        "GET /v1.41/version",
        "GET /version?x=1",
        "POST /version",
        "GET //version",
        "GET /version/",
        "GET /containers/json",
        "GET /containers/json?all=1",
        "GET /containers/json?all=1&all=1&filters=" FILTERS,
        "GET /containers/json?all=1&filters=%7B%7D",
        "GET /containers/json?all=1&filters=%7B%22label%22%3A%7B%22a%22%3Atrue%7D%7D",
        "GET /containers/json?all=1&filters=%7B%22label%22%3A%5B%5D%2C%22ancestor%22%3A%5B%5D%7D",
        "GET /containers/json?all=1&filters=[]",
        "GET /containers/json?all=1&filters=" OF_TYPE("image"),
        "GET /events",
        "GET /events?since=1&filters=" OF_TYPE("container"),
        "GET /events?since=1&filters=" OF_TYPE("image%22%2C%22container"),
        "GET /events?since=1&filters=" FILTERS "&until=2",
        "POST /containers/create",
        "POST /containers/create?name=a%2Fb",
        "POST /containers/create?name=a&platform=x",
        "POST /containers/create?name=",
        "POST /containers/a/exec",
        "POST /exec/a/start",
        "POST /containers/a/kill",
        "POST /containers/a/update",
        "POST /containers/a/attach?stream=1&stdout=1&stderr=1&stdin=1",
        "POST /containers/a/attach?stream=1&stdout=1",
        "POST /containers/a%2F../start",
        "POST /containers/../start",
        "POST /containers/a?b/start",
        "GET /containers/a/archive?path=/",
        "GET /containers/a/logs?stdout=1",
        "POST /containers/prune",
        "DELETE /containers/a",
        "DELETE /containers/a?force=1&v=1&link=1",
        "DELETE /containers/a%00?force=1&v=1",
        "POST /images/prune",
        "POST /images/create?fromSrc=-&repo=x",
        "POST /images/create?fromImage=a+b&tag=1",
        "POST /images/create?fromImage=a%zz&tag=1",
        "POST /images/create?fromImage=..%2Fa&tag=1",
        "GET /images/../containers/json/json",
        "GET /images/a//json",
        "POST /images/a/push",
        "POST /build",
        "GET /networks",
        "GET /networks/host",
        "DELETE /networks/fnd",
        "POST /networks/fnd/connect",
        "POST /volumes/create",
        "POST /swarm/init",
        "POST /plugins/pull",
        "POST /session",
        "GET /system/df",
        "GET /secrets",
    };
    static const char *const options[] = { "POST /images/load?quiet=1",
                                           "GET /system/df?type=image", "DELETE /images/a" };
    struct refusal why = { .status = 0 };

    for (size_t i = 0; i < N(rows); i++) {
        ck_assert_msg(!*line_of(&open_all, rows[i], &why), "%s", rows[i]);
        ck_assert_str_ne(why.text, "");
    }
    for (size_t i = 0; i < N(options); i++) {
        ck_assert_msg(!*line_of(&closed, options[i], &why), "%s", options[i]);
        ck_assert_int_eq(why.status, 403);
        ck_assert_ptr_nonnull(strstr(why.text, "without its option"));
    }
}
END_TEST

START_TEST(images_are_of_the_named_registries)
{
    const struct broker_config c = { .owner = "node-1",
                                     .images = { .items = { "registry.example/apps/", "fnd/hello" },
                                                 .n = 2 } };
    static const struct {
        const char *image;
        bool ok;
    } rows[] = { { "registry.example/apps/a", true },  { "registry.example/apps", false },
                 { "registry.example/appsx", false },  { "fnd/hello", true },
                 { "fnd/hello:latest", true },         { "fnd/hello@sha256:1", true },
                 { "fnd/hello2", false },              { "evil/fnd/hello", false },
                 { "registry.example/apps/../b", false } };

    for (size_t i = 0; i < N(rows); i++) {
        ck_assert_msg(table_image_ok(&c, rows[i].image) == rows[i].ok, "%s", rows[i].image);
    }
}
END_TEST

/* ---- bodies ---------------------------------------------------------------------------------- */

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t next(uint64_t below)
{
    return draw(&seed) % below;
}

/* As a runner makes them, without a word of wrappers and of the operator's allow_ options. */
static char *any_body(void)
{
    static const char *const logs[] = { NULL, "", "tcp://10.0.0.9:514", "udp://log:514",
                                        "tcp+tls://log:6514" };
    static const struct fn_kv labels[] = { { "team", "blue" }, { "cost.centre", "7" } };
    struct fn_task t = rules_task();
    struct api_settings s = { .network = "fnd",
                              .hostname = next(2),
                              .label_tag = next(2) ? "tag" : NULL,
                              .lock = next(2) ? "pid:[1]:2" : "",
                              .attach_output = next(2),
                              .swappiness = next(2),
                              .no_health = next(2),
                              .rules = &rules_closed };
    uint64_t *const limits[] = { &t.mem_bytes,   &t.cpu_milli,      &t.tmpfs_bytes, &t.tmpfs_inodes,
                                 &t.fs_bytes,    &t.pids_max,       &t.nofile_max,  &t.memlock_max,
                                 &t.cpu_shares,  &t.sigpending_max, &t.msgqueue_max };
    char *text = NULL;

    for (size_t i = 0; i < N(limits); i++) {
        *limits[i] = next(3) ? 2 + next(1 << (1 + next(17))) : 0;
    }
    t.flags = (next(2) ? FN_TASK_WRITABLE_ROOT : 0) | (next(2) ? FN_TASK_NO_NETWORK : 0);
    t.syslog_url = logs[next(N(logs))];
    t.labels = labels;
    t.n_labels = (uint32_t)next(3);
    t.n_env = (uint32_t)next(2);
    t.fn_id = next(2) ? "f" : NULL;
    rules_err = (struct fn_error){ .size = sizeof(rules_err) };
    ck_assert_msg(api_create_body(&t, &s, &text, &rules_err) == 0, "%s", rules_err.msg);
    return text;
}

#define SYSLOG_TO(url) "{\"Type\":\"syslog\",\"Config\":{\"syslog-address\":\"" url "\"}}"

/* Each alone makes of any request one that nobody may send. */
static const struct {
    const char *member, *value; /* "" = of the body, else of HostConfig with a dot before it */
} bad[] = {
    { ".Privileged", "true" },
    { ".privileged", "true" },
    { ".Privileged", "false" },
    { ".PidMode", "\"host\"" },
    { ".IpcMode", "\"host\"" },
    { ".UTSMode", "\"host\"" },
    { ".UsernsMode", "\"host\"" },
    { ".CgroupnsMode", "\"host\"" },
    { ".CgroupParent", "\"/\"" },
    { ".NetworkMode", "\"host\"" },
    { ".NetworkMode", "\"container:x\"" },
    { ".NetworkMode", "null" },
    { ".NetworkMode", "\"default\"" },
    { ".NetworkMode", "\"bridge\"" },
    { ".Mounts", "[{\"Type\":\"bind\",\"Source\":\"/\",\"Target\":\"/h\"}]" },
    { ".Mounts", "[{\"Type\":\"bind\",\"Source\":\"/run/i/1/a\",\"Target\":\"/h\"},"
      "{\"Type\":\"bind\",\"Source\":\"/\",\"Target\":\"/h\"}]" },
    { ".Mounts", "[{\"Type\":\"bind\",\"Source\":\"/run/i\",\"Target\":\"/h\"}]" },
    { ".Mounts", "[{\"Type\":\"bind\",\"Source\":\"/run/i/../..\",\"Target\":\"/h\"}]" },
    { ".Mounts", "[{\"Type\":\"bind\",\"Source\":\"/run/ix/a\",\"Target\":\"/h\"}]" },
    { ".Mounts", "[{\"Type\":\"bind\",\"Source\":\"/run/i/a\",\"Target\":\"/h\","
      "\"BindOptions\":{\"Propagation\":\"shared\"}}]" },
    { ".Mounts", "[{\"Type\":\"volume\",\"Source\":\"volume\",\"Target\":\"/h\"}]" },
    { ".Mounts", "[{\"Type\":\"volume\",\"Source\":\"/run/i/a\",\"Target\":\"/h\"}]" },
    { ".Mounts", "[{\"Type\":\"bind\",\"Source\":\"/run/i/a\",\"Target\":\"h\"}]" },
    { ".Mounts", "[]" },
    { ".Mounts", "[[{\"Type\":\"bind\",\"Source\":\"/run/i/a\",\"Target\":\"/h\"}]]" },
    { ".Binds", "[\"/run/i/1/a:/x\"]" },
    { ".binds", "[\"/:/h\"]" },
    { ".Bind\u017f", "[\"/:/h\"]" },
    { ".VolumesFrom", "[\"x\"]" },
    { ".Devices", "[{\"PathOnHost\":\"/dev/sda\"}]" },
    { ".DeviceRequests", "[]" },
    { ".DeviceCgroupRules", "[\"a *:* rwm\"]" },
    { ".CapAdd", "[\"SYS_ADMIN\"]" },
    { ".CapDrop", "[]" },
    { ".CapDrop", "[\"NET_RAW\"]" },
    { ".SecurityOpt", "[]" },
    { ".SecurityOpt", "[\"no-new-privileges\",\"seccomp=unconfined\"]" },
    { ".SecurityOpt", "[\"apparmor=unconfined\"]" },
    { ".MaskedPaths", "[]" },
    { ".ReadonlyPaths", "[]" },
    { ".Runtime", "\"other\"" },
    { ".RestartPolicy", "{\"Name\":\"always\"}" },
    { ".OomScoreAdj", "-1000" },
    { ".Sysctls", "{}" },
    { ".Tmpfs", "{\"/tmp\":\"size=1k,exec\"}" },
    { ".Tmpfs", "{\"/etc\":\"\"}" },
    { ".Tmpfs", "{\"/tmp\":\"\",\"/x\":\"\"}" },
    { ".LogConfig", "{\"Type\":\"syslog\",\"Config\":{\"syslog-address\":\"unix:///run/x\"}}" },
    { ".LogConfig", "{\"Type\":\"syslog\",\"Config\":{}}" },
    { ".LogConfig", SYSLOG_TO("tcp://") },
    { ".LogConfig", SYSLOG_TO("tcp://:514") },
    { ".LogConfig", SYSLOG_TO("udp:///x") },
    { ".LogConfig", SYSLOG_TO("tcp+tls://?x") },
    { ".LogConfig", SYSLOG_TO("tcp://@:514") },
    { ".LogConfig", SYSLOG_TO("tcp://x@:514") },
    { ".LogConfig", SYSLOG_TO("tcp://[]:514") },
    { ".LogConfig", "{\"Type\":\"fluentd\",\"Config\":{\"fluentd-address\":\"unix:///x\"}}" },
    { ".LogConfig", "{\"Type\":\"none\",\"Config\":{\"env\":\"x\"}}" },
    { ".Ulimits", "[{\"Name\":\"core\",\"Soft\":1,\"Hard\":1}]" },
    { ".Ulimits", "[{\"Name\":\"nofile\",\"Soft\":-1,\"Hard\":-1}]" },
    { ".Memory", "-1" },
    { ".Memory", "\"1\"" },
    { "User", "\"0\"" },
    { "User", "null" },
    { "Labels", "{\"io.fnd.owner\":\"another\"}" },
    { "Labels", "{}" },
    { "Labels", "{\"io.fnd.owner\":\"node-1\",\"io.fnd.other\":\"x\"}" },
    { "Entrypoint", "[\"/bin/sh\"]" },
    { "Healthcheck", "{\"Test\":[\"CMD\",\"/x\"]}" },
    { "Healthcheck", "{\"Test\":[\"NONE\"],\"Interval\":1}" },
    { "Volumes", "{}" },
    { "NetworkingConfig", "{}" },
    { "HostConfig", "null" },
    { "hostConfig", "{\"Privileged\":true}" },
    { "Image", "\"../x\"" },
    { "Env", "[1]" },
};

static bool passes(const char *text, struct refusal *why)
{
    char *sent = NULL;
    bool ok = judge_body(&closed, BODY_CREATE, text, strlen(text), &sent, why) == 0;

    ck_assert_int_eq(ok, sent != NULL);
    free(sent);
    return ok;
}

static void spoil(const char *text, size_t with, struct refusal *why)
{
    json_t *body = json_loads(text, 0, NULL), *object = body;
    const char *member = bad[with].member;
    char *spoilt;

    if (*member == '.') {
        object = json_object_get(body, "HostConfig");
        member++;
    }
    ck_assert_int_eq(
        json_object_set_new(object, member, json_loads(bad[with].value, JSON_DECODE_ANY, NULL)), 0);
    spoilt = json_dumps(body, JSON_COMPACT);
    ck_assert_msg(!passes(spoilt, why), "passes: %s", spoilt);
    ck_assert_int_eq(why->status, 403);
    free(spoilt);
    json_decref(body);
}

START_TEST(what_the_driver_writes_passes_and_nothing_worse)
{
    struct refusal why = { .status = 0 };

    for (long i = 0; i < RANDOM_TASKS; i++) {
        char *text = any_body();

        ck_assert_msg(passes(text, &why), "%s: %s", why.text, text);
        spoil(text, i < (long)N(bad) ? (size_t)i : next(N(bad)), &why);
        free(text);
    }
}
END_TEST

/* The engine would take its own, where containers reach each other: whoever has no other says so. */
START_TEST(a_container_without_a_network_is_on_the_engines)
{
    struct broker_config c = closed;
    json_t *body;
    char *text = any_body(), *sent = NULL;
    struct refusal why;

    body = json_loads(text, 0, NULL);
    free(text);
    json_object_del(json_object_get(body, "HostConfig"), "NetworkMode");
    text = json_dumps(body, JSON_COMPACT);
    ck_assert(!passes(text, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "HostConfig.NetworkMode; expected none, fnd or one of"));
    c.networks.items[c.networks.n++] = "default";
    ck_assert_int_eq(judge_body(&c, BODY_CREATE, text, strlen(text), &sent, &why), 0);
    free(sent);
    free(text);
    json_decref(body);
}
END_TEST

START_TEST(a_text_that_two_readers_read_differently_is_refused)
{
    char *text = any_body();
    char *twice;
    struct refusal why;

    ck_assert_int_gt(asprintf(&twice, "{\"User\":\"0\",%s", text + 1), 0);
    ck_assert(!passes(twice, &why));
    twice[0] = '[';
    ck_assert(!passes(twice, &why));
    ck_assert(!passes("", &why) && !passes("[]", &why) && !passes("{}", &why));
    text[strlen(text) - 1] = ' ';
    ck_assert(!passes(text, &why));
    free(twice);
    free(text);
}
END_TEST

START_TEST(the_drivers_network_and_no_other)
{
    static const char own[] =
        "{\"Name\":\"fnd\",\"Driver\":\"bridge\",\"CheckDuplicate\":true,\"Labels\":{"
        "\"io.fnd.bridge\":\"fnd0\"},\"Options\":{\"com.docker.network.bridge.name\":\"fnd0\","
        "\"com.docker.network.bridge.enable_icc\":\"%s\"}%s}";
    static const struct {
        const char *icc, *more;
        bool ok;
    } rows[] = { { "true", "", true },
                 { "false", "", true },
                 { "x", "", false },
                 { "true", ",\"Internal\":false", false },
                 { "true", ",\"name\":\"other\"", false } };
    struct refusal why;

    for (size_t i = 0; i < N(rows); i++) {
        char text[512];
        char *sent = NULL;
        int r;

        snprintf(text, sizeof(text), own, rows[i].icc, rows[i].more);
        r = judge_body(&closed, BODY_NETWORK, text, strlen(text), &sent, &why);
        ck_assert_int_eq(r == 0, rows[i].ok);
        free(sent);
    }
}
END_TEST

/* ---- whose containers ------------------------------------------------------------------------ */

START_TEST(a_created_container_is_known_as_soon_as_its_id_is_there)
{
    static const char answer[] =
        "HTTP/1.1 201 Created\r\nContent-Length: 88\r\n\r\n{\"Id\":\"" ID "\",\"Warnings\":[]}\n";
    static const char conflict[] = "HTTP/1.1 409 Conflict\r\n\r\n{\"Id\":\"" ID "\"}";
    const size_t there = (size_t)(strstr(answer, ID) - answer) + ID_BYTES;
    char id[ID_BYTES + 1];

    for (size_t n = 0; n < sizeof(answer); n++) {
        char *part = strndup(answer, n); /* of exactly this length */

        ck_assert_int_eq(known_created(part, n, id), n >= there);
        free(part);
    }
    ck_assert_str_eq(id, ID);
    ck_assert(!known_created(conflict, strlen(conflict), id));
}
END_TEST

START_TEST(an_inspection_tells_the_owner)
{
    static const struct {
        const char *answer;
        int status;
    } rows[] = {
        { "HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"" ID
          "\",\"Config\":{\"Labels\":{\"io.fnd.owner\":\"node-1\"}}}",
          200 },
        { "HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"" ID
          "\",\"Config\":{\"Labels\":{\"io.fnd.owner\":\"node-2\"}}}",
          403 },
        { "HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"" ID "\",\"Config\":{\"Labels\":null}}", 403 },
        { "HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"" ID "\"}", 403 },
        { "HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"12\",\"Config\":{}}", 502 },
        { "HTTP/1.0 200 OK\r\n\r\n{\"Id\":", 502 },
        { "HTTP/1.0 404 Not Found\r\n\r\n{}", 404 },
        { "HTTP/1.0 500 Oh\r\n\r\n{}", 500 },
        { "HTTP/1.0 200 OK\r\n", 502 },
        { "HTTP", 502 },
        { "", 502 },
    };
    char id[ID_BYTES + 1];

    for (size_t i = 0; i < N(rows); i++) {
        ck_assert_int_eq(known_inspected(rows[i].answer, strlen(rows[i].answer), "node-1", id),
                         rows[i].status);
    }
}
END_TEST

START_TEST(what_is_remembered_is_bounded)
{
    struct known *k = NULL;
    char id[ID_BYTES + 1], name[32];

    for (int i = 0; i < KNOWN_MAX; i++) {
        snprintf(id, sizeof(id), "%064x", i);
        snprintf(name, sizeof(name), "fnd-%d", i);
        known_add(&k, id, name);
    }
    ck_assert_ptr_null(known_find(k, "fnd-0"));
    ck_assert_ptr_null(known_find(k, "fnd-12"));
    ck_assert_str_eq(known_find(k, name), id);
    ck_assert_str_eq(known_find(k, id), id);
    known_add(&k, ID, name);
    ck_assert_str_eq(known_find(k, name), ID);
    known_finish(&k);
    ck_assert_ptr_null(k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker");
    TCase *t = tcase_create("broker");
    SRunner *runner;
    int failed;

    tcase_add_test(t, what_the_driver_asks_for_is_made_anew);
    tcase_add_test(t, everything_else_is_refused);
    tcase_add_test(t, images_are_of_the_named_registries);
    tcase_add_test(t, what_the_driver_writes_passes_and_nothing_worse);
    tcase_add_test(t, a_container_without_a_network_is_on_the_engines);
    tcase_add_test(t, a_text_that_two_readers_read_differently_is_refused);
    tcase_add_test(t, the_drivers_network_and_no_other);
    tcase_add_test(t, a_created_container_is_known_as_soon_as_its_id_is_there);
    tcase_add_test(t, an_inspection_tells_the_owner);
    tcase_add_test(t, what_is_remembered_is_bounded);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
