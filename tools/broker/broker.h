/* fnd-docker-broker: stands between a runner and its container engine.
 *
 *   runner (no rights) ──▶ socket of the broker ──▶ row? body? whose container? ──▶ engine's socket
 *                                     │
 *                                     └──▶ 403 and a line in the log
 *
 * A request is let through only if it is one that driver-docker makes (table.c), with a body within
 * the rules (judge.c) and about a container of the broker's owner (known.c). Nothing of the request
 * is forwarded as it came: the engine gets a request made anew from what was judged, one on each
 * connection (link.c). One thread; no state on disk. */
#ifndef BROKER_H
#define BROKER_H

#include <base/buf.h>
#include <http/parse.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HEAD_BYTES_MAX  (32 * 1024) /* credentials of a registry are in it */
#define LINE_BYTES_MAX  (8 * 1024)
#define FIELDS_MAX      32
#define BODY_BYTES_MAX  (1024 * 1024) /* of a create request */
#define TAR_BYTES_MAX   (INT64_C(4) << 30) /* as the driver has it */
#define RELAY_BYTES_MAX (64 * 1024) /* that wait for a slow reader, each way */
#define STATE_BYTES_MAX (1024 * 1024) /* of an inspection, as the driver has it */
#define CONNS_MAX       4096 /* two for each container of a large runner */
#define KNOWN_MAX       8192 /* names and ids; others are asked for again */
#define LIST_MAX        32 /* texts of one option */
#define NAME_BYTES_MAX  128 /* of a container */
#define IMAGE_BYTES_MAX 512
#define ID_BYTES        64

#define REQUEST_MS 10000 /* a head and its body */
#define ASK_MS     5000
#define ANSWER_MS  60000 /* until the engine, or a reader, takes the next step */
#define PULL_MS    600000

struct texts {
    const char *items[LIST_MAX];
    size_t n;
};

struct broker_config {
    const char *listen; /* NULL = the service manager's socket */
    const char *engine;
    const char *iofs;
    const char *owner;
    const char *group; /* of the socket; NULL = the process's */
    uid_t user;        /* who may connect */
    struct texts images, networks;
    bool load, clean;
};

/* ---- table.c: what may be asked -------------------------------------------------------------- */

enum body { BODY_NONE, BODY_CREATE, BODY_NETWORK, BODY_TAR };
enum subject { OF_ENGINE, OF_CONTAINER, OF_IMAGE };

struct row; /* of the table */

struct request {
    const struct row *row;
    const char *method;
    enum body body;
    int64_t silence_ms; /* of the engine; 0 = as long as the client is there */
    const char *before, *after; /* of the path; the subject is between them */
    enum subject subject;
    const char *name;    /* of the subject, as it was asked for; "" = none */
    const char *created; /* name of the container to be made, or NULL */
    const char *query;   /* made anew; "" = none */
    const char *auth;    /* X-Registry-Auth, or NULL */
};

/* 0, or FN_E_PERMISSION and *why. The result lives in arena. */
int table_judge(const struct broker_config *c, struct arena *arena,
                const struct parsed_request *asked, struct request *ret, struct refusal *why);
/* The head that the engine gets; name is the subject's. */
int table_head(struct buf *to, const struct request *rq, const char *name, uint64_t body_bytes);
/* An image that may be used. */
bool table_image_ok(const struct broker_config *c, const char *image);

/* ---- judge.c: what a body may say ------------------------------------------------------------ */

/* 0 and the text to send, free(); FN_E_PERMISSION and *why. */
int judge_body(const struct broker_config *c, enum body what, const char *data, size_t len,
               char **ret, struct refusal *why);

/* ---- known.c: whose containers --------------------------------------------------------------- */

struct known; /* names and ids of the owner's containers, the newest KNOWN_MAX */
void known_add(struct known **k, const char *id, const char *name);
const char *known_find(struct known *k, const char *name_or_id); /* its id, or NULL */
void known_finish(struct known **k);
/* The id in the engine's answer to a creation, as far as it is there; false = none (yet). */
bool known_created(const char *answer, size_t len, char ret[ID_BYTES + 1]);
/* The whole answer to an inspection: 200 and *ret when it is the owner's, 403 when not, or the
 * engine's status. */
int known_inspected(const char *answer, size_t len, const char *owner, char ret[ID_BYTES + 1]);

/* ---- link.c: connections --------------------------------------------------------------------- */

struct broker;
int broker_create(const struct broker_config *c, int listener, struct broker **ret);
/* Serves until *stop. */
void broker_run(struct broker *b, const volatile int *stop);
void broker_destroy(struct broker *b);

#endif
