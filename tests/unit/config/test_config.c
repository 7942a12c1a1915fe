/* The node's configuration: wrong files and variables get their sentences, variables of Go Fn give
 * the node that fnserver would start, the files in etc/ load. FND_ROOT is the source tree. */
#include "bad_variables.h"

#include <api/api.h>
#include <base/arena.h>
#include <check.h>
#include <config/config.h>
#include <http/fnsock.h>
#include <http/server.h>
#include <lb/lb.h>
#include <loop/log_dest.h>
#include <rpc/rpc.h>
#include <runner/account.h>
#include <runner/runner.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS(table) ((int)(sizeof(table) / sizeof((table)[0])))
#define MS          1000000LL
#define S           1000000000LL

static char dir[] = "/tmp/fnd-config-XXXXXX";
static struct config *config;
static struct conf_problems problems;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
    conf_problems_init(&problems);
}

static void teardown(void)
{
    char path[128];

    config_destroy(config);
    conf_problems_finish(&problems);
    snprintf(path, sizeof(path), "%s/fn.yaml", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/value", dir);
    unlink(path);
    rmdir(dir);
}

static const char *write_file(const char *name, const char *text)
{
    static char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

/* yaml NULL = no file. */
static const char *load(const char *yaml, char *const *env)
{
    static char *const none[] = { NULL };

    config_destroy(config); /* of an earlier load in the same test */
    config = NULL;
    config_load(yaml ? write_file("fn.yaml", yaml) : NULL, env ? env : none, &config, &problems);
    return buf_text(&problems.text);
}

static void expect(const char *said, const char *sentence)
{
    ck_assert_msg(strstr(said, sentence), "got %s, expected %s", said, sentence);
}

/* ---- files ----------------------------------------------------------------------------------- */

#define LB  "node: lb\nplugins: { pool: { use: static, runners: [\"a:1\"] } }\n"
#define API "node: api\n"
#define HASH \
    "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
#define OTHER_HASH \
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define APP LB "apps:\n  - name: demo\n    functions:\n"
#define FN  "      - { name: f, image: i"

#define TEN      "0123456789"
#define HUNDRED  TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define BAD_PORT "; expected http://host:port, with a port of 1..65535\n"

static const struct {
    const char *yaml;
    const char *sentence;
} bad_files[] = {
    { "node: npmm\n", "fn.yaml:1:7: node, got \"npmm\"; expected full, lb, pure-runner, npm or api; did you mean \"npm\"?\n" },
    { "node: npm\nnpm: { groups: [red, blue, blue] }\n",
      "fn.yaml:2:28: group \"blue\" is named twice; expected each group once\n" },
    { "node: pure-runner\nhttp: { listen: \"h:7\" }\ngrpc: { listen: \"h:7\" }\n",
      "fn.yaml:3:17: listen, got \"h:7\"; expected another address than h:7, which this node has for "
      "HTTP\n" },
    { "node: npm\nhttp: { listen: \"h:9190\" }\n",
      "fn.yaml:2:17: listen, got \"h:9190\"; expected another address than :9190, which this node has "
      "for gRPC\n" },
    { "node: pure-runner\nhttp: { listen: \"unix:/s\" }\ngrpc: { listen: \"unix:/s\" }\n",
      "fn.yaml:3:17: listen, got \"unix:/s\"; expected another address than" },
    { LB "loog: {}\n", "fn.yaml:3:1: unknown key \"loog\"; did you mean \"log\"?\n" },
    { LB "log: [a]\n", "fn.yaml:3:6: log, got a list; expected a map of keys\n" },
    { LB "http: { listen: 7 }\n",
      "listen, got \"7\"; expected host:port, [ipv6]:port, :port or unix:/path; did you mean \":7\"?\n" },
    { LB "http: { listen: \"h:70000\" }\n", "listen, got \"h:70000\"; expected host:port" },
    { LB "http: { listen: \"::1:80\" }\n", "listen, got \"::1:80\"; expected host:port" },
    { LB "http: { listen: \"unix:here\" }\n", "listen, got \"unix:here\"; expected host:port" },
    { LB "grpc: { listen: \"a b:1\" }\n", "listen, got \"a b:1\"; expected host:port" },
    { LB "admin: { page: \"127.0.0.1:8080\" }\nhttp: { listen: \":8080\" }\n",
      "fn.yaml:3:16: page, got \"127.0.0.1:8080\"; expected another address than :8080, which this "
      "node has for HTTP\n" },
    { "node: pure-runner\nadmin: { page: \"127.0.0.1:7\" }\ngrpc: { listen: \"127.0.0.1:7\" }\n",
      "expected another address than 127.0.0.1:7, which this node has for gRPC\n" },
    { LB "http: { listen: \"unix:/" HUNDRED "/12345678\" }\n",
      "; expected unix: and a path of at most 107 bytes\n" },
    { LB "process: { user: nosuchuser }\n",
      "fn.yaml:3:18: user, got \"nosuchuser\"; expected a user of this machine, or a number\n" },
    { LB "admin: { socket: /tmp }\n",
      "socket, got \"/tmp\"; expected the path of a socket, not of a folder\n" },
    { "node: pure-runner\nrunner: { iofs_path: /etc/passwd }\n",
      "iofs_path, got \"/etc/passwd\"; expected a folder\n" },
    { LB "log: { dest: \"file:///nonexistent/x.log\" }\n",
      "dest, got \"file:///nonexistent/x.log\"; expected a file in a folder that exists\n" },
    { LB "log: { dest: \"file:///tmp\" }\n",
      "dest, got \"file:///tmp\"; expected a file, not a folder\n" },
    { LB "log: { dest: \"udp://h\" }\n",
      "dest, got \"udp://h\"; expected stderr, stdout, file:///path, udp://host:port, tcp://host:port "
      "or unix:///path\n" },
    { LB "lb: { api_url: \"localhost:80\" }\n",
      "api_url, got \"localhost:80\"; expected http://host:port (no host "
      "specified for client)\n" },
    { LB "lb: { api_url: \"http:///v2\" }\n", "(no host specified for client)\n" },
    { LB "lb: { api_url: \"http://h:99999\" }\n",
      "fn.yaml:3:16: api_url, got \"http://h:99999\"; expected http://host:port, with a port of "
      "1..65535\n" },
    { LB "lb: { api_url: \"http://[::1\" }\n", BAD_PORT },
    { LB "lb: { api_url: \"http://127.0.0.1:8081x\" }\n", BAD_PORT },
    { LB "lb: { api_url: \"http://h h:1\" }\n", BAD_PORT },
    { LB "lb: { api_url: \"http://h:x\" }\n", BAD_PORT },
    { LB "lb: { api_url: \"http://h:\" }\n", BAD_PORT },
    { LB "lb: { api_url: \"https://h:0\" }\n", BAD_PORT },
    { LB "lb: { api_url: \"http://h:80/v2\" }\n",
      "api_url, got \"http://h:80/v2\"; expected http://host:port and nothing else\n" },
    { LB "lb: { api_url: \"http://me:secret@h:80\" }\n",
      "api_url, got \"http://...@h:80\"; expected http://host:port and nothing else\n" },
    { LB "lb: { api_url: \"http://me:secret@h:x\" }\n", "got \"http://...@h:x\"; expected" },
    { LB "traces: { endpoint: \"http://me:secret@h:80/v1\" }\n",
      "fn.yaml:3:21: endpoint, got \"http://...@h:80/v1\"; expected a URL without user and "
      "password; a token belongs in traces.headers\n" },
    { LB "traces: { endpoint: \"https://token@h/v1\" }\n", "got \"https://...@h/v1\"; expected" },
    { LB "log: { dest: \"tcp://me:secret@h:514\" }\n", "dest, got \"tcp://...@h:514\"; expected" },
    { LB "api: { public_url: \"http://me:secret@h:80\" }\n",
      "public_url, got \"http://...@h:80\"; expected a URL without user and password: everybody is "
      "shown it\n" },
    { LB "api: { public_url: \"http://me:secret@h:x\" }\n", "got \"http://...@h:x\"; expected" },
    { LB "traces: { endpoint: \"http://me:secret@h:x/v1\" }\n",
      "endpoint, got \"http://...@h:x/v1\"; expected a host, with a port of 1..65535" },
    { LB "metrics: { latency_buckets: [1, 5, 2] }\n",
      "fn.yaml:3:29: latency_buckets, got \"[\\\"1\\\", \\\"5\\\", \\\"2\\\"]\"; expected numbers of "
      "milliseconds that ascend, 32 at most\n" },
    { LB "metrics: { buckets: [\"fn_calls=1\"] }\n",
      "fn.yaml:3:21: buckets, got \"fn_calls=1\"; expected a histogram of latencies, = and numbers of "
      "milliseconds that ascend, 32 at most\n" },
    { LB "metrics: { buckets: { fn_api_latency: [1] } }\n",
      "fn.yaml:3:21: buckets, got a map; expected a list of 1 to 32 texts such as [a, b]\n" },
    { LB "lb: { retry_min: 2s }\n", 
      "fn.yaml:3:18: retry_min, got \"2s\"; expected at most retry_max, which is 1s\n" },
    { LB "lb: { retry_min: 2s, retry_max: 1500ms }\n",
      "fn.yaml:3:33: retry_max, got \"1500ms\"; expected at least retry_min, which is 2s\n" },
    { "node: npm\nnpm: { runners_min: 200 }\n",
      "fn.yaml:2:21: runners_min, got \"200\"; expected at most group_runners_max, which is 100\n" },
    { "node: pure-runner\nrunner: { memory_total: 4096 }\n",
      "fn.yaml:2:25: memory_total, got \"4KiB\"; expected at least 16MiB, which is memory_min\n" },
    { "node: full\nrunner: { memory_total: 64MiB }\napps:\n  - name: demo\n    functions:\n"
      "      - { name: f, image: i, memory: 128 }\n      - { name: g, image: i, memory: 96 }\n",
      "memory_total, got \"64MiB\"; expected at least 96MiB, which the smallest function of apps: "
      "needs\n" },
    { "node: pure-runner\nrunner: { configurable: [runner.freeze_idle, runner.freze_idle] }\n",
      "configurable, got \"runner.freze_idle\"; expected a setting that a reload can change, or a "
      "pattern of some, such as runner.freeze_idle\n" },
    { "node: pure-runner\nrunner: { configurable: [\"nosuch.*\"] }\n",
      "configurable, got \"nosuch.*\"; expected a setting that a reload can change, or a pattern of "
      "some\n" },
    { "node: npm\nnpm: { wishes_file: rel }\n",
      "fn.yaml:2:21: wishes_file, got \"rel\"; expected an absolute path\n" },
    { LB "apps: [{ name: \"a\u202eb\" }]\n",
      "name, got \"a\\xe2\\x80\\xaeb\"; expected letters, digits, _ and -\n" },
    { LB "traces: { endpoint: \"collector:4318\" }\n",
      "fn.yaml:3:21: endpoint, got \"collector:4318\"; expected http://... or https://...\n" },
    { LB "traces: { endpoint: http://c, ca: /ca }\n",
      "ca, got \"/ca\"; expected an endpoint with https:// for it\n" },
    { LB "traces: { endpoint: http://c, headers: \"secret\" }\n",
      "headers, got others; expected Name: value, without control characters\n" },
    { LB "grpc: { tls: nods }\ntls: { nodes: { ca: /ca } }\n",
      "tls, got \"nods\"; expected the name of an entry of "
      "tls:, such as nodes\n" },
    { LB "http: { tls: nods }\ntls: { nodes: { ca: /ca } }\n",
      "tls, got \"nods\"; expected the name of an entry of "
      "tls:, such as nodes\n" },
    { LB "http: { tls: nodes }\ntls: { nodes: { ca: /ca } }\n",
      "tls, got \"nodes\"; expected an entry with cert and key\n" },
    { LB "tls: { TLSWebServer: { ca: /ca } }\n",
      "tls, got \"TLSWebServer\"; expected an entry with cert and key\n" },
    { LB "tls: { nodes: { cert: /c, key: /k, crl: /l } }\n",
      "nodes, got crl without ca; expected the authorities whose lists it has\n" },
    { LB "tls: { nodes: { cert: /c } }\n", "nodes, got cert alone; expected cert and key, or none of them\n" },
    { LB "tls: { nodes: { crt: /c } }\n", "unknown key \"crt\"; did you mean \"cert\"?\n" },
    { LB "tls: [a]\n", "tls, got a list; expected a map of names\n" },
    { "node: pure-runner\nrunner: { owner: Me! }\n",
      "owner, got \"Me!\"; expected 1 to 63 of a-z, 0-9 and -, without -- and not - at the end\n" },
    { "node: pure-runner\nrunner: { owner: web--eu }\n",
      "owner, got \"web--eu\"; expected 1 to 63 of a-z, 0-9 and -, without -- and not - at the end\n" },
    { "node: pure-runner\nrunner: { owner: web- }\n",
      "owner, got \"web-\"; expected 1 to 63 of a-z, 0-9 and -, without -- and not - at the end\n" },
    { "node: pure-runner\nrunner: { iofs_path: here }\n",
      "iofs_path, got \"here\"; expected an absolute path\n" },
    { "node: pure-runner\nrunner: { iofs_engine_path: /e }\n",
      "expected iofs_path (FN_IOFS_PATH) beside it\n" },
    { "node: pure-runner\nrunner: { queue_wait: 2h }\n",
      "queue_wait, got \"2h\"; expected a duration" },
    { "node: lb\n",
      "fn.yaml:1:7: plugins.pool is missing; expected the runners of this load balancer" },
    { "node: full\nplugins: { pool: { use: static, runners: [a] } }\n",
      "pool, got one in a full node, which has its runner inside; expected no pool, or node: lb\n" },
    { "node: full\nplugins: { placr: naive }\n",
      "unknown key \"placr\"; did you mean \"placer\"?\n" },
    { "node: full\nplugins: [a]\n", "plugins, got a list; expected a map of keys" },
    { "node: full\nplugins: { placer: [[a]] }\n",
      "placer, got a list; expected {use: <name>, its options}\n" },
    { "node: full\nplugins: { placer: [] }\n",
      "placer, got an empty list; expected {use: <name>, its options} or a list of them\n" },
    { "node: full\nplugins: { shadow: [] }\n",
      "fn.yaml:2:20: shadow, got an empty list; expected" },
    { "node: full\nplugins: { placer: ch, shadow: ch }\n",
      "fn.yaml:2:32: placer \"ch\" is defined twice, first at " },
    { API "api: { tokens: [\"a read " HASH "\", \"b admin " HASH "\"] }\n",
      "fn.yaml:2:16: tokens: the hash of \"b\" is that of \"a\"; expected each hash once\n" },
    { API "api: { tokens: [\"a read " HASH "\", \"a read " OTHER_HASH "\"] }\n",
      "fn.yaml:2:16: tokens: \"a\" is defined twice; expected each name once\n" },
    { LB "lb: { shadow_permille: 1001 }\n", "shadow_permille, got \"1001\"; expected 1..1000" },
    { LB "admin: { socket: a.sock }\n",
      "fn.yaml:3:18: socket, got \"a.sock\"; expected an absolute path, or off" },
    { "node: full\nplugins: { placer: [naive, naive] }\n",
      "placer \"naive\" is defined twice, first at" },
    { "node: full\nplugins: { placer: { file: /x } }\n", "placer: key \"use\" is missing" },
    { "node: full\nplugins: { driver: [ { use: docker }, { use: docker } ] }\n",
      "driver \"docker\" is defined twice, first at " },
    { LB "apps: { name: a }\n",
      "apps, got \"a map\"; expected a list, each item beginning with -\n" },
    { LB "apps:\n  - id: a\n", "app: key \"name\" is missing" },
    { LB "apps:\n  - name: a b\n", "name, got \"a b\"; expected letters, digits, _ and -\n" },
    { LB "apps:\n  - { name: a, syslog_url: \"ftp://x\" }\n",
      "syslog_url, got \"ftp://x\"; expected udp, tcp" },
    { LB "apps:\n  - name: a\n  - name: a\n", "fn.yaml:5:5: app \"a\" is defined twice, first at line 4; expected each name once\n" },
    { APP FN " }\n" FN " }\n", "fn.yaml:7:9: function \"f\" is defined twice, first at line 6; expected each name once in an app\n" },
    { APP FN ", id: X1 }\n      - { name: g, image: i, id: X1 }\n",
      "function id \"X1\" is defined twice, first at line 6; expected each id once\n" },
    { APP "      - { name: f }\n", "function: key \"image\" is missing" },
    { APP FN ", memory: 12GB }\n", "memory, got \"12GB\"; expected whole MB 1..8192\n" },
    { APP FN ", memory: 0 }\n", "memory, got \"0\"; expected whole MB 1..8192\n" },
    { APP FN ", memmory: 1 }\n", "unknown key \"memmory\"; did you mean \"memory\"?\n" },
    { APP FN ", timeout: -5 }\n", "timeout, got \"-5\"; expected whole seconds 1..300\n" },
    { APP FN ", timeout: 1e3 }\n", "timeout, got \"1e3\"; expected whole seconds 1..300\n" },
    { APP FN ", idle_timeout: 3601 }\n",
      "idle_timeout, got \"3601\"; expected whole seconds 1..3600\n" },
    { APP "      - { name: a/b, image: i }\n",
      "name, got \"a/b\"; expected letters, digits and -_.~$&+:=@\n" },
    { APP FN ", config: [a] }\n", "config, got \"a list\"; expected a map of keys\n" },
    { APP FN ", config: { A: [b] } }\n", "A, got \"a list\"; expected a text\n" },
    { APP FN ", config: { \"A=B\": c } }\n", "expected the name of an environment variable\n" },
    { APP FN ", annotations: { a: null } }\n",
      "a, got \"null\"; expected a value of at most 512 bytes" },
    { APP FN ", annotations: { \"a b\": 1 } }\n",
      "expected a key of 1 to 128 printable ASCII characters\n" },
    { APP FN ", triggers: [ { name: t, source: x } ] }\n",
      "source, got \"x\"; expected a path that begins with /\n" },
    { APP FN ", triggers: [ { name: t } ] }\n", "trigger: key \"source\" is missing" },
    { APP FN ", triggers: [ { name: t, source: /x }, { name: u, source: /x } ] }\n",
      "trigger source \"/x\" is defined twice, first at line 6; expected each source once in an app\n" },
    { APP FN ", triggers: [ { name: t, source: /x },\n          { name: t, source: /y },\n"
             "          { name: u, source: /z } ] }\n",
      "fn.yaml:7:11: trigger \"t\" is defined twice, first at line 6; expected each name once in a function\n" },
    { APP FN ", triggers: [ { name: t, source: /x },\n          { name: s, source: /y },\n"
             "          { name: u, source: /y } ] }\n",
      "fn.yaml:8:11: trigger source \"/y\" is defined twice, first at line 7; expected each source once in an app\n" },
    { APP FN
      ", triggers: [ { name: t, source: /x } ] }\n      - { name: g, image: i, triggers: [ { "
      "name: t, "
      "source: /x } ] }\n",
      "trigger source \"/x\" is defined twice, first at line 6; expected each source once in an app\n" },
};

START_TEST(test_bad_file_gets_its_sentence)
{
    expect(load(bad_files[_i].yaml, NULL), bad_files[_i].sentence);
    ck_assert_uint_eq(problems.n, 1);
}
END_TEST

START_TEST(test_apps_without_names)
{
    expect(load(LB "apps: [{}, {}]\n", NULL), "fn.yaml:3:12: app: key \"name\" is missing");
    ck_assert_uint_eq(problems.n, 2);
}
END_TEST

START_TEST(test_too_many_groups_are_counted)
{
    char yaml[16 << 10];
    size_t len = (size_t)snprintf(yaml, sizeof(yaml), "node: npm\nnpm:\n  groups: [g0");

    for (int i = 1; i <= 1000; i++) {
        len += (size_t)snprintf(yaml + len, sizeof(yaml) - len, ", g%d", i);
    }
    snprintf(yaml + len, sizeof(yaml) - len, "]\n");
    expect(load(yaml, NULL), "groups, got \"1001 names\"; expected at most 1000 names\n");
}
END_TEST

/* One mistake, one sentence: what follows of it is not told. */
static const struct {
    const char *yaml;
    const char *all;
} one_sentence[] = {
    { "node: LB\nplugins: { pool: { use: static, runners: [\"a:1\"] } }\n",
      "fn.yaml:1:7: node, got \"LB\"; expected full, lb, pure-runner, npm or api; did you mean \"lb\"?\n" },
    { "node: lb\nplugin: { pool: { use: static, runners: [\"a:1\"] } }\napps: [{ name: a }]\n",
      "fn.yaml:2:1: unknown key \"plugin\"; did you mean \"plugins\"?\n" },
    { "node: lb\nplugins: { pol: { use: static, runners: [\"a:1\"] } }\napps: [{ name: a }]\n",
      "fn.yaml:2:12: unknown key \"pol\"; did you mean \"pool\"?\n" },
    { LB "apps: [{ nam: a }]\n", "fn.yaml:3:10: unknown key \"nam\"; did you mean \"name\"?\n" },
    { "node: npm\nplugins: { control_plan: process }\n",
      "fn.yaml:2:12: unknown key \"control_plan\"; did you mean \"control_plane\"?\n" },
    { "node: pure-runner\nhttp: { listen: \"h:7\" }\ngrpc: { listen: \"i:7\" }\n", "" },
    { "node: pure-runner\nhttp: { listen: \":0\" }\ngrpc: { listen: \":0\" }\n", "" },
    { "node: lb\nhttp: { listen: \":9190\" }\nplugins: { pool: { use: npm, address: \"a:1\" } }\n"
      "apps: [{ name: a }]\n",
      "" },
};

START_TEST(test_one_mistake_is_told_once)
{
    const char *said = load(one_sentence[_i].yaml, NULL);
    const char *file = strstr(said, "fn.yaml");

    ck_assert_str_eq(file ? file : said, one_sentence[_i].all);
}
END_TEST

/* Warnings, and mistakes with --strict. FN_NODE_TYPE makes a file one that several nodes share. */
static const struct {
    const char *yaml;
    const char *env;
    const char *sentence; /* NULL: nothing is said */
} effects[] = {
    { LB "runner: { pids_max: 3 }\napps: [{ name: a }]\n", NULL,
      "fn.yaml:3:1: warning: runner: has no effect, got node: lb; expected it in node: pure-runner or full\n" },
    { LB "apps: [{ name: a }]\ntls: { TLSAdminServer: { ca: /c }, TLSWebServer: { cert: /c, key: /k } }\n", NULL,
      "fn.yaml:4:8: warning: TLSAdminServer: has no effect: nothing names this entry of tls:\n" },
    { LB "npm: {}\napps: [{ name: a }]\n", NULL, "npm: has no effect, got node: lb; expected it in node: npm" },
    { "node: pure-runner\nplugins:\n  overriders:\n    - use: rules\n      rules: [\"-> stop\", \"app=a "
      "-> cpu=1 group=blue\"]\n",
      NULL,
      "fn.yaml:5:26: warning: overrider rules: rules[1]: group= has no effect: a call is with its "
      "runner already, got node: pure-runner; expected it in node: lb or full\n" },
    { "node: full\nplugins:\n  overriders: [{ use: rules, rules: [\"-> group=blue\"] }]\napps: [{ name: a "
      "}]\n",
      NULL, NULL },
    { "node: pure-runner\nplugins:\n  overriders: [{ use: rules, rules: [\"-> extension:my-group=a "
      "config:x_group=a\"] }]\n", NULL, NULL },
    { "node: pure-runner\napps: [{ name: a }]\n", NULL, "fn.yaml:2:1: warning: apps: has no effect" },
    { "node: pure-runner\nplugins: { placer: ch }\n", NULL,
      "fn.yaml:2:12: warning: placer: has no effect, got node: pure-runner; expected it in node: lb or full" },
    { "node: npm\n", NULL,
      "fn.yaml: warning: control_plane is missing: runners become processes of this machine; expected" },
    { "node: lb\ngrpc: { tls: n }\ntls: { n: { cert: /c, key: /k, ca: /a } }\n"
      "plugins: { pool: { use: npm, address: \"a:1\" } }\napps: [{ name: a }]\n",
      NULL, "fn.yaml:4:18: warning: pool npm: lb_id is missing" },
    { "node: pure-runner\nrunner: { status_network_file: /run/up }\n", NULL,
      "fn.yaml:2:32: warning: runner.status_network_file: has no effect: there is no runner.status_image" },
    { "node: full\nrunner: { status_image: a/b }\napps: [{ name: a }]\n", NULL,
      "fn.yaml:2:25: warning: runner.status_image: has no effect: a full node has no gRPC port" },
    { "node: full\nplugins: { operator: { use: file, down_file: /down } }\napps: [{ name: a }]\n",
      NULL,
      "fn.yaml:2:35: warning: operator file: down_file: has no effect: a full node has no gRPC port" },
    { "node: full\nplugins: { operator: { use: file, log_file: /lines } }\napps: [{ name: a }]\n",
      NULL, NULL },
    { "node: pure-runner\nplugins: { operator: { use: file, down_file: /down } }\n", NULL, NULL },
    { "node: pure-runner\nrunner: { status_image: a/b, status_network_file: /run/up }\n", NULL, NULL },
    { "node: lb\nrunner: {}\nnpm: {}\nplugins: { driver: docker }\n", "FN_NODE_TYPE=pure-runner", NULL },
    { "runner: {}\nlb: {}\ngrpc: {}\napps: [{ name: a }]\n", NULL, NULL },
};

START_TEST(test_what_has_no_effect_is_told)
{
    char *env[] = { (char *)(uintptr_t)effects[_i].env, NULL };
    const char *said = load(effects[_i].yaml, env);

    ck_assert_uint_eq(problems.n, 0);
    if (effects[_i].sentence) {
        expect(said, effects[_i].sentence);
        ck_assert_uint_eq(problems.warnings, 1);
        conf_problems_finish(&problems);
        conf_problems_init(&problems);
        problems.strict = true;
        load(effects[_i].yaml, env);
        ck_assert_uint_eq(problems.n, 1);
    } else {
        ck_assert_str_eq(said, "");
    }
}
END_TEST

START_TEST(test_missing_file)
{
    static char *const none[] = { NULL };

    ck_assert_int_eq(config_load("/nowhere/fn.yaml", none, &config, &problems), FN_E_INVALID);
    ck_assert_str_eq(buf_text(&problems.text),
                     "CFG705 /nowhere/fn.yaml: No such file or directory; expected a file that "
                     "can be read\n");
    ck_assert(!config_is_complete(config));
}
END_TEST

START_TEST(test_shipped_file_loads)
{
    static const char *const names[] = { "fn",     "full-docker", "lb",
                                         "lb-tls", "runner",      "runner-process",
                                         "lb-slowstart", "lb-npm", "npm",         "api" };
    static const char *const nodes[] = { "full",        "full", "lb", "lb",  "pure-runner",
                                         "pure-runner", "lb",   "lb", "npm", "api" };
    static char *const none[] = { NULL };
    char path[512];

    snprintf(path, sizeof(path), "%s/etc/%s.yaml", getenv("FND_ROOT"), names[_i]);
    ck_assert_int_eq(config_load(path, none, &config, &problems), 0);
    ck_assert_str_eq(buf_text(&problems.text), "");
    ck_assert_str_eq(config->type->word, nodes[_i]);
}
END_TEST

START_TEST(test_apps_become_data)
{
    const struct config_app *app;
    const struct config_fn *at;
    const struct fn_def *f;

    ck_assert_str_eq(
        load(LB "apps:\n  - name: demo\n    config: { A: 1, B: \"two words\" }\n    functions:\n"
                "      - name: f\n        image: fnd/f:1\n        timeout: 7\n"
                "        annotations: { a: [1, x, { k: true }], b: \"3\", c: 3,\n"
                "          d: [9223372036854775808, 1e999, 0.1, -0, 01, '<'] }\n"
                "        triggers: [ { name: t, source: /f } ]\n"
                "      - { name: g, image: g, id: MINE }\n",
             NULL),
        "");
    ck_assert_uint_eq(config->n_apps, 1);
    app = &config->apps[0];
    ck_assert_uint_eq(app->n_fns, 2);
    ck_assert_str_eq(app->app.config.items[1].value, "two words");
    at = &app->fns[0];
    f = &at->fn;
    ck_assert_uint_eq(strlen(f->id), 26);
    ck_assert_int_eq(f->timeout_s, 7);
    ck_assert_int_eq(f->mem_mb, 128);
    ck_assert_str_eq(f->annotations.items[0].value, "[1,\"x\",{\"k\":true}]");
    ck_assert_str_eq(f->annotations.items[1].value, "\"3\"");
    ck_assert_str_eq(f->annotations.items[2].value, "3");
    ck_assert_str_eq(f->annotations.items[3].value,
                     "[9223372036854775808,1e999,0.1,-0,\"01\",\"\\u003c\"]");
    ck_assert_str_eq(at->triggers[0].trigger.source, "/f");
    ck_assert_str_eq(app->fns[1].fn.id, "MINE");
    ck_assert_str_ne(f->id, app->app.id);
}
END_TEST

/* Load balancers must agree on the ids of functions that have none in the file. */
START_TEST(test_made_ids_stay)
{
    load(APP FN " }\n", NULL);
    ck_assert_str_eq(config->apps[0].fns[0].fn.id, "78NN4PPBZFK7N0PW082096R1GK");
}
END_TEST

START_TEST(test_plugins_become_data)
{
    ck_assert_str_eq(
        load("node: pure-runner\nplugins:\n  driver:\n    - { use: docker, name: engine }\n"
             "    - { use: env, inner: engine, file: /x.so }\n  overriders: [tag]\n",
             NULL),
        "");
    ck_assert_uint_eq(config->placers.n, 0);
    ck_assert_ptr_null(config->pool.use);
    ck_assert_uint_eq(config->drivers.n, 2);
    ck_assert_str_eq(config->drivers.items[0].name, "engine");
    ck_assert_str_eq(config->drivers.items[1].name, "env");
    ck_assert_str_eq(config->drivers.items[1].file, "/x.so");
    ck_assert_uint_eq(config->overriders.n, 1);
    ck_assert_str_eq(config->overriders.items[0].use, "tag");
}
END_TEST

START_TEST(test_a_shadow_is_a_placer_of_another_name)
{
    load("node: lb\nplugins: { placer: ch, shadow: { use: ch, name: next }, pool: { use: static, "
         "runners: [\"a:1\"] } }\n",
         NULL);
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_uint_eq(config->shadow.n, 1);
    ck_assert_str_eq(config->shadow.items[0].name, "next");
    ck_assert_str_eq(config->shadow.items[0].kind, "placer");
    ck_assert_int_eq(config->place->shadow_permille, 1000);
    load("node: pure-runner\nplugins: { shadow: p2c }\n", NULL);
    ck_assert_uint_eq(config->shadow.n, 0);
}
END_TEST

START_TEST(test_placers_are_one_or_a_stack)
{
    char *const env[] = { "FN_PLACER=p2c", NULL };

    load("node: full\nplugins: { placer: ch }\n", NULL);
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_uint_eq(config->placers.n, 1);
    ck_assert_str_eq(config->placers.items[0].use, "ch");
    load("node: full\nplugins:\n  placer:\n    - p2c\n    - { use: slowstart, inner: p2c }\n", env);
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_uint_eq(config->placers.n, 2); /* the variable agrees */
    ck_assert_str_eq(config->placers.items[0].name, "p2c");
    ck_assert_str_eq(config->placers.items[1].use, "slowstart");
    load("node: full\nplugins: { placer: [ch, { use: slowstart, inner: ch }] }\n", env);
    ck_assert_uint_eq(config->placers.n, 1);
    ck_assert_str_eq(config->placers.items[0].use, "p2c");
    ck_assert_str_eq(config->placers.items[0].where, "FN_PLACER");
}
END_TEST

/* ---- variables ------------------------------------------------------------------------------- */

START_TEST(test_bad_variable_gets_its_sentence)
{
    expect(load(NULL, bad_variables[_i].env), bad_variables[_i].sentence);
    ck_assert_uint_eq(problems.n, bad_variables[_i].n);
}
END_TEST

START_TEST(test_strict_refuses_unknown_variables)
{
    char *const env[] = { "FN_TYPO=1", NULL };

    problems.strict = true;
    load(NULL, env);
    ck_assert_uint_eq(problems.n, 1);
}
END_TEST

START_TEST(test_variables_alone_make_a_load_balancer)
{
    char *const env[] = { "FN_NODE_TYPE=lb",
                          "FN_PORT=8123",
                          "FN_PLACER=ch",
                          "FN_RUNNER_API_URL=http://me:secret@api:80/v2/x",
                          "FN_RUNNER_ADDRESSES=b:9190,a:9190",
                          "FN_EXECUTION_HEADROOM=1500",
                          "PATH=/bin",
                          NULL };

    ck_assert_str_eq(load(NULL, env), "");
    ck_assert_str_eq(config->type->word, "lb");
    ck_assert_str_eq(config->http->listen, ":8123");
    ck_assert_str_eq(config->placers.items[0].use, "ch");
    ck_assert_str_eq(config->pool.use, "static");
    ck_assert_str_eq(config->pool.overrides[0].key, "runners");
    ck_assert_str_eq(config->pool.overrides[0].text, "b:9190,a:9190");
    ck_assert_str_eq(config->catalog->api_url, "http://api:80");
    ck_assert_int_eq(config->lb->execution_headroom_ns, 1500 * MS);
    ck_assert_uint_eq(config->drivers.n, 0);
}
END_TEST

START_TEST(test_variables_alone_make_a_runner)
{
    char *const env[] = { "FN_NODE_TYPE=pure-runner",
                          "FN_GRPC_PORT=9999",
                          "FN_FREEZE_IDLE_MSECS=-1",
                          "FN_HOT_START_TIMEOUT_MSECS=250",
                          "FN_MAX_TOTAL_MEMORY_BYTES=1073741824",
                          "FN_MAX_TOTAL_CPU_MCPUS=1500",
                          "FN_MAX_FS_SIZE_MB=10",
                          "FN_MAX_PIDS=7",
                          "FN_DISABLE_READONLY_ROOTFS=T",
                          "FN_DISABLE_DEBUG_USER_LOGS=1",
                          "FN_IMAGE_ENABLE_VOLUME=False",
                          "FN_MAX_RESPONSE_SIZE=1000",
                          "FN_MAX_HDR_RESPONSE_SIZE=0",
                          "FN_MAX_REQUEST_HEADER_SIZE=0",
                          "FN_MAX_LOG_SIZE_BYTES=0",
                          "FN_MAX_REQUEST_SIZE=-1",
                          "FN_LOG_LEVEL=Warning",
                          "FN_IOFS_PATH=/io",
                          "FN_DOCKER_NETWORKS=n1 n2",
                          "DOCKER_HOST=tcp://d",
                          "DOCKER_TLS_VERIFY=0", /* any text, as in Docker's own programs */
                          "DOCKER_CERT_PATH=/certs",
                          NULL };
    const struct runner_options *r;

    ck_assert_str_eq(load(NULL, env), "");
    r = config->runner;
    ck_assert_str_eq(config->type->word, "pure-runner");
    ck_assert_str_eq(config->grpc->listen, ":9999");
    ck_assert_str_eq(config->http->listen, ":8080");
    ck_assert_int_eq(r->freeze_idle_ns, -1);
    ck_assert_int_eq(r->start_timeout_ns, 250 * MS);
    ck_assert_int_eq(config->account->mem_bytes_max, 1073741824);
    ck_assert_int_eq(config->account->cpu_milli_max, 1500);
    ck_assert_int_eq(r->fs_bytes, 10 << 20);
    ck_assert_int_eq(r->pids_max, 7);
    ck_assert_uint_eq(r->writable_root, 1);
    ck_assert_uint_eq(r->user_logs, 0);
    ck_assert_uint_eq(r->volumes, 0);
    ck_assert_int_eq(r->answer_bytes_max, 1000);
    ck_assert_int_eq(config->fnsock->limits.answer_header_bytes_max, 65536);
    ck_assert_int_eq(r->log_ring_bytes, 65536);
    ck_assert_str_eq(config->log->level, "warn");
    ck_assert_uint_eq(config->http_limits->body_bytes_max, 0);
    ck_assert_str_eq(config->fnsock->iofs_path, "/io");
    ck_assert_uint_eq(config->drivers.n, 1);
    ck_assert_str_eq(config->drivers.items[0].use, "docker");
    ck_assert_str_eq(config->drivers.items[0].overrides[0].text, "n1 n2");
    ck_assert_str_eq(config->drivers.items[0].overrides[2].key, "tls_verify");
    ck_assert_str_eq(config->drivers.items[0].overrides[2].text, "true");
    ck_assert_str_eq(config->drivers.items[0].overrides[3].text, "/certs");
}
END_TEST

/* A file that several nodes share names plugins of all of them. */
START_TEST(test_plugins_of_other_sides_are_forgotten)
{
    static const char shared[] =
        "plugins:\n  placer: [naive, first]\n  fallback: p2c\n  shadow: ch\n"
        "  pool: { use: npm, address: \"a:1\" }\n  driver: process\n"
        "  control_plane: process\n  predictor: window\n  warm: spare\n  overriders: [tag]\n"
        "  listeners: [count]\nrunner: { warm_max: 1 }\n";

    ck_assert_str_eq(load(shared, (char *[]){ "FN_NODE_TYPE=pure-runner", NULL }), "");
    ck_assert_uint_eq(config->placers.n + config->shadow.n, 0);
    ck_assert(!config->fallback.use && !config->pool.use);
    ck_assert(!config->cplane.use && !config->predictor.use);
    ck_assert_str_eq(config->warm.use, "spare");
    ck_assert_uint_eq(config->drivers.n + config->overriders.n + config->listeners.n, 3);
    ck_assert_str_eq(load(shared, (char *[]){ "FN_NODE_TYPE=npm", NULL }), "");
    ck_assert_uint_eq(config->drivers.n + config->overriders.n + config->listeners.n, 0);
    ck_assert_str_eq(config->predictor.use, "window");
    ck_assert(!config->warm.use);
}
END_TEST

START_TEST(test_nothing_makes_a_full_node)
{
    bool engine = access("/var/run/docker.sock", R_OK | W_OK) == 0;

    ck_assert_str_eq(load(NULL, NULL), "");
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_str_eq(config->store->url, "sqlite3://data/fn.db");
    ck_assert_str_eq(config->api->clients.items[0], "127.0.0.0/8");
    ck_assert_str_eq(config->type->word, "full");
    ck_assert_str_eq(config->placers.items[0].use, "naive");
    ck_assert_str_eq(config->pool.use, "static");
    ck_assert_str_eq(config->pool.overrides[0].text, "local:");
    ck_assert_uint_eq(config->drivers.n, 1);
    ck_assert_str_eq(config->drivers.items[0].use, engine ? "docker" : "process");
    ck_assert_int_eq(config->lb->placement_timeout_ns, 30 * S);
    ck_assert_int_eq(config->http_limits->body_bytes_max, 6 << 20);
    ck_assert_ptr_nonnull(config->top->plugin_dir);
}
END_TEST

START_TEST(test_variables_win_over_the_file)
{
    char *const env[] = { "FN_PORT=8123",
                          "FN_PLACER=ch",
                          "FN_RUNNER_ADDRESSES=z:1",
                          "FN_HTTP_IDLE_TIMEOUT=90",
                          "FN_REQUEST_BODY_READ_TIMEOUT=1m30s",
                          NULL };

    load(LB "http: { listen: \"127.0.0.1:1\", idle_timeout: 5s }\n", env);
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_str_eq(config->http->listen, "127.0.0.1:8123");
    ck_assert_int_eq(config->http_limits->idle_timeout_ns, 90 * S);
    ck_assert_int_eq(config->http_limits->body_timeout_ns, 90 * S);
    ck_assert_str_eq(config->placers.items[0].use, "ch");
    ck_assert_str_eq(config->placers.items[0].where, "FN_PLACER");
    ck_assert_str_eq(config->pool.overrides[0].text, "z:1");
}
END_TEST

/* Once the variable of one option took the file's other ones away. */
START_TEST(test_a_manager_s_address_leaves_the_pool_s_options)
{
    char *const env[] = { "FN_NPM_ADDRESS=m:1", NULL };
    static const char *const pools[] = { "{ use: npm, address: \"a:1\", lb_id: me }",
                                         "{ use: static, runners: [\"a:1\"] }" };
    char yaml[160];

    snprintf(yaml, sizeof(yaml), "node: lb\nplugins: { pool: %s }\n", pools[_i]);
    load(yaml, env);
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_str_eq(config->pool.use, "npm");
    ck_assert_str_eq(config->pool.overrides[0].key, "address");
    ck_assert_str_eq(config->pool.overrides[0].text, "m:1");
    ck_assert_int_eq(config->pool.node != NULL, _i == 0);
}
END_TEST

START_TEST(test_values_from_files)
{
    char number[160];
    char text[160];
    char *const env[] = { number, text, "FN_GRPC_PORT=1", "FN_GRPC_PORT_FILE=/nowhere", NULL };

    snprintf(number, sizeof(number), "FN_PORT_FILE=%s", write_file("value", " 8123\n"));
    snprintf(text, sizeof(text), "FN_RID_HEADER_FILE=%s/value", dir);
    load(NULL, env);
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_str_eq(config->http->listen, ":8123");
    ck_assert_str_eq(config->lb->rid_header, " 8123\n"); /* Go Fn trims numbers only */
}
END_TEST

START_TEST(test_certificate_variables_turn_tls_on)
{
    char *const env[] = { "FN_NODE_CERT=/c", "FN_NODE_CERT_KEY=/k", "FN_NODE_CERT_AUTHORITY=/a",
                          NULL };

    load(NULL, env);
    ck_assert_uint_eq(problems.n, 0);
    ck_assert_ptr_nonnull(config->grpc->tls);
    ck_assert_str_eq(config_tls_find(config, config->grpc->tls)->key, "/k");
}
END_TEST

/* All copies of a node's life have one arena. */
START_TEST(test_a_want_of_memory_ends_one_copy)
{
    const char *peers[] = { "a", "b" };
    struct config_tls tls = { .name = "nodes", .ca = "/ca", .peers = { peers, 2 } };
    struct config_tls *copy;
    struct arena a;

    arena_init(&a, 4096);
    a.failed = true;
    copy = config_tls_copy(&tls, &a);
    ck_assert_ptr_nonnull(copy);
    ck_assert_str_eq(copy->ca, "/ca");
    ck_assert_str_eq(copy->peers.items[1], "b");
    arena_finish(&a);
}
END_TEST

static TCase *tcase(const char *name)
{
    TCase *t = tcase_create(name);

    tcase_add_checked_fixture(t, setup, teardown);
    return t;
}

int main(void)
{
    Suite *s = suite_create("config");
    TCase *t = tcase("files");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(t, test_bad_file_gets_its_sentence, 0, ROWS(bad_files));
    tcase_add_test(t, test_too_many_groups_are_counted);
    tcase_add_test(t, test_missing_file);
    tcase_add_loop_test(t, test_one_mistake_is_told_once, 0, ROWS(one_sentence));
    tcase_add_loop_test(t, test_what_has_no_effect_is_told, 0, ROWS(effects));
    tcase_add_test(t, test_apps_without_names);
    tcase_add_loop_test(t, test_shipped_file_loads, 0, 10);
    tcase_add_test(t, test_apps_become_data);
    tcase_add_test(t, test_made_ids_stay);
    tcase_add_test(t, test_plugins_become_data);
    tcase_add_test(t, test_placers_are_one_or_a_stack);
    tcase_add_test(t, test_a_shadow_is_a_placer_of_another_name);
    suite_add_tcase(s, t);
    t = tcase("variables");
    tcase_add_loop_test(t, test_bad_variable_gets_its_sentence, 0, ROWS(bad_variables));
    tcase_add_test(t, test_strict_refuses_unknown_variables);
    tcase_add_test(t, test_variables_alone_make_a_load_balancer);
    tcase_add_test(t, test_variables_alone_make_a_runner);
    tcase_add_test(t, test_plugins_of_other_sides_are_forgotten);
    tcase_add_test(t, test_nothing_makes_a_full_node);
    tcase_add_test(t, test_variables_win_over_the_file);
    tcase_add_loop_test(t, test_a_manager_s_address_leaves_the_pool_s_options, 0, 2);
    tcase_add_test(t, test_values_from_files);
    tcase_add_test(t, test_certificate_variables_turn_tls_on);
    tcase_add_test(t, test_a_want_of_memory_ends_one_copy);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
