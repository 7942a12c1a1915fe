/* Slot keys: a hash over what identifies a hot container's calls.
 *
 * Most calls have the identity of one that came before. To compare it takes a tenth of the time of
 * the hash, so the last one of each place in a small table is kept with its key; an identity that
 * is not there, or too large to be kept, is hashed. */
#include <runner/runner_int.h>

#include <base/hash.h>
#include <string.h>

#define IDENTITY_KEPT_MAX 8192

void keys_finish(struct keys *k)
{
    for (uint32_t i = 0; i < KEYS_KEPT; i++) {
        buf_finish(&k->kept[i].identity);
    }
    buf_finish(&k->identity);
}

static void keys_keep(struct buf *kept, const struct buf *identity)
{
    buf_clear(kept);
    if (identity->len <= IDENTITY_KEPT_MAX) {
        buf_add(kept, identity->data, identity->len); /* without memory for it: stays empty */
    }
}

int keys_find(struct keys *k, const struct call *c, const char *extension,
              unsigned char ret[SLOT_KEY_BYTES])
{
    struct buf *identity = &k->identity;
    int r;

    buf_clear(identity);
    r = call_identity(c, extension, identity);
    if (r == 0) {
        uint64_t at = hash_text(identity->len, c->fn_id) % KEYS_KEPT;
        struct buf *kept = &k->kept[at].identity;

        if (kept->len != identity->len || memcmp(kept->data, identity->data, kept->len) != 0) {
            call_slot_key(identity, k->kept[at].key);
            keys_keep(kept, identity);
        }
        memcpy(ret, k->kept[at].key, SLOT_KEY_BYTES);
    }
    if (identity->cap > IDENTITY_KEPT_MAX) {
        buf_finish(identity);
    }
    return r;
}
