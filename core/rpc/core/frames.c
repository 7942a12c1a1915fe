/* Reads frame headers and the few payloads that matter (SETTINGS, PING, GOAWAY, RST_STREAM) at
 * any cut of the bytes. */
#include <rpc/core/frames.h>

#include <string.h>

uint32_t frames_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_u32(unsigned char *at, uint32_t n)
{
    at[0] = (unsigned char)(n >> 24);
    at[1] = (unsigned char)(n >> 16);
    at[2] = (unsigned char)(n >> 8);
    at[3] = (unsigned char)n;
}

void frames_init(struct frames *f, bool preface, const struct frames_cb *cb, void *ud)
{
    *f = (struct frames){ .cb = cb, .ud = ud, .skip = preface ? FRAMES_PREFACE_BYTES : 0 };
}

bool frames_at_border(const struct frames *f)
{
    return f->skip == 0 && f->head_len == 0 && !f->block_open;
}

static void frames_end(struct frames *f)
{
    f->head_len = 0;
    if (f->at.type == FRAME_HEADERS || f->at.type == FRAME_CONTINUATION) {
        f->block_open = !(f->at.flags & FRAME_END_HEADERS);
    }
    f->cb->end(f->ud, &f->at, f->kept, f->kept_len);
}

static void frames_begin(struct frames *f)
{
    const unsigned char *h = f->head;

    f->at = (struct frame){ .len = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2],
                            .type = h[3],
                            .flags = h[4],
                            .stream = frames_u32(h + 5) & 0x7fffffff };
    f->left = f->at.len;
    f->kept_len = 0;
    f->padding = 0;
    f->pad_known = f->at.type != FRAME_DATA || !(f->at.flags & FRAME_PADDED);
    f->cb->begin(f->ud, &f->at);
}

/* Of a DATA frame: what is neither the length of its padding nor the padding. */
static void data(struct frames *f, const unsigned char *bytes, size_t len)
{
    uint32_t left = f->left; /* with these bytes */

    if (!f->pad_known && len > 0) {
        f->pad_known = true;
        f->padding = bytes[0];
        bytes++;
        len--;
        left--;
    }
    if (left > f->padding && len > 0) {
        size_t n = len < left - f->padding ? len : left - f->padding;

        f->cb->data(f->ud, &f->at, bytes, n);
    }
}

static void payload(struct frames *f, const unsigned char *bytes, size_t len)
{
    size_t room = sizeof(f->kept) - f->kept_len;

    if (f->at.type == FRAME_DATA) {
        data(f, bytes, len);
    } else {
        size_t n = len < room ? len : room;

        memcpy(f->kept + f->kept_len, bytes, n);
        f->kept_len += (uint32_t)n;
    }
    f->left -= (uint32_t)len;
}

size_t frames_read(struct frames *f, const unsigned char *bytes, size_t len)
{
    size_t at = len < f->skip ? len : f->skip;
    size_t n;

    f->skip -= (uint32_t)at;
    if (f->skip > 0) {
        return at;
    }
    if (f->head_len < FRAME_HEAD_BYTES) {
        n = FRAME_HEAD_BYTES - f->head_len;
        n = n < len - at ? n : len - at;
        memcpy(f->head + f->head_len, bytes + at, n);
        f->head_len += (uint32_t)n;
        at += n;
        if (f->head_len < FRAME_HEAD_BYTES) {
            return at;
        }
        frames_begin(f);
    }
    n = f->left < len - at ? f->left : len - at;
    payload(f, bytes + at, n);
    if (f->left == 0) {
        frames_end(f);
    }
    return at + n;
}

static size_t frames_make(unsigned char *ret, uint32_t len, uint8_t type)
{
    ret[0] = ret[1] = 0;
    ret[2] = (unsigned char)len;
    ret[3] = type;
    ret[4] = 0;
    put_u32(ret + 5, 0);
    return FRAME_HEAD_BYTES + len;
}

size_t frames_make_ping(unsigned char ret[FRAMES_PING_BYTES], const char mark[8])
{
    memcpy(ret + FRAME_HEAD_BYTES, mark, 8);
    return frames_make(ret, 8, FRAME_PING);
}

size_t frames_make_goaway(unsigned char ret[FRAMES_GOAWAY_BYTES], uint32_t last, uint32_t code)
{
    put_u32(ret + FRAME_HEAD_BYTES, last);
    put_u32(ret + FRAME_HEAD_BYTES + 4, code);
    return frames_make(ret, 8, FRAME_GOAWAY);
}
