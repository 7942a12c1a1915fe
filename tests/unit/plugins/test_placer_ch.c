/* Homes as a Go load balancer computes them, how many move when a runner comes, and the walk
 * around the list. */
#include <decide.h>
#include <sip.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define N_MAX 100

static struct fn_runner runners[N_MAX];
static struct fn_snapshot snap;
static struct ch_session session;
static struct fn_call call;

/* Taken from a Go load balancer: hash, then its bucket for 1, 2, 3, 5, 10 and 100 runners. */
static const struct {
    const char *key;
    uint64_t hash;
    uint32_t bucket[6];
} vectors[] = {
    { "", 0x4dccf8f6e62ea9ad, { 0, 0, 2, 2, 6, 21 } },
    { "f1", 0x4f297931b86279fc, { 0, 0, 0, 0, 8, 57 } },
    { "f2", 0x9b01d524ba05777f, { 0, 0, 0, 0, 0, 92 } },
    { "f3", 0x8a69f42eabd116c6, { 0, 0, 2, 2, 2, 15 } },
    { "abc", 0xe6e5d2640da2bf12, { 0, 0, 0, 3, 8, 92 } },
    { "hello01", 0x3dcf0566fdbbe58d, { 0, 0, 0, 4, 4, 40 } },
    { "zz9", 0xb4235d911b03ea57, { 0, 0, 2, 2, 2, 98 } },
    { "01M7Y437YSR00040GZYG000002", 0xbddb0186c0db7b10, { 0, 0, 0, 3, 3, 81 } },
};

static const uint32_t sizes[] = { 1, 2, 3, 5, 10, 100 };

static void make(uint32_t n, uint64_t hash)
{
    memset(runners, 0, sizeof(runners));
    memset(&session, 0, sizeof(session));
    session.hash = hash;
    snap = (struct fn_snapshot){ .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                 .epoch = 1,
                                 .n = n,
                                 .stride = sizeof(struct fn_runner),
                                 .group = "default",
                                 .runners = runners };
}

static struct fn_answer ask(uint32_t why, uint32_t go_variant)
{
    struct fn_ask a = { .size = sizeof(a), .why = why, .call = &call, .snap = &snap,
                        .session = &session };
    struct fn_answer ret = { .size = sizeof(ret) };

    ch_decide(&session, &a, go_variant, 1000, &ret);
    return ret;
}

START_TEST(siphash_check_value)
{
    unsigned char message[15];
    uint64_t hash = 0;
    struct sip *s = sip_create(0x0706050403020100, 0x0f0e0d0c0b0a0908);
    int i;

    ck_assert_ptr_nonnull(s);
    for (i = 0; i < 15; i++) {
        message[i] = (unsigned char)i;
    }
    ck_assert_int_eq(sip_hash(s, message, sizeof(message), &hash), 0);
    ck_assert_uint_eq(hash, 0xa129ca6149be45e5);
    sip_destroy(s);
    sip_destroy(NULL);
}
END_TEST

START_TEST(go_vectors)
{
    struct sip *s = sip_create(CH_KEY_0, CH_KEY_1);
    uint64_t hash = 0;
    size_t i;
    size_t n;

    for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        ck_assert_int_eq(sip_hash(s, vectors[i].key, strlen(vectors[i].key), &hash), 0);
        ck_assert_uint_eq(hash, vectors[i].hash);
        for (n = 0; n < 6; n++) {
            ck_assert_uint_eq(ch_jump_go(hash, sizes[n]), vectors[i].bucket[n]);
            make(sizes[n], hash);
            ck_assert_uint_eq(ask(FN_WHY_START, 1).index, vectors[i].bucket[n]);
        }
    }
    sip_destroy(s);
}
END_TEST

START_TEST(go_variant_survives_a_zero)
{
    /* key * LCG + 1 == 0 makes the upper bits zero in the first step. */
    uint64_t inverse = 1;
    uint64_t lcg = 2862933555777941757u;
    int i;

    for (i = 0; i < 6; i++) {
        inverse *= 2 - lcg * inverse;
    }
    ck_assert_uint_eq(lcg * inverse, 1);
    ck_assert_uint_lt(ch_jump_go(0 - inverse, 10), 10);
    ck_assert_uint_lt(ch_jump(0 - inverse, 10), 10);
}
END_TEST

START_TEST(jump_is_even_and_moves_little)
{
    uint32_t seen[10] = { 0 };
    uint32_t moved = 0;
    uint64_t key;
    uint32_t i;

    for (i = 0; i < 100000; i++) {
        key = (uint64_t)i * 0x9e3779b97f4a7c15u;
        seen[ch_jump(key, 10)]++;
        if (ch_jump(key, 11) != ch_jump(key, 10)) {
            ck_assert_uint_eq(ch_jump(key, 11), 10); /* only to the new runner */
            moved++;
        }
    }
    for (i = 0; i < 10; i++) {
        ck_assert_uint_ge(seen[i], 9000);
        ck_assert_uint_le(seen[i], 11000);
    }
    ck_assert_uint_ge(moved, 8000);
    ck_assert_uint_le(moved, 10200);
    ck_assert_uint_eq(ch_jump(12345, 1), 0);
}
END_TEST

START_TEST(neighbours_once_around_then_wait)
{
    uint32_t first = ch_jump(vectors[7].hash, 5);
    struct fn_answer r;
    uint32_t i;

    make(5, vectors[7].hash);
    for (i = 0; i < 5; i++) {
        r = ask(i ? FN_WHY_BUSY : FN_WHY_START, 0);
        ck_assert_uint_eq(r.verdict, FN_TRY);
        ck_assert_uint_eq(r.index, (first + i) % 5);
    }
    r = ask(FN_WHY_BUSY, 0);
    ck_assert_uint_eq(r.verdict, FN_WAIT);
    ck_assert_uint_eq(r.wake_mask, FN_WAKE_POOL | FN_WAKE_CAPACITY);
    ck_assert_int_eq(r.wait_ns, 1000);
    ck_assert_uint_eq(ask(FN_WHY_WAKE, 0).index, first);
}
END_TEST

START_TEST(draining_and_empty_lists)
{
    uint32_t first = ch_jump(vectors[7].hash, 5);

    make(5, vectors[7].hash);
    runners[first].flags = FN_RUNNER_DRAINING;
    ck_assert_uint_eq(ask(FN_WHY_START, 0).index, (first + 1) % 5);
    make(0, vectors[7].hash);
    ck_assert_uint_eq(ask(FN_WHY_START, 0).verdict, FN_WAIT);
    ck_assert_uint_eq(ask(FN_WHY_TIMER, 1).verdict, FN_WAIT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("placer-ch");
    TCase *t = tcase_create("decide");
    SRunner *r;
    int failed;

    tcase_add_test(t, siphash_check_value);
    tcase_add_test(t, go_vectors);
    tcase_add_test(t, go_variant_survives_a_zero);
    tcase_add_test(t, jump_is_even_and_moves_little);
    tcase_add_test(t, neighbours_once_around_then_wait);
    tcase_add_test(t, draining_and_empty_lists);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
