/* Fuzz: HTTP/2 as lines of text, which a corpus can hold and be read by, and the frames that come
 * back. A line is a frame: a letter for its type, one for its stream, one for its flags, then its
 * payload.
 *
 *   type     D data  H headers  P priority  R reset  S settings  U push  I ping  G goaway
 *            W window update  C continuation  X one that nobody knows
 *            * the frame behind it, many times: "*6IZ.whatever" 64 times
 *            = bytes as they are
 *   stream   0..9 is its number, a..z are 11, 13, 15 ...; Z is 0
 *   flags    . none  e END_STREAM, or ACK  h END_HEADERS  b both  p PADDED; others are the bits
 *   payload  of H and C: "name:value" fields with '|' between them, "+name:value" for the table,
 *            "#" and a field's place in the tables, 0..9, a..z (10..35), '>' (62) ..,
 *            "%" and bytes as they are;
 *            of D behind '>': a gRPC message, its prefix is put in front;
 *            else bytes
 *
 * In bytes and values \n, \\, \0 to \7 and \xHH stand for what they do in C, and \* and a letter
 * for the byte in front of it, many times.
 *
 * Time is real: what an input makes end within milliseconds may not end the same way twice. */
#ifndef TESTS_FUZZ_H2_H
#define TESTS_FUZZ_H2_H

#include "calm.h"
#include "fuzz.h"

#include <base/buf.h>

#define H2_STREAMS_SEEN 128u

enum {
    H2_DATA,
    H2_HEADERS,
    H2_PRIORITY,
    H2_RESET,
    H2_SETTINGS,
    H2_PUSH,
    H2_PING,
    H2_GOAWAY,
    H2_WINDOW,
    H2_CONTINUATION
};

/* What one side sent, frame by frame. */
struct h2_seen {
    size_t preface; /* bytes of it that are still to come */
    struct buf bytes;
    uint32_t taken_max; /* by GOAWAY: streams above it are not processed */
    struct h2_seen_stream {
        bool begun, ended, reset;
        bool refused; /* by RST_STREAM */
        uint64_t data_bytes;
    } streams[H2_STREAMS_SEEN];
};

/* The connection that an input is about: its end here, and the loop of the other one. */
struct h2_wire {
    struct calm calm;
    int fd;
    bool to_client;
    bool closed;   /* by the other side */
    uint64_t news; /* a target adds one for each callback */
    struct h2_seen in, out;
};
extern struct h2_wire wire;

/* Once; a target looks for what it waits for besides, or has NULL. */
void wire_begin(void (*look)(void));
/* fd is taken. to_client: the other side is one. */
void wire_open(int fd, bool to_client);
/* The next line, until it is read or the other side has closed. false: there was none. */
bool wire_send_line(struct fuzz_in *in);
/* The input's lines, behind a client's preface. 'l': one after the other, 'w': all at once. */
void wire_send_lines(struct fuzz_in in, char mode);
void wire_close(void);

#endif
