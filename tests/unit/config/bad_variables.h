/* Variables that are wrong, without effect or unknown, and the sentence that each gets. */
#ifndef TESTS_BAD_VARIABLES_H
#define TESTS_BAD_VARIABLES_H

#include <stdint.h>

#define ENV_MAX 8

static const struct {
    char *env[ENV_MAX];
    const char *sentence;
    uint32_t n;
} bad_variables[] = {
    { { "FN_PORT=70000" }, "CFG706 FN_PORT, got \"70000\"; expected 1..65535\n", 1 },
    { { "FN_PORT=http" }, "CFG706 FN_PORT, got \"http\"; expected 1..65535\n", 1 },
    { { "FN_PORT=" }, "CFG706 FN_PORT, got \"\"; expected 1..65535\n", 1 },
    { { "FN_GRPC_PORT=0" }, "CFG706 FN_GRPC_PORT, got \"0\"; expected 1..65535\n", 1 },
    { { "FN_NODE_TYPE=runner" },
      "CFG706 FN_NODE_TYPE, got \"runner\"; expected full, lb, pure-runner, npm or api; did you mean \"pure-runner\"?\n",
      1 },
    { { "FN_NODE_TYPE=lb", "FN_RUNNER_ADDRESSES=a:1" },
      "CFG711 FN_RUNNER_API_URL is missing; expected the address of an API node",
      1 },
    { { "FN_NODE_TYPE=lb", "FN_RUNNER_API_URL=http://a" },
      "CFG711 FN_RUNNER_ADDRESSES is missing; expected host:port of each runner\n",
      1 },
    { { "FN_NODE_TYPE=lb", "FN_RUNNER_API_URL=localhost:80", "FN_RUNNER_ADDRESSES=a:1" },
      "CFG706 FN_RUNNER_API_URL, got \"localhost:80\"; expected http://host:port (no host "
      "specified "
      "for client)\n",
      1 },
    { { "FN_FREEZE_IDLE_MSECS=5s" },
      "CFG706 FN_FREEZE_IDLE_MSECS, got \"5s\"; expected whole milliseconds\n",
      1 },
    { { "FN_EXECUTION_HEADROOM=-1" },
      "CFG706 FN_EXECUTION_HEADROOM, got \"never\"; expected a duration",
      1 },
    { { "FN_HTTP_IDLE_TIMEOUT=soon" },
      "CFG706 FN_HTTP_IDLE_TIMEOUT, got \"soon\"; expected whole seconds or a "
      "duration such as 10ms, 2s or 5m\n",
      1 },
    { { "FN_IMAGE_ENABLE_VOLUME=" },
      "CFG706 FN_IMAGE_ENABLE_VOLUME, got \"\"; expected true or false\n",
      1 },
    { { "FN_MAX_FS_SIZE_MB=x" },
      "CFG706 FN_MAX_FS_SIZE_MB, got \"x\"; expected whole MB, 0 or more\n",
      1 },
    { { "FN_MAX_RESPONSE_SIZE=1GB" },
      "CFG706 FN_MAX_RESPONSE_SIZE, got \"1GB\"; expected a size",
      1 },
    { { "FN_LOG_LEVEL=loud" },
      "CFG706 FN_LOG_LEVEL, got \"loud\"; expected panic, fatal, error",
      1 },
    { { "FN_LOG_DEST=tcp://a" },
      "CFG706 FN_LOG_DEST, got \"tcp://a\"; expected stderr, stdout, file:///path, udp://host:port, ",
      1 },
    { { "FN_LOG_PREFIX=two words" },
      "CFG706 FN_LOG_PREFIX, got \"two words\"; expected letters, digits and -_./\n",
      1 },
    { { "FN_API_CORS_ORIGINS=http://a, b.example" },
      "CFG706 FN_API_CORS_ORIGINS, got \"b.example\"; expected http://..., https://..., or * as the",
      1 },
    { { "FN_PORT_FILE=/nowhere" },
      "CFG706 FN_PORT_FILE, got \"/nowhere\": No such file or directory; expected the path of a text "
      "file of less than 64KiB\n",
      1 },
    { { "FN_PORT_FILE=/dev/zero" },
      "CFG706 FN_PORT_FILE, got \"/dev/zero\"; expected the path of a text file",
      1 },
    { { "FN_NODE_CERT=/c" },
      "CFG706 FN_NODE_CERT, FN_NODE_CERT_KEY and FN_NODE_CERT_AUTHORITY; expected all",
      1 },
    { { "FN_MAX_RESPONS_SIZE=1" },
      "CFG708 warning: unknown variable \"FN_MAX_RESPONS_SIZE\"; did you mean FN_MAX_RESPONSE_SIZE?\n",
      0 },
    { { "FN_\x1b[31m=1" }, "CFG708 warning: unknown variable \"FN_\\x1b[31m\"; it has no effect\n", 0 },
    { { "FN_FREEZE_IDLE_MSECS_FILE=/x" },
      "CFG708 warning: unknown variable \"FN_FREEZE_IDLE_MSECS_FILE\"",
      0 },
    { { "FN_DS_DB_PING_MAX_RETRIES=3" },
      "CFG710 note: FN_DS_DB_PING_MAX_RETRIES has no effect: fnd tries to reach the store by a rule of its own\n",
      0 },
    { { "FN_DB_URL=mysql://root:secret@tcp(db)/fn" },
      "CFG706 FN_DB_URL, got \"mysql\"; expected sqlite3://<path of a file> or "
      "postgres://<user>@<host>/<database>\n",
      1 },
    { { "FN_NODE_TYPE=api", "FN_DB_URL=postgres://fn:100%sure@db/fn" },
      "CFG706 FN_DB_URL, got \"postgres\"; expected a URL that libpq takes, with special characters "
      "of user and password as %XX and no settings but its own\n",
      1 },
    { { "FN_NODE_TYPE=api", "FN_DB_URL=postgres://fn:is/sure@db/fn" },
      "CFG706 FN_DB_URL, got \"postgres\"; expected a URL that libpq takes, with",
      1 },
    { { "FN_NODE_TYPE=lb", "FN_RUNNER_API_URL=http://api:80", "FN_NPM_ADDRESS=m:1",
        "FN_RUNNER_ADDRESSES=a:1" },
      "CFG710 warning: FN_RUNNER_ADDRESSES has no effect: pool is npm\n",
      0 },
    { { "FN_NODE_TYPE=api", "FN_PORT=8081" },
      "CFG710 note: http.listen :8081: whoever reaches this port may change apps and functions; ",
      0 },
    { { "FN_NODE_TYPE=api", "FN_PORT=8081" }, "expected api.tokens, api.clients, a firewall", 0 },
    { { "FN_NODE_TYPE=api", "FN_PUBLIC_LB_URL=lb:8080" },
      "CFG706 FN_PUBLIC_LB_URL, got \"lb:8080\"; expected http://host:port\n",
      1 },
};

#endif
