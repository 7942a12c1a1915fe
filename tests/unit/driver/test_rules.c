/* What driver wrappers may ask of an engine: the predicate over create requests and its options. */
#include "rules.h"

/* ---- each field, without and with its option ------------------------------------------------- */

static const struct fn_mount data_mount[] = {
    { .source = "/srv/data", .target = "/data", .type = FN_MOUNT_BIND, .flags = FN_MOUNT_READ_ONLY }
};
static const struct fn_device kvm[] = { { .source = "/dev/kvm" } };
static const struct fn_ulimit core[] = { { "core", 0, 0 } };
static const struct fn_kv fluent[] = { { "fluentd-address", "10.0.0.9:24224" } };

static void set_mounts(struct fn_task *t)
{
    t->mounts = data_mount;
    t->n_mounts = 1;
}
static void set_devices(struct fn_task *t)
{
    t->devices = kvm;
    t->n_devices = 1;
}
static void set_ulimits(struct fn_task *t)
{
    t->ulimits = core;
    t->n_ulimits = 1;
}
static void set_cap_add(struct fn_task *t)
{
    static const char *const list[] = { "NET_ADMIN", NULL };

    t->cap_add = list;
}
static void set_dns(struct fn_task *t)
{
    static const char *const list[] = { "10.0.0.53", NULL };

    t->dns = list;
}
static void set_search(struct fn_task *t)
{
    static const char *const list[] = { "corp.example", NULL };

    t->dns_search = list;
}
static void set_dns_options(struct fn_task *t)
{
    static const char *const list[] = { "ndots:1", NULL };

    t->dns_options = list;
}
static void set_hosts(struct fn_task *t)
{
    static const char *const list[] = { "db:10.0.0.7", NULL };

    t->extra_hosts = list;
}
static void set_runtime(struct fn_task *t)
{
    t->runtime = "runsc";
}
static void set_network(struct fn_task *t)
{
    t->network = "blue";
}
static void set_log(struct fn_task *t)
{
    t->log_driver = "fluentd";
    t->log_options = fluent;
    t->n_log_options = 1;
}
static void set_extra(struct fn_task *t)
{
    t->extra_json = "{\"HostConfig\":{\"OomScoreAdj\":500}}";
}
static void set_root(struct fn_task *t)
{
    t->flags |= FN_TASK_WRITABLE_ROOT;
}
static void set_privileged(struct fn_task *t)
{
    t->flags |= FN_TASK_PRIVILEGED_USER;
}

START_TEST(each_field_needs_its_option)
{
    static const struct {
        void (*set)(struct fn_task *);
        const char *member, *value; /* in HostConfig, when it is allowed */
        const char *says[2];        /* when it is not */
    } rows[] = {
        { set_mounts,
          "Mounts",
          "[{\"ReadOnly\":true,\"Source\":\"/srv/data\",\"Target\":\"/data\",\"Type\":\"bind\"},"
          "{\"Source\":\"/run/i/1/a\",\"Target\":\"/tmp/iofs\",\"Type\":\"bind\"}]",
          { "fn_task.mounts, got HostConfig.Mounts {", "allow_mounts" } },
        { set_devices,
          "Devices",
          "[{\"CgroupPermissions\":\"rw\",\"PathInContainer\":\"/dev/kvm\",\"PathOnHost\":\"/dev/"
          "kvm\"}]",
          { "fn_task.devices, got HostConfig.Devices {", "allow_devices" } },
        { set_ulimits,
          "Ulimits",
          "[{\"Hard\":350,\"Name\":\"nofile\",\"Soft\":350},{\"Hard\":0,\"Name\":\"core\",\"Soft\":"
          "0}]",
          { "fn_task.ulimits, got HostConfig.Ulimits {\"Name\":\"core\"", "allow_ulimits" } },
        { set_cap_add,
          "CapAdd",
          "[\"NET_ADMIN\"]",
          { "fn_task.cap_add, got HostConfig.CapAdd \"NET_ADMIN\"", "allow_capabilities" } },
        { set_dns,
          "Dns",
          "[\"10.0.0.53\"]",
          { "fn_task.dns, got HostConfig.Dns [\"10.0.0.53\"]",
            "allow_extra to name HostConfig.Dns" } },
        { set_search, "DnsSearch", "[\"corp.example\"]", { "fn_task.dns_search", "allow_extra" } },
        { set_dns_options,
          "DnsOptions",
          "[\"ndots:1\"]",
          { "fn_task.dns_options", "allow_extra" } },
        { set_hosts, "ExtraHosts", "[\"db:10.0.0.7\"]", { "fn_task.extra_hosts", "allow_extra" } },
        { set_runtime, "Runtime", "\"runsc\"", { "fn_task.runtime", "allow_runtimes" } },
        { set_network,
          "NetworkMode",
          "\"blue\"",
          { "fn_task.network, got HostConfig.NetworkMode \"blue\"", "allow_networks" } },
        { set_log,
          "LogConfig",
          "{\"Config\":{\"fluentd-address\":\"10.0.0.9:24224\"},\"Type\":\"fluentd\"}",
          { "fn_task.log_driver", "allow_log_drivers" } },
        { set_extra,
          "OomScoreAdj",
          "500",
          { "fn_task.extra_json, got HostConfig.OomScoreAdj 500",
            "allow_extra to name HostConfig.OomScoreAdj" } },
        { set_root, "ReadonlyRootfs", "false", { "fn_task.flags", "allow_rights: writable-root" } },
        { set_privileged, NULL, NULL, { "fn_task.flags", "allow_rights: privileged-user" } },
    };

    for (size_t i = 0; i < N(rows); i++) {
        struct fn_task own = rules_task(), t = own;
        json_t *body, *host;
        char *text, *value;

        rows[i].set(&t);
        text = rules_make(&t, &own, &rules_closed);
        ck_assert_msg(!text, "row %zu: %s", i, text);
        ck_assert_int_eq(rules_err.code, FN_E_PERMISSION);
        for (int k = 0; k < 2; k++) {
            ck_assert_msg(strstr(rules_err.msg, rows[i].says[k]), "row %zu: %s", i, rules_err.msg);
        }
        ck_assert_ptr_nonnull(strstr(rules_err.msg, "DOC1003 "));
        ck_assert_int_eq(rules_err.http_status, 0); /* callers learn no paths of the machine */
        text = rules_make(&t, &own, &rules_open);
        ck_assert_msg(text, "row %zu: %s", i, rules_err.msg);
        host = rules_host_of(text, &body);
        if (rows[i].member) {
            value = json_dumps(json_object_get(host, rows[i].member),
                               JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
            ck_assert_str_eq(value, rows[i].value);
            free(value);
        }
        json_decref(body);
        free(text);
    }
}
END_TEST

START_TEST(a_task_of_an_older_wrapper_ends_where_it_says)
{
    struct fn_task t = rules_task();
    char *text;

    t.hdr.size = offsetof(struct fn_task, mounts);
    t.n_mounts = UINT32_MAX;
    t.mounts = (const struct fn_mount *)(uintptr_t)8;
    t.extra_json = (const char *)(uintptr_t)8;
    text = rules_make(&t, &t, &rules_closed);
    ck_assert_msg(text, "%s", rules_err.msg);
    free(text);
}
END_TEST

START_TEST(rights_may_be_taken_away)
{
    struct fn_task own = rules_task(), t = own;
    char *text;

    own.flags = FN_TASK_WRITABLE_ROOT | FN_TASK_PRIVILEGED_USER;
    t.network = "none";
    t.cap_drop = (const char *const[]){ "NET_RAW", NULL };
    text = rules_make(&t, &own, &rules_closed);
    ck_assert_msg(text, "%s", rules_err.msg);
    ck_assert_ptr_nonnull(strstr(text, "\"CapDrop\":[\"ALL\",\"NET_RAW\"]"));
    ck_assert_ptr_nonnull(strstr(text, "\"NetworkMode\":\"none\""));
    free(text);
    own = t = rules_task();
    own.flags = FN_TASK_NO_NETWORK;
    ck_assert_ptr_null(rules_make(&t, &own, &rules_closed));
    ck_assert_ptr_nonnull(strstr(rules_err.msg, "allow_rights: network"));
}
END_TEST

START_TEST(what_a_struct_cannot_say_is_refused)
{
    static const struct fn_mount mounts[] = {
        { .source = "/srv/data", .type = FN_MOUNT_BIND },
        { .target = "/x", .type = FN_MOUNT_BIND },
        { .source = "/x", .target = "/x", .type = FN_MOUNT_TMPFS },
        { .source = "/x", .target = "/x", .type = 9 },
        { .source = "/x", .target = "/x", .type = FN_MOUNT_BIND, .flags = 8 },
        { .source = "/x", .target = "/x", .type = FN_MOUNT_BIND, .reserved = { 1 } },
        { .source = "/srv/\xff", .target = "/x", .type = FN_MOUNT_BIND },
    };
    static const char *const extras[] = {
        "", "[]", "7", "{", "{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}"
    };
    struct fn_task t = rules_task();

    t.n_mounts = 1;
    for (size_t i = 0; i < N(mounts); i++) {
        t.mounts = &mounts[i];
        ck_assert_ptr_null(rules_make(&t, &t, &rules_open));
        ck_assert_msg(strstr(rules_err.msg, "mounts"), "%s", rules_err.msg);
        ck_assert_int_eq(rules_err.code, FN_E_INVALID);
    }
    t.n_mounts = 0;
    for (size_t i = 0; i < N(extras); i++) {
        t.extra_json = extras[i];
        ck_assert_ptr_null(rules_make(&t, &t, &rules_open));
        ck_assert_msg(strstr(rules_err.msg, "extra_json"), "%s", rules_err.msg);
    }
    t.extra_json = NULL;
    t.log_options = fluent;
    t.n_log_options = 1;
    ck_assert_ptr_null(rules_make(&t, &t, &rules_open));
}
END_TEST

/* ---- ways around ----------------------------------------------------------------------------- */

START_TEST(extra_json_finds_no_way_around)
{
    static const char *const texts[] = {
        "{\"HostConfig\":{\"Privileged\":true}}",
        "{\"HostConfig\":{\"Privileged\":false}}",
        "{\"HostConfig\":{\"privileged\":true}}",
        "{\"hostconfig\":{\"Privileged\":true}}",
        "{\"HOSTCONFIG\":{}}",
        "{\"HostConfig\":{\"PidMode\":\"host\"}}",
        "{\"HostConfig\":{\"IpcMode\":\"host\"}}",
        "{\"HostConfig\":{\"NetworkMode\":\"host\"}}",
        "{\"HostConfig\":{\"NetworkMode\":\"container:x\"}}",
        "{\"HostConfig\":{\"networkmode\":\"host\"}}",
        "{\"HostConfig\":{\"UsernsMode\":\"host\"}}",
        "{\"HostConfig\":{\"Binds\":[\"/:/h\"]}}",
        "{\"HostConfig\":{\"Binds\":[]}}",
        "{\"HostConfig\":{\"Bind\\u0073\":[\"/:/h\"]}}",
        "{\"HostConfig\":{\"Bind\\u017f\":[\"/:/h\"]}}", /* folds to Binds in Go */
        "{\"HostConfig\":{\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/\",\"Target\":\"/h\"}]}}",
        "{\"HostConfig\":{\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/srv/data\",\"source\":\"/"
        "\",\"Target\":\"/h\"}]}}",
        "{\"HostConfig\":{\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/srv/data\",\"Target\":\"/"
        "h\","
        "\"BindOptions\":{\"Propagation\":\"shared\"}}]}}",
        "{\"HostConfig\":{\"Mounts\":[{\"Type\":\"volume\",\"Source\":\"cache\",\"Target\":\"/h\","
        "\"VolumeOptions\":{\"DriverConfig\":{\"Options\":{\"device\":\"/\"}}}}]}}",
        "{\"HostConfig\":{\"Mounts\":{\"0\":1}}}",
        "{\"HostConfig\":{\"Devices\":[{\"PathOnHost\":\"/dev/sda\",\"PathInContainer\":\"/dev/"
        "kvm\","
        "\"CgroupPermissions\":\"rwm\"}]}}",
        "{\"HostConfig\":{\"DeviceCgroupRules\":[\"a *:* rwm\"]}}",
        "{\"HostConfig\":{\"CapAdd\":[\"SYS_ADMIN\"]}}",
        "{\"HostConfig\":{\"CapAdd\":[\"ALL\"]}}",
        "{\"HostConfig\":{\"CapAdd\":\"ALL\"}}",
        "{\"HostConfig\":{\"CapDrop\":[]}}",
        "{\"HostConfig\":{\"CapDrop\":null}}",
        "{\"HostConfig\":{\"SecurityOpt\":[\"seccomp=unconfined\"]}}",
        "{\"HostConfig\":{\"SecurityOpt\":[\"no-new-privileges\",\"apparmor=unconfined\"]}}",
        "{\"HostConfig\":{\"MaskedPaths\":[]}}",
        "{\"HostConfig\":{\"ReadonlyPaths\":[]}}",
        "{\"HostConfig\":{\"CgroupParent\":\"/\"}}",
        "{\"HostConfig\":{\"VolumesFrom\":[\"x\"]}}",
        "{\"HostConfig\":{\"Runtime\":\"evil\"}}",
        "{\"HostConfig\":{\"ReadonlyRootfs\":null}}",
        "{\"HostConfig\":{\"Memory\":0}}",
        "{\"HostConfig\":{\"Memory\":67108864.0}}",
        "{\"HostConfig\":{\"PidsLimit\":-1}}",
        "{\"HostConfig\":{\"Tmpfs\":{\"/tmp\":\"exec\"}}}",
        "{\"HostConfig\":{\"Tmpfs\":{\"/etc\":\"\"}}}",
        "{\"HostConfig\":{\"Ulimits\":[]}}",
        "{\"HostConfig\":{\"Ulimits\":[{\"Name\":\"nofile\",\"Soft\":1,\"Hard\":1},"
        "{\"Name\":\"nofile\",\"Soft\":9,\"Hard\":9}]}}",
        "{\"HostConfig\":{\"Ulimits\":[{\"Name\":\"nofile\",\"Soft\":1,\"Hard\":1},"
        "{\"Name\":\"nproc\",\"Soft\":-1,\"Hard\":-1}]}}",
        "{\"HostConfig\":{\"LogConfig\":{\"Type\":\"gelf\"}}}",
        "{\"HostConfig\":{\"LogConfig\":{\"Type\":\"fluentd\",\"Config\":{\"fluentd-address\":"
        "\"unix:///run/docker.sock\"}}}}",
        "{\"HostConfig\":{\"LogConfig\":{\"Type\":\"fluentd\",\"type\":\"gelf\"}}}",
        "{\"HostConfig\":null}",
        "{\"Healthcheck\":null}",
        "{\"Healthcheck\":{\"Test\":[\"CMD\",\"/x\"]}}",
        "{\"healthcheck\":{\"Test\":[\"CMD\",\"/x\"]}}",
        "{\"HostConfig\":[]}",
        "{\"Image\":\"evil\"}",
        "{\"image\":\"evil\"}",
        "{\"User\":\"0\"}",
        "{\"Labels\":{\"io.fnd.owner\":\"other\"}}",
        "{\"Labels\":{\"io.fnd.lock\":\"other\"}}",
        "{\"Labels\":{\"io.fnd.new\":\"x\"}}",
        "{\"Labels\":[]}",
        "{\"Env\":null}",
        "{\"NetworkingConfig\":{\"EndpointsConfig\":{\"host\":{}}}}",
        "{\"Volumes\":{\"/x\":{}}}",
        "{\"workingdir\":\"/\"}",
        "{\"HostConfig\":{\"oomscoreadj\":5}}",
    };
    /* What an operator may allow, and no rights. */
    struct create_rules r = rules_open;

    r.rights.n = 0;
    for (size_t i = 0; i < N(texts); i++) {
        struct fn_task t = rules_task();
        char *text;

        t.extra_json = texts[i];
        text = rules_make(&t, &t, &r);
        ck_assert_msg(!text, "%s became %s", texts[i], text);
        ck_assert_msg(rules_err.code == FN_E_PERMISSION &&
                          strstr(rules_err.msg, "DOC1003 fn_task."),
                      "%s: %s", texts[i], rules_err.msg);
    }
}
END_TEST

START_TEST(mounts_stay_within_what_was_named)
{
    static const struct {
        const char *source, *target;
        uint32_t type, flags;
        bool ok;
    } rows[] = {
        { "/srv/data", "/data", FN_MOUNT_BIND, 0, true },
        { "/srv/data/", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv/data/x", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv/data/../x", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv//data", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv/ro", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv/ro", "/data", FN_MOUNT_BIND, FN_MOUNT_READ_ONLY, true },
        { "/srv/apps/a", "/data", FN_MOUNT_BIND, 0, true },
        { "/srv/apps", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv/apps/a/b", "/data", FN_MOUNT_BIND, 0,
          false }, /* a function may have made b a link */
        { "/srv/apps/..", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv/appsx", "/data", FN_MOUNT_BIND, 0, false },
        { "cache", "/data", FN_MOUNT_VOLUME, 0, true },
        { "other", "/data", FN_MOUNT_VOLUME, 0, false },
        { "shared", "/data", FN_MOUNT_VOLUME, 0, false },
        { "cache", "/data", FN_MOUNT_BIND, 0, false },
        { "/srv/data", "/data", FN_MOUNT_VOLUME, 0, false },
        { NULL, "/data", FN_MOUNT_TMPFS, 0, true },
        { "/srv/data", "data", FN_MOUNT_BIND, 0, false },
        { "/srv/data", "/", FN_MOUNT_BIND, 0, false },
        { "/srv/data", "/tmp", FN_MOUNT_BIND, 0, false }, /* hides the function's socket */
        { "/srv/data", "/tmp/iofs", FN_MOUNT_BIND, 0, false },
        { "/srv/data", "/proc/x", FN_MOUNT_BIND, 0, false },
        { "/srv/data", "/processes", FN_MOUNT_BIND, 0, true },
    };

    for (size_t i = 0; i < N(rows); i++) {
        struct fn_mount m = { .source = rows[i].source,
                              .target = rows[i].target,
                              .type = rows[i].type,
                              .flags = rows[i].flags };
        struct fn_task t = rules_task();
        char *text;

        t.mounts = &m;
        t.n_mounts = 1;
        text = rules_make(&t, &t, &rules_open);
        ck_assert_msg(!!text == rows[i].ok, "row %zu: %s", i, rules_err.msg);
        free(text);
    }
}
END_TEST

START_TEST(options_that_open_too_much_are_refused)
{
    static const char *const bad_mounts[] = { "/",
                                              "/run",
                                              "/var/run",
                                              "/run/docker.sock",
                                              "/var",
                                              "/var/lib/docker/volumes",
                                              "/proc",
                                              "/sys/fs",
                                              "/dev",
                                              "/run/*",
                                              "/run/fnd-test",
                                              "/run/fnd-test/engine.sock",
                                              "relative",
                                              "/a/../b",
                                              "/a/",
                                              "volume:",
                                              "volume:/x",
                                              "",
                                              "/*" };
    static const char *const good_mounts[] = { "/srv", "/srv/*:ro", "volume:x", "tmpfs", "/runs" };
    static const char *const bad_extra[] = { "HostConfig.Privileged",
                                             "HostConfig.privileged",
                                             "HostConfig.Binds",
                                             "hostconfig.Privileged",
                                             "HostConfig",
                                             "HostConfig.",
                                             "",
                                             "HostConfig.*",
                                             "Image",
                                             "user",
                                             "NetworkingConfig",
                                             "HostConfig.A.B",
                                             "HostConfig.Bind\u017f" };
    static const char *const good_extra[] = { "WorkingDir", "HostConfig.DeviceRequests",
                                              "HostConfig.Dns" };
    struct {
        const char *const *words;
        size_t n, at;
        bool ok;
    } rows[] = {
        { bad_mounts, N(bad_mounts), offsetof(struct create_rules, mounts), false },
        { good_mounts, N(good_mounts), offsetof(struct create_rules, mounts), true },
        { bad_extra, N(bad_extra), offsetof(struct create_rules, extra), false },
        { good_extra, N(good_extra), offsetof(struct create_rules, extra), true },
        { (const char *const[]){ "ALL", "all", "CAP_ALL", "" }, 4,
          offsetof(struct create_rules, capabilities), false },
        { (const char *const[]){ "/etc", "/dev", "kvm", "/dev/../etc" }, 4,
          offsetof(struct create_rules, devices), false },
        { (const char *const[]){ "host", "container:x", "" }, 3,
          offsetof(struct create_rules, networks), false },
        { (const char *const[]){ "root", "" }, 2, offsetof(struct create_rules, rights), false },
    };

    for (size_t i = 0; i < N(rows); i++) {
        for (size_t k = 0; k < rows[i].n; k++) {
            struct create_rules r = { .extra = { NULL, 0 } };

            *(struct fn_strlist *)((char *)&r + rows[i].at) =
                (struct fn_strlist){ &rows[i].words[k], 1 };
            rules_err = (struct fn_error){ .size = sizeof(rules_err) };
            ck_assert_msg((rules_check(&r, rules_socket, &rules_err) == 0) == rows[i].ok, "%s: %s",
                          rows[i].words[k], rules_err.msg);
            ck_assert_msg(rows[i].ok || strncmp(rules_err.msg, "allow_", 6) == 0, "%s",
                          rules_err.msg);
        }
    }
    ck_assert_int_eq(rules_check(&rules_open, rules_socket, &rules_err), 0);
}
END_TEST

static const struct create_rules absurd_rules = {
    .mounts = LIST("/run", "/run/docker.sock", "/run/fnd-test", "/proc", "/run/i", "/run/i/1",
                   "/run/i/1/b"),
    .capabilities = LIST("ALL"),
    .networks = LIST("host", "container:x"),
};

/* The options are checked at the start; what must never be is refused once more where it counts. */
START_TEST(no_option_opens_what_leads_to_the_host)
{
    static const char *const all[] = { "all", NULL };
    struct fn_mount m = { .target = "/data", .type = FN_MOUNT_BIND };
    struct fn_task t = rules_task();

    t.mounts = &m;
    t.n_mounts = 1;
    for (uint64_t i = 0; i < absurd_rules.mounts.n; i++) {
        m.source = absurd_rules.mounts.items[i];
        ck_assert_msg(!rules_make(&t, &t, &absurd_rules), "%s", m.source);
        ck_assert_ptr_nonnull(strstr(rules_err.msg, "fn_task.mounts"));
    }
    t = rules_task();
    t.cap_add = all;
    ck_assert_ptr_null(rules_make(&t, &t, &absurd_rules));
    t = rules_task();
    for (uint64_t i = 0; i < absurd_rules.networks.n; i++) {
        t.network = absurd_rules.networks.items[i];
        ck_assert_ptr_null(rules_make(&t, &t, &absurd_rules));
    }
}
END_TEST

START_TEST(the_text_itself_is_judged)
{
    struct fn_task t = rules_task();
    struct api_settings s = { .network = "fnd", .lock = "l", .no_health = true };
    char *text = rules_make(&t, &t, &rules_closed);
    char *twice;

    ck_assert_int_eq(rules_judge(text, &t, &s, &rules_err), 0);
    ck_assert_int_gt(asprintf(&twice, "{\"User\":\"0\",%s", text + 1), 0);
    ck_assert_int_eq(rules_judge(twice, &t, &s, &rules_err), FN_E_INTERNAL);
    free(twice);
    text[strlen(text) - 1] = ' ';
    ck_assert_int_eq(rules_judge(text, &t, &s, &rules_err), FN_E_INTERNAL);
    free(text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("driver rules");
    TCase *t = tcase_create("rules");
    SRunner *runner;
    int failed;

    tcase_set_timeout(t, 600);
    tcase_add_test(t, each_field_needs_its_option);
    tcase_add_test(t, a_task_of_an_older_wrapper_ends_where_it_says);
    tcase_add_test(t, rights_may_be_taken_away);
    tcase_add_test(t, what_a_struct_cannot_say_is_refused);
    tcase_add_test(t, extra_json_finds_no_way_around);
    tcase_add_test(t, mounts_stay_within_what_was_named);
    tcase_add_test(t, options_that_open_too_much_are_refused);
    tcase_add_test(t, no_option_opens_what_leads_to_the_host);
    tcase_add_test(t, the_text_itself_is_judged);
    rules_random(t);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
