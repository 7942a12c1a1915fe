/* Problems: sentences for the operator, collected so that all are seen in one run. */
#include <conf/conf_int.h>

#include <base/log.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTE_BYTES_MAX 64
#define QUOTE_BUFFERS   4
#define CHOICES_BYTES   512
#define CHOICES_MAX     32
#define PART_MIN        3 /* letters */

struct conf_line {
    char where[CONF_WHERE_BYTES]; /* "" = no place */
    size_t len;
    bool counts; /* a problem, not what stays below one */
};

void conf_problems_init(struct conf_problems *p)
{
    *p = (struct conf_problems){ .text = BUF_INIT(0) };
}

void conf_problems_finish(struct conf_problems *p)
{
    buf_finish(&p->text);
    free(p->lines);
    p->lines = NULL;
    p->n_lines = 0;
}

static bool was_told(struct conf_problems *p, struct buf *line)
{
    const char *text = buf_text(&p->text);

    for (const char *at = text; (at = strstr(at, buf_text(line))); at++) {
        if (at == text || at[-1] == '\n') {
            return true;
        }
    }
    return false;
}

static bool is_before(const char *where, const struct conf_line *line)
{
    return where[0] && line->where[0] && strverscmp(where, line->where) < 0;
}

/* Before the lines of later places that are the last ones. A word about no memory stays behind
 * all of them. */
static int insert_line(struct conf_problems *p, const char *where, bool counts, struct buf *line)
{
    struct conf_line *lines = realloc(p->lines, (p->n_lines + 1) * sizeof(*lines));
    struct conf_line fresh = { .len = line->len, .counts = counts };
    size_t len = p->text.len;
    uint32_t i = p->n_lines;
    size_t at = 0;

    p->lines = lines ? lines : p->lines;
    if (!lines || buf_add(&p->text, line->data, line->len) < 0) {
        return FN_E_EXHAUSTED;
    }
    snprintf(fresh.where, sizeof(fresh.where), "%s", where ? where : "");
    while (i > 0 && is_before(fresh.where, &lines[i - 1])) {
        i--;
    }
    for (uint32_t k = 0; k < i; k++) {
        at += lines[k].len;
    }
    memmove(p->text.data + at + line->len, p->text.data + at, len - at);
    memcpy(p->text.data + at, line->data, line->len);
    memmove(&lines[i + 1], &lines[i], (p->n_lines - i) * sizeof(*lines));
    lines[i] = fresh;
    p->n_lines++;
    return 0;
}

/* False: it is there already. What there is no memory to tell counts all the same. */
static bool add_line(struct conf_problems *p, const char *code, const char *where,
                     const char *weight, const char *fmt, va_list ap)
    __attribute__((format(printf, 5, 0)));

static bool add_line(struct conf_problems *p, const char *code, const char *where,
                     const char *weight, const char *fmt, va_list ap)
{
    struct buf line = BUF_INIT(0);
    bool fresh;

    buf_printf(&line, "%s%s%s%s%s", code ? code : "", code ? " " : "", where ? where : "",
               where ? ": " : "", weight);
    buf_vprintf(&line, fmt, ap);
    buf_add_str(&line, "\n");
    fresh = line.failed || !was_told(p, &line);
    if (fresh && (line.failed || insert_line(p, where, !weight[0], &line) < 0)) {
        buf_add_str(&p->text, "out of memory for this line\n");
    }
    buf_finish(&line);
    return fresh;
}

void conf_say(struct conf_problems *p, enum conf_weight weight, const char *code,
              const char *where, const char *fmt, ...)
{
    bool counts = weight == CONF_PROBLEM || (weight == CONF_WARNING && p->strict);
    const char *word = counts ? "" : weight == CONF_WARNING ? "warning: " : "note: ";
    uint32_t *told = weight == CONF_PROBLEM ? &p->n : &p->warnings;
    bool fresh = true;
    va_list ap;

    if (*told < CONF_PROBLEMS_MAX) {
        va_start(ap, fmt);
        fresh = add_line(p, code, where, word, fmt, ap);
        va_end(ap);
    }
    *told += fresh;
    p->n += fresh && counts && weight == CONF_WARNING;
}

void conf_problems_copy(struct conf_problems *p, bool counts, struct buf *out)
{
    const char *at = buf_text(&p->text);

    for (uint32_t i = 0; i < p->n_lines; at += p->lines[i++].len) {
        if (p->lines[i].counts == counts) {
            buf_add(out, at, p->lines[i].len);
        }
    }
    if (counts) {
        buf_add_str(out, at); /* words about no memory */
    }
}

static bool is_note(const char *line)
{
    const char *note = strstr(line, "note: ");
    const char *warning = strstr(line, "warning: ");

    return note && (!warning || note < warning);
}

void conf_log_warnings(const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        char *line = strndup(text, len);

        log_lines(line && is_note(line) ? FN_LOG_INFO : FN_LOG_WARN,
                  line ? line : "no memory for a warning about the configuration");
        free(line);
        text += len + (text[len] == '\n');
    }
}

const char *conf_quote(const char *text)
{
    static _Thread_local char buffers[QUOTE_BUFFERS][QUOTE_BYTES_MAX * 4 + 8];
    static _Thread_local unsigned next;
    char *ret = buffers[next++ % QUOTE_BUFFERS];
    char *at = ret;
    size_t n = 0;

    text = text ? text : "";
    *at++ = '"';
    for (; text[n] && n < QUOTE_BYTES_MAX; n++) {
        unsigned char c = (unsigned char)text[n];

        if (c < 0x20 || c >= 0x7f) {
            at += snprintf(at, 5, "\\x%02x", c);
        } else {
            if (c == '"' || c == '\\') {
                *at++ = '\\';
            }
            *at++ = (char)c;
        }
    }
    snprintf(at, 5, "%s\"", text[n] ? "..." : "");
    return ret;
}

/* Optimal string alignment: insert, delete, replace and swap of neighbours cost 1. `cap` ends the
 * work early for words that cannot be near. */
static size_t distance(const char *a, const char *b, size_t cap)
{
    enum { WORD_MAX = 64 };
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0];
    size_t *above = rows[1];
    size_t *row = rows[2];
    size_t la = strlen(a);
    size_t lb = strlen(b);

    if (la > WORD_MAX || lb > WORD_MAX || (la > lb ? la - lb : lb - la) > cap) {
        return cap + 1;
    }
    for (size_t k = 0; k <= lb; k++) {
        above[k] = k;
        before[k] = k;
    }
    for (size_t i = 1; i <= la; i++) {
        size_t *spare = before;

        row[0] = i;
        for (size_t k = 1; k <= lb; k++) {
            size_t best = above[k - 1] + (a[i - 1] != b[k - 1]);

            best = above[k] + 1 < best ? above[k] + 1 : best;
            best = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                before[k - 2] + 1 < best) {
                best = before[k - 2] + 1;
            }
            row[k] = best;
        }
        before = above;
        above = row;
        row = spare;
    }
    return above[lb];
}

const char *conf_nearest(const char *word, const char *const *known)
{
    size_t len = strlen(word);
    size_t limit = len < 4 ? 1 : len / 3 > 2 ? len / 3 : 2;
    const char *best = NULL;

    for (; *known; known++) {
        size_t d = distance(word, *known, limit);

        if (d <= limit && d < strlen(*known)) {
            best = *known;
            limit = d ? d - 1 : 0;
            if (d == 0) {
                break;
            }
        }
    }
    return best;
}

/* The whole of it, in other letters, or enough of it to be no chance. */
static bool is_part(const char *whole, const char *part)
{
    return strcasecmp(whole, part) == 0 ||
           (strlen(part) >= PART_MIN && strcasestr(whole, part) != NULL);
}

const char *conf_nearest_choice(const char *word, const char *choices)
{
    static _Thread_local char words[CHOICES_BYTES];
    const char *known[CHOICES_MAX + 1] = { NULL };
    const char *near;
    size_t n = 0;
    char *save;

    snprintf(words, sizeof(words), "%s", choices);
    for (char *at = strtok_r(words, "|", &save); at && n < CHOICES_MAX;
         at = strtok_r(NULL, "|", &save)) {
        known[n++] = at;
    }
    near = conf_nearest(word, known);
    for (size_t i = 0; !near && i < n; i++) {
        near = is_part(word, known[i]) || is_part(known[i], word) ? known[i] : NULL;
    }
    return near;
}
