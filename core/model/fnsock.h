/* Fnsock: the unix socket of one container, as the runner sees it.
 *
 * A directory is made per container and watched until the function publishes lsnr.sock there; then
 * requests go over it, one at a time. Every connect resolves the link beneath the directory and
 * checks that it is a socket of the container's uid: the function owns the directory and may point
 * elsewhere. Implementations: core/http/fnsock.c and the simulator.
 *
 * Everything is [loop]; callbacks are never run from inside a call of the same object. */
#ifndef MODEL_FNSOCK_H
#define MODEL_FNSOCK_H

#include <base/headers.h>
#include <fn/abi.h>
#include <stdbool.h>

struct fnsock;          /* one container's directory and connection */
struct fnsock_exchange; /* one request on it */

/* How a request ended. */
enum fnsock_end {
    FNSOCK_OK,           /* complete answer */
    FNSOCK_CONNECT,      /* no connection: not a byte was accepted */
    FNSOCK_NO_ROOM,      /* the same, for want of this node's: descriptors or memory */
    FNSOCK_ESCAPE,       /* the socket is a link out of its directory or belongs to someone else */
    FNSOCK_CLOSED_EARLY, /* reset or end before the end of the answer's headers */
    FNSOCK_INVALID,      /* not HTTP, or HTTP that the contract forbids */
    FNSOCK_HEADERS_TOO_LARGE,
    FNSOCK_BODY_TOO_LARGE,
    FNSOCK_CUT,          /* the answer's body ended too soon */
    FNSOCK_EARLY_ANSWER, /* answered before the whole request was handed over */
    FNSOCK_LOST,         /* this node had no memory for the rest of the request or for the answer */
    FNSOCK_WRITE_CLOSED, /* the function closed its side while the request was being sent */
};

struct fnsock_result {
    enum fnsock_end end;
    uint64_t request_bytes;  /* accepted by the kernel; 0 proves that nothing was executed */
    uint64_t answer_bytes;   /* of the body */
    bool reusable;           /* the function is idle: whole request read, whole answer received,
                                not a byte more */
    char text[128];          /* detail for the log and for what the caller is told */
};

struct fnsock_cb {
    /* Borrowed; at most once. An answer of the contract: 200 behind the whole request, or 502 or
     * 504; another one ends as FNSOCK_EARLY_ANSWER or FNSOCK_INVALID without a head. */
    void (*on_head)(void *ud, int status, const struct headers *h);
    void (*on_data)(void *ud, const void *data, size_t len);        /* borrowed */
    void (*on_writable)(void *ud); /* send() may be called again after it said full */
    void (*on_end)(void *ud, const struct fnsock_result *r); /* exactly once unless cancelled */
    void (*on_sent)(void *ud); /* NULL ok. The first byte was accepted; may be left out when another
                                  callback shows it */
};

struct fnsock_request {
    const struct headers *headers; /* already filtered; framing and Host are added here; copied */
};

struct fnsock_limits {
    uint64_t answer_bytes_max;        /* 0 = none */
    uint64_t answer_header_bytes_max;
    uint32_t answer_headers_max;
    int64_t idle_close_ns;            /* a kept connection is closed after this, Go Fn 1 s */
};

struct fnsock_if {
    void *impl;
    /* Makes and watches the directory of a container. on_ready: the function listens; err NULL. Or
     * it never will: err says why (bad link, directory unusable). At most one such; and later at
     * most one with err: the function filled its directory, so that the container has to go. */
    int (*open)(void *impl, const char *container_id,
                void (*on_ready)(void *ud, const struct fn_error *err), void *ud,
                struct fnsock **ret, struct fn_error *reterr);
    const char *(*dir)(const struct fnsock *);        /* absolute, as this node sees it */
    const char *(*engine_dir)(const struct fnsock *); /* as the container engine sees it */
    /* The uid that peers must have; UINT32_MAX = not checked. Before the first request. */
    void (*expect_uid)(struct fnsock *, uint32_t uid);
    /* Closes the connection, removes the directory and what is mounted on it. NULL ok. A running
     * exchange must have been cancelled. */
    void (*close)(struct fnsock *);
    /* Starts POST /call; one at a time. NULL when out of memory. Body follows by send(). */
    struct fnsock_exchange *(*request)(struct fnsock *, const struct fnsock_request *,
                                       const struct fnsock_cb *, void *ud);
    /* Copied. 0, or 1 = taken, but wait for on_writable before sending more. eof once, last. */
    int (*send)(struct fnsock_exchange *, const void *data, size_t len, bool eof);
    /* Bytes of the request that the kernel has accepted; 0 proves that nothing was executed. */
    uint64_t (*sent)(const struct fnsock_exchange *);
    void (*pause)(struct fnsock_exchange *, bool paused); /* stop reading the answer */
    /* Releases the exchange; closes the connection if it has not ended cleanly; no callback after
     * this. Exactly once, also after on_end. */
    void (*finish)(struct fnsock_exchange *);
};

#endif
