/* Set: single values of a configuration that is in use, by the names of fn.yaml, "log.level".
 *
 * They are read by the parsers and held against the rules of fn.yaml, also those of several values.
 * One that a reload could not change is refused. Texts stay in the configuration's memory until the
 * next reload, so their number is bounded. */
#include <config/config_int.h>

#include <conf/opts.h>
#include <stdlib.h>
#include <string.h>

#define SETS_MAX 10000u /* keys, of one configuration */
#define FROM     "ConfigureRunner"

struct config_undo {
    struct {
        void *data; /* NULL: nothing of this section was changed */
        const char **source;
    } sections[SECTIONS_N];
};

/* "runner.freeze_idle" is key "freeze_idle" of SECTION_RUNNER; SECTIONS_N: it is of no section. */
static int section_of(const char *name, const char **ret_key)
{
    size_t len = strcspn(name, ".");

    for (int s = 0; s < SECTIONS_N && name[len] && len > 0; s++) {
        const char *key = config_sections[s].key;

        if (strlen(key) == len && strncmp(key, name, len) == 0) {
            *ret_key = name + len + 1;
            return s;
        }
    }
    return SECTIONS_N;
}

bool config_is_setting(const char *name)
{
    const char *key;

    return section_of(name, &key) < SECTIONS_N;
}

/* ---- as it was ------------------------------------------------------------------------------- */

static void *copy_of(const void *from, size_t size)
{
    void *copy = malloc(size + 1);

    return copy ? memcpy(copy, from, size) : NULL;
}

static bool note_section(const struct config *c, struct config_undo *u, int s)
{
    const struct conf_values *v = c->priv->values[s];

    if (!u->sections[s].data) {
        u->sections[s].source = copy_of(v->source, v->n_opts * sizeof(*v->source));
        u->sections[s].data = u->sections[s].source ? copy_of(v->data, config_rows_size(s)) : NULL;
    }
    return u->sections[s].data != NULL;
}

void config_undo_free(struct config_undo *u)
{
    for (int s = 0; u && s < SECTIONS_N; s++) {
        free(u->sections[s].data);
        free(u->sections[s].source);
    }
    free(u);
}

void config_undo(struct config *c, struct config_undo *u)
{
    for (int s = 0; s < SECTIONS_N; s++) {
        struct conf_values *v = c->priv->values[s];

        if (u->sections[s].data) {
            memcpy(v->data, u->sections[s].data, config_rows_size(s));
            memcpy(v->source, u->sections[s].source, v->n_opts * sizeof(*v->source));
        }
    }
    config_undo_free(u);
}

/* ---- one value ------------------------------------------------------------------------------- */

static void set_one(struct config *c, struct config_undo *u, const struct fn_kv *kv,
                    struct conf_problems *p)
{
    const char *key = NULL;
    int s = section_of(kv->key, &key);
    const struct fn_opt *o = s < SECTIONS_N ? opt_find(config_rows(s), key) : NULL;

    if (!o || !config_section_applies(c, s)) {
        conf_problem(p, "CFG706", FROM, "no setting %s of this node", conf_quote(kv->key));
    } else if (!(o->flags & OPT_IS_LIVE)) {
        conf_problem(p, "CFG720", FROM, "%.120s cannot change while the node runs", kv->key);
    } else if (++c->priv->sets_n > SETS_MAX) {
        conf_problem(p, "CFG706", FROM, "%u settings since the last reload; expected a reload",
                     SETS_MAX);
    } else if (!note_section(c, u, s)) {
        conf_problem(p, "CFG709", FROM, "out of memory");
    } else {
        conf_override(c->priv->values[s], key, kv->key, kv->value, p); /* named by it */
    }
}

int config_set(struct config *c, const struct fn_kv *keys, uint32_t n, struct config_undo **ret,
               struct fn_error *reterr)
{
    struct config_undo *u = calloc(1, sizeof(*u));
    struct conf_problems p;
    int r = 0;

    if (!u) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    conf_problems_init(&p);
    for (uint32_t i = 0; i < n; i++) {
        set_one(c, u, &keys[i], &p);
    }
    if (p.n == 0) {
        config_check_values(c, &p);
    }
    if (p.n > 0) {
        r = err_set(reterr, FN_E_INVALID, "%.*s", (int)strcspn(buf_text(&p.text), "\n"),
                    buf_text(&p.text));
        config_undo(c, u);
        u = NULL;
    }
    conf_problems_finish(&p);
    *ret = u;
    return r;
}
