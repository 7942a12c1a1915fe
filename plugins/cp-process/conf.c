/* Refuses what would end a runner at its start: a base that cannot be read, keys that the script
 * sets by itself, sets of labels that are none. */
#include "conf.h"

#include "labelled.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LABEL_SETS_MAX 64

static int refuse(struct fn_error *e, const char *key, const char *got, const char *why)
{
    if (e) {
        e->code = FN_E_INVALID;
        snprintf(e->msg, sizeof(e->msg), "%.8s, got \"%.64s\"%.130s", key, got, why);
    }
    return FN_E_INVALID;
}

/* Each runner gets these from the script: a second one would end it at its start. */
static const char *own_key(const char *line)
{
    static const char *const keys[] = { "node:", "admin:", "http:", "grpc:" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strncmp(line, keys[i], strlen(keys[i])) == 0) {
            return keys[i];
        }
    }
    return NULL;
}

static int check_base(const char *path, struct fn_error *reterr)
{
    FILE *f = path[0] == '/' ? fopen(path, "re") : NULL;
    const char *key = NULL;
    char line[256], why[160];

    if (!f) {
        snprintf(why, sizeof(why), "%s%.80s; expected the absolute path of a file",
                 path[0] == '/' ? ": " : "", path[0] == '/' ? strerror(errno) : "");
        return refuse(reterr, "base", path, why);
    }
    while (!key && fgets(line, sizeof(line), f)) {
        key = own_key(line);
    }
    fclose(f);
    if (key) {
        snprintf(why, sizeof(why),
                 " with %s; expected no node, admin, http and grpc, which each runner gets of its "
                 "own", key);
        return refuse(reterr, "base", path, why);
    }
    return 0;
}

int conf_check(const struct conf *c, struct fn_error *reterr)
{
    struct stat st;

    if (c->state && c->state[0] != '/') {
        return refuse(reterr, "state", c->state, "; expected an absolute path");
    }
    if (c->state && stat(c->state, &st) == 0 && !S_ISDIR(st.st_mode)) {
        return refuse(reterr, "state", c->state, "; expected a folder");
    }
    return c->base ? check_base(c->base, reterr) : 0;
}

static int take_sets(const struct fn_strlist *sets, char (*to)[CONF_LABELS_BYTES],
                     struct fn_error *reterr)
{
    for (uint64_t i = 0; i < sets->n; i++) {
        const char *fault = labels_of_option(sets->items[i], to[i]);
        char why[128];

        if (fault) {
            snprintf(why, sizeof(why), "; expected %s", fault);
            return refuse(reterr, "labels", sets->items[i], why);
        }
    }
    return 0;
}

int conf_labels(const struct conf *c, char (**ret)[CONF_LABELS_BYTES], struct fn_error *reterr)
{
    char (*sets)[CONF_LABELS_BYTES];
    int r;

    if (c->labels.n > LABEL_SETS_MAX) {
        return refuse(reterr, "labels", c->labels.items[LABEL_SETS_MAX],
                      " as the 65th; expected at most 64 sets");
    }
    sets = calloc(c->labels.n + 1, sizeof(*sets));
    if (!sets) {
        return FN_E_EXHAUSTED;
    }
    r = take_sets(&c->labels, sets, reterr);
    if (r < 0) {
        free(sets);
        return r;
    }
    *ret = sets;
    return 0;
}
