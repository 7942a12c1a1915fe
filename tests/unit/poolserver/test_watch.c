/* Watches over gRPC: each load balancer is told of all of its groups, however many these are. And
 * the manager's own questions to runners. */
#include "kit.h"

#include <check.h>
#include <poolserver/asker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.pb-c.h"

#define TURNS_MAX 100000u
#define READ_NOTHING_S 60

static struct pool_kit kit;

/* What one load balancer heard. */
static struct heard {
    struct rpc_raw *call;
    uint32_t messages, ends;
    uint64_t versions[KIT_GROUPS_MAX];
    size_t members[KIT_GROUPS_MAX];
    uint32_t until; /* messages that are waited for */
    int status;
    char why[128];
} heard;

static void on_message(void *ud, const void *data, size_t len)
{
    struct heard *h = ud;
    Fnd__Membership *m = fnd__membership__unpack(NULL, len, data);
    int group;

    ck_assert_ptr_nonnull(m);
    group = atoi(m->group + 1);
    ck_assert_uint_gt(m->version, h->versions[group]); /* each is news */
    h->versions[group] = m->version;
    h->members[group] = m->n_members;
    h->messages++;
    fnd__membership__free_unpacked(m, NULL);
}

static void on_end(void *ud, int status, const char *text)
{
    struct heard *h = ud;

    h->ends++;
    h->status = status;
    snprintf(h->why, sizeof(h->why), "%s", text);
}

static bool has_heard(void *ud)
{
    const struct heard *h = ud;

    return h->ends > 0 || h->messages >= h->until;
}

static bool has_ended(void *ud)
{
    return ((const struct heard *)ud)->ends > 0;
}

static bool is_idle(void *ud)
{
    return kit_is_idle(ud);
}

static void watch_all(void)
{
    static const struct rpc_raw_cb cb = { on_message, on_end };
    char names[KIT_GROUPS_MAX][8], *groups[KIT_GROUPS_MAX];
    Fnd__WatchRequest q = FND__WATCH_REQUEST__INIT;
    uint8_t bytes[1024];
    size_t len;

    for (uint32_t i = 0; i < KIT_GROUPS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "g%u", i);
        groups[i] = names[i];
    }
    q.lb_id = "lb";
    q.groups = groups;
    q.n_groups = KIT_GROUPS_MAX;
    len = fnd__watch_request__pack(&q, bytes);
    heard = (struct heard){ .until = KIT_GROUPS_MAX };
    loop_enter(kit.loop);
    ck_assert_int_eq(rpc_raw_start(kit.channel, "/fnd.Pool/Watch", bytes, len, 0, &cb, &heard,
                                   &heard.call, NULL),
                     0);
    loop_leave(kit.loop);
}

static void wait_for(bool (*what)(void *ud))
{
    ck_assert_msg(kit_run(&kit, TURNS_MAX, what, &heard), "%u messages, %u ends: %s",
                  heard.messages, heard.ends, heard.why);
}

static void setup(void)
{
    kit_open(&kit);
    kit_begin(&kit, KIT_GROUPS_MAX);
    kit_pass(&kit, KIT_LEARNT_S);
}

static void teardown(void)
{
    if (heard.ends == 0) {
        loop_enter(kit.loop);
        rpc_raw_close(heard.call);
        loop_leave(kit.loop);
    }
    ck_assert(kit_run(&kit, TURNS_MAX, is_idle, &kit));
    kit_end(&kit);
    kit_close(&kit);
}

/* It was told of as many groups as messages may wait, and then that it were too slow: its load
 * balancer asked again, and had no runners in the other groups, for ever. */
START_TEST(more_groups_than_messages_may_wait)
{
    ck_assert_uint_gt(KIT_GROUPS_MAX, 2 * RPC_QUEUE_MAX);
    watch_all();
    wait_for(has_heard);
    ck_assert_msg(heard.ends == 0, "%u messages, then %d %s", heard.messages, heard.status,
                  heard.why);
    for (uint32_t i = 0; i < KIT_GROUPS_MAX; i++) {
        ck_assert_uint_eq(heard.members[i], 1);
    }
}
END_TEST

/* All groups change at once, and again before anything of it is read: each is told of as it is. */
START_TEST(what_changes_while_it_waits_is_told_as_it_is)
{
    watch_all();
    wait_for(has_heard);
    for (uint32_t n = 2; n <= 5; n++) {
        for (uint32_t i = 0; i < KIT_GROUPS_MAX; i++) {
            kit.machines[i] = n;
        }
        kit_pass(&kit, 2);
    }
    heard.until = 2 * KIT_GROUPS_MAX;
    wait_for(has_heard);
    kit_run(&kit, 1000, has_ended, &heard);
    ck_assert_uint_eq(heard.ends, 0);
    for (uint32_t i = 0; i < KIT_GROUPS_MAX; i++) {
        struct npm_figures f;

        npm_figures(kit_group(&kit, i), &f);
        ck_assert_uint_eq(heard.versions[i], f.version);
        ck_assert_uint_eq(heard.members[i], 5);
    }
}
END_TEST

/* News comes each second, and nothing of it is read for so long that it would be old. */
START_TEST(who_reads_nothing_is_cut_off)
{
    watch_all();
    wait_for(has_heard);
    kit.grows = true;
    kit_pass(&kit, READ_NOTHING_S);
    wait_for(has_ended);
    ck_assert_int_eq(heard.status, GRPC_EXHAUSTED);
    ck_assert_str_eq(heard.why, "the watcher is too slow");
}
END_TEST

/* ---- questions to runners -------------------------------------------------------------------- */

static void nobody_is_told(void *ud, uint64_t ticket, const struct npm_event *answer)
{
    (void)ud;
    (void)answer;
    ck_abort_msg("question %u has an answer", (unsigned)ticket);
}

/* It was never given back. */
START_TEST(a_question_is_under_way_at_the_end)
{
    static struct pool_kit k;
    struct asker a;

    kit_open(&k);
    asker_init(&a, loop_env(k.loop), k.rpc, nobody_is_told, NULL);
    loop_enter(k.loop);
    ck_assert_int_eq(asker_ask(&a, "127.0.0.1:1", 1), 0);
    ck_assert(!LIST_EMPTY(&a.asked));
    asker_stop(&a);
    loop_leave(k.loop);
    kit_close(&k);
    asker_finish(&a);
    ck_assert(LIST_EMPTY(&a.asked));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("poolserver");
    TCase *t = tcase_create("watches"), *questions = tcase_create("questions");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, more_groups_than_messages_may_wait);
    tcase_add_test(t, what_changes_while_it_waits_is_told_as_it_is);
    tcase_add_test(t, who_reads_nothing_is_cut_off);
    suite_add_tcase(s, t);
    tcase_add_test(questions, a_question_is_under_way_at_the_end);
    suite_add_tcase(s, questions);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
