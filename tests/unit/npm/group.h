/* One group of a node pool manager with a scripted control plane: each test tells a story in virtual
 * seconds. Sums are checked at each step. */
#ifndef NPM_TEST_GROUP_H
#define NPM_TEST_GROUP_H

#include <check.h>
#include <npm/npm.h>

#define S NPM_S
#define MACHINES_N 64
#define RUNNER_MB 4096
#define NOTES_N 64

/* The cloud: what it lists, what it was asked, how it answers. */
struct cloud {
    struct fn_machine list[MACHINES_N];
    char ids[MACHINES_N][16], addresses[MACHINES_N][32];
    const char *labels[MACHINES_N]; /* of the machines to come; sorted by key */
    uint32_t n, named;
    uint32_t lists, provisions, removes, publishes;
    uint32_t asked;
    uint64_t last_request;
    uint32_t last_n, made_all_the_same;
    bool list_fails, provision_fails, unknown, silent_runners, deaf_remove, lost, deaf_status,
        deaf_provision, deaf_list, others;
    uint32_t active;
    uint32_t deliver_max;
};

extern struct cloud cloud;
extern struct npm_options options; /* of the group that group_begin() makes */
extern struct npm_budget budget;
extern struct npm_group *group;
extern struct npm_actions out; /* of the last step */
extern int64_t now_ns, next_ns;
extern uint32_t notes[NOTES_N];

void group_setup(void);
void group_teardown(void);
void group_begin(void);

void cloud_add(void);
void cloud_take(const char *id);

/* One event; the cloud answers what the group asks. */
void step(struct npm_event e);
/* Ticks as asked for, at most a second apart, with the demand told each second. */
void pass(int64_t seconds, uint64_t demand_mb);
struct npm_figures figures(void);

/* Each: the cases of a file. */
TCase *supply_tests(void);
TCase *drain_tests(void);
TCase *hosts_tests(void);

#endif
