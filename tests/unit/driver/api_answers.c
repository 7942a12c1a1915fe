/* What an engine answers, good and bad: statuses, pulls, events, lists, frames of output; and who
 * of those that it tells of lives. */
#include "api_suites.h"
#include "docker.h"
#include "docker_api.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- answers --------------------------------------------------------------------------------- */

static int count_listed(void *ud, const struct api_listed *c)
{
    (void)c;
    ++*(int *)ud;
    return 0;
}

static int list(const char *text, int *n)
{
    struct api_list l = { .each = count_listed, .ud = n };

    api_list_feed(&l, text, strlen(text));
    return api_list_end(&l, &err);
}

struct told {
    struct api_event last;
    int n, malformed;
};

static void see_event(void *ud, const struct api_event *ev)
{
    struct told *t = ud;

    if (ev) {
        t->last = *ev;
        t->n++;
    } else {
        t->malformed++;
    }
}

START_TEST(garbage_is_an_error_everywhere)
{
    static const char *const bodies[] = { "", "{", "null", "[]", "{\"Id\":5}", "{\"Id\":\"../x\"}",
                                          "<html>", "\xff\xfe", "{\"Id\":\"abcdef", "12", "\"x\"" };
    char id[API_ID_MAX + 1];
    struct api_version v;
    struct api_state st;
    struct api_image image;
    struct api_usage usage;
    struct told told = { .n = 0 };
    struct api_events events = { .each = see_event, .ud = &told };
    int n = 0;

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const char *b = bodies[i];
        size_t len = strlen(b);

        clear();
        ck_assert_int_eq(api_parse_created(b, len, id, &err), FN_E_UNAVAILABLE);
        ck_assert_ptr_nonnull(strstr(err.msg, "malformed"));
        ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
        ck_assert_int_lt(api_parse_version(b, len, &v, &err), 0);
        ck_assert_int_lt(api_parse_state(b, len, &st, &err), 0);
        ck_assert_int_lt(api_parse_image(b, len, &image, &err), 0);
        ck_assert_int_lt(api_parse_usage(b, len, &usage, &err), 0);
        api_events_feed(&events, b, len);
        api_events_feed(&events, "\n", 1);
        if (strcmp(b, "[]") != 0) {
            ck_assert_int_lt(list(b, &n), 0);
        }
    }
    ck_assert_int_eq(told.n, 0);
    ck_assert_int_eq(told.malformed, (int)(sizeof(bodies) / sizeof(bodies[0])) - 1); /* one is "" */
    ck_assert_int_eq(list("[]", &n), 0);
    ck_assert_int_lt(list("[{}]", &n), 0);
    ck_assert_int_lt(list("[[1]]", &n), 0);
    ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(images_take_no_less_than_nothing)
{
    static const char body[] =
        "{\"LayersSize\":9,\"Images\":[{\"Id\":\"a\"},{\"Id\":\"b\",\"Size\":-9223372036854775808},"
        "{\"Id\":\"c\",\"Size\":7,\"SharedSize\":-1},{\"Id\":\"d\",\"Size\":7,\"SharedSize\":3}]}";
    static const int64_t own[] = { 0, 0, 7, 4 };
    struct api_usage usage;

    ck_assert_int_eq(api_parse_usage(body, strlen(body), &usage, &err), 0);
    ck_assert_int_eq(usage.layers_bytes, 9);
    ck_assert_uint_eq(usage.n, 4);
    for (size_t i = 0; i < usage.n; i++) {
        ck_assert_int_eq(usage.images[i].own_bytes, own[i]);
    }
    api_usage_finish(&usage);
}
END_TEST

START_TEST(engine_failures_have_codes_and_sentences)
{
    static const struct {
        uint32_t status;
        const char *body;
        int code, http;
        const char *text;
        bool elsewhere;
    } rows[] = {
        { 500, "{\"message\":\"boom\"}", FN_E_UNAVAILABLE, 0, "engine error 500: boom", true },
        { 500, "junk", FN_E_UNAVAILABLE, 0, "no reason given", true },
        { 401, "{}", FN_E_UNAVAILABLE, 0, "engine error 401", true },
        { 403, "{\"message\":\"Labels\"}", FN_E_UNAVAILABLE, 0, "engine error 403: Labels", true },
        { 404, "{\"message\":\"No such image\"}", FN_E_NOT_FOUND, 0, "No such image", false },
        { 409, "{\"message\":\"in use\"}", FN_E_EXISTS, 0, "in use", false },
        { 400, "{\"message\":\"Minimum memory\"}", FN_E_INVALID, 400, "Minimum memory", false },
        { 400,
          "{\"message\":\"invalid mount config for type \\\"bind\\\": bind source path does not exist: /x\"}",
          FN_E_UNAVAILABLE, 0, "does not exist: /x", false },
        { 500, "{\"message\":\"write: no space left on device\"}", FN_E_EXHAUSTED, 0,
          "disk is full", true },
        { 500, "{\"message\":\"OCI: mkdir /x: no space left on device: unknown\"}", FN_E_EXHAUSTED, 0,
          "disk is full", true },
        { 500,
          "{\"message\":\"chdir to cwd (\\\"/no space left on device\\\"): not a directory: unknown\"}",
          FN_E_UNAVAILABLE, 0, "engine error 500: chdir", true },
        { 500, "{\"message\":\"failed to initialize logging driver: x\"}", FN_E_INVALID, 500,
          "Syslog Unavailable", false },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        clear();
        ck_assert_int_eq(api_failure("create", rows[i].status, rows[i].body, strlen(rows[i].body),
                                     &err),
                         rows[i].code);
        ck_assert_int_eq(err.http_status, rows[i].http);
        ck_assert_uint_eq(err.blame, rows[i].http ? FN_BLAME_USER : FN_BLAME_PLATFORM);
        ck_assert_int_eq((err.flags & FN_ERR_RETRY) != 0, rows[i].elsewhere);
        ck_assert_ptr_nonnull(strstr(err.msg, rows[i].text));
    }
}
END_TEST

START_TEST(the_api_version_is_checked)
{
    struct api_version v;
    static const char good[] = "{\"Version\":\"20.10.24+dfsg1\",\"ApiVersion\":\"1.41\"}";
    static const char podman[] = "{\"Version\":\"4.3.1\",\"ApiVersion\":\"1.41\","
                                 "\"Components\":[{\"Name\":\"Podman Engine\"}]}";
    static const char old[] = "{\"Version\":\"17.03\",\"ApiVersion\":\"1.30\"}";

    ck_assert_int_eq(api_parse_version(good, strlen(good), &v, &err), 0);
    ck_assert_int_eq(v.api_number, 141);
    ck_assert_str_eq(v.version, "20.10.24+dfsg1");
    ck_assert(!v.podman);
    ck_assert_int_eq(api_parse_version(podman, strlen(podman), &v, &err), 0);
    ck_assert(v.podman);
    ck_assert_int_eq(api_parse_version(old, strlen(old), &v, &err), FN_E_PRECONDITION);
    ck_assert_str_eq(err.msg, "DOC1002 engine API 1.30; need >= 1.40");
}
END_TEST

START_TEST(pulls_end_in_success_or_one_sentence)
{
    static const char good[] = "{\"status\":\"Pulling\"}\r\n{\"status\":\"Done\"}\r\n";
    static const char bad[] = "{\"status\":\"x\"}\n{\"errorDetail\":{},\"error\":\"denied\"}\n";

    ck_assert_int_eq(api_parse_pull("i", good, strlen(good), &err), 0);
    ck_assert_int_lt(api_parse_pull("i", bad, strlen(bad), &err), 0);
    ck_assert_str_eq(err.msg, "Failed to pull image 'i': denied");
    ck_assert_int_eq(err.http_status, 502);
    ck_assert_int_lt(api_parse_pull("i", good, strlen(good) - 5, &err), 0); /* cut short */
    ck_assert_int_lt(api_pull_failure("i", 401, "{\"message\":\"no\"}", 16, &err), 0);
    ck_assert_int_eq(err.http_status, 401);
    ck_assert_int_lt(api_pull_failure("i", 500, "", 0, &err), 0);
    ck_assert_int_eq(err.http_status, 502);
    ck_assert_uint_eq(err.blame, FN_BLAME_USER);
}
END_TEST

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

START_TEST(a_failed_pull_names_its_cause_behind_long_digests)
{
    static const char image[] = "registry.example:5000/team/a@sha256:" ZEROS;
    static const char body[] = "{\"message\":\"manifest for registry.example:5000/team/a@sha256:" ZEROS
                               " not found: manifest unknown: sha256:0123 sha256:" ZEROS "\"}";

    ck_assert_int_eq(api_pull_failure(image, 404, body, sizeof(body) - 1, &err), FN_E_NOT_FOUND);
    ck_assert_str_eq(err.msg, "Failed to pull image 'registry.example:5000/team/a@sha256:"
                              "000000000000...': manifest for registry.example:5000/team/a@sha256:"
                              "000000000000... not found: manifest unknown: sha256:0123 sha256:"
                              "000000000000...");
}
END_TEST

START_TEST(a_pull_onto_a_full_disk_may_be_tried_elsewhere)
{
    static const char line[] = "{\"error\":\"failed to register layer: no space left on device\"}";
    static const char body[] = "{\"message\":\"mkdir /var/lib/docker/x: no space left on device\"}";

    ck_assert_int_eq(api_parse_pull("i", line, sizeof(line) - 1, &err), FN_E_EXHAUSTED);
    ck_assert_str_eq(err.msg, "i: the engine's disk is full: failed to register layer: no space left "
                              "on device");
    ck_assert_uint_eq(err.blame, FN_BLAME_PLATFORM);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    ck_assert_int_eq(api_pull_failure("i", 500, body, sizeof(body) - 1, &err), FN_E_EXHAUSTED);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
}
END_TEST

#define NO_SPACE "no space left on device"

/* Each engine in its own words. What a registry, which may be a tenant's, or an image says of a disk is
 * the user's error. */
START_TEST(a_full_disk_is_the_engines_to_tell)
{
    static const struct {
        const char *error;
        bool full;
    } rows[] = {
        { "failed to register layer: write /usr/x: " NO_SPACE, true },
        { "failed to register layer: ApplyLayer exit status 1 stdout:  stderr: mkdir /x: " NO_SPACE, true },
        { "open /var/lib/docker/tmp/GetImageBlob1: " NO_SPACE, true },
        { "failed to extract layer (x sha256:0) to overlayfs as e: write /x: " NO_SPACE ": unknown", true },
        { "failed to copy: failed to send write: write /x/data: " NO_SPACE ": unknown", true },
        { "writing blob: storing blob to file /var/tmp/1: write /var/tmp/1: " NO_SPACE, true },
        { "copying system image from manifest list: writing blob: adding layer with blob x: processing tar "
          "file(write /x: " NO_SPACE "): exit status 1", true },
        { "unknown: " NO_SPACE, false },
        { "unknown: write /var/lib/docker/x: " NO_SPACE, false },
        { "failed to copy: httpReadSeeker: failed open: unknown: " NO_SPACE, false },
        { "write: " NO_SPACE, false },
        { NO_SPACE, false },
        { "failed to register layer: invalid symlink /x -> /" NO_SPACE "/y", false },
        { "write /" NO_SPACE "/y: permission denied", false },
    };
    char line[512];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int code = rows[i].full ? FN_E_EXHAUSTED : FN_E_UNAVAILABLE;

        clear();
        snprintf(line, sizeof(line), "{\"error\":\"%s\"}", rows[i].error);
        ck_assert_msg(api_parse_pull("i", line, strlen(line), &err) == code, "%s", err.msg);
        ck_assert_uint_eq(err.blame, rows[i].full ? FN_BLAME_PLATFORM : FN_BLAME_USER);
        ck_assert_uint_eq(err.flags, rows[i].full ? FN_ERR_RETRY : 0);
        snprintf(line, sizeof(line), "{\"message\":\"%s\"}", rows[i].error);
        ck_assert_msg(api_pull_failure("i", 500, line, strlen(line), &err) == code, "%s", err.msg);
        ck_assert_int_eq(api_pull_failure("i", 404, line, strlen(line), &err), FN_E_NOT_FOUND);
        ck_assert_uint_eq(err.blame, FN_BLAME_USER);
    }
}
END_TEST

/* Also where the message is cut when it is shown. */
START_TEST(a_name_cut_at_the_words_tells_of_no_full_disk)
{
    char line[2048];

    for (int pad = 0; pad < 700; pad++) {
        snprintf(line, sizeof(line), "{\"message\":\"write /%0*d" NO_SPACE "/y: not a directory\"}", pad,
                 0);
        ck_assert_int_eq(api_failure("start", 500, line, strlen(line), &err), FN_E_UNAVAILABLE);
        ck_assert_int_eq(api_pull_failure("i", 500, line, strlen(line), &err), FN_E_UNAVAILABLE);
    }
}
END_TEST

START_TEST(events_are_recognised)
{
    static const char die[] =
        "{\"status\":\"die\",\"id\":\"a\",\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{"
        "\"ID\":"
        "\"a\",\"Attributes\":{\"exitCode\":\"137\",\"name\":\"01X\"}},\"time\":1}\n";
    static const char other[] = "{\"Type\":\"network\",\"Action\":\"destroy\"}\r\n\r\n";
    size_t len = strlen(die);

    for (size_t cut = 0; cut < len; cut++) {
        struct told told = { .n = 0 };
        struct api_events e = { .each = see_event, .ud = &told };

        api_events_feed(&e, die, cut);
        api_events_feed(&e, die + cut, len - cut);
        ck_assert_int_eq(told.n, 1);
        ck_assert_int_eq(told.last.type, API_EVENT_DIE);
        ck_assert_int_eq(told.last.exit_code, 137);
        ck_assert_str_eq(told.last.name, "01X");
        api_events_feed(&e, other, strlen(other));
        ck_assert_int_eq(told.n, 2);
        ck_assert_int_eq(told.last.type, API_EVENT_OTHER);
        api_events_feed(&e, die, cut); /* truncated anywhere: only the next line is lost */
        api_events_feed(&e, "\n", 1);
        ck_assert_int_eq(told.malformed, cut > 0 && cut < len - 1);
        ck_assert_int_eq(told.n, cut == len - 1 ? 3 : 2);
    }
}
END_TEST

/* Engines have one of these names, or both. */
START_TEST(an_exit_code_has_two_names)
{
    static const char *const rows[] = {
        "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"Attributes\":{\"exitCode\":\"7\"}}}\n",
        "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"Attributes\":{\"containerExitCode\":\"7\"}}}\n",
        "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"Attributes\":{\"exitCode\":\"7\","
        "\"containerExitCode\":\"7\"}}}\n",
    };
    struct told told = { .n = 0 };
    struct api_events e = { .each = see_event, .ud = &told };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        api_events_feed(&e, rows[i], strlen(rows[i]));
        ck_assert_int_eq(told.n, (int)i + 1);
        ck_assert_int_eq(told.last.exit_code, 7);
    }
}
END_TEST

START_TEST(what_an_engine_has_is_understood)
{
    static const struct {
        const char *info;
        bool userns, seccomp, no_syslog;
    } rows[] = {
        { "{\"SecurityOptions\":[\"name=seccomp,profile=default\"]}", false, true, false },
        { "{\"SecurityOptions\":[\"name=userns\"]}", true, false, false },
        { "{\"SecurityOptions\":[\"name=seccomp\",\"name=rootless\"]}", true, true, false },
        { "{\"SecurityOptions\":null,\"Plugins\":{\"Log\":[\"none\"]}}", false, false, true },
        { "{\"Plugins\":{\"Log\":[\"local\",\"syslog\"]}}", false, false, false },
        { "{\"Plugins\":{\"Log\":[]}}", false, false, false },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct api_info info = { .cgroup_v1 = true };

        ck_assert_int_eq(api_parse_info(rows[i].info, strlen(rows[i].info), &info, NULL), 0);
        ck_assert_int_eq(info.userns, rows[i].userns);
        ck_assert_int_eq(info.seccomp, rows[i].seccomp);
        ck_assert_int_eq(info.no_syslog, rows[i].no_syslog);
        ck_assert(!info.cgroup_v1);
    }
}
END_TEST

/* One engine says "destroy", another "remove"; a network that is removed is no container. */
START_TEST(a_removal_has_two_names)
{
    static const struct {
        const char *line;
        enum api_event_type type;
    } rows[] = {
        { "{\"Type\":\"container\",\"Action\":\"destroy\"}\n", API_EVENT_DESTROY },
        { "{\"Type\":\"container\",\"Action\":\"remove\"}\n", API_EVENT_DESTROY },
        { "{\"Type\":\"network\",\"Action\":\"remove\"}\n", API_EVENT_OTHER },
        { "{\"Type\":\"image\",\"Action\":\"remove\"}\n", API_EVENT_IMAGE },
        { "{\"Type\":\"image\",\"Action\":\"untag\"}\n", API_EVENT_IMAGE },
    };
    struct told told = { .n = 0 };
    struct api_events e = { .each = see_event, .ud = &told };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        api_events_feed(&e, rows[i].line, strlen(rows[i].line));
        ck_assert_int_eq(told.n, (int)i + 1);
        ck_assert_int_eq(told.last.type, rows[i].type);
    }
}
END_TEST

START_TEST(events_are_asked_for_by_owner)
{
    static const char want[] =
        "/events?since=-15&filters=%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B%22die%22"
        "%2C%22died%22%2C%22oom%22%2C%22destroy%22%2C%22remove%22%5D%2C%22label%22%3A%5B%22"
        "io.fnd.owner%3Da%5C%22%26b%22%5D%7D";
    char path[512];

    ck_assert_int_eq(api_events_path("a\"&b", -15, path, sizeof(path)), 0);
    ck_assert_str_eq(path, want);
    ck_assert_int_eq(api_events_path("a\"&b", -15, path, strlen(want)), FN_E_RANGE);
    ck_assert_int_eq(api_image_events_path(7, path, sizeof(path)), 0);
    ck_assert_str_eq(path, "/events?since=7&filters=%7B%22type%22%3A%5B%22image%22%5D%7D");
}
END_TEST

/* However they are cut. */
START_TEST(lines_of_line_ends_are_no_events)
{
    static const char ends[] = "\r\r\r\n\n\r\n";

    for (size_t cut = 0; cut < sizeof(ends); cut++) {
        struct told told = { .n = 0 };
        struct api_events e = { .each = see_event, .ud = &told };

        api_events_feed(&e, ends, cut);
        api_events_feed(&e, ends + cut, sizeof(ends) - 1 - cut);
        ck_assert_int_eq(told.n + told.malformed, 0);
    }
}
END_TEST

/* Labels of 20 MB around what we read, in pieces as a connection brings them. */
static void feed_big(void (*feed)(void *reader, const char *data, size_t len), void *reader)
{
    static char piece[65536];

    memset(piece, 'x', sizeof(piece));
    for (int i = 0; i < 320; i++) {
        feed(reader, piece, sizeof(piece));
    }
}

static void feed_events(void *reader, const char *data, size_t len)
{
    api_events_feed(reader, data, len);
}

static void feed_list(void *reader, const char *data, size_t len)
{
    api_list_feed(reader, data, len);
}

START_TEST(events_of_any_size_are_learnt)
{
    struct told told = { .n = 0 };
    struct api_events e = { .each = see_event, .ud = &told };
    const char head[] = "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"Attributes\":{\"a\":\"";
    const char tail[] = "\",\"exitCode\":\"3\",\"name\":\"01Y\"}}}\n";

    api_events_feed(&e, head, strlen(head));
    feed_big(feed_events, &e);
    api_events_feed(&e, tail, strlen(tail));
    ck_assert_int_eq(told.n, 1);
    ck_assert_int_eq(told.last.exit_code, 3);
    ck_assert_str_eq(told.last.name, "01Y");
}
END_TEST

static int see_listed(void *ud, const struct api_listed *c)
{
    int *n = ud;

    ck_assert_str_eq(c->id, *n == 0 ? "aaaaaaaaaaaa" : "bbbbbbbbbbbb");
    ck_assert_str_eq(c->name, *n == 0 ? "one" : "");
    ck_assert_str_eq(c->owner, *n == 0 ? "me/\"x\"" : "");
    ck_assert_str_eq(c->instance, *n == 0 ? "i1" : "");
    ck_assert_int_eq(c->running, *n == 0);
    ++*n;
    return 0;
}

START_TEST(lists_are_read_at_any_cut_and_of_any_size)
{
    static const char text[] =
        "[ {\"Id\":\"aaaaaaaaaaaa\",\"Names\":[\"/one\",\"/x/alias\"],\"Ports\":[{\"Id\":7}],"
        "\"Labels\":{\"io.fnd.owner\":\"me\\/\\u0022x\\\"\",\"io.fnd.instance\":\"i1\",\"big\":\"\"},"
        "\"State\":\"paused\",\"HostConfig\":{\"State\":\"running\"}},\n"
        "{\"State\":\"exited\",\"Id\":\"bbbbbbbbbbbb\",\"Labels\":{},\"n\":-1.5e3,\"t\":true}]\n";
    size_t big = (size_t)(strstr(text, "big") - text) + strlen("big\":\"");
    size_t len = strlen(text);

    for (size_t cut = 0; cut < len; cut++) {
        int n = 0;
        struct api_list l = { .each = see_listed, .ud = &n };

        api_list_feed(&l, text, cut);
        if (cut < len - 1) {
            ck_assert_int_lt(api_list_end(&l, NULL), 0);
        }
        if (cut == big) {
            feed_big(feed_list, &l);
        }
        api_list_feed(&l, text + cut, len - cut);
        ck_assert_int_eq(api_list_end(&l, NULL), 0);
        ck_assert_int_eq(n, 2);
    }
}
END_TEST

/* ---- who lives ------------------------------------------------------------------------------- */

START_TEST(a_runner_lives_as_long_as_its_lock_is_held)
{
    char base[] = "/tmp/fnd-test-XXXXXX";
    char instance[64], file[80], iofs[80], label[LOCK_LABEL_MAX], other[LOCK_LABEL_MAX];
    int fd;

    ck_assert_ptr_nonnull(mkdtemp(base));
    snprintf(instance, sizeof(instance), "%s/fnd-iofs-1", base);
    snprintf(file, sizeof(file), "%s/.lock", instance);
    snprintf(iofs, sizeof(iofs), "%s/iofs1", instance);
    ck_assert_int_eq(mkdir(instance, 0700), 0);
    fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    lock_label(iofs, label, sizeof(label));
    ck_assert_ptr_nonnull(strstr(label, instance));
    ck_assert(!lock_is_dead(label) && lock_is_held(label));
    close(fd);
    ck_assert(lock_is_dead(label) && !lock_is_held(label));
    unlink(file); /* as cleaners of old files do */
    ck_assert(!lock_is_dead(label));
    rmdir(instance);
    ck_assert(lock_is_dead(label)); /* swept */
    snprintf(other, sizeof(other), "%s", label);
    other[0] = other[0] == '0' ? '1' : '0'; /* another machine */
    ck_assert(!lock_is_dead(other));
    snprintf(other, sizeof(other), "%s", label);
    *(strstr(other, " /") - 1) ^= 1; /* another directory of that name */
    ck_assert(!lock_is_dead(other));
    ck_assert(!lock_is_dead(""));
    ck_assert(!lock_is_dead("x 1:2 relative/path"));
    rmdir(base);
    ck_assert(!lock_is_dead(label)); /* nobody can tell */
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

struct seen {
    char text[3][64];
};

static void see_output(void *ud, uint32_t fd, const void *data, size_t len)
{
    struct seen *s = ud;
    size_t at = strlen(s->text[fd]);

    ck_assert_uint_lt(at + len, sizeof(s->text[0]));
    memcpy(s->text[fd] + at, data, len);
}

START_TEST(frames_are_taken_apart_at_any_cut)
{
    static const char bytes[] = "\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\4errs\1\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\1!";
    const size_t n = sizeof(bytes) - 1;

    for (size_t step = 1; step <= n; step++) {
        struct api_frames f = { .left = 0 };
        struct seen s = { .text = { "" } };

        for (size_t at = 0; at < n; at += step) {
            api_frames_feed(&f, bytes + at, n - at < step ? n - at : step, see_output, &s);
        }
        ck_assert_str_eq(s.text[1], "out!");
        ck_assert_str_eq(s.text[2], "errs");
        ck_assert(!f.broken);
    }
}
END_TEST

START_TEST(a_senseless_frame_ends_the_output)
{
    struct api_frames f = { .left = 0 };
    struct seen s = { .text = { "" } };

    api_frames_feed(&f, "hello world, no frames", 22, see_output, &s);
    ck_assert(f.broken);
    ck_assert_str_eq(s.text[1], "");
}
END_TEST

TCase *answers_case(void)
{
    TCase *t = tcase_create("answers");

    tcase_add_test(t, garbage_is_an_error_everywhere);
    tcase_add_test(t, images_take_no_less_than_nothing);
    tcase_add_test(t, engine_failures_have_codes_and_sentences);
    tcase_add_test(t, the_api_version_is_checked);
    tcase_add_test(t, pulls_end_in_success_or_one_sentence);
    tcase_add_test(t, a_failed_pull_names_its_cause_behind_long_digests);
    tcase_add_test(t, a_pull_onto_a_full_disk_may_be_tried_elsewhere);
    tcase_add_test(t, a_full_disk_is_the_engines_to_tell);
    tcase_add_test(t, a_name_cut_at_the_words_tells_of_no_full_disk);
    tcase_add_test(t, events_are_recognised);
    tcase_add_test(t, an_exit_code_has_two_names);
    tcase_add_test(t, what_an_engine_has_is_understood);
    tcase_add_test(t, a_removal_has_two_names);
    tcase_add_test(t, events_are_asked_for_by_owner);
    tcase_add_test(t, lines_of_line_ends_are_no_events);
    tcase_add_test(t, events_of_any_size_are_learnt);
    tcase_add_test(t, lists_are_read_at_any_cut_and_of_any_size);
    tcase_add_test(t, a_runner_lives_as_long_as_its_lock_is_held);
    tcase_add_test(t, frames_are_taken_apart_at_any_cut);
    tcase_add_test(t, a_senseless_frame_ends_the_output);
    return t;
}
