/* Lines that the operator's plugin has, and who reads them. */
#include "log_read.h"
#include "suites.h"

#include <stdio.h>
#include <string.h>

#define MANY 1000u

/* Lines of two functions in turn; a cursor is the number of the next one. */
static struct {
    uint32_t n; /* lines that there are */
    uint32_t calls;
    uint32_t chunk;
    int result;
    struct fn_log_query query; /* the last one */
    char fn_id[16];
    char texts[MANY][16];
    struct fn_log_line lines[MANY];
    const struct fn_log_line *list[MANY];
} book;

static void book_add(uint32_t n)
{
    for (; n > 0; n--, book.n++) {
        struct fn_log_line *l = &book.lines[book.n];

        snprintf(book.texts[book.n], sizeof(book.texts[0]), "%u", book.n);
        *l = (struct fn_log_line){ .size = sizeof(*l), .fd = 1, .wall_ms = 1000 + book.n,
                                   .app_id = "app", .fn_id = book.n % 2 ? "odd" : "even",
                                   .container_id = "c", .call_id = "call",
                                   .data = book.texts[book.n], .len = strlen(book.texts[book.n]) };
        book.list[book.n] = l;
    }
}

static int book_read(void *inst, struct fn_op *op, const struct fn_log_query *q, uint64_t *cursor,
                     const struct fn_log_line *const **ret_lines, uint32_t *ret_n,
                     struct fn_error *reterr)
{
    uint64_t left = book.n - *cursor;

    (void)inst;
    (void)op;
    book.calls++;
    book.query = *q;
    snprintf(book.fn_id, sizeof(book.fn_id), "%s", q->fn_id ? q->fn_id : "");
    if (book.result < 0) {
        return err_set(reterr, book.result, "the disk is gone");
    }
    *ret_lines = &book.list[*cursor];
    *ret_n = left < book.chunk ? (uint32_t)left : book.chunk;
    *cursor += *ret_n;
    return 0;
}

static int book_log(void *inst, struct fn_op *op, const struct fn_log_line *const *lines,
                    uint32_t n, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)lines;
    (void)reterr;
    book_add(n);
    return 0;
}

static const struct fn_operator_ops ops = {
    .hdr = FN_HDR(struct fn_operator_ops, FN_MAGIC_OPERATOR), .log = book_log, .read = book_read
};

static void with_book(struct world *w)
{
    w->operator_ = (struct plugin){ "book", &ops, w };
    w->opt.log_source = "operator";
    memset(&book, 0, sizeof(book));
    book.chunk = FN_OPERATOR_LINES_MAX;
}

static struct world *world_with_book(uint32_t lines)
{
    struct world *w = world_create(with_book);

    runner_start(w->r);
    book_add(lines);
    return w;
}

static void want(struct log_read *rd)
{
    rd->logs.wanted = true;
    rd->w->cb.on_logs_wanted(rd->w->cb_ud, &rd->logs);
}

/* A message, when a lane has had time for it; true: it came. */
static bool next(struct log_read *rd)
{
    uint32_t was = rd->messages;

    if (!rd->logs.wanted) {
        want(rd);
    }
    world_run_ms(rd->w, 10);
    return rd->messages > was;
}

static void next_all(struct log_read *rd)
{
    while (!rd->ends && next(rd)) {
    }
}

START_TEST(read_to_the_end)
{
    struct world *w = world_with_book(600);
    struct log_read all, odd;

    read_open(w, &all, "follow=false");
    ck_assert_uint_eq(book.calls, 0); /* nothing is read before it is wanted */
    next_all(&all);
    ck_assert_uint_eq(all.lines, 600);
    ck_assert_uint_eq(all.messages, 5);
    ck_assert_int_eq(all.ends, 1);
    ck_assert_int_eq(all.status, GRPC_OK);
    read_open(w, &odd, "follow=false fn_id=odd since=1007 tail=7");
    next_all(&odd);
    ck_assert_uint_eq(odd.lines, 297);
    ck_assert_int_eq(strncmp(odd.text, "odd/call/o:7\nodd/call/o:9\n", 26), 0);
    ck_assert_str_eq(book.fn_id, "odd");
    ck_assert_int_eq(book.query.since_ms, 1007);
    ck_assert_uint_eq(book.query.tail, 7);
    ck_assert_ptr_null(book.query.app_id);
    ck_assert_uint_eq(w->r->logs.streams_n, 0);
    world_destroy(w);
}
END_TEST

/* What nobody wants is passed over without a message, one call of the plugin after the other. */
START_TEST(much_is_not_wanted)
{
    struct world *w = world_with_book(500);
    struct log_read rd;

    book.chunk = 1;
    read_open(w, &rd, "follow=false fn_id=none");
    want(&rd);
    world_run_ms(w, 2000);
    ck_assert_uint_eq(book.calls, 501);
    ck_assert_uint_eq(rd.messages, 0);
    ck_assert_int_eq(rd.ends, 1);
    world_destroy(w);
}
END_TEST

START_TEST(followed)
{
    struct world *w = world_with_book(3);
    struct log_read rd;
    struct container *c;

    read_open(w, &rd, "mark=true");
    ck_assert(next(&rd));
    ck_assert_uint_eq(rd.lines, 3);
    ck_assert(next(&rd)); /* the mark */
    ck_assert_uint_eq(rd.empty, 1);
    ck_assert(!next(&rd));
    book_add(1); /* behind the host's back: it asks again */
    world_run_ms(w, 230);
    ck_assert_uint_eq(rd.lines, 3);
    world_run_ms(w, 30);
    ck_assert_uint_eq(rd.lines, 4);
    ck_assert(!next(&rd));
    world_call(w, (struct call_spec){ .id = "CALLLLLLLLLLLLLLLLLLLLLLLL", .what = "ms-3000" });
    world_run_ms(w, 200);
    c = world_container(w, CTR_BUSY);
    container_output(c, 1, "new\n", 4);
    world_run_ms(w, 10); /* it got a line: it has one */
    ck_assert_uint_eq(rd.lines, 5);
    read_leave(&rd);
    world_run_ms(w, 4000);
    world_destroy(w);
}
END_TEST

/* One reader after the other, one call of the plugin at a time. */
START_TEST(in_turn)
{
    struct world *w = world_with_book(256);
    struct log_read a, b;

    book.chunk = 32;
    read_open(w, &a, "");
    read_open(w, &b, "");
    for (uint32_t i = 1; i <= 8; i++) {
        want(&a);
        want(&b);
        world_run_ms(w, 10);
        ck_assert_uint_eq(a.lines, 32 * i);
        ck_assert_uint_eq(b.lines, 32 * i);
        ck_assert_uint_eq(book.calls, 2 * i);
    }
    world_destroy(w);
    ck_assert_int_eq(a.status, GRPC_UNAVAILABLE);
    ck_assert_int_eq(b.ends, 1);
}
END_TEST

/* A reader may leave in each state, also while a lane asks for him. */
START_TEST(leaves)
{
    struct world *w = world_with_book(4);
    struct log_read a, b, c;

    read_open(w, &a, "fn_id=even");
    read_open(w, &b, "");
    read_open(w, &c, "");
    want(&a);
    want(&b); /* waits for its turn */
    read_leave(&a);
    read_leave(&b);
    ck_assert(next(&c));
    ck_assert_uint_eq(c.lines, 4);
    ck_assert_uint_eq(a.lines + b.lines, 0);
    ck_assert(!next(&c));
    read_leave(&c); /* while it pauses */
    world_run_ms(w, 1000);
    ck_assert_uint_eq(w->r->logs.streams_n, 0);
    world_destroy(w);
}
END_TEST

START_TEST(fails)
{
    static const struct {
        int result, status;
        int lanes_full;
        const char *text;
    } rows[] = {
        { FN_E_UNAVAILABLE, GRPC_UNAVAILABLE, 0, "the disk is gone" },
        { 0, GRPC_UNAVAILABLE, 1, "no worker has room for the operator plugin" },
    };
    struct world *w = world_with_book(1);
    struct log_read rd;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        book.result = rows[i].result;
        w->lanes_full = rows[i].lanes_full;
        read_open(w, &rd, "");
        next_all(&rd);
        ck_assert_int_eq(rd.status, rows[i].status);
        ck_assert_str_eq(rd.why, rows[i].text);
    }
    world_destroy(w);
}
END_TEST

/* Lines that found no lane wake a reader from inside of the turn in which that is noticed: his
 * question must not be submitted twice. */
START_TEST(woken_by_lines_without_a_lane)
{
    struct world *w = world_with_book(1);
    struct container *c;
    struct log_read rd;
    uint32_t calls;

    read_open(w, &rd, "");
    ck_assert(next(&rd));
    ck_assert(!next(&rd)); /* it pauses */
    world_call(w, (struct call_spec){ .id = "CALLLLLLLLLLLLLLLLLLLLLLLL", .what = "ms-3000" });
    world_run_ms(w, 200);
    c = world_container(w, CTR_BUSY);
    world_run_ms(w, 100);
    calls = book.calls;
    w->lanes_full = 1;
    container_output(c, 1, "lost\n", 5);
    world_run_ms(w, 20);
    ck_assert_int_eq(w->lanes_full, 0);
    ck_assert_uint_eq(book.calls, calls + 1);
    read_leave(&rd);
    world_run_ms(w, 4000);
    world_destroy(w);
}
END_TEST

/* The readers that lines wake find no lane: each of them ends while they are gone over. */
START_TEST(readers_without_a_lane)
{
    struct world *w = world_with_book(1);
    struct log_read a, b;

    read_open(w, &a, "");
    read_open(w, &b, "");
    ck_assert(next(&a) && next(&b));
    ck_assert(!next(&a) && !next(&b)); /* they pause */
    world_call(w, (struct call_spec){ .id = "CALLLLLLLLLLLLLLLLLLLLLLLL", .what = "ms-3000" });
    world_run_ms(w, 200);
    container_output(world_container(w, CTR_BUSY), 1, "new\n", 4);
    fake_env_settle(w->f); /* the feed has its lane */
    w->lanes_full = 2;
    world_run_ms(w, 20);
    ck_assert_int_eq(w->lanes_full, 0);
    ck_assert_int_eq(a.status, GRPC_UNAVAILABLE);
    ck_assert_int_eq(b.status, GRPC_UNAVAILABLE);
    world_run_ms(w, 4000);
    world_destroy(w);
}
END_TEST

/* A drain waits for no reader, and a reader for no drain that has begun. */
START_TEST(drains)
{
    struct world *w = world_with_book(600);
    struct log_read a, b;

    book.chunk = 1;
    read_open(w, &a, "fn_id=none");
    read_open(w, &b, "");
    want(&a);
    want(&b);
    world_destroy(w);
    ck_assert_uint_le(book.calls, 1);
    ck_assert_int_eq(a.status, GRPC_UNAVAILABLE);
    ck_assert_int_eq(b.status, GRPC_UNAVAILABLE);
}
END_TEST

/* The operator's plugin took one of runner.log_streams_max. */
START_TEST(the_operators_plugin_is_no_stream)
{
    struct world *w = world_with_book(1);
    struct log_read a, b;

    w->opt.log_streams_max = 1;
    runner_set_options(w->r, &w->opt);
    read_open(w, &a, "");
    ck_assert_int_eq(a.ends, 0);
    read_open(w, &b, "");
    ck_assert_int_eq(b.status, GRPC_EXHAUSTED);
    read_leave(&a);
    world_destroy(w);
}
END_TEST

TCase *history_tests(void)
{
    TCase *t = tcase_create("history");

    tcase_add_test(t, read_to_the_end);
    tcase_add_test(t, the_operators_plugin_is_no_stream);
    tcase_add_test(t, much_is_not_wanted);
    tcase_add_test(t, followed);
    tcase_add_test(t, in_turn);
    tcase_add_test(t, leaves);
    tcase_add_test(t, fails);
    tcase_add_test(t, woken_by_lines_without_a_lane);
    tcase_add_test(t, readers_without_a_lane);
    tcase_add_test(t, drains);
    return t;
}
