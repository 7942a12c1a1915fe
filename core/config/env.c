/* Variables: Go Fn's environment as overrides of options. */
#include <config/config_int.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 65536

#define TEXT   VARIABLE_MAY_BE_FILE
#define NUMBER (VARIABLE_MAY_BE_FILE | VARIABLE_IS_TRIMMED)
#define LINE   NUMBER /* a file of it ends with a newline that is no part */
#define NONE(name_, why)                                                                           \
    {                                                                                              \
        name_, SECTION_NOWHERE, NULL, FORM_NONE, VARIABLE_MAY_BE_FILE, why                         \
    }

/* The variables of Go Fn, and some of ours. */
const struct config_variable config_variables[] = {
    { "FN_NODE_TYPE", SECTION_TOP, "node", FORM_AS_IS, TEXT, NULL },
    { "FN_PORT", SECTION_HTTP, "listen", FORM_PORT, NUMBER, NULL },
    { "FN_GRPC_PORT", SECTION_GRPC, "listen", FORM_PORT, NUMBER, NULL },
    { "FND_TRANSPORT", SECTION_GRPC, "transport", FORM_AS_IS, 0, NULL },
    { "FND_TRACES_ENDPOINT", SECTION_TRACES, "endpoint", FORM_AS_IS, LINE, NULL },
    { "FND_TRACES_HEADERS", SECTION_TRACES, "headers", FORM_AS_IS, LINE, NULL },
    { "FN_RUNNER_API_URL", SECTION_LB, "api_url", FORM_AS_IS, TEXT, NULL },
    { "FN_RUNNER_ADDRESSES", SECTION_POOL, "runners", FORM_AS_IS, TEXT, NULL },
    { "FN_NPM_ADDRESS", SECTION_POOL, "address", FORM_AS_IS, TEXT | VARIABLE_IS_MANAGER,
      NULL },
    { "FN_PLACER", SECTION_PLACER, "use", FORM_AS_IS, TEXT, NULL },
    { "FN_MAX_REQUEST_SIZE", SECTION_HTTP, "body_max", FORM_SIZE, NUMBER, NULL },
    { "FN_MAX_REQUEST_HEADER_SIZE", SECTION_HTTP, "header_max", FORM_AS_IS,
      NUMBER | VARIABLE_0_IS_DEFAULT, NULL },
    { "FN_REQUEST_BODY_READ_TIMEOUT", SECTION_HTTP, "body_timeout", FORM_SECONDS, 0, NULL },
    { "FN_REQUEST_HEADER_READ_TIMEOUT", SECTION_HTTP, "header_timeout", FORM_SECONDS, 0, NULL },
    { "FN_RESPONSE_WRITE_TIMEOUT", SECTION_HTTP, "write_stall", FORM_SECONDS, 0, NULL },
    { "FN_HTTP_IDLE_TIMEOUT", SECTION_HTTP, "idle_timeout", FORM_SECONDS, 0, NULL },
    { "FN_API_CORS_ORIGINS", SECTION_HTTP, "cors_origins", FORM_AS_IS, TEXT, NULL },
    { "FN_API_CORS_HEADERS", SECTION_HTTP, "cors_headers", FORM_AS_IS, TEXT, NULL },
    { "FN_LOG_FORMAT", SECTION_LOG, "format", FORM_AS_IS, TEXT, NULL },
    { "FN_LOG_LEVEL", SECTION_LOG, "level", FORM_LEVEL, TEXT, NULL },
    { "FN_LOG_DEST", SECTION_LOG, "dest", FORM_AS_IS, TEXT, NULL },
    { "FN_LOG_PREFIX", SECTION_LOG, "prefix", FORM_AS_IS, TEXT, NULL },
    { "FN_RID_HEADER", SECTION_LB, "rid_header", FORM_AS_IS, TEXT, NULL },
    { "FN_EXECUTION_HEADROOM", SECTION_LB, "execution_headroom", FORM_MSECS, 0, NULL },
    { "FN_DB_URL", SECTION_STORE, "url", FORM_AS_IS, TEXT, NULL },
    { "FN_PUBLIC_LB_URL", SECTION_API, "public_url", FORM_AS_IS, TEXT, NULL },
    { "FN_NODE_CERT", SECTION_TLS, "cert", FORM_AS_IS, TEXT, NULL },
    { "FN_NODE_CERT_KEY", SECTION_TLS, "key", FORM_AS_IS, TEXT, NULL },
    { "FN_NODE_CERT_AUTHORITY", SECTION_TLS, "ca", FORM_AS_IS, TEXT, NULL },
    { "FN_FREEZE_IDLE_MSECS", SECTION_RUNNER, "freeze_idle", FORM_MSECS, 0, NULL },
    { "FN_HOT_PULL_TIMEOUT_MSECS", SECTION_RUNNER, "pull_timeout", FORM_MSECS, 0, NULL },
    { "FN_HOT_START_TIMEOUT_MSECS", SECTION_RUNNER, "start_timeout", FORM_MSECS, 0, NULL },
    { "FN_MAX_RESPONSE_SIZE", SECTION_RUNNER, "max_response_size", FORM_AS_IS,
      VARIABLE_ALSO_LB, NULL },
    { "FN_MAX_HDR_RESPONSE_SIZE", SECTION_RUNNER, "max_response_header_size", FORM_AS_IS,
      VARIABLE_0_IS_DEFAULT, NULL },
    { "FN_MAX_LOG_SIZE_BYTES", SECTION_RUNNER, "log_ring", FORM_AS_IS, VARIABLE_0_IS_DEFAULT,
      NULL },
    { "FN_MAX_TOTAL_CPU_MCPUS", SECTION_RUNNER, "cpu_total", FORM_AS_IS, 0, NULL },
    { "FN_MAX_TOTAL_MEMORY_BYTES", SECTION_RUNNER, "memory_total", FORM_AS_IS, 0, NULL },
    { "FN_MAX_FS_SIZE_MB", SECTION_RUNNER, "fs_size_max", FORM_MB, 0, NULL },
    { "FN_MAX_TMPFS_INODES", SECTION_RUNNER, "tmpfs_inodes_max", FORM_AS_IS, 0, NULL },
    { "FN_MAX_PIDS", SECTION_RUNNER, "pids_max", FORM_AS_IS, 0, NULL },
    { "FN_MAX_OPEN_FILES", SECTION_RUNNER, "nofile_max", FORM_AS_IS, 0, NULL },
    { "FN_MAX_LOCKED_MEMORY", SECTION_RUNNER, "memlock_max", FORM_AS_IS, 0, NULL },
    { "FN_MAX_PENDING_SIGNALS", SECTION_RUNNER, "sigpending_max", FORM_AS_IS, 0, NULL },
    { "FN_MAX_MESSAGE_QUEUE", SECTION_RUNNER, "msgqueue_max", FORM_AS_IS, 0, NULL },
    { "FN_IMAGE_ENABLE_VOLUME", SECTION_RUNNER, "volumes", FORM_BOOL, 0, NULL },
    { "FN_DISABLE_UNPRIVILEGED_CONTAINERS", SECTION_RUNNER, "privileged_user", FORM_BOOL, 0, NULL },
    { "FN_DISABLE_READONLY_ROOTFS", SECTION_RUNNER, "writable_root", FORM_BOOL, 0, NULL },
    { "FN_DISABLE_DEBUG_USER_LOGS", SECTION_RUNNER, "user_logs", FORM_NOT, 0, NULL },
    { "FN_IOFS_PATH", SECTION_RUNNER, "iofs_path", FORM_AS_IS, 0, NULL },
    { "FN_IOFS_DOCKER_PATH", SECTION_RUNNER, "iofs_engine_path", FORM_AS_IS, 0, NULL },
    { "FN_IOFS_OPTS", SECTION_RUNNER, "iofs_opts", FORM_AS_IS, 0, NULL },
    { "FN_IOFS_TMPFS", SECTION_RUNNER, "iofs_tmpfs", FORM_BOOL, 0, NULL },
    { "FN_CONTAINER_LABEL_TAG", SECTION_DRIVER, "label_tag", FORM_AS_IS, 0, NULL },
    { "FN_DOCKER_NETWORKS", SECTION_DRIVER, "networks", FORM_AS_IS, 0, NULL },
    { "FN_DOCKER_LOAD_FILE", SECTION_DRIVER, "load_file", FORM_AS_IS, 0, NULL },
    { "FN_IMAGE_CLEAN_MAX_SIZE", SECTION_DRIVER, "images_max", FORM_AS_IS, 0, NULL },
    { "FN_IMAGE_CLEAN_EXEMPT_TAGS", SECTION_DRIVER, "images_exempt", FORM_AS_IS, 0, NULL },
    { "FN_DOCKER_AUTH", SECTION_DRIVER, "auth", FORM_AS_IS, 0, NULL },
    { "DOCKER_HOST", SECTION_DRIVER, "docker_host", FORM_AS_IS, 0, NULL },
    { "DOCKER_TLS_VERIFY", SECTION_DRIVER, "tls_verify", FORM_SAID, 0, NULL },
    { "DOCKER_CERT_PATH", SECTION_DRIVER, "cert_path", FORM_AS_IS, 0, NULL },
    NONE("FN_DS_DB_PING_MAX_RETRIES", "fnd tries to reach the store by a rule of its own"),
    NONE("FN_ZIPKIN_URL", "traces go to a collector by OTLP: traces.endpoint"),
    NONE("FN_JAEGER_URL", "traces go to a collector by OTLP: traces.endpoint"),
    NONE("FN_PROCESS_COLLECTOR_LIST", "metrics of other processes are not collected"),
    NONE("FN_HOT_POLL_MSECS", "nothing is polled"),
    NONE("FN_HOT_LAUNCHER_TIMEOUT_MSECS",
         "a queue without calls and containers is dropped at once"),
    NONE("FN_ENABLE_NB_RESOURCE_TRACKER",
         "a full runner hands calls back after runner.queue_wait at the latest"),
    NONE("FN_EXPERIMENTAL_PREFORK_POOL_SIZE", "there is no pool of placeholder containers"),
    NONE("FN_EXPERIMENTAL_PREFORK_IMAGE", "there is no pool of placeholder containers"),
    NONE("FN_EXPERIMENTAL_PREFORK_CMD", "there is no pool of placeholder containers"),
    NONE("FN_EXPERIMENTAL_PREFORK_USE_ONCE", "there is no pool of placeholder containers"),
    NONE("FN_EXPERIMENTAL_PREFORK_NETWORKS", "there is no pool of placeholder containers"),
    NONE("FN_MQ_URL", "Go Fn does not read it either"),
    NONE("FN_LOGSTORE_URL", "Go Fn does not read it either"),
    NONE("FN_API_URL", "only the fn command line reads it"),
    NONE("FN_TOKEN", "only command lines read it"),
    NONE("FN_EJECT_IDLE_MSECS", "Go Fn does not read it either"),
    NONE("FN_API_CORS", "Go Fn does not read it either"),
    { NULL, SECTION_NOWHERE, NULL, FORM_NONE, 0, NULL },
};

const char *config_variable_of(enum config_section section, const char *key)
{
    for (const struct config_variable *v = config_variables; v->name; v++) {
        if (v->section == section && v->key && strcmp(v->key, key) == 0) {
            return v->name;
        }
    }
    return NULL;
}

static const struct config_variable *variable_find(const char *name, size_t len)
{
    for (const struct config_variable *v = config_variables; v->name; v++) {
        if (strlen(v->name) == len && memcmp(v->name, name, len) == 0) {
            return v;
        }
    }
    return NULL;
}

static int env_refuse(struct conf_problems *p, const char *name, const char *text, const char *rule)
{
    conf_problem(p, "CFG706", NULL, "%s, got %s; expected %s", name, conf_quote(text), rule);
    return FN_E_INVALID;
}

static bool is_bool(const char *text, bool *ret)
{
    static const char *const words[] = { "0", "f", "false", "1", "t", "true" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *ret = i >= 3;
            return true;
        }
    }
    return false;
}

static const char *form_msecs(struct config *c, const char *name, const char *text,
                              struct conf_problems *p)
{
    int64_t n;

    if (conf_parse_int(text, &n) < 0) {
        env_refuse(p, name, text, "whole milliseconds");
        return NULL;
    }
    if (n < 0) {
        return "never";
    }
    return arena_printf(&c->priv->arena, "%" PRId64 "ms", n);
}

static const char *form_seconds(struct config *c, const char *name, const char *text,
                                struct conf_problems *p)
{
    int64_t n;

    if (conf_parse_int(text, &n) == 0 && n >= 0) {
        return arena_printf(&c->priv->arena, "%" PRId64 "s", n);
    }
    if (conf_parse_duration(text, &n) == 0 && n >= 0) {
        return text;
    }
    env_refuse(p, name, text, "whole seconds or a duration such as 10ms, 2s or 5m");
    return NULL;
}

static const char *form_level(struct config *c, const char *text)
{
    char *level = arena_strdup(&c->priv->arena, text);

    for (char *p = level; p && *p; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    return level && strcmp(level, "warning") == 0 ? "warn" : level;
}

/* The text of the option, or NULL after a refusal or when the variable says nothing. */
static const char *form_text(struct config *c, const struct config_variable *v, const char *name,
                             const char *text, struct conf_problems *p)
{
    int64_t n;
    bool flag;

    switch (v->form) {
    case FORM_MSECS:
        return form_msecs(c, name, text, p);
    case FORM_SECONDS:
        return form_seconds(c, name, text, p);
    case FORM_MB:
        if (conf_parse_int(text, &n) < 0 || n < 0 || n > INT64_MAX >> 20) {
            env_refuse(p, name, text, "whole MB, 0 or more");
            return NULL;
        }
        return arena_printf(&c->priv->arena, "%" PRId64 "MiB", n);
    case FORM_BOOL:
    case FORM_NOT:
        if (!is_bool(text, &flag)) {
            env_refuse(p, name, text, "true or false");
            return NULL;
        }
        return flag == (v->form == FORM_BOOL) ? "true" : "false";
    case FORM_SAID:
        return "true";
    case FORM_PORT:
        if (conf_parse_int(text, &n) < 0 || n < 1 || n > 65535) {
            env_refuse(p, name, text, "1..65535");
            return NULL;
        }
        return text;
    case FORM_SIZE:
        return conf_parse_int(text, &n) == 0 && n < 0 ? "0" : text;
    case FORM_LEVEL:
        return form_level(c, text);
    default:
        return text;
    }
}

static void add_override(struct config *c, const struct config_variable *v, const char *name,
                         const char *text)
{
    struct conf_override *list = c->priv->overrides[v->section];
    uint32_t n = 0;

    while (list[n].key) {
        n++;
    }
    if (n < CONFIG_SECTION_OVERRIDES_MAX) {
        list[n] = (struct conf_override){ v->key, name, text };
    }
}

static bool says_nothing(const struct config_variable *v, const char *text)
{
    if (text[0] == '\0') {
        return v->form != FORM_BOOL && v->form != FORM_NOT && v->form != FORM_PORT;
    }
    return (v->flags & VARIABLE_0_IS_DEFAULT) && strcmp(text, "0") == 0;
}

static void env_take(struct config *c, const struct config_variable *v, const char *name,
                     const char *text, struct conf_problems *p)
{
    struct config_private *priv = c->priv;
    int64_t n;

    if (!text) {
        return;
    }
    if (v->form == FORM_NONE) {
        conf_note(p, "CFG710", NULL, "%s has no effect: %s", v->name, v->doc);
        return;
    }
    if (says_nothing(v, text)) {
        return;
    }
    text = form_text(c, v, name, text, p);
    if (!text) {
        return;
    }
    if (v->form == FORM_PORT) {
        *(v->section == SECTION_HTTP ? &priv->port : &priv->grpc_port) = text;
    } else if (v->section == SECTION_PLACER) {
        priv->placer = text;
    } else {
        if (v->flags & VARIABLE_IS_MANAGER) {
            priv->npm = text;
        }
        add_override(c, v, name, text);
        if ((v->flags & VARIABLE_ALSO_LB) && conf_parse_bytes(text, &n) == 0) {
            /* One sentence is enough of what is no size. */
            add_override(c,
                         &(struct config_variable){ .section = SECTION_LB, .key = "response_max" },
                         name, text);
        }
    }
}

static char *read_value_file(struct config *c, const char *name, const char *path, bool trim,
                             struct conf_problems *p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int missed = fd < 0 ? errno : 0;
    char *text = config_alloc(c, FILE_BYTES_MAX + 1);
    struct stat st;
    ssize_t n = -1;

    if (fd >= 0 && text && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        n = read(fd, text, FILE_BYTES_MAX);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (missed) {
        conf_problem(p, "CFG706", NULL, "%s, got %s: %s; expected the path of a text file of less "
                     "than 64KiB", name, conf_quote(path), strerror(missed));
        return NULL;
    }
    if (!text || n < 0 || n == FILE_BYTES_MAX || strlen(text) != (size_t)n) {
        env_refuse(p, name, path, "the path of a text file of less than 64KiB");
        return NULL;
    }
    while (trim && n > 0 && isspace((unsigned char)text[n - 1])) {
        text[--n] = '\0';
    }
    while (trim && isspace((unsigned char)*text)) {
        text++;
    }
    return text;
}

static const char *value_of(char *const *environ_, const char *name)
{
    size_t len = strlen(name);

    for (; *environ_; environ_++) {
        if (strncmp(*environ_, name, len) == 0 && (*environ_)[len] == '=') {
            return *environ_ + len + 1;
        }
    }
    return NULL;
}

static void unknown(const char *name, struct conf_problems *p)
{
    enum { KNOWN_MAX = 128 };
    const char *known[KNOWN_MAX + 1];
    uint32_t n = 0;
    const char *near;

    for (const struct config_variable *v = config_variables; v->name && n < KNOWN_MAX; v++) {
        known[n++] = v->name;
    }
    known[n] = NULL;
    near = conf_nearest(name, known);
    if (near) {
        conf_warning(p, "CFG708", NULL, "unknown variable %s; did you mean %s?", conf_quote(name),
                     near);
    } else {
        conf_warning(p, "CFG708", NULL, "unknown variable %s; it has no effect", conf_quote(name));
    }
}

static void take_file_variant(struct config *c, const char *name, const char *path,
                              char *const *environ_, struct conf_problems *p)
{
    const struct config_variable *v = variable_find(name, strlen(name) - strlen("_FILE"));
    const char *text;

    if (!v || !(v->flags & VARIABLE_MAY_BE_FILE)) {
        unknown(name, p);
        return;
    }
    if (value_of(environ_, v->name)) {
        return; /* the variable itself wins */
    }
    text = read_value_file(c, name, path, v->flags & VARIABLE_IS_TRIMMED, p);
    if (text) {
        env_take(c, v, name, text, p);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t k = strlen(end);

    return n > k && strcmp(text + n - k, end) == 0;
}

void config_env_read(struct config *c, char *const *environ_, struct conf_problems *p)
{
    for (char *const *e = environ_; e && *e; e++) {
        const char *eq = strchr(*e, '=');
        const struct config_variable *v;
        const char *name;

        if (!eq || (strncmp(*e, "FN_", 3) != 0 && strncmp(*e, "DOCKER_", 7) != 0 &&
                    strncmp(*e, "FND_TRACES_", 11) != 0 &&
                    strncmp(*e, "FND_TRANSPORT=", 14) != 0)) {
            continue;
        }
        name = arena_strndup(&c->priv->arena, *e, (size_t)(eq - *e));
        v = name ? variable_find(name, strlen(name)) : NULL;
        if (v) {
            env_take(c, v, name, arena_strdup(&c->priv->arena, eq + 1), p);
        } else if (name && ends_with(name, "_FILE")) {
            take_file_variant(c, name, eq + 1, environ_, p);
        } else if (name && name[0] == 'F') {
            unknown(name, p);
        }
    }
}
