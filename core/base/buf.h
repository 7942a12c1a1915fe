/* Buf: a growable run of bytes with a limit. Not thread-safe.
 *
 * Texts are put together from many small pieces: adding what fits is inline. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <fn/abi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

struct buf {
    char *data; /* NULL while empty; not NUL-terminated unless buf_text() was called */
    size_t len;
    size_t cap; /* at most limit; there is a byte more for buf_text() */
    size_t limit; /* bytes; 0 = none */
    bool failed; /* something was not added since it was empty: what is in it has holes */
};

#define BUF_INIT(limit_) ((struct buf){ .limit = (limit_) })

void buf_init(struct buf *b, size_t limit);
void buf_finish(struct buf *b);
char *buf_grow(struct buf *b, size_t len); /* buf_reserve() of what does not fit */

/* Room for `len` more bytes at the returned place, or NULL; then add to b->len what was written. */
static inline char *buf_reserve(struct buf *b, size_t len)
{
    return b->data && b->cap - b->len >= len ? b->data + b->len : buf_grow(b, len);
}

/* 0, or FN_E_EXHAUSTED when memory or the limit ran out; then nothing was added. */
static inline int buf_add(struct buf *b, const void *data, size_t len)
{
    char *p = len > 0 ? buf_reserve(b, len) : NULL;

    if (p) {
        memcpy(p, data, len);
        b->len += len;
    }
    return p || len == 0 ? 0 : FN_E_EXHAUSTED;
}

/* What is left of `n` pieces behind their first `done` bytes. */
static inline int buf_add_rest(struct buf *b, const struct iovec *pieces, size_t n, size_t done)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        size_t skip = done < pieces[i].iov_len ? done : pieces[i].iov_len;

        r = buf_add(b, (const char *)pieces[i].iov_base + skip, pieces[i].iov_len - skip);
        done -= skip;
    }
    return r;
}

static inline int buf_add_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Drops the first `len` bytes. */
void buf_consume(struct buf *b, size_t len);
void buf_clear(struct buf *b);
/* The bytes as NUL-terminated text; borrowed until the next change. */
const char *buf_text(struct buf *b);

#endif
