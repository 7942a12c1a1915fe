/* App, fn, trigger: what the catalog knows, from fn.yaml or from an API node's JSON.
 *
 * Texts live in the arena of their owner. Go Fn: api/models. */
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
    const char *syslog_url; /* "" if none */
    struct kvs config;
    struct kvs annotations; /* values are JSON texts */
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
    struct kvs config;
    struct kvs annotations;
};

struct trigger {
    const char *id;
    const char *name;
    const char *app_id;
    const char *fn_id;
    const char *source; /* begins with '/' */
};

void app_init(struct app *a, struct arena *arena);
void fn_def_init(struct fn_def *f, struct arena *arena); /* with the defaults */
void trigger_init(struct trigger *t);

/* Answers of an API node; unknown keys are ignored, null leaves the default, generated annotations
 * are kept. FN_E_INVALID with "line:col reason". */
int app_from_json(struct app *a, struct arena *arena, const char *json, size_t len,
                  struct fn_error *reterr);
int fn_def_from_json(struct fn_def *f, struct arena *arena, const char *json, size_t len,
                     struct fn_error *reterr);
int trigger_from_json(struct trigger *t, struct arena *arena, const char *json, size_t len,
                      struct fn_error *reterr);
/* {"items":[app...]}: the first item; 1 when there is none. */
int app_list_first(struct app *a, struct arena *arena, const char *json, size_t len,
                   struct fn_error *reterr);
/* {"message":"..."}, or NULL. */
const char *api_message(struct arena *arena, const char *json, size_t len);

/* Go Fn's rules for apps, functions and triggers, with its sentences. */
int app_check(const struct app *a, struct fn_error *reterr);
bool app_syslog_is_known(const char *url); /* its scheme is one of those that Go Fn takes */
int fn_def_check(const struct fn_def *f, struct fn_error *reterr);
int trigger_check(const struct trigger *t, struct fn_error *reterr);

#endif
