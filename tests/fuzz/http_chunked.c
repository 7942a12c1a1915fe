/* A body in the chunked coding; the first byte says in which pieces it comes (fuzz_pieces()).
 *
 * What it is must not depend on the pieces; it is as a plain reader without pieces says; and what
 * chunked_line() writes is read as the same bytes. */
#include "fuzz.h"

#include <http/parse.h>

struct decoded {
    enum chunked_outcome outcome;
    uint64_t at; /* of the byte where that was known */
    size_t len;
};

/* into: as many bytes as there are in the input. */
static struct decoded decode(struct fuzz_pieces pieces, struct fuzz_in in, char *into)
{
    struct decoded d = { .outcome = CHUNKED_MORE };
    struct chunked c = { 0 };

    for (size_t at = 0; d.outcome == CHUNKED_MORE && at < in.len;) {
        size_t n = fuzz_piece(&pieces, in.len - at), got;
        char *copy = fuzz_copy(in.at + at, n);
        const char *p = copy, *data;

        while ((d.outcome = chunked_step(&c, &p, copy + n, &data, &got)) == CHUNKED_DATA) {
            fuzz_expect(data >= copy && data + got <= copy + n && got > 0, "%zu bytes", got);
            fuzz_expect(d.len + got <= in.len, "more data than input");
            memcpy(into + d.len, data, got);
            d.len += got;
        }
        at += n;
        free(copy);
    }
    d.at = c.at;
    return d;
}

static void expect_same(const struct decoded *a, const char *a_data, const struct decoded *b,
                        const char *b_data)
{
    fuzz_expect(a->outcome == b->outcome && a->at == b->at && a->len == b->len,
                "outcomes %d %d, at %llu %llu, %zu %zu bytes", (int)a->outcome, (int)b->outcome,
                (unsigned long long)a->at, (unsigned long long)b->at, a->len, b->len);
    fuzz_expect(a->len == 0 || memcmp(a_data, b_data, a->len) == 0, "other bytes");
}

/* ---- a plain reader: one size line, its bytes, and so on; limits are not its matter ---------- */

static size_t line_end(struct fuzz_in in)
{
    for (size_t i = 0; i + 1 < in.len; i++) {
        if (in.at[i] == '\r' && in.at[i + 1] == '\n') {
            return i;
        }
    }
    return in.len;
}

/* The bytes of a body that is whole and sound; false: it is not, as far as is seen here. */
static bool read_plainly(struct fuzz_in in, char *into, size_t *ret_len)
{
    *ret_len = 0;
    for (;;) {
        size_t end = line_end(in), digits = 0;
        uint64_t n = 0;

        while (digits < end && digits < 16 && strchr("0123456789abcdefABCDEF", in.at[digits])) {
            char one[2] = { in.at[digits++], '\0' };

            n = n * 16 + strtoul(one, NULL, 16);
        }
        if (digits == 0 || end == in.len || n > in.len - end - 2) {
            return false;
        }
        in = (struct fuzz_in){ in.at + end + 2, in.len - end - 2 };
        if (n == 0) {
            return true;
        }
        memcpy(into + *ret_len, in.at, n);
        *ret_len += n;
        if (in.len < n + 2 || memcmp(in.at + n, "\r\n", 2) != 0) {
            return false;
        }
        in = (struct fuzz_in){ in.at + n + 2, in.len - n - 2 };
    }
}

static void expect_plain_reader(struct fuzz_in in, const struct decoded *d, const char *data)
{
    char *into = fuzz_copy(in.at, in.len);
    size_t len = 0;

    fuzz_expect(read_plainly(in, into, &len), "taken, but not plain");
    fuzz_expect(len == d->len && (len == 0 || memcmp(into, data, len) == 0), "other bytes");
    free(into);
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void expect_round_trip(struct fuzz_in in)
{
    char *coded = malloc(in.len + CHUNK_LINE_BYTES + 8), *data = malloc(in.len + 32);
    struct fuzz_pieces one = { .fixed = SIZE_MAX };
    struct decoded d;
    size_t n;

    if (!coded || !data) {
        abort();
    }
    n = chunked_line(coded, in.len);
    memcpy(coded + n, in.at, in.len);
    memcpy(coded + n + in.len, "\r\n0\r\n\r\n", 7);
    d = decode(one, (struct fuzz_in){ coded, n + in.len + 7 }, data);
    fuzz_expect(d.outcome == CHUNKED_END && d.len == in.len && memcmp(data, in.at, d.len) == 0,
                "%zu bytes back of %zu", d.len, in.len);
    free(data);
    free(coded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    struct fuzz_pieces one = { .fixed = SIZE_MAX }, pieces = fuzz_pieces(&in);
    char *whole = fuzz_copy(in.at, in.len), *cut = fuzz_copy(in.at, in.len);
    struct decoded a = decode(one, in, whole), b = decode(pieces, in, cut);

    expect_same(&a, whole, &b, cut);
    if (a.outcome == CHUNKED_END) {
        expect_plain_reader(in, &a, whole);
    }
    if (in.len > 0) {
        expect_round_trip(in);
    }
    free(cut);
    free(whole);
    return 0;
}
