/* What the glue's files share. */
#ifndef CP_SWARM_H
#define CP_SWARM_H

#include "hold.h"
#include "swarm_api.h"

#include <pthread.h>

#define TOLD_N 16

struct cp {
    const struct fn_host *host;
    const struct fn_http_if *http;
    const struct swarm_conf *conf;
    const char *unix_path;     /* NULL = TCP */
    char base[SWARM_BASE_MAX]; /* scheme and host of the urls */
    pthread_mutex_t lock;      /* groups are asked at the same time */
    uint64_t told[TOLD_N];     /* hashes of the last lines in the log; guarded by lock */
    uint32_t told_next;
    struct holds holds; /* guarded by lock */
};

static inline struct swarm_text swarm_text_of(const struct fn_http_answer *a)
{
    return (struct swarm_text){ a->body, a->body_len };
}

/* A GET that must answer 200; ret is the caller's to free in any case. */
int swarm_get(struct cp *cp, struct fn_op *op, const char *what, const char *path,
              struct fn_http_answer *ret, struct fn_error *reterr);

/* Logged once as long as it is among the last TOLD_N lines: lists come every second. */
void swarm_tell(struct cp *cp, const char *line);

/* fn_cplane_ops.list and .remove */
int swarm_list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
               struct fn_error *reterr);
int swarm_remove(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                 struct fn_error *reterr);

#endif
