/* What functions print: into the log, and what is kept. */
#include "suites.h"
#include "world.h"

#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t user_lines, user_lines_lost;

static void count_user_line(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    const char *lost = memmem(line, len, " suppressed=", 12);

    (void)level;
    (void)wall_ns;
    if (memmem(line, len, "user_log=true", 13)) {
        user_lines++;
        user_lines_lost += lost ? (uint32_t)strtoul(lost + 12, NULL, 10) : 0;
    }
}

static int64_t no_time(void)
{
    return 0;
}

static void few_lines(struct world *w)
{
    w->opt.user_logs = 1;
    w->opt.user_log_lines_per_s = 3;
}

static void print_lines(struct container *c, int n)
{
    while (n-- > 0) {
        container_output(c, 1, "hello\n", 6);
    }
}

START_TEST(output_goes_to_the_log_within_its_limit)
{
    const struct log_config counted = { .level = FN_LOG_INFO, .fd = 2, .wall_ns = no_time,
                                        .sink = count_user_line };
    const struct log_config plain = { .level = FN_LOG_ERROR, .fd = 2, .wall_ns = no_time };
    struct world *w = world_create(few_lines);
    struct runner_options other = w->opt;
    struct container *c;

    user_lines = user_lines_lost = 0;
    log_setup(&counted);
    world_call(w, (struct call_spec){ .what = "ms-5000" });
    world_run_ms(w, 200);
    c = world_container(w, CTR_BUSY);
    print_lines(c, 10);
    ck_assert_uint_eq(user_lines, 3);
    world_run_ms(w, 1100);
    print_lines(c, 1);
    ck_assert_uint_eq(user_lines, 4);
    ck_assert_uint_eq(user_lines_lost, 7);
    other.user_log_lines_per_s = 5;
    runner_set_options(w->r, &other); /* a reload */
    print_lines(c, 10);
    ck_assert_uint_eq(user_lines, 8);
    log_setup(&plain);
    world_run_ms(w, 6000);
    world_destroy(w);
}
END_TEST

START_TEST(output_is_kept)
{
    struct world *w = world_create(NULL);
    struct container *c;
    char line[100];

    world_call(w, (struct call_spec){ .what = "ms-1000" });
    world_run_ms(w, 200);
    c = world_container(w, CTR_BUSY);
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(line, sizeof(line), "line %d of some length to fill the ring\n", i);

        container_output(c, 1 + (uint32_t)(i % 2), line, (size_t)n);
        ck_assert_uint_le(c->output.ring->records.len, w->opt.log_ring_bytes * 3 / 2);
    }
    ck_assert_ptr_nonnull(strstr(output_tail(&c->output, 2048), "line 4999"));
    ck_assert_uint_ge(c->output.ring->records.len, w->opt.log_ring_bytes / 2);
    c->r->opt.log_ring_bytes *= 4; /* by a reload */
    for (int i = 0; i < 20000; i++) {
        container_output(c, 1, line, strlen(line));
        ck_assert_uint_ge(c->output.ring->records.len, w->opt.log_ring_bytes * 9 / 10);
    }
    ck_assert_uint_ge(c->output.ring->records.len, 4 * w->opt.log_ring_bytes * 9 / 10);
    c->r->opt.log_ring_bytes = w->opt.log_ring_bytes;
    container_output(c, 1, line, strlen(line));
    ck_assert_uint_le(c->output.ring->records.len, w->opt.log_ring_bytes);
    world_run_ms(w, 2000);
    world_destroy(w);
}
END_TEST

TCase *output_tests(void)
{
    TCase *t = tcase_create("output");

    tcase_add_test(t, output_is_kept);
    tcase_add_test(t, output_goes_to_the_log_within_its_limit);
    return t;
}
