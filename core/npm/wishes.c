/* A hash table by group and id, and its text form. */
#include <npm/wishes.h>

#include <base/table.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_MAX 63u /* NPM_GROUP_NAME_MAX */

struct key {
    char group[GROUP_MAX + 1];
    char id[NPM_ID_MAX + 1];
};

struct entry {
    struct key key;
    enum npm_wish wish;
    bool removing;   /* its host, when it was seen last */
    int64_t seen_ns; /* its host */
    UT_hash_handle hh;
};

struct npm_wishes {
    struct entry *entries;
};

struct npm_wishes *npm_wishes_create(void)
{
    return calloc(1, sizeof(struct npm_wishes));
}

static void drop(struct npm_wishes *w, struct entry *e)
{
    HASH_DEL(w->entries, e);
    free(e);
}

void npm_wishes_destroy(struct npm_wishes *w)
{
    struct entry *e, *next;

    if (!w) {
        return;
    }
    HASH_ITER(hh, w->entries, e, next)
    {
        drop(w, e);
    }
    free(w);
}

static struct entry *wishes_find(const struct npm_wishes *w, const struct key *k)
{
    struct entry *e;

    HASH_FIND(hh, w->entries, k, sizeof(*k), e);
    return e;
}

int npm_wishes_set(struct npm_wishes *w, const char *group, const char *id, enum npm_wish wish,
                   int64_t now_ns)
{
    struct key k = { .group = "" };
    struct entry *e;

    strncpy(k.group, group, GROUP_MAX);
    strncpy(k.id, id, NPM_ID_MAX);
    e = wishes_find(w, &k);
    if (wish == NPM_WISH_NONE) {
        if (e) {
            drop(w, e);
        }
        return 0;
    }
    if (!e && (HASH_COUNT(w->entries) >= NPM_WISHES_MAX || !(e = calloc(1, sizeof(*e))))) {
        return FN_E_EXHAUSTED;
    }
    if (e->wish == NPM_WISH_NONE) {
        e->key = k;
        HASH_ADD(hh, w->entries, key, sizeof(e->key), e);
        if (!table_has(e)) {
            free(e);
            return FN_E_EXHAUSTED;
        }
    }
    e->wish = wish;
    e->seen_ns = now_ns;
    return 0;
}

/* Its host is missing. */
static bool wish_is_over(const struct entry *e, int64_t now_ns)
{
    return (e->removing && e->wish != NPM_WISH_DRAIN) || now_ns - e->seen_ns >= NPM_WISH_LIFE_NS;
}

uint32_t npm_wishes_visit(struct npm_wishes *w, const char *group, int64_t now_ns,
                          npm_wish_visit visit, void *ud)
{
    struct entry *e, *next;
    uint32_t forgotten = 0;

    HASH_ITER(hh, w->entries, e, next)
    {
        enum npm_wish_host host;

        if (strcmp(e->key.group, group) != 0) {
            continue;
        }
        host = visit(ud, e->key.id, e->wish);
        if (host != NPM_HOST_MISSING) {
            e->seen_ns = now_ns;
            e->removing = host == NPM_HOST_REMOVING;
        } else if (wish_is_over(e, now_ns)) {
            drop(w, e);
            forgotten++;
        }
    }
    return forgotten;
}

int npm_wishes_write(const struct npm_wishes *w, struct buf *out)
{
    const struct entry *e;
    int r = buf_printf(out, "# What the operator wants of runners; written by fnd.\n");

    for (e = w->entries; e && r >= 0; e = e->hh.next) {
        r = buf_printf(out, "%s %s %s\n", npm_wish_names[e->wish], e->key.id, e->key.group);
    }
    return r;
}

static enum npm_wish wish_of(const char *name)
{
    int w = NPM_WISH_DRAIN;

    while (w < NPM_WISHES_N && strcmp(npm_wish_names[w], name) != 0) {
        w++;
    }
    return w < NPM_WISHES_N ? (enum npm_wish)w : NPM_WISH_NONE;
}

static bool read_line(struct npm_wishes *w, char *line, int64_t now_ns)
{
    char *rest = NULL;
    const char *name = strtok_r(line, " ", &rest);
    const char *id = strtok_r(NULL, " ", &rest);
    const char *group = rest;
    enum npm_wish wish = name ? wish_of(name) : NPM_WISH_NONE;

    return wish != NPM_WISH_NONE && id && strlen(id) <= NPM_ID_MAX && group && group[0] &&
           strlen(group) <= GROUP_MAX && npm_wishes_set(w, group, id, wish, now_ns) == 0;
}

uint32_t npm_wishes_read(struct npm_wishes *w, const char *text, int64_t now_ns)
{
    char line[GROUP_MAX + NPM_ID_MAX + 16];
    uint32_t bad = 0;

    while (*text) {
        size_t len = strcspn(text, "\n");
        bool fits = len < sizeof(line);

        if (len > 0 && *text != '#') {
            memcpy(line, text, fits ? len : 0);
            line[fits ? len : 0] = '\0';
            bad += !fits || !read_line(w, line, now_ns);
        }
        text += len + (text[len] == '\n');
    }
    return bad;
}
