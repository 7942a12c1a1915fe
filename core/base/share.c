/* Share: who holds some of a common limit. */
#include <base/share.h>

struct share_holder *share_join(struct share_holder **list, const char *name)
{
    struct share_holder *h;

    TABLE_GET(*list, name, name, h);
    if (h) {
        h->users++;
    }
    return h;
}

void share_leave(struct share_holder **list, struct share_holder *h)
{
    if (--h->users == 0) {
        HASH_DEL(*list, h);
        free(h);
    }
}
