/* Placer: decides which runner gets a call.
 *
 * The plugin never sees a socket, a retry loop or a deadline timer. It is asked, and answers TRY,
 * WAIT or GIVE_UP. On TRY the host starts the attempt; once a runner has committed to the call the
 * placer is out of the picture; on a proof that nothing ran it is asked again with `why` set. The
 * host alone decides what is safe to retry. A parked call costs a queue node and session_size bytes,
 * no thread. Go Fn: api/runnerpool.Placer. */
#ifndef FN_PLACER_H
#define FN_PLACER_H

#include <fn/host.h>
#include <fn/labels.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_PLACER_MAJOR 1
#define FN_PLACER_MINOR 0
#define FN_MAGIC_PLACER   0x464e1001u
#define FN_MAGIC_SNAPSHOT 0x464e1002u
#define FN_MAGIC_CALL     0x464e1003u
#define FN_MAGIC_PLACERS  0x464e1004u

#define FN_PLACER_SESSION_MAX 256u

/* fn_answer.verdict */
#define FN_TRY     1u /* send the call to runners[index] */
#define FN_WAIT    2u /* ask again after wait_ns, or on a wake of wake_mask */
#define FN_GIVE_UP 3u /* stop; code says why */

/* fn_ask.why; one that a placer does not know is treated as FN_WHY_WAKE */
#define FN_WHY_START       1u
#define FN_WHY_BUSY        2u /* last try: the runner refused; nothing ran */
#define FN_WHY_UNREACHABLE 3u /* last try: no commitment was made; nothing ran */
#define FN_WHY_TIMER       4u
#define FN_WHY_WAKE        5u /* pool changed or capacity was freed */

/* fn_answer.wake_mask */
#define FN_WAKE_POOL     (1u << 0)
#define FN_WAKE_CAPACITY (1u << 1)
#define FN_WAKE_PLUGIN   (1u << 2) /* through fn.wake */

/* fn_runner.flags */
#define FN_RUNNER_DRAINING (1u << 0) /* no new calls: an attempt is refused by the host */

/* Immutable facts only; live load is in fn_ask. */
struct fn_runner {
    uint64_t id;          /* stable across snapshots of one pool */
    const char *address;  /* "host:port" or "unix:/path" */
    const char *tls_name; /* NULL = host part of address */
    uint64_t capacity_mb; /* 0 = unknown */
    uint32_t weight;      /* 1..65535; 1 = normal */
    uint32_t flags;       /* FN_RUNNER_* */
    int64_t since_ns;     /* when the group first listed it; set by the host, pools leave 0 */
    const char *labels;   /* what kind of machine it is (labels.h); NULL = nothing is known */
};

/* fn_snapshot.flags; may change while the list is in use, as err_code does */
#define FN_SNAP_STALE (1u << 0) /* the pool failed to refresh; this is its last good list */

struct fn_snapshot {
    struct fn_hdr hdr; /* FN_MAGIC_SNAPSHOT */
    uint64_t epoch;    /* grows by 1 with each publish of a group */
    int64_t made_ns;
    uint32_t n;
    uint32_t stride; /* distance of two runners; use fn_snapshot_at() */
    uint32_t flags;  /* FN_SNAP_* */
    int32_t err_code; /* why the pool could not refresh, or 0 */
    const char *group;
    const void *runners;
    const void *index; /* of fn_placer_ops.index_build, or NULL: none, or it failed */
};

static inline const struct fn_runner *fn_snapshot_at(const struct fn_snapshot *s, uint32_t i)
{
    return (const struct fn_runner *)(const void *)((const char *)s->runners +
                                                    (size_t)i * s->stride);
}

/* Labels of runner i, or NULL: none, or the host knows no labels. */
static inline const char *fn_snapshot_labels(const struct fn_snapshot *s, uint32_t i)
{
    return s->stride >= offsetof(struct fn_runner, labels) + sizeof(const char *)
               ? fn_snapshot_at(s, i)->labels
               : NULL;
}

/* fn_call.kind; one that a plugin does not know is treated as FN_CALL_SYNC */
#define FN_CALL_SYNC     0u
#define FN_CALL_DETACHED 1u

struct fn_call_more; /* the host's own */

/* Borrowed view of one call. What else there is to know of it is told by "fn.view" (view.h). */
struct fn_call {
    struct fn_hdr hdr; /* FN_MAGIC_CALL */
    const char *id;
    const char *fn_id;
    const char *app_id;
    const char *lb_group; /* config FN_LB_GROUP_ID or "default" */
    uint64_t mem_mb;
    int64_t deadline_ns; /* the client's; INT64_MAX = none */
    uint32_t kind;       /* FN_CALL_* */
    uint32_t reserved0;
    struct fn_call_more *more; /* since 1.1; for "fn.view" alone; NULL = nothing else is known */
};

/* Host to placer; everything borrowed. */
struct fn_ask {
    uint32_t size;
    uint32_t why; /* FN_WHY_* */
    int64_t now_ns;
    int64_t deadline_ns; /* end of placement, not of the call */
    const struct fn_call *call;
    const struct fn_snapshot *snap; /* the same one for a whole round; n may be 0 */
    const uint32_t *inflight;       /* snap->n numbers: calls of this LB per runner */
    void *session; /* session_size bytes, aligned to 16, zeroed at FN_WHY_START; the call's own */
    uint32_t attempts;              /* TRYs so far, also those that the host refused by itself */
    uint32_t last_index;            /* of the last TRY, in the list of its round; attempts > 0 */
    int32_t last_code;              /* FN_E_* of the last attempt */
    uint32_t round;                 /* WAITs answered so far */
    uint64_t inflight_total;        /* sum of inflight[] */
};

#define FN_NOTE_MAX 32u

/* Placer to host; zeroed by the host before the call. */
struct fn_answer {
    uint32_t size;
    uint32_t verdict; /* FN_TRY, FN_WAIT, FN_GIVE_UP */
    uint32_t index;
    uint32_t wake_mask; /* FN_WAKE_* */
    /* Shortest time until it is asked again; a wake of wake_mask or the deadline ends it. The host
     * waits longer if it must: lb.retry_min, doubled with each round up to lb.retry_max, and 100 ms
     * for each attempt of the last round; up to a quarter is added at random. INT64_MAX: only a
     * wake or the deadline. */
    int64_t wait_ns;
    int32_t code;       /* FN_GIVE_UP: FN_E_*; 0 = FN_E_UNAVAILABLE */
    uint32_t reserved0;
    /* why, in a word or two for `fnd why`: "home", "jump 2"; NUL-terminated ASCII, may be "". A
     * host cuts a note without an end after FN_NOTE_MAX - 1 bytes and shows '?' for a byte that is
     * not printable; the answer itself stands. (fnkit check tells both as mistakes.) */
    char note[FN_NOTE_MAX];
};

/* How an attempt ended; one that a placer does not know is treated as FN_DONE_FAILED. */
#define FN_DONE_OK          1u
#define FN_DONE_FAILED      2u
#define FN_DONE_BUSY        3u
#define FN_DONE_UNREACHABLE 4u

struct fn_placed {
    uint32_t size;
    uint32_t outcome; /* FN_DONE_* */
    uint64_t runner_id;
    int64_t latency_ns; /* from the start of the attempt */
    const struct fn_call *call; /* borrowed */
    const struct fn_snapshot *snap; /* borrowed: the list of the attempt, with its index */
    uint32_t index;         /* of the runner in snap */
    uint32_t reserved0;
};

struct fn_placer_ops {
    struct fn_hdr hdr;     /* FN_MAGIC_PLACER */
    uint32_t session_size; /* <= FN_PLACER_SESSION_MAX; host memory, no destructor */
    uint32_t flags;        /* 0 */
    /* [loop] required; up to 50 us, also among 10 000 runners: above 1 ms it is counted, and three
     * times within 10 s bring the fallback placer. Returns 0 with *ret filled, or FN_E_*, which
     * ends the call. An answer outside of the rules ends it with blame FN_BLAME_PLUGIN. A runner
     * that drains or is not connected is refused by the host without an attempt, and the placer is
     * asked again with FN_WHY_UNREACHABLE; after snap->n + 16 such answers in a row the host waits
     * by itself. */
    int (*decide)(void *inst, const struct fn_ask *ask, struct fn_answer *ret);
    /* [loop] optional: how each attempt ended. Not for TRYs that the host refused without an
     * attempt, nor for attempts whose client went away; ask->inflight counts right all the same. */
    void (*observe)(void *inst, const struct fn_placed *what);
    /* [loop] optional, both or neither: derived data of a snapshot, built once when it is
     * published and freed with its last pin. On failure the list is used without an index. */
    int (*index_build)(void *inst, const struct fn_snapshot *snap, void **ret_index);
    void (*index_free)(void *inst, void *index);
};

/* "fn.placer": for placers that wrap another one. The wrapper calls the inner ops itself, from its
 * own methods of the same name, and gives it a part of its session and of its index: the inner
 * placer must see `size` set, a zeroed session of its session_size at FN_WHY_START and its own
 * index. A wrapper may show it a part of a list as a list of its own, the same one for a whole
 * round; it builds and frees indexes of such parts whenever it is on the loop. */
struct fn_placer_if {
    struct fn_hdr hdr; /* FN_MAGIC_PLACERS */
    /* [init] Another placer of this node by its name in fn.yaml. Its factory's create() has
     * succeeded, and it outlives the wrapper. *ret_ops is the host's copy: checked, as large as the
     * host knows, optional slots may be NULL. */
    int (*inner)(const struct fn_host *, const char *name, const struct fn_placer_ops **ret_ops,
                 void **ret_inst, struct fn_error *reterr);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_PLACER_H */
