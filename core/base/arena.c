/* The newest chunk serves; what does not fit begins another one, of its own size if it is large. */
#include <base/arena.h>

#include <base/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 16

struct arena_chunk {
    struct arena_chunk *next;
    size_t size;
    size_t used;
    _Alignas(ALIGN) char data[];
};

#define CHUNK_MIN_BYTES (ALLOC_QUICK_BYTES - sizeof(struct arena_chunk))

void arena_init(struct arena *a, size_t limit_bytes)
{
    *a = (struct arena){ .limit_bytes = limit_bytes };
}

void arena_finish(struct arena *a)
{
    struct arena_chunk *next;

    for (struct arena_chunk *c = a->head; c; c = next) {
        next = c->next;
        free(c);
    }
    a->head = NULL;
    a->used_bytes = 0;
}

static struct arena_chunk *arena_grow(struct arena *a, size_t size)
{
    struct arena_chunk *c;

    c = a->limit_bytes && a->used_bytes + size > a->limit_bytes ? NULL : malloc(sizeof(*c) + size);
    if (!c) {
        a->failed = true;
        return NULL;
    }
    c->size = size;
    c->used = 0;
    c->next = a->head;
    a->head = c;
    a->used_bytes += size;
    return c;
}

/* Unaligned space for text. */
static char *arena_take(struct arena *a, size_t size, size_t align)
{
    struct arena_chunk *c = a->head;
    size_t at = c ? (c->used + align - 1) / align * align : 0;

    if (!c || at > c->size || c->size - at < size) {
        c = arena_grow(a, size > CHUNK_MIN_BYTES ? size : CHUNK_MIN_BYTES);
        if (!c) {
            return NULL;
        }
        at = 0;
    }
    c->used = at + size;
    return c->data + at;
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *p = arena_take(a, size, ALIGN);

    if (p) {
        memset(p, 0, size);
    }
    return p;
}

void *arena_alloc_owner(struct arena *a, size_t size, size_t more)
{
    return arena_grow(a, size + more) ? arena_alloc(a, size) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = arena_take(a, n + 1, 1);

    if (p) {
        memcpy(p, s, n);
        p[n] = '\0';
    }
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_join(struct arena *a, const char *first, ...)
{
    size_t len = 0;
    va_list ap;
    char *text;
    char *end;

    va_start(ap, first);
    for (const char *s = first; s; s = va_arg(ap, const char *)) {
        len += strlen(s);
    }
    va_end(ap);
    text = end = arena_take(a, len + 1, 1);
    if (!text) {
        return NULL;
    }
    va_start(ap, first);
    for (const char *s = first; s; s = va_arg(ap, const char *)) {
        end = stpcpy(end, s);
    }
    va_end(ap);
    return text;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        return NULL;
    }
    p = arena_take(a, (size_t)n + 1, 1);
    if (p) {
        va_start(ap, fmt);
        vsnprintf(p, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    return p;
}
