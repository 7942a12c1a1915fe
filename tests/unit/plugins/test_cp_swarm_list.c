/* Lists of control plane swarm on a made-up engine and clock: what becomes of runners that ended. */
#include <swarm.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S 1000000000LL
#define SERVICES_N 20u

static bool there[SERVICES_N];
static char services[SERVICES_N * 256 + 3], tasks[SERVICES_N * 256 + 3];
static int64_t now_ns;
static uint32_t starting, gone, removed;

/* ---- what the glue's other file does ------------------------------------------------------------ */

int swarm_get(struct cp *cp, struct fn_op *op, const char *what, const char *path,
              struct fn_http_answer *ret, struct fn_error *reterr)
{
    (void)cp, (void)op, (void)path, (void)reterr;
    ret->body = strstr(what, "services") ? services : strstr(what, "tasks") ? tasks : "[]";
    ret->body_len = strlen(ret->body);
    return 0;
}

int swarm_remove(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                 struct fn_error *reterr)
{
    (void)inst, (void)op, (void)group, (void)reterr;
    there[atoi(machine_id + strlen("fnd-me-"))] = false;
    removed++;
    return 0;
}

static void free_answer(struct fn_http_answer *given)
{
    (void)given;
}

static int64_t now(const struct fn_host *host)
{
    (void)host;
    return now_ns;
}

static int add(void *ud, const struct fn_machine *m)
{
    (void)ud;
    starting += m->state == FN_MACHINE_STARTING;
    gone += m->state == FN_MACHINE_GONE;
    return 0;
}

/* ---- the engine ------------------------------------------------------------------------------- */

/* Every service that is there has a task that was rejected. */
static void make_texts(void)
{
    size_t s = (size_t)sprintf(services, "["), t = (size_t)sprintf(tasks, "[");

    for (uint32_t i = 0; i < SERVICES_N; i++) {
        if (there[i]) {
            const char *comma = s > 1 ? "," : "";

            s += (size_t)sprintf(services + s,
                                 "%s{\"ID\":\"s%u\",\"Spec\":{\"Name\":\"fnd-me-%u\",\"Labels\":{"
                                 "\"fnd.port\":\"9190\",\"fnd.capacity_mb\":\"256\"}}}",
                                 comma, i, i);
            t += (size_t)sprintf(tasks + t,
                                 "%s{\"ID\":\"t%u\",\"ServiceID\":\"s%u\",\"DesiredState\":"
                                 "\"shutdown\",\"Status\":{\"State\":\"rejected\"}}",
                                 comma, i, i);
        }
    }
    strcpy(services + s, "]");
    strcpy(tasks + t, "]");
}

/* None of many that failed together is held a second time. */
START_TEST(many_that_end_together_go_together)
{
    static const struct swarm_conf conf = { .owner = "me" };
    static const uint32_t level = 0;
    const struct fn_clock_if clock = { .now_ns = now };
    const struct fn_log_if log = { .level = &level };
    const struct fn_host host = { .clock = &clock, .log = &log };
    const struct fn_http_if http = { .free_answer = free_answer };
    const struct fn_machine_sink sink = { .add = add };
    struct cp cp = { .host = &host, .http = &http, .conf = &conf,
                     .lock = PTHREAD_MUTEX_INITIALIZER };
    struct fn_error e = { .code = 0 };

    memset(there, 1, sizeof(there));
    for (now_ns = 1000 * S; now_ns < 1064 * S; now_ns += S) {
        starting = gone = 0;
        make_texts();
        ck_assert_int_eq(swarm_list(&cp, NULL, "g", &sink, &e), 0);
        if (now_ns < 1060 * S) {
            ck_assert_uint_eq(starting, SERVICES_N);
        }
    }
    ck_assert_uint_eq(removed, SERVICES_N);
    ck_assert_uint_eq(starting, 0);
    ck_assert_uint_eq(gone, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cp swarm list");
    TCase *t = tcase_create("list");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_test(t, many_that_end_together_go_together);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
