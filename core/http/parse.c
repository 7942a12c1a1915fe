/* Heads of requests and answers.
 *
 * The head is copied into the arena once and cut up in place: names and values are pointers into
 * that copy, ended by writing NUL over the colon and the line end behind them. */
#include <http/parse.h>

#include <base/runs.h>
#include <fn/abi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SPARE_FIELDS 4 /* room for what a handler adds */
#define QUOTED_MAX   64

#define KIB 1024

int refuse(struct refusal *r, int status, const char *fmt, ...)
{
    va_list ap;

    r->status = status;
    va_start(ap, fmt);
    vsnprintf(r->text, sizeof(r->text), fmt, ap);
    va_end(ap);
    return FN_E_INVALID;
}

/* RFC 9110 5.6.2 */
static const bool token_chars[256] = {
    ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true,       ['\''] = true,
    ['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true, ['^'] = true,       ['_'] = true,
    ['`'] = true, ['|'] = true, ['~'] = true, ['0' ... '9'] = true, ['A' ... 'Z'] = true,
    ['a' ... 'z'] = true,
};

/* RFC 3986 3.2.2, with a port */
static const bool host_chars[256] = {
    ['-'] = true, ['.'] = true,  ['_'] = true, ['~'] = true, ['%'] = true, ['!'] = true,
    ['$'] = true, ['&'] = true,  ['\''] = true, ['('] = true, [')'] = true, ['*'] = true,
    ['+'] = true, [','] = true,  [';'] = true, ['='] = true, [':'] = true, ['['] = true,
    [']'] = true, ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

bool parse_is_token_char(char c)
{
    return token_chars[(unsigned char)c];
}

bool parse_is_token(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!parse_is_token_char(s[i])) {
            return false;
        }
    }
    return len > 0;
}

static inline uint64_t is_control(uint64_t eight)
{
    return (run_control(eight) | run_equal(eight, 0x7f)) & ~eight;
}

bool parse_is_value(const char *s, size_t len)
{
    const char *end = s + len;

    while ((s = run_end(s, end, is_control)) < end && *s == '\t') {
        s++;
    }
    return s == end;
}

/* ---- the end of the head -------------------------------------------------------------------- */

static int64_t refuse_line(size_t max, struct refusal *r)
{
    return refuse(r, 414, "HTTP109 request line > %zu bytes", max);
}

int64_t parse_seek_end(struct parse_seek *seek, const char *data, size_t len,
                       const struct parse_limits *limits, struct refusal *r)
{
    size_t max = limits->head_bytes_max;
    size_t visible = len < max ? len : max;

    if (len > 0 && !parse_is_token_char(data[0])) {
        return 1;
    }
    while (seek->from < visible) {
        const char *lf = memchr(data + seek->from, '\n', visible - seek->from);
        size_t at;

        if (!lf) {
            seek->from = visible;
            break;
        }
        at = (size_t)(lf - data);
        seek->from = at + 1;
        if (!seek->line_seen && at > limits->line_bytes_max + 1) {
            return refuse_line(limits->line_bytes_max, r);
        }
        seek->line_seen = true;
        if (data[at - 1] != '\r' || data[at - 2] == '\n') {
            return (int64_t)at + 1;
        }
    }
    if (!seek->line_seen && len > limits->line_bytes_max + 1) {
        return refuse_line(limits->line_bytes_max, r);
    }
    if (len >= max) {
        return max % KIB == 0 ? refuse(r, 431, "HTTP109 header block > %zu KiB", max / KIB)
                              : refuse(r, 431, "HTTP109 header block > %zu bytes", max);
    }
    return 0;
}

/* ---- fields --------------------------------------------------------------------------------- */

/* Cuts one line [line, lf) into *ret. */
static int cut_field(char *line, char *lf, unsigned number, struct header *ret, struct refusal *r)
{
    bool upper = true;
    char *p = line;
    char *end;

    for (; parse_is_token_char(*p); p++) {
        if (upper && *p >= 'a' && *p <= 'z') {
            *p = (char)(*p - 'a' + 'A');
        } else if (!upper && *p >= 'A' && *p <= 'Z') {
            *p = (char)(*p - 'A' + 'a');
        }
        upper = *p == '-';
    }
    if (p == line || *p != ':') {
        return refuse(r, 400, "HTTP105 invalid header name at line %u", number);
    }
    *p++ = '\0';
    ret->name = line;
    end = lf[-1] == '\r' ? lf - 1 : NULL;
    if (!end || end < p || !parse_is_value(p, (size_t)(end - p))) {
        return refuse(r, 400, "HTTP106 control byte in header \"%.*s\"", QUOTED_MAX, line);
    }
    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }
    while (end > p && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    *end = '\0';
    ret->value = p;
    return 0;
}

static uint32_t count_lines(const char *s, const char *end)
{
    uint32_t n = 0;

    while ((s = memchr(s, '\n', (size_t)(end - s)))) {
        s++;
        n++;
    }
    return n;
}

/* Cuts the lines from `line` to the empty one into ret. */
static int cut_fields(struct arena *arena, char *line, char *end, uint32_t fields_max,
                      struct headers *ret, struct refusal *r)
{
    uint32_t lines = count_lines(line, end);

    headers_init(ret, arena);
    ret->cap = (lines < fields_max ? lines : fields_max) + SPARE_FIELDS;
    ret->items = arena_alloc(arena, ret->cap * sizeof(*ret->items));
    if (!ret->items) {
        return FN_E_EXHAUSTED;
    }
    for (unsigned number = 2; line < end; number++) {
        char *lf = memchr(line, '\n', (size_t)(end - line));

        if (!lf || (lf == line + 1 && *line == '\r')) {
            break;
        }
        if (ret->n == fields_max) {
            return refuse(r, 431, "HTTP109 more than %u header fields", fields_max);
        }
        if (cut_field(line, lf, number, &ret->items[ret->n], r) < 0) {
            return FN_E_INVALID;
        }
        ret->n++;
        line = lf + 1;
    }
    return 0;
}

/* ---- framing -------------------------------------------------------------------------------- */

static bool parse_length(const char *s, uint64_t *ret)
{
    uint64_t n = 0;

    if (!*s) {
        return false;
    }
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || n > (INT64_MAX - 9) / 10) {
            return false;
        }
        n = n * 10 + (uint64_t)(*s - '0');
    }
    *ret = n;
    return true;
}

/* true when a comma separated list holds the word. */
static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list) {
        size_t n;

        list += strspn(list, ", \t");
        n = strcspn(list, ", \t");
        if (n == len && strncasecmp(list, word, n) == 0) {
            return true;
        }
        list += n;
    }
    return false;
}

struct special {
    const char *length, *coding, *host, *expect;
    uint32_t lengths_n, codings_n, hosts_n;
    bool close, keep_alive;
};

static void collect(const struct headers *h, struct special *ret)
{
    for (uint32_t i = 0; i < h->n; i++) {
        const struct header *f = &h->items[i];

        switch (f->name[0]) {
        case 'C':
            if (strcmp(f->name, "Content-Length") == 0) {
                ret->length = f->value;
                ret->lengths_n++;
            } else if (strcmp(f->name, "Connection") == 0) {
                ret->close |= list_has(f->value, "close");
                ret->keep_alive |= list_has(f->value, "keep-alive");
            }
            break;
        case 'E':
            if (strcmp(f->name, "Expect") == 0) {
                ret->expect = f->value;
            }
            break;
        case 'H':
            if (strcmp(f->name, "Host") == 0) {
                ret->host = f->value;
                ret->hosts_n++;
            }
            break;
        case 'T':
            if (strcmp(f->name, "Transfer-Encoding") == 0) {
                ret->coding = f->value;
                ret->codings_n++;
            }
            break;
        default:
            break;
        }
    }
}

static int frame(const struct special *s, bool http10, struct parse_framing *ret,
                 struct refusal *r)
{
    *ret = (struct parse_framing){ .keep_alive = http10 ? s->keep_alive && !s->close : !s->close };
    if (s->lengths_n > 0 && s->codings_n > 0) {
        return refuse(r, 400, "HTTP101 both Content-Length and Transfer-Encoding");
    }
    if (s->lengths_n > 0) {
        if (s->lengths_n > 1 || !parse_length(s->length, &ret->length)) {
            return refuse(r, 400, "HTTP102 invalid Content-Length");
        }
        ret->has_length = true;
    }
    if (s->codings_n > 0) {
        if (s->codings_n > 1 || http10 || strcasecmp(s->coding, "chunked") != 0) {
            return refuse(r, 501, "HTTP103 unsupported transfer coding");
        }
        ret->chunked = true;
    }
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool is_digits(const char *s, size_t n)
{
    return n > 0 && strspn(s, "0123456789") >= n;
}

static int check_version(const char *v, bool *ret_http10, struct refusal *r)
{
    size_t major;

    if (strncmp(v, "HTTP/1.", 7) == 0 && v[7] >= '0' && v[7] <= '9' && v[8] == '\0') {
        *ret_http10 = v[7] == '0'; /* a higher minor number means what 1.1 does */
        return 0;
    }
    if (strncmp(v, "HTTP/", 5) == 0) {
        major = strcspn(v + 5, ".");
        if (is_digits(v + 5, major) &&
            (v[5 + major] == '\0' || is_digits(v + 6 + major, strlen(v + 6 + major)))) {
            return refuse(r, 505, "HTTP108 request line: version, got \"%.*s\"; expected HTTP/1.1",
                          QUOTED_MAX, v);
        }
    }
    return refuse(r, 400, "HTTP108 request line: expected method, target and HTTP/1.1");
}

/* Those that are registered and in use, the frequent ones first (RFC 9110, 5789, 4918 ...). */
static bool is_method(const char *s)
{
    static const char *const methods[] = {
        "GET",      "POST",      "PUT",    "DELETE",     "HEAD",     "PATCH",      "OPTIONS",
        "COPY",     "LOCK",      "MKCOL",  "MOVE",       "PROPFIND", "PROPPATCH",  "SEARCH",
        "UNLOCK",   "BIND",      "REBIND", "UNBIND",     "ACL",      "REPORT",     "MKACTIVITY",
        "CHECKOUT", "MERGE",     "NOTIFY", "SUBSCRIBE",  "M-SEARCH", "UNSUBSCRIBE", "PURGE",
        "LINK",     "MKCALENDAR", "UNLINK", "SOURCE",
    };

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(s, methods[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* "host", "host:port", "[::1]:port"; a user's name is refused with its '@'. */
static bool is_authority(const char *s, size_t len)
{
    const char *end = s + len, *p = s;

    while (p < end && host_chars[(unsigned char)*p] && (*s == '[' || !strchr(":[]", *p))) {
        if (*p++ == ']') {
            break;
        }
    }
    if (p == s || (*s == '[' && p[-1] != ']')) {
        return false;
    }
    if (p < end && *p == ':') {
        p += 1 + strspn(p + 1, "0123456789");
    }
    return p == end;
}

#define BAD_TARGET "HTTP108 request line: invalid target"

/* Path, query and, in absolute form, the authority, which then replaces Host. */
static int cut_target(struct arena *arena, struct parsed_request *q, struct refusal *r)
{
    const char *path = q->target;
    const char *mark;

    if (*path == '*') {
        if (path[1] || strcmp(q->method, "OPTIONS") != 0) {
            return refuse(r, 400, BAD_TARGET);
        }
    } else if (*path != '/') {
        size_t host_at = strncasecmp(path, "http://", 7) == 0    ? 7
                         : strncasecmp(path, "https://", 8) == 0 ? 8
                                                                 : 0;
        size_t host_len = strcspn(path + host_at, "/?");

        if (host_at == 0 || host_len == 0 || !is_authority(path + host_at, host_len)) {
            return refuse(r, 400, BAD_TARGET);
        }
        q->host = arena_strndup(arena, path + host_at, host_len);
        path += host_at + host_len;
    }
    mark = strchr(path, '?');
    q->path = path;
    if (*path == '?' || !*path) {
        q->path = arena_strdup(arena, "/");
    } else if (mark) {
        q->path = arena_strndup(arena, path, (size_t)(mark - path));
    }
    q->query = mark ? mark + 1 : NULL;
    return q->path && q->host ? 0 : FN_E_EXHAUSTED;
}

/* Cuts the first line. Bytes above 0x7f are for the handler to refuse: Go takes them and answers
 * 404. */
static int cut_request_line(char *line, char *lf, struct parsed_request *q, struct refusal *r)
{
    char *p = line;

    while (parse_is_token_char(*p)) {
        p++;
    }
    if (p == line || *p != ' ' || lf[-1] != '\r' || p - line > PARSE_METHOD_MAX) {
        return refuse(r, 400, "HTTP108 request line: expected method, target and HTTP/1.1");
    }
    *p++ = '\0';
    lf[-1] = '\0';
    q->method = line;
    q->target = p;
    while ((unsigned char)*p > 0x20 && *p != 0x7f) {
        p++;
    }
    if (p == q->target || *p != ' ') {
        return refuse(r, 400, "HTTP108 request line: expected method, target and HTTP/1.1");
    }
    *p++ = '\0';
    if (strlen(p) != (size_t)(lf - 1 - p)) {
        return refuse(r, 400, "HTTP108 request line: NUL byte");
    }
    return check_version(p, &q->http10, r);
}

static bool is_host(const char *s)
{
    while (host_chars[(unsigned char)*s]) {
        s++;
    }
    return *s == '\0';
}

static int check_special(const struct special *s, struct parsed_request *q, struct refusal *r)
{
    if (s->hosts_n > 1 || (s->hosts_n == 0 && !q->http10)) {
        return refuse(r, 400, "HTTP107 Host: got %u fields; expected one", s->hosts_n);
    }
    if (s->host && !is_host(s->host)) {
        return refuse(r, 400, "HTTP107 Host: invalid character; expected host or host:port");
    }
    q->host = s->host ? s->host : "";
    if (s->expect && !q->http10) {
        if (strcasecmp(s->expect, "100-continue") != 0) {
            return refuse(r, 417, "HTTP112 Expect, got \"%.*s\"; expected 100-continue", QUOTED_MAX,
                          s->expect);
        }
        q->expects_continue = true;
    }
    return 0;
}

int parse_request(struct arena *arena, const char *data, size_t len,
                  const struct parse_limits *limits, struct parsed_request *ret,
                  struct refusal *r)
{
    char *head = arena_strndup(arena, data, len);
    struct parsed_request q = { 0 };
    struct special s = { 0 };
    char *lf;
    int e;

    if (!head) {
        return FN_E_EXHAUSTED;
    }
    lf = memchr(head, '\n', len);
    if (!lf || lf == head) {
        return refuse(r, 400, "HTTP108 request line: expected method, target and HTTP/1.1");
    }
    if ((e = cut_request_line(head, lf, &q, r)) < 0) {
        return e;
    }
    if (strcmp(q.method, "CONNECT") == 0 || strcmp(q.method, "TRACE") == 0) {
        return refuse(r, 405, "HTTP113 method not allowed: %s", q.method);
    }
    if ((e = cut_fields(arena, lf + 1, head + len, limits->fields_max, &q.headers, r)) < 0) {
        return e;
    }
    collect(&q.headers, &s);
    if ((e = frame(&s, q.http10, &q.framing, r)) < 0 || (e = check_special(&s, &q, r)) < 0 ||
        (e = cut_target(arena, &q, r)) < 0) {
        return e;
    }
    if (!is_method(q.method)) {
        return refuse(r, 405, "HTTP113 unknown method");
    }
    *ret = q;
    return 0;
}

/* ---- answers -------------------------------------------------------------------------------- */

static int cut_status_line(const char *line, const char *lf, struct parsed_answer *a,
                           struct refusal *r)
{
    size_t len = (size_t)(lf - line);

    /* "HTTP/1.1 200" and, behind a blank, any reason */
    if (len < 13 || lf[-1] != '\r' || strncmp(line, "HTTP/1.", 7) != 0 ||
        (line[7] != '0' && line[7] != '1') || line[8] != ' ' || line[9] < '1' || line[9] > '5' ||
        !is_digits(line + 9, 3) || (line[12] != ' ' && line[12] != '\r') ||
        !parse_is_value(line, len - 1)) {
        return refuse(r, 502, "status line, expected HTTP/1.1 and a status");
    }
    a->http10 = line[7] == '0';
    a->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0';
    return 0;
}

int parse_answer(struct arena *arena, const char *data, size_t len,
                 const struct parse_limits *limits, struct parsed_answer *ret, struct refusal *r)
{
    char *head = arena_strndup(arena, data, len);
    struct parsed_answer a = { 0 };
    struct special s = { 0 };
    char *lf;
    int e;

    if (!head) {
        return FN_E_EXHAUSTED;
    }
    lf = memchr(head, '\n', len);
    if (!lf) {
        return refuse(r, 502, "status line, expected HTTP/1.1 and a status");
    }
    if ((e = cut_status_line(head, lf, &a, r)) < 0 ||
        (e = cut_fields(arena, lf + 1, head + len, limits->fields_max, &a.headers, r)) < 0) {
        return e;
    }
    collect(&a.headers, &s);
    if ((e = frame(&s, a.http10, &a.framing, r)) < 0) {
        return e;
    }
    *ret = a;
    return 0;
}
