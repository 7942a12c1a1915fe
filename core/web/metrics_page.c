/* `waiting` readers have asked since the last page was begun. When one is begun they become its
 * readers, and the worker alone has its texts until done(). */
#include <web/metrics_page.h>

#include <base/buf.h>
#include <stdlib.h>

#define PIECE_BYTES (32 * 1024)

TAILQ_HEAD(readers, metrics_reader);

struct metrics_page {
    struct metrics_pages *all;
    struct readers readers;
    struct buf texts[METRIC_FORMATS_N];
    bool wanted[METRIC_FORMATS_N];
    int result;
    bool is_made; /* stands among the pages; goes with its last reader */
    TAILQ_ENTRY(metrics_page) link;
};

struct metrics_pages {
    struct env *env;
    struct readers waiting;
    TAILQ_HEAD(, metrics_page) pages; /* that are read, the oldest first */
    uint32_t n_pages;
    struct metrics_page *making; /* NULL = none */
    struct env_work work;
    struct env_timer pause;
    int64_t begun_ns; /* the last one */
    struct env_timer sweep; /* nobody has asked for so long */
    struct metrics_reader sweeper;
};

static void page_begin(struct metrics_pages *all);

static void page_free(struct metrics_page *p)
{
    for (int i = 0; i < METRIC_FORMATS_N; i++) {
        buf_finish(&p->texts[i]);
    }
    free(p);
}

/* The list may go with the last of them. */
static void dismiss(struct readers *readers, enum metrics_word word)
{
    struct metrics_reader *next;

    for (struct metrics_reader *r = TAILQ_FIRST(readers); r; r = next) {
        next = TAILQ_NEXT(r, link);
        metrics_leave(r);
        r->tell(r, word);
    }
}

static void hand_out(struct metrics_page *p)
{
    struct metrics_reader *next;

    p->is_made = true;
    TAILQ_INSERT_TAIL(&p->all->pages, p, link);
    p->all->n_pages++;
    for (struct metrics_reader *r = TAILQ_FIRST(&p->readers); r; r = next) {
        next = TAILQ_NEXT(r, link);
        r->tell(r, METRICS_READY);
    }
}

static void make_page(struct env_work *w, struct fn_op *op)
{
    struct metrics_page *p = container_of(w, struct metrics_pages, work)->making;
    struct buf *wanted[METRIC_FORMATS_N];

    (void)op;
    for (int i = 0; i < METRIC_FORMATS_N; i++) {
        wanted[i] = p->wanted[i] ? &p->texts[i] : NULL;
    }
    p->result = metric_print_formats(wanted);
}

static void page_made(struct env_work *w)
{
    struct metrics_pages *all = container_of(w, struct metrics_pages, work);
    struct metrics_page *p = all->making;

    all->making = NULL;
    if (p->result < 0) {
        dismiss(&p->readers, METRICS_FAILED);
    }
    if (TAILQ_EMPTY(&p->readers)) {
        page_free(p);
    } else {
        hand_out(p);
    }
    page_begin(all);
}

static bool page_submit(struct metrics_pages *all)
{
    struct metrics_page *p = calloc(1, sizeof(*p));
    const struct metrics_reader *r;

    if (!p) {
        return false;
    }
    p->all = all;
    for (int i = 0; i < METRIC_FORMATS_N; i++) {
        buf_init(&p->texts[i], 0);
    }
    TAILQ_FOREACH(r, &all->waiting, link)
    {
        p->wanted[r->format] = true;
    }
    TAILQ_INIT(&p->readers);
    all->making = p;
    all->work = (struct env_work){ .run = make_page, .done = page_made, .lane = ENV_LANE_FAST };
    metric_moment();
    if (env_submit(all->env, &all->work) < 0) {
        metric_moment_undo();
        all->making = NULL;
        page_free(p);
        return false;
    }
    return true;
}

/* For those who wait, if nothing speaks against it now. */
static void page_begin(struct metrics_pages *all)
{
    int64_t now_ns = env_now_ns(all->env);
    struct metrics_reader *r;

    if (all->making || TAILQ_EMPTY(&all->waiting) || env_timer_is_set(&all->pause)) {
        return;
    }
    if (all->begun_ns != 0 && now_ns < all->begun_ns + METRICS_PAUSE_NS) {
        env_timer_set(all->env, &all->pause, all->begun_ns + METRICS_PAUSE_NS);
        return;
    }
    if (all->n_pages >= METRICS_PAGES_MAX) {
        dismiss(&TAILQ_FIRST(&all->pages)->readers, METRICS_CUT);
    }
    if (!page_submit(all)) {
        dismiss(&all->waiting, METRICS_FAILED);
        return;
    }
    all->begun_ns = now_ns;
    env_timer_set(all->env, &all->sweep, now_ns + METRICS_SWEEP_NS);
    TAILQ_CONCAT(&all->making->readers, &all->waiting, link);
    TAILQ_FOREACH(r, &all->making->readers, link)
    {
        r->page = all->making;
    }
}

static void on_pause_over(struct env_timer *t)
{
    page_begin(container_of(t, struct metrics_pages, pause));
}

static void on_sweep(struct env_timer *t)
{
    struct metrics_pages *all = container_of(t, struct metrics_pages, sweep);

    env_timer_set(all->env, t, env_now_ns(all->env) + METRICS_SWEEP_NS);
    if (!all->sweeper.pages) {
        metrics_read(all, &all->sweeper);
    }
}

static void on_swept(struct metrics_reader *r, enum metrics_word word)
{
    (void)word;
    metrics_leave(r);
}

/* ---- readers --------------------------------------------------------------------------------- */

void metrics_read(struct metrics_pages *all, struct metrics_reader *r)
{
    r->pages = all;
    r->page = NULL;
    r->at = 0;
    TAILQ_INSERT_TAIL(&all->waiting, r, link);
    page_begin(all);
}

size_t metrics_size(const struct metrics_reader *r)
{
    return r->page->texts[r->format].len;
}

size_t metrics_piece(struct metrics_reader *r, const void **ret_data)
{
    const struct buf *text = &r->page->texts[r->format];
    size_t left = text->len - r->at;
    size_t n = left < PIECE_BYTES ? left : PIECE_BYTES;

    *ret_data = text->data + r->at;
    r->at += n;
    return n;
}

void metrics_leave(struct metrics_reader *r)
{
    struct metrics_pages *all = r->pages;
    struct metrics_page *p = r->page;

    if (!all) {
        return;
    }
    TAILQ_REMOVE(p ? &p->readers : &all->waiting, r, link);
    r->pages = NULL;
    r->page = NULL;
    if (p && p->is_made && TAILQ_EMPTY(&p->readers)) {
        TAILQ_REMOVE(&all->pages, p, link);
        all->n_pages--;
        page_free(p);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct metrics_pages *metrics_pages_create(struct env *env)
{
    struct metrics_pages *all = calloc(1, sizeof(*all));

    if (all) {
        all->env = env;
        all->pause.cb = on_pause_over;
        all->sweep.cb = on_sweep;
        all->sweeper.tell = on_swept;
        env_timer_set(env, &all->sweep, env_now_ns(env) + METRICS_SWEEP_NS);
        TAILQ_INIT(&all->waiting);
        TAILQ_INIT(&all->pages);
    }
    return all;
}

void metrics_pages_destroy(struct metrics_pages *all)
{
    struct metrics_page *p;

    if (!all) {
        return;
    }
    env_timer_clear(all->env, &all->pause);
    env_timer_clear(all->env, &all->sweep);
    while ((p = TAILQ_FIRST(&all->pages))) {
        TAILQ_REMOVE(&all->pages, p, link);
        page_free(p);
    }
    if (all->making) {
        page_free(all->making);
    }
    free(all);
}
