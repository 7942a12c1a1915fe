/* Headers: an ordered list of HTTP fields, names compared without case, in an arena. */
#ifndef BASE_HEADERS_H
#define BASE_HEADERS_H

#include <base/arena.h>
#include <stdbool.h>
#include <stdint.h>
#include <strings.h>

struct header {
    const char *name;
    const char *value;
};

struct headers {
    struct arena *arena; /* owns items, names and values but for borrowed ones */
    struct header *items;
    uint32_t n;
    uint32_t cap;
};

/* Nearly all others differ in the first letter. */
static inline bool header_is(const char *name, const char *other)
{
    return ((name[0] ^ other[0]) & ~('a' ^ 'A')) == 0 && strcasecmp(name, other) == 0;
}

void headers_init(struct headers *h, struct arena *arena);
/* With room for so many fields, which takes no memory; `room` lives as long as the list. */
void headers_init_room(struct headers *h, struct arena *arena, struct header *room, uint32_t n);
/* Copies both texts. 0 or FN_E_EXHAUSTED. */
int headers_add(struct headers *h, const char *name, const char *value);
int headers_add_n(struct headers *h, const char *name, size_t name_len, const char *value,
                  size_t value_len);
/* Borrows both texts, which must live as long as the list. */
int headers_add_borrowed(struct headers *h, const char *name, const char *value);
/* Replaces all fields of that name by one. */
int headers_set(struct headers *h, const char *name, const char *value);
/* First value or NULL. */
const char *headers_get(const struct headers *h, const char *name);
/* Removes all fields of that name; true if there was one. */
bool headers_remove(struct headers *h, const char *name);

#endif
