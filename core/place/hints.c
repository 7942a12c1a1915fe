/* Hints: what runners said when they refused calls, and for how long it is believed.
 *
 * A hint covers what its reason is about: the runner (it drains), functions that need more memory
 * than it had, or the function alone. While it lasts, calls that it covers pass the runner over, as
 * if it had refused them; if all others refuse too, the one whose hint ends first is asked
 * (place.c). A call of the function that ends there lifts what it disproves. Nobody but the runner
 * itself can put it aside, and not for longer than HINT_MAX_NS. */
#include <place/place_int.h>

#include <base/hash.h>
#include <stdlib.h>

#define HINT_MAX_NS   (5 * ENV_S)
#define HINT_FNS      4u /* functions of a runner, the newest hints */
#define MIB           (UINT64_C(1) << 20)

struct hints {
    int64_t drain_until_ns;
    int64_t room_until_ns;
    uint64_t room_mem_mb; /* what it had: functions that need more are covered */
    struct {
        uint64_t fn; /* hash of its id */
        int64_t until_ns;
    } fns[HINT_FNS];
    uint32_t next; /* of fns, the oldest */
};

static uint64_t fn_of(const struct place_call *pc)
{
    return hash_text(HASH_INIT, pc->view.fn_id ? pc->view.fn_id : "");
}

static void hints_add_fn(struct hints *h, uint64_t fn, int64_t until_ns)
{
    uint32_t at = 0;

    while (at < HINT_FNS && h->fns[at].fn != fn) {
        at++;
    }
    if (at == HINT_FNS) {
        at = h->next;
        h->next = (h->next + 1) % HINT_FNS;
    }
    h->fns[at].fn = fn;
    h->fns[at].until_ns = until_ns;
}

int64_t hints_take(struct place_runner *r, const struct place_call *pc,
                   const struct engage_refusal *told)
{
    int64_t ns = told->retry_ns < HINT_MAX_NS ? told->retry_ns : HINT_MAX_NS;
    int64_t until_ns = env_now_ns(r->group->place->deps.env) + ns;
    uint64_t free_mb = told->free_mem_bytes / MIB;

    if (ns <= 0) {
        return 0;
    }
    r->hints = r->hints ? r->hints : calloc(1, sizeof(*r->hints));
    if (!r->hints) {
        return 0; /* it is asked, and refuses */
    }
    if (told->reason == ENGAGE_REASON_DRAINING) {
        r->hints->drain_until_ns = until_ns;
    } else if (told->reason == ENGAGE_REASON_ROOM && pc->view.mem_mb > free_mb) {
        r->hints->room_until_ns = until_ns;
        r->hints->room_mem_mb = free_mb;
    } else {
        hints_add_fn(r->hints, fn_of(pc), until_ns);
    }
    return until_ns;
}

int64_t hints_until_ns(const struct place_runner *r, const struct place_call *pc)
{
    const struct hints *h = r->hints;
    int64_t until_ns, now_ns;
    uint64_t fn;

    if (!h) {
        return 0;
    }
    now_ns = env_now_ns(r->group->place->deps.env);
    until_ns = h->drain_until_ns;
    if (pc->view.mem_mb > h->room_mem_mb && h->room_until_ns > until_ns) {
        until_ns = h->room_until_ns;
    }
    fn = fn_of(pc);
    for (uint32_t i = 0; i < HINT_FNS; i++) {
        if (h->fns[i].fn == fn && h->fns[i].until_ns > until_ns) {
            until_ns = h->fns[i].until_ns;
        }
    }
    return until_ns > now_ns ? until_ns : 0;
}

void hints_ended(struct place_runner *r, const struct place_call *pc)
{
    struct hints *h = r->hints;
    uint64_t fn;

    if (!h) {
        return;
    }
    fn = fn_of(pc);
    h->room_until_ns = 0; /* its container is idle, and can make room */
    for (uint32_t i = 0; i < HINT_FNS; i++) {
        if (h->fns[i].fn == fn) {
            h->fns[i].until_ns = 0;
        }
    }
}

void hints_forget(struct place_runner *r)
{
    free(r->hints);
    r->hints = NULL;
}
