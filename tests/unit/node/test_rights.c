/* Rights: what nodes keep, by their type, their plugins and their options. */
#include <node/rights.h>

#include <check.h>
#include <conf/conf.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BIND    HARDEN_CAP(NET_BIND_SERVICE)
#define FILES   HARDEN_CAP(DAC_OVERRIDE)
#define SOCKETS (HARDEN_CAP(SYS_ADMIN) | HARDEN_CAP(DAC_OVERRIDE) | HARDEN_CAP(FOWNER))
#define NOT     (HARDEN_CAP(SYS_MODULE) | HARDEN_CAP(SYS_RAWIO) | HARDEN_CAP(SYS_TIME))

static const struct {
    const char *yaml;
    uint64_t all, some; /* exactly; or these, and none of NOT */
    uint32_t may;
} nodes[] = {
    { "node: lb", FILES, 0, 0 },
    { "node: lb\nhttp: { listen: \":443\" }", FILES | BIND, 0, 0 },
    { "node: lb\nhttp: { listen: \"unix:/run/fnd.sock\" }", FILES, 0, 0 },
    { "node: lb\nprocess: { hardening: strict }", 0, 0, 0 },
    { "node: lb\nprocess: { user: nobody }\nhttp: { listen: \":80\" }", BIND, 0, 0 },
    { "node: api", FILES, 0, 0 },
    { "node: pure-runner\nplugins: { driver: { use: docker } }", SOCKETS, 0, HARDEN_MOUNT },
    { "node: pure-runner\ngrpc: { listen: \":919\" }\nplugins: { driver: { use: docker } }",
      SOCKETS | BIND, 0, HARDEN_MOUNT },
    { "node: pure-runner\nprocess: { user: nobody }\nplugins: { driver: { use: docker } }", 0, 0,
      HARDEN_MOUNT },
    { "node: pure-runner\nprocess: { hardening: strict }\nplugins: { driver: { use: docker } }",
      SOCKETS, 0, HARDEN_MOUNT },
    { "node: pure-runner\nplugins: { driver: { use: process } }", 0,
      SOCKETS | HARDEN_CAP(SETUID) | HARDEN_CAP(KILL), HARDEN_MOUNT | HARDEN_CHILDREN },
    { "node: full\nplugins: { driver: { use: oci } }", 0,
      SOCKETS | HARDEN_CAP(SYS_PTRACE) | HARDEN_CAP(MKNOD), HARDEN_MOUNT | HARDEN_CHILDREN },
    { "node: full\nplugins: { driver: { use: acme } }", 0, SOCKETS | HARDEN_CAP(SYS_PTRACE),
      HARDEN_MOUNT | HARDEN_CHILDREN },
    { "node: full\nprocess: { hardening: strict }\nplugins: { driver: { use: acme } }", SOCKETS, 0,
      HARDEN_MOUNT },
    { "node: full\nplugins: { driver: [ { use: docker }, { use: acme } ] }", 0,
      SOCKETS | HARDEN_CAP(SYS_PTRACE), HARDEN_MOUNT | HARDEN_CHILDREN },
    { "node: npm\nplugins: { control_plane: { use: fixed } }", FILES, 0, 0 },
    { "node: npm\nplugins: { control_plane: { use: process } }", 0, SOCKETS, HARDEN_CHILDREN },
    { "node: npm\nplugins: { control_plane: { use: vbox } }", 0, SOCKETS,
      HARDEN_CHILDREN | HARDEN_SETUID },
    { "node: npm\nplugins: { control_plane: { use: acme } }", 0, SOCKETS,
      HARDEN_CHILDREN | HARDEN_SETUID },
    { "node: npm\nprocess: { hardening: strict }\nplugins: { control_plane: { use: acme } }", 0, 0,
      0 },
    /* what a load balancer says of drivers is for others */
    { "node: lb\nplugins: { driver: { use: oci } }", FILES, 0, 0 },
};

static struct config *config_of(const char *yaml, char path[64], struct conf_problems *p)
{
    static char runners[] = "FN_RUNNER_ADDRESSES=127.0.0.1:9190"; /* for load balancers */
    char *const env[] = { runners, NULL };
    struct config *c = NULL;
    int fd;

    snprintf(path, 64, "/tmp/fnd-rights-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(dprintf(fd, "%s\n", yaml), 0);
    close(fd);
    conf_problems_init(p);
    config_load(path, env, &c, p);
    ck_assert_msg(p->n == 0, "%s", buf_text(&p->text));
    return c;
}

START_TEST(nodes_keep_what_they_need)
{
    struct conf_problems p;
    char path[64];
    struct config *c = config_of(nodes[_i].yaml, path, &p);
    struct harden_plan plan = rights_plan(c);

    ck_assert_msg(plan.may == nodes[_i].may, "%s: may %x", nodes[_i].yaml, plan.may);
    if (nodes[_i].some) {
        ck_assert_uint_eq(plan.capabilities & nodes[_i].some, nodes[_i].some);
        ck_assert_uint_eq(plan.capabilities & NOT, 0);
    } else {
        ck_assert_msg(plan.capabilities == nodes[_i].all, "%s: %llx", nodes[_i].yaml,
                      (unsigned long long)plan.capabilities);
    }
    ck_assert_ptr_null(plan.writable);
    config_destroy(c);
    conf_problems_finish(&p);
    unlink(path);
}
END_TEST

static const struct {
    const char *drivers;
    bool by_path, by_path_apart;
} sockets[] = {
    { "{ use: docker }", false, false },
    { "{ use: oci }", false, false },
    { "{ use: process }", true, false },
    { "{ use: acme }", true, true }, /* who knows how */
    { "[ { use: docker }, { use: acme } ]", false, false }, /* which wraps */
    { "[ { use: acme }, { use: docker } ]", true, true },
};

START_TEST(sockets_are_closed_to_others_where_that_can_be)
{
    struct conf_problems p;
    char path[64], yaml[128];
    struct config *c;

    snprintf(yaml, sizeof(yaml), "node: pure-runner\nplugins: { driver: %s }", sockets[_i].drivers);
    c = config_of(yaml, path, &p);
    ck_assert_int_eq(rights_sockets_by_path(&c->drivers, false), sockets[_i].by_path);
    ck_assert_int_eq(rights_sockets_by_path(&c->drivers, true), sockets[_i].by_path_apart);
    config_destroy(c);
    conf_problems_finish(&p);
    unlink(path);
}
END_TEST

START_TEST(a_status_says_what_and_why_not)
{
    struct harden_report r = { .mode = "basic",
                               .uid = 7,
                               .capabilities = HARDEN_CAP(CHOWN) | BIND,
                               .steps = { [HARDEN_SECCOMP_STEP] = { .applied = true },
                                          [HARDEN_USER_STEP] = { .why = "nobody asked" } } };
    json_t *status = rights_json(&r);
    char *text = json_dumps(status, JSON_COMPACT);

    ck_assert_str_eq(text, "{\"mode\":\"basic\",\"uid\":7,\"capabilities\":[\"chown\","
                           "\"net_bind_service\"],\"applied\":[\"seccomp\"],\"missing\":{"
                           "\"user\":\"nobody asked\",\"capabilities\":\"\",\"no_new_privs\":\"\","
                           "\"private_memory\":\"\",\"landlock\":\"\"}}");
    free(text);
    json_decref(status);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rights");
    TCase *t = tcase_create("rights");
    SRunner *r;
    int failed;

    tcase_add_loop_test(t, nodes_keep_what_they_need, 0,
                        (int)(sizeof(nodes) / sizeof(nodes[0])));
    tcase_add_loop_test(t, sockets_are_closed_to_others_where_that_can_be, 0,
                        (int)(sizeof(sockets) / sizeof(sockets[0])));
    tcase_add_test(t, a_status_says_what_and_why_not);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
