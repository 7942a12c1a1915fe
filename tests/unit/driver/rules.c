/* A task of the node alone, and two sets of rules: one that opens much, one that opens nothing. */
#include "rules.h"

struct fn_error rules_err;
const char rules_socket[] = "/run/fnd-test/engine.sock";

const struct create_rules rules_open = {
    .mounts =
        LIST("/srv/data", "/srv/ro:ro", "/srv/apps/*", "volume:cache", "volume:shared:ro", "tmpfs"),
    .devices = LIST("/dev/kvm"),
    .capabilities = LIST("NET_ADMIN", "CAP_SYS_TIME"),
    .runtimes = LIST("runsc"),
    .networks = LIST("blue"),
    .log_drivers = LIST("fluentd", "syslog"),
    .ulimits = LIST("core", "nofile"),
    .rights = LIST("network", "privileged-user", "writable-root"),
    .extra = LIST("WorkingDir", "HostConfig.OomScoreAdj", "HostConfig.Dns", "HostConfig.DnsSearch",
                  "HostConfig.DnsOptions", "HostConfig.ExtraHosts"),
};
const struct create_rules rules_closed;

struct fn_task rules_task(void)
{
    static const struct fn_kv env[] = { { "A", "1" } };

    return (struct fn_task){ .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK),
                             .id = "01ID",
                             .owner = "node-1",
                             .instance = "ab",
                             .fn_id = "f",
                             .app_id = "a",
                             .image = "fnd/hello",
                             .env = env,
                             .n_env = 1,
                             .iofs_dir = "/run/i/1/a",
                             .iofs_engine_dir = "/run/i/1/a",
                             .iofs_inside = "/tmp/iofs",
                             .hostname = "h",
                             .mem_bytes = 64 << 20,
                             .cpu_milli = 500,
                             .pids_max = 50,
                             .nofile_max = 350,
                             .tmpfs_bytes = 1 << 20 };
}

char *rules_make(const struct fn_task *t, const struct fn_task *own, const struct create_rules *r)
{
    struct api_settings s = {
        .network = "fnd", .own = own, .rules = r, .lock = "l", .engine_socket = rules_socket,
        .no_health = true
    };
    char *text = NULL;
    int got;

    rules_err = (struct fn_error){ .size = sizeof(rules_err) };
    got = api_create_body(t, &s, &text, &rules_err);
    ck_assert_int_eq(got == 0, text != NULL);
    if (got < 0) {
        ck_assert_int_eq(got, rules_err.code);
        ck_assert_str_ne(rules_err.msg, "");
    }
    return text;
}

json_t *rules_host_of(const char *text, json_t **ret_body)
{
    *ret_body = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(*ret_body);
    return json_object_get(*ret_body, "HostConfig");
}
