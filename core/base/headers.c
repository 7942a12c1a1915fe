/* The fields are one array in the arena; look-ups are linear, because there are few. */
#include <base/headers.h>

#include <fn/abi.h>
#include <string.h>
#include <strings.h>

#define FIRST_CAP 16

void headers_init(struct headers *h, struct arena *arena)
{
    *h = (struct headers){ .arena = arena };
}

void headers_init_room(struct headers *h, struct arena *arena, struct header *room, uint32_t n)
{
    *h = (struct headers){ .arena = arena, .items = room, .cap = n };
}

static int headers_grow(struct headers *h)
{
    uint32_t cap = h->cap ? h->cap * 2 : FIRST_CAP;
    struct header *items = arena_alloc(h->arena, cap * sizeof(*items));

    if (!items) {
        return FN_E_EXHAUSTED;
    }
    if (h->n) {
        memcpy(items, h->items, h->n * sizeof(*items));
    }
    h->items = items;
    h->cap = cap;
    return 0;
}

int headers_add_borrowed(struct headers *h, const char *name, const char *value)
{
    if (!name || !value || (h->n == h->cap && headers_grow(h) < 0)) {
        return FN_E_EXHAUSTED;
    }
    h->items[h->n++] = (struct header){ name, value };
    return 0;
}

int headers_add_n(struct headers *h, const char *name, size_t name_len, const char *value,
                  size_t value_len)
{
    return headers_add_borrowed(h, arena_strndup(h->arena, name, name_len),
                                arena_strndup(h->arena, value, value_len));
}

int headers_add(struct headers *h, const char *name, const char *value)
{
    return headers_add_n(h, name, strlen(name), value, strlen(value));
}

int headers_set(struct headers *h, const char *name, const char *value)
{
    headers_remove(h, name);
    return headers_add(h, name, value);
}

const char *headers_get(const struct headers *h, const char *name)
{
    for (uint32_t i = 0; i < h->n; i++) {
        if (header_is(h->items[i].name, name)) {
            return h->items[i].value;
        }
    }
    return NULL;
}

bool headers_remove(struct headers *h, const char *name)
{
    uint32_t kept = 0;
    bool found;

    for (uint32_t i = 0; i < h->n; i++) {
        if (!header_is(h->items[i].name, name)) {
            h->items[kept++] = h->items[i];
        }
    }
    found = kept != h->n;
    h->n = kept;
    return found;
}
