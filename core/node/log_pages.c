/* GET /logs/<function>?follow=0|1&tail=N: what a function prints, one JSON object on each line.
 *
 * Each runner that this node reaches is a source, which is read by a stream of its own, one message
 * at a time; a load balancer has those of its pool, a node that is a runner has itself. While the
 * client takes no more, no source is asked for more, so that lines wait, and are lost, where they
 * are printed and not here. Rows:
 *
 *   {"time_ms":…,"runner":…,"app_id":…,"fn_id":…,"container_id":…,"call_id":…,"stream":…,"line":…}
 *   the same with "lost": so many lines are missing there
 *   {"runner":…,"error":…}   a runner cannot say, or no longer
 *   {"mark":true}            what follows is new: the history of all sources is there */
#include <node/logs.h>
#include <node/node.h>

#include <model/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX   256u  /* runners that one page reads */
#define TAIL_MAX      100000u
#define HISTORY_NS    (5 * ENV_S) /* without a line of what there is, from any runner */
#define SCAN_NS       ENV_S       /* for runners that come, or come back */
#define ADDRESS_MAX   256

struct log_source {
    LIST_ENTRY(log_source) entry;
    struct log_page *page;
    struct engage_client *client;
    struct engage_reader *reader; /* NULL: it ended */
    int64_t last_ms; /* of the newest line */
    bool marked;     /* its history is complete, or will not be */
    bool asked;      /* a message is on its way */
    bool seen;       /* by the scan that runs */
    char address[ADDRESS_MAX];
};

struct log_page {
    struct admin_stream stream;
    LIST_ENTRY(log_page) entry;
    struct node *node;
    struct admin_request *rq;
    struct log_name *name; /* not found yet */
    LIST_HEAD(, log_source) sources;
    uint32_t sources_n;
    char fn_id[LOG_NAME_MAX + 1];
    char tail[16];
    bool follow;
    bool full;   /* the client takes no more */
    bool marked; /* the mark was written */
    bool told_many;
    bool scanned; /* once */
    struct env_timer timer;
    int64_t history_until_ns;
    struct buf out;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static int add_text(struct buf *b, const char *key, const char *text, size_t len)
{
    int r = len > 0 ? buf_printf(b, ",\"%s\":", key) : 0;

    return r < 0 || len == 0 ? r : jw_string_n(b, text, len);
}

static int add_row(struct buf *b, const struct log_source *s, const struct engage_line *l)
{
    int r = buf_printf(b, "{\"time_ms\":%lld,\"stream\":\"%s\"", (long long)l->wall_ms,
                       l->of_stderr ? "stderr" : "stdout");

    r = r < 0 ? r : add_text(b, "runner", s->address, strlen(s->address));
    r = r < 0 ? r : add_text(b, "app_id", l->app_id, strlen(l->app_id));
    r = r < 0 ? r : add_text(b, "fn_id", l->fn_id, strlen(l->fn_id));
    r = r < 0 ? r : add_text(b, "container_id", l->container_id, strlen(l->container_id));
    r = r < 0 ? r : add_text(b, "call_id", l->call_id, strlen(l->call_id));
    if (r == 0 && l->lost > 0) {
        r = buf_printf(b, ",\"lost\":%llu", (unsigned long long)l->lost);
    }
    r = r < 0 ? r : buf_add_str(b, ",\"line\":");
    r = r < 0 ? r : jw_string_n(b, l->data, l->len);
    return r < 0 ? r : buf_add_str(b, "}\n");
}

static int add_error(struct buf *b, const char *runner, const char *text)
{
    int r = buf_add_str(b, "{\"runner\":");

    r = r < 0 ? r : jw_string(b, runner);
    r = r < 0 ? r : buf_add_str(b, ",\"error\":");
    r = r < 0 ? r : jw_string(b, text);
    return r < 0 ? r : buf_add_str(b, "}\n");
}

/* ---- life ------------------------------------------------------------------------------------ */

static void source_stop(struct log_source *s)
{
    if (s->reader) {
        s->client->reader_close(s->reader);
        s->reader = NULL;
    }
}

/* The page is in the request's arena. */
static void page_end(struct log_page *p)
{
    struct log_source *s;

    while ((s = LIST_FIRST(&p->sources))) {
        source_stop(s);
        LIST_REMOVE(s, entry);
        free(s);
    }
    log_name_cancel(p->name);
    env_timer_clear(p->node->env, &p->timer);
    buf_finish(&p->out);
    LIST_REMOVE(p, entry);
}

static void page_on_gone(struct admin_stream *s)
{
    page_end(container_of(s, struct log_page, stream));
}

static void page_cut(struct log_page *p)
{
    struct admin_request *rq = p->rq;

    page_end(p);
    admin_stream_cut(rq);
}

/* What is in p->out goes out. False: no memory was left for it, and the page is gone. */
static bool page_write(struct log_page *p, int r)
{
    if (r < 0) {
        page_cut(p);
        return false;
    }
    if (p->out.len > 0 && admin_stream_part(p->rq, p->out.data, p->out.len) == 1) {
        p->full = true;
    }
    buf_clear(&p->out);
    return true;
}

static void source_more(struct log_source *s)
{
    if (s->reader && !s->asked && !s->page->full) {
        s->asked = true;
        s->client->reader_more(s->reader);
    }
}

static void page_on_more(struct admin_stream *stream)
{
    struct log_page *p = container_of(stream, struct log_page, stream);
    struct log_source *s;

    p->full = false;
    LIST_FOREACH(s, &p->sources, entry) {
        source_more(s);
    }
}

/* ---- when the history is there --------------------------------------------------------------- */

static bool all_marked(const struct log_page *p)
{
    const struct log_source *s;

    LIST_FOREACH(s, &p->sources, entry) {
        if (!s->marked) {
            return false;
        }
    }
    return true;
}

/* The last touch: the page may have ended. */
static void page_look(struct log_page *p)
{
    struct admin_request *rq = p->rq;

    if (p->marked || !all_marked(p)) {
        return;
    }
    p->marked = true;
    if (page_write(p, buf_add_str(&p->out, "{\"mark\":true}\n")) && !p->follow) {
        page_end(p);
        admin_stream_end(rq);
    }
}

/* ---- sources --------------------------------------------------------------------------------- */

static void source_on_lines(void *ud, const struct engage_line *lines, uint32_t n)
{
    struct log_source *s = ud;
    struct log_page *p = s->page;
    int r = 0;

    s->asked = false;
    p->history_until_ns = env_now_ns(p->node->env) + HISTORY_NS;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        r = add_row(&p->out, s, &lines[i]);
        s->last_ms = lines[i].wall_ms > s->last_ms ? lines[i].wall_ms : s->last_ms;
    }
    if (page_write(p, r)) {
        s->marked = s->marked || n == 0;
        source_more(s);
        page_look(p);
    }
}

static void source_on_end(void *ud, int grpc_status, const char *text)
{
    struct log_source *s = ud;
    struct log_page *p = s->page;
    int r = grpc_status == GRPC_OK ? 0 : add_error(&p->out, s->address, text);

    source_stop(s);
    s->marked = true;
    if (page_write(p, r)) {
        page_look(p);
    }
}

static const struct engage_reader_cb reader_cb = { source_on_lines, source_on_end };

/* Its last lines; one that was read before goes on there, so that some may come twice. */
static int source_read(struct log_source *s, struct engage_link *link)
{
    struct log_page *p = s->page;
    char since[24];
    struct fn_kv keys[5] = { { "fn_id", p->fn_id },
                             { "follow", p->follow ? "true" : "false" },
                             { "mark", "true" },
                             { "since", since },
                             { "tail", p->tail } };
    uint32_t n = s->last_ms > 0 ? 4 : 5;

    snprintf(since, sizeof(since), "%lld", (long long)s->last_ms);
    s->asked = false;
    s->reader = s->client->reader_open(link, keys, n, &reader_cb, s);
    if (!s->reader) {
        return FN_E_EXHAUSTED;
    }
    source_more(s);
    return 0;
}

static struct log_source *source_add(struct log_page *p, struct engage_client *client,
                                     const char *address)
{
    struct log_source *s = calloc(1, sizeof(*s));

    if (s) {
        s->page = p;
        s->client = client;
        s->marked = p->marked;
        snprintf(s->address, sizeof(s->address), "%s", address);
        LIST_INSERT_HEAD(&p->sources, s, entry);
        p->sources_n++;
    }
    return s;
}

static struct log_source *source_of(struct log_page *p, const char *address)
{
    struct log_source *s;

    LIST_FOREACH(s, &p->sources, entry) {
        if (strcmp(s->address, address) == 0) {
            break;
        }
    }
    return s;
}

/* A runner that is not read: at first, or again. False: no further one. */
static bool source_visit(struct log_page *p, struct engage_client *client, struct engage_link *link,
                         const char *address)
{
    struct log_source *s = source_of(p, address);

    if (s && (s->seen || s->reader)) {
        return true;
    }
    if (!client->link_is_up(link)) {
        if (!s && !p->scanned) {
            add_error(&p->out, address, "it is not connected");
        }
        return true;
    }
    if (!s && p->sources_n == SOURCES_MAX) {
        return false;
    }
    s = s ? s : source_add(p, client, address);
    if (s) {
        s->seen = true;
        s->marked = source_read(s, link) < 0 || s->marked;
    }
    return s != NULL;
}

static bool page_on_runner(void *ud, struct engage_link *link, const char *address)
{
    struct log_page *p = ud;
    struct node *n = p->node;

    return source_visit(p, n->local ? local_client(n->local) : rpc_client(n->rpc), link, address);
}

/* False: the page is gone. */
static bool page_scan(struct log_page *p)
{
    struct node *n = p->node;
    struct log_source *s;

    LIST_FOREACH(s, &p->sources, entry) {
        s->seen = false;
    }
    if (n->log_local) {
        source_visit(p, local_client(n->log_local), n->log_link, "");
    } else if (!place_each_runner(n->place, page_on_runner, p) && !p->told_many) {
        p->told_many = true;
        add_error(&p->out, "others", "more than 256 runners: these were not asked");
    }
    if (LIST_EMPTY(&p->sources) && !p->scanned) {
        add_error(&p->out, "all", "no runner is connected");
    }
    p->scanned = true;
    return page_write(p, 0);
}

/* ---- time ------------------------------------------------------------------------------------ */

static int give_up_slow(struct log_page *p)
{
    struct log_source *s;
    int r = 0;

    LIST_FOREACH(s, &p->sources, entry) {
        if (!s->marked) {
            s->marked = true;
            r = r < 0 ? r : add_error(&p->out, s->address, "it did not answer within 5 s");
        }
    }
    return r;
}

static void page_on_timer(struct env_timer *t)
{
    struct log_page *p = container_of(t, struct log_page, timer);
    int64_t now_ns = env_now_ns(p->node->env);

    env_timer_set(p->node->env, t, now_ns + SCAN_NS);
    if (!p->marked && now_ns >= p->history_until_ns && !p->full) {
        if (!page_write(p, give_up_slow(p))) {
            return;
        }
    }
    if (!(p->follow && p->marked) || page_scan(p)) {
        page_look(p);
    }
}

/* ---- the request ----------------------------------------------------------------------------- */

static void page_refuse(struct log_page *p, int status, const char *text)
{
    struct admin_request *rq = p->rq;

    page_end(p);
    admin_refuse(rq, status, "%s", text);
}

static void page_begin(struct log_page *p)
{
    int64_t now_ns = env_now_ns(p->node->env);

    admin_stream_begin(p->rq, &p->stream);
    p->history_until_ns = now_ns + HISTORY_NS;
    env_timer_set(p->node->env, &p->timer, now_ns + SCAN_NS);
    if (page_scan(p)) {
        page_look(p);
    }
}

static void page_on_name(void *ud, const char *fn_id, const struct fn_error *err)
{
    struct log_page *p = ud;

    p->name = NULL;
    if (!fn_id) {
        page_refuse(p, err_http_status(err), err->msg);
        return;
    }
    snprintf(p->fn_id, sizeof(p->fn_id), "%s", fn_id);
    page_begin(p);
}

/* "follow=1&tail=100" */
static bool take_query(struct log_page *p, const char *query)
{
    unsigned follow, tail;
    int end = 0;

    if (!query || sscanf(query, "follow=%1u&tail=%6u%n", &follow, &tail, &end) != 2 ||
        query[end] || follow > 1 || tail > TAIL_MAX) {
        return false;
    }
    p->follow = follow == 1;
    snprintf(p->tail, sizeof(p->tail), "%u", tail);
    return true;
}

void node_logs(void *ud, struct admin_request *rq)
{
    struct node *n = ud;
    struct log_page *p = arena_alloc(rq->arena, sizeof(*p));
    struct log_name *name;

    if (!p || (!n->lb && !n->runner)) {
        admin_refuse(rq, p ? 404 : 503,
                     p ? "this %s node reads no function's output: ask a load balancer or a runner"
                       : "out of memory",
                     n->config->type->word);
        return;
    }
    *p = (struct log_page){ .stream = { page_on_more, page_on_gone },
                            .node = n,
                            .rq = rq,
                            .timer.cb = page_on_timer,
                            .out = BUF_INIT(0) };
    LIST_INIT(&p->sources);
    LIST_INSERT_HEAD(&n->log_pages, p, entry);
    if (!take_query(p, rq->query)) {
        page_refuse(p, 400, "expected ?follow=0 or 1&tail=0 to 100000");
        return;
    }
    name = log_name_find(n, rq->rest, page_on_name, p);
    if (name) { /* else the page has gone on, or has ended */
        p->name = name;
    }
}

void node_logs_close(struct node *n)
{
    struct log_page *p, *next;

    for (p = LIST_FIRST(&n->log_pages); p; p = next) {
        next = LIST_NEXT(p, entry);
        if (p->name) {
            page_refuse(p, 503, "this node is stopping");
        }
    }
}
