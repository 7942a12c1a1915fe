/* Encodes straight into a stream's buffer, behind room for gRPC's five bytes; decodes with
 * protobuf-c's allocator replaced by the scratch block. */
#include <rpc/wire.h>

#include <assert.h>
#include <base/utf8.h>
#include <string.h>

#include "runner.pb-c.h"

/* What each entry of a map is in memory, and HttpHeader as well. */
struct pair {
    ProtobufCMessage base;
    char *key;
    char *value;
};
_Static_assert(sizeof(struct pair) == sizeof(HttpHeader), "as protobuf-c lays it out");
_Static_assert(sizeof(struct header) == sizeof(struct fn_kv), "two texts each");

/* ---- texts ---------------------------------------------------------------------------------- */

char *wire_text(struct scratch *s, const char *text)
{
    unsigned char *out;
    unsigned char *copy;

    if (!text) {
        return (char *)protobuf_c_empty_string;
    }
    if (utf8_is_valid(text)) {
        return (char *)text;
    }
    copy = out = scratch_alloc(s, 2 * strlen(text) + 1);
    if (!out) {
        return (char *)protobuf_c_empty_string;
    }
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x80) {
            *out++ = *p;
        } else {
            *out++ = 0xc0 | *p >> 6;
            *out++ = 0x80 | (*p & 0x3f);
        }
    }
    *out = '\0';
    return (char *)copy;
}

void *wire_pairs_to(struct scratch *s, const struct fn_kv *kv, size_t n,
                    const ProtobufCMessageDescriptor *type)
{
    struct pair **list = scratch_alloc(s, n * (sizeof(*list) + sizeof(**list)));
    struct pair *all = list ? (struct pair *)(list + n) : NULL;

    for (size_t i = 0; list && i < n; i++) {
        all[i] = (struct pair){ PROTOBUF_C_MESSAGE_INIT(type), wire_text(s, kv[i].key),
                                wire_text(s, kv[i].value) };
        list[i] = &all[i];
    }
    return list;
}

struct fn_kv *wire_pairs_from(struct scratch *s, void *entries, size_t n)
{
    struct fn_kv *kv = scratch_alloc(s, n * sizeof(*kv));
    struct pair **list = entries;

    for (size_t i = 0; kv && i < n; i++) {
        kv[i] = (struct fn_kv){ list[i]->key, list[i]->value };
    }
    return kv;
}

/* ---- encoding ------------------------------------------------------------------------------- */

int wire_pack(const ProtobufCMessage *m, struct buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *p = (uint8_t *)buf_reserve(out, WIRE_PREFIX_BYTES + len);

    if (!p) {
        return FN_E_EXHAUSTED;
    }
    p[0] = 0;
    p[1] = (uint8_t)(len >> 24);
    p[2] = (uint8_t)(len >> 16);
    p[3] = (uint8_t)(len >> 8);
    p[4] = (uint8_t)len;
    protobuf_c_message_pack(m, p + WIRE_PREFIX_BYTES);
    out->len += WIRE_PREFIX_BYTES + len;
    return 0;
}

int wire_encode_try(struct scratch *s, const struct engage_try *t, struct buf *out)
{
    ClientMsg msg = CLIENT_MSG__INIT;
    TryCall call = TRY_CALL__INIT;

    /* Broken by core/lb: JSON that it has written or read holds no NUL. */
    assert(strlen(t->call_json) == t->call_json_len);
    scratch_reset(s);
    call.models_call_json = wire_text(s, t->call_json);
    call.slot_hash_id = wire_text(s, t->slot_hash_id);
    call.n_extensions = t->n_extensions;
    call.extensions = wire_pairs_to(s, t->extensions, t->n_extensions,
                                    &try_call__extensions_entry__descriptor);
    if (!call.extensions) {
        return FN_E_EXHAUSTED;
    }
    msg.body_case = CLIENT_MSG__BODY_TRY;
    msg.try_ = &call;
    return wire_pack(&msg.base, out);
}

int wire_encode_client_data(const void *data, size_t len, bool eof, struct buf *out)
{
    ClientMsg msg = CLIENT_MSG__INIT;
    DataFrame frame = DATA_FRAME__INIT;

    frame.data.data = (uint8_t *)data;
    frame.data.len = len;
    frame.eof = eof;
    msg.body_case = CLIENT_MSG__BODY_DATA;
    msg.data = &frame;
    return wire_pack(&msg.base, out);
}

int wire_encode_start(struct scratch *s, const struct engage_start *start, struct buf *out)
{
    RunnerMsg msg = RUNNER_MSG__INIT;
    CallResultStart result = CALL_RESULT_START__INIT;
    HttpRespMeta http = HTTP_RESP_META__INIT;

    scratch_reset(s);
    http.status_code = start->status;
    http.n_headers = start->n_headers;
    http.headers = wire_pairs_to(s, (const struct fn_kv *)start->headers, start->n_headers,
                                 &http_header__descriptor);
    if (!http.headers) {
        return FN_E_EXHAUSTED;
    }
    result.meta_case = CALL_RESULT_START__META_HTTP;
    result.http = &http;
    msg.body_case = RUNNER_MSG__BODY_RESULT_START;
    msg.result_start = &result;
    return wire_pack(&msg.base, out);
}

int wire_encode_runner_data(const void *data, size_t len, struct buf *out)
{
    RunnerMsg msg = RUNNER_MSG__INIT;
    DataFrame frame = DATA_FRAME__INIT;

    frame.data.data = (uint8_t *)data;
    frame.data.len = len;
    msg.body_case = RUNNER_MSG__BODY_DATA;
    msg.data = &frame;
    return wire_pack(&msg.base, out);
}

int wire_encode_finished(struct scratch *s, const struct engage_finished *f, struct buf *out)
{
    RunnerMsg msg = RUNNER_MSG__INIT;
    CallFinished fin = CALL_FINISHED__INIT;

    scratch_reset(s);
    fin.success = f->success;
    fin.erroruser = f->error_user;
    fin.errorcode = f->error_code;
    fin.errorstr = wire_text(s, f->error_text);
    fin.details = wire_text(s, f->details);
    fin.image = wire_text(s, f->image);
    fin.createdat = wire_text(s, f->created_at);
    fin.startedat = wire_text(s, f->started_at);
    fin.completedat = wire_text(s, f->completed_at);
    fin.schedulerduration = f->scheduler_ns;
    fin.executionduration = f->execution_ns;
    fin.imagepullwaitduration = f->image_pull_wait_ns;
    fin.ctrprepduration = f->ctr_prep_ns;
    fin.ctrcreateduration = f->ctr_create_ns;
    fin.initstarttime = f->init_start_ns;
    wire_refusal_to(s, &f->refusal, &fin.refusal);
    msg.body_case = RUNNER_MSG__BODY_FINISHED;
    msg.finished = &fin;
    return wire_pack(&msg.base, out);
}

int wire_encode_status(struct scratch *s, const struct engage_status *st, struct buf *out)
{
    RunnerStatus msg = RUNNER_STATUS__INIT;

    scratch_reset(s);
    msg.active = st->active;
    msg.requestsreceived = st->received;
    msg.requestshandled = st->handled;
    msg.failed = st->failed;
    msg.errorcode = st->error_code;
    msg.errorstr = wire_text(s, st->error_text);
    msg.id = wire_text(s, st->id);
    msg.details = wire_text(s, st->details);
    msg.createdat = wire_text(s, st->created_at);
    msg.startedat = wire_text(s, st->started_at);
    msg.completedat = wire_text(s, st->completed_at);
    msg.cached = st->cached;
    msg.isnetworkdisabled = st->network_disabled;
    msg.schedulerduration = st->scheduler_ns;
    msg.executionduration = st->execution_ns;
    msg.imagepullwaitduration = st->image_pull_wait_ns;
    msg.ctrprepduration = st->ctr_prep_ns;
    msg.ctrcreateduration = st->ctr_create_ns;
    msg.initstarttime = st->init_start_ns;
    msg.customstatus = wire_pairs_to(s, st->custom, st->n_custom,
                                     &runner_status__custom_status_entry__descriptor);
    if (msg.customstatus) { /* else they are left out: what they add is no proof of anything */
        msg.n_customstatus = st->n_custom;
    }
    return wire_pack(&msg.base, out);
}

/* ---- decoding ------------------------------------------------------------------------------- */

static void scratch_free(void *ud, void *p)
{
    (void)ud;
    (void)p;
}

void *wire_unpack(struct scratch *s, const void *data, size_t len,
                  const ProtobufCMessageDescriptor *type, enum wire_kind *ret_kind)
{
    ProtobufCAllocator allocator = { scratch_alloc, scratch_free, s };
    void *msg;
    int r;

    scratch_reset(s);
    r = wire_check(type, data, len);
    if (r < 0) {
        *ret_kind = r == FN_E_EXHAUSTED ? WIRE_TOO_MUCH : WIRE_BAD;
        return NULL;
    }
    msg = protobuf_c_message_unpack(type, &allocator, len, data);
    *ret_kind = msg ? WIRE_UNKNOWN : WIRE_BAD;
    return msg;
}

static struct wire_data data_of(const DataFrame *f)
{
    return (struct wire_data){ .data = f->data.data, .len = f->data.len, .eof = f->eof };
}

static bool decode_try(struct scratch *s, const TryCall *call, struct engage_try *ret)
{
    *ret = (struct engage_try){
        .call_json = call->models_call_json,
        .call_json_len = strlen(call->models_call_json),
        .slot_hash_id = call->slot_hash_id,
        .extensions = wire_pairs_from(s, call->extensions, call->n_extensions),
        .n_extensions = (uint32_t)call->n_extensions,
    };
    return ret->extensions != NULL;
}

int wire_decode_config(struct scratch *s, const void *data, size_t len, struct fn_kv **ret,
                       uint32_t *ret_n)
{
    enum wire_kind kind;
    ConfigMsg *msg = wire_unpack(s, data, len, &config_msg__descriptor, &kind);

    *ret = msg ? wire_pairs_from(s, msg->config, msg->n_config) : NULL;
    *ret_n = msg ? (uint32_t)msg->n_config : 0;
    return *ret ? 0 : !msg && kind == WIRE_BAD ? FN_E_INVALID : FN_E_EXHAUSTED;
}

void wire_decode_client(struct scratch *s, const void *data, size_t len,
                        struct wire_client_msg *ret)
{
    ClientMsg *msg = wire_unpack(s, data, len, &client_msg__descriptor, &ret->kind);

    if (!msg) {
        return;
    }
    if (msg->body_case == CLIENT_MSG__BODY_TRY) {
        ret->kind = decode_try(s, msg->try_, &ret->try_call) ? WIRE_TRY : WIRE_BAD;
    } else if (msg->body_case == CLIENT_MSG__BODY_DATA) {
        ret->data = data_of(msg->data);
        ret->kind = WIRE_DATA;
    }
}

static bool decode_start(struct scratch *s, const CallResultStart *start, struct engage_start *ret)
{
    const HttpRespMeta *http = start->http;

    *ret = (struct engage_start){ 0 };
    if (start->meta_case != CALL_RESULT_START__META_HTTP) {
        return true;
    }
    ret->status = http->status_code;
    ret->headers = (const struct header *)wire_pairs_from(s, http->headers, http->n_headers);
    ret->n_headers = (uint32_t)http->n_headers;
    return ret->headers != NULL;
}

static void decode_finished(const CallFinished *f, struct engage_finished *ret)
{
    *ret = (struct engage_finished){
        .success = f->success,
        .error_user = f->erroruser,
        .error_code = f->errorcode,
        .error_text = f->errorstr,
        .details = f->details,
        .image = f->image,
        .created_at = f->createdat,
        .started_at = f->startedat,
        .completed_at = f->completedat,
        .scheduler_ns = f->schedulerduration,
        .execution_ns = f->executionduration,
        .image_pull_wait_ns = f->imagepullwaitduration,
        .ctr_prep_ns = f->ctrprepduration,
        .ctr_create_ns = f->ctrcreateduration,
        .init_start_ns = f->initstarttime,
    };
    wire_refusal_from(&f->refusal, &ret->refusal);
}

void wire_decode_runner(struct scratch *s, const void *data, size_t len,
                        struct wire_runner_msg *ret)
{
    RunnerMsg *msg = wire_unpack(s, data, len, &runner_msg__descriptor, &ret->kind);

    if (!msg) {
        return;
    }
    switch (msg->body_case) {
    case RUNNER_MSG__BODY_RESULT_START:
        ret->kind = decode_start(s, msg->result_start, &ret->start) ? WIRE_START : WIRE_BAD;
        break;
    case RUNNER_MSG__BODY_DATA:
        ret->data = data_of(msg->data);
        ret->kind = WIRE_DATA;
        break;
    case RUNNER_MSG__BODY_FINISHED:
        decode_finished(msg->finished, &ret->finished);
        ret->kind = WIRE_FINISHED;
        break;
    default:
        break;
    }
}

int wire_decode_status(struct scratch *s, const void *data, size_t len,
                       struct rpc_status_result *ret)
{
    enum wire_kind kind;
    RunnerStatus *msg = wire_unpack(s, data, len, &runner_status__descriptor, &kind);

    if (!msg) {
        return FN_E_INTERNAL;
    }
    ret->active = msg->active;
    ret->failed = msg->failed;
    ret->received = msg->requestsreceived;
    ret->handled = msg->requestshandled;
    ret->error_code = msg->errorcode;
    ret->error_text = msg->errorstr;
    return 0;
}
