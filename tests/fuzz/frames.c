/* The borders of HTTP/2 frames beside gRPC C core; the first byte says from whom, a client ('c', with
 * its preface) or a server ('s'), the second in which pieces they come (fuzz_pieces()).
 *
 * What is told does not depend on the pieces, every byte is read, and data is never more than its
 * frame. */
#include "fuzz.h"

#include <rpc/core/frames.h>

/* As a sum: pieces of data are joined. */
struct told {
    uint64_t sum;
    uint32_t begun, ended;
    uint64_t data_bytes;
};

static void add_bytes(struct told *t, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        t->sum = (t->sum ^ p[i]) * 1099511628211u;
    }
}

static void add_frame(struct told *t, const struct frame *f)
{
    add_bytes(t, &f->len, sizeof(f->len));
    add_bytes(t, &f->stream, sizeof(f->stream));
    add_bytes(t, &f->type, sizeof(f->type));
    add_bytes(t, &f->flags, sizeof(f->flags));
}

static void on_begin(void *ud, const struct frame *f)
{
    struct told *t = ud;

    t->begun++;
    t->data_bytes = 0;
    add_frame(t, f);
}

static void on_data(void *ud, const struct frame *f, const unsigned char *bytes, size_t len)
{
    struct told *t = ud;

    t->data_bytes += len;
    fuzz_expect(f->type == FRAME_DATA && t->data_bytes <= f->len, "%llu bytes of %u",
                (unsigned long long)t->data_bytes, f->len);
    add_bytes(t, bytes, len);
}

static void on_end(void *ud, const struct frame *f, const unsigned char *payload, size_t len)
{
    struct told *t = ud;

    t->ended++;
    fuzz_expect(t->ended == t->begun, "%u ended, %u begun", t->ended, t->begun);
    fuzz_expect(len <= f->len && len <= FRAMES_KEPT_BYTES, "%zu bytes of %u", len, f->len);
    add_frame(t, f);
    add_bytes(t, payload, len);
}

static struct told feed(struct fuzz_pieces pieces, struct fuzz_in in, bool preface, bool *ret_border)
{
    static const struct frames_cb cb = { on_begin, on_data, on_end };
    struct told t = { 0 };
    struct frames f;

    frames_init(&f, preface, &cb, &t);
    while (in.len > 0) {
        size_t n = fuzz_piece(&pieces, in.len), done = 0;
        char *copy = fuzz_copy(in.at, n);

        while (done < n) {
            size_t read = frames_read(&f, (const unsigned char *)copy + done, n - done);

            fuzz_expect(read > 0 && read <= n - done, "%zu of %zu read", read, n - done);
            done += read;
        }
        free(copy);
        in = (struct fuzz_in){ in.at + n, in.len - n };
    }
    *ret_border = frames_at_border(&f);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    bool preface = fuzz_mode(&in, "cs") == 'c', border, cut_border;
    struct fuzz_pieces pieces = fuzz_pieces(&in), one = { .fixed = SIZE_MAX };
    struct told whole = feed(one, in, preface, &border);
    struct told cut = feed(pieces, in, preface, &cut_border);

    fuzz_expect(whole.sum == cut.sum && whole.begun == cut.begun && whole.ended == cut.ended,
                "%u frames in one piece, %u in several", whole.begun, cut.begun);
    fuzz_expect(border == cut_border, "a border %d in one piece, %d in several", border, cut_border);
    return 0;
}
