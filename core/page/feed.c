/* The stream: snapshots for everybody who reads.
 *
 * A table of many rows is looked at less often than once a second, so that a thousand more runners
 * do not cost more.
 *
 * A reader whose socket takes no more misses snapshots, as each one is whole; one that takes
 * nothing for SLOW_NS is cut off. */
#include <page/page_int.h>

#include <base/log.h>
#include <string.h>

#define SECOND_NS ENV_S
#define SLOW_NS   (5 * ENV_S)
#define ROWS_A_SNAPSHOT 2000u /* of each table: some 5 ms of the loop, in slices */

struct page_stream {
    LIST_ENTRY(page_stream) link;
    struct page *page;
    struct http_request *req;
    int64_t full_ns; /* since when it takes nothing; 0 = it does */
};

/* ---- readers --------------------------------------------------------------------------------- */

static void stream_end(struct page_stream *s)
{
    struct feed *f = &s->page->feed;

    LIST_REMOVE(s, link);
    f->n_streams--;
    metric_set(f->readers, f->n_streams);
    http_answer_abort(s->req); /* its arena has s */
}

static void stream_on_gone(struct http_request *req)
{
    stream_end(req->ud);
}

static void stream_on_writable(struct http_request *req)
{
    ((struct page_stream *)req->ud)->full_ns = 0;
}

static void stream_put(struct page_stream *s, const struct buf *text)
{
    if (!s->full_ns && http_answer_data(s->req, text->data, text->len) == 1) {
        s->full_ns = env_now_ns(s->page->env);
    }
}

static void stream_begin(struct page_stream *s)
{
    struct buf first = BUF_INIT(0);
    struct headers h;

    headers_init(&h, s->req->arena);
    headers_add(&h, "Content-Type", "text/event-stream");
    headers_add(&h, "Cache-Control", "no-store");
    http_answer_head(s->req, 200, &h, -1);
    if (buf_add_str(&first, "event: history\ndata: ") == 0 &&
        history_print(&s->page->feed.history, &first) == 0 && buf_add_str(&first, "\n\n") == 0) {
        stream_put(s, &first);
    }
    buf_finish(&first);
}

void feed_open(struct page *p, struct http_request *req)
{
    struct feed *f = &p->feed;
    struct page_stream *s = arena_alloc(req->arena, sizeof(*s));

    if (!s || f->n_streams >= PAGE_STREAMS_MAX) {
        page_refuse(req, 503, s ? "ADM1304 too many pages are open at this node" : "out of memory");
        return;
    }
    *s = (struct page_stream){ .page = p, .req = req };
    req->ud = s;
    req->on_gone = stream_on_gone;
    req->on_writable = stream_on_writable;
    for (uint32_t i = 0; f->n_streams == 0 && i < p->deps.n_tables; i++) {
        f->tables[i].rests = 0; /* what was shown to the last reader is old */
    }
    LIST_INSERT_HEAD(&f->streams, s, link);
    metric_set(f->readers, ++f->n_streams);
    stream_begin(s);
    if (!f->making && !env_timer_is_set(&f->second)) {
        env_timer_set(p->env, &f->second, env_now_ns(p->env));
    }
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static void send_all(struct page *p)
{
    int64_t now_ns = env_now_ns(p->env);
    struct page_stream *s, *next;

    for (s = LIST_FIRST(&p->feed.streams); s; s = next) {
        next = LIST_NEXT(s, link);
        if (s->full_ns && now_ns - s->full_ns > SLOW_NS) {
            metric_add(p->feed.dropped, 1);
            log_stranger(FN_LOG_INFO, "a reader of the operator's page takes nothing, and is cut "
                         "off", "peer", s->req->peer);
            stream_end(s);
        } else {
            stream_put(s, &p->feed.text);
        }
    }
}

static int put_figures(struct page *p, struct buf *out)
{
    int64_t values[HISTORY_SERIES_MAX] = { 0 };
    int r = buf_printf(out, "event: snapshot\ndata: {\"at_ms\":%lld,\"figures\":{",
                       (long long)(env_wall_ns(p->env) / ENV_MS));

    p->deps.sample(p->deps.ud, values);
    for (uint32_t i = 0; p->deps.series[i]; i++) {
        r |= buf_printf(out, "%s\"%s\":%lld", i ? "," : "", p->deps.series[i],
                        (long long)values[i]);
    }
    r |= buf_add_str(out, "},\"about\":");
    r |= p->deps.about(p->deps.ud, out);
    return r | buf_add_str(out, ",\"tables\":{");
}

static void making_end(struct page *p, bool good)
{
    struct feed *f = &p->feed;

    f->making = false;
    if (good && buf_add_str(&f->text, "}}\n\n") == 0) {
        send_all(p);
    } else {
        log_stranger(FN_LOG_WARN, "out of memory: the operator's page misses a snapshot");
    }
    if (f->n_streams > 0) {
        env_timer_set(p->env, &f->second, env_now_ns(p->env) + SECOND_NS);
    }
}

static void look_next(struct page *p);

/* "name":{...} of the table that was looked at last, now or some snapshots ago. */
static void put_table(struct page *p)
{
    struct feed *f = &p->feed;
    const struct feed_table *t = &f->tables[f->table];
    int r = f->table > 0 ? buf_add_str(&f->text, ",\"") : buf_add_str(&f->text, "\"");

    r |= buf_add_str(&f->text, p->deps.tables[f->table]->name) | buf_add_str(&f->text, "\":");
    r |= buf_add(&f->text, t->text.data, t->text.len);
    f->table++;
    if (r) {
        making_end(p, false);
    } else {
        look_next(p);
    }
}

static void feed_on_looked(struct page_look *l)
{
    struct page *p = container_of(l, struct page, feed.look);
    struct feed_table *t = &p->feed.tables[p->feed.table];
    int r;

    buf_clear(&t->text);
    r = look_print(l, &t->text);
    t->rests = r ? 0 : (uint32_t)(l->seen / ROWS_A_SNAPSHOT);
    look_free(l);
    if (r) {
        making_end(p, false);
    } else {
        put_table(p);
    }
}

static void look_next(struct page *p)
{
    struct feed *f = &p->feed;
    const struct page_table *t;

    if (f->table == p->deps.n_tables) {
        making_end(p, true);
        return;
    }
    if (f->tables[f->table].rests > 0) {
        f->tables[f->table].rests--;
        put_table(p);
        return;
    }
    t = p->deps.tables[f->table];
    f->look = (struct page_look){
        .env = p->env, .table = t, .ud = p->deps.ud, .max = t->shown, .done = feed_on_looked
    };
    if (look_begin(&f->look) < 0) {
        making_end(p, false);
    }
}

static void feed_on_second(struct env_timer *t)
{
    struct page *p = container_of(t, struct page, feed.second);
    struct feed *f = &p->feed;

    if (f->n_streams == 0) {
        return;
    }
    f->making = true;
    f->table = 0;
    buf_clear(&f->text);
    if (put_figures(p, &f->text)) {
        making_end(p, false);
    } else {
        look_next(p);
    }
}

/* ---- history --------------------------------------------------------------------------------- */

static void feed_on_sample(struct env_timer *t)
{
    struct page *p = container_of(t, struct page, feed.sampler);
    int64_t values[HISTORY_SERIES_MAX] = { 0 };

    p->deps.sample(p->deps.ud, values);
    history_add(&p->feed.history, values, env_wall_ns(p->env));
    env_timer_set(p->env, t, env_now_ns(p->env) + HISTORY_STEP_S * ENV_S);
}

void feed_init(struct page *p)
{
    struct feed *f = &p->feed;

    LIST_INIT(&f->streams);
    buf_init(&f->text, 0);
    f->history.names = p->deps.series;
    f->second.cb = feed_on_second;
    f->sampler.cb = feed_on_sample;
    f->readers = metric_simple("fn_page_readers", METRIC_GAUGE,
                               "Open streams of the operator's page.");
    f->dropped = metric_simple("fn_page_readers_dropped", METRIC_COUNTER,
                               "Streams of the operator's page that were cut off because nobody "
                               "read them.");
    env_timer_set(p->env, &f->sampler, env_now_ns(p->env));
}

void feed_finish(struct page *p)
{
    struct feed *f = &p->feed;

    env_timer_clear(p->env, &f->second);
    env_timer_clear(p->env, &f->sampler);
    look_free(&f->look);
    while (!LIST_EMPTY(&f->streams)) {
        stream_end(LIST_FIRST(&f->streams));
    }
    buf_finish(&f->text);
    for (uint32_t i = 0; i < PAGE_TABLES_MAX; i++) {
        buf_finish(&f->tables[i].text);
    }
}
