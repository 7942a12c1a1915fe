/* Frames: the borders of HTTP/2 frames in bytes that go by, in one direction of a connection.
 *
 * gRPC C core tells nothing of frames; its proofs, limits and signs of life are read here, beside
 * it. Headers are not decoded. */
#ifndef RPC_CORE_FRAMES_H
#define RPC_CORE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_type {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_PRIORITY,
    FRAME_RST_STREAM,
    FRAME_SETTINGS,
    FRAME_PUSH_PROMISE,
    FRAME_PING,
    FRAME_GOAWAY,
    FRAME_WINDOW_UPDATE,
    FRAME_CONTINUATION,
};

#define FRAME_ACK         0x1
#define FRAME_END_STREAM  0x1
#define FRAME_END_HEADERS 0x4
#define FRAME_PADDED      0x8

#define FRAME_HEAD_BYTES     9u
#define FRAMES_KEPT_BYTES    192u /* of a payload that end() is shown: 32 settings */
#define FRAMES_PREFACE_BYTES 24u  /* of a client, in front of its first frame */

struct frame {
    uint32_t len;
    uint32_t stream;
    uint8_t type;
    uint8_t flags;
};

struct frames_cb {
    void (*begin)(void *ud, const struct frame *f); /* its head came */
    /* A piece of a DATA frame, without its padding. */
    void (*data)(void *ud, const struct frame *f, const unsigned char *bytes, size_t len);
    /* All of it came; the first bytes of its payload. */
    void (*end)(void *ud, const struct frame *f, const unsigned char *payload, size_t len);
};

struct frames {
    const struct frames_cb *cb;
    void *ud;
    uint32_t skip; /* of the preface, still to come */
    uint32_t head_len;
    unsigned char head[FRAME_HEAD_BYTES];
    struct frame at;
    uint32_t left;    /* of the payload */
    uint32_t padding; /* of a DATA frame; its last bytes */
    bool pad_known;
    bool block_open; /* of headers: only CONTINUATION may follow */
    uint32_t kept_len;
    unsigned char kept[FRAMES_KEPT_BYTES];
};

void frames_init(struct frames *f, bool preface, const struct frames_cb *cb, void *ud);
/* Reads to the end of the frame that is under way, or of the bytes; how many it read. */
size_t frames_read(struct frames *f, const unsigned char *bytes, size_t len);
/* Another frame may be put in here. */
bool frames_at_border(const struct frames *f);

/* Frames of our own; the number of bytes. */
#define FRAMES_PING_BYTES   (FRAME_HEAD_BYTES + 8)
#define FRAMES_GOAWAY_BYTES (FRAME_HEAD_BYTES + 8)
size_t frames_make_ping(unsigned char ret[FRAMES_PING_BYTES], const char mark[8]);
size_t frames_make_goaway(unsigned char ret[FRAMES_GOAWAY_BYTES], uint32_t last, uint32_t code);

/* A number of four bytes, as frames have them. */
uint32_t frames_u32(const unsigned char *at);

#endif
