/* What a runner writes about a refusal, sane or not: read as far as it makes sense, and never the
 * reason why the refusal itself is not understood. */
#include <rpc/wire.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SENT(...) (const unsigned char[]){ __VA_ARGS__ }, sizeof((unsigned char[]){ __VA_ARGS__ })

/* RunnerMsg{finished: CallFinished{errorCode: 503, refusal: bytes}} */
static struct engage_finished read_refusal(const void *bytes, size_t len)
{
    static struct scratch s;
    struct wire_runner_msg m;
    unsigned char msg[128] = { 0x1a, 0, 0x18, 0xf7, 0x03, 0xa2, 0x06, (unsigned char)len };

    ck_assert_uint_lt(len, 100);
    memcpy(msg + 8, bytes, len);
    msg[1] = (unsigned char)(6 + len);
    if (!s.block) {
        ck_assert_int_eq(scratch_init(&s), 0);
    }
    wire_decode_runner(&s, msg, 8 + len, &m);
    ck_assert_int_eq(m.kind, WIRE_FINISHED);
    ck_assert_int_eq(m.finished.error_code, 503);
    return m.finished;
}

START_TEST(what_is_written_is_read)
{
    const struct engage_finished f = { .error_code = 503,
                                       .refusal = { ENGAGE_REASON_QUEUE, 123456789, UINT64_MAX,
                                                    1500, 7 } };
    struct wire_runner_msg m;
    struct buf out = BUF_INIT(0);
    struct scratch s;

    ck_assert_int_eq(scratch_init(&s), 0);
    ck_assert_int_eq(wire_encode_finished(&s, &f, &out), 0);
    wire_decode_runner(&s, out.data + WIRE_PREFIX_BYTES, out.len - WIRE_PREFIX_BYTES, &m);
    ck_assert_int_eq(m.kind, WIRE_FINISHED);
    ck_assert_int_eq(m.finished.refusal.reason, ENGAGE_REASON_QUEUE);
    ck_assert_int_eq(m.finished.refusal.retry_ns, 123456789);
    ck_assert_uint_eq(m.finished.refusal.free_mem_bytes, UINT64_MAX);
    ck_assert_uint_eq(m.finished.refusal.free_cpu_milli, 1500);
    ck_assert_uint_eq(m.finished.refusal.idle, 7);
    buf_finish(&out);
    scratch_finish(&s);
}
END_TEST

START_TEST(nonsense_is_left_out)
{
    /* of a reason from the future, the rest is good; a negative wait; a text for a number */
    struct engage_refusal r = read_refusal(SENT(8, 99, 16, 5)).refusal;

    ck_assert_int_eq(r.reason, ENGAGE_REASON_NONE);
    ck_assert_int_eq(r.retry_ns, 5);
    r = read_refusal(SENT(8, 2, 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1))
            .refusal;
    ck_assert_int_eq(r.reason, ENGAGE_REASON_QUEUE);
    ck_assert_int_eq(r.retry_ns, 0);
    r = read_refusal(SENT(8, 1, 0x12, 4, 's', 'o', 'o', 'n', 40, 0xff, 0xff, 0xff, 0xff, 0x7f))
            .refusal;
    ck_assert_int_eq(r.reason, ENGAGE_REASON_ROOM);
    ck_assert_int_eq(r.retry_ns, 0);
    ck_assert_uint_eq(r.idle, UINT32_MAX);
}
END_TEST

START_TEST(what_cannot_be_read_is_a_refusal_without)
{
    struct engage_refusal r = read_refusal("", 0).refusal;

    ck_assert_int_eq(r.reason, ENGAGE_REASON_NONE);
    r = read_refusal(SENT(8, 1, 16, 0xff)).refusal; /* cut */
    ck_assert_int_eq(r.reason, ENGAGE_REASON_NONE);
    r = read_refusal(SENT(8, 1, 0x12, 200, 'x')).refusal; /* longer than it is */
    ck_assert_int_eq(r.reason, ENGAGE_REASON_NONE);
    r = read_refusal(SENT('q', 'u', 'e', 'u', 'e')).refusal;
    ck_assert_int_eq(r.reason, ENGAGE_REASON_NONE);
    ck_assert_int_eq(r.retry_ns, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *t = tcase_create("refusal");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(t, what_is_written_is_read);
    tcase_add_test(t, nonsense_is_left_out);
    tcase_add_test(t, what_cannot_be_read_is_a_refusal_without);
    suite_add_tcase(suite, t);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
