/* A runner that speaks raw HTTP/2 on a unix socket and misbehaves as told. */
#ifndef TEST_RPC_FAKEPEER_H
#define TEST_RPC_FAKEPEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_act {
    FAKE_REFUSE,        /* RST_STREAM(REFUSED_STREAM) on HEADERS */
    FAKE_REFUSE_LATE,   /* response headers, then REFUSED_STREAM */
    FAKE_GOAWAY_LATE,   /* the same with a GOAWAY as FAKE_GOAWAY_BELOW's */
    FAKE_RST_INTERNAL,  /* RST_STREAM(INTERNAL_ERROR) */
    FAKE_GOAWAY_BELOW,  /* GOAWAY with a last stream id below the call's, connection stays */
    FAKE_GOAWAY_ABOVE,  /* GOAWAY with the call's stream id, then close */
    FAKE_CLOSE,         /* closes on HEADERS */
    FAKE_CLOSE_MID,     /* closes when 30 000 bytes of DATA came */
    FAKE_CLOSE_STARTED, /* ResultStart, then close */
    FAKE_CLOSE_DATA,    /* ResultStart and data, then close */
    FAKE_CLOSE_FINISHED, /* ResultStart and Finished, then close without trailers */
    FAKE_NACK_CLOSE,    /* NACK, trailers, close */
    FAKE_NACK_SLAM,     /* NACK and trailers after 100 ms, then closes without reading on */
    FAKE_HANG,          /* accepts, settles, then never reads again */
    FAKE_GARBAGE,       /* bytes that are not HTTP/2 instead of settings */
    FAKE_GARBAGE_LATE,  /* the same after HEADERS */
    FAKE_LIAR,          /* trailers that read like a refused stream */
    FAKE_AFTER_FINISHED, /* data after Finished */
    FAKE_TWO_FINISHED,
    FAKE_UNKNOWN_KIND,  /* again and again */
    FAKE_NEWER,         /* a call that ends well, with messages of unknown kind in it */
    FAKE_MANY_FIELDS,   /* a message of 10 000 fields of unknown number */
    FAKE_NUL,           /* ResultStart with a header name that a NUL cuts */
    FAKE_NOT_PROTOBUF,
    FAKE_BIG_FRAME,     /* data frame of 70 000 bytes */
    FAKE_NO_TRAILERS,   /* Finished, and then nothing */
    FAKE_NO_FINISHED,   /* OK trailers without Finished */
    FAKE_BAD_TRAILERS,  /* Finished success, trailers with status 13 */
    FAKE_FIRST_FINISHED, /* Finished success without ResultStart: legal */
    FAKE_HUGE_LENGTH,   /* a message of 4 GiB - 1, as its prefix says */
    FAKE_COMPRESSED,
    FAKE_HTTP_503,      /* what a proxy in between would say */
    FAKE_HTML,
    FAKE_SILENT,        /* reads and acknowledges, never answers */
    FAKE_EARLY,         /* lets no DATA in; ResultStart, then trailers with status 14 */
    FAKE_GOAWAY_HANG,   /* GOAWAY that takes all calls, then never reads again */
    FAKE_GOAWAY_PINGED, /* the same, but answers the call when a ping comes */
    FAKE_FULL,          /* settings that let no call in */
    FAKE_PAIR,          /* the first call's trailers in one piece with the second call's answer */
};

struct fakepeer;

struct fakepeer *fakepeer_create(const char *path, enum fake_act act);
void fakepeer_set(struct fakepeer *p, enum fake_act act);
void fakepeer_destroy(struct fakepeer *p);
int fakepeer_accepted(struct fakepeer *p);
int fakepeer_closed(struct fakepeer *p); /* connections */

#endif
