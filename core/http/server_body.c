/* Requests, and what a body may take while it comes: the same for each protocol. */
#include <http/server_int.h>

#include <inttypes.h>
#include <string.h>

#define RATE_GRACE_PART 6 /* of the body deadline passes before the rate counts: 10 s of 60 s */
#define RATE_GRACE_NS   (10 * ENV_S) /* without a body deadline */
#define RATE_CHECK_NS   ENV_S

/* ---- requests ------------------------------------------------------------------------------- */

struct request *request_create(struct http_server *s, const struct answer_ops *ops)
{
    struct arena arena;
    struct request *q;

    arena_init(&arena, 0);
    q = arena_alloc(&arena, sizeof(*q));
    if (!q) {
        return NULL;
    }
    q->arena = arena;
    q->ops = ops;
    q->pub.arena = &q->arena;
    q->pub.body = body_create(s->config.bodies, (uint64_t)s->config.limits.body_bytes_max);
    if (!q->pub.body) {
        arena_finish(&arena);
        return NULL;
    }
    return q;
}

void request_free(struct request *q)
{
    struct arena arena = q->arena;

    body_unref(q->pub.body);
    arena_finish(&arena);
}

void request_fill(struct http_server *s, struct request *q, const struct parsed_request *parsed)
{
    q->pub.method = parsed->method;
    q->pub.target = parsed->target;
    q->pub.path = parsed->path;
    q->pub.query = parsed->query;
    q->pub.host = parsed->host;
    q->pub.headers = parsed->headers;
    q->pub.received_ns = env_now_ns(s->env);
    q->http10 = parsed->http10;
    q->head_only = strcmp(parsed->method, "HEAD") == 0;
    q->keep_alive = parsed->framing.keep_alive;
}

/* ---- refusals ------------------------------------------------------------------------------- */

void refuse_for_memory(struct refusal *r)
{
    refuse(r, 503, "HTTP118 no memory left for request bodies");
}

void refuse_stranger(struct refusal *r)
{
    refuse(r, 403, "TLS805 your certificate names none of the peers that are allowed here");
}

static void refuse_for_share(struct refusal *r)
{
    refuse(r, 503, "HTTP118 request bodies of this address use its share of the memory for them");
}

static void refuse_big_body(const struct http_server *s, struct refusal *r)
{
    refuse(r, 413, "HTTP110 body > %" PRId64 " bytes", s->config.limits.body_bytes_max);
}

void refuse_late(struct refusal *r, const char *what, int64_t limit_ns)
{
    if (limit_ns % ENV_S == 0) {
        refuse(r, 408, "%s not complete in %lld s", what, limit_ns / ENV_S);
    } else {
        refuse(r, 408, "%s not complete in %lld ms", what, limit_ns / ENV_MS);
    }
}

/* ---- bodies --------------------------------------------------------------------------------- */

bool intake_begin(struct http_server *s, struct intake *in, struct visitor *p, uint64_t length,
                  int64_t *ret_look_ns, struct refusal *r)
{
    const struct http_limits *limits = &s->config.limits;
    const struct budget *budget = s->config.bodies;
    int64_t grace_ns = limits->body_timeout_ns / RATE_GRACE_PART;
    int64_t now = env_now_ns(s->env);

    if (limits->body_bytes_max && length > (uint64_t)limits->body_bytes_max) {
        refuse_big_body(s, r);
        return false;
    }
    if (budget && budget->limit_bytes && budget->used_bytes + length > budget->limit_bytes) {
        refuse_for_memory(r);
        return false;
    }
    if (!peer_may_bring(s, p, length)) {
        refuse_for_share(r);
        return false;
    }
    *in = (struct intake){ .peer_count = p,
                           .deadline_ns = limits->body_timeout_ns ? now + limits->body_timeout_ns
                                                                  : INT64_MAX };
    *ret_look_ns = now + (grace_ns > 0 ? grace_ns : RATE_GRACE_NS);
    return true;
}

bool intake_add(struct http_server *s, struct intake *in, struct body *b, const char *data,
                size_t len, struct refusal *r)
{
    int e;

    /* Also of a length that was told: between its head and its bytes others may have come. */
    if (!peer_may_bring(s, in->peer_count, len)) {
        refuse_for_share(r);
        return false;
    }
    e = body_append(b, data, len);
    if (e == FN_E_RANGE) {
        refuse_big_body(s, r);
    } else if (e < 0) {
        refuse_for_memory(r);
    } else if (in->peer_count) {
        in->peer_count->holds += len;
        in->counted += len;
    }
    return e == 0;
}

int64_t intake_look(struct http_server *s, const struct intake *in, const struct http_request *req,
                    struct refusal *r)
{
    const struct http_limits *limits = &s->config.limits;
    int64_t now = env_now_ns(s->env);
    int64_t elapsed_ms = (now - req->received_ns) / ENV_MS + 1;
    int64_t rate = (int64_t)req->body->bytes.len * 1000 / elapsed_ms;
    int64_t next = now + RATE_CHECK_NS;

    if (now >= in->deadline_ns) {
        refuse_late(r, "HTTP114 body", limits->body_timeout_ns);
        return 0;
    }
    if (limits->body_rate_min && rate < limits->body_rate_min) {
        refuse(r, 408, "HTTP115 body slower than %" PRId64 " bytes/s", limits->body_rate_min);
        return 0;
    }
    return next < in->deadline_ns ? next : in->deadline_ns;
}

void intake_end(struct intake *in)
{
    if (in->peer_count) {
        in->peer_count->holds -= in->counted;
    }
    in->counted = 0;
}
