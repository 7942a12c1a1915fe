/* The two tables of what follows what, and the functions that move an exchange through them. */
#include <rpc/exchange.h>

#define ENDS (STATE(ATTEMPT_ENDED) | STATE(ATTEMPT_CLOSED))

static const uint32_t attempt_follows[ATTEMPT_STATES_N] = {
    [ATTEMPT_WAITS] = STATE(ATTEMPT_STARTED) | STATE(ATTEMPT_FINISHED) | ENDS,
    [ATTEMPT_STARTED] = STATE(ATTEMPT_FINISHED) | ENDS,
    [ATTEMPT_FINISHED] = ENDS,
    [ATTEMPT_ENDED] = STATE(ATTEMPT_CLOSED),
    [ATTEMPT_CLOSED] = 0,
};
static const char *const attempt_names[ATTEMPT_STATES_N] = { "waits", "started", "finished",
                                                             "ended", "closed" };
const struct states attempt_states = { "attempt", attempt_names, attempt_follows,
                                       ATTEMPT_STATES_N };

static const uint32_t session_follows[SESSION_STATES_N] = {
    [SESSION_OFFER] = STATE(SESSION_OWNED) | STATE(SESSION_OVER),
    [SESSION_OWNED] = STATE(SESSION_GONE) | STATE(SESSION_OVER),
    [SESSION_GONE] = STATE(SESSION_OVER),
    [SESSION_OVER] = 0,
};
static const char *const session_names[SESSION_STATES_N] = { "offer", "owned", "gone", "over" };
const struct states session_states = { "session", session_names, session_follows,
                                       SESSION_STATES_N };

void attempt_enter(enum attempt_state *state, enum attempt_state to)
{
    *state = (enum attempt_state)states_next(&attempt_states, *state, to);
}

void session_enter(enum session_state *state, enum session_state to)
{
    *state = (enum session_state)states_next(&session_states, *state, to);
}

const char *attempt_step(enum attempt_state *state, enum wire_kind kind)
{
    if (*state >= ATTEMPT_FINISHED) {
        return "a message came after CallFinished";
    }
    switch (kind) {
    case WIRE_START:
        if (*state == ATTEMPT_STARTED) {
            return "a second CallResultStart came";
        }
        attempt_enter(state, ATTEMPT_STARTED);
        return NULL;
    case WIRE_DATA:
        return *state == ATTEMPT_STARTED ? NULL : "data came before CallResultStart";
    case WIRE_FINISHED:
        attempt_enter(state, ATTEMPT_FINISHED);
        return NULL;
    default:
        return NULL;
    }
}
