/* Links: the runners of a group across snapshots, and when their links are opened.
 *
 * Opening a link costs some microseconds, its dial and its handshakes many more; with TLS a list of
 * ten thousand new runners would hold the loop, and every call with it, for seconds. So only
 * OPEN_PORTION links are opened within OPEN_PAUSE_NS, the first of them at once, the others in the
 * order of the lists. A runner whose link is not open yet is one that cannot be reached. */
#include <place/place_int.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_PORTION  4u
#define OPEN_PAUSE_NS (2 * ENV_MS)

bool runner_is_up(const struct place_runner *r)
{
    return r->link && r->group->place->deps.client->link_is_up(r->link);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* When most fail, what they are asked is more likely the cause than they are; and calls of
 * functions that have containers still run there. */
bool runner_is_failing(const struct place_runner *r)
{
    return r->failing && r->group->failing_n * 2 <= r->group->up_n;
}

static void count_failing(struct place_runner *r, int n)
{
    if (r->failing) {
        r->group->failing_n += (uint32_t)n;
        metric_add(r->failing, n);
    }
}

static void count_up(struct place_runner *r, int n)
{
    metric_add(r->group->place->metrics.runners_up, n);
    r->group->up_n += (uint32_t)n;
    count_failing(r, n);
}

static void on_link_state(void *ud, bool up)
{
    struct place_runner *r = ud;

    count_up(r, up ? 1 : -1);
    hints_forget(r); /* it may be another process */
    if (up) {
        group_wake(r->group, 64, FN_WAKE_POOL);
    }
}

static struct metric *failing_metric(int32_t code)
{
    static const char *const labels[] = { "code", NULL };
    static const struct metric_def def = {
        .name = "fn_lb_runners_failing",
        .help = "Connected runners whose status fails, by the code that it tells.",
        .kind = METRIC_GAUGE,
        .labels = labels,
    };
    char text[16];
    const char *const values[] = { text };

    snprintf(text, sizeof(text), "%d", code >= 400 && code <= 599 ? code : 0);
    return metric_series(metric_declare(&def), values);
}

static void on_link_health(void *ud, const struct engage_health *h)
{
    struct place_runner *r = ud;
    bool up = runner_is_up(r);

    count_failing(r, up ? -1 : 0);
    r->failing = h->failing ? failing_metric(h->code) : NULL;
    count_failing(r, up ? 1 : 0);
    if (!h->failing) {
        group_wake(r->group, 64, FN_WAKE_POOL);
    }
}

static const char *link_labels(void *ud)
{
    return runner_labels(ud);
}

static bool open_link(struct place_runner *r)
{
    static const struct engage_link_cb cb = { on_link_state, on_link_health, link_labels };
    struct engage_client *client = r->group->place->deps.client;

    r->link = client->link_open(client, runner_address(r), r->tls_name, &cb, r);
    if (!r->link) {
        return false;
    }
    TAILQ_REMOVE(&r->group->place->unopened, r, link_unopened);
    return true;
}

/* Without memory the rest is tried again in the next portion. */
static void open_portion(struct place *p)
{
    int64_t now_ns = env_now_ns(p->deps.env);
    struct place_runner *r;

    if (now_ns - p->opened_ns >= OPEN_PAUSE_NS) {
        p->opened_n = 0;
    }
    while (p->opened_n < OPEN_PORTION && (r = TAILQ_FIRST(&p->unopened))) {
        p->opened_ns = now_ns;
        if (!open_link(r)) {
            break;
        }
        p->opened_n++;
    }
    if (!TAILQ_EMPTY(&p->unopened)) {
        env_timer_set(p->deps.env, &p->open_timer, p->opened_ns + OPEN_PAUSE_NS);
    }
}

static void on_open_timer(struct env_timer *t)
{
    open_portion(container_of(t, struct place, open_timer));
}

void links_init(struct place *p)
{
    TAILQ_INIT(&p->unopened);
    p->open_timer.cb = on_open_timer;
}

void links_open(struct place *p)
{
    if (!TAILQ_EMPTY(&p->unopened)) {
        open_portion(p);
    }
}

void links_finish(struct place *p)
{
    env_timer_clear(p->deps.env, &p->open_timer);
}

/* ---- runners --------------------------------------------------------------------------------- */

static struct place_runner *runner_create(struct place_group *g, const struct fn_runner *e,
                                          const char *key, size_t key_len)
{
    size_t tls_len = e->tls_name ? strlen(e->tls_name) + 1 : 0;
    struct place_runner *r = calloc(1, sizeof(*r) + key_len + tls_len);

    if (!r) {
        return NULL;
    }
    memcpy(r->key, key, key_len);
    if (e->tls_name) {
        r->tls_name = memcpy(r->key + key_len, e->tls_name, tls_len);
    }
    r->group = g;
    r->since_ns = env_now_ns(g->place->deps.env);
    r->refs = 1;
    HASH_ADD_KEYPTR(hh, g->runners, r->key, key_len, r);
    if (!table_has(r)) {
        free(r);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&g->place->unopened, r, link_unopened);
    return r;
}

bool place_each_runner(struct place *p,
                       bool (*seen)(void *ud, struct engage_link *link, const char *address),
                       void *ud)
{
    struct place_group *g, *next_group;
    struct place_runner *r, *next;

    HASH_ITER(hh, p->groups, g, next_group) {
        HASH_ITER(hh, g->runners, r, next) {
            if (r->link && !seen(ud, r->link, runner_address(r))) {
                return false;
            }
        }
    }
    return true;
}

static bool is_runner_of(const struct place_runner *r, const struct fn_runner *e)
{
    return memcmp(r->key, &e->id, sizeof(e->id)) == 0 && strcmp(runner_address(r), e->address) == 0;
}

struct place_runner *runner_get(struct place_group *g, struct place_runner *guess,
                                const struct fn_runner *e)
{
    char key[sizeof(e->id) + RUNNER_WORD_MAX + 1];
    size_t address_len = strlen(e->address);
    size_t key_len = sizeof(e->id) + address_len + 1;
    struct place_runner *r;

    if (guess && is_runner_of(guess, e)) {
        guess->refs++;
        return guess;
    }
    if (address_len > RUNNER_WORD_MAX) {
        return NULL;
    }
    memcpy(key, &e->id, sizeof(e->id));
    memcpy(key + sizeof(e->id), e->address, address_len + 1);
    HASH_FIND(hh, g->runners, key, key_len, r);
    if (!r) {
        return runner_create(g, e, key, key_len);
    }
    r->refs++;
    return r;
}

bool runner_unref(struct place_runner *r)
{
    struct place *p = r->group->place;
    bool closes = false;

    if (--r->refs > 0) {
        return false;
    }
    if (runner_is_up(r)) {
        count_up(r, -1);
    }
    if (r->link) {
        p->deps.client->link_close(r->link);
        closes = true;
    } else {
        TAILQ_REMOVE(&p->unopened, r, link_unopened);
    }
    HASH_DEL(r->group->runners, r);
    hints_forget(r);
    free(r);
    return closes;
}
