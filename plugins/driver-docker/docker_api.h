/* Docker Engine API: requests as text, answers as values. Pure: no I/O, no clock.
 *
 * Everything that an engine may answer is untrusted: malformed, truncated and oversized answers end
 * in an error with one sentence. What a task may ask of the engine is fixed here: api_create_body()
 * never asks for privileges, other mounts than the socket directory, capabilities, or the host's
 * network and process namespaces, whatever the task says: its author may be another tenant. What
 * the operator allows beyond that is in create_rules.h. */
#ifndef DRIVER_DOCKER_API_H
#define DRIVER_DOCKER_API_H

#include "image.h"
#include "json_scan.h"
#include "runner_lock.h"

#include <fn/driver.h>
#include <jansson.h>
#include <stdbool.h>

#define API_OWN_LABELS     "io.fnd." /* and what follows it */
#define API_OWNER_LABEL    "io.fnd.owner"
#define API_INSTANCE_LABEL "io.fnd.instance"
#define API_FN_LABEL       "io.fnd.fn_id"
#define API_APP_LABEL      "io.fnd.app_id"
#define API_LOCK_LABEL     "io.fnd.lock" /* runner_lock.c */

#define API_NAME_MAX      64
#define API_ID_MAX        64
#define API_IMAGE_ID_MAX  71 /* "sha256:" and 64 hex digits */
#define API_VERSION_MIN   140 /* 1.40 */
#define API_SHARES_MIN    2 /* as the engine has it */
#define API_SHARES_MAX    262144
#define API_LABELS_MAX    (16 * 1024) /* of an image: its containers carry them in every list */
#define API_EXTRAS_MAX    64 /* mounts, devices, names of a task, each */
#define API_EXTRA_JSON_MAX (64 * 1024)

struct create_rules; /* create_rules.h */

/* What the node decides about a container, beside its task. */
struct api_settings {
    const char *network;   /* NULL = the engine's default */
    bool hostname;         /* the task's is set */
    const char *label_tag; /* Go Fn's fn-agent-classifier, or NULL */
    const char *lock;      /* where this runner's lock is, "" = nobody could judge */
    bool attach_output;
    bool swappiness; /* the engine understands MemorySwappiness (cgroup v1) */
    bool no_health;  /* the engine can be told to run no health check of the image */
    const struct fn_task *own; /* the host's, whatever wrappers made of it; NULL = the task */
    const struct create_rules *rules; /* what the operator allows; NULL = nothing beyond the task */
    const char *engine_socket;        /* path; "" or NULL = none */
};

/* Body of POST /containers/create, which holds to the rules; given: free(). FN_E_INVALID for a task
 * that cannot be expressed, FN_E_PERMISSION for one that asks for what nobody allowed. */
int api_create_body(const struct fn_task *task, const struct api_settings *settings, char **ret,
                    struct fn_error *reterr);

/* The engine's {"message": "..."}, else "no reason given". */
void api_message(const char *body, size_t len, char *ret, size_t cap);

/* An answer with an error status becomes *reterr; `what` is "create", "start". Returns its code:
 *   FN_E_NOT_FOUND     404: container or image is not there
 *   FN_E_EXISTS        409
 *   FN_E_INVALID       other 4xx: the engine refuses what was asked (blame user)
 *   FN_E_EXHAUSTED     the engine's disk is full (retry)
 *   FN_E_UNAVAILABLE   anything else (retry) */
int api_failure(const char *what, uint32_t status, const char *body, size_t len,
                struct fn_error *reterr);

int api_parse_created(const char *body, size_t len, char ret_id[API_ID_MAX + 1],
                      struct fn_error *reterr);

struct api_version {
    char version[64];
    char api[16];
    int api_number; /* 1.41 -> 141 */
    bool podman;
};
/* FN_E_PRECONDITION with `DOC1002 ...` when the API is too old. */
int api_parse_version(const char *body, size_t len, struct api_version *ret,
                      struct fn_error *reterr);

struct api_info {
    bool cgroup_v1;
    bool userns;  /* uids on the node differ from those inside */
    bool no_syslog; /* it has log drivers, and this is none of them */
    bool seccomp; /* the default profile is on */
    int64_t containers; /* whosever they are, in any state; -1 = it does not say */
};
int api_parse_info(const char *body, size_t len, struct api_info *ret, struct fn_error *reterr);

/* Of GET /images/{name}/json. */
struct api_image {
    char id[API_IMAGE_ID_MAX + 1];
    bool has_volumes;
    size_t label_bytes; /* keys and values */
};
int api_parse_image(const char *body, size_t len, struct api_image *ret, struct fn_error *reterr);

/* One image of GET /system/df; id and names are borrowed from the usage. */
struct api_stored {
    const char *id;
    const json_t *tags, *digests; /* arrays of names, or no arrays */
    int64_t created_s;
    int64_t own_bytes;  /* of layers that no other image has */
    int64_t containers; /* of any state; -1 = not known */
    int64_t used_ns;    /* the caller's */
};
struct api_usage {
    int64_t layers_bytes; /* of all images, each layer once */
    struct api_stored *images;
    size_t n;
    json_t *root;
};
int api_parse_usage(const char *body, size_t len, struct api_usage *ret, struct fn_error *reterr);
void api_usage_finish(struct api_usage *u);
/* Tags, then digests; an image may have neither. */
size_t api_stored_names(const struct api_stored *image);
const char *api_stored_name(const struct api_stored *image, size_t i); /* "" = not a text */
bool api_stored_has_name(const struct api_stored *image, const char *name);

/* The progress stream of a pull: 0, or the error it ends with. */
int api_parse_pull(const char *image, const char *body, size_t len, struct fn_error *reterr);
/* HTTP error of a pull. */
int api_pull_failure(const char *image, uint32_t status, const char *body, size_t len,
                     struct fn_error *reterr);

bool api_is_id(const char *id);

/* One of GET /containers/json. */
struct api_listed {
    const char *id;
    const char *name; /* without the slash */
    const char *owner;
    const char *instance;
    const char *lock;
    bool running; /* or paused */
    bool paused;
};
/* Its answer, of any length, fed in pieces. Zeroed but for each and ud = ready. */
struct api_list {
    int (*each)(void *ud, const struct api_listed *c); /* borrowed; < 0: not called any more */
    void *ud;
    struct json_scan scan;
    char id[API_ID_MAX + 1], name[API_NAME_MAX + 1], owner[256], instance[128];
    char lock[LOCK_LABEL_MAX];
    bool running, paused, done, malformed;
    int r;
};
void api_list_feed(struct api_list *l, const char *data, size_t len);
/* Was it a whole list? 0, an error, or what each() answered. */
int api_list_end(const struct api_list *l, struct fn_error *reterr);

/* Of GET /containers/{id}/json. */
struct api_state {
    bool running;
    bool ending; /* it runs no more, and its exit code may still become another one */
    bool oom;
    int exit_code;
};
int api_parse_state(const char *body, size_t len, struct api_state *ret, struct fn_error *reterr);

enum api_event_type {
    API_EVENT_OTHER,
    API_EVENT_DIE,
    API_EVENT_OOM,
    API_EVENT_DESTROY,
    API_EVENT_IMAGE /* of whatever action */
};

struct api_event {
    enum api_event_type type;
    char name[API_NAME_MAX + 1];
    int exit_code;
};
/* GET /events, fed in pieces: a line is an event, of any length. Zeroed but for each and ud =
 * ready. */
struct api_events {
    void (*each)(void *ud, const struct api_event *ev); /* borrowed; NULL = a malformed line */
    void *ud;
    struct json_scan scan;
    struct api_event event;
    bool is_container, is_image, has_action, whole, any;
};
void api_events_feed(struct api_events *e, const char *data, size_t len);
/* The request for those that feed understands, of an owner's containers, also of the past since
 * since_s. */
int api_events_path(const char *owner, int64_t since_s, char *ret, size_t cap);
/* The same of images, whosever they are. */
int api_image_events_path(int64_t since_s, char *ret, size_t cap);

/* ---- output frames --------------------------------------------------------------------------- */

/* The engine's multiplexed output: frames of 8 bytes (stream, three zeros, big-endian length) and
 * data. Zeroed = ready. */
struct api_frames {
    unsigned char head[8];
    uint32_t head_len;
    uint32_t left;
    bool broken; /* a head made no sense; the rest is ignored */
};
/* cb gets pieces of data as they come, fd 1 or 2. */
void api_frames_feed(struct api_frames *f, const void *data, size_t len,
                     void (*cb)(void *ud, uint32_t fd, const void *data, size_t len), void *ud);

#endif
