/* The names of headers by what nodes do with them, and the characters that names and values may
 * have. */
#include <model/header_rules.h>

#include <base/headers.h>
#include <base/runs.h>
#include <base/utf8.h>
#include <string.h>
#include <strings.h>

#define LEN_MAX 20u

/* By their length, in which nearly all others differ. */
static const struct {
    const char *name;
    unsigned is;
} known[LEN_MAX][5] = {
    [2] = { { "Te", HEADER_HOP_BY_HOP | HEADER_FRAMING } },
    [4] = { { "Host", HEADER_HOST }, { "Date", HEADER_DATE } },
    [7] = { { "Trailer", HEADER_HOP_BY_HOP | HEADER_FRAMING },
            { "Upgrade", HEADER_HOP_BY_HOP | HEADER_FRAMING } },
    [9] = { { "Fn-Intent", HEADER_RESERVED } },
    [10] = { { "Connection", HEADER_HOP_BY_HOP | HEADER_FRAMING | HEADER_CONNECTION },
             { "Keep-Alive", HEADER_HOP_BY_HOP | HEADER_FRAMING },
             { "Fn-Call-Id", HEADER_RESERVED | HEADER_BY_RUNNER | HEADER_BY_LB },
             { "Fn-Outcome", HEADER_BY_LB } },
    [11] = { { "Fn-Deadline", HEADER_RESERVED | HEADER_BY_RUNNER } },
    [14] = { { "Content-Length", HEADER_FRAMING } },
    [16] = { { "Proxy-Connection", HEADER_HOP_BY_HOP | HEADER_FRAMING } },
    [17] = { { "Transfer-Encoding", HEADER_HOP_BY_HOP | HEADER_FRAMING } },
    [18] = { { "Proxy-Authenticate", HEADER_HOP_BY_HOP } },
    [19] = { { "Proxy-Authorization", HEADER_HOP_BY_HOP } },
};

unsigned header_kinds(const char *name, size_t len)
{
    for (size_t i = 0; len < LEN_MAX && known[len][i].name; i++) {
        if (header_is(name, known[len][i].name)) {
            return known[len][i].is;
        }
    }
    return 0;
}

bool header_passes(const char *name, const char *value, unsigned not_these)
{
    unsigned is = header_kinds(name, strlen(name));

    if (is & HEADER_HOP_BY_HOP && not_these & HEADER_HOP_BY_HOP && (name[0] | 0x20) == 't' &&
        !name[2] && value && strcasecmp(value, "trailers") == 0) {
        is &= ~(unsigned)HEADER_HOP_BY_HOP;
    }
    return !(is & not_these);
}

bool header_is_reserved(const char *name)
{
    return (name[0] | 0x20) == 'f' && (header_kinds(name, strlen(name)) & HEADER_RESERVED ||
                                       strncasecmp(name, "Fn-Http-", 8) == 0);
}

bool header_name_is_token(const char *name)
{
    const unsigned char *p = (const unsigned char *)name;

    for (; *p; p++) {
        if (!((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z') && !(*p >= '0' && *p <= '9') &&
            !strchr("!#$%&'*+-.^_`|~", *p)) {
            return false;
        }
    }
    return *name != '\0';
}

static inline uint64_t is_odd(uint64_t eight)
{
    return eight | run_control(eight) | run_equal(eight, 0x7f);
}

bool header_value_is_clean(const char *value)
{
    const char *end = value + strlen(value);
    const char *p = value;
    uint32_t n;

    for (; (p = run_end(p, end, is_odd)) < end; p += n) {
        n = *p == '\t' ? 1 : (unsigned char)*p >= 0x80 ? utf8_sequence(p, end) : 0;
        if (n == 0) {
            return false;
        }
    }
    return true;
}
