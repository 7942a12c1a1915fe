/* No task, whatever wrappers make of it, becomes a request outside of the rules. The check knows
 * nothing of the rules' code: it reads a request as the engine does, which takes `privileged` for
 * `Privileged`. */
#include "../lib/sanitized.h"
#include "draw.h"
#include "rules.h"

#include <ctype.h>

#define RANDOM_TASKS RANDOM_ROUNDS(100000) /* FND_RULES_N: more */

static const struct create_rules some_rules = {
    .mounts = LIST("/srv/apps/*"),
    .rights = LIST("network"),
    .extra = LIST("HostConfig.Dns"),
};

/* ---- any task -------------------------------------------------------------------------------- */

static uint64_t seed;

static uint64_t next(uint64_t below)
{
    return draw(&seed) % below;
}

#define PICK(list) ((list)[next(N(list))])

static const char *const paths[] = {
    "/srv/data", "/srv/ro",  "/srv/apps/a",      "/srv/apps/a/b", "/",
    "/run",      "/etc",     "/run/docker.sock", "/srv/data/..",  "/proc",
    "/dev/kvm",  "/dev/sda", "/run/i/1",         "cache",         ""
};
static const char *const targets[] = {
    "/data", "/x/y", "/tmp/iofs", "/", "/proc", "rel", "/a/../b"
};
static const char *const words[] = { "NET_ADMIN", "SYS_ADMIN",  "ALL",  "runsc",  "runc",
                                     "blue",      "host",       "none", "fnd",    "fluentd",
                                     "syslog",    "gelf",       "core", "nofile", "nproc",
                                     "\xff",      "container:x" };

static void any_list(const char **list)
{
    list[0] = PICK(words);
    list[1] = next(2) ? PICK(words) : NULL;
    list[2] = NULL;
}

/* ---- random JSON, mostly of the shape that an engine reads */

static const char *const keys[] = {
    "Privileged",  "privileged", "PidMode",        "IpcMode",
    "Binds",       "binds",      "Mounts",         "mounts",
    "Devices",     "CapAdd",     "capadd",         "CapDrop",
    "SecurityOpt", "Runtime",    "NetworkMode",    "LogConfig",
    "Ulimits",     "Memory",     "ReadonlyRootfs", "Tmpfs",
    "OomScoreAdj", "Dns",        "DnsSearch",      "CgroupParent",
    "Init",        "Bind\u017f", "UsernsMode",     "DeviceCgroupRules",
};
static const char *const tops[] = { "HostConfig", "HostConfig", "HostConfig", "hostConfig",
                                    "Image",      "User",       "Labels",     "Env",
                                    "WorkingDir", "workingDir", "Cmd",        "NetworkingConfig",
                                    "Volumes",    "Entrypoint", "Healthcheck", "healthcheck" };

static json_t *any_mount(void)
{
    json_t *m = json_object();

    json_object_set_new(m, next(8) ? "Type" : "type", json_string(next(2) ? "bind" : "volume"));
    json_object_set_new(m, next(8) ? "Source" : "source", json_string(PICK(paths)));
    json_object_set_new(m, "Target", json_string(PICK(targets)));
    if (next(2)) {
        json_object_set_new(m, "ReadOnly", json_boolean(next(2)));
    }
    if (next(8) == 0) {
        json_object_set_new(m, "BindOptions", json_object());
    }
    return m;
}

static json_t *any_value(void)
{
    const char *word = PICK(words);

    switch (next(9)) {
    case 0:
        return json_true();
    case 1:
        return json_false();
    case 2:
        return json_null();
    case 3:
        return json_integer((json_int_t)next(1u << 30) - 5);
    case 4:
        return json_pack("[o]", any_mount());
    case 5:
        return json_pack("[s]", *word == '\xff' ? "x" : word);
    case 6:
        return json_pack("[s]", "/:/h");
    case 7:
        return json_string(PICK(paths));
    default:
        return *word == '\xff' ? json_object() : json_string(word);
    }
}

static char *any_extra(void)
{
    json_t *root = json_object();
    char *text;
    size_t cut;

    for (uint64_t i = next(3); i < 3; i++) {
        const char *top = PICK(tops);
        json_t *value = strcasecmp(top, "HostConfig") == 0 && next(8) ? json_object() : any_value();

        for (uint64_t k = next(3); k < 3 && json_is_object(value); k++) {
            json_object_set_new(value, PICK(keys), any_value());
        }
        json_object_set_new(root, top, value);
    }
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    cut = strlen(text);
    if (next(16) == 0) {
        text[next(cut)] = "\"{}[],:x"[next(8)];
    }
    return text;
}

/* ---- the engine's view */

/* As Go's encoding/json compares names. */
static void fold(const char *name, char *ret, size_t cap)
{
    size_t n = 0;

    for (; *name && n + 1 < cap; name++) {
        if (strncmp(name, "\u017f", 2) == 0) {
            ret[n++] = 's';
            name++;
        } else if (strncmp(name, "\u212a", 3) == 0) {
            ret[n++] = 'k';
            name += 2;
        } else {
            ret[n++] = (char)tolower((unsigned char)*name);
        }
    }
    ret[n] = '\0';
}

static bool same(const char *a, const char *b)
{
    char x[80], y[80];

    if ((a[0] ^ b[0]) & ~0x20 && !((a[0] | b[0]) & 0x80)) {
        return false; /* most of them */
    }
    fold(a, x, sizeof(x));
    fold(b, y, sizeof(y));
    return strcmp(x, y) == 0;
}

/* The value that the engine takes for a name; two spellings of one are a failure by themselves. */
static const json_t *seen(json_t *object, const char *name)
{
    const json_t *found = NULL;
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        if (same(key, name)) {
            ck_assert_msg(!found, "%s twice", name);
            found = value;
        }
    }
    return json_is_null(found) ? NULL : found;
}

static const char *seen_text(json_t *object, const char *name)
{
    const char *s = json_string_value(seen(object, name));

    return s ? s : "";
}

static bool listed(const struct fn_strlist *list, const char *word)
{
    for (uint64_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_socket(json_t *m)
{
    return json_object_size(m) == 3 && strcmp(seen_text(m, "Type"), "bind") == 0 &&
           strcmp(seen_text(m, "Source"), "/run/i/1/a") == 0 &&
           strcmp(seen_text(m, "Target"), "/tmp/iofs") == 0;
}

static void check_mounts(json_t *host, const struct create_rules *r)
{
    const json_t *mounts = seen(host, "Mounts");
    json_t *m;
    size_t i;

    ck_assert(!mounts || json_is_array(mounts));
    json_array_foreach(mounts, i, m)
    {
        if (i == json_array_size(mounts) - 1) {
            ck_assert(is_socket(m));
            return;
        }
        const char *type = seen_text(m, "Type"), *source = seen_text(m, "Source");
        bool ro = json_is_true(seen(m, "ReadOnly"));
        bool app = strcmp(source, "/srv/apps/a") == 0;

        ck_assert_ptr_null(seen(m, "BindOptions"));
        ck_assert_ptr_null(seen(m, "VolumeOptions"));
        if (strcmp(type, "bind") == 0) {
            ck_assert_msg(
                (app && listed(&r->mounts, "/srv/apps/*")) ||
                    (strcmp(source, "/srv/data") == 0 && listed(&r->mounts, source)) ||
                    (strcmp(source, "/srv/ro") == 0 && ro && listed(&r->mounts, "/srv/ro:ro")),
                "bind of %s", source);
        } else if (strcmp(type, "volume") == 0) {
            ck_assert(strcmp(source, "cache") == 0 && listed(&r->mounts, "volume:cache"));
        } else {
            ck_assert_str_eq(type, "tmpfs");
            ck_assert(listed(&r->mounts, "tmpfs"));
        }
        ck_assert_msg(strcmp(seen_text(m, "Target"), "/data") == 0 ||
                          strcmp(seen_text(m, "Target"), "/x/y") == 0,
                      "target %s", seen_text(m, "Target"));
    }
}

/* Each element of that list is one of the words. */
static void check_words(json_t *host, const char *name, const struct fn_strlist *allowed,
                        const char *member)
{
    const json_t *list = seen(host, name);
    json_t *item;
    size_t i;

    ck_assert_msg(!list || json_is_array(list), "%s", name);
    json_array_foreach(list, i, item)
    {
        const char *word = member ? seen_text(item, member) : json_string_value(item);

        ck_assert_msg(word && listed(allowed, word), "%s %s", name, word);
    }
}

static void check_rights(json_t *body, json_t *host, const struct fn_task *own,
                         const struct create_rules *r)
{
    bool privileged = own->flags & FN_TASK_PRIVILEGED_USER || listed(&r->rights, "privileged-user");
    bool writable = own->flags & FN_TASK_WRITABLE_ROOT || listed(&r->rights, "writable-root");
    bool network = !(own->flags & FN_TASK_NO_NETWORK) || listed(&r->rights, "network");
    const char *mode = seen_text(host, "NetworkMode");
    const json_t *options = seen(host, "SecurityOpt");

    ck_assert(strcmp(seen_text(body, "User"), "1000:1000") == 0 ||
              (privileged && !seen(body, "User")));
    ck_assert(strcmp(json_string_value(json_array_get(seen(host, "CapDrop"), 0))
                         ? json_string_value(json_array_get(seen(host, "CapDrop"), 0))
                         : "",
                     "ALL") == 0 ||
              privileged);
    ck_assert(options ? json_array_size(options) == 1 &&
                            strcmp(json_string_value(json_array_get(options, 0)),
                                   "no-new-privileges") == 0
                      : privileged);
    ck_assert(json_is_true(seen(host, "ReadonlyRootfs")) || writable);
    ck_assert_msg(strcmp(mode, "none") == 0 ||
                      (network && (strcmp(mode, "fnd") == 0 ||
                                   (strcmp(mode, "blue") == 0 && listed(&r->networks, "blue")))),
                  "network %s", mode);
}

/* Members that change nothing of what others may, and those that are looked at above. */
static void check_members(json_t *body, json_t *host, const struct create_rules *r)
{
    static const char *const known[] = { "Image",
                                         "Hostname",
                                         "User",
                                         "AttachStdout",
                                         "AttachStderr",
                                         "Env",
                                         "Labels",
                                         "Healthcheck",
                                         "HostConfig",
                                         "HostConfig.Mounts",
                                         "HostConfig.Devices",
                                         "HostConfig.CapAdd",
                                         "HostConfig.CapDrop",
                                         "HostConfig.SecurityOpt",
                                         "HostConfig.ReadonlyRootfs",
                                         "HostConfig.NetworkMode",
                                         "HostConfig.Runtime",
                                         "HostConfig.LogConfig",
                                         "HostConfig.Ulimits",
                                         "HostConfig.Init",
                                         "HostConfig.Tmpfs",
                                         "HostConfig.Memory",
                                         "HostConfig.MemorySwap",
                                         "HostConfig.CpuPeriod",
                                         "HostConfig.CpuQuota",
                                         "HostConfig.PidsLimit",
                                         "HostConfig.CpuShares" };
    const struct fn_strlist list = { known, N(known) };
    char path[120];
    const char *key;
    json_t *value;

    for (json_t *o = body; o; o = o == body ? host : NULL) {
        json_object_foreach(o, key, value)
        {
            snprintf(path, sizeof(path), "%s%s", o == host ? "HostConfig." : "", key);
            ck_assert_msg(listed(&list, path) || listed(&r->extra, path), "%s", path);
        }
    }
}

static void check_no_health(json_t *health)
{
    json_t *none = json_pack("{s:[s]}", "Test", "NONE");

    ck_assert(json_equal(health, none));
    json_decref(none);
}

void rules_check_body(const char *text, const struct fn_task *t, const struct fn_task *own,
                      const struct create_rules *r)
{
    json_t *body, *host = rules_host_of(text, &body);
    json_t *log = (json_t *)(uintptr_t)seen(host, "LogConfig");
    const char *type = seen_text(log, "Type");

    ck_assert(seen(body, "HostConfig") == host);
    check_members(body, host, r);
    check_rights(body, host, own, r);
    check_mounts(host, r);
    check_words(host, "CapAdd", &r->capabilities, NULL);
    check_words(host, "Devices", &r->devices, "PathOnHost");
    ck_assert(!*seen_text(host, "Runtime") || listed(&r->runtimes, seen_text(host, "Runtime")));
    ck_assert(strcmp(type, "none") == 0 || listed(&r->log_drivers, type) ||
              (own->syslog_url && strcmp(type, "syslog") == 0));
    ck_assert_str_eq(seen_text(body, "Image"), t->image);
    check_no_health((json_t *)(uintptr_t)seen(body, "Healthcheck"));
    ck_assert_str_eq(seen_text((json_t *)(uintptr_t)seen(body, "Labels"), API_OWNER_LABEL),
                     own->owner);
    ck_assert(json_integer_value(seen(host, "Memory")) == (json_int_t)own->mem_bytes);
    ck_assert(json_integer_value(seen(host, "PidsLimit")) == (json_int_t)own->pids_max);
    json_decref(body);
}

static void fill(struct fn_task *t, struct fn_mount *mounts, struct fn_device *device,
                 struct fn_ulimit *limit, const char **lists, uint64_t about)
{
    for (int i = 0; i < 2; i++) {
        mounts[i] = (struct fn_mount){ .source = PICK(paths),
                                       .target = PICK(targets),
                                       .type = 1 + (uint32_t)next(3),
                                       .flags = (uint32_t)next(2) };
        mounts[i].source = mounts[i].type == FN_MOUNT_TMPFS ? NULL : mounts[i].source;
    }
    *device = (struct fn_device){ .source = PICK(paths), .access = next(4) ? NULL : PICK(words) };
    *limit = (struct fn_ulimit){ PICK(words), next(400), next(400) };
    for (int i = 0; i < 6; i++) {
        any_list(lists + (ptrdiff_t)i * 3);
    }
    t->mounts = mounts;
    t->devices = device;
    t->ulimits = limit;
    t->n_mounts = about & 1 ? 1 + (uint32_t)next(2) : 0;
    t->n_devices = about & 2 ? 1 : 0;
    t->n_ulimits = about & 4 ? 1 : 0;
    t->cap_add = about & 8 ? lists : NULL;
    t->cap_drop = about & 16 ? lists + 3 : NULL;
    t->dns = about & 32 ? lists + 6 : NULL;
    t->dns_search = about & 64 ? lists + 9 : NULL;
    t->extra_hosts = about & 128 ? lists + 12 : NULL;
    t->runtime = about & 256 ? PICK(words) : NULL;
    t->network = about & 512 ? PICK(words) : NULL;
    t->log_driver = about & 1024 ? PICK(words) : NULL;
}

START_TEST(no_task_leaves_the_rules)
{
    static const struct create_rules *const all[] = { &rules_closed, &some_rules, &rules_open };
    const char *more = getenv("FND_RULES_N");
    long n = more ? atol(more) : RANDOM_TASKS;
    long sent = 0, with_extra = 0, refused = 0;

    seed = 0x9e3779b97f4a7c15u;
    for (long i = 0; i < n; i++) {
        const struct create_rules *r = PICK(all);
        struct fn_task own = rules_task(), t;
        struct fn_mount mounts[2];
        struct fn_device device;
        struct fn_ulimit limit;
        const char *lists[18];
        char *extra = next(2) ? any_extra() : NULL;
        char *text;

        own.flags = (uint32_t)next(8);
        t = own;
        t.flags ^= next(3) ? 0 : (uint32_t)next(16);
        fill(&t, mounts, &device, &limit, lists, 1ull << next(13));
        t.extra_json = extra;
        text = rules_make(&t, &own, r);
        if (text) {
            rules_check_body(text, &t, &own, r);
        }
        sent += text != NULL;
        refused += text == NULL;
        with_extra += text && extra;
        free(text);
        free(extra);
    }
    ck_assert_msg(sent > n / 20 && refused > n / 20 && with_extra > n / 500,
                  "%ld sent, %ld of them with extra JSON, %ld refused", sent, with_extra, refused);
}
END_TEST

void rules_random(TCase *t)
{
    tcase_add_test(t, no_task_leaves_the_rules);
}
