/* The first byte says how long a sequence is; what it encodes must need that length. */
#include <base/utf8.h>

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

/* How many bytes from p on are ASCII: eight at a time. */
static size_t ascii_run(const char *p, size_t n)
{
    size_t run = 0;
    uint64_t eight;

    for (; n - run >= sizeof(eight); run += sizeof(eight)) {
        memcpy(&eight, p + run, sizeof(eight));
        if (eight & UINT64_C(0x8080808080808080)) {
            break;
        }
    }
    while (run < n && (unsigned char)p[run] < 0x80) {
        run++;
    }
    return run;
}

bool utf8_is_valid(const char *text)
{
    size_t len = strlen(text);
    const char *end = text + len;
    const char *p = text + ascii_run(text, len);
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
    size_t run = ascii_run(text, len < cap - 1 ? len : cap - 1);
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
