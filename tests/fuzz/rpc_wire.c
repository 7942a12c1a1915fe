/* Messages of RunnerProtocol without their prefix, as a peer may send them. The first byte says
 * which:
 *
 *   c   to a runner           r   from a runner        l   StreamLogs, to a runner
 *   k   StreamLogs, lines     f   ConfigMsg            s   RunnerStatus
 *   j   a Struct as JSON
 *
 * What is understood is written again and understood as the same, but for texts that are no UTF-8:
 * these are re-coded. */
#include "fuzz.h"

#include <base/utf8.h>
#include <rpc/wire.h>

#define MEMORY_MAX (8u << 20)

/* Behind the prefix. */
static const char *body(const struct buf *b)
{
    fuzz_expect(b->len >= WIRE_PREFIX_BYTES, "%zu bytes", b->len);
    return b->data + WIRE_PREFIX_BYTES;
}

static bool is_utf8(const char *text)
{
    const char *end = text + strlen(text);
    uint32_t n = 1;

    while (text < end && (n = utf8_sequence(text, end)) > 0) {
        text += n;
    }
    return n > 0;
}

static bool same_text(const char *a, const char *b)
{
    return !a || !is_utf8(a) || strcmp(a, b ? b : "") == 0;
}

/* ---- to a runner ----------------------------------------------------------------------------- */

static void expect_same_try(const struct engage_try *t)
{
    struct scratch other;
    struct wire_client_msg again;
    struct buf out;

    buf_init(&out, MEMORY_MAX);
    if (scratch_init(&other) == 0 && wire_encode_try(&other, t, &out) == 0) {
        wire_decode_client(&other, body(&out), out.len - WIRE_PREFIX_BYTES, &again);
        fuzz_expect(again.kind == WIRE_TRY, "kind %d", (int)again.kind);
        fuzz_expect(same_text(t->call_json, again.try_call.call_json) &&
                        same_text(t->slot_hash_id, again.try_call.slot_hash_id) &&
                        t->n_extensions == again.try_call.n_extensions,
                    "%s", t->call_json);
    }
    scratch_finish(&other);
    buf_finish(&out);
}

static void read_client(struct scratch *s, struct fuzz_in in)
{
    struct wire_client_msg m;

    wire_decode_client(s, in.at, in.len, &m);
    if (m.kind == WIRE_TRY) {
        fuzz_expect(strlen(m.try_call.call_json) == m.try_call.call_json_len, "a NUL in a text");
        expect_same_try(&m.try_call);
    } else if (m.kind == WIRE_DATA) {
        fuzz_expect(m.data.len <= in.len, "%zu bytes", m.data.len);
    }
}

/* ---- from a runner --------------------------------------------------------------------------- */

static void expect_same_start(const struct engage_start *start)
{
    struct scratch other;
    struct wire_runner_msg again;
    struct buf out;

    buf_init(&out, MEMORY_MAX);
    if (scratch_init(&other) == 0 && wire_encode_start(&other, start, &out) == 0) {
        wire_decode_runner(&other, body(&out), out.len - WIRE_PREFIX_BYTES, &again);
        fuzz_expect(again.kind == WIRE_START && again.start.status == start->status &&
                        again.start.n_headers == start->n_headers,
                    "status %d, %u headers", start->status, start->n_headers);
    }
    scratch_finish(&other);
    buf_finish(&out);
}

static void expect_same_finished(const struct engage_finished *f)
{
    struct scratch other;
    struct wire_runner_msg again;
    struct buf out;

    buf_init(&out, MEMORY_MAX);
    if (scratch_init(&other) == 0 && wire_encode_finished(&other, f, &out) == 0) {
        wire_decode_runner(&other, body(&out), out.len - WIRE_PREFIX_BYTES, &again);
        fuzz_expect(again.kind == WIRE_FINISHED, "kind %d", (int)again.kind);
        fuzz_expect(again.finished.success == f->success &&
                        again.finished.error_code == f->error_code &&
                        again.finished.execution_ns == f->execution_ns &&
                        same_text(f->error_text, again.finished.error_text) &&
                        same_text(f->image, again.finished.image),
                    "code %d, \"%s\"", f->error_code, f->error_text);
    }
    scratch_finish(&other);
    buf_finish(&out);
}

static void read_runner(struct scratch *s, struct fuzz_in in)
{
    struct wire_runner_msg m;

    wire_decode_runner(s, in.at, in.len, &m);
    if (m.kind == WIRE_START) {
        expect_same_start(&m.start);
    } else if (m.kind == WIRE_FINISHED) {
        expect_same_finished(&m.finished);
    } else if (m.kind == WIRE_DATA) {
        fuzz_expect(m.data.len <= in.len, "%zu bytes", m.data.len);
    }
}

/* ---- the others ------------------------------------------------------------------------------ */

static size_t pairs_bytes(const struct fn_kv *keys, uint32_t n)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        bytes += strlen(keys[i].key) + strlen(keys[i].value);
    }
    return bytes;
}

static void read_lines(struct scratch *s, struct fuzz_in in)
{
    struct engage_line *lines;
    uint32_t n;
    size_t bytes = 0;

    if (wire_decode_lines(s, in.at, in.len, &lines, &n) == 0) {
        for (uint32_t i = 0; i < n; i++) {
            bytes += lines[i].len;
            fuzz_expect(lines[i].app_id && lines[i].fn_id && lines[i].call_id, "line %u", i);
        }
        fuzz_expect(bytes <= in.len, "%zu bytes", bytes);
    }
}

static void read_struct(struct fuzz_in in)
{
    struct buf out;

    buf_init(&out, MEMORY_MAX);
    if (wire_struct_to_json(in.at, in.len, &out) == 0) {
        fuzz_expect(out.len >= 2 && out.data[0] == '{' && out.data[out.len - 1] == '}', "%s",
                    buf_text(&out));
    }
    buf_finish(&out);
}

static void read_other(struct scratch *s, char mode, struct fuzz_in in)
{
    struct rpc_status_result status;
    struct wire_logs_msg logs;
    struct fn_kv *keys;
    uint32_t n;

    if (mode == 'l') {
        wire_decode_logs(s, in.at, in.len, &logs);
        fuzz_expect(logs.kind != WIRE_LOGS_START || pairs_bytes(logs.keys, logs.n) <= in.len,
                    "%u keys", logs.n);
    } else if (mode == 'f') {
        fuzz_expect(wire_decode_config(s, in.at, in.len, &keys, &n) < 0 ||
                        pairs_bytes(keys, n) <= in.len,
                    "%u keys", n);
    } else if (wire_decode_status(s, in.at, in.len, &status) == 0) {
        fuzz_expect(status.error_text && strlen(status.error_text) <= in.len, "no text");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "crlkfsj");
    char *copy = fuzz_copy(in.at, in.len);
    struct scratch s;

    in.at = copy;
    fuzz_expect(scratch_init(&s) == 0, "no memory");
    switch (mode) {
    case 'c': read_client(&s, in); break;
    case 'r': read_runner(&s, in); break;
    case 'k': read_lines(&s, in); break;
    case 'j': read_struct(in); break;
    default: read_other(&s, mode, in); break;
    }
    scratch_finish(&s);
    free(copy);
    return 0;
}
