/* Explain: a text that libyaml refuses, in the operator's words.
 *
 * The parser names the place where it gave up, which is often the line behind the mistake: without
 * its colon a key is the beginning of a text that goes on. The lines around that place tell more.
 */
#include <conf/explain.h>

#include <base/utf8.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define KEY_BYTES_MAX 1024 /* libyaml looks for the colon of a key within so many */

struct line {
    const char *at;
    const char *end;
};

size_t conf_characters(const char *from, const char *to)
{
    size_t n = 0;

    for (; from < to; from++) {
        n += ((unsigned char)*from & 0xc0) != 0x80;
    }
    return n;
}

struct conf_place conf_place_of(const char *text, const char *at)
{
    struct conf_place place = { .line = 1 };
    const char *nl;

    for (; (nl = memchr(text, '\n', (size_t)(at - text))); text = nl + 1) {
        place.line++;
    }
    place.column = (int)conf_characters(text, at) + 1;
    return place;
}

/* Line n, 0..; empty behind the last one. */
static struct line line_of(const struct conf_text *t, size_t n)
{
    const char *end = t->at + t->len;
    struct line l = { t->at, t->at };

    for (;; n--) {
        l.end = memchr(l.at, '\n', (size_t)(end - l.at));
        l.end = l.end ? l.end : end;
        if (n == 0 || l.end == end) {
            break;
        }
        l.at = l.end + 1;
    }
    if (n > 0) {
        l.at = l.end = end;
    }
    l.end -= l.end > l.at && l.end[-1] == '\r';
    return l;
}

static const char *skip_blanks(struct line l)
{
    while (l.at < l.end && (*l.at == ' ' || *l.at == '\t')) {
        l.at++;
    }
    return l.at;
}

/* Where a mark's column begins: it counts characters. libyaml ends lines also at a CR alone and at
 * some characters beyond ASCII, so that the column may lie behind the line that is meant here. */
static const char *column_of(struct line l, size_t column)
{
    for (size_t i = 0; i < column && l.at < l.end; i++) {
        uint32_t n = utf8_sequence(l.at, l.end);

        l.at += n ? n : 1;
    }
    return l.at;
}

static bool says_nothing(struct line l)
{
    const char *at = skip_blanks(l);

    return at == l.end || *at == '#';
}

/* The last line before n that says something, or n. */
static size_t line_before(const struct conf_text *t, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (!says_nothing(line_of(t, i))) {
            return i;
        }
    }
    return n;
}

static void explain_say(struct conf_fault *f, size_t line, size_t column, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void explain_say(struct conf_fault *f, size_t line, size_t column, const char *fmt, ...)
{
    va_list ap;

    f->line = (int)line + 1;
    f->column = (int)column + 1;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
}

/* What the line says, without blanks and comment, quoted. */
static const char *words_of(struct line l)
{
    char text[80];
    const char *at = skip_blanks(l);

    for (const char *p = at; p < l.end; p++) {
        if (*p == '#' && p > at && p[-1] == ' ') {
            l.end = p;
        }
    }
    while (l.end > at && (l.end[-1] == ' ' || l.end[-1] == '\t')) {
        l.end--;
    }
    snprintf(text, sizeof(text), "%.*s", (int)(l.end - at), at);
    return conf_quote(text);
}

/* ---- bytes that look like blanks ------------------------------------------------------------- */

const char *conf_odd_blank(const char *at, const char *end)
{
    static const char *const odd[] = { "\xc2\xa0",     "\xe2\x80\x87", "\xe2\x80\xaf",
                                       "\xe3\x80\x80", "\xe2\x80\x8b", "\xef\xbb\xbf" };

    for (; at < end; at++) {
        for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
            size_t n = strlen(odd[i]);

            if ((size_t)(end - at) >= n && memcmp(at, odd[i], n) == 0) {
                return at;
            }
        }
    }
    return NULL;
}

void conf_odd_blank_text(const char *at, char *ret, size_t cap)
{
    const unsigned char *u = (const unsigned char *)at;
    unsigned code = u[0] < 0xe0 ? (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu)
                                : (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);

    snprintf(ret, cap, "%s, got U+%04X; expected a plain blank",
             code == 0xa0 ? "no-break space" : "a character that looks like a blank", code);
}

static bool explain_blanks(const struct conf_text *t, size_t from, size_t to, struct conf_fault *f)
{
    for (size_t n = from; n <= to; n++) {
        struct line l = line_of(t, n);
        const char *tab = memchr(l.at, '\t', (size_t)(skip_blanks(l) - l.at));
        const char *odd = conf_odd_blank(l.at, l.end);

        if (tab && n == to) {
            explain_say(f, n, (size_t)(tab - l.at), "tab in indentation; expected blanks");
            return true;
        }
        if (odd) {
            explain_say(f, n, conf_characters(l.at, odd), "%s", "");
            conf_odd_blank_text(odd, f->text, sizeof(f->text));
            return true;
        }
    }
    return false;
}

/* ---- colons ---------------------------------------------------------------------------------- */

static bool has_key(struct line l)
{
    for (const char *p = l.at; p < l.end; p++) {
        if (*p == ':' && (p + 1 == l.end || p[1] == ' ')) {
            return true;
        }
    }
    return false;
}

static void explain_no_colon(const struct conf_text *t, size_t n, struct conf_fault *f)
{
    struct line l = line_of(t, n);
    size_t column = (size_t)(skip_blanks(l) - l.at);

    if (l.end - l.at > KEY_BYTES_MAX && has_key(l)) {
        explain_say(f, n, column, "a key that is too long, got %s; expected at most %d bytes",
                    words_of(l), KEY_BYTES_MAX);
    } else if (memchr(l.at, ':', (size_t)(l.end - l.at))) {
        explain_say(f, n, column, "no blank behind the colon, got %s; expected key: value",
                    words_of(l));
    } else {
        explain_say(f, n, column, "no colon, got %s; expected key: value", words_of(l));
    }
}

/* "mapping values are not allowed in this context": a key where a value goes on. */
static void explain_stray_key(const struct conf_text *t, const yaml_mark_t *mark,
                              struct conf_fault *f)
{
    struct line here = line_of(t, mark->line);
    size_t before = line_before(t, mark->line);

    if (has_key((struct line){ here.at, column_of(here, mark->column) })) {
        explain_say(f, mark->line, mark->column,
                    "a second colon in one line, got %s; expected one, or quotes around the value",
                    words_of(here));
    } else if (before < mark->line && !has_key(line_of(t, before))) {
        explain_no_colon(t, before, f);
    } else {
        explain_say(f, mark->line, (size_t)(skip_blanks(here) - here.at),
                    "deeper than line %zu, which has a value; expected the same indentation",
                    before + 1);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool is(const char *said, const char *part)
{
    return said && strstr(said, part);
}

static void explain_rest(const struct conf_text *t, const yaml_parser_t *p, struct conf_fault *f)
{
    size_t line = p->context_mark.line + 1;
    size_t column = p->context_mark.column + 1;
    struct line here = line_of(t, p->problem_mark.line);
    const char *at = column_of(here, p->problem_mark.column);

    if (is(p->context, "flow") && at < here.end && *at == ':') {
        explain_stray_key(t, &p->problem_mark, f);
    } else if (is(p->context, "flow mapping") || is(p->context, "flow sequence")) {
        explain_say(f, p->problem_mark.line, p->problem_mark.column,
                    "%c of line %zu, column %zu is not closed; expected , or %c",
                    is(p->context, "mapping") ? '{' : '[', line, column,
                    is(p->context, "mapping") ? '}' : ']');
    } else if (is(p->context, "block mapping") && is(p->problem, "expected key")) {
        explain_say(f, p->problem_mark.line, p->problem_mark.column,
                    "no key, or wrong indentation; expected a key in column %zu, as in line %zu",
                    column, line);
    } else if (is(p->context, "block collection")) {
        explain_say(
            f, p->problem_mark.line, p->problem_mark.column,
            "no item of the list of line %zu, or wrong indentation; expected - in column %zu", line,
            column);
    } else {
        explain_say(f, p->problem_mark.line, p->problem_mark.column, "not YAML: %s%s%s",
                    p->problem ? p->problem : "cannot be read", p->context ? " " : "",
                    p->context ? p->context : "");
    }
}

static void explain_character(const struct conf_text *t, const yaml_mark_t *mark,
                              struct conf_fault *f)
{
    struct line l = line_of(t, mark->line);

    explain_say(f, mark->line, mark->column,
                "a value cannot begin so, got %s; expected it in quotes",
                words_of((struct line){ column_of(l, mark->column), l.end }));
}

/* Bytes that no YAML may have: the reader knows their offset only. */
static void explain_bytes(const struct conf_text *t, const yaml_parser_t *p, struct conf_fault *f)
{
    size_t at = p->problem_offset < t->len ? p->problem_offset : t->len;
    struct conf_place place = conf_place_of(t->at, t->at + at);

    explain_say(f, (size_t)place.line - 1, (size_t)place.column - 1,
                "a control character, got 0x%02x; expected text", (unsigned)p->problem_value);
}

void conf_explain(const struct conf_text *t, const yaml_parser_t *p, struct conf_fault *ret)
{
    size_t line = p->problem_mark.line;

    if (p->error == YAML_MEMORY_ERROR) {
        explain_say(ret, line, p->problem_mark.column, "out of memory");
    } else if (p->error == YAML_READER_ERROR) {
        explain_bytes(t, p, ret);
    } else if (is(p->context, "quoted scalar") && is(p->problem, "end of stream")) {
        explain_say(ret, p->context_mark.line, p->context_mark.column,
                    "quote is not closed; expected one more behind the text");
    } else if (explain_blanks(t, line_before(t, line), line, ret)) {
        return;
    } else if (is(p->problem, "mapping values are not allowed")) {
        explain_stray_key(t, &p->problem_mark, ret);
    } else if (is(p->problem, "could not find expected ':'")) {
        explain_no_colon(t, p->context_mark.line, ret);
    } else if (is(p->problem, "cannot start any token")) {
        explain_character(t, &p->problem_mark, ret);
    } else {
        explain_rest(t, p, ret);
    }
}
