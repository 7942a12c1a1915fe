/* Rings: the newest lines that each container printed, for who reads logs and for the sentence
 * about a failure.
 *
 * A ring is a run of records, dropped at the front. Its lines have numbers, so that a reader knows
 * how many he has missed. The ring of a container that has gone is kept for a while, all of those
 * together within runner.log_kept; the oldest goes first, of the app that keeps more than half of
 * it, if there is one. */
#include <runner/runner_int.h>

#include <stdlib.h>
#include <string.h>

#define CALL_ID_MAX 64u
#define KEPT_MAX    2048u /* rings of containers that have gone */

/* In front of a call's id and its NUL, and the text; at any address. */
struct record {
    int64_t wall_ms;
    uint32_t len;
    uint16_t id_len;
    uint16_t of_stderr;
};

static const struct ring_watch *ring_watch(const struct log_ring *g)
{
    return g->r->logs.watch;
}

struct log_ring *ring_create(struct container *c)
{
    size_t app = strlen(c->task.app_id) + 1, fn = strlen(c->task.fn_id) + 1;
    struct log_ring *g = calloc(1, sizeof(*g) + app + fn);

    if (!g) {
        return NULL;
    }
    g->r = c->r;
    memcpy(g->texts, c->task.app_id, app);
    memcpy(g->texts + app, c->task.fn_id, fn);
    g->app_id = g->texts;
    g->fn_id = g->texts + app;
    memcpy(g->container_id, c->id, sizeof(g->container_id));
    LIST_INIT(&g->taps);
    TAILQ_INSERT_TAIL(&c->r->logs.rings, g, link);
    ring_watch(g)->begins(g);
    return g;
}

static void ring_free(struct log_ring *g)
{
    ring_watch(g)->ends(g);
    TAILQ_REMOVE(g->ended ? &g->r->logs.kept : &g->r->logs.rings, g, link);
    buf_finish(&g->records);
    free(g);
}

/* ---- records --------------------------------------------------------------------------------- */

static size_t record_at(const struct log_ring *g, uint64_t pos, struct record *ret)
{
    memcpy(ret, g->records.data + (pos - g->begin), sizeof(*ret));
    return sizeof(*ret) + ret->id_len + 1 + ret->len;
}

void ring_read(const struct log_ring *g, uint64_t *pos, struct engage_line *ret)
{
    const char *at = g->records.data + (*pos - g->begin) + sizeof(struct record);
    struct record head;

    *pos += record_at(g, *pos, &head);
    *ret = (struct engage_line){
        .app_id = g->app_id,
        .fn_id = g->fn_id,
        .container_id = g->container_id,
        .call_id = at,
        .data = at + head.id_len + 1,
        .len = head.len,
        .wall_ms = head.wall_ms,
        .of_stderr = head.of_stderr,
    };
}

/* Behind the last record. */
static uint64_t ring_end(const struct log_ring *g)
{
    return g->begin + g->records.len;
}

/* Drops whole records, so many that at most `max` bytes are left. */
static void ring_cut(struct log_ring *g, size_t max)
{
    uint64_t pos = g->begin;
    struct record head;

    while (ring_end(g) - pos > max) {
        pos += record_at(g, pos, &head);
        g->first_no++;
    }
    buf_consume(&g->records, (size_t)(pos - g->begin));
    g->begin = pos;
}

/* Half as much again may be there, so that a third is moved at a time and not something for each
 * line. */
static void ring_make_room(struct log_ring *g, size_t len)
{
    size_t limit = g->r->opt.log_ring_bytes;

    if (g->records.len + len > limit + limit / 2) {
        ring_cut(g, limit > len ? limit - len : 0);
    }
}

void ring_add(struct log_ring *g, bool of_stderr, const char *call_id, const char *text, size_t len)
{
    size_t id_len = strnlen(call_id, CALL_ID_MAX);
    size_t whole = sizeof(struct record) + id_len + 1 + len;
    struct record head = { env_wall_ns(g->r->env) / ENV_MS, (uint32_t)len, (uint16_t)id_len,
                           of_stderr };
    char *at;

    ring_make_room(g, whole);
    at = buf_reserve(&g->records, whole);
    if (!at) { /* no memory: as if its reader had been too slow */
        ring_cut(g, 0);
        g->first_no = ++g->next_no;
        return;
    }
    memcpy(at, &head, sizeof(head));
    memcpy(at + sizeof(head), call_id, id_len);
    at[sizeof(head) + id_len] = '\0';
    memcpy(at + sizeof(head) + id_len + 1, text, len);
    g->records.len += whole;
    g->next_no++;
    ring_watch(g)->grew(g);
}

int ring_tail(const struct log_ring *g, size_t max, struct buf *out)
{
    uint64_t pos = g->begin;
    struct engage_line line;
    int r = 0;

    while (r == 0 && pos < ring_end(g)) {
        ring_read(g, &pos, &line);
        if (ring_end(g) - pos <= max) { /* records are longer than what they hold */
            r = buf_add(out, line.data, line.len);
            r = r < 0 ? r : buf_add(out, "\n", 1);
        }
    }
    return r;
}

/* ---- of containers that have gone ------------------------------------------------------------ */

static size_t ring_bytes(const struct log_ring *g)
{
    return sizeof(*g) + g->records.cap;
}

/* Its buffer has room for lines that never come. */
static void ring_shrink(struct log_ring *g)
{
    struct buf exact = BUF_INIT(0);

    if (buf_add(&exact, g->records.data, g->records.len) == 0) {
        buf_finish(&g->records);
        g->records = exact;
    }
}

static uint64_t kept_bytes_of(const struct log_store *s, const char *app_id)
{
    const struct log_ring *g;
    uint64_t bytes = 0;

    TAILQ_FOREACH(g, &s->kept, link) {
        bytes += strcmp(g->app_id, app_id) == 0 ? ring_bytes(g) : 0;
    }
    return bytes;
}

static struct log_ring *oldest_of(const struct log_store *s, const char *app_id)
{
    struct log_ring *g = TAILQ_FIRST(&s->kept);

    while (g && strcmp(g->app_id, app_id) != 0) {
        g = TAILQ_NEXT(g, link);
    }
    return g;
}

static void kept_drop(struct log_ring *g)
{
    g->r->logs.kept_bytes -= ring_bytes(g);
    g->r->logs.kept_n--;
    ring_free(g);
}

/* app_id is that of the last one that came, without which there was room. */
static void kept_fit(struct runner *r, const char *app_id)
{
    struct log_store *s = &r->logs;

    while (s->kept_bytes > r->opt.log_kept_bytes || s->kept_n > KEPT_MAX) {
        bool greedy = kept_bytes_of(s, app_id) > r->opt.log_kept_bytes / 2;

        kept_drop(greedy ? oldest_of(s, app_id) : TAILQ_FIRST(&s->kept));
    }
}

void ring_keep(struct log_ring *g)
{
    struct log_store *s = &g->r->logs;
    struct runner *r = g->r;
    const char *app_id = g->app_id;

    if (g->records.len == 0) {
        ring_free(g);
        return;
    }
    ring_shrink(g);
    TAILQ_REMOVE(&s->rings, g, link);
    g->ended = true;
    TAILQ_INSERT_TAIL(&s->kept, g, link);
    s->kept_bytes += ring_bytes(g);
    s->kept_n++;
    if (ring_bytes(g) > r->opt.log_kept_bytes) {
        kept_drop(g);
    } else {
        kept_fit(r, app_id);
    }
}

void rings_set_options(struct runner *r)
{
    while (r->logs.kept_bytes > r->opt.log_kept_bytes) {
        kept_drop(TAILQ_FIRST(&r->logs.kept));
    }
}

void rings_init(struct runner *r, const struct ring_watch *watch)
{
    r->logs.watch = watch;
    TAILQ_INIT(&r->logs.rings);
    TAILQ_INIT(&r->logs.kept);
}

void rings_finish(struct runner *r)
{
    while (!TAILQ_EMPTY(&r->logs.kept)) {
        kept_drop(TAILQ_FIRST(&r->logs.kept));
    }
}
