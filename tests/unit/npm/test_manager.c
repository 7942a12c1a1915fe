/* The manager around the step: what belongs to which call of the control plane. */
#include <npm/manager.h>

#include <check.h>
#include <fake_env.h>
#include <fake_plugin.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINES_N 3

static struct fake_env *f;
static struct env_work *ran; /* and not done */
static uint32_t runs;

/* A worker that is as fast as can be: the call has run before the loop goes on. */
static int submit(struct env *env, struct env_work *w)
{
    (void)env;
    w->run(w, NULL);
    ran = w;
    runs++;
    return 0;
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    char id[32], address[32];
    struct fn_machine m = {sizeof(m), FN_MACHINE_READY, id, address, 1024};

    (void)inst;
    (void)op;
    (void)group;
    (void)reterr;
    for (int i = 0; i < MACHINES_N; i++) {
        snprintf(id, sizeof(id), "machine-%d", i);
        snprintf(address, sizeof(address), "10.0.0.%d:9190", i);
        out->add(out->ud, &m);
    }
    return 0;
}

static bool no_memory;
static uint32_t asks;
static uint64_t tickets[MACHINES_N];

/* Nobody answers. */
static int ask(void *ud, const char *address, uint64_t ticket)
{
    (void)ud;
    (void)address;
    tickets[asks++ % MACHINES_N] = ticket;
    return no_memory ? FN_E_EXHAUSTED : 0;
}

static void no_news(void *ud, const char *group)
{
    (void)ud;
    (void)group;
}

static void on_stopped(void *ud)
{
    *(int *)ud = 1;
}

static const struct fn_cplane_ops ops = {.list = list};
static struct plugin cplane;
static struct npm_manager *m;

static void setup(void)
{
    static const char *const groups[] = {"default"};
    struct npm_deps d = {.cplane = &cplane,
                         .ask = ask,
                         .published = no_news,
                         .options = NPM_OPTIONS_INIT,
                         .runners_max = 10,
                         .cplane_timeout_ns = ENV_S,
                         .groups = groups,
                         .n_groups = 1};
    struct fn_error e = ERR_INIT;

    f = fake_env_create();
    f->env.submit = submit;
    d.env = &f->env;
    d.options.boot_max_ns = 3600 * ENV_S;
    asks = runs = 0;
    ran = NULL;
    fake_plugin_init(&cplane, "control-plane", &ops, NULL);
    ck_assert_int_eq(npm_manager_create(&d, &m, &e), 0);
}

static void teardown(void)
{
    int stopped = 0;

    npm_manager_stop(m, on_stopped, &stopped);
    if (ran) {
        ran->done(ran);
    }
    fake_env_settle(f);
    ck_assert_int_eq(stopped, 1);
    npm_manager_destroy(m);
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
        struct env_work *w = ran;

        ran = NULL;
        if (w) {
            w->done(w);
        }
        fake_env_advance(f, ENV_S);
    }
}

/* More questions than may be under way cannot be asked: none of them takes a place for ever. */
START_TEST(what_cannot_be_asked_is_asked_again)
{
    no_memory = true;
    pass(600);
    ck_assert_uint_ge(asks, 20);
    ck_assert_uint_eq(active_n(), 0);
    no_memory = false;
    asks = 0;
    for (int i = 0; i < 70 && asks < MACHINES_N; i++) {
        pass(1);
    }
    ck_assert_uint_eq(asks, MACHINES_N);
    for (int i = 0; i < MACHINES_N; i++) {
        npm_manager_reported(m, tickets[i], true, 0);
    }
    ck_assert_uint_eq(active_n(), MACHINES_N);
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
    tcase_add_test(t, each_answer_has_memory_of_its_own);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
