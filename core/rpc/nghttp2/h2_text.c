/* Texts of gRPC's headers, and what statuses mean. */
#include <rpc/nghttp2/h2_int.h>

#include <base/percent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- grpc-message ---------------------------------------------------------------------------- */

void text_percent_encode(const char *text, char *ret, size_t cap)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;

    for (const unsigned char *p = (const unsigned char *)text; *p && n + 4 <= cap; p++) {
        if (*p >= 0x20 && *p < 0x7f && *p != '%') {
            ret[n++] = (char)*p;
        } else {
            ret[n++] = '%';
            ret[n++] = hex[*p >> 4];
            ret[n++] = hex[*p & 15];
        }
    }
    ret[n] = '\0';
}

void text_percent_decode(const unsigned char *text, size_t len, char *ret, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < cap; i++) {
        int high = text[i] == '%' && i + 2 < len ? percent_digit((char)text[i + 1]) : -1;
        int low = high >= 0 ? percent_digit((char)text[i + 2]) : -1;
        int c = low >= 0 ? high << 4 | low : text[i];

        i += low >= 0 ? 2 : 0;
        if (c != 0) {
            ret[n++] = (char)c;
        }
    }
    ret[n] = '\0';
}

/* ---- grpc-timeout ---------------------------------------------------------------------------- */

#define TIMEOUT_DIGITS_MAX 99999999LL

void text_timeout(int64_t ns, char ret[24])
{
    int64_t n = ns > 0 ? (ns + 999) / 1000 : 0;
    char unit = 'u';

    if (n > TIMEOUT_DIGITS_MAX) {
        n = (n + 999) / 1000;
        unit = 'm';
    }
    if (n > TIMEOUT_DIGITS_MAX) {
        n = (n + 999) / 1000;
        unit = 'S';
    }
    n = n > TIMEOUT_DIGITS_MAX ? TIMEOUT_DIGITS_MAX : n;
    snprintf(ret, 24, "%lld%c", (long long)n, unit);
}

/* 0: none or not legal */
static int64_t text_timeout_parse(const unsigned char *text, size_t len)
{
    static const char units[] = "numSMH";
    static const int64_t each[] = { 1, ENV_US, ENV_MS, ENV_S, 60 * ENV_S, 3600 * ENV_S };
    const char *unit;
    int64_t n = 0;

    if (len < 2 || len > 9) {
        return 0;
    }
    for (size_t i = 0; i + 1 < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return 0;
        }
        n = n * 10 + (text[i] - '0');
    }
    unit = text[len - 1] ? strchr(units, text[len - 1]) : NULL;
    if (!unit) {
        return 0;
    }
    n = n > INT64_MAX / 4 / each[unit - units] ? INT64_MAX / 4 : n * each[unit - units];
    return n > 0 ? n : 1;
}

/* ---- statuses -------------------------------------------------------------------------------- */

/* gRPC's doc/http-grpc-status-mapping.md. */
int text_status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

/* gRPC's doc/PROTOCOL-HTTP2.md, "Errors". */
int text_status_of_reset(uint32_t code)
{
    switch (code) {
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION;
    default:
        return GRPC_INTERNAL;
    }
}

/* ---- headers --------------------------------------------------------------------------------- */

static int h2_text_number(const unsigned char *text, size_t len)
{
    int n = 0;

    if (len == 0 || len > 6) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        n = n * 10 + (text[i] - '0');
    }
    return n;
}

/* One that does not fit is none. */
static void h2_text_copy(const unsigned char *text, size_t len, char *ret, size_t cap)
{
    len = len < cap ? len : 0;
    memcpy(ret, text, len);
    ret[len] = '\0';
}

/* "application/grpc", or with a suffix. */
static bool is_grpc(const unsigned char *value, size_t len)
{
    static const char type[] = "application/grpc";
    size_t n = sizeof(type) - 1;

    return len >= n && memcmp(value, type, n) == 0 &&
           (len == n || value[n] == '+' || value[n] == ';');
}

#define IS(text) (name_len == sizeof(text) - 1 && memcmp(name, text, sizeof(text) - 1) == 0)

void head_take(struct h2_head *head, const unsigned char *name, size_t name_len,
               const unsigned char *value, size_t len)
{
    head->bytes += name_len + len + 32;
    if (head->bytes > RPC_HEADERS_MAX_BYTES) {
        head->too_big = true;
        return;
    }
    if (IS(":path")) {
        h2_text_copy(value, len, head->call.path, sizeof(head->call.path));
    } else if (IS(":method")) {
        head->is_post = len == 4 && memcmp(value, "POST", 4) == 0;
    } else if (IS(":status")) {
        head->http_status = h2_text_number(value, len);
    } else if (IS("content-type")) {
        head->is_grpc = is_grpc(value, len);
    } else if (IS("grpc-encoding")) {
        head->encoded = len != 8 || memcmp(value, "identity", 8) != 0;
    } else if (IS("grpc-status")) {
        int status = h2_text_number(value, len);

        head->grpc_status = status < 0 ? GRPC_UNKNOWN : status;
    } else if (IS("grpc-message")) {
        text_percent_decode(value, len, head->message, sizeof(head->message));
    } else if (IS("grpc-timeout")) {
        head->timeout_ns = text_timeout_parse(value, len);
    } else if (IS("fn_request_id")) {
        h2_text_copy(value, len, head->call.request_id, sizeof(head->call.request_id));
    }
}
