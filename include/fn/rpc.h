/* "fn.rpc": gRPC calls with messages that the host does not look into.
 *
 * For pools and whoever else talks to a service of its own. A channel reconnects by itself. A call
 * ends exactly once through its callbacks, which run on the loop and never from inside the function
 * that started the call; none comes after destroy() has begun. In `fnkit check` the other side is a
 * script; `fnkit sim` does not offer the interface. */
#ifndef FN_RPC_H
#define FN_RPC_H

#include <fn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_RPC_MAJOR 1
#define FN_RPC_MINOR 0
#define FN_MAGIC_RPC 0x464e000bu

#define FN_RPC_CHANNELS_MAX 16u   /* of one instance */
#define FN_RPC_CALLS_MAX    1024u /* under way, of one instance */
#define FN_RPC_MESSAGE_MAX  (4u << 20)

struct fn_rpc_cb {
    struct fn_hdr hdr; /* magic 0 */
    /* [loop] Borrowed. Once for a unary answer, any number of times for a stream. */
    void (*message)(void *ud, const void *data, size_t len);
    /* [loop] Exactly once, last. code: 0 or FN_E_*, where a status that gRPC does not know is
     * FN_E_UNKNOWN; text: NULL or the server's words. */
    void (*end)(void *ud, int32_t code, const char *text);
};

struct fn_rpc_call {
    uint32_t size;
    uint32_t timeout_ms; /* of the whole call; 0 = none, for streams */
    uint64_t channel;
    const char *method;  /* "/package.Service/Method" */
    const void *message; /* copied */
    uint64_t len;
};

struct fn_rpc_if {
    struct fn_hdr hdr; /* FN_MAGIC_RPC */
    /* [init] [loop] address: "host:port" or "unix:/path"; tls: name of an entry of fn.yaml's tls:,
     * or NULL for the node's own choice for gRPC clients. Nothing is sent before the first call. */
    int (*open)(const struct fn_host *, const char *address, const char *tls,
                uint64_t *ret_channel, struct fn_error *reterr);
    /* [loop] Its calls end with FN_E_CANCELLED. A stale id is harmless. */
    void (*close)(const struct fn_host *, uint64_t channel);
    /* [loop] < 0: the call did not start and no callback comes. The call, its message and cb are
     * copied. */
    int (*call)(const struct fn_host *, const struct fn_rpc_call *, const struct fn_rpc_cb *cb,
                void *ud, uint64_t *ret_id, struct fn_error *reterr);
    /* [loop] end() comes with FN_E_CANCELLED, later. A stale id is harmless. */
    void (*cancel)(const struct fn_host *, uint64_t id);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_RPC_H */
