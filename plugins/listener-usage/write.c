/* From the queue to a file or a server. */
#include "usage.h"

#include "fail.h"

#define AGAIN_NS   1000000000LL /* between two tries when the last one failed */
#define REQUEST_MS 4000u        /* below FN_LISTENER_TIME_S */
#define FINISH_MS  2000u        /* a reload, or the end of the node, waits for twice that at most */

/* Lines of the oldest records; how many. */
static uint64_t fill(struct instance *i, size_t *ret_len)
{
    const struct record *r;
    uint64_t n = 0;

    *ret_len = 0;
    while (n < BATCH_RECORDS && *ret_len + LINE_BYTES_MAX <= sizeof(i->lines) &&
           (r = queue_at(&i->queue, n))) {
        *ret_len += record_print(r, i->stream, i->lines + *ret_len);
        n++;
    }
    return n;
}

static void took(struct instance *i, uint64_t n)
{
    queue_take(&i->queue, n);
    i->host->metric->add(i->host, i->metric_written, (int64_t)n);
    i->host->metric->add(i->host, i->metric_waiting, -(int64_t)n);
}

/* Who answers 2xx has taken all of them; without such an answer they come again. */
static int post(struct instance *i, struct fn_op *op, size_t len, struct fn_error *reterr)
{
    static const char *const headers[] = { "Content-Type: application/x-ndjson", NULL };
    const struct fn_http_request request = { .size = sizeof(request),
                                             .timeout_ms = op ? REQUEST_MS : FINISH_MS,
                                             .method = "POST",
                                             .unix_path = i->conf->socket,
                                             .url = i->conf->url,
                                             .headers = headers,
                                             .body = i->lines,
                                             .body_len = len };
    struct fn_http_answer answer = { .size = sizeof(answer) };
    int r = i->http->exchange(i->host, op, &request, &answer, reterr);

    if (r < 0) {
        return r;
    }
    r = answer.status / 100 == 2
            ? 0
            : fail_platform(reterr, FN_E_UNAVAILABLE,
                            "url: got an answer with status %u; expected 2xx", answer.status);
    i->http->free_answer(&answer);
    return r;
}

/* The oldest records; op NULL: in destroy(). 0: there were none, or they were written. */
static int write_batch(struct instance *i, struct fn_op *op, struct fn_error *reterr)
{
    uint64_t written = 0;
    size_t len;
    uint64_t n = fill(i, &len);
    int r = 0;

    if (n > 0 && i->conf->url) {
        r = post(i, op, len, reterr);
        written = r < 0 ? 0 : n;
    } else if (n > 0) {
        r = file_write(&i->file, i->lines, len, &written, reterr);
    }
    if (written > 0) {
        took(i, written);
    }
    return r;
}

static int may_go_on(const struct instance *i, const struct fn_op *op)
{
    return !i->op->cancelled(op) && i->host->clock->now_ns(i->host) < i->op->deadline_ns(op);
}

int usage_write(void *inst, struct fn_op *op, const struct fn_call *call,
                const struct fn_call_end *end, struct fn_error *reterr)
{
    struct instance *i = inst;
    int r = 0;

    (void)call;
    (void)end;
    if (i->host->clock->now_ns(i->host) < i->again_ns) {
        return 0;
    }
    while (r == 0 && queue_waiting(&i->queue) > 0 && may_go_on(i, op)) {
        r = write_batch(i, op, reterr);
    }
    if (r < 0) {
        i->again_ns = i->host->clock->now_ns(i->host) + AGAIN_NS;
        i->host->metric->add(i->host, i->metric_failed, 1);
    }
    return r;
}

void usage_finish(struct instance *i)
{
    struct fn_error e = FN_ERROR_INIT;
    char line[LINE_BYTES_MAX];
    int64_t end_ns = i->conf->url ? i->host->clock->now_ns(i->host) + FINISH_MS * 1000000LL
                                  : INT64_MAX;
    uint64_t lines;
    size_t len;
    int r = 0;

    while (r == 0 && queue_waiting(&i->queue) > 0 && i->host->clock->now_ns(i->host) < end_ns) {
        r = write_batch(i, NULL, &e);
    }
    if (!i->conf->url && r == 0) {
        len = record_print_end(i->stream, i->seq + 1, i->host->clock->wall_ns(i->host), i->dropped,
                               line);
        file_write(&i->file, line, len, &lines, &e);
    }
}
