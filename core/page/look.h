/* Look: the most interesting rows of a long table, found a slice in each turn of the loop.
 *
 * A node offers tables: runners, functions, calls. A look walks one of them, keeps the `max` rows
 * that weigh most among those that have the words looked for, and says how many there are of all
 * kinds. Ten thousand rows cost each turn no more than a hundred, and what is kept is copied, as
 * rows come and go meanwhile. [loop] */
#ifndef PAGE_LOOK_H
#define PAGE_LOOK_H

#include <base/buf.h>
#include <base/env.h>
#include <base/walk.h>

#define PAGE_TEXTS      6u
#define PAGE_NUMBERS    12u
#define PAGE_ROW_BYTES  1024u /* of texts; what is longer is cut */
#define PAGE_ROWS_MAX   200u  /* that a look may keep */
#define PAGE_WORDS_MAX  64u
#define PAGE_WALK_BYTES 64u

struct page_row {
    int64_t weight; /* < 0: it is counted, and never shown */
    const char *texts[PAGE_TEXTS]; /* NULL: nothing */
    int64_t numbers[PAGE_NUMBERS];
};

/* Room for whatever a table walks with. */
struct page_walk {
    _Alignas(16) unsigned char space[PAGE_WALK_BYTES];
};

struct page_table {
    const char *name;
    const char *const *texts;   /* names of a row's texts, NULL ends */
    const char *const *numbers; /* the same of its numbers */
    uint32_t shown;             /* rows on a page that looks for nothing in particular */
    bool sorted;                /* weights fall: a look ends when it has enough */
    void (*begin)(void *ud, struct page_walk *w); /* NULL: at zeros */
    bool (*next)(void *ud, struct page_walk *w, struct page_row *ret); /* texts are borrowed */
    void (*end)(void *ud, struct page_walk *w); /* NULL: nothing to do */
};

struct page_kept;

struct page_look {
    struct env *env;
    const struct page_table *table;
    void *ud;                        /* of the table */
    char words[PAGE_WORDS_MAX + 1];  /* "": every row; else one of its texts has it, in any case */
    uint32_t max;                    /* 1..PAGE_ROWS_MAX */
    void (*done)(struct page_look *l); /* then look_print(), look_free(); not from inside */
    /* its own: */
    struct page_walk walk;
    struct env_timer turn;
    struct page_kept **kept; /* the heaviest first; n of max */
    uint32_t n;
    uint64_t seen, found;
    bool walking, cut;
};

/* FN_E_EXHAUSTED: nothing follows. The fields before "its own" are set. */
int look_begin(struct page_look *l);
/* {"columns":[...],"rows":[[...],...],"found":n,"seen":n,"more":b}, the heaviest first. */
int look_print(struct page_look *l, struct buf *out);
void look_free(struct page_look *l); /* also in the middle; zeroed ok */

#endif
