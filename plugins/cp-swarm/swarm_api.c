/* Options checked, services written, and the engine's three lists (services, tasks, nodes)
 * joined to runners with addresses and states. */
#include "swarm_api.h"

#include "engine_json.h"
#include "fail.h"
#include "hash.h"
#include "labelled.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#define PREFIX "fnd-"
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
#define GROUP_PLAIN 15 /* longest group that is written as it is; a hash has 16 */
#define MIB (1024 * 1024)
#define UNIX_PATH_MAX 107
#define KEPT_MIN_MB 256
#define KEPT_MAX_MB 5120

#define LABEL_OWNER "fnd.owner"
#define LABEL_GROUP "fnd.group"
#define LABEL_REQUEST "fnd.request"
#define LABEL_PORT "fnd.port"
#define LABEL_CAPACITY "fnd.capacity_mb"
#define LABEL_LABELS "fnd.labels"
#define LABELS_BYTES (FN_LABELS_TEXT_MAX + 1)

/* ---- options --------------------------------------------------------------------------------- */

static bool mount_ok(const char *text)
{
    const char *target = strchr(text, ':');
    const char *mode = target ? strchr(target + 1, ':') : NULL;

    return target && target > text && target[1] == '/' &&
           (!mode || strcmp(mode, ":ro") == 0 || strcmp(mode, ":rw") == 0);
}

static bool env_ok(const char *text)
{
    const char *equals = strchr(text, '=');

    return equals && equals > text;
}

static bool constraint_ok(const char *text)
{
    return strstr(text, "==") || strstr(text, "!=");
}

static bool label_key_ok(const char *text)
{
    uint32_t n = fn_label_word(text);

    return n > 0 && n <= FN_LABEL_MAX && text[n] == '\0';
}

static int check_list(const char *key, const struct fn_strlist *list, bool (*ok)(const char *),
                      const char *expected, struct fn_error *reterr)
{
    for (uint64_t i = 0; i < list->n; i++) {
        if (!ok(list->items[i])) {
            return fail_platform(reterr, FN_E_INVALID, "%s, got \"%.80s\"; expected %s", key,
                                 list->items[i], expected);
        }
    }
    return 0;
}

static int check_labels(const struct swarm_conf *conf, struct fn_error *reterr)
{
    char text[LABELS_BYTES];
    const char *fault = labels_of_option(conf->labels, text);

    if (fault) {
        return fail_platform(reterr, FN_E_INVALID, "labels, got \"%.80s\"; expected %s",
                             conf->labels, fault);
    }
    return check_list("node_labels", &conf->node_labels, label_key_ok,
                      "the key of a label, 1 to 63 letters, digits, . _ - /", reterr);
}

int swarm_check(const struct swarm_conf *conf, struct fn_error *reterr)
{
    int r;

    if (conf->owner[strspn(conf->owner, NAME_BYTES)] != '\0') {
        return fail_platform(reterr, FN_E_INVALID,
                             "owner, got \"%.64s\"; expected letters, digits, - and _",
                             conf->owner);
    }
    r = check_list("mounts", &conf->mounts, mount_ok,
                   "source:/target or source:/target:ro, where source is a path of the node or the "
                   "name of a volume",
                   reterr);
    if (r == 0) {
        r = check_list("env", &conf->env, env_ok, "NAME=value", reterr);
    }
    if (r == 0) {
        r = check_list("constraints", &conf->constraints, constraint_ok,
                       "an expression such as node.labels.zone==a or node.role!=manager", reterr);
    }
    return r < 0 ? r : check_labels(conf, reterr);
}

int swarm_address(const char *docker_host, const char **ret_unix_path,
                  char ret_base[SWARM_BASE_MAX], struct fn_error *reterr)
{
    static const char unix_scheme[] = "unix://";
    static const char tcp_scheme[] = "tcp://";
    const char *rest;

    if (strncmp(docker_host, unix_scheme, sizeof(unix_scheme) - 1) == 0) {
        rest = docker_host + sizeof(unix_scheme) - 1;
        if (*rest == '/' && strlen(rest) <= UNIX_PATH_MAX) {
            *ret_unix_path = rest;
            snprintf(ret_base, SWARM_BASE_MAX, "http://localhost");
            return 0;
        }
    } else if (strncmp(docker_host, tcp_scheme, sizeof(tcp_scheme) - 1) == 0) {
        rest = docker_host + sizeof(tcp_scheme) - 1;
        if (*rest && strlen(rest) < SWARM_BASE_MAX - 8 && !strpbrk(rest, "/ ?#@")) {
            *ret_unix_path = NULL;
            snprintf(ret_base, SWARM_BASE_MAX, "http://%s", rest);
            return 0;
        }
    }
    return fail_platform(reterr, FN_E_INVALID,
                         "docker_host, got \"%.80s\"; expected unix:///path (at most %d bytes) or "
                         "tcp://host:port",
                         docker_host, UNIX_PATH_MAX);
}

/* ---- requests -------------------------------------------------------------------------------- */

void swarm_name(const struct swarm_conf *conf, const char *group, uint64_t request_id,
                uint32_t index, char ret[SWARM_NAME_MAX + 1])
{
    char short_group[GROUP_PLAIN + 2];
    size_t len = strlen(group);

    if (len > 0 && len <= GROUP_PLAIN && strspn(group, NAME_BYTES) == len) {
        memcpy(short_group, group, len + 1);
    } else {
        snprintf(short_group, sizeof(short_group), "%016" PRIx64, text_hash(group));
    }
    snprintf(ret, SWARM_NAME_MAX + 1, PREFIX "%.16s-%s-r%" PRIx64 "-%u", conf->owner, short_group,
             request_id, index % 1000);
}

bool swarm_is_name(const char *name)
{
    size_t len = strlen(name);

    return strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0 && len <= SWARM_NAME_MAX &&
           strspn(name, NAME_BYTES) == len;
}

static json_t *strings(const struct fn_strlist *list)
{
    json_t *out = json_array();

    for (uint64_t i = 0; i < list->n; i++) {
        json_array_append_new(out, json_string(list->items[i]));
    }
    return out;
}

/* What the node says of itself, unless the operator's list says it. */
static void add_env(json_t *env, const struct fn_strlist *list, const char *name, const char *value)
{
    size_t len = strlen(name);

    for (uint64_t i = 0; i < list->n; i++) {
        if (strncmp(list->items[i], name, len) == 0 && list->items[i][len] == '=') {
            return;
        }
    }
    json_array_append_new(env, json_sprintf("%s=%s", name, value));
}

static json_t *env_of(const struct swarm_conf *conf)
{
    json_t *env = strings(&conf->env);
    char number[24];

    add_env(env, &conf->env, "FN_NODE_TYPE", "pure-runner");
    snprintf(number, sizeof(number), "%" PRId64, conf->grpc_port);
    add_env(env, &conf->env, "FN_GRPC_PORT", number);
    snprintf(number, sizeof(number), "%" PRId64, conf->capacity_mb * MIB);
    add_env(env, &conf->env, "FN_MAX_TOTAL_MEMORY_BYTES", number);
    return env;
}

static json_t *mounts_of(const struct swarm_conf *conf)
{
    json_t *mounts = json_array();

    for (uint64_t i = 0; i < conf->mounts.n; i++) {
        const char *source = conf->mounts.items[i];
        const char *target = strchr(source, ':');
        const char *mode = strchr(target + 1, ':');
        size_t len = mode ? (size_t)(mode - target - 1) : strlen(target + 1);

        json_array_append_new(
            mounts, json_pack("{s:s, s:s%, s:s%, s:b}", "Type", *source == '/' ? "bind" : "volume",
                              "Source", source, (size_t)(target - source), "Target", target + 1,
                              len, "ReadOnly", mode && strcmp(mode, ":ro") == 0));
    }
    return mounts;
}

static json_t *container_of_runner(const struct swarm_conf *conf)
{
    json_t *c = json_object();

    json_object_set_new(c, "Image", json_string(conf->image));
    json_object_set_new(c, "Env", env_of(conf));
    json_object_set_new(c, "Mounts", mounts_of(conf));
    json_object_set_new(c, "Init", json_true());
    json_object_set_new(c, "StopGracePeriod", json_integer(conf->stop_grace_ns));
    if (conf->capabilities.n > 0) {
        json_object_set_new(c, "CapabilityAdd", strings(&conf->capabilities));
    }
    return c;
}

/* A runner keeps a part of its container's memory back: a tenth, within bounds. Less than that on
 * top of the capacity would be taken from it. */
static int64_t memory_mb(const struct swarm_conf *conf)
{
    int64_t kept = (conf->capacity_mb + 8) / 9;

    if (conf->overhead_mb > 0) {
        return conf->capacity_mb + conf->overhead_mb;
    }
    kept = kept < KEPT_MIN_MB ? KEPT_MIN_MB : kept;
    kept = kept > KEPT_MAX_MB ? KEPT_MAX_MB : kept;
    return conf->capacity_mb + kept;
}

static json_t *task_of(const struct swarm_conf *conf)
{
    json_int_t memory = memory_mb(conf) * MIB;
    json_t *task = json_object();

    json_object_set_new(task, "ContainerSpec", container_of_runner(conf));
    json_object_set_new(task, "Resources",
                        json_pack("{s:{s:I}, s:{s:I}}", "Limits", "MemoryBytes", memory,
                                  "Reservations", "MemoryBytes", memory));
    json_object_set_new(task, "RestartPolicy", json_pack("{s:s}", "Condition", "none"));
    json_object_set_new(task, "Placement",
                        json_pack("{s:o}", "Constraints", strings(&conf->constraints)));
    if (conf->network) {
        json_object_set_new(task, "Networks", json_pack("[{s:s}]", "Target", conf->network));
    }
    return task;
}

/* Without a network, the node's engine picks a free port. On the node's own network there is one
 * runner per node: the port that is named here is what tells the Swarm so. dnsrr and host mode need
 * neither the routing mesh nor IP_VS. */
static json_t *endpoint_of(const struct swarm_conf *conf)
{
    json_t *endpoint = json_pack("{s:s}", "Mode", "dnsrr");
    json_t *port;

    if (!conf->network || strcmp(conf->network, "host") == 0) {
        port = json_pack("{s:s, s:I, s:s}", "Protocol", "tcp", "TargetPort",
                         (json_int_t)conf->grpc_port, "PublishMode", "host");
        if (conf->network) {
            json_object_set_new(port, "PublishedPort", json_integer(conf->grpc_port));
        }
        json_object_set_new(endpoint, "Ports", json_pack("[o]", port));
    }
    return endpoint;
}

int swarm_create_body(const struct swarm_conf *conf, const char *name, const char *group,
                      uint64_t request_id, char **ret, struct fn_error *reterr)
{
    char labels[LABELS_BYTES];
    json_t *body;

    (void)labels_of_option(conf->labels, labels); /* checked at the start */
    body = json_pack("{s:s, s:{s:s, s:s, s:s, s:o, s:o, s:o}, s:o, s:{s:{s:i}}, s:o}", "Name", name,
                     "Labels", LABEL_LABELS, labels, LABEL_OWNER, conf->owner, LABEL_GROUP, group,
                     LABEL_REQUEST, json_sprintf("%" PRIx64, request_id), LABEL_PORT,
                     json_sprintf("%" PRId64, conf->grpc_port), LABEL_CAPACITY,
                     json_sprintf("%" PRId64, conf->capacity_mb), "TaskTemplate", task_of(conf),
                     "Mode", "Replicated", "Replicas", 1, "EndpointSpec", endpoint_of(conf));
    if (!body) {
        return fail_platform(reterr, FN_E_INVALID,
                             "group, got \"%.64s\"; expected UTF-8, and memory for a request",
                             group);
    }
    *ret = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return *ret ? 0 : fail_platform(reterr, FN_E_EXHAUSTED, "create: out of memory");
}

int swarm_list_path(const struct swarm_conf *conf, const char *what, const char *group,
                    char ret[SWARM_PATH_MAX], struct fn_error *reterr)
{
    json_t *filters = json_pack("{s:[o, o]}", "label", json_sprintf(LABEL_OWNER "=%s", conf->owner),
                                json_sprintf(LABEL_GROUP "=%s", group));
    char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;
    int n = snprintf(ret, SWARM_PATH_MAX, "/%s?filters=", what);
    bool ok = text && engine_escape(text, ret + n, SWARM_PATH_MAX - (size_t)n) == 0;

    free(text);
    json_decref(filters);
    return ok ? 0
              : fail_platform(reterr, FN_E_INVALID,
                              "group, got \"%.64s\"; expected UTF-8 of at most 255 bytes", group);
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool desired_running(const json_t *task)
{
    const char *desired = engine_text(task, "DesiredState");

    return strcmp(desired, "running") == 0 || strcmp(desired, "ready") == 0;
}

/* Of two tasks of a service, the one that counts. There is one unless an operator updated it. */
static bool is_newer(const json_t *task, const json_t *than)
{
    if (desired_running(task) != desired_running(than)) {
        return desired_running(task);
    }
    return json_integer_value(json_object_get(json_object_get(task, "Version"), "Index")) >
           json_integer_value(json_object_get(json_object_get(than, "Version"), "Index"));
}

/* Service id -> the task that counts, or NULL when the list is malformed. */
static json_t *tasks_by_service(const json_t *tasks)
{
    json_t *map = json_object();
    json_t *task;
    size_t i;

    json_array_foreach(tasks, i, task)
    {
        const char *service = engine_text(task, "ServiceID");
        const json_t *known = json_object_get(map, service);

        if (!*service || !*engine_text(json_object_get(task, "Status"), "State")) {
            json_decref(map);
            return NULL;
        }
        if (!known || is_newer(task, known)) {
            json_object_set(map, service, task);
        }
    }
    return map;
}

/* Node id -> node, or NULL when the list is malformed. */
static json_t *nodes_by_id(const json_t *nodes)
{
    json_t *map = json_object();
    json_t *node;
    size_t i;

    json_array_foreach(nodes, i, node)
    {
        if (!*engine_text(node, "ID")) {
            json_decref(map);
            return NULL;
        }
        json_object_set(map, engine_text(node, "ID"), node);
    }
    return map;
}

/* The address under which the node joined. A manager that did not say one is known as 0.0.0.0, and
 * by the address that the other managers use. */
static void node_address(const json_t *node, char *ret, size_t cap)
{
    const char *addr = engine_text(json_object_get(node, "Status"), "Addr");
    char *colon;

    snprintf(ret, cap, "%s", addr);
    if (!*addr || strcmp(addr, "0.0.0.0") == 0) {
        snprintf(ret, cap, "%s", engine_text(json_object_get(node, "ManagerStatus"), "Addr"));
        colon = strrchr(ret, ':');
        if (colon) {
            *colon = '\0';
        }
    }
}

/* "10.0.1.7/24" of the first network that gave the task an address. */
static void attachment_address(const json_t *task, char *ret, size_t cap)
{
    json_t *attachment;
    size_t i;

    *ret = '\0';
    json_array_foreach(json_object_get(task, "NetworksAttachments"), i, attachment)
    {
        const char *address =
            json_string_value(json_array_get(json_object_get(attachment, "Addresses"), 0));

        if (address) {
            snprintf(ret, cap, "%.*s", (int)strcspn(address, "/"), address);
            return;
        }
    }
}

/* A published port of the node, else an address of the task's own, else the node's network. */
static bool find_address(const json_t *task, const json_t *node, const char *label_port,
                         char ret[SWARM_ADDRESS_MAX])
{
    const json_t *status = json_object_get(task, "Status");
    const json_t *ports = json_object_get(json_object_get(status, "PortStatus"), "Ports");
    json_int_t port =
        json_integer_value(json_object_get(json_array_get(ports, 0), "PublishedPort"));
    char host[SWARM_ADDRESS_MAX - 16] = "";

    if (port == 0) {
        port = strtol(label_port, NULL, 10);
        attachment_address(task, host, sizeof(host));
    }
    if (!*host) {
        node_address(node, host, sizeof(host));
    }
    if (!*host || port < 1 || port > 65535) {
        return false;
    }
    snprintf(ret, SWARM_ADDRESS_MAX, strchr(host, ':') && *host != '[' ? "[%s]:%d" : "%s:%d", host,
             (int)port);
    return true;
}

static bool has_ended(const char *state)
{
    static const char *const words[] = { "complete", "failed",   "shutdown",
                                         "rejected", "orphaned", "remove" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(state, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Seconds since 1970 of "2026-11-21T21:28:59.29Z"; 0 for anything else. The days are counted in
 * years that begin in March, so that a leap day is the last one. */
static int64_t seconds_of(const char *text)
{
    int64_t year, month, day, hour, minute, second, days;

    if (sscanf(text, "%4" SCNd64 "-%2" SCNd64 "-%2" SCNd64 "T%2" SCNd64 ":%2" SCNd64 ":%2" SCNd64,
               &year, &month, &day, &hour, &minute, &second) != 6 ||
        year < 1970 || month < 1 || month > 12) {
        return 0;
    }
    year -= month <= 2;
    month = (month + 9) % 12;
    days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719468;
    return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

static int64_t lived_s(const json_t *task)
{
    return seconds_of(engine_text(json_object_get(task, "Status"), "Timestamp")) -
           seconds_of(engine_text(task, "CreatedAt"));
}

static void judge(struct swarm_runner *r, const json_t *task, const json_t *node,
                  const char *label_port, char address[SWARM_ADDRESS_MAX])
{
    const json_t *status = json_object_get(task, "Status");
    const char *state = engine_text(status, "State");

    r->state = FN_MACHINE_STARTING;
    r->address = NULL;
    r->ended = r->stillborn = false;
    r->why = engine_text(status, "Err");
    if (!task) {
        return; /* the Swarm has not looked at it yet */
    }
    if (!desired_running(task) || has_ended(state)) {
        r->state = FN_MACHINE_GONE;
        r->ended = has_ended(state);
        r->stillborn =
            r->ended && (strcmp(state, "rejected") == 0 || lived_s(task) < SWARM_STILLBORN_S);
        r->why = *r->why ? r->why : engine_text(status, "Message");
    } else if (strcmp(state, "running") == 0 && find_address(task, node, label_port, address)) {
        r->state = FN_MACHINE_READY;
        r->address = address;
    }
}

/* Adds the label unless it is there, or makes of the set something that is none. */
static void add_label(char labels[LABELS_BYTES], const char *key, const char *value)
{
    size_t len = strlen(labels);
    int n = snprintf(labels + len, LABELS_BYTES - len, "%s%s=%s", len > 0 ? "," : "", key, value);

    if ((size_t)n >= LABELS_BYTES - len || fn_labels_fault(labels)) {
        labels[len] = '\0';
    }
}

/* What the service says, then what the node of its task has. */
static const char *labels_of(const struct swarm_conf *conf, const json_t *service_labels,
                             const json_t *node, char ret[LABELS_BYTES])
{
    const json_t *node_labels = json_object_get(json_object_get(node, "Spec"), "Labels");
    const char *own = engine_text(service_labels, LABEL_LABELS);

    snprintf(ret, LABELS_BYTES, "%s", fn_labels_fault(own) ? "" : own);
    for (uint64_t i = 0; i < conf->node_labels.n; i++) {
        add_label(ret, conf->node_labels.items[i],
                  engine_text(node_labels, conf->node_labels.items[i]));
    }
    return ret[0] ? ret : NULL;
}

static int tell(const struct swarm_conf *conf, const json_t *services, const json_t *tasks,
                const json_t *nodes, int (*cb)(void *ud, const struct swarm_runner *r), void *ud,
                struct fn_error *reterr)
{
    json_t *service;
    size_t i;

    json_array_foreach(services, i, service)
    {
        const json_t *spec = json_object_get(service, "Spec");
        const json_t *labels = json_object_get(spec, "Labels");
        const json_t *task = json_object_get(tasks, engine_text(service, "ID"));
        const json_t *node = json_object_get(nodes, engine_text(task, "NodeID"));
        char address[SWARM_ADDRESS_MAX], text[LABELS_BYTES];
        struct swarm_runner r = { .name = engine_text(spec, "Name") };
        int rc;

        if (!*r.name || !*engine_text(service, "ID")) {
            return engine_malformed("list of services", reterr);
        }
        r.capacity_mb = strtoull(engine_text(labels, LABEL_CAPACITY), NULL, 10);
        r.labels = labels_of(conf, labels, node, text);
        judge(&r, task, node, engine_text(labels, LABEL_PORT), address);
        rc = cb(ud, &r);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int swarm_join(const struct swarm_conf *conf, struct swarm_text services, struct swarm_text tasks,
               struct swarm_text nodes,
               int (*cb)(void *ud, const struct swarm_runner *r), void *ud, struct fn_error *reterr)
{
    json_t *s = json_loadb(services.body, services.len, 0, NULL);
    json_t *t = json_loadb(tasks.body, tasks.len, 0, NULL);
    json_t *n = json_loadb(nodes.body, nodes.len, 0, NULL);
    json_t *task_of_service = json_is_array(t) ? tasks_by_service(t) : NULL;
    json_t *node_of_id = json_is_array(n) ? nodes_by_id(n) : NULL;
    int r;

    if (!json_is_array(s)) {
        r = engine_malformed("list of services", reterr);
    } else if (!task_of_service) {
        r = engine_malformed("list of tasks", reterr);
    } else if (!node_of_id) {
        r = engine_malformed("list of nodes", reterr);
    } else {
        r = tell(conf, s, task_of_service, node_of_id, cb, ud, reterr);
    }
    json_decref(task_of_service);
    json_decref(node_of_id);
    json_decref(s);
    json_decref(t);
    json_decref(n);
    return r;
}

int swarm_is_ours(struct swarm_text service, const struct swarm_conf *conf, const char *group,
                  const char *name, char ret_id[SWARM_ID_MAX + 1], struct fn_error *reterr)
{
    json_t *root = json_loadb(service.body, service.len, 0, NULL);
    const json_t *spec = json_object_get(root, "Spec");
    const json_t *labels = json_object_get(spec, "Labels");
    const char *id = engine_text(root, "ID");
    int r;

    if (!*id || strlen(id) > SWARM_ID_MAX || strspn(id, NAME_BYTES) != strlen(id)) {
        r = engine_malformed("service", reterr);
    } else {
        snprintf(ret_id, SWARM_ID_MAX + 1, "%s", id);
        r = strcmp(engine_text(spec, "Name"), name) == 0 &&
            strcmp(engine_text(labels, LABEL_OWNER), conf->owner) == 0 &&
            strcmp(engine_text(labels, LABEL_GROUP), group) == 0;
    }
    json_decref(root);
    return r;
}

int swarm_failure(const struct swarm_conf *conf, const char *what, uint32_t status,
                  struct swarm_text body, struct fn_error *reterr)
{
    json_t *root = json_loadb(body.body ? body.body : "", body.len, 0, NULL);
    char message[160];

    snprintf(message, sizeof(message), "%s", engine_text(root, "message"));
    json_decref(root);
    if (!*message) {
        snprintf(message, sizeof(message), "status %u without a reason", status);
    }
    if (strstr(message, "not a swarm manager") || strstr(message, "not part of a swarm")) {
        return fail_platform(reterr, FN_E_PRECONDITION,
                             "%s: the engine at %.60s is no manager of a Swarm; run `docker swarm "
                             "init` there, or set docker_host to a manager",
                             what, conf->docker_host);
    }
    if (status == 404) {
        return fail_platform(reterr, FN_E_NOT_FOUND, "%s: %s", what, message);
    }
    if (status == 409) {
        return fail_platform(reterr, FN_E_EXISTS, "%s: %s", what, message);
    }
    if (status >= 400 && status < 500) {
        return fail_platform(reterr, FN_E_INVALID, "%s: the engine refuses it: %s", what, message);
    }
    return fail_platform(reterr, FN_E_UNAVAILABLE, "%s: engine error %u: %s", what, status,
                         message);
}
