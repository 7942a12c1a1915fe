/* Records as lines, the queue between two threads, and a file that is rotated, moved and full. */
#include <usage.h>

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char dir[] = "/tmp/fnd-test-usage-XXXXXX";
static char path[64];

/* ---- records --------------------------------------------------------------------------------- */

static const char *app_name;

static const char *view_text(const struct fn_call *call, uint32_t id)
{
    (void)call;
    return id == FN_TEXT_APP_NAME ? app_name : "";
}

static uint64_t view_u64(const struct fn_call *call, uint32_t field)
{
    (void)call;
    return field == FN_FIELD_CPU_MILLI ? 250 : 0;
}

static const struct fn_view_if view = { .hdr = FN_HDR(struct fn_view_if, FN_MAGIC_VIEW),
                                        .text = view_text,
                                        .u64 = view_u64 };

static struct record *make(uint64_t seq, const char *id, int64_t started_ns)
{
    const struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL),
                                  .id = id,
                                  .fn_id = "01FN",
                                  .app_id = "01APP",
                                  .lb_group = "default",
                                  .mem_mb = 128 };
    const struct fn_call_end end = { .size = sizeof(end),
                                     .http_status = 200,
                                     .started_ns = started_ns,
                                     .ended_ns = 5000000,
                                     .outcome = "ok" };
    struct record *r = record_make(&view, &call, &end);

    ck_assert_ptr_nonnull(r);
    r->seq = seq;
    r->ended_wall_ns = 1764086400123456789;
    return r;
}

START_TEST(line_of_a_call)
{
    char line[LINE_BYTES_MAX];
    struct record *r;
    size_t len;

    app_name = "shop \"eu\"\n";
    r = make(7, "01CALL", 1000000);
    len = record_print(r, "s-1", line);
    line[len] = '\0';
    ck_assert_str_eq(line,
                     "{\"stream\":\"s-1\",\"seq\":7,\"time_ms\":1764086400123,"
                     "\"call\":\"01CALL\",\"fn\":\"01FN\",\"app\":\"01APP\","
                     "\"app_name\":\"shop \\u0022eu\\u0022\\u000a\",\"group\":\"default\","
                     "\"type\":\"sync\",\"outcome\":\"ok\",\"memory_mb\":128,\"cpu_milli\":250,"
                     "\"duration_us\":4000,\"status\":200,\"code\":0}\n");
    free(r);
    r = make(8, "01CALL", 0);
    ck_assert_int_eq(r->took_ns, 0); /* it did not start */
    free(r);
}
END_TEST

START_TEST(longest_line)
{
    char text[300];
    char line[LINE_BYTES_MAX];
    struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL) };
    struct fn_call_end end = { .size = sizeof(end), .outcome = text, .ended_ns = INT64_MAX,
                               .started_ns = 1, .code = INT32_MIN, .http_status = UINT32_MAX };
    struct record *r;
    size_t len;

    memset(text, 1, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    app_name = call.id = call.fn_id = call.app_id = call.lb_group = text;
    call.mem_mb = UINT64_MAX;
    r = record_make(&view, &call, &end);
    ck_assert_ptr_nonnull(r);
    r->seq = UINT64_MAX;
    len = record_print(r, "0123456789abcdef-01234567", line);
    ck_assert_uint_gt(len, 6 * 255 * 6); /* nothing was cut but what is beyond 255 bytes */
    ck_assert_int_eq(memcmp(line + len - 2, "}\n", 2), 0);
    ck_assert_ptr_nonnull(memmem(line, len, "\"code\":-2147483648}", 19));
    free(r);
}
END_TEST

START_TEST(line_of_the_end)
{
    char line[LINE_BYTES_MAX];
    size_t len = record_print_end("s-1", 9, 0, 3, line);

    line[len] = '\0';
    ck_assert_str_eq(line, "{\"stream\":\"s-1\",\"seq\":9,\"time_ms\":0,"
                           "\"end\":true,\"dropped\":3}\n");
}
END_TEST

/* ---- the queue ------------------------------------------------------------------------------- */

#define SENT 200000u

static void *add_all(void *ud)
{
    struct queue *q = ud;

    for (uint64_t i = 1; i <= SENT;) {
        struct record *r = malloc(sizeof(*r));

        *r = (struct record){ .seq = i };
        while (queue_add(q, r) < 0) {
            sched_yield();
        }
        i++;
    }
    return NULL;
}

START_TEST(two_threads)
{
    struct queue q;
    pthread_t adder;
    uint64_t seen = 0;

    ck_assert_int_eq(queue_init(&q, 7), 0);
    ck_assert_int_eq(pthread_create(&adder, NULL, add_all, &q), 0);
    while (seen < SENT) {
        const struct record *r;
        uint64_t n = 0;

        for (; (r = queue_at(&q, n)); n++) {
            ck_assert_uint_eq(r->seq, seen + n + 1);
        }
        queue_take(&q, n);
        seen += n;
        if (n == 0) {
            sched_yield();
        }
    }
    pthread_join(adder, NULL);
    queue_finish(&q);
}
END_TEST

START_TEST(full_queue)
{
    struct queue q;
    struct record *extra = calloc(1, sizeof(*extra));

    ck_assert_int_eq(queue_init(&q, 2), 0);
    ck_assert_int_eq(queue_add(&q, calloc(1, sizeof(*extra))), 0);
    ck_assert_int_eq(queue_add(&q, calloc(1, sizeof(*extra))), 0);
    ck_assert_int_eq(queue_add(&q, extra), FN_E_EXHAUSTED);
    queue_take(&q, 1);
    ck_assert_int_eq(queue_add(&q, extra), 0);
    ck_assert_uint_eq(queue_waiting(&q), 2);
    ck_assert_ptr_null(queue_at(&q, 2));
    queue_finish(&q);
}
END_TEST

/* ---- the file -------------------------------------------------------------------------------- */

static struct file file_of(int64_t rotate_bytes, int64_t keep)
{
    struct file f = { .path = path, .rotate_bytes = rotate_bytes, .keep = keep, .fd = -1 };
    struct fn_error e = FN_ERROR_INIT;

    ck_assert_msg(file_open(&f, &e) == 0, "%s", e.msg);
    return f;
}

static void add(struct file *f, const char *lines)
{
    struct fn_error e = FN_ERROR_INIT;
    uint64_t n = 0;

    ck_assert_msg(file_write(f, lines, strlen(lines), &n, &e) == 0, "%s", e.msg);
    ck_assert_uint_gt(n, 0);
}

static void is_in(const char *suffix, const char *expected)
{
    char name[80];
    char text[256] = "";
    FILE *in;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    in = fopen(name, "r");
    if (!expected) {
        ck_assert_ptr_null(in);
        return;
    }
    ck_assert_ptr_nonnull(in);
    text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
    fclose(in);
    ck_assert_str_eq(text, expected);
}

static void begin(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/calls.log", dir);
}

static void end_all(void)
{
    char name[400];
    struct dirent *e;
    DIR *d = opendir(dir);

    while (d && (e = readdir(d))) {
        snprintf(name, sizeof(name), "%s/%s", dir, e->d_name);
        unlink(name);
    }
    closedir(d);
    rmdir(dir);
}

START_TEST(rotation)
{
    struct file f = file_of(10, 2);

    add(&f, "one\ntwo\n");
    add(&f, "three\n");
    is_in("", "three\n");
    is_in(".1", "one\ntwo\n");
    add(&f, "longer than ten bytes\n"); /* of which a file has one at least */
    is_in("", "longer than ten bytes\n");
    add(&f, "x\n");
    is_in("", "x\n");
    is_in(".1", "longer than ten bytes\n");
    is_in(".2", "three\n");
    is_in(".3", NULL);
    file_close(&f);
}
END_TEST

/* Once they stayed for ever. */
START_TEST(fewer_are_kept_than_before)
{
    struct file f = file_of(1, 9);

    for (int i = 0; i < 6; i++) {
        add(&f, "line\n");
    }
    is_in(".5", "line\n");
    file_close(&f);
    f = file_of(1, 2);
    add(&f, "last\n");
    is_in("", "last\n");
    is_in(".1", "line\n");
    is_in(".2", "line\n");
    is_in(".3", NULL);
    is_in(".4", NULL);
    is_in(".5", NULL);
    file_close(&f);
}
END_TEST

/* What happens before the file is locked, or moved; once. */
static void (*before_flock)(void), (*before_rename)(void);

static void come_in_between(void (**what)(void))
{
    void (*now)(void) = *what;

    *what = NULL;
    if (now) {
        now();
    }
}

int flock(int fd, int how)
{
    come_in_between(&before_flock);
    return (int)syscall(SYS_flock, fd, how);
}

int rename(const char *from, const char *to)
{
    come_in_between(&before_rename);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static struct file *between;

static void add_between(void)
{
    add(between, "new\n");
}

/* Two instances, of which both found the file too long: it is moved once, or what the first one has
 * moved is overwritten. */
START_TEST(rotation_by_two)
{
    struct file f = file_of(10, 1);
    struct file other = file_of(10, 1);

    add(&f, "one\ntwo\n");
    between = &other;
    *(_i == 0 ? &before_flock : &before_rename) = add_between;
    add(&f, "three\n");
    is_in("", _i == 0 ? "new\nthree\n" : "three\n");
    is_in(".1", _i == 0 ? "one\ntwo\n" : "one\ntwo\nnew\n");
    file_close(&f);
    file_close(&other);
}
END_TEST

/* Somebody else's lock. */
START_TEST(rotation_waits_and_no_record_does)
{
    struct file f = file_of(10, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    add(&f, "one\ntwo\n");
    add(&f, "three\n");
    is_in("", "one\ntwo\nthree\n");
    close(fd);
    add(&f, "four\n");
    is_in("", "four\n");
    file_close(&f);
}
END_TEST

START_TEST(moved_by_another)
{
    struct file f = file_of(1000, 2);
    struct file other = file_of(1000, 2);
    char moved[80];

    add(&f, "a\n");
    add(&other, "b\n");
    snprintf(moved, sizeof(moved), "%s.old", path);
    ck_assert_int_eq(rename(path, moved), 0);
    add(&f, "c\n");
    add(&other, "d\n");
    is_in(".old", "a\nb\n");
    is_in("", "c\nd\n");
    ck_assert_int_eq(unlink(path), 0);
    add(&f, "e\n");
    is_in("", "e\n");
    file_close(&f);
    file_close(&other);
}
END_TEST

START_TEST(half_a_line)
{
    struct file f = file_of(1000, 2);

    ck_assert_int_eq(write(f.fd, "{\"stream", 8), 8); /* and the process was killed */
    file_close(&f);
    f = file_of(1000, 2);
    add(&f, "a\n");
    add(&f, "b\n");
    is_in("", "{\"stream\na\nb\n");
    file_close(&f);
}
END_TEST

/* No room for all: what is there counts, what is not comes again. */
START_TEST(no_room)
{
    struct rlimit limit = { 9, RLIM_INFINITY };
    struct file f = file_of(1000, 2);
    struct fn_error e = FN_ERROR_INIT;
    uint64_t n = 99;

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(file_write(&f, "one\ntwo\nthree\n", 14, &n, &e), FN_E_UNAVAILABLE);
    ck_assert_uint_eq(n, 2);
    ck_assert_ptr_nonnull(strstr(e.msg, "no room for all lines; records wait"));
    ck_assert_int_eq(file_write(&f, "three\n", 6, &n, &e), FN_E_UNAVAILABLE);
    ck_assert_uint_eq(n, 0);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    add(&f, "three\n");
    is_in("", "one\ntwo\nt\nthree\n");
    file_close(&f);
}
END_TEST

START_TEST(no_file)
{
    struct file f = { .path = dir, .fd = -1 };
    struct fn_error e = FN_ERROR_INIT;

    ck_assert_int_eq(file_open(&f, &e), FN_E_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(e.msg, "Is a directory; expected a file that this node"));
    f.path = "/dev/null";
    ck_assert_int_eq(file_open(&f, &e), FN_E_PRECONDITION);
    ck_assert_str_eq(e.msg, "path: got \"/dev/null\"; expected a regular file");
    ck_assert_int_eq(f.fd, -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("listener-usage");
    TCase *t = tcase_create("records");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_test(t, line_of_a_call);
    tcase_add_test(t, longest_line);
    tcase_add_test(t, line_of_the_end);
    tcase_add_test(t, two_threads);
    tcase_add_test(t, full_queue);
    suite_add_tcase(s, t);
    t = tcase_create("file");
    tcase_add_checked_fixture(t, begin, end_all);
    tcase_add_test(t, rotation);
    tcase_add_test(t, fewer_are_kept_than_before);
    tcase_add_loop_test(t, rotation_by_two, 0, 2);
    tcase_add_test(t, rotation_waits_and_no_record_does);
    tcase_add_test(t, moved_by_another);
    tcase_add_test(t, half_a_line);
    tcase_add_test(t, no_room);
    tcase_add_test(t, no_file);
    suite_add_tcase(s, t);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
