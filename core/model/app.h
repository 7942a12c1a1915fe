/* App, fn, trigger: what the API keeps and the catalog knows, from fn.yaml, from a client's or an
 * API node's JSON, or from the store. One shape and one set of rules for all of them.
 *
 * Texts live in the arena of their owner. Times are ns since 1970, 0 = none. Go Fn: api/models. */
#ifndef MODEL_APP_H
#define MODEL_APP_H

#include <base/buf.h>
#include <base/err.h>
#include <model/kvs.h>
#include <model/limits.h>
#include <stdbool.h>

struct app {
    const char *id;
    const char *name;
    const char *syslog_url; /* "" if none; NULL in a change that does not speak of it */
    const char *shape;      /* "" or Go Fn's word for a processor */
    struct kvs config;
    struct kvs annotations; /* values are JSON texts */
    int64_t created_ns, updated_ns;
};

struct fn_def {
    const char *id;
    const char *name;
    const char *app_id;
    const char *image;
    uint64_t mem_mb;
    uint64_t cpu_milli; /* fn.yaml only; 0 = none */
    uint32_t tmpfs_mb;  /* fn.yaml only; 0 = engine's default */
    int32_t timeout_s;
    int32_t idle_timeout_s;
    const char *shape; /* of its app */
    struct kvs config;
    struct kvs annotations;
    int64_t created_ns, updated_ns;
};

#define TRIGGER_HTTP "http" /* the only type */

struct trigger {
    const char *id;
    const char *name;
    const char *app_id;
    const char *fn_id;
    const char *type;
    const char *source; /* begins with '/' */
    struct kvs annotations;
    int64_t created_ns, updated_ns;
};

void app_init(struct app *a, struct arena *arena);
void fn_def_init(struct fn_def *f, struct arena *arena); /* with the defaults */
void fn_def_defaults(struct fn_def *f); /* in the place of zeros */
void trigger_init(struct trigger *t, struct arena *arena);

/* ---- JSON (app_json.c) ----------------------------------------------------------------------- */

/* BY_NODE: unknown keys are ignored, null leaves the default, generated annotations are kept.
 * BY_CLIENT, what is to be made or changed: numbers that are not named are 0, a null deletes, and
 * what two readers could take for different things is refused: a key twice, text behind the object,
 * bytes that are no UTF-8. FN_E_INVALID with "line:col reason". */
int app_from_json(struct app *a, enum json_writer by, struct arena *arena, const char *json,
                  size_t len, struct fn_error *reterr);
int fn_def_from_json(struct fn_def *f, enum json_writer by, struct arena *arena, const char *json,
                     size_t len, struct fn_error *reterr);
int trigger_from_json(struct trigger *t, enum json_writer by, struct arena *arena,
                      const char *json, size_t len, struct fn_error *reterr);
/* {"items":[app...]}: the first item; 1 when there is none. */
int app_list_first(struct app *a, struct arena *arena, const char *json, size_t len,
                   struct fn_error *reterr);
/* {"message":"..."}, or NULL. */
const char *api_message(struct arena *arena, const char *json, size_t len);

/* As Go Fn's API writes them. 0 or FN_E_EXHAUSTED. */
int app_to_json(const struct app *a, struct buf *out);
int fn_def_to_json(const struct fn_def *f, struct buf *out);
int trigger_to_json(const struct trigger *t, struct buf *out);

/* ---- rules ----------------------------------------------------------------------------------- */

/* Go Fn's rules for apps, functions and triggers, with its sentences; for functions those that
 * calls depend on: what an API node answers has annotations of its own beyond those of clients. */
int app_check(const struct app *a, struct fn_error *reterr);
/* Letters, digits, _ and -; whatever is seen of other scripts stands for letters. */
bool app_name_is_plain(const char *name);
bool app_syslog_is_known(const char *url); /* its scheme is one of those that Go Fn takes */
int fn_def_check(const struct fn_def *f, struct fn_error *reterr);
int trigger_check(const struct trigger *t, struct fn_error *reterr);
/* The same for what is to be kept, annotations included, and what a runner or its driver would
 * refuse of each call. */
int app_check_kept(const struct app *a, struct fn_error *reterr);
int fn_def_check_kept(const struct fn_def *f, struct fn_error *reterr);
bool app_config_is_key(const char *key); /* of an environment */
bool app_annotation_is_key(const char *key); /* printable ASCII; its length is a limit of its own */
bool app_annotation_is_nothing(const char *json); /* empty: in a change it removes the annotation */
/* And nothing is said that the node decides itself. */
int app_check_new(const struct app *a, struct fn_error *reterr);
int fn_def_check_new(const struct fn_def *f, struct fn_error *reterr);
int trigger_check_new(const struct trigger *t, struct fn_error *reterr);

/* Takes over what a change says: what is empty stays, keys of maps are merged, and one with an
 * empty value goes away. What cannot be changed is not looked at. Texts are borrowed from the
 * change. 1 = something is new, 0 = nothing, or FN_E_EXHAUSTED. */
int app_merge(struct app *a, const struct app *change);
int fn_def_merge(struct fn_def *f, const struct fn_def *change);
int trigger_merge(struct trigger *t, const struct trigger *change);

#endif
