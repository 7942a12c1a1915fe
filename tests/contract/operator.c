/* Suite "operator": fn/operator.h. */
#include "outside.h"
#include "suites.h"

#include <string.h>

#define TIMEOUT (5 * ENV_S)

/* One call of a method, with its arguments and answers. */
struct call {
    struct instance *in;
    const struct fn_kv *pairs; /* asked, or answered */
    uint32_t n;
    int result;
    struct fn_error error;
};

static void call_status(void *ud, struct fn_op *op)
{
    const struct fn_operator_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->status(c->in->inst, op, &c->pairs, &c->n, reterr_of(&c->error));
}

static void call_configure(void *ud, struct fn_op *op)
{
    const struct fn_operator_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->configure(c->in->inst, op, c->pairs, c->n, reterr_of(&c->error));
}

/* Lines of all kinds, which are gone when log() has returned. */
struct lines {
    struct instance *in;
    const struct fn_log_line **list;
    uint32_t n;
    int result;
    struct fn_error error;
};

static void call_log(void *ud, struct fn_op *op)
{
    const struct fn_operator_ops *ops = subject.factory->ops;
    struct lines *c = ud;

    c->result = ops->log(c->in->inst, op, c->list, c->n, reterr_of(&c->error));
}

/* A reader's next lines. */
struct reading {
    struct instance *in;
    const struct fn_log_query *query;
    uint64_t cursor;
    const struct fn_log_line *const *list;
    uint32_t n;
    int result;
    struct fn_error error;
};

static void call_read(void *ud, struct fn_op *op)
{
    const struct fn_operator_ops *ops = subject.factory->ops;
    struct reading *c = ud;

    c->result = ops->read(c->in->inst, op, c->query, &c->cursor, &c->list, &c->n,
                          reterr_of(&c->error));
}

static void check_text(const char *text, const char *what, uint32_t i)
{
    must(text != NULL, "status() answered pair %u without a %s", i, what);
    must(strnlen(text, FN_OPERATOR_TEXT_MAX + 1) <= FN_OPERATOR_TEXT_MAX,
         "status() answered pair %u with a %s of more than %u bytes", i, what,
         FN_OPERATOR_TEXT_MAX);
    trace_text(text);
}

static void check_pairs(const struct call *c)
{
    must(c->n <= FN_OPERATOR_PAIRS_MAX, "status() answered %u pairs; expected at most %u", c->n,
         FN_OPERATOR_PAIRS_MAX);
    must(c->n == 0 || c->pairs, "status() answered %u pairs at NULL", c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        check_text(c->pairs[i].key, "key", i);
        check_text(c->pairs[i].value, "value", i);
        must(c->pairs[i].key[0], "status() answered pair %u with an empty key", i);
    }
}

static int status(struct instance *in, struct fn_op op)
{
    const struct fn_operator_ops *ops = instance_ops(in);
    static const struct fn_kv untouched[1];
    struct call c = { .in = in, .pairs = untouched, .n = 77, .error = ERR_INIT };

    if (!ops->status) {
        return 0;
    }
    on_worker(in, "status", &op, call_status, &c);
    must_be_result("status", c.result, &c.error);
    must_be_in_time("status", &op);
    must(c.result == 0 || (c.pairs == untouched && c.n == 77),
         "status() failed and wrote ret_pairs or ret_n; ret_* parameters are written only on "
         "success");
    must(c.result < 0 || c.n != 77, "status() returned 0 without a number in ret_n");
    if (c.result == 0) {
        check_pairs(&c);
    }
    trace_u64((uint64_t)(int64_t)c.result);
    return c.result;
}

static int configure(struct instance *in, struct fn_op op, const struct fn_kv *pairs, uint32_t n)
{
    const struct fn_operator_ops *ops = instance_ops(in);
    struct fn_kv *asked = fence_alloc((n + 1) * sizeof(*asked), 8, "the keys of a configuration",
                                      "configure() had returned");
    struct call c = { .in = in, .pairs = asked, .n = n, .error = ERR_INIT };

    if (n > 0) {
        memcpy(asked, pairs, n * sizeof(*asked));
    }
    fence_read_only(asked);
    if (ops->configure) {
        on_worker(in, "configure", &op, call_configure, &c);
        must_be_result("configure", c.result, &c.error);
        must_be_in_time("configure", &op);
    }
    fence_free(asked);
    trace_u64((uint64_t)(int64_t)c.result);
    return c.result;
}

static struct fn_log_line line_of(uint32_t i)
{
    static const struct {
        const char *data;
        uint64_t len;
    } texts[] = { { "plain", 5 },   { "", 0 },       { "a\0b", 3 },
                  { "\x1b[31m", 5 }, { "\xff\xfe", 2 }, { "%s%n\r\n", 6 } };
    uint32_t k = i % (sizeof(texts) / sizeof(texts[0]));

    return (struct fn_log_line){ .size = sizeof(struct fn_log_line), .fd = 1 + i % 2,
                                 .wall_ms = 1795234644501 + i, .app_id = "app",
                                 .fn_id = i % 7 ? "fn" : "", .container_id = "ctr",
                                 .call_id = i % 3 ? "call" : "", .data = texts[k].data,
                                 .len = texts[k].len, .lost = i % 5 ? 0 : i };
}

static int put_lines(struct instance *in, struct fn_op op, uint32_t n)
{
    const struct fn_operator_ops *ops = instance_ops(in);
    struct fn_log_line *lines = fence_alloc(n * sizeof(*lines), 8, "a line", "log() had returned");
    const struct fn_log_line **list = fence_alloc(n * sizeof(*list), 8, "the list of lines",
                                                  "log() had returned");
    struct lines c = { .in = in, .list = list, .n = n, .error = ERR_INIT };

    for (uint32_t i = 0; i < n; i++) {
        lines[i] = line_of(i);
        list[i] = &lines[i];
    }
    fence_read_only(lines);
    fence_read_only(list);
    if (ops->log) {
        on_worker(in, "log", &op, call_log, &c);
        must_be_result("log", c.result, &c.error);
        must_be_in_time("log", &op);
    }
    fence_free(list);
    fence_free(lines);
    trace_u64((uint64_t)(int64_t)c.result);
    return c.result;
}

static void check_id(const char *id, const char *what, uint32_t i)
{
    must(id != NULL && strnlen(id, 256) <= 255,
         "read() answered line %u without a %s of at most 255 bytes; unknown ones are \"\"", i, what);
}

static void check_line(const struct fn_log_line *l, uint32_t i)
{
    must(l != NULL, "read() answered no line %u", i);
    must(l->size == sizeof(*l), "read() answered line %u with size %u; expected %zu", i, l->size,
         sizeof(*l));
    must(l->fd == 1 || l->fd == 2, "read() answered line %u with fd %u; expected 1 or 2", i, l->fd);
    must(l->data && l->len <= FN_OPERATOR_LINE_MAX,
         "read() answered line %u with %llu bytes; expected at most %u", i,
         (unsigned long long)l->len, FN_OPERATOR_LINE_MAX);
    check_id(l->app_id, "app_id", i);
    check_id(l->fn_id, "fn_id", i);
    check_id(l->container_id, "container_id", i);
    check_id(l->call_id, "call_id", i);
    trace_text(l->fn_id);
}

/* -> whether there may be more */
static bool read_some(struct instance *in, struct fn_op op, const struct fn_log_query *q,
                      uint64_t *cursor)
{
    struct fn_log_query *asked = fence_alloc(sizeof(*asked), 8, "what a reader asked for",
                                             "read() had returned");
    struct reading c = { .in = in, .query = asked, .cursor = *cursor, .n = 0, .error = ERR_INIT };

    *asked = *q;
    fence_read_only(asked);
    on_worker(in, "read", &op, call_read, &c);
    fence_free(asked);
    must_be_result("read", c.result, &c.error);
    must_be_in_time("read", &op);
    must(c.result < 0 || c.n <= FN_OPERATOR_LINES_MAX, "read() answered %u lines; expected at most %u",
         c.n, FN_OPERATOR_LINES_MAX);
    must(c.result < 0 || c.n == 0 || c.list, "read() answered %u lines at NULL", c.n);
    for (uint32_t i = 0; c.result == 0 && i < c.n; i++) {
        check_line(c.list[i], i);
    }
    must(c.n == 0 || c.result < 0 || c.cursor != *cursor,
         "read() answered lines and left the cursor where it was");
    *cursor = c.cursor;
    trace_u64((uint64_t)(int64_t)c.result);
    return c.result == 0 && c.n > 0;
}

static void read_all(struct instance *in, struct fn_op op, const struct fn_log_query *q)
{
    const struct fn_operator_ops *ops = instance_ops(in);
    uint64_t cursor = 0;

    for (int i = 0; ops->read && i < 100 && read_some(in, op, q, &cursor); i++) {
    }
}

void operator_exercise(struct instance *in, bool tolerant)
{
    static const struct fn_kv pairs[] = { { "domain", "unix" }, { "company", "fn" } };

    (void)tolerant;
    for (int i = 0; i < 20; i++) {
        status(in, op_for(TIMEOUT));
        configure(in, op_for(TIMEOUT), pairs, (uint32_t)(chance() % 3));
        put_lines(in, op_for(TIMEOUT), 1 + (uint32_t)(chance() % FN_OPERATOR_LINES_MAX));
        read_all(in, op_for(TIMEOUT), &(struct fn_log_query){ .size = sizeof(struct fn_log_query),
                                                              .tail = chance() % 300 });
    }
}

static void test_status(void)
{
    struct instance *in = instance_new();

    for (int i = 0; i < 50; i++) {
        status(in, op_for(TIMEOUT));
        clock_jump(ENV_S);
    }
    instance_destroy(in);
}

static void test_odd_keys(void)
{
    static const struct fn_kv odd[] = {
        { "", "" },         { "=", "=" },          { "a\nb", "c\nd" }, { "\x01\xff", "\xfe" },
        { "same", "first" }, { "same", "second" }, { "../../x", "%s%n" },
    };
    struct instance *in = instance_new();

    step("keys and values of all kinds, alone and together");
    for (uint32_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        configure(in, op_for(TIMEOUT), &odd[i], 1);
    }
    configure(in, op_for(TIMEOUT), odd, sizeof(odd) / sizeof(odd[0]));
    configure(in, op_for(TIMEOUT), NULL, 0);
    status(in, op_for(TIMEOUT));
    instance_destroy(in);
}

static void test_lines(void)
{
    struct instance *in = instance_new();

    step("one line, and as many as there may be");
    put_lines(in, op_for(TIMEOUT), 1);
    put_lines(in, op_for(TIMEOUT), FN_OPERATOR_LINES_MAX);
    status(in, op_for(TIMEOUT));
    instance_destroy(in);
}

static void test_readers(void)
{
    static const struct fn_log_query queries[] = {
        { .size = sizeof(queries[0]), .tail = UINT64_MAX },
        { .size = sizeof(queries[0]), .tail = 0 },
        { .size = sizeof(queries[0]), .tail = 1, .fn_id = "fn", .app_id = "app" },
        { .size = sizeof(queries[0]), .tail = UINT64_MAX, .container_id = "", .call_id = "%s" },
        { .size = sizeof(queries[0]), .tail = UINT64_MAX, .since_ms = INT64_MAX },
    };
    struct instance *in = instance_new();

    step("readers of all kinds, before there are lines and after");
    for (uint32_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        read_all(in, op_for(TIMEOUT), &queries[i]);
        put_lines(in, op_for(TIMEOUT), FN_OPERATOR_LINES_MAX);
        read_all(in, op_for(TIMEOUT), &queries[i]);
    }
    instance_destroy(in);
}

static void test_cancel(void)
{
    struct instance *in = instance_new();
    struct fn_op over = op_for(TIMEOUT);

    step("an operation that is cancelled already");
    over.cancel_at_ns = clock_now();
    status(in, over);
    configure(in, over, NULL, 0);
    put_lines(in, over, 3);
    instance_destroy(in);
}

static const struct contract_case cases[] = {
    { "operator", "status", "status() answers pairs, or a failure", test_status, ALSO_REAL },
    { "operator", "odd-keys", "any key and value may come", test_odd_keys, 0 },
    { "operator", "lines", "any line of a function may come", test_lines, 0 },
    { "operator", "readers", "whoever reads lines may ask for any of them", test_readers, 0 },
    { "operator", "cancel", "an operation ends when its caller gives up", test_cancel, 0 },
};

struct contract_list operator_cases(void)
{
    return (struct contract_list){ cases, sizeof(cases) / sizeof(cases[0]) };
}
