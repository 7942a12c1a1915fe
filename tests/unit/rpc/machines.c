/* The tables of states of the room. */
#include "../lib/machine.h"

#include <rpc/client_int.h>
#include <rpc/local.h>

void add_machines(Suite *s);

void add_machines(Suite *s)
{
    suite_add_tcase(s, machine_tests(&peer_states, STATE(PEER_IDLE), STATE(PEER_CLOSED)));
    suite_add_tcase(s, machine_tests(&local_session_states, STATE(0), STATE(3)));
}
