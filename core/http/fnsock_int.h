/* Private to fnsock: its objects and what its files call in each other.
 *
 *   fnsock.c      table, life of one container's object, watching for the socket
 *   fnsock_dir.c  directories: making, mounting, locking (fnsock_dirs.h: and what becomes of them)
 *   fnsock_link.c from the name lsnr.sock to a checked connection
 *   fnsock_call.c one exchange
 *
 * States of a fnsock: WAITING (nothing published) -> PROBING (a socket is there, nobody accepts) ->
 * READY, or FAILED (on_ready told why). The probe's connection is kept for the first request: some
 * FDKs serve one connection at a time and log each one that goes away unused.
 *
 * An exchange lives inside its fnsock. Callbacks may finish it and close the fnsock; `busy` keeps
 * the memory until our own function returns. */
#ifndef HTTP_FNSOCK_INT_H
#define HTTP_FNSOCK_INT_H

#include <base/buf.h>
#include <base/log.h>
#include <base/states.h>
#include <base/table.h>
#include <http/fnsock.h>
#include <http/fnsock_dirs.h>
#include <http/parse.h>

#define FNSOCK_NAME          "lsnr.sock"
#define FNSOCK_SCRATCH_BYTES 65536
#define CONNECT_WAIT_NS      ENV_S /* for the function's queue, or a descriptor of ours */
#define FNSOCK_HIGH_BYTES    65536 /* request bytes kept for a function that does not read */

struct fnsocks {
    struct loop *loop;
    struct env *env;
    struct fnsock_config config;
    struct parse_limits parse_limits;
    char *iofs_path, *engine_path, *tmpfs_opts;
    char instance[40];  /* "fnd-iofs-<random>" */
    char *instance_dir; /* absolute */
    int instance_fd;
    int lock_fd;        /* -1 = the bin's */
    struct bin *bin;
    bool tmpfs_seen;    /* by functions: a socket appeared in one */
    struct env_timer measure;
    struct loop_fd inotify;
    struct fnsock *by_watch;
    uint32_t open_n;
    char scratch[FNSOCK_SCRATCH_BYTES];
};

enum exchange_state {
    EXCHANGE_NONE,
    EXCHANGE_CONNECT, /* waits until a connection can be had */
    EXCHANGE_HEAD,
    EXCHANGE_BODY,
    EXCHANGE_ENDED, /* result is there; on_end was or will be called */
    EXCHANGE_STATES_N
};
extern const struct states exchange_states;

struct fnsock_exchange {
    struct fnsock *f;
    struct fnsock_cb cb;
    void *ud;
    enum exchange_state state;
    uint32_t serial;   /* tells a later exchange in the same memory from this one */
    bool eof_given;    /* by the runner */
    bool write_closed; /* the function does not take the rest of the request */
    bool reconnected;
    bool paused;
    bool wants_writable;
    bool told; /* on_end was called */
    bool keep_alive;
    bool body_to_end; /* the end of the connection is the end of the body */
    uint32_t interim_n;
    struct buf out;
    size_t out_off;
    struct buf in;
    struct parse_seek seek;
    struct parse_framing framing;
    struct chunked chunked;
    uint64_t left;
    uint64_t bytes_max; /* of the body, 0 = any; what counted when it began, whatever is reloaded */
    struct fnsock_result result;
    int64_t begun_ns;
    struct env_task end_task;
    struct env_task flush_task;
    struct env_task sent_task;
};

enum fnsock_state {
    FNSOCK_WAITING,
    FNSOCK_PROBING,
    FNSOCK_READY,
    FNSOCK_FAILED,
    FNSOCK_STATES_N
};
extern const struct states fnsock_states;

struct fnsock {
    struct fnsocks *all;
    enum fnsock_state state;
    struct iofs_dir *d;
    char *engine_dir;
    int watch; /* inotify's; -1 = none */
    uint32_t uid;
    void (*on_ready)(void *ud, const struct fn_error *err);
    void *ud;
    struct env_task check_task;
    struct env_timer retry;
    int64_t no_room_ns; /* WAITING, PROBING: no descriptor for it since; 0 = there is one */
    /* the connection: */
    struct loop_fd w; /* fd -1 = none */
    bool full; /* the socket took less than it was given */
    bool used;     /* was kept for this request, so it may be stale */
    bool answered; /* the function has had a request */
    bool tainted;  /* it wrote without being asked */
    struct env_timer idle;
    int64_t idle_since_ns;
    uint32_t busy;
    bool closed;
    struct fnsock_exchange x;
    UT_hash_handle hh; /* by watch */
};

/* fnsock_dir.c */
int fnsock_dir_start(struct fnsocks *all, struct fn_error *reterr);
void fnsock_dir_stop(struct fnsocks *all);
int fnsock_dir_make(struct fnsock *f, const char *container_id, struct fn_error *reterr);
/* After the watch is set: lets the function in. */
int fnsock_dir_open(struct fnsock *f, struct fn_error *reterr);
/* A socket appeared in the tmpfs: whoever runs functions sees it. */
void fnsock_dir_seen(struct fnsock *f);
/* true: the socket appeared beneath the tmpfs, which was taken away. The watch was on it. */
bool fnsock_dir_uncover(struct fnsock *f);
void fnsock_dir_remove(struct fnsock *f);

/* fnsock_link.c */
enum link_outcome {
    LINK_OK,
    LINK_ABSENT,  /* no such name */
    LINK_NOBODY,  /* a socket, but nobody accepts (any more) */
    LINK_LATER,   /* the queue of connections is full */
    LINK_NO_ROOM, /* this node is out of descriptors or memory */
    LINK_BAD,     /* not a socket, or it cannot be used */
    LINK_ESCAPE,  /* leaves its directory or belongs to somebody else */
};
/* Connects; *ret_fd is non-blocking. text explains every other outcome than OK. */
enum link_outcome fnsock_link_connect(const struct fnsock *f, int *ret_fd, char *text, size_t size);
/* What the function published, before it is used at all: LINK_OK = worth a connect. */
enum link_outcome fnsock_link_check(const struct fnsock *f, char *text, size_t size);
/* true when the peer of f's connection has the expected uid, else text says who it is. */
bool fnsock_link_peer_ok(const struct fnsock *f, int fd, char *text, size_t size);

/* fnsock.c */
/* Nothing else bounds this directory. */
void fnsock_measure(struct fnsocks *all, struct iofs_dir *d);
void fnsock_disconnect(struct fnsock *f);
int fnsock_adopt(struct fnsock *f, int fd); /* makes fd the connection */
void fnsock_interest(struct fnsock *f);
void fnsock_idle(struct fnsock *f);         /* the connection is kept for the next request */
void fnsock_enter(struct fnsock *f);
void fnsock_leave(struct fnsock *f); /* may free f */

/* fnsock_call.c */
struct fnsock_exchange *fnsock_request_start(struct fnsock *f, const struct fnsock_request *r,
                                             const struct fnsock_cb *cb, void *ud);
int fnsock_exchange_send(struct fnsock_exchange *x, const void *data, size_t len, bool eof);
uint64_t fnsock_exchange_sent(const struct fnsock_exchange *x);
void fnsock_exchange_pause(struct fnsock_exchange *x, bool paused);
void fnsock_exchange_finish(struct fnsock_exchange *x);
void fnsock_exchange_retry(struct fnsock_exchange *x); /* the retry timer fired */
void fnsock_exchange_readable(struct fnsock_exchange *x);
void fnsock_exchange_writable(struct fnsock_exchange *x);
static inline bool fnsock_exchange_active(const struct fnsock_exchange *x)
{
    return x->state == EXCHANGE_HEAD || x->state == EXCHANGE_BODY;
}

#endif
