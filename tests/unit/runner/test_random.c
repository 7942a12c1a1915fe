/* Random callers, functions and engine faults: nobody gets two answers, nothing runs twice, no
 * refusal follows a byte, resources stay within their bounds and all of it comes back. The checks
 * are in world.c. */
#include "../lib/sanitized.h"
#include "suites.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 1500

static uint64_t state;

static uint32_t pick(uint32_t n)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)((state >> 33) % n);
}

static void one_call(struct world *w)
{
    static const char *const whats[] = { "ok", "ok", "ok", "ms-20", "ms-300", "status-502",
                                         "status-504", "status-201", "crash", "oom", "late-exit",
                                         "invalid", "lost", "cut", "escape", "extra", "refuse",
                                         "refuse-once", "never", "drip", "early", "body-large",
                                         "no-room", "unsent", "dies", "dies-told-late",
                                         "killed" };
    static const char *const images[] = { "hello", "hello", "hello", "hello", "never-listens",
                                          "exits", "bad-socket" };
    static const char *const fns[] = { "a", "b", "c", "d", "e" };
    static const int mems[] = { 64, 128, 256, 1024 };
    static const char *const apps[] = { "app", "evil" };
    uint32_t fn = pick(5);
    struct engage_session *s;

    s = world_call(w, (struct call_spec){ .fn = fns[fn],
                                          .app = apps[fn % 2],
                                          .detached = pick(8) == 0,
                                          .image = pick(10) ? "hello" : images[pick(7)],
                                          .what = whats[pick(26)],
                                          .mem_mb = pick(20) ? mems[fn % 3] : mems[pick(4)],
                                          .timeout_s = 1 + (int)pick(5),
                                          .no_body = true });
    if (pick(4) == 0) {
        world_body(w, s, "abc", 3, false);
        fake_env_advance(w->f, pick(200) * ENV_MS);
    }
    if (pick(20)) {
        world_body(w, s, "def", 3, true);
    }
    if (pick(12) == 0) {
        fake_env_advance(w->f, pick(300) * ENV_MS);
        world_gone(w, s);
    }
}

static void one_fault(struct world *w)
{
    static const char *const methods[] = { "prepare_image", "create", "start", "freeze", "thaw",
                                           "close" };
    static const int codes[] = { FN_E_INTERNAL, FN_E_UNAVAILABLE, FN_E_DEADLINE, FN_E_NOT_FOUND,
                                 FN_E_EXHAUSTED };
    struct container *c, *next;

    switch (pick(9)) {
    case 0:
        w->engine_dead = !w->engine_dead;
        break;
    case 1:
        w->engine_hung = pick(3) == 0;
        break;
    case 2:
    case 3:
        w->fail_method = methods[pick(6)];
        w->fails = (int)pick(4);
        err_set(&w->next_error, codes[pick(5)], "random fault");
        break;
    case 4:
        HASH_ITER(hh, w->r->containers, c, next) {
            if (c->state >= CTR_INIT && c->state < CTR_CLOSE && !c->exited && pick(3) == 0) {
                world_exit(w, c->id, 1 + pick(4), (int)pick(130));
                break;
            }
        }
        break;
    case 5:
        w->slow_ns = (1 + pick(500)) * ENV_MS;
        break;
    case 8:
        w->hang_app = pick(3) == 0 ? "evil" : NULL;
        w->hang_method = methods[pick(6)];
        break;
    case 6:
        w->fast_ns = (1 + pick(50)) * ENV_MS;
        break;
    default:
        w->boot_ns = (1 + pick(100)) * ENV_MS;
        break;
    }
}

static void with_detached(struct world *w)
{
    w->opt.detached = true;
}

static void with_pool(struct world *w)
{
    with_detached(w);
    w->opt.warm_max = 3;
    w->opt.warm_hold_ns = 10 * ENV_S;
}

START_TEST(anything)
{
    struct world *w = world_create(_i % 4 < 2 ? with_detached : with_pool);
    struct fn_error err = ERR_INIT;

    state = (uint64_t)_i * 7919 + 1;
    for (int i = 0; i < STEPS; i++) {
        uint32_t what = pick(20);

        if (what < 12) {
            one_call(w);
        } else if (what == 12 && _i % 2 && pick(3) == 0) {
            one_fault(w);
        } else if (what == 13 && _i % 2 && pick(20) == 0) {
            engine_set(w->r, pick(2), &err);
        } else if (what == 14 && _i % 4 == 3 && pick(10) == 0) {
            w->opt.warm_max = pick(3) ? pick(5) : 0;
            runner_set_options(w->r, &w->opt);
        } else {
            fake_env_advance(w->f, (int64_t)pick(100) * ENV_MS);
        }
        if (i % 500 == 499) {
            fake_env_advance(w->f, 40 * ENV_S);
        }
        fake_env_settle(w->f);
        world_check(w);
    }
    if (getenv("RUNNER_TEST_LOG")) {
        struct runner_counts n = world_counts(w);

        fprintf(stderr, "ok %lu failed %lu not-executed %lu unknown %lu aborted %lu creates %u "
                "executions %u\n", n.ok, n.failed, n.not_executed, n.unknown, n.aborted, w->creates,
                w->executions);
    }
    ck_assert_uint_gt(w->executions, 0); /* engines that are down for long leave few */
    ck_assert_uint_gt(world_counts(w).not_executed, 0);
    world_destroy(w);
}
END_TEST

TCase *random_tests(void)
{
    TCase *t = tcase_create("random");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, anything, 0, SANITIZED ? 8 : 28); /* two of each kind of world */
    return t;
}
