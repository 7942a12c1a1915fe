/* What functions print: the newest bytes per container, and lines for the node's log. */
#include <runner/internal.h>

#include <string.h>

#define LINE_BYTES_MAX 4096

/* Half as much again, so that a third is moved at a time and not something for each piece. */
static size_t ring_limit(const struct runner_options *opt)
{
    return opt->log_ring_bytes + opt->log_ring_bytes / 2;
}

void output_init(struct output *o, const struct runner_options *opt)
{
    *o = (struct output){ .ring = BUF_INIT(ring_limit(opt)) };
    buf_init(&o->line[0], LINE_BYTES_MAX);
    buf_init(&o->line[1], LINE_BYTES_MAX);
}

void output_finish(struct output *o)
{
    buf_finish(&o->ring);
    buf_finish(&o->line[0]);
    buf_finish(&o->line[1]);
}

const char *output_tail(struct output *o, size_t max)
{
    const char *text = buf_text(&o->ring);

    return o->ring.len > max ? text + (o->ring.len - max) : text;
}

static void output_write_line(struct container *c, uint32_t fd, const char *line)
{
    const struct runner_options *opt = &c->r->opt;
    uint32_t suppressed;

    if (!log_gate_open(&c->output.gate, env_now_ns(c->r->env), ENV_S, opt->user_log_lines_per_s,
                       &suppressed)) {
        return;
    }
    log_write(FN_LOG_INFO, line, "user_log", "true", "stream",
              fd == 2 ? "stderr" : "stdout", "app_id", c->task.app_id, "fn_id", c->task.fn_id,
              "container_id", c->id, "call_id", c->call ? c->call->call.id : NULL, "suppressed",
              suppressed ? log_num(suppressed) : NULL, (char *)NULL);
}

static void add_lines(struct container *c, uint32_t fd, const char *data, size_t len)
{
    struct buf *line = &c->output.line[fd == 2];

    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        size_t room = LINE_BYTES_MAX - 1 - line->len;
        size_t now = n < room ? n : room;

        buf_add(line, data, now);
        data += now;
        len -= now;
        if (now < n || end) {
            if (now == n) {
                data++;
                len--;
            }
            if (line->len) {
                output_write_line(c, fd, buf_text(line));
            }
            buf_clear(line);
        }
    }
}

void container_output(struct container *c, uint32_t fd, const void *data, size_t len)
{
    const struct runner_options *opt = &c->r->opt;
    struct buf *ring = &c->output.ring;
    const char *p = data;

    if (opt->user_logs && FN_LOG_INFO <= log_level()) {
        add_lines(c, fd, p, len);
    }
    if (len > opt->log_ring_bytes) {
        p += len - opt->log_ring_bytes;
        len = opt->log_ring_bytes;
    }
    ring->limit = ring_limit(opt); /* a reload may have changed it */
    if (ring->len + len > ring->limit) {
        buf_consume(ring, ring->len + len - opt->log_ring_bytes);
    }
    buf_add(ring, p, len);
}
