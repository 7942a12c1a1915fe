/* The create request: what drivers that wrap this one add to a task. Nothing is judged here but its
 * form: create_rules.c has the last word, over the whole. */
#include "create_body.h"
#include "fail.h"

#include <inttypes.h>

/* What is not UTF-8 makes jansson refuse a value; it must not be left out in silence. */
struct adding {
    const struct fn_task *t;
    json_t *host;
    bool lost;
};

static json_t *kept(struct adding *a, json_t *value)
{
    a->lost = a->lost || !value;
    return value;
}

static void put(struct adding *a, json_t *object, const char *key, json_t *value)
{
    a->lost = json_object_set_new(object, key, value) < 0 || a->lost;
}

static void put_text(struct adding *a, json_t *object, const char *key, const char *text)
{
    put(a, object, key, json_string(text));
}

static int not_so(const char *field, const char *expected, struct fn_error *reterr)
{
    return fail_platform(reterr, FN_E_INVALID, "fn_task.%s; expected %s", field, expected);
}

/* ---- is it what the header says -------------------------------------------------------------- */

static bool texts_ok(const char *const *list)
{
    size_t n = 0;

    while (list && list[n] && n <= API_EXTRAS_MAX) {
        n++;
    }
    return n <= API_EXTRAS_MAX;
}

static bool count_ok(uint32_t n, const void *list)
{
    return n == 0 || (n <= API_EXTRAS_MAX && list);
}

static bool mounts_ok(const struct fn_task *t)
{
    bool ok = count_ok(t->n_mounts, t->mounts);

    for (uint32_t i = 0; ok && i < t->n_mounts; i++) {
        const struct fn_mount *m = &t->mounts[i];

        ok = m->target && m->type >= FN_MOUNT_BIND && m->type <= FN_MOUNT_VOLUME &&
             (m->type == FN_MOUNT_TMPFS) == !m->source && m->size_bytes <= INT64_MAX &&
             (m->flags & ~FN_MOUNT_READ_ONLY) == 0 && m->reserved[0] == 0 && m->reserved[1] == 0;
    }
    return ok;
}

static bool devices_ok(const struct fn_task *t)
{
    bool ok = count_ok(t->n_devices, t->devices);

    for (uint32_t i = 0; ok && i < t->n_devices; i++) {
        ok = t->devices[i].source && t->devices[i].reserved[0] == 0 &&
             t->devices[i].reserved[1] == 0;
    }
    return ok;
}

static bool ulimits_ok(const struct fn_task *t)
{
    bool ok = count_ok(t->n_ulimits, t->ulimits);

    for (uint32_t i = 0; ok && i < t->n_ulimits; i++) {
        ok = t->ulimits[i].name && t->ulimits[i].soft <= INT64_MAX &&
             t->ulimits[i].hard <= INT64_MAX;
    }
    return ok;
}

static bool log_options_ok(const struct fn_task *t)
{
    bool ok =
        count_ok(t->n_log_options, t->log_options) && (t->n_log_options == 0 || t->log_driver);

    for (uint32_t i = 0; ok && i < t->n_log_options; i++) {
        ok = t->log_options[i].key && t->log_options[i].value;
    }
    return ok;
}

static int check_form(const struct fn_task *t, struct fn_error *e)
{
    if (!mounts_ok(t)) {
        return not_so("mounts", "a known type and flags, a target, a source unless tmpfs", e);
    }
    if (!devices_ok(t)) {
        return not_so("devices", "a source for each", e);
    }
    if (!ulimits_ok(t)) {
        return not_so("ulimits", "a name for each, and numbers below 2^63", e);
    }
    if (!log_options_ok(t)) {
        return not_so("log_options", "a key and a value for each, and a log_driver", e);
    }
    if (!texts_ok(t->cap_add) || !texts_ok(t->cap_drop) || !texts_ok(t->dns) ||
        !texts_ok(t->dns_search) || !texts_ok(t->dns_options) || !texts_ok(t->extra_hosts)) {
        return not_so("cap_add, cap_drop, dns, dns_search, dns_options or extra_hosts",
                      "at most 64 texts", e);
    }
    return 0;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void add_mounts(struct adding *a)
{
    static const char *const types[] = { "", "bind", "tmpfs", "volume" };
    json_t *list = json_array();

    for (uint32_t i = 0; i < a->t->n_mounts; i++) {
        const struct fn_mount *m = &a->t->mounts[i];
        json_t *o = json_object();

        put_text(a, o, "Type", types[m->type]);
        put_text(a, o, "Target", m->target);
        put(a, o, "ReadOnly", json_boolean(m->flags & FN_MOUNT_READ_ONLY));
        if (m->source) {
            put_text(a, o, "Source", m->source);
        }
        if (m->size_bytes > 0) {
            put(a, o, "TmpfsOptions", json_pack("{s:I}", "SizeBytes", (json_int_t)m->size_bytes));
        }
        json_array_append_new(list, o);
    }
    put(a, a->host, "Mounts", list);
}

static void add_devices(struct adding *a)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < a->t->n_devices; i++) {
        const struct fn_device *d = &a->t->devices[i];
        json_t *o = json_object();

        put_text(a, o, "PathOnHost", d->source);
        put_text(a, o, "PathInContainer", d->target ? d->target : d->source);
        put_text(a, o, "CgroupPermissions", d->access ? d->access : "rw");
        json_array_append_new(list, o);
    }
    put(a, a->host, "Devices", list);
}

static void add_ulimits(struct adding *a)
{
    json_t *list = json_object_get(a->host, "Ulimits");
    json_t *item;
    size_t k;

    for (uint32_t i = 0; i < a->t->n_ulimits; i++) {
        const struct fn_ulimit *u = &a->t->ulimits[i];

        json_array_foreach(list, k, item)
        {
            const char *name = json_string_value(json_object_get(item, "Name"));

            if (name && strcmp(name, u->name) == 0) {
                json_array_remove(list, k); /* the node's */
                break;
            }
        }
        json_array_append_new(list,
                              kept(a, json_pack("{s:s, s:I, s:I}", "Name", u->name, "Soft",
                                                (json_int_t)u->soft, "Hard", (json_int_t)u->hard)));
    }
}

/* At the end of the member's list, if there is one. */
static void add_texts(struct adding *a, const char *member, const char *const *texts)
{
    json_t *list = json_object_get(a->host, member);

    if (!texts || !*texts) {
        return;
    }
    if (!list) {
        list = json_array();
        put(a, a->host, member, list);
    }
    for (; *texts; texts++) {
        json_array_append_new(list, kept(a, json_string(*texts)));
    }
}

static void add_log(struct adding *a)
{
    json_t *config = json_object();
    json_t *log = json_object();

    for (uint32_t i = 0; i < a->t->n_log_options; i++) {
        put_text(a, config, a->t->log_options[i].key, a->t->log_options[i].value);
    }
    put_text(a, log, "Type", a->t->log_driver);
    put(a, log, "Config", config);
    put(a, a->host, "LogConfig", log);
}

static void add_fields(struct adding *a)
{
    const struct fn_task *t = a->t;

    if (t->n_mounts > 0) {
        add_mounts(a);
    }
    if (t->n_devices > 0) {
        add_devices(a);
    }
    add_ulimits(a);
    add_texts(a, "CapAdd", t->cap_add);
    add_texts(a, "CapDrop", t->cap_drop);
    add_texts(a, "Dns", t->dns);
    add_texts(a, "DnsSearch", t->dns_search);
    add_texts(a, "DnsOptions", t->dns_options);
    add_texts(a, "ExtraHosts", t->extra_hosts);
    if (t->runtime) {
        put_text(a, a->host, "Runtime", t->runtime);
    }
    if (t->network) {
        put_text(a, a->host, "NetworkMode", t->network);
    }
    if (t->log_driver) {
        add_log(a);
    }
}

static int merge(json_t *body, const char *text, struct fn_error *reterr)
{
    json_t *extra =
        strlen(text) <= API_EXTRA_JSON_MAX ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int r = 0;

    if (!json_is_object(extra)) {
        r = not_so("extra_json", "a JSON object of at most 64 KiB without duplicate keys", reterr);
    } else if (json_object_update_recursive(body, extra) < 0) {
        r = fail_platform(reterr, FN_E_EXHAUSTED, "create: out of memory");
    }
    json_decref(extra);
    return r;
}

int create_add_extras(json_t *body, const struct fn_task *t, struct fn_error *reterr)
{
    struct adding a = { .t = t, .host = json_object_get(body, "HostConfig") };
    int r;

    if (!FN_HAS(t, extra_json)) {
        return 0;
    }
    r = check_form(t, reterr);
    if (r < 0) {
        return r;
    }
    add_fields(&a);
    if (a.lost) {
        return not_so("mounts to log_options", "UTF-8 everywhere", reterr);
    }
    return t->extra_json ? merge(body, t->extra_json, reterr) : 0;
}
