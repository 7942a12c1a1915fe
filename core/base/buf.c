/* The cold half of buf.h: growing, printing, and taking bytes off the front. */
#include <base/buf.h>

#include <stdio.h>
#include <stdlib.h>

#define GROW_MIN_BYTES 256

void buf_init(struct buf *b, size_t limit)
{
    *b = BUF_INIT(limit);
}

void buf_finish(struct buf *b)
{
    free(b->data);
    *b = BUF_INIT(b->limit);
}

char *buf_grow(struct buf *b, size_t len)
{
    size_t cap = b->cap ? b->cap : GROW_MIN_BYTES;
    char *p;

    if (len > SIZE_MAX / 4 || (b->limit && (len > b->limit || b->len > b->limit - len))) {
        b->failed = true;
        return NULL;
    }
    while (cap - b->len < len) {
        cap *= 2;
    }
    if (b->limit && cap > b->limit) {
        cap = b->limit;
    }
    p = realloc(b->data, cap + 1);
    if (!p) {
        b->failed = true;
        return NULL;
    }
    b->data = p;
    b->cap = cap;
    return b->data + b->len;
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    char *p;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) {
        return FN_E_INVALID;
    }
    p = buf_reserve(b, (size_t)n + 1);
    if (!p) {
        return FN_E_EXHAUSTED;
    }
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
    return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return r;
}

void buf_consume(struct buf *b, size_t len)
{
    if (len >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

const char *buf_text(struct buf *b)
{
    if (!b->data) {
        return "";
    }
    b->data[b->len] = '\0';
    return b->data;
}
