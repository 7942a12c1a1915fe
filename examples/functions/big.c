/*
 * big: the body says how many bytes to answer; byte i is letter i mod 26 of a..z. Large answers go
 * out by hand, piece by piece, so that no memory limit is in their way.
 */
#include "sample.h"

#include <stdio.h>
#include <string.h>

#define ALPHABET 26
#define PIECE_BYTES (ALPHABET * 2520u)
#define KEPT_MAX_BYTES (8u * 1024 * 1024)

static int answer_by_hand(int fd, uint64_t left, const char *piece)
{
    char head[96];
    int rc;

    (void)snprintf(head, sizeof(head),
                   "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %llu\r\n\r\n",
                   (unsigned long long)left);
    rc = sample_send(fd, head, strlen(head));
    while (rc == 0 && left) {
        size_t len = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;

        rc = sample_send(fd, piece, len);
        left -= len;
    }
    return rc;
}

static int answer_kept(struct fdk_call *call, size_t left, const char *piece)
{
    int rc = 0;

    while (rc == 0 && left) {
        size_t len = left < PIECE_BYTES ? left : PIECE_BYTES;

        rc = fdk_answer_write(call, piece, len);
        left -= len;
    }
    return rc;
}

static int big(struct fdk_call *call, void *ud)
{
    uint64_t len;

    if (!sample_number(fdk_body(call, NULL), UINT64_MAX, &len)) {
        (void)fdk_answer_printf(call, "body, got \"%.40s\"; expected a number of bytes\n",
                                fdk_body(call, NULL));
        return -EINVAL;
    }
    if (len > KEPT_MAX_BYTES)
        return answer_by_hand(fdk_connection(call), len, ud);
    return answer_kept(call, (size_t)len, ud);
}

int main(void)
{
    static char piece[PIECE_BYTES];

    for (size_t i = 0; i < sizeof(piece); i++) {
        piece[i] = (char)('a' + i % ALPHABET);
    }
    return fdk_handle(big, piece) < 0;
}
