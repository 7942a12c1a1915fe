/* W3C Trace Context: the two header fields by which a trace goes on over nodes. */
#include <trace/trace_int.h>

#include <stdio.h>
#include <string.h>

#define TRACEPARENT_LEN (TRACEPARENT_BYTES - 1)
#define MEMBERS_MAX     32u  /* of tracestate */
#define KEY_MAX         256u
#define TENANT_MAX      241u /* of a key with '@' */
#define SYSTEM_MAX      14u
#define VALUE_MAX       256u

/* ---- traceparent ----------------------------------------------------------------------------- */

/* A digit and one, 0 = none. Lower case only, as the standard has it. A table, since
 * branches on random digits are mispredicted: that was the dearest part of a traced call. */
static const unsigned char lower_hex[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

/* 2 * n digits. */
static bool hex_field(const char **at, unsigned char *to, size_t n)
{
    for (size_t i = 0; i < n; i++, *at += 2) {
        unsigned high = lower_hex[(unsigned char)(*at)[0]];
        unsigned low = high ? lower_hex[(unsigned char)(*at)[1]] : 0;

        if (!low) {
            return false;
        }
        to[i] = (unsigned char)((high - 1) << 4 | (low - 1));
    }
    return true;
}

static bool is_zero(const unsigned char *id, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (id[i]) {
            return false;
        }
    }
    return true;
}

static bool skip_dash(const char **at)
{
    return *(*at)++ == '-';
}

bool trace_context_parse(const char *text, struct trace_context *ret)
{
    const char *at = text;
    unsigned char version;

    if (strnlen(text, TRACEPARENT_LEN) < TRACEPARENT_LEN || !hex_field(&at, &version, 1) ||
        !skip_dash(&at) || !hex_field(&at, ret->trace_id, TRACE_ID_BYTES) || !skip_dash(&at) ||
        !hex_field(&at, ret->span_id, SPAN_ID_BYTES) || !skip_dash(&at) ||
        !hex_field(&at, &ret->flags, 1)) {
        return false;
    }
    /* Later versions may say more, behind a dash. */
    return version != 0xff && (*at == '\0' || (version > 0 && *at == '-')) &&
           !is_zero(ret->trace_id, TRACE_ID_BYTES) && !is_zero(ret->span_id, SPAN_ID_BYTES);
}

char *hex_print(const unsigned char *from, size_t n, char *to)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *to++ = digits[from[i] >> 4];
        *to++ = digits[from[i] & 15];
    }
    return to;
}

void traceparent_print(const char *trace_id, const unsigned char *span_id, uint8_t flags,
                       char ret[TRACEPARENT_BYTES])
{
    char *to = ret;

    memcpy(to, "00-", 3);
    memcpy(to + 3, trace_id, TRACE_ID_HEX - 1);
    to += TRACEPARENT_SPAN;
    to[-1] = '-';
    to = hex_print(span_id, SPAN_ID_BYTES, to);
    *to++ = '-';
    *hex_print(&flags, 1, to) = '\0';
}

/* ---- tracestate ------------------------------------------------------------------------------ */

static bool key_char(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '_' || ch == '-' ||
           ch == '*' || ch == '/';
}

static size_t key_run(const char *at, size_t n)
{
    size_t len = 0;

    while (len < n && key_char(at[len])) {
        len++;
    }
    return len;
}

static bool is_lower(char ch)
{
    return ch >= 'a' && ch <= 'z';
}

/* "vendor" or "tenant@vendor". */
static bool key_is_good(const char *key, size_t n)
{
    size_t first = key_run(key, n);
    bool digit = n > 0 && key[0] >= '0' && key[0] <= '9';

    if (first == n) {
        return n > 0 && n <= KEY_MAX && is_lower(key[0]);
    }
    return key[first] == '@' && first > 0 && first <= TENANT_MAX && (is_lower(key[0]) || digit) &&
           n - first - 1 >= 1 && n - first - 1 <= SYSTEM_MAX && is_lower(key[first + 1]) &&
           key_run(key + first + 1, n - first - 1) == n - first - 1;
}

static bool value_is_good(const char *value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (value[i] < 0x20 || value[i] > 0x7e || value[i] == ',' || value[i] == '=') {
            return false;
        }
    }
    return n > 0 && n <= VALUE_MAX && value[n - 1] != ' ';
}

static bool member_is_good(const char *member, size_t n)
{
    const char *equals = memchr(member, '=', n);

    return equals && key_is_good(member, (size_t)(equals - member)) &&
           value_is_good(equals + 1, (size_t)(member + n - equals) - 1);
}

struct joined {
    char *to;
    size_t len;
    uint32_t n;
};

static bool add_member(struct joined *j, const char *member, size_t n)
{
    if (!member_is_good(member, n) || ++j->n > MEMBERS_MAX ||
        j->len + n + (j->len > 0) > TRACESTATE_MAX) {
        return false;
    }
    if (j->len > 0) {
        j->to[j->len++] = ',';
    }
    memcpy(j->to + j->len, member, n);
    j->len += n;
    return true;
}

/* Members of one field; empty ones are allowed. */
static bool join_field(struct joined *j, const char *at)
{
    while (*at) {
        size_t whole = strcspn(at, ",");
        const char *member = at + strspn(at, " \t");
        size_t n = whole > (size_t)(member - at) ? whole - (size_t)(member - at) : 0;

        while (n > 0 && (member[n - 1] == ' ' || member[n - 1] == '\t')) {
            n--;
        }
        if (n > 0 && !add_member(j, member, n)) {
            return false;
        }
        at += whole + (at[whole] == ',');
    }
    return true;
}

bool trace_state_join(const struct headers *h, char ret[TRACESTATE_MAX + 1])
{
    struct joined j = { .to = ret };

    for (uint32_t i = 0; i < h->n; i++) {
        if (header_is(h->items[i].name, "Tracestate") && !join_field(&j, h->items[i].value)) {
            j.len = 0;
            break;
        }
    }
    ret[j.len] = '\0';
    return j.len > 0;
}
