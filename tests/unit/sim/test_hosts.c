/* One contract, two hosts: what base/env.h, fn.op and fn.exec promise, asked of core/loop in real time
 * and of the simulated host in virtual time. The simulator is trusted as far as this goes. */
#include <base/env.h>
#include <loop/exec.h>
#include <loop/loop.h>
#include <sim/cluster.h>
#include <sim/sim.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIMULATED, REAL, HOSTS_N };

static struct sim *sim;
static struct loop *loop;
static struct env *env;
static char seen[64];
static char dir[64];

static void note(char c)
{
    size_t n = strlen(seen);

    seen[n] = c;
    seen[n + 1] = '\0';
}

/* Between hold() and run() no other thread is inside of the loop: what was submitted cannot end. */
static void hold(void)
{
    if (loop) {
        loop_enter(loop);
    }
}

static void release(void)
{
    if (loop) {
        loop_leave(loop);
    }
}

static void open_host(int which)
{
    seen[0] = '\0';
    if (which == SIMULATED) {
        sim = sim_create(&(struct sim_options){ .seed = 1 });
        env = sim_env(sim);
    } else {
        ck_assert_int_eq(loop_create(NULL, &loop, NULL), 0);
        env = loop_env(loop);
    }
}

static void close_host(void)
{
    sim_destroy(sim);
    if (loop) {
        loop_destroy(loop);
    }
    sim = NULL;
    loop = NULL;
}

static bool over;

static void stop(void)
{
    over = true;
    if (loop) {
        loop_stop(loop);
    }
}

static void run(void)
{
    over = false;
    if (loop) {
        release();
        loop_run(loop);
    }
    while (sim && !over && sim_step(sim)) {
    }
    ck_assert(over);
}

/* ---- timers and tasks ------------------------------------------------------------------------ */

struct letter {
    struct env_timer timer;
    char c;
    int64_t late_ns;
};

static void on_letter(struct env_timer *t)
{
    struct letter *l = container_of(t, struct letter, timer);

    note(l->c);
    l->late_ns = env_now_ns(env) - t->at_ns;
    ck_assert(!env_timer_is_set(t));
    if (l->c == 'z') {
        stop();
    }
}

static void set(struct letter *l, char c, int64_t ms)
{
    *l = (struct letter){ .timer.cb = on_letter, .c = c };
    env_timer_set(env, &l->timer, env_now_ns(env) + ms * ENV_MS);
}

START_TEST(timers)
{
    struct letter a, b, c, d, past, z;

    open_host(_i);
    hold();
    set(&a, 'a', 4);
    set(&b, 'b', 2);
    set(&c, 'c', 2);
    set(&d, 'd', 3);
    set(&past, 'p', -50);
    set(&z, 'z', 8);
    env_timer_clear(env, &d.timer);
    env_timer_clear(env, &d.timer);
    env_timer_set(env, &a.timer, b.timer.at_ns); /* equal: after those set before */
    c.timer.at_ns = b.timer.at_ns;
    env_timer_set(env, &c.timer, b.timer.at_ns);
    run();
    ck_assert_str_eq(seen, "pbacz");
    ck_assert_int_ge(z.late_ns, 0);
    ck_assert_int_ge(a.late_ns, 0);
    close_host();
}
END_TEST

struct chore {
    struct env_task task;
    char c;
    int again;
    struct letter *then; /* at its last time */
};

static void on_chore(struct env_task *t)
{
    struct chore *k = container_of(t, struct chore, task);

    note(k->c);
    if (k->again-- > 0) {
        env_defer(env, t);
    } else if (k->then) {
        set(k->then, 'z', 0);
    }
}

static struct chore first, second, gone;

static void on_busy(struct env_timer *t)
{
    (void)t;
    env_defer(env, &first.task);
    env_defer(env, &second.task);
    env_defer(env, &first.task);
    env_defer(env, &gone.task);
    env_undefer(env, &gone.task);
    note('.');
}

START_TEST(tasks)
{
    struct env_timer busy = { .cb = on_busy };
    struct letter z;

    open_host(_i);
    hold();
    first = (struct chore){ .task.cb = on_chore, .c = '1', .again = 1, .then = &z };
    second = (struct chore){ .task.cb = on_chore, .c = '2' };
    gone = (struct chore){ .task.cb = on_chore, .c = 'g' };
    env_timer_set(env, &busy, env_now_ns(env));
    run();
    ck_assert_str_eq(seen, ".121z");
    close_host();
}
END_TEST

/* ---- operations ------------------------------------------------------------------------------ */

struct job {
    struct env_work work;
    const struct fn_op_if *op;
    int64_t sleep_ms;
    bool visits;
    int result;
    int64_t took_ns;
    int done;
};

static void job_run(struct env_work *w, struct fn_op *op)
{
    struct job *j = container_of(w, struct job, work);
    int64_t now = env_now_ns(env);

    if (j->visits) {
        env->enter(env);
        env_defer(env, &first.task);
        env->leave(env);
        j->result = strcmp(seen, "1");
    } else {
        j->result = j->op->sleep_until(op, now + j->sleep_ms * ENV_MS);
    }
    j->took_ns = env_now_ns(env) - now;
}

static void job_done(struct env_work *w)
{
    struct job *j = container_of(w, struct job, work);

    j->done++;
    stop();
}

static struct job job_make(int64_t sleep_ms)
{
    return (struct job){ .work = { .run = job_run, .done = job_done, .lane = ENV_LANE_SLOW },
                         .op = loop ? loop_op_if() : sim_op_table(),
                         .sleep_ms = sleep_ms };
}

START_TEST(a_sleep_lasts)
{
    struct job j;

    open_host(_i);
    hold();
    j = job_make(20);
    ck_assert_int_eq(env_submit(env, &j.work), 0);
    ck_assert_int_eq(j.done, 0);
    run();
    ck_assert_int_eq(j.result, 0);
    ck_assert_int_eq(j.done, 1);
    ck_assert_int_ge(j.took_ns, 20 * ENV_MS);
    close_host();
}
END_TEST

START_TEST(a_deadline_ends_a_sleep)
{
    struct job j;

    open_host(_i);
    hold();
    j = job_make(60000);
    j.work.deadline_ns = env_now_ns(env) + 30 * ENV_MS;
    ck_assert_int_eq(env_submit(env, &j.work), 0);
    run();
    ck_assert_int_eq(j.result, FN_E_DEADLINE);
    ck_assert_int_lt(j.took_ns, 20 * ENV_S);
    close_host();
}
END_TEST

static struct env_work *to_cancel;

static void on_cancel(struct env_timer *t)
{
    (void)t;
    env_cancel(env, to_cancel);
}

START_TEST(cancelling_ends_a_sleep)
{
    struct env_timer at = { .cb = on_cancel };
    struct job j;

    open_host(_i);
    hold();
    j = job_make(60000);
    to_cancel = &j.work;
    env_timer_set(env, &at, env_now_ns(env) + 20 * ENV_MS);
    ck_assert_int_eq(env_submit(env, &j.work), 0);
    run();
    ck_assert_int_eq(j.result, FN_E_CANCELLED);
    ck_assert_int_lt(j.took_ns, 20 * ENV_S);
    close_host();
}
END_TEST

START_TEST(tasks_of_a_visit_run_before_it_ends)
{
    struct job j;

    open_host(_i);
    hold();
    first = (struct chore){ .task.cb = on_chore, .c = '1' };
    j = job_make(0);
    j.visits = true;
    ck_assert_int_eq(env_submit(env, &j.work), 0);
    run();
    ck_assert_int_eq(j.result, 0);
    close_host();
}
END_TEST

/* ---- programs, through a plugin --------------------------------------------------------------- */

struct order {
    struct env_work work;
    struct plugin *plugin;
    const char *group;
    int result;
    char machines[64];
};

static int add(void *ud, const struct fn_machine *m)
{
    strcat(strcat(ud, m->id), ",");
    return 0;
}

static void order_run(struct env_work *w, struct fn_op *op)
{
    struct order *o = container_of(w, struct order, work);
    const struct fn_machine_sink sink = { FN_HDR(struct fn_machine_sink, FN_MAGIC_MACHINE_SINK),
                                          add, o->machines };
    const struct fn_cplane_ops *ops = plugin_ops(o->plugin);
    struct fn_error e = ERR_INIT;
    struct plugin_crumb crumb;

    plugin_enter(&crumb, o->plugin, PLUGIN_WORKER, "list");
    o->result = ops->list(plugin_inst(o->plugin), op, o->group, &sink, &e);
    plugin_leave(&crumb);
    ck_assert(o->result >= 0 || o->result == FN_E_INTERNAL || e.msg[0]);
}

static void order_done(struct env_work *w)
{
    (void)w;
    stop();
}

static void write_program(void)
{
    static const char text[] = "#!/bin/sh\ncase $2 in\nok) echo m1; echo m2;;\n"
                               "fails) echo m3; exit 3;;\n*) exec sleep 60;;\nesac\n";
    char path[128];
    FILE *f;

    snprintf(dir, sizeof(dir), "/tmp/fnd-hosts-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/cloud", dir);
    f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    chmod(path, 0755);
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", dir);
    setenv("PATH", path, 1);
}

static void remove_program(void)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/cloud", dir);
    unlink(path);
    rmdir(dir);
}

static void offer(struct plugin_host *h)
{
    static const struct sim_step_spec steps[] = {
        { .kind = SIM_EXEC, .expect = "cloud list ok", .out = "m1\nm2\n" },
        { .kind = SIM_EXEC, .expect = "cloud list fails", .out = "m3\n", .status = 3 },
        { .kind = SIM_EXEC, .expect = "cloud list hangs", .delay_ns = 60 * ENV_S, .times = 2 },
    };

    static const struct fn_http_if no_http = { .hdr = FN_HDR(struct fn_http_if, FN_MAGIC_HTTP) };

    if (sim) {
        sim_script_offer(sim, h);
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            sim_script_add(sim, &steps[i]);
        }
        return;
    }
    plugin_host_offer(h, "fn.op", 1, 0, loop_op_if(), loop);
    plugin_host_offer(h, "fn.exec", 1, 0, exec_if(), NULL);
    plugin_host_offer(h, "fn.http", 1, 0, &no_http, NULL);
}

static struct order list(struct plugin *p, const char *group, int64_t deadline_ms,
                         int64_t cancel_ms)
{
    struct env_timer at = { .cb = on_cancel };
    static struct order o;

    o = (struct order){ .work = { .run = order_run, .done = order_done, .lane = ENV_LANE_CONTROL },
                        .plugin = p,
                        .group = group };
    hold();
    to_cancel = &o.work;
    o.work.deadline_ns = deadline_ms ? env_now_ns(env) + deadline_ms * ENV_MS : 0;
    if (cancel_ms) {
        env_timer_set(env, &at, env_now_ns(env) + cancel_ms * ENV_MS);
    }
    ck_assert_int_eq(env_submit(env, &o.work), 0);
    run();
    hold();
    env_timer_clear(env, &at);
    release();
    return o;
}

START_TEST(programs)
{
    struct fn_error e = ERR_INIT;
    struct plugin_file *file;
    struct plugin_host *h;
    struct plugin *p;
    char path[512];
    struct order o;

    write_program();
    open_host(_i);
    h = plugin_host_create(env);
    plugin_host_budget(h, 0);
    offer(h);
    snprintf(path, sizeof(path), "%s/worker.so", getenv("FND_SAMPLES"));
    ck_assert_msg(plugin_file_open(h, path, &file, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(plugin_create(h, file,
                                   plugin_file_factory(file, FN_KIND_CONTROL_PLANE, "worker"), "w",
                                   NULL, &p, &e), 0);
    o = list(p, "ok", 0, 0);
    ck_assert_int_eq(o.result, 0);
    ck_assert_str_eq(o.machines, "m1,m2,");
    o = list(p, "fails", 0, 0);
    ck_assert_int_eq(o.result, FN_E_INTERNAL);
    ck_assert_str_eq(o.machines, "m3,");
    ck_assert_int_eq(list(p, "hangs", 100, 0).result, FN_E_DEADLINE);
    ck_assert_int_eq(list(p, "hangs", 0, 100).result, FN_E_CANCELLED);
    plugin_destroy(p);
    plugin_host_destroy(h);
    close_host();
    remove_program();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hosts");
    TCase *t = tcase_create("contract");
    SRunner *r = srunner_create(s);
    int failed;

    umask(022);
    tcase_add_loop_test(t, timers, 0, HOSTS_N);
    tcase_add_loop_test(t, tasks, 0, HOSTS_N);
    tcase_add_loop_test(t, a_sleep_lasts, 0, HOSTS_N);
    tcase_add_loop_test(t, a_deadline_ends_a_sleep, 0, HOSTS_N);
    tcase_add_loop_test(t, cancelling_ends_a_sleep, 0, HOSTS_N);
    tcase_add_loop_test(t, tasks_of_a_visit_run_before_it_ends, 0, HOSTS_N);
    tcase_add_loop_test(t, programs, 0, HOSTS_N);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
