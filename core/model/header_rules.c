/* Lists of header names by what proxies may do with them, and the characters that names and
 * values may have. */
#include <model/header_rules.h>

#include <base/headers.h>
#include <base/runs.h>
#include <base/utf8.h>
#include <string.h>
#include <strings.h>

static bool is_one_of(const char *name, const struct header_name *names, size_t n)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < n; i++) {
        if (header_name_is(&names[i], name, len)) {
            return true;
        }
    }
    return false;
}

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof(names[0]))

bool header_is_hop_by_hop(const char *name, const char *value)
{
    static const struct header_name names[] = {
        HEADER_NAME("Connection"), HEADER_NAME("Proxy-Connection"), HEADER_NAME("Keep-Alive"),
        HEADER_NAME("Proxy-Authenticate"), HEADER_NAME("Proxy-Authorization"),
        HEADER_NAME("Trailer"), HEADER_NAME("Transfer-Encoding"), HEADER_NAME("Upgrade"),
    };

    if ((name[0] | 0x20) == 't' && strcasecmp(name, "Te") == 0) {
        return !value || strcasecmp(value, "trailers") != 0;
    }
    return IS_ONE_OF(name, names);
}

bool header_is_framing(const char *name)
{
    static const struct header_name names[] = {
        HEADER_NAME("Content-Length"), HEADER_NAME("Transfer-Encoding"), HEADER_NAME("Connection"),
        HEADER_NAME("Keep-Alive"), HEADER_NAME("Proxy-Connection"), HEADER_NAME("Trailer"),
        HEADER_NAME("Upgrade"), HEADER_NAME("Te"),
    };

    return IS_ONE_OF(name, names);
}

bool header_is_reserved(const char *name)
{
    static const struct header_name names[] = {
        HEADER_NAME("Fn-Call-Id"), HEADER_NAME("Fn-Deadline"), HEADER_NAME("Fn-Intent"),
    };

    if ((name[0] | 0x20) != 'f') {
        return false;
    }
    return IS_ONE_OF(name, names) || strncasecmp(name, "Fn-Http-", 8) == 0;
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
