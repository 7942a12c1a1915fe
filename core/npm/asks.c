/* The queues of questions to runners: by urgency while they wait, by ticket while they are under
 * way. */
#include <npm/asks.h>

#include <stdlib.h>
#include <string.h>

struct asks_question {
    uint64_t ticket;
    enum asks_urgency urgency;
    struct asks_subject about;
    TAILQ_ENTRY(asks_question) link; /* while it waits, in `queued` too */
    UT_hash_handle hh;               /* in `queued` by subject, or in `under_way` by ticket */
};

static enum asks_urgency urgency_of(const struct npm_host *h)
{
    if (h->silent_ns == 0) {
        return ASK_AT_ONCE;
    }
    return h->state == NPM_BOOTING ? ASK_BOOTING : ASK_SILENT;
}

static struct asks_question *next_question(struct asks *s)
{
    int n = s->n_silent < ASKS_SILENT_MAX ? ASKS_URGENCIES_N : ASK_AT_ONCE + 1;

    for (int i = 0; i < n; i++) {
        struct asks_question *q = TAILQ_FIRST(&s->waiting[i]);

        if (q) {
            TAILQ_REMOVE(&s->waiting[i], q, link);
            HASH_DEL(s->queued, q);
            return q;
        }
    }
    return NULL;
}

/* Takes the question. */
static void unasked(struct asks *s, struct asks_question *q)
{
    npm_unasked(q->about.group, q->about.host, env_now_ns(s->env));
    free(q);
}

void asks_next(struct asks *s)
{
    const struct npm_host *h;
    struct asks_question *q;

    while (!s->stopped && HASH_COUNT(s->under_way) < ASKS_MAX && (q = next_question(s))) {
        h = npm_host_find(q->about.group, q->about.host);
        if (!h || !h->address[0]) {
            free(q); /* it went while its question waited */
            continue;
        }
        HASH_ADD(hh, s->under_way, ticket, sizeof(q->ticket), q);
        if (!table_has(q)) {
            unasked(s, q);
            continue;
        }
        if (s->ask(s->ud, h->address, q->ticket) < 0) {
            HASH_DEL(s->under_way, q);
            unasked(s, q);
            continue;
        }
        s->n_silent += q->urgency != ASK_AT_ONCE;
    }
}

void asks_add(struct asks *s, struct npm_group *group, void *ud, const char *id)
{
    struct asks_subject about = { .group = group, .ud = ud };
    struct asks_question *q;

    memcpy(about.host, id, strlen(id) + 1);
    HASH_FIND(hh, s->queued, &about, sizeof(about), q);
    if (q) {
        return;
    }
    q = calloc(1, sizeof(*q));
    if (!q) {
        npm_unasked(group, id, env_now_ns(s->env));
        return;
    }
    q->ticket = ++s->ticket_last;
    q->about = about;
    q->urgency = urgency_of(npm_host_find(group, id));
    HASH_ADD(hh, s->queued, about, sizeof(about), q);
    if (!table_has(q)) {
        unasked(s, q);
        return;
    }
    TAILQ_INSERT_TAIL(&s->waiting[q->urgency], q, link);
    asks_next(s);
}

bool asks_end(struct asks *s, uint64_t ticket, struct asks_subject *ret)
{
    struct asks_question *q;

    HASH_FIND(hh, s->under_way, &ticket, sizeof(ticket), q);
    if (!q) {
        return false;
    }
    HASH_DEL(s->under_way, q);
    s->n_silent -= q->urgency != ASK_AT_ONCE;
    *ret = q->about;
    free(q);
    return true;
}

void asks_init(struct asks *s, struct env *env,
               int (*ask)(void *ud, const char *address, uint64_t ticket), void *ud)
{
    *s = (struct asks){ .env = env, .ask = ask, .ud = ud };
    for (int i = 0; i < ASKS_URGENCIES_N; i++) {
        TAILQ_INIT(&s->waiting[i]);
    }
}

void asks_stop(struct asks *s)
{
    s->stopped = true;
}

void asks_finish(struct asks *s)
{
    struct asks_question *q, *next;

    HASH_ITER(hh, s->under_way, q, next)
    {
        HASH_DEL(s->under_way, q);
        free(q);
    }
    s->n_silent = 0;
    while ((q = next_question(s))) {
        free(q);
    }
}
