/* traceparent and tracestate: what is well formed, and all that is not. */
#include <trace/trace_int.h>

#include <check.h>
#include <string.h>

TCase *context_tests(void);

#define ID     "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static const char *const good[] = {
    "00-" ID "-" PARENT "-00",
    "00-" ID "-" PARENT "-01",
    "00-" ID "-" PARENT "-ff",
    "01-" ID "-" PARENT "-01",            /* a later version */
    "cc-" ID "-" PARENT "-01-what-comes", /* that says more */
    "01-" ID "-" PARENT "-01-",
    "00-00000000000000000000000000000001-0000000000000001-01",
};

START_TEST(what_is_well_formed_is_taken)
{
    struct trace_context c;
    char text[TRACEPARENT_BYTES], id[TRACE_ID_HEX];

    ck_assert(trace_context_parse(good[_i], &c));
    *hex_print(c.trace_id, TRACE_ID_BYTES, id) = '\0';
    traceparent_print(id, c.span_id, c.flags, text);
    ck_assert_int_eq(strncmp(text + 2, good[_i] + 2, TRACEPARENT_BYTES - 3), 0);
    ck_assert_int_eq(strncmp(text, "00-", 3), 0);
}
END_TEST

static const char *const bad[] = {
    "",
    "0",
    "00",
    "00-",
    "00-" ID,
    "00-" ID "-" PARENT,
    "00-" ID "-" PARENT "-",
    "00-" ID "-" PARENT "-0",
    "00-" ID "-" PARENT "-0g",
    "00-" ID "-" PARENT "-1 ",
    "00-" ID "-" PARENT "-01-", /* version 00 ends here */
    "00-" ID "-" PARENT "-01-00",
    "00-" ID "-" PARENT "-01.",
    "00-" ID "-" PARENT "-01 ",
    " 00-" ID "-" PARENT "-01",
    "cc-" ID "-" PARENT "-01what",
    "cc-" ID "-" PARENT "-01.",
    "ff-" ID "-" PARENT "-01", /* forbidden */
    "0-" ID "-" PARENT "-01",
    "000-" ID "-" PARENT "-01",
    ".0-" ID "-" PARENT "-01",
    "0X-" ID "-" PARENT "-01",
    "00_" ID "-" PARENT "-01",
    "00-" ID "_" PARENT "-01",
    "00-" ID "-" PARENT "_01",
    "00-00000000000000000000000000000000-" PARENT "-01",
    "00-" ID "-0000000000000000-01",
    "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", /* upper case */
    "00-" ID "-B7AD6B7169203331-01",
    "00-" ID "-" PARENT "-0A",
    "00-.af7651916cd43dd8448eb211c80319c-" PARENT "-01",
    "00-0af7651916cd43dd8448eb211c80319-" PARENT "-01",   /* too short */
    "00-0af7651916cd43dd8448eb211c80319ca-" PARENT "-01", /* too long */
    "00-" ID "-b7ad6b716920333-01",
    "00-" ID "-b7ad6b71692033312-01",
    "00-" ID "-" PARENT ",01",
    "00-" ID "-" PARENT "-01,00-" ID "-" PARENT "-01", /* two in one */
};

START_TEST(what_is_malformed_is_not)
{
    struct trace_context c;

    ck_assert_msg(!trace_context_parse(bad[_i], &c), "taken: %s", bad[_i]);
}
END_TEST

#define K64  "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
#define K241 K64 K64 K64 "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
#define V200 K64 K64 K64 "kkkkkkkk"

static const struct {
    const char *fields[3];
    const char *joined; /* NULL: malformed, or none */
} states[] = {
    { { "a=1" }, "a=1" },
    { { "a=1,b=2", "c=3" }, "a=1,b=2,c=3" },
    { { " a=1 ,\tb=2" }, "a=1,b=2" },
    { { "a=1,,b=2," }, "a=1,b=2" }, /* empty members are allowed */
    { { "", "a=1" }, "a=1" },
    { { "a/b*c_d-e=x y~!" }, "a/b*c_d-e=x y~!" },
    { { "1t@sys=1" }, "1t@sys=1" },
    { { K241 "@abcdefghijklmn=1" }, K241 "@abcdefghijklmn=1" },
    { { NULL }, NULL },
    { { "" }, NULL },
    { { "a" }, NULL },
    { { "=1" }, NULL },
    { { "a=" }, NULL },
    { { "A=1" }, NULL },
    { { "1a=1" }, NULL },
    { { "a=1=2" }, NULL },
    { { "a =1" }, NULL },
    { { "@a=1" }, NULL },
    { { "a@=1" }, NULL },
    { { "a@1=1" }, NULL },
    { { "a@b@c=1" }, NULL },
    { { "a@abcdefghijklmno=1" }, NULL },
    { { K241 "k@a=1" }, NULL },
    { { K64 K64 K64 K64 "k=1" }, NULL },
    { { "a=\x01" }, NULL },
    { { "a=\xc3\xa4" }, NULL },
    { { "a=" V200, "b=" V200, "c=" V200 }, NULL }, /* longer than is passed on */
    { { "a=1,a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,a8=1,a9=1,b=1,b1=1,b2=1,b3=1,b4=1,b5=1,b6=1,b7=1",
        "b8=1,b9=1,c=1,c1=1,c2=1,c3=1,c4=1,c5=1,c6=1,c7=1,c8=1,c9=1,d=1,d1=1,d2=1" },
      NULL }, /* 33 */
};

START_TEST(states_are_joined_or_dropped)
{
    char text[TRACESTATE_MAX + 1];
    struct arena arena;
    struct headers h;
    bool any;

    arena_init(&arena, 0);
    headers_init(&h, &arena);
    for (int i = 0; i < 3 && states[_i].fields[i]; i++) {
        ck_assert_int_eq(headers_add(&h, i ? "tracestate" : "Tracestate", states[_i].fields[i]), 0);
    }
    any = trace_state_join(&h, text);
    ck_assert_int_eq(any, states[_i].joined != NULL);
    ck_assert_str_eq(text, states[_i].joined ? states[_i].joined : "");
    arena_finish(&arena);
}
END_TEST

START_TEST(headers_for_a_collector_have_a_form)
{
    char many[TRACE_HEADERS_MAX + 2][5];

    ck_assert_ptr_null(trace_headers_refused("Authorization: Bearer x"));
    ck_assert_ptr_null(trace_headers_refused("X:\n\nY: 1\n"));
    ck_assert_ptr_nonnull(trace_headers_refused("no colon"));
    ck_assert_ptr_nonnull(trace_headers_refused("a: b\nno colon\nc: d"));
    ck_assert_ptr_nonnull(trace_headers_refused(": value"));
    ck_assert_ptr_nonnull(trace_headers_refused("a b: value"));
    ck_assert_ptr_nonnull(trace_headers_refused("a: b\r\nc: d"));
    for (uint32_t i = 0; i < TRACE_HEADERS_MAX + 1; i++) {
        memcpy(many[i], "a: b\n", 5);
    }
    many[TRACE_HEADERS_MAX + 1][0] = '\0';
    ck_assert_ptr_nonnull(trace_headers_refused(many[0]));
    ck_assert_ptr_null(trace_headers_refused(many[1]));
}
END_TEST

#define N(list) ((int)(sizeof(list) / sizeof((list)[0])))

TCase *context_tests(void)
{
    TCase *t = tcase_create("context");

    tcase_add_loop_test(t, what_is_well_formed_is_taken, 0, N(good));
    tcase_add_loop_test(t, what_is_malformed_is_not, 0, N(bad));
    tcase_add_loop_test(t, states_are_joined_or_dropped, 0, N(states));
    tcase_add_test(t, headers_for_a_collector_have_a_form);
    return t;
}
