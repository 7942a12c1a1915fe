/* The first byte says how long a sequence is; what it encodes must need that length. */
#include <base/utf8.h>

#include <base/runs.h>
#include <string.h>

uint32_t utf8_sequence(const char *p, const char *end)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char c = (unsigned char)*p;
    uint32_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    uint32_t code;

    if (n <= 1) {
        return n;
    }
    if (n > (size_t)(end - p)) {
        return 0;
    }
    for (uint32_t i = 1; i < n; i++) {
        if ((unsigned char)p[i] >> 6 != 2) {
            return 0;
        }
    }
    code = utf8_code(p, n);
    return code >= least[n] && code <= 0x10ffff && code >> 11 != 0x1b ? n : 0;
}

uint32_t utf8_code(const char *p, uint32_t n)
{
    uint32_t code = (unsigned char)*p;

    if (n > 1) {
        code &= 0xffu >> (n + 1);
    }
    for (uint32_t i = 1; i < n; i++) {
        code = code << 6 | ((unsigned char)p[i] & 0x3f);
    }
    return code;
}

uint32_t utf8_next(const char *p, const char *end, bool *ret_plain)
{
    uint32_t n = utf8_sequence(p, end);

    *ret_plain = n > 0 && !utf8_is_dangerous(utf8_code(p, n));
    return n ? n : 1;
}

static inline uint64_t is_high(uint64_t eight)
{
    return eight;
}

bool utf8_is_valid(const char *text)
{
    const char *end = text + strlen(text);
    const char *p = run_end(text, end, is_high);
    uint32_t n = 1;

    for (; p < end && n > 0; p += n) {
        n = utf8_sequence(p, end);
    }
    return n > 0;
}

size_t utf8_copy(char *to, size_t cap, const char *text)
{
    size_t len = strlen(text);
    const char *end = text + len;
    const char *stop = to + cap - 1;
    size_t most = len < cap - 1 ? len : cap - 1;
    size_t run = (size_t)(run_end(text, text + most, is_high) - text);
    char *at = to + run;
    uint32_t n;

    memcpy(to, text, run);
    for (text += run; text < end; text += n ? n : 1) {
        n = utf8_sequence(text, end);
        if ((size_t)(stop - at) < (n ? n : 1)) {
            break;
        }
        memcpy(at, n ? text : "?", n ? n : 1);
        at += n ? n : 1;
    }
    *at = '\0';
    return (size_t)(at - to);
}
