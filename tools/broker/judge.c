/* What bodies may say. A create request is held against rules that need no task: the members that
 * driver-docker writes without any of its allow_ options, each with what it may be. A member that
 * has no rule is refused, also one in another spelling: the engine takes `privileged` for
 * `Privileged`. */
#include "broker.h"
#include "create_body.h"
#include "network_body.h"
#include "rule_words.h"

#include <ctype.h>
#include <stdlib.h>

struct rule {
    const char *name;
    bool (*allows)(const struct broker_config *c, const json_t *value); /* NULL = not there */
    const char *expected;
};

/* ---- words ----------------------------------------------------------------------------------- */

static bool may_text(const struct broker_config *c, const json_t *v)
{
    (void)c;
    return !v || json_is_string(v);
}

static bool may_bool(const struct broker_config *c, const json_t *v)
{
    (void)c;
    return !v || json_is_boolean(v);
}

static bool may_count(const struct broker_config *c, const json_t *v)
{
    (void)c;
    return !v || (json_is_integer(v) && json_integer_value(v) > 0);
}

static bool are_texts(const struct broker_config *c, const json_t *v)
{
    json_t *item;
    size_t i;

    (void)c;
    json_array_foreach(v, i, item)
    {
        if (!json_is_string(item)) {
            return false;
        }
    }
    return json_is_array(v);
}

static bool is_no_health(const struct broker_config *c, const json_t *v)
{
    const json_t *test = json_object_get(v, "Test");

    (void)c;
    return !v || (json_object_size(v) == 1 && json_array_size(test) == 1 &&
                  strcmp(text_of(json_array_get(test, 0)), CREATE_NO_HEALTH) == 0);
}

static bool is_object(const struct broker_config *c, const json_t *v)
{
    (void)c;
    return json_is_object(v);
}

/* ---- the container --------------------------------------------------------------------------- */

static bool is_image_of(const struct broker_config *c, const json_t *v)
{
    return json_is_string(v) && table_image_ok(c, text_of(v));
}

static bool is_user(const struct broker_config *c, const json_t *v)
{
    (void)c;
    return is_text(v, CREATE_USER);
}

static bool are_labels(const struct broker_config *c, const json_t *v)
{
    static const char *const own[] = { API_OWNER_LABEL, API_INSTANCE_LABEL, API_LOCK_LABEL,
                                       API_FN_LABEL, API_APP_LABEL };
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        bool known = strncmp(key, API_OWN_LABELS, strlen(API_OWN_LABELS)) != 0;

        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
            known = known || strcmp(key, own[i]) == 0;
        }
        if (!known || !json_is_string(value)) {
            return false;
        }
    }
    return is_text(json_object_get(v, API_OWNER_LABEL), c->owner);
}

/* ---- what it has of the host ----------------------------------------------------------------- */

/* One directory, below that of the sockets. Its path holds no link: the broker has seen that the
 * file system there follows none (main.c). */
static bool is_socket_mount(const struct broker_config *c, const json_t *v)
{
    static const char *const names[] = { "Type", "Source", "Target", NULL };
    const json_t *mount = json_array_get(v, 0);
    const char *source = text_of(json_object_get(mount, "Source"));

    return json_array_size(v) == 1 && has_only(mount, names) &&
           is_text(json_object_get(mount, "Type"), "bind") && is_plain_path(source) &&
           is_within(source, c->iofs) && strcmp(source, c->iofs) != 0 &&
           is_plain_path(text_of(json_object_get(mount, "Target")));
}

static bool drops_all(const struct broker_config *c, const json_t *v)
{
    return are_texts(c, v) && is_text(json_array_get(v, 0), CREATE_CAP_DROP);
}

static bool is_security(const struct broker_config *c, const json_t *v)
{
    (void)c;
    return is_only_text(v, CREATE_SECURITY);
}

/* Not there: the engine's own network, as with `default`. The driver leaves it out for an engine
 * that cannot have ours; then --network says so. */
static bool is_network(const struct broker_config *c, const json_t *v)
{
    const char *name = v ? text_of(v) : "default";
    bool ok = strcmp(name, "none") == 0 || strcmp(name, NETWORK_NAME) == 0;

    for (size_t i = 0; i < c->networks.n; i++) {
        ok = ok || strcmp(name, c->networks.items[i]) == 0;
    }
    return ok;
}

/* "tcp://host:514". Without a host it would be the engine's machine. */
static bool is_url_with_host(const char *url, const char *scheme)
{
    const char *host = url + strlen(scheme);

    return strncmp(url, scheme, strlen(scheme)) == 0 &&
           (isalnum((unsigned char)*host) || (host[0] == '[' && isxdigit((unsigned char)host[1])) ||
            strncmp(host, "[::", 3) == 0) &&
           host[strcspn(host, "@/?#")] != '@';
}

/* No socket of the engine's machine: it may be the engine's. */
static bool is_log(const struct broker_config *c, const json_t *v)
{
    static const char *const names[] = { "Type", "Config", NULL };
    static const char *const options[] = { "syslog-address", "syslog-facility", "syslog-format",
                                           "tag", NULL };
    const json_t *config = json_object_get(v, "Config");
    const char *to = text_of(json_object_get(config, "syslog-address"));
    const char *key;
    json_t *value;

    (void)c;
    if (!has_only(v, names)) {
        return false;
    }
    if (is_text(json_object_get(v, "Type"), "none")) {
        return !config;
    }
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        if (!json_is_string(value)) {
            return false;
        }
    }
    return is_text(json_object_get(v, "Type"), "syslog") && has_only(config, options) &&
           (is_url_with_host(to, "tcp://") || is_url_with_host(to, "udp://") ||
            is_url_with_host(to, "tcp+tls://"));
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The prefix, a number, and what may follow; *text is moved behind them. */
static bool skip_number(const char **text, const char *prefix)
{
    size_t n = strlen(prefix), digits;

    if (strncmp(*text, prefix, n) != 0) {
        return false;
    }
    digits = strspn(*text + n, "0123456789");
    *text += n + digits;
    return digits > 0;
}

static bool is_tmpfs(const struct broker_config *c, const json_t *v)
{
    const json_t *options = json_object_get(v, "/tmp");
    const char *text = text_of(options);

    (void)c;
    if (!v) {
        return true;
    }
    if (json_object_size(v) != 1 || !json_is_string(options)) {
        return false;
    }
    if (*text && (!skip_number(&text, "size=") || *text++ != 'k')) {
        return false;
    }
    return !*text || (skip_number(&text, ",nr_inodes=") && !*text);
}

static bool is_storage(const struct broker_config *c, const json_t *v)
{
    const char *text = text_of(json_object_get(v, "size"));

    (void)c;
    return !v || (json_object_size(v) == 1 && skip_number(&text, "") && strcmp(text, "M") == 0);
}

static bool is_ulimit(const json_t *v)
{
    static const char *const members[] = { "Name", "Soft", "Hard", NULL };
    static const char *const names[] = { "nofile", "memlock", "sigpending", "msgqueue", NULL };
    const json_t *soft = json_object_get(v, "Soft"), *hard = json_object_get(v, "Hard");
    const char *const *name = names;

    while (*name && strcmp(*name, text_of(json_object_get(v, "Name"))) != 0) {
        name++;
    }
    return *name && has_only(v, members) && json_is_integer(soft) && json_is_integer(hard) &&
           json_integer_value(soft) >= 0 && json_integer_value(soft) <= json_integer_value(hard);
}

static bool are_ulimits(const struct broker_config *c, const json_t *v)
{
    json_t *item;
    size_t i;

    (void)c;
    json_array_foreach(v, i, item)
    {
        if (!is_ulimit(item)) {
            return false;
        }
    }
    return !v || json_is_array(v);
}

static bool is_swappiness(const struct broker_config *c, const json_t *v)
{
    (void)c;
    return !v || (json_is_integer(v) && json_integer_value(v) == 0);
}

/* ---- the tables ------------------------------------------------------------------------------ */

static const struct rule host_rules[] = {
    { "Mounts", is_socket_mount, "one directory below --iofs, without options" },
    { "CapDrop", drops_all, "ALL first" },
    { "SecurityOpt", is_security, CREATE_SECURITY " alone" },
    { "NetworkMode", is_network,
      "none, " NETWORK_NAME " or one of --network; not there, it is default" },
    { "LogConfig", is_log, "none, or syslog to a host by tcp, udp or tcp+tls" },
    { "ReadonlyRootfs", may_bool, "true or false" },
    { "Init", may_bool, "true or false" },
    { "Tmpfs", is_tmpfs, "/tmp with size and nr_inodes" },
    { "Memory", may_count, "a number above 0" },
    { "MemorySwap", may_count, "a number above 0" },
    { "MemorySwappiness", is_swappiness, "0" },
    { "CpuPeriod", may_count, "a number above 0" },
    { "CpuQuota", may_count, "a number above 0" },
    { "CpuShares", may_count, "a number above 0" },
    { "PidsLimit", may_count, "a number above 0" },
    { "StorageOpt", is_storage, "a size" },
    { "Ulimits", are_ulimits, "nofile, memlock, sigpending and msgqueue" },
};

static const struct rule body_rules[] = {
    { "Image", is_image_of, "an image that --images allows" },
    { "Hostname", may_text, "a text" },
    { "User", is_user, CREATE_USER },
    { "AttachStdout", may_bool, "true or false" },
    { "AttachStderr", may_bool, "true or false" },
    { "Env", are_texts, "texts" },
    { "Healthcheck", is_no_health, CREATE_NO_HEALTH },
    { "Labels", are_labels, "texts, with " API_OWNER_LABEL " as --owner says" },
    { "HostConfig", is_object, "an object" },
};

/* ---- the judgement --------------------------------------------------------------------------- */

static bool holds(const struct broker_config *c, const char *where, const json_t *object,
                  const struct rule *rules, size_t n, struct refusal *why)
{
    const char *key;
    json_t *value;

    for (size_t i = 0; i < n; i++) {
        if (!rules[i].allows(c, json_object_get(object, rules[i].name))) {
            refuse(why, 403, "create: %s%s; expected %s", where, rules[i].name, rules[i].expected);
            return false;
        }
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;

        while (i < n && strcmp(rules[i].name, key) != 0) {
            i++;
        }
        if (i == n) {
            refuse(why, 403, "create: %s%.60s is no member that driver-docker writes by itself",
                   where, key);
            return false;
        }
    }
    return true;
}

static bool may_create(const struct broker_config *c, const json_t *body, struct refusal *why)
{
    return holds(c, "", body, body_rules, sizeof(body_rules) / sizeof(body_rules[0]), why) &&
           holds(c, "HostConfig.", json_object_get(body, "HostConfig"), host_rules,
                 sizeof(host_rules) / sizeof(host_rules[0]), why);
}

static bool may_make_network(const json_t *body, struct refusal *why)
{
    json_t *parted = network_body(true), *joined = network_body(false);
    bool ok = parted && joined && (json_equal(body, parted) || json_equal(body, joined));

    json_decref(parted);
    json_decref(joined);
    if (!ok) {
        refuse(why, 403, "networks: expected network " NETWORK_NAME " as driver-docker makes it");
    }
    return ok;
}

/* The text that is sent is written anew: engine and broker cannot read it differently. */
int judge_body(const struct broker_config *c, enum body what, const char *data, size_t len,
               char **ret, struct refusal *why)
{
    json_t *body = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    int r = FN_E_PERMISSION;

    if (!json_is_object(body)) {
        refuse(why, 403, "the body is no JSON object without duplicate keys");
    } else if (what == BODY_CREATE ? may_create(c, body, why) : may_make_network(body, why)) {
        *ret = json_dumps(body, JSON_COMPACT);
        r = *ret ? 0 : FN_E_EXHAUSTED;
    }
    if (r == FN_E_EXHAUSTED) {
        refuse(why, 503, "out of memory");
    }
    json_decref(body);
    return r;
}
