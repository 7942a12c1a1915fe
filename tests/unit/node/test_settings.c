/* Settings of a ConfigureRunner that is not decided yet, and a reload that comes meanwhile. */
#include <node/node.h>

#include <check.h>
#include <stdlib.h>

static struct config *load_runner(struct conf_problems *p)
{
    static char type[] = "FN_NODE_TYPE=pure-runner";
    char *const env[] = { type, NULL };
    struct config *c = NULL;

    config_load(NULL, env, &c, p);
    ck_assert_msg(p->n == 0, "%s", buf_text(&p->text));
    return c;
}

START_TEST(who_keeps_them_learns_whether_they_are_in_use)
{
    static const struct fn_kv key = { "runner.pids_max", "7" };
    struct fn_error e = ERR_INIT;
    struct generation g = { 0 };
    struct node n = { .gen = &g };
    struct conf_problems p;

    conf_problems_init(&p);
    g.config = load_runner(&p);
    ck_assert_int_eq(config_set(g.config, &key, 1, &n.settings_undo, &e), 0);
    ck_assert(node_settings.keep(&n, true));
    ck_assert_ptr_null(n.settings_undo);
    ck_assert(!node_settings.keep(&n, true)); /* a reload took them back */
    ck_assert(!node_settings.keep(&n, false));
    ck_assert_uint_eq(g.config->runner->pids_max, 7);
    config_destroy(g.config);
    conf_problems_finish(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("settings");
    TCase *t = tcase_create("settings");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_test(t, who_keeps_them_learns_whether_they_are_in_use);
    suite_add_tcase(s, t);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
