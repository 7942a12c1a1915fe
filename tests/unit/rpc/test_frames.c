/* frames.h: the same borders and bytes wherever the input is cut. */
#include <check.h>
#include <rpc/core/frames.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* What was told, as text; pieces of DATA are joined. */
struct told {
    char text[1024];
    size_t len;
};

static void tell(struct told *t, const char *what, const struct frame *f)
{
    t->len += (size_t)snprintf(t->text + t->len, sizeof(t->text) - t->len, "%s%u/%u ", what,
                               f->type, f->stream);
}

static void on_begin(void *ud, const struct frame *f)
{
    tell(ud, "b", f);
}

static void on_data(void *ud, const struct frame *f, const unsigned char *bytes, size_t len)
{
    struct told *t = ud;

    (void)f;
    memcpy(t->text + t->len, bytes, len);
    t->len += len;
}

static void on_end(void *ud, const struct frame *f, const unsigned char *payload, size_t len)
{
    struct told *t = ud;

    tell(t, "e", f);
    memcpy(t->text + t->len, payload, len);
    t->len += len;
}

static const struct frames_cb cb = { on_begin, on_data, on_end };

static const unsigned char input[] =
    PREFACE
    "\0\0\6\4\0\0\0\0\0" "abcdef"           /* SETTINGS */
    "\0\0\2\1\0\0\0\0\1" "hh"               /* HEADERS without END_HEADERS */
    "\0\0\1\11\0\0\0\0\1" "c"               /* CONTINUATION */
    "\0\0\1\11\4\0\0\0\1" "d"               /* the last one */
    "\0\0\3\0\0\0\0\0\1" "xyz"              /* DATA */
    "\0\0\6\0\10\200\0\0\1" "\2XYZpp"       /* padded, reserved bit of the stream set */
    "\0\0\3\0\11\0\0\0\1" "\2pp"            /* padding alone */
    "\0\0\2\0\10\0\0\0\3" "\11p"            /* more padding than there is: C core's to refuse */
    "\0\0\0\0\1\0\0\0\3"                    /* empty DATA */
    "\0\0\10\6\0\0\0\0\0" "12345678";       /* PING */

#define INPUT_BYTES (sizeof(input) - 1)

static const char expected[] = "b4/0 e4/0 abcdef" "b1/1 e1/1 hh" "b9/1 e9/1 c" "b9/1 e9/1 d"
                               "b0/1 xyze0/1 " "b0/1 XYZe0/1 " "b0/1 e0/1 " "b0/3 e0/3 "
                               "b0/3 e0/3 " "b6/0 e6/0 12345678";

static void feed(struct frames *f, size_t from, size_t to)
{
    while (from < to) {
        size_t n = frames_read(f, input + from, to - from);

        ck_assert_uint_gt(n, 0);
        from += n;
    }
}

START_TEST(test_cut_anywhere)
{
    for (size_t cut = 0; cut <= INPUT_BYTES; cut++) {
        struct told t = { .len = 0 };
        struct frames f;

        frames_init(&f, true, &cb, &t);
        feed(&f, 0, cut);
        feed(&f, cut, INPUT_BYTES);
        t.text[t.len] = '\0';
        ck_assert_msg(strcmp(t.text, expected) == 0, "cut at %zu: %s", cut, t.text);
        ck_assert(frames_at_border(&f));
    }
}
END_TEST

START_TEST(test_byte_by_byte)
{
    struct told t = { .len = 0 };
    struct frames f;

    frames_init(&f, true, &cb, &t);
    for (size_t i = 0; i < INPUT_BYTES; i++) {
        feed(&f, i, i + 1);
    }
    t.text[t.len] = '\0';
    ck_assert_str_eq(t.text, expected);
}
END_TEST

/* Nothing may stand in the preface, a frame, or between HEADERS and the last CONTINUATION. */
START_TEST(test_borders)
{
    static const size_t ends[] = { 24, 24 + 15, 24 + 15 + 11 + 10 + 10, 24 + 15 + 31 + 12 };
    struct told t = { .len = 0 };
    struct frames f;
    size_t next = 0;

    frames_init(&f, true, &cb, &t);
    for (size_t i = 0; i < ends[3]; i++) {
        feed(&f, i, i + 1);
        ck_assert_msg(frames_at_border(&f) == (i + 1 == ends[next]), "behind byte %zu", i);
        next += i + 1 == ends[next];
    }
}
END_TEST

/* Of a long payload the first bytes are kept; the border is right all the same. */
START_TEST(test_long_payload)
{
    static unsigned char frame[FRAME_HEAD_BYTES + 300] = { 0, 1, 44, FRAME_SETTINGS };
    static struct told t;
    struct frames f;

    frames_init(&f, false, &cb, &t);
    ck_assert_uint_eq(frames_read(&f, frame, sizeof(frame)), sizeof(frame));
    ck_assert(frames_at_border(&f));
    ck_assert_uint_eq(f.kept_len, FRAMES_KEPT_BYTES);
}
END_TEST

START_TEST(test_own_frames)
{
    unsigned char ping[FRAMES_PING_BYTES], goaway[FRAMES_GOAWAY_BYTES];

    ck_assert_uint_eq(frames_make_ping(ping, "12345678"), sizeof(ping));
    ck_assert_mem_eq(ping, "\0\0\10\6\0\0\0\0\0" "12345678", sizeof(ping));
    ck_assert_uint_eq(frames_make_goaway(goaway, 0x7fffffff, 11), sizeof(goaway));
    ck_assert_mem_eq(goaway, "\0\0\10\7\0\0\0\0\0\177\377\377\377\0\0\0\13", sizeof(goaway));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frames");
    TCase *tc = tcase_create("frames");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, test_cut_anywhere);
    tcase_add_test(tc, test_byte_by_byte);
    tcase_add_test(tc, test_borders);
    tcase_add_test(tc, test_long_payload);
    tcase_add_test(tc, test_own_frames);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
