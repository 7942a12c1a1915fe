/* What other nodes tell of their changes, over ears of the test's own: what is heard of it, and when
 * a connection that was lost is tried again. */
#include <store/store_int.h>

#include <check.h>
#include <fake_env.h>
#include <string.h>

static struct fake_env *env;
static struct fn_error error;

static void setup(void)
{
    error = ERR_INIT;
    env = fake_env_create();
}

static void teardown(void)
{
    fake_env_destroy(env);
}

/* What the next wait hears; its end is NULL. */
static struct {
    struct ears ears;
    const char *const *texts;
    bool deaf; /* it fails */
    bool again; /* a new connection */
    bool woken, closed;
} other;

static int other_wait(struct ears *e, ears_heard *heard, void *ud, struct fn_error *reterr)
{
    (void)e;
    if (other.deaf) {
        return err_set(reterr, FN_E_UNAVAILABLE, "away");
    }
    if (other.again) {
        heard(ud, NULL);
    }
    for (; other.texts && *other.texts; other.texts++) {
        heard(ud, *other.texts);
    }
    return 0;
}

static void other_wake(struct ears *e)
{
    (void)e;
    other.woken = true;
}

static void other_close(struct ears *e)
{
    (void)e;
    other.closed = true;
}

static char heard_ids[256];

static void on_heard_change(void *ud, const char *id)
{
    (void)ud;
    strncat(heard_ids, id ? id : "all", sizeof(heard_ids) - strlen(heard_ids) - 1);
    strcat(heard_ids, ",");
}

static void on_ears_stopped(void *ud)
{
    ++*(uint32_t *)ud;
}

static struct listen *make_listen(uint32_t *stopped)
{
    static const struct ears_ops ops = { other_wait, other_wake, other_close };
    const struct listen_to to = { on_heard_change, on_ears_stopped, stopped };
    struct listen *l;

    memset(&other, 0, sizeof(other));
    other.ears.ops = &ops;
    heard_ids[0] = '\0';
    *stopped = 0;
    ck_assert_int_eq(listen_create(&env->env, &other.ears, "me", &to, &l, &error), 0);
    listen_start(l);
    return l;
}

static const struct {
    const char *texts[4];
    const char *heard;
} told_by_others[] = {
    { { "other 1", "me 2", "other 3" }, "1,3," },
    { { "me 1" }, "" },
    { { "mean 1", "m 2" }, "1,2," },
    { { "other 1", "what" }, "all," },
    { { "" }, "all," },
    { { "other 123456789012345678901234567" }, "all," },
};

START_TEST(others_tell_what_they_changed)
{
    uint32_t stopped;
    struct listen *l = make_listen(&stopped);

    other.texts = told_by_others[_i].texts;
    fake_env_work_one(env);
    ck_assert_str_eq(heard_ids, told_by_others[_i].heard);
    listen_stop(l);
    ck_assert(other.woken);
    ck_assert_uint_eq(stopped, 0);
    fake_env_work_one(env);
    ck_assert_uint_eq(stopped, 1);
    ck_assert_uint_eq(env->n_work, 0);
    listen_destroy(l);
    ck_assert(other.closed);
}
END_TEST

START_TEST(more_than_is_kept_of_others_is_anything)
{
    static const char *texts[300];
    uint32_t stopped;
    struct listen *l = make_listen(&stopped);

    for (size_t i = 0; i + 1 < sizeof(texts) / sizeof(texts[0]); i++) {
        texts[i] = "other 1";
    }
    other.texts = texts;
    fake_env_work_one(env);
    ck_assert_str_eq(heard_ids, "all,");
    listen_destroy(l); /* while it waits: the worker's end is the last */
    ck_assert(!other.closed);
    fake_env_work_one(env);
    ck_assert(other.closed);
}
END_TEST

/* 0.1 s, twice that ... 5 s, and from the beginning after a success. */
START_TEST(a_lost_connection_is_tried_later_each_time)
{
    static const int64_t pauses_ms[] = { 100, 200, 400, 800, 1600, 3200, 5000, 5000 };
    uint32_t stopped;
    struct listen *l = make_listen(&stopped);

    other.deaf = true;
    fake_env_work_one(env);
    for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
        fake_env_advance(env, pauses_ms[i] * ENV_MS - 1);
        ck_assert_uint_eq(env->n_work, 0);
        fake_env_advance(env, 1);
        other.deaf = i + 1 < sizeof(pauses_ms) / sizeof(pauses_ms[0]);
        other.again = !other.deaf;
        ck_assert_int_eq(fake_env_work_one(env), 1);
    }
    ck_assert_str_eq(heard_ids, "all,");
    other.deaf = true;
    fake_env_work_one(env);
    fake_env_advance(env, 100 * ENV_MS);
    ck_assert_uint_eq(env->n_work, 1);
    env->submit_fails = 1; /* the lane is full: later */
    fake_env_work_one(env);
    fake_env_advance(env, 200 * ENV_MS);
    ck_assert_uint_eq(env->n_work, 0);
    fake_env_advance(env, 400 * ENV_MS);
    ck_assert_uint_eq(env->n_work, 1);
    fake_env_work_one(env);
    listen_destroy(l);
    ck_assert(other.closed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("listen");
    TCase *t = tcase_create("listen");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, others_tell_what_they_changed, 0,
                        sizeof(told_by_others) / sizeof(told_by_others[0]));
    tcase_add_test(t, more_than_is_kept_of_others_is_anything);
    tcase_add_test(t, a_lost_connection_is_tried_later_each_time);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
