/* The same scripts against both transports. A script is words:
 *
 *   a word        an act, with the number of the call it is about in front, if it is about one;
 *   WORD*N        N times.
 *
 * diff_client.c and diff_server.c have the lists of their acts. */
#ifndef TEST_RPC_DIFF_H
#define TEST_RPC_DIFF_H

#include "fixture.h"
#include "rawpeer.h"

enum diff_transport { DIFF_NGHTTP2, DIFF_CORE, DIFF_TRANSPORTS_N };

struct diff_row {
    const char *what;
    const char *script;
    const char *expected; /* what is told of each call, joined with " | " */
    const char *core;     /* NULL: the same; "A or B": by what the kernel hands out in one read */
    const char *why;      /* core differs */
};

#define DIFF_TEXT_MAX 512

/* Messages, with their prefixes; a name is of the same list for both sides. NULL: no such word. */
struct diff_message {
    const char *word;
    const char *bytes;
    size_t len;
};

/* Calls act(ud, call, what) for each word; call 0: about none. */
void diff_play(const char *script, void (*act)(void *ud, unsigned call, const char *what), void *ud);

struct fixture *diff_fixture(enum diff_transport t);
void diff_compare(const struct diff_row *row, enum diff_transport t, const char *got);

/* A number below n that follows from *seed alone. */
uint32_t diff_random(uint64_t *seed, uint32_t n);

TCase *diff_client_case(void);
TCase *diff_server_case(void);
TCase *diff_proofs_case(void);
TCase *seam_case(void);

#endif
