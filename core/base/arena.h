/* Arena: memory that dies together, in chunks whose addresses never move.
 *
 * A call lives in one; everything that belongs to it (headers, ids, texts) is allocated here and
 * freed in one go. Not thread-safe: belongs to the context of its owner. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *head;
    size_t used_bytes; /* of all chunks, for accounting */
    size_t limit_bytes; /* 0 = none */
    bool failed; /* something was not allocated: what was built here may have holes */
};

void arena_init(struct arena *a, size_t limit_bytes);
void arena_finish(struct arena *a);
/* The first allocation of an arena whose owner lives in it: `size` bytes, and room for `more` that
 * will be asked for soon. To end the owner, finish a copy of the arena. */
void *arena_alloc_owner(struct arena *a, size_t size, size_t more);
/* NULL when memory or the limit is exhausted; zeroed; aligned for any type. */
void *arena_alloc(struct arena *a, size_t size);
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
/* The texts behind each other; the last argument is (char *)NULL. */
char *arena_join(struct arena *a, const char *first, ...) __attribute__((sentinel));
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
