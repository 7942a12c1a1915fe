/* Pure parts of control plane swarm: names, bodies, and answers recorded from Docker 20.10, good,
 * cut short and made up. */
#include <hold.h>
#include <swarm_api.h>

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static struct fn_error err;

static struct swarm_conf conf(void)
{
    return (struct swarm_conf){ .docker_host = "unix:///var/run/docker.sock",
                                .image = "fnd/runner:latest",
                                .owner = "me",
                                .grpc_port = 9190,
                                .capacity_mb = 1024,
                                .stop_grace_ns = 330000000000 };
}

static const struct swarm_conf plain; /* for lists, which ask it for labels only */

static struct swarm_text text(const char *s)
{
    return (struct swarm_text){ s, strlen(s) };
}

/* ---- options --------------------------------------------------------------------------------- */

static const struct {
    const char *mount, *env, *constraint, *owner;
    const char *expected; /* NULL = fine */
} options[] = {
    { "/var/run/docker.sock:/var/run/docker.sock", "A=b", "node.role!=manager", "a-b_C9", NULL },
    { "data:/data:ro", "A=", "node.labels.zone==a", "me", NULL },
    { "data", "A=b", "a==b", "me", "mounts, got \"data\"; expected source:/target" },
    { ":/x", "A=b", "a==b", "me", "mounts, got" },
    { "/a:b", "A=b", "a==b", "me", "mounts, got" },
    { "/a:/b:rx", "A=b", "a==b", "me", "mounts, got" },
    { "/a:/b", "=b", "a==b", "me", "env, got \"=b\"; expected NAME=value" },
    { "/a:/b", "A", "a==b", "me", "env, got" },
    { "/a:/b", "A=b", "zone a", "me", "constraints, got \"zone a\"" },
    { "/a:/b", "A=b", "a==b", "m e", "owner, got \"m e\"; expected letters, digits, - and _" },
};

START_TEST(options_are_judged)
{
    struct swarm_conf c = conf();

    c.owner = options[_i].owner;
    c.mounts = (struct fn_strlist){ &options[_i].mount, 1 };
    c.env = (struct fn_strlist){ &options[_i].env, 1 };
    c.constraints = (struct fn_strlist){ &options[_i].constraint, 1 };
    ck_assert_int_eq(swarm_check(&c, &err), options[_i].expected ? FN_E_INVALID : 0);
    if (options[_i].expected) {
        ck_assert_msg(strstr(err.msg, options[_i].expected) != NULL, "%s", err.msg);
    }
}
END_TEST

START_TEST(where_the_engine_is)
{
    static const char *const bad[] = { "",          "unix://",    "unix://run/x",        "tcp://",
                                       "tcp://a/b", "http://a:1", "/var/run/docker.sock" };
    const char *path = NULL;
    char base[SWARM_BASE_MAX], big[SWARM_BASE_MAX + 8];

    ck_assert_int_eq(swarm_address("unix:///run/x", &path, base, &err), 0);
    ck_assert_str_eq(path, "/run/x");
    ck_assert_int_eq(swarm_address("tcp://h:2375", &path, base, &err), 0);
    ck_assert_ptr_null(path);
    ck_assert_str_eq(base, "http://h:2375");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(swarm_address(bad[i], &path, base, &err), FN_E_INVALID);
    }
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    memcpy(big, "unix:///", 8);
    ck_assert_int_eq(swarm_address(big, &path, base, &err), FN_E_INVALID);
    memcpy(big, "tcp://xx", 8);
    ck_assert_int_eq(swarm_address(big, &path, base, &err), FN_E_INVALID);
}
END_TEST

/* ---- names and bodies ------------------------------------------------------------------------ */

START_TEST(names_are_the_request_s)
{
    struct swarm_conf c = conf();
    char a[SWARM_NAME_MAX + 1], b[SWARM_NAME_MAX + 1];

    swarm_name(&c, "default", 0x2a, 3, a);
    ck_assert_str_eq(a, "fnd-me-default-r2a-3");
    c.owner = "sixteen-letters-";
    swarm_name(&c, "a group of any name, and longer than a service's may be, \xc3\xa4", UINT64_MAX,
               999, a);
    ck_assert_uint_le(strlen(a), SWARM_NAME_MAX);
    ck_assert(swarm_is_name(a));
    swarm_name(&c, "a group of any name, and longer than a service's may be, \xc3\xb6", UINT64_MAX,
               999, b);
    ck_assert_str_ne(a, b);
    ck_assert(!swarm_is_name("postgres"));
    ck_assert(!swarm_is_name("fnd-me/../x"));
    ck_assert(!swarm_is_name(
        "fnd-0123456789012345678901234567890123456789012345678901234567890123456789"));
}
END_TEST

static json_t *body_of(const struct swarm_conf *c)
{
    char *body = NULL;
    json_t *root;

    ck_assert_int_eq(swarm_create_body(c, "fnd-me-g-r1-0", "g \"1\"", 0xabc, &body, &err), 0);
    root = json_loads(body, 0, NULL);
    ck_assert_ptr_nonnull(root);
    free(body);
    return root;
}

static json_t *at(json_t *o, const char *path)
{
    char copy[128], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strtok_r(copy, ".", &rest); key; key = strtok_r(NULL, ".", &rest)) {
        o = *key >= '0' && *key <= '9' ? json_array_get(o, (size_t)atoi(key))
                                       : json_object_get(o, key);
    }
    return o;
}

#define TEXT(o, path) json_string_value(at(o, path))
#define NUMBER(o, path) json_integer_value(at(o, path))

START_TEST(a_service_of_one_replica_that_is_not_restarted)
{
    struct swarm_conf c = conf();
    json_t *o = body_of(&c);

    ck_assert_str_eq(TEXT(o, "Name"), "fnd-me-g-r1-0");
    ck_assert_str_eq(json_string_value(json_object_get(at(o, "Labels"), "fnd.group")), "g \"1\"");
    ck_assert_str_eq(json_string_value(json_object_get(at(o, "Labels"), "fnd.request")), "abc");
    ck_assert_str_eq(json_string_value(json_object_get(at(o, "Labels"), "fnd.owner")), "me");
    ck_assert_int_eq(NUMBER(o, "Mode.Replicated.Replicas"), 1);
    ck_assert_str_eq(TEXT(o, "TaskTemplate.RestartPolicy.Condition"), "none");
    ck_assert_int_eq(NUMBER(o, "TaskTemplate.ContainerSpec.StopGracePeriod"), 330000000000);
    ck_assert_int_eq(NUMBER(o, "TaskTemplate.Resources.Limits.MemoryBytes"), 1280 << 20);
    ck_assert_int_eq(NUMBER(o, "TaskTemplate.Resources.Reservations.MemoryBytes"), 1280 << 20);
    ck_assert_int_eq(NUMBER(o, "EndpointSpec.Ports.0.TargetPort"), 9190);
    ck_assert_str_eq(TEXT(o, "EndpointSpec.Ports.0.PublishMode"), "host");
    ck_assert_ptr_null(at(o, "EndpointSpec.Ports.0.PublishedPort"));
    ck_assert_ptr_null(at(o, "TaskTemplate.Networks"));
    json_decref(o);
}
END_TEST

START_TEST(memory_beyond_the_capacity)
{
    static const int64_t rows[][3] = {
        /* capacity, overhead, limit */
        { 16, 0, 272 },      { 2304, 0, 2560 },  { 9000, 0, 10000 },
        { 90000, 0, 95120 }, { 1024, 64, 1088 },
    };
    struct swarm_conf c = conf();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *o;

        c.capacity_mb = rows[i][0];
        c.overhead_mb = rows[i][1];
        o = body_of(&c);
        ck_assert_int_eq(NUMBER(o, "TaskTemplate.Resources.Limits.MemoryBytes"), rows[i][2] << 20);
        json_decref(o);
    }
}
END_TEST

START_TEST(networks)
{
    struct swarm_conf c = conf();
    json_t *o;

    c.network = "host";
    o = body_of(&c);
    ck_assert_int_eq(NUMBER(o, "EndpointSpec.Ports.0.PublishedPort"), 9190);
    ck_assert_str_eq(TEXT(o, "TaskTemplate.Networks.0.Target"), "host");
    json_decref(o);
    c.network = "pool";
    o = body_of(&c);
    ck_assert_str_eq(TEXT(o, "TaskTemplate.Networks.0.Target"), "pool");
    ck_assert_str_eq(TEXT(o, "EndpointSpec.Mode"), "dnsrr");
    ck_assert_ptr_null(at(o, "EndpointSpec.Ports"));
    json_decref(o);
}
END_TEST

START_TEST(lists_of_the_operator)
{
    static const char *const env[] = { "FN_NODE_TYPE=lb", "X=a=b" };
    static const char *const mounts[] = { "/run/x.sock:/y", "vol:/data:ro" };
    static const char *const caps[] = { "CAP_SYS_ADMIN" };
    struct swarm_conf c = conf();
    json_t *o;

    c.env = (struct fn_strlist){ env, 2 };
    c.mounts = (struct fn_strlist){ mounts, 2 };
    c.capabilities = (struct fn_strlist){ caps, 1 };
    o = body_of(&c);
    ck_assert_uint_eq(json_array_size(at(o, "TaskTemplate.ContainerSpec.Env")), 4);
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Env.0"), "FN_NODE_TYPE=lb");
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Env.2"), "FN_GRPC_PORT=9190");
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Env.3"),
                     "FN_MAX_TOTAL_MEMORY_BYTES=1073741824");
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Mounts.0.Type"), "bind");
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Mounts.0.Source"), "/run/x.sock");
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Mounts.0.Target"), "/y");
    ck_assert(json_is_false(at(o, "TaskTemplate.ContainerSpec.Mounts.0.ReadOnly")));
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Mounts.1.Type"), "volume");
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.Mounts.1.Target"), "/data");
    ck_assert(json_is_true(at(o, "TaskTemplate.ContainerSpec.Mounts.1.ReadOnly")));
    ck_assert_str_eq(TEXT(o, "TaskTemplate.ContainerSpec.CapabilityAdd.0"), "CAP_SYS_ADMIN");
    json_decref(o);
}
END_TEST

START_TEST(groups_in_paths)
{
    struct swarm_conf c = conf();
    char path[SWARM_PATH_MAX], big[1024];

    ck_assert_int_eq(swarm_list_path(&c, "tasks", "a&b", path, &err), 0);
    ck_assert_str_eq(path, "/tasks?filters=%7B%22label%22%3A%5B%22fnd.owner%3Dme%22%2C%22fnd.group"
                           "%3Da%26b%22%5D%7D");
    ck_assert_int_eq(swarm_list_path(&c, "tasks", "\xff", path, &err), FN_E_INVALID);
    memset(big, '&', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    ck_assert_int_eq(swarm_list_path(&c, "tasks", big, path, &err), FN_E_INVALID);
}
END_TEST

START_TEST(a_group_that_is_no_text)
{
    struct swarm_conf c = conf();
    char *body = NULL;

    ck_assert_int_eq(swarm_create_body(&c, "n", "\xff", 1, &body, &err), FN_E_INVALID);
    ck_assert_ptr_null(body);
}
END_TEST

/* ---- lists ----------------------------------------------------------------------------------- */

#define SERVICE(id, name)                                                                          \
    "{\"ID\":\"" id "\",\"Version\":{\"Index\":20},\"Spec\":{\"Name\":\"" name                     \
    "\",\"Labels\":{\"fnd.group\":\"g\",\"fnd.owner\":\"me\",\"fnd.request\":\"7\","               \
    "\"fnd.port\":\"9191\",\"fnd.capacity_mb\":\"256\"},\"Mode\":{\"Replicated\":{\"Replicas\":1}" \
    "}},\"Endpoint\":{}}"

#define TASK(service, index, desired, status, more)                                                \
    "{\"ID\":\"t" #index "\",\"Version\":{\"Index\":" #index "},\"ServiceID\":\"" service          \
    "\",\"Slot\":1,\"NodeID\":\"n1\",\"Status\":{\"Timestamp\":\"2026-11-21T21:28:59."             \
    "29Z\"," status "},\"DesiredState\":\"" desired "\"" more "}"

#define RUNNING "\"State\":\"running\",\"Message\":\"started\","
#define PUBLISHED                                                                                  \
    RUNNING "\"ContainerStatus\":{\"ContainerID\":\"37\",\"PID\":9185,\"ExitCode\":0},"            \
            "\"PortStatus\":{\"Ports\":[{\"Protocol\":\"tcp\",\"TargetPort\":9190,"                \
            "\"PublishedPort\":32768,\"PublishMode\":\"host\"},{\"Protocol\":\"tcp\","             \
            "\"TargetPort\":9190,\"PublishedPort\":32768,\"PublishMode\":\"host\"}]}"
#define NODES                                                                                      \
    "[{\"ID\":\"n1\",\"Status\":{\"State\":\"ready\",\"Addr\":\"192.0.2.7\"},"                     \
    "\"ManagerStatus\":{\"Leader\":true,\"Addr\":\"192.0.2.7:2377\"}}]"

struct seen {
    char line[1024];
    uint32_t n;
    int stop;
};

static int see(void *ud, const struct swarm_runner *r)
{
    static const char *const states[] = { "?", "starting", "ready", "gone" };
    struct seen *s = ud;
    size_t len = strlen(s->line);

    s->n++;
    snprintf(s->line + len, sizeof(s->line) - len, "%s %s%s%s %s %llu %s;", r->name,
             states[r->state & 3], r->ended ? "!" : "", r->stillborn ? "~" : "",
             r->address ? r->address : "-", (unsigned long long)r->capacity_mb, r->why);
    return s->stop;
}

static const struct {
    const char *services, *tasks, *nodes;
    const char *expected;
} joins[] = {
    { "[]", "[]", "[]", "" },
    { "[" SERVICE("s1", "a") "]", "[]", NODES, "a starting - 256 ;" },
    { "[" SERVICE("s1", "a") "]", "[" TASK("s1", 1, "running", PUBLISHED, "") "]", NODES,
      "a ready 192.0.2.7:32768 256 ;" },
    { "[" SERVICE("s1", "a") "]", /* its node joined a moment ago */
      "[" TASK("s1", 1, "running", PUBLISHED, "") "]", "[]", "a starting - 256 ;" },
    { "[" SERVICE("s1", "a") "]", "[" TASK("s1", 1, "running", PUBLISHED, "") "]",
      "[{\"ID\":\"n1\",\"Status\":{\"Addr\":\"0.0.0.0\"},"
      "\"ManagerStatus\":{\"Addr\":\"[2001:db8::1]:2377\"}}]",
      "a ready [2001:db8::1]:32768 256 ;" },
    { "[" SERVICE("s1", "a") "]", "[" TASK("s1", 1, "running", PUBLISHED, "") "]",
      "[{\"ID\":\"n1\",\"Status\":{\"Addr\":\"2001:db8::1\"}}]",
      "a ready [2001:db8::1]:32768 256 ;" },
    { "[" SERVICE("s1", "a") "]", /* overlay: the port is the label's */
      "[" TASK(
          "s1", 1, "running", RUNNING "\"PortStatus\":{}",
          ",\"NetworksAttachments\":[{\"Network\":{\"ID\":\"x\"},\"Addresses\":[\"10.0.1.2/24\"]"
          "}]") "]",
      NODES, "a ready 10.0.1.2:9191 256 ;" },
    { "[" SERVICE("s1", "a") "]", /* the node's own network */
      "[" TASK("s1", 1, "running", RUNNING "\"PortStatus\":{}",
               ",\"NetworksAttachments\":[{\"Network\":{\"ID\":\"x\"}}]") "]",
      NODES, "a ready 192.0.2.7:9191 256 ;" },
    { "[" SERVICE("s1", "a") "," SERVICE("s2", "b") "]",
      "[" TASK("s1", 1, "running",
               "\"State\":\"pending\",\"Message\":\"pending task scheduling\","
               "\"Err\":\"no suitable node (insufficient resources on 1 node)\"",
               "") "," TASK("s2", 2, "running", "\"State\":\"preparing\"", "") "]",
      NODES,
      "a starting - 256 no suitable node (insufficient resources on 1 node);b starting - 256 ;" },
    { "[" SERVICE("s1", "a") "," SERVICE("s2", "b") "," SERVICE("s3", "c") "]",
      "[" TASK("s1", 1, "shutdown",
               "\"State\":\"rejected\",\"Err\":\"No such image: fnd/none:latest\"",
               "") "," TASK("s2", 2, "shutdown",
                            "\"State\":\"failed\",\"Err\":\"task: non-zero exit"
                            " (69)\"",
                            "") "," TASK("s3", 3, "running",
                                         "\"State\":\"complete\","
                                         "\"Message\":\"finished\"",
                                         "") "]",
      NODES,
      "a gone!~ - 256 No such image: fnd/none:latest;b gone! - 256 task: non-zero exit (69);"
      "c gone! - 256 finished;" },
    { "[" SERVICE("s1", "a") "]", /* its node went down: something of it may still run there */
      "[" TASK("s1", 1, "shutdown", PUBLISHED, "") "]", NODES, "a gone - 256 started;" },
    { "[" SERVICE("s1", "a") "]", /* an operator updated the service: in any order */
      "[" TASK("s1", 9, "shutdown", "\"State\":\"shutdown\"",
               "") "," TASK("s1", 5, "running", PUBLISHED,
                            "") "," TASK("s1", 7, "shutdown", "\"State\":\"failed\"", "") "]",
      NODES, "a ready 192.0.2.7:32768 256 ;" },
};

START_TEST(lists_are_joined)
{
    struct seen s = { .stop = 0 };

    ck_assert_int_eq(swarm_join(&plain, text(joins[_i].services), text(joins[_i].tasks),
                                text(joins[_i].nodes), see, &s, &err),
                     0);
    ck_assert_str_eq(s.line, joins[_i].expected);
}
END_TEST

static int see_labels(void *ud, const struct swarm_runner *r)
{
    strcat(ud, r->labels ? r->labels : "-");
    strcat(ud, ";");
    return 0;
}

#define LABELLED(id, name, labels)                                                                 \
    "{\"ID\":\"" id "\",\"Spec\":{\"Name\":\"" name "\",\"Labels\":{\"fnd.labels\":\"" labels "\"}}}"

/* A runner's own come first; what of a node's makes no label is left out. */
START_TEST(runners_have_labels)
{
    static const char *const keys[] = { "zone", "class", "rack", "os" };
    static const char services[] =
        "[" LABELLED("s1", "a", "class=gpu,disk=ssd") "," LABELLED("s2", "b", "nonsense") "]";
    static const char tasks[] = "[" TASK("s1", 1, "running", PUBLISHED, "") "]";
    static const char nodes[] = "[{\"ID\":\"n1\",\"Spec\":{\"Labels\":{\"zone\":\"a\","
                                "\"class\":\"cpu\",\"rack\":\"7 left\"}}}]";
    const struct swarm_conf c = { .node_labels = { keys, 4 } };
    char seen[256] = "";

    ck_assert_int_eq(
        swarm_join(&c, text(services), text(tasks), text(nodes), see_labels, seen, &err), 0);
    ck_assert_str_eq(seen, "class=gpu,disk=ssd,zone=a;-;");
    seen[0] = '\0';
    ck_assert_int_eq(
        swarm_join(&plain, text(services), text("[]"), text("[]"), see_labels, seen, &err), 0);
    ck_assert_str_eq(seen, "class=gpu,disk=ssd;-;");
}
END_TEST

START_TEST(labels_are_judged)
{
    static const char *const key = "zone a";
    struct swarm_conf c = conf();

    c.labels = "zone=a zone=b";
    ck_assert_int_eq(swarm_check(&c, &err), FN_E_INVALID);
    ck_assert_str_eq(err.msg, "labels, got \"zone=a zone=b\"; expected each label once");
    c.labels = "zone=a class=gpu";
    ck_assert_int_eq(swarm_check(&c, &err), 0);
    c.node_labels = (struct fn_strlist){ &key, 1 };
    ck_assert_int_eq(swarm_check(&c, &err), FN_E_INVALID);
    ck_assert_msg(strstr(err.msg, "node_labels, got \"zone a\"") != NULL, "%s", err.msg);
}
END_TEST

static const struct {
    const char *services, *tasks, *nodes;
    const char *expected;
} broken[] = {
    { "", "[]", "[]", "list of services: the engine's answer is malformed" },
    { "{\"message\":\"x\"}", "[]", "[]", "list of services" },
    { "[{}]", "[]", "[]", "list of services" },
    { "[{\"ID\":\"s1\"}]", "[]", "[]", "list of services" },
    { "[7]", "[]", "[]", "list of services" },
    { "[]", "[{\"ServiceID\":\"s1\"}]", "[]", "list of tasks" },
    { "[]", "[{\"Status\":{\"State\":\"running\"}}]", "[]", "list of tasks" },
    { "[]", "null", "[]", "list of tasks" },
    { "[]", "[]", "[{}]", "list of nodes" },
    { "[]", "[]", "[", "list of nodes" },
};

START_TEST(broken_lists_are_errors)
{
    struct seen s = { .stop = 0 };

    ck_assert_int_eq(swarm_join(&plain, text(broken[_i].services), text(broken[_i].tasks),
                                text(broken[_i].nodes), see, &s, &err),
                     FN_E_UNAVAILABLE);
    ck_assert_msg(strstr(err.msg, broken[_i].expected) != NULL, "%s", err.msg);
}
END_TEST

START_TEST(lists_cut_anywhere_are_errors)
{
    static const char services[] = "[" SERVICE("s1", "a") "]";
    static const char tasks[] = "[" TASK("s1", 1, "running", PUBLISHED, "") "]";
    struct seen s = { .stop = 0 };

    for (size_t len = 0; len + 1 < sizeof(services); len++) {
        ck_assert_int_lt(swarm_join(&plain, (struct swarm_text){ services, len }, text(tasks),
                                    text(NODES), see, &s, NULL), 0);
    }
    for (size_t len = 0; len + 1 < sizeof(tasks); len++) {
        ck_assert_int_lt(swarm_join(&plain, text(services), (struct swarm_text){ tasks, len },
                                    text(NODES), see, &s, NULL), 0);
    }
    ck_assert_uint_eq(s.n, 0);
}
END_TEST

START_TEST(who_listens_can_stop)
{
    struct seen s = { .stop = FN_E_EXHAUSTED };

    ck_assert_int_eq(swarm_join(&plain, text("[" SERVICE("s1", "a") "," SERVICE("s2", "b") "]"), text("[]"),
                                text("[]"), see, &s, &err),
                     FN_E_EXHAUSTED);
    ck_assert_uint_eq(s.n, 1);
}
END_TEST

/* Tasks from birth to end. */
static const struct {
    const char *created, *ended;
    bool stillborn;
} lives[] = {
    { "2026-11-21T21:28:59.9Z", "2026-11-21T21:29:03.1Z", true },
    { "2026-11-21T21:28:59.9Z", "2026-11-21T21:29:04.1Z", false },
    { "2028-02-28T23:59:59Z", "2028-02-29T00:00:02Z", true },
    { "2028-02-28T23:59:59Z", "2028-03-01T00:00:00Z", false },
    { "2027-02-28T23:59:59Z", "2027-03-01T00:00:00Z", true },
    { "2026-12-31T23:59:59Z", "2027-01-01T00:00:01Z", true },
    { "nonsense", "2027-01-01T00:00:01Z", false },
};

START_TEST(who_ends_at_once)
{
    char tasks[512];
    struct seen s = { .stop = 0 };

    snprintf(
        tasks, sizeof(tasks),
        "[{\"ID\":\"t\",\"ServiceID\":\"s1\",\"CreatedAt\":\"%s\",\"DesiredState\":\"shutdown\","
        "\"Status\":{\"Timestamp\":\"%s\",\"State\":\"failed\"}}]",
        lives[_i].created, lives[_i].ended);
    ck_assert_int_eq(
        swarm_join(&plain, text("[" SERVICE("s1", "a") "]"), text(tasks), text("[]"), see, &s, &err), 0);
    ck_assert_str_eq(s.line, lives[_i].stillborn ? "a gone!~ - 256 ;" : "a gone! - 256 ;");
}
END_TEST

START_TEST(the_stillborn_are_held)
{
    struct holds h = { .list[0].id = 0 };

    ck_assert(hold(&h, 7, 100));
    ck_assert(hold(&h, 7, 99 + HOLD_NS));
    ck_assert(hold(&h, 8, 99 + HOLD_NS));
    ck_assert(!hold(&h, 7, 100 + HOLD_NS));
    ck_assert(hold(&h, 8, 100 + HOLD_NS));
    for (uint64_t id = 9; id < 9 + HOLD_N - 1; id++) {
        ck_assert(hold(&h, id, 200 + HOLD_NS));
    }
    ck_assert(!hold(&h, 1000, 200 + HOLD_NS));    /* full */
    ck_assert(hold(&h, 1000, 200 + 3 * HOLD_NS)); /* who was removed in between gives way */
}
END_TEST

/* ---- one service, errors --------------------------------------------------------------------- */

START_TEST(whose_a_service_is)
{
    struct swarm_conf c = conf();
    char id[SWARM_ID_MAX + 1] = "";

    ck_assert_int_eq(swarm_is_ours(text(SERVICE("s1", "fnd-a")), &c, "g", "fnd-a", id, &err), 1);
    ck_assert_str_eq(id, "s1");
    ck_assert_int_eq(swarm_is_ours(text(SERVICE("s1", "fnd-b")), &c, "g", "fnd-a", id, &err), 0);
    ck_assert_int_eq(swarm_is_ours(text(SERVICE("s1", "fnd-a")), &c, "h", "fnd-a", id, &err), 0);
    c.owner = "you";
    ck_assert_int_eq(swarm_is_ours(text(SERVICE("s1", "fnd-a")), &c, "g", "fnd-a", id, &err), 0);
    ck_assert_int_eq(swarm_is_ours(text("{}"), &c, "g", "fnd-a", id, &err), FN_E_UNAVAILABLE);
    ck_assert_int_eq(swarm_is_ours(text(SERVICE("../x", "fnd-a")), &c, "g", "fnd-a", id, &err),
                     FN_E_UNAVAILABLE);
}
END_TEST

static const struct {
    uint32_t status;
    const char *body;
    int code;
    const char *expected;
} failures[] = {
    { 503,
      "{\"message\":\"This node is not a swarm manager. Use \\\"docker swarm init\\\" or \\\"docker "
      "swarm join\\\" to connect this node to swarm and try again.\"}\n",
      FN_E_PRECONDITION,
      "create: the engine at unix:///var/run/docker.sock is no manager of a Swarm; run `docker "
      "swarm init` there, or set docker_host to a manager" },
    { 503,
      "{\"message\":\"This node is not a swarm manager. Worker nodes can't be used to view or "
      "modify "
      "cluster state. Please run this command on a manager node or promote the current node to a "
      "manager.\"}",
      FN_E_PRECONDITION, "is no manager of a Swarm" },
    { 404, "{\"message\":\"service nothere not found\"}", FN_E_NOT_FOUND,
      "create: service nothere not found" },
    { 409,
      "{\"message\":\"rpc error: code = AlreadyExists desc = name conflicts with an existing "
      "object: "
      "service fnd-t-r1-0 already exists\"}",
      FN_E_EXISTS, "already exists" },
    { 400, "{\"message\":\"invalid mount\"}", FN_E_INVALID,
      "create: the engine refuses it: invalid mount" },
    { 500, "oh", FN_E_UNAVAILABLE, "create: engine error 500: status 500 without a reason" },
    { 503, "{\"message\":\"The swarm does not have a leader.\"}", FN_E_UNAVAILABLE,
      "engine error 503: The swarm does not have a leader." },
};

START_TEST(failures_are_told)
{
    struct swarm_conf c = conf();

    ck_assert_int_eq(
        swarm_failure(&c, "create", failures[_i].status, text(failures[_i].body), &err),
        failures[_i].code);
    ck_assert_msg(strstr(err.msg, failures[_i].expected) != NULL, "%s", err.msg);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
    Suite *s = suite_create("cp-swarm");
    TCase *t = tcase_create("api");
    SRunner *r;
    int failed;

    tcase_add_loop_test(t, options_are_judged, 0, ROWS(options));
    tcase_add_test(t, where_the_engine_is);
    tcase_add_test(t, names_are_the_request_s);
    tcase_add_test(t, a_service_of_one_replica_that_is_not_restarted);
    tcase_add_test(t, memory_beyond_the_capacity);
    tcase_add_test(t, networks);
    tcase_add_test(t, lists_of_the_operator);
    tcase_add_test(t, groups_in_paths);
    tcase_add_test(t, a_group_that_is_no_text);
    tcase_add_loop_test(t, lists_are_joined, 0, ROWS(joins));
    tcase_add_test(t, runners_have_labels);
    tcase_add_test(t, labels_are_judged);
    tcase_add_loop_test(t, broken_lists_are_errors, 0, ROWS(broken));
    tcase_add_loop_test(t, who_ends_at_once, 0, ROWS(lives));
    tcase_add_test(t, the_stillborn_are_held);
    tcase_add_test(t, lists_cut_anywhere_are_errors);
    tcase_add_test(t, who_listens_can_stop);
    tcase_add_test(t, whose_a_service_is);
    tcase_add_loop_test(t, failures_are_told, 0, ROWS(failures));
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
