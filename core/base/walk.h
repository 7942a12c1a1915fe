/* Walk: a list that is shown in slices, one in each turn of the loop, while its members come and
 * go. The owner of the list keeps the walks that are under way and moves those that stand on a
 * member which goes. [loop] */
#ifndef BASE_WALK_H
#define BASE_WALK_H

#include <stddef.h>
#include <sys/queue.h>

struct walk {
    LIST_ENTRY(walk) link;
    void *next; /* member to be shown next; NULL: none is left */
};

LIST_HEAD(walks, walk);

static inline void walk_begin(struct walks *all, struct walk *w, void *first)
{
    w->next = first;
    LIST_INSERT_HEAD(all, w, link);
}

static inline void walk_end(struct walk *w)
{
    LIST_REMOVE(w, link);
}

/* `member` goes; `next` is behind it. */
static inline void walks_skip(struct walks *all, const void *member, void *next)
{
    struct walk *w;

    LIST_FOREACH(w, all, link) {
        if (w->next == member) {
            w->next = next;
        }
    }
}

#endif
