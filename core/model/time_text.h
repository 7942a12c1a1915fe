/* Times as the call model writes them: "2026-11-21T04:17:24.501Z" (UTC); ns 0 is
 * "0001-01-01T00:00:00.000Z". */
#ifndef MODEL_TIME_TEXT_H
#define MODEL_TIME_TEXT_H

#include <stdint.h>

#define TIME_TEXT_MAX 40

void time_print_ms(int64_t wall_ns, char ret[TIME_TEXT_MAX]);
void time_print_s(int64_t wall_ns, char ret[TIME_TEXT_MAX]);
int time_parse(const char *text, int64_t *ret_wall_ns);

#endif
