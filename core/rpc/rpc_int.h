/* What the files of this room share. Everything is [loop] unless said otherwise. */
#ifndef RPC_RPC_INT_H
#define RPC_RPC_INT_H

#include <base/env.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <pthread.h>
#include <rpc/rpc.h>
#include <rpc/tls.h>
#include <rpc/wire.h>

#define RPC_METHOD_ENGAGE    "/RunnerProtocol/Engage"
#define RPC_METHOD_STATUS    "/RunnerProtocol/Status"
#define RPC_METHOD_STATUS2   "/RunnerProtocol/Status2"
#define RPC_METHOD_CONFIGURE "/RunnerProtocol/ConfigureRunner"
#define RPC_METHOD_LOGS      "/RunnerProtocol/StreamLogs"
#define RPC_METHOD_PROBE     "/fnd.Link/Probe"
#define RPC_REQUEST_ID       "fn_request_id"

/* Receive window of a stream. A fixed one instead of gRPC's bandwidth probes, whose pings cost a
 * packet in each direction per call; what is really held is bounded by pausing (send_queue_bytes,
 * attempt pause). */
#define RPC_WINDOW_BYTES (1 << 20)

/* Tag of a batch: embedded in its object, called when the batch has completed. */
struct rpc_tag {
    void (*fn)(struct rpc_tag *t, bool ok);
};

struct rpc {
    struct engage_client client; /* first: the client is the rpc */
    struct loop *loop;
    struct env *env;
    struct rpc_config config; /* without the texts of tls */
    struct identity *identity, *server_identity;
    grpc_completion_queue *cq;
    grpc_resource_quota *quota; /* gRPC checks a message's length only when it is complete */
    bool on_loop;         /* the loop polls gRPC; else `thread` does */
    struct loop_fd watch; /* gRPC's epoll set */
    struct env_timer tick;
    pthread_t thread;
    struct scratch in;  /* what a callback reads */
    struct scratch out; /* what it may encode meanwhile */
    LIST_HEAD(, engage_link) links;
    LIST_HEAD(, rpc_server) servers;
    LIST_HEAD(, rpc_channel) channels;
    bool closing; /* no callbacks any more */

    /* Objects with tags that gRPC still holds; rpc_destroy() waits until none is left. */
    pthread_mutex_t live_lock;
    pthread_cond_t live_none;
    uint32_t live;
};

void rpc_live_add(struct rpc *r);
void rpc_live_remove(struct rpc *r);

/* Starts a batch; aborts when gRPC says that the batch itself is wrong, which is our defect. */
void rpc_batch(grpc_call *call, const grpc_op *ops, size_t n, struct rpc_tag *tag);
/* A point of env's clock as a deadline of gRPC; 0 = none. */
gpr_timespec rpc_deadline(struct rpc *r, int64_t deadline_ns);
/* NUL-terminated copy in ret, cut to cap. */
void rpc_slice_text(grpc_slice s, char *ret, size_t cap);
/* Channel arguments. */
grpc_arg rpc_arg_int(const char *key, int64_t value); /* cut to 31 bits */
grpc_arg rpc_arg_quota(struct rpc *r);

static inline grpc_op rpc_op_send_message(grpc_byte_buffer *bb, uint32_t flags)
{
    return (grpc_op){ .op = GRPC_OP_SEND_MESSAGE,
                      .flags = flags,
                      .data.send_message.send_message = bb };
}

static inline grpc_op rpc_op_recv_message(grpc_byte_buffer **bb)
{
    return (grpc_op){ .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = bb };
}

void rpc_client_init(struct rpc *r);
void rpc_client_close_all(struct rpc *r);

#endif
