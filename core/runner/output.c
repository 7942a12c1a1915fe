/* What functions print: cut into lines, which go to the container's ring and to the node's log. */
#include <runner/runner_int.h>

#include <string.h>

#define LINE_BYTES_MAX 4096

int output_init(struct container *c)
{
    struct output *o = &c->output;

    *o = (struct output){ .ring = ring_create(c) };
    buf_init(&o->line[0], LINE_BYTES_MAX);
    buf_init(&o->line[1], LINE_BYTES_MAX);
    return o->ring ? 0 : FN_E_EXHAUSTED;
}

void output_finish(struct container *c)
{
    struct output *o = &c->output;

    output_flush(c);
    ring_keep(o->ring);
    buf_finish(&o->line[0]);
    buf_finish(&o->line[1]);
    buf_finish(&o->tail);
}

const char *output_tail(struct output *o, size_t max)
{
    size_t extra;

    buf_clear(&o->tail);
    if (ring_tail(o->ring, max, &o->tail) < 0 ||
        buf_add(&o->tail, o->line[0].data, o->line[0].len) < 0 ||
        buf_add(&o->tail, o->line[1].data, o->line[1].len) < 0 || o->tail.len == 0) {
        return NULL;
    }
    extra = o->tail.len > max ? o->tail.len - max : 0;
    return buf_text(&o->tail) + extra;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void log_line(struct container *c, uint32_t fd, const char *line)
{
    const struct runner_options *opt = &c->r->opt;
    const char *call_id = c->output.call_id;
    uint32_t suppressed;

    if (!opt->user_logs || FN_LOG_INFO > log_level() ||
        !log_gate_open(&c->output.gate, env_now_ns(c->r->env), ENV_S, opt->user_log_lines_per_s,
                       &suppressed)) {
        return;
    }
    log_write(FN_LOG_INFO, line, "user_log", "true", "stream", fd == 2 ? "stderr" : "stdout",
              OF_CONTAINER(c), "call_id", call_id[0] ? call_id : NULL, "suppressed",
              suppressed ? log_num(suppressed) : NULL, (char *)NULL);
}

static void end_line(struct container *c, uint32_t fd)
{
    struct buf *line = &c->output.line[fd == 2];

    ring_add(c->output.ring, fd == 2, c->output.call_id, buf_text(line), line->len);
    if (line->len) {
        log_line(c, fd, buf_text(line));
    }
    buf_clear(line);
}

void output_flush(struct container *c)
{
    for (uint32_t fd = 1; fd <= 2; fd++) {
        if (c->output.line[fd == 2].len) {
            end_line(c, fd);
        }
    }
}

void output_of_call(struct container *c, const char *call_id)
{
    output_flush(c);
    memcpy(c->output.call_id, call_id, strnlen(call_id, CALL_ID_LEN));
    c->output.call_id[strnlen(call_id, CALL_ID_LEN)] = '\0';
}

void container_output(struct container *c, uint32_t fd, const void *data, size_t len)
{
    struct buf *line = &c->output.line[fd == 2];
    const char *p = data;

    while (len > 0) {
        const char *end = memchr(p, '\n', len);
        size_t n = end ? (size_t)(end - p) : len;
        size_t room = LINE_BYTES_MAX - 1 - line->len;
        size_t now = n < room ? n : room;

        buf_add(line, p, now);
        p += now;
        len -= now;
        if (now < n || end) {
            if (now == n) {
                p++;
                len--;
            }
            end_line(c, fd);
        }
    }
}
