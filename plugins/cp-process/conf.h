/* What fn.yaml says of the runners, and whether it can be. */
#ifndef CP_PROCESS_CONF_H
#define CP_PROCESS_CONF_H

#include <fn/cplane.h>

#define CONF_LABELS_BYTES (FN_LABELS_TEXT_MAX + 1)
#define CONF_STATE_MAX    48

struct conf {
    const char *state; /* NULL: home_default() */
    const char *program;
    const char *base;
    int64_t capacity_mb;
    struct fn_strlist labels; /* sets that runners get in turn */
};

/* 0, or FN_E_INVALID with a sentence. */
int conf_check(const struct conf *c, struct fn_error *reterr);
/* The sets, as many as c->labels.n; free(). */
int conf_labels(const struct conf *c, char (**ret)[CONF_LABELS_BYTES], struct fn_error *reterr);

#endif
