/* Exchange: the legal order of one Engage stream, the same over gRPC (attempt.c, session.c) and
 * inside one process (local.c).
 *
 * The client's half is an attempt, moved by the messages of its runner:
 *
 *   WAITS ──CallResultStart──▶ STARTED ──CallFinished──▶ FINISHED        each ──▶ ENDED ──▶ CLOSED
 *     └───────────────────CallFinished──────────────────────▲            each ──▶ CLOSED
 *
 *   to STARTED, FINISHED   attempt_step(), for each message
 *   to ENDED               attempt_end(), local_tell_end()
 *   to CLOSED              attempt_close()
 *
 *   WAITS      nothing came that counts; unknown messages may have
 *   STARTED    data may come
 *   FINISHED   only the end may come
 *   ENDED      on_end() was called, nothing is called any more
 *   CLOSED     its owner has let it go; freed when none of our own frames is on it
 *
 * The server's half is a session, moved by its owner and its peer:
 *
 *   OFFER ──on_try()──▶ OWNED ──▶ GONE ──▶ OVER          OFFER, OWNED ──▶ OVER
 *
 *   OFFER      TryCall has not come, or on_try() is due
 *   OWNED      its owner may send, and is called
 *   GONE       its peer is lost: what is sent is dropped, on_gone() is due
 *   OVER       nothing is called any more */
#ifndef RPC_EXCHANGE_H
#define RPC_EXCHANGE_H

#include <base/states.h>
#include <rpc/wire.h>

enum attempt_state {
    ATTEMPT_WAITS,
    ATTEMPT_STARTED,
    ATTEMPT_FINISHED,
    ATTEMPT_ENDED,
    ATTEMPT_CLOSED,
    ATTEMPT_STATES_N
};
extern const struct states attempt_states;
void attempt_enter(enum attempt_state *state, enum attempt_state to);
/* A message of the runner: NULL, or why it may not come now. */
const char *attempt_step(enum attempt_state *state, enum wire_kind kind);

enum session_state { SESSION_OFFER, SESSION_OWNED, SESSION_GONE, SESSION_OVER, SESSION_STATES_N };
extern const struct states session_states;
void session_enter(enum session_state *state, enum session_state to);
/* Whether the owner may use it, who is told when it is gone. */
static inline bool session_has_owner(enum session_state state)
{
    return state == SESSION_OWNED || state == SESSION_GONE;
}

#endif
