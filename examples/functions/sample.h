/* sample.h - what several sample functions need beside the FDK. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <errno.h>
#include <fdk.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

/* Reads a decimal number at `text`, 0..max. Returns what follows it, or NULL if there is none. */
static inline const char *sample_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    char *end;
    unsigned long long number;

    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno || number > max)
        return NULL;
    *ret_number = number;
    return end;
}

static inline void sample_wait_ms(uint64_t ms)
{
    struct timespec left = { .tv_sec = (time_t)(ms / 1000),
                             .tv_nsec = (long)(ms % 1000) * 1000000 };

    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

/* For answers by hand. Returns 0, or <0 when the other side is gone. */
static inline int sample_send(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -errno;
        at += sent;
        len -= (size_t)sent;
    }
    return 0;
}

#endif
