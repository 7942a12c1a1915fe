/* What programs and HTTP servers answer, from a file, so that a plugin can be checked when its
 * world is well. Requests that fit no entry are answered with nothing. */
#include "outside.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 256

struct entry {
    struct script_step step;
    struct conf_values *values; /* owns its texts */
    char *program; /* step.run, from anywhere */
    uint32_t used;
    bool http;
};

static struct entry steps[STEPS_MAX];
static uint32_t n_steps;
static struct conf *file;

#define AT(field) .offset = offsetof(struct script_step, field)
#define MATCH                                                                                      \
    {                                                                                              \
        .key = "match", .doc = "Beginning of the request.", .type = FN_OPT_STR, .min = 1,          \
        .max = 1024, AT(match)                                                                     \
    }
#define TIMES                                                                                      \
    {                                                                                              \
        .key = "times", .doc = "How often it answers; 0 = always.", .dflt = "0",                   \
        .type = FN_OPT_INT, .min = 0, .max = 1000000, AT(times)                                    \
    }
#define RUN(doc_)                                                                                  \
    {                                                                                              \
        .key = "run", .doc = doc_, .type = FN_OPT_STR, .flags = FN_OPT_MAY_BE_ABSENT, .min = 1,    \
        .max = 1024, AT(run)                                                                       \
    }
#define OUT(key_)                                                                                  \
    {                                                                                              \
        .key = key_, .doc = "What it says.", .type = FN_OPT_STR, .flags = FN_OPT_MAY_BE_ABSENT,    \
        .min = 0, .max = 65536, AT(out)                                                            \
    }

static const struct fn_opt http_opts[] = {
    RUN("Program that answers instead: arguments METHOD, URL and body; prints a line with the "
        "status, then the body."),
    MATCH,
    TIMES,
    OUT("body"),
    {.key = "status",
     .doc = "HTTP status.",
     .dflt = "200",
     .type = FN_OPT_INT,
     .min = 100,
     .max = 599,
     AT(status)},
    {.key = NULL},
};

static const struct fn_opt exec_opts[] = {
    RUN("Program that is run in its place, with the same arguments."),
    MATCH,
    TIMES,
    OUT("out"),
    {.key = "exit",
     .doc = "Exit code.",
     .dflt = "0",
     .type = FN_OPT_INT,
     .min = 0,
     .max = 255,
     AT(status)},
    {.key = NULL},
};

/* Cases run in a folder of their own. */
static void take_program(struct entry *e)
{
    e->program = e->step.run ? realpath(e->step.run, NULL) : NULL;
    if (e->program) {
        e->step.run = e->program;
    }
}

static void read_list(struct conf *c, struct conf_node *list, bool http, struct conf_problems *p)
{
    const char *what = http ? "http" : "exec";

    if (list->type != CONF_LIST) {
        conf_problem(p, "CFG704", conf_where(c, list), "%s; expected a list of {match: ...}", what);
        return;
    }
    for (struct conf_node *n = list->first; n; n = n->next) {
        struct conf_values *v = NULL;

        if (n_steps == STEPS_MAX) {
            conf_problem(p, "CFG704", conf_where(c, n), "more than %d entries", STEPS_MAX);
            return;
        }
        if (conf_bind(c, n, what, http ? http_opts : exec_opts, sizeof(struct script_step), NULL,
                      NULL, &v, p) == 0) {
            memcpy(&steps[n_steps].step, v->data, sizeof(struct script_step));
            steps[n_steps].values = v;
            take_program(&steps[n_steps]);
            steps[n_steps++].http = http;
        }
    }
}

void script_finish(void)
{
    while (n_steps > 0) {
        conf_values_destroy(steps[--n_steps].values);
        free(steps[n_steps].program);
    }
    conf_destroy(file);
    file = NULL;
}

int script_load(const char *path, struct conf_problems *p)
{
    static const char *const known[] = {"http", "exec", NULL};
    struct conf_node *root;

    script_finish();
    conf_load(path, &file, p);
    root = file ? conf_root(file) : NULL;
    for (struct conf_node *n = root ? root->first : NULL; n; n = n->next) {
        if (strcmp(n->key, "http") == 0 || strcmp(n->key, "exec") == 0) {
            read_list(file, n, n->key[0] == 'h', p);
        } else {
            conf_unknown_key(file, n, known, p);
        }
    }
    return p->n > 0 ? FN_E_INVALID : 0;
}

const struct script_step *script_find(bool http, const char *request)
{
    for (uint32_t i = 0; i < n_steps; i++) {
        struct entry *e = &steps[i];

        if (e->http == http && (e->step.times == 0 || e->used < e->step.times) &&
            strncmp(request, e->step.match, strlen(e->step.match)) == 0) {
            e->used++;
            return &e->step;
        }
    }
    if (!shared->unscripted[0]) {
        size_t len = strlen(request);

        len = len < sizeof(shared->unscripted) - 1 ? len : sizeof(shared->unscripted) - 1;
        memcpy(shared->unscripted, request, len);
        shared->unscripted[len] = '\0';
    }
    return NULL;
}

void script_rewind(void)
{
    for (uint32_t i = 0; i < n_steps; i++) {
        steps[i].used = 0;
    }
}
