/* Addresses by group, each with what it waits for, and the requests that were answered, so that
 * a repeated one gives nothing twice. */
#include "fixed.h"

#include "address.h"
#include "fail.h"
#include "labelled.h"

#include <stdlib.h>
#include <string.h>

#define GROUP_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

struct entry {
    const char *address; /* its id too: stable, and what an operator types */
    const char *labels;  /* NULL: none */
    uint32_t group;
    int given;
    int64_t ready_ns;
    uint64_t turn;       /* the free entry with the lowest is next */
    uint64_t rests_till; /* lists of its group */
};

struct request {
    uint64_t id;
    uint32_t accepted; /* 0 = no request */
};

struct group {
    char name[FIXED_GROUP_MAX + 1];
    uint32_t n;
    uint64_t turn_last;
    uint64_t lists; /* complete ones */
    struct request requests[FIXED_REQUESTS_MAX]; /* a ring */
    uint32_t next_request;
};

struct fixed {
    struct entry *entries;
    uint32_t n;
    struct group *groups;
    uint32_t n_groups;
    char *text; /* of all entries */
    char *free; /* the rest of it */
};

/* ---- the list of the configuration ----------------------------------------------------------- */

static struct group *find(const struct fixed *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_groups; i++) {
        if (strcmp(f->groups[i].name, name) == 0) {
            return &f->groups[i];
        }
    }
    return NULL;
}

static int refuse(struct fn_error *e, uint64_t i, const char *item, const char *expected)
{
    return fail_platform(e, FN_E_INVALID, "addresses[%llu]: got \"%.60s\"; expected %s",
                         (unsigned long long)i, item, expected);
}

/* An '=' behind the first ':' or '/' belongs to the path of a socket. */
static int take_item(struct fixed *f, const char *item, int adopted, struct fn_error *reterr)
{
    size_t len = strcspn(item, "=:/[");
    const char *name = item[len] == '=' ? item : "default";
    struct entry *e = &f->entries[f->n];
    struct labelled said;
    const char *fault;
    struct group *g;
    char text[FIXED_GROUP_MAX + 1];

    f->free = labelled_split(&said, item[len] == '=' ? item + len + 1 : item, f->free);
    e->address = said.text;
    e->labels = said.labels;
    len = item[len] == '=' ? len : strlen(name);
    if (len == 0 || len > FIXED_GROUP_MAX || strspn(name, GROUP_BYTES) < len) {
        return refuse(reterr, f->n, item, "a group of 1 to 63 letters, digits, - _ . before =");
    }
    fault = address_fault(e->address);
    fault = fault ? fault : said.fault;
    if (fault) {
        return refuse(reterr, f->n, item, fault);
    }
    memcpy(text, name, len);
    text[len] = '\0';
    g = find(f, text);
    if (!g) {
        g = &f->groups[f->n_groups++];
        memcpy(g->name, text, len + 1);
    }
    e->group = (uint32_t)(g - f->groups);
    e->given = adopted;
    e->turn = ++g->turn_last;
    g->n++;
    f->n++;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One address is one machine, whatever groups want it. */
static int check_twice(const struct fixed *f, struct fn_error *reterr)
{
    const char **sorted = calloc(f->n, sizeof(*sorted));
    int r = 0;

    if (!sorted) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        sorted[i] = f->entries[i].address;
    }
    qsort(sorted, f->n, sizeof(*sorted), by_address);
    for (uint32_t i = 1; r == 0 && i < f->n; i++) {
        if (strcmp(sorted[i], sorted[i - 1]) == 0) {
            r = fail_platform(reterr, FN_E_INVALID,
                              "addresses: got \"%.60s\" twice; expected each address once",
                              sorted[i]);
        }
    }
    free(sorted);
    return r;
}

int fixed_create(const struct fn_strlist *items, int adopted, struct fixed **ret,
                 struct fn_error *reterr)
{
    struct fixed *f;
    int r = 0;

    if (items->n == 0 || items->n > FIXED_ADDRESSES_MAX) {
        return fail_platform(reterr, FN_E_INVALID,
                             "addresses: got a list of %llu; expected 1 to %u addresses",
                             (unsigned long long)items->n, FIXED_ADDRESSES_MAX);
    }
    f = calloc(1, sizeof(*f));
    if (!f) {
        return FN_E_EXHAUSTED;
    }
    f->entries = calloc(items->n, sizeof(*f->entries));
    f->groups = calloc(items->n, sizeof(*f->groups));
    f->text = f->free = malloc(labelled_bytes(items));
    r = f->entries && f->groups && f->text ? 0 : FN_E_EXHAUSTED;
    for (uint64_t i = 0; r == 0 && i < items->n; i++) {
        r = take_item(f, items->items[i], adopted, reterr);
    }
    r = r < 0 ? r : check_twice(f, reterr);
    if (r < 0) {
        fixed_destroy(f);
        return r;
    }
    *ret = f;
    return 0;
}

void fixed_destroy(struct fixed *f)
{
    if (f) {
        free(f->entries);
        free(f->groups);
        free(f->text);
        free(f);
    }
}

/* ---- the three questions --------------------------------------------------------------------- */

int fixed_list(struct fixed *f, const char *group, int64_t now_ns, uint64_t capacity_mb,
               const struct fn_machine_sink *out, struct fn_error *reterr)
{
    struct group *g = find(f, group);
    int r = 0;

    for (uint32_t i = 0; g && r == 0 && i < f->n; i++) {
        const struct entry *e = &f->entries[i];
        struct fn_machine m = { .size = sizeof(m),
                                .id = e->address,
                                .capacity_mb = capacity_mb,
                                .labels = e->labels };

        if (&f->groups[e->group] != g || !e->given) {
            continue;
        }
        m.state = now_ns >= e->ready_ns ? FN_MACHINE_READY : FN_MACHINE_STARTING;
        m.address = m.state == FN_MACHINE_READY ? e->address : NULL;
        r = out->add(out->ud, &m);
    }
    if (g && r == 0) {
        g->lists++;
    }
    return r < 0 ? fail_platform(reterr, r, "the list of group \"%.63s\" was not taken", group) : 0;
}

static struct entry *next_free(struct fixed *f, const struct group *g)
{
    struct entry *best = NULL;

    for (uint32_t i = 0; i < f->n; i++) {
        struct entry *e = &f->entries[i];

        if (&f->groups[e->group] == g && !e->given && e->rests_till <= g->lists &&
            (!best || e->turn < best->turn)) {
            best = e;
        }
    }
    return best;
}

static const struct request *remembered(const struct group *g, uint64_t id)
{
    for (uint32_t i = 0; i < FIXED_REQUESTS_MAX; i++) {
        if (g->requests[i].accepted > 0 && g->requests[i].id == id) {
            return &g->requests[i];
        }
    }
    return NULL;
}

int fixed_provision(struct fixed *f, const char *group, uint32_t n, uint64_t request_id,
                    int64_t ready_ns, uint32_t *ret_accepted, struct fn_error *reterr)
{
    struct group *g = find(f, group);
    const struct request *before = g ? remembered(g, request_id) : NULL;
    uint32_t accepted = 0;
    struct entry *e;

    if (!g) {
        return fail_platform(reterr, FN_E_NOT_FOUND,
                             "group, got \"%.63s\"; expected a group that addresses belong to "
                             "(\"group=host:port\")",
                             group);
    }
    if (before) {
        *ret_accepted = before->accepted;
        return 0;
    }
    while (accepted < n && (e = next_free(f, g))) {
        e->given = 1;
        e->ready_ns = ready_ns;
        accepted++;
    }
    if (accepted == 0 && n > 0) {
        return fail_platform(reterr, FN_E_EXHAUSTED,
                             "group \"%.63s\": got a request for %u; expected at most 0, all %u "
                             "addresses are given out or were until a moment ago",
                             group, n, g->n);
    }
    if (accepted > 0) {
        g->requests[g->next_request] = (struct request){ request_id, accepted };
        g->next_request = (g->next_request + 1) % FIXED_REQUESTS_MAX;
    }
    *ret_accepted = accepted;
    return 0;
}

void fixed_remove(struct fixed *f, const char *group, const char *id)
{
    struct group *g = find(f, group);

    for (uint32_t i = 0; g && i < f->n; i++) {
        struct entry *e = &f->entries[i];

        if (&f->groups[e->group] == g && e->given && strcmp(e->address, id) == 0) {
            e->given = 0;
            e->turn = ++g->turn_last;
            e->rests_till = g->lists + FIXED_REST_LISTS;
        }
    }
}
