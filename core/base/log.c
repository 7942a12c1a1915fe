/* Formats a line in a buffer on the stack: each field is added whole or not at all, so that no
 * escape is cut. Gates count what may not pass. */
#include <base/log.h>

#include <base/metric.h>
#include <base/utf8.h>
#include <errno.h>
#include <fn/abi.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define TAIL_ROOM   8 /* what ends a cut line: three dots, quote, brace, newline */
#define NUM_BUFFERS 16
#define NUM_BYTES   24

/* A line under construction. Once `cut` is set nothing more is added but the end. */
struct line {
    enum log_format format;
    size_t len;
    bool cut;
    char data[LOG_LINE_MAX];
};

/* Written once by log_setup() before other threads exist; the level may be read at any time. */
static struct log_config setup = { .level = FN_LOG_INFO, .format = LOG_TEXT, .fd = STDERR_FILENO };

static struct metric *log_suppressed_lines(void)
{
    static struct metric *_Atomic lines;
    struct metric *m = lines;

    if (!m) {
        m = metric_simple("fn_log_suppressed_lines", METRIC_COUNTER,
                          "Log lines of one kind that were left out because there were too "
                          "many of them.");
        lines = m;
    }
    return m;
}

void log_setup(const struct log_config *config)
{
    setup = *config;
    log_suppressed_lines(); /* it is there at zero */
}

uint32_t log_level(void)
{
    return __atomic_load_n(&setup.level, __ATOMIC_RELAXED);
}

void log_set_level(uint32_t level)
{
    __atomic_store_n(&setup.level, level, __ATOMIC_RELAXED);
}

const uint32_t *log_level_address(void)
{
    return &setup.level;
}

int log_level_parse(const char *text, uint32_t *ret_level)
{
    static const struct {
        const char *word;
        uint32_t level;
    } words[] = {
        { "panic", FN_LOG_ERROR }, { "fatal", FN_LOG_ERROR },  { "error", FN_LOG_ERROR },
        { "warn", FN_LOG_WARN },   { "warning", FN_LOG_WARN }, { "info", FN_LOG_INFO },
        { "debug", FN_LOG_DEBUG }, { "trace", FN_LOG_DEBUG },
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i].word) == 0) {
            *ret_level = words[i].level;
            return 0;
        }
    }
    return FN_E_INVALID;
}

static const char *const level_words[] = { [FN_LOG_ERROR] = "error",
                                           [FN_LOG_WARN] = "warning",
                                           [FN_LOG_INFO] = "info",
                                           [FN_LOG_DEBUG] = "debug" };

static size_t room(const struct line *l)
{
    size_t usable = sizeof(l->data) - TAIL_ROOM;

    return l->len < usable ? usable - l->len : 0;
}

/* All or nothing, so that no escape sequence and no character is cut in two. */
static void line_put(struct line *l, const char *data, size_t len)
{
    if (l->cut || len > room(l)) {
        l->cut = true;
        return;
    }
    memcpy(l->data + l->len, data, len);
    l->len += len;
}

static void put_str(struct line *l, const char *s)
{
    line_put(l, s, strlen(s));
}

static void put_escaped_char(struct line *l, uint32_t code)
{
    char text[16];

    switch (code) {
    case '\n':
        line_put(l, "\\n", 2);
        return;
    case '\r':
        line_put(l, "\\r", 2);
        return;
    case '\t':
        line_put(l, "\\t", 2);
        return;
    default:
        snprintf(text, sizeof(text), code < 0x80 && l->format == LOG_TEXT ? "\\x%02x" : "\\u%04x",
                 code);
        put_str(l, text);
    }
}

static void put_escaped(struct line *l, const char *s)
{
    const char *end = s + strlen(s);
    char text[8];

    while (s < end && !l->cut) {
        uint32_t len = utf8_sequence(s, end);
        uint32_t code = utf8_code(s, len);

        if (len == 0 && l->format == LOG_JSON) {
            put_str(l, "\\ufffd");
        } else if (len == 0) {
            snprintf(text, sizeof(text), "\\x%02x", (unsigned char)*s);
            put_str(l, text);
        } else if (code == '"' || code == '\\') {
            text[0] = '\\';
            text[1] = (char)code;
            line_put(l, text, 2);
        } else if (utf8_is_dangerous(code)) {
            put_escaped_char(l, code);
        } else {
            line_put(l, s, len);
        }
        s += len ? len : 1;
    }
}

static void put_quoted(struct line *l, const char *s)
{
    line_put(l, "\"", 1);
    if (l->cut) {
        return; /* the caller left room for the empty value */
    }
    put_escaped(l, s);
    if (l->cut) {
        memcpy(l->data + l->len, "...", 3);
        l->len += 3;
    }
    l->data[l->len++] = '"'; /* room is part of TAIL_ROOM */
}

static bool is_bare(const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._/@^+";

    return *s && s[strspn(s, plain)] == '\0';
}

static void put_field(struct line *l, const char *key, const char *value)
{
    bool json = l->format == LOG_JSON;
    size_t need = strlen(key) + 6; /* separator, key, its quotes and colon, quote of the value */

    if (l->cut || need > room(l)) {
        l->cut = true;
        return;
    }
    if (json) {
        put_str(l, l->len > 1 ? ",\"" : "\"");
        put_str(l, key);
        put_str(l, "\":");
        put_quoted(l, value);
        return;
    }
    if (l->len > 0) {
        put_str(l, " ");
    }
    put_str(l, key);
    put_str(l, "=");
    if (is_bare(value) && strcmp(key, "msg") != 0 && strlen(value) <= room(l)) {
        put_str(l, value);
    } else {
        put_quoted(l, value);
    }
}

static void end_line(struct line *l)
{
    if (l->format == LOG_JSON) {
        l->data[l->len++] = '}';
    }
    l->data[l->len++] = '\n';
}

static void put_time(struct line *l, int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / 1000000000);
    char text[64];
    struct tm tm;
    size_t n;

    gmtime_r(&seconds, &tm);
    n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    if (l->format == LOG_JSON) {
        snprintf(text + n, sizeof(text) - n, ".%09dZ", (int)(wall_ns % 1000000000));
    } else {
        snprintf(text + n, sizeof(text) - n, "Z");
    }
    put_field(l, "time", text);
}

size_t log_put(int fd, const char *data, size_t len, int timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    size_t done = 0;

    while (done < len) {
        size_t piece = len - done < PIPE_BUF ? len - done : PIPE_BUF;
        ssize_t n = poll(&p, 1, timeout_ms) == 1 ? write(fd, data + done, piece) : 0;

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    return done;
}

static int64_t wall_now_ns(void)
{
    struct timespec ts;

    if (setup.wall_ns) {
        return setup.wall_ns();
    }
    return timespec_get(&ts, TIME_UTC) ? (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec : 0;
}

static void put_fields(struct line *l, va_list ap)
{
    const char *key;

    while ((key = va_arg(ap, const char *))) {
        const char *value = va_arg(ap, const char *);

        if (value) {
            put_field(l, key, value);
        }
    }
}

/* Logging is no event for the code that logs: errno stays. */
static void log_write_line(uint32_t level, uint32_t suppressed, const char *msg, va_list ap)
{
    int64_t wall_ns = wall_now_ns();
    int saved_errno = errno;
    struct line l;

    l.format = setup.format;
    l.len = 0;
    l.cut = false;
    if (l.format == LOG_JSON) {
        put_str(&l, "{");
    }
    put_time(&l, wall_ns);
    put_field(&l, "level", level_words[level < FN_LOG_DEBUG ? level : FN_LOG_DEBUG]);
    put_field(&l, "msg", msg);
    if (suppressed > 0) {
        put_field(&l, "suppressed", log_num(suppressed));
    }
    put_fields(&l, ap);
    end_line(&l);
    if (setup.sink) {
        setup.sink(level, wall_ns, l.data, l.len);
    } else {
        log_put(setup.fd, l.data, l.len, LOG_DIRECT_WAIT_MS);
    }
    errno = saved_errno;
}

void log_write(uint32_t level, const char *msg, ...)
{
    va_list ap;

    if (level <= log_level()) {
        va_start(ap, msg);
        log_write_line(level, 0, msg, ap);
        va_end(ap);
    }
}

void log_lines(uint32_t level, const char *text)
{
    char line[LOG_LINE_MAX];

    while (*text) {
        size_t len = strcspn(text, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)len, text);
        log_write(level, line, (char *)NULL);
        text += len + (text[len] == '\n');
    }
}

const char *log_num(int64_t n)
{
    static _Thread_local char buffers[NUM_BUFFERS][NUM_BYTES];
    static _Thread_local uint32_t next;
    char *text = buffers[next++ % NUM_BUFFERS];

    snprintf(text, NUM_BYTES, "%" PRId64, n);
    return text;
}

/* A clock that was set back begins a new window. */
bool log_gate_open(struct log_gate *g, int64_t now_ns, int64_t interval_ns, uint32_t burst,
                   uint32_t *ret_suppressed)
{
    if (g->passed == 0 || now_ns < g->window_ns || now_ns - g->window_ns >= interval_ns) {
        g->window_ns = now_ns;
        g->passed = 0;
    }
    if (g->passed >= burst) {
        g->suppressed++;
        metric_add(log_suppressed_lines(), 1);
        return false;
    }
    g->passed++;
    *ret_suppressed = g->suppressed;
    g->suppressed = 0;
    return true;
}

void log_write_gated(struct log_gate *g, uint32_t lines, uint32_t level, const char *msg, ...)
{
    static pthread_mutex_t gates = PTHREAD_MUTEX_INITIALIZER;
    uint32_t suppressed = 0;
    bool open = level >= FN_LOG_DEBUG; /* whoever asks for these wants all of them */
    va_list ap;

    if (level > log_level()) {
        return;
    }
    if (!open) {
        pthread_mutex_lock(&gates);
        open = log_gate_open(g, wall_now_ns(), LOG_GATE_NS, lines, &suppressed);
        pthread_mutex_unlock(&gates);
    }
    if (!open) {
        return;
    }
    va_start(ap, msg);
    log_write_line(level, suppressed, msg, ap);
    va_end(ap);
}
