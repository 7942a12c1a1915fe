/* A manager's beliefs under watch: who is given up has not answered for as long as that takes, and
 * what a runner said counts for no later moment than the one it was said at, so that an answer of a
 * process that died is none of the next one. */
#include "npm_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct npm_watch_question {
    LIST_ENTRY(npm_watch_question) link;
    uint64_t ticket;
    uint32_t runner;
    char id[NPM_WATCH_ID_BYTES];
};

static uint32_t runner_at(const char *address)
{
    unsigned runner = RUNNERS_MAX;

    if (sscanf(address, "10.0.1.%u", &runner) != 1 || runner >= RUNNERS_MAX) {
        abort();
    }
    return runner;
}

void npm_watch_asked(struct npm_watch *n, const struct npm_group *g, const char *address,
                     uint64_t ticket)
{
    struct npm_watch_question *q = sim_alloc(sizeof(*q));

    q->ticket = ticket;
    q->runner = runner_at(address);
    for (uint32_t i = 0; i < npm_host_count(g); i++) {
        if (strcmp(npm_host_at(g, i)->address, address) == 0) {
            snprintf(q->id, sizeof(q->id), "%.15s", npm_host_at(g, i)->id);
        }
    }
    LIST_INSERT_HEAD(&n->questions, q, link);
}

void npm_watch_told(struct npm_watch *n, uint64_t ticket, const struct npm_event *answer)
{
    const struct world *w = n->npm->w;
    bool answered = answer->kind == NPM_REPORTED;
    struct npm_watch_question *q;

    LIST_FOREACH(q, &n->questions, link) {
        if (q->ticket == ticket) {
            break;
        }
    }
    if (!q) {
        books_break(w->books, BOOKS_SAID, 0, "an answer to no question");
        return;
    }
    if (answered || w->slow_ns[q->runner] == w->now_ns) {
        struct npm_watch_heard *h = &n->heard[q->runner];
        bool counts = answered && !answer->mute;

        h->counts_ns = counts ? w->now_ns : strcmp(h->id, q->id) ? 0 : h->counts_ns;
        h->at_ns = w->now_ns;
        memcpy(h->id, q->id, sizeof(h->id));
    }
    LIST_REMOVE(q, link);
    free(q);
}

/* The last answer that must have kept it, if it is given up for its silence alone; else 0. Who is
 * not known to have come up has to say how many calls it runs. */
static int64_t kept_ns(const struct npm_host *h, const struct npm_watch_heard *heard)
{
    if (strcmp(heard->id, h->id) != 0) {
        return 0;
    }
    if (h->state == NPM_DRAINING && h->reason == NPM_REASON_SILENT) {
        return heard->at_ns;
    }
    return h->state == NPM_REMOVING && h->ready_ns == 0 && h->wish == NPM_WISH_NONE
               ? heard->counts_ns
               : 0;
}

static void look_at(const struct npm_watch *n, const struct npm_host *h)
{
    struct books *b = n->npm->w->books;
    uint32_t runner = runner_at(h->address);
    int64_t heard_ns = kept_ns(h, &n->heard[runner]);

    if (heard_ns > 0 && heard_ns < h->since_ns && h->since_ns - heard_ns < NPM_WATCH_SILENT_NS) {
        books_break(b, BOOKS_GIVEN_UP, 0, "runner%u, %s, is given up %lld ms behind its answer",
                    runner, h->id, (long long)((h->since_ns - heard_ns) / ENV_MS));
    }
    if (h->told_ns > n->npm->w->said_ns[runner]) {
        books_break(b, BOOKS_SAID, 0, "%s believes that runner%u, %s, said %lld ms later what it "
                    "said", n->npm->name, runner, h->id,
                    (long long)((h->told_ns - n->npm->w->said_ns[runner]) / ENV_MS));
    }
}

void npm_watch_look(const struct npm_watch *n, const struct npm_group *g)
{
    for (uint32_t i = 0; i < npm_host_count(g); i++) {
        if (npm_host_at(g, i)->address[0]) {
            look_at(n, npm_host_at(g, i));
        }
    }
}

void npm_watch_init(struct npm_watch *n, struct node *npm)
{
    *n = (struct npm_watch){ .npm = npm };
    LIST_INIT(&n->questions);
}

void npm_watch_finish(struct npm_watch *n)
{
    struct npm_watch_question *q;

    while ((q = LIST_FIRST(&n->questions))) {
        LIST_REMOVE(q, link);
        free(q);
    }
}
