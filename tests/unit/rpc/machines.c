/* The tables of states of the room. */
#include "../lib/machine.h"

#include <rpc/client_int.h>
#include <rpc/exchange.h>

void add_machines(Suite *s);

void add_machines(Suite *s)
{
    suite_add_tcase(s, machine_tests(&peer_states, STATE(PEER_DOWN), STATE(PEER_CLOSED)));
    suite_add_tcase(s, machine_tests(&attempt_states, STATE(ATTEMPT_WAITS), STATE(ATTEMPT_CLOSED)));
    suite_add_tcase(s, machine_tests(&session_states, STATE(SESSION_OFFER), STATE(SESSION_OVER)));
}
