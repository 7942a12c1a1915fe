/* Parsers of single values. All refuse trailing text, signs that the rule does not name, and
 * overflow. */
#include <conf/conf_int.h>

#include <stdint.h>

const struct conf_unit conf_time_units[] = {
    { "h", 3600000000000 }, { "m", 60000000000 }, { "s", 1000000000 }, { "ms", 1000000 },
    { "us", 1000 },         { "ns", 1 },          { NULL, 0 },
};

const struct conf_unit conf_byte_units[] = {
    { "TiB", 1LL << 40 }, { "GiB", 1LL << 30 }, { "MiB", 1LL << 20 }, { "KiB", 1LL << 10 },
    { "", 1 },            { "B", 1 },           { NULL, 0 },
};

/* Digits at *at; moves *at behind them. */
static bool take_digits(const char **at, int64_t *ret)
{
    const char *p = *at;
    int64_t n = 0;

    while (*p >= '0' && *p <= '9') {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n)) {
            return false;
        }
        p++;
    }
    if (p == *at) {
        return false;
    }
    *at = p;
    *ret = n;
    return true;
}

static const struct conf_unit *unit_find(const struct conf_unit *units, const char *name,
                                         size_t len)
{
    for (; units->name; units++) {
        if (strlen(units->name) == len && memcmp(units->name, name, len) == 0) {
            return units;
        }
    }
    return NULL;
}

int conf_parse_int(const char *text, int64_t *ret)
{
    bool minus = text[0] == '-';
    int64_t n;

    text += minus;
    if (!take_digits(&text, &n) || *text) {
        return FN_E_INVALID;
    }
    *ret = minus ? -n : n;
    return 0;
}

/* The digits behind a point and the power of ten that they are to be divided by; at most nine. */
static bool take_fraction(const char **at, int64_t *ret_digits, int64_t *ret_scale)
{
    const char *p = *at;
    int64_t digits = 0;
    int64_t scale = 1;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (scale >= 1000000000) {
            return false;
        }
        digits = digits * 10 + (*p - '0');
        scale *= 10;
    }
    if (p == *at) {
        return false;
    }
    *at = p;
    *ret_digits = digits;
    *ret_scale = scale;
    return true;
}

int conf_parse_duration(const char *text, int64_t *ret_ns)
{
    const char *at = text;
    int64_t total = 0;

    if (strcmp(text, "never") == 0 || strcmp(text, "-1") == 0) {
        *ret_ns = -1;
        return 0;
    }
    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    do {
        int64_t fraction = 0;
        int64_t scale = 1;
        const struct conf_unit *unit;
        int64_t n;
        int64_t rest;
        size_t len;

        if (!take_digits(&at, &n)) {
            return FN_E_INVALID;
        }
        if (*at == '.') {
            at++;
            if (!take_fraction(&at, &fraction, &scale)) {
                return FN_E_INVALID;
            }
        }
        len = strcspn(at, "0123456789.");
        unit = unit_find(conf_time_units, at, len);
        if (!unit || __builtin_mul_overflow(n, unit->factor, &n) ||
            __builtin_mul_overflow(fraction, unit->factor, &rest) ||
            __builtin_add_overflow(total, n, &total) ||
            __builtin_add_overflow(total, rest / scale, &total)) {
            return FN_E_INVALID;
        }
        at += len;
    } while (*at);
    *ret_ns = total;
    return 0;
}

int conf_parse_bytes(const char *text, int64_t *ret)
{
    const struct conf_unit *unit;
    int64_t n;

    if (!take_digits(&text, &n)) {
        return FN_E_INVALID;
    }
    unit = unit_find(conf_byte_units, text, strlen(text));
    if (!unit || __builtin_mul_overflow(n, unit->factor, &n)) {
        return FN_E_INVALID;
    }
    *ret = n;
    return 0;
}

int conf_parse_bool(const char *text, bool *ret)
{
    bool yes = strcmp(text, "true") == 0;

    if (!yes && strcmp(text, "false") != 0) {
        return FN_E_INVALID;
    }
    *ret = yes;
    return 0;
}
