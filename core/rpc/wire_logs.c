/* The messages of StreamLogs. */
#include <rpc/wire.h>

#include <string.h>

#include "runner.pb-c.h"

typedef LogResponseMsg__Container wire_container;
typedef LogResponseMsg__Container__Request wire_request;
typedef LogResponseMsg__Container__Request__Line wire_line;

/* ---- encoding ------------------------------------------------------------------------------- */

/* What a message of n lines is made of: at most one container and one request for each. */
struct parts {
    wire_container *containers, **container_list;
    wire_request *requests, **request_list;
    wire_line *lines, **line_list;
    size_t requests_n;
};

static bool make_parts(struct scratch *s, uint32_t n, struct parts *p)
{
    p->containers = scratch_alloc(s, n * sizeof(*p->containers));
    p->container_list = scratch_alloc(s, n * sizeof(*p->container_list));
    p->requests = scratch_alloc(s, n * sizeof(*p->requests));
    p->request_list = scratch_alloc(s, n * sizeof(*p->request_list));
    p->lines = scratch_alloc(s, n * sizeof(*p->lines));
    p->line_list = scratch_alloc(s, n * sizeof(*p->line_list));
    return p->containers && p->container_list && p->requests && p->request_list && p->lines &&
           p->line_list;
}

static bool same_container(const struct engage_line *a, const struct engage_line *b)
{
    return strcmp(a->container_id, b->container_id) == 0 && strcmp(a->fn_id, b->fn_id) == 0 &&
           strcmp(a->app_id, b->app_id) == 0;
}

static wire_container *add_container(struct scratch *s, struct parts *p, LogResponseMsg *msg,
                                     const struct engage_line *l)
{
    size_t at = msg->n_data++;
    wire_container *c = p->container_list[at] = &p->containers[at];

    log_response_msg__container__init(c);
    c->applicationid = wire_text(s, l->app_id);
    c->functionid = wire_text(s, l->fn_id);
    c->containerid = wire_text(s, l->container_id);
    return c;
}

/* What one message repeats stands side by side in the lists. */
static wire_request *add_request(struct scratch *s, struct parts *p, wire_container *c,
                                 const struct engage_line *l)
{
    size_t at = p->requests_n++;
    wire_request *rq = p->request_list[at] = &p->requests[at];

    c->data = c->n_data++ ? c->data : &p->request_list[at];
    log_response_msg__container__request__init(rq);
    rq->requestid = wire_text(s, l->call_id);
    return rq;
}

static void put_line(struct parts *p, wire_request *rq, uint32_t at, const struct engage_line *l)
{
    wire_line *line = p->line_list[at] = &p->lines[at];

    rq->data = rq->n_data++ ? rq->data : &p->line_list[at];
    log_response_msg__container__request__line__init(line);
    line->timestamp = l->wall_ms;
    line->source = l->of_stderr ? LOG_RESPONSE_MSG__CONTAINER__REQUEST__LINE__SOURCE__STDERR
                                : LOG_RESPONSE_MSG__CONTAINER__REQUEST__LINE__SOURCE__STDOUT;
    line->data = (ProtobufCBinaryData){ l->len, (uint8_t *)(uintptr_t)l->data };
    line->lost = l->lost;
}

int wire_encode_lines(struct scratch *s, const struct engage_line *lines, uint32_t n,
                      struct buf *out)
{
    LogResponseMsg msg = LOG_RESPONSE_MSG__INIT;
    wire_container *c = NULL;
    wire_request *rq = NULL;
    struct parts p = { 0 };

    scratch_reset(s);
    if (n > 0 && !make_parts(s, n, &p)) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct engage_line *l = &lines[i];
        bool other = i == 0 || !same_container(l, &lines[i - 1]);

        if (other) {
            c = add_container(s, &p, &msg, l);
        }
        if (other || strcmp(l->call_id, lines[i - 1].call_id) != 0) {
            rq = add_request(s, &p, c, l);
        }
        put_line(&p, rq, i, l);
    }
    msg.data = n > 0 ? p.container_list : NULL;
    return wire_pack(&msg.base, out);
}

int wire_encode_logs_start(struct scratch *s, const struct fn_kv *keys, uint32_t n, struct buf *out)
{
    LogRequestMsg msg = LOG_REQUEST_MSG__INIT;
    LogRequestMsg__Start start = LOG_REQUEST_MSG__START__INIT;

    scratch_reset(s);
    start.n_config = n;
    start.config = wire_pairs_to(s, keys, n, &log_request_msg__start__config_entry__descriptor);
    if (!start.config) {
        return FN_E_EXHAUSTED;
    }
    msg.body_case = LOG_REQUEST_MSG__BODY_START;
    msg.start = &start;
    return wire_pack(&msg.base, out);
}

int wire_encode_logs_ack(struct buf *out)
{
    LogRequestMsg msg = LOG_REQUEST_MSG__INIT;
    LogRequestMsg__Ack ack = LOG_REQUEST_MSG__ACK__INIT;

    msg.body_case = LOG_REQUEST_MSG__BODY_ACK;
    msg.ack = &ack;
    return wire_pack(&msg.base, out);
}

/* ---- decoding ------------------------------------------------------------------------------- */

void wire_decode_logs(struct scratch *s, const void *data, size_t len, struct wire_logs_msg *ret)
{
    LogRequestMsg *msg = wire_unpack(s, data, len, &log_request_msg__descriptor, &ret->kind);

    if (!msg) {
        return;
    }
    if (msg->body_case == LOG_REQUEST_MSG__BODY_START) {
        ret->n = (uint32_t)msg->start->n_config;
        ret->keys = wire_pairs_from(s, msg->start->config, ret->n);
        ret->kind = ret->keys ? WIRE_LOGS_START : WIRE_TOO_MUCH;
    } else if (msg->body_case == LOG_REQUEST_MSG__BODY_ACK ||
               msg->body_case == LOG_REQUEST_MSG__BODY_READY) {
        ret->kind = WIRE_LOGS_MORE;
    }
}

static size_t count_lines(const LogResponseMsg *msg)
{
    size_t n = 0;

    for (size_t i = 0; i < msg->n_data; i++) {
        for (size_t k = 0; k < msg->data[i]->n_data; k++) {
            n += msg->data[i]->data[k]->n_data;
        }
    }
    return n;
}

static struct engage_line wire_line_of(const wire_container *c, const wire_request *rq,
                                  const wire_line *l)
{
    return (struct engage_line){
        .app_id = c->applicationid,
        .fn_id = c->functionid,
        .container_id = c->containerid,
        .call_id = rq->requestid,
        .data = l->data.len > 0 ? (const char *)l->data.data : "",
        .len = l->data.len,
        .wall_ms = l->timestamp,
        .lost = l->lost,
        .of_stderr = l->source == LOG_RESPONSE_MSG__CONTAINER__REQUEST__LINE__SOURCE__STDERR,
    };
}

int wire_decode_lines(struct scratch *s, const void *data, size_t len, struct engage_line **ret,
                      uint32_t *ret_n)
{
    enum wire_kind kind;
    LogResponseMsg *msg = wire_unpack(s, data, len, &log_response_msg__descriptor, &kind);
    struct engage_line *lines;
    uint32_t n = 0;

    if (!msg) {
        return FN_E_INVALID;
    }
    lines = scratch_alloc(s, (count_lines(msg) + 1) * sizeof(*lines));
    if (!lines) {
        return FN_E_EXHAUSTED;
    }
    for (size_t i = 0; i < msg->n_data; i++) {
        const wire_container *c = msg->data[i];

        for (size_t k = 0; k < c->n_data; k++) {
            for (size_t m = 0; m < c->data[k]->n_data; m++) {
                lines[n++] = wire_line_of(c, c->data[k], c->data[k]->data[m]);
            }
        }
    }
    *ret = lines;
    *ret_n = n;
    return 0;
}
