/* The group that tests tell stories of, and its cloud. */
#include "group.h"

#include <stdio.h>
#include <string.h>

struct npm_options options;
struct npm_budget budget;
struct npm_group *group;
struct npm_actions out;
int64_t now_ns, next_ns;

struct cloud cloud;
uint32_t notes[NOTES_N];

void cloud_add(void)
{
    uint32_t i = cloud.named++;
    struct fn_machine *m = &cloud.list[cloud.n++];

    snprintf(cloud.ids[i], sizeof(cloud.ids[i]), "m%u", i);
    snprintf(cloud.addresses[i], sizeof(cloud.addresses[i]), "10.0.0.%u:9190", i);
    *m = (struct fn_machine){ sizeof(*m), FN_MACHINE_READY, cloud.ids[i], cloud.addresses[i],
                              RUNNER_MB, cloud.labels[i] };
}

void cloud_take(const char *id)
{
    for (uint32_t i = 0; i < cloud.n; i++) {
        if (strcmp(cloud.list[i].id, id) == 0) {
            memmove(&cloud.list[i], &cloud.list[i + 1], (cloud.n - i - 1) * sizeof(cloud.list[0]));
            cloud.n--;
            return;
        }
    }
}

static void answer_provision(const struct npm_action *a)
{
    struct npm_event e = { .kind = NPM_PROVISIONED, .n = a->n, .unknown = cloud.unknown };

    cloud.provisions++;
    cloud.asked += a->n;
    cloud.last_request = a->request_id;
    cloud.last_n = a->n;
    if (cloud.deaf_provision) {
        return;
    }
    if (cloud.provision_fails) {
        e.kind = NPM_PROVISION_FAILED;
        if (cloud.unknown && cloud.n < cloud.made_all_the_same) {
            cloud_add();
        }
    } else if (!cloud.lost) {
        e.n = a->n < cloud.deliver_max ? a->n : cloud.deliver_max;
        for (uint32_t i = 0; i < e.n; i++) {
            cloud_add();
        }
    }
    step(e);
}

static void answer(const struct npm_action *a)
{
    switch (a->kind) {
    case NPM_DO_LIST:
        cloud.lists++;
        if (cloud.deaf_list) {
            break;
        }
        step((struct npm_event){ .kind = cloud.list_fails ? NPM_LIST_FAILED : NPM_LISTED,
                                 .n = cloud.n,
                                 .standby = cloud.others,
                                 .machines = cloud.list });
        break;
    case NPM_DO_PROVISION:
        answer_provision(a);
        break;
    case NPM_DO_REMOVE:
        cloud.removes++;
        if (!cloud.deaf_remove) {
            cloud_take(a->id);
        }
        step((struct npm_event){ .kind = NPM_REMOVED });
        break;
    case NPM_DO_STATUS:
        if (cloud.deaf_status) {
            break;
        }
        step((struct npm_event){ .kind = cloud.silent_runners ? NPM_SILENT : NPM_REPORTED,
                                 .id = a->id,
                                 .active = cloud.active });
        break;
    case NPM_DO_PUBLISH:
        cloud.publishes++;
        break;
    case NPM_DO_NOTE:
        notes[a->note]++;
        break;
    }
}

static void check_sums(void)
{
    struct npm_figures f;
    uint64_t mb[NPM_STATES_N] = { 0 };
    uint32_t n[NPM_STATES_N] = { 0 };

    npm_figures(group, &f);
    for (uint32_t i = 0; i < npm_host_count(group); i++) {
        const struct npm_host *h = npm_host_at(group, i);

        mb[h->state] += h->capacity_mb;
        n[h->state]++;
    }
    ck_assert_int_eq(memcmp(mb, f.state_mb, sizeof(mb)), 0);
    ck_assert_int_eq(memcmp(n, f.state_n, sizeof(n)), 0);
    ck_assert_uint_eq(budget.runners, npm_host_count(group) - n[NPM_FOREIGN] + f.asked_n);
    ck_assert_uint_le(budget.runners, budget.runners_max + n[NPM_BOOTING]);
}

void step(struct npm_event e)
{
    struct npm_actions mine;

    next_ns = npm_step(group, &e, now_ns, &out);
    check_sums();
    ck_assert_int_ge(next_ns, now_ns);
    mine = out;
    for (uint32_t i = 0; i < mine.n; i++) {
        answer(&mine.list[i]);
    }
}

void pass(int64_t seconds, uint64_t demand_mb)
{
    static uint64_t seq;

    for (int64_t s = 0; s < seconds; s++) {
        step((struct npm_event){ .kind = NPM_DEMAND, .id = "lb1", .seq = ++seq, .mb = demand_mb });
        for (int i = 0; i < 4; i++) {
            now_ns += S / 4;
            step((struct npm_event){ .kind = NPM_TICK });
        }
    }
}

struct npm_figures figures(void)
{
    struct npm_figures f;

    npm_figures(group, &f);
    return f;
}

void group_begin(void)
{
    group = npm_group_create(&options, &budget, now_ns);
    ck_assert_ptr_nonnull(group);
}

void group_setup(void)
{
    struct npm_options o = NPM_OPTIONS_INIT;

    options = o;
    options.runners_max = 10;
    budget = (struct npm_budget){ .runners_max = 20, .request_last = 1000 };
    memset(&cloud, 0, sizeof(cloud));
    memset(notes, 0, sizeof(notes));
    cloud.deliver_max = MACHINES_N;
    now_ns = 1000 * S;
    group_begin();
}

void group_teardown(void)
{
    npm_group_destroy(group);
    ck_assert_uint_eq(budget.runners, 0);
}
