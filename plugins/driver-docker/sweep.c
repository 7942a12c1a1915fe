/* What dead runners left on this engine: containers of this owner and another process, unless it
 * holds its lock, and those of any owner whose lock nobody holds.
 *
 * The list is read on the stream thread, piece by piece; the worker waits for its end, and then
 * removes what was found dead. */
#include "docker.h"
#include "engine_json.h"
#include "fail.h"

#include <stdlib.h>

#define WAIT_STEP_NS (10 * MS)

struct sweep {
    struct docker *d;
    const char *owner, *instance;
    struct api_list list;
    char (*ids)[API_ID_MAX + 1]; /* of the dead */
    uint32_t n;
    uint32_t ours;   /* of this owner, also the dead */
    uint32_t others; /* of other runners that live */
    uint32_t status;
    struct fn_error err;
    int r;     /* of the transfer */
    bool ended; /* under the lock */
};

static int note_dead(void *ud, const struct api_listed *l)
{
    struct sweep *s = ud;
    bool ours = strcmp(l->owner, s->owner) == 0;
    bool dead = strcmp(l->instance, s->instance) != 0 &&
                (ours ? !lock_is_held(l->lock) : lock_is_dead(l->lock));

    s->ours += ours;
    s->others += !ours && !dead;
    if (dead && s->n < SWEPT_MAX) {
        memcpy(s->ids[s->n++], l->id, strlen(l->id) + 1);
    }
    return 0;
}

static void list_data(void *ud, uint32_t status, const void *data, size_t len)
{
    struct sweep *s = ud;

    if (status == 200) {
        api_list_feed(&s->list, data, len);
    }
}

static void list_end(void *ud, uint32_t status, const struct fn_error *err)
{
    struct sweep *s = ud;

    s->status = status;
    if (err) {
        s->err = *err;
        s->r = err->code;
    }
    pthread_mutex_lock(&s->d->lock);
    s->ended = true;
    pthread_mutex_unlock(&s->d->lock);
}

static bool has_ended(struct sweep *s)
{
    bool ended;

    pthread_mutex_lock(&s->d->lock);
    ended = s->ended;
    pthread_mutex_unlock(&s->d->lock);
    return ended;
}

static int list_all(struct sweep *s, struct fn_op *op, struct fn_error *reterr)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), list_data,
                                                 list_end };
    static const char path[] = "/containers/json?all=1&filters="
                               "%7B%22label%22%3A%5B%22" API_OWNER_LABEL "%22%5D%7D";
    struct docker *d = s->d;
    int64_t until_ns = engine_now_ns(d) + QUESTION_MAX_NS;
    uint64_t id;
    int r = engine_stream(d, "GET", path, INSPECT_TIMEOUT_MS, &cb, s, &id, reterr);

    if (r < 0) {
        return r;
    }
    while (r == 0 && !has_ended(s)) {
        r = d->op->sleep_until(op, engine_now_ns(d) + WAIT_STEP_NS);
        r = r == 0 && engine_now_ns(d) > until_ns ? FN_E_DEADLINE : r;
    }
    d->http->stream_close(d->host, id);
    if (r < 0 && !s->ended) {
        return fail_platform(reterr, r, "list: the engine did not end its answer in time");
    }
    if (s->r < 0) {
        if (reterr) {
            *reterr = s->err;
        }
        return s->r;
    }
    return s->status == 200 ? api_list_end(&s->list, reterr)
                            : api_failure("list", s->status, "", 0, reterr);
}

/* Goes on after a removal that failed, and says so at the end. */
static int remove_dead(struct sweep *s, struct fn_op *op, uint32_t *ret_removed,
                       struct fn_error *reterr)
{
    struct fn_error err = { .size = sizeof(err) };
    uint32_t removed = 0;
    int r = 0;

    for (uint32_t i = 0; i < s->n && !s->d->op->cancelled(op); i++) {
        freezer_write(s->d, s->ids[i], false);
        if (engine_remove(s->d, op, s->ids[i], NULL, &err) == 0) {
            removed++;
        } else if (r == 0) {
            r = err.code;
            if (reterr) {
                *reterr = err;
            }
        }
    }
    *ret_removed = removed;
    return r;
}

/* Those that the engine counted a moment ago, before the list, but for ours. An operator who shares
 * it should know: its other users may remove containers of functions, and compete with them. */
static void tell_others(struct sweep *s, int64_t all, uint32_t ours)
{
    int64_t others = all - (ours > s->ours ? ours : s->ours);

    if (all >= 0 && others > 0) {
        engine_log(s->d, FN_LOG_INFO,
                   "container engine: %lld of its containers are of others, %u of them of other "
                   "runners",
                   (long long)others, s->others);
    }
}

static void count_others(struct sweep *s)
{
    struct docker *d = s->d;
    int64_t before;

    pthread_mutex_lock(&d->lock);
    before = d->others;
    d->others = s->others;
    pthread_mutex_unlock(&d->lock);
    d->host->metric->add(d->host, d->others_metric, (int64_t)s->others - before);
}

int ctr_sweep(struct docker *d, struct fn_op *op, const char *owner, const char *instance,
              uint32_t *ret_removed, struct fn_error *reterr)
{
    struct sweep *s = calloc(1, sizeof(*s));
    uint32_t ours = 0;
    int64_t all;
    int r = FN_E_EXHAUSTED;

    all = engine_count_once(d, op, &ours);
    ctr_know_owner(d, owner, instance);
    events_expire(d);
    if (s) {
        s->ids = calloc(SWEPT_MAX, sizeof(*s->ids));
    }
    if (!s || !s->ids) {
        fail_platform(reterr, r, "sweep: out of memory");
    } else {
        s->d = d;
        s->owner = owner;
        s->instance = instance;
        s->list.each = note_dead;
        s->list.ud = s;
        r = list_all(s, op, reterr);
    }
    r = r < 0 ? r : remove_dead(s, op, ret_removed, reterr);
    if (r == 0) {
        count_others(s);
        tell_others(s, all, ours);
        engine_learn(d, op);
        load_file_at_start(&d->load_file, d->host, d->op, op);
    }
    if (s) {
        free(s->ids);
    }
    free(s);
    return r;
}
