/* Prints times by days since 1970 (civil calendar), and parses RFC 3339 with fraction and zone,
 * without the C library's time zones. */
#include <model/time_text.h>

#include <fn/abi.h>
#include <string.h>

#define NS_PER_S 1000000000LL

static void two(char *p, uint32_t v)
{
    p[0] = (char)('0' + v / 10);
    p[1] = (char)('0' + v % 10);
}

/* Days since 1970-01-01 to a date of the Gregorian calendar; eras of 400 years from 0000-03-01. */
static void civil(int64_t days, int64_t *ret_y, uint32_t *ret_m, uint32_t *ret_d)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    uint32_t doe = (uint32_t)(z - era * 146097);
    uint32_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    uint32_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    uint32_t mp = (5 * doy + 2) / 153;

    *ret_d = doy - (153 * mp + 2) / 5 + 1;
    *ret_m = mp < 10 ? mp + 3 : mp - 9;
    *ret_y = (int64_t)yoe + era * 400 + (*ret_m <= 2);
}

static int64_t days_of(int64_t y, uint32_t m, uint32_t d)
{
    int64_t era;
    uint32_t yoe;
    uint32_t doy;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = (uint32_t)(y - era * 400);
    doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
    return era * 146097 + (int64_t)(yoe * 365 + yoe / 4 - yoe / 100 + doy) - 719468;
}

/* "YYYY-MM-DDThh:mm:ss" */
static void print_seconds(int64_t s, char *ret)
{
    int64_t days = s / 86400 - (s % 86400 < 0);
    uint32_t rest = (uint32_t)(s - days * 86400);
    int64_t y;
    uint32_t m;
    uint32_t d;

    civil(days, &y, &m, &d);
    two(ret, (uint32_t)(y / 100));
    two(ret + 2, (uint32_t)(y % 100));
    two(ret + 5, m);
    two(ret + 8, d);
    two(ret + 11, rest / 3600);
    two(ret + 14, rest / 60 % 60);
    two(ret + 17, rest % 60);
    ret[4] = ret[7] = '-';
    ret[10] = 'T';
    ret[13] = ret[16] = ':';
}

void time_print_ms(int64_t wall_ns, char ret[TIME_TEXT_MAX])
{
    int64_t ms = wall_ns / 1000000;

    if (wall_ns == 0) {
        memcpy(ret, "0001-01-01T00:00:00.000Z", 25);
        return;
    }
    if (ms < 0) {
        ms = 0; /* before 1970: no call was */
    }
    print_seconds(ms / 1000, ret);
    ret[19] = '.';
    ret[20] = (char)('0' + ms % 1000 / 100);
    two(ret + 21, (uint32_t)(ms % 100));
    memcpy(ret + 23, "Z", 2);
}

void time_print_s(int64_t wall_ns, char ret[TIME_TEXT_MAX])
{
    if (wall_ns == 0) {
        memcpy(ret, "0001-01-01T00:00:00Z", 21);
        return;
    }
    print_seconds(wall_ns < 0 ? 0 : wall_ns / NS_PER_S, ret);
    memcpy(ret + 19, "Z", 2);
}

/* n digits at *p, moved behind them; -1 if they are not. */
static int32_t time_number(const char **p, int n)
{
    int32_t v = 0;

    while (n-- > 0) {
        if (**p < '0' || **p > '9') {
            return -1;
        }
        v = v * 10 + (*(*p)++ - '0');
    }
    return v;
}

/* "Z", "+hh:mm", "-hh:mm" and the end. */
static int parse_zone(const char *p, int64_t *ret_s)
{
    int32_t h;
    int32_t m;
    int sign;

    if (strcmp(p, "Z") == 0 || strcmp(p, "z") == 0) {
        *ret_s = 0;
        return 0;
    }
    if (*p != '+' && *p != '-') {
        return FN_E_INVALID;
    }
    sign = *p++ == '-' ? -1 : 1;
    h = time_number(&p, 2);
    if (h < 0 || h > 23 || *p++ != ':') {
        return FN_E_INVALID;
    }
    m = time_number(&p, 2);
    if (m < 0 || m > 59 || *p) {
        return FN_E_INVALID;
    }
    *ret_s = sign * (h * 3600 + m * 60);
    return 0;
}

static int parse_fraction(const char **p, int64_t *ret_ns)
{
    int64_t unit = NS_PER_S / 10;

    *ret_ns = 0;
    if (**p != '.') {
        return 0;
    }
    ++*p;
    if (**p < '0' || **p > '9') {
        return FN_E_INVALID;
    }
    for (; **p >= '0' && **p <= '9'; ++*p) {
        *ret_ns += unit * (**p - '0');
        unit /= 10;
    }
    return 0;
}

int time_parse(const char *text, int64_t *ret_wall_ns)
{
    static const char after[6] = "--T::";
    static const int32_t max[6] = { 9999, 12, 31, 23, 59, 60 };
    int32_t v[6];
    const char *p = text;
    int64_t ns;
    int64_t zone;
    int64_t s;

    if (!*text) {
        *ret_wall_ns = 0;
        return 0;
    }
    for (int i = 0; i < 6; i++) {
        v[i] = time_number(&p, i ? 2 : 4);
        if (v[i] < (i == 1 || i == 2) || v[i] > max[i] ||
            (i < 5 && (*p & ~0x20) != (after[i] & ~0x20))) {
            return FN_E_INVALID;
        }
        p += i < 5;
    }
    if (parse_fraction(&p, &ns) < 0 || parse_zone(p, &zone) < 0) {
        return FN_E_INVALID;
    }
    if (v[0] == 1) {
        *ret_wall_ns = 0; /* Go's zero time */
        return 0;
    }
    s = days_of(v[0], (uint32_t)v[1], (uint32_t)v[2]) * 86400 + v[3] * 3600 + v[4] * 60 +
        v[5] - zone;
    if (s < INT64_MIN / NS_PER_S + 1 || s > INT64_MAX / NS_PER_S - 1) {
        return FN_E_RANGE;
    }
    *ret_wall_ns = s * NS_PER_S + ns;
    return 0;
}
