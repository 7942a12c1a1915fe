/* A place with one placer and one pool of the test, in virtual time; made anew for each test. */
#ifndef TESTS_PLACE_WORLD_H
#define TESTS_PLACE_WORLD_H

#include "../lib/fake_engage.h"
#include "../lib/fake_env.h"
#include "../lib/fake_plugin.h"

#include <check.h>
#include <place/place.h>

/* What the plugins shall answer and what they were told; zeroed for each test. */
struct seen {
    struct fn_answer fixed; /* verdict 0 = walk once around, then wait */
    int result;
    uint32_t decisions;
    uint32_t last_why;
    int32_t last_code;
    uint32_t inflight[8];
    const char *labels[8]; /* the last list's texts, which it has */
    uint32_t observed[8];
    int indexes;
    uint32_t wants;
    struct fn_demand demand;
    int stops;
    const char *group;
};

extern struct seen t;

extern struct fake_env *env;
extern struct fake_engage fe;
extern struct plugin placer;
extern struct plugin pool;
extern const struct fn_placer_ops placer_ops;
extern struct place *place;
extern int woken;
extern enum place_verdict last_verdict;

/* Ids from 1, in that order; the list ends with NULL. */
int publish(const char *group, const char *const *addresses);
#define PUBLISH(...) publish("default", (const char *const[]){ __VA_ARGS__, NULL })

struct place_call *begin(void);
void on_wake(struct place_call *pc);   /* of begun calls: counts in `woken` */
void ask_again(struct place_call *pc); /* for on_wake: what place_next() said is in last_verdict */
void end(struct place_call *pc);       /* well, and frees it */
void leave(struct place_call *pc);

/* A case of tests, each with a world of its own. */
TCase *world_case(const char *name, const TTest *const *tests, size_t n);
TCase *lists_tests(void);
TCase *long_lists_tests(void);
TCase *waiting_tests(void);
TCase *groups_tests(void);
TCase *distrust_tests(void);
TCase *counts_tests(void);
TCase *hints_tests(void);

#endif
