/* Fuzz: what the targets share. A target is one file with LLVMFuzzerTestOneInput(): it hands a
 * stranger's bytes to a room through the room's header, and says by fuzz_expect() what must hold
 * besides that nothing crashes. No sleep, no network, nothing kept from one input to the next.
 *
 * Inputs are text where their readers read text. Where a reader has several doors, or bytes may
 * come in pieces, the first bytes say so, by letters and digits (fuzz_mode(), fuzz_pieces()), so
 * that a corpus can be read and written by hand. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is left of an input. */
struct fuzz_in {
    const char *at;
    size_t len;
};

static inline struct fuzz_in fuzz_begin(const uint8_t *data, size_t len)
{
    return (struct fuzz_in){ (const char *)data, len };
}

/* 0 at the end of the input. */
static inline unsigned fuzz_byte(struct fuzz_in *in)
{
    if (in->len == 0) {
        return 0;
    }
    in->len--;
    return (unsigned char)*in->at++;
}

/* One of the letters: the input's first byte, or whichever this falls on. */
static inline char fuzz_mode(struct fuzz_in *in, const char *letters)
{
    unsigned b = fuzz_byte(in);

    return b && strchr(letters, (int)b) ? (char)b : letters[b % strlen(letters)];
}

/* The rest up to a line end, or up to its end; the line end is taken. */
static inline struct fuzz_in fuzz_line(struct fuzz_in *in)
{
    const char *nl = in->len ? memchr(in->at, '\n', in->len) : NULL;
    struct fuzz_in line = { in->at, nl ? (size_t)(nl - in->at) : in->len };

    in->at += nl ? line.len + 1 : line.len;
    in->len -= nl ? line.len + 1 : line.len;
    return line;
}

/* Has it bytes that http-parser reads otherwise than it should? See tests/unit/http/test_oracle.c. */
static inline bool fuzz_is_beyond_oracle(struct fuzz_in in)
{
    for (size_t i = 0; i < in.len; i++) {
        if ((unsigned char)in.at[i] >= 0x80 || in.at[i] == '\t') {
            return true;
        }
    }
    return false;
}

/* A copy that ends where the memory does, so that one byte more is seen; free() it. */
static inline char *fuzz_copy(const char *at, size_t len)
{
    char *copy = malloc(len ? len : 1);

    if (!copy) {
        abort();
    }
    if (len > 0) {
        memcpy(copy, at, len);
    }
    return copy;
}

/* The same as a text. */
static inline char *fuzz_text(const char *at, size_t len)
{
    char *copy = malloc(len + 1);

    if (!copy) {
        abort();
    }
    if (len > 0) {
        memcpy(copy, at, len);
    }
    copy[len] = '\0';
    return copy;
}

/* How an input is cut: lengths of pieces, made from a byte. '0': one piece, '1': single bytes. */
struct fuzz_pieces {
    uint32_t state;
    size_t fixed;
};

static inline struct fuzz_pieces fuzz_pieces(struct fuzz_in *in)
{
    unsigned b = fuzz_byte(in);

    return (struct fuzz_pieces){ .state = b * 2654435761u | 1,
                                 .fixed = b == '0' ? SIZE_MAX : b >= '1' && b <= '9' ? b - '0' : 0 };
}

/* 1 .. left. */
static inline size_t fuzz_piece(struct fuzz_pieces *p, size_t left)
{
    size_t n = p->fixed;

    if (n == 0) {
        p->state ^= p->state << 13;
        p->state ^= p->state >> 17;
        p->state ^= p->state << 5;
        n = 1 + p->state % (p->state & 64 ? 7 : 61);
    }
    return n < left ? n : left;
}

#define fuzz_expect(what, ...)                                                                     \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: expected %s: ", __FILE__, __LINE__, #what);                    \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
