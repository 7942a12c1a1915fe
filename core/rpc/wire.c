/* Encodes straight into a stream's buffer, behind room for gRPC's five bytes; decodes with
 * protobuf-c's allocator replaced by the scratch block. */
#include <rpc/wire.h>

#include <assert.h>
#include <base/utf8.h>
#include <string.h>

#include "runner.pb-c.h"

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
    TryCall__ExtensionsEntry *entries;

    /* Broken by core/lb: JSON that it has written or read holds no NUL. */
    assert(strlen(t->call_json) == t->call_json_len);
    scratch_reset(s);
    call.models_call_json = wire_text(s, t->call_json);
    call.slot_hash_id = wire_text(s, t->slot_hash_id);
    if (t->n_extensions > 0) {
        entries = scratch_alloc(s, t->n_extensions * sizeof(*entries));
        call.extensions = scratch_alloc(s, t->n_extensions * sizeof(*call.extensions));
        if (!entries || !call.extensions) {
            return FN_E_EXHAUSTED;
        }
        for (uint32_t i = 0; i < t->n_extensions; i++) {
            try_call__extensions_entry__init(&entries[i]);
            entries[i].key = wire_text(s, t->extensions[i].key);
            entries[i].value = wire_text(s, t->extensions[i].value);
            call.extensions[i] = &entries[i];
        }
        call.n_extensions = t->n_extensions;
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
    HttpHeader *headers;

    scratch_reset(s);
    http.status_code = start->status;
    if (start->n_headers > 0) {
        headers = scratch_alloc(s, start->n_headers * sizeof(*headers));
        http.headers = scratch_alloc(s, start->n_headers * sizeof(*http.headers));
        if (!headers || !http.headers) {
            return FN_E_EXHAUSTED;
        }
        for (uint32_t i = 0; i < start->n_headers; i++) {
            http_header__init(&headers[i]);
            headers[i].key = wire_text(s, start->headers[i].name);
            headers[i].value = wire_text(s, start->headers[i].value);
            http.headers[i] = &headers[i];
        }
        http.n_headers = start->n_headers;
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

/* 0 without memory: they are left out then, as what they add is no proof of anything. */
static size_t custom_status(struct scratch *s, const struct engage_status *st,
                            RunnerStatus__CustomStatusEntry ***ret)
{
    RunnerStatus__CustomStatusEntry *all = scratch_alloc(s, st->n_custom * sizeof(*all));
    RunnerStatus__CustomStatusEntry **list = scratch_alloc(s, st->n_custom * sizeof(*list));

    for (uint32_t i = 0; all && list && i < st->n_custom; i++) {
        runner_status__custom_status_entry__init(&all[i]);
        all[i].key = wire_text(s, st->custom[i].key);
        all[i].value = wire_text(s, st->custom[i].value);
        list[i] = &all[i];
    }
    *ret = list;
    return all && list ? st->n_custom : 0;
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
    msg.n_customstatus = custom_status(s, st, &msg.customstatus);
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
    struct fn_kv *kv = NULL;

    if (call->n_extensions > 0) {
        kv = scratch_alloc(s, call->n_extensions * sizeof(*kv));
        if (!kv) {
            return false;
        }
        for (size_t i = 0; i < call->n_extensions; i++) {
            kv[i].key = call->extensions[i]->key;
            kv[i].value = call->extensions[i]->value;
        }
    }
    *ret = (struct engage_try){
        .call_json = call->models_call_json,
        .call_json_len = strlen(call->models_call_json),
        .slot_hash_id = call->slot_hash_id,
        .extensions = kv,
        .n_extensions = (uint32_t)call->n_extensions,
    };
    return true;
}

int wire_decode_config(struct scratch *s, const void *data, size_t len, struct fn_kv **ret,
                       uint32_t *ret_n)
{
    enum wire_kind kind;
    ConfigMsg *msg = wire_unpack(s, data, len, &config_msg__descriptor, &kind);
    struct fn_kv *keys = msg ? scratch_alloc(s, (msg->n_config + 1) * sizeof(*keys)) : NULL;

    if (!keys) {
        return !msg && kind == WIRE_BAD ? FN_E_INVALID : FN_E_EXHAUSTED;
    }
    for (size_t i = 0; i < msg->n_config; i++) {
        keys[i] = (struct fn_kv){ msg->config[i]->key, msg->config[i]->value };
    }
    *ret = keys;
    *ret_n = (uint32_t)msg->n_config;
    return 0;
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
    struct header *headers;

    *ret = (struct engage_start){ 0 };
    if (start->meta_case != CALL_RESULT_START__META_HTTP) {
        return true;
    }
    ret->status = start->http->status_code;
    if (start->http->n_headers == 0) {
        return true;
    }
    headers = scratch_alloc(s, start->http->n_headers * sizeof(*headers));
    if (!headers) {
        return false;
    }
    for (size_t i = 0; i < start->http->n_headers; i++) {
        headers[i].name = start->http->headers[i]->key;
        headers[i].value = start->http->headers[i]->value;
    }
    ret->headers = headers;
    ret->n_headers = (uint32_t)start->http->n_headers;
    return true;
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
