/* What a call writes into its entry of the ring, and into its trace. */
#include <lb/lb_int.h>

#include <string.h>

void note_placing(struct lb_call *c)
{
    traced_placing(c);
    if (c->why) {
        c->why->placing_ns = env_now_ns(c->lb->deps.env);
        c->why->detached = c->route.detached; /* as the overriders left it */
        trace_copy(c->why->fn_id, sizeof(c->why->fn_id), c->fn->model.fn_id);
    }
}

/* Why a runner refused: its reason where it tells one (`details`), else its text. Texts of failures
 * beyond that may be the function's own and stay out. */
static const char *words_of(const struct lb_call *c, enum seen seen, const char *text)
{
    switch (seen) {
    case SEEN_NACK:
    case SEEN_NACK_LATE:
    case SEEN_RUNNER_REFUSAL:
    case SEEN_ID_KNOWN:
        return c->finished.details ? c->finished.details
               : c->has_finished   ? c->finished.error_text
                                   : text;
    case SEEN_NOT_SENT:
    case SEEN_FULL:
    case SEEN_REFUSED:
    case SEEN_MALFORMED:
    case SEEN_ABORTED:
    case SEEN_BROKEN:
        return text;
    default:
        return NULL;
    }
}

void note_attempt(struct lb_call *c, enum seen seen, int grpc_status, const char *text)
{
    bool told = c->has_finished && !c->finished.success;
    const char *words = words_of(c, seen, text);

    traced_attempt(c, seen, grpc_status, words);
    if (c->place.trace) {
        trace_end(c->place.trace, env_now_ns(c->lb->deps.env), TRACE_HOW_OWN + seen,
                  told ? c->finished.error_code : grpc_status, words);
    }
}

void note_first_byte(struct lb_call *c)
{
    if (c->why) {
        c->why->first_byte_ns = env_now_ns(c->lb->deps.env);
    }
}

/* Before a function is found, its id is a stranger's text. */
static void tally_end(const struct lb_call *c, enum outcome outcome)
{
    const struct engage_finished *f = &c->finished;
    int64_t now_ns = env_now_ns(c->lb->deps.env);
    const struct tally_end end = {
        .id = c->fn ? c->fn->model.fn_id : NULL,
        .name = c->fn ? c->fn->label : NULL,
        .took_ns = now_ns - c->created_ns,
        .good = outcome == OUTCOME_OK,
        .cold = f->ctr_create_ns > 0 || f->init_start_ns > 0,
    };

    tally_count(c->lb->tally, &end, now_ns);
}

void note_end(struct lb_call *c, enum outcome outcome, int status, const struct fn_error *e)
{
    struct why_entry *w = c->why;

    tally_end(c, outcome);
    traced_end(c, outcome, status, e);
    c->why = NULL;
    c->place.trace = NULL;
    if (!w) {
        return;
    }
    w->outcome = (uint8_t)outcome;
    w->status = status;
    w->ended_ns = env_now_ns(c->lb->deps.env);
    w->scheduler_ns = c->finished.scheduler_ns;
    w->execution_ns = c->finished.execution_ns;
    w->start_ns[WHY_PULL] = c->finished.image_pull_wait_ns;
    w->start_ns[WHY_PREPARE] = c->finished.ctr_prep_ns;
    w->start_ns[WHY_CREATE] = c->finished.ctr_create_ns;
    w->start_ns[WHY_INIT] = c->finished.init_start_ns;
    if (!w->fn_id[0]) {
        trace_copy(w->fn_id, sizeof(w->fn_id), c->fn ? c->fn->model.fn_id : c->route.fn_id);
    }
    if (e && !(c->has_finished && c->finished.error_user)) {
        trace_copy(w->error, sizeof(w->error), e->msg);
    }
    why_end(c->lb->why, w);
}
