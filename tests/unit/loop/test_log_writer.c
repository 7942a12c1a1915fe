/* The log's writer: pipes whose readers stand still, files that are full, moved or torn. The writer
 * is one per process; each test is a process. A limit on file sizes plays the full disk. */
#include <loop/log_dest.h>
#include <loop/log_writer.h>

#include <base/log.h>
#include <base/metric.h>
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_MS 10000
#define LINES   20000 /* more than the buffer and a pipe take */

static char text[8 * 1024 * 1024];
static char folder[64];
static char path[96];

static void start(int fd, const char *file)
{
    const struct log_writer_config c = { .fd = fd, .path = file };
    struct fn_error e = ERR_INIT;

    ck_assert_msg(log_writer_start(&c, &e) == 0, "%s", e.msg);
    log_setup(&(struct log_config){ .level = FN_LOG_INFO, .sink = log_writer_write });
}

static int64_t counted(const char *name)
{
    return metric_value(metric_simple(name, METRIC_COUNTER, ""));
}

static size_t count(const char *in, const char *what)
{
    size_t n = 0;

    for (const char *at = in; (at = strstr(at, what)); at += strlen(what)) {
        n++;
    }
    return n;
}

static const char *read_file(const char *name)
{
    int fd = open(name, O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);

    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    close(fd);
    return text;
}

/* Until a line with this has come. */
static const char *read_until(int fd, const char *what)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

        ck_assert_int_gt(n, 0);
        len += (size_t)n;
        text[len] = '\0';
        const char *at = strstr(text, what);

        if (at && strchr(at, '\n')) {
            return text;
        }
    }
}

static int open_file(void)
{
    strcpy(folder, "/tmp/fnd-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void close_file(void)
{
    unlink(path);
    rmdir(folder);
}

static int catch_stderr(void)
{
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    return ends[0];
}

/* Whoever logs goes on; what is lost is counted, and told in the place of the gap. */
START_TEST(a_reader_that_stands_still)
{
    int ends[2];
    size_t came;

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    start(ends[1], NULL);
    for (int i = 0; i < LINES; i++) {
        log_info("a line among very many, with a number", "n", log_num(i));
    }
    ck_assert(!log_writer_flush(10));
    ck_assert_int_gt(counted("fn_log_lost_lines"), 0);
    log_error("errors have room of their own");
    read_until(ends[0], "log lines were lost");
    came = count(text, "a line among very many");
    ck_assert_uint_eq(came + (size_t)counted("fn_log_lost_lines"), LINES);
    ck_assert_uint_eq(strtoul(strstr(text, " lines=") + 7, NULL, 10), LINES - came);
    ck_assert(strstr(text, "errors have room") < strstr(text, "log lines were lost"));
    log_info("after the gap");
    ck_assert(log_writer_flush(WAIT_MS));
}
END_TEST

START_TEST(a_moved_file_is_opened_anew)
{
    char moved[128];
    int fd = open_file();
    size_t n;

    start(fd, path);
    snprintf(moved, sizeof(moved), "%s.1", path);
    for (int i = 0; i < 1000; i++) {
        log_info("numbered", "n", log_num(i));
        if (i == 500) {
            ck_assert(log_writer_flush(WAIT_MS));
            ck_assert_int_eq(rename(path, moved), 0);
            log_writer_reopen();
        }
    }
    ck_assert(log_writer_flush(WAIT_MS));
    n = count(read_file(moved), "numbered");
    ck_assert_uint_gt(n, 500);
    ck_assert_uint_eq(n + count(read_file(path), "numbered"), 1000);
    ck_assert_ptr_nonnull(strstr(text, "n=999\n"));
    unlink(moved);
    close_file();
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_again)
{
    int fd = open_file();

    start(fd, "/nowhere/log");
    log_writer_reopen();
    log_info("told in the old one");
    ck_assert(log_writer_flush(WAIT_MS));
    ck_assert_ptr_nonnull(strstr(read_file(path), "cannot be opened again"));
    ck_assert_ptr_nonnull(strstr(text, "told in the old one"));
    close_file();
}
END_TEST

START_TEST(a_destination_that_cannot_be_opened)
{
    struct log_options o = { .dest = "file:///nowhere/log", .prefix = "" };
    struct fn_error e = ERR_INIT;
    struct log_writer_config writer;

    ck_assert_int_eq(log_dest_open(&o, 3, &writer, &e), FN_E_UNAVAILABLE);
    ck_assert_str_eq(e.msg, "log.dest file:///nowhere/log: cannot be opened: No such file or "
                            "directory");
    o.dest = "file:///tmp";
    ck_assert_int_eq(log_dest_open(&o, 3, &writer, &e), FN_E_UNAVAILABLE);
    ck_assert_str_eq(e.msg, "log.dest file:///tmp: cannot be opened: Is a directory");
}
END_TEST

static void limit_files(rlim_t bytes)
{
    struct rlimit l;

    getrlimit(RLIMIT_FSIZE, &l);
    l.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* The line goes to standard error as a whole; its torn beginning is ended before the next line. */
START_TEST(a_disk_that_is_full_for_a_while)
{
    int fd = open_file();
    int caught = catch_stderr();

    signal(SIGXFSZ, SIG_IGN);
    start(fd, path);
    log_info("before");
    ck_assert(log_writer_flush(WAIT_MS));
    limit_files((rlim_t)lseek(fd, 0, SEEK_END) + 10);
    log_info("while full");
    log_info("still full");
    ck_assert(log_writer_flush(WAIT_MS));
    limit_files(RLIM_INFINITY);
    log_info("after");
    ck_assert(log_writer_flush(WAIT_MS));
    ck_assert_int_eq(counted("fn_log_diverted_lines"), 2);
    ck_assert_int_eq(counted("fn_log_lost_lines"), 0);
    ck_assert_ptr_nonnull(strstr(read_until(caught, "still full"), "msg=\"while full\"\n"));
    read_file(path);
    ck_assert_ptr_nonnull(strstr(text, "msg=\"before\"\n"));
    ck_assert_uint_eq(count(text, "\n"), 3);
    ck_assert_uint_eq(count(text, "\ntime="), 2); /* each begins a line, the torn one, too */
    ck_assert_ptr_nonnull(strstr(text, "msg=\"after\"\n"));
    close_file();
}
END_TEST

/* Neither takes a line: it is counted, and told when the file takes lines again. */
START_TEST(nobody_takes_lines)
{
    int fd = open_file();
    int caught = catch_stderr();

    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    close(caught);
    start(fd, path);
    limit_files(0);
    log_info("lost");
    log_info("lost");
    ck_assert(log_writer_flush(WAIT_MS));
    ck_assert_int_eq(counted("fn_log_lost_lines"), 2);
    limit_files(RLIM_INFINITY);
    log_info("after");
    ck_assert(log_writer_flush(WAIT_MS));
    ck_assert_ptr_nonnull(strstr(read_file(path), "log lines were lost"));
    ck_assert_ptr_nonnull(strstr(text, " lines=2\n"));
    close_file();
}
END_TEST

/* A plugin may have closed it. */
START_TEST(a_descriptor_that_is_gone)
{
    int fd = open_file();
    int caught = catch_stderr();

    start(fd, NULL);
    close(fd);
    log_info("somebody closed the log");
    read_until(caught, "somebody closed the log");
    close_file();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log writer");
    TCase *t = tcase_create("log writer");
    SRunner *r;
    int failed;

    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_reader_that_stands_still);
    tcase_add_test(t, a_moved_file_is_opened_anew);
    tcase_add_test(t, a_file_that_cannot_be_opened_again);
    tcase_add_test(t, a_destination_that_cannot_be_opened);
    tcase_add_test(t, a_disk_that_is_full_for_a_while);
    tcase_add_test(t, nobody_takes_lines);
    tcase_add_test(t, a_descriptor_that_is_gone);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
