/* The ids that the API node told as changed, with the time until which each matters. */
#include <lb/catalog_changes.h>

#include <base/table.h>
#include <stdlib.h>
#include <string.h>

struct catalog_change {
    UT_hash_handle hh; /* in the order of their last change */
    uint64_t epoch;
    int64_t until_ns;
    char id[];
};

static void change_free(struct catalog_changes *s, struct catalog_change *ch)
{
    HASH_DEL(s->of, ch);
    free(ch);
}

static void changes_drop(struct catalog_changes *s, int64_t before_ns)
{
    struct catalog_change *ch, *next;

    HASH_ITER(hh, s->of, ch, next) {
        if (ch->until_ns > before_ns) {
            break;
        }
        change_free(s, ch);
    }
}

bool catalog_changes_after(const struct catalog_changes *s, uint64_t epoch, const char *id)
{
    struct catalog_change *ch = NULL;

    HASH_FIND_STR(s->of, id, ch);
    return ch && ch->epoch > epoch;
}

void catalog_changes_add(struct catalog_changes *s, const char *id, int64_t now_ns,
                         int64_t until_ns)
{
    struct catalog_change *ch = NULL;
    size_t len = strlen(id);

    changes_drop(s, now_ns);
    HASH_FIND_STR(s->of, id, ch);
    if (ch) {
        change_free(s, ch);
    }
    ch = HASH_COUNT(s->of) < CATALOG_CHANGES_MAX ? malloc(sizeof(*ch) + len + 1) : NULL;
    if (!ch) {
        catalog_changes_expire(s);
        return;
    }
    ch->epoch = ++s->epoch;
    ch->until_ns = until_ns;
    memcpy(ch->id, id, len + 1);
    HASH_ADD_STR(s->of, id, ch);
    if (!table_has(ch)) {
        free(ch);
        catalog_changes_expire(s);
    }
}

void catalog_changes_expire(struct catalog_changes *s)
{
    s->expired_epoch = ++s->epoch;
    changes_drop(s, INT64_MAX);
}

void catalog_changes_finish(struct catalog_changes *s)
{
    changes_drop(s, INT64_MAX);
}
