/* Share: who holds some of a common limit. */
#include <base/share.h>

#include <stdlib.h>
#include <string.h>

struct share_holder *share_join(struct share_holder **list, const char *name)
{
    size_t len = strlen(name);
    struct share_holder *h;

    HASH_FIND(hh, *list, name, len, h);
    if (!h) {
        h = calloc(1, sizeof(*h) + len + 1);
        if (!h) {
            return NULL;
        }
        memcpy(h->name, name, len);
        HASH_ADD(hh, *list, name, len, h);
        if (!table_has(h)) {
            free(h);
            return NULL;
        }
    }
    h->users++;
    return h;
}

void share_leave(struct share_holder **list, struct share_holder *h)
{
    if (--h->users == 0) {
        HASH_DEL(*list, h);
        free(h);
    }
}
