/* The chunked coding, strictly: one to sixteen hex digits, CRLF and nothing less, extensions and
 * trailers read and forgotten under limits. A decoder of our own because http-parser skips bare
 * line feeds inside extensions, which other parsers take for the end of the line. */
#include <http/parse.h>

#include <base/percent.h>
#include <string.h>

#define DIGITS_MAX        16
#define EXTENSION_MAX     256
#define TRAILER_BYTES_MAX 8192
/* Bytes of coding allowed above 16 per chunk plus twice its data, so that one-byte chunks with long
 * extensions cannot make a small body cost a large one's time. */
#define OVERHEAD_MAX   16384
#define OVERHEAD_USUAL 16

enum {
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_START,
    TRAILER,
    TRAILER_LF,
    END_LF,
    END,
};

static bool on_size(struct chunked *c, char ch)
{
    int digit = percent_digit(ch);

    c->overhead++;
    if (digit >= 0) {
        c->left = c->left << 4 | (uint64_t)digit;
        return ++c->digits <= DIGITS_MAX;
    }
    if (c->digits == 0) {
        return false;
    }
    c->line_bytes = 0;
    c->state = ch == '\r' ? SIZE_LF : EXTENSION;
    return ch == '\r' || ch == ';' || ch == ' ' || ch == '\t';
}

static bool on_extension(struct chunked *c, char ch)
{
    c->overhead++;
    if (ch == '\r') {
        c->state = SIZE_LF;
        return true;
    }
    return ++c->line_bytes <= EXTENSION_MAX && parse_is_value(&ch, 1);
}

static bool on_size_end(struct chunked *c, char ch)
{
    uint64_t usual;

    if (ch != '\n' || c->left > INT64_MAX) {
        return false;
    }
    usual = OVERHEAD_USUAL + (c->left > OVERHEAD_MAX ? OVERHEAD_MAX : 2 * c->left);
    c->overhead = c->overhead > usual ? c->overhead - usual : 0;
    c->digits = 0;
    c->in_name = false;
    c->state = c->left > 0 ? DATA : TRAILER_START;
    return c->overhead <= OVERHEAD_MAX;
}

static bool on_trailer(struct chunked *c, char ch)
{
    if (++c->trailer_bytes > TRAILER_BYTES_MAX) {
        return false;
    }
    if (c->state == TRAILER_START) {
        c->state = ch == '\r' ? END_LF : TRAILER;
        c->in_name = true;
        return ch == '\r' || parse_is_token_char(ch);
    }
    if (c->in_name) {
        c->in_name = ch != ':';
        return ch == ':' || parse_is_token_char(ch);
    }
    if (ch == '\r') {
        c->state = TRAILER_LF;
        return true;
    }
    return parse_is_value(&ch, 1);
}

static bool on_byte(struct chunked *c, char ch)
{
    switch (c->state) {
    case SIZE:
        return on_size(c, ch);
    case EXTENSION:
        return on_extension(c, ch);
    case SIZE_LF:
        return on_size_end(c, ch);
    case DATA_CR:
        c->state = DATA_LF;
        return ch == '\r';
    case DATA_LF:
        c->state = SIZE;
        return ch == '\n';
    case TRAILER_LF:
        c->state = TRAILER_START;
        return ch == '\n';
    case END_LF:
        c->state = END;
        return ch == '\n';
    default:
        return on_trailer(c, ch);
    }
}

enum chunked_outcome chunked_step(struct chunked *c, const char **p, const char *end,
                                  const char **ret_data, size_t *ret_len)
{
    while (c->state != END && *p < end) {
        if (c->state == DATA) {
            size_t n = (size_t)(end - *p);

            n = n < c->left ? n : (size_t)c->left;
            *ret_data = *p;
            *ret_len = n;
            *p += n;
            c->at += n;
            c->left -= n;
            c->state = c->left > 0 ? DATA : DATA_CR;
            return CHUNKED_DATA;
        }
        if (!on_byte(c, **p)) {
            return CHUNKED_INVALID;
        }
        (*p)++;
        c->at++;
    }
    return c->state == END ? CHUNKED_END : CHUNKED_MORE;
}

size_t chunked_line(char ret[CHUNK_LINE_BYTES], size_t len)
{
    int digits = 1;

    while (digits < DIGITS_MAX && len >> 4 * digits) {
        digits++;
    }
    for (int i = 0; i < digits; i++) {
        ret[i] = "0123456789abcdef"[len >> 4 * (digits - 1 - i) & 15];
    }
    memcpy(ret + digits, "\r\n", 2);
    return (size_t)digits + 2;
}
