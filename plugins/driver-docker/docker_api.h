/* Docker Engine API: requests as text, answers as values. Pure: no I/O, no clock.
 *
 * Everything that an engine may answer is untrusted: malformed, truncated and oversized answers end
 * in an error with one sentence. What a task may ask of the engine is fixed here: api_create_body()
 * never asks for privileges, other mounts than the socket directory, capabilities, or the host's
 * network and process namespaces, whatever the task says: its author may be another tenant. */
#ifndef DRIVER_DOCKER_API_H
#define DRIVER_DOCKER_API_H

#include "image.h"

#include <fn/driver.h>
#include <jansson.h>
#include <stdbool.h>

#define API_OWNER_LABEL    "io.fnd.owner"
#define API_INSTANCE_LABEL "io.fnd.instance"
#define API_FN_LABEL       "io.fnd.fn_id"
#define API_APP_LABEL      "io.fnd.app_id"

#define API_ENV_MAX       4096
#define API_ENV_BYTES_MAX (1024 * 1024)
#define API_NAME_MAX      64
#define API_ID_MAX        64
#define API_VERSION_MIN   140 /* 1.40 */
#define API_EVENT_MAX     (256 * 1024)

/* What the node decides about a container, beside its task. */
struct api_settings {
    const char *network;   /* NULL = the engine's default */
    bool hostname;         /* the task's is set */
    const char *label_tag; /* upstream's fn-agent-classifier, or NULL */
    bool attach_output;
    bool swappiness; /* the engine understands MemorySwappiness (cgroup v1) */
};

/* Body of POST /containers/create; given: free(). FN_E_INVALID for a task that cannot be
 * expressed. */
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
};
/* FN_E_PRECONDITION with `DOC1002 ...` when the API is too old. */
int api_parse_version(const char *body, size_t len, struct api_version *ret,
                      struct fn_error *reterr);

struct api_info {
    bool cgroup_v1;
    bool userns;  /* uids on the node differ from those inside */
    bool seccomp; /* the default profile is on */
};
int api_parse_info(const char *body, size_t len, struct api_info *ret, struct fn_error *reterr);

/* Of GET /images/{name}/json. */
int api_parse_image(const char *body, size_t len, bool *ret_has_volumes, struct fn_error *reterr);

/* The progress stream of a pull: 0, or the error it ends with. */
int api_parse_pull(const char *image, const char *body, size_t len, struct fn_error *reterr);
/* HTTP error of a pull. */
int api_pull_failure(const char *image, uint32_t status, const char *body, size_t len,
                     struct fn_error *reterr);

/* Of GET /containers/json: calls cb for each. Stops when cb returns < 0 and returns that. */
struct api_listed {
    const char *id;
    const char *name; /* without the slash */
    const char *owner;
    const char *instance;
    bool running; /* or paused */
};
int api_parse_list(const char *body, size_t len, int (*cb)(void *ud, const struct api_listed *c),
                   void *ud, struct fn_error *reterr);

/* Of GET /containers/{id}/json. */
struct api_state {
    bool running;
    bool oom;
    int exit_code;
};
int api_parse_state(const char *body, size_t len, struct api_state *ret, struct fn_error *reterr);

enum api_event_type { API_EVENT_OTHER, API_EVENT_DIE, API_EVENT_OOM, API_EVENT_DESTROY };

struct api_event {
    enum api_event_type type;
    char name[API_NAME_MAX + 1];
    int exit_code;
};
/* One line of GET /events. FN_E_INVALID when it is not an event. */
int api_parse_event(const char *line, size_t len, struct api_event *ret);

/* ---- line splitter and output frames --------------------------------------------------------- */

/* Cuts a stream of bytes into lines; a line beyond API_EVENT_MAX is dropped whole. */
struct api_lines {
    char *data;
    size_t len, cap;
    bool skipping;
};
/* cb gets each complete line without its newline. 0 or FN_E_EXHAUSTED. */
int api_lines_feed(struct api_lines *l, const char *data, size_t len,
                   void (*cb)(void *ud, const char *line, size_t len), void *ud);
void api_lines_finish(struct api_lines *l);

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
