/* A control plane's plugin over scripted programs and HTTP, on fibres. */
#include "suites.h"

#include <sim/cluster.h>
#include <sim/sim.h>

#include <stdio.h>
#include <string.h>

static struct sim *sim;
static struct plugin_host *host;
static struct plugin *plugin;
static const struct fn_cplane_ops *ops;
static char machines[256];

static void setup(void)
{
    struct fn_error e = ERR_INIT;
    struct plugin_file *file;

    sim = sim_create(&(struct sim_options){ .seed = 1 });
    host = plugin_host_create(sim_env(sim));
    plugin_host_budget(host, 0);
    sim_script_offer(sim, host);
    ck_assert_msg(sim_plugin_open(host, sample("worker"), &file, NULL, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(plugin_create(host, file, plugin_file_factory(file, FN_KIND_CONTROL_PLANE,
                                                                   "worker"),
                                   "cloud", NULL, &plugin, &e), 0);
    ops = plugin_ops(plugin);
    machines[0] = '\0';
}

static void teardown(void)
{
    plugin_destroy(plugin);
    plugin_host_destroy(host);
    sim_destroy(sim);
}

static int add(void *ud, const struct fn_machine *m)
{
    (void)ud;
    strcat(strcat(machines, m->id), ",");
    return 0;
}

enum what { LIST, PROVISION, REMOVE };

struct ask {
    enum what what;
    int result;
    uint32_t accepted;
    struct fn_error error;
};

static void work(void *ud, struct fn_op *op)
{
    static const struct fn_machine_sink sink = {
        FN_HDR(struct fn_machine_sink, FN_MAGIC_MACHINE_SINK), add, NULL
    };
    struct ask *a = ud;
    struct plugin_crumb crumb;
    void *inst = plugin_inst(plugin);

    a->error = ERR_INIT;
    plugin_enter(&crumb, plugin, PLUGIN_WORKER, "work");
    a->result = a->what == LIST ? ops->list(inst, op, "g", &sink, &a->error)
                : a->what == PROVISION
                    ? ops->provision(inst, op, "g", 5, 1, &a->accepted, &a->error)
                    : ops->remove(inst, op, "g", "m1", &a->error);
    plugin_leave(&crumb);
}

static struct ask run(enum what what, int64_t deadline_ms, int64_t cancel_ms)
{
    struct ask a = { .what = what };
    struct sim_op op = { .fn = work, .ud = &a };
    int64_t now = sim_now_ns(sim);

    op.deadline_ns = deadline_ms ? now + deadline_ms * ENV_MS : 0;
    op.cancel_at_ns = cancel_ms ? now + cancel_ms * ENV_MS : 0;
    ck_assert_int_eq(sim_run_op(sim, &op), 0);
    return a;
}

START_TEST(an_empty_script_refuses)
{
    struct ask a = run(LIST, 0, 0);

    ck_assert_int_eq(a.result, FN_E_UNAVAILABLE);
    ck_assert_str_eq(a.error.msg, "program is not in the script, got cloud list g");
    ck_assert_int_eq(run(REMOVE, 0, 0).result, FN_E_UNAVAILABLE);
    ck_assert_str_eq(sim_script_last(sim), "DELETE http://cloud/g/m1");
    ck_assert_uint_eq(sim_script_asked(sim), 2);
    ck_assert_uint_eq(sim_script_refused(sim), 2);
}
END_TEST

START_TEST(steps_answer_in_order)
{
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_EXEC, .expect = "cloud list",
                                                 .out = "m1\nm2\n", .delay_ns = 2 * ENV_S });
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_EXEC, .expect = "cloud list",
                                                 .out = "m3\n", .times = 2 });
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_EXEC, .expect = "cloud",
                                                 .status = 2, .times = UINT32_MAX });
    ck_assert_int_eq(run(LIST, 0, 0).result, 0);
    ck_assert_str_eq(machines, "m1,m2,");
    ck_assert_int_eq(sim_now_ns(sim), 1002 * ENV_S);
    ck_assert_uint_eq(sim_script_left(sim), 1);
    ck_assert_int_eq(run(LIST, 0, 0).result, 0);
    ck_assert_int_eq(run(LIST, 0, 0).result, 0);
    ck_assert_int_eq(run(LIST, 0, 0).result, FN_E_INTERNAL);
    ck_assert_str_eq(machines, "m1,m2,m3,m3,");
    ck_assert_uint_eq(sim_script_left(sim), 0);
    ck_assert_uint_eq(sim_script_refused(sim), 0);
}
END_TEST

START_TEST(failures_delays_and_deadlines)
{
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_EXEC, .expect = "",
                                                 .fail = FN_E_INTERNAL, .text = "no such file" });
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_EXEC, .expect = "",
                                                 .delay_ns = 100 * ENV_S, .times = 3 });
    ck_assert_str_eq(run(LIST, 0, 0).error.msg, "no such file");
    ck_assert_int_eq(run(LIST, 0, 0).result, FN_E_DEADLINE); /* its own 5 s */
    ck_assert_int_eq(sim_now_ns(sim), 1005 * ENV_S);
    ck_assert_int_eq(run(LIST, 1000, 0).result, FN_E_DEADLINE);
    ck_assert_int_eq(sim_now_ns(sim), 1006 * ENV_S);
    ck_assert_int_eq(run(LIST, 0, 500).result, FN_E_CANCELLED);
    ck_assert_int_eq(sim_now_ns(sim), 1006 * ENV_S + 500 * ENV_MS);
}
END_TEST

START_TEST(http_answers_and_garbage)
{
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_HTTP, .expect = "DELETE http://cloud/",
                                                 .status = 404, .out = "gone" });
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_HTTP, .expect = "DELETE",
                                                 .status = 500, .garbage = 3000, .times = 2 });
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_HTTP, .expect = "DELETE",
                                                 .status = 200, .garbage = 2000000 });
    ck_assert_int_eq(run(REMOVE, 0, 0).result, 0);
    ck_assert_int_eq(run(REMOVE, 0, 0).result, FN_E_INTERNAL);
    sim_script_clear(sim);
    sim_script_add(sim, &(struct sim_step_spec){ .kind = SIM_HTTP, .expect = "DELETE",
                                                 .status = 200, .garbage = 2000000 });
    ck_assert_int_eq(run(REMOVE, 0, 0).result, FN_E_EXHAUSTED);
}
END_TEST

START_TEST(sleeping_ends_with_the_deadline)
{
    struct ask a = run(PROVISION, 2500, 0);

    ck_assert_int_eq(a.result, FN_E_DEADLINE);
    ck_assert_uint_eq(a.accepted, 2);
    a = run(PROVISION, 0, 0);
    ck_assert_int_eq(a.result, 0);
    ck_assert_uint_eq(a.accepted, 5);
}
END_TEST

static struct env_timer looker;
static const struct plugin_crumb *looked;

static void on_look(struct env_timer *t)
{
    (void)t;
    looked = plugin_current();
}

/* The breadcrumb belongs to the fibre: while it sleeps, no plugin is running. */
START_TEST(a_sleeping_plugin_is_not_the_running_one)
{
    static const struct plugin_crumb nobody;

    looked = &nobody;
    looker.cb = on_look;
    sim_at(sim, &looker, sim_now_ns(sim) + 500 * ENV_MS);
    ck_assert_int_eq(run(PROVISION, 1500, 0).result, FN_E_DEADLINE);
    ck_assert_ptr_null(looked);
    ck_assert_ptr_null(plugin_current());
}
END_TEST

TCase *script_tests(void)
{
    TCase *t = tcase_create("script");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_empty_script_refuses);
    tcase_add_test(t, steps_answer_in_order);
    tcase_add_test(t, failures_delays_and_deadlines);
    tcase_add_test(t, http_answers_and_garbage);
    tcase_add_test(t, sleeping_ends_with_the_deadline);
    tcase_add_test(t, a_sleeping_plugin_is_not_the_running_one);
    return t;
}
