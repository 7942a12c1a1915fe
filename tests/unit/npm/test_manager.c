/* The manager around the step: what belongs to which call of the control plane. */
#include <npm/manager.h>

#include <base/log.h>
#include <check.h>
#include <conf/table.h>
#include <fake_env.h>
#include <fake_plugin.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINES_N   3
#define MACHINES_MAX 301

static struct fake_env *f;
static struct env_work *ran;  /* and not done */
static struct env_work *ran2; /* of the second group */
static uint32_t runs;
static int machines_n;
static const char *labels;

/* A worker that is as fast as can be: the call has run before the loop goes on. */
static int submit(struct env *env, struct env_work *w)
{
    (void)env;
    w->run(w, NULL);
    if (ran) {
        ran2 = w;
    } else {
        ran = w;
    }
    runs++;
    return 0;
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    char id[32], address[32];
    struct fn_machine m = { sizeof(m), FN_MACHINE_READY, id, address, 1024, labels };

    (void)inst;
    (void)op;
    (void)group;
    (void)reterr;
    for (int i = 0; i < machines_n; i++) {
        snprintf(id, sizeof(id), "machine-%d", i);
        snprintf(address, sizeof(address), "10.0.0.1:%d", i);
        out->add(out->ud, &m);
    }
    return 0;
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    (void)n;
    (void)request_id;
    *ret_accepted = 0;
    return err_set(reterr, FN_E_EXHAUSTED, "no machine is left");
}

static int removed; /* orders */

static int take_away(void *inst, struct fn_op *op, const char *group, const char *id,
                     struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    (void)id;
    (void)reterr;
    removed++;
    return 0;
}

static bool no_memory;
static uint32_t asks;
static uint64_t tickets[MACHINES_MAX]; /* the last one of each machine */

/* Nobody answers. */
static int ask(void *ud, const char *address, uint64_t ticket)
{
    (void)ud;
    asks++;
    tickets[atoi(strchr(address, ':') + 1)] = ticket;
    return no_memory ? FN_E_EXHAUSTED : 0;
}

static void no_news(void *ud, const char *group)
{
    (void)ud;
    (void)group;
}

static uint32_t kept; /* times that wishes were to be kept */

static void keep(void *ud)
{
    (void)ud;
    kept++;
}

static void on_stopped(void *ud)
{
    *(int *)ud = 1;
}

static int claimed; /* by another manager */

static int claim(void *inst, struct fn_op *op, const char *group, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    return claimed < 0 ? err_set(reterr, claimed, "the locks are away") : claimed;
}

static const struct fn_cplane_ops ops = { .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
                                          .list = list,
                                          .provision = provision,
                                          .remove = take_away,
                                          .claim = claim };
static struct plugin cplane;
static struct npm_manager *m;

#define LBS_MAX 2

static uint32_t groups_n, runners_max;

static void create(void)
{
    static const char *const groups[] = { "default", "blue" };
    struct npm_deps d = { .cplane = &cplane,
                          .ask = ask,
                          .published = no_news,
                          .wishes_changed = keep,
                          .options = NPM_OPTIONS_INIT,
                          .settings = { .groups = { groups, groups_n },
                                        .runners_max = MACHINES_MAX,
                                        .cplane_timeout_ns = ENV_S } };
    struct fn_error e = ERR_INIT;

    d.env = &f->env;
    d.options.boot_max_ns = 3600 * ENV_S;
    d.options.runners_max = runners_max;
    d.options.lbs_max = LBS_MAX;
    ck_assert_int_eq(npm_manager_create(&d, &m, &e), 0);
}

static void setup(void)
{
    f = fake_env_create();
    f->env.submit = submit;
    groups_n = 1;
    runners_max = MACHINES_MAX;
    asks = runs = 0;
    claimed = removed = 0;
    memset(tickets, 0, sizeof(tickets));
    machines_n = MACHINES_N;
    no_memory = false;
    ran = ran2 = NULL;
    fake_plugin_init(&cplane, "control-plane", &ops, NULL);
    create();
}

static void end(void)
{
    int stopped = 0;

    npm_manager_stop(m, on_stopped, &stopped);
    if (ran) {
        ran->done(ran);
    }
    if (ran2) {
        ran2->done(ran2);
    }
    ran = ran2 = NULL;
    fake_env_settle(f);
    ck_assert_int_eq(stopped, 1);
    npm_manager_destroy(m);
}

static void teardown(void)
{
    end();
    fake_env_destroy(f);
}

START_TEST(each_answer_has_memory_of_its_own)
{
    uint32_t inside = 0;

    mallopt(M_PERTURB, 0x5a); /* what was freed cannot be read */
    for (int i = 0; i < 100; i++) {
        struct env_work *w = ran;
        uint32_t before = runs;

        ran = NULL;
        f->now += ENV_S; /* the answer comes when the next call is due already */
        if (w) {
            w->done(w);
            inside += runs > before;
        }
        fake_env_advance(f, ENV_MS);
    }
    ck_assert_uint_gt(inside, 10);
    ck_assert_uint_eq(npm_host_count(npm_manager_group(m, "default")), MACHINES_N);
    for (uint32_t i = 0; i < MACHINES_N; i++) {
        char id[16];

        snprintf(id, sizeof(id), "machine-%u", i);
        ck_assert_ptr_nonnull(npm_host_find(npm_manager_group(m, "default"), id));
    }
}
END_TEST

static uint32_t active_n(void)
{
    struct npm_figures x;

    npm_figures(npm_manager_group(m, "default"), &x);
    return x.state_n[NPM_ACTIVE];
}

static void pass(int seconds)
{
    for (int i = 0; i < seconds; i++) {
        struct env_work *w = ran, *w2 = ran2;

        ran = ran2 = NULL;
        if (w) {
            w->done(w);
        }
        if (w2) {
            w2->done(w2);
        }
        fake_env_advance(f, ENV_S);
    }
}

/* More questions than may be under way cannot be asked: none of them takes a place for ever, and
 * each is asked within seconds once it can be; once it was a minute, in which a drain stood still. */
START_TEST(what_cannot_be_asked_is_asked_again)
{
    no_memory = true;
    pass(630);
    ck_assert_uint_ge(asks, 20);
    ck_assert_uint_eq(active_n(), 0);
    no_memory = false;
    asks = 0;
    for (int i = 0; i < 5 && asks < MACHINES_N; i++) {
        pass(1);
    }
    ck_assert_uint_eq(asks, MACHINES_N);
    for (int i = 0; i < MACHINES_N; i++) {
        npm_manager_reported(m, tickets[i], &(struct npm_event){ .kind = NPM_REPORTED });
    }
    ck_assert_uint_eq(active_n(), MACHINES_N);
}
END_TEST

static void answer(int machine, bool answered)
{
    uint64_t ticket = tickets[machine];

    tickets[machine] = 0;
    npm_manager_reported(m, ticket,
                         &(struct npm_event){ .kind = answered ? NPM_REPORTED : NPM_SILENT });
}

/* Runners that went without a word hold their places for as long as nobody says that they did; a
 * new one is asked nonetheless, and so are those that answer. */
START_TEST(silent_runners_delay_nobody)
{
    int new = MACHINES_MAX - 1, well = 0, waiting = 0;

    machines_n = new;
    for (int i = 0; i < 5; i++) {
        pass(1);
        for (int j = 0; j < new; j++) {
            if (tickets[j] && j != well) {
                answer(j, false);
            }
        }
    }
    answer(well, true);
    pass(60); /* all of them are asked again, and nobody comes back */
    for (int j = 1; j < new; j++) {
        waiting += tickets[j] != 0;
    }
    ck_assert_int_gt(waiting, 30);
    ck_assert_int_lt(waiting, 64);
    machines_n = MACHINES_MAX;
    pass(10);
    ck_assert_uint_ne(tickets[new], 0);
    answer(new, true);
    ck_assert_uint_ne(tickets[well], 0);
    ck_assert_int_eq(npm_host_find(npm_manager_group(m, "default"), "machine-300")->state,
                     NPM_ACTIVE);
}
END_TEST

static int lines; /* each test is a process of its own */

static int64_t no_time(void)
{
    return 0;
}

static void count_line(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    (void)level;
    (void)wall_ns;
    (void)len;
    lines += strstr(line, "demand above the group's maximum is clamped") != NULL;
}

START_TEST(what_comes_each_second_is_said_each_ten)
{
    struct fn_error e = ERR_INIT;

    log_setup(&(struct log_config){
        .level = FN_LOG_WARN, .fd = -1, .wall_ns = no_time, .sink = count_line });
    for (uint64_t seq = 1; seq <= 60; seq += 2) { /* clamped, and not, in turn */
        struct npm_demand d = {
            .lb_id = "lb", .group = "default", .seq = seq, .mb = UINT64_MAX / 4 };

        ck_assert_int_eq(npm_manager_demand(m, &d, &e), 1);
        d.seq++;
        d.mb = 1;
        ck_assert_int_eq(npm_manager_demand(m, &d, &e), 0);
        pass(1);
    }
    ck_assert_int_ge(lines, 3);
    ck_assert_int_le(lines, 4);
}
END_TEST

static int give(const char *runner, enum npm_event_kind order, const char *expected)
{
    struct fn_error e = ERR_INIT;
    int r = npm_manager_order(m, runner, order, &e);

    ck_assert_msg(!expected || strstr(e.msg, expected) != NULL, "%s", e.msg);
    return r;
}

/* Both groups list machines of the same ids, and have room for two. */
START_TEST(what_cannot_be_done_is_refused)
{
    end();
    groups_n = runners_max = 2;
    create();
    kept = 0;
    pass(3);
    ck_assert_int_eq(give("machine-0", NPM_DRAIN, "which groups default and blue have"),
                     FN_E_PRECONDITION);
    ck_assert_int_eq(give("machine-9", NPM_DRAIN, "expected the id of a runner"),
                     FN_E_NOT_FOUND);
    ck_assert_int_eq(give("blue/machine-2", NPM_DRAIN, "is foreign"), FN_E_PRECONDITION);
    ck_assert_int_eq(give("blue/machine-0", NPM_UNDRAIN, "is not drained, it is booting"),
                     FN_E_PRECONDITION);
    ck_assert_uint_eq(kept, 0);
    ck_assert_int_eq(give("blue/machine-0", NPM_DRAIN, NULL), 0);
    ck_assert_int_eq(npm_host_find(npm_manager_group(m, "blue"), "machine-0")->state, NPM_DRAINING);
    ck_assert_int_eq(npm_host_find(npm_manager_group(m, "default"), "machine-0")->state,
                     NPM_BOOTING);
    ck_assert_uint_eq(kept, 1);
    ck_assert_int_eq(give("default/machine-1", NPM_END, NULL), 0);
    ck_assert_int_eq(give("default/machine-1", NPM_DRAIN, "is being removed"),
                     FN_E_PRECONDITION);
}
END_TEST

START_TEST(a_new_manager_does_what_was_wished_of_the_last_one)
{
    struct buf text = BUF_INIT(0);
    const struct npm_host *h;

    pass(3);
    ck_assert_int_eq(give("machine-1", NPM_DRAIN, NULL), 0);
    ck_assert_int_ge(npm_wishes_write(npm_manager_wishes(m), &text), 0);
    end();
    create();
    ck_assert_uint_eq(npm_wishes_read(npm_manager_wishes(m), buf_text(&text), 0), 0);
    pass(3);
    h = npm_host_find(npm_manager_group(m, "default"), "machine-1");
    ck_assert_int_eq(h->state, NPM_DRAINING);
    ck_assert_int_eq(h->wish, NPM_WISH_DRAIN);
    buf_finish(&text);
}
END_TEST

/* It could not be taken back there: a manager that stands by refuses the operator's orders. */
START_TEST(wishes_wait_until_the_manager_acts)
{
    const struct npm_host *h;

    claimed = 1;
    ck_assert_int_eq(
        npm_wishes_set(npm_manager_wishes(m), "default", "machine-1", NPM_WISH_DRAIN, 0), 0);
    pass(5);
    h = npm_host_find(npm_manager_group(m, "default"), "machine-1");
    ck_assert_int_eq(h->state, NPM_BOOTING);
    ck_assert_int_eq(give("machine-1", NPM_UNDRAIN, "another manager acts"), FN_E_PRECONDITION);
    claimed = 0;
    pass(5);
    ck_assert_int_eq(h->state, NPM_DRAINING);
    ck_assert_int_eq(h->wish, NPM_WISH_DRAIN);
}
END_TEST

static void keep_line(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    (void)level;
    (void)wall_ns;
    (void)len;
    lines += strstr(line, "which manager acts") != NULL;
}

/* Two managers may act by then, each believing that it is the one. */
START_TEST(a_claim_that_fails_is_told_once_and_stays_in_the_status)
{
    log_setup(&(struct log_config){
        .level = FN_LOG_INFO, .fd = -1, .wall_ns = no_time, .sink = keep_line });
    pass(10);
    ck_assert_int_eq(lines, 0);
    claimed = FN_E_UNAVAILABLE;
    pass(30);
    ck_assert_int_eq(lines, 1);
    ck_assert_str_eq(npm_manager_cplane_error(m, "default"), "the locks are away");
    claimed = 0;
    pass(10);
    ck_assert_int_eq(lines, 2);
    ck_assert_str_eq(npm_manager_cplane_error(m, "default"), "");
}
END_TEST

static const struct npm_host *machine_2(void)
{
    return npm_host_find(npm_manager_group(m, "default"), "machine-2");
}

/* The last machine is listed, or not any more. */
static void list_last(bool there)
{
    machines_n = there ? MACHINES_N : MACHINES_N - 1;
    pass(10);
    ck_assert_int_eq(machine_2() != NULL, there);
}

/* The control plane `fixed` gives the same addresses, which are its ids, again and again: a group
 * once replaced its two runners by each other for ever. */
START_TEST(what_was_removed_and_comes_back_is_a_new_runner)
{
    struct buf text = BUF_INIT(0);

    pass(3);
    ck_assert_int_eq(give("machine-2", NPM_END, NULL), 0);
    pass(40);
    ck_assert_int_gt(removed, 0);
    kept = 0;
    list_last(false);
    ck_assert_uint_eq(kept, 1);
    ck_assert_int_ge(npm_wishes_write(npm_manager_wishes(m), &text), 0);
    ck_assert_ptr_null(strstr(buf_text(&text), "machine-2"));
    list_last(true);
    ck_assert_int_eq(machine_2()->wish, NPM_WISH_NONE);
    ck_assert_int_eq(machine_2()->state, NPM_BOOTING);
    buf_finish(&text);
}
END_TEST

/* Only the control plane's list was short for a while. */
START_TEST(what_was_lost_and_comes_back_is_still_wished_of)
{
    pass(3);
    ck_assert_int_eq(give("machine-2", NPM_REPLACE, NULL), 0);
    list_last(false);
    list_last(true);
    ck_assert_int_eq(machine_2()->wish, NPM_WISH_REPLACE);
    ck_assert_int_eq(give("machine-2", NPM_DRAIN, NULL), 0);
    list_last(false);
    list_last(true);
    ck_assert_int_eq(machine_2()->wish, NPM_WISH_DRAIN);
}
END_TEST

/* What is < 0 is not taken; 1 is taken, with an objection. */
START_TEST(what_is_said_to_a_demand)
{
    static const struct {
        struct npm_demand d;
        int r, code;
        const char *text;
    } rows[] = {
        { { .lb_id = "lb", .group = "green", .seq = 1 }, FN_E_NOT_FOUND, FN_E_NOT_FOUND, "NPM502" },
        { { .lb_id = "", .group = "default", .seq = 1 }, FN_E_INVALID, FN_E_INVALID, "NPM504" },
        { { .lb_id = "lb", .group = "default", .seq = 1, .mb = 1 }, 0, 0, "" },
        { { .lb_id = "lb", .group = "default", .seq = 2, .mb = UINT64_MAX / 4 }, 1, FN_E_RANGE,
          "NPM501" },
        { { .lb_id = "lb2", .group = "default", .seq = 1, .mb = 1 }, 0, 0, "" },
        { { .lb_id = "lb3", .group = "default", .seq = 1, .mb = 1 }, FN_E_EXHAUSTED,
          FN_E_EXHAUSTED, "NPM506" },
        { { .lb_id = "lb", .group = "default", .seq = 3, .mb = 1 }, 0, 0, "" },
        { { .lb_id = "lb", .group = "default", .incarnation = 1, .seq = 1 }, 0, 0, "" },
        { { .lb_id = "lb", .group = "default", .seq = 4 }, 0, 0, "" },
        { { .lb_id = "lb", .group = "default", .seq = 5 }, 1, FN_E_EXISTS, "NPM508" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fn_error e = ERR_INIT;

        ck_assert_msg(npm_manager_demand(m, &rows[i].d, &e) == rows[i].r, "row %zu", i);
        ck_assert_int_eq(e.code, rows[i].code);
        ck_assert_int_eq(strncmp(e.msg, rows[i].text, strlen(rows[i].text)), 0);
    }
}
END_TEST

/* A load balancer that has not heard of the stop yet: once its demand began a call of the control
 * plane that outlived the manager. */
START_TEST(a_stopped_manager_begins_nothing)
{
    struct npm_demand d = { .lb_id = "lb", .group = "default", .seq = 1, .mb = 512 };
    struct fn_error e = ERR_INIT;
    struct env_work *w;
    int stopped = 0;

    for (pass(3), w = ran; w; w = ran) {
        ran = NULL;
        w->done(w);
    }
    npm_manager_stop(m, on_stopped, &stopped);
    fake_env_settle(f);
    ck_assert_int_eq(stopped, 1);
    fake_env_advance(f, 60 * ENV_S); /* a list is overdue */
    runs = 0;
    npm_manager_demand(m, &d, &e);
    fake_env_advance(f, 60 * ENV_S);
    ck_assert_uint_eq(runs, 0);
}
END_TEST

/* The simulator and the tests of steps start with NPM_OPTIONS_INIT, a manager with fn.yaml. */
START_TEST(test_defaults_are_those_of_the_rows)
{
    struct npm_options init = NPM_OPTIONS_INIT;
    struct npm_options o;

    memset(&o, 0xff, sizeof(o));
    o.predict = NULL;
    o.predict_ud = NULL;
    o.status_idle_ns = 0;
    opt_defaults(&npm_opt_table, &o);
    ck_assert_mem_eq(&o, &init, sizeof(o));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("npm_manager");
    TCase *t = tcase_create("manager");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, what_cannot_be_asked_is_asked_again);
    tcase_add_test(t, silent_runners_delay_nobody);
    tcase_add_test(t, what_is_said_to_a_demand);
    tcase_add_test(t, what_comes_each_second_is_said_each_ten);
    tcase_add_test(t, what_cannot_be_done_is_refused);
    tcase_add_test(t, a_new_manager_does_what_was_wished_of_the_last_one);
    tcase_add_test(t, wishes_wait_until_the_manager_acts);
    tcase_add_test(t, a_claim_that_fails_is_told_once_and_stays_in_the_status);
    tcase_add_test(t, what_was_removed_and_comes_back_is_a_new_runner);
    tcase_add_test(t, what_was_lost_and_comes_back_is_still_wished_of);
    tcase_add_test(t, each_answer_has_memory_of_its_own);
    tcase_add_test(t, a_stopped_manager_begins_nothing);
    tcase_add_test(t, test_defaults_are_those_of_the_rows);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
