/* What functions print, and who reads it. */
#include "log_read.h"
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(struct container *c, uint32_t fd, const char *text)
{
    container_output(c, fd, text, strlen(text));
}

/* A container that runs a call of this function. */
static struct container *busy(struct world *w, const char *app, const char *fn, const char *id)
{
    struct container *c, *next;

    world_call(w, (struct call_spec){ .app = app, .fn = fn, .id = id, .what = "ms-60000",
                                      .timeout_s = 90 });
    world_run_ms(w, 200);
    HASH_ITER(hh, w->r->containers, c, next) {
        if (c->call && strcmp(c->call->call.id, id) == 0) {
            return c;
        }
    }
    ck_abort_msg("%s does not run", id);
    return NULL;
}

#define A "CALLAAAAAAAAAAAAAAAAAAAAAA"
#define B "CALLBBBBBBBBBBBBBBBBBBBBBB"

/* What is printed is cut into lines of its stream; what is unfinished waits. */
START_TEST(lines_of_a_call)
{
    struct world *w = world_create(NULL);
    struct container *c = busy(w, "app", "f1", A);
    struct log_read rd;

    print(c, 1, "one\ntw");
    print(c, 2, "err\n");
    read_open(w, &rd, "fn_id=f1");
    read_all(&rd);
    ck_assert_str_eq(rd.text, "f1/" A "/o:one\nf1/" A "/e:err\n");
    print(c, 1, "o\n\nthree");
    fake_env_settle(w->f); /* a message is wanted: it comes by itself */
    ck_assert_str_eq(rd.text, "f1/" A "/o:one\nf1/" A "/e:err\nf1/" A "/o:two\nf1/" A "/o:\n");
    world_exit(w, c->id, FN_EXIT_CODE, 1);
    read_all(&rd);
    ck_assert_ptr_nonnull(strstr(rd.text, "o:two\nf1/" A "/o:\nf1/" A "/o:three\n"));
    ck_assert_uint_eq(rd.lost, 0);
    ck_assert_ptr_nonnull(strstr(output_tail(&c->output, 2048), "two\n\nthree"));
    read_leave(&rd);
    world_destroy(w);
}
END_TEST

/* What comes between two calls is of the first one, as most of it is. */
START_TEST(lines_of_the_call_before)
{
    struct world *w = world_create(NULL);
    struct log_read rd;
    struct container *c;

    world_call(w, (struct call_spec){ .id = A });
    world_run_ms(w, 100);
    c = world_container(w, CTR_IDLE);
    c = c ? c : world_container(w, CTR_FROZEN);
    ck_assert_ptr_nonnull(c);
    print(c, 1, "late\nunfinished");
    world_call(w, (struct call_spec){ .id = B, .what = "ms-1000" });
    world_run_ms(w, 100);
    print(c, 1, "next\n");
    read_open(w, &rd, "follow=false");
    read_all(&rd);
    ck_assert_str_eq(rd.text, "f1/" A "/o:late\nf1/" A "/o:unfinished\nf1/" B "/o:next\n");
    ck_assert_uint_eq(rd.ends, 1);
    ck_assert_int_eq(rd.status, 0);
    world_run_ms(w, 2000);
    world_destroy(w);
}
END_TEST

static void four_lines(struct world *w, struct container **ret_a, struct container **ret_b)
{
    *ret_a = busy(w, "app", "f1", A);
    *ret_b = busy(w, "other", "f2", B);
    print(*ret_a, 1, "a1\na2\n");
    print(*ret_b, 1, "b1\n");
    print(*ret_b, 2, "b2\n");
}

static const struct filter {
    const char *keys, *text;
} filters[] = {
    { "follow=false app_id=other", "f2/" B "/o:b1\nf2/" B "/e:b2\n" },
    { "follow=false fn_id=f1", "f1/" A "/o:a1\nf1/" A "/o:a2\n" },
    { "follow=false call_id=" B, "f2/" B "/o:b1\nf2/" B "/e:b2\n" },
    { "follow=false fn_id=f1 call_id=" B, "" },
    { "follow=false container_id=none", "" },
    { "follow=false tail=1 fn_id=f1", "f1/" A "/o:a2\n" },
    { "follow=false tail=0", "" },
    { "follow=false tail=9 fn_id=f1", "f1/" A "/o:a1\nf1/" A "/o:a2\n" },
    { "follow=false since=99999999999999", "" },
    { "follow=false since=1 fn_id=f1", "f1/" A "/o:a1\nf1/" A "/o:a2\n" },
};

START_TEST(filtered)
{
    struct world *w = world_create(NULL);
    struct container *a, *b;
    struct log_read rd;

    four_lines(w, &a, &b);
    read_open(w, &rd, filters[_i].keys);
    read_all(&rd);
    ck_assert_str_eq(rd.text, filters[_i].text);
    ck_assert_uint_eq(rd.ends, 1);
    world_destroy(w);
}
END_TEST

static const struct filter refusals[] = {
    { "colour=red", "RUN414 unknown key \"colour\"" },
    { "tail=-1", "RUN414 key tail of a log stream, got \"-1\"; expected a whole number" },
    { "tail=x", "RUN414 key tail" },
    { "since=", "RUN414 key since" },
    { "follow=1", "RUN414 key follow of a log stream, got \"1\"; expected true or false" },
    { "mark=TRUE", "RUN414 key mark" },
};

START_TEST(keys_are_checked)
{
    struct world *w = world_create(NULL);
    struct log_read rd;

    read_open(w, &rd, refusals[_i].keys);
    ck_assert_uint_eq(rd.ends, 1);
    ck_assert_int_eq(rd.status, GRPC_INVALID);
    ck_assert_msg(strncmp(rd.why, refusals[_i].text, strlen(refusals[_i].text)) == 0, "%s", rd.why);
    ck_assert_uint_eq(w->r->logs.streams_n, 0);
    world_destroy(w);
}
END_TEST

/* A function that prints much does not keep the lines of another one back. */
START_TEST(loud_and_quiet)
{
    struct world *w = world_create(NULL);
    struct container *loud = busy(w, "app", "f1", A), *quiet = busy(w, "other", "f2", B);
    struct log_read rd;

    for (int i = 0; i < 500; i++) {
        print(loud, 1, "more and more of it\n");
    }
    print(quiet, 1, "psst\n");
    read_open(w, &rd, "mark=true");
    ck_assert(read_one(&rd));
    ck_assert_ptr_nonnull(strstr(rd.text, "o:psst"));
    ck_assert_uint_eq(rd.lines, 128);
    while (!rd.empty && read_one(&rd)) {
    }
    ck_assert_uint_eq(rd.lines, 501); /* and then the mark */
    ck_assert_uint_eq(rd.empty, 1);
    print(quiet, 1, "live\n");
    ck_assert(read_one(&rd));
    ck_assert_uint_eq(rd.empty, 1);
    read_leave(&rd);
    world_destroy(w);
}
END_TEST

/* He who reads slowly misses lines, is told where and how many, and holds nothing up. */
START_TEST(slow_reader)
{
    static const struct metric_def lost = { .name = "fn_runner_log_lines_lost_total", .help = "Missed.",
                                     .kind = METRIC_COUNTER };
    int64_t before = metric_value(metric_series(metric_declare(&lost), NULL));
    struct world *w = world_create(NULL);
    struct container *c = busy(w, "app", "f1", A);
    struct log_read rd;
    char line[64];

    read_open(w, &rd, "");
    for (int i = 0; i < 20000; i++) {
        snprintf(line, sizeof(line), "line %d\n", i);
        print(c, 1, line);
        ck_assert_uint_le(c->output.ring->records.cap, 2 * w->opt.log_ring_bytes);
        if (i == 50) {
            ck_assert(read_one(&rd));
        }
    }
    read_all(&rd);
    ck_assert_ptr_nonnull(strstr(rd.text, "o:line 50\nf1//e:"));
    ck_assert_ptr_nonnull(strstr(rd.text, "lines are missing here"));
    ck_assert_ptr_nonnull(strstr(rd.text, "o:line 19999\n"));
    ck_assert_uint_eq(rd.lines - 1 + rd.lost, 20000);
    ck_assert_int_eq(metric_value(metric_series(metric_declare(&lost), NULL)) - before,
                     (int64_t)rd.lost);
    read_leave(&rd);
    world_destroy(w);
}
END_TEST

static void keep_little(struct world *w)
{
    w->opt.log_kept_bytes = 8192;
}

static void end_of(struct world *w, struct container *c)
{
    world_exit(w, c->id, FN_EXIT_CODE, 1);
    world_run_ms(w, 500);
}

/* Why a container ended is what people ask for. */
START_TEST(of_those_that_have_gone)
{
    struct world *w = world_create(keep_little);
    struct container *c = busy(w, "app", "f1", A);
    struct log_read rd;

    print(c, 2, "panic: at the disco\n");
    read_open(w, &rd, "tail=0");
    end_of(w, c);
    ck_assert_uint_eq(HASH_COUNT(w->r->containers), 0);
    ck_assert_uint_eq(w->r->logs.kept_n, 1);
    read_leave(&rd);
    read_open(w, &rd, "follow=false");
    read_all(&rd);
    ck_assert_str_eq(rd.text, "f1/" A "/e:panic: at the disco\n");
    w->opt.log_kept_bytes = 0;
    runner_set_options(w->r, &w->opt); /* a reload */
    ck_assert_uint_eq(w->r->logs.kept_n, 0);
    ck_assert_uint_eq(w->r->logs.kept_bytes, 0);
    world_destroy(w);
}
END_TEST

/* Containers of one app that end again and again leave what another app's printed. */
START_TEST(kept_in_fair_shares)
{
    struct world *w = world_create(keep_little);
    struct container *c = busy(w, "calm", "f1", A);
    struct log_read rd, other;
    char id[32];

    print(c, 1, "the reason\n");
    end_of(w, c);
    read_open(w, &other, "tail=0"); /* its taps must not keep rings */
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof(id), "CALLC%021d", i);
        c = busy(w, "crashes", "f2", id);
        for (int k = 0; k < 20; k++) {
            print(c, 1, "it goes on and on\n");
        }
        end_of(w, c);
        ck_assert_uint_le(w->r->logs.kept_bytes, 8192);
    }
    ck_assert_uint_gt(w->r->logs.kept_n, 2);
    read_open(w, &rd, "follow=false");
    read_all(&rd);
    ck_assert_ptr_nonnull(strstr(rd.text, "o:the reason\n"));
    ck_assert_ptr_nonnull(strstr(rd.text, "f2/CALLC000000000000000000039/o:"));
    read_all(&other);
    ck_assert_uint_gt(other.lost, 0); /* those whose rings went unread */
    ck_assert_uint_eq(other.lost + other.lines - 1, 800);
    read_leave(&other);
    world_destroy(w);
}
END_TEST

static void two_streams(struct world *w)
{
    w->opt.log_streams_max = 2;
}

START_TEST(streams_are_few)
{
    struct world *w = world_create(two_streams);
    struct log_read a, b, c;

    read_open(w, &a, "");
    read_open(w, &b, "");
    read_open(w, &c, "");
    ck_assert_uint_eq(a.ends + b.ends, 0);
    ck_assert_int_eq(c.status, GRPC_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(c.why, "RUN416 2 log streams"));
    read_leave(&a);
    read_open(w, &c, "");
    ck_assert_uint_eq(c.ends, 0);
    w->opt.log_streams_max = 0;
    runner_set_options(w->r, &w->opt);
    read_open(w, &a, "");
    ck_assert_int_eq(a.status, GRPC_UNKNOWN);
    ck_assert_str_eq(a.why, "runner not configured with logStreamer");
    read_leave(&b);
    read_leave(&c);
    world_destroy(w);
}
END_TEST

static void drained(void *ud, bool clean)
{
    *(bool *)ud = clean;
}

/* A drain can be watched to its end. */
START_TEST(stopping)
{
    struct world *w = world_create(NULL);
    struct container *c = busy(w, "app", "f1", A);
    struct log_read rd, late;
    bool clean = false;

    read_open(w, &rd, "");
    runner_drain(w->r, w->f->now + 100 * ENV_S, drained, &clean);
    print(c, 1, "nearly\n");
    ck_assert(read_one(&rd));
    ck_assert_str_eq(rd.text, "f1/" A "/o:nearly\n");
    world_run_ms(w, 70000);
    ck_assert(clean);
    ck_assert_uint_eq(rd.ends, 1);
    ck_assert_int_eq(rd.status, GRPC_UNAVAILABLE);
    read_open(w, &late, "");
    ck_assert_int_eq(late.status, GRPC_UNAVAILABLE);
    world_destroy(w);
}
END_TEST

START_TEST(no_memory)
{
    struct world *w = world_create(NULL);
    struct container *c = busy(w, "app", "f1", A);
    struct log_read rd;

    read_open(w, &rd, "");
    rd.no_memory = true;
    print(c, 1, "x\n");
    rd.logs.wanted = true;
    w->cb.on_logs_wanted(w->cb_ud, &rd.logs);
    fake_env_settle(w->f);
    ck_assert_uint_eq(rd.ends, 1);
    ck_assert_int_eq(rd.status, GRPC_EXHAUSTED);
    world_destroy(w);
}
END_TEST

/* Readers, containers and lines come and go: each line is read once or counted as lost. */
START_TEST(books_balance)
{
    struct world *w = world_create(keep_little);
    struct log_read rd;
    uint64_t printed = 0;
    char id[32];

    srand48(_i);
    read_open(w, &rd, "");
    for (int i = 0; i < 60; i++) {
        snprintf(id, sizeof(id), "CALLD%021d", i);
        struct container *c = busy(w, lrand48() % 2 ? "a" : "b", "f", id);

        for (long n = lrand48() % 40; n > 0; n--, printed++) {
            print(c, 1 + (uint32_t)(lrand48() % 2), "some line\n");
        }
        if (lrand48() % 3 == 0) {
            rd.text[0] = '\0';
            read_one(&rd);
        }
        end_of(w, c);
    }
    rd.text[0] = '\0';
    read_all(&rd);
    ck_assert_uint_le(rd.lines, printed + 60);
    ck_assert_uint_ge(rd.lines + rd.lost, printed);
    ck_assert_uint_gt(rd.lost, 0);
    read_leave(&rd);
    world_destroy(w);
}
END_TEST

TCase *logs_tests(void)
{
    TCase *t = tcase_create("logs");

    tcase_add_test(t, lines_of_a_call);
    tcase_add_test(t, lines_of_the_call_before);
    tcase_add_loop_test(t, filtered, 0, (int)(sizeof(filters) / sizeof(filters[0])));
    tcase_add_loop_test(t, keys_are_checked, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
    tcase_add_test(t, loud_and_quiet);
    tcase_add_test(t, slow_reader);
    tcase_add_test(t, of_those_that_have_gone);
    tcase_add_test(t, kept_in_fair_shares);
    tcase_add_test(t, streams_are_few);
    tcase_add_test(t, stopping);
    tcase_add_test(t, no_memory);
    tcase_add_loop_test(t, books_balance, 0, 4);
    return t;
}
