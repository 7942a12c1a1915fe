/* A machine that takes one byte at a time: the level that it is at, and the text that it is in. */
#include "json_scan.h"

#include <string.h>

static void keep(struct json_scan *s, char c)
{
    if (s->len < SCAN_TEXT_MAX) {
        s->text[s->len++] = c;
    } else {
        s->too_long = true;
    }
}

static void begin_text(struct json_scan *s, bool is_key)
{
    s->state = SCAN_TEXT;
    s->is_key = is_key;
    s->too_long = false;
    s->len = 0;
}

static void after_value(struct json_scan *s)
{
    s->state = s->depth == 0 ? SCAN_VALUE : SCAN_NEXT;
}

static void end_value(struct json_scan *s, const struct json_scan_cb *cb, void *ud)
{
    s->text[s->too_long ? 0 : s->len] = '\0';
    after_value(s);
    cb->value(ud, s, s->text);
}

static void end_text(struct json_scan *s, const struct json_scan_cb *cb, void *ud)
{
    struct json_level *l = &s->at[s->depth > 0 ? s->depth - 1 : 0];

    if (!s->is_key) {
        end_value(s, cb, ud);
        return;
    }
    s->too_long |= s->len > SCAN_KEY_MAX;
    memcpy(l->key, s->text, s->too_long ? 0 : s->len);
    l->key[s->too_long ? 0 : s->len] = '\0';
    s->state = SCAN_COLON;
}

static void open_level(struct json_scan *s, bool array)
{
    if (s->depth == SCAN_DEPTH_MAX) {
        s->broken = true;
        return;
    }
    s->at[s->depth].array = array;
    s->at[s->depth].index = 0;
    s->at[s->depth].key[0] = '\0';
    s->depth++;
    s->state = array ? SCAN_FIRST_VALUE : SCAN_FIRST_KEY;
}

static void close_level(struct json_scan *s, char c, const struct json_scan_cb *cb, void *ud)
{
    if (s->depth == 0 || s->at[s->depth - 1].array != (c == ']')) {
        s->broken = true;
        return;
    }
    s->depth--;
    after_value(s);
    cb->closed(ud, s);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

static void begin_value(struct json_scan *s, char c)
{
    if (c == '"') {
        begin_text(s, false);
    } else if (c == '{' || c == '[') {
        open_level(s, c == '[');
    } else if (is_word(c)) {
        begin_text(s, false);
        s->state = SCAN_WORD;
        keep(s, c);
    } else {
        s->broken = true;
    }
}

static void next(struct json_scan *s, char c, const struct json_scan_cb *cb, void *ud)
{
    if (c != ',') {
        close_level(s, c, cb, ud);
    } else if (s->at[s->depth - 1].array) {
        s->at[s->depth - 1].index++;
        s->state = SCAN_VALUE;
    } else {
        s->state = SCAN_KEY;
    }
}

static void escaped(struct json_scan *s, char c)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char *at = c ? strchr(names, c) : NULL;

    s->state = SCAN_TEXT;
    if (c == 'u') {
        s->state = SCAN_HEX;
        s->hex = s->hex_n = 0;
    } else if (at) {
        keep(s, values[at - names]);
    } else {
        s->broken = true;
    }
}

static void hex_digit(struct json_scan *s, char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;

    if (!at) {
        s->broken = true;
        return;
    }
    s->hex = s->hex * 16 + (uint32_t)(at - digits);
    if (++s->hex_n == 4) {
        keep(s, s->hex > 0 && s->hex < 0x80 ? (char)s->hex : '?');
        s->state = SCAN_TEXT;
    }
}

/* A structural character, or one that begins something. */
static void structure(struct json_scan *s, char c, const struct json_scan_cb *cb, void *ud)
{
    switch (s->state) {
    case SCAN_FIRST_VALUE:
        if (c == ']') {
            close_level(s, c, cb, ud);
            break;
        }
        begin_value(s, c);
        break;
    case SCAN_VALUE:
        begin_value(s, c);
        break;
    case SCAN_FIRST_KEY:
        if (c == '}') {
            close_level(s, c, cb, ud);
            break;
        }
        /* fall through */
    case SCAN_KEY:
        s->broken = c != '"';
        begin_text(s, true);
        break;
    case SCAN_COLON:
        s->broken = c != ':';
        s->state = SCAN_VALUE;
        break;
    default:
        next(s, c, cb, ud);
        break;
    }
}

void json_scan_feed(struct json_scan *s, const char *data, size_t len,
                    const struct json_scan_cb *cb, void *ud)
{
    for (size_t i = 0; i < len && !s->broken; i++) {
        char c = data[i];

        if (s->state == SCAN_WORD) {
            if (is_word(c)) {
                keep(s, c);
                continue;
            }
            end_value(s, cb, ud);
        }
        if (s->state == SCAN_TEXT) {
            if (c == '"') {
                end_text(s, cb, ud);
            } else if (c == '\\') {
                s->state = SCAN_ESCAPE;
            } else {
                s->broken = (unsigned char)c < 0x20;
                keep(s, c);
            }
        } else if (s->state == SCAN_ESCAPE) {
            escaped(s, c);
        } else if (s->state == SCAN_HEX) {
            hex_digit(s, c);
        } else if (!is_blank(c)) {
            structure(s, c, cb, ud);
        }
    }
}
