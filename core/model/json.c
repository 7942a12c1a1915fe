/* The reader walks over its text once and never goes back; strings are decoded where they lie. Of
 * what is open only the depth is kept: members and elements are read by whoever knows the shape. */
#include <model/json.h>

#include <base/runs.h>
#include <base/utf8.h>
#include <fn/abi.h>
#include <openssl/crypto.h>
#include <string.h>

/* ---- bytes that do not stand for themselves -------------------------------------------------- */

static inline uint64_t ends_reading(uint64_t eight)
{
    return eight | run_control(eight) | run_equal(eight, '"') | run_equal(eight, '\\');
}

/* The pairs '<' and '>', '"' and '&' differ in one bit. */
static inline uint64_t ends_writing(uint64_t eight)
{
    return eight | run_control(eight) | run_equal(eight | RUN_EACH('<' ^ '>'), '>') |
           run_equal(eight | RUN_EACH('"' ^ '&'), '&') | run_equal(eight, '\\');
}

/* ---- reading --------------------------------------------------------------------------------- */

int jr_fail(struct jr *r, const char *problem)
{
    if (!r->failed) {
        r->failed = FN_E_INVALID;
        r->problem = problem;
    }
    return r->failed;
}

static int no_memory(struct jr *r)
{
    jr_fail(r, "too large");
    r->failed = FN_E_EXHAUSTED;
    return r->failed;
}

void jr_init(struct jr *r, const char *text, size_t len, struct arena *arena)
{
    char *copy = arena_strndup(arena, text, len);

    *r = (struct jr){ .text = copy, .p = copy, .end = copy ? copy + len : NULL, .arena = arena,
                       .depth_max = JR_DEPTH_MAX };
    if (!copy) {
        no_memory(r);
    }
}

int jr_error(const struct jr *r, int code, const char *what, struct fn_error *reterr)
{
    uint32_t line = 1, column = 1;

    for (const char *p = r->text; p < r->p; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    return err_set(reterr, code, "%s: %u:%u %s", what, line, column,
                   r->problem ? r->problem : "too large");
}

/* The copy ends with a NUL, which is no blank. */
static void blanks(struct jr *r)
{
    while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r') {
        r->p++;
    }
}

enum jr_kind jr_peek(struct jr *r)
{
    static const unsigned char kinds[256] = {
        ['{'] = JR_OBJECT, ['['] = JR_ARRAY, ['"'] = JR_STRING, ['n'] = JR_NULL, ['t'] = JR_BOOL,
        ['f'] = JR_BOOL,   ['-'] = JR_NUMBER, ['0' ... '9'] = JR_NUMBER,
    };

    if (r->failed) {
        return JR_NOTHING;
    }
    blanks(r);
    return (enum jr_kind)kinds[(unsigned char)*r->p];
}

/* The value is of another kind than the field. */
static int wrong_kind(struct jr *r, const char *expected)
{
    return jr_fail(r, jr_peek(r) == JR_NOTHING ? "not JSON" : expected);
}

int jr_open(struct jr *r, enum jr_kind kind)
{
    if (jr_peek(r) != kind) {
        return wrong_kind(r, kind == JR_OBJECT ? "expected an object" : "expected a list");
    }
    if (r->depth >= r->depth_max) {
        return jr_fail(r, "nested deeper than 32");
    }
    r->depth++;
    r->p++;
    r->first = true;
    return 0;
}

/* After the end of a container, its parent has had a member: this one. */
static int close_with(struct jr *r)
{
    r->p++;
    r->depth--;
    r->first = false;
    return 0;
}

/* 1 when another item follows, 0 when `closing` was read. */
static int next_item(struct jr *r, char closing)
{
    if (r->failed) {
        return r->failed;
    }
    blanks(r);
    if (r->p < r->end && *r->p == closing) {
        return close_with(r);
    }
    if (!r->first) {
        if (r->p == r->end || *r->p != ',') {
            return jr_fail(r, closing == '}' ? "expected , or }" : "expected , or ]");
        }
        r->p++;
        blanks(r);
    }
    r->first = false;
    return 1;
}

/* 1 at the quote of the next key, 0 at the end of the object. */
static int next_key(struct jr *r)
{
    int more = next_item(r, '}');

    return more == 1 && *r->p != '"' ? jr_fail(r, "expected a key in quotes") : more;
}

static int colon(struct jr *r)
{
    blanks(r);
    if (*r->p != ':') {
        return jr_fail(r, "expected : after a key");
    }
    r->p++;
    return 0;
}

int jr_member(struct jr *r, const char **ret_key)
{
    int more = next_key(r);

    if (more == 1 && (jr_string(r, ret_key) < 0 || colon(r) < 0)) {
        return r->failed;
    }
    return more;
}

int jr_element(struct jr *r)
{
    int more = next_item(r, ']');

    if (more == 1 && jr_peek(r) == JR_NOTHING) {
        return jr_fail(r, "not JSON");
    }
    return more;
}

/* ---- strings --------------------------------------------------------------------------------- */

static size_t utf8_put(char *to, uint32_t cp)
{
    if (cp < 0x80) {
        to[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        to[0] = (char)(0xc0 | cp >> 6);
        to[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        to[0] = (char)(0xe0 | cp >> 12);
        to[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        to[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | cp >> 18);
    to[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    to[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    to[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

/* Four hex digits at p, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;

    for (int i = 0; i < 4 && v >= 0; i++) {
        int digit = end - p > i ? OPENSSL_hexchar2int((unsigned char)p[i]) : -1;

        v = digit < 0 ? -1 : v << 4 | digit;
    }
    return v;
}

/* r->p is behind "\u"; lone surrogates become U+FFFD as in Go. < 0 on error. */
static int64_t unicode_escape(struct jr *r)
{
    int32_t high = hex4(r->p, r->end);
    int32_t low;

    if (high < 0) {
        return jr_fail(r, "bad \\u escape");
    }
    r->p += 4;
    if (high < 0xd800 || high > 0xdfff) {
        return high;
    }
    if (high < 0xdc00 && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u') {
        low = hex4(r->p + 2, r->end);
        if (low >= 0xdc00 && low <= 0xdfff) {
            r->p += 6;
            return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return 0xfffd;
}

/* r->p is at the backslash. Bytes written, or < 0. */
static int escape(struct jr *r, char *to)
{
    static const char from[] = "\"\\/bfnrt";
    static const char plain[] = "\"\\/\b\f\n\r\t";
    const char *at;
    int64_t cp;

    r->p++;
    if (r->p == r->end) {
        return jr_fail(r, "text without end");
    }
    if (*r->p == 'u') {
        r->p++;
        cp = unicode_escape(r);
        return cp < 0 ? (int)cp : (int)utf8_put(to, (uint32_t)cp);
    }
    at = *r->p ? strchr(from, *r->p) : NULL;
    if (!at) {
        return jr_fail(r, "bad escape");
    }
    r->p++;
    *to = plain[at - from];
    return 1;
}

/* Decodes from r->p (behind the quote) into `to`; an invalid byte takes three there, and no
 * escape grows. */
static int json_decode(struct jr *r, char *to, size_t *ret_len)
{
    char *out = to;
    uint32_t n;
    int w;

    while (r->p < r->end && *r->p != '"') {
        unsigned char c = (unsigned char)*r->p;

        if (c == '\\') {
            w = escape(r, out);
            if (w < 0) {
                return w;
            }
            if (*out == '\0') {
                return jr_fail(r, "NUL in a text");
            }
            out += w;
        } else if (c < 0x20) {
            return jr_fail(r, c ? "control byte in a text" : "NUL in a text");
        } else {
            n = utf8_sequence(r->p, r->end);
            if (n == 0) {
                out += utf8_put(out, 0xfffd);
                r->p++;
            } else {
                memcpy(out, r->p, n);
                out += n;
                r->p += n;
            }
        }
    }
    if (r->p == r->end) {
        return jr_fail(r, "text without end");
    }
    r->p++;
    *ret_len = (size_t)(out - to);
    return 0;
}

/* A text with escapes or bytes beyond ASCII, from `start` (behind the quote). */
static int slow_string(struct jr *r, const char *start, const char **ret)
{
    const char *q = start;
    size_t room = 0;
    size_t len = 0;
    char *to;

    for (; q < r->end && *q != '"'; q++) {
        room += (unsigned char)*q >= 0x80 ? 3 : 1;
        if (*q == '\\') {
            q++;
            room++;
        }
    }
    to = arena_alloc(r->arena, room + 1); /* the text keeps its lines for jr_error() */
    if (!to) {
        return no_memory(r);
    }
    r->p = start;
    if (json_decode(r, to, &len) < 0) {
        return r->failed;
    }
    to[len] = '\0';
    *ret = to;
    return 0;
}

int jr_string(struct jr *r, const char **ret)
{
    const char *start;
    const char *end;

    if (r->failed) {
        return r->failed;
    }
    blanks(r);
    if (*r->p != '"') {
        return wrong_kind(r, "expected a text");
    }
    start = r->p + 1;
    end = run_end(start, r->end, ends_reading);
    if (end == r->end || *end != '"') {
        return slow_string(r, start, ret);
    }
    r->text[end - r->text] = '\0';
    *ret = start;
    r->p = end + 1;
    return 0;
}

/* ---- other scalars --------------------------------------------------------------------------- */

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }
    return p;
}

/* End of the number at r->p, or NULL; *ret_integer: no fraction, no exponent. */
static const char *number_end(const struct jr *r, bool *ret_integer)
{
    const char *p = r->p;
    const char *q;

    *ret_integer = true;
    if (p < r->end && *p == '-') {
        p++;
    }
    q = digits(p, r->end);
    if (q == p || (*p == '0' && q > p + 1)) {
        return NULL;
    }
    if (q < r->end && *q == '.') {
        *ret_integer = false;
        p = q + 1;
        q = digits(p, r->end);
        if (q == p) {
            return NULL;
        }
    }
    if (q < r->end && (*q | 0x20) == 'e') {
        *ret_integer = false;
        p = q + 1;
        if (p < r->end && (*p == '+' || *p == '-')) {
            p++;
        }
        q = digits(p, r->end);
        if (q == p) {
            return NULL;
        }
    }
    return q;
}

int jr_integer(struct jr *r, int64_t *ret)
{
    const char *end;
    const char *p;
    bool negative;
    bool integer;
    uint64_t v = 0;
    bool over = false;

    if (jr_peek(r) != JR_NUMBER) {
        return wrong_kind(r, "expected a whole number");
    }
    end = number_end(r, &integer);
    if (!end || !integer) {
        return jr_fail(r, end ? "expected a whole number" : "bad number");
    }
    negative = *r->p == '-';
    for (p = r->p + negative; p < end; p++) {
        over = over || v > (UINT64_MAX - 9) / 10;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    r->p = end;
    if (over || v > (uint64_t)INT64_MAX) {
        *ret = negative ? INT64_MIN : INT64_MAX;
        return FN_E_RANGE;
    }
    *ret = negative ? -(int64_t)v : (int64_t)v;
    return 0;
}

static int word(struct jr *r, const char *w, size_t len)
{
    if ((size_t)(r->end - r->p) < len || memcmp(r->p, w, len) != 0) {
        return jr_fail(r, "not JSON");
    }
    r->p += len;
    return 0;
}

static int json_bool(struct jr *r, bool *ret)
{
    if (jr_peek(r) != JR_BOOL) {
        return wrong_kind(r, "expected true or false");
    }
    *ret = *r->p == 't';
    return *ret ? word(r, "true", 4) : word(r, "false", 5);
}

int jr_null(struct jr *r)
{
    if (jr_peek(r) != JR_NULL) {
        return wrong_kind(r, "expected null");
    }
    return word(r, "null", 4);
}

/* ---- escapes --------------------------------------------------------------------------------- */

/* Length of the escape of the byte at p, or 0 when it stands for itself. */
static size_t escape_of(const char *p, const char *end, char ret[6], uint32_t *ret_used)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*p;

    *ret_used = 1;
    if (c == '"' || c == '\\') {
        ret[0] = '\\';
        ret[1] = (char)c;
        return 2;
    }
    if (c == '\n' || c == '\r' || c == '\t') {
        ret[0] = '\\';
        ret[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
        return 2;
    }
    if (c < 0x20 || c == '<' || c == '>' || c == '&') {
        memcpy(ret, "\\u00", 4);
        ret[4] = hex[c >> 4];
        ret[5] = hex[c & 15];
        return 6;
    }
    if (c < 0x80) {
        return 0;
    }
    *ret_used = utf8_sequence(p, end);
    if (*ret_used == 0) {
        *ret_used = 1;
        memcpy(ret, "\\ufffd", 6);
        return 6;
    }
    if (*ret_used == 3 && memcmp(p, "\xe2\x80", 2) == 0 && ((unsigned char)p[2] & 0xfe) == 0xa8) {
        memcpy(ret, p[2] & 1 ? "\\u2029" : "\\u2028", 6);
        return 6;
    }
    return 0;
}

/* ---- whole values ---------------------------------------------------------------------------- */

/* Copies the value at r->p into out (NULL = only checks it), without blanks between tokens. */
static int walk(struct jr *r, struct buf *out);

static int json_put(struct jr *r, struct buf *out, const char *s, size_t len)
{
    return out && buf_add(out, s, len) < 0 ? no_memory(r) : 0;
}

/* The text at r->p as it was written, with its own escapes. What Go's encoder lets nobody write
 * plainly is escaped. */
static int walk_string(struct jr *r, struct buf *out)
{
    const char *run = r->p++;
    char code[6];
    uint32_t used;
    size_t n;

    for (;;) {
        r->p = run_end(r->p, r->end, ends_writing);
        if (r->p == r->end || (unsigned char)*r->p < 0x20) {
            return jr_fail(r, r->p == r->end ? "text without end" : "control byte in a text");
        }
        if (*r->p == '"') {
            r->p++;
            return json_put(r, out, run, (size_t)(r->p - run));
        }
        if (*r->p == '\\') {
            if (escape(r, code) < 0) {
                return r->failed;
            }
            continue;
        }
        n = escape_of(r->p, r->end, code, &used);
        if (n > 0) {
            if (json_put(r, out, run, (size_t)(r->p - run)) < 0 || json_put(r, out, code, n) < 0) {
                return r->failed;
            }
            run = r->p + used;
        }
        r->p += used;
    }
}

/* A key with its colon and the value, or an element. 1, or 0 at the end. */
static int walk_item(struct jr *r, struct buf *out, enum jr_kind kind, bool first)
{
    int more = kind == JR_OBJECT ? next_key(r) : jr_element(r);

    if (more <= 0) {
        return more;
    }
    if (!first && json_put(r, out, ",", 1) < 0) {
        return r->failed;
    }
    if (kind == JR_OBJECT &&
        (walk_string(r, out) < 0 || colon(r) < 0 || json_put(r, out, ":", 1) < 0)) {
        return r->failed;
    }
    return walk(r, out) < 0 ? r->failed : 1;
}

static int walk_container(struct jr *r, struct buf *out, enum jr_kind kind)
{
    bool first = true;
    int more;

    if (jr_open(r, kind) < 0 || json_put(r, out, kind == JR_OBJECT ? "{" : "[", 1) < 0) {
        return r->failed;
    }
    while ((more = walk_item(r, out, kind, first)) == 1) {
        first = false;
    }
    return more < 0 ? more : json_put(r, out, kind == JR_OBJECT ? "}" : "]", 1);
}

static int walk(struct jr *r, struct buf *out)
{
    enum jr_kind kind = jr_peek(r);
    const char *start = r->p;
    const char *end;
    bool b;

    switch (kind) {
    case JR_OBJECT:
    case JR_ARRAY: return walk_container(r, out, kind);
    case JR_STRING: return walk_string(r, out);
    case JR_NUMBER:
        end = number_end(r, &b);
        if (!end) {
            return jr_fail(r, "bad number");
        }
        r->p = end;
        break;
    case JR_BOOL: json_bool(r, &b); break;
    case JR_NULL: jr_null(r); break;
    default: return jr_fail(r, r->p == r->end ? "text ends too soon" : "not JSON");
    }
    return r->failed ? r->failed : json_put(r, out, start, (size_t)(r->p - start));
}

int jr_skip(struct jr *r)
{
    return walk(r, NULL);
}

int jr_end(struct jr *r)
{
    if (r->failed) {
        return r->failed;
    }
    blanks(r);
    return r->p == r->end ? 0 : jr_fail(r, "text behind the end");
}

int jr_raw(struct jr *r, const char **ret)
{
    struct buf out = BUF_INIT(0);

    if (walk(r, &out) == 0) {
        *ret = arena_strndup(r->arena, out.data, out.len);
        if (!*ret) {
            no_memory(r);
        }
    }
    buf_finish(&out);
    return r->failed;
}

/* ---- writing --------------------------------------------------------------------------------- */

int jw_string_n(struct buf *out, const char *s, size_t len)
{
    const char *end = s + len;
    const char *run = s;
    char *to = buf_reserve(out, len + 2);
    char esc[6];
    uint32_t used;
    size_t n;

    if (!to) {
        return FN_E_EXHAUSTED;
    }
    *to = '"';
    out->len++;
    while ((s = run_end(s, end, ends_writing)) < end) {
        n = escape_of(s, end, esc, &used);
        if (n > 0) {
            if (buf_add(out, run, (size_t)(s - run)) < 0 || buf_add(out, esc, n) < 0) {
                return FN_E_EXHAUSTED;
            }
            run = s + used;
        }
        s += used;
    }
    return buf_add(out, run, (size_t)(s - run)) < 0 ? FN_E_EXHAUSTED : buf_add(out, "\"", 1);
}

int jw_string(struct buf *out, const char *s)
{
    return jw_string_n(out, s, strlen(s));
}

int jw_int(struct buf *out, int64_t n)
{
    char text[24];
    char *p = text + sizeof(text);
    uint64_t v = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    if (n < 0) {
        *--p = '-';
    }
    return buf_add(out, p, (size_t)(text + sizeof(text) - p));
}
