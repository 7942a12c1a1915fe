/* Wire: protobuf messages of RunnerProtocol with gRPC's prefix, and back.
 *
 * Encoding packs straight behind what is in the buffer. Decoding unpacks into a scratch block that
 * is reused for the next message: what a decoder returns is borrowed until the next wire_* call
 * with the same scratch. Texts that are not UTF-8 would make a Go peer end the call, so they are
 * re-coded as Latin-1 on the way out. [loop] */
#ifndef RPC_WIRE_H
#define RPC_WIRE_H

#include <base/buf.h>
#include <model/engage.h>
#include <rpc/rpc.h>
#include <rpc/wire_check.h>

#define WIRE_PREFIX_BYTES    5u          /* compressed flag, length */
#define WIRE_FRAME_BYTES     10240u      /* data per frame that we send */
#define WIRE_FRAME_MAX_BYTES (64u << 10) /* data per frame that we accept */
#define WIRE_STRUCT_DEPTH_MAX 32u
#define WIRE_UNKNOWN_MAX     16u /* messages of a newer peer that one call may bring, passed over */

struct scratch_more;

struct scratch {
    char *block;
    size_t used;
    struct scratch_more *more; /* what did not fit, freed by the next reset */
};

int scratch_init(struct scratch *s); /* FN_E_EXHAUSTED */
void scratch_finish(struct scratch *s);
void scratch_reset(struct scratch *s);
void *scratch_alloc(void *s, size_t size); /* NULL: no memory */

/* Appends one message. FN_E_EXHAUSTED: nothing was appended. */
int wire_encode_try(struct scratch *s, const struct engage_try *t, struct buf *out);
int wire_encode_client_data(const void *data, size_t len, bool eof, struct buf *out);
int wire_encode_start(struct scratch *s, const struct engage_start *start, struct buf *out);
int wire_encode_runner_data(const void *data, size_t len, struct buf *out);
int wire_encode_finished(struct scratch *s, const struct engage_finished *f, struct buf *out);
int wire_encode_status(struct scratch *s, const struct engage_status *st, struct buf *out);
/* Lines of one container, or of one call, that follow each other share its message. */
int wire_encode_lines(struct scratch *s, const struct engage_line *lines, uint32_t n,
                      struct buf *out);
int wire_encode_logs_start(struct scratch *s, const struct fn_kv *keys, uint32_t n,
                           struct buf *out);
int wire_encode_logs_ack(struct buf *out);

enum wire_kind {
    WIRE_BAD,      /* not protobuf, or a text with a NUL in it */
    WIRE_TOO_MUCH, /* more than WIRE_FIELDS_MAX */
    WIRE_UNKNOWN,  /* a member of the oneof that we do not know, or none */
    WIRE_TRY,
    WIRE_DATA,
    WIRE_START,
    WIRE_FINISHED,
    WIRE_LOGS_START,
    WIRE_LOGS_MORE /* Ack, or Ready */
};

/* For wire.c and wire_logs.c. Text itself, or each of its bytes as a Latin-1 character; never
 * NULL. */
char *wire_text(struct scratch *s, const char *text);
/* Pairs of texts as the entries of a map, of n of them, and back. NULL: no memory. */
void *wire_pairs_to(struct scratch *s, const struct fn_kv *kv, size_t n,
                    const ProtobufCMessageDescriptor *type);
struct fn_kv *wire_pairs_from(struct scratch *s, void *entries, size_t n);
/* Appends the message behind its prefix: a byte for "not compressed" and the length. */
int wire_pack(const ProtobufCMessage *m, struct buf *out);
/* For wire.c: the bytes in a CallFinished, in the scratch; of any bytes. */
void wire_refusal_to(struct scratch *s, const struct engage_refusal *r, ProtobufCBinaryData *ret);
void wire_refusal_from(const ProtobufCBinaryData *data, struct engage_refusal *ret);
/* NULL: *ret_kind says why, BAD or TOO_MUCH; else it is UNKNOWN. */
void *wire_unpack(struct scratch *s, const void *data, size_t len,
                  const ProtobufCMessageDescriptor *type, enum wire_kind *ret_kind);

struct wire_data {
    const void *data;
    size_t len;
    bool eof;
};

struct wire_client_msg {
    enum wire_kind kind; /* BAD, TOO_MUCH, UNKNOWN, TRY, DATA */
    struct engage_try try_call;
    struct wire_data data;
};

struct wire_runner_msg {
    enum wire_kind kind; /* BAD, TOO_MUCH, UNKNOWN, START, DATA, FINISHED */
    struct engage_start start;
    struct wire_data data;
    struct engage_finished finished;
};

struct wire_logs_msg {
    enum wire_kind kind; /* BAD, TOO_MUCH, UNKNOWN, LOGS_START, LOGS_MORE */
    struct fn_kv *keys;
    uint32_t n;
};

/* A google.protobuf.Struct as JSON, behind what is in `out`. FN_E_INVALID: it is none, is nested
 * deeper than WIRE_STRUCT_DEPTH_MAX, or has numbers that JSON has not; FN_E_EXHAUSTED. */
int wire_struct_to_json(const void *data, size_t len, struct buf *out);

/* data: one message without its prefix. */
void wire_decode_client(struct scratch *s, const void *data, size_t len,
                        struct wire_client_msg *ret);
void wire_decode_runner(struct scratch *s, const void *data, size_t len,
                        struct wire_runner_msg *ret);
/* The keys of a ConfigMsg, in the scratch. FN_E_INVALID, FN_E_EXHAUSTED. */
int wire_decode_config(struct scratch *s, const void *data, size_t len, struct fn_kv **ret,
                       uint32_t *ret_n);
void wire_decode_logs(struct scratch *s, const void *data, size_t len, struct wire_logs_msg *ret);
/* FN_E_INVALID: no LogResponseMsg, or too much of one; FN_E_EXHAUSTED. */
int wire_decode_lines(struct scratch *s, const void *data, size_t len, struct engage_line **ret,
                      uint32_t *ret_n);
/* FN_E_INTERNAL when it is not a RunnerStatus, or too much of one. */
int wire_decode_status(struct scratch *s, const void *data, size_t len,
                       struct rpc_status_result *ret);

#endif
