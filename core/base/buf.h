/* Buf: a growable run of bytes with a limit. Not thread-safe. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdarg.h>

struct buf {
    char *data; /* NULL while empty; not NUL-terminated unless buf_text() was called */
    size_t len;
    size_t cap;
    size_t limit; /* bytes; 0 = none */
};

#define BUF_INIT(limit_) ((struct buf){ .limit = (limit_) })

void buf_init(struct buf *b, size_t limit);
void buf_finish(struct buf *b);
/* 0, or FN_E_EXHAUSTED when memory or the limit ran out; then nothing was added. */
int buf_add(struct buf *b, const void *data, size_t len);
int buf_add_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Room for `len` more bytes at the returned place, or NULL; then add to b->len what was written. */
char *buf_reserve(struct buf *b, size_t len);
/* Drops the first `len` bytes. */
void buf_consume(struct buf *b, size_t len);
void buf_clear(struct buf *b);
/* The bytes as NUL-terminated text, "" when empty or out of memory; borrowed until the next
 * change. */
const char *buf_text(struct buf *b);

#endif
