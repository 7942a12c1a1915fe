/* What the tests of the predicate over create requests share. */
#ifndef TEST_DRIVER_RULES_H
#define TEST_DRIVER_RULES_H

#include "create_rules.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define N(list)   (sizeof(list) / sizeof((list)[0]))
#define LIST(...)                                                                                  \
    {                                                                                              \
        .items = (const char *const[]){ __VA_ARGS__ }, .n = N(((const char *[]){ __VA_ARGS__ }))   \
    }

extern struct fn_error rules_err;
extern const char rules_socket[]; /* of the engine */

/* Everything that an operator can allow, within reason; and nothing. */
extern const struct create_rules rules_open, rules_closed;

struct fn_task rules_task(void);
/* The request, or NULL and what was said in rules_err. */
char *rules_make(const struct fn_task *t, const struct fn_task *own, const struct create_rules *r);
json_t *rules_host_of(const char *text, json_t **ret_body);

/* Fails the test when the request has anything that the rules do not allow to a task which the node
 * made as `own`, and its wrappers as `t`. */
void rules_check_body(const char *text, const struct fn_task *t, const struct fn_task *own,
                      const struct create_rules *r);
void rules_random(TCase *t);

#endif
