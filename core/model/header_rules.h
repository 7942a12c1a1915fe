/* Rules for HTTP headers that load balancer and runner share. */
#ifndef MODEL_HEADER_RULES_H
#define MODEL_HEADER_RULES_H

#include <stdbool.h>

bool header_is_hop_by_hop(const char *name, const char *value); /* Te: trailers is not */
bool header_is_framing(const char *name);  /* Content-Length, Transfer-Encoding, Connection ... */
bool header_is_reserved(const char *name); /* Fn-Call-Id, Fn-Deadline, Fn-Intent, Fn-Http-* */
bool header_name_is_token(const char *name);
bool header_value_is_clean(const char *value); /* no CTL but TAB; valid UTF-8 */

#endif
