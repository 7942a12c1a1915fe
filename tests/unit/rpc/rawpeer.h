/* One end of an HTTP/2 connection that writes what it wants: frames are gathered and sent in one
 * piece, what comes is read meanwhile, SETTINGS and PINGs are answered. */
#ifndef TEST_RPC_RAWPEER_H
#define TEST_RPC_RAWPEER_H

#include <base/buf.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

enum { RAW_DATA, RAW_HEADERS, RAW_PRIORITY, RAW_RST, RAW_SETTINGS, RAW_PUSH, RAW_PING, RAW_GOAWAY,
       RAW_WINDOW, RAW_CONTINUATION };

#define RAW_ACK         0x1u
#define RAW_END_STREAM  0x1u
#define RAW_END_HEADERS 0x4u
#define RAW_PADDED      0x8u

struct raw_frame {
    unsigned type, flags;
    uint32_t stream;
    size_t len;
    const unsigned char *payload;
};

struct raw_peer {
    int fd;
    bool closed;     /* the other side has closed */
    bool written;    /* our side is closed */
    bool deaf;       /* nothing is read while we write */
    size_t preface;  /* bytes of the other side's that are still to come */
    struct buf out, in;
    nghttp2_hd_inflater *hd;
    uint32_t pings, pongs; /* ours, and the answers */
    void (*frame)(void *ud, const struct raw_frame *f);
    /* Of each field of each block of headers; may be NULL. */
    void (*field)(void *ud, uint32_t stream, const char *name, const char *value);
    void *ud;
};

/* fd is taken. client: the preface is written, and none expected. */
void raw_peer_init(struct raw_peer *p, int fd, bool client);
void raw_peer_finish(struct raw_peer *p);

/* Gathered in `out`. */
void raw_put(struct raw_peer *p, unsigned type, unsigned flags, uint32_t stream, const void *data,
             size_t len);
size_t raw_field(unsigned char *out, const char *name, const char *value);
/* A field of that many bytes; room for 16 more. */
size_t raw_big_field(unsigned char *out, const char *name, size_t len);

/* Writes what was gathered and reads until done(ud), or the other side has closed. */
void raw_run(struct raw_peer *p, bool (*done)(void *ud), void *ud);
/* The same until a ping is answered: what was written is read and worked for. */
void raw_sync(struct raw_peer *p);
/* Closes our side behind what was gathered, and reads until the other has closed. */
void raw_close(struct raw_peer *p);

int raw_listen(const char *path);
int raw_accept(int listener);
int raw_dial(const char *path);

#endif
